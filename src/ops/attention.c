// SPDX-License-Identifier: MIT
// attention.c - the operators of kiln/ops/attention.h over kernels/attention.
#include "kiln/ops/attention.h"
#include "ops/call.h"

#include <inttypes.h>
#include <math.h>

enum { WINDOW_MAX = 1 << 30, HEAD_MAX = 256 };

static const char *yes(bool b) { return b ? "true" : "false"; }

static const char *type_of(const Call *call) { return kiln_type_name(call->tensors[0]->type); }

// Head sizes and counts, once the tensors have bound them.
static kiln_status check_heads(const Call *call)
{
    static const char *const sizes[] = { "D", "DV" };
    const int64_t H = call_extent(call, "H"), HKV = call_extent(call, "HKV");
    for (int i = 0; i < 2; i++) {
        const int64_t size = call_extent(call, sizes[i]);
        if (size < 16 || size > HEAD_MAX || size % 16 != 0)
            return call_fail(call, KILN_UNSUPPORTED, "head size %s is %" PRId64 ", expected a multiple of 16 up to %d",
                             sizes[i], size, HEAD_MAX);
    }
    if (HKV < 1 || H % HKV != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "%" PRId64 " query heads (of '%s') are not a multiple of %" PRId64 " key heads (of '%s')", H,
                         call_source(call, "H"), HKV, call_source(call, "HKV"));
    return KILN_OK;
}

static kiln_status check_window(const Call *call, int64_t window)
{
    return window >= 0 && window <= WINDOW_MAX
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'window' is %" PRId64 ", expected 0 (none) to %d", window,
                           WINDOW_MAX);
}

static kiln_status check_options(const Call *call, int64_t window, const double *given, double *scale)
{
    kiln_status status = check_heads(call);
    if (!status) status = check_window(call, window);
    if (!status) status = call_scale(call, given, 1 / sqrt((double)call_extent(call, "D")), scale);
    return status;
}

// Keys of a step: as many as the shared memory of a multiprocessor holds twice, beside the queries.
static int step_keys(const Call *call)
{
    const int64_t sizes = call_extent(call, "D") + call_extent(call, "DV");
    const int64_t bytes = kiln_type_bits(call->tensors[0]->type) / 8;
    return ops_on_cpu(call->ops) || sizes * bytes <= 640 ? 128 : sizes * bytes <= 1024 ? 64 : 32;
}

// ---- forward

