// SPDX-License-Identifier: MIT
// emit.c - statements and functions of Loop IR as C or CUDA C. Equal units give equal texts.
#include "emit/escape.h"
#include "emit/prelude.h"
#include "emit/print.h"

enum { SHORT_STEPS = 16 };

#include <assert.h>

static void emit_block(const Emitter *e, const LoopStmt *s, int depth);

static void emit_braces(const Emitter *e, const LoopStmt *body, int depth)
{
    text_print(e->out, "{\n");
    emit_block(e, body, depth + 1);
    text_indent(e->out, depth);
    text_print(e->out, "}");
}

// `float x`, `uint16_t *p`, with what the dialect calls restrict.
static void emit_variable(const Emitter *e, const Var *var, bool in_memory)
{
    emit_type(e, var, in_memory || var->pointer > 0);
    text_print(e->out, " ");
    for (int i = 0; i < var->pointer; i++) text_print(e->out, "*");
    if (var->pointer && var->restricted) text_print(e->out, "%s ", e->dialect->restrict_word);
    emit_name(e, var);
}

static void emit_declare(const Emitter *e, const LoopStmt *s)
{
    const bool is_array = s->declare.elements > 0;
    text_print(e->out, "%s", e->dialect->spaces[s->declare.space]);
    if (s->declare.align) text_print(e->out, "%s(%d) ", e->dialect->align, s->declare.align);
    // The variable of an array is a pointer where it is used.
    Var var = *s->declare.var;
    if (is_array) {
        emit_type(e, &var, true);
        text_print(e->out, " ");
        emit_name(e, s->declare.var);
        const int64_t bits = var.type == DTYPE_NONE ? 8 : dtype_bits(var.type);
        text_print(e->out, "[%lld]",
                   (long long)(bits < 8 ? (s->declare.elements * bits + 7) / 8 : s->declare.elements));
    } else {
        emit_variable(e, s->declare.var, false);
    }
    if (s->declare.value) {
        text_print(e->out, " = ");
        emit_value(e, s->declare.value);
    }
    text_print(e->out, ";\n");
}

static void emit_store(const Emitter *e, const LoopStmt *s)
{
    const Var *const pointer = s->store.pointer;
    if (pointer->type != DTYPE_NONE && dtype_bits(pointer->type) < 8) {
        text_print(e->out, "kiln_set_bits%d(", dtype_bits(pointer->type));
        emit_name(e, pointer);
        text_print(e->out, ", ");
        emit_expr(e, s->store.at);
        text_print(e->out, ", ");
        emit_expr(e, s->store.value);
        text_print(e->out, ");\n");
        return;
    }
    emit_name(e, pointer);
    text_print(e->out, "[");
    emit_subscript(e, s->store.at);
    text_print(e->out, "] = ");
    emit_value(e, s->store.value);
    text_print(e->out, ";\n");
}

static void emit_reductions(const Emitter *e, const LoopReduction *r)
{
    text_print(e->out, "#pragma omp simd");
    for (; r; r = r->next) {
        text_print(e->out, " reduction(%s:", r->clause);
        emit_name(e, r->var);
        text_print(e->out, ")");
    }
}

// A vectorised loop of few steps is said apart.
static LoopForm form_of(const LoopStmt *s)
{
    int64_t from, to;
    const bool is_short = expr_as_int(s->for_.lo, &from) && expr_as_int(s->for_.hi, &to) && to - from <= SHORT_STEPS;
    return s->for_.form == LOOP_VECTORISE && is_short ? LOOP_VECTORISE_SHORT : s->for_.form;
}

static void emit_for(const Emitter *e, const LoopStmt *s, int depth)
{
    const char *const line = e->dialect->loops[form_of(s)];
    int64_t step = 1;
    if (line || s->for_.reductions) {
        if (s->for_.reductions) emit_reductions(e, s->for_.reductions);
        else text_print(e->out, "%s", line);
        text_print(e->out, "\n");
        text_indent(e->out, depth);
    }
    text_print(e->out, "for (");
    emit_variable(e, s->for_.var, false);
    text_print(e->out, " = ");
    emit_value(e, s->for_.lo);
    text_print(e->out, "; ");
    emit_name(e, s->for_.var);
    if (s->for_.step) expr_as_int(s->for_.step, &step);
    text_print(e->out, step < 0 ? " > " : " < ");
    const bool simple = s->for_.hi->kind == E_INT || s->for_.hi->kind == E_VAR || s->for_.hi->kind == E_CALL;
    if (!simple) text_print(e->out, "(");
    emit_value(e, s->for_.hi);
    if (!simple) text_print(e->out, ")");
    text_print(e->out, "; ");
    emit_name(e, s->for_.var);
    if (s->for_.step && !(s->for_.step->kind == E_INT && step == 1)) {
        text_print(e->out, " += ");
        emit_value(e, s->for_.step);
    } else {
        text_print(e->out, "++");
    }
    text_print(e->out, ") ");
    emit_braces(e, s->for_.body, depth);
    text_print(e->out, "\n");
}

