// SPDX-License-Identifier: MIT
// forall.c - independent iterations as a loop nest that the C compiler turns into vectors.
//
// The innermost loop should run along memory, so the index that most accesses have in their last subscript goes there;
// iterations are independent, so any order is right. Everything that does not depend on an inner index is computed in
// front of that index's loop (expr.c), also what a reduction starts with and where it ends (reduce.c).
#include "lower/cpu/cpu.h"

#include <stdio.h>

// ---- looking at the body

typedef struct Survey {
    Cpu *cx;
    TileOp *forall;
    Nest *nest;
    int score[MAX_RANK + 8];
    bool narrow_target[MAX_RANK + 8]; // index is reduced into a type that cannot hold partial results
    const Buffer *reduced; // while the op that reduces into it is looked at: it is not accessed in the innermost loop
    bool plain;
    TileKind in_the_way;
} Survey;

// Every op of a block and the blocks below it.
static void each_op(TileOp *op, void (*visit)(TileOp *, void *), void *context)
{
    for (; op; op = op->next) {
        visit(op, context);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) each_op(*body, visit, context);
    }
}

static void score_access(const TileUse *use, void *context)
{
    Survey *const s = context;
    if (!use->subs || use->buffer == s->reduced) return;
    for (int i = 0; i < s->forall->forall.n; i++) {
        Var *const var = s->forall->forall.indices[i].var;
        for (int d = 0; d < use->buffer->rank; d++) {
            if (!expr_uses(use->subs[d], var)) continue;
            int64_t c = 0;
            Expr *rest;
            const bool along = d == use->buffer->rank - 1 &&
                               expr_affine(s->cx->arena, use->subs[d], &var, 1, &c, &rest) && c == 1 &&
                               !expr_loads(rest);
            s->score[i] += along ? (use->writes ? 4 : 2) : (use->writes ? -6 : -3);
        }
    }
}

static bool is_vectorisable(TileKind kind)
{
    return kind == T_LET || kind == T_SET || kind == T_STORE || kind == T_UPDATE || kind == T_IF || kind == T_TILE ||
           kind == T_CONTINUE;
}

static void survey_op(TileOp *op, void *context)
{
    Survey *const s = context;
    s->reduced = op->kind == T_UPDATE && op->update.reduces ? op->update.buffer : NULL;
    tile_uses(op, score_access, s);
    const bool is_atomic = op->kind == T_LET && op->let.value && expr_has_atomic(op->let.value);
    if (is_vectorisable(op->kind) && !is_atomic) {
    } else if (s->plain) {
        s->plain = false;
        s->in_the_way = op->kind;
    }
    if (op->kind == T_UPDATE && op->update.reduces && op->update.buffer &&
        dtype_info[op->update.buffer->type].wide != op->update.buffer->type)
        for (int i = 0; i < s->forall->forall.n; i++) {
            bool kept = false;
            for (int d = 0; d < op->update.buffer->rank; d++)
                kept = kept || expr_uses(op->update.subs[d], s->forall->forall.indices[i].var);
            if (!kept) s->narrow_target[i] = true;
        }
}

static void note_definition(TileOp *op, void *context)
{
    Nest *const nest = context;
    const Var *var = NULL;
    if (op->kind == T_LET || op->kind == T_SET) var = op->let.var;
    if (op->kind == T_UPDATE) var = op->update.var;
    if (op->kind == T_FOR) var = op->for_.var;
    if (var && var->id < nest->n_depths) nest->depth[var->id] = (int8_t)nest->n;
    for (int i = 0; op->kind == T_FORALL && i < op->forall.n; i++)
        nest->depth[op->forall.indices[i].var->id] = (int8_t)nest->n;
    for (int i = 0; op->kind == T_PIPELINE && i < op->pipeline.n; i++)
        nest->depth[op->pipeline.indices[i].var->id] = (int8_t)nest->n;
}

typedef struct Notes {
    Cpu *cx;
    Nest *nest;
} Notes;

