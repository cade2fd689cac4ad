// SPDX-License-Identifier: MIT
// mla.c - the operators of kiln/ops/mla.h over kernels/mla: plan, dense and sparse decoding, sparse prefill.
#include "kiln/ops/mla.h"
#include "ops/mla_format.h"

#include <inttypes.h>
#include <math.h>

enum {
    COUNT_MAX = 1 << 24, // of everything in a shape
    TILE_ROWS = 64,      // query rows of an instance on a GPU
    TILE_ROWS_CPU = 16,
    FEW_ROWS = 512, // of all requests
};

static const int64_t ROWS_MAX = INT64_C(1) << 50; // of results

// ---- shapes

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

static int64_t tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

// Instances over the fp8 cache that make a cluster and share what they dequantise: of a step's query rows.
static int tile_pair(int64_t rows) { return rows > TILE_ROWS ? 2 : 1; }

// How a step's query rows are cut over the fp8 cache, as bindings: a text and the number after it. On the CPU one tile takes
// as many rows as it can, because each dequantises for itself; of a GPU's tiles the kernels know the size.
static const char *fp8_cut(const kiln_ops *ops, int64_t rows, int *number)
{
    const int tile = rows > 112 ? 128 : rows > 16 ? (int)(rows + 31) / 32 * 32 : 16;
    *number = ops_on_cpu(ops) ? tile : tile_pair(rows);
    return ops_on_cpu(ops) ? "PAIR=1, BM=" : "PAIR=";
}

// As many partitions as run at once beside the other dimensions of the grid; on the CPU one to four for each thread.
static int64_t choose_partitions(const kiln_ops *ops, const kiln_mla_shape *s)
{
    const int64_t processors = ops_processors(ops), rows = s->queries * (s->query_heads / s->key_heads);
    const int64_t pair = tile_pair(s->query_heads);
    if (ops_on_cpu(ops)) {
        const int64_t beside = s->topk ? s->queries : tiles_of(rows, TILE_ROWS_CPU) * s->key_heads;
        return 4 * processors / at_least_one(beside) > processors ? 4 * processors / at_least_one(beside) : processors;
    }
    if (s->topk)
        return at_least_one(processors / pair / at_least_one(tiles_of(s->query_heads, TILE_ROWS * pair) * s->queries));
    return at_least_one(processors / s->key_heads / at_least_one(tiles_of(rows, TILE_ROWS)));
}

static kiln_status check_shape(const Call *call, const kiln_mla_shape *given, kiln_mla_shape *shape)
{
    const struct {
        const char *name;
        int64_t value, least;
    } fields[] = {
        { "batch", given->batch, 0 },
        { "queries", given->queries, 0 },
        { "query_heads", given->query_heads, 1 },
        { "key_heads", given->key_heads, 0 },
        { "topk", given->topk, 0 },
        { "extra_topk", given->extra_topk, 0 },
        { "partitions", given->partitions, 0 },
    };
    for (int i = 0; i < COUNT(fields); i++)
        if (fields[i].value < fields[i].least || fields[i].value > COUNT_MAX)
            return call_fail(call, KILN_BAD_SHAPE, "'%s' of the shape is %" PRId64 ", expected %" PRId64 " to %d",
                             fields[i].name, fields[i].value, fields[i].least, COUNT_MAX);
    *shape = *given;
    if (!shape->key_heads) shape->key_heads = 1;
    if (shape->query_heads % shape->key_heads != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "%" PRId64 " query heads of the shape are not a multiple of its %" PRId64 " key heads",
                         shape->query_heads, shape->key_heads);
    if (shape->extra_topk && !shape->topk)
        return call_fail(call, KILN_BAD_SHAPE, "'extra_topk' of the shape is %" PRId64 ", but its 'topk' is 0",
                         shape->extra_topk);
    if (shape->topk && shape->key_heads != 1)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'key_heads' of the shape is %" PRId64 ", expected 1 where 'topk' is given", shape->key_heads);
    if (!shape->partitions) shape->partitions = choose_partitions(call->ops, shape);
    return KILN_OK;
}

// ---- plans

