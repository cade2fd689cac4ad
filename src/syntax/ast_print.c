// SPDX-License-Identifier: MIT
// ast_print.c - the syntax tree as text: one line per declaration or statement, blocks indented.
#include "syntax/ast_print.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// clang-format off
static const char *const operators[] = {
    [OP_NEG] = "-",  [OP_NOT] = "!",  [OP_BITNOT] = "~",
    [OP_MUL] = "*",  [OP_DIV] = "/",  [OP_MOD] = "%",  [OP_ADD] = "+",   [OP_SUB] = "-", [OP_SHL] = "<<", [OP_SHR] = ">>",
    [OP_LT] = "<",   [OP_LE] = "<=",  [OP_GT] = ">",   [OP_GE] = ">=",   [OP_EQ] = "==", [OP_NE] = "!=",
    [OP_AND] = "&",  [OP_XOR] = "^",  [OP_OR] = "|",   [OP_ANDAND] = "&&", [OP_OROR] = "||",
    [OP_MATMUL] = "@", [OP_MIN] = "min", [OP_MAX] = "max", [OP_ASSIGN] = "",
};
// clang-format on
static_assert(COUNT(operators) == OP_COUNT, "a spelling per operator");

// ---- expressions

// The fewest digits from which the value can be read again. The point is '.' whatever the program's locale.
static void print_real(Text *out, double value)
{
    char number[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value) break;
    }
    const size_t whole = strspn(number, "-0123456789");
    if (number[whole] && number[whole] != 'e') number[whole] = '.';
    text_print(out, "%s%s", number, number[whole] ? "" : ".0");
}

static void print_string(Text *out, const char *text, int length)
{
    text_print(out, "\"");
    for (int i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 32 || c == '"' || c == '\\') text_print(out, "\\x%02x", c);
        else text_add(out, &text[i], 1);
    }
    text_print(out, "\"");
}

static void print_list(Text *out, const Ex *first, const char *open, const char *close)
{
    text_print(out, "%s", open);
    for (const Ex *ex = first; ex; ex = ex->next) {
        ast_print_expression(out, ex);
        if (ex->next) text_print(out, ", ");
    }
    text_print(out, "%s", close);
}

static void print_subscript(Text *out, const Ex *ex)
{
    ast_print_expression(out, ex->sub.base);
    text_print(out, "[");
    if (ex->sub.how == SUB_ALL) text_print(out, ":");
    else ast_print_expression(out, ex->sub.start);
    if (ex->sub.how == SUB_RANGE) {
        text_print(out, " +: ");
        ast_print_expression(out, ex->sub.width);
        if (ex->sub.step) {
            text_print(out, " : ");
            ast_print_expression(out, ex->sub.step);
        }
    }
    text_print(out, "]");
}

static void print_binary(Text *out, const Ex *a, const char *op, const Ex *b)
{
    text_print(out, "(");
    ast_print_expression(out, a);
    text_print(out, " %s ", op);
    ast_print_expression(out, b);
    text_print(out, ")");
}

static void print_select(Text *out, const Ex *ex)
{
    text_print(out, "(");
    ast_print_expression(out, ex->select.cond);
    text_print(out, " ? ");
    ast_print_expression(out, ex->select.a);
    text_print(out, " : ");
    ast_print_expression(out, ex->select.b);
    text_print(out, ")");
}

void ast_print_expression(Text *out, const Ex *ex)
{
    switch (ex->kind) {
    case EX_INT: text_print(out, "%" PRIu64, ex->integer.value); break;
    case EX_FLOAT: print_real(out, ex->real.value); break;
    case EX_BOOL: text_print(out, "%s", ex->boolean.value ? "true" : "false"); break;
    case EX_STRING: print_string(out, ex->string.text, ex->string.length); break;
    case EX_NAME: text_print(out, "%s", ex->name.name); break;
    case EX_TYPE: text_print(out, "%s", dtype_name(ex->type.type)); break;
    case EX_NONE: text_print(out, "none"); break;
    case EX_UNARY:
        text_print(out, "(%s", operators[ex->unary.op]);
        ast_print_expression(out, ex->unary.a);
        text_print(out, ")");
        break;
    case EX_BINARY: print_binary(out, ex->binary.a, operators[ex->binary.op], ex->binary.b); break;
    case EX_SELECT: print_select(out, ex); break;
    case EX_CALL:
        text_print(out, "%s", ex->call.name);
        if (ex->call.has_build) print_list(out, ex->call.build, "<", ">");
        print_list(out, ex->call.args, "(", ")");
        break;
    case EX_SUBSCRIPT: print_subscript(out, ex); break;
    case EX_SET: print_list(out, ex->set.items, "{", "}"); break;
    }
}

