// SPDX-License-Identifier: MIT
// gemm_test.c - products of any shape, type and orientation against the kernel's reference, with everything that may follow
// them; strided tensors; what is refused; which tiles the cost model takes.
#include "../../src/ops/gemm_tiles.h"
#include "support.h"

typedef struct Case {
    kiln_type type, result;
    int64_t batch, m, n, k; // batch 0: tensors of two dimensions
    bool transpose_a, transpose_b, bias, residual;
    kiln_activation activation;
    double scale;
    kiln_type type_b; // 0: as a
    bool a_scales, b_scales;
    kiln_precision precision;
    bool pair; // with scales and bias where b has them
} Case;

typedef struct Tensors {
    Array *a, *b, *c, *a_scales, *b_scales, *bias, *residual, *up, *up_scales, *up_bias;
} Tensors;

static Array *matrix(kiln_type type, int64_t batch, int64_t rows, int64_t columns)
{
    const int64_t shape[3] = { batch, rows, columns };
    Array *const x = batch ? array_new(type, 3, shape) : array_new(type, 2, shape + 1);
    if (type == KILN_I8) fill_random(x, -127, 127);
    else if (type == KILN_I32) fill_random(x, -999, 999);
    else fill_random(x, -1, 1);
    return x;
}

static Array *vector(kiln_type type, int64_t batch, int64_t n)
{
    const int64_t shape[2] = { batch, n };
    Array *const x = batch ? array_new(type, 2, shape) : array_new(type, 1, shape + 1);
    fill_random(x, 0.5, 2);
    return x;
}

