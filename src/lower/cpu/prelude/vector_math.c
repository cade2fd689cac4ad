// SPDX-License-Identifier: MIT
// vector_math.c - the f32 functions, written so that a loop of them becomes vectors.
//
// No branch, no table walk, no call: only arithmetic, bits and selects, which gcc and clang turn
// into full-width vectors under -fno-math-errno -fno-trapping-math. Polynomials are minimax fits,
// their error in f32 units given beside them. All err by less than 1 ulp, with FMA and without.
// Subnormals are right everywhere except that exp2 flushes its subnormal results to 0. f64 uses
// the C library. needs: base.c

#define KILN_INFINITY __builtin_inff()
#define KILN_NAN __builtin_nanf("")

KILN_INLINE float kiln_abs_f32(float x) { return kiln_f32_bits(kiln_bits_f32(x) & 0x7fffffffu); }
KILN_INLINE float kiln_copysign_f32(float x, float sign)
{
    return kiln_f32_bits((kiln_bits_f32(x) & 0x7fffffffu) | (kiln_bits_f32(sign) & 0x80000000u));
}
KILN_INLINE float kiln_floor_f32(float x) { return __builtin_floorf(x); }
KILN_INLINE float kiln_ceil_f32(float x) { return __builtin_ceilf(x); }
KILN_INLINE float kiln_trunc_f32(float x) { return __builtin_truncf(x); }
KILN_INLINE float kiln_rint_f32(float x) { return __builtin_rintf(x); }
// Halves go away from zero. Just below a half: adding a half itself would round 0.49999997 up.
KILN_INLINE float kiln_round_f32(float x) { return __builtin_truncf(x + kiln_copysign_f32(0x1.fffffep-2f, x)); }
KILN_INLINE float kiln_sqrt_f32(float x) { return __builtin_sqrtf(x); }
KILN_INLINE double kiln_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }
KILN_INLINE float kiln_rsqrt_f32(float x) { return (float)kiln_rsqrt_f64((double)x); }    // in f32 it would err by 1.5

// Adding and taking away 1.5 * 2^23 rounds to an integer, which also stands in the sum's low bits.
#define KILN_ROUNDER 0x1.8p23f

KILN_INLINE float kiln_exp2_f32(float x)
{
    const float shifted = x + KILN_ROUNDER, r = x - (shifted - KILN_ROUNDER);
    float p = 0.000153242625f;                                       // 2^-28 relative
    p = p * r + 0.00133909821f;
    p = p * r + 0.00961851794f;
    p = p * r + 0.0555035956f;
    p = p * r + 0.240226477f;
#if KILN_AVX512 || KILN_AVX2 || defined(__FP_FAST_FMAF)
    p = p * r + 0.693147182f;
    p = p * r + 1.0f;
#else
    // Without fused products the last two would err by 1.02: make the large one exact, 12 by 10 bits.
    const float large = kiln_f32_bits(kiln_bits_f32(r) & 0xfffff000u);
    p = 1.0f + (large * 0.693359375f + ((r - large) * 0.693359375f + (p * r - 2.12194440e-4f) * r));
#endif
    // The shift drops all of the rounder and leaves the integer at the exponent's place.
    const float scaled = kiln_f32_bits(kiln_bits_f32(p) + (kiln_bits_f32(shifted) << 23));
    const float low = x < -126.0f ? 0.0f : scaled;
    return x < 128.0f ? low : x * KILN_INFINITY;         // too large, or NaN
}

