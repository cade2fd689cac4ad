// SPDX-License-Identifier: MIT
// nn_test.c - the small operators against the references of their kernels; rows that lie apart, empty tensors; what is refused.
#include "support.h"

#include "kiln/ops/nn.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static Tolerance tolerance_of(kiln_type type)
{
    switch (type) {
    case KILN_F32: return (Tolerance){ 2e-4, 2e-4, 1e-7 };
    case KILN_F16: return (Tolerance){ 2e-3, 2e-3, 1e-5 };
    case KILN_BF16: return (Tolerance){ 1e-2, 1e-2, 1e-4 };
    case KILN_E4M3: return (Tolerance){ 0.01, 0.13, 2e-3 }; // a neighbour
    case KILN_I8: return (Tolerance){ 1, 0, 1e-3 };         // a half is rounded either way
    default: return (Tolerance){ 0.5, 0, 1e-9 };            // whole numbers
    }
}

static void compare(const char *name, Array *got, const double *expected)
{
    if (!got) return;
    array_fetch(got);
    assert_close(name, got, expected, tolerance_of(got->tensor.type));
}

static Array *drawn(kiln_type type, int64_t rows, int64_t columns, double low, double high)
{
    Array *const x = columns ? ARRAY(type, rows, columns) : ARRAY(type, rows);
    fill_random(x, low, high);
    return x;
}

static Array *result(kiln_type type, int64_t rows, int64_t columns)
{
    Array *const x = columns ? ARRAY(type, rows, columns) : ARRAY(type, rows);
    array_send(x);
    return x;
}

// Numbers from low to high, both included.
static Array *whole(int64_t n, int64_t low, int64_t high)
{
    Array *const x = ARRAY(KILN_I32, n);
    for (int64_t i = 0; i < n; i++) set(x, i, (double)integer(low, high));
    array_send(x);
    return x;
}

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

// ---- norms

typedef struct NormCase {
    kiln_type type, result;
    int64_t rows, columns;
    bool center, residual, weight, bias, sum, apart;
} NormCase;

typedef struct Norm {
    Array *x, *residual, *weight, *bias, *out, *sum, *scale;
} Norm;

static void norm(const NormCase *c)
{
    const bool is_narrow = c->result == KILN_E4M3 || c->result == KILN_I8;
    Norm t = { .x = drawn(c->type, c->rows, c->columns, -2, 3),
               .residual = c->residual ? drawn(c->type, c->rows, c->columns, -1, 1) : NULL,
               .weight = c->weight ? drawn(c->type, c->columns, 0, 0.5, 1.5) : NULL,
               .bias = c->bias ? drawn(c->type, c->columns, 0, -1, 1) : NULL,
               .out = result(c->result, c->rows, c->columns),
               .sum = c->sum ? result(c->type, c->rows, c->columns) : NULL,
               .scale = is_narrow ? result(KILN_F32, c->rows, 0) : NULL };
    const kiln_arg args_of[] = { mirror_arg(t.x),   mirror_arg(t.residual), mirror_arg(t.weight), mirror_arg(t.bias),
                                 mirror_arg(t.out), mirror_arg(t.sum),      mirror_arg(t.scale),  KILN_FLOAT(1e-5) };
    char bindings[60];
    snprintf(bindings, sizeof bindings, "T=%s, TY=%s, CENTER=%s", kiln_type_name(c->type), kiln_type_name(c->result),
             c->center ? "true" : "false");
    run_reference("norm/fused.tile", "norm", bindings, args_of, 8);
    const double *const y = values(t.out), *const sum = t.sum ? values(t.sum) : NULL,
                        *const scale = t.scale ? values(t.scale) : NULL;
    if (c->apart) t.x = array_spread(t.x, false), t.out = array_spread(t.out, false);
    const kiln_norm_args args = { .x = of(t.x),
                                  .residual = of(t.residual),
                                  .weight = of(t.weight),
                                  .bias = of(t.bias),
                                  .out = of(t.out),
                                  .sum = of(t.sum),
                                  .out_scale = of(t.scale),
                                  .eps = 1e-5 };
    done((c->center ? kiln_layer_norm : kiln_rms_norm)(ops, NULL, &args));
    compare("sum", t.sum, sum);
    compare("out_scale", t.scale, scale);
    compare("out", t.out, y);
}

