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
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/elements/print_reduce.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/reduce.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"
#include "lower/gpu/plans/map.h"

// min and max ignore NaN, so it is their identity. -0 + x is x for every x, so the first addition goes.
Expr *reduction_identity(Printer *pr, UpdateOp op, DType type)
{
    if (op == UPDATE_MIN || op == UPDATE_MAX) {
        const char *const limit = op == UPDATE_MIN ? "largest" : "smallest";
        return call_expr(pr, type, arena_printf(pr->arena, "%s<%s>", limit, dtype_info[type].c_name), 0);
    }
    const bool adds = op == UPDATE_ADD || op == UPDATE_SUB;
    return adds && dtype_is_float(type) ? expr_float(pr->arena, type, -0.0) : common_identity(pr->arena, op, type);
}

// The element of the partial results for the current register modes; NULL loops count as 0.
static Expr *partial_at(Printer *pr, const Iteration *it, int which)
{
    Expr *at = i32_const(pr, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input == IN_REGISTER && is_kept(it, which, mode)) {
            if (it->mode[i]) at = i32_add(pr, at, i32_mul(pr, var_of(pr, it->mode[i]), stride));
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

void begin_reduction(Printer *pr, Iteration *it, int which)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    const int chains = !it->is_linear && chain_mode(it, which) >= 0 ? 2 : 1;
    const int n = partial_count(it, which) * chains;
    it->reductions[which].chains = chains;
    const char *const target = update->update.buffer ? update->update.buffer->name : update->update.var->name;
    Var *const partial = emit_array(pr, type, arena_printf(pr->arena, "part_%s", target), n);
    it->reductions[which].partial = partial;
    Nest nest;
    Var *const r = begin_unrolled(pr, &nest, "r", n);
    emit_element(pr, partial, var_of(pr, r), reduction_identity(pr, gathering_op(update->update.op), type));
    end_nest(pr, &nest);
}

// In the first of a thread's values there is nothing to compare with yet: ptxas would keep the comparison with NaN.
static Expr *is_first_value(Printer *pr, const Iteration *it, int which)
{
    Expr *first = NULL;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input != IN_REGISTER || !it->mode[i] || is_kept(it, which, mode) ||
            (it->reductions[which].chains == 2 && i == chain_mode(it, which)))
            continue;
        first = both(pr->lo, first, i32_op(pr, X_EQ, var_of(pr, it->mode[i]), 0));
    }
    return first;
}

void add_to_reduction(Printer *pr, Iteration *it, int which)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Var *const partial = it->reductions[which].partial;
    Expr *at = partial_at(pr, it, which);
    if (it->reductions[which].chains == 2)
        at = i32_add(pr, at, i32_mul(pr, var_of(pr, it->mode[chain_mode(it, which)]), partial_count(it, which)));
    Expr *const value = lower_as(pr, type, update->update.value, it);
    const bool compares = dtype_is_float(type) && (update->update.op == UPDATE_MIN || update->update.op == UPDATE_MAX);
    Expr *const first = compares && !it->is_linear ? is_first_value(pr, it, which) : NULL;
    Expr *const sum =
        combine(pr, update, gathering_op(update->update.op), type, expr_index(pr->arena, partial, at), value);
    emit_element(pr, partial, at, first ? expr_select(pr->arena, first, value, sum) : sum);
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

static void reduce_lanes(Printer *pr, Iteration *it, int which, Expr *at)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Var *const partial = it->reductions[which].partial;
    if (warp_reduction(update) && reduced_lanes(it, which) == WARP_LANES) {
        Expr *const mine = expr_index(pr->arena, partial, at);
        emit_element(pr, partial, at, call_expr(pr, type, warp_reduction(update), 1, mine));
        return;
    }
    int offset = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input != IN_LANE) continue;
        if (!is_kept(it, which, mode) && mode->dim != REPLICATED)
            for (int step = offset; step < offset * mode->extent; step *= 2) {
                Expr *const mine = expr_index(pr->arena, partial, at);
                Expr *const other = call_expr(pr, type, "shuffle_xor", 2, mine, i32_const(pr, step));
                emit_element(pr, partial, at, combine(pr, update, gathering_op(update->update.op), type, mine, other));
            }
        offset *= mode->extent;
    }
}

