// SPDX-License-Identifier: MIT
// gemm_sparse.c - the operators of kiln/ops/gemm.h over kernels/gemm/sparse_any.tile.
#include "ops/gemm_sparse.h"

#include <inttypes.h>

enum {
    TYPES_BYTES_SPARSE = 1 << KILN_E4M3 | 1 << KILN_E5M2 | 1 << KILN_I8,
    TYPES_SPARSE = TYPES_16 | TYPES_BYTES_SPARSE,
    TYPES_FP8 = 1 << KILN_E4M3 | 1 << KILN_E5M2,
    OF_GROUPS = 8, // columns, whose places are a byte
    TILE_ROWS = 128,
    FEW_ROWS = 16,
    SOME_ROWS = 64,
    WIDE_COLUMNS = 256,
};

static bool has_type(const kiln_tensor *t, unsigned types)
{
    return t && (unsigned)t->type <= KILN_BOOL && types >> t->type & 1;
}

// ---- products

// What a sparse product cannot do.
static kiln_status check_options(const Call *call, const kiln_gemm_args *g)
{
    const char *const sparse = g->a_places ? "a_places" : "b_places";
    if (g->a_places && g->b_places)
        return call_fail(call, KILN_UNSUPPORTED, "'a_places' and 'b_places' are both given, expected one of them");
    if (g->up || g->up_scales || g->up_bias)
        return call_fail(call, KILN_UNSUPPORTED, "'%s' is given, expected no '%s' with it", sparse,
                         g->up          ? "up"
                         : g->up_scales ? "up_scales"
                                        : "up_bias");
    if (g->precision) return call_fail(call, KILN_BAD_ARGUMENT, "'precision' is one of f32, but '%s' is given", sparse);
    if (g->a_places && g->transpose_a)
        return call_fail(call, KILN_UNSUPPORTED, "'a_places' is given, expected no 'transpose_a' with it");
    if (g->b_places && !g->transpose_b)
        return call_fail(call, KILN_UNSUPPORTED, "'b_places' is given, expected 'transpose_b' with it");
    if (has_type(g->a, TYPES_BYTES_SPARSE) && (g->transpose_a || !g->transpose_b))
        return call_fail(call, KILN_UNSUPPORTED, "'%s' is given and 'a' is a tensor of %s, expected %s with them",
                         sparse, kiln_type_name(g->a->type), g->transpose_a ? "no 'transpose_a'" : "'transpose_b'");
    if (has_type(g->c, 1 << KILN_I32) && (g->a_scales || g->b_scales || g->scale || g->activation))
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is given, but 'c' is a tensor of i32, which takes none",
                         g->a_scales   ? "a_scales"
                         : g->b_scales ? "b_scales"
                         : g->scale    ? "scale"
                                       : "activation");
    return call_activation(call, (int)g->activation);
}

// The sparse operand keeps half of the other's columns.
static kiln_status check_halves(const Call *call, const kiln_gemm_args *g)
{
    const char *const sparse = g->a_places ? "a" : "b", *const other = g->a_places ? "b" : "a";
    const int64_t k = call_extent(call, "K"), kept = call_extent(call, "K/2"), bytes = call_extent(call, "K/8");
    if (k % OF_GROUPS != 0)
        return call_fail(call, KILN_BAD_SHAPE, "'%s' has K = %" PRId64 ", expected a multiple of %d", other, k,
                         OF_GROUPS);
    if (kept != k / 2)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'%s' keeps %" PRId64 " of a row's K = %" PRId64 " elements, expected %" PRId64, sparse, kept,
                         k, k / 2);
    if (bytes != k / OF_GROUPS)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'%s_places' has rows of %" PRId64 " bytes for K = %" PRId64 ", expected %" PRId64, sparse,
                         bytes, k, k / OF_GROUPS);
    return KILN_OK;
}

static kiln_status check(Call *call, const kiln_gemm_args *g)
{
    const bool turn = g->b_places != NULL;
    const kiln_tensor *const places = turn ? g->b_places : g->a_places;
    const kiln_tensor *const w = turn ? g->b : g->a, *const x = turn ? g->a : g->b;
    const unsigned types =
        has_type(g->a, 1 << KILN_I8) ? TYPES_FLOAT | TYPES_FP8 | 1 << KILN_I32 : TYPES_FLOAT | TYPES_FP8;
    const unsigned same = has_type(g->c, types) ? 1u << g->c->type : types;
    const char *const of_x =
        turn ? (g->transpose_a ? "X[Z][K][M]" : "X[Z][M][K]") : (g->transpose_b ? "X[Z][N][K]" : "X[Z][K][N]");
    // clang-format off
    const Want wants[] = {
        { IN,          turn ? "b" : "a", call_with_batch(call, w, 3), TYPES_SPARSE, turn ? "W[Z][N][K/2]" : "W[Z][M][K/2]" },
        { IN,          turn ? "b_places" : "a_places", call_with_batch(call, places, 3), 1 << KILN_U8,
                                                                         turn ? "PLACES[Z][N][K/8]" : "PLACES[Z][M][K/8]" },
        { IN,          turn ? "a" : "b", call_with_batch(call, x, 3), 0, of_x },
        { OUT,         "c",        call_with_batch(call, g->c, 3),        types,         "C[Z][M][N]" },
        { IN_OPTIONAL, "a_scales", call_with_batch(call, g->a_scales, 2), 1 << KILN_F32, "[Z][M]" },
        { IN_OPTIONAL, "b_scales", call_with_batch(call, g->b_scales, 2), 1 << KILN_F32, "[Z][N]" },
        { IN_OPTIONAL, "bias",     g->bias,                               same,          "[N]" },
        { IN_OPTIONAL, "residual", call_with_batch(call, g->residual, 3), same,          "RES[Z][M][N]" },
    };
    // clang-format on
    kiln_status status = check_options(call, g);
    if (!status) status = call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
    return status ? status : check_halves(call, g);
}

