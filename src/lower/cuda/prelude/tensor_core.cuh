// SPDX-License-Identifier: MIT
// tensor_core.cuh - what surrounds tensor-core products. wgmma itself is printed per shape beside the kernel.
DEVICE void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
// Keeps the compiler from moving reads of these registers above the wait before it.
template <int N> DEVICE void fence_registers(float *r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(r[i]) :: "memory");
}
template <int N> DEVICE void fence_registers(int32_t *r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(r[i]) :: "memory");
}
// Zeros after a branch: plain assignments would become a selection per register.
template <int N> DEVICE void clear(float *r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("mov.b32 %0, 0;" : "=f"(r[i]));
}
template <int N> DEVICE void clear(int32_t *r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("mov.b32 %0, 0;" : "=r"(r[i]));
}
// layout: 1 = panels of 128 bytes, 2 = 64, 3 = 32. lead and stride in bytes.
DEVICE uint64_t matrix_descriptor(uint32_t address, int32_t layout, int32_t lead, int32_t stride)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)layout << 62;
}

DEVICE void mma_16x8x16_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_16x8x16_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_16x8x8_tf32(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// f32 words as two tf32 each, the second of what the first leaves out; the product of the second ones is below f32's bits.
template <int N> DEVICE void split_tf32(uint32_t *high, uint32_t *low, const uint32_t *x)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        high[i] = (x[i] + 0x1000u) & 0xffffe000u;
        low[i] = __float_as_uint(__uint_as_float(x[i]) - __uint_as_float(high[i]));
    }
}
DEVICE void mma_16x8x8_tf32x3(float *d, const uint32_t *a, const uint32_t *b)
{
    uint32_t a_high[4], a_low[4], b_high[2], b_low[2];
    split_tf32<4>(a_high, a_low, a);
    split_tf32<2>(b_high, b_low, b);
    float sum[4] = { 0.0f, 0.0f, 0.0f, 0.0f }; // tensor cores drop bits of a running sum; f32 additions round them
    mma_16x8x8_tf32(sum, a_low, b_high);
    mma_16x8x8_tf32(sum, a_high, b_low);
    mma_16x8x8_tf32(sum, a_high, b_high);
#pragma unroll
    for (int i = 0; i < 4; i++) d[i] += sum[i];
}
#define MMA_OF_BYTES(name, D, c, types) \
    DEVICE void mma_16x8x32_##name(D *d, const uint32_t *a, const uint32_t *b) \
    { \
        asm volatile("mma.sync.aligned.m16n8k32.row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                     : "+" c(d[0]), "+" c(d[1]), "+" c(d[2]), "+" c(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    }
MMA_OF_BYTES(i8, int32_t, "r", "s32.s8.s8.s32")
MMA_OF_BYTES(u8, int32_t, "r", "s32.u8.u8.s32")
// fp8 as f16, which holds every value. The words' low and high pairs are contractions 2c, 2c+1 and 2c+8, 2c+9 of one
// instruction: any order is right that both operands have.
#if __CUDA_ARCH__ >= 890
DEVICE uint32_t pair_of_e4m3(uint32_t w) { uint32_t r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)w)); return r; }
#else
// Two bytes as the upper bits of two halves: sign, 4 bits of exponent with another bias, 3 of mantissa; times 2^8 they
// are right, subnormals included. 0x7f is no number.
DEVICE uint32_t pair_of_e4m3(uint32_t w)
{
    const uint32_t wide = __byte_perm(w, 0, 0x1404), magnitude = wide >> 1 & 0x3f803f80u, nan = (magnitude + 0x00800080u) & 0x40004000u;
    uint32_t r;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(magnitude), "r"(0x5c005c00u));
    return r | nan | (nan - (nan >> 4)) | (wide & 0x80008000u);
}
#endif
DEVICE uint32_t pair_of_e5m2(uint32_t w) { return __byte_perm(w, 0, 0x1404); }
// Operands for two instructions of f16, of N bytes' words each: 4 of the left one, 2 of the right one.
#define WIDEN_FP8(name) \
    template <int N> DEVICE void widen_##name(uint32_t *half, const uint32_t *w) \
    { \
        for (int i = 0; i < N; i++) { \
            half[i / (N / 2) * N + i % (N / 2)] = pair_of_##name(w[i]); \
            half[i / (N / 2) * N + i % (N / 2) + N / 2] = pair_of_##name(w[i] >> 16); \
        } \
    } \
    DEVICE void mma_16x8x32_##name(float *d, const uint32_t *a, const uint32_t *b) \
    { \
        mma_16x8x16_f16(d, a, b); \
        mma_16x8x16_f16(d, a + 4, b + 2); \
    }
