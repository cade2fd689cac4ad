// SPDX-License-Identifier: MIT
// convert_layout.c - deciding: copies between fragments of different layouts, which are explicit conversions.
//
// Two products may fix two layouts of one shape: rows and columns for the groups, a result and a transposed one. A copy
// between the two, made to have one layout, would take one product off the tensor cores. It converts instead: by
// renaming registers, by shuffles, or through the scratch in shared memory if products fix both; a fragment that no
// product fixes is rather kept in shared memory, where its readers take it from (storage.c).
//
// before: both fragments have layouts that other statements fixed (storage.c)
// after:  the copy is a MAP_CONVERT with its plan; through shared memory it has the barriers of its scratch as parts
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/facts/info.h"

static const TileInfo *fragment_of(Lowering *lo, const Region *region)
{
    const TileInfo *const tile = tile_info(lo, region->buffer);
    return tile && tile->storage == TILE_IN_REGISTERS && region_is_whole(region) ? tile : NULL;
}

// Placed statements run in groups that have barriers and layouts of their own.
bool copies_fragment(Lowering *lo, const TileOp *op)
{
    if (op->kind != T_COPY || lo->kernel->checked || lo->is_specialised) return false;
    const TileInfo *const from = fragment_of(lo, &op->copy.src), *const to = fragment_of(lo, &op->copy.dst);
    return from && to && from != to && from->buffer->type == to->buffer->type &&
           from->buffer->rank == to->buffer->rank && dtype_bits(from->buffer->type) >= 8;
}

static bool is_by_matrices(const Conversion *how)
{
    return how->kind == CONVERT_SHARED && how->stores.access != BY_VECTORS && how->loads.access != BY_VECTORS;
}

static bool is_complete(const Layout *layout)
{
    for (int d = 0; d < layout->rank; d++)
        if (layout_coverage(layout, d) != layout->extent[d]) return false;
    return true;
}

// A word that ldmatrix loads is two neighbouring registers.
static bool has_words(const SharedTransfer *load)
{
    return transfer_register(load, 1, 0) == transfer_register(load, 0, 0) + 1;
}

// Both sides of a way through `shared`, by vectors or by matrices.
static bool plan_sides(const Lowering *lo, const Layout *from, const Layout *to, const Conversion *how,
                       const SharedLayout *shared, SharedTransfer *store, SharedTransfer *load)
{
    const bool has_matrices = is_by_matrices(how);
    TransferOptions options = { .partition = lo->partition,
                                .element_bytes = shared->element_bytes,
                                .has_matrices = has_matrices };
    if (!is_complete(from) || !is_complete(to) || !plan_transfer(lo->arena, to, shared, &options, load)) return false;
    options.is_store = true;
    return plan_transfer(lo->arena, from, shared, &options, store) &&
           has_matrices == (store->side.access != BY_VECTORS) && has_matrices == (load->side.access != BY_VECTORS) &&
           (!has_matrices || has_words(load));
}

// Matrices on both sides, or on neither: the scratch is filled and read by one kind of instruction.
bool find_conversion(const Lowering *lo, const TileInfo *from, const Layout *to, Conversion *how)
{
    SharedTransfer store, load;
    ConversionTarget target = { .partition = lo->partition, .element_bits = dtype_bits(from->buffer->type) };
    target.has_stmatrix = target.has_ldmatrix = lo->gpu->stmatrix && target.element_bits == 16;
    if (layout_convert(&from->layout, to, &target, how)) return false;
    if (!target.has_stmatrix || how->kind != CONVERT_SHARED ||
        (is_by_matrices(how) && plan_sides(lo, &from->layout, to, how, &how->shared, &store, &load)))
        return true;
    target.has_stmatrix = target.has_ldmatrix = false;
    return !layout_convert(&from->layout, to, &target, how);
}

bool converts_in_pieces(const Conversion *how, DType type) { return type == DTYPE_F32 || is_by_matrices(how); }

bool plan_conversion(Lowering *lo, const TileOp *op, ConversionPlan *plan)
{
    if (!copies_fragment(lo, op)) return false;
    const TileInfo *const from = fragment_of(lo, &op->copy.src), *const to = fragment_of(lo, &op->copy.dst);
    Conversion how;
    if (!from->has_layout || !to->has_layout || layout_equal(&from->layout, &to->layout) ||
        !find_conversion(lo, from, &to->layout, &how))
        return false;
    if (how.kind == CONVERT_SHARED && !to->is_converted && !(from->is_accumulator && to->is_accumulator)) return false;
    if (plan) *plan = (ConversionPlan){ .form = PLAN_CONVERSION, .from = from, .to = to, .how = how };
    return true;
}

// So many rows at a time.
static bool plan_parts(Lowering *lo, ConversionPlan *plan, int rows)
{
    SharedLayout part = plan->how.shared;
    part.panel_bytes = rows * part.pitch_bytes;
    part.bytes = part.bytes / part.rows * rows;
    plan->rows = rows;
    plan->parts = part.rows / rows;
    return converts_in_pieces(&plan->how, plan->from->buffer->type) &&
           plan_sides(lo, &plan->from->layout, &plan->to->layout, &plan->how, &part, &plan->store, &plan->load);
}