static Tensors tensors_of(const Case *c)
{
    Tensors t = { 0 };
    t.a = matrix(c->type, c->batch, c->transpose_a ? c->k : c->m, c->transpose_a ? c->m : c->k);
    t.b = matrix(c->type_b ? c->type_b : c->type, c->batch, c->transpose_b ? c->n : c->k, c->transpose_b ? c->k : c->n);
    t.c = matrix(c->result, c->batch, c->m, c->n);
    if (c->bias) {
        t.bias = ARRAY(c->result, c->n);
        fill_random(t.bias, -1, 1);
    }
    if (c->a_scales) t.a_scales = vector(KILN_F32, c->batch, c->m);
    if (c->b_scales) t.b_scales = vector(KILN_F32, c->batch, c->n);
    if (c->pair) {
        t.up = matrix(c->type_b ? c->type_b : c->type, c->batch, c->transpose_b ? c->n : c->k,
                      c->transpose_b ? c->k : c->n);
        if (c->b_scales) t.up_scales = vector(KILN_F32, c->batch, c->n);
        if (c->bias) t.up_bias = vector(c->result, 0, c->n);
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
                             .scale = c->scale ? &c->scale : NULL,
                             .a_scales = of(t->a_scales),
                             .b_scales = of(t->b_scales),
                             .precision = c->precision,
                             .up = of(t->up),
                             .up_scales = of(t->up_scales),
                             .up_bias = of(t->up_bias) };
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

static kiln_tensor with_batch(const kiln_tensor *host, int rank)
{
    kiln_tensor t = *host;
    if (t.rank == rank) return t;
    t.rank = rank;
    t.shape[0] = 1;
    for (int d = 1; d < rank; d++) t.shape[d] = host->shape[d - 1];
    return t;
}

static const char *host_type(kiln_type type) // of host_copy
{
    return type == KILN_I8 || type == KILN_I32 ? kiln_type_name(type) : "f32";
}

static void compare(const Case *c, const Tensors *t)
{
    char bindings[256];
    const kiln_tensor *const result = host_result(t->c);
    const kiln_tensor a = with_batch(host_copy(t->a), 3), b = with_batch(host_copy(t->b), 3),
                      to = with_batch(result, 3);
    const kiln_tensor residual = t->residual ? with_batch(host_copy(t->residual), 3) : a;
    const kiln_tensor sa = t->a_scales ? with_batch(host_copy(t->a_scales), 2) : a;
    const kiln_tensor sb = t->b_scales ? with_batch(host_copy(t->b_scales), 2) : a;
    const kiln_tensor up = t->up ? with_batch(host_copy(t->up), 3) : a;
    const kiln_tensor ups = t->up_scales ? with_batch(host_copy(t->up_scales), 2) : a;
    const kiln_tensor *const bias = t->bias ? host_copy(t->bias) : NULL;
    const kiln_tensor *const up_bias = t->up_bias ? host_copy(t->up_bias) : NULL;
    snprintf(bindings, sizeof bindings, "T=%s, U=%s, TC=%s, TA=%s, TB=%s, ACT=%d%s%s%s%s%s%s%s", host_type(c->type),
             host_type(c->type), host_type(c->result), c->transpose_a ? "true" : "false",
             c->transpose_b ? "true" : "false", (int)c->activation, t->up ? "" : ", UP=none",
             t->up_scales ? "" : ", UPS=none", up_bias ? "" : ", UPB=none", t->a_scales ? "" : ", SA=none",
             t->b_scales ? "" : ", SB=none", bias ? "" : ", BIAS=none", t->residual ? "" : ", RES=none");
    const kiln_arg args[] = { KILN_TENSOR(&a),
                              KILN_TENSOR(&b),
                              t->up ? KILN_TENSOR(&up) : KILN_NONE,
                              KILN_TENSOR(&to),
                              t->a_scales ? KILN_TENSOR(&sa) : KILN_NONE,
                              t->b_scales ? KILN_TENSOR(&sb) : KILN_NONE,
                              t->up_scales ? KILN_TENSOR(&ups) : KILN_NONE,
                              bias ? KILN_TENSOR(bias) : KILN_NONE,
                              up_bias ? KILN_TENSOR(up_bias) : KILN_NONE,
                              t->residual ? KILN_TENSOR(&residual) : KILN_NONE,
                              KILN_FLOAT(c->scale ? c->scale : 1),
                              KILN_INT(1),
                              KILN_INT(1) };
    run_reference("gemm/any.tile", "gemm", bindings, args, 13);
    array_fetch(t->c);
    const bool is_fp8 = c->result == KILN_E4M3 || c->result == KILN_E5M2;
    const double step = c->result == KILN_I32                            ? 0.1
                        : c->precision == KILN_PRECISION_TF32            ? 2e-3
                        : c->result == KILN_F32 || c->result == KILN_F64 ? 1e-4
                        : c->result == KILN_F16                          ? 2e-3
                        : c->result == KILN_BF16                         ? 1e-2
                                                                         : 0.26;
    assert_close("c", t->c, numbers(result), (Tolerance){ step * 4, step, is_fp8 ? 8e-3 : 1e-4 });
}

static void check(const Case *c)
{
    const Tensors t = tensors_of(c);
    run(args_of(c, &t));
    compare(c, &t);
}

static void products_of_any_shape(void **state)
{
    // clang-format off
    static const Case cases[] = {
        { .type = KILN_BF16, .result = KILN_BF16, .m = 130, .n = 72, .k = 100 },
        { .type = KILN_BF16, .result = KILN_F32, .batch = 2, .m = 70, .n = 90, .k = 64, .transpose_b = true, .scale = 0.5 },
        { .type = KILN_F16, .result = KILN_F16, .m = 1, .n = 300, .k = 512, .transpose_b = true, .bias = true, .activation = KILN_ACTIVATION_RELU },
        { .type = KILN_F16, .result = KILN_F16, .m = 1, .n = 301, .k = 4096, .transpose_b = true, .residual = true },
        { .type = KILN_F16, .result = KILN_F16, .m = 17, .n = 40, .k = 33, .transpose_a = true, .bias = true, .residual = true, .activation = KILN_ACTIVATION_GELU, .scale = 0.1 },
        { .type = KILN_F32, .result = KILN_F32, .batch = 3, .m = 20, .n = 30, .k = 50, .transpose_a = true, .transpose_b = true, .residual = true, .activation = KILN_ACTIVATION_SILU },
        { .type = KILN_E4M3, .result = KILN_BF16, .m = 64, .n = 48, .k = 128, .transpose_b = true, .bias = true, .residual = true, .activation = KILN_ACTIVATION_GELU_TANH, .scale = 0.2 },
        { .type = KILN_E4M3, .result = KILN_E4M3, .m = 40, .n = 64, .k = 96, .transpose_b = true },
        { .type = KILN_BF16, .result = KILN_BF16, .m = 5, .n = 24, .transpose_b = true, .bias = true },
        { .type = KILN_E5M2, .type_b = KILN_E4M3, .result = KILN_F16, .m = 70, .n = 48, .k = 96, .transpose_b = true, .a_scales = true, .b_scales = true },
        { .type = KILN_I8, .result = KILN_I32, .m = 70, .n = 48, .k = 96, .transpose_b = true, .bias = true, .residual = true },
        { .type = KILN_I8, .result = KILN_BF16, .batch = 2, .m = 33, .n = 40, .k = 64, .a_scales = true, .b_scales = true, .bias = true, .scale = 1e-3 },
        { .type = KILN_F64, .result = KILN_F64, .m = 20, .n = 30, .k = 50, .transpose_a = true, .bias = true, .activation = KILN_ACTIVATION_SILU },
        { .type = KILN_F32, .result = KILN_F32, .m = 70, .n = 64, .k = 64, .precision = KILN_PRECISION_TF32 },
        { .type = KILN_F32, .result = KILN_F32, .m = 70, .n = 64, .k = 64, .transpose_b = true, .precision = KILN_PRECISION_TF32X3 },
        { .type = KILN_E4M3, .result = KILN_E5M2, .m = 65, .n = 65, .k = 33, .transpose_b = true }, // rows that begin anywhere
        { .type = KILN_F16, .result = KILN_F32, .batch = 2, .m = 67, .n = 71, .k = 35, .b_scales = true },
        { .type = KILN_BF16, .result = KILN_BF16, .m = 70, .n = 96, .k = 64, .transpose_b = true, .pair = true, .activation = KILN_ACTIVATION_SILU },
        { .type = KILN_E4M3, .result = KILN_BF16, .batch = 2, .m = 17, .n = 80, .k = 96, .transpose_b = true, .pair = true, .a_scales = true, .b_scales = true, .bias = true, .residual = true, .activation = KILN_ACTIVATION_GELU_TANH, .scale = 0.1 },
        { .type = KILN_F16, .result = KILN_F16, .m = 65, .n = 33, .k = 35, .pair = true, .activation = KILN_ACTIVATION_RELU },
    };
    // clang-format on
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) check(&cases[i]);
}

