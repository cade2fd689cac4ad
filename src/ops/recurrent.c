// SPDX-License-Identifier: MIT
// recurrent.c - the operators of kiln/ops/recurrent.h over kernels/linear.
#include "kiln/ops/recurrent.h"
#include "ops/call.h"

#include <inttypes.h>
#include <math.h>

enum {
    SIZE_MOST = 256,   // of keys and values, and of a row of Mamba-2's state
    SIZE_STEP = 16,    // their divisor
    STEP_TOKENS = 16,  // of a step: its kernel is made for their number
    FILTER_TOKENS = 8, // of a convolution
};

static const char *name_of(const kiln_tensor *tensor) { return kiln_type_name(tensor->type); }

// f32, or the type of `first`.
static unsigned same_or_f32(const kiln_tensor *first)
{
    const bool is_known = first && (unsigned)first->type <= KILN_BOOL;
    return (is_known ? TYPES_FLOAT & 1U << first->type : TYPES_FLOAT) | 1U << KILN_F32;
}

static kiln_status check_size(const Call *call, const char *letter, int divisor)
{
    const int64_t size = call_extent(call, letter);
    return size >= divisor && size <= SIZE_MOST && size % divisor == 0
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "size %s is %" PRId64 ", expected a multiple of %d up to %d", letter,
                           size, divisor, SIZE_MOST);
}

static kiln_status check_count(const Call *call, const char *letter, const char *tensor, int64_t least, int64_t most)
{
    const int64_t n = call_extent(call, letter);
    return n >= least && n <= most
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "'%s' has %s = %" PRId64 ", expected %" PRId64 " to %" PRId64,
                           tensor, letter, n, least, most);
}

// H value heads in groups: how many share a key head.
static kiln_status check_groups(const Call *call, const char *groups, const char *heads_of, const char *groups_of)
{
    const int64_t H = call_extent(call, "H"), G = call_extent(call, groups);
    kiln_status status = check_count(call, "H", heads_of, 1, INT32_MAX);
    if (!status) status = check_count(call, groups, groups_of, 1, INT32_MAX);
    if (status) return status;
    return H % G == 0 ? KILN_OK
                      : call_fail(call, KILN_BAD_SHAPE,
                                  "%" PRId64 " heads (of '%s') are not a multiple of %" PRId64 " (of '%s')", H,
                                  heads_of, G, groups_of);
}

static int group_of(const Call *call, const char *groups)
{
    return (int)(call_extent(call, "H") / call_extent(call, groups));
}

static kiln_status check_attention(const Call *call, const double *given, double *scale)
{
    kiln_status status = check_size(call, "DK", SIZE_STEP);
    if (!status) status = check_size(call, "DV", SIZE_STEP);
    if (!status) status = check_groups(call, "HK", "v", "k");
    if (!status) status = call_scale(call, given, 1 / sqrt((double)call_extent(call, "DK")), scale);
    return status;
}

// ---- whole sequences

// The states of a call: f32 or T, both the same.
typedef struct States {
    const kiln_tensor *any;  // one of them; NULL: there is none
    unsigned initial, final; // types
} States;

static States states_of(const kiln_tensor *first, const kiln_tensor *initial, const kiln_tensor *final)
{
    const unsigned types = same_or_f32(first);
    const bool is_known = initial && (unsigned)initial->type <= KILN_BOOL && types >> initial->type & 1;
    return (States){ initial ? initial : final, types, is_known ? 1U << initial->type : types };
}

static const char *state_type(const States *states) { return states->any ? name_of(states->any) : "f32"; }

// Packed sequences are a batch of one.
static void bind_batch(Call *call, const kiln_tensor *offsets)
{
    if (offsets) call_bind(call, "B", 1, "offsets");
}

// Tensor i of the call.
static kiln_status check_offsets(const Call *call, kiln_stream *stream, int i)
{
    return call_check_offsets(call, stream, i, call_extent(call, "S"), INT32_MAX);
}

static kiln_status run_whole(Call *call, kiln_stream *stream, int offsets, void *workspace, size_t bytes)
{
    kiln_status status = call->tensors[offsets] ? call_room(call, bytes) : KILN_OK;
    if (!status) status = check_offsets(call, stream, offsets);
    return status ? status : call_run(call, stream, workspace, bytes);
}

