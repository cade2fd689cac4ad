// SPDX-License-Identifier: MIT
// schedule_verify() on schedules made by hand: right ones pass, and each kind of fault is named with its tile, ring or barrier
// and its role.
#include "schedules.h"

#include "lower/gpu/schedule/verify.h"

static void expect_right(Made made)
{
    const ScheduleFault fault = schedule_verify(made.schedule);
    if (fault.kind != FAULT_NONE) fail_msg("%s: %s", made.schedule->kernel, fault.message);
    end_schedule(&made);
}

// Both words stand in the message.
static void expect_fault(Made made, ScheduleFaultKind kind, const char *what, const char *who)
{
    const ScheduleFault fault = schedule_verify(made.schedule);
    if (fault.kind == FAULT_NONE) fail_msg("no fault; expected %s, %s", what, who);
    if (fault.kind != kind || !strstr(fault.message, what) || !strstr(fault.message, who))
        fail_msg("kind %d instead of %d, or not '%s' and '%s': %s", fault.kind, kind, what, who, fault.message);
    end_schedule(&made);
}

static void right_schedules_pass(void **state)
{
    (void)state;
    expect_right(make_gemm());
    expect_right(make_attention());
    expect_right(make_specialised());
    expect_right(make_multistage());
    expect_right(make_staged());
    expect_right(make_rows(false));
    expect_right(make_rows(true));
}

// A copy waits for its slot and announces its bytes before it copies; what others do in the course of their work follows
// what they access.
static void parts_come_before_copies_and_after_others(void **state)
{
    (void)state;
    Made made = make_gemm();
    make_part(&made, "producer", ACTION_ACQUIRE, 0, ACTION_COPY, 0);
    make_part(&made, "producer", ACTION_EXPECT, 0, ACTION_COPY, 0);
    expect_right(made);
    made = make_gemm(); // the other copy fills the slot before
    make_part(&made, "producer", ACTION_ACQUIRE, 0, ACTION_COPY, 1);
    expect_fault(made, FAULT_RING, "'a b'", "producer");
    made = make_gemm();
    make_part(&made, "consumers", ACTION_MMA_WAIT, 0, ACTION_MMA, 0);
    make_part(&made, "consumers", ACTION_RELEASE, 0, ACTION_MMA, 0);
    expect_right(made);
    made = make_gemm(); // for its operands
    make_part(&made, "consumers", ACTION_WAIT, 0, ACTION_MMA, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "consumers");
}

// ---- 1. not visible

static void reads_without_a_wait(void **state)
{
    (void)state;
    Made made = make_gemm();
    drop_action(&made, "consumers", ACTION_WAIT, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "consumers");
    made = make_attention();
    delay_action(&made, "consumers", ACTION_WAIT, 2); // k, after its product
    expect_fault(made, FAULT_NOT_VISIBLE, "'k'", "consumers");
    made = make_attention();
    drop_action(&made, "consumers", ACTION_WAIT, 4); // v of the last step alone
    expect_fault(made, FAULT_NOT_VISIBLE, "'v'", "consumers");
}

