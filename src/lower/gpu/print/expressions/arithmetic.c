// SPDX-License-Identifier: MIT
// arithmetic.c - integer operations where CUDA C has no answer: division by what may be 0 or -1, shifts by what may be
// no count, sized integers that wrap. The language has one (docs/language.md, 3); --check builds stop at divisors of 0,
// and where `int` overflows.
//
// Sized arithmetic that may wrap is computed unsigned. That of `int` is not: addresses are made of it, and unsigned
// ones would keep the compiler from strength-reducing them.
#include "lower/gpu/print/expressions/expressions.h"

// `value` after a test by a function of check.cuh.
static Expr *tested(Printer *pr, const char *test, Expr *value, Span span, const char *message)
{
    return call_expr(pr, value->type, test, 3, value, fault_record(pr), trap_text(pr, span, message));
}

// a op b of `int` by a function of check.cuh that stops where it overflows.
static Expr *checked(Printer *pr, const char *name, Expr *a, Expr *b, Span span, const char *sign)
{
    return call_expr(pr, DTYPE_I64, arena_printf(pr->arena, "checked_%s", name), 4, cast(pr, DTYPE_I64, a),
                     cast(pr, DTYPE_I64, b), fault_record(pr),
                     trap_text(pr, span, arena_printf(pr->arena, "'int' overflows in '%s'", sign)));
}

static bool is_bounded(const Expr *x)
{
    const Range r = expr_range(x);
    return r.has_lo && r.has_hi;
}

static Expr *as_unsigned(Printer *pr, DType to, Expr *x)
{
    const bool was_unsigned =
        x->kind == E_CALL && x->call.n == 1 && x->call.name[0] == '(' && x->call.args[0]->type == to;
    return was_unsigned ? x->call.args[0] : expr_is_const(x) ? expr_convert(pr->arena, to, x) : cast(pr, to, x);
}

// b is NULL for a unary operator.
static Expr *by_bits(Printer *pr, ExprOp op, Expr *a, Expr *b)
{
    const DType type = a->type, bits = dtype_bits(type) == 64 ? DTYPE_U64 : DTYPE_U32;
    int64_t c;
    if (op == X_ADD && expr_as_int(b, &c) && c < 0 && c > INT32_MIN) { // x - c, as it was written
        op = X_SUB;
        b = expr_int(pr->arena, type, -c);
    }
    a = as_unsigned(pr, bits, a);
    return cast(pr, type, b ? expr_binary(pr->arena, op, a, as_unsigned(pr, bits, b)) : expr_unary(pr->arena, op, a));
}

static bool is_sum(ExprOp op) { return op == X_ADD || op == X_SUB || op == X_MUL; }

typedef struct Operation {
    ExprOp op;
    bool is_int;       // of `int`, not of a sized type
    bool is_exact;     // provably neither overflows nor wraps
    const Expr *right; // the right operand as its range is best known
    Span span;
} Operation;

// Sizes of pages and blocks are mostly powers of two, which only a launch knows.
static bool is_by_size(Printer *pr, const Operation *o, const Expr *a)
{
    return pr->divides_by_sizes && a->type == DTYPE_I32 && o->op == X_DIV && o->right->kind == E_VAR &&
           common_is_positive(o->right);
}

// The operands share a type.
static Expr *quotient(Printer *pr, const Operation *o, Expr *a, Expr *b)
{
    const char *const test = common_tested(pr->lo->kernel, o->op, o->is_int, o->span);
    if (is_by_size(pr, o, a)) return call_expr(pr, a->type, "quotient_by_size", 2, a, b);
    if (expr_divides(o->right)) return expr_binary(pr->arena, o->op, a, b);
    if (test)
        b = tested(pr, "nonzero", b, o->span, o->op == X_DIV ? "division by zero" : "remainder of a division by zero");
    if (test && o->is_int && o->op == X_DIV) return checked(pr, test, a, b, o->span, "/");
    return call_expr(pr, a->type, o->op == X_DIV ? "math_any_div" : "math_any_mod", 2, a, b);
}

