// SPDX-License-Identifier: MIT
// builtin_test.c - the table of built-in functions: each row says all that its types need, and its columns agree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ir/expr.h"

static void test_each_row_says_what_its_types_need(void **state)
{
    for (int fn = 0; fn < M_COUNT; fn++) {
        const Builtin *const row = &builtins[fn];
        assert_non_null(row->name);
        assert_in_range(row->arguments, 1, BUILTIN_ARGUMENTS_MAX);
        const bool takes_floats = row->takes == TAKES_FLOATS || row->takes == TAKES_NUMBERS;
        assert_int_equal(row->c_real.form != C_NEVER, takes_floats);
        assert_int_equal(row->c_integer.form != C_NEVER, row->takes != TAKES_FLOATS);
        assert_int_equal(row->real != NULL, takes_floats);
        assert_true(row->takes != TAKES_NUMBERS || row->integer);
        assert_true(!(row->picks || row->divides) || (row->integer && row->range));
        for (int other = 0; other < fn; other++) assert_string_not_equal(row->name, builtins[other].name);
    }
}

static void expect_ranged(const Builtin *row, DType type, const int64_t *v)
{
    int64_t value;
    Range args[BUILTIN_ARGUMENTS_MAX];
    for (int i = 0; i < row->arguments; i++) args[i] = range_exactly(v[i]);
    if (row->integer(type, v, &value) != OP_FAULT_NONE) return;
    const Range r = row->range(args);
    if (type == DTYPE_I32 && r.has_hi && r.hi > INT32_MAX) return; // the magnitude of the least number wraps
    assert_true(!r.has_lo || r.lo <= value);
    assert_true(!r.has_hi || value <= r.hi);
    if (row->picks) assert_true(value == v[0] || value == v[1] || value == v[row->arguments - 1]);
}

static void test_what_an_integer_function_gives_is_in_its_range(void **state)
{
    static const int64_t values[] = { INT32_MIN, -65, -64, -1, 0, 1, 2, 63, 64, 65, INT32_MAX };
    for (int fn = 0; fn < M_COUNT; fn++) {
        if (!builtins[fn].integer || !builtins[fn].range) continue;
        for (int i = 0; i < COUNT(values); i++)
            for (int j = 0; j < COUNT(values); j++) {
                const int64_t v[] = { values[i], values[j], values[(i + j) % COUNT(values)] };
                expect_ranged(&builtins[fn], DTYPE_INT, v);
                expect_ranged(&builtins[fn], DTYPE_I32, v);
            }
    }
}

static void test_constants_at_the_edges(void **state)
{
    int64_t value;
    assert_int_equal(builtins[M_CEILDIV].integer(DTYPE_U64, (int64_t[]){ -1, 2 }, &value), OP_FAULT_NONE);
    assert_int_equal(value, INT64_MIN); // 2^63 as its bits
    assert_int_equal(builtins[M_CEILDIV].integer(DTYPE_I64, (int64_t[]){ 7, -2 }, &value), OP_FAULT_NO_DIVISOR);
    assert_int_equal(builtins[M_ABS].integer(DTYPE_INT, (int64_t[]){ INT64_MIN }, &value), OP_FAULT_OVERFLOWS);
    assert_int_equal(builtins[M_CLZ].integer(DTYPE_I32, (int64_t[]){ -1 }, &value), OP_FAULT_NONE);
    assert_int_equal(value, 0);
    assert_int_equal(op_compute_int(X_MOD, DTYPE_INT, INT64_MIN, -1, &value), OP_FAULT_NONE);
    assert_int_equal(value, 0);
    // Rounded once: the sum is just below the middle of two f32, and as a double it is the middle.
    const double factors[] = { 1 + 0x1p-23, 0x1p-24 - 0x1p-47, 1 + 0x1p-23 };
    assert_true(builtins[M_FMA].real(DTYPE_F32, factors) == 1 + 0x1p-23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_says_what_its_types_need),
        cmocka_unit_test(test_what_an_integer_function_gives_is_in_its_range),
        cmocka_unit_test(test_constants_at_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
