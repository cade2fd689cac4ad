// SPDX-License-Identifier: MIT
// matmul_few_bf16.c - products of up to 16 rows of bf16 with the dot product of pairs, b read where it lies.
//
// Where b lies as b[n][k] both sides have their pairs along memory. Few rows of a: sums of 16 lanes for each element of
// c, added up at the end. From 9 rows on a is packed, its rows along the lanes, and meets one pair of b after the other,
// so that nothing is added up but 16 x 16 sums are transposed. Where b lies as b[k][n] two rows are interleaved in
// registers; that leaves each sum's columns in the order of the interleaving, which the stores undo.
// needs: base.c, matmul_pack.c
#if KILN_BF16
KILN_INLINE kiln_vf32 kiln_dot_pairs(kiln_vf32 sum, kiln_vu32 x, kiln_vu32 y)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
KILN_INLINE kiln_vu32 kiln_low_pairs(kiln_vu32 x, kiln_vu32 y)
{
    kiln_vu32 pairs;
    __asm__("vpunpcklwd %2, %1, %0" : "=v"(pairs) : "v"(x), "v"(y));
    return pairs;
}
KILN_INLINE kiln_vu32 kiln_high_pairs(kiln_vu32 x, kiln_vu32 y)
{
    kiln_vu32 pairs;
    __asm__("vpunpckhwd %2, %1, %0" : "=v"(pairs) : "v"(x), "v"(y));
    return pairs;
}

// b[n][k]: blocks of ROWS rows of a by COUNT rows of b, 16 sums at most. m is a multiple of ROWS, k of 32. One row of a
// meets 8 of b: 16 streams from memory are slower (50 against 64 GB/s on one core).
#define KILN_DEFINE_BF16_DOTS(ROWS, COUNT)                                                                          \
    KILN_OUTLINE void kiln_bf16_dots_##ROWS(float *c, int64_t c_stride, const uint16_t *a, int64_t a_stride,  \
                                            const uint16_t *b, int64_t b_stride, int64_t m, int64_t n,        \
                                            int64_t k, int accumulate, const char *ahead)                     \
    {                                                                                                         \
        for (int64_t j = 0; j < n; j += COUNT) {                                                              \
            const uint16_t *right[COUNT];                                                                     \
            KILN_UNROLL for (int s = 0; s < COUNT; s++) right[s] = b + kiln_least(j + s, n - 1) * b_stride;   \
            for (int64_t i = 0; i < m; i += ROWS) {                                                           \
                const uint16_t *const left = a + i * a_stride;                                                \
                kiln_vf32 sum[KILN_LANES];                                                                    \
                KILN_UNROLL for (int x = 0; x < KILN_LANES; x++) sum[x] = (kiln_vf32){ 0 };                   \
                const int64_t later = ahead && i == 0 && k <= 1024 ? ahead - (const char *)b : 0;             \
                KILN_NO_UNROLL for (int64_t u = 0; u < k; u += 32) {                                          \
                    kiln_vu32 x[ROWS];                                                                        \
                    KILN_UNROLL for (int r = 0; r < ROWS; r++)                                                \
                        x[r] = *(const kiln_vu32_any *)(left + r * a_stride + u);                             \
                    KILN_UNROLL for (int s = 0; s < COUNT; s++) {                                             \
                        const kiln_vu32 y = *(const kiln_vu32_any *)(right[s] + u);                           \
                        if (later) KILN_FETCH((const char *)(right[s] + u) + later);                  \
                        KILN_UNROLL for (int r = 0; r < ROWS; r++)                                            \
                            sum[r * COUNT + s] = kiln_dot_pairs(sum[r * COUNT + s], x[r], y);                 \
                    }                                                                                         \
                }                                                                                             \
                const kiln_vf32 total = kiln_sums_of_lanes(sum);                                              \
                float one[KILN_LANES];                                                                        \
                __builtin_memcpy(one, &total, sizeof one);                                                    \
                KILN_UNROLL for (int r = 0; r < ROWS; r++) {                                                  \
                    float *const row = c + (i + r) * c_stride + j;                                            \
                    if (j + COUNT <= n)                                                                       \
                        KILN_UNROLL for (int s = 0; s < COUNT; s++)                                           \
                            row[s] = accumulate ? row[s] + one[r * COUNT + s] : one[r * COUNT + s];           \
                    else                                                                                      \
                        for (int s = 0; s < n - j; s++)                                                       \
                            row[s] = accumulate ? row[s] + one[r * COUNT + s] : one[r * COUNT + s];           \
                }                                                                                             \
            }                                                                                                 \
        }                                                                                                     \
    }

