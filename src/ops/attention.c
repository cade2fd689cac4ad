// SPDX-License-Identifier: MIT
// attention.c - the operators of kiln/ops/attention.h over kernels/attention.
#include "kiln/ops/attention.h"
#include "ops/attention_call.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *type_of(const Call *call) { return kiln_type_name(call->tensors[0]->type); }

// Keys of a step: as many as the shared memory of a multiprocessor holds twice, beside the queries.
static int step_keys(const Call *call)
{
    const int64_t sizes = call_extent(call, "D") + call_extent(call, "DV");
    const int64_t bytes = kiln_type_bits(call->tensors[0]->type) / 8;
    return ops_on_cpu(call->ops) || sizes * bytes <= 640 ? 128 : sizes * bytes <= 1024 ? 64 : 32;
}

static kiln_status check_longest(const Call *call, const char *name, int64_t rows)
{
    return rows >= 0 && rows <= INT32_MAX
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected the rows of the longest sequence",
                           name, rows);
}

// ---- forward, with sinks or capped scores

// What the caller's struct calls the parts of a packed call.
typedef struct PackedNames {
    const char *q, *k, *v, *q_offsets, *k_offsets, *max_queries;
} PackedNames;

// Heads of f32 whose rows threads copy in unequal shares: registers hold tiles of half as many queries.
static bool is_ragged_f32(const Call *call)
{
    const int64_t D = call_extent(call, "D"), DV = call_extent(call, "DV");
    return call->tensors[0]->type == KILN_F32 && !ops_on_cpu(call->ops) && (D % 32 != 0 || DV % 32 != 0) &&
           (D > 64 || DV > 64);
}

