// SPDX-License-Identifier: MIT
// gemm_test.c - products of any shape, type and orientation against the kernel's reference, with everything that may follow
// them; strided tensors; what is refused; which tiles the model of cost takes.
#include "../../src/ops/gemm_tiles.h"
#include "support.h"

typedef struct Case {
    kiln_type type, result;
    int64_t batch, m, n, k; // batch 0: tensors of two dimensions
    bool transpose_a, transpose_b, bias, residual;
    kiln_activation activation;
    double scale;
} Case;

typedef struct Tensors {
    Array *a, *b, *c, *bias, *residual, *workspace;
} Tensors;

static Array *matrix(kiln_type type, int64_t batch, int64_t rows, int64_t columns)
{
    const int64_t shape[3] = { batch, rows, columns };
    Array *const x = batch ? array_new(type, 3, shape) : array_new(type, 2, shape + 1);
    fill_random(x, -1, 1);
    return x;
}

static Tensors tensors_of(const Case *c)
{
    Tensors t = { 0 };
    t.a = matrix(c->type, c->batch, c->transpose_a ? c->k : c->m, c->transpose_a ? c->m : c->k);
    t.b = matrix(c->type, c->batch, c->transpose_b ? c->n : c->k, c->transpose_b ? c->k : c->n);
    t.c = matrix(c->result, c->batch, c->m, c->n);
    if (c->bias) {
        t.bias = ARRAY(c->result, c->n);
        fill_random(t.bias, -1, 1);
    }
    if (c->residual) t.residual = matrix(c->result, c->batch, c->m, c->n);
    array_erase(t.c);
    array_send(t.c);
    return t;
}

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static kiln_gemm_args args_of(const Case *c, const Tensors *t)
{
    return (kiln_gemm_args){ .a = of(t->a),
                             .b = of(t->b),
                             .c = of(t->c),
                             .bias = of(t->bias),
                             .residual = of(t->residual),
                             .transpose_a = c->transpose_a,
                             .transpose_b = c->transpose_b,
                             .activation = c->activation,
                             .scale = c->scale ? &c->scale : NULL };
}

