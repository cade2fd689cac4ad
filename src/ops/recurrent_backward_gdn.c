// SPDX-License-Identifier: MIT
// recurrent_backward_gdn.c - the gradients of the gated delta net and of the causal convolution over kernels/linear.
#include "ops/recurrent_call.h"

#include <stdio.h>

// ---- gated delta net

enum { GDN_OFFSETS = 5 };

// Columns of a state for each instance of the passes that carry it, as measured on an H200 with 132 multiprocessors: 64 where blocks of
// 32 do not fit at once.
static int state_columns(Call *call, const kiln_gdn_backward_args *a)
{
    const int64_t keys = call_extent(call, "DK"), heads = call_extent(call, "B") * call_extent(call, "H");
    if (a->q->type == KILN_F32 || keys != call_extent(call, "DV")) return 32;
    if (a->offsets) return keys < 256 && packed_wide(call, a->offsets, keys) ? 64 : 32;
    return (keys == 64 && heads > 66) || (keys == 128 && heads > 33) ? 64 : 32;
}

static kiln_status prepare_gdn_backward(Call *call, const void *args)
{
    char columns[16] = "";
    const kiln_gdn_backward_args *const a = args;
    double scale;
    const char *state;
    const unsigned types =
        one_type(a->q, (const kiln_tensor *[]){ a->initial_states, a->dfinal_states, a->dinitial_states }, 3, &state);
    const char *const shape = a->offsets ? "[N][H][DK][DV]" : "[B][H][DK][DV]";
    const bool by_channel = is_by_channel(a->gates);
    const char *const gates = by_channel ? "[B][S][H][DK]" : "[B][S][H]";
    const unsigned beta = same_or_f32(a->q);
    const bool is_known = a->beta && (unsigned)a->beta->type <= KILN_BOOL && beta >> a->beta->type & 1;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",               a->q,               TYPES_FLOAT,     "Q[B][S][HK][DK]" },
        { IN,           "k",               a->k,               0,               "K[B][S][HK][DK]" },
        { IN,           "v",               a->v,               0,               "V[B][S][H][DV]" },
        { IN,           "gates",           a->gates,           1 << KILN_F32,   gates },
        { IN,           "beta",            a->beta,            beta,            "[B][S][H]" },
        { IN_OPTIONAL,  "offsets",         a->offsets,         1 << KILN_I32,   "[N + 1]" },
        { IN_OPTIONAL,  "initial_states",  a->initial_states,  types,           shape },
        { IN,           "dout",            a->dout,            0,               "dO[B][S][H][DV]" },
        { IN_OPTIONAL,  "dfinal_states",   a->dfinal_states,   types,           shape },
        { OUT,          "dq",              a->dq,              0,               "dQ[B][S][HK][DK]" },
        { OUT,          "dk",              a->dk,              0,               "dK[B][S][HK][DK]" },
        { OUT,          "dv",              a->dv,              0,               "dV[B][S][H][DV]" },
        { OUT,          "dgates",          a->dgates,          1 << KILN_F32,   gates },
        { OUT,          "dbeta",           a->dbeta,           is_known ? 1U << a->beta->type : beta, "[B][S][H]" },
        { OUT_OPTIONAL, "dinitial_states", a->dinitial_states, types,           shape },
    };
    // clang-format on
    static_assert(GDN_OFFSETS == 5, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status && !by_channel && !ops_on_cpu(call->ops))
        snprintf(columns, sizeof columns, ", BV=%d", state_columns(call, a));
    if (!status)
        status = call_kernel(
            call, by_channel ? "linear/kda_backward.tile" : "linear/gdn_backward.tile",
            by_channel ? "kda_backward" : "gdn_backward", "T=%s, TB=%s, TS=%s, DK=%d, DV=%d, G=%d, NORM=%s%s%s%s%s%s",
            name_of(a->q), name_of(a->beta), state, (int)call_extent(call, "DK"), (int)call_extent(call, "DV"),
            group_of(call, "HK"), yes(a->normalize), columns, LACKS(a->offsets, "Offset"),
            LACKS(a->initial_states, "H0"), LACKS(a->dfinal_states, "dHT"), LACKS(a->dinitial_states, "dH0"));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

