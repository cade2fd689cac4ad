// SPDX-License-Identifier: MIT
// rows.cuh - pieces of 16 bytes of a tile's rows, gathered or converted by the producer's threads (sm_90).
//
// 16 bytes without a register in between; outside they become zero and nothing is read.
DEVICE void cp_async_16(uint32_t dst, const void *src, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(inside ? 16 : 0) : "memory");
}
// What another lane has worked out.
template <class T> DEVICE T *shuffle_pointer(T *p, int32_t lane)
{
    const uint64_t at = (uint64_t)p;
    const uint32_t low = shuffle_from((uint32_t)at, lane), high = shuffle_from((uint32_t)(at >> 32), lane);
    return (T *)((uint64_t)high << 32 | low);
}
DEVICE bool shuffle_inside(bool inside, int32_t lane) { return shuffle_from((int32_t)inside, lane) != 0; }
DEVICE void cp_async_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Words of 32 bits, at a multiple of their size or of 16 bytes.
template <int WORDS> DEVICE void load_piece(uint32_t *w, const void *p, bool inside)
{
    if constexpr (WORDS == 1) {
        w[0] = inside ? *(const uint32_t *)p : 0;
    } else if constexpr (WORDS == 2) {
        const uint2 x = inside ? *(const uint2 *)p : uint2{};
        w[0] = x.x, w[1] = x.y;
    } else {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            const uint4 x = inside ? ((const uint4 *)p)[i / 4] : uint4{};
            w[i] = x.x, w[i + 1] = x.y, w[i + 2] = x.z, w[i + 3] = x.w;
        }
    }
}
template <class T> DEVICE T load_each(const void *p, bool inside) { return inside ? *(const T *)p : (T)0; }
// Where a row of a later step is loaded from: one that is outside, from zeros. Under a predicate ptxas loads into other
// registers and copies them after a wait for memory.
template <int BYTES, class T> DEVICE T *row_or_zeros(T *row, bool inside)
{
    static __device__ uint4 zeros[(BYTES + 15) / 16];
    return inside ? row : (T *)zeros;
}
template <int WORDS> DEVICE void load_piece_ahead(uint32_t *w, const void *p)
{
    if constexpr (WORDS == 2)
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(p));
    else
#pragma unroll
        for (int i = 0; i < WORDS; i += 4)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(w[i]), "=r"(w[i + 1]), "=r"(w[i + 2]), "=r"(w[i + 3]) : "l"((const uint4 *)p + i / 4));
}
template <class T> DEVICE T load_each_ahead(const void *p)
{
    uint32_t w;
    if constexpr (sizeof(T) == 1) {
        asm volatile("ld.global.u8 %0, [%1];" : "=r"(w) : "l"(p));
        return bitcast<T>((uint8_t)w);
    } else if constexpr (sizeof(T) == 2) {
        asm volatile("ld.global.u16 %0, [%1];" : "=r"(w) : "l"(p));
        return bitcast<T>((uint16_t)w);
    } else {
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(w) : "l"(p));
        return bitcast<T>(w);
    }
}
DEVICE void store_piece(uint32_t at, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// Into the L2 cache: a multiple of 16 bytes, by lines of 128. (cp.async.bulk.prefetch takes one lane's address at a time.)
DEVICE void prefetch_row(const void *p, int32_t bytes, bool inside)
{
    if (!inside)
        return;
#pragma unroll
    for (int i = 0; i < bytes; i += 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)p + i));
    asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)p + bytes - 16));
}
// Two products, each rounded once; two differences.
#define PAIR_OPERATION(name, instruction) \
    DEVICE uint32_t name(uint32_t a, uint32_t b) { uint32_t r; asm(instruction " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
PAIR_OPERATION(multiply_bf16, "mul.rn.bf16x2")
PAIR_OPERATION(multiply_f16, "mul.rn.f16x2")
PAIR_OPERATION(subtract_bf16, "sub.rn.bf16x2")
PAIR_OPERATION(subtract_f16, "sub.rn.f16x2")
// x / size, without a division where the size, the same for all threads, is a power of two.
DEVICE int32_t quotient_by_size(int32_t x, int32_t size)
{
    if ((size & (size - 1)) == 0)
        return (x + (x >> 31 & (size - 1))) >> (31 - __clz(size));
    return x / size;
}
// Eight elements from word `at` on; codes two at a time.
DEVICE void widen_e4m3(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        uint32_t r;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)(w[at + i / 4] >> i % 4 * 8)));
        f[i] = f16_to_f32((uint16_t)r);
        f[i + 1] = f16_to_f32((uint16_t)(r >> 16));
    }
}
DEVICE void widen_e5m2(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = e5m2_to_f32((uint8_t)(w[at + i / 4] >> i % 4 * 8));
}
DEVICE void widen_bf16(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = bf16_to_f32((uint16_t)(w[at + i / 2] >> i % 2 * 16));
}
DEVICE void widen_f16(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = f16_to_f32((uint16_t)(w[at + i / 2] >> i % 2 * 16));
}
// Bytes are integers above 2^23, less that.
template <int SIGN> DEVICE void widen_bytes(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t bits = __byte_perm(w[at + i / 4] ^ (uint32_t)SIGN * 0x01010101u, 0x4b000000u, 0x7440 | i % 4);
        f[i] = __uint_as_float(bits) - (8388608.0f + SIGN);
    }
}
DEVICE void widen_i8(float *f, const uint32_t *w, int at) { widen_bytes<128>(f, w, at); }
DEVICE void widen_u8(float *f, const uint32_t *w, int at) { widen_bytes<0>(f, w, at); }

