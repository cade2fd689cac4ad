// SPDX-License-Identifier: MIT
// iteration.c - indices and subscripts of a forall: copies as foralls, extents, and which indices a subscript is.
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

#include <assert.h>

Iteration own_iteration(void)
{
    Iteration it = { .layout = layout_new(0, NULL), .vector = -1 };
    for (int i = 0; i < COUNT(it.dim_of); i++) it.dim_of[i] = -1;
    return it;
}

bool is_map(const TileOp *op)
{
    return op->kind == T_FORALL || op->kind == T_COPY || op->kind == T_FILL || op->kind == T_ATOMIC_TILE;
}

// ---- copies as foralls

LoopIndex new_index(const Lowering *lo, const char *name, Expr *extent, Span span)
{
    Var *const var = tile_new_var(lo->kernel, VAR_INDEX, DTYPE_INT, name, span);
    const Range range = expr_range(extent);
    var->lo = int_const(lo->arena, 0);
    if (range.has_hi) var->hi = int_const(lo->arena, range.hi - 1);
    return (LoopIndex){ var, var->lo, extent };
}

// Where a part of a fragment begins along an axis of a copy between it and something else, or of a fill. 0: no such part.
static int64_t first_of_part(const Region *dst, const Region *src, int axis)
{
    const bool is_into = dst->buffer->kind == BUFFER_FRAGMENT;
    const Region *const part = is_into ? dst : src;
    int64_t first = 0;
    if (!part || part->buffer->kind != BUFFER_FRAGMENT || (is_into && src && src->buffer->kind == BUFFER_FRAGMENT))
        return 0;
    for (int d = 0; d < part->buffer->rank; d++) {
        const Sub *const sub = &part->subs[d];
        if (!sub->is_range || axis-- != 0) continue;
        return (!sub->step || expr_is_int(sub->step, 1)) && expr_as_int(sub->start, &first) && first > 0 ? first : 0;
    }
    return 0;
}

// An index counts a part of a fragment as the fragment does, so that its elements stay where they are. The place in the part.
static Expr *begin_at_part(const Lowering *lo, LoopIndex *index, int64_t first)
{
    Arena *const a = lo->arena;
    Expr *const shift = int_const(a, first);
    if (first == 0) return expr_var(a, index->var);
    index->lo = index->var->lo = shift;
    index->hi = int_add(a, index->hi, shift);
    if (index->var->hi) index->var->hi = int_add(a, index->var->hi, shift);
    return int_sub(a, expr_var(a, index->var), shift);
}

TileOp *map_of(const Lowering *lo, const TileOp *op)
{
    TileOp *const map = op->kind == T_FORALL ? (TileOp *)op : info_of(lo, op)->map;
    assert(map && "deciding has seen the statement");
    return map;
}

TileOp *as_map(Lowering *lo, TileOp *op)
{
    if (op->kind == T_FORALL) return op;
    OpInfo *const info = op_info(lo, op);
    if (info->map) return info->map;
    const Region *const dst = op->kind == T_FILL ? &op->fill.dst : &op->copy.dst;
    const Region *const src = op->kind == T_FILL ? NULL : &op->copy.src;
    const int n = region_rank(dst);
    LoopIndex *const indices = NEW_ARRAY(lo->arena, LoopIndex, n + 1);
    Expr *along[MAX_RANK], **const subs = NEW_ARRAY(lo->arena, Expr *, MAX_RANK), *from[MAX_RANK], *value;
    for (int i = 0; i < n; i++) {
        indices[i] = new_index(lo, arena_printf(lo->arena, "i%d", i), region_extent(dst, i), op->span);
        along[i] = begin_at_part(lo, &indices[i], lo->kernel->checked ? 0 : first_of_part(dst, src, i));
    }
    region_element(lo->arena, dst, along, subs);
    if (!src) {
        value = op->fill.value;
    } else {
        region_element(lo->arena, src, along, from);
        value = expr_load(lo->arena, src->buffer, from);
        value->span = src->span;
    }
    value = expr_convert(lo->arena, dst->buffer->type, value);
    TileOp *const body = NEW(lo->arena, TileOp, .kind = op->kind == T_ATOMIC_TILE ? T_ATOMIC : T_STORE,
                             .span = dst->span.source ? dst->span : op->span);
    if (op->kind == T_ATOMIC_TILE) {
        body->atomic.op = ATOMIC_ADD;
        body->atomic.buffer = dst->buffer;
        body->atomic.subs = subs;
        body->atomic.value = value;
    } else {
        body->store.buffer = dst->buffer;
        body->store.subs = subs;
        body->store.value = value;
    }
    TileOp *const map = NEW(lo->arena, TileOp, .kind = T_FORALL, .span = op->span, .groups = op->groups);
    map->forall.indices = indices;
    map->forall.n = n;
    map->forall.body = body;
    return info->map = map;
}

// ---- extents

bool static_extent(const LoopIndex *index, int64_t *lo, int64_t *hi)
{
    return expr_as_int(index->lo, lo) && expr_as_int(index->hi, hi);
}

bool full_extent(const LoopIndex *index, int64_t *extent)
{
    int64_t from;
    return static_extent(index, &from, extent) && from == 0 && *extent > 0;
}