WIDEN_FP8(e4m3)
WIDEN_FP8(e5m2)
DEVICE void ldmatrix_x4(uint32_t *w, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}
DEVICE void ldmatrix_x4_trans(uint32_t *w, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}
// One word of an operand, of the elements along the contraction that it holds.
DEVICE uint32_t join_elements(const float *x) { return __float_as_uint(x[0]); }
DEVICE uint32_t join_elements(const uint16_t *x) { return (uint32_t)x[0] | (uint32_t)x[1] << 16; }
DEVICE uint32_t join_elements(const uint8_t *x) { return (uint32_t)x[0] | (uint32_t)x[1] << 8 | (uint32_t)x[2] << 16 | (uint32_t)x[3] << 24; }
DEVICE uint32_t join_elements(const int8_t *x)
{
    return (uint32_t)(uint8_t)x[0] | (uint32_t)(uint8_t)x[1] << 8 | (uint32_t)(uint8_t)x[2] << 16 | (uint32_t)(uint8_t)x[3] << 24;
}
// Bytes that ldmatrix has turned in pairs (mma.c): words of the even lines and of the odd ones. Left operand: rows 2r, 2r+1.
DEVICE void sort_rows(uint32_t *w)
{
    const uint32_t w0 = w[0], w2 = w[2];
    w[0] = __byte_perm(w0, w[1], 0x6420);
    w[1] = __byte_perm(w0, w[1], 0x7531);
    w[2] = __byte_perm(w2, w[3], 0x6420);
    w[3] = __byte_perm(w2, w[3], 0x7531);
}
// Right operand: both words of the even columns, then of the odd ones.
DEVICE void sort_columns(uint32_t *w)
{
    const uint32_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
    w[0] = __byte_perm(w0, w1, 0x6420);
    w[1] = __byte_perm(w2, w3, 0x6420);
    w[2] = __byte_perm(w0, w1, 0x7531);
    w[3] = __byte_perm(w2, w3, 0x7531);
}
// 2:4 sparse left operands: a holds two of each four columns, `places` (the metadata) says which. The rows of b are those of a dense a.
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define MMA_SP "mma.sp::ordered_metadata"
#else
#define MMA_SP "mma.sp"
#endif
#define MMA_SPARSE(shape, name, D, c, types) \
    DEVICE void mma_sp_16x8x##shape##_##name(D *d, const uint32_t *a, const uint32_t *low, const uint32_t *high, uint32_t places) \
    { \
        asm volatile(MMA_SP ".sync.aligned.m16n8k" #shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0;" \
                     : "+" c(d[0]), "+" c(d[1]), "+" c(d[2]), "+" c(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), \
                       "r"(low[0]), "r"(low[1]), "r"(high[0]), "r"(high[1]), "r"(places)); \
    }
MMA_SPARSE(32, bf16, float, "f", "f32.bf16.bf16.f32")
MMA_SPARSE(32, f16, float, "f", "f32.f16.f16.f32")
MMA_SPARSE(64, i8, int32_t, "r", "s32.s8.s8.s32")
MMA_SPARSE(64, u8, int32_t, "r", "s32.u8.u8.s32")
// Two equal places (zeros, read outside of a tensor) are undefined: there they become 0 and 1.
DEVICE uint32_t valid_places(uint32_t w)
{
    const uint32_t differ = w ^ w >> 2, equal = ~(differ | differ >> 1) & 0x11111111u;
    return (w & ~(equal * 15)) | equal << 2;
}
DEVICE uint32_t load_places(uint32_t address)
{
    uint32_t w;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(address) : "memory");
    return valid_places(w);
}
DEVICE uint32_t load_places(uint32_t upper, uint32_t lower)            // of rows r and r + 8
{
    uint16_t low, high;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(low) : "r"(upper) : "memory");
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(high) : "r"(lower) : "memory");
    return valid_places(low | (uint32_t)high << 16);
}
