// SPDX-License-Identifier: MIT
// nsa_test.c - native sparse attention against the references of its kernels, in f64: whole and in parts, packed and not, forward
// and backward, decoding; rows that lie apart; what is refused.
#include "support.h"

#include "kiln/ops/nsa.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }
static const char *lacks(const Array *x, const char *text) { return x ? "" : text; }

static const Tolerance close_to = { 2e-2, 2e-2, 2e-5 };

static void compare(const char *name, Array *got, const kiln_tensor *expected)
{
    array_fetch(got);
    assert_close(name, got, numbers(expected), close_to);
}

static Array *drawn(Array *x, double low, double high)
{
    fill_random(x, low, high);
    return x;
}

// Quarters: the mean of a block is exact in 16 bits, and the choice of blocks the same with pooled keys in f64.
static Array *quarters(Array *x)
{
    for (int64_t i = 0; i < count(x); i++) set(x, i, 0.25 * (double)integer(-4, 4));
    array_send(x);
    return x;
}

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

#define RUN(call, args)                                                                                                \
    do {                                                                                                               \
        assert_ok(call##_workspace_size(ops, &(args), &(args).workspace_bytes));                                       \
        (args).workspace = bytes_new((args).workspace_bytes)->tensor.data;                                             \
        done(call(ops, NULL, &(args)));                                                                                \
    } while (0)

// ---- inputs

typedef struct Case {
    kiln_type type, gates;
    int tokens, key_heads, group, keys, values, block, blocks, window;
    int sequences; // of equal lengths; 0: `packed`
    bool counts, pools, compressed;
} Case;

enum { PACKED = 4, LONGEST = 85 };
static const int32_t packed[PACKED + 1] = { 0, 0, 64, 65, 150 }; // lengths 0, 64, 1, 85

typedef struct Inputs {
    Array *q, *k, *v, *indices, *counts, *gates[3], *pools[2], *offsets, *out, *lse;
    int sequences, longest;
} Inputs;

static int place_of(const Case *c, int token)
{
    int n = 0;
    if (c->sequences) return token % (c->tokens / c->sequences);
    while (packed[n + 1] <= token) n++;
    return token - packed[n];
}

// The token's own block, others that differ, and what is none.
static Array *lists_of(const Case *c)
{
    Array *const x = ARRAY(KILN_I32, c->tokens, c->key_heads, c->blocks);
    for (int t = 0; t < c->tokens; t++)
        for (int h = 0; h < c->key_heads; h++)
            for (int s = 0; s < c->blocks; s++) {
                const int own = place_of(c, t) / c->block, block = (own + (s + h) * (s ? 1 : 0)) % (own + 1);
                const int64_t at = ((int64_t)t * c->key_heads + h) * c->blocks + s;
                set(x, at, s > own || (t % 7 == 3 && s == 0) ? (s % 2 ? -1 : INT32_MAX) : s == 0 ? own : block);
                for (int before = 0; before < s; before++)
                    if (get(x, at) == get(x, at - s + before)) set(x, at, -1);
            }
    array_send(x);
    return x;
}

static Inputs inputs_of(const Case *c)
{
    const int H = c->key_heads * c->group;
    Inputs x = { .sequences = c->sequences ? c->sequences : PACKED };
    x.longest = c->sequences ? c->tokens / c->sequences : LONGEST;
    x.q = drawn(ARRAY(c->type, c->tokens, H, c->keys), -2, 2);
    x.k = quarters(ARRAY(c->type, c->tokens, c->key_heads, c->keys));
    x.v = drawn(ARRAY(c->type, c->tokens, c->key_heads, c->values), -1, 1);
    x.indices = lists_of(c);
    if (c->counts) {
        x.counts = ARRAY(KILN_I32, c->tokens, c->key_heads);
        for (int64_t i = 0; i < count(x.counts); i++) set(x.counts, i, (double)integer(0, c->blocks));
        array_send(x.counts);
    }
    for (int i = 0; i < 3; i++)
        if (i == 1 || (i == 0 && c->compressed) || (i == 2 && c->window))
            x.gates[i] = drawn(ARRAY(c->gates, c->tokens, H), 0, 1);
    for (int i = 0; i < 2 && c->pools; i++) {
        x.pools[i] = ARRAY(KILN_F32, c->key_heads, c->block);
        for (int64_t j = 0; j < count(x.pools[i]); j++) set(x.pools[i], j, 1.0 / (double)(8 << integer(0, 1)));
        array_send(x.pools[i]);
    }
    if (!c->sequences) {
        x.offsets = ARRAY(KILN_I32, PACKED + 1);
        for (int i = 0; i <= PACKED; i++) set(x.offsets, i, packed[i]);
        array_send(x.offsets);
    }
    x.out = ARRAY(c->type, c->tokens, H, c->values);
    x.lse = ARRAY(KILN_F32, c->tokens, H);
    return x;
}

static double scale_of(const Case *c) { return 1 / sqrt((double)c->keys); }

// ---- the whole

static kiln_nsa_args whole_args(const Case *c, const Inputs *x, bool given)
{
    return (kiln_nsa_args){ .q = of(x->q),
                            .k = of(x->k),
                            .v = of(x->v),
                            .g_compressed = of(x->gates[0]),
                            .g_selected = of(x->gates[1]),
                            .g_window = of(x->gates[2]),
                            .block_indices = given ? of(x->indices) : NULL,
                            .block_counts = of(x->counts),
                            .pool_k = of(x->pools[0]),
                            .pool_v = of(x->pools[1]),
                            .offsets = of(x->offsets),
                            .sequences = c->sequences,
                            .max_tokens = c->sequences ? 0 : LONGEST,
                            .out = of(x->out),
                            .block_size = c->block,
                            .blocks = given ? 0 : c->blocks,
                            .window = c->window };
}

static void compare_whole(const Case *c, const Inputs *x, bool given, int initial, int local)
{
    char bindings[300];
    const kiln_tensor *const out = host_result(x->out);
    snprintf(bindings, sizeof bindings,
             "T=f32, TG=f32, D=%d, DV=%d, G=%d, BS=%d, S=%d, WINDOW=%d, MAXB=64%s%s%s%s%s%s%s", c->keys, c->values,
             c->group, c->block, c->blocks, c->window, given ? "" : ", Idx=none", lacks(x->counts, ", Count=none"),
             lacks(x->gates[0], ", GateC=none"), lacks(x->gates[2], ", GateW=none"), lacks(x->pools[0], ", PoolK=none"),
             lacks(x->pools[1], ", PoolV=none"), lacks(x->offsets, ", Offset=none"));
    const kiln_arg args[] = {
        host_arg(x->q),         host_arg(x->k),        host_arg(x->v),        given ? host_arg(x->indices) : KILN_NONE,
        host_arg(x->counts),    host_arg(x->gates[0]), host_arg(x->gates[1]), host_arg(x->gates[2]),
        host_arg(x->pools[0]),  host_arg(x->pools[1]), host_arg(x->offsets),  KILN_TENSOR(out),
        KILN_INT(x->sequences), KILN_INT(x->longest),  KILN_INT(initial),     KILN_INT(local),
        KILN_FLOAT(scale_of(c))
    };
    run_reference("nsa/forward.tile", "nsa_forward", bindings, args, 17);
    compare("out", x->out, out);
}

static void wholes(void **state)
{
    const Case chosen = { KILN_BF16, KILN_BF16, 150, 2, 4, 64, 32, 16, 4, 40, 0, false, true, true };
    Inputs x = inputs_of(&chosen);
    kiln_nsa_args args = whole_args(&chosen, &x, false);
    args.initial_blocks = 1, args.local_blocks = 2;
    RUN(kiln_nsa_forward, args);
    compare_whole(&chosen, &x, false, 1, 2);

    const Case given = { KILN_F16, KILN_F32, 160, 1, 16, 32, 32, 32, 3, 0, 2, true, false, false };
    x = inputs_of(&given);
    args = whole_args(&given, &x, true);
    RUN(kiln_nsa_forward, args);
    compare_whole(&given, &x, true, 0, 1);
}

static void defaults(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, 200, 1, 16, 64, 64, 64, 16, 512, 1, false, false, true };
    Inputs x = inputs_of(&c);
    kiln_nsa_args args = { .q = of(x.q),
                           .k = of(x.k),
                           .v = of(x.v),
                           .g_compressed = of(x.gates[0]),
                           .g_selected = of(x.gates[1]),
                           .g_window = of(x.gates[2]),
                           .out = of(x.out) };
    RUN(kiln_nsa_forward, args);
    compare_whole(&c, &x, false, 0, 1);
}