// ---- codes of less than a byte: element 2c in the low half of pair c, 2c+1 in the high one, from element 8 * part on

// A byte of each word in a half, twice.
DEVICE uint32_t bytes_of_two(uint32_t low, uint32_t high, int byte) { return __byte_perm(low, high, 0x4400 + byte * 0x1111); }
template <int BITS> DEVICE void code_pairs(uint32_t *pair, const uint32_t *w, int part)
{
    if constexpr (BITS == 4) {
#pragma unroll
        for (int c = 0; c < 4; c++) pair[c] = bytes_of_two(w[part], w[part] >> 4, c) & 0x000f000fu;
    } else {
        const uint32_t x = w[part / 2];
#pragma unroll
        for (int c = 0; c < 4; c++)
            pair[c] = bytes_of_two(x >> c % 2 * 4, x >> (c % 2 * 4 + 2), part % 2 * 2 + c / 2) & 0x00030003u;
    }
}
// The code in the last bits of a number that has integers there; of a signed one with its sign turned. What it is more than
// the code, and `less`, are subtracted; all of it is exact.
#define PAIRS_OF_CODES(name, BITS, SIGN) \
    DEVICE void pairs_##name##_bf16(uint32_t *pair, const uint32_t *w, int part, int32_t less) \
    { \
        const uint16_t zero = f32_to_bf16((float)(128 + SIGN + less)); \
        code_pairs<BITS>(pair, w, part); \
        _Pragma("unroll") for (int c = 0; c < 4; c++) \
            pair[c] = subtract_bf16(pair[c] ^ (0x43004300u | SIGN * 0x00010001u), pack_bits(zero, zero)); \
    } \
    DEVICE void pairs_##name##_f16(uint32_t *pair, const uint32_t *w, int part, int32_t less) \
    { \
        const uint16_t zero = (uint16_t)(0x6400 + SIGN + less); \
        code_pairs<BITS>(pair, w, part); \
        _Pragma("unroll") for (int c = 0; c < 4; c++) \
            pair[c] = subtract_f16(pair[c] ^ (0x64006400u | SIGN * 0x00010001u), pack_bits(zero, zero)); \
    } \
    DEVICE void widen_##name(float *f, const uint32_t *w, int part) \
    { \
        uint32_t pair[4]; \
        code_pairs<BITS>(pair, w, part); \
        _Pragma("unroll") for (int i = 0; i < 8; i++) \
            f[i] = __uint_as_float(((pair[i / 2] >> i % 2 * 16 & 0xffffu) ^ (uint32_t)SIGN) | 0x4b000000u) - (8388608.0f + SIGN); \
    }
