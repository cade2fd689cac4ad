// SPDX-License-Identifier: MIT
// print_convert_layout.c - printing: a fragment's values in the registers of another layout (convert_layout.c).
//
// Each step fills a new array in an unrolled loop; registers that only change their numbers cost nothing.
#include "lower/gpu/print/layout/print_convert_layout.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/facts/values.h"

static Expr *element(Printer *pr, Var *array, Expr *at) { return expr_index(pr->arena, array, at); }

static Expr *modulo(Printer *pr, Expr *x, int64_t n) { return n == 1 ? i32_const(pr, 0) : i32_op(pr, X_MOD, x, n); }
static Expr *quotient(Printer *pr, Expr *x, int64_t n) { return n == 1 ? x : i32_op(pr, X_DIV, x, n); }

// ---- steps

static Expr *thread_mode_value(Printer *pr, const ConversionStep *step)
{
    Var *const numbers[IN_COUNT] = { [IN_LANE] = pr->lane, [IN_WARP] = pr->warp, [IN_GROUP] = pr->group };
    return modulo(pr, quotient(pr, var_of(pr, numbers[step->by]), step->by_stride), step->extent);
}

static Expr *has_bit(Printer *pr, const ConversionStep *step)
{
    return i32_op(pr, X_EQ, thread_mode_value(pr, step), 1);
}

static Expr *received(Printer *pr, const ConversionStep *step, Expr *sent)
{
    Expr *const got = call_expr(pr, sent->type, "shuffle_xor", 2, sent, i32_const(pr, step->by_stride));
    return var_of(pr, emit_declare(pr, sent->type, "got", got));
}

// The register number with the value of a mode inserted: high * extent * stride + mode_value * stride + low.
static Expr *with_mode_value(Printer *pr, const ConversionStep *step, Expr *r, int mode_value)
{
    Expr *const high = i32_mul(pr, quotient(pr, r, step->stride), (int64_t)step->extent * step->stride);
    return i32_add(pr, i32_add(pr, high, modulo(pr, r, step->stride)),
                   i32_const(pr, (int64_t)mode_value * step->stride));
}

static void print_select(Printer *pr, const ConversionStep *step, Var *from, Var *to)
{
    Nest nest;
    Var *const r = begin_unrolled(pr, &nest, "r", step->registers);
    Expr *value = element(pr, from, with_mode_value(pr, step, var_of(pr, r), 0));
    for (int mode_value = 1; mode_value < step->extent; mode_value++)
        value = expr_select(pr->arena, i32_op(pr, X_EQ, thread_mode_value(pr, step), mode_value),
                            element(pr, from, with_mode_value(pr, step, var_of(pr, r), mode_value)), value);
    emit_element(pr, to, var_of(pr, r), value);
    end_nest(pr, &nest);
}

static void print_exchange(Printer *pr, const ConversionStep *step, Var *from, Var *to)
{
    Nest nest;
    Expr *const r = var_of(pr, begin_unrolled(pr, &nest, "r", step->registers / 2)), *const bit = has_bit(pr, step);
    Expr *const even = element(pr, from, with_mode_value(pr, step, r, 0));
    Expr *const odd = element(pr, from, with_mode_value(pr, step, r, 1));
    Expr *const got = received(pr, step, expr_select(pr->arena, bit, even, odd));
    emit_element(pr, to, with_mode_value(pr, step, r, 0), expr_select(pr->arena, bit, got, even));
    emit_element(pr, to, with_mode_value(pr, step, r, 1), expr_select(pr->arena, bit, odd, got));
    end_nest(pr, &nest);
}

static void print_lanes(Printer *pr, const ConversionStep *step, Var *from, Var *to)
{
    Expr *source = i32_const(pr, 0);
    for (int bit = 0; bit < LANE_BITS; bit++)
        if (step->source[bit] != LANE_ZERO)
            source = i32_add(
                pr, source,
                i32_mul(pr, modulo(pr, quotient(pr, var_of(pr, pr->lane), 1 << step->source[bit]), 2), 1 << bit));
    Var *const lane = emit_declare(pr, DTYPE_I32, "source", source);
    Nest nest;
    Expr *const r = var_of(pr, begin_unrolled(pr, &nest, "r", step->registers)), *const own = element(pr, from, r);
    emit_element(pr, to, r, call_expr(pr, own->type, "shuffle_from", 2, own, var_of(pr, lane)));
    end_nest(pr, &nest);
}

static void print_gather(Printer *pr, const ConversionStep *step, Var *from, Var *to)
{
    Nest nest;
    Expr *const r = var_of(pr, begin_unrolled(pr, &nest, "r", step->stride)), *const bit = has_bit(pr, step);
    Expr *const own = element(pr, from, r), *const got = received(pr, step, own);
    emit_element(pr, to, r, expr_select(pr->arena, bit, got, own));
    emit_element(pr, to, i32_add(pr, r, i32_const(pr, step->stride)), expr_select(pr->arena, bit, own, got));
    end_nest(pr, &nest);
}

static Var *print_step(Printer *pr, const ConversionStep *step, Var *from, DType type)
{
    Var *const to = emit_array(pr, type, "moved", step->registers);
    switch (step->kind) {
    case STEP_SELECT: print_select(pr, step, from, to); break;
    case STEP_EXCHANGE: print_exchange(pr, step, from, to); break;
    case STEP_LANES: print_lanes(pr, step, from, to); break;
    case STEP_GATHER: print_gather(pr, step, from, to); break;
    }
    return to;
}

