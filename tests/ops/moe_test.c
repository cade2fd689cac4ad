// SPDX-License-Identifier: MIT
// moe_test.c - routing, permutation and products of experts against the references of their kernels, and whole layers against
// sums in f64: no reference has routes, shared experts and activations rounded to fp8 together. Experts without rows, and rows
// without experts; what is refused.
#include "support.h"

#include "kiln/ops/moe.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static Array *drawn(Array *x, double low, double high)
{
    fill_random(x, low, high);
    return x;
}

static Array *result(Array *x)
{
    array_send(x);
    return x;
}

static Array *whole(Array *x, int64_t low, int64_t high)
{
    for (int64_t i = 0; i < count(x); i++) set(x, i, (double)integer(low, high));
    array_send(x);
    return x;
}

static Array *listed(int64_t n, const int32_t *numbers_of)
{
    Array *const x = ARRAY(KILN_I32, n);
    for (int64_t i = 0; i < n; i++) set(x, i, numbers_of[i]);
    array_send(x);
    return x;
}

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

static void compare(const char *name, Array *got, const double *expected, Tolerance tolerance)
{
    array_fetch(got);
    assert_close(name, got, expected, tolerance);
}

static const Tolerance same = { 0.5, 0, 1e-9 }, close_f32 = { 1e-5, 1e-4, 1e-9 }, close_16 = { 3e-2, 2e-2, 1e-4 },
                       close_fp8 = { 6e-2, 2e-2,
                                     1e-4 }; // hidden values near the middle of two of e4m3 round either way

// ---- routing

typedef struct RouteCase {
    kiln_type type;
    int64_t tokens, experts, each;
    kiln_moe_routing routing;
    bool correction;
} RouteCase;

// By the kernel's reference, in host memory.
static void expect_route(const RouteCase *c, const Array *logits, const Array *correction, const kiln_tensor *experts,
                         const kiln_tensor *weights)
{
    char bindings[160];
    const kiln_moe_routing *const r = &c->routing;
    snprintf(bindings, sizeof bindings, "T=f32, E=%d, KK=%d, SIGMOID=%s, NORM=%s, GROUPS=%d, TOPG=%d, GTOP=%d%s",
             (int)c->experts, (int)c->each, r->sigmoid ? "true" : "false", r->renormalise ? "true" : "false",
             r->groups ? (int)r->groups : 1, r->top_groups ? (int)r->top_groups : 1,
             r->group_scores ? (int)r->group_scores : 2, correction ? "" : ", BIAS=none");
    const kiln_arg args[] = { KILN_TENSOR(host_copy(logits)),
                              correction ? KILN_TENSOR(host_copy(correction)) : KILN_NONE, KILN_TENSOR(experts),
                              KILN_TENSOR(weights), KILN_FLOAT(r->scale ? *r->scale : 1) };
    run_reference("moe/route.tile", "moe_route", bindings, args, 5);
}

static void routes(void **state)
{
    static const double scale = 2.5;
    static const RouteCase cases[] = {
        { KILN_BF16, 37, 60, 4, { .renormalise = true }, false },
        { KILN_F32, 5, 256, 8, { true, true, &scale, 8, 4, 0 }, true },
        { KILN_BF16, 0, 60, 4, { .renormalise = true }, false },
    };
    for (int i = 0; i < 3; i++) {
        const RouteCase *const c = &cases[i];
        Array *const logits = drawn(ARRAY(c->type, c->tokens, c->experts), -3, 3);
        Array *const correction = c->correction ? drawn(ARRAY(KILN_F32, c->experts), -0.2, 0.2) : NULL;
        Array *const experts = result(ARRAY(KILN_I32, c->tokens, c->each));
        Array *const weights = result(ARRAY(KILN_F32, c->tokens, c->each));
        const kiln_tensor *const ids = host_result(experts), *const w = host_result(weights);
        expect_route(c, logits, correction, ids, w);
        done(kiln_moe_route(ops, NULL,
                            &(kiln_moe_route_args){ .logits = of(logits),
                                                    .correction = of(correction),
                                                    .experts = of(experts),
                                                    .weights = of(weights),
                                                    .routing = &c->routing }));
        compare("experts", experts, numbers(ids), same);
        compare("weights", weights, numbers(w), close_f32);
    }
}

// ---- permutation

