// access.c - where the elements of a slice lie: through views, to a position in a tensor or tile and the conditions
// under which it is inside.
//
// A subscript becomes a *group*: a linear form over the slice's axes that counts along one dimension, or along
// several merged ones (a view may merge and split dimensions). Groups are carried from a view to its base, leaving a
// check behind at every level that can cut, until a tensor or tile gives them strides.
#include "lower/cpu/cpu.h"

#include <assert.h>

typedef struct Group {
    Linear at;                       // in parts of an element: `parts` to one
    int    first, count;             // of the dimensions it runs along, merged row-major
    int    parts;
} Group;

// ---- linear forms

static Linear linear_const(Cpu *cx, int64_t value) { return (Linear){ .base = int_const(cx->arena, value) }; }

static Linear linear_add(Cpu *cx, Linear a, Linear b)
{
    a.base = int_add(cx->arena, a.base, b.base);
    for (int i = 0; i < MAX_RANK; i++)
        if (b.coef[i]) a.coef[i] = a.coef[i] ? int_add(cx->arena, a.coef[i], b.coef[i]) : b.coef[i];
    return a;
}

static Linear linear_scale(Cpu *cx, Linear a, Expr *by)
{
    a.base = int_mul(cx->arena, a.base, by);
    for (int i = 0; i < MAX_RANK; i++)
        if (a.coef[i]) a.coef[i] = int_mul(cx->arena, a.coef[i], by);
    return a;
}

static Linear linear_scale_by(Cpu *cx, Linear a, int64_t by)
{
    return by == 1 ? a : linear_scale(cx, a, int_const(cx->arena, by));
}

Expr *cpu_linear_at(Cpu *cx, const Linear *l, Expr **axes)
{
    Expr *sum = cpu_expr(cx, l->base);
    for (int a = 0; a < MAX_RANK; a++)
        if (l->coef[a] && axes && axes[a])
            sum = int_add(cx->arena, sum, int_mul(cx->arena, axes[a], cpu_expr(cx, l->coef[a])));
    return sum;
}

// ---- checks

static bool is_at_least(const Expr *x, int64_t lo)
{
    const Range r = expr_range(x);
    return r.has_lo && r.lo >= lo;
}

// Whether no element of the slice can be outside [0, extent).
static bool is_inside(Cpu *cx, const Place *p, const Linear *at, Expr *extent)
{
    Expr *last = at->base;
    if (!is_at_least(at->base, 0)) return false;
    for (int a = 0; a < p->n_axes; a++) {
        if (!at->coef[a]) continue;
        if (!is_at_least(at->coef[a], 0)) return false;
        Expr *const steps = int_sub(cx->arena, p->widths[a], int_const(cx->arena, 1));
        last = int_add(cx->arena, last, int_mul(cx->arena, at->coef[a], steps));
    }
    return is_at_least(int_sub(cx->arena, extent, last), 1);
}

static void add_check(Cpu *cx, Place *p, Linear at, Expr *extent)
{
    if (is_inside(cx, p, &at, extent)) return;
    for (int i = 0; i < p->checks.count; i++) {
        const PlaceCheck *const c = &p->checks.items[i];
        bool same = expr_equal(c->at.base, at.base) && expr_equal(c->extent, extent);
        for (int a = 0; a < p->n_axes && same; a++)
            same = (!c->at.coef[a] && !at.coef[a]) ||
                   (c->at.coef[a] && at.coef[a] && expr_equal(c->at.coef[a], at.coef[a]));
        if (same) return;
    }
    VEC_PUSH(cx->arena, &p->checks, ((PlaceCheck){ at, extent }));
}

static Expr *extent_of(Cpu *cx, const Buffer *b, int first, int count)
{
    Expr *x = int_const(cx->arena, 1);
    for (int d = first; d < first + count; d++) x = int_mul(cx->arena, x, b->shape[d]);
    return x;
}

// ---- the end of the way: a tensor or a tile

static Expr *stride_of(Cpu *cx, const Buffer *b, int dim)
{
    return b->kind == BUFFER_TENSOR ? cx->strides[b->id][dim] : cx->tiles[b->id].strides[dim];
}

// Bits that one step of place->at stands for.
static int place_unit(const Place *p)
{
    return p->bytes ? 8 : dtype_bits(p->type);
}

