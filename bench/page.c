// SPDX-License-Identifier: MIT
// page.c - `kiln bench --html`: the page. It is one file, without scripts; plots are SVG, colours follow the reader's choice
// of light or dark.
#include "history.h"
#include "page_plot.h"

#include <math.h>
#include <string.h>

// ---- text

void print_html(FILE *out, const char *text)
{
    for (; *text; text++) switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: putc(*text, out);
        }
}

const char *rate_text(Arena *arena, double rate, bool is_bytes)
{
    if (!(rate > 0)) return "-";
    if (is_bytes) return arena_printf(arena, "%.0f GB/s", 1e-9 * rate);
    return rate >= 1e13 ? arena_printf(arena, "%.0f TFLOPS", 1e-12 * rate)
                        : arena_printf(arena, "%.0f GFLOPS", 1e-9 * rate);
}

const char *time_text(Arena *arena, double seconds)
{
    if (!(seconds > 0)) return "-";
    if (seconds < 1e-3) return arena_printf(arena, "%.2f us", 1e6 * seconds);
    return seconds < 1 ? arena_printf(arena, "%.3f ms", 1e3 * seconds) : arena_printf(arena, "%.3f s", seconds);
}

// ---- the head

static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--faint:#667080;--line:#d9dee5;--track:#edf0f4;--own:#2f6fde;"
    "--peer:#d9822b;--good:#1a7f4b;--bad:#c2343c;--panel:#f7f8fa}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e6e9ee;--faint:#98a2b1;--line:#323944;--track:#262c35;"
    "--own:#6ea1ff;--peer:#f0a552;--good:#4cc38a;--bad:#ff7b82;--panel:#1b2027}}\n"
    "body{margin:2rem auto;max-width:84rem;padding:0 1.25rem;background:var(--paper);color:var(--ink);"
    "font:15px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}\n"
    "p{margin:.3rem 0;max-width:60rem}.faint,.faint a{color:var(--faint)}\n"
    ".cards{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.1rem 0}\n"
    ".card{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.6rem .9rem;min-width:8rem}\n"
    ".card b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th{text-align:left;font-weight:600;color:var(--faint);font-size:.85rem;border-bottom:2px solid var(--line)}\n"
    "th,td{padding:.3rem .6rem;vertical-align:middle;white-space:nowrap}td{border-bottom:1px solid var(--line)}\n"
    "td.n,th.n{text-align:right}td small{color:var(--faint);display:block;line-height:1.25}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}.mark{font-weight:650}\n"
    "td.problem{white-space:normal;color:var(--bad)}\n"
    "svg{display:block;max-width:100%;height:auto}svg text{fill:var(--faint);font:11px system-ui,sans-serif}\n"
    ".track{fill:var(--track)}.own{fill:var(--own)}.peer{stroke:var(--peer);fill:var(--peer)}.axis{stroke:var(--line)}\n"
    ".path{stroke:var(--own);fill:none;stroke-width:1.5}.range{stroke:var(--ink);stroke-width:1;opacity:.65}\n"
    ".floor{stroke:var(--faint);stroke-dasharray:3 3}circle.good{fill:var(--good)}circle.bad{fill:var(--bad)}\n"
    ".grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(19rem,1fr));gap:.9rem}\n"
    "figure{margin:0;background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.6rem .75rem}\n"
    "figcaption{font-weight:600;margin-bottom:.25rem}figcaption span{float:right;font-weight:400;margin-left:.75rem}\n"
    ".key{display:inline-block;width:.9rem;height:.65rem;border-radius:2px;margin:0 .35rem 0 .9rem}\n";

static void print_head(FILE *out, const SavedRun *run)
{
    fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>kiln bench: ");
    print_html(out, run->device);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    print_html(out, run->device);
    fprintf(out, "</h1>\n<p class=\"faint\">kiln bench");
    if (*run->version) fprintf(out, " %s", run->version);
    fprintf(out, ", %.16s UTC%s", run->date, run->interrupted ? ", interrupted" : "");
    if (run->copy_rate > 0) fprintf(out, "; copying memory: %.0f GB/s read and written", 1e-9 * run->copy_rate);
    fprintf(out, "</p>\n");
}

// ---- what was before

// The last earlier run on this device that has the row.
static const SavedRow *before(const SavedRun *run, const SavedRuns *history, const SavedRow *row)
{
    for (int i = history->count - 1; i >= 0; i--) {
        if (strcmp(history->items[i].device, run->device) != 0) continue;
        const SavedRow *const found = saved_row_find(&history->items[i], row);
        if (found) return found;
    }
    return NULL;
}

static int comparable(const SavedRun *run, const SavedRuns *history)
{
    int n = 0;
    for (int i = 0; i < history->count; i++) n += strcmp(history->items[i].device, run->device) == 0;
    return n;
}

static const char *change_class(Change change) { return !change.is_marked ? "" : change.speed > 1 ? "good" : "bad"; }

// ---- the summary

