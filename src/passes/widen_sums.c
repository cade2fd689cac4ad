// SPDX-License-Identifier: MIT
// widen_sums.c - sums in narrow types that one order of a forall's loops cannot complete get a wide tile.
//
// A sum or product over indices is rounded once (docs/language.md, 6). Loops do so with one wide accumulator if what is
// reduced runs innermost; two targets that keep different indices want different orders. The first has its way, the
// others are reduced into a tile of the wide type, which is added to the target after the forall.
//
// before: simplified    after: the narrow floating targets of a forall keep the same indices
// never:  bodies of reductions alone where they are a forall each (lower/cpu/forall.c), targets in tensors or views,
//         minima and maxima, which rounding does not change
#include "passes/passes.h"

typedef struct Sums {
    TileKernel *kernel;
    const TileOp *forall;
    bool any;
    uint32_t kept; // the indices of the first target
    TileOp *before, *after;
    TileOp **end; // of `after`
} Sums;

// An op like the forall, as far as where it stands goes.
static TileOp *beside(const Sums *s, TileKind kind, Span span)
{
    return NEW(s->kernel->arena, TileOp, .kind = kind, .span = span, .groups = s->forall->groups,
               .stage = s->forall->stage);
}

// An op of a forall's body, which has no place of its own: as `sum` there.
static TileOp *inside(const Sums *s, TileKind kind, const TileOp *sum)
{
    return NEW(s->kernel->arena, TileOp, .kind = kind, .span = sum->span, .groups = sum->groups, .stage = sum->stage);
}

static void insert_before(Sums *s, TileOp *op)
{
    op->next = s->before;
    s->before = op;
}

static bool is_narrow_sum(const TileOp *op)
{
    if (op->kind != T_UPDATE || !op->update.reduces || !op->update.buffer || !buffer_is_tile(op->update.buffer))
        return false;
    const DType type = op->update.buffer->type;
    return dtype_is_float(type) && dtype_info[type].wide == DTYPE_F32 && dtype_bits(type) < 32 &&
           (op->update.op == UPDATE_ADD || op->update.op == UPDATE_MUL);
}

static uint32_t kept_indices(const Sums *s, const TileOp *op)
{
    uint32_t kept = 0;
    for (int i = 0; i < s->forall->forall.n; i++)
        for (int d = 0; d < op->update.buffer->rank; d++)
            if (expr_uses(op->update.subs[d], s->forall->forall.indices[i].var)) kept |= 1u << i;
    return kept;
}

// A tile for the forall, filled.
static Buffer *add_tile(Sums *s, const Buffer *like, DType type, Expr *value)
{
    Buffer *const tile = tile_new_buffer(s->kernel, BUFFER_FRAGMENT, type, like->name, like->rank, like->span);
    TileOp *const fill = beside(s, T_FILL, like->span), *const declared = beside(s, T_TILE, like->span);
    for (int d = 0; d < like->rank; d++) tile->shape[d] = like->shape[d];
    fill->fill.dst = region_whole(s->kernel->arena, tile, like->span);
    fill->fill.value = value;
    declared->tile.buffer = tile;
    insert_before(s, fill);
    insert_before(s, declared);
    return tile;
}

// --check: which elements are reached at all; the others may be undefined, and are not read.
static Buffer *note_reached(Sums *s, TileOp *sum)
{
    Arena *const a = s->kernel->arena;
    Buffer *const reached = add_tile(s, sum->update.buffer, DTYPE_BOOL, expr_bool(a, false));
    TileOp *const note = inside(s, T_UPDATE, sum);
    note->update = sum->update;
    note->update.buffer = reached;
    note->update.op = UPDATE_OR;
    note->update.value = expr_bool(a, true);
    note->next = sum->next;
    sum->next = note;
    return reached;
}

// target[all] op= wide[all], after the forall; of those reached.
static void add_up(Sums *s, const TileOp *sum, Buffer *target, Buffer *reached)
{
    Arena *const a = s->kernel->arena;
    TileOp *const all = beside(s, T_FORALL, sum->span), *const one = inside(s, T_UPDATE, sum);
    Expr **const subs = NEW_ARRAY(a, Expr *, target->rank + 1);
    all->forall.n = target->rank;
    all->forall.indices = NEW_ARRAY(a, LoopIndex, target->rank + 1);
    for (int d = 0; d < target->rank; d++) {
        Var *const var = tile_new_var(s->kernel, VAR_INDEX, DTYPE_INT, "at", sum->span);
        var->lo = int_const(a, 0);
        var->hi = int_sub(a, target->shape[d], int_const(a, 1));
        all->forall.indices[d] = (LoopIndex){ var, int_const(a, 0), target->shape[d] };
        subs[d] = expr_var(a, var);
    }
    one->update.buffer = target;
    one->update.subs = subs;
    one->update.op = sum->update.op;
    one->update.value = expr_load(a, sum->update.buffer, subs);
    all->forall.body = reached ? inside(s, T_IF, sum) : one;
    if (reached) all->forall.body->branch.cond = expr_load(a, reached, subs);
    if (reached) all->forall.body->branch.then = one;
    *s->end = all;
    s->end = &all->next;
}

// What nothing is added to stays as it is, a zero with its sign.
static void widen(Sums *s, TileOp *sum)
{
    Buffer *const target = sum->update.buffer, *const reached = s->kernel->checked ? note_reached(s, sum) : NULL;
    Expr *const neutral = expr_float(s->kernel->arena, DTYPE_F32, sum->update.op == UPDATE_MUL ? 1 : -0.0);
    sum->update.buffer = add_tile(s, target, DTYPE_F32, neutral);
    add_up(s, sum, target, reached);
}

// ---- foralls

static void widen_block(Sums *s, TileOp *op)
{
    for (; op; op = op->next) {
        if (is_narrow_sum(op)) {
            const uint32_t kept = kept_indices(s, op);
            if (!s->any) s->kept = kept;
            else if (kept != s->kept) widen(s, op);
            s->any = true;
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) widen_block(s, *body);
    }
}

static void widen_forall(TileKernel *kernel, TileOp **link)
{
    TileOp *const forall = *link;
    Sums s = { .kernel = kernel, .forall = forall };
    s.end = &s.after;
    if (!kernel->checked && tile_only_reduces(forall->forall.body)) return;
    widen_block(&s, forall->forall.body);
    if (!s.before) return;
    *link = s.before;
    while (s.before->next) s.before = s.before->next;
    s.before->next = forall;
    *s.end = forall->next;
    forall->next = s.after;
}

static void visit_block(TileKernel *kernel, TileOp **link)
{
    for (; *link; link = &(*link)->next) {
        TileOp *const op = *link;
        TileOp **body;
        if (op->kind == T_FORALL) widen_forall(kernel, link);
        else
            for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) visit_block(kernel, body);
        while (*link != op) link = &(*link)->next;
    }
}

void widen_sums(TileKernel *kernel) { visit_block(kernel, &kernel->body); }
