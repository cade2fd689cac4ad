// SPDX-License-Identifier: MIT
// multistage.cuh - copies into shared memory that run ahead by cp.async (before sm_90).
DEVICE void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
// At most n of this thread's groups are still under way.
#define copy_wait(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")

template <int BYTES> DEVICE void copy_piece(uint32_t dst, const void *src)
{
    if (BYTES == 16)                 // past the first-level cache
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(dst), "l"(src), "n"(BYTES) : "memory");
}

// dst[0..N) = src[0..N) where `column` + i lies in 0 .. columns, else 0; nothing is read unless `rows`. Pieces that are
// not whole or not aligned are moved at once instead.
template <int N, class T> DEVICE void copy_vector(T *dst, const T *src, bool rows, int64_t column, int64_t columns)
{
    if (rows && column >= 0 && column + N <= columns && is_aligned(src, N * sizeof(T))) {
        copy_piece<N * sizeof(T)>(shared_address(dst), src);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < N; i++)
        dst[i] = rows && column + i >= 0 && column + i < columns ? src[i] : (T)0;
}
// The columns are known to be inside.
template <int N, class T> DEVICE void copy_inside(T *dst, const T *src, bool rows) { copy_vector<N>(dst, src, rows, 0, N); }
