// SPDX-License-Identifier: MIT
// vector_math_test.c - every f32 function of the prelude against the C library in f64.
//
// Samples the 2^32 inputs by default; KILN_EXHAUSTIVE=1 takes all of them. The functions run in a
// loop over an array, as kernels run them: what is tested is the vectorised code.
#include "../../../../src/lower/cpu/prelude/base.c"
#include "../../../../src/lower/cpu/prelude/vector_math.c"
#include "../../../../src/lower/cpu/prelude/reduce.c"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096 };
#define DEFINE_LOOP(F)                                                                                                 \
    static __attribute__((noinline)) void loop_##F(float *restrict y, const float *restrict x)                         \
    {                                                                                                                  \
        for (int i = 0; i < BLOCK; i++) y[i] = kiln_##F##_f32(x[i]);                                                   \
    }
DEFINE_LOOP(exp)
DEFINE_LOOP(exp2)
DEFINE_LOOP(log)
DEFINE_LOOP(log2)
DEFINE_LOOP(sin)
DEFINE_LOOP(cos)
DEFINE_LOOP(tanh)
DEFINE_LOOP(erf)
DEFINE_LOOP(sqrt)
DEFINE_LOOP(rsqrt)
DEFINE_LOOP(floor)
DEFINE_LOOP(ceil)
DEFINE_LOOP(round)
DEFINE_LOOP(rint)
DEFINE_LOOP(trunc)
DEFINE_LOOP(abs)

static __attribute__((noinline)) void loop_pow(float *restrict z, const float *restrict x, const float *restrict y)
{
    for (int i = 0; i < BLOCK; i++) z[i] = kiln_pow_f32(x[i], y[i]);
}
static double reciprocal_sqrt(double x) { return 1 / sqrt(x); }

// clang-format off
static const struct { const char *name; void (*loop)(float *, const float *); double (*exact)(double); double ulp; int flushes; } functions[] = {
    { "exp", loop_exp, exp, 1, 0 },       { "exp2", loop_exp2, exp2, 1, 1 },   { "log", loop_log, log, 1, 0 },
    { "log2", loop_log2, log2, 1, 0 },    { "sin", loop_sin, sin, 1, 0 },      { "cos", loop_cos, cos, 1, 0 },
    { "tanh", loop_tanh, tanh, 1, 0 },    { "erf", loop_erf, erf, 1, 0 },      { "sqrt", loop_sqrt, sqrt, 0.501, 0 },
    { "rsqrt", loop_rsqrt, reciprocal_sqrt, 1, 0 }, { "floor", loop_floor, floor, 0, 0 }, { "ceil", loop_ceil, ceil, 0, 0 },
    { "round", loop_round, round, 0, 0 }, { "rint", loop_rint, rint, 0, 0 },   { "trunc", loop_trunc, trunc, 0, 0 },
    { "abs", loop_abs, fabs, 0, 0 },
};
// clang-format on

// The distance of got from exact in units of the last place of f32; infinite if of different kinds.
static double ulps(float got, double exact, int flushes)
{
    const float nearest = (float)exact;
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (isinf(nearest) && isinf(got)) return (nearest > 0) == (got > 0) ? 0 : INFINITY;
    if (isinf(got) && fabs(exact) > 0x1.ffffp127) return (got > 0) == (exact > 0) ? 1 : INFINITY;
    if (isinf(nearest) || isinf(got)) return got == copysignf(0x1.fffffep127f, nearest) ? 1 : INFINITY;
    if (got == 0 && nearest == 0 && !signbit(got) != !signbit(exact)) return INFINITY;
    if (flushes && got == 0 && fabs(exact) < 0x1p-126) return 0;
    int e;
    frexp(exact, &e);
    const double unit = ldexp(1, (e - 1 < -126 ? -126 : e - 1) - 23);
    return fabs((double)got - exact) / unit;
}

static int check_function(int f, uint64_t step)
{
    float x[BLOCK], y[BLOCK], at = 0;
    double worst = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
        for (int i = 0; i < BLOCK; i++, bits += step) x[i] = kiln_f32_bits((uint32_t)bits);
        functions[f].loop(y, x);
        for (int i = 0; i < BLOCK; i++) {
            const double error = ulps(y[i], functions[f].exact((double)x[i]), functions[f].flushes);
            if (error > worst) worst = error, at = x[i];
        }
    }
    const int bad = worst > functions[f].ulp;
    printf("%-6s %6.3f ulp at %a%s\n", functions[f].name, worst, (double)at, bad ? "  TOO MUCH" : "");
    return bad;
}