KILN_INLINE kiln_vf32 kiln_dot_one_pair(kiln_vf32 sum, kiln_vu32 x, const char *pair)
{
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(x), "m"(*(const kiln_u32_any *)pair));
    return sum;
}

// b[n][k]: up to 16 rows of a by 16 rows of b. n is a multiple of 16, k of 32. packed: k / 2 vectors.
KILN_OUTLINE void kiln_bf16_across(float *c, int64_t c_stride, const uint16_t *a, int64_t a_stride, const uint16_t *b,
                                   int64_t b_stride, int64_t m, int64_t n, int64_t k, int accumulate, const char *ahead,
                                   void *packed)
{
    const int64_t bytes = b_stride * 2, later = ahead ? ahead - (const char *)b : 0;
    kiln_pack_panels(packed, KILN_FORM_PAIRS, a, a_stride, 1, m, k, 16, 16, k / 2, 0);
    for (int64_t j = 0; j < n; j += 16) {
        const char *row[4];                                  // every fourth; those between are some strides further
        KILN_UNROLL for (int r = 0; r < 4; r++) row[r] = (const char *)b + (j + 4 * r) * bytes;
        const kiln_vu32_any *left = packed;
        kiln_vf32 sum[16];
        KILN_UNROLL for (int s = 0; s < 16; s++) sum[s] = (kiln_vf32){ 0 };
        KILN_NO_UNROLL for (int64_t u = 0; u < k; u += 32) {
            if (later)
                KILN_UNROLL for (int s = 0; s < 16; s++) KILN_FETCH(row[s / 4] + s % 4 * bytes + later);
            KILN_NO_UNROLL for (int v = 0; v < 4; v++, left += 4) {
                KILN_UNROLL for (int pair = 0; pair < 4; pair++)
                    KILN_UNROLL for (int s = 0; s < 16; s++)
                        sum[s] = kiln_dot_one_pair(sum[s], left[pair], row[s / 4] + s % 4 * bytes + 4 * pair);
                KILN_UNROLL for (int r = 0; r < 4; r++) row[r] += 16;
            }
        }
        kiln_vu32 words[16];
        KILN_UNROLL for (int s = 0; s < 16; s++) words[s] = (kiln_vu32)sum[s];
        kiln_transpose_words(words);
        KILN_UNROLL for (int i = 0; i < 16; i++) {
            if (i >= m) break;
            kiln_vf32_any *const to = (kiln_vf32_any *)(c + i * c_stride + j);
            *to = accumulate ? (kiln_vf32)*to + (kiln_vf32)words[i] : (kiln_vf32)words[i];
        }
    }
}

