// SPDX-License-Identifier: MIT
// paged_test.c - attention over paged keys and values, and appending to them, against the kernels' references.
#include "kiln/ops/paged.h"
#include "support.h"

#include <inttypes.h>

enum { REQUESTS_MAX = 8 };

// A batch: of each request its new tokens and its keys, these included.
typedef struct Batch {
    kiln_type type;
    int requests, heads, key_heads, size, value_size, page;
    int queries[REQUESTS_MAX], keys[REQUESTS_MAX];
} Batch;

typedef struct Tensors {
    Array *q, *k, *v, *table, *lengths, *offsets, *out, *lse;
} Tensors;

static const char *yes(bool is) { return is ? "true" : "false"; }

static Array *numbers_of(const int *x, int n)
{
    Array *const a = ARRAY(KILN_I32, n);
    for (int i = 0; i < n; i++) set(a, i, x[i]);
    array_send(a);
    return a;
}

// Slots after a request's keys are NaN; entries of the table after its pages are no pages.
static Tensors make(const Batch *b)
{
    int offsets[REQUESTS_MAX + 1] = { 0 }, longest = 1;
    for (int i = 0; i < b->requests; i++) {
        offsets[i + 1] = offsets[i] + b->queries[i];
        longest = b->keys[i] > longest ? b->keys[i] : longest;
    }
    const int rows = offsets[b->requests], each = (longest + b->page - 1) / b->page, pages = b->requests * each;
    seed((unsigned)(rows * 31 + longest));
    Tensors t = { .q = ARRAY(b->type, rows, b->heads, b->size),
                  .k = ARRAY(b->type, pages, b->page, b->key_heads, b->size),
                  .v = ARRAY(b->type, pages, b->page, b->key_heads, b->value_size),
                  .table = ARRAY(KILN_I32, b->requests, each),
                  .lengths = numbers_of(b->keys, b->requests),
                  .offsets = numbers_of(offsets, b->requests + 1),
                  .out = ARRAY(b->type, rows, b->heads, b->value_size),
                  .lse = ARRAY(KILN_F32, rows, b->heads) };
    fill_random(t.q, -1, 1);
    fill_random(t.k, -1, 1);
    fill_random(t.v, -0.5, 0.5);
    int32_t *const order = malloc(sizeof *order * (size_t)pages);
    permute(order, pages);
    for (int i = 0; i < pages; i++) {
        const int used = b->keys[i / each] - i % each * b->page;
        for (int j = used > 0 ? used : 0; j < b->page; j++) {
            const int64_t slot = (int64_t)order[i] * b->page + j;
            for (int d = 0; d < b->key_heads * b->size; d++) set(t.k, slot * b->key_heads * b->size + d, NAN);
            for (int d = 0; d < b->key_heads * b->value_size; d++)
                set(t.v, slot * b->key_heads * b->value_size + d, NAN);
        }
        set(t.table, i, used > 0 ? order[i] : -9);
    }
    free(order);
    array_send(t.k);
    array_send(t.v);
    array_send(t.table);
    return t;
}

static kiln_paged_attention_args args_of(const Tensors *t)
{
    return (kiln_paged_attention_args){ .q = &t->q->tensor,
                                        .k = &t->k->tensor,
                                        .v = &t->v->tensor,
                                        .table = &t->table->tensor,
                                        .lengths = &t->lengths->tensor,
                                        .q_offsets = &t->offsets->tensor,
                                        .out = &t->out->tensor,
                                        .lse = &t->lse->tensor,
                                        .causal = true };
}

static void run(kiln_paged_attention_args *a)
{
    assert_ok(kiln_paged_attention_workspace_size(ops, a, &a->workspace_bytes));
    a->workspace = bytes_new(a->workspace_bytes)->tensor.data;
    assert_ok(kiln_paged_attention(ops, NULL, a));
    assert_ok(kiln_stream_wait(device, NULL));
}

static const Array *const none[4];

