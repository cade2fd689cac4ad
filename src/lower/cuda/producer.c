// producer.c - the producer's code: the tree again, with the fetched copies and what their addresses and conditions need.
//
// One thread issues boxes (its whole warp where small rows are copied by lanes). Where the launch's strides allow no
// boxes, a second version of the same walk moves elements with all threads of the group.
#include "lower/cuda/cuda.h"

static bool is_needed(Lowering *lo, const Var *var) { return lo->needed[var->id]; }

static bool producer_needs(Lowering *lo, TileOp *op, void *context)
{
    bool *const needs = context;
    const OpInfo *const info = op_info(lo, op);
    if (info->fetched || ((op->kind == T_SET || op->kind == T_LET) && is_needed(lo, op->let.var)) ||
        (op->kind == T_UPDATE && op->update.var && is_needed(lo, op->update.var)))
        *needs = true;
    return op->kind == T_FORALL;
}

static bool has_work(Lowering *lo, TileOp *op)
{
    bool needs = false;
    TileOp *const next = op->next;
    op->next = NULL;
    each_op(lo, op, producer_needs, &needs);
    op->next = next;
    return needs;
}

static void produce_block(Lowering *lo, TileOp *block);
static void produce_rotated(Lowering *lo, TileOp *op);
static void produce_and_ask(Lowering *lo, TileOp *op);

// Boxes and announcements are one thread's: where others gather rows, of the last warp, which loads no list of them while
// this thread waits.
static void begin_issue(Lowering *lo, Nest *nest)
{
    const int thread = only_gathers(lo) ? WARPGROUP_THREADS - WARP_LANES : 0;
    if (lo->by_warp || lo->has_filler)
        begin_if(lo, nest, expr_binary(lo->arena, X_EQ, var_of(lo, lo->has_filler ? lo->thread : lo->lane), i32_const(lo, thread)));
    else
        begin_block(lo, nest);
}

// Small rows are one warp's.
static void begin_lanes(Lowering *lo, Nest *nest)
{
    if (lo->has_filler)
        begin_if(lo, nest, expr_binary(lo->arena, X_LT, var_of(lo, lo->thread), i32_const(lo, WARP_LANES)));
    else
        begin_block(lo, nest);
}

static void announce(Lowering *lo, const char *how, const Channel *channel, int bytes)
{
    emit_call(lo, how, 2, full_barrier(lo, channel), expr_int(lo->arena, DTYPE_U32, bytes));
}

static void begin_channel(Lowering *lo, Channel *channel)
{
    Nest nest;
    const bool one_fills = lo->by_tma && !channel->by_lanes && !channel->is_filled;
    // Who has no part in the filling may not wait either: when the buffer was filled and given back already, a latecomer
    // would wait for the phase after.
    const bool some_wait = lo->has_filler && lo->by_tma && !channel->is_filled;
    if (some_wait && channel->by_lanes)
        begin_lanes(lo, &nest);
    else if (some_wait)
        begin_issue(lo, &nest);
    emit_call(lo, "mbar_wait", 2, empty_barrier(lo, channel), var_of(lo, channel->clock->phase));
    if (some_wait)
        end_nest(lo, &nest);
    if (one_fills && lo->by_warp)
        emit_call(lo, "__syncwarp", 0);
    if (one_fills && channel->is_plain) {
        begin_issue(lo, &nest);
        announce(lo, "mbar_expect", channel, channel->bytes);
        end_nest(lo, &nest);
    }
    point_tiles(lo, channel);
}

static void produce_copy(Lowering *lo, TileOp *op)
{
    Channel *const channel = tile_info(lo, op->copy.dst.buffer)->channel;
    if (!lo->by_tma) {
        emit_forall(lo, as_map(lo, op), NULL);
        return;
    }
    Nest nest;
    if (channel->by_lanes) {
        begin_lanes(lo, &nest);
        emit_lane_copy(lo, op);
        end_nest(lo, &nest);
        return;
    }
    begin_issue(lo, &nest);
    if (!channel->is_plain)
        announce(lo, "mbar_expect_more", channel, tma_bytes(lo, op));
    emit_tma_load(lo, op, channel);
    end_nest(lo, &nest);
}