static void print_in_warps(Printer *pr, const ConversionPlan *plan)
{
    Var *value = tile_vars(pr, plan->from)->registers;
    for (int i = 0; i < plan->how.n_steps; i++)
        value = print_step(pr, &plan->how.step[i], value, plan->from->buffer->type);
    Nest nest;
    Expr *const r = var_of(pr, begin_unrolled(pr, &nest, "r", layout_registers(&plan->to->layout)));
    Expr *at = i32_const(pr, 0);
    for (int i = 0; i < plan->how.registers.n; i++) {
        const MapMode *const mode = &plan->how.registers.mode[i];
        Expr *const mode_value = modulo(pr, quotient(pr, r, mode->in_stride), mode->extent);
        at = i32_add(pr, at, i32_mul(pr, mode_value, mode->out_stride));
    }
    emit_element(pr, tile_vars(pr, plan->to)->registers, r, element(pr, value, at));
    end_nest(pr, &nest);
}

// ---- through shared memory

// Of dimension d, at register `r`.
static Expr *coordinate(Printer *pr, const Layout *layout, int d, Expr *r)
{
    Expr *sum = thread_part(pr, layout, d);
    int below = 1;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->input != IN_REGISTER) continue;
        if (mode->dim == d)
            sum = i32_add(pr, sum, i32_mul(pr, modulo(pr, quotient(pr, r, below), mode->extent), mode->stride));
        below *= mode->extent;
    }
    return sum;
}

// The place of register `r`'s element; *inside: whether it is one, NULL if it always is.
static Expr *scratch_place(Printer *pr, const Layout *layout, const SharedLayout *shared, Expr *r, Expr **inside)
{
    const TileInfo staging = { .shared = *shared };
    Expr *row = i32_const(pr, 0), *column = NULL;
    *inside = NULL;
    for (int d = 0; d < layout->rank; d++) {
        Expr *const at = coordinate(pr, layout, d, r);
        if (layout_coverage(layout, d) > layout->extent[d])
            *inside = both(pr->lo, *inside, i32_op(pr, X_LT, at, layout->extent[d]));
        if (d == layout->rank - 1) column = at;
        else row = i32_add(pr, i32_mul(pr, row, layout->extent[d]), at);
    }
    return shared_at(pr, &staging, row, column);
}

// Registers in the order of the vectors, so that those of one follow each other.
static void print_side(Printer *pr, const TileInfo *tile, const ConversionPlan *plan, bool is_store, Var *scratch)
{
    const SharedSide *const side = is_store ? &plan->how.stores : &plan->how.loads;
    Nest loops[2], some;
    Expr *const number = var_of(pr, begin_unrolled(pr, &loops[0], "piece", side->instructions));
    Expr *const k = var_of(pr, begin_unrolled(pr, &loops[1], "k", side->piece));
    Expr *r = i32_const(pr, 0), *inside;
    for (int i = 0; i < side->pieces.n; i++) {
        const MapMode *const mode = &side->pieces.mode[i];
        Expr *const mode_value = modulo(pr, quotient(pr, mode->in ? number : k, mode->in_stride), mode->extent);
        r = i32_add(pr, r, i32_mul(pr, mode_value, mode->out_stride));
    }
    Expr *const at = scratch_place(pr, &tile->layout, &plan->how.shared, r, &inside);
    if (is_store) inside = both(pr->lo, inside, replica_is_first(pr, &tile->layout));
    if (inside) begin_if(pr, &some, inside);
    if (is_store) emit_element(pr, scratch, at, element(pr, tile_vars(pr, tile)->registers, r));
    else emit_element(pr, tile_vars(pr, tile)->registers, r, element(pr, scratch, at));
    if (inside) end_nest(pr, &some);
    end_nests(pr, loops, 2);
}

static void print_part_pieces(Printer *pr, const ConversionPart *side)
{
    const ConversionPlan *const plan = side->plan;
    Transfer transfer = { .how = side->is_load ? &plan->load : &plan->store,
                          .tile = side->is_load ? plan->to : plan->from,
                          .at = shared_address(pr, pr->lo->scratch_offset),
                          .first_row = side->part * plan->rows,
                          .rows = plan->parts > 1 ? plan->rows : 0 };
    transfer.type = transfer.tile->buffer->type;
    Expr *const first = side->is_load ? NULL : replica_is_first(pr, &plan->from->layout);
    Nest some;
    if (first) begin_if(pr, &some, first);
    if (side->is_load) load_transfer(pr, &transfer);
    else store_transfer(pr, &transfer);
    if (first) end_nest(pr, &some);
}

void print_conversion_part(Printer *pr, const ConversionPart *side)
{
    const ConversionPlan *const plan = side->plan;
    if (plan->by_pieces) print_part_pieces(pr, side);
    else print_side(pr, side->is_load ? plan->to : plan->from, plan, !side->is_load, pr->conversion_scratch);
}

static void print_through_shared(Printer *pr, const ConversionPlan *plan)
{
    const DType type = plan->from->buffer->type;
    if (!plan->by_pieces) {
        pr->conversion_scratch = loop_new_pointer(pr->unit, type, "staging");
        emit_definition(pr, pr->conversion_scratch, shared_pointer(pr, type, i32_const(pr, pr->lo->scratch_offset)));
    }
    print_parts(pr);
}

void print_layout_conversion(Printer *pr, const ConversionPlan *plan)
{
    Nest block;
    begin_block(pr, &block);
    if (plan->how.kind != CONVERT_SHARED) print_in_warps(pr, plan);
    else print_through_shared(pr, plan);
    end_nest(pr, &block);
}