static void note_write(const TileUse *use, void *context)
{
    const Notes *const n = context;
    if (use->writes || use->atomic) VEC_PUSH(n->cx->arena, &n->nest->written, (const Buffer *)buffer_root(use->buffer));
}

static void note_writes(TileOp *op, void *context) { tile_uses(op, note_write, context); }

// hi - lo where that is a constant; -1 elsewhere.
static int64_t const_extent(Cpu *cx, const LoopIndex *index)
{
    int64_t lo, hi, c;
    Expr *rest;
    if (expr_as_int(index->lo, &lo) && expr_as_int(index->hi, &hi)) return hi > lo ? hi - lo : 0;
    if (index->lo->kind != E_VAR || !expr_affine(cx->arena, index->hi, &index->lo->var.var, 1, &c, &rest)) return -1;
    return c == 1 && expr_as_int(rest, &hi) && hi >= 0 ? hi : -1;
}

// The order of the indices, outermost first. Reduced indices of narrow targets go innermost, so that one wide
// accumulator holds each sum; the rest keep the order of the source but for the one that runs along memory.
static void choose_order(Survey *s, int *order)
{
    const int n = s->forall->forall.n;
    int best = n - 1;
    bool any_narrow = false;
    for (int i = 0; i < n; i++) any_narrow = any_narrow || s->narrow_target[i];
    for (int i = 0; i < n; i++) {
        const int64_t extent = const_extent(s->cx, &s->forall->forall.indices[i]);
        if (extent >= 0 && extent < 4) s->score[i] -= 8;
        if (any_narrow && !s->narrow_target[i]) s->score[i] -= 1000;
    }
    for (int i = n - 1; i >= 0; i--)
        if (s->score[i] > s->score[best]) best = i;
    if (!s->plain && !any_narrow) best = n - 1;
    int k = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++)
            if (i != best && s->narrow_target[i] == (pass == 1)) order[k++] = i;
    order[k] = best;
}

// ---- conditions that hold nowhere

// Whether a comparison can hold anywhere in the box of the indices; NULL: cannot say.
static Expr *comparison_may_hold(Cpu *cx, const TileOp *forall, Expr *x)
{
    const int n = forall->forall.n;
    Var *vars[MAX_RANK + 8];
    int64_t c[MAX_RANK + 8];
    Expr *rest;
    if (x->op.a->type != DTYPE_INT || x->op.op == X_EQ || x->op.op == X_NE) return NULL;
    for (int i = 0; i < n; i++) vars[i] = forall->forall.indices[i].var;
    if (!expr_affine(cx->arena, int_sub(cx->arena, x->op.a, x->op.b), vars, n, c, &rest)) return NULL;
    const bool wants_least = x->op.op == X_LT || x->op.op == X_LE;
    for (int i = 0; i < n; i++) {
        const LoopIndex *const index = &forall->forall.indices[i];
        Expr *const last = int_sub(cx->arena, index->hi, int_const(cx->arena, 1));
        Expr *const at = (c[i] > 0) == wants_least ? index->lo : last;
        if (c[i]) rest = int_add(cx->arena, rest, int_mul(cx->arena, int_const(cx->arena, c[i]), at));
    }
    return expr_binary(cx->arena, x->op.op, rest, int_const(cx->arena, 0));
}

