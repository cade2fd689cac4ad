// SPDX-License-Identifier: MIT
// nsa.c - the operators of kiln/ops/nsa.h over kernels/nsa.
#include "kiln/ops/nsa.h"
#include "ops/attention_call.h"

#include <inttypes.h>

enum {
    GROUP_MOST = 64,      // query heads of a key head: rows of a tile
    BLOCKS_MOST = 256,    // of a list
    BLOCKS_LEAST = 64,    // of a sequence, as kernels are made for it
    SEQUENCE_MOST = 8192, // blocks of a sequence
    TOKENS_MOST = 1 << 30,
    SPLITS_LEAST = 2, // blocks of a share
};

static const char *name_of(const kiln_tensor *tensor) { return kiln_type_name(tensor->type); }

// f32, or the type of `first`.
static unsigned gate_types(const kiln_tensor *first)
{
    const bool is_known = first && (unsigned)first->type <= KILN_BOOL;
    return (is_known ? TYPES_16 & 1U << first->type : TYPES_16) | 1U << KILN_F32;
}

// That of a tensor before it in the table, which has been checked.
static unsigned type_of(const kiln_tensor *tensor)
{
    return tensor && (unsigned)tensor->type <= KILN_BOOL ? 1U << tensor->type : 1U << KILN_F32;
}

static kiln_status check_range(const Call *call, const char *name, int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64, name,
                           value, least, most);
}

// A number that goes with something else than the call has.
static kiln_status check_unused(const Call *call, const char *name, int64_t value, const char *why)
{
    return value == 0 ? KILN_OK
                      : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected 0: %s", name, value, why);
}

// ---- what the calls share

// What kernels are made for.
typedef struct Shape {
    int group, block, blocks_most; // G, BS, MAXB
    int64_t sequences, longest;
    double scale;
} Shape;

static kiln_status check_block(const Call *call, int64_t given, Shape *s)
{
    s->block = (int)(given ? given : 64);
    return given == 0 || given == 16 || given == 32 || given == 64 || given == 128
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "'block_size' is %" PRId64 ", expected 16, 32, 64 or 128", given);
}

// Before the tensors, which have weights of its size.
static kiln_status bind_block(Call *call, int64_t given, Shape *s)
{
    const kiln_status status = check_block(call, given, s);
    if (!status) call_bind(call, "BS", s->block, "block_size");
    return status;
}

static kiln_status check_heads(const Call *call, const double *given, Shape *s)
{
    kiln_status status = attention_options(call, 0, given, &s->scale);
    if (status) return status;
    const int64_t group = call_extent(call, "H") / call_extent(call, "HKV");
    if (group < 1 || group > GROUP_MOST)
        return call_fail(call, KILN_UNSUPPORTED, "'q' has %" PRId64 " heads for each of '%s', expected 1 to %d", group,
                         call_source(call, "HKV"), GROUP_MOST);
    s->group = (int)group;
    return KILN_OK;
}

static kiln_status check_list(const Call *call)
{
    const int64_t S = call_extent(call, "S");
    return S >= 1 && S <= BLOCKS_MOST
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "a list of 'block_indices' has %" PRId64 " places, expected 1 to %d",
                           S, BLOCKS_MOST);
}

static kiln_status check_equal_lengths(const Call *call, int64_t given, Shape *s)
{
    const int64_t T = call_extent(call, "T");
    const kiln_status status = check_range(call, "sequences", given, 0, INT32_MAX);
    if (status) return status;
    s->sequences = given ? given : 1;
    if (T % s->sequences != 0)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "%" PRId64 " tokens (of 'q') are not a multiple of %" PRId64 " ('sequences')", T,
                         s->sequences);
    s->longest = T / s->sequences;
    return KILN_OK;
}

static kiln_status check_sequences(Call *call, const kiln_tensor *offsets, int64_t sequences, int64_t max_tokens,
                                   Shape *s)
{
    kiln_status status;
    if (!offsets) {
        status = check_unused(call, "max_tokens", max_tokens, "it goes with 'offsets'");
        if (!status) status = check_equal_lengths(call, sequences, s);
    } else {
        status = check_unused(call, "sequences", sequences, "'offsets' says it");
        if (!status) status = check_range(call, "max_tokens", max_tokens, 0, INT32_MAX);
        const int64_t T = call_extent(call, "T");
        s->sequences = call_extent(call, "N");
        s->longest = max_tokens && max_tokens < T ? max_tokens : T;
        if (!status && s->sequences < 1)
            status = call_fail(call, KILN_BAD_SHAPE, "'offsets' has 1 element, expected one more than sequences");
    }
    if (!status && (s->longest > TOKENS_MOST || s->longest > (int64_t)SEQUENCE_MOST * s->block))
        status = call_fail(call, KILN_UNSUPPORTED, "a sequence of %" PRId64 " tokens has more than %d blocks of %d",
                           s->longest, SEQUENCE_MOST, s->block);
    if (status) return status;
    call->longest = s->longest;
    s->blocks_most = BLOCKS_LEAST; // powers of 2: few kernels
    while ((int64_t)s->blocks_most * s->block < s->longest) s->blocks_most *= 2;
    return KILN_OK;
}

