// SPDX-License-Identifier: MIT
// paged.c - the operators of kiln/ops/paged.h over kernels/attention/paged.tile, paged_plan.tile and paged_cache.tile.
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
    HEADS_MAX = 1 << 20,
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
                           " requests (of '%s')",
                           TQ, what, B, call_source(call, "B"));
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
static int64_t most_queries(const Call *call, const kiln_tensor *offsets, int64_t max_queries)
{
    const int64_t B = call_extent(call, "B"), TQ = call_extent(call, "TQ");
    if (!offsets) return B ? TQ / B : 0;
    return max_queries && max_queries < TQ ? max_queries : TQ;
}

// Rows of a tile, whether requests may have several, keys of a step.
typedef struct Tiles {
    int rows, keys;
    bool many;
} Tiles;

// What they are chosen by: a request's queries times the heads of a group; that keys are converted; that nothing is added to scores
// and keys are fetched as boxes of their type; that they are boxes and have no slopes.
typedef struct Work {
    int64_t rows, size, value_size;
    bool is_converted, is_plain, is_spare;
} Work;

// Wide heads leave registers for 128 rows only where the work is plain; where they are converted, shared memory for 64 keys.
static Tiles tiles_for(const kiln_ops *ops, const Work *w)
{
    const bool is_narrow = w->size <= 128 && w->value_size <= 128;
    Tiles t = { .rows = w->rows <= FEW_ROWS ? FEW_ROWS : SOME_ROWS,
                .keys = SPLITS_GPU_KEYS,
                .many = w->rows > SOME_ROWS };
    if (t.many && (is_narrow || w->is_plain)) {
        t.rows = MANY_ROWS;
        if (w->is_converted ? is_narrow && w->is_spare : w->size + w->value_size <= 320) t.keys = 128;
    }
    if (ops_on_cpu(ops)) { // whose products have as many rows as there are
        t.keys = SPLITS_CPU_KEYS;
        while (!t.many && t.rows > 1 && t.rows / 2 >= w->rows) t.rows /= 2;
    }
    return t;
}

// Whether a multiprocessor has two tiles at a time.
static bool is_two(const Tiles *t, int64_t size, int64_t value_size)
{
    return t->rows < MANY_ROWS && size <= 128 && value_size <= 128;
}

static Tiles choose_tiles(const Call *call, const kiln_paged_attention_args *a)
{
    const int64_t page = call_extent(call, "page size");
    Work w = { .rows = most_queries(call, a->q_offsets, a->max_queries) *
                       (call_extent(call, "H") / call_extent(call, "HKV")),
               .size = call_extent(call, "D"),
               .value_size = call_extent(call, "DV"),
               .is_converted = a->k->type != a->q->type };
    const bool are_boxes = 64 % page == 0 ? page >= 16 : page % 64 == 0;
    w.is_spare = are_boxes && !a->slopes;
    w.is_plain =
        !a->slopes && !a->sinks && a->softcap == 0 && !w.is_converted && !a->k_scales && !a->v_scales && are_boxes;
    Tiles t = tiles_for(call->ops, &w);
    // Slopes and windows take registers beside keys that are converted.
    const bool is_crowded = t.rows == MANY_ROWS ? a->slopes && a->window : a->slopes || (a->window && !are_boxes);
    if (w.is_converted && is_crowded && t.rows > FEW_ROWS && !ops_on_cpu(call->ops)) t.keys = FEW_KEYS;
    return t;
}

// Shares of tiles of many rows are as large as what they save: these are divided only where processors would have none.
static int64_t choose_splits(const Call *call, const kiln_paged_attention_args *a, const Tiles *t)
{
    const int64_t B = call_extent(call, "B"), HKV = call_extent(call, "HKV"),
                  queries = most_queries(call, a->q_offsets, a->max_queries);
    const int64_t room = call_extent(call, "pages per request") * call_extent(call, "page size");
    const int64_t rows = call_extent(call, "TQ") * (call_extent(call, "H") / HKV);
    int64_t keys = a->max_keys && a->max_keys < room ? a->max_keys : room;
    if (a->window && a->window + queries < keys) keys = a->window + queries;
    const SharesAtOnce at_once = !is_two(t, call_extent(call, "D"), call_extent(call, "DV")) ? ONE_SHARE
                                 : a->k->type == KILN_E4M3                                   ? TWO_NARROW_SHARES
                                                                                             : TWO_SHARES;
    const int64_t tiles = (t->many ? rows / t->rows + B : B) * HKV;
    return t->many && tiles >= ops_processors(call->ops)
               ? 1
               : attention_splits(call->ops, tiles, keys, call_extent(call, "TQ") * call_extent(call, "H"), at_once);
}