static void norms(void **state)
{
    static const NormCase cases[] = {
        { KILN_BF16, KILN_BF16, 3, 300, false, true, true, false, true, false },
        { KILN_F32, KILN_F32, 2, 1, false, false, false, false, false, false },
        { KILN_F16, KILN_F16, 2, 512, true, false, true, true, false, true },
        { KILN_F16, KILN_E4M3, 3, 200, false, true, true, false, true, false },
        { KILN_BF16, KILN_I8, 3, 256, true, false, true, false, false, false },
        { KILN_F32, KILN_F32, 0, 64, false, false, true, false, false, false },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) norm(&cases[i]);
}

// ---- rotary embedding

// The rows of one token lie in a tensor of queries, keys and values.
static void rotary_embedding(void **state)
{
    enum { TOKENS = 5, HEADS = 3, D = 64 };
    static const kiln_rotary styles[] = { { .style = KILN_ROTARY_HALVES, .scale = 2 },
                                          { .style = KILN_ROTARY_INTERLEAVED, .magnitude = 1.5 },
                                          { .style = KILN_ROTARY_YARN, .size = 32, .offset = 16, .scale = 4 },
                                          { .style = KILN_ROTARY_LLAMA3, .base = 500000, .scale = 8 },
                                          { .style = KILN_ROTARY_DYNAMIC_NTK, .scale = 2 },
                                          { .style = KILN_ROTARY_QWEN_NTK, .size = 32 },
                                          { .style = KILN_ROTARY_MULTI, .scale = 2 } };
    Array *const positions = whole(TOKENS, 0, 200), *const lengths = whole(TOKENS, 500, 5000);
    const kiln_tensor moved = moved_away(positions);
    for (int i = 0; i < 7; i++) {
        const kiln_rotary *const r = &styles[i];
        const bool is_ntk = r->style == KILN_ROTARY_DYNAMIC_NTK || r->style == KILN_ROTARY_QWEN_NTK;
        const bool uses_length = is_ntk || r->style == KILN_ROTARY_YARN || r->style == KILN_ROTARY_LLAMA3;
        Array *const all = ARRAY(KILN_F32, TOKENS, 3 * HEADS, D);
        fill_random(all, -1, 1);
        Array *const x = array_part(all, 1, HEADS, HEADS);
        const kiln_tensor *const expected = host_copy(x);
        const kiln_rotary_embedding_args args = { .x = of(x),
                                                  .positions = i % 2 ? &moved : of(positions),
                                                  .rotary = r,
                                                  .trained_length = uses_length ? 1024 : 0,
                                                  .backward = i == 0,
                                                  .lengths = is_ntk ? of(lengths) : NULL };
        done(kiln_rotary_embedding(ops, NULL, &args));
        char bindings[100];
        snprintf(bindings, sizeof bindings, "T=f32, D=64, SIZE=%d, OFFSET=%d, STYLE=%d, BACK=%s%s",
                 r->size                               ? (int)r->size
                 : r->style == KILN_ROTARY_INTERLEAVED ? D / 2
                                                       : D,
                 (int)r->offset, (int)(r->style == KILN_ROTARY_MULTI ? KILN_ROTARY_HALVES : r->style),
                 i == 0 ? "true" : "false", is_ntk ? "" : ", LENGTH=none");
        const kiln_arg numbers_of[] = { KILN_TENSOR(expected),
                                        KILN_TENSOR(host_copy(positions)),
                                        is_ntk ? KILN_TENSOR(host_copy(lengths)) : KILN_NONE,
                                        KILN_FLOAT(r->base ? r->base : 10000),
                                        KILN_FLOAT(r->scale ? r->scale : 1),
                                        KILN_FLOAT(1),
                                        KILN_FLOAT(r->style == KILN_ROTARY_YARN ? 32 : 4),
                                        KILN_FLOAT(1),
                                        KILN_FLOAT(r->magnitude ? r->magnitude : 1),
                                        KILN_INT(uses_length ? 1024 : 0) };
        run_reference("nn/rotary.tile", "rotary", bindings, numbers_of, 10);
        compare("x", x, numbers(expected));
    }
}

// ---- activations

