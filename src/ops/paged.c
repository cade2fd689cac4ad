// SPDX-License-Identifier: MIT
// paged.c - the operators of kiln/ops/paged.h over kernels/attention/paged.tile and paged_cache.tile.
#include "kiln/ops/paged.h"
#include "ops/attention_call.h"
#include "ops/rotary.h"

#include <inttypes.h>
#include <math.h>

enum {
    PAGE_MAX = 256, // tokens
    FEW_ROWS = 16,  // of a tile: a request's queries times the heads of a group
    SOME_ROWS = 64,
    MANY_ROWS = 128, // where requests have several tiles
    FEW_KEYS = 32,
    SPLITS_MAX = 65536,
    TABLE = 3, // places in the table of wants
    LENGTHS = 4,
    OFFSETS = 5,
};

static kiln_status check_page(const Call *call, int64_t size, const char *what)
{
    return size >= 1 && size <= PAGE_MAX
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "%s is %" PRId64 ", expected 1 to %d", what, size, PAGE_MAX);
}

// Without offsets all requests have as many rows.
static kiln_status check_rows(const Call *call, const char *what, const kiln_tensor *offsets)
{
    const int64_t B = call_extent(call, "B"), TQ = call_extent(call, "TQ");
    return offsets || (B ? TQ % B == 0 : TQ == 0)
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE,
                           "'q_offsets' is null, but the %" PRId64 " rows of '%s' are not a multiple of %" PRId64
                           " requests (of 'table')",
                           TQ, what, B);
}

static kiln_status check_count(const Call *call, const char *name, int64_t count, int64_t most)
{
    return count >= 0 && count <= most
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected 0 to %" PRId64, name, count, most);
}

// Caches have the type of what is beside them, or are e4m3; both have the same.
static unsigned type_of(const kiln_tensor *t) { return t && (unsigned)t->type <= KILN_BOOL ? 1U << t->type : TYPES_16; }

static unsigned cache_types(const kiln_tensor *first) { return (type_of(first) & TYPES_16) | 1U << KILN_E4M3; }

// ---- attention

// Rows of the request that has most.
static int64_t most_queries(const Call *call, const kiln_paged_attention_args *a)
{
    const int64_t B = call_extent(call, "B"), TQ = call_extent(call, "TQ");
    if (!a->q_offsets) return B ? TQ / B : 0;
    return a->max_queries && a->max_queries < TQ ? a->max_queries : TQ;
}

// The tiles of a call: rows of one, whether requests may have several, keys of a step.
typedef struct Tiles {
    int rows, keys;
    bool many;
} Tiles;

// Wide heads leave registers for 128 rows only where nothing is added to scores and keys are fetched as boxes of their type;
// where keys are converted, 64 of them are a step, or 32 where slopes and windows take registers beside them.
static Tiles choose_tiles(const Call *call, const kiln_paged_attention_args *a)
{
    const int64_t D = call_extent(call, "D"), DV = call_extent(call, "DV"), page = call_extent(call, "page size");
    const int64_t rows = most_queries(call, a) * (call_extent(call, "H") / call_extent(call, "HKV"));
    const bool is_converted = a->k->type != a->q->type;
    const bool are_boxes = 64 % page == 0 ? page >= 16 : page % 64 == 0;
    const bool is_plain =
        !a->slopes && !a->sinks && a->softcap == 0 && !is_converted && !a->k_scales && !a->v_scales && are_boxes;
    Tiles t = { .rows = rows <= FEW_ROWS ? FEW_ROWS : SOME_ROWS, .keys = SPLITS_GPU_KEYS, .many = rows > SOME_ROWS };
    if (t.many && ((D <= 128 && DV <= 128) || is_plain)) {
        t.rows = MANY_ROWS;
        if (D + DV <= 320 && !is_converted) t.keys = 128;
    }
    const bool is_crowded = t.rows == MANY_ROWS ? a->slopes && a->window : a->slopes || (a->window && !are_boxes);
    if (is_converted && is_crowded && t.rows > FEW_ROWS) t.keys = FEW_KEYS;
    if (ops_on_cpu(call->ops)) { // whose products have as many rows as there are
        t.keys = SPLITS_CPU_KEYS;
        while (!t.many && t.rows > 1 && t.rows / 2 >= rows) t.rows /= 2;
    }
    return t;
}

// Shares of tiles of many rows are as large as what they save: these are divided only where processors would have none.
static int64_t choose_splits(const Call *call, const kiln_paged_attention_args *a, const Tiles *t)
{
    const int64_t B = call_extent(call, "B"), HKV = call_extent(call, "HKV"), queries = most_queries(call, a);
    const int64_t room = call_extent(call, "pages per request") * call_extent(call, "page size");
    const int64_t rows = call_extent(call, "TQ") * (call_extent(call, "H") / HKV);
    int64_t keys = a->max_keys && a->max_keys < room ? a->max_keys : room;
    if (a->window && a->window + queries < keys) keys = a->window + queries;
    const bool two = t->rows < MANY_ROWS && call_extent(call, "D") <= 128 && call_extent(call, "DV") <= 128;
    const int64_t tiles = (t->many ? rows / t->rows + B : B) * HKV;
    return t->many && tiles >= ops_processors(call->ops) ? 1 : attention_splits(call->ops, tiles, keys, two);
}

