// SPDX-License-Identifier: MIT
// expr_test.c - folding keeps values, ranges and multiples hold, and the identities that passes rely on fire.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "evaluate.h"

static Arena *arena;

static int setup(void **state)
{
    arena = arena_new();
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    arena_free(arena);
    return 0;
}

static Var *new_var(const char *name, DType type)
{
    static int next;
    return NEW(arena, Var, .name = name, .id = next++, .kind = VAR_LOCAL, .type = type);
}

static Var *new_index(const char *name, int64_t lo, int64_t hi)
{
    Var *const v = new_var(name, DTYPE_INT);
    v->kind = VAR_INDEX;
    v->lo = int_const(arena, lo);
    v->hi = int_const(arena, hi);
    return v;
}

static Expr *of(Var *v) { return expr_var(arena, v); }
static Expr *num(int64_t value) { return int_const(arena, value); }

static const char *text_of(const Expr *x)
{
    Text text = { .arena = arena };
    expr_print(&text, x);
    return text_cstr(&text);
}

static Expr *div_by(Expr *x, int64_t c) { return expr_binary(arena, X_DIV, x, num(c)); }
static Expr *mod_by(Expr *x, int64_t c) { return expr_binary(arena, X_MOD, x, num(c)); }

// ---- random programs

static bool same_result(const Expr *x, Result a, Result b)
{
    if (dtype_is_float(x->type))
        return (isnan(a.f) && isnan(b.f)) ||
               (a.f == b.f && (a.f != 0 || x->kind == E_SELECT || signbit(a.f) == signbit(b.f)));
    return a.i == b.i;
}

// fmin and fmax may give either zero.
static bool has_extreme(const Expr *x, void *context) { return x->kind == E_MATH && dtype_is_float(x->type); }

static void bind_vars(Random *r, Env *env)
{
    env->n = 0;
    for (int i = 0; i < 4; i++) {
        int64_t value = (int64_t)random_below(r, 400) - 200;
        Var *const v = r->ints[i];
        if (v->lo)
            value = v->lo->integer.value + random_below(r, (int)(v->hi->integer.value - v->lo->integer.value + 1));
        if (v->multiple > 1) value = value / v->multiple * v->multiple;
        env->bindings[env->n++] = (EvalBinding){ v, { .i = value } };
    }
    for (int i = 0; i < 3; i++) {
        const int64_t value = random_ints[random_below(r, COUNT(random_ints))];
        env->bindings[env->n++] = (EvalBinding){ r->sized[i], { .i = constant_wrap(r->sized[i]->type, value) } };
    }
}

static void check_facts(const Expr *x, Result value)
{
    if (dtype_is_float(x->type) || x->type == DTYPE_U64) return;
    const Range range = expr_range(x);
    const int64_t multiple = expr_multiple(x);
    if ((range.has_lo && value.i < range.lo) || (range.has_hi && value.i > range.hi))
        fail_msg("%s is %lld, its range %lld .. %lld", text_of(x), (long long)value.i, (long long)range.lo,
                 (long long)range.hi);
    if (multiple == 0 ? value.i != 0 : value.i % multiple != 0)
        fail_msg("%s is %lld, not a multiple of %lld", text_of(x), (long long)value.i, (long long)multiple);
}

