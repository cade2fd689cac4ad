// SPDX-License-Identifier: MIT
// ahead.c - pipelines before sm_90: copies run ahead through cp.async, issued by the computing threads themselves.
//
//     meet
//     for (t = begin - (buffers - 1); t < end; t++)
//         if (t >= begin): wait for the copies of step t (all but the last buffers - 2 groups); meet
//         copies of step t + buffers - 1, if there is one; commit a group in any case, so that groups count steps
//         if (t >= begin): the step's statements
//
// One meeting per step does for both: everyone's copies of this step have arrived, and the buffer that is filled next is
// read by nobody any more. A tile takes part if all its writes are such copies, of whole pieces of 4 to 16 bytes, of what
// tensors hold that are only read, at places that do not depend on what the threads compute.
#include "lower/cuda/cuda.h"

// ---- which copies

static bool view_is_known(const Slice *slice, const Buffer *buffer)
{
    for (; buffer->kind == BUFFER_VIEW; buffer = buffer->base.buffer)
        for (int d = 0; d < buffer->base.buffer->rank; d++)
            if (!slice_knows(slice, buffer->base.subs[d].start) || !slice_knows(slice, buffer->base.subs[d].width))
                return false;
    return true;
}

// The iteration that moves wide pieces, one load and one store each; false: it has none.
static bool plan_pieces(Lowering *lo, TileOp *op, Iteration *it, Var **run)
{
    TileOp *const map = as_map(lo, op);
    const TileOp *const store = map->forall.body;
    if (map->forall.n < 1 || map->forall.n > LAYOUT_MAX_RANK || store->kind != T_STORE ||
        store->store.value->kind != E_LOAD)
        return false;
    *it = (Iteration){ .indices = map->forall.indices, .n = map->forall.n, .crew = lo->crew, .vector = -1 };
    int extents[LAYOUT_MAX_RANK];
    for (int i = 0; i < COUNT(it->dim_of); i++) it->dim_of[i] = i < it->n ? i : -1;
    for (int i = 0; i < it->n; i++) {
        int64_t extent;
        if (!full_extent(&it->indices[i], &extent) || extent > 1 << 16) return false;
        extents[i] = (int)extent;
    }
    const int bytes = dtype_bits(op->copy.dst.buffer->type) / 8;
    it->layout = layout_blocked(it->n, extents, it->crew, 16 / bytes);
    it->vector = choose_vectors(lo, map, it, run);
    if (it->vector < 0 || it->n_loaded != 1 || it->n_stored != 1) return false;
    const int piece = it->layout.digit[it->vector].extent * bytes;
    return piece == 4 || piece == 8 || piece == 16;
}

static bool copy_runs_ahead(Lowering *lo, const Slice *slice, const TileOp *pipeline, TileOp *op)
{
    if (op->kind != T_COPY || op_info(lo, op)->parent != pipeline || op->copy.dst.buffer->kind != BUFFER_SHARED)
        return false;
    Buffer *const src = op->copy.src.buffer;
    const Buffer *const root = buffer_root(src);
    if (root->kind != BUFFER_TENSOR || root->access != ACCESS_IN || dtype_bits(root->type) < 8 ||
        root->type != op->copy.dst.buffer->type || src->type != root->type || !view_is_known(slice, src))
        return false;
    for (int d = 0; d < src->rank; d++)
        if (!slice_knows(slice, op->copy.src.subs[d].start)) return false;
    for (int d = 0; d < op->copy.dst.buffer->rank; d++)
        if (!slice_knows(slice, op->copy.dst.subs[d].start)) return false;
    Iteration it;
    Var *run;
    return plan_pieces(lo, op, &it, &run);
}

typedef struct Writes {
    const Slice *slice;
    const TileOp *pipeline;
    const Buffer *root;
    bool reads, ahead, other;
    bool here_reads, here_writes;
} Writes;

static void see_use(const TileUse *use, void *context)
{
    Writes *const w = context;
    if (buffer_root(use->buffer) == w->root) {
        w->here_reads |= use->reads;
        w->here_writes |= use->writes || use->atomic;
    }
}

