// SPDX-License-Identifier: MIT
// print_rings.c - the mbarriers of the rings and the states of both roles, as Loop IR.
//
// before: barriers have their places in shared memory (memory.c)
#include "lower/cuda/print_action.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_rings.h"

// ---- making the barriers

// Without boxes one thread speaks for all that copied by lanes.
static Expr *full_count(Lowering *lo, const Ring *ring)
{
    Expr *const count = i32_const(lo, ring_full_count(ring)), *const one = i32_const(lo, 1);
    const bool by_lanes = ring->by_lanes && !ring->is_gathered && !ring->is_filled && !ring->is_consumer_ring;
    return by_lanes && lo->fetch_aligned ? expr_select(lo->arena, lo->fetch_aligned, count, one) : count;
}

void init_barriers(Lowering *lo)
{
    Nest nest;
    begin_if(lo, &nest, literal(lo, DTYPE_BOOL, "threadIdx.x == 0"));
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        const int users = ring_empty_count(lo, ring);
        for (int at = 0; at < ring->ring_state->buffers * MBARRIER_BYTES; at += MBARRIER_BYTES) {
            emit_call(lo, "mbar_init", 2, shared_address(lo, ring->full + at), full_count(lo, ring));
            emit_call(lo, "mbar_init", 2, shared_address(lo, ring->empty + at), i32_const(lo, users));
        }
    }
    emit_call(lo, "mbar_init_done", 0);
    end_nest(lo, &nest);
    emit_call(lo, lo->shares ? "cluster_sync" : "__syncthreads", 0);
}

// ---- ring states

// All buffers are empty at first: a producer that waits for one waits for the phase before.
void print_ring_states(Lowering *lo)
{
    const int phase = lo->role == ROLE_PRODUCER;
    for (int i = 0; i < lo->ring_states.count; i++) {
        RingState *const ring_state = lo->ring_states.items[i];
        ring_state->slot = ring_state->buffers > 1 ? emit_declare(lo, DTYPE_U32, "slot", u32_const(lo, 0)) : NULL;
        ring_state->phase = emit_declare(lo, DTYPE_U32, "phase", u32_const(lo, phase));
    }
}

Expr *other_phase(Lowering *lo, const RingState *ring_state)
{
    return expr_binary(lo->arena, X_BITXOR, var_of(lo, ring_state->phase), u32_const(lo, 1));
}

static void advance(Lowering *lo, const RingState *ring_state)
{
    if (ring_state->buffers == 1) {
        emit_assign(lo, ring_state->phase, other_phase(lo, ring_state));
        return;
    }
    Expr *const slot = var_of(lo, ring_state->slot);
    emit_assign(lo, ring_state->slot, expr_binary(lo->arena, X_ADD, slot, u32_const(lo, 1)));
    Nest around;
    begin_if(lo, &around, expr_binary(lo->arena, X_EQ, slot, u32_const(lo, ring_state->buffers)));
    emit_assign(lo, ring_state->slot, u32_const(lo, 0));
    emit_assign(lo, ring_state->phase, other_phase(lo, ring_state));
    end_nest(lo, &around);
}

// Rings of one block advance together.
static bool is_first_of_state(const Lowering *lo, const Ring *ring)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->ring_state == ring->ring_state) return lo->rings.items[i] == ring;
    return false;
}

void print_advance(Lowering *lo, const Action *action)
{
    if (action->ring.ring == NO_RING) {
        print_other_buffer(lo, lo->declared.items[action->ring.tile]);
        return;
    }
    const Ring *const ring = lo->rings.items[action->ring.ring];
    if (is_first_of_state(lo, ring)) advance(lo, ring->ring_state);
}

// ---- waiting, arriving, releasing

static Expr *barrier_at(Lowering *lo, int offset, Expr *slot)
{
    Expr *const first = shared_address(lo, offset);
    if (!slot) return first;
    return expr_binary(lo->arena, X_ADD, first, expr_binary(lo->arena, X_MUL, slot, u32_const(lo, MBARRIER_BYTES)));
}

static Expr *slot_of(Lowering *lo, const RingState *ring_state)
{
    return ring_state->buffers > 1 ? var_of(lo, ring_state->slot) : NULL;
}

Expr *full_barrier(Lowering *lo, const Ring *ring) { return barrier_at(lo, ring->full, slot_of(lo, ring->ring_state)); }

Expr *empty_barrier(Lowering *lo, const Ring *ring)
{
    return barrier_at(lo, ring->empty, slot_of(lo, ring->ring_state));
}

void print_wait_full(Lowering *lo, const Ring *ring)
{
    emit_call(lo, "mbar_wait", 2, full_barrier(lo, ring), var_of(lo, ring->ring_state->phase));
}

// held: the slot that the step before used; NULL: the current one.
void print_release(Lowering *lo, const Ring *ring, Var *held)
{
    Expr *const slot = held ? cast(lo, DTYPE_U32, var_of(lo, held)) : slot_of(lo, ring->ring_state);
    Nest nest;
    if (ring->is_shared) { // every CTA of the cluster writes into all
        begin_if(lo, &nest, i32_op(lo, X_LT, var_of(lo, lo->lane), lo->cluster));
        emit_call(lo, "mbar_arrive_at", 2, barrier_at(lo, ring->empty, slot), var_of(lo, lo->lane));
    } else {
        begin_if(lo, &nest, is_zero(lo, lo->lane));
        emit_call(lo, "mbar_arrive", 1, barrier_at(lo, ring->empty, slot));
    }
    end_nest(lo, &nest);
}

// The producer's ring state is a phase ahead from the start, the consumers' is not.
void print_consumer_acquire(Lowering *lo, const Ring *ring)
{
    emit_call(lo, "mbar_wait", 2, empty_barrier(lo, ring), other_phase(lo, ring->ring_state));
}

// One lane of each warp speaks for it.
void print_consumer_arrive(Lowering *lo, const Ring *ring)
{
    Nest nest;
    begin_if(lo, &nest, is_zero(lo, lo->lane));
    emit_call(lo, "mbar_arrive", 1, full_barrier(lo, ring));
    end_nest(lo, &nest);
}

bool is_release_scope(const Action *action)
{
    const ScopeKind kind = action->scope.kind;
    return action->kind == ACTION_SCOPE && (kind == SCOPE_NO_STEP || kind == SCOPE_LAST_STEP) && !action->print;
}

void print_release_scope(Lowering *lo, const Action *action)
{
    const LoopIndex *const index = &action->scope.source->pipeline.indices[0];
    Expr *from, *to;
    index_bounds(lo, index, NULL, &from, &to);
    if (action->scope.kind == SCOPE_LAST_STEP)
        from = expr_binary(lo->arena, X_ADD, var_of(lo, loop_var(lo, index->var)), expr_int(lo->arena, from->type, 1));
    begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_GE, from, to));
}
