// SPDX-License-Identifier: MIT
// rewrite_loops.c - foralls over other indices, more or fewer of them, and loops in their place.
#include "rewrite.h"

static const IndexVar *nth_index(const IndexVar *indices, int n)
{
    while (n-- > 0) indices = indices->next;
    return indices;
}

static int count_indices(const IndexVar *indices)
{
    int n = 0;
    for (; indices; indices = indices->next) n++;
    return n;
}

static bool declares_local(const St *body)
{
    for (const St *s = own_block(body); s; s = s->next)
        if (s->kind == ST_DECL && s->decl.storage != STORE_SCALAR) return true;
    return false;
}

// ---- an index in parts

bool split_index(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    int64_t extent;
    if (st->kind != ST_FORALL) return false;
    const IndexVar *const index = nth_index(st->forall.indices, choose(w, count_indices(st->forall.indices)));
    if (index->lo || !is_constant(w, index->hi, &extent)) return false;
    const int factor = 2 << choose(w, 4);
    if (extent <= factor || extent % factor != 0) return false;
    const char *const outer = fresh(w, arena_printf(w->arena, "%s_outer", index->name));
    const char *const inner = fresh(w, arena_printf(w->arena, "%s_inner", index->name));
    edit(w, index->span.begin, index->span.end, "%s : (%s) / %d, %s : %d", outer, text_of(w, index->hi->span), factor,
         inner, factor);
    replace_name(w, st->forall.body, index->name, arena_printf(w->arena, "(%s*%d + %s)", outer, factor, inner));
    w->what = arena_printf(w->arena, "%s in parts of %d", index->name, factor);
    return true;
}

// ---- two indices in one: what it subscripts may be no fragment

typedef struct Subscripted {
    const Rewriter *w;
    Name a, b;
    bool fragment;
} Subscripted;

static void look_subscripted(void *context, const Ex *ex)
{
    Subscripted *const s = context;
    if (ex->kind != EX_SUBSCRIPT || root_of(ex)->kind != EX_NAME) return;
    const Name root = root_of(ex)->name.name;
    const bool in_registers = storage_of(s->w, root) == STORE_FRAGMENT || find_view(s->w, root);
    s->fragment |= in_registers && (uses_in(ex->sub.start, s->a) || (s->b && uses_in(ex->sub.start, s->b)));
}

static bool subscripts_fragment(const Rewriter *w, const St *body, Name a, Name b)
{
    Subscripted s = { w, a, b, false };
    each_in(body, look_subscripted, &s);
    return s.fragment;
}

bool merge_indices(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    if (st->kind != ST_FORALL || count_indices(st->forall.indices) < 2) return false;
    const IndexVar *const a = nth_index(st->forall.indices, choose(w, count_indices(st->forall.indices) - 1)),
                          *const b = a->next;
    if (a->lo || b->lo || subscripts_fragment(w, st->forall.body, a->name, b->name)) return false;
    const char *const both = fresh(w, arena_printf(w->arena, "%s_%s", a->name, b->name));
    const char *const n = text_of(w, b->hi->span);
    edit(w, a->span.begin, b->span.end, "%s : (%s) * (%s)", both, text_of(w, a->hi->span), n);
    replace_name(w, st->forall.body, a->name, arena_printf(w->arena, "(%s / (%s))", both, n));
    replace_name(w, st->forall.body, b->name, arena_printf(w->arena, "(%s %% (%s))", both, n));
    w->what = arena_printf(w->arena, "%s and %s", a->name, b->name);
    return true;
}

// ---- a loop

enum { UNROLLED_MAX = 8 };

bool loop_for_forall(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    int64_t extent;
    if (st->kind != ST_FORALL || declares_local(st->forall.body) || holds(st, ST_CONTINUE)) return false;
    const int n = count_indices(st->forall.indices);
    const IndexVar *const index = st->forall.indices;
    const bool small = !index->lo && is_constant(w, index->hi, &extent) && extent <= UNROLLED_MAX;
    if ((n == 1 || subscripts_fragment(w, st->forall.body, index->name, NULL)) && !small) return false;
    const char *const body = text_of(w, span_of(w, st->forall.body)), *const lo =
                                                                          index->lo ? text_of(w, index->lo->span) : "0";
    const Span rest = { w->source, index->next ? index->next->span.begin : 0,
                        nth_index(st->forall.indices, n - 1)->span.end };
    edit(w, st->span.begin, span_of(w, st).end, "%sfor (int %s = %s; %s < %s; %s++)%s%s%s %s", small ? "unroll " : "",
         index->name, lo, index->name, text_of(w, index->hi->span), index->name, n > 1 ? "\nforall (" : "",
         n > 1 ? text_of(w, rest) : "", n > 1 ? ")" : "", body);
    w->what = arena_printf(w->arena, "%s", index->name);
    return true;
}

// ---- several foralls, or one

static Span head_of(const Rewriter *w, const St *st)
{
    return (Span){ w->source, st->span.begin, st->forall.body->span.begin };
}

bool fission(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    if (st->kind != ST_FORALL || !place->in_block || st->forall.body->kind != ST_BLOCK) return false;
    const St *const first = st->forall.body->block.body;
    if (!first || !first->next || holds(st, ST_CONTINUE)) return false;
    for (const St *s = first; s; s = s->next)
        if (s->kind == ST_DECL) return false;
    Text out = { .arena = w->arena };
    for (const St *s = first; s; s = s->next)
        text_print(&out, "%s%s%s", s == first ? "" : "\n", text_of(w, head_of(w, st)), text_of(w, span_of(w, s)));
    edit(w, st->span.begin, span_of(w, st).end, "%s", text_cstr(&out));
    return true;
}

