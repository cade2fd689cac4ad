// SPDX-License-Identifier: MIT
// ahead.c - fetching the next step's tile while this one is worked on.
//
// Memory is busy only while something is asked of it. A copy (or a borrowed tile) whose place in a tensor moves with
// the steps of the loop around it, or from instance to instance, leaves behind where the next step's contents lie;
// the first statement that goes over the tile's rows then asks for the same rows of the next step, a row at a time,
// so that they arrive while it computes. Only a hint: a place that is nowhere is asked for in vain.
#include "lower/cpu/cpu.h"

void cpu_note_let(Cpu *cx, TileOp *op)
{
    if (!cx->lets) cx->lets = NEW_ARRAY(cx->arena, Expr *, cx->kernel->n_vars + 1);
    if (op->let.value && !op->let.var->assigned && op->let.var->type == DTYPE_INT)
        cx->lets[op->let.var->id] = op->let.value;
}

static bool is_dynamic(const Expr *x, void *context) { return x->kind == E_ATOMIC || x->kind == E_CALL; }

typedef struct Dependence {
    const Cpu *cx;
    const Var *var;
    Var *let;
} Dependence;

static bool depends(const Cpu *cx, const Expr *x, const Var *var, int depth);

// A scalar in x whose value depends on var.
static bool find_let(const Expr *x, void *context)
{
    Dependence *const d = context;
    if (x->kind != E_VAR || x->var.var->id >= d->cx->kernel->n_vars || !d->cx->lets) return false;
    Expr *const value = d->cx->lets[x->var.var->id];
    if (!value || x->var.var == d->var || !depends(d->cx, value, d->var, 1)) return false;
    d->let = x->var.var;
    return true;
}

enum { MOST_LETS = 8 };

static bool depends(const Cpu *cx, const Expr *x, const Var *var, int depth)
{
    Dependence d = { cx, var, NULL };
    return expr_uses(x, var) || (depth < MOST_LETS && expr_any((Expr *)x, find_let, &d));
}

// x one step later; NULL if it does not move or cannot be known.
static Expr *one_later(Cpu *cx, Expr *x)
{
    Dependence d = { cx, cx->step_var, NULL };
    Expr *at = x;
    for (int i = 0; i < MOST_LETS && expr_any(at, find_let, &d); i++)
        at = expr_replace(cx->arena, at, d.let, cx->lets[d.let->id]);
    if (!expr_uses(at, cx->step_var) || expr_any(at, is_dynamic, NULL)) return NULL;
    return expr_replace(cx->arena, at, cx->step_var,
                        int_add(cx->arena, expr_var(cx->arena, (Var *)cx->step_var), cx->step_by));
}

// The same place of the next instance: steps over packed rows are a few lines each, and the next one is too near.
static Expr *one_instance_later(Cpu *cx, Expr *x)
{
    const Var *const step_var = cx->step_var;
    Expr *const step_by = cx->step_by;
    if (cx->kernel->n_grid) {
        cx->step_var = cx->kernel->grid[0].var;
        cx->step_by = int_const(cx->arena, 1);
    }
    Expr *const later = one_later(cx, x);
    cx->step_var = step_var;
    cx->step_by = step_by;
    return later;
}

static bool is_scalar_of_kernel(const Expr *x, void *context)
{
    const Cpu *const cx = context;
    return x->kind == E_VAR && x->var.var->id < cx->kernel->n_vars && cx->lets && cx->lets[x->var.var->id];
}

static Expr *address_of_bits(Cpu *cx, Expr *pointer, Expr *at, DType type)
{
    return cpu_call(cx, DTYPE_U8, "kiln_at", 2, pointer,
                    expr_binary(cx->arena, X_SHR, at, int_const(cx->arena, dtype_bits(type) == 4 ? 1 : 2)));
}

