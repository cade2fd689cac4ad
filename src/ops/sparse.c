// SPDX-License-Identifier: MIT
// sparse.c - the operators of kiln/ops/sparse.h over kernels/sparse.
#include "kiln/ops/sparse.h"
#include "ops/attention_call.h"

#include <inttypes.h>
#include <math.h>

enum {
    BLOCK_DEFAULT = 64,
    BLOCK_MIN = 16,
    BLOCK_MAX = 1024,
    DECODE_BLOCK_MAX = 256,
    ROWS_MAX = 1 << 30, // of a sequence
    SCORED_BLOCKS_MAX = 16384,
    SPLITS_MAX = 65536,
    ESTIMATE_KEYS = 1024, // of a share, at least
    ESTIMATE_SHARES_MAX = 16,
    VERTICAL_SLASH_BLOCK = 64,
    VERTICAL_SLASH_ROWS = 1 << 20,
    LISTED_MAX = 65536, // columns
    DIAGONALS_MAX = 4096,
    TYPES_MASK = 1 << KILN_U8 | 1 << KILN_I8 | 1 << KILN_BOOL,
};

static int64_t blocks_of(int64_t rows, int64_t block) { return (rows + block - 1) / block; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static kiln_status check_count(const Call *call, const char *name, int64_t count, int64_t most)
{
    return count >= 0 && count <= most
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected 0 to %" PRId64, name, count, most);
}

// The rows of a block, of which 0 stands for the default.
static kiln_status take_block(const Call *call, const char *name, int64_t given, int most, int *block)
{
    const int64_t rows = given ? given : BLOCK_DEFAULT;
    if (rows < BLOCK_MIN || rows > most || (rows & (rows - 1)) != 0)
        return call_fail(call, KILN_UNSUPPORTED,
                         "'%s' is %" PRId64 ", expected a power of two from %d to %d, or 0 for %d", name, given,
                         BLOCK_MIN, most, BLOCK_DEFAULT);
    *block = (int)rows;
    return KILN_OK;
}

static kiln_status check_choice(const Call *call, const kiln_tensor *mask, const kiln_tensor *list,
                                const kiln_tensor *counts)
{
    if (!mask == !list)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         mask ? "'mask' and 'list' are both given, expected one of them"
                              : "'mask' and 'list' are both null, expected one of them");
    if (counts && !list) return call_fail(call, KILN_BAD_ARGUMENT, "'counts' is given, but 'list' is null");
    return KILN_OK;
}

// Dimension `dim` of 'what' holds a number for each of `blocks` blocks.
static kiln_status check_room(const Call *call, const char *what, int dim, int64_t extent, int64_t blocks,
                              const char *of)
{
    return extent >= blocks
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE,
                           "dimension %d of '%s' is %" PRId64 ", expected at least %" PRId64 ", the blocks of %s", dim,
                           what, extent, blocks, of);
}

// ---- prefill

typedef struct Prefill {
    int query_block, key_block;
    int64_t queries, keys, room; // of the longest sequence; blocks that a block of queries may take
    double scale;
} Prefill;

