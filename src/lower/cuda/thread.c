// SPDX-License-Identifier: MIT
// thread.c - one iteration of a forall: the statements inside, as the thread runs them that has it.
#include "lower/cuda/reduce.h"
#include "lower/cuda/checked.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"

#include <assert.h>

static void store_at(Lowering *lo, const Place *place, Expr *value, const Iteration *it)
{
    const bool in_registers = place->root->kind == BUFFER_LOCAL || is_fragment_in_registers(lo, place->root);
    if (lo->is_muted && !in_registers) return;
    Expr *const cond = both(lo, place->inside, in_registers ? NULL : replica_is_first(lo, &it->layout));
    Nest nest;
    if (cond) begin_if(lo, &nest, cond);
    if (place->recast)
        emit_call(lo, arena_printf(lo->arena, "store_as<%s>", dtype_info[place->recast].c_name), place->bytes ? 3 : 2,
                  expr_address(lo->arena, place->pointer, place->at), value, place->bytes);
    else if (is_packed_place(place))
        emit_call(lo, arena_printf(lo->arena, "store_packed<%d>", dtype_bits(place->root->type)), 3,
                  var_of(lo, place->pointer), place->at, value);
    else emit_element(lo, place->pointer, place->at, value);
    mark_written(lo, place);
    if (cond) end_nest(lo, &nest);
}

void apply_update(Lowering *lo, TileOp *update, Expr *value, DType type, const Iteration *it)
{
    Place place;
    Buffer *const buffer = update->update.buffer;
    if (!place_element(lo, buffer, update->update.subs, it, &place, update->span)) return;
    Expr *const there = test_written(lo, &place, element_at(lo, &place, buffer->type), update->span);
    Expr *const made = combine(lo, update, update->update.op, type, to_dtype(lo, type, buffer->type, there), value);
    store_at(lo, &place, to_dtype(lo, buffer->type, type, made), it);
}

static void emit_update(Lowering *lo, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_reductions; i++)
        if (it->reductions[i].update == op) {
            add_to_reduction(lo, it, i);
            return;
        }
    const DType wide = dtype_info[op->update.buffer ? op->update.buffer->type : op->update.var->type].wide;
    const DType type = wide == DTYPE_INT ? DTYPE_I64 : wide;
    Expr *const value = lower_as(lo, type, op->update.value, it);
    if (op->update.buffer) {
        apply_update(lo, op, value, type, it);
        return;
    }
    Var *const var = op->update.var;
    Expr *const made = combine(lo, op, op->update.op, type, lower_as(lo, type, expr_var(lo->arena, var), it), value);
    emit_assign(lo, loop_var(lo, var), to_dtype(lo, var->type, type, made));
}

// What goes to a vector that is stored after the loop over it (vector.c). A pair is rounded together: what is stored
// in the source's narrow type waits in f32.
static Expr *vector_value(Lowering *lo, TileOp *op, bool is_pair, const Iteration *it)
{
    Expr *value = op->store.value;
    const DType type = op->store.buffer->type;
    if (!is_pair) return lower_as(lo, type, value, it);
    if (value->kind == E_CONVERT && value->type == type && value->convert.a->type == DTYPE_F32)
        value = value->convert.a;
    return lower_as(lo, DTYPE_F32, value, it);
}

static void emit_store(Lowering *lo, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_stored; i++)
        if (it->stored[i].store == op) {
            const bool is_pair = waits_in_f32(lo, op, it->stored[i].rounds);
            Expr *const value = vector_value(lo, op, is_pair, it);
            emit_element(lo, it->stored[i].values, var_of(lo, it->mode[it->vector]), value);
            return;
        }
    Expr *const value = lower_as(lo, op->store.buffer->type, op->store.value, it);
    Place place;
    if (place_element(lo, op->store.buffer, op->store.subs, it, &place, op->span)) store_at(lo, &place, value, it);
}

static void emit_atomic(Lowering *lo, TileOp *op, Iteration *it)
{
    if (lo->is_muted) return;
    Expr *const x =
        NEW(lo->arena, Expr, .kind = E_ATOMIC, .type = op->atomic.buffer->type, .span = op->span,
            .atomic = {
                .op = op->atomic.op, .buffer = op->atomic.buffer, .subs = op->atomic.subs, .value = op->atomic.value });
    Expr *call = lower_expr(lo, x, it), *cond = replica_is_first(lo, &it->layout);
    if (call->kind == E_SELECT) { // the checked form: a statement needs no other arm
        cond = both(lo, cond, call->select.cond);
        call = call->select.a;
    }
    if (call->kind != E_CALL) // known to be outside
        return;
    emit_call_if(lo, cond, call);
}

// Of one index, before what else the bounds need.
void index_bounds(Lowering *lo, const LoopIndex *index, const Iteration *it, Expr **from, Expr **to)
{
    const bool wide = loop_var(lo, index->var)->type == DTYPE_I64;
    *from = wide ? lower_int64(lo, index->lo, it) : lower_expr(lo, index->lo, it);
    *to = wide ? lower_int64(lo, index->hi, it) : lower_expr(lo, index->hi, it);
}