static void reads_without_a_barrier(void **state)
{
    (void)state;
    Made made = make_specialised();
    drop_action(&made, "group 1", ACTION_BARRIER_SYNC, 1); // group 0's arrivals stay without answer
    drop_action(&made, "group 0", ACTION_BARRIER_ARRIVE, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'m'", "group 1");
    made = make_specialised();
    drop_action(&made, "group 0", ACTION_BARRIER_SYNC, 0);
    drop_action(&made, "group 1", ACTION_BARRIER_SYNC, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'q'", "its other threads");
    made = make_multistage();
    drop_action(&made, "consumers", ACTION_BARRIER_SYNC, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "its other threads");
    made = make_multistage();
    drop_action(&made, "consumers", ACTION_COPY_WAIT, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "cp.async");
    made = make_multistage(); // waits for one group too few
    find_action(&made, "consumers", ACTION_COPY_WAIT, 0)->wait.pending = 2;
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "cp.async");
}

// Stores under `x == 0`, a barrier under `x COMPARED 0`.
static Made make_conditions(ExprOp compared, bool is_assigned)
{
    Made made = make_schedule("conditions", 4096);
    const int m = shared_tile(&made, "m", 0, 4096, 1, NO_RING), r = register_tile(&made, "r", 8);
    Var *const x = NEW(made.arena, Var, .name = "x", .kind = VAR_LOCAL, .type = DTYPE_I32, .assigned = is_assigned);
    TileOp *op[2];
    for (int i = 0; i < 2; i++) {
        op[i] = NEW(made.arena, TileOp, .kind = T_IF);
        op[i]->branch.cond =
            expr_binary(made.arena, i ? compared : X_EQ, expr_var(made.arena, x), expr_int(made.arena, DTYPE_I32, 0));
    }
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 0, 128, 0);
    open_if(&made, op[0]);
    map_tiles(&made, m, NO_TILE);
    close_body(&made);
    open_if(&made, op[1]);
    at_barrier(&made, ACTION_BARRIER_SYNC, 0, 128, BARRIER_ONE);
    close_body(&made);
    map_tiles(&made, r, m);
    end_role(&made);
    return made;
}

static void conditions_exclude_each_other(void **state)
{
    (void)state;
    expect_right(make_conditions(X_EQ, false));
    expect_fault(make_conditions(X_NE, false), FAULT_NOT_VISIBLE, "'m'", "its other threads");
    expect_right(make_conditions(X_NE, true)); // x may have changed between the two: they may both hold
}

