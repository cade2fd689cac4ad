// SPDX-License-Identifier: MIT
// --check builds stop at the line of the mistake, and say nothing about code without one.
#include "run.h"

static void expect_trap(const char *text, const char *message, int64_t value)
{
    int32_t data[16] = { 0 };
    kiln_kernel *const kernel = build_checked(text, "k", NULL, true);
    kiln_tensor X = TENSOR(data, KILN_I32, 16);
    const kiln_arg args[] = { KILN_TENSOR(&X), KILN_INT(value) };
    assert_int_equal(kiln_launch(kernel, NULL, args, 2), message ? KILN_TRAPPED : KILN_OK);
    if (message && !strstr(kiln_error_message(), message))
        fail_msg("'%s' does not say '%s'", kiln_error_message(), message);
    kiln_kernel_free(kernel);
}

static void a_subscript_past_a_tile_traps(void **state)
{
    static const char text[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    shared i32 t[16] = X[0 +: 16];\n    X[0] = t[v];\n}\n";
    expect_trap(text, "test.tile:5:12: a subscript of 't'", 16);
    expect_trap(text, "outside", -1);
    expect_trap(text, NULL, 15);
}

static void reading_what_nothing_wrote_traps(void **state)
{
    static const char text[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    shared i32 t[16];\n    forall (i : v) t[i] = i;\n    X[0] = t[7];\n}\n";
    expect_trap(text, "test.tile:6:12: reads an element of 't'", 7);
    expect_trap(text, NULL, 8);
    // A tile that is declared in a loop is undefined anew in every step.
    static const char anew[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    for (int i = 0; i < 2; i++) {\n        shared i32 t[1];\n"
        "        if (i < v) t[0] = 1;\n        X[0] = t[0];\n    }\n}\n";
    expect_trap(anew, "test.tile:7:16: reads an element of 't'", 1);
    expect_trap(anew, NULL, 2);
}

static void an_overflowing_int_traps(void **state)
{
    static const char text[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    int a = v * v;\n    X[0] = a > 0;\n}\n";
    expect_trap(text, "test.tile:4:13: 'int' overflows in '*'", (int64_t)1 << 40);
    expect_trap(text, NULL, 1 << 20);
}

// One operation on v: what is said for a value that has no result (NULL: nothing), and a value that has one.
static void expect_arithmetic(const char *operation, int64_t bad, const char *message, int64_t good)
{
    char text[256], where[128];
    snprintf(text, sizeof text, "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    %s\n    X[0] = a > 0;\n}\n",
             operation);
    snprintf(where, sizeof where, "test.tile:4:%s", message ? message : "");
    expect_trap(text, message ? where : NULL, bad);
    expect_trap(text, NULL, good);
}

static void arithmetic_without_a_result_traps(void **state)
{
    expect_arithmetic("int a = 7 / v;", 0, "13: division by zero", -1);
    expect_arithmetic("int a = 7 % v;", 0, "13: remainder of a division by zero", -1);
    expect_arithmetic("i32 a = 7 / convert<i32>(v);", INT64_C(1) << 32, "13: division by zero", 1);
    expect_arithmetic("u64 a = convert<u64>(7) % convert<u64>(v);", 0, "13: remainder of a division by zero", -1);
    expect_arithmetic("int a = v / -1;", INT64_MIN, "13: 'int' overflows in '/'", -INT64_MAX);
    expect_arithmetic("int a = v % -1;", INT64_MIN, NULL, 0);
    expect_arithmetic("int a = -v;", INT64_MIN, "13: 'int' overflows in '-'", INT64_MAX);
    expect_arithmetic("int a = abs(v);", INT64_MIN, "13: 'int' overflows in 'abs'", -INT64_MAX);
    expect_arithmetic("int a = v - 2;", INT64_MIN + 1, "13: 'int' overflows in '", INT64_MIN + 2);
    expect_arithmetic("int a = v << 4;", INT64_C(1) << 59, "13: 'int' overflows in '<<'", INT64_C(1) << 58);
    expect_arithmetic("int a = 1 << v;", 64, "13: '<<' by less than 0 or more than 63", 62);
    expect_arithmetic("int a = 1 >> v;", -1, "13: '>>' by less than 0 or more than 63", 63);
    expect_arithmetic("int a = ceildiv(v, v);", -3, "13: 'ceildiv' by a divisor that is not positive", 3);
    expect_arithmetic("int a = 1; a /= v;", 0, "16: division by zero", 1);
    expect_arithmetic("fragment i32 f[4] = 1; int a = 1; forall (i : 4) f[i] %= convert<i32>(v);", 0,
                      "54: remainder of a division by zero", 1);
    expect_arithmetic("fragment int f[4] = v; int a = 0; forall (i : 4) a += f[i];", INT64_C(1) << 61,
                      "54: 'int' overflows in '+'", INT64_C(1) << 60);
    // Sized integers wrap, and take the count of a shift modulo their width.
    expect_arithmetic("i32 a = 1; a = (a << convert<i32>(v)) - 2147483647; i64 b = 1; b = b * v * v; a = -(a - 2);",
                      INT64_MAX, NULL, 31);
}

static void asserts_and_assumptions_stop_the_launch(void **state)
{
    static const char text[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    assert(v < 3, \"v is small\");\n    assume(v < 2);\n    X[0] = v;\n}\n";
    expect_trap(text, "test.tile:4:5: v is small", 3);
    expect_trap(text, "test.tile:5:5: this assumption does not hold", 2);
    expect_trap(text, NULL, 1);
}

// Under a condition, or of a number in memory, a view is looked at where it is made.
static void views_of_other_sizes_trap(void **state)
{
    static const char text[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    if (v > 2) {\n        view a[2][v] = X[0 +: 8];\n        X[1] = a[0][1];\n    }\n"
        "    i32 n = X[0] + 4;\n    view b[n][2] = X[0 +: 8];\n    X[2] = b[0][1];\n}\n";
    expect_trap(text, "test.tile:5:14: the view 'a' has max(v, 0)*2 elements, what it names 8", 3);
    expect_trap(text, NULL, 4);
    expect_trap(text, NULL, 1);
    static const char loaded[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    X[0] = v;\n    i32 n = X[0];\n    view b[n][2] = X[0 +: 8];\n"
        "    X[2] = b[0][1];\n}\n";
    expect_trap(loaded, "test.tile:6:10: the view 'b' has", 3);
    expect_trap(loaded, NULL, 4);
    static const char left[] =
        "fn void put(inout i32 X[N], int v)\n{\n    if (v < 3) return;\n    view a[v][2] = X[0 +: 8];\n    X[1] = a[0][1];\n}\n"
        "kernel k(inout i32 X[N], int v) { grid (); put(X, v); }\n";
    expect_trap(left, "test.tile:4:10: the view 'a' has", 3);
    expect_trap(left, NULL, 4);
    expect_trap(left, NULL, 1);
}

static void dependent_iterations_trap(void **state)
{
    static const char shifted[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    shared i32 t[16] = X[0 +: 16];\n"
        "    forall (i : 8) t[i] = t[i + v];\n    X[0] = t[7];\n}\n";
    static const char scattered[] =
        "kernel k(inout i32 X[N], int v)\n{\n    grid ();\n    shared i32 at[8];\n    forall (i : 8) at[i] = i % v;\n"
        "    forall (i : 8) X[at[i]] = i;\n}\n";
    expect_trap(shifted, "test.tile:5:20: an iteration of a forall writes an element of 't' that another reads", 1);
    expect_trap(shifted, NULL, 8);
    expect_trap(shifted, NULL, 0);
    expect_trap(scattered, "test.tile:6:20: two iterations of a forall write the same element of 'X'", 7);
    expect_trap(scattered, NULL, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_subscript_past_a_tile_traps),
        cmocka_unit_test(reading_what_nothing_wrote_traps),
        cmocka_unit_test(an_overflowing_int_traps),
        cmocka_unit_test(arithmetic_without_a_result_traps),
        cmocka_unit_test(asserts_and_assumptions_stop_the_launch),
        cmocka_unit_test(views_of_other_sizes_trap),
        cmocka_unit_test(dependent_iterations_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
