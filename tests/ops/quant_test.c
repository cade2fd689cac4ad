// SPDX-License-Identifier: MIT
// quant_test.c - quantised products of every format from every layout of checkpoints, against the weights that these stand
// for in f64, as their definitions have them; few and many rows, strided rows, empty products; the weights unpacked again, and
// those of BitNet made; what is refused.
#include "kiln/ops/quant.h"
#include "support.h"

enum { N = 80, K = 512 };

// ---- what codes stand for

static double half(const Array *b, int64_t at)
{
    const int bits = (int)get(b, at) | (int)get(b, at + 1) << 8, exponent = bits >> 10 & 31;
    const double fraction = (bits & 1023) / 1024.0;
    return (bits >> 15 ? -1 : 1) * (exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14));
}

static double fp4(int code)
{
    static const double magnitudes[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    return (code & 8 ? -1 : 1) * magnitudes[code & 7];
}

static double nf4(int code)
{
    static const double numbers[] = { -1.0,
                                      -0.6961928009986877,
                                      -0.5250730514526367,
                                      -0.39491748809814453,
                                      -0.28444138169288635,
                                      -0.18477343022823334,
                                      -0.09105003625154495,
                                      0.0,
                                      0.07958029955625534,
                                      0.16093020141124725,
                                      0.24611230194568634,
                                      0.33791524171829224,
                                      0.44070982933044434,
                                      0.5626170039176941,
                                      0.7229568362236023,
                                      1.0 };
    return numbers[code];
}

static double fp8(int code)
{
    const int exponent = code >> 3 & 15;
    return (code & 128 ? -1 : 1) * (exponent ? ldexp(8 + (code & 7), exponent - 10) : ldexp(code & 7, -9));
}

static double number_of(kiln_quant_format format, int code)
{
    switch (format) {
    case KILN_QUANT_NF4: return nf4(code);
    case KILN_QUANT_FP4:
    case KILN_QUANT_MXFP4: return fp4(code);
    case KILN_QUANT_FP8:
    case KILN_QUANT_FP8_BLOCK: return fp8(code);
    case KILN_QUANT_INT4S:
    case KILN_QUANT_W4A8: return code < 8 ? code : code - 16;
    case KILN_QUANT_W2A8: return code < 2 ? code : code - 4;
    case KILN_QUANT_INT8:
    case KILN_QUANT_W8A8: return code < 128 ? code : code - 256;
    case KILN_QUANT_W4A8U:
    case KILN_QUANT_INT4:
    case KILN_QUANT_INT2:
    case KILN_QUANT_INT4MIN: break;
    }
    return code;
}

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
    double *numbers; // [N][K]
} Weights;

static int code_drawn(const Case *c) // e4m3 has no number of 127
{
    const int code = (int)integer(0, (1 << c->bits) - 1);
    return c->format == KILN_QUANT_FP8 && (code & 127) == 127 ? 0 : code;
}

static void put(Array *b, int64_t i, int shift, int code)
{
    set(b, i, (double)((int64_t)(uint32_t)get(b, i) | (int64_t)code << shift));
}

static void clear(Array *b)
{
    for (int64_t i = 0; i < count(b); i++) set(b, i, 0);
}

// Words are i32: their bits as a number of it.
static void put_word(Array *b, int64_t i, int shift, int code)
{
    const uint32_t bits = (uint32_t)(int64_t)get(b, i) | (uint32_t)code << shift;
    set(b, i, (double)(int32_t)bits);
}