// ---- subscripts

// -1: no plain index.
static int loop_index_of(const LoopIndex *indices, int n, const Expr *sub)
{
    if (sub->kind == E_VAR)
        for (int i = 0; i < n; i++)
            if (indices[i].var == sub->var.var) return i;
    return -1;
}

bool subscripts_are_indices(Expr *const *subs, int rank, const LoopIndex *indices, int n, int *which)
{
    for (int d = 0; d < rank; d++) {
        which[d] = loop_index_of(indices, n, subs[d]);
        for (int e = 0; e < d; e++)
            if (which[e] == which[d]) return false;
        if (which[d] < 0) return false;
    }
    return true;
}

// The next coefficient above `unit`. 0: none.
static int64_t next_unit(const int64_t *coefficients, int n, int64_t unit)
{
    int64_t next = 0;
    for (int i = 0; i < n; i++)
        if (coefficients[i] > unit && (next == 0 || coefficients[i] < next)) next = coefficients[i];
    return next;
}

// One subscript as indices that count it through together: y*H + h with y < Y and h < H, or each through some of these.
static bool match_split(const Lowering *lo, Expr *sub, const LoopIndex *indices, int n, DimensionSplit *split,
                        int *index)
{
    Var *vars[LAYOUT_MAX_RANK];
    int64_t coefficients[LAYOUT_MAX_RANK], constant, unit = 1;
    Expr *rest;
    int used = 0;
    if (n > LAYOUT_MAX_RANK) return false;
    for (int i = 0; i < n; i++) vars[i] = indices[i].var;
    if (!expr_affine(lo->arena, sub, vars, n, coefficients, &rest) || !expr_as_int(rest, &constant) || constant != 0)
        return false;
    for (int i = 0; i < n; i++) used += coefficients[i] != 0;
    split->n = used;
    for (int part = used - 1; part >= 0; part--) { // the fastest first
        const int64_t next = next_unit(coefficients, n, unit);
        int64_t extent = 0, from, to;
        for (int i = 0; i < n && extent == 0; i++)
            if (coefficients[i] == unit && static_extent(&indices[i], &from, &to) && from >= 0 && to > from) {
                index[part] = i;
                coefficients[i] = 0;
                extent = next ? next / unit : to;
                if (next % unit || to > extent) return false;
            }
        if (extent == 0 || unit * extent > 1 << 20) return false;
        split->extent[part] = (int)extent;
        unit *= extent;
    }
    return used > 1;
}

bool match_subscripts(const Lowering *lo, Expr *const *subs, int rank, const LoopIndex *indices, int n,
                      Subscripts *result)
{
    *result = (Subscripts){ 0 };
    bool seen[LAYOUT_MAX_RANK * 2] = { false };
    for (int d = 0; d < rank; d++) {
        DimensionSplit *const split = &result->dims[d];
        int index[LAYOUT_MAX_RANK] = { loop_index_of(indices, n, subs[d]) };
        if (index[0] >= 0) *split = (DimensionSplit){ 1, { 1 } };
        else if (!match_split(lo, subs[d], indices, n, split, index)) return false;
        result->is_split |= split->n > 1;
        for (int i = 0; i < split->n; i++) {
            if (result->n == LAYOUT_MAX_RANK || seen[index[i]]) return false;
            seen[index[i]] = true;
            result->index[result->n++] = index[i];
        }
    }
    return true;
}

bool split_layout(const TileInfo *tile, const Subscripts *subs, Layout *parts)
{
    *parts = tile->layout;
    return !subs->is_split || layout_split(&tile->layout, subs->dims, parts);
}

bool is_fragment_in_registers(const Lowering *lo, const Buffer *buffer)
{
    const TileInfo *const tile = tile_info(lo, buffer);
    return tile && tile->storage == TILE_IN_REGISTERS;
}

int vector_words(const Buffer *buffer, int width)
{
    const int bytes = width * dtype_bits(buffer->type) / 8;
    return bytes < 4 ? 1 : bytes / 4;
}

// Of index `index`; -1: there is none.
static int same_mode(const Iteration *it, int index, const LayoutMode *mode)
{
    int same = -1;
    for (int j = 0; j < it->layout.n; j++) {
        const LayoutMode *const other = &it->layout.mode[j];
        if (other->input == IN_REGISTER && other->dim == it->dim_of[index] && other->stride == mode->stride &&
            other->extent == mode->extent)
            same = j;
    }
    return same;
}

bool find_register_modes(const Lowering *lo, const TileInfo *tile, Expr *const *subs, const Iteration *it,
                         Layout *layout, int *same)
{
    Subscripts match = { 0 };
    *layout = tile->layout;
    if (it && tile->buffer->rank &&
        (!match_subscripts(lo, subs, tile->buffer->rank, it->indices, it->n, &match) ||
         !split_layout(tile, &match, layout)))
        return false;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->input != IN_REGISTER) continue;
        const int index = it && mode->dim >= 0 ? match.index[mode->dim] : -1;
        same[i] = index < 0 || it->dim_of[index] < 0 ? -1 : same_mode(it, index, mode);
        if (same[i] < 0) return false;
    }
    return true;
}
