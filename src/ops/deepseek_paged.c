// SPDX-License-Identifier: MIT
// deepseek_paged.c - the operators of kiln/ops/deepseek.h over paged caches: kernels/topk/indexer_paged.tile and what it goes with.
#include "kiln/ops/deepseek.h"
#include "kiln/ops/mla.h"
#include "ops/deepseek_call.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PAGE_MAX = 256, STEP_KEYS = 256, STEPS = 8, STEPS_FEW = 2 };

// Places in the table of the call. What attention takes comes last.
enum { INDEX_Q, INDEX_K, SCALES, WEIGHTS, TABLE, LENGTHS, OFFSETS, INDICES, Q, KV, SINK, RESULT, TOP, LSE, N_TENSORS };

// A call: its tiles of `group` queries of a request, so many of them at a time.
typedef struct Paged {
    Call call;
    double scale;
    bool attends;
    int64_t topk, keys, pitch, group, tiles, at_once; // keys: columns of logits, which are `pitch` apart
    size_t list_bytes, logits_bytes, ends_bytes, chosen_bytes, bytes;
    kiln_tensor flat; // kv as rows
    kiln_kernel *list, *indexer, *select, *places, *attention, *check_pages;
} Paged;

static kiln_status check_page(const Call *call)
{
    const int64_t size = call_extent(call, "page size");
    return size >= 1 && size <= PAGE_MAX
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "the page size (dimension 1 of 'index_k') is %" PRId64 ", expected 1 to %d", size, PAGE_MAX);
}

// All of q, kv and out, or none, and then none of what goes with them.
static kiln_status check_kind(Paged *x, const kiln_indexed_attention_paged_args *a)
{
    Call *const call = &x->call;
    x->attends = a->q != NULL;
    const kiln_tensor *const others[] = { a->kv, a->out, a->sink, a->max_logits, a->lse };
    static const char *const names[] = { "kv", "out", "sink", "max_logits", "lse" };
    for (int i = 0; i < COUNT(others); i++)
        if (x->attends ? i < 2 && !others[i] : others[i] != NULL)
            return call_fail(call, KILN_BAD_ARGUMENT, x->attends ? "'%s' is null" : "'%s' is given, but 'q' is null",
                             names[i]);
    return x->attends || a->indices
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'q' and 'indices' are null: nothing is wanted");
}

