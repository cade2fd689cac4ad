// SPDX-License-Identifier: MIT
// timeline_table.c - where the time of each role goes: a row for each thing that is waited for, and one for what is left.
#include "tools/timeline.h"
#include "base/memory.h"

#include <stdlib.h>

typedef struct Table {
    const Timeline *timeline;
    TimeRoles roles;
    VEC(double) lengths; // of the steps at hand
} Table;

bool span_is_wait(const TimeSpan *span)
{
    static const char *const others[] = { "role", "tile", "step", "thread", "instance" };
    for (int i = 0; i < COUNT(others); i++)
        if (strcmp(span->kind, others[i]) == 0) return false;
    return true;
}

static bool is_like(const TimeSpan *a, const TimeSpan *b)
{
    return a->line == b->line && strcmp(a->kind, b->kind) == 0 && strcmp(a->what, b->what) == 0;
}

static TimeRole *role_of(Table *table, const TimeSpan *span)
{
    for (int i = 0; i < table->roles.count; i++)
        if (strcmp(table->roles.items[i].name, span->role) == 0) return &table->roles.items[i];
    VEC_PUSH(table->timeline->arena, &table->roles, ((TimeRole){ .name = span->role }));
    return &table->roles.items[table->roles.count - 1];
}

static void add_row(Table *table, TimeRole *role, bool waits, const TimeSpan *span)
{
    TimeRow *row = NULL;
    const int n = waits ? role->waits.count : role->steps.count;
    TimeRow *const rows = waits ? role->waits.items : role->steps.items;
    for (int i = 0; i < n && !row; i++)
        if (is_like(rows[i].like, span)) row = &rows[i];
    if (row) {
        row->time += span->end - span->begin;
        row->times++;
        return;
    }
    const TimeRow first = { span, span->end - span->begin, 1 };
    if (waits) VEC_PUSH(table->timeline->arena, &role->waits, first);
    else VEC_PUSH(table->timeline->arena, &role->steps, first);
}

static void collect(Table *table)
{
    const Timeline *const t = table->timeline;
    for (int i = 0; i < t->spans.count; i++) {
        const TimeSpan *const span = &t->spans.items[i];
        TimeRole *const role = role_of(table, span);
        if (span->depth == 0) {
            role->tracks++;
            role->time += span->end - span->begin;
        } else {
            add_row(table, role, span_is_wait(span), span);
        }
    }
}

static int longer_first(const void *a, const void *b)
{
    const double x = ((const TimeRow *)a)->time, y = ((const TimeRow *)b)->time;
    return (x < y) - (x > y);
}

TimeRoles timeline_roles(const Timeline *timeline)
{
    Table table = { .timeline = timeline };
    collect(&table);
    for (int i = 0; i < table.roles.count; i++) {
        TimeRole *const role = &table.roles.items[i];
        if (role->waits.count) qsort(role->waits.items, (size_t)role->waits.count, sizeof(TimeRow), longer_first);
    }
    return table.roles;
}

// ---- printing

// The line of the source, without its indentation; "" if it cannot be read.
const char *source_line_text(Arena *arena, const char *path, int line)
{
    size_t n;
    char *const bytes = path && line ? file_read(path, &n) : NULL;
    const char *at = bytes;
    if (!bytes) return "";
    for (int i = 1; i < line && at; i++) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    if (at) at += strspn(at, " \t");
    size_t length = at ? strcspn(at, "\r\n") : 0;
    const char *const comment = at ? strstr(at, "//") : NULL;
    if (comment && comment < at + length) length = (size_t)(comment - at);
    while (length && at[length - 1] == ' ') length--;
    const char *const text =
        arena_printf(arena, "%.*s%s", (int)(length < 56 ? length : 53), at ? at : "", length < 56 ? "" : "...");
    memory_free(bytes);
    return text;
}

static void print_row(const Table *table, const TimeRole *role, const TimeRow *row)
{
    char line[16] = "-";
    if (row->like->line) snprintf(line, sizeof line, "%d", row->like->line);
    printf("  %6.1f%% %12.0f %8ld %6s  %-9s %-36s %s\n", 100 * row->time / role->time, row->time / role->tracks,
           row->times, line, row->like->kind, row->like->what,
           source_line_text(table->timeline->arena, row->like->path, row->like->line));
}

static void print_kinds(const TimeRole *role)
{
    const char *separator = " (";
    double all = 0;
    for (int i = 0; i < role->waits.count; i++) all += role->waits.items[i].time;
    printf("  waits %.1f%%", 100 * all / role->time);
    for (int i = 0; i < role->waits.count; i++) {
        const char *const kind = role->waits.items[i].like->kind;
        double time = 0;
        bool is_first = true;
        for (int k = 0; k < role->waits.count; k++) {
            if (strcmp(role->waits.items[k].like->kind, kind) != 0) continue;
            is_first &= k >= i;
            time += role->waits.items[k].time;
        }
        if (!is_first) continue;
        printf("%s%s %.1f%%", separator, kind, 100 * time / role->time);
        separator = ", ";
    }
    printf("%s; computes, copies and issues %.1f%%\n", separator[0] == ',' ? ")" : "", 100 * (1 - all / role->time));
}

static double median_length(Table *table, const TimeRow *row, const TimeRole *role)
{
    const Timeline *const t = table->timeline;
    table->lengths.count = 0;
    for (int i = 0; i < t->spans.count; i++) {
        const TimeSpan *const span = &t->spans.items[i];
        if (strcmp(span->role, role->name) == 0 && span->depth && is_like(span, row->like))
            VEC_PUSH(t->arena, &table->lengths, span->end - span->begin);
    }
    qsort(table->lengths.items, (size_t)table->lengths.count, sizeof(double), compare_doubles);
    return table->lengths.items[table->lengths.count / 2];
}

static void print_role(Table *table, TimeRole *role)
{
    const char *const unit = table->timeline->unit;
    if (role->time <= 0) return;
    printf("%s%s%s: %d %s, %.0f %s each\n", paint(stdout, BOLD), role->name, paint(stdout, PLAIN), role->tracks,
           role->tracks == 1 ? "warp" : "warps", role->time / role->tracks, unit);
    for (int i = 0; i < role->steps.count; i++) {
        const TimeRow *const row = &role->steps.items[i];
        printf("  %ld x %s", row->times, row->like->what);
        if (row->like->line) printf(", line %d", row->like->line);
        printf(": %.0f %s (median)\n", median_length(table, row, role), unit);
    }
    if (role->waits.count == 0) return;
    print_kinds(role);
    printf("  %7s %12s %8s %6s\n", "share", unit, "times", "line");
    for (int i = 0; i < role->waits.count; i++) print_row(table, role, &role->waits.items[i]);
}

void timeline_print(const Timeline *timeline)
{
    Table table = { .timeline = timeline, .roles = timeline_roles(timeline) };
    for (int i = 0; i < table.roles.count; i++) print_role(&table, &table.roles.items[i]);
    if (timeline->lost)
        printf("%ld records found no room: what is shown ends where the first was lost; --steps=N shows fewer\n",
               timeline->lost);
    if (timeline->unit_seconds > 0 && strcmp(timeline->unit, "cycles") == 0)
        printf("1000 cycles are %.3f us\n", 1e9 * timeline->unit_seconds);
}
