// SPDX-License-Identifier: MIT
// slices.c - subscripts: elements and slices of tensors, tiles and views, to read and to write.
//
// The n-th bracket belongs to the n-th dimension, whatever the ones before it were; missing trailing brackets
// are [:]. What lies outside a tensor is legal (reads give 0, writes nothing); outside a tile it is not, and is an
// error where it can be seen here.
#include "check/context.h"

bool is_element(const Region *region)
{
    for (int d = 0; d < region->buffer->rank; d++)
        if (region->subs[d].is_range) return false;
    return true;
}

Expr **region_subs(Checker *cx, const Region *region)
{
    Expr **const subs = NEW_ARRAY(cx->arena, Expr *, region->buffer->rank + 1);
    for (int d = 0; d < region->buffer->rank; d++) subs[d] = region->subs[d].start;
    return subs;
}

Expr *load_element(Checker *cx, const Region *region)
{
    Expr *const load = expr_load(cx->arena, region->buffer, region_subs(cx, region));
    load->span = region->span;
    return load;
}

// ---- direction

static const char *mode_text(const Entity *entity) { return entity->may_read ? "in" : "out"; }

bool may_read(Checker *cx, const Entity *entity, Span span)
{
    if (!entity || entity->may_read) return true;
    check_error(cx, span, "'%s' is '%s' and is never read", entity->name, mode_text(entity));
    check_note(cx, entity->span, "declared here; 'inout' is read and written");
    return false;
}

bool may_write(Checker *cx, const Entity *entity, Span span)
{
    if (!entity || entity->may_write) return true;
    check_error(cx, span, "'%s' is '%s' and is never written", entity->name, mode_text(entity));
    check_note(cx, entity->span, "declared here; 'inout' is read and written");
    return false;
}

// ---- one subscript

static bool is_tile(const Buffer *buffer)
{
    const BufferKind kind = buffer_root((Buffer *)buffer)->kind;
    return kind == BUFFER_SHARED || kind == BUFFER_FRAGMENT || kind == BUFFER_LOCAL;
}

static bool is_no_index(const Expr *x, void *context)
{
    if (x->kind != E_VAR) return x->kind != E_INT && x->kind != E_BINARY;
    const Var *const var = x->var.var;
    return var->kind != VAR_INDEX || !expr_is_const(var->lo) || !expr_is_const(var->hi);
}

// Whether some value lies outside 0 .. room for certain: all of them, or, where nothing decides about it, one that
// indices take. (A value read or converted need not take all that its type allows; there may be none, in a loop that never runs.)
static bool is_outside(Checker *cx, const Expr *x, int64_t room)
{
    const Range r = expr_range(x);
    if (r.has_lo && r.has_hi && r.lo > r.hi) return false;
    if ((r.has_hi && r.hi < 0) || (r.has_lo && r.lo > room)) return true;
    if (cx->guards > 0 || expr_any(x, is_no_index, NULL) || !r.has_lo || !r.has_hi) return false;
    return r.lo < 0 || r.hi > room;
}

// So that sums of a few of them are numbers, too: nothing is that far from anything.
#define PLACE_MAX (INT64_C(1) << 60)

// A start, width or step that is a constant.
static bool is_near(Checker *cx, const Expr *x, Span span, const char *what)
{
    int64_t value;
    if (!x || !expr_as_int(x, &value) || (value >= -PLACE_MAX && value <= PLACE_MAX)) return true;
    return check_error(cx, span, "%s of %lld: there are -2^60 to 2^60", what, (long long)value);
}

static bool reaches_near(Checker *cx, const Sub *sub, Span span)
{
    int64_t width, step, last;
    if (!sub->step || !expr_as_int(sub->step, &step) || !expr_as_int(sub->width, &width) || width < 1) return true;
    if (!__builtin_mul_overflow(width - 1, step, &last) && last <= PLACE_MAX) return true;
    return check_error(cx, span, "%lld elements, each %lld after the one before, reach past 2^60", (long long)width,
                       (long long)step);
}

