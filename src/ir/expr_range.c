// SPDX-License-Identifier: MIT
// expr_range.c - what is known of an integer expression without running it: bounds, divisors, linear form.
//
// Everything here is conservative: an answer is true of every value the variables can take. The bounds of an index
// may name other variables; cyclic or very deep questions are cut off by a budget and answered with "unknown".
#include "ir/linear.h"
#include "ir/constant.h"
#include "ir/tile.h"

// Questions about one expression share a budget of steps, so that shared subtrees cannot make them exponential.
typedef struct Asking {
    int steps;
} Asking;
enum {
    ASKING_STEPS = 2000, // of a range, a divisor, a linear form
    COMPARING_STEPS = 20000
}; // of a symbolic comparison, which tries several bounds one after the other

static Range range_of(Asking *q, const Expr *x);
static Range range_within(Asking *q, const Expr *x, bool apart);
static void add_linear(Asking *q, Linear *sum, const Expr *x, int64_t factor);

// ---- expressions

static Range type_range(DType type)
{
    int64_t lo, hi;
    if (type == DTYPE_INT) return range_unknown;
    if (type == DTYPE_U64) return (Range){ .lo = 0, .has_lo = true };
    // The limits of 64-bit types say nothing, and would make every sum look as if it could overflow.
    if (dtype_bits(type) == 64 || !dtype_limits(type, &lo, &hi)) return range_unknown;
    return range_between(lo, hi);
}

static bool is_sum(const Expr *x)
{
    if (x->kind == E_UNARY) return x->op.op == X_NEG;
    return x->kind == E_BINARY && (x->op.op == X_ADD || x->op.op == X_SUB || x->op.op == X_MUL || x->op.op == X_SHL);
}

// The terms of a sum are those of its operands.
static bool has_terms_of_operands(const Expr *x)
{
    int64_t c;
    if (x->op.op == X_MUL) return expr_as_int(x->op.b, &c) || expr_as_int(x->op.a, &c);
    return x->op.op == X_ADD || x->op.op == X_SUB || (x->kind == E_UNARY && x->op.op == X_NEG);
}

// What the operation gives over the mathematical integers, before its type makes it wrap. `apart`: as in range_within.
static Range plain_range(Asking *q, const Expr *x, bool apart)
{
    apart = apart && has_terms_of_operands(x);
    const Range a = range_within(q, x->op.a, apart);
    if (x->kind == E_UNARY)
        return x->op.op == X_NEG                                     ? range_negate(a)
               : x->op.op == X_BITNOT && !dtype_is_unsigned(x->type) ? range_add(range_negate(a), range_exactly(-1))
                                                                     : range_unknown;
    const Range b = range_within(q, x->op.b, apart);
    switch (x->op.op) {
    case X_ADD: return range_add(a, b);
    case X_SUB: return range_add(a, range_negate(b));
    case X_MUL: return range_mul(a, b);
    case X_DIV: return range_div(a, b);
    case X_MOD: return range_mod(a, b);
    case X_BITAND: return range_bitand(a, b);
    case X_SHR: return range_shr(a, b, dtype_bits(x->type));
    case X_SHL:
        return b.has_lo && b.has_hi && b.lo == b.hi && b.lo >= 0 && b.lo < 62 && b.lo < dtype_bits(x->type)
                   ? range_scale(a, INT64_C(1) << b.lo)
                   : range_unknown;
    case X_BITOR:
    case X_BITXOR: return range_bitor(a, b);
    case X_NEG:
    case X_NOT:
    case X_BITNOT:
    case X_LT:
    case X_LE:
    case X_GT:
    case X_GE:
    case X_EQ:
    case X_NE:
    case X_AND:
    case X_OR:
    case X_OP_COUNT: break;
    }
    return range_unknown;
}

static bool fits_type(Range r, DType type)
{
    if (type == DTYPE_INT) return true; // its overflow is undefined, so it does not happen
    int64_t lo, hi;
    if (type == DTYPE_U64) return r.has_lo && r.lo >= 0 && r.has_hi;
    return dtype_limits(type, &lo, &hi) && r.has_lo && r.has_hi && r.lo >= lo && r.hi <= hi;
}

