// SPDX-License-Identifier: MIT
// builtins.c - the functions of the language: mathematics by a table, and those with rules of their own.
#include "check/context.h"

static int count_args(const Ex *args)
{
    int n = 0;
    for (; args; args = args->next) n++;
    return n;
}

static bool has_args(Checker *cx, const Ex *ex, int n)
{
    const int given = count_args(ex->call.args);
    if (given == n) return true;
    return check_error(cx, ex->span, "'%s' takes %d argument%s, not %d", ex->call.name, n, n == 1 ? "" : "s", given);
}

// Sequential code widens what it reads; where bits are looked at, those in memory are meant.
static Value as_in_memory(Checker *cx, const Ex *arg, Value v)
{
    if (!cx->sequential || v.kind != VALUE_SCALAR) return v;
    if (arg->kind == EX_NAME && is_argument(v.entity)) return entity_value(cx, v.entity, v.span);
    if (arg->kind == EX_SUBSCRIPT && v.expr->kind == E_CONVERT) v.expr = v.expr->convert.a;
    return v;
}

// ---- mathematics

static bool takes_kind(Checker *cx, const Ex *ex, const Value *v, BuiltinTakes what)
{
    if (v->kind == VALUE_POISON) return false;
    if (v->kind == VALUE_REGION) {
        check_error(cx, v->span, "'%s' takes single elements, not the whole of %s", ex->call.name,
                    show_region(cx, &v->region));
        check_help(cx, v->span, "compute element by element: forall (i : ...) x[i] = %s(...)", ex->call.name);
        return false;
    }
    if (v->kind != VALUE_SCALAR)
        return check_error(cx, v->span, "'%s' takes numbers, not %s", ex->call.name, show_value(cx, v));
    const bool needs_integer = what != TAKES_FLOATS && what != TAKES_NUMBERS;
    if (needs_integer && dtype_is_float(v->expr->type))
        return check_error(cx, v->span, "'%s' takes integers, not %s", ex->call.name, show_value(cx, v));
    return true;
}

// Brings all arguments to their common type; `what` decides what they may be.
static bool common_arguments(Checker *cx, const Ex *ex, BuiltinTakes what, Value *args, int n)
{
    bool ok = true;
    for (int i = 0; i < n; i++) ok &= takes_kind(cx, ex, &args[i], what);
    if (!ok) return false;
    if (!expr_is_const(args[0].expr)) args[0] = settle(cx, args[0]);
    if (n == 1 && !args[0].flexible) args[0] = convert_value(cx, args[0], widened(args[0].expr->type));
    // Twice over: the last argument may decide the type of the first.
    for (int round = 0; round < 2; round++)
        for (int i = 1; i < n; i++)
            if (!convert_pair(cx, &args[0], &args[i], ex->call.name)) return false;
    if (what == TAKES_FLOATS && !dtype_is_float(args[0].expr->type))
        for (int i = 0; i < n; i++) {
            const bool flexible = args[i].flexible;
            args[i] = convert_value(cx, args[i], flexible ? DTYPE_F64 : default_float(cx));
            args[i].flexible = flexible;
        }
    if (cx->sequential && dtype_is_float(args[0].expr->type) && !args[0].flexible)
        for (int i = 0; i < n; i++) args[i] = convert_value(cx, args[i], DTYPE_F64);
    return true;
}

static Value math_value(Checker *cx, const Ex *ex, DType type, MathFn fn, const Value *args, int n)
{
    Expr *exprs[BUILTIN_ARGUMENTS_MAX];
    bool flexible = type == args[0].expr->type;
    for (int i = 0; i < n; i++) {
        exprs[i] = args[i].expr;
        flexible &= args[i].flexible;
    }
    Expr *const result = written_math(cx, type, fn, n, exprs);
    if (!expr_is_const(result) && result->kind != E_VAR) result->span = ex->span;
    const Value value = {
        .kind = VALUE_SCALAR, .span = ex->span, .expr = result, .flexible = flexible && expr_is_const(result)
    };
    if (!flexible || value.flexible) return value;
    // A literal argument whose function does not fold (random, or sin of a number) is computed as its own type.
    Value settled = settle(cx, (Value){ .kind = VALUE_SCALAR, .span = ex->span, .expr = result, .flexible = true });
    return settled;
}

