// SPDX-License-Identifier: MIT
// matmul_vector.c - the register-blocked product on vectors, for any unit of multiplication.
//
// A *unit* is what one lane multiplies: an f32, an f64, an i32, or four bytes holding two bf16,
// two i16 or four i8 for the dot-product instructions. All of them share one scheme:
//
//   b is packed in panels [n / NR][k][NR] of units, NR = two vectors, zero beyond its edges;
//   a is read in place, unit (i, k) at a[i*a_i + k*a_k], and broadcast;
//   MR rows of c times NR columns stay in registers while k runs.
//
// KILN_DEFINE_PRODUCT(NAME, UNIT, ACC, VECTOR, MULTIPLY) defines
//   NAME(c, c_stride, a, a_i, a_k, packed, panel_k, m, n, k, accumulate)
// with MULTIPLY(sum, a_unit, b_vector) giving the new sum. k and panel_k count units;
// panel_k is the length of a packed panel, at least k.
#if KILN_AVX512 || KILN_NEON || KILN_SVE256
enum { KILN_MR = 14 };          // 28 sums, 2 of b, 1 broadcast: 31 of 32 registers
#define KILN_BLOCKS_OF_ROWS(EACH, ...)                                                             \
    EACH(__VA_ARGS__, 1) EACH(__VA_ARGS__, 2) EACH(__VA_ARGS__, 3) EACH(__VA_ARGS__, 4)            \
    EACH(__VA_ARGS__, 5) EACH(__VA_ARGS__, 6) EACH(__VA_ARGS__, 7) EACH(__VA_ARGS__, 8)            \
    EACH(__VA_ARGS__, 10) EACH(__VA_ARGS__, 12) EACH(__VA_ARGS__, 14)
#elif KILN_AVX2
enum { KILN_MR = 6 };           // 12 sums, 2 of b, 1 broadcast: 15 of 16 registers
#define KILN_BLOCKS_OF_ROWS(EACH, ...)                                                             \
    EACH(__VA_ARGS__, 1) EACH(__VA_ARGS__, 2) EACH(__VA_ARGS__, 3) EACH(__VA_ARGS__, 4)            \
    EACH(__VA_ARGS__, 5) EACH(__VA_ARGS__, 6)
#else
enum { KILN_MR = 4 };
#define KILN_BLOCKS_OF_ROWS(EACH, ...)                                                             \
    EACH(__VA_ARGS__, 1) EACH(__VA_ARGS__, 2) EACH(__VA_ARGS__, 3) EACH(__VA_ARGS__, 4)
#endif
// Units of k for which one panel of b (NR wide) fits the first-level cache beside a and c.
enum { KILN_KC = 256 };

#define KILN_DEFINE_ROWS(NAME, ROWS, UNIT, ACC, VECTOR, MULTIPLY)                                  \
    static __attribute__((noinline, unused)) void NAME##_##ROWS(                                   \
        ACC *c, int64_t c_stride, const UNIT *a, int64_t a_i, int64_t a_k, const void *panel,      \
        int64_t k, int accumulate)                                                                 \
    {                                                                                              \
        typedef VECTOR Any __attribute__((aligned(1), may_alias));                                 \
        const Any *b = panel;                                                                      \
        VECTOR sum[ROWS][2];                                                                       \
        KILN_UNROLL for (int i = 0; i < ROWS; i++) sum[i][0] = sum[i][1] = (VECTOR){ 0 };          \
        KILN_NO_UNROLL for (; k > 0; k--, a += a_k, b += 2) {                                      \
            const VECTOR b0 = b[0], b1 = b[1];                                                     \
            KILN_UNROLL for (int i = 0; i < ROWS; i++) {                                           \
                const UNIT x = a[i * a_i];                                                         \
                sum[i][0] = MULTIPLY(sum[i][0], x, b0);                                            \
                sum[i][1] = MULTIPLY(sum[i][1], x, b1);                                            \
            }                                                                                      \
        }                                                                                          \
        KILN_UNROLL for (int i = 0; i < ROWS; i++) {                                               \
            Any *row = (Any *)(c + i * c_stride);                                                  \
            if (accumulate) sum[i][0] += row[0], sum[i][1] += row[1];                              \
            row[0] = sum[i][0];                                                                    \
            row[1] = sum[i][1];                                                                    \
        }                                                                                          \
    }

