// SPDX-License-Identifier: MIT
// print_scan_registers.c - inclusive sums along a dimension of a fragment in registers.
//
// before: the scan is decided (scan.c), the barriers between its warps are parts of it
// after:  each element holds the sum of those up to it
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/elements/print_reduce.h"
#include "lower/gpu/facts/scans.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

// A thread adds up its own elements; lanes and warps that follow each other along the dimension exchange sums. Modes of
// the dimension are taken from the fastest to the slowest: after each, elements hold the sums within the blocks that
// the modes so far make, and `sums` those of whole blocks, at each block's first element.
typedef struct RegisterScan {
    Printer *pr;
    const Layout *layout;
    DType type;
    Var *elements, *sums;
    int n, block[SCAN_REGISTERS_MAX]; // of each register: the first of its block
} RegisterScan;

// Registers from one value of a register mode to the next.
static int register_step(const Layout *layout, int which)
{
    int step = 1;
    for (int i = 0; i < which; i++) step *= layout->mode[i].input == IN_REGISTER ? layout->mode[i].extent : 1;
    return step;
}

static void add_to(RegisterScan *scan, Var *array, int at, Expr *value)
{
    Printer *const pr = scan->pr;
    Expr *const place = i32_const(pr, at), *const old = expr_index(pr->arena, array, place);
    emit_element(pr, array, place, call_expr(pr, scan->type, "wrapping_sum", 2, old, value));
}

static Expr *sum_of(const RegisterScan *scan, int block)
{
    return expr_index(scan->pr->arena, scan->sums, i32_const(scan->pr, block));
}

static void add_to_block(RegisterScan *scan, int block, Expr *value)
{
    for (int r = 0; r < scan->n; r++)
        if (scan->block[r] == block) add_to(scan, scan->elements, r, value);
}

// The blocks of a thread along one register mode become one.
static void scan_own(RegisterScan *scan, int which)
{
    const int step = register_step(scan->layout, which), extent = scan->layout->mode[which].extent;
    for (int first = 0; first < scan->n; first++) {
        if (scan->block[first] != first || first / step % extent != 0) continue;
        for (int i = 1; i < extent; i++) {
            const int next = first + i * step;
            add_to_block(scan, next, sum_of(scan, first));
            add_to(scan, scan->sums, first, sum_of(scan, next));
        }
        for (int r = 0; r < scan->n; r++)
            for (int i = 1; i < extent; i++)
                if (scan->block[r] == first + i * step) scan->block[r] = first;
    }
}

static void scan_over_lanes(RegisterScan *scan, int which)
{
    Printer *const pr = scan->pr;
    int step = 1;
    for (int i = 0; i < which; i++) step *= scan->layout->mode[i].input == IN_LANE ? scan->layout->mode[i].extent : 1;
    const char *const name = arena_printf(pr->arena, "scan_lanes<%d, %d>", step, scan->layout->mode[which].extent);
    for (int block = 0; block < scan->n; block++) {
        if (scan->block[block] != block) continue;
        Var *const before = emit_declare(pr, scan->type, "before",
                                         call_expr(pr, scan->type, name, 2, sum_of(scan, block), var_of(pr, pr->lane)));
        add_to_block(scan, block, var_of(pr, before));
    }
}

static int block_count(const RegisterScan *scan)
{
    int n = 0;
    for (int r = 0; r < scan->n; r++) n += scan->block[r] == r;
    return n;
}

// The number of this warp among those that go along the dimension, or among those of other dimensions.
static Expr *warp_number(Printer *pr, const Layout *layout, int axis, bool along, int *count)
{
    Expr *number = i32_const(pr, 0);
    *count = 1;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (!is_of_warps(mode) || (mode->dim == axis) != along) continue;
        number = i32_add(pr, number, i32_mul(pr, mode_value(pr, layout, i), *count));
        *count *= mode->extent;
    }
    return number;
}