// The number of this thread's result among kept_elements, and of its part among warp_replicas.
static Expr *modes_number(Printer *pr, const Iteration *it, int which, bool kept)
{
    Expr *at = i32_const(pr, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        const bool between_warps = mode->input == IN_WARP || mode->input == IN_GROUP;
        if (mode->dim == REPLICATED || is_kept(it, which, mode) != kept || (!kept && !between_warps)) continue;
        Expr *const value = mode->input != IN_REGISTER ? mode_value(pr, &it->layout, i)
                            : it->mode[i]              ? var_of(pr, it->mode[i])
                                                       : i32_const(pr, 0);
        at = i32_add(pr, at, i32_mul(pr, value, stride));
        stride *= mode->extent;
    }
    return at;
}

static void reduce_warps(Printer *pr, Iteration *it, int which, Expr *at, bool store)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    const int replicas = warp_replicas(it, which);
    Var *const partial = it->reductions[which].partial;
    Expr *const base = i32_mul(pr, modes_number(pr, it, which, true), replicas);
    Var *const scratch = loop_new_pointer(pr->unit, type, "scratch");
    Expr *offset =
        i32_const(pr, pr->lo->scratch_offset + (pr->lo->is_specialised ? pr->lo->walk * pr->lo->scratch_bytes : 0));
    if (pr->scratch_buffer) offset = i32_add(pr, offset, var_of(pr, pr->scratch_buffer));
    emit_definition(pr, scratch, shared_pointer(pr, type, offset));
    if (store) {
        emit_element(pr, scratch, i32_add(pr, base, modes_number(pr, it, which, false)),
                     expr_index(pr->arena, partial, at));
        return;
    }
    if (warp_reduction(update) && reduced_lanes(it, which) == WARP_LANES && replicas >= 4) { // a lane for each warp
        Expr *const lane = var_of(pr, pr->lane), *const one = expr_index(pr->arena, scratch, i32_add(pr, base, lane));
        Expr *const part = replicas == WARP_LANES
                               ? one
                               : expr_select(pr->arena, i32_op(pr, X_LT, lane, replicas), one,
                                             reduction_identity(pr, gathering_op(update->update.op), type));
        emit_element(pr, partial, at, call_expr(pr, type, warp_reduction(update), 1, part));
        return;
    }
    Expr *sum = expr_index(pr->arena, scratch, base);
    for (int i = 1; i < replicas; i++)
        sum = combine(pr, update, gathering_op(update->update.op), type, sum,
                      expr_index(pr->arena, scratch, i32_add(pr, base, i32_const(pr, i))));
    emit_element(pr, partial, at, sum);
}

// After the join all threads of a row have its result: whether this is the one that stands for them. NULL: it is alone.
static Expr *is_first_of_reduced(Printer *pr, const Iteration *it, int which)
{
    Expr *test = NULL;
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->input == IN_REGISTER || mode->dim == REPLICATED || is_kept(it, which, mode)) continue;
        test = both(pr->lo, test, i32_op(pr, X_EQ, mode_value(pr, &it->layout, i), 0));
    }
    return test;
}

// target = target op partial, by the threads that hold it; once, where it is in memory.
static void apply(Printer *pr, Iteration *it, int which, Expr *at)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Expr *const part = expr_index(pr->arena, it->reductions[which].partial, at);
    if (update->update.var) {
        Var *const var = loop_var(pr, update->update.var);
        Expr *const sum = combine(pr, update, update->update.op, type,
                                  lower_as(pr, type, expr_var(pr->arena, update->update.var), it), part);
        emit_assign(pr, var, to_dtype(pr, update->update.var->type, type, sum));
        return;
    }
    const TileInfo *const tile = tile_info(pr->lo, update->update.buffer);
    Expr *const first = tile && tile->storage != TILE_IN_SHARED ? NULL : is_first_of_reduced(pr, it, which);
    Nest guard;
    if (first) begin_if(pr, &guard, first);
    apply_update(pr, update, part, type, it);
    if (first) end_nest(pr, &guard);
}

