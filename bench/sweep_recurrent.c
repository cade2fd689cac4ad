// SPDX-License-Identifier: MIT
// sweep_recurrent.c - families recurrent, step and gradients: layers with a state of fixed size. OP says which: gdn,
// kda, linear (with a gate for each head), retention (a decay for each head), mamba2.
//
// In all of these a column of the state (a row, in Mamba-2) depends on no other: references are run over a few columns.
#include "kiln/ops/recurrent.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

// Mamba-2: H heads of DV elements, HK groups, DK elements of a state's row.
static const char *const ranges[] = {
    // Qwen 3 Next, Kimi Linear, fla's own sizes, Mamba-2 and its hybrids
    "OP/H/HK/DK/DV: gdn/32/16/128/128 gdn/32/32/128/128 gdn/16/16/128/128 gdn/8/8/256/256 gdn/16/16/64/64 kda/32/32/128/128 "
    "kda/16/16/128/128 linear/32/32/128/128 linear/16/16/64/64 linear/16/16/256/256 retention/16/16/256/256 retention/32/32/128/128 mamba2/80/1/128/64 mamba2/64/8/128/64",
    "B/S: 1/2048 1/8192 1/32768 1/65536 8/2048 4/4096 16/2048 1/1..32768 2/1..8192 8/1000", "T: bf16", NULL
};
static const char *const small[] = {
    "OP/H/HK/DK/DV: gdn/4/2/64/64 kda/2/2/64/64 linear/2/2/64/64 retention/2/2/64/64 mamba2/4/1/64/64",
    "B/S: 1/64 1/100..300 2/128", "T: bf16", NULL
};
static const char *const gradient_ranges[] = {
    "OP/H/HK/DK/DV: gdn/32/16/128/128 gdn/32/32/128/128 gdn/16/16/64/64 kda/16/16/128/128 linear/32/32/128/128 retention/16/16/128/128 linear/16/16/64/64 "
    "mamba2/80/1/128/64 mamba2/64/8/128/64",
    "B/S: 1/2048 1/8192 1/32768 8/2048 4/4096 1/1..16384 2/1..8192 8/1000", "T: bf16", NULL
};
static const char *const step_ranges[] = {
    "OP/H/HK/DK/DV: gdn/32/16/128/128 gdn/32/32/128/128 gdn/16/16/128/128 gdn/16/16/64/64 kda/32/32/128/128 linear/32/32/128/128 retention/32/32/128/128 "
    "mamba2/80/1/128/64 mamba2/64/8/128/64",
    "B: 1 4 8 16 32 64 128 256 1..256", "T: bf16", NULL
};
static const char *const step_small[] = {
    "OP/H/HK/DK/DV: gdn/4/2/64/64 kda/2/2/64/64 linear/2/2/64/64 retention/2/2/64/64 mamba2/4/1/64/64", "B: 1 3 8",
    "T: bf16", NULL
};

typedef struct Sizes {
    int64_t B, S, H, HK, DK, DV;
    kiln_type type;
    bool delta, by_channel, mamba, retention;
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    const bool kda = shape_is(s, "OP", "kda");
    const int64_t S = shape_get(s, "S");
    return (Sizes){ shape_get(s, "B"),
                    S ? S : 1,
                    shape_get(s, "H"),
                    shape_get(s, "HK"),
                    shape_get(s, "DK"),
                    shape_get(s, "DV"),
                    shape_type(s, "T"),
                    kda || shape_is(s, "OP", "gdn"),
                    kda,
                    shape_is(s, "OP", "mamba2"),
                    shape_is(s, "OP", "retention") };
}

static double operations(const Shape *s)
{
    (void)s;
    return 0; // both bounds are near: given as bytes
}

static double token_bytes(const Sizes *x)
{
    const double gates = x->by_channel ? 4.0 * (double)(x->H * x->DK) : 4.0 * (double)x->H;
    return 2.0 * (double)(2 * x->HK * x->DK + 2 * x->H * x->DV) + gates;
}

static double forward_bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return (double)(x.B * x.S) * token_bytes(&x);
}

static double gradient_bytes(const Shape *s) { return 3 * forward_bytes(s); }

static double step_bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return 8.0 * (double)(x.B * x.H * x.DK * x.DV) + (double)x.B * token_bytes(&x);
}

// ---- arguments

