// SPDX-License-Identifier: MIT
// matmul_pack.c - lay out the operands of a product as its micro-kernel reads them.
//
// b becomes panels [n / NR][panel_k][NR] of 4-byte units; a becomes blocks of 16 rows by 16 units.
// A unit is one f32, two bf16 or i16, four i8, or one i32: always 4 bytes, so transposing 4-byte
// words packs every type. Reading may convert: the *form* says from what to what. Beyond n and k
// the packed operand is zero, up to whole panels and to panel_k, so that a tile cut by the edge of
// a tensor is packed straight from the tensor. needs: base.c, convert.c
enum KilnForm {
    KILN_FORM_F32,            // 4-byte elements as they are
    KILN_FORM_PAIRS,          // bf16, i16: two to a unit
    KILN_FORM_QUADS,          // i8, u8: four to a unit
    KILN_FORM_F32_FROM_BF16,
    KILN_FORM_F32_FROM_F16,
    KILN_FORM_PAIRS_FROM_E4M3,   // to bf16, exactly
    KILN_FORM_PAIRS_FROM_E5M2,
    KILN_FORM_F32_FROM_E4M3,
    KILN_FORM_F32_FROM_E5M2,
    KILN_FORM_I16_FROM_I8,    // pairs
    KILN_FORM_I16_FROM_U8,
    KILN_FORM_I32_FROM_I8,
    KILN_FORM_I32_FROM_U8,
};

// Elements in a unit, and bytes of an element in memory.
KILN_INLINE int kiln_form_count(enum KilnForm form)
{
    const int pairs = form == KILN_FORM_PAIRS || form == KILN_FORM_PAIRS_FROM_E4M3 ||
                      form == KILN_FORM_PAIRS_FROM_E5M2 || form == KILN_FORM_I16_FROM_I8 ||
                      form == KILN_FORM_I16_FROM_U8;
    return form == KILN_FORM_QUADS ? 4 : pairs ? 2 : 1;
}
KILN_INLINE int kiln_form_bytes(enum KilnForm form)
{
    const int two = form == KILN_FORM_PAIRS || form == KILN_FORM_F32_FROM_BF16 || form == KILN_FORM_F32_FROM_F16;
    return form == KILN_FORM_F32 ? 4 : two ? 2 : 1;
}

// Whether reading computes: then blocks are read in a loop, since sixteen copies of a conversion
// cost a second of compiling and gain nothing.
KILN_INLINE int kiln_form_converts(enum KilnForm form)
{
    return form != KILN_FORM_F32 && form != KILN_FORM_PAIRS && form != KILN_FORM_QUADS;
}

// One element in each lane, zeros above it.
KILN_INLINE kiln_vu32 kiln_load_lanes(int bytes, const char *from)
{
    typedef uint16_t Twos __attribute__((vector_size(KILN_LANES * 2)));
    typedef uint8_t Ones __attribute__((vector_size(KILN_LANES)));
    typedef Twos AnyTwos __attribute__((aligned(1), may_alias));
    typedef Ones AnyOnes __attribute__((aligned(1), may_alias));
#if KILN_AVX512 || KILN_AVX2
    if (bytes == 1) return kiln_lanes_from_bytes(from);
#endif
    if (bytes == 1) return __builtin_convertvector(*(const AnyOnes *)from, kiln_vu32);
    if (bytes == 2) return __builtin_convertvector(*(const AnyTwos *)from, kiln_vu32);
    return *(const kiln_vu32_any *)from;
}

KILN_INLINE kiln_vu32 kiln_choose_lanes(kiln_vi32 which, kiln_vu32 yes, kiln_vu32 no)
{
    return (yes & (kiln_vu32)which) | (no & ~(kiln_vu32)which);
}

