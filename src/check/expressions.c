// SPDX-License-Identifier: MIT
// expressions.c - scalar expressions: typed, folded, and cut where a build-time condition decides.
//
// An expression may need statements before it: the body of an inlined function, an atomic. They are emitted at the
// place where the walk stands. In an arm that may not be evaluated (of ?:, && and ||) they are collected apart and
// the whole becomes an `if` that sets a variable.
#include "check/context.h"

bool is_const_bool(const Expr *x, bool *value)
{
    int64_t v;
    if (!expr_as_int(x, &v)) return false;
    *value = v != 0;
    return true;
}

static bool changes(const Expr *x, void *context)
{
    if (x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    return x->kind == E_VAR && x->var.var->kind == VAR_LOCAL && x->var.var->assigned;
}

bool is_stable(const Expr *x) { return !expr_any(x, changes, NULL); }

Expr *snapshot(Checker *cx, Expr *x, const char *name, Span span)
{
    if (is_stable(x)) return x;
    Var *const var = tile_new_var(cx->kernel, VAR_LOCAL, x->type, name, span);
    emit(cx, (TileOp){ .kind = T_LET, .span = span, .let = { var, x } });
    return expr_var(cx->arena, var);
}

// ---- operators

// clang-format off
static const ExprOp expr_ops[OP_COUNT] = {
    [OP_MUL] = X_MUL, [OP_DIV] = X_DIV, [OP_MOD] = X_MOD, [OP_ADD] = X_ADD, [OP_SUB] = X_SUB, [OP_SHL] = X_SHL, [OP_SHR] = X_SHR,
    [OP_LT] = X_LT, [OP_LE] = X_LE, [OP_GT] = X_GT, [OP_GE] = X_GE, [OP_EQ] = X_EQ, [OP_NE] = X_NE,
    [OP_AND] = X_BITAND, [OP_XOR] = X_BITXOR, [OP_OR] = X_BITOR,
};
// clang-format on

static bool is_shift(Operator op) { return op == OP_SHL || op == OP_SHR; }
static bool is_comparison(Operator op) { return op >= OP_LT && op <= OP_NE; }
static bool needs_integers(Operator op)
{
    return is_shift(op) || op == OP_MOD || op == OP_AND || op == OP_XOR || op == OP_OR;
}

static Value made(Expr *expr, Span span, bool flexible)
{
    if (!expr_is_const(expr) && expr->kind != E_VAR) expr->span = span;
    return (Value){ .kind = VALUE_SCALAR, .span = span, .expr = expr, .flexible = flexible && expr_is_const(expr) };
}

// A literal that no `int` holds is an u64 as long as it needs to be.
static Value made_of_literals(Checker *cx, Value v, bool is_bits)
{
    int64_t value;
    v.is_bits = v.flexible && is_bits;
    if (v.flexible && v.expr->type == DTYPE_U64 && expr_as_int(v.expr, &value) && value >= 0)
        v.expr = int_const(cx->arena, value);
    return v;
}

// Whether a constant operation on literals leaves 64 bits.
static bool leaves_64_bits(Operator op, const Expr *a, const Expr *b, const Expr *result)
{
    int64_t x, y;
    uint64_t r;
    if (!expr_as_int(a, &x) || !expr_as_int(b, &y)) return false;
    if (a->type == DTYPE_INT) return !expr_is_const(result);
    const uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
    switch ((int)op) {
    case OP_ADD: return __builtin_add_overflow(ux, uy, &r);
    case OP_SUB: return __builtin_sub_overflow(ux, uy, &r);
    case OP_MUL: return __builtin_mul_overflow(ux, uy, &r);
    case OP_SHL: return ux << (y & 63) >> (y & 63) != ux;
    default: return false;
    }
}

static Value compare_kinds(Checker *cx, Span span, Operator op, const Value *a, const Value *b)
{
    if (op != OP_EQ && op != OP_NE) return FAIL(cx, span, "types, functions and targets compare with == and != only");
    if (a->kind != b->kind) return FAIL(cx, span, "%s and %s do not compare", show_value(cx, a), show_value(cx, b));
    const bool same = a->kind == VALUE_TYPE       ? a->type == b->type
                      : a->kind == VALUE_FUNCTION ? a->function == b->function
                                                  : strcmp(a->text, b->text) == 0;
    return scalar_value(expr_bool(cx->arena, same == (op == OP_EQ)), span);
}

// The left side gives the type of a shift; the count may be of any integer type.
static Value check_shift(Checker *cx, Span span, Operator op, Value a, Value b)
{
    const bool flexible = a.flexible && expr_is_const(b.expr);
    if (!a.flexible) a = convert_value(cx, a, widened(a.expr->type));
    if (a.kind == VALUE_POISON) return POISON;
    int64_t count;
    if (expr_as_int(b.expr, &count) && (count < 0 || count >= dtype_bits(a.expr->type)))
        return FAIL(cx, span, "a shift by %lld: %s has %d bits", (long long)count, dtype_name(a.expr->type),
                    dtype_bits(a.expr->type));
    Expr *const by = convert_expr(cx, b, a.expr->type);
    if (!by) return POISON;
    Expr *const result = written_binary(cx, expr_ops[op], a.expr, by);
    if ((flexible || a.expr->type == DTYPE_INT) && leaves_64_bits(op, a.expr, by, result))
        return FAIL(cx, span, "the result does not fit into 64 bits");
    return made_of_literals(cx, made(result, span, flexible), true);
}

static bool is_of_build(const Value *v)
{
    return v->kind == VALUE_TYPE || v->kind == VALUE_FUNCTION || v->kind == VALUE_TARGET;
}

static bool is_number(const Value *v) { return v->kind == VALUE_SCALAR; }

static bool is_function_param(Checker *cx, const Ex *ex)
{
    return ex->kind == EX_NAME && called_function(cx, ex->name.name) != ex->name.name;
}

Value check_binary(Checker *cx, Span span, Operator op, Value a, Value b)
{
    if (a.kind == VALUE_POISON || b.kind == VALUE_POISON) return POISON;
    if (is_of_build(&a) || is_of_build(&b)) return compare_kinds(cx, span, op, &a, &b);
    if (is_number(&a) && is_number(&b) && needs_integers(op))
        for (int side = 0; side < 2; side++) {
            const Value *const v = side == 0 ? &a : &b;
            if (dtype_is_float(v->expr->type))
                return FAIL(cx, v->span, "'%s' takes integers, not %s", operator_text(op), show_value(cx, v));
        }
    if (is_shift(op) && is_number(&a) && is_number(&b)) return check_shift(cx, span, op, a, b);
    const bool both_bool = is_number(&a) && is_number(&b) && a.expr->type == DTYPE_BOOL && b.expr->type == DTYPE_BOOL;
    if (!convert_pair(cx, &a, &b, operator_text(op))) return POISON;
    int64_t divisor;
    if ((op == OP_DIV || op == OP_MOD) && expr_as_int(b.expr, &divisor) && divisor == 0)
        return FAIL(cx, span, "division by zero");
    Expr *const result = written_binary(cx, expr_ops[op], a.expr, b.expr);
    if ((a.flexible || a.expr->type == DTYPE_INT) && leaves_64_bits(op, a.expr, b.expr, result))
        return FAIL(cx, span, "the result does not fit into 64 bits");
    // true & false stays a truth value, as C's would not but everyone means.
    if (both_bool && (op == OP_AND || op == OP_OR || op == OP_XOR))
        return made(truth(cx, scalar_value(result, span)), span, false);
    const bool is_bits = op == OP_AND || op == OP_OR || op == OP_XOR;
    return made_of_literals(cx, made(result, span, a.flexible && b.flexible && !is_comparison(op)), is_bits);
}

// 9223372036854775808, which no `int` is, and whose negation is the least of them.
static bool is_least_negated(const Expr *x) { return x->type == DTYPE_U64 && x->integer.value == INT64_MIN; }

static Value check_unary(Checker *cx, const Ex *ex)
{
    if (ex->unary.op == OP_NOT) {
        Expr *const x = check_condition(cx, ex->unary.a);
        return x ? made(written_unary(cx, X_NOT, x), ex->span, false) : POISON;
    }
    Value v = check_expression(cx, ex->unary.a);
    if (v.kind == VALUE_POISON) return v;
    if (v.kind == VALUE_REGION) {
        check_error(cx, ex->span, "'%s' takes single elements, not the whole of %s", operator_text(ex->unary.op),
                    show_region(cx, &v.region));
        check_help(cx, ex->span, "compute element by element: forall (i : ...) x[i] = ...");
        return POISON;
    }
    if (v.kind != VALUE_SCALAR)
        return FAIL(cx, v.span, "'%s' takes a number, not %s", operator_text(ex->unary.op), show_value(cx, &v));
    if (ex->unary.op == OP_BITNOT && dtype_is_float(v.expr->type))
        return FAIL(cx, v.span, "'~' takes integers, not %s", show_value(cx, &v));
    if (!expr_is_const(v.expr)) v = settle(cx, v);
    const bool flexible = v.flexible;
    if (!flexible) v = convert_value(cx, v, widened(v.expr->type));
    if (v.kind == VALUE_POISON) return v;
    const bool negates = ex->unary.op == OP_NEG, is_least = negates && flexible && is_least_negated(v.expr);
    Expr *const result =
        is_least ? int_const(cx->arena, INT64_MIN) : written_unary(cx, negates ? X_NEG : X_BITNOT, v.expr);
    if (negates && flexible && !is_least && (result->type == DTYPE_U64 || !expr_is_const(result)))
        return FAIL(cx, ex->span, "the result does not fit into 64 bits");
    return made_of_literals(cx, made(result, ex->span, flexible), !negates);
}

// ---- arms that may not be evaluated

// Collects what `ex` emits into `ops`.
static Value check_apart(Checker *cx, const Ex *ex, const Ex *cond, bool truth_of_cond, bool as_condition, TileOp **ops)
{
    TileOp **const out = cx->out;
    PresentFact *const present = cx->present;
    *ops = NULL;
    cx->out = ops;
    cx->guards++;
    assume_present(cx, cond, truth_of_cond);
    Value v = as_condition ? scalar_value(check_condition(cx, ex), ex->span) : check_expression(cx, ex);
    if (as_condition && !v.expr) v = POISON;
    cx->guards--;
    cx->present = present;
    // A value that reads what the collected statements made is only valid after them, so it stays with them.
    cx->out = out;
    return v;
}

static void append_set(Checker *cx, TileOp **ops, Var *var, Expr *value, Span span)
{
    *end_of(ops) = NEW(cx->arena, TileOp, .kind = T_SET, .span = span, .groups = cx->groups, .stage = cx->stage,
                       .let = { var, value });
}

// cond ? a : b where an arm needs statements: an `if` that sets a variable.
static Value select_by_if(Checker *cx, Span span, Expr *cond, Expr *a, TileOp *ops_a, Expr *b, TileOp *ops_b)
{
    Var *const var = tile_new_var(cx->kernel, VAR_LOCAL, a->type, "chosen", span);
    var->assigned = true;
    emit(cx, (TileOp){ .kind = T_LET, .span = span, .let = { var, NULL } });
    append_set(cx, &ops_a, var, a, span);
    append_set(cx, &ops_b, var, b, span);
    emit(cx, (TileOp){ .kind = T_IF, .span = span, .branch = { cond, ops_a, ops_b } });
    return scalar_value(expr_var(cx->arena, var), span);
}

static Value check_logic(Checker *cx, const Ex *ex)
{
    const bool is_or = ex->binary.op == OP_OROR;
    Expr *const a = check_condition(cx, ex->binary.a);
    bool known;
    if (!a) return POISON;
    if (is_const_bool(a, &known) && known == is_or) return made(a, ex->span, false);
    TileOp *ops = NULL;
    const Value right = check_apart(cx, ex->binary.b, ex->binary.a, !is_or, true, &ops);
    if (right.kind == VALUE_POISON) return POISON;
    if (is_const_bool(a, &known)) { // the other side is always evaluated
        *cx->out = ops;
        cx->out = end_of(cx->out);
        return right;
    }
    if (!ops) return made(written_binary(cx, is_or ? X_OR : X_AND, a, right.expr), ex->span, false);
    Expr *const decided = expr_bool(cx->arena, is_or);
    return is_or ? select_by_if(cx, ex->span, a, decided, NULL, right.expr, ops)
                 : select_by_if(cx, ex->span, a, right.expr, ops, decided, NULL);
}

static Value check_select(Checker *cx, const Ex *ex)
{
    Expr *const cond = check_condition(cx, ex->select.cond);
    bool known;
    if (!cond) return POISON;
    if (is_const_bool(cond, &known)) {
        PresentFact *const present = cx->present;
        assume_present(cx, ex->select.cond, known);
        const Value chosen = check_expression(cx, known ? ex->select.a : ex->select.b);
        cx->present = present;
        return chosen;
    }
    TileOp *ops_a, *ops_b;
    Value a = check_apart(cx, ex->select.a, ex->select.cond, true, false, &ops_a);
    Value b = check_apart(cx, ex->select.b, ex->select.cond, false, false, &ops_b);
    if (a.kind == VALUE_SCALAR && b.kind == VALUE_SCALAR && a.expr->type == b.expr->type && !a.flexible &&
        !b.flexible) {
        // The same type on both sides needs no widening.
    } else if (!convert_pair(cx, &a, &b, "?:")) {
        return POISON;
    }
    if (ops_a || ops_b) {
        a = settle(cx, a);
        b = settle(cx, b);
        return select_by_if(cx, ex->span, cond, a.expr, ops_a, b.expr, ops_b);
    }
    Value chosen = made(written_select(cx, cond, a.expr, b.expr), ex->span, false);
    chosen.flexible = a.flexible && b.flexible;
    return chosen;
}

// ---- all kinds

// A scalar argument of the kernel, be it fixed by a binding or not.
bool is_argument(const Entity *entity) { return entity && entity->var && entity->var->kind == VAR_ARGUMENT; }

// What a value read from memory or an argument computes in: sequential code widens at once.
static Value widen_read(Checker *cx, Value v)
{
    if (!cx->sequential || v.kind != VALUE_SCALAR || v.flexible) return v;
    if (v.expr->kind != E_LOAD && !is_argument(v.entity)) return v;
    if (dtype_is_float(v.expr->type)) v.expr = expr_convert(cx->arena, DTYPE_F64, v.expr);
    else if (dtype_is_integer(v.expr->type) && dtype_bits(v.expr->type) < 64)
        v.expr = expr_convert(cx->arena, DTYPE_INT, v.expr);
    return v;
}

Value check_expression(Checker *cx, const Ex *ex)
{
    if (!count_step(cx, ex->span)) return POISON;
    switch (ex->kind) {
    case EX_INT:
        return (Value){ .kind = VALUE_SCALAR,
                        .span = ex->span,
                        .flexible = true,
                        .is_bits = ex->integer.is_bits,
                        .expr = expr_int(cx->arena, ex->integer.value > INT64_MAX ? DTYPE_U64 : DTYPE_INT,
                                         (int64_t)ex->integer.value) };
    case EX_FLOAT:
        return (Value){ .kind = VALUE_SCALAR,
                        .span = ex->span,
                        .expr = expr_float(cx->arena, DTYPE_F64, ex->real.value),
                        .flexible = true };
    case EX_BOOL: return scalar_value(expr_bool(cx->arena, ex->boolean.value), ex->span);
    case EX_STRING:
        return (Value){ .kind = VALUE_TEXT, .span = ex->span, .text = ex->string.text, .length = ex->string.length };
    case EX_NAME: return widen_read(cx, check_name(cx, ex));
    case EX_TYPE: return (Value){ .kind = VALUE_TYPE, .span = ex->span, .type = ex->type.type };
    case EX_NONE: return (Value){ .kind = VALUE_NONE, .span = ex->span };
    case EX_UNARY: return check_unary(cx, ex);
    case EX_BINARY:
        if (ex->binary.op == OP_ANDAND || ex->binary.op == OP_OROR) return check_logic(cx, ex);
        if (ex->binary.op == OP_MATMUL) {
            check_error(cx, ex->span, "a product stands alone on the right of = or +=");
            check_help(cx, ex->span, "give it a fragment of its own: fragment f32 p[..][..] = a @ b;");
            return POISON;
        }
        if (is_function_param(cx, ex->binary.a) || is_function_param(cx, ex->binary.b))
            return check_binary(cx, ex->span, ex->binary.op, check_function_name(cx, ex->binary.a),
                                check_function_name(cx, ex->binary.b));
        const Value a = check_expression(cx, ex->binary.a);
        return check_binary(cx, ex->span, ex->binary.op, a, check_expression(cx, ex->binary.b));
    case EX_SELECT: return check_select(cx, ex);
    case EX_CALL: return check_call(cx, ex, false);
    case EX_SUBSCRIPT: return widen_read(cx, check_subscript(cx, ex));
    case EX_SET: return FAIL(cx, ex->span, "a list of values stands only in the values of a check");
    }
    return POISON;
}

Value check_scalar(Checker *cx, const Ex *ex)
{
    const Value v = check_expression(cx, ex);
    if (v.kind == VALUE_POISON || v.kind == VALUE_SCALAR) return v;
    if (v.kind == VALUE_REGION) {
        check_error(cx, ex->span, "expected a single value, found %s", show_region(cx, &v.region));
        if (v.region.buffer->rank > 0) check_help(cx, ex->span, "an element needs a subscript for each dimension");
        return POISON;
    }
    return FAIL(cx, ex->span, "expected a number, found %s", show_value(cx, &v));
}

Expr *check_int(Checker *cx, const Ex *ex, const char *what)
{
    const Value v = check_scalar(cx, ex);
    if (v.kind == VALUE_POISON) return NULL;
    if (dtype_is_float(v.expr->type)) {
        check_error(cx, ex->span, "%s must be an integer, not %s", what,
                    v.flexible ? "a fraction" : dtype_name(v.expr->type));
        return NULL;
    }
    Expr *const x = convert_expr(cx, v, DTYPE_INT);
    return x ? expr_folded(cx->arena, x) : NULL;
}

bool check_const_int(Checker *cx, const Ex *ex, const char *what, int64_t *value)
{
    const Expr *const x = check_int(cx, ex, what);
    if (!x) return false;
    if (expr_as_int(x, value)) return true;
    return check_error(cx, ex->span, "%s must be known when built, and %s is not", what, show_expr(cx, x));
}

Expr *check_condition(Checker *cx, const Ex *ex)
{
    Value v = check_expression(cx, ex);
    if (v.kind == VALUE_REGION) {
        check_error(cx, ex->span, "expected a condition, found %s", show_region(cx, &v.region));
        return NULL;
    }
    return truth(cx, v);
}
