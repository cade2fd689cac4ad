// SPDX-License-Identifier: MIT
// recurrent_gates.c - what a gated delta net's layer makes its gates from, over kernels/linear/gates.tile.
#include "ops/recurrent_call.h"

// A gate for each channel of a key: the heads of a row lie one after the other, and rows do not lie apart.
static bool is_of_channels(const kiln_tensor *a) { return a && a->rank == 3; }

// Tensor i without its last dimension, which is counted with the one before it, as kernels have it.
static void join_channels(Call *call, int i)
{
    const kiln_tensor *const given = call->tensors[i];
    if (!given) return;
    kiln_tensor flat = *given;
    flat.rank = given->rank - 1;
    flat.shape[flat.rank - 1] *= given->shape[flat.rank];
    flat.has_strides = false;
    call->copies[i] = flat;
    call->tensors[i] = &call->copies[i];
}

static kiln_status check_heads(const Call *call, bool by_channel)
{
    const kiln_status status = check_count(call, "H", "a", 1, INT32_MAX);
    return status || !by_channel ? status : check_size(call, "DK", SIZE_STEP);
}

static int channels_of(const Call *call, bool by_channel) { return by_channel ? (int)call_extent(call, "DK") : 1; }

static kiln_status prepare_gates(Call *call, const kiln_gdn_gates_args *a)
{
    const bool each = is_of_channels(a->a);
    // clang-format off
    const Want wants[] = {
        { IN,          "a",       a->a,       TYPES_FLOAT,       each ? "[M][H][DK]" : "A[M][H]" },
        { IN,          "b",       a->b,       0,                 "B[M][H]" },
        { IN,          "a_log",   a->a_log,   1 << KILN_F32,     "[H]" },
        { IN_OPTIONAL, "dt_bias", a->dt_bias, 1 << KILN_F32,     each ? "[H][DK]" : "[H]" },
        { OUT,         "gates",   a->gates,   1 << KILN_F32,     each ? "[M][H][DK]" : "[M][H]" },
        { OUT,         "beta",    a->beta,    same_or_f32(a->a), "[M][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_heads(call, each);
    if (status) return status;
    for (int i = 0; each && i < (int)COUNT(wants); i++)
        if (strstr(wants[i].shape, "[DK]")) join_channels(call, i);
    return call_kernel(call, "linear/gates.tile", "delta_gates", "T=%s, TB=%s, D=%d, DOUBLE=%s%s", name_of(a->a),
                       name_of(a->beta), channels_of(call, each), yes(a->double_beta), LACKS(a->dt_bias, "Bias"));
}

kiln_status kiln_gdn_gates(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_gates_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_gdn_gates", ops, a, FORM(kiln_gdn_gates_args));
    if (call_again(&call, stream, &status)) return status;
    status = prepare_gates(&call, a);
    return status ? status : call_run(&call, stream, NULL, 0);
}

static kiln_status prepare_gates_backward(Call *call, const void *args)
{
    const kiln_gdn_gates_backward_args *const a = args;
    const bool each = is_of_channels(a->a);
    const char *const all = each ? "[M][H][DK]" : "[M][H]", *const one = each ? "[H][DK]" : "[H]";
    const unsigned f32 = 1 << KILN_F32;
    // clang-format off
    const Want wants[] = {
        { IN,           "a",        a->a,        TYPES_FLOAT,       each ? all : "A[M][H]" },
        { IN,           "b",        a->b,        0,                 "B[M][H]" },
        { IN,           "a_log",    a->a_log,    f32,               "[H]" },
        { IN_OPTIONAL,  "dt_bias",  a->dt_bias,  f32,               one },
        { IN,           "dgates",   a->dgates,   f32,               all },
        { IN,           "dbeta",    a->dbeta,    same_or_f32(a->a), "[M][H]" },
        { OUT,          "da",       a->da,       0,                 each ? all : "dA[M][H]" },
        { OUT,          "db",       a->db,       0,                 "dB[M][H]" },
        { OUT,          "da_log",   a->da_log,   f32,               "[H]" },
        { OUT_OPTIONAL, "ddt_bias", a->ddt_bias, f32,               one },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, each);
    if (status) return status;
    for (int i = 0; each && i < (int)COUNT(wants); i++)
        if (strstr(wants[i].shape, "[DK]")) join_channels(call, i);
    return call_kernel(call, "linear/gates.tile", "delta_gates_gradients", "T=%s, TB=%s, D=%d, DOUBLE=%s%s%s",
                       name_of(a->a), name_of(a->dbeta), channels_of(call, each), yes(a->double_beta),
                       LACKS(a->dt_bias, "Bias"), LACKS(a->ddt_bias, "dBias"));
}

static const CallPair gdn_gates_backward = {
    .name = "kiln_gdn_gates_backward",
    .size_name = "kiln_gdn_gates_backward_workspace_size",
    .prepare = prepare_gates_backward,
};

kiln_status kiln_gdn_gates_backward_workspace_size(kiln_ops *ops, const kiln_gdn_gates_backward_args *a, size_t *bytes)
{
    return pair_size(&gdn_gates_backward, ops, a, FORM(kiln_gdn_gates_backward_args), bytes);
}

kiln_status kiln_gdn_gates_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_gates_backward_args *a)
{
    return pair_run(&gdn_gates_backward, ops, stream, a, FORM(kiln_gdn_gates_backward_args));
}
