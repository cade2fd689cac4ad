// SPDX-License-Identifier: MIT
// tile_layout.h - the layout of one tile as a text: the words that `kiln explain` and `kiln dump --stage=schedule` use.
//
//     layout   = [name] [type] extents [":" | ","] phrase {("," | ";") phrase}
//     extents  = "[" number "]" ...                        one for each dimension; type: f32 if none is given
//     phrase   = "register" modes | "lane" modes | "warp" modes | "group" modes        in registers, in words of modes:
//     modes    = count "x" ("d" dimension "+" stride | "same") ...                     the fastest first
//              | "accumulator" | "blocked" [elements]      in registers: of wgmma and mma; pieces over the lanes
//              | "rows" | "columns"                        of an accumulator: what the groups divide (default: rows)
//              | count ("group" | "groups") | count ("warp" | "warps")    that hold it (default: 1 group of 4 warps)
//              | "rows" | "rows" bytes "bytes apart"       in shared memory: row by row; padded
//              | "swizzle" (128 | 64 | 32) | "panels of" columns "columns"
//
// What else stands in those lines (registers of each thread, bytes, places, rings) may stand here, and says nothing. So a
// line of `kiln explain` can be given as it is.
#ifndef KILN_TOOLS_PAGE_TILE_LAYOUT_H
#define KILN_TOOLS_PAGE_TILE_LAYOUT_H

#include "ir/dtype.h"
#include "layout/layout.h"

typedef struct TileLayout {
    DType type;
    int rank, extent[LAYOUT_MAX_RANK];
    bool in_shared;
    Layout fragment;     // where it is in registers
    SharedLayout shared; // where it is not
} TileLayout;

// False: `why` says what was not understood, or does not go together.
bool tile_layout_parse(Arena *arena, const char *text, TileLayout *layout, const char **why);
void tile_layout_print(Text *out, const TileLayout *layout); // a text that tile_layout_parse takes
bool tile_layout_equal(const TileLayout *a, const TileLayout *b);

// The tile as a matrix: its last dimension is the column, the others merge into the row; a vector is one row. Drawn, a vector
// in registers is broken into rows of 16, and a column in shared memory is a piece of 16 bytes.
int tile_layout_rows(const TileLayout *layout);
int tile_layout_columns(const TileLayout *layout);
int tile_layout_drawn_rows(const TileLayout *layout);
int tile_layout_drawn_columns(const TileLayout *layout);

// ---- which thread holds an element
typedef struct Holder {
    int reg, lane, warp, group; // the first that holds it
    int count;                  // how many do; 0: none, which no complete layout has
} Holder;
// By row * columns + column, of a layout in registers.
Holder *tile_layout_holders(Arena *arena, const TileLayout *layout);

// ---- draw_layout.c: an SVG element
typedef struct LayoutWindow {
    int row, column, rows, columns; // of what is drawn; cut at the tile's end
} LayoutWindow;
LayoutWindow layout_window(const TileLayout *layout, int rows, int columns); // from the first element on
// Each cell: thread and value number in registers, byte and banks in shared memory; colours by lane, or by group of banks.
// Classes are those of page.css. standalone: with a style of its own and the namespace, as a file.
void draw_layout(Text *out, const TileLayout *layout, LayoutWindow window, bool standalone);
// Which warp holds which part of a tile in registers. Returns what of it is drawn: all, or, where its warps alternate too
// often for that, the first rows or columns.
LayoutWindow draw_warps(Text *out, const TileLayout *layout);
void print_layout(Text *out, const TileLayout *layout, LayoutWindow window); // the same as a table of text
void print_layout_style(Text *out); // the colours of the lanes and banks as CSS
// How many passes eight rows of one 16-byte column take, and a row of 128 bytes: of this layout, and without a swizzle.
typedef struct BankPasses {
    int column, column_plain, row;
} BankPasses;
BankPasses layout_bank_passes(const SharedLayout *layout);

#endif
