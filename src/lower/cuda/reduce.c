// SPDX-License-Identifier: MIT
// reduce.c - reductions of a forall: partial results in registers, then lanes by shuffles, then warps through
// shared memory. Every thread that holds the target ends with the same bits: butterflies add the same pairs, and
// all warps read the scratch in one order.
//
// The scratch has two buffers, taken in turn: whoever writes one has passed the barrier of the reduction in between,
// which the last readers of that buffer had reached before. So a reduction takes one barrier. Groups that run
// statements of their own do not keep step, and take two.
//
// before: map.c has found which reductions join their threads, and their barriers are parts of the map
// after:  begin_reduction(), add_to_reduction() and finish_reduction() stand around the map's loops
#include "lower/cuda/print_action.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"
#include "lower/cuda/reduce.h"

// min and max ignore NaN, so it is their identity. -0 + x is x for every x, so the first addition goes.
Expr *reduction_identity(Lowering *lo, UpdateOp op, DType type)
{
    if (op == UPDATE_MIN || op == UPDATE_MAX) {
        const char *const limit = op == UPDATE_MIN ? "largest" : "smallest";
        return call_expr(lo, type, arena_printf(lo->arena, "%s<%s>", limit, dtype_info[type].c_name), 0);
    }
    const bool adds = op == UPDATE_ADD || op == UPDATE_SUB;
    return adds && dtype_is_float(type) ? expr_float(lo->arena, type, -0.0) : common_identity(lo->arena, op, type);
}

// The element of the partial results for the current register modes; NULL loops count as 0.
static Expr *partial_at(Lowering *lo, const Iteration *it, int which)
{
    Expr *at = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input == IN_REGISTER && is_kept(it, which, mode)) {
            if (it->mode[i]) at = i32_add(lo, at, i32_mul(lo, var_of(lo, it->mode[i]), stride));
            stride *= mode->extent;
        }
    }
    return at;
}

static int partial_count(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++)
        if (it->layout.mode[i].input == IN_REGISTER && is_kept(it, which, &it->layout.mode[i]))
            n *= it->layout.mode[i].extent;
    return n;
}

// The first register mode that the reduction drops, if it has two values: each gets a chain of its own, so that the
// dependent operations of one thread are half as many. -1: one chain.
static int chain_mode(const Iteration *it, int which)
{
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input == IN_REGISTER && mode->dim != REPLICATED && !is_kept(it, which, mode))
            return mode->extent == 2 ? i : -1;
    }
    return -1;
}

// A division or subtraction of many values: divide by the product, subtract the sum.
static UpdateOp gathering_op(UpdateOp op) { return op == UPDATE_SUB ? UPDATE_ADD : op == UPDATE_DIV ? UPDATE_MUL : op; }

void begin_reduction(Lowering *lo, Iteration *it, int which)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    const int chains = !it->is_linear && chain_mode(it, which) >= 0 ? 2 : 1;
    const int n = partial_count(it, which) * chains;
    it->reductions[which].chains = chains;
    const char *const target = update->update.buffer ? update->update.buffer->name : update->update.var->name;
    Var *const partial = emit_array(lo, type, arena_printf(lo->arena, "part_%s", target), n);
    it->reductions[which].partial = partial;
    Nest nest;
    Var *const r = begin_unrolled(lo, &nest, "r", n);
    emit_element(lo, partial, var_of(lo, r), reduction_identity(lo, gathering_op(update->update.op), type));
    end_nest(lo, &nest);
}

// In the first of a thread's values there is nothing to compare with yet: ptxas would keep the comparison with NaN.
static Expr *is_first_value(Lowering *lo, const Iteration *it, int which)
{
    Expr *first = NULL;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input != IN_REGISTER || !it->mode[i] || is_kept(it, which, mode) ||
            (it->reductions[which].chains == 2 && i == chain_mode(it, which)))
            continue;
        first = both(lo, first, i32_op(lo, X_EQ, var_of(lo, it->mode[i]), 0));
    }
    return first;
}

void add_to_reduction(Lowering *lo, Iteration *it, int which)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Var *const partial = it->reductions[which].partial;
    Expr *at = partial_at(lo, it, which);
    if (it->reductions[which].chains == 2)
        at = i32_add(lo, at, i32_mul(lo, var_of(lo, it->mode[chain_mode(it, which)]), partial_count(it, which)));
    Expr *const value = lower_as(lo, type, update->update.value, it);
    const bool compares = dtype_is_float(type) && (update->update.op == UPDATE_MIN || update->update.op == UPDATE_MAX);
    Expr *const first = compares && !it->is_linear ? is_first_value(lo, it, which) : NULL;
    Expr *const sum =
        combine(lo, update, gathering_op(update->update.op), type, expr_index(lo->arena, partial, at), value);
    emit_element(lo, partial, at, first ? expr_select(lo->arena, first, value, sum) : sum);
}