// After the last copies of a channel in its block.
static void end_channel(Lowering *lo, Channel *channel)
{
    Nest nest;
    if (channel->is_gathered) {
        emit_call(lo, "cp_async_arrive", 1, full_barrier(lo, channel));
        return;
    }
    if (lo->by_tma && !channel->is_filled) {
        if (channel->by_lanes) {
            begin_lanes(lo, &nest);
            emit_call(lo, "cp_async_arrive", 1, full_barrier(lo, channel));
            end_nest(lo, &nest);
        } else if (!channel->is_plain) {
            begin_issue(lo, &nest);
            emit_call(lo, "mbar_arrive", 1, full_barrier(lo, channel));
            end_nest(lo, &nest);
        }
        return;
    }
    if (channel->has_gathers) {
        emit_call(lo, "cp_async_arrive", 1, full_barrier(lo, channel));
        lo->copies_fly = false;
    }
    wait_for_copies(lo);
    const TileInfo *const tile = channel->tiles[0];        // the only one, if it is filled
    if (!channel->is_filled || (tile->wants_panels && !tile->is_exchanged))          // exchanged rows: there was one
        emit_call(lo, "fence_async", 0);
    if (channel->is_filled)          // each warp for itself
        emit_call(lo, "__syncwarp", 0);
    else
        emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_PRODUCER), i32_const(lo, WARPGROUP_THREADS));
    begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, channel->is_filled ? lo->lane : lo->thread), i32_const(lo, 0)));
    emit_call(lo, "mbar_arrive", 1, full_barrier(lo, channel));
    end_nest(lo, &nest);
}

static void produce_op(Lowering *lo, TileOp *op)
{
    Nest nests[8];
    if (op_info(lo, op)->fills) {
        if (!op_info(lo, op)->is_place)
            emit_fill(lo, op);
        return;
    }
    if (op_info(lo, op)->fetched) {
        produce_copy(lo, op);
        return;
    }
    switch (op->kind) {
    case T_LET:
        if (is_needed(lo, op->let.var))
            declare_value(lo, op);
        return;
    case T_SET:
        if (is_needed(lo, op->let.var))
            emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, NULL));
        return;
    case T_UPDATE:
        if (op->update.var && is_needed(lo, op->update.var))
            emit_op(lo, op);
        return;
    case T_FOR: case T_PIPELINE:
        if (!has_work(lo, op))
            return;
        if (op->kind == T_FOR) {
            LoopIndex index = { op->for_.var, op->for_.lo, op->for_.hi };
            begin_index_loops(lo, &index, 1, nests);
            if (op->for_.step)
                nests[0].stmt->for_.step = lower_as(lo, op->for_.var->type, op->for_.step, NULL);
            produce_block(lo, op->for_.body);
            end_nest(lo, &nests[0]);
            return;
        }
        if (op_info(lo, op)->has_places) {
            emit_with_places(lo, op, produce_block);
            return;
        }
        if (can_rotate(lo, op)) {
            produce_rotated(lo, op);
            return;
        }
        begin_index_loops(lo, op->pipeline.indices, op->pipeline.n, nests);
        produce_and_ask(lo, op);
        for (int i = op->pipeline.n - 1; i >= 0; i--)
            end_nest(lo, &nests[i]);
        return;
    case T_IF:
        if (!has_work(lo, op))
            return;
        begin_if(lo, &nests[0], lower_expr(lo, op->branch.cond, NULL));
        produce_block(lo, op->branch.then);
        if (op->branch.otherwise) {
            begin_else(lo, &nests[0]);
            produce_block(lo, op->branch.otherwise);
        }
        end_nest(lo, &nests[0]);
        begin_fills(lo);
        return;
    case T_WHILE:
        if (!has_work(lo, op))
            return;
        begin_while(lo, &nests[0], op->while_.cond, NULL);
        produce_block(lo, op->while_.body);
        produce_block(lo, op->while_.step);
        end_nest(lo, &nests[0]);
        return;
    case T_TILE: case T_STORE: case T_ATOMIC: case T_ATOMIC_TILE: case T_FILL: case T_COPY: case T_MATMUL: case T_SCAN:
    case T_FORALL: case T_BREAK: case T_CONTINUE: case T_RETURN: case T_PRINT: case T_ASSERT: case T_EXTERN:
        return;
    }
}

