// SPDX-License-Identifier: MIT
// kernel.c - the lowering's outline: analyses in their order, then the kernel's frame around the two roles.
#include "lower/cuda/actions.h"
#include "lower/cuda/product.h"

// ---- roles

static bool add_alignment(Lowering *lo, TileOp *op, void *context)
{
    Expr **const test = context;
    const OpInfo *const info = op->kind == T_TILE ? NULL : op_info(lo, op);
    if (!info || !info->fetched || info->fills || copy_is_small(lo, op)) return false;
    Expr *const one = strides_are_aligned(lo, buffer_root(op->copy.src.buffer));
    if (one && !(*test && expr_equal(*test, one))) *test = both(lo, *test, one);
    return false;
}

// The strides that boxes need, of all tensors that are fetched. NULL: proved.
static Expr *fetch_alignment(Lowering *lo)
{
    Expr *test = NULL;
    each_op(lo, lo->kernel->body, add_alignment, &test);
    return test;
}

static bool has_lane_copies(const Lowering *lo)
{
    for (int i = 0; i < lo->rings.count; i++)
        if (lo->rings.items[i]->by_lanes) return true;
    return false;
}

// One thread issues boxes; small copies take its warp, a producer group's statements all.
static void emit_boxes(Lowering *lo)
{
    Nest these;
    lo->by_warp = has_lane_copies(lo) && !lo->has_producer_group;
    if (lo->has_producer_group) begin_block(lo, &these);
    else begin_if(lo, &these, i32_op(lo, X_LT, var_of(lo, lo->thread), WARP_LANES));
    Nest one;
    const bool elects = !lo->has_producer_group && !lo->by_warp; // else ptxas prints a loop over lanes around each box
    if (elects) begin_if(lo, &one, call_expr(lo, DTYPE_BOOL, "elected", 0));
    emit_producer(lo, true);
    if (elects) end_nest(lo, &one);
    end_nest(lo, &these);
}

// The producer is a partition of its own, of one group.
static void emit_producer_role(Lowering *lo)
{
    const Partition partition = lo->partition, all = lo->all;
    const bool is_specialised = lo->is_specialised;
    lo->partition = (Partition){ 1, partition.warps };
    declare_threads(lo, 0, lo->partition);
    if (lo->has_producer_group) {
        lo->all = lo->partition;
        lo->is_specialised = false;
    }
    Nest choice;
    schedule_begin_role(
        &lo->builder, (ScheduleRole){ .kind = ROLE_OF_PRODUCER, .name = "producer", .threads = producer_threads(lo) });
    record_scope(lo, lo->fetch_aligned ? SCOPE_ALIGNED : SCOPE_PLAIN, NULL);
    if (lo->fetch_aligned) begin_if(lo, &choice, lo->fetch_aligned);
    emit_boxes(lo);
    if (lo->fetch_aligned) {
        begin_else(lo, &choice);
        record_otherwise(lo);
        lo->partition = lo->all = (Partition){ 1, partition.warps == 4 ? 4 : 1 };
        lo->is_specialised = false;
        emit_producer(lo, false);
        end_nest(lo, &choice);
    }
    record_close(lo);
    schedule_end_role(&lo->builder);
    lo->partition = partition;
    lo->all = all;
    lo->is_specialised = is_specialised;
}

static void emit_roles(Lowering *lo)
{
    if (!lo->has_producer) {
        declare_threads(lo, 0, lo->all);
        emit_consumer(lo);
        return;
    }
    Nest roles;
    Expr *const thread = call_expr(lo, DTYPE_I32, "uniform", 1, literal(lo, DTYPE_I32, "(int32_t)threadIdx.x"));
    begin_if(lo, &roles, i32_op(lo, X_LT, thread, producer_threads(lo)));
    emit_producer_registers(lo);
    emit_producer_role(lo);
    begin_else(lo, &roles);
    emit_consumer_registers(lo);
    declare_threads(lo, producer_threads(lo), lo->all);
    emit_consumer(lo);
    end_nest(lo, &roles);
}

// ---- the whole

// Everything that is decided before anything is printed.
static bool analyse(Lowering *lo)
{
    structure_kernel(lo);
    find_bounds(lo);
    limit_maps(lo);
    choose_partition(lo);
    find_cluster(lo);
    find_warp_roles(lo);
    expand_scans(lo, &lo->kernel->body);
    note_operations(lo);
    find_producer_group(lo);
    assign_storage(lo);
    // A group that has no products fetches in place: a producer beside it would take its registers twice.
    if (lo->gpu->tma && !light_groups(lo) && !lo->kernel->checked && has_room_for_producer(lo)) find_fetches(lo);
    find_consumer_rings(lo);
    find_shared_tiles(lo);
    find_tails(lo);
    find_product_only(lo);
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        lo->needs_fence |= lo->gpu->async_proxy && tile->storage == TILE_IN_SHARED && tile->is_async && !tile->ring;
    }
    lo->is_persistent = lo->kernel->n_grid > 0 && (lo->kernel->persistent || lo->has_producer);
    if (lo->failed || !lay_out_shared_tiles(lo)) return false;
    if (lo->gpu->cp_async && !lo->gpu->tma && !lo->kernel->checked) find_multistages(lo);
    lo->may_need_elements = lo->has_producer && fetch_alignment(lo) != NULL;
    choose_preloads(lo);
    if (!registers_suffice(lo) || !place_memory(lo)) return false;
    find_hazards(lo);
    find_backward_slice(lo);
    return !lo->failed;
}

// Returns the words of parameters.
static int emit_kernel(Lowering *lo)
{
    const int words = declare_parameters(lo);
    declare_rank(lo);
    if (lo->has_producer) {
        Expr *const alignment = fetch_alignment(lo);
        lo->fetch_aligned = alignment ? lower_expr(lo, alignment, NULL) : NULL;
        init_barriers(lo);
    }
    if (lo->plan->follows) emit_call(lo, "wait_for_launches", 0);
    emit_roles(lo);
    if (lo->shares) // nobody leaves while a peer may still release a buffer
        emit_call(lo, "cluster_sync", 0);
    return words;
}

LoopUnit *lower_cuda(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation)
{
    Arena *const arena = kernel->arena;
    Lowering *const lo = NEW(arena, Lowering, .arena = arena, .kernel = kernel, .diags = kernel->diags,
                             .target = target, .gpu = target->gpu, .plan = plan, .explanation = explanation);
    lo->unit = NEW(arena, LoopUnit, .arena = arena);
    lo->helpers.arena = arena;
    if (!analyse(lo)) return NULL;
    make_schedule_tables(lo);
    LoopList body = loop_list(arena);
    lo->out = &body;
    plan->follows = target->follows && target->gpu->early_launch;
    const int words = emit_kernel(lo), threads = all_threads(lo) + producer_threads(lo);
    if (lo->failed || kernel->diags->errors) return NULL;
    fill_unit(lo, body.first, words, threads);
    fill_plan(lo, threads);
    explain(lo);
    lo->unit->schedule = lo->builder.schedule;
    return lo->unit;
}
