// SPDX-License-Identifier: MIT
// expr.c - scalar expressions of Tile IR as Loop IR: loads get addresses and bounds, conversions and functions the
// prelude's names, and what a loop nest need not compute again moves before the loop that it does not depend on.
//
// C compilers move integer arithmetic out of loops, but not loads (a store might alias) nor what hangs on them; so
// `exp(a[i]) * 448 / top[i]` inside a loop over j is moved here.
#include "lower/cpu/cpu.h"

#include <stdio.h>

Expr *cpu_zero_of(Cpu *cx, DType type)
{
    Expr *const zero = cpu_literal(cx, "0");
    zero->type = type;
    return zero;
}

// ---- the level of the loop nest that an expression needs

static bool is_written(const Nest *nest, const Buffer *root)
{
    for (int i = 0; i < nest->written.count; i++)
        if (nest->written.items[i] == root) return true;
    return false;
}

static int var_depth(const Nest *nest, const Var *var) { return var->id < nest->n_depths ? nest->depth[var->id] : 0; }

static int deeper(int a, int b) { return a > b ? a : b; }

static int region_depth(Cpu *cx, const Region *r)
{
    int depth = 0;
    for (int d = 0; d < r->buffer->rank; d++) {
        depth = deeper(depth, cpu_expr_depth(cx, r->subs[d].start));
        if (r->subs[d].width) depth = deeper(depth, cpu_expr_depth(cx, r->subs[d].width));
    }
    return r->buffer->kind == BUFFER_VIEW ? deeper(depth, region_depth(cx, &r->buffer->base)) : depth;
}

static int load_depth(Cpu *cx, const Expr *x)
{
    Buffer *const root = buffer_root(x->load.buffer);
    if (root->kind == BUFFER_LOCAL || is_written(cx->nest, root)) return cx->nest->n;
    int depth = 0;
    for (int d = 0; d < x->load.buffer->rank; d++) depth = deeper(depth, cpu_expr_depth(cx, x->load.subs[d]));
    if (x->load.buffer->kind == BUFFER_VIEW) depth = deeper(depth, region_depth(cx, &x->load.buffer->base));
    return depth;
}

int cpu_expr_depth(Cpu *cx, const Expr *x)
{
    Expr **slots[EXPR_SLOTS_MAX];
    int depth = 0;
    switch (x->kind) {
    case E_INT:
    case E_FLOAT: return 0;
    case E_VAR: return var_depth(cx->nest, x->var.var);
    case E_LOAD: return load_depth(cx, x);
    case E_ATOMIC: return cx->nest->n;
    case E_INDEX:
    case E_ADDRESS: return cx->nest->n;
    case E_UNARY:
    case E_BINARY:
    case E_SELECT:
    case E_CONVERT:
    case E_BITCAST:
    case E_MATH:
    case E_CALL: break;
    }
    const int n = expr_children((Expr *)x, slots, COUNT(slots));
    for (int i = 0; i < n; i++) depth = deeper(depth, cpu_expr_depth(cx, *slots[i]));
    return depth;
}

// ---- moving out of loops

// Whether computing it again costs more than a register: not for additions and products of integers.
static bool is_worth_moving(const Expr *x, void *context)
{
    switch (x->kind) {
    case E_INT:
    case E_FLOAT:
    case E_VAR: return false;
    case E_LOAD:
    case E_MATH:
    case E_SELECT: return true;
    case E_BINARY: return !(x->type == DTYPE_INT && (x->op.op == X_ADD || x->op.op == X_SUB || x->op.op == X_MUL));
    case E_CONVERT: return x->type != DTYPE_INT;
    case E_UNARY: return x->type != DTYPE_INT;
    case E_BITCAST: return true;
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: return false;
    }
    return false;
}

static bool subs_inside(const Buffer *b, Expr **subs)
{
    for (int d = 0; d < b->rank; d++)
        if (!common_is_inside(subs[d], b->shape[d])) return false;
    return true;
}

