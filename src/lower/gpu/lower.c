// SPDX-License-Identifier: MIT
// lower.c - the lowering's outline: analyses in their order, then what each role does; then all of it is printed.
#include "lower/gpu/decide/actions/actions.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/memory/register_limits.h"
#include "lower/gpu/facts/roles.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/memory/choose_occupancy.h"
#include "lower/gpu/decide/explain/explain.h"
#include "lower/gpu/decide/explain/find_notes.h"
#include "lower/gpu/decide/explain/trace.h"
#include "lower/gpu/decide/pipeline/walk.h"
#include "lower/gpu/decide/explain/work.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/load_balance.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/print/roles/print_roles.h"

// ---- roles

static void decide_producer(Lowering *lo)
{
    const ScopeKind scope = lo->may_need_elements ? SCOPE_ALIGNED : SCOPE_ISSUE;
    begin_role(lo, (ScheduleRole){ .kind = ROLE_OF_PRODUCER,
                                   .name = "producer",
                                   .threads = producer_threads(lo),
                                   .group = -1,
                                   .registers = producer_registers(lo) });
    open_action(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = scope, .threads = producer_issuers(lo) } });
    decide_producer_grid(lo);
    if (lo->may_need_elements) {
        otherwise_action(lo);
        use_elements(lo);
        decide_producer_grid(lo);
    }
    close_action(lo);
    end_role(lo);
}

static void decide_roles(Lowering *lo)
{
    if (lo->has_producer) decide_producer(lo);
    decide_consumers(lo);
    join_release_fences(lo);
    drop_needless_fences(lo);
}

// ---- the whole

static bool adds_floats(Lowering *lo, TileOp *op, void *context)
{
    bool *const adds = context;
    if (op->kind == T_ATOMIC_TILE) *adds |= dtype_is_float(op->copy.dst.buffer->type);
    if (op->kind == T_ATOMIC && op->atomic.op == ATOMIC_ADD) *adds |= dtype_is_float(op->atomic.buffer->type);
    return false;
}

static bool find_walk(Lowering *lo, TileOp *op, void *context)
{
    *(bool *)context |= op_info(lo, op)->fetched && op_info(lo, op)->im2col;
    return op->kind == T_FORALL;
}

// Everything that is decided before anything is printed.
static bool analyse(Lowering *lo, bool *again)
{
    structure_kernel(lo);
    merge_pipeline_indices(lo);
    find_bounds(lo);
    find_forall_copies(lo);
    limit_maps(lo);
    choose_partition(lo);
    find_cluster(lo);
    find_warp_roles(lo);
    expand_scans(lo, &lo->kernel->body);
    note_operations(lo);
    find_producer_group(lo);
    assign_storage(lo);
    if ((*again = give_products_fragments(lo))) return false;
    find_column_reads(lo);
    // A group that has no products fetches in place: a producer beside it would take its registers twice, if none is there.
    if (lo->gpu->tma && (lo->has_producer_group || !light_groups(lo)) && !lo->kernel->checked &&
        has_room_for_producer(lo)) {
        find_gathered_tiles(lo);
        find_fetches(lo);
    }
    find_consumer_rings(lo);
    find_shared_tiles(lo);
    find_register_prefetches(lo);
    find_product_only(lo);
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        lo->needs_fence |= lo->gpu->async_proxy && tile->storage == TILE_IN_SHARED && tile->is_async && !tile->ring;
    }
    lo->is_persistent = lo->kernel->n_grid > 0 && (lo->kernel->persistent || lo->has_producer);
    if (lo->failed || !lay_out_shared_tiles(lo)) return false;
    if (lo->gpu->cp_async && !lo->gpu->tma && !lo->kernel->checked) find_multistages(lo);
    lo->fetch_alignment = lo->has_producer ? fetch_alignment(lo) : NULL;
    lo->may_need_elements = lo->fetch_alignment != NULL;
    each_op(lo, lo->kernel->body, find_walk, &lo->may_step_rows);
    lo->may_shift_rows = lo->may_need_elements && !lo->may_step_rows && may_shift_rows(lo);
    lo->has_boxes_alone = lo->may_shift_rows && lo->target->boxes_alone;
    if (lo->has_boxes_alone) lo->may_need_elements = lo->may_shift_rows = lo->begins_anywhere = false;
    each_op(lo, lo->kernel->body, adds_floats, &lo->adds_floats);
    lo->imbalance = find_imbalance(lo, &lo->in_pairs);
    choose_preloads(lo);
    if (!registers_suffice(lo) || !place_memory(lo)) return false;
    narrow_products(lo);
    find_hazards(lo);
    find_backward_slice(lo);
    return !lo->failed;
}

