// SPDX-License-Identifier: MIT
// convert_test.c - conversions between element types, against nearest-even by search in f64.
//
// To f32: every code of every narrow type, from the format's definition. From f32: samples of the
// 2^32 inputs (KILN_EXHAUSTIVE=1: all; KILN_SPARSE=1: few), and every code, every midpoint and their neighbours.
// All through loops, so that the vectorised code is what runs.
#include "../../../../src/lower/cpu/prelude/base.c"
#include "../../../../src/lower/cpu/prelude/convert.c"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096 };
typedef struct {
    const char *name;
    int bits, mantissa, bias, saturates, has_infinity, has_nan;
    uint32_t most; // code of the largest finite magnitude
} Format;
static const Format formats[] = {
    { "f16", 16, 10, 15, 0, 1, 1, 0x7bff }, { "bf16", 16, 7, 127, 0, 1, 1, 0x7f7f }, { "e4m3", 8, 3, 7, 1, 0, 1, 0x7e },
    { "e5m2", 8, 2, 15, 1, 1, 1, 0x7b },    { "e2m1", 4, 1, 1, 1, 0, 0, 0x7 },
};
enum { FORMATS = sizeof formats / sizeof *formats };

static __attribute__((noinline)) void widen(int f, float *restrict y, const uint32_t *restrict code)
{
    uint16_t half[BLOCK];
    for (int i = 0; i < BLOCK; i++) half[i] = (uint16_t)code[i];
    switch (f) {
    case 0:
        for (int i = 0; i < BLOCK; i++) y[i] = kiln_f32_from_f16(half[i]);
        break;
    case 1:
        for (int i = 0; i < BLOCK; i++) y[i] = kiln_f32_from_bf16(half[i]);
        break;
    case 2:
        for (int i = 0; i < BLOCK; i++) y[i] = kiln_f32_from_e4m3((uint8_t)code[i]);
        break;
    case 3:
        for (int i = 0; i < BLOCK; i++) y[i] = kiln_f32_from_e5m2((uint8_t)code[i]);
        break;
    case 4:
        for (int i = 0; i < BLOCK; i++) y[i] = kiln_f32_from_e2m1((uint8_t)code[i]);
        break;
    }
}
static __attribute__((noinline)) void narrow(int f, uint32_t *restrict code, const float *restrict x)
{
    switch (f) {
    case 0:
        for (int i = 0; i < BLOCK; i++) code[i] = kiln_f16_from_f32(x[i]);
        break;
    case 1:
        for (int i = 0; i < BLOCK; i++) code[i] = kiln_bf16_from_f32(x[i]);
        break;
    case 2:
        for (int i = 0; i < BLOCK; i++) code[i] = kiln_e4m3_from_f32(x[i]);
        break;
    case 3:
        for (int i = 0; i < BLOCK; i++) code[i] = kiln_e5m2_from_f32(x[i]);
        break;
    case 4:
        for (int i = 0; i < BLOCK; i++) code[i] = kiln_e2m1_from_f32(x[i]);
        break;
    }
}

// The value of a magnitude code by definition.
static double value_of(const Format *f, uint32_t magnitude)
{
    const uint32_t e = magnitude >> f->mantissa, m = magnitude & ((1u << f->mantissa) - 1);
    if (magnitude > f->most) return f->has_infinity && m == 0 ? INFINITY : NAN;
    return e ? ldexp(1 + ldexp(m, -f->mantissa), (int)e - f->bias) : ldexp(m, 1 - f->bias - f->mantissa);
}

// Nearest even by bisection over the codes.
static uint32_t nearest(const Format *f, double x)
{
    const uint32_t sign = signbit(x) ? 1u << (f->bits - 1) : 0;
    const double a = fabs(x);
    uint32_t low = 0, high = f->most;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (value_of(f, middle) <= a) low = middle;
        else high = middle;
    }
    // One step past the end stands for what overflows.
    const double above = value_of(f, high), below = value_of(f, low),
                 top = 2 * value_of(f, f->most) - value_of(f, f->most - 1);
    if (a >= value_of(f, f->most)) {
        if (f->saturates) return sign | f->most;
        return sign | (a >= (value_of(f, f->most) + top) / 2 ? f->most + 1 : f->most);
    }
    const double middle = (above + below) / 2;
    return sign | (a > middle || (a == middle && high % 2 == 0) ? high : low);
}