static kiln_status check_forced(const Call *call, int64_t initial, int64_t *local, int64_t blocks)
{
    kiln_status status = check_range(call, "initial_blocks", initial, 0, BLOCKS_MOST);
    if (!status) status = check_range(call, "local_blocks", *local, 0, BLOCKS_MOST);
    if (*local == 0) *local = 1;
    if (!status && initial + *local > blocks)
        status = call_fail(call, KILN_BAD_ARGUMENT,
                           "%" PRId64 " 'initial_blocks' and %" PRId64 " 'local_blocks' are more than the %" PRId64
                           " of a list",
                           initial, *local, blocks);
    return status;
}

// What the operators take after their tensors.
static void add_sequences(Call *call, const Shape *s)
{
    call_add(call, KILN_INT(s->sequences));
    call_add(call, KILN_INT(s->longest));
}

static int size_of(const Call *call, const char *letter) { return (int)call_extent(call, letter); }

// ---- the whole

enum { WHOLE_OFFSETS = 10, WINDOW_DEFAULT = 512, LIST_DEFAULT = 16 };

static kiln_status check_whole(Call *call, const kiln_nsa_args *a, Shape *s)
{
    const unsigned gate = type_of(a->g_selected);
    // clang-format off
    const Want wants[] = {
        { IN,          "q",             a->q,             TYPES_16,         "Q[T][H][D]" },
        { IN,          "k",             a->k,             0,                "K[T][HKV][D]" },
        { IN,          "v",             a->v,             0,                "V[T][HKV][DV]" },
        { IN_OPTIONAL, "block_indices", a->block_indices, 1 << KILN_I32,    "[T][HKV][S]" },
        { IN_OPTIONAL, "block_counts",  a->block_counts,  1 << KILN_I32,    "[T][HKV]" },
        { IN_OPTIONAL, "g_compressed",  a->g_compressed,  gate,             "[T][H]" },
        { IN,          "g_selected",    a->g_selected,    gate_types(a->q), "[T][H]" },
        { IN_OPTIONAL, "g_window",      a->g_window,      gate,             "[T][H]" },
        { IN_OPTIONAL, "pool_k",        a->pool_k,        1 << KILN_F32,    "[HKV][BS]" },
        { IN_OPTIONAL, "pool_v",        a->pool_v,        1 << KILN_F32,    "[HKV][BS]" },
        { IN_OPTIONAL, "offsets",       a->offsets,       1 << KILN_I32,    "[N + 1]" },
        { OUT,         "out",           a->out,           0,                "O[T][H][DV]" },
    };
    // clang-format on
    static_assert(WHOLE_OFFSETS == 10, "its place in the table");
    kiln_status status = bind_block(call, a->block_size, s);
    if (!status && !a->block_indices) status = check_range(call, "blocks", a->blocks, 0, BLOCKS_MOST);
    if (!status && a->block_indices) status = check_unused(call, "blocks", a->blocks, "'block_indices' says it");
    if (!status && !a->block_indices) call_bind(call, "S", a->blocks ? a->blocks : LIST_DEFAULT, "blocks");
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, a->scale, s);
    if (!status) status = check_list(call);
    if (!status) status = check_sequences(call, a->offsets, a->sequences, a->max_tokens, s);
    return status;
}

// What goes with a branch that there is, or with lists that are made.
static kiln_status check_branches(const Call *call, const kiln_nsa_args *a, int64_t *window, int64_t *local)
{
    static const char given[] = "'block_indices' are given";
    kiln_status status = KILN_OK;
    *local = a->local_blocks;
    *window = !a->g_window ? 0 : a->window ? a->window : WINDOW_DEFAULT;
    if (a->block_indices) {
        status = check_unused(call, "initial_blocks", a->initial_blocks, given);
        if (!status) status = check_unused(call, "local_blocks", a->local_blocks, given);
        if (!status && !a->g_compressed && (a->pool_k || a->pool_v))
            status = call_fail(call, KILN_BAD_ARGUMENT,
                               "'%s' is given, but nothing is pooled: %s, and 'g_compressed' is null",
                               a->pool_k ? "pool_k" : "pool_v", given);
    }
    if (!status) status = check_forced(call, a->initial_blocks, local, call_extent(call, "S"));
    if (!status && a->g_window) status = check_range(call, "window", *window, 1, TOKENS_MOST);
    if (!status && !a->g_window) status = check_unused(call, "window", a->window, "'g_window' is null");
    return status;
}

