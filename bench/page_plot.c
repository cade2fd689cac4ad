// SPDX-License-Identifier: MIT
// page_plot.c - bars of rates, and times over runs. What a plot shows is also its title, which browsers show on hover.
#include "page_plot.h"

#include <math.h>

// ---- rates

enum { BAR_WIDTH = 300, BAR_HEIGHT = 22, BAR_TOP = 5, BAR_THICKNESS = 12 };

static double largest(double a, double b) { return a > b ? a : b; } // NAN is none

static void begin_title(FILE *out, int width, int height)
{
    fprintf(out, "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>", width, height, width,
            height);
}

// The rate at another time: as much work.
static double rate_at(const SavedRow *row, double seconds) { return row->rate * row->median / seconds; }

void plot_rate(FILE *out, Arena *arena, const SavedRow *row)
{
    const double peer = row->ratio > 0 ? row->rate / row->ratio : 0;
    const double most = largest(largest(row->ceiling > 0 ? row->ceiling : 0, rate_at(row, row->fastest)), peer);
    const double scale = most > 0 ? (BAR_WIDTH - 4) / most : 0;
    const double low = rate_at(row, row->slowest) * scale, high = rate_at(row, row->fastest) * scale;
    const double middle = BAR_TOP + BAR_THICKNESS / 2.0;
    if (!(row->rate > 0) || !(scale > 0)) return;
    begin_title(out, BAR_WIDTH, BAR_HEIGHT);
    print_html(out, row->name);
    fprintf(out, ": %s", rate_text(arena, row->rate, row->by_memory));
    if (peer > 0) fprintf(out, "; baseline %s", rate_text(arena, peer, row->by_memory));
    if (row->ceiling > 0) fprintf(out, "; ceiling %s", rate_text(arena, row->ceiling, row->by_memory));
    fprintf(out, "</title>");
    if (row->ceiling > 0)
        fprintf(out, "<rect class=\"track\" x=\"0\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>", BAR_TOP,
                row->ceiling * scale, BAR_THICKNESS);
    fprintf(out, "<rect class=\"own\" x=\"0\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>", BAR_TOP,
            row->rate * scale, BAR_THICKNESS);
    if (low > 0)
        fprintf(out, "<path class=\"range\" d=\"M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6\"/>", low, middle, high, low,
                middle - 3, high, middle - 3);
    if (peer > 0)
        fprintf(out, "<rect class=\"peer\" x=\"%.1f\" y=\"%d\" width=\"2\" height=\"%d\"/>", peer * scale, BAR_TOP - 4,
                BAR_THICKNESS + 8);
    fprintf(out, "</svg>");
}

// ---- times over runs

enum { PLOT_WIDTH = 300, PLOT_HEIGHT = 120, LEFT = 62, RIGHT = 8, TOP = 10, BOTTOM = 20 };

typedef struct Axis {
    double low, high; // seconds, at the bottom and the top
    int n;
} Axis;

static Axis axis_of(const Series *series)
{
    Axis axis = { INFINITY, 0, series->points.count };
    for (int i = 0; i < axis.n; i++) {
        const SavedRow *const row = series->points.items[i].row;
        axis.low = fmin(axis.low, row->fastest);
        axis.high = fmax(axis.high, row->slowest);
    }
    if (series->floor > 0.5 * axis.low) axis.low = fmin(axis.low, series->floor);
    const double middle = (axis.low + axis.high) / 2, half = fmax((axis.high - axis.low) / 2, 0.03 * middle) * 1.12;
    return (Axis){ middle - half, middle + half, axis.n };
}

static double x_of(const Axis *axis, int i)
{
    return LEFT + 8 + (PLOT_WIDTH - LEFT - RIGHT - 16.0) * i / (axis->n > 1 ? axis->n - 1 : 1);
}

static double y_of(const Axis *axis, double seconds)
{
    return TOP + (PLOT_HEIGHT - TOP - BOTTOM) * (axis->high - seconds) / (axis->high - axis->low);
}

// All of an axis in one unit.
static const char *tick_text(Arena *arena, const Axis *axis, double seconds)
{
    static const struct {
        double size;
        const char *name;
    } units[] = { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "us" } };
    int i = 0;
    while (i < COUNT(units) - 1 && axis->high < units[i].size) i++;
    const double most = axis->high / units[i].size, value = seconds / units[i].size;
    return arena_printf(arena, "%.*f %s", most < 10 ? 3 : most < 100 ? 2 : 1, value, units[i].name);
}

static void print_axes(FILE *out, Arena *arena, const Axis *axis, const Series *series)
{
    for (int i = 0; i < 3; i++) {
        const double seconds = axis->low + (axis->high - axis->low) * (0.08 + 0.42 * i), y = y_of(axis, seconds);
        fprintf(out, "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                LEFT, y, PLOT_WIDTH - RIGHT, LEFT - 5, y + 4, tick_text(arena, axis, seconds));
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\">%.10s</text>", LEFT, PLOT_HEIGHT - 4, series->points.items[0].date);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.10s</text>", PLOT_WIDTH - RIGHT, PLOT_HEIGHT - 4,
            series->points.items[axis->n - 1].date);
    if (series->floor >= axis->low && series->floor <= axis->high)
        fprintf(out, "<path class=\"floor\" d=\"M%d %.1fH%d\"/>", LEFT, y_of(axis, series->floor), PLOT_WIDTH - RIGHT);
}

static void print_point(FILE *out, Arena *arena, const Axis *axis, const Point *point, int i, const char *last)
{
    const double x = x_of(axis, i);
    const bool is_last = i == axis->n - 1;
    fprintf(out, "<path class=\"range\" d=\"M%.1f %.1fV%.1f\"/>", x, y_of(axis, point->row->slowest),
            y_of(axis, point->row->fastest));
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>%s: %s</title></circle>",
            is_last && *last ? last : "own", x, y_of(axis, point->row->median), is_last ? "4" : "2.5", point->date,
            time_text(arena, point->row->median));
}

void plot_history(FILE *out, Arena *arena, const Series *series, const char *last)
{
    const Axis axis = axis_of(series);
    begin_title(out, PLOT_WIDTH, PLOT_HEIGHT);
    print_html(out, series->points.items[0].row->name);
    fprintf(out, "</title>");
    print_axes(out, arena, &axis, series);
    fprintf(out, "<path class=\"path\" d=\"");
    for (int i = 0; i < axis.n; i++)
        fprintf(out, "%s%.1f %.1f", i ? "L" : "M", x_of(&axis, i), y_of(&axis, series->points.items[i].row->median));
    fprintf(out, "\"/>");
    for (int i = 0; i < axis.n; i++) print_point(out, arena, &axis, &series->points.items[i], i, last);
    fprintf(out, "</svg>");
}
