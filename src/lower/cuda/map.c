// map.c - foralls, and with them copies and fills: loops over the register digits of the iteration layout, in which
// every thread does its own elements.
#include "lower/cuda/cuda.h"

// ---- where a thread stands

Expr *digit_value(Lowering *lo, const Layout *layout, int i)
{
    const Digit *const digit = &layout->digit[i];
    Var *const inputs[IN_COUNT] = { [IN_LANE] = lo->lane, [IN_WARP] = lo->warp, [IN_GROUP] = lo->group };
    static const int sizes[IN_COUNT] = { [IN_LANE] = WARP_LANES };
    int below = 1;
    for (int j = 0; j < i; j++)
        if (layout->digit[j].input == digit->input)
            below *= layout->digit[j].extent;
    const int size = digit->input == IN_LANE ? sizes[IN_LANE] : digit->input == IN_WARP ? lo->crew.warps : lo->crew.groups;
    Expr *value = var_of(lo, inputs[digit->input]);
    if (below > 1)
        value = expr_binary(lo->arena, X_DIV, value, i32_const(lo, below));
    if (below * digit->extent < size)
        value = expr_binary(lo->arena, X_MOD, value, i32_const(lo, digit->extent));
    return value;
}

Expr *thread_part(Lowering *lo, const Layout *layout, int dim)
{
    Expr *sum = i32_const(lo, 0);
    for (int i = 0; i < layout->n; i++)
        if (layout->digit[i].dim == dim && layout->digit[i].input != IN_REGISTER)
            sum = i32_add(lo, sum, i32_mul(lo, digit_value(lo, layout, i), layout->digit[i].stride));
    return sum;
}

Expr *replica_is_first(Lowering *lo, const Layout *layout)
{
    Expr *test = NULL;
    for (int i = 0; i < layout->n; i++)
        if (layout->digit[i].dim == REPLICATED) {
            Expr *const zero = expr_binary(lo->arena, X_EQ, digit_value(lo, layout, i), i32_const(lo, 0));
            test = test ? expr_binary(lo->arena, X_AND, test, zero) : zero;
        }
    return test;
}

static Expr *and_also(Lowering *lo, Expr *a, Expr *b)
{
    return !a ? b : !b ? a : expr_binary(lo->arena, X_AND, a, b);
}

Expr *declare_indices(Lowering *lo, const Iteration *it, uint32_t dims)
{
    Expr *valid = NULL;
    for (int i = 0; i < it->n; i++) {
        const int d = it->dim_of[i];
        if (d < 0 || it->is_linear || !(dims >> d & 1))
            continue;
        Expr *value = thread_part(lo, &it->layout, d);
        for (int j = 0; j < it->layout.n; j++)
            if (it->layout.digit[j].input == IN_REGISTER && it->layout.digit[j].dim == d && it->digit[j])
                value = i32_add(lo, value, i32_mul(lo, var_of(lo, it->digit[j]), it->layout.digit[j].stride));
        Var *const var = loop_var(lo, it->indices[i].var);
        if (var->type == DTYPE_I64)
            value = call_expr(lo, DTYPE_I64, "(int64_t)", 1, value);
        loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
        int64_t from, to;
        const int coverage = layout_coverage(&it->layout, d);
        if (!expr_as_int(it->indices[i].lo, &from) || from > 0)
            valid = and_also(lo, valid, expr_binary(lo->arena, X_GE, lower_int64(lo, expr_var(lo->arena, it->indices[i].var), it),
                                                    lower_int64(lo, it->indices[i].lo, it)));
        if (!expr_as_int(it->indices[i].hi, &to) || to < coverage)
            valid = and_also(lo, valid, expr_binary(lo->arena, X_LT, lower_int64(lo, expr_var(lo->arena, it->indices[i].var), it),
                                                    lower_int64(lo, it->indices[i].hi, it)));
    }
    return valid;
}

// ---- statements of one iteration