// What a cut box needs is worked out before the wait for its buffer, not behind it (tma.c).
void open_channel(Lowering *lo)
{
    Channel *const channel = lo->opening;
    lo->opening = NULL;
    if (channel)
        begin_channel(lo, channel);
}

// One op with what its channels need around it.
static void produce_in_block(Lowering *lo, TileOp *op, TileOp *block)
{
    const bool is_cut = lo->by_tma && !lo->by_warp && !lo->has_filler && op_info(lo, op)->fetched && copy_is_cut(lo, op);
    for (int i = 0; i < lo->channels.count; i++)
        if (lo->channels.items[i]->clock->block == block && lo->channels.items[i]->first_fetch == op) {
            if (is_cut && lo->channels.items[i]->is_plain) {
                lo->opening = lo->channels.items[i];
            } else {
                look_up_rows(lo, op);
                begin_channel(lo, lo->channels.items[i]);
            }
        }
    produce_op(lo, op);
    open_channel(lo);
    for (int i = 0; i < lo->channels.count; i++)
        if (lo->channels.items[i]->clock->block == block && lo->channels.items[i]->last_fetch == op)
            end_channel(lo, lo->channels.items[i]);
}

static void produce_block(Lowering *lo, TileOp *block)
{
    begin_fills(lo);
    for (TileOp *op = block; op; op = op->next)
        produce_in_block(lo, op, block);
    advance_clocks(lo, block, -1);
}

// The copies of one stage of a step, with the scalars of all.
static void produce_stage(Lowering *lo, TileOp *body, bool second)
{
    for (TileOp *op = body; op; op = op->next)
        if (op->kind == T_LET || (op->stage > 0) == second)
            produce_in_block(lo, op, body);
    advance_clocks(lo, body, second);
}

// ---- the next step's boxes, asked for ahead

typedef struct Uses { Lowering *lo; const Var *var; bool found; int depth; } Uses;

typedef struct Definition { const Var *var; Expr *value; } Definition;

static bool find_definition(Lowering *lo, TileOp *op, void *context)
{
    Definition *const seek = context;
    if ((op->kind == T_LET || op->kind == T_SET) && op->let.var == seek->var)
        seek->value = op->let.value;
    return op->kind == T_FORALL;
}

static bool expr_depends(const Expr *x, void *context)
{
    Uses *const uses = context;
    if (x->kind != E_VAR)
        return false;
    uses->found |= x->var.var == uses->var;
    if (x->var.var->kind == VAR_LOCAL && uses->depth < 16 && !uses->found) {
        Definition seek = { x->var.var, NULL };
        each_op(uses->lo, uses->lo->kernel->body, find_definition, &seek);
        uses->depth++;
        if (seek.value)
            expr_any(seek.value, expr_depends, uses);
        uses->depth--;
    }
    return uses->found;
}

static void slot_depends(Expr **x, void *context) { expr_any(*x, expr_depends, context); }

static bool step_depends(Lowering *lo, TileOp *body, const Var *coordinate)
{
    Uses uses = { lo, coordinate, false, 0 };
    for (TileOp *op = body; op; op = op->next)
        if (op_info(lo, op)->fetched && !op_info(lo, op)->fills) {
            tile_each_expr(op, slot_depends, &uses);
            buffer_each_expr(op->copy.src.buffer, slot_depends, &uses);
        }
    return uses.found;
}