static void test_random_expressions_keep_their_values(void **state)
{
    static const DType types[] = { DTYPE_INT, DTYPE_INT,  DTYPE_INT, DTYPE_I32, DTYPE_U32,
                                   DTYPE_I64, DTYPE_BOOL, DTYPE_F32, DTYPE_F64 };
    Random r = { .state = 12345, .arena = arena };
    r.ints[0] = new_index("i", 0, 63);
    r.ints[1] = new_index("j", -5, 7);
    r.ints[2] = new_var("n", DTYPE_INT);
    r.ints[3] = new_var("m", DTYPE_INT);
    r.ints[3]->multiple = 8;
    r.sized[0] = new_var("a", DTYPE_I32);
    r.sized[1] = new_var("b", DTYPE_U32);
    r.sized[2] = new_var("c", DTYPE_I64);
    r.floats[0] = new_var("x", DTYPE_F32);
    r.floats[1] = new_var("y", DTYPE_F64);
    int defined = 0;
    for (int round = 0; round < 40000; round++) {
        const ArenaMark mark = arena_mark(arena);
        const DType type = types[random_below(&r, COUNT(types))];
        const Twin twin = random_expr(&r, type, 1 + random_below(&r, 4));
        for (int sample = 0; sample < 4; sample++) {
            Env env = { .wraps = false };
            bind_vars(&r, &env);
            const double x = random_floats[random_below(&r, COUNT(random_floats))];
            Env with = env;
            with.bindings[with.n++] = (EvalBinding){ r.floats[type == DTYPE_F64], { .f = (float)x } };
            const Result plain = evaluate(twin.plain, &with);
            if (plain.undefined) continue;
            defined++;
            with.wraps = true; // sums are reordered: a part may overflow, not the whole
            const Result folded = evaluate(twin.folded, &with);
            if (folded.undefined ||
                (!same_result(twin.plain, plain, folded) && !(plain.f == 0 && expr_any(twin.plain, has_extreme, NULL))))
                fail_msg("%s folded to %s: %lld %g, not %lld %g", text_of(twin.plain), text_of(twin.folded),
                         (long long)folded.i, folded.f, (long long)plain.i, plain.f);
            check_facts(twin.plain, plain);
            check_facts(twin.folded, plain);
        }
        arena_rewind(arena, mark);
    }
    assert_true(defined > 50000);
}

// ---- identities

static void test_division_of_a_sum_with_a_small_rest(void **state)
{
    Var *const i = new_index("i", 0, 31), *const j = new_index("j", 0, 63);
    Expr *const at = int_add(arena, int_mul(arena, of(i), num(64)), of(j));
    assert_string_equal(text_of(div_by(at, 64)), "i");
    assert_string_equal(text_of(mod_by(at, 64)), "j");
    assert_string_equal(text_of(div_by(at, 32)), "(i*64 + j)/32");
    Var *const k = new_index("k", -4, 4);
    Expr *const below = int_add(arena, int_mul(arena, of(k), num(64)), of(j));
    assert_string_equal(text_of(div_by(below, 64)), "(k*64 + j)/64"); // truncates toward 0 for k < 0
}

static void test_terms_cancel(void **state)
{
    Var *const n = new_var("n", DTYPE_INT), *const j = new_var("j", DTYPE_INT);
    Expr *const x = int_add(arena, int_mul(arena, of(n), num(128)), of(j));
    assert_string_equal(text_of(int_sub(arena, x, int_mul(arena, of(n), num(128)))), "j");
    assert_string_equal(text_of(int_sub(arena, x, x)), "0");
    assert_string_equal(text_of(int_add(arena, int_add(arena, of(j), num(5)), num(-7))), "j - 2");
}

static void test_comparisons_by_range(void **state)
{
    Var *const i = new_index("i", 0, 63), *const m = new_var("m", DTYPE_INT);
    assert_string_equal(text_of(expr_binary(arena, X_LT, of(i), num(64))), "true");
    assert_string_equal(text_of(expr_binary(arena, X_GE, of(i), num(64))), "false");
    assert_string_equal(text_of(expr_binary(arena, X_LT, of(i), num(63))), "i < 63");
    Expr *const row = int_add(arena, int_mul(arena, of(m), num(64)), of(i));
    assert_string_equal(text_of(expr_binary(arena, X_LT, row, int_mul(arena, int_add(arena, of(m), num(1)), num(64)))),
                        "true");
    assert_string_equal(text_of(expr_binary(arena, X_LT, row, int_mul(arena, of(m), num(64)))), "false");
    assert_string_equal(text_of(expr_binary(arena, X_LT, row, num(64))), "m*64 + i < 64");
}