static bool must_stay(const Expr *x, void *context)
{
    return x->kind == E_ATOMIC || x->kind == E_CALL || x->kind == E_INDEX || x->kind == E_ADDRESS;
}

// What could fault, or cost as much as a division does, if it were computed although nobody asked.
static bool may_fault(const Expr *x, void *context)
{
    if (x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD) && dtype_is_integer(x->type)) return true;
    if (x->kind == E_MATH && builtins[x->math.fn].divides) return true;
    return x->kind == E_LOAD && buffer_root(x->load.buffer)->kind != BUFFER_TENSOR &&
           !subs_inside(x->load.buffer, x->load.subs);
}

static Expr *lower_node(Cpu *cx, Expr *x);

static Expr *moved_out(Cpu *cx, Expr *x, int depth)
{
    Nest *const nest = cx->nest;
    for (int i = 0; i < nest->hoists.count; i++)
        if (nest->hoists.items[i].depth == depth && expr_equal(nest->hoists.items[i].expr, x))
            return cpu_of(cx, nest->hoists.items[i].var);
    LoopList *const back = cpu_enter(cx, nest->before[depth]);
    const int conditional = nest->conditional;
    nest->conditional = 0;
    Var *const var = cpu_declare(cx, x->type, "h", lower_node(cx, x));
    nest->conditional = conditional;
    cpu_enter(cx, back);
    VEC_PUSH(cx->arena, &nest->hoists, ((Hoist){ x, var, depth }));
    return cpu_of(cx, var);
}

Expr *cpu_expr(Cpu *cx, Expr *x)
{
    if (!cx->nest || x->kind == E_INT || x->kind == E_FLOAT || x->kind == E_VAR || cpu_is_checked(cx))
        return lower_node(cx, x);
    const int depth = cpu_expr_depth(cx, x);
    Expr *const looked_up = depth == cx->nest->n ? cpu_looked_up(cx, x) : NULL;
    if (looked_up) return looked_up;
    const bool moves = depth < cx->nest->n && expr_any(x, is_worth_moving, NULL) && !expr_any(x, must_stay, NULL) &&
                       !((cx->nest->conditional || cx->nest->may_be_empty) && expr_any(x, may_fault, NULL));
    return moves ? moved_out(cx, x, depth) : lower_node(cx, x);
}

// ---- kinds of expressions

static Expr *lower_load(Cpu *cx, Expr *x)
{
    Place p;
    if (!cpu_place_element(cx, &p, x->load.buffer, x->load.subs, x->span)) return cpu_zero_of(cx, x->type);
    Expr *const inside = cpu_place_condition(cx, &p);
    Expr *at = cpu_linear_at(cx, &p.at, NULL);
    Var *const shadow = p.root->kind != BUFFER_TENSOR ? cx->tiles[p.root->id].shadow : NULL;
    if (shadow) {
        Expr *const text = cpu_quoted(cx, common_unwritten_text(cx->arena, x->load.buffer));
        if (!p.bytes)
            at = cpu_call(cx, DTYPE_INT, "kiln_written", 5, cpu_of(cx, cx->host), cpu_of(cx, shadow), at,
                          cpu_where(cx, x->span), text);
    }
    Expr *const value = cpu_place_load(cx, &p, at);
    return inside ? expr_select(cx->arena, inside, value, cpu_zero_of(cx, value->type)) : value;
}

static bool has_cost_or_effect(const Expr *x, void *context)
{
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL || may_fault(x, context);
}

static Expr *lower_conditional(Cpu *cx, Expr *x)
{
    if (cx->nest) cx->nest->conditional++;
    Expr *const result = cpu_expr(cx, x);
    if (cx->nest) cx->nest->conditional--;
    return result;
}

// a && b without a branch where b may be computed anyway, so that loops vectorise.
static Expr *lower_logic(Cpu *cx, Expr *x)
{
    Expr *const a = cpu_expr(cx, x->op.a);
    if (expr_any(x->op.b, has_cost_or_effect, NULL))
        return expr_binary(cx->arena, x->op.op, a, lower_conditional(cx, x->op.b));
    return expr_binary(cx->arena, x->op.op == X_AND ? X_BITAND : X_BITOR, a, cpu_expr(cx, x->op.b));
}