// The function of one instruction that reduces 32-bit integers of all lanes; NULL: there is none.
static const char *warp_reduction(const TileOp *update)
{
    static const char *const names[] = {
        [UPDATE_ADD] = "lanes_add", [UPDATE_SUB] = "lanes_add", [UPDATE_MIN] = "lanes_min",
        [UPDATE_MAX] = "lanes_max", [UPDATE_AND] = "lanes_and", [UPDATE_OR] = "lanes_or",
    };
    const DType type = reduction_type(update);
    const UpdateOp op = update->update.op;
    return (type == DTYPE_I32 || type == DTYPE_U32) && op < COUNT(names) ? names[op] : NULL;
}

static int reduced_lanes(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input == IN_LANE && mode->dim != REPLICATED && !is_kept(it, which, mode)) n *= mode->extent;
    }
    return n;
}

static void reduce_lanes(Lowering *lo, Iteration *it, int which, Expr *at)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Var *const partial = it->reductions[which].partial;
    if (warp_reduction(update) && reduced_lanes(it, which) == WARP_LANES) {
        Expr *const mine = expr_index(lo->arena, partial, at);
        emit_element(lo, partial, at, call_expr(lo, type, warp_reduction(update), 1, mine));
        return;
    }
    int offset = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input != IN_LANE) continue;
        if (!is_kept(it, which, mode) && mode->dim != REPLICATED)
            for (int step = offset; step < offset * mode->extent; step *= 2) {
                Expr *const mine = expr_index(lo->arena, partial, at);
                Expr *const other = call_expr(lo, type, "shuffle_xor", 2, mine, i32_const(lo, step));
                emit_element(lo, partial, at, combine(lo, update, gathering_op(update->update.op), type, mine, other));
            }
        offset *= mode->extent;
    }
}

// The number of this thread's result among kept_elements, and of its part among warp_replicas.
static Expr *modes_number(Lowering *lo, const Iteration *it, int which, bool kept)
{
    Expr *at = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        const bool between_warps = mode->input == IN_WARP || mode->input == IN_GROUP;
        if (mode->dim == REPLICATED || is_kept(it, which, mode) != kept || (!kept && !between_warps)) continue;
        Expr *const value = mode->input != IN_REGISTER ? mode_value(lo, &it->layout, i)
                            : it->mode[i]              ? var_of(lo, it->mode[i])
                                                       : i32_const(lo, 0);
        at = i32_add(lo, at, i32_mul(lo, value, stride));
        stride *= mode->extent;
    }
    return at;
}

static void reduce_warps(Lowering *lo, Iteration *it, int which, Expr *at, bool store)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    const int replicas = warp_replicas(it, which);
    Var *const partial = it->reductions[which].partial;
    Expr *const base = i32_mul(lo, modes_number(lo, it, which, true), replicas);
    Var *const scratch = loop_new_pointer(lo->unit, type, "scratch");
    Expr *offset = i32_const(lo, lo->scratch_offset + (lo->is_specialised ? lo->walk * lo->scratch_bytes : 0));
    if (lo->scratch_buffer) offset = i32_add(lo, offset, var_of(lo, lo->scratch_buffer));
    emit_definition(lo, scratch, shared_pointer(lo, type, offset));
    if (store) {
        emit_element(lo, scratch, i32_add(lo, base, modes_number(lo, it, which, false)),
                     expr_index(lo->arena, partial, at));
        return;
    }
    if (warp_reduction(update) && reduced_lanes(it, which) == WARP_LANES && replicas >= 4) { // a lane for each warp
        Expr *const lane = var_of(lo, lo->lane), *const one = expr_index(lo->arena, scratch, i32_add(lo, base, lane));
        Expr *const part = replicas == WARP_LANES
                               ? one
                               : expr_select(lo->arena, i32_op(lo, X_LT, lane, replicas), one,
                                             reduction_identity(lo, gathering_op(update->update.op), type));
        emit_element(lo, partial, at, call_expr(lo, type, warp_reduction(update), 1, part));
        return;
    }
    Expr *sum = expr_index(lo->arena, scratch, base);
    for (int i = 1; i < replicas; i++)
        sum = combine(lo, update, gathering_op(update->update.op), type, sum,
                      expr_index(lo->arena, scratch, i32_add(lo, base, i32_const(lo, i))));
    emit_element(lo, partial, at, sum);
}

// After the join all threads of a row have its result: whether this is the one that stands for them. NULL: it is alone.
static Expr *is_first_of_reduced(Lowering *lo, const Iteration *it, int which)
{
    Expr *test = NULL;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input == IN_REGISTER || mode->dim == REPLICATED || is_kept(it, which, mode)) continue;
        test = both(lo, test, i32_op(lo, X_EQ, mode_value(lo, &it->layout, i), 0));
    }
    return test;
}