static kiln_status check_prefill_tensors(Call *call, const kiln_block_sparse_args *a)
{
    const bool packed = a->q_offsets != NULL;
    if (packed != (a->k_offsets != NULL))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but '%s' is null", packed ? "q_offsets" : "k_offsets",
                         packed ? "k_offsets" : "q_offsets");
    kiln_status status = check_choice(call, a->mask, a->list, a->counts);
    if (status) return status;
    const kiln_tensor *const q = packed ? call_with_batch(call, a->q, 4) : a->q;
    const kiln_tensor *const k = packed ? call_with_batch(call, a->k, 4) : a->k;
    const kiln_tensor *const v = packed ? call_with_batch(call, a->v, 4) : a->v;
    const kiln_tensor *const out = packed ? call_with_batch(call, a->out, 4) : a->out;
    const kiln_tensor *const lse = packed ? call_with_batch(call, a->lse, 3) : a->lse;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",         q,            TYPES_FLOAT,   packed ? "Q[1][S][H][D]" : "Q[B][S][H][D]" },
        { IN,           "k",         k,            0,             packed ? "K[1][SKV][HKV][D]" : "K[B][SKV][HKV][D]" },
        { IN,           "v",         v,            0,             packed ? "V[1][SKV][HKV][DV]" : "V[B][SKV][HKV][DV]" },
        { IN_OPTIONAL,  "mask",      a->mask,      TYPES_MASK,    "[B][HM][query blocks][key blocks]" },
        { IN_OPTIONAL,  "list",      a->list,      1 << KILN_I32, "LIST[B][HM][query blocks][places]" },
        { IN_OPTIONAL,  "counts",    a->counts,    1 << KILN_I32, "COUNT[B][HM][query blocks]" },
        { IN_OPTIONAL,  "q_offsets", a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { IN_OPTIONAL,  "k_offsets", a->k_offsets, 1 << KILN_I32, "KOffset[B + 1]" },
        { OUT,          "out",       out,          0,             packed ? "O[1][S][H][DV]" : "O[B][S][H][DV]" },
        { OUT_OPTIONAL, "lse",       lse,          1 << KILN_F32, packed ? "[1][H][S]" : "[B][H][S]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
}

// Heads and places of a mask or list, whose blocks have their sizes.
static kiln_status check_prefill_blocks(const Call *call, const kiln_block_sparse_args *a, const Prefill *p)
{
    const char *const what = a->mask ? "mask" : "list";
    const int64_t H = call_extent(call, "H"), HM = call_extent(call, "HM");
    if (HM < 1 || H % HM != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "%" PRId64 " query heads (of 'q') are not a multiple of %" PRId64 " heads (of '%s')", H, HM,
                         what);
    kiln_status status = check_room(call, what, 2, call_extent(call, "query blocks"),
                                    a->first_row + blocks_of(p->queries, p->query_block),
                                    a->first_row ? "queries after 'first_row'" : "queries");
    if (!status && a->mask)
        status = check_room(call, what, 3, call_extent(call, "key blocks"), blocks_of(p->keys, p->key_block), "keys");
    return status;
}

static kiln_status check_prefill(Call *call, const kiln_block_sparse_args *a, Prefill *p)
{
    kiln_status status = check_prefill_tensors(call, a);
    if (!status) status = attention_options(call, 0, a->scale, &p->scale);
    if (!status) status = take_block(call, "query_block", a->query_block, BLOCK_MAX, &p->query_block);
    if (!status) status = take_block(call, "key_block", a->key_block, BLOCK_MAX, &p->key_block);
    if (!status) status = check_count(call, "first_row", a->first_row, ROWS_MAX);
    if (!status) status = check_count(call, "max_queries", a->max_queries, ROWS_MAX);
    if (!status) status = check_count(call, "max_keys", a->max_keys, ROWS_MAX);
    if (status) return status;
    p->queries = a->q_offsets ? least(a->max_queries, call_extent(call, "S")) : call_extent(call, "S");
    p->keys = a->k_offsets ? least(a->max_keys, call_extent(call, "SKV")) : call_extent(call, "SKV");
    if (p->queries > ROWS_MAX || p->keys > ROWS_MAX)
        return call_fail(call, KILN_UNSUPPORTED, "a sequence has more than %d rows", ROWS_MAX);
    p->room = blocks_of(p->keys, p->key_block);
    if (a->list) p->room = least(p->room, call_extent(call, "places"));
    return check_prefill_blocks(call, a, p);
}

static kiln_status prepare_prefill(Call *call, const void *args)
{
    const kiln_block_sparse_args *const a = args;
    Prefill p;
    kiln_status status = check_prefill(call, a, &p);
    if (status) return status;
    call_take_bytes(call, 3);
    status = call_kernel(call, "sparse/block.tile", "block_sparse",
                         "T=%s, D=%d, DV=%d, CAUSAL=%s, BQ=%d, BK=%d%-s%-s%-s%-s%-s", kiln_type_name(a->q->type),
                         (int)call_extent(call, "D"), (int)call_extent(call, "DV"), yes(a->causal), p.query_block,
                         p.key_block, a->mask ? ", LIST=none" : ", MASK=none", LACKS(a->counts, "COUNT"),
                         LACKS(a->q_offsets, "QOffset"), LACKS(a->k_offsets, "KOffset"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(call, KILN_INT(p.queries));
    call_add(call, KILN_INT(p.keys));
    call_add(call, KILN_INT(p.room));
    call_add(call, KILN_INT(a->first_row));
    call_add(call, KILN_FLOAT(p.scale));
    return KILN_OK;
}

static kiln_status look_prefill(Call *call, kiln_stream *stream, const void *args)
{
    const kiln_block_sparse_args *const a = args;
    const kiln_status status = call_check_offsets(call, stream, 6, call_extent(call, "S"), a->max_queries);
    return status ? status : call_check_offsets(call, stream, 7, call_extent(call, "SKV"), a->max_keys);
}

static const CallPair block_sparse = { .name = "kiln_block_sparse",
                                       .size_name = "kiln_block_sparse_workspace_size",
                                       .prepare = prepare_prefill,
                                       .look = look_prefill };

kiln_status kiln_block_sparse_workspace_size(kiln_ops *ops, const kiln_block_sparse_args *a, size_t *bytes)
{
    return pair_size(&block_sparse, ops, a, FORM(kiln_block_sparse_args), bytes);
}

kiln_status kiln_block_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_block_sparse_args *a)
{
    return pair_run(&block_sparse, ops, stream, a, FORM(kiln_block_sparse_args));
}

// ---- decoding

static kiln_status check_decode(Call *call, const kiln_block_sparse_decode_args *a, int *block, double *scale)
{
    kiln_status status = check_choice(call, a->mask, a->list, a->counts);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",       a->q,       TYPES_FLOAT,   "Q[B][H][D]" },
        { IN,           "k",       a->k,       0,             a->table ? "K[pages][page size][HKV][D]" : "K[B][page size][HKV][D]" },
        { IN,           "v",       a->v,       0,             a->table ? "V[pages][page size][HKV][DV]" : "V[B][page size][HKV][DV]" },
        { IN_OPTIONAL,  "table",   a->table,   1 << KILN_I32, "TABLE[B][pages per request]" },
        { IN_OPTIONAL,  "mask",    a->mask,    TYPES_MASK,    "[B][HKV][key blocks]" },
        { IN_OPTIONAL,  "list",    a->list,    1 << KILN_I32, "LIST[B][HKV][places]" },
        { IN_OPTIONAL,  "counts",  a->counts,  1 << KILN_I32, "COUNT[B][HKV]" },
        { IN,           "lengths", a->lengths, 1 << KILN_I32, "LENGTH[B]" },
        { OUT,          "out",     a->out,     0,             "O[B][H][DV]" },
        { OUT_OPTIONAL, "lse",     a->lse,     1 << KILN_F32, "[B][H]" },
    };
    // clang-format on
    status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, 0, a->scale, scale);
    if (!status) status = take_block(call, "key_block", a->key_block, DECODE_BLOCK_MAX, block);
    if (!status) status = check_count(call, "splits", a->splits, SPLITS_MAX);
    if (!status && a->table && call_extent(call, "page size") % *block != 0)
        status = call_fail(call, KILN_BAD_SHAPE,
                           "the page size (dimension 1 of 'k') is %" PRId64 ", expected a multiple of 'key_block', %d",
                           call_extent(call, "page size"), *block);
    return status;
}