static kiln_status size_whole(Call *call, int offsets, size_t *bytes)
{
    const kiln_status status = check_offsets(call, NULL, offsets);
    return status ? status : call_size(call, bytes);
}

// ---- gated delta net

enum { GDN_OFFSETS = 5 };

// A gate for each channel of a key: Kimi delta attention.
static bool is_by_channel(const kiln_tensor *gates) { return gates && gates->rank == 4; }

static kiln_status prepare_gdn(Call *call, const kiln_gdn_args *a)
{
    double scale;
    const bool by_channel = is_by_channel(a->gates);
    const char *const gates = by_channel ? "[B][S][H][DK]" : "[B][S][H]";
    const States states = states_of(a->q, a->initial_states, a->final_states);
    const char *const shape = a->offsets ? "[N][H][DK][DV]" : "[B][H][DK][DV]";
    // clang-format off
    const Want wants[] = {
        { IN,           "q",              a->q,              TYPES_FLOAT,       "Q[B][S][HK][DK]" },
        { IN,           "k",              a->k,              0,                 "K[B][S][HK][DK]" },
        { IN,           "v",              a->v,              0,                 "V[B][S][H][DV]" },
        { IN,           "gates",          a->gates,          1 << KILN_F32,     gates },
        { IN,           "beta",           a->beta,           same_or_f32(a->q), "[B][S][H]" },
        { IN_OPTIONAL,  "offsets",        a->offsets,        1 << KILN_I32,     "[N + 1]" },
        { IN_OPTIONAL,  "initial_states", a->initial_states, states.initial,    shape },
        { OUT,          "out",            a->out,            0,                 "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "final_states",   a->final_states,   states.final,      shape },
    };
    // clang-format on
    static_assert(GDN_OFFSETS == 5, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status)
        status = call_kernel(call, by_channel ? "linear/kda.tile" : "linear/gdn.tile",
                             by_channel ? "kda_forward" : "gdn_forward",
                             "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, NORM=%s%s%s%s", name_of(a->q), name_of(a->beta),
                             state_type(&states), (int)call_extent(call, "DK"), (int)call_extent(call, "DV"),
                             group_of(call, "HK"), yes(a->normalize), LACKS(a->offsets, "Offset"),
                             LACKS(a->initial_states, "H0"), LACKS(a->final_states, "HT"));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

kiln_status kiln_gdn_forward_workspace_size(kiln_ops *ops, const kiln_gdn_args *a, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_gdn_forward_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_gdn(&call, a);
    return status ? status : size_whole(&call, GDN_OFFSETS, bytes);
}

kiln_status kiln_gdn_forward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_gdn_forward", ops, a, sizeof *a);
    if (!status) status = prepare_gdn(&call, a);
    return status ? status : run_whole(&call, stream, GDN_OFFSETS, a->workspace, a->workspace_bytes);
}

// ---- gradients of a gated delta net

// Of three tensors of states, which have one type, that of the third.
static unsigned third_of(const kiln_tensor *first, const kiln_tensor *one, const kiln_tensor *two)
{
    const States of_two = states_of(first, one, two);
    return states_of(first, of_two.any, NULL).final;
}

static kiln_status prepare_gdn_backward(Call *call, const kiln_gdn_backward_args *a)
{
    double scale;
    States states = states_of(a->q, a->initial_states, a->dfinal_states);
    const unsigned third = third_of(a->q, a->initial_states, a->dfinal_states);
    const char *const shape = a->offsets ? "[N][H][DK][DV]" : "[B][H][DK][DV]";
    const unsigned beta = same_or_f32(a->q);
    const bool is_known = a->beta && (unsigned)a->beta->type <= KILN_BOOL && beta >> a->beta->type & 1;
    if (!states.any) states.any = a->dinitial_states;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",               a->q,               TYPES_FLOAT,     "Q[B][S][HK][DK]" },
        { IN,           "k",               a->k,               0,               "K[B][S][HK][DK]" },
        { IN,           "v",               a->v,               0,               "V[B][S][H][DV]" },
        { IN,           "gates",           a->gates,           1 << KILN_F32,   "[B][S][H]" },
        { IN,           "beta",            a->beta,            beta,            "[B][S][H]" },
        { IN_OPTIONAL,  "offsets",         a->offsets,         1 << KILN_I32,   "[N + 1]" },
        { IN_OPTIONAL,  "initial_states",  a->initial_states,  states.initial,  shape },
        { IN,           "dout",            a->dout,            0,               "dO[B][S][H][DV]" },
        { IN_OPTIONAL,  "dfinal_states",   a->dfinal_states,   states.final,    shape },
        { OUT,          "dq",              a->dq,              0,               "dQ[B][S][HK][DK]" },
        { OUT,          "dk",              a->dk,              0,               "dK[B][S][HK][DK]" },
        { OUT,          "dv",              a->dv,              0,               "dV[B][S][H][DV]" },
        { OUT,          "dgates",          a->dgates,          1 << KILN_F32,   "[B][S][H]" },
        { OUT,          "dbeta",           a->dbeta,           is_known ? 1U << a->beta->type : beta, "[B][S][H]" },
        { OUT_OPTIONAL, "dinitial_states", a->dinitial_states, third,           shape },
    };
    // clang-format on
    static_assert(GDN_OFFSETS == 5, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status)
        status = call_kernel(
            call, "linear/gdn_backward.tile", "gdn_backward", "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, NORM=%s%s%s%s%s",
            name_of(a->q), name_of(a->beta), state_type(&states), (int)call_extent(call, "DK"),
            (int)call_extent(call, "DV"), group_of(call, "HK"), yes(a->normalize), LACKS(a->offsets, "Offset"),
            LACKS(a->initial_states, "H0"), LACKS(a->dfinal_states, "dHT"), LACKS(a->dinitial_states, "dH0"));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

kiln_status kiln_gdn_backward_workspace_size(kiln_ops *ops, const kiln_gdn_backward_args *a, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_gdn_backward_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_gdn_backward(&call, a);
    return status ? status : size_whole(&call, GDN_OFFSETS, bytes);
}

kiln_status kiln_gdn_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_backward_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_gdn_backward", ops, a, sizeof *a);
    if (!status) status = prepare_gdn_backward(&call, a);
    return status ? status : run_whole(&call, stream, GDN_OFFSETS, a->workspace, a->workspace_bytes);
}

