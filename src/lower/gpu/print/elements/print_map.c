// SPDX-License-Identifier: MIT
// print_map.c - maps over elements: loops over the register modes of the iteration layout, in which every thread does
// its own elements.
//
// before: the map has a plan (map.c), and thread numbers and tiles are declared
// after:  its statements are at the end of pr->out
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/elements/print_reduce.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/reduce.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/values.h"

// ---- indices

// Of dimension d, at the current register modes.
static Expr *index_value(Printer *pr, const Iteration *it, int d)
{
    Expr *value = thread_part(pr, &it->layout, d);
    for (int j = 0; j < it->layout.n; j++) {
        const LayoutMode *const mode = &it->layout.mode[j];
        if (mode->input == IN_REGISTER && mode->dim == d && it->mode[j])
            value = i32_add(pr, value, i32_mul(pr, var_of(pr, it->mode[j]), mode->stride));
    }
    return value;
}

// A step of registers that both bounds are multiples of and that all other modes of the dimension stay below. 0: there is none.
static int bounds_step(const Layout *layout, int d, int64_t from, int64_t to)
{
    int best = 0;
    for (int i = 0; i < layout->n; i++) {
        const int step = layout->mode[i].stride;
        int reach = 0;
        bool is_slow = true;
        if (layout->mode[i].dim != d || from % step || to % step) continue;
        for (int j = 0; j < layout->n; j++) {
            const LayoutMode *const mode = &layout->mode[j];
            if (mode->dim != d) continue;
            if (mode->stride < step) reach += (mode->extent - 1) * mode->stride;
            else is_slow &= mode->input == IN_REGISTER;
        }
        if (is_slow && reach > 0 && reach < step) best = step;
    }
    return best;
}

// The part of the index that registers of this step or more give. The compiler of the text knows it in each register; it would
// not see that what the lanes add changes nothing, and products whose results are written under such a test wait for each other.
static Expr *index_by_steps(Printer *pr, const Iteration *it, int d, int step)
{
    Expr *value = i32_const(pr, 0);
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        if (mode->dim == d && mode->stride >= step && it->mode[i])
            value = i32_add(pr, value, i32_mul(pr, var_of(pr, it->mode[i]), mode->stride));
    }
    return value;
}

// Whether the index is within its bounds, where the layout covers more. NULL: it is.
static Expr *index_test(Printer *pr, const Iteration *it, const LoopIndex *index, int d)
{
    const int coverage = layout_coverage(&it->layout, d);
    Expr *test = NULL, *var = lower_int64(pr, expr_var(pr->arena, index->var), it), *lo = NULL, *hi = NULL;
    int64_t from, to;
    const bool is_static = static_extent(index, &from, &to);
    const bool is_part = is_static && to <= coverage && (from > 0 || to < it->layout.extent[d]);
    const int step = is_part ? bounds_step(&it->layout, d, from, to) : 0;
    if (!is_static || from > 0) lo = lower_int64(pr, index->lo, it);
    if (!expr_as_int(index->hi, &to) || to < coverage) hi = lower_int64(pr, index->hi, it);
    if (step && (lo || hi)) {
        var = index_by_steps(pr, it, d, step);
        lo = lo ? i32_const(pr, (int)from) : NULL;
        hi = hi ? i32_const(pr, (int)to) : NULL;
    }
    if (lo) test = expr_binary(pr->arena, X_GE, var, lo);
    return hi ? both(pr->lo, test, expr_binary(pr->arena, X_LT, var, hi)) : test;
}

Expr *declare_indices(Printer *pr, const Iteration *it, uint32_t dims)
{
    Expr *valid = NULL;
    for (int i = 0; i < it->n; i++) {
        const int d = it->dim_of[i];
        if (d < 0 || it->is_linear || !(dims >> d & 1)) continue;
        Var *const var = loop_var(pr, it->indices[i].var);
        emit_definition(pr, var, cast(pr, var->type, index_value(pr, it, d)));
        valid = both(pr->lo, valid, index_test(pr, it, &it->indices[i], d));
    }
    return valid;
}