// There and back: each token's row as often as it has experts.
static void permutation(void **state)
{
    enum {
        TOKENS = 70,
        EACH = 3,
        EXPERTS = 7,
        N = 72,
        ALIGNMENT = 16,
        ROWS = TOKENS * EACH + EXPERTS * (ALIGNMENT - 1)
    };
    Array *const experts = whole(ARRAY(KILN_I32, TOKENS, EACH), -1, EXPERTS), *const x = drawn(
                                                                                  ARRAY(KILN_BF16, TOKENS, N), -1, 1);
    Array *const tokens = result(ARRAY(KILN_I32, ROWS)), *const places = result(ARRAY(KILN_I32, TOKENS, EACH));
    Array *const offsets = result(ARRAY(KILN_I32, EXPERTS + 1)), *const y = result(ARRAY(KILN_BF16, ROWS, N));
    Array *const weights = drawn(ARRAY(KILN_F32, TOKENS, EACH), 0, 1), *const out = result(ARRAY(KILN_BF16, TOKENS, N));
    const kiln_tensor *const t = host_result(tokens), *const p = host_result(places), *const o = host_result(offsets);
    char bindings[60];
    snprintf(bindings, sizeof bindings, "E=%d, PAD=%d, TILE=none", EXPERTS, ALIGNMENT);
    const kiln_arg args[] = { KILN_TENSOR(host_copy(experts)), KILN_TENSOR(t), KILN_TENSOR(p), KILN_TENSOR(o),
                              KILN_NONE };
    run_reference("moe/permute.tile", "moe_sort", bindings, args, 5);
    done(kiln_moe_permute(ops, NULL,
                          &(kiln_moe_permute_args){ .experts = of(experts),
                                                    .x = of(x),
                                                    .tokens = of(tokens),
                                                    .places = of(places),
                                                    .offsets = of(offsets),
                                                    .rows = of(y),
                                                    .alignment = ALIGNMENT }));
    compare("tokens", tokens, numbers(t), same);
    compare("places", places, numbers(p), same);
    compare("offsets", offsets, numbers(o), same);
    done(kiln_moe_unpermute(
        ops, NULL,
        &(kiln_moe_unpermute_args){
            .rows = of(y), .places = of(places), .weights = of(weights), .residual = of(x), .out = of(out) }));
    const kiln_tensor *const sums = host_result(out);
    array_fetch(y);
    const kiln_arg back[] = {
        host_arg(y), KILN_TENSOR(p), host_arg(weights), KILN_NONE, host_arg(x), KILN_TENSOR(sums)
    };
    run_reference("moe/permute.tile", "moe_combine", "T=f32, KK=3", back, 6);
    compare("out", out, numbers(sums), close_16);
}

// ---- products

static const int32_t offsets_of[] = { 0, 0, 70, 71, 135, 135 }; // of five experts, three of which have rows
enum { EXPERTS = 5, ROWS = 140, K = 72, N = 88 };               // the last rows belong to none

// What the reference of a product leaves as it was, rows that belong to no expert, is NaN on both sides.
static const double *expect_product(const Array *a, const Array *b, const Array *bias, bool transposed, int64_t room,
                                    const Array *offsets, const Array *counts, const Array *c)
{
    const kiln_tensor *const x = host_copy(a), *const y = host_copy(c);
    const kiln_arg args[] = { KILN_TENSOR(HOST_AS(x->data, x->type, count(a) / K, K)),
                              host_arg(b),
                              host_arg(offsets),
                              host_arg(counts),
                              host_arg(bias),
                              KILN_TENSOR(HOST_AS(y->data, y->type, count(c) / N, N)),
                              KILN_INT(room) };
    run_reference("moe/grouped_gemm.tile", "grouped_gemm", transposed ? "T=f32, TC=f32" : "T=f32, TC=f32, TB=false",
                  args, 7);
    return numbers(y);
}

