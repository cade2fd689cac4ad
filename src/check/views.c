// SPDX-License-Identifier: MIT
// views.c - view T name[shape] = slice: another name for the same bytes.
//
// What the slice says is computed at the declaration, so every subscript that could change later is kept in a
// variable. A view of another shape has as many elements as the slice: that is proved, or tested.
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

// What a view asks for holds, `message` says what: an error where it is known that it does not, a precondition of the launch
// where shapes and arguments tell, and where the view is made in any case; else what `--check` builds, and sequential code, test.
static bool demand(Checker *cx, Expr *cond, const char *message, Span span)
{
    bool known;
    cond = expr_folded(cx->arena, cond);
    if (is_const_bool(cond, &known)) return known || check_error(cx, span, "%s", message);
    const char *const located = arena_printf(cx->arena, "%s: %s", span_where(cx->arena, span), message);
    if (known_at_launch(cond) && every_instance_comes_by(cx) && !cx->unreached && !cx->sequential)
        VEC_PUSH(cx->arena, &cx->requires, ((TileRequire){ cond, located, span }));
    else if (cx->sequential || cx->options->checked)
        emit(cx, (TileOp){ .kind = T_ASSERT, .span = span, .assertion = { cond, message, !cx->sequential } });
    return true;
}

// Elements of less than a byte stand together in one of a wider type, or in a byte of it, if the slice begins with that.
static bool begins_whole(Checker *cx, const Region *region, Expr *start, DType type, Span span)
{
    const int from = dtype_bits(region->buffer->type), to = dtype_bits(type) < 8 ? dtype_bits(type) : 8;
    if (from >= to) return true;
    Expr *const rest = expr_binary(cx->arena, X_MOD, start, int_const(cx->arena, to / from));
    return demand(cx, expr_binary(cx->arena, X_EQ, rest, int_const(cx->arena, 0)),
                  arena_printf(cx->arena, "the slice of '%s' begins at %s, which is within a %s", region->buffer->name,
                               show_expr(cx, start), to == 8 ? "byte" : dtype_name(type)),
                  span);
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
    Expr *const bits = int_mul(a, width, int_const(a, from)), *const whole = int_const(a, to);
    int64_t known;
    const char *const message =
        expr_as_int(bits, &known) && known % 8 == 0
            ? arena_printf(a, "%lld bytes are no whole number of %s", (long long)(known / 8), dtype_name(type))
            : arena_printf(a, "a row of %s %s is no whole number of %s", show_expr(cx, width),
                           dtype_name(region->buffer->type), dtype_name(type));
    Expr *const rest = expr_binary(a, X_MOD, bits, whole);
    if (!demand(cx, expr_binary(a, X_EQ, rest, int_const(a, 0)), message, span) ||
        !begins_whole(cx, region, region->subs[last].start, type, span))
        return NULL;
    return expr_binary(a, X_DIV, bits, whole);
}

// ---- as many elements as what it names

enum { FACTORS_MAX = 32 };

// A number of elements: a constant times what is not known.
typedef struct Count {
    int64_t constant;
    const Expr *factors[FACTORS_MAX];
    int n;
    bool is_long; // more factors than that
} Count;

static void multiply(Count *count, const Expr *x)
{
    int64_t value;
    if (expr_as_int(x, &value)) {
        if (__builtin_mul_overflow(count->constant, value, &count->constant)) count->is_long = true;
    } else if (x->kind == E_BINARY && x->op.op == X_MUL) {
        multiply(count, x->op.a);
        multiply(count, x->op.b);
    } else if (count->n < FACTORS_MAX) {
        count->factors[count->n++] = x;
    } else {
        count->is_long = true;
    }
}

static Count count_elements(Expr *const *extents, int n)
{
    Count count = { .constant = 1 };
    for (int i = 0; i < n; i++) multiply(&count, extents[i]);
    return count;
}

// Takes away what both have.
static void cancel(Count *l, Count *r)
{
    for (int i = l->n - 1; i >= 0; i--)
        for (int j = 0; j < r->n; j++)
            if (expr_equal(l->factors[i], r->factors[j])) {
                l->factors[i] = l->factors[--l->n];
                r->factors[j] = r->factors[--r->n];
                break;
            }
}

// A negative extent is empty.
static Expr *product_of(Checker *cx, Expr *const *extents, int n)
{
    Expr *product = int_const(cx->arena, 1);
    for (int i = 0; i < n; i++)
        product = int_mul(cx->arena, product, int_max(cx->arena, extents[i], int_const(cx->arena, 0)));
    return product;
}

// Constants that no values of the factors make equal, but 0.
static bool never_equal(const Count *l, const Count *r)
{
    if (l->is_long || r->is_long || (l->n && r->n)) return false;
    if (l->n == 0 && r->n == 0) return l->constant != r->constant;
    const int64_t all = l->n ? r->constant : l->constant, part = l->n ? l->constant : r->constant;
    return part != 0 && all % part != 0;
}

static bool same_count(Checker *cx, const char *name, Span span, Expr *const *left, int n, Expr *const *right, int m)
{
    Count l = count_elements(left, n), r = count_elements(right, m);
    cancel(&l, &r);
    if (l.n == 0 && r.n == 0 && !l.is_long && !r.is_long && l.constant == r.constant) return true;
    Expr *const has = product_of(cx, left, n), *const names = product_of(cx, right, m);
    const char *const message = arena_printf(cx->arena, "the view '%s' has %s elements, what it names %s", name,
                                             show_expr(cx, has), show_expr(cx, names));
    if (never_equal(&l, &r)) return check_error(cx, span, "%s", message);
    return demand(cx, expr_binary(cx->arena, X_EQ, has, names), message, span);
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
    return same_count(cx, view->name, span, view->shape, m, natural, n);
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

// Tiles have each element of less than a byte in a byte of its own.
static bool fits_packed_tile(Checker *cx, const Region *region, DType type)
{
    const Buffer *const root = buffer_root(region->buffer);
    return root->kind == BUFFER_TENSOR || !dtype_is_packed(root->type) || type == root->type ||
           check_error(cx, region->span, "'%s' has a byte for each %s, as tiles do: a view of it has the same type",
                       root->name, dtype_name(root->type));
}

Buffer *new_view(Checker *cx, const char *name, DType type, const Region *slice, const Ex *extents, Span span)
{
    Region region = *slice;
    if (last_range(slice) < 0) {
        check_error(cx, slice->span, "a view names a tensor, a tile or a slice, not a single element");
        return NULL;
    }
    freeze_region(cx, &region);
    if (!fits_fragment(cx, &region, type) || !fits_packed_tile(cx, &region, type)) return NULL;
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