static void chosen_blocks(void **state)
{
    const Case c = { KILN_F16, KILN_F32, 150, 2, 4, 64, 64, 16, 4, 0, 0, false, false, true };
    const Inputs x = inputs_of(&c);
    Array *const chosen = ARRAY(KILN_I32, c.tokens, c.key_heads, c.blocks);
    kiln_nsa_choose_args args = { .q = of(x.q),
                                  .k = of(x.k),
                                  .v = of(x.v),
                                  .offsets = of(x.offsets),
                                  .max_tokens = LONGEST,
                                  .out = of(x.out),
                                  .lse = of(x.lse),
                                  .block_indices = of(chosen),
                                  .block_size = 16,
                                  .initial_blocks = 1 };
    RUN(kiln_nsa_choose, args);
    const kiln_tensor *const out = host_result(x.out), *const lse = host_result(x.lse);
    const kiln_arg expected[] = { host_arg(x.q),    host_arg(x.k),           host_arg(x.v),       KILN_NONE,
                                  KILN_NONE,        host_arg(x.offsets),     KILN_TENSOR(out),    KILN_TENSOR(lse),
                                  host_arg(chosen), KILN_INT(x.sequences),   KILN_INT(x.longest), KILN_INT(1),
                                  KILN_INT(1),      KILN_FLOAT(scale_of(&c)) };
    run_reference("nsa/forward.tile", "nsa_choose",
                  "T=f32, D=64, DV=64, G=4, BS=16, S=4, MAXB=64, PoolK=none, PoolV=none", expected, 14);
    compare("out", x.out, out);
    compare("lse", x.lse, lse);
    compare("block_indices", chosen, expected[8].tensor);
}

