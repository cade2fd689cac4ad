// SPDX-License-Identifier: MIT
// count_exact.c - which variables of a reference have to be stepped through, value by value: those that a bound or a
// condition takes, those that decide in another way than by a plain term which element is meant, and all that these are
// computed from. For the others a range is enough.
#include "tools/count.h"

typedef struct Search {
    Arena *arena;
    bool *exact;            // by Var.id
    bool *place;            // part of a subscript as a plain term
    int *depth;             // of the loops around its declaration
    VEC(const Var *) loops; // around what is looked at
    bool changed;
} Search;

static void set(Search *s, bool *list, const Var *var)
{
    s->changed |= !list[var->id];
    list[var->id] = true;
}

static bool set_vars(const Expr *x, void *context)
{
    if (x->kind == E_VAR) set(context, ((Search *)context)->exact, x->var.var);
    return false;
}

static void need_exact(Search *s, const Expr *x)
{
    if (x) expr_any(x, set_vars, s);
}

// ---- places

// A term of a subscript. What a range cannot follow without holes is needed exactly.
static void need_place(Search *s, const Expr *x)
{
    switch (x->kind) {
    case E_VAR: set(s, s->place, x->var.var); return;
    case E_INT: return;
    case E_CONVERT: need_place(s, x->convert.a); return;
    case E_BINARY:
        if (x->op.op == X_ADD || x->op.op == X_SUB || x->op.op == X_DIV) {
            need_place(s, x->op.a);
            (x->op.op == X_DIV ? need_exact : need_place)(s, x->op.b);
            return;
        }
        break;
    case E_MATH:
        if (builtins[x->math.fn].picks) {
            for (int i = 0; i < x->math.n; i++) need_place(s, x->math.args[i]);
            return;
        }
        break;
    case E_FLOAT:
    case E_LOAD:
    case E_UNARY:
    case E_SELECT:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    need_exact(s, x);
}

typedef struct Twice {
    Search *s;
    Expr *const *others;
    int n;
} Twice;

static bool set_if_twice(const Expr *x, void *context)
{
    const Twice *const t = context;
    for (int i = 0; x->kind == E_VAR && i < t->n; i++)
        if (expr_uses(t->others[i], x->var.var)) set(t->s, t->s->exact, x->var.var);
    return false;
}

// An index in two subscripts makes a diagonal, which is no box.
static void need_element(Search *s, const Buffer *buffer, Expr *const *subs)
{
    for (int d = 0; d < buffer->rank; d++) {
        need_place(s, subs[d]);
        expr_any(subs[d], set_if_twice, &(Twice){ s, subs + d + 1, buffer->rank - d - 1 });
    }
}

static bool is_tensor(Buffer *buffer) { return buffer_root(buffer)->kind == BUFFER_TENSOR; }

static bool is_load_like(const Expr *x, void *context) { return x->kind == E_LOAD && expr_equal(x, context); }

static bool lacks_load(const Expr *x, void *context)
{
    return x->kind == E_LOAD && is_tensor(x->load.buffer) && !expr_any(context, is_load_like, (void *)x);
}

bool sides_differ(const Expr *x)
{
    return expr_any(x->select.a, lacks_load, x->select.b) || expr_any(x->select.b, lacks_load, x->select.a);
}

static void need_condition(Search *s, const Expr *x);

static bool need_loads(const Expr *x, void *context)
{
    Search *const s = context;
    if (x->kind == E_LOAD && is_tensor(x->load.buffer)) need_element(s, x->load.buffer, x->load.subs);
    if (x->kind == E_SELECT && sides_differ(x)) need_condition(s, x->select.cond);
    return false;
}

static void need_slot(Expr **slot, void *context) { expr_any(*slot, need_loads, context); }

// ---- conditions

static bool is_computed(const Expr *x, void *context)
{
    return dtype_is_float(x->type) || (x->kind == E_LOAD && !is_tensor(x->load.buffer));
}

// What a condition takes, as far as it can be known without computing.
static void need_condition(Search *s, const Expr *x)
{
    if (x->kind == E_BINARY && (x->op.op == X_AND || x->op.op == X_OR)) {
        need_condition(s, x->op.a);
        need_condition(s, x->op.b);
    } else if (!expr_any(x, is_computed, NULL)) {
        need_exact(s, x);
    }
}

// ---- statements

// A variable that changes in a loop is known only where the loop is stepped through.
static void look_at_change(Search *s, const Var *var, const Expr *value)
{
    if (!s->exact[var->id] && !s->place[var->id]) return;
    set(s, s->exact, var);
    need_exact(s, value);
    for (int i = s->depth[var->id]; i < s->loops.count; i++) set(s, s->exact, s->loops.items[i]);
}

static void look_at_definition(Search *s, const Var *var, const Expr *value)
{
    s->depth[var->id] = s->loops.count;
    if (!value) return;
    if (s->exact[var->id]) need_exact(s, value);
    else if (s->place[var->id]) need_place(s, value);
}

static void look_at_block(Search *s, TileOp *op);

static void look_inside(Search *s, const LoopIndex *indices, int n, TileOp *body)
{
    for (int i = 0; i < n; i++) {
        need_exact(s, indices[i].lo);
        need_exact(s, indices[i].hi);
        VEC_PUSH(s->arena, &s->loops, indices[i].var);
    }
    look_at_block(s, body);
    s->loops.count -= n;
}

static void look_at_regions(Search *s, const Region *r)
{
    for (int d = 0; d < r->buffer->rank; d++) need_exact(s, r->subs[d].start);
}

static void look_at(Search *s, TileOp *op)
{
    int64_t step;
    tile_each_expr(op, need_slot, s);
    switch (op->kind) {
    case T_LET: look_at_definition(s, op->let.var, op->let.value); break;
    case T_SET: look_at_change(s, op->let.var, op->let.value); break;
    case T_UPDATE:
        if (op->update.var) look_at_change(s, op->update.var, op->update.value);
        else if (is_tensor(op->update.buffer)) need_element(s, op->update.buffer, op->update.subs);
        break;
    case T_STORE:
        if (is_tensor(op->store.buffer)) need_element(s, op->store.buffer, op->store.subs);
        break;
    case T_ATOMIC:
        if (is_tensor(op->atomic.buffer)) need_element(s, op->atomic.buffer, op->atomic.subs);
        break;
    case T_FILL: look_at_regions(s, &op->fill.dst); break;
    case T_COPY:
    case T_ATOMIC_TILE:
        look_at_regions(s, &op->copy.dst);
        look_at_regions(s, &op->copy.src);
        break;
    case T_FORALL: look_inside(s, op->forall.indices, op->forall.n, op->forall.body); break;
    case T_PIPELINE: look_inside(s, op->pipeline.indices, op->pipeline.n, op->pipeline.body); break;
    case T_FOR:
        if (!expr_as_int(op->for_.step, &step) || (step != 1 && step != -1)) set(s, s->exact, op->for_.var);
        look_inside(s, &(LoopIndex){ op->for_.var, op->for_.lo, op->for_.hi }, 1, op->for_.body);
        break;
    case T_WHILE:
        need_condition(s, op->while_.cond);
        look_at_block(s, op->while_.body);
        look_at_block(s, op->while_.step);
        break;
    case T_IF:
        need_condition(s, op->branch.cond);
        look_at_block(s, op->branch.then);
        look_at_block(s, op->branch.otherwise);
        break;
    case T_TILE:
    case T_MATMUL:
    case T_SCAN:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: break;
    }
}

static void look_at_block(Search *s, TileOp *op)
{
    for (; op; op = op->next) look_at(s, op);
}

// One need leads to another, until there is no new one.
bool *find_exact(const TileKernel *kernel)
{
    const int n = kernel->n_vars + 1;
    Arena *const a = kernel->arena;
    Search s = {
        .arena = a, .exact = NEW_ARRAY(a, bool, n), .place = NEW_ARRAY(a, bool, n), .depth = NEW_ARRAY(a, int, n)
    };
    LoopIndex grid[MAX_RANK];
    for (int i = 0; i < kernel->n_grid; i++)
        grid[i] = (LoopIndex){ kernel->grid[i].var, int_const(a, 0), kernel->grid[i].extent };
    do {
        s.changed = false;
        look_inside(&s, grid, kernel->n_grid, kernel->body);
    } while (s.changed);
    return s.exact;
}
