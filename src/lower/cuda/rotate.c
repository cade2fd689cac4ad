// SPDX-License-Identifier: MIT
// rotate.c - pipelines with stage labels: stage 1 of a step is issued inside stage 0 of the next.
//
//     head(first); tail(first)
//     for the other steps: head(n); stage1(n - 1); tail(n)
//     stage1(last)
//
// The head is stage 0 up to its products, the tail what comes behind them, from the first statement on that computes: while
// the products run, stage 1 of the step before prepares and issues its own, and those run during the tail. Steps are peeled,
// not guarded: wgmma under a condition would serialise. Where stage 1 and the head touch the same tiles the pipeline stays
// a plain loop.
#include "lower/cuda/cuda.h"

enum { HEAVY_REGISTERS = 200 }; // of a thread: two groups share them all

typedef VEC(TileOp *) Ops;
typedef struct Parts {
    Ops head, tail, second;
    int first_use; // in the tail, of a result of the head
} Parts;

// Scalars of stage 0 that stage 1 uses a step later.
typedef struct Crossing {
    Var *var, *before;
} Crossing;
typedef struct Crossings {
    Crossing items[16];
    int n;
} Crossings;

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

static bool touches_tile(Lowering *lo, TileOp *op, const Buffer *tile)
{
    Ops one = { 0 };
    VEC_PUSH(lo->arena, &one, op);
    const Sets sets = sets_of(lo, &one);
    return sets.reads[tile->id] || sets.writes[tile->id];
}

// What may stand in the head: it is over when its products are issued.
static bool is_issued_at_once(Lowering *lo, const TileOp *op)
{
    return op->kind == T_TILE || op->kind == T_LET || op_info(lo, op)->fetched || is_wgmma(lo, op);
}

static bool split(Lowering *lo, TileOp *op, Parts *parts)
{
    *parts = (Parts){ .first_use = -1 };
    bool in_tail = false;
    const Buffer *results[8];
    int n = 0, scalars = 0;
    for (TileOp *x = op->pipeline.body; x; x = x->next) {
        if (x->kind == T_SET || (x->kind == T_UPDATE && x->update.var)) return false;
        if (x->stage > 0) {
            VEC_PUSH(lo->arena, &parts->second, x);
            continue;
        }
        scalars += x->kind == T_LET;
        bool uses = false;
        for (int i = 0; i < n && !uses; i++)
            uses = !is_wgmma(lo, x) && x->kind != T_TILE && touches_tile(lo, x, results[i]);
        in_tail = in_tail || uses || (n > 0 && !is_issued_at_once(lo, x));
        if (uses && parts->first_use < 0) parts->first_use = parts->tail.count;
        if (is_wgmma(lo, x) && !in_tail) {
            if (n == COUNT(results)) return false;
            results[n++] = x->matmul.dst.buffer;
        }
        if (in_tail) VEC_PUSH(lo->arena, &parts->tail, x);
        else VEC_PUSH(lo->arena, &parts->head, x);
    }
    return n > 0 && scalars <= COUNT(((Crossings *)NULL)->items);
}

bool can_rotate(Lowering *lo, TileOp *op)
{
    Parts parts;
    if (op->pipeline.n_stage_labels != 2 || op->pipeline.n != 1 || lo->target->arch < 90 || lo->has_teams ||
        lo->kernel->checked || !split(lo, op, &parts))
        return false;
    for (int i = 0; i < parts.head.count; i++) {
        const TileOp *const x = parts.head.items[i];
        if (op_info(lo, x)->barrier_before || (x->kind == T_MATMUL && x->matmul.meta) || !is_issued_at_once(lo, x))
            return false;
    }
    for (const TileOp *x = op->pipeline.body; x; x = x->next)
        if (is_parted(lo, x)) return false;
    const Sets head = sets_of(lo, &parts.head), second = sets_of(lo, &parts.second);
    for (int i = 0; i < lo->kernel->n_buffers; i++)
        if ((head.writes[i] && (second.reads[i] || second.writes[i])) || (second.writes[i] && head.reads[i]))
            return false;
    return true;
}

