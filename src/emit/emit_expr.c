// SPDX-License-Identifier: MIT
// emit_expr.c - expressions of Loop IR in C: parentheses by precedence, constants of the exact type and value.
//
// Sized signed arithmetic wraps in the language and not in C, so it is computed unsigned; `int` is not, its overflow
// is undefined in both. CUDA's compiler is given the plain form: there the lowering also computes addresses in i32,
// and unsigned arithmetic would keep it from strength-reducing them.
#include "emit/print.h"
#include "ir/constant.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- names

static bool ends_in_number(const char *name)
{
    size_t n = strlen(name);
    const size_t length = n;
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    return n < length && n > 0 && name[n - 1] == '_';
}

// `v_i`, `v_i_2`, `v_i_3`; a name that already looks like that always gets its number: all stay different.
void emit_name(const Emitter *e, const Var *var)
{
    const char *const name = var->name ? var->name : "t";
    const int number = names_number(e->names, var->name, var);
    text_print(e->out, number > 1 || ends_in_number(name) ? LOOP_VAR_PREFIX "%s_%d" : LOOP_VAR_PREFIX "%s", name,
               number);
}

// ---- types

void emit_type(const Emitter *e, const Var *var, bool in_memory)
{
    const char *const name = dtype_info[var->type].c_name;
    if (var->lanes > 1 && e->dialect->vectors[var->type])
        text_print(e->out, "%s%d", e->dialect->vectors[var->type], var->lanes);
    else if (var->lanes > 1)
        text_print(e->out, "%s __attribute__((vector_size(%d)))", name, (int)dtype_bytes(var->type, var->lanes));
    else if (var->type == DTYPE_BOOL && !in_memory) text_print(e->out, "%s", e->dialect->bool_name);
    else text_print(e->out, "%s", name);
}

// ---- constants

static void emit_float(const Emitter *e, DType type, double value)
{
    if (type != DTYPE_F64 && type != DTYPE_F32 && type != DTYPE_TF32) { // kept as its bits
        text_print(e->out, "0x%llx", (unsigned long long)constant_bits(type, value));
        return;
    }
    const bool wide = type == DTYPE_F64;
    if (isnan(value) || isinf(value)) {
        const char *const from_bits = wide ? e->dialect->f64_bits : e->dialect->f32_bits;
        if (from_bits)
            text_print(e->out, "%s(0x%llx%s)", from_bits, (unsigned long long)constant_bits(type, value),
                       wide ? "ll" : "");
        else if (isnan(value)) text_print(e->out, wide ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")");
        else text_print(e->out, "%s__builtin_inf%s()", value < 0 ? "-" : "", wide ? "" : "f");
        return;
    }
    char text[40];
    for (int digits = wide ? 15 : 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (wide ? back == value : (float)back == (float)value) break;
    }
    text_print(e->out, "%s%s%s", text, strpbrk(text, ".e") ? "" : ".0", wide ? "" : "f");
}

static void emit_int(const Emitter *e, DType type, int64_t value, bool exact)
{
    const bool is_small = value > INT32_MIN && value <= INT32_MAX;
    if (type == DTYPE_U64) text_print(e->out, "%lluull", (unsigned long long)value);
    else if (type == DTYPE_U32) text_print(e->out, "%lluu", (unsigned long long)value);
    else if (value == INT64_MIN) text_print(e->out, "(-9223372036854775807ll - 1)");
    else if (dtype_bits(type) == 64 && (exact || !is_small)) text_print(e->out, "%lldll", (long long)value);
    else if (value == INT32_MIN) text_print(e->out, "(-2147483647 - 1)");
    else text_print(e->out, "%lld", (long long)value);
}

// ---- operators

enum { LEVEL_ANY = 0, LEVEL_SELECT = 1, LEVEL_ADD = 10, LEVEL_MUL = 11, LEVEL_UNARY = 12, LEVEL_POSTFIX = 13 };
static void emit_at(const Emitter *e, const Expr *x, int level, bool exact);

// Operators whose precedence few remember: their operands are always in parentheses.
static bool is_obscure(ExprOp op)
{
    return op == X_SHL || op == X_SHR || op == X_BITAND || op == X_BITOR || op == X_BITXOR || op == X_AND || op == X_OR;
}

static bool wraps(const Emitter *e, const Expr *x)
{
    const bool arithmetic = x->op.op == X_ADD || x->op.op == X_SUB || x->op.op == X_MUL || x->op.op == X_NEG;
    const bool sized = x->type == DTYPE_I32 || x->type == DTYPE_I64;
    return e->dialect->wraps_unsigned && sized && arithmetic;
}

static bool is_left_shift(const Expr *x) { return x->op.op == X_SHL && !dtype_is_unsigned(x->type); }

