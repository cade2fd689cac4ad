// SPDX-License-Identifier: MIT
// explain_trace.c - what `kiln profile` recorded, for the page of `kiln explain --html`: a table of the waits of each role, and a
// drawing of each traced block.
//
// Spans of a track nest; in a drawing each moment belongs to the innermost, so that nothing lies over another. As many moments
// are drawn as can be told apart; the table is of all.
#include "tools/explain_page.h"
#include "tools/timeline.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { PIECES_MAX = 600, NESTED_MAX = 64 }; // of a drawing

typedef struct Drawing {
    Page *page;
    const Timeline *timeline;
    const Source *source; // the kernel's own
    VEC(PageSpan) pieces;
    double end; // pieces that begin later are left out
} Drawing;

// What is open on a track, and how many steps of the loop there were.
typedef struct Open {
    const TimeSpan *spans[NESTED_MAX];
    int steps[NESTED_MAX];
    int n;
} Open;

static PageSpanKind kind_of(const TimeSpan *span) { return span_is_wait(span) ? SPAN_WAIT : SPAN_COMPUTE; }

static const char *what_of(const TimeSpan *span)
{
    if (span_is_wait(span)) return span->what;
    if (strcmp(span->kind, "instance") == 0) return span->what;
    if (strcmp(span->kind, "thread") == 0) return "between instances";
    return strcmp(span->kind, "step") == 0 ? "computes, copies or issues" : "outside of steps";
}

// The path that a profile was made with may begin elsewhere than the page's.
static bool is_of(const TimeSpan *span, const Source *source)
{
    if (!span->path || !source) return false;
    const size_t a = strlen(span->path), b = strlen(source->path), n = a < b ? a : b;
    return strcmp(span->path + a - n, source->path + b - n) == 0 &&
           (a == b || (a > b ? span->path[a - n - 1] : source->path[b - n - 1]) == '/');
}

static void add_piece(Drawing *d, const Open *open, const char *role, double begin, double end)
{
    const TimeSpan *const span = open->spans[open->n - 1];
    if (end <= begin || begin >= d->end) return;
    const PageSpan piece = { .role = role,
                             .what = what_of(span),
                             .begin = begin,
                             .end = end < d->end ? end : d->end,
                             .kind = kind_of(span),
                             .step = open->steps[open->n - 1],
                             .line = is_of(span, d->source) ? span->line : 0 };
    VEC_PUSH(d->page->arena, &d->pieces, piece);
}

// The spans of one track, from `first` on; where the next begins.
static int add_track(Drawing *d, int first, const char *role)
{
    const TimeSpan *const spans = d->timeline->spans.items;
    const int n = d->timeline->spans.count;
    Open open = { .n = 0 };
    double at = spans[first].begin;
    int i = first, steps = 0;
    for (; i < n && (i == first || spans[i].depth > 0) && open.n < NESTED_MAX; i++) {
        const TimeSpan *const span = &spans[i];
        for (; open.n > 0 && open.spans[open.n - 1]->end <= span->begin; open.n--) {
            add_piece(d, &open, role, at, open.spans[open.n - 1]->end);
            at = open.spans[open.n - 1]->end > at ? open.spans[open.n - 1]->end : at;
        }
        if (open.n) add_piece(d, &open, role, at, span->begin);
        at = span->begin > at ? span->begin : at;
        const bool is_step = strcmp(span->kind, "step") == 0;
        open.steps[open.n] = is_step ? steps++ : open.n ? open.steps[open.n - 1] : -1;
        open.spans[open.n++] = span;
    }
    for (; open.n > 0; open.n--) {
        add_piece(d, &open, role, at, open.spans[open.n - 1]->end);
        at = open.spans[open.n - 1]->end > at ? open.spans[open.n - 1]->end : at;
    }
    while (i < n && spans[i].depth > 0) i++;
    return i;
}

static void add_block(Drawing *d, int part, int cta)
{
    const Timeline *const t = d->timeline;
    d->pieces.count = 0;
    for (int i = 0; i < t->spans.count;) {
        const TimeSpan *const s = &t->spans.items[i];
        const bool is_cpu = strcmp(s->role, "thread") == 0;
        const char *const role = arena_printf(d->page->arena, is_cpu ? "%s %d" : "%s, warp %d", s->role, s->warp);
        if (s->part == part && s->cta == cta) i = add_track(d, i, role);
        else
            for (i++; i < t->spans.count && t->spans.items[i].depth > 0;) i++;
    }
}

static int compare_begins(const void *a, const void *b)
{
    return compare_doubles(&((const PageSpan *)a)->begin, &((const PageSpan *)b)->begin);
}

