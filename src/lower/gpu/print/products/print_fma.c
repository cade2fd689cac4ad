// SPDX-License-Identifier: MIT
// print_fma.c - printing: a product by multiply-adds (fma.c) is one call of the prelude's template (fma.cuh).
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/print/products/print_product.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/info.h"

static const char *operand_class(Printer *pr, const Operand *x, bool along, int runs, int run, int stride)
{
    const SharedLayout *const s = &tile_info(pr->lo, x->region.buffer)->shared;
    int64_t start[2], width[2];
    product_region(&x->region, start, width);
    return arena_printf(pr->arena, "FmaOperand<%s, FmaTile<%d, %d, %d>, %s, %d, %d, %d, %d, %d>", fma_class(x->type),
                        s->swizzle_bytes, s->pitch_bytes, s->panel_bytes, along ? "false" : "true", runs, run, stride,
                        (int)start[0], (int)start[1]);
}

void emit_fma(Printer *pr, Product *p)
{
    TileOp *const op = p->op;
    const Operand *const a = &p->left, *const b = &p->right;
    const RegisterTile *const t = &p->rectangle;
    const TileInfo *const acc = tile_info(pr->lo, op->matmul.dst.buffer);
    const int pa = fma_piece(a->type), pb = fma_piece(b->type);
    if (!op->matmul.accumulate) emit_zeros(pr, acc);
    const char *const name =
        arena_printf(pr->arena, "fma_product<%s, %s, %d, %d>",
                     operand_class(pr, a, fma_is_along(a, true), t->row_runs, t->row_run, t->row_stride),
                     operand_class(pr, b, fma_is_along(b, false), t->column_runs, t->column_run, t->column_stride),
                     pa < pb ? pa : pb, p->k);
    emit_call(pr, name, 5, var_of(pr, tile_vars(pr, acc)->registers),
              var_of(pr, tile_vars(pr, tile_info(pr->lo, a->region.buffer))->pointer), thread_part(pr, &t->layout, 0),
              var_of(pr, tile_vars(pr, tile_info(pr->lo, b->region.buffer))->pointer), thread_part(pr, &t->layout, 1));
}