static void store_at(Lowering *lo, const Place *place, Expr *value, const Iteration *it)
{
    const bool in_registers = place->root->kind == BUFFER_LOCAL || is_fragment_in_registers(lo, place->root);
    if (lo->is_muted && !in_registers)
        return;
    Expr *const cond = and_also(lo, place->inside, in_registers ? NULL : replica_is_first(lo, &it->layout));
    Nest nest;
    if (cond)
        begin_if(lo, &nest, cond);
    if (place->recast)
        loop_add(lo->out, (LoopStmt){ .kind = L_CALL, .call = { call_expr(lo, loop_type(place->recast), arena_printf(lo->arena, "store_as<%s>",
                 dtype_info[place->recast].c_name), 2, expr_address(lo->arena, place->pointer, place->at), value) } });
    else if (is_packed_place(place))
        emit_call(lo, arena_printf(lo->arena, "store_packed<%d>", dtype_bits(place->root->type)), 3, var_of(lo, place->pointer), place->at, value);
    else
        loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { place->pointer, place->at, value } });
    mark_written(lo, place);
    if (cond)
        end_nest(lo, &nest);
}

void apply_update(Lowering *lo, TileOp *update, Expr *value, DType type, const Iteration *it)
{
    Place place;
    Buffer *const buffer = update->update.buffer;
    if (!place_element(lo, buffer, update->update.subs, it, &place, update->span))
        return;
    Expr *const old = to_dtype(lo, type, buffer->type, test_written(lo, &place, element_at(lo, &place, buffer->type), update->span));
    store_at(lo, &place, to_dtype(lo, buffer->type, type, combine(lo, update->update.op, type, old, value)), it);
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
    Expr *const old = lower_as(lo, type, expr_var(lo->arena, op->update.var), it);
    emit_assign(lo, loop_var(lo, op->update.var), to_dtype(lo, op->update.var->type, type, combine(lo, op->update.op, type, old, value)));
}

static void emit_store(Lowering *lo, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_stored; i++)
        if (it->stored[i].store == op && (it->stored[i].rounds || is_fragment_in_registers(lo, op->store.buffer))) {
            // The pair is rounded together: what is stored in the source's narrow type waits in f32.
            Expr *wide = op->store.value;
            if (wide->kind == E_CONVERT && wide->type == op->store.buffer->type && wide->convert.a->type == DTYPE_F32)
                wide = wide->convert.a;
            loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { it->stored[i].values, var_of(lo, it->digit[it->vector]),
                     lower_as(lo, DTYPE_F32, wide, it) } });
            return;
        }
    Expr *const value = lower_as(lo, op->store.buffer->type, op->store.value, it);
    for (int i = 0; i < it->n_stored; i++)
        if (it->stored[i].store == op) {
            loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { it->stored[i].values, var_of(lo, it->digit[it->vector]), value } });
            return;
        }
    Place place;
    if (!place_element(lo, op->store.buffer, op->store.subs, it, &place, op->span))
        return;
    store_at(lo, &place, value, it);
}

static void emit_atomic(Lowering *lo, TileOp *op, Iteration *it)
{
    if (lo->is_muted)
        return;
    Expr *const x = NEW(lo->arena, Expr, .kind = E_ATOMIC, .type = op->atomic.buffer->type, .span = op->span);
    x->atomic.op = op->atomic.op;
    x->atomic.buffer = op->atomic.buffer;
    x->atomic.subs = op->atomic.subs;
    x->atomic.value = op->atomic.value;
    Expr *call = lower_expr(lo, x, it), *cond = replica_is_first(lo, &it->layout);
    if (call->kind == E_SELECT) {    // the checked form: a statement needs no other arm
        cond = and_also(lo, cond, call->select.cond);
        call = call->select.a;
    }
    if (call->kind != E_CALL)        // known to be outside
        return;
    Nest nest;
    if (cond)
        begin_if(lo, &nest, cond);
    loop_add(lo->out, (LoopStmt){ .kind = L_CALL, .call = { call } });
    if (cond)
        end_nest(lo, &nest);
}