// ---- plans

// What kiln_paged_plan holds. The device's part: a row of 8 i32 for each tile and one more, an i32 for each part, and, where requests
// have several tiles, which they are, of 2 i32 each.
typedef struct Plan {
    uint64_t mark; // of the rest, so that what was not made here is not taken for a plan
    kiln_device *device;
    char *memory;
    int64_t requests, rows, most, heads, key_heads, size, value_size, window, parts;
    int64_t is_causal, is_eight_bit, has_offsets;
    int64_t tile_rows, tile_keys, has_many;
} Plan;
static_assert(sizeof(Plan) <= sizeof(kiln_paged_plan), "a plan has room for it");

static int64_t tiles_of_plan(const Plan *p)
{
    return p->requests + (p->has_many ? p->rows * (p->heads / p->key_heads) / p->tile_rows : 0);
}

static kiln_tensor rows_of_plan(const Plan *p)
{
    return kiln_tensor_of(p->device, p->memory, KILN_I32, 2, (int64_t[]){ tiles_of_plan(p) + 1, 8 });
}

static kiln_tensor parts_of_plan(const Plan *p)
{
    return kiln_tensor_of(p->device, p->memory + plan_room((tiles_of_plan(p) + 1) * 8), KILN_I32, 1,
                          (int64_t[]){ p->parts });
}

static kiln_tensor list_of_plan(const Plan *p)
{
    return kiln_tensor_of(p->device, p->memory + plan_room((tiles_of_plan(p) + 1) * 8) + plan_room(p->parts), KILN_I32,
                          2, (int64_t[]){ tiles_of_plan(p), 2 });
}

static size_t bytes_of_plan(const Plan *p)
{
    return plan_room((tiles_of_plan(p) + 1) * 8) + plan_room(p->parts) +
           (p->has_many ? plan_room(tiles_of_plan(p) * 2) : 0);
}

// The numbers of a plan, which stand for what tensors bind elsewhere.
static kiln_status bind_numbers(Call *call, const kiln_paged_plan_args *a)
{
    const struct {
        const char *field, *letter;
        int64_t value, least, most;
    } numbers[] = {
        { "rows", "TQ", a->rows, 0, INT32_MAX },
        { "heads", "H", a->heads, 1, HEADS_MAX },
        { "key_heads", "HKV", a->key_heads, 1, HEADS_MAX },
        { "size", "D", a->size, 1, ATTENTION_HEAD_MAX },
        { "value_size", "DV", a->value_size ? a->value_size : a->size, 1, ATTENTION_HEAD_MAX },
    };
    for (int i = 0; i < COUNT(numbers); i++) {
        const int64_t value = numbers[i].value;
        if (value < numbers[i].least || value > numbers[i].most)
            return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                             numbers[i].field, value, numbers[i].least, numbers[i].most);
        call_bind(call, numbers[i].letter, value, numbers[i].field);
    }
    return KILN_OK;
}

static kiln_status check_plan(Call *call, const kiln_paged_plan_args *a)
{
    double scale;
    // clang-format off
    const Want wants[] = {
        { IN,          "lengths",   a->lengths,   1 << KILN_I32, "LENGTH[B]" },
        { IN_OPTIONAL, "q_offsets", a->q_offsets, 1 << KILN_I32, "QOffset[B + 1]" },
    };
    // clang-format on
    kiln_status status = bind_numbers(call, a);
    if (!status) status = call_check(call, wants, COUNT(wants), "memory", a->memory, a->memory_bytes);
    if (!status) status = attention_options(call, a->window, NULL, &scale);
    if (!status) status = check_rows(call, "rows", a->q_offsets);
    if (!status) status = check_count(call, "max_queries", a->max_queries, INT32_MAX);
    if (!status) status = check_count(call, "parts", a->parts, SPLITS_MAX);
    return status;
}

