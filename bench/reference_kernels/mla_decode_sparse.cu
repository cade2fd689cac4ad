// SPDX-License-Identifier: MIT
// mla_decode_sparse.cu - hand-written reference kernel: token-sparse decode over an FP8 cache, 128 query heads (sm_90a)
//
// INDEX [B][SQ][TOPK] names cache slots of 656 bytes (512 e4m3, 4 f32 scales, 64 bf16); a slot outside the cache counts as
// absent. Two instances of a cluster hold 64 heads each; each converts one of the two key blocks of a step and writes it
// to both. The schedule is that of mla_decode.cu. Q [B][SQ*128][576], O [B][SQ*128][512], LSE [B][SQ*128] natural.
// Scales are rounded to bf16 before the product. Read beside docs/hopper.md, "Sparse MLA decode". Built by reference_kernels.py,
// which takes plan, combine and combine_wide from mla_decode.cu.
#include "prelude.cuh"

DEVICE float finite(float x) { return x == __int_as_float(0xff800000) ? 0 : x; }
DEVICE u64 ld_shared_u64(u32 at) { u64 v; asm volatile("ld.shared.u64 %0, [%1];" : "=l"(v) : "r"(at) : "memory"); return v; }
DEVICE void st_shared_u8(u32 at, u32 v) { asm volatile("st.shared.u8 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
DEVICE int slot_at(const int *list, int i, int last, u32 topk) { return i < last*64 && i < (int)topk ? list[i] : -1; }
DEVICE uint4 load16(const u8 *at, u32 ok)
{
    uint4 v;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"
                 "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}" : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w) : "l"(at), "r"(ok));
    return v;
}
DEVICE uint2 load8(const u8 *at, u32 ok)
{
    uint2 v;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\t"
                 "@p ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];\n\t}" : "=&r"(v.x), "=&r"(v.y) : "l"(at), "r"(ok));
    return v;
}
DEVICE void prefetch_token(const u8 *cache, int slot, u32 slots, u32 part)
{
    if ((u32)slot >= slots) return;
    const u8 *at = cache + (u64)slot*656 + part*128;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    if (part < 2) asm volatile("prefetch.global.L2 [%0];" ::"l"(at + 512));
}
// Two e4m3 bytes as bf16, times a scale: the bits are placed as bf16 of the value * 2^-120, the scale carries the 2^120.
DEVICE u32 scale_pair(u32 f) { float x = __uint_as_float(f); return pack_bf16(x, x) + 0x3c003c00u*(f != 0); }
DEVICE u32 mul_bf16x2(u32 a, u32 b) { u32 r; asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
DEVICE u32 e4m3_place(u32 x) { return (x & 0x80008000u) | (x >> 4 & 0x07f007f0u); }
DEVICE u32 e4m3_lo(u32 w, u32 k) { return mul_bf16x2(e4m3_place(__byte_perm(w, 0, 0x1404)), k); }
DEVICE u32 e4m3_hi(u32 w, u32 k) { return mul_bf16x2(e4m3_place(__byte_perm(w, 0, 0x3424)), k); }
// Sixteen bytes to this instance's tile and to the same place in the other's, whose barrier counts them.
DEVICE void st_both(u32 own, u32 other, u32 bar, u32 a, u32 b, u32 c, u32 d)
{
    st_shared_v4(own, a, b, c, d);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(other), "r"(a), "r"(b), "r"(c), "r"(d), "r"(bar) : "memory");
}

