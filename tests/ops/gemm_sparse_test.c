// SPDX-License-Identifier: MIT
// gemm_sparse_test.c - products with a 2:4 sparse operand, and the packing of it, against the kernels' references; what is
// refused.
#include "support.h"

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

typedef struct Case {
    kiln_type type, to;
    int64_t batch, m, n, k;
    bool of_a, full, transpose_b; // full: everything else that kiln_gemm takes with it
} Case;

typedef struct Packed {
    Array *dense, *values, *places;
} Packed;

static const char *host_type(kiln_type type) { return type == KILN_I8 ? "i8" : type == KILN_I32 ? "i32" : "f32"; }

// Numbers of which some groups of four have more than two.
static Packed packed(const Case *c, int64_t rows)
{
    const double most = c->type == KILN_I8 ? 100 : 1;
    Packed p = { drawn(ARRAY(c->type, c->batch, rows, c->k), -most, most),
                 result(ARRAY(c->type, c->batch, rows, c->k / 2)), result(ARRAY(KILN_U8, c->batch, rows, c->k / 8)) };
    Array *const excess = result(ARRAY(KILN_I32, c->batch, rows));
    for (int64_t i = 0; i < count(p.dense); i++)
        if (integer(0, 2) > 0) set(p.dense, i, 0);
    array_send(p.dense);
    assert_ok(kiln_sparse24_pack(
        ops, NULL,
        &(kiln_sparse24_pack_args){
            .weights = of(p.dense), .values = of(p.values), .places = of(p.places), .excess = of(excess) }));
    assert_ok(kiln_stream_wait(device, NULL));
    Array *const all[] = { p.dense, p.values, p.places, excess };
    kiln_arg host[4];
    for (int i = 0; i < 4; i++) { // the kernel's rows are those of all matrices
        const kiln_tensor *const x = i == 0 ? host_copy(all[i]) : host_result(all[i]);
        const int64_t n = c->batch * rows, each = i == 0 ? c->k : i == 1 ? c->k / 2 : c->k / 8;
        host[i] = KILN_TENSOR(i == 3 ? HOST_AS(x->data, x->type, n) : HOST_AS(x->data, x->type, n, each));
    }
    char bindings[16];
    snprintf(bindings, sizeof bindings, "T=%s", host_type(c->type));
    run_reference("gemm/sparse_any.tile", "sparse24_pack", bindings, host, 4);
    for (int i = 1; i < 4; i++) {
        array_fetch(all[i]);
        assert_close("packed", all[i], numbers(host[i].tensor), (Tolerance){ 1e-30, 1e-30, 1e-12 });
    }
    return p;
}

static void check(const Case *c)
{
    const Packed w = packed(c, c->of_a ? c->m : c->n);
    const double most = c->type == KILN_I8 ? 100 : 1;
    Array *const x =
        drawn(c->of_a ? (c->transpose_b ? ARRAY(c->type, c->batch, c->n, c->k) : ARRAY(c->type, c->batch, c->k, c->n))
                      : ARRAY(c->type, c->batch, c->m, c->k),
              -most, most);
    Array *const to = result(ARRAY(c->to, c->batch, c->m, c->n));
    Array *const sa = c->full ? drawn(ARRAY(KILN_F32, c->batch, c->m), 0.5, 2) : NULL;
    Array *const sb = c->full ? drawn(ARRAY(KILN_F32, c->batch, c->n), 0.5, 2) : NULL;
    Array *const bias = c->full ? drawn(ARRAY(c->to, c->n), -1, 1) : NULL;
    Array *const residual = c->full ? drawn(ARRAY(c->to, c->batch, c->m, c->n), -1, 1) : NULL;
    const kiln_tensor *const expected = host_result(to);
    const kiln_arg host[] = { host_arg(w.values),    host_arg(w.places), host_arg(x),
                              KILN_TENSOR(expected), host_arg(sa),       host_arg(sb),
                              host_arg(bias),        host_arg(residual), KILN_FLOAT(c->full ? 0.5 : 1) };
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=%s, TC=%s, TURN=%s, K_ROWS=%s, ACT=%d", host_type(c->type), host_type(c->to),
             c->of_a ? "false" : "true", c->of_a && !c->transpose_b ? "false" : "true",
             c->full ? KILN_ACTIVATION_SILU : KILN_ACTIVATION_NONE);
    run_reference("gemm/sparse_any.tile", "gemm_sparse", bindings, host, 9);
    kiln_gemm_args g = { .a = of(c->of_a ? w.values : x),
                         .b = of(c->of_a ? x : w.values),
                         .c = of(to),
                         .transpose_b = c->transpose_b,
                         .a_places = c->of_a ? of(w.places) : NULL,
                         .b_places = c->of_a ? NULL : of(w.places),
                         .a_scales = of(sa),
                         .b_scales = of(sb),
                         .bias = of(bias),
                         .residual = of(residual),
                         .scale = c->full ? &(double){ 0.5 } : NULL,
                         .activation = c->full ? KILN_ACTIVATION_SILU : KILN_ACTIVATION_NONE };
    assert_ok(kiln_gemm_workspace_size(ops, &g, &g.workspace_bytes));
    g.workspace = bytes_new(g.workspace_bytes)->tensor.data;
    assert_ok(kiln_gemm(ops, NULL, &g));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(to);
    assert_close("c", to, numbers(expected),
                 c->to == KILN_I32 ? (Tolerance){ 0.1, 0, 1e-9 } : (Tolerance){ 4e-2, 1e-2, 1e-4 });
}

