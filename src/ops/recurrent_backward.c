// SPDX-License-Identifier: MIT
// recurrent_backward.c - the gradients of linear attention and of Mamba-2 over kernels/linear.
#include "ops/recurrent_call.h"

// ---- linear attention

enum { LINEAR_OFFSETS = 5 };

static kiln_status prepare_linear(Call *call, const void *args)
{
    const kiln_linear_attention_backward_args *const a = args;
    double scale;
    const char *state;
    const unsigned f32 = 1 << KILN_F32;
    const unsigned types =
        one_type(a->q, (const kiln_tensor *[]){ a->initial_states, a->dfinal_states, a->dinitial_states }, 3, &state);
    const char *const shape = a->offsets ? "[N][H][DK][DV]" : "[B][H][DK][DV]";
    const char *const keys = a->offsets ? "[N][H][DK]" : "[B][H][DK]";
    // clang-format off
    const Want wants[] = {
        { IN,           "q",               a->q,               TYPES_FLOAT,   "Q[B][S][HK][DK]" },
        { IN,           "k",               a->k,               0,             "K[B][S][HK][DK]" },
        { IN,           "v",               a->v,               0,             "V[B][S][H][DV]" },
        { IN_OPTIONAL,  "gates",           a->gates,           f32,           "[B][S][H]" },
        { IN_OPTIONAL,  "decay",           a->decay,           f32,           "[H]" },
        { IN_OPTIONAL,  "offsets",         a->offsets,         1 << KILN_I32, "[N + 1]" },
        { IN_OPTIONAL,  "initial_states",  a->initial_states,  types,         shape },
        { IN_OPTIONAL,  "initial_keys",    a->initial_keys,    f32,           keys },
        { IN_OPTIONAL,  "out",             a->out,             0,             "O[B][S][H][DV]" },
        { IN_OPTIONAL,  "norm",            a->norm,            f32,           "[B][S][H]" },
        { IN,           "dout",            a->dout,            0,             "dO[B][S][H][DV]" },
        { IN_OPTIONAL,  "dfinal_states",   a->dfinal_states,   types,         shape },
        { IN_OPTIONAL,  "dfinal_keys",     a->dfinal_keys,     f32,           keys },
        { OUT,          "dq",              a->dq,              0,             "dQ[B][S][HK][DK]" },
        { OUT,          "dk",              a->dk,              0,             "dK[B][S][HK][DK]" },
        { OUT,          "dv",              a->dv,              0,             "dV[B][S][H][DV]" },
        { OUT_OPTIONAL, "dgates",          a->dgates,          f32,           "[B][S][H]" },
        { OUT_OPTIONAL, "ddecay",          a->ddecay,          f32,           "[H]" },
        { OUT_OPTIONAL, "dinitial_states", a->dinitial_states, types,         shape },
        { OUT_OPTIONAL, "dinitial_keys",   a->dinitial_keys,   f32,           keys },
    };
    // clang-format on
    static_assert(LINEAR_OFFSETS == 5, "its place in the table");
    if (!a->out != !a->norm)
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null, and '%s' is not: a normalised call leaves both",
                         a->out ? "norm" : "out", a->out ? "out" : "norm");
    if (!a->norm && (a->initial_keys || a->dfinal_keys || a->dinitial_keys))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, and 'norm' is null",
                         a->initial_keys  ? "initial_keys"
                         : a->dfinal_keys ? "dfinal_keys"
                                          : "dinitial_keys");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_attention(call, a->scale, &scale);
    if (!status)
        status = call_kernel(call, "linear/linear_attention_backward.tile", "linear_attention_backward",
                             "T=%s, TS=%s, DK=%d, DV=%d, G=%d%s%s%s%s%s%s%s%s%s%s%s%s%s", name_of(a->q), state,
                             (int)call_extent(call, "DK"), (int)call_extent(call, "DV"), group_of(call, "HK"),
                             LACKS(a->gates, "Gi"), LACKS(a->decay, "Decay"), LACKS(a->offsets, "Offset"),
                             LACKS(a->initial_states, "H0"), LACKS(a->initial_keys, "Z0"), LACKS(a->out, "O"),
                             LACKS(a->norm, "Norm"), LACKS(a->dfinal_states, "dHT"), LACKS(a->dfinal_keys, "dZT"),
                             LACKS(a->dgates, "dGi"), LACKS(a->ddecay, "dDecay"), LACKS(a->dinitial_states, "dH0"),
                             LACKS(a->dinitial_keys, "dZ0"));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

static const CallPair linear_attention_backward = {
    .name = "kiln_linear_attention_backward",
    .size_name = "kiln_linear_attention_backward_workspace_size",
    .prepare = prepare_linear,
    .rows = "S",
    .offsets = LINEAR_OFFSETS,
};

kiln_status kiln_linear_attention_backward_workspace_size(kiln_ops *ops, const kiln_linear_attention_backward_args *a,
                                                          size_t *bytes)
{
    return pair_size(&linear_attention_backward, ops, a, FORM(kiln_linear_attention_backward_args), bytes);
}