// `more`: slopes, sinks, scales of keys and of values, or NULL.
static void compare(const Batch *b, const Tensors *t, const kiln_paged_attention_args *a, const Array *const *more)
{
    char bindings[240];
    const kiln_tensor *const out = host_result(t->out), *const lse = host_result(t->lse);
    snprintf(bindings, sizeof bindings,
             "T=f32, D=%d, DV=%d, G=%d, PS=%d, CAUSAL=%s, WINDOW=%d, CAP=%s, MANY=false%s%s%s%s", b->size,
             b->value_size, b->heads / b->key_heads, b->page, yes(a->causal), (int)a->window, yes(a->softcap > 0),
             more[0] ? "" : ", SLOPE=none", more[1] ? "" : ", SINK=none", more[2] ? "" : ", KSCALE=none",
             more[3] ? "" : ", VSCALE=none");
    const kiln_arg args[] = { KILN_TENSOR(host_copy(t->q)),
                              KILN_TENSOR(host_copy(t->k)),
                              KILN_TENSOR(host_copy(t->v)),
                              KILN_TENSOR(host_copy(t->table)),
                              KILN_TENSOR(host_copy(t->lengths)),
                              KILN_TENSOR(host_copy(t->offsets)),
                              more[0] ? KILN_TENSOR(host_copy(more[0])) : KILN_NONE,
                              more[1] ? KILN_TENSOR(host_copy(more[1])) : KILN_NONE,
                              more[2] ? KILN_TENSOR(host_copy(more[2])) : KILN_NONE,
                              more[3] ? KILN_TENSOR(host_copy(more[3])) : KILN_NONE,
                              KILN_TENSOR(out),
                              KILN_TENSOR(lse),
                              KILN_INT(1),
                              KILN_FLOAT(a->scale ? *a->scale : 1 / sqrt(b->size)),
                              KILN_FLOAT(a->softcap > 0 ? a->softcap : 1) };
    run_reference("attention/paged.tile", "paged_attention", bindings, args, 15);
    array_fetch(t->out);
    assert_close("out", t->out, numbers(out), (Tolerance){ 1e-3, 8.01 / 128, 7e-6 });
    if (!a->lse) return;
    array_fetch(t->lse);
    assert_close("lse", t->lse, numbers(lse), (Tolerance){ 1e-6, 2.01 / 65536, 1e-7 });
}

// ---- attention

static void decoding(void **state)
{
    const Batch b = { KILN_BF16, 4, 8, 2, 64, 64, 16, { 1, 1, 1, 1 }, { 77, 0, 500, 16 } };
    const Tensors t = make(&b);
    kiln_paged_attention_args a = args_of(&t);
    a.q_offsets = NULL; // one row of each
    for (int splits = 0; splits < 8; splits += 7) {
        a.splits = splits;
        run(&a);
        compare(&b, &t, &a, none);
        array_erase(t.out);
        array_send(t.out);
    }
    array_unchanged(t.q, "q");
    array_unchanged(t.k, "k");
    array_unchanged(t.v, "v");
}

// A chunk of a long prompt, a whole short one, a few drafts, one token, nothing; with as many queries as they say, and unsaid.
static const Batch mixed = { KILN_F16, 5, 6, 2, 64, 32, 24, { 70, 33, 4, 1, 0 }, { 300, 33, 150, 81, 40 } };

static void mixed_batches(void **state)
{
    const Tensors t = make(&mixed);
    kiln_paged_attention_args a = args_of(&t);
    a.max_queries = 70;
    run(&a);
    compare(&mixed, &t, &a, none);
    a.max_queries = 0;
    a.scale = &(double){ 0.3 };
    a.lse = NULL;
    run(&a);
    compare(&mixed, &t, &a, none);
}

