// SPDX-License-Identifier: MIT
// reduce.c - a row to one value: sum, greatest, least.
//
// The compilers may not reorder a float sum, nor turn a NaN-aware maximum into vectors, without
// flags that would break NaN everywhere else; so the vectors are written out. Four of them run
// beside each other to hide the latency. The order is fixed, hence the result of a build is too.
// NaN: a sum propagates it, min and max skip it (all NaN gives the neutral element). needs: base.c
//
// _lanes: those of x where they are greater (less), of best elsewhere: a NaN x never wins,
// and best never becomes NaN.
KILN_INLINE kiln_vf32 kiln_greater_lanes(kiln_vf32 x, kiln_vf32 best)
{
#if KILN_AVX512 || KILN_AVX2
    // With a NaN the instruction returns its last operand (the first in this syntax).
    kiln_vf32 out;
    __asm__("vmaxps %2, %1, %0" : "=v"(out) : "v"(x), "v"(best));
    return out;
#else
    const kiln_vi32 wins = x > best;
    return (kiln_vf32)(((kiln_vi32)x & wins) | ((kiln_vi32)best & ~wins));
#endif
}
KILN_INLINE kiln_vf32 kiln_less_lanes(kiln_vf32 x, kiln_vf32 best)
{
#if KILN_AVX512 || KILN_AVX2
    kiln_vf32 out;
    __asm__("vminps %2, %1, %0" : "=v"(out) : "v"(x), "v"(best));
    return out;
#else
    const kiln_vi32 wins = x < best;
    return (kiln_vf32)(((kiln_vi32)x & wins) | ((kiln_vi32)best & ~wins));
#endif
}
KILN_INLINE kiln_vf32 kiln_add_lanes(kiln_vf32 x, kiln_vf32 sum) { return sum + x; }
KILN_INLINE float kiln_add_f32(float a, float b) { return a + b; }

// Each lane with the one `half` lanes away, halving until lane 0 holds all. Lanes that no longer
// count are computed along.
#if KILN_VECTOR_BYTES == 64
#define KILN_FOLD_LANES(s, LANES)                                                                    \
    s = LANES(KILN_SHUFFLE(s, s, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), s);          \
    s = LANES(KILN_SHUFFLE(s, s, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11), s);          \
    s = LANES(KILN_SHUFFLE(s, s, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13), s);          \
    s = LANES(KILN_SHUFFLE(s, s, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14), s);
#elif KILN_VECTOR_BYTES == 32
#define KILN_FOLD_LANES(s, LANES)                                                                    \
    s = LANES(KILN_SHUFFLE(s, s, 4, 5, 6, 7, 0, 1, 2, 3), s);                                        \
    s = LANES(KILN_SHUFFLE(s, s, 2, 3, 0, 1, 6, 7, 4, 5), s);                                        \
    s = LANES(KILN_SHUFFLE(s, s, 1, 0, 3, 2, 5, 4, 7, 6), s);
#else
#define KILN_FOLD_LANES(s, LANES)                                                                    \
    s = LANES(KILN_SHUFFLE(s, s, 2, 3, 0, 1), s);                                                    \
    s = LANES(KILN_SHUFFLE(s, s, 1, 0, 3, 2), s);
#endif

#define KILN_DEFINE_REDUCE(NAME, NEUTRAL, LANES, ONE)                                              \
    static __attribute__((unused)) float NAME(const float *row, int64_t n)                         \
    {                                                                                              \
        const kiln_vf32_any *v = (const kiln_vf32_any *)row;                                       \
        const kiln_vf32 neutral = (kiln_vf32){ 0 } + (NEUTRAL);                                    \
        kiln_vf32 s0 = neutral, s1 = neutral, s2 = neutral, s3 = neutral;                          \
        int64_t left = n;                                                                          \
        for (; left >= 4 * KILN_LANES; left -= 4 * KILN_LANES, v += 4)                             \
            s0 = LANES(v[0], s0), s1 = LANES(v[1], s1), s2 = LANES(v[2], s2), s3 = LANES(v[3], s3);\
        for (; left >= KILN_LANES; left -= KILN_LANES, v++) s0 = LANES(v[0], s0);                  \
        s0 = LANES(LANES(s0, s1), LANES(s2, s3));                                                  \
        float out = NEUTRAL;                                                                       \
        for (int64_t i = n - left; i < n; i++) out = ONE(out, row[i]);                             \
        KILN_FOLD_LANES(s0, LANES)                                                                 \
        return ONE(out, s0[0]);                                                                    \
    }
KILN_DEFINE_REDUCE(kiln_row_sum_f32, 0.0f, kiln_add_lanes, kiln_add_f32)
KILN_DEFINE_REDUCE(kiln_row_max_f32, -__builtin_inff(), kiln_greater_lanes, kiln_max_f32)
KILN_DEFINE_REDUCE(kiln_row_min_f32, __builtin_inff(), kiln_less_lanes, kiln_min_f32)