static Expr *shifted(Printer *pr, const Operation *o, Expr *a, Expr *b)
{
    const char *const test = common_tested(pr->lo->kernel, o->op, o->is_int, o->span);
    const bool left = o->op == X_SHL;
    if (test && !expr_is_count(o->right, a->type))
        b = tested(pr, "shift_count", cast(pr, DTYPE_I64, b), o->span,
                   left ? "'<<' by less than 0 or more than 63" : "'>>' by less than 0 or more than 63");
    if (test && left && !o->is_exact) return checked(pr, test, a, b, o->span, "<<");
    return expr_binary(pr->arena, o->op, a, common_shift_count(pr->arena, a->type, b, o->right));
}

static Expr *sum(Printer *pr, const Operation *o, Expr *a, Expr *b)
{
    const char *const test = common_tested(pr->lo->kernel, o->op, o->is_int, o->span);
    if (test && !o->is_exact) return checked(pr, test, a, b, o->span, expr_op_info[o->op].text);
    const bool may_wrap = !o->is_int && !o->is_exact && (a->type == DTYPE_I32 || a->type == DTYPE_I64);
    return may_wrap ? by_bits(pr, o->op, a, b) : expr_binary(pr->arena, o->op, a, b);
}

static Expr *operate(Printer *pr, const Operation *o, Expr *a, Expr *b)
{
    if (dtype_is_integer(a->type) && op_divides(o->op)) return quotient(pr, o, a, b);
    if (op_shifts(o->op)) return shifted(pr, o, a, b);
    return dtype_is_integer(a->type) && is_sum(o->op) ? sum(pr, o, a, b) : expr_binary(pr->arena, o->op, a, b);
}

Expr *integer_operation(Printer *pr, const Expr *x, Expr *a, Expr *b)
{
    const bool is_int = x->type == DTYPE_INT;
    const Operation o = { x->op.op, is_int, is_int ? is_bounded(x) : expr_is_exact(x), x->op.b, x->span };
    return operate(pr, &o, a, b);
}

Expr *integer_negation(Printer *pr, const Expr *x, Expr *a)
{
    const bool is_int = x->type == DTYPE_INT;
    if (!dtype_is_integer(x->type) || dtype_is_unsigned(x->type) || (is_int ? is_bounded(x) : expr_is_exact(x)))
        return expr_unary(pr->arena, X_NEG, a);
    if (!is_int) return by_bits(pr, X_NEG, a, NULL);
    const char *const test = common_tested(pr->lo->kernel, X_SUB, true, x->span);
    return test ? checked(pr, test, i32_const(pr, 0), a, x->span, "-") : expr_unary(pr->arena, X_NEG, a);
}

Expr *integer_magnitude(Printer *pr, const Expr *x, Expr *a)
{
    const bool is_tested = a->type == DTYPE_I64 && common_tested(pr->lo->kernel, X_SUB, x->type == DTYPE_INT, x->span);
    return is_tested ? tested(pr, "checked_abs", a, x->span, "'int' overflows in 'abs'")
                     : call_expr(pr, a->type, "math_abs", 1, a);
}

Expr *integer_ceildiv(Printer *pr, const Expr *x, Expr *a, Expr *b)
{
    if (common_is_positive(x->math.args[1])) return call_expr(pr, a->type, "math_ceildiv", 2, a, b);
    if (common_tested(pr->lo->kernel, X_DIV, x->type == DTYPE_INT, x->span))
        b = tested(pr, "positive", b, x->span, "'ceildiv' by a divisor that is not positive");
    return call_expr(pr, a->type, "math_any_ceildiv", 2, a, b);
}

// ---- x op= y, also of parts of a reduction

Expr *combine(Printer *pr, const TileOp *update, UpdateOp op, DType type, Expr *a, Expr *b)
{
    a = cast(pr, type, a);
    b = cast(pr, type, b);
    if (op == UPDATE_MIN || op == UPDATE_MAX)
        return call_expr(pr, type, op == UPDATE_MIN ? "math_min" : "math_max", 2, a, b);
    if (type == DTYPE_BOOL) // | & ^ of bools; both sides are computed, for one may come by a shuffle
        return expr_binary(pr->arena, op == UPDATE_OR ? X_BITOR : op == UPDATE_AND ? X_BITAND : X_NE, a, b);
    const DType target = update->update.buffer ? update->update.buffer->type : update->update.var->type;
    const Operation o = { update_operator(op), target == DTYPE_INT, false, b, update->span };
    return operate(pr, &o, a, b);
}
