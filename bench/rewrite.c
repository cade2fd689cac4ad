// SPDX-License-Identifier: MIT
// rewrite.c - the table of rewritings, and what each stands on: the places of a kernel, and edits of its text.
#include "rewrite.h"
#include "syntax/format.h"
#include "syntax/parser.h"

#include <stdlib.h>

// clang-format off
static const Rewriting table[] = {
    // What it is called, where it is done, and what it does.
    { "split-index",     split_index,     "an index of a forall becomes two, i = io*f + ii" },
    { "merge-indices",   merge_indices,   "two indices of a forall become one, with a quotient and a remainder" },
    { "for",             loop_for_forall, "a loop over an index instead of the forall" },
    { "fission",         fission,         "a forall of several statements becomes several foralls" },
    { "halves",          halves,          "a forall becomes two, over half of the range each" },
    { "fusion",          fuse,            "two foralls over the same indices become one" },
    { "stages",          more_stages,     "a pipeline with one stage more" },
    { "shift",           shift_slice,     "a tensor's slice begins at a place that is known at run time" },
    { "shift-operand",   shift_operand,   "a product takes a slice of its tile, at a place that is known at run time" },
    { "view",            view_between,    "a view between a tensor and its slice" },
    { "copy",            copy_tile,       "a tile is copied into another one before it is used" },
    { "outside",         tile_outside,    "a loop's tile is declared before the loop" },
    { "elements",        element_copy,    "a forall over elements instead of a copy or a fill" },
    { "apart",           declare_apart,   "a tile is declared first and filled then" },
    { "rename",          rename_tile,     "a local has another name" },
    { "swap",            swap_statements, "two neighbours that are independent change places" },
    { "hoist",           hoist_scalar,    "a subscript is computed by a statement of its own" },
    { "sink",            sink_scalar,     "a scalar's value stands where the scalar is used" },
    { "always",          always_true,     "a statement under a condition that always holds, known at run time" },
    { "update",          update_apart,    "x = x op y instead of x op= y" },
    { "arms",            swap_arms,       "!c ? b : a instead of c ? a : b" },
};
// clang-format on

const Rewriting *rewritings(int *n)
{
    *n = COUNT(table);
    return table;
}

// ---- places

typedef VEC(const St *) Stack;

static const St *const *around(Rewriter *w, const Stack *stack)
{
    const St **const up = NEW_ARRAY(w->arena, const St *, stack->count + 1);
    for (int i = 0; i < stack->count; i++) up[i] = stack->items[stack->count - 1 - i];
    return up;
}

static void find_places(Rewriter *w, const St *list, bool in_block, int inside, Stack *stack);

static void find_controlled(Rewriter *w, const St *st, const St *body, int inside, Stack *stack)
{
    if (!body) return;
    VEC_PUSH(w->arena, stack, st);
    if (body->kind == ST_BLOCK) {
        VEC_PUSH(w->arena, stack, body);
        find_places(w, body->block.body, true, inside, stack);
        stack->count--;
    } else {
        find_places(w, body, false, inside, stack);
    }
    stack->count--;
}

static void find_places(Rewriter *w, const St *list, bool in_block, int inside, Stack *stack)
{
    const St *before = NULL;
    for (const St *st = list; st; before = st, st = st->next) {
        VEC_PUSH(w->arena, &w->places, (Place){ st, before, around(w, stack), in_block, inside });
        switch ((int)st->kind) {
        case ST_BLOCK:
            VEC_PUSH(w->arena, stack, st);
            find_places(w, st->block.body, true, inside, stack);
            stack->count--;
            break;
        case ST_IF:
            find_controlled(w, st, st->branch.then, inside, stack);
            find_controlled(w, st, st->branch.otherwise, inside, stack);
            break;
        case ST_FOR: find_controlled(w, st, st->loop.body, inside | INSIDE_LOOP, stack); break;
        case ST_WHILE: find_controlled(w, st, st->while_.body, inside | INSIDE_LOOP, stack); break;
        case ST_FORALL: find_controlled(w, st, st->forall.body, inside | INSIDE_FORALL, stack); break;
        case ST_PIPELINE: find_controlled(w, st, st->pipeline.body, inside | INSIDE_LOOP, stack); break;
        case ST_ON: find_controlled(w, st, st->on.body, inside, stack); break;
        default: break;
        }
    }
}

// ---- edits

void edit(Rewriter *w, int begin, int end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    VEC_PUSH(w->arena, &w->edits, (Edit){ begin, end, arena_vprintf(w->arena, format, args), w->edits.count });
    va_end(args);
}

const char *text_of(const Rewriter *w, Span span)
{
    return arena_copy_text(w->arena, w->source->text + span.begin, (size_t)(span.end - span.begin));
}

Span span_of(const Rewriter *w, const St *st)
{
    Span span = st->span;
    const size_t blanks = strspn(w->source->text + span.end, " \t\r\n");
    if (w->source->text[span.end + (int)blanks] == ';') span.end += (int)blanks + 1;
    return span;
}

static int by_place(const void *a, const void *b)
{
    const Edit *const x = a, *const y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : x->order - y->order;
}

