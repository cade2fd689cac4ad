// SPDX-License-Identifier: MIT
// software_pipeline.c - deciding: pipelines with stage labels: stage 1 of a step is issued inside stage 0 of the next.
//
//     issue(first); rest(first)
//     for the other steps: issue(n); stage1(n - 1); rest(n)
//     stage1(last)
//
// `issue` is stage 0 up to its products, `rest` what comes after them, from the first statement on that computes:
// while the products run, stage 1 of the step before prepares and issues its own, and those run during the rest. Steps
// are peeled, not guarded: wgmma under a condition would serialise. Where stage 1 and `issue` access the same tiles the
// pipeline stays a plain loop.
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/decide/pipeline/ring_uses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

enum {
    HEAVY_REGISTERS = 200, // of a thread: two groups share them all
    OTHER_REGISTERS = 16,  // at least, beside fragments
};

typedef VEC(TileOp *) Ops;
typedef struct Stages {
    Ops issue, rest, second;
    int first_use; // in the rest, of a result of what is issued
} Stages;

typedef struct Sets {
    Lowering *lo;
    bool *reads, *writes;
} Sets;

static void add_use(const TileUse *use, void *context)
{
    const Sets *const sets = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (!tile_info(sets->lo, root)) return;
    sets->reads[root->id] |= use->reads;
    sets->writes[root->id] |= use->writes || use->atomic;
}

static bool add_op(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_TILE && !op_info(lo, op)->fetched) tile_uses(op, add_use, context);
    return false;
}

static Sets sets_of(Lowering *lo, const Ops *ops)
{
    const int n = lo->kernel->n_buffers + 1;
    Sets sets = { lo, NEW_ARRAY(lo->arena, bool, n), NEW_ARRAY(lo->arena, bool, n) };
    for (int i = 0; i < ops->count; i++) visit_op(lo, ops->items[i], add_op, &sets);
    return sets;
}

static bool accesses_tile(Lowering *lo, TileOp *op, const Buffer *tile)
{
    Ops one = { 0 };
    VEC_PUSH(lo->arena, &one, op);
    const Sets sets = sets_of(lo, &one);
    return sets.reads[tile->id] || sets.writes[tile->id];
}

// What may be in `issue`: it is over when its products are issued.
static bool is_issued_at_once(Lowering *lo, const TileOp *op)
{
    return op->kind == T_TILE || op->kind == T_LET || op_info(lo, op)->fetched || is_wgmma(lo, op);
}

static bool split(Lowering *lo, TileOp *op, Stages *stages)
{
    *stages = (Stages){ .first_use = -1 };
    bool in_rest = false;
    const Buffer *results[8];
    int n = 0, scalars = 0;
    for (TileOp *x = op->pipeline.body; x; x = x->next) {
        if (x->kind == T_SET || (x->kind == T_UPDATE && x->update.var)) return false;
        if (x->stage > 0) {
            VEC_PUSH(lo->arena, &stages->second, x);
            continue;
        }
        scalars += x->kind == T_LET;
        bool uses = false;
        for (int i = 0; i < n && !uses; i++)
            uses = !is_wgmma(lo, x) && x->kind != T_TILE && accesses_tile(lo, x, results[i]);
        in_rest = in_rest || uses || (n > 0 && !is_issued_at_once(lo, x));
        if (uses && stages->first_use < 0) stages->first_use = stages->rest.count;
        if (is_wgmma(lo, x) && !in_rest) {
            if (n == COUNT(results)) return false;
            results[n++] = x->matmul.dst.buffer;
        }
        if (in_rest) VEC_PUSH(lo->arena, &stages->rest, x);
        else VEC_PUSH(lo->arena, &stages->issue, x);
    }
    return n > 0 && scalars <= CROSSINGS_MAX;
}

// Buffers of stage 0 are released with it: what stage 1 reads, too, would be that of another step.
static bool shares_buffers(Lowering *lo, const TileOp *body, const Sets *second)
{
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->ring_state->block != body || ring->ring_state->stage != 0) continue;
        for (int k = 0; k < ring->n_tiles; k++)
            if (second->reads[ring->tiles[k]->buffer->id]) return true;
    }
    return false;
}