static kiln_status check_tensors(Paged *x, const kiln_indexed_attention_paged_args *a)
{
    Call *const call = &x->call;
    const kiln_tensor *const kv = a->kv ? call_without_key_head(call, a->kv, 3) : NULL;
    // clang-format off
    const Want wants[N_TENSORS] = {
        [INDEX_Q] = { IN,           "index_q",       a->index_q,       1 << KILN_E4M3, "Q[TQ][HI][DI]" },
        [INDEX_K] = { IN,           "index_k",       a->index_k,       1 << KILN_E4M3, "K[pages][page size][DI]" },
        [SCALES]  = { IN,           "index_scales",  a->index_scales,  1 << KILN_F32,  "KSCALE[pages][page size]" },
        [WEIGHTS] = { IN,           "index_weights", a->index_weights, 1 << KILN_F32,  "W[TQ][HI]" },
        [TABLE]   = { IN,           "table",         a->table,         1 << KILN_I32,  "TABLE[B][pages per request]" },
        [LENGTHS] = { IN,           "lengths",       a->lengths,       1 << KILN_I32,  "LENGTH[B]" },
        [OFFSETS] = { IN_OPTIONAL,  "q_offsets",     a->q_offsets,     1 << KILN_I32,  "QOffset[B + 1]" },
        [INDICES] = { OUT_OPTIONAL, "indices",       a->indices,       1 << KILN_I32,  "INDEX[TQ][topk]" },
        [Q]       = { IN,           "q",             a->q,             1 << KILN_BF16, "Q[TQ][H][D]" },
        [KV]      = { IN,           "kv",            kv,               1 << KILN_BF16, "KV[pages][page size][D]" },
        [SINK]    = { IN_OPTIONAL,  "sink",          a->sink,          1 << KILN_F32,  "[H]" },
        [RESULT]  = { OUT,          "out",           a->out,           1 << KILN_BF16, "O[TQ][H][512]" },
        [TOP]     = { OUT_OPTIONAL, "max_logits",    a->max_logits,    1 << KILN_F32,  "[TQ][H]" },
        [LSE]     = { OUT_OPTIONAL, "lse",           a->lse,           1 << KILN_F32,  "[TQ][H]" },
    };
    // clang-format on
    call_bind(call, "topk", a->topk, "topk");
    kiln_status status = indexer_topk(call, a->topk);
    if (!status)
        status = call_check(call, wants, x->attends ? N_TENSORS : Q, "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = indexer_heads(call);
    if (!status) status = check_page(call);
    if (!status && x->attends) status = indexer_keys(call, a->scale, &x->scale);
    if (status) return status;
    const int64_t B = call_extent(call, "B"), TQ = call_extent(call, "TQ");
    if (!a->q_offsets && (B ? TQ % B != 0 : TQ != 0))
        return call_fail(call, KILN_BAD_SHAPE,
                         "'q_offsets' is null, but the %" PRId64 " rows of 'index_q' are not a multiple of %" PRId64
                         " requests (of 'table')",
                         TQ, B);
    if (a->max_keys < 0 || a->rows < 0)
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected 0 or more",
                         a->max_keys < 0 ? "max_keys" : "rows", a->max_keys < 0 ? a->max_keys : a->rows);
    if (TQ > INT32_MAX)
        return call_fail(call, KILN_UNSUPPORTED, "'index_q' has TQ = %" PRId64 ", expected at most %d", TQ, INT32_MAX);
    const int64_t pages = call_extent(call, "pages per request"), size = call_extent(call, "page size");
    return pages <= INT32_MAX / size
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "'table' has %" PRId64 " pages per request, expected at most %" PRId64 ": %d tokens", pages,
                           INT32_MAX / size, INT32_MAX);
}

// kv as rows that slots count, which its pages must allow.
static kiln_status flatten(Paged *x)
{
    if (!x->attends) return KILN_OK;
    const kiln_tensor *const kv = x->call.tensors[KV];
    const int64_t size = kv->shape[1], D = kv->shape[2];
    const int64_t page = kv->has_strides ? kv->strides[0] : size * D;
    const int64_t row = !kv->has_strides ? D : size == 1 ? page : kv->strides[1];
    if (kv->shape[0] > 1 && page != size * row)
        return call_fail(&x->call, KILN_UNSUPPORTED,
                         "pages of 'kv' are %" PRId64 " elements apart, expected %" PRId64 ", so that slots are rows",
                         page, size * row);
    x->flat = *kv;
    x->flat.rank = 2;
    x->flat.shape[0] = kv->shape[0] * size, x->flat.shape[1] = D;
    x->flat.has_strides = row != D;
    x->flat.strides[0] = row, x->flat.strides[1] = 1;
    return KILN_OK;
}