bool halves(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    int64_t extent;
    if (st->kind != ST_FORALL || !place->in_block) return false;
    const IndexVar *const index = nth_index(st->forall.indices, choose(w, count_indices(st->forall.indices)));
    if (index->lo || !is_constant(w, index->hi, &extent) || extent < 2 || extent % 2 != 0) return false;
    const Span list = { w->source, st->forall.indices->span.begin, 0 };
    const char *const half = arena_printf(w->arena, "(%s) / 2", text_of(w, index->hi->span));
    const char *const before = text_of(w, (Span){ w->source, list.begin, index->span.begin });
    const Span behind = { w->source, index->span.end, st->forall.body->span.begin };
    const char *const shifted = arena_printf(w->arena, "(%s + %s)", index->name, half);
    edit(w, index->span.begin, index->span.end, "%s : %s", index->name, half);
    edit(w, span_of(w, st).end, span_of(w, st).end, "\nforall (%s%s : %s%s%s", before, index->name, half,
         text_of(w, behind), text_replacing(w, span_of(w, st->forall.body), st->forall.body, index->name, shifted));
    w->what = arena_printf(w->arena, "%s", index->name);
    return true;
}

// Whether an element that one of the statements writes is the same wherever it occurs in both: the subscripts are the same
// words, with every index among them.
typedef struct Same {
    const Rewriter *w;
    const St *head; // of the forall
    Name name;
    const char *words; // of the first occurrence
    bool differs;
} Same;

static void look_same(void *context, const Ex *ex)
{
    Same *const s = context;
    if (ex->kind == EX_CALL && program_find(s->w->program, DECL_FN, ex->call.name)) s->differs = true;
    if (!(ex->kind == EX_SUBSCRIPT || ex->kind == EX_NAME) || !is_named(root_of(ex), s->name)) return;
    if (ex->kind == EX_NAME || ex->sub.how != SUB_INDEX) return; // as the root of its subscripts it was seen with them
    const char *const words = text_of(s->w, ex->span);
    if (!s->words) s->words = words;
    if (strlen(words) < strlen(s->words)) return; // an inner subscript of the same
    s->differs |= strcmp(words, s->words) != 0;
    for (const IndexVar *i = s->head->forall.indices; i; i = i->next) s->differs |= !uses_in(ex, i->name);
}

typedef struct Targets {
    Name items[32];
    int n;
    bool odd; // something else than assignments to elements
} Targets;

static void find_targets(const St *st, Targets *t)
{
    if (!st) return;
    if (st->kind == ST_BLOCK) {
        for (const St *s = st->block.body; s; s = s->next) find_targets(s, t);
    } else if (st->kind == ST_IF) {
        find_targets(st->branch.then, t);
        find_targets(st->branch.otherwise, t);
    } else {
        const bool element = st->kind == ST_ASSIGN && st->assign.target->kind == EX_SUBSCRIPT &&
                             st->assign.target->sub.how == SUB_INDEX && root_of(st->assign.target)->kind == EX_NAME;
        t->odd |= !element || t->n == COUNT(t->items);
        if (!t->odd) t->items[t->n++] = root_of(st->assign.target)->name.name;
    }
}

static bool meet_at_elements(const Rewriter *w, const St *a, const St *b)
{
    Targets t = { .n = 0 };
    find_targets(a->forall.body, &t);
    find_targets(b->forall.body, &t);
    for (int i = 0; i < t.n && !t.odd; i++) {
        Same s = { w, a, t.items[i], NULL, false };
        if (!uses(a->forall.body, s.name) || !uses(b->forall.body, s.name)) continue;
        each_in(a->forall.body, look_same, &s);
        each_in(b->forall.body, look_same, &s);
        t.odd |= s.differs;
    }
    return !t.odd;
}

bool fuse(Rewriter *w, const Place *place)
{
    const St *const b = place->st, *const a = place->before;
    if (!a || a->kind != ST_FORALL || b->kind != ST_FORALL || holds(a, ST_CONTINUE) || holds(b, ST_CONTINUE))
        return false;
    if (holds(a->forall.body, ST_DECL) || holds(b->forall.body, ST_DECL)) return false;
    if (strcmp(text_of(w, head_of(w, a)), text_of(w, head_of(w, b))) != 0 || !meet_at_elements(w, a, b)) return false;
    edit(w, a->span.begin, span_of(w, b).end, "%s{\n%s\n%s\n}", text_of(w, head_of(w, a)),
         text_of(w, span_of(w, a->forall.body)), text_of(w, span_of(w, b->forall.body)));
    return true;
}

bool more_stages(Rewriter *w, const Place *place)
{
    int64_t n;
    if (place->st->kind != ST_PIPELINE) return false;
    for (const Hint *h = place->st->pipeline.hints; h; h = h->next) {
        if (strcmp(h->name, "stages") != 0 || !is_constant(w, h->argument, &n)) continue;
        edit(w, h->argument->span.begin, h->argument->span.end, "%d", (int)n + 1);
        w->what = arena_printf(w->arena, "%d", (int)n + 1);
        return true;
    }
    return false;
}