// Few tiles and a long contraction: parts of a tile, added up in the workspace.
static void long_contractions(void **state)
{
    check(&(Case){ .type = KILN_BF16,
                   .result = KILN_BF16,
                   .m = 16,
                   .n = 64,
                   .k = 4096,
                   .transpose_b = true,
                   .bias = true,
                   .activation = KILN_ACTIVATION_SILU });
}

// Scales of blocks: each 1 x 128 of a, each 128 x 128 of b.
static void scales_of_blocks(void **state)
{
    enum { M = 70, N = 150, K = 384, BLOCKS = K / 128 };
    Array *const a = matrix(KILN_E4M3, 0, M, K), *const b = array_spread(matrix(KILN_E4M3, 0, N, K), false);
    Array *const a_scales = matrix(KILN_F32, 0, M, BLOCKS), *const b_scales = matrix(KILN_F32, 0, 2, BLOCKS);
    Array *const bias = vector(KILN_F32, 0, N), *const c = matrix(KILN_F32, 0, M, N);
    double *const expected = values(c);
    kiln_gemm_args args = { .a = of(a), .b = of(b), .c = of(c), .bias = of(bias), .transpose_b = true };
    args.a_scales = of(a_scales), args.b_scales = of(b_scales);
    run(args);
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            double sum = get(bias, n);
            for (int64_t k = 0; k < K; k++)
                sum += get(a, m * K + k) * get(b, n * K + k) * get(a_scales, m * BLOCKS + k / 128) *
                       get(b_scales, n / 128 * BLOCKS + k / 128);
            expected[m * N + n] = sum;
        }
    array_fetch(c);
    assert_close("c", c, expected, (Tolerance){ 1e-2, 1e-3, 1e-4 });