// The place of code k of row n in the layout, and the code there.
static void put_code(const Case *c, Array *b, int64_t n, int64_t k, int code)
{
    const int each = 32 / c->bits, in_byte = 8 / c->bits;
    static const int awq[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    const int64_t row = n * (K / in_byte);
    switch (c->layout) {
    case KILN_QUANT_PLAIN: put(b, row + k / in_byte, (int)(k % in_byte) * c->bits, code); break;
    case KILN_QUANT_AWQ: put_word(b, k * (N / 8) + n / 8, 4 * awq[n % 8], code); break;
    case KILN_QUANT_GPTQ: put_word(b, k / each * N + n, (int)(k % each) * c->bits, code); break;
    case KILN_QUANT_BITSANDBYTES: put(b, row + k / 2, k % 2 ? 0 : 4, code); break;
    case KILN_QUANT_INTERLEAVED: put(b, row + k / 16 * 4 + k % 4, (int)(k % 16 / 4) * 2, code ^ 2); break;
    case KILN_QUANT_TWIDDLED: { // of bits 3 to 0; bit 8 and above are the first byte's
        static const int to[4][4] = { { 6, 7, 8, 15 }, { 3, 4, 5, 12 }, { 0, 1, 2, 9 }, { 13, 10, 11, 14 } };
        for (int bit = 0; bit < 4; bit++) {
            const int at = to[k % 4][bit];
            put(b, row + k / 4 * 2 + (at < 8), at % 8, code >> bit & 1);
        }
        break;
    }
    case KILN_QUANT_GGUF: break;
    }
}

static Weights coded_weights(const Case *c)
{
    Weights w = { .numbers = test_malloc(sizeof(double) * N * K) };
    const bool words = c->layout == KILN_QUANT_AWQ || c->layout == KILN_QUANT_GPTQ;
    const int64_t groups = K / c->weight_group;
    w.source = c->layout == KILN_QUANT_AWQ    ? ARRAY(KILN_I32, K, N / 8)
               : c->layout == KILN_QUANT_GPTQ ? ARRAY(KILN_I32, K * c->bits / 32, N)
                                              : ARRAY(KILN_U8, N, K * c->bits / 8);
    const kiln_type type = c->layout == KILN_QUANT_BITSANDBYTES ? KILN_F32 : c->scales;
    w.source_scales = words ? ARRAY(type, groups, N) : ARRAY(type, N, groups);
    if (c->zeros)
        w.source_zeros = c->layout == KILN_QUANT_PLAIN ? ARRAY(KILN_U8, N, groups)
                         : c->layout == KILN_QUANT_AWQ ? ARRAY(KILN_I32, groups, N / 8)
                                                       : ARRAY(KILN_I32, groups, N * c->bits / 32);
    clear(w.source);
    if (c->zeros) clear(w.source_zeros);
    for (int64_t i = 0; i < count(w.source_scales); i++)
        set(w.source_scales, i, type == KILN_U8 ? (double)integer(118, 128) : uniform(-0.1, 0.1));
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            const int64_t g = k / c->weight_group, at = words ? g * N + n : n * groups + g;
            const double scale =
                type == KILN_U8 ? ldexp(1, (int)get(w.source_scales, at) - 127) : get(w.source_scales, at);
            const int code = code_drawn(c), zero = c->zeros ? (int)(n * 5 + g) % (1 << c->bits) : 0;
            static const int awq[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
            const int each = 32 / c->bits;
            put_code(c, w.source, n, k, code);
            if (c->zeros && k % c->weight_group == 0) {
                if (c->layout == KILN_QUANT_PLAIN) set(w.source_zeros, at, zero);
                else if (c->layout == KILN_QUANT_AWQ)
                    put_word(w.source_zeros, g * (N / 8) + n / 8, 4 * awq[n % 8], zero);
                else put_word(w.source_zeros, g * (N / each) + n / each, (int)(n % each) * c->bits, zero);
            }
            const int less = zero + (c->zeros && c->layout == KILN_QUANT_GPTQ);
            w.numbers[n * K + k] = (number_of(c->format, code) - less) * scale;
        }
    return w;
}

// ggml's blocks of random bytes, with scales of usual size.
static Weights blocks_of_weights(const Case *c)
{
    Weights w = { .numbers = test_malloc(sizeof(double) * N * K) };
    const bool is_k = c->format == KILN_QUANT_INT4MIN || c->group == 16;
    const int codes = is_k ? 256 : 32, bytes = !is_k ? 2 + codes * c->bits / 8 : c->bits == 4 ? 144 : 210;
    w.source = ARRAY(KILN_U8, N, K / codes * bytes);
    for (int64_t i = 0; i < count(w.source); i++) set(w.source, i, (double)integer(0, 255));
    for (int64_t b = 0; b < N * K / codes; b++) {
        const int64_t from = b * bytes, d = from + (is_k && c->bits == 8 ? 208 : 0);
        set(w.source, d + 1, (double)integer(0x18, 0x20));
        if (is_k && c->bits == 4) set(w.source, d + 3, (double)integer(0x18, 0x20));
        for (int e = 0; e < codes; e++) {
            double *const number = &w.numbers[b * codes + e];
            if (!is_k && c->bits == 4) {
                const int byte = (int)get(w.source, from + 2 + e % 16);
                *number = half(w.source, d) * ((e < 16 ? byte & 15 : byte >> 4) - 8);
            } else if (!is_k) {
                *number = half(w.source, d) * (int8_t)(int)get(w.source, from + 2 + e);
            } else if (c->bits == 4) {
                const int byte = (int)get(w.source, from + 16 + e / 64 * 32 + e % 32), j = e / 32;
                const int64_t s = from + 4;
                const int scale = j < 4
                                      ? (int)get(w.source, s + j) & 63
                                      : ((int)get(w.source, s + j + 4) & 15) | (int)get(w.source, s + j - 4) >> 6 << 4;
                const int least = j < 4 ? (int)get(w.source, s + j + 4) & 63
                                        : (int)get(w.source, s + j + 4) >> 4 | (int)get(w.source, s + j) >> 6 << 4;
                *number =
                    half(w.source, d) * scale * (e % 64 < 32 ? byte & 15 : byte >> 4) - half(w.source, d + 2) * least;
            } else {
                const int h = e / 128, l = e % 32, q = e % 128 / 32;
                const int low = (int)get(w.source, from + h * 64 + l + q % 2 * 32) >> (q < 2 ? 0 : 4) & 15;
                const int high = (int)get(w.source, from + 128 + h * 32 + l) >> 2 * q & 3;
                *number =
                    half(w.source, d) * (int8_t)(int)get(w.source, from + 192 + e / 16) * ((low | high << 4) - 32);
            }
        }
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

static Weights packed_weights(const Case *c)
{
    Weights w = c->layout == KILN_QUANT_GGUF ? blocks_of_weights(c) : coded_weights(c);
    int64_t columns, groups;
    assert_ok(kiln_quant_extents(c->format, K, c->group, NULL, &columns, &groups));
    w.codes = ARRAY(KILN_U8, N, columns * c->bits / 8);
    w.scales = ARRAY(c->scales, N, groups);
    if (c->zeros) w.zeros = ARRAY(KILN_U8, N, groups);
    if (c->format == KILN_QUANT_INT4MIN) w.minima = ARRAY(c->scales, N, groups);
    Array *const all[] = { w.source, w.source_scales, w.source_zeros, w.codes, w.scales, w.zeros, w.minima };
    for (int i = 0; i < 7; i++)
        if (all[i]) array_send(all[i]);
    const kiln_quant_pack_args args = pack_args(c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    for (int i = 3; i < 7; i++)
        if (all[i]) array_fetch(all[i]); // within its guards
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

// `to`, of [N][M], as the [M][N] whose columns these are.
static kiln_tensor turned(const Array *to)
{
    kiln_tensor t = to->tensor;
    t.shape[0] = to->tensor.shape[1], t.shape[1] = to->tensor.shape[0];
    t.has_strides = true;
    t.strides[0] = 1, t.strides[1] = to->tensor.shape[1];
    return t;
}

static void turn(double *to, const double *from, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) to[j * m + i] = from[i * n + j];
}

static void multiply(const Case *c, const Weights *w, int64_t m, bool with_bias)
{
    Array *const a = ARRAY(c->a, m, K), *const to = ARRAY(KILN_F32, m, N),
                 *const bias = with_bias ? ARRAY(KILN_F32, N) : NULL;
    double *const expected = test_malloc(sizeof(double) * (size_t)(m * N + 1));
    double size = 0;
    fill_random(a, -1, 1);
    if (bias) fill_random(bias, -1, 1);
    array_send(to);
    for (int64_t i = 0; i < m; i++)
        for (int64_t n = 0; n < N; n++) {
            double sum = bias ? get(bias, n) : 0;
            for (int64_t k = 0; k < K; k++) sum += get(a, i * K + k) * w->numbers[n * K + k];
            expected[i * N + n] = sum;
            size += sum * sum / (double)(m * N);
        }
    run(args_of(c, w, a, bias, to));
    array_fetch(to);
    assert_close("c", to, expected, (Tolerance){ 2e-2 * sqrt(size), 1e-2, 1e-5 });
    test_free(expected);
}

// A matrix added, and c by columns.
static void multiply_and_add(const Case *c, const Weights *w, int64_t m)
{
    Array *const a = ARRAY(c->a, m, K), *const to = ARRAY(KILN_F32, m, N), *const by_columns = ARRAY(KILN_F32, N, m),
                 *const residual = ARRAY(KILN_F32, m, N);
    double *const expected = test_malloc(sizeof(double) * (size_t)(m * N)), *const across = test_malloc(
                                                                                sizeof(double) * (size_t)(m * N));
    const kiln_tensor c_turned = turned(by_columns);
    fill_random(a, -1, 1), fill_random(residual, -9, 9);
    array_send(to), array_send(by_columns);
    for (int64_t i = 0; i < m * N; i++) {
        expected[i] = get(residual, i);
        for (int64_t k = 0; k < K; k++) expected[i] += get(a, i / N * K + k) * w->numbers[i % N * K + k];
    }
    turn(across, expected, m, N);
    kiln_quantised_gemm_args args = args_of(c, w, a, NULL, to);
    args.residual = of(residual);
    run(args);
    args.c = &c_turned;
    run(args);
    array_fetch(to), array_fetch(by_columns);
    double size = 0;
    for (int64_t i = 0; i < m * N; i++) size += expected[i] * expected[i] / (double)(m * N);
    assert_close("c", to, expected, (Tolerance){ 2e-2 * sqrt(size), 1e-2, 1e-5 });
    assert_close("c by columns", by_columns, across, (Tolerance){ 2e-2 * sqrt(size), 1e-2, 1e-5 });
    test_free(expected), test_free(across);
}

static void matrices_added(void **state)
{
    static const Case cases[] = {
        { KILN_QUANT_MXFP4, KILN_QUANT_PLAIN, 4, 32, 32, false, KILN_BF16, KILN_U8 },
        { KILN_QUANT_INT4, KILN_QUANT_PLAIN, 4, 128, 128, true, KILN_F16, KILN_F16 },
    };
    for (int i = 0; i < 2; i++) {
        Weights w = packed_weights(&cases[i]);
        for (int64_t m = 1; m <= 72; m += m == 1 ? 15 : 56) multiply_and_add(&cases[i], &w, m);
        test_free(w.numbers);
    }
}

// Packed weights are what they stood for, rounded to a type of 16 bits at most twice.
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
    array_fetch(to);
    double size = 0;
    for (int64_t i = 0; i < N * K; i++) size = fmax(size, fabs(w->numbers[i]));
    assert_close("weights", to, w->numbers, (Tolerance){ 4e-3 * size, 8e-3, 1e-5 });
}

static void check(const Case *c, int64_t few, int64_t many)
{
    Weights w = packed_weights(c);
    unpack(c, &w);
    multiply(c, &w, few, true);
    if (many) multiply(c, &w, many, false);
    test_free(w.numbers);
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

static void check_bytes(kiln_quant_format format, int bits, int64_t m, int64_t columns)
{
    const Case c = { format, bits == 2 ? KILN_QUANT_INTERLEAVED : KILN_QUANT_PLAIN, bits, 0, 0, false, KILN_I8, 0 };
    Weights w = { .source = ARRAY(KILN_U8, columns, K * bits / 8), .codes = ARRAY(KILN_U8, columns, K * bits / 8) };
    Array *const a = ARRAY(KILN_I8, m, K), *const to = ARRAY(KILN_F32, m, columns), *const rows = ARRAY(KILN_F32, m);
    double *const numbers = test_malloc(sizeof(double) * (size_t)(columns * K));
    double *const expected = test_malloc(sizeof(double) * (size_t)(m * columns));
    clear(w.source);
    for (int64_t i = 0; i < columns * K; i++) {
        const int code = (int)integer(0, (1 << bits) - 1);
        put_code(&c, w.source, i / K, i % K, code);
        numbers[i] = number_of(format, code);
    }
    for (int64_t i = 0; i < m * K; i++) set(a, i, (double)integer(-128, 127));
    for (int64_t i = 0; i < m; i++) set(rows, i, ldexp(1, (int)(i % 5) - 2)); // exact
    Array *const sent[] = { w.source, w.codes, a, rows, to };
    for (int i = 0; i < 5; i++) array_send(sent[i]);
    const kiln_quant_pack_args args = pack_args(&c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &args));
    for (int64_t i = 0; i < m; i++)
        for (int64_t n = 0; n < columns; n++) {
            expected[i * columns + n] = 0;
            for (int64_t k = 0; k < K; k++) expected[i * columns + n] += get(a, i * K + k) * numbers[n * K + k];
            expected[i * columns + n] *= get(rows, i);
        }
    kiln_quantised_gemm_args product = args_of(&c, &w, m == FEW ? array_spread(a, false) : a, NULL, to);
    product.a_scales = of(rows);
    run(product);
    array_fetch(to);
    assert_close("c", to, expected, (Tolerance){ 1e-9, 0, 1e-9 });
    test_free(expected), test_free(numbers);
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
    Weights w = { .source = ARRAY(KILN_U8, N, K / 2), .codes = ARRAY(KILN_U8, N, K / 2) };
    Array *const a = ARRAY(KILN_I8, m, K), *const whole = ARRAY(KILN_I32, m, N), *const to = ARRAY(KILN_F32, N, m),
                 *const rows = ARRAY(KILN_F32, m), *const zeros = ARRAY(KILN_U8, N),
                 *const back = ARRAY(KILN_F32, N, K);
    double *const numbers = test_malloc(sizeof(double) * N * K),
                  *const sums = test_malloc(sizeof(double) * (size_t)(m * N)),
                  *const across = test_malloc(sizeof(double) * (size_t)(m * N));
    const kiln_tensor c_turned = turned(to);
    clear(w.source);
    for (int64_t i = 0; i < N; i++) set(zeros, i, (double)integer(0, 15));
    for (int64_t i = 0; i < N * K; i++) {
        const int code = (int)integer(0, 15);
        put_code(&c, w.source, i / K, i % K, code);
        numbers[i] = number_of(c.format, code) - get(zeros, i / K);
    }
    for (int64_t i = 0; i < m * K; i++) set(a, i, (double)integer(-128, 127));
    for (int64_t i = 0; i < m; i++) set(rows, i, ldexp(1, (int)(i % 5) - 2)); // exact
    Array *const sent[] = { w.source, w.codes, zeros, a, rows, whole, to, back };
    for (int i = 0; i < 8; i++) array_send(sent[i]);
    const kiln_quant_pack_args pack = pack_args(&c, &w);
    assert_ok(kiln_quant_pack(ops, NULL, &pack));
    for (int64_t i = 0; i < m * N; i++) {
        sums[i] = 0;
        for (int64_t k = 0; k < K; k++) sums[i] += get(a, i / N * K + k) * numbers[i % N * K + k];
        across[i % N * m + i / N] = sums[i] * get(rows, i / N);
    }
    kiln_quantised_gemm_args product = args_of(&c, &w, a, NULL, whole);
    product.zeros = of(zeros);
    run(product);
    product.a_scales = of(rows);
    product.c = &c_turned;
    run(product);
    const kiln_quant_unpack_args unpack = {
        .codes = of(w.codes), .zeros = of(zeros), .weights = of(back), .format = c.format
    };
    assert_ok(kiln_quant_unpack(ops, NULL, &unpack));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(whole), array_fetch(to), array_fetch(back);
    assert_close("c", whole, sums, (Tolerance){ 1e-9, 0, 1e-9 });
    assert_close("c by columns", to, across, (Tolerance){ 1e-9, 0, 1e-9 });
    assert_close("weights", back, numbers, (Tolerance){ 1e-9, 0, 1e-9 });
    test_free(numbers), test_free(sums), test_free(across);
}

static void zeros_of_rows(void **state)
{
    check_zeros_of_rows(1);
    check_zeros_of_rows(4);
    check_zeros_of_rows(20);
    check_zeros_of_rows(132);
}

// Of every `step`-th column; the others are taken as they are.
static void check_blocks_of_fp8(int64_t M, int64_t ROWS, int step)
{
    Array *const a = ARRAY(KILN_E4M3, M, K), *const codes = ARRAY(KILN_E4M3, ROWS, K),
                 *const to = ARRAY(KILN_F32, M, ROWS);
    Array *const a_scales = ARRAY(KILN_F32, M, K / 128), *const scales = ARRAY(KILN_F32, (ROWS + 127) / 128, K / 128);
    double *const expected = test_malloc(sizeof(double) * (size_t)(M * ROWS));
    fill_random(a, -1, 1), fill_random(codes, -1, 1), fill_random(a_scales, 0.5, 2), fill_random(scales, 0.5, 2);
    array_send(to);
    kiln_quantised_gemm_args args = { .a = of(a),
                                      .codes = of(codes),
                                      .scales = of(scales),
                                      .a_scales = of(a_scales),
                                      .c = of(to),
                                      .format = KILN_QUANT_FP8_BLOCK };
    run(args);
    array_fetch(to);
    // The scales of a by columns, which lie apart: the same sums.
    const int64_t pitch = (M + 3) / 4 * 4;
    Array *const columns = ARRAY(KILN_F32, K / 128, pitch), *const same = ARRAY(KILN_F32, M, ROWS);
    for (int64_t i = 0; i < K / 128 * pitch; i++)
        set(columns, i, i % pitch < M ? get(a_scales, i % pitch * (K / 128) + i / pitch) : -7);
    array_send(columns), array_send(same);
    kiln_tensor by_columns = turned(columns);
    by_columns.shape[0] = M;
    args.a_scales = &by_columns;
    args.c = of(same);
    run(args);
    array_fetch(same);
    for (int64_t i = 0; i < M * ROWS; i++) assert_true(get(same, i) == get(to, i));
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < ROWS; n++) {
            double sum = 0;
            for (int64_t k = 0; n % step == 0 && k < K; k++)
                sum += get(a, m * K + k) * get(a_scales, m * (K / 128) + k / 128) * get(codes, n * K + k) *
                       get(scales, n / 128 * (K / 128) + k / 128);
            expected[m * ROWS + n] = n % step == 0 ? sum : get(to, m * ROWS + n);
        }
    assert_close("c", to, expected, (Tolerance){ 0.1, 1e-2, 1e-5 });
    test_free(expected);
}

// By tiles of all sizes: few rows, a quarter of an H200's multiprocessors, half of them.
static void blocks_of_fp8(void **state)
{
    check_blocks_of_fp8(20, 200, 1);
    check_blocks_of_fp8(70, 200, 1);
    check_blocks_of_fp8(129, 17 * 128 - 6, 31);
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
    test_free(w.numbers);
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
    test_free(w.numbers);
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
    test_free(w.numbers);
}

// Weights of BitNet: rows in groups of their own mean, as numbers again.
static void ternary_weights(void **state)
{
    enum { GROUPS = 3 };
    static const int ends[GROUPS + 1] = { 0, 50, 50, N };
    Array *const w = ARRAY(KILN_F32, N, K), *const offsets = ARRAY(KILN_I32, GROUPS + 1),
                 *const to = ARRAY(KILN_F32, N, K);
    Array *const codes = ARRAY(KILN_U8, N, K / 4), *const scales = ARRAY(KILN_F32, N);
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
    array_fetch(to), array_fetch(scales), array_fetch(codes);
    for (int g = 0; g < GROUPS; g++) {
        double sum = 0;
        for (int64_t i = (int64_t)ends[g] * K; i < (int64_t)ends[g + 1] * K; i++) sum += fabs(get(w, i));
        const double mean = sum / ((ends[g + 1] - ends[g]) * K);
        for (int64_t i = (int64_t)ends[g] * K; i < (int64_t)ends[g + 1] * K; i++) {
            assert_true(fabs(get(scales, i / K) - mean) < 1e-5 * mean);
            if (fabs(fabs(get(w, i) / mean) - 0.5) < 1e-5) continue; // either is right
            const double expected = fabs(get(w, i)) < mean / 2 ? 0 : get(w, i) < 0 ? -mean : mean;
            assert_true(fabs(get(to, i) - expected) < 1e-5 * mean);
        }
    }
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
    test_free(w.numbers);
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
    test_free(w.numbers);
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
