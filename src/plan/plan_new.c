// SPDX-License-Identifier: MIT
// plan_new.c - from a checked kernel to its launch plan; expressions become postfix code.
#include "plan/code.h"

typedef struct Coder {
    Arena *arena;
    const TileKernel *kernel;
    VEC(int64_t) words;
    int depth, deepest;
    Span span; // of the whole expression, for what has none itself
    bool failed;
} Coder;

static void add_word(Coder *c, int64_t word)
{
    VEC_PUSH(c->arena, &c->words, word);
    c->depth += 1 - plan_operands(word);
    if (c->depth > c->deepest) c->deepest = c->depth;
}

static void refuse(Coder *c, const Expr *x, const char *what)
{
    const Span span = x->span.source ? x->span : c->span;
    if (!c->failed)
        diag_error(c->kernel->diags, span,
                   "this is computed at launch, from shapes and scalar arguments; %s is not known there", what);
    c->failed = true;
}

static void code_const(Coder *c, const Expr *x)
{
    int64_t bits = x->integer.value;
    if (x->kind == E_FLOAT) memcpy(&bits, &x->real.value, sizeof bits);
    add_word(c, plan_word(P_CONST, x->type, 0, 0, 0));
    VEC_PUSH(c->arena, &c->words, bits);
}

static void code_var(Coder *c, const Expr *x)
{
    const TileKernel *const k = c->kernel;
    for (int i = 0; i < k->n_binds; i++)
        if (k->binds[i].symbol == x->var.var) {
            add_word(c, plan_word(P_SYMBOL, x->type, 0, 0, i));
            return;
        }
    for (int i = 0; i < k->n_params; i++)
        if (!k->params[i].is_tensor && k->params[i].scalar == x->var.var) {
            add_word(c, plan_word(P_SCALAR, x->type, 0, 0, i));
            return;
        }
    refuse(c, x, arena_printf(c->arena, "'%s'", x->var.var->name ? x->var.var->name : "a local value"));
}

static void code_expr(Coder *c, const Expr *x)
{
    switch (x->kind) {
    case E_INT:
    case E_FLOAT: code_const(c, x); break;
    case E_VAR: code_var(c, x); break;
    case E_UNARY:
        code_expr(c, x->op.a);
        add_word(c, plan_word(P_UNARY, x->op.a->type, x->op.op, 1, 0));
        break;
    case E_BINARY:
        code_expr(c, x->op.a);
        code_expr(c, x->op.b);
        add_word(c, plan_word(P_BINARY, x->op.a->type, x->op.op, 2, 0));
        break;
    case E_SELECT:
        code_expr(c, x->select.cond);
        code_expr(c, x->select.a);
        code_expr(c, x->select.b);
        add_word(c, plan_word(P_SELECT, x->type, 0, 3, 0));
        break;
    case E_CONVERT:
        code_expr(c, x->convert.a);
        add_word(c, plan_word(P_CONVERT, x->type, x->convert.a->type, 1, 0));
        break;
    case E_MATH:
        if (!builtin_computes(x->math.fn, x->math.args[0]->type)) {
            refuse(c, x, builtins[x->math.fn].name);
            break;
        }
        for (int i = 0; i < x->math.n; i++) code_expr(c, x->math.args[i]);
        add_word(c, plan_word(P_MATH, x->math.args[0]->type, x->math.fn, x->math.n, 0));
        break;
    case E_LOAD:
    case E_ATOMIC:
        refuse(c, x,
               arena_printf(c->arena, "an element of '%s'",
                            (x->kind == E_LOAD ? x->load.buffer : x->atomic.buffer)->name));
        break;
    case E_BITCAST:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: refuse(c, x, "this operation"); break;
    }
}

// Its room is the least power of two that holds it.
static void reserve_code(Arena *arena, LaunchPlan *plan, int more)
{
    int room = 1, wanted = 1;
    while (room < plan->n_code) room *= 2;
    while (wanted < plan->n_code + more) wanted *= 2;
    if (plan->n_code && room == wanted) return;
    int64_t *const code = NEW_ARRAY(arena, int64_t, wanted);
    if (plan->n_code) memcpy(code, plan->code, sizeof(int64_t) * (size_t)plan->n_code);
    plan->code = code;
}

enum { SEARCHED_WORDS = 4096 }; // more would cost more than it saves

PlanCode plan_add_code(Arena *arena, LaunchPlan *plan, const TileKernel *kernel, const Expr *expr)
{
    Coder c = { .arena = arena, .kernel = kernel, .span = expr->span };
    code_expr(&c, expr);
    if (!c.failed && c.deepest > PLAN_STACK) refuse(&c, expr, "so deep an expression");
    if (c.failed) return (PlanCode){ 0, 0 };
    // Equal code is kept once: the extents of a kernel's tensors repeat each other.
    const size_t bytes = sizeof(int64_t) * (size_t)c.words.count;
    for (int at = 0; at + c.words.count <= plan->n_code && at < SEARCHED_WORDS; at++)
        if (memcmp(plan->code + at, c.words.items, bytes) == 0) return (PlanCode){ at, c.words.count };
    const PlanCode made = { plan->n_code, c.words.count };
    reserve_code(arena, plan, c.words.count);
    memcpy(plan->code + plan->n_code, c.words.items, bytes);
    plan->n_code += c.words.count;
    return made;
}

