// SPDX-License-Identifier: MIT
// timeline_json.c - a timeline for programs: its spans as they are, and as a Chrome trace.
#include "tools/timeline.h"

static void field(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\": ", name);
    if (text) print_json_text(out, text);
    else fprintf(out, "null");
}

void timeline_print_json(FILE *out, const Timeline *t)
{
    field(out, "kernel", t->kernel);
    fprintf(out, ", ");
    field(out, "device", t->device);
    fprintf(out, ", ");
    field(out, "unit", t->unit);
    if (t->unit_seconds > 0) fprintf(out, ", \"unit_seconds\": %.9g", t->unit_seconds);
    else fprintf(out, ", \"unit_seconds\": null");
    fprintf(out, ", \"lost\": %ld, \"spans\": [", t->lost);
    for (int i = 0; i < t->spans.count; i++) {
        const TimeSpan *const s = &t->spans.items[i];
        fprintf(out, "%s\n  {", i ? "," : "");
        field(out, "role", s->role);
        fprintf(out, ", \"part\": %d, \"cta\": %d, \"warp\": %d, \"depth\": %d, ", s->part, s->cta, s->warp, s->depth);
        field(out, "kind", s->kind);
        fprintf(out, ", ");
        field(out, "what", s->what);
        fprintf(out, ", ");
        field(out, "file", s->path);
        fprintf(out, ", \"line\": %d, \"begin\": %.3f, \"end\": %.3f}", s->line, s->begin, s->end);
    }
    fprintf(out, "\n]");
}

// ---- the Trace Event Format: microseconds; processes are CTAs of each kernel, threads warps

static int process_of(const TimeSpan *s) { return s->part * 1000000 + s->cta; }

static void print_name(FILE *out, const char *what, const TimeSpan *s, const char *name, const char *before)
{
    fprintf(out, "%s\n  {\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": ", before,
            what, process_of(s), s->warp);
    print_json_text(out, name);
    fprintf(out, "}}");
}

static void print_event(FILE *out, const TimeSpan *s, double microseconds)
{
    fprintf(out, ",\n  {\"ph\": \"X\", \"name\": ");
    print_json_text(out, s->what);
    fprintf(out, ", \"cat\": ");
    print_json_text(out, s->kind);
    fprintf(out, ", \"pid\": %d, \"tid\": %d, \"ts\": %.4f, \"dur\": %.4f, \"args\": {\"line\": %d}}", process_of(s),
            s->warp, s->begin * microseconds, (s->end - s->begin) * microseconds, s->line);
}

static const char *process_name(const Timeline *t, const TimeSpan *s)
{
    if (strcmp(t->unit, "cycles") != 0) return "launch";
    return s->part ? arena_printf(t->arena, "kernel %d, CTA %d", s->part + 1, s->cta)
                   : arena_printf(t->arena, "CTA %d", s->cta);
}

// A cycle of unknown length is shown as a nanosecond.
void timeline_print_chrome(FILE *out, const Timeline *t)
{
    const double microseconds = t->unit_seconds > 0 ? 1e6 * t->unit_seconds : 1e-3;
    const bool is_cpu = strcmp(t->unit, "cycles") != 0;
    int process = -1;
    fprintf(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (int i = 0; i < t->spans.count; i++) {
        const TimeSpan *const s = &t->spans.items[i];
        if (s->depth == 0) {
            if (process_of(s) != process) print_name(out, "process_name", s, process_name(t, s), i ? "," : "");
            print_name(out, "thread_name", s,
                       arena_printf(t->arena, is_cpu ? "%s %d" : "%s, warp %d", s->role, s->warp), ",");
            process = process_of(s);
        }
        print_event(out, s, microseconds);
    }
    fprintf(out, "\n]}\n");
}
