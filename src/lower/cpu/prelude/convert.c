// SPDX-License-Identifier: MIT
// convert.c - between the narrow element types and f32 or i32.
//
// The scalar functions are branch-free, on bits, so that a loop of them becomes vectors; the
// rows at the end use the machine's own f16 and bf16 instructions.
//
// To floating point: nearest even; f16 and bf16 overflow to infinity; e4m3, e5m2 and e2m1
// saturate (infinity too); NaN stays NaN, and becomes +6 in e2m1, which has none.
// e8m0 saturates at both ends.
// To integer: truncates and saturates; NaN gives 0. needs: base.c

// Sign and magnitude of a float narrower than f16: `mantissa` bits, exponent bias `bias`, largest
// magnitude `most` as f32 bits, and the magnitude that NaN becomes. All constant in each caller.
KILN_INLINE uint32_t kiln_narrow_from_f32(float x, int mantissa, int bias, uint32_t most, uint32_t nan)
{
    const uint32_t magnitude = kiln_bits_f32(x) & 0x7fffffffu;
    const uint32_t kept = magnitude < most ? magnitude : most;
    // Added to a power of two whose last place is that of the result, a number is rounded by the addition, and the sum's
    // low bits count the steps: `large` is that power for the number's own exponent, or the smallest normal one's.
    const uint32_t least_normal = (uint32_t)(127 + 1 - bias) << 23, own = kept & 0x7f800000u;
    const uint32_t large = (own > least_normal ? own : least_normal) + ((uint32_t)(23 - mantissa) << 23);
    const uint32_t steps = kiln_bits_f32(kiln_f32_bits(kept) + kiln_f32_bits(large)) - large;
    const uint32_t below = (large >> (23 - mantissa)) - ((uint32_t)(127 + 1 - bias + 23 - mantissa) << mantissa);
    return magnitude > 0x7f800000u ? nan : below + steps;
}

// The float of a magnitude that is neither infinity nor NaN. No subnormal f32 is touched on the
// way: multiplying one costs a hundred cycles.
KILN_INLINE float kiln_f32_from_narrow(uint32_t magnitude, int mantissa, int bias)
{
    const float normal = kiln_f32_bits((magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23));
    const float step = kiln_f32_bits((uint32_t)(127 + 1 - bias - mantissa) << 23);
    const float subnormal = (float)(int32_t)magnitude * step;
    return magnitude >> mantissa ? normal : subnormal;
}

KILN_INLINE float kiln_with_sign(float magnitude, uint32_t sign)
{
    return kiln_f32_bits(kiln_bits_f32(magnitude) | sign);
}

KILN_INLINE uint16_t kiln_bf16_from_f32(float x)
{
    const uint32_t bits = kiln_bits_f32(x);
    const uint32_t number = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : number);
}
KILN_INLINE float kiln_f32_from_bf16(uint16_t x) { return kiln_f32_bits((uint32_t)x << 16); }

KILN_INLINE uint16_t kiln_f16_from_f32(float x)
{
    const uint32_t infinity = 0x47800000u;    // 2^16: its f16 encoding is that of infinity
    const uint32_t sign = kiln_bits_f32(x) >> 16 & 0x8000u;
    return (uint16_t)(sign | kiln_narrow_from_f32(x, 10, 15, infinity, 0x7e00));
}
KILN_INLINE float kiln_f32_from_f16(uint16_t x)
{
    const uint32_t magnitude = x & 0x7fffu, sign = (uint32_t)(x & 0x8000u) << 16;
    const float special = kiln_f32_bits(magnitude > 0x7c00 ? 0x7fc00000u : 0x7f800000u);
    return kiln_with_sign(magnitude >= 0x7c00 ? special : kiln_f32_from_narrow(magnitude, 10, 15), sign);
}

