// SPDX-License-Identifier: MIT
// quant_test.c - quantised products of every format from every layout of checkpoints, the packing before them, the weights unpacked
// again and those of BitNet made, against the references of the kernels; few and many rows, strided rows, empty products; what is
// refused.
#include "kiln/ops/quant.h"
#include "support.h"

enum { N = 80, K = 512 };

// ---- a checkpoint's weights

typedef struct Case {
    kiln_quant_format format;
    kiln_quant_layout layout;
    int bits, group, weight_group;
    bool zeros;
    kiln_type a, scales; // also of weight_scales, but f32 of bitsandbytes
} Case;

typedef struct Weights {
    Array *source, *source_scales, *source_zeros;
    Array *codes, *scales, *zeros, *minima;
} Weights;

static Array *bits_drawn(Array *x)
{
    for (int64_t i = 0; i < count(x); i++)
        set(x, i,
            x->tensor.type == KILN_I32 ? (double)(int32_t)integer(INT32_MIN, INT32_MAX) : (double)integer(0, 255));
    return x;
}

static bool has_words(const Case *c) { return c->layout == KILN_QUANT_AWQ || c->layout == KILN_QUANT_GPTQ; }

static Weights coded_weights(const Case *c)
{
    const bool words = has_words(c), awq = c->layout == KILN_QUANT_AWQ;
    const int64_t groups = K / c->weight_group, each = 32 / c->bits;
    const kiln_type type = c->layout == KILN_QUANT_BITSANDBYTES ? KILN_F32 : c->scales;
    Weights w = { .source = bits_drawn(awq     ? ARRAY(KILN_I32, K, N / each)
                                       : words ? ARRAY(KILN_I32, K / each, N)
                                               : ARRAY(KILN_U8, N, K * c->bits / 8)),
                  .source_scales = words ? ARRAY(type, groups, N) : ARRAY(type, N, groups) };
    for (int64_t i = 0; c->format == KILN_QUANT_FP8 && i < count(w.source); i++) // e4m3 has no number of 127
        if (((int)get(w.source, i) & 127) == 127) set(w.source, i, 0);
    if (c->zeros) w.source_zeros = bits_drawn(words ? ARRAY(KILN_I32, groups, N / each) : ARRAY(KILN_U8, N, groups));
    for (int64_t i = 0; c->zeros && !words && i < count(w.source_zeros); i++)
        set(w.source_zeros, i, (double)(i % (1 << c->bits)));
    for (int64_t i = 0; i < count(w.source_scales); i++)
        set(w.source_scales, i, type == KILN_U8 ? (double)integer(118, 128) : uniform(-0.1, 0.1));
    return w;
}

// ggml's blocks of random bytes, with scales of usual size. As pack.tile numbers them.
enum { GGUF_Q4_0 = 6, GGUF_Q8_0, GGUF_Q4_K, GGUF_Q6_K };

static int source_of(const Case *c)
{
    return c->layout != KILN_QUANT_GGUF      ? (int)c->layout
           : c->format == KILN_QUANT_INT4MIN ? GGUF_Q4_K
           : c->group == 16                  ? GGUF_Q6_K
           : c->bits == 4                    ? GGUF_Q4_0
                                             : GGUF_Q8_0;
}

static Weights blocks_of_weights(const Case *c)
{
    const int from = source_of(c), codes = from < GGUF_Q4_K ? 32 : 256;
    const int bytes = from == GGUF_Q4_0 ? 18 : from == GGUF_Q8_0 ? 34 : from == GGUF_Q4_K ? 144 : 210;
    const Weights w = { .source = bits_drawn(ARRAY(KILN_U8, N, K / codes * bytes)) };
    for (int64_t at = from == GGUF_Q6_K ? 209 : 1; at < count(w.source); at += bytes) {
        set(w.source, at, (double)integer(0x18, 0x20));
        if (from == GGUF_Q4_K) set(w.source, at + 2, (double)integer(0x18, 0x20));
    }
    return w;
}

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static kiln_quant_pack_args pack_args(const Case *c, const Weights *w)
{
    return (kiln_quant_pack_args){ .weights = of(w->source),
                                   .weight_scales = of(w->source_scales),
                                   .weight_zeros = of(w->source_zeros),
                                   .codes = of(w->codes),
                                   .scales = of(w->scales),
                                   .zeros = of(w->zeros),
                                   .minima = of(w->minima),
                                   .format = c->format,
                                   .layout = c->layout,
                                   .k = K,
                                   .group = c->group,
                                   .weight_group = c->weight_group };
}

static const char *host_type(kiln_type type) { return type == KILN_U8 ? "u8" : "f32"; }

static kiln_type code_type(const Case *c)
{
    kiln_type type;
    assert_ok(kiln_quant_extents(c->format, K, c->group, &type, NULL, NULL));
    return type;
}

