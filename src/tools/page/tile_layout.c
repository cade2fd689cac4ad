// SPDX-License-Identifier: MIT
// tile_layout.c - texts of layouts: reading them, phrase by phrase, and writing them.
#include "tools/page/tile_layout.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXTENT_MAX = 1 << 16, ELEMENTS_MAX = 1 << 20, PITCH_MAX = 1 << 20 };

typedef struct Reading {
    Arena *arena;
    TileLayout *layout;
    const char *why;
    bool is_fragment, is_accumulator, is_blocked, is_rows;
    Division division;
    int groups, warps, vector, pitch, swizzle, panel;
} Reading;

static bool fail(Reading *r, const char *format, const char *text)
{
    if (!r->why) r->why = arena_printf(r->arena, format, text);
    return false;
}

// ---- the head: name, type, extents

static bool read_head(Reading *r, const char **text)
{
    TileLayout *const layout = r->layout;
    const char *at = *text;
    layout->type = DTYPE_F32;
    const size_t n = strcspn(at, "[");
    if (!at[n]) return fail(r, "'%s' has no extents: it begins as f32[128][256]", *text);
    bool is_typed = n == 0;
    for (size_t i = 0; i < n;) {
        const size_t length = strcspn(at + i, " [:,");
        const char *const word = arena_copy_text(r->arena, at + i, length);
        for (int t = 0; t < DTYPE_COUNT; t++)
            if (strcmp(dtype_name((DType)t), word) == 0) layout->type = (DType)t, is_typed = true;
        i += length + 1;
    }
    if (!is_typed) return fail(r, "'%s' has no element type: it begins as f32[128][256]", *text);
    for (at += n; *at == '['; at++) {
        char *end;
        const long extent = strtol(at + 1, &end, 10);
        if (*end != ']' || extent < 1 || extent > EXTENT_MAX || layout->rank == LAYOUT_MAX_RANK)
            return fail(r, "'%s': extents are numbers in brackets, up to 8 of them", at);
        layout->extent[layout->rank++] = (int)extent;
        at = end;
    }
    *text = at + strspn(at, " :,;");
    int64_t elements = 1;
    for (int d = 0; d < layout->rank; d++) elements *= layout->extent[d];
    return elements <= ELEMENTS_MAX || fail(r, "a tile of more than 2^20 elements%s", "");
}

// ---- phrases

static bool starts(const char **at, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0 || isalnum((unsigned char)(*at)[n])) return false;
    *at += n + strspn(*at + n, " ");
    return true;
}

static bool read_modes(Reading *r, LayoutInput input, const char *at)
{
    Layout *const layout = &r->layout->fragment;
    r->is_fragment = true;
    while (*at) {
        int extent = 0, dim = REPLICATED, stride = 0, n = 0;
        if (sscanf(at, "%d x d%d+%d%n", &extent, &dim, &stride, &n) < 3) {
            n = 0;
            dim = REPLICATED;
            stride = 0;
            if (sscanf(at, "%d x same%n", &extent, &n) < 1 || n == 0)
                return fail(r, "'%s': expected COUNT x dDIMENSION+STRIDE, or COUNT x same", at);
        }
        if (extent < 1 || extent > EXTENT_MAX || dim >= r->layout->rank || dim < REPLICATED || stride < 0 ||
            layout->n == LAYOUT_MAX_MODES)
            return fail(r, "'%s': no such dimension or count of this tile", at);
        if (extent > 1) layout_add(layout, input, extent, dim, stride);
        at += n + (int)strspn(at + n, " ");
    }
    return true;
}

// Counts of what explain adds to a line, and phrases of a number first.
static bool read_count(Reading *r, const char *at)
{
    char *end;
    const long count = strtol(at, &end, 10);
    const char *const what = end + strspn(end, " ");
    if (strncmp(what, "group", 5) == 0) r->groups = (int)count;
    else if (strncmp(what, "warp", 4) == 0) r->warps = (int)count;
    else if (strncmp(what, "register", 8) != 0 && strncmp(what, "byte", 4) != 0 && *what != 'x')
        return fail(r, "'%s': unknown words", at);
    const bool fits = count >= 1 && count <= 32;
    return fits || (*what != 'g' && *what != 'w') || fail(r, "'%s': there are 1 to 32", at);
}

// The number in a phrase such as "panels of 64 columns", which nothing follows. False: another phrase, or no such number.
static bool read_number(const char *at, const char *before, const char *after, int *number)
{
    const size_t n = strlen(before);
    char *end;
    if (strncmp(at, before, n) != 0 || !isdigit((unsigned char)at[n])) return false;
    const long value = strtol(at + n, &end, 10);
    *number = (int)value;
    return value >= 1 && value <= PITCH_MAX && strcmp(end, after) == 0;
}

