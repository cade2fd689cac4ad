// SPDX-License-Identifier: MIT
// thread.c - one iteration of a forall: the statements inside, as the thread runs them that has it.
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/elements/print_reduce.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/values.h"

#include <assert.h>

static void store_at(Printer *pr, const Place *place, Expr *value, const Iteration *it)
{
    const bool in_registers = place->root->kind == BUFFER_LOCAL || is_fragment_in_registers(pr->lo, place->root);
    if (pr->is_muted && !in_registers) return;
    Expr *const cond = both(pr->lo, place->inside, in_registers ? NULL : replica_is_first(pr, &it->layout));
    Nest nest;
    if (cond) begin_if(pr, &nest, cond);
    if (place->recast)
        emit_call(pr, arena_printf(pr->arena, "store_as<%s>", dtype_info[place->recast].c_name), place->bytes ? 3 : 2,
                  recast_address(pr, place), value, place->bytes);
    else if (is_packed_place(place))
        emit_call(pr, arena_printf(pr->arena, "store_packed<%d>", dtype_bits(place->root->type)), 3,
                  var_of(pr, place->pointer), place->at, value);
    else emit_element(pr, place->pointer, place->at, value);
    mark_written(pr, place);
    if (cond) end_nest(pr, &nest);
}

void apply_update(Printer *pr, TileOp *update, Expr *value, DType type, const Iteration *it)
{
    Place place;
    Buffer *const buffer = update->update.buffer;
    place_element(pr, buffer, update->update.subs, it, &place, update->span);
    Expr *const there = test_written(pr, &place, element_at(pr, &place, buffer->type), update->span);
    Expr *const made = combine(pr, update, update->update.op, type, to_dtype(pr, type, buffer->type, there), value);
    store_at(pr, &place, to_dtype(pr, buffer->type, type, made), it);
}

static void emit_update(Printer *pr, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_reductions; i++)
        if (it->reductions[i].update == op) {
            add_to_reduction(pr, it, i);
            return;
        }
    const DType wide = dtype_info[op->update.buffer ? op->update.buffer->type : op->update.var->type].wide;
    const DType type = wide == DTYPE_INT ? DTYPE_I64 : wide;
    Expr *const value = lower_as(pr, type, op->update.value, it);
    if (op->update.buffer) {
        apply_update(pr, op, value, type, it);
        return;
    }
    Var *const var = op->update.var;
    Expr *const made = combine(pr, op, op->update.op, type, lower_as(pr, type, expr_var(pr->arena, var), it), value);
    emit_assign(pr, loop_var(pr, var), to_dtype(pr, var->type, type, made));
}

// A value that is rounded from f32 to the type, before that; NULL: it is not. Of a choice both sides.
static Expr *unrounded(Arena *a, Expr *value, DType type)
{
    if (value->kind == E_FLOAT && value->type == type) return expr_float(a, DTYPE_F32, value->real.value);
    if (value->kind == E_CONVERT && value->type == type && value->convert.a->type == DTYPE_F32) return value->convert.a;
    if (value->kind == E_CONVERT && value->type == type && is_fp8(value->convert.a->type))
        return expr_convert(a, DTYPE_F32, value->convert.a);
    if (value->kind != E_SELECT || value->type != type) return NULL;
    Expr *const first = unrounded(a, value->select.a, type), *const second = unrounded(a, value->select.b, type);
    return first && second ? expr_select(a, value->select.cond, first, second) : NULL;
}

// What goes to a vector that is stored after the loop over it (vector.c). A pair is rounded together: what is stored
// in the source's narrow type waits in f32.
static Expr *vector_value(Printer *pr, TileOp *op, bool is_pair, const Iteration *it)
{
    const DType type = op->store.buffer->type;
    if (!is_pair) return lower_as(pr, type, op->store.value, it);
    Expr *const value = unrounded(pr->arena, op->store.value, type);
    return lower_as(pr, DTYPE_F32, value ? value : op->store.value, it);
}

