// SPDX-License-Identifier: MIT
// layout.c - `kiln layout`: one layout, drawn as SVG or printed as a table.
#include "tools/page/tile_layout.h"
#include "tools/tool.h"

#include <errno.h>

enum { CELLS_MAX = 16384 };

typedef struct LayoutOptions {
    const char *svg; // NULL: a table; "-": standard output
    int64_t row, column, rows, columns;
    int n_args;
    char **args;
} LayoutOptions;

static int show(Arena *arena, const LayoutOptions *o, const TileLayout *layout)
{
    LayoutWindow window = layout_window(layout, (int)o->rows, (int)o->columns);
    window.row = (int)o->row;
    window.column = (int)o->column;
    if (window.row >= tile_layout_drawn_rows(layout) || window.column >= tile_layout_drawn_columns(layout))
        return fail_usage("layout: the tile is drawn in %d rows and %d columns", tile_layout_drawn_rows(layout),
                          tile_layout_drawn_columns(layout));
    if (window.rows < 1 || window.columns < 1 || (int64_t)window.rows * window.columns > CELLS_MAX)
        return fail_usage("layout: 1 to %d cells are drawn: see --rows and --columns", CELLS_MAX);
    Text out = { .arena = arena };
    if (o->svg) {
        draw_layout(&out, layout, window, true);
    } else {
        tile_layout_print(&out, layout);
        text_print(&out, layout->in_shared ? "\nbyte and first bank of each piece of 16 bytes\n"
                                           : "\nthread:value of each element\n");
        print_layout(&out, layout, window);
    }
    return output_text(o->svg ? o->svg : "-", &out);
}

static int layout_command(Arena *arena, void *context)
{
    const LayoutOptions *const o = context;
    Text text = { .arena = arena };
    TileLayout layout;
    const char *why;
    if (o->n_args == 0) return fail_usage("layout: which layout? see 'kiln layout --help'");
    for (int i = 0; i < o->n_args; i++) text_print(&text, "%s%s", i ? " " : "", o->args[i]);
    if (!tile_layout_parse(arena, text_cstr(&text), &layout, &why)) return fail_usage("layout: %s", why);
    return show(arena, o, &layout);
}

int tool_layout(int argc, char **argv)
{
    LayoutOptions o = { .rows = 32, .columns = 32, .args = argv };
    const Option options[] = {
        { "--svg", OPTION_FILE, &o.svg, "FILE", "draw it, on standard output or into a file" },
        { "--row", OPTION_NUMBER, &o.row, "N", "begin at this row (default: 0)" },
        { "--column", OPTION_NUMBER, &o.column, "N", "begin at this column; of shared memory: piece of 16 bytes" },
        { "--rows", OPTION_NUMBER, &o.rows, "N", "so many rows, if there are as many (default: 32)" },
        { "--columns", OPTION_NUMBER, &o.columns, "N", "so many columns (default: 32)" },
    };
    const Usage usage = {
        "kiln layout [OPTION...] 'LAYOUT'",
        "Shows which thread has which element of a tile, and as which of its values, or at which byte and bank of shared\n"
        "memory it lies. A LAYOUT is what 'kiln explain' prints of a tile: a type, extents in brackets, and one of\n"
        "  register MODES; lane MODES; warp MODES; group MODES    MODES: COUNT x dDIMENSION+STRIDE ..., COUNT x same\n"
        "  accumulator [, columns] [, N groups] [, N warps]       of wgmma and mma; its groups divide rows, or columns\n"
        "  blocked ELEMENTS [, N groups] [, N warps]              pieces of so many elements, over the lanes\n"
        "  rows                                                   in shared memory, one after another\n"
        "  rows BYTES bytes apart                                 the same, padded\n"
        "  swizzle 128 [, panels of N columns]                    or 64 or 32, as TMA writes and wgmma reads it",
        options, COUNT(options),
        "  kiln layout 'f32[64][64] accumulator' --svg=accumulator.svg\n"
        "  kiln layout 'bf16[64][64] swizzle 128' --rows=8\n"
        "  kiln layout 'f32[16][8]: register 2 x d1+1 2 x d0+8; lane 4 x d1+2 8 x d0+1'\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(layout_command, &o);
}
