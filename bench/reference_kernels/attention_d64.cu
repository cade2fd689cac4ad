// SPDX-License-Identifier: MIT
// attention_d64.cu - hand-written reference kernel: attention forward, bf16, head size 64, bottom-right causal with -DCAUSAL (sm_90a)
//
// As attention_d128.cu, with three groups of 64 rows (192 queries x 128 keys), Q in shared memory, rings of 3:
// at this head size the exponentials are the roof and a third group hides them. Measured 1.10 (full) and 1.07
// (causal) times cuDNN's forward in the same run.
//
// Printed form: one statement per element. Built by reference_kernels.py.
#include "prelude.cuh"

DEVICE void wgmma_64x128x16_bf16_ss(float (&d)[64], u64 a, u64 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(add));
}
DEVICE void wgmma_64x64x16_bf16_rs_t(float (&d)[32], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %37, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add));
}

#ifndef CAUSAL
// attention bf16 D 64: 192 queries x 128 keys, 3 stages, causal 0, ping-pong 1, persistent 1. Shared memory:
#else /* CAUSAL */
// attention bf16 D 64: 192 queries x 128 keys, 3 stages, causal 1, ping-pong 1, persistent 1. Shared memory:
#endif /* CAUSAL */
//   q 0, 24576; k 24576, 3 x 16384; v 73728, 3 x 16384; o 122880; barriers 147456
extern "C" __global__ void __launch_bounds__(512, 1)
kernel(const __grid_constant__ TensorMap tq, const __grid_constant__ TensorMap tk, const __grid_constant__ TensorMap tv, const __grid_constant__ TensorMap to,
       float *lse, u32 heads, u32 H, u32 ratio, u32 S, u32 SKV, u32 tiles_m, u32 hg, float scale)
{
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = smem_addr(smem);
    u32 group = uniform(threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        tma_prefetch(&tq); tma_prefetch(&tk); tma_prefetch(&tv); tma_prefetch(&to);
        mbar_init(base + 147456, 1); mbar_init(base + 147464, 12);
        for (u32 i = 0; i < 3; i++) {
            mbar_init(base + 147472 + 8*i, 1); mbar_init(base + 147496 + 8*i, 12);
            mbar_init(base + 147520 + 8*i, 1); mbar_init(base + 147544 + 8*i, 12);
        }
        mbar_init_done();
    }
    __syncthreads();
    u32 tiles = heads * tiles_m;
    int past = (int)SKV - (int)S;
    if (group == 0) {
        setmaxnreg_dec(32);
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
            int end = min((int)SKV, (int)(m + 1)*192 + past);
#endif /* CAUSAL */
            u32 blocks = end > 0 ? (u32)(end + 127) / 128 : 0;
            if (blocks != 0) {
                mbar_wait(base + 147464, qphase); qphase ^= 1;
                mbar_expect(base + 147456, 24576);
                tma_load_5d(base, &tq, base + 147456, 0, m*192, 0, h, b);
                for (u32 n = 0; n <= blocks; n++) {
                    if (n < blocks) {
                        mbar_wait(base + 147496 + 8*ks, kphase);
                        mbar_expect(base + 147472 + 8*ks, 16384);
                        tma_load_5d(base + 24576 + ks*16384, &tk, base + 147472 + 8*ks, 0, n*128, 0, hkv, b);
                        if (++ks == 3) { ks = 0; kphase ^= 1; }
                    }
                    if (n > 0) {
                        mbar_wait(base + 147544 + 8*vs, vphase);
                        mbar_expect(base + 147520 + 8*vs, 16384);
                        tma_load_5d(base + 73728 + vs*16384, &tv, base + 147520 + 8*vs, 0, (n-1)*128, 0, hkv, b);
                        if (++vs == 3) { vs = 0; vphase ^= 1; }
                    }
                }
            }
        }
        }
    } else {
        setmaxnreg_inc(160);
        u32 lane = threadIdx.x & 31, warp = uniform(threadIdx.x >> 5) - 4, wg = group - 1;
        u32 ks = 0, kphase = 0, vs = 0, vphase = 0, qphase = 0;
        float c = scale * 1.4426950408889634f;
        u64 dq = matrix_desc(base + wg*8192, 1, 16, 1024), dk = matrix_desc(base + 24576, 1, 16, 1024), dv = matrix_desc(base + 73728, 1, 16384, 1024);
        u32 stage = base + 122880 + warp*2048, lane_at = stage + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);
        if (wg == 0) { }
        else if (wg == 2) bar_arrive(1, 256);
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
            int end = min((int)SKV, (int)(m + 1)*192 + past);
