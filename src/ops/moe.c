// SPDX-License-Identifier: MIT
// moe.c - the operators of kiln/ops/moe.h over kernels/moe.
#include "kiln/ops/moe.h"
#include "ops/call.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
    EXPERTS_MOST = 1024, // of a row of scores, which registers hold
    SORTED_MOST = 4096,
    PER_TOKEN_MOST = 64,
    ALIGNMENT_MOST = 1024,
    FEW_PAIRS = 256, // that one step of the sort takes
    MANY_PAIRS = 2048,
    BLOCK = 128,     // that a scale of e4m3 is for along each dimension
    MXFP4_ROW = 128, // whose codes rows are filled up to a multiple of
    MXFP4_GROUP = 32,
    MXFP4_STEP = 128,   // of codes, as kernels take them
    FP8_ROWS_MOST = 64, // of a tile of gate and up, whose columns are those of a scale
};

static unsigned same_or(const kiln_tensor *first, unsigned types, unsigned others)
{
    const bool is_known = first && (unsigned)first->type <= KILN_BOOL;
    return (is_known ? types & 1U << first->type : types) | others;
}

static kiln_status check_range(const Call *call, const char *name, int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64, name,
                           value, least, most);
}

static kiln_status check_extent(const Call *call, const char *letter, const char *tensor, int64_t least, int64_t most)
{
    const int64_t n = call_extent(call, letter);
    return n >= least && n <= most
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "'%s' has %s = %" PRId64 ", expected %" PRId64 " to %" PRId64,
                           tensor, letter, n, least, most);
}

// Rows are numbered by i32; `name`: the tensor whose rows are the tokens.
static kiln_status check_pairs(const Call *call, const char *name, int64_t tokens, int64_t each)
{
    return each == 0 || tokens <= INT32_MAX / 2 / each
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "'%s' has %" PRId64 " rows of %" PRId64 " experts each, expected fewer than 2^30 of both",
                           name, tokens, each);
}

static kiln_status check_rows(const Call *call, int64_t rows)
{
    return rows <= INT32_MAX / 2
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "'a' has %" PRId64 " rows, expected fewer than 2^30", rows);
}

// ---- routing

typedef struct Routing {
    int groups, top_groups, group_scores;
    bool sigmoid, renormalise;
    double scale;
} Routing;

// `each` experts of a token are what `name` says: a tensor's K, or a number.
static kiln_status take_routing(const Call *call, const kiln_moe_routing *given, int64_t experts, int64_t each,
                                const char *name, Routing *r)
{
    const kiln_moe_routing otherwise = { 0 }, *const from = given ? given : &otherwise;
    const int64_t groups = from->groups ? from->groups : 1, top = from->top_groups ? from->top_groups : groups;
    const int64_t scores = from->group_scores ? from->group_scores : 2;
    kiln_status status = check_range(call, "groups", groups, 1, experts);
    if (!status && experts % groups != 0)
        status = call_fail(call, KILN_BAD_ARGUMENT,
                           "'groups' is %" PRId64 ", which does not divide %" PRId64 " experts", groups, experts);
    if (!status) status = check_range(call, "top_groups", top, 1, groups);
    if (!status) status = check_range(call, "group_scores", scores, 1, 2);
    if (!status && groups > 1 && scores > experts / groups)
        status = call_fail(call, KILN_BAD_ARGUMENT, "'group_scores' is 2, but groups have one expert");
    const int64_t open = groups > 1 ? top * (experts / groups) : experts;
    if (!status && (each < 1 || each > open || each > PER_TOKEN_MOST))
        status = call_fail(call, KILN_BAD_ARGUMENT, "%s %" PRId64 ", expected 1 to %" PRId64, name, each,
                           open < PER_TOKEN_MOST ? open : PER_TOKEN_MOST);
    if (!status) status = call_scale(call, from->scale, 1, &r->scale);
    r->groups = (int)groups, r->top_groups = (int)top, r->group_scores = (int)scores;
    r->sigmoid = from->sigmoid, r->renormalise = from->renormalise;
    return status;
}

kiln_status kiln_moe_route(kiln_ops *ops, kiln_stream *stream, const kiln_moe_route_args *a)
{
    Call call;
    Routing r;
    kiln_status status = call_begin(&call, "kiln_moe_route", ops, a, FORM(kiln_moe_route_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "logits", a->logits, TYPES_FLOAT, "[M][E]" },
                           { IN_OPTIONAL, "correction", a->correction, 1 << KILN_F32, "[E]" },
                           { OUT, "experts", a->experts, 1 << KILN_I32, "[M][K]" },
                           { OUT, "weights", a->weights, 1 << KILN_F32, "[M][K]" } };
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_extent(&call, "E", "logits", 1, EXPERTS_MOST);
    if (!status)
        status =
            take_routing(&call, a->routing, call_extent(&call, "E"), call_extent(&call, "K"), "'experts' has K =", &r);
    if (!status)
        status = call_kernel(&call, "moe/route.tile", "moe_route",
                             "T=%s, E=%d, KK=%d, SIGMOID=%s, NORM=%s, GROUPS=%d, TOPG=%d, GTOP=%d%s",
                             kiln_type_name(a->logits->type), (int)call_extent(&call, "E"),
                             (int)call_extent(&call, "K"), yes(r.sigmoid), yes(r.renormalise), r.groups, r.top_groups,
                             r.group_scores, LACKS(a->correction, "BIAS"));
    if (status) return status;
    call_add(&call, KILN_FLOAT(r.scale));
    return call_run(&call, stream, NULL, 0);
}

// ---- permutation