// Gate and up are the halves of one tensor's rows.
static void activations(void **state)
{
    enum { ROWS = 3, N = 80 };
    static const kiln_activation kinds[] = { KILN_ACTIVATION_SILU, KILN_ACTIVATION_GELU, KILN_ACTIVATION_RELU };
    for (int i = 0; i < 3; i++) {
        const kiln_type type = i == 0 ? KILN_BF16 : KILN_F32;
        Array *const both = drawn(type, ROWS, 2 * N, -3, 3), *const dout = drawn(type, ROWS, N, -1, 1);
        Array *const gate = array_part(both, 1, 0, N), *const up = i == 2 ? NULL : array_part(both, 1, N, N);
        Array *const out = result(type, ROWS, N), *const dgate = result(type, ROWS, N);
        Array *const dup = up ? result(type, ROWS, N) : NULL;
        done(kiln_activate(
            ops, NULL,
            &(kiln_activate_args){ .gate = of(gate), .up = of(up), .out = of(out), .activation = kinds[i] }));
        done(kiln_activate_backward(ops, NULL,
                                    &(kiln_activate_backward_args){ .gate = of(gate),
                                                                    .up = of(up),
                                                                    .dout = of(dout),
                                                                    .dgate = of(dgate),
                                                                    .dup = of(dup),
                                                                    .activation = kinds[i] }));
        char bindings[80];
        const kiln_tensor *const g = host_copy(gate), *const u = up ? host_copy(up) : NULL, *const d = host_copy(dout);
        const kiln_tensor *const y = host_result(out), *const dg = host_result(dgate);
        const kiln_tensor *const du = up ? host_result(dup) : NULL;
        snprintf(bindings, sizeof bindings, "T=f32, ACT=%d%s", (int)kinds[i], up ? "" : ", U=none");
        const kiln_arg args[] = { KILN_TENSOR(g), u ? KILN_TENSOR(u) : KILN_NONE, KILN_TENSOR(y) };
        run_reference("nn/activation.tile", "gated", bindings, args, 3);
        snprintf(bindings, sizeof bindings, "T=f32, ACT=%d%s", (int)kinds[i], up ? "" : ", U=none, DU=none");
        const kiln_arg back[] = { KILN_TENSOR(g), u ? KILN_TENSOR(u) : KILN_NONE, KILN_TENSOR(d), KILN_TENSOR(dg),
                                  du ? KILN_TENSOR(du) : KILN_NONE };
        run_reference("nn/activation.tile", "gated_backward", bindings, back, 5);
        compare("out", out, numbers(y));
        compare("dgate", dgate, numbers(dg));
        if (du) compare("dup", dup, numbers(du));
    }
}

// ---- rows

static void softmax_and_argmax(void **state)
{
    Array *const x = array_spread(drawn(KILN_F16, 4, 300, -4, 4), false);
    Array *const y = result(KILN_F32, 4, 300), *const index = result(KILN_I32, 4, 0);
    const kiln_tensor *const to = host_result(y), *const at = host_result(index);
    done(kiln_softmax(ops, NULL, &(kiln_softmax_args){ .x = of(x), .out = of(y) }));
    done(kiln_argmax(ops, NULL, &(kiln_argmax_args){ .x = of(x), .index = of(index) }));
    Array *const all = result(KILN_I32, 4, 3), *const third = array_part(all, 1, 1, 1); // with stride 3, at 4 bytes
    kiln_tensor column = third->tensor;
    column.rank = 1;
    done(kiln_argmax(ops, NULL, &(kiln_argmax_args){ .x = of(x), .index = &column }));
    const kiln_arg args[] = { KILN_TENSOR(host_copy(x)), KILN_TENSOR(to) }, places[] = { args[0], KILN_TENSOR(at) };
    run_reference("norm/softmax.tile", "softmax", "T=f32, TY=f32", args, 2);
    run_reference("nn/embedding.tile", "argmax", "T=f32", places, 2);
    compare("out", y, numbers(to));
    compare("index", index, numbers(at));
    compare("index", third, numbers(at));
    array_erase(third);
    assert_true(array_is_erased(all));
}

// What a GPU keeps on the chip but for the last pieces.
static void softmax_of_long_rows(void **state)
{
    enum { ROWS = 2, N = 5 * 16384 + 64 };
    Array *const x = drawn(KILN_F16, ROWS, N, -4, 4), *const y = result(KILN_F32, ROWS, N);
    const kiln_tensor *const to = host_result(y);
    done(kiln_softmax(ops, NULL, &(kiln_softmax_args){ .x = of(x), .out = of(y) }));
    const kiln_arg args[] = { KILN_TENSOR(host_copy(x)), KILN_TENSOR(to) };
    run_reference("norm/softmax.tile", "softmax", "T=f32, TY=f32", args, 2);
    compare("out", y, numbers(to));
}

