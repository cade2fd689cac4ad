// SPDX-License-Identifier: MIT
// unpack.cuh - N neighbouring codes of less than a byte, from bit 0 of a word on, as floating numbers. All of it is exact.
//
DEVICE uint32_t byte_of_word(uint32_t x, int32_t which) { return __byte_perm(x, 0, 0x4440 + which); }
DEVICE uint32_t byte_in_halves(uint32_t x, int32_t which) { return __byte_perm(x, 0, 0x4040 + which * 0x0101); }
// Codes 2c and 2c + 1 at the foot of a word's halves, others above them. A byte is put beside itself by a product.
template <int BITS, int N> DEVICE uint32_t two_codes(uint32_t x, int c)
{
    if constexpr (N * BITS <= 8) return (x >> 2 * BITS * c) * (1u + (1u << 16 - BITS));
    else if constexpr (BITS == 4) return __byte_perm(x, x >> 4, 0x4400 + c * 0x1111);
    else return __byte_perm(x >> c % 2 * 4, x >> c % 2 * 4 + 2, 0x4400 + c / 2 * 0x1111);
}
// (x & mask) ^ bits, by one instruction also where both are constants.
DEVICE uint32_t mask_and_turn(uint32_t x, uint32_t mask, uint32_t bits) { uint32_t r; asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits)); return r; }
// a * b + c: before sm_90 the one operation on pairs of bf16.
DEVICE uint32_t pair_sum_bf16(uint32_t a, uint32_t b, uint32_t c) { uint32_t r; asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
DEVICE uint32_t pair_less_bf16(uint32_t a, uint32_t b) { return pair_sum_bf16(a, 0x3f803f80u, b ^ 0x80008000u); }
DEVICE uint32_t pair_less_f16(uint32_t a, uint32_t b) { uint32_t r; asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
DEVICE uint32_t pair_times_bf16(uint32_t a, uint32_t b) { return pair_sum_bf16(a, b, 0x80008000u); }
DEVICE uint32_t pair_times_f16(uint32_t a, uint32_t b) { uint32_t r; asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
// Halves of pairs go to shared memory as the words that they were.
template <int N> DEVICE void store_pairs_shared(const uint16_t *v, uint16_t *p, bool rows)
{
    uint32_t w[N / 2];
    join<N>(w, v);
    store_shared<N / 2>(w, (uint32_t *)p, rows);
}

// An integer in the last bits of a number whose exponent COUNTS them, of a signed one with its sign turned; less the rest.
#define UNPACK_PAIRS(name, to, BITS, SIGN, COUNTS, FRACTION) \
    template <int N> DEVICE void unpack_##name##_##to(uint16_t *v, uint32_t x) \
    { \
        _Pragma("unroll") for (int c = 0; c < N / 2; c++) { \
            const uint32_t zero = (COUNTS + SIGN) * 0x00010001u; \
            const uint32_t pair = mask_and_turn(two_codes<BITS, N>(x, c), ((1u << BITS) - 1) * 0x00010001u, zero); \
            store_pair(v + 2 * c, pair_less_##to(pair, zero)); \
        } \
    } \
    /* Of two codes in each half: the upper half's exponent counts from its second one on, where the fraction has room. */ \
    DEVICE void unpack_##name##_##to##_of_halves(uint16_t *v, uint32_t x) \
    { \
        const uint32_t feet = 1u | 1u << 16 + BITS, zero = COUNTS * 0x00010001u - (BITS << FRACTION + 16) + SIGN * feet; \
        store_pair(v, pair_less_##to(mask_and_turn(x, ((1u << BITS) - 1) * feet, zero), zero)); \
    }
#define UNPACK_INTEGERS(name, BITS, SIGN) \
    UNPACK_PAIRS(name, bf16, BITS, SIGN, 0x4300u, 7) \
    UNPACK_PAIRS(name, f16, BITS, SIGN, 0x6400u, 10) \
    template <int N> DEVICE void unpack_##name##_f32(float *v, uint32_t x) \
    { \
        _Pragma("unroll") for (int i = 0; i < N; i++) { \
            const int at = i * BITS % 16; /* the number is so many times the code: no shift brings it to the foot */ \
            const uint32_t bits = mask_and_turn(x >> i * BITS - at, (1u << BITS) - 1 << at, 0x4b000000u + ((uint32_t)SIGN << at)); \
            v[i] = fmaf(__uint_as_float(bits), 1.0f / (1 << at), -(8388608.0f / (1 << at) + SIGN)); \
        } \
    }
UNPACK_INTEGERS(u4, 4, 0)
UNPACK_INTEGERS(i4, 4, 8)
UNPACK_INTEGERS(u2, 2, 0)
UNPACK_INTEGERS(i2, 2, 2)

// Signs of codes 4 * half and on in the last bits of bytes.
DEVICE uint32_t signs_of_e2m1(uint32_t x, int half) { return __byte_perm(x << 4, x, 0x5140 + half * 0x2222) & 0x80808080u; }
// Of two codes: exponent and fraction where the other type has its last exponent bits and its first of the fraction. What is
// too small by the difference of the biases is multiplied, subnormal or not. Of more: bytes of a table, and signs.
template <int N> DEVICE void pairs_of_e2m1_bf16(uint32_t *pair, uint32_t x)
{
    if constexpr (N == 2) {
        pair[0] = pair_times_bf16((two_codes<4, 2>(x, 0) & 0x000f000fu) * 0x1040u & 0x81c081c0u, 0x7e807e80u);
        return;
    }
#pragma unroll
    for (int half = 0; half < N / 4; half++) {
        const uint32_t size = (x & 0x77777777u) >> half * 16;
        const uint32_t high = __byte_perm(0x3f3f3f00u, 0x40404040u, size) | signs_of_e2m1(x, half);
        const uint32_t low = __byte_perm(0xc0800000u, 0xc0804000u, size);
        pair[2 * half] = __byte_perm(low, high, 0x5140);
        pair[2 * half + 1] = __byte_perm(low, high, 0x7362);
    }
}
template <int N> DEVICE void unpack_e2m1_bf16(uint16_t *v, uint32_t x)
{
    uint32_t pair[N / 2];
    pairs_of_e2m1_bf16<N>(pair, x);
#pragma unroll
    for (int c = 0; c < N / 2; c++) store_pair(v + 2 * c, pair[c]);
}
template <int N> DEVICE void unpack_e2m1_f16(uint16_t *v, uint32_t x)
{
    if constexpr (N == 2) {
        const uint32_t pair = (x * 0x01001000u & 0x80008000u) | (x * 0x00200200u & 0x0e000e00u);
        store_pair(v, pair_times_f16(pair, 0x74007400u));
        return;
    }
#pragma unroll
    for (int half = 0; half < N / 4; half++) {
        const uint32_t size = (x & 0x77777777u) >> half * 16;
        const uint32_t high = __byte_perm(0x3e3c3800u, 0x46444240u, size) | signs_of_e2m1(x, half);
        store_pair(v + 4 * half, __byte_perm(high, 0, 0x1404));
        store_pair(v + 4 * half + 2, __byte_perm(high, 0, 0x3424));
    }
}
template <int N> DEVICE void unpack_e2m1_f32(float *v, uint32_t x)
{
    uint32_t pair[N / 2];
    pairs_of_e2m1_bf16<N>(pair, x);
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = __uint_as_float(i % 2 ? pair[i / 2] & 0xffff0000u : pair[i / 2] << 16);
}
