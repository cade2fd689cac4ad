// SPDX-License-Identifier: MIT
// gemm_bf16.cu - hand-written reference kernel: C[M][N] = A[M][K] * B[N][K]^T, bf16 in and out, f32 accumulation (sm_90a)
//
// A persistent grid of 132, tile 128 x 256, K slab 64, ring of 4: one producer thread (TMA), two groups of
// 128 threads that each own 64 rows. The shape that docs/hopper.md asks the CUDA lowering to print for a large
// matmul; measured 1.007 (4096^3) to 1.035 (8192 x 8192 x 1024) times cuBLAS in the same run.
//
// Printed form: one statement per element or instruction, names for nothing that is a number in the text.
// Built and measured by reference_kernels.py. Options: none.
#include "prelude.cuh"

DEVICE void wgmma_64x256x16_bf16_ss(float (&d)[128], u64 a, u64 b, int add)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %130, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
                 : "l"(a), "l"(b), "r"(add));
}

// bf16: tile 128 x 256 x 64, 4 stages, cluster 1 (shares b), 2 consumer groups. Shared memory, bytes from a 1024-aligned base:
//   a         0  4 x 16384
//   b     65536  4 x 32768
//   c    196608  8 warps x 2 boxes of 16 x 128 bytes
//   full 229376, empty 229408
extern "C" __global__ void __launch_bounds__(384, 1)
kernel(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb, const __grid_constant__ TensorMap tc,
       u32 tiles_m, u32 tiles_n, u32 steps)
{
    extern __shared__ __align__(1024) u8 smem[];
    u32 base = smem_addr(smem), full = base + 229376, empty = base + 229408;
    u32 group = uniform(threadIdx.x >> 7);
    u32 rank = 0;
    if (threadIdx.x == 0) {
        tma_prefetch(&ta); tma_prefetch(&tb); tma_prefetch(&tc);
        for (u32 i = 0; i < 4; i++) {
            mbar_init(full + 8*i, 1); mbar_init(empty + 8*i, 8);
        }
        mbar_init_done();
    }
    __syncthreads();

    u32 tiles = tiles_m * tiles_n;   // of clusters
    if (group == 0) {
        setmaxnreg_dec(24);
        if (threadIdx.x == 0) {
            u32 slot = 0, phase = 1;
            for (u32 t = blockIdx.x / 1; t < tiles; t += gridDim.x / 1) {
                u32 first = t / (16 * tiles_n) * 16, height = min(tiles_m - first, 16u), rest = t % (16 * tiles_n);
                u32 m = first + rest % height, n = rest / height;
                int ya = (m*1 + rank) * 128, yb = n * 256;
                for (u32 k = 0; k < steps; k++) {
                    mbar_wait(empty + 8*slot, phase);
                    mbar_expect(full + 8*slot, 49152);
                    tma_load_2d(base + 0 + slot*16384, &ta, full + 8*slot, k*64, ya);
                    tma_load_2d(base + 65536 + slot*32768, &tb, full + 8*slot, k*64, yb);
                    if (++slot == 4) { slot = 0; phase ^= 1; }
                }
            }
        }
    } else {
        setmaxnreg_inc(240);
        u32 lane = threadIdx.x & 31, warp = uniform(threadIdx.x >> 5) - 4, wg = group - 1;
        u32 stage = base + 196608 + warp*4096;
        u32 lane_at = stage + (lane & 15)*128 + (((lane >> 4) ^ (lane & 7)) << 4);
        u64 da = matrix_desc(base + 0 + wg*8192, 1, 16, 1024), db = matrix_desc(base + 65536, 1, 16, 1024);
        u32 slot = 0, phase = 0;
        for (u32 t = blockIdx.x / 1; t < tiles; t += gridDim.x / 1) {
            u32 first = t / (16 * tiles_n) * 16, height = min(tiles_m - first, 16u), rest = t % (16 * tiles_n);
            u32 m = first + rest % height, n = rest / height;
            float acc0[128];
            u32 last = 0;
            for (u32 k = 0; k < steps; k++) {
                mbar_wait(full + 8*slot, phase);
                wgmma_fence();
                wgmma_64x256x16_bf16_ss(acc0, da + slot*1024 + 0, db + slot*2048 + 0, k != 0);
                wgmma_64x256x16_bf16_ss(acc0, da + slot*1024 + 2, db + slot*2048 + 2, 1);
                wgmma_64x256x16_bf16_ss(acc0, da + slot*1024 + 4, db + slot*2048 + 4, 1);
                wgmma_64x256x16_bf16_ss(acc0, da + slot*1024 + 6, db + slot*2048 + 6, 1);
                wgmma_commit();
                wgmma_wait(1);
                if (k != 0) { if (lane == 0) mbar_arrive(empty + 8*last); }
                last = slot;
                if (++slot == 4) { slot = 0; phase ^= 1; }
            }
            wgmma_wait(0);
            if (lane == 0) mbar_arrive(empty + 8*last);

            int yc = (m*1 + rank)*128 + wg*64 + (warp & 3)*16, xc = n*256;
            if (lane == 0) tma_wait_read(1);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 0, pack_bf16(acc0[0], acc0[1]), pack_bf16(acc0[2], acc0[3]), pack_bf16(acc0[4], acc0[5]), pack_bf16(acc0[6], acc0[7]));
            stmatrix_x4((lane_at ^ 32) + 0, pack_bf16(acc0[8], acc0[9]), pack_bf16(acc0[10], acc0[11]), pack_bf16(acc0[12], acc0[13]), pack_bf16(acc0[14], acc0[15]));
            stmatrix_x4((lane_at ^ 64) + 0, pack_bf16(acc0[16], acc0[17]), pack_bf16(acc0[18], acc0[19]), pack_bf16(acc0[20], acc0[21]), pack_bf16(acc0[22], acc0[23]));
            stmatrix_x4((lane_at ^ 96) + 0, pack_bf16(acc0[24], acc0[25]), pack_bf16(acc0[26], acc0[27]), pack_bf16(acc0[28], acc0[29]), pack_bf16(acc0[30], acc0[31]));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_2d(&tc, stage + 0, xc + 0, yc + 0); tma_commit(); }
            if (lane == 0) tma_wait_read(1);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 2048, pack_bf16(acc0[32], acc0[33]), pack_bf16(acc0[34], acc0[35]), pack_bf16(acc0[36], acc0[37]), pack_bf16(acc0[38], acc0[39]));
            stmatrix_x4((lane_at ^ 32) + 2048, pack_bf16(acc0[40], acc0[41]), pack_bf16(acc0[42], acc0[43]), pack_bf16(acc0[44], acc0[45]), pack_bf16(acc0[46], acc0[47]));
            stmatrix_x4((lane_at ^ 64) + 2048, pack_bf16(acc0[48], acc0[49]), pack_bf16(acc0[50], acc0[51]), pack_bf16(acc0[52], acc0[53]), pack_bf16(acc0[54], acc0[55]));
            stmatrix_x4((lane_at ^ 96) + 2048, pack_bf16(acc0[56], acc0[57]), pack_bf16(acc0[58], acc0[59]), pack_bf16(acc0[60], acc0[61]), pack_bf16(acc0[62], acc0[63]));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_2d(&tc, stage + 2048, xc + 64, yc + 0); tma_commit(); }
            if (lane == 0) tma_wait_read(1);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 0, pack_bf16(acc0[64], acc0[65]), pack_bf16(acc0[66], acc0[67]), pack_bf16(acc0[68], acc0[69]), pack_bf16(acc0[70], acc0[71]));
            stmatrix_x4((lane_at ^ 32) + 0, pack_bf16(acc0[72], acc0[73]), pack_bf16(acc0[74], acc0[75]), pack_bf16(acc0[76], acc0[77]), pack_bf16(acc0[78], acc0[79]));
            stmatrix_x4((lane_at ^ 64) + 0, pack_bf16(acc0[80], acc0[81]), pack_bf16(acc0[82], acc0[83]), pack_bf16(acc0[84], acc0[85]), pack_bf16(acc0[86], acc0[87]));
            stmatrix_x4((lane_at ^ 96) + 0, pack_bf16(acc0[88], acc0[89]), pack_bf16(acc0[90], acc0[91]), pack_bf16(acc0[92], acc0[93]), pack_bf16(acc0[94], acc0[95]));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_2d(&tc, stage + 0, xc + 128, yc + 0); tma_commit(); }
            if (lane == 0) tma_wait_read(1);
            __syncwarp();
            stmatrix_x4((lane_at ^ 0) + 2048, pack_bf16(acc0[96], acc0[97]), pack_bf16(acc0[98], acc0[99]), pack_bf16(acc0[100], acc0[101]), pack_bf16(acc0[102], acc0[103]));
            stmatrix_x4((lane_at ^ 32) + 2048, pack_bf16(acc0[104], acc0[105]), pack_bf16(acc0[106], acc0[107]), pack_bf16(acc0[108], acc0[109]), pack_bf16(acc0[110], acc0[111]));
            stmatrix_x4((lane_at ^ 64) + 2048, pack_bf16(acc0[112], acc0[113]), pack_bf16(acc0[114], acc0[115]), pack_bf16(acc0[116], acc0[117]), pack_bf16(acc0[118], acc0[119]));
            stmatrix_x4((lane_at ^ 96) + 2048, pack_bf16(acc0[120], acc0[121]), pack_bf16(acc0[122], acc0[123]), pack_bf16(acc0[124], acc0[125]), pack_bf16(acc0[126], acc0[127]));
            fence_async();
            __syncwarp();
            if (lane == 0) { tma_store_2d(&tc, stage + 2048, xc + 192, yc + 0); tma_commit(); }
        }
        if (lane == 0) tma_wait_read(0);
    }
}
