// SPDX-License-Identifier: MIT
// scalar.c - scalar expressions of Tile IR as expressions of Loop IR.
//
// `int` means 64 bits; what provably fits 32 is computed in 32, and the two meet by widening. Values of narrow
// floating types are their bits (u16, u8) until they are converted.
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

#include <assert.h>

static bool fits_i32(Range r) { return r.has_lo && r.has_hi && r.lo >= INT32_MIN && r.hi <= INT32_MAX; }

Var **var_slot(Printer *pr, const Var *var)
{
    if (var->id >= pr->n_vars) {
        const int n = 2 * var->id + 64;
        Var **const grown = NEW_ARRAY(pr->arena, Var *, n);
        if (pr->n_vars) memcpy(grown, pr->vars, sizeof(Var *) * (size_t)pr->n_vars);
        pr->vars = grown;
        pr->n_vars = n;
    }
    return &pr->vars[var->id];
}

KnownVars known_vars(Printer *pr)
{
    const KnownVars known = { NEW_ARRAY(pr->arena, Var *, pr->n_vars), pr->n_vars };
    memcpy(known.vars, pr->vars, sizeof(Var *) * (size_t)known.n);
    return known;
}

void restore_vars(Printer *pr, KnownVars known) { memcpy(pr->vars, known.vars, sizeof(Var *) * (size_t)known.n); }

Var *loop_var(Printer *pr, Var *var)
{
    Var **const slot = var_slot(pr, var);
    Var *known = *slot;
    if (!known) {
        DType type = loop_type(var->type);
        const bool is_fixed = var->kind == VAR_INDEX || var->kind == VAR_GRID || var->kind == VAR_SYMBOL ||
                              (var->kind == VAR_LOCAL && !var->assigned);
        if (var->type == DTYPE_INT && is_fixed && fits_i32(expr_range(expr_var(pr->arena, var)))) type = DTYPE_I32;
        known = *slot = loop_new_var(pr->unit, type, var->name);
    }
    return known;
}

// ---- conversions

static const char *conversion_name(Printer *pr, DType to, DType from)
{
    return arena_printf(pr->arena, "%s_to_%s", dtype_name(from), dtype_name(to));
}

// To the type it computes in; `from` tells how the bits of a narrow float are to be read.
static Expr *widen(Printer *pr, DType from, Expr *x)
{
    const DType wide = common_widened(from);
    if (from != wide && from != DTYPE_TF32) return call_expr(pr, wide, conversion_name(pr, wide, from), 1, x);
    return dtype_bits(x->type) < 32 && !dtype_is_float(x->type) ? cast(pr, DTYPE_I32, x) : x;
}

// Whether f32 on the way to a narrower type would round what that type then rounds again: integers that f32 does not
// hold are beyond the other narrow types.
static bool rounds_twice(DType to, DType from)
{
    if (!dtype_is_narrow_float(to) && to != DTYPE_TF32) return false;
    return from == DTYPE_F64 || (dtype_is_integer(from) && dtype_bits(from) >= 32 &&
                                 (to == DTYPE_BF16 || to == DTYPE_TF32 || to == DTYPE_E8M0));
}

// On the way to a narrow float.
static Expr *to_f32(Printer *pr, DType to, DType from, Expr *x)
{
    return rounds_twice(to, from) ? call_expr(pr, DTYPE_F32, "odd_f32", 1, x) : cast(pr, DTYPE_F32, x);
}