// With the rows of the choice, and gradients of the weights.
static void compressed_gradients(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, 150, 2, 4, 64, 32, 16, 4, 0, 0, false, true, true };
    const Inputs x = inputs_of(&c);
    Array *const chosen = ARRAY(KILN_I32, 150, 2, 4), *const dout = drawn(ARRAY(c.type, 150, 8, 32), -1, 1);
    kiln_nsa_choose_args choose = { .q = of(x.q),
                                    .k = of(x.k),
                                    .v = of(x.v),
                                    .pool_k = of(x.pools[0]),
                                    .pool_v = of(x.pools[1]),
                                    .offsets = of(x.offsets),
                                    .out = of(x.out),
                                    .lse = of(x.lse),
                                    .block_indices = of(chosen),
                                    .block_size = 16 };
    RUN(kiln_nsa_choose, choose);
    array_fetch(x.out);
    array_fetch(x.lse);
    Array *const out[] = { ARRAY(c.type, 150, 8, 64), ARRAY(c.type, 150, 2, 64), ARRAY(c.type, 150, 2, 32),
                           ARRAY(KILN_F32, 2, 16), ARRAY(KILN_F32, 2, 16) };
    kiln_nsa_compressed_backward_args args = { .q = of(x.q),
                                               .k = of(x.k),
                                               .v = of(x.v),
                                               .out = of(x.out),
                                               .lse = of(x.lse),
                                               .dout = of(dout),
                                               .pool_k = of(x.pools[0]),
                                               .pool_v = of(x.pools[1]),
                                               .offsets = of(x.offsets),
                                               .max_tokens = LONGEST,
                                               .dq = of(out[0]),
                                               .dk = of(out[1]),
                                               .dv = of(out[2]),
                                               .dpool_k = of(out[3]),
                                               .dpool_v = of(out[4]),
                                               .block_size = 16 };
    RUN(kiln_nsa_compressed_backward, args);
    kiln_arg expected[18] = { host_arg(x.q),        host_arg(x.k),        host_arg(x.v),
                              host_arg(x.out),      host_arg(x.lse),      host_arg(dout),
                              host_arg(x.pools[0]), host_arg(x.pools[1]), host_arg(x.offsets) };
    const kiln_tensor *results[5];
    for (int i = 0; i < 5; i++) expected[9 + i] = KILN_TENSOR(results[i] = host_result(out[i]));
    expected[14] = KILN_INT(PACKED), expected[15] = KILN_INT(LONGEST), expected[16] = KILN_INT(1);
    expected[17] = KILN_FLOAT(scale_of(&c));
    run_reference("nsa/compress_backward.tile", "nsa_compressed_backward", "T=f32, D=64, DV=32, G=4, BS=16", expected,
                  18);
    for (int i = 0; i < 5; i++) {
        array_fetch(out[i]);
        assert_close(i < 3 ? "a gradient" : "a gradient of weights", out[i], numbers(results[i]),
                     i < 3 ? close_to : (Tolerance){ 0.1, 2e-2, 5e-4 });
    }
}