static void place_on_root(Cpu *cx, Place *p, Buffer *root, const Group *groups, int n)
{
    const int factor = p->type == root->type ? 1 : dtype_bits(root->type) / place_unit(p);
    p->root = root;
    p->pointer = root->kind == BUFFER_TENSOR ? cx->tensors[root->id] : cx->tiles[root->id].pointer;
    p->at = linear_const(cx, 0);
    for (int g = 0; g < n; g++) {
        Linear at = groups[g].at;
        Expr *const extent = int_mul(cx->arena, extent_of(cx, root, groups[g].first, groups[g].count),
                                     int_const(cx->arena, groups[g].parts));
        if (root->kind == BUFFER_TENSOR) add_check(cx, p, at, extent);
        else if (cpu_is_checked(cx) && p->n_axes == 0) at.base = cpu_check_sub(cx, at.base, extent, root, p->span);
        if (groups[g].count == 0) continue;
        Expr *const stride = stride_of(cx, root, groups[g].first + groups[g].count - 1);
        at = linear_scale(cx, at, stride);
        if (groups[g].parts <= factor) at = linear_scale_by(cx, at, factor / groups[g].parts);
        p->at = linear_add(cx, p->at, at);
    }
}

// ---- views

// The ranges of a view's region, as dimensions of the base.
static int range_dims(const Region *r, int dims[MAX_RANK])
{
    int n = 0;
    for (int d = 0; d < r->buffer->rank; d++)
        if (r->subs[d].is_range) dims[n++] = d;
    return n;
}

static Expr *step_of(Cpu *cx, const Sub *s) { return s->step ? s->step : int_const(cx->arena, 1); }

// Whether a range takes all of its dimension, so that the base's own check says the same as the view's.
static bool takes_all(const Region *r, int d)
{
    int64_t start, step = 1;
    const Sub *const s = &r->subs[d];
    return expr_as_int(s->start, &start) && start == 0 && (!s->step || expr_as_int(s->step, &step)) && step == 1 &&
           expr_equal(s->width, r->buffer->shape[d]);
}

static Group index_group(Cpu *cx, Expr *index, int dim)
{
    return (Group){ .at = { .base = index }, .first = dim, .count = 1, .parts = 1 };
}

// Ranges dims[i .. j-1] of the region merged, `at` counting along them.
static Group merged_group(Cpu *cx, const Region *r, const int *dims, int i, int j, Linear at, int parts)
{
    Expr *inner = int_const(cx->arena, parts), *start = int_const(cx->arena, 0);
    for (int k = j - 1; k >= i; k--) {
        const Sub *const s = &r->subs[dims[k]];
        if (j - i == 1) at = linear_scale(cx, at, step_of(cx, s));
        start = int_add(cx->arena, start, int_mul(cx->arena, s->start, inner));
        inner = int_mul(cx->arena, inner, r->buffer->shape[dims[k]]);
    }
    at.base = int_add(cx->arena, start, at.base);
    return (Group){ .at = at, .first = dims[i], .count = j - i, .parts = parts };
}

// `at` of a view of elements `from` bits wide, counted in elements (or parts) of `to` bits.
static void convert_units(Cpu *cx, Group *g, int from, int to)
{
    if (from >= to) g->at = linear_scale_by(cx, g->at, from / to);
    else g->parts *= to / from;
}

static bool same_extent(const Buffer *view, int v, const Region *r, int d)
{
    return expr_equal(view->shape[v], r->subs[d].width);
}

static bool resolve(Cpu *cx, Place *p, Buffer *b, Group *groups, int n);

// What runs along several dimensions that do not follow each other is no linear form of a slice's axes. An element's
// is taken apart by division; of a slice each element is placed on its own (elements.c).
static bool may_split(Cpu *cx, Place *p, const Group *g, const Buffer *view)
{
    if (p->n_axes > 0) p->by_elements = true;
    else if (g->parts > 1)
        cpu_unsupported(cx, p->span, "a view that changes the width of elements over this view ('%s')", view->name);
    return p->n_axes == 0 && g->parts == 1;
}

// The index along extents[k] of a position in extents[0] x ... x extents[n - 1], row-major.
static Expr *index_of_position(Cpu *cx, Expr *position, Expr **extents, int n, int k)
{
    Arena *const a = cx->arena;
    for (int i = k + 1; i < n; i++) position = expr_binary(a, X_DIV, position, extents[i]);
    return k > 0 ? expr_binary(a, X_MOD, position, extents[k]) : position;
}

// The same groups, with those that begin in front of `front` or `back` and end behind it taken apart.
static int split_groups(Cpu *cx, Place *p, const Buffer *view, int front, int back, const Group *groups, int n, Group *to)
{
    int m = 0;
    for (int g = 0; g < n; g++) {
        const int first = groups[g].first, end = first + groups[g].count;
        if (first < front ? end <= front : first >= back || end <= back) {
            to[m++] = groups[g];
            continue;
        }
        if (!may_split(cx, p, &groups[g], view)) return -1;
        for (int k = 0; k < end - first; k++)
            to[m++] = index_group(cx,
                                  index_of_position(cx, groups[g].at.base, (Expr **)view->shape + first, end - first,
                                                    k),
                                  first + k);
    }
    return m;
}