static void choose_sizes(Paged *x, const kiln_indexed_attention_paged_args *a)
{
    const Call *const call = &x->call;
    const int64_t B = call_extent(call, "B"), TQ = call_extent(call, "TQ"), heads = call_extent(call, "HI");
    const int64_t room = call_extent(call, "pages per request") * call_extent(call, "page size");
    x->topk = a->topk;
    x->keys = a->max_keys && a->max_keys < room ? a->max_keys : room;
    x->pitch = (x->keys + 3) / 4 * 4;
    x->group = TQ > B && heads < INDEXER_HEADS_MAX ? INDEXER_HEADS_MAX / heads : 1;
    x->tiles = TQ / x->group + B;
    const int64_t fit = x->pitch ? INDEXER_LOGITS / 4 / x->pitch : TQ;
    const int64_t rows = a->rows ? a->rows : fit > INDEXER_ROWS ? fit : INDEXER_ROWS;
    const int64_t wanted =
        rows < x->group ? 1 : rows / x->group; // then a multiple of 4: what begins with one is aligned
    x->at_once = wanted < x->tiles - 3 ? (wanted + 3) / 4 * 4 : x->tiles;
    x->list_bytes = plan_room(x->tiles * 2);
    x->logits_bytes = plan_room(x->at_once * x->group * x->pitch);
    x->ends_bytes = plan_room(x->at_once * x->group);
    x->chosen_bytes = plan_room(x->at_once * x->group * x->topk);
    x->bytes =
        x->list_bytes + x->logits_bytes + x->ends_bytes + x->chosen_bytes + (a->indices ? 0 : plan_room(TQ * x->topk));
}

static kiln_status find_attention(Paged *x, const kiln_indexed_attention_paged_args *a)
{
    static const Taken taken[] = { { Q, "Q" },     { SINK, "SINK" }, { RESULT, "O" },
                                   { TOP, "TOP" }, { LSE, "LSE" },   { INDICES, "INDEX" } };
    return call_taking_kernel(&x->call, "mla/prefill.tile", "mla_prefill_sparse", taken,
                              COUNT(taken) - (a->indices ? 0 : 1), &x->attention,
                              "D=%d, BASE2=%s, LIMIT=none, END=none%s", (int)call_extent(&x->call, "D"), yes(a->base2),
                              x->flat.has_strides ? ", KV=strided" : "");
}

static kiln_status find_kernels(Paged *x, const kiln_indexed_attention_paged_args *a)
{
    static const char file[] = "topk/indexer_paged.tile";
    static const Taken batch[] = {
        { LENGTHS, "LENGTH" }, { OFFSETS, "QOffset" }, { TABLE, "TABLE" }, { INDICES, "INDEX" }
    };
    static const Taken index[] = { { INDEX_Q, "Q" },   { INDEX_K, "K" },      { SCALES, "KSCALE" },  { WEIGHTS, "W" },
                                   { TABLE, "TABLE" }, { LENGTHS, "LENGTH" }, { OFFSETS, "QOffset" } };
    static const Taken looked_at[] = { { TABLE, "TABLE" }, { LENGTHS, "LENGTH" }, { OFFSETS, "OFFSET" } };
    const Call *const call = &x->call;
    const bool padded = x->pitch != x->keys;
    const int64_t instances = x->at_once * ((x->keys + STEP_KEYS * STEPS - 1) / (STEP_KEYS * STEPS));
    kiln_status status = call_taking_kernel(call, "attention/paged.tile", "paged_tiles", batch, 2, &x->list,
                                            "G=1, BM=%d", (int)x->group);
    if (!status)
        status = call_taking_kernel(
            call, file, "indexer_paged", index, COUNT(index), &x->indexer, "H=%d, D=%d, PS=%d, BQ=%d, STEPS=%d%s",
            (int)call_extent(call, "HI"), (int)call_extent(call, "DI"), (int)call_extent(call, "page size"),
            (int)x->group, instances < ops_processors(call->ops) ? STEPS_FEW : STEPS, padded ? ", L=strided" : "");
    if (!status)
        status = call_taking_kernel(call, "topk/select.tile", "topk_select", NULL, 0, &x->select,
                                    "K=%d, START=none%s%s", (int)x->topk, padded ? ", X=strided" : "",
                                    indexer_selection(call, x->at_once * x->group));
    if (!status)
        status = call_taking_kernel(call, file, "index_places", batch, a->indices ? 4 : 3, &x->places, "BQ=%d",
                                    (int)x->group);
    if (!status && x->attends) status = find_attention(x, a);
    x->check_pages = NULL;
    if (!status && ops_look_at_values(call->ops))
        status = call_taking_kernel(call, "attention/inputs.tile", "attention_pages", looked_at, COUNT(looked_at),
                                    &x->check_pages, "%s", "");
    if (!status && call->sizing) status = call_check_offsets(call, NULL, OFFSETS, 0, 0); // the call finds it built
    return status;
}

