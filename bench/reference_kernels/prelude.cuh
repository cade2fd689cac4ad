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
DEVICE u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

// ---- mbarriers -------------------------------------------------------------------------------------------------
DEVICE void mbar_init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
DEVICE void mbar_init_done(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void mbar_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
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
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")

// ---- asynchronous copies ---------------------------------------------------------------------------------------
DEVICE void fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void tma_prefetch(const TensorMap *m) { asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory"); }
DEVICE void tma_load_2d(u32 dst, const TensorMap *m, u32 bar, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_load_5d(u32 dst, const TensorMap *m, u32 bar, int x, int y, int z, int w, int v)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
DEVICE void tma_store_2d(const TensorMap *m, u32 src, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(m), "r"(src), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_store_5d(const TensorMap *m, u32 src, int x, int y, int z, int w, int v)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
DEVICE void tma_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define tma_wait_read(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")

// ---- matrix products -------------------------------------------------------------------------------------------
DEVICE void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
// swizzle: 1 = 128 bytes, 2 = 64, 3 = 32, 0 = none. lead, stride in bytes.
DEVICE u64 matrix_desc(u32 addr, u32 swizzle, u32 lead, u32 stride)
{
    return (u64)((addr & 0x3ffffu) >> 4) | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)swizzle << 62;
}
DEVICE void ldmatrix_x4(u32 &a, u32 &b, u32 &c, u32 &d, u32 addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(addr) : "memory");
}
DEVICE void stmatrix_x4(u32 addr, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
DEVICE void stmatrix_x4_trans(u32 addr, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// ---- scalars ---------------------------------------------------------------------------------------------------
DEVICE u32 pack_bf16(float lo, float hi) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEVICE float exp2_fast(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float log2_fast(float x) { float r; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float fmax32(float a, float b) { float r; asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
DEVICE float fma32(float a, float b, float c) { float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r; }
DEVICE float shfl_xor_f(float x, int d) { return __shfl_xor_sync(0xffffffffu, x, d); }

// ---- what several of the reference kernels use --------------------------------------------------------------
template <u32 A, u32 B>
DEVICE void wgmma_64x64x16_bf16_ss_at(float (&d)[32], u32 base, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b32 l;\n\t.reg .b64 x, y;\n\tadd.u32 l, %32, %34;\n\tmov.b64 x, {l, 1073741888};\n\tadd.u32 l, %32, %35;\n\tmov.b64 y, {l, 1073741888};\n\tsetp.ne.b32 p, %33, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, x, y, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "r"(base), "r"(add), "n"(A), "n"(B));
}
DEVICE void wgmma_64x128x16_bf16_rs_t_at(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u32 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 x, y;\n\tmov.b64 y, {%68, 1073741888};\n\tsetp.ne.b32 p, %69, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, y, p, 1, 1, 1;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b), "r"(add));
}
DEVICE void pin_64(float (&d)[64]) { asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) :: "memory"); }
DEVICE void tma_add_5d(const TensorMap *m, u32 src, int x, int y, int z, int w, int v)
{
    asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
DEVICE void ld_shared_v2(float &a, float &b, u32 at) { asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "r"(at) : "memory"); }
DEVICE void st_shared(u32 at, float v) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory"); }
DEVICE void pin_32(float (&d)[32]) { asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) :: "memory"); }

// The elements of a fragment, written out: a loop is unrolled late, and the compiler makes other code of it.
#define PACK_2(p, s, i) p[i] = pack_bf16(s[2*(i)], s[2*(i) + 1]); p[i + 1] = pack_bf16(s[2*(i) + 2], s[2*(i) + 3]);
#define PACK_8(p, s, i) PACK_2(p, s, i) PACK_2(p, s, i + 2) PACK_2(p, s, i + 4) PACK_2(p, s, i + 6)
#define PACK_16(p, s) PACK_8(p, s, 0) PACK_8(p, s, 8)

