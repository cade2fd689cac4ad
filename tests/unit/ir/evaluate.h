// SPDX-License-Identifier: MIT
// evaluate.h - a slow, plain evaluator of expressions, against which folding, ranges and plans are held, and a
// generator of random expressions that builds each one twice: folded by the builders, and node by node as it stands.
#ifndef TESTS_EVALUATE_H
#define TESTS_EVALUATE_H

#include "ir/constant.h"
#include "ir/tile.h"

#include <math.h>
#include <stdlib.h>

typedef struct Result {
    int64_t i;
    double f;
    bool undefined;
} Result;

enum { EVAL_VARS = 8 };
typedef struct EvalBinding {
    const Var *var;
    Result value;
} EvalBinding;
// wraps: `int` overflows to what two's complement makes of it, instead of being undefined.
typedef struct Env {
    EvalBinding bindings[EVAL_VARS];
    int n;
    bool wraps;
} Env;

static Result evaluate(const Expr *x, const Env *env);

static inline bool result_compare(ExprOp op, bool less, bool equal, bool greater)
{
    switch ((int)op) {
    case X_LT: return less;
    case X_LE: return less || equal;
    case X_GT: return greater;
    case X_GE: return greater || equal;
    case X_EQ: return equal;
    default: return !equal;
    }
}

// Integers in 128 bits, wrapped to the type or, for `int`, undefined where they do not fit.
static inline Result eval_int_binary(DType type, ExprOp op, int64_t a, int64_t b, const Env *env)
{
    const __int128 x = type == DTYPE_U64 ? (__int128)(uint64_t)a : a, y = type == DTYPE_U64 ? (__int128)(uint64_t)b : b;
    __int128 r = 0;
    if (op >= X_LT && op <= X_NE) return (Result){ .i = result_compare(op, x<y, x == y, x> y) };
    switch ((int)op) {
    case X_ADD: r = x + y; break;
    case X_SUB: r = x - y; break;
    case X_MUL: r = x * y; break;
    case X_DIV:
    case X_MOD:
        if (y == 0) return (Result){ .undefined = true };
        r = op == X_DIV ? x / y : x % y;
        break;
    case X_SHL:
    case X_SHR:
        if (b < 0 || b >= dtype_bits(type)) return (Result){ .undefined = true };
        r = op == X_SHL ? x * ((__int128)1 << b) : x >> b;
        break;
    case X_BITAND: r = x & y; break;
    case X_BITOR: r = x | y; break;
    case X_BITXOR: r = x ^ y; break;
    case X_AND: r = x && y; break;
    case X_OR: r = x || y; break;
    }
    if (type == DTYPE_INT && !env->wraps && (r > INT64_MAX || r < INT64_MIN)) return (Result){ .undefined = true };
    return (Result){ .i = constant_wrap(type, (int64_t)(uint64_t)(unsigned __int128)r) };
}

static inline Result eval_float_binary(DType type, ExprOp op, double a, double b)
{
    if (op >= X_LT && op <= X_NE) return (Result){ .i = result_compare(op, a<b, a == b, a> b) };
    const bool wide = type == DTYPE_F64;
    const float p = (float)a, q = (float)b;
    switch ((int)op) {
    case X_ADD: return (Result){ .f = wide ? a + b : p + q };
    case X_SUB: return (Result){ .f = wide ? a - b : p - q };
    case X_MUL: return (Result){ .f = wide ? a * b : p * q };
    default: return (Result){ .f = wide ? a / b : p / q };
    }
}

static inline Result eval_binary(const Expr *x, const Env *env)
{
    const Result a = evaluate(x->op.a, env);
    // && and || look at the right side only if they must.
    if (x->op.op == X_AND && !a.undefined && !a.i) return a;
    if (x->op.op == X_OR && !a.undefined && a.i) return a;
    const Result b = evaluate(x->op.b, env);
    if (a.undefined || b.undefined) return (Result){ .undefined = true };
    return dtype_is_float(x->op.a->type) ? eval_float_binary(x->op.a->type, x->op.op, a.f, b.f)
                                         : eval_int_binary(x->op.a->type, x->op.op, a.i, b.i, env);
}

