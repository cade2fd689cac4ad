// scan.c - inclusive sums along one dimension of a tile in shared memory: a warp per line, 32 elements at a time.
#include "lower/cuda/cuda.h"

static bool static_widths(const Region *region, int64_t *widths)
{
    const int rank = region_rank(region);
    for (int d = 0; d < rank; d++)
        if (!expr_as_int(region_extent(region, d), &widths[d]))
            return false;
    return true;
}

static void subs_at(Lowering *lo, const Region *region, Expr **position, Expr **subs)
{
    for (int d = 0, range = 0; d < region->buffer->rank; d++) {
        const Sub *const sub = &region->subs[d];
        subs[d] = sub->start;
        if (sub->is_range) {
            Expr *along = position[range++];
            if (sub->step)
                along = int_mul(lo->arena, along, sub->step);
            subs[d] = int_add(lo->arena, sub->start, along);
        }
    }
}

void emit_scan(Lowering *lo, TileOp *op)
{
    Arena *const a = lo->arena;
    int64_t widths[MAX_RANK];
    const int rank = region_rank(&op->scan.src), axis = op->scan.axis;
    if (!static_widths(&op->scan.src, widths)) {
        unsupported(lo, op->span, "a scan whose extents are known at run time");
        return;
    }
    int64_t lines = 1;
    for (int d = 0; d < rank; d++)
        lines *= d == axis ? 1 : widths[d];
    const int warps = lo->crew.warps * lo->crew.groups;
    const DType target = op->scan.dst.buffer->type;
    const DType wide = dtype_info[target].wide == DTYPE_INT ? DTYPE_I64 : dtype_info[target].wide;
    Expr *const warp = lo->crew.groups > 1
                           ? i32_add(lo, i32_mul(lo, var_of(lo, lo->group), lo->crew.warps), var_of(lo, lo->warp))
                           : var_of(lo, lo->warp);
    Var *const line = tile_new_var(lo->kernel, VAR_INDEX, DTYPE_INT, "line", op->span);
    line->lo = int_const(a, 0);
    line->hi = int_const(a, lines - 1);
    Var *const at = tile_new_var(lo->kernel, VAR_INDEX, DTYPE_INT, "at", op->span);
    at->lo = int_const(a, 0);
    at->hi = int_const(a, widths[axis] + WARP_LANES);
    Expr *position[MAX_RANK], *subs[MAX_RANK], *rest = expr_var(a, line);
    for (int d = rank - 1; d >= 0; d--) {
        if (d == axis) {
            position[d] = expr_var(a, at);
            continue;
        }
        position[d] = expr_binary(a, X_MOD, rest, int_const(a, widths[d]));
        rest = expr_binary(a, X_DIV, rest, int_const(a, widths[d]));
    }
    Nest loop, chunk, guard;
    begin_for(lo, &loop, loop_var(lo, line), warp, i32_const(lo, lines), i32_const(lo, warps), LOOP_NO_UNROLL);
    Var *const carry = emit_declare(lo, wide, "carry",
                                    dtype_is_float(wide) ? expr_float(a, wide, 0) : expr_int(a, wide, 0));
    Var *const first = loop_new_var(lo->unit, DTYPE_I32, "first");
    begin_for(lo, &chunk, first, i32_const(lo, 0), i32_const(lo, widths[axis]), i32_const(lo, WARP_LANES),
              LOOP_NO_UNROLL);
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = loop_var(lo, at), .value = i32_add(lo, var_of(lo, first), var_of(lo, lo->lane)) } });
    Expr *const inside = i32_op(lo, X_LT, var_of(lo, loop_var(lo, at)), widths[axis]);
    subs_at(lo, &op->scan.src, position, subs);
    Var *const value = emit_declare(lo, wide, "value",
                                    dtype_is_float(wide) ? expr_float(a, wide, 0) : expr_int(a, wide, 0));
    begin_if(lo, &guard, inside);
    emit_assign(lo, value, lower_as(lo, wide, expr_load(a, op->scan.src.buffer, subs), NULL));
    end_nest(lo, &guard);
    emit_assign(lo, value,
                expr_binary(a, X_ADD, call_expr(lo, wide, "warp_scan", 2, var_of(lo, value), var_of(lo, lo->lane)),
                            var_of(lo, carry)));
    Place place;
    subs_at(lo, &op->scan.dst, position, subs);
    begin_if(lo, &guard, inside);
    if (place_element(lo, op->scan.dst.buffer, subs, NULL, &place, op->span)) {
        Nest cut;
        if (place.inside)            // of a view that ends within the slice
            begin_if(lo, &cut, place.inside);
        emit_element(lo, place.pointer, place.at, to_dtype(lo, target, wide, var_of(lo, value)));
        mark_written(lo, &place);
        if (place.inside)
            end_nest(lo, &cut);
    }
    end_nest(lo, &guard);
    emit_assign(lo, carry, call_expr(lo, wide, "shuffle_from", 2, var_of(lo, value), i32_const(lo, WARP_LANES - 1)));
    end_nest(lo, &chunk);
    end_nest(lo, &loop);
}