static bool read_phrase(Reading *r, const char *at)
{
    static const char *const names[IN_COUNT] = { "register", "lane", "warp", "group" };
    static const char *const ignored[] = { "fetched", "filled", "multistage", "ring",
                                           "once",    "over",   "in shared",  "bytes" };
    int bytes;
    for (int i = 0; i < IN_COUNT; i++)
        if (starts(&at, names[i])) return read_modes(r, (LayoutInput)i, at);
    if (isdigit((unsigned char)*at)) return read_count(r, at);
    if (starts(&at, "accumulator")) return r->is_fragment = r->is_accumulator = true;
    if (starts(&at, "blocked")) {
        r->vector = *at ? atoi(at) : 1;
        r->is_fragment = r->is_blocked = true;
        return (r->vector >= 1 && r->vector <= 64) || fail(r, "blocked: 1 to 64 elements, not '%s'", at);
    }
    if (starts(&at, "columns")) return r->division = DIVIDE_COLUMNS, true;
    if (read_number(at, "rows ", " bytes apart", &bytes)) return r->pitch = bytes, r->is_rows = true;
    if (strcmp(at, "rows") == 0) return r->is_rows = true;
    if (read_number(at, "swizzle ", "", &bytes)) return r->swizzle = bytes, true;
    if (read_number(at, "panels of ", " columns", &bytes)) return r->panel = bytes, true;
    for (int i = 0; i < (int)(sizeof ignored / sizeof *ignored); i++)
        if (strncmp(at, ignored[i], strlen(ignored[i])) == 0) return true;
    return fail(r, "'%s': unknown words; see 'kiln layout --help'", at);
}

static bool read_phrases(Reading *r, const char *text)
{
    while (*text) {
        const size_t n = strcspn(text, ",;");
        size_t length = n;
        while (length && text[length - 1] == ' ') length--;
        const char *const phrase = arena_copy_text(r->arena, text, length);
        if (*phrase && !read_phrase(r, phrase)) return false;
        text += n + (text[n] != 0);
        text += strspn(text, " \n");
    }
    return true;
}

// ---- what they come to

static bool make_fragment(Reading *r)
{
    TileLayout *const layout = r->layout;
    const Partition partition = { r->groups, r->warps };
    if (r->is_accumulator) {
        const int rows = r->division == DIVIDE_ROWS ? 16 * r->warps * r->groups : 16 * r->warps;
        const int columns = r->division == DIVIDE_COLUMNS ? 8 * r->groups : 8;
        if (layout->rank != 2 || layout->extent[0] % rows || layout->extent[1] % columns)
            return fail(r, "an accumulator has two dimensions: rows of 16 for each warp, columns of 8%s", "");
        layout->fragment = layout_accumulator(layout->extent[0], layout->extent[1], partition, r->division);
    } else if (r->is_blocked) {
        layout->fragment = layout_blocked(layout->rank, layout->extent, partition, r->vector);
    }
    if (layout_extent_of(&layout->fragment, IN_LANE) > WARP_LANES)
        return fail(r, "a warp has 32 lanes, and there are more%s", "");
    return layout_covers(&layout->fragment) || fail(r, "the modes leave elements of the tile without a thread%s", "");
}

static bool make_shared(Reading *r)
{
    TileLayout *const layout = r->layout;
    const int rows = tile_layout_rows(layout), columns = tile_layout_columns(layout);
    const int bytes = dtype_bits(layout->type) / 8;
    layout->in_shared = true;
    if (bytes == 0) return fail(r, "elements of less than a byte are not drawn%s", "");
    layout->shared = shared_plain(rows, columns, bytes);
    if (r->pitch) {
        const int padding = (r->pitch - columns * bytes) / bytes;
        if (padding < 0) return fail(r, "rows are longer than they are apart%s", "");
        layout->shared = shared_padded(rows, columns, padding, bytes);
    }
    if (r->swizzle && r->swizzle != 128 && r->swizzle != 64 && r->swizzle != 32)
        return fail(r, "a swizzle has 128, 64 or 32 bytes%s", "");
    if (r->swizzle &&
        (!shared_panels(rows, columns, bytes, r->panel ? r->panel : r->swizzle / bytes, &layout->shared) ||
         layout->shared.swizzle_bytes != r->swizzle))
        return fail(r, "rows of this tile are not a multiple of the swizzle, or panels are narrower than it%s", "");
    return true;
}