static void run_grouped(kiln_grouped_gemm_args a)
{
    assert_ok(kiln_grouped_gemm_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    done(kiln_grouped_gemm(ops, NULL, &a));
}

static void products_of_ragged_rows(void **state)
{
    for (int i = 0; i < 3; i++) {
        const bool transposed = i != 1;
        const kiln_type type = i == 1 ? KILN_F16 : KILN_BF16, to = i == 2 ? KILN_F32 : type;
        Array *const a = drawn(ARRAY(type, ROWS, K), -1, 1), *const c = result(ARRAY(to, ROWS, N));
        Array *const b = drawn(transposed ? ARRAY(type, EXPERTS, N, K) : ARRAY(type, EXPERTS, K, N), -1, 1);
        Array *const bias = i == 1 ? drawn(ARRAY(to, EXPERTS, N), -1, 1) : NULL;
        Array *const offsets = listed(EXPERTS + 1, offsets_of);
        const double *const expected = expect_product(a, b, bias, transposed, 0, offsets, NULL, c);
        run_grouped((kiln_grouped_gemm_args){ .a = of(i == 2 ? array_spread(a, false) : a),
                                              .b = of(b),
                                              .c = of(c),
                                              .offsets = of(offsets),
                                              .bias = of(bias),
                                              .transpose_b = transposed });
        compare("c", c, expected, close_16);
    }
}

static void products_in_places(void **state)
{
    enum { ROOM = 33 };
    Array *const counts = listed(EXPERTS, (const int32_t[]){ 33, 0, 1, 20, 32 });
    Array *const a = drawn(ARRAY(KILN_BF16, EXPERTS, ROOM, K), -1, 1), *const b = drawn(ARRAY(KILN_BF16, EXPERTS, N, K),
                                                                                        -1, 1);
    Array *const c = result(ARRAY(KILN_BF16, EXPERTS, ROOM, N));
    const double *const expected = expect_product(a, b, NULL, true, ROOM, NULL, counts, c);
    run_grouped(
        (kiln_grouped_gemm_args){ .a = of(a), .b = of(b), .c = of(c), .counts = of(counts), .transpose_b = true });
    compare("c", c, expected, close_16);
}

// Of e4m3, with scales of blocks.
static void products_of_fp8(void **state)
{
    enum { WIDE = 272, BLOCKS = 3, TALL = 144 };
    Array *const a = drawn(ARRAY(KILN_E4M3, ROWS, WIDE), -1, 1), *const b = drawn(ARRAY(KILN_E4M3, EXPERTS, TALL, WIDE),
                                                                                  -1, 1);
    Array *const sa = drawn(ARRAY(KILN_F32, ROWS, BLOCKS), 0.5, 2), *const sb = drawn(
                                                                        ARRAY(KILN_F32, EXPERTS, 2, BLOCKS), 0.5, 2);
    Array *const c = result(ARRAY(KILN_BF16, ROWS, TALL));
    const kiln_tensor *const expected = host_copy(c);
    const kiln_arg args[] = { mirror_arg(a),
                              mirror_arg(sa),
                              mirror_arg(b),
                              mirror_arg(sb),
                              mirror_arg(listed(EXPERTS + 1, offsets_of)),
                              KILN_NONE,
                              KILN_TENSOR(expected),
                              KILN_INT(0) };
    run_reference("moe/grouped_fp8.tile", "grouped_fp8", "TC=f32", args, 8);
    kiln_grouped_gemm_args g = { .a = of(a),
                                 .b = of(b),
                                 .c = of(c),
                                 .a_scales = of(sa),
                                 .b_scales = of(sb),
                                 .offsets = of(listed(EXPERTS + 1, offsets_of)),
                                 .transpose_b = true };
    run_grouped(g);
    compare("c", c, numbers(expected), (Tolerance){ 0.5, 2e-2, 1e-4 });
    REFUSED(kiln_grouped_gemm(ops, NULL, &g), g, g.transpose_b = false, KILN_UNSUPPORTED,
            "kiln_grouped_gemm: 'a' is a tensor of e4m3, expected 'transpose_b' with it");
    REFUSED(kiln_grouped_gemm(ops, NULL, &g), g, g.a_scales = NULL, KILN_BAD_ARGUMENT, "'a_scales' is null");
    REFUSED(kiln_grouped_gemm(ops, NULL, &g), g, g.b_scales = of(drawn(ARRAY(KILN_F32, EXPERTS, 3, BLOCKS), 0, 1)),
            KILN_BAD_SHAPE, "'b_scales' has 3 rows of scales for N = 144, expected 2");
}

// Of ragged rows, and of one expert that has all.
static void products_of_mxfp4(void **state)
{
    enum { K4 = 160, PADDED = 256, TOKENS = 40 };
    static const int32_t one[] = { 0, 0, 0, ROWS, ROWS, ROWS };
    Array *const codes = whole(ARRAY(KILN_U8, EXPERTS, N, PADDED / 2), 0, 255);
    Array *const scales = whole(ARRAY(KILN_U8, EXPERTS, N, PADDED / 32), 120, 130);
    Array *const bias = drawn(ARRAY(KILN_BF16, EXPERTS, N), -9, 9), *const w = drawn(ARRAY(KILN_F32, ROWS), 0, 1);
    Array *const tokens = whole(ARRAY(KILN_I32, ROWS), -1, TOKENS - 1);
    kiln_tensor as_e2m1 = codes->tensor;
    as_e2m1.type = KILN_E2M1, as_e2m1.shape[2] = PADDED;
    for (int i = 0; i < 2; i++) {
        const int32_t *const offsets = i ? one : offsets_of;
        Array *const a = drawn(ARRAY(KILN_BF16, TOKENS, K4), -1, 1), *const c = result(ARRAY(KILN_BF16, ROWS, N));
        const kiln_tensor *const expected = host_copy(c);
        const kiln_arg args[] = { host_arg(a),
                                  KILN_TENSOR(HOST_AS(codes->host, KILN_E2M1, EXPERTS, N, PADDED / 128, 128)),
                                  KILN_TENSOR(HOST_AS(scales->host, KILN_U8, EXPERTS, N, PADDED / 128, 4)),
                                  host_arg(listed(EXPERTS + 1, offsets)),
                                  host_arg(tokens),
                                  host_arg(bias),
                                  host_arg(w),
                                  KILN_TENSOR(expected) };
        run_reference("moe/mxfp4.tile", "grouped_mxfp4", "T=f32, TC=f32", args, 8);
        kiln_grouped_mxfp4_args g = { .a = of(a), .codes = i ? &as_e2m1 : of(codes), .scales = of(scales), .c = of(c) };
        g.offsets = of(listed(EXPERTS + 1, offsets));
        g.tokens = of(tokens), g.bias = of(bias), g.row_weights = of(w);
        assert_ok(kiln_grouped_mxfp4_workspace_size(ops, &g, &g.workspace_bytes));
        g.workspace = bytes_new(g.workspace_bytes)->tensor.data;
        done(kiln_grouped_mxfp4(ops, NULL, &g));
        compare("c", c, numbers(expected), (Tolerance){ 0.2, 2e-2, 1e-4 });
    }
}

static void weight_gradients(void **state)
{
    Array *const a = drawn(ARRAY(KILN_BF16, ROWS, K), -1, 1), *const dc = drawn(ARRAY(KILN_BF16, ROWS, N), -1, 1);
    Array *const db = result(ARRAY(KILN_F32, EXPERTS, N, K));
    Array *const offsets = listed(EXPERTS + 1, offsets_of);
    const kiln_arg host[] = { host_arg(a), host_arg(dc), host_arg(offsets), result_arg(db) };
    run_reference("moe/grouped_gemm.tile", "grouped_gemm_weights", "T=f32, TC=f32", host, 4);
    const kiln_grouped_gemm_weights_args args = {
        .a = of(a), .dc = of(dc), .offsets = of(offsets), .db = of(db), .transpose_b = true
    };
    done(kiln_grouped_gemm_weights(ops, NULL, &args));
    compare("db", db, numbers(host[3].tensor), close_16);
}

// ---- layers

typedef struct LayerCase {
    kiln_type type;
    int64_t tokens, hidden, experts, each, shared; // shared: hidden elements; 0: none
    bool logits, biases, residual, interleaved;
    kiln_moe_activation activation;
    kiln_moe_routing routing;
    kiln_moe_format format;
} LayerCase;

enum { WIDTH = 64, HIDDEN_MOST = 160 };

// [n][rows][columns] of numbers, in a format.
typedef struct Weights {
    kiln_moe_format format;
    int64_t rows, columns;
    Array *numbers, *scales;
} Weights;

// `halves`: blocks of scales begin anew in the middle of the rows.
static Weights weights_drawn(kiln_type type, kiln_moe_format format, int64_t n, int64_t rows, int64_t columns,
                             int halves)
{
    const int64_t padded = (columns + 127) / 128 * 128, blocks = (rows / halves + 127) / 128 * halves;
    Weights w = { .format = format, .rows = rows, .columns = columns };
    if (format == KILN_MOE_MXFP4) {
        w.numbers = whole(ARRAY(KILN_U8, n, rows, padded / 2), 0, 255);
        w.scales = whole(ARRAY(KILN_U8, n, rows, padded / 32), 121, 124);
    } else if (format == KILN_MOE_FP8) {
        w.numbers = drawn(ARRAY(KILN_E4M3, n, rows, columns), -1, 1);
        w.scales = drawn(ARRAY(KILN_F32, n, blocks, padded / 128), 0.2, 0.4);
    } else {
        w.numbers = drawn(ARRAY(type, n, rows, columns), -0.3, 0.3);
    }
    return w;
}

static double weight(const Weights *w, int64_t e, int64_t row, int64_t column, int halves)
{
    static const double magnitudes[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    const int64_t padded = (w->columns + 127) / 128 * 128, r = e * w->rows + row;
    if (w->format == KILN_MOE_SAME) return get(w->numbers, r * w->columns + column);
    if (w->format == KILN_MOE_MXFP4) {
        const int code = (int)get(w->numbers, r * padded / 2 + column / 2) >> column % 2 * 4 & 15;
        return magnitudes[code & 7] * (code & 8 ? -1 : 1) * exp2(get(w->scales, r * padded / 32 + column / 32) - 127);
    }
    const int64_t half = w->rows / halves, blocks = (half + 127) / 128;
    const int64_t block = (e * halves + row / half) * blocks + row % half / 128;
    return get(w->numbers, r * w->columns + column) * get(w->scales, block * (padded / 128) + column / 128);
}

// Numbers as fp8 has them, in groups of 128.
static void quantise(double *x, int64_t n)
{
    Array *const q = ARRAY(KILN_E4M3, 1);
    for (int64_t first = 0; first < n; first += 128) {
        double top = 1e-4;
        for (int64_t i = first; i < n && i < first + 128; i++) top = fmax(top, fabs(x[i]));
        for (int64_t i = first; i < n && i < first + 128; i++) {
            set(q, 0, x[i] * (448 / top));
            x[i] = get(q, 0) * (top / 448);
        }
    }
}

typedef struct Ffn {
    const LayerCase *c;
    Weights gate_up, down;
    const Array *gate_up_bias, *down_bias;
    int64_t hidden;
} Ffn;

static double activated(const LayerCase *c, double g, double u)
{
    if (c->activation == KILN_MOE_SWIGLU) return g / (1 + exp(-g)) * u;
    if (c->activation == KILN_MOE_GEGLU)
        return 0.5 * g * (1 + tanh(0.7978845608028654 * (g + 0.044715 * g * g * g))) * u;
    g = fmin(g, 0.7), u = fmax(fmin(u, 0.7), -0.7);
    return g / (1 + exp(-1.5 * g)) * (u + 1);
}

// Adds w expert(x) to y.
static void add_expert(const Ffn *f, int64_t e, const double *x, double w, double *y)
{
    double h[HIDDEN_MOST];
    for (int64_t j = 0; j < f->hidden; j++) {
        const int64_t at[2] = { f->c->interleaved ? 2 * j : j, f->c->interleaved ? 2 * j + 1 : f->hidden + j };
        double sum[2];
        for (int s = 0; s < 2; s++) {
            sum[s] = f->gate_up_bias ? get(f->gate_up_bias, e * 2 * f->hidden + at[s]) : 0;
            for (int64_t d = 0; d < WIDTH; d++) sum[s] += x[d] * weight(&f->gate_up, e, at[s], d, 2);
        }
        h[j] = activated(f->c, sum[0], sum[1]);
    }
    if (f->c->format == KILN_MOE_FP8) quantise(h, f->hidden);
    for (int64_t d = 0; d < WIDTH; d++) {
        double sum = f->down_bias ? get(f->down_bias, e * WIDTH + d) : 0;
        for (int64_t j = 0; j < f->hidden; j++) sum += h[j] * weight(&f->down, e, d, j, 1);
        y[d] += w * sum;
    }
}

typedef struct Chosen {
    Array *logits, *experts, *weights;
    const double *ids, *w;
} Chosen;

static Chosen choose(const LayerCase *c)
{
    Chosen t = { 0 };
    if (!c->logits) {
        t.experts = whole(ARRAY(KILN_I32, c->tokens, c->each), -1, c->experts);
        t.weights = drawn(ARRAY(KILN_F32, c->tokens, c->each), 0, 1);
        t.ids = numbers(host_copy(t.experts)), t.w = numbers(host_copy(t.weights));
        return t;
    }
    t.logits = drawn(ARRAY(c->type, c->tokens, c->experts), -2, 2);
    const RouteCase route = { c->type, c->tokens, c->experts, c->each, c->routing, false };
    const kiln_tensor *const ids = host_result(ARRAY(KILN_I32, c->tokens, c->each));
    const kiln_tensor *const w = host_result(ARRAY(KILN_F32, c->tokens, c->each));
    expect_route(&route, t.logits, NULL, ids, w);
    t.ids = numbers(ids), t.w = numbers(w);
    return t;
}

static void layer(const LayerCase *c)
{
    const Chosen t = choose(c);
    Array *const x = drawn(ARRAY(c->type, c->tokens, WIDTH), -1, 1), *const out =
                                                                         result(ARRAY(c->type, c->tokens, WIDTH));
    const kiln_moe_format of_shared = c->format == KILN_MOE_FP8 ? KILN_MOE_FP8 : KILN_MOE_SAME;
    const Ffn f = { c,
                    weights_drawn(c->type, c->format, c->experts, 2 * c->hidden, WIDTH, 2),
                    weights_drawn(c->type, c->format, c->experts, WIDTH, c->hidden, 1),
                    c->biases ? drawn(ARRAY(c->type, c->experts, 2 * c->hidden), -0.5, 0.5) : NULL,
                    c->biases ? drawn(ARRAY(c->type, c->experts, WIDTH), -0.5, 0.5) : NULL,
                    c->hidden };
    Ffn s = { .c = c, .hidden = c->shared };
    if (c->shared) s.gate_up = weights_drawn(c->type, of_shared, 1, 2 * c->shared, WIDTH, 2);
    if (c->shared) s.down = weights_drawn(c->type, of_shared, 1, WIDTH, c->shared, 1);
    Array *const residual = c->residual ? drawn(ARRAY(c->type, c->tokens, WIDTH), -1, 1) : NULL;
    double *const expected = values(out);
    for (int64_t m = 0; m < c->tokens; m++) {
        double *const y = expected + m * WIDTH, row[WIDTH];
        for (int64_t d = 0; d < WIDTH; d++) y[d] = residual ? get(residual, m * WIDTH + d) : 0;
        for (int64_t d = 0; d < WIDTH; d++) row[d] = get(x, m * WIDTH + d);
        if (c->format == KILN_MOE_FP8) quantise(row, WIDTH);
        if (c->shared) add_expert(&s, 0, row, 1, y);
        for (int64_t k = 0; k < c->each; k++) {
            const int64_t e = (int64_t)t.ids[m * c->each + k];
            if (e >= 0 && e < c->experts) add_expert(&f, e, row, t.w[m * c->each + k], y);
        }
    }
    kiln_moe_args a = { .x = of(x),
                        .gate_up = of(f.gate_up.numbers),
                        .down = of(f.down.numbers),
                        .format = c->format,
                        .gate_up_scales = of(f.gate_up.scales),
                        .down_scales = of(f.down.scales),
                        .shared_gate_up_scales = of(s.gate_up.scales),
                        .shared_down_scales = of(s.down.scales),
                        .gate_up_bias = of(f.gate_up_bias),
                        .down_bias = of(f.down_bias),
                        .logits = of(t.logits),
                        .experts = of(t.experts),
                        .weights = of(t.weights),
                        .shared_gate_up = of(s.gate_up.numbers),
                        .shared_down = of(s.down.numbers),
                        .residual = of(residual),
                        .out = of(out),
                        .top_k = c->logits ? c->each : 0,
                        .routing = &c->routing,
                        .activation = c->activation,
                        .interleaved = c->interleaved,
                        .alpha = &(double){ 1.5 },
                        .limit = &(double){ 0.7 } };
    assert_ok(kiln_moe_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    done(kiln_moe(ops, NULL, &a)); // twice: nothing is left of the first
    done(kiln_moe(ops, NULL, &a));
    compare("out", out, expected, c->format == KILN_MOE_FP8 ? close_fp8 : close_16);
}

static void layers(void **state)
{
    static const LayerCase cases[] = {
        { KILN_BF16,
          45,
          48,
          8,
          2,
          40,
          true,
          false,
          true,
          false,
          KILN_MOE_SWIGLU,
          { .renormalise = true },
          KILN_MOE_SAME },
        { KILN_F16, 3, 40, 6, 4, 0, false, true, false, true, KILN_MOE_SWIGLU_CLAMPED, { 0 }, KILN_MOE_SAME },
        { KILN_F16, 0, 40, 6, 4, 0, false, true, false, true, KILN_MOE_SWIGLU_CLAMPED, { 0 }, KILN_MOE_SAME },
        // In the mean 26 rows of an expert and 45: on a GPU the same tiles, in another order.
        { KILN_BF16, 52, 40, 2, 1, 0, false, false, false, false, KILN_MOE_SWIGLU, { 0 }, KILN_MOE_SAME },
        { KILN_BF16, 90, 40, 2, 1, 0, false, false, false, false, KILN_MOE_SWIGLU, { 0 }, KILN_MOE_SAME },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) layer(&cases[i]);
}

// gpt-oss, and shared experts beside.
static void layers_of_mxfp4(void **state)
{
    layer(&(LayerCase){ .type = KILN_BF16,
                        .tokens = 45,
                        .hidden = 96,
                        .experts = 6,
                        .each = 4,
                        .shared = 40,
                        .logits = true,
                        .biases = true,
                        .residual = true,
                        .interleaved = true,
                        .activation = KILN_MOE_SWIGLU_CLAMPED,
                        .routing = { .renormalise = true },
                        .format = KILN_MOE_MXFP4 });
}

// DeepSeek V3.
static void layers_of_fp8(void **state)
{
    layer(&(LayerCase){ .type = KILN_BF16,
                        .tokens = 45,
                        .hidden = 136,
                        .experts = 8,
                        .each = 2,
                        .shared = 40,
                        .logits = true,
                        .residual = true,
                        .routing = { true, true, &(double){ 2.5 }, 4, 2, 0 },
                        .format = KILN_MOE_FP8 });
}

// ---- refusals

static void routes_are_refused(void **state)
{
    Array *const logits = ARRAY(KILN_F32, 2, 12), *const experts = ARRAY(KILN_I32, 2, 4),
                 *const weights = ARRAY(KILN_F32, 2, 4);
    const kiln_tensor many = kiln_tensor_of(device, logits->tensor.data, KILN_F32, 2, (int64_t[]){ 0, 2000 });
    const kiln_tensor none = kiln_tensor_of(device, experts->tensor.data, KILN_I32, 2, (int64_t[]){ 0, 4 });
    const kiln_tensor none_f = kiln_tensor_of(device, weights->tensor.data, KILN_F32, 2, (int64_t[]){ 0, 4 });
    kiln_moe_routing r = { .groups = 5 };
    kiln_moe_route_args a = { .logits = of(logits), .experts = of(experts), .weights = of(weights), .routing = &r };
    assert_fails(kiln_moe_route(ops, NULL, &a), KILN_BAD_ARGUMENT,
                 "kiln_moe_route: 'groups' is 5, which does not divide 12");
    r = (kiln_moe_routing){ .groups = 4, .top_groups = 1 };
    assert_fails(kiln_moe_route(ops, NULL, &a), KILN_BAD_ARGUMENT, "'experts' has K = 4, expected 1 to 3");
    r = (kiln_moe_routing){ .groups = 12, .top_groups = 4 };
    assert_fails(kiln_moe_route(ops, NULL, &a), KILN_BAD_ARGUMENT, "'group_scores' is 2, but groups have one expert");
    r = (kiln_moe_routing){ .scale = &(double){ -1 } };
    assert_fails(kiln_moe_route(ops, NULL, &a), KILN_BAD_ARGUMENT, "'scale' is -1, expected a positive number");
    r = (kiln_moe_routing){ 0 };
    REFUSED(kiln_moe_route(ops, NULL, &a), a, (a.logits = &many, a.experts = &none, a.weights = &none_f),
            KILN_UNSUPPORTED, "'logits' has E = 2000, expected 1 to 1024");
}

static void permutations_are_refused(void **state)
{
    Array *const experts = ARRAY(KILN_I32, 3, 2), *const tokens = ARRAY(KILN_I32, 8),
                 *const places = ARRAY(KILN_I32, 3, 2);
    Array *const offsets = ARRAY(KILN_I32, 5), *const x = ARRAY(KILN_F32, 3, 8);
    kiln_moe_permute_args a = {
        .experts = of(experts), .tokens = of(tokens), .places = of(places), .offsets = of(offsets), .alignment = 2
    };
    assert_fails(kiln_moe_permute(ops, NULL, &a), KILN_BAD_SHAPE, "dimension 0 of 'tokens' is 8, expected at least 10");
    REFUSED(kiln_moe_permute(ops, NULL, &a), a, a.x = of(x), KILN_BAD_ARGUMENT, "'x' is given, but 'rows' is null");
    REFUSED(kiln_moe_permute(ops, NULL, &a), a, a.alignment = -1, KILN_BAD_ARGUMENT,
            "'alignment' is -1, expected 1 to 1024");
}

static void products_are_refused(void **state)
{
    static const int32_t falling[] = { 0, 4, 2 };
    Array *const a = ARRAY(KILN_BF16, 4, 16), *const b = ARRAY(KILN_BF16, 2, 8, 16), *const c = ARRAY(KILN_BF16, 4, 8);
    Array *const counts = ARRAY(KILN_I32, 2), *const offsets = listed(3, falling);
    kiln_grouped_gemm_args g = { .a = of(a), .b = of(b), .c = of(c), .offsets = of(offsets), .transpose_b = true };
    REFUSED(kiln_grouped_gemm(ops, NULL, &g), g, g.counts = of(counts), KILN_BAD_ARGUMENT,
            "kiln_grouped_gemm: 'offsets' and 'counts' are both given");
    REFUSED(kiln_grouped_gemm(ops, NULL, &g), g, g.transpose_b = false, KILN_BAD_SHAPE,
            "dimension 1 of 'b' is 8, expected 16: its shape is [E][K][N], and 'a' has K = 16");
    assert_fails(kiln_grouped_gemm(ops, NULL, &g), KILN_BAD_ARGUMENT, "needs a workspace of");
    const kiln_tensor many = kiln_tensor_of(device, a->tensor.data, KILN_BF16, 2, (int64_t[]){ INT64_C(1) << 30, 0 });
    const kiln_tensor none = kiln_tensor_of(device, b->tensor.data, KILN_BF16, 3, (int64_t[]){ 2, 0, 0 });
    REFUSED(kiln_grouped_gemm(ops, NULL, &g), g, (g.a = &many, g.b = &none, g.c = &many), KILN_UNSUPPORTED,
            "'a' has 1073741824 rows, expected fewer than 2^30");
    if (!on_cpu()) return; // where values are looked at
    assert_ok(kiln_grouped_gemm_workspace_size(ops, &g, &g.workspace_bytes));
    g.workspace = bytes_new(g.workspace_bytes)->tensor.data;
    assert_fails(kiln_grouped_gemm(ops, NULL, &g), KILN_TRAPPED, "offsets never fall");
}

// Layers that differ in their tokens alone, 30 and 60 rows for an expert: one kernel takes tiles in bands, the other does not.
static void bands_of_layers(void **state)
{
    enum { EXPERTS = 16, EACH = 2, FEW = 240, MANY = 480 };
    if (on_cpu()) skip_because("on a CPU all layers have the same bands");
    Array *const gate_up = ARRAY(KILN_BF16, EXPERTS, 32, 64), *const down = ARRAY(KILN_BF16, EXPERTS, 64, 16);
    size_t length[3] = { kiln_ops_list(ops, NULL, 0) };
    for (int i = 0; i < 2; i++) {
        const int64_t tokens = i == 0 ? FEW : MANY;
        const kiln_moe_args a = { .x = of(ARRAY(KILN_BF16, tokens, 64)),
                                  .gate_up = of(gate_up),
                                  .down = of(down),
                                  .logits = of(ARRAY(KILN_F32, tokens, EXPERTS)),
                                  .out = of(ARRAY(KILN_BF16, tokens, 64)),
                                  .top_k = EACH };
        size_t bytes;
        assert_ok(kiln_moe_workspace_size(ops, &a, &bytes));
        length[i + 1] = kiln_ops_list(ops, NULL, 0);
    }
    assert_true(length[0] < length[1] && length[1] < length[2]);
}

static void layers_are_refused(void **state)
{
    Array *const x = ARRAY(KILN_BF16, 2, 64), *const gate_up = ARRAY(KILN_BF16, 4, 32, 64),
                 *const down = ARRAY(KILN_BF16, 4, 64, 16);
    Array *const logits = ARRAY(KILN_F32, 2, 4), *const experts = ARRAY(KILN_I32, 2, 2),
                 *const out = ARRAY(KILN_BF16, 2, 64);
    Array *const narrow = ARRAY(KILN_BF16, 4, 30, 64), *const shared = ARRAY(KILN_BF16, 32, 64);
    kiln_moe_args a = {
        .x = of(x), .gate_up = of(gate_up), .down = of(down), .logits = of(logits), .out = of(out), .top_k = 2
    };
    REFUSED(kiln_moe(ops, NULL, &a), a, a.experts = of(experts), KILN_BAD_ARGUMENT,
            "kiln_moe: 'logits' and 'experts' are both given, expected one of them");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.logits = NULL, KILN_BAD_ARGUMENT, "'logits' and 'experts' are both null");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.top_k = 5, KILN_BAD_ARGUMENT, "'top_k' is 5, expected 1 to 4");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.gate_up = of(narrow), KILN_BAD_SHAPE,
            "'gate_up' has 30 rows of gate and up, expected 32: 'down' has 16 hidden elements");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.shared_gate_up = of(shared), KILN_BAD_ARGUMENT,
            "'shared_gate_up' is given, but 'shared_down' is null");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.activation = (kiln_moe_activation)3, KILN_BAD_ARGUMENT, "'activation' is 3");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.limit = &(double){ 0 }, KILN_BAD_ARGUMENT,
            "'limit' is 0, expected a positive number");
    assert_fails(kiln_moe(ops, NULL, &a), KILN_BAD_ARGUMENT, "workspace");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.format = (kiln_moe_format)3, KILN_BAD_ARGUMENT, "'format' is 3");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.down_scales = of(x), KILN_BAD_ARGUMENT,
            "'down_scales' is given, but 'format' is one without");
}