// tiles: q 0, al ar bl br 65536.., ap bp 196608, xa xb 212992, vectors 229376, barriers 230400; 230560 bytes
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
kernel(const __grid_constant__ TensorMap tq, const __grid_constant__ TensorMap to, const __grid_constant__ TensorMap tpart,
       const u16 *Q, const u8 *cache, const int *index, const int *part, const int *first_split, float *lse, float *lpart,
       u32 SQ, u32 B, u32 rows, u32 topk, u32 slots, float scale)
{
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = smem_addr(smem), group = uniform(threadIdx.x >> 7), rank = cluster_rank();
    u32 j = blockIdx.x / 2 % SQ, m = j*2 + rank;
    const int *mine = part + blockIdx.x / (2*SQ) * 8;
    if (threadIdx.x == 0) {
        tma_prefetch(&tq); tma_prefetch(&to); tma_prefetch(&tpart);
        mbar_init(base + 230496, 1); mbar_init(base + 230504, 8);
        mbar_init(base + 230400, rank == 0 ? 128 : 1); mbar_init(base + 230448, 8);   // al: filled by instance 0 of the pair
        mbar_init(base + 230408, rank == 0 ? 128 : 1); mbar_init(base + 230456, 8);   // ar: filled by instance 0 of the pair
        mbar_init(base + 230416, rank == 0 ? 128 : 1); mbar_init(base + 230464, 8);   // ap: filled by instance 0 of the pair
        mbar_init(base + 230424, rank == 1 ? 128 : 1); mbar_init(base + 230472, 8);   // br: filled by instance 1 of the pair
        mbar_init(base + 230432, rank == 1 ? 128 : 1); mbar_init(base + 230480, 8);   // bl: filled by instance 1 of the pair
        mbar_init(base + 230440, rank == 1 ? 128 : 1); mbar_init(base + 230488, 8);   // bp: filled by instance 1 of the pair
        mbar_init(base + 230512, 128); mbar_init(base + 230520, 128);
        mbar_init_done();
    }
    if (threadIdx.x == 0 && rank != 0) mbar_expect(base + 230400, 32768);
    if (threadIdx.x == 0 && rank != 0) mbar_expect(base + 230408, 32768);
    if (threadIdx.x == 0 && rank != 0) mbar_expect(base + 230416, 8192);
    if (threadIdx.x == 0 && rank != 1) mbar_expect(base + 230424, 32768);
    if (threadIdx.x == 0 && rank != 1) mbar_expect(base + 230432, 32768);
    if (threadIdx.x == 0 && rank != 1) mbar_expect(base + 230440, 8192);
    cluster_arrive();
    cluster_wait();
    int r0 = mine[0], r1 = mine[2];
    launch_dependents();
    if (r0 >= (int)B) r1 = r0 - 1;                          // a partition without work
    if (group == 0) {
        setmaxnreg_dec(72);
        u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, part8 = lane >> 3, tok = warp*8 + (lane & 7), phase = 1, qphase = 1, side = 0;
        u32 peer = mapa(base, rank ^ 1), row_at = tok*128;
        for (int b = r0; b <= r1; b++) {
            int first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (int)(topk + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0;
            if (steps == 0) continue;
            if (threadIdx.x == 0) {
                mbar_wait(base + 230504, qphase);
                mbar_expect(base + 230496, 65536);
                tma_load_4d(base, &tq, base + 230496, 0, m*64, 0, b);
            }
            qphase ^= 1;
            const int *list = index + ((u64)b*SQ + j)*topk;
            // slots of this thread's tokens, tok and tok + 32: in the block that this instance fills, and in the other
            int own0 = slot_at(list, (first + (int)rank)*64 + tok, last, topk), own1 = slot_at(list, (first + (int)rank)*64 + tok + 32, last, topk);
            int oth0 = slot_at(list, (first + 1 - (int)rank)*64 + tok, last, topk), oth1 = slot_at(list, (first + 1 - (int)rank)*64 + tok + 32, last, topk);
            for (int t = 0; t < steps; t++) {
                u32 ok0 = (u32)own0 < slots, ok1 = (u32)own1 < slots;
                const u8 *at0 = cache + (u64)(ok0 ? own0 : 0)*656, *at1 = cache + (u64)(ok1 ? own1 : 0)*656;
                u32 bits = __ballot_sync(0xffffffffu, ok0) & 0xff, bits1 = __ballot_sync(0xffffffffu, ok1) & 0xff;
                u32 bits2 = __ballot_sync(0xffffffffu, (u32)oth0 < slots) & 0xff, bits3 = __ballot_sync(0xffffffffu, (u32)oth1 < slots) & 0xff;
                if (lane == 0) {
                    u32 o = base + 230528 + side*16 + warp;
                    st_shared_u8(o + rank*8, bits); st_shared_u8(o + rank*8 + 4, bits1); st_shared_u8(o + 8 - rank*8, bits2); st_shared_u8(o + 12 - rank*8, bits3);
                }
                __syncwarp();
                mbar_arrive(base + 230512 + side*8);
                side ^= 1;
                int n = first + 2*t + 2 + (int)rank, x = first + 2*t + 3 - (int)rank;
                own0 = slot_at(list, n*64 + tok, last, topk); own1 = slot_at(list, n*64 + tok + 32, last, topk);
                oth0 = slot_at(list, x*64 + tok, last, topk); oth1 = slot_at(list, x*64 + tok + 32, last, topk);
                if (rank == 0) {
                {
                    uint4 v[4];
                    v[0] = load16(at0 + 528 + part8*16, ok0); v[1] = load16(at0 + 592 + part8*16, ok0); v[2] = load16(at1 + 528 + part8*16, ok1); v[3] = load16(at1 + 592 + part8*16, ok1);
                    mbar_wait(base + 230464, phase);
                    #pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        u32 to = 196608 + row_at + (i >> 1)*4096 + (((part8 + (i & 1)*4) ^ (lane & 7)) << 4);
                        st_both(base + to, peer + to, peer + 230416, v[i].x, v[i].y, v[i].z, v[i].w);
                    }
                    fence_async();
                    mbar_arrive(base + 230416);
                }
                {
                    uint4 v[8];
                    #pragma unroll
                    for (u32 i = 0; i < 4; i++) { v[i] = load16(at0 + 0 + i*64 + part8*16, ok0); v[4 + i] = load16(at1 + 0 + i*64 + part8*16, ok1); }
                    uint2 f0 = load8(at0 + 512, ok0), f1 = load8(at1 + 512, ok1);
                    mbar_wait(base + 230448, phase);
                    u32 sc[4] = {scale_pair(f0.x), scale_pair(f0.y), scale_pair(f1.x), scale_pair(f1.y)};
                    #pragma unroll
                    for (u32 i = 0; i < 8; i++) {
                        u32 to = 65536 + row_at + (i & 3)*8192 + (i >> 2)*4096, k = sc[(i >> 2)*2 + ((i & 3) >> 1)];
                        u32 c0 = ((part8*2) ^ (lane & 7)) << 4, c1 = ((part8*2 + 1) ^ (lane & 7)) << 4;
                        st_both(base + to + c0, peer + to + c0, peer + 230400, e4m3_lo(v[i].x, k), e4m3_hi(v[i].x, k), e4m3_lo(v[i].y, k), e4m3_hi(v[i].y, k));
                        st_both(base + to + c1, peer + to + c1, peer + 230400, e4m3_lo(v[i].z, k), e4m3_hi(v[i].z, k), e4m3_lo(v[i].w, k), e4m3_hi(v[i].w, k));
                    }
                    fence_async();
                    mbar_arrive(base + 230400);
                }
                {
                    uint4 v[8];
                    #pragma unroll
                    for (u32 i = 0; i < 4; i++) { v[i] = load16(at0 + 256 + i*64 + part8*16, ok0); v[4 + i] = load16(at1 + 256 + i*64 + part8*16, ok1); }
                    uint2 f0 = load8(at0 + 520, ok0), f1 = load8(at1 + 520, ok1);
                    mbar_wait(base + 230456, phase);
                    u32 sc[4] = {scale_pair(f0.x), scale_pair(f0.y), scale_pair(f1.x), scale_pair(f1.y)};
                    #pragma unroll
                    for (u32 i = 0; i < 8; i++) {
                        u32 to = 98304 + row_at + (i & 3)*8192 + (i >> 2)*4096, k = sc[(i >> 2)*2 + ((i & 3) >> 1)];
                        u32 c0 = ((part8*2) ^ (lane & 7)) << 4, c1 = ((part8*2 + 1) ^ (lane & 7)) << 4;
                        st_both(base + to + c0, peer + to + c0, peer + 230408, e4m3_lo(v[i].x, k), e4m3_hi(v[i].x, k), e4m3_lo(v[i].y, k), e4m3_hi(v[i].y, k));
                        st_both(base + to + c1, peer + to + c1, peer + 230408, e4m3_lo(v[i].z, k), e4m3_hi(v[i].z, k), e4m3_lo(v[i].w, k), e4m3_hi(v[i].w, k));
                    }
                    fence_async();
                    mbar_arrive(base + 230408);
                }
                } else {
                {
                    uint4 v[4];
                    v[0] = load16(at0 + 528 + part8*16, ok0); v[1] = load16(at0 + 592 + part8*16, ok0); v[2] = load16(at1 + 528 + part8*16, ok1); v[3] = load16(at1 + 592 + part8*16, ok1);
                    mbar_wait(base + 230488, phase);
                    #pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        u32 to = 204800 + row_at + (i >> 1)*4096 + (((part8 + (i & 1)*4) ^ (lane & 7)) << 4);
                        st_both(base + to, peer + to, peer + 230440, v[i].x, v[i].y, v[i].z, v[i].w);
                    }
                    fence_async();
                    mbar_arrive(base + 230440);
                }
                {
                    uint4 v[8];
                    #pragma unroll
                    for (u32 i = 0; i < 4; i++) { v[i] = load16(at0 + 256 + i*64 + part8*16, ok0); v[4 + i] = load16(at1 + 256 + i*64 + part8*16, ok1); }
                    uint2 f0 = load8(at0 + 520, ok0), f1 = load8(at1 + 520, ok1);
                    mbar_wait(base + 230472, phase);
                    u32 sc[4] = {scale_pair(f0.x), scale_pair(f0.y), scale_pair(f1.x), scale_pair(f1.y)};
                    #pragma unroll
                    for (u32 i = 0; i < 8; i++) {
                        u32 to = 163840 + row_at + (i & 3)*8192 + (i >> 2)*4096, k = sc[(i >> 2)*2 + ((i & 3) >> 1)];
                        u32 c0 = ((part8*2) ^ (lane & 7)) << 4, c1 = ((part8*2 + 1) ^ (lane & 7)) << 4;
                        st_both(base + to + c0, peer + to + c0, peer + 230424, e4m3_lo(v[i].x, k), e4m3_hi(v[i].x, k), e4m3_lo(v[i].y, k), e4m3_hi(v[i].y, k));
                        st_both(base + to + c1, peer + to + c1, peer + 230424, e4m3_lo(v[i].z, k), e4m3_hi(v[i].z, k), e4m3_lo(v[i].w, k), e4m3_hi(v[i].w, k));
                    }
                    fence_async();
                    mbar_arrive(base + 230424);
                }
                {
                    uint4 v[8];
                    #pragma unroll
                    for (u32 i = 0; i < 4; i++) { v[i] = load16(at0 + 0 + i*64 + part8*16, ok0); v[4 + i] = load16(at1 + 0 + i*64 + part8*16, ok1); }
                    uint2 f0 = load8(at0 + 512, ok0), f1 = load8(at1 + 512, ok1);
                    mbar_wait(base + 230480, phase);
                    u32 sc[4] = {scale_pair(f0.x), scale_pair(f0.y), scale_pair(f1.x), scale_pair(f1.y)};
                    #pragma unroll
                    for (u32 i = 0; i < 8; i++) {
                        u32 to = 131072 + row_at + (i & 3)*8192 + (i >> 2)*4096, k = sc[(i >> 2)*2 + ((i & 3) >> 1)];
                        u32 c0 = ((part8*2) ^ (lane & 7)) << 4, c1 = ((part8*2 + 1) ^ (lane & 7)) << 4;
                        st_both(base + to + c0, peer + to + c0, peer + 230432, e4m3_lo(v[i].x, k), e4m3_hi(v[i].x, k), e4m3_lo(v[i].y, k), e4m3_hi(v[i].y, k));
                        st_both(base + to + c1, peer + to + c1, peer + 230432, e4m3_lo(v[i].z, k), e4m3_hi(v[i].z, k), e4m3_lo(v[i].w, k), e4m3_hi(v[i].w, k));
                    }
                    fence_async();
                    mbar_arrive(base + 230432);
                }
                }
                prefetch_token(cache, own0, slots, part8);    // the next step's tokens, into L2
                prefetch_token(cache, own1, slots, part8);
                phase ^= 1;
            }
        }
    } else {
        setmaxnreg_inc(216);
        u32 lane = threadIdx.x & 31, warp = uniform(threadIdx.x >> 5) & 3, row = warp*16 + (lane >> 2), phase = 0, turn = 0, qphase = 0;
        u32 x_at = warp*2048 + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);      // of this lane in a [64][64] tile
        u32 vec = base + 229376 + row*4;
        float c = scale * 1.4426950408889634f;
        u32 d = (base & 0x3ffff) >> 4 | 512 << 16;        // (in a cluster the rank stands in bit 24) low word of every tile's descriptor: the lead counts for a transposed operand only
        if (group == 1) {
            for (int b = r0; b <= r1; b++) {
            int first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (int)(topk + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0;
                float lo[128], top0 = __int_as_float(0xff800000), top1 = top0, sum0 = 0, sum1 = 0;
                if (steps != 0) {
                    float s[32];
                    u32 qr[16];
                    {   // the rotary part of the query, straight into the form of a left operand
                        u32 r = m*64 + row; const u16 *at = Q + ((u64)b*rows + r)*576 + 512 + (lane & 3)*2; LOAD_ROTARY(qr);
                    }
                    mbar_wait(base + 230496, qphase); qphase ^= 1; mbar_wait(base + 230400, phase);
                    if (rank != 0) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230400, 32768); }
                    wgmma_fence();
                    wgmma_64x64x16_bf16_ss_at<0, 4096>(s, d, 0); wgmma_64x64x16_bf16_ss_at<2, 4098>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<4, 4100>(s, d, 1); wgmma_64x64x16_bf16_ss_at<6, 4102>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<512, 4608>(s, d, 1); wgmma_64x64x16_bf16_ss_at<514, 4610>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<516, 4612>(s, d, 1); wgmma_64x64x16_bf16_ss_at<518, 4614>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1024, 5120>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1026, 5122>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1028, 5124>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1030, 5126>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1536, 5632>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1538, 5634>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1540, 5636>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1542, 5638>(s, d, 1);
                    mbar_wait(base + 230408, phase);
                    if (rank != 0) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230408, 32768); }
                    wgmma_fence();
                    wgmma_64x64x16_bf16_ss_at<2048, 6144>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2050, 6146>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<2052, 6148>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2054, 6150>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<2560, 6656>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2562, 6658>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<2564, 6660>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2566, 6662>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3072, 7168>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3074, 7170>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3076, 7172>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3078, 7174>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3584, 7680>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3586, 7682>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3588, 7684>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3590, 7686>(s, d, 1);
                    mbar_wait(base + 230416, phase);
                    if (rank != 0) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230416, 8192); }
                    wgmma_fence();
                    wgmma_64x64x16_bf16_rs_at<12288>(s, qr[0], qr[1], qr[2], qr[3], d, 1);
                    wgmma_64x64x16_bf16_rs_at<12290>(s, qr[4], qr[5], qr[6], qr[7], d, 1);
                    wgmma_64x64x16_bf16_rs_at<12292>(s, qr[8], qr[9], qr[10], qr[11], d, 1);
                    wgmma_64x64x16_bf16_rs_at<12294>(s, qr[12], qr[13], qr[14], qr[15], d, 1);
                    wgmma_commit();
                    if (lane == 0) tma_wait_read(0);                        // the last output has left xa
                    __syncwarp();
                    int n = first;
                    for (; n + 2 < last; n += 2) {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230464, 0));
                        mbar_wait(base + 230512 + phase*8, turn);
                        u64 ok = ld_shared_u64(base + 230528 + phase*16);
                        if (ok != ~0ull) {
                            u32 ok0 = (u32)ok >> (lane & 3)*2, ok1 = (u32)(ok >> 32) >> (lane & 3)*2;
                            s[0] = ok0 & 1u ? s[0] : __int_as_float(0xff800000); s[1] = ok0 & 2u ? s[1] : __int_as_float(0xff800000);
                            s[2] = ok0 & 1u ? s[2] : __int_as_float(0xff800000); s[3] = ok0 & 2u ? s[3] : __int_as_float(0xff800000);
                            s[4] = ok0 & 256u ? s[4] : __int_as_float(0xff800000); s[5] = ok0 & 512u ? s[5] : __int_as_float(0xff800000);
                            s[6] = ok0 & 256u ? s[6] : __int_as_float(0xff800000); s[7] = ok0 & 512u ? s[7] : __int_as_float(0xff800000);
                            s[8] = ok0 & 65536u ? s[8] : __int_as_float(0xff800000); s[9] = ok0 & 131072u ? s[9] : __int_as_float(0xff800000);
                            s[10] = ok0 & 65536u ? s[10] : __int_as_float(0xff800000); s[11] = ok0 & 131072u ? s[11] : __int_as_float(0xff800000);
                            s[12] = ok0 & 16777216u ? s[12] : __int_as_float(0xff800000);
                            s[13] = ok0 & 33554432u ? s[13] : __int_as_float(0xff800000);
                            s[14] = ok0 & 16777216u ? s[14] : __int_as_float(0xff800000);
                            s[15] = ok0 & 33554432u ? s[15] : __int_as_float(0xff800000); s[16] = ok1 & 1u ? s[16] : __int_as_float(0xff800000);
                            s[17] = ok1 & 2u ? s[17] : __int_as_float(0xff800000); s[18] = ok1 & 1u ? s[18] : __int_as_float(0xff800000);
                            s[19] = ok1 & 2u ? s[19] : __int_as_float(0xff800000); s[20] = ok1 & 256u ? s[20] : __int_as_float(0xff800000);
                            s[21] = ok1 & 512u ? s[21] : __int_as_float(0xff800000); s[22] = ok1 & 256u ? s[22] : __int_as_float(0xff800000);
                            s[23] = ok1 & 512u ? s[23] : __int_as_float(0xff800000); s[24] = ok1 & 65536u ? s[24] : __int_as_float(0xff800000);
                            s[25] = ok1 & 131072u ? s[25] : __int_as_float(0xff800000); s[26] = ok1 & 65536u ? s[26] : __int_as_float(0xff800000);
                            s[27] = ok1 & 131072u ? s[27] : __int_as_float(0xff800000); s[28] = ok1 & 16777216u ? s[28] : __int_as_float(0xff800000);
                            s[29] = ok1 & 33554432u ? s[29] : __int_as_float(0xff800000);
                            s[30] = ok1 & 16777216u ? s[30] : __int_as_float(0xff800000);
                            s[31] = ok1 & 33554432u ? s[31] : __int_as_float(0xff800000);
                        }
                        float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]); MAX_28(s);
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                        if ((lane & 3) == 0) { st_shared(vec + 0, a0); st_shared(vec + 32, a1); }
                        bar_arrive(1, 256);
                        mbar_wait(base + 230400, phase);
                        float fix0 = exp2_fast((top0 - finite(a0))*c), fix1 = exp2_fast((top1 - finite(a1))*c); sum0 *= fix0; sum1 *= fix1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        EXP_32(s); u32 p[16]; PACK_16(p, s);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        wgmma_fence();
                        wgmma_64x256x16_bf16_rs_t_at<4096>(lo, p[0], p[1], p[2], p[3], d, n != first);
                        wgmma_64x256x16_bf16_rs_t_at<4224>(lo, p[4], p[5], p[6], p[7], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<4352>(lo, p[8], p[9], p[10], p[11], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<4480>(lo, p[12], p[13], p[14], p[15], d, 1);
                        wgmma_commit();
                        bar_sync(2, 256); top0 = ld_shared(vec + 256); top1 = ld_shared(vec + 288); fix0 = exp2_fast((a0 - finite(top0))*c);
                        fix1 = exp2_fast((a1 - finite(top1))*c); sum0 *= fix0; sum1 *= fix1; SCALE_32(s, fix0, fix1);
                        stmatrix_x4((base + 212992 + x_at) ^ 0, pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]), pack_bf16(s[6], s[7]));
                        stmatrix_x4((base + 212992 + x_at) ^ 32, pack_bf16(s[8], s[9]), pack_bf16(s[10], s[11]), pack_bf16(s[12], s[13]), pack_bf16(s[14], s[15]));
                        stmatrix_x4((base + 212992 + x_at) ^ 64, pack_bf16(s[16], s[17]), pack_bf16(s[18], s[19]), pack_bf16(s[20], s[21]), pack_bf16(s[22], s[23]));
                        stmatrix_x4((base + 212992 + x_at) ^ 96, pack_bf16(s[24], s[25]), pack_bf16(s[26], s[27]), pack_bf16(s[28], s[29]), pack_bf16(s[30], s[31]));
                        fence_async();
                        bar_arrive(3, 256);
                        mbar_wait(base + 230400, phase);
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230448, 0));
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        bar_sync(4, 256);
                        wgmma_fence();
                        wgmma_64x256x16_bf16_ss_t_at<13824, 8192>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13826, 8320>(lo, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13828, 8448>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13830, 8576>(lo, d, 1);
                        wgmma_commit();
                        phase ^= 1; turn ^= phase ^ 1;
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230480, 1));
                        mbar_wait(base + 230400, phase);
                        if (rank != 0) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230400, 32768); }
                        wgmma_fence();
                        wgmma_64x64x16_bf16_ss_at<0, 4096>(s, d, 0); wgmma_64x64x16_bf16_ss_at<2, 4098>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<4, 4100>(s, d, 1); wgmma_64x64x16_bf16_ss_at<6, 4102>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<512, 4608>(s, d, 1); wgmma_64x64x16_bf16_ss_at<514, 4610>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<516, 4612>(s, d, 1); wgmma_64x64x16_bf16_ss_at<518, 4614>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1024, 5120>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1026, 5122>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1028, 5124>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1030, 5126>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1536, 5632>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1538, 5634>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1540, 5636>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1542, 5638>(s, d, 1);
                        mbar_wait(base + 230408, phase);
                        if (rank != 0) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230408, 32768); }
                        wgmma_fence();
                        wgmma_64x64x16_bf16_ss_at<2048, 6144>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2050, 6146>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<2052, 6148>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2054, 6150>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<2560, 6656>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2562, 6658>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<2564, 6660>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2566, 6662>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3072, 7168>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3074, 7170>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3076, 7172>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3078, 7174>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3584, 7680>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3586, 7682>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3588, 7684>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3590, 7686>(s, d, 1);
                        mbar_wait(base + 230416, phase);
                        if (rank != 0) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230416, 8192); }
                        wgmma_fence();
                        wgmma_64x64x16_bf16_rs_at<12288>(s, qr[0], qr[1], qr[2], qr[3], d, 1);
                        wgmma_64x64x16_bf16_rs_at<12290>(s, qr[4], qr[5], qr[6], qr[7], d, 1);
                        wgmma_64x64x16_bf16_rs_at<12292>(s, qr[8], qr[9], qr[10], qr[11], d, 1);
                        wgmma_64x64x16_bf16_rs_at<12294>(s, qr[12], qr[13], qr[14], qr[15], d, 1);
                        wgmma_commit();
                    }
                    {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230464, 0));
                        if (lane == 0) mbar_arrive(base + 230504);
                        mbar_wait(base + 230512 + phase*8, turn);
                        u64 ok = ld_shared_u64(base + 230528 + phase*16);
                        if (ok != ~0ull) {
                            u32 ok0 = (u32)ok >> (lane & 3)*2, ok1 = (u32)(ok >> 32) >> (lane & 3)*2;
                            s[0] = ok0 & 1u ? s[0] : __int_as_float(0xff800000); s[1] = ok0 & 2u ? s[1] : __int_as_float(0xff800000);
                            s[2] = ok0 & 1u ? s[2] : __int_as_float(0xff800000); s[3] = ok0 & 2u ? s[3] : __int_as_float(0xff800000);
                            s[4] = ok0 & 256u ? s[4] : __int_as_float(0xff800000); s[5] = ok0 & 512u ? s[5] : __int_as_float(0xff800000);
                            s[6] = ok0 & 256u ? s[6] : __int_as_float(0xff800000); s[7] = ok0 & 512u ? s[7] : __int_as_float(0xff800000);
                            s[8] = ok0 & 65536u ? s[8] : __int_as_float(0xff800000); s[9] = ok0 & 131072u ? s[9] : __int_as_float(0xff800000);
                            s[10] = ok0 & 65536u ? s[10] : __int_as_float(0xff800000); s[11] = ok0 & 131072u ? s[11] : __int_as_float(0xff800000);
                            s[12] = ok0 & 16777216u ? s[12] : __int_as_float(0xff800000);
                            s[13] = ok0 & 33554432u ? s[13] : __int_as_float(0xff800000);
                            s[14] = ok0 & 16777216u ? s[14] : __int_as_float(0xff800000);
                            s[15] = ok0 & 33554432u ? s[15] : __int_as_float(0xff800000); s[16] = ok1 & 1u ? s[16] : __int_as_float(0xff800000);
                            s[17] = ok1 & 2u ? s[17] : __int_as_float(0xff800000); s[18] = ok1 & 1u ? s[18] : __int_as_float(0xff800000);
                            s[19] = ok1 & 2u ? s[19] : __int_as_float(0xff800000); s[20] = ok1 & 256u ? s[20] : __int_as_float(0xff800000);
                            s[21] = ok1 & 512u ? s[21] : __int_as_float(0xff800000); s[22] = ok1 & 256u ? s[22] : __int_as_float(0xff800000);
                            s[23] = ok1 & 512u ? s[23] : __int_as_float(0xff800000); s[24] = ok1 & 65536u ? s[24] : __int_as_float(0xff800000);
                            s[25] = ok1 & 131072u ? s[25] : __int_as_float(0xff800000); s[26] = ok1 & 65536u ? s[26] : __int_as_float(0xff800000);
                            s[27] = ok1 & 131072u ? s[27] : __int_as_float(0xff800000); s[28] = ok1 & 16777216u ? s[28] : __int_as_float(0xff800000);
                            s[29] = ok1 & 33554432u ? s[29] : __int_as_float(0xff800000);
                            s[30] = ok1 & 16777216u ? s[30] : __int_as_float(0xff800000);
                            s[31] = ok1 & 33554432u ? s[31] : __int_as_float(0xff800000);
                        }
                        float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]); MAX_28(s);
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                        if ((lane & 3) == 0) { st_shared(vec + 0, a0); st_shared(vec + 32, a1); }
                        bar_arrive(1, 256);
                        mbar_wait(base + 230400, phase);
                        float fix0 = exp2_fast((top0 - finite(a0))*c), fix1 = exp2_fast((top1 - finite(a1))*c); sum0 *= fix0; sum1 *= fix1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        EXP_32(s); u32 p[16]; PACK_16(p, s);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        wgmma_fence();
                        wgmma_64x256x16_bf16_rs_t_at<4096>(lo, p[0], p[1], p[2], p[3], d, n != first);
                        wgmma_64x256x16_bf16_rs_t_at<4224>(lo, p[4], p[5], p[6], p[7], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<4352>(lo, p[8], p[9], p[10], p[11], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<4480>(lo, p[12], p[13], p[14], p[15], d, 1);
                        wgmma_commit();
                        bar_sync(2, 256); top0 = ld_shared(vec + 256); top1 = ld_shared(vec + 288); fix0 = exp2_fast((a0 - finite(top0))*c);
                        fix1 = exp2_fast((a1 - finite(top1))*c); sum0 *= fix0; sum1 *= fix1; SCALE_32(s, fix0, fix1);
                        stmatrix_x4((base + 212992 + x_at) ^ 0, pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]), pack_bf16(s[6], s[7]));
                        stmatrix_x4((base + 212992 + x_at) ^ 32, pack_bf16(s[8], s[9]), pack_bf16(s[10], s[11]), pack_bf16(s[12], s[13]), pack_bf16(s[14], s[15]));
                        stmatrix_x4((base + 212992 + x_at) ^ 64, pack_bf16(s[16], s[17]), pack_bf16(s[18], s[19]), pack_bf16(s[20], s[21]), pack_bf16(s[22], s[23]));
                        stmatrix_x4((base + 212992 + x_at) ^ 96, pack_bf16(s[24], s[25]), pack_bf16(s[26], s[27]), pack_bf16(s[28], s[29]), pack_bf16(s[30], s[31]));
                        fence_async();
                        bar_arrive(3, 256);
                        mbar_wait(base + 230400, phase);
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230448, 0));
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        bar_sync(4, 256);
                        wgmma_fence();
                        wgmma_64x256x16_bf16_ss_t_at<13824, 8192>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13826, 8320>(lo, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13828, 8448>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13830, 8576>(lo, d, 1);
                        wgmma_commit();
                        phase ^= 1; turn ^= phase ^ 1;
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230480, 1));
                    }
                } else {
                    lo[0] = 0; lo[1] = 0; lo[2] = 0; lo[3] = 0; lo[4] = 0; lo[5] = 0; lo[6] = 0; lo[7] = 0; lo[8] = 0; lo[9] = 0; lo[10] = 0;
                    lo[11] = 0; lo[12] = 0; lo[13] = 0; lo[14] = 0; lo[15] = 0; lo[16] = 0; lo[17] = 0; lo[18] = 0; lo[19] = 0; lo[20] = 0;
                    lo[21] = 0; lo[22] = 0; lo[23] = 0; lo[24] = 0; lo[25] = 0; lo[26] = 0; lo[27] = 0; lo[28] = 0; lo[29] = 0; lo[30] = 0;
                    lo[31] = 0; lo[32] = 0; lo[33] = 0; lo[34] = 0; lo[35] = 0; lo[36] = 0; lo[37] = 0; lo[38] = 0; lo[39] = 0; lo[40] = 0;
                    lo[41] = 0; lo[42] = 0; lo[43] = 0; lo[44] = 0; lo[45] = 0; lo[46] = 0; lo[47] = 0; lo[48] = 0; lo[49] = 0; lo[50] = 0;
                    lo[51] = 0; lo[52] = 0; lo[53] = 0; lo[54] = 0; lo[55] = 0; lo[56] = 0; lo[57] = 0; lo[58] = 0; lo[59] = 0; lo[60] = 0;
                    lo[61] = 0; lo[62] = 0; lo[63] = 0; lo[64] = 0; lo[65] = 0; lo[66] = 0; lo[67] = 0; lo[68] = 0; lo[69] = 0; lo[70] = 0;
                    lo[71] = 0; lo[72] = 0; lo[73] = 0; lo[74] = 0; lo[75] = 0; lo[76] = 0; lo[77] = 0; lo[78] = 0; lo[79] = 0; lo[80] = 0;
                    lo[81] = 0; lo[82] = 0; lo[83] = 0; lo[84] = 0; lo[85] = 0; lo[86] = 0; lo[87] = 0; lo[88] = 0; lo[89] = 0; lo[90] = 0;
                    lo[91] = 0; lo[92] = 0; lo[93] = 0; lo[94] = 0; lo[95] = 0; lo[96] = 0; lo[97] = 0; lo[98] = 0; lo[99] = 0; lo[100] = 0;
                    lo[101] = 0; lo[102] = 0; lo[103] = 0; lo[104] = 0; lo[105] = 0; lo[106] = 0; lo[107] = 0; lo[108] = 0; lo[109] = 0; lo[110] = 0;
                    lo[111] = 0; lo[112] = 0; lo[113] = 0; lo[114] = 0; lo[115] = 0; lo[116] = 0; lo[117] = 0; lo[118] = 0; lo[119] = 0; lo[120] = 0;
                    lo[121] = 0; lo[122] = 0; lo[123] = 0; lo[124] = 0; lo[125] = 0; lo[126] = 0; lo[127] = 0;
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                }
                sum0 += shfl_xor_f(sum0, 1); sum1 += shfl_xor_f(sum1, 1); sum0 += shfl_xor_f(sum0, 2); sum1 += shfl_xor_f(sum1, 2);
                if ((lane & 3) == 0) { st_shared(vec + 512, sum0); st_shared(vec + 544, sum1); }
                bar_sync(5, 256);
                sum0 += ld_shared(vec + 768); sum1 += ld_shared(vec + 800);
                if (steps == 0) bar_sync(5, 256);                     // nothing else keeps the next sums off these
                float inv0 = sum0 > 0 ? 1.0f / sum0 : 0, inv1 = sum1 > 0 ? 1.0f / sum1 : 0;
                u32 split = first_split[b + 1] - first_split[b] != 1, slot = first_split[b] + (b == r0 ? mine[4] : 0), r = m*64 + row;
                u32 box = base + 212992 + warp*2048;
                if ((lane & 3) == 0) {
                    float *at = split ? lpart + (u64)slot*rows : lse + (u64)b*rows, unit = split ? 1.0f : 0.6931471805599453f;
                    float none = split ? __int_as_float(0xff800000) : -__int_as_float(0xff800000);
                    if (r < rows) at[r] = sum0 > 0 ? (top0*c + log2_fast(sum0))*unit : none;
                    if (r + 8 < rows) at[r + 8] = sum1 > 0 ? (top1*c + log2_fast(sum1))*unit : none;
                }
                if (split) {
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 0); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 0, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 16); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 32, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 32); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 64, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 48); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 96, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 64); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 128, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 80); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 160, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 96); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 192, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(lo, 112); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 224, m*64 + warp*16, slot); tma_commit(); }
                } else {
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 212992 + x_at) ^ 0, pack_bf16(lo[0]*inv0, lo[1]*inv0), pack_bf16(lo[2]*inv1, lo[3]*inv1), pack_bf16(lo[4]*inv0, lo[5]*inv0), pack_bf16(lo[6]*inv1, lo[7]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 32, pack_bf16(lo[8]*inv0, lo[9]*inv0), pack_bf16(lo[10]*inv1, lo[11]*inv1), pack_bf16(lo[12]*inv0, lo[13]*inv0), pack_bf16(lo[14]*inv1, lo[15]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 64, pack_bf16(lo[16]*inv0, lo[17]*inv0), pack_bf16(lo[18]*inv1, lo[19]*inv1), pack_bf16(lo[20]*inv0, lo[21]*inv0), pack_bf16(lo[22]*inv1, lo[23]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 96, pack_bf16(lo[24]*inv0, lo[25]*inv0), pack_bf16(lo[26]*inv1, lo[27]*inv1), pack_bf16(lo[28]*inv0, lo[29]*inv0), pack_bf16(lo[30]*inv1, lo[31]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 0, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 212992 + x_at) ^ 0, pack_bf16(lo[32]*inv0, lo[33]*inv0), pack_bf16(lo[34]*inv1, lo[35]*inv1), pack_bf16(lo[36]*inv0, lo[37]*inv0), pack_bf16(lo[38]*inv1, lo[39]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 32, pack_bf16(lo[40]*inv0, lo[41]*inv0), pack_bf16(lo[42]*inv1, lo[43]*inv1), pack_bf16(lo[44]*inv0, lo[45]*inv0), pack_bf16(lo[46]*inv1, lo[47]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 64, pack_bf16(lo[48]*inv0, lo[49]*inv0), pack_bf16(lo[50]*inv1, lo[51]*inv1), pack_bf16(lo[52]*inv0, lo[53]*inv0), pack_bf16(lo[54]*inv1, lo[55]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 96, pack_bf16(lo[56]*inv0, lo[57]*inv0), pack_bf16(lo[58]*inv1, lo[59]*inv1), pack_bf16(lo[60]*inv0, lo[61]*inv0), pack_bf16(lo[62]*inv1, lo[63]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 64, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 212992 + x_at) ^ 0, pack_bf16(lo[64]*inv0, lo[65]*inv0), pack_bf16(lo[66]*inv1, lo[67]*inv1), pack_bf16(lo[68]*inv0, lo[69]*inv0), pack_bf16(lo[70]*inv1, lo[71]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 32, pack_bf16(lo[72]*inv0, lo[73]*inv0), pack_bf16(lo[74]*inv1, lo[75]*inv1), pack_bf16(lo[76]*inv0, lo[77]*inv0), pack_bf16(lo[78]*inv1, lo[79]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 64, pack_bf16(lo[80]*inv0, lo[81]*inv0), pack_bf16(lo[82]*inv1, lo[83]*inv1), pack_bf16(lo[84]*inv0, lo[85]*inv0), pack_bf16(lo[86]*inv1, lo[87]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 96, pack_bf16(lo[88]*inv0, lo[89]*inv0), pack_bf16(lo[90]*inv1, lo[91]*inv1), pack_bf16(lo[92]*inv0, lo[93]*inv0), pack_bf16(lo[94]*inv1, lo[95]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 128, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 212992 + x_at) ^ 0, pack_bf16(lo[96]*inv0, lo[97]*inv0), pack_bf16(lo[98]*inv1, lo[99]*inv1), pack_bf16(lo[100]*inv0, lo[101]*inv0), pack_bf16(lo[102]*inv1, lo[103]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 32, pack_bf16(lo[104]*inv0, lo[105]*inv0), pack_bf16(lo[106]*inv1, lo[107]*inv1), pack_bf16(lo[108]*inv0, lo[109]*inv0), pack_bf16(lo[110]*inv1, lo[111]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 64, pack_bf16(lo[112]*inv0, lo[113]*inv0), pack_bf16(lo[114]*inv1, lo[115]*inv1), pack_bf16(lo[116]*inv0, lo[117]*inv0), pack_bf16(lo[118]*inv1, lo[119]*inv1));
                    stmatrix_x4((base + 212992 + x_at) ^ 96, pack_bf16(lo[120]*inv0, lo[121]*inv0), pack_bf16(lo[122]*inv1, lo[123]*inv1), pack_bf16(lo[124]*inv0, lo[125]*inv0), pack_bf16(lo[126]*inv1, lo[127]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 192, m*64 + warp*16, b); tma_commit(); }
                }
            }
        } else {
            for (int b = r0; b <= r1; b++) {
            int first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (int)(topk + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0;
                float hi[128], top0 = __int_as_float(0xff800000), top1 = top0, sum0 = 0, sum1 = 0;
                if (steps != 0) {
                    float s[32];
                    u32 qr[16];
                    {   // the rotary part of the query, straight into the form of a left operand
                        u32 r = m*64 + row; const u16 *at = Q + ((u64)b*rows + r)*576 + 512 + (lane & 3)*2; LOAD_ROTARY(qr);
                    }
                    mbar_wait(base + 230496, qphase); qphase ^= 1; mbar_wait(base + 230432, phase);
                    if (rank != 1) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230432, 32768); }
                    wgmma_fence();
                    wgmma_64x64x16_bf16_ss_at<0, 8192>(s, d, 0); wgmma_64x64x16_bf16_ss_at<2, 8194>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<4, 8196>(s, d, 1); wgmma_64x64x16_bf16_ss_at<6, 8198>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<512, 8704>(s, d, 1); wgmma_64x64x16_bf16_ss_at<514, 8706>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<516, 8708>(s, d, 1); wgmma_64x64x16_bf16_ss_at<518, 8710>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1024, 9216>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1026, 9218>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1028, 9220>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1030, 9222>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1536, 9728>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1538, 9730>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<1540, 9732>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1542, 9734>(s, d, 1);
                    mbar_wait(base + 230424, phase);
                    if (rank != 1) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230424, 32768); }
                    wgmma_fence();
                    wgmma_64x64x16_bf16_ss_at<2048, 10240>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2050, 10242>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<2052, 10244>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2054, 10246>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<2560, 10752>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2562, 10754>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<2564, 10756>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2566, 10758>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3072, 11264>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3074, 11266>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3076, 11268>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3078, 11270>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3584, 11776>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3586, 11778>(s, d, 1);
                    wgmma_64x64x16_bf16_ss_at<3588, 11780>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3590, 11782>(s, d, 1);
                    mbar_wait(base + 230440, phase);
                    if (rank != 1) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230440, 8192); }
                    wgmma_fence();
                    wgmma_64x64x16_bf16_rs_at<12800>(s, qr[0], qr[1], qr[2], qr[3], d, 1);
                    wgmma_64x64x16_bf16_rs_at<12802>(s, qr[4], qr[5], qr[6], qr[7], d, 1);
                    wgmma_64x64x16_bf16_rs_at<12804>(s, qr[8], qr[9], qr[10], qr[11], d, 1);
                    wgmma_64x64x16_bf16_rs_at<12806>(s, qr[12], qr[13], qr[14], qr[15], d, 1);
                    wgmma_commit();
                    if (lane == 0) tma_wait_read(0);                        // the last output has left xb
                    __syncwarp();
                    int n = first;
                    for (; n + 2 < last; n += 2) {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230488, 1));
                        mbar_wait(base + 230512 + phase*8, turn);
                        u64 ok = ld_shared_u64(base + 230536 + phase*16);
                        if (ok != ~0ull) {
                            u32 ok0 = (u32)ok >> (lane & 3)*2, ok1 = (u32)(ok >> 32) >> (lane & 3)*2;
                            s[0] = ok0 & 1u ? s[0] : __int_as_float(0xff800000); s[1] = ok0 & 2u ? s[1] : __int_as_float(0xff800000);
                            s[2] = ok0 & 1u ? s[2] : __int_as_float(0xff800000); s[3] = ok0 & 2u ? s[3] : __int_as_float(0xff800000);
                            s[4] = ok0 & 256u ? s[4] : __int_as_float(0xff800000); s[5] = ok0 & 512u ? s[5] : __int_as_float(0xff800000);
                            s[6] = ok0 & 256u ? s[6] : __int_as_float(0xff800000); s[7] = ok0 & 512u ? s[7] : __int_as_float(0xff800000);
                            s[8] = ok0 & 65536u ? s[8] : __int_as_float(0xff800000); s[9] = ok0 & 131072u ? s[9] : __int_as_float(0xff800000);
                            s[10] = ok0 & 65536u ? s[10] : __int_as_float(0xff800000); s[11] = ok0 & 131072u ? s[11] : __int_as_float(0xff800000);
                            s[12] = ok0 & 16777216u ? s[12] : __int_as_float(0xff800000);
                            s[13] = ok0 & 33554432u ? s[13] : __int_as_float(0xff800000);
                            s[14] = ok0 & 16777216u ? s[14] : __int_as_float(0xff800000);
                            s[15] = ok0 & 33554432u ? s[15] : __int_as_float(0xff800000); s[16] = ok1 & 1u ? s[16] : __int_as_float(0xff800000);
                            s[17] = ok1 & 2u ? s[17] : __int_as_float(0xff800000); s[18] = ok1 & 1u ? s[18] : __int_as_float(0xff800000);
                            s[19] = ok1 & 2u ? s[19] : __int_as_float(0xff800000); s[20] = ok1 & 256u ? s[20] : __int_as_float(0xff800000);
                            s[21] = ok1 & 512u ? s[21] : __int_as_float(0xff800000); s[22] = ok1 & 256u ? s[22] : __int_as_float(0xff800000);
                            s[23] = ok1 & 512u ? s[23] : __int_as_float(0xff800000); s[24] = ok1 & 65536u ? s[24] : __int_as_float(0xff800000);
                            s[25] = ok1 & 131072u ? s[25] : __int_as_float(0xff800000); s[26] = ok1 & 65536u ? s[26] : __int_as_float(0xff800000);
                            s[27] = ok1 & 131072u ? s[27] : __int_as_float(0xff800000); s[28] = ok1 & 16777216u ? s[28] : __int_as_float(0xff800000);
                            s[29] = ok1 & 33554432u ? s[29] : __int_as_float(0xff800000);
                            s[30] = ok1 & 16777216u ? s[30] : __int_as_float(0xff800000);
                            s[31] = ok1 & 33554432u ? s[31] : __int_as_float(0xff800000);
                        }
                        float a0 = s[0], a1 = s[2], b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]); MAX_28(s);
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2)); bar_sync(1, 256);
                        a0 = fmax32(a0, ld_shared(vec + 0)); a1 = fmax32(a1, ld_shared(vec + 32));
                        if ((lane & 3) == 0) { st_shared(vec + 256, a0); st_shared(vec + 288, a1); }
                        bar_arrive(2, 256);
                        mbar_wait(base + 230424, phase);
                        float fix0 = exp2_fast((top0 - finite(a0))*c), fix1 = exp2_fast((top1 - finite(a1))*c); sum0 *= fix0; sum1 *= fix1;
                        top0 = a0; top1 = a1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        EXP_32(s); u32 p[16]; PACK_16(p, s);
                        stmatrix_x4((base + 221184 + x_at) ^ 0, p[0], p[1], p[2], p[3]);
                        stmatrix_x4((base + 221184 + x_at) ^ 32, p[4], p[5], p[6], p[7]);
                        stmatrix_x4((base + 221184 + x_at) ^ 64, p[8], p[9], p[10], p[11]);
                        stmatrix_x4((base + 221184 + x_at) ^ 96, p[12], p[13], p[14], p[15]);
                        fence_async();
                        bar_arrive(4, 256);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        #pragma unroll
                        for (int i = 0; i < 32; i++) {
                            hi[4*i] *= fix0; hi[4*i + 1] *= fix0; hi[4*i + 2] *= fix1; hi[4*i + 3] *= fix1;
                        }
                        }
                        wgmma_fence();
                        wgmma_64x256x16_bf16_rs_t_at<10240>(hi, p[0], p[1], p[2], p[3], d, n != first);
                        wgmma_64x256x16_bf16_rs_t_at<10368>(hi, p[4], p[5], p[6], p[7], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<10496>(hi, p[8], p[9], p[10], p[11], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<10624>(hi, p[12], p[13], p[14], p[15], d, 1);
                        wgmma_commit();
                        bar_sync(3, 256);
                        wgmma_64x256x16_bf16_ss_t_at<13312, 6144>(hi, d, 1); wgmma_64x256x16_bf16_ss_t_at<13314, 6272>(hi, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13316, 6400>(hi, d, 1); wgmma_64x256x16_bf16_ss_t_at<13318, 6528>(hi, d, 1);
                        wgmma_commit();
                        wgmma_wait(1);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230472, 1));
                        phase ^= 1; turn ^= phase ^ 1;
                        wgmma_wait(0);
                        pin_128(hi);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230456, 0));
                        mbar_wait(base + 230424, phase);
                        if (rank != 1) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230424, 32768); }
                        wgmma_fence();
                        wgmma_64x64x16_bf16_ss_at<2048, 10240>(s, d, 0); wgmma_64x64x16_bf16_ss_at<2050, 10242>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<2052, 10244>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2054, 10246>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<2560, 10752>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2562, 10754>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<2564, 10756>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2566, 10758>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3072, 11264>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3074, 11266>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3076, 11268>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3078, 11270>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3584, 11776>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3586, 11778>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<3588, 11780>(s, d, 1); wgmma_64x64x16_bf16_ss_at<3590, 11782>(s, d, 1);
                        mbar_wait(base + 230432, phase);
                        if (rank != 1) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230432, 32768); }
                        wgmma_fence();
                        wgmma_64x64x16_bf16_ss_at<0, 8192>(s, d, 1); wgmma_64x64x16_bf16_ss_at<2, 8194>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<4, 8196>(s, d, 1); wgmma_64x64x16_bf16_ss_at<6, 8198>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<512, 8704>(s, d, 1); wgmma_64x64x16_bf16_ss_at<514, 8706>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<516, 8708>(s, d, 1); wgmma_64x64x16_bf16_ss_at<518, 8710>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1024, 9216>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1026, 9218>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1028, 9220>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1030, 9222>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1536, 9728>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1538, 9730>(s, d, 1);
                        wgmma_64x64x16_bf16_ss_at<1540, 9732>(s, d, 1); wgmma_64x64x16_bf16_ss_at<1542, 9734>(s, d, 1);
                        mbar_wait(base + 230440, phase);
                        if (rank != 1) { fence_async(); if ((threadIdx.x & 127) == 0) mbar_expect(base + 230440, 8192); }
                        wgmma_fence();
                        wgmma_64x64x16_bf16_rs_at<12800>(s, qr[0], qr[1], qr[2], qr[3], d, 1);
                        wgmma_64x64x16_bf16_rs_at<12802>(s, qr[4], qr[5], qr[6], qr[7], d, 1);
                        wgmma_64x64x16_bf16_rs_at<12804>(s, qr[8], qr[9], qr[10], qr[11], d, 1);
                        wgmma_64x64x16_bf16_rs_at<12806>(s, qr[12], qr[13], qr[14], qr[15], d, 1);
                        wgmma_commit();
                    }
                    {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230488, 1));
                        if (lane == 0) mbar_arrive(base + 230504);
                        mbar_wait(base + 230512 + phase*8, turn);
                        u64 ok = ld_shared_u64(base + 230536 + phase*16);
                        if (ok != ~0ull) {
                            u32 ok0 = (u32)ok >> (lane & 3)*2, ok1 = (u32)(ok >> 32) >> (lane & 3)*2;
                            s[0] = ok0 & 1u ? s[0] : __int_as_float(0xff800000); s[1] = ok0 & 2u ? s[1] : __int_as_float(0xff800000);
                            s[2] = ok0 & 1u ? s[2] : __int_as_float(0xff800000); s[3] = ok0 & 2u ? s[3] : __int_as_float(0xff800000);
                            s[4] = ok0 & 256u ? s[4] : __int_as_float(0xff800000); s[5] = ok0 & 512u ? s[5] : __int_as_float(0xff800000);
                            s[6] = ok0 & 256u ? s[6] : __int_as_float(0xff800000); s[7] = ok0 & 512u ? s[7] : __int_as_float(0xff800000);
                            s[8] = ok0 & 65536u ? s[8] : __int_as_float(0xff800000); s[9] = ok0 & 131072u ? s[9] : __int_as_float(0xff800000);
                            s[10] = ok0 & 65536u ? s[10] : __int_as_float(0xff800000); s[11] = ok0 & 131072u ? s[11] : __int_as_float(0xff800000);
                            s[12] = ok0 & 16777216u ? s[12] : __int_as_float(0xff800000);
                            s[13] = ok0 & 33554432u ? s[13] : __int_as_float(0xff800000);
                            s[14] = ok0 & 16777216u ? s[14] : __int_as_float(0xff800000);
                            s[15] = ok0 & 33554432u ? s[15] : __int_as_float(0xff800000); s[16] = ok1 & 1u ? s[16] : __int_as_float(0xff800000);
                            s[17] = ok1 & 2u ? s[17] : __int_as_float(0xff800000); s[18] = ok1 & 1u ? s[18] : __int_as_float(0xff800000);
                            s[19] = ok1 & 2u ? s[19] : __int_as_float(0xff800000); s[20] = ok1 & 256u ? s[20] : __int_as_float(0xff800000);
                            s[21] = ok1 & 512u ? s[21] : __int_as_float(0xff800000); s[22] = ok1 & 256u ? s[22] : __int_as_float(0xff800000);
                            s[23] = ok1 & 512u ? s[23] : __int_as_float(0xff800000); s[24] = ok1 & 65536u ? s[24] : __int_as_float(0xff800000);
                            s[25] = ok1 & 131072u ? s[25] : __int_as_float(0xff800000); s[26] = ok1 & 65536u ? s[26] : __int_as_float(0xff800000);
                            s[27] = ok1 & 131072u ? s[27] : __int_as_float(0xff800000); s[28] = ok1 & 16777216u ? s[28] : __int_as_float(0xff800000);
                            s[29] = ok1 & 33554432u ? s[29] : __int_as_float(0xff800000);
                            s[30] = ok1 & 16777216u ? s[30] : __int_as_float(0xff800000);
                            s[31] = ok1 & 33554432u ? s[31] : __int_as_float(0xff800000);
                        }
                        float a0 = s[0], a1 = s[2], b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]); MAX_28(s);
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2)); bar_sync(1, 256);
                        a0 = fmax32(a0, ld_shared(vec + 0)); a1 = fmax32(a1, ld_shared(vec + 32));
                        if ((lane & 3) == 0) { st_shared(vec + 256, a0); st_shared(vec + 288, a1); }
                        bar_arrive(2, 256);
                        mbar_wait(base + 230424, phase);
                        float fix0 = exp2_fast((top0 - finite(a0))*c), fix1 = exp2_fast((top1 - finite(a1))*c); sum0 *= fix0; sum1 *= fix1;
                        top0 = a0; top1 = a1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        EXP_32(s); u32 p[16]; PACK_16(p, s);
                        stmatrix_x4((base + 221184 + x_at) ^ 0, p[0], p[1], p[2], p[3]);
                        stmatrix_x4((base + 221184 + x_at) ^ 32, p[4], p[5], p[6], p[7]);
                        stmatrix_x4((base + 221184 + x_at) ^ 64, p[8], p[9], p[10], p[11]);
                        stmatrix_x4((base + 221184 + x_at) ^ 96, p[12], p[13], p[14], p[15]);
                        fence_async();
                        bar_arrive(4, 256);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        #pragma unroll
                        for (int i = 0; i < 32; i++) {
                            hi[4*i] *= fix0; hi[4*i + 1] *= fix0; hi[4*i + 2] *= fix1; hi[4*i + 3] *= fix1;
                        }
                        }
                        wgmma_fence();
                        wgmma_64x256x16_bf16_rs_t_at<10240>(hi, p[0], p[1], p[2], p[3], d, n != first);
                        wgmma_64x256x16_bf16_rs_t_at<10368>(hi, p[4], p[5], p[6], p[7], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<10496>(hi, p[8], p[9], p[10], p[11], d, 1);
                        wgmma_64x256x16_bf16_rs_t_at<10624>(hi, p[12], p[13], p[14], p[15], d, 1);
                        wgmma_commit();
                        bar_sync(3, 256);
                        wgmma_64x256x16_bf16_ss_t_at<13312, 6144>(hi, d, 1); wgmma_64x256x16_bf16_ss_t_at<13314, 6272>(hi, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13316, 6400>(hi, d, 1); wgmma_64x256x16_bf16_ss_t_at<13318, 6528>(hi, d, 1);
                        wgmma_commit();
                        wgmma_wait(1);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230472, 1));
                        phase ^= 1; turn ^= phase ^ 1;
                        wgmma_wait(0);
                        pin_128(hi);
                        if (lane == 0) mbar_arrive_cluster(mapa(base + 230456, 0));
                    }
                } else {
                    #pragma unroll
                    for (int i = 0; i < 128; i++) hi[i] = 0;
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                }
                sum0 += shfl_xor_f(sum0, 1); sum1 += shfl_xor_f(sum1, 1); sum0 += shfl_xor_f(sum0, 2); sum1 += shfl_xor_f(sum1, 2);
                if ((lane & 3) == 0) { st_shared(vec + 768, sum0); st_shared(vec + 800, sum1); }
                bar_sync(5, 256);
                sum0 += ld_shared(vec + 512); sum1 += ld_shared(vec + 544);
                if (steps == 0) bar_sync(5, 256);                     // nothing else keeps the next sums off these
                float inv0 = sum0 > 0 ? 1.0f / sum0 : 0, inv1 = sum1 > 0 ? 1.0f / sum1 : 0;
                u32 split = first_split[b + 1] - first_split[b] != 1, slot = first_split[b] + (b == r0 ? mine[4] : 0), r = m*64 + row;
                u32 box = base + 221184 + warp*2048;
                if (split) {
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 0); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 256, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 16); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 288, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 32); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 320, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 48); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 352, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 64); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 384, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 80); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 416, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 96); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 448, m*64 + warp*16, slot); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp(); STORE_16(hi, 112); fence_async(); __syncwarp();
                    if (lane == 0) { tma_store_3d(&tpart, box, 480, m*64 + warp*16, slot); tma_commit(); }
                } else {
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 221184 + x_at) ^ 0, pack_bf16(hi[0]*inv0, hi[1]*inv0), pack_bf16(hi[2]*inv1, hi[3]*inv1), pack_bf16(hi[4]*inv0, hi[5]*inv0), pack_bf16(hi[6]*inv1, hi[7]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 32, pack_bf16(hi[8]*inv0, hi[9]*inv0), pack_bf16(hi[10]*inv1, hi[11]*inv1), pack_bf16(hi[12]*inv0, hi[13]*inv0), pack_bf16(hi[14]*inv1, hi[15]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 64, pack_bf16(hi[16]*inv0, hi[17]*inv0), pack_bf16(hi[18]*inv1, hi[19]*inv1), pack_bf16(hi[20]*inv0, hi[21]*inv0), pack_bf16(hi[22]*inv1, hi[23]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 96, pack_bf16(hi[24]*inv0, hi[25]*inv0), pack_bf16(hi[26]*inv1, hi[27]*inv1), pack_bf16(hi[28]*inv0, hi[29]*inv0), pack_bf16(hi[30]*inv1, hi[31]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 256, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 221184 + x_at) ^ 0, pack_bf16(hi[32]*inv0, hi[33]*inv0), pack_bf16(hi[34]*inv1, hi[35]*inv1), pack_bf16(hi[36]*inv0, hi[37]*inv0), pack_bf16(hi[38]*inv1, hi[39]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 32, pack_bf16(hi[40]*inv0, hi[41]*inv0), pack_bf16(hi[42]*inv1, hi[43]*inv1), pack_bf16(hi[44]*inv0, hi[45]*inv0), pack_bf16(hi[46]*inv1, hi[47]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 64, pack_bf16(hi[48]*inv0, hi[49]*inv0), pack_bf16(hi[50]*inv1, hi[51]*inv1), pack_bf16(hi[52]*inv0, hi[53]*inv0), pack_bf16(hi[54]*inv1, hi[55]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 96, pack_bf16(hi[56]*inv0, hi[57]*inv0), pack_bf16(hi[58]*inv1, hi[59]*inv1), pack_bf16(hi[60]*inv0, hi[61]*inv0), pack_bf16(hi[62]*inv1, hi[63]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 320, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 221184 + x_at) ^ 0, pack_bf16(hi[64]*inv0, hi[65]*inv0), pack_bf16(hi[66]*inv1, hi[67]*inv1), pack_bf16(hi[68]*inv0, hi[69]*inv0), pack_bf16(hi[70]*inv1, hi[71]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 32, pack_bf16(hi[72]*inv0, hi[73]*inv0), pack_bf16(hi[74]*inv1, hi[75]*inv1), pack_bf16(hi[76]*inv0, hi[77]*inv0), pack_bf16(hi[78]*inv1, hi[79]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 64, pack_bf16(hi[80]*inv0, hi[81]*inv0), pack_bf16(hi[82]*inv1, hi[83]*inv1), pack_bf16(hi[84]*inv0, hi[85]*inv0), pack_bf16(hi[86]*inv1, hi[87]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 96, pack_bf16(hi[88]*inv0, hi[89]*inv0), pack_bf16(hi[90]*inv1, hi[91]*inv1), pack_bf16(hi[92]*inv0, hi[93]*inv0), pack_bf16(hi[94]*inv1, hi[95]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 384, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    stmatrix_x4((base + 221184 + x_at) ^ 0, pack_bf16(hi[96]*inv0, hi[97]*inv0), pack_bf16(hi[98]*inv1, hi[99]*inv1), pack_bf16(hi[100]*inv0, hi[101]*inv0), pack_bf16(hi[102]*inv1, hi[103]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 32, pack_bf16(hi[104]*inv0, hi[105]*inv0), pack_bf16(hi[106]*inv1, hi[107]*inv1), pack_bf16(hi[108]*inv0, hi[109]*inv0), pack_bf16(hi[110]*inv1, hi[111]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 64, pack_bf16(hi[112]*inv0, hi[113]*inv0), pack_bf16(hi[114]*inv1, hi[115]*inv1), pack_bf16(hi[116]*inv0, hi[117]*inv0), pack_bf16(hi[118]*inv1, hi[119]*inv1));
                    stmatrix_x4((base + 221184 + x_at) ^ 96, pack_bf16(hi[120]*inv0, hi[121]*inv0), pack_bf16(hi[122]*inv1, hi[123]*inv1), pack_bf16(hi[124]*inv0, hi[125]*inv0), pack_bf16(hi[126]*inv1, hi[127]*inv1));
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 448, m*64 + warp*16, b); tma_commit(); }
                }
            }
        }
        if (lane == 0) tma_wait_read(0);
    }
    cluster_arrive();   // nobody leaves while the other may still write into it
    cluster_wait();
}