// The memory of a plan: parts, firsts, and what lists count for in a sparse one.
static size_t plan_bytes(const kiln_mla_shape *s)
{
    return plan_room(s->partitions * 8) + plan_room(s->batch + 1) + (s->topk ? plan_room(s->batch) : 0);
}

// What kiln_mla_plan holds. The device's part: parts i32 [partitions][8], firsts i32 [batch + 1], the splits of the requests
// before.
typedef struct Plan {
    uint64_t mark; // of the rest, so that what was not made here is not taken for a plan
    kiln_mla_shape shape;
    kiln_device *device;
    char *memory;
} Plan;
static_assert(sizeof(Plan) <= sizeof(kiln_mla_plan), "a plan has room for it");

static kiln_tensor parts_of(const Plan *plan)
{
    return kiln_tensor_of(plan->device, plan->memory, KILN_I32, 2, (int64_t[]){ plan->shape.partitions, 8 });
}

static kiln_tensor firsts_of(const Plan *plan)
{
    return kiln_tensor_of(plan->device, plan->memory + plan_room(plan->shape.partitions * 8), KILN_I32, 1,
                          (int64_t[]){ plan->shape.batch + 1 });
}

static kiln_tensor counts_of(const Plan *plan)
{
    return kiln_tensor_of(plan->device,
                          plan->memory + plan_room(plan->shape.partitions * 8) + plan_room(plan->shape.batch + 1),
                          KILN_I32, 1, (int64_t[]){ plan->shape.batch });
}

// A plan that was made here; false: it is none.
static bool open_plan(const kiln_mla_plan *given, Plan *plan)
{
    memcpy(plan, given, sizeof *plan);
    return plan->mark == plan_mark(plan, sizeof *plan);
}

static void close_plan(Plan *plan, kiln_mla_plan *to)
{
    *to = (kiln_mla_plan){ 0 };
    plan->mark = plan_mark(plan, sizeof *plan);
    memcpy(to, plan, sizeof *plan);
}

kiln_status kiln_mla_plan_shape(const kiln_mla_plan *given, kiln_mla_shape *shape)
{
    static const char name[] = "kiln_mla_plan_shape";
    Plan plan;
    if (!given || !shape) return status_fail(KILN_BAD_ARGUMENT, "%s: '%s' is null", name, given ? "shape" : "plan");
    if (!open_plan(given, &plan))
        return status_fail(KILN_BAD_ARGUMENT, "%s: 'plan' was not made by kiln_mla_plan_make", name);
    *shape = plan.shape;
    return KILN_OK;
}

// Of functions that take a shape for their arguments. Their messages name them whole: they are no call's.
static kiln_status begin_with_shape(Call *call, const char *name, kiln_ops *ops, const kiln_mla_shape *given,
                                    size_t *bytes, kiln_mla_shape *shape)
{
    const kiln_mla_shape none = { 0 };
    const kiln_status status = call_begin_sizing(call, name, ops, given ? given : &none, NULL, bytes);
    call->sizing = false;
    if (!status && !given) return call_fail(call, KILN_BAD_ARGUMENT, "'shape' is null");
    return status ? status : check_shape(call, given, shape);
}

kiln_status kiln_mla_plan_size(kiln_ops *ops, const kiln_mla_shape *given, size_t *bytes)
{
    Call call;
    kiln_mla_shape shape;
    const kiln_status status = begin_with_shape(&call, "kiln_mla_plan_size", ops, given, bytes, &shape);
    if (!status) *bytes = plan_bytes(&shape);
    return status;
}

// Partial results and their sums, of the requests as a whole and of what partitions begin with.
kiln_status kiln_mla_workspace_size(kiln_ops *ops, const kiln_mla_shape *given, size_t *bytes)
{
    Call call;
    kiln_mla_shape shape;
    const kiln_status status = begin_with_shape(&call, "kiln_mla_workspace_size", ops, given, bytes, &shape);
    if (status) return status;
    const int64_t rows_of_a_head = (shape.batch + shape.partitions) * shape.queries;
    if (rows_of_a_head > ROWS_MAX / shape.query_heads)
        return call_fail(&call, KILN_BAD_SHAPE,
                         "the shape has %" PRId64 " requests and partitions of %" PRId64 " queries and %" PRId64
                         " heads, which is more than memory can hold",
                         shape.batch + shape.partitions, shape.queries, shape.query_heads);
    const int64_t rows = rows_of_a_head * shape.query_heads;
    *bytes = plan_room(rows * KILN_MLA_VALUE) + plan_room(rows);
    return KILN_OK;
}

