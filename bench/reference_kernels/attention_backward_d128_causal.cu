// SPDX-License-Identifier: MIT
// attention_backward_d128_causal.cu - hand-written reference kernel: as attention_backward_d128.cu, bottom-right causal (sm_90a)
//
// 64 queries per step waste less on the diagonal than 80. A task is the i-th longest key tile of a head and the i-th
// shortest: all tasks cost the same, and few heads are worked on at a time (their q, dO and dQ stay in L2).
// Query tiles run from the last to the first: key tiles of one head then read the same ones at the same time.
// rows and finish stand in the other file.
#include "prelude.cuh"

DEVICE void wgmma_64x64x16_bf16_ss_at(float (&d)[32], u32 a, u32 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 x, y;\n\tmov.b64 x, {%32, 1073741888};\n\tmov.b64 y, {%33, 1073741888};\n\tsetp.ne.b32 p, %34, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, x, y, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "r"(a), "r"(b), "r"(add));
}

DEVICE void wgmma_64x64x16_bf16_ss_ta_at(float (&d)[32], u32 a, u32 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 x, y;\n\tmov.b64 x, {%32, 1073741888};\n\tmov.b64 y, {%33, 1073741888};\n\tsetp.ne.b32 p, %34, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, x, y, p, 1, 1, 1, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "r"(a), "r"(b), "r"(add));
}