kiln_status kiln_linear_attention_backward(kiln_ops *ops, kiln_stream *stream,
                                           const kiln_linear_attention_backward_args *a)
{
    return pair_run(&linear_attention_backward, ops, stream, a, FORM(kiln_linear_attention_backward_args));
}

// ---- Mamba-2

enum { MAMBA2_OFFSETS = 9 };

static kiln_status prepare_mamba2(Call *call, const void *args)
{
    const kiln_mamba2_backward_args *const a = args;
    const char *state;
    const unsigned f32 = 1 << KILN_F32;
    const unsigned types =
        one_type(a->x, (const kiln_tensor *[]){ a->initial_states, a->dfinal_states, a->dinitial_states }, 3, &state);
    const char *const shape = a->offsets ? "[E][H][P][N]" : "[B][H][P][N]";
    // clang-format off
    const Want wants[] = {
        { IN,           "x",               a->x,               TYPES_FLOAT,   "U[B][S][H][P]" },
        { IN,           "dt",              a->dt,              0,             "Dt[B][S][H]" },
        { IN,           "a",               a->a,               f32,           "[H]" },
        { IN,           "b",               a->b,               0,             "Bm[B][S][G][N]" },
        { IN,           "c",               a->c,               0,             "Cm[B][S][G][N]" },
        { IN_OPTIONAL,  "skip",            a->skip,            f32,           "[H]" },
        { IN_OPTIONAL,  "dt_bias",         a->dt_bias,         f32,           "[H]" },
        { IN_OPTIONAL,  "z",               a->z,               0,             "Z[B][S][H][P]" },
        { IN_OPTIONAL,  "ungated",         a->ungated,         0,             "Raw[B][S][H][P]" },
        { IN_OPTIONAL,  "offsets",         a->offsets,         1 << KILN_I32, "[E + 1]" },
        { IN_OPTIONAL,  "initial_states",  a->initial_states,  types,         shape },
        { IN,           "dout",            a->dout,            0,             "dOut[B][S][H][P]" },
        { IN_OPTIONAL,  "dfinal_states",   a->dfinal_states,   types,         shape },
        { OUT,          "dx",              a->dx,              0,             "dU[B][S][H][P]" },
        { OUT,          "ddt",             a->ddt,             0,             "dDt[B][S][H]" },
        { OUT,          "da",              a->da,              f32,           "[H]" },
        { OUT,          "db",              a->db,              0,             "dBm[B][S][G][N]" },
        { OUT,          "dc",              a->dc,              0,             "dC[B][S][G][N]" },
        { OUT_OPTIONAL, "dskip",           a->dskip,           f32,           "[H]" },
        { OUT_OPTIONAL, "ddt_bias",        a->ddt_bias,        f32,           "[H]" },
        { OUT_OPTIONAL, "dz",              a->dz,              0,             "dZ[B][S][H][P]" },
        { OUT_OPTIONAL, "dinitial_states", a->dinitial_states, types,         shape },
    };
    // clang-format on
    static_assert(MAMBA2_OFFSETS == 9, "its place in the table");
    if (!a->z != !a->ungated)
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null, and '%s' is not: a gated call leaves both",
                         a->z ? "ungated" : "z", a->z ? "z" : "ungated");
    if (a->dz && !a->z) return call_fail(call, KILN_BAD_ARGUMENT, "'z' is null, but 'dz' is not");
    bind_batch(call, a->offsets);
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_size(call, "N", SIZE_STEP);
    if (!status) status = check_groups(call, "G", "x", "b");
    if (!status) status = check_state(call, a->x);
    if (status) return status;
    return call_kernel(call, "linear/mamba2_backward.tile", "mamba2_backward",
                       "T=%s, TS=%s, P=%d, N=%d, G=%d, SOFTPLUS=%s%s%s%s%s%s%s%s%s%s%s%s", name_of(a->x), state,
                       (int)call_extent(call, "P"), (int)call_extent(call, "N"), group_of(call, "G"), yes(!a->plain_dt),
                       LACKS(a->skip, "Skip"), LACKS(a->dt_bias, "Bias"), LACKS(a->z, "Z"), LACKS(a->ungated, "Raw"),
                       LACKS(a->offsets, "Offset"), LACKS(a->initial_states, "Init"), LACKS(a->dfinal_states, "dLast"),
                       LACKS(a->dskip, "dSkip"), LACKS(a->ddt_bias, "dBias"), LACKS(a->dz, "dZ"),
                       LACKS(a->dinitial_states, "dInit"));
}

static const CallPair mamba2_backward = {
    .name = "kiln_mamba2_backward",
    .size_name = "kiln_mamba2_backward_workspace_size",
    .prepare = prepare_mamba2,
    .rows = "S",
    .offsets = MAMBA2_OFFSETS,
};

kiln_status kiln_mamba2_backward_workspace_size(kiln_ops *ops, const kiln_mamba2_backward_args *a, size_t *bytes)
{
    return pair_size(&mamba2_backward, ops, a, FORM(kiln_mamba2_backward_args), bytes);
}

kiln_status kiln_mamba2_backward(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_backward_args *a)
{
    return pair_run(&mamba2_backward, ops, stream, a, FORM(kiln_mamba2_backward_args));
}