// One case of so many: KILN_SPARSE, for processors that are emulated.
static uint32_t thin = 1;

static int check_widen(int f)
{
    const Format *const t = &formats[f];
    uint32_t code[BLOCK];
    float y[BLOCK];
    int bad = 0;
    for (uint32_t first = 0; first < 1u << t->bits; first += BLOCK) {
        for (uint32_t i = 0; i < BLOCK; i++) code[i] = (first + i) & ((1u << t->bits) - 1);
        widen(f, y, code);
        for (int i = 0; i < BLOCK && !bad; i++) {
            const double size = value_of(t, code[i] & ((1u << (t->bits - 1)) - 1));
            const double x = code[i] >> (t->bits - 1) ? -size : size;
            if (isnan(x) ? !isnan(y[i]) : !((double)y[i] == x && !signbit(y[i]) == !signbit(x)))
                bad = 1, printf("f32 from %s %#x: %a, expected %a\n", t->name, code[i], (double)y[i], x);
        }
    }
    return bad;
}

static int check_narrow_block(int f, const float *x)
{
    const Format *const t = &formats[f];
    uint32_t code[BLOCK];
    narrow(f, code, x);
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t magnitude = code[i] & ((1u << (t->bits - 1)) - 1);
        const int right = isnan(x[i]) ? (t->has_nan ? isnan(value_of(t, magnitude)) : code[i] == t->most)
                                      : code[i] == nearest(t, (double)x[i]);
        if (!right) return printf("%s from %a: %#x\n", t->name, (double)x[i], code[i]), 1;
    }
    return 0;
}
static int check_narrow(int f, uint64_t step)
{
    const Format *const t = &formats[f];
    float x[BLOCK];
    int bad = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32 && !bad;) {
        for (int i = 0; i < BLOCK; i++, bits += step) x[i] = kiln_f32_bits((uint32_t)bits);
        bad = check_narrow_block(f, x);
    }
    for (uint32_t code = 0; code <= t->most && !bad; code += BLOCK / 8 * thin)
        for (int side = 0; side < 2 && !bad; side++) {
            for (uint32_t i = 0; i < BLOCK / 8; i++) {
                const uint32_t c = code + i < t->most ? code + i : t->most - 1;
                const double low = value_of(t, c), high = value_of(t, c + 1);
                const float at[] = { (float)low, (float)((low + high) / 2) };
                for (int k = 0; k < 8; k++) {
                    const float edge = at[k & 1];
                    const float near = k < 2   ? edge
                                       : k < 4 ? nextafterf(edge, INFINITY)
                                       : k < 6 ? nextafterf(edge, 0)
                                               : edge * 2;
                    x[i * 8 + (uint32_t)k] = side ? -near : near;
                }
            }
            bad = check_narrow_block(f, x);
        }
    return bad;
}

// Rows use other instructions than the scalar functions: they must agree, at every length.
static int check_rows(void)
{
    float x[300], back[300];
    uint16_t got[300];
    int bad = 0;
    for (int n = 0; n < 70; n++) {
        for (int i = 0; i < 300; i++) x[i] = kiln_f32_bits((uint32_t)(i + 300 * n) * 204811u), got[i] = 0xdead;
        kiln_row_f16_from_f32(got, x, n);
        kiln_row_f32_from_f16(back, got, n);
        for (int i = 0; i < n; i++) {
            const uint16_t want = kiln_f16_from_f32(x[i]);
            const float wide = kiln_f32_from_f16(want);
            bad |= isnan(x[i]) ? !isnan(back[i]) : got[i] != want || kiln_bits_f32(back[i]) != kiln_bits_f32(wide);
        }
        bad |= got[n] != 0xdead;
        kiln_row_bf16_from_f32(got, x, n);
        for (int i = 0; i < n; i++) bad |= got[i] != kiln_bf16_from_f32(x[i]);
    }
    if (bad) printf("rows and scalars differ\n");
    return bad;
}