static void writes_what_others_read(void **state)
{
    (void)state;
    Made made = make_specialised();
    delay_action(&made, "group 1", ACTION_MAP, 0); // it tells group 0 to go on before it has read m
    expect_fault(made, FAULT_NOT_VISIBLE, "'m'", "group 1");
    made = make_gemm(); // one thread has waited for the store of stage, the others have not heard of it
    drop_action(&made, "consumers", ACTION_BARRIER_SYNC, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'stage'", "its other threads");
}

static void warps_are_apart(void **state)
{
    (void)state;
    Made made = make_staged(); // lane 0 has waited until the box is read, the others have not heard of it
    drop_action(&made, "consumers", ACTION_WARP_SYNC, 4);
    expect_fault(made, FAULT_NOT_VISIBLE, "'staging'", "its other threads");
    made = make_staged(); // it sends what the others are still filling
    drop_action(&made, "consumers", ACTION_WARP_SYNC, 1);
    expect_fault(made, FAULT_NOT_VISIBLE, "'staging'", "its other threads");
    made = make_rows(true);
    drop_action(&made, "producer", ACTION_WARP_SYNC, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'at'", "its other threads");
}

// One lane speaks for its warp.
static void lanes_arrive_too_early(void **state)
{
    (void)state;
    Made made = make_specialised();
    drop_action(&made, "group 0", ACTION_WARP_SYNC, 0);
    expect_fault(made, FAULT_RING, "'p'", "a lane of group 0 fills");
    made = make_specialised(); // it stands before what it should follow
    delay_action(&made, "group 0", ACTION_FENCE_ASYNC, 1);
    delay_action(&made, "group 0", ACTION_MAP, 1);
    expect_fault(made, FAULT_RING, "'p'", "a lane of group 0 fills");
    made = make_rows(false); // of a tile that threads read
    find_action(&made, "consumers", ACTION_MMA, 0)->kind = ACTION_MAP;
    expect_fault(made, FAULT_RING, "'k'", "a lane of consumers releases");
}

// Where the launch's strides allow no boxes the producer does otherwise.
static void elements_are_copied_wrongly(void **state)
{
    (void)state;
    expect_right(make_copied());
    Made made = make_copied();
    Action *const scope = find_action(&made, "producer", ACTION_SCOPE, 0);
    Action *const acquire = scope->otherwise->body;
    scope->otherwise->body = acquire->next;
    expect_fault(made, FAULT_RING, "'a'", "producer");
    made = make_copied();
    Action *const copy = find_action(&made, "producer", ACTION_SCOPE, 0)->otherwise->body->next;
    copy->next = copy->next->next; // the fence
    expect_fault(made, FAULT_PROXY, "'a'", "producer");
    made = make_copied();
    Action *const fence = find_action(&made, "producer", ACTION_SCOPE, 0)->otherwise->body->next->next;
    fence->next = fence->next->next; // the barrier
    expect_fault(made, FAULT_RING, "'a'", "a lane of producer fills");
    made = make_copied(); // one thread arrives for all
    made.schedule->rings.items[0]->elements_count = 32;
    expect_fault(made, FAULT_RING, "'a'", "1 of 32 arrivals");
}

static void row_indices_are_early(void **state)
{
    (void)state;
    Made made = make_rows(false);
    drop_action(&made, "producer", ACTION_BARRIER_SYNC, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'at'", "its other threads");
    made = make_rows(false); // this step's, not the next one's
    find_action(&made, "producer", ACTION_MAP, 1)->accesses[0].ahead = 0;
    expect_fault(made, FAULT_NOT_VISIBLE, "'at'", "its other threads");
    made = make_rows(false); // this step's are read where the next one's are written
    made.schedule->tiles.items[1]->slots = 1;
    expect_fault(made, FAULT_NOT_VISIBLE, "'at'", "its other threads");
    made = make_rows(true); // a warp gathers rows of others
    made.schedule->tiles.items[1]->owner = OWNER_GROUP;
    expect_fault(made, FAULT_NOT_VISIBLE, "'at'", "its other threads");
}

// Rows that begin anywhere: cp.async brings them a step before threads shift them in their slot. At the loop's end the
// consumers hold the slot of the step before.
static Made make_shifted(int slots)
{
    Made made = make_schedule("shifted", 65536);
    const int ring = add_ring(&made, "a", slots, 4, 4, 49152), a = shared_tile(&made, "a", 0, 8192, slots, ring);
    const int acc = register_tile(&made, "acc", 32);
    begin_role(&made, ROLE_OF_PRODUCER, "producer", 0, 128, 40);
    open_grid(&made);
    for (int in_loop = 0; in_loop < 2; in_loop++) {
        if (in_loop) open_loop(&made, &k_loop, LOOP_ALL);
        open_scope(&made, in_loop ? SCOPE_FURTHER_STEP : SCOPE_ANY_STEP, &k_loop, 0);
        on_ring(&made, ACTION_ACQUIRE, ring, 0, 0);
        copy_tile(&made, COPY_CP_ASYNC, a, NO_RING, 0);
        close_body(&made);
        add(&made, ACTION_COPY_COMMIT);
    }
    on_ring(&made, ACTION_ACQUIRE, ring, 0, 0);
    wait_pending(&made, ACTION_COPY_WAIT, 1);
    copy_tile(&made, COPY_THREADS, a, ring, 0)->copy.shifts = true;
    add(&made, ACTION_FENCE_ASYNC);
    add(&made, ACTION_WARP_SYNC);
    on_ring(&made, ACTION_ARRIVE, ring, 4, 0);
    on_ring(&made, ACTION_ADVANCE, ring, 0, 0);
    close_body(&made);
    close_body(&made);
    end_role(&made);
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 128, 128, 232);
    open_grid(&made);
    map_tiles(&made, acc, NO_TILE);
    open_loop(&made, &k_loop, LOOP_ALL);
    on_ring(&made, ACTION_WAIT, ring, 0, 0);
    multiply(&made, acc, a, a);
    wait_pending(&made, ACTION_MMA_WAIT, 0);
    on_ring(&made, ACTION_RELEASE, ring, 4, 0);
    on_ring(&made, ACTION_ADVANCE, ring, 0, 0);
    close_body(&made);
    close_body(&made);
    end_role(&made);
    return made;
}

static void rows_are_fetched_a_step_ahead(void **state)
{
    (void)state;
    expect_right(make_shifted(3));
    Made made = make_shifted(3); // of the step that consumers still read
    drop_action(&made, "producer", ACTION_ACQUIRE, 1);
    expect_fault(made, FAULT_RING, "'a'", "producer fills");
    made = make_shifted(3); // to this step's slot, not the next one's
    find_action(&made, "producer", ACTION_SCOPE, 1)->scope.kind = SCOPE_ANY_STEP;
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "cp.async");
    made = make_shifted(3); // the first step's are never copied
    drop_action(&made, "producer", ACTION_SCOPE, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "nothing of this step");
    made = make_shifted(3); // the next step's are on their way, too: this one's may be
    find_action(&made, "producer", ACTION_COPY_WAIT, 0)->wait.pending = 2;
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "cp.async");
    made = make_shifted(3);
    drop_action(&made, "producer", ACTION_COPY_WAIT, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "cp.async");
    made = make_shifted(3); // with the next step's in one group
    drop_action(&made, "producer", ACTION_COPY_COMMIT, 0);
    expect_fault(made, FAULT_NOT_VISIBLE, "'a'", "cp.async");
    made = make_shifted(1); // the next step's slot is this one's
    expect_fault(made, FAULT_DEADLOCK, "'a'", "producer");
}