// ---- linear attention

enum { LINEAR_OFFSETS = 5 };

static kiln_status prepare_linear(Call *call, const kiln_linear_attention_args *a)
{
    double scale;
    const States states = states_of(a->q, a->initial_states, a->final_states);
    const char *const shape = a->offsets ? "[N][H][DK][DV]" : "[B][H][DK][DV]";
    // clang-format off
    const Want wants[] = {
        { IN,           "q",              a->q,              TYPES_FLOAT,    "Q[B][S][HK][DK]" },
        { IN,           "k",              a->k,              0,              "K[B][S][HK][DK]" },
        { IN,           "v",              a->v,              0,              "V[B][S][H][DV]" },
        { IN_OPTIONAL,  "gates",          a->gates,          1 << KILN_F32,  "[B][S][H]" },
        { IN_OPTIONAL,  "decay",          a->decay,          1 << KILN_F32,  "[H]" },
        { IN_OPTIONAL,  "offsets",        a->offsets,        1 << KILN_I32,  "[N + 1]" },
        { IN_OPTIONAL,  "initial_states", a->initial_states, states.initial, shape },
        { OUT,          "out",            a->out,            0,              "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "final_states",   a->final_states,   states.final,   shape },
    };
    // clang-format on
    static_assert(LINEAR_OFFSETS == 5, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status)
        status = call_kernel(call, "linear/linear_attention.tile", "linear_attention",
                             "T=%s, TS=%s, DK=%d, DV=%d, G=%d%s%s%s%s%s", name_of(a->q), state_type(&states),
                             (int)call_extent(call, "DK"), (int)call_extent(call, "DV"), group_of(call, "HK"),
                             LACKS(a->gates, "Gi"), LACKS(a->decay, "Decay"), LACKS(a->offsets, "Offset"),
                             LACKS(a->initial_states, "H0"), LACKS(a->final_states, "HT"));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

kiln_status kiln_linear_attention_forward_workspace_size(kiln_ops *ops, const kiln_linear_attention_args *a,
                                                         size_t *bytes)
{
    Call call;
    kiln_status status =
        call_begin_sizing(&call, "kiln_linear_attention_forward_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_linear(&call, a);
    return status ? status : size_whole(&call, LINEAR_OFFSETS, bytes);
}

kiln_status kiln_linear_attention_forward(kiln_ops *ops, kiln_stream *stream, const kiln_linear_attention_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_linear_attention_forward", ops, a, sizeof *a);
    if (!status) status = prepare_linear(&call, a);
    return status ? status : run_whole(&call, stream, LINEAR_OFFSETS, a->workspace, a->workspace_bytes);
}

// ---- steps of both

static kiln_status step(Call *call, kiln_stream *stream, const kiln_gdn_step_args *a, const kiln_tensor *decay,
                        bool is_delta)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,                               "q",      a->q,      TYPES_FLOAT,       "Q[B][R][HK][DK]" },
        { IN,                               "k",      a->k,      0,                 "K[B][R][HK][DK]" },
        { IN,                               "v",      a->v,      0,                 "V[B][R][H][DV]" },
        { is_delta ? IN : IN_OPTIONAL,      "gates",  a->gates,  1 << KILN_F32,     "[B][R][H]" },
        { IN_OPTIONAL,                      "decay",  decay,     1 << KILN_F32,     "[H]" },
        { is_delta ? IN : IN_OPTIONAL,      "beta",   a->beta,   same_or_f32(a->q), "[B][R][H]" },
        { IN_OPTIONAL,                      "from",   a->from,   1 << KILN_I32,     "[B]" },
        { IN_OPTIONAL,                      "to",     a->to,     1 << KILN_I32,     "[B][R]" },
        { OUT,                              "states", a->states, same_or_f32(a->q), "[M][H][DK][DV]" },
        { OUT,                              "out",    a->out,    0,                 "O[B][R][H][DV]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status) status = check_count(call, "R", "q", 1, STEP_TOKENS);
    if (!status)
        status = call_kernel(call, "linear/step.tile", "recurrent_step",
                             "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, R=%d, DELTA=%s, NORM=%s%s%s%s%s%s", name_of(a->q),
                             a->beta ? name_of(a->beta) : "f32", name_of(a->states), (int)call_extent(call, "DK"),
                             (int)call_extent(call, "DV"), group_of(call, "HK"), (int)call_extent(call, "R"),
                             yes(is_delta), yes(a->normalize), LACKS(a->gates, "Gi"), LACKS(decay, "Decay"),
                             LACKS(a->beta, "Beta"), LACKS(a->from, "From"), LACKS(a->to, "To"));
    if (status) return status;
    call_add(call, KILN_FLOAT(scale));
    return call_run(call, stream, NULL, 0);
}

// With a gate for each channel.
static kiln_status step_by_channel(Call *call, kiln_stream *stream, const kiln_gdn_step_args *a)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,          "q",      a->q,      TYPES_FLOAT,       "Q[B][R][HK][DK]" },
        { IN,          "k",      a->k,      0,                 "K[B][R][HK][DK]" },
        { IN,          "v",      a->v,      0,                 "V[B][R][H][DV]" },
        { IN,          "gates",  a->gates,  1 << KILN_F32,     "[B][R][H][DK]" },
        { IN,          "beta",   a->beta,   same_or_f32(a->q), "[B][R][H]" },
        { IN_OPTIONAL, "from",   a->from,   1 << KILN_I32,     "[B]" },
        { IN_OPTIONAL, "to",     a->to,     1 << KILN_I32,     "[B][R]" },
        { OUT,         "states", a->states, same_or_f32(a->q), "[M][H][DK][DV]" },
        { OUT,         "out",    a->out,    0,                 "O[B][R][H][DV]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status) status = check_count(call, "R", "q", 1, STEP_TOKENS);
    if (!status)
        status = call_kernel(call, "linear/kda.tile", "kda_step",
                             "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, R=%d, NORM=%s%s%s", name_of(a->q),
                             name_of(a->beta), name_of(a->states), (int)call_extent(call, "DK"),
                             (int)call_extent(call, "DV"), group_of(call, "HK"), (int)call_extent(call, "R"),
                             yes(a->normalize), LACKS(a->from, "From"), LACKS(a->to, "To"));
    if (status) return status;
    call_add(call, KILN_FLOAT(scale));
    return call_run(call, stream, NULL, 0);
}

kiln_status kiln_gdn_step(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_step_args *a)
{
    Call call;
    const kiln_status status = call_begin(&call, "kiln_gdn_step", ops, a, sizeof *a);
    if (status) return status;
    return is_by_channel(a->gates) ? step_by_channel(&call, stream, a) : step(&call, stream, a, NULL, true);
}

kiln_status kiln_linear_attention_step(kiln_ops *ops, kiln_stream *stream, const kiln_linear_attention_step_args *a)
{
    Call call;
    const kiln_status status = call_begin(&call, "kiln_linear_attention_step", ops, a, sizeof *a);
    return status ? status
                  : step(&call, stream,
                         &(kiln_gdn_step_args){ .q = a->q,
                                                .k = a->k,
                                                .v = a->v,
                                                .gates = a->gates,
                                                .from = a->from,
                                                .to = a->to,
                                                .states = a->states,
                                                .out = a->out,
                                                .scale = a->scale },
                         a->decay, false);
}

// ---- Mamba-2

// Whole sequences: what the shared memory of a multiprocessor holds.
static kiln_status check_state(const Call *call, const kiln_tensor *x)
{
    const int64_t P = call_extent(call, "P"), N = call_extent(call, "N");
    const bool is_f32 = x->type == KILN_F32;
    const bool is_power = P == 16 || P == 32 || P == 64 || P == 128;
    return is_power && (!is_f32 || N <= SIZE_MOST / 2) && P * N <= (is_f32 ? 8192 : 16384)
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "states of P = %" PRId64 " by N = %" PRId64
                           ", expected P = 16, 32, 64 or 128, N at most %d and P * N at most %d",
                           P, N, is_f32 ? SIZE_MOST / 2 : SIZE_MOST, is_f32 ? 8192 : 16384);
}

