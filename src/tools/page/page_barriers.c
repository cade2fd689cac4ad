// SPDX-License-Identifier: MIT
// page_barriers.c - who arrives at each barrier, and who waits there: the mbarriers of rings, and named barriers.
#include "tools/page/page.h"
#include "lower/gpu/schedule/dump.h"

enum { NAMED = 16 };

typedef struct Search {
    Arena *arena;
    const Schedule *schedule;
    int ring, barrier; // one of both; the other is -1
    BarrierOf of;
    // of the role at hand
    bool expects, arrives, copies, waits, releases, acquires, syncs, joins;
    int threads;
} Search;

static void look(Search *s, const Action *action)
{
    for (; action; action = action->next) {
        switch ((int)action->kind) {
        case ACTION_EXPECT: s->expects |= action->ring.ring == s->ring; break;
        case ACTION_ARRIVE: s->arrives |= action->ring.ring == s->ring; break;
        case ACTION_WAIT: s->waits |= action->ring.ring == s->ring; break;
        case ACTION_RELEASE: s->releases |= action->ring.ring == s->ring; break;
        case ACTION_ACQUIRE: s->acquires |= action->ring.ring == s->ring; break;
        case ACTION_COPY:
            s->copies |= s->ring >= 0 && action->copy.ring == s->ring && action->copy.how == COPY_TMA;
            break;
        case ACTION_BARRIER_SYNC:
        case ACTION_BARRIER_ARRIVE:
            if (action->barrier.barrier != s->barrier) break;
            *(action->kind == ACTION_BARRIER_SYNC ? &s->syncs : &s->joins) = true;
            s->of = action->barrier.of != BARRIER_ONE ? action->barrier.of : s->of;
            s->threads = action->barrier.threads;
            break;
        default: break;
        }
        look(s, action->body);
        look(s, action->otherwise);
    }
}

static void add_name(Text *out, const char *name, const char *how)
{
    text_print(out, "%s%s%s%s", out->length ? "; " : "", name, how ? ": " : "", how ? how : "");
}

static Search look_in(const Search *like, const ScheduleRole *role)
{
    Search s = *like;
    look(&s, role->body);
    return s;
}

static void add_ring(Page *page, PageKernel *kernel, const Schedule *schedule, int number)
{
    Arena *const arena = page->arena;
    const ScheduleRing *const ring = schedule->rings.items[number];
    const char *const name = schedule_ring_name(arena, schedule, number);
    const Search like = { .arena = arena, .schedule = schedule, .ring = number, .barrier = -1 };
    Text fill = { .arena = arena }, wait = { .arena = arena }, release = { .arena = arena },
         acquire = { .arena = arena };
    for (int i = 0; i < schedule->roles.count; i++) {
        const ScheduleRole *const role = schedule->roles.items[i];
        const Search s = look_in(&like, role);
        if (s.expects || s.arrives || s.copies)
            add_name(&fill, role->name,
                     s.copies    ? "its copies' bytes"
                     : s.arrives ? "when its threads have written"
                                 : NULL);
        if (s.waits) add_name(&wait, role->name, "before reading");
        if (s.releases) add_name(&release, role->name, "after the last reading");
        if (s.acquires) add_name(&acquire, role->name, "before writing");
    }
    const char *const bytes = ring->bytes ? arena_printf(arena, " and %d bytes", ring->bytes) : "";
    const PageBarrier full = { arena_printf(arena, "%s is full", name),
                               text_cstr(&fill),
                               text_cstr(&wait),
                               arena_printf(arena, "%d arrival%s%s", ring->full_count, ring->full_count == 1 ? "" : "s",
                                            bytes),
                               ring->slots,
                               ring->full_offset };
    const PageBarrier empty = { arena_printf(arena, "%s is empty", name),
                                text_cstr(&release),
                                text_cstr(&acquire),
                                arena_printf(arena, "%d arrival%s%s", ring->empty_count,
                                             ring->empty_count == 1 ? "" : "s",
                                             ring->across_cluster ? ", from all CTAs of the cluster" : ""),
                                ring->slots,
                                ring->empty_offset };
    VEC_PUSH(arena, &kernel->barriers, full);
    VEC_PUSH(arena, &kernel->barriers, empty);
}

static void add_named(Page *page, PageKernel *kernel, const Schedule *schedule, int number)
{
    Arena *const arena = page->arena;
    Search like = { .arena = arena, .schedule = schedule, .ring = NO_RING - 1, .barrier = number };
    Text arrive = { .arena = arena }, wait = { .arena = arena };
    int threads = 0;
    for (int i = 0; i < schedule->roles.count; i++) {
        const ScheduleRole *const role = schedule->roles.items[i];
        const Search s = look_in(&like, role);
        if (s.joins || s.syncs) add_name(&arrive, role->name, s.joins ? "goes on at once" : NULL);
        if (s.syncs) add_name(&wait, role->name, NULL);
        if (s.of != BARRIER_ONE) like.of = s.of;
        if (s.joins || s.syncs) threads = s.threads;
    }
    if (!arrive.length) return;
    const PageBarrier added = { number == 0 ? "__syncthreads"
                                : like.of != BARRIER_ONE
                                    ? arena_printf(arena, "named barriers from %d, one of each group", number)
                                    : arena_printf(arena, "named barrier %d", number),
                                text_cstr(&arrive),
                                text_cstr(&wait),
                                threads ? arena_printf(arena, "%d threads", threads) : "all threads",
                                0,
                                0 };
    VEC_PUSH(arena, &kernel->barriers, added);
}

void page_add_barriers(Page *page, PageKernel *kernel, const Compiled *compiled)
{
    const Schedule *const schedule = compiled->unit->schedule;
    for (int i = 0; i < schedule->rings.count; i++) add_ring(page, kernel, schedule, i);
    for (int i = 0; i < NAMED; i++) add_named(page, kernel, schedule, i);
}
