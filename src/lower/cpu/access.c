// SPDX-License-Identifier: MIT
// access.c - where the elements of a slice lie: through views, to a position in a tensor or tile and the conditions
// under which it is inside.
//
// A subscript becomes a *group*: a linear form over the slice's axes that counts along one dimension, or along
// several merged ones (a view may merge and split dimensions). Groups are carried from a view to its base, leaving a
// check after at every level that can cut, until a tensor or tile gives them strides.
#include "lower/cpu/cpu.h"

#include <assert.h>

typedef struct Group {
    Linear at;        // in parts of an element: `parts` to one
    int first, count; // of the dimensions it runs along, merged row-major
    int parts;
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
static int place_unit(const Place *p) { return p->bytes ? 8 : dtype_bits(p->type); }

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

// How the dimensions of a view stand to its base's ranges: equal ones in front and behind pair up; what is between, the
// *run*, is merged and split.
typedef struct Pairing {
    const Buffer *view;
    const Region *region;
    int dims[MAX_RANK], n;   // the ranges, as dimensions of the base
    int from_bits, to_bits;  // of an element: the view's and the base's
    bool same_shape;         // nothing is between
    int front, end_v, end_r; // the run begins there in both, and ends there in the view and among the ranges
} Pairing;

static Pairing pair_dimensions(const Buffer *view)
{
    const Region *const r = &view->base;
    Pairing pair = {
        .view = view, .region = r, .from_bits = dtype_bits(view->type), .to_bits = dtype_bits(r->buffer->type)
    };
    for (int d = 0; d < r->buffer->rank; d++)
        if (r->subs[d].is_range) pair.dims[pair.n++] = d;
    const bool same_bits = pair.from_bits == pair.to_bits;
    ViewPairs pairs = common_pair_view(view);
    pair.same_shape = same_bits && pairs.front == view->rank && pairs.front == pair.n;
    // What counts bytes is in the run if that is empty on one side.
    if (!same_bits && (view->rank - pairs.front == pairs.back) != (pair.n - pairs.front == pairs.back)) pairs.back = 0;
    pair.front = pairs.front;
    pair.end_v = view->rank - pairs.back;
    pair.end_r = pair.n - pairs.back;
    return pair;
}

static void check_view(Cpu *cx, Place *p, const Pairing *pair, const Group *groups, int n)
{
    for (int g = 0; g < n; g++) {
        if (pair->same_shape && groups[g].count == 1 && takes_all(pair->region, pair->dims[groups[g].first])) continue;
        Expr *const elements = extent_of(cx, pair->view, groups[g].first, groups[g].count);
        add_check(cx, p, groups[g].at, int_mul(cx->arena, elements, int_const(cx->arena, groups[g].parts)));
    }
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

// The same groups, with those that cross either end of the run taken apart; -1: one cannot be.
static int split_groups(Cpu *cx, Place *p, const Pairing *pair, const Group *groups, int n, Group *to)
{
    int m = 0;
    for (int g = 0; g < n; g++) {
        const int first = groups[g].first, end = first + groups[g].count;
        if (first < pair->front ? end <= pair->front : first >= pair->end_v || end <= pair->end_v) {
            to[m++] = groups[g];
            continue;
        }
        if (!may_split(cx, p, &groups[g], pair->view)) return -1;
        for (int k = 0; k < end - first; k++) {
            Expr *const index =
                index_of_position(cx, groups[g].at.base, (Expr **)pair->view->shape + first, end - first, k);
            to[m++] = index_group(cx, index, first + k);
        }
    }
    return m;
}

// Groups over the view's dimensions as groups over the ranges, of which those of the run are one.
static int groups_of_ranges(Cpu *cx, const Pairing *pair, const Group *groups, int n, Group *to)
{
    int m = 0;
    const int rank = pair->view->rank;
    const bool same_bits = pair->from_bits == pair->to_bits;
    Group run = { .at = linear_const(cx, 0), .first = pair->front, .count = pair->end_r - pair->front, .parts = 1 };
    bool run_stands = run.count == 0;
    for (int g = 0; g < n; g++) {
        Group one = groups[g];
        const int first = one.first, end = first + one.count;
        const bool in_run = first >= pair->front && first < pair->end_v;
        if (first >= pair->end_v && !run_stands) {
            to[m++] = run;
            run_stands = true;
        }
        if (in_run) one.at = linear_scale(cx, one.at, extent_of(cx, pair->view, end, pair->end_v - end));
        if (!same_bits && (end == rank || (in_run && pair->end_v == rank)))
            convert_units(cx, &one, pair->from_bits, pair->to_bits);
        if (in_run) {
            run.at = linear_add(cx, run.at, one.at);
            run.parts = one.parts > run.parts ? one.parts : run.parts;
        } else {
            one.first += first < pair->front ? 0 : pair->end_r - pair->end_v;
            to[m++] = one;
        }
    }
    if (!run_stands) to[m++] = run;
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

typedef struct Groups {
    Group items[MAX_RANK * 2];
    int n, dim;
} Groups; // of the base's dimensions up to `dim`

// The region's indices before dimension `end`.
static void add_indices(Cpu *cx, Groups *to, const Region *r, int end)
{
    for (; to->dim < end; to->dim++) to->items[to->n++] = index_group(cx, r->subs[to->dim].start, to->dim);
}

static void add_merged(Cpu *cx, Groups *to, const Pairing *pair, int i, int j, Linear at, int parts)
{
    to->items[to->n++] = merged_group(cx, pair->region, pair->dims, i, j, at, parts);
    to->dim = pair->dims[j - 1] + 1;
}

// A group over ranges as one over the base's dimensions, or one for each if they are no run of elements.
static bool add_range_group(Cpu *cx, Place *p, const Pairing *pair, const Group *g, Groups *to)
{
    const int i = g->first, j = i + g->count, *const dims = pair->dims;
    Expr *widths[MAX_RANK];
    add_indices(cx, to, pair->region, dims[i]);
    if (is_one_run(pair->region, dims, i, j)) {
        add_merged(cx, to, pair, i, j, g->at, g->parts);
        return true;
    }
    if (!may_split(cx, p, g, pair->view)) return false;
    for (int x = i; x < j; x++) widths[x - i] = pair->region->subs[dims[x]].width;
    for (int x = i; x < j; x++) {
        add_indices(cx, to, pair->region, dims[x]);
        add_merged(cx, to, pair, x, x + 1, (Linear){ .base = index_of_position(cx, g->at.base, widths, j - i, x - i) },
                   1);
    }
    return true;
}

// One group per dimension of the base, or per run of merged ones, from those of the view.
static bool resolve_view(Cpu *cx, Place *p, Buffer *view, const Group *groups, int n)
{
    const Pairing pair = pair_dimensions(view);
    Group split[MAX_RANK * 2], ranges[MAX_RANK * 2];
    Groups to = { .n = 0 };
    check_view(cx, p, &pair, groups, n);
    n = split_groups(cx, p, &pair, groups, n, split);
    if (n < 0) return false;
    n = groups_of_ranges(cx, &pair, split, n, ranges);
    for (int g = 0; g < n; g++)
        if (!add_range_group(cx, p, &pair, &ranges[g], &to)) return false;
    add_indices(cx, &to, pair.region, pair.region->buffer->rank);
    return resolve(cx, p, pair.region->buffer, to.items, to.n);
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

// Elements of a root to what a place counts, a byte or its own packed element: of narrower ones in a tensor several.
static int to_a_unit(const Place *p)
{
    const int bits = dtype_bits(p->root->type), unit = place_unit(p);
    return p->root->kind == BUFFER_TENSOR && bits < 8 && bits < unit ? unit / bits : 1;
}

static Expr *unit_of(Cpu *cx, const Place *p, Expr *at)
{
    return to_a_unit(p) == 1 ? at : cpu_expr(cx, expr_binary(cx->arena, X_DIV, at, int_const(cx->arena, to_a_unit(p))));
}

Expr *cpu_place_load(Cpu *cx, const Place *p, Expr *at)
{
    if (p->packed)
        return cpu_call(cx, p->type, dtype_bits(p->type) == 4 ? "kiln_get_bits4" : "kiln_get_bits2", 2,
                        cpu_of(cx, p->pointer), unit_of(cx, p, at));
    if (p->bytes)
        return cpu_call(cx, p->type, arena_printf(cx->arena, "kiln_load_%s", dtype_info[p->type].c_name), 2,
                        cpu_of(cx, p->pointer), unit_of(cx, p, at));
    Expr *const element = expr_index(cx->arena, p->pointer, at);
    element->type = p->type; // of a packed type in a tile, whose array is of bytes
    return element;
}

DType cpu_array_type(DType t) { return t != DTYPE_NONE && dtype_bits(t) < 8 ? DTYPE_U8 : t; }

void cpu_place_store(Cpu *cx, const Place *p, Expr *at, Expr *value)
{
    if (p->packed) // iterations of a reference's forall are several threads'
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT,
                                  arena_printf(cx->arena, cx->sequential ? "kiln_set_shared_bits%d" : "kiln_set_bits%d",
                                               dtype_bits(p->type)),
                                  3, cpu_of(cx, p->pointer), unit_of(cx, p, at), value));
    else if (p->bytes)
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, arena_printf(cx->arena, "kiln_store_%s", dtype_info[p->type].c_name),
                                  3, cpu_of(cx, p->pointer), unit_of(cx, p, at), value));
    else cpu_add(cx, (LoopStmt){ .kind = L_STORE, .store = { p->pointer, at, value } });
}

Expr *cpu_place_address(Cpu *cx, const Place *p, Expr *at)
{
    assert(!p->packed && "bits have no address");
    if (p->bytes) return cpu_call(cx, p->type, "kiln_at", 2, cpu_of(cx, p->pointer), unit_of(cx, p, at));
    return expr_address(cx->arena, p->pointer, at);
}

int64_t cpu_place_stride(const Place *p, int axis)
{
    int64_t stride;
    if (!p->at.coef[axis] || !expr_as_int(p->at.coef[axis], &stride)) return 0;
    const int unit = p->bytes ? dtype_bits(p->type) / 8 * to_a_unit(p) : p->packed ? to_a_unit(p) : 1;
    return stride % unit == 0 ? stride / unit : 0;
}
