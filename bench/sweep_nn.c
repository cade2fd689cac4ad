// SPDX-License-Identifier: MIT
// sweep_nn.c - family nn: small operators, all bound by memory. OP says which; M rows of N elements.
#include "kiln/ops/nn.h"
#include "sweep.h"

#include <stdlib.h>

static const char *const ranges[] = {
    // hidden sizes of Llama, Qwen, DeepSeek and gpt-oss; their MLPs; vocabularies
    "OP/N: rms_norm/4096 rms_norm/2880 rms_norm/7168 rms_norm/1..16384 add_rms_norm/4096 add_rms_norm/5120 add_rms_norm/8192 "
    "add_rms_norm/7168 layer_norm/4096 layer_norm/768..8192 swiglu/14336 swiglu/2880 swiglu/28672 swiglu/1..16384 "
    "softmax/4096 softmax/32768 softmax/128256 cross_entropy/128256 cross_entropy/151936 cross_entropy/201088 "
    "cast_fp8/4096 cast_fp8/7168 rotary/4096 rotary/8192",
    "M: 1 16 64 256 1024 4096 16384 32768 1..64 1..16384", "T: bf16 bf16 f16", NULL
};
static const char *const small[] = {
    "OP/N: rms_norm/256 rms_norm/1..600 add_rms_norm/512 layer_norm/384 swiglu/512 softmax/1000 cross_entropy/3001 cast_fp8/512 rotary/512",
    "M: 1 16 100 1..64", "T: bf16 f32", NULL
};

enum { HEAD = 128 }; // of rotary embedding

static double operations(const Shape *s)
{
    (void)s;
    return 0;
}

static double bytes(const Shape *s)
{
    const double each = shape_type_bytes(s, "T"), n = (double)shape_get(s, "M") * (double)shape_get(s, "N");
    if (shape_is(s, "OP", "add_rms_norm")) return 4 * each * n;
    if (shape_is(s, "OP", "swiglu")) return 3 * each * n;
    if (shape_is(s, "OP", "cross_entropy")) return each * n;
    if (shape_is(s, "OP", "cast_fp8")) return (each + 1) * n;
    return 2 * each * n;
}

typedef union NnArgs {
    kiln_norm_args norm;
    kiln_activate_args activate;
    kiln_softmax_args softmax;
    kiln_cross_entropy_args cross_entropy;
    kiln_cast_fp8_args cast;
    kiln_rotary_embedding_args rotary;
} NnArgs;

static void prepare_norm(SweepCase *c, kiln_norm_args *args, kiln_type type, int64_t m, int64_t n)
{
    args->x = &sweep_normal(c, "x", type, 1, EXTENTS(m, n))->tensor;
    args->weight = &sweep_normal(c, "weight", type, 1, EXTENTS(n))->tensor;
    if (shape_is(&c->shape, "OP", "layer_norm")) args->bias = &sweep_normal(c, "bias", type, 1, EXTENTS(n))->tensor;
    if (shape_is(&c->shape, "OP", "add_rms_norm")) {
        args->residual = &sweep_normal(c, "residual", type, 1, EXTENTS(m, n))->tensor;
        args->sum = &sweep_output(c, "sum", type, true, EXTENTS(m, n))->tensor;
    }
    args->out = &sweep_output(c, "out", type, true, EXTENTS(m, n))->tensor;
    args->eps = 1e-6;
}

static void prepare_rotary(SweepCase *c, kiln_rotary_embedding_args *args, kiln_type type, int64_t m, int64_t n)
{
    int32_t *const positions = sweep_integers(c, m);
    for (int64_t i = 0; positions && i < m; i++) positions[i] = (int32_t)(i * 3);
    args->positions = &sweep_made(c, "positions", KILN_I32, positions, EXTENTS(m))->tensor;
    args->x = &sweep_in_place(c, sweep_normal(c, "x", type, 1, EXTENTS(m, n / HEAD, HEAD)))->tensor;
}