// A loop that one thread makes: for, inner forall, copies of slices inside an iteration.
static void emit_thread_loop(Lowering *lo, const LoopIndex *indices, int n, TileOp *body, Iteration *it)
{
    Nest nests[16];
    for (int i = 0; i < n; i++) {
        Var *const var = loop_var(lo, indices[i].var);
        Expr *from = lower_as(lo, indices[i].var->type, indices[i].lo, it), *to = lower_as(lo, indices[i].var->type, indices[i].hi, it);
        if (var->type == DTYPE_I32) {
            from = lower_expr(lo, indices[i].lo, it);
            to = lower_expr(lo, indices[i].hi, it);
        }
        begin_for(lo, &nests[i], var, from, to, expr_int(lo->arena, var->type, 1), LOOP_PLAIN);
    }
    emit_thread_block(lo, body, it);
    for (int i = n - 1; i >= 0; i--)
        end_nest(lo, &nests[i]);
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

void emit_thread_op(Lowering *lo, TileOp *op, Iteration *it)
{
    Nest nest;
    switch (op->kind) {
    case T_TILE:
        if (op->tile.buffer->kind == BUFFER_LOCAL) {
            int64_t n = 1, extent;
            for (int d = 0; d < op->tile.buffer->rank; d++)
                n *= expr_as_int(op->tile.buffer->shape[d], &extent) ? extent : 1;
            lo->tensors[op->tile.buffer->id] = emit_array(lo, loop_type(op->tile.buffer->type), op->tile.buffer->name, n);
        }
        return;
    case T_LET: {
        Var *const var = loop_var(lo, op->let.var);
        Expr *value = op->let.value ? lower_as(lo, op->let.var->type, op->let.value, it) : NULL;
        if (value && var->type == DTYPE_I32 && op->let.var->type == DTYPE_INT) {
            value = lower_expr(lo, op->let.value, it);
            value = value->type == DTYPE_I32 ? value : call_expr(lo, DTYPE_I32, "(int32_t)", 1, value);
        }
        loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
        return;
    }
    case T_SET: emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, it)); return;
    case T_STORE: emit_store(lo, op, it); return;
    case T_UPDATE: emit_update(lo, op, it); return;
    case T_ATOMIC: emit_atomic(lo, op, it); return;
    case T_FILL: case T_COPY: case T_ATOMIC_TILE: {
        TileOp *const map = as_map(lo, op);
        emit_thread_loop(lo, map->forall.indices, map->forall.n, map->forall.body, it);
        return;
    }
    case T_FORALL: emit_thread_loop(lo, op->forall.indices, op->forall.n, op->forall.body, it); return;
    case T_FOR: {
        Var *const var = loop_var(lo, op->for_.var);
        int64_t step = 1;
        if (op->for_.step)
            expr_as_int(op->for_.step, &step);
        if (step < 0) {
            unsupported(lo, op->span, "a loop that counts down inside forall");
            return;
        }
        Expr *from = lower_expr(lo, op->for_.lo, it), *to = lower_expr(lo, op->for_.hi, it);
        if (var->type == DTYPE_I64) {
            from = lower_int64(lo, op->for_.lo, it);
            to = lower_int64(lo, op->for_.hi, it);
        }
        begin_for(lo, &nest, var, from, to, expr_int(lo->arena, var->type, step), LOOP_PLAIN);
        emit_thread_block(lo, op->for_.body, it);
        end_nest(lo, &nest);
        return;
    }
    case T_WHILE: emit_thread_while(lo, op, it); return;
    case T_IF:
        begin_if(lo, &nest, lower_expr(lo, op->branch.cond, it));
        emit_thread_block(lo, op->branch.then, it);
        if (op->branch.otherwise) {
            begin_else(lo, &nest);
            emit_thread_block(lo, op->branch.otherwise, it);
        }
        end_nest(lo, &nest);
        return;
    case T_BREAK: loop_add(lo->out, (LoopStmt){ .kind = L_BREAK }); return;
    case T_CONTINUE: loop_add(lo->out, (LoopStmt){ .kind = L_CONTINUE }); return;
    case T_ASSERT: emit_assert(lo, op, it); return;
    case T_PRINT: emit_print(lo, op, it); return;
    case T_EXTERN: emit_external(lo, op, it); return;
    case T_MATMUL: case T_SCAN: case T_PIPELINE: case T_RETURN:
        unsupported(lo, op->span, "this statement inside forall");
        return;
    }
}

