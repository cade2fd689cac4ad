// SPDX-License-Identifier: MIT
// atomic.c - atomics on elements. A tile belongs to one thread here, so on tiles they are plain; on tensors they are
// the compiler's atomics or, for floating point, a loop of compare and exchange.
//
// Relaxed inside forall. Outside it an atomic is ordered after all its instance did before, and before all after.
#include "lower/cpu/cpu.h"

static const char *const op_names[] = {
    [ATOMIC_ADD] = "add", [ATOMIC_MIN] = "min",           [ATOMIC_MAX] = "max", [ATOMIC_AND] = "and",
    [ATOMIC_OR] = "or",   [ATOMIC_EXCHANGE] = "exchange", [ATOMIC_CAS] = "cas",
};

// f16 and bf16 add in f32 and are rounded once.
static bool is_half(DType t) { return t == DTYPE_F16 || t == DTYPE_BF16; }

static UpdateOp update_of(AtomicOp op)
{
    switch (op) {
    case ATOMIC_ADD: return UPDATE_ADD;
    case ATOMIC_MIN: return UPDATE_MIN;
    case ATOMIC_MAX: return UPDATE_MAX;
    case ATOMIC_AND: return UPDATE_AND;
    case ATOMIC_OR: return UPDATE_OR;
    case ATOMIC_EXCHANGE:
    case ATOMIC_CAS: break;
    }
    return UPDATE_ADD;
}

// The old value of a tile's element, which then is changed; Loop IR, in the wide type.
static Expr *on_tile(Cpu *cx, AtomicOp op, const Place *p, Expr *at, Expr *value, Expr *compare)
{
    const DType wide = dtype_info[p->type].wide;
    Var *const old = cpu_declare(cx, wide, "old", cpu_convert(cx, wide, cpu_place_load(cx, p, at)));
    Expr *next = cpu_convert(cx, wide, value);
    if (op == ATOMIC_CAS)
        next = expr_select(cx->arena, expr_binary(cx->arena, X_EQ, cpu_of(cx, old), cpu_convert(cx, wide, compare)),
                           next, cpu_of(cx, old));
    else if (op != ATOMIC_EXCHANGE)
        next = cpu_update_value(cx, update_of(op), wide, cpu_of(cx, old), next, (Span){ 0 });
    cpu_place_store(cx, p, at, cpu_convert(cx, p->type, next));
    return cpu_of(cx, old);
}

// On an element of a tensor; returns the old value. `value` and `compare` are Loop IR.
Expr *cpu_atomic_on_tensor(Cpu *cx, AtomicOp op, const Place *p, Expr *at, Expr *value, Expr *compare)
{
    const bool half = is_half(p->type);
    const char *const name = arena_printf(cx->arena, "kiln_atomic_%s_%s", op_names[op],
                                          half ? dtype_name(p->type) : dtype_info[p->type].c_name);
    Expr *const address = cpu_place_address(cx, p, at), *const x = cpu_convert(cx, half ? DTYPE_F32 : p->type, value);
    cx->atomics = true;
    if (op == ATOMIC_CAS) return cpu_call(cx, p->type, name, 3, address, cpu_convert(cx, p->type, compare), x);
    return cpu_call(cx, p->type, name, 2, address, x);
}

// Statements for one atomic; returns a variable with the old value (0 where outside) in `type`.
static Expr *atomic_steps(Cpu *cx, AtomicOp op, Buffer *buffer, Expr **subs, Expr *value, Expr *compare, DType type,
                          Span span)
{
    Place p;
    Expr *const x = cpu_expr(cx, value), *const c = compare ? cpu_expr(cx, compare) : NULL;
    if (!cpu_place_element(cx, &p, buffer, subs, span)) return cpu_zero_of(cx, type);
    Expr *const inside = cpu_place_condition(cx, &p), *const at = cpu_linear_at(cx, &p.at, NULL);
    const bool tensor = p.root->kind == BUFFER_TENSOR, ordered = tensor && !cx->nest;
    Var *const result = cpu_declare(cx, type, "was", cpu_convert(cx, type, int_const(cx->arena, 0)));
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    if (!tensor && cx->tiles[p.root->id].shadow) cpu_mark_region(cx, &p, true);
    if (ordered) cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_fence", 0));
    Expr *const old = tensor ? cpu_atomic_on_tensor(cx, op, &p, at, x, c) : on_tile(cx, op, &p, at, x, c);
    cpu_assign(cx, result, cpu_convert(cx, type, old));
    if (ordered) cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_fence", 0));
    cpu_enter(cx, out);
    cx->atomics = cx->atomics || tensor;
    cpu_add_if(cx, inside, &body);
    return cpu_of(cx, result);
}

void cpu_atomic(Cpu *cx, TileOp *op)
{
    const DType type = dtype_info[op->atomic.buffer->type].wide;
    atomic_steps(cx, op->atomic.op, op->atomic.buffer, op->atomic.subs, op->atomic.value, NULL, type, op->span);
}

Expr *cpu_atomic_expr(Cpu *cx, Expr *x)
{
    return atomic_steps(cx, x->atomic.op, x->atomic.buffer, x->atomic.subs, x->atomic.value, x->atomic.compare, x->type,
                        x->span);
}
