// SPDX-License-Identifier: MIT
// expr_fold.c - the builders that compute: constants fold, and identities that are exact for the type apply.
//
// Floating point keeps NaN, infinities and the sign of zero: x*1 is x, x+0 is not, x-x is not 0. Sized integers
// wrap. Overflow of `int` is undefined: where the result itself overflows nothing is folded, so that --check builds can
// trap it; sums are put in order, which may move an overflow of a part that no kernel's indices come near.
// What has an effect (an atomic, a call) is never dropped.
#include "ir/linear.h"
#include "ir/constant.h"

#include <assert.h>
#include <math.h>

static bool is_int_value(const Expr *x, int64_t value) { return x->kind == E_INT && x->integer.value == value; }

// ---- constants

Expr *expr_int(Arena *a, DType type, int64_t value)
{
    assert(dtype_is_counting(type) && "an integer constant has an integer type");
    return NEW(a, Expr, .kind = E_INT, .type = type, .integer = { constant_wrap(type, value) });
}

Expr *expr_bool(Arena *a, bool value) { return expr_int(a, DTYPE_BOOL, value); }

Expr *expr_float(Arena *a, DType type, double value)
{
    assert(dtype_is_float(type) && "a floating constant has a floating type");
    return NEW(a, Expr, .kind = E_FLOAT, .type = type, .real = { constant_round(type, value) });
}

static Expr *expr_node(Arena *a, DType type, ExprOp op, Expr *x, Expr *y)
{
    return NEW(a, Expr, .kind = y ? E_BINARY : E_UNARY, .type = type, .span = y ? span_join(x->span, y->span) : x->span,
               .op = { op, x, y });
}

// Whether constants have a result; where a --check build stops they have none.
static bool compute_int(ExprOp op, DType type, int64_t x, int64_t y, int64_t *result)
{
    return op_compute_int(op, type, x, y, result) == OP_FAULT_NONE;
}

static bool compare_consts(ExprOp op, const Expr *x, const Expr *y)
{
    return x->kind == E_FLOAT ? op_compare_float(op, x->real.value, y->real.value)
                              : op_compare_int(op, x->type, x->integer.value, y->integer.value);
}

// ---- unary

static bool negated_comparison(ExprOp op, DType operands, ExprOp *negated)
{
    static const ExprOp opposite[] = {
        [X_LT] = X_GE, [X_LE] = X_GT, [X_GT] = X_LE, [X_GE] = X_LT, [X_EQ] = X_NE, [X_NE] = X_EQ,
    };
    if (!op_compares(op)) return false;
    // With a NaN, !(a < b) holds and a >= b does not.
    if (dtype_is_float(operands) && op != X_EQ && op != X_NE) return false;
    *negated = opposite[op];
    return true;
}

Expr *expr_unary(Arena *a, ExprOp op, Expr *x)
{
    ExprOp negated;
    if (x->kind == E_UNARY && x->op.op == op) return x->op.a; // - - x, ~ ~ x, ! ! x
    if (op == X_NEG) {
        if (x->kind == E_FLOAT) return expr_float(a, x->type, -x->real.value);
        int64_t value;
        if (x->kind == E_INT && compute_int(X_SUB, x->type, 0, x->integer.value, &value))
            return expr_int(a, x->type, value);
    }
    if (op == X_BITNOT && x->kind == E_INT) return expr_int(a, x->type, ~x->integer.value);
    if (op == X_NOT) {
        assert(x->type == DTYPE_BOOL && "! takes a bool");
        if (x->kind == E_INT) return expr_bool(a, !x->integer.value);
        if (x->kind == E_BINARY && negated_comparison(x->op.op, x->op.a->type, &negated))
            return expr_binary(a, negated, x->op.a, x->op.b);
    }
    return expr_node(a, x->type, op, x, NULL);
}

// ---- integer identities

static bool is_commutative(ExprOp op)
{
    return op == X_ADD || op == X_MUL || op == X_BITAND || op == X_BITOR || op == X_BITXOR || op == X_EQ || op == X_NE;
}

// x / c where every term of x is a multiple of c, and no wrapping is involved.
static Expr *divide_exactly(Arena *a, const Linear *sum, int64_t c)
{
    Linear quotient = { .constant = sum->constant / c, .n = sum->n };
    for (int i = 0; i < sum->n; i++) quotient.terms[i] = (LinearTerm){ sum->terms[i].atom, sum->terms[i].factor / c };
    return linear_expr(a, &quotient, DTYPE_INT);
}

