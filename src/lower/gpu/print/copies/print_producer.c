// SPDX-License-Identifier: MIT
// print_producer.c - the producer's waits, announcements and copies.
//
// before: pr->lo->by_tma and pr->lo->by_warp say which of its threads act      after: each action's statements are at the end of
//         pr->out
#include "lower/gpu/print/copies/print_producer.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/control/rounds.h"
#include "lower/gpu/print/copies/tma.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/facts/slices.h"
#include "lower/gpu/facts/info.h"

static const Ring *ring_of(Printer *pr, const Action *action) { return pr->lo->rings.items[action->ring.ring]; }

// ---- which threads

// Boxes and announcements are one thread's: where others gather rows, of the last warp, which loads no list of them
// while this thread waits.
static void begin_issue(Printer *pr, Nest *nest)
{
    const int thread = only_gathers(pr->lo) ? WARPGROUP_THREADS - WARP_LANES : 0;
    const bool of_all = pr->lo->has_producer_group || !pr->lo->by_tma; // the producer's threads are here
    if (pr->lo->by_warp || of_all)
        begin_if(pr, nest, i32_op(pr, X_EQ, var_of(pr, of_all ? pr->thread : pr->lane), thread));
    else begin_block(pr, nest);
}

// Small rows are one warp's.
static void begin_lanes(Printer *pr, Nest *nest)
{
    if (pr->lo->has_producer_group) begin_if(pr, nest, i32_op(pr, X_LT, var_of(pr, pr->thread), WARP_LANES));
    else begin_block(pr, nest);
}

// ---- rings

void print_acquire(Printer *pr, const Action *action)
{
    const Ring *const ring = ring_of(pr, action);
    Nest nest;
    // Who has no part in the filling may not wait either: when the buffer was filled and released already, a
    // latecomer would wait for the phase after.
    const bool some_wait = pr->lo->has_producer_group && pr->lo->by_tma && !ring->is_filled;
    if (some_wait && ring->by_lanes) begin_lanes(pr, &nest);
    else if (some_wait) begin_issue(pr, &nest);
    emit_call(pr, "mbar_wait", 2, empty_barrier(pr, ring), var_of(pr, ring_vars(pr, ring->ring_state)->phase));
    if (some_wait) end_nest(pr, &nest);
    if (pr->lo->by_warp && pr->lo->by_tma && !ring->by_lanes && !ring->is_filled) emit_call(pr, "__syncwarp", 0);
}

static void announce(Printer *pr, const char *how, const Action *action)
{
    emit_call(pr, how, 2, full_barrier(pr, ring_of(pr, action)), u32_const(pr, action->ring.bytes));
}

// Without an arrival it is a part of a copy, which has chosen the thread.
void print_expect(Printer *pr, const Action *action)
{
    if (!action->ring.arrivals) {
        announce(pr, "mbar_expect_more", action);
        return;
    }
    Nest nest;
    begin_issue(pr, &nest);
    announce(pr, "mbar_expect", action);
    end_nest(pr, &nest);
}

static void arrive(Printer *pr, const char *how, const Ring *ring) { emit_call(pr, how, 1, full_barrier(pr, ring)); }

// Every thread arrives when its own copies are done; else one for those that have copied.
void print_arrive(Printer *pr, const Action *action)
{
    const Ring *const ring = ring_of(pr, action);
    Nest nest;
    if (action->ring.arrivals == WARPGROUP_THREADS) {
        arrive(pr, "cp_async_arrive", ring);
        return;
    }
    const bool by_lanes = ring->by_lanes && pr->lo->by_tma;
    const bool by_warps = ring->is_filled || shifting_warps(pr->lo, ring) > 0;
    if (!pr->lo->by_tma || ring->is_filled) begin_if(pr, &nest, is_zero(pr, by_warps ? pr->lane : pr->thread));
    else if (by_lanes) begin_lanes(pr, &nest);
    else begin_issue(pr, &nest);
    arrive(pr, by_lanes ? "cp_async_arrive" : "mbar_arrive", ring);
    end_nest(pr, &nest);
}

// ---- copies