// kiln_f32_from_f16, _e4m3, _e5m2 on vectors: magnitudes from `infinity` are that or NaN.
KILN_INLINE kiln_vu32 kiln_widen_lanes(kiln_vu32 x, int bits, int mantissa, int bias, uint32_t infinity, int has_infinity)
{
    const kiln_vu32 magnitude = x & ((1u << (bits - 1)) - 1), sign = (x & 1u << (bits - 1)) << (32 - bits);
    const kiln_vu32 normal = (magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23);
    const float step = kiln_f32_bits((uint32_t)(127 + 1 - bias - mantissa) << 23);
    const kiln_vf32 subnormal = __builtin_convertvector((kiln_vi32)magnitude, kiln_vf32) * step;
    const kiln_vu32 number = kiln_choose_lanes(magnitude < 1u << mantissa, (kiln_vu32)subnormal, normal);
    const kiln_vu32 nan = (kiln_vu32){ 0 } + 0x7fc00000u;
    const kiln_vu32 special = has_infinity ? kiln_choose_lanes(magnitude > infinity, nan, nan - 0x400000u) : nan;
    return kiln_choose_lanes(magnitude >= infinity, special, number) | sign;
}

// The lanes of kiln_load_lanes as f32 bits, sign-extended integers, or as they are.
KILN_INLINE kiln_vu32 kiln_convert_lanes(enum KilnForm form, kiln_vu32 x)
{
    switch (form) {
    case KILN_FORM_F32:
    case KILN_FORM_PAIRS:
    case KILN_FORM_QUADS:
    case KILN_FORM_I16_FROM_U8:
    case KILN_FORM_I32_FROM_U8:     return x;
    case KILN_FORM_F32_FROM_BF16:   return x << 16;
    case KILN_FORM_F32_FROM_F16:    return kiln_widen_lanes(x, 16, 10, 15, 0x7c00, 1);
    case KILN_FORM_PAIRS_FROM_E4M3:
    case KILN_FORM_F32_FROM_E4M3:   return kiln_widen_lanes(x, 8, 3, 7, 0x7f, 0);
    case KILN_FORM_PAIRS_FROM_E5M2:
    case KILN_FORM_F32_FROM_E5M2:   return kiln_widen_lanes(x, 8, 2, 15, 0x7c, 1);
    case KILN_FORM_I16_FROM_I8:
    case KILN_FORM_I32_FROM_I8:     return (kiln_vu32)((kiln_vi32)(x << 24) >> 24);
    }
    return x;
}

// Two converted elements of k as one unit; a bf16 is the upper half of its f32.
KILN_INLINE kiln_vu32 kiln_pair_lanes(enum KilnForm form, kiln_vu32 first, kiln_vu32 second)
{
    if (form == KILN_FORM_PAIRS_FROM_E4M3 || form == KILN_FORM_PAIRS_FROM_E5M2)
        return first >> 16 | (second & 0xffff0000u);
    return (first & 0xffffu) | second << 16;
}

#if KILN_AVX512 || KILN_AVX2
KILN_INLINE kiln_vu32 kiln_f32_lanes_from_f16(const char *from)
{
    typedef uint16_t Half __attribute__((vector_size(KILN_VECTOR_BYTES / 2)));
    typedef Half Any __attribute__((aligned(1), may_alias));
    kiln_vu32 wide;
    __asm__("vcvtph2ps %1, %0" : "=v"(wide) : "vm"(*(const Any *)from));
    return wide;
}
#elif KILN_NEON
KILN_INLINE kiln_vu32 kiln_f32_lanes_from_f16(const char *from)
{
    typedef uint16_t Half __attribute__((vector_size(8)));
    typedef Half Any __attribute__((aligned(1), may_alias));
    kiln_vu32 wide;
    __asm__("fcvtl %0.4s, %1.4h" : "=w"(wide) : "w"(*(const Any *)from));
    return wide;
}
#else
KILN_INLINE kiln_vu32 kiln_f32_lanes_from_f16(const char *from)
{
    return kiln_convert_lanes(KILN_FORM_F32_FROM_F16, kiln_load_lanes(2, from));
}
#endif