void emit_thread_block(Lowering *lo, TileOp *block, Iteration *it)
{
    for (TileOp *op = block; op; op = op->next)
        emit_thread_op(lo, op, it);
}

// ---- a whole forall

static bool continues(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_CONTINUE)
            return true;
        if (op->kind == T_IF && (continues(op->branch.then) || continues(op->branch.otherwise)))
            return true;
    }
    return false;
}

// The body, in a loop of one pass where `continue` needs one to leave.
static void emit_iteration(Lowering *lo, TileOp *op, Iteration *it)
{
    Nest once;
    const bool wrap = continues(op->forall.body);
    if (wrap) {
        Var *const pass = loop_new_var(lo->unit, DTYPE_I32, "pass");
        begin_for(lo, &once, pass, i32_const(lo, 0), i32_const(lo, 1), i32_const(lo, 1), LOOP_UNROLL);
    }
    emit_thread_block(lo, op->forall.body, it);
    if (wrap)
        end_nest(lo, &once);
}

typedef struct Find { Lowering *lo; Iteration *it; } Find;

static bool find_reduction(Lowering *lo, TileOp *op, void *context)
{
    Iteration *const it = context;
    if (op->kind == T_FORALL || op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_IF || op->kind != T_UPDATE)
        return false;
    if (!op->update.reduces)
        return false;
    uint32_t kept = 0;
    for (int i = 0; i < it->n && op->update.buffer; i++)
        for (int d = 0; d < op->update.buffer->rank; d++)
            if (expr_uses(op->update.subs[d], it->indices[i].var)) {
                if (it->dim_of[i] < 0)
                    return !unsupported(lo, op->span, "a reduction whose target runs along an index that is not divided among threads");
                kept |= 1u << it->dim_of[i];
            }
    if (it->n_reductions == COUNT(it->reductions))
        return !unsupported(lo, op->span, "more than %d reductions in one forall", COUNT(it->reductions));
    it->reductions[it->n_reductions].kept = kept;
    it->reductions[it->n_reductions++].update = op;
    return false;
}

void find_reductions(Lowering *lo, TileOp *forall, Iteration *it)
{
    each_op(lo, forall->forall.body, find_reduction, it);
}

// Indices that are a loop in each thread.
static int begin_serial_loops(Lowering *lo, Iteration *it, Nest *nests)
{
    int depth = 0;
    for (int i = 0; i < it->n; i++) {
        if (it->dim_of[i] >= 0)
            continue;
        Var *const var = loop_var(lo, it->indices[i].var);
        Expr *from = lower_expr(lo, it->indices[i].lo, it), *to = lower_expr(lo, it->indices[i].hi, it);
        if (var->type == DTYPE_I64) {
            from = lower_int64(lo, it->indices[i].lo, it);
            to = lower_int64(lo, it->indices[i].hi, it);
        }
        begin_for(lo, &nests[depth++], var, from, to, expr_int(lo->arena, var->type, 1), LOOP_PLAIN);
    }
    return depth;
}