KILN_INLINE uint8_t kiln_e4m3_from_f32(float x)
{
    const uint32_t sign = kiln_bits_f32(x) >> 24 & 0x80u;
    return (uint8_t)(sign | kiln_narrow_from_f32(x, 3, 7, 0x43e00000u /* 448 */, 0x7f));
}
KILN_INLINE float kiln_f32_from_e4m3(uint8_t x)
{
    const uint32_t magnitude = x & 0x7fu, sign = (uint32_t)(x & 0x80u) << 24;
    const float number = kiln_f32_from_narrow(magnitude, 3, 7);
    return kiln_with_sign(magnitude == 0x7f ? kiln_f32_bits(0x7fc00000u) : number, sign);
}

KILN_INLINE uint8_t kiln_e5m2_from_f32(float x)
{
    const uint32_t sign = kiln_bits_f32(x) >> 24 & 0x80u;
    return (uint8_t)(sign | kiln_narrow_from_f32(x, 2, 15, 0x47600000u /* 57344 */, 0x7f));
}
KILN_INLINE float kiln_f32_from_e5m2(uint8_t x)
{
    const uint32_t magnitude = x & 0x7fu, sign = (uint32_t)(x & 0x80u) << 24;
    const float special = kiln_f32_bits(magnitude > 0x7c ? 0x7fc00000u : 0x7f800000u);
    return kiln_with_sign(magnitude >= 0x7c ? special : kiln_f32_from_narrow(magnitude, 2, 15), sign);
}

// The low four bits.
KILN_INLINE uint8_t kiln_e2m1_from_f32(float x)
{
    const uint32_t bits = kiln_bits_f32(x);
    const uint32_t sign = x != x ? 0 : bits >> 28 & 0x8u;
    return (uint8_t)(sign | kiln_narrow_from_f32(x, 1, 1, 0x40c00000u /* 6 */, 0x7));
}
KILN_INLINE float kiln_f32_from_e2m1(uint32_t x)
{
    const uint32_t magnitude = x & 0x7u, bits = (magnitude << 22) + (126u << 23);
    const float number = magnitude < 2 ? (float)(int32_t)magnitude * 0.5f : kiln_f32_bits(bits); // of 16 codes one select
    return kiln_with_sign(number, (x & 0x8u) << 28);
}

// An exponent alone, of which 255 is NaN: the nearest power of two, of two the one with the even code. 0 and less give 2^-127,
// the one power that is a subnormal float.
KILN_INLINE uint8_t kiln_e8m0_from_f32(float x)
{
    const uint32_t bits = kiln_bits_f32(x);
    const uint32_t near = (bits + 0x3fffffu + (bits >> 23 & 1)) >> 23, kept = near < 254 ? near : 254;
    const uint32_t positive = bits < 0x800000u ? bits > 0x600000u : kept;
    const uint32_t number = bits >> 31 ? 0 : positive;
    return (uint8_t)((bits & 0x7fffffffu) > 0x7f800000u ? 255 : number);
}
KILN_INLINE float kiln_f32_from_e8m0(uint8_t x)
{
    const uint32_t low = x ? (uint32_t)x << 23 : 0x400000u;
    return kiln_f32_bits(x == 255 ? 0x7fc00000u : low);
}

// Rounds to odd: of two neighbours the one whose last bit is set. Rounding the result once more
// to fewer than 22 bits then gives what one rounding would have, so every conversion from f64 or
// an integer to a narrow float goes through here.
KILN_INLINE float kiln_f32_odd_from_f64(double x)
{
    const float near = (float)x;
    const double distance = (near < 0 ? -(double)near : (double)near) - (x < 0 ? -x : x);
    const uint32_t bits = kiln_bits_f32(near), toward_zero = bits - (distance > 0);
    return kiln_f32_bits(distance > 0 || distance < 0 ? toward_zero | 1 : bits);
}
KILN_INLINE double kiln_f64_odd_from_u64(uint64_t x)
{
    const uint64_t sticky = (x & 0x7ff) != 0;          // only looked at if x needs more than 53 bits
    return (double)(x >> 53 ? (x & ~(uint64_t)0x7ff) | sticky << 11 : x);
}
KILN_INLINE float kiln_f32_odd_from_i64(int64_t x)
{
    const double magnitude = kiln_f64_odd_from_u64(x < 0 ? 0 - (uint64_t)x : (uint64_t)x);
    return kiln_f32_odd_from_f64(x < 0 ? -magnitude : magnitude);
}

