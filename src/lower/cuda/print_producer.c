// SPDX-License-Identifier: MIT
// print_producer.c - the producer's waits, announcements and copies.
//
// before: lo->by_tma and lo->by_warp say which of its threads act      after: each action's statements are at the end of
//         lo->out
#include "lower/cuda/actions.h"
#include "lower/cuda/box.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/producer.h"
#include "lower/cuda/rounds.h"

static const Ring *ring_of(const Lowering *lo, const Action *action) { return lo->rings.items[action->ring.ring]; }

// ---- which threads

// Boxes and announcements are one thread's: where others gather rows, of the last warp, which loads no list of them
// while this thread waits.
static void begin_issue(Lowering *lo, Nest *nest)
{
    const int thread = only_gathers(lo) ? WARPGROUP_THREADS - WARP_LANES : 0;
    if (lo->by_warp || lo->has_producer_group)
        begin_if(lo, nest, i32_op(lo, X_EQ, var_of(lo, lo->has_producer_group ? lo->thread : lo->lane), thread));
    else begin_block(lo, nest);
}

// Small rows are one warp's.
static void begin_lanes(Lowering *lo, Nest *nest)
{
    if (lo->has_producer_group) begin_if(lo, nest, i32_op(lo, X_LT, var_of(lo, lo->thread), WARP_LANES));
    else begin_block(lo, nest);
}

// ---- rings

void print_acquire(Lowering *lo, const Action *action)
{
    const Ring *const ring = ring_of(lo, action);
    Nest nest;
    // Who has no part in the filling may not wait either: when the buffer was filled and released already, a
    // latecomer would wait for the phase after.
    const bool some_wait = lo->has_producer_group && lo->by_tma && !ring->is_filled;
    if (some_wait && ring->by_lanes) begin_lanes(lo, &nest);
    else if (some_wait) begin_issue(lo, &nest);
    emit_call(lo, "mbar_wait", 2, empty_barrier(lo, ring), var_of(lo, ring->ring_state->phase));
    if (some_wait) end_nest(lo, &nest);
    if (lo->by_warp && lo->by_tma && !ring->by_lanes && !ring->is_filled) emit_call(lo, "__syncwarp", 0);
}

static void announce(Lowering *lo, const char *how, const Action *action)
{
    emit_call(lo, how, 2, full_barrier(lo, ring_of(lo, action)), u32_const(lo, action->ring.bytes));
}

// Without an arrival it is a part of a copy, which has chosen the thread.
void print_expect(Lowering *lo, const Action *action)
{
    if (!action->ring.arrivals) {
        announce(lo, "mbar_expect_more", action);
        return;
    }
    Nest nest;
    begin_issue(lo, &nest);
    announce(lo, "mbar_expect", action);
    end_nest(lo, &nest);
}

static void arrive(Lowering *lo, const char *how, const Ring *ring) { emit_call(lo, how, 1, full_barrier(lo, ring)); }

// Every thread arrives when its own copies are done; else one for those that have copied.
void print_arrive(Lowering *lo, const Action *action)
{
    const Ring *const ring = ring_of(lo, action);
    Nest nest;
    if (action->ring.arrivals == WARPGROUP_THREADS) {
        arrive(lo, "cp_async_arrive", ring);
        return;
    }
    const bool by_lanes = ring->by_lanes && lo->by_tma;
    if (!lo->by_tma || ring->is_filled) begin_if(lo, &nest, is_zero(lo, ring->is_filled ? lo->lane : lo->thread));
    else if (by_lanes) begin_lanes(lo, &nest);
    else begin_issue(lo, &nest);
    arrive(lo, by_lanes ? "cp_async_arrive" : "mbar_arrive", ring);
    end_nest(lo, &nest);
}

// ---- copies