static int pairs_of_step(int64_t pairs) { return pairs <= FEW_PAIRS ? FEW_PAIRS : MANY_PAIRS; }

static kiln_status check_permute(Call *call, const kiln_moe_permute_args *a)
{
    // clang-format off
    const Want wants[] = {
        { IN,           "experts", a->experts, 1 << KILN_I32, "[M][K]" },
        { IN_OPTIONAL,  "x",       a->x,       TYPES_FLOAT,   "X[M][N]" },
        { OUT,          "tokens",  a->tokens,  1 << KILN_I32, "[R]" },
        { OUT,          "places",  a->places,  1 << KILN_I32, "[M][K]" },
        { OUT,          "offsets", a->offsets, 1 << KILN_I32, "[E + 1]" },
        { OUT_OPTIONAL, "rows",    a->rows,    same_or(a->x, TYPES_FLOAT, 0), "Y[R][N]" },
    };
    // clang-format on
    const int64_t alignment = a->alignment ? a->alignment : 1;
    kiln_status status = call_check(call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_extent(call, "E", "offsets", 1, SORTED_MOST);
    if (!status) status = check_range(call, "alignment", alignment, 1, ALIGNMENT_MOST);
    if (!status) status = check_pairs(call, "experts", call_extent(call, "M"), call_extent(call, "K"));
    if (!status && !a->x != !a->rows)
        status = call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but '%s' is null", a->x ? "x" : "rows",
                           a->x ? "rows" : "x");
    if (status) return status;
    const int64_t least = call_extent(call, "M") * call_extent(call, "K") + call_extent(call, "E") * (alignment - 1);
    return call_extent(call, "R") >= least
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "dimension 0 of 'tokens' is %" PRId64 ", expected at least %" PRId64,
                           call_extent(call, "R"), least);
}

