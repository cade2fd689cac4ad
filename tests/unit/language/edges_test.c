// SPDX-License-Identifier: MIT
// edges_test.c - the functions at the edges of f32 and f64: zeros of both signs, infinities, NaN, the least and the largest
// numbers, against the C library. Infinities, NaN and the sign of zero are exact, numbers within what the functions keep.
#include "run.h"

enum { VALUES = 27, FUNCTIONS = 17 };

static const char *const functions[FUNCTIONS] = {
    "exp", "exp2",  "log",  "log2",  "sqrt", "rsqrt", "sin", "cos", "tanh",
    "erf", "floor", "ceil", "round", "rint", "trunc", "abs", "pow",
};

static double right(int f, double x, double y)
{
    switch (f) {
    case 0: return exp(x);
    case 1: return exp2(x);
    case 2: return log(x);
    case 3: return log2(x);
    case 4: return sqrt(x);
    case 5: return 1 / sqrt(x);
    case 6: return sin(x);
    case 7: return cos(x);
    case 8: return tanh(x);
    case 9: return erf(x);
    case 10: return floor(x);
    case 11: return ceil(x);
    case 12: return round(x);
    case 13: return nearbyint(x);
    case 14: return trunc(x);
    case 15: return fabs(x);
    default: return pow(x, y);
    }
}

// Of a type: its least normal and subnormal, largest, and the bounds of exp.
static void edges(bool wide, double *v)
{
    const double tiny = wide ? 0x1p-1022 : 0x1p-126, least = wide ? 0x1p-1074 : 0x1p-149;
    const double most = wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127, far = wide ? 745.2 : 104.0,
                 near = wide ? 709.5 : 88.5;
    const double list[VALUES] = { 0,     -0.0,   1,    -1,    INFINITY, -INFINITY, NAN,  tiny, -tiny,
                                  least, -least, most, -most, 0.5,      -0.5,      1.5,  -1.5, 2.5,
                                  -2.5,  2,      -2,   3,     -3,       far,       -far, near, 1e-5 };
    memcpy(v, list, sizeof list);
}

static bool may_flush(int f) { return f == 1 || f == 3 || f == 6 || f == 7; } // exp2 log2 sin cos

static bool is_right(int f, bool wide, double x, double y, double got)
{
    const double exact = right(f, x, y), tiny = wide ? 0x1p-1022 : 0x1p-126;
    const double expected = wide ? exact : (double)(float)exact, zero = copysign(0, x);
    if (may_flush(f) && x != 0 && fabs(x) < tiny && is_right(f, wide, zero, y, got)) return true;
    if (isnan(expected)) return isnan(got);
    if (may_flush(f) && fabs(expected) < tiny && got == 0) return true;
    if (isinf(expected) || isinf(got)) return got == expected || fabs(exact) > (wide ? 0x1.ffp1023 : 0x1.fffffp127);
    if (expected == 0) return got == 0 && (signbit(got) == signbit(expected) || f >= 6);
    return fabs(got - expected) <= fabs(expected) * (wide ? 1e-12 : 4e-6) + (wide ? 0x1p-1074 : 0x1p-149);
}

static char *kernel_text(const char *type)
{
    static char text[4096];
    char *at = text + sprintf(text, "kernel k(in %s X[%d], out %s Y[%d][%d], out %s P[%d][%d]) { grid ();\n", type,
                              VALUES, type, FUNCTIONS, VALUES, type, VALUES, VALUES);
    at += sprintf(at, "forall (i : %d) {\n%s x = X[i];\n", VALUES, type);
    for (int f = 0; f < FUNCTIONS - 1; f++) at += sprintf(at, "Y[%d][i] = %s(x);\n", f, functions[f]);
    sprintf(at, "}\nforall (i : %d, j : %d) P[i][j] = pow(X[i], X[j]);\n}\n", VALUES, VALUES);
    return text;
}

static int report(int f, bool wide, double x, double y, double got)
{
    if (is_right(f, wide, x, y, got)) return 0;
    print_error("%s of %s: %s(%.9g", test_device() ? kiln_device_name(test_device()) : "", wide ? "f64" : "f32",
                functions[f], x);
    if (f == FUNCTIONS - 1) print_error(", %.9g", y);
    print_error(") is %.17g, expected %.17g\n", got, right(f, x, y));
    return 1;
}

static void compare(bool wide)
{
    double v[VALUES], wide_x[VALUES], wide_y[FUNCTIONS][VALUES], wide_p[VALUES][VALUES];
    float x[VALUES], y[FUNCTIONS][VALUES], p[VALUES][VALUES];
    int wrong = 0;
    edges(wide, v);
    for (int i = 0; i < VALUES; i++) x[i] = (float)(wide_x[i] = v[i]);
    kiln_kernel *const kernel = build(kernel_text(wide ? "f64" : "f32"), "k", NULL);
    if (wide)
        RUN(kernel, T(wide_x, KILN_F64, VALUES), T(wide_y, KILN_F64, FUNCTIONS, VALUES),
            T(wide_p, KILN_F64, VALUES, VALUES));
    else RUN(kernel, T(x, KILN_F32, VALUES), T(y, KILN_F32, FUNCTIONS, VALUES), T(p, KILN_F32, VALUES, VALUES));
    kiln_kernel_free(kernel);
    for (int i = 0; i < VALUES; i++) {
        const double a = wide ? v[i] : (double)x[i];
        for (int f = 0; f < FUNCTIONS - 1; f++) wrong += report(f, wide, a, 0, wide ? wide_y[f][i] : (double)y[f][i]);
        for (int j = 0; j < VALUES; j++)
            wrong += report(FUNCTIONS - 1, wide, a, wide ? v[j] : (double)x[j], wide ? wide_p[i][j] : (double)p[i][j]);
    }
    assert_int_equal(wrong, 0);
}

static void of_f32(void **state) { compare(false); }
static void of_f64(void **state) { compare(true); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(of_f32), cmocka_unit_test(of_f64) };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