// The text between two offsets with the edits done. Of edits that overlap the first counts.
static const char *edited(const Rewriter *w, Edit *edits, int n, int begin, int end)
{
    Text out = { .arena = w->arena };
    int at = begin;
    qsort(edits, (size_t)n, sizeof *edits, by_place);
    for (int i = 0; i < n; i++) {
        if (edits[i].begin < at || edits[i].end > end) continue;
        text_add(&out, w->source->text + at, (size_t)(edits[i].begin - at));
        text_print(&out, "%s", edits[i].text);
        at = edits[i].end;
    }
    text_add(&out, w->source->text + at, (size_t)(end - at));
    return text_cstr(&out);
}

typedef struct Replacing {
    Rewriter *w;
    Name name;
    const char *with;
    VEC(Edit) edits;
} Replacing;

static void replace_one(void *context, const Ex *ex)
{
    Replacing *const r = context;
    if (is_named(ex, r->name))
        VEC_PUSH(r->w->arena, &r->edits, (Edit){ ex->span.begin, ex->span.end, r->with, r->edits.count });
}

void replace_name(Rewriter *w, const St *st, Name name, const char *with)
{
    Replacing r = { w, name, with, { 0 } };
    each_in(st, replace_one, &r);
    for (int i = 0; i < r.edits.count; i++) edit(w, r.edits.items[i].begin, r.edits.items[i].end, "%s", with);
}

void replace_after(Rewriter *w, const St *st, Name name, const char *with)
{
    for (const St *s = st->next; s; s = s->next) replace_name(w, s, name, with);
}

const char *text_replacing(const Rewriter *w, Span span, const St *st, Name name, const char *with)
{
    Replacing r = { (Rewriter *)w, name, with, { 0 } };
    each_in(st, replace_one, &r);
    return edited(w, r.edits.items, r.edits.count, span.begin, span.end);
}

const char *fresh(const Rewriter *w, const char *stem)
{
    const char *name = stem;
    for (int i = 1; strstr(w->source->text, name); i++) name = arena_printf(w->arena, "%s%d", stem, i);
    return name;
}

int choose(Rewriter *w, int n)
{
    const int taken = n > 0 ? (int)(w->choice % (uint64_t)n) : 0;
    w->choice = w->choice * 6364136223846793005u + 1442695040888963407u;
    w->choice ^= w->choice >> 29;
    return taken;
}

// A symbol that a tensor's extent binds, plainly, and that no binding fixes.
static Name find_symbol(const Rewriter *w)
{
    int64_t value;
    for (const Param *p = w->decl->params; p; p = p->next)
        for (const Ex *e = p->optional ? NULL : p->extents; e; e = e->next)
            if (e->kind == EX_NAME && !find_param(w, e->name.name) && !is_constant(w, e, &value)) return e->name.name;
    return NULL;
}

// M / (M + 1): a quotient whose value neither a range nor a multiple of M tells.
const char *opaque_zero(Rewriter *w)
{
    const Name symbol = find_symbol(w);
    const char *const name = fresh(w, "zero");
    for (int i = 0; symbol && i < w->places.count; i++) {
        const St *const grid = w->places.items[i].st;
        if (grid->kind != ST_GRID) continue;
        const int end = span_of(w, grid).end;
        edit(w, end, end, "\n    int %s = %s / (%s + 1);", name, symbol, symbol);
        return name;
    }
    return NULL;
}

// ---- one rewriting

static bool try_place(Rewriter *w, const Rewriting *rewriting, const Place *place, uint64_t choice)
{
    w->edits.count = 0;
    w->choice = choice;
    w->what = NULL;
    return rewriting->rewrite(w, place) && w->edits.count > 0;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// The places where it fits, in an order by the seed.
static int *find_fitting(Rewriter *w, const Rewriting *rewriting, uint64_t seed, int *n)
{
    int *const fitting = NEW_ARRAY(w->arena, int, w->places.count + 1);
    *n = 0;
    for (int i = 0; i < w->places.count; i++)
        if (try_place(w, rewriting, &w->places.items[i], mix(seed + (uint64_t)i))) fitting[(*n)++] = i;
    for (int i = *n - 1; i > 0; i--) {
        const int k = (int)(mix(seed ^ (uint64_t)i << 32) % (uint64_t)(i + 1)), other = fitting[k];
        fitting[k] = fitting[i];
        fitting[i] = other;
    }
    return fitting;
}

static const char *formatted(const Rewriter *w, const char *text)
{
    const Source source = { .path = w->source->path, .text = text, .length = (int)strlen(text) };
    Text out = { .arena = w->arena };
    return format_source(w->arena, diags_new(w->arena), &source, &out) ? text_cstr(&out) : text;
}

const char *rewrite_source(Rewriter *w, const Rewriting *rewriting, uint64_t seed, int nth, int *n_places)
{
    Stack stack = { 0 };
    w->source = w->decl->span.source;
    w->places.count = 0;
    find_places(w, w->decl->body, true, 0, &stack);
    const int *const fitting = find_fitting(w, rewriting, seed, n_places);
    if (*n_places == 0) return NULL;
    const int at = fitting[nth % *n_places];
    try_place(w, rewriting, &w->places.items[at], mix(seed + (uint64_t)at));
    const int line = source_position(w->source, w->places.items[at].st->span.begin).line;
    w->what = arena_printf(w->arena, "line %d%s%s", line, w->what ? ": " : "", w->what ? w->what : "");
    return formatted(w, edited(w, w->edits.items, w->edits.count, 0, w->source->length));
}