// ---- the selected branch

typedef struct Gradients {
    Array *dout, *dq, *dk, *dv;
} Gradients;

static void forward(const Case *c, const Inputs *x)
{
    char bindings[200];
    kiln_nsa_selected_args args = { .q = of(x->q),
                                    .k = of(x->k),
                                    .v = of(x->v),
                                    .block_indices = of(x->indices),
                                    .block_counts = of(x->counts),
                                    .offsets = of(x->offsets),
                                    .sequences = c->sequences,
                                    .max_tokens = c->sequences ? 0 : LONGEST,
                                    .out = of(x->out),
                                    .lse = of(x->lse),
                                    .block_size = c->block };
    RUN(kiln_nsa_selected_forward, args);
    const kiln_tensor *const out = host_result(x->out), *const lse = host_result(x->lse);
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, G=%d, BS=%d, MAXB=64%s%s", c->keys, c->values, c->group,
             c->block, lacks(x->counts, ", Count=none"), lacks(x->offsets, ", Offset=none"));
    const kiln_arg expected[] = { host_arg(x->q),       host_arg(x->k),         host_arg(x->v),
                                  host_arg(x->indices), host_arg(x->counts),    host_arg(x->offsets),
                                  KILN_TENSOR(out),     KILN_TENSOR(lse),       KILN_INT(x->sequences),
                                  KILN_INT(x->longest), KILN_FLOAT(scale_of(c)) };
    run_reference("nsa/selected.tile", "nsa_selected", bindings, expected, 11);
    compare("out", x->out, out);
    compare("lse", x->lse, lse);
}

static void backward(const Case *c, const Inputs *x, const Gradients *g, bool fused)
{
    char bindings[200];
    kiln_nsa_selected_backward_args args = { .q = of(x->q),
                                             .k = of(x->k),
                                             .v = of(x->v),
                                             .out = of(x->out),
                                             .lse = of(x->lse),
                                             .dout = of(g->dout),
                                             .block_indices = of(x->indices),
                                             .block_counts = of(x->counts),
                                             .offsets = of(x->offsets),
                                             .sequences = c->sequences,
                                             .max_tokens = c->sequences ? 0 : LONGEST,
                                             .dq = of(g->dq),
                                             .dk = of(g->dk),
                                             .dv = of(g->dv),
                                             .block_size = c->block,
                                             .fused = fused };
    RUN(kiln_nsa_selected_backward, args);
    const kiln_tensor *const dq = host_result(g->dq), *const dk = host_result(g->dk), *const dv = host_result(g->dv);
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, G=%d, BS=%d, MAXB=64%s%s", c->keys, c->values, c->group,
             c->block, lacks(x->counts, ", Count=none"), lacks(x->offsets, ", Offset=none"));
    const kiln_arg expected[] = { host_arg(x->q),         host_arg(x->k),       host_arg(x->v),
                                  host_arg(x->out),       host_arg(x->lse),     host_arg(g->dout),
                                  host_arg(x->indices),   host_arg(x->counts),  host_arg(x->offsets),
                                  KILN_TENSOR(dq),        KILN_TENSOR(dk),      KILN_TENSOR(dv),
                                  KILN_INT(x->sequences), KILN_INT(x->longest), KILN_FLOAT(scale_of(c)) };
    run_reference("nsa/backward.tile", "nsa_selected_backward", bindings, expected, 15);
    compare("dq", g->dq, dq);
    compare("dk", g->dk, dk);
    compare("dv", g->dv, dv);
}

