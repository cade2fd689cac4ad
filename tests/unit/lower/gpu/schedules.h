// SPDX-License-Identifier: MIT
// schedules.h - schedules made by hand for tests: a GEMM, attention with ping-pong, a group-specialised kernel, multistage,
// stores through staging, rows that are known a step ahead.
//
// Each is right as it is made. Tests plant faults with find_action(), drop_action(), swap_actions() and by changing fields.
#ifndef KILN_TESTS_SCHEDULES_H
#define KILN_TESTS_SCHEDULES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lower/gpu/schedule/build.h"

#include <stdlib.h>

typedef struct Made {
    Arena *arena;
    Schedule *schedule;
    ScheduleBuilder builder;
} Made;

static inline Made make_schedule(const char *kernel, int shared_bytes)
{
    Made made = { .arena = arena_new() };
    assert_non_null(made.arena);
    made.schedule = schedule_new(made.arena, kernel, "sm_90a");
    made.schedule->has_async_proxy = made.schedule->is_persistent = true;
    made.schedule->shared_bytes = shared_bytes;
    made.schedule->shared_limit = 227 * 1024;
    made.schedule->register_limit = 65536;
    made.builder.schedule = made.schedule;
    return made;
}

static inline void end_schedule(Made *made) { arena_free(made->arena); }

// ---- tables

static inline int shared_tile(Made *made, const char *name, int offset, int bytes, int slots, int ring)
{
    const ScheduleTile tile = { .name = name,
                                .place = TILE_SHARED,
                                .type = DTYPE_BF16,
                                .rank = 2,
                                .shape = { 128, bytes / 256 },
                                .layout = "swizzle 128",
                                .offset = offset,
                                .bytes = bytes,
                                .slots = slots,
                                .ring = ring };
    return schedule_add_tile(made->schedule, tile);
}

static inline int register_tile(Made *made, const char *name, int registers)
{
    const ScheduleTile tile = { .name = name,
                                .place = TILE_REGISTERS,
                                .type = DTYPE_F32,
                                .rank = 2,
                                .shape = { 128, registers * 2 },
                                .layout = "m64 accumulator",
                                .registers = registers,
                                .ring = NO_RING };
    return schedule_add_tile(made->schedule, tile);
}

static inline int add_ring(Made *made, const char *name, int slots, int full_count, int empty_count, int offset)
{
    const ScheduleRing ring = { .name = name,
                                .slots = slots,
                                .full_count = full_count,
                                .empty_count = empty_count,
                                .full_offset = offset,
                                .empty_offset = offset + 8 * slots };
    return schedule_add_ring(made->schedule, ring);
}

static inline void begin_role(Made *made, RoleKind kind, const char *name, int first, int threads, int registers)
{
    const ScheduleRole role = {
        .kind = kind, .name = name, .first_thread = first, .threads = threads, .registers = registers
    };
    schedule_begin_role(&made->builder, role);
    made->schedule->threads += threads;
}

static inline void end_role(Made *made) { schedule_end_role(&made->builder); }

// ---- actions

static inline void close_body(Made *made) { schedule_close(&made->builder); }
static inline void add(Made *made, ActionKind kind) { schedule_add(&made->builder, (Action){ .kind = kind }); }
static inline void open_grid(Made *made) { schedule_open(&made->builder, (Action){ .kind = ACTION_GRID }); }

static inline void open_loop(Made *made, const TileOp *source, LoopPart part)
{
    schedule_open(&made->builder, (Action){ .kind = ACTION_LOOP, .loop = { .part = part, .source = source } });
}

static inline void open_if(Made *made, const TileOp *source)
{
    schedule_open(&made->builder, (Action){ .kind = ACTION_IF, .branch = { .source = source, .is_uniform = true } });
}

static inline void open_scope(Made *made, ScopeKind kind, const TileOp *source, int threads)
{
    schedule_open(&made->builder,
                  (Action){ .kind = ACTION_SCOPE, .scope = { .kind = kind, .source = source, .threads = threads } });
}

static inline void on_ring(Made *made, ActionKind kind, int ring, int arrivals, int bytes)
{
    schedule_add(&made->builder,
                 (Action){ .kind = kind, .ring = { .ring = ring, .arrivals = arrivals, .bytes = bytes } });
}

