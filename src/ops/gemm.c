// SPDX-License-Identifier: MIT
// gemm.c - the operators of kiln/ops/gemm.h over kernels/gemm/any.tile.
#include "kiln/ops/gemm.h"
#include "ops/call.h"
#include "ops/gemm_blocks.h"
#include "ops/gemm_sparse.h"
#include "ops/gemm_tiles.h"

enum {
    TYPES_FP8 = 1 << KILN_E4M3 | 1 << KILN_E5M2,
    TYPES_RESULT = TYPES_FLOAT | TYPES_FP8,
    TYPES_GEMM = TYPES_RESULT | 1 << KILN_I8 | 1 << KILN_F64,
    FEW_COLUMNS = 4096, // of one row, for which longer pieces of b are read
    LONG_PIECE = 2048,  // the longest, of whose length rows of b are a multiple
    VECTOR_BITS = 128,  // rows that begin at multiples of these hardware copies
    LINE = 8,           // vectors, of which a long row's copy has whole ones
    LONG_ROW = 128,     // vectors
};

static bool has_type(const kiln_tensor *t, unsigned types)
{
    return t && (unsigned)t->type <= KILN_BOOL && types >> t->type & 1;
}

static kiln_status check_rank(const Call *call, const char *name, const kiln_tensor *tensor)
{
    return !tensor || tensor->rank == 2 || tensor->rank == 3
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'%s' has rank %d, expected 2, or 3 with a batch", name, tensor->rank);
}

static kiln_status check_ranks(const Call *call, const kiln_gemm_args *g)
{
    kiln_status status = check_rank(call, "a", g->a);
    if (!status) status = check_rank(call, "b", g->b);
    if (!status) status = check_rank(call, "up", g->up);
    if (!status) status = check_rank(call, "c", g->c);
    return status ? status : check_rank(call, "residual", g->residual);
}

// What c may be of for this a.
static unsigned results_of(const kiln_tensor *a)
{
    return has_type(a, 1 << KILN_F64)  ? 1u << KILN_F64
           : has_type(a, 1 << KILN_I8) ? TYPES_RESULT | 1 << KILN_I32
                                       : TYPES_RESULT;
}

static kiln_status check_options(const Call *call, const kiln_gemm_args *g)
{
    const bool is_plain = has_type(g->c, 1 << KILN_I32 | 1 << KILN_F64);
    if (!g->up && (g->up_scales || g->up_bias))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given without 'up'", g->up_scales ? "up_scales" : "up_bias");
    if (g->up && g->c->type == KILN_I32)
        return call_fail(call, KILN_BAD_ARGUMENT, "'up' is given, but 'c' is a tensor of i32, which takes none");
    if ((unsigned)g->precision > KILN_PRECISION_TF32X3)
        return call_fail(call, KILN_BAD_ARGUMENT, "'precision' is %d, expected a kiln_precision", (int)g->precision);
    if (g->precision && g->a->type != KILN_F32)
        return call_fail(call, KILN_BAD_ARGUMENT, "'precision' is one of f32, but 'a' is a tensor of %s",
                         kiln_type_name(g->a->type));
    if (is_plain && (g->a_scales || g->b_scales || g->up_scales))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but 'c' is a tensor of %s, which takes none",
                         g->a_scales   ? "a_scales"
                         : g->b_scales ? "b_scales"
                                       : "up_scales",
                         kiln_type_name(g->c->type));
    if (g->c->type == KILN_I32 && (g->scale || g->activation))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but 'c' is a tensor of i32, which takes none",
                         g->scale ? "scale" : "activation");
    return call_activation(call, (int)g->activation);
}