// Labels and tokens that are none of the row, or of the table, too.
static void cross_entropy(void **state)
{
    enum { ROWS = 6, V = 150 };
    Array *const x = drawn(KILN_BF16, ROWS, V, -5, 5), *const labels = whole(ROWS, -30, V + 30);
    Array *const loss = result(KILN_F32, ROWS, 0), *const lse = result(KILN_F32, ROWS, 0);
    Array *const dloss = drawn(KILN_F32, ROWS, 0, -1, 1), *const dx = result(KILN_BF16, ROWS, V);
    const kiln_tensor *const l = host_result(loss), *const e = host_result(lse), *const d = host_result(dx);
    done(kiln_cross_entropy(
        ops, NULL,
        &(kiln_cross_entropy_args){ .logits = of(x), .labels = of(labels), .loss = of(loss), .lse = of(lse) }));
    done(kiln_cross_entropy_backward(
        ops, NULL,
        &(kiln_cross_entropy_backward_args){
            .logits = of(x), .labels = of(labels), .lse = of(lse), .dloss = of(dloss), .dlogits = of(dx) }));
    Array *const loss2 = result(KILN_F32, ROWS, 0), *const dx2 = result(KILN_BF16, ROWS, V);
    const kiln_tensor moved = moved_away(labels);
    done(kiln_cross_entropy(
        ops, NULL, &(kiln_cross_entropy_args){ .logits = of(x), .labels = &moved, .loss = of(loss2), .lse = of(lse) }));
    done(kiln_cross_entropy_backward(
        ops, NULL,
        &(kiln_cross_entropy_backward_args){
            .logits = of(x), .labels = &moved, .lse = of(lse), .dloss = of(dloss), .dlogits = of(dx2) }));
    Array *const loss3 = result(KILN_F32, ROWS, 0), *const dx3 = result(KILN_BF16, ROWS, V);
    done(kiln_cross_entropy(ops, NULL,
                            &(kiln_cross_entropy_args){ .logits = of(x),
                                                        .labels = of(labels),
                                                        .loss = of(loss3),
                                                        .lse = of(lse),
                                                        .dloss = of(dloss),
                                                        .dlogits = of(dx3) }));
    const kiln_arg logits = KILN_TENSOR(host_copy(x)), label = KILN_TENSOR(host_copy(labels));
    const kiln_arg weight = KILN_TENSOR(host_copy(dloss));
    const kiln_arg args[] = { logits, KILN_TENSOR(d), label, weight, KILN_TENSOR(l), KILN_TENSOR(e) };
    run_reference("nn/cross_entropy.tile", "cross_entropy_gradient", "T=f32", args, 6);
    compare("loss", loss, numbers(l));
    compare("lse", lse, numbers(e));
    compare("loss", loss2, numbers(l));
    compare("loss", loss3, numbers(l));
    compare("dlogits", dx, numbers(d));
    compare("dlogits", dx2, numbers(d));
    compare("dlogits", dx3, numbers(d));
}

// Both kernels that write the gradient with the loss: for long rows and for others, without weights of rows.
static void cross_entropy_of_long_rows(void **state)
{
    enum { ROWS = 3 };
    static const int columns[] = { 5003, 86016 };
    for (int i = 0; i < 2; i++) {
        Array *const x = drawn(KILN_BF16, ROWS, columns[i], -5, 5), *const labels = whole(ROWS, -5000, columns[i]);
        Array *const loss = result(KILN_F32, ROWS, 0), *const lse = result(KILN_F32, ROWS, 0);
        Array *const dx = result(KILN_BF16, ROWS, columns[i]);
        const kiln_tensor *const l = host_result(loss), *const e = host_result(lse), *const d = host_result(dx);
        done(kiln_cross_entropy(
            ops, NULL,
            &(kiln_cross_entropy_args){
                .logits = of(x), .labels = of(labels), .loss = of(loss), .lse = of(lse), .dlogits = of(dx) }));
        const kiln_arg args[] = { KILN_TENSOR(host_copy(x)),
                                  KILN_TENSOR(d),
                                  KILN_TENSOR(host_copy(labels)),
                                  KILN_NONE,
                                  KILN_TENSOR(l),
                                  KILN_TENSOR(e) };
        run_reference("nn/cross_entropy.tile", "cross_entropy_gradient", "T=f32, DLOSS=none", args, 6);
        compare("loss", loss, numbers(l));
        compare("lse", lse, numbers(e));
        compare("dlogits", dx, numbers(d));
    }
}