#define FAILS(change, status, part) REFUSED(kiln_gemm(ops, NULL, &args), args, change, status, "kiln_gemm: " part)
    FAILS(args.transpose_b = false, KILN_UNSUPPORTED, "scales are of blocks, expected 'transpose_b' with them");
    FAILS(args.activation = KILN_ACTIVATION_SILU, KILN_UNSUPPORTED,
          "'activation' is given, and scales are of blocks, which go without");
    FAILS(args.residual = of(c), KILN_UNSUPPORTED, "'residual' is given, and scales are of blocks");
    FAILS(args.b_scales = NULL, KILN_BAD_ARGUMENT, "'b_scales' is null");
    FAILS(args.a_scales = of(b_scales), KILN_BAD_SHAPE, "dimension 0 of 'a_scales' is 2, expected 70");
    FAILS(args.b = of(a), KILN_BAD_SHAPE, "dimension 0 of 'b_scales' is 2, expected 1");
#undef FAILS
    REFUSED_TENSOR(kiln_gemm(ops, NULL, &args), a->tensor, shape[1] = 64, KILN_BAD_SHAPE,
                   "'a' has K = 64, expected a multiple of 128: scales are of blocks");
}

static void empty_products(void **state)
{
    check(&(Case){ .type = KILN_F32, .result = KILN_F32, .m = 0, .n = 30, .k = 50 });
    check(&(Case){ .type = KILN_F32, .result = KILN_F32, .m = 30, .n = 0, .k = 50, .bias = true });
}

// Whether the workspace has room for a copy of a and b.
static bool copies_of(const Case *c, const Tensors *t)
{
    size_t bytes;
    const kiln_gemm_args args = args_of(c, t);
    assert_ok(kiln_gemm_workspace_size(ops, &args, &bytes));
    return bytes >= (size_t)(c->m + c->n) * (size_t)c->k * 2;
}

static void check_apart(int64_t batch, int64_t k)
{
    const Case c = { .type = KILN_BF16,
                     .result = KILN_BF16,
                     .batch = batch,
                     .m = 40,
                     .n = 48,
                     .k = k,
                     .transpose_b = true,
                     .residual = true };
    Tensors t = tensors_of(&c);
    Array *const a = t.a, *const b = t.b, *const r = t.residual;
    t.a = array_spread(a, false), t.b = array_spread(b, false), t.residual = array_spread(r, false);
    t.c = array_spread(t.c, false);
    run(args_of(&c, &t));
    if (!on_cpu()) assert_true(copies_of(&c, &t) == (k % 8 != 0));
    t.a = a, t.b = b, t.residual = r;
    compare(&c, &t);
}

static void rows_may_lie_apart(void **state)
{
    check_apart(2, 64);
    check_apart(0, 64);
    check_apart(0, 77); // rows that end anywhere are copied first
}

// Rows of a, b and up begin at odd elements.
static void check_shifted(const Case *c, bool a_does, bool b_does)
{
    Tensors t = tensors_of(c);
    Array *const a = t.a, *const b = t.b, *const up = t.up;
    if (a_does) t.a = array_shifted(a);
    if (b_does) t.b = array_shifted(b), t.up = up ? array_shifted(up) : NULL;
    run(args_of(c, &t));
    t.a = a, t.b = b, t.up = up;
    compare(c, &t);
}

