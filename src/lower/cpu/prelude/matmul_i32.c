// SPDX-License-Identifier: MIT
// matmul_i32.c - i32 @ i32 into i32, wrapping: for pairs of integer types that no instruction multiplies. needs: base.c
static __attribute__((unused)) void kiln_matmul_i32(
    int32_t *c, int64_t c_stride, const int32_t *a, int64_t a_stride, int a_transposed, const int32_t *b,
    int64_t b_stride, int b_transposed, int64_t m, int64_t n, int64_t k, int accumulate, void *scratch)
{
    const int64_t a_i = a_transposed ? 1 : a_stride, a_k = a_transposed ? a_stride : 1;
    const int64_t b_k = b_transposed ? 1 : b_stride, b_j = b_transposed ? b_stride : 1;
    (void)scratch;
    for (int64_t i = 0; i < m; i++) {
        uint32_t *const row = (uint32_t *)(c + i * c_stride);
        if (!accumulate) for (int64_t j = 0; j < n; j++) row[j] = 0;
        for (int64_t u = 0; u < k; u++) {
            const uint32_t x = (uint32_t)a[i * a_i + u * a_k];
            KILN_VECTORIZE for (int64_t j = 0; j < n; j++) row[j] += x * (uint32_t)b[u * b_k + j * b_j];
        }
    }
}