static double saturated(double x, double least, double most)
{
    return isnan(x) ? 0 : fmin(fmax(trunc(x), least), most);
}
#define CHECK_INTEGER(NAME, TO, LEAST, MOST)                                                                           \
    for (int i = 0; i < BLOCK; i++) {                                                                                  \
        const double want = saturated((double)x[i], LEAST, (double)(MOST));                                            \
        const TO w = want >= (double)(MOST) ? (TO)(MOST) : (TO)want;                                                   \
        if ((TO)NAME(x[i]) != w) return printf(#NAME "(%a) is wrong\n", (double)x[i]), 1;                              \
    }
static int check_integers(void)
{
    static const float edges[] = { 0.0f,
                                   -0.0f,
                                   0.99f,
                                   -0.99f,
                                   1.0f,
                                   -1.0f,
                                   127.0f,
                                   128.0f,
                                   -128.0f,
                                   -129.0f,
                                   255.9f,
                                   256.0f,
                                   7.5f,
                                   8.0f,
                                   -8.9f,
                                   -9.0f,
                                   32767.5f,
                                   32768.0f,
                                   -32768.9f,
                                   -32769.0f,
                                   65535.5f,
                                   65536.0f,
                                   2147483520.0f,
                                   2147483648.0f,
                                   -2147483648.0f,
                                   -2147483904.0f,
                                   4294967040.0f,
                                   4294967296.0f,
                                   9223371487098961920.0f,
                                   9223372036854775808.0f,
                                   -9223372036854775808.0f,
                                   -9223373136366403584.0f,
                                   18446742974197923840.0f,
                                   18446744073709551616.0f,
                                   1e30f,
                                   -1e30f,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   0x1p-149f,
                                   3.0f,
                                   1.9f,
                                   -2.9f,
                                   -3.0f };
    for (uint32_t n = 0; n < 200; n += thin) {
        float x[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            x[i] = n == 0 ? edges[(size_t)i % (sizeof edges / sizeof *edges)]
                          : kiln_f32_bits(((uint32_t)i + n * BLOCK) * 5237u);
        CHECK_INTEGER(kiln_i32_from_f32, int32_t, INT32_MIN, INT32_MAX)
        CHECK_INTEGER(kiln_u32_from_f32, uint32_t, 0, UINT32_MAX)
        CHECK_INTEGER(kiln_i64_from_f32, int64_t, (double)INT64_MIN, INT64_MAX)
        CHECK_INTEGER(kiln_u64_from_f32, uint64_t, 0, UINT64_MAX)
        CHECK_INTEGER(kiln_i32_from_f64, int32_t, INT32_MIN, INT32_MAX)
        CHECK_INTEGER(kiln_u32_from_f64, uint32_t, 0, UINT32_MAX)
        CHECK_INTEGER(kiln_i64_from_f64, int64_t, (double)INT64_MIN, INT64_MAX)
        CHECK_INTEGER(kiln_u64_from_f64, uint64_t, 0, UINT64_MAX)
        CHECK_INTEGER(kiln_i16_from_f32, int32_t, -32768, 32767)
        CHECK_INTEGER(kiln_u16_from_f32, int32_t, 0, 65535)
        CHECK_INTEGER(kiln_i8_from_f32, int32_t, -128, 127)
        CHECK_INTEGER(kiln_u8_from_f32, int32_t, 0, 255)
        CHECK_INTEGER(kiln_i4_from_f32, int32_t, -8, 7)
        CHECK_INTEGER(kiln_u4_from_f32, int32_t, 0, 15)
        CHECK_INTEGER(kiln_i2_from_f32, int32_t, -2, 1)
        CHECK_INTEGER(kiln_u2_from_f32, int32_t, 0, 3)
    }
    return 0;
}

static int check_packed(void)
{
    uint8_t row[16];
    int bad = 0;
    memset(row, 0xa5, sizeof row);
    for (int i = 0; i < 20; i++) kiln_set_bits4(row, i, (uint32_t)(i * 7 + 3));
    for (int i = 0; i < 20; i++) bad |= kiln_get_bits4(row, i) != ((uint32_t)(i * 7 + 3) & 15);
    bad |= row[10] != 0xa5;
    for (int i = 0; i < 40; i++) kiln_set_bits2(row, i, (uint32_t)(i * 5 + 1));
    for (int i = 0; i < 40; i++) bad |= kiln_get_bits2(row, i) != ((uint32_t)(i * 5 + 1) & 3);
    bad |= row[10] != 0xa5;
    for (int i = 0; i < 16; i++) {
        bad |= kiln_i32_from_i4((uint32_t)i) != (i < 8 ? i : i - 16) || kiln_i32_from_u4((uint32_t)i) != i;
        bad |= kiln_i32_from_i2((uint32_t)i) != ((i & 3) < 2 ? i & 3 : (i & 3) - 4) ||
               kiln_i32_from_u2((uint32_t)i) != (i & 3);
    }
    if (bad) printf("packed elements are wrong\n");
    return bad;
}

// From f64 and integers to a narrow float with one rounding: near every midpoint of bf16.
static int check_once_rounded(void)
{
    const Format *const t = &formats[1];
    for (uint32_t code = 1; code < t->most; code += thin) {
        const double low = value_of(t, code), high = value_of(t, code + 1), middle = (low + high) / 2;
        const double x[] = { middle, nextafter(middle, 0),     nextafter(middle, INFINITY),
                             low,    nextafter(low, INFINITY), -nextafter(middle, 0) };
        for (size_t i = 0; i < sizeof x / sizeof *x; i++)
            if (kiln_bf16_from_f32(kiln_f32_odd_from_f64(x[i])) != nearest(t, x[i]))
                return printf("bf16 from f64 %a is rounded twice\n", x[i]), 1;
    }
    for (int shift = 9; shift < 63; shift++)
        for (int64_t delta = -1; delta <= 1; delta++)
            for (int64_t m = 128; m < 256; m += thin) {
                const int64_t x =
                    (int64_t)(((uint64_t)m << 1 | 1) << shift >> 8) + delta; // a midpoint, give or take one
                const uint64_t keep = (uint64_t)x;
                int top = 63;
                while (top > 0 && !(keep >> top & 1)) top--;
                const int drop = top > 7 ? top - 7 : 0;
                uint64_t q = keep >> drop;
                const uint64_t rest = keep - (q << drop), half = drop ? (uint64_t)1 << (drop - 1) : 0;
                if (drop && (rest > half || (rest == half && (q & 1)))) q++;
                const double want = ldexp((double)q, drop);
                if ((double)kiln_f32_from_bf16(kiln_bf16_from_f32(kiln_f32_odd_from_i64(x))) != want ||
                    (double)kiln_f32_from_bf16(kiln_bf16_from_f32(kiln_f32_odd_from_i64(-x))) != -want)
                    return printf("bf16 from i64 %lld is rounded twice\n", (long long)x), 1;
            }
    return 0;
}

int main(void)
{
    thin = getenv("KILN_SPARSE") ? 61 : 1;
    const uint64_t step = getenv("KILN_EXHAUSTIVE") ? 1 : 2053 * thin;
    int bad = check_rows() | check_integers() | check_packed() | check_once_rounded();
    for (int f = 0; f < FORMATS; f++) bad |= check_widen(f) | check_narrow(f, step);
    printf("conversions %s\n", bad ? "are wrong" : "hold");
    return bad;
}