static inline void at_barrier(Made *made, ActionKind kind, int barrier, int threads, BarrierOf of)
{
    schedule_add(&made->builder,
                 (Action){ .kind = kind, .barrier = { .barrier = barrier, .threads = threads, .of = of } });
}

static inline void wait_pending(Made *made, ActionKind kind, int pending)
{
    schedule_add(&made->builder, (Action){ .kind = kind, .wait = { .pending = pending } });
}

static inline Action *copy_tile(Made *made, CopyKind how, int tile, int ring, int bytes)
{
    Action *const copy = schedule_add(
        &made->builder, (Action){ .kind = ACTION_COPY, .copy = { .how = how, .ring = ring, .bytes = bytes } });
    schedule_access(made->schedule, copy, (TileAccess){ .tile = tile, .writes = true, .is_async = how == COPY_TMA });
    return copy;
}

static inline void fill_by_tma(Made *made, int ring, int tile, int bytes)
{
    on_ring(made, ACTION_ACQUIRE, ring, 0, 0);
    on_ring(made, ACTION_EXPECT, ring, 1, bytes);
    copy_tile(made, COPY_TMA, tile, ring, bytes);
    on_ring(made, ACTION_ADVANCE, ring, 0, 0);
}

static inline void multiply(Made *made, int accumulator, int a, int b)
{
    Action *const mma = schedule_add(
        &made->builder, (Action){ .kind = ACTION_MMA, .mma = { "wgmma.m64n128k16", 4, true, accumulator } });
    schedule_access(made->schedule, mma, (TileAccess){ .tile = accumulator, .reads = true, .writes = true });
    schedule_access(made->schedule, mma, (TileAccess){ .tile = a, .reads = true, .is_async = true });
    schedule_access(made->schedule, mma, (TileAccess){ .tile = b, .reads = true, .is_async = true });
}

// Elementwise work by threads: `to` from `from`; NO_TILE: none.
static inline Action *map_tiles(Made *made, int to, int from)
{
    Action *const map = schedule_add(&made->builder, (Action){ .kind = ACTION_MAP });
    if (to != NO_TILE) schedule_access(made->schedule, map, (TileAccess){ .tile = to, .writes = true });
    if (from != NO_TILE) schedule_access(made->schedule, map, (TileAccess){ .tile = from, .reads = true });
    return map;
}

static inline Action *store_async(Made *made, int tile, int bytes)
{
    Action *const store = schedule_add(
        &made->builder, (Action){ .kind = ACTION_STORE, .store = { .how = STORE_STAGED, .bytes = bytes } });
    schedule_access(made->schedule, store, (TileAccess){ .tile = tile, .reads = true, .is_async = true });
    return store;
}

// ---- planting faults

static inline Action **find_link(Action **link, ActionKind kind, int *n)
{
    for (; *link; link = &(*link)->next) {
        if ((*link)->kind == kind && (*n)-- == 0) return link;
        Action **inside = find_link(&(*link)->body, kind, n);
        if (!inside) inside = find_link(&(*link)->otherwise, kind, n);
        if (inside) return inside;
    }
    return NULL;
}

// The n-th action of that kind in a role, from 0.
static inline Action **link_of(const Made *made, const char *role, ActionKind kind, int n)
{
    for (int i = 0; i < made->schedule->roles.count; i++) {
        ScheduleRole *const at = made->schedule->roles.items[i];
        if (strcmp(at->name, role) != 0) continue;
        Action **const link = find_link(&at->body, kind, &n);
        assert_non_null(link);
        return link;
    }
    fail_msg("no role '%s'", role);
    return NULL;
}

static inline Action *find_action(const Made *made, const char *role, ActionKind kind, int n)
{
    return *link_of(made, role, kind, n);
}

static inline void drop_action(const Made *made, const char *role, ActionKind kind, int n)
{
    Action **const link = link_of(made, role, kind, n);
    *link = (*link)->next;
}

