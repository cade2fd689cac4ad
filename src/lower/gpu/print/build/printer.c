// SPDX-License-Identifier: MIT
// printer.c - printing: the state of the pass, and the variables of what was decided.
#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/roles.h"

Printer *new_printer(const Lowering *lo, PrintTree *print_tree)
{
    Arena *const a = lo->arena;
    const Table none = { .arena = a };
    Printer *const pr =
        NEW(a, Printer, .arena = a, .own = *lo, .unit = NEW(a, LoopUnit, .arena = a), .helpers = { .arena = a },
            .tensors = NEW_ARRAY(a, Var *, lo->kernel->n_buffers + 1), .tile_vars = none, .ring_vars = none,
            .product_vars = none, .op_vars = none, .early_loads = none, .print_tree = print_tree);
    pr->lo = &pr->own;
    leave_role(&pr->own);
    return pr;
}

void set_partition(Printer *pr, Partition partition) { pr->own.partition = partition; }

Iteration *early_loads(Printer *pr, const Iteration *planned)
{
    void **const at = table_at(&pr->early_loads, planned);
    if (!*at) {
        *at = NEW(pr->arena, Iteration);
        *(Iteration *)*at = *planned;
    }
    return *at;
}

TileVars *tile_vars(Printer *pr, const TileInfo *tile)
{
    void **const at = table_at(&pr->tile_vars, tile);
    if (!*at) *at = NEW(pr->arena, TileVars);
    return *at;
}

RingVars *ring_vars(Printer *pr, const RingState *ring_state)
{
    void **const at = table_at(&pr->ring_vars, ring_state);
    if (!*at) *at = NEW(pr->arena, RingVars);
    return *at;
}

ProductVars *product_vars(Printer *pr, const Product *product)
{
    void **const at = table_at(&pr->product_vars, product);
    if (!*at) *at = NEW(pr->arena, ProductVars);
    return *at;
}

OpVars *op_vars(Printer *pr, const OpInfo *info)
{
    void **const at = table_at(&pr->op_vars, info);
    if (!*at) *at = NEW(pr->arena, OpVars);
    return *at;
}