// ---- a whole forall

static bool continues(TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_CONTINUE) return true;
        if (op->kind == T_IF && (continues(op->branch.then) || continues(op->branch.otherwise))) return true;
    }
    return false;
}

// The body, in a loop of one pass where `continue` needs one to leave.
static void emit_iteration(Printer *pr, TileOp *op, Iteration *it)
{
    Nest once;
    const bool wrap = continues(op->forall.body);
    if (wrap) begin_unrolled(pr, &once, "pass", 1);
    emit_thread_block(pr, op->forall.body, it);
    if (wrap) end_nest(pr, &once);
}

// Indices that are a loop in each thread.
static int begin_serial_loops(Printer *pr, Iteration *it, Nest *nests)
{
    int depth = 0;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] < 0) begin_index_loop(pr, &nests[depth++], &it->indices[i], LOOP_PLAIN, it);
    return depth;
}

// ---- all threads count through the product of the distributed indices

// Their extents, and the product.
static Expr *linear_extent(Printer *pr, const Iteration *it, Expr **extents)
{
    Arena *const a = pr->arena;
    Expr *total = NULL;
    for (int i = 0; i < it->n; i++) {
        extents[i] = int_sub(a, it->indices[i].hi, it->indices[i].lo);
        if (it->dim_of[i] < 0) continue;
        const Range r = expr_range(extents[i]);
        if (!(r.has_lo && r.lo >= 0)) extents[i] = int_max(a, extents[i], int_const(a, 0));
        total = total ? int_mul(a, total, extents[i]) : extents[i];
    }
    return total ? lower_int64(pr, total, it) : expr_int(a, DTYPE_I64, 1);
}

static void declare_linear_indices(Printer *pr, const Iteration *it, Expr *number, Expr *const *extents)
{
    Arena *const a = pr->arena;
    int first = 0; // the slowest
    while (first < it->n && it->dim_of[first] < 0) first++;
    for (int i = it->n - 1; i >= first; i--) {
        if (it->dim_of[i] < 0) continue;
        Expr *const extent = lower_int64(pr, extents[i], it);
        Expr *const value = i == first ? number : expr_binary(a, X_MOD, number, extent);
        Var *const var = loop_var(pr, it->indices[i].var);
        Expr *const index = expr_binary(a, X_ADD, lower_int64(pr, it->indices[i].lo, it), value);
        emit_definition(pr, var, cast(pr, var->type, index));
        number = expr_binary(a, X_DIV, number, extent);
    }
}

// Results of element reductions belong to one thread each: they begin and end inside the loop.
static void begin_reductions(Printer *pr, Iteration *it, bool of_elements)
{
    for (int i = 0; i < it->n_reductions; i++)
        if ((it->reductions[i].kept != 0) == of_elements) begin_reduction(pr, it, i);
}

static void emit_linear(Printer *pr, TileOp *op, Iteration *it)
{
    Expr *extents[LOOP_INDICES_MAX], *const count = linear_extent(pr, it, extents);
    begin_reductions(pr, it, false);
    Var *const linear = loop_new_var(pr->unit, DTYPE_I64, "linear");
    Expr *const thread =
        var_of(pr, pr->lo->is_specialised && it->partition.groups > 1 ? pr->thread_of_all : pr->thread);
    Nest loop, serial[LOOP_INDICES_MAX];
    begin_for(pr, &loop, linear, cast(pr, DTYPE_I64, thread), count,
              expr_int(pr->arena, DTYPE_I64, partition_threads(it->partition)),
              pr->lo->role == ROLE_PRODUCER ? LOOP_NO_UNROLL : LOOP_PLAIN); // it has few registers
    declare_linear_indices(pr, it, var_of(pr, linear), extents);
    begin_reductions(pr, it, true);
    const int depth = begin_serial_loops(pr, it, serial);
    emit_iteration(pr, op, it);
    end_nests(pr, serial, depth);
    for (int i = 0; i < it->n_reductions; i++)
        if (it->reductions[i].kept)
            apply_update(pr, it->reductions[i].update,
                         expr_index(pr->arena, it->reductions[i].partial, i32_const(pr, 0)),
                         reduction_type(it->reductions[i].update), it);
    end_nest(pr, &loop);
    for (int i = 0; i < it->n_reductions; i++)
        if (!it->reductions[i].kept) finish_reduction(pr, it, i);
}

