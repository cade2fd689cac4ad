// SPDX-License-Identifier: MIT
// work.c - what each action of the schedule uses of a multiprocessor's units.
//
// before: the schedule is complete                    after: actions that use more than next to nothing have their `work`
// never:  changes what an action does; asks which target it is
#include "lower/gpu/decide/explain/work.h"
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/decide/pipeline/multistage.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/decide/layout/scan.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/product.h"

#include <math.h>

// So many threads more, and a barrier takes one barrier's time more.
static const double barrier_threads = 256;

enum { PASS_BYTES = 128, SERIAL_SCAN_CYCLES = 200 }; // of one warp, for 32 elements

// How much slower mma.sync is than products of whole groups, which read shared memory themselves.
static const double warp_mma_slowdown = 1.6;

void add_traffic(ActionWork *work, const Buffer *tensor, double bytes, bool writes)
{
    for (int i = 0; i < work->n_traffic; i++)
        if (work->traffic[i].tensor == tensor && work->traffic[i].writes == writes) {
            work->traffic[i].bytes += bytes;
            return;
        }
    if (work->n_traffic < TRAFFIC_MAX) work->traffic[work->n_traffic++] = (Traffic){ tensor, bytes, writes };
}

// ---- products

// Multiply-adds in terms of 16-bit elements.
static double weight_of(DType type) { return dtype_bits(type) / 16.0; }

static int groups_of_action(const Lowering *lo, const ScheduleRole *role)
{
    return role->group >= 0 ? 1 : lo->all.groups;
}

static void add_tensor_cores(Lowering *lo, const Product *p, int groups, ActionWork *work)
{
    const double k = p->division == DIVIDE_CONTRACTION ? (double)p->k / lo->partition.groups : p->k;
    const double bytes = dtype_bits(p->type) / 8.0, warps = lo->partition.warps;
    const double rows = p->kind == PRODUCT_WGMMA ? 64 : 16 * warps;
    const double adds = groups * p->row_blocks * rows * p->n_group * k;
    if (p->kind == PRODUCT_WGMMA) {
        work->used[UNIT_TENSOR] += adds * weight_of(p->type);
        work->used[UNIT_SHARED] +=
            groups * p->row_blocks * (p->n_group * k + (p->a_in_registers ? 0 : rows * k)) * bytes / PASS_BYTES;
        return;
    }
    const double fragments = groups * warps * p->row_blocks; // of 16 rows
    const double read = (p->n_group * k + (p->a_in_registers ? 0 : 16 * k)) * bytes;
    work->used[UNIT_TENSOR] += adds * weight_of(p->type) * warp_mma_slowdown;
    work->used[UNIT_ISSUE] += adds / (16.0 * 8 * p->step_k) + fragments * read / 512;
    work->used[UNIT_SHARED] += fragments * read / PASS_BYTES;
    if (!p->odd_rows && !p->odd_columns) return;
    // bytes transposed in pairs are multiplied as f16: prmt and conversions of each word
    work->used[UNIT_TENSOR] += adds * (1 - weight_of(p->type)) * warp_mma_slowdown;
    work->used[UNIT_ISSUE] += fragments * read / 4 / WARP_LANES * 5;
}

static void add_multiply_adds(const Product *p, double threads, ActionWork *work)
{
    const double rows = p->rectangle.row_run * p->rectangle.row_runs;
    const double columns = p->rectangle.column_run * p->rectangle.column_runs;
    work->used[UNIT_ISSUE] += threads / WARP_LANES * p->k * rows * columns * 1.15;
    work->used[UNIT_SHARED] += threads / WARP_LANES * p->k * (rows + columns) / 4;
}