// From floating point to integers. The compare comes before the cast: casting a number that does
// not fit is undefined in C.
#define KILN_DEFINE_TRUNCATE(NAME, TO, FROM, LEAST, BEYOND, MOST)                \
    KILN_INLINE TO NAME(FROM x)                                                  \
    {                                                                            \
        const int fits = x >= (FROM)(LEAST) && x < (BEYOND);                     \
        const TO whole = (TO)(fits ? x : (FROM)0);                               \
        const TO beyond = x >= (BEYOND) ? (TO)(MOST) : whole;                    \
        return x < (FROM)(LEAST) ? (TO)(LEAST) : beyond;                         \
    }
KILN_DEFINE_TRUNCATE(kiln_i32_from_f32, int32_t, float, INT32_MIN, 2147483648.0f, INT32_MAX)
KILN_DEFINE_TRUNCATE(kiln_u32_from_f32, uint32_t, float, 0, 4294967296.0f, UINT32_MAX)
KILN_DEFINE_TRUNCATE(kiln_i64_from_f32, int64_t, float, INT64_MIN, 9223372036854775808.0f, INT64_MAX)
KILN_DEFINE_TRUNCATE(kiln_u64_from_f32, uint64_t, float, 0, 18446744073709551616.0f, UINT64_MAX)
KILN_DEFINE_TRUNCATE(kiln_i32_from_f64, int32_t, double, INT32_MIN, 2147483648.0, INT32_MAX)
KILN_DEFINE_TRUNCATE(kiln_u32_from_f64, uint32_t, double, 0, 4294967296.0, UINT32_MAX)
KILN_DEFINE_TRUNCATE(kiln_i64_from_f64, int64_t, double, INT64_MIN, 9223372036854775808.0, INT64_MAX)
KILN_DEFINE_TRUNCATE(kiln_u64_from_f64, uint64_t, double, 0, 18446744073709551616.0, UINT64_MAX)

KILN_INLINE int32_t kiln_clamp_i32(int32_t x, int32_t least, int32_t most)
{
    const int32_t above = x < least ? least : x;
    return above > most ? most : above;
}
KILN_INLINE int16_t kiln_i16_from_f32(float x) { return (int16_t)kiln_clamp_i32(kiln_i32_from_f32(x), -32768, 32767); }
KILN_INLINE uint16_t kiln_u16_from_f32(float x) { return (uint16_t)kiln_clamp_i32(kiln_i32_from_f32(x), 0, 65535); }
KILN_INLINE int8_t kiln_i8_from_f32(float x) { return (int8_t)kiln_clamp_i32(kiln_i32_from_f32(x), -128, 127); }
KILN_INLINE uint8_t kiln_u8_from_f32(float x) { return (uint8_t)kiln_clamp_i32(kiln_i32_from_f32(x), 0, 255); }
KILN_INLINE int32_t kiln_i4_from_f32(float x) { return kiln_clamp_i32(kiln_i32_from_f32(x), -8, 7); }
KILN_INLINE int32_t kiln_u4_from_f32(float x) { return kiln_clamp_i32(kiln_i32_from_f32(x), 0, 15); }
KILN_INLINE int32_t kiln_i2_from_f32(float x) { return kiln_clamp_i32(kiln_i32_from_f32(x), -2, 1); }
KILN_INLINE int32_t kiln_u2_from_f32(float x) { return kiln_clamp_i32(kiln_i32_from_f32(x), 0, 3); }

