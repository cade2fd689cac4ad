// SPDX-License-Identifier: MIT
// structure.c - jumps become structure, slices inside foralls become indices.
//
// before: as the source says       after: no continue and no return outside forall where an `if` can say the same; no
// condition of a while reads a tile; a forall that copies slices is a forall over the slices' elements as well
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/facts/info.h"

static TileOp *last_of(TileOp *block)
{
    while (block && block->next) block = block->next;
    return block;
}

static bool ends_with(TileOp *block, TileKind kind)
{
    const TileOp *const last = last_of(block);
    return last && last->kind == kind;
}

static void drop_last(TileOp **link)
{
    while (*link && (*link)->next) link = &(*link)->next;
    *link = NULL;
}

// if (c) { x; continue; } rest     becomes     if (c) { x } else { rest }
static void structure_block(TileOp **block, TileKind kind)
{
    for (TileOp *op = *block; op; op = op->next) {
        if (op->kind == kind) {
            op->next = NULL;
            drop_last(block);
            return;
        }
        if (op->kind != T_IF) continue;
        TileOp *const rest = op->next;
        if (ends_with(op->branch.then, kind)) {
            drop_last(&op->branch.then);
            if (op->branch.otherwise) last_of(op->branch.otherwise)->next = rest;
            else op->branch.otherwise = rest;
            op->next = NULL;
            structure_block(&op->branch.then, kind);
            structure_block(&op->branch.otherwise, kind);
            return;
        }
        if (ends_with(op->branch.otherwise, kind)) {
            drop_last(&op->branch.otherwise);
            if (op->branch.then) last_of(op->branch.then)->next = rest;
            else op->branch.then = rest;
            op->next = NULL;
            structure_block(&op->branch.then, kind);
            return;
        }
    }
}

// while (c) { x }     becomes     while (true) { if (!c) break; x }     where c reads a tile: then what orders accesses
// sees that it reads anew in every step.
static void structure_condition(Lowering *lo, TileOp *op)
{
    Arena *const a = lo->arena;
    if (!expr_loads(op->while_.cond)) return;
    TileOp *const leave = NEW(a, TileOp, .kind = T_IF, .span = op->span, .groups = op->groups, .next = op->while_.body);
    leave->branch.cond = expr_unary(a, X_NOT, op->while_.cond);
    leave->branch.then = NEW(a, TileOp, .kind = T_BREAK, .span = op->span, .groups = op->groups);
    op->while_.body = leave;
    op->while_.cond = expr_int(a, DTYPE_BOOL, 1);
}

static bool structure_loops(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_FOR) structure_block(&op->for_.body, T_CONTINUE);
    if (op->kind == T_PIPELINE) structure_block(&op->pipeline.body, T_CONTINUE);
    if (op->kind == T_WHILE) {
        structure_block(&op->while_.body, T_CONTINUE);
        structure_condition(lo, op);
    }
    return op->kind == T_FORALL;
}

// ---- slices in foralls

static bool is_slice_op(const TileOp *op)
{
    return op->kind == T_COPY || op->kind == T_FILL || op->kind == T_ATOMIC_TILE;
}

// With an index for each of the slice's dimensions a forall would have more than it can.
static bool has_room_for(const TileOp *forall, const TileOp *slice)
{
    const Region *const dst = slice->kind == T_FILL ? &slice->fill.dst : &slice->copy.dst;
    return forall->forall.n + region_rank(dst) <= LOOP_INDICES_MAX;
}

typedef struct Effects {
    TileOp *body;
    bool hazard;
} Effects;

static void see_read(const TileUse *use, void *context)
{
    Effects *const effects = context;
    if (use->reads) effects->hazard |= tile_block_writes(effects->body, buffer_root(use->buffer));
}