typedef struct Summary {
    int rows, failed, met, judged, faster, slower, compared, beside;
    double log_ratio, log_speed;
} Summary;

static Summary summarise(const SavedRun *run, const SavedRuns *history)
{
    Summary s = { 0 };
    for (int i = 0; i < run->rows.count; i++) {
        const SavedRow *const row = &run->rows.items[i], *const old = before(run, history, row);
        s.rows++;
        s.failed += row->problem != NULL;
        if (row->problem) continue;
        s.judged += strcmp(row->verdict, "-") != 0;
        s.met += strcmp(row->verdict, "met") == 0;
        if (row->ratio > 0) s.beside++, s.log_ratio += log(row->ratio);
        if (!old) continue;
        const Change change = saved_change(old, row);
        s.compared++;
        s.log_speed += log(change.speed);
        s.faster += change.is_marked && change.speed > 1;
        s.slower += change.is_marked && change.speed < 1;
    }
    return s;
}

static void print_card(FILE *out, const char *what, const char *value)
{
    fprintf(out, "<div class=\"card\"><b>%s</b>%s</div>\n", value, what);
}

static void print_summary(FILE *out, Arena *arena, const SavedRun *run, const SavedRuns *history)
{
    const Summary s = summarise(run, history);
    fprintf(out, "<div class=\"cards\">\n");
    print_card(out, "rows", arena_printf(arena, "%d", s.rows));
    if (s.failed) print_card(out, "failed", arena_printf(arena, "<span class=\"bad\">%d</span>", s.failed));
    if (s.judged) print_card(out, "targets met", arena_printf(arena, "%d of %d", s.met, s.judged));
    if (s.beside)
        print_card(out, "of their baselines (geometric mean)",
                   arena_printf(arena, "%.2fx", exp(s.log_ratio / s.beside)));
    if (s.compared) {
        print_card(out, "speed since the runs before",
                   arena_printf(arena, "%+.1f%%", 100 * (exp(s.log_speed / s.compared) - 1)));
        print_card(out, "rows faster", arena_printf(arena, "<span class=\"good\">%d</span>", s.faster));
        print_card(out, "rows slower", arena_printf(arena, "<span class=\"bad\">%d</span>", s.slower));
    }
    fprintf(out, "</div>\n");
}

// ---- the rows

static void print_name(FILE *out, const SavedRow *row)
{
    fprintf(out, "<tr><td title=\"");
    print_html(out, row->kernel);
    if (*row->values) fprintf(out, "(");
    print_html(out, row->values);
    fprintf(out, "%s\">", *row->values ? ")" : "");
    print_html(out, row->name);
    fprintf(out, "</td>");
}

static void print_change(FILE *out, const SavedRow *old, const SavedRow *row)
{
    if (!old) {
        fprintf(out, "<td class=\"n\">-</td>");
        return;
    }
    const Change change = saved_change(old, row);
    const char *const arrow = !change.is_marked ? "" : change.speed > 1 ? "&#9650; " : "&#9660; ";
    fprintf(out, "<td class=\"n %s%s\">%s%+.1f%%</td>", change_class(change), change.is_marked ? " mark" : "", arrow,
            100 * (change.speed - 1));
}

static void print_verdict(FILE *out, const SavedRow *row)
{
    const bool met = strcmp(row->verdict, "met") == 0;
    const char *const class = met ? "good" : strcmp(row->verdict, "-") == 0 ? "" : "bad";
    fprintf(out, "<td class=\"%s\">%s<small>", class, row->verdict);
    print_html(out, row->target_text);
    fprintf(out, "</small></td>");
}

static void print_row(FILE *out, Arena *arena, const SavedRow *row, const SavedRow *old, bool has_history)
{
    print_name(out, row);
    if (row->problem) {
        fprintf(out, "<td class=\"problem\" colspan=\"%d\">", has_history ? 6 : 5);
        print_html(out, row->problem);
        fprintf(out, "</td></tr>\n");
        return;
    }
    fprintf(out, "<td class=\"n\">%s<small>%s to %s</small></td><td>", time_text(arena, row->median),
            time_text(arena, row->fastest), time_text(arena, row->slowest));
    plot_rate(out, arena, row);
    fprintf(out, "</td><td class=\"n\">%s<small>", rate_text(arena, row->rate, row->by_memory));
    if (row->ceiling > 0)
        fprintf(out, "%.0f%% of %s", 100 * row->rate / row->ceiling, rate_text(arena, row->ceiling, row->by_memory));
    fprintf(out, "</small></td><td class=\"n\">");
    if (row->ratio > 0) fprintf(out, "%.2fx", row->ratio);
    fprintf(out, "<small>");
    print_html(out, row->baseline);
    fprintf(out, "</small></td>");
    print_verdict(out, row);
    if (has_history) print_change(out, old, row);
    fprintf(out, "</tr>\n");
}

