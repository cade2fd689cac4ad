// SPDX-License-Identifier: MIT
// lsp_layouts.c - the tiles of a kernel, as the page of `kiln explain --html` has them, in a few lines of Markdown each.
#include "tools/lsp_layouts.h"
#include "tools/page/page.h"
#include "base/memory.h"

enum { ARCH = 90, ROWS = 8, COLUMNS = 8 }; // of a tile that are shown

typedef struct TileWords {
    struct TileWords *next;
    char *name, *words;
    int line; // of the declaration
} TileWords;

struct KernelLayouts {
    KernelLayouts *next;
    char *kernel;
    TileWords *tiles;
};

void layouts_free(KernelLayouts *layouts)
{
    while (layouts) {
        KernelLayouts *const next = layouts->next;
        while (layouts->tiles) {
            TileWords *const tile = layouts->tiles;
            layouts->tiles = tile->next;
            memory_free(tile->name);
            memory_free(tile->words);
            memory_free(tile);
        }
        memory_free(layouts->kernel);
        memory_free(layouts);
        layouts = next;
    }
}

// ---- words

static void describe_fragment(Text *out, const PageTile *tile)
{
    text_print(out, "in registers, %d of each thread that holds it", tile->registers);
    if (tile->has_layout) text_print(out, "; `tTHREAD:VALUE` of the first elements:");
}

static void describe_shared(Text *out, const PageTile *tile)
{
    text_print(out, "in shared memory, %d x %d bytes at %d", tile->slots, tile->bytes, tile->offset);
    if (tile->ring) text_print(out, ", ring %s", tile->ring);
    if (tile->why) text_print(out, ", because %s", tile->why);
    if (!tile->has_layout) return;
    const SharedLayout *const s = &tile->layout.shared;
    const BankPasses passes = layout_bank_passes(s);
    if (s->swizzle_bytes) text_print(out, ", swizzle %d", s->swizzle_bytes);
    text_print(out, "; 16 bytes of 8 rows take %d pass%s through the banks", passes.column,
               passes.column == 1 ? "" : "es");
    if (passes.column_plain > passes.column) text_print(out, " (%d row by row)", passes.column_plain);
    text_print(out, ". Byte and bank of each 16 bytes:");
}

static const char *words_of(Arena *arena, const PageKernel *kernel, const PageTile *tile)
{
    Text out = { .arena = arena };
    text_print(&out, "`%s` as `%s` on sm_90a: ", tile->name, kernel->name);
    if (tile->in_shared) describe_shared(&out, tile);
    else describe_fragment(&out, tile);
    if (!tile->has_layout) return text_cstr(&out);
    text_print(&out, "\n\n```text\n");
    tile_layout_print(&out, &tile->layout);
    text_print(&out, "\n");
    print_layout(&out, &tile->layout, layout_window(&tile->layout, ROWS, COLUMNS));
    text_print(&out, "```");
    return text_cstr(&out);
}

// ---- compiling

typedef struct Finding {
    Page *page;
    const BuildRequest *request;
    const Source *source;
    KernelLayouts *found;
} Finding;

static kiln_status take_tiles(const Compiled *compiled, void *context)
{
    Finding *const f = context;
    const PageKernel *const kernel =
        page_add_kernel(f->page, compiled, &f->request->target, f->request->program->program);
    for (int i = kernel->tiles.count - 1; i >= 0; i--) {
        const PageTile *const tile = &kernel->tiles.items[i];
        if (tile->source != f->source || !tile->name || tile->line == 0) continue;
        TileWords *const words = memory_alloc(sizeof *words);
        if (!words) return KILN_OK;
        *words = (TileWords){ f->found->tiles, memory_copy_text(tile->name),
                              memory_copy_text(words_of(f->page->arena, kernel, tile)), tile->line };
        f->found->tiles = words;
    }
    return KILN_OK;
}

static void look_for_tiles(Arena *arena, const LayoutQuestion *q, KernelLayouts *found)
{
    const kiln_program_options options = { q->folders->items, q->folders->n };
    const kiln_build_options build = { .arch = ARCH };
    BuildRequest request = { .name = found->kernel };
    if (kiln_program_load(q->path, q->text, &options, &request.program)) return;
    Finding f = { page_new(arena, "", ""), &request, request.program->program->modules[0]->source, found };
    if (!target_choose(NULL, &build, &request.target) && kernel_compile(&request, NULL, NULL, take_tiles, &f) &&
        bind_first_check(&request))
        kernel_compile(&request, NULL, NULL, take_tiles, &f);
    kiln_program_free(request.program);
}

static const KernelLayouts *find_kernel(KernelLayouts **layouts, Arena *arena, const LayoutQuestion *q)
{
    const char *const name = q->place->inside->name;
    for (const KernelLayouts *k = *layouts; k; k = k->next)
        if (strcmp(k->kernel, name) == 0) return k;
    KernelLayouts *const fresh = memory_alloc(sizeof *fresh);
    if (!fresh) return NULL;
    *fresh = (KernelLayouts){ *layouts, memory_copy_text(name), NULL };
    if (!fresh->kernel) return memory_free(fresh), NULL;
    *layouts = fresh; // also where it cannot be compiled: that is not tried again
    look_for_tiles(arena, q, fresh);
    return fresh;
}

void layouts_describe(KernelLayouts **layouts, Text *out, const LayoutQuestion *q)
{
    const Place *const place = q->place;
    if (!place->inside || place->inside->kind != DECL_KERNEL || !place->inside->name) return;
    const KernelLayouts *const kernel = find_kernel(layouts, out->arena, q);
    const int line = source_position(place->span.source, place->span.begin).line;
    for (const TileWords *t = kernel ? kernel->tiles : NULL; t; t = t->next)
        if (t->line == line && t->name && t->words && strcmp(t->name, place->name) == 0)
            text_print(out, "\n\n%s", t->words);
}
