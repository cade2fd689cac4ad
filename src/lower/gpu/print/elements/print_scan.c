// SPDX-License-Identifier: MIT
// print_scan.c - inclusive sums along one dimension of a tile in shared memory: a warp per line, 32 elements at a time.
// What registers hold has a faster way (print_scan_registers.c).
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/scans.h"
#include "lower/gpu/facts/values.h"

// Of element `at` of line `line`, which counts through the other dimensions.
static void find_position(Printer *pr, const int64_t *widths, int rank, int axis, Var *line, Var *at, Expr **position)
{
    Arena *const a = pr->arena;
    Expr *rest = expr_var(a, line);
    for (int d = rank - 1; d >= 0; d--) {
        position[d] = d == axis ? expr_var(a, at) : expr_binary(a, X_MOD, rest, int_const(a, widths[d]));
        rest = d == axis ? rest : expr_binary(a, X_DIV, rest, int_const(a, widths[d]));
    }
}

static void store_sum(Printer *pr, const TileOp *op, Expr **position, DType wide, Var *value)
{
    Place place;
    Expr *subs[MAX_RANK];
    Buffer *const dst = op->scan.dst.buffer;
    region_element(pr->arena, &op->scan.dst, position, subs);
    place_element(pr, dst, subs, NULL, &place, op->span);
    Nest cut;
    if (place.inside) // of a view that ends within the slice
        begin_if(pr, &cut, place.inside);
    emit_element(pr, place.pointer, place.at, to_dtype(pr, dst->type, wide, var_of(pr, value)));
    mark_written(pr, &place);
    if (place.inside) end_nest(pr, &cut);
}

// 32 elements of a line: `carry` is the sum of those before them, and then of these too.
static void scan_chunk(Printer *pr, const TileOp *op, Expr **position, Expr *inside, DType wide, Var *carry)
{
    Nest guard;
    Expr *subs[MAX_RANK];
    region_element(pr->arena, &op->scan.src, position, subs);
    Var *const value = emit_declare(pr, wide, "value", zero_of(pr->lo, wide));
    begin_if(pr, &guard, inside);
    emit_assign(pr, value, lower_as(pr, wide, expr_load(pr->arena, op->scan.src.buffer, subs), NULL));
    end_nest(pr, &guard);
    Expr *const sums = call_expr(pr, wide, "warp_scan", 2, var_of(pr, value), var_of(pr, pr->lane));
    emit_assign(pr, value, call_expr(pr, wide, "wrapping_sum", 2, sums, var_of(pr, carry)));
    begin_if(pr, &guard, inside);
    store_sum(pr, op, position, wide, value);
    end_nest(pr, &guard);
    emit_assign(pr, carry, call_expr(pr, wide, "shuffle_from", 2, var_of(pr, value), i32_const(pr, WARP_LANES - 1)));
}

static void print_shared_scan(Printer *pr, const TileOp *op)
{
    int64_t widths[MAX_RANK], lines = 1;
    const int rank = region_rank(&op->scan.src), axis = op->scan.axis,
              warps = pr->lo->partition.warps * pr->lo->partition.groups;
    static_widths(&op->scan.src, widths);
    for (int d = 0; d < rank; d++) lines *= d == axis ? 1 : widths[d];
    const DType target = op->scan.dst.buffer->type;
    const DType wide = dtype_info[target].wide == DTYPE_INT ? DTYPE_I64 : dtype_info[target].wide;
    Expr *warp = var_of(pr, pr->warp), *position[MAX_RANK];
    if (pr->lo->partition.groups > 1)
        warp = i32_add(pr, i32_mul(pr, var_of(pr, pr->group), pr->lo->partition.warps), warp);
    Var *const line = new_index(pr->lo, "line", int_const(pr->arena, lines), op->span).var;
    Var *const at = new_index(pr->lo, "at", int_const(pr->arena, widths[axis] + WARP_LANES), op->span).var;
    find_position(pr, widths, rank, axis, line, at, position);
    Nest loop, chunk;
    begin_for(pr, &loop, loop_var(pr, line), warp, i32_const(pr, lines), i32_const(pr, warps), LOOP_NO_UNROLL);
    Var *const carry = emit_declare(pr, wide, "carry", zero_of(pr->lo, wide)), *const first = loop_new_var(
                                                                                   pr->unit, DTYPE_I32, "first");
    begin_for(pr, &chunk, first, i32_const(pr, 0), i32_const(pr, widths[axis]), i32_const(pr, WARP_LANES),
              LOOP_NO_UNROLL);
    emit_definition(pr, loop_var(pr, at), i32_add(pr, var_of(pr, first), var_of(pr, pr->lane)));
    scan_chunk(pr, op, position, i32_op(pr, X_LT, var_of(pr, loop_var(pr, at)), widths[axis]), wide, carry);
    end_nest(pr, &chunk);
    end_nest(pr, &loop);
}

void print_scan(Printer *pr, const ScanPlan *plan)
{
    const Partition partition = pr->lo->partition;
    set_partition(pr, plan->partition);
    if (plan->in_registers) print_register_scan(pr, plan->op);
    else print_shared_scan(pr, plan->op);
    set_partition(pr, partition);
}