// As many shares as a GPU runs at a time, of some steps each: what bounds them is memory. On the CPU as those of a cache of as
// many keys as the blocks that may be taken hold.
static int64_t choose_splits(const Call *call, const kiln_block_sparse_decode_args *a, int block)
{
    enum {
        FEW_HEADS = 16,
        SMALL_HEADS = 192,
        LARGE_HEADS = 256,
        STEPS_MIN = 4
    }; // as the kernel has it, but for the last
    const int64_t places = a->mask ? call_extent(call, "key blocks") : call_extent(call, "places");
    const int64_t HKV = call_extent(call, "HKV"), tiles = call_extent(call, "B") * HKV, keys = places * block;
    int64_t splits = 1;
    if (ops_on_cpu(call->ops)) {
        splits = attention_splits(call->ops, tiles, keys, 0, ONE_SHARE);
    } else if (tiles > 0) {
        const int64_t size = call_extent(call, "D") + call_extent(call, "DV");
        const bool is_one = call_extent(call, "H") / HKV > FEW_HEADS || size > LARGE_HEADS;
        const int at_once = is_one ? 1 : a->q->type == KILN_F32 || size <= SMALL_HEADS ? 3 : 4;
        const int64_t steps = keys / (block < SPLITS_GPU_KEYS ? block : SPLITS_GPU_KEYS);
        splits = least(at_once * ops_processors(call->ops) / tiles, steps / STEPS_MIN);
    }
    splits = least(splits, places);
    return splits > 1 ? splits : 1;
}

