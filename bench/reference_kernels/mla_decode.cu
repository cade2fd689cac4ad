// SPDX-License-Identifier: MIT
// mla_decode.cu - hand-written reference kernel: dense decode of multi-head latent attention, bf16, pages of 64 tokens, one KV head (sm_90a)
//
// Q [B][ROWS][576] (rows: token-major, head-minor), CACHE [PAGES][64][576], O [B][ROWS][512], LSE [B][ROWS] natural.
// plan packs the blocks of a ragged batch into partitions, kernel decodes, combine or combine_wide merges requests that
// more than one partition worked on. Two groups own 256 columns of the output each and score one of two key blocks
// each; six key tiles, each with its own barriers and one buffer. Not here: several KV heads, causal, other page sizes.
//
// Read beside docs/hopper.md, "MLA decode". Built by reference_kernels.py.
#include "prelude.cuh"

// ---- runs of instructions: 64 columns of a panel, or 64 keys

template <u32 A, u32 B> DEVICE void scores_of_64(float (&s)[32], u32 d, int add)
{
    wgmma_64x64x16_bf16_ss_at<A, B>(s, d, add); wgmma_64x64x16_bf16_ss_at<A + 2, B + 2>(s, d, 1);
    wgmma_64x64x16_bf16_ss_at<A + 4, B + 4>(s, d, 1); wgmma_64x64x16_bf16_ss_at<A + 6, B + 6>(s, d, 1);
}
template <u32 B> DEVICE void scores_of_rope(float (&s)[32], const u32 *qr, u32 d)
{
    wgmma_64x64x16_bf16_rs_at<B>(s, qr[0], qr[1], qr[2], qr[3], d, 1);
    wgmma_64x64x16_bf16_rs_at<B + 2>(s, qr[4], qr[5], qr[6], qr[7], d, 1);
    wgmma_64x64x16_bf16_rs_at<B + 4>(s, qr[8], qr[9], qr[10], qr[11], d, 1);
    wgmma_64x64x16_bf16_rs_at<B + 6>(s, qr[12], qr[13], qr[14], qr[15], d, 1);
}
template <u32 B> DEVICE void add_values(float (&o)[128], const u32 *p, u32 d, int add)
{
    wgmma_64x256x16_bf16_rs_t_at<B>(o, p[0], p[1], p[2], p[3], d, add);
    wgmma_64x256x16_bf16_rs_t_at<B + 128>(o, p[4], p[5], p[6], p[7], d, 1);
    wgmma_64x256x16_bf16_rs_t_at<B + 256>(o, p[8], p[9], p[10], p[11], d, 1);
    wgmma_64x256x16_bf16_rs_t_at<B + 384>(o, p[12], p[13], p[14], p[15], d, 1);
}
DEVICE void store_64(u32 at, const u32 *p)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) stmatrix_x4(at ^ 32*i, p[4*i], p[4*i + 1], p[4*i + 2], p[4*i + 3]);
}
template <int FIRST> DEVICE void store_64(u32 at, const float *x)
{
    #pragma unroll
    for (int i = FIRST; i < FIRST + 32; i += 8)
        stmatrix_x4(at ^ 4*(i - FIRST), pack_bf16(x[i], x[i + 1]), pack_bf16(x[i + 2], x[i + 3]), pack_bf16(x[i + 4], x[i + 5]), pack_bf16(x[i + 6], x[i + 7]));
}
template <int FIRST> DEVICE void store_64(u32 at, const float *x, float inv0, float inv1)
{
    #pragma unroll
    for (int i = FIRST; i < FIRST + 32; i += 8)
        stmatrix_x4(at ^ 4*(i - FIRST), pack_bf16(x[i]*inv0, x[i + 1]*inv0), pack_bf16(x[i + 2]*inv1, x[i + 3]*inv1), pack_bf16(x[i + 4]*inv0, x[i + 5]*inv0), pack_bf16(x[i + 6]*inv1, x[i + 7]*inv1));
}
DEVICE void clear_panels(u32 at, u32 from, int n)
{
    #pragma unroll
    for (int i = 0; i < n; i++)
        for (u32 x = from; x < 8192; x += 1536) st_shared_v4(at + 8192*i + x, 0, 0, 0, 0);
}