static void test_floats_keep_nan_and_zero(void **state)
{
    Expr *const x = of(new_var("x", DTYPE_F32)), *const zero = expr_float(arena, DTYPE_F32, 0),
                *const one = expr_float(arena, DTYPE_F32, 1);
    assert_ptr_equal(expr_binary(arena, X_MUL, x, one), x);
    assert_ptr_equal(expr_binary(arena, X_MUL, one, x), x);
    assert_ptr_equal(expr_binary(arena, X_SUB, x, zero), x);
    assert_string_equal(text_of(expr_binary(arena, X_ADD, x, zero)), "x + 0.0");
    assert_string_equal(text_of(expr_binary(arena, X_MUL, x, zero)), "x*0.0");
    assert_string_equal(text_of(expr_binary(arena, X_SUB, x, x)), "x - x");
    assert_string_equal(text_of(expr_binary(arena, X_EQ, x, x)), "x == x");
    assert_string_equal(text_of(expr_unary(arena, X_NOT, expr_binary(arena, X_LT, x, zero))), "!(x < 0.0)");
}

static void test_overflow_of_int_is_not_folded(void **state)
{
    assert_int_equal(expr_binary(arena, X_ADD, num(INT64_MAX), num(1))->kind, E_BINARY);
    assert_int_equal(expr_binary(arena, X_MUL, num(INT64_MAX), num(2))->kind, E_BINARY);
    assert_int_equal(expr_binary(arena, X_DIV, num(1), num(0))->kind, E_BINARY);
    Expr *const wrapped =
        expr_binary(arena, X_ADD, expr_int(arena, DTYPE_I32, INT32_MAX), expr_int(arena, DTYPE_I32, 1));
    assert_int_equal(wrapped->integer.value, INT32_MIN);
}

static void test_effects_are_never_dropped(void **state)
{
    Expr *const call = expr_call(arena, DTYPE_INT, "f", 0, NULL);
    assert_int_equal(int_mul(arena, call, num(0))->kind, E_BINARY);
    assert_int_equal(int_sub(arena, call, call)->kind, E_BINARY);
    assert_false(expr_is_pure(int_add(arena, call, num(1))));
}

static void test_ceildiv(void **state)
{
    Var *const n = new_var("N", DTYPE_INT), *const k = new_var("K", DTYPE_INT);
    k->multiple = 64;
    assert_string_equal(text_of(int_ceildiv(arena, num(-7), num(2))), "-3");
    assert_string_equal(text_of(int_ceildiv(arena, of(n), num(1))), "N");
    assert_string_equal(text_of(int_ceildiv(arena, of(n), num(64))), "ceildiv(N, 64)");
    assert_string_equal(text_of(int_ceildiv(arena, int_mul(arena, of(n), num(64)), num(64))), "N");
    assert_string_equal(text_of(int_mul(arena, int_ceildiv(arena, of(k), num(64)), num(64))), "K");
}

static void test_affine(void **state)
{
    Var *const i = new_index("i", 0, 63), *const j = new_index("j", 0, 63), *const m = new_var("m", DTYPE_INT);
    Var *const vars[] = { i, j };
    int64_t c[2];
    Expr *rest;
    Expr *const x = int_add(arena, int_sub(arena, int_mul(arena, of(i), num(3)), of(j)),
                            int_add(arena, int_mul(arena, of(m), num(64)), num(5)));
    assert_true(expr_affine(arena, x, vars, 2, c, &rest));
    assert_int_equal(c[0], 3);
    assert_int_equal(c[1], -1);
    assert_string_equal(text_of(rest), "m*64 + 5");
    assert_false(expr_affine(arena, int_mul(arena, of(i), of(j)), vars, 2, c, &rest));
    assert_false(expr_affine(arena, div_by(of(i), 2), vars, 2, c, &rest));
    Expr *const narrow = expr_convert(arena, DTYPE_I32, of(i)); // 0 .. 63 fits
    assert_true(expr_affine(arena, expr_convert(arena, DTYPE_INT, expr_binary(arena, X_ADD, narrow, narrow)), vars, 2,
                            c, &rest));
    assert_int_equal(c[0], 2);
}

static void test_symbolic_bounds(void **state)
{
    Var *const n = new_var("K", DTYPE_INT), *const k = new_var("k", DTYPE_INT);
    n->lo = num(0);
    k->kind = VAR_INDEX;
    k->lo = num(0);
    k->hi = int_sub(arena, int_ceildiv(arena, of(n), num(64)), num(1));
    Expr *const end = int_add(arena, int_mul(arena, of(k), num(64)), num(64));
    assert_false(expr_at_least(of(n), end));
    n->multiple = 64;
    k->hi = int_sub(arena, int_ceildiv(arena, of(n), num(64)), num(1));
    assert_true(expr_at_least(of(n), end));
    assert_true(expr_at_least(int_mul(arena, of(k), num(64)), num(0)));
    assert_true(expr_at_least(of(n), int_min(arena, of(n), of(k))));
}

