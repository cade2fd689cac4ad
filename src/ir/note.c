// SPDX-License-Identifier: MIT
// note.c - the kinds of performance notes, and the list of a kernel's.
#include "ir/note.h"
#include "ir/tile.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
const NoteInfo note_infos[NOTE_KINDS] = {
    [NOTE_PRODUCT_LOOP]   = { "product_loop",   "product without matrix instructions" },
    [NOTE_COPY_WAITS]     = { "copy_waits",     "copy that does not run ahead" },
    [NOTE_SCATTERED]      = { "scattered",      "elements moved one by one" },
    [NOTE_BANK_CONFLICTS] = { "bank_conflicts", "bank conflicts" },
    [NOTE_REPLICAS]       = { "replicas",       "threads repeat each other's work" },
    [NOTE_FEW_INSTANCES]  = { "few_instances",  "fewer instances than processors" },
    [NOTE_SERIAL]         = { "serial",         "one thread or warp works alone" },
    [NOTE_CONVERSION]     = { "conversion",     "layout conversion through memory" },
    [NOTE_OCCUPANCY]      = { "occupancy",      "too few warps" },
    [NOTE_BRANCHES] = { "branches", "a branch for each element" },
    [NOTE_NOT_VECTORISED] = { "not_vectorised", "loop that is not vectorised" },
    [NOTE_SPILLS] = { "spills", "registers kept in memory" },
};
// clang-format on

int note_find(const char *name)
{
    for (int i = 0; i < NOTE_KINDS; i++)
        if (strcmp(note_infos[i].name, name) == 0) return i;
    return -1;
}

static bool is_noted(const NoteList *notes, NoteKind kind, Span span)
{
    for (int i = 0; i < notes->list.count; i++) {
        const Note *const note = &notes->list.items[i];
        if (note->kind == kind && note->span.source == span.source && note->span.begin == span.begin) return true;
    }
    return false;
}

void note_add(TileKernel *kernel, NoteKind kind, Span span, const char *instead, const char *format, ...)
{
    va_list list;
    if (is_noted(&kernel->notes, kind, span)) return;
    va_start(list, format);
    const char *const why = arena_vprintf(kernel->arena, format, list);
    va_end(list);
    VEC_PUSH(kernel->arena, &kernel->notes.list, ((Note){ kind, span, why, instead }));
}

static int compare_notes(const void *a, const void *b)
{
    const Note *const x = a, *const y = b;
    if (x->span.source != y->span.source) {
        const char *const p = x->span.source ? x->span.source->path : "", *const q = y->span.source
                                                                                         ? y->span.source->path
                                                                                         : "";
        return strcmp(p, q);
    }
    if (x->span.begin != y->span.begin) return x->span.begin < y->span.begin ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

void notes_sort(NoteList *notes)
{
    if (notes->list.count > 1)
        qsort(notes->list.items, (size_t)notes->list.count, sizeof *notes->list.items, compare_notes);
}

int notes_open(const NoteList *notes)
{
    int n = 0;
    for (int i = 0; i < notes->list.count; i++) n += !notes->accepted[notes->list.items[i].kind];
    return n;
}

void notes_print(Text *out, const NoteList *notes)
{
    for (int i = 0; i < notes->list.count; i++) {
        const Note *const note = &notes->list.items[i];
        if (notes->accepted[note->kind]) continue;
        if (note->span.source) {
            const Position at = source_position(note->span.source, note->span.begin);
            text_print(out, "%s:%d:%d: ", note->span.source->path, at.line, at.column);
        }
        text_print(out, "performance note: %s [%s]\n", note->why, note_infos[note->kind].name);
        if (note->instead) text_print(out, "    instead: %s\n", note->instead);
    }
}