bool can_software_pipeline(Lowering *lo, TileOp *op)
{
    Stages stages;
    if (op->pipeline.n_stage_labels != 2 || op->pipeline.n != 1 || !gpu_has_mma_in_flight(lo->gpu) ||
        lo->is_specialised || lo->kernel->checked || !split(lo, op, &stages))
        return false;
    // Both stages' fragments are live at one time: where they do not fit, the steps come one after the other.
    if (words_during(lo, op) > consumer_registers(lo) - OTHER_REGISTERS) return false;
    for (int i = 0; i < stages.issue.count; i++) {
        const TileOp *const x = stages.issue.items[i];
        if (op_info(lo, x)->barrier_before || (x->kind == T_MATMUL && x->matmul.meta) || !is_issued_at_once(lo, x))
            return false;
    }
    for (const TileOp *x = op->pipeline.body; x; x = x->next)
        if (is_split_k(lo, x)) return false;
    const Sets issue = sets_of(lo, &stages.issue), second = sets_of(lo, &stages.second);
    for (int i = 0; i < lo->kernel->n_buffers; i++)
        if ((issue.writes[i] && (second.reads[i] || second.writes[i])) || (second.writes[i] && issue.reads[i]))
            return false;
    return !shares_buffers(lo, op->pipeline.body, &second);
}

static void decide_ops(Lowering *lo, const Ops *ops, TileOp *block)
{
    for (int i = 0; i < ops->count; i++) decide_consumer_op(lo, ops->items[i], block);
}

typedef struct Seek {
    const Var *var;
    bool found;
} Seek;

static void seek_in(Expr **x, void *context)
{
    Seek *const seek = context;
    seek->found = seek->found || expr_uses(*x, seek->var);
}

static bool uses_var(Lowering *lo, TileOp *op, void *context)
{
    tile_each_expr(op, seek_in, context);
    return false;
}

static SoftwarePipeline *new_plan(Lowering *lo, const TileOp *op, const Stages *stages)
{
    SoftwarePipeline *const plan = NEW(lo->arena, SoftwarePipeline, .form = STEPS_SOFTWARE_PIPELINE, .op = op);
    const Ops *const lists[2] = { &stages->issue, &stages->rest };
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++) {
            TileOp *const let = lists[l]->items[i];
            if (let->kind != T_LET) continue;
            Seek seek = { .var = let->let.var };
            for (int j = 0; j < stages->second.count; j++) visit_op(lo, stages->second.items[j], uses_var, &seek);
            if (seek.found) plan->crossings[plan->n_crossings++] = let->let.var;
        }
    return plan;
}

static void act_keep_crossings(Lowering *lo, const SoftwarePipeline *plan)
{
    if (plan->n_crossings)
        act(lo, (Action){ .kind = ACTION_DECLARE, .declare = { .what = DECLARE_CROSSINGS }, .print = plan });
}

static void open_scope(Lowering *lo, const SoftwarePipeline *plan, ScopeKind kind)
{
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = kind, .source = plan->op }, .print = plan });
}

static void decide_second(Lowering *lo, const SoftwarePipeline *plan, const Stages *stages, ScopeKind kind)
{
    open_scope(lo, plan, kind);
    decide_ops(lo, &stages->second, plan->op->pipeline.body);
    close_action(lo);
}

static bool syncs(Lowering *lo, TileOp *op) { return op_info(lo, op)->barrier_before; }

// Not where all groups synchronise inside a step: one would wait for the other's arrival, the other for its ping-pong
// barrier.
bool groups_ping_pong(Lowering *lo, TileOp *pipeline)
{
    if (lo->partition.groups < 2 || lo->partition.groups > 4 || lo->partition.warps != 4 ||
        lo->scratch_bytes > SCALAR_BYTES)
        return false;
    return !block_has(lo, pipeline->pipeline.body, syncs);
}

