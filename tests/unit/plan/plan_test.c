// SPDX-License-Identifier: MIT
// plan_test.c - postfix programs give what the expressions mean; plans survive storing; damage is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../ir/evaluate.h"
#include "plan/plan.h"

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

// A kernel of one tensor A[M][N], and scalars n (int), m (int), a (i32), b (u32), c (i64), x (f32), y (f64).
static TileKernel *small_kernel(Random *r)
{
    static const struct {
        const char *name;
        DType type;
    } scalars[] = {
        { "n", DTYPE_INT }, { "m", DTYPE_INT }, { "a", DTYPE_I32 }, { "b", DTYPE_U32 },
        { "c", DTYPE_I64 }, { "x", DTYPE_F32 }, { "y", DTYPE_F64 },
    };
    TileKernel *const k = NEW(arena, TileKernel, .name = "small", .key = "small<>", .target = "cpu", .arena = arena);
    k->diags = diags_new(arena);
    k->n_params = 1 + COUNT(scalars);
    k->params = NEW_ARRAY(arena, TileParam, k->n_params);
    Buffer *const tensor = tile_new_buffer(k, BUFFER_TENSOR, DTYPE_BF16, "A", 2, (Span){ 0 });
    k->params[0] = (TileParam){ .name = "A", .is_tensor = true, .tensor = tensor };
    tensor->param = 0;
    tensor->access = ACCESS_INOUT;
    k->n_binds = 2;
    k->binds = NEW_ARRAY(arena, TileBind, 2);
    for (int d = 0; d < 2; d++) {
        k->binds[d] =
            (TileBind){ .symbol = tile_new_var(k, VAR_SYMBOL, DTYPE_INT, d ? "N" : "M", (Span){ 0 }), .dim = d };
        tensor->shape[d] = expr_var(arena, k->binds[d].symbol);
        r->ints[d] = k->binds[d].symbol;
    }
    for (int i = 0; i < COUNT(scalars); i++) {
        Var *const var = tile_new_var(k, VAR_ARGUMENT, scalars[i].type, scalars[i].name, (Span){ 0 });
        k->params[1 + i] = (TileParam){ .name = scalars[i].name, .scalar = var };
        if (i < 2) r->ints[2 + i] = var;
        else if (i < 5) r->sized[i - 2] = var;
        else r->floats[i - 5] = var;
    }
    k->n_requires = 1;
    k->requires = NEW_ARRAY(arena, TileRequire, 1);
    k->requires[0] = (TileRequire){
        expr_binary(arena, X_GT, expr_var(arena, r->floats[0]), expr_float(arena, DTYPE_F32, 0)), "x is positive", { 0 }
    };
    k->n_checks = 1;
    k->checks = NEW_ARRAY(arena, TileShapeCheck, 1);
    k->checks[0] = (TileShapeCheck){ 0, 1, int_mul(arena, expr_var(arena, r->ints[2]), int_const(arena, 8)) };
    k->n_grid = 1;
    k->grid = NEW_ARRAY(arena, TileGridDim, 1);
    k->grid[0] = (TileGridDim){ tile_new_var(k, VAR_GRID, DTYPE_INT, "g", (Span){ 0 }),
                                int_ceildiv(arena, tensor->shape[0], int_const(arena, 64)), 0 };
    return k;
}

static int64_t value_of(const LaunchPlan *plan, PlanCode code, const int64_t *symbols, const int64_t *scalars)
{
    int64_t value;
    assert_int_equal(plan_eval(plan, code, symbols, scalars, &value), OP_FAULT_NONE);
    return value;
}