// ---- 2. rings

static void slots_are_filled_too_early(void **state)
{
    (void)state;
    Made made = make_gemm();
    drop_action(&made, "producer", ACTION_ACQUIRE, 0);
    expect_fault(made, FAULT_RING, "'a b'", "producer");
    made = make_attention();
    drop_action(&made, "producer", ACTION_ACQUIRE, 2);
    expect_fault(made, FAULT_RING, "'v'", "producer");
    made = make_specialised();
    drop_action(&made, "group 0", ACTION_ACQUIRE, 0);
    expect_fault(made, FAULT_RING, "'p'", "group 0");
}

static void slots_are_released_wrongly(void **state)
{
    (void)state;
    Made made = make_gemm();
    drop_action(&made, "consumers", ACTION_RELEASE, 0);
    expect_fault(made, FAULT_RING, "never releases", "consumers");
    made = make_attention();
    drop_action(&made, "consumers", ACTION_RELEASE, 3); // v of the last step
    expect_fault(made, FAULT_RING, "'v'", "consumers");
    made = make_gemm();
    Action *const release = find_action(&made, "consumers", ACTION_RELEASE, 0);
    Action *const again = NEW(made.arena, Action);
    *again = *release;
    release->next = again;
    expect_fault(made, FAULT_RING, "twice", "consumers");
    made = make_specialised();
    delay_action(&made, "group 0", ACTION_WAIT, 0);
    delay_action(&made, "group 0", ACTION_RELEASE, 0);
    find_action(&made, "group 0", ACTION_RELEASE, 0)->ring.arrivals = 3;
    delay_action(&made, "group 0", ACTION_MMA, 0);
    expect_fault(made, FAULT_RING, "'k'", "arrivals");
}

static void counts_differ(void **state)
{
    (void)state;
    Made made = make_gemm();
    made.schedule->rings.items[0]->empty_count = 4;
    expect_fault(made, FAULT_RING, "'a b'", "fill");
    made = make_gemm();
    find_action(&made, "producer", ACTION_EXPECT, 0)->ring.bytes = 49152 + 128;
    expect_fault(made, FAULT_RING, "128 bytes", "consumers");
    made = make_gemm();
    find_action(&made, "producer", ACTION_EXPECT, 0)->ring.bytes = 49152 - 128;
    expect_fault(made, FAULT_RING, "'a b'", "producer");
    made = make_specialised();
    made.schedule->rings.items[1]->full_count = 5;
    expect_fault(made, FAULT_RING, "'p'", "group 1");
}

static void trip_counts_differ(void **state)
{
    (void)state;
    Made made = make_attention();
    drop_action(&made, "consumers", ACTION_ADVANCE, 1);
    expect_fault(made, FAULT_RING, "'k'", "consumers");
    made = make_gemm();
    Action *const body = find_action(&made, "consumers", ACTION_LOOP, 0);
    body->loop.part = LOOP_REST;
    expect_fault(made, FAULT_RING, "'a b'", "producer");
    static const TileOp other = { .kind = T_PIPELINE };
    made = make_gemm();
    find_action(&made, "producer", ACTION_LOOP, 0)->loop.source = &other;
    expect_fault(made, FAULT_RING, "'a b'", "consumers");
}

// ---- 3. proxies