static void selected(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, 150, 2, 4, 64, 32, 16, 3, 0, 0, true, false, false };
    Inputs x = inputs_of(&c);
    Gradients g = { .dout = drawn(ARRAY(c.type, c.tokens, 8, c.values), -1, 1) };
    for (int fused = 0; fused < 2; fused++) {
        forward(&c, &x);
        g.dq = ARRAY(c.type, c.tokens, 8, c.keys), g.dk = ARRAY(c.type, c.tokens, 2, c.keys),
        g.dv = ARRAY(c.type, c.tokens, 2, c.values);
        backward(&c, &x, &g, fused);
        // the second time with rows that lie apart
        x.q = array_spread(x.q, false), x.k = array_spread(x.k, false), x.out = array_spread(x.out, false);
        g.dout = array_spread(g.dout, false);
    }
}

// ---- the gated sum

static void combined(void **state)
{
    static const int64_t T = 70, H = 3, DV = 48;
    Array *in[6], *back[6], *const out = ARRAY(KILN_BF16, T, H, DV), *const dout = ARRAY(KILN_BF16, T, H, DV);
    for (int i = 0; i < 6; i++) {
        in[i] = i < 3 ? drawn(ARRAY(KILN_BF16, T, H, DV), -1, 1) : drawn(ARRAY(KILN_F32, T, H), 0, 1);
        back[i] = i < 3 ? ARRAY(KILN_BF16, T, H, DV) : ARRAY(KILN_F32, T, H);
    }
    fill_random(dout, -1, 1);
    done(kiln_nsa_combine(ops, NULL,
                          &(kiln_nsa_combine_args){ .compressed = of(in[0]),
                                                    .selected = of(in[1]),
                                                    .window = of(in[2]),
                                                    .g_compressed = of(in[3]),
                                                    .g_selected = of(in[4]),
                                                    .g_window = of(in[5]),
                                                    .out = of(out) }));
    const kiln_tensor *const sum = host_result(out);
    const kiln_arg forward_args[] = { host_arg(in[0]), host_arg(in[1]), host_arg(in[2]), host_arg(in[3]),
                                      host_arg(in[4]), host_arg(in[5]), KILN_TENSOR(sum) };
    run_reference("nsa/combine.tile", "nsa_combine", "T=f32, DV=48", forward_args, 7);
    compare("out", out, sum);

    done(kiln_nsa_combine_backward(ops, NULL,
                                   &(kiln_nsa_combine_backward_args){ .dout = of(dout),
                                                                      .compressed = of(in[0]),
                                                                      .selected = of(in[1]),
                                                                      .window = of(in[2]),
                                                                      .g_compressed = of(in[3]),
                                                                      .g_selected = of(in[4]),
                                                                      .g_window = of(in[5]),
                                                                      .dcompressed = of(back[0]),
                                                                      .dselected = of(back[1]),
                                                                      .dwindow = of(back[2]),
                                                                      .dg_compressed = of(back[3]),
                                                                      .dg_selected = of(back[4]),
                                                                      .dg_window = of(back[5]) }));
    kiln_arg args[13] = { host_arg(dout) };
    const kiln_tensor *expected[6];
    for (int i = 0; i < 6; i++) {
        expected[i] = host_result(back[i]);
        args[1 + i] = host_arg(in[i]);
        args[7 + i] = KILN_TENSOR(expected[i]);
    }
    run_reference("nsa/combine.tile", "nsa_combine_backward", "T=f32, DV=48", args, 13);
    for (int i = 0; i < 6; i++) compare("a gradient", back[i], expected[i]);
}

// ---- decoding