static const CallPair gdn_backward = {
    .name = "kiln_gdn_backward",
    .size_name = "kiln_gdn_backward_workspace_size",
    .prepare = prepare_gdn_backward,
    .rows = "S",
    .offsets = GDN_OFFSETS,
};

kiln_status kiln_gdn_backward_workspace_size(kiln_ops *ops, const kiln_gdn_backward_args *a, size_t *bytes)
{
    return pair_size(&gdn_backward, ops, a, FORM(kiln_gdn_backward_args), bytes);
}

kiln_status kiln_gdn_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_backward_args *a)
{
    return pair_run(&gdn_backward, ops, stream, a, FORM(kiln_gdn_backward_args));
}

// ---- causal convolution

enum { CONV_OFFSETS = 3 };

static kiln_status prepare_conv_backward(Call *call, const void *args)
{
    const kiln_causal_conv_backward_args *const a = args;
    const char *state;
    const unsigned types =
        one_type(a->x, (const kiln_tensor *[]){ a->initial_states, a->dfinal_states, a->dinitial_states }, 3, &state);
    const char *const shape = a->offsets ? "[N][W - 1][D]" : "[B][W - 1][D]";
    // clang-format off
    const Want wants[] = {
        { IN,           "x",               a->x,               TYPES_FLOAT,    "X[B][S][D]" },
        { IN,           "filter",          a->filter,          0,              "[D][W]" },
        { IN_OPTIONAL,  "bias",            a->bias,            0,              "[D]" },
        { IN_OPTIONAL,  "offsets",         a->offsets,         1 << KILN_I32,  "[N + 1]" },
        { IN_OPTIONAL,  "initial_states",  a->initial_states,  types,          shape },
        { IN,           "dout",            a->dout,            0,              "dY[B][S][D]" },
        { IN_OPTIONAL,  "dfinal_states",   a->dfinal_states,   types,          shape },
        { OUT,          "dx",              a->dx,              0,              "dX[B][S][D]" },
        { OUT,          "dfilter",         a->dfilter,         0,              "[D][W]" },
        { OUT_OPTIONAL, "dbias",           a->dbias,           0,              "[D]" },
        { OUT_OPTIONAL, "dinitial_states", a->dinitial_states, types,          shape },
    };
    // clang-format on
    static_assert(CONV_OFFSETS == 3, "its place in the table");
    bind_batch(call, a->offsets);
    kiln_status status = check_filter(call, a->filter, a->activation);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (status) return status;
    return call_kernel(call, "linear/causal_conv.tile", "causal_conv_backward", "T=%s, TS=%s, W=%d, ACT=%d%s%s%s%s%s%s",
                       name_of(a->x), state, (int)call_extent(call, "W"), (int)a->activation, LACKS(a->bias, "Bias"),
                       LACKS(a->offsets, "Offset"), LACKS(a->initial_states, "Init"), LACKS(a->dfinal_states, "dLast"),
                       LACKS(a->dbias, "dBias"), LACKS(a->dinitial_states, "dInit"));
}

static const CallPair causal_conv_backward = {
    .name = "kiln_causal_conv_backward",
    .size_name = "kiln_causal_conv_backward_workspace_size",
    .prepare = prepare_conv_backward,
    .rows = "S",
    .offsets = CONV_OFFSETS,
};

kiln_status kiln_causal_conv_backward_workspace_size(kiln_ops *ops, const kiln_causal_conv_backward_args *a,
                                                     size_t *bytes)
{
    return pair_size(&causal_conv_backward, ops, a, FORM(kiln_causal_conv_backward_args), bytes);
}

kiln_status kiln_causal_conv_backward(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_backward_args *a)
{
    return pair_run(&causal_conv_backward, ops, stream, a, FORM(kiln_causal_conv_backward_args));
}