Expr *to_dtype(Printer *pr, DType to, DType from, Expr *x)
{
    if (to == from) return x;
    if (to == DTYPE_F32 && dtype_is_packed(from) && dtype_is_integer(from))
        return call_expr(pr, DTYPE_F32, conversion_name(pr, to, from), 1, x);
    x = widen(pr, from, x);
    switch (common_convert_step(to, x->type)) {
    case CONVERT_TRUTH: return expr_binary(pr->arena, X_NE, x, zero_of(pr->lo, x->type));
    case CONVERT_NARROW:
        return call_expr(pr, loop_type(to), conversion_name(pr, to, DTYPE_F32), 1, to_f32(pr, to, from, x));
    case CONVERT_TF32: return call_expr(pr, DTYPE_F32, "f32_to_tf32", 1, to_f32(pr, to, from, x));
    case CONVERT_SATURATE: // and truncates
        return call_expr(pr, loop_type(to), conversion_name(pr, dtype_is_packed(to) ? to : loop_type(to), x->type), 1,
                         x);
    case CONVERT_PACK: // what stores it takes its bits
    case CONVERT_CAST: break;
    }
    if (to == DTYPE_INT && (x->type == DTYPE_I32 || x->type == DTYPE_I64)) return x; // `int` may stay in 32 bits
    return cast(pr, loop_type(to), x);
}

Expr *lower_as(Printer *pr, DType type, Expr *x, const Iteration *it)
{
    Expr *const value = lower_expr(pr, x, it);
    if (type == DTYPE_INT || type == DTYPE_I64) return cast(pr, DTYPE_I64, to_dtype(pr, type, x->type, value));
    return to_dtype(pr, type, x->type, value);
}

Expr *lower_int64(Printer *pr, Expr *x, const Iteration *it) { return cast(pr, DTYPE_I64, lower_expr(pr, x, it)); }

// ---- arithmetic

// Both in one type: the wider of the two if they are i32 and i64.
static void unify(Printer *pr, Expr **a, Expr **b)
{
    if ((*a)->type == (*b)->type) return;
    if ((*a)->type == DTYPE_I64) *b = cast(pr, DTYPE_I64, *b);
    else if ((*b)->type == DTYPE_I64) *a = cast(pr, DTYPE_I64, *a);
    else if ((*a)->type != (*b)->type) *b = cast(pr, (*a)->type, *b);
}

static bool leaves_registers(const Expr *x, void *context)
{
    const Lowering *const lo = ((const Printer *)context)->lo;
    return x->kind == E_ATOMIC || x->kind == E_CALL ||
           (x->kind == E_LOAD && !is_fragment_in_registers(lo, x->load.buffer));
}

// In a forall the divisor is often that of a whole row. Its reciprocal is computed before the statement, even where the
// division stands under a condition: what is the same for neighbours the compiler then computes once.
static Expr *divide(Printer *pr, const Expr *x, Expr *a, Expr *b, const Iteration *it)
{
    if (!it || expr_is_const(b) || expr_any(x->op.b, leaves_registers, pr))
        return call_expr(pr, DTYPE_F32, "math_div", 2, a, b);
    Var *const divisor = emit_declare(pr, DTYPE_F32, "divisor", b);
    Var *const inverse =
        emit_declare(pr, DTYPE_F32, "inverse", call_expr(pr, DTYPE_F32, "math_reciprocal", 1, var_of(pr, divisor)));
    return call_expr(pr, DTYPE_F32, "math_divide", 3, a, var_of(pr, divisor), var_of(pr, inverse));
}

static Expr *lower_op(Printer *pr, Expr *x, const Iteration *it)
{
    Expr *a = lower_expr(pr, x->op.a, it);
    if (x->kind == E_UNARY) {
        if (x->type == DTYPE_INT && !fits_i32(expr_range(x))) a = cast(pr, DTYPE_I64, a);
        return x->op.op == X_NEG ? integer_negation(pr, x, a) : expr_unary(pr->arena, x->op.op, a);
    }
    Expr *b = lower_expr(pr, x->op.b, it);
    // A quotient or remainder of 32-bit values is one, but for the least dividend.
    const Range dividend = x->op.op == X_DIV || x->op.op == X_MOD ? expr_range(x->op.a) : (Range){ 0 };
    const bool divides = a->type == DTYPE_I32 && b->type == DTYPE_I32 && dividend.has_lo && dividend.lo > INT32_MIN;
    const bool shifts_far = x->op.op == X_SHR && !expr_fits(x->op.b, 0, 31);
    if (x->type == DTYPE_INT && !divides && (shifts_far || !fits_i32(expr_range(x)))) a = cast(pr, DTYPE_I64, a);
    if (x->op.op == X_AND || x->op.op == X_OR) return expr_binary(pr->arena, x->op.op, a, b);
    unify(pr, &a, &b);
    if (!op_compares(x->op.op) && x->type != DTYPE_INT) {
        a = cast(pr, loop_type(x->type), a);
        b = cast(pr, loop_type(x->type), b);
    }
    if (x->op.op == X_DIV && a->type == DTYPE_F32) return divide(pr, x, a, b, it);
    return integer_operation(pr, x, a, b);
}