// Packed elements: number i of a row that starts at `row`; the first in the lowest bits.
KILN_INLINE uint32_t kiln_get_bits4(const uint8_t *row, int64_t i) { return row[i >> 1] >> (i & 1) * 4 & 15u; }
KILN_INLINE uint32_t kiln_get_bits2(const uint8_t *row, int64_t i) { return row[i >> 2] >> (i & 3) * 2 & 3u; }
KILN_INLINE void kiln_set_bits4(uint8_t *row, int64_t i, uint32_t x)
{
    const int at = (int)(i & 1) * 4;
    row[i >> 1] = (uint8_t)((row[i >> 1] & ~(15u << at)) | (x & 15u) << at);
}
KILN_INLINE void kiln_set_bits2(uint8_t *row, int64_t i, uint32_t x)
{
    const int at = (int)(i & 3) * 2;
    row[i >> 2] = (uint8_t)((row[i >> 2] & ~(3u << at)) | (x & 3u) << at);
}
// The same where other threads store neighbours in the byte.
#define KILN_DEFINE_SHARED_BITS(BITS, PER_BYTE, MASK)                                          \
    KILN_INLINE void kiln_set_shared_bits##BITS(uint8_t *row, int64_t i, uint32_t x)          \
    {                                                                                         \
        uint8_t *const byte = row + i / PER_BYTE;                                             \
        const int at = (int)(i % PER_BYTE) * BITS;                                            \
        __atomic_fetch_and(byte, (uint8_t)~(MASK << at), __ATOMIC_RELAXED);                   \
        __atomic_fetch_or(byte, (uint8_t)((x & MASK) << at), __ATOMIC_RELAXED);               \
    }
KILN_DEFINE_SHARED_BITS(4, 2, 15u)
KILN_DEFINE_SHARED_BITS(2, 4, 3u)
// Whole vectors of a byte for each of n packed elements, from a byte's first on; returns for how many. A byte is widened
// to a word of what it has, and beside itself shifted there so often that each of these has its element at its foot.
#if KILN_AVX512 || KILN_AVX2
#define KILN_WIDEN_BYTES(to, words, bytes) __asm__("vpmovzxb" to " %1, %0" : "=v"(words) : "m"(bytes))
#else
#define KILN_WIDEN_BYTES(to, words, bytes) words = __builtin_convertvector(bytes, __typeof__(words))
#endif
#define KILN_UNPACK_VECTORS(BYTES, PER_BYTE, WORD, TO, SPREAD, MASK)                                \
    for (; n - i >= BYTES; i += BYTES) {                                                            \
        typedef uint8_t Part __attribute__((vector_size(BYTES / PER_BYTE), aligned(1), may_alias)); \
        typedef WORD Words __attribute__((vector_size(BYTES)));                                     \
        typedef Words AnyWords __attribute__((aligned(1), may_alias));                              \
        Words x;                                                                                    \
        KILN_WIDEN_BYTES(TO, x, *(const Part *)(from + i / PER_BYTE));                              \
        *(AnyWords *)(to + i) = (SPREAD) & MASK;                                                    \
    }
#define KILN_DEFINE_UNPACK_VECTORS(BITS, PER_BYTE, WORD, TO, SPREAD, MASK)                          \
    KILN_INLINE int64_t kiln_unpack_vectors##BITS(uint8_t *to, const uint8_t *from, int64_t n)     \
    {                                                                                               \
        int64_t i = 0;                                                                              \
        KILN_UNPACK_VECTORS(KILN_VECTOR_BYTES, PER_BYTE, WORD, TO, SPREAD, MASK)                    \
        KILN_UNPACK_SMALLER(PER_BYTE, WORD, TO, SPREAD, MASK)                                       \
        return i;                                                                                   \
    }
