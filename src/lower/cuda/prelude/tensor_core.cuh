// tensor_core.cuh - what surrounds tensor-core products. wgmma itself is printed per shape beside the kernel.
DEVICE void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
// Keeps the compiler from moving reads of these registers above the wait before it.
template <int N> DEVICE void settle(float *r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(r[i]) :: "memory");
}
template <int N> DEVICE void settle(int32_t *r)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(r[i]) :: "memory");
}
// Zeros behind a branch: plain assignments would become a selection per register.
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
DEVICE void ldmatrix_x4(uint32_t *w, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}
DEVICE void ldmatrix_x4_trans(uint32_t *w, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}
