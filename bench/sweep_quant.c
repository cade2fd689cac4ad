// SPDX-License-Identifier: MIT
// sweep_quant.c - family quantised: kiln_quantised_gemm with weights of 4 and 8 bits in the library's layout.
#include "kiln/ops/quant.h"
#include "sweep.h"

static const char *const ranges[] = {
    "M: 1 1 2 4 8 16 32 64 128 256 1024 2048 4096 1..64 1..4096",
    // the projections of family gemm whose K is whole groups
    "N/K: 6144/4096 4096/4096 28672/4096 4096/14336 10240/8192 8192/8192 8192/28672 24576/4096 4096/12288 "
    "10240/5120 5120/8192 2112/7168 24576/1536 32768/512 7168/16384 36864/7168 4096/7168 7168/2048 2880/4096 1..8192/4096",
    "FORMAT/G/T: int4/128/f16 int4/128/f16 int4/64/f16 int4/128/bf16 mxfp4/32/bf16 fp8_block/128/e4m3 w8a8/0/i8", NULL
};
static const char *const small[] = {
    "M: 1 4 16 33 64", "N/K: 256/512 100/256 512/1024",
    "FORMAT/G/T: int4/128/f16 int4/128/bf16 int4/32/bf16 mxfp4/32/bf16 fp8_block/128/e4m3 w8a8/0/i8", NULL
};

typedef struct Sizes {
    int64_t M, N, K, G;
    bool int4, mxfp4, by_blocks;
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    return (Sizes){ shape_get(s, "M"),
                    shape_get(s, "N"),
                    shape_get(s, "K"),
                    shape_get(s, "G"),
                    shape_is(s, "FORMAT", "int4"),
                    shape_is(s, "FORMAT", "mxfp4"),
                    shape_is(s, "FORMAT", "fp8_block") };
}

static double operations(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return x.M <= 16 ? 0 : 2.0 * (double)x.M * (double)x.N * (double)x.K;
}

static double bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    const double weights = (double)(x.N * x.K), groups = x.G ? weights / (double)x.G : 0;
    const double packed = x.int4 ? weights / 2 + 3 * groups : x.mxfp4 ? weights / 2 + groups : weights;
    return packed + (double)(x.M * x.K) * shape_type_bytes(s, "T") + 2.0 * (double)(x.M * x.N);
}

static void make_weights_of_4_bits(SweepCase *c, kiln_quantised_gemm_args *args, const Sizes *x)
{
    const int64_t groups = x->K / x->G;
    args->codes = &sweep_uniform(c, "codes", KILN_U8, 0, 255, EXTENTS(x->N, x->K / 2))->tensor;
    if (x->mxfp4) {
        args->scales = &sweep_uniform(c, "scales", KILN_U8, 115, 122, EXTENTS(x->N, groups))->tensor;
    } else {
        args->scales =
            &sweep_uniform(c, "scales", shape_type(&c->shape, "T"), 0.001, 0.011, EXTENTS(x->N, groups))->tensor;
        args->zeros = &sweep_uniform(c, "zeros", KILN_U8, 0, 15, EXTENTS(x->N, groups))->tensor;
    }
}

static void make_weights_of_8_bits(SweepCase *c, kiln_quantised_gemm_args *args, const Sizes *x)
{
    const int64_t blocks = x->K / 128;
    if (x->by_blocks) {
        args->codes = &sweep_normal(c, "codes", KILN_E4M3, 1, EXTENTS(x->N, x->K))->tensor;
        args->scales = &sweep_uniform(c, "scales", KILN_F32, 0.5, 1.5, EXTENTS((x->N + 127) / 128, blocks))->tensor;
        args->a_scales = &sweep_uniform(c, "a_scales", KILN_F32, 0.5, 1.5, EXTENTS(x->M, blocks))->tensor;
    } else {
        args->codes = &sweep_uniform(c, "codes", KILN_I8, -127, 127, EXTENTS(x->N, x->K))->tensor;
        args->scales = &sweep_uniform(c, "scales", KILN_F32, 0.001, 0.01, EXTENTS(x->N))->tensor;
        args->a_scales = &sweep_uniform(c, "a_scales", KILN_F32, 0.001, 0.01, EXTENTS(x->M))->tensor;
    }
}

static void prepare(SweepCase *c)
{
    kiln_quantised_gemm_args *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    const kiln_type type = shape_type(&c->shape, "T");
    args->format = x.int4        ? KILN_QUANT_INT4
                   : x.mxfp4     ? KILN_QUANT_MXFP4
                   : x.by_blocks ? KILN_QUANT_FP8_BLOCK
                                 : KILN_QUANT_W8A8;
    args->group = (int)x.G;
    args->a = &(type == KILN_I8 ? sweep_uniform(c, "a", type, -127, 127, EXTENTS(x.M, x.K))
                                : sweep_normal(c, "a", type, 1, EXTENTS(x.M, x.K)))
                   ->tensor;
    if (x.int4 || x.mxfp4) make_weights_of_4_bits(c, args, &x);
    else make_weights_of_8_bits(c, args, &x);
    args->c = &sweep_output(c, "c", type == KILN_F16 ? KILN_F16 : KILN_BF16, true, EXTENTS(x.M, x.N))->tensor;
    SWEEP_WORKSPACE(c, kiln_quantised_gemm, args);
}

static kiln_status call(SweepCase *c) { return kiln_quantised_gemm(c->ops, NULL, c->own); }

static void refer(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    const char *const type = sweep_type(c, "a"), *const result = sweep_type(c, "c");
    char zeros[64] = "";
    const int n = (int)x.N, blocks = (int)(x.K / 128), groups = x.G ? 128 / (int)x.G : 0;
    if (x.int4) snprintf(zeros, sizeof zeros, ", Z=zeros[%d][%d][%d]", n, blocks, groups);
    if (x.by_blocks)
        sweep_refer(c, "quant/fp8_block.tile", "fp8_block", "TC=%s, A=a, W=codes, SA=a_scales, SW=scales, C=c", result);
    else if (!x.int4 && !x.mxfp4)
        sweep_refer(c, "quant/bytes.tile", "quant_by_bytes",
                    "TC=%s, A=a, W=codes[%d][%d][128], SA=a_scales, SW=scales, C=c", result, n, blocks);
    else
        sweep_refer(c, "quant/weights.tile", "quant_matmul",
                    "T=%s, TC=%s, Q=%s, TS=%s, G=%d, A=a, W=codes[%d][%d][128], S=scales[%d][%d][%d], C=c, parts=1, "
                    "columns=%d%s",
                    type, result, x.mxfp4 ? "e2m1" : "u4", sweep_type(c, "scales"), (int)x.G, n, blocks, n, blocks,
                    groups, n, zeros);
}

const SweepFamily sweep_quantised = {
    .name = "quantised",
    .about =
        "kiln_quantised_gemm of int4 with zeros, mxfp4, fp8 in blocks and int8; peer: gemlite, cuBLAS, on a CPU PyTorch's own",
    .ranges = ranges,
    .small = small,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
    .slack = 2,
};
