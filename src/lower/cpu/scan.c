// SPDX-License-Identifier: MIT
// scan.c - cumsum(dst, src, axis): along one axis, for every position of the others. dst may be src.
#include "lower/cpu/cpu.h"

static bool is_cut(const Place *p) { return p->checks.count > 0 || p->by_elements; }

// An array of p's extents, which are known when built.
static bool array_like(Cpu *cx, const Place *p, Place *array, int64_t *room)
{
    int64_t extents[MAX_RANK];
    for (int a = 0; a < p->n_axes; a++)
        if (!expr_as_int(p->widths[a], &extents[a]))
            return cpu_unsupported(cx, p->span, "a cumsum over a view of an extent not known when built");
    *array = cpu_own_array(cx, p->type, extents, p->n_axes, room);
    return true;
}

static void scan_places(Cpu *cx, const TileOp *op, Place dst, Place src)
{
    Expr *axes[MAX_RANK] = { NULL };
    const DType wide = dtype_info[dst.type].wide;
    LoopList lists[MAX_RANK + 1];
    LoopList *const out = cx->out;
    Var *vars[MAX_RANK];
    int order[MAX_RANK], n = 0;
    for (int a = 0; a < dst.n_axes; a++)
        if (a != op->scan.axis) order[n++] = a;
    order[n++] = op->scan.axis;
    for (int level = 0; level < n; level++) {
        lists[level] = loop_list(cx->arena);
        vars[level] = loop_new_var(cx->unit, DTYPE_INT, "i");
        axes[order[level]] = cpu_of(cx, vars[level]);
    }
    cx->out = n > 1 ? &lists[n - 2] : out;
    LoopList block = loop_list(cx->arena);
    if (n == 1) cx->out = &block;
    Var *const sum = cpu_declare(cx, wide, "sum", cpu_convert(cx, wide, int_const(cx->arena, 0)));
    LoopList *const around = cpu_enter(cx, &lists[n - 1]);
    Expr *const value = cpu_convert(cx, wide, cpu_place_load(cx, &src, cpu_linear_at(cx, &src.at, axes)));
    cpu_assign(cx, sum, expr_binary(cx->arena, X_ADD, cpu_of(cx, sum), value));
    cpu_place_store(cx, &dst, cpu_linear_at(cx, &dst.at, axes), cpu_convert(cx, dst.type, cpu_of(cx, sum)));
    cx->out = around;
    for (int level = n - 1; level >= 0; level--) {
        Expr *const width = cpu_expr(cx, dst.widths[order[level]]);
        LoopList *const back = cpu_enter(cx, level > 0 ? &lists[level - 1] : n == 1 ? &block : out);
        cpu_add_loop(cx, vars[level], int_const(cx->arena, 0), width, &lists[level]);
        cpu_enter(cx, back);
    }
    cx->out = out;
    if (n == 1) cpu_add_if(cx, NULL, &block);
}

// What a view may cut is copied: what is outside counts as 0, and is not written.
void cpu_scan(Cpu *cx, TileOp *op)
{
    Place dst, src;
    int64_t room = 0;
    if (!cpu_place_region(cx, &dst, &op->scan.dst) || !cpu_place_region(cx, &src, &op->scan.src)) return;
    if (cpu_is_checked(cx)) cpu_mark_region(cx, &src, true);
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    Place from = src, to = dst;
    const bool ready =
        (!is_cut(&src) || array_like(cx, &src, &from, &room)) && (!is_cut(&dst) || array_like(cx, &dst, &to, &room));
    if (ready && is_cut(&src)) cpu_copy_places(cx, &from, &src, op->span);
    if (ready) scan_places(cx, op, to, from);
    if (ready && is_cut(&dst)) cpu_copy_places(cx, &dst, &to, op->span);
    cpu_enter(cx, out);
    cpu_add_if(cx, NULL, &body);
    if (cpu_is_checked(cx)) cpu_mark_region(cx, &dst, false);
}