// The action comes after the one that follows it.
static inline void delay_action(const Made *made, const char *role, ActionKind kind, int n)
{
    Action **const link = link_of(made, role, kind, n);
    Action *const first = *link, *const second = first->next;
    assert_non_null(second);
    first->next = second->next;
    second->next = first;
    *link = second;
}

// The action moves to the end of what another one does in the course of its work.
static inline void make_part(const Made *made, const char *role, ActionKind kind, int n, ActionKind whole, int of)
{
    Action **const link = link_of(made, role, kind, n);
    Action *const part = *link;
    *link = part->next;
    part->next = NULL;
    Action **end = &find_action(made, role, whole, of)->body;
    while (*end) end = &(*end)->next;
    *end = part;
}

// ---- the schedules

static const TileOp k_loop = { .kind = T_PIPELINE, .pipeline = { .stages = 3 } };

static inline void gemm_producer(Made *made, int ring, int a, int b)
{
    begin_role(made, ROLE_OF_PRODUCER, "producer", 0, 128, 40);
    open_grid(made);
    open_loop(made, &k_loop, LOOP_ALL);
    open_scope(made, SCOPE_ONE_THREAD, NULL, 1);
    on_ring(made, ACTION_ACQUIRE, ring, 0, 0);
    on_ring(made, ACTION_EXPECT, ring, 1, 49152);
    copy_tile(made, COPY_TMA, a, ring, 16384);
    copy_tile(made, COPY_TMA, b, ring, 32768);
    close_body(made);
    on_ring(made, ACTION_ADVANCE, ring, 0, 0);
    close_body(made);
    close_body(made);
    end_role(made);
}

// Products stay in flight for a step; the result goes through each group's staging.
static inline void gemm_consumers(Made *made, int ring, int a, int b, int acc, int stage)
{
    begin_role(made, ROLE_OF_CONSUMERS, "consumers", 128, 256, 232);
    open_grid(made);
    map_tiles(made, acc, NO_TILE);
    open_loop(made, &k_loop, LOOP_ALL);
    on_ring(made, ACTION_WAIT, ring, 0, 0);
    multiply(made, acc, a, b);
    wait_pending(made, ACTION_MMA_WAIT, 0);
    on_ring(made, ACTION_RELEASE, ring, 8, 0);
    on_ring(made, ACTION_ADVANCE, ring, 0, 0);
    close_body(made);
    wait_pending(made, ACTION_STORE_WAIT, 0);
    at_barrier(made, ACTION_BARRIER_SYNC, 2, 128, BARRIER_OF_GROUP);
    map_tiles(made, stage, acc);
    add(made, ACTION_FENCE_ASYNC);
    at_barrier(made, ACTION_BARRIER_SYNC, 2, 128, BARRIER_OF_GROUP);
    open_scope(made, SCOPE_ONE_THREAD, NULL, 1);
    store_async(made, stage, 32768);
    close_body(made);
    close_body(made);
    wait_pending(made, ACTION_STORE_WAIT, 0);
    end_role(made);
}

static inline Made make_gemm(void)
{
    Made made = make_schedule("gemm", 213040);
    const int ring = add_ring(&made, "a b", 3, 1, 8, 212992);
    const int a = shared_tile(&made, "a", 0, 16384, 3, ring), b = shared_tile(&made, "b", 49152, 32768, 3, ring);
    const int stage = shared_tile(&made, "stage", 147456, 65536, 1, NO_RING), acc = register_tile(&made, "acc", 128);
    made.schedule->tiles.items[stage]->owner = OWNER_GROUP;
    gemm_producer(&made, ring, a, b);
    gemm_consumers(&made, ring, a, b, acc, stage);
    return made;
}

static const TileOp n_loop = { .kind = T_PIPELINE, .pipeline = { .stages = 2 } };

typedef struct Attention {
    int q_ring, k_ring, v_ring, q, k, v, s, p, o;
} Attention;

