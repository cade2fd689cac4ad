// SPDX-License-Identifier: MIT
// write_timeline.c - spans of time, a row for each role, as an SVG.
#include "tools/page/html.h"
#include "tools/page/page.h"

#include <math.h>

enum { LEFT = 8, WIDTH = 1150, ROW = 40, BAR = 18, LABEL = 16, TOP = 24, ROLES_MAX = 64, TICKS = 8 };

static const char *const classes[SPAN_KINDS] = { "compute", "product", "copy", "wait", "held" };
static const char *const titles[SPAN_KINDS] = { "computes, or issues", "tensor cores, or issuing products", "copies",
                                                "waits", "holds contents until their release" };

typedef struct Axis {
    double begin, scale;
    const char *roles[ROLES_MAX];
    int n;
} Axis;

static int row_of(const Axis *axis, const char *role)
{
    for (int i = 0; i < axis->n; i++)
        if (strcmp(axis->roles[i], role) == 0) return i;
    return -1;
}

// "ring k, slot 1" comes after what else begins with "ring k,".
static void insert_role(Axis *axis, const char *role)
{
    const size_t n = strcspn(role, ",");
    int at = axis->n;
    while (at > 0 && strncmp(axis->roles[at - 1], role, n + 1) != 0) at--;
    if (at == 0) at = axis->n;
    for (int i = axis->n++; i > at; i--) axis->roles[i] = axis->roles[i - 1];
    axis->roles[at] = role;
}

// Who works comes before the slots of rings.
static void add_roles(Axis *axis, const PageTimeline *timeline, bool rings)
{
    for (int i = 0; i < timeline->n; i++) {
        const char *const role = timeline->spans[i].role;
        if ((strncmp(role, "ring ", 5) == 0) == rings && axis->n < ROLES_MAX && row_of(axis, role) < 0)
            insert_role(axis, role);
    }
}

static Axis axis_of(const PageTimeline *timeline)
{
    Axis axis = { .begin = INFINITY };
    double end = 0;
    for (int i = 0; i < timeline->n; i++) {
        axis.begin = fmin(axis.begin, timeline->spans[i].begin);
        end = fmax(end, timeline->spans[i].end);
    }
    axis.scale = end > axis.begin ? (WIDTH - 2 * LEFT) / (end - axis.begin) : 1;
    add_roles(&axis, timeline, false);
    add_roles(&axis, timeline, true);
    return axis;
}