static Action ping_pong_action(ActionKind kind, BarrierOf of)
{
    return (Action){ .kind = kind,
                     .barrier = { .barrier = BAR_PING_PONG, .threads = 2 * WARPGROUP_THREADS, .of = of } };
}

static void ping_pong_wait(Lowering *lo, TileOp *pipeline)
{
    if (groups_ping_pong(lo, pipeline)) act(lo, ping_pong_action(ACTION_BARRIER_SYNC, BARRIER_OF_GROUP));
}

static void ping_pong_arrive(Lowering *lo, TileOp *pipeline)
{
    if (groups_ping_pong(lo, pipeline)) act(lo, ping_pong_action(ACTION_BARRIER_ARRIVE, BARRIER_OF_NEXT_GROUP));
}

// Before everything: the first group may begin.
void act_first_ping_pong(Lowering *lo)
{
    open_action(lo, (Action){ .kind = ACTION_SCOPE,
                              .scope = { .kind = SCOPE_ONE_GROUP, .threads = lo->partition.groups - 1 } });
    act_barrier(lo, ACTION_BARRIER_ARRIVE, BAR_PING_PONG, 2 * WARPGROUP_THREADS);
    close_action(lo);
}

typedef struct RowScan {
    Lowering *lo;
    const TileOp *forall;
    bool own, writes_wide;
} RowScan;

static void scan_use(const TileUse *use, void *context)
{
    RowScan *const scan = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (root->kind == BUFFER_LOCAL) return;
    const TileInfo *const tile = tile_info(scan->lo, root);
    scan->own =
        scan->own && tile && tile->storage == TILE_IN_REGISTERS && !tile->is_packed && tile->buffer->type == DTYPE_F32;
    scan->writes_wide |= use->writes && root->rank > 1;
}

static bool scan_op(Lowering *lo, TileOp *op, void *context)
{
    RowScan *const scan = context;
    int which[MAX_RANK];
    tile_uses(op, scan_use, scan);
    if (op->kind == T_STORE || (op->kind == T_UPDATE && !op->update.reduces))
        scan->own = scan->own && scan->forall->forall.n == 1;
    const LoopIndex *const indices = scan->forall->forall.indices;
    if (op->kind == T_UPDATE && op->update.reduces) // into its row
        scan->own = scan->own && op->update.buffer && op->update.buffer->rank == 1 &&
                    subscripts_are_indices(op->update.subs, 1, indices, scan->forall->forall.n, which) && which[0] == 0;
    return false;
}

// It computes with fragments in registers alone, where an iteration has its own rows, and writes a value for each row.
static bool divides_by_rows(Lowering *lo, TileOp *op)
{
    RowScan scan = { .lo = lo, .forall = op, .own = true };
    if (op->kind == T_TILE) return true;
    if (op->kind != T_FORALL || op_info(lo, op)->barrier_before) return false;
    visit_op(lo, op, scan_op, &scan);
    Iteration it;
    choose_iteration(lo, op, &it);
    int modes = 0;
    for (int i = 0; i < it.layout.n; i++)
        if (it.layout.mode[i].input == IN_REGISTER && it.layout.mode[i].dim == 0)
            modes += it.layout.mode[i].extent == 2 ? 1 : 2;
    return scan.own && !scan.writes_wide && !it.is_linear && it.dim_of[0] == 0 && modes == 1;
}

static bool is_reduction(const TileOp *op)
{
    const TileOp *const body = op->kind == T_FORALL && op->forall.n == 2 ? op->forall.body : NULL;
    return body && !body->next && body->kind == T_UPDATE && body->update.reduces && body->update.op == UPDATE_MAX;
}

// The ops of the rest that find each row's maximum and what is made of it: printed for a thread's first row, then for
// its second, so that the second's comparisons run beside the first's exponentials. Not where two groups have all
// registers: there a step is bound by power, and one more scheduling barrier costs 0.5%.
static void find_rows(Lowering *lo, const Ops *rest, int *begin, int *end)
{
    *begin = *end = 0;
    for (int i = 1; i < rest->count && *end == 0 && consumer_registers(lo) < HEAVY_REGISTERS; i++)
        if (is_reduction(rest->items[i]) && divides_by_rows(lo, rest->items[i]))
            for (*begin = *end = i; *end < rest->count && divides_by_rows(lo, rest->items[*end]);) ++*end;
    while (*end && *begin > 1 && divides_by_rows(lo, rest->items[*begin - 1])) --*begin;
}