static inline void attention_producer(Made *made, const Attention *at)
{
    begin_role(made, ROLE_OF_PRODUCER, "producer", 0, 128, 24);
    open_grid(made);
    on_ring(made, ACTION_ACQUIRE, at->q_ring, 0, 0);
    on_ring(made, ACTION_EXPECT, at->q_ring, 1, 32768);
    copy_tile(made, COPY_TMA, at->q, at->q_ring, 32768);
    open_scope(made, SCOPE_ANY_STEP, &n_loop, 0);
    open_loop(made, &n_loop, LOOP_ONE_MORE);
    open_scope(made, SCOPE_BUT_LAST, &n_loop, 0);
    fill_by_tma(made, at->k_ring, at->k, 32768);
    close_body(made);
    open_scope(made, SCOPE_BUT_FIRST, &n_loop, 0);
    fill_by_tma(made, at->v_ring, at->v, 32768);
    close_body(made);
    close_body(made);
    close_body(made);
    on_ring(made, ACTION_ADVANCE, at->q_ring, 0, 0);
    close_body(made);
    end_role(made);
}

static inline void attention_first_step(Made *made, const Attention *at)
{
    open_scope(made, SCOPE_FIRST_STEP, &n_loop, 0);
    on_ring(made, ACTION_WAIT, at->k_ring, 0, 0);
    multiply(made, at->s, at->q, at->k);
    wait_pending(made, ACTION_MMA_WAIT, 0);
    on_ring(made, ACTION_RELEASE, at->k_ring, 8, 0);
    map_tiles(made, at->p, at->s);
    on_ring(made, ACTION_ADVANCE, at->k_ring, 0, 0);
    close_body(made);
}

static inline void attention_steps(Made *made, const Attention *at)
{
    open_loop(made, &n_loop, LOOP_REST);
    at_barrier(made, ACTION_BARRIER_SYNC, 2, 256, BARRIER_OF_GROUP);
    on_ring(made, ACTION_WAIT, at->k_ring, 0, 0);
    multiply(made, at->s, at->q, at->k);
    open_scope(made, SCOPE_PREVIOUS_STEP, &n_loop, 0);
    on_ring(made, ACTION_WAIT, at->v_ring, 0, 0);
    multiply(made, at->o, at->p, at->v);
    close_body(made);
    at_barrier(made, ACTION_BARRIER_ARRIVE, 2, 256, BARRIER_OF_NEXT_GROUP);
    wait_pending(made, ACTION_MMA_WAIT, 1);
    on_ring(made, ACTION_RELEASE, at->k_ring, 8, 0);
    map_tiles(made, NO_TILE, at->s); // maximum
    wait_pending(made, ACTION_MMA_WAIT, 0);
    on_ring(made, ACTION_RELEASE, at->v_ring, 8, 0);
    map_tiles(made, at->p, at->s);
    map_tiles(made, at->o, at->o); // rescaled
    on_ring(made, ACTION_ADVANCE, at->k_ring, 0, 0);
    on_ring(made, ACTION_ADVANCE, at->v_ring, 0, 0);
    close_body(made);
}

static inline void attention_last_step(Made *made, const Attention *at)
{
    open_scope(made, SCOPE_LAST_STEP, &n_loop, 0);
    on_ring(made, ACTION_WAIT, at->v_ring, 0, 0);
    multiply(made, at->o, at->p, at->v);
    wait_pending(made, ACTION_MMA_WAIT, 0);
    on_ring(made, ACTION_RELEASE, at->v_ring, 8, 0);
    on_ring(made, ACTION_ADVANCE, at->v_ring, 0, 0);
    close_body(made);
}

static inline void attention_consumers(Made *made, const Attention *at)
{
    begin_role(made, ROLE_OF_CONSUMERS, "consumers", 128, 256, 240);
    open_scope(made, SCOPE_ONE_GROUP, NULL, 1);
    at_barrier(made, ACTION_BARRIER_ARRIVE, 2, 256, BARRIER_ONE); // the first group's turn
    close_body(made);
    open_grid(made);
    on_ring(made, ACTION_WAIT, at->q_ring, 0, 0);
    map_tiles(made, at->o, NO_TILE);
    open_scope(made, SCOPE_ANY_STEP, &n_loop, 0);
    attention_first_step(made, at);
    attention_steps(made, at);
    attention_last_step(made, at);
    close_body(made);
    on_ring(made, ACTION_RELEASE, at->q_ring, 8, 0);
    on_ring(made, ACTION_ADVANCE, at->q_ring, 0, 0);
    map_tiles(made, NO_TILE, at->o);
    close_body(made);
    end_role(made);
}