static bool is_local_var(const Expr *x, void *context)
{
    const TileOp *const forall = context;
    if (x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    for (int i = 0; x->kind == E_VAR && i < forall->forall.n; i++)
        if (forall->forall.indices[i].var == x->var.var) return true;
    for (const TileOp *op = forall->forall.body; op; op = op->next)
        if (x->kind == E_VAR && op->kind == T_LET && op->let.var == x->var.var) return true;
    return false;
}

static Expr *may_hold(Cpu *cx, TileOp *forall, Expr *x)
{
    if (!expr_any(x, is_local_var, forall)) return x;
    if (x->kind != E_BINARY) return NULL;
    if (x->op.op >= X_LT && x->op.op <= X_NE) return comparison_may_hold(cx, forall, x);
    if (x->op.op != X_AND && x->op.op != X_OR) return NULL;
    Expr *const a = may_hold(cx, forall, x->op.a), *const b = may_hold(cx, forall, x->op.b);
    if (x->op.op == X_AND && (!a || !b)) return a ? a : b;
    return a && b ? expr_binary(cx->arena, x->op.op, a, b) : NULL;
}

// For a body that is one `if`, maybe after definitions: the uniform test that decides whether any iteration acts.
static Expr *whole_test(Cpu *cx, TileOp *forall)
{
    TileOp *op = forall->forall.body;
    while (op && op->kind == T_LET && op->let.value && !op->let.var->assigned) op = op->next;
    if (!op || op->kind != T_IF || op->branch.otherwise || op->next) return NULL;
    Expr *cond = op->branch.cond;
    TileOp *lets[32];
    int n = 0;
    for (TileOp *let = forall->forall.body; let != op && n < COUNT(lets); let = let->next) lets[n++] = let;
    while (n > 0) {
        n--;
        if (expr_has_atomic(lets[n]->let.value)) return NULL;
        cond = expr_replace(cx->arena, cond, lets[n]->let.var, lets[n]->let.value);
    }
    return may_hold(cx, forall, cond);
}

// ---- the nest

static Expr *bound(Cpu *cx, Expr *x)
{
    Expr *const y = cpu_expr(cx, x);
    return y->kind == E_INT || y->kind == E_VAR ? y : cpu_of(cx, cpu_declare(cx, DTYPE_INT, "bound", y));
}

// The innermost index counts in 32 bits where its extent is known, so that comparisons with it are 32-bit lanes.
static void choose_inner(Cpu *cx, Nest *nest)
{
    const LoopIndex *const index = &nest->op->forall.indices[nest->order[nest->n - 1]];
    const int64_t extent = const_extent(cx, index);
    int64_t hi;
    if (cpu_is_checked(cx) || !nest->plain || extent < 0 || !expr_as_int(index->hi, &hi) || hi >= 1 << 30) return;
    nest->inner = index->var;
    nest->inner32 = loop_new_var(cx->unit, DTYPE_I32, index->var->name);
    Expr *const wide = NEW(cx->arena, Expr, .kind = E_CONVERT, .type = DTYPE_INT);
    wide->convert.a = cpu_of(cx, nest->inner32);
    cx->var_map[index->var->id] = wide;
}

static void append(LoopList *list, const LoopList *more)
{
    for (const LoopStmt *s = more->first; s; s = s->next) loop_add(list, *s);
}

static LoopList *new_list(Cpu *cx)
{
    LoopList *const list = NEW(cx->arena, LoopList, .arena = cx->arena);
    list->last = &list->first;
    return list;
}

// A reduction that keeps several vectors in flight: blocks of lanes, each lane with its own partial result. The partial
// results pass through memory, so that many lanes hide more; of a short row adding them up costs more.
static void choose_lanes(Cpu *cx, Nest *nest)
{
    Var *const var = nest->op->forall.indices[nest->order[nest->n - 1]].var;
    const int64_t extent = const_extent(cx, &nest->op->forall.indices[nest->order[nest->n - 1]]);
    const int lanes = extent >= 256 && extent % 128 == 0 ? 128 : extent >= 128 && extent % 64 == 0 ? 64 : 0;
    if (!nest->plain || !lanes || !cpu_reduces_in_lanes(cx, nest)) return;
    nest->n_lanes = lanes;
    nest->block = loop_new_var(cx->unit, DTYPE_INT, "block");
    nest->lane = loop_new_var(cx->unit, DTYPE_I32, "lane");
    nest->before_lanes = new_list(cx);
    Expr *const wide = NEW(cx->arena, Expr, .kind = E_CONVERT, .type = DTYPE_INT);
    wide->convert.a = cpu_of(cx, nest->lane);
    cx->var_map[var->id] = int_add(cx->arena, cpu_of(cx, nest->block), wide);
}

static LoopStmt loop_of_lanes(Cpu *cx, Nest *nest, Expr *lo, Expr *hi)
{
    Arena *const a = cx->arena;
    LoopList *const lanes = nest->before_lanes;
    loop_add(lanes, (LoopStmt){ .kind = L_FOR,
                                .for_ = { .var = nest->lane,
                                          .lo = expr_int(a, DTYPE_I32, 0),
                                          .hi = expr_int(a, DTYPE_I32, nest->n_lanes),
                                          .step = expr_int(a, DTYPE_I32, 1),
                                          .body = nest->before[nest->n]->first,
                                          .form = LOOP_VECTORISE } });
    return (LoopStmt){
        .kind = L_FOR,
        .for_ = { .var = nest->block, .lo = lo, .hi = hi, .step = int_const(a, nest->n_lanes), .body = lanes->first }
    };
}

// From the inside out: each level's statements end in its loop, then what follows it.
static void close_nest(Cpu *cx, Nest *nest, Expr **lo, Expr **hi)
{
    for (int level = nest->n; level >= 1; level--) {
        const LoopIndex *const index = &nest->op->forall.indices[nest->order[level - 1]];
        const bool innermost = level == nest->n;
        const bool lanes = innermost && nest->inner32;
        const bool vectorises = innermost && nest->plain && !cpu_is_checked(cx);
        Expr *const from = lanes ? expr_convert(cx->arena, DTYPE_I32, lo[level]) : lo[level];
        Expr *const to = lanes ? expr_convert(cx->arena, DTYPE_I32, hi[level]) : hi[level];
        append(nest->before[level], nest->after[level]);
        if (!nest->before[level]->first) continue;
        LoopStmt loop = { .kind = L_FOR,
                          .for_ = { .var = lanes ? nest->inner32 : index->var,
                                    .lo = from,
                                    .hi = to,
                                    .step = expr_int(cx->arena, lanes ? DTYPE_I32 : DTYPE_INT, 1),
                                    .body = nest->before[level]->first,
                                    .form = vectorises ? LOOP_VECTORISE : LOOP_PLAIN,
                                    .reductions = vectorises ? nest->reductions : NULL } };
        if (innermost && nest->lane) loop = loop_of_lanes(cx, nest, lo[level], hi[level]);
        if (innermost && nest->guard) {
            LoopList guarded = loop_list(cx->arena);
            loop_add(&guarded, loop);
            loop = (LoopStmt){ .kind = L_IF, .branch = { nest->guard, guarded.first, NULL } };
        }
        loop_add(nest->before[level - 1], loop);
    }
    append(nest->before[0], nest->after[0]);
}

static Nest *open_nest(Cpu *cx, TileOp *op)
{
    Nest *const nest = NEW(cx->arena, Nest, .outer = cx->nest, .op = op, .n = op->forall.n);
    Survey survey = { .cx = cx, .forall = op, .nest = nest, .plain = true };
    nest->n_depths = cx->kernel->n_vars + 1;
    nest->depth = NEW_ARRAY(cx->arena, int8_t, nest->n_depths);
    nest->last_reduction = &nest->reductions;
    each_op(op->forall.body, survey_op, &survey);
    each_op(op->forall.body, note_definition, nest);
    each_op(op->forall.body, note_writes, &(Notes){ cx, nest });
    nest->plain = survey.plain;
    nest->in_the_way = survey.in_the_way;
    choose_order(&survey, nest->order);
    return nest;
}

static void lower_nest(Cpu *cx, Nest *nest)
{
    TileOp *const op = nest->op;
    Expr *lo[MAX_RANK + 9], *hi[MAX_RANK + 9];
    nest->before[0] = cx->out;
    nest->after[0] = new_list(cx);
    for (int level = 1; level <= nest->n; level++) {
        const LoopIndex *const index = &op->forall.indices[nest->order[level - 1]];
        lo[level] = bound(cx, index->lo);
        hi[level] = bound(cx, index->hi);
        nest->depth[index->var->id] = (int8_t)level;
        if (const_extent(cx, index) <= 0) nest->may_be_empty = true;
        nest->before[level] = new_list(cx);
        nest->after[level] = new_list(cx);
    }
    choose_lanes(cx, nest);
    if (!nest->lane) choose_inner(cx, nest);
    const char *const label = cx->continue_label;
    cx->continue_label = NULL;
    cx->nest = nest;
    cpu_note_nest(cx, nest);
    cpu_enter(cx, nest->before[nest->n]);
    if (nest->n > 0 && !nest->outer && !cpu_is_checked(cx)) {
        Expr *const block = nest->lane ? cpu_of(cx, nest->block) : NULL;
        if (block)
            cpu_fetch_ahead(cx, op, nest, nest->before_lanes, block,
                            int_add(cx->arena, block, int_const(cx->arena, nest->n_lanes)));
        else cpu_fetch_ahead(cx, op, nest, nest->before[nest->n - 1], lo[nest->n], hi[nest->n]);
    }
    cpu_block(cx, op->forall.body);
    cx->nest = nest->outer;
    cx->continue_label = label;
    cx->out = nest->before[0];
    close_nest(cx, nest, lo, hi);
    if (nest->inner) cx->var_map[nest->inner->id] = NULL;
    if (nest->lane) cx->var_map[op->forall.indices[nest->order[nest->n - 1]].var->id] = NULL;
}

// A forall of one index that only copies slices, row by row.
static bool is_gather(const TileOp *forall)
{
    const TileOp *const op = forall->forall.body;
    return forall->forall.n == 1 && op && op->kind == T_COPY && !op->next;
}

static int index_at(Cpu *cx, TileOp *op, bool innermost, int64_t *extent)
{
    const Nest *const nest = open_nest(cx, op);
    if (!nest->n || (!nest->plain && (innermost || !is_gather(op)))) return -1;
    const int at = nest->order[innermost ? nest->n - 1 : 0];
    const LoopIndex *const index = &op->forall.indices[at];
    int64_t lo;
    return expr_as_int(index->lo, &lo) && lo == 0 && expr_as_int(index->hi, extent) ? at : -1;
}

// For rows.c: which index the outermost (innermost) loop counts, if it does so from 0 to a constant; -1: none.
int cpu_row_index(Cpu *cx, TileOp *op, int64_t *rows) { return index_at(cx, op, false, rows); }
int cpu_column_index(Cpu *cx, TileOp *op, int64_t *columns) { return index_at(cx, op, true, columns); }

// Several reductions are a forall each: none may use what another reduces into, one alone can keep partial results in
// lanes, and gcc 12 reads lanes that it has not set where an AVX2 loop has several clauses around conditions.
static void reduce_one_by_one(Cpu *cx, const TileOp *op)
{
    for (const TileOp *update = op->forall.body; update; update = update->next) {
        TileOp *const one = NEW(cx->arena, TileOp, .kind = T_FORALL);
        TileOp *const body = NEW(cx->arena, TileOp, .kind = T_UPDATE);
        *one = *op;
        *body = *update;
        body->next = one->next = NULL;
        one->forall.body = body;
        cpu_forall(cx, one);
    }
}

void cpu_forall(Cpu *cx, TileOp *op)
{
    if (!cpu_is_checked(cx) && op->forall.body && op->forall.body->next && tile_only_reduces(op->forall.body)) {
        reduce_one_by_one(cx, op);
        return;
    }
    Expr *const acts = cpu_is_checked(cx) ? NULL : whole_test(cx, op);
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    lower_nest(cx, open_nest(cx, op));
    cpu_enter(cx, out);
    cpu_add_if(cx, acts ? cpu_expr(cx, acts) : NULL, &body);
}
