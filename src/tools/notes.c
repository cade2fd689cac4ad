// SPDX-License-Identifier: MIT
// notes.c - the performance notes of kernels that were built, each once, for `kiln run`, `kiln test` and `kiln explain`.
#include "tools/tool.h"

#include <string.h>

static bool has_note(const NoteTexts *notes, const char *text)
{
    for (int i = 0; i < notes->count; i++)
        if (strcmp(notes->items[i], text) == 0) return true;
    return false;
}

// A note is a line and those after it that are indented.
static size_t note_length(const char *text)
{
    const char *end = strchr(text, '\n');
    while (end && end[1] == ' ') end = strchr(end + 1, '\n');
    return end ? (size_t)(end + 1 - text) : strlen(text);
}

void notes_collect(Arena *arena, NoteTexts *notes, const kiln_kernel *kernel)
{
    for (int i = 0; kernel->steps && i < kernel->steps->n_steps; i++)
        notes_collect(arena, notes, kernel->steps->steps[i].kernel);
    for (const char *at = kernel->notes ? kernel->notes : ""; *at; at += note_length(at)) {
        const char *const text = arena_copy_text(arena, at, note_length(at));
        if (!has_note(notes, text)) VEC_PUSH(arena, notes, text);
    }
}

void notes_show(Arena *arena, const kiln_kernel *kernel)
{
    NoteTexts notes = { 0 };
    notes_collect(arena, &notes, kernel);
    for (int i = 0; i < notes.count; i++) fputs(notes.items[i], stdout);
}