static void emit_ops(Lowering *lo, const Ops *ops, TileOp *block)
{
    for (int i = 0; i < ops->count; i++) emit_consumer_op(lo, ops->items[i], block);
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

static Crossings find_crossings(Lowering *lo, const Parts *parts)
{
    Crossings crossings = { .n = 0 };
    const Ops *const lists[2] = { &parts->head, &parts->tail };
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++) {
            TileOp *const let = lists[l]->items[i];
            if (let->kind != T_LET) continue;
            Seek seek = { .var = let->let.var };
            for (int j = 0; j < parts->second.count; j++) visit_op(lo, parts->second.items[j], uses_var, &seek);
            if (!seek.found) continue;
            const Var *const now = loop_var(lo, let->let.var);
            Var *const before = emit_declare(lo, now->type, arena_printf(lo->arena, "%s_before", now->name), NULL);
            crossings.items[crossings.n++] = (Crossing){ let->let.var, before };
        }
    return crossings;
}

static void keep_crossings(Lowering *lo, const Crossings *crossings)
{
    for (int i = 0; i < crossings->n; i++)
        emit_assign(lo, crossings->items[i].before, var_of(lo, loop_var(lo, crossings->items[i].var)));
}

static void emit_second(Lowering *lo, TileOp *op, const Parts *parts, const Crossings *crossings, Expr *step)
{
    Var **const slot = var_slot(lo, op->pipeline.indices[0].var);
    Var *const index = *slot, *saved[16];
    *slot = emit_declare(lo, index->type, arena_printf(lo->arena, "%s_before", index->name), step);
    for (int i = 0; i < crossings->n; i++) {
        saved[i] = *var_slot(lo, crossings->items[i].var);
        *var_slot(lo, crossings->items[i].var) = crossings->items[i].before;
    }
    emit_ops(lo, &parts->second, op->pipeline.body);
    for (int i = 0; i < crossings->n; i++) *var_slot(lo, crossings->items[i].var) = saved[i];
    *var_slot(lo, op->pipeline.indices[0].var) = index;
}

// The groups take turns at the tensor cores: while one computes its exponentials the other's products run. Each waits
// on its own named barrier, which the group before it arrives at.
static Expr *own_turn(Lowering *lo) { return i32_add(lo, var_of(lo, lo->group), i32_const(lo, BAR_TURNS)); }

static Expr *next_turn(Lowering *lo)
{
    Expr *const is_last = i32_op(lo, X_EQ, var_of(lo, lo->group), lo->crew.groups - 1);
    Expr *const next = i32_add(lo, var_of(lo, lo->group), i32_const(lo, BAR_TURNS + 1));
    return expr_select(lo->arena, is_last, i32_const(lo, BAR_TURNS), next);
}

static bool meets(Lowering *lo, TileOp *op) { return op_info(lo, op)->barrier_before; }

// Not where all groups meet inside a step: one would wait for the other's arrival, the other for its turn.
bool groups_take_turns(Lowering *lo, TileOp *pipeline)
{
    if (lo->crew.groups < 2 || lo->crew.groups > 4 || lo->crew.warps != 4 || lo->scratch_bytes > SCALAR_BYTES)
        return false;
    return !block_has(lo, pipeline->pipeline.body, meets);
}

static void take_turn(Lowering *lo, TileOp *pipeline)
{
    if (groups_take_turns(lo, pipeline))
        emit_call(lo, "bar_sync", 2, own_turn(lo), i32_const(lo, 2 * WARPGROUP_THREADS));
}

static void pass_turn(Lowering *lo, TileOp *pipeline)
{
    if (groups_take_turns(lo, pipeline))
        emit_call(lo, "bar_arrive", 2, next_turn(lo), i32_const(lo, 2 * WARPGROUP_THREADS));
}

// Before everything: the first group's turn.
void begin_turns(Lowering *lo)
{
    Nest nest;
    begin_if(lo, &nest, i32_op(lo, X_EQ, var_of(lo, lo->group), lo->crew.groups - 1));
    emit_call(lo, "bar_arrive", 2, i32_const(lo, BAR_TURNS), i32_const(lo, 2 * WARPGROUP_THREADS));
    end_nest(lo, &nest);
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
        scan->own && tile && tile->home == HOME_REGISTERS && !tile->is_packed && tile->buffer->type == DTYPE_F32;
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
    int digits = 0;
    for (int i = 0; i < it.layout.n; i++)
        if (it.layout.digit[i].input == IN_REGISTER && it.layout.digit[i].dim == 0)
            digits += it.layout.digit[i].extent == 2 ? 1 : 2;
    return scan.own && !scan.writes_wide && !it.is_linear && it.dim_of[0] == 0 && digits == 1;
}

static bool is_reduction(const TileOp *op)
{
    const TileOp *const body = op->kind == T_FORALL && op->forall.n == 2 ? op->forall.body : NULL;
    return body && !body->next && body->kind == T_UPDATE && body->update.reduces && body->update.op == UPDATE_MAX;
}

