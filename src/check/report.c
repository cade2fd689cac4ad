// SPDX-License-Identifier: MIT
// report.c - messages about the user's source, and the texts they are made of.
#include "check/context.h"

static bool is_within(Span inner, Span outer)
{
    return inner.source == outer.source && inner.begin >= outer.begin && inner.end <= outer.end;
}

// A mistake inside a function may be the caller's, so every call on the way is shown; not one that is marked itself.
static void note_calls(Checker *cx, Span span)
{
    int shown = 0;
    for (const CallFrame *call = cx->call; call && shown < 4; call = call->outer, shown++)
        if (!is_within(span, call->span)) diag_note(cx->diags, call->span, "in '%s', called here", call->decl->name);
}

bool check_error(Checker *cx, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_error(cx->diags, span, "%s", arena_vprintf(cx->arena, format, args));
    va_end(args);
    cx->errors++;
    note_calls(cx, span);
    return false;
}

void check_note(Checker *cx, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_note(cx->diags, span, "%s", arena_vprintf(cx->arena, format, args));
    va_end(args);
}

void check_help(Checker *cx, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_help(cx->diags, span, "%s", arena_vprintf(cx->arena, format, args));
    va_end(args);
}

// ---- texts

const char *show_expr(Checker *cx, const Expr *x)
{
    Text text = { .arena = cx->arena };
    expr_print(&text, x);
    const char *const shown = text_cstr(&text);
    const size_t n = strlen(shown);
    if (n > 2 && shown[0] == '(' && shown[n - 1] == ')' && !strchr(shown + 1, '('))
        return arena_copy_text(cx->arena, shown + 1, n - 2);
    return shown;
}

// As in [128][64].
static const char *show_shape(Checker *cx, const Region *region)
{
    Text text = { .arena = cx->arena };
    for (int d = 0; d < region->buffer->rank; d++)
        if (region->subs[d].is_range) text_print(&text, "[%s]", show_expr(cx, region->subs[d].width));
    return text_cstr(&text);
}

static const char *storage_text(const Buffer *buffer)
{
    switch (buffer->kind) {
    case BUFFER_TENSOR: return "tensor ";
    case BUFFER_SHARED: return buffer->cluster_shared ? "cluster shared " : "shared ";
    case BUFFER_FRAGMENT: return "fragment ";
    case BUFFER_LOCAL: return "local ";
    case BUFFER_VIEW: return "view ";
    }
    return "";
}

const char *show_buffer(Checker *cx, const Buffer *buffer)
{
    Text text = { .arena = cx->arena };
    text_print(&text, "%s%s", storage_text(buffer), dtype_name(buffer->type));
    for (int d = 0; d < buffer->rank; d++) text_print(&text, "[%s]", show_expr(cx, buffer->shape[d]));
    return text_cstr(&text);
}

const char *show_region(Checker *cx, const Region *region)
{
    return arena_printf(cx->arena, "%s%s", dtype_name(region->buffer->type), show_shape(cx, region));
}

const char *show_value(Checker *cx, const Value *value)
{
    switch (value->kind) {
    case VALUE_POISON: return "nothing";
    case VALUE_SCALAR: return value->flexible ? "a literal" : dtype_name(value->expr->type);
    case VALUE_TYPE: return arena_printf(cx->arena, "the type %s", dtype_name(value->type));
    case VALUE_FUNCTION: return arena_printf(cx->arena, "the function %s", value->function);
    case VALUE_TARGET: return arena_printf(cx->arena, "the target %s", value->text);
    case VALUE_REGION: return show_region(cx, &value->region);
    case VALUE_NONE: return "none";
    case VALUE_TEXT: return "a text";
    case VALUE_VOID: return "no value";
    }
    return "";
}

// clang-format off
static const char *const operators[OP_COUNT] = {
    [OP_NEG] = "-", [OP_NOT] = "!", [OP_BITNOT] = "~", [OP_MUL] = "*", [OP_DIV] = "/", [OP_MOD] = "%", [OP_ADD] = "+",
    [OP_SUB] = "-", [OP_SHL] = "<<", [OP_SHR] = ">>", [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">=",
    [OP_EQ] = "==", [OP_NE] = "!=", [OP_AND] = "&", [OP_XOR] = "^", [OP_OR] = "|", [OP_ANDAND] = "&&", [OP_OROR] = "||",
    [OP_MATMUL] = "@", [OP_MIN] = "min", [OP_MAX] = "max", [OP_ASSIGN] = "=",
};
// clang-format on

const char *operator_text(Operator op) { return operators[op]; }

const char *update_text(Operator op)
{
    static const char *const updates[OP_COUNT] = {
        [OP_MUL] = "*=",   [OP_DIV] = "/=",   [OP_MOD] = "%=",   [OP_ADD] = "+=", [OP_SUB] = "-=",
        [OP_SHL] = "<<=",  [OP_SHR] = ">>=",  [OP_AND] = "&=",   [OP_XOR] = "^=", [OP_OR] = "|=",
        [OP_MIN] = "min=", [OP_MAX] = "max=", [OP_ASSIGN] = "=",
    };
    return updates[op] ? updates[op] : "=";
}