static void test_replacing_folds_again(void **state)
{
    Var *const k = new_var("k", DTYPE_INT), *const m = new_var("m", DTYPE_INT);
    Expr *const x = int_add(arena, int_mul(arena, of(k), num(4)), of(m));
    assert_string_equal(text_of(expr_replace(arena, x, k, num(3))), "m + 12");
    assert_ptr_equal(expr_replace(arena, x, new_var("q", DTYPE_INT), num(3)), x);
}

static void test_conversions_of_constants(void **state)
{
    // clang-format off
    static const struct { DType type; double value, expected; } rows[] = {
        { DTYPE_BF16, 1.00390625, 1.0 },         { DTYPE_BF16, 1.01171875, 1.015625 },   // ties to even
        { DTYPE_BF16, 3.4e38, INFINITY },        { DTYPE_F16, 65519, 65504 },            { DTYPE_F16, 65520, INFINITY },
        { DTYPE_F16, 5.9604644775390625e-8, 5.9604644775390625e-8 },                     { DTYPE_F16, 2e-8, 0 },
        { DTYPE_E4M3, 1000, 448 },               { DTYPE_E4M3, -INFINITY, -448 },        { DTYPE_E4M3, 0.001953125, 0.001953125 },
        { DTYPE_E5M2, 1e9, 57344 },              { DTYPE_E2M1, 2.5, 2 },                 { DTYPE_E2M1, NAN, 6 },
        { DTYPE_E8M0, 3, 2 },                    { DTYPE_E8M0, 1.4, 1 },                  { DTYPE_E8M0, -1, 0x1p-127 },
    };
    // clang-format on
    for (int i = 0; i < COUNT(rows); i++) {
        const double rounded = constant_round(rows[i].type, rows[i].value);
        if (rounded != rows[i].expected) fail_msg("%g as %s is %g", rows[i].value, dtype_name(rows[i].type), rounded);
    }
    assert_int_equal(constant_bits(DTYPE_BF16, 1.0), 0x3f80);
    assert_int_equal(constant_bits(DTYPE_F16, 1.0), 0x3c00);
    assert_int_equal(constant_bits(DTYPE_F16, 5.9604644775390625e-8), 1);
    assert_int_equal(constant_bits(DTYPE_E4M3, 448), 0x7e);
    assert_int_equal(constant_bits(DTYPE_E4M3, -0.001953125), 0x81);
    assert_int_equal(constant_bits(DTYPE_E5M2, INFINITY), 0x7b);
    assert_int_equal(constant_bits(DTYPE_E2M1, -6), 0xf);
    assert_int_equal(constant_bits(DTYPE_E8M0, 2), 128);
    assert_int_equal(constant_bits(DTYPE_E8M0, NAN), 255);
    assert_int_equal(constant_truncate(DTYPE_I8, 1e9), 127);
    assert_int_equal(constant_truncate(DTYPE_U8, -3), 0);
    assert_int_equal(constant_truncate(DTYPE_I32, NAN), 0);
    assert_int_equal(constant_truncate(DTYPE_I64, 1e30), INT64_MAX);
    assert_int_equal(constant_wrap(DTYPE_I8, 200), -56);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_expressions_keep_their_values),
        cmocka_unit_test(test_division_of_a_sum_with_a_small_rest),
        cmocka_unit_test(test_terms_cancel),
        cmocka_unit_test(test_comparisons_by_range),
        cmocka_unit_test(test_floats_keep_nan_and_zero),
        cmocka_unit_test(test_overflow_of_int_is_not_folded),
        cmocka_unit_test(test_effects_are_never_dropped),
        cmocka_unit_test(test_ceildiv),
        cmocka_unit_test(test_affine),
        cmocka_unit_test(test_symbolic_bounds),
        cmocka_unit_test(test_replacing_folds_again),
        cmocka_unit_test(test_conversions_of_constants),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