// Heads before tokens in each page, rows that lie apart, tables at any place; all options.
static void options_and_strides(void **state)
{
    Batch b = { KILN_F16, 3, 6, 2, 64, 32, 24, { 2, 5, 3 }, { 300, 33, 150 } };
    Tensors t = make(&b);
    Array *const slopes = ARRAY(KILN_F32, 6), *const sinks = ARRAY(KILN_F32, 6);
    fill_random(slopes, 0, 0.5);
    fill_random(sinks, -2, 2);
    const kiln_tensor table = moved_away(t.table), lengths = moved_away(t.lengths);
    Array *const q = array_spread(t.q, false), *const k = array_spread(t.k, true), *const v = array_spread(t.v, true);
    kiln_paged_attention_args a = args_of(&t);
    a.q = &q->tensor, a.k = &k->tensor, a.v = &v->tensor, a.table = &table, a.lengths = &lengths;
    a.slopes = &slopes->tensor, a.sinks = &sinks->tensor, a.softcap = 3, a.window = 40, a.max_queries = 5;
    run(&a);
    compare(&b, &t, &a, (const Array *[]){ slopes, sinks, NULL, NULL });
}

// ---- plans

// The plan for calls of these arguments.
static kiln_paged_plan plan_of(const Batch *b, const kiln_paged_attention_args *a, int parts)
{
    kiln_paged_plan plan;
    kiln_paged_plan_args p = { .lengths = a->lengths,
                               .q_offsets = a->q_offsets,
                               .rows = a->q->shape[0],
                               .max_queries = a->max_queries,
                               .heads = b->heads,
                               .key_heads = b->key_heads,
                               .size = b->size,
                               .value_size = b->value_size,
                               .eight_bit = a->k->type == KILN_E4M3,
                               .causal = a->causal,
                               .window = a->window,
                               .parts = parts };
    assert_ok(kiln_paged_plan_size(ops, &p, &p.memory_bytes));
    p.memory = bytes_new(p.memory_bytes)->tensor.data;
    assert_ok(kiln_paged_plan_make(ops, NULL, &p, &plan));
    return plan;
}

// Tiles of few rows and of many, cut wherever parts end.
static void planned(void **state)
{
    const Batch few = { KILN_BF16, 4, 8, 2, 64, 64, 16, { 1, 1, 1, 1 }, { 77, 0, 1500, 16 } };
    for (int many = 0; many < 2; many++) {
        const Batch *const b = many ? &mixed : &few;
        const Tensors t = make(b);
        kiln_paged_attention_args a = args_of(&t);
        if (!many) a.q_offsets = NULL;
        for (int parts = 0; parts < 6; parts += 5) {
            const kiln_paged_plan plan = plan_of(b, &a, parts);
            a.plan = &plan;
            run(&a);
            compare(b, &t, &a, none);
            array_erase(t.out);
            array_send(t.out);
        }
    }
}

static void plans_of_nothing(void **state)
{
    const Batch b = { KILN_BF16, 0, 8, 2, 64, 64, 16, { 0 }, { 0 } };
    const Tensors t = make(&b);
    kiln_paged_attention_args a = args_of(&t);
    const kiln_paged_plan plan = plan_of(&b, &a, 0);
    a.plan = &plan;
    run(&a);
}

static void nothing_to_do(void **state)
{
    const Batch b = { KILN_BF16, 0, 8, 2, 64, 64, 16, { 0 }, { 0 } };
    const Tensors t = make(&b);
    kiln_paged_attention_args a = args_of(&t);
    run(&a);
}

// ---- appending

