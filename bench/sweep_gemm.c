// SPDX-License-Identifier: MIT
// sweep_gemm.c - families gemm and gemm-types: kiln_gemm, weights as checkpoints have them, [N][K]; and its other
// types, scales and epilogues.
#include "kiln/ops/gemm.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

static const char *const ranges[] = {
    // rows: steps of decoding, with drafts, chunks of prompts, prompts; and any
    "M: 1 2 4 8 16 32 64 128 256 512 1024 2048 4096 8192 1..64 1..16384 1..16384",
    // Llama 3 8B and 70B: qkv, o, gate and up, down, head; Qwen 3 8B and 32B; DeepSeek V3: latent projections, heads,
    // o, dense and expert MLPs; gpt-oss: qkv, o, head; and any
    "N/K: 6144/4096 4096/4096 28672/4096 4096/14336 128256/4096 10240/8192 8192/8192 57344/8192 8192/28672 "
    "24576/4096 4096/12288 10240/5120 5120/8192 51200/5120 5120/25600 "
    "2112/7168 24576/1536 32768/512 7168/16384 36864/7168 7168/18432 4096/7168 7168/2048 "
    "5120/2880 2880/4096 201088/2880 1..8192/1..8192 1000/8888 777/1000 16..16384/4096",
    "T: bf16 bf16 f16 e4m3", NULL
};
static const char *const small[] = { "M: 1 4 16 64 256 1..512",
                                     "N/K: 512/512 1024/512 576/1536 1..600/1..600 768/768 1000/777",
                                     "T: bf16 bf16 f32", NULL };

static double operations(const Shape *s)
{
    return 2.0 * (double)shape_get(s, "M") * (double)shape_get(s, "N") * (double)shape_get(s, "K");
}

static double bytes(const Shape *s)
{
    const double m = (double)shape_get(s, "M"), n = (double)shape_get(s, "N"), k = (double)shape_get(s, "K");
    const double each = shape_type_bytes(s, "T");
    return each * (m * k + n * k) + (each < 2 ? 2 : each) * m * n;
}

static void prepare(SweepCase *c)
{
    kiln_gemm_args *const args = sweep_own(c, sizeof *args);
    const int64_t m = shape_get(&c->shape, "M"), n = shape_get(&c->shape, "N"), k = shape_get(&c->shape, "K");
    const kiln_type type = shape_type(&c->shape, "T");
    args->a = &sweep_normal(c, "a", type, 1, EXTENTS(m, k))->tensor;
    args->b = &sweep_normal(c, "b", type, 1, EXTENTS(n, k))->tensor;
    args->c = &sweep_output(c, "c", type == KILN_E4M3 ? KILN_BF16 : type, true, EXTENTS(m, n))->tensor;
    args->transpose_b = true;
    SWEEP_WORKSPACE(c, kiln_gemm, args);
}

static kiln_status call(SweepCase *c) { return kiln_gemm(c->ops, NULL, c->own); }

static void refer(SweepCase *c)
{
    sweep_refer(c, "gemm/any.tile", "gemm", "T=%s, TC=%s, TB=true, A=a, B=b, C=c, scale=1, p=1, parts=1",
                sweep_type(c, "a"), sweep_type(c, "c"));
}

const SweepFamily sweep_gemm = {
    .name = "gemm",
    .about = "kiln_gemm, of M rows and weights [N][K]; peer: cuBLAS, on a CPU oneDNN, through PyTorch",
    .ranges = ranges,
    .small = small,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
};

// ---- other types, scales, epilogues. OP says which:
//
//     f64 f32 tf32 tf32x3 i8      sums alone                    e5m2        e4m3 by e5m2, to bf16
//     i8_scaled, e4m3_scaled      scales of rows and columns    bias_gelu   bf16 with bias and gelu
//     swiglu                      silu(a b) (a up), bf16        batch       Z products, bf16
//     sparse24                    weights of which two of four are kept, bf16

static const char *const type_ranges[] = {
    "OP/T/TC: f64/f64/f64 f32/f32/f32 tf32/f32/f32 tf32x3/f32/f32 i8/i8/i32 i8_scaled/i8/bf16 e4m3_scaled/e4m3/bf16 e5m2/e4m3/bf16 "
    "bias_gelu/bf16/bf16 swiglu/bf16/bf16 batch/bf16/bf16 sparse24/bf16/bf16",
    "M: 1 16 32 128 512 2048 4096 1..4096",
    "N/K: 4096/4096 14336/4096 4096/14336 8192/8192 2112/7168 7168/2048 1024/1024 16..8192/4096", NULL
};
static const char *const type_small[] = {
    "OP/T/TC: f64/f64/f64 f32/f32/f32 tf32/f32/f32 tf32x3/f32/f32 i8/i8/i32 i8_scaled/i8/bf16 e4m3_scaled/e4m3/bf16 e5m2/e4m3/bf16 "
    "bias_gelu/bf16/bf16 swiglu/bf16/bf16 batch/bf16/bf16 sparse24/bf16/bf16",
    "M: 1 16 64 1..100", "N/K: 256/256 96/512 1..300/16..256", NULL
};

// Groups of four are whole.
static void settle_types(Shape *s)
{
    if (shape_is(s, "OP", "sparse24")) shape_set(s, "K", (shape_get(s, "K") + 7) / 8 * 8);
}

static int64_t batch_of(const Shape *s) { return shape_is(s, "OP", "batch") ? 8 : 1; }
static bool is_scaled(const Shape *s) { return shape_is(s, "OP", "i8_scaled") || shape_is(s, "OP", "e4m3_scaled"); }