// Host tensors of rows, as kernels have them: codes in blocks of 128, what groups have in as many blocks.
static kiln_arg in_blocks(const kiln_tensor *x, kiln_type type, int64_t each)
{
    if (!x) return KILN_NONE;
    const int64_t rows = x->shape[0], bytes = (int64_t)kiln_tensor_bytes(x) / rows;
    return KILN_TENSOR(HOST_AS(x->data, type, rows, bytes * 8 / (int64_t)kiln_type_bits(type) / each, each));
}

static kiln_arg of_groups(const Case *c, const kiln_tensor *x)
{
    return in_blocks(x, x ? x->type : KILN_U8, 128 / c->group);
}
static const kiln_tensor *copy_of(const Array *x) { return x ? host_copy(x) : NULL; }
static const kiln_tensor *result_of(const Array *x) { return x ? host_result(x) : NULL; }

// The packed weights, fetched, are those that the references make.
static void check_codes(const Case *c, const Weights *w)
{
    const kiln_tensor *const codes = host_result(w->codes);
    const kiln_arg args[] = { host_arg(w->source),
                              in_blocks(codes,
                                        c->bits == 8   ? KILN_U8
                                        : c->bits == 4 ? KILN_U4
                                                       : KILN_U2,
                                        128),
                              KILN_INT(K) };
    char bindings[96];
    snprintf(bindings, sizeof bindings, "FROM=%d, X=%s, Q=u%d, BITS=%d", source_of(c), has_words(c) ? "i32" : "u8",
             c->bits, c->bits);
    run_reference("quant/pack.tile", "quant_pack_codes", bindings, args, 3);
    array_fetch(w->codes);
    assert_memory_equal(w->codes->host, codes->data, w->codes->bytes);
}

static void check_scales(const Case *c, const Weights *w)
{
    Array *const to[] = { w->scales, w->zeros, w->minima };
    const kiln_tensor *expected[3];
    for (int i = 0; i < 3; i++) expected[i] = result_of(to[i]);
    const kiln_arg args[] = { host_arg(c->layout == KILN_QUANT_GGUF ? w->source : NULL),
                              host_arg(w->source_scales),
                              host_arg(w->source_zeros),
                              of_groups(c, expected[0]),
                              of_groups(c, expected[1]),
                              of_groups(c, expected[2]),
                              KILN_INT(K),
                              KILN_INT(c->weight_group ? c->weight_group : K) };
    char bindings[128];
    snprintf(bindings, sizeof bindings, "FROM=%d, X=u8, XS=%s, XZ=%s, TS=%s, BITS=%d, G=%d", source_of(c),
             host_type(c->scales), has_words(c) ? "i32" : "u8", host_type(c->scales), c->bits, c->group);
    run_reference("quant/pack.tile", "quant_pack_scales", bindings, args, 8);
    for (int i = 0; i < 3; i++) {
        if (!to[i]) continue;
        array_fetch(to[i]);
        assert_close("scales", to[i], numbers(expected[i]), (Tolerance){ 1e-30, 4e-3, 1e-5 }); // rounded once
    }
}