// The width of the arguments decides which of the overloads is meant. Those of `int` are 32 bits wide if they and the
// result fit.
static DType math_width(const Expr *x, Expr *const *args)
{
    bool narrow = fits_i32(expr_range(x));
    for (int i = 0; i < x->math.n; i++) narrow = narrow && args[i]->type == DTYPE_I32;
    return narrow ? DTYPE_I32 : DTYPE_I64;
}

static Expr *lower_math(Printer *pr, Expr *x, const Iteration *it)
{
    const Builtin *const fn = &builtins[x->math.fn];
    const DType of = x->math.args[0]->type;
    const CudaForm form = dtype_is_float(of) ? CUDA_CALL : fn->cuda_integer;
    Expr *args[BUILTIN_ARGUMENTS_MAX];
    for (int i = 0; i < x->math.n; i++) args[i] = lower_expr(pr, x->math.args[i], it);
    const DType width = form == CUDA_CALL_COUNTERS ? DTYPE_U64
                        : x->type == DTYPE_INT     ? math_width(x, args)
                                                   : loop_type(of);
    for (int i = 0; i < x->math.n; i++) args[i] = cast(pr, width, args[i]);
    switch (form) {
    case CUDA_MAGNITUDE: return integer_magnitude(pr, x, args[0]);
    case CUDA_ROUND_UP: return integer_ceildiv(pr, x, args[0], args[1]);
    case CUDA_CALL:
    case CUDA_CALL_COUNTERS: break;
    }
    return expr_call(pr->arena, x->type == DTYPE_INT ? width : loop_type(x->type),
                     arena_printf(pr->arena, "math_%s", fn->name), x->math.n, args);
}

// ---- elements

// Of the row that stands: the first, or the second, or of four lanes' the first the first, the next the second.
static Expr *lane_element(Printer *pr, const TileInfo *tile)
{
    Var *const registers = tile_vars(pr, tile)->registers;
    if (pr->lane_row != LANE_ROWS) return expr_index(pr->arena, registers, i32_const(pr, pr->lane_row));
    return expr_select(pr->arena, i32_op(pr, X_EQ, i32_op(pr, X_MOD, var_of(pr, pr->lane), 4), 0),
                       expr_index(pr->arena, registers, i32_const(pr, 0)),
                       expr_index(pr->arena, registers, i32_const(pr, 1)));
}

static Expr *lower_load(Printer *pr, Expr *x, const Iteration *it)
{
    const TileInfo *const own = tile_info(pr->lo, buffer_root(x->load.buffer));
    if (own && own->is_of_lanes) return lane_element(pr, own);
    const DType type = loop_type(x->load.buffer->type);
    for (int i = 0; it && i < it->n_loaded; i++)
        if (expr_equal(it->loaded[i].load, x)) return loaded_element(pr, it, i);
    Place place;
    place_element(pr, x->load.buffer, x->load.subs, it, &place, x->span);
    Expr *const element = test_written(pr, &place, element_at(pr, &place, x->load.buffer->type), x->span);
    return place.inside ? expr_select(pr->arena, place.inside, element, zero_of(pr->lo, type)) : element;
}