// Whether ranges dims[i .. j-1] of the region are one run of the base's elements.
static bool is_one_run(const Region *r, const int *dims, int i, int j)
{
    const Buffer *const root = buffer_root(r->buffer);
    bool one = dims[j - 1] - dims[i] == j - 1 - i && (j - i == 1 || (!root->strided && !root->stride[0]));
    for (int k = i + 1; k < j && one; k++) one = takes_all(r, dims[k]);
    return one;
}

// One group per dimension of the base, or per run of merged ones, from those of the view.
static bool resolve_view(Cpu *cx, Place *p, Buffer *view, Group *groups, int n)
{
    Region *const r = &view->base;
    Buffer *const base = r->buffer;
    const int vb = dtype_bits(view->type), bb = dtype_bits(base->type);
    int dims[MAX_RANK];
    const int n_ranges = range_dims(r, dims);
    bool same_shape = view->rank == n_ranges && vb == bb;
    for (int d = 0; d < n_ranges && same_shape; d++) same_shape = same_extent(view, d, r, dims[d]);

    for (int g = 0; g < n; g++) {
        const bool covered = same_shape && groups[g].count == 1 && takes_all(r, dims[groups[g].first]);
        Expr *const extent = int_mul(cx->arena, extent_of(cx, view, groups[g].first, groups[g].count),
                                     int_const(cx->arena, groups[g].parts));
        if (!covered) add_check(cx, p, groups[g].at, extent);
    }

    // Equal dimensions in front and behind pair up; what is between is merged and split as one run.
    int front = 0, back = 0;
    if (same_shape)
        front = n_ranges;
    else {
        while (front < view->rank && front < n_ranges && same_extent(view, front, r, dims[front]) &&
               !(vb != bb && (front == view->rank - 1 || front == n_ranges - 1))) front++;
        if (vb != bb) back = view->rank > front && n_ranges > front;       // the last range counts bytes
        while (back < view->rank - front && back < n_ranges - front &&
               same_extent(view, view->rank - 1 - back, r, dims[n_ranges - 1 - back])) back++;
        if (vb != bb && (view->rank - front - back == 0) != (n_ranges - front - back == 0)) back = 0;
    }
    const int middle_v = view->rank - back, middle_r = n_ranges - back;

    Group split[MAX_RANK * 2];
    n = split_groups(cx, p, view, front, middle_v, groups, n, split);
    if (n < 0) return false;
    Group range_groups[MAX_RANK * 2];                      // over ranges: first and count index dims[]
    int m = 0;
    Group run = { .at = linear_const(cx, 0), .first = front, .count = middle_r - front, .parts = 1 };
    bool run_stands = run.count == 0;
    for (int g = 0; g < n; g++) {
        const int first = split[g].first, end = first + split[g].count;
        Group to = split[g];
        if (first >= middle_v && !run_stands) {
            range_groups[m++] = run;
            run_stands = true;
        }
        const bool in_run = first >= front && first < middle_v;
        if (in_run)
            to.at = linear_scale(cx, to.at, extent_of(cx, view, end, middle_v - end));
        if (vb != bb && (end == view->rank || (in_run && middle_v == view->rank))) convert_units(cx, &to, vb, bb);
        if (!in_run) {
            to.first += first < front ? 0 : middle_r - middle_v;
            range_groups[m++] = to;
        } else {
            run.at = linear_add(cx, run.at, to.at);
            run.parts = to.parts > run.parts ? to.parts : run.parts;
        }
    }
    if (!run_stands) range_groups[m++] = run;

    Group to[MAX_RANK * 2];
    int k = 0, d = 0;
    for (int g = 0; g < m; g++) {
        const int i = range_groups[g].first, j = i + range_groups[g].count;
        for (; d < dims[i]; d++) to[k++] = index_group(cx, r->subs[d].start, d);
        if (is_one_run(r, dims, i, j)) {
            to[k++] = merged_group(cx, r, dims, i, j, range_groups[g].at, range_groups[g].parts);
            d = dims[j - 1] + 1;
            continue;
        }
        if (!may_split(cx, p, &range_groups[g], view)) return false;
        Expr *widths[MAX_RANK];
        for (int x = i; x < j; x++) widths[x - i] = r->subs[dims[x]].width;
        for (int x = i; x < j; x++) {
            for (; d < dims[x]; d++) to[k++] = index_group(cx, r->subs[d].start, d);
            const Linear at = { .base = index_of_position(cx, range_groups[g].at.base, widths, j - i, x - i) };
            to[k++] = merged_group(cx, r, dims, x, x + 1, at, 1);
            d = dims[x] + 1;
        }
    }
    for (; d < base->rank; d++) to[k++] = index_group(cx, r->subs[d].start, d);
    return resolve(cx, p, base, to, k);
}

