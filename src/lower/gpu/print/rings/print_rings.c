// SPDX-License-Identifier: MIT
// print_rings.c - the mbarriers of the rings and the states of both roles, as Loop IR.
//
// before: barriers have their offsets in shared memory (memory.c)
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"

// ---- making the barriers

static Expr *full_count(Printer *pr, const ScheduleRing *ring)
{
    Expr *const count = i32_const(pr, ring->full_count);
    if (!ring->elements_count) return count;
    return expr_select(pr->arena, pr->fetch_aligned, count, i32_const(pr, ring->elements_count));
}

void init_barriers(Printer *pr)
{
    ScheduleRing *const *const rings = pr->lo->builder.schedule->rings.items;
    Nest nest;
    begin_if(pr, &nest, literal(pr, DTYPE_BOOL, "threadIdx.x == 0"));
    for (int i = 0; i < pr->lo->rings.count; i++) {
        const ScheduleRing *const ring = rings[i];
        for (int at = 0; at < ring->slots * MBARRIER_BYTES; at += MBARRIER_BYTES) {
            emit_call(pr, "mbar_init", 2, shared_address(pr, ring->full_offset + at), full_count(pr, ring));
            emit_call(pr, "mbar_init", 2, shared_address(pr, ring->empty_offset + at),
                      i32_const(pr, ring->empty_count));
        }
    }
    emit_call(pr, "mbar_init_done", 0);
    end_nest(pr, &nest);
    emit_call(pr, pr->lo->shares ? "cluster_sync" : "__syncthreads", 0);
}

// ---- ring states

// All buffers are empty at first: a producer that waits for one waits for the phase before.
void print_ring_states(Printer *pr)
{
    const int phase = pr->lo->role == ROLE_PRODUCER;
    for (int i = 0; i < pr->lo->ring_states.count; i++) {
        RingState *const ring_state = pr->lo->ring_states.items[i];
        ring_vars(pr, ring_state)->slot =
            ring_state->buffers > 1 ? emit_declare(pr, DTYPE_U32, "slot", u32_const(pr, 0)) : NULL;
        ring_vars(pr, ring_state)->phase = emit_declare(pr, DTYPE_U32, "phase", u32_const(pr, phase));
    }
}

Expr *other_phase(Printer *pr, const RingState *ring_state)
{
    return expr_binary(pr->arena, X_BITXOR, var_of(pr, ring_vars(pr, ring_state)->phase), u32_const(pr, 1));
}

static void advance(Printer *pr, const RingState *ring_state)
{
    if (ring_state->buffers == 1) {
        emit_assign(pr, ring_vars(pr, ring_state)->phase, other_phase(pr, ring_state));
        return;
    }
    Expr *const slot = var_of(pr, ring_vars(pr, ring_state)->slot);
    emit_assign(pr, ring_vars(pr, ring_state)->slot, expr_binary(pr->arena, X_ADD, slot, u32_const(pr, 1)));
    Nest around;
    begin_if(pr, &around, expr_binary(pr->arena, X_EQ, slot, u32_const(pr, ring_state->buffers)));
    emit_assign(pr, ring_vars(pr, ring_state)->slot, u32_const(pr, 0));
    emit_assign(pr, ring_vars(pr, ring_state)->phase, other_phase(pr, ring_state));
    end_nest(pr, &around);
}

// Rings of one block advance together.
static bool is_first_of_state(Printer *pr, const Ring *ring)
{
    for (int i = 0; i < pr->lo->rings.count; i++)
        if (pr->lo->rings.items[i]->ring_state == ring->ring_state) return pr->lo->rings.items[i] == ring;
    return false;
}

void print_advance(Printer *pr, const Action *action)
{
    if (action->ring.ring == NO_RING) {
        print_other_buffer(pr, pr->lo->declared.items[action->ring.tile]);
        return;
    }
    const Ring *const ring = pr->lo->rings.items[action->ring.ring];
    if (is_first_of_state(pr, ring)) advance(pr, ring->ring_state);
}

// ---- waiting, arriving, releasing

static Expr *barrier_at(Printer *pr, int offset, Expr *slot)
{
    Expr *const first = shared_address(pr, offset);
    if (!slot) return first;
    return expr_binary(pr->arena, X_ADD, first, expr_binary(pr->arena, X_MUL, slot, u32_const(pr, MBARRIER_BYTES)));
}

static Expr *slot_of(Printer *pr, const RingState *ring_state)
{
    return ring_state->buffers > 1 ? var_of(pr, ring_vars(pr, ring_state)->slot) : NULL;
}

Expr *full_barrier(Printer *pr, const Ring *ring) { return barrier_at(pr, ring->full, slot_of(pr, ring->ring_state)); }

Expr *empty_barrier(Printer *pr, const Ring *ring)
{
    return barrier_at(pr, ring->empty, slot_of(pr, ring->ring_state));
}

void print_wait_full(Printer *pr, const Ring *ring)
{
    emit_call(pr, "mbar_wait", 2, full_barrier(pr, ring), var_of(pr, ring_vars(pr, ring->ring_state)->phase));
}

// held: the slot that the step before used; NULL: the current one.
void print_release(Printer *pr, const Ring *ring, Var *held)
{
    Expr *const slot = held ? cast(pr, DTYPE_U32, var_of(pr, held)) : slot_of(pr, ring->ring_state);
    Nest nest;
    if (ring->is_shared) { // every CTA of the cluster writes into all
        begin_if(pr, &nest, i32_op(pr, X_LT, var_of(pr, pr->lane), pr->lo->cluster));
        emit_call(pr, "mbar_arrive_at", 2, barrier_at(pr, ring->empty, slot), var_of(pr, pr->lane));
    } else {
        begin_if(pr, &nest, is_zero(pr, pr->lane));
        emit_call(pr, "mbar_arrive", 1, barrier_at(pr, ring->empty, slot));
    }
    end_nest(pr, &nest);
}

// The producer's ring state is a phase ahead from the start, the consumers' is not.
void print_consumer_acquire(Printer *pr, const Ring *ring)
{
    emit_call(pr, "mbar_wait", 2, empty_barrier(pr, ring), other_phase(pr, ring->ring_state));
}

// One lane of each warp speaks for it.
void print_consumer_arrive(Printer *pr, const Ring *ring)
{
    Nest nest;
    begin_if(pr, &nest, is_zero(pr, pr->lane));
    emit_call(pr, "mbar_arrive", 1, full_barrier(pr, ring));
    end_nest(pr, &nest);
}

bool is_release_scope(const Action *action)
{
    const ScopeKind kind = action->scope.kind;
    return action->kind == ACTION_SCOPE && (kind == SCOPE_NO_STEP || kind == SCOPE_LAST_STEP) && !action->print;
}

void print_release_scope(Printer *pr, const Action *action)
{
    const LoopIndex *const index = &action->scope.source->pipeline.indices[0];
    Var *const step = loop_var(pr, index->var);
    Expr *from, *to;
    index_bounds(pr, index, NULL, &from, &to); // each in a type of its own
    if (action->scope.kind == SCOPE_LAST_STEP)
        from = expr_binary(pr->arena, X_ADD, var_of(pr, step), expr_int(pr->arena, step->type, 1));
    begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_GE, cast(pr, step->type, from), cast(pr, step->type, to)));
}
