// SPDX-License-Identifier: MIT
// around.cuh - vectors that begin at any element, by the words that they lie in (sm_90).
//
// Raw are the words from the one that a vector begins in on, one more than it has, and by how many bits it begins within the
// first: nothing waits for them where they are loaded.
template <int N, class T> struct Around { enum { WORDS = N * sizeof(T) / 4, RAW = WORDS + 2 }; };

// As load_vector; words are read where both ends lie in the row, elements else.
template <int N, class T> DEVICE void load_around(uint32_t *raw, const T *p, bool rows, int64_t column, int64_t columns)
{
    enum { WORDS = Around<N, T>::WORDS };
    const Reach reach = reach_of<N>(rows, column, columns);
    const uint32_t skip = (uint32_t)(uint64_t)p & 3u;
    const uint32_t *const words = (const uint32_t *)((const char *)p - skip);
    raw[WORDS] = 0;
    raw[WORDS + 1] = 0;
    if (reach.first == 0 && reach.end == N &&
        (skip == 0 || (column * (int)sizeof(T) >= skip && (columns - column - N) * (int)sizeof(T) >= 4 - skip))) {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            raw[i] = words[i];
        if (skip)
            raw[WORDS] = words[WORDS];
        raw[WORDS + 1] = skip * 8;
    } else if (reach.first < reach.end) {
        T v[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = i >= reach.first && i < reach.end ? p[i] : (T)0;
        join<N>(raw, v);
    } else {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            raw[i] = 0;
    }
}
template <int N, class T> DEVICE void settle(uint32_t *w, const uint32_t *raw)
{
    enum { WORDS = Around<N, T>::WORDS };
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        w[i] = (uint32_t)(((uint64_t)raw[i + 1] << 32 | raw[i]) >> raw[WORDS + 1]);
}