static void fences_are_missing(void **state)
{
    (void)state;
    Made made = make_gemm();
    drop_action(&made, "consumers", ACTION_FENCE_ASYNC, 0);
    expect_fault(made, FAULT_PROXY, "'stage'", "consumers");
    made = make_specialised();
    drop_action(&made, "group 0", ACTION_FENCE_ASYNC, 0);
    expect_fault(made, FAULT_PROXY, "'q'", "group 0");
    made = make_specialised();
    drop_action(&made, "group 0", ACTION_FENCE_ASYNC, 1);
    expect_fault(made, FAULT_PROXY, "'p'", "group 1");
    made = make_gemm(); // in the wrong place
    delay_action(&made, "consumers", ACTION_MAP, 1);
    expect_fault(made, FAULT_PROXY, "'stage'", "consumers");
    made = make_gemm();
    drop_action(&made, "consumers", ACTION_STORE_WAIT, 0);
    expect_fault(made, FAULT_PROXY, "bulk store", "consumers");
}

// A GEMM whose threads load their operands, with a fence before an action.
static Made make_loaded(ActionKind before, bool fences)
{
    Made made = make_gemm();
    Action *const load = find_action(&made, "consumers", ACTION_MMA, 0);
    load->kind = ACTION_MAP;
    for (int i = 0; i < load->n_accesses; i++) load->accesses[i].is_async = false;
    Action *const wait = find_action(&made, "consumers", ACTION_MMA_WAIT, 0);
    wait->kind = ACTION_WARP_SYNC;
    Action *const at = find_action(&made, "consumers", before, before == ACTION_MAP ? 1 : 0);
    if (!fences) return made;
    Action *const moved = NEW(made.arena, Action);
    *moved = *at;
    *at = (Action){ .kind = ACTION_FENCE_ASYNC, .next = moved };
    return made;
}

// What threads load a copy overwrites after a fence.
static void loads_are_not_fenced(void **state)
{
    (void)state;
    expect_right(make_loaded(ACTION_RELEASE, true));
    expect_fault(make_loaded(ACTION_RELEASE, false), FAULT_PROXY, "'a' is loaded by threads of consumers", "producer");
    expect_fault(make_loaded(ACTION_MAP, true), FAULT_PROXY, "'a' is loaded by threads of consumers", "producer");
    Made made = make_loaded(ACTION_RELEASE, true); // after the arrival
    delay_action(&made, "consumers", ACTION_FENCE_ASYNC, 0);
    expect_fault(made, FAULT_PROXY, "'a' is loaded by threads of consumers", "producer");
}

static void stores_are_not_waited_for(void **state)
{
    (void)state;
    Made made = make_staged(); // before a box is filled again
    drop_action(&made, "consumers", ACTION_STORE_WAIT, 3);
    expect_fault(made, FAULT_PROXY, "'staging'", "bulk store");
    made = make_staged(); // of two boxes in flight none
    find_action(&made, "consumers", ACTION_STORE_WAIT, 4)->wait.pending = 2;
    expect_fault(made, FAULT_PROXY, "'staging'", "bulk store");
    made = make_staged(); // before shared memory goes away
    drop_action(&made, "consumers", ACTION_STORE_WAIT, 5);
    expect_fault(made, FAULT_PROXY, "'staging'", "ends while");
    made = make_staged(); // a box is filled and not fenced
    drop_action(&made, "consumers", ACTION_FENCE_ASYNC, 1);
    expect_fault(made, FAULT_PROXY, "'staging'", "fence");
}

// A fence of the one who reads does, too.
static void readers_may_fence(void **state)
{
    (void)state;
    Made made = make_specialised();
    drop_action(&made, "group 0", ACTION_FENCE_ASYNC, 1);
    Action *const wait = find_action(&made, "group 1", ACTION_WAIT, 1);
    Action *const fence = NEW(made.arena, Action, .kind = ACTION_FENCE_ASYNC, .next = wait->next);
    wait->next = fence;
    expect_right(made);
}

// ---- 4. in flight