static void formats_are_refused(void **state)
{
    Array *const x = ARRAY(KILN_BF16, 2, 64), *const logits = ARRAY(KILN_F32, 2, 4),
                 *const out = ARRAY(KILN_BF16, 2, 64);
    Array *const codes = ARRAY(KILN_U8, 4, 64, 64), *const exponents = ARRAY(KILN_U8, 4, 64, 4);
    Array *const bytes = ARRAY(KILN_E4M3, 4, 64, 64), *const down = ARRAY(KILN_E4M3, 4, 64, 32);
    Array *const two = ARRAY(KILN_F32, 4, 2, 1), *const one = ARRAY(KILN_F32, 4, 1, 1);
    kiln_moe_args a = { .x = of(x),
                        .gate_up = of(codes),
                        .gate_up_scales = of(exponents),
                        .down = of(codes),
                        .down_scales = of(exponents),
                        .logits = of(logits),
                        .out = of(out),
                        .top_k = 2,
                        .format = KILN_MOE_MXFP4 };
    REFUSED(kiln_moe(ops, NULL, &a), a, a.gate_up_scales = NULL, KILN_BAD_ARGUMENT, "'gate_up_scales' is null");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.gate_up_scales = of(two), KILN_BAD_TYPE,
            "'gate_up_scales' is a tensor of f32, expected u8");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.down = of(ARRAY(KILN_U8, 4, 64, 16)), KILN_BAD_SHAPE,
            "dimension 2 of 'down' is 16, expected 64");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.shared_down_scales = of(one), KILN_BAD_ARGUMENT,
            "'shared_down_scales' is given, but 'format' is one without");
    assert_fails(kiln_moe(ops, NULL, &a), KILN_BAD_ARGUMENT, "workspace");
    a.gate_up = of(bytes), a.gate_up_scales = of(two), a.down = of(down), a.down_scales = of(one),
    a.format = KILN_MOE_FP8;
    REFUSED(kiln_moe(ops, NULL, &a), a, a.interleaved = true, KILN_UNSUPPORTED, "'interleaved' is true");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.down_bias = of(x), KILN_BAD_ARGUMENT, "'down_bias' is given");
    REFUSED(kiln_moe(ops, NULL, &a), a, a.gate_up_scales = of(one), KILN_BAD_SHAPE,
            "'gate_up_scales' has 1 blocks of gate and up, expected 2");
    assert_fails(kiln_moe(ops, NULL, &a), KILN_BAD_ARGUMENT, "workspace");
}

