// SPDX-License-Identifier: MIT
// tile_verify.c - every invariant that tile.h states, checked after each pass unless NDEBUG is defined.
//
// Scopes are a stack of what is visible; an index into it is remembered at every block, and cut back after it. The
// first violation is described with the op at hand; everything after it is left unread.
#include "base/table.h"
#include "ir/names.h"

#include <stdarg.h>

typedef struct Scope {
    VEC(const void *) stack; // variables and buffers
    Table visible;           // the same
} Scope;

typedef struct Verifier {
    const TileKernel *kernel;
    Arena *arena;
    Text *why;
    Scope scope;
    const TileOp *op; // at hand
    int loops;        // around it that break may leave
    int steps;        // around it that continue may end: loops, pipelines and foralls
    int foralls;
    bool in_pipeline_block; // directly in a pipeline's body
    bool failed;
} Verifier;

static bool fail(Verifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(Verifier *v, const char *format, ...)
{
    if (v->failed) return false;
    v->failed = true;
    va_list args;
    va_start(args, format);
    text_vprint(v->why, format, args);
    va_end(args);
    if (v->op) {
        const Span span = v->op->span;
        if (span.source) {
            const Position at = source_position(span.source, span.begin);
            text_print(v->why, " (%s:%d:%d)", span.source->path, at.line, at.column);
        }
        text_print(v->why, " in\n");
        tile_print_op(v->why, v->op);
    }
    return false;
}

// ---- scopes

static bool is_visible(const Verifier *v, const void *thing) { return table_find(&v->scope.visible, thing) != NULL; }

static void enter(Verifier *v, const void *thing)
{
    VEC_PUSH(v->arena, &v->scope.stack, thing);
    *table_at(&v->scope.visible, thing) = v; // anything but NULL
}

// What came since there were so many.
static void leave(Verifier *v, int count)
{
    while (v->scope.stack.count > count)
        *table_at(&v->scope.visible, v->scope.stack.items[--v->scope.stack.count]) = NULL;
}

static void declare_var(Verifier *v, const Var *var)
{
    if (var->id < 0 || var->id >= v->kernel->n_vars) fail(v, "variable '%s' has an id outside the kernel's", var->name);
    if (is_visible(v, var)) fail(v, "variable '%s' is declared twice", var->name);
    enter(v, var);
}

static void declare_buffer(Verifier *v, const Buffer *buffer)
{
    if (buffer->id < 0 || buffer->id >= v->kernel->n_buffers)
        fail(v, "buffer '%s' has an id outside the kernel's", buffer->name);
    if (is_visible(v, buffer)) fail(v, "'%s' is declared twice", buffer->name);
    enter(v, buffer);
}

// ---- expressions

static bool is_number(DType type) { return dtype_is_float(type) || dtype_is_counting(type); }

static bool verify_expr(Verifier *v, const Expr *x);
static bool verify_region(Verifier *v, const Region *r);

static bool verify_integer(Verifier *v, const Expr *x, const char *what)
{
    if (!x) return fail(v, "%s is missing", what);
    if (!verify_expr(v, x)) return false;
    return dtype_is_integer(x->type) ||
           fail(v, "%s '%s' is %s, not an integer", what, expr_text(v->arena, x), dtype_name(x->type));
}

static bool verify_buffer(Verifier *v, const Buffer *b)
{
    if (!b) return fail(v, "a buffer is missing");
    if (b->rank < 0 || b->rank > MAX_RANK) return fail(v, "'%s' has rank %d", b->name, b->rank);
    if (b->kind != BUFFER_VIEW)
        return is_visible(v, b) || fail(v, "'%s' is used out of scope or before its declaration", b->name);
    for (int d = 0; d < b->rank; d++)
        if (!verify_integer(v, b->shape[d], "an extent of a view")) return false;
    return verify_region(v, &b->base);
}

static bool verify_subscripts(Verifier *v, const Buffer *b, Expr *const *subs)
{
    if (!verify_buffer(v, b)) return false;
    for (int d = 0; d < b->rank; d++)
        if (!verify_integer(v, subs[d], "a subscript")) return false;
    return true;
}

static bool verify_op(Verifier *v, const Expr *x)
{
    const Expr *const a = x->op.a, *const b = x->op.b;
    if (!verify_expr(v, a)) return false;
    if (x->kind == E_UNARY)
        return a->type == x->type || fail(v, "'%s' is %s but its operand %s", expr_text(v->arena, x),
                                          dtype_name(x->type), dtype_name(a->type));
    if (!verify_expr(v, b)) return false;
    const bool shift = x->op.op == X_SHL || x->op.op == X_SHR;
    const bool logic = x->op.op == X_AND || x->op.op == X_OR;
    if (a->type != b->type && !(shift && dtype_is_counting(b->type)))
        return fail(v, "operands of '%s' are %s and %s", expr_text(v->arena, x), dtype_name(a->type),
                    dtype_name(b->type));
    if (x->type != (op_compares(x->op.op) || logic ? DTYPE_BOOL : a->type) || (logic && a->type != DTYPE_BOOL))
        return fail(v, "'%s' of %s is %s", expr_text(v->arena, x), dtype_name(a->type), dtype_name(x->type));
    return true;
}

static bool verify_expr(Verifier *v, const Expr *x)
{
    if (!x) return fail(v, "an expression is missing");
    if (!is_number(x->type)) return fail(v, "'%s' has no type", expr_text(v->arena, x));
    switch (x->kind) {
    case E_INT: return dtype_is_counting(x->type) || fail(v, "an integer constant of %s", dtype_name(x->type));
    case E_FLOAT: return dtype_is_float(x->type) || fail(v, "a floating constant of %s", dtype_name(x->type));
    case E_VAR:
        if (x->type != x->var.var->type) return fail(v, "'%s' is read as %s", x->var.var->name, dtype_name(x->type));
        return is_visible(v, x->var.var) ||
               fail(v, "variable '%s' is used out of scope or before its declaration", x->var.var->name);
    case E_LOAD:
        if (x->type != x->load.buffer->type)
            return fail(v, "'%s' is read as %s", x->load.buffer->name, dtype_name(x->type));
        return verify_subscripts(v, x->load.buffer, x->load.subs);
    case E_UNARY:
    case E_BINARY: return verify_op(v, x);
    case E_SELECT:
        if (!verify_expr(v, x->select.cond) || !verify_expr(v, x->select.a) || !verify_expr(v, x->select.b))
            return false;
        return (x->select.cond->type == DTYPE_BOOL && x->select.a->type == x->type && x->select.b->type == x->type) ||
               fail(v, "'%s' mixes %s, %s and %s", expr_text(v->arena, x), dtype_name(x->select.cond->type),
                    dtype_name(x->select.a->type), dtype_name(x->select.b->type));
    case E_CONVERT: return verify_expr(v, x->convert.a);
    case E_BITCAST:
        return verify_expr(v, x->convert.a) && (dtype_bits(x->type) == dtype_bits(x->convert.a->type) ||
                                                fail(v, "'%s' changes the size", expr_text(v->arena, x)));
    case E_MATH:
        if (x->math.n != builtins[x->math.fn].arguments)
            return fail(v, "'%s' has %d arguments", builtins[x->math.fn].name, x->math.n);
        for (int i = 0; i < x->math.n; i++) {
            if (!verify_expr(v, x->math.args[i])) return false;
            if (x->math.args[i]->type != x->math.args[0]->type ||
                x->type != builtin_type(x->math.fn, x->math.args[0]->type))
                return fail(v, "'%s' mixes types", expr_text(v->arena, x));
        }
        return true;
    case E_ATOMIC:
        return verify_subscripts(v, x->atomic.buffer, x->atomic.subs) &&
               (!x->atomic.value || verify_expr(v, x->atomic.value)) &&
               (!x->atomic.compare || verify_expr(v, x->atomic.compare));
    case E_CALL:
        for (int i = 0; i < x->call.n; i++)
            if (!verify_expr(v, x->call.args[i])) return false;
        return true;
    case E_INDEX:
    case E_ADDRESS: return fail(v, "'%s' belongs to Loop IR", expr_text(v->arena, x));
    }
    return false;
}

static bool verify_condition(Verifier *v, const Expr *x)
{
    return verify_expr(v, x) &&
           (x->type == DTYPE_BOOL || fail(v, "the condition '%s' is %s", expr_text(v->arena, x), dtype_name(x->type)));
}

// ---- regions

static bool verify_region(Verifier *v, const Region *r)
{
    if (!verify_buffer(v, r->buffer)) return false;
    for (int d = 0; d < r->buffer->rank; d++) {
        const Sub *const sub = &r->subs[d];
        if (!verify_integer(v, sub->start, "a start")) return false;
        if (sub->is_range && !verify_integer(v, sub->width, "a width")) return false;
        if (sub->is_range && sub->step && !verify_integer(v, sub->step, "a step")) return false;
    }
    return true;
}

// Extents that are both constants must be equal; others are the checker's promise.
static bool extents_agree(Verifier *v, const Expr *a, const Expr *b, const char *what)
{
    int64_t p, q;
    if (!expr_as_int(a, &p) || !expr_as_int(b, &q) || p == q) return true;
    return fail(v, "%s: extents %lld and %lld", what, (long long)p, (long long)q);
}

static bool shapes_agree(Verifier *v, const Region *a, const Region *b, const char *what)
{
    const int rank = region_rank(a);
    if (rank != region_rank(b)) return fail(v, "%s: ranks %d and %d", what, rank, region_rank(b));
    for (int axis = 0; axis < rank; axis++)
        if (!extents_agree(v, region_extent(a, axis), region_extent(b, axis), what)) return false;
    return true;
}

static bool verify_matmul(Verifier *v, const TileOp *op)
{
    const Operand *const a = &op->matmul.a, *const b = &op->matmul.b;
    if (!verify_region(v, &op->matmul.dst) || !verify_region(v, &a->region) || !verify_region(v, &b->region))
        return false;
    if (region_rank(&op->matmul.dst) != 2 || region_rank(&a->region) != 2 || region_rank(&b->region) != 2)
        return fail(v, "a product is of matrices");
    if (buffer_root(op->matmul.dst.buffer)->kind == BUFFER_TENSOR) return fail(v, "a product goes into a tile");
    if (op->matmul.meta && !verify_buffer(v, op->matmul.meta)) return false;
    const Expr *const m = region_extent(&a->region, a->transposed);
    const Expr *ka = region_extent(&a->region, !a->transposed);
    const Expr *const kb = region_extent(&b->region, b->transposed);
    const Expr *const n = region_extent(&b->region, !b->transposed);
    int64_t half;
    if (op->matmul.meta && expr_as_int(ka, &half)) ka = int_const(v->arena, 2 * half);
    return extents_agree(v, region_extent(&op->matmul.dst, 0), m, "rows of a product") &&
           extents_agree(v, region_extent(&op->matmul.dst, 1), n, "columns of a product") &&
           extents_agree(v, ka, kb, "inner extents of a product");
}

// ---- operations

static bool verify_block(Verifier *v, const TileOp *op);

// A nested block, which ends the life of what it declares.
static bool verify_nested(Verifier *v, const TileOp *block)
{
    const int visible = v->scope.stack.count;
    const bool directly = v->in_pipeline_block;
    v->in_pipeline_block = false;
    const bool good = verify_block(v, block);
    v->in_pipeline_block = directly;
    leave(v, visible);
    return good;
}

static bool verify_tile(Verifier *v, const TileOp *op)
{
    const Buffer *const b = op->tile.buffer;
    if (b->kind != BUFFER_SHARED && b->kind != BUFFER_FRAGMENT && b->kind != BUFFER_LOCAL)
        return fail(v, "'%s' is no tile", b->name);
    if (b->kind == BUFFER_LOCAL && !v->foralls && !v->kernel->is_sequential)
        return fail(v, "'%s' is local outside forall", b->name);
    if (b->kind != BUFFER_LOCAL && v->foralls && !v->kernel->is_sequential)
        return fail(v, "'%s' is declared inside forall", b->name);
    for (int d = 0; d < b->rank; d++) {
        int64_t extent;
        if (v->kernel->is_sequential ? !verify_integer(v, b->shape[d], "an extent")
                                     : !expr_as_int(b->shape[d], &extent))
            return fail(v, "extent %d of '%s' is not constant", d, b->name);
    }
    declare_buffer(v, b);
    return !v->failed;
}

static bool verify_assignment(Verifier *v, const TileOp *op)
{
    const Var *const var = op->let.var;
    if (op->let.value && !verify_expr(v, op->let.value)) return false;
    if (op->let.value && op->let.value->type != var->type)
        return fail(v, "'%s' is %s, its value %s", var->name, dtype_name(var->type), dtype_name(op->let.value->type));
    if (op->kind == T_LET) {
        if (var->kind != VAR_LOCAL) return fail(v, "'%s' is declared but no local variable", var->name);
        declare_var(v, var);
        return !v->failed;
    }
    if (!op->let.value) return fail(v, "'%s' is set to nothing", var->name);
    if (!var->assigned) return fail(v, "'%s' is set but not marked as assigned", var->name);
    return is_visible(v, var) || fail(v, "'%s' is set out of scope", var->name);
}

static bool verify_update(Verifier *v, const TileOp *op)
{
    if (!verify_expr(v, op->update.value)) return false;
    if (!op->update.buffer == !op->update.var) return fail(v, "an update has one target");
    if (op->update.reduces && !v->foralls) return fail(v, "a reduction stands outside of forall");
    if (op->update.var) {
        if (!op->update.var->assigned)
            return fail(v, "'%s' is updated but not marked as assigned", op->update.var->name);
        return is_visible(v, op->update.var) || fail(v, "'%s' is updated out of scope", op->update.var->name);
    }
    return verify_subscripts(v, op->update.buffer, op->update.subs);
}

static bool verify_indices(Verifier *v, const LoopIndex *indices, int n)
{
    for (int i = 0; i < n; i++) { // a bound may name the indices before it
        if (!verify_integer(v, indices[i].lo, "a lower bound") || !verify_integer(v, indices[i].hi, "an upper bound"))
            return false;
        if (indices[i].var->kind != VAR_INDEX) return fail(v, "'%s' is no index", indices[i].var->name);
        declare_var(v, indices[i].var);
    }
    return !v->failed;
}

static bool verify_forall(Verifier *v, const TileOp *op)
{
    const int visible = v->scope.stack.count, loops = v->loops;
    if (!verify_indices(v, op->forall.indices, op->forall.n)) return false;
    v->foralls++;
    v->steps++;
    v->loops = 0; // break does not leave a forall
    const bool good = verify_nested(v, op->forall.body);
    v->loops = loops;
    v->steps--;
    v->foralls--;
    leave(v, visible);
    return good;
}

static bool verify_pipeline(Verifier *v, const TileOp *op)
{
    const int visible = v->scope.stack.count, loops = v->loops;
    const bool directly = v->in_pipeline_block;
    if (v->foralls) return fail(v, "a pipeline stands inside forall");
    if (op->pipeline.stages < 1) return fail(v, "a pipeline of %d stages", op->pipeline.stages);
    if (!verify_indices(v, op->pipeline.indices, op->pipeline.n)) return false;
    for (const TileOp *inner = op->pipeline.body; inner; inner = inner->next)
        if (inner->stage < 0 || inner->stage > op->pipeline.n_stage_labels)
            return fail(v, "stage %d of %d", inner->stage, op->pipeline.n_stage_labels);
    v->loops = 0;
    v->steps++;
    v->in_pipeline_block = true;
    const bool good = verify_block(v, op->pipeline.body);
    v->in_pipeline_block = directly;
    v->loops = loops;
    v->steps--;
    leave(v, visible);
    return good;
}

static bool verify_for(Verifier *v, const TileOp *op)
{
    const int visible = v->scope.stack.count;
    int64_t step;
    if (!verify_integer(v, op->for_.lo, "a lower bound") || !verify_integer(v, op->for_.hi, "an upper bound"))
        return false;
    if (!expr_as_int(op->for_.step, &step) || step == 0)
        return fail(v, "the step of a loop is a constant other than 0");
    declare_var(v, op->for_.var);
    v->loops++;
    v->steps++;
    const bool good = verify_nested(v, op->for_.body);
    v->loops--;
    v->steps--;
    leave(v, visible);
    return good && !v->failed;
}

static bool verify_all(Verifier *v, Expr *const *args, int n)
{
    for (int i = 0; i < n; i++)
        if (!verify_expr(v, args[i])) return false;
    return true;
}

// What is stored has the buffer's type: the checker converts, except in sums, which are rounded once by the target.
static bool verify_store(Verifier *v, const TileOp *op)
{
    if (!verify_expr(v, op->store.value)) return false;
    if (op->store.value->type != op->store.buffer->type)
        return fail(v, "'%s' is %s, what is stored %s", op->store.buffer->name, dtype_name(op->store.buffer->type),
                    dtype_name(op->store.value->type));
    return verify_subscripts(v, op->store.buffer, op->store.subs);
}

static bool verify_op_itself(Verifier *v, const TileOp *op)
{
    switch (op->kind) {
    case T_TILE: return verify_tile(v, op);
    case T_LET:
    case T_SET: return verify_assignment(v, op);
    case T_STORE: return verify_store(v, op);
    case T_UPDATE: return verify_update(v, op);
    case T_ATOMIC: return verify_expr(v, op->atomic.value) && verify_subscripts(v, op->atomic.buffer, op->atomic.subs);
    case T_FILL: return verify_region(v, &op->fill.dst) && verify_expr(v, op->fill.value);
    case T_COPY:
    case T_ATOMIC_TILE:
        return verify_region(v, &op->copy.dst) && verify_region(v, &op->copy.src) &&
               shapes_agree(v, &op->copy.dst, &op->copy.src, "a copy");
    case T_MATMUL: return verify_matmul(v, op);
    case T_SCAN:
        if (!verify_region(v, &op->scan.dst) || !verify_region(v, &op->scan.src)) return false;
        if (op->scan.axis < 0 || op->scan.axis >= region_rank(&op->scan.dst))
            return fail(v, "a scan along axis %d", op->scan.axis);
        return shapes_agree(v, &op->scan.dst, &op->scan.src, "a scan");
    case T_FORALL: return verify_forall(v, op);
    case T_PIPELINE: return verify_pipeline(v, op);
    case T_FOR: return verify_for(v, op);
    case T_WHILE: {
        v->loops++;
        v->steps++;
        const bool good = verify_condition(v, op->while_.cond) && verify_nested(v, op->while_.body) &&
                          verify_nested(v, op->while_.step);
        v->loops--;
        v->steps--;
        return good;
    }
    case T_IF:
        return verify_condition(v, op->branch.cond) && verify_nested(v, op->branch.then) &&
               verify_nested(v, op->branch.otherwise);
    case T_BREAK: return v->loops || fail(v, "break leaves a forall, a pipeline or no loop");
    case T_CONTINUE: return v->steps || fail(v, "continue outside of a loop");
    case T_RETURN: return !v->foralls || fail(v, "return leaves a forall");
    case T_PRINT: return verify_all(v, op->print.args, op->print.n);
    case T_ASSERT: return verify_condition(v, op->assertion.cond);
    case T_EXTERN: return verify_all(v, op->external.args, op->external.n);
    }
    return false;
}

static bool verify_block(Verifier *v, const TileOp *op)
{
    for (; op; op = op->next) {
        const TileOp *const outer = v->op;
        v->op = op;
        if (op->stage && !v->in_pipeline_block) return fail(v, "a stage label outside of a pipeline's body");
        if (!verify_op_itself(v, op) || v->failed) return false;
        v->op = outer;
    }
    return true;
}

static bool verify_interface(Verifier *v)
{
    const TileKernel *const k = v->kernel;
    for (int i = 0; i < k->n_params; i++) {
        const TileParam *const p = &k->params[i];
        if (p->is_tensor ? !p->tensor || p->tensor->kind != BUFFER_TENSOR || p->tensor->param != i : !p->scalar)
            return fail(v, "parameter '%s' does not know itself", p->name);
        if (p->is_tensor && !p->absent) declare_buffer(v, p->tensor);
        if (!p->is_tensor) declare_var(v, p->scalar);
    }
    for (int i = 0; i < k->n_binds; i++) {
        const TileBind *const b = &k->binds[i];
        if (b->param < 0 || b->param >= k->n_params || !k->params[b->param].is_tensor ||
            b->dim >= k->params[b->param].tensor->rank)
            return fail(v, "symbol '%s' is bound by no dimension", b->symbol->name);
        declare_var(v, b->symbol);
    }
    for (int i = 0; i < k->n_checks; i++)
        if (!verify_integer(v, k->checks[i].expected, "a checked extent")) return false;
    for (int i = 0; i < k->n_requires; i++)
        if (!verify_condition(v, k->requires[i].cond)) return false;
    for (int i = 0; i < k->n_grid; i++) // extents do not name coordinates
        if (!verify_integer(v, k->grid[i].extent, "a grid extent")) return false;
    for (int i = 0; i < k->n_grid; i++) declare_var(v, k->grid[i].var);
    return !v->failed;
}

bool tile_verify(const TileKernel *kernel, Text *why)
{
    Verifier v = { .kernel = kernel, .arena = kernel->arena, .why = why, .scope.visible = { .arena = kernel->arena } };
    return verify_interface(&v) && verify_block(&v, kernel->body) && !v.failed;
}