typedef struct RecurrentArgs {
    kiln_gdn_args gdn;
    kiln_gdn_step_args gdn_step;
    kiln_gdn_backward_args gdn_back;
    kiln_linear_attention_args linear;
    kiln_linear_attention_step_args linear_step;
    kiln_linear_attention_backward_args linear_back;
    kiln_mamba2_args mamba;
    kiln_mamba2_step_args mamba_step;
    kiln_mamba2_backward_args mamba_back;
} RecurrentArgs;

typedef struct Inputs {
    const kiln_tensor *q, *k, *v, *gates, *beta, *decay; // Mamba-2: c, b, x, dt, a; what there is none of is NULL
} Inputs;

static Inputs make_inputs(SweepCase *c, const Sizes *x)
{
    Inputs in = { 0 };
    in.q = &sweep_normal(c, "q", x->type, 1, EXTENTS(x->B, x->S, x->HK, x->DK))->tensor;
    in.k = &sweep_normal(c, "k", x->type, 1, EXTENTS(x->B, x->S, x->HK, x->DK))->tensor;
    in.v = &sweep_normal(c, "v", x->type, 1, EXTENTS(x->B, x->S, x->H, x->DV))->tensor;
    if (x->mamba) {
        in.gates = &sweep_uniform(c, "gates", x->type, -4, -1, EXTENTS(x->B, x->S, x->H))->tensor;
        in.beta = &sweep_uniform(c, "beta", KILN_F32, -2, -0.5, EXTENTS(x->H))->tensor;
        return in;
    }
    if (x->retention) {
        float *const decay = calloc((size_t)x->H, sizeof *decay);
        for (int64_t h = 0; decay && h < x->H; h++) decay[h] = (float)log1p(-exp2(-5.0 - (double)h));
        in.decay = &sweep_made(c, "decay", KILN_F32, decay, EXTENTS(x->H))->tensor;
        return in;
    }
    in.gates = x->by_channel
                   ? &sweep_uniform(c, "gates", KILN_F32, -0.2, -0.001, EXTENTS(x->B, x->S, x->H, x->DK))->tensor
                   : &sweep_uniform(c, "gates", KILN_F32, -0.2, -0.001, EXTENTS(x->B, x->S, x->H))->tensor;
    if (x->delta) in.beta = &sweep_uniform(c, "beta", x->type, 0, 1, EXTENTS(x->B, x->S, x->H))->tensor;
    return in;
}

static void prepare_forward(SweepCase *c)
{
    RecurrentArgs *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    const Inputs in = make_inputs(c, &x);
    const kiln_tensor *const out = &sweep_output(c, "out", x.type, true, EXTENTS(x.B, x.S, x.H, x.DV))->tensor;
    args->gdn = (kiln_gdn_args){
        .q = in.q, .k = in.k, .v = in.v, .gates = in.gates, .beta = in.beta, .out = out, .normalize = true
    };
    args->linear = (kiln_linear_attention_args){
        .q = in.q, .k = in.k, .v = in.v, .gates = in.gates, .decay = in.decay, .out = out
    };
    args->mamba = (kiln_mamba2_args){ .x = in.v, .dt = in.gates, .a = in.beta, .b = in.k, .c = in.q, .out = out };
    if (x.delta) SWEEP_WORKSPACE(c, kiln_gdn_forward, &args->gdn);
    else if (x.mamba) SWEEP_WORKSPACE(c, kiln_mamba2_forward, &args->mamba);
    else SWEEP_WORKSPACE(c, kiln_linear_attention_forward, &args->linear);
}

static kiln_status call_forward(SweepCase *c)
{
    const RecurrentArgs *const args = c->own;
    const Sizes x = sizes_of(&c->shape);
    return x.delta   ? kiln_gdn_forward(c->ops, NULL, &args->gdn)
           : x.mamba ? kiln_mamba2_forward(c->ops, NULL, &args->mamba)
                     : kiln_linear_attention_forward(c->ops, NULL, &args->linear);
}

static const kiln_tensor *make_states(SweepCase *c, const Sizes *x)
{
    const int64_t row = x->mamba ? x->DV : x->DK, column = x->mamba ? x->DK : x->DV;
    return &sweep_in_place(c, sweep_normal(c, "states", KILN_F32, 1, EXTENTS(x->B, x->H, row, column)))->tensor;
}

