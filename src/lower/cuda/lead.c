// SPDX-License-Identifier: MIT
// lead.c - pipelines with stage labels whose step begins with products that the step before issues at its end.
//
//     stage 0 of the first step
//     for the steps: stage 1; in it, when its last product's result is stored and before that goes on to its tensor,
//                    stage 0 of the next step
//
// Stage 0 is nothing but products of tiles that are fetched, or stay the same, into fragments that stage 1 only reads.
// What is behind the stores (a fence, a meeting, a reduction) takes its time under them, and the next step begins with
// their results. In front of the stores they would be issued too early: `wgmma` that the tensor cores have no place for
// keeps the warp. ptxas serialises what is issued under a condition: so the last step issues them, too, of its own tiles.
#include "lower/cuda/cuda.h"

static bool is_head(Lowering *lo, const TileOp *op) { return op->stage == 0 && is_wgmma(lo, op); }

// The store behind a step's last product.
static TileOp *carrier_of(Lowering *lo, TileOp *body)
{
    TileOp *last = NULL;
    for (TileOp *op = body; op; op = op->next)
        if (op->stage > 0 && is_wgmma(lo, op)) last = op;
    return last && last->next && store_is_turned(lo, last->next) ? last->next : NULL;
}

// Is a head's result the step's own, and no longer read when it is made again?
static bool is_free_in_time(Lowering *lo, TileOp *body, const Buffer *result)
{
    if (op_info(lo, tile_info(lo, result)->declared)->block != body || has_jumps(lo, body)) return false;
    const int carrier = op_info(lo, carrier_of(lo, body))->order;
    for (TileOp *op = body; op; op = op->next) {
        const RootUses uses = root_uses(lo, op, result);
        if (op->kind != T_TILE &&
            ((!is_head(lo, op) && uses.writes) || (uses.reads && op_info(lo, op)->order >= carrier)))
            return false;
    }
    return true;
}

static bool bounds_are_apart(const TileOp *pipeline)
{
    const LoopIndex *const indices = pipeline->pipeline.indices;
    for (int i = 0; i < pipeline->pipeline.n; i++)
        for (int j = 0; j < i; j++)
            if (expr_uses(indices[i].lo, indices[j].var) || expr_uses(indices[i].hi, indices[j].var)) return false;
    return true;
}

static bool is_plain_head(Lowering *lo, TileOp *op, TileOp *body)
{
    const Product *const p = op_info(lo, op)->product;
    return is_head(lo, op) && !op->matmul.meta && !p->a_in_registers && !is_parted(lo, op) && product_is_fixed(p) &&
           tile_info(lo, p->left.region.buffer)->channel && tile_info(lo, p->right.region.buffer)->channel &&
           is_free_in_time(lo, body, op->matmul.dst.buffer);
}

static bool is_heads_channel(Lowering *lo, const Channel *channel, const TileOp *body)
{
    return channel->clock->block == body && is_head(lo, channel->first_use);
}

// It is given back when the next step's heads are done: read by this step's stage 1, and not behind its stores.
static bool is_held_channel(Lowering *lo, const Channel *channel, const TileOp *carrier)
{
    return channel->clock->buffers > 1 && channel->is_plain && !is_head(lo, channel->last_use) &&
           op_info(lo, channel->last_use)->order < op_info(lo, carrier)->order;
}

bool can_lead(Lowering *lo, TileOp *pipeline)
{
    TileOp *const body = pipeline->pipeline.body;
    int heads = 0, held = 0;
    if (pipeline->pipeline.n_stage_labels != 2 || lo->target->arch < 90 || lo->has_teams || lo->kernel->checked ||
        !lo->has_producer || !bounds_are_apart(pipeline) || !carrier_of(lo, body))
        return false;
    for (TileOp *op = body; op; op = op->next) {
        if (op->stage > 0 || op->kind == T_TILE || op->kind == T_LET || op_info(lo, op)->fetched) continue;
        if (op->kind != T_MATMUL || !is_plain_head(lo, op, body)) return false;
        heads++;
    }
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        if (!is_heads_channel(lo, channel, body)) continue;
        if (!is_held_channel(lo, channel, carrier_of(lo, body))) return false;
        held++;
    }
    return heads > 0 && held <= COUNT(((Flight *)NULL)->releases);
}

// ---- printing

static void emit_heads(Lowering *lo, TileOp *body)
{
    for (TileOp *op = body; op; op = op->next)
        if (is_head(lo, op)) emit_consumer_op(lo, op, body);
}