// ---- pieces of statements

static void print_type(Text *out, const TypeRef *type)
{
    text_print(out, "%s", type->name ? type->name : dtype_name(type->type));
}

static void print_extents(Text *out, const Ex *extents)
{
    for (const Ex *ex = extents; ex; ex = ex->next) {
        text_print(out, "[");
        ast_print_expression(out, ex);
        text_print(out, "]");
    }
}

static void print_declarators(Text *out, const Declarator *first)
{
    for (const Declarator *one = first; one; one = one->next) {
        text_print(out, "%s%s", one == first ? "" : ", ", one->name);
        print_extents(out, one->extents);
        if (!one->init) continue;
        text_print(out, " = ");
        ast_print_expression(out, one->init);
    }
}

static void print_indices(Text *out, const IndexVar *first)
{
    for (const IndexVar *index = first; index; index = index->next) {
        text_print(out, "%s%s : ", index == first ? "" : ", ", index->name);
        if (index->lo) {
            ast_print_expression(out, index->lo);
            text_print(out, " .. ");
        }
        ast_print_expression(out, index->hi);
    }
}

static void print_hint(Text *out, const Hint *hint)
{
    text_print(out, "%s", hint->name);
    if (!hint->argument) return;
    text_print(out, "(");
    if (hint->argument_name) text_print(out, hint->has_reason ? "%s, " : "%s = ", hint->argument_name);
    ast_print_expression(out, hint->argument);
    text_print(out, ")");
}

static void print_hints(Text *out, const Hint *first)
{
    for (const Hint *hint = first; hint; hint = hint->next) {
        text_print(out, " ");
        print_hint(out, hint);
    }
}

// ---- statements

static void print_statements(Text *out, const St *first, int depth);

static void print_declaration(Text *out, const St *st)
{
    static const char *const storages[] = {
        [STORE_SCALAR] = "",
        [STORE_SHARED] = "shared ",
        [STORE_CLUSTER_SHARED] = "cluster shared ",
        [STORE_FRAGMENT] = "fragment ",
        [STORE_LOCAL] = "local ",
        [STORE_TEMP] = "temp ",
    };
    text_print(out, "%s%s", st->decl.is_const ? "const " : "", storages[st->decl.storage]);
    print_type(out, &st->decl.type);
    text_print(out, " ");
    print_declarators(out, st->decl.names);
}

static void print_assignment(Text *out, const St *st)
{
    ast_print_expression(out, st->assign.target);
    text_print(out, " %s= ", operators[st->assign.op]);
    ast_print_expression(out, st->assign.value);
}

// A statement in the head of a for, without a line of its own.
static void print_simple(Text *out, const St *st)
{
    if (!st) return;
    if (st->kind == ST_DECL) print_declaration(out, st);
    else if (st->kind == ST_ASSIGN) print_assignment(out, st);
    else ast_print_expression(out, st->call.call);
}

static void print_for(Text *out, const St *st)
{
    text_print(out, "%sfor (", st->loop.unroll ? "unroll " : "");
    print_simple(out, st->loop.init);
    text_print(out, "; ");
    if (st->loop.cond) ast_print_expression(out, st->loop.cond);
    text_print(out, "; ");
    print_simple(out, st->loop.step);
    text_print(out, ")");
}

static void print_view(Text *out, const St *st)
{
    text_print(out, "view ");
    if (st->view.has_type) {
        print_type(out, &st->view.type);
        text_print(out, " ");
    }
    print_declarators(out, st->view.name);
}