static void prepare_step(SweepCase *c)
{
    RecurrentArgs *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    const Inputs in = make_inputs(c, &x);
    const kiln_tensor *const states = make_states(c, &x);
    const kiln_tensor *const out = &sweep_output(c, "out", x.type, true, EXTENTS(x.B, x.S, x.H, x.DV))->tensor;
    args->gdn_step = (kiln_gdn_step_args){ .q = in.q,
                                           .k = in.k,
                                           .v = in.v,
                                           .gates = in.gates,
                                           .beta = in.beta,
                                           .states = states,
                                           .out = out,
                                           .normalize = true };
    args->linear_step = (kiln_linear_attention_step_args){
        .q = in.q, .k = in.k, .v = in.v, .gates = in.gates, .decay = in.decay, .states = states, .out = out
    };
    args->mamba_step = (kiln_mamba2_step_args){
        .x = in.v, .dt = in.gates, .a = in.beta, .b = in.k, .c = in.q, .states = states, .out = out
    };
}

static kiln_status call_step(SweepCase *c)
{
    const RecurrentArgs *const args = c->own;
    const Sizes x = sizes_of(&c->shape);
    return x.delta   ? kiln_gdn_step(c->ops, NULL, &args->gdn_step)
           : x.mamba ? kiln_mamba2_step(c->ops, NULL, &args->mamba_step)
                     : kiln_linear_attention_step(c->ops, NULL, &args->linear_step);
}

static void prepare_gradients(SweepCase *c)
{
    RecurrentArgs *const args = sweep_own(c, sizeof *args);
    const Sizes x = sizes_of(&c->shape);
    const Inputs in = make_inputs(c, &x);
    const kiln_tensor *const dout = &sweep_normal(c, "dout", x.type, 1, EXTENTS(x.B, x.S, x.H, x.DV))->tensor;
    const kiln_tensor *const dq = &sweep_output(c, "dq", x.type, false, EXTENTS(x.B, x.S, x.HK, x.DK))->tensor;
    const kiln_tensor *const dk = &sweep_output(c, "dk", x.type, false, EXTENTS(x.B, x.S, x.HK, x.DK))->tensor;
    const kiln_tensor *const dv = &sweep_output(c, "dv", x.type, true, EXTENTS(x.B, x.S, x.H, x.DV))->tensor;
    const kiln_tensor *const dgates =
        in.gates ? &sweep_output(c, "dgates", in.gates->type, false, in.gates->rank, in.gates->shape)->tensor : NULL;
    const kiln_tensor *const dbeta =
        in.beta ? &sweep_output(c, "dbeta", in.beta->type, false, in.beta->rank, in.beta->shape)->tensor : NULL;
    args->gdn_back = (kiln_gdn_backward_args){ .q = in.q,
                                               .k = in.k,
                                               .v = in.v,
                                               .gates = in.gates,
                                               .beta = in.beta,
                                               .dout = dout,
                                               .dq = dq,
                                               .dk = dk,
                                               .dv = dv,
                                               .dgates = dgates,
                                               .dbeta = dbeta,
                                               .normalize = true };
    args->linear_back = (kiln_linear_attention_backward_args){ .q = in.q,
                                                               .k = in.k,
                                                               .v = in.v,
                                                               .gates = in.gates,
                                                               .decay = in.decay,
                                                               .dout = dout,
                                                               .dq = dq,
                                                               .dk = dk,
                                                               .dv = dv,
                                                               .dgates = dgates };
    args->mamba_back = (kiln_mamba2_backward_args){ .x = in.v,
                                                    .dt = in.gates,
                                                    .a = in.beta,
                                                    .b = in.k,
                                                    .c = in.q,
                                                    .dout = dout,
                                                    .dx = dv,
                                                    .ddt = dgates,
                                                    .da = dbeta,
                                                    .db = dk,
                                                    .dc = dq };
    if (x.delta) SWEEP_WORKSPACE(c, kiln_gdn_backward, &args->gdn_back);
    else if (x.mamba) SWEEP_WORKSPACE(c, kiln_mamba2_backward, &args->mamba_back);
    else SWEEP_WORKSPACE(c, kiln_linear_attention_backward, &args->linear_back);
}

static kiln_status call_gradients(SweepCase *c)
{
    const RecurrentArgs *const args = c->own;
    const Sizes x = sizes_of(&c->shape);
    return x.delta   ? kiln_gdn_backward(c->ops, NULL, &args->gdn_back)
           : x.mamba ? kiln_mamba2_backward(c->ops, NULL, &args->mamba_back)
                     : kiln_linear_attention_backward(c->ops, NULL, &args->linear_back);
}

// ---- expected results: of one head of each key head, and of a few columns of it, which no other columns touch

enum { COLUMNS = 4, GRADIENT_COLUMNS = 2 };

typedef struct Cut {
    SweepCase *c;
    int64_t outer, heads, each, width; // each: heads of a key head, of which one is taken; width: columns
} Cut;