void begin_index_loop(Lowering *lo, Nest *nest, const LoopIndex *index, LoopForm form, const Iteration *it)
{
    Expr *from, *to;
    index_bounds(lo, index, it, &from, &to);
    Var *const var = loop_var(lo, index->var);
    begin_for(lo, nest, var, from, to, expr_int(lo->arena, var->type, 1), form);
}

void begin_counted_loop(Lowering *lo, Nest *nest, const TileOp *op, LoopForm form, const Iteration *it)
{
    const LoopIndex index = { op->for_.var, op->for_.lo, op->for_.hi };
    int64_t step = 1;
    begin_index_loop(lo, nest, &index, form, it);
    expr_as_int(op->for_.step, &step);
    nest->stmt->for_.step = expr_int(lo->arena, loop_var(lo, op->for_.var)->type, step);
}

// A loop that one thread makes: inner forall, copies of slices inside an iteration.
static void emit_thread_loops(Lowering *lo, TileOp *forall, Iteration *it)
{
    Nest nests[LOOP_INDICES_MAX];
    const int n = forall->forall.n;
    for (int i = 0; i < n; i++) begin_index_loop(lo, &nests[i], &forall->forall.indices[i], LOOP_PLAIN, it);
    emit_thread_block(lo, forall->forall.body, it);
    end_nests(lo, nests, n);
}

static void emit_thread_for(Lowering *lo, TileOp *op, Iteration *it)
{
    Nest nest;
    begin_counted_loop(lo, &nest, op, LOOP_PLAIN, it);
    emit_thread_block(lo, op->for_.body, it);
    end_nest(lo, &nest);
}

static void emit_thread_while(Lowering *lo, TileOp *op, Iteration *it)
{
    // `continue` must still run the step: the body is a loop of one pass, which continue leaves.
    Nest loop, once;
    begin_while(lo, &loop, op->while_.cond, it);
    if (op->while_.step) {
        begin_block(lo, &once);
        emit_thread_block(lo, op->while_.body, it);
        end_nest(lo, &once);
        emit_thread_block(lo, op->while_.step, it);
    } else {
        emit_thread_block(lo, op->while_.body, it);
    }
    end_nest(lo, &loop);
}

// Of a declaration; NULL: none.
Expr *let_value(Lowering *lo, const TileOp *op, const Iteration *it)
{
    const DType type = op->let.var->type;
    if (!op->let.value) return NULL;
    if (type == DTYPE_INT && loop_var(lo, op->let.var)->type == DTYPE_I32)
        return cast(lo, DTYPE_I32, lower_expr(lo, op->let.value, it));
    return lower_as(lo, type, op->let.value, it);
}

static void emit_thread_if(Lowering *lo, TileOp *op, Iteration *it)
{
    Nest nest;
    begin_if(lo, &nest, lower_expr(lo, op->branch.cond, it));
    emit_thread_block(lo, op->branch.then, it);
    if (op->branch.otherwise) {
        begin_else(lo, &nest);
        emit_thread_block(lo, op->branch.otherwise, it);
    }
    end_nest(lo, &nest);
}

static void declare_local(Lowering *lo, const Buffer *buffer)
{
    int64_t n = 1, extent;
    for (int d = 0; d < buffer->rank; d++) n *= expr_as_int(buffer->shape[d], &extent) ? extent : 1;
    if (buffer->kind == BUFFER_LOCAL)
        lo->tensors[buffer->id] = emit_array(lo, loop_type(buffer->type), buffer->name, n);
}

void emit_thread_op(Lowering *lo, TileOp *op, Iteration *it)
{
    switch (op->kind) {
    case T_TILE: declare_local(lo, op->tile.buffer); return;
    case T_LET: emit_definition(lo, loop_var(lo, op->let.var), let_value(lo, op, it)); return;
    case T_SET: emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, it)); return;
    case T_STORE: emit_store(lo, op, it); return;
    case T_UPDATE: emit_update(lo, op, it); return;
    case T_ATOMIC: emit_atomic(lo, op, it); return;
    case T_FILL:
    case T_COPY:
    case T_ATOMIC_TILE:
    case T_FORALL: emit_thread_loops(lo, as_map(lo, op), it); return;
    case T_FOR: emit_thread_for(lo, op, it); return;
    case T_WHILE: emit_thread_while(lo, op, it); return;
    case T_IF: emit_thread_if(lo, op, it); return;
    case T_BREAK: emit_jump(lo, L_BREAK); return;
    case T_CONTINUE: emit_jump(lo, L_CONTINUE); return;
    case T_ASSERT: emit_assert(lo, op, it); return;
    case T_PRINT: emit_print(lo, op, it); return;
    case T_EXTERN: emit_external(lo, op, it); return;
    case T_MATMUL:
    case T_SCAN:
    case T_PIPELINE:
    case T_RETURN: assert(!"refused where the map was decided"); return;
    }
}

void emit_thread_block(Lowering *lo, TileOp *block, Iteration *it)
{
    for (TileOp *op = block; op; op = op->next) emit_thread_op(lo, op, it);
}