static bool is_valid_divisor(Checker *cx, const Ex *ex, const Value *divisor)
{
    int64_t value;
    if (!expr_as_int(divisor->expr, &value) || value > 0) return true;
    return check_error(cx, divisor->span, "'%s' needs a positive divisor, not %lld", ex->call.name, (long long)value);
}

static Value check_counters(Checker *cx, const Ex *ex, MathFn fn, Value *args)
{
    const int n = builtins[fn].arguments;
    for (int i = 0; i < n; i++) {
        if (!takes_kind(cx, ex, &args[i], TAKES_COUNTERS)) return POISON;
        args[i] = convert_value(cx, args[i], DTYPE_INT);
        if (args[i].kind == VALUE_POISON) return POISON;
    }
    const Value v = math_value(cx, ex, builtin_type(fn, DTYPE_INT), fn, args, n);
    return cx->sequential ? convert_value(cx, v, DTYPE_F64) : v;
}

// f(a, b, c) of the four bytes of a and of b, and a number: unsigned if both a and b are.
static Value check_bytes(Checker *cx, const Ex *ex, MathFn fn, Value *args)
{
    for (int i = 0; i < 3; i++)
        if (!takes_kind(cx, ex, &args[i], TAKES_BYTES)) return POISON;
    const bool is_unsigned = dtype_is_unsigned(args[0].expr->type) && dtype_is_unsigned(args[1].expr->type);
    const DType type = is_unsigned ? DTYPE_U32 : DTYPE_I32;
    for (int i = 0; i < 3; i++) {
        if (i < 2 && !args[i].flexible && dtype_bits(args[i].expr->type) != 32)
            return FAIL(cx, args[i].span, "'%s' takes four bytes packed into i32 or u32, not %s", ex->call.name,
                        show_value(cx, &args[i]));
        args[i] = convert_value(cx, args[i], type);
        if (args[i].kind == VALUE_POISON) return POISON;
    }
    return math_value(cx, ex, type, fn, args, 3);
}

static Value check_math(Checker *cx, const Ex *ex, MathFn fn)
{
    const Builtin *const builtin = &builtins[fn];
    const int n = builtin->arguments;
    if (!has_args(cx, ex, n)) return POISON;
    if (ex->call.has_build) return FAIL(cx, ex->span, "'%s' has no build parameters", ex->call.name);
    Value args[BUILTIN_ARGUMENTS_MAX];
    int i = 0;
    const bool looks_at_bits = builtin->takes == TAKES_BITS || builtin->takes == TAKES_BYTES;
    for (const Ex *arg = ex->call.args; arg; arg = arg->next, i++) {
        args[i] = check_expression(cx, arg);
        if (looks_at_bits) args[i] = as_in_memory(cx, arg, args[i]);
    }
    if (builtin->takes == TAKES_COUNTERS) return check_counters(cx, ex, fn, args);
    if (builtin->takes == TAKES_BYTES) return check_bytes(cx, ex, fn, args);
    if (!common_arguments(cx, ex, builtin->takes, args, n)) return POISON;
    if (builtin->divides && !is_valid_divisor(cx, ex, &args[n - 1])) return POISON;
    return math_value(cx, ex, builtin_type(fn, args[0].expr->type), fn, args, n);
}

// ---- conversions

// The type between < and >; NONE after an error.
static DType conversion_type(Checker *cx, const Ex *ex)
{
    if (!ex->call.build || ex->call.build->next) {
        check_error(cx, ex->span, "'%s' names one type: %s<f32>(x)", ex->call.name, ex->call.name);
        return DTYPE_NONE;
    }
    const Value v = check_expression(cx, ex->call.build);
    if (v.kind == VALUE_TYPE) return v.type;
    if (v.kind != VALUE_POISON) check_error(cx, ex->call.build->span, "expected a type, found %s", show_value(cx, &v));
    return DTYPE_NONE;
}

static Value check_convert(Checker *cx, const Ex *ex)
{
    const DType type = conversion_type(cx, ex);
    if (!has_args(cx, ex, 1)) return POISON;
    const Value v = check_expression(cx, ex->call.args);
    if (v.kind == VALUE_REGION) {
        check_error(cx, ex->span, "'convert' of a whole tile stands only in a product");
        check_help(cx, ex->span, "copying into a tile of another type converts: dst = src;");
        return POISON;
    }
    if (v.kind == VALUE_POISON || type == DTYPE_NONE) return POISON;
    if (v.kind != VALUE_SCALAR) return FAIL(cx, v.span, "'convert' takes a number, not %s", show_value(cx, &v));
    return cast_value(cx, v, type); // convert<i8>(300) is said on purpose
}

