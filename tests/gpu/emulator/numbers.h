// SPDX-License-Identifier: MIT
// numbers.h - the small floating-point formats, bit for bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emu
{

inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

inline float from_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }

inline uint16_t to_bf16(float x) // to nearest, ties to even; NaN is 0x7fff
{
    const uint32_t u = bits_of(x);
    return x != x ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// A format of 1 sign bit, EXPONENT bits and MANTISSA bits, in the low bits of a word; without its special values.
template <int EXPONENT, int MANTISSA> float from_small(uint32_t h)
{
    const int bias = (1 << (EXPONENT - 1)) - 1;
    const uint32_t exponent = h >> MANTISSA & ((1u << EXPONENT) - 1), mantissa = h & ((1u << MANTISSA) - 1);
    const float size = exponent ? ldexpf((float)(mantissa + (1u << MANTISSA)), (int)exponent - bias - MANTISSA)
                                : ldexpf((float)mantissa, 1 - bias - MANTISSA);
    return h >> (EXPONENT + MANTISSA) & 1 ? -size : size;
}

// The magnitude's code, rounded to nearest even; it may run over into the codes above the largest number.
template <int EXPONENT, int MANTISSA> uint32_t to_small(float x)
{
    const int bias = (1 << (EXPONENT - 1)) - 1;
    const float size = fabsf(x);
    if (size == 0) return 0;
    int exponent;
    frexpf(size, &exponent); // size = [0.5, 1) * 2^exponent
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    const double scaled = ldexp((double)size, MANTISSA - exponent);
    return (uint32_t)nearbyint(scaled) + ((uint32_t)(exponent + bias - 1) << MANTISSA);
}

inline float from_f16(uint16_t h)
{
    if ((h & 0x7c00) == 0x7c00)
        return float_of((uint32_t)(h & 0x8000) << 16 | 0x7f800000 | (uint32_t)(h & 0x3ff) << 13);
    // Subnormals and normals alike: the exponent moved up, then put right by a product that is exact.
    const float size = float_of((uint32_t)(h & 0x7fff) << 13) * 5.192296858534828e33f; // 2^112
    return h & 0x8000 ? -size : size;
}

inline uint16_t to_f16(float x)
{
    const uint32_t sign = bits_of(x) >> 16 & 0x8000;
    if (x != x) return 0x7fff;
    if (fabsf(x) >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    return (uint16_t)(sign | to_small<5, 10>(x));
}

inline float from_e4m3(uint8_t b) { return (b & 0x7f) == 0x7f ? float_of(0x7fc00000) : from_small<4, 3>(b); }
inline float from_e5m2(uint8_t b) { return from_f16((uint16_t)(b << 8)); }

// satfinite: what is too large becomes the largest number, NaN stays.
inline uint8_t to_e4m3(float x)
{
    const uint32_t sign = bits_of(x) >> 24 & 0x80;
    if (x != x) return 0x7f;
    return (uint8_t)(sign | (fabsf(x) >= 448.0f ? 0x7eu : to_small<4, 3>(x)));
}
inline uint8_t to_e5m2(float x)
{
    const uint32_t sign = bits_of(x) >> 24 & 0x80;
    if (x != x) return 0x7f;
    return (uint8_t)(sign | (fabsf(x) >= 57344.0f ? 0x7bu : to_small<5, 2>(x)));
}

inline float to_tf32(uint32_t u) { return float_of(u & ~0x1fffu); } // what tensor cores read of an f32

} // namespace emu