static void products_in_flight_are_touched(void **state)
{
    (void)state;
    Made made = make_attention(); // s is read before its wait
    drop_action(&made, "consumers", ACTION_MMA_WAIT, 0);
    find_action(&made, "consumers", ACTION_RELEASE, 0)->kind = ACTION_WAIT;
    expect_fault(made, FAULT_IN_FLIGHT, "'s'", "consumers");
    made = make_attention(); // p is written while o's product reads it
    find_action(&made, "consumers", ACTION_MMA_WAIT, 2)->wait.pending = 1;
    find_action(&made, "consumers", ACTION_RELEASE, 2)->kind = ACTION_WAIT;
    expect_fault(made, FAULT_IN_FLIGHT, "'p'", "consumers");
    made = make_gemm(); // the slot is released while it is read
    drop_action(&made, "consumers", ACTION_MMA_WAIT, 0);
    expect_fault(made, FAULT_IN_FLIGHT, "'a b'", "consumers");
    made = make_attention(); // o is still summed when it is stored
    drop_action(&made, "consumers", ACTION_MMA_WAIT, 3);
    find_action(&made, "consumers", ACTION_RELEASE, 3)->kind = ACTION_WAIT;
    expect_fault(made, FAULT_IN_FLIGHT, "'o'", "consumers");
}

// Sums in flight are read under a condition: x == 0, or its opposite after work under x == 0.
static Made make_conditional_read(bool is_opposite)
{
    Made made = make_schedule("conditional", 8192);
    const int a = shared_tile(&made, "a", 0, 4096, 1, NO_RING), b = shared_tile(&made, "b", 4096, 4096, 1, NO_RING);
    const int sums = register_tile(&made, "sums", 64), r = register_tile(&made, "r", 8);
    Var *const x = NEW(made.arena, Var, .name = "x", .kind = VAR_LOCAL, .type = DTYPE_I32);
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 0, 128, 0);
    multiply(&made, sums, a, b);
    for (int i = 0; i <= is_opposite; i++) {
        TileOp *const op = NEW(made.arena, TileOp, .kind = T_IF);
        op->branch.cond =
            expr_binary(made.arena, i ? X_NE : X_EQ, expr_var(made.arena, x), expr_int(made.arena, DTYPE_I32, 0));
        open_if(&made, op);
        map_tiles(&made, r, i == is_opposite ? sums : NO_TILE);
        close_body(&made);
    }
    wait_pending(&made, ACTION_MMA_WAIT, 0);
    end_role(&made);
    return made;
}

static void products_in_flight_are_read_by_some(void **state)
{
    (void)state;
    expect_fault(make_conditional_read(false), FAULT_IN_FLIGHT, "'sums'", "consumers");
    expect_fault(make_conditional_read(true), FAULT_IN_FLIGHT, "'sums'", "consumers");
    Made made = make_conditional_read(true);
    delay_action(&made, "consumers", ACTION_IF, 1);
    expect_right(made);
}

static void products_in_flight_at_the_end(void **state)
{
    (void)state;
    Made made = make_specialised();
    Action *const wait = find_action(&made, "group 1", ACTION_MMA_WAIT, 0);
    wait->wait.pending = 1;
    find_action(&made, "group 1", ACTION_RELEASE, 0)->kind = ACTION_WAIT;
    find_action(&made, "group 1", ACTION_RELEASE, 0)->kind = ACTION_WAIT;
    const ScheduleFault fault = schedule_verify(made.schedule);
    assert_int_equal(fault.kind, FAULT_IN_FLIGHT);
    end_schedule(&made);
}

// ---- 5. memory

static void memory_is_exceeded(void **state)
{
    (void)state;
    Made made = make_gemm();
    made.schedule->tiles.items[1]->offset = 40960;
    expect_fault(made, FAULT_MEMORY, "'b'", "'a'");
    made = make_gemm();
    made.schedule->shared_bytes = 240 * 1024;
    expect_fault(made, FAULT_MEMORY, "shared memory", "245760");
    made = make_attention();
    made.schedule->roles.items[1]->registers = 248;
    expect_fault(made, FAULT_MEMORY, "registers", "66560");
    made = make_attention();
    made.schedule->rings.items[1]->full_offset = 98304;
    expect_fault(made, FAULT_MEMORY, "mbarriers", "'k'");
}