static const char *unsigned_name(DType type) { return dtype_bits(type) == 64 ? "uint64_t" : "uint32_t"; }

// a op b through unsigned, for what would overflow in C.
static void emit_wrapping(const Emitter *e, const Expr *x)
{
    text_print(e->out, "(%s)(", dtype_info[x->type].c_name);
    if (x->kind == E_UNARY) text_print(e->out, "0 - ");
    text_print(e->out, "(%s)", unsigned_name(x->type));
    emit_at(e, x->op.a, LEVEL_UNARY, false);
    if (x->kind == E_BINARY) {
        text_print(e->out, " %s ", expr_op_info[x->op.op].text);
        if (!is_left_shift(x)) text_print(e->out, "(%s)", unsigned_name(x->type));
        emit_at(e, x->op.b, LEVEL_UNARY, false);
    }
    text_print(e->out, ")");
}

// The one quotient that does not fit, of the least number and -1, traps on some machines.
static bool may_trap(const Emitter *e, const Expr *x)
{
    int64_t c;
    return e->dialect->wraps_unsigned && x->type == DTYPE_I32 && op_divides(x->op.op) &&
           !(expr_as_int(x->op.b, &c) && c != -1);
}

static void emit_binary(const Emitter *e, const Expr *x)
{
    const ExprOpInfo info = expr_op_info[x->op.op];
    const Expr *const a = x->op.a, *const b = x->op.b;
    int64_t c;
    if (may_trap(e, x)) {
        text_print(e->out, "(int32_t)((int64_t)");
        emit_at(e, a, LEVEL_UNARY, false);
        text_print(e->out, " %s ", info.text);
        emit_at(e, b, LEVEL_UNARY, false);
        text_print(e->out, ")");
        return;
    }
    const bool both_const = expr_is_const(a) && expr_is_const(b);
    const int level = is_obscure(x->op.op) ? LEVEL_UNARY : info.level;
    const bool logic = x->op.op == X_AND || x->op.op == X_OR;
    // A chain of one logical operator reads well without parentheses, and so do comparisons in it.
    const int left =
        logic && (a->kind != E_BINARY || a->op.op == x->op.op || expr_op_info[a->op.op].level > 6) ? info.level : level;
    const int right = logic && (b->kind != E_BINARY || expr_op_info[b->op.op].level > 6) ? info.level + 1
                      : is_obscure(x->op.op)                                             ? level
                                                                                         : level + 1;
    // The builders write x - c as x + -c. The least number of a type has no -c in it.
    const int64_t least = dtype_bits(x->type) == 64 ? INT64_MIN : INT32_MIN;
    if (x->op.op == X_ADD && expr_as_int(b, &c) && c < 0 && c > least && !dtype_is_unsigned(x->type)) {
        emit_at(e, a, LEVEL_ADD, false);
        text_print(e->out, " - ");
        emit_int(e, x->type, -c, false);
        return;
    }
    emit_at(e, a, left, both_const || x->op.op == X_SHL || x->op.op == X_SHR);
    text_print(e->out, " %s ", info.text);
    emit_at(e, b, right, both_const);
}

// ---- memory

static bool is_packed(DType type) { return type != DTYPE_NONE && dtype_bits(type) < 8; }

static void emit_element(const Emitter *e, const Expr *x)
{
    const Var *const pointer = x->index.pointer;
    if (is_packed(pointer->type)) {
        text_print(e->out, "kiln_get_bits%d(", dtype_bits(pointer->type));
        emit_name(e, pointer);
        text_print(e->out, ", ");
        emit_expr(e, x->index.at);
        text_print(e->out, ")");
        return;
    }
    emit_name(e, pointer);
    text_print(e->out, "[");
    emit_subscript(e, x->index.at);
    text_print(e->out, "]");
}

static void emit_address(const Emitter *e, const Expr *x)
{
    int64_t at;
    emit_name(e, x->index.pointer);
    if (expr_as_int(x->index.at, &at) && at == 0) return;
    text_print(e->out, " + ");
    if (is_packed(x->index.pointer->type)) {
        emit_at(e, x->index.at, LEVEL_MUL, false);
        text_print(e->out, " / %d", 8 / dtype_bits(x->index.pointer->type));
    } else {
        emit_at(e, x->index.at, LEVEL_ADD + 1, false);
    }
}

// ---- expressions