// Can the statements be foralls of their own? Scalars are computed again for each, so they may not read what the body
// writes; a statement may not jump over others.
static bool can_split(const TileOp *forall)
{
    bool any = false;
    Effects effects = { forall->forall.body, false };
    for (TileOp *op = forall->forall.body; op; op = op->next) {
        any |= is_slice_op(op);
        if (is_slice_op(op) && !has_room_for(forall, op)) return false;
        if (op->kind == T_LET) tile_uses(op, see_read, &effects);
        else if (!is_slice_op(op) && op->kind != T_STORE && op->kind != T_ATOMIC &&
                 (op->kind != T_UPDATE || op->update.var))
            return false;
    }
    return any && !effects.hazard;
}

static TileOp *split_one(Lowering *lo, TileOp *forall, TileOp *one)
{
    TileOp *const map = is_slice_op(one) ? as_map(lo, one) : NULL;
    const int extra = map ? map->forall.n : 0, n = forall->forall.n + extra;
    TileOp *const made =
        NEW(lo->arena, TileOp, .kind = T_FORALL, .span = one->span, .groups = forall->groups, .stage = forall->stage);
    made->forall.n = n;
    made->forall.indices = NEW_ARRAY(lo->arena, LoopIndex, n + 1);
    for (int i = 0; i < n; i++)
        made->forall.indices[i] =
            i < forall->forall.n ? forall->forall.indices[i] : map->forall.indices[i - forall->forall.n];
    TileOp **link = &made->forall.body;
    for (TileOp *op = forall->forall.body; op != one; op = op->next) {
        if (op->kind != T_LET) continue;
        *link = NEW(lo->arena, TileOp, .kind = T_LET);
        **link = *op;
        (*link)->next = NULL;
        link = &(*link)->next;
    }
    if (map) {
        *link = map->forall.body;
    } else {
        *link = NEW(lo->arena, TileOp, .kind = one->kind);
        **link = *one;
        (*link)->next = NULL;
    }
    return made;
}

// ---- indices that are one row together: s[i*G + g][j] with i < X and g < G is s[r][j], i = r / G, g = r % G;
// G may be 1 (one query head for each key head)

typedef struct Pair {
    int high, low;
    int64_t highs, lows;
} Pair;

static bool match_pair(Lowering *lo, const TileOp *forall, Expr *sub, Pair *pair)
{
    const LoopIndex *const indices = forall->forall.indices;
    for (int i = 0; i < forall->forall.n; i++)
        for (int j = 0; j < forall->forall.n; j++) {
            Var *const vars[2] = { indices[i].var, indices[j].var };
            int64_t coefficients[2], constant;
            Expr *rest;
            if (i == j || !full_extent(&indices[i], &pair->highs) || !full_extent(&indices[j], &pair->lows) ||
                !expr_affine(lo->arena, sub, vars, 2, coefficients, &rest) || !expr_as_int(rest, &constant) ||
                constant != 0 || coefficients[0] != pair->lows || coefficients[1] != 1)
                continue;
            pair->high = i;
            pair->low = j;
            return true;
        }
    return false;
}

typedef struct FindPair {
    Lowering *lo;
    TileOp *forall;
    Pair pair;
    bool found, blocked;
} FindPair;

static void find_pair(const TileUse *use, void *context)
{
    FindPair *const find = context;
    if (find->found || !use->subs || use->buffer->kind != BUFFER_FRAGMENT) return;
    for (int d = 0; d < use->buffer->rank && !find->found; d++)
        find->found = match_pair(find->lo, find->forall, use->subs[d], &find->pair);
}

static bool find_pair_op(Lowering *lo, TileOp *op, void *context)
{
    FindPair *const find = context;
    tile_uses(op, find_pair, find);
    // A reduction over one of the two needs it as an index.
    find->blocked |= op->kind == T_UPDATE && op->update.reduces;
    return false;
}

typedef struct Merge {
    Lowering *lo;
    const Var *high, *low;
    Expr *row, *high_value, *low_value;
    int64_t lows;
} Merge;

static Expr *merge_expr(Expr *x, void *context)
{
    Merge *const m = context;
    if (x->kind == E_VAR) return x->var.var == m->high ? m->high_value : x->var.var == m->low ? m->low_value : x;
    return x;
}