static kiln_status prepare_mamba2(Call *call, const kiln_mamba2_args *a)
{
    const States states = states_of(a->x, a->initial_states, a->final_states);
    // clang-format off
    const Want wants[] = {
        { IN,           "x",              a->x,              TYPES_FLOAT,    "U[B][S][H][P]" },
        { IN,           "dt",             a->dt,             0,              "Dt[B][S][H]" },
        { IN,           "a",              a->a,              1 << KILN_F32,  "[H]" },
        { IN,           "b",              a->b,              0,              "Bm[B][S][G][N]" },
        { IN,           "c",              a->c,              0,              "C[B][S][G][N]" },
        { IN_OPTIONAL,  "skip",           a->skip,           1 << KILN_F32,  "[H]" },
        { IN_OPTIONAL,  "dt_bias",        a->dt_bias,        1 << KILN_F32,  "[H]" },
        { IN_OPTIONAL,  "initial_states", a->initial_states, states.initial, "[B][H][P][N]" },
        { OUT,          "out",            a->out,            0,              "Y[B][S][H][P]" },
        { OUT_OPTIONAL, "final_states",   a->final_states,   states.final,   "[B][H][P][N]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_size(call, "N", SIZE_STEP);
    if (!status) status = check_groups(call, "G", "x", "b");
    if (!status) status = check_state(call, a->x);
    if (status) return status;
    return call_kernel(call, "linear/mamba2.tile", "mamba2_forward",
                       "T=%s, TS=%s, P=%d, N=%d, G=%d, SOFTPLUS=%s%s%s%s%s", name_of(a->x), state_type(&states),
                       (int)call_extent(call, "P"), (int)call_extent(call, "N"), group_of(call, "G"), yes(!a->plain_dt),
                       LACKS(a->skip, "Skip"), LACKS(a->dt_bias, "Bias"), LACKS(a->initial_states, "Init"),
                       LACKS(a->final_states, "Last"));
}

kiln_status kiln_mamba2_forward_workspace_size(kiln_ops *ops, const kiln_mamba2_args *a, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_mamba2_forward_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_mamba2(&call, a);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_mamba2_forward(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mamba2_forward", ops, a, sizeof *a);
    if (!status) status = prepare_mamba2(&call, a);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}

static kiln_status check_mamba2_step(Call *call, const kiln_mamba2_step_args *a)
{
    // clang-format off
    const Want wants[] = {
        { IN,          "x",       a->x,       TYPES_FLOAT,       "U[B][R][H][P]" },
        { IN,          "dt",      a->dt,      0,                 "Dt[B][R][H]" },
        { IN,          "a",       a->a,       1 << KILN_F32,     "[H]" },
        { IN,          "b",       a->b,       0,                 "Bm[B][R][G][N]" },
        { IN,          "c",       a->c,       0,                 "C[B][R][G][N]" },
        { IN_OPTIONAL, "skip",    a->skip,    1 << KILN_F32,     "[H]" },
        { IN_OPTIONAL, "dt_bias", a->dt_bias, 1 << KILN_F32,     "[H]" },
        { IN_OPTIONAL, "z",       a->z,       0,                 "Z[B][R][H][P]" },
        { IN_OPTIONAL, "from",    a->from,    1 << KILN_I32,     "[B]" },
        { IN_OPTIONAL, "to",      a->to,      1 << KILN_I32,     "[B][R]" },
        { OUT,         "states",  a->states,  same_or_f32(a->x), "[M][H][P][N]" },
        { OUT,         "out",     a->out,     0,                 "Y[B][R][H][P]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_size(call, "N", SIZE_STEP / 2);
    if (!status) status = check_groups(call, "G", "x", "b");
    if (!status) status = check_count(call, "R", "x", 1, STEP_TOKENS);
    if (!status) status = check_count(call, "P", "x", 1, INT32_MAX);
    return status;
}

kiln_status kiln_mamba2_step(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_step_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mamba2_step", ops, a, sizeof *a);
    if (!status) status = check_mamba2_step(&call, a);
    if (!status)
        status = call_kernel(
            &call, "linear/mamba2.tile", "mamba2_step", "T=%s, TS=%s, P=%d, N=%d, G=%d, R=%d, SOFTPLUS=%s%s%s%s%s%s",
            name_of(a->x), name_of(a->states), (int)call_extent(&call, "P"), (int)call_extent(&call, "N"),
            group_of(&call, "G"), (int)call_extent(&call, "R"), yes(!a->plain_dt), LACKS(a->skip, "Skip"),
            LACKS(a->dt_bias, "Bias"), LACKS(a->z, "Z"), LACKS(a->from, "From"), LACKS(a->to, "To"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- causal convolution

// A state has one token less than a filter, whose size is `filter`'s.
static kiln_status check_filter(Call *call, const kiln_tensor *filter, kiln_activation activation)
{
    const int64_t tokens = filter && filter->rank == 2 ? filter->shape[1] : 2; // else call_check says what is wrong
    const kiln_status status = call_activation(call, (int)activation);
    if (status) return status;
    if (tokens < 2 || tokens > FILTER_TOKENS)
        return call_fail(call, KILN_UNSUPPORTED, "'filter' has W = %" PRId64 ", expected 2 to %d", tokens,
                         FILTER_TOKENS);
    call_bind(call, "W - 1", tokens - 1, "filter");
    return KILN_OK;
}

static kiln_status check_conv(Call *call, const kiln_causal_conv_args *a, const States *states)
{
    const char *const shape = a->offsets ? "[N][W - 1][D]" : "[B][W - 1][D]";
    // clang-format off
    const Want wants[] = {
        { IN,           "x",              a->x,              TYPES_FLOAT,     "X[B][S][D]" },
        { IN,           "filter",         a->filter,         0,               "[D][W]" },
        { IN_OPTIONAL,  "bias",           a->bias,           0,               "[D]" },
        { IN_OPTIONAL,  "offsets",        a->offsets,        1 << KILN_I32,   "[N + 1]" },
        { IN_OPTIONAL,  "initial_states", a->initial_states, states->initial, shape },
        { OUT,          "out",            a->out,            0,               "Y[B][S][D]" },
        { OUT_OPTIONAL, "final_states",   a->final_states,   states->final,   shape },
    };
    // clang-format on
    bind_batch(call, a->offsets);
    const kiln_status status = check_filter(call, a->filter, a->activation);
    return status ? status : call_check(call, wants, COUNT(wants), NULL, NULL, 0);
}

kiln_status kiln_causal_conv(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_causal_conv", ops, a, sizeof *a);
    if (status) return status;
    const States states = states_of(a->x, a->initial_states, a->final_states);
    status = check_conv(&call, a, &states);
    if (!status)
        status = call_kernel(&call, "linear/causal_conv.tile", "causal_conv", "T=%s, TS=%s, W=%d, ACT=%d%s%s%s%s",
                             name_of(a->x), state_type(&states), (int)call_extent(&call, "W"), (int)a->activation,
                             LACKS(a->bias, "Bias"), LACKS(a->offsets, "Offset"), LACKS(a->initial_states, "Init"),
                             LACKS(a->final_states, "Last"));
    if (!status) status = check_offsets(&call, stream, 3);
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_causal_conv_step(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_step_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_causal_conv_step", ops, a, sizeof *a);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "x",      a->x,      TYPES_FLOAT,       "X[B][R][D]" },
        { IN,          "filter", a->filter, 0,                 "[D][W]" },
        { IN_OPTIONAL, "bias",   a->bias,   0,                 "[D]" },
        { IN_OPTIONAL, "from",   a->from,   1 << KILN_I32,     "[B]" },
        { IN_OPTIONAL, "to",     a->to,     1 << KILN_I32,     "[B][R]" },
        { OUT,         "states", a->states, same_or_f32(a->x), "[M][W - 1][D]" },
        { OUT,         "out",    a->out,    0,                 "Y[B][R][D]" },
    };
    // clang-format on
    status = check_filter(&call, a->filter, a->activation);
    if (!status) status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_count(&call, "R", "x", 1, STEP_TOKENS);
    if (!status)
        status = call_kernel(&call, "linear/causal_conv.tile", "causal_conv_step",
                             "T=%s, TS=%s, W=%d, ACT=%d, R=%d%s%s%s", name_of(a->x), name_of(a->states),
                             (int)call_extent(&call, "W"), (int)a->activation, (int)call_extent(&call, "R"),
                             LACKS(a->bias, "Bias"), LACKS(a->from, "From"), LACKS(a->to, "To"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- gradients of a causal convolution

enum { CONV_OFFSETS = 3 };

static kiln_status prepare_conv_backward(Call *call, const kiln_causal_conv_backward_args *a)
{
    States states = states_of(a->x, a->initial_states, a->dfinal_states);
    const unsigned third = third_of(a->x, a->initial_states, a->dfinal_states);
    const char *const shape = a->offsets ? "[N][W - 1][D]" : "[B][W - 1][D]";
    if (!states.any) states.any = a->dinitial_states;
    // clang-format off
    const Want wants[] = {
        { IN,           "x",               a->x,               TYPES_FLOAT,    "X[B][S][D]" },
        { IN,           "filter",          a->filter,          0,              "[D][W]" },
        { IN_OPTIONAL,  "bias",            a->bias,            0,              "[D]" },
        { IN_OPTIONAL,  "offsets",         a->offsets,         1 << KILN_I32,  "[N + 1]" },
        { IN_OPTIONAL,  "initial_states",  a->initial_states,  states.initial, shape },
        { IN,           "dout",            a->dout,            0,              "dY[B][S][D]" },
        { IN_OPTIONAL,  "dfinal_states",   a->dfinal_states,   states.final,   shape },
        { OUT,          "dx",              a->dx,              0,              "dX[B][S][D]" },
        { OUT,          "dfilter",         a->dfilter,         0,              "[D][W]" },
        { OUT_OPTIONAL, "dbias",           a->dbias,           0,              "[D]" },
        { OUT_OPTIONAL, "dinitial_states", a->dinitial_states, third,          shape },
    };
    // clang-format on
    static_assert(CONV_OFFSETS == 3, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = check_filter(call, a->filter, a->activation);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (status) return status;
    return call_kernel(call, "linear/causal_conv.tile", "causal_conv_backward", "T=%s, TS=%s, W=%d, ACT=%d%s%s%s%s%s%s",
                       name_of(a->x), state_type(&states), (int)call_extent(call, "W"), (int)a->activation,
                       LACKS(a->bias, "Bias"), LACKS(a->offsets, "Offset"), LACKS(a->initial_states, "Init"),
                       LACKS(a->dfinal_states, "dLast"), LACKS(a->dbias, "dBias"), LACKS(a->dinitial_states, "dInit"));
}

kiln_status kiln_causal_conv_backward_workspace_size(kiln_ops *ops, const kiln_causal_conv_backward_args *a,
                                                     size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_causal_conv_backward_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_conv_backward(&call, a);
    return status ? status : size_whole(&call, CONV_OFFSETS, bytes);
}

kiln_status kiln_causal_conv_backward(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_backward_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_causal_conv_backward", ops, a, sizeof *a);
    if (!status) status = prepare_conv_backward(&call, a);
    return status ? status : run_whole(&call, stream, CONV_OFFSETS, a->workspace, a->workspace_bytes);
}