static void print_claim(Text *out, const char *word, const St *st)
{
    text_print(out, "%s(", word);
    ast_print_expression(out, st->require.cond);
    if (st->require.message) {
        text_print(out, ", ");
        ast_print_expression(out, st->require.message);
    }
    text_print(out, ")");
}

static void print_heading(Text *out, const char *word, const IndexVar *indices, const Hint *hints)
{
    text_print(out, "%s (", word);
    print_indices(out, indices);
    text_print(out, ")");
    print_hints(out, hints);
}

static void print_tolerance(Text *out, const St *st)
{
    text_print(out, "tolerance");
    if (st->tolerance.output) text_print(out, " %s:", st->tolerance.output);
    print_hints(out, st->tolerance.terms);
}

// A statement's own line, without those it controls.
static void print_line(Text *out, const St *st)
{
    switch (st->kind) {
    case ST_BLOCK: text_print(out, "block"); break;
    case ST_DECL: print_declaration(out, st); break;
    case ST_VIEW: print_view(out, st); break;
    case ST_ASSIGN: print_assignment(out, st); break;
    case ST_ATOMIC:
        text_print(out, "atomic ");
        print_assignment(out, st);
        break;
    case ST_CALL: ast_print_expression(out, st->call.call); break;
    case ST_IF:
        text_print(out, "%sif ", st->branch.is_static ? "static " : "");
        ast_print_expression(out, st->branch.cond);
        break;
    case ST_FOR: print_for(out, st); break;
    case ST_WHILE:
        text_print(out, "while ");
        ast_print_expression(out, st->while_.cond);
        break;
    case ST_FORALL: print_heading(out, "forall", st->forall.indices, NULL); break;
    case ST_PIPELINE: print_heading(out, "pipeline", st->pipeline.indices, st->pipeline.hints); break;
    case ST_STAGE:
        text_print(out, "stage ");
        ast_print_expression(out, st->stage.number);
        break;
    case ST_ON:
        text_print(out, "on ");
        print_list(out, st->on.groups, "(", ")");
        break;
    case ST_BREAK: text_print(out, "break"); break;
    case ST_CONTINUE: text_print(out, "continue"); break;
    case ST_RETURN:
        text_print(out, "return%s", st->return_.value ? " " : "");
        if (st->return_.value) ast_print_expression(out, st->return_.value);
        break;
    case ST_GRID: print_heading(out, "grid", st->grid.indices, st->grid.hints); break;
    case ST_REQUIRE: print_claim(out, "require", st); break;
    case ST_ASSUME: print_claim(out, "assume", st); break;
    case ST_ASSERT: print_claim(out, "assert", st); break;
    case ST_PRINT:
        text_print(out, "print");
        print_list(out, st->print.args, "(", ")");
        break;
    case ST_LAYOUT:
        text_print(out, "layout(");
        ast_print_expression(out, st->layout.target);
        text_print(out, ") = ");
        print_hint(out, st->layout.hint);
        break;
    case ST_TOLERANCE: print_tolerance(out, st); break;
    case ST_INPUT:
        text_print(out, "input %s = ", st->input.tensor);
        ast_print_expression(out, st->input.how);
        break;
    }
}

static void print_statement(Text *out, const St *st, int depth);

// The statement that `st` controls, or its list.
static void print_inner(Text *out, const St *st, int depth)
{
    switch ((int)st->kind) {
    case ST_BLOCK: print_statements(out, st->block.body, depth); break;
    case ST_FOR: print_statement(out, st->loop.body, depth); break;
    case ST_WHILE: print_statement(out, st->while_.body, depth); break;
    case ST_FORALL: print_statement(out, st->forall.body, depth); break;
    case ST_PIPELINE: print_statement(out, st->pipeline.body, depth); break;
    case ST_ON: print_statement(out, st->on.body, depth); break;
    case ST_IF:
        print_statement(out, st->branch.then, depth);
        if (!st->branch.otherwise) break;
        text_indent(out, depth - 1);
        text_print(out, "else\n");
        print_statement(out, st->branch.otherwise, depth);
        break;
    default: break; // controls nothing
    }
}