static const char *const atomic_names[] = {
    [ATOMIC_ADD] = "atomic_add", [ATOMIC_MIN] = "atomic_min", [ATOMIC_MAX] = "atomic_max",
    [ATOMIC_AND] = "atomic_and", [ATOMIC_OR] = "atomic_or",   [ATOMIC_EXCHANGE] = "atomic_exchange",
    [ATOMIC_CAS] = "atomic_cas",
};

static Expr *lower_atomic(Printer *pr, Expr *x, const Iteration *it)
{
    const DType type = loop_type(x->atomic.buffer->type);
    Place place;
    place_element(pr, x->atomic.buffer, x->atomic.subs, it, &place, x->span);
    Expr *const address = expr_address(pr->arena, place.pointer, place.at);
    Expr *const value = lower_as(pr, x->atomic.buffer->type, x->atomic.value, it);
    Expr *call;
    if (x->atomic.op == ATOMIC_CAS)
        call = call_expr(pr, type, "atomic_cas", 3, address,
                         lower_as(pr, x->atomic.buffer->type, x->atomic.compare, it), value);
    else if (dtype_is_narrow_float(x->atomic.buffer->type) && x->atomic.op == ATOMIC_ADD)
        call = call_expr(pr, type, arena_printf(pr->arena, "atomic_add_%s", dtype_name(x->atomic.buffer->type)), 2,
                         address, value);
    else call = call_expr(pr, type, atomic_names[x->atomic.op], 2, address, value);
    return place.inside ? expr_select(pr->arena, place.inside, call, zero_of(pr->lo, type)) : call;
}

Expr *lower_expr(Printer *pr, Expr *x, const Iteration *it)
{
    Arena *const a = pr->arena;
    switch (x->kind) {
    case E_INT:
        if (x->type == DTYPE_INT)
            return expr_int(a, x->integer.value >= INT32_MIN && x->integer.value <= INT32_MAX ? DTYPE_I32 : DTYPE_I64,
                            x->integer.value);
        return x;
    case E_FLOAT:
        if (dtype_is_narrow_float(x->type))
            return to_dtype(pr, x->type, DTYPE_F32, expr_float(a, DTYPE_F32, x->real.value));
        return x->type == DTYPE_TF32 ? expr_float(a, DTYPE_F32, x->real.value) : x;
    case E_VAR: return expr_var(a, loop_var(pr, x->var.var));
    case E_LOAD: return lower_load(pr, x, it);
    case E_UNARY:
    case E_BINARY: return lower_op(pr, x, it);
    case E_SELECT: {
        Expr *const cond = lower_expr(pr, x->select.cond, it);
        Expr *first = lower_expr(pr, x->select.a, it), *second = lower_expr(pr, x->select.b, it);
        unify(pr, &first, &second);
        return computes_both(pr, x, it) ? call_expr(pr, first->type, "choose", 3, cond, first, second)
                                        : expr_select(a, cond, first, second);
    }
    case E_CONVERT: {
        Expr *const unpacked = unpacked_element(pr, it, x);
        return unpacked ? unpacked : to_dtype(pr, x->type, x->convert.a->type, lower_expr(pr, x->convert.a, it));
    }
    case E_BITCAST: {
        Expr *const from =
            x->convert.a->type == DTYPE_INT ? lower_int64(pr, x->convert.a, it) : lower_expr(pr, x->convert.a, it);
        return call_expr(pr, loop_type(x->type), arena_printf(a, "bitcast<%s>", dtype_info[loop_type(x->type)].c_name),
                         1, from);
    }
    case E_MATH: return lower_math(pr, x, it);
    case E_ATOMIC: return lower_atomic(pr, x, it);
    case E_CALL: {
        Expr **const args = NEW_ARRAY(a, Expr *, x->call.n + 1);
        for (int i = 0; i < x->call.n; i++) args[i] = lower_expr(pr, x->call.args[i], it);
        return expr_call(a, loop_type(x->type), x->call.name, x->call.n, args);
    }
    case E_INDEX:
    case E_ADDRESS: return x;
    }
    return x;
}