static int64_t rounds_of(const Call *call, int64_t rows, int64_t columns, int width)
{
    const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS * ((columns + width - 1) / width);
    const int processors = ops_processors(call->ops);
    return (call_extent(call, "Z") * tiles + processors - 1) / processors;
}

// Tiles twice as wide read less for a product: they take 11 of 12 of the time (one H200), where the last round is as full. Scales
// and what is added to a result find no registers beside one.
static bool takes_wide(const Call *call, const kiln_gemm_args *g, int64_t rows, int64_t columns)
{
    return ops_on_hopper(call->ops) && has_type(g->a, TYPES_16) && !g->b_places && !g->residual && !g->a_scales &&
           !g->b_scales &&
           11 * 2 * rounds_of(call, rows, columns, WIDE_COLUMNS) <= 12 * rounds_of(call, rows, columns, TILE_ROWS);
}

kiln_status gemm_prepare_sparse(Call *call, const kiln_gemm_args *g)
{
    const bool turn = g->b_places != NULL;
    const kiln_status status = check(call, g);
    if (status) return status;
    const int64_t m = call_extent(call, "M"), n = call_extent(call, "N"), rows = turn ? n : m, columns = turn ? m : n;
    const int bx = columns <= FEW_ROWS                  ? FEW_ROWS
                   : columns <= SOME_ROWS               ? SOME_ROWS
                   : takes_wide(call, g, rows, columns) ? WIDE_COLUMNS
                                                        : TILE_ROWS;
    const int64_t tiles = call_extent(call, "Z") * ((rows + TILE_ROWS - 1) / TILE_ROWS) * ((columns + bx - 1) / bx);
    const int bw = bx < TILE_ROWS && tiles < ops_processors(call->ops) ? TILE_ROWS / 2 : TILE_ROWS;
    const kiln_status found = call_kernel(
        call, "gemm/sparse_any.tile", "gemm_sparse",
        "T=%s, TC=%s, TURN=%s, K_ROWS=%s, ACT=%d, BW=%d, BX=%d%-s%-s%-s%-s", kiln_type_name(g->a->type),
        kiln_type_name(g->c->type), yes(turn), yes(turn ? !g->transpose_a : g->transpose_b), (int)g->activation, bw, bx,
        LACKS(g->a_scales, "SA"), LACKS(g->b_scales, "SB"), LACKS(g->bias, "BIAS"), LACKS(g->residual, "RES"));
    call_add(call, KILN_FLOAT(g->scale ? *g->scale : 1));
    return found;
}

// ---- packing

// Rows of a batch as rows.
static void flatten(Call *call, int i)
{
    const kiln_tensor *const t = call->tensors[i];
    if (!t || t->rank < 2) return;
    kiln_tensor flat = *t;
    const bool is_list = i == 3; // EXCESS
    flat.rank = is_list ? 1 : 2;
    flat.shape[0] = t->shape[0] * t->shape[1], flat.shape[1] = t->shape[2];
    flat.has_strides = false;
    call->tensors[i] = call_keep(call, &flat);
}

kiln_status kiln_sparse24_pack(kiln_ops *ops, kiln_stream *stream, const kiln_sparse24_pack_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_sparse24_pack", ops, a, FORM(kiln_sparse24_pack_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "weights", call_with_batch(&call, a->weights, 3), TYPES_SPARSE,  "[Z][R][K]" },
        { OUT,          "values",  call_with_batch(&call, a->values, 3),  0,             "[Z][R][K/2]" },
        { OUT,          "places",  call_with_batch(&call, a->places, 3),  1 << KILN_U8,  "[Z][R][K/8]" },
        { OUT_OPTIONAL, "excess",  call_with_batch(&call, a->excess, 2),  1 << KILN_I32, "[Z][R]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (status) return status;
    const int64_t k = call_extent(&call, "K"), kept = call_extent(&call, "K/2"), bytes = call_extent(&call, "K/8");
    if (k % OF_GROUPS != 0)
        return call_fail(&call, KILN_BAD_SHAPE, "'weights' has K = %" PRId64 ", expected a multiple of %d", k,
                         OF_GROUPS);
    if (kept != k / 2 || bytes != k / OF_GROUPS)
        return call_fail(&call, KILN_BAD_SHAPE, "'%s' has rows of %" PRId64 " for K = %" PRId64 ", expected %" PRId64,
                         kept != k / 2 ? "values" : "places", kept != k / 2 ? kept : bytes, k,
                         kept != k / 2 ? k / 2 : k / OF_GROUPS);
    if (!a->excess && !a->prune) return call_fail(&call, KILN_BAD_ARGUMENT, "'excess' is null, but 'prune' is false");
    if (k == 0 && !a->excess) return KILN_OK; // however many rows that is
    for (int i = 0; i < COUNT(wants); i++) flatten(&call, i);
    status = call_kernel(&call, "gemm/sparse_any.tile", "sparse24_pack", "T=%s%-s", kiln_type_name(a->weights->type),
                         LACKS(a->excess, "EXCESS"));
    return status ? status : call_run(&call, stream, NULL, 0);
}