static void emit_lane_copy(Printer *pr, const TileOp *op)
{
    Arena *const a = pr->arena;
    const TileInfo *const tile = tile_info(pr->lo, op->copy.dst.buffer);
    const TileOp *const map = map_of(pr->lo, op);
    const Expr *const load = map->forall.body->store.value;
    Var *const i = loop_var(pr, map->forall.indices[0].var);
    Nest nest;
    begin_for(pr, &nest, i, var_of(pr, pr->lane), i32_const(pr, tile->shared.columns), i32_const(pr, WARP_LANES),
              LOOP_NO_UNROLL);
    Place place;
    place_element(pr, load->load.buffer, load->load.subs, NULL, &place, op->span);
    Expr *const dst =
        call_expr(pr, DTYPE_U32, "shared_address", 1, expr_address(a, tile_vars(pr, tile)->pointer, var_of(pr, i)));
    Expr *const four = i32_const(pr, 4), *at = place.at, *bytes = four;
    if (place.inside) {
        at = expr_select(a, place.inside, place.at, expr_int(a, DTYPE_I64, 0));
        bytes = expr_select(a, place.inside, four, i32_const(pr, 0));
    }
    emit_call(pr, "cp_async_4", 3, dst, expr_address(a, place.pointer, at), bytes);
    end_nest(pr, &nest);
}

static void print_fetched_boxes(Printer *pr, const Action *action)
{
    Nest nest;
    begin_issue(pr, &nest);
    if (!pr->lo->rings.items[action->copy.ring]->is_plain || !pr->lo->by_tma) print_part(pr, ACTION_EXPECT);
    print_box_copy(pr, action->print);
    end_nest(pr, &nest);
}

static void print_lanes(Printer *pr, const Action *action)
{
    Nest nest;
    begin_lanes(pr, &nest);
    emit_lane_copy(pr, action->op);
    end_nest(pr, &nest);
}

void print_fetch(Printer *pr, const Action *action)
{
    if (!action->print && action->copy.how == COPY_TMA) return; // another CTA sends it
    if (action->copy.how == COPY_TMA) print_fetched_boxes(pr, action);
    else if (action->copy.how == COPY_LANES) print_lanes(pr, action);
}

// ---- another step's scalars

bool declare_again(Printer *pr, TileOp *op)
{
    if (op->kind != T_LET || !is_in_backward_slice(pr->lo, op)) return false;
    *var_slot(pr, op->let.var) = NULL;
    declare_value(pr, op);
    return true;
}

// ---- the steps of a software pipeline

static Expr *one_of(Printer *pr, const Var *var) { return expr_int(pr->arena, var->type, 1); }

// One round more than there are steps, if there is one.
static void begin_rounds(Printer *pr, const TileOp *op)
{
    const RoundVars *const vars = begin_round_vars(pr, op);
    Expr *const one = one_of(pr, vars->index);
    begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_LT, var_of(pr, vars->begin), var_of(pr, vars->end)));
    begin_for(pr, push_nest(pr), vars->index, var_of(pr, vars->begin),
              expr_binary(pr->arena, X_ADD, var_of(pr, vars->end), one), one, LOOP_NO_UNROLL);
}

static void begin_step_before(Printer *pr, const TileOp *op)
{
    const RoundVars *const vars = pr->round_vars;
    begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_GT, var_of(pr, vars->index), var_of(pr, vars->begin)));
    *var_slot(pr, op->pipeline.indices[0].var) =
        emit_declare(pr, vars->index->type, arena_printf(pr->arena, "%s_before", vars->index->name),
                     expr_binary(pr->arena, X_SUB, var_of(pr, vars->index), one_of(pr, vars->index)));
}

void begin_producer_stages(Printer *pr, const Action *action)
{
    const ProducerStages *const plan = action->print;
    const RoundVars *const vars = pr->round_vars;
    if (action->kind == ACTION_LOOP) begin_rounds(pr, plan->op);
    else if (action->scope.kind == SCOPE_BUT_FIRST) begin_step_before(pr, plan->op);
    else begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_LT, var_of(pr, vars->index), var_of(pr, vars->end)));
}

void end_producer_stages(Printer *pr, const Action *action)
{
    const ProducerStages *const plan = action->print;
    pop_nest(pr);
    *var_slot(pr, plan->op->pipeline.indices[0].var) = pr->round_vars->index;
    if (action->kind != ACTION_LOOP) return;
    pop_nest(pr);
    end_round_vars(pr);
}
