// SPDX-License-Identifier: MIT
// print_convert_layout.c - printing: a fragment's values in the registers of another layout (convert_layout.c).
//
// Each step fills a new array in an unrolled loop; registers that only change their numbers cost nothing.
#include "lower/cuda/convert_layout.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"

static Expr *element(Lowering *lo, Var *array, Expr *at) { return expr_index(lo->arena, array, at); }

static Expr *modulo(Lowering *lo, Expr *x, int64_t n) { return n == 1 ? i32_const(lo, 0) : i32_op(lo, X_MOD, x, n); }
static Expr *quotient(Lowering *lo, Expr *x, int64_t n) { return n == 1 ? x : i32_op(lo, X_DIV, x, n); }

// ---- steps

static Expr *thread_digit(Lowering *lo, const ConversionStep *step)
{
    Var *const numbers[IN_COUNT] = { [IN_LANE] = lo->lane, [IN_WARP] = lo->warp, [IN_GROUP] = lo->group };
    return modulo(lo, quotient(lo, var_of(lo, numbers[step->by]), step->by_stride), step->extent);
}

static Expr *has_bit(Lowering *lo, const ConversionStep *step) { return i32_op(lo, X_EQ, thread_digit(lo, step), 1); }

static Expr *received(Lowering *lo, const ConversionStep *step, Expr *sent)
{
    Expr *const got = call_expr(lo, sent->type, "shuffle_xor", 2, sent, i32_const(lo, step->by_stride));
    return var_of(lo, emit_declare(lo, sent->type, "got", got));
}

// The register number with a digit inserted: high * extent * stride + digit * stride + low.
static Expr *with_digit(Lowering *lo, const ConversionStep *step, Expr *r, int digit)
{
    Expr *const high = i32_mul(lo, quotient(lo, r, step->stride), (int64_t)step->extent * step->stride);
    return i32_add(lo, i32_add(lo, high, modulo(lo, r, step->stride)), i32_const(lo, (int64_t)digit * step->stride));
}

static void print_select(Lowering *lo, const ConversionStep *step, Var *from, Var *to)
{
    Nest nest;
    Var *const r = begin_unrolled(lo, &nest, "r", step->registers);
    Expr *value = element(lo, from, with_digit(lo, step, var_of(lo, r), 0));
    for (int digit = 1; digit < step->extent; digit++)
        value = expr_select(lo->arena, i32_op(lo, X_EQ, thread_digit(lo, step), digit),
                            element(lo, from, with_digit(lo, step, var_of(lo, r), digit)), value);
    emit_element(lo, to, var_of(lo, r), value);
    end_nest(lo, &nest);
}

static void print_exchange(Lowering *lo, const ConversionStep *step, Var *from, Var *to)
{
    Nest nest;
    Expr *const r = var_of(lo, begin_unrolled(lo, &nest, "r", step->registers / 2)), *const bit = has_bit(lo, step);
    Expr *const even = element(lo, from, with_digit(lo, step, r, 0));
    Expr *const odd = element(lo, from, with_digit(lo, step, r, 1));
    Expr *const got = received(lo, step, expr_select(lo->arena, bit, even, odd));
    emit_element(lo, to, with_digit(lo, step, r, 0), expr_select(lo->arena, bit, got, even));
    emit_element(lo, to, with_digit(lo, step, r, 1), expr_select(lo->arena, bit, odd, got));
    end_nest(lo, &nest);
}

static void print_lanes(Lowering *lo, const ConversionStep *step, Var *from, Var *to)
{
    Expr *source = i32_const(lo, 0);
    for (int bit = 0; bit < LANE_BITS; bit++)
        if (step->source[bit] != LANE_ZERO)
            source = i32_add(
                lo, source,
                i32_mul(lo, modulo(lo, quotient(lo, var_of(lo, lo->lane), 1 << step->source[bit]), 2), 1 << bit));
    Var *const lane = emit_declare(lo, DTYPE_I32, "source", source);
    Nest nest;
    Expr *const r = var_of(lo, begin_unrolled(lo, &nest, "r", step->registers)), *const own = element(lo, from, r);
    emit_element(lo, to, r, call_expr(lo, own->type, "shuffle_from", 2, own, var_of(lo, lane)));
    end_nest(lo, &nest);
}

static void print_gather(Lowering *lo, const ConversionStep *step, Var *from, Var *to)
{
    Nest nest;
    Expr *const r = var_of(lo, begin_unrolled(lo, &nest, "r", step->stride)), *const bit = has_bit(lo, step);
    Expr *const own = element(lo, from, r), *const got = received(lo, step, own);
    emit_element(lo, to, r, expr_select(lo->arena, bit, got, own));
    emit_element(lo, to, i32_add(lo, r, i32_const(lo, step->stride)), expr_select(lo->arena, bit, own, got));
    end_nest(lo, &nest);
}