// What is wrong goes to `diags`. Anew where the kernel has changed.
static Lowering *attempt(const Lowering *like, int groups, bool is_last, Diags *diags)
{
    Lowering *lo;
    bool again = false;
    do {
        lo = NEW(like->arena, Lowering);
        *lo = *like;
        lo->groups_wanted = groups;
        lo->is_last_attempt = is_last;
        lo->occupancy = lo->occupancy_chosen        ? lo->occupancy_chosen
                        : lo->kernel->occupancy > 1 ? lo->kernel->occupancy
                                                    : 1;
        lo->diags = lo->kernel->diags = diags;
        lo->failed = !analyse(lo, &again);
        if (lo->failed) undo_forall_copies(lo); // what is found about a copy is this lowering's
        lo->diags = lo->kernel->diags = like->diags;
    } while (again);
    return lo;
}

static bool count_loops(Lowering *lo, TileOp *op, void *context)
{
    *(int *)context += op->kind == T_MATMUL && op_info(lo, op)->product->kind == PRODUCT_LOOP;
    return op->kind == T_FORALL;
}

// Products that no unit computes.
static int loop_products_of(Lowering *lo)
{
    int n = 0;
    each_op(lo, lo->kernel->body, count_loops, &n);
    return n;
}

// With as many groups as are hinted. Where their threads have too few registers, with another number: more groups divide the
// products, fewer have more registers each. If none does, it is said what they lack as hinted.
static Lowering *analyse_kernel(const Lowering *like)
{
    Lowering *const first = attempt(like, 0, false, like->diags);
    if (!first->lacks_registers) return first;
    const int hinted = first->partition.warps == 4 ? first->partition.groups : 0; // 0: a group is more than was hinted
    const int others[] = { 2 * hinted, hinted / 2, 1, 2, 3, 4 };
    for (int i = 0; i < COUNT(others); i++) {
        if (others[i] == hinted || !may_have_groups(first, others[i])) continue;
        Lowering *const other = attempt(like, others[i], true, diags_new(like->arena));
        if (other->failed || loop_products_of(other) > loop_products_of(first)) {
            undo_forall_copies(other);
            continue;
        }
        note(other, "the threads of as many warps as are hinted have too few registers: there are %d groups",
             other->partition.groups);
        return other;
    }
    return attempt(like, 0, true, like->diags);
}

// The whole schedule, unless the kernel is refused.
static Lowering *decide_schedule(const Lowering *like)
{
    Lowering *const lo = analyse_kernel(like);
    if (lo->failed) return lo;
    make_schedule_tables(lo);
    decide_roles(lo);
    lo->failed = lo->failed || !maps_suffice(lo);
    if (lo->failed) return lo;
    decide_trace(lo);
    if (!lo->target->silent || is_occupancy_open(like)) note_work(lo);
    return lo;
}

// Anew where a schedule for one CTA says that a multiprocessor should hold more of them: from the kernel as it was before,
// because analyses change it. choose_occupancy has counted what they need, so none is known to be refused; where one is, the
// schedule for one stands, and with it the kernel as its analyses have changed it.
static Lowering *decide_kernel(const Lowering *like)
{
    TileKernel *const kernel = like->kernel;
    TileOp *const before = is_occupancy_open(like) ? tile_copy_block(kernel, kernel->body) : NULL;
    Lowering *const first = decide_schedule(like);
    const int chosen = first->failed || !before ? 1 : choose_occupancy(first);
    if (chosen == 1) return first;
    TileOp *const changed = kernel->body;
    Lowering more = *like;
    more.occupancy_chosen = chosen;
    more.why_occupancy = first->why_occupancy;
    more.diags = diags_new(like->arena);
    kernel->body = before;
    Lowering *const second = decide_schedule(&more);
    kernel->diags = second->diags = like->diags;
    if (!second->failed) return second;
    kernel->body = changed;
    return first;
}

LoopUnit *lower_gpu(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost)
{
    const Lowering like = { .arena = kernel->arena,
                            .kernel = kernel,
                            .diags = kernel->diags,
                            .target = target,
                            .gpu = target->gpu,
                            .plan = plan,
                            .explanation = explanation };
    plan->follows = (target->follows || kernel->early) && target->gpu->early_launch;
    Lowering *const lo = decide_kernel(&like);
    if (lo->failed) return NULL;
    if (!target->silent) explain(lo);
    const Cost *const model = target->silent ? NULL : explain_cost(lo, cost);
    LoopUnit *const unit = print_kernel(lo);
    if (unit && model) unit->cost = model, unit->expected_seconds = model->seconds;
    return lo->failed || kernel->diags->errors ? NULL : unit;
}