static bool check_inside(Checker *cx, const Buffer *buffer, int d, const Sub *sub, Span span)
{
    int64_t extent, width = 1, step = 1;
    if (!is_tile(buffer) || cx->sequential || !expr_as_int(buffer->shape[d], &extent)) return true;
    if (sub->is_range && !expr_as_int(sub->width, &width)) return true;
    if (sub->step && !expr_as_int(sub->step, &step)) return true;
    const int64_t last = sub->is_range ? (width - 1) * step : 0;
    if (width <= 0 || !is_outside(cx, sub->start, extent - 1 - last)) return true;
    const Range r = expr_range(sub->start);
    int64_t at;
    if (expr_as_int(sub->start, &at)) {
        if (sub->is_range)
            check_error(cx, span, "elements %lld .. %lld of an extent of %lld", (long long)at, (long long)(at + last),
                        (long long)extent);
        else check_error(cx, span, "element %lld of an extent of %lld", (long long)at, (long long)extent);
    } else {
        check_error(cx, span, "elements %lld .. %lld of an extent of %lld", (long long)r.lo, (long long)(r.hi + last),
                    (long long)extent);
    }
    check_note(cx, buffer->span, "'%s' is %s", buffer->name, show_buffer(cx, buffer));
    return false;
}

static bool check_sub(Checker *cx, const Buffer *buffer, int d, const Ex *ex, Sub *sub)
{
    *sub = (Sub){ .is_range = ex->sub.how != SUB_INDEX };
    if (ex->sub.how == SUB_ALL) {
        sub->start = int_const(cx->arena, 0);
        sub->width = buffer->shape[d];
        return true;
    }
    sub->start = check_int(cx, ex->sub.start, "a subscript");
    if (!is_near(cx, sub->start, ex->sub.start->span, sub->is_range ? "a start" : "a subscript")) return false;
    if (!sub->is_range) return sub->start && check_inside(cx, buffer, d, sub, ex->sub.start->span);
    sub->width = check_int(cx, ex->sub.width, "a width");
    int64_t constant;
    if (sub->width && expr_as_int(sub->width, &constant) && constant < 0) {
        check_error(cx, ex->sub.width->span, "a width of %lld", (long long)constant);
        return false;
    }
    if (ex->sub.step) {
        sub->step = check_int(cx, ex->sub.step, "a step");
        if (!sub->step) return false;
        if (expr_as_int(sub->step, &constant)) {
            if (constant <= 0)
                return check_error(cx, ex->sub.step->span, "a step of %lld: steps are positive", (long long)constant);
            if (constant == 1) sub->step = NULL;
        }
    }
    if (!sub->start || !sub->width || !is_near(cx, sub->width, ex->sub.width->span, "a width")) return false;
    const Span span = span_join(ex->sub.start->span, ex->sub.width->span);
    if (!reaches_near(cx, sub, span)) return false;
    return check_inside(cx, buffer, d, sub, span);
}

// ---- all of them

const Ex *subscript_base(const Ex *ex)
{
    while (ex->kind == EX_SUBSCRIPT) ex = ex->sub.base;
    return ex;
}

static int subscript_count(const Ex *ex)
{
    int n = 0;
    for (; ex->kind == EX_SUBSCRIPT; ex = ex->sub.base) n++;
    return n;
}

// The name and the region it is subscripted to; false after an error. Scalars have no region: `entity` is set, and without
// subscripts there was no error.
bool check_region(Checker *cx, const Ex *ex, Entity **entity, Region *region)
{
    const Ex *const base = subscript_base(ex);
    const int n = subscript_count(ex);
    *entity = NULL;
    if (base->kind != EX_NAME) {
        if (base->kind == EX_CALL && n > 0) return check_error(cx, ex->span, "the value of a function has no elements");
        return check_error(cx, ex->span, "expected a tensor or tile, or a slice of one");
    }
    const Value v = check_name(cx, base);
    if (v.kind == VALUE_POISON) return false;
    *entity = v.entity;
    if (v.kind != VALUE_REGION) {
        if (n > 0) check_error(cx, ex->span, "'%s' is %s and has no elements", base->name.name, show_value(cx, &v));
        else if (!v.entity)
            check_error(cx, ex->span, "'%s' is %s, not a tensor or tile", base->name.name, show_value(cx, &v));
        return false;
    }
    *region = v.region;
    region->span = ex->span;
    Buffer *const buffer = region->buffer;
    if (n > buffer->rank) {
        check_error(cx, ex->span, "%d subscripts, but '%s' has %d dimension%s", n, base->name.name, buffer->rank,
                    buffer->rank == 1 ? "" : "s");
        check_note(cx, buffer->span, "'%s' is %s", buffer->name, show_buffer(cx, buffer));
        return false;
    }
    bool ok = true;
    int d = n - 1;
    for (const Ex *sub = ex; sub->kind == EX_SUBSCRIPT; sub = sub->sub.base, d--)
        ok &= check_sub(cx, buffer, d, sub, &region->subs[d]);
    return ok && check_fragment_subs(cx, *entity, region);
}