static kiln_status check_plan(Call *call, const kiln_mla_plan_args *a, const kiln_mla_shape *shape)
{
    const bool sparse = shape->topk > 0;
    // clang-format off
    const Want wants[] = {
        { sparse ? IN_OPTIONAL : IN, "lengths",            a->lengths,            1 << KILN_I32, "LENGTH[batch]" },
        { IN_OPTIONAL,               "topk_lengths",       a->topk_lengths,       1 << KILN_I32, "LIMIT[batch]" },
        { IN_OPTIONAL,               "extra_topk_lengths", a->extra_topk_lengths, 1 << KILN_I32, "LIMIT2[batch]" },
    };
    // clang-format on
    if (!a->memory) return call_fail(call, KILN_BAD_ARGUMENT, "'memory' is null");
    if ((a->topk_lengths && !sparse) || (a->extra_topk_lengths && !shape->extra_topk))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but the shape has no such lists",
                         a->topk_lengths && !sparse ? "topk_lengths" : "extra_topk_lengths");
    call_bind(call, "batch", shape->batch, "shape");
    const kiln_status status = call_check(call, wants, COUNT(wants), "memory", a->memory, a->memory_bytes);
    if (!status && a->memory_bytes < plan_bytes(shape))
        return call_fail(call, KILN_BAD_ARGUMENT, "'memory' has %zu bytes, expected %zu (kiln_mla_plan_size)",
                         a->memory_bytes, plan_bytes(shape));
    return status;
}

// What the plan is made from: the lengths given, or what the lists count for, left in `counts`.
static kiln_status count_lists(const Call *call, kiln_stream *stream, const kiln_mla_shape *shape,
                               const kiln_tensor *counts)
{
    kiln_kernel *kernel;
    const kiln_status status = call_taking_kernel(call, "mla/decode_fp8.tile", "mla_sparse_lengths",
                                                  (Taken[]){ { 1, "LIMIT" }, { 2, "LIMIT2" } }, 2, &kernel, "%s", "");
    const kiln_arg args[] = { call_tensor(call, 1), call_tensor(call, 2), KILN_TENSOR(counts), KILN_INT(shape->topk),
                              KILN_INT(shape->extra_topk) };
    return status ? status : call_launch(call, stream, kernel, args, COUNT(args));
}

// Of all requests' lists, as the plan counts them: in 64 slots.
static int64_t blocks_of_lists(const kiln_mla_shape *s)
{
    return s->batch * (tiles_of(s->topk, 64) + tiles_of(s->extra_topk, 64));
}

// With one tile of rows memory bounds, and other instances use its time. Of lists 1 where that leaves two blocks to a
// partition: where blocks are that few, a third one costs more than another piece to add up, and a single one less.
int mla_request_cost(const kiln_mla_shape *s)
{
    if (s->topk) return tiles_of(blocks_of_lists(s) + s->batch, s->partitions) == 2 ? 1 : 5;
    return s->queries * (s->query_heads / s->key_heads) > TILE_ROWS ? 6 : 4;
}

// How much more a partition may cost where requests stay whole, whose pieces need not be added up: of few rows that takes less.
// -1: lists are cut as before.
int mla_whole_slack(const kiln_mla_shape *s)
{
    if (s->topk) return -1;
    return s->queries * (s->query_heads / s->key_heads) >= TILE_ROWS ? 4 : 1;
}

