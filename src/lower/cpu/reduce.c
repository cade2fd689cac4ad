// SPDX-License-Identifier: MIT
// reduce.c - `x op= y`: an update of an element, or a reduction over the indices that x does not have.
//
// A reduction accumulates in x's wide type in a variable before the innermost loops that x does not depend on,
// and reaches x after them, rounded once. If x depends on the innermost index, each iteration updates its own
// element, vector by vector: sums over an outer index are sums of rows.
#include "lower/cpu/cpu.h"

#include <math.h>

Expr *cpu_update_value(Cpu *cx, UpdateOp op, DType type, Expr *old, Expr *value, Span span)
{
    if (op == UPDATE_MIN || op == UPDATE_MAX) {
        if (type == DTYPE_BOOL) return expr_binary(cx->arena, op == UPDATE_MIN ? X_BITAND : X_BITOR, old, value);
        Expr *args[] = { old, value };
        Expr *const both_sides = expr_math(cx->arena, type, op == UPDATE_MIN ? M_MIN : M_MAX, 2, args);
        return both_sides->kind == E_MATH ? cpu_math(cx, both_sides, both_sides->math.args) : both_sides;
    }
    return cpu_operation(cx, update_operator(op), old, value, value, span);
}

// One step of an accumulator that is never NaN where `op` is min or max: a NaN value loses by the comparison alone.
static Expr *accumulated(Cpu *cx, const TileOp *update, Expr *acc, Expr *value)
{
    const UpdateOp op = update->update.op;
    if (op == UPDATE_MIN || op == UPDATE_MAX)
        return expr_select(cx->arena, expr_binary(cx->arena, op == UPDATE_MIN ? X_LT : X_GT, value, acc), value, acc);
    return cpu_update_value(cx, op == UPDATE_SUB ? UPDATE_ADD : op, acc->type, acc, value, update->span);
}

// old = old op value, where old is an element or a variable.
static void combine(Cpu *cx, TileOp *op, DType wide, Expr *value)
{
    if (op->update.var) {
        Var *const var = op->update.var;
        Expr *const old = cpu_convert(cx, wide, cpu_expr(cx, cpu_of(cx, var)));
        cpu_assign(cx, var,
                   cpu_convert(cx, var->type, cpu_update_value(cx, op->update.op, wide, old, value, op->span)));
        return;
    }
    Place p;
    if (!cpu_place_element(cx, &p, op->update.buffer, op->update.subs, op->span)) return;
    Expr *const inside = cpu_place_condition(cx, &p);
    Expr *const at = cpu_linear_at(cx, &p.at, NULL);
    if (p.root->kind != BUFFER_TENSOR && cx->tiles[p.root->id].shadow) cpu_mark_region(cx, &p, true);
    Expr *const old = cpu_convert(cx, wide, cpu_place_load(cx, &p, at));
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    cpu_place_store(cx, &p, at,
                    cpu_convert(cx, p.type, cpu_update_value(cx, op->update.op, wide, old, value, op->span)));
    cpu_enter(cx, out);
    if (inside) cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { inside, body.first, NULL } });
    else
        for (LoopStmt *s = body.first; s; s = s->next) cpu_add(cx, *s);
}

// Vectors sum in many lanes, which keeps the error of long f32 sums small; where there are few lanes or none, f64 does.
static DType accumulator_type(const Cpu *cx, UpdateOp op, DType wide)
{
    if (wide == DTYPE_BOOL) return DTYPE_U32;
    const bool adds = op == UPDATE_ADD || op == UPDATE_SUB, few = cpu_is_checked(cx) || cx->target->isa == ISA_PORTABLE;
    return wide == DTYPE_F32 && adds && few ? DTYPE_F64 : wide;
}

static const char *clause_of(UpdateOp op, DType type)
{
    const bool is_float = dtype_is_float(type);
    switch (op) {
    case UPDATE_ADD:
    case UPDATE_SUB: return "+";
    case UPDATE_MUL: return "*";
    case UPDATE_MIN: return is_float ? "kiln_min" : "min"; // of prelude/base.c
    case UPDATE_MAX: return is_float ? "kiln_max" : "max";
    case UPDATE_OR: return "|";
    case UPDATE_AND: return "&";
    case UPDATE_XOR: return "^";
    case UPDATE_DIV:
    case UPDATE_MOD:
    case UPDATE_SHL:
    case UPDATE_SHR: break;
    }
    return "+";
}