// With one buffer per tile a refill's latency is in the way of every step. Where several instances read the same boxes,
// each asks for a part of the next step's: they come from memory once, and from the L2 cache when they are needed.
// (Latent attention: +13% with two tiles of rows, -14% with one, which is bound by memory.) Not for what a cluster reads
// once.
static void ask_ahead(Lowering *lo, TileOp *op, int first, int end)
{
    Arena *const a = lo->arena;
    TileOp *const body = op->pipeline.body;
    Expr *sharers = NULL, *share = NULL;
    for (int i = 0; i < lo->kernel->n_grid; i++) {
        Var *const coordinate = lo->kernel->grid[i].var;
        if (step_depends(lo, body, coordinate))
            continue;
        Expr *const extent = var_of(lo, lo->grid_extents[i]), *at = var_of(lo, loop_var(lo, coordinate));
        if (at->type != DTYPE_I32)
            at = call_expr(lo, DTYPE_I32, "(int32_t)", 1, at);
        share = share ? i32_add(lo, expr_binary(a, X_MUL, share, extent), at) : at;
        sharers = sharers ? expr_binary(a, X_MUL, sharers, extent) : extent;
    }
    bool single = !lo->shares && op->pipeline.n == 1 && sharers && lo->by_tma && lo->n_cuts > 0;
    for (int i = 0; i < lo->clocks.count; i++)
        single &= lo->clocks.items[i]->block != body || lo->clocks.items[i]->buffers == 1;
    if (!single)
        return;
    Expr *from, *to;
    index_bounds(lo, &op->pipeline.indices[0], NULL, &from, &to);
    Var **const slot = var_slot(lo, op->pipeline.indices[0].var);
    Var *const index = *slot;
    const int n_vars = lo->n_vars;
    Var **const kept = NEW_ARRAY(a, Var *, n_vars);
    memcpy(kept, lo->vars, sizeof(Var *) * (size_t)n_vars);
    Nest more, mine;
    Expr *const next = expr_binary(a, X_ADD, var_of(lo, index), expr_int(a, index->type, 1));
    Expr *const last = to->type == index->type ? to : call_expr(lo, index->type, arena_printf(a, "(%s)", dtype_info[index->type].c_name), 1, to);
    Expr *wanted = expr_binary(a, X_AND, expr_binary(a, X_GT, sharers, i32_const(lo, 1)), expr_binary(a, X_LT, next, last));
    if (lo->by_warp)
        wanted = expr_binary(a, X_AND, wanted, expr_binary(a, X_EQ, var_of(lo, lo->lane), i32_const(lo, 0)));
    begin_if(lo, &more, wanted);
    *slot = emit_declare(lo, index->type, arena_printf(a, "%s_next", index->name), next);
    int n = 0;
    for (TileOp *x = body; x; x = x->next) {
        if (x->kind == T_LET && is_needed(lo, x->let.var)) {             // the same scalars of another step
            *var_slot(lo, x->let.var) = NULL;
            declare_value(lo, x);
        }
        if (!op_info(lo, x)->fetched || op_info(lo, x)->fills)
            continue;
        if (n < first || n >= end) {
            n++;
            continue;
        }
        begin_if(lo, &mine, expr_binary(a, X_EQ, expr_binary(a, X_MOD, i32_const(lo, n++), sharers), share));
        emit_tma_ask(lo, x);
        end_nest(lo, &mine);
    }
    memcpy(lo->vars, kept, sizeof(Var *) * (size_t)n_vars);
    end_nest(lo, &more);
}

// The first half of the next step's boxes is asked for when the first half of this step's are on their way: the tile that
// is given back in the middle of a step would else be wanted half a step after it was asked for.
static void produce_and_ask(Lowering *lo, TileOp *op)
{
    TileOp *const body = op->pipeline.body;
    int n = 0, done = 0;
    for (TileOp *x = body; x; x = x->next)
        n += op_info(lo, x)->fetched && !op_info(lo, x)->fills;
    begin_fills(lo);
    for (TileOp *x = body; x; x = x->next) {
        produce_in_block(lo, x, body);
        if (op_info(lo, x)->fetched && !op_info(lo, x)->fills && ++done == n / 2)
            ask_ahead(lo, op, 0, done);
    }
    advance_clocks(lo, body, -1);
    ask_ahead(lo, op, n / 2, n);
}

