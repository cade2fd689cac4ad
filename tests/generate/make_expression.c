// SPDX-License-Identifier: MIT
// make_expression.c - expressions of a wanted type out of what is visible: elements, variables, literals, operations.
#include "maker.h"

#include <math.h>
#include <string.h>

// ---- literals

static int64_t integer_literal(Maker *maker, Type type)
{
    const int bits = type_info[type].bits;
    const int64_t most = type_info[type].is_unsigned ? (int64_t)(bits < 64 ? (UINT64_C(1) << bits) - 1 : INT64_MAX)
                                                     : (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
    if (type != INT && chance(maker, 12)) return most - below(maker, 2);
    if (type != INT && !type_info[type].is_unsigned && chance(maker, 8)) return -most;
    const int64_t small = below(maker, 9) - (type_info[type].is_unsigned ? 0 : 3);
    return small > most ? most : small < -most - 1 ? 0 : small;
}

static double real_literal(Maker *maker)
{
    static const double usual[] = { 0, 1, -1, 2, 3, 0.5, -4, 7, 0.25, 100 };
    return PICK(maker, usual);
}

Expr *make_literal(Maker *maker, Type type)
{
    if (type == BOOL) return new_integer(maker, BOOL, chance(maker, 50));
    if (!is_float(type)) return new_typed(maker, type, integer_literal(maker, type));
    if (chance(maker, 4)) return new_real(maker, type, chance(maker, 50) ? INFINITY : NAN, false);
    return new_real(maker, type, real_literal(maker), false);
}

// A literal beside an operand, whose type it takes and which it fits.
static Expr *literal_beside(Maker *maker, const Expr *x)
{
    if (x->type == BOOL || x->bare) return make_literal(maker, wide_type(x->type));
    if (!is_float(x->type)) return new_integer(maker, wide_type(x->type), integer_literal(maker, x->type));
    if (chance(maker, 50) && x->type != E2M1) return new_integer(maker, wide_type(x->type), below(maker, 9) - 3);
    return new_real(maker, wide_type(x->type), below(maker, 5) * 0.5, true);
}

// ---- variables and elements

// What a forall reads it does not reduce into.
static bool note_variable(Maker *maker, Var *var)
{
    if (!maker->in_forall || var->fixed || find_touched(maker, NULL, var)) return true;
    Touched *const touched = touch(maker, NULL, var);
    if (touched) touched->read = true;
    return touched != NULL;
}

static Expr *make_variable(Maker *maker, Type wide)
{
    for (int i = 0; i < 6 && maker->n_vars > 0; i++) {
        Var *const var = maker->vars[below(maker, maker->n_vars)];
        const Touched *const touched = maker->in_forall ? find_touched(maker, NULL, var) : NULL;
        if ((wide == BOOL ? var->type != BOOL : wide_type(var->type) != wide) || (touched && touched->reduced))
            continue;
        if (!note_variable(maker, var)) continue;
        return new_var_expr(maker, var);
    }
    return NULL;
}

// A variable that surely is within 0 .. extent - 1.
static Var *variable_below(Maker *maker, int64_t extent)
{
    for (int i = 0; i < 5 && maker->n_vars > 0; i++) {
        Var *const var = maker->vars[below(maker, maker->n_vars)];
        if (var->hi > var->lo && var->lo >= 0 && var->hi <= extent) return var;
    }
    return NULL;
}

static Var *bounded_variable(Maker *maker)
{
    for (int i = 0; i < 5 && maker->n_vars > 0; i++) {
        Var *const var = maker->vars[below(maker, maker->n_vars)];
        if (var->hi > var->lo && var->lo >= 0 && var->hi < 1000) return var;
    }
    return maker->in_function ? NULL : maker->section->place;
}

Expr *make_bounded(Maker *maker)
{
    Var *const var = bounded_variable(maker);
    return new_op(maker, MUL, new_var_expr(maker, var), new_integer(maker, INT, 1 + below(maker, 6)), NULL);
}

const Memory *root_of(const Memory *memory)
{
    while (memory->storage == VIEW) memory = memory->window->memory;
    return memory;
}

Expr *make_place(Maker *maker, int64_t extent)
{
    Var *const var = variable_below(maker, extent);
    if (var && chance(maker, 70)) {
        Expr *const x = new_var_expr(maker, var);
        if (chance(maker, 25)) return new_op(maker, SUB, new_integer(maker, INT, extent - 1), x, NULL);
        return x;
    }
    Var *const any = bounded_variable(maker);
    if (any && chance(maker, 50)) {
        Expr *x =
            new_op(maker, ADD,
                   new_op(maker, MUL, new_var_expr(maker, any), new_integer(maker, INT, 1 + below(maker, 5)), NULL),
                   new_integer(maker, INT, below(maker, 4)), NULL);
        return new_op(maker, MOD, x, new_integer(maker, INT, extent), NULL);
    }
    Expr *const data = chance(maker, 20) ? make_element(maker, I32) : NULL;
    if (data)
        return new_op(maker, CLAMP, data, new_integer(maker, I32, 0),
                      new_integer(maker, I32, extent - 1 < 100 ? extent - 1 : 100));
    return new_integer(maker, INT, below(maker, (int)extent));
}

Expr *make_anywhere(Maker *maker)
{
    Var *const any = bounded_variable(maker);
    if (!any || chance(maker, 10)) return new_integer(maker, INT, below(maker, 12) - 2);
    Expr *x = new_var_expr(maker, any);
    if (chance(maker, 40))
        x = new_op(maker, chance(maker, 60) ? ADD : SUB, x, new_integer(maker, INT, below(maker, 9)), NULL);
    if (chance(maker, 15)) x = new_op(maker, MUL, x, new_integer(maker, INT, 1 + below(maker, 3)), NULL);
    return x;
}

// A fragment is read by indices and constants, each index once.
static bool fragment_place(Maker *maker, int64_t extent, bool *used, Expr **x)
{
    for (int i = 0; i < maker->n_indices && chance(maker, 95); i++) {
        Var *const var = maker->indices[i].var;
        if (used[i] || var->hi <= var->lo || var->lo < 0 || var->hi > extent) continue;
        used[i] = true;
        *x = new_var_expr(maker, var);
        return true;
    }
    if (!chance(maker, 30)) return false;
    *x = new_integer(maker, INT, below(maker, (int)extent));
    return true;
}

static bool make_subscripts(Maker *maker, Memory *memory, Expr **subs)
{
    bool used[MAX_RANK] = { false };
    for (int i = 0; i < memory->rank; i++) {
        if (memory->storage == FRAGMENT && maker->in_forall) {
            if (!fragment_place(maker, memory->dims[i], used, &subs[i])) return false;
        } else if (memory->storage == FRAGMENT) subs[i] = new_integer(maker, INT, below(maker, (int)memory->dims[i]));
        else if (memory->own && i == 0) subs[i] = new_var_expr(maker, maker->section->place);
        else if (root_of(memory)->storage <= TENSOR_INOUT) subs[i] = make_anywhere(maker);
        else subs[i] = make_place(maker, memory->dims[i]);
    }
    return true;
}

static Expr *element_of(Maker *maker, Memory *memory)
{
    Expr *subs[MAX_RANK];
    if (!maker->in_forall || memory->storage == LOCAL)
        return make_subscripts(maker, memory, subs) ? new_element(maker, memory, subs) : NULL;
    Touched *touched = find_touched(maker, memory, NULL);
    if (touched && (touched->reduced || (touched->written && touched->memory != memory))) return NULL;
    if (touched && touched->written) return new_element(maker, memory, touched->subs);
    if (!make_subscripts(maker, memory, subs)) return NULL;
    touched = touched ? touched : touch(maker, memory, NULL);
    if (!touched) return NULL;
    touched->read = true;
    return new_element(maker, memory, subs);
}

static bool may_be_read(const Memory *memory)
{
    return memory->storage != TENSOR_OUT && !memory->atomic_op && memory->n > 0;
}

Expr *make_element(Maker *maker, Type wide)
{
    for (int i = 0; i < 5 && maker->n_memories > 0; i++) {
        Memory *const memory = maker->memories[below(maker, maker->n_memories)];
        if (!may_be_read(memory) || (wide == BOOL ? memory->type != BOOL : wide_type(memory->type) != wide)) continue;
        Expr *const x = element_of(maker, memory);
        if (x) return x;
    }
    return NULL;
}

// ---- operations

static Type type_below(Maker *maker, Type type)
{
    static const Type order[] = { I32, U32, INT, I64, U64, F32, F64 };
    if (chance(maker, 70)) return type;
    int n = 0;
    while (order[n] != type) n++;
    const Type t = order[below(maker, n + 1)];
    return t == INT && chance(maker, 70) ? type : t;
}

static Expr *leaf(Maker *maker, Type type)
{
    Expr *x = NULL;
    if (chance(maker, 55)) x = make_element(maker, type);
    if (!x && chance(maker, 80)) x = make_variable(maker, type);
    if (!x && type != INT && chance(maker, 60)) {
        static const Type from[] = { I32, F32, U32, I64, INT };
        const Type other = PICK(maker, from);
        Expr *const y = other == type       ? NULL
                        : chance(maker, 50) ? make_element(maker, other)
                                            : make_variable(maker, other);
        if (y && type != BOOL) x = new_convert(maker, type, y);
    }
    return x ? x : make_literal(maker, type);
}

// Perhaps a build-time constant: a scalar that never changes is one if its value is, and so is what a function is given.
bool is_constant(const Expr *x)
{
    if (x->kind == X_VAR) return x->var->constant;
    if (x->kind == X_ELEMENT || x->kind == X_CALL || x->kind == X_ATOMIC) return false;
    // One side may decide alone.
    if (x->kind == X_OP && (x->op == BOTH || x->op == EITHER))
        return is_constant(x->args[0]) || is_constant(x->args[1]);
    for (int i = 0; i < x->n; i++)
        if (!is_constant(x->args[i])) return false;
    return true;
}

// An element, or a variable that is no constant, converted or not.
static bool is_data(const Expr *x)
{
    while (x->kind == X_CONVERT) x = x->args[0];
    return x->kind == X_ELEMENT || (x->kind == X_VAR && !x->var->constant);
}

static Expr *make_shift(Maker *maker, Type type, int depth)
{
    const Op op = chance(maker, 50) && type != INT ? SHL : SHR;
    Expr *const x = make_value(maker, type, depth - 1);
    const int width = type_info[type].bits;
    if (x->kind == X_INTEGER || chance(maker, 50))
        return new_op(maker, op, x, new_integer(maker, I32, below(maker, width)), NULL);
    // Data is taken modulo the width; what may be known when built has to be within it.
    Expr *const any = make_value(maker, I32, 1);
    if (type != INT && is_data(any)) return new_op(maker, op, x, any, NULL);
    return new_op(maker, op, x, new_op(maker, AND, any, new_integer(maker, I32, width - 1), NULL), NULL);
}

static Expr *make_quotient(Maker *maker, Type type, int depth)
{
    Expr *const x = make_value(maker, type, depth - 1);
    const Op op = is_float(type) || chance(maker, 50) ? DIV : MOD;
    if (is_float(type)) return new_op(maker, op, x, new_real(maker, type, (double)(1 << below(maker, 5)), false), NULL);
    if (chance(maker, 70)) return new_op(maker, op, x, new_typed(maker, type, 1 + below(maker, 9)), NULL);
    return new_op(maker, op, x, new_op(maker, OR, make_value(maker, type, 0), new_typed(maker, type, 1), NULL), NULL);
}

static Expr *make_binary(Maker *maker, Op op, Type type, int depth)
{
    Expr *a = make_value(maker, type, depth - 1);
    if (chance(maker, 25) || (op == MUL && type == INT)) return new_op(maker, op, a, literal_beside(maker, a), NULL);
    Expr *b = make_value(maker, type_below(maker, type), depth - 1);
    return chance(maker, 50) ? new_op(maker, op, a, b, NULL) : new_op(maker, op, b, a, NULL);
}

static Expr *make_bitcast(Maker *maker, Type type, int depth)
{
    const Type from = type == F32 ? U32 : type == U32 || type == I32 ? F32 : type == F64 ? U64 : F64;
    Expr *const x = make_value(maker, from, depth - 1);
    return TAKE(maker->pool, Expr, .kind = X_BITCAST, .type = type, .n = 1,
                .args = { x->type == from && x->kind != X_OP ? x : new_convert(maker, from, x) });
}

// A constant condition discards an arm before it is typed: the types of both decide only if it is none.
static Expr *make_select(Maker *maker, Type type, int depth)
{
    Expr *const c = make_condition(maker, depth - 1), *const a = make_value(maker, type, depth - 1);
    if (is_constant(c)) return a;
    return new_op(maker, SELECT, c, a, make_value(maker, type == BOOL ? BOOL : type_below(maker, type), depth - 1));
}

static Expr *make_call(Maker *maker, Type type, int depth)
{
    const Section *const s = maker->section;
    if (maker->in_function || !s->n_functions) return NULL;
    Function *const f = s->functions[below(maker, s->n_functions)];
    if (wide_type(f->type) != type) return NULL;
    Expr *const x = TAKE(maker->pool, Expr, .kind = X_CALL, .type = f->type, .function = f, .n = f->n);
    for (int i = 0; i < f->n; i++) x->args[i] = make_value(maker, wide_type(f->params[i]->type), depth - 1);
    return x;
}

// What floating types have alone.
static Expr *make_rounding(Maker *maker, Type type, int depth)
{
    static const Op ops[] = { FLOOR, CEIL, TRUNC, RINT, ROUND, SQRT };
    return new_op(maker, PICK(maker, ops), make_value(maker, type, depth - 1), NULL, NULL);
}

// Of the bits of any integer.
static Expr *make_bit_count(Maker *maker, int depth)
{
    static const Op ops[] = { POPCOUNT, CLZ, FFS };
    static const Type from[] = { I32, U32, I64, U64 };
    return new_op(maker, PICK(maker, ops), make_value(maker, PICK(maker, from), depth - 1), NULL, NULL);
}

static Expr *make_arithmetic(Maker *maker, Type type, int depth)
{
    static const Op any[] = { ADD, ADD, SUB, SUB, MUL, MIN, MAX }, integers[] = { AND, OR, XOR };
    const int kind = below(maker, 20);
    if (kind == 0) return new_op(maker, NEG, make_value(maker, type, depth - 1), NULL, NULL);
    if (kind == 1 && !is_float(type)) return new_op(maker, INVERT, make_value(maker, type, depth - 1), NULL, NULL);
    if (kind == 1) return make_rounding(maker, type, depth);
    if (kind == 2) return new_op(maker, ABS, make_value(maker, type, depth - 1), NULL, NULL);
    if (kind == 3 && !is_float(type)) return make_shift(maker, type, depth);
    if (kind == 3)
        return new_op(maker, FMA, make_value(maker, type, depth - 1), make_value(maker, type, 0),
                      make_value(maker, type, 0));
    if (kind == 4) return make_quotient(maker, type, depth);
    if (kind <= 6 && !is_float(type)) return make_binary(maker, PICK(maker, integers), type, depth);
    if (kind == 7)
        return new_op(maker, CLAMP, make_value(maker, type, depth - 1), new_typed(maker, type, below(maker, 3)),
                      new_typed(maker, type, 3 + below(maker, 90)));
    if (kind == 8 && type != INT) return make_bitcast(maker, type, depth);
    if (kind <= 10) return make_select(maker, type, depth);
    if (kind == 12 && type == I32) return make_bit_count(maker, depth);
    if (kind == 11) {
        Expr *const x = make_call(maker, type, depth);
        if (x) return x;
    }
    return make_binary(maker, PICK(maker, any), type, depth);
}

static Expr *make_conversion(Maker *maker, Type type, int depth)
{
    static const Type wide[] = { I32, I32, U32, I64, F32, F32, F64, U64, INT };
    const Type from = PICK(maker, wide);
    Expr *const x = make_value(maker, from, depth - 1);
    if (chance(maker, 50) || type == INT) return new_convert(maker, type, x);
    // By way of a narrow type that computes in the wanted one.
    Type narrow = (Type)below(maker, TYPES);
    while (wide_type(narrow) != type) narrow = (Type)below(maker, TYPES);
    return new_convert(maker, narrow == BOOL ? type : narrow, x);
}

static Expr *make_truth(Maker *maker, int depth)
{
    static const Op ops[] = { LT, LE, GT, GE, EQ, NE };
    static const Type wide[] = { I32, I32, F32, F32, U32, I64, INT };
    const int kind = below(maker, 10);
    if (kind == 0) return new_op(maker, NOT, make_condition(maker, depth - 1), NULL, NULL);
    if (kind <= 2)
        return new_op(maker, kind == 1 ? BOTH : EITHER, make_condition(maker, depth - 1),
                      make_condition(maker, depth - 1), NULL);
    const Type type = PICK(maker, wide);
    Expr *const a = make_value(maker, type, depth - 1);
    if (chance(maker, 40)) return new_op(maker, PICK(maker, ops), a, literal_beside(maker, a), NULL);
    return new_op(maker, PICK(maker, ops), a, make_value(maker, type_below(maker, type), depth - 1), NULL);
}

Expr *make_condition(Maker *maker, int depth)
{
    if (depth <= 0) {
        Expr *x = chance(maker, 50) ? make_element(maker, BOOL) : make_variable(maker, BOOL);
        if (x) return x;
        x = leaf(maker, chance(maker, 50) ? I32 : F32);
        return new_op(maker, chance(maker, 50) ? LT : NE, x, literal_beside(maker, x), NULL);
    }
    return make_truth(maker, depth);
}

Expr *make_value(Maker *maker, Type wide, int depth)
{
    if (wide == BOOL) return make_condition(maker, depth);
    if (depth <= 0) return leaf(maker, wide);
    if (chance(maker, 12)) return make_conversion(maker, wide, depth);
    if (chance(maker, 12)) return leaf(maker, wide);
    return make_arithmetic(maker, wide, depth);
}