#if KILN_AVX512
#define KILN_UNPACK_SMALLER(...) KILN_UNPACK_VECTORS(32, __VA_ARGS__)
#else
#define KILN_UNPACK_SMALLER(...)
#endif
KILN_DEFINE_UNPACK_VECTORS(4, 2, uint16_t, "w", x | x << 4, 0x0f0f)
KILN_DEFINE_UNPACK_VECTORS(2, 4, uint32_t, "d", x | x << 6 | x << 12 | x << 18, 0x03030303)
// A row of a byte for each of n packed elements, from number `first` on, and back; bytes between are whole.
#define KILN_DEFINE_ROWS_OF_BITS(BITS, PER_BYTE, MASK)                                                    \
    KILN_INLINE void kiln_unpack_bits##BITS(uint8_t *to, const uint8_t *row, int64_t first, int64_t n)   \
    {                                                                                                     \
        int64_t i = 0;                                                                                    \
        for (; i < n && (first + i) % PER_BYTE; i++) to[i] = (uint8_t)kiln_get_bits##BITS(row, first + i); \
        i += kiln_unpack_vectors##BITS(to + i, row + (first + i) / PER_BYTE, n - i);                      \
        const uint8_t *const from = row + (first + i) / PER_BYTE;                                         \
        const int64_t whole = (n - i) / PER_BYTE;                                                         \
        KILN_VECTORIZE                                                                                    \
        for (int64_t b = 0; b < whole; b++)                                                               \
            KILN_UNROLL for (int x = 0; x < PER_BYTE; x++)                                                \
                to[i + b * PER_BYTE + x] = (uint8_t)(from[b] >> x * BITS & MASK);                         \
        for (i += whole * PER_BYTE; i < n; i++) to[i] = (uint8_t)kiln_get_bits##BITS(row, first + i);     \
    }                                                                                                     \
    KILN_INLINE void kiln_pack_bits##BITS(uint8_t *row, int64_t first, const uint8_t *from, int64_t n)   \
    {                                                                                                     \
        int64_t i = 0;                                                                                    \
        for (; i < n && (first + i) % PER_BYTE; i++) kiln_set_bits##BITS(row, first + i, from[i]);        \
        uint8_t *const to = row + (first + i) / PER_BYTE;                                                 \
        const int64_t whole = (n - i) / PER_BYTE;                                                         \
        KILN_VECTORIZE                                                                                    \
        for (int64_t b = 0; b < whole; b++) {                                                             \
            uint32_t byte = 0;                                                                            \
            KILN_UNROLL for (int x = 0; x < PER_BYTE; x++)                                                \
                byte |= (from[i + b * PER_BYTE + x] & MASK) << x * BITS;                                  \
            to[b] = (uint8_t)byte;                                                                        \
        }                                                                                                 \
        for (i += whole * PER_BYTE; i < n; i++) kiln_set_bits##BITS(row, first + i, from[i]);             \
    }
KILN_DEFINE_ROWS_OF_BITS(4, 2, 15u)
KILN_DEFINE_ROWS_OF_BITS(2, 4, 3u)
KILN_INLINE int32_t kiln_i32_from_i4(uint32_t x) { return (int32_t)((x & 15u) ^ 8u) - 8; }
KILN_INLINE int32_t kiln_i32_from_u4(uint32_t x) { return (int32_t)(x & 15u); }
KILN_INLINE int32_t kiln_i32_from_i2(uint32_t x) { return (int32_t)((x & 3u) ^ 2u) - 2; }
KILN_INLINE int32_t kiln_i32_from_u2(uint32_t x) { return (int32_t)(x & 3u); }

// Rows of n elements.
#define KILN_DEFINE_ROW(NAME, TO, FROM, CONVERT)                                              \
    static __attribute__((unused)) void NAME(TO *restrict to, const FROM *restrict from, int64_t n) \
    {                                                                                         \
        KILN_VECTORIZE for (int64_t i = 0; i < n; i++) to[i] = CONVERT(from[i]);              \
    }
