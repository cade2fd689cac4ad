// SPDX-License-Identifier: MIT
// stepped.cuh - rows that threads copy whole, piece by piece, from places that were made before the loop (sm_90).
//
// What all rows' places are multiples of, in bytes: the least of 16 and the lowest bit of their strides.
DEVICE int32_t row_alignment(int64_t strides) { return (int32_t)(strides & -strides); }
DEVICE bool is_below(int64_t at, int64_t extent) { return (uint64_t)at < (uint64_t)extent; }
// Of a step's columns, from `start` on.
template <int COLUMNS> DEVICE int32_t columns_left(int64_t extent, int64_t start)
{
    const int64_t left = extent - start;
    return left < 0 ? 0 : left < COLUMNS ? (int32_t)left : COLUMNS;
}
// N elements of which the first `left` are inside the row, the others 0, as they come from memory, so that nothing waits
// for them here: words where all rows begin at words, else each element in a register of its own.
template <int N, class T> DEVICE void load_raw(uint32_t *raw, const T *p, int32_t left, int32_t align)
{
    enum { EACH = 4 / sizeof(T), WORDS = N / EACH };
    if (EACH == 1 || align >= 4) {
        if (WORDS == 4 && align >= 16) {
            uint4 x = {};
            if (left > 0) x = *(const uint4 *)p;
            raw[0] = x.x, raw[1] = x.y, raw[2] = x.z, raw[3] = x.w;
        } else {
#pragma unroll
            for (int i = 0; i < WORDS; i++) {
                raw[i] = 0;
                if (i * EACH < left) raw[i] = ((const uint32_t *)p)[i];
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            raw[i] = 0;
            if (i < left) raw[i] = p[i];
        }
    }
}
template <int WORDS> DEVICE void store_piece(void *p, const uint32_t *w)
{
    if constexpr (WORDS == 2) *(uint2 *)p = uint2{ w[0], w[1] };
    else *(uint4 *)p = uint4{ w[0], w[1], w[2], w[3] };
}
template <int N, class T> DEVICE void store_raw(const uint32_t *raw, T *p, int32_t align)
{
    enum { EACH = 4 / sizeof(T), WORDS = N / EACH, BITS = 8 * sizeof(T) };
    uint32_t w[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        w[i] = raw[i];
        if (EACH > 1 && align < 4) {
            w[i] = raw[i * EACH];
#pragma unroll
            for (int k = 1; k < EACH; k++)
                w[i] |= raw[i * EACH + k] << (EACH > 1 ? k * BITS : 0);
        }
    }
    store_piece<WORDS>(p, w);
}
template <int N, class T> DEVICE void store_zeros(T *p)
{
    const uint32_t w[4] = {};
    store_piece<N * sizeof(T) / 4>(p, w);
}
