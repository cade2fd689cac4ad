// SPDX-License-Identifier: MIT
// rewrite_tiles.c - tiles and slices by another way: through views, copies, elements, at places known at run time.
#include "rewrite.h"

static bool is_leaf(const St *st) { return st->kind == ST_DECL || st->kind == ST_ASSIGN || st->kind == ST_ATOMIC; }

// ---- slices of tensors

typedef struct Slices {
    const Rewriter *w;
    VEC(const Ex *) items;
} Slices;

static bool is_tensor(const Rewriter *w, Name name)
{
    const Param *const param = find_param(w, name);
    return param && param->extents;
}

static void add_slice(void *context, const Ex *ex)
{
    Slices *const s = context;
    if (ex->kind == EX_SUBSCRIPT && ex->sub.how != SUB_ALL && root_of(ex)->kind == EX_NAME &&
        is_tensor(s->w, root_of(ex)->name.name))
        VEC_PUSH(s->w->arena, &s->items, ex);
}

bool shift_slice(Rewriter *w, const Place *place)
{
    Slices s = { .w = w };
    if (!is_leaf(place->st)) return false;
    each_own(place->st, add_slice, &s);
    const char *const zero = s.items.count ? opaque_zero(w) : NULL;
    if (!zero) return false;
    const Ex *const ex = s.items.items[choose(w, s.items.count)];
    edit(w, ex->sub.start->span.begin, ex->sub.start->span.end, "(%s) + %s", text_of(w, ex->sub.start->span), zero);
    w->what = text_of(w, ex->span);
    return true;
}

static void add_operand(void *context, const Ex *ex)
{
    Slices *const s = context;
    if (ex->kind != EX_BINARY || ex->binary.op != OP_MATMUL) return;
    const Ex *const sides[] = { ex->binary.a, ex->binary.b };
    for (int i = 0; i < 2; i++) {
        const Ex *side = sides[i];
        if (side->kind == EX_CALL && strcmp(side->call.name, "transpose") == 0) side = side->call.args;
        if (side->kind == EX_NAME && storage_of(s->w, side->name.name) == STORE_SHARED &&
            find_tile(s->w, side->name.name, NULL))
            VEC_PUSH(s->w->arena, &s->items, side);
    }
}

bool shift_operand(Rewriter *w, const Place *place)
{
    Slices s = { .w = w };
    if (!is_leaf(place->st)) return false;
    each_own(place->st, add_operand, &s);
    const char *const zero = s.items.count ? opaque_zero(w) : NULL;
    if (!zero) return false;
    const Ex *const ex = s.items.items[choose(w, s.items.count)];
    const Declarator *const tile = find_tile(w, ex->name.name, NULL);
    const int at = choose(w, 2);
    const char *const width = text_of(w, nth_of(tile->extents, at)->span);
    edit(w, ex->span.end, ex->span.end, "%s[%s +: %s]", at ? "[:]" : "", zero, width);
    w->what = arena_printf(w->arena, "%s, dimension %d", ex->name.name, at);
    return true;
}

// ---- views

// The innermost subscripts that are plain names: V[b] of V[b][n*BN +: BN][h].
static const Ex *leading_part(const Rewriter *w, const Ex *ex)
{
    const Ex *part = NULL;
    for (; ex->kind == EX_SUBSCRIPT; ex = ex->sub.base)
        if (ex->sub.how != SUB_INDEX || ex->sub.start->kind != EX_NAME || !is_plain(w, ex->sub.start)) part = NULL;
        else if (!part) part = ex;
    return part;
}

static int count_subscripts(const Ex *ex)
{
    int n = 0;
    for (; ex->kind == EX_SUBSCRIPT; ex = ex->sub.base) n++;
    return n;
}

bool view_between(Rewriter *w, const Place *place)
{
    Slices s = { .w = w };
    if (!is_leaf(place->st) || !place->in_block || place->inside & INSIDE_FORALL) return false;
    each_own(place->st, add_slice, &s);
    if (!s.items.count) return false;
    const Ex *const ex = s.items.items[choose(w, s.items.count)], *const root = root_of(ex);
    if (find_param(w, root->name.name)->optional)
        return false; // its uses stand under conditions that a view would leave
    const Ex *const part = choose(w, 2) ? leading_part(w, ex) : NULL;
    const bool is_element = part && count_subscripts(part) == count_list(find_param(w, root->name.name)->extents);
    const Ex *const of = part && !is_element ? part : root;
    const char *const view = fresh(w, "between");
    edit(w, place->st->span.begin, place->st->span.begin, "view %s = %s;\n", view, text_of(w, of->span));
    edit(w, of->span.begin, of->span.end, "%s", view);
    w->what = text_of(w, of->span);
    return true;
}

// ---- tiles

