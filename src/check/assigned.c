// SPDX-License-Identifier: MIT
// assigned.c - may a statement change this scalar? Asked of syntax, before it is walked: a variable that nothing
// assigns stands for its value, a loop whose bound nothing assigns is counted.
#include "check/context.h"

bool is_name(const Ex *ex, Name name) { return ex->kind == EX_NAME && ex->name.name == name; }

static bool expression_assigns(Checker *cx, const Ex *ex, Name name);

static bool list_assigns(Checker *cx, const Ex *list, Name name)
{
    for (; list; list = list->next)
        if (expression_assigns(cx, list, name)) return true;
    return false;
}

// Only a call can: through an `out` or `inout` parameter.
static bool call_assigns(Checker *cx, const Ex *ex, Name name)
{
    const Decl *const fn = find_function(cx, ex->call.name);
    if (!fn) return list_assigns(cx, ex->call.args, name);
    const Param *param = fn->params;
    for (const Ex *arg = ex->call.args; arg; arg = arg->next, param = param ? param->next : NULL) {
        if (is_name(subscript_base(arg), name) && param && (param->mode == MODE_OUT || param->mode == MODE_INOUT)) return true;
        if (expression_assigns(cx, arg, name)) return true;
    }
    return false;
}

static bool expression_assigns(Checker *cx, const Ex *ex, Name name)
{
    if (!ex) return false;
    switch (ex->kind) {
    case EX_INT: case EX_FLOAT: case EX_BOOL: case EX_STRING: case EX_NAME: case EX_TYPE: case EX_NONE:
        return false;
    case EX_UNARY:     return expression_assigns(cx, ex->unary.a, name);
    case EX_BINARY:    return expression_assigns(cx, ex->binary.a, name) || expression_assigns(cx, ex->binary.b, name);
    case EX_SELECT:
        return expression_assigns(cx, ex->select.cond, name) || expression_assigns(cx, ex->select.a, name)
            || expression_assigns(cx, ex->select.b, name);
    case EX_CALL:      return call_assigns(cx, ex, name);
    case EX_SUBSCRIPT:
        return expression_assigns(cx, ex->sub.base, name) || expression_assigns(cx, ex->sub.start, name)
            || expression_assigns(cx, ex->sub.width, name) || expression_assigns(cx, ex->sub.step, name);
    case EX_SET:       return list_assigns(cx, ex->set.items, name);
    }
    return false;
}

static bool indices_assign(Checker *cx, const IndexVar *index, Name name)
{
    for (; index; index = index->next)
        if (expression_assigns(cx, index->lo, name) || expression_assigns(cx, index->hi, name)) return true;
    return false;
}

static bool declarators_assign(Checker *cx, const Declarator *one, Name name)
{
    for (; one; one = one->next)
        if (expression_assigns(cx, one->init, name)) return true;
    return false;
}

static bool statement_assigns(Checker *cx, const St *st, Name name)
{
    switch (st->kind) {
    case ST_BLOCK:    return statements_assign(cx, st->block.body, name);
    case ST_DECL:     return declarators_assign(cx, st->decl.names, name);
    case ST_VIEW:     return declarators_assign(cx, st->view.name, name);
    case ST_ASSIGN: case ST_ATOMIC:
        return is_name(subscript_base(st->assign.target), name) || expression_assigns(cx, st->assign.target, name)
            || expression_assigns(cx, st->assign.value, name);
    case ST_CALL:     return expression_assigns(cx, st->call.call, name);
    case ST_IF:
        return expression_assigns(cx, st->branch.cond, name) || statements_assign(cx, st->branch.then, name)
            || statements_assign(cx, st->branch.otherwise, name);
    case ST_FOR:
        return statements_assign(cx, st->loop.init, name) || expression_assigns(cx, st->loop.cond, name)
            || statements_assign(cx, st->loop.step, name) || statements_assign(cx, st->loop.body, name);
    case ST_WHILE: return expression_assigns(cx, st->while_.cond, name) || statements_assign(cx, st->while_.body, name);
    case ST_FORALL:   return indices_assign(cx, st->forall.indices, name) || statements_assign(cx, st->forall.body, name);
    case ST_PIPELINE:
        return indices_assign(cx, st->pipeline.indices, name) || statements_assign(cx, st->pipeline.body, name);
    case ST_ON:       return statements_assign(cx, st->on.body, name);
    case ST_RETURN:   return expression_assigns(cx, st->return_.value, name);
    case ST_REQUIRE: case ST_ASSUME: case ST_ASSERT:
        return expression_assigns(cx, st->require.cond, name);
    case ST_PRINT:    return list_assigns(cx, st->print.args, name);
    case ST_STAGE: case ST_BREAK: case ST_CONTINUE: case ST_GRID: case ST_LAYOUT: case ST_TOLERANCE: case ST_INPUT:
        return false;
    }
    return false;
}

bool statements_assign(Checker *cx, const St *list, Name name)
{
    for (; list; list = list->next)
        if (statement_assigns(cx, list, name)) return true;
    return false;
}