static void print_statement(Text *out, const St *st, int depth)
{
    text_indent(out, depth);
    print_line(out, st);
    text_print(out, "\n");
    print_inner(out, st, depth + 1);
}

static void print_statements(Text *out, const St *first, int depth)
{
    for (const St *st = first; st; st = st->next) print_statement(out, st, depth);
}

// ---- declarations

static void print_build_params(Text *out, const BuildParam *first)
{
    static const char *const kinds[] = {
        [BUILD_TYPE] = "type", [BUILD_INT] = "int", [BUILD_BOOL] = "bool", [BUILD_FLOAT] = "f64", [BUILD_FN] = "fn",
    };
    text_print(out, "<");
    for (const BuildParam *param = first; param; param = param->next) {
        text_print(out, "%s%s %s", param == first ? "" : ", ", kinds[param->kind], param->name);
        if (!param->value) continue;
        text_print(out, " = ");
        if (param->range) print_list(out, param->range, "{", "}");
        else ast_print_expression(out, param->value);
    }
    text_print(out, ">");
}

static void print_params(Text *out, const Param *first)
{
    static const char *const modes[] = {
        [MODE_SCALAR] = "", [MODE_IN] = "in ", [MODE_OUT] = "out ", [MODE_INOUT] = "inout "
    };
    text_print(out, "(");
    for (const Param *param = first; param; param = param->next) {
        text_print(out, "%s%s%s%s", param == first ? "" : ", ", param->optional ? "optional " : "", modes[param->mode],
                   param->strided ? "strided " : "");
        print_type(out, &param->type);
        text_print(out, " %s", param->name);
        print_extents(out, param->extents);
    }
    text_print(out, ")");
}

static void print_values(Text *out, const NamedValue *first, const char *open, const char *close)
{
    text_print(out, "%s", open);
    for (const NamedValue *value = first; value; value = value->next) {
        text_print(out, "%s%s = ", value == first ? "" : ", ", value->name);
        ast_print_expression(out, value->value);
    }
    text_print(out, "%s", close);
}

static void print_result(Text *out, const Decl *decl)
{
    if (decl->result.name || decl->result.type != DTYPE_NONE) print_type(out, &decl->result);
    else text_print(out, "void");
    text_print(out, " ");
}

static void print_decl_start(Text *out, const Decl *decl)
{
    switch (decl->kind) {
    case DECL_IMPORT:
        text_print(out, "import ");
        print_string(out, decl->name, (int)strlen(decl->name));
        break;
    case DECL_CONST: print_line(out, decl->body); break;
    case DECL_KERNEL: text_print(out, "kernel %s", decl->name); break;
    case DECL_FN:
        text_print(out, "fn ");
        print_result(out, decl);
        text_print(out, "%s", decl->name);
        break;
    case DECL_OPERATOR: text_print(out, "operator %s", decl->name); break;
    case DECL_EXTERN:
        text_print(out, "extern %s fn ", decl->target);
        print_result(out, decl);
        text_print(out, "%s", decl->name);
        break;
    case DECL_REFERENCE: text_print(out, "reference %s", decl->name); break;
    case DECL_CHECK: text_print(out, "check %s", decl->name); break;
    case DECL_VERIFY: text_print(out, "verify %s", decl->name); break;
    }
}

static void print_decl(Text *out, const Decl *decl)
{
    print_decl_start(out, decl);
    if (decl->kind == DECL_CHECK) {
        if (decl->has_build) print_values(out, decl->build_values, "<", ">");
        if (decl->has_params) print_values(out, decl->values, "(", ")");
    } else {
        if (decl->has_build) print_build_params(out, decl->build);
        if (decl->has_params) print_params(out, decl->params);
    }
    text_print(out, "\n");
    if (decl->kind != DECL_CONST) print_statements(out, decl->body, 1);
}

void ast_print(Text *out, const Module *module)
{
    for (const Decl *decl = module->decls; decl; decl = decl->next) print_decl(out, decl);
}
