// SPDX-License-Identifier: MIT
// multistage.c - pipelines before sm_90: copies run ahead through cp.async, issued by the computing threads themselves.
//
//     synchronise
//     for (t = begin - (buffers - 1); t < end; t++)
//         if (t >= begin): wait for the copies of step t (all but the last buffers - 2 groups); synchronise
//         copies of step t + buffers - 1, if there is one; commit a group in any case, so that groups count steps
//         if (t >= begin): the step's statements
//
// One barrier per step does for both: everyone's copies of this step have arrived, and the buffer that is filled next
// is read by nobody any more. A tile takes part if all its writes are such copies, of whole pieces of 4 to 16 bytes, of
// what tensors hold that are only read, at addresses that do not depend on what the threads compute. A forall that gathers by
// index arithmetic is such a copy.
#include "lower/gpu/decide/pipeline/multistage.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

// ---- which copies

static bool view_is_known(const KnownValues *values, const Buffer *buffer)
{
    for (; buffer->kind == BUFFER_VIEW; buffer = buffer->base.buffer)
        for (int d = 0; d < buffer->base.buffer->rank; d++)
            if (!value_is_known(values, buffer->base.subs[d].start) ||
                !value_is_known(values, buffer->base.subs[d].width))
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
    *it = (Iteration){
        .indices = map->forall.indices, .n = map->forall.n, .partition = lo->partition, .vector = -1, .recasts = true
    };
    int extents[LAYOUT_MAX_RANK];
    for (int i = 0; i < COUNT(it->dim_of); i++) it->dim_of[i] = i < it->n ? i : -1;
    for (int i = 0; i < it->n; i++) {
        int64_t extent;
        if (!full_extent(&it->indices[i], &extent) || extent > 1 << 16) return false;
        extents[i] = (int)extent;
    }
    const int bytes = dtype_bits(store->store.buffer->type) / 8;
    it->layout = layout_blocked(it->n, extents, it->partition, 16 / bytes);
    it->vector = choose_vectors(lo, map, it, run);
    if (it->vector < 0 || it->n_loaded != 1 || it->n_stored != 1) return false;
    const int piece = it->layout.mode[it->vector].extent * bytes;
    return piece == 4 || piece == 8 || piece == 16;
}

// Why what a tensor holds cannot be read ahead; NULL: it can.
static const char *why_not_read(const KnownValues *values, Buffer *src, DType type)
{
    const Buffer *const root = buffer_root(src);
    if (root->kind != BUFFER_TENSOR) return "other statements write it";
    if (dtype_bits(src->type) < 8) return "a tile has a byte for each packed element";
    if (root->access != ACCESS_IN) return "the kernel writes the tensor, too";
    if (src->type != type) return "it converts";
    for (const Buffer *b = src; b != root; b = b->base.buffer)
        if (b->type != b->base.buffer->type && !recasts_rows(b)) return "it reads a part of a tensor as other elements";
    return view_is_known(values, src) ? NULL : "its place depends on what the threads make";
}

// The tile that a forall fills by one statement, from a tensor.
static Buffer *gathered_tile(const TileOp *op)
{
    const TileOp *const store = op->kind == T_FORALL ? op->forall.body : NULL;
    return store && store->kind == T_STORE && !store->next && store->store.value->kind == E_LOAD &&
                   store->store.buffer->kind == BUFFER_SHARED
               ? store->store.buffer
               : NULL;
}

static bool gather_is_multistage(Lowering *lo, const KnownValues *values, const TileOp *pipeline, TileOp *op)
{
    Buffer *const tile = gathered_tile(op);
    if (!tile || op_info(lo, op)->parent != pipeline) return false;
    const TileOp *const store = op->forall.body;
    const Expr *const load = store->store.value;
    if (why_not_read(values, load->load.buffer, tile->type)) return false;
    for (int d = 0; d < load->load.buffer->rank; d++)
        if (!value_is_known(values, load->load.subs[d])) return false;
    for (int d = 0; d < tile->rank; d++)
        if (!value_is_known(values, store->store.subs[d])) return false;
    Iteration it;
    Var *run;
    return plan_pieces(lo, op, &it, &run);
}

// Why the copy into a tile does not run ahead; NULL: it does.
static const char *why_behind(Lowering *lo, const KnownValues *values, const TileOp *pipeline, TileOp *op)
{
    if (op->kind != T_COPY || op->copy.dst.buffer->kind != BUFFER_SHARED) return "other statements write it";
    if (op_info(lo, op)->parent != pipeline) return "it is no statement of the pipeline itself";
    Buffer *const src = op->copy.src.buffer;
    const char *const why = why_not_read(values, src, op->copy.dst.buffer->type);
    if (why) return why;
    bool known = true;
    for (int d = 0; d < src->rank; d++) known = known && value_is_known(values, op->copy.src.subs[d].start);
    for (int d = 0; d < op->copy.dst.buffer->rank; d++)
        known = known && value_is_known(values, op->copy.dst.subs[d].start);
    if (!known) return "its place depends on what the threads make";
    Iteration it;
    Var *run;
    return plan_pieces(lo, op, &it, &run) ? NULL : "it is not whole pieces of 4, 8 or 16 bytes";
}

typedef struct Writes {
    const KnownValues *values;
    const TileOp *pipeline;
    const Buffer *root;
    bool reads, multistage;
    const char *other; // why some do not run ahead; NULL: all do
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
    if (gathered_tile(op) == w->root && gather_is_multistage(w->values->lo, w->values, w->pipeline, op)) {
        w->multistage = true;
        return true;
    }
    w->here_reads = w->here_writes = false;
    tile_uses(op, see_use, w);
    w->reads |= w->here_reads;
    if (!w->here_writes) return false;
    const char *const why = why_behind(lo, w->values, w->pipeline, op);
    w->multistage |= !why;
    w->other = w->other ? w->other : why;
    return false;
}