// x / c and x % c for a constant c > 0, where x = c*p + r with 0 <= r < c and p >= 0 known: p and r.
static Expr *fold_quotient(Arena *a, ExprOp op, Expr *x, int64_t c)
{
    if (x->type != DTYPE_INT || c <= 0) return NULL;
    Linear sum, whole, rest;
    linear_clear(&sum);
    linear_clear(&whole);
    linear_clear(&rest);
    linear_add(&sum, x, 1);
    if (sum.failed || sum.n == 0) return NULL;
    for (int i = 0; i < sum.n; i++) {
        Linear *const part = sum.terms[i].factor % c == 0 ? &whole : &rest;
        part->terms[part->n++] = sum.terms[i];
    }
    rest.constant = sum.constant % c;
    whole.constant = sum.constant - rest.constant;
    if (rest.constant < 0) { // so that the rest can be non-negative
        rest.constant += c;
        if (__builtin_sub_overflow(whole.constant, c, &whole.constant)) return NULL;
    }
    const Range r = linear_range(&rest);
    if (!(r.has_lo && r.has_hi && r.lo >= 0 && r.hi < c)) return NULL;
    const Range w = linear_range(&whole);
    const bool exact = rest.n == 0 && rest.constant == 0; // then the sign does not matter
    if (!exact && !(w.has_lo && w.lo >= 0)) return NULL;
    return op == X_DIV ? divide_exactly(a, &whole, c) : linear_expr(a, &rest, DTYPE_INT);
}

static bool is_exact_quotient(const Expr *x, int64_t c)
{
    int64_t d;
    if (x->type != DTYPE_INT) return false;
    const Expr *const by = x->kind == E_BINARY && x->op.op == X_DIV       ? x->op.b
                           : x->kind == E_MATH && x->math.fn == M_CEILDIV ? x->math.args[1]
                                                                          : NULL;
    if (!by || !expr_as_int(by, &d) || d != c) return false;
    return expr_multiple(x->kind == E_MATH ? x->math.args[0] : x->op.a) % c == 0;
}

static Expr *fold_int_by_const(Arena *a, ExprOp op, Expr *x, int64_t c, DType type)
{
    int64_t inner, both;
    const int64_t ones = constant_wrap(type, -1);
    switch ((int)op) {
    case X_ADD:
        if (c == 0) return x;
        if (x->kind == E_BINARY && x->op.op == X_ADD && expr_as_int(x->op.b, &inner) &&
            compute_int(X_ADD, type, inner, c, &both))
            return expr_binary(a, X_ADD, x->op.a, expr_int(a, type, both));
        return NULL;
    case X_MUL:
        if (c == 1) return x;
        if (c == -1 && !dtype_is_unsigned(type)) return expr_unary(a, X_NEG, x);
        if (c == 0 && expr_is_pure(x)) return expr_int(a, type, 0);
        if (x->kind == E_BINARY && x->op.op == X_MUL && expr_as_int(x->op.b, &inner) &&
            compute_int(X_MUL, type, inner, c, &both))
            return expr_binary(a, X_MUL, x->op.a, expr_int(a, type, both));
        if (c > 0 && is_exact_quotient(x, c)) return x->kind == E_MATH ? x->math.args[0] : x->op.a;
        return NULL;
    case X_DIV:
        if (c == 1) return x;
        return fold_quotient(a, op, x, c);
    case X_MOD:
        if (c == 1 && expr_is_pure(x)) return expr_int(a, type, 0);
        if (c > 0 && c < INT64_MAX && expr_is_pure(x) && expr_multiple(x) % c == 0) return expr_int(a, type, 0);
        if (c > 0 && expr_fits(x, 0, c - 1)) return x;
        return fold_quotient(a, op, x, c);
    case X_SHL:
    case X_SHR: return c == 0 ? x : NULL;
    case X_BITAND:
        if (c == 0 && expr_is_pure(x)) return expr_int(a, type, 0);
        if (c == ones) return x;
        // A mask of low bits that the value cannot exceed.
        return c > 0 && c < INT64_MAX && (c & (c + 1)) == 0 && expr_fits(x, 0, c) ? x : NULL;
    case X_BITOR:
    case X_BITXOR: return c == 0 ? x : NULL;
    default: return NULL;
    }
}

