// SPDX-License-Identifier: MIT
// shared.c - tiles in shared memory: panels, swizzles, bank conflicts.
#include "layout/layout.h"

enum { BANKS = 32 };

SharedLayout shared_plain(int rows, int columns, int element_bytes)
{
    const int pitch = columns * element_bytes;
    return (SharedLayout){
        .rows = rows,
        .columns = columns,
        .element_bytes = element_bytes,
        .panel_columns = columns,
        .pitch_bytes = pitch,
        .panel_bytes = rows * pitch,
        .bytes = rows * pitch,
    };
}

SharedLayout shared_padded(int rows, int columns, int padding, int element_bytes)
{
    SharedLayout layout = shared_plain(rows, columns, element_bytes);
    layout.pitch_bytes += padding * element_bytes;
    layout.bytes = layout.panel_bytes = rows * layout.pitch_bytes;
    return layout;
}

bool shared_panels(int rows, int columns, int element_bytes, int most, SharedLayout *layout)
{
    const int row_bytes = columns * element_bytes;
    int swizzle = 128;
    while (swizzle >= 32 && (row_bytes % swizzle != 0 || (most && swizzle > most * element_bytes))) swizzle /= 2;
    if (swizzle < 32) return false;
    const int padded = (rows + 7) / 8 * 8; // the swizzle repeats every 8 rows
    *layout = (SharedLayout){
        .rows = padded,
        .columns = columns,
        .element_bytes = element_bytes,
        .panel_columns = swizzle / element_bytes,
        .pitch_bytes = swizzle,
        .swizzle_bytes = swizzle,
        .panel_bytes = padded * swizzle,
        .bytes = padded * swizzle * (row_bytes / swizzle),
    };
    return true;
}

// 16-byte pieces are XORed with the 128-byte line they are in, counted over 1, 2 or 4 rows per line.
static int swizzled(int offset, int swizzle_bytes)
{
    const int mask = swizzle_bytes / 16 - 1;
    return swizzle_bytes ? offset ^ ((offset >> 7 & mask) << 4) : offset;
}

int shared_offset(const SharedLayout *layout, int row, int column)
{
    const int panel = column / layout->panel_columns, within = column % layout->panel_columns;
    return panel * layout->panel_bytes +
           swizzled(row * layout->pitch_bytes + within * layout->element_bytes, layout->swizzle_bytes);
}

int shared_conflicts(const SharedLayout *layout, const int *rows, const int *columns, int lanes)
{
    int words[WARP_LANES], before[WARP_LANES], newest[BANKS], distinct[BANKS] = { 0 }, worst = 0;
    for (int bank = 0; bank < BANKS; bank++) newest[bank] = -1; // the last lane with a new word of the bank
    for (int lane = 0; lane < lanes; lane++) {
        const int word = shared_offset(layout, rows[lane], columns[lane]) / 4, bank = word % BANKS;
        int same = newest[bank];
        while (same >= 0 && words[same] != word) same = before[same];
        if (same >= 0) continue;
        words[lane] = word;
        before[lane] = newest[bank];
        newest[bank] = lane;
        if (++distinct[bank] > worst) worst = distinct[bank];
    }
    return worst;
}