// When the first piece begins that is one too many.
static double end_of(const Drawing *d)
{
    if (d->pieces.count <= PIECES_MAX) return INFINITY;
    PageSpan *const sorted = NEW_ARRAY(d->page->arena, PageSpan, d->pieces.count);
    memcpy(sorted, d->pieces.items, sizeof *sorted * (size_t)d->pieces.count);
    qsort(sorted, (size_t)d->pieces.count, sizeof *sorted, compare_begins);
    return sorted[PIECES_MAX].begin;
}

static void draw_block(Page *page, PageKernel *kernel, const Timeline *timeline, int part, int cta)
{
    const bool is_gpu = strcmp(timeline->unit, "cycles") == 0;
    Drawing d = { .page = page,
                  .timeline = timeline,
                  .source = kernel->sources.count ? kernel->sources.items[0].source : NULL,
                  .end = INFINITY };
    add_block(&d, part, cta);
    d.end = end_of(&d);
    if (isfinite(d.end)) add_block(&d, part, cta);
    if (d.pieces.count == 0) return;
    page_add_timeline(
        page, kernel,
        (PageTimeline){ is_gpu ? arena_printf(page->arena, "Measured: block %d", cta) : "Measured", timeline->unit,
                        isfinite(d.end) ? "What each warp does and waits for: the beginning alone. The table is of all."
                                        : "What each warp does and waits for.",
                        d.pieces.items, d.pieces.count });
}

// ---- the table

static void add_wait(Page *page, PageKernel *kernel, const TimeRole *role, const TimeRow *row, const char *kind,
                     double time, long times)
{
    const Source *const source = kernel->sources.count ? kernel->sources.items[0].source : NULL;
    const PageWait wait = { .role = arena_printf(page->arena, "%s (%d)", role->name, role->tracks),
                            .kind = kind,
                            .what = row ? row->like->what : "",
                            .share = role->time > 0 ? time / role->time : 0,
                            .time = time / role->tracks,
                            .times = times,
                            .line = row && is_of(row->like, source) ? row->like->line : 0 };
    VEC_PUSH(page->arena, &kernel->waits, wait);
}

static void add_waits(Page *page, PageKernel *kernel, const Timeline *part)
{
    const TimeRoles roles = timeline_roles(part);
    for (int i = 0; i < roles.count; i++) {
        const TimeRole *const role = &roles.items[i];
        double rest = role->time;
        for (int k = 0; k < role->waits.count; k++) {
            const TimeRow *const row = &role->waits.items[k];
            add_wait(page, kernel, role, row, row->like->kind, row->time, row->times);
            rest -= row->time;
        }
        add_wait(page, kernel, role, NULL, "computes, copies and issues", rest > 0 ? rest : 0, 0);
    }
}

// ---- the whole

static Timeline part_of(const Timeline *all, int part)
{
    Timeline made = *all;
    made.spans.items = NULL;
    made.spans.count = made.spans.capacity = 0;
    for (int i = 0; i < all->spans.count; i++)
        if (all->spans.items[i].part == part) VEC_PUSH(all->arena, &made.spans, all->spans.items[i]);
    return made;
}

static void add_part(Page *page, PageKernel *kernel, const Timeline *all, int part)
{
    const Timeline timeline = part_of(all, part);
    Text about = { .arena = page->arena };
    if (timeline.spans.count == 0) return;
    text_print(&about, "%s on %s, by kiln profile", timeline.kernel, timeline.device);
    if (timeline.unit_seconds > 0 && strcmp(timeline.unit, "us") != 0)
        text_print(&about, "; 1000 %s are %.3g us", timeline.unit, 1e9 * timeline.unit_seconds);
    if (timeline.lost) text_print(&about, "; %ld records found no room", timeline.lost);
    kernel->measured = text_cstr(&about);
    kernel->measured_unit = timeline.unit;
    add_waits(page, kernel, &timeline);
    int cta = -1;
    for (int i = 0; i < timeline.spans.count; i++) {
        if (timeline.spans.items[i].cta == cta) continue;
        cta = timeline.spans.items[i].cta;
        draw_block(page, kernel, &timeline, part, cta);
    }
}

int explain_trace(Page *page, const char *path)
{
    size_t n;
    Timeline timeline;
    char *const text = file_read(path, &n);
    if (!text) return fail_usage("--profile: cannot read %s", path);
    const bool ok = timeline_read(&timeline, page->arena, text, n);
    memory_free(text);
    if (!ok) return fail_usage("--profile: %s is not what 'kiln profile --json' prints", path);
    for (int i = 0; i < timeline.spans.count; i++)
        if (timeline.spans.items[i].part >= page->kernels.count)
            return fail_usage("--profile: %s is of %s, which has more kernels than this page", path, timeline.kernel);
    for (int i = 0; i < page->kernels.count; i++) add_part(page, page->kernels.items[i], &timeline, i);
    return -1;
}
