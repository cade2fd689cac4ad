// SPDX-License-Identifier: MIT
// print_roles.c - the kernel as Loop IR: what comes before all roles, each role's threads, its actions.
//
// before: the schedule is complete        after: Loop IR says the same; nothing was decided
#include "lower/cuda/print_action.h"
#include "lower/cuda/print.h"
#include "lower/cuda/roles.h"
#include "lower/cuda/grid.h"
#include "lower/cuda/registers.h"

// ---- the kernel

static int begin_kernel(Lowering *lo)
{
    const int words = declare_parameters(lo);
    declare_rank(lo);
    if (lo->has_producer) {
        Expr *const alignment = fetch_alignment(lo);
        lo->fetch_aligned = alignment ? lower_expr(lo, alignment, NULL) : NULL;
        init_barriers(lo);
    }
    if (lo->plan->follows) emit_call(lo, "wait_for_launches", 0);
    return words;
}

static void end_kernel(Lowering *lo)
{
    if (lo->shares) // nobody leaves while a peer may still release a buffer
        emit_call(lo, "cluster_sync", 0);
}

// ---- roles

// Of the threads from number `first` on.
static void declare_threads(Lowering *lo, int first, Partition partition)
{
    Expr *thread = literal(lo, DTYPE_I32, "(int32_t)threadIdx.x");
    if (first) thread = i32_op(lo, X_SUB, thread, first);
    lo->thread = emit_declare(lo, DTYPE_I32, "thread", thread);
    lo->lane =
        emit_declare(lo, DTYPE_I32, "lane", i32_op(lo, X_BITAND, var_of(lo, lo->thread), lo->gpu->warp_lanes - 1));
    Expr *const warp = i32_op(lo, X_SHR, var_of(lo, lo->thread), __builtin_ctz((unsigned)lo->gpu->warp_lanes));
    Expr *const number = emit_i32(lo, "warp_number", call_expr(lo, DTYPE_I32, "uniform", 1, warp));
    lo->warp = emit_declare(lo, DTYPE_I32, "warp", i32_op(lo, X_MOD, number, partition.warps));
    lo->group = emit_declare(lo, DTYPE_I32, "group", i32_op(lo, X_DIV, number, partition.warps));
}

static void begin_producer(Lowering *lo, const ScheduleRole *role)
{
    Expr *const thread = call_expr(lo, DTYPE_I32, "uniform", 1, literal(lo, DTYPE_I32, "(int32_t)threadIdx.x"));
    begin_if(lo, push_nest(lo), i32_op(lo, X_LT, thread, producer_threads(lo)));
    emit_producer_registers(lo);
    enter_role(lo, role);
    declare_threads(lo, 0, lo->partition);
}

// Before the first role of consumers.
static void begin_consumers(Lowering *lo)
{
    emit_consumer_registers(lo);
    declare_threads(lo, producer_threads(lo), lo->all);
    if (!lo->is_specialised) return;
    lo->group_of_all = lo->group;
    lo->thread_of_all = lo->thread;
    lo->thread = emit_declare(lo, DTYPE_I32, "member",
                              i32_op(lo, X_MOD, var_of(lo, lo->thread_of_all), partition_threads(lo->partition)));
}

static void begin_group(Lowering *lo, int group)
{
    begin_if(lo, push_nest(lo), i32_op(lo, X_EQ, var_of(lo, lo->group_of_all), group));
    emit_group_registers(lo, group);
    lo->group = emit_declare(lo, DTYPE_I32, "this_group", i32_const(lo, group));
}

static void print_role_begin(Lowering *lo, const ScheduleRole *role)
{
    if (role->kind == ROLE_OF_PRODUCER) {
        begin_producer(lo, role);
        return;
    }
    if (role->group <= 0) begin_consumers(lo);
    enter_role(lo, role);
    if (role->group >= 0) begin_group(lo, role->group);
}

static void print_role_end(Lowering *lo, const ScheduleRole *role)
{
    leave_role(lo);
    if (role->kind == ROLE_OF_PRODUCER) {
        begin_else(lo, top_nest(lo));
        return;
    }
    if (role->group >= 0) pop_nest(lo);
    const bool is_last = role->group < 0 || role->group == lo->all.groups - 1;
    if (is_last && lo->has_producer) pop_nest(lo);
}

LoopStmt *print_kernel(Lowering *lo, int *words)
{
    const Schedule *const schedule = lo->builder.schedule;
    LoopList body = loop_list(lo->arena);
    lo->out = &body;
    lo->role = ROLE_CONSUMER;
    lo->by_tma = false;
    lo->walk = 0;
    *words = begin_kernel(lo);
    for (int i = 0; i < schedule->roles.count; i++) {
        print_role_begin(lo, schedule->roles.items[i]);
        print_block(lo, schedule->roles.items[i]->body);
        print_role_end(lo, schedule->roles.items[i]);
    }
    end_kernel(lo);
    lo->out = NULL;
    return body.first;
}

// ---- boxes or elements

// Else ptxas prints a loop over lanes around each box.
static bool elects(const Lowering *lo) { return !lo->has_producer_group && !lo->by_warp; }

// One thread issues boxes; small copies take its warp, a producer group's statements all.
void begin_boxes(Lowering *lo, const Action *action)
{
    if (action->scope.kind == SCOPE_ALIGNED) begin_if(lo, push_nest(lo), lo->fetch_aligned);
    if (lo->has_producer_group) begin_block(lo, push_nest(lo));
    else begin_if(lo, push_nest(lo), i32_op(lo, X_LT, var_of(lo, lo->thread), WARP_LANES));
    if (elects(lo)) begin_if(lo, push_nest(lo), call_expr(lo, DTYPE_BOOL, "elected", 0));
}

static void end_issue(Lowering *lo)
{
    if (elects(lo)) pop_nest(lo);
    pop_nest(lo);
}

void begin_elements(Lowering *lo)
{
    end_issue(lo);
    begin_else(lo, top_nest(lo));
    use_elements(lo);
}

void end_boxes(Lowering *lo, const Action *action)
{
    if (action->scope.kind == SCOPE_ALIGNED) pop_nest(lo); // that of begin_elements()
    else end_issue(lo);
}