// target = target op partial, by the threads that hold it; once, where it is in memory.
static void apply(Lowering *lo, Iteration *it, int which, Expr *at)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Expr *const part = expr_index(lo->arena, it->reductions[which].partial, at);
    if (update->update.var) {
        Var *const var = loop_var(lo, update->update.var);
        Expr *const sum = combine(lo, update, update->update.op, type,
                                  lower_as(lo, type, expr_var(lo->arena, update->update.var), it), part);
        emit_assign(lo, var, to_dtype(lo, update->update.var->type, type, sum));
        return;
    }
    const TileInfo *const tile = tile_info(lo, update->update.buffer);
    Expr *const first = tile && tile->storage != TILE_IN_SHARED ? NULL : is_first_of_reduced(lo, it, which);
    Nest guard;
    if (first) begin_if(lo, &guard, first);
    apply_update(lo, update, part, type, it);
    if (first) end_nest(lo, &guard);
}

// Loops over the register modes that the result keeps; index variables of kept dimensions are declared inside.
static void for_kept(Lowering *lo, Iteration *it, int which, void (*body)(Lowering *, Iteration *, int, Expr *, bool),
                     bool flag)
{
    Nest nests[LAYOUT_MAX_MODES];
    int depth = 0;
    Var *saved[LAYOUT_MAX_MODES];
    memcpy(saved, it->mode, sizeof saved);
    for (int i = it->layout.n - 1; i >= 0; i--) {
        const LayoutMode *const mode = &it->layout.mode[i];
        it->mode[i] = NULL;
        if (mode->input != IN_REGISTER || !is_kept(it, which, mode)) continue;
        it->mode[i] = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &nests[depth++], it->mode[i], i32_const(lo, first_of_mode(lo, it, i)),
                  i32_const(lo, end_of_mode(lo, it, i)), i32_const(lo, 1), LOOP_UNROLL);
    }
    body(lo, it, which, partial_at(lo, it, which), flag);
    end_nests(lo, nests, depth);
    memcpy(it->mode, saved, sizeof saved);
}

static void chains_body(Lowering *lo, Iteration *it, int which, Expr *at, bool flag)
{
    TileOp *const update = it->reductions[which].update;
    Var *const partial = it->reductions[which].partial;
    Expr *const second = i32_add(lo, at, i32_const(lo, partial_count(it, which)));
    emit_element(lo, partial, at,
                 combine(lo, update, gathering_op(update->update.op), reduction_type(update),
                         expr_index(lo->arena, partial, at), expr_index(lo->arena, partial, second)));
}

static void lanes_body(Lowering *lo, Iteration *it, int which, Expr *at, bool flag) { reduce_lanes(lo, it, which, at); }
static void apply_body(Lowering *lo, Iteration *it, int which, Expr *at, bool flag)
{
    Nest nest;
    begin_block(lo, &nest);
    Expr *const valid = declare_indices(lo, it, it->reductions[which].kept);
    Nest guard;
    if (valid) begin_if(lo, &guard, valid);
    apply(lo, it, which, at);
    if (valid) end_nest(lo, &guard);
    end_nest(lo, &nest);
}

void next_scratch_buffer(Lowering *lo)
{
    if (lo->scratch_buffer)
        emit_assign(lo, lo->scratch_buffer, i32_op(lo, X_BITXOR, var_of(lo, lo->scratch_buffer), lo->scratch_bytes));
}

// From what each thread has to what all have, in every thread that holds a part of it.
static void join_threads(Lowering *lo, Iteration *it, int which)
{
    for_kept(lo, it, which, lanes_body, false);
    if (warp_replicas(it, which) == 1) return;
    if (lo->scratch_buffers <= 1) print_parts_through(lo, ACTION_BARRIER_SYNC); // earlier readers of the scratch
    for_kept(lo, it, which, reduce_warps, true);
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    for_kept(lo, it, which, reduce_warps, false);
    next_scratch_buffer(lo);
}

void finish_reduction(Lowering *lo, Iteration *it, int which)
{
    if (it->reductions[which].chains == 2) for_kept(lo, it, which, chains_body, false);
    if (it->reductions[which].joins) join_threads(lo, it, which);
    for_kept(lo, it, which, apply_body, false);
}

void print_join_sums(Lowering *lo, const JoinPlan *plan)
{
    Iteration it = plan->it;
    it.reductions[0].partial = plan->tile->registers;
    join_threads(lo, &it, 0);
}

// Where reductions synchronise warps: the buffer of the scratch in use.
void declare_scratch_buffer(Lowering *lo)
{
    if (lo->scratch_buffers > 1) lo->scratch_buffer = emit_declare(lo, DTYPE_I32, "scratch_buffer", i32_const(lo, 0));
}