static void add_product(Lowering *lo, const ScheduleRole *role, const TileOp *op, ActionWork *work)
{
    const Product *const p = op_info(lo, op)->product;
    const MmaShape *const mma = gpu_mma(lo->gpu, MMA_WARP);
    const int groups = groups_of_action(lo, role);
    const double adds = (double)p->m * p->n * p->k, part = (double)groups / lo->all.groups;
    if (p->kind == PRODUCT_WGMMA || p->kind == PRODUCT_MMA) add_tensor_cores(lo, p, groups, work);
    else if (p->kind == PRODUCT_FMA) add_multiply_adds(p, WARPGROUP_THREADS / 4.0 * lo->partition.warps * groups, work);
    const DType type = op->matmul.a.type;
    if (mma && op->matmul.a.type == op->matmul.b.type && mma_step(mma, type) > 0)
        work->needed[UNIT_TENSOR] += part * adds * weight_of(type);
    else work->needed[UNIT_ISSUE] += part * adds / WARP_LANES;
}

// ---- tiles that move

static double elements_of(const Region *region)
{
    double n = 1;
    for (int d = 0; d < region->buffer->rank; d++) {
        int64_t width;
        if (region->subs[d].is_range && expr_as_int(region->subs[d].width, &width)) n *= (double)width;
    }
    return n;
}

static void note_tensor(const TileUse *use, void *context)
{
    const Buffer **const tensor = context;
    if (buffer_root(use->buffer)->kind == BUFFER_TENSOR && !use->writes) *tensor = buffer_root(use->buffer);
}

static double elements_of_map(const TileOp *forall)
{
    double n = 1;
    for (int i = 0; i < forall->forall.n; i++) {
        int64_t lo, hi;
        if (static_extent(&forall->forall.indices[i], &lo, &hi)) n *= (double)(hi - lo);
    }
    return n;
}

static double elements_moved(const TileOp *op)
{
    if (op->kind == T_COPY || op->kind == T_ATOMIC_TILE) return elements_of(&op->copy.dst);
    return op->kind == T_FORALL ? elements_of_map(op) : 0;
}

// By cp.async, or through registers in 16-byte pieces.
static void add_pieces(Lowering *lo, const TileOp *map, bool converts, ActionWork *work)
{
    TileOp *const op = (TileOp *)map; // it is only looked at
    const Buffer *tensor = NULL;
    const double elements = elements_moved(op);
    each_use(lo, op, note_tensor, &tensor);
    const double bytes = elements * (tensor ? dtype_bits(tensor->type) : 16) / 8.0;
    work->used[UNIT_ISSUE] += bytes / PIECE_BYTES / WARP_LANES * 3 + (converts ? elements * 2 / WARP_LANES : 0);
    work->used[UNIT_SHARED] += bytes / PASS_BYTES * (converts ? 2 : 1);
    work->used[UNIT_MEMORY] += bytes;
    work->needed[UNIT_MEMORY] += bytes;
    if (converts) work->needed[UNIT_ISSUE] += elements * 2 / WARP_LANES;
    if (tensor) add_traffic(work, tensor, bytes, false);
}

// What has come into registers a step before is stored only; a tail went with the conversion before it.
static void add_rows(Lowering *lo, const RowsPlan *plan, ActionWork *work)
{
    if (plan->how != ROWS_WENT_BEFORE) add_pieces(lo, plan->op, plan->how != ROWS_COPIED, work);
}

static void add_box(const Action *action, ActionWork *work)
{
    if (!action->op) { // from another CTA of the cluster
        work->used[UNIT_SHARED] += action->copy.bytes / (double)PASS_BYTES;
        return;
    }
    const Region *const src = &action->op->copy.src;
    const double bytes = action->copy.bytes ? action->copy.bytes : elements_of(src) * dtype_bits(src->buffer->type) / 8;
    work->used[UNIT_MEMORY] += bytes;
    work->needed[UNIT_MEMORY] += bytes;
    work->used[UNIT_SHARED] += bytes / PASS_BYTES;
    add_traffic(work, buffer_root(src->buffer), bytes, false);
}