#endif /* CAUSAL */
            u32 blocks = end > 0 ? (u32)(end + 127) / 128 : 0;
            int row0 = m*192 + wg*64;                          // first row of the group
            int row = row0 + (warp & 3)*16 + (lane >> 2);       // this lane's first row; the other is row + 8
            float o[32], top0 = __int_as_float(0xff800000), top1 = top0, sum0 = 0, sum1 = 0;
            if (blocks != 0) {
                float s[64], fix0, fix1;
                u32 p[32];
                mbar_wait(base + 147456, qphase); qphase ^= 1; mbar_wait(base + 147472 + 8*ks, kphase);
                wgmma_fence();
                wgmma_64x128x16_bf16_ss(s, dq + 0, dk + ks*1024 + 0, 0); wgmma_64x128x16_bf16_ss(s, dq + 2, dk + ks*1024 + 2, 1);
                wgmma_64x128x16_bf16_ss(s, dq + 4, dk + ks*1024 + 4, 1); wgmma_64x128x16_bf16_ss(s, dq + 6, dk + ks*1024 + 6, 1);
                wgmma_commit();
                wgmma_wait(0);
                pin_64(s);
                if (lane == 0) mbar_arrive(base + 147496 + 8*ks);
                if (++ks == 3) { ks = 0; kphase ^= 1; }
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
                    mbar_wait(base + 147472 + 8*ks, kphase);
                    bar_sync(1 + wg, 256);
                    wgmma_fence();
                    wgmma_64x128x16_bf16_ss(s, dq + 0, dk + ks*1024 + 0, 0); wgmma_64x128x16_bf16_ss(s, dq + 2, dk + ks*1024 + 2, 1);
                    wgmma_64x128x16_bf16_ss(s, dq + 4, dk + ks*1024 + 4, 1); wgmma_64x128x16_bf16_ss(s, dq + 6, dk + ks*1024 + 6, 1);
                    wgmma_commit();
                    mbar_wait(base + 147520 + 8*vs, vphase);
                    wgmma_fence();
                    wgmma_64x64x16_bf16_rs_t(o, p[0], p[1], p[2], p[3], dv + vs*1024 + 0, n != 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[4], p[5], p[6], p[7], dv + vs*1024 + 128, 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[8], p[9], p[10], p[11], dv + vs*1024 + 256, 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[12], p[13], p[14], p[15], dv + vs*1024 + 384, 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[16], p[17], p[18], p[19], dv + vs*1024 + 512, 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[20], p[21], p[22], p[23], dv + vs*1024 + 640, 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[24], p[25], p[26], p[27], dv + vs*1024 + 768, 1);
                    wgmma_64x64x16_bf16_rs_t(o, p[28], p[29], p[30], p[31], dv + vs*1024 + 896, 1);
                    wgmma_commit();
                    bar_arrive(1 + (wg + 1) % 3, 256);
                    wgmma_wait(1);
                    pin_64(s);
                    if (lane == 0) mbar_arrive(base + 147496 + 8*ks);
                    if (++ks == 3) { ks = 0; kphase ^= 1; }
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
                    wgmma_wait(0);
                    pin_32(o);
                    if (lane == 0) mbar_arrive(base + 147544 + 8*vs);
                    if (++vs == 3) { vs = 0; vphase ^= 1; }
                    #pragma unroll
                    for (int i = 0; i < 32; i++) p[i] = pack_bf16(s[2*i], s[2*i + 1]);
                    #pragma unroll
                    for (int i = 0; i < 8; i++) {
                        o[4*i] *= fix0; o[4*i + 1] *= fix0; o[4*i + 2] *= fix1; o[4*i + 3] *= fix1;
                    }
                }
                if (lane == 0) mbar_arrive(base + 147464);
                mbar_wait(base + 147520 + 8*vs, vphase);
                wgmma_fence();
                wgmma_64x64x16_bf16_rs_t(o, p[0], p[1], p[2], p[3], dv + vs*1024 + 0, blocks != 1);
                wgmma_64x64x16_bf16_rs_t(o, p[4], p[5], p[6], p[7], dv + vs*1024 + 128, 1);
                wgmma_64x64x16_bf16_rs_t(o, p[8], p[9], p[10], p[11], dv + vs*1024 + 256, 1);
                wgmma_64x64x16_bf16_rs_t(o, p[12], p[13], p[14], p[15], dv + vs*1024 + 384, 1);
                wgmma_64x64x16_bf16_rs_t(o, p[16], p[17], p[18], p[19], dv + vs*1024 + 512, 1);
                wgmma_64x64x16_bf16_rs_t(o, p[20], p[21], p[22], p[23], dv + vs*1024 + 640, 1);
                wgmma_64x64x16_bf16_rs_t(o, p[24], p[25], p[26], p[27], dv + vs*1024 + 768, 1);
                wgmma_64x64x16_bf16_rs_t(o, p[28], p[29], p[30], p[31], dv + vs*1024 + 896, 1);
                wgmma_commit();
                sum0 += shfl_xor_f(sum0, 1); sum1 += shfl_xor_f(sum1, 1); sum0 += shfl_xor_f(sum0, 2); sum1 += shfl_xor_f(sum1, 2);
                wgmma_wait(0);
                pin_32(o);
                if (lane == 0) mbar_arrive(base + 147544 + 8*vs);
                if (++vs == 3) { vs = 0; vphase ^= 1; }
            } else {
                #pragma unroll
                for (int i = 0; i < 32; i++) o[i] = 0;
            }
            float inv0 = sum0 > 0 ? 1.0f / sum0 : 0, inv1 = sum1 > 0 ? 1.0f / sum1 : 0;
            if (lane == 0) tma_wait_read(0);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 0, pack_bf16(o[0]*inv0, o[1]*inv0), pack_bf16(o[2]*inv1, o[3]*inv1), pack_bf16(o[4]*inv0, o[5]*inv0), pack_bf16(o[6]*inv1, o[7]*inv1));
            stmatrix_x4((lane_at ^ 32) + 0, pack_bf16(o[8]*inv0, o[9]*inv0), pack_bf16(o[10]*inv1, o[11]*inv1), pack_bf16(o[12]*inv0, o[13]*inv0), pack_bf16(o[14]*inv1, o[15]*inv1));
            stmatrix_x4((lane_at ^ 64) + 0, pack_bf16(o[16]*inv0, o[17]*inv0), pack_bf16(o[18]*inv1, o[19]*inv1), pack_bf16(o[20]*inv0, o[21]*inv0), pack_bf16(o[22]*inv1, o[23]*inv1));
            stmatrix_x4((lane_at ^ 96) + 0, pack_bf16(o[24]*inv0, o[25]*inv0), pack_bf16(o[26]*inv1, o[27]*inv1), pack_bf16(o[28]*inv0, o[29]*inv0), pack_bf16(o[30]*inv1, o[31]*inv1));
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