static kiln_status check_attention(Call *call, const kiln_paged_attention_args *a, double *scale)
{
    // clang-format off
    const Want wants[] = {
        { IN,           "q",         a->q,         TYPES_16,      "Q[TQ][H][D]" },
        { IN,           "k",         a->k,         cache_types(a->q), "K[pages][page size][HKV][D]" },
        { IN,           "v",         a->v,         type_of(a->k), "V[pages][page size][HKV][DV]" },
        { IN,           "table",     a->table,     1 << KILN_I32, "TABLE[B][pages per request]" },
        { IN,           "lengths",   a->lengths,   1 << KILN_I32, "LENGTH[B]" },
        { IN_OPTIONAL,  "q_offsets", a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { IN_OPTIONAL,  "slopes",    a->slopes,    1 << KILN_F32, "[H]" },
        { IN_OPTIONAL,  "sinks",     a->sinks,     1 << KILN_F32, "[H]" },
        { IN_OPTIONAL,  "k_scales",  a->k_scales,  1 << KILN_F32, "[HKV]" },
        { IN_OPTIONAL,  "v_scales",  a->v_scales,  1 << KILN_F32, "[HKV]" },
        { OUT,          "out",       a->out,       0,             "O[TQ][H][DV]" },
        { OUT_OPTIONAL, "lse",       a->lse,       1 << KILN_F32, "[TQ][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, a->window, a->scale, scale);
    if (!status) status = check_page(call, call_extent(call, "page size"), "the page size (dimension 1 of 'k')");
    if (!status) status = check_rows(call, "q", a->q_offsets);
    if (!status) status = check_count(call, "max_queries", a->max_queries, INT32_MAX);
    if (!status) status = check_count(call, "max_keys", a->max_keys, INT64_MAX);
    if (!status) status = check_count(call, "splits", a->splits, SPLITS_MAX);
    if (!status) status = attention_softcap(call, a->softcap);
    return status;
}

static kiln_status prepare_attention(Call *call, const kiln_paged_attention_args *a)
{
    double scale;
    const kiln_status status = check_attention(call, a, &scale);
    if (status) return status;
    const Tiles t = choose_tiles(call, a);
    const kiln_status built = call_kernel(
        call, "attention/paged.tile", "paged_attention",
        "T=%s, C=%s, D=%d, DV=%d, G=%d, PS=%d, CAUSAL=%s, WINDOW=%d, CAP=%s, MANY=%s, BM=%d, BN=%d%s%s%s%s%s%s",
        kiln_type_name(a->q->type), kiln_type_name(a->k->type), (int)call_extent(call, "D"),
        (int)call_extent(call, "DV"), (int)(call_extent(call, "H") / call_extent(call, "HKV")),
        (int)call_extent(call, "page size"), yes(a->causal || a->window), (int)a->window, yes(a->softcap > 0),
        yes(t.many), t.rows, t.keys, a->q_offsets ? "" : ", QOffset=none", a->slopes ? "" : ", SLOPE=none",
        a->sinks ? "" : ", SINK=none", a->k_scales ? "" : ", KSCALE=none", a->v_scales ? "" : ", VSCALE=none",
        a->lse ? "" : ", LSE=none");
    if (built) return built;
    call_add(call, KILN_INT(a->splits ? a->splits : choose_splits(call, a, &t)));
    call_add(call, KILN_FLOAT(scale));
    call_add(call, KILN_FLOAT(a->softcap > 0 ? a->softcap : 1));
    return KILN_OK;
}

// What looks at values: offsets, and the pages that are used.
typedef struct Looks {
    kiln_kernel *offsets, *pages;
} Looks;

static kiln_status find_looks(const Call *call, const kiln_tensor *offsets, Looks *looks)
{
    static const char file[] = "attention/inputs.tile";
    static const Taken taken[] = { { TABLE, "TABLE" }, { LENGTHS, "LENGTH" }, { OFFSETS, "OFFSET" } };
    looks->offsets = NULL;
    kiln_status status = call_taking_kernel(call, file, "attention_pages", taken, 3, &looks->pages, "%s", "");
    if (!status && offsets)
        status = call_taking_kernel(call, file, "attention_offsets", taken + 2, 1, &looks->offsets, "%s", "");
    return status;
}

static kiln_status look(Call *call, kiln_stream *stream, const kiln_paged_attention_args *a)
{
    Looks looks;
    kiln_status status = call_room(call, a->workspace_bytes);
    if (!status) status = find_looks(call, a->q_offsets, &looks);
    const int64_t TQ = call_extent(call, "TQ");
    const kiln_arg offsets[] = { call_tensor(call, OFFSETS), KILN_INT(TQ), KILN_INT(most_queries(call, a)) };
    const kiln_arg pages[] = { call_tensor(call, TABLE),
                               call_tensor(call, LENGTHS),
                               call_tensor(call, OFFSETS),
                               KILN_INT(TQ),
                               KILN_INT(call_extent(call, "pages")),
                               KILN_INT(call_extent(call, "page size")),
                               KILN_INT(a->window) };
    if (!status && looks.offsets) status = call_launch(call, stream, looks.offsets, offsets, COUNT(offsets));
    return status ? status : call_launch(call, stream, looks.pages, pages, COUNT(pages));
}

kiln_status kiln_paged_attention_workspace_size(kiln_ops *ops, const kiln_paged_attention_args *a, size_t *bytes)
{
    Call call;
    Looks looks;
    kiln_status status = call_begin_sizing(&call, "kiln_paged_attention_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare_attention(&call, a);
    if (!status && ops_look_at_values(ops))
        status = find_looks(&call, a->q_offsets, &looks); // the call finds them built
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_paged_attention(kiln_ops *ops, kiln_stream *stream, const kiln_paged_attention_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_paged_attention", ops, a, sizeof *a);
    if (!status) status = prepare_attention(&call, a);
    if (!status && ops_look_at_values(ops)) status = look(&call, stream, a);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}

// ---- new tokens

kiln_status kiln_paged_slots(kiln_ops *ops, kiln_stream *stream, const kiln_paged_slots_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_paged_slots", ops, a, sizeof *a);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "table",     a->table,     1 << KILN_I32, "TABLE[B][pages per request]" },
        { IN,           "lengths",   a->lengths,   1 << KILN_I32, "LENGTH[B]" },
        { IN_OPTIONAL,  "q_offsets", a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
        { OUT,          "slots",     a->slots,     1 << KILN_I32, "SLOT[TQ]" },
        { OUT_OPTIONAL, "positions", a->positions, 1 << KILN_I32, "POSITION[TQ]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, a->page_size, "'page_size'");
    if (!status) status = check_rows(&call, "slots", a->q_offsets);
    if (!status)
        status =
            call_kernel(&call, "attention/paged_cache.tile", "paged_slots", "%s%s", a->q_offsets ? "" : "QOffset=none",
                        a->positions   ? ""
                        : a->q_offsets ? "POSITION=none"
                                       : ", POSITION=none");
    if (status) return status;
    call_add(&call, KILN_INT(a->page_size));
    return call_run(&call, stream, NULL, 0);
}

static kiln_status check_append(Call *call, const kiln_paged_append_args *a, Rotary *r)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,          "keys",      a->keys,      TYPES_16,      "NEWK[N][HKV][D]" },
        { IN,          "values",    a->values,    0,             "NEWV[N][HKV][DV]" },
        { IN,          "slots",     a->slots,     1 << KILN_I32, "SLOT[N]" },
        { IN_OPTIONAL, "positions", a->positions, 1 << KILN_I32, "POSITION[N]" },
        { IN_OPTIONAL, "k_scales",  a->k_scales,  1 << KILN_F32, "[HKV]" },
        { IN_OPTIONAL, "v_scales",  a->v_scales,  1 << KILN_F32, "[HKV]" },
        { OUT,         "k",         a->k,         cache_types(a->keys), "K[pages][page size][HKV][D]" },
        { OUT,         "v",         a->v,         type_of(a->k), "V[pages][page size][HKV][DV]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) call_bind(call, "H", call_extent(call, "HKV"), "keys");
    if (!status) status = attention_options(call, 0, NULL, &scale);
    if (!status) status = check_page(call, call_extent(call, "page size"), "the page size (dimension 1 of 'k')");
    if (!status && !a->rotary != !a->positions)
        status = call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but '%s' is null",
                           a->rotary ? "rotary" : "positions", a->rotary ? "positions" : "rotary");
    return status ? status : rotary_take_positions(call, a->rotary, call_extent(call, "D"), a->trained_length, r);
}

kiln_status kiln_paged_append(kiln_ops *ops, kiln_stream *stream, const kiln_paged_append_args *a)
{
    Call call;
    Rotary r;
    kiln_status status = call_begin(&call, "kiln_paged_append", ops, a, sizeof *a);
    if (!status) status = check_append(&call, a, &r);
    if (!status)
        status =
            call_kernel(&call, "attention/paged_cache.tile", "paged_append",
                        "T=%s, C=%s, D=%d, DV=%d, SIZE=%d, OFFSET=%d, STYLE=%d%s%s%s", kiln_type_name(a->keys->type),
                        kiln_type_name(a->k->type), (int)call_extent(&call, "D"), (int)call_extent(&call, "DV"),
                        (int)r.size, (int)r.offset, (int)r.style, a->positions ? "" : ", POSITION=none",
                        a->k_scales ? "" : ", KSCALE=none", a->v_scales ? "" : ", VSCALE=none");
    if (status) return status;
    rotary_add(&call, &r, a->trained_length);
    return call_run(&call, stream, NULL, 0);
}