static int level_of(const Emitter *e, const Expr *x)
{
    switch (x->kind) {
    case E_INT:
        return x->integer.value < 0 && x->integer.value != INT64_MIN &&
                       !(x->type == DTYPE_I32 && x->integer.value == INT32_MIN) && x->type != DTYPE_U64
                   ? LEVEL_UNARY
                   : LEVEL_POSTFIX;
    case E_FLOAT: return signbit(x->real.value) ? LEVEL_UNARY : LEVEL_POSTFIX;
    case E_UNARY: return LEVEL_UNARY;
    case E_BINARY:
        return wraps(e, x) || is_left_shift(x) || may_trap(e, x) ? LEVEL_UNARY : expr_op_info[x->op.op].level;
    case E_SELECT: return LEVEL_SELECT;
    case E_CONVERT: return LEVEL_UNARY;
    case E_ADDRESS: {
        int64_t at;
        return expr_as_int(x->index.at, &at) && at == 0 ? LEVEL_POSTFIX : LEVEL_ADD;
    }
    case E_CALL: return x->call.n >= 0 && x->call.name[0] == '(' ? LEVEL_UNARY : LEVEL_POSTFIX;
    case E_VAR:
    case E_LOAD:
    case E_BITCAST:
    case E_MATH:
    case E_ATOMIC:
    case E_INDEX: break;
    }
    return LEVEL_POSTFIX;
}

static void emit_args(const Emitter *e, Expr *const *args, int n)
{
    text_print(e->out, "(");
    for (int i = 0; i < n; i++) {
        if (i) text_print(e->out, ", ");
        emit_at(e, args[i], LEVEL_ANY, true);
    }
    text_print(e->out, ")");
}

// Integer functions by the names the preludes give them: one per type in C, overloaded in CUDA, where a literal would
// not choose and is cast.
static void emit_math(const Emitter *e, const Expr *x)
{
    assert(loop_has_math(x) && "the lowering has turned other functions into calls");
    const bool overloads = e->dialect->overloads;
    if (overloads) text_print(e->out, "math_%s(", builtins[x->math.fn].name);
    else
        text_print(e->out, "kiln_%s_%s(", builtins[x->math.fn].name,
                   dtype_name(x->type == DTYPE_I64 ? DTYPE_INT : x->type));
    for (int i = 0; i < x->math.n; i++) {
        if (i) text_print(e->out, ", ");
        const bool cast = overloads && expr_is_const(x->math.args[i]);
        if (cast) text_print(e->out, "(%s)", dtype_info[x->type].c_name);
        emit_at(e, x->math.args[i], cast ? LEVEL_UNARY : LEVEL_ANY, true);
    }
    text_print(e->out, ")");
}

static void emit_at(const Emitter *e, const Expr *x, int level, bool exact)
{
    const bool parens = level_of(e, x) < level;
    if (parens) text_print(e->out, "(");
    switch (x->kind) {
    case E_INT: emit_int(e, x->type, x->integer.value, exact); break;
    case E_FLOAT: emit_float(e, x->type, x->real.value); break;
    case E_VAR: emit_name(e, x->var.var); break;
    case E_UNARY:
        if (wraps(e, x)) {
            emit_wrapping(e, x);
            break;
        }
        text_print(e->out, "%s", expr_op_info[x->op.op].text);
        emit_at(e, x->op.a, x->op.a->kind == E_UNARY ? LEVEL_POSTFIX : LEVEL_UNARY + expr_is_const(x->op.a), true);
        break;
    case E_BINARY:
        if (wraps(e, x) || is_left_shift(x)) emit_wrapping(e, x);
        else emit_binary(e, x);
        break;
    case E_SELECT: {
        const bool both = expr_is_const(x->select.a) && expr_is_const(x->select.b);
        emit_at(e, x->select.cond, LEVEL_SELECT + 1, false);
        text_print(e->out, " ? ");
        emit_at(e, x->select.a, LEVEL_SELECT, both || exact);
        text_print(e->out, " : ");
        emit_at(e, x->select.b, LEVEL_SELECT, both || exact);
        break;
    }
    case E_CONVERT:
        text_print(e->out, "(%s)", x->type == DTYPE_BOOL ? e->dialect->bool_name : dtype_info[x->type].c_name);
        emit_at(e, x->convert.a, LEVEL_UNARY, false);
        break;
    case E_CALL:
        text_print(e->out, "%s", x->call.name);
        if (x->call.n >= 0) emit_args(e, x->call.args, x->call.n);
        break;
    case E_INDEX: emit_element(e, x); break;
    case E_ADDRESS: emit_address(e, x); break;
    case E_MATH: emit_math(e, x); break;
    case E_LOAD:
    case E_ATOMIC:
    case E_BITCAST: assert(!"the lowering has turned this into calls"); break;
    }
    if (parens) text_print(e->out, ")");
}

void emit_expr(const Emitter *e, const Expr *x) { emit_at(e, x, LEVEL_ANY, true); }
void emit_subscript(const Emitter *e, const Expr *x) { emit_at(e, x, LEVEL_ANY, false); }
void emit_value(const Emitter *e, const Expr *x) { emit_at(e, x, LEVEL_ANY, false); }