static void embedding(void **state)
{
    Array *const table = drawn(KILN_F16, 40, 72, -1, 1), *const tokens = whole(9, -2, 42),
                 *const out = result(KILN_F16, 9, 72);
    const kiln_tensor *const y = host_result(out);
    done(kiln_embedding(
        ops, NULL,
        &(kiln_embedding_args){ .table = of(table), .tokens = of(tokens), .out = of(out), .scale = &(double){ 8 } }));
    const kiln_arg args[] = { KILN_TENSOR(host_copy(table)), KILN_TENSOR(host_copy(tokens)), KILN_TENSOR(y),
                              KILN_FLOAT(8) };
    run_reference("nn/embedding.tile", "embedding", "T=f32", args, 4);
    compare("out", out, numbers(y));
    Array *const again = result(KILN_F16, 9, 72);
    const kiln_tensor moved = moved_away(tokens);
    done(kiln_embedding(
        ops, NULL,
        &(kiln_embedding_args){ .table = of(table), .tokens = &moved, .out = of(again), .scale = &(double){ 8 } }));
    compare("out", again, numbers(y));
}

static void casts(void **state)
{
    Array *const x = array_spread(drawn(KILN_BF16, 3, 200, -20, 20), false);
    for (int64_t group = 0; group <= 64; group += 64) {
        Array *const out = result(KILN_E4M3, 3, 200), *const scales = result(KILN_F32, 3, group ? 4 : 0);
        done(kiln_cast_fp8(ops, NULL,
                           &(kiln_cast_fp8_args){ .x = of(x), .out = of(out), .scales = of(scales), .group = group }));
        array_fetch(out);
        array_fetch(scales);
        for (int64_t i = 0; i < 600; i++) {
            const double scale = get(scales, group ? i / 200 * 4 + i % 200 / group : i / 200);
            assert_true(fabs(get(out, i) * scale - get(x, i)) <= fabs(get(x, i)) / 15 + scale / 512);
        }
    }
}

// Scales by columns, which lie apart: the same ones.
static void casts_by_columns(void **state)
{
    enum { ROWS = 3, PITCH = 4, COLUMNS = 200, BLOCKS = 2 };
    Array *const x = drawn(KILN_BF16, ROWS, COLUMNS, -20, 20), *const out = result(KILN_E4M3, ROWS, COLUMNS),
                 *const scales = result(KILN_F32, ROWS, BLOCKS), *const columns = result(KILN_F32, BLOCKS, PITCH);
    kiln_tensor turned = columns->tensor;
    turned.shape[0] = ROWS, turned.shape[1] = BLOCKS, turned.has_strides = true;
    turned.strides[0] = 1, turned.strides[1] = PITCH;
    kiln_cast_fp8_args args = { .x = of(x), .out = of(out), .scales = of(scales), .group = 128 };
    done(kiln_cast_fp8(ops, NULL, &args));
    args.scales = &turned;
    done(kiln_cast_fp8(ops, NULL, &args));
    array_fetch(scales), array_fetch(columns);
    for (int64_t i = 0; i < ROWS * BLOCKS; i++)
        assert_true(get(columns, i % BLOCKS * PITCH + i / BLOCKS) == get(scales, i));
}