static kiln_status prepare_whole(Call *call, const void *args)
{
    const kiln_nsa_args *const a = args;
    Shape s;
    int64_t window, local;
    kiln_status status = check_whole(call, a, &s);
    if (!status) status = check_branches(call, a, &window, &local);
    if (status) return status;
    status = call_kernel(call, "nsa/forward.tile", "nsa_forward",
                         "T=%s, TG=%s, D=%d, DV=%d, G=%d, BS=%d, S=%d, WINDOW=%d, MAXB=%d%s%s%s%s%s%s%s", name_of(a->q),
                         name_of(a->g_selected), size_of(call, "D"), size_of(call, "DV"), s.group, s.block,
                         size_of(call, "S"), (int)window, s.blocks_most, LACKS(a->block_indices, "Idx"),
                         LACKS(a->block_counts, "Count"), LACKS(a->g_compressed, "GateC"), LACKS(a->g_window, "GateW"),
                         LACKS(a->pool_k, "PoolK"), LACKS(a->pool_v, "PoolV"), LACKS(a->offsets, "Offset"));
    if (status) return status;
    add_sequences(call, &s);
    call_add(call, KILN_INT(a->initial_blocks));
    call_add(call, KILN_INT(local));
    call_add(call, KILN_FLOAT(s.scale));
    return KILN_OK;
}

static const CallPair nsa_forward = {
    .name = "kiln_nsa_forward",
    .size_name = "kiln_nsa_forward_workspace_size",
    .prepare = prepare_whole,
    .rows = "T",
    .offsets = WHOLE_OFFSETS,
};

kiln_status kiln_nsa_forward_workspace_size(kiln_ops *ops, const kiln_nsa_args *a, size_t *bytes)
{
    return pair_size(&nsa_forward, ops, a, FORM(kiln_nsa_args), bytes);
}

kiln_status kiln_nsa_forward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_args *a)
{
    return pair_run(&nsa_forward, ops, stream, a, FORM(kiln_nsa_args));
}

// ---- choosing

enum { CHOOSE_OFFSETS = 5 };

static kiln_status prepare_choose(Call *call, const void *args)
{
    const kiln_nsa_choose_args *const a = args;
    Shape s;
    int64_t local = a->local_blocks;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",             a->q,             TYPES_16,      "Q[T][H][D]" },
        { IN,           "k",             a->k,             0,             "K[T][HKV][D]" },
        { IN,           "v",             a->v,             0,             "V[T][HKV][DV]" },
        { IN_OPTIONAL,  "pool_k",        a->pool_k,        1 << KILN_F32, "[HKV][BS]" },
        { IN_OPTIONAL,  "pool_v",        a->pool_v,        1 << KILN_F32, "[HKV][BS]" },
        { IN_OPTIONAL,  "offsets",       a->offsets,       1 << KILN_I32, "[N + 1]" },
        { OUT,          "out",           a->out,           0,             "O[T][H][DV]" },
        { OUT_OPTIONAL, "lse",           a->lse,           1 << KILN_F32, "[T][H]" },
        { OUT,          "block_indices", a->block_indices, 1 << KILN_I32, "[T][HKV][S]" },
    };
    // clang-format on
    static_assert(CHOOSE_OFFSETS == 5, "its place in the table");
    kiln_status status = bind_block(call, a->block_size, &s);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, a->scale, &s);
    if (!status) status = check_list(call);
    if (!status) status = check_sequences(call, a->offsets, a->sequences, a->max_tokens, &s);
    if (!status) status = check_forced(call, a->initial_blocks, &local, call_extent(call, "S"));
    if (!status)
        status = call_kernel(
            call, "nsa/forward.tile", "nsa_choose", "T=%s, D=%d, DV=%d, G=%d, BS=%d, S=%d, MAXB=%d%s%s%s%s",
            name_of(a->q), size_of(call, "D"), size_of(call, "DV"), s.group, s.block, size_of(call, "S"), s.blocks_most,
            LACKS(a->pool_k, "PoolK"), LACKS(a->pool_v, "PoolV"), LACKS(a->offsets, "Offset"), LACKS(a->lse, "LSE"));
    if (status) return status;
    add_sequences(call, &s);
    call_add(call, KILN_INT(a->initial_blocks));
    call_add(call, KILN_INT(local));
    call_add(call, KILN_FLOAT(s.scale));
    return KILN_OK;
}