// A vector of units whose elements follow each other in memory.
KILN_INLINE kiln_vu32 kiln_units_along(enum KilnForm form, const char *from)
{
    if (form == KILN_FORM_F32_FROM_F16) return kiln_f32_lanes_from_f16(from);
    if (form == KILN_FORM_F32 || form == KILN_FORM_PAIRS || form == KILN_FORM_QUADS)
        return *(const kiln_vu32_any *)from;
    if (kiln_form_count(form) == 1) return kiln_convert_lanes(form, kiln_load_lanes(kiln_form_bytes(form), from));
    const kiln_vu32 two = kiln_load_lanes(2, from);                  // pairs of bytes
    return kiln_pair_lanes(form, kiln_convert_lanes(form, two & 0xff), kiln_convert_lanes(form, two >> 8));
}

// A vector of units whose elements lie one below the other: lane l holds column l of `count` rows.
KILN_INLINE kiln_vu32 kiln_units_across(enum KilnForm form, const char *from, int64_t row_bytes)
{
    const int count = kiln_form_count(form), bytes = kiln_form_bytes(form);
    if (form == KILN_FORM_F32_FROM_F16) return kiln_f32_lanes_from_f16(from);
    const kiln_vu32 first = kiln_convert_lanes(form, kiln_load_lanes(bytes, from));
    if (count == 1) return first;
    const kiln_vu32 second = kiln_convert_lanes(form, kiln_load_lanes(bytes, from + row_bytes));
    if (count == 2) return kiln_pair_lanes(form, first, second);
    return first | second << 8 | kiln_load_lanes(1, from + 2 * row_bytes) << 16 |
           kiln_load_lanes(1, from + 3 * row_bytes) << 24;
}

// Transposes LANES x LANES words in place: log2(LANES) rounds, each exchanges the halves of pairs.
#define KILN_EXCHANGE(d, LOW, HIGH)                                                  \
    KILN_UNROLL for (int i = 0; i < KILN_LANES; i++)                                 \
        if (!(i & d)) {                                                              \
            const kiln_vu32 x = row[i], y = row[i + d];                              \
            row[i] = KILN_SHUFFLE(x, y, LOW);                                        \
            row[i + d] = KILN_SHUFFLE(x, y, HIGH);                                   \
        }
