// SPDX-License-Identifier: MIT
// print_software_pipeline.c - printing: the loop and the scopes of a software pipeline (software_pipeline.c).
//
// before: an action with a SoftwarePipeline begins       after: its statement is open, the index and the crossing
//                                                               scalars stand for those of the step that it runs
#include "lower/cuda/pipeline.h"
#include "lower/cuda/print.h"
#include "lower/cuda/print_action.h"

// From the pipeline's SCOPE_ANY_STEP on, until that ends.
typedef struct PipelineVars {
    struct PipelineVars *outer;
    Var *index, *begin, *end;
    Var *before[CROSSINGS_MAX], *saved[CROSSINGS_MAX];
} PipelineVars;

static Expr *one_of(Lowering *lo, const Var *var) { return expr_int(lo->arena, var->type, 1); }

static void begin_any_step(Lowering *lo, const SoftwarePipeline *plan)
{
    const LoopIndex *const source = &plan->op->pipeline.indices[0];
    PipelineVars *const vars = NEW(lo->arena, PipelineVars, .outer = lo->pipeline_vars);
    lo->pipeline_vars = vars;
    Expr *from, *to;
    index_bounds(lo, source, NULL, &from, &to);
    vars->index = loop_var(lo, source->var);
    vars->end = emit_declare(lo, vars->index->type, "end", to);
    vars->begin = emit_declare(lo, vars->index->type, "begin", from);
    begin_if(lo, push_nest(lo), expr_binary(lo->arena, X_LT, var_of(lo, vars->begin), var_of(lo, vars->end)));
    for (int i = 0; i < plan->n_crossings; i++) {
        const Var *const now = loop_var(lo, plan->crossings[i]);
        vars->before[i] = emit_declare(lo, now->type, arena_printf(lo->arena, "%s_before", now->name), NULL);
    }
}

void keep_crossings(Lowering *lo, const Action *action)
{
    const SoftwarePipeline *const plan = action->print;
    for (int i = 0; i < plan->n_crossings; i++)
        emit_assign(lo, lo->pipeline_vars->before[i], var_of(lo, loop_var(lo, plan->crossings[i])));
}

static void begin_first_step(Lowering *lo)
{
    begin_block(lo, push_nest(lo));
    emit_definition(lo, lo->pipeline_vars->index, var_of(lo, lo->pipeline_vars->begin));
}

static void begin_other_steps(Lowering *lo)
{
    const PipelineVars *const vars = lo->pipeline_vars;
    Expr *const one = one_of(lo, vars->index);
    Expr *const second = expr_binary(lo->arena, X_ADD, var_of(lo, vars->begin), one);
    begin_for(lo, push_nest(lo), vars->index, second, var_of(lo, vars->end), one, LOOP_NO_UNROLL);
}

// The step before the one after it.
static void begin_step_before(Lowering *lo, const SoftwarePipeline *plan, Var *after)
{
    PipelineVars *const vars = lo->pipeline_vars;
    Expr *const step = expr_binary(lo->arena, X_SUB, var_of(lo, after), one_of(lo, vars->index));
    *var_slot(lo, plan->op->pipeline.indices[0].var) =
        emit_declare(lo, vars->index->type, arena_printf(lo->arena, "%s_before", vars->index->name), step);
    for (int i = 0; i < plan->n_crossings; i++) {
        Var **const slot = var_slot(lo, plan->crossings[i]);
        vars->saved[i] = *slot;
        *slot = vars->before[i];
    }
}

static void end_step_before(Lowering *lo, const SoftwarePipeline *plan)
{
    for (int i = 0; i < plan->n_crossings; i++) *var_slot(lo, plan->crossings[i]) = lo->pipeline_vars->saved[i];
    *var_slot(lo, plan->op->pipeline.indices[0].var) = lo->pipeline_vars->index;
}

void begin_software_pipeline(Lowering *lo, const Action *action)
{
    const SoftwarePipeline *const plan = action->print;
    if (action->kind == ACTION_LOOP) begin_other_steps(lo);
    else if (action->scope.kind == SCOPE_ANY_STEP) begin_any_step(lo, plan);
    else if (action->scope.kind == SCOPE_FIRST_STEP) begin_first_step(lo);
    else if (action->scope.kind == SCOPE_LAST_STEP) begin_step_before(lo, plan, lo->pipeline_vars->end);
    else begin_step_before(lo, plan, lo->pipeline_vars->index);
}

void end_software_pipeline(Lowering *lo, const Action *action)
{
    const bool is_loop = action->kind == ACTION_LOOP;
    if (!is_loop && (action->scope.kind == SCOPE_LAST_STEP || action->scope.kind == SCOPE_PREVIOUS_STEP)) {
        end_step_before(lo, action->print);
        return;
    }
    pop_nest(lo);
    if (!is_loop && action->scope.kind == SCOPE_ANY_STEP) lo->pipeline_vars = lo->pipeline_vars->outer;
}