// The ops of the tail that find each row's maximum and what is made of it: printed for a thread's first row, then for its
// second, so that the second's comparisons run beside the first's exponentials. Not where two groups have all registers:
// there a step is bound by power, and a hold more costs 0.5%.
static void find_rows(Lowering *lo, const Ops *tail, int *begin, int *end)
{
    *begin = *end = 0;
    for (int i = 1; i < tail->count && *end == 0 && consumer_registers(lo) < HEAVY_REGISTERS; i++)
        if (is_reduction(tail->items[i]) && divides_by_rows(lo, tail->items[i]))
            for (*begin = *end = i; *end < tail->count && divides_by_rows(lo, tail->items[*end]);) ++*end;
    while (*end && *begin > 1 && divides_by_rows(lo, tail->items[*begin - 1])) --*begin;
}

static void settle_written(Lowering *lo, const Ops *tail, int begin, int end)
{
    Ops ops = { 0 };
    for (int i = begin; i < end; i++) VEC_PUSH(lo->arena, &ops, tail->items[i]);
    const Sets sets = sets_of(lo, &ops);
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (sets.writes[tile->buffer->id] && tile->home == HOME_REGISTERS) emit_settle(lo, tile);
    }
}

// The ops that find_rows found, for a thread's first row; what the second row's are printed into begins behind a hold.
static void emit_first_rows(Lowering *lo, const Ops *tail, int begin, int end, TileOp *body)
{
    lo->row_part = 1;
    for (int i = begin; i < end; i++) emit_consumer_op(lo, tail->items[i], body);
    lo->row_part = 0;
    settle_written(lo, tail, begin, end);
    hold_work(lo);
    settle_written(lo, tail, begin, end);
}

// Stage 1's products run until the tail's end: the wait for them must stay behind the tail's work.
static void emit_tail(Lowering *lo, const Parts *parts, TileOp *body)
{
    const Ops *const tail = &parts->tail;
    int begin, end;
    find_rows(lo, tail, &begin, &end);
    for (int i = 0; i < tail->count; i++) {
        if (i == begin && end) emit_first_rows(lo, tail, begin, end, body);
        if (i < begin || i >= end || tail->items[i]->kind != T_TILE) {
            lo->row_part = i >= begin && i < end ? 2 : 0;
            emit_consumer_op(lo, tail->items[i], body);
            lo->row_part = 0;
        }
        // From there on stage 0's own product has been waited for.
        lo->holds_waits = i >= parts->first_use && consumer_registers(lo) >= HEAVY_REGISTERS;
    }
    wait_for_all(lo);
    lo->holds_waits = false;
}

void emit_rotated(Lowering *lo, TileOp *op)
{
    Parts parts;
    split(lo, op, &parts);
    Arena *const a = lo->arena;
    TileOp *const body = op->pipeline.body;
    wait_for_all(lo);
    Expr *from, *to;
    index_bounds(lo, &op->pipeline.indices[0], NULL, &from, &to);
    Var *const index = loop_var(lo, op->pipeline.indices[0].var);
    Nest any, first, loop;
    Var *const end = emit_declare(lo, index->type, "end", to);
    Var *const begin = emit_declare(lo, index->type, "begin", from);
    begin_if(lo, &any, expr_binary(a, X_LT, var_of(lo, begin), var_of(lo, end)));
    const Crossings crossings = find_crossings(lo, &parts);

    begin_block(lo, &first);
    emit_definition(lo, index, var_of(lo, begin));
    emit_ops(lo, &parts.head, body);
    emit_ops(lo, &parts.tail, body);
    wait_for_all(lo);
    keep_crossings(lo, &crossings);
    advance_clocks(lo, body, 0);
    end_nest(lo, &first);

    Expr *const one = expr_int(a, index->type, 1);
    begin_for(lo, &loop, index, expr_binary(a, X_ADD, var_of(lo, begin), one), var_of(lo, end), one, LOOP_NO_UNROLL);
    take_turn(lo, op);
    emit_ops(lo, &parts.head, body);
    emit_second(lo, op, &parts, &crossings, expr_binary(a, X_SUB, var_of(lo, index), one));
    pass_turn(lo, op);
    emit_tail(lo, &parts, body);
    keep_crossings(lo, &crossings);
    advance_clocks(lo, body, -1);
    end_nest(lo, &loop);

    emit_second(lo, op, &parts, &crossings, expr_binary(a, X_SUB, var_of(lo, end), one));
    wait_for_all(lo);
    advance_clocks(lo, body, 1);
    end_nest(lo, &any);
}
