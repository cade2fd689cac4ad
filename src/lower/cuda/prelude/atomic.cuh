// SPDX-License-Identifier: MIT
// atomic.cuh - atomics on elements; each returns the value before.
template <class T> DEVICE T atomic_add(T *p, T x) { return atomicAdd(p, x); }
DEVICE int64_t atomic_add(int64_t *p, int64_t x) { return (int64_t)atomicAdd((uint64_t *)p, (uint64_t)x); }
// 16-bit floats: exchange the aligned word around the element.
template <class Add> DEVICE uint16_t atomic_half(uint16_t *p, Add add)
{
    uint32_t *const word = (uint32_t *)((uint64_t)p & ~3ull);
    const int shift = ((uint64_t)p & 2) * 8;
    for (uint32_t seen = *(volatile uint32_t *)word;;) {
        const uint16_t old = (uint16_t)(seen >> shift);
        const uint32_t next = (seen & ~(0xffffu << shift)) | (uint32_t)add(old) << shift;
        const uint32_t found = atomicCAS(word, seen, next);
        if (found == seen) return old;
        seen = found;
    }
}
struct AddBf16 { float x; __device__ __forceinline__ uint16_t operator()(uint16_t old) const { return f32_to_bf16(bf16_to_f32(old) + x); } };
struct AddF16 { float x; __device__ __forceinline__ uint16_t operator()(uint16_t old) const { return f32_to_f16(f16_to_f32(old) + x); } };
DEVICE uint16_t atomic_add_bf16(uint16_t *p, uint16_t x) { const AddBf16 add = { bf16_to_f32(x) }; return atomic_half(p, add); }
DEVICE uint16_t atomic_add_f16(uint16_t *p, uint16_t x) { const AddF16 add = { f16_to_f32(x) }; return atomic_half(p, add); }

// Elements of less than a byte, the first in the low bits. Neighbours may be stored by other threads at the same time.
template <int BITS> DEVICE uint8_t packed_element(const uint8_t *p, int64_t i)
{
    return p[i * BITS >> 3] >> (i * BITS & 7) & (1 << BITS) - 1;
}
template <int BITS> DEVICE void store_packed(uint8_t *p, int64_t i, uint8_t x)
{
    const uint64_t at = (uint64_t)p + (i * BITS >> 3);
    const int shift = (int)(at & 3) * 8 + (int)(i * BITS & 7);
    const uint32_t mask = ((1u << BITS) - 1) << shift, bits = (uint32_t)x << shift & mask;
    atomicAnd((uint32_t *)(at & ~3ull), ~mask);
    atomicOr((uint32_t *)(at & ~3ull), bits);
}

template <class T> DEVICE T atomic_min(T *p, T x) { return atomicMin(p, x); }
template <class T> DEVICE T atomic_max(T *p, T x) { return atomicMax(p, x); }
template <class T> DEVICE T atomic_and(T *p, T x) { return atomicAnd(p, x); }
template <class T> DEVICE T atomic_or(T *p, T x) { return atomicOr(p, x); }
template <class T> DEVICE T atomic_exchange(T *p, T x) { return atomicExch(p, x); }
template <class T> DEVICE T atomic_cas(T *p, T expected, T x) { return atomicCAS(p, expected, x); }
DEVICE int64_t atomic_and(int64_t *p, int64_t x) { return (int64_t)atomicAnd((uint64_t *)p, (uint64_t)x); }
DEVICE int64_t atomic_or(int64_t *p, int64_t x) { return (int64_t)atomicOr((uint64_t *)p, (uint64_t)x); }
DEVICE int64_t atomic_exchange(int64_t *p, int64_t x) { return (int64_t)atomicExch((uint64_t *)p, (uint64_t)x); }
DEVICE double atomic_exchange(double *p, double x) { return __longlong_as_double((long long)atomicExch((uint64_t *)p, (uint64_t)__double_as_longlong(x))); }
DEVICE int64_t atomic_cas(int64_t *p, int64_t expected, int64_t x) { return (int64_t)atomicCAS((uint64_t *)p, (uint64_t)expected, (uint64_t)x); }
// Floats order like their bits, the negative ones backwards; -0 counts as 0, and NaN changes nothing.
#define ATOMIC_EXTREMES(FLOAT, SIGNED, UNSIGNED, BITS, VALUE)                                               \
    DEVICE FLOAT atomic_max(FLOAT *p, FLOAT x)                                                              \
    {                                                                                                       \
        x += 0;                                                                                             \
        if (x != x) return *(volatile FLOAT *)p;                                                            \
        return x >= 0 ? VALUE((SIGNED)atomicMax((SIGNED *)p, (SIGNED)BITS(x)))                              \
                      : VALUE((SIGNED)atomicMin((UNSIGNED *)p, (UNSIGNED)BITS(x)));                         \
    }                                                                                                       \
    DEVICE FLOAT atomic_min(FLOAT *p, FLOAT x)                                                              \
    {                                                                                                       \
        x += 0;                                                                                             \
        if (x != x) return *(volatile FLOAT *)p;                                                            \
        return x >= 0 ? VALUE((SIGNED)atomicMin((SIGNED *)p, (SIGNED)BITS(x)))                              \
                      : VALUE((SIGNED)atomicMax((UNSIGNED *)p, (UNSIGNED)BITS(x)));                         \
    }
ATOMIC_EXTREMES(float, int, unsigned, __float_as_int, __int_as_float)
ATOMIC_EXTREMES(double, long long, unsigned long long, __double_as_longlong, __longlong_as_double)