static kiln_status describe_plan(Call *call, const kiln_paged_plan_args *a, Plan *plan)
{
    const kiln_status status = check_plan(call, a);
    if (status) return status;
    const int64_t D = a->size, DV = a->value_size ? a->value_size : D;
    const int64_t most = most_queries(call, a->q_offsets, a->max_queries);
    const Work work = {
        .rows = most * (a->heads / a->key_heads), .size = D, .value_size = DV, .is_converted = a->eight_bit
    };
    const Tiles t = tiles_for(call->ops, &work);
    const int64_t processors = ops_processors(call->ops);
    *plan = (Plan){ .device = call->ops->device,
                    .memory = a->memory,
                    .requests = call_extent(call, "B"),
                    .rows = a->rows,
                    .most = most,
                    .heads = a->heads,
                    .key_heads = a->key_heads,
                    .size = D,
                    .value_size = DV,
                    .window = a->window,
                    .is_causal = a->causal || a->window,
                    .is_eight_bit = a->eight_bit,
                    .has_offsets = a->q_offsets != NULL,
                    .tile_rows = t.rows,
                    .tile_keys = t.keys,
                    .has_many = t.many };
    plan->parts = a->parts ? a->parts : !ops_on_cpu(call->ops) && is_two(&t, D, DV) ? 2 * processors : processors;
    return KILN_OK;
}

// The kernels that make a plan, in order; `list` only where requests have several tiles.
typedef struct Planners {
    kiln_kernel *list, *line, *parts;
} Planners;

static kiln_status find_planners(const Call *call, const Plan *p, Planners *kernels)
{
    static const char file[] = "attention/paged_plan.tile";
    static const Taken taken[] = { { 0, "LENGTH" }, { 1, "QOffset" } };
    const int group = (int)(p->heads / p->key_heads), rows = (int)p->tile_rows, keys = (int)p->tile_keys;
    kernels->list = NULL;
    kiln_status status = KILN_OK;
    if (p->has_many)
        status = call_taking_kernel(call, "attention/paged.tile", "paged_tiles", taken, 2, &kernels->list,
                                    "G=%d, BM=%d", group, rows);
    if (!status)
        status = call_taking_kernel(call, file, "paged_line", taken, 2, &kernels->line,
                                    "G=%d, CAUSAL=%s, WINDOW=%d, BM=%d, BN=%d%s", group, yes(p->is_causal),
                                    (int)p->window, rows, keys, p->has_many ? "" : ", TILE=none");
    return status ? status : call_taking_kernel(call, file, "paged_parts", NULL, 0, &kernels->parts, "%s", "");
}

kiln_status kiln_paged_plan_size(kiln_ops *ops, const kiln_paged_plan_args *a, size_t *bytes)
{
    Call call;
    Plan plan;
    Planners kernels;
    kiln_status status = call_begin_sizing(&call, "kiln_paged_plan_size", ops, a, FORM(kiln_paged_plan_args), bytes);
    if (!status) status = describe_plan(&call, a, &plan);
    if (!status) status = find_planners(&call, &plan, &kernels);
    if (!status) status = call_check_offsets(&call, NULL, 1, plan.rows, plan.most); // the call finds it built
    if (!status) *bytes = bytes_of_plan(&plan);
    return status;
}

kiln_status kiln_paged_plan_make(kiln_ops *ops, kiln_stream *stream, const kiln_paged_plan_args *a, kiln_paged_plan *to)
{
    Call call;
    Plan plan;
    Planners kernels;
    kiln_status status = call_begin(&call, "kiln_paged_plan_make", ops, a, FORM(kiln_paged_plan_args));
    if (!status && (!to || !a->memory))
        status = call_fail(&call, KILN_BAD_ARGUMENT, "'%s' is null", to ? "memory" : "plan");
    if (!status) status = describe_plan(&call, a, &plan);
    if (!status && a->memory_bytes < bytes_of_plan(&plan))
        status = call_fail(&call, KILN_BAD_ARGUMENT, "'memory' has %zu bytes, expected %zu (kiln_paged_plan_size)",
                           a->memory_bytes, bytes_of_plan(&plan));
    if (!status) status = find_planners(&call, &plan, &kernels);
    if (!status) status = call_check_offsets(&call, stream, 1, plan.rows, plan.most);
    if (status) return status;
    const kiln_tensor list = list_of_plan(&plan), rows = rows_of_plan(&plan), parts = parts_of_plan(&plan);
    const kiln_arg lengths = call_tensor(&call, 0), offsets = call_tensor(&call, 1), tiles = KILN_TENSOR(&list);
    const kiln_arg for_list[] = { lengths, offsets, tiles, KILN_INT(plan.rows) };
    const kiln_arg for_line[] = { lengths, offsets, plan.has_many ? tiles : KILN_NONE, KILN_TENSOR(&rows),
                                  KILN_INT(plan.rows) };
    const kiln_arg for_parts[] = { KILN_TENSOR(&rows), KILN_TENSOR(&parts), KILN_INT(plan.key_heads) };
    if (kernels.list) status = call_launch(&call, stream, kernels.list, for_list, COUNT(for_list));
    if (!status) status = call_launch(&call, stream, kernels.line, for_line, COUNT(for_line));
    if (!status) status = call_launch(&call, stream, kernels.parts, for_parts, COUNT(for_parts));
    if (status) return status;
    plan.mark = plan_mark(&plan, sizeof plan);
    *to = (kiln_paged_plan){ 0 };
    memcpy(to, &plan, sizeof plan);
    return KILN_OK;
}