static Expr *fold_int(Arena *a, ExprOp op, Expr *x, Expr *y)
{
    const DType type = x->type;
    int64_t p, q, result = 0;
    const bool has_x = expr_as_int(x, &p), has_y = expr_as_int(y, &q);
    if (has_x && has_y) return compute_int(op, type, p, q, &result) ? expr_int(a, type, result) : NULL;
    if (has_x && is_commutative(op)) return expr_binary(a, op, y, x);
    // x - c is x + -c, so that constants meet; the printers write it as it was. Unsigned, -c would hide the range.
    if (has_y && op == X_SUB && !dtype_is_unsigned(type) && compute_int(X_SUB, type, 0, q, &result))
        return expr_binary(a, X_ADD, x, expr_int(a, type, result));
    if (has_y) return fold_int_by_const(a, op, x, q, type);
    if (has_x && p == 0 && (op == X_SHL || op == X_SHR) && expr_is_pure(y)) return x;
    if (op == X_SUB && expr_equal(x, y) && expr_is_pure(x)) return expr_int(a, type, 0);
    if ((op == X_BITAND || op == X_BITOR) && expr_equal(x, y)) return x;
    if (op == X_ADD && y->kind == E_UNARY && y->op.op == X_NEG) return expr_binary(a, X_SUB, x, y->op.a);
    if (op == X_ADD && x->kind == E_UNARY && x->op.op == X_NEG) return expr_binary(a, X_SUB, y, x->op.a);
    // (x + c) + y is (x + y) + c: the constant stays outermost and last.
    if (type == DTYPE_INT && op == X_ADD) {
        if (x->kind == E_BINARY && x->op.op == X_ADD && x->op.b->kind == E_INT)
            return expr_binary(a, X_ADD, expr_binary(a, X_ADD, x->op.a, y), x->op.b);
        if (y->kind == E_BINARY && y->op.op == X_ADD && y->op.b->kind == E_INT)
            return expr_binary(a, X_ADD, expr_binary(a, X_ADD, x, y->op.a), y->op.b);
    }
    // A sum in which terms cancel or meet.
    if (type == DTYPE_INT && (op == X_ADD || op == X_SUB)) {
        Linear left, both;
        linear_clear(&left);
        linear_clear(&both);
        linear_add(&left, x, 1);
        const int left_terms = left.n;
        linear_add(&both, y, 1);
        const int right_terms = both.n;
        linear_add(&left, y, op == X_ADD ? 1 : -1);
        if (!left.failed && !both.failed && left.n < left_terms + right_terms && expr_is_pure(x) && expr_is_pure(y))
            return linear_expr(a, &left, DTYPE_INT);
    }
    return NULL;
}

// Comparisons of integers whose difference has a known sign.
static Expr *fold_comparison(Arena *a, ExprOp op, Expr *x, Expr *y)
{
    if (!dtype_is_counting(x->type) || !expr_is_pure(x) || !expr_is_pure(y)) return NULL;
    Linear difference;
    linear_clear(&difference);
    linear_add(&difference, x, 1);
    linear_add(&difference, y, -1);
    const Range d = linear_range(&difference);
    const bool below = d.has_hi && d.hi < 0, above = d.has_lo && d.lo > 0;
    const bool same = d.has_lo && d.has_hi && d.lo == 0 && d.hi == 0;
    if (below || above || same) return expr_bool(a, op_compare(op, below, same, above));
    if (d.has_lo && d.lo >= 0 && (op == X_LT || op == X_GE)) return expr_bool(a, op == X_GE);
    if (d.has_hi && d.hi <= 0 && (op == X_GT || op == X_LE)) return expr_bool(a, op == X_LE);
    return NULL;
}

static Expr *fold_logic(Arena *a, ExprOp op, Expr *x, Expr *y)
{
    const bool decides = op == X_OR; // the value of one side that decides
    if (x->kind == E_INT) return (x->integer.value != 0) == decides ? x : y;
    if (y->kind == E_INT) {
        if ((y->integer.value != 0) != decides) return x;
        return expr_is_pure(x) ? y : NULL;
    }
    return expr_equal(x, y) ? x : NULL;
}

