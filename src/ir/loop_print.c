// SPDX-License-Identifier: MIT
// loop_print.c - Loop IR as text for readers: what emit/ prints, without the spelling of C's types and conversions.
#include "ir/names.h"

typedef struct Printer {
    Text *out;
    const Names *names;
} Printer;

static void print_expr(const Printer *p, const Expr *x) { expr_print_named(p->out, p->names, x); }
static void print_var(const Printer *p, const Var *v) { names_print_var(p->out, p->names, v); }

static void print_type(const Printer *p, const Var *v)
{
    text_print(p->out, "%s", dtype_name(v->type));
    if (v->lanes > 1) text_print(p->out, "x%d", v->lanes);
    for (int i = 0; i < v->pointer; i++) text_print(p->out, "*");
    text_print(p->out, " ");
}

static void print_declare(const Printer *p, const LoopStmt *s)
{
    static const char *const spaces[] = { [SPACE_AUTO] = "", [SPACE_SHARED] = "shared ", [SPACE_CONST] = "const " };
    text_print(p->out, "%s", spaces[s->declare.space]);
    print_type(p, s->declare.var);
    print_var(p, s->declare.var);
    if (s->declare.elements) text_print(p->out, "[%lld]", (long long)s->declare.elements);
    if (s->declare.value) {
        text_print(p->out, " = ");
        print_expr(p, s->declare.value);
    }
    text_print(p->out, s->declare.align ? ";  // aligned to %d\n" : ";\n", s->declare.align);
}

static void print_block(const Printer *p, const LoopStmt *s, int depth);

static void print_braces(const Printer *p, const LoopStmt *body, int depth)
{
    text_print(p->out, "{\n");
    print_block(p, body, depth + 1);
    text_indent(p->out, depth);
    text_print(p->out, "}");
}

static void print_for(const Printer *p, const LoopStmt *s, int depth)
{
    static const char *const forms[] = {
        [LOOP_PLAIN] = "",
        [LOOP_UNROLL] = "unroll ",
        [LOOP_VECTORISE] = "vectorise ",
        [LOOP_NO_UNROLL] = "rolled ",
    };
    text_print(p->out, "%sfor (", forms[s->for_.form]);
    print_var(p, s->for_.var);
    text_print(p->out, " = ");
    print_expr(p, s->for_.lo);
    text_print(p->out, "; < ");
    print_expr(p, s->for_.hi);
    if (s->for_.step) {
        text_print(p->out, "; += ");
        print_expr(p, s->for_.step);
    }
    text_print(p->out, ") ");
    print_braces(p, s->for_.body, depth);
    text_print(p->out, "\n");
}

static void print_if(const Printer *p, const LoopStmt *s, int depth)
{
    text_print(p->out, "if (");
    print_expr(p, s->branch.cond);
    text_print(p->out, ") ");
    print_braces(p, s->branch.then, depth);
    if (s->branch.otherwise) {
        text_print(p->out, " else ");
        print_braces(p, s->branch.otherwise, depth);
    }
    text_print(p->out, "\n");
}

static void print_statement(const Printer *p, const LoopStmt *s, int depth)
{
    text_indent(p->out, depth);
    switch (s->kind) {
    case L_BLOCK:
        print_braces(p, s->block.body, depth);
        text_print(p->out, "\n");
        break;
    case L_DECLARE: print_declare(p, s); break;
    case L_ASSIGN:
        print_var(p, s->assign.var);
        text_print(p->out, " = ");
        print_expr(p, s->assign.value);
        text_print(p->out, ";\n");
        break;
    case L_STORE:
        print_var(p, s->store.pointer);
        text_print(p->out, "[");
        print_expr(p, s->store.at);
        text_print(p->out, "] = ");
        print_expr(p, s->store.value);
        text_print(p->out, ";\n");
        break;
    case L_CALL:
        print_expr(p, s->call.call);
        text_print(p->out, ";\n");
        break;
    case L_FOR: print_for(p, s, depth); break;
    case L_WHILE:
        text_print(p->out, "while (");
        print_expr(p, s->while_.cond);
        text_print(p->out, ") ");
        print_braces(p, s->while_.body, depth);
        text_print(p->out, "\n");
        break;
    case L_IF: print_if(p, s, depth); break;
    case L_BREAK: text_print(p->out, "break;\n"); break;
    case L_CONTINUE: text_print(p->out, "continue;\n"); break;
    case L_RETURN: text_print(p->out, "return;\n"); break;
    case L_LABEL: text_print(p->out, "%s:\n", s->label.name); break;
    case L_GOTO: text_print(p->out, "goto %s;\n", s->label.name); break;
    case L_COMMENT: text_print(p->out, "// %s\n", s->comment.text); break;
    }
}

static void print_block(const Printer *p, const LoopStmt *s, int depth)
{
    for (; s; s = s->next) print_statement(p, s, depth);
}

void loop_print(Text *out, const LoopUnit *unit)
{
    const Printer p = { out, names_of_unit(unit->arena, unit) };
    for (int i = 0; i < unit->n_preludes; i++) text_print(out, "// prelude %s\n", unit->preludes[i]);
    for (int f = 0; f < unit->functions.count; f++) {
        const LoopFunction *const function = unit->functions.items[f];
        text_print(out, "%s(", function->name);
        for (int i = 0; i < function->n_params; i++) {
            if (i) text_print(out, ", ");
            print_type(&p, function->params[i]);
            print_var(&p, function->params[i]);
        }
        text_print(out, ") ");
        print_braces(&p, function->body, 0);
        text_print(out, "\n");
    }
}