// The level after whose loops the target is complete.
static int target_depth(Cpu *cx, const TileOp *op)
{
    int depth = 0;
    for (int d = 0; op->update.buffer && d < op->update.buffer->rank; d++) {
        const int sub = cpu_expr_depth(cx, op->update.subs[d]);
        depth = sub > depth ? sub : depth;
    }
    return depth;
}

// A scalar that the body itself declares belongs to the iteration.
static bool is_private(const Nest *nest, const Var *var)
{
    for (const TileOp *op = nest->op->forall.body; op; op = op->next)
        if (op->kind == T_LET && op->let.var == var) return true;
    return false;
}

// ---- whole rows

static const char *row_function(UpdateOp op)
{
    return op == UPDATE_ADD   ? "kiln_row_sum_f32"
           : op == UPDATE_MAX ? "kiln_row_max_f32"
           : op == UPDATE_MIN ? "kiln_row_min_f32"
                              : NULL;
}

// A body that only reduces the elements of an f32 tile's row, as the prelude's function of that row: it keeps several
// vectors in flight, which the compilers do not do for maxima that skip NaN. NULL if it is not that.
static Expr *reduced_row(Cpu *cx, const TileOp *op)
{
    const Nest *const nest = cx->nest;
    const Expr *const load = op->update.value;
    const LoopIndex *const inner = &nest->op->forall.indices[nest->order[nest->n - 1]];
    Expr *subs[MAX_RANK];
    if (cpu_is_checked(cx) || nest->op->forall.body != op || op->next || load->kind != E_LOAD ||
        load->type != DTYPE_F32 || !row_function(op->update.op) || nest->conditional)
        return NULL;
    Buffer *const b = load->load.buffer;
    if (b->kind != BUFFER_SHARED && b->kind != BUFFER_FRAGMENT) return NULL;
    for (int d = 0; d < b->rank; d++) {
        const bool last = d == b->rank - 1;
        const bool is_index = load->load.subs[d]->kind == E_VAR && load->load.subs[d]->var.var == inner->var;
        if (last ? !is_index : expr_uses(load->load.subs[d], inner->var)) return NULL;
        subs[d] = last ? inner->lo : load->load.subs[d];
    }
    Place p;
    if (!cpu_place_element(cx, &p, b, subs, op->span)) return NULL;
    cpu_use_prelude(cx, "REDUCE");
    Expr *const n = cpu_expr(cx, int_sub(cx->arena, inner->hi, inner->lo));
    return cpu_call(cx, DTYPE_F32, row_function(op->update.op), 2,
                    cpu_place_address(cx, &p, cpu_linear_at(cx, &p.at, NULL)), n);
}

// ---- lanes

static bool is_tile_load(const Expr *x)
{
    return x->kind == E_LOAD && x->type == DTYPE_F32 && buffer_is_tile(x->load.buffer);
}

// A body that is one f32 sum, maximum or minimum over the innermost index, but not of a row as it lies: see above.
bool cpu_reduces_in_lanes(Cpu *cx, const Nest *nest)
{
    const TileOp *const op = nest->op->forall.body;
    const Var *const inner = nest->op->forall.indices[nest->order[nest->n - 1]].var;
    if (cpu_is_checked(cx) || !op || op->next || op->kind != T_UPDATE || !op->update.reduces || !op->update.buffer ||
        op->update.buffer->type != DTYPE_F32 || !row_function(op->update.op) || is_tile_load(op->update.value) ||
        accumulator_type(cx, op->update.op, DTYPE_F32) != DTYPE_F32)
        return false;
    for (int d = 0; d < op->update.buffer->rank; d++)
        if (expr_uses(op->update.subs[d], inner)) return false;
    return true;
}