static double type_operations(const Shape *s)
{
    return operations(s) * (double)batch_of(s) * (shape_is(s, "OP", "swiglu") ? 2 : 1);
}

static double type_bytes(const Shape *s)
{
    const double m = (double)shape_get(s, "M"), n = (double)shape_get(s, "N"), k = (double)shape_get(s, "K");
    const double weights = n * k * (shape_is(s, "OP", "swiglu") ? 2 : 1);
    return (double)batch_of(s) * (shape_type_bytes(s, "T") * (m * k + weights) +
                                  (shape_is(s, "TC", "i32") ? 4 : shape_type_bytes(s, "TC")) * m * n);
}

// Which two of four stand where: any of the six pairs, two groups in a byte.
static void make_sparse(SweepCase *c, kiln_gemm_args *args, int64_t n, int64_t k, double deviation)
{
    static const unsigned char pairs[] = { 0 | 1 << 2, 0 | 2 << 2, 0 | 3 << 2, 1 | 2 << 2, 1 | 3 << 2, 2 | 3 << 2 };
    unsigned char *const places = malloc((size_t)(n * k / 8) + 1);
    uint64_t random = 1;
    for (int64_t i = 0; places && i < n * k / 8; i++) {
        const uint64_t x = sweep_random(&random);
        places[i] = (unsigned char)(pairs[x % 6] | pairs[(x >> 32) % 6] << 4);
    }
    args->b = &sweep_normal(c, "b", KILN_BF16, deviation, EXTENTS(1, n, k / 2))->tensor;
    args->b_places = &sweep_made(c, "places", KILN_U8, places, EXTENTS(1, n, k / 8))->tensor;
}

static void prepare_types(SweepCase *c)
{
    kiln_gemm_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t z = batch_of(s), m = shape_get(s, "M"), n = shape_get(s, "N"), k = shape_get(s, "K");
    const kiln_type type = shape_type(s, "T"), type_b = shape_is(s, "OP", "e5m2") ? KILN_E5M2 : type;
    const double deviation = type == KILN_BF16 ? 1 / sqrt((double)k) : 1; // results that an activation does not flatten
    args->a = &(type == KILN_I8 ? sweep_uniform(c, "a", type, -127, 127, EXTENTS(z, m, k))
                                : sweep_normal(c, "a", type, 1, EXTENTS(z, m, k)))
                   ->tensor;
    if (shape_is(s, "OP", "sparse24")) make_sparse(c, args, n, k, deviation);
    else if (type == KILN_I8) args->b = &sweep_uniform(c, "b", type, -127, 127, EXTENTS(z, n, k))->tensor;
    else args->b = &sweep_normal(c, "b", type_b, deviation, EXTENTS(z, n, k))->tensor;
    if (shape_is(s, "OP", "swiglu")) args->up = &sweep_normal(c, "up", type, deviation, EXTENTS(z, n, k))->tensor;
    if (is_scaled(s)) {
        args->a_scales = &sweep_uniform(c, "a_scales", KILN_F32, 0.5, 1.5, EXTENTS(z, m))->tensor;
        args->b_scales = &sweep_uniform(c, "b_scales", KILN_F32, 0.5, 1.5, EXTENTS(z, n))->tensor;
    }
    if (shape_is(s, "OP", "bias_gelu")) args->bias = &sweep_normal(c, "bias", type, 1, EXTENTS(n))->tensor;
    args->activation = args->bias ? KILN_ACTIVATION_GELU : args->up ? KILN_ACTIVATION_SILU : KILN_ACTIVATION_NONE;
    args->precision = shape_is(s, "OP", "tf32")     ? KILN_PRECISION_TF32
                      : shape_is(s, "OP", "tf32x3") ? KILN_PRECISION_TF32X3
                                                    : KILN_PRECISION_F32;
    args->c = &sweep_output(c, "c", shape_is(s, "TC", "i32") ? KILN_I32 : shape_type(s, "TC"), true, EXTENTS(z, m, n))
                   ->tensor;
    args->transpose_b = true;
    SWEEP_WORKSPACE(c, kiln_gemm, args);
}

static void refer_types(SweepCase *c)
{
    const char *const a = sweep_type(c, "a"), *const result = sweep_type(c, "c"),
                      *const scales = is_scaled(&c->shape) ? ", SA=a_scales, SB=b_scales" : "";
    if (shape_is(&c->shape, "OP", "sparse24")) {
        sweep_refer(c, "gemm/sparse_any.tile", "gemm_sparse", "T=%s, TC=%s, W=b, PLACES=places, X=a, C=c, scale=1", a,
                    result);
        return;
    }
    sweep_refer(c, "gemm/any.tile", "gemm",
                "T=%s, U=%s, TC=%s, TB=true, ACT=%d, A=a, B=b, C=c, scale=1, p=1, parts=1%s%s%s", a, sweep_type(c, "b"),
                result, (int)((const kiln_gemm_args *)c->own)->activation, scales,
                sweep_find(c, "bias") ? ", BIAS=bias" : "", sweep_find(c, "up") ? ", UP=up" : "");
}

// Factors of tf32 have ten bits of mantissa.
static double type_slack(const Shape *s) { return shape_is(s, "OP", "tf32") ? 16 : 1; }

const SweepFamily sweep_gemm_types = {
    .name = "gemm-types",
    .about =
        "kiln_gemm of f64, f32, tf32, i8 and both fp8, with scales of rows and columns, activations, batches; peer: cuBLAS, on a CPU oneDNN",
    .ranges = type_ranges,
    .small = type_small,
    .settle = settle_types,
    .operations = type_operations,
    .bytes = type_bytes,
    .prepare = prepare_types,
    .call = call,
    .refer = refer_types,
    .slack_of = type_slack,
};
