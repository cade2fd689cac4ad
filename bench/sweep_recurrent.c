// SPDX-License-Identifier: MIT
// sweep_recurrent.c - families recurrent, step and gradients: layers with a state of fixed size. OP says which: gdn,
// kda, linear (with a gate for each head), retention (a decay for each head), mamba2.
//
// In all of these a column of the state (a row, in Mamba-2) depends on no other, so that float64 needs only one to say
// what an element of the output should be. Of the gradients that of the values is compared: a recurrence like the
// first, from the last token on.
#include "kiln/ops/recurrent.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

enum { SIZE_MAX_KEYS = 256 };

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

// In place: a copy in host memory is what a step began with.
static const kiln_tensor *make_states(SweepCase *c, const Sizes *x)
{
    SweepTensor *const t = x->mamba ? sweep_normal(c, "states", KILN_F32, 1, EXTENTS(x->B, x->H, x->DV, x->DK))
                                    : sweep_normal(c, "states", KILN_F32, 1, EXTENTS(x->B, x->H, x->DK, x->DV));
    if (!c->status && !t->own) {
        char *const copy = malloc(kiln_tensor_bytes(&t->tensor) + 1);
        if (!copy) abort();
        t->host = memcpy(copy, t->host, kiln_tensor_bytes(&t->tensor));
        t->own = true;
    }
    return &t->tensor;
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

// ---- one token of one head, in float64

typedef struct Token {
    double q[SIZE_MAX_KEYS], k[SIZE_MAX_KEYS], decay[SIZE_MAX_KEYS]; // q scaled; decay: what a state is multiplied by
    double beta, skip;                                               // what a value is multiplied by
} Token;

static void normalise(double *x, int64_t n)
{
    double sum = 1e-6;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++) x[i] /= sqrt(sum);
}

static Token token_of(const SweepCase *c, const Sizes *x, int64_t b, int64_t t, int64_t h)
{
    const SweepTensor *const gates = sweep_find(c, "gates"), *const beta = sweep_find(c, "beta");
    const int64_t key_at = ((b * x->S + t) * x->HK + h / (x->H / x->HK)) * x->DK, head_at = (b * x->S + t) * x->H + h;
    const double d = x->mamba ? log1p(exp(sweep_at(gates, head_at))) : 0;
    Token token = { .beta = x->delta ? sweep_at(beta, head_at) : x->mamba ? d : 1 };
    for (int64_t i = 0; i < x->DK; i++) {
        token.q[i] = sweep_at(sweep_find(c, "q"), key_at + i);
        token.k[i] = sweep_at(sweep_find(c, "k"), key_at + i);
        token.decay[i] = x->mamba       ? exp(d * sweep_at(beta, h))
                         : x->retention ? exp(sweep_at(sweep_find(c, "decay"), h))
                                        : exp(sweep_at(gates, x->by_channel ? head_at * x->DK + i : head_at));
    }
    if (x->delta) {
        normalise(token.q, x->DK);
        normalise(token.k, x->DK);
    }
    for (int64_t i = 0; i < x->DK && !x->mamba; i++) token.q[i] /= sqrt((double)x->DK);
    return token;
}

// The column's state takes a token.
static void take_token(const Sizes *x, const Token *token, double value, double *state)
{
    double known = 0;
    for (int64_t i = 0; i < x->DK; i++) {
        state[i] *= token->decay[i];
        known += x->delta ? token->k[i] * state[i] : 0;
    }
    for (int64_t i = 0; i < x->DK; i++) state[i] += token->k[i] * token->beta * (value - known);
}

static double expected(const SweepCase *c, const SweepTensor *output, int64_t at)
{
    const Sizes x = sizes_of(&c->shape);
    const int64_t column = at % x.DV, h = at / x.DV % x.H, last = at / x.DV / x.H % x.S, b = at / x.DV / x.H / x.S;
    const SweepTensor *const states = sweep_find(c, "states"), *const v = sweep_find(c, "v");
    double state[SIZE_MAX_KEYS] = { 0 }, sum = 0;
    (void)output;
    for (int64_t i = 0; states && i < x.DK; i++)
        state[i] = sweep_at(states, (b * x.H + h) * x.DK * x.DV + (x.mamba ? column * x.DK + i : i * x.DV + column));
    for (int64_t t = 0; t <= last; t++) {
        const Token token = token_of(c, &x, b, t, h);
        take_token(&x, &token, sweep_at(v, ((b * x.S + t) * x.H + h) * x.DV + column), state);
        if (t < last) continue;
        for (int64_t i = 0; i < x.DK; i++) sum += token.q[i] * state[i];
    }
    return sum;
}

// From the last token back: `pull` is the gradient of the column's state after a token.
static double expected_gradient(const SweepCase *c, const SweepTensor *output, int64_t at)
{
    const Sizes x = sizes_of(&c->shape);
    const int64_t column = at % x.DV, h = at / x.DV % x.H, first = at / x.DV / x.H % x.S, b = at / x.DV / x.H / x.S;
    const SweepTensor *const dout = sweep_find(c, "dout");
    double pull[SIZE_MAX_KEYS] = { 0 }, sum = 0;
    (void)output;
    for (int64_t t = x.S - 1; t >= first; t--) {
        const Token token = token_of(c, &x, b, t, h);
        const double from = sweep_at(dout, ((b * x.S + t) * x.H + h) * x.DV + column);
        sum = 0;
        for (int64_t i = 0; i < x.DK; i++) sum += token.k[i] * (pull[i] += token.q[i] * from);
        for (int64_t i = 0; i < x.DK; i++)
            pull[i] = token.decay[i] * (pull[i] - (x.delta ? token.k[i] * token.beta * sum : 0));
        sum *= token.beta;
    }
    return sum;
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
    .expected = expected,
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
    .expected = expected,
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
    .expected = expected_gradient,
    .samples = 8,
    .slack = 4,
};
