// SPDX-License-Identifier: MIT
// draw_layout.c - a layout as a grid of coloured cells, and as a table of text.
//
// In registers a cell is an element: above, the thread of its warp group; below, the number of the value among those that the
// thread holds. The colour is the lane's. In shared memory a cell is a piece of 16 bytes: above, the byte at which it lies;
// below, its first bank. The colour is that of its four banks: a column of eight cells in eight colours is free of conflicts.
#include "tools/page/tile_layout.h"

enum { CELL_WIDTH = 36, CELL_HEIGHT = 28, LEFT = 38, TOP = 18, BANK_GROUPS = 8, PIECE = 16 };

// ---- colours

// Eight hues for quads of lanes, in each four shades; light, so that dark text is legible on all of them.
void print_layout_style(Text *out)
{
    static const int hues[8] = { 205, 30, 130, 350, 275, 55, 175, 315 };
    static const int lightness[4] = { 88, 80, 73, 66 };
    for (int lane = 0; lane < WARP_LANES; lane++)
        text_print(out, ".l%d rect{fill:hsl(%d 70%% %d%%)}", lane, hues[lane / 4], lightness[lane % 4]);
    for (int bank = 0; bank < BANK_GROUPS; bank++)
        text_print(out, ".b%d rect{fill:hsl(%d 70%% 76%%)}", bank, hues[bank]);
    for (int warp = 0; warp < 16; warp++)
        text_print(out, ".w%d rect{fill:hsl(%d 55%% %d%%)}", warp, hues[warp / 4 * 2 % 8 + warp / 8],
                   lightness[warp % 4]);
}

static void print_style(Text *out)
{
    text_print(out, "<style>text{font:11px ui-monospace,monospace;fill:#111;text-anchor:middle}"
                    ".k{font-size:10px}.t{font-size:9px}.q,.k{fill:#444}.q{text-anchor:start}.paper{fill:#fff}"
                    "g rect{stroke:#fff}@media(prefers-color-scheme:dark){.q,.k{fill:#bbb}.paper{fill:#16181d}}");
    print_layout_style(out);
    text_print(out, "</style>");
}

// ---- the parts of a cell

static int first_column(const TileLayout *layout, int column)
{
    return layout->in_shared ? column * PIECE / layout->shared.element_bytes : column;
}

static void print_element(Text *out, const TileLayout *layout, int row, int column)
{
    if (layout->rank < 2) {
        text_print(out, "element %d", row * tile_layout_drawn_columns(layout) + column);
        return;
    }
    int index[LAYOUT_MAX_RANK];
    for (int d = layout->rank - 2, rest = row; d >= 0; d--) {
        index[d] = rest % layout->extent[d];
        rest /= layout->extent[d];
    }
    text_print(out, "element ");
    for (int d = 0; d + 1 < layout->rank; d++) text_print(out, "[%d]", index[d]);
    text_print(out, "[%d]", column);
}

// What is said of a cell when the pointer is on it.
static void print_fragment_title(Text *out, const TileLayout *layout, const Holder *h)
{
    const int bits = dtype_bits(layout->type), bit = h->reg * bits;
    text_print(out, ": lane %d, warp %d, group %d, value %d", h->lane, h->warp, h->group, h->reg);
    if (bits < 32) text_print(out, " (register %d, bits %d to %d)", bit / 32, bit % 32, bit % 32 + bits - 1);
    else text_print(out, " (register %d)", bit / 32);
    if (h->count > 1) text_print(out, "; %d threads hold it", h->count);
}

static int offset_of(const TileLayout *layout, int row, int column)
{
    return shared_offset(&layout->shared, row, first_column(layout, column));
}

static void print_shared_title(Text *out, const TileLayout *layout, int row, int column)
{
    const int offset = offset_of(layout, row, column), bank = offset / 4 % 32;
    const int bytes = layout->shared.element_bytes,
              rest = tile_layout_columns(layout) - first_column(layout, column) - 1;
    text_print(out, " and the next %d: byte %d, banks %d to %d", rest < PIECE / bytes ? rest : PIECE / bytes - 1,
               offset, bank, (bank + 3) % 32);
}

// ---- the grid

typedef struct Drawing {
    Text *out;
    const TileLayout *layout;
    LayoutWindow window;
    const Holder *holders; // in registers
} Drawing;

static const Holder *holder_at(const Drawing *d, int row, int column)
{
    const int at = row * tile_layout_drawn_columns(d->layout) + column;
    return at < tile_layout_rows(d->layout) * tile_layout_columns(d->layout) ? &d->holders[at] : NULL;
}