static const char *storage_words(const Rewriter *w, const St *st)
{
    return text_of(w, (Span){ w->source, st->span.begin, st->decl.names->span.begin });
}

static const char *extents_of(const Rewriter *w, const Declarator *d)
{
    Text out = { .arena = w->arena };
    for (const Ex *e = d->extents; e; e = e->next) text_print(&out, "[%s]", text_of(w, e->span));
    return text_cstr(&out);
}

static bool declares_tiles(const Place *place)
{
    const St *const st = place->st;
    return st->kind == ST_DECL && place->in_block && !(place->inside & INSIDE_FORALL) &&
           (st->decl.storage == STORE_SHARED || st->decl.storage == STORE_FRAGMENT);
}

static const Declarator *choose_name(Rewriter *w, const St *st, bool filled)
{
    int n = 0;
    for (const Declarator *d = st->decl.names; d; d = d->next) n += !filled || d->init;
    int at = n ? choose(w, n) : -1;
    for (const Declarator *d = st->decl.names; d && n; d = d->next)
        if ((!filled || d->init) && at-- == 0) return d;
    return NULL;
}

static bool has_layout(const Rewriter *w, Name name)
{
    for (int i = 0; i < w->places.count; i++)
        if (w->places.items[i].st->kind == ST_LAYOUT && uses(w->places.items[i].st, name)) return true;
    return false;
}

bool copy_tile(Rewriter *w, const Place *place)
{
    if (!declares_tiles(place)) return false;
    const Declarator *const d = choose_name(w, place->st, true);
    if (!d || is_changed(w, d->name) || has_layout(w, d->name) || !find_tile(w, d->name, NULL)) return false;
    const char *const other = fresh(w, arena_printf(w->arena, "%s_copy", d->name));
    edit(w, span_of(w, place->st).end, span_of(w, place->st).end, "\n%s %s%s = %s;", storage_words(w, place->st), other,
         extents_of(w, d), d->name);
    replace_after(w, place->st, d->name, other);
    w->what = d->name;
    return true;
}

// Declarations without what fills them, then that.
static const char *fills_of(const Rewriter *w, const St *st)
{
    Text out = { .arena = w->arena };
    for (const Declarator *d = st->decl.names; d; d = d->next)
        if (d->init) text_print(&out, "\n%s = %s;", d->name, text_of(w, d->init->span));
    return text_cstr(&out);
}

static const char *bare_names(const Rewriter *w, const St *st)
{
    Text out = { .arena = w->arena };
    text_print(&out, "%s", storage_words(w, st));
    for (const Declarator *d = st->decl.names; d; d = d->next)
        text_print(&out, "%s%s%s", d == st->decl.names ? "" : ", ", d->name, extents_of(w, d));
    return text_cstr(&out);
}

bool declare_apart(Rewriter *w, const Place *place)
{
    if (!declares_tiles(place) || !choose_name(w, place->st, true)) return false;
    edit(w, place->st->span.begin, span_of(w, place->st).end, "%s;%s", bare_names(w, place->st),
         fills_of(w, place->st));
    w->what = place->st->decl.names->name;
    return true;
}

bool tile_outside(Rewriter *w, const Place *place)
{
    int64_t extent;
    if (!declares_tiles(place) || !place->up[0] || !place->up[1]) return false;
    const St *const loop = place->up[1];
    const Place *const at = find_place(w, loop);
    if ((loop->kind != ST_FOR && loop->kind != ST_PIPELINE && loop->kind != ST_WHILE) || !at->in_block) return false;
    for (const Declarator *d = place->st->decl.names; d; d = d->next) {
        if (!find_tile(w, d->name, NULL)) return false;
        for (const Ex *e = d->extents; e; e = e->next)
            if (!is_constant(w, e, &extent)) return false;
    }
    edit(w, loop->span.begin, loop->span.begin, "%s;\n", bare_names(w, place->st));
    edit(w, place->st->span.begin, span_of(w, place->st).end, "%s", fills_of(w, place->st));
    w->what = place->st->decl.names->name;
    return true;
}

bool rename_tile(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    if (st->kind != ST_DECL || !place->in_block) return false;
    const Declarator *const d = choose_name(w, st, false);
    const char *const name = fresh(w, "another");
    if (!find_tile(w, d->name, NULL)) return false;
    edit(w, d->span.begin, d->span.begin + (int)strlen(d->name), "%s", name);
    replace_name(w, st, d->name, name);
    replace_after(w, st, d->name, name);
    w->what = d->name;
    return true;
}

// ---- element by element

enum { DIMENSIONS = 8 };

// What a slice says of its dimensions; scalar subscripts are part of `words`.
typedef struct Shape {
    int n;
    const Ex *extent[DIMENSIONS];
    const char *words; // of an element: A[m*BM + e0][k]
} Shape;

