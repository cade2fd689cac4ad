// SPDX-License-Identifier: MIT
// convert.cuh - conversions as the language has them: round to nearest even, saturate where it says so.
DEVICE float bf16_to_f32(uint16_t x) { return __uint_as_float((uint32_t)x << 16); }
DEVICE float f16_to_f32(uint16_t x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
// Toward zero, with the last bit set if that lost something: rounding again to fewer bits is then right.
DEVICE float odd_f32(float f, bool exact) { return exact ? f : __uint_as_float(__float_as_uint(f) | 1u); }
DEVICE float odd_f32(double x) { const float f = __double2float_rz(x); return odd_f32(f, (double)f == x || x != x); }
DEVICE float odd_f32(int32_t x) { const float f = __int2float_rz(x); return odd_f32(f, (int32_t)f == x); }
DEVICE float odd_f32(uint32_t x) { const float f = __uint2float_rz(x); return odd_f32(f, (uint32_t)f == x); }
DEVICE float odd_f32(int64_t x) { const float f = __ll2float_rz(x); return odd_f32(f, (int64_t)f == x); }
DEVICE float odd_f32(uint64_t x) { const float f = __ull2float_rz(x); return odd_f32(f, (uint64_t)f == x); }
DEVICE uint16_t f32_to_bf16(float x) { uint16_t r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
DEVICE uint16_t f32_to_f16(float x) { uint16_t r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
// Nearest even to 10 bits of mantissa; infinity and NaN stay.
DEVICE float f32_to_tf32(float x)
{
    const uint32_t u = __float_as_uint(x), rounded = (u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu;
    return (u & 0x7f800000u) == 0x7f800000u ? x : __uint_as_float(rounded);
}
DEVICE uint32_t pack_bf16(float lo, float hi) { uint32_t r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE uint32_t pack_f16(float lo, float hi) { uint32_t r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE void store_pair(uint16_t *p, uint32_t w) { p[0] = (uint16_t)w; p[1] = (uint16_t)(w >> 16); }
DEVICE uint32_t pack_bits(uint16_t lo, uint16_t hi) { return (uint32_t)lo | (uint32_t)hi << 16; }

// Where there is no instruction: scale into range, round by adding, read the bits. BITS of mantissa, exponent BIAS.
template <int BITS, int BIAS> DEVICE uint8_t f32_to_small(float x, float largest, uint8_t nan)
{
    const uint32_t sign = __float_as_uint(x) >> 31 << 7;
    float a = fabsf(x);
    if (a != a) return (uint8_t)(sign | nan);
    a = fminf(a, largest);
    int exponent = (int)(__float_as_uint(a) >> 23) - 127;
    if (exponent < 1 - BIAS) exponent = 1 - BIAS;
    const float unit = __uint_as_float((uint32_t)(exponent - BITS + 127) << 23);
    const uint32_t q = (uint32_t)rintf(a / unit);          // of the mantissa with its hidden bit
    const uint32_t code = q + ((uint32_t)(exponent + BIAS - 1) << BITS);
    return (uint8_t)(sign | code);
}
template <int BITS, int BIAS> DEVICE float small_to_f32(uint8_t x)
{
    const int exponent = (x & 0x7f) >> BITS, mantissa = x & ((1 << BITS) - 1);
    const float unit = __uint_as_float((uint32_t)((exponent ? exponent : 1) - BIAS - BITS + 127) << 23);
    const float a = (float)(mantissa + (exponent ? 1 << BITS : 0)) * unit;
    return x & 0x80 ? -a : a;
}
// Not a number becomes the largest: there is none.
DEVICE uint8_t f32_to_e2m1(float x)
{
    const uint8_t code = f32_to_small<1, 1>(x != x ? 6.0f : x, 6.0f, 0);
    return code >> 4 | (code & 7);
}
DEVICE float e2m1_to_f32(uint8_t x) { return small_to_f32<1, 1>((uint8_t)((x & 7) | (x & 8) << 4)); }
// An exponent alone, of which 255 is NaN: the nearest power of two, of two the one with the even code; 0 and less give 2^-127.
DEVICE uint8_t f32_to_e8m0(float x)
{
    const uint32_t u = __float_as_uint(x), near = min((u + 0x3fffffu + (u >> 23 & 1u)) >> 23, 254u);
    return (u & 0x7fffffffu) > 0x7f800000u ? 255 : u >> 31 ? 0 : (uint8_t)(u < 0x800000u ? u > 0x600000u : near);
}
DEVICE float e8m0_to_f32(uint8_t x) { return __uint_as_float(x == 255 ? 0x7fc00000u : x ? (uint32_t)x << 23 : 0x400000u); }
#if __CUDA_ARCH__ >= 890
DEVICE uint32_t pack_e4m3(float lo, float hi) { uint16_t r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE uint32_t pack_e5m2(float lo, float hi) { uint16_t r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE uint8_t f32_to_e4m3(float x) { uint16_t r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x)); return (uint8_t)r; }
DEVICE uint8_t f32_to_e5m2(float x) { uint16_t r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x)); return (uint8_t)r; }
DEVICE float e4m3_to_f32(uint8_t x) { uint32_t r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)x)); return f16_to_f32((uint16_t)r); }
DEVICE float e5m2_to_f32(uint8_t x) { return f16_to_f32((uint16_t)((uint16_t)x << 8)); }
#else
DEVICE uint8_t f32_to_e4m3(float x) { return f32_to_small<3, 7>(x, 448.0f, 0x7f); }
DEVICE uint8_t f32_to_e5m2(float x) { return f32_to_small<2, 15>(x, 57344.0f, 0x7f); }
DEVICE float e4m3_to_f32(uint8_t x) { return (x & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000u) : small_to_f32<3, 7>(x); }
DEVICE float e5m2_to_f32(uint8_t x) { return f16_to_f32((uint16_t)((uint16_t)x << 8)); }
DEVICE uint32_t pack_e4m3(float lo, float hi) { return (uint32_t)f32_to_e4m3(lo) | (uint32_t)f32_to_e4m3(hi) << 8; }
DEVICE uint32_t pack_e5m2(float lo, float hi) { return (uint32_t)f32_to_e5m2(lo) | (uint32_t)f32_to_e5m2(hi) << 8; }
#endif

// Floating point to integer: truncates and saturates, NaN gives 0.
DEVICE int32_t f32_to_i32(float x) { int32_t r; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
DEVICE uint32_t f32_to_u32(float x) { uint32_t r; asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
DEVICE int64_t f32_to_i64(float x) { int64_t r; asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(r) : "f"(x)); return x != x ? 0 : r; }
DEVICE uint64_t f32_to_u64(float x) { uint64_t r; asm("cvt.rzi.u64.f32 %0, %1;" : "=l"(r) : "f"(x)); return x != x ? 0 : r; }
DEVICE int32_t f64_to_i32(double x) { int32_t r; asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(x)); return x != x ? 0 : r; }
DEVICE uint32_t f64_to_u32(double x) { uint32_t r; asm("cvt.rzi.u32.f64 %0, %1;" : "=r"(r) : "d"(x)); return x != x ? 0 : r; }
DEVICE int64_t f64_to_i64(double x) { int64_t r; asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(r) : "d"(x)); return x != x ? 0 : r; }
DEVICE uint64_t f64_to_u64(double x) { uint64_t r; asm("cvt.rzi.u64.f64 %0, %1;" : "=l"(r) : "d"(x)); return x != x ? 0 : r; }
#define NARROW_INTEGER(name, type, lo, hi) \
    DEVICE type f32_to_##name(float x) { const int32_t r = f32_to_i32(x); return (type)min(max(r, lo), hi); } \
    DEVICE type f64_to_##name(double x) { const int32_t r = f64_to_i32(x); return (type)min(max(r, lo), hi); }