#define KILN_LIST(...) __VA_ARGS__
// The rounds: ROUND(d, LOW, HIGH) for pairs of vectors d apart.
#if KILN_VECTOR_BYTES == 64
#define KILN_ROUNDS_OF_LANES(ROUND)                                                              \
    ROUND(8, KILN_LIST(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),                  \
          KILN_LIST(8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))               \
    ROUND(4, KILN_LIST(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),                \
          KILN_LIST(4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))                 \
    ROUND(2, KILN_LIST(0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),                \
          KILN_LIST(2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))                 \
    ROUND(1, KILN_LIST(0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),               \
          KILN_LIST(1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
#elif KILN_VECTOR_BYTES == 32
#define KILN_ROUNDS_OF_LANES(ROUND)                                                              \
    ROUND(4, KILN_LIST(0, 1, 2, 3, 8, 9, 10, 11), KILN_LIST(4, 5, 6, 7, 12, 13, 14, 15))         \
    ROUND(2, KILN_LIST(0, 1, 8, 9, 4, 5, 12, 13), KILN_LIST(2, 3, 10, 11, 6, 7, 14, 15))         \
    ROUND(1, KILN_LIST(0, 8, 2, 10, 4, 12, 6, 14), KILN_LIST(1, 9, 3, 11, 5, 13, 7, 15))
#else
#define KILN_ROUNDS_OF_LANES(ROUND)                                                              \
    ROUND(2, KILN_LIST(0, 1, 4, 5), KILN_LIST(2, 3, 6, 7))                                       \
    ROUND(1, KILN_LIST(0, 4, 2, 6), KILN_LIST(1, 5, 3, 7))
#endif
KILN_INLINE void kiln_transpose_words(kiln_vu32 row[KILN_LANES])
{
    KILN_ROUNDS_OF_LANES(KILN_EXCHANGE)
}

// The sum of the lanes of each of LANES vectors: the rounds of kiln_transpose_words, adding what they exchange.
#define KILN_ADD_HALVES(d, LOW, HIGH)                                                                   \
    KILN_UNROLL for (int i = 0; i < d; i++)                                                             \
        sum[i] = KILN_SHUFFLE(sum[i], sum[i + d], LOW) + KILN_SHUFFLE(sum[i], sum[i + d], HIGH);
KILN_INLINE kiln_vf32 kiln_sums_of_lanes(kiln_vf32 sum[KILN_LANES])
{
    KILN_ROUNDS_OF_LANES(KILN_ADD_HALVES)
    return sum[0];
}

// Where a block of LANES x LANES units comes from, and the part of it that exists.
typedef struct {
    const char *from;
    int64_t row_bytes;
    int64_t rows, columns;          // elements left from here on, may exceed the block
} KilnBlock;

// A copy of a block's elements with zeros where it ends.
KILN_INLINE void kiln_copy_cut(char *to, int64_t to_bytes, int64_t to_rows, KilnBlock block, int bytes)
{
    const int64_t rows = kiln_least(block.rows, to_rows);
    const int64_t have = kiln_least(block.columns * bytes, to_bytes);
    __builtin_memset(to, 0, (size_t)(to_rows * to_bytes));
    for (int64_t i = 0; i < rows && have > 0; i++)
        __builtin_memcpy(to + i * to_bytes, block.from + i * block.row_bytes, (size_t)have);
}

// LANES rows, each LANES units long, k running along memory: one vector per row.
KILN_INLINE void kiln_block_along(kiln_vu32 row[KILN_LANES], enum KilnForm form, KilnBlock block)
{
    const int bytes = kiln_form_bytes(form), line = KILN_LANES * kiln_form_count(form) * bytes;
    char cut[KILN_LANES * KILN_VECTOR_BYTES];
    if (block.rows < KILN_LANES || block.columns * bytes < line) {
        kiln_copy_cut(cut, line, KILN_LANES, block, bytes);
        block = (KilnBlock){ cut, line, KILN_LANES, 0 };
    }
    if (kiln_form_converts(form)) {
        KILN_NO_UNROLL for (int i = 0; i < KILN_LANES; i++)
            row[i] = kiln_units_along(form, block.from + i * block.row_bytes);
    } else {
        KILN_UNROLL for (int i = 0; i < KILN_LANES; i++)
            row[i] = kiln_units_along(form, block.from + i * block.row_bytes);
    }
}

// LANES units of k, each LANES columns wide, k running across memory rows: one vector per unit.
KILN_INLINE void kiln_block_across(kiln_vu32 row[KILN_LANES], enum KilnForm form, KilnBlock block)
{
    const int bytes = kiln_form_bytes(form), count = kiln_form_count(form), line = KILN_LANES * bytes;
    char cut[KILN_LANES * KILN_VECTOR_BYTES];
    if (block.columns < KILN_LANES || block.rows < KILN_LANES * count) {
        kiln_copy_cut(cut, line, KILN_LANES * count, block, bytes);
        block = (KilnBlock){ cut, line, 0, 0 };
    }
    if (kiln_form_converts(form)) {
        KILN_NO_UNROLL for (int i = 0; i < KILN_LANES; i++)
            row[i] = kiln_units_across(form, block.from + i * count * block.row_bytes, block.row_bytes);
    } else {
        KILN_UNROLL for (int i = 0; i < KILN_LANES; i++)
            row[i] = kiln_units_across(form, block.from + i * count * block.row_bytes, block.row_bytes);
    }
}

// One block of b at element (row, column) of a matrix in memory, as LANES units of k by LANES of n.
KILN_INLINE void kiln_pack_block(uint32_t *to, int64_t to_stride, enum KilnForm form, int transpose,
                                 KilnBlock block, uint32_t flip)
{
    kiln_vu32 row[KILN_LANES];
    if (transpose) {
        kiln_block_along(row, form, block);
        kiln_transpose_words(row);
    } else
        kiln_block_across(row, form, block);
    KILN_UNROLL for (int i = 0; i < KILN_LANES; i++)
        *(kiln_vu32_any *)(to + i * to_stride) = row[i] ^ flip;
}

// b[k][n], or if `transposed` b[n][k], with `stride` elements from row to row, into panels NR
// columns wide and panel_k units deep; panel_k is a multiple of 16. `flip` is exclusive-ored.
KILN_INLINE void kiln_pack_panels(void *packed, enum KilnForm form, const void *b, int64_t stride,
                                  int transposed, int64_t n, int64_t k, int NR, int64_t panel_n,
                                  int64_t panel_k, uint32_t flip)
{
    const int bytes = kiln_form_bytes(form), count = kiln_form_count(form);
    for (int64_t j = 0; j < panel_n; j += KILN_LANES) {
        uint32_t *const to = (uint32_t *)packed + j / NR * NR * panel_k + j % NR;
        for (int64_t u = 0; u < panel_k; u += KILN_LANES) {
            const int64_t at = u * count;                   // the element of k
            const KilnBlock block = transposed
                ? (KilnBlock){ (const char *)b + (j * stride + at) * bytes, stride * bytes, n - j, k - at }
                : (KilnBlock){ (const char *)b + (at * stride + j) * bytes, stride * bytes, k - at, n - j };
            kiln_pack_block(to + u * NR, NR, form, transposed, block, flip);
        }
    }
}

// a[m][k], or if `transposed` a[k][m], as rows of whole units: unit (i, u) lies at
// packed[i * row_units + u] inside a block of 16 by 16, blocks `block_m` and `block_k` units apart.
// Rows up to tile_m, rounded to 16, and units up to k_units, a multiple of 16, are filled with zeros.
KILN_INLINE void kiln_pack_rows(void *packed, enum KilnForm form, const void *a, int64_t stride,
                                int transposed, int64_t m, int64_t k, int64_t tile_m,
                                int64_t k_units, int64_t row_units, int64_t block_m, int64_t block_k)
{
    const int bytes = kiln_form_bytes(form), count = kiln_form_count(form);
    // Nothing to convert or reorder: whole rows, which the hardware fetches ahead of better than blocks.
    if (!transposed && !kiln_form_converts(form) && block_k == 16) {
        for (int64_t i = 0; i < kiln_round_up(tile_m, 16); i++) {
            char *const row = (char *)((uint32_t *)packed + i / 16 * block_m + i % 16 * row_units);
            const int64_t have = i < m ? k * bytes : 0;
            if (have) __builtin_memcpy(row, (const char *)a + i * stride * bytes, (size_t)have);
            __builtin_memset(row + have, 0, (size_t)(k_units * 4 - have));
        }
        return;
    }
    for (int64_t i = 0; i < kiln_round_up(tile_m, 16); i += KILN_LANES) {
        for (int64_t u = 0; u < k_units; u += KILN_LANES) {
            uint32_t *const to = (uint32_t *)packed + i / 16 * block_m + i % 16 * row_units + u / 16 * block_k + u % 16;
            const int64_t at = u * count;
            const KilnBlock block = transposed
                ? (KilnBlock){ (const char *)a + (at * stride + i) * bytes, stride * bytes, k - at, m - i }
                : (KilnBlock){ (const char *)a + (i * stride + at) * bytes, stride * bytes, m - i, k - at };
            kiln_vu32 row[KILN_LANES];
            if (transposed) {
                kiln_block_across(row, form, block);
                kiln_transpose_words(row);
            } else
                kiln_block_along(row, form, block);
            KILN_UNROLL for (int r = 0; r < KILN_LANES; r++)
                *(kiln_vu32_any *)(to + r * row_units) = row[r];
        }
    }
}
