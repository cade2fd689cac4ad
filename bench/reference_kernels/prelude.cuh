// SPDX-License-Identifier: MIT
// Intrinsics of the generated CUDA code for sm_90a. No CUDA header is included anywhere.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define DEVICE static __device__ __forceinline__

struct __align__(64) TensorMap { u64 word[16]; };

// ---- addresses -------------------------------------------------------------------------------------------------
DEVICE u32 smem_addr(const void *p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE u32 mapa(u32 addr, u32 cta)
{
    u32 r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(cta));
    return r;
}
DEVICE u32 cluster_rank(void)
{
    u32 r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
DEVICE u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

// ---- mbarriers -------------------------------------------------------------------------------------------------
DEVICE void mbar_init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
DEVICE void mbar_init_done(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void mbar_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEVICE void mbar_arrive_cluster(u32 bar) { asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEVICE void mbar_expect(u32 bar, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
DEVICE u32 mbar_try(u32 bar, u32 parity)
{
    u32 ok;
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
    return ok;
}
DEVICE void mbar_wait(u32 bar, u32 parity)
{
#ifdef BOUNDED_WAIT   // development: give up (with wrong results) rather than hang. Not by trap: that serialises wgmma (C7512) and spills
    for (u32 tries = 0; tries < BOUNDED_WAIT && !mbar_try(bar, parity); tries++) { }
#else
    while (!mbar_try(bar, parity)) { }
#endif
}

// ---- named barriers, clusters, registers -----------------------------------------------------------------------
DEVICE void bar_sync(u32 id, u32 n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
DEVICE void bar_arrive(u32 id, u32 n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
DEVICE void cluster_arrive(void) { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEVICE void cluster_wait(void) { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")

// ---- asynchronous copies ---------------------------------------------------------------------------------------
DEVICE void fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void tma_prefetch(const TensorMap *m) { asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory"); }
DEVICE void tma_load_1d(u32 dst, const TensorMap *m, u32 bar, int x)
{
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x) : "memory");
}
DEVICE void tma_load_2d(u32 dst, const TensorMap *m, u32 bar, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_load_3d(u32 dst, const TensorMap *m, u32 bar, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z) : "memory");
}
DEVICE void tma_load_4d(u32 dst, const TensorMap *m, u32 bar, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_load_5d(u32 dst, const TensorMap *m, u32 bar, int x, int y, int z, int w, int v)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
// To the same offset of every CTA of the cluster in `mask`; each one's own barrier (same offset) is credited.
DEVICE void tma_load_2d_multicast(u32 dst, const TensorMap *m, u32 bar, u16 mask, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;"
                 ::"r"(dst), "l"(m), "r"(bar), "h"(mask), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_load_4d_multicast(u32 dst, const TensorMap *m, u32 bar, u16 mask, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;"
                 ::"r"(dst), "l"(m), "r"(bar), "h"(mask), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_store_2d(const TensorMap *m, u32 src, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(m), "r"(src), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_store_3d(const TensorMap *m, u32 src, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z) : "memory");
}
DEVICE void tma_store_4d(const TensorMap *m, u32 src, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_store_5d(const TensorMap *m, u32 src, int x, int y, int z, int w, int v)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
DEVICE void tma_add_2d(const TensorMap *m, u32 src, int x, int y)
{
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(m), "r"(src), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_add_4d(const TensorMap *m, u32 src, int x, int y, int z, int w)
{
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define tma_wait_read(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
#define tma_wait_done(n) asm volatile("cp.async.bulk.wait_group " #n ";" ::: "memory")
DEVICE void bulk_load(u32 dst, const void *src, u32 bytes, u32 bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
// Predicated gather piece: bytes = 16 copies, bytes = 0 writes zeros.
DEVICE void cp_async_16(u32 dst, const void *src, u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
DEVICE void cp_async_arrive(u32 bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory"); }
DEVICE void st_async_b32(u32 remote, u32 v, u32 remote_bar)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote), "r"(v), "r"(remote_bar) : "memory");
}

// ---- matrix products -------------------------------------------------------------------------------------------
DEVICE void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
// swizzle: 1 = 128 bytes, 2 = 64, 3 = 32, 0 = none. lead, stride in bytes.
DEVICE u64 matrix_desc(u32 addr, u32 swizzle, u32 lead, u32 stride)
{
    return (u64)((addr & 0x3ffffu) >> 4) | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)swizzle << 62;
}
DEVICE void mma_16x8x16_bf16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
DEVICE void ldmatrix_x4(u32 &a, u32 &b, u32 &c, u32 &d, u32 addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(addr) : "memory");
}
DEVICE void ldmatrix_x4_trans(u32 &a, u32 &b, u32 &c, u32 &d, u32 addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(addr) : "memory");
}
DEVICE void stmatrix_x4(u32 addr, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
DEVICE void stmatrix_x4_trans(u32 addr, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
DEVICE void st_shared_v2(u32 addr, u32 a, u32 b) { asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(addr), "r"(a), "r"(b) : "memory"); }
DEVICE void st_shared_v4(u32 addr, u32 a, u32 b, u32 c, u32 d) { asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }

// ---- scalars ---------------------------------------------------------------------------------------------------
DEVICE u32 pack_bf16(float lo, float hi) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE u32 pack_f16(float lo, float hi) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE float exp2_fast(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float log2_fast(float x) { float r; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float fmax32(float a, float b) { float r; asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
DEVICE float fma32(float a, float b, float c) { float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r; }
DEVICE float shfl_xor_f(float x, int d) { return __shfl_xor_sync(0xffffffffu, x, d); }
DEVICE u32 elect_one(void)
{
    u32 p;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(p));
    return p;
}
