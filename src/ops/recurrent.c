// SPDX-License-Identifier: MIT
// recurrent.c - the operators of kiln/ops/recurrent.h over kernels/linear.
#include "ops/recurrent_call.h"

#include <stdio.h>

// ---- gated delta net

enum { GDN_OFFSETS = 5, WHOLE_TENSORS = 9, WHOLE_MORE = 3 };

// Tensors of whole sequences of both: `own` is beta or decay; `more` follow the others.
static kiln_status check_whole(Call *call, const kiln_gdn_args *a, const States *states, Want gates, Want own,
                               const Want *more, int n_more, double *scale)
{
    const char *const shape = a->offsets ? "[N][H][DK][DV]" : "[B][H][DK][DV]";
    // clang-format off
    Want wants[WHOLE_TENSORS + WHOLE_MORE] = {
        { IN,           "q",              a->q,              TYPES_FLOAT,     "Q[B][S][HK][DK]" },
        { IN,           "k",              a->k,              0,               "K[B][S][HK][DK]" },
        { IN,           "v",              a->v,              0,               "V[B][S][H][DV]" },
        gates,
        own,
        { IN_OPTIONAL,  "offsets",        a->offsets,        1 << KILN_I32,   "[N + 1]" },
        { IN_OPTIONAL,  "initial_states", a->initial_states, states->initial, shape },
        { OUT,          "out",            a->out,            0,               "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "final_states",   a->final_states,   states->final,   shape },
    };
    // clang-format on
    static_assert(GDN_OFFSETS == 5, "its place in the table");
    assert(n_more <= WHOLE_MORE && "there is room");
    for (int i = 0; i < n_more; i++) wants[WHOLE_TENSORS + i] = more[i];
    bind_batch(call, a->offsets);
    const kiln_status status =
        call_check(call, wants, WHOLE_TENSORS + n_more, "workspace", a->workspace, a->workspace_bytes);
    return status ? status : check_attention(call, a->scale, scale);
}

// Columns of the state for each instance of one kernel that has states and outputs; 0: by two kernels. As measured on an H200 with 132
// multiprocessors: two kernels where the blocks of 32 columns of one fit at once, else the widest blocks that leave fewer rounds. Of
// packed sequences the lengths are not known here.
static int scanned_columns(Call *call, const kiln_gdn_args *a)
{
    const int64_t keys = call_extent(call, "DK"), heads = call_extent(call, "B") * call_extent(call, "H");
    if (ops_on_cpu(call->ops) || a->q->type == KILN_F32 || keys != call_extent(call, "DV")) return 0;
    if (a->offsets) return packed_wide(call, a->offsets, keys) ? 64 : 0;
    if (keys == 256) return heads > 16 ? 64 : 0;
    if (keys == 128) return heads > 66 ? 128 : heads > 33 ? 64 : 0;
    return keys == 64 && heads >= 55 ? 64 : 0;
}

static kiln_status prepare_gdn(Call *call, const void *args)
{
    char wide[16] = "";
    const kiln_gdn_args *const a = args;
    double scale;
    const bool by_channel = is_by_channel(a->gates);
    const States states = states_of(a->q, a->initial_states, a->final_states);
    const Want gates = { IN, "gates", a->gates, 1 << KILN_F32, by_channel ? "[B][S][H][DK]" : "[B][S][H]" };
    const Want beta = { IN, "beta", a->beta, same_or_f32(a->q), "[B][S][H]" };
    kiln_status status = check_whole(call, a, &states, gates, beta, NULL, 0, &scale);
    if (!status && !by_channel) snprintf(wide, sizeof wide, ", WIDE=%d", scanned_columns(call, a));
    if (!status)
        status = call_kernel(call, by_channel ? "linear/kda.tile" : "linear/gdn.tile",
                             by_channel ? "kda_forward" : "gdn_forward",
                             "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, NORM=%s%s%s%s%s", name_of(a->q), name_of(a->beta),
                             state_type(&states), (int)call_extent(call, "DK"), (int)call_extent(call, "DV"),
                             group_of(call, "HK"), yes(a->normalize), wide, LACKS(a->offsets, "Offset"),
                             LACKS(a->initial_states, "H0"), LACKS(a->final_states, "HT"));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

static const CallPair gdn_forward = {
    .name = "kiln_gdn_forward",
    .size_name = "kiln_gdn_forward_workspace_size",
    .prepare = prepare_gdn,
    .rows = "S",
    .offsets = GDN_OFFSETS,
};

kiln_status kiln_gdn_forward_workspace_size(kiln_ops *ops, const kiln_gdn_args *a, size_t *bytes)
{
    return pair_size(&gdn_forward, ops, a, FORM(kiln_gdn_args), bytes);
}

kiln_status kiln_gdn_forward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_args *a)
{
    return pair_run(&gdn_forward, ops, stream, a, FORM(kiln_gdn_args));
}

// ---- linear attention

static kiln_status prepare_linear(Call *call, const void *args)
{
    const kiln_linear_attention_args *const a = args;
    double scale;
    const States states = states_of(a->q, a->initial_states, a->final_states);
    const kiln_tensor *const lost = a->initial_keys ? a->initial_keys : a->final_keys ? a->final_keys : a->norm;
    const char *const shape = a->offsets ? "[N][H][DK]" : "[B][H][DK]";
    const Want gates = { IN_OPTIONAL, "gates", a->gates, 1 << KILN_F32, "[B][S][H]" };
    const Want decay = { IN_OPTIONAL, "decay", a->decay, 1 << KILN_F32, "[H]" };
    const Want more[WHOLE_MORE] = { { IN_OPTIONAL, "initial_keys", a->initial_keys, 1 << KILN_F32, shape },
                                    { OUT_OPTIONAL, "final_keys", a->final_keys, 1 << KILN_F32, shape },
                                    { OUT_OPTIONAL, "norm", a->norm, 1 << KILN_F32, "[B][S][H]" } };
    if (lost && !a->normalize)
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, and 'normalize' is false",
                         lost == a->initial_keys ? "initial_keys"
                         : lost == a->final_keys ? "final_keys"
                                                 : "norm");
    kiln_status status = check_whole(call,
                                     &(kiln_gdn_args){ .q = a->q,
                                                       .k = a->k,
                                                       .v = a->v,
                                                       .gates = a->gates,
                                                       .offsets = a->offsets,
                                                       .initial_states = a->initial_states,
                                                       .out = a->out,
                                                       .final_states = a->final_states,
                                                       .scale = a->scale,
                                                       .workspace = a->workspace,
                                                       .workspace_bytes = a->workspace_bytes },
                                     &states, gates, decay, more, a->normalize ? WHOLE_MORE : 0, &scale);
    if (!status)
        status = call_kernel(
            call, a->normalize ? "linear/linear_attention_normalized.tile" : "linear/linear_attention.tile",
            a->normalize ? "linear_attention_normalized" : "linear_attention",
            "T=%s, TS=%s, DK=%d, DV=%d, G=%d%s%s%s%s%s%s%s%s", name_of(a->q), state_type(&states),
            (int)call_extent(call, "DK"), (int)call_extent(call, "DV"), group_of(call, "HK"), LACKS(a->gates, "Gi"),
            LACKS(a->decay, "Decay"), LACKS(a->offsets, "Offset"), LACKS(a->initial_states, "H0"),
            LACKS(a->final_states, "HT"), a->normalize ? LACKS(a->initial_keys, "Z0") : "",
            a->normalize ? LACKS(a->final_keys, "ZT") : "", a->normalize ? LACKS(a->norm, "Norm") : "");
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

static const CallPair linear_attention_forward = {
    .name = "kiln_linear_attention_forward",
    .size_name = "kiln_linear_attention_forward_workspace_size",
    .prepare = prepare_linear,
    .rows = "S",
    .offsets = GDN_OFFSETS,
};

kiln_status kiln_linear_attention_forward_workspace_size(kiln_ops *ops, const kiln_linear_attention_args *a,
                                                         size_t *bytes)
{
    return pair_size(&linear_attention_forward, ops, a, FORM(kiln_linear_attention_args), bytes);
}

kiln_status kiln_linear_attention_forward(kiln_ops *ops, kiln_stream *stream, const kiln_linear_attention_args *a)
{
    return pair_run(&linear_attention_forward, ops, stream, a, FORM(kiln_linear_attention_args));
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
        { IN_OPTIONAL,                      "norm",   NULL,      1 << KILN_F32,     "[B][R][H]" },
        { OUT,                              "states", a->states, same_or_f32(a->q), "[M][H][DK][DV]" },
        { OUT,                              "out",    a->out,    0,                 "O[B][R][H][DV]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status) status = check_count(call, "R", "q", 1, STEP_TOKENS);
    if (!status)
        status = call_kernel(call, "linear/step.tile", "recurrent_step",
                             "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, R=%d, DELTA=%s, NORM=%s, Norm=none%s%s%s%s%s",
                             name_of(a->q), a->beta ? name_of(a->beta) : "f32", name_of(a->states),
                             (int)call_extent(call, "DK"), (int)call_extent(call, "DV"), group_of(call, "HK"),
                             (int)call_extent(call, "R"), yes(is_delta), yes(a->normalize), LACKS(a->gates, "Gi"),
                             LACKS(decay, "Decay"), LACKS(a->beta, "Beta"), LACKS(a->from, "From"), LACKS(a->to, "To"));
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
    kiln_status status = call_begin(&call, "kiln_gdn_step", ops, a, FORM(kiln_gdn_step_args));
    if (call_again(&call, stream, &status)) return status;
    return is_by_channel(a->gates) ? step_by_channel(&call, stream, a) : step(&call, stream, a, NULL, true);
}

// Normalised by sums of keys, which are beside the states.
static kiln_status step_normalized(Call *call, kiln_stream *stream, const kiln_linear_attention_step_args *a)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,          "q",      a->q,      TYPES_FLOAT,       "Q[B][R][HK][DK]" },
        { IN,          "k",      a->k,      0,                 "K[B][R][HK][DK]" },
        { IN,          "v",      a->v,      0,                 "V[B][R][H][DV]" },
        { IN_OPTIONAL, "gates",  a->gates,  1 << KILN_F32,     "[B][R][H]" },
        { IN_OPTIONAL, "decay",  a->decay,  1 << KILN_F32,     "[H]" },
        { IN_OPTIONAL, "from",   a->from,   1 << KILN_I32,     "[B]" },
        { IN_OPTIONAL, "to",     a->to,     1 << KILN_I32,     "[B][R]" },
        { OUT,         "states", a->states, same_or_f32(a->q), "[M][H][DK][DV]" },
        { OUT,         "keys",   a->keys,   1 << KILN_F32,     "[M][H][DK]" },
        { OUT,         "out",    a->out,    0,                 "O[B][R][H][DV]" },
        { OUT,         "norm",   a->norm,   1 << KILN_F32,     "[B][R][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status) status = check_count(call, "R", "q", 1, STEP_TOKENS);
    if (!status)
        status = call_kernel(call, "linear/step.tile", "linear_step_normalized",
                             "T=%s, TS=%s, DK=%d, DV=%d, G=%d, R=%d%s%s%s%s", name_of(a->q), name_of(a->states),
                             (int)call_extent(call, "DK"), (int)call_extent(call, "DV"), group_of(call, "HK"),
                             (int)call_extent(call, "R"), LACKS(a->gates, "Gi"), LACKS(a->decay, "Decay"),
                             LACKS(a->from, "From"), LACKS(a->to, "To"));
    if (status) return status;
    call_add(call, KILN_FLOAT(scale));
    return call_run(call, stream, NULL, 0);
}

kiln_status kiln_linear_attention_step(kiln_ops *ops, kiln_stream *stream, const kiln_linear_attention_step_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_linear_attention_step", ops, a, FORM(kiln_linear_attention_step_args));
    if (call_again(&call, stream, &status)) return status;
    if (a->keys || a->norm) return step_normalized(&call, stream, a);
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

enum { MAMBA2_OFFSETS = 8 };

// By one scan, which writes no states, where that was measured: heads of 64 and states of 128, not packed, without a gate.
static bool scans_mamba2(const Call *call, const kiln_mamba2_args *a)
{
    return !ops_on_cpu(call->ops) && a->x->type != KILN_F32 && !a->offsets && !a->z && call_extent(call, "P") == 64 &&
           call_extent(call, "N") == 128;
}

static kiln_status prepare_mamba2(Call *call, const void *args)
{
    const kiln_mamba2_args *const a = args;
    const States states = states_of(a->x, a->initial_states, a->final_states);
    const char *const shape = a->offsets ? "[E][H][P][N]" : "[B][H][P][N]";
    // clang-format off
    const Want wants[] = {
        { IN,           "x",              a->x,              TYPES_FLOAT,    "U[B][S][H][P]" },
        { IN,           "dt",             a->dt,             0,              "Dt[B][S][H]" },
        { IN,           "a",              a->a,              1 << KILN_F32,  "[H]" },
        { IN,           "b",              a->b,              0,              "Bm[B][S][G][N]" },
        { IN,           "c",              a->c,              0,              "C[B][S][G][N]" },
        { IN_OPTIONAL,  "skip",           a->skip,           1 << KILN_F32,  "[H]" },
        { IN_OPTIONAL,  "dt_bias",        a->dt_bias,        1 << KILN_F32,  "[H]" },
        { IN_OPTIONAL,  "z",              a->z,              0,              "Z[B][S][H][P]" },
        { IN_OPTIONAL,  "offsets",        a->offsets,        1 << KILN_I32,  "[E + 1]" },
        { IN_OPTIONAL,  "initial_states", a->initial_states, states.initial, shape },
        { OUT,          "out",            a->out,            0,              "Y[B][S][H][P]" },
        { OUT_OPTIONAL, "ungated",        a->ungated,        0,              "Raw[B][S][H][P]" },
        { OUT_OPTIONAL, "final_states",   a->final_states,   states.final,   shape },
    };
    // clang-format on
    static_assert(MAMBA2_OFFSETS == 8, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_size(call, "N", SIZE_STEP);
    if (!status) status = check_groups(call, "G", "x", "b");
    if (!status) status = check_state(call, a->x);
    if (!status && a->ungated && !a->z)
        status = call_fail(call, KILN_BAD_ARGUMENT, "'z' is null, but 'ungated' is not");
    if (status) return status;
    return call_kernel(call, "linear/mamba2.tile", "mamba2_forward",
                       "T=%s, TS=%s, P=%d, N=%d, G=%d, SOFTPLUS=%s, SCAN=%s%s%s%s%s%s%s%s", name_of(a->x),
                       state_type(&states), (int)call_extent(call, "P"), (int)call_extent(call, "N"),
                       group_of(call, "G"), yes(!a->plain_dt), yes(scans_mamba2(call, a)), LACKS(a->skip, "Skip"),
                       LACKS(a->dt_bias, "Bias"), LACKS(a->z, "Z"), LACKS(a->offsets, "Offset"),
                       LACKS(a->initial_states, "Init"), LACKS(a->ungated, "Raw"), LACKS(a->final_states, "Last"));
}

static const CallPair mamba2_forward = {
    .name = "kiln_mamba2_forward",
    .size_name = "kiln_mamba2_forward_workspace_size",
    .prepare = prepare_mamba2,
    .rows = "S",
    .offsets = MAMBA2_OFFSETS,
};

kiln_status kiln_mamba2_forward_workspace_size(kiln_ops *ops, const kiln_mamba2_args *a, size_t *bytes)
{
    return pair_size(&mamba2_forward, ops, a, FORM(kiln_mamba2_args), bytes);
}

kiln_status kiln_mamba2_forward(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_args *a)
{
    return pair_run(&mamba2_forward, ops, stream, a, FORM(kiln_mamba2_args));
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
    kiln_status status = call_begin(&call, "kiln_mamba2_step", ops, a, FORM(kiln_mamba2_step_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_mamba2_step(&call, a);
    if (!status)
        status = call_kernel(
            &call, "linear/mamba2.tile", "mamba2_step", "T=%s, TS=%s, P=%d, N=%d, G=%d, R=%d, SOFTPLUS=%s%s%s%s%s%s",
            name_of(a->x), name_of(a->states), (int)call_extent(&call, "P"), (int)call_extent(&call, "N"),
            group_of(&call, "G"), (int)call_extent(&call, "R"), yes(!a->plain_dt), LACKS(a->skip, "Skip"),
            LACKS(a->dt_bias, "Bias"), LACKS(a->z, "Z"), LACKS(a->from, "From"), LACKS(a->to, "To"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- causal convolution

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
    kiln_status status = call_begin(&call, "kiln_causal_conv", ops, a, FORM(kiln_causal_conv_args));
    if (call_again(&call, stream, &status)) return status;
    const States states = states_of(a->x, a->initial_states, a->final_states);
    status = check_conv(&call, a, &states);
    if (!status)
        status = call_kernel(&call, "linear/causal_conv.tile", "causal_conv", "T=%s, TS=%s, W=%d, ACT=%d%s%s%s%s",
                             name_of(a->x), state_type(&states), (int)call_extent(&call, "W"), (int)a->activation,
                             LACKS(a->bias, "Bias"), LACKS(a->offsets, "Offset"), LACKS(a->initial_states, "Init"),
                             LACKS(a->final_states, "Last"));
    if (!status) status = call_check_offsets(&call, stream, 3, call_extent(&call, "S"), INT32_MAX);
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_causal_conv_step(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_step_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_causal_conv_step", ops, a, FORM(kiln_causal_conv_step_args));
    if (call_again(&call, stream, &status)) return status;
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
