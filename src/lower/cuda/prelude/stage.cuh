// SPDX-License-Identifier: MIT
// stage.cuh - a warp's 16 rows of an accumulator into a swizzled box of staging (sm_90).
//
// Rows of the box are BYTES wide; 16-byte pieces are XORed with the row as TMA will read them.
template <int BYTES> DEVICE uint32_t stage_at(uint32_t box, int32_t row, int32_t column_bytes)
{
    const uint32_t offset = row * BYTES + column_bytes;
    return box + (offset ^ ((offset >> 7 & (BYTES / 16 - 1)) << 4));
}
// 16 columns of 2 bytes, number c of the box: words as the accumulator has them (rows 0-7 and 8-15 of 8 columns each).
template <int BYTES> DEVICE void stage_16(uint32_t box, int32_t lane, int32_t c, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"(stage_at<BYTES>(box, lane & 15, c * 32 + (lane >> 4) * 16)), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// 16 rows of 16 columns of 2 bytes, number c of the box, as a transposed accumulator has them: 8 rows of 8 columns each.
DEVICE void stage_16_turned(uint32_t box, int32_t lane, int32_t c, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"(stage_at<32>(box, c * 16 + (lane >> 4) * 8 + (lane & 7), (lane >> 3 & 1) * 16)), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// 16 columns of 1 byte, number c: pairs as the accumulator has them, rows 0-7 and 8-15 of 8 columns each. Neighbouring
// lanes exchange pairs of the other 8 columns, so that each has 4 columns of both rows; a store meets no bank twice.
template <int BYTES> DEVICE void stage_8(uint32_t box, int32_t lane, int32_t c, uint32_t p0, uint32_t p1, uint32_t p2, uint32_t p3)
{
    const bool odd = lane & 1;
    const uint32_t low = __byte_perm(p0, p1, 0x5410), high = __byte_perm(p2, p3, 0x5410);
    const uint32_t mine = odd ? high : low, other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
    const uint32_t left = odd ? other : mine, right = odd ? mine : other;
    const uint32_t at = stage_at<BYTES>(box, lane >> 2, c * 16 + (lane & 1) * 8 + (lane >> 1 & 1) * 4);
    const uint32_t below = stage_at<BYTES>(box, (lane >> 2) + 8, c * 16 + (lane & 1) * 8 + (lane >> 1 & 1) * 4);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(__byte_perm(left, right, 0x5410)) : "memory");
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(below), "r"(__byte_perm(left, right, 0x7632)) : "memory");
}
// 8 columns of 4 bytes, number c; half: rows 0-7 or 8-15.
template <int BYTES, class T> DEVICE void stage_32(uint32_t box, int32_t lane, int32_t c, int32_t half, T even, T odd)
{
    asm volatile("st.shared.v2.b32 [%0], {%1,%2};"
                 ::"r"(stage_at<BYTES>(box, (lane >> 2) + 8 * half, c * 32 + (lane & 3) * 8)), "r"(bitcast<uint32_t>(even)), "r"(bitcast<uint32_t>(odd)) : "memory");
}
// Accumulators as they are: through registers of another type ptxas waits for the products where they are issued (C7517).
template <int BYTES> DEVICE void stage_32(uint32_t box, int32_t lane, int32_t c, int32_t half, float even, float odd)
{
    asm volatile("st.shared.v2.f32 [%0], {%1,%2};"
                 ::"r"(stage_at<BYTES>(box, (lane >> 2) + 8 * half, c * 32 + (lane & 3) * 8)), "f"(even), "f"(odd) : "memory");
}
// Two times 8 columns, numbers c and c + 2, lanes of odd rows the other way round: with the same number, rows 2r and 2r + 1
// of a half warp would meet in the same banks.
template <int BYTES, class T> DEVICE void stage_32_pair(uint32_t box, int32_t lane, int32_t c, int32_t half, T even, T odd, T even2, T odd2)
{
    const bool turned = lane >> 2 & 1;
    const int32_t other = turned ? 2 : 0;
    stage_32<BYTES>(box, lane, c + other, half, turned ? even2 : even, turned ? odd2 : odd);
    stage_32<BYTES>(box, lane, c + 2 - other, half, turned ? even : even2, turned ? odd : odd2);
}
// Registers of a transposed accumulator: column 16*warp + lane/4 + 8*(r/2) of the group's 64, row 8u + 2*(lane%4) + r%2.
// Boxes of 32 columns, ROWS rows of 128 bytes each. Eight rows further is 1024 bytes further: four addresses do.
template <int ROWS> DEVICE uint32_t transposed_at(uint32_t stage, int32_t warp, int32_t lane, int32_t r)
{
    const int32_t column = 16 * warp + (lane >> 2) + 8 * (r >> 1), row = 2 * (lane & 3) + (r & 1);
    return stage + (column >> 5) * (ROWS * 128) + row * 128 + ((column & 31) * 4 ^ row << 4);
}
DEVICE void stage_transposed(uint32_t at, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory"); }
// The same of 16 bits, 16 rows by a warp's 16 columns at a time: rows of 128 bytes, 16 of them further is 2048 bytes further.
DEVICE uint32_t turned_at(uint32_t stage, int32_t warp, int32_t lane)
{
    const int32_t row = (lane >> 4) * 8 + (lane & 7), piece = 2 * warp + (lane >> 3 & 1);
    return stage + row * 128 + ((piece ^ lane & 7) << 4);
}
DEVICE void stage_turned(uint32_t at, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"(at), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// Accumulators as they are, into a tile's panel of 128 bytes a row: where this lane's piece of columns 0-15 of rows row .. row+15 is. Other
// columns are an XOR, other panels an addition.
DEVICE uint32_t panel_at(uint32_t tile, int32_t row, int32_t lane)
{
    return tile + (row + (lane & 15)) * 128 + ((lane >> 4 ^ lane & 7) << 4);
}
DEVICE void store_panel(uint32_t at, int32_t panel, int32_t column_bytes, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"((at ^ column_bytes) + panel), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