static void add_staged_store(const TileOp *op, int groups, int all, ActionWork *work)
{
    const double elements = elements_of(&op->copy.dst) * groups / all;
    const double bytes = elements * dtype_bits(op->copy.dst.buffer->type) / 8;
    work->used[UNIT_ISSUE] += elements / WARP_LANES;
    work->used[UNIT_SHARED] += 2 * bytes / PASS_BYTES;
    work->used[UNIT_MEMORY] += bytes;
    work->needed[UNIT_MEMORY] += bytes;
    add_traffic(work, buffer_root(op->copy.dst.buffer), bytes, true);
}

// Of 16-bit elements, a matrix by an instruction.
static void add_panels(const TileOp *op, ActionWork *work)
{
    const double elements = elements_moved(op), bytes = elements * 2;
    work->used[UNIT_ISSUE] += elements / WARP_LANES * 0.75;
    work->used[UNIT_SHARED] += bytes / PASS_BYTES;
    work->needed[UNIT_SHARED] += bytes / PASS_BYTES;
}

static void add_conversion(Lowering *lo, const ConversionPlan *plan, ActionWork *work)
{
    const double warps = lo->all.groups * lo->partition.warps;
    work->used[UNIT_ISSUE] += plan->how.cost * warps;
    if (plan->how.kind != CONVERT_SHARED) return;
    work->used[UNIT_SHARED] += (plan->how.stores.wavefronts + plan->how.loads.wavefronts) * warps;
}

// Pairs of narrow values, by one instruction.
static void add_packed(const TileInfo *tile, ActionWork *work)
{
    double elements = 1;
    for (int d = 0; d < tile->layout.rank; d++) elements *= tile->layout.extent[d];
    work->used[UNIT_ISSUE] += elements / 2 / WARP_LANES;
    work->needed[UNIT_ISSUE] += elements / 2 / WARP_LANES;
}

static void add_map_plan(Lowering *lo, const MapPlan *plan, ActionWork *work)
{
    if (plan->packed_to) add_packed(plan->packed_to, work);
    else add_map_work(lo, plan->map, &plan->it, work);
}

static void add_plan(Lowering *lo, const ScheduleRole *role, const Action *action, ActionWork *work)
{
    if (!action->print) return;
    switch (*(const PlanForm *)action->print) {
    case PLAN_MAP: add_map_plan(lo, action->print, work); return;
    case PLAN_TRANSFER:
    case PLAN_MATRIX_LOAD: add_panels(action->op, work); return;
    case PLAN_ROWS: add_rows(lo, action->print, work); return;
    case PLAN_ROW_ELEMENTS: add_pieces(lo, ((const RowElements *)action->print)->map, false, work); return;
    case PLAN_STEPPED_ROWS:
    case PLAN_SHIFTED_ROWS: add_pieces(lo, map_of(lo, action->op), false, work); return;
    case PLAN_PIECES: add_pieces(lo, ((const Pieces *)action->print)->map, false, work); return;
    case PLAN_STORE: add_staged_store(action->op, groups_of_action(lo, role), lo->all.groups, work); return;
    case PLAN_CONVERSION: add_conversion(lo, action->print, work); return;
    case PLAN_BOXES:
    case PLAN_CONVERSION_PART: return; // the store and the conversion that they are parts of have their work
    }
}

// ---- other actions

static void add_join(const Lowering *lo, const Action *action, ActionWork *work)
{
    const double words = lo->builder.schedule->tiles.items[action->map.tile]->registers;
    work->used[UNIT_ISSUE] += words * 10 * lo->all.groups * lo->partition.warps;
    work->shuffles += 5;
}

// Along the scanned dimension; by one warp for each line, unless registers hold it.
static void add_scan(const ScanPlan *plan, ActionWork *work)
{
    const Region *const src = &plan->op->scan.src;
    const double elements = elements_of(src), warps = plan->partition.groups * plan->partition.warps;
    int64_t along = 1;
    expr_as_int(region_extent(src, plan->op->scan.axis), &along);
    work->needed[UNIT_ISSUE] += elements * 2 / WARP_LANES;
    work->used[UNIT_ISSUE] += elements * 2 / WARP_LANES + warps * 20;
    work->shuffles += 6;
    if (!plan->in_registers)
        work->cycles += ceil(elements / (double)along / warps) * ceil((double)along / WARP_LANES) * SERIAL_SCAN_CYCLES;
}