// After the copy `op` of src into a whole tile.
void cpu_note_ahead(Cpu *cx, TileOp *op, const Place *src)
{
    Buffer *const tile = op->copy.dst.buffer;
    if (cpu_is_checked(cx) || cx->nest || !cx->step_var || op->kind != T_COPY || src->by_elements ||
        src->root->kind != BUFFER_TENSOR || src->root->access != ACCESS_IN || src->bytes ||
        (src->packed && src->root->type != src->type) || src->n_axes != tile->rank || tile->rank == 0 ||
        !region_is_whole(&op->copy.dst) || (tile->kind != BUFFER_SHARED && tile->kind != BUFFER_FRAGMENT) ||
        cpu_place_stride(src, tile->rank - 1) != 1)
        return;
    TileInfo *const t = &cx->tiles[tile->id];
    for (int d = 0; d < tile->rank && t->home != cx->out; d++) // strides that only this block knows
        if (src->at.coef[d] && expr_any(src->at.coef[d], is_scalar_of_kernel, cx)) return;
    Expr *const next = src->packed ? one_instance_later(cx, src->at.base) : one_later(cx, src->at.base);
    if (!next) return;
    Expr *const address = src->packed ? address_of_bits(cx, cpu_of(cx, src->pointer), cpu_expr(cx, next), src->type)
                                      : expr_address(cx->arena, src->pointer, cpu_expr(cx, next));
    const DType array = cpu_array_type(src->type);
    t->ahead_type = src->type;
    if (t->home == cx->out) t->ahead = cpu_declare_pointer(cx, array, "ahead", address);
    else { // inside a branch or loop: readers may come after it
        LoopList *const here = cpu_enter(cx, t->home);
        t->ahead = cpu_declare_pointer(cx, array, "ahead", cpu_literal(cx, "NULL"));
        cpu_enter(cx, here);
        cpu_assign(cx, t->ahead, address);
    }
    for (int d = 0; d < tile->rank; d++) t->ahead_strides[d] = cpu_expr(cx, src->at.coef[d]);
}

// ---- the readers

typedef struct Readers {
    Cpu *cx;
    const Nest *nest;
    const Var *inner;
    Expr *lo, *hi;
} Readers;

static void fetch_row(const TileUse *use, void *context)
{
    const Readers *const r = context;
    Cpu *const cx = r->cx;
    if (!use->reads || !use->subs || use->buffer->kind == BUFFER_VIEW || use->buffer->kind == BUFFER_TENSOR) return;
    TileInfo *const t = &cx->tiles[use->buffer->id];
    const int last = use->buffer->rank - 1;
    if (!t->ahead || dtype_bits(t->ahead_type) < 8 || use->subs[last]->kind != E_VAR ||
        use->subs[last]->var.var != r->inner)
        return;
    Expr *at = r->lo;
    for (int d = 0; d < last; d++) {
        if (expr_uses(use->subs[d], r->inner) || expr_loads(use->subs[d])) return;
        at = int_add(cx->arena, at, int_mul(cx->arena, cpu_expr(cx, use->subs[d]), t->ahead_strides[d]));
    }
    Expr *const bytes =
        int_mul(cx->arena, int_sub(cx->arena, r->hi, r->lo), int_const(cx->arena, dtype_bytes(t->ahead_type, 1)));
    cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_fetch", 2, expr_address(cx->arena, t->ahead, at), bytes));
    t->ahead = NULL;
}

static void fetch_of(TileOp *op, Readers *r)
{
    for (; op; op = op->next) {
        if (op->kind == T_IF || op->kind == T_FORALL || op->kind == T_FOR || op->kind == T_WHILE) continue;
        tile_uses(op, fetch_row, r);
    }
}

// In front of lo .. hi - 1 of the innermost index, at the end of `list`.
void cpu_fetch_ahead(Cpu *cx, const TileOp *forall, const Nest *nest, LoopList *list, Expr *lo, Expr *hi)
{
    Readers r = { cx, nest, forall->forall.indices[nest->order[nest->n - 1]].var, lo, hi };
    LoopList *const out = cpu_enter(cx, list);
    fetch_of(forall->forall.body, &r);
    cpu_enter(cx, out);
}

// For a product that reads all rows of its right side: where the next step's lie, or NULL's text.
Expr *cpu_take_ahead(Cpu *cx, const Operand *o)
{
    Expr *const none = cpu_literal(cx, "NULL");
    if (o->region.buffer->kind == BUFFER_VIEW || o->region.buffer->kind == BUFFER_TENSOR || o->region.buffer->rank != 2)
        return none;
    TileInfo *const t = &cx->tiles[o->region.buffer->id];
    if (!t->ahead || !t->borrowed || !region_is_whole(&o->region)) return none;
    Expr *const ahead = cpu_of(cx, t->ahead);
    t->ahead = NULL;
    return ahead;
}

// For a loop over a row of packed elements: where the next step's row lies, or NULL's text.
Expr *cpu_take_ahead_bits(Cpu *cx, const Expr *load)
{
    TileInfo *const t = &cx->tiles[load->load.buffer->id];
    if (!t->ahead || dtype_bits(t->ahead_type) >= 8) return cpu_literal(cx, "NULL");
    Expr *at = int_const(cx->arena, 0);
    for (int d = 0; d < load->load.buffer->rank - 1; d++)
        at = int_add(cx->arena, at, int_mul(cx->arena, cpu_expr(cx, load->load.subs[d]), t->ahead_strides[d]));
    Expr *const ahead = address_of_bits(cx, cpu_of(cx, t->ahead), at, t->ahead_type);
    t->ahead = NULL;
    return ahead;
}