kiln_status kiln_mla_plan_make(kiln_ops *ops, kiln_stream *stream, const kiln_mla_plan_args *a, kiln_mla_plan *plan)
{
    Call call;
    kiln_mla_shape shape = { 0 };
    kiln_kernel *kernel;
    kiln_status status = call_begin(&call, "kiln_mla_plan_make", ops, a, FORM(kiln_mla_plan_args));
    if (!status && (!plan || !a->shape))
        status = call_fail(&call, KILN_BAD_ARGUMENT, "'%s' is null", plan ? "shape" : "plan");
    if (!status) status = check_shape(&call, a->shape, &shape);
    if (!status) status = check_plan(&call, a, &shape);
    if (status) return status;
    const bool full = shape.topk && !shape.extra_topk && !a->topk_lengths; // every list counts for the same
    status = call_taking_kernel(&call, "mla/plan.tile", "mla_plan", &(Taken){ 0, "LENGTH" }, shape.topk ? 0 : 1,
                                &kernel, "SPARSE=%s, STEP=%d, FIXED=%d, SLACK=%d", full ? "true" : "false",
                                shape.topk ? 1 : 2, mla_request_cost(&shape), mla_whole_slack(&shape));
    if (status) return status;
    Plan made = { .shape = shape, .device = ops->device, .memory = a->memory };
    const kiln_tensor parts = parts_of(&made), firsts = firsts_of(&made), counts = counts_of(&made);
    const kiln_arg args[] = { shape.topk ? KILN_TENSOR(&counts) : call_tensor(&call, 0), KILN_TENSOR(&parts),
                              KILN_TENSOR(&firsts), KILN_INT(shape.topk) };
    if (shape.topk && !full) status = count_lists(&call, stream, &shape, &counts);
    if (!status) status = call_launch(&call, stream, kernel, args, COUNT(args));
    if (!status) close_plan(&made, plan);
    return status;
}

// A plan as a call takes it.
typedef struct TakenPlan {
    kiln_mla_shape shape;
    const kiln_tensor *parts, *firsts;
} TakenPlan;

// That a plan is one, of this kind; binds the names of its shape.
static kiln_status take_plan(Call *call, const kiln_mla_plan *given, bool sparse, TakenPlan *taken)
{
    Plan plan;
    if (!given) return call_fail(call, KILN_BAD_ARGUMENT, "'plan' is null");
    if (!open_plan(given, &plan))
        return call_fail(call, KILN_BAD_ARGUMENT, "'plan' was not made by kiln_mla_plan_make");
    const kiln_mla_shape *const s = &plan.shape;
    if (sparse != (s->topk > 0))
        return call_fail(call, KILN_BAD_ARGUMENT,
                         sparse ? "'plan' is for dense decoding: its shape has no 'topk'"
                                : "'plan' is for sparse decoding: its shape has 'topk' = %" PRId64,
                         s->topk);
    const kiln_tensor parts = parts_of(&plan), firsts = firsts_of(&plan);
    *taken = (TakenPlan){ *s, call_keep(call, &parts), call_keep(call, &firsts) };
    call_bind(call, "partitions", s->partitions, "plan");
    call_bind(call, "batch", s->batch, "plan");
    call_bind(call, "queries", s->queries, "plan");
    call_bind(call, "query_heads", s->query_heads, "plan");
    call_bind(call, "key_heads", s->key_heads, "plan");
    call_bind(call, "topk", s->topk, "plan");
    call_bind(call, "extra_topk", s->extra_topk, "plan");
    return KILN_OK;
}

// ---- dense

static bool is_bytes(const kiln_tensor *cache)
{
    return cache && (unsigned)cache->type <= KILN_BOOL && TYPES_BYTES >> cache->type & 1;
}

static kiln_status check_page_size(const Call *call, bool bytes)
{
    const int64_t size = call_extent(call, "page size");
    if (bytes)
        return size >= 1 ? KILN_OK
                         : call_fail(call, KILN_BAD_SHAPE,
                                     "the page size (dimension 1 of 'cache') is 0, expected at "
                                     "least 1");
    return size >= 16 && size <= 256 && (size & (size - 1)) == 0
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "the page size (dimension 1 of 'cache') is %" PRId64 ", expected 16, 32, 64, 128 or "
                           "256",
                           size);
}

// Partial results of few rows are of 16 bits, where to write and to read them again is much of the time. More of them take no
// longer in f32, nor do those of fewer heads than a tile has.
static const char *partial_type(const kiln_ops *ops, const kiln_mla_shape *s)
{
    const int64_t rows = s->queries * s->query_heads;
    return !ops_on_cpu(ops) && rows >= TILE_ROWS && s->batch * rows <= FEW_ROWS ? ", PT=f16" : "";
}