// A comparison of `int`s that has the innermost index once, as a comparison of 32-bit lanes: index against a bound
// that the loop does not change. The bound is cut to what the index can meet.
static Expr *lower_lane_comparison(Cpu *cx, Expr *x)
{
    Nest *const nest = cx->nest;
    if (!nest || !nest->inner || x->op.a->type != DTYPE_INT) return NULL;
    int64_t c;
    Expr *rest;
    Var *const vars[] = { nest->inner };
    if (!expr_affine(cx->arena, int_sub(cx->arena, x->op.a, x->op.b), vars, 1, &c, &rest) || (c != 1 && c != -1) ||
        cpu_expr_depth(cx, rest) >= nest->n)
        return NULL;
    Expr *const far = int_const(cx->arena, 1 << 30);
    Expr *bound = c == 1 ? int_sub(cx->arena, int_const(cx->arena, 0), rest) : rest;
    Expr *const limits[] = { bound, int_sub(cx->arena, int_const(cx->arena, 0), far), far };
    bound = expr_convert(cx->arena, DTYPE_I32, expr_math(cx->arena, DTYPE_INT, M_CLAMP, 3, (Expr **)limits));
    const ExprOp op = c == 1 ? x->op.op : expr_mirrored(x->op.op);
    return expr_binary(cx->arena, op, cpu_of(cx, nest->inner32), cpu_expr(cx, bound));
}

static Expr *lower_binary(Cpu *cx, Expr *x)
{
    if (x->op.op == X_AND || x->op.op == X_OR) return lower_logic(cx, x);
    if (op_compares(x->op.op)) {
        Expr *const lanes = lower_lane_comparison(cx, x);
        if (lanes) return lanes;
    }
    Expr *const a = cpu_expr(cx, x->op.a), *const b = cpu_expr(cx, x->op.b);
    return cpu_operation(cx, x->op.op, a, b, x->op.b, x->span);
}

static Expr *lower_unary(Cpu *cx, Expr *x)
{
    Expr *const a = cpu_expr(cx, x->op.a);
    return x->op.op == X_NEG ? cpu_negation(cx, a, x->span) : expr_unary(cx->arena, x->op.op, a);
}

static Expr *lower_node(Cpu *cx, Expr *x)
{
    switch (x->kind) {
    case E_INT:
    case E_FLOAT: return x;
    case E_VAR:
        return x->var.var->id < cx->kernel->n_vars && cx->var_map[x->var.var->id] ? cx->var_map[x->var.var->id] : x;
    case E_LOAD: return lower_load(cx, x);
    case E_UNARY: return lower_unary(cx, x);
    case E_BINARY: return lower_binary(cx, x);
    case E_SELECT: {
        Expr *const cond = cpu_expr(cx, x->select.cond), *const a = lower_conditional(cx, x->select.a);
        return expr_select(cx->arena, cond, a, lower_conditional(cx, x->select.b));
    }
    case E_CONVERT: return cpu_convert(cx, x->type, cpu_expr(cx, x->convert.a));
    case E_BITCAST: return cpu_bitcast(cx, x->type, cpu_expr(cx, x->convert.a));
    case E_MATH:
    case E_CALL: {
        Expr *args[EXPR_SLOTS_MAX];
        const int n = x->kind == E_MATH ? x->math.n : x->call.n;
        Expr **const from = x->kind == E_MATH ? x->math.args : x->call.args;
        for (int i = 0; i < n; i++) args[i] = cpu_expr(cx, from[i]);
        if (x->kind == E_MATH) return cpu_math(cx, x, args);
        return n < 0 ? x : expr_call(cx->arena, x->type, x->call.name, n, args);
    }
    case E_ATOMIC: return cpu_atomic_expr(cx, x);
    case E_INDEX:
    case E_ADDRESS: return x; // Loop IR already
    }
    return x;
}