// 64 queries x 128 keys per step. k 0, v 32768, q 65536 2 x 16384, go 98304 2 x 16384, dst 131072 2 x 16384, dq staging 163840, barriers 198656; 198752 bytes
extern "C" __global__ void __launch_bounds__(384, 1)
kernel(const __grid_constant__ TensorMap tq, const __grid_constant__ TensorMap tk, const __grid_constant__ TensorMap tv, const __grid_constant__ TensorMap tgo,
       const __grid_constant__ TensorMap tlse, const __grid_constant__ TensorMap tdelta, const __grid_constant__ TensorMap tdq,
       const __grid_constant__ TensorMap tdk, const __grid_constant__ TensorMap tdv,
       u32 heads, u32 H, u32 HKV, u32 ratio, u32 S, u32 SKV, u32 tiles_m, u32 tiles_n, float scale)
{
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = smem_addr(smem), group = uniform(threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        tma_prefetch(&tq); tma_prefetch(&tk); tma_prefetch(&tv); tma_prefetch(&tgo); tma_prefetch(&tlse); tma_prefetch(&tdelta); tma_prefetch(&tdq);
        mbar_init(base + 198656, 1); mbar_init(base + 198664, 8); mbar_init(base + 198672, 1); mbar_init(base + 198680, 8);
        for (u32 i = 0; i < 2; i++) {
            mbar_init(base + 198688 + 8*i, 1); mbar_init(base + 198704 + 8*i, 8);
            mbar_init(base + 198720 + 8*i, 1); mbar_init(base + 198736 + 8*i, 8);
        }
        mbar_init_done();
    }
    __syncthreads();
    u32 pairs = (tiles_n + 1) / 2, tiles = heads * pairs;
    int past = (int)SKV - (int)S;
    if (group == 0) {
        setmaxnreg_dec(24);
        if (threadIdx.x == 0) {
            u32 slot = 0, phase = 1, kphase = 1;
            for (u32 t = blockIdx.x; t < tiles; t += gridDim.x) for (u32 pass = 0; pass < 2; pass++) {
            u32 pair = t % pairs, hb = t / pairs, n = pass ? tiles_n - 1 - pair : pair;
            if (pass != 0 && n == pair) continue;
            u32 hkv = hb % HKV, b = hb / HKV;
            u32 first = min((u32)max(0, (int)n*128 - past) / 64, tiles_m), count = tiles_m - first, steps = count * ratio;
                if (steps == 0) continue;
                u32 h = hkv*ratio, m = tiles_m - 1;
                for (u32 i = 0; i < steps; i++) {
                    if (i == 0) { mbar_wait(base + 198664, kphase); mbar_expect(base + 198656, 32768); tma_load_5d(base + 0, &tk, base + 198656, 0, n*128, 0, hkv, b); }
                    mbar_wait(base + 198704 + 8*slot, phase);
                    mbar_expect(base + 198688 + 8*slot, 16640);
                    tma_load_5d(base + 65536 + slot*16384, &tq, base + 198688 + 8*slot, 0, m*64, 0, h, b);
                    tma_load_2d(base + 196608 + slot*512, &tlse, base + 198688 + 8*slot, m*64, b*H + h);
                    if (i == 0) { mbar_wait(base + 198680, kphase); kphase ^= 1; mbar_expect(base + 198672, 32768); tma_load_5d(base + 32768, &tv, base + 198672, 0, n*128, 0, hkv, b); }
                    mbar_wait(base + 198736 + 8*slot, phase);
                    mbar_expect(base + 198720 + 8*slot, 16640);
                    tma_load_5d(base + 98304 + slot*16384, &tgo, base + 198720 + 8*slot, 0, m*64, 0, h, b);
                    tma_load_2d(base + 197632 + slot*512, &tdelta, base + 198720 + 8*slot, m*64, b*H + h);
                    if (++slot == 2) { slot = 0; phase ^= 1; }
                    if (m-- == first) { m = tiles_m - 1; h++; }
                }
            }
        }
    } else {
        setmaxnreg_inc(240);
        u32 lane = threadIdx.x & 31, warp = uniform(threadIdx.x >> 5) & 3, wg = group - 1, slot = 0, phase = 0, kphase = 0, side = 0;
        float c = scale * 1.4426950408889634f;
        u32 lo = (base & 0x3ffff) >> 4, dq0 = lo | 512 << 16, dk0 = lo + wg*512;          // leads: 8192 for q and go as right operands
        u32 da = lo + wg*1024 | 1024 << 16;                                                        // k transposed: this group's 64 columns
        u32 dst_at = base + 131072 + wg*8192 + ((lane >> 4)*8 + (lane & 7))*128 + (((2*warp + ((lane >> 3) & 1)) ^ (lane & 7)) << 4);
        u32 dqs = base + 163840 + wg*16384;
        // dq^T: row d = 16*warp + lane/4 (+8), column = query 8j + 2*(lane%4) (+1); staged [2 panels of 32 d][BM][128 bytes], swizzled
        u32 st_row = dqs + (warp >> 1)*8192 + (lane & 3)*256 + ((lane >> 2) & 3)*4, st_c = (warp & 1)*4 + (lane >> 4), st_q = (lane & 3)*2;
        u32 col_at = (lane & 3)*8;
        for (u32 t = blockIdx.x; t < tiles; t += gridDim.x) for (u32 pass = 0; pass < 2; pass++) {
            u32 pair = t % pairs, hb = t / pairs, n = pass ? tiles_n - 1 - pair : pair;
            if (pass != 0 && n == pair) continue;
            u32 hkv = hb % HKV, b = hb / HKV;
            u32 first = min((u32)max(0, (int)n*128 - past) / 64, tiles_m), count = tiles_m - first, steps = count * ratio;
            float dk[64], dv[64];
            dk[0] = 0; dv[0] = 0; dk[1] = 0; dv[1] = 0; dk[2] = 0; dv[2] = 0; dk[3] = 0; dv[3] = 0; dk[4] = 0; dv[4] = 0; dk[5] = 0; dv[5] = 0; dk[6] = 0; dv[6] = 0; dk[7] = 0; dv[7] = 0; dk[8] = 0; dv[8] = 0; dk[9] = 0; dv[9] = 0; dk[10] = 0; dv[10] = 0; dk[11] = 0; dv[11] = 0; dk[12] = 0; dv[12] = 0; dk[13] = 0; dv[13] = 0; dk[14] = 0; dv[14] = 0; dk[15] = 0; dv[15] = 0; dk[16] = 0; dv[16] = 0; dk[17] = 0; dv[17] = 0; dk[18] = 0; dv[18] = 0; dk[19] = 0; dv[19] = 0; dk[20] = 0; dv[20] = 0; dk[21] = 0; dv[21] = 0; dk[22] = 0; dv[22] = 0; dk[23] = 0; dv[23] = 0; dk[24] = 0; dv[24] = 0; dk[25] = 0; dv[25] = 0; dk[26] = 0; dv[26] = 0; dk[27] = 0; dv[27] = 0; dk[28] = 0; dv[28] = 0; dk[29] = 0; dv[29] = 0; dk[30] = 0; dv[30] = 0; dk[31] = 0; dv[31] = 0; dk[32] = 0; dv[32] = 0; dk[33] = 0; dv[33] = 0; dk[34] = 0; dv[34] = 0; dk[35] = 0; dv[35] = 0; dk[36] = 0; dv[36] = 0; dk[37] = 0; dv[37] = 0; dk[38] = 0; dv[38] = 0; dk[39] = 0; dv[39] = 0; dk[40] = 0; dv[40] = 0; dk[41] = 0; dv[41] = 0; dk[42] = 0; dv[42] = 0; dk[43] = 0; dv[43] = 0; dk[44] = 0; dv[44] = 0; dk[45] = 0; dv[45] = 0; dk[46] = 0; dv[46] = 0; dk[47] = 0; dv[47] = 0; dk[48] = 0; dv[48] = 0; dk[49] = 0; dv[49] = 0; dk[50] = 0; dv[50] = 0; dk[51] = 0; dv[51] = 0; dk[52] = 0; dv[52] = 0; dk[53] = 0; dv[53] = 0; dk[54] = 0; dv[54] = 0; dk[55] = 0; dv[55] = 0; dk[56] = 0; dv[56] = 0; dk[57] = 0; dv[57] = 0; dk[58] = 0; dv[58] = 0; dk[59] = 0; dv[59] = 0; dk[60] = 0; dv[60] = 0; dk[61] = 0; dv[61] = 0; dk[62] = 0; dv[62] = 0; dk[63] = 0; dv[63] = 0;
            int key = n*128 + wg*64 + warp*16 + (lane >> 2), last_key = n*128 + wg*64 + 63;
            u32 h = hkv*ratio, m = tiles_m - 1;
            if (steps != 0) {
            float s[32];
            mbar_wait(base + 198656, kphase);
            for (u32 i = 0; i < steps; i++) {
                mbar_wait(base + 198688 + 8*slot, phase);
                wgmma_fence();
                wgmma_64x64x16_bf16_ss_at(s, dk0 + 0, lo + slot*1024 + 4096, 0); wgmma_64x64x16_bf16_ss_at(s, dk0 + 2, lo + slot*1024 + 4098, 1);
                wgmma_64x64x16_bf16_ss_at(s, dk0 + 4, lo + slot*1024 + 4100, 1); wgmma_64x64x16_bf16_ss_at(s, dk0 + 6, lo + slot*1024 + 4102, 1);
                wgmma_64x64x16_bf16_ss_at(s, dk0 + 1024, lo + slot*1024 + 4608, 1);
                wgmma_64x64x16_bf16_ss_at(s, dk0 + 1026, lo + slot*1024 + 4610, 1);
                wgmma_64x64x16_bf16_ss_at(s, dk0 + 1028, lo + slot*1024 + 4612, 1);
                wgmma_64x64x16_bf16_ss_at(s, dk0 + 1030, lo + slot*1024 + 4614, 1);
                wgmma_commit();
                if (i == 0) mbar_wait(base + 198672, kphase);
                float dp[32];
                u32 p[16];
                mbar_wait(base + 198720 + 8*slot, phase);
                wgmma_fence();
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 2048, lo + slot*1024 + 6144, 0);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 2050, lo + slot*1024 + 6146, 1);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 2052, lo + slot*1024 + 6148, 1);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 2054, lo + slot*1024 + 6150, 1);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 3072, lo + slot*1024 + 6656, 1);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 3074, lo + slot*1024 + 6658, 1);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 3076, lo + slot*1024 + 6660, 1);
                wgmma_64x64x16_bf16_ss_at(dp, dk0 + 3078, lo + slot*1024 + 6662, 1);
                wgmma_commit();
                wgmma_wait(1);
                pin_32(s);
                u32 at = base + 196608 + slot*512 + col_at;
                { float x, y; ld_shared_v2(x, y, at + 0); s[0] = exp2_fast(fma32(s[0], c, -x)); s[1] = exp2_fast(fma32(s[1], c, -y)); s[2] = exp2_fast(fma32(s[2], c, -x)); s[3] = exp2_fast(fma32(s[3], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 32); s[4] = exp2_fast(fma32(s[4], c, -x)); s[5] = exp2_fast(fma32(s[5], c, -y)); s[6] = exp2_fast(fma32(s[6], c, -x)); s[7] = exp2_fast(fma32(s[7], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 64); s[8] = exp2_fast(fma32(s[8], c, -x)); s[9] = exp2_fast(fma32(s[9], c, -y)); s[10] = exp2_fast(fma32(s[10], c, -x)); s[11] = exp2_fast(fma32(s[11], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 96); s[12] = exp2_fast(fma32(s[12], c, -x)); s[13] = exp2_fast(fma32(s[13], c, -y)); s[14] = exp2_fast(fma32(s[14], c, -x)); s[15] = exp2_fast(fma32(s[15], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 128); s[16] = exp2_fast(fma32(s[16], c, -x)); s[17] = exp2_fast(fma32(s[17], c, -y)); s[18] = exp2_fast(fma32(s[18], c, -x)); s[19] = exp2_fast(fma32(s[19], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 160); s[20] = exp2_fast(fma32(s[20], c, -x)); s[21] = exp2_fast(fma32(s[21], c, -y)); s[22] = exp2_fast(fma32(s[22], c, -x)); s[23] = exp2_fast(fma32(s[23], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 192); s[24] = exp2_fast(fma32(s[24], c, -x)); s[25] = exp2_fast(fma32(s[25], c, -y)); s[26] = exp2_fast(fma32(s[26], c, -x)); s[27] = exp2_fast(fma32(s[27], c, -y)); }
                { float x, y; ld_shared_v2(x, y, at + 224); s[28] = exp2_fast(fma32(s[28], c, -x)); s[29] = exp2_fast(fma32(s[29], c, -y)); s[30] = exp2_fast(fma32(s[30], c, -x)); s[31] = exp2_fast(fma32(s[31], c, -y)); }
                if ((int)last_key >= (int)SKV || last_key > (int)m*64 + past) {
                    int from0 = key >= (int)SKV ? 0x7fffffff : key - past - (int)m*64 - (int)(lane & 3)*2, from1 = key + 8 >= (int)SKV ? 0x7fffffff : key + 8 - past - (int)m*64 - (int)(lane & 3)*2;
                    s[0] = 0 >= from0 ? s[0] : 0; s[1] = 1 >= from0 ? s[1] : 0; s[2] = 0 >= from1 ? s[2] : 0; s[3] = 1 >= from1 ? s[3] : 0;
                    s[4] = 8 >= from0 ? s[4] : 0; s[5] = 9 >= from0 ? s[5] : 0; s[6] = 8 >= from1 ? s[6] : 0; s[7] = 9 >= from1 ? s[7] : 0;
                    s[8] = 16 >= from0 ? s[8] : 0; s[9] = 17 >= from0 ? s[9] : 0; s[10] = 16 >= from1 ? s[10] : 0; s[11] = 17 >= from1 ? s[11] : 0;
                    s[12] = 24 >= from0 ? s[12] : 0; s[13] = 25 >= from0 ? s[13] : 0; s[14] = 24 >= from1 ? s[14] : 0;
                    s[15] = 25 >= from1 ? s[15] : 0; s[16] = 32 >= from0 ? s[16] : 0; s[17] = 33 >= from0 ? s[17] : 0;
                    s[18] = 32 >= from1 ? s[18] : 0; s[19] = 33 >= from1 ? s[19] : 0; s[20] = 40 >= from0 ? s[20] : 0;
                    s[21] = 41 >= from0 ? s[21] : 0; s[22] = 40 >= from1 ? s[22] : 0; s[23] = 41 >= from1 ? s[23] : 0;
                    s[24] = 48 >= from0 ? s[24] : 0; s[25] = 49 >= from0 ? s[25] : 0; s[26] = 48 >= from1 ? s[26] : 0;
                    s[27] = 49 >= from1 ? s[27] : 0; s[28] = 56 >= from0 ? s[28] : 0; s[29] = 57 >= from0 ? s[29] : 0;
                    s[30] = 56 >= from1 ? s[30] : 0; s[31] = 57 >= from1 ? s[31] : 0;
                }
                u32 g[16]; PACK_16(p, s);
                wgmma_fence();
                wgmma_64x128x16_bf16_rs_t_at(dv, p[0], p[1], p[2], p[3], dq0 + slot*1024 + 6144, 1);
                wgmma_64x128x16_bf16_rs_t_at(dv, p[4], p[5], p[6], p[7], dq0 + slot*1024 + 6272, 1);
                wgmma_64x128x16_bf16_rs_t_at(dv, p[8], p[9], p[10], p[11], dq0 + slot*1024 + 6400, 1);
                wgmma_64x128x16_bf16_rs_t_at(dv, p[12], p[13], p[14], p[15], dq0 + slot*1024 + 6528, 1);
                wgmma_commit();
                wgmma_wait(1);
                pin_32(dp);
                at = base + 197632 + slot*512 + col_at;
                { float x, y; ld_shared_v2(x, y, at + 0); g[0] = pack_bf16(s[0]*(dp[0] - x), s[1]*(dp[1] - y)); g[1] = pack_bf16(s[2]*(dp[2] - x), s[3]*(dp[3] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 32); g[2] = pack_bf16(s[4]*(dp[4] - x), s[5]*(dp[5] - y)); g[3] = pack_bf16(s[6]*(dp[6] - x), s[7]*(dp[7] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 64); g[4] = pack_bf16(s[8]*(dp[8] - x), s[9]*(dp[9] - y)); g[5] = pack_bf16(s[10]*(dp[10] - x), s[11]*(dp[11] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 96); g[6] = pack_bf16(s[12]*(dp[12] - x), s[13]*(dp[13] - y)); g[7] = pack_bf16(s[14]*(dp[14] - x), s[15]*(dp[15] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 128); g[8] = pack_bf16(s[16]*(dp[16] - x), s[17]*(dp[17] - y)); g[9] = pack_bf16(s[18]*(dp[18] - x), s[19]*(dp[19] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 160); g[10] = pack_bf16(s[20]*(dp[20] - x), s[21]*(dp[21] - y)); g[11] = pack_bf16(s[22]*(dp[22] - x), s[23]*(dp[23] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 192); g[12] = pack_bf16(s[24]*(dp[24] - x), s[25]*(dp[25] - y)); g[13] = pack_bf16(s[26]*(dp[26] - x), s[27]*(dp[27] - y)); }
                { float x, y; ld_shared_v2(x, y, at + 224); g[14] = pack_bf16(s[28]*(dp[28] - x), s[29]*(dp[29] - y)); g[15] = pack_bf16(s[30]*(dp[30] - x), s[31]*(dp[31] - y)); }
                stmatrix_x4_trans(dst_at + side*16384 + 0, g[0], g[1], g[2], g[3]);
                stmatrix_x4_trans(dst_at + side*16384 + 2048, g[4], g[5], g[6], g[7]);
                stmatrix_x4_trans(dst_at + side*16384 + 4096, g[8], g[9], g[10], g[11]);
                stmatrix_x4_trans(dst_at + side*16384 + 6144, g[12], g[13], g[14], g[15]);
                fence_async();

                if ((threadIdx.x & 127) == 0) tma_wait_read(0);              // the staging of dq is free
                bar_sync(1, 256);
                wgmma_fence();
                float dq[32];
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 0, lo + side*1024 + 8192, 0);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 128, lo + side*1024 + 8194, 1);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 256, lo + side*1024 + 8196, 1);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 384, lo + side*1024 + 8198, 1);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 512, lo + side*1024 + 8704, 1);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 640, lo + side*1024 + 8706, 1);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 768, lo + side*1024 + 8708, 1);
                wgmma_64x64x16_bf16_ss_ta_at(dq, da + 896, lo + side*1024 + 8710, 1);
                wgmma_commit();
                wgmma_64x128x16_bf16_rs_t_at(dk, g[0], g[1], g[2], g[3], dq0 + slot*1024 + 4096, 1);
                wgmma_64x128x16_bf16_rs_t_at(dk, g[4], g[5], g[6], g[7], dq0 + slot*1024 + 4224, 1);
                wgmma_64x128x16_bf16_rs_t_at(dk, g[8], g[9], g[10], g[11], dq0 + slot*1024 + 4352, 1);
                wgmma_64x128x16_bf16_rs_t_at(dk, g[12], g[13], g[14], g[15], dq0 + slot*1024 + 4480, 1);
                wgmma_commit();
                wgmma_wait(1);
                pin_32(dq);
                if (lane == 0) mbar_arrive(base + 198736 + 8*slot);
                st_shared(st_row + 0 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[0]); st_shared(st_row + 128 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[1]);
                st_shared(st_row + 0 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[2]); st_shared(st_row + 128 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[3]);
                st_shared(st_row + 1024 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[4]);
                st_shared(st_row + 1152 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[5]);
                st_shared(st_row + 1024 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[6]);
                st_shared(st_row + 1152 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[7]);
                st_shared(st_row + 2048 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[8]);
                st_shared(st_row + 2176 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[9]);
                st_shared(st_row + 2048 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[10]);
                st_shared(st_row + 2176 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[11]);
                st_shared(st_row + 3072 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[12]);
                st_shared(st_row + 3200 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[13]);
                st_shared(st_row + 3072 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[14]);
                st_shared(st_row + 3200 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[15]);
                st_shared(st_row + 4096 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[16]);
                st_shared(st_row + 4224 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[17]);
                st_shared(st_row + 4096 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[18]);
                st_shared(st_row + 4224 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[19]);
                st_shared(st_row + 5120 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[20]);
                st_shared(st_row + 5248 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[21]);
                st_shared(st_row + 5120 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[22]);
                st_shared(st_row + 5248 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[23]);
                st_shared(st_row + 6144 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[24]);
                st_shared(st_row + 6272 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[25]);
                st_shared(st_row + 6144 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[26]);
                st_shared(st_row + 6272 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[27]);
                st_shared(st_row + 7168 + (((st_c + 0) ^ (st_q + 0)) << 4), dq[28]);
                st_shared(st_row + 7296 + (((st_c + 0) ^ (st_q + 1)) << 4), dq[29]);
                st_shared(st_row + 7168 + (((st_c + 2) ^ (st_q + 0)) << 4), dq[30]);
                st_shared(st_row + 7296 + (((st_c + 2) ^ (st_q + 1)) << 4), dq[31]);
                fence_async();
                bar_sync(2 + wg, 128);
                if ((threadIdx.x & 127) == 0) { tma_add_5d(&tdq, dqs, 0, m*64, 2*wg, h, b); tma_commit(); }
                mbar_wait(base + 198688 + 8*slot, phase);
                wgmma_wait(0);
                pin_64(dk); pin_64(dv);
                if (lane == 0) mbar_arrive(base + 198704 + 8*slot);
                if (++slot == 2) { slot = 0; phase ^= 1; }
                side ^= 1;
                if (m-- == first) { m = tiles_m - 1; h++; }
            }
            }
            if (steps != 0) {
                if (lane == 0) { mbar_arrive(base + 198664); mbar_arrive(base + 198680); }
                kphase ^= 1;
            }
            // dv, then dk, through this group's staging of dq: the rings stay free for the next tile
            u32 box = dqs + warp*4096, lane_at = box + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);
            if ((threadIdx.x & 127) == 0) tma_wait_read(0);
            bar_sync(2 + wg, 128);
            stmatrix_x4((lane_at ^ 0) + 0, pack_bf16(dv[0], dv[1]), pack_bf16(dv[2], dv[3]), pack_bf16(dv[4], dv[5]), pack_bf16(dv[6], dv[7]));
            stmatrix_x4((lane_at ^ 32) + 0, pack_bf16(dv[8], dv[9]), pack_bf16(dv[10], dv[11]), pack_bf16(dv[12], dv[13]), pack_bf16(dv[14], dv[15]));
            stmatrix_x4((lane_at ^ 64) + 0, pack_bf16(dv[16], dv[17]), pack_bf16(dv[18], dv[19]), pack_bf16(dv[20], dv[21]), pack_bf16(dv[22], dv[23]));
            stmatrix_x4((lane_at ^ 96) + 0, pack_bf16(dv[24], dv[25]), pack_bf16(dv[26], dv[27]), pack_bf16(dv[28], dv[29]), pack_bf16(dv[30], dv[31]));
            stmatrix_x4((lane_at ^ 0) + 2048, pack_bf16(dv[32], dv[33]), pack_bf16(dv[34], dv[35]), pack_bf16(dv[36], dv[37]), pack_bf16(dv[38], dv[39]));
            stmatrix_x4((lane_at ^ 32) + 2048, pack_bf16(dv[40], dv[41]), pack_bf16(dv[42], dv[43]), pack_bf16(dv[44], dv[45]), pack_bf16(dv[46], dv[47]));
            stmatrix_x4((lane_at ^ 64) + 2048, pack_bf16(dv[48], dv[49]), pack_bf16(dv[50], dv[51]), pack_bf16(dv[52], dv[53]), pack_bf16(dv[54], dv[55]));
            stmatrix_x4((lane_at ^ 96) + 2048, pack_bf16(dv[56], dv[57]), pack_bf16(dv[58], dv[59]), pack_bf16(dv[60], dv[61]), pack_bf16(dv[62], dv[63]));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_5d(&tdv, box, 0, n*128 + wg*64 + warp*16, 0, hkv, b); tma_commit(); }
            if (lane == 0) tma_wait_read(0);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 0, pack_bf16(dk[0]*scale, dk[1]*scale), pack_bf16(dk[2]*scale, dk[3]*scale), pack_bf16(dk[4]*scale, dk[5]*scale), pack_bf16(dk[6]*scale, dk[7]*scale));
            stmatrix_x4((lane_at ^ 32) + 0, pack_bf16(dk[8]*scale, dk[9]*scale), pack_bf16(dk[10]*scale, dk[11]*scale), pack_bf16(dk[12]*scale, dk[13]*scale), pack_bf16(dk[14]*scale, dk[15]*scale));
            stmatrix_x4((lane_at ^ 64) + 0, pack_bf16(dk[16]*scale, dk[17]*scale), pack_bf16(dk[18]*scale, dk[19]*scale), pack_bf16(dk[20]*scale, dk[21]*scale), pack_bf16(dk[22]*scale, dk[23]*scale));
            stmatrix_x4((lane_at ^ 96) + 0, pack_bf16(dk[24]*scale, dk[25]*scale), pack_bf16(dk[26]*scale, dk[27]*scale), pack_bf16(dk[28]*scale, dk[29]*scale), pack_bf16(dk[30]*scale, dk[31]*scale));
            stmatrix_x4((lane_at ^ 0) + 2048, pack_bf16(dk[32]*scale, dk[33]*scale), pack_bf16(dk[34]*scale, dk[35]*scale), pack_bf16(dk[36]*scale, dk[37]*scale), pack_bf16(dk[38]*scale, dk[39]*scale));
            stmatrix_x4((lane_at ^ 32) + 2048, pack_bf16(dk[40]*scale, dk[41]*scale), pack_bf16(dk[42]*scale, dk[43]*scale), pack_bf16(dk[44]*scale, dk[45]*scale), pack_bf16(dk[46]*scale, dk[47]*scale));
            stmatrix_x4((lane_at ^ 64) + 2048, pack_bf16(dk[48]*scale, dk[49]*scale), pack_bf16(dk[50]*scale, dk[51]*scale), pack_bf16(dk[52]*scale, dk[53]*scale), pack_bf16(dk[54]*scale, dk[55]*scale));
            stmatrix_x4((lane_at ^ 96) + 2048, pack_bf16(dk[56]*scale, dk[57]*scale), pack_bf16(dk[58]*scale, dk[59]*scale), pack_bf16(dk[60]*scale, dk[61]*scale), pack_bf16(dk[62]*scale, dk[63]*scale));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_5d(&tdk, box, 0, n*128 + wg*64 + warp*16, 0, hkv, b); tma_commit(); }
            if (lane == 0) tma_wait_read(0);
            __syncwarp();
            bar_sync(2 + wg, 128);
        }
        if (lane == 0) tma_wait_read(0);
    }
}