static void decoding(void **state)
{
    static const int64_t lengths[] = { 0, 1, 190 };
    for (int i = 0; i < 2; i++) {
        const bool plain = i == 0;
        Array *const q = drawn(ARRAY(KILN_BF16, 3, 32, 64), -2, 2), *const k =
                                                                        drawn(ARRAY(KILN_BF16, 3, 200, 2, 64), -1, 1);
        Array *const v = drawn(ARRAY(KILN_BF16, 3, 200, 2, 32), -1, 1), *const indices = ARRAY(KILN_I32, 3, 2, 5);
        Array *const counts = plain ? NULL : ARRAY(KILN_I32, 3, 2), *const length = plain ? NULL : ARRAY(KILN_I32, 3);
        Array *const out = ARRAY(KILN_BF16, 3, 32, 32), *const lse = ARRAY(KILN_F32, 3, 32);
        for (int e = 0; e < 30; e++) set(indices, e, e % 5 == 2 ? -1 : (e % 5 * 3 + e / 5) % 7);
        array_send(indices);
        for (int e = 0; e < 6 && counts; e++) set(counts, e, e);
        if (counts) array_send(counts);
        for (int e = 0; e < 3 && length; e++) set(length, e, (double)lengths[e]);
        if (length) array_send(length);
        kiln_nsa_decode_args args = { .q = of(q),
                                      .k = of(k),
                                      .v = of(v),
                                      .block_indices = of(indices),
                                      .block_counts = of(counts),
                                      .lengths = of(length),
                                      .out = of(out),
                                      .lse = of(lse),
                                      .block_size = 32,
                                      .splits = plain ? 0 : 3 };
        RUN(kiln_nsa_decode, args);
        const kiln_tensor *const o = host_result(out), *const l = host_result(lse);
        const kiln_arg expected[] = { host_arg(q),      host_arg(k),      host_arg(v),    host_arg(indices),
                                      host_arg(counts), host_arg(length), KILN_TENSOR(o), KILN_TENSOR(l),
                                      KILN_INT(1),      KILN_FLOAT(0.125) };
        run_reference("nsa/decode.tile", "nsa_decode",
                      plain ? "T=f32, D=64, DV=32, G=16, BS=32, Count=none, Length=none"
                            : "T=f32, D=64, DV=32, G=16, BS=32",
                      expected, 10);
        compare("out", out, o);
        compare("lse", lse, l);
    }
}

// Caches that grew by a prompt, and by a token that fills a block: each step as the sequence whole.
static void decoding_as_whole(void **state)
{
    enum { M = 128, T = 112, B = 1, S = 4 };
    const Case c = { KILN_F16, KILN_F32, T, 2, 4, 64, 64, 16, S, 0, 1, false, true, true };
    const Inputs x = inputs_of(&c);
    Array *const chosen = ARRAY(KILN_I32, T, 2, S), *const list = ARRAY(KILN_I32, B, 2, S);
    Array *const length = ARRAY(KILN_I32, B), *const out = ARRAY(c.type, B, 8, 64);
    kiln_nsa_choose_args whole = { .q = of(x.q),
                                   .k = of(x.k),
                                   .v = of(x.v),
                                   .pool_k = of(x.pools[0]),
                                   .pool_v = of(x.pools[1]),
                                   .out = of(x.out),
                                   .block_indices = of(chosen),
                                   .block_size = 16,
                                   .initial_blocks = 1 };
    RUN(kiln_nsa_choose, whole);
    array_fetch(x.out);
    array_fetch(chosen);
    Array *const cache[] = { ARRAY(c.type, B, M, 2, 64), ARRAY(c.type, B, M, 2, 64) };
    Array *const pooled[] = { ARRAY(c.type, B, M / 16, 2, 64), ARRAY(c.type, B, M / 16, 2, 64) };
    for (int i = 0; i < 2; i++) {
        for (int64_t e = 0; e < count(x.k); e++) set(cache[i], e, get(i ? x.v : x.k, e));
        array_send(cache[i]);
    }
    for (int len = 111; len <= T; len++) { // the prompt of 111 tokens, then the one that fills block 6
        set(length, 0, len);
        array_send(length);
        for (int i = 0; i < 2; i++)
            done(kiln_nsa_decode_pool(ops, NULL,
                                      &(kiln_nsa_decode_pool_args){ .x = of(cache[i]),
                                                                    .weights = of(x.pools[i]),
                                                                    .lengths = of(length),
                                                                    .pooled = of(pooled[i]),
                                                                    .block_size = 16,
                                                                    .all = len < T }));
        const kiln_tensor q = kiln_tensor_of(device, (char *)x.q->tensor.data + (size_t)(len - 1) * 8 * 64 * 2, c.type,
                                             3, (int64_t[]){ B, 8, 64 });
        done(kiln_nsa_decode_choose(ops, NULL,
                                    &(kiln_nsa_decode_choose_args){ .q = &q,
                                                                    .k_pooled = of(pooled[0]),
                                                                    .v_pooled = of(pooled[1]),
                                                                    .lengths = of(length),
                                                                    .out = of(out),
                                                                    .block_indices = of(list),
                                                                    .block_size = 16,
                                                                    .initial_blocks = 1 }));
        array_fetch(out);
        array_fetch(list);
        assert_close("out", out, values(x.out) + (size_t)(len - 1) * 8 * 64, close_to);
        assert_close("block_indices", list, values(chosen) + (size_t)(len - 1) * 2 * S, (Tolerance){ 0.5, 0, 1e-9 });
    }
}