static kiln_status build_dense(Call *call, const kiln_mla_decode_args *a, const kiln_mla_shape *shape)
{
    const char *const causal = a->causal && shape->queries > 1 ? "true" : "false"; // one query sees all keys either way
    int number;
    const char *const cut = fp8_cut(call->ops, shape->queries * shape->query_heads, &number);
    if (is_bytes(a->cache))
        return call_kernel(call, "mla/decode_dense_fp8.tile", "mla_decode_dense_fp8",
                           "CAUSAL=%s, ROUND_SCALE=%s, %s%d%s", causal, a->round_scales ? "true" : "false", cut, number,
                           LACKS(a->lse, "LSE"));
    return call_kernel(call, "mla/decode.tile", "mla_decode_dense", "T=%s, CAUSAL=%s, PS=%d%s%s",
                       kiln_type_name(a->q->type), causal, (int)call_extent(call, "page size"),
                       a->q->type == KILN_BF16 ? partial_type(call->ops, shape) : "", LACKS(a->lse, "LSE"));
}

// The 584-byte format is for sparse decoding alone.
static kiln_status check_dense_format(const Call *call, const kiln_tensor *cache)
{
    return cache->rank < 1 || cache->rank > KILN_MAX_RANK || cache->shape[cache->rank - 1] != KILN_MLA_FP8_SHORT_BYTES
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "the format of 'cache' is not supported here: %d bytes a token (dimension %d), expected %d",
                           KILN_MLA_FP8_SHORT_BYTES, cache->rank - 1, KILN_MLA_FP8_BYTES);
}

static kiln_status prepare_dense(Call *call, const void *args)
{
    const kiln_mla_decode_args *const a = args;
    const bool bytes = is_bytes(a->cache);
    LatentCache fp8 = { 0 };
    double scale;
    TakenPlan plan;
    kiln_status status = take_plan(call, a->plan, false, &plan);
    if (!status && bytes) status = check_dense_format(call, a->cache);
    if (!status && bytes) status = latent_cache(call, "cache", a->cache, KILN_MLA_KEY, "q", false, &fp8);
    if (!status && bytes && plan.shape.key_heads != 1)
        status = call_fail(call, KILN_BAD_SHAPE, "'plan' has key_heads = %" PRId64 ", expected 1 with an fp8 cache",
                           plan.shape.key_heads);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "q",           a->q,             bytes ? 1 << KILN_BF16 : TYPES_16, "Q[batch][queries][query_heads][576]" },
        { IN,           "cache",       bytes ? fp8.tokens : a->cache, bytes ? TYPES_BYTES : 0,
                                                bytes ? "CACHE[pages][page size][656]" : "CACHE[pages][page size][key_heads][576]" },
        { IN,           "table",       a->table,         1 << KILN_I32, "TABLE[batch][pages per request]" },
        { IN,           "lengths",     a->lengths,       1 << KILN_I32, "LENGTH[batch]" },
        { IN,           "plan",        plan.parts,       1 << KILN_I32, "[partitions][8]" },
        { IN,           "plan",        plan.firsts,      1 << KILN_I32, "[batch + 1]" },
        { OUT,          "out",         a->out,           0,             "O[batch][queries][query_heads][512]" },
        { OUT_OPTIONAL, "lse", a->lse,          1 << KILN_F32, "[batch][query_heads][queries]" },
    };
    // clang-format on
    status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_page_size(call, bytes);
    if (!status) status = call_scale(call, a->scale, 1 / sqrt(KILN_MLA_KEY), &scale);
    if (!status && bytes) call_take_bytes(call, 1);
    if (!status) status = build_dense(call, a, &plan.shape);
    if (!status) call_add(call, KILN_FLOAT(scale));
    return status;
}