static Value check_bitcast(Checker *cx, const Ex *ex)
{
    const DType type = conversion_type(cx, ex);
    if (!has_args(cx, ex, 1)) return POISON;
    const Value v = settle(cx, as_in_memory(cx, ex->call.args, check_expression(cx, ex->call.args)));
    if (v.kind == VALUE_POISON || type == DTYPE_NONE) return POISON;
    if (v.kind != VALUE_SCALAR) return FAIL(cx, v.span, "'bitcast' takes a number, not %s", show_value(cx, &v));
    if (type == DTYPE_BOOL && v.expr->type != DTYPE_BOOL)
        return FAIL(cx, ex->span, "'bitcast' makes no bool; write x != 0");
    if (dtype_bits(v.expr->type) != dtype_bits(type))
        return FAIL(cx, ex->span, "'bitcast' keeps the size: %s has %d bits, %s %d", dtype_name(v.expr->type),
                    dtype_bits(v.expr->type), dtype_name(type), dtype_bits(type));
    return scalar_value(expr_bitcast(cx->arena, type, v.expr), ex->span);
}

// ---- presence

static Value check_present(Checker *cx, const Ex *ex)
{
    if (!has_args(cx, ex, 1)) return POISON;
    const Ex *const arg = ex->call.args;
    if (arg->kind != EX_NAME) return FAIL(cx, arg->span, "'present' takes the name of an optional tensor");
    const Entity *const entity = get_entity(cx, arg->name.name, arg->span);
    if (entity->kind == ENTITY_POISON) return POISON;
    if (entity->kind == ENTITY_ABSENT) return scalar_value(expr_bool(cx->arena, false), ex->span);
    if (entity->kind == ENTITY_BUFFER && entity->optional) return scalar_value(expr_bool(cx->arena, true), ex->span);
    check_error(cx, arg->span, "'%s' is not optional", entity->name);
    if (entity->span.source) check_note(cx, entity->span, "declared here");
    return POISON;
}

// ---- atomics with a result

typedef struct AtomicFunction {
    const char *name;
    AtomicOp op;
    int arguments;
} AtomicFunction;

// clang-format off
static const AtomicFunction atomic_functions[] = {
    { "atomic_add", ATOMIC_ADD, 2 }, { "atomic_min", ATOMIC_MIN, 2 }, { "atomic_max", ATOMIC_MAX, 2 },
    { "atomic_and", ATOMIC_AND, 2 }, { "atomic_or", ATOMIC_OR, 2 },
    { "atomic_exchange", ATOMIC_EXCHANGE, 2 }, { "atomic_cas", ATOMIC_CAS, 3 },
};
// clang-format on

static const AtomicFunction *find_atomic(Name name)
{
    for (int i = 0; i < COUNT(atomic_functions); i++)
        if (strcmp(atomic_functions[i].name, name) == 0) return &atomic_functions[i];
    return NULL;
}

// Every atomic is an event, so its result gets a variable of its own, in the order of the source.
static Value check_atomic_call(Checker *cx, const Ex *ex, const AtomicFunction *fn, bool is_statement)
{
    if (!has_args(cx, ex, fn->arguments)) return POISON;
    const Ex *const target = ex->call.args, *const last = fn->op == ATOMIC_CAS ? target->next->next : target->next;
    const Place place = check_place(cx, target);
    Expr *compare = NULL;
    if (fn->op == ATOMIC_CAS) compare = convert_expr(cx, check_scalar(cx, target->next), place.type);
    Expr *const value = convert_expr(cx, check_scalar(cx, last), place.type);
    if (!is_atomic_target(cx, &place, fn->op) || !value || (fn->op == ATOMIC_CAS && !compare)) return POISON;
    Expr **const subs = region_subs(cx, &place.region);
    if (is_statement && fn->op != ATOMIC_CAS) {
        emit(cx,
             (TileOp){ .kind = T_ATOMIC, .span = ex->span, .atomic = { fn->op, place.region.buffer, subs, value } });
        return (Value){ .kind = VALUE_VOID, .span = ex->span };
    }
    Expr *const old = NEW(cx->arena, Expr, .kind = E_ATOMIC, .type = place.type, .span = ex->span,
                          .atomic = { fn->op, place.region.buffer, subs, value, compare });
    Var *const var = tile_new_var(cx->kernel, VAR_LOCAL, place.type, "old", ex->span);
    emit(cx, (TileOp){ .kind = T_LET, .span = ex->span, .let = { var, old } });
    return scalar_value(expr_var(cx->arena, var), ex->span);
}