// ---- refusals

static void refused(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, 150, 2, 4, 64, 32, 16, 4, 40, 0, false, true, true };
    const Inputs x = inputs_of(&c);
    kiln_nsa_args a = whole_args(&c, &x, false);
    kiln_tensor k = x.k->tensor, gate = x.gates[0]->tensor;
    a.k = &k, a.g_compressed = &gate;
#define CALL kiln_nsa_forward(ops, NULL, &a)
    REFUSED(CALL, a, a.g_selected = NULL, KILN_BAD_ARGUMENT, "kiln_nsa_forward: 'g_selected' is null");
    REFUSED(CALL, a, a.block_size = 48, KILN_UNSUPPORTED, "'block_size' is 48, expected 16, 32, 64 or 128");
    REFUSED(CALL, a, a.blocks = 257, KILN_BAD_ARGUMENT, "'blocks' is 257, expected 0 to 256");
    REFUSED(CALL, a, a.block_indices = of(x.indices), KILN_BAD_ARGUMENT,
            "'blocks' is 4, expected 0: 'block_indices' says it");
    REFUSED(CALL, a, (a.block_indices = of(x.indices), a.blocks = 0, a.local_blocks = 1), KILN_BAD_ARGUMENT,
            "'local_blocks' is 1, expected 0: 'block_indices' are given");
    REFUSED(CALL, a, (a.block_indices = of(x.indices), a.blocks = 0, a.g_compressed = NULL), KILN_BAD_ARGUMENT,
            "'pool_k' is given, but nothing is pooled");
    REFUSED(CALL, a, a.local_blocks = 5, KILN_BAD_ARGUMENT,
            "0 'initial_blocks' and 5 'local_blocks' are more than the 4 of a list");
    REFUSED(CALL, a, a.initial_blocks = -1, KILN_BAD_ARGUMENT, "'initial_blocks' is -1, expected 0 to 256");
    REFUSED(CALL, a, a.g_window = NULL, KILN_BAD_ARGUMENT, "'window' is 40, expected 0: 'g_window' is null");
    REFUSED(CALL, a, a.window = -1, KILN_BAD_ARGUMENT, "'window' is -1, expected 1 to");
    REFUSED(CALL, a, a.sequences = 2, KILN_BAD_ARGUMENT, "'sequences' is 2, expected 0: 'offsets' says it");
    REFUSED(CALL, a, (a.offsets = NULL, a.sequences = 2), KILN_BAD_ARGUMENT,
            "'max_tokens' is 85, expected 0: it goes with 'offsets'");
    REFUSED(CALL, a, (a.offsets = NULL, a.max_tokens = 0, a.sequences = 4), KILN_BAD_ARGUMENT,
            "150 tokens (of 'q') are not a multiple of 4 ('sequences')");
    REFUSED(CALL, a, a.max_tokens = -1, KILN_BAD_ARGUMENT, "'max_tokens' is -1, expected 0 to");
    REFUSED(CALL, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED(CALL, a, a.workspace_bytes = 0, KILN_BAD_ARGUMENT, "needs a workspace of");
    REFUSED_TENSOR(CALL, k, shape[2] = 60, KILN_BAD_SHAPE, "dimension 2 of 'k' is 60, expected 64");
    REFUSED_TENSOR(CALL, gate, type = KILN_F16, KILN_BAD_TYPE, "'g_compressed' is a tensor of f16, expected f32");
#undef CALL
    kiln_nsa_combine_args s = { .compressed = of(x.out),
                                .selected = of(x.out),
                                .g_selected = of(x.gates[1]),
                                .out = of(ARRAY(KILN_BF16, 150, 8, 32)) };
    assert_fails(kiln_nsa_combine(ops, NULL, &s), KILN_BAD_ARGUMENT,
                 "'compressed' is given, but 'g_compressed' is null");
    kiln_nsa_decode_args d = { .q = of(ARRAY(KILN_F16, 1, 65, 16)),
                               .k = of(ARRAY(KILN_F16, 1, 64, 1, 16)),
                               .v = of(ARRAY(KILN_F16, 1, 64, 1, 16)),
                               .block_indices = of(ARRAY(KILN_I32, 1, 1, 2)),
                               .out = of(ARRAY(KILN_F16, 1, 65, 16)) };
    assert_fails(kiln_nsa_decode(ops, NULL, &d), KILN_UNSUPPORTED,
                 "kiln_nsa_decode: 'q' has 65 heads for each of 'k', expected 1 to 64");
    kiln_nsa_decode_choose_args e = { .q = of(ARRAY(KILN_F16, 1, 2, 16)),
                                      .k_pooled = of(ARRAY(KILN_F16, 1, 8192, 1, 16)),
                                      .v_pooled = of(ARRAY(KILN_F16, 1, 8192, 1, 16)),
                                      .lengths = of(ARRAY(KILN_I32, 1)),
                                      .out = of(ARRAY(KILN_F16, 1, 2, 16)),
                                      .block_indices = of(ARRAY(KILN_I32, 1, 1, 2)) };
    assert_fails(kiln_nsa_decode_choose(ops, NULL, &e), KILN_UNSUPPORTED,
                 "'k_pooled' has 8192 rows, expected at most 8191");
    enum { MANY = 1 << 23 };
    size_t bytes;
    const kiln_tensor rows = kiln_tensor_of(device, NULL, KILN_F16, 3, (int64_t[]){ MANY, 1, 16 });
    const kiln_tensor lse = kiln_tensor_of(device, NULL, KILN_F32, 2, (int64_t[]){ MANY, 1 });
    const kiln_tensor lists = kiln_tensor_of(device, NULL, KILN_I32, 3, (int64_t[]){ MANY, 1, 256 });
    const kiln_nsa_selected_backward_args b = { .q = &rows,
                                                .k = &rows,
                                                .v = &rows,
                                                .out = &rows,
                                                .lse = &lse,
                                                .dout = &rows,
                                                .block_indices = &lists,
                                                .sequences = 64,
                                                .dq = &rows,
                                                .dk = &rows,
                                                .dv = &rows };
    assert_fails(kiln_nsa_selected_backward_workspace_size(ops, &b, &bytes), KILN_UNSUPPORTED,
                 "'block_indices' has lists of 256 places for 8388608 tokens");
    array_unchanged(x.out, "the output of a refused call");
}