static const CallPair nsa_choose = {
    .name = "kiln_nsa_choose",
    .size_name = "kiln_nsa_choose_workspace_size",
    .prepare = prepare_choose,
    .rows = "T",
    .offsets = CHOOSE_OFFSETS,
};

kiln_status kiln_nsa_choose_workspace_size(kiln_ops *ops, const kiln_nsa_choose_args *a, size_t *bytes)
{
    return pair_size(&nsa_choose, ops, a, FORM(kiln_nsa_choose_args), bytes);
}

kiln_status kiln_nsa_choose(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_choose_args *a)
{
    return pair_run(&nsa_choose, ops, stream, a, FORM(kiln_nsa_choose_args));
}

// ---- gradients of the compressed branch

enum { COMPRESSED_OFFSETS = 8, POOLED_ROWS = 64, PARTS_MOST = 16, PART_TOKENS = 512 };

// Shares of the tokens, so that every processor has one; each leaves the gradients of all pooled rows.
static int64_t choose_parts(const Call *call, const Shape *s)
{
    const int64_t rows = s->longest / s->block, tiles = (rows + POOLED_ROWS - 1) / POOLED_ROWS;
    const int64_t instances = tiles * call_extent(call, "HKV") * s->sequences, most = s->longest / PART_TOKENS;
    const int64_t wanted = instances > 0 ? (2 * ops_processors(call->ops) + instances - 1) / instances : 1;
    const int64_t parts = wanted < most ? wanted : most;
    return parts < 1 ? 1 : parts < PARTS_MOST ? parts : PARTS_MOST;
}

static kiln_status prepare_compressed(Call *call, const void *args)
{
    const kiln_nsa_compressed_backward_args *const a = args;
    Shape s;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",       a->q,       TYPES_16,      "Q[T][H][D]" },
        { IN,           "k",       a->k,       0,             "K[T][HKV][D]" },
        { IN,           "v",       a->v,       0,             "V[T][HKV][DV]" },
        { IN,           "out",     a->out,     0,             "O[T][H][DV]" },
        { IN,           "lse",     a->lse,     1 << KILN_F32, "[T][H]" },
        { IN,           "dout",    a->dout,    0,             "dO[T][H][DV]" },
        { IN_OPTIONAL,  "pool_k",  a->pool_k,  1 << KILN_F32, "[HKV][BS]" },
        { IN_OPTIONAL,  "pool_v",  a->pool_v,  1 << KILN_F32, "[HKV][BS]" },
        { IN_OPTIONAL,  "offsets", a->offsets, 1 << KILN_I32, "[N + 1]" },
        { OUT,          "dq",      a->dq,      0,             "dQ[T][H][D]" },
        { OUT,          "dk",      a->dk,      0,             "dK[T][HKV][D]" },
        { OUT,          "dv",      a->dv,      0,             "dV[T][HKV][DV]" },
        { OUT_OPTIONAL, "dpool_k", a->dpool_k, 1 << KILN_F32, "[HKV][BS]" },
        { OUT_OPTIONAL, "dpool_v", a->dpool_v, 1 << KILN_F32, "[HKV][BS]" },
    };
    // clang-format on
    static_assert(COMPRESSED_OFFSETS == 8, "its place in the table");
    kiln_status status = bind_block(call, a->block_size, &s);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, a->scale, &s);
    if (!status) status = check_sequences(call, a->offsets, a->sequences, a->max_tokens, &s);
    if (!status)
        status =
            call_kernel(call, "nsa/compress_backward.tile", "nsa_compressed_backward",
                        "T=%s, D=%d, DV=%d, G=%d, BS=%d%s%s%s%s%s", name_of(a->q), size_of(call, "D"),
                        size_of(call, "DV"), s.group, s.block, LACKS(a->pool_k, "PoolK"), LACKS(a->pool_v, "PoolV"),
                        LACKS(a->offsets, "Offset"), LACKS(a->dpool_k, "dPoolK"), LACKS(a->dpool_v, "dPoolV"));
    if (status) return status;
    add_sequences(call, &s);
    call_add(call, KILN_INT(choose_parts(call, &s)));
    call_add(call, KILN_FLOAT(s.scale));
    return KILN_OK;
}

static const CallPair nsa_compressed_backward = {
    .name = "kiln_nsa_compressed_backward",
    .size_name = "kiln_nsa_compressed_backward_workspace_size",
    .prepare = prepare_compressed,
    .rows = "T",
    .offsets = COMPRESSED_OFFSETS,
};

kiln_status kiln_nsa_compressed_backward_workspace_size(kiln_ops *ops, const kiln_nsa_compressed_backward_args *a,
                                                        size_t *bytes)
{
    return pair_size(&nsa_compressed_backward, ops, a, FORM(kiln_nsa_compressed_backward_args), bytes);
}