static Weights packed_weights(const Case *c)
{
    Weights w = c->layout == KILN_QUANT_GGUF ? blocks_of_weights(c) : coded_weights(c);
    int64_t columns, groups;
    assert_ok(kiln_quant_extents(c->format, K, c->group, NULL, &columns, &groups));
    w.codes = ARRAY(KILN_U8, N, columns * c->bits / 8);
    w.scales = ARRAY(c->scales, N, groups);
    if (c->zeros) w.zeros = ARRAY(KILN_U8, N, groups);
    if (c->format == KILN_QUANT_INT4MIN) w.minima = ARRAY(c->scales, N, groups);
    Array *const sent[] = { w.source, w.source_scales, w.source_zeros };
    for (int i = 0; i < 3; i++)
        if (sent[i]) array_send(sent[i]);
    const kiln_quant_pack_args args = pack_args(c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    check_codes(c, &w), check_scales(c, &w);
    return w;
}

// ---- products

static void run(kiln_quantised_gemm_args args)
{
    size_t bytes;
    assert_ok(kiln_quantised_gemm_workspace_size(ops, &args, &bytes));
    Array *const workspace = bytes_new(bytes);
    args.workspace = workspace->tensor.data;
    args.workspace_bytes = bytes;
    assert_ok(kiln_quantised_gemm(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
}

static kiln_quantised_gemm_args args_of(const Case *c, const Weights *w, const Array *a, const Array *bias,
                                        const Array *to)
{
    return (kiln_quantised_gemm_args){ .a = of(a),
                                       .codes = of(w->codes),
                                       .scales = of(w->scales),
                                       .zeros = of(w->zeros),
                                       .minima = of(w->minima),
                                       .bias = of(bias),
                                       .c = of(to),
                                       .format = c->format,
                                       .group = c->group };
}

// `to` gives the shape.
static const double *product_of(const Case *c, const Weights *w, const Array *a, const Array *bias,
                                const Array *residual, const Array *to)
{
    const kiln_tensor *const result = host_result(to), codes = w->codes->tensor;
    const kiln_arg args[] = { host_arg(a),
                              in_blocks(HOST_AS(w->codes->host, KILN_U8, N, codes.shape[1]), code_type(c), 128),
                              of_groups(c, copy_of(w->scales)),
                              of_groups(c, copy_of(w->zeros)),
                              of_groups(c, copy_of(w->minima)),
                              host_arg(bias),
                              host_arg(residual),
                              KILN_TENSOR(result),
                              KILN_INT(1),
                              KILN_INT(N) };
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, TC=f32, Q=%s, TS=%s, G=%d, NF4=%s", kiln_type_name(code_type(c)),
             host_type(c->scales), c->group, c->format == KILN_QUANT_NF4 ? "true" : "false");
    run_reference("quant/weights.tile", "quant_matmul", bindings, args, 10);
    return numbers(result);
}

// To 2 parts in 100 of the usual size of `expected`.
static void assert_product(const char *name, const Array *to, const double *expected)
{
    const int64_t n = count(to);
    double size = 0;
    for (int64_t i = 0; i < n; i++) size += expected[i] * expected[i] / (double)n;
    assert_close(name, to, expected, (Tolerance){ 2e-2 * sqrt(size), 1e-2, 1e-5 });
}

static void multiply(const Case *c, const Weights *w, int64_t m, bool with_bias)
{
    Array *const a = ARRAY(c->a, m, K), *const to = ARRAY(KILN_F32, m, N),
                 *const bias = with_bias ? ARRAY(KILN_F32, N) : NULL;
    fill_random(a, -1, 1);
    if (bias) fill_random(bias, -1, 1);
    run(args_of(c, w, a, bias, to));
    array_fetch(to);
    assert_product("c", to, product_of(c, w, a, bias, NULL, to));
}

// A matrix added, and c by columns.
static void multiply_and_add(const Case *c, const Weights *w, int64_t m)
{
    Array *const a = ARRAY(c->a, m, K), *const to = ARRAY(KILN_F32, m, N), *const residual = ARRAY(KILN_F32, m, N),
                 *const by_columns = array_swapped(ARRAY(KILN_F32, N, m), 0, 1);
    fill_random(a, -1, 1), fill_random(residual, -9, 9);
    array_send(to), array_send(by_columns);
    kiln_quantised_gemm_args args = args_of(c, w, a, NULL, to);
    args.residual = of(residual);
    run(args);
    args.c = of(by_columns);
    run(args);
    array_fetch(to), array_fetch(by_columns);
    const double *const expected = product_of(c, w, a, NULL, residual, to);
    assert_product("c", to, expected);
    assert_product("c by columns", by_columns, expected);
}

static void matrices_added(void **state)
{
    static const Case cases[] = {
        { KILN_QUANT_MXFP4, KILN_QUANT_PLAIN, 4, 32, 32, false, KILN_BF16, KILN_U8 },
        { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 128, 128, true, KILN_F16, KILN_F16 },
    };
    for (int i = 0; i < 2; i++) {
        const Weights w = packed_weights(&cases[i]);
        for (int64_t m = 1; m <= 72; m += m == 1 ? 15 : 56) multiply_and_add(&cases[i], &w, m);
    }
}

// The weights of codes of a host, with all scales of a row in `scales`.
static const double *unpacked(kiln_type type, const char *bindings, const Array *codes, kiln_arg scales, kiln_arg zeros,
                              kiln_arg minima)
{
    const kiln_tensor *const y = host_result(ARRAY(KILN_F32, N, K));
    const kiln_arg args[] = { in_blocks(HOST_AS(codes->host, KILN_U8, N, codes->tensor.shape[1]), type, 128), scales,
                              zeros, minima, KILN_TENSOR(y) };
    run_reference("quant/unpack.tile", "quant_unpack", bindings, args, 5);
    return numbers(y);
}

// Rounded to a type of 16 bits at most twice.
static void unpack(const Case *c, const Weights *w)
{
    Array *const to = array_spread(ARRAY(c->a, N, K), false);
    array_erase(to), array_send(to);
    const kiln_quant_unpack_args args = { .codes = of(w->codes),
                                          .scales = of(w->scales),
                                          .zeros = of(w->zeros),
                                          .minima = of(w->minima),
                                          .weights = of(to),
                                          .format = c->format,
                                          .group = c->group };
    assert_ok(kiln_quant_unpack(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, Q=%s, TS=%s, G=%d, NF4=%s", kiln_type_name(code_type(c)),
             host_type(c->scales), c->group, c->format == KILN_QUANT_NF4 ? "true" : "false");
    const double *const expected = unpacked(code_type(c), bindings, w->codes, of_groups(c, copy_of(w->scales)),
                                            of_groups(c, copy_of(w->zeros)), of_groups(c, copy_of(w->minima)));
    array_fetch(to);
    double size = 0;
    for (int64_t i = 0; i < N * K; i++) size = fmax(size, fabs(expected[i]));
    assert_close("weights", to, expected, (Tolerance){ 4e-3 * size, 8e-3, 1e-5 });
}

static void check(const Case *c, int64_t few, int64_t many)
{
    Weights w = packed_weights(c);
    unpack(c, &w);
    multiply(c, &w, few, true);
    if (many) multiply(c, &w, many, false);
}

static void integers(void **state)
{
    check(&(Case){ KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 32, 64, true, KILN_BF16, KILN_BF16 }, 1, 9);
    check(&(Case){ KILN_QUANT_INT4, KILN_QUANT_AWQ, 4, 128, 128, true, KILN_F16, KILN_F16 }, 3, 70);
    check(&(Case){ KILN_QUANT_INT4, KILN_QUANT_GPTQ, 4, 64, 64, true, KILN_F16, KILN_F16 }, 1, 0);
    check(&(Case){ KILN_QUANT_INT4S, KILN_QUANT_PLAIN, 4, 128, 128, false, KILN_F16, KILN_F16 }, 1, 0);
    check(&(Case){ KILN_QUANT_INT2, KILN_QUANT_GPTQ, 2, 128, 256, true, KILN_F16, KILN_F16 }, 1, 0);
}

static void floats(void **state)
{
    check(&(Case){ KILN_QUANT_NF4, KILN_QUANT_BITSANDBYTES, 4, 64, 64, false, KILN_BF16, KILN_BF16 }, 1, 20);
    check(&(Case){ KILN_QUANT_FP4, KILN_QUANT_PLAIN, 4, 16, 16, false, KILN_BF16, KILN_BF16 }, 1, 0);
    check(&(Case){ KILN_QUANT_MXFP4, KILN_QUANT_TWIDDLED, 4, 32, 32, false, KILN_BF16, KILN_U8 }, 1, 20);
    check(&(Case){ KILN_QUANT_FP8, KILN_QUANT_PLAIN, 8, 128, K, false, KILN_BF16, KILN_F16 }, 1, 0);
}

static void blocks_of_ggml(void **state)
{
    check(&(Case){ KILN_QUANT_INT4S, KILN_QUANT_GGUF, 4, 32, 0, false, KILN_F16, KILN_F16 }, 1, 0);
    check(&(Case){ KILN_QUANT_INT8, KILN_QUANT_GGUF, 8, 32, 0, false, KILN_F16, KILN_F16 }, 1, 0);
    check(&(Case){ KILN_QUANT_INT4MIN, KILN_QUANT_GGUF, 4, 32, 0, false, KILN_BF16, KILN_F16 }, 1, 20);
    check(&(Case){ KILN_QUANT_INT8, KILN_QUANT_GGUF, 8, 16, 0, false, KILN_F16, KILN_F16 }, 1, 0);
}

// ---- products of bytes

enum { FEW = 3, WIDE = 4224 }; // rows that lie apart; columns whose tiles fill the processors of a GPU

// Of the fetched codes; `to` gives the shape and the type.
static const double *product_of_bytes(const Case *c, const Weights *w, const Array *a, const Array *rows,
                                      const Array *zeros, const Array *to)
{
    const kiln_tensor *const result = host_result(to), codes = w->codes->tensor;
    const kiln_arg args[] = {
        host_arg(a),
        in_blocks(HOST_AS(w->codes->host, KILN_U8, codes.shape[0], codes.shape[1]), code_type(c), 128),
        host_arg(rows),
        KILN_NONE,
        host_arg(zeros),
        KILN_NONE,
        KILN_TENSOR(result)
    };
    char bindings[32];
    snprintf(bindings, sizeof bindings, "TC=%s, Q=%s", kiln_type_name(to->tensor.type), kiln_type_name(code_type(c)));
    run_reference("quant/bytes.tile", "quant_by_bytes", bindings, args, 7);
    return numbers(result);
}

static void check_bytes(kiln_quant_format format, int bits, int64_t m, int64_t columns)
{
    const Case c = { format, bits == 2 ? KILN_QUANT_INTERLEAVED : KILN_QUANT_PLAIN, bits, 0, 0, false, KILN_I8, 0 };
    const Weights w = { .source = bits_drawn(ARRAY(KILN_U8, columns, K * bits / 8)),
                        .codes = ARRAY(KILN_U8, columns, K * bits / 8) };
    Array *const a = ARRAY(KILN_I8, m, K), *const to = ARRAY(KILN_F32, m, columns), *const rows = ARRAY(KILN_F32, m);
    fill_random(a, -128, 127);
    for (int64_t i = 0; i < m; i++) set(rows, i, ldexp(1, (int)(i % 5) - 2)); // exact
    array_send(w.source), array_send(rows);
    const kiln_quant_pack_args args = pack_args(&c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &args));
    kiln_quantised_gemm_args product = args_of(&c, &w, m == FEW ? array_spread(a, false) : a, NULL, to);
    product.a_scales = of(rows);
    run(product);
    check_codes(&c, &w);
    array_fetch(to);
    assert_close("c", to, product_of_bytes(&c, &w, a, rows, NULL, to), (Tolerance){ 1e-9, 0, 1e-9 });
}

static void bytes(void **state)
{
    check_bytes(KILN_QUANT_W8A8, 8, 1, N);
    check_bytes(KILN_QUANT_W8A8, 8, 20, N);
    check_bytes(KILN_QUANT_W4A8, 4, FEW, N);
    check_bytes(KILN_QUANT_W4A8, 4, 20, N);
    check_bytes(KILN_QUANT_W2A8, 2, FEW, N);
    check_bytes(KILN_QUANT_W2A8, 2, 20, N);
    check_bytes(KILN_QUANT_W2A8, 2, FEW, WIDE);
}

// Codes without sign, less a zero of each row, to i32 and f32, by rows and by columns; and as numbers.
static void check_zeros_of_rows(int64_t m)
{
    const Case c = { KILN_QUANT_W4A8U, KILN_QUANT_PLAIN, 4, 0, 0, false, KILN_I8, 0 };
    const Weights w = { .source = bits_drawn(ARRAY(KILN_U8, N, K / 2)), .codes = ARRAY(KILN_U8, N, K / 2) };
    Array *const a = ARRAY(KILN_I8, m, K), *const whole = ARRAY(KILN_I32, m, N),
                 *const to = array_swapped(ARRAY(KILN_F32, N, m), 0, 1), *const rows = ARRAY(KILN_F32, m),
                 *const zeros = ARRAY(KILN_U8, N), *const back = ARRAY(KILN_F32, N, K);
    for (int64_t i = 0; i < N; i++) set(zeros, i, (double)integer(0, 15));
    for (int64_t i = 0; i < m * K; i++) set(a, i, (double)integer(-128, 127));
    for (int64_t i = 0; i < m; i++) set(rows, i, ldexp(1, (int)(i % 5) - 2)); // exact
    Array *const sent[] = { w.source, w.codes, zeros, a, rows, whole, to, back };
    for (int i = 0; i < 8; i++) array_send(sent[i]);
    const kiln_quant_pack_args pack = pack_args(&c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &pack));
    kiln_quantised_gemm_args product = args_of(&c, &w, a, NULL, whole);
    product.zeros = of(zeros);
    run(product);
    product.a_scales = of(rows);
    product.c = of(to);
    run(product);
    const kiln_quant_unpack_args unpack = {
        .codes = of(w.codes), .zeros = of(zeros), .weights = of(back), .format = c.format
    };
    assert_ok(kiln_quant_unpack(ops, NULL, &unpack));
    assert_ok(kiln_stream_wait(device, NULL));
    check_codes(&c, &w);
    array_fetch(whole), array_fetch(to), array_fetch(back);
    const Tolerance exact = { 1e-9, 0, 1e-9 };
    assert_close("c", whole, product_of_bytes(&c, &w, a, NULL, zeros, whole), exact);
    assert_close("c by columns", to, product_of_bytes(&c, &w, a, rows, zeros, to), exact);
    const kiln_arg of_rows = KILN_TENSOR(HOST_AS(zeros->host, KILN_U8, N, 1, 1));
    assert_close("weights", back, unpacked(KILN_U4, "T=f32, Q=u4, WHOLE=true", w.codes, KILN_NONE, of_rows, KILN_NONE),
                 exact);
}

static void zeros_of_rows(void **state)
{
    check_zeros_of_rows(1);
    check_zeros_of_rows(4);
    check_zeros_of_rows(20);
    check_zeros_of_rows(132);
}

static void check_blocks_of_fp8(int64_t M, int64_t ROWS)
{
    Array *const a = ARRAY(KILN_E4M3, M, K), *const codes = ARRAY(KILN_E4M3, ROWS, K),
                 *const to = ARRAY(KILN_F32, M, ROWS);
    Array *const a_scales = ARRAY(KILN_F32, M, K / 128), *const scales = ARRAY(KILN_F32, (ROWS + 127) / 128, K / 128);
    fill_random(a, -1, 1), fill_random(codes, -1, 1), fill_random(a_scales, 0.5, 2), fill_random(scales, 0.5, 2);
    kiln_quantised_gemm_args args = { .a = of(a),
                                      .codes = of(codes),
                                      .scales = of(scales),
                                      .a_scales = of(a_scales),
                                      .c = of(to),
                                      .format = KILN_QUANT_FP8_BLOCK };
    run(args);
    const kiln_tensor *const expected = host_result(to);
    const kiln_arg host[] = { mirror_arg(a),    mirror_arg(codes), host_arg(a_scales),
                              host_arg(scales), KILN_NONE,         KILN_TENSOR(expected) };
    run_reference("quant/fp8_block.tile", "fp8_block", "TC=f32", host, 6);
    array_fetch(to);
    assert_close("c", to, numbers(expected), (Tolerance){ 0.1, 1e-2, 1e-5 });
    // The scales of a by columns, which lie apart: the same sums.
    Array *const columns = array_swapped(ARRAY(KILN_F32, K / 128, (M + 3) / 4 * 4), 0, 1),
                 *const by_columns = array_part(columns, 0, 0, M), *const same = ARRAY(KILN_F32, M, ROWS);
    for (int64_t i = 0; i < count(columns); i++) set(columns, i, i < count(a_scales) ? get(a_scales, i) : -7);
    array_send(columns), array_send(same);
    args.a_scales = of(by_columns);
    args.c = of(same);
    run(args);
    array_fetch(same);
    for (int64_t i = 0; i < M * ROWS; i++) assert_true(get(same, i) == get(to, i));
}

// By tiles of all sizes: few rows, a quarter of an H200's multiprocessors, half of them.
static void blocks_of_fp8(void **state)
{
    check_blocks_of_fp8(20, 200);
    check_blocks_of_fp8(70, 200);
    check_blocks_of_fp8(129, 17 * 128 - 6);
}

// ---- edges

static void rows_may_lie_apart(void **state)
{
    const Case c = { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 32, 64, true, KILN_BF16, KILN_BF16 };
    Weights w = packed_weights(&c);
    for (int64_t m = 1; m <= 9; m += 8) {
        Array *const a = ARRAY(KILN_BF16, m, K), *const plain = ARRAY(KILN_F32, m, N),
                     *const to = ARRAY(KILN_F32, m, N);
        fill_random(a, -1, 1);
        array_send(plain), array_send(to);
        Array *const apart = array_spread(a, false), *const to_apart = array_spread(to, false);
        array_send(apart), array_send(to_apart);
        run(args_of(&c, &w, a, NULL, plain));
        run(args_of(&c, &w, apart, NULL, to_apart));
        array_fetch(plain), array_fetch(to_apart);
        for (int64_t i = 0; i < m * N; i++) assert_true(get(plain, i) == get(to_apart, i));
    }
}

// Codes of contiguous rows that have strides, as slices and other libraries' tensors do.
static void codes_may_have_strides(void **state)
{
    const Case c = { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 32, 64, true, KILN_BF16, KILN_BF16 };
    Weights w = packed_weights(&c);
    kiln_tensor *const codes = &w.codes->tensor;
    codes->has_strides = true, codes->strides[0] = codes->shape[1], codes->strides[1] = 1;
    const kiln_quant_pack_args args = pack_args(&c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &args));
    multiply(&c, &w, 1, true);
    multiply(&c, &w, 9, false);
}

