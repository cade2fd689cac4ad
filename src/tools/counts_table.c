// SPDX-License-Identifier: MIT
// counts_table.c - counts of lines, as a table and as JSON.
#include "tools/counts.h"
#include "tools/timeline.h"
#include "tools/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, STALLS = 3 };

// "gemm.tile:22"
static const char *place_text(Arena *arena, const SassPlace *place)
{
    const char *const slash = place->path ? strrchr(place->path, '/') : NULL;
    return place->path ? arena_printf(arena, "%s:%d", slash ? slash + 1 : place->path, place->line) : "-";
}

// ---- instructions alone

static int earlier_line(const void *a, const void *b)
{
    const SassPlace *const x = &((const LineCount *)a)->place, *const y = &((const LineCount *)b)->place;
    const int order = strcmp(x->path ? x->path : "", y->path ? y->path : "");
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

kiln_status lines_print(const Compiled *compiled, CudaArch arch)
{
    Arena *const arena = compiled->kernel->arena;
    SassPlaces places = { 0 };
    LineCounts lines = { 0 };
    const kiln_status status = sass_places(arena, compiled, arch, &places);
    if (status) return status;
    for (int i = 0; i < places.count; i++) counts_line(arena, &lines, places.items[i])->executed++;
    if (lines.count) qsort(lines.items, (size_t)lines.count, sizeof(LineCount), earlier_line);
    printf("%s: %d instructions\n%12s %20s\n", compiled->plan->symbol, places.count, "instructions", "line");
    for (int i = 0; i < lines.count; i++) {
        const SassPlace *const place = &lines.items[i].place;
        printf("%12.0f %20s  %s\n", lines.items[i].executed, place_text(arena, place),
               source_line_text(arena, place->path, place->line));
    }
    return KILN_OK;
}

// ---- the table

static const struct {
    const char *name, *text; // the value is printed by it
    double scale;
} shown[] = {
    { "gpu__time_duration.sum", "%.2f us", 1e-3 },
    { "sm__throughput.avg.pct_of_peak_sustained_elapsed", "compute %.0f%% of peak", 1 },
    { "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory %.0f%%", 1 },
    { "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM %.0f%%", 1 },
    { "dram__bytes_read.sum", "%.1f MB read", 1e-6 },
    { "dram__bytes_write.sum", "%.1f MB written", 1e-6 },
    { "lts__t_bytes.sum", "%.1f MB through L2", 1e-6 },
    { "lts__t_sector_hit_rate.pct", "L2 hits %.0f%%", 1 },
    { "sm__inst_executed.avg.per_cycle_elapsed", "%.2f instructions a cycle", 1 },
};

static void print_metrics(const NcuLaunch *launch)
{
    const char *separator = ": ";
    for (int i = 0; i < COUNT(shown); i++) {
        const double value = ncu_metric(launch, shown[i].name);
        if (isnan(value)) continue;
        printf("%s", separator);
        printf(shown[i].text, value * shown[i].scale);
        separator = ", ";
    }
    printf("\n");
}

static double samples_of(const NcuLaunch *launch)
{
    double all = 0;
    for (int i = 0; i < launch->code.count; i++) all += launch->code.items[i].samples;
    return all;
}

static const char *stalls_text(Arena *arena, const LineCount *line)
{
    Text text = { .arena = arena };
    for (int i = 0; i < line->stalls.count && i < STALLS; i++)
        text_print(&text, "%s%s %.0f%%", i ? ", " : "", line->stalls.items[i].name,
                   100 * line->stalls.items[i].samples / line->samples);
    return text_cstr(&text);
}

static void print_line(Arena *arena, const LineCount *line, double all)
{
    char bytes[24] = "-", conflicts[24] = "-";
    if (line->l2_bytes > 0) snprintf(bytes, sizeof bytes, "%.2f", 1e-6 * line->l2_bytes);
    if (line->conflicts > 0) snprintf(conflicts, sizeof conflicts, "%.0f", line->conflicts);
    printf("  %6.1f%% %12.0f %9s %9s %20s  %-36s %s\n", 100 * line->samples / all, line->executed, bytes, conflicts,
           place_text(arena, &line->place), stalls_text(arena, line),
           source_line_text(arena, line->place.path, line->place.line));
}

static void print_launch(Arena *arena, const Counts *counts, const NcuLaunch *launch)
{
    const double all = samples_of(launch);
    LineCounts lines = { 0 };
    printf("%s%.*s%s, by Nsight Compute", paint(stdout, BOLD), (int)strcspn(launch->kernel, "("), launch->kernel,
           paint(stdout, PLAIN));
    print_metrics(launch);
    counts_of_lines(arena, counts, launch, &lines);
    if (!(all > 0) || lines.count == 0) return;
    printf("  %7s %12s %9s %9s %20s  %s\n", "samples", "instructions", "L2 MB", "conflicts", "line", "stalls");
    int i = 0;
    for (; i < lines.count && i < ROWS && lines.items[i].samples > 0; i++) print_line(arena, &lines.items[i], all);
    double rest = 0;
    for (; i < lines.count; i++) rest += lines.items[i].samples;
    if (rest > 0) printf("  %6.1f%% of other lines\n", 100 * rest / all);
}

void counts_print(Arena *arena, const Counts *counts)
{
    for (int i = 0; i < counts->launches.count; i++) print_launch(arena, counts, &counts->launches.items[i]);
    if (counts->launches.count)
        printf(
            "samples are of warps; L2 MB: what loads and stores of lanes ask for, without TMA; conflicts: passes through shared memory\n"
            "that its bytes do not need. ncu times with cold caches and the clocks of the base.\n");
}

// ---- JSON

static void print_stalls(FILE *out, const LineCount *line)
{
    for (int i = 0; i < line->stalls.count; i++) {
        fprintf(out, "%s", i ? ", " : "");
        print_json_text(out, line->stalls.items[i].name);
        fprintf(out, ": %.0f", line->stalls.items[i].samples);
    }
}

static void print_json_line(FILE *out, const LineCount *line)
{
    fprintf(out, "{\"file\": ");
    if (line->place.path) print_json_text(out, line->place.path);
    else fprintf(out, "null");
    fprintf(
        out,
        ", \"line\": %d, \"samples\": %.0f, \"instructions\": %.0f, \"l2_bytes\": %.0f, \"conflicts\": %.0f, \"stalls\": {",
        line->place.line, line->samples, line->executed, line->l2_bytes, line->conflicts);
    print_stalls(out, line);
    fprintf(out, "}}");
}

static void print_json_launch(FILE *out, Arena *arena, const Counts *counts, const NcuLaunch *launch)
{
    LineCounts lines = { 0 };
    fprintf(out, "{\"kernel\": ");
    print_json_text(out, launch->kernel);
    fprintf(out, ", \"metrics\": {");
    for (int i = 0; i < launch->metrics.count; i++) {
        fprintf(out, "%s", i ? ", " : "");
        print_json_text(out, launch->metrics.items[i].name);
        fprintf(out, ": %.9g", launch->metrics.items[i].value);
    }
    fprintf(out, "}, \"lines\": [");
    counts_of_lines(arena, counts, launch, &lines);
    for (int i = 0; i < lines.count; i++) {
        fprintf(out, "%s\n    ", i ? "," : "");
        print_json_line(out, &lines.items[i]);
    }
    fprintf(out, "]}");
}

void counts_print_json(FILE *out, Arena *arena, const Counts *counts)
{
    fprintf(out, "[");
    for (int i = 0; i < counts->launches.count; i++) {
        fprintf(out, "%s\n  ", i ? "," : "");
        print_json_launch(out, arena, counts, &counts->launches.items[i]);
    }
    fprintf(out, "]");
}
