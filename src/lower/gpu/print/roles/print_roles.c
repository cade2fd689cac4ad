// SPDX-License-Identifier: MIT
// print_roles.c - the kernel as Loop IR: what comes before all roles, each role's threads, its actions.
//
// before: the schedule is complete        after: Loop IR says the same; nothing was decided
#include "lower/gpu/print/roles/print_roles.h"
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/control/grid.h"
#include "lower/gpu/print/roles/print_action.h"
#include "lower/gpu/print/roles/print_trace.h"
#include "lower/gpu/facts/roles.h"
#include "lower/gpu/facts/partition.h"

// ---- the kernel

static int begin_kernel(Printer *pr)
{
    const int words = declare_parameters(pr);
    declare_rank(pr);
    if (pr->lo->has_producer) {
        Expr *const alignment = pr->lo->fetch_alignment;
        pr->fetch_aligned = pr->lo->may_need_elements ? lower_expr(pr, alignment, NULL) : NULL;
        init_barriers(pr);
    }
    if (pr->lo->plan->follows) emit_call(pr, "wait_for_launches", 0);
    return words;
}

static void end_kernel(Printer *pr)
{
    if (pr->lo->shares) // nobody leaves while a peer may still release a buffer
        emit_call(pr, "cluster_sync", 0);
}

// ---- roles

// Of the threads from number `first` on.
static void declare_threads(Printer *pr, int first, Partition partition)
{
    Expr *thread = literal(pr, DTYPE_I32, "(int32_t)threadIdx.x");
    if (first) thread = i32_op(pr, X_SUB, thread, first);
    pr->thread = emit_declare(pr, DTYPE_I32, "thread", thread);
    pr->lane =
        emit_declare(pr, DTYPE_I32, "lane", i32_op(pr, X_BITAND, var_of(pr, pr->thread), pr->lo->gpu->warp_lanes - 1));
    Expr *const warp = i32_op(pr, X_SHR, var_of(pr, pr->thread), __builtin_ctz((unsigned)pr->lo->gpu->warp_lanes));
    Expr *const number = emit_i32(pr, "warp_number", call_expr(pr, DTYPE_I32, "uniform", 1, warp));
    pr->warp = emit_declare(pr, DTYPE_I32, "warp", i32_op(pr, X_MOD, number, partition.warps));
    pr->group = emit_declare(pr, DTYPE_I32, "group", i32_op(pr, X_DIV, number, partition.warps));
}

// From the roles that need few registers to the others.
static void set_registers(Printer *pr, const ScheduleRole *role)
{
    const int registers = role->registers;
    if (!registers) return;
    const bool is_fewer = registers < pr->lo->builder.schedule->launch_registers;
    emit_call(pr, is_fewer ? "setmaxnreg_dec" : "setmaxnreg_inc", 1, i32_const(pr, registers));
}

static void begin_producer(Printer *pr, const ScheduleRole *role)
{
    Expr *const thread = call_expr(pr, DTYPE_I32, "uniform", 1, literal(pr, DTYPE_I32, "(int32_t)threadIdx.x"));
    begin_if(pr, push_nest(pr), i32_op(pr, X_LT, thread, producer_threads(pr->lo)));
    set_registers(pr, role);
    enter_role(&pr->own, role);
    declare_threads(pr, 0, pr->lo->partition);
}

// Before the first role of consumers.
static void begin_consumers(Printer *pr, const ScheduleRole *role)
{
    if (!role->sets_own) set_registers(pr, role);
    declare_threads(pr, producer_threads(pr->lo), pr->lo->all);
    if (!pr->lo->is_specialised) return;
    pr->group_of_all = pr->group;
    pr->thread_of_all = pr->thread;
    pr->thread = emit_declare(pr, DTYPE_I32, "member",
                              i32_op(pr, X_MOD, var_of(pr, pr->thread_of_all), partition_threads(pr->lo->partition)));
}

static void begin_group(Printer *pr, const ScheduleRole *role)
{
    begin_if(pr, push_nest(pr), i32_op(pr, X_EQ, var_of(pr, pr->group_of_all), role->group));
    if (role->sets_own) set_registers(pr, role);
    pr->group = emit_declare(pr, DTYPE_I32, "this_group", i32_const(pr, role->group));
}

static void print_role_begin(Printer *pr, const ScheduleRole *role)
{
    if (role->kind == ROLE_OF_PRODUCER) {
        begin_producer(pr, role);
        return;
    }
    if (role->group <= 0) begin_consumers(pr, role);
    enter_role(&pr->own, role);
    if (role->group >= 0) begin_group(pr, role);
    begin_trace(pr, role, is_zero(pr, pr->lane));
}

static void print_role_end(Printer *pr, const ScheduleRole *role)
{
    if (role->kind != ROLE_OF_PRODUCER) end_trace(pr);
    leave_role(&pr->own);
    if (role->kind == ROLE_OF_PRODUCER) {
        begin_else(pr, top_nest(pr));
        return;
    }
    if (role->group >= 0) pop_nest(pr);
    const bool is_last = role->group < 0 || role->group == pr->lo->all.groups - 1;
    if (is_last && pr->lo->has_producer) pop_nest(pr);
}

LoopUnit *print_kernel(const Lowering *lo)
{
    const Schedule *const schedule = lo->builder.schedule;
    Printer *const pr = new_printer(lo, print_tree);
    LoopList body = loop_list(pr->arena);
    pr->out = &body;
    const int words = begin_kernel(pr), threads = all_threads(lo) + producer_threads(lo);
    for (int i = 0; i < schedule->roles.count; i++) {
        print_role_begin(pr, schedule->roles.items[i]);
        print_block(pr, schedule->roles.items[i]->body);
        print_role_end(pr, schedule->roles.items[i]);
    }
    end_kernel(pr);
    if (lo->failed || lo->diags->errors) return NULL;
    fill_unit(pr, body.first, words, threads);
    fill_plan(pr, threads);
    pr->unit->schedule = lo->builder.schedule;
    return pr->unit;
}

// ---- boxes or elements

// One thread; else ptxas prints a loop over lanes around each box.
static bool elects(const Action *action) { return action->scope.threads == 1; }

static const ScheduleRole *role_of_producer(const Printer *pr) { return pr->lo->builder.schedule->roles.items[0]; }

void begin_boxes(Printer *pr, const Action *action)
{
    const bool is_by_all = action->scope.threads > WARP_LANES;
    if (action->scope.kind == SCOPE_ALIGNED) begin_if(pr, push_nest(pr), pr->fetch_aligned);
    if (is_by_all) begin_block(pr, push_nest(pr));
    else begin_if(pr, push_nest(pr), i32_op(pr, X_LT, var_of(pr, pr->thread), WARP_LANES));
    if (elects(action)) begin_if(pr, push_nest(pr), call_expr(pr, DTYPE_BOOL, "elected", 0));
    begin_trace(pr, role_of_producer(pr), elects(action) ? NULL : is_zero(pr, pr->lane));
}

static void end_issue(Printer *pr, const Action *action)
{
    end_trace(pr);
    if (elects(action)) pop_nest(pr);
    pop_nest(pr);
}

void begin_elements(Printer *pr, const Action *action)
{
    end_issue(pr, action);
    begin_else(pr, top_nest(pr));
    use_elements(&pr->own);
    begin_trace(pr, role_of_producer(pr), is_zero(pr, pr->lane));
}

void end_boxes(Printer *pr, const Action *action)
{
    if (action->scope.kind == SCOPE_ALIGNED) {
        end_trace(pr);
        pop_nest(pr); // that of begin_elements()
    } else {
        end_issue(pr, action);
    }
}