static void refused_values(void **state)
{
    if (!on_cpu()) skip_because("on a GPU a wrong value traps and ends the context");
    const Case c = { KILN_BF16, KILN_F32, 150, 2, 4, 64, 32, 16, 3, 0, 0, false, false, false };
    const Inputs x = inputs_of(&c);
    kiln_nsa_selected_args a = { .q = of(x.q),
                                 .k = of(x.k),
                                 .v = of(x.v),
                                 .block_indices = of(x.indices),
                                 .offsets = of(x.offsets),
                                 .max_tokens = LONGEST - 1,
                                 .out = of(x.out),
                                 .block_size = 16 };
    assert_ok(kiln_nsa_selected_forward_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_fails(kiln_nsa_selected_forward(ops, NULL, &a), KILN_TRAPPED, "no sequence is longer than the call says");
    array_unchanged(x.out, "the output of a refused call");
}

// Calls without tokens, and sequences without tokens, write nothing.
static void nothing_to_do(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, 0, 2, 4, 64, 32, 16, 3, 40, 1, false, false, true };
    const Inputs x = inputs_of(&c);
    kiln_nsa_args args = whole_args(&c, &x, false);
    RUN(kiln_nsa_forward, args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(wholes, free_arrays),
        cmocka_unit_test_teardown(defaults, free_arrays),
        cmocka_unit_test_teardown(chosen_blocks, free_arrays),
        cmocka_unit_test_teardown(compressed_gradients, free_arrays),
        cmocka_unit_test_teardown(selected, free_arrays),
        cmocka_unit_test_teardown(combined, free_arrays),
        cmocka_unit_test_teardown(decoding, free_arrays),
        cmocka_unit_test_teardown(decoding_as_whole, free_arrays),
        cmocka_unit_test_teardown(nothing_to_do, free_arrays),
        cmocka_unit_test_teardown(refused, free_arrays),
        cmocka_unit_test_teardown(refused_values, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
