// SPDX-License-Identifier: MIT
// cost_print.c - the cost of a kernel as a table, for `kiln explain`.
#include "lower/gpu/cost/cost.h"

#include <string.h>

enum { SOURCE_COLUMNS = 44 };

static const char *line_name(Arena *arena, const CostLine *line, const TileKernel *kernel)
{
    if (!line->source) return "-";
    if (kernel->n_params == 0 || line->source == kernel->params[0].span.source)
        return arena_printf(arena, "%d", line->line);
    const char *const slash = strrchr(line->source->path, '/');
    return arena_printf(arena, "%s:%d", slash ? slash + 1 : line->source->path, line->line);
}

// The text of the line, from its first word on.
static void print_source(Text *out, const CostLine *line)
{
    if (!line->source || line->source->hidden) return;
    const char *at = line->source->text;
    for (int i = 1; i < line->line && at; i++) {
        at = strchr(at, '\n');
        at += at != NULL;
    }
    if (!at) return;
    at += strspn(at, " \t");
    const int n = (int)strcspn(at, "\r\n");
    text_print(out, n > SOURCE_COLUMNS ? "%.*s..." : "%.*s", n > SOURCE_COLUMNS ? SOURCE_COLUMNS - 3 : n, at);
}

static void print_loops(Text *out, const Cost *cost)
{
    if (!cost->open_loops.count) return;
    text_print(out, "  one step each of the loops whose lengths are not known: line%s",
               cost->open_loops.count > 1 ? "s" : "");
    for (int i = 0; i < cost->open_loops.count; i++) text_print(out, "%s %d", i ? "," : "", cost->open_loops.items[i]);
    text_print(out, "\n");
}

static void print_time(Text *out, double seconds)
{
    if (seconds < 1e-3) text_print(out, "%.1f us", 1e6 * seconds);
    else text_print(out, "%.3f ms", 1e3 * seconds);
}

void cost_print(Text *out, const Cost *cost, const TileKernel *kernel)
{
    text_print(out, "cost on an %s, in cycles of a multiprocessor for one instance:\n", cost->machine->name);
    text_print(out, "  %8s %9s %9s  %-18s\n", "line", "floor", "expected", "bound by");
    for (int i = 0; i < cost->lines.count; i++) {
        const CostLine *const line = &cost->lines.items[i];
        if (line->cycles < 1) continue;
        text_print(out, "  %8s %9.0f %9.0f  %-18s ", line_name(out->arena, line, kernel), line->floor, line->cycles,
                   bound_names[line->bound]);
        print_source(out, line);
        text_print(out, "\n");
    }
    print_loops(out, cost);
    text_print(out, "  units:");
    for (int u = 0; u < UNITS; u++) text_print(out, "%s %s %.0f", u ? "," : "", bound_names[u], cost->units[u]);
    text_print(
        out,
        "\n  one group alone takes %.0f; %d CTA%s on a multiprocessor: %.0f for an instance, bound by %s; floor %.0f\n",
        cost->chain, cost->resident, cost->resident > 1 ? "s" : "", cost->cycles, bound_names[cost->bound],
        cost->floor);
    if (cost->seconds <= 0) {
        text_print(out, "  bind the shapes' names (NAME=VALUE) to see the time of a launch\n");
        return;
    }
    text_print(out, "  expected: %.0f instances, %.1f MB of memory: ", cost->instances, cost->bytes / 1e6);
    print_time(out, cost->seconds);
    text_print(out, ", bound by %s\n", bound_names[cost->bound]);
}