// ---- random_int of case code: (i, lo, hi) or (seed, i, lo, hi), both ends included

static Value check_random_int(Checker *cx, const Ex *ex)
{
    const int n = count_args(ex->call.args);
    if (!cx->fills_inputs) return FAIL(cx, ex->span, "'random_int' exists only in the code of a check");
    if (n != 3 && n != 4) return FAIL(cx, ex->span, "'random_int' takes (seed, i, lo, hi), not %d arguments", n);
    Expr *args[4];
    int i = n == 3 ? 1 : 0;
    args[0] = int_const(cx->arena, 0);
    for (const Ex *arg = ex->call.args; arg; arg = arg->next)
        if (!(args[i++] = check_int(cx, arg, "an argument of 'random_int'"))) return POISON;
    Arena *const a = cx->arena;
    Expr *const uniform =
        expr_convert(a, DTYPE_F64, expr_math(a, DTYPE_F32, M_RANDOM, 2, (Expr *[]){ args[0], args[1] }));
    Expr *const span = int_add(a, int_sub(a, args[3], args[2]), int_const(a, 1));
    Expr *const offset = expr_convert(a, DTYPE_INT, expr_binary(a, X_MUL, uniform, expr_convert(a, DTYPE_F64, span)));
    return scalar_value(int_add(a, args[2], offset), ex->span);
}

// ---- all

static const char *const others[] = {
    "convert", "bitcast", "present", "transpose", "promote", "tf32x3", "sparse24", "cumsum", "random_int",
};

static bool find_math(Name name, MathFn *fn)
{
    for (int i = 0; i < M_COUNT; i++)
        if (strcmp(builtins[i].name, name) == 0) {
            *fn = (MathFn)i;
            return true;
        }
    return false;
}

bool is_builtin_math(Name name)
{
    MathFn fn;
    return find_math(name, &fn);
}

bool is_builtin(Name name)
{
    MathFn fn;
    if (find_math(name, &fn) || find_atomic(name)) return true;
    for (int i = 0; i < COUNT(others); i++)
        if (strcmp(others[i], name) == 0) return true;
    return false;
}

const char *check_function_word(int i)
{
    const int n_math = M_COUNT, n_atomics = COUNT(atomic_functions);
    return i < n_math                               ? builtins[i].name
           : i < n_math + n_atomics                 ? atomic_functions[i - n_math].name
           : i < n_math + n_atomics + COUNT(others) ? others[i - n_math - n_atomics]
                                                    : NULL;
}

int builtin_names(const char **names, int max)
{
    int n = 0;
    while (n < max && (names[n] = check_function_word(n)) != NULL) n++;
    return n;
}

Value check_builtin(Checker *cx, const Ex *ex, bool is_statement)
{
    MathFn fn;
    const Name name = ex->call.name;
    const AtomicFunction *const atomic = find_atomic(name);
    if (atomic) return check_atomic_call(cx, ex, atomic, is_statement);
    if (strcmp(name, "cumsum") == 0) {
        if (!is_statement) return FAIL(cx, ex->span, "'cumsum' is a statement: cumsum(dst, src, axis);");
        check_cumsum(cx, ex);
        return (Value){ .kind = VALUE_VOID, .span = ex->span };
    }
    if (is_statement) return FAIL(cx, ex->span, "the value of '%s' is not used", name);
    if (find_math(name, &fn)) return check_math(cx, ex, fn);
    if (strcmp(name, "convert") == 0) return check_convert(cx, ex);
    if (strcmp(name, "bitcast") == 0) return check_bitcast(cx, ex);
    if (strcmp(name, "present") == 0) return check_present(cx, ex);
    if (strcmp(name, "random_int") == 0) return check_random_int(cx, ex);
    if (strcmp(name, "transpose") == 0) {
        check_error(cx, ex->span, "'transpose' stands only around an operand of a product");
        check_help(cx, ex->span, "element by element it is forall (i : M, j : N) b[j][i] = a[i][j];");
        return POISON;
    }
    return FAIL(cx, ex->span, "'%s' stands only on the right of = or += as a product", name);
}