// Each block's sum goes to the scratch of reductions, from where all warps take those before them.
static void scan_over_warps(RegisterScan *scan, int axis)
{
    Printer *const pr = scan->pr;
    int along, others, row = 0;
    Expr *const warp = emit_i32(pr, "warp_along", warp_number(pr, scan->layout, axis, true, &along));
    Expr *const rows = i32_mul(pr, warp_number(pr, scan->layout, axis, false, &others), block_count(scan) * along);
    Var *const scratch = loop_new_pointer(pr->unit, scan->type, "scratch");
    if (pr->lo->scratch_buffers <= 1) print_parts_through(pr, ACTION_BARRIER_SYNC);
    Expr *const base = i32_const(pr, pr->lo->scratch_offset);
    Expr *const side = pr->scratch_buffer ? i32_add(pr, base, var_of(pr, pr->scratch_buffer)) : base;
    emit_definition(pr, scratch, shared_pointer(pr, scan->type, side));
    for (int block = 0; block < scan->n; block++)
        if (scan->block[block] == block)
            emit_element(pr, scratch, i32_add(pr, i32_add(pr, rows, i32_const(pr, row++ * along)), warp),
                         sum_of(scan, block));
    print_parts_through(pr, ACTION_BARRIER_SYNC);
    row = 0;
    const char *const name = arena_printf(pr->arena, "scan_warps<%d>", along);
    for (int block = 0; block < scan->n; block++) {
        if (scan->block[block] != block) continue;
        Expr *const sums = expr_address(pr->arena, scratch, i32_add(pr, rows, i32_const(pr, row++ * along)));
        Var *const before =
            emit_declare(pr, scan->type, "before",
                         call_expr(pr, scan->type, name, 4, sum_of(scan, block), sums, warp, var_of(pr, pr->lane)));
        add_to_block(scan, block, var_of(pr, before));
    }
    next_scratch_buffer(pr);
}

// What lies past the tile's end counts as nothing.
static void clear_padding(RegisterScan *scan, int axis)
{
    Printer *const pr = scan->pr;
    const Layout *const layout = scan->layout;
    if (layout_coverage(layout, axis) == layout->extent[axis]) return;
    for (int r = 0; r < scan->n; r++) {
        Expr *at = thread_part(pr, layout, axis);
        for (int i = 0; i < layout->n; i++)
            if (layout->mode[i].input == IN_REGISTER && layout->mode[i].dim == axis)
                at = i32_add(
                    pr, at,
                    i32_const(pr, r / register_step(layout, i) % layout->mode[i].extent * layout->mode[i].stride));
        Expr *const old = expr_index(pr->arena, scan->elements, i32_const(pr, r));
        emit_element(
            pr, scan->elements, i32_const(pr, r),
            expr_select(pr->arena, i32_op(pr, X_LT, at, layout->extent[axis]), old, zero_of(pr->lo, scan->type)));
    }
}

void print_register_scan(Printer *pr, const TileOp *op)
{
    const TileInfo *const tile = tile_info(pr->lo, op->scan.dst.buffer);
    const int axis = op->scan.axis;
    int order[LAYOUT_MAX_MODES], n;
    RegisterScan scan = { .pr = pr,
                          .layout = &tile->layout,
                          .type = loop_type(tile->buffer->type),
                          .elements = tile_vars(pr, tile)->registers,
                          .n = layout_registers(&tile->layout) };
    Nest nest;
    begin_block(pr, &nest);
    clear_padding(&scan, axis);
    scan.sums = emit_array(pr, scan.type, "sums", scan.n);
    for (int r = 0; r < scan.n; r++) {
        scan.block[r] = r;
        emit_element(pr, scan.sums, i32_const(pr, r), expr_index(pr->arena, scan.elements, i32_const(pr, r)));
    }
    order_modes(scan.layout, axis, order, &n);
    for (int i = 0; i < n; i++) {
        const LayoutMode *const mode = &scan.layout->mode[order[i]];
        if (mode->input == IN_REGISTER) scan_own(&scan, order[i]);
        else if (mode->input == IN_LANE) scan_over_lanes(&scan, order[i]);
        else if (i == 0 || !is_of_warps(&scan.layout->mode[order[i - 1]])) scan_over_warps(&scan, axis);
    }
    end_nest(pr, &nest);
}