static void rows_may_begin_anywhere(void **state)
{
    if (on_cpu()) skip_because("on a CPU rows begin at multiples of 16 bytes");
    const Case plain = { .type = KILN_BF16, .result = KILN_BF16, .m = 40, .n = 48, .k = 64, .transpose_b = true };
    const Case pair = { .type = KILN_E4M3, .result = KILN_BF16, .batch = 2, .m = 17, .n = 24, .k = 96, .pair = true };
    const Case longer = { .type = KILN_BF16, .result = KILN_BF16, .m = 21, .n = 37, .k = 1339, .transpose_b = true };
    check_shifted(&plain, true, true);
    check_shifted(&longer, true, true);
    check_shifted(&longer, false, true);
    check_shifted(&pair, false, true);
}

static void what_is_refused(void **state)
{
    const Case c = { .type = KILN_BF16, .result = KILN_BF16, .m = 16, .n = 64, .k = 32, .transpose_b = true };
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
    kiln_tensor turned = t.c->tensor;
    turned.has_strides = true, turned.strides[0] = -64, turned.strides[1] = 1;
    REFUSED(kiln_gemm(ops, NULL, &args), args, args.c = &turned, KILN_BAD_ALIGNMENT,
            "dimension 0 of 'c' has stride -64, which is -128 bytes, expected a positive multiple of 16");
    args.activation = (kiln_activation)9;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT, "'activation' is 9");
    args.activation = KILN_ACTIVATION_NONE;
    args.precision = KILN_PRECISION_TF32;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT,
                 "'precision' is one of f32, but 'a' is a tensor of bf16");
    args.precision = (kiln_precision)7;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT, "'precision' is 7, expected a kiln_precision");
    args.precision = KILN_PRECISION_F32, args.up_bias = of(t.b);
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_SHAPE, "'up_bias' has rank 2");
    args.up_bias = NULL, args.up = of(t.a);
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_SHAPE, "dimension 0 of 'up' is 16, expected 64");
    args.up = NULL;
    args.b = NULL;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT, "'b' is null");
    const Case i = { .type = KILN_I8, .result = KILN_I32, .m = 16, .n = 32, .k = 64, .a_scales = true };
    const Tensors s = tensors_of(&i);
    args = args_of(&i, &s);
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT,
                 "'a_scales' is given, but 'c' is a tensor of i32, which takes none");
    args.a_scales = NULL, args.activation = KILN_ACTIVATION_RELU;
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_ARGUMENT,
                 "'activation' is given, but 'c' is a tensor of i32, which takes none");
    args.b = of(t.b);
    assert_fails(kiln_gemm(ops, NULL, &args), KILN_BAD_TYPE, "'b' is a tensor of bf16, expected i8 as 'a'");
}

static GemmChoice choose(int64_t m, int64_t n, int64_t k)
{
    const GemmShape shape = { 1, m, n, k, KILN_BF16, KILN_PRECISION_F32, false, 132, false, false };
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
            const GemmShape shape = {
                1,     m,   200 - m / 2, m % 5 * 100, type ? KILN_F32 : KILN_BF16, KILN_PRECISION_F32,
                false, 132, false,       false
            };
            assert_true(gemm_choose(&shape).rows > 0);
        }
}

// The rows of the table's measured shapes are found, which needs their order.
static void measured_shapes_are_found(void **state)
{
    for (int i = 0; i < gemm_n_known; i++) {
        const GemmKnown *const known = &gemm_known[i];
        assert_true(known->tile < gemm_n_tiles);
        if (known->bytes != 2) continue;
        const GemmChoice choice = choose(known->m, known->n, known->k);
        assert_int_equal(choice.rows, gemm_tiles[known->tile].rows);
        assert_int_equal(choice.columns, gemm_tiles[known->tile].columns);
        assert_int_equal(choice.parts, known->parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(products_of_any_shape, free_arrays),
        cmocka_unit_test_teardown(long_contractions, free_arrays),
        cmocka_unit_test_teardown(scales_of_blocks, free_arrays),
        cmocka_unit_test_teardown(empty_products, free_arrays),
        cmocka_unit_test_teardown(rows_may_lie_apart, free_arrays),
        cmocka_unit_test_teardown(rows_may_begin_anywhere, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
        cmocka_unit_test_teardown(tiles_fit_the_shape, free_arrays),
        cmocka_unit_test_teardown(measured_shapes_are_found, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