// i*G + g itself becomes r before the single indices are replaced.
static void merge_sub(Merge *m, Expr **sub)
{
    Var *const vars[2] = { (Var *)m->high, (Var *)m->low };
    int64_t coefficients[2], constant;
    Expr *rest;
    if (expr_affine(m->lo->arena, *sub, vars, 2, coefficients, &rest) && coefficients[1] == 1 &&
        coefficients[0] == m->lows && !expr_uses(rest, m->high) && !expr_uses(rest, m->low)) {
        *sub = expr_as_int(rest, &constant) && constant == 0 ? m->row : int_add(m->lo->arena, rest, m->row);
        return;
    }
    *sub = expr_map(m->lo->arena, *sub, merge_expr, m);
}

// expr_map is post-order and would replace the indices inside subscripts first: this goes from the outside.
static Expr *merge_whole(Merge *m, Expr *x);

static void merge_subs(Merge *m, Expr **subs, int rank)
{
    for (int d = 0; d < rank; d++) {
        Expr *sub = subs[d];
        merge_sub(m, &sub);
        subs[d] = sub;
    }
}

static Expr *merge_whole(Merge *m, Expr *x)
{
    Arena *const a = m->lo->arena;
    if (x->kind == E_VAR) return merge_expr(x, m);
    if (x->kind == E_LOAD) {
        Expr *subs[MAX_RANK];
        for (int d = 0; d < x->load.buffer->rank; d++) {
            subs[d] = x->load.subs[d];
            if (!expr_loads(subs[d])) merge_sub(m, &subs[d]);
            else subs[d] = merge_whole(m, subs[d]);
        }
        return expr_load(a, x->load.buffer, subs);
    }
    Expr *const copy = NEW(a, Expr, .kind = x->kind);
    *copy = *x;
    Expr **slots[EXPR_SLOTS_MAX];
    switch (copy->kind) { // operand lists are shared with the original: give the copy its own
    case E_MATH:
        copy->math.args = NEW_ARRAY(a, Expr *, copy->math.n + 1);
        memcpy(copy->math.args, x->math.args, sizeof(Expr *) * (size_t)copy->math.n);
        break;
    case E_CALL:
        if (copy->call.n > 0) {
            copy->call.args = NEW_ARRAY(a, Expr *, copy->call.n + 1);
            memcpy(copy->call.args, x->call.args, sizeof(Expr *) * (size_t)copy->call.n);
        }
        break;
    case E_ATOMIC:
        copy->atomic.subs = NEW_ARRAY(a, Expr *, MAX_RANK);
        memcpy(copy->atomic.subs, x->atomic.subs, sizeof(Expr *) * (size_t)x->atomic.buffer->rank);
        break;
    case E_INT:
    case E_FLOAT:
    case E_VAR:
    case E_LOAD:
    case E_UNARY:
    case E_BINARY:
    case E_SELECT:
    case E_CONVERT:
    case E_BITCAST:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    const int n = expr_children(copy, slots, COUNT(slots));
    for (int i = 0; i < n; i++) *slots[i] = merge_whole(m, *slots[i]);
    return copy;
}

static TileOp *copy_block(Merge *m, TileOp *block);

static void merge_value(Merge *m, Expr **x)
{
    if (*x) *x = merge_whole(m, *x);
}

static TileOp *copy_op(Merge *m, const TileOp *op)
{
    TileOp *const copy = NEW(m->lo->arena, TileOp, .kind = op->kind);
    *copy = *op;
    copy->next = NULL;
    Expr **const subs = NEW_ARRAY(m->lo->arena, Expr *, MAX_RANK);
    switch (op->kind) {
    case T_LET:
    case T_SET: merge_value(m, &copy->let.value); break;
    case T_STORE:
        memcpy(subs, op->store.subs, sizeof(Expr *) * (size_t)op->store.buffer->rank);
        copy->store.subs = subs;
        merge_subs(m, subs, op->store.buffer->rank);
        merge_value(m, &copy->store.value);
        break;
    case T_UPDATE:
        if (op->update.buffer) {
            memcpy(subs, op->update.subs, sizeof(Expr *) * (size_t)op->update.buffer->rank);
            copy->update.subs = subs;
            merge_subs(m, subs, op->update.buffer->rank);
        }
        merge_value(m, &copy->update.value);
        break;
    case T_IF:
        merge_value(m, &copy->branch.cond);
        copy->branch.then = copy_block(m, op->branch.then);
        copy->branch.otherwise = copy_block(m, op->branch.otherwise);
        break;
    case T_TILE: // can_merge has let no other through
    case T_ATOMIC:
    case T_ATOMIC_TILE:
    case T_FILL:
    case T_COPY:
    case T_MATMUL:
    case T_SCAN:
    case T_FORALL:
    case T_FOR:
    case T_WHILE:
    case T_PIPELINE:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: break;
    }
    return copy;
}

static TileOp *copy_block(Merge *m, TileOp *block)
{
    TileOp *first = NULL, **link = &first;
    for (TileOp *op = block; op; op = op->next) {
        *link = copy_op(m, op);
        link = &(*link)->next;
    }
    return first;
}

static bool can_merge(const TileOp *block)
{
    for (const TileOp *op = block; op; op = op->next) {
        if (op->kind == T_IF ? !(can_merge(op->branch.then) && can_merge(op->branch.otherwise))
                             : op->kind != T_LET && op->kind != T_SET && op->kind != T_STORE && op->kind != T_UPDATE &&
                                   op->kind != T_CONTINUE)
            return false;
    }
    return true;
}

static void merge_indices(Lowering *lo, TileOp *forall)
{
    FindPair find = { .lo = lo, .forall = forall };
    each_op(lo, forall->forall.body, find_pair_op, &find);
    if (!find.found || find.blocked || !can_merge(forall->forall.body)) return;
    Arena *const a = lo->arena;
    const Pair *const p = &find.pair;
    const LoopIndex row = new_index(lo, "row", int_const(a, p->highs * p->lows), forall->span);
    Expr *const r = expr_var(a, row.var);
    Merge merge = { lo,
                    forall->forall.indices[p->high].var,
                    forall->forall.indices[p->low].var,
                    r,
                    expr_binary(a, X_DIV, r, int_const(a, p->lows)),
                    expr_binary(a, X_MOD, r, int_const(a, p->lows)),
                    p->lows };
    LoopIndex *const indices = NEW_ARRAY(a, LoopIndex, forall->forall.n);
    int n = 0;
    for (int i = 0; i < forall->forall.n; i++) {
        if (i == p->high) indices[n++] = row;
        else if (i != p->low) indices[n++] = forall->forall.indices[i];
    }
    forall->forall.body = copy_block(&merge, forall->forall.body);
    forall->forall.indices = indices;
    forall->forall.n = n;
}

static void expand_block(Lowering *lo, TileOp **link)
{
    for (TileOp *op; (op = *link) != NULL;) {
        for (int i = 0; op->kind != T_FORALL; i++) {
            TileOp **const body = tile_bodies(op, i);
            if (!body) break;
            expand_block(lo, body);
        }
        if (op->kind != T_FORALL || !can_split(op)) {
            if (op->kind == T_FORALL) merge_indices(lo, op);
            link = &op->next;
            continue;
        }
        TileOp *const rest = op->next;
        for (TileOp *one = op->forall.body; one; one = one->next)
            if (one->kind != T_LET) {
                *link = split_one(lo, op, one);
                merge_indices(lo, *link);
                link = &(*link)->next;
            }
        *link = rest;
    }
}

void structure_kernel(Lowering *lo)
{
    structure_block(&lo->kernel->body, T_RETURN);
    each_op(lo, lo->kernel->body, structure_loops, NULL);
    expand_block(lo, &lo->kernel->body);
}
