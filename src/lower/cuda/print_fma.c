// SPDX-License-Identifier: MIT
// print_fma.c - printing: a product by multiply-adds (fma.c) is one call of the prelude's template (fma.cuh).
#include "lower/cuda/product.h"
#include "lower/cuda/print.h"

static const char *operand_class(Lowering *lo, const Operand *x, bool along, int runs, int run, int stride)
{
    const SharedLayout *const s = &tile_info(lo, x->region.buffer)->shared;
    int64_t start[2], width[2];
    product_region(&x->region, start, width);
    return arena_printf(lo->arena, "FmaOperand<%s, FmaTile<%d, %d, %d>, %s, %d, %d, %d, %d, %d>", fma_class(x->type),
                        s->swizzle_bytes, s->pitch_bytes, s->panel_bytes, along ? "false" : "true", runs, run, stride,
                        (int)start[0], (int)start[1]);
}

void emit_fma(Lowering *lo, Product *p)
{
    TileOp *const op = p->op;
    const Operand *const a = &p->left, *const b = &p->right;
    const RegisterTile *const t = &p->rectangle;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const int pa = fma_piece(a->type), pb = fma_piece(b->type);
    if (!op->matmul.accumulate) emit_zeros(lo, acc);
    const char *const name =
        arena_printf(lo->arena, "fma_product<%s, %s, %d, %d>",
                     operand_class(lo, a, fma_is_along(a, true), t->row_runs, t->row_run, t->row_stride),
                     operand_class(lo, b, fma_is_along(b, false), t->column_runs, t->column_run, t->column_stride),
                     pa < pb ? pa : pb, p->k);
    emit_call(lo, name, 5, var_of(lo, acc->registers), var_of(lo, tile_info(lo, a->region.buffer)->pointer),
              thread_part(lo, &t->layout, 0), var_of(lo, tile_info(lo, b->region.buffer)->pointer),
              thread_part(lo, &t->layout, 1));
}
