// SPDX-License-Identifier: MIT
// counts.c - counts of instructions as counts of lines.
#include "tools/counts.h"

#include <stdlib.h>
#include <string.h>

// ---- lines

static const SassPlaces *places_of(const Counts *counts, const NcuLaunch *launch)
{
    const size_t n = strcspn(launch->kernel, "(");
    for (int i = 0; i < counts->parts.count; i++) {
        const CodePlaces *const part = &counts->parts.items[i];
        if (strncmp(part->symbol, launch->kernel, n) == 0 && !part->symbol[n] &&
            part->places.count >= launch->code.count)
            return &part->places;
    }
    return NULL;
}

static bool is_same(const SassPlace *a, const SassPlace *b)
{
    return a->line == b->line && (a->path == b->path || (a->path && b->path && strcmp(a->path, b->path) == 0));
}

LineCount *counts_line(Arena *arena, LineCounts *lines, SassPlace place)
{
    for (int i = 0; i < lines->count; i++)
        if (is_same(&lines->items[i].place, &place)) return &lines->items[i];
    VEC_PUSH(arena, lines, ((LineCount){ .place = place }));
    return &lines->items[lines->count - 1];
}

static void add_stall(Arena *arena, LineCount *line, const NcuStall *stall)
{
    for (int i = 0; i < line->stalls.count; i++) {
        if (strcmp(line->stalls.items[i].name, stall->name) != 0) continue;
        line->stalls.items[i].samples += stall->samples;
        return;
    }
    VEC_PUSH(arena, &line->stalls, *stall);
}

static void add_instruction(Arena *arena, LineCount *line, const NcuInstruction *instruction)
{
    line->samples += instruction->samples;
    line->executed += instruction->executed;
    line->l2_bytes += instruction->l2_bytes;
    line->conflicts += instruction->conflicts;
    for (int i = 0; i < instruction->stalls.count; i++) add_stall(arena, line, &instruction->stalls.items[i]);
}

static int more_samples(const void *a, const void *b)
{
    const double x = ((const LineCount *)a)->samples, y = ((const LineCount *)b)->samples;
    return (x < y) - (x > y);
}

static int longer_stall(const void *a, const void *b)
{
    const double x = ((const NcuStall *)a)->samples, y = ((const NcuStall *)b)->samples;
    return (x < y) - (x > y);
}

void counts_of_lines(Arena *arena, const Counts *counts, const NcuLaunch *launch, LineCounts *lines)
{
    const SassPlaces *const places = places_of(counts, launch);
    if (!places) return;
    for (int i = 0; i < launch->code.count; i++)
        add_instruction(arena, counts_line(arena, lines, places->items[i]), &launch->code.items[i]);
    for (int i = 0; i < lines->count; i++) {
        LineCount *const line = &lines->items[i];
        if (line->stalls.count) qsort(line->stalls.items, (size_t)line->stalls.count, sizeof(NcuStall), longer_stall);
    }
    if (lines->count) qsort(lines->items, (size_t)lines->count, sizeof(LineCount), more_samples);
}
