// SPDX-License-Identifier: MIT
// matmul_f64.c - f64 @ f64 into f64; a is always read in place. needs: base.c, matmul_vector.c
//
// The functions of matmul.c with units of eight bytes, packed one element at a time; and few rows of a by a b that lies as
// b[n][k], which is read where it lies (matmul_few.c says why).
#define KILN_MULTIPLY_F64(sum, x, b) ((sum) + (x) * (b))
KILN_DEFINE_PRODUCT(kiln_vector_f64, double, double, kiln_vf64, KILN_MULTIPLY_F64)

static __attribute__((unused)) void kiln_pack_b_f64(void *packed, const double *b, int64_t stride, int transposed,
                                                    int64_t n, int64_t k, int64_t tile_n, int64_t tile_k)
{
    enum { NR = KILN_LANES };
    const int64_t depth = kiln_round_up(tile_k, 16);
    const int64_t along_k = transposed ? 1 : stride, along_n = transposed ? stride : 1;
    for (int64_t j = 0; j < tile_n; j += NR)
        for (int64_t u = 0; u < depth; u++) {
            double *const to = (double *)packed + j * depth + u * NR;
            for (int64_t l = 0; l < NR; l++)
                to[l] = u < k && j + l < n ? b[u * along_k + (j + l) * along_n] : 0;
        }
}
// Row-major with a padded stride.
static __attribute__((unused)) void kiln_pack_a_f64(void *packed, const double *a, int64_t stride, int transposed,
                                                    int64_t m, int64_t k, int64_t tile_m, int64_t tile_k)
{
    const int64_t depth = kiln_round_up(tile_k, 16) + 16;
    const int64_t along_k = transposed ? stride : 1, along_m = transposed ? 1 : stride;
    for (int64_t i = 0; i < tile_m; i++)
        for (int64_t u = 0; u < depth; u++)
            ((double *)packed)[i * depth + u] = i < m && u < k ? a[i * along_m + u * along_k] : 0;
}
KILN_INLINE int kiln_in_place_f64(int64_t a_stride, int a_transposed, int64_t m, int64_t k)
{
    (void)a_stride, (void)a_transposed, (void)m, (void)k;
    return 1;
}
KILN_INLINE void kiln_product_f64(double *c, int64_t c_stride, const void *packed_a, const void *packed_b,
                                  int64_t m, int64_t n, int64_t k, int accumulate)
{
    kiln_vector_f64(c, c_stride, packed_a, kiln_round_up(k, 16) + 16, 1, packed_b, kiln_round_up(k, 16),
                    m, n, k, accumulate);
}
KILN_INLINE void kiln_product_rows_f64(double *c, int64_t c_stride, const double *a, int64_t a_stride,
                                       int a_transposed, const void *packed_b, int64_t m, int64_t n,
                                       int64_t k, int accumulate)
{
    kiln_vector_f64(c, c_stride, a, a_transposed ? 1 : a_stride, a_transposed ? a_stride : 1, packed_b,
                    kiln_round_up(k, 16), m, n, k, accumulate);
}
KILN_INLINE void kiln_matmul_f64(double *c, int64_t c_stride, const double *a, int64_t a_stride,
                                 int a_transposed, const double *b, int64_t b_stride, int b_transposed,
                                 int64_t m, int64_t n, int64_t k, int accumulate, void *scratch)
{
    kiln_pack_b_f64(scratch, b, b_stride, b_transposed, n, k, n, k);
    kiln_product_rows_f64(c, c_stride, a, a_stride, a_transposed, scratch, m, n, k, accumulate);
}

// c[j] of one row of a and four rows of b, of which `count` are there.
KILN_INLINE void kiln_f64_dots(double *c, const double *a, const double *b, int64_t b_stride, int64_t count, int64_t k,
                               int accumulate)
{
    enum { LANES = KILN_VECTOR_BYTES / 8, ROWS = 4 };
    const double *row[ROWS];
    kiln_vf64 sum[ROWS];
    int64_t u = 0;
    KILN_UNROLL for (int r = 0; r < ROWS; r++) {
        row[r] = b + kiln_least(r, count - 1) * b_stride;
        sum[r] = (kiln_vf64){ 0 };
    }
    KILN_NO_UNROLL for (; u + LANES <= k; u += LANES) {
        const kiln_vf64 x = *(const kiln_vf64_any *)(a + u);
        KILN_UNROLL for (int r = 0; r < ROWS; r++) sum[r] += x * *(const kiln_vf64_any *)(row[r] + u);
    }
    for (int64_t r = 0; r < count; r++) {
        double total = 0;
        KILN_UNROLL for (int l = 0; l < LANES; l++) total += sum[r][l];
        for (int64_t v = u; v < k; v++) total += a[v] * row[r][v];
        c[r] = accumulate ? c[r] + total : total;
    }
}
KILN_INLINE void kiln_few_f64(double *c, int64_t c_stride, const double *a, int64_t a_stride, int a_transposed, const double *b,
                              int64_t b_stride, int b_transposed, int64_t m, int64_t n, int64_t k, int accumulate,
                              void *scratch, const void *ahead)
{
    (void)a_transposed, (void)b_transposed, (void)scratch, (void)ahead;
    for (int64_t j = 0; j < n; j += 4)
        for (int64_t i = 0; i < m; i++)
            kiln_f64_dots(c + i * c_stride + j, a + i * a_stride, b + j * b_stride, b_stride, kiln_least(n - j, 4), k,
                          accumulate);
}
