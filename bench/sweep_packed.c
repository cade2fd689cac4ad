// SPDX-License-Identifier: MIT
// sweep_packed.c - families packed and packed-gradients: attention over ragged sequences that stand one behind the other,
// the longest of S tokens, the others from half of S on (shape_length).
#include "kiln/ops/attention.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADS                                                                                                            \
    "H/HKV/D/DV: 32/8/128/128 32/8/128/128 64/8/128/128 8/1/128/128 40/8/128/128 64/8/64/64 16/8/256/256 32/32/128/128 " \
    "12/12/64/64 128/128/192/128"
#define SMALL_HEADS "H/HKV/D/DV: 4/1/64/64 4/4/64/64 8/2/128/128"

static const char *const ranges[] = { HEADS,
                                      "B: 1 2 4 8 16 64 1..64",
                                      "S: 256 512 1000 2048 4096 8192 1..8192",
                                      "CAUSAL: true true true false",
                                      "WINDOW: 0 0 0 128 1024 4096",
                                      "SOFTCAP: 0 0 0 0 30",
                                      "T: bf16 bf16 f16",
                                      NULL };
static const char *const small[] = { SMALL_HEADS,      "B: 1 2 1..4",     "S: 64 100 1..200", "CAUSAL: true true false",
                                     "WINDOW: 0 0 30", "SOFTCAP: 0 0 30", "T: bf16 f32",      NULL };
static const char *const gradient_ranges[] = { HEADS,
                                               "B: 1 2 4 8 16 1..32",
                                               "S: 512 1000 2048 4096 8192 16..8192",
                                               "CAUSAL: true true true false",
                                               "WINDOW: 0 0 0 128 1024 4096",
                                               "T: bf16 bf16 f16",
                                               NULL };
static const char *const gradient_small[] = {
    SMALL_HEADS, "B: 1 2 1..4", "S: 64 100 16..200", "CAUSAL: true true false", "WINDOW: 0 0 30", "T: bf16 f32", NULL
};

typedef struct Sizes {
    int64_t B, S, H, HKV, D, DV, window, rows;
    kiln_type type;
    bool causal;
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    Sizes x = { .B = shape_get(s, "B"),
                .S = shape_get(s, "S"),
                .H = shape_get(s, "H"),
                .HKV = shape_get(s, "HKV"),
                .D = shape_get(s, "D"),
                .DV = shape_get(s, "DV"),
                .window = shape_get(s, "WINDOW"),
                .type = shape_type(s, "T"),
                .causal = shape_get(s, "CAUSAL") != 0 };
    for (int64_t b = 0; b < x.B; b++) x.rows += shape_length(x.S, b);
    return x;
}

// A window is causal.
static void settle(Shape *s)
{
    if (!shape_get(s, "CAUSAL")) shape_set(s, "WINDOW", 0);
}

static double pairs_of(const Sizes *x)
{
    double sum = 0;
    for (int64_t b = 0; b < x->B; b++) {
        const double n = (double)shape_length(x->S, b), w = x->window ? fmin((double)x->window, n) : n;
        sum += x->causal ? n * w - w * (w - 1) / 2 : n * n;
    }
    return sum;
}

static double operations(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return 2 * pairs_of(&x) * (double)(x.H * (x.D + x.DV));
}

static double bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return shape_type_bytes(s, "T") * (double)(x.rows * (x.H + x.HKV) * (x.D + x.DV));
}

typedef struct Args {
    kiln_attention_varlen_args forward;
    kiln_attention_backward_varlen_args backward;
} Args;

static Args *make(SweepCase *c, bool lse)
{
    Args *const args = sweep_own(c, sizeof *args);
    kiln_attention_varlen_args *const a = &args->forward;
    const Sizes x = sizes_of(&c->shape);
    int32_t *const offsets = sweep_integers(c, x.B + 1);
    for (int64_t b = 0; offsets && b < x.B; b++) offsets[b + 1] = offsets[b] + (int32_t)shape_length(x.S, b);
    a->q = &sweep_normal(c, "q", x.type, 1, EXTENTS(x.rows, x.H, x.D))->tensor;
    a->k = &sweep_normal(c, "k", x.type, 1, EXTENTS(x.rows, x.HKV, x.D))->tensor;
    a->v = &sweep_normal(c, "v", x.type, 1, EXTENTS(x.rows, x.HKV, x.DV))->tensor;
    a->q_offsets = a->k_offsets = &sweep_made(c, "offsets", KILN_I32, offsets, EXTENTS(x.B + 1))->tensor;
    a->out = &sweep_output(c, "out", x.type, !lse, EXTENTS(x.rows, x.H, x.DV))->tensor;
    if (lse) a->lse = &sweep_output(c, "lse", KILN_F32, false, EXTENTS(x.H, x.rows))->tensor;
    a->max_queries = x.S;
    a->causal = x.causal;
    a->window = x.window;
    a->softcap = (double)shape_get(&c->shape, "SOFTCAP");
    return args;
}

static void prepare(SweepCase *c) { make(c, false); }
static kiln_status call(SweepCase *c)
{
    return kiln_attention_forward_varlen(c->ops, NULL, &((Args *)c->own)->forward);
}

static const char *truth(bool is) { return is ? "true" : "false"; }