KILN_INLINE float kiln_exp_f32(float x)
{
    const float above = x < -104.0f ? -104.0f : x, kept = above > 89.0f ? 89.0f : above;
    const float shifted = kept * 1.44269502f + KILN_ROUNDER, n = shifted - KILN_ROUNDER;
    // ln 2 in two parts; the product with the first, of 10 bits, is exact.
    const float large = kept - n * 0.693359375f, small = n * 2.12194440e-4f, r = large + small;
    float p = 0.00138146209f;                                        // 2^-28 relative
    p = p * r + 0.00836871564f;
    p = p * r + 0.041668389f;
    p = p * r + 0.166665211f;
    p = p * r + 0.49999994f;
    p = ((p * r) * r + small) + large + 1.0f;
    // 2^n in two factors, so that subnormal results are rounded once and 2^128 does not overflow.
    const uint32_t whole = kiln_bits_f32(shifted) - kiln_bits_f32(KILN_ROUNDER);
    const uint32_t half = (uint32_t)((int32_t)whole >> 1);
    return p * kiln_f32_bits((half + 127) << 23) * kiln_f32_bits((whole - half + 127) << 23);
}

// x = 2^exponent * (1 + fraction) with 1 + fraction from sqrt(1/2) to sqrt(2), for finite x > 0.
typedef struct { float exponent, fraction; } KilnSplit;
KILN_INLINE KilnSplit kiln_split_f32(float x)
{
    const int tiny = x < 0x1p-126f;
    const float normal = tiny ? x * 0x1p23f : x;
    const uint32_t bits = kiln_bits_f32(normal) - 0x3f3504f3u;
    const float exponent = (float)((int32_t)bits >> 23) - (tiny ? 23.0f : 0.0f);
    return (KilnSplit){ exponent, kiln_f32_bits((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f };
}
// log(1 + f) - f + f * f / 2
KILN_INLINE float kiln_log_cubic(float f)
{
    float p = 0.0674761683f;                                         // 2^-28 relative
    p = p * f + -0.116769262f;
    p = p * f + 0.118884355f;
    p = p * f + -0.124054097f;
    p = p * f + 0.142194927f;
    p = p * f + -0.166680038f;
    p = p * f + 0.200021222f;
    p = p * f + -0.250000089f;
    p = p * f + 0.333333135f;
    return p * f * (f * f);
}
KILN_INLINE float kiln_log_edges(float x, float y)
{
    const float low = x == 0 ? -KILN_INFINITY : KILN_NAN, number = x > 0 ? y : low;
    return x < KILN_INFINITY ? number : x;
}
KILN_INLINE float kiln_log_f32(float x)
{
    const KilnSplit s = kiln_split_f32(x);
    const float cubic = kiln_log_cubic(s.fraction) + s.exponent * -2.12194440e-4f;
    const float rest = cubic - 0.5f * s.fraction * s.fraction;
    return kiln_log_edges(x, (s.fraction + rest) + s.exponent * 0.693359375f);
}
KILN_INLINE float kiln_log2_f32(float x)
{
    const KilnSplit s = kiln_split_f32(x);
    // Times log2(e) in two parts; the product of the large parts, 12 by 12 bits, is exact.
    const float f = s.fraction, square = 0.5f * f * f, log2e = 1.44287109f, more = -1.76052854e-4f;
    const float large = kiln_f32_bits(kiln_bits_f32(f - square) & 0xfffff000u);
    const float small = ((f - large) - square) + kiln_log_cubic(f);
    const float sum = large * log2e + (small * log2e + (small + large) * more);
    return kiln_log_edges(x, sum + s.exponent);
}

// The angle x >= 0 as a quarter turn and a rest from -pi/4 to pi/4. x times 2/pi is computed with
// integers from as many bits of 2/pi as matter for its exponent, so that any angle is exact;
// a quarter is 2^62. An angle below pi/4 is its own rest.
typedef struct { uint32_t quarter; float rest, low; } KilnAngle;        // the rest in two parts
KILN_INLINE KilnAngle kiln_reduce_angle(float x)
{
    static const uint32_t two_over_pi[] = { 0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                            0xdb629599, 0x3c439041, 0xfe5163ab };
    const uint32_t bits = kiln_bits_f32(x), exponent = bits >> 23;
    const uint32_t clamped = exponent < 120 ? 120 : exponent > 254 ? 254 : exponent;
    const uint32_t at = (clamped - 120) >> 5, shift = (clamped - 120) & 31;
    const uint64_t a = (uint64_t)two_over_pi[at] << 32 | two_over_pi[at + 1];
    const uint64_t b = (uint64_t)two_over_pi[at + 2] << 32 | two_over_pi[at + 3];
    const uint64_t high = a << shift | (uint64_t)two_over_pi[at + 2] << shift >> 32;
    const uint64_t low = (uint32_t)(b << shift >> 32), mantissa = (bits & 0x7fffffu) | 0x800000u;
    const uint64_t turns = mantissa * high + (mantissa * low >> 32);
    const int64_t rest = (int64_t)(turns << 2) >> 2;
    const double exact = (double)rest * 0x1.921fb54442d18p-62;               // pi/2 * 2^-62
    const float far = (float)exact, left = (float)(exact - (double)far);
    const int near = x < 0.785398185f;
    return (KilnAngle){ near ? 0 : (uint32_t)((turns - (uint64_t)rest) >> 62), near ? x : far, near ? 0 : left };
}
// The sine of `quarters` quarter turns more than the angle's rest. What 1 - t/2 loses by rounding is added again.
KILN_INLINE float kiln_sine_of(uint32_t quarters, KilnAngle angle)
{
    const float r = angle.rest, t = r * r, half = 0.5f * t, near_1 = 1.0f - half;
    const float sine = r + (r * t * ((-0.000195173037f * t + 0.008332178f) * t - 0.166666552f) + (angle.low - half * angle.low));
    const float cosine = near_1 + ((1.0f - near_1 - half)
                       + (t * t * ((2.44384573e-05f * t - 0.00138873677f) * t + 0.0416666456f) - r * angle.low));
    return kiln_f32_bits(kiln_bits_f32(quarters & 1 ? cosine : sine) ^ (quarters & 2) << 30);
}
KILN_INLINE float kiln_sin_f32(float x)
{
    const KilnAngle angle = kiln_reduce_angle(kiln_abs_f32(x));
    const float y = kiln_sine_of(angle.quarter, angle);
    const float number = kiln_f32_bits(kiln_bits_f32(y) ^ (kiln_bits_f32(x) & 0x80000000u));
    return kiln_abs_f32(x) < KILN_INFINITY ? number : KILN_NAN;
}
KILN_INLINE float kiln_cos_f32(float x)
{
    const KilnAngle angle = kiln_reduce_angle(kiln_abs_f32(x));
    const float number = kiln_sine_of(angle.quarter + 1, angle);
    return kiln_abs_f32(x) < KILN_INFINITY ? number : KILN_NAN;
}

KILN_INLINE float kiln_tanh_f32(float x)
{
    const float a = kiln_abs_f32(x), t = a * a;
    float p = -0.000456342008f;                                      // 2^-29, below 0.9
    p = p * t + 0.00258510141f;
    p = p * t + -0.00826715492f;
    p = p * t + 0.0216649082f;
    p = p * t + -0.0539296567f;
    p = p * t + 0.133329824f;
    p = p * t + -0.333333224f;
    const float large = 1.0f - 2.0f / (kiln_exp_f32(2.0f * a) + 1.0f);
#if KILN_AVX512 || KILN_AVX2 || defined(__FP_FAST_FMAF)
    const float near = a + a * (t * p);
#else
    const double wide = (double)a;                                   // in f32 this would err by 1.06
    const float near = (float)(wide + wide * (wide * wide * (double)p));
#endif
    return kiln_copysign_f32(a < 0.9f ? near : large, x);
}

KILN_INLINE float kiln_erf_f32(float x)
{
    const float a = kiln_abs_f32(x), t = a * a, b = a > 4.0f ? 4.0f : a;
    float p = -7.90593549e-06f;                                      // 2^-30, below 1.2
    p = p * t + 0.000105548512f;
    p = p * t + -0.000836981926f;
    p = p * t + 0.00521179149f;
    p = p * t + -0.0268615223f;
    p = p * t + 0.112837017f;
    const double wide = (double)a, square = wide * wide;             // in f32 the last steps would err by 1.1
    const float near = (float)(wide + wide * (((double)p * square - 0.376126319) * square + 0.128379166));
    float q = 2.1697344e-05f;                                        // -log(erfc(b)), from 1 to 4
    q = q * b + -0.000441469223f;
    q = q * b + 0.00420526648f;
    q = q * b + -0.0252102874f;
    q = q * b + 0.108422011f;
    q = q * b + 0.6332165f;
    q = q * b + 1.12958026f;
    // The last step by an exact product of 12 by 12 bits and a small rest r: exp(-q) = exp(-large) (1 - r + r r / 2).
    const float b_large = kiln_f32_bits(kiln_bits_f32(b) & 0xfffff000u), q_large = kiln_f32_bits(kiln_bits_f32(q) & 0xfffff000u);
    const float r = (q * (b - b_large) + (q - q_large) * b_large) + -0.000188456892f;
    const float above = kiln_exp_f32(-(q_large * b_large)) * (1.0f - (r - 0.5f * r * r));
    return kiln_copysign_f32(a < 1.18f ? near : 1.0f - above, x);
}

// In f64: an error of the logarithm is multiplied by up to 150 here.
KILN_INLINE float kiln_pow_f32(float x, float y)
{
    const double a = (double)kiln_abs_f32(x);
    uint64_t bits;
    __builtin_memcpy(&bits, &a, 8);
    const uint64_t shifted = bits - 0x3fe6a09e667f3bcdu + ((uint64_t)1023 << 52);    // by sqrt(1/2)
    const uint64_t fraction = (shifted & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu;
    const int32_t exponent = (int32_t)(shifted >> 52) - 1023;
    double m;
    __builtin_memcpy(&m, &fraction, 8);
    const double s = (m - 1) / (m + 1), t = s * s;
    double p = 0.28291740054830572;
    p = p * t + 0.31990448963662171;
    p = p * t + 0.41220928190057293;
    p = p * t + 0.57707794207088592;
    p = p * t + 0.96179669411436419;
    p = p * t + 2.8853900817778495;
    const double number = p * s + (double)exponent;
    const double finite = a == 0 ? -__builtin_inf() : number;
    const double log2 = a == __builtin_inf() ? a : finite;

    // 1 to any power is 1, even to infinity.
    const double product = (double)y * log2, exact = log2 == 0 && y == y ? 0 : product;
    const double above = exact < -200 ? -200 : exact, z = above > 200 ? 200 : above;
    const double rounded = z + 0x1.8p52, r = z - (rounded - 0x1.8p52);
    double e = 1.3175890510916882e-06;
    e = e * r + 1.5309737050629841e-05;
    e = e * r + 0.00015403851600244629;
    e = e * r + 0.0013333452063902069;
    e = e * r + 0.0096181285430664339;
    e = e * r + 0.055504109393397859;
    e = e * r + 0.24022650698879452;
    e = e * r + 0.6931471805465147;
    e = e * r + 0.99999999999976252;
    uint64_t rounded_bits;
    __builtin_memcpy(&rounded_bits, &rounded, 8);
    const uint64_t scale_bits = (rounded_bits + 1023) << 52;
    double scale;
    __builtin_memcpy(&scale, &scale_bits, 8);
    const float magnitude = (float)(e * scale);

    const float half = y * 0.5f;
    const int whole = __builtin_floorf(y) == y, odd = whole & (__builtin_floorf(half) != half);
    const uint32_t sign = odd ? kiln_bits_f32(x) & 0x80000000u : 0;
    const float signed_ = kiln_f32_bits(kiln_bits_f32(magnitude) | sign);
    const float real = x < 0 && a != __builtin_inf() && !whole ? KILN_NAN : signed_;
    const float any = x != x || y != y ? KILN_NAN : real;
    return y == 0 || x == 1 ? 1.0f : any;
}