static kiln_status prepare_decode(Call *call, const void *args)
{
    const kiln_block_sparse_decode_args *const a = args;
    int block = 0;
    double scale = 0;
    kiln_status status = check_decode(call, a, &block, &scale);
    if (status) return status;
    call_take_bytes(call, 4);
    status = call_kernel(call, "sparse/decode.tile", "sparse_decode", "T=%s, D=%d, DV=%d, G=%d, BS=%d%-s%-s%-s%-s",
                         kiln_type_name(a->q->type), (int)call_extent(call, "D"), (int)call_extent(call, "DV"),
                         (int)(call_extent(call, "H") / call_extent(call, "HKV")), block, LACKS(a->table, "TABLE"),
                         a->mask ? ", LIST=none" : ", MASK=none", LACKS(a->counts, "COUNT"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(call, KILN_INT(a->splits ? a->splits : choose_splits(call, a, block)));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

static const CallPair block_sparse_decode = {
    .name = "kiln_block_sparse_decode",
    .size_name = "kiln_block_sparse_decode_workspace_size",
    .prepare = prepare_decode,
};

kiln_status kiln_block_sparse_decode_workspace_size(kiln_ops *ops, const kiln_block_sparse_decode_args *a,
                                                    size_t *bytes)
{
    return pair_size(&block_sparse_decode, ops, a, FORM(kiln_block_sparse_decode_args), bytes);
}

kiln_status kiln_block_sparse_decode(kiln_ops *ops, kiln_stream *stream, const kiln_block_sparse_decode_args *a)
{
    return pair_run(&block_sparse_decode, ops, stream, a, FORM(kiln_block_sparse_decode_args));
}

// ---- masks

kiln_status kiln_block_mask(kiln_ops *ops, kiln_stream *stream, const kiln_block_mask_args *a)
{
    Call call;
    int query_block = 0, key_block = 0, width = 64;
    kiln_status status = call_begin(&call, "kiln_block_mask", ops, a, FORM(kiln_block_mask_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,  "scores", a->scores, 1 << KILN_F32, "SCORE[B][HM][query blocks][key blocks]" },
        { OUT, "mask",   a->mask,   1 << KILN_U8,  "[B][HM][query blocks][key blocks]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = take_block(&call, "query_block", a->query_block, BLOCK_MAX, &query_block);
    if (!status) status = take_block(&call, "key_block", a->key_block, BLOCK_MAX, &key_block);
    if (!status) status = check_count(&call, "queries", a->queries, ROWS_MAX);
    if (!status) status = check_count(&call, "keys", a->keys, ROWS_MAX);
    if (!status) status = check_count(&call, "top", a->top, ROWS_MAX);
    if (!status) status = check_count(&call, "whole_rows", a->whole_rows, ROWS_MAX);
    if (!status && call_extent(&call, "key blocks") > SCORED_BLOCKS_MAX)
        status = call_fail(&call, KILN_UNSUPPORTED, "dimension 3 of 'scores' is %" PRId64 ", expected at most %d",
                           call_extent(&call, "key blocks"), SCORED_BLOCKS_MAX);
    if (status) return status;
    while (width < call_extent(&call, "key blocks")) width *= 2;
    status = call_kernel(&call, "sparse/lists.tile", "block_mask", "CAUSAL=%s, BQ=%d, BK=%d, W=%d", yes(a->causal),
                         query_block, key_block, width);
    if (status) return status;
    call_add(&call, KILN_INT(a->queries));
    call_add(&call, KILN_INT(a->keys));
    call_add(&call, KILN_INT(a->top));
    call_add(&call, KILN_INT(a->whole_rows));
    call_add(&call, KILN_FLOAT(a->threshold));
    return call_run(&call, stream, NULL, 0);
}

// ---- vertical-slash attention

static kiln_status check_listed(const Call *call, const char *name, const char *what, int64_t most)
{
    const int64_t n = call_extent(call, what);
    return n >= 1 && n <= most ? KILN_OK
                               : call_fail(call, KILN_UNSUPPORTED,
                                           "dimension 2 of '%s' is %" PRId64 ", expected 1 to %" PRId64, name, n, most);
}

static kiln_status check_lists(Call *call)
{
    kiln_status status = check_listed(call, "vertical", "columns", LISTED_MAX);
    if (!status) status = check_listed(call, "slash", "diagonals", DIAGONALS_MAX);
    if (!status && call_extent(call, "S") >= VERTICAL_SLASH_ROWS)
        status = call_fail(call, KILN_UNSUPPORTED, "dimension 1 of 'q' is %" PRId64 ", expected less than %d",
                           call_extent(call, "S"), VERTICAL_SLASH_ROWS);
    return status;
}

// Tensor i, [B][H][n], as the [B * H][n] that kernels select into.
static void take_flat(Call *call, int i)
{
    kiln_tensor flat = *call->tensors[i];
    flat.rank = 2;
    flat.shape[0] *= flat.shape[1], flat.shape[1] = flat.shape[2];
    flat.strides[0] = flat.strides[1], flat.strides[1] = flat.strides[2];
    call->tensors[i] = call_keep(call, &flat);
}

static kiln_status prepare_estimate(Call *call, const void *args)
{
    const kiln_vertical_slash_estimate_args *const a = args;
    double scale = 0, unused = 0;
    // clang-format off
    const Want wants[] = {
        { IN,  "q",        a->q,        TYPES_16,      "Q[B][S][H][D]" },
        { IN,  "k",        a->k,        0,             "K[B][S][HKV][D]" },
        { OUT, "vertical", a->vertical, 1 << KILN_I32, "[B][H][columns]" },
        { OUT, "slash",    a->slash,    1 << KILN_I32, "[B][H][diagonals]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) call_bind(call, "DV", call_extent(call, "D"), "q");
    if (!status) status = attention_options(call, 0, NULL, &unused);
    if (!status) status = call_scale(call, a->scale, 1, &scale);
    if (!status) status = check_lists(call);
    if (status) return status;
    take_flat(call, 2);
    take_flat(call, 3);
    const int64_t shares = blocks_of(call_extent(call, "S"), ESTIMATE_KEYS);
    status = call_kernel(call, "sparse/vertical_slash_lists.tile", "vertical_slash_estimate",
                         "T=%s, D=%d, NV=%d, NS=%d", kiln_type_name(a->q->type), (int)call_extent(call, "D"),
                         (int)call_extent(call, "columns"), (int)call_extent(call, "diagonals"));
    if (status) return status;
    call_add(call, KILN_INT(shares < 1 ? 1 : least(shares, ESTIMATE_SHARES_MAX)));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

static const CallPair vertical_slash_estimate = {
    .name = "kiln_vertical_slash_estimate",
    .size_name = "kiln_vertical_slash_estimate_workspace_size",
    .prepare = prepare_estimate,
};

kiln_status kiln_vertical_slash_estimate_workspace_size(kiln_ops *ops, const kiln_vertical_slash_estimate_args *a,
                                                        size_t *bytes)
{
    return pair_size(&vertical_slash_estimate, ops, a, FORM(kiln_vertical_slash_estimate_args), bytes);
}

kiln_status kiln_vertical_slash_estimate(kiln_ops *ops, kiln_stream *stream, const kiln_vertical_slash_estimate_args *a)
{
    return pair_run(&vertical_slash_estimate, ops, stream, a, FORM(kiln_vertical_slash_estimate_args));
}

enum { NEAR_DIAGONALS = 6 }; // for each block of keys: then a block takes longer than its diagonals

static int power_over(int64_t n, int first)
{
    int power = first;
    while (power < n) power *= 2;
    return power;
}

static kiln_status prepare_vertical_slash(Call *call, const void *args)
{
    const kiln_vertical_slash_args *const a = args;
    double scale = 0;
    // clang-format off
    const Want wants[] = {
        { IN,  "q",        a->q,        TYPES_16,      "Q[B][S][H][D]" },
        { IN,  "k",        a->k,        0,             "K[B][S][HKV][D]" },
        { IN,  "v",        a->v,        0,             "V[B][S][HKV][D]" },
        { IN,  "vertical", a->vertical, 1 << KILN_I32, "VERTICAL[B][H][columns]" },
        { IN,  "slash",    a->slash,    1 << KILN_I32, "SLASH[B][H][diagonals]" },
        { OUT, "out",      a->out,      0,             "O[B][S][H][D]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) call_bind(call, "DV", call_extent(call, "D"), "q");
    if (!status) status = attention_options(call, 0, a->scale, &scale);
    if (!status) status = check_lists(call);
    if (status) return status;
    const int64_t blocks = call_extent(call, "S") / VERTICAL_SLASH_BLOCK, diagonals = call_extent(call, "diagonals");
    status = call_kernel(call, "sparse/vertical_slash_lists.tile", "vertical_slash_attention",
                         "T=%s, D=%d, CELLS=%d, MS=%d, NEAR=%s", kiln_type_name(a->q->type),
                         (int)call_extent(call, "D"), power_over(blocks + 2, 64), power_over(diagonals, 64),
                         yes(!ops_on_cpu(call->ops) && diagonals >= NEAR_DIAGONALS * blocks));
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

static const CallPair vertical_slash = {
    .name = "kiln_vertical_slash",
    .size_name = "kiln_vertical_slash_workspace_size",
    .prepare = prepare_vertical_slash,
};

kiln_status kiln_vertical_slash_workspace_size(kiln_ops *ops, const kiln_vertical_slash_args *a, size_t *bytes)
{
    return pair_size(&vertical_slash, ops, a, FORM(kiln_vertical_slash_args), bytes);
}

kiln_status kiln_vertical_slash(kiln_ops *ops, kiln_stream *stream, const kiln_vertical_slash_args *a)
{
    return pair_run(&vertical_slash, ops, stream, a, FORM(kiln_vertical_slash_args));
}