static void sparse_products(void **state)
{
    static const Case cases[] = {
        { KILN_BF16, KILN_BF16, 2, 5, 70, 136, false, true, true },
        { KILN_BF16, KILN_BF16, 1, 16, 8, 8, false, true, true },
        { KILN_BF16, KILN_BF16, 1, 0, 8, 8, false, true, true },
        { KILN_I8, KILN_I32, 1, 70, 40, 72, true, false, true },
        { KILN_BF16, KILN_F32, 1, 33, 17, 264, true, false, false },
        { KILN_F16, KILN_F16, 70, 5, 140, 8, true, false, false }, // wide tiles on an H200
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) check(&cases[i]);
}

static void what_is_refused(void **state)
{
    Array *const a = ARRAY(KILN_BF16, 4, 64), *const b = ARRAY(KILN_BF16, 8, 32), *const places = ARRAY(KILN_U8, 8, 8);
    Array *const c = ARRAY(KILN_BF16, 4, 8), *const bytes = ARRAY(KILN_I8, 4, 64), *const few = ARRAY(KILN_U8, 8, 4);
    Array *const dense = ARRAY(KILN_BF16, 8, 64), *const down = ARRAY(KILN_I8, 64, 8),
                 *const half = ARRAY(KILN_I8, 4, 32);
    Array *const f32 = ARRAY(KILN_F32, 4, 64), *const narrow = ARRAY(KILN_F32, 8, 32);
    kiln_gemm_args g = { .a = of(a), .b = of(b), .c = of(c), .b_places = of(places), .transpose_b = true };
    REFUSED(kiln_gemm(ops, NULL, &g), g, g.a_places = of(places), KILN_UNSUPPORTED,
            "'a_places' and 'b_places' are both given");
    REFUSED(kiln_gemm(ops, NULL, &g), g, g.transpose_b = false, KILN_UNSUPPORTED,
            "'b_places' is given, expected 'transpose_b' with it");
    REFUSED(kiln_gemm(ops, NULL, &g), g, g.up = of(b), KILN_UNSUPPORTED, "'b_places' is given, expected no 'up'");
    REFUSED(kiln_gemm(ops, NULL, &g), g, g.b = of(dense), KILN_BAD_SHAPE,
            "'b' keeps 64 of a row's K = 64 elements, expected 32");
    REFUSED(kiln_gemm(ops, NULL, &g), g, g.b_places = of(few), KILN_BAD_SHAPE,
            "'b_places' has rows of 4 bytes for K = 64, expected 8");
    REFUSED(kiln_gemm(ops, NULL, &g), g, g.a = of(bytes), KILN_BAD_TYPE, "'a' is a tensor of i8, expected bf16 as 'b'");
    REFUSED(kiln_gemm(ops, NULL, &g), g, (g.a = of(f32), g.b = of(narrow)), KILN_BAD_TYPE, "'b' is a tensor of f32");
    g = (kiln_gemm_args){ .a = of(half), .b = of(down), .c = of(c), .a_places = of(places) };
    assert_fails(kiln_gemm(ops, NULL, &g), KILN_UNSUPPORTED,
                 "'a_places' is given and 'a' is a tensor of i8, expected 'transpose_b' with them");
    kiln_sparse24_pack_args p = { .weights = of(dense), .values = of(b), .places = of(places) };
    assert_fails(kiln_sparse24_pack(ops, NULL, &p), KILN_BAD_ARGUMENT,
                 "kiln_sparse24_pack: 'excess' is null, but 'prune' is false");
    const kiln_tensor none =
        kiln_tensor_of(device, NULL, KILN_BF16, 3, (int64_t[]){ INT64_C(1) << 40, INT64_C(1) << 40, 0 });
    kiln_tensor places_of_none = none;
    places_of_none.type = KILN_U8;
    assert_ok(kiln_sparse24_pack(
        ops, NULL,
        &(kiln_sparse24_pack_args){ .weights = &none, .values = &none, .places = &places_of_none, .prune = true }));
    REFUSED(kiln_sparse24_pack(ops, NULL, &p), p, p.places = of(few), KILN_BAD_SHAPE,
            "'places' has rows of 4 for K = 64, expected 8");
    REFUSED(kiln_sparse24_pack(ops, NULL, &p), p, p.weights = of(narrow), KILN_BAD_TYPE,
            "'weights' is a tensor of f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sparse_products, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