static kiln_status prepare(Paged *x, const kiln_indexed_attention_paged_args *a)
{
    kiln_status status = check_kind(x, a);
    if (!status) status = check_tensors(x, a);
    if (!status) status = flatten(x);
    if (status) return status;
    choose_sizes(x, a);
    return find_kernels(x, a);
}

// What lies in the workspace.
typedef struct Space {
    char *list, *logits, *ends, *chosen;
    kiln_arg indices;
} Space;

static kiln_status run_tiles(const Paged *x, kiln_stream *stream, const Space *space, int64_t first, int64_t n)
{
    const Call *const call = &x->call;
    kiln_device *const device = call->ops->device;
    const int64_t rows = n * x->group;
    const kiln_tensor tiles = kiln_tensor_of(device, space->list + first * 8, KILN_I32, 2, (int64_t[]){ n, 2 });
    const kiln_tensor ends = kiln_tensor_of(device, space->ends, KILN_I32, 1, (int64_t[]){ rows });
    const kiln_tensor chosen = kiln_tensor_of(device, space->chosen, KILN_I32, 2, (int64_t[]){ rows, x->topk });
    kiln_tensor logits = kiln_tensor_of(device, space->logits, KILN_F32, 2, (int64_t[]){ rows, x->keys });
    logits.has_strides = x->pitch != x->keys;
    logits.strides[0] = x->pitch, logits.strides[1] = 1;
    const kiln_arg table = call_tensor(call, TABLE), lengths = call_tensor(call, LENGTHS);
    const kiln_arg offsets = call_tensor(call, OFFSETS);
    const kiln_arg index[] = { call_tensor(call, INDEX_Q),
                               call_tensor(call, INDEX_K),
                               call_tensor(call, SCALES),
                               call_tensor(call, WEIGHTS),
                               table,
                               lengths,
                               offsets,
                               KILN_TENSOR(&tiles),
                               KILN_TENSOR(&logits),
                               KILN_TENSOR(&ends) };
    const kiln_arg select[] = { KILN_TENSOR(&logits), KILN_NONE, KILN_TENSOR(&ends), KILN_TENSOR(&chosen) };
    const kiln_arg places[] = { KILN_TENSOR(&chosen),
                                table,
                                lengths,
                                offsets,
                                KILN_TENSOR(&tiles),
                                space->indices,
                                KILN_INT(call_extent(call, "page size")) };
    kiln_status status = call_launch(call, stream, x->indexer, index, COUNT(index));
    if (!status) status = call_launch(call, stream, x->select, select, COUNT(select));
    return status ? status : call_launch(call, stream, x->places, places, COUNT(places));
}

static kiln_status look(const Paged *x, kiln_stream *stream)
{
    const Call *const call = &x->call;
    const int64_t TQ = call_extent(call, "TQ");
    const kiln_arg pages[] = { call_tensor(call, TABLE),
                               call_tensor(call, LENGTHS),
                               call_tensor(call, OFFSETS),
                               KILN_INT(TQ),
                               KILN_INT(call_extent(call, "pages")),
                               KILN_INT(call_extent(call, "page size")),
                               KILN_INT(0) };
    const kiln_status status = call_check_offsets(call, stream, OFFSETS, TQ, TQ);
    return status || !x->check_pages ? status : call_launch(call, stream, x->check_pages, pages, COUNT(pages));
}

kiln_status kiln_indexed_attention_paged_workspace_size(kiln_ops *ops, const kiln_indexed_attention_paged_args *a,
                                                        size_t *bytes)
{
    Paged x;
    kiln_status status = call_begin_sizing(&x.call, "kiln_indexed_attention_paged_workspace_size", ops, a,
                                           FORM(kiln_indexed_attention_paged_args), bytes);
    if (call_again(&x.call, NULL, &status)) return status;
    status = prepare(&x, a);
    return status ? status : call_sized(&x.call, x.bytes);
}