// Adds `value` to the partial result of its lane; they meet after the loops.
static void reduce_in_lanes(Cpu *cx, TileOp *op, int depth, Expr *value)
{
    Nest *const nest = cx->nest;
    Arena *const a = cx->arena;
    LoopList *const here = cpu_enter(cx, nest->before[depth]);
    Var *const sums = loop_new_pointer(cx->unit, DTYPE_F32, "sums");
    Var *const lane = loop_new_var(cx->unit, DTYPE_I32, "lane");
    sums->pointer = 0;
    cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = sums, .elements = nest->n_lanes } });
    sums->pointer = 1;
    LoopList start = loop_list(a);
    loop_add(&start,
             (LoopStmt){ .kind = L_STORE,
                         .store = { sums, cpu_of(cx, lane), common_identity(cx->arena, op->update.op, DTYPE_F32) } });
    cpu_add(cx, (LoopStmt){ .kind = L_FOR,
                            .for_ = { .var = lane,
                                      .lo = expr_int(a, DTYPE_I32, 0),
                                      .hi = expr_int(a, DTYPE_I32, nest->n_lanes),
                                      .step = expr_int(a, DTYPE_I32, 1),
                                      .body = start.first,
                                      .form = LOOP_VECTORISE } });
    cpu_enter(cx, here);
    Expr *const at = cpu_of(cx, nest->lane), *const sum = expr_index(a, sums, at);
    cpu_add(cx, (LoopStmt){ .kind = L_STORE, .store = { sums, at, accumulated(cx, op, sum, value) } });
    LoopList *const back = cpu_enter(cx, nest->after[depth]);
    cpu_use_prelude(cx, "REDUCE");
    combine(cx, op, DTYPE_F32,
            cpu_call(cx, DTYPE_F32, row_function(op->update.op), 2, cpu_of(cx, sums), int_const(a, nest->n_lanes)));
    cpu_enter(cx, back);
}

// Scaling by 1 changes nothing: a body that only multiplies by what its innermost loop does not change can skip the
// loop. The accumulator of attention is scaled in every step and its factor is 1 in most.
static void guard_scaling(Cpu *cx, const TileOp *op, Expr *factor)
{
    Nest *const nest = cx->nest;
    if (!nest || nest->n < 2 || cpu_is_checked(cx) || op->update.op != UPDATE_MUL || nest->op->forall.body != op ||
        op->next || !dtype_is_float(factor->type) || factor->kind != E_VAR ||
        cpu_expr_depth(cx, op->update.value) >= nest->n)
        return;
    nest->guard = expr_binary(cx->arena, X_NE, factor, expr_float(cx->arena, factor->type, 1));
}

void cpu_update(Cpu *cx, TileOp *op)
{
    Nest *const nest = cx->nest;
    const DType stored = op->update.var ? op->update.var->type : op->update.buffer->type;
    DType wide = dtype_info[stored].wide;
    if (wide == DTYPE_TF32) wide = DTYPE_F32;
    const bool reduces = op->update.reduces && nest && !(op->update.var && is_private(nest, op->update.var));
    const int depth = reduces ? target_depth(cx, op) : 0;
    Expr *const sum = reduces && stored == DTYPE_F32 ? cpu_dot_looked_up(cx, op, depth) : NULL;
    if (sum) {
        LoopList *const back = cpu_enter(cx, nest->after[depth]);
        combine(cx, op, wide, sum);
        cpu_enter(cx, back);
        return;
    }
    Expr *const value = cpu_convert(cx, wide, cpu_expr(cx, op->update.value));
    if (!reduces || depth >= nest->n) {
        if (!reduces) guard_scaling(cx, op, value);
        combine(cx, op, wide, value);
        return;
    }
    if (depth == nest->n - 1 && stored == DTYPE_F32) {
        LoopList *const back = cpu_enter(cx, nest->after[depth]);
        Expr *const row = reduced_row(cx, op);
        if (row) combine(cx, op, wide, row);
        cpu_enter(cx, back);
        if (row) return;
    }
    if (nest->lane) {
        reduce_in_lanes(cx, op, depth, value);
        return;
    }
    LoopList *const here = cpu_enter(cx, nest->before[depth]);
    const DType acc_type = accumulator_type(cx, op->update.op, wide);
    Var *const acc = cpu_declare(cx, acc_type, "reduced", common_identity(cx->arena, op->update.op, acc_type));
    cpu_enter(cx, here);
    cpu_assign(cx, acc, accumulated(cx, op, cpu_of(cx, acc), cpu_convert(cx, acc_type, value)));
    if (dtype_is_float(acc_type) && (op->update.op == UPDATE_MIN || op->update.op == UPDATE_MAX))
        cpu_use_prelude(cx, "EXTREMES");
    *nest->last_reduction = NEW(cx->arena, LoopReduction, .clause = clause_of(op->update.op, acc_type), .var = acc);
    nest->last_reduction = &(*nest->last_reduction)->next;

    LoopList *const back = cpu_enter(cx, nest->after[depth]);
    const int conditional = nest->conditional;
    nest->conditional = 0;
    combine(cx, op, wide, cpu_convert(cx, wide, cpu_of(cx, acc)));
    nest->conditional = conditional;
    cpu_enter(cx, back);
}
