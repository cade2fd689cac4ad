// SPDX-License-Identifier: MIT
// sweep_attention.c - families attention, backward and decode: contiguous keys and values.
#include "kiln/ops/attention.h"
#include "sweep.h"

#include <math.h>

// Heads, key heads, head size: Llama 3 8B, 70B and its part on one of 8 devices, 405B; Qwen 3; gpt-oss; Gemma; Llama 2;
// vision encoders; DeepSeek's prompts, whose values are shorter.
#define HEADS                                                                                                           \
    "H/HKV/D/DV: 32/8/128/128 32/8/128/128 64/8/128/128 8/1/128/128 16/2/128/128 40/8/128/128 64/4/128/128 64/8/64/64 " \
    "16/8/256/256 32/32/128/128 12/12/64/64 16/16/64/64"
#define SMALL_HEADS "H/HKV/D/DV: 4/1/64/64 4/4/64/64 8/2/128/128 2/2/32/32"

static const char *const forward_ranges[] = {
    HEADS " 128/128/192/128",
    "B: 1 1 2 4 8 1..64",
    "S/SKV: 512/512 1024/1024 2048/2048 4096/4096 8192/8192 16384/16384 77/4096 256/256 128/8192 1..8192/1..8192 333/333 1000/1000",
    "CAUSAL: true true false",
    "T: bf16 bf16 f16",
    NULL
};
static const char *const forward_small[] = {
    SMALL_HEADS,          "B: 1 2 1..4", "S/SKV: 64/64 128/128 77/300 1..256/1..256 100/100",
    "CAUSAL: true false", "T: bf16 f32", NULL
};
static const char *const backward_ranges[] = {
    HEADS " 128/128/192/128",
    "B: 1 1 2 4 8",
    "S/SKV: 512/512 1024/1024 2048/2048 4096/4096 8192/8192 256/256 1..8192/1..8192 333/333 1000/1000",
    "CAUSAL: true true false",
    "T: bf16 bf16 f16",
    NULL
};
static const char *const decode_ranges[] = { HEADS, "B: 1 1 4 8 16 32 64 128 1..256",
                                             "S: 512 1000 1024 2048 4096 8192 16384 32768 131072 1..32768 1..8192",
                                             "T: bf16 bf16 f16", NULL };
static const char *const decode_small[] = { SMALL_HEADS, "B: 1 4 1..8", "S: 128 1000 1..2048", "T: bf16 f32", NULL };

static double get(const Shape *s, const char *name) { return (double)shape_get(s, name); }

// A peer's causal mask may begin at the top; with as many queries as keys all agree.
static void settle(Shape *s)
{
    if (shape_get(s, "CAUSAL")) shape_set(s, "SKV", shape_get(s, "S"));
}

static double forward_operations(const Shape *s)
{
    const double pairs = get(s, "S") * (shape_get(s, "CAUSAL") ? (get(s, "SKV") + 1) / 2 : get(s, "SKV"));
    return 2.0 * get(s, "B") * get(s, "H") * pairs * (get(s, "D") + get(s, "DV"));
}

static double forward_bytes(const Shape *s)
{
    const double heads = get(s, "H") * get(s, "S") + get(s, "HKV") * get(s, "SKV");
    return shape_type_bytes(s, "T") * get(s, "B") * heads * (get(s, "D") + get(s, "DV"));
}

// ---- forward

typedef struct Sizes {
    int64_t B, S, SKV, H, HKV, D, DV;
    kiln_type type;
    bool causal;
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    return (Sizes){ shape_get(s, "B"),  shape_get(s, "S"),   shape_get(s, "SKV"),
                    shape_get(s, "H"),  shape_get(s, "HKV"), shape_get(s, "D"),
                    shape_get(s, "DV"), shape_type(s, "T"),  shape_get(s, "CAUSAL") != 0 };
}

