// SPDX-License-Identifier: MIT
// nn.c - the operators of kiln/ops/nn.h over kernels/norm, kernels/nn, kernels/cast, kernels/transform and kernels/conv.
#include "kiln/ops/gemm.h"
#include "kiln/ops/nn.h"
#include "ops/call.h"
#include "ops/rotary.h"

#include <inttypes.h>
#include <math.h>

enum {
    NORM_LONGEST = 16384,     // elements of a row, which registers hold
    GATED_LONGEST = 8192,     // of a gated norm, whose gradient holds more of them
    HADAMARD_LONGEST = 32768, // in shared memory
    FEW = 64,                 // elements of a line of a filter that one step multiplies
    FEW_ON_CPU = 256,
    LINES_TILE = 16,    // rows and columns of pixels of a tile that reads lines in shared memory,
    LINES_COLUMNS = 64, // and its filters
};

// The types that a tensor may have beside its call's first one.
static unsigned same_or(const kiln_tensor *first, unsigned others)
{
    const bool is_known = first && (unsigned)first->type <= KILN_BOOL;
    return (is_known ? TYPES_FLOAT & 1U << first->type : TYPES_FLOAT) | others;
}

static kiln_status check_least(const Call *call, const char *letter, const char *tensor)
{
    return call_extent(call, letter) >= 1
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'%s' has %s = 0, expected at least 1", tensor, letter);
}

static kiln_status check_all(Call *call, const Want *wants, int n) { return call_check(call, wants, n, NULL, NULL, 0); }

// ---- norms

static kiln_status check_eps(const Call *call, double eps)
{
    return eps >= 0 && !isinf((float)eps)
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'eps' is %g, expected a finite number of at least 0", eps);
}

static kiln_status check_norm(Call *call, const kiln_norm_args *a)
{
    const bool is_narrow = a->out && (a->out->type == KILN_E4M3 || a->out->type == KILN_I8);
    const unsigned results = same_or(a->x, 1U << KILN_E4M3 | 1U << KILN_I8);
    // clang-format off
    const Want wants[] = {
        { IN,           "x",         a->x,         TYPES_FLOAT,   "X[M][N]" },
        { IN_OPTIONAL,  "residual",  a->residual,  0,             "RES[M][N]" },
        { IN_OPTIONAL,  "weight",    a->weight,    0,             "[N]" },
        { IN_OPTIONAL,  "bias",      a->bias,      0,             "[N]" },
        { OUT,          "out",       a->out,       results,       "Y[M][N]" },
        { OUT_OPTIONAL, "sum",       a->sum,       0,             "SUM[M][N]" },
        { OUT_OPTIONAL, "out_scale", a->out_scale, 1 << KILN_F32, "[M]" },
    };
    // clang-format on
    kiln_status status = check_all(call, wants, COUNT(wants));
    if (!status) status = check_least(call, "N", "x");
    if (status) return status;
    if (call_extent(call, "N") > NORM_LONGEST)
        return call_fail(call, KILN_UNSUPPORTED, "'x' has rows of N = %" PRId64 " elements, expected at most %d",
                         call_extent(call, "N"), NORM_LONGEST);
    if (is_narrow != (a->out_scale != NULL))
        return call_fail(call, KILN_BAD_ARGUMENT, "'out_scale' is %s, but 'out' is a tensor of %s",
                         a->out_scale ? "not null" : "null", kiln_type_name(a->out->type));
    return check_eps(call, a->eps);
}

static int width_of(int64_t n)
{
    int width = 256;
    while (width < n) width *= 2;
    return width;
}

