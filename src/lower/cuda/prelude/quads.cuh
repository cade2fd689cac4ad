// SPDX-License-Identifier: MIT
// quads.cuh - four lanes beside each other exchange what accumulators give them, so that each has 16 bytes of a row.
//
// Word k of lane i becomes word i of lane k.
DEVICE void transpose_quad(uint32_t *w, int32_t lane)
{
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            const uint32_t other = shuffle_xor(upper ? w[i] : w[i + bit], bit);
            w[i] = upper ? other : w[i];
            w[i + bit] = upper ? w[i + bit] : other;
        }
    }
}