// The pages that are used, and whether the plan is for these lengths.
static kiln_status look(Call *call, kiln_stream *stream, const void *args)
{
    static const char file[] = "mla/inputs.tile";
    static const Taken taken[] = { { 2, "TABLE" }, { 3, "LENGTH" } };
    kiln_kernel *used, *reaches;
    kiln_status status = call_taking_kernel(call, file, "mla_pages", taken, 2, &used, "%s", "");
    if (!status) status = call_taking_kernel(call, file, "mla_plan_reaches", taken + 1, 1, &reaches, "%s", "");
    if (status || call->sizing) return status;
    const kiln_arg pages[] = { call->args[2], call->args[3], KILN_INT(call_extent(call, "pages")),
                               KILN_INT(call_extent(call, "page size")) };
    const kiln_arg plan[] = { call->args[3], call->args[4] };
    status = call_launch(call, stream, used, pages, COUNT(pages));
    return status ? status : call_launch(call, stream, reaches, plan, COUNT(plan));
}

static const CallPair mla_decode = {
    .name = "kiln_mla_decode", .size_name = "kiln_mla_decode_workspace_size", .prepare = prepare_dense, .look = look
};

kiln_status kiln_mla_decode_workspace_size(kiln_ops *ops, const kiln_mla_decode_args *a, size_t *bytes)
{
    return pair_size(&mla_decode, ops, a, FORM(kiln_mla_decode_args), bytes);
}

kiln_status kiln_mla_decode(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_args *a)
{
    return pair_run(&mla_decode, ops, stream, a, FORM(kiln_mla_decode_args));
}

// ---- sparse

// Places in the table of the call, whose order is that of the kernel's parameters.
enum { Q, CACHE, SCALES, INDEX, LIMIT, SINK, CACHE2, SCALES2, INDEX2, LIMIT2, PARTS, FIRSTS, OUTPUT, LSE };

static kiln_status check_extra(const Call *call, const kiln_mla_decode_sparse_args *a, const kiln_mla_shape *shape)
{
    const bool planned = shape->extra_topk > 0;
    if (!a->extra_cache != !a->extra_indices || (a->extra_topk_lengths && !a->extra_cache))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null, but '%s' is given",
                         a->extra_cache ? "extra_indices" : "extra_cache",
                         a->extra_cache     ? "extra_cache"
                         : a->extra_indices ? "extra_indices"
                                            : "extra_topk_lengths");
    if (planned != (a->extra_cache != NULL))
        return call_fail(call, KILN_BAD_ARGUMENT,
                         planned ? "'extra_cache' is null, but 'plan' has extra_topk = %" PRId64
                                 : "'extra_cache' is given, but 'plan' has extra_topk = %" PRId64,
                         shape->extra_topk);
    return KILN_OK;
}

// Whether there are twice as many multiprocessors as instances with work: then two share what they dequantise, and make half
// of O's columns each.
static bool takes_halves(const kiln_ops *ops, const kiln_mla_shape *s)
{
    const int64_t blocks = blocks_of_lists(s), cost = mla_request_cost(s);
    const int64_t part = at_least_one(tiles_of(blocks + s->batch * cost, s->partitions));
    const int64_t pieces = s->batch * tiles_of(tiles_of(s->topk, 64) + tiles_of(s->extra_topk, 64), part);
    const double tiles = (double)s->queries * (double)tiles_of(s->query_heads, TILE_ROWS);
    return !ops_on_cpu(ops) && 2 * (double)pieces * tiles <= (double)ops_processors(ops);
}

static kiln_status build_sparse(Call *call, const kiln_mla_decode_sparse_args *a, const kiln_mla_shape *shape,
                                int64_t keys)
{
    int number = 2;
    const char *const cut =
        takes_halves(call->ops, shape) ? "PAIR=1, HALVES=" : fp8_cut(call->ops, shape->query_heads, &number);
    // Scales of the 584-byte format are as exact in bf16: one kernel for both.
    return call_kernel(
        call, "mla/decode_fp8.tile", "mla_decode_fp8", "%s%d, D=%d, ROUND_SCALE=%s%s%-s%-s%-s%-s%-s%-s%-s", cut, number,
        (int)keys, a->round_scales && keys == KILN_MLA_KEY ? "true" : "false", partial_type(call->ops, shape),
        keys == KILN_MLA_KEY ? ", SCALES=none" : "", a->extra_cache && keys != KILN_MLA_KEY ? "" : ", SCALES2=none",
        LACKS(a->topk_lengths, "LIMIT"), LACKS(a->sink, "SINK"), LACKS(a->extra_cache, "CACHE2=none, INDEX2"),
        LACKS(a->extra_topk_lengths, "LIMIT2"), LACKS(a->lse, "LSE"));
}

