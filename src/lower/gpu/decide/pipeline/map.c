// SPDX-License-Identifier: MIT
// map.c - foralls, and with them copies, fills and tile atomics as maps over elements: how the iterations are divided,
// which moves are wide, and what its reductions need between warps.
//
// before: tiles have layouts, hazards are found
// after:  each map is an action whose plan (map.h) says all that printing needs; the barriers of its reductions are
//         parts of it
#include "lower/gpu/decide/pipeline/map.h"

#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/layout/matrix_load.h"
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/reduce.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/facts/info.h"

// ---- reductions

// From what each thread has to what all have: not where only the end of a loop around needs that (partial.c).
static bool joins_threads(Lowering *lo, const TileOp *update)
{
    const TileInfo *const target = update->update.buffer ? tile_info(lo, update->update.buffer) : NULL;
    return !target || !target->is_partial;
}

// The barriers of a reduction whose warps exchange results: of earlier readers of the scratch, and before it is read.
static void act_join(Lowering *lo, const Iteration *it, int which)
{
    if (!it->reductions[which].joins || warp_replicas(it, which) == 1) return;
    if (lo->scratch_buffers <= 1) act_sync(lo);
    act_sync(lo);
}

// ---- which threads

// What a body stores: into registers, into memory, and into memory that it also reads.
typedef struct Effects {
    Lowering *lo;
    TileOp *forall;
    const Buffer *written;
    bool in_registers, rewrites;
} Effects;

static void note_read_back(const TileUse *use, void *context)
{
    Effects *const effects = context;
    effects->rewrites |= use->reads && buffer_root(use->buffer) == effects->written;
}

static void note_store(const TileUse *use, void *context)
{
    Effects *const effects = context;
    const Buffer *const root = buffer_root(use->buffer);
    if ((!use->writes && !use->atomic) || root->kind == BUFFER_LOCAL) return;
    effects->in_registers |= is_fragment_in_registers(effects->lo, root);
    effects->written = root;
    each_use(effects->lo, effects->forall, note_read_back, effects);
}

// Threads that repeat iterations of others store nothing, yet they must not read what the others are rewriting.
static bool only_first_replica(Lowering *lo, TileOp *op, const Iteration *it)
{
    Effects effects = { .lo = lo, .forall = op };
    if (op->kind != T_FORALL || it->is_linear || it->n_reductions > 0) return false;
    each_use(lo, op, note_store, &effects);
    return effects.rewrites && !effects.in_registers;
}

// Every group runs it for its own copy of a fragment; what others see is stored once.
static bool is_repeated(Lowering *lo, TileOp *op, const Iteration *it)
{
    return lo->is_specialised && lo->role == ROLE_CONSUMER && lo->walk != 0 && it->partition.groups == 1 &&
           !op->groups && op_groups(lo, op) != 1u << lo->walk;
}

// ---- a plan

// What a thread cannot do by itself.
static bool refuse_statement(Lowering *lo, TileOp *op, void *context)
{
    (void)context;
    int64_t step;
    if (op->kind == T_FOR && expr_as_int(op->for_.step, &step) && step < 0)
        return !unsupported(lo, op->span, "a loop that counts down inside forall");
    if (op->kind == T_MATMUL || op->kind == T_SCAN || op->kind == T_PIPELINE || op->kind == T_RETURN)
        return !unsupported(lo, op->span, "this statement inside forall");
    return false;
}

static void plan_elements(Lowering *lo, MapPlan *plan)
{
    Iteration *const it = &plan->it;
    each_op(lo, plan->map->forall.body, refuse_statement, NULL);
    choose_iteration(lo, plan->map, it);
    it->vector = -1;
    find_reductions(lo, plan->map, it);
    for (int i = 0; i < it->n_reductions; i++) it->reductions[i].joins = joins_threads(lo, it->reductions[i].update);
    const Partition partition = lo->partition;
    lo->partition = it->partition;
    if (!it->is_linear) choose_moves(lo, plan->map, it);
    lo->partition = partition;
}

// The one store of a body, to rows of a linear index: a row's address takes divisions.
static const TileOp *find_merged_rows(const MapPlan *plan)
{
    const TileOp *const store = plan->map->forall.body;
    const Iteration *const it = &plan->it;
    if (!store || store->next || store->kind != T_STORE || it->n != 2 || it->is_linear || it->n_batched ||
        !merges_rows(store->store.buffer) || store->store.buffer->rank != 2)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (it->dim_of[i] != i || expr_uses(store->store.subs[1 - i], it->indices[i].var)) return NULL;
    return store;
}

