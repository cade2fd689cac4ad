// SPDX-License-Identifier: MIT
// trace_foralls.c - --check builds find iterations of a forall that are not independent.
//
// None may read or write what another writes. Where that is not plain from the subscripts, each access tells the
// emitted code's list of touched elements (lower/cpu/prelude/check.c) who touched what; the second iteration that does
// stops the launch. The list lives as long as the forall.
//
// before: a checked kernel for the CPU              after: the same results, or a trap
// traces: tiles and tensors that a forall writes, named directly, by elements or by rows
// never:  what reductions and atomics write, views, arrays of one iteration, conditions of `while`
#include "passes/passes.h"

typedef struct Trace {
    TileKernel *kernel;
    Arena *arena;
    const TileOp *forall;
    Var *iteration;
    bool *written, *barred, *differs; // by id of the buffer
    Expr ***first;                    // the subscripts of the access met first
    Expr *guard;                      // conditions inside the expression at hand; NULL: none
    bool is_impure;                   // the guard has an effect: nothing is traced under it
    TileOp **link;                    // where calls go: before the op at hand
} Trace;

// ---- which buffers

// Element by element or row by row of the buffer itself: subscripts, the last maybe a range without steps.
static bool is_plain(const TileUse *use)
{
    const Buffer *const b = use->buffer;
    if (b->kind == BUFFER_VIEW || b->kind == BUFFER_LOCAL || (!use->subs && !use->region) || b->rank == 0) return false;
    for (int d = 0; use->region && d < b->rank; d++)
        if (use->region->subs[d].is_range && (d != b->rank - 1 || use->region->subs[d].step)) return false;
    return true;
}

static Expr *start_of(const TileUse *use, int d) { return use->region ? use->region->subs[d].start : use->subs[d]; }

// Each index is a subscript by itself, so that no two iterations have an element in common.
static bool names_iteration(const Trace *t, Expr *const *subs, int rank)
{
    for (int i = 0; i < t->forall->forall.n; i++) {
        bool found = false;
        for (int d = 0; d < rank; d++)
            found |= subs[d]->kind == E_VAR && subs[d]->var.var == t->forall->forall.indices[i].var;
        if (!found) return false;
    }
    return true;
}

static void survey_use(const TileUse *use, void *context)
{
    Trace *const t = context;
    Buffer *const root = buffer_root(use->buffer);
    t->barred[root->id] |= !is_plain(use) || use->atomic;
    t->written[root->id] |= use->writes;
    if (t->barred[root->id]) return;
    Expr **const subs = NEW_ARRAY(t->arena, Expr *, root->rank + 1);
    for (int d = 0; d < root->rank; d++) subs[d] = start_of(use, d);
    if (!t->first[root->id]) {
        t->first[root->id] = subs;
        t->differs[root->id] = !names_iteration(t, subs, root->rank);
    }
    for (int d = 0; d < root->rank; d++) t->differs[root->id] |= !expr_equal(subs[d], t->first[root->id][d]);
}

static void survey(Trace *t, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_UPDATE && op->update.reduces && op->update.buffer)
            t->barred[buffer_root(op->update.buffer)->id] = true;
        tile_uses(op, survey_use, t);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) survey(t, *body);
    }
}

static bool is_traced(const Trace *t, const Buffer *b)
{
    return b->kind != BUFFER_VIEW && t->written[b->id] && t->differs[b->id] && !t->barred[b->id];
}

// ---- the calls

static Expr *literal(Trace *t, const char *text) { return expr_call(t->arena, DTYPE_INT, text, -1, NULL); }

static Expr *quoted(Trace *t, const char *format, const char *name)
{
    return literal(t, arena_printf(t->arena, "\"%s\"", arena_printf(t->arena, format, name)));
}

static void insert(Trace *t, TileOp op)
{
    TileOp *const made = NEW(t->arena, TileOp, .kind = op.kind);
    *made = op;
    made->next = *t->link;
    *t->link = made;
    t->link = &made->next;
}