kiln_status kiln_attention_forward(kiln_ops *ops, kiln_stream *stream, const kiln_attention_args *a)
{
    Call call;
    double scale;
    kiln_status status = call_begin(&call, "kiln_attention_forward", ops, a, sizeof *a);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",   a->q,   TYPES_FLOAT,   "Q[B][S][H][D]" },
        { IN,           "k",   a->k,   0,             "K[B][SKV][HKV][D]" },
        { IN,           "v",   a->v,   0,             "V[B][SKV][HKV][DV]" },
        { OUT,          "out", a->out, 0,             "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "lse", a->lse, 1 << KILN_F32, "[B][H][S]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_options(&call, a->window, a->scale, &scale);
    if (!status)
        status = call_kernel(&call, "attention/forward.tile", "attention_forward",
                             "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d, BN=%d%s", type_of(&call),
                             (int)call_extent(&call, "D"), (int)call_extent(&call, "DV"), yes(a->causal || a->window),
                             (int)a->window, step_keys(&call), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(&call, KILN_FLOAT(scale));
    return call_run(&call, stream, NULL, 0);
}

// ---- packed

static kiln_status find_offsets_kernel(const Call *call, int offsets, kiln_kernel **kernel)
{
    return call_taking_kernel(call, "attention/inputs.tile", "attention_offsets", &(Taken){ offsets, "OFFSET" }, 1,
                              kernel, "%s", "");
}

// The offsets stay inside the tensors, and no sequence is longer than the call says.
static kiln_status check_offsets(const Call *call, kiln_stream *stream, int offsets, int64_t rows, int64_t longest)
{
    kiln_kernel *kernel;
    if (!ops_look_at_values(call->ops)) return KILN_OK;
    const kiln_status status = find_offsets_kernel(call, offsets, &kernel);
    const kiln_arg args[] = { call_tensor(call, offsets), KILN_INT(rows), KILN_INT(longest) };
    return status ? status : call_launch(call, stream, kernel, args, COUNT(args));
}

static kiln_status check_longest(const Call *call, const char *name, int64_t rows)
{
    return rows >= 0 && rows <= INT32_MAX
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected the rows of the longest sequence",
                           name, rows);
}

// What the caller's struct calls the parts of a packed call.
typedef struct PackedNames {
    const char *q, *k, *v, *q_offsets, *k_offsets, *max_queries;
} PackedNames;

static kiln_status forward_varlen(Call *call, kiln_stream *stream, const kiln_attention_varlen_args *a,
                                  const PackedNames *names)
{
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
    if (!status) status = check_options(call, a->window, a->scale, &scale);
    if (!status) status = check_longest(call, names->max_queries, a->max_queries);
    if (status) return status;
    status = call_kernel(call, "attention/varlen.tile", "attention_varlen",
                         "T=%s, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d, BN=%d%s", type_of(call), (int)call_extent(call, "D"),
                         (int)call_extent(call, "DV"), yes(a->causal || a->window), (int)a->window, step_keys(call),
                         LACKS(a->lse, "LSE"));
    if (!status) status = check_offsets(call, stream, 3, call_extent(call, "TQ"), a->max_queries);
    if (!status) status = check_offsets(call, stream, 4, call_extent(call, "TK"), INT32_MAX);
    if (status) return status;
    call_add(call, KILN_INT(a->max_queries));
    call_add(call, KILN_FLOAT(scale));
    return call_run(call, stream, NULL, 0);
}

kiln_status kiln_attention_forward_varlen(kiln_ops *ops, kiln_stream *stream, const kiln_attention_varlen_args *a)
{
    Call call;
    const kiln_status status = call_begin(&call, "kiln_attention_forward_varlen", ops, a, sizeof *a);
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
    kiln_status status = call_begin(&call, "kiln_attention_forward_qkvpacked", ops, a, sizeof *a);
    if (!status && (a->head_size < 1 || a->head_size > HEAD_MAX))
        status =
            call_fail(&call, KILN_BAD_ARGUMENT, "'head_size' is %" PRId64 ", expected 1 to %d", a->head_size, HEAD_MAX);
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
                                                                  .scale = a->scale },
                                   &names);
}

kiln_status kiln_attention_forward_kvpacked(kiln_ops *ops, kiln_stream *stream, const kiln_attention_kvpacked_args *a)
{
    Call call;
    kiln_tensor k, v;
    static const PackedNames names = { "q", "kv", "kv", "q_offsets", "k_offsets", "max_queries" };
    kiln_status status = call_begin(&call, "kiln_attention_forward_kvpacked", ops, a, sizeof *a);
    if (!status && !a->q) status = call_fail(&call, KILN_BAD_ARGUMENT, "'q' is null");
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
                                                                  .scale = a->scale },
                                   &names);
}

// ---- backward

