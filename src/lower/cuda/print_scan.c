// SPDX-License-Identifier: MIT
// print_scan.c - inclusive sums along one dimension of a tile in shared memory: a warp per line, 32 elements at a time.
// What registers hold has a faster way (print_scan_registers.c).
#include "lower/cuda/scan.h"
#include "lower/cuda/checked.h"
#include "lower/cuda/elementwise.h"
#include "lower/cuda/print.h"

// Of element `at` of line `line`, which counts through the other dimensions.
static void find_position(Lowering *lo, const int64_t *widths, int rank, int axis, Var *line, Var *at, Expr **position)
{
    Arena *const a = lo->arena;
    Expr *rest = expr_var(a, line);
    for (int d = rank - 1; d >= 0; d--) {
        position[d] = d == axis ? expr_var(a, at) : expr_binary(a, X_MOD, rest, int_const(a, widths[d]));
        rest = d == axis ? rest : expr_binary(a, X_DIV, rest, int_const(a, widths[d]));
    }
}

static void store_sum(Lowering *lo, const TileOp *op, Expr **position, DType wide, Var *value)
{
    Place place;
    Expr *subs[MAX_RANK];
    Buffer *const dst = op->scan.dst.buffer;
    region_element(lo->arena, &op->scan.dst, position, subs);
    if (!place_element(lo, dst, subs, NULL, &place, op->span)) return;
    Nest cut;
    if (place.inside) // of a view that ends within the slice
        begin_if(lo, &cut, place.inside);
    emit_element(lo, place.pointer, place.at, to_dtype(lo, dst->type, wide, var_of(lo, value)));
    mark_written(lo, &place);
    if (place.inside) end_nest(lo, &cut);
}

// 32 elements of a line: `carry` is the sum of those before them, and then of these too.
static void scan_chunk(Lowering *lo, const TileOp *op, Expr **position, Expr *inside, DType wide, Var *carry)
{
    Nest guard;
    Expr *subs[MAX_RANK];
    region_element(lo->arena, &op->scan.src, position, subs);
    Var *const value = emit_declare(lo, wide, "value", zero_of(lo, wide));
    begin_if(lo, &guard, inside);
    emit_assign(lo, value, lower_as(lo, wide, expr_load(lo->arena, op->scan.src.buffer, subs), NULL));
    end_nest(lo, &guard);
    Expr *const sums = call_expr(lo, wide, "warp_scan", 2, var_of(lo, value), var_of(lo, lo->lane));
    emit_assign(lo, value, call_expr(lo, wide, "wrapping_sum", 2, sums, var_of(lo, carry)));
    begin_if(lo, &guard, inside);
    store_sum(lo, op, position, wide, value);
    end_nest(lo, &guard);
    emit_assign(lo, carry, call_expr(lo, wide, "shuffle_from", 2, var_of(lo, value), i32_const(lo, WARP_LANES - 1)));
}

static void print_shared_scan(Lowering *lo, const TileOp *op)
{
    int64_t widths[MAX_RANK], lines = 1;
    const int rank = region_rank(&op->scan.src), axis = op->scan.axis,
              warps = lo->partition.warps * lo->partition.groups;
    static_widths(&op->scan.src, widths);
    for (int d = 0; d < rank; d++) lines *= d == axis ? 1 : widths[d];
    const DType target = op->scan.dst.buffer->type;
    const DType wide = dtype_info[target].wide == DTYPE_INT ? DTYPE_I64 : dtype_info[target].wide;
    Expr *warp = var_of(lo, lo->warp), *position[MAX_RANK];
    if (lo->partition.groups > 1) warp = i32_add(lo, i32_mul(lo, var_of(lo, lo->group), lo->partition.warps), warp);
    Var *const line = new_index(lo, "line", int_const(lo->arena, lines), op->span).var;
    Var *const at = new_index(lo, "at", int_const(lo->arena, widths[axis] + WARP_LANES), op->span).var;
    find_position(lo, widths, rank, axis, line, at, position);
    Nest loop, chunk;
    begin_for(lo, &loop, loop_var(lo, line), warp, i32_const(lo, lines), i32_const(lo, warps), LOOP_NO_UNROLL);
    Var *const carry = emit_declare(lo, wide, "carry", zero_of(lo, wide)), *const first = loop_new_var(
                                                                               lo->unit, DTYPE_I32, "first");
    begin_for(lo, &chunk, first, i32_const(lo, 0), i32_const(lo, widths[axis]), i32_const(lo, WARP_LANES),
              LOOP_NO_UNROLL);
    emit_definition(lo, loop_var(lo, at), i32_add(lo, var_of(lo, first), var_of(lo, lo->lane)));
    scan_chunk(lo, op, position, i32_op(lo, X_LT, var_of(lo, loop_var(lo, at)), widths[axis]), wide, carry);
    end_nest(lo, &chunk);
    end_nest(lo, &loop);
}

void print_scan(Lowering *lo, const ScanPlan *plan)
{
    const Partition partition = lo->partition;
    lo->partition = plan->partition;
    if (plan->in_registers) print_register_scan(lo, plan->op);
    else print_shared_scan(lo, plan->op);
    lo->partition = partition;
}