static Expr *both(Trace *t, Expr *a, Expr *b) { return a ? expr_binary(t->arena, X_AND, a, b) : b; }

static void touch(Trace *t, const TileUse *use, bool writes, Span span)
{
    Arena *const a = t->arena;
    const Buffer *const b = use->buffer;
    if (t->is_impure || !is_traced(t, b)) return;
    Expr *element = int_const(a, 0), *count = int_const(a, 1), *inside = t->guard;
    for (int d = 0; d < b->rank; d++) {
        Expr *const start = start_of(use, d);
        element = int_add(a, int_mul(a, element, b->shape[d]), start);
        const bool row = use->region && use->region->subs[d].is_range;
        if (row) count = use->region->subs[d].width;
        inside = both(t, inside, expr_binary(a, X_GE, start, int_const(a, 0)));
        inside = both(t, inside, expr_binary(a, X_LE, int_add(a, start, row ? count : int_const(a, 1)), b->shape[d]));
    }
    Expr *args[] = { int_const(a, b->id),
                     element,
                     count,
                     expr_var(a, t->iteration),
                     quoted(t,
                            writes ? "two iterations of a forall write the same element of '%s'"
                                   : "an iteration of a forall reads an element of '%s' that another writes",
                            b->name),
                     quoted(t, "an iteration of a forall writes an element of '%s' that another reads", b->name) };
    Expr **const kept = NEW_ARRAY(a, Expr *, COUNT(args));
    memcpy(kept, args, sizeof args);
    TileOp *const call = NEW(a, TileOp, .kind = T_EXTERN, .span = span,
                             .external = { writes ? "kiln_touch_write" : "kiln_touch_read", kept, writes ? 6 : 5 });
    int64_t always;
    if (!inside || (expr_as_int(inside, &always) && always)) insert(t, *call);
    else insert(t, (TileOp){ .kind = T_IF, .span = span, .branch = { inside, call, NULL } });
}

// The loads of an expression, under the conditions that they are made under.
static void touch_loads(Trace *t, Expr *x, Span span);

static void touch_guarded(Trace *t, Expr *x, Expr *cond, Span span)
{
    Expr *const guard = t->guard;
    const bool was_impure = t->is_impure;
    t->is_impure |= !expr_is_pure(cond);
    t->guard = both(t, guard, cond);
    touch_loads(t, x, span);
    t->guard = guard;
    t->is_impure = was_impure;
}

static void touch_loads(Trace *t, Expr *x, Span span)
{
    Expr **slots[EXPR_SLOTS_MAX];
    if (x->kind == E_SELECT) {
        touch_loads(t, x->select.cond, span);
        touch_guarded(t, x->select.a, x->select.cond, span);
        touch_guarded(t, x->select.b, expr_unary(t->arena, X_NOT, x->select.cond), span);
        return;
    }
    if (x->kind == E_BINARY && (x->op.op == X_AND || x->op.op == X_OR)) {
        touch_loads(t, x->op.a, span);
        touch_guarded(t, x->op.b, x->op.op == X_AND ? x->op.a : expr_unary(t->arena, X_NOT, x->op.a), span);
        return;
    }
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n; i++) touch_loads(t, *slots[i], span);
    if (x->kind == E_LOAD && x->load.buffer->kind != BUFFER_VIEW && is_traced(t, x->load.buffer))
        touch(t, &(TileUse){ .buffer = x->load.buffer, .subs = x->load.subs }, false, x->span.source ? x->span : span);
}

typedef struct Slots {
    Trace *trace;
    Span span;
} Slots;
static void touch_slot(Expr **slot, void *context)
{
    const Slots *const s = context;
    touch_loads(s->trace, *slot, s->span);
}

static void trace_block(Trace *t, TileOp **link);