KILN_DEFINE_ROW(kiln_row_f32_from_bf16, float, uint16_t, kiln_f32_from_bf16)
KILN_DEFINE_ROW(kiln_row_e4m3_from_f32, uint8_t, float, kiln_e4m3_from_f32)
KILN_DEFINE_ROW(kiln_row_f32_from_e4m3, float, uint8_t, kiln_f32_from_e4m3)
KILN_DEFINE_ROW(kiln_row_e5m2_from_f32, uint8_t, float, kiln_e5m2_from_f32)
KILN_DEFINE_ROW(kiln_row_f32_from_e5m2, float, uint8_t, kiln_f32_from_e5m2)

#if KILN_AVX512 || KILN_AVX2
static __attribute__((unused)) void kiln_row_f16_from_f32(uint16_t *restrict to, const float *restrict from, int64_t n)
{
    typedef uint16_t Half __attribute__((vector_size(KILN_VECTOR_BYTES / 2)));
    typedef Half Any __attribute__((aligned(1), may_alias));
    int64_t i = 0;
    for (; n - i >= KILN_LANES; i += KILN_LANES) {
        Half narrow;
        const kiln_vf32 wide = *(const kiln_vf32_any *)(from + i);
        __asm__("vcvtps2ph $0, %1, %0" : "=v"(narrow) : "v"(wide));
        *(Any *)(to + i) = narrow;
    }
    for (; i < n; i++) to[i] = kiln_f16_from_f32(from[i]);
}
static __attribute__((unused)) void kiln_row_f32_from_f16(float *restrict to, const uint16_t *restrict from, int64_t n)
{
    typedef uint16_t Half __attribute__((vector_size(KILN_VECTOR_BYTES / 2)));
    typedef Half Any __attribute__((aligned(1), may_alias));
    int64_t i = 0;
    for (; n - i >= KILN_LANES; i += KILN_LANES) {
        kiln_vf32 wide;
        const Half narrow = *(const Any *)(from + i);
        __asm__("vcvtph2ps %1, %0" : "=v"(wide) : "v"(narrow));
        *(kiln_vf32_any *)(to + i) = wide;
    }
    for (; i < n; i++) to[i] = kiln_f32_from_f16(from[i]);
}
#elif KILN_NEON
static __attribute__((unused)) void kiln_row_f16_from_f32(uint16_t *restrict to, const float *restrict from, int64_t n)
{
    typedef uint16_t Half __attribute__((vector_size(8)));
    typedef Half Any __attribute__((aligned(1), may_alias));
    int64_t i = 0;
    for (; n - i >= KILN_LANES; i += KILN_LANES) {
        Half narrow;
        __asm__("fcvtn %0.4h, %1.4s" : "=w"(narrow) : "w"(*(const kiln_vf32_any *)(from + i)));
        *(Any *)(to + i) = narrow;
    }
    for (; i < n; i++) to[i] = kiln_f16_from_f32(from[i]);
}
static __attribute__((unused)) void kiln_row_f32_from_f16(float *restrict to, const uint16_t *restrict from, int64_t n)
{
    typedef uint16_t Half __attribute__((vector_size(8)));
    typedef Half Any __attribute__((aligned(1), may_alias));
    int64_t i = 0;
    for (; n - i >= KILN_LANES; i += KILN_LANES) {
        kiln_vf32 wide;
        __asm__("fcvtl %0.4s, %1.4h" : "=w"(wide) : "w"(*(const Any *)(from + i)));
        *(kiln_vf32_any *)(to + i) = wide;
    }
    for (; i < n; i++) to[i] = kiln_f32_from_f16(from[i]);
}
#else
KILN_DEFINE_ROW(kiln_row_f16_from_f32, uint16_t, float, kiln_f16_from_f32)
KILN_DEFINE_ROW(kiln_row_f32_from_f16, float, uint16_t, kiln_f32_from_f16)
#endif