static void emit_lane_copy(Lowering *lo, const TileOp *op)
{
    Arena *const a = lo->arena;
    const TileInfo *const tile = tile_info(lo, op->copy.dst.buffer);
    const TileOp *const map = as_map(lo, (TileOp *)op);
    const Expr *const load = map->forall.body->store.value;
    Var *const i = loop_var(lo, map->forall.indices[0].var);
    Nest nest;
    begin_for(lo, &nest, i, var_of(lo, lo->lane), i32_const(lo, tile->shared.columns), i32_const(lo, WARP_LANES),
              LOOP_NO_UNROLL);
    Place place;
    if (place_element(lo, load->load.buffer, load->load.subs, NULL, &place, op->span)) {
        Expr *const dst = call_expr(lo, DTYPE_U32, "shared_address", 1, expr_address(a, tile->pointer, var_of(lo, i)));
        Expr *const four = i32_const(lo, 4), *at = place.at, *bytes = four;
        if (place.inside) {
            at = expr_select(a, place.inside, place.at, expr_int(a, DTYPE_I64, 0));
            bytes = expr_select(a, place.inside, four, i32_const(lo, 0));
        }
        emit_call(lo, "cp_async_4", 3, dst, expr_address(a, place.pointer, at), bytes);
    }
    end_nest(lo, &nest);
}

static void print_boxes(Lowering *lo, const Action *action)
{
    Nest nest;
    begin_issue(lo, &nest);
    if (!lo->rings.items[action->copy.ring]->is_plain) print_part(lo, ACTION_EXPECT);
    print_box_copy(lo, action->print);
    end_nest(lo, &nest);
}

static void print_lanes(Lowering *lo, const Action *action)
{
    Nest nest;
    begin_lanes(lo, &nest);
    emit_lane_copy(lo, action->op);
    end_nest(lo, &nest);
}

void print_fetch(Lowering *lo, const Action *action)
{
    if (!action->print && action->copy.how == COPY_TMA) return; // another CTA sends it
    if (action->copy.how == COPY_TMA) print_boxes(lo, action);
    else if (action->copy.how == COPY_LANES) print_lanes(lo, action);
}

// ---- another step's scalars

bool declare_again(Lowering *lo, TileOp *op)
{
    if (op->kind != T_LET || !is_in_backward_slice(lo, op)) return false;
    *var_slot(lo, op->let.var) = NULL;
    declare_value(lo, op);
    return true;
}

// ---- the steps of a software pipeline

static Expr *one_of(Lowering *lo, const Var *var) { return expr_int(lo->arena, var->type, 1); }

// One round more than there are steps, if there is one.
static void begin_rounds(Lowering *lo, const TileOp *op)
{
    const RoundVars *const vars = begin_round_vars(lo, op);
    Expr *const one = one_of(lo, vars->index);
    begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_LT, var_of(lo, vars->begin), var_of(lo, vars->end)));
    begin_for(lo, push_nest(lo), vars->index, var_of(lo, vars->begin),
              expr_binary(lo->arena, X_ADD, var_of(lo, vars->end), one), one, LOOP_NO_UNROLL);
}

static void begin_step_before(Lowering *lo, const TileOp *op)
{
    const RoundVars *const vars = lo->round_vars;
    begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_GT, var_of(lo, vars->index), var_of(lo, vars->begin)));
    *var_slot(lo, op->pipeline.indices[0].var) =
        emit_declare(lo, vars->index->type, arena_printf(lo->arena, "%s_before", vars->index->name),
                     expr_binary(lo->arena, X_SUB, var_of(lo, vars->index), one_of(lo, vars->index)));
}

void begin_producer_stages(Lowering *lo, const Action *action)
{
    const ProducerStages *const plan = action->print;
    const RoundVars *const vars = lo->round_vars;
    if (action->kind == ACTION_LOOP) begin_rounds(lo, plan->op);
    else if (action->scope.kind == SCOPE_BUT_FIRST) begin_step_before(lo, plan->op);
    else begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_LT, var_of(lo, vars->index), var_of(lo, vars->end)));
}

void end_producer_stages(Lowering *lo, const Action *action)
{
    const ProducerStages *const plan = action->print;
    pop_nest(lo);
    *var_slot(lo, plan->op->pipeline.indices[0].var) = lo->round_vars->index;
    if (action->kind != ACTION_LOOP) return;
    pop_nest(lo);
    end_round_vars(lo);
}