static kiln_status run(const Paged *x, kiln_stream *stream, char *workspace)
{
    const Call *const call = &x->call;
    const int64_t TQ = call_extent(call, "TQ");
    Space space = { .list = workspace };
    space.logits = space.list + x->list_bytes;
    space.ends = space.logits + x->logits_bytes;
    space.chosen = space.ends + x->ends_bytes;
    const kiln_tensor own =
        kiln_tensor_of(call->ops->device, space.chosen + x->chosen_bytes, KILN_I32, 2, (int64_t[]){ TQ, x->topk });
    space.indices = call->tensors[INDICES] ? call_tensor(call, INDICES) : KILN_TENSOR(&own);
    const kiln_tensor list = kiln_tensor_of(call->ops->device, space.list, KILN_I32, 2, (int64_t[]){ x->tiles, 2 });
    const kiln_arg tiles[] = { call_tensor(call, LENGTHS), call_tensor(call, OFFSETS), KILN_TENSOR(&list),
                               KILN_INT(TQ) };
    kiln_status status = look(x, stream);
    if (!status) status = call_launch(call, stream, x->list, tiles, COUNT(tiles));
    for (int64_t first = 0; !status && first < x->tiles; first += x->at_once)
        status = run_tiles(x, stream, &space, first, x->tiles - first < x->at_once ? x->tiles - first : x->at_once);
    if (status || !x->attends) return status;
    const kiln_arg attend[] = { call_tensor(call, Q),
                                KILN_TENSOR(&x->flat),
                                space.indices,
                                call_tensor(call, SINK),
                                KILN_NONE,
                                KILN_NONE,
                                call_tensor(call, RESULT),
                                call_tensor(call, TOP),
                                call_tensor(call, LSE),
                                KILN_FLOAT(x->scale) };
    return call_launch(call, stream, x->attention, attend, COUNT(attend));
}

kiln_status kiln_indexed_attention_paged(kiln_ops *ops, kiln_stream *stream, const kiln_indexed_attention_paged_args *a)
{
    Paged x;
    kiln_status status =
        call_begin(&x.call, "kiln_indexed_attention_paged", ops, a, FORM(kiln_indexed_attention_paged_args));
    if (call_again(&x.call, stream, &status)) return status;
    status = prepare(&x, a);
    if (!status && a->workspace_bytes < x.bytes)
        status = call_fail(&x.call, KILN_BAD_ARGUMENT, "needs a workspace of %zu bytes, %zu given", x.bytes,
                           a->workspace_bytes);
    if (status || call_extent(&x.call, "TQ") == 0) return status;
    status = run(&x, stream, a->workspace);
    if (!status) call_done(&x.call);
    return status;
}

// ---- new keys

kiln_status kiln_index_append(kiln_ops *ops, kiln_stream *stream, const kiln_index_append_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_index_append", ops, a, FORM(kiln_index_append_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,  "keys",         a->keys,         TYPES_16,       "X[N][DI]" },
        { IN,  "slots",        a->slots,        1 << KILN_I32,  "SLOT[N]" },
        { OUT, "index_k",      a->index_k,      1 << KILN_E4M3, "K[pages][page size][DI]" },
        { OUT, "index_scales", a->index_scales, 1 << KILN_F32,  "KSCALE[pages][page size]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) call_bind(&call, "HI", 8, "keys"); // of any number of heads
    if (!status) status = indexer_heads(&call);
    if (!status) status = check_page(&call);
    if (!status)
        status = call_kernel(&call, "topk/indexer_paged.tile", "index_append", "T=%s, D=%d, POWER=%s",
                             kiln_type_name(a->keys->type), (int)call_extent(&call, "DI"), yes(a->power_of_two));
    return status ? status : call_run(&call, stream, NULL, 0);
}