// All threads count through the product of the distributed indices.
static void emit_linear(Lowering *lo, TileOp *op, Iteration *it)
{
    Arena *const a = lo->arena;
    Expr *total = NULL, *extents[16];
    for (int i = 0; i < it->n; i++) {
        extents[i] = int_sub(a, it->indices[i].hi, it->indices[i].lo);
        if (it->dim_of[i] < 0)
            continue;
        const Range r = expr_range(extents[i]);
        if (!(r.has_lo && r.lo >= 0))
            extents[i] = int_max(a, extents[i], int_const(a, 0));
        total = total ? int_mul(a, total, extents[i]) : extents[i];
    }
    // Results of element reductions belong to one thread each: they begin and end inside the loop.
    for (int i = 0; i < it->n_reductions; i++)
        if (!it->reductions[i].kept)
            begin_reduction(lo, it, i);
    Var *const linear = loop_new_var(lo->unit, DTYPE_I64, "linear");
    Nest loop, serial[16];
    Expr *const count = total ? lower_int64(lo, total, it) : expr_int(a, DTYPE_I64, 1);
    begin_for(lo, &loop, linear, call_expr(lo, DTYPE_I64, "(int64_t)", 1, var_of(lo, lo->has_teams && it->crew.groups > 1 ? lo->thread_of_all : lo->thread)), count,
              expr_int(a, DTYPE_I64, crew_threads(it->crew)), LOOP_PLAIN);
    Expr *rest = var_of(lo, linear);
    bool first = true;
    for (int i = it->n - 1; i >= 0; i--) {
        if (it->dim_of[i] < 0)
            continue;
        bool is_last = true;
        for (int j = 0; j < i; j++)
            is_last = is_last && it->dim_of[j] < 0;
        Expr *const extent = lower_int64(lo, extents[i], it);
        Expr *value = is_last ? rest : expr_binary(a, X_MOD, rest, extent);
        value = expr_binary(a, X_ADD, lower_int64(lo, it->indices[i].lo, it), value);
        Var *const var = loop_var(lo, it->indices[i].var);
        if (var->type == DTYPE_I32)
            value = call_expr(lo, DTYPE_I32, "(int32_t)", 1, value);
        loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
        rest = is_last ? rest : expr_binary(a, X_DIV, rest, extent);
        first = false;
    }
    (void)first;
    for (int i = 0; i < it->n_reductions; i++)
        if (it->reductions[i].kept)
            begin_reduction(lo, it, i);
    const int depth = begin_serial_loops(lo, it, serial);
    emit_iteration(lo, op, it);
    for (int i = depth - 1; i >= 0; i--)
        end_nest(lo, &serial[i]);
    for (int i = 0; i < it->n_reductions; i++)
        if (it->reductions[i].kept)
            apply_update(lo, it->reductions[i].update, expr_index(a, it->reductions[i].partial, i32_const(lo, 0)),
                         reduction_type(it->reductions[i].update), it);
    end_nest(lo, &loop);
    for (int i = 0; i < it->n_reductions; i++)
        if (!it->reductions[i].kept)
            finish_reduction(lo, it, i);
}

// Loops over the register digits, the slowest outermost; all unrolled, so that register arrays become registers.
static void emit_spread(Lowering *lo, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_reductions; i++)
        begin_reduction(lo, it, i);
    Nest serial[16], digits[2 * LAYOUT_MAX_DIGITS];
    const int depth = begin_serial_loops(lo, it, serial);
    if (!it->is_loaded)
        choose_moves(lo, op, it);
    int n = begin_register_loops(lo, it, digits);
    Nest block, guard, pieces;
    begin_block(lo, &block);
    Expr *const valid = declare_indices(lo, it, ~0u);
    if (valid)
        begin_if(lo, &guard, valid);
    Var *base = NULL;
    if (it->vector >= 0) {
        emit_vector_loads(lo, it);
        base = loop_var(lo, it->run);
        it->digit[it->vector] = loop_new_var(lo->unit, DTYPE_I32, "v");
        begin_for(lo, &pieces, it->digit[it->vector], i32_const(lo, 0), i32_const(lo, it->layout.digit[it->vector].extent),
                  i32_const(lo, 1), LOOP_UNROLL);
        Expr *step = var_of(lo, it->digit[it->vector]);
        if (base->type == DTYPE_I64)
            step = call_expr(lo, DTYPE_I64, "(int64_t)", 1, step);
        *var_slot(lo, it->run) = emit_declare(lo, base->type, base->name, expr_binary(lo->arena, X_ADD, var_of(lo, base), step));
    }
    emit_iteration(lo, op, it);
    if (it->vector >= 0) {
        end_nest(lo, &pieces);
        *var_slot(lo, it->run) = base;
        emit_vector_stores(lo, it);
        it->digit[it->vector] = NULL;
    }
    if (valid)
        end_nest(lo, &guard);
    end_nest(lo, &block);
    while (n > 0)
        end_nest(lo, &digits[--n]);
    for (int i = depth - 1; i >= 0; i--)
        end_nest(lo, &serial[i]);
    for (int i = 0; i < it->n_reductions; i++)
        finish_reduction(lo, it, i);
}