kiln_status kiln_moe_permute(kiln_ops *ops, kiln_stream *stream, const kiln_moe_permute_args *a)
{
    static const Taken sorted[] = { { 0, "ID" }, { 2, "TOKEN" }, { 3, "PLACE" }, { 4, "OFFSET" } };
    static const Taken gathered[] = { { 1, "X" }, { 2, "TOKEN" }, { 5, "Y" } };
    Call call;
    kiln_kernel *sort, *gather = NULL;
    kiln_status status = call_begin(&call, "kiln_moe_permute", ops, a, FORM(kiln_moe_permute_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_permute(&call, a);
    if (status) return status;
    status = call_taking_kernel(&call, "moe/permute.tile", "moe_sort", sorted, COUNT(sorted), &sort,
                                "E=%d, PAD=%d, W=%d, TILE=none", (int)call_extent(&call, "E"),
                                a->alignment ? (int)a->alignment : 1,
                                pairs_of_step(call_extent(&call, "M") * call_extent(&call, "K")));
    if (!status && a->x)
        status = call_taking_kernel(&call, "moe/permute.tile", "moe_gather", gathered, COUNT(gathered), &gather, "T=%s",
                                    kiln_type_name(a->x->type));
    const kiln_arg pairs[] = { call_tensor(&call, 0), call_tensor(&call, 2), call_tensor(&call, 3),
                               call_tensor(&call, 4), KILN_NONE };
    const kiln_arg rows[] = { call_tensor(&call, 1), call_tensor(&call, 2), call_tensor(&call, 5) };
    if (!status) status = call_launch(&call, stream, sort, pairs, COUNT(pairs));
    if (!status && gather) status = call_launch(&call, stream, gather, rows, COUNT(rows));
    if (!status) call_done(&call);
    return status;
}

kiln_status kiln_moe_unpermute(kiln_ops *ops, kiln_stream *stream, const kiln_moe_unpermute_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_moe_unpermute", ops, a, FORM(kiln_moe_unpermute_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "rows",     a->rows,     TYPES_FLOAT,   "Y[R][N]" },
        { IN,          "places",   a->places,   1 << KILN_I32, "[M][K]" },
        { IN_OPTIONAL, "weights",  a->weights,  1 << KILN_F32, "[M][K]" },
        { IN_OPTIONAL, "shared",   a->shared,   0,             "SHARED[M][N]" },
        { IN_OPTIONAL, "residual", a->residual, 0,             "RES[M][N]" },
        { OUT,         "out",      a->out,      0,             "OUT[M][N]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_extent(&call, "K", "places", 1, PER_TOKEN_MOST);
    if (!status)
        status = call_kernel(&call, "moe/permute.tile", "moe_combine", "T=%s, KK=%d%s%s%s",
                             kiln_type_name(a->rows->type), (int)call_extent(&call, "K"), LACKS(a->weights, "WEIGHT"),
                             LACKS(a->shared, "SHARED"), LACKS(a->residual, "RES"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- products of experts

// Rows of a tile: an expert's rows fill some 64 in the mean, or the tile is smaller. On a CPU products have as many rows as a
// tile has.
static int rows_of_tile(const Call *call, int64_t rows, int64_t experts)
{
    const int64_t each = experts ? (rows + experts - 1) / experts : rows;
    if (ops_on_cpu(call->ops)) return each <= 4 ? 8 : each <= 32 ? 32 : 128;
    return each <= 24 ? 32 : each <= 64 ? 64 : 128;
}

// Products alone: tiles of 96 rows, computed transposed, where experts have one or two of them in the mean.
static int rows_of_product(const Call *call, int64_t rows, int64_t experts)
{
    const int64_t each = experts ? (rows + experts - 1) / experts : rows;
    return !ops_on_cpu(call->ops) && each >= 64 && each <= 128 ? 96 : rows_of_tile(call, rows, experts);
}

// Layers: so, too, but 64 rows where an expert has no more.
static int rows_of_layer(const Call *call, int64_t rows, int64_t experts)
{
    const int64_t each = experts ? (rows + experts - 1) / experts : rows;
    return each <= 64 ? rows_of_tile(call, rows, experts) : rows_of_product(call, rows, experts);
}

// With counts the experts' places, back to back, are the rows.
static const kiln_tensor *as_rows(Call *call, const kiln_tensor *tensor)
{
    if (tensor->rank != 3) return tensor;
    const kiln_tensor flat = kiln_tensor_of(tensor->device, tensor->data, tensor->type, 2,
                                            (int64_t[]){ tensor->shape[0] * tensor->shape[1], tensor->shape[2] });
    return call_keep(call, &flat);
}

static bool is_fp8(const kiln_grouped_gemm_args *a) { return a->a && a->a->type == KILN_E4M3; }

// Places in either table.
typedef struct Places {
    int offsets, c;
} Places;
static Places places_of(const kiln_grouped_gemm_args *a) { return is_fp8(a) ? (Places){ 4, 6 } : (Places){ 2, 5 }; }

static kiln_status check_fp8(Call *call, const kiln_grouped_gemm_args *a)
{
    const bool apart = a->counts != NULL;
    if (a->bias || !a->transpose_b)
        return call_fail(call, KILN_UNSUPPORTED, "'a' is a tensor of e4m3, expected %s with it",
                         a->bias ? "no 'bias'" : "'transpose_b'");
    // clang-format off
    const Want wants[] = {
        { IN,          "a",        a->a,        1 << KILN_E4M3, apart ? "[E][rows][K]" : "A[R][K]" },
        { IN,          "a_scales", a->a_scales, 1 << KILN_F32,  apart ? "[E][rows][blocks of K]" : "[R][blocks of K]" },
        { IN,          "b",        a->b,        0,              "B[E][N][K]" },
        { IN,          "b_scales", a->b_scales, 1 << KILN_F32,  "[E][blocks of N][blocks of K]" },
        { IN_OPTIONAL, "offsets",  a->offsets,  1 << KILN_I32,  "[E + 1]" },
        { IN_OPTIONAL, "counts",   a->counts,   1 << KILN_I32,  "[E]" },
        { OUT,         "c",        a->c,        TYPES_FLOAT,    apart ? "[E][rows][N]" : "C[R][N]" },
    };
    // clang-format on
    const kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (status) return status;
    const int64_t of_k = (call_extent(call, "K") + 127) / 128, of_n = (call_extent(call, "N") + 127) / 128;
    if (call_extent(call, "blocks of K") != of_k)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'a_scales' has %" PRId64 " scales for a row of K = %" PRId64 ", expected %" PRId64,
                         call_extent(call, "blocks of K"), call_extent(call, "K"), of_k);
    if (call_extent(call, "blocks of N") != of_n)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'b_scales' has %" PRId64 " rows of scales for N = %" PRId64 ", expected %" PRId64,
                         call_extent(call, "blocks of N"), call_extent(call, "N"), of_n);
    call->tensors[1] = as_rows(call, a->a_scales);
    return KILN_OK;
}

static kiln_status check_16(Call *call, const kiln_grouped_gemm_args *a)
{
    const unsigned results = same_or(a->a, TYPES_16, 1U << KILN_F32);
    const unsigned biases = a->c && (unsigned)a->c->type <= KILN_BOOL ? results & 1U << a->c->type : results;
    const bool apart = a->counts != NULL;
    if (a->a_scales || a->b_scales)
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but 'a' is no tensor of e4m3",
                         a->a_scales ? "a_scales" : "b_scales");
    // clang-format off
    const Want wants[] = {
        { IN,          "a",       a->a,       TYPES_16 | 1 << KILN_E4M3, apart ? "[E][rows][K]" : "A[R][K]" },
        { IN,          "b",       a->b,       0,             a->transpose_b ? "B[E][N][K]" : "B[E][K][N]" },
        { IN_OPTIONAL, "offsets", a->offsets, 1 << KILN_I32, "[E + 1]" },
        { IN_OPTIONAL, "counts",  a->counts,  1 << KILN_I32, "[E]" },
        { IN_OPTIONAL, "bias",    a->bias,    biases ? biases : results, "[E][N]" },
        { OUT,         "c",       a->c,       results,       apart ? "[E][rows][N]" : "C[R][N]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
}

static kiln_status check_grouped(Call *call, const kiln_grouped_gemm_args *a)
{
    if (!a->offsets == !a->counts)
        return call_fail(call, KILN_BAD_ARGUMENT, "'offsets' and 'counts' are both %s, expected one of them",
                         a->counts ? "given" : "null");
    const kiln_status status = is_fp8(a) ? check_fp8(call, a) : check_16(call, a);
    if (status) return status;
    call->tensors[0] = as_rows(call, a->a), call->tensors[places_of(a).c] = as_rows(call, a->c);
    return check_rows(call, call->tensors[0]->shape[0]);
}

static kiln_status prepare_grouped(Call *call, const void *args)
{
    const kiln_grouped_gemm_args *const a = args;
    kiln_status status = check_grouped(call, a);
    if (status) return status;
    const int64_t all = call->tensors[0]->shape[0], experts = call_extent(call, "E");
    if (is_fp8(a))
        status =
            call_kernel(call, "moe/grouped_fp8.tile", "grouped_fp8", "TC=%s, BM=%d%s%s", kiln_type_name(a->c->type),
                        rows_of_tile(call, all, experts), LACKS(a->offsets, "OFFSET"), LACKS(a->counts, "COUNT"));
    else
        status = call_kernel(call, "moe/grouped_gemm.tile", "grouped_gemm", "T=%s, TC=%s, TB=%s, BM=%d%s%s%s",
                             kiln_type_name(a->a->type), kiln_type_name(a->c->type), yes(a->transpose_b),
                             rows_of_product(call, all, experts), LACKS(a->offsets, "OFFSET"),
                             LACKS(a->counts, "COUNT"), LACKS(a->bias, "BIAS"));
    call_add(call, KILN_INT(a->counts ? call_extent(call, "rows") : 0));
    return status;
}

// That offsets are offsets, where values are looked at. While the workspace's size is wanted, what looks is built.
static kiln_status look_at_offsets(const Call *call, kiln_stream *stream, int i, int64_t rows)
{
    kiln_kernel *kernel;
    if (!call->tensors[i] || !ops_look_at_values(call->ops)) return KILN_OK;
    const kiln_status status = call_taking_kernel(call, "moe/grouped_gemm.tile", "grouped_offsets",
                                                  &(Taken){ i, "OFFSET" }, 1, &kernel, "%s", "");
    const kiln_arg args[] = { call_tensor(call, i), KILN_INT(rows) };
    return status || call->sizing ? status : call_launch(call, stream, kernel, args, COUNT(args));
}

static kiln_status look_grouped(Call *call, kiln_stream *stream, const void *args)
{
    return look_at_offsets(call, stream, places_of(args).offsets, call->tensors[0]->shape[0]);
}

static const CallPair grouped_gemm = { .name = "kiln_grouped_gemm",
                                       .size_name = "kiln_grouped_gemm_workspace_size",
                                       .prepare = prepare_grouped,
                                       .look = look_grouped };

kiln_status kiln_grouped_gemm_workspace_size(kiln_ops *ops, const kiln_grouped_gemm_args *a, size_t *bytes)
{
    return pair_size(&grouped_gemm, ops, a, FORM(kiln_grouped_gemm_args), bytes);
}

kiln_status kiln_grouped_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_grouped_gemm_args *a)
{
    return pair_run(&grouped_gemm, ops, stream, a, FORM(kiln_grouped_gemm_args));
}

// ---- MXFP4

static int64_t blocks_of(int64_t n) { return rounded_up(n, BLOCK) / BLOCK; }
static int64_t mxfp4_columns(int64_t k) { return rounded_up(k, MXFP4_ROW); }

// Names of shapes for codes and scales of rows of k weights, which `from` says.
static void bind_mxfp4(Call *call, const kiln_tensor *codes, int64_t k, const char *from, const char *name,
                       const char *scales)
{
    const bool as_bytes = codes && codes->type == KILN_U8;
    call_bind(call, name, as_bytes ? mxfp4_columns(k) / 2 : mxfp4_columns(k), from);
    call_bind(call, scales, mxfp4_columns(k) / MXFP4_GROUP, from);
}

static kiln_status check_mxfp4_extent(const Call *call, const char *tensor, const char *letter, int64_t k)
{
    return k % MXFP4_GROUP == 0
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'%s' has %s = %" PRId64 ", expected a multiple of %d", tensor, letter,
                           k, MXFP4_GROUP);
}

// Tensor i, of [E][rows][columns], with its columns in steps.
static void take_in_steps(Call *call, int i, kiln_type type, int64_t columns, int64_t step)
{
    const kiln_tensor *const t = call->tensors[i];
    const kiln_tensor steps =
        kiln_tensor_of(t->device, t->data, type, 4, (int64_t[]){ t->shape[0], t->shape[1], columns / step, step });
    call->tensors[i] = call_keep(call, &steps);
}

static void take_mxfp4(Call *call, int codes, int scales, int64_t k)
{
    take_in_steps(call, codes, KILN_E2M1, mxfp4_columns(k), MXFP4_STEP);
    take_in_steps(call, scales, KILN_U8, mxfp4_columns(k) / MXFP4_GROUP, MXFP4_STEP / MXFP4_GROUP);
}

// Of weights as the left operand: one tile has the rows of nearly every expert, whose number is spread about the mean by its
// root (one H200).
static int rows_of_mxfp4_tile(const Call *call, int64_t rows, int64_t experts)
{
    static const int sizes[] = { 8, 16, 24, 48, 64, 96, 144 };
    const double each = (double)(experts ? (rows + experts - 1) / experts : rows), most = each + 1.4 * sqrt(each);
    if (ops_on_cpu(call->ops)) return rows_of_tile(call, rows, experts);
    for (int i = 0; i < COUNT(sizes); i++)
        if (most <= sizes[i]) return sizes[i];
    return 128;
}

enum { MXFP4_CODES = 1, MXFP4_SCALES, MXFP4_OFFSETS };

static kiln_status prepare_mxfp4(Call *call, const void *args)
{
    const kiln_grouped_mxfp4_args *const a = args;
    const int64_t k = a->a && a->a->rank == 2 ? a->a->shape[1] : 0;
    const unsigned results = 1u << KILN_BF16 | 1u << KILN_F32;
    bind_mxfp4(call, a->codes, k, "a", "codes", "scales");
    // clang-format off
    const Want wants[] = {
        { IN,          "a",           a->a,           1 << KILN_BF16, a->tokens ? "A[M][K]" : "A[R][K]" },
        { IN,          "codes",       a->codes,       1 << KILN_E2M1 | 1 << KILN_U8, "[E][N][codes]" },
        { IN,          "scales",      a->scales,      1 << KILN_U8,   "[E][N][scales]" },
        { IN,          "offsets",     a->offsets,     1 << KILN_I32,  "[E + 1]" },
        { IN_OPTIONAL, "tokens",      a->tokens,      1 << KILN_I32,  "[R]" },
        { IN_OPTIONAL, "bias",        a->bias,        same_or(a->c, results, 0), "[E][N]" },
        { IN_OPTIONAL, "row_weights", a->row_weights, 1 << KILN_F32,  "[R]" },
        { OUT,         "c",           a->c,           results,        "C[R][N]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_mxfp4_extent(call, "a", "K", k);
    if (!status) status = check_rows(call, call_extent(call, "R"));
    if (status) return status;
    take_mxfp4(call, MXFP4_CODES, MXFP4_SCALES, k);
    return call_kernel(call, "moe/mxfp4.tile", "grouped_mxfp4", "TC=%s, BM=%d%-s%-s%-s", kiln_type_name(a->c->type),
                       rows_of_mxfp4_tile(call, call_extent(call, "R"), call_extent(call, "E")),
                       LACKS(a->tokens, "ROW"), LACKS(a->bias, "BIAS"), LACKS(a->row_weights, "WEIGHT"));
}

static kiln_status look_mxfp4(Call *call, kiln_stream *stream, const void *args)
{
    return look_at_offsets(call, stream, MXFP4_OFFSETS, call_extent(call, "R"));
}

static const CallPair grouped_mxfp4 = { .name = "kiln_grouped_mxfp4",
                                        .size_name = "kiln_grouped_mxfp4_workspace_size",
                                        .prepare = prepare_mxfp4,
                                        .look = look_mxfp4 };

kiln_status kiln_grouped_mxfp4_workspace_size(kiln_ops *ops, const kiln_grouped_mxfp4_args *a, size_t *bytes)
{
    return pair_size(&grouped_mxfp4, ops, a, FORM(kiln_grouped_mxfp4_args), bytes);
}

kiln_status kiln_grouped_mxfp4(kiln_ops *ops, kiln_stream *stream, const kiln_grouped_mxfp4_args *a)
{
    return pair_run(&grouped_mxfp4, ops, stream, a, FORM(kiln_grouped_mxfp4_args));
}

// ---- gradients

enum { TILES_BYTES = 40 };

// On the CPU tiles by the extents, and steps by the rows that an expert has in the mean.
static const char *gradient_tiles(const Call *call, bool transpose_b, char text[TILES_BYTES])
{
    const int64_t N = call_extent(call, "N"), K = call_extent(call, "K"), experts = call_extent(call, "E");
    text[0] = 0;
    if (ops_on_cpu(call->ops) && experts > 0)
        snprintf(text, TILES_BYTES, ", BM=%d, BN=%d, BK=%d", call_tile_on_cpu(transpose_b ? N : K, 32, 128),
                 call_tile_on_cpu(transpose_b ? K : N, 32, 128),
                 call_tile_on_cpu(call_extent(call, "R") / experts, 16, 64));
    return text;
}

kiln_status kiln_grouped_gemm_weights(kiln_ops *ops, kiln_stream *stream, const kiln_grouped_gemm_weights_args *a)
{
    Call call;
    char tiles[TILES_BYTES];
    kiln_status status = call_begin(&call, "kiln_grouped_gemm_weights", ops, a, FORM(kiln_grouped_gemm_weights_args));
    if (call_again(&call, stream, &status)) return status;
    const Want wants[] = { { IN, "a", a->a, TYPES_16, "A[R][K]" },
                           { IN, "dc", a->dc, 0, "DC[R][N]" },
                           { IN, "offsets", a->offsets, 1 << KILN_I32, "[E + 1]" },
                           { OUT, "db", a->db, same_or(a->a, TYPES_16, 1U << KILN_F32),
                             a->transpose_b ? "DB[E][N][K]" : "DB[E][K][N]" } };
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_rows(&call, call_extent(&call, "R"));
    if (!status)
        status = call_kernel(&call, "moe/grouped_gemm.tile", "grouped_gemm_weights", "T=%s, TC=%s, TB=%s%s",
                             kiln_type_name(a->a->type), kiln_type_name(a->db->type), yes(a->transpose_b),
                             gradient_tiles(&call, a->transpose_b, tiles));
    if (!status) status = look_at_offsets(&call, stream, 2, call_extent(&call, "R"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- a layer

typedef struct Layer {
    Routing routing;
    double alpha, limit;
    int64_t each; // experts of a token
} Layer;

static kiln_status check_both(const Call *call, const char *one, const void *first, const char *other,
                              const void *second)
{
    return !first == !second ? KILN_OK
                             : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but '%s' is null",
                                         first ? one : other, first ? other : one);
}

static kiln_status check_twice(const Call *call, const char *tensor, const char *name, const char *of)
{
    const int64_t both = call_extent(call, name), one = call_extent(call, of);
    return both == 2 * one ? KILN_OK
                           : call_fail(call, KILN_BAD_SHAPE,
                                       "'%s' has %" PRId64 " rows of gate and up, expected %" PRId64
                                       ": '%s' has %" PRId64 " hidden elements",
                                       tensor, both, 2 * one, call_source(call, of), one);
}

static kiln_status check_activation(const Call *call, const kiln_moe_args *a, Layer *l)
{
    l->alpha = a->alpha ? *a->alpha : 1.702, l->limit = a->limit ? *a->limit : 7;
    if ((unsigned)a->activation > KILN_MOE_SWIGLU_CLAMPED)
        return call_fail(call, KILN_BAD_ARGUMENT, "'activation' is %d, expected one of kiln_moe_activation",
                         (int)a->activation);
    if (!isfinite((float)l->alpha))
        return call_fail(call, KILN_BAD_ARGUMENT, "'alpha' is %g, expected a finite number", l->alpha);
    if (!((float)l->limit > 0))
        return call_fail(call, KILN_BAD_ARGUMENT, "'limit' is %g, expected a positive number", l->limit);
    return KILN_OK;
}

static kiln_status check_choice(const Call *call, const kiln_moe_args *a, Layer *l)
{
    if (!a->logits == !a->experts)
        return call_fail(call, KILN_BAD_ARGUMENT, "'logits' and 'experts' are both %s, expected one of them",
                         a->logits ? "given" : "null");
    if (a->logits && a->weights)
        return call_fail(call, KILN_BAD_ARGUMENT, "'weights' is given, but 'logits' say what they are");
    if (!a->logits && a->correction)
        return call_fail(call, KILN_BAD_ARGUMENT, "'correction' is given, but 'logits' is null");
    l->each = a->logits ? a->top_k : call_extent(call, "K");
    const int64_t most = a->logits ? EXPERTS_MOST : SORTED_MOST;
    kiln_status status = check_extent(call, "E", "gate_up", 1, most);
    if (!status && a->logits)
        status = take_routing(call, a->routing, call_extent(call, "E"), l->each, "'top_k' is", &l->routing);
    if (!status && !a->logits) status = check_extent(call, "K", "experts", 1, PER_TOKEN_MOST);
    return status ? status : check_pairs(call, "x", call_extent(call, "M"), l->each);
}

// Of the weights' scales those, and no others, that the format has; what it lacks.
static kiln_status check_layer_format(const Call *call, const kiln_moe_args *a)
{
    if ((unsigned)a->format > KILN_MOE_FP8)
        return call_fail(call, KILN_BAD_ARGUMENT, "'format' is %d, expected one of kiln_moe_format", (int)a->format);
    const bool is_fp8 = a->format == KILN_MOE_FP8;
    const struct {
        const char *name;
        const void *given;
        bool has;
    } fields[] = { { "gate_up_scales", a->gate_up_scales, a->format != KILN_MOE_SAME },
                   { "down_scales", a->down_scales, a->format != KILN_MOE_SAME },
                   { "shared_gate_up_scales", a->shared_gate_up_scales, is_fp8 },
                   { "shared_down_scales", a->shared_down_scales, is_fp8 },
                   { "gate_up_bias", a->gate_up_bias, !is_fp8 },
                   { "down_bias", a->down_bias, !is_fp8 } };
    for (int i = 0; i < COUNT(fields); i++)
        if (fields[i].given && !fields[i].has)
            return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but 'format' is one without", fields[i].name);
    return is_fp8 && a->interleaved
               ? call_fail(call, KILN_UNSUPPORTED,
                           "'interleaved' is true, but 'format' has blocks of rows of gate and of up")
               : KILN_OK;
}

static kiln_status check_layer_16(Call *call, const kiln_moe_args *a)
{
    // clang-format off
    const Want wants[] = {
        { IN,          "x",              a->x,              TYPES_16,      "[M][D]" },
        { IN,          "gate_up",        a->gate_up,        0,             "[E][gate and up][D]" },
        { IN,          "down",           a->down,           0,             "[E][D][F]" },
        { IN_OPTIONAL, "gate_up_bias",   a->gate_up_bias,   0,             "[E][gate and up]" },
        { IN_OPTIONAL, "down_bias",      a->down_bias,      0,             "[E][D]" },
        { IN_OPTIONAL, "logits",         a->logits,         TYPES_FLOAT,   "[M][E]" },
        { IN_OPTIONAL, "correction",     a->correction,     1 << KILN_F32, "[E]" },
        { IN_OPTIONAL, "experts",        a->experts,        1 << KILN_I32, "[M][K]" },
        { IN_OPTIONAL, "weights",        a->weights,        1 << KILN_F32, "[M][K]" },
        { IN_OPTIONAL, "shared_gate_up", call_with_batch(call, a->shared_gate_up, 3), 0, "[1][shared gate and up][D]" },
        { IN_OPTIONAL, "shared_down",    call_with_batch(call, a->shared_down, 3),    0, "[1][D][shared]" },
        { IN_OPTIONAL, "residual",       a->residual,       0,             "[M][D]" },
        { OUT,         "out",            a->out,            0,             "[M][D]" },
    };
    // clang-format on
    const kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    return status ? status : check_twice(call, "gate_up", "gate and up", "F");
}

static kiln_status check_layer_mxfp4(Call *call, const kiln_moe_args *a)
{
    const int64_t D = a->x && a->x->rank == 2 ? a->x->shape[1] : 0;
    const int64_t both = a->gate_up && a->gate_up->rank == 3 ? a->gate_up->shape[1] : 0;
    const unsigned codes = 1u << KILN_E2M1 | 1u << KILN_U8;
    bind_mxfp4(call, a->gate_up, D, "x", "codes of D", "scales of D");
    bind_mxfp4(call, a->down, both / 2, "gate_up", "codes of F", "scales of F");
    // clang-format off
    const Want wants[] = {
        { IN,          "x",              a->x,              1 << KILN_BF16, "[M][D]" },
        { IN,          "gate_up",        a->gate_up,        codes,         "[E][gate and up][codes of D]" },
        { IN,          "gate_up_scales", a->gate_up_scales, 1 << KILN_U8,  "[E][gate and up][scales of D]" },
        { IN,          "down",           a->down,           codes,         "[E][D][codes of F]" },
        { IN,          "down_scales",    a->down_scales,    1 << KILN_U8,  "[E][D][scales of F]" },
        { IN_OPTIONAL, "gate_up_bias",   a->gate_up_bias,   0,             "[E][gate and up]" },
        { IN_OPTIONAL, "down_bias",      a->down_bias,      0,             "[E][D]" },
        { IN_OPTIONAL, "logits",         a->logits,         TYPES_FLOAT,   "[M][E]" },
        { IN_OPTIONAL, "correction",     a->correction,     1 << KILN_F32, "[E]" },
        { IN_OPTIONAL, "experts",        a->experts,        1 << KILN_I32, "[M][K]" },
        { IN_OPTIONAL, "weights",        a->weights,        1 << KILN_F32, "[M][K]" },
        { IN_OPTIONAL, "shared_gate_up", call_with_batch(call, a->shared_gate_up, 3), 0, "[1][shared gate and up][D]" },
        { IN_OPTIONAL, "shared_down",    call_with_batch(call, a->shared_down, 3),    0, "[1][D][shared]" },
        { IN_OPTIONAL, "residual",       a->residual,       0,             "[M][D]" },
        { OUT,         "out",            a->out,            0,             "[M][D]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_mxfp4_extent(call, "x", "D", D);
    if (!status && both % (2 * MXFP4_GROUP) != 0)
        status =
            call_fail(call, KILN_BAD_SHAPE, "'gate_up' has %" PRId64 " rows of gate and up, expected a multiple of %d",
                      both, 2 * MXFP4_GROUP);
    if (status) return status;
    take_mxfp4(call, 1, 2, D);
    take_mxfp4(call, 3, 4, both / 2);
    return KILN_OK;
}

static kiln_status check_blocks(const Call *call, const char *tensor, const char *name, int64_t expected)
{
    return call_extent(call, name) == expected
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'%s' has %" PRId64 " %s, expected %" PRId64, tensor,
                           call_extent(call, name), name, expected);
}

static kiln_status check_layer_fp8(Call *call, const kiln_moe_args *a)
{
    const unsigned e4m3 = 1u << KILN_E4M3, f32 = 1u << KILN_F32;
    const kiln_tensor *const s1 = call_with_batch(call, a->shared_gate_up, 3);
    const kiln_tensor *const ss1 = call_with_batch(call, a->shared_gate_up_scales, 3);
    const kiln_tensor *const s2 = call_with_batch(call, a->shared_down, 3);
    const kiln_tensor *const ss2 = call_with_batch(call, a->shared_down_scales, 3);
    // clang-format off
    const Want wants[] = {
        { IN,          "x",              a->x,              TYPES_16,      "[M][D]" },
        { IN,          "gate_up",        a->gate_up,        e4m3,          "[E][gate and up][D]" },
        { IN,          "gate_up_scales", a->gate_up_scales, f32,           "[E][blocks of gate and up][blocks of D]" },
        { IN,          "down",           a->down,           e4m3,          "[E][D][F]" },
        { IN,          "down_scales",    a->down_scales,    f32,           "[E][blocks of D][blocks of F]" },
        { IN_OPTIONAL, "logits",         a->logits,         TYPES_FLOAT,   "[M][E]" },
        { IN_OPTIONAL, "correction",     a->correction,     f32,           "[E]" },
        { IN_OPTIONAL, "experts",        a->experts,        1 << KILN_I32, "[M][K]" },
        { IN_OPTIONAL, "weights",        a->weights,        f32,           "[M][K]" },
        { IN_OPTIONAL, "shared_gate_up", s1,                e4m3,          "[1][shared gate and up][D]" },
        { IN_OPTIONAL, "shared_gate_up_scales", ss1,        f32,           "[1][blocks of shared gate and up][blocks of D]" },
        { IN_OPTIONAL, "shared_down",    s2,                e4m3,          "[1][D][shared]" },
        { IN_OPTIONAL, "shared_down_scales", ss2,           f32,           "[1][blocks of D][blocks of shared]" },
        { IN_OPTIONAL, "residual",       a->residual,       0,             "[M][D]" },
        { OUT,         "out",            a->out,            0,             "[M][D]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_twice(call, "gate_up", "gate and up", "F");
    if (!status)
        status =
            check_both(call, "shared_gate_up", a->shared_gate_up, "shared_gate_up_scales", a->shared_gate_up_scales);
    if (!status) status = check_both(call, "shared_down", a->shared_down, "shared_down_scales", a->shared_down_scales);
    if (status) return status;
    const int64_t f = blocks_of(call_extent(call, "F"));
    status = check_blocks(call, "gate_up_scales", "blocks of D", blocks_of(call_extent(call, "D")));
    if (!status) status = check_blocks(call, "gate_up_scales", "blocks of gate and up", 2 * f);
    if (!status) status = check_blocks(call, "down_scales", "blocks of F", f);
    if (status || !ss1 || !ss2) return status;
    const int64_t shared = blocks_of(call_extent(call, "shared"));
    status = check_blocks(call, "shared_gate_up_scales", "blocks of shared gate and up", 2 * shared);
    return status ? status : check_blocks(call, "shared_down_scales", "blocks of shared", shared);
}

static kiln_status check_layer(Call *call, const kiln_moe_args *a, Layer *l)
{
    *l = (Layer){ .routing = { 1, 1, 2, false, false, 1 } };
    kiln_status status = check_layer_format(call, a);
    if (!status)
        status = a->format == KILN_MOE_MXFP4 ? check_layer_mxfp4(call, a)
                 : a->format == KILN_MOE_FP8 ? check_layer_fp8(call, a)
                                             : check_layer_16(call, a);
    if (!status) status = check_both(call, "shared_gate_up", a->shared_gate_up, "shared_down", a->shared_down);
    if (!status && a->shared_down) status = check_twice(call, "shared_gate_up", "shared gate and up", "shared");
    if (!status) status = check_activation(call, a, l);
    return status ? status : check_choice(call, a, l);
}

// Of tiles of the experts' rows, and of all rows, which shared experts take.
static void tile_rows(const Call *call, const kiln_moe_args *a, const Layer *l, int *rows, int *shared_rows)
{
    const int64_t m = call_extent(call, "M"), experts = call_extent(call, "E");
    *rows = a->format == KILN_MOE_MXFP4 ? rows_of_mxfp4_tile(call, m * l->each, experts)
            : a->format == KILN_MOE_FP8 ? rows_of_tile(call, m * l->each, experts)
                                        : rows_of_layer(call, m * l->each, experts);
    *shared_rows = rows_of_tile(call, m, 1);
    if (a->format != KILN_MOE_FP8) return;
    *rows = *rows > FP8_ROWS_MOST ? FP8_ROWS_MOST : *rows;
    *shared_rows = *shared_rows > FP8_ROWS_MOST ? FP8_ROWS_MOST : *shared_rows;
}

static kiln_status choose_layer(Call *call, const kiln_moe_args *a, const Layer *l)
{
    static const int functions[] = { [KILN_MOE_SWIGLU] = 4, [KILN_MOE_GEGLU] = 3, [KILN_MOE_SWIGLU_CLAMPED] = 16 };
    const char *const logits = a->logits ? kiln_type_name(a->logits->type) : "f32";
    const int64_t D = call_extent(call, "D");
    const Routing *const r = &l->routing;
    const int steps = pairs_of_step(call_extent(call, "M") * l->each);
    int rows, shared_rows;
    tile_rows(call, a, l, &rows, &shared_rows);
    if (a->format == KILN_MOE_FP8)
        return call_kernel(
            call, "moe/moe_fp8.tile", "moe_fp8",
            "T=%s, TL=%s, E=%d, KK=%d, SIGMOID=%s, NORM=%s, GROUPS=%d, TOPG=%d, GTOP=%d, ACT=%d, BM=%d, SBM=%d, W=%d"
            "%-s%-s%-s%-s%-s%-s%-s%-s%-s",
            kiln_type_name(a->x->type), logits, (int)call_extent(call, "E"), (int)l->each, yes(r->sigmoid),
            yes(r->renormalise), r->groups, r->top_groups, r->group_scores, functions[a->activation], rows, shared_rows,
            steps, LACKS(a->logits, "LOGIT"), LACKS(a->correction, "CORRECTION"), LACKS(a->experts, "ID"),
            LACKS(a->weights, "WEIGHT"), LACKS(a->shared_gate_up, "S1"), LACKS(a->shared_gate_up_scales, "SS1"),
            LACKS(a->shared_down, "S2"), LACKS(a->shared_down_scales, "SS2"), LACKS(a->residual, "RES"));
    const bool is_mxfp4 = a->format == KILN_MOE_MXFP4;
    const bool gathers = !is_mxfp4 && !ops_on_cpu(call->ops);
    const bool is_narrow = gathers && rows == 128 && D % 192 == 0 && D % 256 != 0; // 2880: no tile is cut
    // Experts of up to 32 rows have one tile each, which shares its weights with none: those of an expert follow each other.
    const bool alone = gathers && rows == 64 && call_extent(call, "M") * l->each <= 32 * call_extent(call, "E");
    return call_kernel(call, is_mxfp4 ? "moe/mxfp4.tile" : "moe/moe.tile", is_mxfp4 ? "moe_mxfp4" : "moe",
                       "T=%s, TL=%s, E=%d, KK=%d, SIGMOID=%s, NORM=%s, GROUPS=%d, TOPG=%d, GTOP=%d, ACT=%d, MIXED=%s, "
                       "BM=%d, SBM=%d, W=%d, D=%d%s%s%s%-s%-s%-s%-s%-s%-s%-s%-s%-s",
                       kiln_type_name(a->x->type), logits, (int)call_extent(call, "E"), (int)l->each, yes(r->sigmoid),
                       yes(r->renormalise), r->groups, r->top_groups, r->group_scores, functions[a->activation],
                       yes(a->interleaved), rows, shared_rows, steps, (int)D, gathers ? ", GATHER=true" : "",
                       is_narrow ? ", DOWN=192" : "", alone ? ", BAND=1" : "", LACKS(a->gate_up_bias, "B1"),
                       LACKS(a->down_bias, "B2"), LACKS(a->logits, "LOGIT"), LACKS(a->correction, "CORRECTION"),
                       LACKS(a->experts, "ID"), LACKS(a->weights, "WEIGHT"), LACKS(a->shared_gate_up, "S1"),
                       LACKS(a->shared_down, "S2"), LACKS(a->residual, "RES"));
}

static kiln_status prepare_layer(Call *call, const void *args)
{
    const kiln_moe_args *const a = args;
    Layer l;
    kiln_status status = check_layer(call, a, &l);
    if (!status) status = choose_layer(call, a, &l);
    if (status) return status;
    call_add(call, KILN_FLOAT(l.routing.scale));
    call_add(call, KILN_FLOAT(l.alpha));
    call_add(call, KILN_FLOAT(l.limit));
    return KILN_OK;
}

static const CallPair moe = { .name = "kiln_moe", .size_name = "kiln_moe_workspace_size", .prepare = prepare_layer };

kiln_status kiln_moe_workspace_size(kiln_ops *ops, const kiln_moe_args *a, size_t *bytes)
{
    return pair_size(&moe, ops, a, FORM(kiln_moe_args), bytes);
}

kiln_status kiln_moe(kiln_ops *ops, kiln_stream *stream, const kiln_moe_args *a)
{
    return pair_run(&moe, ops, stream, a, FORM(kiln_moe_args));
}