kiln_status kiln_nsa_compressed_backward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_compressed_backward_args *a)
{
    return pair_run(&nsa_compressed_backward, ops, stream, a, FORM(kiln_nsa_compressed_backward_args));
}

// ---- the selected branch

enum { SELECTED_OFFSETS = 5, BACKWARD_OFFSETS = 8 };

static kiln_status prepare_selected(Call *call, const void *args)
{
    const kiln_nsa_selected_args *const a = args;
    Shape s;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",             a->q,             TYPES_16,      "Q[T][H][D]" },
        { IN,           "k",             a->k,             0,             "K[T][HKV][D]" },
        { IN,           "v",             a->v,             0,             "V[T][HKV][DV]" },
        { IN,           "block_indices", a->block_indices, 1 << KILN_I32, "[T][HKV][S]" },
        { IN_OPTIONAL,  "block_counts",  a->block_counts,  1 << KILN_I32, "[T][HKV]" },
        { IN_OPTIONAL,  "offsets",       a->offsets,       1 << KILN_I32, "[N + 1]" },
        { OUT,          "out",           a->out,           0,             "O[T][H][DV]" },
        { OUT_OPTIONAL, "lse",           a->lse,           1 << KILN_F32, "[T][H]" },
    };
    // clang-format on
    static_assert(SELECTED_OFFSETS == 5, "its place in the table");
    kiln_status status = check_block(call, a->block_size, &s);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, a->scale, &s);
    if (!status) status = check_list(call);
    if (!status) status = check_sequences(call, a->offsets, a->sequences, a->max_tokens, &s);
    if (!status)
        status = call_kernel(call, "nsa/selected.tile", "nsa_selected", "T=%s, D=%d, DV=%d, G=%d, BS=%d, MAXB=%d%s%s%s",
                             name_of(a->q), size_of(call, "D"), size_of(call, "DV"), s.group, s.block, s.blocks_most,
                             LACKS(a->block_counts, "Count"), LACKS(a->offsets, "Offset"), LACKS(a->lse, "LSE"));
    if (status) return status;
    add_sequences(call, &s);
    call_add(call, KILN_FLOAT(s.scale));
    return KILN_OK;
}

static const CallPair nsa_selected_forward = {
    .name = "kiln_nsa_selected_forward",
    .size_name = "kiln_nsa_selected_forward_workspace_size",
    .prepare = prepare_selected,
    .rows = "T",
    .offsets = SELECTED_OFFSETS,
};

kiln_status kiln_nsa_selected_forward_workspace_size(kiln_ops *ops, const kiln_nsa_selected_args *a, size_t *bytes)
{
    return pair_size(&nsa_selected_forward, ops, a, FORM(kiln_nsa_selected_args), bytes);
}

kiln_status kiln_nsa_selected_forward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_selected_args *a)
{
    return pair_run(&nsa_selected_forward, ops, stream, a, FORM(kiln_nsa_selected_args));
}

// Lists of the tokens of each block are numbered in 32 bits, up to what their kernel requires.
static kiln_status check_places(const Call *call)
{
    enum { PLACES_MAX = 2147483000 };
    const int64_t T = call_extent(call, "T"), S = call_extent(call, "S");
    return T <= PLACES_MAX / S ? KILN_OK
                               : call_fail(call, KILN_UNSUPPORTED,
                                           "'block_indices' has lists of %" PRId64 " places for %" PRId64
                                           " tokens, expected at most %d places of all",
                                           S, T, PLACES_MAX);
}