static kiln_status prepare_backward(Call *call, const kiln_attention_backward_args *a)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,  "q",    a->q,    TYPES_FLOAT,   "Q[B][S][H][D]" },
        { IN,  "k",    a->k,    0,             "K[B][SKV][HKV][D]" },
        { IN,  "v",    a->v,    0,             "V[B][SKV][HKV][DV]" },
        { IN,  "out",  a->out,  0,             "O[B][S][H][DV]" },
        { IN,  "lse",  a->lse,  1 << KILN_F32, "[B][H][S]" },
        { IN,  "dout", a->dout, 0,             "dO[B][S][H][DV]" },
        { OUT, "dq",   a->dq,   0,             "dQ[B][S][H][D]" },
        { OUT, "dk",   a->dk,   0,             "dK[B][SKV][HKV][D]" },
        { OUT, "dv",   a->dv,   0,             "dV[B][SKV][HKV][DV]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_options(call, 0, a->scale, &scale);
    if (!status)
        status = call_kernel(call, "attention/backward.tile",
                             a->deterministic ? "attention_backward_exact" : "attention_backward",
                             "T=%s, D=%d, DV=%d, CAUSAL=%s", type_of(call), (int)call_extent(call, "D"),
                             (int)call_extent(call, "DV"), yes(a->causal));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

kiln_status kiln_attention_backward_workspace_size(kiln_ops *ops, const kiln_attention_backward_args *a, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_attention_backward_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_backward(&call, a);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_attention_backward(kiln_ops *ops, kiln_stream *stream, const kiln_attention_backward_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_attention_backward", ops, a, sizeof *a);
    if (!status) status = prepare_backward(&call, a);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}

// ---- backward, packed

static kiln_status prepare_backward_varlen(Call *call, const kiln_attention_backward_varlen_args *a)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,  "q",         a->q,         TYPES_FLOAT,   "Q[TQ][H][D]" },
        { IN,  "k",         a->k,         0,             "K[TK][HKV][D]" },
        { IN,  "v",         a->v,         0,             "V[TK][HKV][DV]" },
        { IN,  "out",       a->out,       0,             "O[TQ][H][DV]" },
        { IN,  "lse",       a->lse,       1 << KILN_F32, "[H][TQ]" },
        { IN,  "dout",      a->dout,      0,             "dO[TQ][H][DV]" },
        { IN,  "q_offsets", a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { IN,  "k_offsets", a->k_offsets, 1 << KILN_I32, "KOffset[B + 1]" },
        { OUT, "dq",        a->dq,        0,             "dQ[TQ][H][D]" },
        { OUT, "dk",        a->dk,        0,             "dK[TK][HKV][D]" },
        { OUT, "dv",        a->dv,        0,             "dV[TK][HKV][DV]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_options(call, 0, a->scale, &scale);
    if (!status) status = check_longest(call, "max_keys", a->max_keys);
    if (!status && a->deterministic) status = check_longest(call, "max_queries", a->max_queries);
    if (!status)
        status = call_kernel(call, "attention/backward_varlen.tile",
                             a->deterministic ? "attention_varlen_backward_exact" : "attention_varlen_backward",
                             "T=%s, D=%d, DV=%d, CAUSAL=%s", type_of(call), (int)call_extent(call, "D"),
                             (int)call_extent(call, "DV"), yes(a->causal));
    if (status) return status;
    if (a->deterministic) call_add(call, KILN_INT(a->max_queries));
    call_add(call, KILN_INT(a->max_keys));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

kiln_status kiln_attention_backward_varlen_workspace_size(kiln_ops *ops, const kiln_attention_backward_varlen_args *a,
                                                          size_t *bytes)
{
    Call call;
    kiln_kernel *offsets;
    kiln_status status =
        call_begin_sizing(&call, "kiln_attention_backward_varlen_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_backward_varlen(&call, a);
    if (!status && ops_look_at_values(ops)) status = find_offsets_kernel(&call, 6, &offsets); // the call finds it built
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_attention_backward_varlen(kiln_ops *ops, kiln_stream *stream,
                                           const kiln_attention_backward_varlen_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_attention_backward_varlen", ops, a, sizeof *a);
    if (!status) status = prepare_backward_varlen(&call, a);
    if (!status && ops_look_at_values(ops)) status = call_room(&call, a->workspace_bytes);
    if (!status)
        status =
            check_offsets(&call, stream, 6, call_extent(&call, "TQ"), a->deterministic ? a->max_queries : INT32_MAX);
    if (!status) status = check_offsets(&call, stream, 7, call_extent(&call, "TK"), a->max_keys);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}

// ---- decoding

enum {
    CPU_KEYS = 128, // of a step
    GPU_KEYS = 64,
    SHARE_STEPS = 2, // that a share takes beside its own, to begin, to end and to be combined
};

// So many shares that every processor has work, of at least two steps of keys each.
static int64_t splits_on_cpu(int64_t tiles, int64_t keys, int64_t processors)
{
    const int64_t steps = keys / (2 * CPU_KEYS), splits = tiles > 0 ? (4 * processors + tiles - 1) / tiles : 1;
    return splits < steps ? splits : steps;
}

// The longest time of a multiprocessor, in steps. It works on one share at a time, or on two, which take as long together
// as one after the other.
static int64_t time_of_shares(int64_t shares, int64_t steps, int64_t processors, bool two)
{
    const int64_t at_once = two ? 2 * processors : processors, rounds = shares / at_once;
    const int64_t left = shares - rounds * at_once;
    return (rounds * (two ? 2 : 1) + (left > processors ? 2 : left > 0 ? 1 : 0)) * (steps + SHARE_STEPS);
}

static int64_t splits_on_gpu(int64_t tiles, int64_t keys, int64_t processors, bool two)
{
    static const int counts[] = { 2, 3, 4, 5, 6, 8, 11, 16, 22, 32 }; // 32: what the combining kernel takes at once
    const int64_t steps = (keys + GPU_KEYS - 1) / GPU_KEYS;
    int64_t best = 1, least = time_of_shares(tiles, steps, processors, two);
    for (int i = 0; i < COUNT(counts) && counts[i] <= steps; i++) {
        const int n = counts[i];
        const int64_t time = time_of_shares(tiles * n, (steps + n - 1) / n, processors, two);
        if (time >= least) continue;
        best = n;
        least = time;
    }
    return best;
}

static int64_t choose_splits(const Call *call)
{
    const int64_t tiles = call_extent(call, "B") * call_extent(call, "HKV"), keys = call_extent(call, "S");
    const int64_t processors = ops_processors(call->ops);
    const bool two =
        call_extent(call, "D") <= 128 && call_extent(call, "DV") <= 128 && call->tensors[0]->type != KILN_F32;
    const int64_t splits =
        ops_on_cpu(call->ops) ? splits_on_cpu(tiles, keys, processors) : splits_on_gpu(tiles, keys, processors, two);
    return splits > 1 ? splits : 1;
}

static kiln_status prepare_decode(Call *call, const kiln_attention_decode_args *a)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",       a->q,       TYPES_FLOAT,   "Q[B][H][D]" },
        { IN,           "k",       a->k,       0,             "K[B][S][HKV][D]" },
        { IN,           "v",       a->v,       0,             "V[B][S][HKV][DV]" },
        { IN_OPTIONAL,  "mask",    a->mask,    1 << KILN_U8,  "[B][S][HKV]" },
        { IN_OPTIONAL,  "lengths", a->lengths, 1 << KILN_I32, "LENGTH[B]" },
        { OUT,          "out",     a->out,     0,             "O[B][H][DV]" },
        { OUT_OPTIONAL, "lse",     a->lse,     1 << KILN_F32, "[B][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_options(call, 0, a->scale, &scale);
    if (!status && (a->splits < 0 || a->splits > 65536))
        status = call_fail(call, KILN_BAD_ARGUMENT,
                           "'splits' is %" PRId64 ", expected 1 to 65536, or 0 for a number that fills "
                           "the device",
                           a->splits);
    if (status) return status;
    status = call_kernel(call, "attention/decode.tile", "flash_decode", "T=%s, D=%d, DV=%d, G=%d, BN=%d%-s%-s%-s",
                         type_of(call), (int)call_extent(call, "D"), (int)call_extent(call, "DV"),
                         (int)(call_extent(call, "H") / call_extent(call, "HKV")),
                         ops_on_cpu(call->ops) ? CPU_KEYS : GPU_KEYS, LACKS(a->mask, "Mask"),
                         LACKS(a->lengths, "LENGTH"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(call, KILN_INT(a->splits ? a->splits : choose_splits(call)));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

kiln_status kiln_attention_decode_workspace_size(kiln_ops *ops, const kiln_attention_decode_args *a, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, "kiln_attention_decode_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_decode(&call, a);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_attention_decode(kiln_ops *ops, kiln_stream *stream, const kiln_attention_decode_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_attention_decode", ops, a, sizeof *a);
    if (!status) status = prepare_decode(&call, a);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}