static kiln_status prepare_sparse(Call *call, const void *args)
{
    const kiln_mla_decode_sparse_args *const a = args;
    double scale;
    int64_t keys;
    LatentCache cache, extra;
    TakenPlan plan;
    kiln_status status = take_plan(call, a->plan, true, &plan);
    if (!status) status = check_extra(call, a, &plan.shape);
    if (!status) status = latent_keys(call, "q", a->q, 4, &keys);
    if (!status) status = latent_cache(call, "cache", a->cache, keys, "q", false, &cache);
    if (!status) status = latent_cache(call, "extra_cache", a->extra_cache, keys, "q", false, &extra);
    if (status) return status;
    const char *const shape =
        keys == KILN_MLA_KEY ? "Q[batch][queries][query_heads][576]" : "Q[batch][queries][query_heads][512]";
    // clang-format off
    const Want wants[] = {
        [Q]       = { IN,           "q",                  a->q,                  1 << KILN_BF16, shape },
        [CACHE]   = { IN,           "cache",              cache.tokens,          TYPES_BYTES,    latent_shape(keys, false) },
        [SCALES]  = { IN_OPTIONAL,  "cache",              cache.scales,          1 << KILN_U8,   "[rows][8]" },
        [INDEX]   = { IN,           "indices",            a->indices,            1 << KILN_I32,  "INDEX[batch][queries][topk]" },
        [LIMIT]   = { IN_OPTIONAL,  "topk_lengths",       a->topk_lengths,       1 << KILN_I32,  "LIMIT[batch]" },
        [SINK]    = { IN_OPTIONAL,  "sink",               a->sink,               1 << KILN_F32,  "[query_heads]" },
        [CACHE2]  = { IN_OPTIONAL,  "extra_cache",        extra.tokens,          TYPES_BYTES,    latent_shape(keys, true) },
        [SCALES2] = { IN_OPTIONAL,  "extra_cache",        extra.scales,          1 << KILN_U8,   "[extra rows][8]" },
        [INDEX2]  = { IN_OPTIONAL,  "extra_indices",      a->extra_indices,      1 << KILN_I32,  "INDEX2[batch][queries][extra_topk]" },
        [LIMIT2]  = { IN_OPTIONAL,  "extra_topk_lengths", a->extra_topk_lengths, 1 << KILN_I32,  "LIMIT2[batch]" },
        [PARTS]   = { IN,           "plan",               plan.parts,            1 << KILN_I32,  "[partitions][8]" },
        [FIRSTS]  = { IN,           "plan",               plan.firsts,           1 << KILN_I32,  "[batch + 1]" },
        [OUTPUT]  = { OUT,          "out",                a->out,                1 << KILN_BF16, "O[batch][queries][query_heads][512]" },
        [LSE]     = { OUT_OPTIONAL, "lse",                a->lse,                1 << KILN_F32,  "[batch][query_heads][queries]" },
    };
    // clang-format on
    status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status && (call_extent(call, "page size") < 1 || (a->extra_cache && call_extent(call, "extra page size") < 1)))
        status = call_fail(call, KILN_BAD_SHAPE, "the page size of '%s' (dimension 1) is 0, expected at least 1",
                           call_extent(call, "page size") < 1 ? "cache" : "extra_cache");
    if (!status) status = call_scale(call, a->scale, 1 / sqrt((double)keys), &scale);
    if (status) return status;
    call_take_bytes(call, CACHE);
    call_take_bytes(call, CACHE2);
    status = build_sparse(call, a, &plan.shape, keys);
    if (status) return status;
    call_add(call, KILN_FLOAT(scale));
    call_add(call, KILN_INT(cache.apart));
    call_add(call, KILN_INT(extra.apart));
    return KILN_OK;
}

