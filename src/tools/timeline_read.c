// SPDX-License-Identifier: MIT
// timeline_read.c - a timeline from the JSON that `kiln profile --json` printed.
#include "tools/timeline.h"
#include "base/json_read.h"

#include <math.h>

enum { PARTS_MAX = 64 };

static bool member_number(const Json *json, const char *name, double *value)
{
    const Json *const found = json_at(json, name);
    if (!found || found->kind != JSON_NUMBER || !isfinite(found->number)) return false;
    *value = found->number;
    return true;
}

static bool member_span(const Json *json, TimeSpan *span)
{
    *span = (TimeSpan){ .role = json_text(json, "role", NULL),
                        .kind = json_text(json, "kind", NULL),
                        .what = json_text(json, "what", NULL),
                        .path = json_text(json, "file", NULL),
                        .line = json_int(json, "line", 0),
                        .part = json_int(json, "part", -1),
                        .cta = json_int(json, "cta", -1),
                        .warp = json_int(json, "warp", -1),
                        .depth = json_int(json, "depth", -1) };
    return span->role && span->kind && span->what && span->line >= 0 && span->part >= 0 && span->part < PARTS_MAX &&
           span->cta >= 0 && span->warp >= 0 && span->depth >= 0 && member_number(json, "begin", &span->begin) &&
           member_number(json, "end", &span->end) && span->begin >= 0 && span->end >= span->begin;
}

bool timeline_read(Timeline *timeline, Arena *arena, const char *text, size_t n)
{
    const Json *const json = json_read(arena, text, n), *const spans = json_at(json, "spans");
    *timeline = (Timeline){ .arena = arena,
                            .kernel = json_text(json, "kernel", NULL),
                            .device = json_text(json, "device", NULL),
                            .unit = json_text(json, "unit", NULL),
                            .lost = json_int(json, "lost", 0) };
    if (!spans || spans->kind != JSON_LIST || !timeline->kernel || !timeline->device || !timeline->unit) return false;
    if (!member_number(json, "unit_seconds", &timeline->unit_seconds)) timeline->unit_seconds = 0;
    for (const Json *one = spans->first; one; one = one->next) {
        TimeSpan span;
        if (!member_span(one, &span)) return false;
        VEC_PUSH(arena, &timeline->spans, span);
    }
    return true;
}