static inline Made make_attention(void)
{
    Made made = make_schedule("attention_forward", 163928);
    Attention at = { .q_ring = add_ring(&made, "q", 1, 1, 8, 163840),
                     .k_ring = add_ring(&made, "k", 2, 1, 8, 163856),
                     .v_ring = add_ring(&made, "v", 2, 1, 8, 163888) };
    at.q = shared_tile(&made, "q", 0, 32768, 1, at.q_ring);
    at.k = shared_tile(&made, "k", 32768, 32768, 2, at.k_ring);
    at.v = shared_tile(&made, "v", 98304, 32768, 2, at.v_ring);
    at.s = register_tile(&made, "s", 64);
    at.p = register_tile(&made, "p", 32);
    at.o = register_tile(&made, "o", 64);
    attention_producer(&made, &at);
    attention_consumers(&made, &at);
    return made;
}

typedef struct Groups {
    int k_ring, p_ring, q, k, p, m, s, o;
} Groups;

// Group 0 makes probabilities p and maxima m; group 1 multiplies them. m is handed over by barriers 3 and 4.
static inline void first_group(Made *made, const Groups *at)
{
    begin_role(made, ROLE_OF_CONSUMERS, "group 0", 128, 128, 216);
    map_tiles(made, at->q, NO_TILE);
    add(made, ACTION_FENCE_ASYNC);
    at_barrier(made, ACTION_BARRIER_SYNC, 1, 256, BARRIER_ONE);
    open_loop(made, &n_loop, LOOP_ALL);
    on_ring(made, ACTION_WAIT, at->k_ring, 0, 0);
    multiply(made, at->s, at->q, at->k);
    wait_pending(made, ACTION_MMA_WAIT, 0);
    on_ring(made, ACTION_RELEASE, at->k_ring, 4, 0);
    on_ring(made, ACTION_ACQUIRE, at->p_ring, 0, 0);
    map_tiles(made, at->p, at->s);
    add(made, ACTION_FENCE_ASYNC);
    add(made, ACTION_WARP_SYNC);
    on_ring(made, ACTION_ARRIVE, at->p_ring, 4, 0);
    map_tiles(made, at->m, at->s);
    at_barrier(made, ACTION_BARRIER_ARRIVE, 3, 256, BARRIER_ONE);
    at_barrier(made, ACTION_BARRIER_SYNC, 4, 256, BARRIER_ONE);
    on_ring(made, ACTION_ADVANCE, at->k_ring, 0, 0);
    on_ring(made, ACTION_ADVANCE, at->p_ring, 0, 0);
    close_body(made);
    end_role(made);
}

static inline void second_group(Made *made, const Groups *at)
{
    begin_role(made, ROLE_OF_CONSUMERS, "group 1", 256, 128, 216);
    at_barrier(made, ACTION_BARRIER_SYNC, 1, 256, BARRIER_ONE);
    open_loop(made, &n_loop, LOOP_ALL);
    at_barrier(made, ACTION_BARRIER_SYNC, 3, 256, BARRIER_ONE);
    map_tiles(made, at->o, at->m);
    at_barrier(made, ACTION_BARRIER_ARRIVE, 4, 256, BARRIER_ONE);
    on_ring(made, ACTION_WAIT, at->k_ring, 0, 0);
    on_ring(made, ACTION_WAIT, at->p_ring, 0, 0);
    multiply(made, at->o, at->p, at->k);
    wait_pending(made, ACTION_MMA_WAIT, 0);
    on_ring(made, ACTION_RELEASE, at->p_ring, 4, 0);
    on_ring(made, ACTION_RELEASE, at->k_ring, 4, 0);
    on_ring(made, ACTION_ADVANCE, at->k_ring, 0, 0);
    on_ring(made, ACTION_ADVANCE, at->p_ring, 0, 0);
    close_body(made);
    end_role(made);
}