// Whether the plan is for lists as long as these.
static kiln_status look_sparse(Call *call, kiln_stream *stream, const void *args)
{
    kiln_kernel *covers;
    const kiln_status status =
        call_taking_kernel(call, "mla/inputs.tile", "mla_plan_covers",
                           (Taken[]){ { LIMIT, "LIMIT" }, { LIMIT2, "LIMIT2" } }, 2, &covers, "%s", "");
    if (status || call->sizing) return status;
    const kiln_arg plan[] = { call->args[LIMIT],
                              call->args[LIMIT2],
                              call->args[PARTS],
                              call->args[FIRSTS],
                              KILN_INT(call_extent(call, "topk")),
                              KILN_INT(call_extent(call, "extra_topk")) };
    return call_launch(call, stream, covers, plan, COUNT(plan));
}

static const CallPair mla_decode_sparse = { .name = "kiln_mla_decode_sparse",
                                            .size_name = "kiln_mla_decode_sparse_workspace_size",
                                            .prepare = prepare_sparse,
                                            .look = look_sparse };

kiln_status kiln_mla_decode_sparse_workspace_size(kiln_ops *ops, const kiln_mla_decode_sparse_args *a, size_t *bytes)
{
    return pair_size(&mla_decode_sparse, ops, a, FORM(kiln_mla_decode_sparse_args), bytes);
}

kiln_status kiln_mla_decode_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_sparse_args *a)
{
    return pair_run(&mla_decode_sparse, ops, stream, a, FORM(kiln_mla_decode_sparse_args));
}

// ---- sparse prefill

kiln_status kiln_mla_prefill_sparse(kiln_ops *ops, kiln_stream *stream, const kiln_mla_prefill_sparse_args *a)
{
    Call call;
    double scale;
    kiln_status status = call_begin(&call, "kiln_mla_prefill_sparse", ops, a, FORM(kiln_mla_prefill_sparse_args));
    if (call_again(&call, stream, &status)) return status;
    const kiln_tensor *const kv = call_without_key_head(&call, a->kv, 2);
    const kiln_tensor *const indices = call_without_key_head(&call, a->indices, 2);
    // clang-format off
    const Want wants[] = {
        { IN,          "q",            a->q,            1 << KILN_BF16, "Q[S][H][D]" },
        { IN,          "kv",           kv,              1 << KILN_BF16, "KV[SKV][D]" },
        { IN,          "indices",      indices,         1 << KILN_I32,  "INDEX[S][topk]" },
        { IN_OPTIONAL, "sink",         a->sink,         1 << KILN_F32,  "[H]" },
        { IN_OPTIONAL,  "topk_lengths", a->topk_lengths, 1 << KILN_I32,  "LIMIT[S]" },
        { IN_OPTIONAL,  "ends",         a->ends,         1 << KILN_I32,  "END[S]" },
        { OUT,          "out",          a->out,          1 << KILN_BF16, "O[S][H][512]" },
        { OUT_OPTIONAL, "max_logits",   a->max_logits,   1 << KILN_F32,  "[S][H]" },
        { OUT_OPTIONAL, "lse",          a->lse,          1 << KILN_F32,  "[S][H]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (status) return status;
    const int64_t D = call_extent(&call, "D");
    if (D != KILN_MLA_KEY && D != KILN_MLA_VALUE)
        return call_fail(&call, KILN_UNSUPPORTED, "the key size (dimension 2 of 'q') is %" PRId64 ", expected %d or %d",
                         D, KILN_MLA_KEY, KILN_MLA_VALUE);
    status = call_scale(&call, a->scale, 1 / sqrt((double)D), &scale);
    if (!status)
        status = call_kernel(&call, "mla/prefill.tile", "mla_prefill_sparse", "D=%d, BASE2=%s%-s%-s%-s%-s%-s", (int)D,
                             a->base2 ? "true" : "false", LACKS(a->sink, "SINK"), LACKS(a->topk_lengths, "LIMIT"),
                             LACKS(a->ends, "END"), LACKS(a->max_logits, "TOP"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(&call, KILN_FLOAT(scale));
    return call_run(&call, stream, NULL, 0);
}