// As large parts as there is room for, of whole repetitions of the swizzle.
static void plan_pieces(Lowering *lo, ConversionPlan *plan)
{
    enum { SWIZZLE_ROWS = 8 };
    const SharedLayout *const shared = &plan->how.shared;
    int rows = shared->rows;
    while (lo->conversion_most && shared->bytes / shared->rows * rows > lo->conversion_most &&
           rows % (2 * SWIZZLE_ROWS) == 0)
        rows /= 2;
    plan->by_pieces = plan_parts(lo, plan, rows);
    if (plan->by_pieces) return;
    plan->rows = shared->rows;
    plan->parts = 1;
}

void explain_conversion(Lowering *lo, const TileOp *op)
{
    static const char *const steps[] = { "selection", "exchange", "shuffle", "gather" };
    ConversionPlan plan;
    if (!plan_conversion(lo, op, &plan)) return;
    const Conversion *const how = &plan.how;
    Text *const out = lo->explanation;
    text_print(out, "  line %s: %s converted ", line_of(lo, op), plan.from->buffer->name);
    if (plan.to->is_converted) text_print(out, "for this forall by ");
    else text_print(out, "to the layout of %s by ", plan.to->buffer->name);
    for (int i = 0; i < how->n_steps; i++) text_print(out, "%s%s", i ? ", " : "", steps[how->step[i].kind]);
    if (is_by_matrices(how)) text_print(out, "stmatrix and ldmatrix through ");
    if (how->kind == CONVERT_SHARED) text_print(out, "shared memory, as %s", how->why);
    else if (how->n_steps == 0) text_print(out, "renaming registers");
    text_print(out, "; about %d cycles of a warp\n", how->cost);
}

int conversion_scratch_bytes(Lowering *lo, const TileOp *op)
{
    ConversionPlan plan;
    if (!plan_conversion(lo, op, &plan) || plan.how.kind != CONVERT_SHARED) return 0;
    plan_pieces(lo, &plan);
    return plan.how.shared.bytes / plan.parts;
}

static void act_side(Lowering *lo, const ConversionPlan *plan, int part, bool is_load)
{
    const ConversionPart *const side =
        NEW(lo->arena, ConversionPart, .form = PLAN_CONVERSION_PART, .plan = plan, .part = part, .is_load = is_load);
    Action *const action =
        act(lo, (Action){ .kind = ACTION_MAP, .map = { .how = is_load ? MAP_CONVERT : MAP_STAGE }, .print = side });
    schedule_access(lo->builder.schedule, action,
                    (TileAccess){ .tile = lo->scratch, .reads = is_load, .writes = !is_load });
    access_tile(lo, action, is_load ? plan->to : plan->from, !is_load, is_load, false);
}

void act_conversion(Lowering *lo, TileOp *op, const ConversionPlan *plan)
{
    ConversionPlan *const kept = NEW(lo->arena, ConversionPlan);
    *kept = *plan;
    if (plan->how.kind == CONVERT_SHARED) plan_pieces(lo, kept);
    Action *const action =
        open_action(lo, (Action){ .kind = ACTION_MAP, .op = op, .map = { .how = MAP_CONVERT }, .print = kept });
    record_accesses(lo, action, op);
    for (int part = 0; part < kept->parts; part++) {
        act_sync(lo); // earlier readers of the scratch
        act_side(lo, kept, part, false);
        act_sync(lo);
        act_side(lo, kept, part, true);
    }
    close_action(lo);
}

// ---- to tiles that products read

// The general path stores pairs, each with an address of its own.
static bool find_transfer(Lowering *lo, const TileOp *op, TransferPlan *plan)
{
    const TileInfo *const from = tile_info(lo, op->copy.src.buffer), *const to = tile_info(lo, op->copy.dst.buffer);
    if (op->kind != T_COPY || !lo->gpu->stmatrix || lo->partition.warps != 4 || !from || !to ||
        from->storage != TILE_IN_REGISTERS || to->storage != TILE_IN_SHARED || !to->wants_panels ||
        !to->shared.swizzle_bytes || !region_is_whole(&op->copy.src) || !region_is_whole(&op->copy.dst) ||
        dtype_bits(to->buffer->type) != 16 || !dtype_is_float(to->buffer->type) ||
        (from->buffer->type != DTYPE_F32 && from->buffer->type != to->buffer->type))
        return false;
    const TransferOptions options = {
        .partition = lo->partition, .element_bytes = 2, .is_store = true, .has_matrices = true
    };
    *plan = (TransferPlan){ .form = PLAN_TRANSFER, .from = from, .to = to };
    return plan_transfer(lo->arena, &from->layout, &to->shared, &options, &plan->how) &&
           plan->how.side.access != BY_VECTORS;
}

bool copy_is_transfer(Lowering *lo, const TileOp *op)
{
    TransferPlan plan;
    return find_transfer(lo, op, &plan);
}

const TransferPlan *plan_copy_transfer(Lowering *lo, const TileOp *op)
{
    TransferPlan found;
    if (!find_transfer(lo, op, &found)) return NULL;
    TransferPlan *const plan = NEW(lo->arena, TransferPlan);
    *plan = found;
    return plan;
}
