// SPDX-License-Identifier: MIT
// deepseek.c - the operators of kiln/ops/deepseek.h over kernels/topk and kernels/mla/prefill.tile.
#include "kiln/ops/deepseek.h"
#include "kiln/ops/mla.h"
#include "ops/deepseek_call.h"

#include <inttypes.h>
#include <math.h>

enum {
    INDEX_SIZE_MAX = 256, // of one
    TOPK_MAX = 16384,
    ROWS_STEP = 16, // queries at a time are a multiple, so that what begins with one of them is aligned
};

// ---- what the calls share

kiln_status indexer_heads(const Call *call)
{
    const int64_t heads = call_extent(call, "HI"), size = call_extent(call, "DI");
    if (heads < 8 || heads > INDEXER_HEADS_MAX || heads % 8 != 0)
        return call_fail(call, KILN_UNSUPPORTED,
                         "the indexer has %" PRId64 " heads (of '%s'), expected a multiple of 8 up to %d", heads,
                         call_source(call, "HI"), INDEXER_HEADS_MAX);
    return size >= 32 && size <= INDEX_SIZE_MAX && size % 32 == 0
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "the indexer's head size (of '%s') is %" PRId64 ", expected a multiple of 32 up to %d",
                           call_source(call, "DI"), size, INDEX_SIZE_MAX);
}

kiln_status indexer_topk(const Call *call, int64_t topk)
{
    return topk >= 1 && topk <= TOPK_MAX ? KILN_OK
                                         : call_fail(call, topk < 1 ? KILN_BAD_SHAPE : KILN_UNSUPPORTED,
                                                     "'topk' is %" PRId64 ", expected 1 to %d", topk, TOPK_MAX);
}

kiln_status indexer_keys(const Call *call, const double *given, double *scale)
{
    const int64_t D = call_extent(call, "D");
    return D == KILN_MLA_KEY || D == KILN_MLA_VALUE
               ? call_scale(call, given, 1 / sqrt((double)D), scale)
               : call_fail(call, KILN_UNSUPPORTED,
                           "the key size (dimension 2 of 'q') is %" PRId64 ", expected %d or %d", D, KILN_MLA_KEY,
                           KILN_MLA_VALUE);
}

// ---- logits