// Whether a warp's rows are no more than its lanes, of which the slowest count through rows; it has all of each.
static bool rows_have_lanes(MapPlan *plan)
{
    const Layout *const layout = &plan->it.layout;
    int across = 1, down = 0, rows = 1;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->dim != 0 && mode->dim != 1) return false;
        if (mode->input == IN_LANE && down) return false; // rows were the slowest
        if (mode->input == IN_LANE && mode->dim == 0) down = mode->extent;
        if (mode->input == IN_LANE && mode->dim == 1) across *= mode->extent;
        if (mode->input == IN_REGISTER && mode->dim == 0) rows *= mode->extent;
    }
    plan->lanes_across = across;
    for (int d = 0; d < 2; d++) {
        int64_t extent;
        if (!full_extent(&plan->it.indices[d], &extent) || extent != layout_coverage(layout, d)) return false;
    }
    return across * down == WARP_LANES && rows * down <= WARP_LANES;
}

// Whether words of two elements change places among four lanes beside each other, which have the pairs of a row: what
// transpose_quad does.
static bool exchanges_quads(const Conversion *how)
{
    return conversion_exchanges(how) && how->n_steps == 2 && how->per_word == 2 && how->step[0].by_stride == 1 &&
           how->step[1].by_stride == 2;
}

// A row's columns as vectors of 16 bytes, where the lanes have pairs of 16 bits, as tensor cores leave them, and the rest
// of the columns is one loop.
static const WideStore *plan_wide_store(Lowering *lo, const MapPlan *plan)
{
    enum { VECTOR_BYTES = 16 };
    const Iteration *const it = &plan->it;
    const int bits = dtype_bits(plan->addressed_rows->store.buffer->type);
    const ConversionTarget target = { .partition = it->partition, .element_bits = bits, .in_registers = true };
    if (bits != 16 || it->n_stored != 1 || it->n_loaded || it->n_order != plan->n_row_modes + 1 ||
        it->layout.mode[it->vector].extent != 2)
        return NULL;
    WideStore *const wide = NEW(lo->arena, WideStore, .blocks = 1);
    if (layout_widen(&it->layout, it->partition, VECTOR_BYTES * 8 / bits, &wide->layout) ||
        layout_convert(&it->layout, &wide->layout, &target, &wide->how) || !exchanges_quads(&wide->how))
        return NULL;
    for (int i = 0; i < wide->how.n_steps; i++) wide->blocks *= wide->how.step[i].extent;
    return wide;
}

// The loops over rows come first.
static void place_rows(Lowering *lo, MapPlan *plan)
{
    Iteration *const it = &plan->it;
    int order[LAYOUT_MAX_MODES], n = 0;
    if (lo->kernel->checked || lo->role == ROLE_PRODUCER || plan->only_first_replica) return;
    const TileOp *const store = find_merged_rows(plan);
    if (!store || !rows_have_lanes(plan)) return;
    plan->addressed_rows = store;
    for (int dim = 0; dim < 2; dim++)
        for (int i = 0; i < it->n_order; i++) {
            if ((it->layout.mode[it->order[i]].dim == 0) != (dim == 0)) continue;
            plan->n_row_modes += dim == 0;
            order[n++] = it->order[i];
        }
    memcpy(it->order, order, sizeof *order * (size_t)n);
    plan->wide = plan_wide_store(lo, plan);
}

MapPlan *plan_map(Lowering *lo, TileOp *op)
{
    MapPlan *const plan = NEW(lo->arena, MapPlan, .form = PLAN_MAP, .map = as_map(lo, op));
    if (is_packed_conversion(lo, plan->map, &plan->packed_to, &plan->packed_from)) return plan;
    plan->packed_to = plan->packed_from = NULL;
    refuse_packed_views(lo, plan->map);
    plan->loads = op_info(lo, op)->loads;
    if (plan->loads) plan->it = *plan->loads;
    else plan_elements(lo, plan);
    refuse_fragment_accesses(lo, plan->map, &plan->it);
    plan->only_first_replica = only_first_replica(lo, plan->map, &plan->it);
    plan->is_muted = is_repeated(lo, plan->map, &plan->it);
    if (!plan->loads) place_rows(lo, plan);
    return plan;
}

static void act_map_barriers(Lowering *lo, const MapPlan *plan)
{
    const Partition partition = lo->partition;
    lo->partition = plan->it.partition;
    for (int i = 0; i < plan->it.n_reductions; i++) act_join(lo, &plan->it, i);
    lo->partition = partition;
}

static Action *act_plan(Lowering *lo, const MapPlan *plan, Action action)
{
    action.print = plan;
    Action *const added = open_action(lo, action);
    act_map_barriers(lo, plan);
    close_action(lo);
    return added;
}