static void emit_store(Printer *pr, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_stored; i++)
        if (it->stored[i].store == op) {
            if (it->stored[i].codes >= 0) return;
            const bool is_pair = waits_in_f32(pr, it, op, it->stored[i].rounds);
            Expr *const value = vector_value(pr, op, is_pair, it);
            emit_element(pr, it->stored[i].values, var_of(pr, it->mode[it->vector]), value);
            return;
        }
    Place place;
    if (it->halves == op) {
        place_element(pr, op->store.buffer, op->store.subs, it, &place, op->span);
        emit_call(pr, "store_pair", 2, expr_address(pr->arena, place.pointer, place.at),
                  lower_as(pr, DTYPE_U32, op->store.value->convert.a->convert.a->op.a, it));
        return;
    }
    Expr *const value = lower_as(pr, op->store.buffer->type, op->store.value, it);
    place_element(pr, op->store.buffer, op->store.subs, it, &place, op->span);
    store_at(pr, &place, value, it);
}

static void emit_atomic(Printer *pr, TileOp *op, Iteration *it)
{
    if (pr->is_muted) return;
    Expr *const x =
        NEW(pr->arena, Expr, .kind = E_ATOMIC, .type = op->atomic.buffer->type, .span = op->span,
            .atomic = {
                .op = op->atomic.op, .buffer = op->atomic.buffer, .subs = op->atomic.subs, .value = op->atomic.value });
    Expr *call = lower_expr(pr, x, it), *cond = replica_is_first(pr, &it->layout);
    if (call->kind == E_SELECT) { // the checked form: a statement needs no other arm
        cond = both(pr->lo, cond, call->select.cond);
        call = call->select.a;
    }
    if (call->kind != E_CALL) // known to be outside
        return;
    emit_call_if(pr, cond, call);
}

// Of one index, before what else the bounds need.
void index_bounds(Printer *pr, const LoopIndex *index, const Iteration *it, Expr **from, Expr **to)
{
    const bool wide = loop_var(pr, index->var)->type == DTYPE_I64;
    *from = wide ? lower_int64(pr, index->lo, it) : lower_expr(pr, index->lo, it);
    *to = wide ? lower_int64(pr, index->hi, it) : lower_expr(pr, index->hi, it);
}

void begin_index_loop(Printer *pr, Nest *nest, const LoopIndex *index, LoopForm form, const Iteration *it)
{
    Expr *from, *to;
    index_bounds(pr, index, it, &from, &to);
    Var *const var = loop_var(pr, index->var);
    begin_for(pr, nest, var, from, to, expr_int(pr->arena, var->type, 1), form);
}

void begin_counted_loop(Printer *pr, Nest *nest, const TileOp *op, LoopForm form, const Iteration *it)
{
    const LoopIndex index = { op->for_.var, op->for_.lo, op->for_.hi };
    int64_t step = 1;
    begin_index_loop(pr, nest, &index, form, it);
    expr_as_int(op->for_.step, &step);
    nest->stmt->for_.step = expr_int(pr->arena, loop_var(pr, op->for_.var)->type, step);
}

// A loop that one thread makes: inner forall, copies of slices inside an iteration.
static void emit_thread_loops(Printer *pr, TileOp *forall, Iteration *it)
{
    Nest nests[LOOP_INDICES_MAX];
    const int n = forall->forall.n;
    for (int i = 0; i < n; i++) begin_index_loop(pr, &nests[i], &forall->forall.indices[i], LOOP_PLAIN, it);
    emit_thread_block(pr, forall->forall.body, it);
    end_nests(pr, nests, n);
}

static void emit_thread_for(Printer *pr, TileOp *op, Iteration *it)
{
    Nest nest;
    begin_counted_loop(pr, &nest, op, LOOP_PLAIN, it);
    emit_thread_block(pr, op->for_.body, it);
    end_nest(pr, &nest);
}