static Var *print_step(Lowering *lo, const ConversionStep *step, Var *from, DType type)
{
    Var *const to = emit_array(lo, type, "moved", step->registers);
    switch (step->kind) {
    case STEP_SELECT: print_select(lo, step, from, to); break;
    case STEP_EXCHANGE: print_exchange(lo, step, from, to); break;
    case STEP_LANES: print_lanes(lo, step, from, to); break;
    case STEP_GATHER: print_gather(lo, step, from, to); break;
    }
    return to;
}

static void print_in_warps(Lowering *lo, const ConversionPlan *plan)
{
    Var *value = plan->from->registers;
    for (int i = 0; i < plan->how.n_steps; i++)
        value = print_step(lo, &plan->how.step[i], value, plan->from->buffer->type);
    Nest nest;
    Expr *const r = var_of(lo, begin_unrolled(lo, &nest, "r", layout_registers(&plan->to->layout)));
    Expr *at = i32_const(lo, 0);
    for (int i = 0; i < plan->how.registers.n; i++) {
        const MapMode *const mode = &plan->how.registers.mode[i];
        Expr *const digit = modulo(lo, quotient(lo, r, mode->in_stride), mode->extent);
        at = i32_add(lo, at, i32_mul(lo, digit, mode->out_stride));
    }
    emit_element(lo, plan->to->registers, r, element(lo, value, at));
    end_nest(lo, &nest);
}

// ---- through shared memory

// Of dimension d, at register `r`.
static Expr *coordinate(Lowering *lo, const Layout *layout, int d, Expr *r)
{
    Expr *sum = thread_part(lo, layout, d);
    int below = 1;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->input != IN_REGISTER) continue;
        if (mode->dim == d)
            sum = i32_add(lo, sum, i32_mul(lo, modulo(lo, quotient(lo, r, below), mode->extent), mode->stride));
        below *= mode->extent;
    }
    return sum;
}

// The place of register `r`'s element; *inside: whether it is one, NULL if it always is.
static Expr *scratch_place(Lowering *lo, const Layout *layout, const SharedLayout *shared, Expr *r, Expr **inside)
{
    const TileInfo staging = { .shared = *shared };
    Expr *row = i32_const(lo, 0), *column = NULL;
    *inside = NULL;
    for (int d = 0; d < layout->rank; d++) {
        Expr *const at = coordinate(lo, layout, d, r);
        if (layout_coverage(layout, d) > layout->extent[d])
            *inside = both(lo, *inside, i32_op(lo, X_LT, at, layout->extent[d]));
        if (d == layout->rank - 1) column = at;
        else row = i32_add(lo, i32_mul(lo, row, layout->extent[d]), at);
    }
    return shared_at(lo, &staging, row, column);
}

// Registers in the order of the vectors, so that those of one follow each other.
static void print_side(Lowering *lo, const TileInfo *tile, const ConversionPlan *plan, bool is_store, Var *scratch)
{
    const SharedSide *const side = is_store ? &plan->how.stores : &plan->how.loads;
    Nest loops[2], some;
    Expr *const number = var_of(lo, begin_unrolled(lo, &loops[0], "piece", side->instructions));
    Expr *const k = var_of(lo, begin_unrolled(lo, &loops[1], "k", side->piece));
    Expr *r = i32_const(lo, 0), *inside;
    for (int i = 0; i < side->pieces.n; i++) {
        const MapMode *const mode = &side->pieces.mode[i];
        Expr *const digit = modulo(lo, quotient(lo, mode->in ? number : k, mode->in_stride), mode->extent);
        r = i32_add(lo, r, i32_mul(lo, digit, mode->out_stride));
    }
    Expr *const at = scratch_place(lo, &tile->layout, &plan->how.shared, r, &inside);
    if (is_store) inside = both(lo, inside, replica_is_first(lo, &tile->layout));
    if (inside) begin_if(lo, &some, inside);
    if (is_store) emit_element(lo, scratch, at, element(lo, tile->registers, r));
    else emit_element(lo, tile->registers, r, element(lo, scratch, at));
    if (inside) end_nest(lo, &some);
    end_nests(lo, loops, 2);
}

static void print_through_shared(Lowering *lo, const ConversionPlan *plan)
{
    Var *const scratch = loop_new_pointer(lo->unit, plan->from->buffer->type, "staging");
    emit_definition(lo, scratch, shared_pointer(lo, plan->from->buffer->type, i32_const(lo, lo->scratch_offset)));
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    print_side(lo, plan->from, plan, true, scratch);
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    print_side(lo, plan->to, plan, false, scratch);
}

void print_layout_conversion(Lowering *lo, const ConversionPlan *plan)
{
    Nest block;
    begin_block(lo, &block);
    if (plan->how.kind == CONVERT_SHARED) print_through_shared(lo, plan);
    else print_in_warps(lo, plan);
    end_nest(lo, &block);
}