static void empty_products(void **state)
{
    const Case c = { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 32, 64, true, KILN_BF16, KILN_BF16 };
    Weights w = packed_weights(&c),
            none = { .codes = ARRAY(KILN_U8, N, 0), .scales = ARRAY(KILN_BF16, N, 0), .zeros = ARRAY(KILN_U8, N, 0) };
    Array *const to = ARRAY(KILN_F32, 1, N), *const bias = ARRAY(KILN_F32, N);
    fill_random(bias, -1, 1);
    array_send(to);
    run(args_of(&c, &w, ARRAY(KILN_BF16, 0, K), NULL, ARRAY(KILN_F32, 0, N)));
    run(args_of(&c, &none, ARRAY(KILN_BF16, 1, 0), bias, to));
    array_fetch(to);
    for (int64_t n = 0; n < N; n++) assert_true(get(to, n) == get(bias, n));
}

// Weights of BitNet: rows in groups of their own mean, as numbers again.
static void ternary_weights(void **state)
{
    enum { GROUPS = 3 };
    static const int ends[GROUPS + 1] = { 0, 50, 50, N };
    Array *const w = ARRAY(KILN_F32, N, K), *const offsets = ARRAY(KILN_I32, GROUPS + 1),
                 *const to = ARRAY(KILN_F32, N, K);
    Array *const codes = ARRAY(KILN_U8, N, K / 4), *const scales = ARRAY(KILN_F32, N);
    seed(7); // no weight is next to half of its group's mean
    fill_random(w, -1, 1);
    for (int g = 0; g <= GROUPS; g++) set(offsets, g, ends[g]);
    array_send(w), array_send(offsets), array_send(codes), array_send(scales), array_send(to);
    kiln_quant_ternary_args args = {
        .weights = of(w), .offsets = of(offsets), .codes = of(codes), .scales = of(scales)
    };
    assert_ok(kiln_quant_ternary_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    assert_ok(kiln_quant_ternary(ops, NULL, &args));
    const kiln_quant_unpack_args back = {
        .codes = of(codes), .scales = of(scales), .weights = of(to), .format = KILN_QUANT_W2A8
    };
    assert_ok(kiln_quant_unpack(ops, NULL, &back));
    assert_ok(kiln_stream_wait(device, NULL));
    const kiln_tensor *const expected = host_result(codes), *const means = host_result(scales);
    const kiln_arg host[] = { host_arg(w), host_arg(offsets), in_blocks(expected, KILN_I2, 128), KILN_TENSOR(means) };
    run_reference("quant/ternary.tile", "quant_ternary", "T=f32", host, 4);
    array_fetch(to), array_fetch(scales), array_fetch(codes);
    assert_close("scales", scales, numbers(means), (Tolerance){ 0, 1e-5, 1e-9 });
    assert_close("codes", codes, numbers(expected), (Tolerance){ 0.5, 0, 1e-12 });
    const kiln_arg of_rows = KILN_TENSOR(HOST_AS(means->data, KILN_F32, N, 1, 1));
    assert_close("weights", to,
                 unpacked(KILN_I2, "T=f32, Q=i2, TS=f32, WHOLE=true", codes, of_rows, KILN_NONE, KILN_NONE),
                 (Tolerance){ 1e-30, 1e-5, 1e-9 });
    REFUSED_TENSOR(kiln_quant_ternary(ops, NULL, &args), w->tensor, shape[1] = 40, KILN_BAD_SHAPE,
                   "kiln_quant_ternary: 'weights' has K = 40 columns, expected a multiple of 32");
    REFUSED(kiln_quant_ternary(ops, NULL, &args), args, args.codes = of(w), KILN_BAD_TYPE,
            "'codes' is a tensor of f32");
    REFUSED(kiln_quant_ternary(ops, NULL, &args), args, args.workspace_bytes = 1, KILN_BAD_ARGUMENT,
            "needs a workspace of ");
}

static void unpacking_is_refused(void **state)
{
    const Case c = { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 32, 64, true, KILN_BF16, KILN_BF16 };
    Weights w = packed_weights(&c);
    Array *const to = ARRAY(KILN_BF16, N, K), *const whole = ARRAY(KILN_I32, N, K);
    kiln_quant_unpack_args u = {
        .codes = of(w.codes), .scales = of(w.scales), .zeros = of(w.zeros), .weights = of(to), .group = 32
    };
#define U(change, status, message) REFUSED(kiln_quant_unpack(ops, NULL, &u), u, change, status, message)
    U(u.format = 99, KILN_BAD_ARGUMENT, "kiln_quant_unpack: 'format' is 99, expected one of kiln_quant_format");
    U(u.group = 48, KILN_BAD_ARGUMENT, "'group' is 48, expected 16, 32, 64 or 128");
    U(u.group = 64, KILN_BAD_SHAPE, "dimension 1 of 'scales' is 16, expected 8");
    U(u.format = KILN_QUANT_NF4, KILN_BAD_ARGUMENT, "'zeros' is not null, but format NF4 has none");
    U(u.minima = u.scales, KILN_BAD_ARGUMENT, "'minima' is not null, but format INT4 has none");
    U(u.scales = NULL, KILN_BAD_ARGUMENT, "'scales' is null");
    U(u.weights = of(whole), KILN_BAD_TYPE, "'weights' is a tensor of i32, expected f32 or f16 or bf16");
    REFUSED_TENSOR(kiln_quant_unpack(ops, NULL, &u), to->tensor, shape[1] = 40, KILN_BAD_SHAPE,
                   "'weights' has K = 40 columns, expected a multiple of 32");
}

static void what_is_refused(void **state)
{
    const Case c = { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 32, 64, true, KILN_BF16, KILN_BF16 };
    Weights w = packed_weights(&c);
    Array *const a = ARRAY(KILN_BF16, 4, K), *const to = ARRAY(KILN_F32, 4, N), *const bytes = ARRAY(KILN_I8, 4, K);
    kiln_quantised_gemm_args g = args_of(&c, &w, a, NULL, to);
    kiln_quant_pack_args p = pack_args(&c, &w);
#define G(change, status, message) REFUSED(kiln_quantised_gemm(ops, NULL, &g), g, change, status, message)
#define P(change, status, message) REFUSED(kiln_quant_pack(ops, NULL, &p), p, change, status, message)
    G(g.format = 99, KILN_BAD_ARGUMENT, "'format' is 99, expected one of kiln_quant_format");
    G(g.group = 48, KILN_BAD_ARGUMENT, "'group' is 48, expected 16, 32, 64 or 128");
    G(g.group = 64, KILN_BAD_SHAPE, "dimension 1 of 'scales' is 16, expected 8");
    G(g.format = KILN_QUANT_NF4, KILN_BAD_ARGUMENT, "'zeros' is not null, but format NF4 has none");
    G((g.format = KILN_QUANT_INT4MIN, g.zeros = NULL), KILN_BAD_ARGUMENT,
      "'minima' is null, but format INT4MIN has some");
    G(g.a_scales = g.scales, KILN_BAD_ARGUMENT, "'a_scales' is not null, but format INT4 has none");
    G(g.residual = of(a), KILN_BAD_TYPE, "'residual' is a tensor of bf16, expected f32");
    G((g.format = KILN_QUANT_W8A8, g.zeros = NULL, g.residual = of(to)), KILN_BAD_ARGUMENT,
      "'residual' is not null, but format W8A8 takes none");
    const kiln_tensor longest = kiln_tensor_of(device, NULL, KILN_BF16, 2, (int64_t[]){ 0, INT64_MAX - 31 });
    G(g.a = &longest, KILN_BAD_SHAPE, "dimension 1 of 'codes'");
    G(g.a = of(bytes), KILN_BAD_TYPE, "'a' is a tensor of i8, expected f16 or bf16");
    G(g.codes = NULL, KILN_BAD_ARGUMENT, "'codes' is null");
    G(g.codes = of(a), KILN_BAD_TYPE, "'codes' is a tensor of bf16, expected u8 or u4");
    G(g.scales = of(to), KILN_BAD_TYPE, "'scales' is a tensor of f32, expected f16 or bf16");
    REFUSED_TENSOR(kiln_quantised_gemm(ops, NULL, &g), a->tensor, shape[1] = 40, KILN_BAD_SHAPE,
                   "'a' has K = 40 columns, expected a multiple of 32");
    P(p.layout = KILN_QUANT_TWIDDLED, KILN_UNSUPPORTED, "'layout' is 4, which format INT4 does not come in");
    P(p.k = 100, KILN_BAD_ARGUMENT, "'k' is 100, expected a multiple of 32");
    P(p.weight_group = 48, KILN_BAD_ARGUMENT,
      "'weight_group' is 48, expected a divisor of k = 512 and a multiple of 'group'");
    P(p.weight_zeros = NULL, KILN_BAD_ARGUMENT, "'zeros' is not null, but 'weight_zeros' is");
    P(p.weight_scales = NULL, KILN_BAD_ARGUMENT, "'weight_scales' is null");
    P(p.weights = of(a), KILN_BAD_TYPE, "'weights' is a tensor of bf16");
    const kiln_tensor codes = kiln_tensor_of(device, w.source->tensor.data, KILN_I4, 2, (int64_t[]){ N, K });
    const kiln_quant_pack_args ggml = { .weights = &codes,
                                        .codes = of(w.codes),
                                        .scales = of(w.scales),
                                        .format = KILN_QUANT_INT4S,
                                        .layout = KILN_QUANT_GGUF,
                                        .k = K,
                                        .group = 32 };
    p = ggml;
    P((void)0, KILN_BAD_TYPE, "'weights' is a tensor of i4, expected i8 or u8"); // of blocks, which are bytes
    P(p.group = 64, KILN_UNSUPPORTED, "'group' is 64, of which GGUF has no blocks for format INT4S");
    assert_fails(kiln_quant_extents(KILN_QUANT_INT4, 48, 32, NULL, NULL, NULL), KILN_BAD_ARGUMENT, "'k' is 48");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(integers, free_arrays),
        cmocka_unit_test_teardown(floats, free_arrays),
        cmocka_unit_test_teardown(blocks_of_ggml, free_arrays),
        cmocka_unit_test_teardown(bytes, free_arrays),
        cmocka_unit_test_teardown(zeros_of_rows, free_arrays),
        cmocka_unit_test_teardown(matrices_added, free_arrays),
        cmocka_unit_test_teardown(blocks_of_fp8, free_arrays),
        cmocka_unit_test_teardown(rows_may_lie_apart, free_arrays),
        cmocka_unit_test_teardown(codes_may_have_strides, free_arrays),
        cmocka_unit_test_teardown(empty_products, free_arrays),
        cmocka_unit_test_teardown(ternary_weights, free_arrays),
        cmocka_unit_test_teardown(unpacking_is_refused, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
