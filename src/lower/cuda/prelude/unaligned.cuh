// SPDX-License-Identifier: MIT
// unaligned.cuh - vectors of 16 bytes that begin at any element, by the two pieces of 16 bytes that they lie in.
//
// Raw are both pieces, and by how many bytes the vector begins within the first: nothing waits for them where they are loaded.
// A piece is read that holds an element of the vector, the second one where all of it lies in the row; else elements are.
template <int N, class T>
DEVICE void load_unaligned(uint32_t *raw, const T *p, int64_t stride, bool rows, int64_t column, int64_t columns)
{
    const Reach reach = reach_of<N>(rows, column, columns);
    const uint32_t skip = (uint32_t)(uint64_t)p & 15u;
    const uint4 *const pieces = (const uint4 *)((const char *)p - skip);
    const bool whole = stride == 1 && reach.first == 0 && reach.end == N && (columns - column - N) * (int)sizeof(T) >= (16 - skip) % 16;
    uint4 first = {}, second = {};
    if (whole)
        first = pieces[0];
    if (whole && skip)
        second = pieces[1];
    memcpy(raw, &first, 16);
    memcpy(raw + 4, &second, 16);
    raw[8] = whole ? skip : 0;
    if (!whole && reach.first < reach.end) {
        T v[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = i >= reach.first && i < reach.end ? p[i * stride] : (T)0;
        join<N>(raw, v);
    }
}
template <int WORDS> DEVICE void settle_words(uint32_t *w, const uint32_t *raw)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = (uint32_t)(((uint64_t)raw[i + WORDS + 1] << 32 | raw[i + WORDS]) >> raw[8] % 4 * 8);
}
// Mostly the lanes of a warp have parts of one row.
template <int N, class T> DEVICE void settle_unaligned(uint32_t *w, const uint32_t *raw)
{
    switch (raw[8] / 4) {
    case 0: return settle_words<0>(w, raw);
    case 1: return settle_words<1>(w, raw);
    case 2: return settle_words<2>(w, raw);
    default: return settle_words<3>(w, raw);
    }
}
