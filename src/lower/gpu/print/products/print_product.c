// SPDX-License-Identifier: MIT
// print_product.c - printing: products by their kind, and register fences.
//
// before: a product's tiles are declared and what it must not overtake has been waited for
// after:  it is issued, with its parts
#include "lower/gpu/print/products/print_product.h"
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/info.h"

void fence_registers(Printer *pr, const TileInfo *acc, Var *registers)
{
    emit_call(pr, arena_printf(pr->arena, "fence_registers<%d>", layout_registers(&acc->layout)), 1,
              var_of(pr, registers));
}

void print_register_fence(Printer *pr, const Action *action)
{
    const TileInfo *const tile = pr->lo->declared.items[action->registers.tile];
    fence_registers(pr, tile, tile_vars(pr, tile)->registers);
}

// A left operand that stays the same through a loop, to registers.
void print_preload(Printer *pr, const Action *action)
{
    Product *const p = info_of(pr->lo, action->op)->product;
    const Operand *const a = &p->left;
    const int steps = p->k / 16, rows = p->row_blocks;
    product_vars(pr, p)->preloaded =
        emit_array(pr, DTYPE_U32, arena_printf(pr->arena, "%s_words", a->region.buffer->name), 4 * steps * rows);
    Expr *line = i32_mul(pr, var_of(pr, pr->warp), 16);
    if (pr->lo->partition.groups > 1) line = i32_add(pr, line, i32_mul(pr, var_of(pr, pr->group), 64 * rows));
    for (int block = 0; block < rows; block++)
        for (int step = 0; step < steps; step++)
            load_words(pr, a, &p->left_load, i32_add(pr, line, i32_const(pr, 64 * block)), i32_const(pr, 16 * step),
                       product_vars(pr, p)->preloaded, i32_const(pr, 4 * (block * steps + step)));
}

void print_product(Printer *pr, const Action *action)
{
    Product *const p = info_of(pr->lo, action->op)->product;
    switch (p->kind) {
    case PRODUCT_WGMMA: emit_wgmma(pr, p); return;
    case PRODUCT_MMA: emit_mma(pr, p); return;
    case PRODUCT_FMA: emit_fma(pr, p); return;
    case PRODUCT_LOOP: print_parts(pr); return;
    }
}
