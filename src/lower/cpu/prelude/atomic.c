// SPDX-License-Identifier: MIT
// atomic.c - atomics on elements of tensors. Relaxed; the fences around those outside forall are calls of their own.
// needs: base.c, convert.c
KILN_INLINE void kiln_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define KILN_DEFINE_ATOMIC_BITS(K, TYPE)                                                          \
    KILN_INLINE TYPE kiln_atomic_add_##K(TYPE *p, TYPE x) { return __atomic_fetch_add(p, x, __ATOMIC_RELAXED); } \
    KILN_INLINE TYPE kiln_atomic_and_##K(TYPE *p, TYPE x) { return __atomic_fetch_and(p, x, __ATOMIC_RELAXED); } \
    KILN_INLINE TYPE kiln_atomic_or_##K(TYPE *p, TYPE x) { return __atomic_fetch_or(p, x, __ATOMIC_RELAXED); }   \
    KILN_INLINE TYPE kiln_atomic_exchange_##K(TYPE *p, TYPE x) { return __atomic_exchange_n(p, x, __ATOMIC_RELAXED); } \
    KILN_INLINE TYPE kiln_atomic_cas_##K(TYPE *p, TYPE old, TYPE x)                               \
    {                                                                                             \
        __atomic_compare_exchange_n(p, &old, x, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);           \
        return old;                                                                               \
    }
#define KILN_DEFINE_ATOMIC_LOOP(NAME, K, TYPE, NEW)                                               \
    KILN_INLINE TYPE kiln_atomic_##NAME##_##K(TYPE *p, TYPE x)                                    \
    {                                                                                             \
        TYPE old, new_;                                                                           \
        __atomic_load(p, &old, __ATOMIC_RELAXED);                                                 \
        do new_ = (NEW);                                                                          \
        while (!__atomic_compare_exchange(p, &old, &new_, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        return old;                                                                               \
    }
#define KILN_DEFINE_ATOMIC_INTEGER(K, TYPE)                                                       \
    KILN_DEFINE_ATOMIC_BITS(K, TYPE)                                                              \
    KILN_DEFINE_ATOMIC_LOOP(min, K, TYPE, x < old ? x : old)                                      \
    KILN_DEFINE_ATOMIC_LOOP(max, K, TYPE, x > old ? x : old)
KILN_DEFINE_ATOMIC_INTEGER(int64_t, int64_t)
KILN_DEFINE_ATOMIC_INTEGER(uint64_t, uint64_t)
KILN_DEFINE_ATOMIC_INTEGER(int32_t, int32_t)
KILN_DEFINE_ATOMIC_INTEGER(uint32_t, uint32_t)
KILN_DEFINE_ATOMIC_INTEGER(int16_t, int16_t)
KILN_DEFINE_ATOMIC_INTEGER(uint16_t, uint16_t)
KILN_DEFINE_ATOMIC_INTEGER(int8_t, int8_t)
KILN_DEFINE_ATOMIC_INTEGER(uint8_t, uint8_t)
#define KILN_DEFINE_ATOMIC_FLOAT(K, TYPE, MIN, MAX)                                               \
    KILN_DEFINE_ATOMIC_LOOP(add, K, TYPE, old + x)                                                \
    KILN_DEFINE_ATOMIC_LOOP(min, K, TYPE, MIN(old, x))                                            \
    KILN_DEFINE_ATOMIC_LOOP(max, K, TYPE, MAX(old, x))                                            \
    KILN_DEFINE_ATOMIC_LOOP(exchange, K, TYPE, x)
KILN_DEFINE_ATOMIC_FLOAT(float, float, kiln_min_f32, kiln_max_f32)
KILN_DEFINE_ATOMIC_FLOAT(double, double, kiln_min_f64, kiln_max_f64)
#define KILN_DEFINE_ATOMIC_HALF(T)                                                                \
    KILN_INLINE uint16_t kiln_atomic_add_##T(uint16_t *p, float x)                                \
    {                                                                                             \
        uint16_t old = __atomic_load_n(p, __ATOMIC_RELAXED), new_;                                \
        do new_ = kiln_##T##_from_f32(kiln_f32_from_##T(old) + x);                                \
        while (!__atomic_compare_exchange_n(p, &old, new_, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        return old;                                                                               \
    }
KILN_DEFINE_ATOMIC_HALF(f16)
KILN_DEFINE_ATOMIC_HALF(bf16)

// to[i] += x[i], each atomically. Four at a time where they can be compared and exchanged at once, which takes hardly
// longer than one; every processor with these vectors can. Locked instructions wait for their line one after the other,
// so the lines of the row two strides further are asked for.
KILN_OUTLINE void kiln_atomic_add_row_float(float *to, const float *x, int64_t n, int64_t stride)
{
    int64_t i = 0;
    for (int64_t j = 0; j < n; j += 16) __builtin_prefetch(to + 2 * stride + j, 1, 3);
#if KILN_AVX512 || KILN_AVX2
    typedef float Four __attribute__((vector_size(16)));
    typedef Four AnyFour __attribute__((aligned(4), may_alias));
    typedef uint64_t AnyHalf __attribute__((may_alias)), Halves __attribute__((vector_size(16)));
    for (; i < n && (uintptr_t)(to + i) % 16; i++) kiln_atomic_add_float(to + i, x[i]);
    for (; i + 4 <= n; i += 4) {
        Four *const at = (Four *)(to + i);
        const Four more = *(const AnyFour *)(x + i);
        // Halves of different times are found out by the exchange; reading one twice would not be.
        AnyHalf *const half = (AnyHalf *)at;
        Halves old = { __atomic_load_n(half, __ATOMIC_RELAXED), __atomic_load_n(half + 1, __ATOMIC_RELAXED) };
        for (char same = 0; !same;) {
            const Halves new_ = (Halves)((Four)old + more);
            __asm__ volatile("lock cmpxchg16b %1" : "=@ccz"(same), "+m"(*at), "+a"(old[0]), "+d"(old[1])
                             : "b"(new_[0]), "c"(new_[1]));
        }
    }
#endif
    for (; i < n; i++) kiln_atomic_add_float(to + i, x[i]);
}
