// SPDX-License-Identifier: MIT
// trace_read.c - the words that a traced kernel wrote, as spans of time.
//
// Each warp has a track of records, a beginning or an end each. An end closes what it is of, and all that is open within;
// so does the beginning of what is open already: steps have no ends of their own. What is still open at the track's end
// ends there. A record that names no event, or is out of order, is dropped.
#include "tools/timeline.h"
#include "plan/trace.h"

enum { OPEN_MAX = 64 };

typedef struct TrackReader {
    Timeline *timeline;
    const TraceNames *names;
    int part, cta, warp;
    int64_t steps;      // to come; -1: all
    double begin;       // of the CTA: its first moment,
    uint64_t first;     // and the clock then
    int open[OPEN_MAX]; // places of spans, 0 is the role's
    int events[OPEN_MAX];
    int n_open;
} TrackReader;

static const uint64_t *track_of(const uint64_t *words, int cta, int warp)
{
    return words + (size_t)(1 + cta * TRACE_WARPS + warp) * TRACE_WORDS;
}

static double moment(const TrackReader *r, uint64_t clock)
{
    const uint64_t mask = (UINT64_C(1) << TRACE_CLOCK_BITS) - 1;
    return r->begin + (double)((clock - r->first) & mask);
}

static void close_to(TrackReader *r, int depth, double at)
{
    while (r->n_open > depth) r->timeline->spans.items[r->open[--r->n_open]].end = at;
}

static void open_span(TrackReader *r, int event, TimeSpan span, double at)
{
    Timeline *const t = r->timeline;
    if (r->n_open == OPEN_MAX) return;
    span.part = r->part;
    span.cta = r->cta;
    span.warp = r->warp;
    span.depth = r->n_open;
    span.begin = span.end = at;
    r->events[r->n_open] = event;
    r->open[r->n_open++] = t->spans.count;
    VEC_PUSH(t->arena, &t->spans, span);
}

static int find_open(const TrackReader *r, int event)
{
    for (int i = r->n_open - 1; i > 0; i--)
        if (r->events[i] == event) return i;
    return 0;
}

// False: it begins a step too many.
static bool take_record(TrackReader *r, uint64_t record)
{
    const int number = (int)(record >> TRACE_CLOCK_BITS), event = number / 2;
    if (event < 1 || event > r->names->count) return true;
    const TraceName *const name = &r->names->items[event - 1];
    if (strcmp(name->kind, "role") == 0) return true;
    const double at = moment(r, record);
    const int open = find_open(r, event);
    if (open) close_to(r, open, at);
    if (number % 2) return true;
    if (strcmp(name->kind, "step") == 0 && r->steps >= 0 && r->steps-- == 0) {
        close_to(r, 0, at);
        return false;
    }
    const TimeSpan span = {
        .role = name->role, .kind = name->kind, .what = name->what, .path = name->path, .line = name->line
    };
    open_span(r, event, span, at);
    return true;
}

// The role of a track is that of its records.
static const char *role_of(const TrackReader *r, const uint64_t *track)
{
    for (int i = TRACE_RECORDS; i < TRACE_WORDS && track[i]; i++) {
        const int event = (int)(track[i] >> TRACE_CLOCK_BITS) / 2;
        if (event >= 1 && event <= r->names->count) return r->names->items[event - 1].role;
    }
    return "unknown";
}

static void read_track(TrackReader *r, const uint64_t *track)
{
    const char *const role = role_of(r, track);
    double last = moment(r, track[TRACE_BEGIN]);
    open_span(r, 0, (TimeSpan){ .role = role, .kind = "role", .what = role }, last);
    r->timeline->lost += (long)track[TRACE_LOST];
    for (int i = TRACE_RECORDS; i < TRACE_WORDS && track[i]; i++) {
        last = moment(r, track[i]);
        if (!take_record(r, track[i])) {
            r->timeline->cut++;
            return;
        }
    }
    // What was lost has ended by then, too: the role ends with its last record.
    if (track[TRACE_END] && !track[TRACE_LOST]) last = moment(r, track[TRACE_END]);
    close_to(r, 0, last);
}

// ---- the CTAs beside each other

typedef struct CtaClock {
    bool is_there;
    uint64_t first_ns, first, last_ns, last;
} CtaClock;

static CtaClock clock_of(const uint64_t *words, int cta)
{
    CtaClock c = { .is_there = false };
    for (int warp = 0; warp < TRACE_WARPS; warp++) {
        const uint64_t *const t = track_of(words, cta, warp);
        if (!t[TRACE_BEGIN]) continue;
        if (!c.is_there || t[TRACE_BEGIN] < c.first) c.first = t[TRACE_BEGIN], c.first_ns = t[TRACE_BEGIN_NS];
        if (t[TRACE_END] > c.last) c.last = t[TRACE_END], c.last_ns = t[TRACE_END_NS];
        c.is_there = true;
    }
    return c;
}

// When the first CTA began; seconds of a cycle, by the CTA that ran longest; 0: none did for long enough to tell.
typedef struct Scale {
    uint64_t first_ns, longest;
    double cycle;
} Scale;

static void add_clock(Scale *scale, const CtaClock *c)
{
    if (c->is_there && c->first_ns < scale->first_ns) scale->first_ns = c->first_ns;
    if (!c->is_there || c->last <= c->first || c->last_ns <= c->first_ns || c->last - c->first < scale->longest) return;
    scale->longest = c->last - c->first;
    scale->cycle = 1e-9 * (double)(c->last_ns - c->first_ns) / (double)scale->longest;
}

static void read_cta(Timeline *timeline, const TraceRecord *record, int part, int cta, const Scale *scale,
                     int64_t steps)
{
    const CtaClock clock = clock_of(record->words, cta);
    const double later = 1e-9 * (double)(clock.first_ns - scale->first_ns);
    for (int warp = 0; clock.is_there && warp < TRACE_WARPS; warp++) {
        const uint64_t *const track = track_of(record->words, cta, warp);
        TrackReader r = { .timeline = timeline,
                          .names = &record->names,
                          .part = part,
                          .cta = (int)record->words[cta] - 1,
                          .warp = warp,
                          .steps = steps ? steps : -1,
                          .begin = scale->cycle > 0 ? later / scale->cycle : 0,
                          .first = clock.first };
        if (track[TRACE_BEGIN]) read_track(&r, track);
    }
}

void trace_read(Timeline *timeline, const TraceRecord *records, int n, int64_t steps)
{
    Scale scale = { .first_ns = UINT64_MAX };
    for (int i = 0; i < n * TRACE_CTAS; i++) {
        const CtaClock clock = clock_of(records[i / TRACE_CTAS].words, i % TRACE_CTAS);
        add_clock(&scale, &clock);
    }
    timeline->unit = "cycles";
    timeline->unit_seconds = scale.cycle;
    for (int i = 0; i < n * TRACE_CTAS; i++)
        read_cta(timeline, &records[i / TRACE_CTAS], i / TRACE_CTAS, i % TRACE_CTAS, &scale, steps);
}
