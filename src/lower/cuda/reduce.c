// SPDX-License-Identifier: MIT
// reduce.c - reductions of a forall: partial results in registers, then lanes by shuffles, then warps through
// shared memory. Every thread that holds the target ends with the same bits: butterflies add the same pairs, and
// all warps read the scratch in one order.
//
// The scratch has two sides, taken in turn: whoever writes a side has passed the barrier of the reduction in between,
// which the last readers of that side had reached before. So a reduction takes one barrier. Groups that run statements
// of their own do not keep step, and take two.
#include "lower/cuda/cuda.h"

DType reduction_type(const TileOp *update)
{
    const DType target = update->update.buffer ? update->update.buffer->type : update->update.var->type;
    const DType wide = dtype_info[target].wide;
    return wide == DTYPE_INT ? DTYPE_I64 : wide;
}

Expr *reduction_identity(Lowering *lo, UpdateOp op, DType type)
{
    Arena *const a = lo->arena;
    const bool is_float = dtype_is_float(type);
    switch (op) {
    case UPDATE_ADD:
    case UPDATE_SUB: // -0 + x is x for every x, so the first addition goes
        return is_float ? expr_float(a, type, -0.0) : expr_int(a, type, 0);
    case UPDATE_OR:
    case UPDATE_XOR:
    case UPDATE_DIV:
    case UPDATE_MOD:
    case UPDATE_SHL:
    case UPDATE_SHR: return is_float ? expr_float(a, type, 0) : expr_int(a, type, 0);
    case UPDATE_MUL: return is_float ? expr_float(a, type, 1) : expr_int(a, type, 1);
    case UPDATE_AND: return expr_int(a, type, type == DTYPE_BOOL ? 1 : -1);
    case UPDATE_MIN:
    case UPDATE_MAX: // min and max ignore NaN, so it is their identity
        return call_expr(
            lo, type, arena_printf(a, "%s<%s>", op == UPDATE_MIN ? "largest" : "smallest", dtype_info[type].c_name), 0);
    }
    return NULL;
}

static bool is_kept(const Iteration *it, int which, const Digit *digit)
{
    return digit->dim != REPLICATED && (it->reductions[which].kept >> digit->dim & 1);
}

// The element of the partial results for the current register digits; NULL loops count as 0.
static Expr *partial_at(Lowering *lo, const Iteration *it, int which)
{
    Expr *at = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const Digit *const digit = &it->layout.digit[i];
        if (digit->input == IN_REGISTER && is_kept(it, which, digit)) {
            if (it->digit[i]) at = i32_add(lo, at, i32_mul(lo, var_of(lo, it->digit[i]), stride));
            stride *= digit->extent;
        }
    }
    return at;
}

static int partial_count(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++)
        if (it->layout.digit[i].input == IN_REGISTER && is_kept(it, which, &it->layout.digit[i]))
            n *= it->layout.digit[i].extent;
    return n;
}

// The first register digit that the reduction drops, if it has two values: each gets a chain of its own, so that the
// dependent operations of one thread are half as many. -1: one chain.
static int chain_digit(const Iteration *it, int which)
{
    for (int i = 0; i < it->layout.n; i++) {
        const Digit *const digit = &it->layout.digit[i];
        if (digit->input == IN_REGISTER && digit->dim != REPLICATED && !is_kept(it, which, digit))
            return digit->extent == 2 ? i : -1;
    }
    return -1;
}

// A division or subtraction of many values: divide by the product, subtract the sum.
static UpdateOp gathering_op(UpdateOp op) { return op == UPDATE_SUB ? UPDATE_ADD : op == UPDATE_DIV ? UPDATE_MUL : op; }