static void places_are_taken(void **state)
{
    (void)state;
    Made made = make_staged(); // the other group may still read the operand
    drop_action(&made, "consumers", ACTION_BARRIER_SYNC, 2);
    expect_fault(made, FAULT_MEMORY, "'staging' where 'q' lies", "consumers (group");
    made = make_staged(); // boxes of the tile before are still read
    drop_action(&made, "consumers", ACTION_STORE_WAIT, 0);
    expect_fault(made, FAULT_MEMORY, "'q' where 'staging' lies", "consumers (group");
    made = make_staged(); // the operand is gone
    const Action *const sent = find_action(&made, "consumers", ACTION_STORE, 3);
    ((Action *)sent)->next = NEW(made.arena, Action, .kind = ACTION_MAP);
    schedule_access(made.schedule, sent->next, (TileAccess){ .tile = 0, .reads = true });
    expect_fault(made, FAULT_MEMORY, "'q' after 'staging' was written", "consumers");
    made = make_gemm(); // the next tile's copies come while boxes are read
    made.schedule->tiles.items[2]->offset = 0;
    made.schedule->tiles.items[2]->is_over = true;
    expect_fault(made, FAULT_MEMORY, "'stage'", "'a'");
    made = make_staged(); // nothing says that it may
    made.schedule->tiles.items[2]->is_over = false;
    expect_fault(made, FAULT_MEMORY, "'staging'", "alive at once");
}

static void registers_are_exceeded(void **state)
{
    (void)state;
    Made made = make_gemm();
    made.schedule->roles.items[1]->registers = 236;
    expect_fault(made, FAULT_MEMORY, "236 registers", "consumers");
    made = make_gemm(); // as many as at launch are too many for all
    made.schedule->roles.items[0]->registers = 0;
    made.schedule->launch_registers = 168;
    expect_fault(made, FAULT_MEMORY, "the roles ask for", "65536");
    made = make_attention(); // both products are in flight at one time
    made.schedule->tiles.items[5]->registers = 192;
    expect_fault(made, FAULT_MEMORY, "256 registers", "consumers");
    made = make_staged(); // none are set
    made.schedule->launch_registers = 56;
    expect_fault(made, FAULT_MEMORY, "64 registers", "consumers");
}

// ---- 6. named barriers

static void barriers_overlap(void **state)
{
    (void)state;
    Made made = make_attention(); // a turn is passed twice
    Action *const arrive = find_action(&made, "consumers", ACTION_BARRIER_ARRIVE, 1);
    Action *const again = NEW(made.arena, Action);
    *again = *arrive;
    arrive->next = again;
    expect_fault(made, FAULT_BARRIER, "barrier", "consumers");
    made = make_gemm(); // both groups at one barrier of one group's threads
    find_action(&made, "consumers", ACTION_BARRIER_SYNC, 0)->barrier.of = BARRIER_ONE;
    find_action(&made, "consumers", ACTION_BARRIER_SYNC, 1)->barrier.of = BARRIER_ONE;
    expect_fault(made, FAULT_BARRIER, "barrier 2", "consumers");
    made = make_specialised(); // counts differ
    find_action(&made, "group 1", ACTION_BARRIER_SYNC, 0)->barrier.threads = 384;
    expect_fault(made, FAULT_BARRIER, "barrier 1", "group");
    made = make_specialised(); // two signals through one barrier
    find_action(&made, "group 0", ACTION_BARRIER_SYNC, 1)->barrier.barrier = 3;
    find_action(&made, "group 1", ACTION_BARRIER_ARRIVE, 0)->barrier.barrier = 3;
    expect_fault(made, FAULT_BARRIER, "barrier 3", "group");
}