// Is there a step; is there one after this?
static Expr *has_step(Lowering *lo, const TileOp *pipeline, bool after)
{
    Arena *const a = lo->arena;
    Expr *all = NULL;
    for (int i = 0; i < pipeline->pipeline.n; i++) {
        const LoopIndex *const index = &pipeline->pipeline.indices[i];
        Expr *from, *to;
        index_bounds(lo, index, NULL, &from, &to);
        if (after) from = expr_binary(a, X_ADD, var_of(lo, loop_var(lo, index->var)), expr_int(a, from->type, 1));
        Expr *const one = expr_binary(a, X_LT, from, to);
        all = all ? expr_binary(a, after ? X_OR : X_AND, all, one) : one;
    }
    return all;
}

// Heads may read what this step holds until they are done.
static void release_with_heads(Lowering *lo, TileOp *body)
{
    Flight *const last = &lo->flights.items[lo->flights.count - 1];
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        if (!is_heads_channel(lo, channel, body)) continue;
        channel->is_released = false;
        last->releases[last->n_releases++] = channel;
    }
}

static void hold_channels(Lowering *lo, TileOp *body)
{
    for (int i = 0; i < lo->channels.count; i++)
        if (is_heads_channel(lo, lo->channels.items[i], body)) lo->channels.items[i]->is_released = true;
}

// Where the next step's buffers are; behind the last step, this one's.
static void step_clock(Lowering *lo, Clock *clock, Expr *more)
{
    Arena *const a = lo->arena;
    Expr *const slot = var_of(lo, clock->slot), *const phase = var_of(lo, clock->phase);
    Expr *const wraps = expr_binary(a, X_EQ, slot, u32_const(lo, clock->buffers - 1));
    Expr *const next = expr_select(a, wraps, u32_const(lo, 0), expr_binary(a, X_ADD, slot, u32_const(lo, 1)));
    Expr *const turned = expr_select(a, expr_binary(a, X_AND, more, wraps), other_phase(lo, clock), phase);
    clock->phase = emit_declare(lo, DTYPE_U32, "phase_next", turned);
    clock->slot = emit_declare(lo, DTYPE_U32, "slot_next", expr_select(a, more, next, slot));
}

void emit_leading(Lowering *lo)
{
    TileOp *const pipeline = lo->leading, *const body = pipeline ? pipeline->pipeline.body : NULL;
    Var **const pointers = NEW_ARRAY(lo->arena, Var *, lo->n_declared + 1);
    Clock *const clocks = NEW_ARRAY(lo->arena, Clock, lo->clocks.count + 1);
    if (!pipeline) return;
    lo->leading = NULL;
    Expr *const more = var_of(lo, emit_declare(lo, DTYPE_BOOL, "more", has_step(lo, pipeline, true)));
    for (int i = 0; i < lo->clocks.count; i++) {
        clocks[i] = *lo->clocks.items[i];
        if (clocks[i].block == body && clocks[i].stage == 0) step_clock(lo, lo->clocks.items[i], more);
    }
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        pointers[i] = tile->pointer;
        if (!tile->channel || !is_heads_channel(lo, tile->channel, body)) continue;
        tile->pointer =
            loop_new_pointer(lo->unit, tile->pointer->type, arena_printf(lo->arena, "%s_next", tile->buffer->name));
        emit_definition(lo, tile->pointer, NULL);
    }
    emit_heads(lo, body);
    for (int i = 0; i < lo->clocks.count; i++) *lo->clocks.items[i] = clocks[i];
    for (int i = 0; i < lo->n_declared; i++) lo->declared.items[i]->pointer = pointers[i];
    release_with_heads(lo, body);
}

void emit_led(Lowering *lo, TileOp *pipeline)
{
    TileOp *const body = pipeline->pipeline.body, *const carrier = carrier_of(lo, body);
    Nest any, nests[LOOP_INDICES_MAX];
    wait_for_all(lo);
    begin_if(lo, &any, has_step(lo, pipeline, false));
    emit_heads(lo, body);
    wait_for_all(lo);
    end_nest(lo, &any);

    begin_index_loops(lo, pipeline->pipeline.indices, pipeline->pipeline.n, nests);
    hold_channels(lo, body);
    for (TileOp *op = body; op; op = op->next) {
        if (op == carrier) lo->leading = pipeline;
        if (!is_head(lo, op)) emit_consumer_op(lo, op, body);
    }
    wait_for_all(lo);
    advance_clocks(lo, body, -1);
    for (int i = 0; i < lo->channels.count; i++)
        if (is_heads_channel(lo, lo->channels.items[i], body)) point_tiles(lo, lo->channels.items[i]);
    end_nests(lo, nests, pipeline->pipeline.n);
}