static void draw_cell(const Drawing *d, int row, int column)
{
    const TileLayout *const layout = d->layout;
    const int x = LEFT + (column - d->window.column) * CELL_WIDTH, y = TOP + (row - d->window.row) * CELL_HEIGHT;
    const Holder *const h = layout->in_shared ? NULL : holder_at(d, row, column);
    if (!layout->in_shared && !h) return;
    const int offset = layout->in_shared ? offset_of(layout, row, column) : 0;
    text_print(d->out, "<g class=\"%c%d\" transform=\"translate(%d %d)\"><title>", h ? 'l' : 'b',
               h ? h->lane : offset / PIECE % BANK_GROUPS, x, y);
    print_element(d->out, layout, row, first_column(layout, column));
    if (h) print_fragment_title(d->out, layout, h);
    else print_shared_title(d->out, layout, row, column);
    text_print(d->out, "</title><rect width=\"%d\" height=\"%d\"/><text class=\"t\" x=\"%d\" y=\"11\">", CELL_WIDTH,
               CELL_HEIGHT, CELL_WIDTH / 2);
    if (h) text_print(d->out, "t%d</text>", h->warp * WARP_LANES + h->lane);
    else text_print(d->out, "@%d</text>", offset);
    text_print(d->out, "<text x=\"%d\" y=\"23\">", CELL_WIDTH / 2);
    if (h) text_print(d->out, "%d</text></g>\n", h->reg);
    else text_print(d->out, "b%d</text></g>\n", offset / 4 % 32);
}

static void draw_labels(const Drawing *d)
{
    const LayoutWindow *const w = &d->window;
    const bool is_vector = d->layout->rank < 2 && !d->layout->in_shared;
    for (int c = 0; c < w->columns; c++)
        text_print(d->out, "<text class=\"k\" x=\"%d\" y=\"%d\">%s%d</text>\n", LEFT + c * CELL_WIDTH + CELL_WIDTH / 2,
                   TOP - 5, is_vector ? "+" : "", first_column(d->layout, w->column + c));
    for (int r = 0; r < w->rows; r++)
        text_print(d->out, "<text class=\"k\" x=\"%d\" y=\"%d\">%d</text>\n", LEFT / 2,
                   TOP + r * CELL_HEIGHT + CELL_HEIGHT / 2 + 4,
                   (w->row + r) * (is_vector ? tile_layout_drawn_columns(d->layout) : 1));
}

static LayoutWindow cut(const TileLayout *layout, LayoutWindow w)
{
    const int rows = tile_layout_drawn_rows(layout), columns = tile_layout_drawn_columns(layout);
    if (w.row + w.rows > rows) w.rows = rows - w.row;
    if (w.column + w.columns > columns) w.columns = columns - w.column;
    return w;
}