static kiln_status prepare_backward(Call *call, const void *args)
{
    const kiln_nsa_selected_backward_args *const a = args;
    Shape s;
    // clang-format off
    const Want wants[] = {
        { IN,          "q",             a->q,             TYPES_16,      "Q[T][H][D]" },
        { IN,          "k",             a->k,             0,             "K[T][HKV][D]" },
        { IN,          "v",             a->v,             0,             "V[T][HKV][DV]" },
        { IN,          "out",           a->out,           0,             "O[T][H][DV]" },
        { IN,          "lse",           a->lse,           1 << KILN_F32, "[T][H]" },
        { IN,          "dout",          a->dout,          0,             "dO[T][H][DV]" },
        { IN,          "block_indices", a->block_indices, 1 << KILN_I32, "[T][HKV][S]" },
        { IN_OPTIONAL, "block_counts",  a->block_counts,  1 << KILN_I32, "[T][HKV]" },
        { IN_OPTIONAL, "offsets",       a->offsets,       1 << KILN_I32, "[N + 1]" },
        { OUT,         "dq",            a->dq,            0,             "dQ[T][H][D]" },
        { OUT,         "dk",            a->dk,            0,             "dK[T][HKV][D]" },
        { OUT,         "dv",            a->dv,            0,             "dV[T][HKV][DV]" },
    };
    // clang-format on
    static_assert(BACKWARD_OFFSETS == 8, "its place in the table");
    kiln_status status = check_block(call, a->block_size, &s);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, a->scale, &s);
    if (!status) status = check_list(call);
    if (!status) status = check_places(call);
    if (!status) status = check_sequences(call, a->offsets, a->sequences, a->max_tokens, &s);
    if (!status)
        status = call_kernel(call, "nsa/backward.tile", "nsa_selected_backward",
                             "T=%s, D=%d, DV=%d, G=%d, BS=%d, MAXB=%d, FUSED=%s%s%s", name_of(a->q), size_of(call, "D"),
                             size_of(call, "DV"), s.group, s.block, s.blocks_most, yes(a->fused),
                             LACKS(a->block_counts, "Count"), LACKS(a->offsets, "Offset"));
    if (status) return status;
    add_sequences(call, &s);
    call_add(call, KILN_FLOAT(s.scale));
    return KILN_OK;
}

static const CallPair nsa_selected_backward = {
    .name = "kiln_nsa_selected_backward",
    .size_name = "kiln_nsa_selected_backward_workspace_size",
    .prepare = prepare_backward,
    .rows = "T",
    .offsets = BACKWARD_OFFSETS,
};

kiln_status kiln_nsa_selected_backward_workspace_size(kiln_ops *ops, const kiln_nsa_selected_backward_args *a,
                                                      size_t *bytes)
{
    return pair_size(&nsa_selected_backward, ops, a, FORM(kiln_nsa_selected_backward_args), bytes);
}

kiln_status kiln_nsa_selected_backward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_selected_backward_args *a)
{
    return pair_run(&nsa_selected_backward, ops, stream, a, FORM(kiln_nsa_selected_backward_args));
}

// ---- the gated sum

// A branch's tensors are all there, or none is.
static kiln_status check_branch(const Call *call, const char *branch, const kiln_tensor *x, const char *name,
                                const kiln_tensor *other)
{
    return !x == !other ? KILN_OK
                        : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but '%s' is null", x ? branch : name,
                                    x ? name : branch);
}

static kiln_status check_head_size(const Call *call, const char *letter)
{
    const int64_t size = call_extent(call, letter);
    return size >= 16 && size <= ATTENTION_HEAD_MAX && size % 16 == 0
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "head size %s is %" PRId64 ", expected a multiple of 16 up to %d",
                           letter, size, ATTENTION_HEAD_MAX);
}

