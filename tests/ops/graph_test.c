// SPDX-License-Identifier: MIT
// graph_test.c - steps captured in a CUDA graph: a replay plans, chooses and computes for what it finds in device memory then.
#include "kiln/ops/deepseek.h"
#include "kiln/ops/moe.h"
#include "kiln/ops/paged.h"
#include "kiln/ops/recurrent.h"
#include "../capture.h"
#include "support.h"

enum { B = 3, HQ = 4, SIZE = 64, PAGES = 12, EACH = 4, K = KILN_MLA_KEY, V = KILN_MLA_VALUE };

typedef struct Step {
    Array *q, *cache, *table, *lengths, *keys, *slots, *out, *lse, *plan, *workspace;
} Step;

static Step make_step(void)
{
    seed(5);
    Step s = { .q = ARRAY(KILN_BF16, B, 1, HQ, K),
               .cache = ARRAY(KILN_BF16, PAGES, SIZE, 1, K),
               .table = ARRAY(KILN_I32, B, EACH),
               .lengths = ARRAY(KILN_I32, B),
               .keys = ARRAY(KILN_BF16, B, 1, K),
               .slots = ARRAY(KILN_I32, B, 1),
               .out = ARRAY(KILN_BF16, B, 1, HQ, V),
               .lse = ARRAY(KILN_F32, B, HQ, 1),
               .plan = bytes_new(4096),
               .workspace = bytes_new(1 << 20) };
    fill_random(s.q, -1, 1);
    fill_random(s.cache, -0.3, 0.3);
    fill_random(s.keys, -0.3, 0.3);
    for (int i = 0; i < B * EACH; i++) set(s.table, i, (i * 5 + 1) % PAGES);
    array_send(s.table);
    return s;
}

static void send_lengths(const Step *s, const int *lengths)
{
    for (int b = 0; b < B; b++) set(s->lengths, b, lengths[b]);
    array_send(s->lengths);
}

static void run_step(const Step *s, kiln_stream *stream)
{
    const kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = HQ, .partitions = 5 };
    const kiln_tensor slots = kiln_tensor_of(device, s->slots->tensor.data, KILN_I32, 1, (int64_t[]){ B });
    kiln_mla_plan plan;
    assert_ok(kiln_mla_slots(ops, stream,
                             &(kiln_mla_slots_args){ .table = &s->table->tensor,
                                                     .lengths = &s->lengths->tensor,
                                                     .slots = &s->slots->tensor,
                                                     .page_size = SIZE }));
    assert_ok(kiln_mla_append(
        ops, stream, &(kiln_mla_append_args){ .keys = &s->keys->tensor, .slots = &slots, .cache = &s->cache->tensor }));
    assert_ok(kiln_mla_plan_make(ops, stream,
                                 &(kiln_mla_plan_args){ .shape = &shape,
                                                        .lengths = &s->lengths->tensor,
                                                        .memory = s->plan->tensor.data,
                                                        .memory_bytes = s->plan->bytes },
                                 &plan));
    assert_ok(kiln_mla_decode(ops, stream,
                              &(kiln_mla_decode_args){ .plan = &plan,
                                                       .q = &s->q->tensor,
                                                       .cache = &s->cache->tensor,
                                                       .table = &s->table->tensor,
                                                       .lengths = &s->lengths->tensor,
                                                       .out = &s->out->tensor,
                                                       .lse = &s->lse->tensor,
                                                       .workspace = s->workspace->tensor.data,
                                                       .workspace_bytes = s->workspace->bytes }));
}

static void a_step_is_captured(void **state)
{
    static const int some[B] = { 1, 64, 130 }, others[B] = { 200, 3, 255 };
    if (on_cpu()) skip_because("graphs are CUDA's");
    const Step captured = make_step(), plain = make_step();
    send_lengths(&captured, some);
    run_step(&captured, NULL); // the cache is appended to
    assert_ok(kiln_stream_wait(device, NULL));
    Capture c = begin_capture(device);
    run_step(&captured, c.stream);
    end_capture(&c);

    send_lengths(&plain, others);
    run_step(&plain, NULL);
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(plain.out);
    array_fetch(plain.lse);
    array_send(captured.cache); // as it was before the first step
    send_lengths(&captured, others);
    for (int i = 0; i < 2; i++) {
        replay(&c);
        array_fetch(captured.out);
        array_fetch(captured.lse);
        assert_memory_equal(captured.out->host, plain.out->host, plain.out->bytes);
        assert_memory_equal(captured.lse->host, plain.lse->host, plain.lse->bytes);
        memset(captured.out->host, 0xFF, captured.out->bytes);
        array_send(captured.out);
    }
    assert_false(isnan(get(plain.out, 0)));
    close_capture(&c);
}