static inline Made make_specialised(void)
{
    Made made = make_schedule("latent_decode", 148032);
    Groups at = { .k_ring = add_ring(&made, "k", 2, 1, 8, 147968), .p_ring = add_ring(&made, "p", 2, 4, 4, 148000) };
    at.q = shared_tile(&made, "q", 0, 32768, 1, NO_RING);
    at.k = shared_tile(&made, "k", 32768, 32768, 2, at.k_ring);
    at.p = shared_tile(&made, "p", 98304, 16384, 2, at.p_ring);
    at.m = shared_tile(&made, "m", 131072, 256, 1, NO_RING);
    at.s = register_tile(&made, "s", 64);
    at.o = register_tile(&made, "o", 128);
    begin_role(&made, ROLE_OF_PRODUCER, "producer", 0, 128, 72);
    open_loop(&made, &n_loop, LOOP_ALL);
    fill_by_tma(&made, at.k_ring, at.k, 32768);
    close_body(&made);
    end_role(&made);
    first_group(&made, &at);
    second_group(&made, &at);
    return made;
}

// A producer that copies boxes, or elements where the launch's strides allow none.
static inline Made make_copied(void)
{
    Made made = make_schedule("copied", 65568);
    const int ring = add_ring(&made, "a", 2, 1, 4, 65536);
    const int a = shared_tile(&made, "a", 0, 32768, 2, ring), acc = register_tile(&made, "acc", 64);
    begin_role(&made, ROLE_OF_PRODUCER, "producer", 0, 128, 40);
    open_scope(&made, SCOPE_ALIGNED, NULL, 0);
    open_loop(&made, &k_loop, LOOP_ALL);
    fill_by_tma(&made, ring, a, 32768);
    close_body(&made);
    schedule_otherwise(&made.builder);
    open_loop(&made, &k_loop, LOOP_ALL);
    on_ring(&made, ACTION_ACQUIRE, ring, 0, 0);
    copy_tile(&made, COPY_THREADS, a, ring, 0);
    add(&made, ACTION_FENCE_ASYNC);
    at_barrier(&made, ACTION_BARRIER_SYNC, 2, 128, BARRIER_ONE);
    on_ring(&made, ACTION_ARRIVE, ring, 1, 0);
    on_ring(&made, ACTION_ADVANCE, ring, 0, 0);
    close_body(&made);
    close_body(&made);
    end_role(&made);
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 128, 128, 216);
    open_loop(&made, &k_loop, LOOP_ALL);
    on_ring(&made, ACTION_WAIT, ring, 0, 0);
    multiply(&made, acc, a, a);
    wait_pending(&made, ACTION_MMA_WAIT, 0);
    on_ring(&made, ACTION_RELEASE, ring, 4, 0);
    on_ring(&made, ACTION_ADVANCE, ring, 0, 0);
    close_body(&made);
    end_role(&made);
    return made;
}

// The result of a product goes through two boxes of each warp, in turn, where its operand lay.
static inline void store_boxes(Made *made, int staging, int o)
{
    for (int i = 0; i < 4; i++) {
        wait_pending(made, ACTION_STORE_WAIT, i ? 1 : 0);
        add(made, ACTION_WARP_SYNC);
        map_tiles(made, staging, o)->accesses[0].ahead = i % 2;
        add(made, ACTION_FENCE_ASYNC);
        add(made, ACTION_WARP_SYNC);
        store_async(made, staging, 8192)->accesses[0].ahead = i % 2;
    }
}

static inline Made make_staged(void)
{
    Made made = make_schedule("staged", 32768);
    const int q = shared_tile(&made, "q", 0, 32768, 1, NO_RING), o = register_tile(&made, "o", 64);
    const int staging = shared_tile(&made, "staging", 0, 16384, 2, NO_RING);
    ScheduleTile *const boxes = made.schedule->tiles.items[staging];
    boxes->owner = OWNER_WARP;
    boxes->parts = 2;
    boxes->part_bytes = 16384;
    boxes->is_over = true;
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 0, 256, 0);
    open_grid(&made);
    wait_pending(&made, ACTION_STORE_WAIT, 0);
    at_barrier(&made, ACTION_BARRIER_SYNC, 1, 256, BARRIER_ONE);
    map_tiles(&made, q, NO_TILE);
    add(&made, ACTION_FENCE_ASYNC);
    at_barrier(&made, ACTION_BARRIER_SYNC, 1, 256, BARRIER_ONE);
    multiply(&made, o, q, q);
    wait_pending(&made, ACTION_MMA_WAIT, 0);
    at_barrier(&made, ACTION_BARRIER_SYNC, 1, 256, BARRIER_ONE);
    store_boxes(&made, staging, o);
    close_body(&made);
    wait_pending(&made, ACTION_STORE_WAIT, 0);
    end_role(&made);
    return made;
}

