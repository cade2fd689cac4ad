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
#include "lower/gpu/decide/convert_layout.h"
#include "lower/gpu/decide/explain.h"
#include "lower/gpu/decide/walk.h"
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

bool plan_conversion(Lowering *lo, const TileOp *op, ConversionPlan *plan)
{
    if (!copies_fragment(lo, op)) return false;
    const TileInfo *const from = fragment_of(lo, &op->copy.src), *const to = fragment_of(lo, &op->copy.dst);
    const ConversionTarget target = { lo->partition, dtype_bits(from->buffer->type), false, false, false };
    Conversion how;
    if (!from->has_layout || !to->has_layout || layout_equal(&from->layout, &to->layout) ||
        layout_convert(&from->layout, &to->layout, &target, &how))
        return false;
    if (how.kind == CONVERT_SHARED && !(from->is_accumulator && to->is_accumulator)) return false;
    if (plan) *plan = (ConversionPlan){ PLAN_CONVERSION, from, to, how };
    return true;
}

void explain_conversion(Lowering *lo, const TileOp *op)
{
    static const char *const steps[] = { "selection", "exchange", "shuffle", "gather" };
    ConversionPlan plan;
    if (!plan_conversion(lo, op, &plan)) return;
    const Conversion *const how = &plan.how;
    Text *const out = lo->explanation;
    text_print(out, "  line %s: %s converted to the layout of %s by ", line_of(lo, op), plan.from->buffer->name,
               plan.to->buffer->name);
    for (int i = 0; i < how->n_steps; i++) text_print(out, "%s%s", i ? ", " : "", steps[how->step[i].kind]);
    if (how->kind == CONVERT_SHARED) text_print(out, "shared memory, as %s", how->why);
    else if (how->n_steps == 0) text_print(out, "other names of registers");
    text_print(out, "; about %d cycles of a warp\n", how->cost);
}

int conversion_scratch_bytes(Lowering *lo, const TileOp *op)
{
    ConversionPlan plan;
    return plan_conversion(lo, op, &plan) && plan.how.kind == CONVERT_SHARED ? plan.how.shared.bytes : 0;
}

void act_conversion(Lowering *lo, TileOp *op, const ConversionPlan *plan)
{
    ConversionPlan *const kept = NEW(lo->arena, ConversionPlan);
    *kept = *plan;
    Action *const action =
        open_action(lo, (Action){ .kind = ACTION_MAP, .op = op, .map = { .how = MAP_CONVERT }, .print = kept });
    record_accesses(lo, action, op);
    if (plan->how.kind == CONVERT_SHARED) {
        act_sync(lo); // earlier readers of the scratch
        act_sync(lo);
    }
    close_action(lo);
}
