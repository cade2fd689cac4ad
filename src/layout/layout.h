// SPDX-License-Identifier: MIT
// layout.h - where the elements of a tile live: in whose register, at which byte of shared memory.
//
// A fragment's layout is a sum of modes. Every thread of a CTA has a number (lane, warp within its warp
// group, group), every element it holds a register number. Each of these numbers is written in mixed radix, and
// each mode moves one coordinate of the tile by its stride:
//
//     coordinate[d] = sum over the modes of dimension d of mode value * stride
//
// A mode of extent 2 is one bit of a linear layout; modes of any extent take 80 = 5 x 16 rows or three groups
// without a special case. A mode that moves nothing (REPLICATED) means that its threads hold the same element.
// Layouts of wgmma and mma operands are of this form; the one place where coordinates are XORed is the swizzle
// of shared memory, which SharedLayout adds to byte addresses.
#ifndef KILN_LAYOUT_LAYOUT_H
#define KILN_LAYOUT_LAYOUT_H

#include "base/text.h"

#include <stdbool.h>

enum { WARP_LANES = 32, LAYOUT_MAX_RANK = 8, LAYOUT_MAX_MODES = 20, REPLICATED = -1 };

typedef enum LayoutInput { IN_REGISTER, IN_LANE, IN_WARP, IN_GROUP, IN_COUNT } LayoutInput;

typedef struct LayoutMode {
    LayoutInput input;
    int extent;
    int dim;    // REPLICATED: moves nothing
    int stride; // in elements of the tile
} LayoutMode;

// Modes of one input stand in order, the fastest first. Modes of extent 1 are never kept.
typedef struct Layout {
    int rank;
    int extent[LAYOUT_MAX_RANK]; // of the tile; the modes may cover more (padding) but never less
    int n;
    LayoutMode mode[LAYOUT_MAX_MODES];
} Layout;

// The threads that share a tile.
typedef struct Partition {
    int groups, warps;
} Partition; // warps: of one group (4; 1 or 2 in small CTAs)

// ---- making
Layout layout_new(int rank, const int *extents);
void layout_add(Layout *layout, LayoutInput input, int extent, int dim, int stride);
// Spreads a tile of 16-byte (or `vector`-element) pieces over the partition: lanes along the last dimension first.
Layout layout_blocked(int rank, const int *extents, Partition partition, int vector);
// What a tile with some of the dimensions has if it lies beside this one: `keep[i]` is the dimension of `layout`
// that becomes dimension i. Threads that differ in a dropped dimension replicate; its registers vanish.
Layout layout_project(const Layout *layout, int rank, const int *keep);

// Its modes of this input and those after it: where the first register of a lane, warp or group stands.
Layout layout_of_threads(const Layout *layout, LayoutInput first);

// Dimensions seen as several, and several as one: dimension d of a tile as indices of the given extents, the slowest
// first, coordinate = index[0] * (extent[1] * extent[2] ...) + ... + index[n - 1]. The same registers, named
// differently.
typedef struct DimensionSplit {
    int n, extent[LAYOUT_MAX_RANK];
} DimensionSplit;

// The parts of dimension 0 come first, then those of dimension 1, and so on. False: a mode would stand in two parts.
bool layout_split(const Layout *layout, const DimensionSplit *dims, Layout *parts);
// The reverse; part[i]: the dimension of `parts` that is part i, in the order of layout_split. Others are dropped, as
// by layout_project.
Layout layout_merge(const Layout *parts, int rank, const DimensionSplit *dims, const int *part);

// ---- asking
int layout_extent_of(const Layout *layout, LayoutInput input); // product of the input's extents
int layout_registers(const Layout *layout);
int layout_coverage(const Layout *layout, int dim); // coordinates reached: at least the extent
void layout_at(const Layout *layout, int reg, int lane, int warp, int group, int *coordinates);
bool layout_equal(const Layout *a, const Layout *b);
bool layout_covers(const Layout *layout); // every element has a register (by enumeration)
void layout_print(Text *out, const Layout *layout);

// ---- the layouts of tensor-core instructions
// Accumulator of wgmma m64nN and, warp by warp, of mma m16n8; also the A operand from registers for 16-bit types.
// The partition's groups divide the rows (or the columns), 64 rows per group and step.
typedef enum {
    DIVIDE_ROWS,
    DIVIDE_COLUMNS,
    DIVIDE_CONTRACTION
} Division; // of the contraction: each group has the sum of its part
Layout layout_accumulator(int rows, int columns, Partition partition, Division division);
// Bytes that a product's left operand is in registers, its rows divided among the groups.
Layout layout_left_bytes(int rows, int columns, Partition partition);
// Whether a tile lies so, its rows or its columns divided by the groups; sets which.
bool layout_is_accumulator(const Layout *layout, Partition partition, Division *division);
// The same as layout_accumulator, of byte products by mma whose left (odd_rows) or right (odd_columns) operand is transposed by ldmatrix in pairs.
Layout layout_accumulator_bytes(int rows, int columns, Partition partition, Division division, bool odd_rows,
                                bool odd_columns);

// ---- products without tensor cores
// Each thread has row_runs runs of row_run neighbouring rows, row_stride apart, and the same of columns. Registers:
// column and row within the run, run of columns, run of rows.
typedef struct RegisterTile {
    int row_run, row_runs, row_stride, column_run, column_runs, column_stride;
    Layout layout;
} RegisterTile;
// row_run, column_run: what one load brings at most (1: operands whose contraction is contiguous). keep_rows: rows
// divided by the partition alone, if that fits, whatever the columns. registers: elements that a thread can have.
// False: does not fit.
bool layout_register_tile(int rows, int columns, Partition partition, int row_run, int column_run, bool keep_rows,
                          int registers, RegisterTile *tile);

// ---- shared memory
// A tile of any rank is a matrix: its last dimension is the column, the others merge into the row. Panels of
// `panel_columns` columns stand one after the other, each row by row; inside a panel the 16-byte pieces of a row
// are XORed with the row (mod 8, 4 or 2) when swizzled.
typedef struct SharedLayout {
    int rows, columns; // rows rounded up where an instruction reads more
    int element_bytes;
    int panel_columns; // columns of a panel; without panels: all
    int pitch_bytes;   // from one row of a panel to the next
    int swizzle_bytes; // 128, 64, 32; 0: none
    int panel_bytes;
    int bytes; // of one buffer
} SharedLayout;

SharedLayout shared_plain(int rows, int columns, int element_bytes); // row by row
SharedLayout shared_padded(int rows, int columns, int padding,
                           int element_bytes); // the same, so many elements between rows
// As TMA with swizzle writes it and wgmma reads it, in either major order. False if the row is not a multiple of 32 bytes.
// most: columns of a panel, at most; 0: as many as fit.
bool shared_panels(int rows, int columns, int element_bytes, int most, SharedLayout *layout);
int shared_offset(const SharedLayout *layout, int row, int column); // bytes
// The most lanes whose 4-byte words fall into one bank, for a warp that accesses columns and rows as given.
int shared_conflicts(const SharedLayout *layout, const int *rows, const int *columns, int lanes);

#endif