static bool see_op(Lowering *lo, TileOp *op, void *context)
{
    Writes *const w = context;
    if (op->kind == T_TILE) return false;
    w->here_reads = w->here_writes = false;
    tile_uses(op, see_use, w);
    w->reads |= w->here_reads;
    if (w->here_writes && copy_runs_ahead(lo, w->slice, w->pipeline, op)) w->ahead = true;
    else if (w->here_writes) w->other = true;
    return false;
}

static bool note_ahead(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_COPY && op->copy.dst.buffer == context) op_info(lo, op)->fetched = true;
    return op->kind == T_FORALL;
}

static bool is_in_the_way(Lowering *lo, TileOp *op)
{
    return op->kind == T_PIPELINE || op->kind == T_BREAK || op->kind == T_RETURN;
}

// Scalars that the pipeline's own steps change are not known a few steps ahead.
static bool forget_changed(Lowering *lo, TileOp *op, void *context)
{
    Slice *const slice = context;
    if (op->kind == T_SET) slice->unknown[op->let.var->id] = true;
    if (op->kind == T_UPDATE && op->update.var) slice->unknown[op->update.var->id] = true;
    return false;
}

static bool plan_pipeline(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_PIPELINE || op->pipeline.n != 1 || op->pipeline.stages < 2) return op->kind == T_FORALL;
    if (block_has(lo, op->pipeline.body, is_in_the_way)) return false;
    Slice slice = new_slice(lo);
    each_op(lo, op->pipeline.body, forget_changed, &slice);
    find_unknown(&slice);
    Ahead *const ahead = NEW(lo->arena, Ahead, .pipeline = op, .buffers = op->pipeline.stages);
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->home != HOME_SHARED || op_info(lo, tile->declared)->parent != op) continue;
        Writes writes = { .slice = &slice, .pipeline = op, .root = tile->buffer };
        each_op(lo, lo->kernel->body, see_op, &writes);
        if (!writes.ahead || writes.other || !writes.reads) continue;
        each_op(lo, lo->kernel->body, note_ahead, tile->buffer);
        tile->ahead = ahead;
        ahead->n_tiles++;
    }
    if (!ahead->n_tiles) return false;
    ahead->slice = slice;
    OpInfo *const info = op_info(lo, op);
    info->ahead = ahead;
    info->barrier_before = true; // the buffers may still be read by those who are behind
    info->barrier_group = -1;
    VEC_PUSH(lo->arena, &lo->aheads, ahead);
    return false;
}

// before: shared tiles are laid out       after: copies that run ahead are marked as fetched
void find_aheads(Lowering *lo)
{
    if (!lo->has_teams) each_op(lo, lo->kernel->body, plan_pipeline, NULL);
}

// ---- printing

static void emit_pieces(Lowering *lo, TileOp *op)
{
    Iteration it;
    Var *run;
    plan_pieces(lo, op, &it, &run);
    it.n_loaded = it.n_stored = 0; // places are those of the first element
    const TileOp *const store = as_map(lo, op)->forall.body;
    const Expr *const load = store->store.value;
    const int width = it.layout.digit[it.vector].extent;
    int pieces = 1, n = 0;
    for (int i = 0; i < it.layout.n; i++)
        pieces *= it.layout.digit[i].input == IN_REGISTER && i != it.vector ? it.layout.digit[i].extent : 1;
    Nest digits[LAYOUT_MAX_DIGITS], block, guard;
    for (int i = it.layout.n - 1; i >= 0; i--) {
        if (it.layout.digit[i].input != IN_REGISTER || i == it.vector) continue;
        it.digit[i] = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &digits[n++], it.digit[i], i32_const(lo, 0), i32_const(lo, it.layout.digit[i].extent),
                  i32_const(lo, 1), pieces <= 16 ? LOOP_UNROLL : LOOP_NO_UNROLL);
    }
    begin_block(lo, &block);
    Expr *const inside = declare_indices(lo, &it, ~0u);
    Expr *const valid = both(lo, inside, replica_is_first(lo, &it.layout));
    if (valid) begin_if(lo, &guard, valid);
    Place from, to;
    if (place_element(lo, load->load.buffer, load->load.subs, &it, &from, load->span) &&
        place_element(lo, store->store.buffer, store->store.subs, &it, &to, store->span)) {
        Expr *const dst = expr_address(lo->arena, to.pointer, to.at);
        Expr *const src = expr_address(lo->arena, from.pointer, from.at);
        Expr *const rows = from.rows_inside ? from.rows_inside : expr_bool(lo->arena, true);
        if (from.columns)
            emit_call(lo, arena_printf(lo->arena, "copy_vector<%d>", width), 5, dst, src, rows, from.column,
                      from.columns);
        else emit_call(lo, arena_printf(lo->arena, "copy_inside<%d>", width), 3, dst, src, rows);
    }
    if (valid) end_nest(lo, &guard);
    end_nest(lo, &block);
    end_nests(lo, digits, n);
}