static void run(kiln_gemm_args args)
{
    size_t bytes;
    assert_ok(kiln_gemm_workspace_size(ops, &args, &bytes));
    Array *const workspace = bytes_new(bytes);
    args.workspace = workspace->tensor.data;
    args.workspace_bytes = bytes;
    assert_ok(kiln_gemm(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
}

static kiln_tensor with_batch(const kiln_tensor *host)
{
    kiln_tensor t = *host;
    if (t.rank == 3) return t;
    t.rank = 3;
    t.shape[0] = 1, t.shape[1] = host->shape[0], t.shape[2] = host->shape[1];
    return t;
}

static void compare(const Case *c, const Tensors *t)
{
    char bindings[160];
    const kiln_tensor *const result = host_result(t->c);
    const kiln_tensor a = with_batch(host_copy(t->a)), b = with_batch(host_copy(t->b)), to = with_batch(result);
    const kiln_tensor residual = t->residual ? with_batch(host_copy(t->residual)) : a;
    const kiln_tensor *const bias = t->bias ? host_copy(t->bias) : NULL;
    snprintf(bindings, sizeof bindings, "T=f32, TC=f32, TA=%s, TB=%s, ACT=%d%s%s", c->transpose_a ? "true" : "false",
             c->transpose_b ? "true" : "false", (int)c->activation, bias ? "" : ", BIAS=none",
             t->residual ? "" : ", RES=none");
    const kiln_arg args[] = { KILN_TENSOR(&a),
                              KILN_TENSOR(&b),
                              KILN_TENSOR(&to),
                              bias ? KILN_TENSOR(bias) : KILN_NONE,
                              t->residual ? KILN_TENSOR(&residual) : KILN_NONE,
                              KILN_FLOAT(c->scale ? c->scale : 1),
                              KILN_INT(1),
                              KILN_INT(1) };
    run_reference("gemm/any.tile", "gemm", bindings, args, 8);
    array_fetch(t->c);
    const double step = c->result == KILN_F32    ? 1e-4
                        : c->result == KILN_F16  ? 2e-3
                        : c->result == KILN_BF16 ? 1e-2
                                                 : 0.13;
    assert_close("c", t->c, numbers(result), (Tolerance){ step * 4, step, c->result == KILN_E4M3 ? 2e-3 : 1e-4 });
}

static void check(const Case *c)
{
    const Tensors t = tensors_of(c);
    run(args_of(c, &t));
    compare(c, &t);
}

static void products_of_any_shape(void **state)
{
    static const Case cases[] = {
        { KILN_BF16, KILN_BF16, 0, 130, 72, 100, false, false, false, false, KILN_ACTIVATION_NONE, 0 },
        { KILN_BF16, KILN_F32, 2, 70, 90, 64, false, true, false, false, KILN_ACTIVATION_NONE, 0.5 },
        { KILN_F16, KILN_F16, 0, 1, 300, 512, false, true, true, false, KILN_ACTIVATION_RELU, 0 },
        { KILN_F16, KILN_F16, 0, 17, 40, 33, true, false, true, true, KILN_ACTIVATION_GELU, 0.1 },
        { KILN_F32, KILN_F32, 3, 20, 30, 50, true, true, false, true, KILN_ACTIVATION_SILU, 0 },
        { KILN_E4M3, KILN_BF16, 0, 64, 48, 128, false, true, true, true, KILN_ACTIVATION_GELU_TANH, 0.2 },
        { KILN_E4M3, KILN_E4M3, 0, 40, 64, 96, false, true, false, false, KILN_ACTIVATION_NONE, 0 },
        { KILN_BF16, KILN_BF16, 0, 5, 24, 0, false, true, true, false, KILN_ACTIVATION_NONE, 0 },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) check(&cases[i]);
}

// Few tiles and a long contraction: parts of a tile, added up in the workspace.
static void long_contractions(void **state)
{
    check(&(Case){ KILN_BF16, KILN_BF16, 0, 16, 64, 4096, false, true, true, false, KILN_ACTIVATION_SILU, 0 });
}

static void empty_products(void **state)
{
    check(&(Case){ KILN_F32, KILN_F32, 0, 0, 30, 50, false, false, false, false, KILN_ACTIVATION_NONE, 0 });
    check(&(Case){ KILN_F32, KILN_F32, 0, 30, 0, 50, false, false, true, false, KILN_ACTIVATION_NONE, 0 });
}

static void check_apart(int64_t batch)
{
    const Case c = { KILN_BF16, KILN_BF16, batch, 40, 48, 64, false, true, false, true, KILN_ACTIVATION_NONE, 0 };
    Tensors t = tensors_of(&c);
    Array *const a = t.a, *const b = t.b, *const r = t.residual;
    t.a = array_spread(a, false), t.b = array_spread(b, false), t.residual = array_spread(r, false);
    t.c = array_spread(t.c, false);
    run(args_of(&c, &t));
    t.a = a, t.b = b, t.residual = r;
    compare(&c, &t);
}

static void rows_may_lie_apart(void **state)
{
    check_apart(2);
    check_apart(0);
}

static void what_is_refused(void **state)
{
    const Case c = { KILN_BF16, KILN_BF16, 0, 16, 64, 32, false, true, false, false, KILN_ACTIVATION_NONE, 0 };
    const Tensors t = tensors_of(&c);
    kiln_gemm_args args = args_of(&c, &t);
    args.transpose_b = false;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_SHAPE,
                 "kiln_gemm: dimension 0 of 'b' is 64, expected 32: its shape is [K][N], and 'a' has K = 32");
    args.transpose_b = true;
    const kiln_tensor line = kiln_tensor_of(device, t.a->tensor.data, KILN_BF16, 1, (int64_t[]){ 32 });
    const kiln_tensor two = kiln_tensor_of(device, t.a->tensor.data, KILN_BF16, 3, (int64_t[]){ 2, 8, 32 });
    REFUSED(kiln_gemm(ops, NULL, &args), args, args.a = &line, KILN_BAD_SHAPE,
            "kiln_gemm: 'a' has rank 1, expected 2, or 3 with a batch");
    REFUSED(kiln_gemm(ops, NULL, &args), args, args.a = &two, KILN_BAD_SHAPE,
            "kiln_gemm: 'b' has no batch, but 'a' has one of 2");
    args.activation = (kiln_activation)9;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT, "'activation' is 9");
    args.activation = KILN_ACTIVATION_NONE;
    args.b = NULL;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT, "'b' is null");
}

static GemmChoice choose(int64_t m, int64_t n, int64_t k)
{
    const GemmShape shape = { 1, m, n, k, KILN_BF16, 132, false };
    return gemm_choose(&shape);
}

static void tiles_fit_the_shape(void **state)
{
    const GemmChoice large = choose(8192, 8192, 8192), flat = choose(16, 4096, 14336), few = choose(256, 256, 65536);
    assert_true(large.rows * large.columns >= 128 * 192);
    assert_true(flat.rows <= 32);
    assert_true(few.parts > 1);
    for (int64_t m = 0; m < 400; m += 13) // there is always one
        for (int type = 0; type < 2; type++) {
            const GemmShape shape = { 1, m, 200 - m / 2, m % 5 * 100, type ? KILN_F32 : KILN_BF16, 132, false };
            assert_true(gemm_choose(&shape).rows > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(products_of_any_shape, free_arrays),
        cmocka_unit_test_teardown(long_contractions, free_arrays),
        cmocka_unit_test_teardown(empty_products, free_arrays),
        cmocka_unit_test_teardown(rows_may_lie_apart, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
        cmocka_unit_test_teardown(tiles_fit_the_shape, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