Action *act_map(Lowering *lo, TileOp *op, Action action) { return act_plan(lo, plan_map(lo, op), action); }

// ---- sums that the end of a loop needs whole

void act_join_sums(Lowering *lo, const TileInfo *tile)
{
    TileOp *const update = NEW(lo->arena, TileOp, .kind = T_UPDATE);
    update->update.op = tile->partial_with;
    update->update.buffer = tile->buffer;
    update->update.value = expr_float(lo->arena, tile->buffer->type, 0);
    JoinPlan *const plan = NEW(lo->arena, JoinPlan, .tile = tile);
    plan->it = (Iteration){ .layout = tile->layout, .partition = lo->partition, .vector = -1, .n_reductions = 1 };
    const int rank = tile->layout.rank;
    for (int i = 0; i < tile->layout.n; i++)
        if (plan->it.layout.mode[i].dim == REPLICATED) plan->it.layout.mode[i].dim = rank;
    plan->it.reductions[0].update = update;
    plan->it.reductions[0].kept = (1u << rank) - 1;
    plan->it.reductions[0].joins = true;
    Action *const join = open_action(
        lo, (Action){ .kind = ACTION_MAP, .map = { .how = MAP_COMBINE_THREADS, .tile = tile->number }, .print = plan });
    access_tile(lo, join, tile, true, true, false);
    act_join(lo, &plan->it, 0);
    close_action(lo);
}

// ---- statements

static StoreKind store_kind(Lowering *lo, TileOp *op)
{
    if (!store_is_staged(lo, op)) return op->kind == T_ATOMIC_TILE ? STORE_ATOMIC : STORE_THREADS;
    if (store_is_transposed(lo, op)) return STORE_TRANSPOSED;
    return op->kind == T_ATOMIC_TILE ? STORE_REDUCE : STORE_STAGED;
}

static Action elementwise_action(Lowering *lo, TileOp *op)
{
    const bool to_tensor =
        (op->kind == T_COPY || op->kind == T_ATOMIC_TILE) && buffer_root(op->copy.dst.buffer)->kind == BUFFER_TENSOR;
    if (to_tensor) return (Action){ .kind = ACTION_STORE, .op = op, .store = { .how = store_kind(lo, op) } };
    const bool from_tensor = op->kind == T_COPY && buffer_root(op->copy.src.buffer)->kind == BUFFER_TENSOR;
    if (from_tensor) return (Action){ .kind = ACTION_COPY, .op = op, .copy = { .how = COPY_THREADS, .ring = NO_RING } };
    return (Action){ .kind = ACTION_MAP, .op = op };
}

static void act_elements(Lowering *lo, TileOp *op)
{
    MapPlan *const plan = plan_map(lo, op);
    plan->row_factor = rescale_factor(lo, op);
    record_accesses(lo, act_plan(lo, plan, elementwise_action(lo, op)), op);
}

// Rows that are copied as they are go by cp.async, and are in flight until the threads wait for them.
static void act_rows(Lowering *lo, TileOp *op, const RowsPlan *rows)
{
    Action action = elementwise_action(lo, op);
    if (rows->how == ROWS_COPIED)
        action = (Action){ .kind = ACTION_COPY, .op = op, .copy = { .how = COPY_CP_ASYNC, .ring = NO_RING } };
    record_accesses(lo, &action, op);
    action.print = rows;
    act(lo, action);
}

static void act_form(Lowering *lo, TileOp *op, const void *plan)
{
    Action action = elementwise_action(lo, op);
    record_accesses(lo, &action, op);
    action.print = plan;
    act(lo, action);
}

void act_elementwise(Lowering *lo, TileOp *op)
{
    if (op->kind == T_FILL && starts_in_loop(lo, op)) return;
    const TransferPlan *const transfer = plan_copy_transfer(lo, op);
    const MatrixLoadPlan *const matrix = plan_matrix_load(lo, op);
    const RowsPlan *rows;
    ConversionPlan conversion;
    if (plan_conversion(lo, op, &conversion)) {
        act_conversion(lo, op, &conversion);
    } else if (transfer) {
        act_form(lo, op, transfer);
    } else if (matrix) {
        act_form(lo, op, matrix);
    } else if (store_is_staged(lo, op)) {
        act_staged_store(lo, op, elementwise_action(lo, op));
    } else if (!op_info(lo, op)->loads && (rows = decide_move(lo, op)) != NULL) {
        act_rows(lo, op, rows);
    } else {
        act_elements(lo, op);
    }
}