static void prepare_rest(SweepCase *c, NnArgs *args, kiln_type type, int64_t m, int64_t n)
{
    if (shape_is(&c->shape, "OP", "swiglu")) {
        args->activate.gate = &sweep_normal(c, "gate", type, 1, EXTENTS(m, n))->tensor;
        args->activate.up = &sweep_normal(c, "up", type, 1, EXTENTS(m, n))->tensor;
        args->activate.out = &sweep_output(c, "out", type, true, EXTENTS(m, n))->tensor;
        args->activate.activation = KILN_ACTIVATION_SILU;
    } else if (shape_is(&c->shape, "OP", "softmax")) {
        args->softmax.x = &sweep_normal(c, "x", type, 1, EXTENTS(m, n))->tensor;
        args->softmax.out = &sweep_output(c, "out", type, true, EXTENTS(m, n))->tensor;
    } else if (shape_is(&c->shape, "OP", "cross_entropy")) {
        args->cross_entropy.logits = &sweep_normal(c, "x", type, 1, EXTENTS(m, n))->tensor;
        args->cross_entropy.labels = &sweep_uniform(c, "labels", KILN_I32, 0, (double)(n - 1), EXTENTS(m))->tensor;
        args->cross_entropy.loss = &sweep_output(c, "loss", KILN_F32, true, EXTENTS(m))->tensor;
        args->cross_entropy.lse = &sweep_output(c, "lse", KILN_F32, true, EXTENTS(m))->tensor;
    } else {
        args->cast.x = &sweep_normal(c, "x", type, 1, EXTENTS(m, n))->tensor;
        args->cast.out = &sweep_output(c, "out", KILN_E4M3, true, EXTENTS(m, n))->tensor;
        args->cast.scales = &sweep_output(c, "scales", KILN_F32, true, EXTENTS(m, (n + 127) / 128))->tensor;
        args->cast.group = 128;
    }
}

static void prepare(SweepCase *c)
{
    NnArgs *const args = sweep_own(c, sizeof *args);
    const int64_t m = shape_get(&c->shape, "M"), n = shape_get(&c->shape, "N");
    const kiln_type type = shape_type(&c->shape, "T");
    const bool norm = shape_is(&c->shape, "OP", "rms_norm") || shape_is(&c->shape, "OP", "add_rms_norm");
    if (norm || shape_is(&c->shape, "OP", "layer_norm")) prepare_norm(c, &args->norm, type, m, n);
    else if (shape_is(&c->shape, "OP", "rotary")) prepare_rotary(c, &args->rotary, type, m, n);
    else prepare_rest(c, args, type, m, n);
}

static kiln_status call(SweepCase *c)
{
    const NnArgs *const args = c->own;
    if (shape_is(&c->shape, "OP", "layer_norm")) return kiln_layer_norm(c->ops, NULL, &args->norm);
    if (shape_is(&c->shape, "OP", "swiglu")) return kiln_activate(c->ops, NULL, &args->activate);
    if (shape_is(&c->shape, "OP", "softmax")) return kiln_softmax(c->ops, NULL, &args->softmax);
    if (shape_is(&c->shape, "OP", "cross_entropy")) return kiln_cross_entropy(c->ops, NULL, &args->cross_entropy);
    if (shape_is(&c->shape, "OP", "cast_fp8")) return kiln_cast_fp8(c->ops, NULL, &args->cast);
    if (shape_is(&c->shape, "OP", "rotary")) return kiln_rotary_embedding(c->ops, NULL, &args->rotary);
    return kiln_rms_norm(c->ops, NULL, &args->norm);
}

static void refer_norm(SweepCase *c)
{
    const bool center = shape_is(&c->shape, "OP", "layer_norm");
    sweep_refer(c, "norm/fused.tile", "norm", "T=%s, CENTER=%s, X=x, W=weight, Y=out, eps=1e-6%s%s", sweep_type(c, "x"),
                center ? "true" : "false", center ? ", B=bias" : "",
                sweep_find(c, "residual") ? ", RES=residual, SUM=sum" : "");
}

static void refer(SweepCase *c)
{
    const Shape *const s = &c->shape;
    const char *const type = kiln_type_name(shape_type(s, "T"));
    if (shape_is(s, "OP", "rotary"))
        sweep_refer(
            c, "nn/rotary.tile", "rotary",
            "T=%s, D=%d, X=x, POSITION=positions, base=10000, scale=1, low=1, high=1, extra=1, magnitude=1, trained=1",
            type, HEAD);
    else if (shape_is(s, "OP", "swiglu"))
        sweep_refer(c, "nn/activation.tile", "gated", "T=%s, G=gate, U=up, Y=out", type);
    else if (shape_is(s, "OP", "softmax"))
        sweep_refer(c, "norm/softmax.tile", "softmax", "T=%s, TY=%s, X=x, Y=out", type, type);
    else if (shape_is(s, "OP", "cross_entropy"))
        sweep_refer(c, "nn/cross_entropy.tile", "cross_entropy", "T=%s, X=x, LABEL=labels, LOSS=loss, LSE=lse", type);
    else if (shape_is(s, "OP", "cast_fp8"))
        sweep_refer(c, "cast/fp8.tile", "cast_per_group", "T=%s, X=x, Y=out, Scale=scales", type);
    else refer_norm(c);
}

const SweepFamily sweep_nn = {
    .name = "nn",
    .about =
        "norms, SwiGLU, softmax, cross entropy, casts to fp8, rotary embedding; peer: the fastest of quack, liger and PyTorch",
    .ranges = ranges,
    .small = small,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
};