static Cut cut_of(SweepCase *c, const Sizes *x, int64_t width)
{
    return (Cut){ c, x->B * x->S, x->HK, x->H / x->HK, width };
}

static int64_t head_at(const Cut *cut, int64_t i) { return i * cut->each + i * 7 % cut->each; }
static int64_t column_at(const Cut *cut, int64_t i, int64_t columns) { return i * 37 % (columns - cut->width + 1); }

// Between a tensor of `columns` in each head and what is cut out of it, in either direction.
static void copy_cut(const Cut *cut, char *whole, char *part, int64_t columns, size_t element, bool back)
{
    const size_t bytes = (size_t)cut->width * element;
    for (int64_t i = 0; i < cut->outer * cut->heads; i++) {
        const int64_t h = i % cut->heads, head = i / cut->heads * cut->heads * cut->each + head_at(cut, h);
        char *const there = whole + (size_t)(head * columns + column_at(cut, h, columns)) * element;
        char *const here = part + (size_t)i * bytes;
        memcpy(back ? there : here, back ? here : there, bytes);
    }
}

static void add_cut(const Cut *cut, const char *name, const SweepTensor *of, int64_t columns)
{
    const kiln_tensor *const t = &of->tensor;
    int64_t shape[] = { t->shape[0], t->shape[1], cut->heads, columns };
    if (t->rank == 1) sweep_between(cut->c, name, t->type, EXTENTS(cut->heads));
    else sweep_between(cut->c, name, t->type, t->rank, shape);
}

// Of an input.
static void cut_out(const Cut *cut, const char *name, const char *of)
{
    const SweepTensor *const t = sweep_find(cut->c, of);
    const int64_t columns = t->tensor.rank < 4 ? 1 : t->tensor.shape[3];
    Cut own = *cut;
    if (columns == 1 || strcmp(of, "gates") == 0) own.width = columns; // one number of a head, or all of its channels
    if (t->tensor.rank == 1) own.outer = 1;
    add_cut(&own, name, t, own.width);
    if (!cut->c->status)
        copy_cut(&own, t->host, sweep_expected(cut->c, name), columns, (size_t)kiln_type_bits(t->tensor.type) / 8,
                 false);
}

// Of an output.
static void put_back(const Cut *cut, const char *name, const char *of)
{
    const SweepTensor *const t = sweep_find(cut->c, of);
    char *const part = sweep_expected(cut->c, name), *const whole = sweep_expected(cut->c, of);
    if (!cut->c->status)
        copy_cut(cut, whole, part, t->tensor.shape[3], (size_t)kiln_type_bits(t->tensor.type) / 8, true);
}

static void cut_inputs(const Cut *cut, const Sizes *x)
{
    cut_out(cut, "v_cut", "v");
    if (x->retention) cut_out(cut, "decay_cut", "decay");
    else cut_out(cut, "gates_cut", "gates");
    if (x->delta || x->mamba) cut_out(cut, "beta_cut", "beta");
}

static double scale_of(const Sizes *x) { return 1 / sqrt((double)x->DK); }

static void refer_forward(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    const Cut cut = cut_of(c, &x, COLUMNS);
    char build[160];
    cut_inputs(&cut, &x);
    add_cut(&cut, "out_cut", sweep_find(c, "out"), COLUMNS);
    snprintf(build, sizeof build, "T=%s, DK=%d, DV=%d, Q=q, K=k, V=v_cut, O=out_cut, scale=%.17g", sweep_type(c, "q"),
             (int)x.DK, COLUMNS, scale_of(&x));
    if (x.by_channel)
        sweep_refer(c, "linear/kda.tile", "kda_forward", "%s, NORM=true, Gi=gates_cut, Beta=beta_cut", build);
    else if (x.delta)
        sweep_refer(c, "linear/gdn.tile", "gdn_forward", "%s, NORM=true, Gi=gates_cut, Beta=beta_cut", build);
    else if (x.mamba)
        sweep_refer(c, "linear/mamba2.tile", "mamba2_forward",
                    "T=%s, P=%d, N=%d, U=v_cut, Dt=gates_cut, A=beta_cut, Bm=k, C=q, Y=out_cut", sweep_type(c, "q"),
                    COLUMNS, (int)x.DK);
    else
        sweep_refer(c, "linear/linear_attention.tile", "linear_attention", "%s, %s", build,
                    x.retention ? "Decay=decay_cut" : "Gi=gates_cut");
    put_back(&cut, "out_cut", "out");
}