static Expr *fold_float(Arena *a, ExprOp op, Expr *x, Expr *y)
{
    const bool computes = op == X_ADD || op == X_SUB || op == X_MUL || op == X_DIV;
    if (x->kind == E_FLOAT && y->kind == E_FLOAT) {
        if (!computes || (x->type != DTYPE_F64 && x->type != DTYPE_F32)) return NULL;
        return expr_float(a, x->type, op_compute_float(op, x->type, x->real.value, y->real.value));
    }
    if (op == X_MUL && x->kind == E_FLOAT && x->real.value == 1) return y;
    if (y->kind != E_FLOAT) return NULL;
    const double c = y->real.value;
    if ((op == X_MUL || op == X_DIV) && c == 1) return x;
    if (op == X_ADD && c == 0 && signbit(c)) return x;
    if (op == X_SUB && c == 0 && !signbit(c)) return x;
    return NULL;
}

Expr *expr_binary(Arena *a, ExprOp op, Expr *x, Expr *y)
{
    assert((x->type == y->type || op == X_SHL || op == X_SHR) && "operands share a type");
    Expr *folded = NULL;
    if (op == X_AND || op == X_OR) {
        assert(x->type == DTYPE_BOOL && "&& and || take bools");
        folded = fold_logic(a, op, x, y);
    } else if (op_compares(op)) {
        if (expr_is_const(x) && expr_is_const(y)) folded = expr_bool(a, compare_consts(op, x, y));
        else folded = fold_comparison(a, op, x, y);
    } else if (dtype_is_float(x->type)) {
        folded = fold_float(a, op, x, y);
    } else if (dtype_is_counting(x->type)) {
        folded = fold_int(a, op, x, y);
    }
    return folded ? folded : expr_node(a, op_compares(op) ? DTYPE_BOOL : x->type, op, x, y);
}

// ---- select, conversions

Expr *expr_select(Arena *a, Expr *cond, Expr *x, Expr *y)
{
    assert(x->type == y->type && cond->type == DTYPE_BOOL && "both arms of ?: have one type");
    if (cond->kind == E_INT) return cond->integer.value ? x : y;
    if (expr_equal(x, y) && expr_is_pure(cond)) return x;
    if (x->type == DTYPE_BOOL && is_int_value(x, 1) && is_int_value(y, 0)) return cond;
    if (x->type == DTYPE_BOOL && is_int_value(x, 0) && is_int_value(y, 1)) return expr_unary(a, X_NOT, cond);
    return NEW(a, Expr, .kind = E_SELECT, .type = x->type, .span = span_join(cond->span, y->span),
               .select = { cond, x, y });
}

static Expr *convert_const(Arena *a, DType to, const Expr *x)
{
    double real;
    if (x->kind == E_FLOAT)
        return dtype_is_float(to) ? expr_float(a, to, x->real.value)
                                  : expr_int(a, to, constant_truncate(to, x->real.value));
    if (!dtype_is_float(to)) return expr_int(a, to, x->integer.value);
    return constant_float_from_int(to, x->type, x->integer.value, &real) ? expr_float(a, to, real) : NULL;
}

Expr *expr_convert(Arena *a, DType to, Expr *x)
{
    if (x->type == to) return x;
    Expr *const folded = expr_is_const(x) ? convert_const(a, to, x) : NULL;
    if (folded) return folded;
    // What was widened exactly is converted from where it began. Through another class (integer to float to
    // integer) it is not: the rules of the two steps differ.
    if (x->kind == E_CONVERT) {
        const DType first = x->convert.a->type;
        const bool one_class =
            dtype_is_float(first) == dtype_is_float(x->type) && dtype_is_float(first) == dtype_is_float(to);
        if (one_class && dtype_holds(x->type, first) && first != DTYPE_BOOL) return expr_convert(a, to, x->convert.a);
    }
    return NEW(a, Expr, .kind = E_CONVERT, .type = to, .span = x->span, .convert = { x });
}

Expr *expr_bitcast(Arena *a, DType to, Expr *x)
{
    if (x->type == to) return x;
    assert(dtype_bits(x->type) == dtype_bits(to) && "a bitcast keeps the size");
    if (x->kind == E_INT && !dtype_is_float(to)) return expr_int(a, to, x->integer.value);
    if (x->kind == E_FLOAT && x->type == DTYPE_F32 && !isnan(x->real.value) && dtype_is_counting(to)) {
        const float value = (float)x->real.value;
        int32_t bits;
        memcpy(&bits, &value, 4);
        return expr_int(a, to, bits);
    }
    if (x->kind == E_INT && to == DTYPE_F32) {
        const int32_t bits = (int32_t)x->integer.value;
        float value;
        memcpy(&value, &bits, 4);
        if (!isnan(value)) return expr_float(a, to, value); // a NaN's payload would be lost
    }
    return NEW(a, Expr, .kind = E_BITCAST, .type = to, .span = x->span, .convert = { x });
}

