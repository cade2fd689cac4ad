// SPDX-License-Identifier: MIT
// cover_fragments.c - a forall that comes to a part of a fragment's dimension, not from its start, runs over all of it.
//
//     forall (j : 64) s[i][j + 64] = ..j..;       forall (j : 64 .. 128) s[i][j] = ..j - 64..;
//
// A fragment's elements lie in registers by their subscripts; a forall whose index is not the subscript would need the
// elements in other threads, and a product's result would have to leave the registers. Of iterations that do nothing those
// that a register stands for vanish, and others cost a predicate. Indices that count a dimension through together, as in
// s[i][y*64 + h + 32], each take their part of the constant.
//
// before: simplified    after: an index that subscripts fragments only as itself plus one constant subscripts them as itself
// never:  less than a sixteenth of the dimension; nor where one index subscripts fragments in two ways
#include "passes/passes.h"

enum { MORE_ITERATIONS_MAX = 16 };

// How one index subscripts fragments: index + shift, in a dimension of `extent`, or in its part of one.
typedef struct Use {
    Arena *arena;
    const TileOp *forall;
    Var *index;
    int64_t shift, extent;
    int n;
    bool mixed;
} Use;

static int64_t floor_to(int64_t x, int64_t unit) { return x - (x % unit + unit) % unit; }

// What the index, whose coefficient is `unit`, has of a subscript that several count through: the next coefficient is the end of
// its part, in the fastest part the rest of the constant lies besides.
static bool find_part(Use *u, Expr *x, int64_t *extent, int64_t *shift)
{
    const int n = u->forall->forall.n;
    Var *vars[LOOP_INDICES_MAX];
    int64_t coefficients[LOOP_INDICES_MAX], constant, unit = 0, end = *extent;
    Expr *rest;
    for (int i = 0; i < n; i++) vars[i] = u->forall->forall.indices[i].var;
    if (x->type != DTYPE_INT || !expr_affine(u->arena, x, vars, n, coefficients, &rest) ||
        !expr_as_int(rest, &constant))
        return false;
    for (int i = 0; i < n; i++)
        if (vars[i] == u->index) unit = coefficients[i];
    if (unit <= 0) return false;
    int64_t least = unit;
    bool is_slowest = true;
    for (int i = 0; i < n; i++) {
        if (coefficients[i] < 0) return false;
        is_slowest &= coefficients[i] <= unit;
        if (coefficients[i] > unit && coefficients[i] < end) end = coefficients[i];
        if (coefficients[i] && coefficients[i] < least) least = coefficients[i];
    }
    const int64_t above = is_slowest ? 0 : floor_to(constant, end); // of slower indices
    *extent = end / unit;
    *shift = floor_to(constant - above, unit) / unit;
    return least == 1 && end % unit == 0;
}

static void see_subscript(Use *u, const Buffer *b, Expr *x, int d)
{
    int64_t extent, shift;
    if (!expr_uses(x, u->index)) return;
    const bool plain = expr_as_int(b->shape[d], &extent) && find_part(u, x, &extent, &shift);
    u->mixed |= !plain || (u->n > 0 && (shift != u->shift || extent != u->extent));
    if (u->mixed) return;
    u->shift = shift;
    u->extent = extent;
    u->n++;
}

static void see_use(const TileUse *use, void *context)
{
    Use *const u = context;
    const Buffer *const b = use->buffer;
    if (buffer_root(use->buffer)->kind != BUFFER_FRAGMENT) return;
    u->mixed |= b->kind == BUFFER_VIEW;
    for (int d = 0; d < b->rank && !u->mixed; d++) {
        if (use->region && use->region->subs[d].is_range) u->mixed |= expr_uses(use->region->subs[d].start, u->index);
        else if (use->region) see_subscript(u, b, use->region->subs[d].start, d);
        else if (use->subs) see_subscript(u, b, use->subs[d], d);
    }
}

static void see_block(Use *u, TileOp *op)
{
    for (; op; op = op->next) {
        tile_uses(op, see_use, u);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) see_block(u, *body);
    }
}

// ---- another index

typedef struct Shift {
    Arena *arena;
    const Var *from;
    Expr *to;
} Shift;

static void shift_slot(Expr **slot, void *context)
{
    const Shift *const s = context;
    *slot = expr_replace(s->arena, *slot, s->from, s->to);
}

static void shift_bounds(const Shift *s, Var *var)
{
    if (var->lo) var->lo = expr_replace(s->arena, var->lo, s->from, s->to);
    if (var->hi) var->hi = expr_replace(s->arena, var->hi, s->from, s->to);
}

static void shift_block(Shift *s, TileOp *op)
{
    for (; op; op = op->next) {
        tile_each_expr(op, shift_slot, s);
        if (op->kind == T_LET) shift_bounds(s, op->let.var);
        if (op->kind == T_FOR) shift_bounds(s, op->for_.var);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) shift_block(s, *body);
    }
}

static void cover(TileKernel *kernel, TileOp *op, LoopIndex *index, const Use *u)
{
    Arena *const a = kernel->arena;
    Var *const var = tile_new_var(kernel, VAR_INDEX, index->var->type, index->var->name, index->var->span);
    Expr *const shift = int_const(a, u->shift);
    Shift s = { a, index->var, int_sub(a, expr_var(a, var), shift) };
    *index = (LoopIndex){ var, int_add(a, index->lo, shift), int_add(a, index->hi, shift) };
    var->lo = index->lo;
    var->hi = int_sub(a, index->hi, int_const(a, 1));
    shift_block(&s, op->forall.body);
}

static void cover_index(TileKernel *kernel, TileOp *op, LoopIndex *index)
{
    int64_t lo, hi;
    Use u = { .arena = kernel->arena, .forall = op, .index = index->var };
    if (!expr_as_int(index->lo, &lo) || !expr_as_int(index->hi, &hi) || hi <= lo) return;
    see_block(&u, op->forall.body);
    if (u.mixed || u.n == 0 || u.shift == 0 || u.extent > MORE_ITERATIONS_MAX * (hi - lo)) return;
    if (lo + u.shift < 0 || hi + u.shift > u.extent) return; // outside the fragment: --check says so
    cover(kernel, op, index, &u);
}

static void cover_in(TileKernel *kernel, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_FORALL)
            for (int i = 0; i < op->forall.n; i++) cover_index(kernel, op, &op->forall.indices[i]);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) cover_in(kernel, *body);
    }
}

void cover_fragments(TileKernel *kernel)
{
    if (!kernel->checked) cover_in(kernel, kernel->body);
}