static void trace_op(Trace *t, TileOp *op)
{
    if (op->kind != T_WHILE && op->kind != T_EXTERN) tile_each_expr(op, touch_slot, &(Slots){ t, op->span });
    if (op->kind == T_COPY)
        touch(t, &(TileUse){ .buffer = op->copy.src.buffer, .region = &op->copy.src }, false, op->span);
    if (op->kind == T_COPY)
        touch(t, &(TileUse){ .buffer = op->copy.dst.buffer, .region = &op->copy.dst }, true, op->span);
    if (op->kind == T_FILL)
        touch(t, &(TileUse){ .buffer = op->fill.dst.buffer, .region = &op->fill.dst }, true, op->span);
    if (op->kind == T_STORE) touch(t, &(TileUse){ .buffer = op->store.buffer, .subs = op->store.subs }, true, op->span);
    if (op->kind == T_UPDATE && op->update.buffer && !op->update.reduces)
        touch(t, &(TileUse){ .buffer = op->update.buffer, .subs = op->update.subs }, true, op->span);
    TileOp **const link = t->link, **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) trace_block(t, body);
    t->link = link;
}

static void trace_block(Trace *t, TileOp **link)
{
    while (*link) {
        TileOp *const op = *link;
        t->link = link;
        trace_op(t, op);
        link = &op->next;
    }
}

// ---- one forall

static Expr *number_of_iteration(Trace *t)
{
    Arena *const a = t->arena;
    Expr *number = int_const(a, 0);
    for (int i = 0; i < t->forall->forall.n; i++) {
        const LoopIndex *const index = &t->forall->forall.indices[i];
        number = int_add(a, int_mul(a, number, int_sub(a, index->hi, index->lo)),
                         int_sub(a, expr_var(a, index->var), index->lo));
    }
    return int_add(a, number, int_const(a, 1));
}

static TileOp *call_of(Trace *t, const char *name, Span span)
{
    return NEW(t->arena, TileOp, .kind = T_EXTERN, .span = span, .external = { name, NULL, 0 });
}

// Returns the link after what became of it.
static TileOp **trace_forall(TileKernel *k, TileOp **link)
{
    TileOp *const op = *link;
    const int n = k->n_buffers + 1;
    Trace t = { .kernel = k,
                .arena = k->arena,
                .forall = op,
                .written = NEW_ARRAY(k->arena, bool, n),
                .barred = NEW_ARRAY(k->arena, bool, n),
                .differs = NEW_ARRAY(k->arena, bool, n),
                .first = NEW_ARRAY(k->arena, Expr **, n) };
    bool any = false;
    survey(&t, op->forall.body);
    for (int i = 0; i < n; i++) any |= t.written[i] && t.differs[i] && !t.barred[i];
    if (!any || op->forall.n == 0) return &op->next;
    t.iteration = tile_new_var(k, VAR_LOCAL, DTYPE_INT, "iteration", op->span);
    trace_block(&t, &op->forall.body);
    op->forall.body = NEW(k->arena, TileOp, .kind = T_LET, .span = op->span, .next = op->forall.body,
                          .let = { t.iteration, number_of_iteration(&t) });
    TileOp *const begin = call_of(&t, "kiln_touch_begin", op->span);
    TileOp *const end = call_of(&t, "kiln_touch_end", op->span);
    begin->groups = end->groups = op->groups;
    begin->stage = end->stage = op->stage;
    end->next = op->next;
    op->next = end;
    begin->next = op;
    *link = begin;
    return &end->next;
}

static void trace_all(TileKernel *k, TileOp **link)
{
    while (*link) {
        if ((*link)->kind == T_FORALL) {
            link = trace_forall(k, link);
            continue;
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(*link, i)) != NULL; i++) trace_all(k, body);
        link = &(*link)->next;
    }
}

void trace_foralls(TileKernel *kernel)
{
    if (kernel->checked) trace_all(kernel, &kernel->body);
}