static void refer_step(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    char build[160];
    snprintf(build, sizeof build, "T=%s, DK=%d, DV=%d, G=%d, Q=q, K=k, V=v, X=states, O=out, scale=%.17g",
             sweep_type(c, "q"), (int)x.DK, (int)x.DV, (int)(x.H / x.HK), scale_of(&x));
    if (x.by_channel) sweep_refer(c, "linear/kda.tile", "kda_step", "%s, NORM=true, Gi=gates, Beta=beta", build);
    else if (x.mamba)
        sweep_refer(c, "linear/mamba2.tile", "mamba2_step",
                    "T=%s, P=%d, N=%d, G=%d, U=v, Dt=gates, A=beta, Bm=k, C=q, X=states, Y=out", sweep_type(c, "q"),
                    (int)x.DV, (int)x.DK, (int)(x.H / x.HK));
    else
        sweep_refer(c, "linear/step.tile", "recurrent_step", "%s, DELTA=%s, NORM=%s, %s", build,
                    x.delta ? "true" : "false", x.delta ? "true" : "false",
                    x.delta       ? "Gi=gates, Beta=beta"
                    : x.retention ? "Decay=decay"
                                  : "Gi=gates");
}

// Of the columns of the values' gradient; other gradients are sums over all columns.
static void refer_gradients(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    const Cut cut = cut_of(c, &x, GRADIENT_COLUMNS);
    char build[160];
    cut_inputs(&cut, &x);
    cut_out(&cut, "dout_cut", "dout");
    add_cut(&cut, "dv_cut", sweep_find(c, "dv"), GRADIENT_COLUMNS);
    if (!x.retention) add_cut(&cut, "dgates_cut", sweep_find(c, "gates"), x.by_channel ? x.DK : 1);
    if (x.delta || x.mamba) add_cut(&cut, "dbeta_cut", sweep_find(c, "beta"), 1);
    snprintf(build, sizeof build,
             "T=%s, DK=%d, DV=%d, Q=q, K=k, V=v_cut, dO=dout_cut, dQ=dq, dK=dk, dV=dv_cut, scale=%.17g",
             sweep_type(c, "q"), (int)x.DK, GRADIENT_COLUMNS, scale_of(&x));
    if (x.delta)
        sweep_refer(c, x.by_channel ? "linear/kda_backward.tile" : "linear/gdn_backward.tile",
                    x.by_channel ? "kda_backward" : "gdn_backward",
                    "%s, NORM=true, Gi=gates_cut, Beta=beta_cut, dGi=dgates_cut, dBeta=dbeta_cut", build);
    else if (x.mamba)
        sweep_refer(c, "linear/mamba2_backward.tile", "mamba2_backward",
                    "T=%s, P=%d, N=%d, U=v_cut, Dt=gates_cut, A=beta_cut, Bm=k, Cm=q, dOut=dout_cut, dU=dv_cut, "
                    "dDt=dgates_cut, dA=dbeta_cut, dBm=dk, dC=dq",
                    sweep_type(c, "q"), GRADIENT_COLUMNS, (int)x.DK);
    else
        sweep_refer(c, "linear/linear_attention_backward.tile", "linear_attention_backward", "%s, %s", build,
                    x.retention ? "Decay=decay_cut" : "Gi=gates_cut, dGi=dgates_cut");
    put_back(&cut, "dv_cut", "dv");
}

const SweepFamily sweep_recurrent = {
    .name = "recurrent",
    .about =
        "forward passes of gated delta net, Kimi delta attention, gated linear attention, retention and Mamba-2; peer: fla",
    .ranges = ranges,
    .small = small,
    .operations = operations,
    .bytes = forward_bytes,
    .prepare = prepare_forward,
    .call = call_forward,
    .refer = refer_forward,
    .samples = 16,
    .slack = 4, // W, U and states are rounded to T between products
};

const SweepFamily sweep_step = {
    .name = "step",
    .about = "one token of each request, states of f32 in place; peer: fla, on a CPU PyTorch",
    .ranges = step_ranges,
    .small = step_small,
    .operations = operations,
    .bytes = step_bytes,
    .prepare = prepare_step,
    .call = call_step,
    .refer = refer_step,
};

const SweepFamily sweep_gradients = {
    .name = "gradients",
    .about = "backward passes of the family recurrent; peer: fla",
    .ranges = gradient_ranges,
    .small = small,
    .operations = operations,
    .bytes = gradient_bytes,
    .prepare = prepare_gradients,
    .call = call_gradients,
    .refer = refer_gradients,
    .samples = 8,
    .slack = 4,
};