static inline Result eval_convert(const Expr *x, const Env *env)
{
    const DType from = x->convert.a->type, to = x->type;
    const Result a = evaluate(x->convert.a, env);
    Result r = a;
    if (a.undefined) return a;
    if (dtype_is_float(from)) {
        if (dtype_is_float(to)) r.f = constant_round(to, a.f);
        else r.i = constant_truncate(to, a.f);
    } else if (dtype_is_float(to)) {
        r.f = from == DTYPE_U64 ? (double)(uint64_t)a.i : (double)a.i;
        r.f = to == DTYPE_F32 ? (from == DTYPE_U64 ? (float)(uint64_t)a.i : (float)a.i) : constant_round(to, r.f);
    } else {
        r.i = constant_wrap(to, a.i);
    }
    return r;
}

static inline Result eval_math(const Expr *x, const Env *env)
{
    Result v[3] = { 0 };
    for (int i = 0; i < x->math.n; i++) {
        v[i] = evaluate(x->math.args[i], env);
        if (v[i].undefined) return v[i];
    }
    const bool real = dtype_is_float(x->type);
    switch ((int)x->math.fn) {
    case M_MIN:
        return real ? (Result){ .f = fmin(v[0].f, v[1].f) } : (Result){ .i = v[0].i < v[1].i ? v[0].i : v[1].i };
    case M_MAX:
        return real ? (Result){ .f = fmax(v[0].f, v[1].f) } : (Result){ .i = v[0].i > v[1].i ? v[0].i : v[1].i };
    case M_CEILDIV: {
        if (v[1].i <= 0) return (Result){ .undefined = true };
        const int64_t q = v[0].i / v[1].i;
        return (Result){ .i = q + (v[0].i > q * v[1].i) };
    }
    }
    return (Result){ .undefined = true };
}

static Result evaluate(const Expr *x, const Env *env)
{
    switch ((int)x->kind) {
    case E_INT: return (Result){ .i = x->integer.value };
    case E_FLOAT: return (Result){ .f = x->real.value };
    case E_VAR:
        for (int i = 0; i < env->n; i++)
            if (env->bindings[i].var == x->var.var) return env->bindings[i].value;
        return (Result){ .undefined = true };
    case E_UNARY: {
        const Result a = evaluate(x->op.a, env);
        if (a.undefined) return a;
        if (x->op.op == X_NOT) return (Result){ .i = !a.i };
        if (dtype_is_float(x->type)) return (Result){ .f = -a.f };
        if (x->op.op == X_BITNOT) return (Result){ .i = constant_wrap(x->type, ~a.i) };
        return eval_int_binary(x->type, X_SUB, 0, a.i, env);
    }
    case E_BINARY: return eval_binary(x, env);
    case E_SELECT: {
        const Result c = evaluate(x->select.cond, env);
        return c.undefined ? c : evaluate(c.i ? x->select.a : x->select.b, env);
    }
    case E_CONVERT: return eval_convert(x, env);
    case E_MATH: return eval_math(x, env);
    }
    return (Result){ .undefined = true };
}

// ---- random expressions

typedef struct Twin {
    Expr *folded, *plain;
} Twin;
typedef struct Random {
    uint64_t state;
    Arena *arena;
    Var *ints[4], *sized[3], *floats[2]; // int; i32 u32 i64; f32 f64
} Random;

static inline int random_below(Random *r, int n)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((r->state >> 33) % (uint64_t)n);
}

static inline Twin twin_of(Expr *x) { return (Twin){ x, x }; }

static inline Twin twin_binary(Random *r, ExprOp op, Twin x, Twin y)
{
    const bool compares = op >= X_LT && op <= X_NE;
    Expr *const plain = NEW(r->arena, Expr, .kind = E_BINARY, .type = compares ? DTYPE_BOOL : x.plain->type,
                            .op = { op, x.plain, y.plain });
    return (Twin){ expr_binary(r->arena, op, x.folded, y.folded), plain };
}

static inline Twin twin_unary(Random *r, ExprOp op, Twin x)
{
    Expr *const plain = NEW(r->arena, Expr, .kind = E_UNARY, .type = x.plain->type, .op = { op, x.plain, NULL });
    return (Twin){ expr_unary(r->arena, op, x.folded), plain };
}

static inline Twin twin_convert(Random *r, DType to, Twin x)
{
    if (x.plain->type == to) return x;
    Expr *const plain = NEW(r->arena, Expr, .kind = E_CONVERT, .type = to, .convert = { x.plain });
    return (Twin){ expr_convert(r->arena, to, x.folded), plain };
}

static inline Twin twin_select(Random *r, Twin c, Twin x, Twin y)
{
    Expr *const plain =
        NEW(r->arena, Expr, .kind = E_SELECT, .type = x.plain->type, .select = { c.plain, x.plain, y.plain });
    return (Twin){ expr_select(r->arena, c.folded, x.folded, y.folded), plain };
}