void begin_reduction(Lowering *lo, Iteration *it, int which)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    const int chains = !it->is_linear && chain_digit(it, which) >= 0 ? 2 : 1;
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
        const Digit *const digit = &it->layout.digit[i];
        if (digit->input != IN_REGISTER || !it->digit[i] || is_kept(it, which, digit) ||
            (it->reductions[which].chains == 2 && i == chain_digit(it, which)))
            continue;
        first = both(lo, first, i32_op(lo, X_EQ, var_of(lo, it->digit[i]), 0));
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
        at = i32_add(lo, at, i32_mul(lo, var_of(lo, it->digit[chain_digit(it, which)]), partial_count(it, which)));
    Expr *const value = lower_as(lo, type, update->update.value, it);
    const bool compares = dtype_is_float(type) && (update->update.op == UPDATE_MIN || update->update.op == UPDATE_MAX);
    Expr *const first = compares && !it->is_linear ? is_first_value(lo, it, which) : NULL;
    Expr *const sum =
        combine(lo, update, gathering_op(update->update.op), type, expr_index(lo->arena, partial, at), value);
    emit_element(lo, partial, at, first ? expr_select(lo->arena, first, value, sum) : sum);
}

static void reduce_lanes(Lowering *lo, Iteration *it, int which, Expr *at)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    Var *const partial = it->reductions[which].partial;
    int offset = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const Digit *const digit = &it->layout.digit[i];
        if (digit->input != IN_LANE) continue;
        if (!is_kept(it, which, digit) && digit->dim != REPLICATED)
            for (int step = offset; step < offset * digit->extent; step *= 2) {
                Expr *const mine = expr_index(lo->arena, partial, at);
                Expr *const other = call_expr(lo, type, "shuffle_xor", 2, mine, i32_const(lo, step));
                emit_element(lo, partial, at, combine(lo, update, gathering_op(update->update.op), type, mine, other));
            }
        offset *= digit->extent;
    }
}

// Threads of other warps that hold parts of the same result.
int warp_replicas(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const Digit *const digit = &it->layout.digit[i];
        if ((digit->input == IN_WARP || digit->input == IN_GROUP) && digit->dim != REPLICATED &&
            !is_kept(it, which, digit))
            n *= digit->extent;
    }
    return n;
}

// Results of one reduction that all threads together hold.
static int kept_elements(const Iteration *it, int which)
{
    int n = 1;
    for (int i = 0; i < it->layout.n; i++)
        if (is_kept(it, which, &it->layout.digit[i])) n *= it->layout.digit[i].extent;
    return n;
}

int reduction_scratch_bytes(const Iteration *it, int which)
{
    const int replicas = warp_replicas(it, which);
    const int size = dtype_bits(reduction_type(it->reductions[which].update)) / 8;
    return replicas > 1 ? replicas * kept_elements(it, which) * size : 0;
}

// The number of this thread's result among kept_elements, and of its part among warp_replicas.
static Expr *digits_number(Lowering *lo, const Iteration *it, int which, bool kept)
{
    Expr *at = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++) {
        const Digit *const digit = &it->layout.digit[i];
        const bool between_warps = digit->input == IN_WARP || digit->input == IN_GROUP;
        if (digit->dim == REPLICATED || is_kept(it, which, digit) != kept || (!kept && !between_warps)) continue;
        Expr *const value = digit->input != IN_REGISTER ? digit_value(lo, &it->layout, i)
                            : it->digit[i]              ? var_of(lo, it->digit[i])
                                                        : i32_const(lo, 0);
        at = i32_add(lo, at, i32_mul(lo, value, stride));
        stride *= digit->extent;
    }
    return at;
}