#if KILN_AVX512 && (KILN_BF16 || KILN_AMX)
// Two vectors to one of bf16. vcvtne2ps2bf16 takes subnormals for zero; *subnormal collects the lanes that were.
KILN_INLINE kiln_vu32 kiln_bf16_lanes(kiln_vf32 low, kiln_vf32 high, uint16_t *subnormal)
{
    kiln_vu32 both;
    uint16_t first, second;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low), "v"(high));
    __asm__("vfpclassps $0x20, %1, %0" : "=Yk"(first) : "v"(low));
    __asm__("vfpclassps $0x20, %1, %0" : "=Yk"(second) : "v"(high));
    *subnormal |= first | second;
    return both;
}

// A row that has a subnormal, which is rare, is converted again.
KILN_DEFINE_ROW(kiln_row_bf16_exact, uint16_t, float, kiln_bf16_from_f32)
static __attribute__((unused)) void kiln_row_bf16_from_f32(uint16_t *restrict to, const float *restrict from, int64_t n)
{
    const int64_t whole = n / (2 * KILN_LANES) * (2 * KILN_LANES);
    uint16_t subnormal = 0;
    for (int64_t i = 0; i < whole; i += 2 * KILN_LANES) {
        const kiln_vf32_any *const two = (const kiln_vf32_any *)(from + i);
        *(kiln_vu32_any *)(to + i) = kiln_bf16_lanes(two[0], two[1], &subnormal);
    }
    if (subnormal) kiln_row_bf16_exact(to, from, whole);
    for (int64_t i = whole; i < n; i++) to[i] = kiln_bf16_from_f32(from[i]);
}
#else
KILN_DEFINE_ROW(kiln_row_bf16_from_f32, uint16_t, float, kiln_bf16_from_f32)
#endif