// The tensors, with a batch of one where they have none.
static kiln_status check(Call *call, const kiln_gemm_args *g)
{
    const kiln_tensor *const a = call_with_batch(call, g->a, 3), *const b = call_with_batch(call, g->b, 3);
    const kiln_tensor *const c = call_with_batch(call, g->c, 3), *const r = call_with_batch(call, g->residual, 3);
    const kiln_tensor *const up = call_with_batch(call, g->up, 3), *const sa = call_with_batch(call, g->a_scales, 2);
    const kiln_tensor *const sb = call_with_batch(call, g->b_scales, 2), *const su =
                                                                             call_with_batch(call, g->up_scales, 2);
    const unsigned results = results_of(g->a), same = has_type(g->c, results) ? 1u << g->c->type : results;
    const unsigned of_b = has_type(g->a, TYPES_FP8) ? TYPES_FP8 : 0;
    const unsigned of_up = g->b && of_b && has_type(g->b, TYPES_FP8) ? 1u << g->b->type : of_b;
    // clang-format off
    const Want wants[] = {
        { IN_ANYWHERE,          "a",         a,       TYPES_GEMM, g->transpose_a ? "A[Z][K][M]" : "A[Z][M][K]" },
        { IN_ANYWHERE,          "b",         b,       of_b,       g->transpose_b ? "B[Z][N][K]" : "B[Z][K][N]" },
        { IN_ANYWHERE_OPTIONAL, "up",        up,      of_up,      g->transpose_b ? "UP[Z][N][K]" : "UP[Z][K][N]" },
        { OUT,                  "c",         c,       results,    "C[Z][M][N]" },
        { IN_OPTIONAL,          "a_scales",  sa,      1 << KILN_F32, "[Z][M]" },
        { IN_OPTIONAL,          "b_scales",  sb,      1 << KILN_F32, "[Z][N]" },
        { IN_OPTIONAL,          "up_scales", su,      1 << KILN_F32, "[Z][N]" },
        { IN_OPTIONAL,          "bias",      g->bias, same,       "[N]" },
        { IN_OPTIONAL,          "up_bias",   g->up_bias, same,    "[N]" },
        { IN_OPTIONAL,          "residual",  r,       same,       "RES[Z][M][N]" },
    };
    // clang-format on
    const kiln_status status = call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
    return status ? status : check_options(call, g);
}

// Rows that do not begin at multiples of 16 bytes.
static bool begins_anywhere(const Call *call, int i)
{
    const kiln_tensor *const t = call->tensors[i];
    const int64_t row = t->has_strides ? t->strides[1] : t->shape[2];
    const bool has_one = t->has_strides && t->shape[1] <= 1; // whose distance from the next does not matter
    return call->table.tensors[i].is_unaligned || (!has_one && row * kiln_type_bits(t->type) % VECTOR_BITS != 0);
}

// Rows that products do not copy by hardware: also those that begin so, but are no whole vectors.
static bool is_misaligned(const Call *call, int i)
{
    const kiln_tensor *const t = call->tensors[i];
    const bool are_apart = t->has_strides && t->shape[1] > 1;
    return begins_anywhere(call, i) || (are_apart && t->shape[2] * kiln_type_bits(t->type) % VECTOR_BITS != 0);
}

// One row of a, whose products are sums of threads; b's rows are read as vectors.
static bool is_one_row(const Call *call, const kiln_gemm_args *g)
{
    const bool is_plain = kiln_type_bits(g->a->type) == 16 && g->b->type == g->a->type && g->transpose_b;
    return is_plain && call_extent(call, "M") == 1 && !g->transpose_a && !g->up && !ops_on_cpu(call->ops) &&
           !begins_anywhere(call, 0) && !begins_anywhere(call, 1);
}

static kiln_status choose_row(Call *call, const kiln_gemm_args *g)
{
    const bool are_long = ops_on_hopper(call->ops) && call_extent(call, "K") % LONG_PIECE == 0;
    const char *const tile = are_long                               ? ", BN=2, BK=2048"
                             : call_extent(call, "N") < FEW_COLUMNS ? ", BN=4, BK=1024"
                                                                    : "";
    const kiln_status status = call_kernel(
        call, "gemm/row.tile", "gemm_row", "T=%s, TC=%s, ACT=%d, UP=none, UPS=none, UPB=none%s%-s%-s%-s%-s",
        kiln_type_name(g->a->type), kiln_type_name(g->c->type), (int)g->activation, tile, LACKS(g->a_scales, "SA"),
        LACKS(g->b_scales, "SB"), LACKS(g->bias, "BIAS"), LACKS(g->residual, "RES"));
    call_add(call, KILN_FLOAT(g->scale ? *g->scale : 1));
    return status;
}

// Rows that are copied first are copied as those of any strides are, also where they are contiguous.
static void take_anywhere(Call *call, int i, const char *name)
{
    if (!is_misaligned(call, i)) return;
    call->table.tensors[i].strided = name;
    call->table.tensors[i].is_unaligned = true;
}