static void emit_if(const Emitter *e, const LoopStmt *s, int depth)
{
    text_print(e->out, "if (");
    emit_expr(e, s->branch.cond);
    text_print(e->out, ") ");
    emit_braces(e, s->branch.then, depth);
    const LoopStmt *const otherwise = s->branch.otherwise;
    if (!otherwise) {
        text_print(e->out, "\n");
    } else if (otherwise->kind == L_IF && !otherwise->next) {
        text_print(e->out, " else ");
        emit_if(e, otherwise, depth);
    } else {
        text_print(e->out, " else ");
        emit_braces(e, otherwise, depth);
        text_print(e->out, "\n");
    }
}

static void emit_comment(const Emitter *e, const char *text)
{
    text_print(e->out, "// ");
    escape_comment(e->out, text, strlen(text));
    text_print(e->out, "\n");
}

static void emit_statement(const Emitter *e, const LoopStmt *s, int depth)
{
    text_indent(e->out, s->kind == L_LABEL ? 0 : depth);
    switch (s->kind) {
    case L_BLOCK:
        emit_braces(e, s->block.body, depth);
        text_print(e->out, "\n");
        break;
    case L_DECLARE: emit_declare(e, s); break;
    case L_ASSIGN:
        emit_name(e, s->assign.var);
        text_print(e->out, " = ");
        emit_value(e, s->assign.value);
        text_print(e->out, ";\n");
        break;
    case L_STORE: emit_store(e, s); break;
    case L_CALL:
        emit_expr(e, s->call.call);
        text_print(e->out, ";\n");
        break;
    case L_FOR: emit_for(e, s, depth); break;
    case L_WHILE:
        text_print(e->out, "while (");
        emit_expr(e, s->while_.cond);
        text_print(e->out, ") ");
        emit_braces(e, s->while_.body, depth);
        text_print(e->out, "\n");
        break;
    case L_IF: emit_if(e, s, depth); break;
    case L_BREAK: text_print(e->out, "break;\n"); break;
    case L_CONTINUE: text_print(e->out, "continue;\n"); break;
    case L_RETURN: text_print(e->out, "return;\n"); break;
    case L_LABEL: text_print(e->out, "%s: ;\n", s->label.name); break;
    case L_GOTO: text_print(e->out, "goto %s;\n", s->label.name); break;
    case L_COMMENT: emit_comment(e, s->comment.text); break;
    }
}

static void emit_block(const Emitter *e, const LoopStmt *s, int depth)
{
    for (; s; s = s->next) emit_statement(e, s, depth);
}

static void emit_signature(const Emitter *e, const LoopFunction *f)
{
    if (f->signature) {
        text_print(e->out, "%s\n", f->signature);
        return;
    }
    text_print(e->out, "%s void %s(", f->attributes ? f->attributes : "static", f->name);
    for (int i = 0; i < f->n_params; i++) {
        if (i) text_print(e->out, ", ");
        emit_variable(e, f->params[i], false);
    }
    text_print(e->out, f->n_params ? ")\n" : "void)\n");
}

void emit_unit(Text *out, const LoopUnit *unit, const Dialect *dialect)
{
    Text own = { .arena = unit->arena };
    const Emitter e = { &own, dialect, names_of_unit(unit->arena, unit) };
    if (unit->head) text_print(out, "%s", unit->head);
    for (int i = 0; i < unit->n_preludes; i++) {
        const char *const text = prelude_text(unit->preludes[i]);
        assert(text && "a lowering names preludes that exist");
        text_add(out, text, strlen(text));
    }
    if (unit->helpers) text_add(&own, unit->helpers, strlen(unit->helpers));
    for (int f = 0; f < unit->functions.count; f++) {
        text_print(&own, "\n");
        emit_signature(&e, unit->functions.items[f]);
        emit_braces(&e, unit->functions.items[f]->body, 0);
        text_print(&own, "\n");
    }
    if (dialect->prelude) prelude_add_used(out, dialect->prelude, text_cstr(&own));
    if (own.data) text_add(out, own.data, own.length);
}