// ---- whether two runs give the same bits

static void note_atomic(Expr **slot, void *context)
{
    if (expr_has_atomic(*slot)) *(bool *)context = true;
}

static bool is_float_atomic(const TileOp *op)
{
    if (op->kind == T_ATOMIC_TILE) return dtype_is_float(op->copy.dst.buffer->type);
    return op->kind == T_ATOMIC && (op->atomic.op == ATOMIC_EXCHANGE ||
                                    (op->atomic.op == ATOMIC_ADD && dtype_is_float(op->atomic.buffer->type)));
}

static bool is_deterministic(TileOp *op)
{
    for (; op; op = op->next) {
        bool unordered = is_float_atomic(op);
        tile_each_expr(op, note_atomic, &unordered);
        if (unordered) return false;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (!is_deterministic(*body)) return false;
    }
    return true;
}

// ---- the parts

static void add_params(Arena *a, LaunchPlan *plan, const TileKernel *k)
{
    plan->params = NEW_ARRAY(a, PlanParam, k->n_params + 1);
    plan->n_params = k->n_params;
    for (int i = 0; i < k->n_params; i++) {
        const TileParam *const from = &k->params[i];
        PlanParam *const to = &plan->params[i];
        *to = (PlanParam){ .name = from->name, .is_tensor = from->is_tensor, .absent = from->absent };
        if (!from->is_tensor) {
            to->type = from->scalar->type;
            continue;
        }
        const Buffer *const b = from->tensor;
        to->type = b->type;
        to->access = b->access;
        to->optional = b->optional;
        to->strided = b->strided;
        to->spaced = b->stride[0] != NULL;
        to->rank = b->rank;
        for (int d = 0; d < b->rank && !from->absent; d++) to->shape[d] = plan_add_code(a, plan, k, b->shape[d]);
    }
}

static void add_binds(Arena *a, LaunchPlan *plan, const TileKernel *k)
{
    plan->binds = NEW_ARRAY(a, PlanBind, k->n_binds + 1);
    plan->n_binds = k->n_binds;
    for (int i = 0; i < k->n_binds; i++) {
        const TileBind *const b = &k->binds[i];
        plan->binds[i] = (PlanBind){ b->symbol->name, b->param, b->dim, b->subtract, b->is_stride };
    }
}

static void add_checks(Arena *a, LaunchPlan *plan, const TileKernel *k)
{
    plan->checks = NEW_ARRAY(a, PlanCheck, k->n_checks + 1);
    plan->n_checks = k->n_checks;
    for (int i = 0; i < k->n_checks; i++) {
        const TileShapeCheck *const c = &k->checks[i];
        plan->checks[i] =
            (PlanCheck){ c->param, c->dim, plan_add_code(a, plan, k, c->expected), expr_text(a, c->expected) };
    }
    plan->requires = NEW_ARRAY(a, PlanRequire, k->n_requires + 1);
    plan->n_requires = k->n_requires;
    for (int i = 0; i < k->n_requires; i++)
    plan->requires[i] = (PlanRequire){ plan_add_code(a, plan, k, k->requires[i].cond), k->requires[i].message };
}

// The words, then the maps, aligned to 64 bytes, then the address of the fault record.
int plan_most_maps(int words)
{
    const int most = (PLAN_ARGUMENT_BYTES - 8 - (words * 8 + 63) / 64 * 64) / 128;
    return most < 0 ? 0 : most < PLAN_MAX_MAPS ? most : PLAN_MAX_MAPS;
}

LaunchPlan *plan_new(Arena *arena, const TileKernel *kernel, const char *symbol)
{
    LaunchPlan *const plan = NEW(arena, LaunchPlan, .name = kernel->name, .key = kernel->key, .target = kernel->target,
                                 .symbol = symbol, .cluster = { 1, 1, 1 }, .persistent = kernel->persistent);
    const Span span = kernel->n_params ? kernel->params[0].span : (Span){ 0 };
    if (kernel->n_params > PLAN_MAX_PARAMS)
        diag_error(kernel->diags, span, "a kernel has at most %d parameters, this one %d", PLAN_MAX_PARAMS,
                   kernel->n_params);
    if (kernel->n_binds > PLAN_MAX_BINDS)
        diag_error(kernel->diags, span, "a kernel has at most %d shape symbols, this one %d", PLAN_MAX_BINDS,
                   kernel->n_binds);
    add_binds(arena, plan, kernel);
    add_params(arena, plan, kernel);
    add_checks(arena, plan, kernel);
    plan->grid = NEW_ARRAY(arena, PlanCode, kernel->n_grid + 1);
    plan->n_grid = kernel->n_grid;
    for (int i = 0; i < kernel->n_grid; i++) {
        plan->grid[i] = plan_add_code(arena, plan, kernel, kernel->grid[i].extent);
        if (i < 3 && kernel->grid[i].cluster > 1) plan->cluster[i] = kernel->grid[i].cluster;
    }
    plan->deterministic = is_deterministic(kernel->body);
    if (plan_words(plan) > PLAN_MAX_WORDS)
        diag_error(kernel->diags, span,
                   "the parameters, strides, shape symbols and coordinates of a kernel are at most %d, "
                   "those of this one %d",
                   PLAN_MAX_WORDS, plan_words(plan));
    return plan;
}