// ---- or each has its elements

// The loop over the vector's elements, each at its own value of the index.
static void emit_vector_elements(Printer *pr, TileOp *op, Iteration *it)
{
    Nest pieces;
    Var *const base = loop_var(pr, it->run);
    Var *const v = it->mode[it->vector] = begin_unrolled(pr, &pieces, "v", it->layout.mode[it->vector].extent);
    Expr *const index = expr_binary(pr->arena, X_ADD, var_of(pr, base), cast(pr, base->type, var_of(pr, v)));
    *var_slot(pr, it->run) = emit_declare(pr, base->type, base->name, index);
    emit_iteration(pr, op, it);
    end_nest(pr, &pieces);
    *var_slot(pr, it->run) = base;
}

static void emit_vector(Printer *pr, TileOp *op, Iteration *it)
{
    emit_vector_loads(pr, it);
    emit_vector_elements(pr, op, it);
    emit_vector_stores(pr, it);
    it->mode[it->vector] = NULL;
}

// The iterations of the modes at hand.
static void emit_modes(Printer *pr, TileOp *op, Iteration *it, uint32_t dims)
{
    Nest block, guard;
    begin_block(pr, &block);
    Expr *const valid = declare_indices(pr, it, dims);
    if (valid) begin_if(pr, &guard, valid);
    if (it->vector >= 0) emit_vector(pr, op, it);
    else emit_iteration(pr, op, it);
    if (valid) end_nest(pr, &guard);
    end_nest(pr, &block);
}

// Of the rows of a warp each lane works out one's place, as the first lane of those that have it would.
static Var *place_own_row(Printer *pr, const MapPlan *plan, Iteration *it)
{
    const int down = WARP_LANES / plan->lanes_across;
    Var *const lane = pr->lane;
    Expr *number = i32_op(pr, X_DIV, var_of(pr, lane), down);
    pr->lane = emit_declare(pr, DTYPE_I32, "first_lane",
                            i32_mul(pr, i32_op(pr, X_MOD, var_of(pr, lane), down), plan->lanes_across));
    for (int i = plan->n_row_modes - 1; i >= 0; i--) {
        const int d = it->order[i], extent = it->layout.mode[d].extent;
        it->mode[d] = emit_declare(pr, DTYPE_I32, "r", i32_op(pr, X_MOD, number, extent));
        number = i32_op(pr, X_DIV, number, extent);
    }
    declare_indices(pr, it, 1u);
    Var *const at = declare_row_at(pr, plan->addressed_rows, it);
    pr->lane = lane;
    *var_slot(pr, it->indices[0].var) = NULL;
    return at;
}

// From the lane that has worked it out.
static Var *address_of_row(Printer *pr, const MapPlan *plan, const Iteration *it, Var *own)
{
    const int down = WARP_LANES / plan->lanes_across;
    Expr *number = i32_const(pr, 0);
    for (int i = 0; i < plan->n_row_modes; i++) {
        const int d = it->order[i];
        number = i32_add(pr, i32_mul(pr, number, it->layout.mode[d].extent), var_of(pr, it->mode[d]));
    }
    Expr *const from =
        i32_add(pr, i32_op(pr, X_DIV, var_of(pr, pr->lane), plan->lanes_across), i32_mul(pr, number, down));
    return emit_declare(pr, DTYPE_I64, "line_at", call_expr(pr, DTYPE_I64, "shuffle_from", 2, var_of(pr, own), from));
}