// Rows that are computed together: as few blocks as there can be, all of about the same rows, since few of them have too
// few sums for the latency of an addition. Above eight there are blocks of even rows alone.
KILN_INLINE int64_t kiln_block_rows(int64_t left)
{
    const int64_t blocks = (left + KILN_MR - 1) / KILN_MR, rows = (left + blocks - 1) / blocks;
    if (rows <= 8 || rows % 2 == 0) return rows;
    return blocks > 1 ? rows + 1 : (rows + 1) / 2;
}

// One panel of b against all rows of a; c has all NR columns of the panel.
#define KILN_CASE_OF_ROWS(NAME, ROWS)                                                              \
    case ROWS: NAME##_##ROWS(c + i * c_stride, c_stride, a + i * a_i, a_i, a_k, panel, k, accumulate); break;
#define KILN_DEFINE_PANEL(NAME, UNIT, ACC)                                                         \
    static void NAME##_panel(ACC *c, int64_t c_stride, const UNIT *a, int64_t a_i, int64_t a_k,    \
                             const void *panel, int64_t m, int64_t k, int accumulate)              \
    {                                                                                              \
        for (int64_t i = 0, rows; i < m; i += rows) {                                              \
            rows = kiln_block_rows(m - i);                                                         \
            switch (rows) {                                                                        \
                KILN_BLOCKS_OF_ROWS(KILN_CASE_OF_ROWS, NAME)                                       \
            }                                                                                      \
        }                                                                                          \
    }

// A panel that sticks out of c is computed beside it, a few rows at a time.
#define KILN_DEFINE_LAST_PANEL(NAME, UNIT, ACC, NR)                                                \
    static void NAME##_last_panel(ACC *c, int64_t c_stride, const UNIT *a, int64_t a_i,            \
                                  int64_t a_k, const void *panel, int64_t m, int64_t n, int64_t k, \
                                  int accumulate)                                                  \
    {                                                                                              \
        ACC beside[KILN_MR][NR];                                                                   \
        for (int64_t i = 0; i < m; i += KILN_MR) {                                                 \
            const int64_t rows = kiln_least(m - i, KILN_MR);                                       \
            NAME##_panel(beside[0], NR, a + i * a_i, a_i, a_k, panel, rows, k, 0);                 \
            for (int64_t r = 0; r < rows; r++)                                                     \
                for (int64_t j = 0; j < n; j++) {                                                  \
                    ACC *const at = c + (i + r) * c_stride + j;                                    \
                    *at = accumulate ? *at + beside[r][j] : beside[r][j];                          \
                }                                                                                  \
        }                                                                                          \
    }

#define KILN_ROWS_OF(NAME, UNIT, ACC, VECTOR, MULTIPLY, ROWS)                                      \
    KILN_DEFINE_ROWS(NAME, ROWS, UNIT, ACC, VECTOR, MULTIPLY)
#define KILN_DEFINE_PRODUCT(NAME, UNIT, ACC, VECTOR, MULTIPLY)                                     \
    KILN_BLOCKS_OF_ROWS(KILN_ROWS_OF, NAME, UNIT, ACC, VECTOR, MULTIPLY)                           \
    KILN_DEFINE_PANEL(NAME, UNIT, ACC)                                                             \
    KILN_DEFINE_LAST_PANEL(NAME, UNIT, ACC, 2 * KILN_VECTOR_BYTES / (int)sizeof(UNIT))             \
    static __attribute__((unused)) void NAME(                                                      \
        ACC *c, int64_t c_stride, const UNIT *a, int64_t a_i, int64_t a_k, const void *packed,     \
        int64_t panel_k, int64_t m, int64_t n, int64_t k, int accumulate)                          \
    {                                                                                              \
        enum { NR = 2 * KILN_VECTOR_BYTES / (int)sizeof(UNIT) };                                   \
        int64_t k0 = 0;                                                                            \
        do {                                                                                       \
            const int64_t depth = kiln_least(k - k0, KILN_KC);                                     \
            for (int64_t j = 0; j < n; j += NR) {                                                  \
                const UNIT *panel = (const UNIT *)packed + j * panel_k + k0 * NR;                  \
                const UNIT *const from = a + k0 * a_k;                                             \
                const int more = accumulate || k0 > 0;                                             \
                if (n - j >= NR)                                                                   \
                    NAME##_panel(c + j, c_stride, from, a_i, a_k, panel, m, depth, more);          \
                else                                                                               \
                    NAME##_last_panel(c + j, c_stride, from, a_i, a_k, panel, m, n - j, depth,     \
                                      more);                                                       \
            }                                                                                      \
            k0 += KILN_KC;                                                                         \
        } while (k0 < k);                                                                          \
    }
