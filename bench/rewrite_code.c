// SPDX-License-Identifier: MIT
// rewrite_code.c - the order of statements, scalars in other places, conditions.
#include "rewrite.h"

static bool is_leaf(const St *st) { return st->kind == ST_DECL || st->kind == ST_ASSIGN || st->kind == ST_ATOMIC; }

bool swap_statements(Rewriter *w, const Place *place)
{
    const St *const b = place->st, *const a = place->before;
    if (!a || !place->in_block || !are_independent(w, a, b)) return false;
    edit(w, a->span.begin, span_of(w, a).end, "%s", text_of(w, span_of(w, b)));
    edit(w, b->span.begin, span_of(w, b).end, "%s", text_of(w, span_of(w, a)));
    return true;
}

// ---- scalars

typedef struct Candidates {
    const Rewriter *w;
    const Place *place;
    const St *outer; // the outermost forall around; NULL
    VEC(const Ex *) items;
} Candidates;

typedef struct Bound {
    const Candidates *c;
    bool bound;
} Bound;

// Names that only the forall's iterations have.
static void look_bound(void *context, const Ex *ex)
{
    Bound *const b = context;
    const St *decl = NULL, *const outer = b->c->outer;
    if (ex->kind != EX_NAME || !outer) return;
    if (find_tile(b->c->w, ex->name.name, &decl))
        b->bound |= decl->span.begin >= outer->span.begin && decl->span.end <= outer->span.end;
    b->bound |= is_forall_index(b->c->place, ex->name.name);
}

static void add_subscript(void *context, const Ex *ex)
{
    Candidates *const c = context;
    if (ex->kind != EX_SUBSCRIPT || ex->sub.how == SUB_ALL || ex->sub.start->kind != EX_BINARY) return;
    Bound b = { c, false };
    int64_t value;
    each_of(ex->sub.start, look_bound, &b);
    if (!b.bound && is_plain(c->w, ex->sub.start) && !is_constant(c->w, ex->sub.start, &value))
        VEC_PUSH(c->w->arena, &c->items, ex->sub.start);
}

bool hoist_scalar(Rewriter *w, const Place *place)
{
    Candidates c = { .w = w, .place = place };
    if (!is_leaf(place->st)) return false;
    for (const St *const *up = place->up; *up; up++)
        if ((*up)->kind == ST_FORALL) c.outer = *up;
    const Place *const at = c.outer ? find_place(w, c.outer) : place;
    each_own(place->st, add_subscript, &c);
    if (!at->in_block || !c.items.count) return false;
    const Ex *const ex = c.items.items[choose(w, c.items.count)];
    const char *const name = fresh(w, "start_at");
    edit(w, at->st->span.begin, at->st->span.begin, "int %s = %s;\n", name, text_of(w, ex->span));
    edit(w, ex->span.begin, ex->span.end, "%s", name);
    w->what = text_of(w, ex->span);
    return true;
}

bool sink_scalar(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    if (st->kind != ST_DECL || !place->in_block || st->decl.storage != STORE_SCALAR || st->decl.is_const) return false;
    if (strcmp(text_of(w, st->decl.type.span), "int") != 0) return false;
    int n = 0;
    for (const Declarator *d = st->decl.names; d; d = d->next) n++;
    const Declarator *d = st->decl.names, *before = NULL;
    for (int at = choose(w, n); at > 0; at--) before = d, d = d->next;
    if (!d->init || d->extents || is_changed(w, d->name) || !is_pure(w, d->init) || !find_tile(w, d->name, NULL))
        return false;
    if (n == 1) edit(w, st->span.begin, span_of(w, st).end, "%s", "");
    else if (before) edit(w, before->span.end, d->span.end, "%s", "");
    else edit(w, d->span.begin, d->next->span.begin, "%s", "");
    const char *const value = arena_printf(w->arena, "(%s)", text_of(w, d->init->span));
    replace_name(w, st, d->name, value);
    replace_after(w, st, d->name, value);
    w->what = d->name;
    return true;
}

