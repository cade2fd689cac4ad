// SPDX-License-Identifier: MIT
// rows.cuh - pieces of 16 bytes of a tile's rows, gathered or converted by the producer's threads (sm_90).
//
// 16 bytes without a register in between; outside they become zero and nothing is read.
DEVICE void cp_async_16(uint32_t dst, const void *src, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(inside ? 16 : 0) : "memory");
}
// What another lane has worked out.
template <class T> DEVICE T *shuffle_pointer(T *p, int32_t lane)
{
    const uint64_t at = (uint64_t)p;
    const uint32_t low = shuffle_from((uint32_t)at, lane), high = shuffle_from((uint32_t)(at >> 32), lane);
    return (T *)((uint64_t)high << 32 | low);
}
DEVICE bool shuffle_inside(bool inside, int32_t lane) { return shuffle_from((int32_t)inside, lane) != 0; }
DEVICE void cp_async_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Words of 32 bits, at a multiple of their size or of 16 bytes.
template <int WORDS> DEVICE void load_piece(uint32_t *w, const void *p, bool inside)
{
    if constexpr (WORDS == 2) {
        const uint2 x = inside ? *(const uint2 *)p : uint2{};
        w[0] = x.x, w[1] = x.y;
    } else {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            const uint4 x = inside ? ((const uint4 *)p)[i / 4] : uint4{};
            w[i] = x.x, w[i + 1] = x.y, w[i + 2] = x.z, w[i + 3] = x.w;
        }
    }
}
template <class T> DEVICE T load_each(const void *p, bool inside) { return inside ? *(const T *)p : (T)0; }
// Where a row of a later step is loaded from: one that is outside, from zeros. Under a predicate ptxas loads into other
// registers and copies them after a wait for memory.
template <int BYTES, class T> DEVICE T *row_or_zeros(T *row, bool inside)
{
    static __device__ uint4 zeros[(BYTES + 15) / 16];
    return inside ? row : (T *)zeros;
}
template <int WORDS> DEVICE void load_piece_ahead(uint32_t *w, const void *p)
{
    if constexpr (WORDS == 2)
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(p));
    else
#pragma unroll
        for (int i = 0; i < WORDS; i += 4)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(w[i]), "=r"(w[i + 1]), "=r"(w[i + 2]), "=r"(w[i + 3]) : "l"((const uint4 *)p + i / 4));
}
template <class T> DEVICE T load_each_ahead(const void *p)
{
    uint32_t w;
    if constexpr (sizeof(T) == 1) {
        asm volatile("ld.global.u8 %0, [%1];" : "=r"(w) : "l"(p));
        return bitcast<T>((uint8_t)w);
    } else {
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(w) : "l"(p));
        return bitcast<T>(w);
    }
}
DEVICE void store_piece(uint32_t at, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// Into the L2 cache: a multiple of 16 bytes, by lines of 128. (cp.async.bulk.prefetch takes one lane's address at a time.)
DEVICE void prefetch_row(const void *p, int32_t bytes, bool inside)
{
    if (!inside)
        return;
#pragma unroll
    for (int i = 0; i < bytes; i += 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)p + i));
    asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)p + bytes - 16));
}
// Two products, each rounded once.
DEVICE uint32_t multiply_bf16(uint32_t a, uint32_t b) { uint32_t r; asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
// x / size, without a division where the size, the same for all threads, is a power of two.
DEVICE int32_t quotient_by_size(int32_t x, int32_t size)
{
    if ((size & (size - 1)) == 0)
        return (x + (x >> 31 & (size - 1))) >> (31 - __clz(size));
    return x / size;
}
// Eight elements from word `at` on; codes two at a time.
DEVICE void widen_e4m3(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        uint32_t r;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)(w[at + i / 4] >> i % 4 * 8)));
        f[i] = f16_to_f32((uint16_t)r);
        f[i + 1] = f16_to_f32((uint16_t)(r >> 16));
    }
}
DEVICE void widen_e5m2(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = e5m2_to_f32((uint8_t)(w[at + i / 4] >> i % 4 * 8));
}
DEVICE void widen_bf16(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = bf16_to_f32((uint16_t)(w[at + i / 2] >> i % 2 * 16));
}
DEVICE void widen_f16(float *f, const uint32_t *w, int at)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = f16_to_f32((uint16_t)(w[at + i / 2] >> i % 2 * 16));
}
