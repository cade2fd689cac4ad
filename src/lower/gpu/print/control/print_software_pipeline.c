// SPDX-License-Identifier: MIT
// print_software_pipeline.c - printing: the loop and the scopes of a software pipeline (software_pipeline.c).
//
// before: an action with a SoftwarePipeline begins       after: its statement is open, the index and the crossing
//                                                               scalars stand for those of the step that it runs
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/control/print_steps.h"
#include "lower/gpu/plans/pipeline.h"

// From the pipeline's SCOPE_ANY_STEP on, until that ends.
typedef struct PipelineVars {
    struct PipelineVars *outer;
    Var *index, *begin, *end;
    Var *before[CROSSINGS_MAX], *saved[CROSSINGS_MAX];
} PipelineVars;

static Expr *one_of(Printer *pr, const Var *var) { return expr_int(pr->arena, var->type, 1); }

static void begin_any_step(Printer *pr, const SoftwarePipeline *plan)
{
    const LoopIndex *const source = &plan->op->pipeline.indices[0];
    PipelineVars *const vars = NEW(pr->arena, PipelineVars, .outer = pr->pipeline_vars);
    pr->pipeline_vars = vars;
    Expr *from, *to;
    index_bounds(pr, source, NULL, &from, &to);
    vars->index = loop_var(pr, source->var);
    vars->end = emit_declare(pr, vars->index->type, "end", to);
    vars->begin = emit_declare(pr, vars->index->type, "begin", from);
    begin_if(pr, push_nest(pr), expr_binary(pr->arena, X_LT, var_of(pr, vars->begin), var_of(pr, vars->end)));
    for (int i = 0; i < plan->n_crossings; i++) {
        const Var *const now = loop_var(pr, plan->crossings[i]);
        vars->before[i] = emit_declare(pr, now->type, arena_printf(pr->arena, "%s_before", now->name), NULL);
    }
}

void keep_crossings(Printer *pr, const Action *action)
{
    const SoftwarePipeline *const plan = action->print;
    for (int i = 0; i < plan->n_crossings; i++)
        emit_assign(pr, pr->pipeline_vars->before[i], var_of(pr, loop_var(pr, plan->crossings[i])));
}

static void begin_first_step(Printer *pr)
{
    begin_block(pr, push_nest(pr));
    emit_definition(pr, pr->pipeline_vars->index, var_of(pr, pr->pipeline_vars->begin));
}

static void begin_other_steps(Printer *pr)
{
    const PipelineVars *const vars = pr->pipeline_vars;
    Expr *const one = one_of(pr, vars->index);
    Expr *const second = expr_binary(pr->arena, X_ADD, var_of(pr, vars->begin), one);
    begin_for(pr, push_nest(pr), vars->index, second, var_of(pr, vars->end), one, LOOP_NO_UNROLL);
}

// The step before the one after it.
static void begin_step_before(Printer *pr, const SoftwarePipeline *plan, Var *after)
{
    PipelineVars *const vars = pr->pipeline_vars;
    Expr *const step = expr_binary(pr->arena, X_SUB, var_of(pr, after), one_of(pr, vars->index));
    *var_slot(pr, plan->op->pipeline.indices[0].var) =
        emit_declare(pr, vars->index->type, arena_printf(pr->arena, "%s_before", vars->index->name), step);
    for (int i = 0; i < plan->n_crossings; i++) {
        Var **const slot = var_slot(pr, plan->crossings[i]);
        vars->saved[i] = *slot;
        *slot = vars->before[i];
    }
}

static void end_step_before(Printer *pr, const SoftwarePipeline *plan)
{
    for (int i = 0; i < plan->n_crossings; i++) *var_slot(pr, plan->crossings[i]) = pr->pipeline_vars->saved[i];
    *var_slot(pr, plan->op->pipeline.indices[0].var) = pr->pipeline_vars->index;
}

void begin_software_pipeline(Printer *pr, const Action *action)
{
    const SoftwarePipeline *const plan = action->print;
    if (action->kind == ACTION_LOOP) begin_other_steps(pr);
    else if (action->scope.kind == SCOPE_ANY_STEP) begin_any_step(pr, plan);
    else if (action->scope.kind == SCOPE_FIRST_STEP) begin_first_step(pr);
    else if (action->scope.kind == SCOPE_LAST_STEP) begin_step_before(pr, plan, pr->pipeline_vars->end);
    else begin_step_before(pr, plan, pr->pipeline_vars->index);
}

void end_software_pipeline(Printer *pr, const Action *action)
{
    const bool is_loop = action->kind == ACTION_LOOP;
    if (!is_loop && (action->scope.kind == SCOPE_LAST_STEP || action->scope.kind == SCOPE_PREVIOUS_STEP)) {
        end_step_before(pr, action->print);
        return;
    }
    pop_nest(pr);
    if (!is_loop && action->scope.kind == SCOPE_ANY_STEP) pr->pipeline_vars = pr->pipeline_vars->outer;
}
