// SPDX-License-Identifier: MIT
// write_tiles.c - the layouts: one grid for all tiles that have the same, with what their bits and banks mean.
#include "tools/page/html.h"
#include "tools/page/page.h"

enum { WINDOW_ROWS = 16, WINDOW_COLUMNS = 16, SHARED_ROWS = 8 };

// What page.js needs to move the window: numbers of the layout.
static void write_data(Text *out, const TileLayout *layout)
{
    text_print(out, " data-bits=\"%d\" data-rows=\"%d\" data-columns=\"%d\"", dtype_bits(layout->type),
               tile_layout_drawn_rows(layout), tile_layout_drawn_columns(layout));
    text_print(out, " data-extent=\"");
    for (int d = 0; d < layout->rank; d++) text_print(out, "%s%d", d ? " " : "", layout->extent[d]);
    if (layout->in_shared) {
        const SharedLayout *const s = &layout->shared;
        text_print(out, "\" data-shared=\"%d %d %d %d %d\"", s->element_bytes, s->panel_columns, s->pitch_bytes,
                   s->swizzle_bytes, s->panel_bytes);
        return;
    }
    text_print(out, "\" data-modes=\"");
    for (int i = 0; i < layout->fragment.n; i++) {
        const LayoutMode *const mode = &layout->fragment.mode[i];
        text_print(out, "%s%d %d %d %d", i ? "," : "", (int)mode->input, mode->extent, mode->dim, mode->stride);
    }
    text_print(out, "\"");
}

static void write_passes(Text *out, const TileLayout *layout)
{
    const SharedLayout *const s = &layout->shared;
    const BankPasses passes = layout_bank_passes(s);
    text_print(
        out,
        "<p>Eight rows of one 16-byte column, as <code>ldmatrix</code> and <code>wgmma</code> read them: %d pass%s "
        "through the banks",
        passes.column, passes.column == 1 ? "" : "es");
    if (passes.column_plain > passes.column)
        text_print(out, ", where rows one after another would take %d", passes.column_plain);
    text_print(out, ". A row of 32 words: %d.", passes.row);
    if (s->swizzle_bytes)
        text_print(
            out,
            " The swizzle XORs the number of a piece within its line of %d bytes with the line's number modulo %d.",
            s->swizzle_bytes, s->swizzle_bytes / 16);
    text_print(out, "</p>\n");
}

static void write_names(Text *out, const PageKernel *kernel, int like)
{
    bool any = false;
    for (int i = like; i < kernel->tiles.count; i++) {
        if (kernel->tiles.items[i].like != like) continue;
        text_print(out, "%s<code>", any ? ", " : "");
        html_print(out, "%s %s", kernel->tiles.items[i].name, kernel->tiles.items[i].shape);
        text_print(out, "</code>");
        any = true;
    }
}

static const char *drawn_words(Arena *arena, const TileLayout *layout, LayoutWindow drawn)
{
    const bool rows = drawn.rows < tile_layout_drawn_rows(layout),
               columns = drawn.columns < tile_layout_drawn_columns(layout);
    if (!rows && !columns) return "the whole tile";
    if (!columns) return arena_printf(arena, "the first %d rows", drawn.rows);
    if (!rows) return arena_printf(arena, "the first %d columns", drawn.columns);
    return arena_printf(arena, "the first %d rows and %d columns", drawn.rows, drawn.columns);
}

static void write_grid(Text *out, const PageKernel *kernel, const char *id, int number)
{
    const PageTile *const tile = &kernel->tiles.items[number];
    const TileLayout *const layout = &tile->layout;
    const LayoutWindow window = layout_window(layout, tile->in_shared ? SHARED_ROWS : WINDOW_ROWS, WINDOW_COLUMNS);
    Text words = { .arena = out->arena };
    tile_layout_print(&words, layout);
    text_print(out, "<figure class=\"grid\" id=\"%sgrid%d\"", id, number);
    write_data(out, layout);
    text_print(out, ">\n<figcaption>");
    write_names(out, kernel, number);
    text_print(out, "</figcaption>\n<p class=\"spell\"><code class=\"words\">kiln layout '");
    html_text(out, text_cstr(&words));
    text_print(out, "' --svg</code></p>\n");
    if (tile->in_shared) write_passes(out, layout);
    text_print(out, "<p class=\"window\">rows %d to %d of %d, %s %d to %d of %d</p>\n", window.row, window.rows - 1,
               tile_layout_drawn_rows(layout), tile->in_shared ? "16-byte columns" : "columns", window.column,
               window.columns - 1, tile_layout_drawn_columns(layout));
    text_print(out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"layout of %s\">\n", tile->name);
    draw_layout(out, layout, window, false);
    text_print(out, "</div>\n");
    if (!tile->in_shared) {
        Text warps = { .arena = out->arena };
        const LayoutWindow drawn = draw_warps(&warps, layout);
        text_print(out, "<p>By warps of each group, %s:</p>\n<div class=\"scroll\">\n",
                   drawn_words(out->arena, layout, drawn));
        text_add(out, text_cstr(&warps), warps.length);
        text_print(out, "</div>\n");
    }
    text_print(out, "</figure>\n");
}

static void write_row(Text *out, const PageKernel *kernel, const char *id, int number)
{
    const PageTile *const tile = &kernel->tiles.items[number];
    text_print(out, "<tr id=\"%stile%d\"><td><code>", id, number);
    html_text(out, tile->name);
    text_print(out, "</code></td><td><code>");
    html_text(out, tile->shape);
    text_print(out, "</code></td><td>");
    if (tile->in_shared) text_print(out, "shared memory, %d x %d bytes at %d", tile->slots, tile->bytes, tile->offset);
    else text_print(out, "%d registers of each thread", tile->registers);
    if (tile->ring) html_print(out, ", ring %s", tile->ring);
    if (tile->why) html_print(out, ", because %s", tile->why);
    text_print(out, "</td><td>");
    if (tile->has_layout) text_print(out, "<a href=\"#%sgrid%d\">layout</a>", id, tile->like);
    else
        text_print(out, "no grid: %s",
                   tile->shape[0] ? "its elements are less than a byte" : "it holds parts of others");
    text_print(out, "</td></tr>\n");
}

void write_tiles(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<section id=\"%stiles\"><h2>Layouts</h2>\n", id);
    text_print(
        out,
        "<div class=\"scroll\"><table><thead><tr><th>tile</th><th>type</th><th>where</th><th>layout</th></tr></thead><tbody>\n");
    for (int i = 0; i < kernel->tiles.count; i++) write_row(out, kernel, id, i);
    text_print(
        out,
        "</tbody></table></div>\n"
        "<p>In registers a cell is an element: above, the thread of its warp group; below, the number of the value among "
        "those that the thread holds; the colour is the lane's. In shared memory a cell is 16 bytes: above, where they "
        "lie; below, the first of their four banks, which the colour stands for. Point at a cell, or walk with the arrow "
        "keys, for all of it.</p>\n");
    for (int i = 0; i < kernel->tiles.count; i++)
        if (kernel->tiles.items[i].has_layout && kernel->tiles.items[i].like == i) write_grid(out, kernel, id, i);
    text_print(out, "</section>\n");
}
