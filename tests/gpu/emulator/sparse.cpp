// SPDX-License-Identifier: MIT
// sparse.cpp - the places of 2:4 sparse operands, from the PTX ISA's "Sparse matrix storage" (mma.sp, wgmma.mma_async.sp).
//
// Of four neighbouring columns of a row two are kept; four bits give their places, the first in the low two. In the 16
// rows of a warp and the columns of one instruction:
//
//   16-bit types, 32 columns   lanes 4g + 2s and 4g + 2s + 1 contribute, s the selector (0 or 1): bits 15..0 of the first
//                              are columns 0..15 of row g, its bits 31..16 those of row g + 8; of the second columns 16..31
//   8-bit types, 64 columns    all lanes contribute, the selector is 0: lanes 4g and 4g + 1 hold columns 0..31 of rows g
//                              and g + 8, lanes 4g + 2 and 4g + 3 columns 32..63 of the same
//
// The order of two places is not left to the instruction here: the second is above the first.
#include "emulator.h"

namespace emu {

struct Field { int lane, bit; };                           // where the four bits of a group of four columns lie

static Field field_of(int row, int group, int bytes, uint32_t selector)
{
    const int quad = row % 8 * 4, lower = row / 8;
    if (bytes == 2)
        return { quad + (int)selector * 2 + group / 4, lower * 16 + group % 4 * 4 };
    return { quad + group / 8 * 2 + lower, group % 8 * 4 };
}

void dense_columns(const uint32_t *words, int bytes, int k, uint32_t selector, int columns[16][32])
{
    if (k * bytes != 64 || selector > (bytes == 2 ? 1u : 0u))
        fault(LAUNCH_FAILED, "a sparse product of %d columns of %d bytes with selector %u is not emulated", k, bytes, selector);
    for (int row = 0; row < 16; row++)
        for (int group = 0; group < k / 4; group++) {
            const Field field = field_of(row, group, bytes, selector);
            const int first = (int)(words[field.lane] >> field.bit & 3), second = (int)(words[field.lane] >> (field.bit + 2) & 3);
            if (first >= second)
                fault(LAUNCH_FAILED, "a sparse product: places %d and %d of columns %d to %d in row %d of a warp (lane %d, bit %d)", first,
                      second, 4 * group, 4 * group + 3, row, field.lane, field.bit);
            columns[row][2 * group] = 4 * group + first;
            columns[row][2 * group + 1] = 4 * group + second;
        }
}

}