// Two neighbours of each block of columns that is exchanged, each pair a word.
static Var *emit_pairs(Printer *pr, const MapPlan *plan, Iteration *it, Var *first)
{
    Nest block;
    const int blocks = plan->wide->blocks;
    Var *const words = emit_array(pr, DTYPE_U32, "quad", blocks), *const k = begin_unrolled(pr, &block, "k", blocks);
    it->mode[it->order[plan->n_row_modes]] =
        emit_declare(pr, DTYPE_I32, "r", i32_add(pr, var_of(pr, first), var_of(pr, k)));
    declare_indices(pr, it, ~1u);
    emit_vector_loads(pr, it); // there are none; it declares what is stored
    emit_vector_elements(pr, plan->map, it);
    it->mode[it->vector] = NULL;
    emit_call(pr, "join<2>", 2, expr_address(pr->arena, words, var_of(pr, k)), var_of(pr, it->stored[0].values));
    end_nest(pr, &block);
    return words;
}

// Each lane of a quad stores one of the blocks.
static void emit_wide_stores(Printer *pr, const MapPlan *plan, Iteration *it)
{
    Nest blocks;
    const int mode = it->order[plan->n_row_modes];
    const LayoutMode *const columns = &it->layout.mode[mode];
    Var *const first = loop_new_var(pr->unit, DTYPE_I32, "r"), *const own = loop_var(pr, it->indices[1].var);
    begin_for(pr, &blocks, first, i32_const(pr, 0), i32_const(pr, columns->extent), i32_const(pr, plan->wide->blocks),
              LOOP_UNROLL);
    Var *const words = emit_pairs(pr, plan, it, first);
    emit_call(pr, "transpose_quad", 2, var_of(pr, words), var_of(pr, pr->lane));
    it->mode[mode] = NULL;
    Expr *const column =
        i32_add(pr, thread_part(pr, &plan->wide->layout, 1), i32_mul(pr, var_of(pr, first), columns->stride));
    *var_slot(pr, it->indices[1].var) = emit_declare(pr, own->type, own->name, cast(pr, own->type, column));
    if (!pr->is_muted) store_quad(pr, plan->addressed_rows, words, it);
    *var_slot(pr, it->indices[1].var) = NULL;
    end_nest(pr, &blocks);
}

static void emit_columns(Printer *pr, const MapPlan *plan, Iteration *it)
{
    Nest columns[LAYOUT_MAX_MODES];
    const int n = begin_mode_loops(pr, it, plan->n_row_modes, it->n_order, columns);
    emit_modes(pr, plan->map, it, ~1u);
    end_nests(pr, columns, n);
}

// Row after row, and each row's columns.
static void emit_rows(Printer *pr, const MapPlan *plan, Iteration *it)
{
    Nest rows[LAYOUT_MAX_MODES];
    Var *const own = place_own_row(pr, plan, it);
    const int n_rows = begin_mode_loops(pr, it, 0, plan->n_row_modes, rows);
    declare_indices(pr, it, 1u);
    enter_row(pr, plan->addressed_rows, address_of_row(pr, plan, it, own));
    if (plan->wide) emit_wide_stores(pr, plan, it);
    else emit_columns(pr, plan, it);
    leave_row(pr);
    end_nests(pr, rows, n_rows);
}

// Loops over the register modes, the slowest outermost; all unrolled, so that register arrays become registers.
static void emit_spread(Printer *pr, TileOp *op, Iteration *it)
{
    for (int i = 0; i < it->n_reductions; i++) begin_reduction(pr, it, i);
    Nest serial[LOOP_INDICES_MAX], modes[2 * LAYOUT_MAX_MODES];
    const int depth = begin_serial_loops(pr, it, serial);
    it->halves = find_halves(pr, op, it);
    const int n =
        it->halves ? begin_mode_loops(pr, it, 0, it->n_order - 1, modes) : begin_register_loops(pr, it, modes);
    emit_modes(pr, op, it, ~0u);
    end_nests(pr, modes, n);
    end_nests(pr, serial, depth);
    for (int i = 0; i < it->n_reductions; i++) finish_reduction(pr, it, i);
}