static void test_postfix_programs_compute_what_expressions_mean(void **state)
{
    static const DType types[] = { DTYPE_INT, DTYPE_INT, DTYPE_I32, DTYPE_U32, DTYPE_BOOL, DTYPE_F32, DTYPE_F64 };
    Random r = { .state = 7, .arena = arena };
    TileKernel *const k = small_kernel(&r);
    int compared = 0;
    for (int round = 0; round < 20000; round++) {
        const ArenaMark mark = arena_mark(arena);
        LaunchPlan *const plan = plan_new(arena, k, "entry");
        const DType type = types[random_below(&r, COUNT(types))];
        const Twin twin = random_expr(&r, type, 1 + random_below(&r, 4));
        const PlanCode code = plan_add_code(arena, plan, k, twin.plain);
        int64_t symbols[2], scalars[8] = { 0 };
        Env env = { .n = 0 };
        for (int i = 0; i < 2; i++) {
            symbols[i] = random_below(&r, 300);
            env.bindings[env.n++] = (EvalBinding){ r.ints[i], { .i = symbols[i] } };
        }
        for (int i = 1; i < 6; i++) {
            const DType of = k->params[i].scalar->type;
            scalars[i] = constant_wrap(of, of == DTYPE_INT ? random_below(&r, 400) - 200
                                                           : random_ints[random_below(&r, COUNT(random_ints))]);
            env.bindings[env.n++] = (EvalBinding){ k->params[i].scalar, { .i = scalars[i] } };
        }
        const int real = type == DTYPE_F64 ? 7 : 6;
        double value = random_floats[random_below(&r, COUNT(random_floats))];
        if (real == 6) value = (float)value;
        memcpy(&scalars[real], &value, sizeof value);
        env.bindings[env.n++] = (EvalBinding){ k->params[real].scalar, { .f = value } };
        const Result expected = evaluate(twin.plain, &env);
        if (!expected.undefined) {
            int64_t word;
            assert_int_equal(plan_eval(plan, code, symbols, scalars, &word), OP_FAULT_NONE);
            double number;
            memcpy(&number, &word, sizeof number);
            const bool same = dtype_is_float(type) ? number == expected.f || (isnan(number) && isnan(expected.f))
                                                   : word == expected.i;
            if (!same) {
                Text text = { .arena = arena };
                expr_print(&text, twin.plain);
                fail_msg("%s is %lld %g, not %lld %g", text_cstr(&text), (long long)word, number, (long long)expected.i,
                         expected.f);
            }
            compared++;
        }
        arena_rewind(arena, mark);
    }
    assert_true(compared > 8000);
    assert_int_equal(k->diags->errors, 0);
}

static LaunchPlan *full_plan(void)
{
    Random r = { .state = 1, .arena = arena };
    TileKernel *const k = small_kernel(&r);
    LaunchPlan *const plan = plan_new(arena, k, "entry");
    plan->scratch_bytes = 123456789012;
    plan->arch = 90;
    plan->threads = 384;
    plan->n_maps = 1;
    plan->maps = NEW_ARRAY(arena, PlanMap, 1);
    plan->maps[0] = (PlanMap){
        .param = 0, .rank = 3, .type = DTYPE_BF16, .box = { 64, 128 }, .swizzle = 128, .has_steps = true, .n_walked = 1
    };
    plan->maps[0].dim[0] = plan->maps[0].step[1] = plan->maps[0].walked[0].last = plan->params[0].shape[1];
    plan->n_extras = 1;
    plan->extras = NEW_ARRAY(arena, PlanExtra, 1);
    plan->extras[0].value =
        plan_add_code(arena, plan, k, int_add(arena, expr_var(arena, r.ints[0]), int_const(arena, 1)));
    return plan;
}

static void test_a_plan_survives_storing(void **state)
{
    const LaunchPlan *const plan = full_plan();
    Text bytes = { .arena = arena }, again = { .arena = arena };
    plan_write(&bytes, plan);
    const LaunchPlan *const back = plan_read(arena, bytes.data, bytes.length);
    assert_non_null(back);
    plan_write(&again, back);
    assert_int_equal(bytes.length, again.length);
    assert_memory_equal(bytes.data, again.data, bytes.length);
    assert_string_equal(back->name, "small");
    assert_string_equal(back->symbol, "entry");
    assert_string_equal(back->params[7].name, "y");
    assert_string_equal(back->requires[0].message, "x is positive");
    assert_string_equal(back->checks[0].text, "n*8");
    assert_string_equal(back->binds[1].symbol, "N");
    assert_int_equal(back->scratch_bytes, 123456789012);
    assert_int_equal(back->maps[0].swizzle, 128);
    const int64_t symbols[] = { 130, 77 }, scalars[8] = { 0, 5 };
    assert_int_equal(value_of(back, back->grid[0], symbols, scalars), 3);
    assert_int_equal(value_of(back, back->maps[0].dim[0], symbols, scalars), 77);
    assert_int_equal(back->maps[0].n_walked, 1);
    assert_int_equal(value_of(back, back->maps[0].step[1], symbols, scalars), 77);
    assert_int_equal(value_of(back, back->maps[0].walked[0].last, symbols, scalars), 77);
    assert_int_equal(value_of(back, back->checks[0].expected, symbols, scalars), 40);
    assert_int_equal(value_of(back, back->extras[0].value, symbols, scalars), 131);
    assert_int_equal(value_of(back, back->requires[0].cond, symbols, scalars), 0);
}

