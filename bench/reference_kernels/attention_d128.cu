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
                #pragma unroll
                for (int i = 0; i < 4; i++) ldmatrix_x4(qr[4*i], qr[4*i + 1], qr[4*i + 2], qr[4*i + 3], (q_at ^ 32*i) + 0);
                #pragma unroll
                for (int i = 0; i < 4; i++) ldmatrix_x4(qr[4*i + 16], qr[4*i + 17], qr[4*i + 18], qr[4*i + 19], (q_at ^ 32*i) + 16384);
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
                        #pragma unroll
                        for (int i = 0; i < 16; i++) {
                            s[4*i] = 8*i < lim0 ? s[4*i] : __int_as_float(0xff800000);
                            s[4*i + 1] = 8*i + 1 < lim0 ? s[4*i + 1] : __int_as_float(0xff800000);
                            s[4*i + 2] = 8*i < lim1 ? s[4*i + 2] : __int_as_float(0xff800000);
                            s[4*i + 3] = 8*i + 1 < lim1 ? s[4*i + 3] : __int_as_float(0xff800000);
                        }
                    }
                    float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                    #pragma unroll
                    for (int i = 0; i < 15; i++) {
                        a0 = fmax32(a0, s[4*i + 4]); a1 = fmax32(a1, s[4*i + 6]); b0 = fmax32(b0, s[4*i + 5]); b1 = fmax32(b1, s[4*i + 7]);
                    }
                    a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                    a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                    float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                    fix0 = exp2_fast(fma32(top0, c, base0)); fix1 = exp2_fast(fma32(top1, c, base1)); top0 = a0; top1 = a1; sum0 *= fix0;
                    sum1 *= fix1;
                    #pragma unroll
                    for (int i = 0; i < 16; i++) {
                        s[4*i] = exp2_fast(fma32(s[4*i], c, base0)); sum0 += s[4*i]; s[4*i + 1] = exp2_fast(fma32(s[4*i + 1], c, base0));
                        sum0 += s[4*i + 1]; s[4*i + 2] = exp2_fast(fma32(s[4*i + 2], c, base1)); sum1 += s[4*i + 2];
                        s[4*i + 3] = exp2_fast(fma32(s[4*i + 3], c, base1)); sum1 += s[4*i + 3];
                    }
                }
                #pragma unroll
                for (int i = 0; i < 32; i++) p[i] = pack_bf16(s[2*i], s[2*i + 1]);
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
                    #pragma unroll
                    for (int i = 0; i < 16; i++) {
                        o[4*i] *= fix0; o[4*i + 1] *= fix0; o[4*i + 2] *= fix1; o[4*i + 3] *= fix1;
                    }
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
                        #pragma unroll
                        for (int i = 0; i < 16; i++) {
                            s[4*i] = 8*i < lim0 ? s[4*i] : __int_as_float(0xff800000);
                            s[4*i + 1] = 8*i + 1 < lim0 ? s[4*i + 1] : __int_as_float(0xff800000);
                            s[4*i + 2] = 8*i < lim1 ? s[4*i + 2] : __int_as_float(0xff800000);
                            s[4*i + 3] = 8*i + 1 < lim1 ? s[4*i + 3] : __int_as_float(0xff800000);
                        }
                    }
                    float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                    #pragma unroll
                    for (int i = 0; i < 15; i++) {
                        a0 = fmax32(a0, s[4*i + 4]); a1 = fmax32(a1, s[4*i + 6]); b0 = fmax32(b0, s[4*i + 5]); b1 = fmax32(b1, s[4*i + 7]);
                    }
                    a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                    a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                    float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                    fix0 = exp2_fast(fma32(top0, c, base0)); fix1 = exp2_fast(fma32(top1, c, base1)); top0 = a0; top1 = a1; sum0 *= fix0;
                    sum1 *= fix1;
                    #pragma unroll
                    for (int i = 0; i < 16; i++) {
                        s[4*i] = exp2_fast(fma32(s[4*i], c, base0)); sum0 += s[4*i]; s[4*i + 1] = exp2_fast(fma32(s[4*i + 1], c, base0));
                        sum0 += s[4*i + 1]; s[4*i + 2] = exp2_fast(fma32(s[4*i + 2], c, base1)); sum1 += s[4*i + 2];
                        s[4*i + 3] = exp2_fast(fma32(s[4*i + 3], c, base1)); sum1 += s[4*i + 3];
                    }
                    pin_64(s);
                    mbar_wait(base + 196656 + 8*vs, vphase);
                    wgmma_wait(0);
                    pin_64(o);
                    if (lane == 0) mbar_arrive(base + 196672 + 8*vs);
                    if (++vs == 2) { vs = 0; vphase ^= 1; }
                    #pragma unroll
                    for (int i = 0; i < 32; i++) p[i] = pack_bf16(s[2*i], s[2*i + 1]);
                }
                mbar_wait(base + 196656 + 8*vs, vphase);
                #pragma unroll
                for (int i = 0; i < 16; i++) {
                    o[4*i] *= fix0; o[4*i + 1] *= fix0; o[4*i + 2] *= fix1; o[4*i + 3] *= fix1;
                }
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
                #pragma unroll
                for (int i = 0; i < 64; i++) o[i] = 0;
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