bool tile_layout_parse(Arena *arena, const char *text, TileLayout *layout, const char **why)
{
    *layout = (TileLayout){ .rank = 0 };
    Reading r = { .arena = arena, .layout = layout, .groups = 1, .warps = 4 };
    text += strspn(text, " ");
    bool ok = read_head(&r, &text);
    layout->fragment = layout_new(layout->rank, layout->extent);
    ok = ok && read_phrases(&r, text);
    if (ok && r.is_fragment && (r.swizzle || r.pitch))
        ok = fail(&r, "a tile is in registers or in shared memory%s", "");
    if (ok && !r.is_fragment && !r.is_rows && !r.swizzle)
        ok = fail(&r, "no layout: say 'accumulator', 'blocked', modes, 'rows' or 'swizzle 128'%s", "");
    if (ok) ok = r.is_fragment ? make_fragment(&r) : make_shared(&r);
    *why = r.why;
    return ok;
}

void tile_layout_print(Text *out, const TileLayout *layout)
{
    text_print(out, "%s", dtype_name(layout->type));
    for (int d = 0; d < layout->rank; d++) text_print(out, "[%d]", layout->extent[d]);
    if (!layout->in_shared) {
        Text modes = { .arena = out->arena };
        layout_print(&modes, &layout->fragment);
        const char *const text = text_cstr(&modes);
        text_print(out, ": %s", text + strspn(text, "; ")); // no words of registers: each thread has one element
        return;
    }
    const SharedLayout *const s = &layout->shared;
    if (s->swizzle_bytes) text_print(out, ", panels of %d columns, swizzle %d", s->panel_columns, s->swizzle_bytes);
    else if (s->pitch_bytes > s->columns * s->element_bytes) text_print(out, ", rows %d bytes apart", s->pitch_bytes);
    else text_print(out, ", rows");
}

bool tile_layout_equal(const TileLayout *a, const TileLayout *b)
{
    if (a->in_shared != b->in_shared || a->type != b->type || a->rank != b->rank ||
        memcmp(a->extent, b->extent, sizeof a->extent) != 0)
        return false;
    return a->in_shared ? memcmp(&a->shared, &b->shared, sizeof a->shared) == 0
                        : layout_equal(&a->fragment, &b->fragment);
}

int tile_layout_columns(const TileLayout *layout) { return layout->rank ? layout->extent[layout->rank - 1] : 1; }

int tile_layout_rows(const TileLayout *layout)
{
    int rows = 1;
    for (int d = 0; d + 1 < layout->rank; d++) rows *= layout->extent[d];
    return rows;
}

enum { VECTOR_COLUMNS = 16, PIECE_BYTES = 16 };

int tile_layout_drawn_columns(const TileLayout *layout)
{
    const int columns = tile_layout_columns(layout);
    if (layout->in_shared) return (columns * layout->shared.element_bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    return layout->rank == 1 && columns > VECTOR_COLUMNS ? VECTOR_COLUMNS : columns;
}

int tile_layout_drawn_rows(const TileLayout *layout)
{
    const int columns = tile_layout_drawn_columns(layout);
    if (layout->in_shared || layout->rank != 1) return tile_layout_rows(layout);
    return (tile_layout_columns(layout) + columns - 1) / columns;
}

LayoutWindow layout_window(const TileLayout *layout, int rows, int columns)
{
    const int all_rows = tile_layout_drawn_rows(layout), all_columns = tile_layout_drawn_columns(layout);
    return (LayoutWindow){ 0, 0, rows < all_rows ? rows : all_rows, columns < all_columns ? columns : all_columns };
}

Holder *tile_layout_holders(Arena *arena, const TileLayout *layout)
{
    const Layout *const f = &layout->fragment;
    const int columns = tile_layout_columns(layout);
    Holder *const holders = NEW_ARRAY(arena, Holder, tile_layout_rows(layout) * columns);
    const int registers = layout_registers(f), groups = layout_extent_of(f, IN_GROUP),
              warps = layout_extent_of(f, IN_WARP), lanes = layout_extent_of(f, IN_LANE);
    for (int group = 0; group < groups; group++)
        for (int warp = 0; warp < warps; warp++)
            for (int lane = 0; lane < lanes; lane++)
                for (int reg = 0; reg < registers; reg++) {
                    int at[LAYOUT_MAX_RANK] = { 0 }, row = 0;
                    bool inside = true;
                    layout_at(f, reg, lane, warp, group, at);
                    for (int d = 0; d < layout->rank; d++) inside &= at[d] < layout->extent[d];
                    if (!inside) continue;
                    for (int d = 0; d + 1 < layout->rank; d++) row = row * layout->extent[d] + at[d];
                    Holder *const holder = &holders[row * columns + (layout->rank ? at[layout->rank - 1] : 0)];
                    if (!holder->count) *holder = (Holder){ reg, lane, warp, group, 0 };
                    holder->count++;
                }
    return holders;
}