static uint64_t checksum(const char *bytes, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return sum;
}

static void test_damage_is_refused(void **state)
{
    Text bytes = { .arena = arena };
    plan_write(&bytes, full_plan());
    for (size_t n = 0; n < bytes.length; n++) assert_null(plan_read(arena, bytes.data, n));
    for (size_t i = 0; i < bytes.length; i++) {
        const ArenaMark mark = arena_mark(arena);
        bytes.data[i] ^= 0x41;
        assert_null(plan_read(arena, bytes.data, bytes.length));
        // With the checksum put right, what is read must at least be sound: running it stays inside its tables.
        const uint64_t sum = checksum(bytes.data, bytes.length - 8);
        char before[8];
        memcpy(before, bytes.data + bytes.length - 8, 8);
        for (int b = 0; b < 8; b++) bytes.data[bytes.length - 8 + (size_t)b] = (char)(sum >> 8 * b);
        const LaunchPlan *const plan = plan_read(arena, bytes.data, bytes.length);
        const int64_t symbols[64] = { 1, 2 }, scalars[PLAN_MAX_PARAMS] = { 3 };
        if (plan) {
            for (int g = 0; g < plan->n_grid; g++) plan_eval(plan, plan->grid[g], symbols, scalars, &(int64_t){ 0 });
            for (int c = 0; c < plan->n_checks; c++)
                plan_eval(plan, plan->checks[c].expected, symbols, scalars, &(int64_t){ 0 });
            for (int q = 0; q < plan->n_requires; q++)
                plan_eval(plan, plan->requires[q].cond, symbols, scalars, &(int64_t){ 0 });
        }
        memcpy(bytes.data + bytes.length - 8, before, 8);
        bytes.data[i] ^= 0x41;
        arena_rewind(arena, mark);
    }
    assert_non_null(plan_read(arena, bytes.data, bytes.length));
}

static void test_what_a_launch_cannot_know_is_reported(void **state)
{
    Random r = { .state = 1, .arena = arena };
    TileKernel *const k = small_kernel(&r);
    LaunchPlan *const plan = plan_new(arena, k, "entry");
    Var *const local = tile_new_var(k, VAR_LOCAL, DTYPE_INT, "here", (Span){ 0 });
    const PlanCode code = plan_add_code(arena, plan, k, expr_var(arena, local));
    assert_int_equal(code.length, 0);
    assert_int_equal(k->diags->errors, 1);
    Text text = { .arena = arena };
    diags_print(k->diags, &text, false);
    assert_non_null(strstr(text_cstr(&text), "'here' is not known there"));
}

// x op y of `type` for values given at launch.
static OpFault eval_pair(DType type, ExprOp op, int64_t x, int64_t y, int64_t *value)
{
    Random r = { .state = 1, .arena = arena };
    TileKernel *const k = small_kernel(&r);
    LaunchPlan *const plan = plan_new(arena, k, "entry");
    Expr *const a = expr_convert(arena, type, expr_var(arena, r.ints[0])), *const b = expr_convert(
                                                                               arena, type, expr_var(arena, r.ints[1]));
    return plan_eval(plan, plan_add_code(arena, plan, k, expr_binary(arena, op, a, b)), (int64_t[]){ x, y },
                     (int64_t[8]){ 0 }, value);
}