// In the order of use: stage 1 of a step comes after stage 0 of the next.
static void produce_rotated(Lowering *lo, TileOp *op)
{
    Arena *const a = lo->arena;
    Expr *from, *to;
    index_bounds(lo, &op->pipeline.indices[0], NULL, &from, &to);
    Var **const slot = var_slot(lo, op->pipeline.indices[0].var);
    Var *const index = *slot;
    Expr *const one = expr_int(a, index->type, 1);
    Var *const begin = emit_declare(lo, index->type, "begin", from), *const end = emit_declare(lo, index->type, "end", to);
    Nest any, loop, guard;
    begin_if(lo, &any, expr_binary(a, X_LT, var_of(lo, begin), var_of(lo, end)));
    begin_for(lo, &loop, index, var_of(lo, begin), expr_binary(a, X_ADD, var_of(lo, end), one), one, LOOP_NO_UNROLL);
    begin_if(lo, &guard, expr_binary(a, X_LT, var_of(lo, index), var_of(lo, end)));
    produce_stage(lo, op->pipeline.body, false);
    end_nest(lo, &guard);
    begin_if(lo, &guard, expr_binary(a, X_GT, var_of(lo, index), var_of(lo, begin)));
    *slot = emit_declare(lo, index->type, arena_printf(a, "%s_before", index->name), expr_binary(a, X_SUB, var_of(lo, index), one));
    produce_stage(lo, op->pipeline.body, true);
    *var_slot(lo, op->pipeline.indices[0].var) = index;
    end_nest(lo, &guard);
    end_nest(lo, &loop);
    end_nest(lo, &any);
}

// ---- what the producer computes

typedef struct Need { Lowering *lo; bool changed; } Need;

static bool need_var(const Expr *x, void *context)
{
    Need *const need = context;
    if (x->kind == E_VAR && x->var.var->id < need->lo->n_needed && !need->lo->needed[x->var.var->id])
        need->lo->needed[x->var.var->id] = need->changed = true;
    return false;
}

static void need_expr(Need *need, Expr *x)
{
    if (x)
        expr_any(x, need_var, need);
}

static void need_slot(Expr **x, void *context) { need_expr(context, *x); }

static void need_view(const TileUse *use, void *context) { buffer_each_expr(use->buffer, need_slot, context); }

static bool need_fill(Lowering *lo, TileOp *op, void *context)
{
    tile_each_expr(op, need_slot, context);
    tile_uses(op, need_view, context);
    return false;
}

static bool need_op(Lowering *lo, TileOp *op, void *context)
{
    Need *const need = context;
    const OpInfo *const info = op_info(lo, op);
    if (info->fills) {
        TileOp *const next = op->next;
        op->next = NULL;
        each_op(lo, op, need_fill, need);
        op->next = next;
    } else if (info->fetched) {
        for (int d = 0; d < op->copy.src.buffer->rank; d++) {
            need_expr(need, op->copy.src.subs[d].start);
            need_expr(need, op->copy.src.subs[d].width);
        }
        buffer_each_expr(op->copy.src.buffer, need_slot, need);
    }
    if ((op->kind == T_LET || op->kind == T_SET) && lo->needed[op->let.var->id])
        need_expr(need, op->let.value);
    if (op->kind == T_UPDATE && op->update.var && lo->needed[op->update.var->id])
        need_expr(need, op->update.value);
    if (op->kind == T_FORALL)
        return true;
    if (is_flow(op) && has_work(lo, op)) {
        if (op->kind == T_IF)
            need_expr(need, op->branch.cond);
        if (op->kind == T_WHILE)
            need_expr(need, op->while_.cond);
        if (op->kind == T_FOR) {
            need_expr(need, op->for_.lo);
            need_expr(need, op->for_.hi);
        }
        for (int i = 0; op->kind == T_PIPELINE && i < op->pipeline.n; i++) {
            need_expr(need, op->pipeline.indices[i].lo);
            need_expr(need, op->pipeline.indices[i].hi);
        }
    }
    return false;
}

void find_needs(Lowering *lo)
{
    lo->n_needed = lo->kernel->n_vars + 1;
    lo->needed = NEW_ARRAY(lo->arena, bool, lo->n_needed);
    Need need = { lo, true };
    while (need.changed) {
        need.changed = false;
        each_op(lo, lo->kernel->body, need_op, &need);
    }
}

// The producer's code; by_tma: one thread issues boxes, else all of the group move elements.
void emit_producer(Lowering *lo, bool by_tma)
{
    lo->role = ROLE_PRODUCER;
    lo->by_tma = by_tma;
    declare_clocks(lo);
    declare_tiles(lo);
    Nest grid;
    begin_grid(lo, &grid);
    produce_block(lo, lo->kernel->body);
    end_grid(lo, &grid);
}