static void print_rows(FILE *out, Arena *arena, const SavedRun *run, const SavedRuns *history)
{
    const bool has_history = comparable(run, history) > 0;
    fprintf(
        out,
        "<h2>Rows</h2>\n<p class=\"faint\"><span class=\"key\" style=\"background:var(--own)\"></span>rate of the median "
        "time, with the fastest and slowest<span class=\"key\" style=\"background:var(--peer)\"></span>baseline"
        "<span class=\"key\" style=\"background:var(--track)\"></span>to the ceiling</p>\n<div class=\"scroll\"><table>\n"
        "<tr><th>what</th><th class=\"n\">time</th><th>rate, baseline, ceiling</th><th class=\"n\">rate</th>"
        "<th class=\"n\">of baseline</th><th>target</th>%s</tr>\n",
        has_history ? "<th class=\"n\">change</th>" : "");
    for (int i = 0; i < run->rows.count; i++) {
        const SavedRow *const row = &run->rows.items[i];
        if (isnan(row->host)) print_row(out, arena, row, before(run, history, row), has_history);
    }
    fprintf(out, "</table></div>\n");
    if (has_history)
        fprintf(
            out,
            "<p class=\"faint\">Change: of the speed since the last run on this device that has the row. It is marked where it is "
            "%.0f%% or more, and each median lies outside of the other run's times.</p>\n",
            100 * CHANGE_MARKED);
}

static void print_host_row(FILE *out, Arena *arena, const SavedRow *row, const SavedRow *old, bool has_history)
{
    print_name(out, row);
    fprintf(out, "<td class=\"n\">%s</td><td class=\"n %s\">%s</td>", time_text(arena, row->host),
            row->host <= row->host_target ? "good" : "bad", time_text(arena, row->host_target));
    if (has_history) print_change(out, old, row);
    fprintf(out, "</tr>\n");
}

static void print_host_rows(FILE *out, Arena *arena, const SavedRun *run, const SavedRuns *history)
{
    const bool has_history = comparable(run, history) > 0;
    bool any = false;
    for (int i = 0; i < run->rows.count; i++) {
        const SavedRow *const row = &run->rows.items[i];
        if (isnan(row->host)) continue;
        if (!any)
            fprintf(
                out,
                "<h2>A launch, on the host</h2>\n<div class=\"scroll\"><table style=\"width:auto\">\n<tr><th>what</th>"
                "<th class=\"n\">time</th><th class=\"n\">at most</th>%s</tr>\n",
                has_history ? "<th class=\"n\">change</th>" : "");
        any = true;
        print_host_row(out, arena, row, before(run, history, row), has_history);
    }
    if (any) fprintf(out, "</table></div>\n");
}

// ---- the history

static void print_series(FILE *out, Arena *arena, const SavedRun *run, const SavedRuns *history, const SavedRow *row)
{
    Series series = { .floor = row->floor };
    for (int i = 0; i < history->count; i++) {
        const SavedRun *const one = &history->items[i];
        const SavedRow *const found = strcmp(one->device, run->device) == 0 ? saved_row_find(one, row) : NULL;
        if (found) VEC_PUSH(arena, &series.points, ((Point){ found, one->date }));
    }
    if (series.points.count == 0) return;
    const Change change = saved_change(series.points.items[series.points.count - 1].row, row);
    VEC_PUSH(arena, &series.points, ((Point){ row, run->date }));
    fprintf(out, "<figure><figcaption><span class=\"%s\">%+.1f%%</span>", change_class(change),
            100 * (change.speed - 1));
    print_html(out, row->name);
    fprintf(out, "</figcaption>");
    plot_history(out, arena, &series, change_class(change));
    fprintf(out, "</figure>\n");
}

static void print_history(FILE *out, Arena *arena, const SavedRun *run, const SavedRuns *history)
{
    const int n = comparable(run, history);
    if (n == 0) return;
    fprintf(
        out,
        "<h2>History</h2>\n<p class=\"faint\">Median times of %d earlier run%s on this device and of this one, with the "
        "fastest and slowest; dashed: the time that bytes and operations take at best.",
        n, n == 1 ? "" : "s");
    if (history->count > n) fprintf(out, " %d more of other devices are left out.", history->count - n);
    fprintf(out, "</p>\n<div class=\"grid\">\n");
    for (int i = 0; i < run->rows.count; i++) {
        const SavedRow *const row = &run->rows.items[i];
        if (!row->problem && isnan(row->host)) print_series(out, arena, run, history, row);
    }
    fprintf(out, "</div>\n");
}

bool bench_page_write(FILE *out, const SavedRun *run, const SavedRuns *history)
{
    Arena *const arena = arena_new();
    bool whole = false;
    if (arena && setjmp(arena->out_of_memory) == 0) {
        print_head(out, run);
        print_summary(out, arena, run, history);
        print_rows(out, arena, run, history);
        print_host_rows(out, arena, run, history);
        print_history(out, arena, run, history);
        fprintf(out, "</body>\n</html>\n");
        whole = true;
    } else {
        fprintf(stderr, "kiln: out of memory for the page\n");
    }
    arena_free(arena);
    return whole;
}