// Slots and positions of a mixed batch; keys go there turned, values as they are; then rows see them.
static void appending(void **state)
{
    const Batch b = { KILN_BF16, 4, 8, 2, 64, 64, 16, { 3, 1, 0, 20 }, { 40, 17, 8, 20 } };
    const Tensors t = make(&b);
    const int n = 24;
    Array *const keys = ARRAY(KILN_BF16, n, 2, 64), *const news = ARRAY(KILN_BF16, n, 2, 64),
                 *const slots = ARRAY(KILN_I32, n), *const positions = ARRAY(KILN_I32, n);
    fill_random(keys, -1, 1);
    fill_random(news, -1, 1);
    assert_ok(kiln_paged_slots(ops, NULL,
                               &(kiln_paged_slots_args){ .table = &t.table->tensor,
                                                         .lengths = &t.lengths->tensor,
                                                         .q_offsets = &t.offsets->tensor,
                                                         .slots = &slots->tensor,
                                                         .positions = &positions->tensor,
                                                         .page_size = b.page }));
    assert_ok(kiln_paged_append(
        ops, NULL,
        &(kiln_paged_append_args){ .keys = &keys->tensor,
                                   .values = &news->tensor,
                                   .slots = &slots->tensor,
                                   .positions = &positions->tensor,
                                   .k = &t.k->tensor,
                                   .v = &t.v->tensor,
                                   .rotary = &(kiln_rotary){ .style = KILN_ROTARY_INTERLEAVED, .size = 64 } }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(slots);
    array_fetch(positions);
    const int pages = (int)t.table->tensor.shape[1];
    for (int r = 0, i = 0; r < b.requests; r++)
        for (int j = 0; j < b.queries[r]; j++, i++) {
            const int at = b.keys[r] - b.queries[r] + j;
            const int64_t slot = (int64_t)get(t.table, r * pages + at / b.page) * b.page + at % b.page;
            if (get(positions, i) != at || get(slots, i) != (double)slot)
                fail_msg("token %d of request %d: position %g, slot %g", j, r, get(positions, i), get(slots, i));
            for (int d = 0; d < 128; d++) { // the mirrors become what is expected
                const int pair = d % 64 / 2, sign = d % 2 ? 1 : -1;
                const double angle = at * pow(10000, -2.0 * pair / 64);
                set(t.k, slot * 128 + d,
                    get(keys, i * 128 + d) * cos(angle) + sign * get(keys, i * 128 + (d ^ 1)) * sin(angle));
                set(t.v, slot * 128 + d, get(news, i * 128 + d));
            }
        }
    array_unchanged(t.v, "v");
    const double *const expected = values(t.k);
    array_fetch(t.k);
    for (int64_t i = 0; i < count(t.k); i++)
        if (!(fabs(get(t.k, i) - expected[i]) <= 0.01) && !(isnan(get(t.k, i)) && isnan(expected[i])))
            fail_msg("value %" PRId64 " of the keys is %g, expected %g", i, get(t.k, i), expected[i]);
}

static void appending_as_they_are(void **state)
{
    enum { N = 5, PAGES = 3, SIZE = 4 };
    static const int to[N] = { 7, -1, 11, PAGES * SIZE, 0 };
    Array *const keys = ARRAY(KILN_F16, N, 3, 32), *const values = ARRAY(KILN_F16, N, 3, 16),
                 *const slots = numbers_of(to, N);
    Array *const k = ARRAY(KILN_F16, PAGES, SIZE, 3, 32), *const v = ARRAY(KILN_F16, PAGES, SIZE, 3, 16);
    seed(9);
    fill_random(keys, -1, 1);
    fill_random(values, -1, 1);
    assert_ok(kiln_paged_append(ops, NULL,
                                &(kiln_paged_append_args){ .keys = &keys->tensor,
                                                           .values = &values->tensor,
                                                           .slots = &slots->tensor,
                                                           .k = &k->tensor,
                                                           .v = &v->tensor }));
    assert_ok(kiln_stream_wait(device, NULL));
    for (int i = 0; i < N; i++) {
        if (to[i] < 0 || to[i] >= PAGES * SIZE) continue;
        for (int d = 0; d < 3 * 32; d++) set(k, to[i] * 3 * 32 + d, get(keys, i * 3 * 32 + d));
        for (int d = 0; d < 3 * 16; d++) set(v, to[i] * 3 * 16 + d, get(values, i * 3 * 16 + d));
    }
    array_unchanged(k, "k");
    array_unchanged(v, "v");
}

// A prompt goes into caches of e4m3, and is attended to.
static void eight_bit_caches(void **state)
{
    const Batch b = { KILN_BF16, 1, 4, 2, 64, 64, 16, { 40 }, { 40 } };
    Tensors t = make(&b);
    Array *const keys = ARRAY(KILN_BF16, 40, 2, 64), *const news = ARRAY(KILN_BF16, 40, 2, 64),
                 *const slots = ARRAY(KILN_I32, 40), *const k_scales = ARRAY(KILN_F32, 2),
                 *const v_scales = ARRAY(KILN_F32, 2);
    t.k = ARRAY(KILN_E4M3, 3, 16, 2, 64), t.v = ARRAY(KILN_E4M3, 3, 16, 2, 64); // NaN where nothing is written
    fill_random(keys, -1, 1);
    fill_random(news, -0.5, 0.5);
    fill_random(k_scales, 0.01, 0.02);
    fill_random(v_scales, 0.01, 0.02);
    assert_ok(kiln_paged_slots(
        ops, NULL,
        &(kiln_paged_slots_args){
            .table = &t.table->tensor, .lengths = &t.lengths->tensor, .slots = &slots->tensor, .page_size = b.page }));
    assert_ok(kiln_paged_append(ops, NULL,
                                &(kiln_paged_append_args){ .keys = &keys->tensor,
                                                           .values = &news->tensor,
                                                           .slots = &slots->tensor,
                                                           .k = &t.k->tensor,
                                                           .v = &t.v->tensor,
                                                           .k_scales = &k_scales->tensor,
                                                           .v_scales = &v_scales->tensor }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(t.k);
    array_fetch(t.v);
    array_fetch(slots);
    for (int i = 0; i < 40 * 128; i++) {
        const int64_t at = (int64_t)get(slots, i / 128) * 128 + i % 128;
        const double got = get(t.k, at) * get(k_scales, i / 64 % 2), expected = get(keys, i);
        if (!(fabs(got - expected) <= 0.07 * fabs(expected) + 1e-3))
            fail_msg("value %d is %g, expected %g", i, got, expected);
    }
    kiln_paged_attention_args a = args_of(&t);
    a.q_offsets = NULL;
    a.k_scales = &k_scales->tensor, a.v_scales = &v_scales->tensor;
    run(&a);
    compare(&b, &t, &a, (const Array *[]){ NULL, NULL, k_scales, v_scales });
}

// ---- refusals

static void refused_attention(void **state)
{
    const Batch b = { KILN_BF16, 3, 8, 2, 64, 64, 16, { 1, 1, 1 }, { 77, 3, 50 } };
    const Tensors t = make(&b);
    kiln_paged_attention_args a = args_of(&t);
    kiln_tensor q = t.q->tensor, k = t.k->tensor;
    a.q = &q, a.k = &k;
#define CALL kiln_paged_attention(ops, NULL, &a)
    REFUSED(CALL, a, a.table = NULL, KILN_BAD_ARGUMENT, "kiln_paged_attention: 'table' is null");
    REFUSED(CALL, a, a.window = -1, KILN_BAD_ARGUMENT, "'window' is -1");
    REFUSED(CALL, a, a.softcap = -1, KILN_BAD_ARGUMENT, "'softcap' is -1, expected 1e-30 to 1e30, or 0 for none");
    REFUSED(CALL, a, a.softcap = NAN, KILN_BAD_ARGUMENT, "'softcap' is");
    REFUSED(CALL, a, a.splits = 65537, KILN_BAD_ARGUMENT, "'splits' is 65537, expected 0 to 65536");
    REFUSED(CALL, a, a.max_queries = -1, KILN_BAD_ARGUMENT, "'max_queries' is -1");
    REFUSED(CALL, a, a.max_keys = -1, KILN_BAD_ARGUMENT, "'max_keys' is -1");
    REFUSED(CALL, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED(CALL, a, a.out = a.q, KILN_BAD_ARGUMENT, "overlap");
    REFUSED_TENSOR(CALL, q, shape[1] = 7, KILN_BAD_SHAPE, "dimension 1 of 'out' is 8, expected 7");
    kiln_tensor no_heads = t.out->tensor;
    no_heads.shape[1] = 0;
    REFUSED(CALL, a, (a.out = &no_heads, a.q = &no_heads, a.lse = a.slopes = a.sinks = NULL), KILN_BAD_SHAPE,
            "'q' has no heads (H = 0), expected some");
    REFUSED_TENSOR(CALL, k, shape[1] = 8, KILN_BAD_SHAPE, "dimension 1 of 'v' is 16, expected 8");
    REFUSED_TENSOR(CALL, k, shape[3] = 32, KILN_BAD_SHAPE, "dimension 3 of 'k' is 32, expected 64");
    REFUSED_TENSOR(CALL, k, type = KILN_F16, KILN_BAD_TYPE, "'k' is a tensor of f16, expected bf16 or e4m3");
    array_unchanged(t.out, "the output of a refused call");
#undef CALL
}

static void refused_plans(void **state)
{
    const Batch b = { KILN_BF16, 3, 8, 2, 64, 64, 16, { 1, 1, 1 }, { 77, 3, 50 } };
    const Tensors t = make(&b);
    kiln_paged_attention_args a = args_of(&t);
    kiln_paged_plan plan = plan_of(&b, &a, 3), none_at_all = { 0 };
    a.plan = &plan;
    kiln_tensor q = t.q->tensor;
    a.q = &q;
#define CALL kiln_paged_attention(ops, NULL, &a)
    REFUSED(CALL, a, a.plan = &none_at_all, KILN_BAD_ARGUMENT,
            "kiln_paged_attention: 'plan' was not made by kiln_paged_plan_make");
    REFUSED(CALL, a, a.causal = false, KILN_BAD_ARGUMENT, "'plan' was made for another 'causal' than this call's");
    REFUSED(CALL, a, a.window = 9, KILN_BAD_ARGUMENT, "'plan' was made for another 'window'");
    REFUSED(CALL, a, a.q_offsets = NULL, KILN_BAD_ARGUMENT, "'plan' was made for another 'q_offsets'");
    REFUSED(CALL, a, a.splits = 2, KILN_BAD_ARGUMENT, "'splits' is 2, expected 0 with a plan");
    REFUSED_TENSOR(CALL, q, shape[0] = 2, KILN_BAD_SHAPE, "dimension 0 of 'q' is 2, expected 3");
    array_unchanged(t.out, "the output of a refused call");
#undef CALL
    kiln_paged_plan_args p = { .lengths = a.lengths, .rows = 3, .heads = 8, .key_heads = 2, .size = 64 };
    assert_ok(kiln_paged_plan_size(ops, &p, &p.memory_bytes));
    p.memory = bytes_new(p.memory_bytes)->tensor.data;
#define CALL kiln_paged_plan_make(ops, NULL, &p, &plan)
    REFUSED(CALL, p, p.rows = 4, KILN_BAD_SHAPE, "'rows' are not a multiple of 3 requests (of 'lengths')");
    REFUSED(CALL, p, p.heads = 0, KILN_BAD_ARGUMENT, "kiln_paged_plan_make: 'heads' is 0, expected 1 to");
    REFUSED(CALL, p, p.key_heads = 3, KILN_BAD_SHAPE, "8 query heads (of 'heads') are not a multiple of 3 key heads");
    REFUSED(CALL, p, p.value_size = 24, KILN_UNSUPPORTED, "head size DV is 24");
    REFUSED(CALL, p, p.window = -1, KILN_BAD_ARGUMENT, "'window' is -1");
    REFUSED(CALL, p, p.parts = -1, KILN_BAD_ARGUMENT, "'parts' is -1");
    REFUSED(CALL, p, p.memory = NULL, KILN_BAD_ARGUMENT, "'memory' is null");
    REFUSED(CALL, p, p.memory_bytes -= 1, KILN_BAD_ARGUMENT, "(kiln_paged_plan_size)");
#undef CALL
}

// On the CPU, and with checks, what is in device memory is looked at.
static void refused_values(void **state)
{
    if (!on_cpu()) skip_because("on a GPU a wrong value traps and ends the context");
    const Batch b = { KILN_BF16, 3, 8, 2, 64, 64, 16, { 1, 2, 1 }, { 77, 3, 50 } };
    const Tensors t = make(&b);
    kiln_paged_attention_args a = args_of(&t);
    assert_ok(kiln_paged_attention_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    static const struct {
        int lengths, table, offsets; // which number is changed
        int to;
        const char *message;
    } cases[] = {
        { 0, -1, -1, 81, "no length is longer than its row of the table" },
        { 1, -1, -1, -1, "no length is negative" },
        { -1, 4, -1, 15, "every used entry of the table is a page of the cache" },
        { -1, -1, 1, 4, "offsets never fall" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Array *const changed = cases[i].lengths >= 0 ? t.lengths : cases[i].table >= 0 ? t.table : t.offsets;
        const int at = cases[i].lengths >= 0 ? cases[i].lengths
                       : cases[i].table >= 0 ? cases[i].table
                                             : cases[i].offsets;
        const double was = get(changed, at);
        set(changed, at, cases[i].to);
        array_send(changed);
        assert_fails(kiln_paged_attention(ops, NULL, &a), KILN_TRAPPED, cases[i].message);
        set(changed, at, was);
        array_send(changed);
    }
    a.max_queries = 1;
    assert_ok(kiln_paged_attention_workspace_size(ops, &a, &a.workspace_bytes));
    assert_fails(kiln_paged_attention(ops, NULL, &a), KILN_TRAPPED, "no sequence is longer than the call says");
    array_unchanged(t.out, "the output of a refused call");
}

static void refused_appends(void **state)
{
    Array *const keys = ARRAY(KILN_F16, 2, 3, 32), *const values = ARRAY(KILN_F16, 2, 3, 16),
                 *const slots = ARRAY(KILN_I32, 2);
    Array *const k = ARRAY(KILN_F16, 2, 4, 3, 32), *const v = ARRAY(KILN_F16, 2, 4, 3, 16);
    kiln_rotary rotary = { .style = KILN_ROTARY_HALVES };
    kiln_paged_append_args a = { .keys = &keys->tensor,
                                 .values = &values->tensor,
                                 .slots = &slots->tensor,
                                 .positions = &slots->tensor,
                                 .k = &k->tensor,
                                 .v = &v->tensor,
                                 .rotary = &rotary };
#define CALL kiln_paged_append(ops, NULL, &a)
    REFUSED(CALL, a, a.positions = NULL, KILN_BAD_ARGUMENT,
            "kiln_paged_append: 'rotary' is given, but 'positions' is null");
    REFUSED(CALL, a, a.rotary = NULL, KILN_BAD_ARGUMENT, "'positions' is given, but 'rotary' is null");
    REFUSED(CALL, a, a.trained_length = 7, KILN_BAD_ARGUMENT, "'trained_length' is 7, expected 0");
    REFUSED(CALL, a, a.v = a.k, KILN_BAD_SHAPE, "dimension 3 of 'v' is 32, expected 16");
    REFUSED(CALL, rotary, rotary.style = KILN_ROTARY_QWEN_NTK, KILN_UNSUPPORTED,
            "'style' of the rotary embedding is 4");
    REFUSED(CALL, rotary, rotary.size = 34, KILN_BAD_ARGUMENT, "'size' of the rotary embedding is 34");
#undef CALL
    kiln_paged_slots_args s = {
        .table = &slots->tensor, .lengths = &slots->tensor, .slots = &slots->tensor, .page_size = 4
    };
    assert_fails(kiln_paged_slots(ops, NULL, &s), KILN_BAD_SHAPE, "kiln_paged_slots: 'table' has rank 1, expected 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(decoding, free_arrays),
        cmocka_unit_test_teardown(mixed_batches, free_arrays),
        cmocka_unit_test_teardown(options_and_strides, free_arrays),
        cmocka_unit_test_teardown(planned, free_arrays),
        cmocka_unit_test_teardown(plans_of_nothing, free_arrays),
        cmocka_unit_test_teardown(nothing_to_do, free_arrays),
        cmocka_unit_test_teardown(appending, free_arrays),
        cmocka_unit_test_teardown(appending_as_they_are, free_arrays),
        cmocka_unit_test_teardown(eight_bit_caches, free_arrays),
        cmocka_unit_test_teardown(refused_attention, free_arrays),
        cmocka_unit_test_teardown(refused_plans, free_arrays),
        cmocka_unit_test_teardown(refused_values, free_arrays),
        cmocka_unit_test_teardown(refused_appends, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