static const Ex *extents_of_root(const Rewriter *w, const Ex *root)
{
    if (root->kind != EX_NAME) return NULL;
    const Param *const param = find_param(w, root->name.name);
    const Declarator *const tile = param ? NULL : find_tile(w, root->name.name, NULL);
    return param ? param->extents : tile ? tile->extents : NULL;
}

static void add_dimension(const Rewriter *w, Shape *s, const Ex *sub, const Ex *extent, const char *const *names)
{
    const char *const start = sub && sub->sub.start ? text_of(w, sub->sub.start->span) : NULL;
    if (sub && sub->sub.how == SUB_INDEX) {
        s->words = arena_printf(w->arena, "%s[%s]", s->words, start);
        return;
    }
    const char *const index = names[s->n];
    if (!start) s->words = arena_printf(w->arena, "%s[%s]", s->words, index);
    else if (!sub->sub.step) s->words = arena_printf(w->arena, "%s[(%s) + %s]", s->words, start, index);
    else
        s->words =
            arena_printf(w->arena, "%s[(%s) + %s*(%s)]", s->words, start, index, text_of(w, sub->sub.step->span));
    s->extent[s->n++] = start ? sub->sub.width : extent;
}

static bool shape_of(const Rewriter *w, const Ex *ex, const char *const *names, Shape *s)
{
    const Ex *subs[DIMENSIONS] = { NULL }, *const root = root_of(ex), *extent = extents_of_root(w, root);
    const int rank = count_list(extent);
    int n = 0;
    for (const Ex *e = ex; e->kind == EX_SUBSCRIPT; e = e->sub.base) n++;
    if (!extent || rank > DIMENSIONS || n > rank) return false;
    for (const Ex *e = ex; e->kind == EX_SUBSCRIPT; e = e->sub.base) subs[--n] = e;
    *s = (Shape){ .words = root->name.name };
    for (int d = 0; d < rank; d++, extent = extent->next) add_dimension(w, s, subs[d], extent, names);
    return s->n > 0;
}

static bool is_same_extent(const Rewriter *w, const Ex *a, const Ex *b)
{
    int64_t x, y;
    if (is_constant(w, a, &x) && is_constant(w, b, &y)) return x == y;
    return strcmp(text_of(w, a->span), text_of(w, b->span)) == 0;
}

// A value that fills: a number, or a scalar.
static bool is_scalar(const Rewriter *w, const Ex *ex)
{
    if (ex->kind == EX_UNARY) return is_scalar(w, ex->unary.a);
    return ex->kind == EX_INT || ex->kind == EX_FLOAT || (ex->kind == EX_NAME && is_pure(w, ex));
}

static const char *by_elements(Rewriter *w, const Ex *target, const Ex *value)
{
    const char *names[DIMENSIONS], *words;
    Shape to, from;
    Text out = { .arena = w->arena };
    for (int d = 0; d < DIMENSIONS; d++) names[d] = fresh(w, arena_printf(w->arena, "e%d", d));
    if (!shape_of(w, target, names, &to)) return NULL;
    if (is_scalar(w, value)) words = text_of(w, value->span);
    else {
        if (!shape_of(w, value, names, &from) || from.n != to.n) return NULL;
        for (int d = 0; d < to.n; d++)
            if (!is_same_extent(w, to.extent[d], from.extent[d])) return NULL;
        words = from.words;
    }
    text_print(&out, "forall (");
    for (int d = 0; d < to.n; d++)
        text_print(&out, "%s%s : %s", d ? ", " : "", names[d], text_of(w, to.extent[d]->span));
    text_print(&out, ") %s = %s;", to.words, words);
    return text_cstr(&out);
}

bool element_copy(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    if (place->inside & INSIDE_FORALL) return false;
    if (st->kind == ST_ASSIGN && st->assign.op == OP_ASSIGN) {
        const char *const words = by_elements(w, st->assign.target, st->assign.value);
        if (!words) return false;
        edit(w, st->span.begin, span_of(w, st).end, "%s", words);
        w->what = text_of(w, st->assign.target->span);
        return true;
    }
    if (!declares_tiles(place)) return false;
    const Declarator *const d = choose_name(w, st, true);
    if (!d || !find_tile(w, d->name, NULL)) return false;
    const Ex name = { .kind = EX_NAME, .span = d->span, .name = { d->name } };
    const char *const words = by_elements(w, &name, d->init);
    if (!words || (d->next && uses(st, d->name))) return false;
    edit(w, d->span.begin, d->span.end, "%s%s", d->name, extents_of(w, d));
    edit(w, span_of(w, st).end, span_of(w, st).end, "\n%s", words);
    w->what = d->name;
    return true;
}
