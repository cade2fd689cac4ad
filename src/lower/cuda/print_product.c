// SPDX-License-Identifier: MIT
// print_product.c - printing: products by their kind, and register fences.
//
// before: a product's tiles are declared and what it must not overtake has been waited for
// after:  it is issued, with its parts
#include "lower/cuda/actions.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/product.h"

void fence_registers(Lowering *lo, const TileInfo *acc, Var *registers)
{
    emit_call(lo, arena_printf(lo->arena, "fence_registers<%d>", layout_registers(&acc->layout)), 1,
              var_of(lo, registers));
}

void print_register_fence(Lowering *lo, const Action *action)
{
    const TileInfo *const tile = lo->declared.items[action->registers.tile];
    fence_registers(lo, tile, tile->registers);
}

// A left operand that stays the same through a loop, to registers.
void print_preload(Lowering *lo, const Action *action)
{
    Product *const p = op_info(lo, action->op)->product;
    const Operand *const a = &p->left;
    const int steps = p->k / 16, rows = p->row_blocks;
    p->preloaded =
        emit_array(lo, DTYPE_U32, arena_printf(lo->arena, "%s_words", a->region.buffer->name), 4 * steps * rows);
    Expr *line = i32_mul(lo, var_of(lo, lo->warp), 16);
    if (lo->partition.groups > 1) line = i32_add(lo, line, i32_mul(lo, var_of(lo, lo->group), 64 * rows));
    for (int block = 0; block < rows; block++)
        for (int step = 0; step < steps; step++)
            load_four(lo, a, false, i32_add(lo, line, i32_const(lo, 64 * block)), i32_const(lo, 16 * step), true,
                      p->preloaded, i32_const(lo, 4 * (block * steps + step)));
}

void print_product(Lowering *lo, const Action *action)
{
    Product *const p = op_info(lo, action->op)->product;
    switch (p->kind) {
    case PRODUCT_WGMMA: emit_wgmma(lo, p); return;
    case PRODUCT_MMA: emit_mma(lo, p); return;
    case PRODUCT_FMA: emit_fma(lo, p); return;
    case PRODUCT_LOOP: print_parts(lo); return;
    }
}