Value check_subscript(Checker *cx, const Ex *ex)
{
    Entity *entity;
    Region region;
    if (!check_region(cx, ex, &entity, &region)) return POISON;
    if (!is_element(&region))
        return (Value){ .kind = VALUE_REGION, .span = ex->span, .region = region, .entity = entity };
    if (!may_read(cx, entity, ex->span)) return POISON;
    return scalar_value(load_element(cx, &region), ex->span);
}

Place check_place(Checker *cx, const Ex *ex)
{
    Place place = { .kind = PLACE_POISON, .span = ex->span };
    const Ex *const base = subscript_base(ex);
    if (base->kind != EX_NAME) {
        check_error(cx, ex->span, "only a variable, an element or a slice can be written");
        return place;
    }
    place.entity = get_entity(cx, base->name.name, base->span);
    const Entity *const entity = place.entity;
    if (entity->kind == ENTITY_POISON) return place;
    if (ex->kind == EX_NAME && entity->kind == ENTITY_VARIABLE) {
        if (!entity->may_write) {
            check_error(cx, ex->span, "'%s' is %s and does not change", entity->name,
                        entity->what ? entity->what : "a constant");
            if (entity->span.source) check_note(cx, entity->span, "declared here");
            return place;
        }
        place.kind = PLACE_VARIABLE;
        place.var = entity->var;
        place.type = entity->var->type;
        return place;
    }
    if (entity->kind == ENTITY_VALUE || entity->kind == ENTITY_TYPE || entity->kind == ENTITY_FUNCTION) {
        check_error(cx, ex->span, "'%s' is %s and does not change", entity->name,
                    entity->what ? entity->what : "a constant");
        if (entity->span.source) check_note(cx, entity->span, "declared here");
        return place;
    }
    Entity *same;
    if (!check_region(cx, ex, &same, &place.region)) return place;
    if (!may_write(cx, entity, ex->span)) return place;
    place.type = place.region.buffer->type;
    place.kind = is_element(&place.region) ? PLACE_ELEMENT : PLACE_REGION;
    return place;
}

// ---- shapes of two regions

bool same_shape(Checker *cx, Span span, const Region *dst, const Region *src, const char *what)
{
    const int rank = region_rank(dst);
    if (rank != region_rank(src)) {
        check_error(cx, span, "%s: %s on the left has %d dimension%s, %s on the right %d", what, show_region(cx, dst),
                    rank, rank == 1 ? "" : "s", show_region(cx, src), region_rank(src));
        return false;
    }
    for (int d = 0; d < rank; d++) {
        const Expr *const left = region_extent(dst, d), *const right = region_extent(src, d);
        if (expr_equal(left, right)) continue;
        int64_t l, r;
        const bool known_left = expr_as_int(left, &l), known_right = expr_as_int(right, &r);
        if (known_left && known_right) {
            check_error(cx, span, "%s: extents differ: %s on the left, %s on the right", what, show_region(cx, dst),
                        show_region(cx, src));
            if (rank == 2 && d == 0 && expr_equal(left, region_extent(src, 1)) &&
                expr_equal(region_extent(dst, 1), right))
                check_help(cx, span, "transposing is forall (i : ..., j : ...) dst[i][j] = src[j][i];");
            return false;
        }
        if (known_left || known_right) {
            check_error(cx, span, "%s: extents differ: %s on the left, %s on the right", what, show_expr(cx, left),
                        show_expr(cx, right));
            check_help(cx, span, "give the slice a width: [... +: %s]", show_expr(cx, known_left ? left : right));
            return false;
        }
        // Two run-time extents that cannot be proved equal are compared when the statement is reached.
        emit(cx, (TileOp){ .kind = T_ASSERT,
                           .span = span,
                           .assertion = { expr_binary(cx->arena, X_EQ, (Expr *)left, (Expr *)right),
                                          "the extents of the two sides differ", false } });
    }
    return true;
}