PAIRS_OF_CODES(u4, 4, 0)
PAIRS_OF_CODES(i4, 4, 8)
PAIRS_OF_CODES(u2, 2, 0)
PAIRS_OF_CODES(i2, 2, 2)
// Exponent and fraction of e2m1 where the other type has its last exponent bits and its first of the fraction: what is
// too small by the difference of the biases is multiplied, subnormal or not.
DEVICE void pairs_e2m1_bf16(uint32_t *pair, const uint32_t *w, int part, int32_t less)
{
    code_pairs<4>(pair, w, part);
#pragma unroll
    for (int c = 0; c < 4; c++)
        pair[c] = multiply_bf16((pair[c] << 12 & 0x80008000u) | (pair[c] << 6 & 0x01c001c0u), 0x7e807e80u);
}
DEVICE void pairs_e2m1_f16(uint32_t *pair, const uint32_t *w, int part, int32_t less)
{
    code_pairs<4>(pair, w, part);
#pragma unroll
    for (int c = 0; c < 4; c++)
        pair[c] = multiply_f16((pair[c] << 12 & 0x80008000u) | (pair[c] << 9 & 0x0e000e00u), 0x74007400u);
}
DEVICE void widen_e2m1(float *f, const uint32_t *w, int part)
{
    uint32_t pair[4];
    code_pairs<4>(pair, w, part);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t x = pair[i / 2] >> i % 2 * 16;
        f[i] = __uint_as_float((x << 28 & 0x80000000u) | (x << 22 & 0x01c00000u)) * 0x1p126f;
    }
}

// ---- codes of less than a byte as bytes: sixteen from element 16 * part on

// Fields of BITS at the foot of each byte; of signed ones the sign is spread over the byte.
template <int BITS, bool SIGNED> DEVICE uint32_t byte_fields(uint32_t w)
{
    const uint32_t x = w & ((1u << BITS) - 1) * 0x01010101u;
    return SIGNED ? x | (x & (1u << (BITS - 1)) * 0x01010101u) * ((1u << (9 - BITS)) - 2) : x;
}
template <bool SIGNED> DEVICE void bytes_of_4(uint32_t *to, const uint32_t *w, int part)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t even = byte_fields<4, SIGNED>(w[2 * part + i]), odd = byte_fields<4, SIGNED>(w[2 * part + i] >> 4);
        to[2 * i] = __byte_perm(even, odd, 0x5140);
        to[2 * i + 1] = __byte_perm(even, odd, 0x7362);
    }
}
template <bool SIGNED> DEVICE void bytes_of_2(uint32_t *to, const uint32_t *w, int part)
{
    uint32_t field[4];
#pragma unroll
    for (int i = 0; i < 4; i++) field[i] = byte_fields<2, SIGNED>(w[part] >> 2 * i);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t low = __byte_perm(field[0], field[1], half ? 0x7362 : 0x5140);
        const uint32_t high = __byte_perm(field[2], field[3], half ? 0x7362 : 0x5140);
        to[2 * half] = __byte_perm(low, high, 0x5410);
        to[2 * half + 1] = __byte_perm(low, high, 0x7632);
    }
}
DEVICE void bytes_i4(uint32_t *to, const uint32_t *w, int part) { bytes_of_4<true>(to, w, part); }
DEVICE void bytes_u4(uint32_t *to, const uint32_t *w, int part) { bytes_of_4<false>(to, w, part); }
DEVICE void bytes_i2(uint32_t *to, const uint32_t *w, int part) { bytes_of_2<true>(to, w, part); }
DEVICE void bytes_u2(uint32_t *to, const uint32_t *w, int part) { bytes_of_2<false>(to, w, part); }