// ---- conditions

static const St *body_of(const St *st)
{
    switch ((int)st->kind) {
    case ST_FOR: return st->loop.body;
    case ST_FORALL: return st->forall.body;
    case ST_PIPELINE: return st->pipeline.body;
    default: return NULL;
    }
}

bool always_true(Rewriter *w, const Place *place)
{
    const St *const st = place->st, *const body = body_of(st);
    const bool whole = st->kind == ST_ASSIGN || st->kind == ST_FORALL || st->kind == ST_CALL;
    const bool inner = body && choose(w, 2) && !holds(body, ST_STAGE);
    if ((!inner && !(whole && place->in_block)) || (body && place->inside & INSIDE_FORALL)) return false;
    const char *const zero = opaque_zero(w);
    if (!zero) return false;
    const Span span = inner ? body->span : st->span;
    if (inner && body->kind == ST_BLOCK) edit(w, span.begin, span.begin, "{ ");
    edit(w, span.begin, span.begin, "if (%s == 0) ", zero);
    if (inner && body->kind == ST_BLOCK) edit(w, span.end, span.end, " }");
    w->what = inner ? "the body" : "the statement";
    return true;
}

static const char *const operators[OP_COUNT] = {
    [OP_MUL] = "*",  [OP_DIV] = "/", [OP_MOD] = "%", [OP_ADD] = "+", [OP_SUB] = "-",   [OP_SHL] = "<<",
    [OP_SHR] = ">>", [OP_AND] = "&", [OP_XOR] = "^", [OP_OR] = "|",  [OP_MIN] = "min", [OP_MAX] = "max"
};

// Inside foralls an update is one only if every index is in the target's subscripts: else it is a reduction.
static bool is_update(const Rewriter *w, const Place *place)
{
    const Ex *const target = place->st->assign.target;
    if (!(place->inside & INSIDE_FORALL))
        return target->kind == EX_NAME && storage_of(w, target->name.name) == STORE_SCALAR &&
               !find_param(w, target->name.name) && !find_view(w, target->name.name);
    for (const St *const *up = place->up; *up; up++)
        if ((*up)->kind == ST_FORALL)
            for (const IndexVar *i = (*up)->forall.indices; i; i = i->next)
                if (!uses_in(target, i->name)) return false;
    for (const Ex *e = target; e->kind == EX_SUBSCRIPT; e = e->sub.base)
        if (e->sub.how != SUB_INDEX) return false;
    return target->kind == EX_SUBSCRIPT;
}

bool update_apart(Rewriter *w, const Place *place)
{
    const St *const st = place->st;
    if (st->kind != ST_ASSIGN || st->assign.op == OP_ASSIGN || !operators[st->assign.op] || !is_update(w, place))
        return false;
    const char *const target = text_of(w, st->assign.target->span), *const value = text_of(w, st->assign.value->span);
    const char *const op = operators[st->assign.op];
    if (strlen(op) == 3) edit(w, st->span.begin, span_of(w, st).end, "%s = %s(%s, %s);", target, op, target, value);
    else edit(w, st->span.begin, span_of(w, st).end, "%s = %s %s (%s);", target, target, op, value);
    w->what = target;
    return true;
}

static void add_select(void *context, const Ex *ex)
{
    Candidates *const c = context;
    if (ex->kind == EX_SELECT) VEC_PUSH(c->w->arena, &c->items, ex);
}

bool swap_arms(Rewriter *w, const Place *place)
{
    Candidates c = { .w = w, .place = place };
    if (!is_leaf(place->st)) return false;
    each_own(place->st, add_select, &c);
    if (!c.items.count) return false;
    const Ex *const ex = c.items.items[choose(w, c.items.count)];
    edit(w, ex->span.begin, ex->span.end, "(!(%s) ? %s : %s)", text_of(w, ex->select.cond->span),
         text_of(w, ex->select.b->span), text_of(w, ex->select.a->span));
    w->what = text_of(w, ex->select.cond->span);
    return true;
}