// ---- a map

// Of f32 fragments to 16-bit ones of the same layout, two elements at a time (packed.c).
static void print_packed_conversion(Printer *pr, const TileInfo *to, const TileInfo *from)
{
    Nest nest;
    Var *const i = begin_unrolled(pr, &nest, "i", layout_registers(&to->layout) / 2);
    Expr *const even = i32_mul(pr, var_of(pr, i), 2), *const odd = i32_op(pr, X_ADD, even, 1);
    Expr *const word = call_expr(pr, DTYPE_U32, arena_printf(pr->arena, "pack_%s", dtype_name(to->buffer->type)), 2,
                                 expr_index(pr->arena, tile_vars(pr, from)->registers, even),
                                 expr_index(pr->arena, tile_vars(pr, from)->registers, odd));
    if (to->is_packed) emit_element(pr, tile_vars(pr, to)->registers, var_of(pr, i), word);
    else emit_call(pr, "store_pair", 2, expr_address(pr->arena, tile_vars(pr, to)->registers, even), word);
    end_nest(pr, &nest);
}

// Their warps synchronise.
static bool reductions_sync(const Iteration *it)
{
    for (int i = 0; i < it->n_reductions; i++)
        if (it->reductions[i].joins && warp_replicas(it, i) > 1) return true;
    return false;
}

static void print_elements(Printer *pr, const MapPlan *plan, Iteration *it)
{
    Nest block, once;
    Expr *const somewhere = reductions_sync(it) ? NULL : mask_test(pr, plan->map, it);
    if (somewhere) begin_if(pr, &block, somewhere);
    else begin_block(pr, &block);
    Expr *const first = plan->only_first_replica ? replica_is_first(pr, &it->layout) : NULL;
    if (first) begin_if(pr, &once, first);
    if (it->is_linear) emit_linear(pr, plan->map, it);
    else if (plan->addressed_rows) emit_rows(pr, plan, it);
    else emit_spread(pr, plan->map, it);
    if (first) end_nest(pr, &once);
    end_nest(pr, &block);
}

static void print_by_partition(Printer *pr, const MapPlan *plan)
{
    if (plan->packed_to) {
        print_packed_conversion(pr, plan->packed_to, plan->packed_from);
        return;
    }
    Iteration it = plan->loads ? *early_loads(pr, plan->loads) : plan->it;
    const Partition partition = pr->lo->partition;
    set_partition(pr, it.partition);
    pr->is_muted = plan->is_muted;
    print_elements(pr, plan, &it);
    set_partition(pr, partition);
    pr->is_muted = false;
}

// Whether some row's factor is not 1 (rescale.c).
static Expr *rescale_test(Printer *pr, const TileInfo *factor)
{
    Expr *differs = NULL;
    for (int i = 0; i < layout_registers(&factor->layout); i++) {
        Expr *const one =
            expr_binary(pr->arena, X_NE, expr_index(pr->arena, tile_vars(pr, factor)->registers, i32_const(pr, i)),
                        expr_float(pr->arena, DTYPE_F32, 1));
        differs = differs ? expr_binary(pr->arena, X_OR, differs, one) : one;
    }
    return call_expr(pr, DTYPE_BOOL, "any_lane", 1, differs);
}

void print_map(Printer *pr, const MapPlan *plan)
{
    Nest some;
    if (plan->row_factor) begin_if(pr, &some, rescale_test(pr, plan->row_factor));
    print_by_partition(pr, plan);
    if (plan->row_factor) end_nest(pr, &some);
}

// ---- loads of several copies, before them

void print_early_loads(Printer *pr, const EarlyLoads *loads)
{
    for (int i = 0; i < loads->n; i++) {
        const Partition partition = pr->lo->partition;
        set_partition(pr, loads->its[i]->partition);
        emit_batch(pr, early_loads(pr, loads->its[i]));
        set_partition(pr, partition);
    }
}
