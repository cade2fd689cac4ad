// SPDX-License-Identifier: MIT
// assigned.c - may a statement change this scalar? Asked of syntax, before it is walked: a variable that nothing
// assigns stands for its value, a loop whose bound nothing assigns is counted.
#include "check/context.h"

// A `for` around what is looked at. The names that it declares are its own within it, since a visible name is not
// declared again.
typedef struct Around {
    const St *loop;
    const struct Around *outer;
} Around;

// One name is looked for, or (name NULL) all that are assigned are put into a table: names, and of a `for` its
// declarators.
typedef struct Question {
    const Checker *cx;
    Name name;
    Table *all;
    const Around *around;
} Question;

bool is_name(const Ex *ex, Name name) { return ex->kind == EX_NAME && ex->name.name == name; }

static const Declarator *declared_around(const Question *q, Name name)
{
    for (const Around *x = q->around; x; x = x->outer)
        for (const St *st = x->loop->loop.init; st; st = st->next)
            for (const Declarator *one = st->kind == ST_DECL ? st->decl.names : NULL; one; one = one->next)
                if (one->name == name) return one;
    return NULL;
}

// What is changed here.
static bool hits(Question *q, const Ex *target)
{
    const Ex *const base = subscript_base(target);
    if (q->name || base->kind != EX_NAME) return q->name && is_name(base, q->name);
    const Declarator *const own = declared_around(q, base->name.name);
    *table_at(q->all, own ? (const void *)own : base->name.name) = q->all;
    return false;
}

static bool expression_assigns(Question *q, const Ex *ex);
static bool block_assigns(Question *q, const St *list);

static bool list_assigns(Question *q, const Ex *list)
{
    for (; list; list = list->next)
        if (expression_assigns(q, list)) return true;
    return false;
}

// Only a call can: through an `out` or `inout` parameter.
static bool call_assigns(Question *q, const Ex *ex)
{
    const Decl *const fn = find_function(q->cx, ex->call.name);
    if (!fn) return list_assigns(q, ex->call.args);
    const Param *param = fn->params;
    for (const Ex *arg = ex->call.args; arg; arg = arg->next, param = param ? param->next : NULL) {
        if (param && (param->mode == MODE_OUT || param->mode == MODE_INOUT) && hits(q, arg)) return true;
        if (expression_assigns(q, arg)) return true;
    }
    return false;
}

static bool expression_assigns(Question *q, const Ex *ex)
{
    if (!ex) return false;
    switch (ex->kind) {
    case EX_INT:
    case EX_FLOAT:
    case EX_BOOL:
    case EX_STRING:
    case EX_NAME:
    case EX_TYPE:
    case EX_NONE: return false;
    case EX_UNARY: return expression_assigns(q, ex->unary.a);
    case EX_BINARY: return expression_assigns(q, ex->binary.a) || expression_assigns(q, ex->binary.b);
    case EX_SELECT:
        return expression_assigns(q, ex->select.cond) || expression_assigns(q, ex->select.a) ||
               expression_assigns(q, ex->select.b);
    case EX_CALL: return call_assigns(q, ex);
    case EX_SUBSCRIPT:
        return expression_assigns(q, ex->sub.base) || expression_assigns(q, ex->sub.start) ||
               expression_assigns(q, ex->sub.width) || expression_assigns(q, ex->sub.step);
    case EX_SET: return list_assigns(q, ex->set.items);
    }
    return false;
}

static bool indices_assign(Question *q, const IndexVar *index)
{
    for (; index; index = index->next)
        if (expression_assigns(q, index->lo) || expression_assigns(q, index->hi)) return true;
    return false;
}

static bool declarators_assign(Question *q, const Declarator *one)
{
    for (; one; one = one->next)
        if (expression_assigns(q, one->init)) return true;
    return false;
}

static bool for_assigns(Question *q, const St *st)
{
    const Around around = { st, q->around };
    q->around = &around;
    const bool found = block_assigns(q, st->loop.init) || expression_assigns(q, st->loop.cond) ||
                       block_assigns(q, st->loop.step) || block_assigns(q, st->loop.body);
    q->around = around.outer;
    return found;
}

static bool statement_assigns(Question *q, const St *st)
{
    switch (st->kind) {
    case ST_BLOCK: return block_assigns(q, st->block.body);
    case ST_DECL: return declarators_assign(q, st->decl.names);
    case ST_VIEW: return declarators_assign(q, st->view.name);
    case ST_ASSIGN:
    case ST_ATOMIC:
        return hits(q, st->assign.target) || expression_assigns(q, st->assign.target) ||
               expression_assigns(q, st->assign.value);
    case ST_CALL: return expression_assigns(q, st->call.call);
    case ST_IF:
        return expression_assigns(q, st->branch.cond) || block_assigns(q, st->branch.then) ||
               block_assigns(q, st->branch.otherwise);
    case ST_FOR: return for_assigns(q, st);
    case ST_WHILE: return expression_assigns(q, st->while_.cond) || block_assigns(q, st->while_.body);
    case ST_FORALL: return indices_assign(q, st->forall.indices) || block_assigns(q, st->forall.body);
    case ST_PIPELINE: return indices_assign(q, st->pipeline.indices) || block_assigns(q, st->pipeline.body);
    case ST_ON: return block_assigns(q, st->on.body);
    case ST_RETURN: return expression_assigns(q, st->return_.value);
    case ST_REQUIRE:
    case ST_ASSUME:
    case ST_ASSERT: return expression_assigns(q, st->require.cond);
    case ST_PRINT: return list_assigns(q, st->print.args);
    case ST_STAGE:
    case ST_BREAK:
    case ST_CONTINUE:
    case ST_GRID:
    case ST_LAYOUT:
    case ST_TOLERANCE:
    case ST_INPUT: return false;
    }
    return false;
}

static bool block_assigns(Question *q, const St *list)
{
    for (; list; list = list->next)
        if (statement_assigns(q, list)) return true;
    return false;
}

bool statements_assign(Checker *cx, const St *list, Name name)
{
    return block_assigns(&(Question){ .cx = cx, .name = name }, list);
}

// Each declaration in a body asks, so the answers for all names are kept.
static const Table *all_assigned(Checker *cx, const Decl *decl)
{
    void **const all = table_at(&cx->assigned, decl);
    if (!*all) {
        *all = NEW(cx->arena, Table, .arena = cx->arena);
        block_assigns(&(Question){ .cx = cx, .all = *all }, decl->body);
    }
    return *all;
}

bool body_assigns(Checker *cx, const Decl *decl, Name name) { return table_find(all_assigned(cx, decl), name) != NULL; }

bool declared_is_assigned(Checker *cx, const Decl *decl, const Declarator *one)
{
    return body_assigns(cx, decl, one->name) || table_find(all_assigned(cx, decl), one) != NULL;
}