// A plan as a call takes it: that it is one, of its options; its sizes become what the tensors are held to.
static kiln_status take_plan(Call *call, const kiln_paged_attention_args *a, Plan *plan)
{
    memcpy(plan, a->plan, sizeof *plan);
    if (plan->mark != plan_mark(plan, sizeof *plan))
        return call_fail(call, KILN_BAD_ARGUMENT, "'plan' was not made by kiln_paged_plan_make");
    const struct {
        const char *what;
        int64_t planned, given;
    } options[] = {
        { "causal", plan->is_causal, a->causal || a->window },
        { "window", plan->window, a->window },
        { "q_offsets", plan->has_offsets, a->q_offsets != NULL },
        { "eight_bit", plan->is_eight_bit, a->k && a->k->type == KILN_E4M3 },
    };
    for (int i = 0; i < COUNT(options); i++)
        if (options[i].planned != options[i].given)
            return call_fail(call, KILN_BAD_ARGUMENT, "'plan' was made for another '%s' than this call's",
                             options[i].what);
    if (a->splits)
        return call_fail(call, KILN_BAD_ARGUMENT, "'splits' is %" PRId64 ", expected 0 with a plan", a->splits);
    call_bind(call, "B", plan->requests, "plan");
    call_bind(call, "TQ", plan->rows, "plan");
    call_bind(call, "H", plan->heads, "plan");
    call_bind(call, "HKV", plan->key_heads, "plan");
    call_bind(call, "D", plan->size, "plan");
    call_bind(call, "DV", plan->value_size, "plan");
    return KILN_OK;
}

// ---- a call

static kiln_status check_attention(Call *call, const kiln_paged_attention_args *a, const kiln_tensor *tiles,
                                   const kiln_tensor *parts, double *scale)
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
        { IN,           "plan",      tiles,        1 << KILN_I32, "[tiles][8]" },
        { IN,           "plan",      parts,        1 << KILN_I32, "[parts]" },
    };
    // clang-format on
    kiln_status status =
        call_check(call, wants, tiles ? COUNT(wants) : COUNT(wants) - 2, "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = attention_options(call, a->window, a->scale, scale);
    if (!status) status = attention_has_heads(call);
    if (!status) status = check_page(call, call_extent(call, "page size"), "the page size (dimension 1 of 'k')");
    if (!status) status = check_rows(call, "q", a->q_offsets);
    if (!status) status = check_count(call, "max_queries", a->max_queries, INT32_MAX);
    if (!status) status = check_count(call, "max_keys", a->max_keys, INT64_MAX);
    if (!status) status = check_count(call, "splits", a->splits, SPLITS_MAX);
    if (!status) status = attention_softcap(call, a->softcap);
    return status;
}

static kiln_status find_attention(Call *call, const kiln_paged_attention_args *a, const Tiles *t)
{
    return call_kernel(call, a->plan ? "attention/paged_plan.tile" : "attention/paged.tile",
                       a->plan ? "paged_planned" : "paged_attention",
                       "T=%s, C=%s, D=%d, DV=%d, G=%d, PS=%d, CAUSAL=%s, WINDOW=%d, CAP=%s%s, BM=%d, BN=%d%s%s%s%s%s%s",
                       kiln_type_name(a->q->type), kiln_type_name(a->k->type), (int)call_extent(call, "D"),
                       (int)call_extent(call, "DV"), (int)(call_extent(call, "H") / call_extent(call, "HKV")),
                       (int)call_extent(call, "page size"), yes(a->causal || a->window), (int)a->window,
                       yes(a->softcap > 0),
                       a->plan   ? ""
                       : t->many ? ", MANY=true"
                                 : ", MANY=false",
                       t->rows, t->keys, a->q_offsets ? "" : ", QOffset=none", a->slopes ? "" : ", SLOPE=none",
                       a->sinks ? "" : ", SINK=none", a->k_scales ? "" : ", KSCALE=none",
                       a->v_scales ? "" : ", VSCALE=none", a->lse ? "" : ", LSE=none");
}

