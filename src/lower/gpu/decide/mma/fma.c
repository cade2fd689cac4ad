// SPDX-License-Identifier: MIT
// fma.c - deciding: products by multiply-adds: what tensor cores do not compute exactly (f32, f64) or cannot read.
//
// Every thread computes a rectangle of the result in registers, from operands in shared memory (fma.cuh); each element
// it loads is used for a whole edge of the rectangle.
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"

enum {
    FMA_REGISTERS = 128,       // of a thread's part of the result
    SWIZZLED_RESULT = 64 * 64, // elements of a result whose operands are worth a swizzle
};

static const char *check_operand(Lowering *lo, const Operand *x)
{
    const TileInfo *const tile = tile_info(lo, x->region.buffer);
    int64_t start[2], width[2], columns;
    if (!tile || tile->buffer->rank != 2) return "an operand is no tile of its own";
    if (x->type != tile->buffer->type) return "an operand is converted";
    if (!fma_class(x->type)) return "an operand's type has no multiply-add";
    if (!product_region(&x->region, start, width)) return "an operand's slice is not at a fixed place";
    if (!expr_as_int(tile->buffer->shape[1], &columns) || columns % fma_piece(x->type) != 0 ||
        row_padding(tile->buffer) % fma_piece(x->type) != 0 || start[1] % fma_piece(x->type) != 0)
        return "an operand's rows cannot be read in whole pieces";
    return NULL;
}

static bool sees_other_result(Lowering *lo, TileOp *op, void *context)
{
    const Product *const product = context;
    if (op->kind == T_MATMUL && op->matmul.dst.buffer != product->op->matmul.dst.buffer)
        op_info(lo, product->op)->product->keeps_rows = true;
    return op->kind == T_FORALL;
}

const char *plan_fma(Lowering *lo, Product *p)
{
    const TileOp *const op = p->op;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const Operand *const a = &p->left, *const b = &p->right;
    if (!acc || acc->buffer->kind != BUFFER_FRAGMENT || acc->storage != TILE_IN_REGISTERS || acc->buffer->rank != 2 ||
        !region_is_whole(&op->matmul.dst))
        return "the result is no whole fragment in registers";
    const DType type = acc->buffer->type;
    if (type != DTYPE_F32 && type != DTYPE_F64 && type != DTYPE_I32) return "the result is rounded after every product";
    if (op->matmul.meta) return "a sparse operand";
    if (dtype_is_float(a->type) != dtype_is_float(type) || dtype_is_float(b->type) != dtype_is_float(type) ||
        dtype_bits(a->type) > dtype_bits(type) || dtype_bits(b->type) > dtype_bits(type))
        return "the result is narrower than the operands";
    const char *why = check_operand(lo, a);
    if (!why) why = check_operand(lo, b);
    if (why) return why;
    const int steps = fma_piece(a->type) < fma_piece(b->type) ? fma_piece(a->type) : fma_piece(b->type);
    if (p->k % steps != 0) return "the contraction is no whole number of pieces";
    each_op(lo, lo->kernel->body, sees_other_result, p);
    if (!layout_register_tile(p->m, p->n, lo->partition, fma_is_along(a, true) ? 1 : fma_piece(a->type),
                              fma_is_along(b, false) ? 1 : fma_piece(b->type), p->keeps_rows,
                              FMA_REGISTERS * 32 / dtype_bits(type), &p->rectangle))
        return "its rows and columns do not divide among the threads";
    return NULL;
}

static void share_operand(Lowering *lo, const Product *p, const Operand *x)
{
    TileInfo *const tile = tile_info(lo, x->region.buffer);
    int64_t rows = 0, columns = 0;
    expr_as_int(tile->buffer->shape[0], &rows);
    expr_as_int(tile->buffer->shape[1], &columns);
    if (tile->storage == TILE_IN_REGISTERS) {
        tile->storage = TILE_IN_SHARED;
        tile->why = "an operand of multiply-adds";
    }
    // Neighbouring rows in different banks; small products gain little, and other statements would pay for the
    // addresses.
    if (!tile->wants_panels && p->m * p->n >= SWIZZLED_RESULT)
        tile->wants_panels = tile_panels(tile, (int)rows, (int)columns, dtype_bits(x->type) / 8, &tile->shared);
}

// False: another product gives the result another layout.
bool finish_fma(Lowering *lo, Product *p)
{
    TileInfo *const acc = tile_info(lo, p->op->matmul.dst.buffer);
    Layout layout = p->rectangle.layout;
    if (p->is_swapped) layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    if (acc->has_layout && !layout_equal(&acc->layout, &layout)) return false;
    acc->layout = layout;
    acc->has_layout = acc->is_accumulator = true;
    acc->laid_by = p->op;
    share_operand(lo, p, &p->left);
    share_operand(lo, p, &p->right);
    return true;
}
