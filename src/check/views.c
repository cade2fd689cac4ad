// SPDX-License-Identifier: MIT
// views.c - view T name[shape] = slice: another name for the same bytes.
//
// What the slice says is computed at the declaration, so every subscript that could change later is kept in a
// variable.
#include "check/context.h"

static void freeze_region(Checker *cx, Region *region)
{
    Sub *const subs = NEW_ARRAY(cx->arena, Sub, region->buffer->rank + 1);
    for (int d = 0; d < region->buffer->rank; d++) {
        subs[d] = region->subs[d];
        subs[d].start = snapshot(cx, subs[d].start, "at", region->span);
        if (subs[d].width) subs[d].width = snapshot(cx, subs[d].width, "length", region->span);
        if (subs[d].step) subs[d].step = snapshot(cx, subs[d].step, "step", region->span);
    }
    region->subs = subs;
}

static int last_range(const Region *region)
{
    for (int d = region->buffer->rank - 1; d >= 0; d--)
        if (region->subs[d].is_range) return d;
    return -1;
}

// The extent of the last dimension counted in elements of another type; NULL after an error.
static Expr *recount(Checker *cx, const Region *region, DType type, Span span)
{
    Arena *const a = cx->arena;
    const int last = last_range(region), from = dtype_bits(region->buffer->type), to = dtype_bits(type);
    Expr *const width = region->subs[last].width;
    if (from == to) return width;
    if (last != region->buffer->rank - 1 || region->subs[last].step) {
        check_error(cx, region->span, "a view of another type needs a last dimension that is contiguous");
        return NULL;
    }
    Expr *const bits = int_mul(a, width, int_const(a, from));
    int64_t known;
    if (expr_as_int(bits, &known) && known % to != 0) {
        check_error(cx, span, "%lld bytes are no whole number of %s", (long long)(known / 8), dtype_name(type));
        return NULL;
    }
    return expr_binary(a, X_DIV, bits, int_const(a, to));
}

typedef struct Count {
    int64_t constant;
    Expr *rest;
} Count;

// The number of elements as a constant times whatever is not known.
static Count count_elements(Checker *cx, Expr *const *extents, int n)
{
    Count count = { 1, NULL };
    for (int i = 0; i < n; i++) {
        int64_t value;
        if (expr_as_int(extents[i], &value)) count.constant *= value;
        else count.rest = count.rest ? int_mul(cx->arena, count.rest, extents[i]) : extents[i];
    }
    return count;
}

static bool same_count(Checker *cx, Span span, Expr *const *left, int n, Expr *const *right, int m)
{
    const Count l = count_elements(cx, left, n), r = count_elements(cx, right, m);
    if (l.constant == r.constant || (l.rest && r.rest) || (l.rest && r.constant % (l.constant ? l.constant : 1) == 0) ||
        (r.rest && l.constant % (r.constant ? r.constant : 1) == 0)) {
        if (l.rest || r.rest || l.constant == r.constant) return true;
    }
    check_error(cx, span, "the view has %lld elements, what it names %lld", (long long)l.constant,
                (long long)r.constant);
    return false;
}

static bool view_shape(Checker *cx, Buffer *view, const Region *region, const Ex *extents, Expr *recounted, Span span)
{
    Expr *natural[MAX_RANK];
    int n = 0, m = 0;
    const int last = last_range(region);
    for (int d = 0; d < region->buffer->rank; d++)
        if (region->subs[d].is_range) natural[n++] = d == last ? recounted : region->subs[d].width;
    if (!extents) {
        view->rank = n;
        for (int d = 0; d < n; d++) view->shape[d] = natural[d];
        return true;
    }
    for (const Ex *extent = extents; extent; extent = extent->next) {
        if (m == MAX_RANK) return check_error(cx, extent->span, "more than %d dimensions", MAX_RANK);
        Expr *const x = check_int(cx, extent, "an extent");
        if (!x) return false;
        view->shape[m++] = snapshot(cx, x, "extent", extent->span);
    }
    view->rank = m;
    return same_count(cx, span, view->shape, m, natural, n);
}

// Root in registers: its elements have no order in memory, so only the shape may change.
static bool fits_fragment(Checker *cx, const Region *region, DType type)
{
    if (buffer_root(region->buffer)->kind != BUFFER_FRAGMENT) return true;
    if (type != region->buffer->type)
        return check_error(cx, region->span, "a view of a fragment keeps its type, %s",
                           dtype_name(region->buffer->type));
    if (!region_is_whole(region))
        return check_error(cx, region->span, "a view of a fragment names all of it, not a slice");
    return true;
}

Buffer *new_view(Checker *cx, const char *name, DType type, const Region *slice, const Ex *extents, Span span)
{
    Region region = *slice;
    if (last_range(slice) < 0) {
        check_error(cx, slice->span, "a view names a tensor, a tile or a slice, not a single element");
        return NULL;
    }
    freeze_region(cx, &region);
    if (!fits_fragment(cx, &region, type)) return NULL;
    Expr *const recounted = recount(cx, &region, type, span);
    if (!recounted) return NULL;
    Buffer *const view = tile_new_buffer(cx->kernel, BUFFER_VIEW, type, name, 0, span);
    view->base = region;
    view->access = buffer_root(region.buffer)->access;
    view->param = -1;
    return view_shape(cx, view, &region, extents, recounted, span) ? view : NULL;
}

static void check_one_view(Checker *cx, const St *st, const Declarator *one)
{
    Entity made = { .kind = ENTITY_POISON, .name = one->name, .span = one->span, .what = "a view" };
    Entity *base;
    Region region;
    const DType type = st->view.has_type ? resolve_type(cx, &st->view.type) : DTYPE_NONE;
    if (one->init->kind != EX_NAME && one->init->kind != EX_SUBSCRIPT) {
        check_error(cx, one->init->span, "a view names a tensor, a tile or a slice of one");
    } else if (check_region(cx, one->init, &base, &region) && (!st->view.has_type || type != DTYPE_NONE)) {
        Buffer *const view =
            new_view(cx, one->name, st->view.has_type ? type : region.buffer->type, &region, one->extents, one->span);
        if (view) {
            made.kind = ENTITY_BUFFER;
            made.buffer = view;
            made.may_read = base->may_read;
            made.may_write = base->may_write;
        }
    } else if (base && base->kind != ENTITY_POISON && base->kind != ENTITY_BUFFER) {
        check_error(cx, one->init->span, "a view names a tensor, a tile or a slice of one");
    }
    declare(cx, made);
}

void check_view(Checker *cx, const St *st)
{
    if (cx->forall) {
        check_error(cx, st->span, "a view stands outside of forall");
        return;
    }
    for (const Declarator *one = st->view.name; one; one = one->next) check_one_view(cx, st, one);
}