static const float edges[] = { 0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               0.5f,
                               -0.5f,
                               1.5f,
                               -1.5f,
                               2.0f,
                               -2.0f,
                               3.0f,
                               -3.0f,
                               4.0f,
                               0x1p-149f,
                               -0x1p-149f,
                               0x1p-126f,
                               0x1.fffffep-127f,
                               88.7f,
                               -87.4f,
                               -103.9f,
                               127.99999f,
                               128.0f,
                               -126.0f,
                               0x1.fffffep-2f,
                               8388609.0f,
                               16777215.0f,
                               -16777215.0f,
                               0x1p127f,
                               0x1.fffffep127f,
                               -0x1.fffffep127f,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               0x1p30f,
                               1e-10f,
                               0.999999f,
                               1.000001f };
enum { EDGES = sizeof edges / sizeof *edges };

static int check_edges(int f)
{
    float x[BLOCK] = { 0 }, y[BLOCK];
    int bad = 0;
    memcpy(x, edges, sizeof edges);
    functions[f].loop(y, x);
    for (int i = 0; i < EDGES; i++)
        if (!(ulps(y[i], functions[f].exact((double)x[i]), functions[f].flushes) <= functions[f].ulp))
            bad = 1, printf("%s(%a) = %a\n", functions[f].name, (double)x[i], (double)y[i]);
    return bad;
}

static int check_pow(int samples)
{
    float x[BLOCK], y[BLOCK], z[BLOCK];
    double worst = 0;
    float at[2] = { 0 };
    uint64_t seed = 88172645463325252u;
    for (int n = 0; n < samples; n++) {
        for (int i = 0; i < BLOCK; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            const int edge = n == 0;
            x[i] = edge ? edges[i % EDGES] : kiln_f32_bits((uint32_t)seed);
            y[i] = edge ? edges[i / EDGES % EDGES] : kiln_f32_bits((uint32_t)(seed >> 32));
            // Most powers of random bits overflow: aim the others at results in range.
            if (!edge && n % 2 && x[i] > 0 && x[i] != 1)
                y[i] = (float)((double)(int64_t)(seed >> 20 & 0xfffff) / 3500 - 149) / (float)log2((double)x[i]);
        }
        loop_pow(z, x, y);
        for (int i = 0; i < BLOCK; i++) {
            const double error = ulps(z[i], pow((double)x[i], (double)y[i]), 0);
            if (error > worst) worst = error, at[0] = x[i], at[1] = y[i];
        }
    }
    const int bad = worst > 1;
    printf("%-6s %6.3f ulp at %a, %a%s\n", "pow", worst, (double)at[0], (double)at[1], bad ? "  TOO MUCH" : "");
    return bad;
}

// Reductions of every short length, with NaN in every place.
static int check_rows(int thin)
{
    float row[200];
    int bad = 0;
    for (int n = 0; n < 150; n += thin ? 11 : 1)
        for (int hole = -1; hole < n; hole++) {
            float most = -INFINITY, least = INFINITY;
            double sum = 0;
            for (int i = 0; i < n; i++) {
                row[i] = i == hole ? NAN : (float)((i * 7919 + 13) % 201 - 100);
                if (i == hole) {
                    sum = NAN;
                    continue;
                }
                most = fmaxf(most, row[i]), least = fminf(least, row[i]), sum += (double)row[i];
            }
            row[n] = 1e9f;
            const float got = kiln_row_sum_f32(row, n);
            if (kiln_row_max_f32(row, n) != most || kiln_row_min_f32(row, n) != least ||
                !(got == (float)sum || (isnan(got) && isnan(sum))))
                bad = 1, printf("rows of %d with NaN at %d: %g %g %g\n", n, hole, (double)kiln_row_max_f32(row, n),
                                (double)kiln_row_min_f32(row, n), (double)got);
        }
    if (kiln_max_f32(NAN, 1) != 1 || kiln_max_f32(1, NAN) != 1 || kiln_min_f32(NAN, 1) != 1 ||
        kiln_min_f32(1, NAN) != 1)
        bad = 1, printf("max or min lost the number beside a NaN\n");
    return bad;
}

int main(void)
{
    const int all = getenv("KILN_EXHAUSTIVE") != NULL, thin = getenv("KILN_SPARSE") != NULL; // for emulated processors
    const char *const only = getenv("KILN_ONLY");
    int bad = check_rows(thin);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        if (!only || strcmp(only, functions[f].name) == 0)
            bad |= check_edges((int)f) | check_function((int)f, all ? 1 : thin ? 1021 * 61 : 1021);
    if (!only || strcmp(only, "pow") == 0) bad |= check_pow(all ? 20000 : thin ? 3 : 100);
    return bad;
}