static bool resolve(Cpu *cx, Place *p, Buffer *b, Group *groups, int n)
{
    if (b->kind == BUFFER_VIEW) return resolve_view(cx, p, b, groups, n);
    place_on_root(cx, p, b, groups, n);
    return !cx->failed;
}

// ---- the two ways in

static void begin_place(Place *p, Buffer *buffer, Span span)
{
    const Buffer *const root = buffer_root(buffer);
    *p = (Place){ .buffer = buffer, .type = buffer->type, .span = span };
    const bool tile = root->kind != BUFFER_TENSOR;
    p->packed = dtype_bits(p->type) < 8 && (!tile || root->type != p->type);
    // A view of another type, or one that runs over a base of another type on the way.
    for (const Buffer *b = buffer; b->kind == BUFFER_VIEW; b = b->base.buffer)
        if (b->type != b->base.buffer->type && !p->packed) p->bytes = dtype_bits(p->type) >= 8 && p->type != root->type;
}

bool cpu_place_element(Cpu *cx, Place *p, Buffer *buffer, Expr **subs, Span span)
{
    Group groups[MAX_RANK];
    begin_place(p, buffer, span);
    for (int d = 0; d < buffer->rank; d++) groups[d] = index_group(cx, subs[d], d);
    return resolve(cx, p, buffer, groups, buffer->rank);
}

bool cpu_place_region(Cpu *cx, Place *p, const Region *region)
{
    Group groups[MAX_RANK];
    begin_place(p, region->buffer, region->span);
    for (int d = 0; d < region->buffer->rank; d++) {
        const Sub *const s = &region->subs[d];
        groups[d] = index_group(cx, s->start, d);
        if (!s->is_range) continue;
        groups[d].at.coef[p->n_axes] = step_of(cx, s);
        p->widths[p->n_axes++] = s->width;
    }
    p->region = region;
    return resolve(cx, p, region->buffer, groups, region->buffer->rank) || p->by_elements;
}

// ---- using a place

Expr *cpu_place_condition(Cpu *cx, const Place *p)
{
    Arena *const a = cx->arena;
    Expr *all = NULL;
    for (int i = 0; i < p->checks.count; i++) {
        const PlaceCheck *const c = &p->checks.items[i];
        Expr *const zero = int_const(a, 0);
        if (!is_at_least(c->at.base, 0)) all = cpu_both(cx, all, cpu_expr(cx, expr_binary(a, X_GE, c->at.base, zero)));
        all = cpu_both(cx, all, cpu_expr(cx, expr_binary(a, X_LT, c->at.base, c->extent)));
    }
    return all;
}

Expr *cpu_place_load(Cpu *cx, const Place *p, Expr *at)
{
    if (p->packed)
        return cpu_call(cx, p->type, dtype_bits(p->type) == 4 ? "kiln_get_bits4" : "kiln_get_bits2", 2,
                    cpu_of(cx, p->pointer), at);
    if (p->bytes)
        return cpu_call(cx, p->type, arena_printf(cx->arena, "kiln_load_%s", dtype_info[p->type].c_name), 2,
                    cpu_of(cx, p->pointer), at);
    Expr *const element = expr_index(cx->arena, p->pointer, at);
    element->type = p->type;                               // of a packed type in a tile, whose array is of bytes
    return element;
}

DType cpu_array_type(DType t) { return t != DTYPE_NONE && dtype_bits(t) < 8 ? DTYPE_U8 : t; }

void cpu_place_store(Cpu *cx, const Place *p, Expr *at, Expr *value)
{
    if (p->packed)
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, dtype_bits(p->type) == 4 ? "kiln_set_bits4" : "kiln_set_bits2", 3,
                          cpu_of(cx, p->pointer), at, value));
    else if (p->bytes)
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, arena_printf(cx->arena, "kiln_store_%s", dtype_info[p->type].c_name), 3,
                          cpu_of(cx, p->pointer), at, value));
    else
        cpu_add(cx, (LoopStmt){ .kind = L_STORE, .store = { p->pointer, at, value } });
}

Expr *cpu_place_address(Cpu *cx, const Place *p, Expr *at)
{
    assert(!p->packed && "bits have no address");
    if (p->bytes) return cpu_call(cx, p->type, "kiln_at", 2, cpu_of(cx, p->pointer), at);
    return expr_address(cx->arena, p->pointer, at);
}

int64_t cpu_place_stride(const Place *p, int axis)
{
    int64_t stride;
    if (!p->at.coef[axis] || !expr_as_int(p->at.coef[axis], &stride)) return 0;
    const int unit = p->bytes ? dtype_bits(p->type) / 8 : 1;
    return stride % unit == 0 ? stride / unit : 0;
}
