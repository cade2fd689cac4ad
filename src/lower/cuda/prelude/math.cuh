// SPDX-License-Identifier: MIT
// math.cuh - the functions of the language, overloaded by type.
DEVICE float math_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float math_log2(float x) { float r; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float math_exp(float x) { return expf(x); }
DEVICE float math_log(float x) { return logf(x); }
// Division by a value that many are divided by: its reciprocal once, then a product and one correction each. Exact
// quotients come out exact, others within 1 ulp; divisors below 2^-126 count as 0.
DEVICE float math_reciprocal(float b)
{
    const float size = fabsf(b), s = size < 5.421010862e-20f ? 18446744073709551616.0f : size > 18446744073709551616.0f ? 5.421010862e-20f : 1.0f;
    return s * __fdividef(1.0f, b * s);
}
DEVICE float math_divide(float a, float b, float inverse)
{
    const float q = a * inverse, better = __fmaf_rn(__fmaf_rn(-q, b, a), inverse, q);
    return better == better ? better : q;                  // infinite, or not a number
}
// n / d of instance numbers, for n >= 0 and d > 0. The reciprocal of what does not change moves out of the loop over
// instances. Below 2^20 the estimate is at most 1 off.
DEVICE float reciprocal_estimate(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE int32_t math_quotient(int32_t n, int32_t d)
{
    if (n >= 1 << 20) return (int32_t)((uint32_t)n / (uint32_t)d);
    const int32_t q = (int32_t)((float)n * reciprocal_estimate((float)d)), rest = n - q * d;
    return q + (rest >= d) - (rest < 0);
}
template <class T> DEVICE T choose(bool condition, T a, T b) { return condition ? a : b; }
DEVICE float math_div(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float math_sqrt(float x) { return __fsqrt_rn(x); }
DEVICE float math_rsqrt(float x) { return rsqrtf(x); }
DEVICE float math_pow(float x, float y) { return powf(x, y); }
// sin and cos: x = quadrant * pi/2 + r with |r| <= pi/4, then a polynomial. Large arguments are multiplied by the 96 bits of
// 2/pi that are left when multiples of 4 are dropped. (sinf does so in an array in memory, a stack frame for every thread.)
DEVICE uint32_t two_over_pi(int32_t word)                  // the first is 0
{
    return word == 0 ? 0u : word == 1 ? 0xa2f9836eu : word == 2 ? 0x4e441529u : word == 3 ? 0xfc2757d1u : word == 4 ? 0xf534ddc0u
         : word == 5 ? 0xdb629599u : word == 6 ? 0x3c439041u : 0xfe5163abu;
}
DEVICE float reduce_large(float x, int32_t *quadrant)
{
    const uint32_t bits = __float_as_uint(x), m = (bits & 0x7fffffu) | 0x800000u;
    const int32_t skip = (int32_t)(bits >> 23 & 0xffu) - 120, word = skip >> 5, shift = skip & 31;         // of exponent - 152 + 32
    uint32_t w[4] = { two_over_pi(word), two_over_pi(word + 1), two_over_pi(word + 2), two_over_pi(word + 3) };
    for (int i = 0; i < 3 && shift; i++)
        w[i] = w[i] << shift | w[i + 1] >> (32 - shift);
    const uint64_t middle = (uint64_t)m * w[1] + ((uint64_t)m * w[2] >> 32);
    const uint64_t quarters = (uint64_t)(m * w[0] + (uint32_t)(middle >> 32)) << 32 | (uint32_t)middle;
    const int64_t rest = (int64_t)(quarters << 2);         // of a quarter, from -1/2 to 1/2
    const int32_t q = (int32_t)(quarters >> 62) + (rest < 0);
    const float r = (float)((double)rest * 8.5153039502163873e-20);        // pi/2 * 2^-64
    *quadrant = x < 0.0f ? -q : q;
    return x < 0.0f ? -r : r;
}
DEVICE float reduce_quarters(float x, int32_t *quadrant)
{
    if (!(fabsf(x) < 48000.0f)) {
        *quadrant = 0;
        return fabsf(x) <= 3.402823466e+38f ? reduce_large(x, quadrant) : __int_as_float(0x7fc00000);
    }
    const float q = rintf(x * 0.636619772f);               // pi/2 in three parts
    *quadrant = (int32_t)q;
    return __fmaf_rn(q, -5.39030253e-15f, __fmaf_rn(q, -7.54978942e-8f, __fmaf_rn(q, -1.57079625e+0f, x)));
}
DEVICE float sin_or_cos(float r, int32_t quadrant)
{
    const float s = r * r;
    const float odd = __fmaf_rn(r * s, __fmaf_rn(s, __fmaf_rn(s, -1.9515295891e-4f, 8.3321608736e-3f), -1.6666654611e-1f), r);
    const float even = __fmaf_rn(s * s, __fmaf_rn(s, __fmaf_rn(s, 2.443315712e-5f, -1.388731625e-3f), 4.166664568e-2f), __fmaf_rn(s, -0.5f, 1.0f));
    const float y = quadrant & 1 ? even : odd;
    return quadrant & 2 ? -y : y;
}
DEVICE float math_sin(float x) { int32_t quadrant; const float r = reduce_quarters(x, &quadrant); return sin_or_cos(r, quadrant); }
DEVICE float math_cos(float x) { int32_t quadrant; const float r = reduce_quarters(x, &quadrant); return sin_or_cos(r, quadrant + 1); }
// By a series near 0, else by an exponential: both are computed, as a branch would keep elements apart. Within 2^-21 of its value.
DEVICE float math_tanh(float x)
{
    const float z = x * x, far = __fmaf_rn(-2.0f, reciprocal_estimate(math_exp2(x * 2.885390082f) + 1.0f), 1.0f);
    const float near = __fmaf_rn(x * z, __fmaf_rn(z, __fmaf_rn(z, __fmaf_rn(z, 1.6438110e-2f, -5.2672077e-2f), 1.3320729e-1f), -3.3332947e-1f), x);
    return choose(fabsf(x) < 0.55f, near, far);
}
DEVICE float math_fast_tanh(float x) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float math_erf(float x) { return erff(x); }
DEVICE float math_abs(float x) { return fabsf(x); }
DEVICE float math_floor(float x) { return floorf(x); }
DEVICE float math_ceil(float x) { return ceilf(x); }
DEVICE float math_round(float x) { return roundf(x); }
DEVICE float math_rint(float x) { return rintf(x); }
DEVICE float math_trunc(float x) { return truncf(x); }
DEVICE float math_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// The number when one side is NaN.
DEVICE float math_min(float a, float b) { return fminf(a, b); }
DEVICE float math_max(float a, float b) { return fmaxf(a, b); }
DEVICE double math_exp2(double x) { return exp2(x); }
DEVICE double math_log2(double x) { return log2(x); }
DEVICE double math_exp(double x) { return exp(x); }
DEVICE double math_log(double x) { return log(x); }
DEVICE double math_sqrt(double x) { return sqrt(x); }
DEVICE double math_rsqrt(double x) { return 1.0 / sqrt(x); }
DEVICE double math_pow(double x, double y) { return pow(x, y); }
// The same in double precision: from 1e9 on by the 192 bits of 2/pi that matter, 128 of the product are kept.
DEVICE double reduce_large(double x, int32_t *quadrant)
{
    static constexpr uint64_t two_over_pi[] = {            // 64 zeros first
        0x0ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
        0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull,
        0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull,
        0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
    };
    const uint64_t bits = (uint64_t)__double_as_longlong(x), m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    const int32_t skip = (int32_t)(bits >> 52 & 0x7ffu) - 1013, word = skip >> 6, shift = skip & 63;       // of exponent - 1075 + 62
    uint64_t w0 = two_over_pi[word], w1 = two_over_pi[word + 1], w2 = two_over_pi[word + 2];
    if (shift) {
        w0 = w0 << shift | w1 >> (64 - shift);
        w1 = w1 << shift | w2 >> (64 - shift);
        w2 = w2 << shift | two_over_pi[word + 3] >> (64 - shift);
    }
    const uint64_t low = m * w1 + __umul64hi(m, w2), high = m * w0 + __umul64hi(m, w1) + (low < m * w1);
    const int64_t rest = (int64_t)(high << 2 | low >> 62); // of a quarter, from -1/2 to 1/2, and 64 bits more
    const double top = (double)(rest >> 32) * 4294967296.0, below = (double)(uint32_t)rest, sum = top + below;
    const double left = fma((double)(low << 2), 5.421010862427522e-20, below - (sum - top));               // 2^-64
    const double r = fma(sum, 8.515303950216386e-20, fma(sum, 3.319411800407449e-36, left * 8.515303950216386e-20));
    const int32_t q = (int32_t)(high >> 62) + (rest < 0);
    *quadrant = x < 0.0 ? -q : q;
    return x < 0.0 ? -r : r;
}
DEVICE double reduce_quarters(double x, int32_t *quadrant)
{
    if (!(fabs(x) < 1e9)) {
        *quadrant = 0;
        return fabs(x) <= 1.7976931348623157e308 ? reduce_large(x, quadrant) : x - x;
    }
    const double q = rint(x * 0.6366197723675814);         // pi/2 in three parts
    *quadrant = (int32_t)q;
    return fma(q, 1.4973849048591698e-33, fma(q, -6.123233995736766e-17, fma(q, -1.5707963267948966, x)));
}
DEVICE double sin_or_cos(double r, int32_t quadrant)
{
    const double s = r * r;
    double odd = fma(s, 1.5918115263265974e-10, -2.505113165023518e-08), even = fma(s, -1.1382623647474604e-11, 2.087614614655861e-09);
    odd = fma(s, odd, 2.7557316101617874e-06), even = fma(s, even, -2.7557317271145144e-07);
    odd = fma(s, odd, -0.00019841269836756774), even = fma(s, even, 2.480158729876456e-05);
    odd = fma(s, odd, 0.008333333333330948), even = fma(s, even, -0.0013888888888887398);
    odd = fma(s, odd, -0.16666666666666666), even = fma(s, even, 0.041666666666666664);
    const double y = quadrant & 1 ? fma(s * s, even, fma(s, -0.5, 1.0)) : fma(r * s, odd, r);
    return quadrant & 2 ? -y : y;
}
DEVICE double math_sin(double x) { int32_t quadrant; const double r = reduce_quarters(x, &quadrant); return sin_or_cos(r, quadrant); }
DEVICE double math_cos(double x) { int32_t quadrant; const double r = reduce_quarters(x, &quadrant); return sin_or_cos(r, quadrant + 1); }
DEVICE double math_tanh(double x) { return tanh(x); }
DEVICE double math_fast_tanh(double x) { return tanh(x); }
DEVICE double math_erf(double x) { return erf(x); }
DEVICE double math_abs(double x) { return fabs(x); }
DEVICE double math_floor(double x) { return floor(x); }
DEVICE double math_ceil(double x) { return ceil(x); }
DEVICE double math_round(double x) { return round(x); }
DEVICE double math_rint(double x) { return rint(x); }
DEVICE double math_trunc(double x) { return trunc(x); }
DEVICE double math_fma(double a, double b, double c) { return fma(a, b, c); }
DEVICE double math_min(double a, double b) { return fmin(a, b); }
DEVICE double math_max(double a, double b) { return fmax(a, b); }
#define INTEGER_MATH(T) \
    DEVICE T math_min(T a, T b) { return a < b ? a : b; } \
    DEVICE T math_max(T a, T b) { return a > b ? a : b; } \
    DEVICE T math_ceildiv(T a, T b) { const T q = a / b; return q + (a % b != 0 && (a > 0) == (b > 0)); }
INTEGER_MATH(int32_t)
INTEGER_MATH(int64_t)
INTEGER_MATH(uint32_t)
INTEGER_MATH(uint64_t)
DEVICE int32_t math_abs(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }   // the least wraps
DEVICE int64_t math_abs(int64_t x) { return x < 0 ? (int64_t)(0ull - (uint64_t)x) : x; }
// Division by what may be 0 or -1: x / 0 is 0 and x % 0 is x; what -1 makes of the least number wraps.
#define SIGNED_DIVISION(T, U) \
    DEVICE T math_any_div(T a, T b) { const bool odd = (U)b + 1 <= 1; const T q = a / (odd ? (T)1 : b); return odd ? (T)((U)a * (U)b) : q; } \
    DEVICE T math_any_mod(T a, T b) { const bool odd = (U)b + 1 <= 1; const T r = a % (odd ? (T)1 : b); return odd ? a & ~b : r; } \
    DEVICE T math_any_ceildiv(T a, T b) { return b <= 0 ? 0 : math_ceildiv(a, b); }
#define UNSIGNED_DIVISION(T) \
    DEVICE T math_any_div(T a, T b) { const T q = a / (b ? b : 1); return b ? q : 0; } \
    DEVICE T math_any_mod(T a, T b) { const T r = a % (b ? b : 1); return b ? r : a; } \
    DEVICE T math_any_ceildiv(T a, T b) { return b ? math_ceildiv(a, b) : 0; }
SIGNED_DIVISION(int32_t, uint32_t)
SIGNED_DIVISION(int64_t, uint64_t)
UNSIGNED_DIVISION(uint32_t)
UNSIGNED_DIVISION(uint64_t)
DEVICE int32_t math_popcount(uint32_t x) { return __popc(x); }
DEVICE int32_t math_popcount(int32_t x) { return __popc((uint32_t)x); }
DEVICE int32_t math_popcount(uint64_t x) { return __popcll(x); }
DEVICE int32_t math_popcount(int64_t x) { return __popcll((uint64_t)x); }
DEVICE int32_t math_clz(uint32_t x) { return __clz((int)x); }
DEVICE int32_t math_clz(int32_t x) { return __clz(x); }
DEVICE int32_t math_clz(uint64_t x) { return __clzll((int64_t)x); }
DEVICE int32_t math_clz(int64_t x) { return __clzll(x); }
DEVICE int32_t math_ffs(uint32_t x) { return __ffs((int)x); }
DEVICE int32_t math_ffs(int32_t x) { return __ffs(x); }
DEVICE int32_t math_ffs(uint64_t x) { return __ffsll((int64_t)x); }
DEVICE int32_t math_ffs(int64_t x) { return __ffsll(x); }
template <class T> DEVICE T math_clamp(T x, T lo, T hi) { return math_min(math_max(x, lo), hi); }
DEVICE int32_t math_dot4(int32_t a, int32_t b, int32_t sum) { return __dp4a(a, b, sum); }
DEVICE uint32_t math_dot4(uint32_t a, uint32_t b, uint32_t sum) { return __dp4a(a, b, sum); }
// Uniform in [0, 1), the same on every target: 24 bits of a mixed counter.
DEVICE float math_random(uint64_t seed, uint64_t i)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + i * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (float)((x ^ x >> 31) >> 40) * 5.9604644775390625e-8f;
}
