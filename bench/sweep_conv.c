// SPDX-License-Identifier: MIT
// sweep_conv.c - families conv and short-conv: convolutions of images, and the causal ones of W tokens before
// layers with a state.
#include "kiln/ops/nn.h"
#include "kiln/ops/recurrent.h"
#include "sweep.h"

// ---- images, channels last; the filter has KS x KS places, and pads so that a stride of 1 keeps the size

static const char *const ranges[] = {
    // ResNet 50, the decoder of an image model's VAE, patches of a vision transformer
    "HW/C/F/KS/STRIDE: 56/64/64/3/1 56/64/64/1/1 56/64/256/1/1 28/128/128/3/1 28/512/128/1/1 14/256/256/3/1 14/1024/256/1/1 7/512/512/3/1 "
    "56/128/128/3/2 224/3/64/7/2 64/512/512/3/1 128/256/256/3/1 256/128/128/3/1 64/128/128/3/1 32..128/32..256/32..256/3/1",
    "B: 1 8 32 128 1..128", "T: bf16 f16", NULL
};
static const char *const small[] = {
    "HW/C/F/KS/STRIDE: 14/32/32/3/1 9/16/48/1/1 12/8/16/3/2 16/3/8/7/2 10/1..40/1..40/3/1", "B: 1 3", "T: bf16 f32",
    NULL
};

typedef struct Sizes {
    int64_t B, HW, C, F, KS, stride, pad, out;
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    Sizes x = { shape_get(s, "B"),
                shape_get(s, "HW"),
                shape_get(s, "C"),
                shape_get(s, "F"),
                shape_get(s, "KS"),
                shape_get(s, "STRIDE"),
                0,
                0 };
    x.pad = (x.KS - 1) / 2;
    x.out = (x.HW + 2 * x.pad - x.KS) / x.stride + 1;
    return x;
}

static double operations(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return 2.0 * (double)(x.B * x.out * x.out) * (double)(x.F * x.C * x.KS * x.KS);
}

static double bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    const double images = (double)x.B * (double)(x.HW * x.HW * x.C + x.out * x.out * x.F);
    return shape_type_bytes(s, "T") * (images + (double)(x.KS * x.KS * x.C * x.F));
}

static void prepare(SweepCase *c)
{
    kiln_conv2d_args *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    const kiln_type type = shape_type(&c->shape, "T");
    args->x = &sweep_normal(c, "x", type, 1, EXTENTS(x.B, x.HW, x.HW, x.C))->tensor;
    args->filter = &sweep_normal(c, "filter", type, 1, EXTENTS(x.KS, x.KS, x.C, x.F))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(x.B, x.out, x.out, x.F))->tensor;
    args->stride = x.stride;
    args->pad = x.pad;
}

static kiln_status call(SweepCase *c) { return kiln_conv2d(c->ops, NULL, c->own); }

static void refer(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    sweep_refer(c, "conv/conv2d.tile", "conv2d", "T=%s, X=x, Wt=filter, Y=out, stride=%d, dilation=1, pad=%d",
                sweep_type(c, "x"), (int)x.stride, (int)x.pad);
}

const SweepFamily sweep_conv = {
    .name = "conv",
    .about = "kiln_conv2d of images with their channels last; peer: cuDNN, on a CPU oneDNN, through PyTorch",
    .ranges = ranges,
    .small = small,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
};

// ---- short causal convolutions, with silu

static const char *const short_ranges[] = { "D: 8192 4096 10240 5120 2048 256..12288",
                                            "B/S: 1/2048 1/8192 1/32768 8/2048 4/4096 16/1024 1/1..16384", "W: 4 4 3",
                                            "T: bf16", NULL };
static const char *const short_small[] = { "D: 64 100 256", "B/S: 1/64 2/33 1/1..200", "W: 4 2", "T: bf16 f32", NULL };

static double short_operations(const Shape *s)
{
    (void)s;
    return 0;
}

static double short_bytes(const Shape *s)
{
    return 2 * shape_type_bytes(s, "T") * (double)shape_get(s, "B") * (double)shape_get(s, "S") *
           (double)shape_get(s, "D");
}

static void prepare_short(SweepCase *c)
{
    kiln_causal_conv_args *const args = sweep_own(c, sizeof *args);
    const int64_t B = shape_get(&c->shape, "B"), S = shape_get(&c->shape, "S"), D = shape_get(&c->shape, "D");
    const kiln_type type = shape_type(&c->shape, "T");
    args->x = &sweep_normal(c, "x", type, 1, EXTENTS(B, S, D))->tensor;
    args->filter = &sweep_normal(c, "filter", type, 1, EXTENTS(D, shape_get(&c->shape, "W")))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(B, S, D))->tensor;
    args->activation = KILN_ACTIVATION_SILU;
}

static kiln_status call_short(SweepCase *c) { return kiln_causal_conv(c->ops, NULL, c->own); }

static void refer_short(SweepCase *c)
{
    sweep_refer(c, "linear/causal_conv.tile", "causal_conv", "T=%s, W=%d, X=x, Filter=filter, Y=out",
                sweep_type(c, "x"), (int)shape_get(&c->shape, "W"));
}

const SweepFamily sweep_short_conv = {
    .name = "short-conv",
    .about = "kiln_causal_conv of 2 to 4 tokens with silu; peer: PyTorch's convolution of groups, fla",
    .ranges = short_ranges,
    .small = short_small,
    .operations = short_operations,
    .bytes = short_bytes,
    .prepare = prepare_short,
    .call = call_short,
    .refer = refer_short,
};
