// SPDX-License-Identifier: MIT
// gemm_blocks.c - the operators of kiln/ops/gemm.h over kernels/quant/fp8_block.tile: e4m3, each 1 x 128 of a and each 128 x 128 of b
// with a scale.
#include "ops/gemm_blocks.h"

#include <inttypes.h>

enum { BLOCK = 128, FEW_ROWS = 16, FEW_TILES_ROWS = 64, TILE_ROWS = 128, PART_BLOCKS = 32, FEW_PARTS = 4 };

// ---- kernels

// Whether each multiprocessor has a tile of two blocks' columns.
static bool fills_wide_tiles(const Call *call, int64_t m)
{
    const int64_t across = (call_extent(call, "N") + 2 * BLOCK - 1) / (2 * BLOCK);
    return (m + TILE_ROWS - 1) / TILE_ROWS * across >= ops_processors(call->ops);
}

// At most 16 rows of a matrix with long rows that do not fill the processors: parts along K.
static bool takes_parts(const Call *call)
{
    const int64_t tiles = (call_extent(call, "N") + FEW_TILES_ROWS - 1) / FEW_TILES_ROWS;
    return !ops_on_cpu(call->ops) && call_extent(call, "M") <= FEW_ROWS && tiles <= ops_processors(call->ops) &&
           call_extent(call, "BLOCKS") >= PART_BLOCKS;
}

static kiln_status choose_parts(Call *call, kiln_type result, const kiln_tensor *bias, bool by_columns)
{
    const int64_t least = (call_extent(call, "BLOCKS") + PART_BLOCKS - 1) / PART_BLOCKS;
    const kiln_status status = call_kernel(call, "quant/fp8_block.tile", "fp8_block_few", "TC=%s, COLUMNS=%s%-s",
                                           kiln_type_name(result), yes(by_columns), LACKS(bias, "BIAS"));
    call_add(call, KILN_INT(least < FEW_PARTS ? FEW_PARTS : least));
    return status;
}

// Where tiles of 128 x 128 fill a half of the processors or less, narrower ones, four steps of K at once; a quarter, smaller ones.
kiln_status gemm_choose_blocks(Call *call, kiln_type result, const kiln_tensor *bias, bool by_columns)
{
    const int64_t m = call_extent(call, "M"), n = call_extent(call, "N");
    const int64_t tiles = (m + TILE_ROWS - 1) / TILE_ROWS * ((n + BLOCK - 1) / BLOCK);
    const bool on_cpu = ops_on_cpu(call->ops), on_hopper = ops_on_hopper(call->ops);
    const int processors = ops_processors(call->ops);
    const char *const c = kiln_type_name(result), *const without = LACKS(bias, "BIAS");
    const char *const file = "quant/fp8_block.tile", *const columns = yes(by_columns);
    const bool is_small = !on_cpu && (m <= FEW_TILES_ROWS || (on_hopper && 4 * tiles <= processors));
    if (takes_parts(call)) return choose_parts(call, result, bias, by_columns);
    if (!on_cpu && fills_wide_tiles(call, m))
        return call_kernel(call, file, "fp8_block_wide", "TC=%s, COLUMNS=%s%-s", c, columns, without);
    if (on_hopper && !is_small && 2 * tiles <= processors)
        return call_kernel(call, file, "fp8_block_narrow", "TC=%s, COLUMNS=%s%-s", c, columns, without);
    return call_kernel(call, file, "fp8_block", "TC=%s, COLUMNS=%s, BM=%d%s%-s", c, columns,
                       is_small || m <= FEW_TILES_ROWS ? FEW_TILES_ROWS : TILE_ROWS,
                       is_small ? ", BN=64, STAGES=5" : "", without);
}

const char *gemm_row_scales_shape(const kiln_tensor *scales)
{
    return call_has_columns(scales) ? "SA[BLOCKS][M]" : "[M][BLOCKS]";
}

// ---- the operator

// What a product with scales of blocks cannot do.
static kiln_status check_options(const Call *call, const kiln_gemm_args *g)
{
    const struct {
        bool is_given;
        const char *name;
    } others[] = { { g->up || g->up_scales || g->up_bias, "up" },
                   { g->residual, "residual" },
                   { g->scale, "scale" },
                   { g->activation != KILN_ACTIVATION_NONE, "activation" },
                   { g->precision, "precision" },
                   { g->transpose_a, "transpose_a" } };
    for (int i = 0; i < COUNT(others); i++)
        if (others[i].is_given)
            return call_fail(call, KILN_UNSUPPORTED, "'%s' is given, and scales are of blocks, which go without",
                             others[i].name);
    if (!g->transpose_b)
        return call_fail(call, KILN_UNSUPPORTED, "scales are of blocks, expected 'transpose_b' with them");
    return KILN_OK;
}

kiln_status gemm_prepare_blocks(Call *call, const kiln_gemm_args *g)
{
    const int64_t k = g->a->shape[1], n = g->b && g->b->rank == 2 ? g->b->shape[0] : 0;
    const unsigned same = g->c && (unsigned)g->c->type <= KILN_BOOL ? TYPES_FLOAT & 1u << g->c->type : 0;
    kiln_status status = check_options(call, g);
    if (status) return status;
    if (k % BLOCK != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'a' has K = %" PRId64 ", expected a multiple of %d: scales are of blocks", k, BLOCK);
    call_bind(call, "BLOCKS", k / BLOCK, "a");
    call_bind(call, "ROWS", rounded_up(n, BLOCK) / BLOCK, "b");
    const Want wants[] = { { IN, "a", g->a, 1 << KILN_E4M3, "A[M][K]" },
                           { IN, "b", g->b, 1 << KILN_E4M3, "W[N][K]" },
                           { IN, "a_scales", call_by_columns(call, g->a_scales), 1 << KILN_F32,
                             gemm_row_scales_shape(g->a_scales) },
                           { IN, "b_scales", g->b_scales, 1 << KILN_F32, "[ROWS][BLOCKS]" },
                           { IN_OPTIONAL, "bias", g->bias, same ? same : TYPES_FLOAT, "[N]" },
                           { OUT, "c", g->c, TYPES_FLOAT, "C[M][N]" } };
    status = call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
    return status ? status : gemm_choose_blocks(call, g->c->type, g->bias, call_has_columns(g->a_scales));
}