void begin_while(Printer *pr, Nest *nest, Expr *cond, const Iteration *it)
{
    Nest leave;
    begin_endless(pr, nest);
    if (expr_is_const(cond) && cond->integer.value) return;
    begin_if(pr, &leave, expr_unary(pr->arena, X_NOT, lower_expr(pr, cond, it)));
    emit_jump(pr, L_BREAK);
    end_nest(pr, &leave);
}

static void emit_thread_while(Printer *pr, TileOp *op, Iteration *it)
{
    // `continue` must still run the step: the body is a loop of one pass, which continue leaves.
    Nest loop, once;
    begin_while(pr, &loop, op->while_.cond, it);
    if (op->while_.step) {
        begin_block(pr, &once);
        emit_thread_block(pr, op->while_.body, it);
        end_nest(pr, &once);
        emit_thread_block(pr, op->while_.step, it);
    } else {
        emit_thread_block(pr, op->while_.body, it);
    }
    end_nest(pr, &loop);
}

// Of a declaration; NULL: none.
Expr *let_value(Printer *pr, const TileOp *op, const Iteration *it)
{
    const DType type = op->let.var->type;
    if (!op->let.value) return NULL;
    if (type == DTYPE_INT && loop_var(pr, op->let.var)->type == DTYPE_I32)
        return cast(pr, DTYPE_I32, lower_expr(pr, op->let.value, it));
    return lower_as(pr, type, op->let.value, it);
}

static void emit_thread_if(Printer *pr, TileOp *op, Iteration *it)
{
    Nest nest;
    begin_if(pr, &nest, lower_expr(pr, op->branch.cond, it));
    emit_thread_block(pr, op->branch.then, it);
    if (op->branch.otherwise) {
        begin_else(pr, &nest);
        emit_thread_block(pr, op->branch.otherwise, it);
    }
    end_nest(pr, &nest);
}

static void declare_local(Printer *pr, const Buffer *buffer)
{
    int64_t n = 1, extent;
    for (int d = 0; d < buffer->rank; d++) n *= expr_as_int(buffer->shape[d], &extent) ? extent : 1;
    if (buffer->kind == BUFFER_LOCAL)
        pr->tensors[buffer->id] = emit_array(pr, loop_type(buffer->type), buffer->name, n);
}

void emit_thread_op(Printer *pr, TileOp *op, Iteration *it)
{
    switch (op->kind) {
    case T_TILE: declare_local(pr, op->tile.buffer); return;
    case T_LET: emit_definition(pr, loop_var(pr, op->let.var), let_value(pr, op, it)); return;
    case T_SET: emit_assign(pr, loop_var(pr, op->let.var), lower_as(pr, op->let.var->type, op->let.value, it)); return;
    case T_STORE: emit_store(pr, op, it); return;
    case T_UPDATE: emit_update(pr, op, it); return;
    case T_ATOMIC: emit_atomic(pr, op, it); return;
    case T_FILL:
    case T_COPY:
    case T_ATOMIC_TILE:
    case T_FORALL: emit_thread_loops(pr, map_of(pr->lo, op), it); return;
    case T_FOR: emit_thread_for(pr, op, it); return;
    case T_WHILE: emit_thread_while(pr, op, it); return;
    case T_IF: emit_thread_if(pr, op, it); return;
    case T_BREAK: emit_jump(pr, L_BREAK); return;
    case T_CONTINUE: emit_jump(pr, L_CONTINUE); return;
    case T_ASSERT: emit_assert(pr, op, it); return;
    case T_PRINT: emit_print(pr, op, it); return;
    case T_EXTERN: emit_external(pr, op, it); return;
    case T_MATMUL:
    case T_SCAN:
    case T_PIPELINE:
    case T_RETURN: assert(!"refused where the map was decided"); return;
    }
}

void emit_thread_block(Printer *pr, TileOp *block, Iteration *it)
{
    for (TileOp *op = block; op; op = op->next) emit_thread_op(pr, op, it);
}