static void note_depth(Expr **slot, void *context)
{
    int *const depth = context;
    const int here = load_depth(*slot);
    if (here > *depth) *depth = here;
}

static void add_scalar(const TileOp *op, ActionWork *work)
{
    int depth = 0;
    tile_each_expr((TileOp *)op, note_depth, &depth);
    work->loads += depth;
}

static void add_tile_of(const Lowering *lo, const Action *action, ActionWork *work)
{
    for (int i = 0; i < action->n_accesses; i++) {
        const ScheduleTile *const tile = lo->builder.schedule->tiles.items[action->accesses[i].tile];
        if (tile->place == TILE_SHARED) work->used[UNIT_SHARED] += (double)tile->bytes / PASS_BYTES;
    }
}

static void add_work(Lowering *lo, const ScheduleRole *role, const Action *action, ActionWork *work)
{
    switch (action->kind) {
    case ACTION_MMA: add_product(lo, role, action->op, work); return;
    case ACTION_COPY:
        if (action->copy.how == COPY_TMA || action->copy.how == COPY_LANES) add_box(action, work);
        else add_plan(lo, role, action, work);
        return;
    case ACTION_STORE: add_plan(lo, role, action, work); return;
    case ACTION_MAP:
        if (action->map.how == MAP_COMBINE_THREADS || action->map.how == MAP_COMBINE_GROUPS) add_join(lo, action, work);
        else if (action->map.how != MAP_BEGIN_PARTIALS) add_plan(lo, role, action, work);
        return;
    case ACTION_SCAN: add_scan(action->print, work); return;
    case ACTION_LDMATRIX: add_tile_of(lo, action, work); return;
    case ACTION_ATOMIC:
    case ACTION_SCALAR: add_scalar(action->op, work); return;
    case ACTION_DECLARE:
        if (action->declare.what == DECLARE_VALUE) add_scalar(action->op, work);
        return;
    case ACTION_BARRIER_SYNC: work->barriers += 1 + action->barrier.threads / barrier_threads; return;
    case ACTION_CLUSTER_SYNC: work->barriers += 4; return;
    case ACTION_GRID:
    case ACTION_LOOP:
    case ACTION_IF:
    case ACTION_SCOPE:
    case ACTION_JUMP:
    case ACTION_ACQUIRE:
    case ACTION_EXPECT:
    case ACTION_ARRIVE:
    case ACTION_WAIT:
    case ACTION_RELEASE:
    case ACTION_ADVANCE:
    case ACTION_COPY_COMMIT:
    case ACTION_COPY_WAIT:
    case ACTION_STORE_WAIT:
    case ACTION_PREFETCH:
    case ACTION_MMA_WAIT:
    case ACTION_FENCE_ASYNC:
    case ACTION_FENCE_REGISTERS:
    case ACTION_BARRIER_ARRIVE:
    case ACTION_WARP_SYNC: return;
    }
}

// ---- scalars: of what a role computes and does not use, the compiler makes no code

typedef struct Used {
    bool *vars; // by id
    int n;
    bool more; // one was added
    bool all;  // it is not known which
} Used;

static bool see_var(const Expr *x, void *context)
{
    Used *const used = context;
    if (x->kind != E_VAR || x->var.var->id >= used->n || used->vars[x->var.var->id]) return false;
    used->vars[x->var.var->id] = used->more = true;
    return false;
}

// Subtrees are shared: of what is large, all is taken to be used.
static void see_vars(Expr **slot, void *context)
{
    enum { NODES_MAX = 1000 };
    Used *const used = context;
    if (!expr_larger(*slot, NODES_MAX)) expr_any(*slot, see_var, used);
    else if (!used->all) used->all = used->more = true;
}