// Groups of rows that stand back to back, each in a place of its own.
static void casts_of_groups(void **state)
{
    enum { GROUPS = 3, PLACES = 4, COLUMNS = 200, BLOCKS = 4 };
    static const int counts_of[GROUPS] = { 3, 0, 6 }; // more than there is room for
    Array *const x = drawn(KILN_BF16, 9, COLUMNS, -20, 20), *const counts = whole(GROUPS, 0, 1);
    Array *const out = ARRAY(KILN_E4M3, GROUPS, PLACES, COLUMNS), *const scales =
                                                                      ARRAY(KILN_F32, GROUPS, PLACES, BLOCKS);
    for (int g = 0; g < GROUPS; g++) set(counts, g, counts_of[g]);
    array_erase(out), array_erase(scales);
    array_send(counts), array_send(out), array_send(scales);
    kiln_cast_fp8_args args = { .x = of(x), .out = of(out), .scales = of(scales), .group = 64, .counts = of(counts) };
    done(kiln_cast_fp8(ops, NULL, &args));
    array_fetch(out), array_fetch(scales);
    for (int g = 0, first = 0; g < GROUPS; first += counts_of[g++])
        for (int64_t r = 0; r < PLACES; r++)
            for (int64_t j = 0; j < COLUMNS; j++) {
                const double scale = get(scales, (g * PLACES + r) * BLOCKS + j / 64);
                const double code = get(out, (g * PLACES + r) * COLUMNS + j);
                const double is = r < counts_of[g] ? get(x, (first + r) * COLUMNS + j) : 0;
                assert_true(r < counts_of[g] || (scale == 0 && code == 0));
                assert_true(fabs(code * scale - is) <= fabs(is) / 15 + scale / 512);
            }
    REFUSED(kiln_cast_fp8(ops, NULL, &args), args, args.group = 0, KILN_BAD_ARGUMENT,
            "'group' is 0, expected 32, 64, 128 or 256 with 'counts'");
    REFUSED(kiln_cast_fp8(ops, NULL, &args), args, args.group = 128, KILN_BAD_SHAPE,
            "dimension 2 of 'scales' is 4, expected 2");
}

static void casts_to_int8(void **state)
{
    Array *const x = array_spread(drawn(KILN_BF16, 3, 200, -20, 20), false);
    Array *const out = result(KILN_I8, 3, 200), *const scales = result(KILN_F32, 3, 0);
    kiln_cast_int8_args args = { .x = of(x), .out = of(out), .scales = of(scales) };
    done(kiln_cast_int8(ops, NULL, &args));
    array_fetch(out), array_fetch(scales);
    for (int64_t m = 0; m < 3; m++) {
        double top = 0;
        for (int64_t i = m * 200; i < m * 200 + 200; i++) top = fmax(top, fabs(get(x, i)));
        assert_true(fabs(get(scales, m) - top / 127) < 1e-6 * top);
        for (int64_t i = m * 200; i < m * 200 + 200; i++)
            assert_true(fabs(get(out, i) * get(scales, m) - get(x, i)) <= get(scales, m) * 0.5001);
    }
    REFUSED(kiln_cast_int8(ops, NULL, &args), args, args.out = of(x), KILN_BAD_TYPE,
            "'out' is a tensor of bf16, expected i8");
}

static void hadamard(void **state)
{
    Array *const x = drawn(KILN_F32, 3, 64, -1, 1), *const out = result(KILN_F32, 3, 64);
    const kiln_tensor *const y = host_result(out);
    done(kiln_hadamard(ops, NULL, &(kiln_hadamard_args){ .x = of(x), .out = of(out) }));
    const kiln_arg args[] = { KILN_TENSOR(host_copy(x)), KILN_TENSOR(y) };
    run_reference("transform/hadamard.tile", "hadamard", "T=f32, N=64", args, 2);
    compare("out", out, numbers(y));
}

typedef struct Convolution {
    int64_t images, C, K, dilation, stride, pad, OH, OW; // of 9 x 8 pixels
    bool apart;
} Convolution;

static void convolve(const Convolution *v)
{
    Array *x = ARRAY(KILN_F16, v->images, 9, 8, v->C), *filter = ARRAY(KILN_F16, v->K, v->K, v->C, 24);
    fill_random(x, -1, 1), fill_random(filter, -1, 1);
    Array *out = ARRAY(KILN_F16, v->images, v->OH, v->OW, 24);
    array_send(out);
    if (v->apart) x = array_spread(x, false), filter = array_spread(filter, false), out = array_spread(out, false);
    const kiln_tensor *const y = host_result(out);
    done(kiln_conv2d(ops, NULL,
                     &(kiln_conv2d_args){ .x = of(x),
                                          .filter = of(filter),
                                          .out = of(out),
                                          .stride = v->stride,
                                          .dilation = v->dilation,
                                          .pad = v->pad }));
    const kiln_arg args[] = {
        KILN_TENSOR(host_copy(x)),           KILN_TENSOR(host_copy(filter)),          KILN_TENSOR(y),
        KILN_INT(v->stride ? v->stride : 1), KILN_INT(v->dilation ? v->dilation : 1), KILN_INT(v->pad)
    };
    run_reference("conv/conv2d.tile", "conv2d", "T=f32", args, 6);
    compare("out", out, numbers(y));
    array_erase(out);
    assert_true(array_is_erased(out));
}