// tiles: q 0, al ar bl br 65536.., ap bp 196608, xa xb 212992, vectors 229376, barriers 230400; 230656 bytes
extern "C" __global__ void __launch_bounds__(384, 1)
kernel(const __grid_constant__ TensorMap tq, const __grid_constant__ TensorMap tk, const __grid_constant__ TensorMap tp,
       const __grid_constant__ TensorMap to, const __grid_constant__ TensorMap tpart,
       const u16 *Q, const int *table, const int *lengths, const int *part, const int *first_split, float *lse, float *lpart,
       u32 tiles_m, u32 B, u32 rows, u32 max_pages, u32 pages, float scale)
{
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = smem_addr(smem), group = uniform(threadIdx.x >> 7), rank = 0;
    u32 m = blockIdx.x % tiles_m;
    const int *mine = part + blockIdx.x / tiles_m * 8;
    if (threadIdx.x == 0) {
        tma_prefetch(&tq); tma_prefetch(&tk); tma_prefetch(&tp); tma_prefetch(&to); tma_prefetch(&tpart);
        mbar_init(base + 230592, 1); mbar_init(base + 230600, 8); mbar_init(base + 230400, 1); mbar_init(base + 230408, 1);
        mbar_init(base + 230416, 1); mbar_init(base + 230424, 1);
        mbar_init(base + 230544, 4); mbar_init(base + 230608, 1);   // al
        mbar_init(base + 230432, 1); mbar_init(base + 230440, 1); mbar_init(base + 230448, 1); mbar_init(base + 230456, 1);
        mbar_init(base + 230552, 4); mbar_init(base + 230616, 1);   // ar
        mbar_init(base + 230464, 1);
        mbar_init(base + 230560, 4); mbar_init(base + 230624, 1);   // ap
        mbar_init(base + 230472, 1); mbar_init(base + 230480, 1); mbar_init(base + 230488, 1); mbar_init(base + 230496, 1);
        mbar_init(base + 230568, 4); mbar_init(base + 230632, 1);   // br
        mbar_init(base + 230504, 1); mbar_init(base + 230512, 1); mbar_init(base + 230520, 1); mbar_init(base + 230528, 1);
        mbar_init(base + 230576, 4); mbar_init(base + 230640, 1);   // bl
        mbar_init(base + 230536, 1);
        mbar_init(base + 230584, 4); mbar_init(base + 230648, 1);   // bp
        mbar_init_done();
    }
    __syncthreads();
    int r0 = mine[0], r1 = mine[2];
    launch_dependents();
    if (r0 >= (int)B) r1 = r0 - 1;                          // a partition without work
    if (group == 0) {
        setmaxnreg_dec(40);
        if (threadIdx.x == 0) {
            u32 phase = 1, qphase = 1;
            for (int b = r0; b <= r1; b++) {
            int len = lengths[b], first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (len + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0, limit = min(len, last*64);
                if (steps == 0) continue;
                const int *pages_of = table + (u64)b*max_pages;
                int pa = pages_of[first], pb = first + 1 < last ? pages_of[first + 1] : (int)pages;
                mbar_wait(base + 230600, qphase); qphase ^= 1;
                mbar_expect(base + 230592, 65536);
                tma_load_4d(base, &tq, base + 230592, 0, m*64, 0, b);
                for (int t = 0; t < steps; t++) {
                    int n = first + 2*t;
                    u32 cut_a = (n + 1)*64 > len, cut_b = n + 1 < last && (n + 2)*64 > len;
                    int na = n + 2 < last ? pages_of[n + 2] : (int)pages, nb = n + 3 < last ? pages_of[n + 3] : (int)pages;
                    mbar_wait(base + 230560, phase);
                    { u32 bar = base + (cut_a ? 230624 : 230464);
                    mbar_expect(bar, 8192);
                    tma_load_4d(base + 196608, &tp, bar, 0, 0, 8, pa); }   // ap
                    mbar_wait(base + 230584, phase);
                    { u32 bar = base + (cut_b ? 230648 : 230536);
                    mbar_expect(bar, 8192);
                    tma_load_4d(base + 204800, &tp, bar, 0, 0, 8, pb); }   // bp
                    mbar_wait(base + 230544, phase);
                    if (cut_a) { mbar_expect(base + 230608, 32768); tma_load_4d(base + 65536, &tk, base + 230608, 0, 0, 0, pa); }
                    else {
                        mbar_expect(base + 230400, 8192); tma_load_4d(base + 65536, &tp, base + 230400, 0, 0, 0, pa);
                        mbar_expect(base + 230408, 8192); tma_load_4d(base + 73728, &tp, base + 230408, 0, 0, 1, pa);
                        mbar_expect(base + 230416, 8192); tma_load_4d(base + 81920, &tp, base + 230416, 0, 0, 2, pa);
                        mbar_expect(base + 230424, 8192); tma_load_4d(base + 90112, &tp, base + 230424, 0, 0, 3, pa);
                    }
                    mbar_wait(base + 230552, phase);
                    if (cut_a) { mbar_expect(base + 230616, 32768); tma_load_4d(base + 98304, &tk, base + 230616, 0, 0, 4, pa); }
                    else {
                        mbar_expect(base + 230432, 8192); tma_load_4d(base + 98304, &tp, base + 230432, 0, 0, 4, pa);
                        mbar_expect(base + 230440, 8192); tma_load_4d(base + 106496, &tp, base + 230440, 0, 0, 5, pa);
                        mbar_expect(base + 230448, 8192); tma_load_4d(base + 114688, &tp, base + 230448, 0, 0, 6, pa);
                        mbar_expect(base + 230456, 8192); tma_load_4d(base + 122880, &tp, base + 230456, 0, 0, 7, pa);
                    }
                    mbar_wait(base + 230576, phase);
                    if (cut_b) { mbar_expect(base + 230640, 32768); tma_load_4d(base + 131072, &tk, base + 230640, 0, 0, 0, pb); }
                    else {
                        mbar_expect(base + 230504, 8192); tma_load_4d(base + 131072, &tp, base + 230504, 0, 0, 0, pb);
                        mbar_expect(base + 230512, 8192); tma_load_4d(base + 139264, &tp, base + 230512, 0, 0, 1, pb);
                        mbar_expect(base + 230520, 8192); tma_load_4d(base + 147456, &tp, base + 230520, 0, 0, 2, pb);
                        mbar_expect(base + 230528, 8192); tma_load_4d(base + 155648, &tp, base + 230528, 0, 0, 3, pb);
                    }
                    mbar_wait(base + 230568, phase);
                    if (cut_b) { mbar_expect(base + 230632, 32768); tma_load_4d(base + 163840, &tk, base + 230632, 0, 0, 4, pb); }
                    else {
                        mbar_expect(base + 230472, 8192); tma_load_4d(base + 163840, &tp, base + 230472, 0, 0, 4, pb);
                        mbar_expect(base + 230480, 8192); tma_load_4d(base + 172032, &tp, base + 230480, 0, 0, 5, pb);
                        mbar_expect(base + 230488, 8192); tma_load_4d(base + 180224, &tp, base + 230488, 0, 0, 6, pb);
                        mbar_expect(base + 230496, 8192); tma_load_4d(base + 188416, &tp, base + 230496, 0, 0, 7, pb);
                    }
                    if (tiles_m > 1 && n + 2 < last) { int f = pages_of[n + 2]; if (m == 0) { tma_prefetch_4d(&tk, 0, 0, 0, f); tma_prefetch_4d(&tk, 0, 0, 4, f); tma_prefetch_4d(&tp, 0, 0, 8, f); } }
                    if (tiles_m > 1 && n + 3 < last) { int f = pages_of[n + 3]; if (m == tiles_m - 1) { tma_prefetch_4d(&tk, 0, 0, 4, f); tma_prefetch_4d(&tk, 0, 0, 0, f); tma_prefetch_4d(&tp, 0, 0, 8, f); } }
                    pa = na; pb = nb;
                    phase ^= 1;
                }
            }
        } else if (threadIdx.x >= 32) {                         // rows at or past the length: zero, whatever the page holds
            u32 phase_a = 0, phase_b = 0;
            for (int b = r0; b <= r1; b++) {
            int len = lengths[b], first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (len + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0, limit = min(len, last*64);
                if (steps == 0 || last*64 <= len) continue;
                u32 from = (len & 63)*128 + (threadIdx.x - 32)*16;
                if (last - first & 1) {
                    mbar_wait(base + 230624, phase_a);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 196608 + x, 0, 0, 0, 0);
                    fence_async();
                    bar_sync(6, 96);
                    if (threadIdx.x == 32) { mbar_arrive(base + 230464); }
                    mbar_wait(base + 230608, phase_a);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 65536 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 73728 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 81920 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 90112 + x, 0, 0, 0, 0);
                    fence_async();
                    bar_sync(6, 96);
                    if (threadIdx.x == 32) { mbar_arrive(base + 230400); mbar_arrive(base + 230408); mbar_arrive(base + 230416); mbar_arrive(base + 230424); }
                    mbar_wait(base + 230616, phase_a);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 98304 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 106496 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 114688 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 122880 + x, 0, 0, 0, 0);
                    fence_async();
                    bar_sync(6, 96);
                    if (threadIdx.x == 32) { mbar_arrive(base + 230432); mbar_arrive(base + 230440); mbar_arrive(base + 230448); mbar_arrive(base + 230456); }
                    phase_a ^= 1;
                } else {
                    mbar_wait(base + 230648, phase_b);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 204800 + x, 0, 0, 0, 0);
                    fence_async();
                    bar_sync(6, 96);
                    if (threadIdx.x == 32) { mbar_arrive(base + 230536); }
                    mbar_wait(base + 230640, phase_b);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 131072 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 139264 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 147456 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 155648 + x, 0, 0, 0, 0);
                    fence_async();
                    bar_sync(6, 96);
                    if (threadIdx.x == 32) { mbar_arrive(base + 230504); mbar_arrive(base + 230512); mbar_arrive(base + 230520); mbar_arrive(base + 230528); }
                    mbar_wait(base + 230632, phase_b);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 163840 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 172032 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 180224 + x, 0, 0, 0, 0);
                    for (u32 x = from; x < 8192; x += 1536) st_shared_v4(base + 188416 + x, 0, 0, 0, 0);
                    fence_async();
                    bar_sync(6, 96);
                    if (threadIdx.x == 32) { mbar_arrive(base + 230472); mbar_arrive(base + 230480); mbar_arrive(base + 230488); mbar_arrive(base + 230496); }
                    phase_b ^= 1;
                }
            }
        }
    } else {
        setmaxnreg_inc(232);
        u32 lane = threadIdx.x & 31, warp = uniform(threadIdx.x >> 5) & 3, row = warp*16 + (lane >> 2), phase = 0, qphase = 0;
        u32 x_at = warp*2048 + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);      // of this lane in a [64][64] tile
        u32 vec = base + 229376 + row*4;
        float c = scale * 1.4426950408889634f;
        u32 d = (base & 0x3ffff) >> 4 | 512 << 16;        // (in a cluster the rank stands in bit 24) low word of every tile's descriptor: the lead counts for a transposed operand only
        if (group == 1) {
            for (int b = r0; b <= r1; b++) {
            int len = lengths[b], first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (len + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0, limit = min(len, last*64);
                float lo[128], top0 = __int_as_float(0xff800000), top1 = top0, sum0 = 0, sum1 = 0;
                if (steps != 0) {
                    float s[32];
                    u32 qr[16];
                    {   // the rotary part of the query, straight into the form of a left operand
                        u32 r = m*64 + row; const u16 *at = Q + ((u64)b*rows + r)*576 + 512 + (lane & 3)*2; LOAD_ROTARY(qr);
                    }
                    mbar_wait(base + 230592, qphase); qphase ^= 1;
                    wgmma_fence();
                    mbar_wait(base + 230400, phase);
                    wgmma_fence();
                    scores_of_64<0, 4096>(s, d, 0);
                    mbar_wait(base + 230408, phase);
                    wgmma_fence();
                    scores_of_64<512, 4608>(s, d, 1);
                    mbar_wait(base + 230416, phase);
                    wgmma_fence();
                    scores_of_64<1024, 5120>(s, d, 1);
                    mbar_wait(base + 230424, phase);
                    wgmma_fence();
                    scores_of_64<1536, 5632>(s, d, 1);
                    wgmma_fence();
                    mbar_wait(base + 230432, phase);
                    wgmma_fence();
                    scores_of_64<2048, 6144>(s, d, 1);
                    mbar_wait(base + 230440, phase);
                    wgmma_fence();
                    scores_of_64<2560, 6656>(s, d, 1);
                    mbar_wait(base + 230448, phase);
                    wgmma_fence();
                    scores_of_64<3072, 7168>(s, d, 1);
                    mbar_wait(base + 230456, phase);
                    wgmma_fence();
                    scores_of_64<3584, 7680>(s, d, 1);
                    mbar_wait(base + 230464, phase);
                    wgmma_fence();
                    scores_of_rope<12288>(s, qr, d);
                    wgmma_commit();
                    if (lane == 0) tma_wait_read(0);                        // the last output has left xa
                    __syncwarp();
                    int n = first;
                    for (; n + 2 < last; n += 2) {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive(base + 230560);
                        if ((n + 1)*64 > limit) {
                            int lim = limit - (n + 0)*64 - (int)(lane & 3)*2;
                            #pragma unroll
                            for (int i = 0; i < 8; i++) {
                                s[4*i] = 8*i < lim ? s[4*i] : __int_as_float(0xff800000);
                                s[4*i + 1] = 8*i + 1 < lim ? s[4*i + 1] : __int_as_float(0xff800000);
                                s[4*i + 2] = 8*i < lim ? s[4*i + 2] : __int_as_float(0xff800000);
                                s[4*i + 3] = 8*i + 1 < lim ? s[4*i + 3] : __int_as_float(0xff800000);
                            }
                        }
                        float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                        #pragma unroll
                        for (int i = 0; i < 7; i++) {
                            a0 = fmax32(a0, s[4*i + 4]); a1 = fmax32(a1, s[4*i + 6]); b0 = fmax32(b0, s[4*i + 5]);
                            b1 = fmax32(b1, s[4*i + 7]);
                        }
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                        if ((lane & 3) == 0) { st_shared(vec + 0, a0); st_shared(vec + 32, a1); }
                        bar_arrive(1, 256);
                        mbar_wait(base + 230400, phase);
                        float fix0 = exp2_fast((top0 - a0)*c), fix1 = exp2_fast((top1 - a1)*c); sum0 *= fix0; sum1 *= fix1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        #pragma unroll
                        for (int i = 0; i < 8; i++) {
                            s[4*i] = exp2_fast(fma32(s[4*i], c, base0)); sum0 += s[4*i];
                            s[4*i + 1] = exp2_fast(fma32(s[4*i + 1], c, base0)); sum0 += s[4*i + 1];
                            s[4*i + 2] = exp2_fast(fma32(s[4*i + 2], c, base1)); sum1 += s[4*i + 2];
                            s[4*i + 3] = exp2_fast(fma32(s[4*i + 3], c, base1)); sum1 += s[4*i + 3];
                        }
                        u32 p[16]; PACK_16(p, s);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        wgmma_fence();
                        add_values<4096>(lo, p, d, n != first);
                        wgmma_commit();
                        bar_sync(2, 256); top0 = ld_shared(vec + 256); top1 = ld_shared(vec + 288); fix0 = exp2_fast((a0 - top0)*c);
                        fix1 = exp2_fast((a1 - top1)*c); sum0 *= fix0; sum1 *= fix1; SCALE_32(s, fix0, fix1);
                        store_64<0>(base + 212992 + x_at, s);
                        fence_async();
                        bar_arrive(3, 256);
                        mbar_wait(base + 230400, phase);
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive(base + 230544);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        bar_sync(4, 256);
                        wgmma_fence();
                        wgmma_64x256x16_bf16_ss_t_at<13824, 8192>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13826, 8320>(lo, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13828, 8448>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13830, 8576>(lo, d, 1);
                        wgmma_commit();
                        phase ^= 1;
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive(base + 230576);
                        wgmma_fence();
                        mbar_wait(base + 230400, phase);
                        wgmma_fence();
                        scores_of_64<0, 4096>(s, d, 0);
                        mbar_wait(base + 230408, phase);
                        wgmma_fence();
                        scores_of_64<512, 4608>(s, d, 1);
                        mbar_wait(base + 230416, phase);
                        wgmma_fence();
                        scores_of_64<1024, 5120>(s, d, 1);
                        mbar_wait(base + 230424, phase);
                        wgmma_fence();
                        scores_of_64<1536, 5632>(s, d, 1);
                        wgmma_fence();
                        mbar_wait(base + 230432, phase);
                        wgmma_fence();
                        scores_of_64<2048, 6144>(s, d, 1);
                        mbar_wait(base + 230440, phase);
                        wgmma_fence();
                        scores_of_64<2560, 6656>(s, d, 1);
                        mbar_wait(base + 230448, phase);
                        wgmma_fence();
                        scores_of_64<3072, 7168>(s, d, 1);
                        mbar_wait(base + 230456, phase);
                        wgmma_fence();
                        scores_of_64<3584, 7680>(s, d, 1);
                        mbar_wait(base + 230464, phase);
                        wgmma_fence();
                        scores_of_rope<12288>(s, qr, d);
                        wgmma_commit();
                    }
                    {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive(base + 230560);
                        if (lane == 0) mbar_arrive(base + 230600);
                        if ((n + 1)*64 > limit) {
                            int lim = limit - (n + 0)*64 - (int)(lane & 3)*2;
                            #pragma unroll
                            for (int i = 0; i < 8; i++) {
                                s[4*i] = 8*i < lim ? s[4*i] : __int_as_float(0xff800000);
                                s[4*i + 1] = 8*i + 1 < lim ? s[4*i + 1] : __int_as_float(0xff800000);
                                s[4*i + 2] = 8*i < lim ? s[4*i + 2] : __int_as_float(0xff800000);
                                s[4*i + 3] = 8*i + 1 < lim ? s[4*i + 3] : __int_as_float(0xff800000);
                            }
                        }
                        float a0 = top0, a1 = top1, b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                        #pragma unroll
                        for (int i = 0; i < 7; i++) {
                            a0 = fmax32(a0, s[4*i + 4]); a1 = fmax32(a1, s[4*i + 6]); b0 = fmax32(b0, s[4*i + 5]);
                            b1 = fmax32(b1, s[4*i + 7]);
                        }
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2));
                        if ((lane & 3) == 0) { st_shared(vec + 0, a0); st_shared(vec + 32, a1); }
                        bar_arrive(1, 256);
                        mbar_wait(base + 230400, phase);
                        float fix0 = exp2_fast((top0 - a0)*c), fix1 = exp2_fast((top1 - a1)*c); sum0 *= fix0; sum1 *= fix1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        #pragma unroll
                        for (int i = 0; i < 8; i++) {
                            s[4*i] = exp2_fast(fma32(s[4*i], c, base0)); sum0 += s[4*i];
                            s[4*i + 1] = exp2_fast(fma32(s[4*i + 1], c, base0)); sum0 += s[4*i + 1];
                            s[4*i + 2] = exp2_fast(fma32(s[4*i + 2], c, base1)); sum1 += s[4*i + 2];
                            s[4*i + 3] = exp2_fast(fma32(s[4*i + 3], c, base1)); sum1 += s[4*i + 3];
                        }
                        u32 p[16]; PACK_16(p, s);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        wgmma_fence();
                        add_values<4096>(lo, p, d, n != first);
                        wgmma_commit();
                        bar_sync(2, 256); top0 = ld_shared(vec + 256); top1 = ld_shared(vec + 288); fix0 = exp2_fast((a0 - top0)*c);
                        fix1 = exp2_fast((a1 - top1)*c); sum0 *= fix0; sum1 *= fix1; SCALE_32(s, fix0, fix1);
                        store_64<0>(base + 212992 + x_at, s);
                        fence_async();
                        bar_arrive(3, 256);
                        mbar_wait(base + 230400, phase);
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive(base + 230544);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        SCALE_128(lo, fix0, fix1);
                        }
                        bar_sync(4, 256);
                        wgmma_fence();
                        wgmma_64x256x16_bf16_ss_t_at<13824, 8192>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13826, 8320>(lo, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13828, 8448>(lo, d, 1); wgmma_64x256x16_bf16_ss_t_at<13830, 8576>(lo, d, 1);
                        wgmma_commit();
                        phase ^= 1;
                        wgmma_wait(0);
                        pin_128(lo);
                        if (lane == 0) mbar_arrive(base + 230576);
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
                    store_64<0>(base + 212992 + x_at, lo, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 0, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    store_64<32>(base + 212992 + x_at, lo, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 64, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    store_64<64>(base + 212992 + x_at, lo, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 128, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    store_64<96>(base + 212992 + x_at, lo, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 192, m*64 + warp*16, b); tma_commit(); }
                }
            }
        } else {
            for (int b = r0; b <= r1; b++) {
            int len = lengths[b], first = b == r0 ? mine[1] : 0, last = b == r1 ? mine[3] : (len + 63) / 64;
            int steps = last > first ? (last - first + 1) / 2 : 0, limit = min(len, last*64);
                float hi[128], top0 = __int_as_float(0xff800000), top1 = top0, sum0 = 0, sum1 = 0;
                if (steps != 0) {
                    float s[32];
                    u32 qr[16];
                    {   // the rotary part of the query, straight into the form of a left operand
                        u32 r = m*64 + row; const u16 *at = Q + ((u64)b*rows + r)*576 + 512 + (lane & 3)*2; LOAD_ROTARY(qr);
                    }
                    mbar_wait(base + 230592, qphase); qphase ^= 1;
                    wgmma_fence();
                    mbar_wait(base + 230504, phase);
                    wgmma_fence();
                    scores_of_64<0, 8192>(s, d, 0);
                    mbar_wait(base + 230512, phase);
                    wgmma_fence();
                    scores_of_64<512, 8704>(s, d, 1);
                    mbar_wait(base + 230520, phase);
                    wgmma_fence();
                    scores_of_64<1024, 9216>(s, d, 1);
                    mbar_wait(base + 230528, phase);
                    wgmma_fence();
                    scores_of_64<1536, 9728>(s, d, 1);
                    wgmma_fence();
                    mbar_wait(base + 230472, phase);
                    wgmma_fence();
                    scores_of_64<2048, 10240>(s, d, 1);
                    mbar_wait(base + 230480, phase);
                    wgmma_fence();
                    scores_of_64<2560, 10752>(s, d, 1);
                    mbar_wait(base + 230488, phase);
                    wgmma_fence();
                    scores_of_64<3072, 11264>(s, d, 1);
                    mbar_wait(base + 230496, phase);
                    wgmma_fence();
                    scores_of_64<3584, 11776>(s, d, 1);
                    mbar_wait(base + 230536, phase);
                    wgmma_fence();
                    scores_of_rope<12800>(s, qr, d);
                    wgmma_commit();
                    if (lane == 0) tma_wait_read(0);                        // the last output has left xb
                    __syncwarp();
                    int n = first;
                    for (; n + 2 < last; n += 2) {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive(base + 230584);
                        if ((n + 2)*64 > limit) {
                            int lim = limit - (n + 1)*64 - (int)(lane & 3)*2;
                            #pragma unroll
                            for (int i = 0; i < 8; i++) {
                                s[4*i] = 8*i < lim ? s[4*i] : __int_as_float(0xff800000);
                                s[4*i + 1] = 8*i + 1 < lim ? s[4*i + 1] : __int_as_float(0xff800000);
                                s[4*i + 2] = 8*i < lim ? s[4*i + 2] : __int_as_float(0xff800000);
                                s[4*i + 3] = 8*i + 1 < lim ? s[4*i + 3] : __int_as_float(0xff800000);
                            }
                        }
                        float a0 = s[0], a1 = s[2], b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                        #pragma unroll
                        for (int i = 0; i < 7; i++) {
                            a0 = fmax32(a0, s[4*i + 4]); a1 = fmax32(a1, s[4*i + 6]); b0 = fmax32(b0, s[4*i + 5]);
                            b1 = fmax32(b1, s[4*i + 7]);
                        }
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2)); bar_sync(1, 256);
                        a0 = fmax32(a0, ld_shared(vec + 0)); a1 = fmax32(a1, ld_shared(vec + 32));
                        if ((lane & 3) == 0) { st_shared(vec + 256, a0); st_shared(vec + 288, a1); }
                        bar_arrive(2, 256);
                        mbar_wait(base + 230472, phase);
                        float fix0 = exp2_fast((top0 - a0)*c), fix1 = exp2_fast((top1 - a1)*c); sum0 *= fix0; sum1 *= fix1; top0 = a0;
                        top1 = a1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        #pragma unroll
                        for (int i = 0; i < 8; i++) {
                            s[4*i] = exp2_fast(fma32(s[4*i], c, base0)); sum0 += s[4*i];
                            s[4*i + 1] = exp2_fast(fma32(s[4*i + 1], c, base0)); sum0 += s[4*i + 1];
                            s[4*i + 2] = exp2_fast(fma32(s[4*i + 2], c, base1)); sum1 += s[4*i + 2];
                            s[4*i + 3] = exp2_fast(fma32(s[4*i + 3], c, base1)); sum1 += s[4*i + 3];
                        }
                        u32 p[16]; PACK_16(p, s);
                        store_64(base + 221184 + x_at, p);
                        fence_async();
                        bar_arrive(4, 256);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        #pragma unroll
                        for (int i = 0; i < 32; i++) {
                            hi[4*i] *= fix0; hi[4*i + 1] *= fix0; hi[4*i + 2] *= fix1; hi[4*i + 3] *= fix1;
                        }
                        }
                        bar_sync(3, 256);
                        wgmma_fence();
                        wgmma_64x256x16_bf16_ss_t_at<13312, 6144>(hi, d, n != first); wgmma_64x256x16_bf16_ss_t_at<13314, 6272>(hi, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13316, 6400>(hi, d, 1); wgmma_64x256x16_bf16_ss_t_at<13318, 6528>(hi, d, 1);
                        wgmma_commit();
                        add_values<10240>(hi, p, d, 1);
                        wgmma_commit();
                        wgmma_wait(1);
                        if (lane == 0) mbar_arrive(base + 230552);
                        phase ^= 1;
                        wgmma_wait(0);
                        pin_128(hi);
                        if (lane == 0) mbar_arrive(base + 230568);
                        wgmma_fence();
                        mbar_wait(base + 230504, phase);
                        wgmma_fence();
                        scores_of_64<0, 8192>(s, d, 0);
                        mbar_wait(base + 230512, phase);
                        wgmma_fence();
                        scores_of_64<512, 8704>(s, d, 1);
                        mbar_wait(base + 230520, phase);
                        wgmma_fence();
                        scores_of_64<1024, 9216>(s, d, 1);
                        mbar_wait(base + 230528, phase);
                        wgmma_fence();
                        scores_of_64<1536, 9728>(s, d, 1);
                        wgmma_fence();
                        mbar_wait(base + 230472, phase);
                        wgmma_fence();
                        scores_of_64<2048, 10240>(s, d, 1);
                        mbar_wait(base + 230480, phase);
                        wgmma_fence();
                        scores_of_64<2560, 10752>(s, d, 1);
                        mbar_wait(base + 230488, phase);
                        wgmma_fence();
                        scores_of_64<3072, 11264>(s, d, 1);
                        mbar_wait(base + 230496, phase);
                        wgmma_fence();
                        scores_of_64<3584, 11776>(s, d, 1);
                        mbar_wait(base + 230536, phase);
                        wgmma_fence();
                        scores_of_rope<12800>(s, qr, d);
                        wgmma_commit();
                    }
                    {
                        wgmma_wait(0);
                        pin_32(s);
                        if (lane == 0) mbar_arrive(base + 230584);
                        if (lane == 0) mbar_arrive(base + 230600);
                        if ((n + 2)*64 > limit) {
                            int lim = limit - (n + 1)*64 - (int)(lane & 3)*2;
                            #pragma unroll
                            for (int i = 0; i < 8; i++) {
                                s[4*i] = 8*i < lim ? s[4*i] : __int_as_float(0xff800000);
                                s[4*i + 1] = 8*i + 1 < lim ? s[4*i + 1] : __int_as_float(0xff800000);
                                s[4*i + 2] = 8*i < lim ? s[4*i + 2] : __int_as_float(0xff800000);
                                s[4*i + 3] = 8*i + 1 < lim ? s[4*i + 3] : __int_as_float(0xff800000);
                            }
                        }
                        float a0 = s[0], a1 = s[2], b0 = s[1], b1 = s[3]; a0 = fmax32(a0, s[0]); a1 = fmax32(a1, s[2]);
                        #pragma unroll
                        for (int i = 0; i < 7; i++) {
                            a0 = fmax32(a0, s[4*i + 4]); a1 = fmax32(a1, s[4*i + 6]); b0 = fmax32(b0, s[4*i + 5]);
                            b1 = fmax32(b1, s[4*i + 7]);
                        }
                        a0 = fmax32(a0, b0); a1 = fmax32(a1, b1); a0 = fmax32(a0, shfl_xor_f(a0, 1)); a1 = fmax32(a1, shfl_xor_f(a1, 1));
                        a0 = fmax32(a0, shfl_xor_f(a0, 2)); a1 = fmax32(a1, shfl_xor_f(a1, 2)); bar_sync(1, 256);
                        a0 = fmax32(a0, ld_shared(vec + 0)); a1 = fmax32(a1, ld_shared(vec + 32));
                        if ((lane & 3) == 0) { st_shared(vec + 256, a0); st_shared(vec + 288, a1); }
                        bar_arrive(2, 256);
                        mbar_wait(base + 230472, phase);
                        float fix0 = exp2_fast((top0 - a0)*c), fix1 = exp2_fast((top1 - a1)*c); sum0 *= fix0; sum1 *= fix1; top0 = a0;
                        top1 = a1;
                        float base0 = a0 == __int_as_float(0xff800000) ? 0 : -a0*c, base1 = a1 == __int_as_float(0xff800000) ? 0 : -a1*c;
                        #pragma unroll
                        for (int i = 0; i < 8; i++) {
                            s[4*i] = exp2_fast(fma32(s[4*i], c, base0)); sum0 += s[4*i];
                            s[4*i + 1] = exp2_fast(fma32(s[4*i + 1], c, base0)); sum0 += s[4*i + 1];
                            s[4*i + 2] = exp2_fast(fma32(s[4*i + 2], c, base1)); sum1 += s[4*i + 2];
                            s[4*i + 3] = exp2_fast(fma32(s[4*i + 3], c, base1)); sum1 += s[4*i + 3];
                        }
                        u32 p[16]; PACK_16(p, s);
                        store_64(base + 221184 + x_at, p);
                        fence_async();
                        bar_arrive(4, 256);
                        if (__any_sync(0xffffffffu, fix0 != 1.0f || fix1 != 1.0f)) {
                        #pragma unroll
                        for (int i = 0; i < 32; i++) {
                            hi[4*i] *= fix0; hi[4*i + 1] *= fix0; hi[4*i + 2] *= fix1; hi[4*i + 3] *= fix1;
                        }
                        }
                        bar_sync(3, 256);
                        wgmma_fence();
                        wgmma_64x256x16_bf16_ss_t_at<13312, 6144>(hi, d, n != first); wgmma_64x256x16_bf16_ss_t_at<13314, 6272>(hi, d, 1);
                        wgmma_64x256x16_bf16_ss_t_at<13316, 6400>(hi, d, 1); wgmma_64x256x16_bf16_ss_t_at<13318, 6528>(hi, d, 1);
                        wgmma_commit();
                        add_values<10240>(hi, p, d, 1);
                        wgmma_commit();
                        wgmma_wait(1);
                        if (lane == 0) mbar_arrive(base + 230552);
                        phase ^= 1;
                        wgmma_wait(0);
                        pin_128(hi);
                        if (lane == 0) mbar_arrive(base + 230568);
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
                    store_64<0>(base + 221184 + x_at, hi, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 256, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    store_64<32>(base + 221184 + x_at, hi, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 320, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    store_64<64>(base + 221184 + x_at, hi, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 384, m*64 + warp*16, b); tma_commit(); }
                    if (lane == 0) tma_wait_read(0);
                    __syncwarp();
                    store_64<96>(base + 221184 + x_at, hi, inv0, inv1);
                    fence_async();
                    __syncwarp();
                    if (lane == 0) { tma_store_3d(&to, box, 448, m*64 + warp*16, b); tma_commit(); }
                }
            }
        }
        if (lane == 0) tma_wait_read(0);
    }
}

// Blocks of 64 keys of a ragged batch into partitions of equal cost. One warp.
extern "C" __global__ void __launch_bounds__(32) plan(const int *lengths, int *part, int *first_split, u32 B, u32 P, u32 topk, u32 fixed)
{
    u32 lane = threadIdx.x, total = 0;
    for (u32 i = lane; i < B; i += 32) total += blocks_of(topk ? topk : lengths[i]) + fixed;
    for (u32 d = 16; d; d >>= 1) total += __shfl_xor_sync(0xffffffffu, total, d);
    if (lane != 0) return;
    int payload = (total + P - 1) / P + fixed, req = 0, blk = 0, split = 0, cum = 0;
    first_split[0] = 0;
    for (u32 p = 0; p < P; p++) {
        int room = payload, *row = part + p*8;
        row[0] = req; row[1] = blk; row[4] = split;
        while (req < (int)B) {
            int left = blocks_of(topk ? topk : lengths[req]) - blk;
            if (room < left + (int)fixed) {
                if (room > (int)fixed) { blk += room - fixed; split++; }
                break;
            }
            room -= left + fixed; cum += split + 1; req++; blk = 0; split = 0;
            first_split[req] = cum;
        }
        int end = blk;
        if (blk == 0 && req > 0) { int len = topk ? topk : lengths[req - 1]; end = len == 0 ? 0 : blocks_of(len); }
        row[2] = blk > 0 ? req : req - 1; row[3] = end; row[5] = row[6] = row[7] = 0;
    }
}

// Partial outputs of one request to its output; what one split made alone is done already. Many rows: a warp per row.
extern "C" __global__ void __launch_bounds__(256) combine(const float *opart, const float *lpart, const int *first_split, u16 *O, float *lse, u32 rows)
{
    u32 b = blockIdx.y, lane = threadIdx.x & 31, r = blockIdx.x*8 + (threadIdx.x >> 5), s0 = first_split[b], n = first_split[b + 1] - s0;
    if (n == 1 || r >= rows) return;
    wait_prerequisites();
    float top = __int_as_float(0xff800000), sum = 0, o[16];
    for (u32 s = lane; s < n; s += 32) top = fmax32(top, lpart[(u64)(s0 + s)*rows + r]);
    for (u32 x = 16; x; x >>= 1) top = fmax32(top, shfl_xor_f(top, x));
    float shift = top == __int_as_float(0xff800000) ? 0 : top;
    for (u32 s = lane; s < n; s += 32) sum += exp2_fast(lpart[(u64)(s0 + s)*rows + r] - shift);
    for (u32 x = 16; x; x >>= 1) sum += shfl_xor_f(sum, x);
    float inv = sum > 0 ? 1.0f / sum : 0;
    for (u32 i = 0; i < 16; i++) o[i] = 0;
    for (u32 s = 0; s < n; s += 2) {                      // two splits at a time: eight loads in flight
        u32 more = s + 1 < n;
        const float4 *at = (const float4 *)(opart + ((u64)(s0 + s)*rows + r)*512) + lane, *at2 = more ? at + (u64)rows*128 : at;
        float w = exp2_fast(lpart[(u64)(s0 + s)*rows + r] - shift)*inv, w2 = more ? exp2_fast(lpart[(u64)(s0 + s + 1)*rows + r] - shift)*inv : 0;
        float4 v[4], x[4];
        #pragma unroll
        for (u32 i = 0; i < 4; i++) { v[i] = at[32*i]; x[i] = at2[32*i]; }
        #pragma unroll
        for (u32 i = 0; i < 4; i++) {
            o[4*i] = fma32(w2, x[i].x, fma32(w, v[i].x, o[4*i])); o[4*i + 1] = fma32(w2, x[i].y, fma32(w, v[i].y, o[4*i + 1]));
            o[4*i + 2] = fma32(w2, x[i].z, fma32(w, v[i].z, o[4*i + 2])); o[4*i + 3] = fma32(w2, x[i].w, fma32(w, v[i].w, o[4*i + 3]));
        }
    }
    uint2 *to = (uint2 *)(O + ((u64)b*rows + r)*512) + lane;
    #pragma unroll
    for (u32 i = 0; i < 4; i++) { uint2 y = {pack_bf16(o[4*i], o[4*i + 1]), pack_bf16(o[4*i + 2], o[4*i + 3])}; to[32*i] = y; }
    if (lane == 0) lse[(u64)b*rows + r] = sum > 0 ? (shift + log2_fast(sum))*0.6931471805599453f : -__int_as_float(0xff800000);
}

// Few rows and many splits: 256 threads per row, two columns each; sixteen splits in flight. Up to 1024 splits.
extern "C" __global__ void __launch_bounds__(256) combine_wide(const float *opart, const float *lpart, const int *first_split, u16 *O, float *lse, u32 rows)
{
    __shared__ float weight[1024];
    u32 b = blockIdx.y, lane = threadIdx.x & 31, r = blockIdx.x, s0 = first_split[b], n = first_split[b + 1] - s0;
    if (n == 1) return;
    wait_prerequisites();
    float top = __int_as_float(0xff800000), sum = 0, o0 = 0, o1 = 0;
    for (u32 s = lane; s < n; s += 32) top = fmax32(top, lpart[(u64)(s0 + s)*rows + r]);      // every warp for itself: no barrier
    for (u32 x = 16; x; x >>= 1) top = fmax32(top, shfl_xor_f(top, x));
    float shift = top == __int_as_float(0xff800000) ? 0 : top;
    for (u32 s = lane; s < n; s += 32) { float w = exp2_fast(lpart[(u64)(s0 + s)*rows + r] - shift); sum += w; if (threadIdx.x < 32) weight[s] = w; }
    for (u32 x = 16; x; x >>= 1) sum += shfl_xor_f(sum, x);
    float inv = sum > 0 ? 1.0f / sum : 0;
    __syncthreads();
    const float2 *at = (const float2 *)(opart + ((u64)s0*rows + r)*512) + threadIdx.x;
    u32 s = 0;
    for (; s + 16 <= n; s += 16) {
        float2 v[16];
        #pragma unroll
        for (u32 i = 0; i < 16; i++) v[i] = at[(u64)(s + i)*rows*256];
        #pragma unroll
        for (u32 i = 0; i < 16; i++) { o0 = fma32(weight[s + i], v[i].x, o0); o1 = fma32(weight[s + i], v[i].y, o1); }
    }
    #pragma unroll 4
    for (; s < n; s++) { float2 v = at[(u64)s*rows*256]; o0 = fma32(weight[s], v.x, o0); o1 = fma32(weight[s], v.y, o1); }
    ((u32 *)(O + ((u64)b*rows + r)*512))[threadIdx.x] = pack_bf16(o0*inv, o1*inv);
    if (threadIdx.x == 0) lse[(u64)b*rows + r] = sum > 0 ? (shift + log2_fast(sum))*0.6931471805599453f : -__int_as_float(0xff800000);
}