// Of equal lengths where offsets have no names.
static kiln_status prepare_sinks(Call *call, const kiln_attention_varlen_args *a, const PackedNames *names)
{
    double scale;
    const bool packed = names->q_offsets != NULL;
    const kiln_tensor *const q = packed ? call_with_batch(call, a->q, 4) : a->q;
    const kiln_tensor *const k = packed ? call_with_batch(call, a->k, 4) : a->k;
    const kiln_tensor *const v = packed ? call_with_batch(call, a->v, 4) : a->v;
    const kiln_tensor *const out = packed ? call_with_batch(call, a->out, 4) : a->out;
    const kiln_tensor *const lse = packed ? call_with_batch(call, a->lse, 3) : a->lse;
    const Role offsets = packed ? IN : IN_OPTIONAL;
    // clang-format off
    const Want wants[] = {
        { IN,           names->q,         q,            TYPES_FLOAT,   packed ? "Q[1][TQ][H][D]" : "Q[B][S][H][D]" },
        { IN,           names->k,         k,            0,             packed ? "K[1][TK][HKV][D]" : "K[B][SKV][HKV][D]" },
        { IN,           names->v,         v,            0,             packed ? "V[1][TK][HKV][DV]" : "V[B][SKV][HKV][DV]" },
        { IN_OPTIONAL,  "sinks",          a->sinks,     1 << KILN_F32, "[H]" },
        { offsets,      names->q_offsets, a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { offsets,      names->k_offsets, a->k_offsets, 1 << KILN_I32, "KOffset[B + 1]" },
        { OUT,          "out",            out,          0,             packed ? "O[1][TQ][H][DV]" : "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "lse",            lse,          1 << KILN_F32, packed ? "[1][H][TQ]" : "[B][H][S]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = attention_options(call, a->window, a->scale, &scale);
    if (!status) status = attention_softcap(call, a->softcap);
    if (!status) status = check_longest(call, names->max_queries, a->max_queries);
    if (status) return status;
    status = call_kernel(
        call, "attention/sink.tile", "attention_sink", "T=%s, D=%d, DV=%d, CAUSAL=%s, W=%d, CAP=%s%-s%-s%-s%-s%s",
        type_of(call), (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal || a->window),
        (int)a->window, yes(a->softcap > 0), LACKS(a->sinks, "SINK"), LACKS(a->q_offsets, "QOffset"),
        LACKS(a->k_offsets, "KOffset"), LACKS(a->lse, "LSE"), packed && is_ragged_f32(call) ? ", BM=32" : "");
    if (status) return status;
    call_add(call, KILN_INT(a->max_queries));
    call_add(call, KILN_FLOAT(scale));
    call_add(call, KILN_FLOAT(a->softcap > 0 ? a->softcap : 1));
    return KILN_OK;
}

// ---- forward

static kiln_status prepare_forward_sinks(Call *call, const kiln_attention_args *a)
{
    static const PackedNames names = { .q = "q", .k = "k", .v = "v" };
    return prepare_sinks(call,
                         &(kiln_attention_varlen_args){ .q = a->q,
                                                        .k = a->k,
                                                        .v = a->v,
                                                        .out = a->out,
                                                        .lse = a->lse,
                                                        .causal = a->causal,
                                                        .window = a->window,
                                                        .scale = a->scale,
                                                        .sinks = a->sinks,
                                                        .softcap = a->softcap },
                         &names);
}

// Without sinks: one instance for each tile of queries and head, or `splits` of them, whose results are added.
static kiln_status bind_forward(Call *call, const kiln_attention_args *a, const ForwardTiles *t, double scale)
{
    char rows[24] = "";
    if (t->rows) snprintf(rows, sizeof rows, ", BM=%d", t->rows);
    const kiln_status status =
        t->splits > 1
            ? call_kernel(call, "attention/split.tile", "attention_split", "T=%s, D=%d, DV=%d, CAUSAL=%s%s, BN=%d%s",
                          type_of(call), (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal),
                          rows, t->keys, LACKS(a->lse, "LSE"))
            : call_kernel(call, "attention/forward.tile", "attention_forward",
                          "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d%s, BN=%d%s", type_of(call),
                          (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal || a->window),
                          (int)a->window, rows, t->keys, LACKS(a->lse, "LSE"));
    if (status) return status;
    if (t->splits > 1) call_add(call, KILN_INT(t->splits));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

static ForwardTiles choose_forward(const Call *call, const kiln_attention_args *a, bool may_divide)
{
    if (ops_on_cpu(call->ops))
        return (ForwardTiles){ .rows = call_tile_on_cpu(call_extent(call, "S"), 16, 256),
                               .keys = call_tile_on_cpu(call_extent(call, "SKV"), 32, 128),
                               .splits = 1 };
    return attention_forward_tiles(call->ops, &(ForwardShape){ .batch = call_extent(call, "B"),
                                                               .queries = call_extent(call, "S"),
                                                               .keys = call_extent(call, "SKV"),
                                                               .heads = call_extent(call, "H"),
                                                               .size = call_extent(call, "D"),
                                                               .value_size = call_extent(call, "DV"),
                                                               .window = a->window,
                                                               .is_causal = a->causal || a->window,
                                                               .is_16_bit = a->q->type != KILN_F32,
                                                               .may_divide = may_divide,
                                                               .step_keys = step_keys(call) });
}

// room: bytes of the workspace. Where a divided call needs more, it is not divided.
static kiln_status prepare_forward(Call *call, const kiln_attention_args *a, size_t room)
{
    double scale;
    if (a->sinks || a->softcap != 0) return prepare_forward_sinks(call, a);
    // clang-format off
    const Want wants[] = {
        { IN,           "q",   a->q,   TYPES_FLOAT,   "Q[B][S][H][D]" },
        { IN,           "k",   a->k,   0,             "K[B][SKV][HKV][D]" },
        { IN,           "v",   a->v,   0,             "V[B][SKV][HKV][DV]" },
        { OUT,          "out", a->out, 0,             "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "lse", a->lse, 1 << KILN_F32, "[B][H][S]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, a->window, a->scale, &scale);
    if (status) return status;
    ForwardTiles tiles = choose_forward(call, a, room > 0);
    size_t needed = 0;
    status = bind_forward(call, a, &tiles, scale);
    if (!status && tiles.splits > 1 && !call->sizing) status = call_size(call, &needed);
    if (status || needed <= room) return status;
    tiles = choose_forward(call, a, false);
    return bind_forward(call, a, &tiles, scale);
}

kiln_status kiln_attention_forward_workspace_size(kiln_ops *ops, const kiln_attention_args *a, size_t *bytes)
{
    Call call;
    kiln_status status =
        call_begin_sizing(&call, "kiln_attention_forward_workspace_size", ops, a, FORM(kiln_attention_args), bytes);
    if (call_again(&call, NULL, &status)) return status;
    status = prepare_forward(&call, a, SIZE_MAX);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_attention_forward(kiln_ops *ops, kiln_stream *stream, const kiln_attention_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_attention_forward", ops, a, FORM(kiln_attention_args));
    if (call_again(&call, stream, &status)) return status;
    status = prepare_forward(&call, a, a->workspace ? a->workspace_bytes : 0);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}

// ---- packed

// Tiles of 64 queries and keys, two or three at a time on a multiprocessor: for narrow heads, and where sequences are short.
static bool has_small_tiles(const Call *call, int64_t max_queries)
{
    enum { SHORT = 768 };
    const int64_t D = call_extent(call, "D"), DV = call_extent(call, "DV"), size = D > DV ? D : DV;
    return !ops_on_cpu(call->ops) && call->tensors[0]->type != KILN_F32 && D % 32 == 0 && DV % 32 == 0 &&
           (size <= 64 || (size <= 128 && max_queries <= SHORT));
}

static kiln_status forward_varlen(Call *call, kiln_stream *stream, const kiln_attention_varlen_args *a,
                                  const PackedNames *names)
{
    if (a->sinks || a->softcap != 0) {
        kiln_status status = prepare_sinks(call, a, names);
        if (!status) status = call_check_offsets(call, stream, 4, call_extent(call, "TQ"), a->max_queries);
        if (!status) status = call_check_offsets(call, stream, 5, call_extent(call, "TK"), INT32_MAX);
        return status ? status : call_run(call, stream, NULL, 0);
    }
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,           names->q,         a->q,         TYPES_FLOAT,   "Q[TQ][H][D]" },
        { IN,           names->k,         a->k,         0,             "K[TK][HKV][D]" },
        { IN,           names->v,         a->v,         0,             "V[TK][HKV][DV]" },
        { IN,           names->q_offsets, a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { IN,           names->k_offsets, a->k_offsets, 1 << KILN_I32, "KOffset[B + 1]" },
        { OUT,          "out",            a->out,       0,             "O[TQ][H][DV]" },
        { OUT_OPTIONAL, "lse",            a->lse,       1 << KILN_F32, "[H][TQ]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = attention_options(call, a->window, a->scale, &scale);
    if (!status) status = check_longest(call, names->max_queries, a->max_queries);
    if (status) return status;
    const bool small = has_small_tiles(call, a->max_queries);
    status = call_kernel(call, "attention/varlen.tile", "attention_varlen",
                         "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d%s, BN=%d%s", type_of(call),
                         (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal || a->window),
                         (int)a->window, small ? ", BM=64" : "", small ? 64 : step_keys(call), LACKS(a->lse, "LSE"));
    if (!status) status = call_check_offsets(call, stream, 3, call_extent(call, "TQ"), a->max_queries);
    if (!status) status = call_check_offsets(call, stream, 4, call_extent(call, "TK"), INT32_MAX);
    if (status) return status;
    call_add(call, KILN_INT(a->max_queries));
    call_add(call, KILN_FLOAT(scale));
    return call_run(call, stream, NULL, 0);
}

kiln_status kiln_attention_forward_varlen(kiln_ops *ops, kiln_stream *stream, const kiln_attention_varlen_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_attention_forward_varlen", ops, a, FORM(kiln_attention_varlen_args));
    if (call_again(&call, stream, &status)) return status;
    static const PackedNames names = { "q", "k", "v", "q_offsets", "k_offsets", "max_queries" };
    return status ? status : forward_varlen(&call, stream, a, &names);
}

// Columns `first` .. `end` - 1 of every token and head of a packed tensor.
static kiln_status take_part(const Call *call, const char *name, const kiln_tensor *packed, int64_t keys, int64_t first,
                             int64_t end, kiln_tensor *part)
{
    if (!packed) return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null", name);
    if (packed->rank != 3) return call_fail(call, KILN_BAD_SHAPE, "'%s' has rank %d, expected 3", name, packed->rank);
    if (end > packed->shape[2] || first > end)
        return call_fail(call, KILN_BAD_SHAPE,
                         "dimension 2 of '%s' is %" PRId64 ", which has no room for keys of %" PRId64
                         " beside what else it holds",
                         name, packed->shape[2], keys);
    return call_named(call, kiln_tensor_slice(packed, 2, first, end - first, part));
}

kiln_status kiln_attention_forward_qkvpacked(kiln_ops *ops, kiln_stream *stream, const kiln_attention_qkvpacked_args *a)
{
    Call call;
    kiln_tensor q, k, v;
    static const PackedNames names = { "qkv", "qkv", "qkv", "offsets", "offsets", "max_rows" };
    kiln_status status =
        call_begin(&call, "kiln_attention_forward_qkvpacked", ops, a, FORM(kiln_attention_qkvpacked_args));
    if (call_again(&call, stream, &status)) return status;
    if (a->head_size < 1 || a->head_size > ATTENTION_HEAD_MAX)
        status = call_fail(&call, KILN_BAD_ARGUMENT, "'head_size' is %" PRId64 ", expected 1 to %d", a->head_size,
                           ATTENTION_HEAD_MAX);
    if (!status) status = take_part(&call, "qkv", a->qkv, a->head_size, 0, a->head_size, &q);
    if (!status) status = take_part(&call, "qkv", a->qkv, a->head_size, a->head_size, 2 * a->head_size, &k);
    if (!status) status = take_part(&call, "qkv", a->qkv, a->head_size, 2 * a->head_size, a->qkv->shape[2], &v);
    return status ? status
                  : forward_varlen(&call, stream,
                                   &(kiln_attention_varlen_args){ .q = &q,
                                                                  .k = &k,
                                                                  .v = &v,
                                                                  .q_offsets = a->offsets,
                                                                  .k_offsets = a->offsets,
                                                                  .max_queries = a->max_rows,
                                                                  .out = a->out,
                                                                  .lse = a->lse,
                                                                  .causal = a->causal,
                                                                  .window = a->window,
                                                                  .scale = a->scale,
                                                                  .sinks = a->sinks,
                                                                  .softcap = a->softcap },
                                   &names);
}

kiln_status kiln_attention_forward_kvpacked(kiln_ops *ops, kiln_stream *stream, const kiln_attention_kvpacked_args *a)
{
    Call call;
    kiln_tensor k, v;
    static const PackedNames names = { "q", "kv", "kv", "q_offsets", "k_offsets", "max_queries" };
    kiln_status status =
        call_begin(&call, "kiln_attention_forward_kvpacked", ops, a, FORM(kiln_attention_kvpacked_args));
    if (call_again(&call, stream, &status)) return status;
    if (!a->q) status = call_fail(&call, KILN_BAD_ARGUMENT, "'q' is null");
    if (!status && a->q->rank != 3)
        status = call_fail(&call, KILN_BAD_SHAPE, "'q' has rank %d, expected 3: [TQ][H][D]", a->q->rank);
    const int64_t size = status ? 0 : a->q->shape[2];
    if (!status) status = take_part(&call, "kv", a->kv, size, 0, size, &k);
    if (!status) status = take_part(&call, "kv", a->kv, size, size, a->kv->shape[2], &v);
    return status ? status
                  : forward_varlen(&call, stream,
                                   &(kiln_attention_varlen_args){ .q = a->q,
                                                                  .k = &k,
                                                                  .v = &v,
                                                                  .q_offsets = a->q_offsets,
                                                                  .k_offsets = a->k_offsets,
                                                                  .max_queries = a->max_queries,
                                                                  .out = a->out,
                                                                  .lse = a->lse,
                                                                  .causal = a->causal,
                                                                  .window = a->window,
                                                                  .scale = a->scale,
                                                                  .sinks = a->sinks,
                                                                  .softcap = a->softcap },
                                   &names);
}

// ---- backward

// Those of a table that a call without sinks has; `sinks` and `dsinks`, at these places, are none of them.
static int without_sinks(Want *wants, int n, int sinks, int dsinks)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (i != sinks && i != dsinks) wants[kept++] = wants[i];
    return kept;
}

static kiln_status check_sinks(const Call *call, const kiln_tensor *sinks, const kiln_tensor *dsinks)
{
    return !sinks == !dsinks ? KILN_OK
                             : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but '%s' is null",
                                         sinks ? "sinks" : "dsinks", sinks ? "dsinks" : "sinks");
}

// The binding of a cap, a constant of kernels: models have one.
enum { CAP_BYTES = 32 };

static const char *cap_binding(double softcap, char text[static CAP_BYTES])
{
    text[0] = 0;
    if (softcap > 0) snprintf(text, CAP_BYTES, ", CAP=%.9g", (double)(float)softcap);
    return text;
}

// Without sinks: `heads` instances for each tile of keys.
static kiln_status bind_backward(Call *call, const kiln_attention_backward_args *a, int64_t heads, double scale)
{
    char cap[CAP_BYTES], tiles[32] = "";
    const bool divided = heads > call_extent(call, "HKV");
    if (ops_on_cpu(call->ops) && !divided && !a->deterministic)
        snprintf(tiles, sizeof tiles, ", CM=%d, CN=%d", call_tile_on_cpu(call_extent(call, "S"), 16, 64),
                 call_tile_on_cpu(call_extent(call, "SKV"), 32, 256));
    const kiln_status status = call_kernel(
        call, "attention/backward.tile",
        a->deterministic ? "attention_backward_exact"
        : divided        ? "attention_backward_split"
                         : "attention_backward",
        "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d%s%s", type_of(call), (int)call_extent(call, "D"),
        (int)call_extent(call, "DV"), yes(a->causal || a->window), (int)a->window, cap_binding(a->softcap, cap), tiles);
    if (status) return status;
    if (divided) call_add(call, KILN_INT(heads));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

// Keys of an instance, as attention_backward_split takes its kernels.
static int gradient_tile_keys(kiln_type type, int64_t D, int64_t DV, bool is_long)
{
    if (type == KILN_F32) return D > 128 || DV > 128 ? 32 : 64;
    return (D > 128 || DV > 128) && !is_long ? 64 : 128;
}

static int64_t choose_gradient_heads(const Call *call, const kiln_attention_backward_args *a)
{
    const int64_t D = call_extent(call, "D"), DV = call_extent(call, "DV");
    const bool is_long = D == 192 && DV == 128 && ops_on_hopper(call->ops) && !(a->softcap > 0);
    return attention_gradient_heads(call->ops,
                                    &(GradientShape){ .batch = call_extent(call, "B"),
                                                      .queries = call_extent(call, "S"),
                                                      .keys = call_extent(call, "SKV"),
                                                      .heads = call_extent(call, "H"),
                                                      .key_heads = call_extent(call, "HKV"),
                                                      .sizes = D + DV,
                                                      .window = a->window,
                                                      .causal = a->causal || a->window,
                                                      .tile_keys = gradient_tile_keys(a->q->type, D, DV, is_long) });
}

// room: bytes of the workspace. Where a divided call needs more, it is not divided: a workspace may have been sized for a
// larger batch, which fills the device as it is.
static kiln_status prepare_backward(Call *call, const kiln_attention_backward_args *a, size_t room)
{
    double scale;
    char cap[CAP_BYTES];
    enum { SINKS = 6, DSINKS = 10 };
    // clang-format off
    Want wants[] = {
        { IN,  "q",      a->q,      TYPES_FLOAT,   "Q[B][S][H][D]" },
        { IN,  "k",      a->k,      0,             "K[B][SKV][HKV][D]" },
        { IN,  "v",      a->v,      0,             "V[B][SKV][HKV][DV]" },
        { IN,  "out",    a->out,    0,             "O[B][S][H][DV]" },
        { IN,  "lse",    a->lse,    1 << KILN_F32, "[B][H][S]" },
        { IN,  "dout",   a->dout,   0,             "dO[B][S][H][DV]" },
        { IN,  "sinks",  a->sinks,  1 << KILN_F32, "[H]" },
        { OUT, "dq",     a->dq,     0,             "dQ[B][S][H][D]" },
        { OUT, "dk",     a->dk,     0,             "dK[B][SKV][HKV][D]" },
        { OUT, "dv",     a->dv,     0,             "dV[B][SKV][HKV][DV]" },
        { OUT, "dsinks", a->dsinks, 1 << KILN_F32, "[H]" },
    };
    // clang-format on
    const int n = a->sinks ? COUNT(wants) : without_sinks(wants, COUNT(wants), SINKS, DSINKS);
    kiln_status status = check_sinks(call, a->sinks, a->dsinks);
    if (!status) status = call_check(call, wants, n, "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, a->window, a->scale, &scale);
    if (!status) status = attention_softcap(call, a->softcap);
    if (status) return status;
    if (a->sinks) {
        status = call_kernel(call, "attention/sink.tile", "attention_sink_backward",
                             "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d, EXACT=%s%s", type_of(call),
                             (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal || a->window),
                             (int)a->window, yes(a->deterministic), cap_binding(a->softcap, cap));
        if (!status) call_add(call, KILN_FLOAT(scale));
        return status;
    }
    const int64_t key_heads = call_extent(call, "HKV");
    const int64_t heads = a->deterministic ? key_heads : choose_gradient_heads(call, a);
    size_t needed = 0;
    status = bind_backward(call, a, heads, scale);
    if (!status && heads > key_heads && !call->sizing) status = call_size(call, &needed);
    return !status && needed > room ? bind_backward(call, a, key_heads, scale) : status;
}

kiln_status kiln_attention_backward_workspace_size(kiln_ops *ops, const kiln_attention_backward_args *a, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_attention_backward_workspace_size", ops, a,
                                           FORM(kiln_attention_backward_args), bytes);
    if (call_again(&call, NULL, &status)) return status;
    status = prepare_backward(&call, a, SIZE_MAX);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_attention_backward(kiln_ops *ops, kiln_stream *stream, const kiln_attention_backward_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_attention_backward", ops, a, FORM(kiln_attention_backward_args));
    if (call_again(&call, stream, &status)) return status;
    status = prepare_backward(&call, a, a->workspace_bytes);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}

// ---- backward, packed

// Instances of the query heads for each tile of keys: of sequences as long as they are in the mean. Keys of 192 have kernels of
// their own, which take all query heads of a key head.
static int64_t choose_packed_gradient_heads(const Call *call, const kiln_attention_backward_varlen_args *a)
{
    const int64_t D = call_extent(call, "D"), DV = call_extent(call, "DV"), B = call_extent(call, "B");
    if (a->deterministic || B == 0 || (D == 192 && DV == 128)) return call_extent(call, "HKV");
    return attention_gradient_heads(call->ops,
                                    &(GradientShape){ .batch = B,
                                                      .queries = (call_extent(call, "TQ") + B - 1) / B,
                                                      .keys = (call_extent(call, "TK") + B - 1) / B,
                                                      .heads = call_extent(call, "H"),
                                                      .key_heads = call_extent(call, "HKV"),
                                                      .sizes = D + DV,
                                                      .window = a->window,
                                                      .causal = a->causal || a->window,
                                                      .tile_keys = gradient_tile_keys(a->q->type, D, DV, false) });
}

// Without sinks: `heads` instances for each tile of keys.
static kiln_status bind_backward_varlen(Call *call, const kiln_attention_backward_varlen_args *a, int64_t heads,
                                        double scale)
{
    char cap[CAP_BYTES];
    const bool divided = heads > call_extent(call, "HKV");
    const kiln_status status = call_kernel(call, "attention/backward_varlen.tile",
                                           a->deterministic ? "attention_varlen_backward_exact"
                                           : divided        ? "attention_varlen_backward_split"
                                                            : "attention_varlen_backward",
                                           "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d%s", type_of(call),
                                           (int)call_extent(call, "D"), (int)call_extent(call, "DV"),
                                           yes(a->causal || a->window), (int)a->window, cap_binding(a->softcap, cap));
    if (status) return status;
    if (a->deterministic) call_add(call, KILN_INT(a->max_queries));
    call_add(call, KILN_INT(a->max_keys));
    if (divided) call_add(call, KILN_INT(heads));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

// Where a divided call needs more than the workspace has, it is not divided.
static kiln_status prepare_backward_varlen(Call *call, const void *args)
{
    const kiln_attention_backward_varlen_args *const a = args;
    double scale;
    char cap[CAP_BYTES];
    enum { SINKS = 6, DSINKS = 12 };
    // clang-format off
    Want wants[] = {
        { IN,  "q",         a->q,         TYPES_FLOAT,   "Q[TQ][H][D]" },
        { IN,  "k",         a->k,         0,             "K[TK][HKV][D]" },
        { IN,  "v",         a->v,         0,             "V[TK][HKV][DV]" },
        { IN,  "out",       a->out,       0,             "O[TQ][H][DV]" },
        { IN,  "lse",       a->lse,       1 << KILN_F32, "[H][TQ]" },
        { IN,  "dout",      a->dout,      0,             "dO[TQ][H][DV]" },
        { IN,  "sinks",     a->sinks,     1 << KILN_F32, "[H]" },
        { IN,  "q_offsets", a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { IN,  "k_offsets", a->k_offsets, 1 << KILN_I32, "KOffset[B + 1]" },
        { OUT, "dq",        a->dq,        0,             "dQ[TQ][H][D]" },
        { OUT, "dk",        a->dk,        0,             "dK[TK][HKV][D]" },
        { OUT, "dv",        a->dv,        0,             "dV[TK][HKV][DV]" },
        { OUT, "dsinks",    a->dsinks,    1 << KILN_F32, "[H]" },
    };
    // clang-format on
    const int n = a->sinks ? COUNT(wants) : without_sinks(wants, COUNT(wants), SINKS, DSINKS);
    kiln_status status = check_sinks(call, a->sinks, a->dsinks);
    if (!status) status = call_check(call, wants, n, "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, a->window, a->scale, &scale);
    if (!status) status = check_longest(call, "max_keys", a->max_keys);
    if (!status && a->deterministic) status = check_longest(call, "max_queries", a->max_queries);
    if (!status) status = attention_softcap(call, a->softcap);
    if (status) return status;
    if (a->sinks) {
        status = call_kernel(call, "attention/sink.tile", "attention_sink_varlen_backward",
                             "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d, EXACT=%s%s", type_of(call),
                             (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal || a->window),
                             (int)a->window, yes(a->deterministic), cap_binding(a->softcap, cap));
        if (status) return status;
        call_add(call, KILN_INT(a->deterministic ? a->max_queries : 0));
        call_add(call, KILN_INT(a->max_keys));
        call_add(call, KILN_FLOAT(scale));
        return KILN_OK;
    }
    const int64_t key_heads = call_extent(call, "HKV"), heads = choose_packed_gradient_heads(call, a);
    size_t needed = 0;
    status = bind_backward_varlen(call, a, heads, scale);
    if (!status && heads > key_heads && !call->sizing) status = call_size(call, &needed);
    return !status && needed > a->workspace_bytes ? bind_backward_varlen(call, a, key_heads, scale) : status;
}

static kiln_status look_backward_varlen(Call *call, kiln_stream *stream, const void *args)
{
    const kiln_attention_backward_varlen_args *const a = args;
    const int at = a->sinks ? 7 : 6; // of the offsets
    const kiln_status status =
        call_check_offsets(call, stream, at, call_extent(call, "TQ"), a->deterministic ? a->max_queries : INT32_MAX);
    return status ? status : call_check_offsets(call, stream, at + 1, call_extent(call, "TK"), a->max_keys);
}

static const CallPair backward_varlen = { .name = "kiln_attention_backward_varlen",
                                          .size_name = "kiln_attention_backward_varlen_workspace_size",
                                          .prepare = prepare_backward_varlen,
                                          .look = look_backward_varlen };

kiln_status kiln_attention_backward_varlen_workspace_size(kiln_ops *ops, const kiln_attention_backward_varlen_args *a,
                                                          size_t *bytes)
{
    return pair_size(&backward_varlen, ops, a, FORM(kiln_attention_backward_varlen_args), bytes);
}

kiln_status kiln_attention_backward_varlen(kiln_ops *ops, kiln_stream *stream,
                                           const kiln_attention_backward_varlen_args *a)
{
    return pair_run(&backward_varlen, ops, stream, a, FORM(kiln_attention_backward_varlen_args));
}

// ---- decoding

static int64_t choose_splits(const Call *call)
{
    const int64_t D = call_extent(call, "D"), DV = call_extent(call, "DV"), size = D > DV ? D : DV;
    return attention_splits(call->ops, call_extent(call, "B") * call_extent(call, "HKV"), call_extent(call, "S"), 0,
                            size > 128 || call->tensors[0]->type == KILN_F32 ? ONE_SHARE
                            : size > 64                                      ? TWO_SHARES
                                                                             : TWO_NARROW_SHARES);
}

// A multiprocessor holds all query heads of a key head at once. So many that they do not fit are named by the compiler's registers.
static kiln_status name_heads(const Call *call, kiln_status status)
{
    enum { ALWAYS_FIT = 16 };
    const int64_t group = call_extent(call, "H") / call_extent(call, "HKV");
    if (status != KILN_BAD_SOURCE || ops_on_cpu(call->ops) || group <= ALWAYS_FIT) return status;
    return call_fail(
        call, KILN_UNSUPPORTED,
        "%" PRId64 " query heads (of 'q') share a key head, more than fit on a multiprocessor with D = %" PRId64
        " and DV = %" PRId64 "; expected at most 128 in 16 bits, %d in f32 (kiln_paged_attention takes any number)",
        group, call_extent(call, "D"), call_extent(call, "DV"), ALWAYS_FIT);
}

static kiln_status prepare_decode(Call *call, const void *args)
{
    const kiln_attention_decode_args *const a = args;
    double scale;
    char cap[CAP_BYTES];
    // clang-format off
    const Want wants[] = {
        { IN,           "q",       a->q,       TYPES_FLOAT,   "Q[B][H][D]" },
        { IN,           "k",       a->k,       0,             "K[B][S][HKV][D]" },
        { IN,           "v",       a->v,       0,             "V[B][S][HKV][DV]" },
        { IN_OPTIONAL,  "mask",    a->mask,    1 << KILN_U8,  "[B][S][HKV]" },
        { IN_OPTIONAL,  "lengths", a->lengths, 1 << KILN_I32, "LENGTH[B]" },
        { IN_OPTIONAL,  "sinks",   a->sinks,   1 << KILN_F32, "[H]" },
        { OUT,          "out",     a->out,     0,             "O[B][H][DV]" },
        { OUT_OPTIONAL, "lse",     a->lse,     1 << KILN_F32, "[B][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, 0, a->scale, &scale);
    if (!status) status = attention_has_heads(call);
    if (!status && (a->splits < 0 || a->splits > 65536))
        status = call_fail(call, KILN_BAD_ARGUMENT,
                           "'splits' is %" PRId64 ", expected 1 to 65536, or 0 for a number that fills "
                           "the device",
                           a->splits);
    if (!status) status = attention_softcap(call, a->softcap);
    if (status) return status;
    status =
        call_kernel(call, "attention/decode.tile", "flash_decode", "T=%s, D=%d, DV=%d, G=%d, BN=%d%s%-s%-s%-s%-s",
                    type_of(call), (int)call_extent(call, "D"), (int)call_extent(call, "DV"),
                    (int)(call_extent(call, "H") / call_extent(call, "HKV")),
                    ops_on_cpu(call->ops) ? SPLITS_CPU_KEYS : SPLITS_GPU_KEYS, cap_binding(a->softcap, cap),
                    LACKS(a->mask, "Mask"), LACKS(a->lengths, "LENGTH"), LACKS(a->sinks, "SINK"), LACKS(a->lse, "LSE"));
    if (status) return name_heads(call, status);
    call_add(call, KILN_INT(a->splits ? a->splits : choose_splits(call)));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

static const CallPair attention_decode = {
    .name = "kiln_attention_decode",
    .size_name = "kiln_attention_decode_workspace_size",
    .prepare = prepare_decode,
};

kiln_status kiln_attention_decode_workspace_size(kiln_ops *ops, const kiln_attention_decode_args *a, size_t *bytes)
{
    return pair_size(&attention_decode, ops, a, FORM(kiln_attention_decode_args), bytes);
}

kiln_status kiln_attention_decode(kiln_ops *ops, kiln_stream *stream, const kiln_attention_decode_args *a)
{
    return pair_run(&attention_decode, ops, stream, a, FORM(kiln_attention_decode_args));
}