static bool note_multistage(Lowering *lo, TileOp *op, void *context)
{
    if ((op->kind == T_COPY && op->copy.dst.buffer == context) || gathered_tile(op) == context)
        op_info(lo, op)->fetched = true;
    return op->kind == T_FORALL;
}

static bool is_in_the_way(Lowering *lo, TileOp *op)
{
    return op->kind == T_PIPELINE || op->kind == T_BREAK || op->kind == T_RETURN;
}

// Scalars that the pipeline's own steps change are not known a few steps ahead.
static bool forget_changed(Lowering *lo, TileOp *op, void *context)
{
    KnownValues *const values = context;
    if (op->kind == T_SET) values->unknown[op->let.var->id] = true;
    if (op->kind == T_UPDATE && op->update.var) values->unknown[op->update.var->id] = true;
    return false;
}

static bool plan_pipeline(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_PIPELINE || op->pipeline.n != 1 || op->pipeline.stages < 2) return op->kind == T_FORALL;
    if (block_has(lo, op->pipeline.body, is_in_the_way)) return false;
    KnownValues values = new_known_values(lo);
    each_op(lo, op->pipeline.body, forget_changed, &values);
    find_unknown(&values);
    Multistage *const multistage = NEW(lo->arena, Multistage, .pipeline = op, .buffers = op->pipeline.stages);
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->storage != TILE_IN_SHARED || op_info(lo, tile->declared)->parent != op) continue;
        Writes writes = { .values = &values, .pipeline = op, .root = tile->buffer };
        each_op(lo, lo->kernel->body, see_op, &writes);
        tile->why_in_place = writes.other;
        if (!writes.multistage || writes.other || !writes.reads) continue;
        each_op(lo, lo->kernel->body, note_multistage, tile->buffer);
        tile->multistage = multistage;
        multistage->n_tiles++;
    }
    if (!multistage->n_tiles) return false;
    multistage->known = values;
    OpInfo *const info = op_info(lo, op);
    info->multistage = multistage;
    info->barrier_before = true; // the buffers may still be read by those who are late
    info->barrier_group = -1;
    VEC_PUSH(lo->arena, &lo->multistages, multistage);
    return false;
}

// before: shared tiles are laid out       after: copies that run ahead are marked as fetched
void find_multistages(Lowering *lo)
{
    if (!lo->is_specialised) each_op(lo, lo->kernel->body, plan_pipeline, NULL);
}

// ---- the walk

static const Pieces *pieces_of(Lowering *lo, TileOp *op)
{
    Var *run;
    Pieces *const pieces = NEW(lo->arena, Pieces, .form = PLAN_PIECES, .map = as_map(lo, op));
    plan_pieces(lo, op, &pieces->it, &run);
    pieces->it.n_loaded = pieces->it.n_stored = 0; // addresses are those of the first element
    return pieces;
}

// The copies of a step, with the scalars of its block that they may need.
static void act_copies(Lowering *lo, const Multistage *multistage)
{
    act_declare(lo, DECLARE_THREADS);
    for (TileOp *op = multistage->pipeline->pipeline.body; op; op = op->next) {
        if (op->kind == T_LET && op->let.value && !multistage->known.unknown[op->let.var->id]) {
            act(lo, (Action){ .kind = ACTION_DECLARE, .op = op, .declare = { .what = DECLARE_VALUE } });
        } else if (op_info(lo, op)->fetched) {
            Action copy = { .kind = ACTION_COPY, .op = op, .copy = { .how = COPY_CP_ASYNC, .ring = NO_RING } };
            copy.print = pieces_of(lo, op);
            record_accesses(lo, act(lo, copy), op);
        }
    }
}

static void wait_for_stages(Lowering *lo, int pending)
{
    act(lo, (Action){ .kind = ACTION_COPY_WAIT, .wait = { .pending = pending, .is_by_groups = true } });
    act_sync(lo);
}

static void open_steps(Lowering *lo, ScopeKind kind, const MultistageSteps *plan)
{
    const TileOp *const op = plan->multistage->pipeline;
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = kind, .source = op }, .print = plan });
}

void decide_multistage(Lowering *lo, TileOp *op)
{
    const Multistage *const multistage = op_info(lo, op)->multistage;
    const int distance = multistage->buffers - 1;
    const MultistageSteps *const plan =
        NEW(lo->arena, MultistageSteps, .form = STEPS_MULTISTAGE, .multistage = multistage);
    const MultistageSteps *const body =
        NEW(lo->arena, MultistageSteps, .form = STEPS_MULTISTAGE, .multistage = multistage, .is_body = true);
    open_action(lo, (Action){ .kind = ACTION_LOOP,
                              .op = op,
                              .loop = { .part = LOOP_AHEAD, .ahead = distance, .source = op },
                              .print = plan });
    if (distance) {
        open_steps(lo, SCOPE_HAS_STEP, plan);
        wait_for_stages(lo, distance - 1);
        close_action(lo);
    } else {
        act_sync(lo);
    }
    open_steps(lo, SCOPE_STEP_AHEAD, plan);
    act_copies(lo, multistage);
    close_action(lo);
    act(lo, (Action){ .kind = ACTION_COPY_COMMIT, .print = plan });
    if (!distance) wait_for_stages(lo, 0);
    open_steps(lo, SCOPE_HAS_STEP, body);
    decide_body(lo, op->pipeline.body);
    close_action(lo);
    close_action(lo);
}