// Loops over the register modes that the result keeps; index variables of kept dimensions are declared inside.
static void for_kept(Printer *pr, Iteration *it, int which, void (*body)(Printer *, Iteration *, int, Expr *, bool),
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
        it->mode[i] = loop_new_var(pr->unit, DTYPE_I32, "r");
        begin_for(pr, &nests[depth++], it->mode[i], i32_const(pr, first_of_mode(pr, it, i)),
                  i32_const(pr, end_of_mode(pr, it, i)), i32_const(pr, 1), LOOP_UNROLL);
    }
    body(pr, it, which, partial_at(pr, it, which), flag);
    end_nests(pr, nests, depth);
    memcpy(it->mode, saved, sizeof saved);
}

static void chains_body(Printer *pr, Iteration *it, int which, Expr *at, bool flag)
{
    TileOp *const update = it->reductions[which].update;
    Var *const partial = it->reductions[which].partial;
    Expr *const second = i32_add(pr, at, i32_const(pr, partial_count(it, which)));
    emit_element(pr, partial, at,
                 combine(pr, update, gathering_op(update->update.op), reduction_type(update),
                         expr_index(pr->arena, partial, at), expr_index(pr->arena, partial, second)));
}

static void lanes_body(Printer *pr, Iteration *it, int which, Expr *at, bool flag) { reduce_lanes(pr, it, which, at); }
static void apply_body(Printer *pr, Iteration *it, int which, Expr *at, bool flag)
{
    Nest nest;
    begin_block(pr, &nest);
    Expr *const valid = declare_indices(pr, it, it->reductions[which].kept);
    Nest guard;
    if (valid) begin_if(pr, &guard, valid);
    apply(pr, it, which, at);
    if (valid) end_nest(pr, &guard);
    end_nest(pr, &nest);
}

void next_scratch_buffer(Printer *pr)
{
    if (pr->scratch_buffer)
        emit_assign(pr, pr->scratch_buffer,
                    i32_op(pr, X_BITXOR, var_of(pr, pr->scratch_buffer), pr->lo->scratch_bytes));
}

// From what each thread has to what all have, in every thread that holds a part of it.
static void join_threads(Printer *pr, Iteration *it, int which)
{
    for_kept(pr, it, which, lanes_body, false);
    if (warp_replicas(it, which) == 1) return;
    if (pr->lo->scratch_buffers <= 1) print_parts_through(pr, ACTION_BARRIER_SYNC); // earlier readers of the scratch
    for_kept(pr, it, which, reduce_warps, true);
    print_parts_through(pr, ACTION_BARRIER_SYNC);
    for_kept(pr, it, which, reduce_warps, false);
    next_scratch_buffer(pr);
}

void finish_reduction(Printer *pr, Iteration *it, int which)
{
    if (it->reductions[which].chains == 2) for_kept(pr, it, which, chains_body, false);
    if (it->reductions[which].joins) join_threads(pr, it, which);
    for_kept(pr, it, which, apply_body, false);
}

void print_combine_threads(Printer *pr, const JoinPlan *plan)
{
    Iteration it = plan->it;
    it.reductions[0].partial = tile_vars(pr, plan->tile)->registers;
    join_threads(pr, &it, 0);
}

// Where reductions synchronise warps: the buffer of the scratch in use.
void declare_scratch_buffer(Printer *pr)
{
    if (pr->lo->scratch_buffers > 1)
        pr->scratch_buffer = emit_declare(pr, DTYPE_I32, "scratch_buffer", i32_const(pr, 0));
}