static void reduce_warps(Lowering *lo, Iteration *it, int which, Expr *at, bool store)
{
    TileOp *const update = it->reductions[which].update;
    const DType type = reduction_type(update);
    const int replicas = warp_replicas(it, which);
    Var *const partial = it->reductions[which].partial;
    Expr *const base = i32_mul(lo, digits_number(lo, it, which, true), replicas);
    Var *const scratch = loop_new_pointer(lo->unit, type, "scratch");
    Expr *offset = i32_const(lo, lo->scratch_offset + (lo->has_teams ? lo->walk * lo->scratch_bytes : 0));
    if (lo->scratch_side) offset = i32_add(lo, offset, var_of(lo, lo->scratch_side));
    emit_definition(lo, scratch, shared_pointer(lo, type, offset));
    if (store) {
        emit_element(lo, scratch, i32_add(lo, base, digits_number(lo, it, which, false)),
                     expr_index(lo->arena, partial, at));
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
        const Digit *const digit = &it->layout.digit[i];
        if (digit->input == IN_REGISTER || digit->dim == REPLICATED || is_kept(it, which, digit)) continue;
        test = both(lo, test, i32_op(lo, X_EQ, digit_value(lo, &it->layout, i), 0));
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
    Expr *const first = tile && tile->home != HOME_SHARED ? NULL : is_first_of_reduced(lo, it, which);
    Nest guard;
    if (first) begin_if(lo, &guard, first);
    apply_update(lo, update, part, type, it);
    if (first) end_nest(lo, &guard);
}

// Loops over the register digits that the result keeps; index variables of kept dimensions are declared inside.
static void for_kept(Lowering *lo, Iteration *it, int which, void (*body)(Lowering *, Iteration *, int, Expr *, bool),
                     bool flag)
{
    Nest nests[LAYOUT_MAX_DIGITS];
    int depth = 0;
    Var *saved[LAYOUT_MAX_DIGITS];
    memcpy(saved, it->digit, sizeof saved);
    for (int i = it->layout.n - 1; i >= 0; i--) {
        const Digit *const digit = &it->layout.digit[i];
        it->digit[i] = NULL;
        if (digit->input != IN_REGISTER || !is_kept(it, which, digit)) continue;
        it->digit[i] = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &nests[depth++], it->digit[i], i32_const(lo, first_of_digit(lo, it, i)),
                  i32_const(lo, end_of_digit(lo, it, i)), i32_const(lo, 1), LOOP_UNROLL);
    }
    body(lo, it, which, partial_at(lo, it, which), flag);
    end_nests(lo, nests, depth);
    memcpy(it->digit, saved, sizeof saved);
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

// From what each thread has to what all have, in every thread that holds a part of it.
static void join_threads(Lowering *lo, Iteration *it, int which)
{
    for_kept(lo, it, which, lanes_body, false);
    if (warp_replicas(it, which) == 1) return;
    if (!lo->scratch_side) emit_barrier(lo); // earlier readers of the scratch
    for_kept(lo, it, which, reduce_warps, true);
    emit_barrier(lo);
    for_kept(lo, it, which, reduce_warps, false);
    if (lo->scratch_side)
        emit_assign(lo, lo->scratch_side, i32_op(lo, X_BITXOR, var_of(lo, lo->scratch_side), lo->scratch_bytes));
}

static bool joins_threads(Lowering *lo, const Iteration *it, int which)
{
    const TileOp *const update = it->reductions[which].update;
    const TileInfo *const target = update->update.buffer ? tile_info(lo, update->update.buffer) : NULL;
    return !target || !target->is_partial;
}

// Its warps meet, so that none may leave it out.
bool reductions_meet(Lowering *lo, const Iteration *it)
{
    for (int i = 0; i < it->n_reductions; i++)
        if (joins_threads(lo, it, i) && warp_replicas(it, i) > 1) return true;
    return false;
}

void finish_reduction(Lowering *lo, Iteration *it, int which)
{
    if (it->reductions[which].chains == 2) for_kept(lo, it, which, chains_body, false);
    if (joins_threads(lo, it, which)) join_threads(lo, it, which);
    for_kept(lo, it, which, apply_body, false);
}

// As if a forall had just reduced what the tile's threads hold in common, into its own registers.
void join_partial_sums(Lowering *lo, TileInfo *tile)
{
    TileOp *const update = NEW(lo->arena, TileOp, .kind = T_UPDATE);
    update->update.op = tile->partial_with;
    update->update.buffer = tile->buffer;
    update->update.value = expr_float(lo->arena, tile->buffer->type, 0);
    Iteration it = { .layout = tile->layout, .crew = lo->crew, .vector = -1, .n_reductions = 1 };
    const int rank = tile->layout.rank;
    for (int i = 0; i < it.layout.n; i++)
        if (it.layout.digit[i].dim == REPLICATED) it.layout.digit[i].dim = rank;
    it.reductions[0].update = update;
    it.reductions[0].partial = tile->registers;
    it.reductions[0].kept = (1u << rank) - 1;
    join_threads(lo, &it, 0);
}

// Where reductions meet warps: the side of the scratch in use.
void declare_scratch_side(Lowering *lo)
{
    if (lo->scratch_sides > 1) lo->scratch_side = emit_declare(lo, DTYPE_I32, "side", i32_const(lo, 0));
}