static void point_to(Lowering *lo, const Ahead *ahead, Var *slot)
{
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->ahead != ahead || ahead->buffers < 2) continue;
        Expr *const offset =
            i32_add(lo, i32_const(lo, tile->offset), i32_mul(lo, var_of(lo, slot), tile->shared.bytes));
        emit_assign(lo, tile->pointer, shared_pointer(lo, tile->pointer->type, offset));
    }
}

static void advance(Lowering *lo, const Ahead *ahead, Var *slot)
{
    if (ahead->buffers < 2) return;
    Expr *const next = i32_add(lo, var_of(lo, slot), i32_const(lo, 1));
    emit_assign(lo, slot, expr_select(lo->arena, i32_op(lo, X_EQ, next, ahead->buffers), i32_const(lo, 0), next));
}

// The copies of the step that the pipeline's index says, with the scalars of its block that they may need.
static void issue_step(Lowering *lo, const Ahead *ahead)
{
    const Threads threads = current_threads(lo);
    refresh_threads(lo);
    for (TileOp *op = ahead->pipeline->pipeline.body; op; op = op->next) {
        if (op->kind == T_LET && op->let.value && !ahead->slice.unknown[op->let.var->id]) declare_value(lo, op);
        else if (op_info(lo, op)->fetched) emit_pieces(lo, op);
    }
    restore_threads(lo, threads);
}

void emit_ahead(Lowering *lo, TileOp *op)
{
    const Ahead *const ahead = op_info(lo, op)->ahead;
    Arena *const a = lo->arena;
    const int distance = ahead->buffers - 1;
    Var **const slot_of_index = var_slot(lo, op->pipeline.indices[0].var);
    Expr *from, *to;
    index_bounds(lo, &op->pipeline.indices[0], NULL, &from, &to);
    Var *const index = loop_var(lo, op->pipeline.indices[0].var);
    Expr *const one = expr_int(a, index->type, 1), *const far = expr_int(a, index->type, distance);
    Var *const begin = emit_declare(lo, index->type, "begin", from);
    Var *const end = emit_declare(lo, index->type, "end", to);
    Var *const filled = distance ? emit_declare(lo, DTYPE_I32, "filled", i32_const(lo, 0)) : NULL;
    Var *const slot = distance ? emit_declare(lo, DTYPE_I32, "slot", i32_const(lo, 0)) : NULL;
    Nest loop, guard, step;
    begin_for(lo, &loop, index, expr_binary(a, X_SUB, var_of(lo, begin), far), var_of(lo, end), one, LOOP_NO_UNROLL);
    Expr *const runs = expr_binary(a, X_GE, var_of(lo, index), var_of(lo, begin));
    if (distance) {
        begin_if(lo, &guard, runs);
        emit_call(lo, "copy_wait", 1, i32_const(lo, distance - 1));
        emit_barrier(lo);
        end_nest(lo, &guard);
    } else {
        emit_barrier(lo);
    }
    Var *const next = emit_declare(lo, index->type, "next", expr_binary(a, X_ADD, var_of(lo, index), far));
    begin_if(lo, &guard, expr_binary(a, X_LT, var_of(lo, next), var_of(lo, end)));
    point_to(lo, ahead, filled);
    *slot_of_index = next;
    issue_step(lo, ahead);
    *slot_of_index = index;
    end_nest(lo, &guard);
    emit_call(lo, "copy_commit", 0);
    advance(lo, ahead, filled);
    if (distance) {
        begin_if(lo, &step, runs);
        point_to(lo, ahead, slot);
    } else {
        emit_call(lo, "copy_wait", 1, i32_const(lo, 0));
        emit_barrier(lo);
        begin_block(lo, &step);
    }
    emit_body(lo, op->pipeline.body);
    advance(lo, ahead, slot);
    end_nest(lo, &step);
    end_nest(lo, &loop);
}