// Indexer, selection and attention, in two parts of the queries; the windows change between replays.
static void sparse_attention_is_captured(void **state)
{
    enum { S = 18, KEYS = 70, HI = 8, DI = 32 };
    if (on_cpu()) skip_because("graphs are CUDA's");
    Array *const index_q = ARRAY(KILN_E4M3, S, HI, DI), *const index_k = ARRAY(KILN_E4M3, KEYS, DI),
                 *const scales = ARRAY(KILN_F32, KEYS), *const weights = ARRAY(KILN_F32, S, HI),
                 *const ends = ARRAY(KILN_I32, S), *const q = ARRAY(KILN_BF16, S, HQ, K),
                 *const kv = ARRAY(KILN_BF16, KEYS, K), *const out = ARRAY(KILN_BF16, S, HQ, V);
    seed(6);
    fill_random(index_q, -1, 1), fill_random(index_k, -1, 1), fill_random(scales, 0.5, 1), fill_random(weights, -1, 1);
    fill_random(q, -1, 1), fill_random(kv, -1, 1);
    for (int i = 0; i < S; i++) set(ends, i, KEYS);
    array_send(ends);
    kiln_indexed_attention_args a = { .index_q = &index_q->tensor,
                                      .index_k = &index_k->tensor,
                                      .index_scales = &scales->tensor,
                                      .index_weights = &weights->tensor,
                                      .ends = &ends->tensor,
                                      .q = &q->tensor,
                                      .kv = &kv->tensor,
                                      .out = &out->tensor,
                                      .topk = 16,
                                      .rows = 16 };
    assert_ok(kiln_indexed_attention_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    Capture c = begin_capture(device);
    assert_ok(kiln_indexed_attention(ops, c.stream, &a));
    end_capture(&c);
    for (int i = 0; i < S; i++) set(ends, i, i * 4);
    array_send(ends);
    replay(&c);
    array_fetch(out);
    double *const replayed = values(out);
    array_erase(out), array_send(out);
    assert_ok(kiln_indexed_attention(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    assert_close("out", out, replayed, (Tolerance){ 1e-30, 1e-30, 1e-12 });
    assert_true(get(out, 0) == 0 && get(out, count(out) - 1) != 0);
    close_capture(&c);
}

// Attention over a paged cache with a plan, which is made anew in each replay, for the lengths at that time.
static void a_paged_plan_is_captured(void **state)
{
    enum { H = 4, D = 64 };
    static const int some[B] = { 1, 64, 130 }, others[B] = { 200, 3, 255 };
    if (on_cpu()) skip_because("graphs are CUDA's");
    const Step step = make_step(); // its table and lengths
    Array *const q = ARRAY(KILN_F16, B, H, D), *const k = ARRAY(KILN_F16, PAGES, SIZE, 1, D),
                 *const v = ARRAY(KILN_F16, PAGES, SIZE, 1, D), *const out = ARRAY(KILN_F16, B, H, D);
    fill_random(q, -1, 1), fill_random(k, -1, 1), fill_random(v, -1, 1);
    send_lengths(&step, some);
    kiln_paged_plan plan;
    kiln_paged_plan_args batch = {
        .lengths = &step.lengths->tensor, .rows = B, .heads = H, .key_heads = 1, .size = D, .causal = true, .parts = 3
    };
    assert_ok(kiln_paged_plan_size(ops, &batch, &batch.memory_bytes));
    batch.memory = bytes_new(batch.memory_bytes)->tensor.data;
    assert_ok(kiln_paged_plan_make(ops, NULL, &batch, &plan));
    kiln_paged_attention_args a = { .plan = &plan,
                                    .q = &q->tensor,
                                    .k = &k->tensor,
                                    .v = &v->tensor,
                                    .table = &step.table->tensor,
                                    .lengths = &step.lengths->tensor,
                                    .out = &out->tensor,
                                    .causal = true };
    assert_ok(kiln_paged_attention_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_ok(kiln_stream_wait(device, NULL));
    Capture c = begin_capture(device);
    assert_ok(kiln_paged_plan_make(ops, c.stream, &batch, &plan));
    assert_ok(kiln_paged_attention(ops, c.stream, &a));
    end_capture(&c);
    send_lengths(&step, others);
    replay(&c);
    array_fetch(out);
    double *const replayed = values(out);
    array_erase(out), array_send(out);
    a.plan = NULL;
    assert_ok(kiln_paged_attention_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_ok(kiln_paged_attention(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    assert_close("out", out, replayed, (Tolerance){ 2e-3, 1e-2, 1e-6 });
    close_capture(&c);
}

// ---- layers whose sizes are decided on the device

enum { TOKENS = 70, HEADS = 2, HEAD = 32, MOST_OUTPUTS = 8 };

// What a graph is compared with: outputs after a replay and after plain calls, for other inputs than were captured.
typedef struct Layer {
    void (*run)(struct Layer *layer, kiln_stream *stream);
    Array *in[12], *out[MOST_OUTPUTS];
    void *args[3];
} Layer;

static void send_inputs(const Layer *layer)
{
    for (int i = 0; i < 12; i++)
        if (layer->in[i]) array_send(layer->in[i]);
}

static void erase_outputs(const Layer *layer)
{
    for (int i = 0; i < MOST_OUTPUTS; i++)
        if (layer->out[i]) array_erase(layer->out[i]), array_send(layer->out[i]);
}

static void *copy_of(const Array *x) { return memcpy(test_malloc(x->bytes), x->host, x->bytes); }

// `change` draws the inputs that differ.
static void check_captured(Layer *layer, void change(Layer *layer))
{
    void *replayed[MOST_OUTPUTS] = { 0 };
    send_inputs(layer);
    assert_ok(kiln_stream_wait(device, NULL));
    Capture c = begin_capture(device);
    layer->run(layer, c.stream);
    end_capture(&c);
    change(layer);
    send_inputs(layer), erase_outputs(layer);
    replay(&c);
    for (int i = 0; i < MOST_OUTPUTS; i++)
        if (layer->out[i]) array_fetch(layer->out[i]), replayed[i] = copy_of(layer->out[i]);
    send_inputs(layer), erase_outputs(layer);
    layer->run(layer, NULL);
    assert_ok(kiln_stream_wait(device, NULL));
    for (int i = 0; i < MOST_OUTPUTS; i++) {
        if (!layer->out[i]) continue;
        array_fetch(layer->out[i]);
        assert_memory_equal(layer->out[i]->host, replayed[i], layer->out[i]->bytes);
        assert_false(isnan(get(layer->out[i], 0)));
        test_free(replayed[i]);
    }
    close_capture(&c);
}

static void run_recurrence(Layer *layer, kiln_stream *stream)
{
    assert_ok(kiln_gdn_forward(ops, stream, layer->args[0]));
    assert_ok(kiln_gdn_backward(ops, stream, layer->args[1]));
    assert_ok(kiln_gdn_step(ops, stream, layer->args[2]));
}

static void draw_recurrence(Layer *layer)
{
    for (int i = 0; i < 5; i++)
        draw_random(layer->in[i], i == 3 ? -1 : i == 4 ? 0 : -0.2, i == 3 ? 0 : i == 4 ? 1 : 0.2);
    const int middle = (int)integer(1, TOKENS - 1);
    set(layer->in[5], 0, 0), set(layer->in[5], 1, middle), set(layer->in[5], 2, TOKENS);
    draw_random(layer->in[6], -1, 1), draw_random(layer->in[7], -1, 1);
}

static const kiln_tensor *of(const Array *x) { return &x->tensor; }

// Queries, keys, values, gates, strengths, offsets, gradients of the result, states; results in the order of the structs.
static Layer packed_layer(bool by_channel, void run(Layer *layer, kiln_stream *stream))
{
    Layer l = { .run = run };
    for (int i = 0; i < 3; i++) l.in[i] = ARRAY(KILN_BF16, 1, TOKENS, HEADS, HEAD);
    for (int i = 0; i < 2; i++)
        *(i ? &l.out[4] : &l.in[3]) =
            by_channel ? ARRAY(KILN_F32, 1, TOKENS, HEADS, HEAD) : ARRAY(KILN_F32, 1, TOKENS, HEADS);
    l.in[4] = ARRAY(KILN_F32, 1, TOKENS, HEADS), l.in[5] = ARRAY(KILN_I32, 3);
    l.in[6] = ARRAY(KILN_BF16, 1, TOKENS, HEADS, HEAD), l.in[7] = ARRAY(KILN_F32, 1, HEADS, HEAD, HEAD);
    for (int i = 0; i < 4; i++) l.out[i] = ARRAY(KILN_BF16, 1, TOKENS, HEADS, HEAD);
    l.out[6] = ARRAY(KILN_F32, 2, HEADS, HEAD, HEAD), l.out[7] = ARRAY(KILN_BF16, 1, 1, HEADS, HEAD);
    return l;
}

static kiln_tensor first_token(const Array *x)
{
    kiln_tensor first = x->tensor;
    first.shape[1] = 1;
    return first;
}

// Forward, gradients and a token more of two packed sequences, whose lengths change between replays.
static void delta_nets_are_captured(bool by_channel)
{
    Layer l = packed_layer(by_channel, run_recurrence);
    l.out[5] = ARRAY(KILN_F32, 1, TOKENS, HEADS);
    kiln_gdn_args forward = { .q = of(l.in[0]), .k = of(l.in[1]), .v = of(l.in[2]), .gates = of(l.in[3]) };
    kiln_gdn_backward_args back = { .q = of(l.in[0]), .k = of(l.in[1]), .v = of(l.in[2]), .gates = of(l.in[3]) };
    forward.beta = back.beta = of(l.in[4]), forward.offsets = back.offsets = of(l.in[5]);
    forward.normalize = back.normalize = true;
    forward.out = of(l.out[0]), forward.final_states = of(l.out[6]), back.dout = of(l.in[6]);
    back.dq = of(l.out[1]), back.dk = of(l.out[2]), back.dv = of(l.out[3]);
    back.dgates = of(l.out[4]), back.dbeta = of(l.out[5]);
    kiln_tensor first[5];
    for (int i = 0; i < 5; i++) first[i] = first_token(l.in[i]);
    kiln_gdn_step_args step = { .q = &first[0], .k = &first[1], .v = &first[2], .gates = &first[3], .beta = &first[4] };
    step.states = of(l.in[7]), step.out = of(l.out[7]);
    assert_ok(kiln_gdn_forward_workspace_size(ops, &forward, &forward.workspace_bytes));
    assert_ok(kiln_gdn_backward_workspace_size(ops, &back, &back.workspace_bytes));
    forward.workspace = bytes_new(forward.workspace_bytes)->tensor.data;
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    l.args[0] = &forward, l.args[1] = &back, l.args[2] = &step;
    draw_recurrence(&l);
    check_captured(&l, draw_recurrence);
}

static void recurrences_are_captured(void **state)
{
    if (on_cpu()) skip_because("graphs are CUDA's");
    delta_nets_are_captured(false);
    delta_nets_are_captured(true);
}

static void run_linear(Layer *layer, kiln_stream *stream)
{
    assert_ok(kiln_linear_attention_forward(ops, stream, layer->args[0]));
    assert_ok(kiln_linear_attention_backward(ops, stream, layer->args[1]));
    assert_ok(kiln_linear_attention_step(ops, stream, layer->args[2]));
}

static void linear_attention_is_captured(void **state)
{
    if (on_cpu()) skip_because("graphs are CUDA's");
    Layer l = packed_layer(false, run_linear);
    kiln_linear_attention_args forward = { .q = of(l.in[0]), .k = of(l.in[1]), .v = of(l.in[2]), .gates = of(l.in[3]) };
    kiln_linear_attention_backward_args back = { .q = of(l.in[0]), .k = of(l.in[1]), .v = of(l.in[2]) };
    back.gates = of(l.in[3]), forward.offsets = back.offsets = of(l.in[5]);
    forward.out = of(l.out[0]), forward.final_states = of(l.out[6]), back.dout = of(l.in[6]);
    back.dq = of(l.out[1]), back.dk = of(l.out[2]), back.dv = of(l.out[3]), back.dgates = of(l.out[4]);
    kiln_tensor first[4];
    for (int i = 0; i < 4; i++) first[i] = first_token(l.in[i]);
    kiln_linear_attention_step_args step = { .q = &first[0], .k = &first[1], .v = &first[2], .gates = &first[3] };
    step.states = of(l.in[7]), step.out = of(l.out[7]);
    assert_ok(kiln_linear_attention_forward_workspace_size(ops, &forward, &forward.workspace_bytes));
    assert_ok(kiln_linear_attention_backward_workspace_size(ops, &back, &back.workspace_bytes));
    forward.workspace = bytes_new(forward.workspace_bytes)->tensor.data;
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    l.args[0] = &forward, l.args[1] = &back, l.args[2] = &step;
    draw_recurrence(&l);
    check_captured(&l, draw_recurrence);
}

static void run_mamba2(Layer *layer, kiln_stream *stream)
{
    assert_ok(kiln_mamba2_forward(ops, stream, layer->args[0]));
    assert_ok(kiln_mamba2_backward(ops, stream, layer->args[1]));
    assert_ok(kiln_mamba2_step(ops, stream, layer->args[2]));
}

static void draw_mamba2(Layer *layer)
{
    for (int i = 0; i < 6; i++) draw_random(layer->in[i], i == 2 ? -2 : -0.5, i == 2 ? -0.01 : 0.5);
    draw_random(layer->in[6], -1, 1);
}

// The states that the step goes on from are inputs: each run begins with the same.
static void mamba2_is_captured(void **state)
{
    enum { P = 64, N = 128 }; // by one scan
    if (on_cpu()) skip_because("graphs are CUDA's");
    Layer l = { .run = run_mamba2 };
    for (int i = 0; i < 2; i++) {
        Array **const to = i ? l.out + 1 : l.in; // x, dt, a, b, c and their gradients
        to[0] = ARRAY(KILN_BF16, 1, TOKENS, HEADS, P), to[1] = ARRAY(KILN_BF16, 1, TOKENS, HEADS);
        to[2] = ARRAY(KILN_F32, HEADS), to[3] = ARRAY(KILN_BF16, 1, TOKENS, 1, N);
        to[4] = ARRAY(KILN_BF16, 1, TOKENS, 1, N);
    }
    l.in[5] = ARRAY(KILN_BF16, 1, TOKENS, HEADS, P), l.in[6] = ARRAY(KILN_F32, 1, HEADS, P, N);
    l.out[0] = ARRAY(KILN_BF16, 1, TOKENS, HEADS, P), l.out[6] = ARRAY(KILN_F32, 1, HEADS, P, N);
    l.out[7] = ARRAY(KILN_BF16, 1, 1, HEADS, P);
    kiln_mamba2_args forward = { .x = of(l.in[0]), .dt = of(l.in[1]), .a = of(l.in[2]), .b = of(l.in[3]) };
    forward.c = of(l.in[4]), forward.out = of(l.out[0]), forward.final_states = of(l.out[6]);
    kiln_mamba2_backward_args back = { .x = of(l.in[0]), .dt = of(l.in[1]), .a = of(l.in[2]), .b = of(l.in[3]) };
    back.c = of(l.in[4]), back.dout = of(l.in[5]), back.dx = of(l.out[1]), back.ddt = of(l.out[2]);
    back.da = of(l.out[3]), back.db = of(l.out[4]), back.dc = of(l.out[5]);
    const kiln_tensor x = first_token(l.in[0]), dt = first_token(l.in[1]), b = first_token(l.in[3]),
                      c = first_token(l.in[4]);
    kiln_mamba2_step_args step = { .x = &x, .dt = &dt, .a = of(l.in[2]), .b = &b, .c = &c };
    step.states = of(l.in[6]), step.out = of(l.out[7]);
    assert_ok(kiln_mamba2_forward_workspace_size(ops, &forward, &forward.workspace_bytes));
    assert_ok(kiln_mamba2_backward_workspace_size(ops, &back, &back.workspace_bytes));
    forward.workspace = bytes_new(forward.workspace_bytes)->tensor.data;
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    l.args[0] = &forward, l.args[1] = &back, l.args[2] = &step;
    draw_mamba2(&l);
    check_captured(&l, draw_mamba2);
}

static void run_convolution(Layer *layer, kiln_stream *stream)
{
    assert_ok(kiln_causal_conv(ops, stream, layer->args[0]));
    assert_ok(kiln_causal_conv_backward(ops, stream, layer->args[1]));
    assert_ok(kiln_causal_conv_step(ops, stream, layer->args[2]));
}

static void draw_convolution(Layer *layer)
{
    for (int i = 0; i < 4; i++) draw_random(layer->in[i], -1, 1);
}

static void convolutions_are_captured(void **state)
{
    enum { D = 72, W = 4 };
    if (on_cpu()) skip_because("graphs are CUDA's");
    Layer l = { .run = run_convolution };
    l.in[0] = ARRAY(KILN_BF16, 1, TOKENS, D), l.in[1] = ARRAY(KILN_BF16, D, W);
    l.in[2] = ARRAY(KILN_BF16, 1, TOKENS, D), l.in[3] = ARRAY(KILN_BF16, 1, W - 1, D);
    l.out[0] = ARRAY(KILN_BF16, 1, TOKENS, D), l.out[1] = ARRAY(KILN_BF16, 1, TOKENS, D);
    l.out[2] = ARRAY(KILN_BF16, D, W), l.out[3] = ARRAY(KILN_BF16, 1, 1, D);
    kiln_causal_conv_args forward = { .x = of(l.in[0]), .filter = of(l.in[1]), .out = of(l.out[0]) };
    kiln_causal_conv_backward_args back = { .x = of(l.in[0]), .filter = of(l.in[1]), .dout = of(l.in[2]) };
    back.dx = of(l.out[1]), back.dfilter = of(l.out[2]);
    const kiln_tensor x = first_token(l.in[0]);
    kiln_causal_conv_step_args step = { .x = &x, .filter = of(l.in[1]), .states = of(l.in[3]), .out = of(l.out[3]) };
    assert_ok(kiln_causal_conv_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    l.args[0] = &forward, l.args[1] = &back, l.args[2] = &step;
    draw_convolution(&l);
    check_captured(&l, draw_convolution);
}

static void run_experts(Layer *layer, kiln_stream *stream) { assert_ok(kiln_moe(ops, stream, layer->args[0])); }

static void draw_experts(Layer *layer)
{
    for (int i = 0; i < 6; i++) draw_random(layer->in[i], -0.5, 0.5);
}

// Which experts have how many rows is known to the device alone: nothing is read back.
static void experts_are_captured(void **state)
{
    enum { M = 9, E = 6, D = 64, F = 32 };
    if (on_cpu()) skip_because("graphs are CUDA's");
    Layer l = { .run = run_experts };
    l.in[0] = ARRAY(KILN_BF16, M, D), l.in[1] = ARRAY(KILN_F32, M, E), l.in[2] = ARRAY(KILN_BF16, E, 2 * F, D);
    l.in[3] = ARRAY(KILN_BF16, E, D, F), l.in[4] = ARRAY(KILN_BF16, 2 * F, D), l.in[5] = ARRAY(KILN_BF16, D, F);
    l.out[0] = ARRAY(KILN_BF16, M, D);
    kiln_moe_args args = {
        .x = &l.in[0]->tensor, .logits = &l.in[1]->tensor, .gate_up = &l.in[2]->tensor, .down = &l.in[3]->tensor
    };
    args.shared_gate_up = &l.in[4]->tensor, args.shared_down = &l.in[5]->tensor, args.out = &l.out[0]->tensor,
    args.top_k = 2;
    assert_ok(kiln_moe_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    l.args[0] = &args;
    draw_experts(&l);
    check_captured(&l, draw_experts);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(a_step_is_captured, free_arrays),
                                        cmocka_unit_test_teardown(a_paged_plan_is_captured, free_arrays),
                                        cmocka_unit_test_teardown(sparse_attention_is_captured, free_arrays),
                                        cmocka_unit_test_teardown(recurrences_are_captured, free_arrays),
                                        cmocka_unit_test_teardown(linear_attention_is_captured, free_arrays),
                                        cmocka_unit_test_teardown(mamba2_is_captured, free_arrays),
                                        cmocka_unit_test_teardown(convolutions_are_captured, free_arrays),
                                        cmocka_unit_test_teardown(experts_are_captured, free_arrays) };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
