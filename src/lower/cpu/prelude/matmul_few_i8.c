// SPDX-License-Identifier: MIT
// matmul_few_i8.c - products of up to 16 rows of i8 with vpdpbusd, b[n][k] read where it lies.
//
// The instruction multiplies unsigned by signed bytes: a's top bits are flipped, which adds 128 to each element, and 128
// times the sum of b's row is taken away again. Few rows of a: sums of 16 lanes for each element of c, added up at the
// end. From 9 rows on a is packed, its rows along the lanes, and meets one quad of b after the other.
// needs: base.c, matmul_pack.c
#if KILN_AVX512 && KILN_VNNI
enum { KILN_ROW_FETCHED_MAX = 1024 };    // bytes; the hardware fetches longer rows ahead by itself, and better

KILN_INLINE kiln_vi32 kiln_dot_quads(kiln_vi32 sum, kiln_vu32 plain, kiln_vu32 with_sign)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(plain), "v"(with_sign));
    return sum;
}
KILN_INLINE kiln_vi32 kiln_dot_one_quad(kiln_vi32 sum, kiln_vu32 plain, const char *quad)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(plain), "m"(*(const kiln_u32_any *)quad));
    return sum;
}
KILN_INLINE kiln_vi32 kiln_i32_sums_of_lanes(kiln_vi32 sum[KILN_LANES])
{
    KILN_ROUNDS_OF_LANES(KILN_ADD_HALVES)
    return sum[0];
}

// Blocks of ROWS rows of a by COUNT rows of b, 16 sums at most. m is a multiple of ROWS, k of 64.
#define KILN_DEFINE_I8_DOTS(ROWS, COUNT)                                                                      \
    KILN_OUTLINE void kiln_i8_dots_##ROWS(int32_t *c, int64_t c_stride, const int8_t *a, int64_t a_stride,    \
                                          const int8_t *b, int64_t b_stride, int64_t m, int64_t n, int64_t k, \
                                          int accumulate, const char *ahead)                                  \
    {                                                                                                         \
        const kiln_vu32 ones = (kiln_vu32){ 0 } + 0x01010101u;                                                \
        for (int64_t j = 0; j < n; j += COUNT) {                                                              \
            const int8_t *right[COUNT];                                                                       \
            KILN_UNROLL for (int s = 0; s < COUNT; s++) right[s] = b + kiln_least(j + s, n - 1) * b_stride;   \
            for (int64_t i = 0; i < m; i += ROWS) {                                                           \
                const int8_t *const left = a + i * a_stride;                                                  \
                kiln_vi32 sum[KILN_LANES], of_b[COUNT];                                                       \
                KILN_UNROLL for (int x = 0; x < KILN_LANES; x++) sum[x] = (kiln_vi32){ 0 };                   \
                KILN_UNROLL for (int s = 0; s < COUNT; s++) of_b[s] = (kiln_vi32){ 0 };                       \
                const int64_t later = ahead && i == 0 && k <= KILN_ROW_FETCHED_MAX ? ahead - (const char *)b : 0; \
                KILN_NO_UNROLL for (int64_t u = 0; u < k; u += 64) {                                          \
                    kiln_vu32 x[ROWS];                                                                        \
                    KILN_UNROLL for (int r = 0; r < ROWS; r++)                                                \
                        x[r] = *(const kiln_vu32_any *)(left + r * a_stride + u) ^ 0x80808080u;               \
                    KILN_UNROLL for (int s = 0; s < COUNT; s++) {                                             \
                        const kiln_vu32 y = *(const kiln_vu32_any *)(right[s] + u);                           \
                        if (later) KILN_FETCH((const char *)(right[s] + u) + later);                          \
                        of_b[s] = kiln_dot_quads(of_b[s], ones, y);                                           \
                        KILN_UNROLL for (int r = 0; r < ROWS; r++)                                            \
                            sum[r * COUNT + s] = kiln_dot_quads(sum[r * COUNT + s], x[r], y);                 \
                    }                                                                                         \
                }                                                                                             \
                KILN_UNROLL for (int x = 0; x < ROWS * COUNT; x++) sum[x] -= of_b[x % COUNT] << 7;            \
                const kiln_vi32 total = kiln_i32_sums_of_lanes(sum);                                          \
                int32_t one[KILN_LANES];                                                                      \
                __builtin_memcpy(one, &total, sizeof one);                                                    \
                KILN_UNROLL for (int r = 0; r < ROWS; r++) {                                                  \
                    int32_t *const row = c + (i + r) * c_stride + j;                                          \
                    for (int s = 0; s < COUNT && s < n - j; s++)                                              \
                        row[s] = accumulate ? row[s] + one[r * COUNT + s] : one[r * COUNT + s];               \
                }                                                                                             \
            }                                                                                                 \
        }                                                                                                     \
    }