#if KILN_AVX512 || KILN_AVX2
// A byte in each lane. gcc 12 converts vectors of bytes to words one by one.
KILN_INLINE kiln_vu32 kiln_lanes_from_bytes(const void *from)
{
    typedef uint8_t Bytes __attribute__((vector_size(KILN_LANES), aligned(1), may_alias));
    kiln_vu32 lanes;
    __asm__("vpmovzxbd %1, %0" : "=v"(lanes) : "m"(*(const Bytes *)from));
    return lanes;
}
// A vector of table[code % 16].
KILN_INLINE kiln_vf32 kiln_look_up_words(const float *table, kiln_vi32 code)
{
    kiln_vf32 value;
    __asm__("vpermps %1, %2, %0" : "=v"(value) : "v"(*(const kiln_vf32_any *)table), "v"(code));
#if !KILN_AVX512
    kiln_vf32 high;
    __asm__("vpermps %1, %2, %0" : "=v"(high) : "v"(*(const kiln_vf32_any *)(table + KILN_LANES)), "v"(code));
    const kiln_vi32 which = (code & 8) > 0;
    value = (kiln_vf32)(((kiln_vi32)high & which) | ((kiln_vi32)value & ~which));
#endif
    return value;
}
KILN_INLINE kiln_vf32 kiln_look_up_lanes(const float *table, const uint8_t *codes)
{
    return kiln_look_up_words(table, (kiln_vi32)kiln_lanes_from_bytes(codes));
}
// Adds the products of a row of looked up values and a row of numbers to sums; n is a constant, a multiple of 16. `ahead`:
// where the packed codes of a later step lie, NULL if unknown.
KILN_INLINE void kiln_dot_looked_up(kiln_vf32 sums[4], const float *table, const uint8_t *codes, const float *row, int64_t n,
                                    const uint8_t *ahead)
{
    KILN_UNROLL for (int64_t i = 0; i < n; i += KILN_LANES) {
        if (ahead && i % 128 == 0) KILN_FETCH(ahead + i / 2);
        sums[i / KILN_LANES % 4] += kiln_look_up_lanes(table, codes + i) * *(const kiln_vf32_any *)(row + i);
    }
    if (n < 4 * KILN_LANES) {       // the next row adds to other sums, and does not wait for these
        const kiln_vf32 first = sums[0], second = sums[1];
        sums[0] = sums[2], sums[1] = sums[3], sums[2] = first, sums[3] = second;
    }
}
// The same of a row turned by kiln_turn_fours: four codes to a word are looked up without moving them; n is a multiple of
// four vectors.
KILN_INLINE void kiln_dot_turned(kiln_vf32 sums[4], const float *table, const uint8_t *codes, const float *row, int64_t n,
                                 const uint8_t *ahead)
{
    KILN_UNROLL for (int64_t i = 0; i < n; i += 4 * KILN_LANES) {
        const kiln_vu32 four = *(const kiln_vu32_any *)(codes + i);
        if (ahead && i % 128 == 0) KILN_FETCH(ahead + i / 2);
        KILN_UNROLL for (int x = 0; x < 4; x++)
            sums[x] += kiln_look_up_words(table, (kiln_vi32)(four >> 8 * x)) *
                       *(const kiln_vf32_any *)(row + i + x * KILN_LANES);
    }
}
// Of every four vectors, the first numbers of all fours, then the second ...; n is a multiple of four vectors.
#if KILN_AVX512
#define KILN_EVEN(x, y) KILN_SHUFFLE(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define KILN_ODD(x, y) KILN_SHUFFLE(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#else
#define KILN_EVEN(x, y) KILN_SHUFFLE(x, y, 0, 2, 4, 6, 8, 10, 12, 14)
#define KILN_ODD(x, y) KILN_SHUFFLE(x, y, 1, 3, 5, 7, 9, 11, 13, 15)
#endif
KILN_INLINE void kiln_turn_fours(float *to, const float *from, int64_t n)
{
    KILN_NO_UNROLL for (int64_t i = 0; i < n; i += 4 * KILN_LANES) {
        const kiln_vf32_any *const x = (const kiln_vf32_any *)(from + i);
        kiln_vf32_any *const y = (kiln_vf32_any *)(to + i);
        const kiln_vf32 x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
        const kiln_vf32 even = KILN_EVEN(x0, x1), odd = KILN_ODD(x0, x1), even2 = KILN_EVEN(x2, x3), odd2 = KILN_ODD(x2, x3);
        y[0] = KILN_EVEN(even, even2);
        y[1] = KILN_EVEN(odd, odd2);
        y[2] = KILN_ODD(even, even2);
        y[3] = KILN_ODD(odd, odd2);
    }
}
#define KILN_DECLARE_SUMS(sums) kiln_vf32 sums[4] = { { 0 } }
#if KILN_AVX512
#define KILN_HALVES_OF_LANES(s) s += KILN_SHUFFLE(s, s, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#else
#define KILN_HALVES_OF_LANES(s) (void)0
#endif
KILN_INLINE float kiln_sum_of_sums(const kiln_vf32 sums[4])
{
    typedef float Quad __attribute__((vector_size(16)));
    Quad x, y;
    kiln_vf32 all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    KILN_HALVES_OF_LANES(all);
    __builtin_memcpy(&x, &all, 16);
    __builtin_memcpy(&y, (const char *)&all + 16, 16);
    x += y;
    return (x[0] + x[1]) + (x[2] + x[3]);
}
#endif
// to[i] = table[codes[i] % 16]: in a tile what is above an element's bits is arbitrary.
KILN_INLINE void kiln_look_up(float *to, const float *table, const uint8_t *codes, int64_t n)
{
    int64_t i = 0;
#if KILN_AVX512 || KILN_AVX2
    for (; i <= n - KILN_LANES; i += KILN_LANES) *(kiln_vf32_any *)(to + i) = kiln_look_up_lanes(table, codes + i);
#endif
    for (; i < n; i++) to[i] = table[codes[i] & 15];
}