// Few channels, and many with a dilation; pixels, filters and results that lie apart; many images of few channels, on a GPU by
// lines in shared memory.
static void convolutions(void **state)
{
    enum { IMAGES = 140 }; // as many as an H200 has multiprocessors, and more
    static const Convolution all[] = {
        { 2, 3, 3, 0, 2, 1, 5, 4, false },      { 2, 40, 3, 2, 0, 1, 7, 6, false },
        { 2, 3, 3, 0, 2, 1, 5, 4, true },       { 2, 40, 3, 2, 0, 1, 7, 6, true },
        { IMAGES, 3, 3, 0, 2, 1, 5, 4, false }, { 2, 64, 1, 0, 0, 0, 9, 8, false }, // a product of pixels on a GPU,
        { 2, 64, 1, 0, 0, 0, 9, 8, true },                                          // if they lie together
        { 2, 9, 1, 0, 0, 0, 9, 8, false }, // and begin at whole pieces of 16 bytes
        { 2, 64, 1, 0, 2, 0, 5, 4, false },
    };
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) convolve(&all[i]);
}

// ---- refusals

static void norms_are_refused(void **state)
{
    Array *const x = drawn(KILN_BF16, 2, 64, -1, 1), *const out = result(KILN_BF16, 2, 64),
                 *const weight = drawn(KILN_F32, 64, 0, 0, 1);
    Array *const scale = result(KILN_F32, 2, 0), *const narrow = result(KILN_I8, 2, 64);
    const kiln_tensor wide = kiln_tensor_of(device, x->tensor.data, KILN_BF16, 2, (int64_t[]){ 0, 20000 });
    kiln_norm_args a = { .x = of(x), .out = of(out), .eps = 1e-5 };
    REFUSED(kiln_rms_norm(ops, NULL, &a), a, a.weight = of(weight), KILN_BAD_TYPE,
            "kiln_rms_norm: 'weight' is a tensor of f32, expected bf16 as 'x'");
    REFUSED(kiln_rms_norm(ops, NULL, &a), a, a.out_scale = of(scale), KILN_BAD_ARGUMENT,
            "'out_scale' is not null, but 'out' is a tensor of bf16");
    REFUSED(kiln_rms_norm(ops, NULL, &a), a, a.out = of(narrow), KILN_BAD_ARGUMENT,
            "'out_scale' is null, but 'out' is a tensor of i8");
    REFUSED(kiln_layer_norm(ops, NULL, &a), a, a.eps = -1, KILN_BAD_ARGUMENT, "kiln_layer_norm: 'eps' is -1, expected");
    REFUSED(kiln_layer_norm(ops, NULL, &a), a, (a.x = &wide, a.out = &wide), KILN_UNSUPPORTED,
            "'x' has rows of N = 20000 elements, expected at most 16384");
}

static void rotary_is_refused(void **state)
{
    Array *const x = ARRAY(KILN_F32, 2, 1, 32), *const positions = whole(2, 0, 5);
    kiln_rotary r = { .style = KILN_ROTARY_QWEN_NTK };
    kiln_rotary_embedding_args a = { .x = of(x), .positions = of(positions), .rotary = &r };
    assert_fails(kiln_rotary_embedding(ops, NULL, &a), KILN_UNSUPPORTED,
                 "'style' of the rotary embedding is 4, one of NTK, which needs the sequences' lengths");
    a.lengths = of(positions);
    assert_fails(kiln_rotary_embedding(ops, NULL, &a), KILN_BAD_ARGUMENT, "'trained_length' is 0, expected at least 1");
    r = (kiln_rotary){ .style = KILN_ROTARY_HALVES };
    assert_fails(kiln_rotary_embedding(ops, NULL, &a), KILN_BAD_ARGUMENT,
                 "'lengths' is not null, but 'style' of the rotary embedding is 1, which takes none");
    a.lengths = NULL;
    r = (kiln_rotary){ .style = KILN_ROTARY_LLAMA3 };
    assert_fails(kiln_rotary_embedding(ops, NULL, &a), KILN_BAD_ARGUMENT, "'trained_length' is 0, expected at least 1");
    a.trained_length = INT64_C(1) << 31;
    assert_fails(kiln_rotary_embedding(ops, NULL, &a), KILN_BAD_ARGUMENT, "at least 1 and below 2^31");
    a.trained_length = 0;
    r = (kiln_rotary){ .style = KILN_ROTARY_HALVES, .size = 34 };
    assert_fails(kiln_rotary_embedding(ops, NULL, &a), KILN_BAD_ARGUMENT, "expected an even number from 2 to D = 32");
}

