// SPDX-License-Identifier: MIT
// stage.cuh - registers of a fragment into panels of shared memory (sm_90).
//
// Rows of a panel are BYTES wide; 16-byte pieces are XORed with the row as TMA and wgmma read them. What is columns of a
// panel further is an XOR of the address, `flip`; panels and eight rows further are an addition, `step`.
template <int BYTES> DEVICE uint32_t swizzled_at(uint32_t panel, int32_t row, int32_t column_bytes)
{
    return panel + row * BYTES + (column_bytes ^ (row / (128 / BYTES) & (BYTES / 16 - 1)) << 4);
}
// Words as the accumulator has them: rows 0-7 and 8-15 of 8 columns each.
DEVICE void store_matrices(uint32_t at, int32_t step, int32_t flip, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"((at ^ flip) + step), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// The same of a transposed one: a lane's words are of one column.
DEVICE void store_turned_matrices(uint32_t at, int32_t step, int32_t flip, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"((at ^ flip) + step), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// 16 columns of 1 byte, number c: pairs as the accumulator has them, rows 0-7 and 8-15 of 8 columns each. Neighbouring
// lanes exchange pairs of the other 8 columns, so that each has 4 columns of both rows; a store meets no bank twice.
template <int BYTES> DEVICE void stage_8(uint32_t box, int32_t lane, int32_t c, uint32_t p0, uint32_t p1, uint32_t p2, uint32_t p3)
{
    const bool odd = lane & 1;
    const uint32_t low = __byte_perm(p0, p1, 0x5410), high = __byte_perm(p2, p3, 0x5410);
    const uint32_t mine = odd ? high : low, other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
    const uint32_t left = odd ? other : mine, right = odd ? mine : other;
    const uint32_t at = swizzled_at<BYTES>(box, lane >> 2, c * 16 + (lane & 1) * 8 + (lane >> 1 & 1) * 4);
    const uint32_t below = swizzled_at<BYTES>(box, (lane >> 2) + 8, c * 16 + (lane & 1) * 8 + (lane >> 1 & 1) * 4);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(__byte_perm(left, right, 0x5410)) : "memory");
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(below), "r"(__byte_perm(left, right, 0x7632)) : "memory");
}
template <class T> DEVICE void store_at(uint32_t at, int32_t step, int32_t flip, T a, T b)
{
    asm volatile("st.shared.v2.b32 [%0], {%1,%2};"
                 ::"r"((at ^ flip) + step), "r"(bitcast<uint32_t>(a)), "r"(bitcast<uint32_t>(b)) : "memory");
}
// Accumulators as they are: through registers of another type ptxas waits for the products where they are issued (C7517).
DEVICE void store_at(uint32_t at, int32_t step, int32_t flip, float a, float b)
{
    asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"((at ^ flip) + step), "f"(a), "f"(b) : "memory");
}
DEVICE void store_at(uint32_t at, int32_t step, int32_t flip, float a)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"((at ^ flip) + step), "f"(a) : "memory");
}
DEVICE void store_at(uint32_t at, int32_t step, int32_t flip, float a, float b, float c, float d)
{
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"((at ^ flip) + step), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
DEVICE void load_at(uint32_t at, int32_t step, int32_t flip, float &a)
{
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(a) : "r"((at ^ flip) + step) : "memory");
}
DEVICE void load_at(uint32_t at, int32_t step, int32_t flip, float &a, float &b)
{
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(a), "=f"(b) : "r"((at ^ flip) + step) : "memory");
}
DEVICE void load_at(uint32_t at, int32_t step, int32_t flip, float &a, float &b, float &c, float &d)
{
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"((at ^ flip) + step) : "memory");
}
// An address that is made where it is used: those derived from it are not kept from one step of a loop to the next.
DEVICE uint32_t made_here(uint32_t at)
{
    asm volatile("mov.b32 %0, %0;" : "+r"(at));
    return at;
}
// Two pieces that are `swap` apart, some lanes the other way round: with the same piece, rows 2r and 2r + 1 of a half warp
// would meet in the same banks. `at` has that in it.
template <class T> DEVICE void store_swapped(uint32_t at, int32_t step, int32_t flip, int32_t swap, bool swaps, T a, T b, T c, T d)
{
    store_at(at, step, flip, swaps ? c : a, swaps ? d : b);
    store_at(at, step, flip ^ swap, swaps ? a : c, swaps ? b : d);
}
DEVICE void load_swapped(uint32_t at, int32_t step, int32_t flip, int32_t swap, bool swaps, float &a, float &b, float &c, float &d)
{
    float v[4];
    load_at(at, step, flip, v[0], v[1]);
    load_at(at, step, flip ^ swap, v[2], v[3]);
    a = swaps ? v[2] : v[0], b = swaps ? v[3] : v[1], c = swaps ? v[0] : v[2], d = swaps ? v[1] : v[3];
}