kiln_status kiln_indexer_logits(kiln_ops *ops, kiln_stream *stream, const kiln_indexer_logits_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_indexer_logits", ops, a, FORM(kiln_indexer_logits_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "q",        a->q,        1 << KILN_E4M3, "Q[S][HI][DI]" },
        { IN,          "k",        a->k,        1 << KILN_E4M3, "K[SKV][DI]" },
        { IN,          "k_scales", a->k_scales, 1 << KILN_F32,  "[SKV]" },
        { IN,          "weights",  a->weights,  1 << KILN_F32,  "W[S][HI]" },
        { IN_OPTIONAL, "starts",   a->starts,   1 << KILN_I32,  "KS[S]" },
        { IN_OPTIONAL, "ends",     a->ends,     1 << KILN_I32,  "KE[S]" },
        { OUT,         "logits",   a->logits,   1 << KILN_F32,  "L[S][SKV]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = indexer_heads(&call);
    if (!status)
        status = call_kernel(&call, "topk/indexer.tile", "indexer_logits", "H=%d, D=%d, CLEAN=%s%-s%-s",
                             (int)call_extent(&call, "HI"), (int)call_extent(&call, "DI"), yes(!a->windows_alone),
                             LACKS(a->starts, "KS"), LACKS(a->ends, "KE"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_indexer_scores(kiln_ops *ops, kiln_stream *stream, const kiln_indexer_scores_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_indexer_scores", ops, a, FORM(kiln_indexer_scores_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,  "q",        a->q,        1 << KILN_E4M3, "Q[B][S][HI][DI]" },
        { IN,  "weights",  a->weights,  1 << KILN_F32,  "W[B][S][HI]" },
        { IN,  "k",        a->k,        1 << KILN_E4M3, "K[B][SKV][DI]" },
        { IN,  "k_scales", a->k_scales, 1 << KILN_F32,  "KSCALE[B][SKV]" },
        { OUT, "scores",   a->scores,   1 << KILN_F32,  "O[B][S][SKV]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = indexer_heads(&call);
    if (status) return status;
    const int heads = (int)call_extent(&call, "HI"),
              queries = call_extent(&call, "S") > 1 ? INDEXER_HEADS_MAX / heads : 1;
    status = call_kernel(&call, "topk/indexer.tile", "indexer_scores", "H=%d, D=%d, BQ=%d", heads,
                         (int)call_extent(&call, "DI"), queries);
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_clean_logits(kiln_ops *ops, kiln_stream *stream, const kiln_clean_logits_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_clean_logits", ops, a, FORM(kiln_clean_logits_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { OUT, "logits", a->logits, 1 << KILN_F32, "L[S][SKV]" },
                           { IN_OPTIONAL, "starts", a->starts, 1 << KILN_I32, "KS[S]" },
                           { IN_OPTIONAL, "ends", a->ends, 1 << KILN_I32, "KE[S]" } };
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status)
        status = call_kernel(&call, "topk/indexer.tile", "logits_clean", "BN=4096%-s%-s", LACKS(a->starts, "KS"),
                             LACKS(a->ends, "KE"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- selection

const char *indexer_selection(const Call *call, int64_t rows)
{
    const bool is_alone = rows <= ops_processors(call->ops) && !ops_on_cpu(call->ops) && !call->ops->options.check;
    return is_alone ? ", CAP=32768, OCC=1" : "";
}

kiln_status kiln_topk_select(kiln_ops *ops, kiln_stream *stream, const kiln_topk_select_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_topk_select", ops, a, FORM(kiln_topk_select_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "logits", a->logits, 1 << KILN_F32, "X[S][SKV]" },
                           { IN_OPTIONAL, "starts", a->starts, 1 << KILN_I32, "START[S]" },
                           { IN_OPTIONAL, "ends", a->ends, 1 << KILN_I32, "END[S]" },
                           { OUT, "indices", a->indices, 1 << KILN_I32, "INDEX[S][topk]" } };
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = indexer_topk(&call, call_extent(&call, "topk"));
    if (!status)
        status = call_kernel(&call, "topk/select.tile", "topk_select", "K=%d%-s%-s%s", (int)call_extent(&call, "topk"),
                             LACKS(a->starts, "START"), LACKS(a->ends, "END"),
                             indexer_selection(&call, call_extent(&call, "S")));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- all of it

// Places in the table of the call.
enum { INDEX_Q, INDEX_K, SCALES, WEIGHTS, STARTS, ENDS, Q, KV, SINK, RESULT, TOP, LSE, INDICES, N_TENSORS };

// What a call runs for each part of its queries.
typedef struct Indexed {
    Call call;
    double scale;
    int64_t topk, rows, pitch; // queries at a time; of a row of logits, a multiple of 16 bytes
    size_t logits_bytes, bytes;
    kiln_kernel *indexer, *select, *attention;
} Indexed;

static kiln_status choose_rows(Indexed *x, const kiln_indexed_attention_args *a)
{
    const int64_t S = call_extent(&x->call, "S"), keys = call_extent(&x->call, "SKV");
    if (a->rows < 0)
        return call_fail(&x->call, KILN_BAD_ARGUMENT,
                         "'rows' is %" PRId64 ", expected queries at a time, or 0 for a number that fills the device",
                         a->rows);
    x->pitch = (keys + 3) / 4 * 4;
    const int64_t fit = x->pitch ? INDEXER_LOGITS / 4 / x->pitch : S, wanted = a->rows              ? a->rows
                                                                               : fit > INDEXER_ROWS ? fit
                                                                                                    : INDEXER_ROWS;
    x->rows = wanted < S ? (wanted + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP : S;
    if (x->rows > S) x->rows = S;
    x->logits_bytes = plan_room(x->rows * x->pitch);
    x->bytes = x->logits_bytes + (a->indices ? 0 : plan_room(x->rows * a->topk));
    return KILN_OK;
}

static kiln_status check_indexed(Indexed *x, const kiln_indexed_attention_args *a)
{
    Call *const call = &x->call;
    const kiln_tensor *const kv = call_without_key_head(call, a->kv, 2);
    // clang-format off
    const Want wants[N_TENSORS] = {
        [INDEX_Q] = { IN,           "index_q",       a->index_q,       1 << KILN_E4M3, "Q[S][HI][DI]" },
        [INDEX_K] = { IN,           "index_k",       a->index_k,       1 << KILN_E4M3, "K[SKV][DI]" },
        [SCALES]  = { IN,           "index_scales",  a->index_scales,  1 << KILN_F32,  "[SKV]" },
        [WEIGHTS] = { IN,           "index_weights", a->index_weights, 1 << KILN_F32,  "W[S][HI]" },
        [STARTS]  = { IN_OPTIONAL,  "starts",        a->starts,        1 << KILN_I32,  "KS[S]" },
        [ENDS]    = { IN_OPTIONAL,  "ends",          a->ends,          1 << KILN_I32,  "KE[S]" },
        [Q]       = { IN,           "q",             a->q,             1 << KILN_BF16, "Q[S][H][D]" },
        [KV]      = { IN,           "kv",            kv,               1 << KILN_BF16, "KV[SKV][D]" },
        [SINK]    = { IN_OPTIONAL,  "sink",          a->sink,          1 << KILN_F32,  "[H]" },
        [RESULT]  = { OUT,          "out",           a->out,           1 << KILN_BF16, "O[S][H][512]" },
        [TOP]     = { OUT_OPTIONAL, "max_logits",    a->max_logits,    1 << KILN_F32,  "[S][H]" },
        [LSE]     = { OUT_OPTIONAL, "lse",           a->lse,           1 << KILN_F32,  "[S][H]" },
        [INDICES] = { OUT_OPTIONAL, "indices",       a->indices,       1 << KILN_I32,  "INDEX[S][topk]" },
    };
    // clang-format on
    call_bind(call, "topk", a->topk, "topk");
    kiln_status status = indexer_topk(call, a->topk);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = indexer_heads(call);
    if (status) return status;
    x->topk = a->topk;
    status = indexer_keys(call, a->scale, &x->scale);
    return status ? status : choose_rows(x, a);
}

static kiln_status find_kernels(Indexed *x, const kiln_indexed_attention_args *a)
{
    static const Taken indexer[] = { { INDEX_Q, "Q" }, { INDEX_K, "K" }, { SCALES, "KSCALE" },
                                     { WEIGHTS, "W" }, { STARTS, "KS" }, { ENDS, "KE" } };
    static const Taken select[] = { { STARTS, "START" }, { ENDS, "END" }, { INDICES, "INDEX" } };
    static const Taken attention[] = { { Q, "Q" },     { KV, "KV" },   { SINK, "SINK" },    { RESULT, "O" },
                                       { TOP, "TOP" }, { LSE, "LSE" }, { INDICES, "INDEX" } };
    const Call *const call = &x->call;
    const int own = a->indices ? 0 : 1; // the indices in the workspace are as the kernels' own
    const bool padded = x->pitch != call_extent(call, "SKV");
    kiln_status status = call_taking_kernel(call, "topk/indexer.tile", "indexer_logits", indexer, COUNT(indexer),
                                            &x->indexer, "H=%d, D=%d, CLEAN=false%s", (int)call_extent(call, "HI"),
                                            (int)call_extent(call, "DI"), padded ? ", L=strided" : "");
    if (!status)
        status = call_taking_kernel(call, "topk/select.tile", "topk_select", select, COUNT(select) - own, &x->select,
                                    "K=%d%s", (int)x->topk, padded ? ", X=strided" : "");
    if (!status)
        status = call_taking_kernel(call, "mla/prefill.tile", "mla_prefill_sparse", attention, COUNT(attention) - own,
                                    &x->attention, "D=%d, BASE2=%s, LIMIT=none, END=none", (int)call_extent(call, "D"),
                                    yes(a->base2));
    return status;
}

static kiln_status prepare(Indexed *x, const kiln_indexed_attention_args *a)
{
    const kiln_status status = check_indexed(x, a);
    return status ? status : find_kernels(x, a);
}

// n rows of tensor i, from the first on.
static kiln_arg rows_of(const Call *call, int i, int64_t first, int64_t n, kiln_tensor *to)
{
    const kiln_tensor *const t = call->tensors[i];
    if (!t) return KILN_NONE;
    int64_t stride = 1;
    for (int d = t->rank - 1; d > 0; d--) stride *= t->shape[d];
    if (t->has_strides) stride = t->strides[0];
    *to = *t;
    to->shape[0] = n;
    if (t->data) to->data = (char *)t->data + first * stride * (kiln_type_bits(t->type) / 8);
    return KILN_TENSOR(to);
}

static kiln_status run_rows(const Indexed *x, kiln_stream *stream, void *workspace, int64_t first, int64_t n)
{
    const Call *const call = &x->call;
    kiln_device *const device = call->ops->device;
    kiln_tensor part[N_TENSORS];
    kiln_arg arg[N_TENSORS];
    for (int i = 0; i < N_TENSORS; i++)
        arg[i] = i == INDEX_K || i == SCALES || i == KV || i == SINK ? call_tensor(call, i)
                                                                     : rows_of(call, i, first, n, &part[i]);
    kiln_tensor logits = kiln_tensor_of(device, workspace, KILN_F32, 2, (int64_t[]){ n, call_extent(call, "SKV") });
    kiln_tensor indices =
        kiln_tensor_of(device, (char *)workspace + x->logits_bytes, KILN_I32, 2, (int64_t[]){ n, x->topk });
    logits.has_strides = x->pitch != logits.shape[1];
    logits.strides[0] = x->pitch, logits.strides[1] = 1;
    if (arg[INDICES].kind != KILN_ARG_TENSOR) arg[INDICES] = KILN_TENSOR(&indices);
    const kiln_arg index[] = { arg[INDEX_Q], arg[INDEX_K], arg[SCALES],         arg[WEIGHTS],
                               arg[STARTS],  arg[ENDS],    KILN_TENSOR(&logits) };
    const kiln_arg select[] = { KILN_TENSOR(&logits), arg[STARTS], arg[ENDS], arg[INDICES] };
    const kiln_arg attend[] = { arg[Q],    arg[KV],     arg[INDICES], arg[SINK], KILN_NONE,
                                KILN_NONE, arg[RESULT], arg[TOP],     arg[LSE],  KILN_FLOAT(x->scale) };
    kiln_status status = call_launch(call, stream, x->indexer, index, COUNT(index));
    if (!status) status = call_launch(call, stream, x->select, select, COUNT(select));
    return status ? status : call_launch(call, stream, x->attention, attend, COUNT(attend));
}

kiln_status kiln_indexed_attention_workspace_size(kiln_ops *ops, const kiln_indexed_attention_args *a, size_t *bytes)
{
    Indexed x;
    kiln_status status = call_begin_sizing(&x.call, "kiln_indexed_attention_workspace_size", ops, a,
                                           FORM(kiln_indexed_attention_args), bytes);
    if (call_again(&x.call, NULL, &status)) return status;
    status = prepare(&x, a);
    return status ? status : call_sized(&x.call, x.bytes);
}

kiln_status kiln_indexed_attention(kiln_ops *ops, kiln_stream *stream, const kiln_indexed_attention_args *a)
{
    Indexed x;
    kiln_status status = call_begin(&x.call, "kiln_indexed_attention", ops, a, FORM(kiln_indexed_attention_args));
    if (call_again(&x.call, stream, &status)) return status;
    status = prepare(&x, a);
    if (!status && a->workspace_bytes < x.bytes)
        status = call_fail(&x.call, KILN_BAD_ARGUMENT, "needs a workspace of %zu bytes, %zu given", x.bytes,
                           a->workspace_bytes);
    if (status) return status;
    const int64_t S = call_extent(&x.call, "S");
    for (int64_t first = 0; !status && first < S; first += x.rows)
        status = run_rows(&x, stream, a->workspace, first, S - first < x.rows ? S - first : x.rows);
    if (!status) call_done(&x.call);
    return status;
}
