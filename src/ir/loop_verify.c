// SPDX-License-Identifier: MIT
// loop_verify.c - invariants of Loop IR, checked before emission unless NDEBUG is defined.
#include "base/table.h"
#include "ir/names.h"

#include <stdarg.h>

typedef struct Verifier {
    Arena *arena;
    Text *why;
    const LoopFunction *function;
    VEC(const Var *) vars;    // visible, in order of declaration
    Table visible;            // the same
    VEC(const char *) labels; // of the function
    int loops;
    bool failed;
} Verifier;

static bool fail(Verifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(Verifier *v, const char *format, ...)
{
    if (v->failed) return false;
    v->failed = true;
    va_list args;
    va_start(args, format);
    text_print(v->why, "%s: ", v->function->name);
    text_vprint(v->why, format, args);
    va_end(args);
    return false;
}

static bool is_visible(const Verifier *v, const Var *var)
{
    if (table_find(&v->visible, var)) return true;
    // Thread numbers, and what a literal signature declares, come from outside.
    return var->kind == VAR_THREAD ||
           (v->function->signature && v->function->n_params == 0 && var->kind == VAR_ARGUMENT);
}

static void declare(Verifier *v, const Var *var)
{
    if (is_visible(v, var) && var->kind != VAR_THREAD) fail(v, "'%s' is declared twice", var->name);
    VEC_PUSH(v->arena, &v->vars, var);
    *table_at(&v->visible, var) = &v->vars; // anything but NULL
}

// Those declared since there were so many.
static void forget(Verifier *v, int count)
{
    while (v->vars.count > count) *table_at(&v->visible, v->vars.items[--v->vars.count]) = NULL;
}

static bool verify_var(Verifier *v, const Var *var)
{
    return is_visible(v, var) ||
           fail(v, "'%s' (%d) is used out of scope or before its declaration", var->name, var->id);
}

bool loop_has_math(const Expr *x)
{
    return builtins[x->math.fn].in_loop && dtype_is_integer(x->type) && dtype_bits(x->type) >= 32;
}

static bool verify_expr(Verifier *v, const Expr *x)
{
    if (!x) return fail(v, "an expression is missing");
    if (x->kind == E_VAR && !verify_var(v, x->var.var)) return false;
    if ((x->kind == E_INDEX || x->kind == E_ADDRESS) && !verify_var(v, x->index.pointer)) return false;
    if (x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_BITCAST || (x->kind == E_MATH && !loop_has_math(x)))
        return fail(v, "'%s' was not lowered", expr_text(v->arena, x));
    Expr **slots[EXPR_SLOTS_MAX];
    const int n = expr_children((Expr *)x, slots, COUNT(slots));
    for (int i = 0; i < n; i++)
        if (!verify_expr(v, *slots[i])) return false;
    return true;
}

static bool verify_block(Verifier *v, const LoopStmt *s);

static bool verify_nested(Verifier *v, const LoopStmt *block)
{
    const int vars = v->vars.count;
    const bool good = verify_block(v, block);
    forget(v, vars);
    return good;
}

static bool verify_for(Verifier *v, const LoopStmt *s)
{
    const int vars = v->vars.count;
    if (!verify_expr(v, s->for_.lo) || !verify_expr(v, s->for_.hi) || (s->for_.step && !verify_expr(v, s->for_.step)))
        return false;
    declare(v, s->for_.var);
    v->loops++;
    const bool good = verify_nested(v, s->for_.body);
    v->loops--;
    forget(v, vars);
    return good;
}

static bool verify_statement(Verifier *v, const LoopStmt *s)
{
    switch (s->kind) {
    case L_BLOCK: return verify_nested(v, s->block.body);
    case L_DECLARE:
        if (s->declare.value && !verify_expr(v, s->declare.value)) return false;
        declare(v, s->declare.var);
        return true;
    case L_ASSIGN: return verify_var(v, s->assign.var) && verify_expr(v, s->assign.value);
    case L_STORE:
        return verify_var(v, s->store.pointer) && verify_expr(v, s->store.at) && verify_expr(v, s->store.value);
    case L_CALL:
        return verify_expr(v, s->call.call) &&
               (s->call.call->kind == E_CALL || fail(v, "'%s' is no call", expr_text(v->arena, s->call.call)));
    case L_FOR: return verify_for(v, s);
    case L_WHILE: {
        v->loops++;
        const bool good = verify_expr(v, s->while_.cond) && verify_nested(v, s->while_.body);
        v->loops--;
        return good;
    }
    case L_IF:
        return verify_expr(v, s->branch.cond) && verify_nested(v, s->branch.then) &&
               verify_nested(v, s->branch.otherwise);
    case L_BREAK:
    case L_CONTINUE: return v->loops || fail(v, "%s outside of a loop", s->kind == L_BREAK ? "break" : "continue");
    case L_GOTO:
        for (int i = 0; i < v->labels.count; i++)
            if (strcmp(v->labels.items[i], s->label.name) == 0) return true;
        return fail(v, "goto '%s', which is no label", s->label.name);
    case L_RETURN:
    case L_LABEL:
    case L_COMMENT: return true;
    }
    return false;
}

static bool verify_block(Verifier *v, const LoopStmt *s)
{
    for (; s; s = s->next)
        if (!verify_statement(v, s) || v->failed) return false;
    return true;
}

static void collect_labels(Verifier *v, const LoopStmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == L_LABEL) {
            for (int i = 0; i < v->labels.count; i++)
                if (strcmp(v->labels.items[i], s->label.name) == 0) fail(v, "label '%s' stands twice", s->label.name);
            VEC_PUSH(v->arena, &v->labels, s->label.name);
        }
        if (s->kind == L_BLOCK) collect_labels(v, s->block.body);
        if (s->kind == L_FOR) collect_labels(v, s->for_.body);
        if (s->kind == L_WHILE) collect_labels(v, s->while_.body);
        if (s->kind == L_IF) {
            collect_labels(v, s->branch.then);
            collect_labels(v, s->branch.otherwise);
        }
    }
}

bool loop_verify(const LoopUnit *unit, Text *why)
{
    for (int f = 0; f < unit->functions.count; f++) {
        Verifier v = {
            .arena = unit->arena, .why = why, .function = unit->functions.items[f], .visible = { .arena = unit->arena }
        };
        for (int i = 0; i < v.function->n_params; i++) declare(&v, v.function->params[i]);
        collect_labels(&v, v.function->body);
        if (v.failed || !verify_block(&v, v.function->body)) return false;
    }
    return true;
}
