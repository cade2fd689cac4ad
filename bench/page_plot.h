// SPDX-License-Identifier: MIT
// page_plot.h - the plots of the page of `kiln bench --html`, as SVG.
#ifndef KILN_BENCH_PAGE_PLOT_H
#define KILN_BENCH_PAGE_PLOT_H

#include "history.h"

// ---- page.c: text
void print_html(FILE *out, const char *text);                    // with its special characters escaped
const char *rate_text(Arena *arena, double rate, bool is_bytes); // "3100 GB/s"; "-": none
const char *time_text(Arena *arena, double seconds);             // "1.234 ms"

// ---- page_plot.c
void plot_rate(FILE *out, Arena *arena,
               const SavedRow *row); // a bar to the ceiling or the fastest, with the baseline's tick

typedef struct Point {
    const SavedRow *row;
    const char *date;
} Point;
typedef struct Series {
    VEC(Point) points; // the oldest first
    double floor;      // seconds; 0 or NAN: none
} Series;
void plot_history(FILE *out, Arena *arena, const Series *series, const char *last); // last: the class of the last point

#endif