// ---- functions

static Expr *fold_math_consts(Arena *a, DType type, MathFn fn, int n, Expr **args)
{
    const DType of = args[0]->type;
    double reals[BUILTIN_ARGUMENTS_MAX];
    int64_t ints[BUILTIN_ARGUMENTS_MAX], value;
    if (!builtin_computes(fn, of)) return NULL;
    for (int i = 0; i < n; i++) {
        if (!expr_is_const(args[i]) || args[i]->kind != args[0]->kind) return NULL;
        if (args[i]->kind == E_FLOAT) reals[i] = args[i]->real.value;
        else ints[i] = args[i]->integer.value;
    }
    if (args[0]->kind == E_INT)
        return builtins[fn].integer(of, ints, &value) == OP_FAULT_NONE ? expr_int(a, type, value) : NULL;
    return of == DTYPE_F64 || of == DTYPE_F32 ? expr_float(a, type, builtins[fn].real(of, reals)) : NULL;
}

// min and max of integers of which one is known to win, or that nest with constants.
static Expr *fold_extreme(Arena *a, MathFn fn, Expr *x, Expr *y)
{
    int64_t p, q;
    if (expr_equal(x, y) && expr_is_pure(x)) return x;
    if (!dtype_is_counting(x->type)) return NULL;
    if (x->kind == E_INT) return expr_math(a, x->type, fn, 2, (Expr *[]){ y, x });
    if (expr_is_pure(x) && expr_is_pure(y)) {
        Expr *const less = fold_comparison(a, X_LE, x, y);
        if (less) return (less->integer.value != 0) == (fn == M_MIN) ? x : y;
        Expr *const more = fold_comparison(a, X_GE, x, y);
        if (more) return (more->integer.value != 0) == (fn == M_MAX) ? x : y;
    }
    if (x->kind == E_MATH && x->math.fn == fn && expr_as_int(x->math.args[1], &p) && expr_as_int(y, &q))
        return expr_math(a, x->type, fn, 2,
                         (Expr *[]){ x->math.args[0], expr_math(a, x->type, fn, 2, (Expr *[]){ x->math.args[1], y }) });
    return NULL;
}

static Expr *fold_ceildiv(Arena *a, Expr *x, Expr *d)
{
    int64_t c;
    if (!expr_as_int(d, &c) || c <= 0) return NULL;
    if (c == 1) return x;
    if (x->type != DTYPE_INT || !expr_is_pure(x)) return NULL;
    Linear sum;
    linear_clear(&sum);
    linear_add(&sum, x, 1);
    bool exact = !sum.failed && sum.n > 0 && sum.constant % c == 0;
    for (int i = 0; i < sum.n; i++) exact &= sum.terms[i].factor % c == 0;
    if (exact) return divide_exactly(a, &sum, c);
    const Range r = expr_range(x);
    if (r.has_lo && r.has_hi) {
        const int64_t lo = r.lo / c + (r.lo % c > 0), hi = r.hi / c + (r.hi % c > 0);
        if (lo == hi) return expr_int(a, DTYPE_INT, lo);
    }
    // Of a known multiple the quotient is exact, which later folds can use.
    return expr_multiple(x) % c == 0 ? expr_binary(a, X_DIV, x, d) : NULL;
}

Expr *expr_math(Arena *a, DType type, MathFn fn, int n, Expr **args)
{
    assert(n == builtins[fn].arguments && "a function has its number of arguments");
    Expr *folded = fold_math_consts(a, type, fn, n, args);
    if (!folded && (fn == M_MIN || fn == M_MAX)) folded = fold_extreme(a, fn, args[0], args[1]);
    if (!folded && fn == M_CEILDIV) folded = fold_ceildiv(a, args[0], args[1]);
    if (!folded && fn == M_ABS && dtype_is_unsigned(type)) folded = args[0];
    if (folded) return folded;
    Expr *const x = NEW(a, Expr, .kind = E_MATH, .type = type, .math = { fn, n, NEW_ARRAY(a, Expr *, n) });
    for (int i = 0; i < n; i++) {
        x->math.args[i] = args[i];
        x->span = span_join(x->span, args[i]->span);
    }
    return x;
}
