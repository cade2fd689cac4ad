// SPDX-License-Identifier: MIT
// attention_d128.cu - hand-written reference kernel: attention forward, bf16, head size 128, bottom-right causal with -DCAUSAL (sm_90a)
//
// Q, K, V, O [B][S][H][128], grouped heads, any lengths, LSE (natural) where the pointer is not null. 128 queries x
// 128 keys per step, two groups of 64 rows that take turns at the tensor cores, Q in registers, persistent grid.
// Measured 1.07 (full) and 1.14 to 1.21 (causal) times cuDNN's forward in the same run.
//
// Printed form: one statement per element. Read it beside docs/hopper.md, "Attention forward". Built by reference_kernels.py.
#include "prelude.cuh"

DEVICE void wgmma_64x128x16_bf16_rs(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %69, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add));
}
DEVICE void wgmma_64x128x16_bf16_rs_t(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %69, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add));
}
DEVICE void pin_64(float (&d)[64]) { asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) :: "memory"); }

#ifndef CAUSAL
// attention bf16 D 128: 128 queries x 128 keys, 2 stages, causal 0, ping-pong 1, persistent 1. Shared memory:
#else /* CAUSAL */
// attention bf16 D 128: 128 queries x 128 keys, 2 stages, causal 1, ping-pong 1, persistent 1. Shared memory:
#endif /* CAUSAL */
//   q 0, 32768; k 32768, 2 x 32768; v 98304, 2 x 32768; o 163840; barriers 196608
extern "C" __global__ void __launch_bounds__(384, 1)
kernel(const __grid_constant__ TensorMap tq, const __grid_constant__ TensorMap tk, const __grid_constant__ TensorMap tv, const __grid_constant__ TensorMap to,
       float *lse, u32 heads, u32 H, u32 ratio, u32 S, u32 SKV, u32 tiles_m, u32 hg, float scale)
{
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = smem_addr(smem);
    u32 group = uniform(threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        tma_prefetch(&tq); tma_prefetch(&tk); tma_prefetch(&tv); tma_prefetch(&to);
        mbar_init(base + 196608, 1); mbar_init(base + 196616, 8);
        for (u32 i = 0; i < 2; i++) {
            mbar_init(base + 196624 + 8*i, 1); mbar_init(base + 196640 + 8*i, 8);
            mbar_init(base + 196656 + 8*i, 1); mbar_init(base + 196672 + 8*i, 8);
        }
        mbar_init_done();
    }
    __syncthreads();
    u32 tiles = heads * tiles_m;
    int past = (int)SKV - (int)S;
    if (group == 0) {
        setmaxnreg_dec(24);
        if (threadIdx.x == 0) {
        u32 ks = 0, kphase = 1, vs = 0, vphase = 1, qphase = 1;
#ifndef CAUSAL
        for (u32 t = blockIdx.x; t < tiles; t += gridDim.x) {
            u32 m = t % tiles_m, hb = t / tiles_m;
#else /* CAUSAL */
        for (u32 round = 0, t = blockIdx.x; round * gridDim.x < tiles; round++, t = round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) if (t < tiles) {
            u32 span = min(hg, heads - t / (hg * tiles_m) * hg), rest = t % (hg * tiles_m);
            u32 m = tiles_m - 1 - rest / span, hb = t / (hg * tiles_m) * hg + rest % span;
#endif /* CAUSAL */
            u32 h = hb % H, b = hb / H, hkv = h / ratio;
#ifndef CAUSAL
            int end = (int)SKV;
#else /* CAUSAL */
            int end = min((int)SKV, (int)(m + 1)*128 + past);
#endif /* CAUSAL */
            u32 blocks = end > 0 ? (u32)(end + 127) / 128 : 0;
            if (blocks != 0) {
                mbar_wait(base + 196616, qphase); qphase ^= 1;
                mbar_expect(base + 196608, 32768);
                tma_load_5d(base, &tq, base + 196608, 0, m*128, 0, h, b);
                for (u32 n = 0; n <= blocks; n++) {
                    if (n < blocks) {
                        mbar_wait(base + 196640 + 8*ks, kphase);
                        mbar_expect(base + 196624 + 8*ks, 32768);
                        tma_load_5d(base + 32768 + ks*32768, &tk, base + 196624 + 8*ks, 0, n*128, 0, hkv, b);
                        if (++ks == 2) { ks = 0; kphase ^= 1; }
                    }
                    if (n > 0) {
                        mbar_wait(base + 196672 + 8*vs, vphase);
                        mbar_expect(base + 196656 + 8*vs, 32768);
                        tma_load_5d(base + 98304 + vs*32768, &tv, base + 196656 + 8*vs, 0, (n-1)*128, 0, hkv, b);
                        if (++vs == 2) { vs = 0; vphase ^= 1; }
                    }
                }
            }
        }
        }
    } else {
        setmaxnreg_inc(240);
        u32 lane = threadIdx.x & 31, warp = uniform(threadIdx.x >> 5) - 4, wg = group - 1;
        u32 ks = 0, kphase = 0, vs = 0, vphase = 0, qphase = 0;
        float c = scale * 1.4426950408889634f;
        u64 dq = matrix_desc(base + wg*8192, 1, 16, 1024), dk = matrix_desc(base + 32768, 1, 16, 1024), dv = matrix_desc(base + 98304, 1, 16384, 1024);
        u32 stage = base + 163840 + warp*4096, lane_at = stage + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);
        if (wg == 0) { }
        else if (wg == 1) bar_arrive(1, 256);
#ifndef CAUSAL
        for (u32 t = blockIdx.x; t < tiles; t += gridDim.x) {
            u32 m = t % tiles_m, hb = t / tiles_m;
#else /* CAUSAL */
        for (u32 round = 0, t = blockIdx.x; round * gridDim.x < tiles; round++, t = round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) if (t < tiles) {
            u32 span = min(hg, heads - t / (hg * tiles_m) * hg), rest = t % (hg * tiles_m);
            u32 m = tiles_m - 1 - rest / span, hb = t / (hg * tiles_m) * hg + rest % span;
#endif /* CAUSAL */
            u32 h = hb % H, b = hb / H, hkv = h / ratio;
#ifndef CAUSAL
            int end = (int)SKV;
#else /* CAUSAL */
            int end = min((int)SKV, (int)(m + 1)*128 + past);
#endif /* CAUSAL */
            u32 blocks = end > 0 ? (u32)(end + 127) / 128 : 0;
            int row0 = m*128 + wg*64;                          // first row of the group
            int row = row0 + (warp & 3)*16 + (lane >> 2);       // this lane's first row; the other is row + 8
            float o[64], top0 = __int_as_float(0xff800000), top1 = top0, sum0 = 0, sum1 = 0;
            if (blocks != 0) {
                float s[64], fix0, fix1;
                u32 p[32];
                mbar_wait(base + 196608, qphase); qphase ^= 1;
                u32 qr[32], q_at = base + wg*8192 + (warp & 3)*2048 + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);
                ldmatrix_x4(qr[0], qr[1], qr[2], qr[3], (q_at ^ 0) + 0); ldmatrix_x4(qr[4], qr[5], qr[6], qr[7], (q_at ^ 32) + 0);
                ldmatrix_x4(qr[8], qr[9], qr[10], qr[11], (q_at ^ 64) + 0); ldmatrix_x4(qr[12], qr[13], qr[14], qr[15], (q_at ^ 96) + 0);
                ldmatrix_x4(qr[16], qr[17], qr[18], qr[19], (q_at ^ 0) + 16384); ldmatrix_x4(qr[20], qr[21], qr[22], qr[23], (q_at ^ 32) + 16384);
                ldmatrix_x4(qr[24], qr[25], qr[26], qr[27], (q_at ^ 64) + 16384); ldmatrix_x4(qr[28], qr[29], qr[30], qr[31], (q_at ^ 96) + 16384);
                __syncwarp();
                if (lane == 0) mbar_arrive(base + 196616);
                mbar_wait(base + 196624 + 8*ks, kphase);
                wgmma_fence();
                wgmma_64x128x16_bf16_rs(s, qr[0], qr[1], qr[2], qr[3], dk + ks*2048 + 0, 0);
                wgmma_64x128x16_bf16_rs(s, qr[4], qr[5], qr[6], qr[7], dk + ks*2048 + 2, 1);
                wgmma_64x128x16_bf16_rs(s, qr[8], qr[9], qr[10], qr[11], dk + ks*2048 + 4, 1);
                wgmma_64x128x16_bf16_rs(s, qr[12], qr[13], qr[14], qr[15], dk + ks*2048 + 6, 1);
                wgmma_64x128x16_bf16_rs(s, qr[16], qr[17], qr[18], qr[19], dk + ks*2048 + 1024, 1);
                wgmma_64x128x16_bf16_rs(s, qr[20], qr[21], qr[22], qr[23], dk + ks*2048 + 1026, 1);
                wgmma_64x128x16_bf16_rs(s, qr[24], qr[25], qr[26], qr[27], dk + ks*2048 + 1028, 1);
                wgmma_64x128x16_bf16_rs(s, qr[28], qr[29], qr[30], qr[31], dk + ks*2048 + 1030, 1);
                wgmma_commit();
                wgmma_wait(0);
                pin_64(s);
                if (lane == 0) mbar_arrive(base + 196640 + 8*ks);
                if (++ks == 2) { ks = 0; kphase ^= 1; }
                {
#ifndef CAUSAL
                    if ((int)(0 + 1)*128 > (int)SKV) {
#else /* CAUSAL */
                    if ((int)(0 + 1)*128 > (int)SKV || (int)(0 + 1)*128 - 1 > row0 + past) {
#endif /* CAUSAL */
                        int first = (int)(0*128 + (lane & 3)*2);
#ifndef CAUSAL
                        int lim0 = (int)SKV - first, lim1 = lim0;
#else /* CAUSAL */
                        int lim0 = min((int)SKV, row + past + 1) - first, lim1 = min((int)SKV, row + past + 9) - first;
#endif /* CAUSAL */
                        s[0] = 0 < lim0 ? s[0] : __int_as_float(0xff800000); s[1] = 1 < lim0 ? s[1] : __int_as_float(0xff800000);
                        s[2] = 0 < lim1 ? s[2] : __int_as_float(0xff800000); s[3] = 1 < lim1 ? s[3] : __int_as_float(0xff800000);
                        s[4] = 8 < lim0 ? s[4] : __int_as_float(0xff800000); s[5] = 9 < lim0 ? s[5] : __int_as_float(0xff800000);
                        s[6] = 8 < lim1 ? s[6] : __int_as_float(0xff800000); s[7] = 9 < lim1 ? s[7] : __int_as_float(0xff800000);
                        s[8] = 16 < lim0 ? s[8] : __int_as_float(0xff800000); s[9] = 17 < lim0 ? s[9] : __int_as_float(0xff800000);
                        s[10] = 16 < lim1 ? s[10] : __int_as_float(0xff800000); s[11] = 17 < lim1 ? s[11] : __int_as_float(0xff800000);
                        s[12] = 24 < lim0 ? s[12] : __int_as_float(0xff800000); s[13] = 25 < lim0 ? s[13] : __int_as_float(0xff800000);
                        s[14] = 24 < lim1 ? s[14] : __int_as_float(0xff800000); s[15] = 25 < lim1 ? s[15] : __int_as_float(0xff800000);
                        s[16] = 32 < lim0 ? s[16] : __int_as_float(0xff800000); s[17] = 33 < lim0 ? s[17] : __int_as_float(0xff800000);
                        s[18] = 32 < lim1 ? s[18] : __int_as_float(0xff800000); s[19] = 33 < lim1 ? s[19] : __int_as_float(0xff800000);
                        s[20] = 40 < lim0 ? s[20] : __int_as_float(0xff800000); s[21] = 41 < lim0 ? s[21] : __int_as_float(0xff800000);
                        s[22] = 40 < lim1 ? s[22] : __int_as_float(0xff800000); s[23] = 41 < lim1 ? s[23] : __int_as_float(0xff800000);
                        s[24] = 48 < lim0 ? s[24] : __int_as_float(0xff800000); s[25] = 49 < lim0 ? s[25] : __int_as_float(0xff800000);
                        s[26] = 48 < lim1 ? s[26] : __int_as_float(0xff800000); s[27] = 49 < lim1 ? s[27] : __int_as_float(0xff800000);
                        s[28] = 56 < lim0 ? s[28] : __int_as_float(0xff800000); s[29] = 57 < lim0 ? s[29] : __int_as_float(0xff800000);
                        s[30] = 56 < lim1 ? s[30] : __int_as_float(0xff800000); s[31] = 57 < lim1 ? s[31] : __int_as_float(0xff800000);
                        s[32] = 64 < lim0 ? s[32] : __int_as_float(0xff800000); s[33] = 65 < lim0 ? s[33] : __int_as_float(0xff800000);
                        s[34] = 64 < lim1 ? s[34] : __int_as_float(0xff800000); s[35] = 65 < lim1 ? s[35] : __int_as_float(0xff800000);
                        s[36] = 72 < lim0 ? s[36] : __int_as_float(0xff800000); s[37] = 73 < lim0 ? s[37] : __int_as_float(0xff800000);
                        s[38] = 72 < lim1 ? s[38] : __int_as_float(0xff800000); s[39] = 73 < lim1 ? s[39] : __int_as_float(0xff800000);
                        s[40] = 80 < lim0 ? s[40] : __int_as_float(0xff800000); s[41] = 81 < lim0 ? s[41] : __int_as_float(0xff800000);
                        s[42] = 80 < lim1 ? s[42] : __int_as_float(0xff800000); s[43] = 81 < lim1 ? s[43] : __int_as_float(0xff800000);
                        s[44] = 88 < lim0 ? s[44] : __int_as_float(0xff800000); s[45] = 89 < lim0 ? s[45] : __int_as_float(0xff800000);
                        s[46] = 88 < lim1 ? s[46] : __int_as_float(0xff800000); s[47] = 89 < lim1 ? s[47] : __int_as_float(0xff800000);
                        s[48] = 96 < lim0 ? s[48] : __int_as_float(0xff800000); s[49] = 97 < lim0 ? s[49] : __int_as_float(0xff800000);
                        s[50] = 96 < lim1 ? s[50] : __int_as_float(0xff800000); s[51] = 97 < lim1 ? s[51] : __int_as_float(0xff800000);
                        s[52] = 104 < lim0 ? s[52] : __int_as_float(0xff800000); s[53] = 105 < lim0 ? s[53] : __int_as_float(0xff800000);
                        s[54] = 104 < lim1 ? s[54] : __int_as_float(0xff800000); s[55] = 105 < lim1 ? s[55] : __int_as_float(0xff800000);
                        s[56] = 112 < lim0 ? s[56] : __int_as_float(0xff800000); s[57] = 113 < lim0 ? s[57] : __int_as_float(0xff800000);
                        s[58] = 112 < lim1 ? s[58] : __int_as_float(0xff800000); s[59] = 113 < lim1 ? s[59] : __int_as_float(0xff800000);
                        s[60] = 120 < lim0 ? s[60] : __int_as_float(0xff800000); s[61] = 121 < lim0 ? s[61] : __int_as_float(0xff800000);
                        s[62] = 120 < lim1 ? s[62] : __int_as_float(0xff800000); s[63] = 121 < lim1 ? s[63] : __int_as_float(0xff800000);
                    }
                    float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3];
                    a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                    a0 = fmax32(a0, s[4]); a1 = fmax32(a1, s[6]); b0 = fmax32(b0, s[5]); b1 = fmax32(b1, s[7]);
                    a0 = fmax32(a0, s[8]); a1 = fmax32(a1, s[10]); b0 = fmax32(b0, s[9]); b1 = fmax32(b1, s[11]);
                    a0 = fmax32(a0, s[12]); a1 = fmax32(a1, s[14]); b0 = fmax32(b0, s[13]); b1 = fmax32(b1, s[15]);
                    a0 = fmax32(a0, s[16]); a1 = fmax32(a1, s[18]); b0 = fmax32(b0, s[17]); b1 = fmax32(b1, s[19]);
                    a0 = fmax32(a0, s[20]); a1 = fmax32(a1, s[22]); b0 = fmax32(b0, s[21]); b1 = fmax32(b1, s[23]);
                    a0 = fmax32(a0, s[24]); a1 = fmax32(a1, s[26]); b0 = fmax32(b0, s[25]); b1 = fmax32(b1, s[27]);
                    a0 = fmax32(a0, s[28]); a1 = fmax32(a1, s[30]); b0 = fmax32(b0, s[29]); b1 = fmax32(b1, s[31]);
                    a0 = fmax32(a0, s[32]); a1 = fmax32(a1, s[34]); b0 = fmax32(b0, s[33]); b1 = fmax32(b1, s[35]);
                    a0 = fmax32(a0, s[36]); a1 = fmax32(a1, s[38]); b0 = fmax32(b0, s[37]); b1 = fmax32(b1, s[39]);
                    a0 = fmax32(a0, s[40]); a1 = fmax32(a1, s[42]); b0 = fmax32(b0, s[41]); b1 = fmax32(b1, s[43]);
                    a0 = fmax32(a0, s[44]); a1 = fmax32(a1, s[46]); b0 = fmax32(b0, s[45]); b1 = fmax32(b1, s[47]);
                    a0 = fmax32(a0, s[48]); a1 = fmax32(a1, s[50]); b0 = fmax32(b0, s[49]); b1 = fmax32(b1, s[51]);
                    a0 = fmax32(a0, s[52]); a1 = fmax32(a1, s[54]); b0 = fmax32(b0, s[53]); b1 = fmax32(b1, s[55]);
                    a0 = fmax32(a0, s[56]); a1 = fmax32(a1, s[58]); b0 = fmax32(b0, s[57]); b1 = fmax32(b1, s[59]);
                    a0 = fmax32(a0, s[60]); a1 = fmax32(a1, s[62]); b0 = fmax32(b0, s[61]); b1 = fmax32(b1, s[63]);
                    a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                    a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                    float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                    fix0 = exp2_fast(fma32(top0, c, base0)); fix1 = exp2_fast(fma32(top1, c, base1));
                    top0 = a0; top1 = a1; sum0 *= fix0; sum1 *= fix1;
                    s[0] = exp2_fast(fma32(s[0], c, base0)); sum0 += s[0]; s[1] = exp2_fast(fma32(s[1], c, base0)); sum0 += s[1];
                    s[2] = exp2_fast(fma32(s[2], c, base1)); sum1 += s[2]; s[3] = exp2_fast(fma32(s[3], c, base1)); sum1 += s[3];
                    s[4] = exp2_fast(fma32(s[4], c, base0)); sum0 += s[4]; s[5] = exp2_fast(fma32(s[5], c, base0)); sum0 += s[5];
                    s[6] = exp2_fast(fma32(s[6], c, base1)); sum1 += s[6]; s[7] = exp2_fast(fma32(s[7], c, base1)); sum1 += s[7];
                    s[8] = exp2_fast(fma32(s[8], c, base0)); sum0 += s[8]; s[9] = exp2_fast(fma32(s[9], c, base0)); sum0 += s[9];
                    s[10] = exp2_fast(fma32(s[10], c, base1)); sum1 += s[10]; s[11] = exp2_fast(fma32(s[11], c, base1)); sum1 += s[11];
                    s[12] = exp2_fast(fma32(s[12], c, base0)); sum0 += s[12]; s[13] = exp2_fast(fma32(s[13], c, base0)); sum0 += s[13];
                    s[14] = exp2_fast(fma32(s[14], c, base1)); sum1 += s[14]; s[15] = exp2_fast(fma32(s[15], c, base1)); sum1 += s[15];
                    s[16] = exp2_fast(fma32(s[16], c, base0)); sum0 += s[16]; s[17] = exp2_fast(fma32(s[17], c, base0)); sum0 += s[17];
                    s[18] = exp2_fast(fma32(s[18], c, base1)); sum1 += s[18]; s[19] = exp2_fast(fma32(s[19], c, base1)); sum1 += s[19];
                    s[20] = exp2_fast(fma32(s[20], c, base0)); sum0 += s[20]; s[21] = exp2_fast(fma32(s[21], c, base0)); sum0 += s[21];
                    s[22] = exp2_fast(fma32(s[22], c, base1)); sum1 += s[22]; s[23] = exp2_fast(fma32(s[23], c, base1)); sum1 += s[23];
                    s[24] = exp2_fast(fma32(s[24], c, base0)); sum0 += s[24]; s[25] = exp2_fast(fma32(s[25], c, base0)); sum0 += s[25];
                    s[26] = exp2_fast(fma32(s[26], c, base1)); sum1 += s[26]; s[27] = exp2_fast(fma32(s[27], c, base1)); sum1 += s[27];
                    s[28] = exp2_fast(fma32(s[28], c, base0)); sum0 += s[28]; s[29] = exp2_fast(fma32(s[29], c, base0)); sum0 += s[29];
                    s[30] = exp2_fast(fma32(s[30], c, base1)); sum1 += s[30]; s[31] = exp2_fast(fma32(s[31], c, base1)); sum1 += s[31];
                    s[32] = exp2_fast(fma32(s[32], c, base0)); sum0 += s[32]; s[33] = exp2_fast(fma32(s[33], c, base0)); sum0 += s[33];
                    s[34] = exp2_fast(fma32(s[34], c, base1)); sum1 += s[34]; s[35] = exp2_fast(fma32(s[35], c, base1)); sum1 += s[35];
                    s[36] = exp2_fast(fma32(s[36], c, base0)); sum0 += s[36]; s[37] = exp2_fast(fma32(s[37], c, base0)); sum0 += s[37];
                    s[38] = exp2_fast(fma32(s[38], c, base1)); sum1 += s[38]; s[39] = exp2_fast(fma32(s[39], c, base1)); sum1 += s[39];
                    s[40] = exp2_fast(fma32(s[40], c, base0)); sum0 += s[40]; s[41] = exp2_fast(fma32(s[41], c, base0)); sum0 += s[41];
                    s[42] = exp2_fast(fma32(s[42], c, base1)); sum1 += s[42]; s[43] = exp2_fast(fma32(s[43], c, base1)); sum1 += s[43];
                    s[44] = exp2_fast(fma32(s[44], c, base0)); sum0 += s[44]; s[45] = exp2_fast(fma32(s[45], c, base0)); sum0 += s[45];
                    s[46] = exp2_fast(fma32(s[46], c, base1)); sum1 += s[46]; s[47] = exp2_fast(fma32(s[47], c, base1)); sum1 += s[47];
                    s[48] = exp2_fast(fma32(s[48], c, base0)); sum0 += s[48]; s[49] = exp2_fast(fma32(s[49], c, base0)); sum0 += s[49];
                    s[50] = exp2_fast(fma32(s[50], c, base1)); sum1 += s[50]; s[51] = exp2_fast(fma32(s[51], c, base1)); sum1 += s[51];
                    s[52] = exp2_fast(fma32(s[52], c, base0)); sum0 += s[52]; s[53] = exp2_fast(fma32(s[53], c, base0)); sum0 += s[53];
                    s[54] = exp2_fast(fma32(s[54], c, base1)); sum1 += s[54]; s[55] = exp2_fast(fma32(s[55], c, base1)); sum1 += s[55];
                    s[56] = exp2_fast(fma32(s[56], c, base0)); sum0 += s[56]; s[57] = exp2_fast(fma32(s[57], c, base0)); sum0 += s[57];
                    s[58] = exp2_fast(fma32(s[58], c, base1)); sum1 += s[58]; s[59] = exp2_fast(fma32(s[59], c, base1)); sum1 += s[59];
                    s[60] = exp2_fast(fma32(s[60], c, base0)); sum0 += s[60]; s[61] = exp2_fast(fma32(s[61], c, base0)); sum0 += s[61];
                    s[62] = exp2_fast(fma32(s[62], c, base1)); sum1 += s[62]; s[63] = exp2_fast(fma32(s[63], c, base1)); sum1 += s[63];
                }
                p[0] = pack_bf16(s[0], s[1]); p[1] = pack_bf16(s[2], s[3]); p[2] = pack_bf16(s[4], s[5]); p[3] = pack_bf16(s[6], s[7]);
                p[4] = pack_bf16(s[8], s[9]); p[5] = pack_bf16(s[10], s[11]); p[6] = pack_bf16(s[12], s[13]); p[7] = pack_bf16(s[14], s[15]);
                p[8] = pack_bf16(s[16], s[17]); p[9] = pack_bf16(s[18], s[19]); p[10] = pack_bf16(s[20], s[21]); p[11] = pack_bf16(s[22], s[23]);
                p[12] = pack_bf16(s[24], s[25]); p[13] = pack_bf16(s[26], s[27]); p[14] = pack_bf16(s[28], s[29]); p[15] = pack_bf16(s[30], s[31]);
                p[16] = pack_bf16(s[32], s[33]); p[17] = pack_bf16(s[34], s[35]); p[18] = pack_bf16(s[36], s[37]); p[19] = pack_bf16(s[38], s[39]);
                p[20] = pack_bf16(s[40], s[41]); p[21] = pack_bf16(s[42], s[43]); p[22] = pack_bf16(s[44], s[45]); p[23] = pack_bf16(s[46], s[47]);
                p[24] = pack_bf16(s[48], s[49]); p[25] = pack_bf16(s[50], s[51]); p[26] = pack_bf16(s[52], s[53]); p[27] = pack_bf16(s[54], s[55]);
                p[28] = pack_bf16(s[56], s[57]); p[29] = pack_bf16(s[58], s[59]); p[30] = pack_bf16(s[60], s[61]); p[31] = pack_bf16(s[62], s[63]);
                for (u32 n = 1; n < blocks; n++) {
                    mbar_wait(base + 196624 + 8*ks, kphase);
                    bar_sync(1 + wg, 256);
                    wgmma_fence();
                    wgmma_64x128x16_bf16_rs(s, qr[0], qr[1], qr[2], qr[3], dk + ks*2048 + 0, 0);
                    wgmma_64x128x16_bf16_rs(s, qr[4], qr[5], qr[6], qr[7], dk + ks*2048 + 2, 1);
                    wgmma_64x128x16_bf16_rs(s, qr[8], qr[9], qr[10], qr[11], dk + ks*2048 + 4, 1);
                    wgmma_64x128x16_bf16_rs(s, qr[12], qr[13], qr[14], qr[15], dk + ks*2048 + 6, 1);
                    wgmma_64x128x16_bf16_rs(s, qr[16], qr[17], qr[18], qr[19], dk + ks*2048 + 1024, 1);
                    wgmma_64x128x16_bf16_rs(s, qr[20], qr[21], qr[22], qr[23], dk + ks*2048 + 1026, 1);
                    wgmma_64x128x16_bf16_rs(s, qr[24], qr[25], qr[26], qr[27], dk + ks*2048 + 1028, 1);
                    wgmma_64x128x16_bf16_rs(s, qr[28], qr[29], qr[30], qr[31], dk + ks*2048 + 1030, 1);
                    wgmma_commit();
                    mbar_wait(base + 196656 + 8*vs, vphase);
                    o[0] *= fix0; o[1] *= fix0; o[2] *= fix1; o[3] *= fix1; o[4] *= fix0; o[5] *= fix0; o[6] *= fix1; o[7] *= fix1; o[8] *= fix0;
                    o[9] *= fix0; o[10] *= fix1; o[11] *= fix1; o[12] *= fix0; o[13] *= fix0; o[14] *= fix1; o[15] *= fix1; o[16] *= fix0;
                    o[17] *= fix0; o[18] *= fix1; o[19] *= fix1; o[20] *= fix0; o[21] *= fix0; o[22] *= fix1; o[23] *= fix1; o[24] *= fix0;
                    o[25] *= fix0; o[26] *= fix1; o[27] *= fix1; o[28] *= fix0; o[29] *= fix0; o[30] *= fix1; o[31] *= fix1; o[32] *= fix0;
                    o[33] *= fix0; o[34] *= fix1; o[35] *= fix1; o[36] *= fix0; o[37] *= fix0; o[38] *= fix1; o[39] *= fix1; o[40] *= fix0;
                    o[41] *= fix0; o[42] *= fix1; o[43] *= fix1; o[44] *= fix0; o[45] *= fix0; o[46] *= fix1; o[47] *= fix1; o[48] *= fix0;
                    o[49] *= fix0; o[50] *= fix1; o[51] *= fix1; o[52] *= fix0; o[53] *= fix0; o[54] *= fix1; o[55] *= fix1; o[56] *= fix0;
                    o[57] *= fix0; o[58] *= fix1; o[59] *= fix1; o[60] *= fix0; o[61] *= fix0; o[62] *= fix1; o[63] *= fix1;
                    wgmma_fence();
                    wgmma_64x128x16_bf16_rs_t(o, p[0], p[1], p[2], p[3], dv + vs*2048 + 0, n != 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[4], p[5], p[6], p[7], dv + vs*2048 + 128, 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[8], p[9], p[10], p[11], dv + vs*2048 + 256, 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[12], p[13], p[14], p[15], dv + vs*2048 + 384, 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[16], p[17], p[18], p[19], dv + vs*2048 + 512, 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[20], p[21], p[22], p[23], dv + vs*2048 + 640, 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[24], p[25], p[26], p[27], dv + vs*2048 + 768, 1);
                    wgmma_64x128x16_bf16_rs_t(o, p[28], p[29], p[30], p[31], dv + vs*2048 + 896, 1);
                    wgmma_commit();
                    bar_arrive(2 - wg, 256);
                    wgmma_wait(1);
                    pin_64(s);
                    if (lane == 0) mbar_arrive(base + 196640 + 8*ks);
                    if (++ks == 2) { ks = 0; kphase ^= 1; }
#ifndef CAUSAL
                    if ((int)(n + 1)*128 > (int)SKV) {
#else /* CAUSAL */
                    if ((int)(n + 1)*128 > (int)SKV || (int)(n + 1)*128 - 1 > row0 + past) {
#endif /* CAUSAL */
                        int first = (int)(n*128 + (lane & 3)*2);
#ifndef CAUSAL
                        int lim0 = (int)SKV - first, lim1 = lim0;
#else /* CAUSAL */
                        int lim0 = min((int)SKV, row + past + 1) - first, lim1 = min((int)SKV, row + past + 9) - first;
#endif /* CAUSAL */
                        s[0] = 0 < lim0 ? s[0] : __int_as_float(0xff800000); s[1] = 1 < lim0 ? s[1] : __int_as_float(0xff800000);
                        s[2] = 0 < lim1 ? s[2] : __int_as_float(0xff800000); s[3] = 1 < lim1 ? s[3] : __int_as_float(0xff800000);
                        s[4] = 8 < lim0 ? s[4] : __int_as_float(0xff800000); s[5] = 9 < lim0 ? s[5] : __int_as_float(0xff800000);
                        s[6] = 8 < lim1 ? s[6] : __int_as_float(0xff800000); s[7] = 9 < lim1 ? s[7] : __int_as_float(0xff800000);
                        s[8] = 16 < lim0 ? s[8] : __int_as_float(0xff800000); s[9] = 17 < lim0 ? s[9] : __int_as_float(0xff800000);
                        s[10] = 16 < lim1 ? s[10] : __int_as_float(0xff800000); s[11] = 17 < lim1 ? s[11] : __int_as_float(0xff800000);
                        s[12] = 24 < lim0 ? s[12] : __int_as_float(0xff800000); s[13] = 25 < lim0 ? s[13] : __int_as_float(0xff800000);
                        s[14] = 24 < lim1 ? s[14] : __int_as_float(0xff800000); s[15] = 25 < lim1 ? s[15] : __int_as_float(0xff800000);
                        s[16] = 32 < lim0 ? s[16] : __int_as_float(0xff800000); s[17] = 33 < lim0 ? s[17] : __int_as_float(0xff800000);
                        s[18] = 32 < lim1 ? s[18] : __int_as_float(0xff800000); s[19] = 33 < lim1 ? s[19] : __int_as_float(0xff800000);
                        s[20] = 40 < lim0 ? s[20] : __int_as_float(0xff800000); s[21] = 41 < lim0 ? s[21] : __int_as_float(0xff800000);
                        s[22] = 40 < lim1 ? s[22] : __int_as_float(0xff800000); s[23] = 41 < lim1 ? s[23] : __int_as_float(0xff800000);
                        s[24] = 48 < lim0 ? s[24] : __int_as_float(0xff800000); s[25] = 49 < lim0 ? s[25] : __int_as_float(0xff800000);
                        s[26] = 48 < lim1 ? s[26] : __int_as_float(0xff800000); s[27] = 49 < lim1 ? s[27] : __int_as_float(0xff800000);
                        s[28] = 56 < lim0 ? s[28] : __int_as_float(0xff800000); s[29] = 57 < lim0 ? s[29] : __int_as_float(0xff800000);
                        s[30] = 56 < lim1 ? s[30] : __int_as_float(0xff800000); s[31] = 57 < lim1 ? s[31] : __int_as_float(0xff800000);
                        s[32] = 64 < lim0 ? s[32] : __int_as_float(0xff800000); s[33] = 65 < lim0 ? s[33] : __int_as_float(0xff800000);
                        s[34] = 64 < lim1 ? s[34] : __int_as_float(0xff800000); s[35] = 65 < lim1 ? s[35] : __int_as_float(0xff800000);
                        s[36] = 72 < lim0 ? s[36] : __int_as_float(0xff800000); s[37] = 73 < lim0 ? s[37] : __int_as_float(0xff800000);
                        s[38] = 72 < lim1 ? s[38] : __int_as_float(0xff800000); s[39] = 73 < lim1 ? s[39] : __int_as_float(0xff800000);
                        s[40] = 80 < lim0 ? s[40] : __int_as_float(0xff800000); s[41] = 81 < lim0 ? s[41] : __int_as_float(0xff800000);
                        s[42] = 80 < lim1 ? s[42] : __int_as_float(0xff800000); s[43] = 81 < lim1 ? s[43] : __int_as_float(0xff800000);
                        s[44] = 88 < lim0 ? s[44] : __int_as_float(0xff800000); s[45] = 89 < lim0 ? s[45] : __int_as_float(0xff800000);
                        s[46] = 88 < lim1 ? s[46] : __int_as_float(0xff800000); s[47] = 89 < lim1 ? s[47] : __int_as_float(0xff800000);
                        s[48] = 96 < lim0 ? s[48] : __int_as_float(0xff800000); s[49] = 97 < lim0 ? s[49] : __int_as_float(0xff800000);
                        s[50] = 96 < lim1 ? s[50] : __int_as_float(0xff800000); s[51] = 97 < lim1 ? s[51] : __int_as_float(0xff800000);
                        s[52] = 104 < lim0 ? s[52] : __int_as_float(0xff800000); s[53] = 105 < lim0 ? s[53] : __int_as_float(0xff800000);
                        s[54] = 104 < lim1 ? s[54] : __int_as_float(0xff800000); s[55] = 105 < lim1 ? s[55] : __int_as_float(0xff800000);
                        s[56] = 112 < lim0 ? s[56] : __int_as_float(0xff800000); s[57] = 113 < lim0 ? s[57] : __int_as_float(0xff800000);
                        s[58] = 112 < lim1 ? s[58] : __int_as_float(0xff800000); s[59] = 113 < lim1 ? s[59] : __int_as_float(0xff800000);
                        s[60] = 120 < lim0 ? s[60] : __int_as_float(0xff800000); s[61] = 121 < lim0 ? s[61] : __int_as_float(0xff800000);
                        s[62] = 120 < lim1 ? s[62] : __int_as_float(0xff800000); s[63] = 121 < lim1 ? s[63] : __int_as_float(0xff800000);
                    }
                    float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3];
                    a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                    a0 = fmax32(a0, s[4]); a1 = fmax32(a1, s[6]); b0 = fmax32(b0, s[5]); b1 = fmax32(b1, s[7]);
                    a0 = fmax32(a0, s[8]); a1 = fmax32(a1, s[10]); b0 = fmax32(b0, s[9]); b1 = fmax32(b1, s[11]);
                    a0 = fmax32(a0, s[12]); a1 = fmax32(a1, s[14]); b0 = fmax32(b0, s[13]); b1 = fmax32(b1, s[15]);
                    a0 = fmax32(a0, s[16]); a1 = fmax32(a1, s[18]); b0 = fmax32(b0, s[17]); b1 = fmax32(b1, s[19]);
                    a0 = fmax32(a0, s[20]); a1 = fmax32(a1, s[22]); b0 = fmax32(b0, s[21]); b1 = fmax32(b1, s[23]);
                    a0 = fmax32(a0, s[24]); a1 = fmax32(a1, s[26]); b0 = fmax32(b0, s[25]); b1 = fmax32(b1, s[27]);
                    a0 = fmax32(a0, s[28]); a1 = fmax32(a1, s[30]); b0 = fmax32(b0, s[29]); b1 = fmax32(b1, s[31]);
                    a0 = fmax32(a0, s[32]); a1 = fmax32(a1, s[34]); b0 = fmax32(b0, s[33]); b1 = fmax32(b1, s[35]);
                    a0 = fmax32(a0, s[36]); a1 = fmax32(a1, s[38]); b0 = fmax32(b0, s[37]); b1 = fmax32(b1, s[39]);
                    a0 = fmax32(a0, s[40]); a1 = fmax32(a1, s[42]); b0 = fmax32(b0, s[41]); b1 = fmax32(b1, s[43]);
                    a0 = fmax32(a0, s[44]); a1 = fmax32(a1, s[46]); b0 = fmax32(b0, s[45]); b1 = fmax32(b1, s[47]);
                    a0 = fmax32(a0, s[48]); a1 = fmax32(a1, s[50]); b0 = fmax32(b0, s[49]); b1 = fmax32(b1, s[51]);
                    a0 = fmax32(a0, s[52]); a1 = fmax32(a1, s[54]); b0 = fmax32(b0, s[53]); b1 = fmax32(b1, s[55]);
                    a0 = fmax32(a0, s[56]); a1 = fmax32(a1, s[58]); b0 = fmax32(b0, s[57]); b1 = fmax32(b1, s[59]);
                    a0 = fmax32(a0, s[60]); a1 = fmax32(a1, s[62]); b0 = fmax32(b0, s[61]); b1 = fmax32(b1, s[63]);
                    a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                    a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                    float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                    fix0 = exp2_fast(fma32(top0, c, base0)); fix1 = exp2_fast(fma32(top1, c, base1));
                    top0 = a0; top1 = a1; sum0 *= fix0; sum1 *= fix1;
                    s[0] = exp2_fast(fma32(s[0], c, base0)); sum0 += s[0]; s[1] = exp2_fast(fma32(s[1], c, base0)); sum0 += s[1];
                    s[2] = exp2_fast(fma32(s[2], c, base1)); sum1 += s[2]; s[3] = exp2_fast(fma32(s[3], c, base1)); sum1 += s[3];
                    s[4] = exp2_fast(fma32(s[4], c, base0)); sum0 += s[4]; s[5] = exp2_fast(fma32(s[5], c, base0)); sum0 += s[5];
                    s[6] = exp2_fast(fma32(s[6], c, base1)); sum1 += s[6]; s[7] = exp2_fast(fma32(s[7], c, base1)); sum1 += s[7];
                    s[8] = exp2_fast(fma32(s[8], c, base0)); sum0 += s[8]; s[9] = exp2_fast(fma32(s[9], c, base0)); sum0 += s[9];
                    s[10] = exp2_fast(fma32(s[10], c, base1)); sum1 += s[10]; s[11] = exp2_fast(fma32(s[11], c, base1)); sum1 += s[11];
                    s[12] = exp2_fast(fma32(s[12], c, base0)); sum0 += s[12]; s[13] = exp2_fast(fma32(s[13], c, base0)); sum0 += s[13];
                    s[14] = exp2_fast(fma32(s[14], c, base1)); sum1 += s[14]; s[15] = exp2_fast(fma32(s[15], c, base1)); sum1 += s[15];
                    s[16] = exp2_fast(fma32(s[16], c, base0)); sum0 += s[16]; s[17] = exp2_fast(fma32(s[17], c, base0)); sum0 += s[17];
                    s[18] = exp2_fast(fma32(s[18], c, base1)); sum1 += s[18]; s[19] = exp2_fast(fma32(s[19], c, base1)); sum1 += s[19];
                    s[20] = exp2_fast(fma32(s[20], c, base0)); sum0 += s[20]; s[21] = exp2_fast(fma32(s[21], c, base0)); sum0 += s[21];
                    s[22] = exp2_fast(fma32(s[22], c, base1)); sum1 += s[22]; s[23] = exp2_fast(fma32(s[23], c, base1)); sum1 += s[23];
                    s[24] = exp2_fast(fma32(s[24], c, base0)); sum0 += s[24]; s[25] = exp2_fast(fma32(s[25], c, base0)); sum0 += s[25];
                    s[26] = exp2_fast(fma32(s[26], c, base1)); sum1 += s[26]; s[27] = exp2_fast(fma32(s[27], c, base1)); sum1 += s[27];
                    s[28] = exp2_fast(fma32(s[28], c, base0)); sum0 += s[28]; s[29] = exp2_fast(fma32(s[29], c, base0)); sum0 += s[29];
                    s[30] = exp2_fast(fma32(s[30], c, base1)); sum1 += s[30]; s[31] = exp2_fast(fma32(s[31], c, base1)); sum1 += s[31];
                    s[32] = exp2_fast(fma32(s[32], c, base0)); sum0 += s[32]; s[33] = exp2_fast(fma32(s[33], c, base0)); sum0 += s[33];
                    s[34] = exp2_fast(fma32(s[34], c, base1)); sum1 += s[34]; s[35] = exp2_fast(fma32(s[35], c, base1)); sum1 += s[35];
                    s[36] = exp2_fast(fma32(s[36], c, base0)); sum0 += s[36]; s[37] = exp2_fast(fma32(s[37], c, base0)); sum0 += s[37];
                    s[38] = exp2_fast(fma32(s[38], c, base1)); sum1 += s[38]; s[39] = exp2_fast(fma32(s[39], c, base1)); sum1 += s[39];
                    s[40] = exp2_fast(fma32(s[40], c, base0)); sum0 += s[40]; s[41] = exp2_fast(fma32(s[41], c, base0)); sum0 += s[41];
                    s[42] = exp2_fast(fma32(s[42], c, base1)); sum1 += s[42]; s[43] = exp2_fast(fma32(s[43], c, base1)); sum1 += s[43];
                    s[44] = exp2_fast(fma32(s[44], c, base0)); sum0 += s[44]; s[45] = exp2_fast(fma32(s[45], c, base0)); sum0 += s[45];
                    s[46] = exp2_fast(fma32(s[46], c, base1)); sum1 += s[46]; s[47] = exp2_fast(fma32(s[47], c, base1)); sum1 += s[47];
                    s[48] = exp2_fast(fma32(s[48], c, base0)); sum0 += s[48]; s[49] = exp2_fast(fma32(s[49], c, base0)); sum0 += s[49];
                    s[50] = exp2_fast(fma32(s[50], c, base1)); sum1 += s[50]; s[51] = exp2_fast(fma32(s[51], c, base1)); sum1 += s[51];
                    s[52] = exp2_fast(fma32(s[52], c, base0)); sum0 += s[52]; s[53] = exp2_fast(fma32(s[53], c, base0)); sum0 += s[53];
                    s[54] = exp2_fast(fma32(s[54], c, base1)); sum1 += s[54]; s[55] = exp2_fast(fma32(s[55], c, base1)); sum1 += s[55];
                    s[56] = exp2_fast(fma32(s[56], c, base0)); sum0 += s[56]; s[57] = exp2_fast(fma32(s[57], c, base0)); sum0 += s[57];
                    s[58] = exp2_fast(fma32(s[58], c, base1)); sum1 += s[58]; s[59] = exp2_fast(fma32(s[59], c, base1)); sum1 += s[59];
                    s[60] = exp2_fast(fma32(s[60], c, base0)); sum0 += s[60]; s[61] = exp2_fast(fma32(s[61], c, base0)); sum0 += s[61];
                    s[62] = exp2_fast(fma32(s[62], c, base1)); sum1 += s[62]; s[63] = exp2_fast(fma32(s[63], c, base1)); sum1 += s[63];
                    pin_64(s);
                    mbar_wait(base + 196656 + 8*vs, vphase);
                    wgmma_wait(0);
                    pin_64(o);
                    if (lane == 0) mbar_arrive(base + 196672 + 8*vs);
                    if (++vs == 2) { vs = 0; vphase ^= 1; }
                    p[0] = pack_bf16(s[0], s[1]); p[1] = pack_bf16(s[2], s[3]); p[2] = pack_bf16(s[4], s[5]); p[3] = pack_bf16(s[6], s[7]);
                    p[4] = pack_bf16(s[8], s[9]); p[5] = pack_bf16(s[10], s[11]); p[6] = pack_bf16(s[12], s[13]); p[7] = pack_bf16(s[14], s[15]);
                    p[8] = pack_bf16(s[16], s[17]); p[9] = pack_bf16(s[18], s[19]); p[10] = pack_bf16(s[20], s[21]); p[11] = pack_bf16(s[22], s[23]);
                    p[12] = pack_bf16(s[24], s[25]); p[13] = pack_bf16(s[26], s[27]); p[14] = pack_bf16(s[28], s[29]);
                    p[15] = pack_bf16(s[30], s[31]); p[16] = pack_bf16(s[32], s[33]); p[17] = pack_bf16(s[34], s[35]);
                    p[18] = pack_bf16(s[36], s[37]); p[19] = pack_bf16(s[38], s[39]); p[20] = pack_bf16(s[40], s[41]);
                    p[21] = pack_bf16(s[42], s[43]); p[22] = pack_bf16(s[44], s[45]); p[23] = pack_bf16(s[46], s[47]);
                    p[24] = pack_bf16(s[48], s[49]); p[25] = pack_bf16(s[50], s[51]); p[26] = pack_bf16(s[52], s[53]);
                    p[27] = pack_bf16(s[54], s[55]); p[28] = pack_bf16(s[56], s[57]); p[29] = pack_bf16(s[58], s[59]);
                    p[30] = pack_bf16(s[60], s[61]); p[31] = pack_bf16(s[62], s[63]);
                }
                mbar_wait(base + 196656 + 8*vs, vphase);
                o[0] *= fix0; o[1] *= fix0; o[2] *= fix1; o[3] *= fix1; o[4] *= fix0; o[5] *= fix0; o[6] *= fix1; o[7] *= fix1; o[8] *= fix0;
                o[9] *= fix0; o[10] *= fix1; o[11] *= fix1; o[12] *= fix0; o[13] *= fix0; o[14] *= fix1; o[15] *= fix1; o[16] *= fix0; o[17] *= fix0;
                o[18] *= fix1; o[19] *= fix1; o[20] *= fix0; o[21] *= fix0; o[22] *= fix1; o[23] *= fix1; o[24] *= fix0; o[25] *= fix0; o[26] *= fix1;
                o[27] *= fix1; o[28] *= fix0; o[29] *= fix0; o[30] *= fix1; o[31] *= fix1; o[32] *= fix0; o[33] *= fix0; o[34] *= fix1; o[35] *= fix1;
                o[36] *= fix0; o[37] *= fix0; o[38] *= fix1; o[39] *= fix1; o[40] *= fix0; o[41] *= fix0; o[42] *= fix1; o[43] *= fix1; o[44] *= fix0;
                o[45] *= fix0; o[46] *= fix1; o[47] *= fix1; o[48] *= fix0; o[49] *= fix0; o[50] *= fix1; o[51] *= fix1; o[52] *= fix0; o[53] *= fix0;
                o[54] *= fix1; o[55] *= fix1; o[56] *= fix0; o[57] *= fix0; o[58] *= fix1; o[59] *= fix1; o[60] *= fix0; o[61] *= fix0; o[62] *= fix1;
                o[63] *= fix1;
                wgmma_fence();
                wgmma_64x128x16_bf16_rs_t(o, p[0], p[1], p[2], p[3], dv + vs*2048 + 0, blocks != 1);
                wgmma_64x128x16_bf16_rs_t(o, p[4], p[5], p[6], p[7], dv + vs*2048 + 128, 1);
                wgmma_64x128x16_bf16_rs_t(o, p[8], p[9], p[10], p[11], dv + vs*2048 + 256, 1);
                wgmma_64x128x16_bf16_rs_t(o, p[12], p[13], p[14], p[15], dv + vs*2048 + 384, 1);
                wgmma_64x128x16_bf16_rs_t(o, p[16], p[17], p[18], p[19], dv + vs*2048 + 512, 1);
                wgmma_64x128x16_bf16_rs_t(o, p[20], p[21], p[22], p[23], dv + vs*2048 + 640, 1);
                wgmma_64x128x16_bf16_rs_t(o, p[24], p[25], p[26], p[27], dv + vs*2048 + 768, 1);
                wgmma_64x128x16_bf16_rs_t(o, p[28], p[29], p[30], p[31], dv + vs*2048 + 896, 1);
                wgmma_commit();
                sum0 += shfl_xor_f(sum0, 1); sum1 += shfl_xor_f(sum1, 1); sum0 += shfl_xor_f(sum0, 2); sum1 += shfl_xor_f(sum1, 2);
                wgmma_wait(0);
                pin_64(o);
                if (lane == 0) mbar_arrive(base + 196672 + 8*vs);
                if (++vs == 2) { vs = 0; vphase ^= 1; }
            } else {
                o[0] = 0; o[1] = 0; o[2] = 0; o[3] = 0; o[4] = 0; o[5] = 0; o[6] = 0; o[7] = 0; o[8] = 0; o[9] = 0; o[10] = 0; o[11] = 0; o[12] = 0;
                o[13] = 0; o[14] = 0; o[15] = 0; o[16] = 0; o[17] = 0; o[18] = 0; o[19] = 0; o[20] = 0; o[21] = 0; o[22] = 0; o[23] = 0; o[24] = 0;
                o[25] = 0; o[26] = 0; o[27] = 0; o[28] = 0; o[29] = 0; o[30] = 0; o[31] = 0; o[32] = 0; o[33] = 0; o[34] = 0; o[35] = 0; o[36] = 0;
                o[37] = 0; o[38] = 0; o[39] = 0; o[40] = 0; o[41] = 0; o[42] = 0; o[43] = 0; o[44] = 0; o[45] = 0; o[46] = 0; o[47] = 0; o[48] = 0;
                o[49] = 0; o[50] = 0; o[51] = 0; o[52] = 0; o[53] = 0; o[54] = 0; o[55] = 0; o[56] = 0; o[57] = 0; o[58] = 0; o[59] = 0; o[60] = 0;
                o[61] = 0; o[62] = 0; o[63] = 0;
            }
            float inv0 = sum0 > 0 ? 1.0f / sum0 : 0, inv1 = sum1 > 0 ? 1.0f / sum1 : 0;
            if (lane == 0) tma_wait_read(0);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 0, pack_bf16(o[0]*inv0, o[1]*inv0), pack_bf16(o[2]*inv1, o[3]*inv1), pack_bf16(o[4]*inv0, o[5]*inv0), pack_bf16(o[6]*inv1, o[7]*inv1));
            stmatrix_x4((lane_at ^ 32) + 0, pack_bf16(o[8]*inv0, o[9]*inv0), pack_bf16(o[10]*inv1, o[11]*inv1), pack_bf16(o[12]*inv0, o[13]*inv0), pack_bf16(o[14]*inv1, o[15]*inv1));
            stmatrix_x4((lane_at ^ 64) + 0, pack_bf16(o[16]*inv0, o[17]*inv0), pack_bf16(o[18]*inv1, o[19]*inv1), pack_bf16(o[20]*inv0, o[21]*inv0), pack_bf16(o[22]*inv1, o[23]*inv1));
            stmatrix_x4((lane_at ^ 96) + 0, pack_bf16(o[24]*inv0, o[25]*inv0), pack_bf16(o[26]*inv1, o[27]*inv1), pack_bf16(o[28]*inv0, o[29]*inv0), pack_bf16(o[30]*inv1, o[31]*inv1));
            stmatrix_x4((lane_at ^ 0) + 2048, pack_bf16(o[32]*inv0, o[33]*inv0), pack_bf16(o[34]*inv1, o[35]*inv1), pack_bf16(o[36]*inv0, o[37]*inv0), pack_bf16(o[38]*inv1, o[39]*inv1));
            stmatrix_x4((lane_at ^ 32) + 2048, pack_bf16(o[40]*inv0, o[41]*inv0), pack_bf16(o[42]*inv1, o[43]*inv1), pack_bf16(o[44]*inv0, o[45]*inv0), pack_bf16(o[46]*inv1, o[47]*inv1));
            stmatrix_x4((lane_at ^ 64) + 2048, pack_bf16(o[48]*inv0, o[49]*inv0), pack_bf16(o[50]*inv1, o[51]*inv1), pack_bf16(o[52]*inv0, o[53]*inv0), pack_bf16(o[54]*inv1, o[55]*inv1));
            stmatrix_x4((lane_at ^ 96) + 2048, pack_bf16(o[56]*inv0, o[57]*inv0), pack_bf16(o[58]*inv1, o[59]*inv1), pack_bf16(o[60]*inv0, o[61]*inv0), pack_bf16(o[62]*inv1, o[63]*inv1));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_5d(&to, stage, 0, row0 + (warp & 3)*16, 0, h, b); tma_commit(); }
            if (lse && (lane & 3) == 0) {
                float *at = lse + (u64)hb*S;
                if (row < (int)S) at[row] = sum0 > 0 ? fma32(log2_fast(sum0), 0.6931471805599453f, top0*scale) : __int_as_float(0xff800000);
                if (row + 8 < (int)S) at[row + 8] = sum1 > 0 ? fma32(log2_fast(sum1), 0.6931471805599453f, top1*scale) : __int_as_float(0xff800000);
            }
        }
        if (lane == 0) tma_wait_read(0);
    }
}