static void others_are_refused(void **state)
{
    Array *const x = drawn(KILN_F32, 2, 48, -1, 1), *const y = result(KILN_F32, 2, 48),
                 *const scales = result(KILN_F32, 2, 3);
    Array *const bytes = result(KILN_E4M3, 2, 48);
    kiln_activate_args gated = { .gate = of(x), .out = of(y), .activation = (kiln_activation)7 };
    assert_fails(kiln_activate(ops, NULL, &gated), KILN_BAD_ARGUMENT, "kiln_activate: 'activation' is 7");
    kiln_hadamard_args turned = { .x = of(x), .out = of(y) };
    assert_fails(kiln_hadamard(ops, NULL, &turned), KILN_UNSUPPORTED, "N = 48 elements, expected a power of two");
    kiln_cast_fp8_args cast = { .x = of(x), .out = of(bytes), .scales = of(scales), .group = 32 };
    assert_fails(kiln_cast_fp8(ops, NULL, &cast), KILN_BAD_SHAPE, "dimension 1 of 'scales' is 3, expected 2");
    cast.group = 20;
    assert_fails(kiln_cast_fp8(ops, NULL, &cast), KILN_BAD_ARGUMENT, "'group' is 20, expected 32, 64, 128, 256");
    Array *const image = ARRAY(KILN_F32, 1, 5, 5, 4), *const filter = ARRAY(KILN_F32, 3, 3, 4, 8),
                 *const out = ARRAY(KILN_F32, 1, 4, 3, 8);
    kiln_conv2d_args conv = { .x = of(image), .filter = of(filter), .out = of(out) };
    assert_fails(kiln_conv2d(ops, NULL, &conv), KILN_BAD_SHAPE, "dimension 1 of 'out' is 4, expected 3");
    Array *const labels = whole(2, 0, 48), *const rows = result(KILN_F32, 2, 0), *const lse = result(KILN_F32, 2, 0),
                 *const weights = drawn(KILN_F32, 2, 0, 0, 1);
    const kiln_cross_entropy_args loss = {
        .logits = of(x), .labels = of(labels), .loss = of(rows), .lse = of(lse), .dloss = of(weights)
    };
    assert_fails(kiln_cross_entropy(ops, NULL, &loss), KILN_BAD_ARGUMENT, "'dlogits' is null, but 'dloss' is not");
    conv.dilation = 3;
    assert_fails(kiln_conv2d(ops, NULL, &conv), KILN_BAD_SHAPE, "reaches over 7 elements, expected 1 to 5: H of 'x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(norms, free_arrays),
        cmocka_unit_test_teardown(rotary_embedding, free_arrays),
        cmocka_unit_test_teardown(activations, free_arrays),
        cmocka_unit_test_teardown(softmax_and_argmax, free_arrays),
        cmocka_unit_test_teardown(softmax_of_long_rows, free_arrays),
        cmocka_unit_test_teardown(cross_entropy, free_arrays),
        cmocka_unit_test_teardown(cross_entropy_of_long_rows, free_arrays),
        cmocka_unit_test_teardown(embedding, free_arrays),
        cmocka_unit_test_teardown(casts, free_arrays),
        cmocka_unit_test_teardown(casts_by_columns, free_arrays),
        cmocka_unit_test_teardown(casts_of_groups, free_arrays),
        cmocka_unit_test_teardown(casts_to_int8, free_arrays),
        cmocka_unit_test_teardown(hadamard, free_arrays),
        cmocka_unit_test_teardown(convolutions, free_arrays),
        cmocka_unit_test_teardown(norms_are_refused, free_arrays),
        cmocka_unit_test_teardown(rotary_is_refused, free_arrays),
        cmocka_unit_test_teardown(others_are_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