static void make_forward(SweepCase *c, kiln_attention_args *args, bool lse, bool checked)
{
    const Sizes x = sizes_of(&c->shape);
    args->q = &sweep_normal(c, "q", x.type, 1, EXTENTS(x.B, x.S, x.H, x.D))->tensor;
    args->k = &sweep_normal(c, "k", x.type, 1, EXTENTS(x.B, x.SKV, x.HKV, x.D))->tensor;
    args->v = &sweep_normal(c, "v", x.type, 1, EXTENTS(x.B, x.SKV, x.HKV, x.DV))->tensor;
    args->out = &sweep_output(c, "out", x.type, checked, EXTENTS(x.B, x.S, x.H, x.DV))->tensor;
    if (lse) args->lse = &sweep_output(c, "lse", KILN_F32, false, EXTENTS(x.B, x.H, x.S))->tensor;
    args->causal = x.causal;
}

static void prepare_forward(SweepCase *c)
{
    kiln_attention_args *const args = sweep_own(c, sizeof *args);
    make_forward(c, args, false, true);
    SWEEP_WORKSPACE(c, kiln_attention_forward, args);
}
static kiln_status call_forward(SweepCase *c) { return kiln_attention_forward(c->ops, NULL, c->own); }

static const char *truth(bool is) { return is ? "true" : "false"; }

static void refer_forward(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    sweep_refer(c, "attention/forward.tile", "attention_forward",
                "T=%s, D=%d, DV=%d, CAUSAL=%s, Q=q, K=k, V=v, O=out, scale=%.17g", sweep_type(c, "q"), (int)x.D,
                (int)x.DV, truth(x.causal), 1 / sqrt((double)x.D));
}

const SweepFamily sweep_attention = {
    .name = "attention",
    .about = "kiln_attention_forward; peer: the fastest of cuDNN and FlashAttention through PyTorch",
    .ranges = forward_ranges,
    .small = forward_small,
    .settle = settle,
    .operations = forward_operations,
    .bytes = forward_bytes,
    .prepare = prepare_forward,
    .call = call_forward,
    .refer = refer_forward,
};

// ---- backward: of O and LSE as the forward call gives them

typedef struct BackwardArgs {
    kiln_attention_args forward;
    kiln_attention_backward_args backward;
} BackwardArgs;

static void prepare_backward(SweepCase *c)
{
    BackwardArgs *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    make_forward(c, &args->forward, true, false);
    kiln_attention_backward_args *const back = &args->backward;
    *back = (kiln_attention_backward_args){ .q = args->forward.q,
                                            .k = args->forward.k,
                                            .v = args->forward.v,
                                            .out = args->forward.out,
                                            .lse = args->forward.lse,
                                            .causal = x.causal };
    back->dout = &sweep_normal(c, "dout", x.type, 1, EXTENTS(x.B, x.S, x.H, x.DV))->tensor;
    back->dq = &sweep_output(c, "dq", x.type, true, EXTENTS(x.B, x.S, x.H, x.D))->tensor;
    back->dk = &sweep_output(c, "dk", x.type, true, EXTENTS(x.B, x.SKV, x.HKV, x.D))->tensor;
    back->dv = &sweep_output(c, "dv", x.type, true, EXTENTS(x.B, x.SKV, x.HKV, x.DV))->tensor;
    sweep_between(c, "base", KILN_F32, EXTENTS(x.B, x.H, x.S));
    sweep_between(c, "delta", KILN_F32, EXTENTS(x.B, x.H, x.S));
    SWEEP_WORKSPACE(c, kiln_attention_backward, back);
    if (!c->status) sweep_try(c, kiln_attention_forward(c->ops, NULL, &args->forward));
}

static kiln_status call_backward(SweepCase *c)
{
    return kiln_attention_backward(c->ops, NULL, &((BackwardArgs *)c->own)->backward);
}