static void test_what_has_no_value_says_why(void **state)
{
    // clang-format off
    static const struct { ExprOp op; int64_t x, y; OpFault fault; } of_int[] = {
        { X_DIV, 7, 0, OP_FAULT_DIVIDES_BY_ZERO }, { X_MOD, 7, 0, OP_FAULT_DIVIDES_BY_ZERO },
        { X_DIV, INT64_MIN, -1, OP_FAULT_OVERFLOWS }, { X_MOD, INT64_MIN, -1, OP_FAULT_NONE },
        { X_ADD, INT64_MAX, 1, OP_FAULT_OVERFLOWS }, { X_SUB, INT64_MIN, 1, OP_FAULT_OVERFLOWS }, { X_MUL, INT64_MAX, 2, OP_FAULT_OVERFLOWS },
        { X_SHL, 1, 63, OP_FAULT_OVERFLOWS }, { X_SHL, 1, 64, OP_FAULT_SHIFTS_TOO_FAR }, { X_SHR, 1, -1, OP_FAULT_SHIFTS_TOO_FAR },
        { X_SHL, 1, 62, OP_FAULT_NONE },
    };
    // clang-format on
    int64_t value;
    for (int i = 0; i < COUNT(of_int); i++) {
        assert_int_equal(eval_pair(DTYPE_INT, of_int[i].op, of_int[i].x, of_int[i].y, &value), of_int[i].fault);
        if (of_int[i].fault) assert_int_equal(value, 0);
        assert_int_equal(eval_pair(DTYPE_I64, of_int[i].op, of_int[i].x, of_int[i].y, &value) ==
                             OP_FAULT_DIVIDES_BY_ZERO,
                         of_int[i].y == 0);
    }
    assert_int_equal(eval_pair(DTYPE_I32, X_DIV, INT32_MIN, -1, &value), OP_FAULT_NONE);
    assert_int_equal(value, INT32_MIN);
    assert_int_equal(eval_pair(DTYPE_I32, X_SHL, 1, 33, &value), OP_FAULT_NONE);
    assert_int_equal(value, 2);
    assert_int_equal(eval_pair(DTYPE_U64, X_DIV, -1, 2, &value), OP_FAULT_NONE);
    assert_int_equal(value, INT64_MAX);
}

static void test_an_arm_that_is_not_taken_may_divide_by_zero(void **state)
{
    Random r = { .state = 1, .arena = arena };
    TileKernel *const k = small_kernel(&r);
    LaunchPlan *const plan = plan_new(arena, k, "entry");
    Expr *const x = expr_var(arena, r.ints[0]), *const y = expr_var(arena, r.ints[1]),
                *const zero = int_const(arena, 0);
    Expr *const quotient = expr_binary(arena, X_DIV, x, y), *const some = expr_binary(arena, X_NE, y, zero);
    Expr *const chosen = expr_select(arena, some, quotient, int_const(arena, 5));
    Expr *const both = expr_binary(arena, X_AND, some, expr_binary(arena, X_EQ, quotient, int_const(arena, 3)));
    Expr *const ceiling = int_ceildiv(arena, x, y);
    const PlanCode choose = plan_add_code(arena, plan, k, chosen), decide = plan_add_code(arena, plan, k, both);
    const PlanCode ceil = plan_add_code(arena, plan, k, ceiling);
    assert_int_equal(value_of(plan, choose, (int64_t[]){ 7, 0 }, (int64_t[8]){ 0 }), 5);
    assert_int_equal(value_of(plan, choose, (int64_t[]){ 7, 2 }, (int64_t[8]){ 0 }), 3);
    assert_int_equal(value_of(plan, decide, (int64_t[]){ 7, 0 }, (int64_t[8]){ 0 }), 0);
    assert_int_equal(value_of(plan, decide, (int64_t[]){ 7, 2 }, (int64_t[8]){ 0 }), 1);
    assert_int_equal(value_of(plan, ceil, (int64_t[]){ 7, 2 }, (int64_t[8]){ 0 }), 4);
    int64_t value;
    assert_int_equal(plan_eval(plan, ceil, (int64_t[]){ 7, 0 }, (int64_t[8]){ 0 }, &value), OP_FAULT_NO_DIVISOR);
    assert_int_equal(plan_eval(plan, ceil, (int64_t[]){ 7, -2 }, (int64_t[8]){ 0 }, &value), OP_FAULT_NO_DIVISOR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_postfix_programs_compute_what_expressions_mean),
        cmocka_unit_test(test_a_plan_survives_storing),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_what_a_launch_cannot_know_is_reported),
        cmocka_unit_test(test_what_has_no_value_says_why),
        cmocka_unit_test(test_an_arm_that_is_not_taken_may_divide_by_zero),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