// A producer works out a step early which rows it gathers; a row index is a thread's, or (of_warp) a warp's.
static inline Made make_rows(bool of_warp)
{
    Made made = make_schedule("gathered", 66560);
    const int ring = add_ring(&made, "k", 2, 128, 4, 66048);
    const int k = shared_tile(&made, "k", 0, 32768, 2, ring), at = shared_tile(&made, "at", 65536, 256, 2, NO_RING);
    const int o = register_tile(&made, "o", 64);
    made.schedule->tiles.items[at]->loop = &n_loop;
    made.schedule->tiles.items[at]->owner = of_warp ? OWNER_WARP : OWNER_GROUP;
    begin_role(&made, ROLE_OF_PRODUCER, "producer", 0, 128, 72);
    open_scope(&made, SCOPE_FIRST_STEP, &n_loop, 0);
    map_tiles(&made, at, NO_TILE);
    close_body(&made);
    open_loop(&made, &n_loop, LOOP_ALL);
    if (of_warp) add(&made, ACTION_WARP_SYNC);
    else at_barrier(&made, ACTION_BARRIER_SYNC, 2, 128, BARRIER_ONE);
    map_tiles(&made, at, NO_TILE)->accesses[0].ahead = 1;
    on_ring(&made, ACTION_ACQUIRE, ring, 0, 0);
    map_tiles(&made, k, at);
    add(&made, ACTION_FENCE_ASYNC);
    on_ring(&made, ACTION_ARRIVE, ring, 128, 0);
    on_ring(&made, ACTION_ADVANCE, ring, 0, 0);
    close_body(&made);
    end_role(&made);
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 128, 128, 216);
    open_loop(&made, &n_loop, LOOP_ALL);
    on_ring(&made, ACTION_WAIT, ring, 0, 0);
    multiply(&made, o, k, k);
    wait_pending(&made, ACTION_MMA_WAIT, 0);
    on_ring(&made, ACTION_RELEASE, ring, 4, 0);
    on_ring(&made, ACTION_ADVANCE, ring, 0, 0);
    close_body(&made);
    end_role(&made);
    return made;
}

// Before Hopper: copies run two steps ahead through cp.async; a barrier a step.
static inline Made make_multistage(void)
{
    Made made = make_schedule("gemm", 98304);
    made.schedule->target = "sm_80";
    made.schedule->has_async_proxy = made.schedule->is_persistent = false;
    const int a = shared_tile(&made, "a", 0, 32768, 3, NO_RING), acc = register_tile(&made, "acc", 64);
    made.schedule->tiles.items[a]->loop = &k_loop;
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 0, 256, 0);
    schedule_open(&made.builder,
                  (Action){ .kind = ACTION_LOOP, .loop = { .part = LOOP_AHEAD, .source = &k_loop, .ahead = 2 } });
    open_scope(&made, SCOPE_HAS_STEP, &k_loop, 0);
    wait_pending(&made, ACTION_COPY_WAIT, 1);
    at_barrier(&made, ACTION_BARRIER_SYNC, 0, 0, BARRIER_ONE);
    close_body(&made);
    open_scope(&made, SCOPE_STEP_AHEAD, &k_loop, 0);
    copy_tile(&made, COPY_CP_ASYNC, a, NO_RING, 0);
    close_body(&made);
    add(&made, ACTION_COPY_COMMIT);
    open_scope(&made, SCOPE_HAS_STEP, &k_loop, 0);
    map_tiles(&made, acc, a);
    close_body(&made);
    close_body(&made);
    end_role(&made);
    return made;
}

#endif