kiln_status kiln_nsa_combine(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_combine_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_nsa_combine", ops, a, FORM(kiln_nsa_combine_args));
    if (call_again(&call, stream, &status)) return status;
    const unsigned branch = a->compressed ? type_of(a->compressed) : TYPES_16, gate = type_of(a->g_selected);
    // clang-format off
    const Want wants[] = {
        { IN_OPTIONAL, "compressed",   a->compressed,   TYPES_16,                "Oc[T][H][DV]" },
        { IN,          "selected",     a->selected,     branch,                  "Os[T][H][DV]" },
        { IN_OPTIONAL, "window",       a->window,       type_of(a->selected),    "Ow[T][H][DV]" },
        { IN_OPTIONAL, "g_compressed", a->g_compressed, gate,                    "[T][H]" },
        { IN,          "g_selected",   a->g_selected,   gate_types(a->selected), "[T][H]" },
        { IN_OPTIONAL, "g_window",     a->g_window,     gate,                    "[T][H]" },
        { OUT,         "out",          a->out,          type_of(a->selected),    "O[T][H][DV]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_branch(&call, "compressed", a->compressed, "g_compressed", a->g_compressed);
    if (!status) status = check_branch(&call, "window", a->window, "g_window", a->g_window);
    if (!status) status = check_head_size(&call, "DV");
    if (!status)
        status =
            call_kernel(&call, "nsa/combine.tile", "nsa_combine", "T=%s, TG=%s, DV=%d%s%s%s%s", name_of(a->selected),
                        name_of(a->g_selected), size_of(&call, "DV"), LACKS(a->compressed, "Oc"),
                        LACKS(a->window, "Ow"), LACKS(a->g_compressed, "Gc"), LACKS(a->g_window, "Gw"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

static kiln_status check_combine_backward(Call *call, const kiln_nsa_combine_backward_args *a)
{
    const unsigned gate = type_of(a->g_selected);
    // clang-format off
    const Want wants[] = {
        { IN,           "dout",          a->dout,          TYPES_16,            "dO[T][H][DV]" },
        { IN_OPTIONAL,  "compressed",    a->compressed,    0,                   "Oc[T][H][DV]" },
        { IN,           "selected",      a->selected,      0,                   "Os[T][H][DV]" },
        { IN_OPTIONAL,  "window",        a->window,        0,                   "Ow[T][H][DV]" },
        { IN_OPTIONAL,  "g_compressed",  a->g_compressed,  gate,                "[T][H]" },
        { IN,           "g_selected",    a->g_selected,    gate_types(a->dout), "[T][H]" },
        { IN_OPTIONAL,  "g_window",      a->g_window,      gate,                "[T][H]" },
        { OUT_OPTIONAL, "dcompressed",   a->dcompressed,   0,                   "dOc[T][H][DV]" },
        { OUT,          "dselected",     a->dselected,     0,                   "dOs[T][H][DV]" },
        { OUT_OPTIONAL, "dwindow",       a->dwindow,       0,                   "dOw[T][H][DV]" },
        { OUT_OPTIONAL, "dg_compressed", a->dg_compressed, gate,                "[T][H]" },
        { OUT,          "dg_selected",   a->dg_selected,   gate,                "[T][H]" },
        { OUT_OPTIONAL, "dg_window",     a->dg_window,     gate,                "[T][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_branch(call, "compressed", a->compressed, "g_compressed", a->g_compressed);
    if (!status) status = check_branch(call, "compressed", a->compressed, "dcompressed", a->dcompressed);
    if (!status) status = check_branch(call, "compressed", a->compressed, "dg_compressed", a->dg_compressed);
    if (!status) status = check_branch(call, "window", a->window, "g_window", a->g_window);
    if (!status) status = check_branch(call, "window", a->window, "dwindow", a->dwindow);
    if (!status) status = check_branch(call, "window", a->window, "dg_window", a->dg_window);
    return status ? status : check_head_size(call, "DV");
}

kiln_status kiln_nsa_combine_backward(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_combine_backward_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_nsa_combine_backward", ops, a, FORM(kiln_nsa_combine_backward_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_combine_backward(&call, a);
    if (!status)
        status = call_kernel(&call, "nsa/combine.tile", "nsa_combine_backward", "T=%s, TG=%s, DV=%d%s%s%s%s%s%s%s%s",
                             name_of(a->dout), name_of(a->g_selected), size_of(&call, "DV"), LACKS(a->compressed, "Oc"),
                             LACKS(a->window, "Ow"), LACKS(a->g_compressed, "Gc"), LACKS(a->g_window, "Gw"),
                             LACKS(a->dcompressed, "dOc"), LACKS(a->dwindow, "dOw"), LACKS(a->dg_compressed, "dGc"),
                             LACKS(a->dg_window, "dGw"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- decoding

// As many shares as fill the device, of at least two blocks each.
static int64_t choose_splits(const Call *call)
{
    const int64_t S = call_extent(call, "S"), lists = call_extent(call, "B") * call_extent(call, "HKV");
    const int64_t places = (int64_t)(ops_on_cpu(call->ops) ? 1 : 3) * ops_processors(call->ops);
    const int64_t wanted = lists > 0 ? (places + lists - 1) / lists : 1, most = S / SPLITS_LEAST;
    const int64_t splits = wanted < most ? wanted : most;
    return splits > 1 ? splits : 1;
}

static kiln_status prepare_decode(Call *call, const void *args)
{
    const kiln_nsa_decode_args *const a = args;
    Shape s;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",             a->q,             TYPES_16,      "Q[B][H][D]" },
        { IN,           "k",             a->k,             0,             "K[B][M][HKV][D]" },
        { IN,           "v",             a->v,             0,             "V[B][M][HKV][DV]" },
        { IN,           "block_indices", a->block_indices, 1 << KILN_I32, "[B][HKV][S]" },
        { IN_OPTIONAL,  "block_counts",  a->block_counts,  1 << KILN_I32, "[B][HKV]" },
        { IN_OPTIONAL,  "lengths",       a->lengths,       1 << KILN_I32, "[B]" },
        { OUT,          "out",           a->out,           0,             "O[B][H][DV]" },
        { OUT_OPTIONAL, "lse",           a->lse,           1 << KILN_F32, "[B][H]" },
    };
    // clang-format on
    kiln_status status = check_block(call, a->block_size, &s);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_heads(call, a->scale, &s);
    if (!status) status = check_list(call);
    if (!status) status = check_range(call, "splits", a->splits, 0, call_extent(call, "S"));
    if (!status)
        status = call_kernel(call, "nsa/decode.tile", "nsa_decode", "T=%s, D=%d, DV=%d, G=%d, BS=%d%s%s%s",
                             name_of(a->q), size_of(call, "D"), size_of(call, "DV"), s.group, s.block,
                             LACKS(a->block_counts, "Count"), LACKS(a->lengths, "Length"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(call, KILN_INT(a->splits ? a->splits : choose_splits(call)));
    call_add(call, KILN_FLOAT(s.scale));
    return KILN_OK;
}

static const CallPair nsa_decode = {
    .name = "kiln_nsa_decode",
    .size_name = "kiln_nsa_decode_workspace_size",
    .prepare = prepare_decode,
};

kiln_status kiln_nsa_decode_workspace_size(kiln_ops *ops, const kiln_nsa_decode_args *a, size_t *bytes)
{
    return pair_size(&nsa_decode, ops, a, FORM(kiln_nsa_decode_args), bytes);
}

kiln_status kiln_nsa_decode(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_decode_args *a)
{
    return pair_run(&nsa_decode, ops, stream, a, FORM(kiln_nsa_decode_args));
}

kiln_status kiln_nsa_decode_pool(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_decode_pool_args *a)
{
    Call call;
    Shape s;
    kiln_status status = call_begin(&call, "kiln_nsa_decode_pool", ops, a, FORM(kiln_nsa_decode_pool_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "x",       a->x,       TYPES_16,      "X[B][M][HKV][D]" },
        { IN_OPTIONAL, "weights", a->weights, 1 << KILN_F32, "[HKV][BS]" },
        { IN,          "lengths", a->lengths, 1 << KILN_I32, "[B]" },
        { OUT,         "pooled",  a->pooled,  0,             "Y[B][R][HKV][D]" },
    };
    // clang-format on
    status = bind_block(&call, a->block_size, &s);
    if (!status) status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_head_size(&call, "D");
    if (!status)
        status = call_kernel(&call, "nsa/decode_choose.tile", "nsa_pool_cache", "T=%s, D=%d, BS=%d, ALL=%s%s",
                             name_of(a->x), size_of(&call, "D"), s.block, yes(a->all), LACKS(a->weights, "Weight"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

static kiln_status check_decode_choose(Call *call, const kiln_nsa_decode_choose_args *a, Shape *s)
{
    // clang-format off
    const Want wants[] = {
        { IN,           "q",             a->q,             TYPES_16,      "Q[B][H][D]" },
        { IN,           "k_pooled",      a->k_pooled,      0,             "K[B][R][HKV][D]" },
        { IN,           "v_pooled",      a->v_pooled,      0,             "V[B][R][HKV][DV]" },
        { IN,           "lengths",       a->lengths,       1 << KILN_I32, "[B]" },
        { OUT,          "out",           a->out,           0,             "O[B][H][DV]" },
        { OUT_OPTIONAL, "lse",           a->lse,           1 << KILN_F32, "[B][H]" },
        { OUT,          "block_indices", a->block_indices, 1 << KILN_I32, "[B][HKV][S]" },
    };
    // clang-format on
    kiln_status status = check_block(call, a->block_size, s);
    if (!status) status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_heads(call, a->scale, s);
    if (!status) status = check_list(call);
    if (status) return status;
    const int64_t R = call_extent(call, "R");
    if (R >= SEQUENCE_MOST)
        return call_fail(call, KILN_UNSUPPORTED, "'k_pooled' has %" PRId64 " rows, expected at most %d", R,
                         SEQUENCE_MOST - 1);
    s->blocks_most = BLOCKS_LEAST; // one more, which is not full
    while (s->blocks_most <= R) s->blocks_most *= 2;
    return KILN_OK;
}

kiln_status kiln_nsa_decode_choose(kiln_ops *ops, kiln_stream *stream, const kiln_nsa_decode_choose_args *a)
{
    Call call;
    Shape s;
    kiln_status status = call_begin(&call, "kiln_nsa_decode_choose", ops, a, FORM(kiln_nsa_decode_choose_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_decode_choose(&call, a, &s);
    if (status) return status;
    int64_t local = a->local_blocks;
    status = check_forced(&call, a->initial_blocks, &local, call_extent(&call, "S"));
    if (!status)
        status = call_kernel(&call, "nsa/decode_choose.tile", "nsa_decode_choose",
                             "T=%s, D=%d, DV=%d, G=%d, BS=%d, S=%d, MAXB=%d%s", name_of(a->q), size_of(&call, "D"),
                             size_of(&call, "DV"), s.group, s.block, size_of(&call, "S"), s.blocks_most,
                             LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(&call, KILN_INT(a->initial_blocks));
    call_add(&call, KILN_INT(local));
    call_add(&call, KILN_FLOAT(s.scale));
    return call_run(&call, stream, NULL, 0);
}