static void refer(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    const int cap = (int)shape_get(&c->shape, "SOFTCAP");
    const double scale = 1 / sqrt((double)x.D);
    if (cap)
        sweep_refer(
            c, "attention/sink.tile", "attention_sink",
            "T=%s, D=%d, DV=%d, CAUSAL=%s, W=%d, CAP=true, Q=q, K=k, V=v, QOffset=offsets, KOffset=offsets, O=out, "
            "max_queries=%d, scale=%.17g, cap=%d",
            sweep_type(c, "q"), (int)x.D, (int)x.DV, truth(x.causal), (int)x.window, (int)x.S, scale, cap);
    else
        sweep_refer(c, "attention/varlen.tile", "attention_varlen",
                    "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d, Q=q, K=k, V=v, QOffset=offsets, KOffset=offsets, O=out, "
                    "max_queries=%d, scale=%.17g",
                    sweep_type(c, "q"), (int)x.D, (int)x.DV, truth(x.causal), (int)x.window, (int)x.S, scale);
}

const SweepFamily sweep_packed = {
    .name = "packed",
    .about = "kiln_attention_forward_varlen; peer: the fastest of FlashAttention through PyTorch and FlashInfer",
    .ranges = ranges,
    .small = small,
    .settle = settle,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
};

// ---- gradients, of O and LSE as the forward call gives them

enum { RUN = 256 }; // keys, as attention_varlen_backward_main takes them

// The keys of all sequences in runs: the first, how many from there on, the first query, how many.
static void make_runs(SweepCase *c, const Sizes *x)
{
    const int64_t most = x->rows / RUN + x->B;
    int32_t *const runs = sweep_integers(c, most * 4);
    int64_t n = 0, first = 0;
    for (int64_t b = 0; runs && b < x->B; first += shape_length(x->S, b++))
        for (int64_t i = 0; i < shape_length(x->S, b); i += RUN, n++) {
            runs[n * 4] = (int32_t)(first + i);
            runs[n * 4 + 1] = (int32_t)(shape_length(x->S, b) - i);
            runs[n * 4 + 2] = (int32_t)first;
            runs[n * 4 + 3] = (int32_t)shape_length(x->S, b);
        }
    sweep_made(c, "runs", KILN_I32, runs, EXTENTS(most, 4));
}

static void prepare_gradients(SweepCase *c)
{
    Args *const args = make(c, true);
    const Sizes x = sizes_of(&c->shape);
    kiln_attention_backward_varlen_args *const back = &args->backward;
    *back = (kiln_attention_backward_varlen_args){ .q = args->forward.q,
                                                   .k = args->forward.k,
                                                   .v = args->forward.v,
                                                   .q_offsets = args->forward.q_offsets,
                                                   .k_offsets = args->forward.k_offsets,
                                                   .max_keys = x.S,
                                                   .out = args->forward.out,
                                                   .lse = args->forward.lse,
                                                   .causal = x.causal,
                                                   .window = x.window };
    back->dout = &sweep_normal(c, "dout", x.type, 1, EXTENTS(x.rows, x.H, x.DV))->tensor;
    back->dq = &sweep_output(c, "dq", x.type, true, EXTENTS(x.rows, x.H, x.D))->tensor;
    back->dk = &sweep_output(c, "dk", x.type, true, EXTENTS(x.rows, x.HKV, x.D))->tensor;
    back->dv = &sweep_output(c, "dv", x.type, true, EXTENTS(x.rows, x.HKV, x.DV))->tensor;
    make_runs(c, &x);
    sweep_between(c, "lse2", KILN_F32, EXTENTS(x.H, x.rows));
    sweep_between(c, "delta", KILN_F32, EXTENTS(x.H, x.rows));
    SWEEP_WORKSPACE(c, kiln_attention_backward_varlen, back);
    if (!c->status) sweep_try(c, kiln_attention_forward_varlen(c->ops, NULL, &args->forward));
}

static kiln_status call_gradients(SweepCase *c)
{
    return kiln_attention_backward_varlen(c->ops, NULL, &((Args *)c->own)->backward);
}

static void refer_gradients(SweepCase *c)
{
    static const char file[] = "attention/backward_varlen.tile";
    const Sizes x = sizes_of(&c->shape);
    char build[128];
    snprintf(build, sizeof build, "T=%s, D=%d, DV=%d, scale=%.17g", sweep_type(c, "q"), (int)x.D, (int)x.DV,
             1 / sqrt((double)x.D));
    sweep_refer_all(c, file, "attention_varlen_backward_rows", "%s, O=out, dO=dout, LSE=lse, LSE2=lse2, Delta=delta",
                    build);
    sweep_refer(c, file, "attention_varlen_backward_dq",
                "%s, CAUSAL=%s, WINDOW=%d, Q=q, K=k, V=v, dO=dout, LSE2=lse2, Delta=delta, QOffset=offsets, "
                "KOffset=offsets, dQ=dq, max_queries=%d",
                build, truth(x.causal), (int)x.window, (int)x.S);
    sweep_refer(c, file, "attention_varlen_backward_main",
                "%s, CAUSAL=%s, WINDOW=%d, Q=q, K=k, V=v, dO=dout, LSE2=lse2, Delta=delta, RUNS=runs, dK=dk, dV=dv",
                build, truth(x.causal), (int)x.window);
}

static double gradient_operations(const Shape *s) { return 2.5 * operations(s); }
static double gradient_bytes(const Shape *s) { return 3 * bytes(s); }

const SweepFamily sweep_packed_gradients = {
    .name = "packed-gradients",
    .about = "kiln_attention_backward_varlen; peer: FlashAttention through PyTorch",
    .ranges = gradient_ranges,
    .small = gradient_small,
    .settle = settle,
    .operations = gradient_operations,
    .bytes = gradient_bytes,
    .prepare = prepare_gradients,
    .call = call_gradients,
    .refer = refer_gradients,
    .samples = 16,
    .slack = 2,
};