static Range math_range(Asking *q, const Expr *x)
{
    const Builtin *const fn = &builtins[x->math.fn];
    Range args[BUILTIN_ARGUMENTS_MAX] = { range_unknown, range_unknown, range_unknown };
    if (!fn->range) return range_unknown;
    for (int i = 0; i < x->math.n; i++)
        if (dtype_is_counting(x->math.args[i]->type)) args[i] = range_of(q, x->math.args[i]);
    return fn->range(args);
}

// A conversion between integers that changes no value that can occur.
static bool keeps_value(Asking *q, const Expr *convert)
{
    const DType from = convert->convert.a->type, to = convert->type;
    if (!dtype_is_counting(from) || !dtype_is_counting(to)) return false;
    return dtype_holds(to, from) || fits_type(range_of(q, convert->convert.a), to == DTYPE_INT ? DTYPE_I64 : to);
}

static Range structural_range(Asking *q, const Expr *x, bool apart)
{
    switch (x->kind) {
    case E_INT: return x->type == DTYPE_U64 && x->integer.value < 0 ? range_unknown : range_exactly(x->integer.value);
    case E_VAR: {
        const Var *const v = x->var.var;
        Range r = range_unknown;
        if (v->lo) {
            const Range lo = range_of(q, v->lo);
            r.has_lo = lo.has_lo;
            r.lo = lo.lo;
        }
        if (v->hi) {
            const Range hi = range_of(q, v->hi);
            r.has_hi = hi.has_hi;
            r.hi = hi.hi;
        }
        return r;
    }
    case E_UNARY:
    case E_BINARY: {
        if (x->type == DTYPE_BOOL) return range_between(0, 1);
        const Range plain = plain_range(q, x, apart);
        return fits_type(plain, x->type) ? plain : range_unknown;
    }
    case E_SELECT: return range_join(range_of(q, x->select.a), range_of(q, x->select.b));
    case E_CONVERT: return keeps_value(q, x) ? range_of(q, x->convert.a) : range_unknown;
    case E_MATH: {
        const Range r = math_range(q, x);
        return fits_type(r, x->type) || builtins[x->math.fn].picks ? r : range_unknown;
    }
    case E_LOAD:
    case E_FLOAT:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return range_unknown;
}

static Range sum_range(Asking *q, const Linear *sum);

// `apart`: x belongs to a sum whose terms are all different. There the linear form says no more than the operands do.
static Range range_within(Asking *q, const Expr *x, bool apart)
{
    if (--q->steps < 0) return type_range(x->type);
    const bool is_int_sum = x->type == DTYPE_INT && is_sum(x);
    if (!is_int_sum || apart) return range_meet(structural_range(q, x, is_int_sum), type_range(x->type));
    Linear sum;
    linear_clear(&sum);
    add_linear(q, &sum, x, 1);
    const Range r = structural_range(q, x, !sum.failed && !sum.merged);
    return sum.merged && !sum.failed ? range_meet(r, sum_range(q, &sum)) : r;
}

static Range range_of(Asking *q, const Expr *x) { return range_within(q, x, false); }

// ---- linear form

static void add_term(Linear *sum, const Expr *atom, int64_t factor)
{
    for (int i = 0; i < sum->n; i++) {
        if (!expr_equal(sum->terms[i].atom, atom)) continue;
        sum->merged = true;
        sum->failed |= __builtin_add_overflow(sum->terms[i].factor, factor, &sum->terms[i].factor);
        if (sum->terms[i].factor == 0) sum->terms[i] = sum->terms[--sum->n];
        return;
    }
    if (sum->n == LINEAR_TERMS) sum->failed = true;
    else if (factor) sum->terms[sum->n++] = (LinearTerm){ atom, factor };
}

// The arithmetic of x can be read as that of the mathematical integers.
static bool is_exact(Asking *q, const Expr *x)
{
    return x->type == DTYPE_INT || fits_type(plain_range(q, x, false), x->type);
}

static void add_linear(Asking *q, Linear *sum, const Expr *x, int64_t factor)
{
    int64_t c, scaled;
    if (--q->steps < 0 || factor == 0 || factor == INT64_MIN) { // the last could not be negated
        sum->failed |= factor != 0;
        return;
    }
    if (x->kind == E_INT) {
        sum->failed |= x->type == DTYPE_U64 && x->integer.value < 0;
        sum->failed |= __builtin_mul_overflow(x->integer.value, factor, &scaled) ||
                       __builtin_add_overflow(sum->constant, scaled, &sum->constant);
        return;
    }
    if (x->kind == E_CONVERT && keeps_value(q, x)) {
        add_linear(q, sum, x->convert.a, factor);
        return;
    }
    if (is_sum(x) && is_exact(q, x)) {
        if (x->kind == E_UNARY) {
            add_linear(q, sum, x->op.a, -factor);
            return;
        }
        if (x->op.op == X_ADD || x->op.op == X_SUB) {
            add_linear(q, sum, x->op.a, factor);
            add_linear(q, sum, x->op.b, x->op.op == X_ADD ? factor : -factor);
            return;
        }
        const bool shift = x->op.op == X_SHL;
        const Expr *other = x->op.a;
        bool has = expr_as_int(x->op.b, &c);
        if (!has && !shift && expr_as_int(x->op.a, &c)) {
            has = true;
            other = x->op.b;
        }
        if (has && shift) {
            has = c >= 0 && c < 62;
            c = has ? INT64_C(1) << c : 0;
        }
        if (has && !__builtin_mul_overflow(c, factor, &scaled)) {
            add_linear(q, sum, other, scaled);
            return;
        }
    }
    add_term(sum, x, factor);
}

static Range sum_range(Asking *q, const Linear *sum)
{
    Range r = range_exactly(sum->constant);
    for (int i = 0; i < sum->n; i++) {
        const Expr *const atom = sum->terms[i].atom;
        // An atom is not a sum over these terms again, so this recursion gets smaller.
        Range one = range_meet(structural_range(q, atom, false), type_range(atom->type));
        r = range_add(r, range_scale(one, sum->terms[i].factor));
    }
    return r;
}

void linear_add(Linear *sum, const Expr *x, int64_t factor) { add_linear(&(Asking){ ASKING_STEPS }, sum, x, factor); }

Range linear_range(const Linear *sum)
{
    return sum->failed ? range_unknown : sum_range(&(Asking){ ASKING_STEPS }, sum);
}

// Terms with positive factors first, so that what is subtracted has something to be subtracted from.
Expr *linear_expr(Arena *a, const Linear *sum, DType type)
{
    Expr *made = NULL;
    for (int sign = 1; sign >= -1; sign -= 2) {
        for (int i = 0; i < sum->n; i++) {
            const LinearTerm term = sum->terms[i];
            if ((term.factor > 0) != (sign > 0)) continue;
            const bool subtract = made && term.factor < 0 && term.factor > INT64_MIN;
            Expr *const factor = expr_int(a, type, subtract ? -term.factor : term.factor);
            Expr *const one = expr_binary(a, X_MUL, expr_convert(a, type, (Expr *)term.atom), factor);
            made = made ? expr_binary(a, subtract ? X_SUB : X_ADD, made, one) : one;
        }
    }
    Expr *const constant = expr_int(a, type, sum->constant);
    return made ? expr_binary(a, X_ADD, made, constant) : constant;
}

Range expr_range(const Expr *x)
{
    return dtype_is_counting(x->type) ? range_of(&(Asking){ ASKING_STEPS }, x) : range_unknown;
}

bool expr_fits(const Expr *x, int64_t lo, int64_t hi)
{
    const Range r = expr_range(x);
    return r.has_lo && r.has_hi && r.lo >= lo && r.hi <= hi;
}

bool expr_divides(const Expr *x)
{
    const Range r = expr_range(x);
    return (r.has_lo && r.lo > 0) || (r.has_hi && r.hi < -1);
}

bool expr_is_count(const Expr *x, DType type) { return expr_fits(x, 0, dtype_bits(type) - 1); }

bool expr_is_exact(const Expr *x) { return is_exact(&(Asking){ ASKING_STEPS }, x); }

bool expr_affine(Arena *a, Expr *x, Var *const *vars, int n, int64_t *coefficients, Expr **rest)
{
    if (!dtype_is_counting(x->type)) return false;
    Linear sum, free_part;
    linear_clear(&sum);
    linear_clear(&free_part);
    linear_add(&sum, x, 1);
    if (sum.failed) return false;
    for (int v = 0; v < n; v++) coefficients[v] = 0;
    free_part.constant = sum.constant;
    for (int i = 0; i < sum.n; i++) {
        const LinearTerm term = sum.terms[i];
        bool is_free = true;
        for (int v = 0; v < n; v++) {
            if (term.atom->kind == E_VAR && term.atom->var.var == vars[v]) coefficients[v] += term.factor;
            else if (expr_uses(term.atom, vars[v])) return false;
            else continue;
            is_free = false;
        }
        if (is_free) free_part.terms[free_part.n++] = term;
    }
    if (rest) *rest = linear_expr(a, &free_part, x->type);
    return true;
}

// ---- multiples

int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

static int64_t power_of_two_in(int64_t m) { return m ? m & -m : 0; }

static int64_t multiple_of(Asking *q, const Expr *x);

// A variable that has one value has that value's divisors too.
static int64_t multiple_of_var(Asking *q, const Var *v)
{
    const int64_t own = v->multiple > 1 ? v->multiple : 1,
                  value = v->lo && v->lo == v->hi ? multiple_of(q, v->lo) : own;
    return value % own == 0 ? value : own;
}

// As long as nothing wraps around.
static int64_t multiple_of_binary(Asking *q, const Expr *x)
{
    const int64_t a = multiple_of(q, x->op.a);
    int64_t b, c, m;
    switch ((int)x->op.op) {
    case X_ADD:
    case X_SUB:
    case X_MOD: return gcd(a, multiple_of(q, x->op.b));
    case X_MUL: b = multiple_of(q, x->op.b); return !__builtin_mul_overflow(a, b, &m) ? m : a > b ? a : b;
    case X_DIV: return expr_as_int(x->op.b, &c) && c > 0 && a % c == 0 ? a / c : 1;
    case X_SHL:
        return expr_as_int(x->op.b, &c) && c >= 0 && c < 62 && c < dtype_bits(x->type) &&
                       !__builtin_mul_overflow(a, INT64_C(1) << c, &m)
                   ? m
                   : a;
    case X_BITAND:
        b = multiple_of(q, x->op.b);
        if (a == 0 || b == 0) return 0;
        return power_of_two_in(a) > power_of_two_in(b) ? power_of_two_in(a) : power_of_two_in(b);
    default: return 1;
    }
}

static int64_t multiple_of(Asking *q, const Expr *x)
{
    if (--q->steps < 0 || !dtype_is_counting(x->type)) return 1;
    int64_t m;
    switch (x->kind) {
    case E_INT:
        return x->integer.value == INT64_MIN ? INT64_C(1) << 62
               : x->integer.value < 0        ? -x->integer.value
                                             : x->integer.value;
    case E_VAR: return multiple_of_var(q, x->var.var);
    case E_UNARY: m = x->op.op == X_NEG ? multiple_of(q, x->op.a) : 1; return is_exact(q, x) ? m : power_of_two_in(m);
    case E_SELECT: return gcd(multiple_of(q, x->select.a), multiple_of(q, x->select.b));
    case E_CONVERT:
        m = multiple_of(q, x->convert.a); // 1 if it is no integer
        return keeps_value(q, x) ? m : x->type == DTYPE_BOOL ? 1 : power_of_two_in(m);
    case E_MATH:
        if (x->math.fn != M_MIN && x->math.fn != M_MAX) return 1;
        return gcd(multiple_of(q, x->math.args[0]), multiple_of(q, x->math.args[1]));
    case E_BINARY: m = multiple_of_binary(q, x); return is_exact(q, x) ? m : power_of_two_in(m);
    case E_FLOAT:
    case E_LOAD:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return 1;
}

int64_t expr_multiple(const Expr *x) { return multiple_of(&(Asking){ ASKING_STEPS }, x); }

// ---- symbolic comparison

// Of the terms' variables with a bound on the side that matters, the one made last: its bound names only others.
static int find_eliminable(const Linear *sum)
{
    int found = -1;
    for (int i = 0; i < sum->n; i++) {
        const Expr *const atom = sum->terms[i].atom;
        if (atom->kind != E_VAR) continue;
        const Var *const v = atom->var.var;
        if (!(sum->terms[i].factor > 0 ? v->lo : v->hi)) continue;
        if (found < 0 || v->id > sum->terms[found].atom->var.var->id) found = i;
    }
    return found;
}

// A lower bound of atom * factor that is again a sum, for the functions whose bounds are linear.
static bool bound_atom(Asking *q, Linear *sum, const Expr *atom, int64_t factor)
{
    int64_t c;
    if (atom->kind == E_MATH && (atom->math.fn == (factor > 0 ? M_MAX : M_MIN))) {
        add_linear(q, sum, atom->math.args[0], factor); // max(a, b) >= a; min(a, b) <= a
        return true;
    }
    const bool quotient = atom->kind == E_BINARY && atom->op.op == X_DIV;
    const bool ceiling = atom->kind == E_MATH && atom->math.fn == M_CEILDIV;
    const Expr *const x = quotient ? atom->op.a : ceiling ? atom->math.args[0] : NULL;
    const Expr *const d = quotient ? atom->op.b : ceiling ? atom->math.args[1] : NULL;
    if (!x || !expr_as_int(d, &c) || c <= 0 || factor % c != 0) return false;
    if (ceiling && factor > 0) { // ceildiv(x, c) * c >= x
        add_linear(q, sum, x, factor / c);
        return true;
    }
    const Range r = dtype_is_counting(x->type) ? range_of(q, x) : range_unknown;
    if (quotient && factor < 0 && r.has_lo && r.lo >= 0) { // (x / c) * c <= x for x >= 0
        add_linear(q, sum, x, factor / c);
        return true;
    }
    if (ceiling && factor < 0) { // ceildiv(x, c) * c <= x + c - gcd(c, multiple of x)
        const int64_t m = multiple_of(q, x);
        add_linear(q, sum, x, factor / c);
        int64_t slack;
        return !__builtin_mul_overflow(factor / c, c - gcd(c, m), &slack) &&
               !__builtin_add_overflow(sum->constant, slack, &sum->constant);
    }
    return false;
}

static bool is_nonnegative(Asking *q, Linear sum, int rounds)
{
    if (sum.failed || q->steps < 0) return false;
    const Range r = sum_range(q, &sum);
    if (r.has_lo && r.lo >= 0) return true;
    if (rounds == 0) return false;
    const int at = find_eliminable(&sum);
    if (at >= 0) {
        const LinearTerm term = sum.terms[at];
        const Var *const v = term.atom->var.var;
        Linear less = sum;
        less.terms[at] = less.terms[--less.n];
        add_linear(q, &less, term.factor > 0 ? v->lo : v->hi, term.factor);
        if (is_nonnegative(q, less, rounds - 1)) return true;
    }
    for (int i = 0; i < sum.n; i++) {
        const LinearTerm term = sum.terms[i];
        Linear less = sum;
        less.terms[i] = less.terms[--less.n];
        if (bound_atom(q, &less, term.atom, term.factor) && is_nonnegative(q, less, rounds - 1)) return true;
        // The other side of a maximum or minimum.
        if (term.atom->kind == E_MATH && term.atom->math.n == 2 &&
            term.atom->math.fn == (term.factor > 0 ? M_MAX : M_MIN)) {
            less = sum;
            less.terms[i] = less.terms[--less.n];
            add_linear(q, &less, term.atom->math.args[1], term.factor);
            if (is_nonnegative(q, less, rounds - 1)) return true;
        }
    }
    return false;
}

bool linear_at_least(const Linear *sum, int64_t least)
{
    enum { ROUNDS = 6 };
    Linear rest = *sum;
    rest.failed |= __builtin_sub_overflow(rest.constant, least, &rest.constant);
    return is_nonnegative(&(Asking){ COMPARING_STEPS }, rest, ROUNDS);
}

bool expr_at_least(const Expr *x, const Expr *y)
{
    Linear difference;
    linear_clear(&difference);
    linear_add(&difference, x, 1);
    linear_add(&difference, y, -1);
    return linear_at_least(&difference, 0);
}