KILN_DEFINE_I8_DOTS(1, 8)
KILN_DEFINE_I8_DOTS(2, 8)
KILN_DEFINE_I8_DOTS(4, 4)

// Up to 16 rows of a by 16 rows of b. n is a multiple of 16, k of 64. packed: k / 4 vectors.
KILN_OUTLINE void kiln_i8_across(int32_t *c, int64_t c_stride, const int8_t *a, int64_t a_stride, const int8_t *b,
                                 int64_t b_stride, int64_t m, int64_t n, int64_t k, int accumulate, const char *ahead,
                                 void *packed)
{
    const kiln_vu32 ones = (kiln_vu32){ 0 } + 0x01010101u;
    const int64_t later = ahead ? ahead - (const char *)b : 0;
    kiln_pack_panels(packed, KILN_FORM_QUADS, a, a_stride, 1, m, k, 16, 16, k / 4, 0x80808080u);
    for (int64_t j = 0; j < n; j += 16) {
        const char *row[4];                                  // every fourth; those between are some strides further
        kiln_vi32 sum[16], words[16];
        KILN_UNROLL for (int r = 0; r < 4; r++) row[r] = (const char *)b + (j + 4 * r) * b_stride;
        KILN_UNROLL for (int s = 0; s < 16; s++) sum[s] = (kiln_vi32){ 0 };
        KILN_NO_UNROLL for (int64_t u = 0; u < k; u += 64)
            KILN_UNROLL for (int s = 0; s < 16; s++) {
                const char *const at = row[s / 4] + s % 4 * b_stride + u;
                sum[s] = kiln_dot_quads(sum[s], ones, *(const kiln_vu32_any *)at);
                if (later) KILN_FETCH(at + later);
            }
        const kiln_vi32 of_b = kiln_i32_sums_of_lanes(sum) << 7;
        const kiln_vu32_any *left = packed;
        KILN_UNROLL for (int s = 0; s < 16; s++) sum[s] = (kiln_vi32){ 0 };
        KILN_NO_UNROLL for (int64_t u = 0; u < k; u += 16, left += 4) {
            KILN_UNROLL for (int quad = 0; quad < 4; quad++)
                KILN_UNROLL for (int s = 0; s < 16; s++)
                    sum[s] = kiln_dot_one_quad(sum[s], left[quad], row[s / 4] + s % 4 * b_stride + 4 * quad);
            KILN_UNROLL for (int r = 0; r < 4; r++) row[r] += 16;
        }
        KILN_UNROLL for (int s = 0; s < 16; s++) words[s] = sum[s];
        kiln_transpose_words((kiln_vu32 *)words);
        KILN_UNROLL for (int i = 0; i < 16; i++) {
            if (i >= m) break;
            kiln_vi32_any *const to = (kiln_vi32_any *)(c + i * c_stride + j);
            const kiln_vi32 value = words[i] - of_b;
            *to = accumulate ? (kiln_vi32)*to + value : value;
        }
    }
}

#define KILN_I8_ROWS(FUNCTION, COUNT)                                                                         \
    if ((COUNT) > 0) {                                                                                        \
        FUNCTION(c + i * c_stride, c_stride, a + i * a_stride, a_stride, b, b_stride, COUNT, n, k, accumulate,\
                 i ? NULL : ahead);                                                                           \
        i += COUNT;                                                                                           \
    }
// As kiln_few_bf16; a lies as a[m][k], b as b[n][k]. Arguments but c, a, b, scratch and ahead are constants at each call.
KILN_INLINE void kiln_few_i8i8(int32_t *c, int64_t c_stride, const int8_t *a, int64_t a_stride, int a_transposed,
                               const int8_t *b, int64_t b_stride, int b_transposed, int64_t m, int64_t n, int64_t k,
                               int accumulate, void *scratch, const void *ahead)
{
    int64_t i = 0;
    (void)a_transposed, (void)b_transposed;
    if (m > 8 && n % 16 == 0) {
        kiln_i8_across(c, c_stride, a, a_stride, b, b_stride, m, n, k, accumulate, ahead, scratch);
        return;
    }
    KILN_I8_ROWS(kiln_i8_dots_4, m & ~3)
    KILN_I8_ROWS(kiln_i8_dots_2, m & 2)
    KILN_I8_ROWS(kiln_i8_dots_1, m & 1)
}
#endif