// b[k][n]: blocks of ROWS rows of c by PARTS times 32 columns. m is a multiple of ROWS, n of 32 PARTS, k of 2.
#define KILN_DEFINE_BF16_SUMS(ROWS, PARTS)                                                                    \
    KILN_OUTLINE void kiln_bf16_sums_##ROWS##_##PARTS(                                                        \
        float *c, int64_t c_stride, const uint16_t *a, int64_t a_stride, const uint16_t *b, int64_t b_stride, \
        int64_t m, int64_t n, int64_t k, int accumulate, const char *ahead)                                   \
    {                                                                                                         \
        for (int64_t j = 0; j < n; j += 32 * PARTS) {                                                         \
            for (int64_t i = 0; i < m; i += ROWS) {                                                           \
                kiln_vf32 sum[ROWS][2 * PARTS];                                                               \
                KILN_UNROLL for (int x = 0; x < ROWS * 2 * PARTS; x++)                                        \
                    sum[x / (2 * PARTS)][x % (2 * PARTS)] = (kiln_vf32){ 0 };                                 \
                const uint16_t *left = a + i * a_stride, *right = b + j;                                      \
                const char *next = ahead && i == 0 ? ahead + j * 2 : NULL;                                    \
                KILN_NO_UNROLL for (int64_t u = 0; u < k; u += 2, left += 2, right += 2 * b_stride) {         \
                    kiln_vu32 y[2 * PARTS];                                                                   \
                    KILN_UNROLL for (int p = 0; p < PARTS; p++) {                                             \
                        const kiln_vu32 even = *(const kiln_vu32_any *)(right + 32 * p);                      \
                        const kiln_vu32 odd = *(const kiln_vu32_any *)(right + b_stride + 32 * p);            \
                        y[2 * p] = kiln_low_pairs(even, odd);                                                 \
                        y[2 * p + 1] = kiln_high_pairs(even, odd);                                            \
                        if (next) {                                                                           \
                            KILN_FETCH(next + 64 * p);                                                \
                            KILN_FETCH(next + b_stride * 2 + 64 * p);                                 \
                        }                                                                                     \
                    }                                                                                         \
                    if (next) next += 4 * b_stride;                                                           \
                    KILN_UNROLL for (int r = 0; r < ROWS; r++) {                                              \
                        const kiln_vu32 x = (kiln_vu32){ 0 } + *(const kiln_u32_any *)(left + r * a_stride);  \
                        KILN_UNROLL for (int p = 0; p < 2 * PARTS; p++)                                       \
                            sum[r][p] = kiln_dot_pairs(sum[r][p], x, y[p]);                                   \
                    }                                                                                         \
                }                                                                                             \
                KILN_UNROLL for (int r = 0; r < ROWS; r++)                                                    \
                    KILN_UNROLL for (int p = 0; p < PARTS; p++) {                                             \
                        kiln_vf32_any *const row = (kiln_vf32_any *)(c + (i + r) * c_stride + j + 32 * p);    \
                        const kiln_vf32 low = sum[r][2 * p], high = sum[r][2 * p + 1];                        \
                        const kiln_vf32 first = KILN_SHUFFLE(low, high, 0, 1, 2, 3, 16, 17, 18, 19,           \
                                                             4, 5, 6, 7, 20, 21, 22, 23);                     \
                        const kiln_vf32 second = KILN_SHUFFLE(low, high, 8, 9, 10, 11, 24, 25, 26, 27,        \
                                                              12, 13, 14, 15, 28, 29, 30, 31);                \
                        row[0] = accumulate ? (kiln_vf32)row[0] + first : first;                              \
                        row[1] = accumulate ? (kiln_vf32)row[1] + second : second;                            \
                    }                                                                                         \
            }                                                                                                 \
        }                                                                                                     \
    }
KILN_DEFINE_BF16_DOTS(1, 8)
KILN_DEFINE_BF16_DOTS(2, 8)
KILN_DEFINE_BF16_DOTS(4, 4)
KILN_DEFINE_BF16_SUMS(1, 1)
KILN_DEFINE_BF16_SUMS(2, 1)
KILN_DEFINE_BF16_SUMS(4, 1)
KILN_DEFINE_BF16_SUMS(4, 2)
KILN_DEFINE_BF16_SUMS(8, 1)

// Whole blocks of rows, largest first. Arguments but c, a, b, scratch and ahead are constants at each call.
#define KILN_BF16_ROWS(FUNCTION, COUNT)                                                                 \
    if ((COUNT) > 0) {                                                                                        \
        FUNCTION(c + i * c_stride, c_stride, a + i * a_stride, a_stride, b, b_stride, COUNT, n, k, accumulate,\
                 i ? NULL : ahead);                                                                           \
        i += COUNT;                                                                                           \
    }
KILN_INLINE void kiln_few_bf16_pairs(float *c, int64_t c_stride, const uint16_t *a, int64_t a_stride, const uint16_t *b,
                                     int64_t b_stride, int b_transposed, int64_t m, int64_t n, int64_t k,
                                     int accumulate, void *scratch, const char *ahead)
{
    int64_t i = 0;
    if (b_transposed && m > 8 && n % 16 == 0) {
        kiln_bf16_across(c, c_stride, a, a_stride, b, b_stride, m, n, k, accumulate, ahead, scratch);
        return;
    }
    if (b_transposed) {
        KILN_BF16_ROWS(kiln_bf16_dots_4, m & ~3)
        KILN_BF16_ROWS(kiln_bf16_dots_2, m & 2)
        KILN_BF16_ROWS(kiln_bf16_dots_1, m & 1)
        return;
    }
    KILN_BF16_ROWS(kiln_bf16_sums_8_1, m & ~7)
    KILN_BF16_ROWS(kiln_bf16_sums_4_1, n % 64 ? m & 4 : 0)
    KILN_BF16_ROWS(kiln_bf16_sums_4_2, n % 64 ? 0 : m & 4)
    KILN_BF16_ROWS(kiln_bf16_sums_2_1, m & 2)
    KILN_BF16_ROWS(kiln_bf16_sums_1_1, m & 1)
}
#endif