static kiln_status prepare_attention(Call *call, const void *args)
{
    const kiln_paged_attention_args *const a = args;
    double scale;
    Plan plan;
    kiln_tensor tiles, parts;
    if (a->plan) {
        const kiln_status status = take_plan(call, a, &plan);
        if (status) return status;
        tiles = rows_of_plan(&plan), parts = parts_of_plan(&plan);
    }
    const kiln_status status = check_attention(call, a, a->plan ? call_keep(call, &tiles) : NULL,
                                               a->plan ? call_keep(call, &parts) : NULL, &scale);
    if (status) return status;
    const Tiles t =
        a->plan ? (Tiles){ (int)plan.tile_rows, (int)plan.tile_keys, plan.has_many } : choose_tiles(call, a);
    const kiln_status built = find_attention(call, a, &t);
    if (built) return built;
    if (!a->plan) call_add(call, KILN_INT(a->splits ? a->splits : choose_splits(call, a, &t)));
    call_add(call, KILN_FLOAT(scale));
    call_add(call, KILN_FLOAT(a->softcap > 0 ? a->softcap : 1));
    return KILN_OK;
}

// Offsets, and the pages that are used.
static kiln_status look(Call *call, kiln_stream *stream, const void *args)
{
    static const char file[] = "attention/inputs.tile";
    static const Taken taken[] = { { TABLE, "TABLE" }, { LENGTHS, "LENGTH" }, { OFFSETS, "OFFSET" } };
    const kiln_paged_attention_args *const a = args;
    kiln_kernel *used, *ordered = NULL;
    kiln_status status = call_taking_kernel(call, file, "attention_pages", taken, 3, &used, "%s", "");
    if (!status && a->q_offsets)
        status = call_taking_kernel(call, file, "attention_offsets", taken + 2, 1, &ordered, "%s", "");
    if (status || call->sizing) return status;
    const int64_t TQ = call_extent(call, "TQ");
    const kiln_arg offsets[] = { call_tensor(call, OFFSETS), KILN_INT(TQ),
                                 KILN_INT(most_queries(call, a->q_offsets, a->max_queries)) };
    const kiln_arg pages[] = { call_tensor(call, TABLE),
                               call_tensor(call, LENGTHS),
                               call_tensor(call, OFFSETS),
                               KILN_INT(TQ),
                               KILN_INT(call_extent(call, "pages")),
                               KILN_INT(call_extent(call, "page size")),
                               KILN_INT(a->window) };
    if (ordered) status = call_launch(call, stream, ordered, offsets, COUNT(offsets));
    return status ? status : call_launch(call, stream, used, pages, COUNT(pages));
}

static const CallPair paged_attention = { .name = "kiln_paged_attention",
                                          .size_name = "kiln_paged_attention_workspace_size",
                                          .prepare = prepare_attention,
                                          .look = look };

kiln_status kiln_paged_attention_workspace_size(kiln_ops *ops, const kiln_paged_attention_args *a, size_t *bytes)
{
    return pair_size(&paged_attention, ops, a, FORM(kiln_paged_attention_args), bytes);
}

kiln_status kiln_paged_attention(kiln_ops *ops, kiln_stream *stream, const kiln_paged_attention_args *a)
{
    return pair_run(&paged_attention, ops, stream, a, FORM(kiln_paged_attention_args));
}

// ---- new tokens

kiln_status kiln_paged_slots(kiln_ops *ops, kiln_stream *stream, const kiln_paged_slots_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_paged_slots", ops, a, FORM(kiln_paged_slots_args));
    if (call_again(&call, stream, &status)) return status;
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
    return status ? status
                  : rotary_take_positions(call, a->rotary, call_extent(call, "D"), a->trained_length, false, r);
}

kiln_status kiln_paged_append(kiln_ops *ops, kiln_stream *stream, const kiln_paged_append_args *a)
{
    Call call;
    Rotary r;
    kiln_status status = call_begin(&call, "kiln_paged_append", ops, a, FORM(kiln_paged_append_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_append(&call, a, &r);
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