static void parts_of_warps_meet(void **state)
{
    (void)state;
    Made made = make_gemm();
    Action *const scope = find_action(&made, "consumers", ACTION_SCOPE, 0);
    scope->body = NEW(made.arena, Action, .kind = ACTION_BARRIER_SYNC, .barrier = { 2, 128, BARRIER_OF_GROUP });
    expect_fault(made, FAULT_BARRIER, "part of a warp", "consumers");
    made = make_specialised();
    Action *const sync = find_action(&made, "group 1", ACTION_BARRIER_SYNC, 0);
    Action *const body = NEW(made.arena, Action);
    *body = *sync;
    body->next = NULL;
    Action *const next = sync->next;
    *sync = (Action){ .kind = ACTION_IF, .next = next, .body = body };
    expect_fault(made, FAULT_BARRIER, "part of a warp", "group 1");
    made = make_specialised(); // nobody else comes
    drop_action(&made, "group 1", ACTION_BARRIER_SYNC, 0);
    expect_fault(made, FAULT_BARRIER, "barrier 1", "group 0");
}

// ---- 7. deadlock

static void roles_wait_for_each_other(void **state)
{
    (void)state;
    Made made = make_attention(); // nobody has the first turn
    drop_action(&made, "consumers", ACTION_BARRIER_ARRIVE, 0);
    expect_fault(made, FAULT_DEADLOCK, "barrier 2", "consumers (group 0)");
    made = make_attention(); // the copy of q waits for what only a step after it frees
    Action *const grid = find_action(&made, "producer", ACTION_GRID, 0);
    Action *const q = grid->body, *const loop = q->next->next->next;
    q->next->next->next = loop->next;
    loop->next = q;
    grid->body = loop;
    expect_fault(made, FAULT_DEADLOCK, "ring 'q'", "producer");
    made = make_attention(); // v of the last step comes only with the next tile, for which q must be free
    find_action(&made, "producer", ACTION_LOOP, 0)->loop.part = LOOP_ALL;
    expect_fault(made, FAULT_DEADLOCK, "'v'", "producer");
    made = make_specialised(); // each group waits first for the other's signal
    Action *const arrive = find_action(&made, "group 0", ACTION_BARRIER_ARRIVE, 0);
    const Action sync = *arrive->next;
    arrive->next->kind = ACTION_BARRIER_ARRIVE;
    arrive->next->barrier.barrier = 3;
    arrive->kind = ACTION_BARRIER_SYNC;
    arrive->barrier = sync.barrier;
    expect_fault(made, FAULT_DEADLOCK, "barrier", "group 0");
}

static void a_role_waits_for_itself(void **state)
{
    (void)state;
    Made made = make_specialised();
    Action *const acquire = find_action(&made, "group 0", ACTION_ACQUIRE, 0);
    acquire->kind = ACTION_WAIT; // for p, which it fills itself, later
    expect_fault(made, FAULT_DEADLOCK, "'p'", "group 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_schedules_pass),
        cmocka_unit_test(parts_come_before_copies_and_after_others),
        cmocka_unit_test(reads_without_a_wait),
        cmocka_unit_test(reads_without_a_barrier),
        cmocka_unit_test(conditions_exclude_each_other),
        cmocka_unit_test(writes_what_others_read),
        cmocka_unit_test(warps_are_apart),
        cmocka_unit_test(row_indices_are_early),
        cmocka_unit_test(rows_are_fetched_a_step_ahead),
        cmocka_unit_test(lanes_arrive_too_early),
        cmocka_unit_test(elements_are_copied_wrongly),
        cmocka_unit_test(slots_are_filled_too_early),
        cmocka_unit_test(slots_are_released_wrongly),
        cmocka_unit_test(counts_differ),
        cmocka_unit_test(trip_counts_differ),
        cmocka_unit_test(fences_are_missing),
        cmocka_unit_test(loads_are_not_fenced),
        cmocka_unit_test(stores_are_not_waited_for),
        cmocka_unit_test(readers_may_fence),
        cmocka_unit_test(products_in_flight_are_touched),
        cmocka_unit_test(products_in_flight_are_read_by_some),
        cmocka_unit_test(products_in_flight_at_the_end),
        cmocka_unit_test(memory_is_exceeded),
        cmocka_unit_test(places_are_taken),
        cmocka_unit_test(registers_are_exceeded),
        cmocka_unit_test(barriers_overlap),
        cmocka_unit_test(parts_of_warps_meet),
        cmocka_unit_test(roles_wait_for_each_other),
        cmocka_unit_test(a_role_waits_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
