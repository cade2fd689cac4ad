// SPDX-License-Identifier: MIT
// make_copies.c - a forall that copies between a tensor and a tile, element by element or row by row, becomes a copy.
//
//     forall (i : 64, j : 128) a[i][j] = A[m*64 + i][j];      a = A[m*64 +: 64][0 +: 128];
//
// They mean the same, bounds and conversions included; but a copy runs ahead, or is made by TMA, and the elements are not.
//
// before: simplified    after: where every index is one subscript of both sides, plus something that is the same for all
//                       iterations, and both sides have their dimensions in the same order, a copy
// never:  touches a forall that does something else as well, or whose value is computed, or rounded on the way
#include "passes/passes.h"

// One side: the region, and for each of its ranges the index that it stands for; -1: a range from before.
typedef struct Side {
    Region region;
    int order[MAX_RANK], n;
} Side;

static bool index_at(Arena *arena, const TileOp *forall, Expr *x, int *index, Expr **rest)
{
    Var *vars[LOOP_INDICES_MAX];
    int64_t coefficients[LOOP_INDICES_MAX];
    for (int i = 0; i < forall->forall.n; i++) vars[i] = forall->forall.indices[i].var;
    *index = -1;
    if (x->type != DTYPE_INT || !expr_affine(arena, x, vars, forall->forall.n, coefficients, rest)) return false;
    for (int i = 0; i < forall->forall.n; i++) {
        if (coefficients[i] == 0) continue;
        if (coefficients[i] != 1 || *index >= 0) return false;
        *index = i;
    }
    return !expr_loads(*rest);
}

static bool add_subscript(Arena *arena, const TileOp *forall, const Sub *sub, Side *side, int d)
{
    Expr *rest;
    int index;
    if (!index_at(arena, forall, sub->start, &index, &rest)) return false;
    side->region.subs[d] = *sub;
    if (sub->is_range) {
        if (index >= 0) return false;
        for (int i = 0; i < forall->forall.n; i++)
            if (expr_uses(sub->width, forall->forall.indices[i].var)) return false;
        side->order[side->n++] = -1;
    } else if (index >= 0) {
        const LoopIndex *const i = &forall->forall.indices[index];
        side->region.subs[d] = (Sub){ true, int_add(arena, rest, i->lo), int_sub(arena, i->hi, i->lo), NULL };
        side->order[side->n++] = index;
    }
    return true;
}

static bool make_side(Arena *arena, const TileOp *forall, const Region *r, Side *side)
{
    *side = (Side){ .region = { r->buffer, NEW_ARRAY(arena, Sub, r->buffer->rank + 1), r->span } };
    for (int d = 0; d < r->buffer->rank; d++)
        if (!add_subscript(arena, forall, &r->subs[d], side, d)) return false;
    return true;
}

static Region region_of_element(Arena *arena, Buffer *buffer, Expr *const *subs, Span span)
{
    Region r = { buffer, NEW_ARRAY(arena, Sub, buffer->rank + 1), span };
    for (int d = 0; d < buffer->rank; d++) r.subs[d] = (Sub){ false, subs[d], NULL, NULL };
    return r;
}

// Without conversions on the way that change no value: what narrow types are computed in.
static const Expr *without_widening(const Expr *x)
{
    while (x->kind == E_CONVERT) {
        const DType from = x->convert.a->type, to = x->type;
        if (!dtype_is_float(from) || (to != DTYPE_F32 && to != DTYPE_F64)) break;
        if (dtype_bits(from) > dtype_bits(to)) break;
        x = x->convert.a;
    }
    return x;
}

// What the body copies: of element to element, or a copy.
static bool regions_of(Arena *arena, const TileOp *op, Region *dst, Region *src)
{
    if (op->kind == T_COPY) return *dst = op->copy.dst, *src = op->copy.src, true;
    if (op->kind != T_STORE) return false;
    const Expr *value = op->store.value;
    if (value->kind == E_CONVERT && value->type == op->store.buffer->type) value = value->convert.a;
    value = without_widening(value);
    if (value->kind != E_LOAD) return false;
    *dst = region_of_element(arena, op->store.buffer, op->store.subs, op->span);
    *src = region_of_element(arena, value->load.buffer, value->load.subs, op->span);
    return true;
}

static bool has_constant_extents(const TileOp *forall)
{
    int64_t lo, hi;
    for (int i = 0; i < forall->forall.n; i++)
        if (!expr_as_int(forall->forall.indices[i].lo, &lo) || !expr_as_int(forall->forall.indices[i].hi, &hi) ||
            hi <= lo)
            return false;
    return true;
}

static bool is_complete(const TileOp *forall, const Side *dst, const Side *src)
{
    int indices = 0;
    if (dst->n != src->n || dst->n > MAX_RANK) return false;
    for (int d = 0; d < dst->n; d++) {
        if (dst->order[d] != src->order[d]) return false;
        indices += dst->order[d] >= 0;
    }
    return indices == forall->forall.n;
}

static bool make_copy(TileKernel *kernel, TileOp *op)
{
    Arena *const a = kernel->arena;
    const TileOp *const inner = op->forall.body;
    Region to, from;
    Side dst, src;
    if (!inner || inner->next || !has_constant_extents(op) || !regions_of(a, inner, &to, &from)) return false;
    const BufferKind kinds[] = { buffer_root(to.buffer)->kind, buffer_root(from.buffer)->kind };
    if ((kinds[0] == BUFFER_TENSOR) == (kinds[1] == BUFFER_TENSOR) || kinds[0] == BUFFER_LOCAL ||
        kinds[1] == BUFFER_LOCAL)
        return false;
    if (!make_side(a, op, &to, &dst) || !make_side(a, op, &from, &src) || !is_complete(op, &dst, &src)) return false;
    op->kind = T_COPY;
    op->copy.dst = dst.region;
    op->copy.src = src.region;
    return true;
}

static void make_in(TileKernel *kernel, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_FORALL) {
            make_copy(kernel, op);
            continue;
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) make_in(kernel, *body);
    }
}

void make_copies(TileKernel *kernel)
{
    if (!kernel->checked) make_in(kernel, kernel->body);
}