NARROW_INTEGER(i16, int16_t, -32768, 32767)
NARROW_INTEGER(i8, int8_t, -128, 127)
NARROW_INTEGER(u16, uint16_t, 0, 65535)
NARROW_INTEGER(u8, uint8_t, 0, 255)
// Integers of less than a byte, in the low bits of one.
// They become floats as the last bits of an integer above 2^23, a signed one with its sign turned: conversions of integers
// have a quarter of the rate. The exponent is no constant of the code: lop3 takes one.
__constant__ uint32_t kiln_exponent_of_2_to_23 = 0x4b000000u;
#define PACKED_INTEGER(name, bits, lo, hi) \
    DEVICE float name##_to_f32(uint8_t x) { return __uint_as_float(((uint32_t)x & (1u << bits) - 1) ^ (kiln_exponent_of_2_to_23 + (uint32_t)-(lo))) - (8388608.0f - (lo)); } \
    DEVICE int32_t name##_to_i32(uint8_t x) { const int32_t v = x & ((1 << bits) - 1); return lo < 0 && v > hi ? v - (1 << bits) : v; } \
    DEVICE uint8_t f32_to_##name(float x) { const int32_t r = f32_to_i32(x); return (uint8_t)min(max(r, lo), hi); } \
    DEVICE uint8_t f64_to_##name(double x) { const int32_t r = f64_to_i32(x); return (uint8_t)min(max(r, lo), hi); }
PACKED_INTEGER(i4, 4, -8, 7)
PACKED_INTEGER(i2, 2, -2, 1)
PACKED_INTEGER(u4, 4, 0, 15)
PACKED_INTEGER(u2, 2, 0, 3)