static kiln_status norm(const char *name, kiln_ops *ops, kiln_stream *stream, const kiln_norm_args *a, bool center)
{
    Call call;
    kiln_status status = call_begin(&call, name, ops, a, FORM(kiln_norm_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_norm(&call, a);
    if (!status)
        status = call_kernel(&call, "norm/fused.tile", "norm", "T=%s, TY=%s, CENTER=%s, WIDTH=%d%s%s%s%s%s",
                             kiln_type_name(a->x->type), kiln_type_name(a->out->type), yes(center),
                             width_of(call_extent(&call, "N")), LACKS(a->residual, "RES"), LACKS(a->weight, "W"),
                             LACKS(a->bias, "B"), LACKS(a->sum, "SUM"), LACKS(a->out_scale, "SCALE"));
    if (status) return status;
    call_add(&call, KILN_FLOAT(a->eps));
    return call_run(&call, stream, NULL, 0);
}

kiln_status kiln_rms_norm(kiln_ops *ops, kiln_stream *stream, const kiln_norm_args *args)
{
    return norm("kiln_rms_norm", ops, stream, args, false);
}

kiln_status kiln_layer_norm(kiln_ops *ops, kiln_stream *stream, const kiln_norm_args *args)
{
    return norm("kiln_layer_norm", ops, stream, args, true);
}

// A weight of all groups is one of as many rows as there are: one.
static const kiln_tensor *rows_of_weight(Call *call, const kiln_tensor *weight)
{
    return call_with_batch(call, weight, 2);
}

static const char *weight_shape(const kiln_tensor *weight) { return weight && weight->rank == 2 ? "[G][N]" : "[1][N]"; }

static int least_width(int64_t n)
{
    int width = 64;
    while (width < n) width *= 2;
    return width;
}

static kiln_status check_gated(const Call *call, const kiln_tensor *x, double eps)
{
    const int longest = x->type == KILN_F32 ? GATED_LONGEST / 2 : GATED_LONGEST;
    const kiln_status status = check_least(call, "N", "x");
    if (status) return status;
    if (call_extent(call, "N") > longest)
        return call_fail(call, KILN_UNSUPPORTED, "'x' has groups of N = %" PRId64 " elements, expected at most %d",
                         call_extent(call, "N"), longest);
    return check_eps(call, eps);
}

kiln_status kiln_gated_norm(kiln_ops *ops, kiln_stream *stream, const kiln_gated_norm_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_gated_norm", ops, a, FORM(kiln_gated_norm_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][G][N]" },
                           { IN_OPTIONAL, "z", a->z, 0, "Z[M][G][N]" },
                           { IN_OPTIONAL, "weight", rows_of_weight(&call, a->weight), 0, weight_shape(a->weight) },
                           { OUT, "out", a->out, 0, "Y[M][G][N]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = check_gated(&call, a->x, a->eps);
    if (!status)
        status = call_kernel(&call, "norm/gated.tile", "gated_norm", "T=%s, WIDTH=%d, FIRST=%s, SIGMOID=%s%s%s",
                             kiln_type_name(a->x->type), least_width(call_extent(&call, "N")), yes(a->gate_first),
                             yes(a->sigmoid), LACKS(a->z, "Z"), LACKS(a->weight, "W"));
    if (status) return status;
    call_add(&call, KILN_FLOAT(a->eps));
    return call_run(&call, stream, NULL, 0);
}

static kiln_status prepare_gated_backward(Call *call, const void *args)
{
    const kiln_gated_norm_backward_args *const a = args;
    // clang-format off
    const Want wants[] = {
        { IN,           "x",         a->x,                             TYPES_FLOAT, "X[M][G][N]" },
        { IN_OPTIONAL,  "z",         a->z,                             0,           "Z[M][G][N]" },
        { IN_OPTIONAL,  "weight",    rows_of_weight(call, a->weight),  0,           weight_shape(a->weight) },
        { IN,           "dout",      a->dout,                          0,           "dY[M][G][N]" },
        { IN_OPTIONAL,  "dresidual", a->dresidual,                     0,           "dRes[M][G][N]" },
        { OUT,          "dx",        a->dx,                            0,           "dX[M][G][N]" },
        { OUT_OPTIONAL, "dz",        a->dz,                            0,           "dZ[M][G][N]" },
        { OUT_OPTIONAL, "dweight",   rows_of_weight(call, a->dweight), 0,           weight_shape(a->weight) },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status && a->dz && !a->z) status = call_fail(call, KILN_BAD_ARGUMENT, "'z' is null, but 'dz' is not");
    if (!status && a->dweight && !a->weight)
        status = call_fail(call, KILN_BAD_ARGUMENT, "'weight' is null, but 'dweight' is not");
    if (!status) status = check_gated(call, a->x, a->eps);
    if (!status)
        status = call_kernel(call, "norm/gated.tile", "gated_norm_gradients",
                             "T=%s, WIDTH=%d, FIRST=%s, SIGMOID=%s%s%s%s%s%s", kiln_type_name(a->x->type),
                             least_width(call_extent(call, "N")), yes(a->gate_first), yes(a->sigmoid), LACKS(a->z, "Z"),
                             LACKS(a->weight, "W"), LACKS(a->dresidual, "dRes"), LACKS(a->dz, "dZ"),
                             LACKS(a->dweight, "dW"));
    if (!status) call_add(call, KILN_FLOAT(a->eps));
    return status;
}

static const CallPair gated_norm_backward = {
    .name = "kiln_gated_norm_backward",
    .size_name = "kiln_gated_norm_backward_workspace_size",
    .prepare = prepare_gated_backward,
};

kiln_status kiln_gated_norm_backward_workspace_size(kiln_ops *ops, const kiln_gated_norm_backward_args *a,
                                                    size_t *bytes)
{
    return pair_size(&gated_norm_backward, ops, a, FORM(kiln_gated_norm_backward_args), bytes);
}

kiln_status kiln_gated_norm_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gated_norm_backward_args *a)
{
    return pair_run(&gated_norm_backward, ops, stream, a, FORM(kiln_gated_norm_backward_args));
}

// ---- rotary embedding

static kiln_status check_rotary(Call *call, const kiln_rotary_embedding_args *a, Rotary *r)
{
    const kiln_rotary otherwise = { .style = KILN_ROTARY_HALVES }, *const given = a->rotary ? a->rotary : &otherwise;
    const Want wants[] = { { OUT, "x", a->x, TYPES_FLOAT, "X[tokens][H][D]" },
                           { IN, "positions", a->positions, 1 << KILN_I32, "POSITION[tokens]" },
                           { IN_OPTIONAL, "lengths", a->lengths, 1 << KILN_I32, "LENGTH[tokens]" } };
    kiln_status status = check_all(call, wants, COUNT(wants));
    return status
               ? status
               : rotary_take_positions(call, given, call_extent(call, "D"), a->trained_length, a->lengths != NULL, r);
}

kiln_status kiln_rotary_embedding(kiln_ops *ops, kiln_stream *stream, const kiln_rotary_embedding_args *a)
{
    Call call;
    Rotary r;
    kiln_status status = call_begin(&call, "kiln_rotary_embedding", ops, a, FORM(kiln_rotary_embedding_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_rotary(&call, a, &r);
    if (!status)
        status = call_kernel(&call, "nn/rotary.tile", "rotary", "T=%s, D=%d, SIZE=%d, OFFSET=%d, STYLE=%d, BACK=%s%s",
                             kiln_type_name(a->x->type), (int)call_extent(&call, "D"), (int)r.size, (int)r.offset,
                             (int)r.style, yes(a->backward), LACKS(a->lengths, "LENGTH"));
    if (status) return status;
    rotary_add(&call, &r, a->trained_length);
    return call_run(&call, stream, NULL, 0);
}

// ---- activations

// Dense tensors of the table as one row each: tiles are whole then, whatever N is.
static void take_as_one_row(Call *call, int n)
{
    const int64_t rows = call_extent(call, "M"), columns = call_extent(call, "N");
    if (ops_on_cpu(call->ops) || rows <= 1 || columns <= 0 || rows > INT32_MAX / columns) return;
    for (int i = 0; i < n; i++) {
        const kiln_tensor *const t = call->tensors[i];
        if (t && t->has_strides && (t->strides[0] != columns || t->strides[1] != 1)) return;
    }
    for (int i = 0; i < n; i++) {
        if (!call->tensors[i]) continue;
        kiln_tensor flat = *call->tensors[i];
        flat.shape[0] = 1, flat.shape[1] = rows * columns, flat.has_strides = false;
        call->tensors[i] = call_keep(call, &flat);
    }
}

kiln_status kiln_activate(kiln_ops *ops, kiln_stream *stream, const kiln_activate_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_activate", ops, a, FORM(kiln_activate_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "gate", a->gate, TYPES_FLOAT, "G[M][N]" },
                           { IN_OPTIONAL, "up", a->up, 0, "U[M][N]" },
                           { OUT, "out", a->out, 0, "Y[M][N]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = call_activation(&call, (int)a->activation);
    if (!status) take_as_one_row(&call, COUNT(wants));
    if (!status)
        status = call_kernel(&call, "nn/activation.tile", "gated", "T=%s, ACT=%d%s", kiln_type_name(a->gate->type),
                             (int)a->activation, LACKS(a->up, "U"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_activate_backward(kiln_ops *ops, kiln_stream *stream, const kiln_activate_backward_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_activate_backward", ops, a, FORM(kiln_activate_backward_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "gate", a->gate, TYPES_FLOAT, "G[M][N]" },
                           { IN_OPTIONAL, "up", a->up, 0, "U[M][N]" },
                           { IN, "dout", a->dout, 0, "DY[M][N]" },
                           { OUT, "dgate", a->dgate, 0, "DG[M][N]" },
                           { OUT_OPTIONAL, "dup", a->dup, 0, "DU[M][N]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = call_activation(&call, (int)a->activation);
    if (!status && a->dup && !a->up) status = call_fail(&call, KILN_BAD_ARGUMENT, "'up' is null, but 'dup' is not");
    if (!status) take_as_one_row(&call, COUNT(wants));
    if (!status)
        status = call_kernel(&call, "nn/activation.tile", "gated_backward", "T=%s, ACT=%d%s%s",
                             kiln_type_name(a->gate->type), (int)a->activation, LACKS(a->up, "U"), LACKS(a->dup, "DU"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- rows: softmax, cross entropy, embedding, argmax

// As much of a row as a multiprocessor holds, where that is all of it; of longer ones as much as registers hold.
static int softmax_columns(const Call *call, kiln_type type)
{
    enum { LEAST = 4096, IN_SHARED_MEMORY = 32768, IN_REGISTERS = 32768 }; // elements; bytes of them in registers
    const int64_t n = call_extent(call, "N");
    if (ops_on_cpu(call->ops)) return 1024;
    if (n > IN_SHARED_MEMORY) return IN_REGISTERS / (kiln_type_bits(type) / 8);
    return n < LEAST ? LEAST : width_of(n);
}

// Of more than five of its pieces, which divide whole tensors' rows.
static bool is_long_softmax(const Call *call, int64_t n, kiln_type type)
{
    enum { LONG = 5 * 256 * 64, COLUMNS = 64 }; // elements
    const bool strided = call->table.tensors[0].strided || call->table.tensors[1].strided;
    return !ops_on_cpu(call->ops) && !strided && kiln_type_bits(type) == 16 && n > LONG && n % COLUMNS == 0;
}

kiln_status kiln_softmax(kiln_ops *ops, kiln_stream *stream, const kiln_softmax_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_softmax", ops, a, FORM(kiln_softmax_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][N]" }, { OUT, "out", a->out, TYPES_FLOAT, "Y[M][N]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = check_least(&call, "N", "x");
    if (!status && is_long_softmax(&call, call_extent(&call, "N"), a->x->type)) {
        status = call_kernel(&call, "norm/softmax.tile", "softmax_long",
                             "T=%s, TY=%s, LABEL=none, DLOSS=none, LOSS=none, LSE=none", kiln_type_name(a->x->type),
                             kiln_type_name(a->out->type));
        for (int i = 0; i < 4 && !status; i++) call_add(&call, KILN_NONE);
    } else if (!status)
        status = call_kernel(&call, "norm/softmax.tile", "softmax", "T=%s, TY=%s, BN=%d", kiln_type_name(a->x->type),
                             kiln_type_name(a->out->type), softmax_columns(&call, a->x->type));
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_cross_entropy(kiln_ops *ops, kiln_stream *stream, const kiln_cross_entropy_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_cross_entropy", ops, a, FORM(kiln_cross_entropy_args));
    if (call_again(&call, stream, &status)) return status;
    const Want logits = { IN, "logits", a->logits, TYPES_FLOAT, "X[M][V]" },
               dlogits = { OUT, "dlogits", a->dlogits, 0, "DX[M][V]" },
               labels = { IN, "labels", a->labels, 1 << KILN_I32, "LABEL[M]" },
               dloss = { IN_OPTIONAL, "dloss", a->dloss, 1 << KILN_F32, "[M]" },
               loss = { OUT, "loss", a->loss, 1 << KILN_F32, "[M]" },
               lse = { OUT, "lse", a->lse, 1 << KILN_F32, "[M]" };
    const Want alone[] = { logits, labels, loss, lse }, both[] = { logits, dlogits, labels, dloss, loss, lse };
    status = a->dlogits ? check_all(&call, both, COUNT(both)) : check_all(&call, alone, COUNT(alone));
    if (!status) status = check_least(&call, "V", "logits");
    if (!status && a->dloss && !a->dlogits)
        status = call_fail(&call, KILN_BAD_ARGUMENT, "'dlogits' is null, but 'dloss' is not");
    if (status) return status;
    const bool is_long = a->dlogits && is_long_softmax(&call, call_extent(&call, "V"), a->logits->type);
    status = call_kernel(&call, is_long ? "norm/softmax.tile" : "nn/cross_entropy.tile",
                         is_long      ? "softmax_long"
                         : a->dlogits ? "cross_entropy_gradient"
                                      : "cross_entropy",
                         "T=%s%s", kiln_type_name(a->logits->type), !a->dlogits ? "" : LACKS(a->dloss, "DLOSS"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_cross_entropy_backward(kiln_ops *ops, kiln_stream *stream, const kiln_cross_entropy_backward_args *a)
{
    Call call;
    kiln_status status =
        call_begin(&call, "kiln_cross_entropy_backward", ops, a, FORM(kiln_cross_entropy_backward_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "logits", a->logits, TYPES_FLOAT, "X[M][V]" },
                           { IN, "labels", a->labels, 1 << KILN_I32, "LABEL[M]" },
                           { IN, "lse", a->lse, 1 << KILN_F32, "[M]" },
                           { IN, "dloss", a->dloss, 1 << KILN_F32, "[M]" },
                           { OUT, "dlogits", a->dlogits, 0, "DX[M][V]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status)
        status = call_kernel(&call, "nn/cross_entropy.tile", "cross_entropy_backward", "T=%s",
                             kiln_type_name(a->logits->type));
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_embedding(kiln_ops *ops, kiln_stream *stream, const kiln_embedding_args *a)
{
    Call call;
    double scale;
    kiln_status status = call_begin(&call, "kiln_embedding", ops, a, FORM(kiln_embedding_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "table", a->table, TYPES_FLOAT, "TABLE[V][N]" },
                           { IN, "tokens", a->tokens, 1 << KILN_I32, "TOKEN[M]" },
                           { OUT, "out", a->out, 0, "Y[M][N]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = call_scale(&call, a->scale, 1, &scale);
    if (!status) status = call_kernel(&call, "nn/embedding.tile", "embedding", "T=%s", kiln_type_name(a->table->type));
    if (status) return status;
    call_add(&call, KILN_FLOAT(scale));
    return call_run(&call, stream, NULL, 0);
}

kiln_status kiln_argmax(kiln_ops *ops, kiln_stream *stream, const kiln_argmax_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_argmax", ops, a, FORM(kiln_argmax_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][N]" },
                           { OUT, "index", a->index, 1 << KILN_I32, "INDEX[M]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = check_least(&call, "N", "x");
    if (!status) status = call_kernel(&call, "nn/embedding.tile", "argmax", "T=%s", kiln_type_name(a->x->type));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- casts and transforms

// The three tensors of a cast, and the counts of groups of rows.
static kiln_status check_cast(Call *call, const kiln_cast_fp8_args *a)
{
    const bool by_columns = call_has_columns(a->scales) && a->group && !a->counts;
    const Want rows[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][N]" },
                          { OUT, "out", a->out, 1 << KILN_E4M3, "Y[M][N]" },
                          { OUT, "scales", by_columns ? call_by_columns(call, a->scales) : a->scales, 1 << KILN_F32,
                            by_columns ? "Scale[groups][M]"
                            : a->group ? "[M][groups]"
                                       : "[M]" } };
    const Want counted[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][N]" },
                             { IN, "counts", a->counts, 1 << KILN_I32, "[G]" },
                             { OUT, "out", a->out, 1 << KILN_E4M3, "Y[G][R][N]" },
                             { OUT, "scales", a->scales, 1 << KILN_F32, "[G][R][groups]" } };
    const kiln_status status =
        a->counts ? check_all(call, counted, COUNT(counted)) : check_all(call, rows, COUNT(rows));
    if (status || (!a->group && !a->counts)) return status;
    if (a->group != 32 && a->group != 64 && a->group != 128 && a->group != 256)
        return call_fail(call, KILN_BAD_ARGUMENT, "'group' is %" PRId64 ", expected 32, 64, 128%s", a->group,
                         a->counts ? " or 256 with 'counts'" : ", 256 or 0 for rows");
    const int64_t given = call_extent(call, "groups"), expected = (call_extent(call, "N") + a->group - 1) / a->group;
    if (given == expected) return KILN_OK;
    return call_fail(call, KILN_BAD_SHAPE,
                     "dimension %d of 'scales' is %" PRId64 ", expected %" PRId64 ": groups of %" PRId64
                     " in rows of %" PRId64,
                     a->counts ? 2 : 1, given, expected, a->group, call_extent(call, "N"));
}

kiln_status kiln_cast_fp8(kiln_ops *ops, kiln_stream *stream, const kiln_cast_fp8_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_cast_fp8", ops, a, FORM(kiln_cast_fp8_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_cast(&call, a);
    if (status) return status;
    const char *const type = kiln_type_name(a->x->type);
    if (a->counts)
        status = call_kernel(&call, "cast/grouped.tile", "cast_grouped", "T=%s, GROUP=%d", type, (int)a->group);
    else if (a->group)
        status = call_kernel(&call, "cast/fp8.tile", "cast_per_group", "T=%s, GROUP=%d, COLUMNS=%s", type,
                             (int)a->group, yes(call_has_columns(a->scales)));
    else status = call_kernel(&call, "cast/fp8.tile", "cast_per_token", "T=%s", type);
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_cast_int8(kiln_ops *ops, kiln_stream *stream, const kiln_cast_int8_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_cast_int8", ops, a, FORM(kiln_cast_int8_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][N]" },
                           { OUT, "out", a->out, 1 << KILN_I8, "Y[M][N]" },
                           { OUT, "scales", a->scales, 1 << KILN_F32, "[M]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = call_kernel(&call, "cast/int8.tile", "cast_int8", "T=%s", kiln_type_name(a->x->type));
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_hadamard(kiln_ops *ops, kiln_stream *stream, const kiln_hadamard_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_hadamard", ops, a, FORM(kiln_hadamard_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "[M][N]" }, { OUT, "out", a->out, 0, "[M][N]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (status) return status;
    const int64_t n = call_extent(&call, "N");
    if (n < 2 || n > HADAMARD_LONGEST || (n & (n - 1)) != 0)
        return call_fail(&call, KILN_UNSUPPORTED,
                         "'x' has rows of N = %" PRId64 " elements, expected a power of two from 2 to %d", n,
                         HADAMARD_LONGEST);
    status =
        call_kernel(&call, "transform/hadamard.tile", "hadamard", "T=%s, N=%d", kiln_type_name(a->x->type), (int)n);
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- convolution

typedef struct Window {
    int64_t stride, dilation, pad;
} Window;

// That an output has as many lines, or columns, as the filter has places.
static kiln_status check_places(const Call *call, const Window *w, const char *in, const char *filter, const char *out,
                                int dim)
{
    const int64_t padded = call_extent(call, in) + 2 * w->pad,
                  reach = w->dilation * (call_extent(call, filter) - 1) + 1;
    if (call_extent(call, filter) < 1 || padded < reach)
        return call_fail(call, KILN_BAD_SHAPE,
                         "the filter has %s = %" PRId64 ", which with dilation %" PRId64 " reaches over %" PRId64
                         " elements, expected 1 to %" PRId64 ": %s of 'x' with its padding",
                         filter, call_extent(call, filter), w->dilation, reach, padded, in);
    const int64_t places = (padded - reach) / w->stride + 1;
    return call_extent(call, out) == places
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "dimension %d of 'out' is %" PRId64 ", expected %" PRId64, dim,
                           call_extent(call, out), places);
}

static kiln_status check_window(const Call *call, const kiln_conv2d_args *a, Window *w)
{
    *w = (Window){ a->stride ? a->stride : 1, a->dilation ? a->dilation : 1, a->pad };
    const struct {
        const char *name;
        int64_t given, least;
    } numbers[] = { { "stride", w->stride, 1 }, { "dilation", w->dilation, 1 }, { "pad", w->pad, 0 } };
    for (int i = 0; i < COUNT(numbers); i++)
        if (numbers[i].given < numbers[i].least || numbers[i].given > INT32_MAX / 2)
            return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected %" PRId64 " to %d",
                             numbers[i].name, numbers[i].given, numbers[i].least, INT32_MAX / 2);
    const kiln_status status = check_places(call, w, "H", "KH", "OH", 1);
    return status ? status : check_places(call, w, "W", "KW", "OW", 2);
}

// A line of the filter has few elements, and is multiplied as one row. Others are pixel by pixel: on a GPU also a line of one
// pixel of FEW channels, which is a step in both.
static bool has_short_lines(const Call *call, const Window *w)
{
    const bool on_cpu = ops_on_cpu(call->ops);
    const int64_t pixels = call_extent(call, "KW"), most = on_cpu ? FEW_ON_CPU : FEW;
    return w->dilation == 1 && pixels * call_extent(call, "C") <= most - (!on_cpu && pixels == 1);
}

// A filter of one pixel, stepped by one, over pixels that lie together: the product of [pixels][C] and [C][F], whose tiles are
// chosen by shape. Not where kiln_gemm needs a workspace, which a convolution does not have.
static bool is_product(const Call *call, const kiln_conv2d_args *a, const Window *w)
{
    for (int i = 0; i < 3; i++)
        if (call->table.tensors[i].strided) return false;
    return !ops_on_cpu(call->ops) && kiln_type_bits(a->x->type) == 16 && w->stride == 1 && w->pad == 0 &&
           call_extent(call, "KH") == 1 && call_extent(call, "KW") == 1;
}

static kiln_status run_product(kiln_ops *ops, kiln_stream *stream, const kiln_conv2d_args *a, bool *is_done)
{
    const int64_t pixels = a->x->shape[0] * a->x->shape[1] * a->x->shape[2], C = a->x->shape[3], F = a->out->shape[3];
    const kiln_tensor x = kiln_tensor_of(a->x->device, a->x->data, a->x->type, 2, (int64_t[]){ pixels, C });
    const kiln_tensor filter = kiln_tensor_of(a->x->device, a->filter->data, a->x->type, 2, (int64_t[]){ C, F });
    const kiln_tensor out = kiln_tensor_of(a->x->device, a->out->data, a->x->type, 2, (int64_t[]){ pixels, F });
    const kiln_gemm_args product = { .a = &x, .b = &filter, .c = &out };
    size_t bytes;
    const kiln_status status = kiln_gemm_workspace_size(ops, &product, &bytes);
    *is_done = status || bytes == 0;
    return status || bytes > 0 ? status : kiln_gemm(ops, stream, &product);
}

static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

static int64_t lines_tiles(const Call *call)
{
    return call_extent(call, "N") * divide_up(call_extent(call, "OW"), LINES_TILE) *
           divide_up(call_extent(call, "F"), LINES_COLUMNS);
}

// Windows out of lines of the image in shared memory, which boxes fill: 3 channels, filters of 3 to 7, strides 1 and 2, from 49
// tiles on, as they were timed (one H200).
static bool takes_lines(const Call *call, const kiln_conv2d_args *a, const Window *w)
{
    enum { PIECE = 8, CHANNELS = 3, LEAST = 3, MOST = 7, STRIDE_MOST = 2, TILES_LEAST = 49 }; // a piece has 16 bytes
    const int64_t KH = call_extent(call, "KH"), KW = call_extent(call, "KW");
    const CallTable *const t = &call->table;
    return ops_on_hopper(call->ops) && kiln_type_bits(a->x->type) == 16 && w->dilation == 1 &&
           w->stride <= STRIDE_MOST && w->pad <= MOST && call_extent(call, "C") == CHANNELS && KH >= LEAST &&
           KH <= MOST && KW >= LEAST && KW <= MOST && call_extent(call, "W") * CHANNELS % PIECE == 0 &&
           call_extent(call, "F") % PIECE == 0 && !t->tensors[0].strided && !t->tensors[1].strided &&
           !t->tensors[2].strided && lines_tiles(call) * divide_up(call_extent(call, "OH"), LINES_TILE) >= TILES_LEAST;
}

// Instances of several tiles, one below the other, where there are enough of them.
static kiln_status choose_lines(Call *call, const char *type, const Window *w)
{
    const int64_t rows = divide_up(call_extent(call, "OH"), LINES_TILE), instances = 6 * ops_processors(call->ops);
    const int64_t each = lines_tiles(call) * rows / instances;
    const kiln_status status =
        call_kernel(call, "conv/conv2d.tile", "conv2d_lines", "T=%s, C=%d, KH=%d, KW=%d, STRIDE=%d, PAD=%d", type,
                    (int)call_extent(call, "C"), (int)call_extent(call, "KH"), (int)call_extent(call, "KW"),
                    (int)w->stride, (int)w->pad);
    call_add(call, KILN_INT(each < 1 ? 1 : each < rows ? each : rows));
    return status;
}

// Whole lines of the filter where it can: gathering takes a time for each of its pieces.
static kiln_status choose_conv2d_on_cpu(Call *call, const char *type, int64_t pixels, const Window *w)
{
    enum { WHOLE = 256, PART = 128, UNIT = 32 }; // elements along the product
    const int64_t C = call_extent(call, "C"), line = C * call_extent(call, "KW");
    const bool is_line = has_short_lines(call, w);
    const int64_t along = is_line ? line : C, depth = along <= WHOLE ? (along + UNIT - 1) / UNIT * UNIT : PART;
    return call_kernel(call, "conv/conv2d.tile", is_line ? "conv2d_few" : "conv2d", "T=%s, BM=%d, BN=%d, BK=%d", type,
                       call_tile_on_cpu(pixels, 16, 128), call_tile_on_cpu(call_extent(call, "F"), 32, 128),
                       (int)depth);
}

static kiln_status choose_conv2d(Call *call, const kiln_conv2d_args *a, const Window *w)
{
    const int64_t F = call_extent(call, "F");
    const int64_t pixels = call_extent(call, "N") * call_extent(call, "OH") * call_extent(call, "OW");
    const char *const type = kiln_type_name(a->x->type);
    if (takes_lines(call, a, w)) return choose_lines(call, type, w);
    const int depth = a->x->type == KILN_F32 ? 32 : 64, columns = F <= 64 ? 64 : F >= 256 && depth == 64 ? 256 : 128;
    if (ops_on_cpu(call->ops)) return choose_conv2d_on_cpu(call, type, pixels, w);
    if (has_short_lines(call, w)) return call_kernel(call, "conv/conv2d.tile", "conv2d_few", "T=%s", type);
    if (columns < 256 && pixels / 256 * ((F + columns - 1) / columns) >= ops_processors(call->ops))
        return call_kernel(call, "conv/conv2d.tile", "conv2d", "T=%s, BN=%d, BK=%d", type, columns, depth);
    return call_kernel(call, "conv/conv2d.tile", "conv2d", "T=%s, BM=128, BN=%d, BK=%d", type, columns, depth);
}

kiln_status kiln_conv2d(kiln_ops *ops, kiln_stream *stream, const kiln_conv2d_args *a)
{
    Call call;
    Window w;
    kiln_status status = call_begin(&call, "kiln_conv2d", ops, a, FORM(kiln_conv2d_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "X[N][H][W][C]" },
                           { IN, "filter", a->filter, 0, "Wt[KH][KW][C][F]" },
                           { OUT, "out", a->out, 0, "Y[N][OH][OW][F]" } };
    status = check_all(&call, wants, COUNT(wants));
    if (!status) status = check_least(&call, "C", "x");
    if (!status) status = check_window(&call, a, &w);
    bool is_done = false;
    if (!status && is_product(&call, a, &w)) status = run_product(ops, stream, a, &is_done);
    if (status || is_done) return status;
    status = choose_conv2d(&call, a, &w);
    if (status) return status;
    if (!takes_lines(&call, a, &w)) {
        call_add(&call, KILN_INT(w.stride));
        if (!has_short_lines(&call, &w)) call_add(&call, KILN_INT(w.dilation));
        call_add(&call, KILN_INT(w.pad));
    }
    return call_run(&call, stream, NULL, 0);
}
