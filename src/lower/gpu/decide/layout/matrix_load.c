// SPDX-License-Identifier: MIT
// matrix_load.c - deciding: a part of a 16-bit shared tile, as it is or transposed, into a fragment of which ldmatrix fills
// the registers, as it does those of accumulators.
//
// The general path loads a pair at a time, each with an address of its own; transposed, single elements.
//
// before: the fragment has a layout      after: the layout engine's plan says which rows an instruction takes, and to
//                                               which registers it brings them
#include "lower/gpu/decide/layout/matrix_load.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

// The place in the tile: a corner, and the two indices in either order.
static bool find_corner(Lowering *lo, const TileOp *map, const Expr *load, MatrixLoadPlan *plan)
{
    Var *const indices[2] = { map->forall.indices[0].var, map->forall.indices[1].var };
    int64_t factor[2][2], extents[2];
    Expr *rest[2];
    for (int d = 0; d < 2; d++)
        if (!expr_affine(lo->arena, load->load.subs[d], indices, 2, factor[d], &rest[d]) ||
            !full_extent(&map->forall.indices[d], &extents[d]))
            return false;
    const bool across = factor[0][0] == 0;
    if (factor[0][across] != 1 || factor[1][!across] != 1 || factor[0][!across] != 0 || factor[1][across] != 0 ||
        expr_multiple(rest[1]) % 8 != 0)
        return false;
    Sub *const subs = NEW_ARRAY(lo->arena, Sub, 2);
    for (int d = 0; d < 2; d++)
        subs[d] =
            (Sub){ .is_range = true, .start = rest[d], .width = int_const(lo->arena, extents[across ? 1 - d : d]) };
    plan->from = (Operand){ .region = { .buffer = load->load.buffer, .subs = subs },
                            .transposed = across,
                            .type = load->load.buffer->type };
    return true;
}

static bool is_readable(Lowering *lo, const Buffer *buffer)
{
    const TileInfo *const tile = buffer->kind == BUFFER_SHARED ? tile_info(lo, buffer) : NULL;
    return tile && tile->storage == TILE_IN_SHARED && buffer->rank == 2 && dtype_bits(buffer->type) == 16 &&
           tile->shared.pitch_bytes % 16 == 0;
}

static bool is_load(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL;
}

// ---- runs of instructions, which printing prints as loops

enum { MATRICES = 4 }; // of an instruction

static int first_register(const MatrixLoadPlan *plan, int i) { return transfer_register(&plan->how, 0, MATRICES * i); }

static bool are_runs(const MatrixLoadPlan *plan, int run)
{
    const PieceAddress *const at = plan->how.address;
    for (int i = 1; i < plan->how.n; i++)
        if (i % run != 0 &&
            (at[i].row - at[i - 1].row != plan->row_step || at[i].column - at[i - 1].column != plan->column_step ||
             first_register(plan, i) - first_register(plan, i - 1) != plan->register_step))
            return false;
    return plan->how.n % run == 0;
}

static void find_runs(MatrixLoadPlan *plan)
{
    const PieceAddress *const at = plan->how.address;
    plan->run = plan->how.n;
    if (plan->run > 1) {
        plan->row_step = at[1].row - at[0].row;
        plan->column_step = at[1].column - at[0].column;
        plan->register_step = first_register(plan, 1) - first_register(plan, 0);
    }
    while (!are_runs(plan, plan->run)) plan->run--;
}

// ---- which loads

// A transposed slice is the tile's: there the fragment's columns are rows.
static bool is_by_matrices(Lowering *lo, MatrixLoadPlan *plan)
{
    const TransferOptions options = {
        .partition = lo->partition, .element_bytes = 2, .has_matrices = true, .anywhere = true
    };
    Layout slice = plan->to->layout;
    if (plan->from.transposed) slice = layout_project(&slice, 2, (int[]){ 1, 0 });
    SharedLayout shared = tile_info(lo, plan->from.region.buffer)->shared;
    shared.columns = slice.extent[1]; // from the corner on
    return plan_transfer(lo->arena, &slice, &shared, &options, &plan->how) && plan->how.side.access != BY_VECTORS;
}

static bool find_load(Lowering *lo, TileOp *op, MatrixLoadPlan *plan)
{
    if (lo->kernel->checked || lo->partition.warps != 4 || (op->kind != T_FORALL && op->kind != T_COPY)) return false;
    const TileOp *const map = as_map(lo, op), *const store = map->forall.body;
    int which[MAX_RANK];
    if (map->forall.n != 2 || !store || store->next || store->kind != T_STORE || store->store.value->kind != E_LOAD ||
        !is_fragment_in_registers(lo, store->store.buffer) || store->store.buffer->rank != 2 ||
        !subscripts_are_indices(store->store.subs, 2, map->forall.indices, 2, which) || which[0] != 0)
        return false;
    const Expr *const load = store->store.value;
    const TileInfo *const to = tile_info(lo, store->store.buffer);
    Division division;
    if (load->load.buffer->type != to->buffer->type || to->is_packed || !is_readable(lo, load->load.buffer) ||
        !layout_is_accumulator(&to->layout, lo->partition, &division) || division != DIVIDE_ROWS)
        return false;
    plan->form = PLAN_MATRIX_LOAD;
    plan->to = to;
    if (!find_corner(lo, map, load, plan) || !is_by_matrices(lo, plan)) return false;
    return !expr_any(plan->from.region.subs[0].start, is_load, NULL) &&
           !expr_any(plan->from.region.subs[1].start, is_load, NULL);
}

const MatrixLoadPlan *plan_matrix_load(Lowering *lo, TileOp *op)
{
    MatrixLoadPlan found = { 0 };
    if (!find_load(lo, op, &found)) return NULL;
    MatrixLoadPlan *const plan = NEW(lo->arena, MatrixLoadPlan);
    *plan = found;
    find_runs(plan);
    return plan;
}
