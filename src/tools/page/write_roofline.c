// SPDX-License-Identifier: MIT
// write_roofline.c - what a launch has to do at least, under the roof of the card, with what is expected and measured.
#include "tools/page/html.h"
#include "tools/page/page.h"

#include <math.h>

enum { WIDTH = 640, HEIGHT = 300, LEFT = 70, RIGHT = 20, TOP = 14, BOTTOM = 40 };

typedef struct Plot {
    Text *out;
    double x0, x1, y0, y1; // powers of ten
} Plot;

static double x_at(const Plot *p, double intensity)
{
    return LEFT + (log10(intensity) - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_at(const Plot *p, double rate)
{
    return HEIGHT - BOTTOM - (log10(rate) - p->y0) / (p->y1 - p->y0) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(const Plot *p)
{
    for (double x = p->x0; x <= p->x1; x++)
        text_print(p->out,
                   "<path class=\"tick\" d=\"M%.1f %dV%d\"/><text class=\"k m\" x=\"%.1f\" y=\"%d\">%g</text>\n",
                   x_at(p, pow(10, x)), TOP, HEIGHT - BOTTOM, x_at(p, pow(10, x)), HEIGHT - BOTTOM + 14, pow(10, x));
    for (double y = p->y0; y <= p->y1; y++)
        text_print(p->out,
                   "<path class=\"tick\" d=\"M%d %.1fH%d\"/><text class=\"k e\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT,
                   y_at(p, pow(10, y)), WIDTH - RIGHT, LEFT - 6, y_at(p, pow(10, y)) + 4,
                   html_amount(p->out->arena, pow(10, y), ""));
    text_print(p->out, "<text class=\"k m\" x=\"%d\" y=\"%d\">operations for each byte of memory</text>\n",
               (WIDTH + LEFT) / 2, HEIGHT - 6);
    text_print(p->out, "<text class=\"k m\" transform=\"translate(12 %d) rotate(-90)\">operations per second</text>\n",
               HEIGHT / 2 - 10);
}

static void draw_point(const Plot *p, const PageRoofline *r, double seconds, const char *name, const char *shape)
{
    if (seconds <= 0) return;
    const double x = x_at(p, r->operations / r->bytes), y = y_at(p, r->operations / seconds);
    text_print(
        p->out,
        "<g class=\"point %s\" transform=\"translate(%.1f %.1f)\"><title>%s: %s, %s/s</title><circle r=\"6\"/></g>\n",
        shape, x, y, name, html_time(p->out->arena, seconds),
        html_amount(p->out->arena, r->operations / seconds, "op"));
}

static double floor_of(const PageRoofline *r)
{
    return fmax(r->operations / r->operation_rate, r->bytes / r->byte_rate);
}

static void draw(Text *out, const PageRoofline *r)
{
    const double intensity = r->operations / r->bytes, knee = r->operation_rate / r->byte_rate;
    const double slowest = fmax(fmax(r->expected_seconds, r->measured_seconds), floor_of(r));
    Plot p = { .out = out };
    p.x0 = floor(log10(fmin(intensity, knee))) - 1;
    p.x1 = ceil(log10(fmax(intensity, knee))) + 1;
    p.y1 = ceil(log10(r->operation_rate) + 0.1);
    p.y0 = fmin(floor(log10(r->operations / slowest)), floor(log10(r->byte_rate) + p.x0));
    text_print(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"roofline\"><svg class=\"roofline\" role=\"img\" width=\"%d\" "
        "height=\"%d\" viewBox=\"0 0 %d %d\">\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_axes(&p);
    text_print(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%d\"/>\n", x_at(&p, pow(10, p.x0)),
               y_at(&p, r->byte_rate * pow(10, p.x0)), x_at(&p, knee), y_at(&p, r->operation_rate), WIDTH - RIGHT);
    draw_point(&p, r, floor_of(r), "floor", "least");
    draw_point(&p, r, r->expected_seconds, "expected", "expected");
    draw_point(&p, r, r->measured_seconds, "measured", "measured");
    text_print(out, "</svg></div>\n");
}

static void write_time(Text *out, const char *shape, const char *name, double seconds, double floor, const char *where)
{
    if (seconds <= 0) return;
    text_print(
        out,
        "<tr><td class=\"point %s\"><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><circle cx=\"7\" cy=\"7\" r=\"6\"/></svg> %s</td>"
        "<td>%s</td><td>%.0f%%</td><td>",
        shape, name, html_time(out->arena, seconds), 100 * floor / seconds);
    html_text(out, where);
    text_print(out, "</td></tr>\n");
}

void write_roofline(Text *out, const PageRoofline *r)
{
    text_print(out, "<section id=\"roofline\"><h2>Floor and roofline</h2>\n");
    if (r->unknown) {
        text_print(out, "<p class=\"reason\">");
        html_text(out, r->unknown);
        text_print(out, "</p></section>\n");
        return;
    }
    Arena *const arena = out->arena;
    text_print(
        out,
        "<p>A launch does %s in products, and moves %s of memory if each byte is moved once. On %s: %s/s and %s/s.</p>\n",
        html_amount(arena, r->operations, "op"), html_amount(arena, r->bytes, "B"), r->card,
        html_amount(arena, r->operation_rate, "op"), html_amount(arena, r->byte_rate, "B"));
    if (r->operations > 0 && r->bytes > 0) draw(out, r);
    else
        text_print(
            out,
            "<p class=\"reason\">It has no products, so the roof is the memory's time alone, and there is no plot.</p>\n");
    text_print(
        out,
        "<div class=\"scroll\"><table><thead><tr><th></th><th>time</th><th>of the floor</th><th>from</th></tr></thead><tbody>\n");
    const double least = floor_of(r);
    write_time(out, "least", "floor", least, least,
               r->operations / r->operation_rate > r->bytes / r->byte_rate ? "products at the card's rate"
                                                                           : "memory at the card's rate");
    write_time(out, "expected", "expected", r->expected_seconds, least, "the cost model");
    write_time(out, "measured", "measured", r->measured_seconds, least, r->measured_where ? r->measured_where : "");
    text_print(out, "</tbody></table></div>\n");
    if (r->measured_seconds <= 0)
        text_print(
            out,
            "<p>Nothing was measured: <code>--measured=TIME</code> or a device, <code>--device=cuda:0</code>, adds the point.</p>\n");
    text_print(out, "</section>\n");
}