// Sums over a row of O and dO first, all of them; then rows of dQ, and of dK and dV.
static void refer_backward(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    const double scale = 1 / sqrt((double)x.D);
    const char *const type = sweep_type(c, "q"), *const causal = truth(x.causal);
    sweep_refer_all(c, "attention/backward.tile", "attention_backward_rows",
                    "T=%s, D=%d, DV=%d, O=out, dO=dout, LSE=lse, Base=base, Delta=delta, scale=%.17g", type, (int)x.D,
                    (int)x.DV, scale);
    sweep_refer(c, "attention/backward.tile", "attention_backward_dq",
                "T=%s, D=%d, DV=%d, CAUSAL=%s, Q=q, K=k, V=v, dO=dout, Base=base, Delta=delta, dQ=dq, scale=%.17g",
                type, (int)x.D, (int)x.DV, causal, scale);
    sweep_refer(
        c, "attention/backward.tile", "attention_backward_main",
        "T=%s, D=%d, DV=%d, CAUSAL=%s, Q=q, K=k, V=v, dO=dout, Base=base, Delta=delta, dK=dk, dV=dv, scale=%.17g", type,
        (int)x.D, (int)x.DV, causal, scale);
}

// Over a key alone all gradients of q are 0, and say nothing of how large an error may be.
static void settle_backward(Shape *s)
{
    if (shape_get(s, "S") < 16) shape_set(s, "S", 16);
    if (shape_get(s, "SKV") < 16) shape_set(s, "SKV", 16);
    settle(s);
}

static double backward_operations(const Shape *s) { return 2.5 * forward_operations(s); }
static double backward_bytes(const Shape *s) { return 3 * forward_bytes(s); }

const SweepFamily sweep_backward = {
    .name = "backward",
    .about = "kiln_attention_backward; peer: the fastest of cuDNN and FlashAttention through PyTorch",
    .ranges = backward_ranges,
    .small = forward_small,
    .settle = settle_backward,
    .operations = backward_operations,
    .bytes = backward_bytes,
    .prepare = prepare_backward,
    .call = call_backward,
    .refer = refer_backward,
    .samples = 16,
    .slack = 2,
};

// ---- decoding

static double decode_operations(const Shape *s)
{
    (void)s;
    return 0; // bound by memory
}

static double decode_bytes(const Shape *s)
{
    return shape_type_bytes(s, "T") * get(s, "B") * (get(s, "H") + get(s, "S") * get(s, "HKV")) *
           (get(s, "D") + get(s, "DV"));
}

static void prepare_decode(SweepCase *c)
{
    kiln_attention_decode_args *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    args->q = &sweep_normal(c, "q", x.type, 1, EXTENTS(x.B, x.H, x.D))->tensor;
    args->k = &sweep_normal(c, "k", x.type, 1, EXTENTS(x.B, x.S, x.HKV, x.D))->tensor;
    args->v = &sweep_normal(c, "v", x.type, 1, EXTENTS(x.B, x.S, x.HKV, x.DV))->tensor;
    args->out = &sweep_output(c, "out", x.type, true, EXTENTS(x.B, x.H, x.DV))->tensor;
    SWEEP_WORKSPACE(c, kiln_attention_decode, args);
}

static kiln_status call_decode(SweepCase *c) { return kiln_attention_decode(c->ops, NULL, c->own); }

static void refer_decode(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    sweep_refer(c, "attention/decode.tile", "flash_decode",
                "T=%s, D=%d, DV=%d, G=%d, Q=q, K=k, V=v, O=out, splits=1, scale=%.17g", sweep_type(c, "q"), (int)x.D,
                (int)x.DV, (int)(x.H / x.HKV), 1 / sqrt((double)x.D));
}

const SweepFamily sweep_decode = {
    .name = "decode",
    .about =
        "kiln_attention_decode, one query of each request over a contiguous cache; peer: the fastest of cuDNN and FlashAttention "
        "through PyTorch, and FlashInfer",
    .ranges = decode_ranges,
    .small = decode_small,
    .operations = decode_operations,
    .bytes = decode_bytes,
    .prepare = prepare_decode,
    .call = call_decode,
    .refer = refer_decode,
};