static void products_of_mxfp4_are_refused(void **state)
{
    Array *const a = ARRAY(KILN_BF16, 4, 48), *const codes = ARRAY(KILN_U8, 2, 8, 64),
                 *const scales = ARRAY(KILN_U8, 2, 8, 4);
    Array *const c = ARRAY(KILN_BF16, 4, 8), *const even = ARRAY(KILN_BF16, 4, 64),
                 *const short_of = ARRAY(KILN_U8, 2, 8, 32);
    kiln_grouped_mxfp4_args g = {
        .a = of(a), .codes = of(codes), .scales = of(scales), .offsets = of(ARRAY(KILN_I32, 3))
    };
    g.c = of(c);
    assert_fails(kiln_grouped_mxfp4(ops, NULL, &g), KILN_BAD_SHAPE, "'a' has K = 48, expected a multiple of 32");
    g.a = of(even);
    REFUSED(kiln_grouped_mxfp4(ops, NULL, &g), g, g.codes = of(short_of), KILN_BAD_SHAPE,
            "dimension 2 of 'codes' is 32, expected 64");
    const kiln_tensor longest = kiln_tensor_of(device, NULL, KILN_BF16, 2, (int64_t[]){ 0, INT64_MAX });
    REFUSED(kiln_grouped_mxfp4(ops, NULL, &g), g, g.a = &longest, KILN_BAD_SHAPE, "dimension 2 of 'codes' is 64");
    REFUSED(kiln_grouped_mxfp4(ops, NULL, &g), g, g.offsets = NULL, KILN_BAD_ARGUMENT, "'offsets' is null");
    assert_fails(kiln_grouped_mxfp4(ops, NULL, &g), KILN_BAD_ARGUMENT, "needs a workspace of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(routes, free_arrays),
        cmocka_unit_test_teardown(permutation, free_arrays),
        cmocka_unit_test_teardown(products_of_ragged_rows, free_arrays),
        cmocka_unit_test_teardown(products_in_places, free_arrays),
        cmocka_unit_test_teardown(products_of_fp8, free_arrays),
        cmocka_unit_test_teardown(products_of_mxfp4, free_arrays),
        cmocka_unit_test_teardown(weight_gradients, free_arrays),
        cmocka_unit_test_teardown(layers, free_arrays),
        cmocka_unit_test_teardown(bands_of_layers, free_arrays),
        cmocka_unit_test_teardown(layers_of_mxfp4, free_arrays),
        cmocka_unit_test_teardown(layers_of_fp8, free_arrays),
        cmocka_unit_test_teardown(routes_are_refused, free_arrays),
        cmocka_unit_test_teardown(permutations_are_refused, free_arrays),
        cmocka_unit_test_teardown(products_are_refused, free_arrays),
        cmocka_unit_test_teardown(layers_are_refused, free_arrays),
        cmocka_unit_test_teardown(formats_are_refused, free_arrays),
        cmocka_unit_test_teardown(products_of_mxfp4_are_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