static bool see_vars_of(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    tile_each_expr(op, see_vars, context);
    return false;
}

static bool is_scalar(const Action *action)
{
    return action->op && (action->op->kind == T_LET || action->op->kind == T_SET) &&
           (action->kind == ACTION_SCALAR || action->kind == ACTION_DECLARE);
}

static bool is_used(const Used *used, const Var *var) { return used->all || var->id >= used->n || used->vars[var->id]; }

static void find_used(Lowering *lo, const Action *action, Used *used)
{
    for (; action; action = action->next) {
        const bool is_needed = !is_scalar(action) || is_used(used, action->op->let.var);
        TileOp *const op = (TileOp *)action->op;
        const bool is_flow = action->kind == ACTION_LOOP || action->kind == ACTION_IF || action->kind == ACTION_SCOPE;
        if (op && is_needed && !is_flow) visit_op(lo, op, see_vars_of, used);
        else if (op && is_flow) tile_each_expr(op, see_vars, used);
        find_used(lo, action->body, used);
        find_used(lo, action->otherwise, used);
    }
}

static Used used_of_role(Lowering *lo, const ScheduleRole *role)
{
    Used used = { .n = lo->kernel->n_vars };
    used.vars = NEW_ARRAY(lo->arena, bool, used.n + 1);
    do {
        used.more = false;
        find_used(lo, role->body, &used);
    } while (used.more);
    return used;
}

// ---- scalars that a step loads for the next: nobody waits for them in this one

typedef struct HandedOn {
    const Var *var;
    bool otherwise; // it is used in some other way
} HandedOn;

static bool is_var(const Expr *x, void *context) { return x->kind == E_VAR && x->var.var == context; }

static void see_use(Expr **slot, void *context)
{
    HandedOn *const handed = context;
    handed->otherwise |= expr_any(*slot, is_var, (void *)handed->var);
}

static bool see_handed(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    HandedOn *const handed = context;
    const bool hands_on = op->kind == T_SET && is_var(op->let.value, (void *)handed->var);
    if (!hands_on) tile_each_expr(op, see_use, handed);
    for (const TileOp *after = op->next; after && hands_on; after = after->next)
        handed->otherwise |= after->kind != T_SET;
    return false;
}

// int next = LIST[t + 1]; ... ; now = next;      at the end of a step, and nothing else takes it
static bool is_handed_on(Lowering *lo, const TileOp *op)
{
    const TileOp *const loop = op_info(lo, op)->parent;
    HandedOn handed = { .var = op->let.var };
    if (op->kind != T_LET || op->let.var->assigned || !loop || loop->kind == T_IF) return false;
    each_op(lo, lo->kernel->body, see_handed, &handed);
    return !handed.otherwise;
}

static bool is_idle(const ActionWork *work)
{
    double sum = work->loads + work->shuffles + work->barriers + work->cycles;
    for (int i = 0; i < UNITS; i++) sum += work->used[i] + work->needed[i];
    return sum <= 0;
}

static void note_block(Lowering *lo, const ScheduleRole *role, Action *action, const Used *used)
{
    for (; action; action = action->next) {
        ActionWork *const work = NEW(lo->arena, ActionWork, .conflicts = 1, .sectors = 1, .repeats = 1, .idle = 1);
        if (!is_scalar(action) || (is_used(used, action->op->let.var) && !is_handed_on(lo, action->op)))
            add_work(lo, role, action, work);
        if (!is_idle(work)) action->work = work;
        note_block(lo, role, action->body, used);
        note_block(lo, role, action->otherwise, used);
    }
}

void note_work(Lowering *lo)
{
    const Schedule *const schedule = lo->builder.schedule;
    for (int i = 0; i < schedule->roles.count; i++) {
        const Used used = used_of_role(lo, schedule->roles.items[i]);
        note_block(lo, schedule->roles.items[i], schedule->roles.items[i]->body, &used);
    }
}