void draw_layout(Text *out, const TileLayout *layout, LayoutWindow window, bool standalone)
{
    const Drawing d = { out, layout, cut(layout, window),
                        layout->in_shared ? NULL : tile_layout_holders(out->arena, layout) };
    const int width = LEFT + d.window.columns * CELL_WIDTH + 2, height = TOP + d.window.rows * CELL_HEIGHT + 2;
    const int below = standalone ? 20 : 0, least = standalone && width < 420 ? 420 : width;
    text_print(out, "<svg %sclass=\"layout\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">",
               standalone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", least, height + below, least, height + below);
    text_print(out, "<title>");
    tile_layout_print(out, layout);
    text_print(out, "</title>");
    if (standalone) {
        print_style(out);
        text_print(out, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>", least, height + below);
    }
    text_print(out, "\n");
    draw_labels(&d);
    for (int r = 0; r < d.window.rows; r++)
        for (int c = 0; c < d.window.columns; c++) draw_cell(&d, d.window.row + r, d.window.column + c);
    if (standalone)
        text_print(out, "<text class=\"q\" x=\"4\" y=\"%d\">%s</text>\n", height + 14,
                   layout->in_shared ? "16 bytes each: byte, first bank; colour: banks"
                                     : "thread, value of the thread; colour: lane");
    text_print(out, "</svg>\n");
}

// ---- which warp has which part

// -1: no element is there, as after the end of a vector.
static int warp_at(const Drawing *d, int row, int column)
{
    const Holder *const h = holder_at(d, row, column);
    return h ? h->group * layout_extent_of(&d->layout->fragment, IN_WARP) + h->warp : -1;
}

// Whether neighbours along a dimension, that n blocks of the same size cut it into, have the same warps within a block.
static bool blocks_suffice(const Drawing *d, int n, bool down)
{
    const int rows = d->window.rows, columns = d->window.columns, size = (down ? rows : columns) / n;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            const int first = warp_at(d, down ? r / size * size : r, down ? c : c / size * size),
                      warp = warp_at(d, r, c);
            if (warp >= 0 && warp != first) return false;
        }
    return true;
}

enum { BLOCKS = 16, BLOCK_WIDTH = 36, BLOCK_HEIGHT = 18 };

// The least number of blocks that lose nothing; 0: more are needed than are drawn.
static int blocks_of(const Drawing *d, bool down)
{
    const int extent = down ? d->window.rows : d->window.columns;
    for (int n = 1; n <= BLOCKS && n <= extent; n++)
        if (extent % n == 0 && blocks_suffice(d, n, down)) return n;
    return 0;
}

static void draw_block(const Drawing *d, LayoutWindow block, int x, int y, int width)
{
    const Holder *const h = holder_at(d, block.row, block.column);
    if (!h) return;
    text_print(d->out,
               "<g class=\"w%d\" transform=\"translate(%d %d)\"><title>rows %d to %d, columns %d to %d: group %d, "
               "warp %d</title><rect width=\"%d\" height=\"%d\"/><text x=\"%d\" y=\"13\">g%d w%d</text></g>\n",
               warp_at(d, block.row, block.column) % 16, x, y, block.row, block.row + block.rows - 1, block.column,
               block.column + block.columns - 1, h->group, h->warp, width, BLOCK_HEIGHT, width / 2, h->group, h->warp);
}

LayoutWindow draw_warps(Text *out, const TileLayout *layout)
{
    LayoutWindow w = { 0, 0, tile_layout_drawn_rows(layout), tile_layout_drawn_columns(layout) };
    const Drawing d = { out, layout, w, tile_layout_holders(out->arena, layout) };
    int down = blocks_of(&d, true), across = blocks_of(&d, false);
    if (!down) w.rows = down = w.rows < BLOCKS ? w.rows : BLOCKS;
    if (!across) w.columns = across = w.columns < BLOCKS ? w.columns : BLOCKS;
    const int width = across < 4 ? 4 * BLOCK_WIDTH / across : BLOCK_WIDTH;
    text_print(out, "<svg class=\"warps\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
               across * width, down * BLOCK_HEIGHT, across * width, down * BLOCK_HEIGHT);
    for (int r = 0; r < down; r++)
        for (int c = 0; c < across; c++) {
            const LayoutWindow block = { r * (w.rows / down), c * (w.columns / across), w.rows / down,
                                         w.columns / across };
            draw_block(&d, block, c * width, r * BLOCK_HEIGHT, width);
        }
    text_print(out, "</svg>\n");
    return w;
}

// ---- text

void print_layout(Text *out, const TileLayout *layout, LayoutWindow window)
{
    const Drawing d = { out, layout, cut(layout, window),
                        layout->in_shared ? NULL : tile_layout_holders(out->arena, layout) };
    text_print(out, "%6s", "");
    for (int c = 0; c < d.window.columns; c++) text_print(out, " %9d", first_column(layout, d.window.column + c));
    for (int r = 0; r < d.window.rows; r++) {
        text_print(out, "\n%6d", d.window.row + r);
        for (int c = 0; c < d.window.columns; c++) {
            const int row = d.window.row + r, column = d.window.column + c;
            const Holder *const h = layout->in_shared ? NULL : holder_at(&d, row, column);
            if (layout->in_shared)
                text_print(out, " %5d b%-2d", offset_of(layout, row, column), offset_of(layout, row, column) / 4 % 32);
            else if (h)
                text_print(out, " %9s",
                           arena_printf(out->arena, "t%d:%d", h->group * 128 + h->warp * WARP_LANES + h->lane, h->reg));
        }
    }
    text_print(out, "\n");
}

// ---- banks

// The words of eight rows of one 16-byte column, which ldmatrix and wgmma read together.
static int column_passes(const SharedLayout *layout)
{
    int rows[WARP_LANES], columns[WARP_LANES];
    const int n = layout->rows < 8 ? layout->rows : 8;
    for (int i = 0; i < 4 * n; i++) rows[i] = i / 4, columns[i] = i % 4 * 4 / layout->element_bytes;
    return shared_conflicts(layout, rows, columns, 4 * n);
}

BankPasses layout_bank_passes(const SharedLayout *layout)
{
    const SharedLayout plain = shared_plain(layout->rows, layout->columns, layout->element_bytes);
    int rows[WARP_LANES] = { 0 }, columns[WARP_LANES];
    const int words = layout->columns * layout->element_bytes / 4, n = words < WARP_LANES ? words : WARP_LANES;
    for (int i = 0; i < n; i++) columns[i] = i * 4 / layout->element_bytes;
    return (BankPasses){ column_passes(layout), column_passes(&plain), shared_conflicts(layout, rows, columns, n) };
}