// The k of rows that are copied, as any.tile's `padded` has it.
static int64_t padded(int64_t k, kiln_type type)
{
    const int64_t vector = VECTOR_BITS / kiln_type_bits(type), whole = k >= LONG_ROW * vector ? LINE * vector : vector;
    return (k + whole - 1) / whole * whole;
}

static kiln_status choose(Call *call, const kiln_gemm_args *g)
{
    const bool on_cpu = ops_on_cpu(call->ops), a_begins_anywhere = !on_cpu && is_misaligned(call, 0);
    const bool b_begins_anywhere = !on_cpu && (is_misaligned(call, 1) || (g->up && is_misaligned(call, 2)));
    const bool pad_a = a_begins_anywhere || (g->up && b_begins_anywhere);
    const bool pad_b = b_begins_anywhere || (g->up && a_begins_anywhere);
    const int64_t k = call_extent(call, "K");
    if (a_begins_anywhere) take_anywhere(call, 0, "A");
    if (b_begins_anywhere) take_anywhere(call, 1, "B");
    if (b_begins_anywhere && g->up) take_anywhere(call, 2, "UP");
    const GemmShape shape = { .batch = call_extent(call, "Z"),
                              .m = call_extent(call, "M"),
                              .n = call_extent(call, "N"),
                              .k = pad_a || pad_b ? padded(k, g->a->type) : k,
                              .type = g->a->type,
                              .precision = g->precision,
                              .paired = g->up,
                              .processors = ops_processors(call->ops),
                              .on_cpu = on_cpu,
                              .no_twins = a_begins_anywhere || is_misaligned(call, 1) || g->transpose_a ||
                                          !g->transpose_b || g->up || kiln_type_bits(g->a->type) > 16 };
    const GemmChoice choice = gemm_choose(&shape);
    const kiln_status status = call_kernel(
        call, "gemm/any.tile", "gemm",
        "T=%s, U=%s, TC=%s, TA=%s, TB=%s, PREC=%d, ACT=%d, BM=%d, BN=%d, BK=%d, STAGES=%d, EVEN=%s, TURN=%s, PA=%s, PB=%s, "
        "WHOLE=%s, TWIN=%s%-s%-s%-s%-s%-s%-s%-s",
        kiln_type_name(g->a->type), kiln_type_name(g->b->type), kiln_type_name(g->c->type), yes(g->transpose_a),
        yes(g->transpose_b), (int)g->precision, (int)g->activation, choice.rows, choice.columns, choice.depth,
        choice.stages, yes(shape.n % 8 == 0), yes(choice.form == GEMM_TURNED), yes(pad_a), yes(pad_b), yes(on_cpu),
        yes(choice.form == GEMM_TWIN), LACKS(g->up, "UP"), LACKS(g->a_scales, "SA"), LACKS(g->b_scales, "SB"),
        LACKS(g->up_scales, "UPS"), LACKS(g->bias, "BIAS"), LACKS(g->up_bias, "UPB"), LACKS(g->residual, "RES"));
    call_add(call, KILN_FLOAT(g->scale ? *g->scale : 1));
    call_add(call, KILN_INT(shape.processors));
    call_add(call, KILN_INT(choice.parts));
    return status;
}

static kiln_status prepare(Call *call, const void *args)
{
    const kiln_gemm_args *const g = args;
    kiln_status status = check_ranks(call, g);
    if (!status && gemm_is_sparse(g)) return gemm_prepare_sparse(call, g);
    if (!status && gemm_has_blocks(g)) return gemm_prepare_blocks(call, g);
    if (!status) status = check(call, g);
    if (status) return status;
    return is_one_row(call, g) ? choose_row(call, g) : choose(call, g);
}

static const CallPair gemm = { .name = "kiln_gemm", .size_name = "kiln_gemm_workspace_size", .prepare = prepare };

kiln_status kiln_gemm_workspace_size(kiln_ops *ops, const kiln_gemm_args *a, size_t *bytes)
{
    return pair_size(&gemm, ops, a, FORM(kiln_gemm_args), bytes);
}

kiln_status kiln_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_gemm_args *a)
{
    return pair_run(&gemm, ops, stream, a, FORM(kiln_gemm_args));
}