// p[i][j] = s[i][j], f32 registers to 16-bit registers of the same layout: one instruction for two elements. Checked
// builds look at each element.
bool is_packed_conversion(Lowering *lo, const TileOp *op, TileInfo **to, TileInfo **from)
{
    const TileOp *const store = op->forall.body;
    if (lo->kernel->checked || !store || store->next || store->kind != T_STORE || store->store.value->kind != E_CONVERT ||
        store->store.value->convert.a->kind != E_LOAD)
        return false;
    const Expr *const load = store->store.value->convert.a;
    *to = tile_info(lo, store->store.buffer);
    *from = tile_info(lo, load->load.buffer);
    if (!*to || !*from || (*to)->home != HOME_REGISTERS || (*from)->home != HOME_REGISTERS || (*from)->buffer->type != DTYPE_F32 ||
        ((*to)->buffer->type != DTYPE_BF16 && (*to)->buffer->type != DTYPE_F16) || !layout_equal(&(*to)->layout, &(*from)->layout) ||
        layout_registers(&(*to)->layout) % 2 != 0)
        return false;
    const int rank = (*to)->buffer->rank;
    int which[MAX_RANK], same[MAX_RANK];
    if (!subscripts_are_indices(store->store.subs, rank, op->forall.indices, op->forall.n, which) ||
        !subscripts_are_indices(load->load.subs, rank, op->forall.indices, op->forall.n, same) ||
        memcmp(which, same, sizeof(int) * (size_t)rank) != 0)
        return false;
    for (int d = 0; d < rank; d++) {
        int64_t extent;
        if (!full_extent(&op->forall.indices[which[d]], &extent) || extent != (*to)->layout.extent[d])
            return false;
    }
    return true;
}

static bool emit_packed_conversion(Lowering *lo, const TileOp *op)
{
    TileInfo *to, *from;
    if (!is_packed_conversion(lo, op, &to, &from))
        return false;
    Var *const i = loop_new_var(lo->unit, DTYPE_I32, "i");
    Nest nest;
    begin_for(lo, &nest, i, i32_const(lo, 0), i32_const(lo, layout_registers(&to->layout) / 2), i32_const(lo, 1), LOOP_UNROLL);
    Expr *const even = i32_mul(lo, var_of(lo, i), 2), *const odd = i32_add(lo, even, i32_const(lo, 1));
    Expr *const word = call_expr(lo, DTYPE_U32, arena_printf(lo->arena, "pack_%s", dtype_name(to->buffer->type)), 2,
                                 expr_index(lo->arena, from->registers, even), expr_index(lo->arena, from->registers, odd));
    if (to->is_packed)
        loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { to->registers, var_of(lo, i), word } });
    else
        emit_call(lo, "store_pair", 2, expr_address(lo->arena, to->registers, even), word);
    end_nest(lo, &nest);
    return true;
}

// Is where a region lies known without reading memory?
static bool is_placed(const Region *region)
{
    for (int d = 0; d < region->buffer->rank; d++)
        if (expr_loads(region->subs[d].start))
            return false;
    return region->buffer->kind != BUFFER_VIEW || is_placed(&region->buffer->base);
}

// A copy to registers, all of whose loads can be made before it: from a tensor that the kernel does not write.
static Iteration *loads_of_copy(Lowering *lo, TileOp *op, int *words)
{
    const OpInfo *const info = op_info(lo, op);
    TileInfo *const to = op->kind == T_COPY ? tile_info(lo, op->copy.dst.buffer) : NULL;
    if (!to || to->home != HOME_REGISTERS || info->fetched || info->barrier_before || lo->has_teams || lo->role != ROLE_CONSUMER ||
        buffer_root(op->copy.src.buffer)->kind != BUFFER_TENSOR || buffer_root(op->copy.src.buffer)->access != ACCESS_IN || !is_placed(&op->copy.src))
        return NULL;
    Iteration *const it = NEW(lo->arena, Iteration, .vector = -1);
    TileOp *const map = as_map(lo, op);
    choose_iteration(lo, map, it);
    if (it->is_linear)
        return NULL;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] < 0)
            return NULL;
    choose_moves(lo, map, it);
    const int more = early_words(it);
    if (!more || *words + more > consumer_registers(lo) - fragment_words(lo))
        return NULL;
    *words += more;
    return it;
}