static inline Twin twin_math(Random *r, MathFn fn, Twin x, Twin y)
{
    Expr *const plain =
        NEW(r->arena, Expr, .kind = E_MATH, .type = x.plain->type, .math = { fn, 2, NEW_ARRAY(r->arena, Expr *, 2) });
    plain->math.args[0] = x.plain;
    plain->math.args[1] = y.plain;
    return (Twin){ expr_math(r->arena, x.plain->type, fn, 2, (Expr *[]){ x.folded, y.folded }), plain };
}

static const int64_t random_ints[] = {
    0, 1, -1, 2, 3, 4, 7, 8, 16, 64, -64, 100, 127, 255, 1000, INT32_MAX, INT32_MIN
};
static const double random_floats[] = { 0, -0.0, 1, -1, 0.5, 3, 1e30, -1e-30, 448, INFINITY, -INFINITY, NAN };

static inline Twin random_leaf(Random *r, DType type)
{
    if (dtype_is_float(type)) {
        if (random_below(r, 2)) return twin_of(expr_var(r->arena, r->floats[type == DTYPE_F64]));
        return twin_of(expr_float(r->arena, type, random_floats[random_below(r, COUNT(random_floats))]));
    }
    if (type == DTYPE_BOOL) return twin_of(expr_bool(r->arena, random_below(r, 2)));
    if (type == DTYPE_INT && random_below(r, 2)) return twin_of(expr_var(r->arena, r->ints[random_below(r, 4)]));
    if (type != DTYPE_INT && random_below(r, 2)) {
        const int at = type == DTYPE_I32 ? 0 : type == DTYPE_U32 ? 1 : 2;
        if (r->sized[at]->type == type) return twin_of(expr_var(r->arena, r->sized[at]));
    }
    return twin_of(expr_int(r->arena, type, random_ints[random_below(r, COUNT(random_ints))]));
}

static Twin random_expr(Random *r, DType type, int depth);

static inline Twin random_bool(Random *r, int depth)
{
    static const DType of[] = { DTYPE_INT, DTYPE_I32, DTYPE_U32, DTYPE_F32 };
    switch (random_below(r, 4)) {
    case 0: return twin_unary(r, X_NOT, random_expr(r, DTYPE_BOOL, depth - 1));
    case 1:
        return twin_binary(r, random_below(r, 2) ? X_AND : X_OR, random_expr(r, DTYPE_BOOL, depth - 1),
                           random_expr(r, DTYPE_BOOL, depth - 1));
    default: {
        const DType t = of[random_below(r, COUNT(of))];
        return twin_binary(r, (ExprOp)(X_LT + random_below(r, 6)), random_expr(r, t, depth - 1),
                           random_expr(r, t, depth - 1));
    }
    }
}

static Twin random_expr(Random *r, DType type, int depth)
{
    if (depth <= 0) return random_leaf(r, type);
    if (type == DTYPE_BOOL) return random_bool(r, depth);
    const int choice = random_below(r, 12);
    if (choice == 0) return random_leaf(r, type);
    if (choice == 1)
        return twin_select(r, random_expr(r, DTYPE_BOOL, depth - 1), random_expr(r, type, depth - 1),
                           random_expr(r, type, depth - 1));
    if (choice == 2) {
        static const DType from[] = { DTYPE_INT, DTYPE_I32, DTYPE_U32, DTYPE_I64, DTYPE_F32 };
        return twin_convert(r, type, random_expr(r, from[random_below(r, COUNT(from))], depth - 1));
    }
    if (choice == 3) return twin_unary(r, X_NEG, random_expr(r, type, depth - 1));
    if (choice == 4)
        return twin_math(r, random_below(r, 2) ? M_MIN : M_MAX, random_expr(r, type, depth - 1),
                         random_expr(r, type, depth - 1));
    if (choice == 5 && type == DTYPE_INT)
        return twin_math(r, M_CEILDIV, random_expr(r, type, depth - 1), random_leaf(r, type));
    const int ops = dtype_is_float(type) ? 4 : 10; // X_ADD .. X_DIV, or to X_BITXOR
    const ExprOp op = (ExprOp)(X_ADD + random_below(r, random_below(r, 2) ? 3 : ops));
    // A shift or quotient by anything but a small constant is mostly undefined.
    const bool by_leaf = op == X_DIV || op == X_MOD || op == X_SHL || op == X_SHR;
    return twin_binary(r, op, random_expr(r, type, depth - 1),
                       by_leaf ? random_leaf(r, type) : random_expr(r, type, depth - 1));
}

#endif
