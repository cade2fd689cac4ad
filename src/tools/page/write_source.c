// SPDX-License-Identifier: MIT
// write_source.c - each file of the kernel: its lines, with what they cost and what was decided for them beside.
#include "tools/page/html.h"
#include "tools/page/page.h"

static const char *const kind_classes[FACT_KINDS] = { "storage", "copy", "product", "work", "sync", "note" };

static const PageCost *cost_at(const PageKernel *kernel, const Source *source, int line)
{
    for (int i = 0; i < kernel->costs.count; i++)
        if (kernel->costs.items[i].source == source && kernel->costs.items[i].line == line)
            return &kernel->costs.items[i];
    return NULL;
}

static double largest_cost(const PageKernel *kernel)
{
    double most = 1;
    for (int i = 0; i < kernel->costs.count; i++)
        if (kernel->costs.items[i].expected > most) most = kernel->costs.items[i].expected;
    return most;
}

static void write_cost(Text *out, const PageCost *cost, double most)
{
    text_print(
        out,
        "<span class=\"cost\" title=\"expected %.0f cycles, floor %.0f, bound by %s\"><svg width=\"64\" height=\"10\" "
        "aria-hidden=\"true\"><rect class=\"bar\" width=\"%.1f\" height=\"10\"/><rect class=\"least\" width=\"%.1f\" "
        "height=\"4\" y=\"3\"/></svg> %.0f cycles, %s</span>",
        cost->expected, cost->floor, cost->bound, 64 * cost->expected / most, 64 * cost->floor / most, cost->expected,
        cost->bound);
}

static void write_facts(Text *out, const PageKernel *kernel, const char *id, const Source *source, int line)
{
    for (int i = 0; i < kernel->lines.count; i++) {
        const PageFact *const fact = &kernel->lines.items[i];
        if (fact->source != source || fact->line != line) continue;
        text_print(out, "<span class=\"fact %s\">", kind_classes[fact->kind]);
        if (fact->tile >= 0) text_print(out, "<a href=\"#%stile%d\">", id, fact->tile);
        html_text(out, fact->text);
        text_print(out, "%s</span>", fact->tile >= 0 ? "</a>" : "");
    }
}

static void write_line(Text *out, const PageKernel *kernel, const char *id, int number, const Source *source, int line,
                       const char *text, size_t n)
{
    const PageCost *const cost = cost_at(kernel, source, line);
    text_print(out, "<div class=\"line\" id=\"%ss%dl%d\"><span class=\"number\">%d</span><code>", id, number, line,
               line);
    html_text_n(out, text, n);
    text_print(out, "</code><span class=\"decided\">");
    if (cost) write_cost(out, cost, largest_cost(kernel));
    write_facts(out, kernel, id, source, line);
    text_print(out, "</span></div>\n");
}

static bool is_open(const PageSource *source, int line)
{
    for (int i = 0; i < source->open.count; i++)
        if (line >= source->open.items[i].first && line <= source->open.items[i].last) return true;
    return false;
}

static int last_line_like(const PageSource *source, int line, int end)
{
    const bool open = is_open(source, line);
    while (line < end && is_open(source, line + 1) == open) line++;
    return line;
}

static void write_file(Text *out, const PageKernel *kernel, const char *id, int number)
{
    const PageSource *const source = &kernel->sources.items[number];
    const char *at = source->source->text, *const end = at + source->source->length;
    const int last = source_position(source->source, source->source->length).line;
    text_print(out, "<h3>");
    html_text(out, source->source->path);
    text_print(out, "</h3>\n<div class=\"lines\">\n");
    for (int line = 1; at < end;) {
        const bool open = is_open(source, line);
        const int until = last_line_like(source, line, last);
        if (!open) text_print(out, "<details class=\"rest\"><summary>lines %d to %d</summary>\n", line, until);
        for (; line <= until && at < end; line++) {
            const char *const newline = memchr(at, '\n', (size_t)(end - at));
            const char *const stop = newline ? newline : end;
            write_line(out, kernel, id, number, source->source, line, at, (size_t)(stop - at));
            at = newline ? newline + 1 : end;
        }
        if (!open) text_print(out, "</details>\n");
    }
    text_print(out, "</div>\n");
}

void write_source(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<section id=\"%ssource\"><h2>Source, and what was decided for each line</h2>\n", id);
    if (kernel->costs.count)
        text_print(
            out,
            "<p>Cycles are those of a multiprocessor for one instance, by the cost model; the inner part of a bar is "
            "the least that the line needs. Lines overlap, so their sum means little.</p>\n");
    for (int i = 0; i < kernel->sources.count; i++) write_file(out, kernel, id, i);
    text_print(out, "</section>\n");
}