static void fence_written(Lowering *lo, const Ops *rest, int begin, int end)
{
    Ops ops = { 0 };
    for (int i = begin; i < end; i++) VEC_PUSH(lo->arena, &ops, rest->items[i]);
    const Sets sets = sets_of(lo, &ops);
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (sets.writes[tile->buffer->id] && tile->storage == TILE_IN_REGISTERS) act_register_fence(lo, tile);
    }
}

static void open_row_part(Lowering *lo, int part)
{
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = SCOPE_ROW_PART, .threads = part } });
}

// The ops that find_rows found, for a thread's first row; what the second row's are added to begins after a
// scheduling barrier.
static void decide_first_rows(Lowering *lo, const Ops *rest, int begin, int end, TileOp *body)
{
    open_row_part(lo, 1);
    for (int i = begin; i < end; i++) decide_consumer_op(lo, rest->items[i], body);
    close_action(lo);
    fence_written(lo, rest, begin, end);
    act_scheduling_barrier(lo);
    fence_written(lo, rest, begin, end);
}

// Stage 1's products run until the rest's end: the wait for them must stay after the rest's work.
static void decide_rest(Lowering *lo, const Stages *stages, TileOp *body)
{
    const Ops *const rest = &stages->rest;
    int begin, end;
    find_rows(lo, rest, &begin, &end);
    for (int i = 0; i < rest->count; i++) {
        const bool is_divided = i >= begin && i < end;
        if (is_divided && i == begin) {
            decide_first_rows(lo, rest, begin, end, body);
            open_row_part(lo, 2);
        }
        if (!is_divided || rest->items[i]->kind != T_TILE) decide_consumer_op(lo, rest->items[i], body);
        if (is_divided && i == end - 1) close_action(lo);
        // From there on stage 0's own product has been waited for.
        lo->schedules_waits = i >= stages->first_use && consumer_registers(lo) >= HEAVY_REGISTERS;
    }
    wait_for_all(lo);
    lo->schedules_waits = false;
}

static void decide_first_step(Lowering *lo, const SoftwarePipeline *plan, const Stages *stages)
{
    TileOp *const body = plan->op->pipeline.body;
    open_scope(lo, plan, SCOPE_FIRST_STEP);
    decide_ops(lo, &stages->issue, body);
    decide_ops(lo, &stages->rest, body);
    wait_for_all(lo);
    act_keep_crossings(lo, plan);
    advance_ring_states(lo, body, 0);
    close_action(lo);
}

static void decide_other_steps(Lowering *lo, TileOp *op, const SoftwarePipeline *plan, const Stages *stages)
{
    TileOp *const body = op->pipeline.body;
    open_action(lo,
                (Action){ .kind = ACTION_LOOP, .op = op, .loop = { .part = LOOP_REST, .source = op }, .print = plan });
    ping_pong_wait(lo, op);
    decide_ops(lo, &stages->issue, body);
    decide_second(lo, plan, stages, SCOPE_PREVIOUS_STEP);
    ping_pong_arrive(lo, op);
    decide_rest(lo, stages, body);
    act_keep_crossings(lo, plan);
    advance_ring_states(lo, body, -1);
    close_action(lo);
}

void decide_software_pipeline(Lowering *lo, TileOp *op)
{
    Stages stages;
    split(lo, op, &stages);
    const SoftwarePipeline *const plan = new_plan(lo, op, &stages);
    wait_for_all(lo);
    open_scope(lo, plan, SCOPE_ANY_STEP);
    decide_first_step(lo, plan, &stages);
    decide_other_steps(lo, op, plan, &stages);
    decide_second(lo, plan, &stages, SCOPE_LAST_STEP);
    wait_for_all(lo);
    advance_ring_states(lo, op->pipeline.body, 1);
    close_action(lo);
}