// 1, 2 or 5 times a power of ten.
static double tick_of(double length)
{
    const double power = pow(10, floor(log10(length / TICKS)));
    const double digits = length / TICKS / power;
    return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

static void draw_axis(Text *out, const Axis *axis, const PageTimeline *timeline, int height)
{
    const double length = (WIDTH - 2 * LEFT) / axis->scale, tick = tick_of(length);
    for (double t = 0; t <= length; t += tick) {
        const double x = LEFT + t * axis->scale;
        const char *const label =
            arena_printf(out->arena, "%.0f%s%s", axis->begin + t, t > 0 ? "" : " ", t > 0 ? "" : timeline->unit);
        const bool fits = x + 7.0 * (double)strlen(label) + 6 < WIDTH; // to the right of its line
        text_print(out, "<path class=\"tick\" d=\"M%.1f %dV%d\"/><text class=\"k%s\" x=\"%.1f\" y=\"12\">%s</text>\n",
                   x, TOP - 6, height, fits ? "" : " e", fits ? x + 3 : x - 3, label);
    }
    for (int i = 0; i < axis->n; i++) {
        text_print(out, "<text class=\"role\" x=\"%d\" y=\"%d\">", LEFT, TOP + i * ROW + 12);
        html_text(out, axis->roles[i]);
        text_print(out, "</text>\n");
    }
}

// As much of the words as fits into so many characters, cut between two of them.
static size_t cut_words(const char *words, size_t fits)
{
    size_t n = strlen(words);
    if (n <= fits) return n;
    for (n = fits; n > 0 && words[n] != ' '; n--) continue;
    return n;
}

static void write_label(Text *out, const PageSpan *span, size_t fits)
{
    Text label = { .arena = out->arena };
    if (span->step >= 0) text_print(&label, "%d: ", span->step);
    const size_t n = label.length;
    if (fits + 2 < n) return;
    const size_t cut = fits > n ? cut_words(span->what, fits - n) : 0;
    text_print(out, "<text x=\"3\" y=\"13\">");
    html_text_n(out, text_cstr(&label), cut || n < 2 ? n : n - 2);
    html_text_n(out, span->what, cut);
    text_print(out, "</text>");
}

static void draw_span(Text *out, const Axis *axis, const PageTimeline *timeline, const PageSpan *span)
{
    const int row = row_of(axis, span->role);
    const double x = LEFT + (span->begin - axis->begin) * axis->scale, width = (span->end - span->begin) * axis->scale;
    const size_t fits = width > 10 ? (size_t)((width - 4) / 6.7) : 0;
    if (row < 0) return;
    text_print(out, "<g class=\"s %s\" transform=\"translate(%.1f %d)\"><title>", classes[span->kind], x,
               TOP + row * ROW + LABEL);
    html_print(out, "%s: %s", span->role, span->what);
    if (span->step >= 0) text_print(out, ", step %d", span->step);
    text_print(out, ": %.0f to %.0f %s", span->begin, span->end, timeline->unit);
    if (span->line) text_print(out, ", line %d", span->line);
    text_print(out, "</title><rect width=\"%.1f\" height=\"%d\"/>", width > 0.5 ? width : 0.5, BAR);
    if (fits) write_label(out, span, fits);
    text_print(out, "</g>\n");
}

static void write_timeline(Text *out, const PageTimeline *timeline)
{
    const Axis axis = axis_of(timeline);
    const int height = TOP + axis.n * ROW + 4;
    text_print(out, "<h3>");
    html_text(out, timeline->title);
    text_print(out, "</h3>\n<p>");
    html_text(out, timeline->about);
    text_print(out, " A number before a span's name is the step of its loop.</p>\n<ul class=\"legend\">");
    for (int k = 0; k < SPAN_KINDS; k++)
        text_print(
            out,
            "<li class=\"%s\"><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect width=\"14\" height=\"14\"/></svg> %s</li>",
            classes[k], titles[k]);
    text_print(
        out,
        "</ul>\n<div class=\"scroll time\" tabindex=\"0\" role=\"group\" aria-label=\"timeline\">\n<svg class=\"timeline\" role=\"img\" width=\"%d\" "
        "height=\"%d\" viewBox=\"0 0 %d %d\">\n",
        WIDTH, height, WIDTH, height);
    draw_axis(out, &axis, timeline, height);
    for (int i = 0; i < timeline->n; i++) draw_span(out, &axis, timeline, &timeline->spans[i]);
    text_print(out, "</svg></div>\n");
}

// ---- measured waits

static void write_wait(Text *out, const char *id, const PageWait *wait, bool is_first)
{
    text_print(out, "<tr><th scope=\"row\">");
    if (is_first) html_text(out, wait->role);
    text_print(out,
               "</th><td class=\"%s\"><svg width=\"104\" height=\"12\" aria-hidden=\"true\"><rect width=\"%.1f\" "
               "height=\"12\"/></svg> %.1f%%</td><td class=\"n\">%.0f</td><td class=\"n\">",
               wait->times ? "wait" : "compute", 104 * wait->share, 100 * wait->share, wait->time);
    if (wait->times) text_print(out, "%ld", wait->times);
    text_print(out, "</td><td>");
    if (wait->line) text_print(out, "<a href=\"#%ss0l%d\">%d</a>", id, wait->line, wait->line);
    text_print(out, "</td><td>");
    html_text(out, wait->kind);
    text_print(out, "</td><td>");
    html_text(out, wait->what);
    text_print(out, "</td></tr>\n");
}

static void write_waits(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<h3>Measured: what each role waits for</h3>\n<p>");
    html_text(out, kernel->measured);
    text_print(
        out,
        ".</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"waits\"><table class=\"waits\"><thead><tr>"
        "<th>Role (warps)</th><th>Share of its time</th><th>");
    html_text(out, kernel->measured_unit);
    text_print(out, " of each</th><th>Times</th><th>Line</th><th>Kind</th><th>For</th></tr></thead><tbody>\n");
    for (int i = 0; i < kernel->waits.count; i++) {
        const PageWait *const wait = &kernel->waits.items[i];
        write_wait(out, id, wait, i == 0 || strcmp(wait->role, wait[-1].role) != 0);
    }
    text_print(out, "</tbody></table></div>\n");
}

void write_timelines(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<section id=\"%stimeline\"><h2>Pipeline and warp roles over time</h2>\n", id);
    if (kernel->measured) write_waits(out, kernel, id);
    for (int i = 0; i < kernel->timelines.count; i++)
        if (kernel->timelines.items[i].n) write_timeline(out, &kernel->timelines.items[i]);
    if (!kernel->timelines.count)
        text_print(out, "<p class=\"reason\">No machine is known whose rates would give lengths.</p>\n");
    text_print(out, "</section>\n");
}
