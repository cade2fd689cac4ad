// SPDX-License-Identifier: MIT
// write_memory.c - shared memory and the registers of a thread as maps, to scale.
#include "tools/page/html.h"
#include "tools/page/page.h"

enum { WIDTH = 720, ROW = 34, COLOURS = 8 };

typedef struct Map {
    Text *out;
    double scale; // pixels of a byte, or of a register
    int row;
} Map;

static void draw_part(const Map *map, int colour, double from, double size, const char *name, const char *title)
{
    const double width = size * map->scale;
    text_print(map->out, "<g class=\"b%d\" transform=\"translate(%.1f %d)\"><title>", colour % COLOURS,
               from * map->scale, map->row * ROW);
    html_text(map->out, title);
    text_print(map->out, "</title><rect width=\"%.1f\" height=\"%d\"/>", width > 1 ? width : 1, ROW - 6);
    if (width > 7.0 * (double)strlen(name) + 6) {
        text_print(map->out, "<text x=\"%.1f\" y=\"18\">", width / 2);
        html_text(map->out, name);
        text_print(map->out, "</text>");
    }
    text_print(map->out, "</g>\n");
}

static void write_key(Text *out, int colour, const char *title)
{
    text_print(out,
               "<li class=\"b%d\"><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect width=\"14\" "
               "height=\"14\"/></svg> ",
               colour % COLOURS);
    html_text(out, title);
    text_print(out, "</li>\n");
}

static void open_map(Text *out, int rows, const char *what)
{
    text_print(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"%s\">\n<svg class=\"map\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
        what, WIDTH, rows * ROW, WIDTH, rows * ROW);
}

// "k bf16[128][64]"
static const char *words_of(Arena *arena, const PageTile *tile)
{
    return arena_printf(arena, "%s%s%s", tile->name, *tile->shape ? " " : "", tile->shape);
}

static int end_of(const PageTile *tile) { return tile->offset + tile->bytes * tile->slots; }

// Of each tile the first row in which nothing of what it takes is taken. Returns how many rows there are.
static int rows_of(const PageKernel *kernel, int *rows)
{
    int n = 1;
    for (int i = 0; i < kernel->tiles.count; i++) {
        const PageTile *const tile = &kernel->tiles.items[i];
        rows[i] = 0;
        for (int j = 0; tile->in_shared && j < i; j++) {
            const PageTile *const other = &kernel->tiles.items[j];
            if (!other->in_shared || rows[j] != rows[i] || tile->offset >= end_of(other) ||
                other->offset >= end_of(tile))
                continue;
            rows[i]++;
            j = -1;
        }
        if (rows[i] >= n) n = rows[i] + 1;
    }
    return n;
}

static void draw_slots(const Map *map, const PageTile *tile, int colour)
{
    Arena *const arena = map->out->arena;
    for (int s = 0; s < tile->slots; s++) {
        const int offset = tile->offset + s * tile->bytes;
        const char *const which = tile->slots > 1 ? arena_printf(arena, ", %d of %d", s, tile->slots) : "";
        draw_part(map, colour, offset, tile->bytes,
                  tile->slots > 1 ? arena_printf(arena, "%s %d", tile->name, s) : tile->name,
                  arena_printf(arena, "%s%s: bytes %d to %d", words_of(arena, tile), which, offset,
                               offset + tile->bytes - 1));
    }
}

static void write_shared_keys(Text *out, const PageKernel *kernel, const char *mbarriers)
{
    text_print(out, "<ul class=\"legend\">\n");
    for (int i = 0, colour = 0; i < kernel->tiles.count; i++) {
        const PageTile *const tile = &kernel->tiles.items[i];
        if (!tile->in_shared) continue;
        const char *const times = tile->slots > 1 ? arena_printf(out->arena, "%d x ", tile->slots) : "";
        write_key(out, colour++,
                  arena_printf(out->arena, "%s: %s%d bytes at %d", words_of(out->arena, tile), times, tile->bytes,
                               tile->offset));
    }
    if (kernel->barrier_bytes) write_key(out, COLOURS - 1, mbarriers);
    text_print(out, "</ul>\n");
}

static void write_shared(Text *out, const PageKernel *kernel)
{
    const int limit = kernel->shared_limit > kernel->shared_bytes ? kernel->shared_limit : kernel->shared_bytes;
    const char *const mbarriers =
        arena_printf(out->arena, "mbarriers: %d bytes at %d", kernel->barrier_bytes, kernel->barrier_offset);
    int *const rows = NEW_ARRAY(out->arena, int, kernel->tiles.count + 1), n = rows_of(kernel, rows);
    Map map = { out, limit > 0 ? (double)WIDTH / limit : 0, 0 };
    text_print(out, "<h3>Shared memory: %d of %d bytes</h3>\n", kernel->shared_bytes, kernel->shared_limit);
    if (n > 1) text_print(out, "<p>What stands below other tiles takes their place while they are not needed.</p>\n");
    open_map(out, n, "shared memory");
    for (int i = 0, colour = 0; i < kernel->tiles.count; i++) {
        map.row = rows[i];
        if (kernel->tiles.items[i].in_shared) draw_slots(&map, &kernel->tiles.items[i], colour++);
    }
    map.row = 0;
    if (kernel->barrier_bytes)
        draw_part(&map, COLOURS - 1, kernel->barrier_offset, kernel->barrier_bytes, "mbarriers", mbarriers);
    text_print(out, "<rect class=\"frame\" width=\"%d\" height=\"%d\"/></svg></div>\n", WIDTH, n * ROW - 6);
    write_shared_keys(out, kernel, mbarriers);
}

static const char *registers_of(Arena *arena, const PageTile *tile)
{
    return arena_printf(arena, "%s: %d register%s", words_of(arena, tile), tile->registers,
                        tile->registers == 1 ? "" : "s");
}

static void write_registers(Text *out, const PageKernel *kernel)
{
    int sum = 0, at = 0, colour = 0;
    for (int i = 0; i < kernel->tiles.count; i++) sum += kernel->tiles.items[i].registers;
    const int limit = kernel->thread_registers > sum ? kernel->thread_registers : sum;
    const Map map = { out, limit > 0 ? (double)WIDTH / limit : 0, 0 };
    text_print(out, "<h3>Registers of a computing thread: fragments take %d, a thread has %d</h3>\n", sum,
               kernel->thread_registers);
    text_print(
        out,
        "<p>Fragments whose lives do not overlap can share registers; addresses and temporaries take the rest.</p>\n");
    open_map(out, 1, "registers of a thread");
    for (int i = 0; i < kernel->tiles.count; i++) {
        const PageTile *const tile = &kernel->tiles.items[i];
        if (tile->in_shared) continue;
        draw_part(&map, colour++, at, tile->registers, tile->name, registers_of(out->arena, tile));
        at += tile->registers;
    }
    text_print(out, "<rect class=\"frame\" width=\"%d\" height=\"%d\"/></svg></div>\n<ul class=\"legend\">\n", WIDTH,
               ROW - 6);
    colour = 0;
    for (int i = 0; i < kernel->tiles.count; i++)
        if (!kernel->tiles.items[i].in_shared)
            write_key(out, colour++, registers_of(out->arena, &kernel->tiles.items[i]));
    text_print(out, "</ul>\n");
}

void write_memory(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<section id=\"%smemory\"><h2>Memory</h2>\n", id);
    write_shared(out, kernel);
    write_registers(out, kernel);
    text_print(out, "</section>\n");
}