void emit_early_loads(Lowering *lo, TileOp *first)
{
    Iteration *its[8];
    TileOp *ops[8];
    int n = 0, words = 0;
    for (TileOp *op = first; op && n < COUNT(its); op = op->next) {
        if (op->kind == T_TILE || op->kind == T_FILL)
            continue;
        if (op_info(lo, op)->loads || !(its[n] = loads_of_copy(lo, op, &words)))
            break;
        ops[n++] = op;
    }
    for (int i = 0; i < n && n > 1; i++) {
        op_info(lo, ops[i])->loads = its[i];
        const Crew crew = lo->crew;
        lo->crew = its[i]->crew;
        emit_batch(lo, its[i]);
        lo->crew = crew;
    }
}

// What a body stores: into registers, into memory, and into memory that it also reads.
typedef struct Effects { Lowering *lo; TileOp *body; const Buffer *written; bool in_registers, rewrites; } Effects;

static void note_read_back(const TileUse *use, void *context)
{
    Effects *const effects = context;
    effects->rewrites |= use->reads && buffer_root(use->buffer) == effects->written;
}

static bool look_for_reads(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, note_read_back, context);
    return false;
}

static void note_store(const TileUse *use, void *context)
{
    Effects *const effects = context;
    const Buffer *const root = buffer_root(use->buffer);
    if ((!use->writes && !use->atomic) || root->kind == BUFFER_LOCAL)
        return;
    effects->in_registers |= is_fragment_in_registers(effects->lo, root);
    effects->written = root;
    each_op(effects->lo, effects->body, look_for_reads, effects);
}

static bool look_for_stores(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, note_store, context);
    return false;
}

// Threads that repeat iterations of others store nothing, yet they must not read what the others are rewriting.
static Expr *only_first_replica(Lowering *lo, TileOp *op, const Iteration *it)
{
    Effects effects = { .lo = lo, .body = op->forall.body };
    if (op->kind != T_FORALL || it->is_linear || it->n_reductions > 0)
        return NULL;
    each_op(lo, op->forall.body, look_for_stores, &effects);
    return effects.rewrites && !effects.in_registers ? replica_is_first(lo, &it->layout) : NULL;
}

void emit_forall(Lowering *lo, TileOp *op, const Iteration *loads)
{
    if (emit_packed_conversion(lo, op))
        return;
    Iteration it;
    if (loads) {
        it = *loads;
    } else {
        choose_iteration(lo, op, &it);
        it.vector = -1;
        find_reductions(lo, op, &it);
    }
    const Crew crew = lo->crew;
    lo->crew = it.crew;
    // Every group runs it for its own copy of a fragment; what others see is stored once.
    lo->is_muted = lo->has_teams && lo->role == ROLE_CONSUMER && lo->walk != 0 && it.crew.groups == 1 &&
                   !(op->groups) && op_groups(lo, op) != 1u << lo->walk;
    Nest block;
    Expr *const somewhere = reductions_meet(lo, &it) ? NULL : mask_test(lo, op, &it);
    if (somewhere)
        begin_if(lo, &block, somewhere);
    else
        begin_block(lo, &block);
    Nest once;
    Expr *const first = only_first_replica(lo, op, &it);
    if (first)
        begin_if(lo, &once, first);
    if (it.is_linear)
        emit_linear(lo, op, &it);
    else
        emit_spread(lo, op, &it);
    if (first)
        end_nest(lo, &once);
    end_nest(lo, &block);
    lo->crew = crew;
    lo->is_muted = false;
}
