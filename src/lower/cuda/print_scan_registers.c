// SPDX-License-Identifier: MIT
// print_scan_registers.c - inclusive sums along a dimension of a fragment in registers.
//
// before: the scan is decided (scan.c), the barriers between its warps are parts of it
// after:  each element holds the sum of those up to it
#include "lower/cuda/print_action.h"
#include "lower/cuda/print.h"
#include "lower/cuda/scan.h"
#include "lower/cuda/reduce.h"

// A thread adds up its own elements; lanes and warps that follow each other along the dimension exchange sums. Modes of
// the dimension are taken from the fastest to the slowest: after each, elements hold the sums within the blocks that
// the modes so far make, and `sums` those of whole blocks, at each block's first element.
typedef struct RegisterScan {
    Lowering *lo;
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
    Lowering *const lo = scan->lo;
    Expr *const place = i32_const(lo, at), *const old = expr_index(lo->arena, array, place);
    emit_element(lo, array, place, call_expr(lo, scan->type, "wrapping_sum", 2, old, value));
}

static Expr *sum_of(const RegisterScan *scan, int block)
{
    return expr_index(scan->lo->arena, scan->sums, i32_const(scan->lo, block));
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
    Lowering *const lo = scan->lo;
    int step = 1;
    for (int i = 0; i < which; i++) step *= scan->layout->mode[i].input == IN_LANE ? scan->layout->mode[i].extent : 1;
    const char *const name = arena_printf(lo->arena, "scan_lanes<%d, %d>", step, scan->layout->mode[which].extent);
    for (int block = 0; block < scan->n; block++) {
        if (scan->block[block] != block) continue;
        Var *const before = emit_declare(lo, scan->type, "before",
                                         call_expr(lo, scan->type, name, 2, sum_of(scan, block), var_of(lo, lo->lane)));
        add_to_block(scan, block, var_of(lo, before));
    }
}

static int block_count(const RegisterScan *scan)
{
    int n = 0;
    for (int r = 0; r < scan->n; r++) n += scan->block[r] == r;
    return n;
}

// The number of this warp among those that go along the dimension, or among those of other dimensions.
static Expr *warp_number(Lowering *lo, const Layout *layout, int axis, bool along, int *count)
{
    Expr *number = i32_const(lo, 0);
    *count = 1;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (!is_of_warps(mode) || (mode->dim == axis) != along) continue;
        number = i32_add(lo, number, i32_mul(lo, mode_value(lo, layout, i), *count));
        *count *= mode->extent;
    }
    return number;
}

// Each block's sum goes to the scratch of reductions, from where all warps take those before them.
static void scan_over_warps(RegisterScan *scan, int axis)
{
    Lowering *const lo = scan->lo;
    int along, others, row = 0;
    Expr *const warp = emit_i32(lo, "warp_along", warp_number(lo, scan->layout, axis, true, &along));
    Expr *const rows = i32_mul(lo, warp_number(lo, scan->layout, axis, false, &others), block_count(scan) * along);
    Var *const scratch = loop_new_pointer(lo->unit, scan->type, "scratch");
    if (lo->scratch_buffers <= 1) print_parts_through(lo, ACTION_BARRIER_SYNC);
    Expr *const base = i32_const(lo, lo->scratch_offset);
    Expr *const side = lo->scratch_buffer ? i32_add(lo, base, var_of(lo, lo->scratch_buffer)) : base;
    emit_definition(lo, scratch, shared_pointer(lo, scan->type, side));
    for (int block = 0; block < scan->n; block++)
        if (scan->block[block] == block)
            emit_element(lo, scratch, i32_add(lo, i32_add(lo, rows, i32_const(lo, row++ * along)), warp),
                         sum_of(scan, block));
    print_parts_through(lo, ACTION_BARRIER_SYNC);
    row = 0;
    const char *const name = arena_printf(lo->arena, "scan_warps<%d>", along);
    for (int block = 0; block < scan->n; block++) {
        if (scan->block[block] != block) continue;
        Expr *const sums = expr_address(lo->arena, scratch, i32_add(lo, rows, i32_const(lo, row++ * along)));
        Var *const before =
            emit_declare(lo, scan->type, "before",
                         call_expr(lo, scan->type, name, 4, sum_of(scan, block), sums, warp, var_of(lo, lo->lane)));
        add_to_block(scan, block, var_of(lo, before));
    }
    next_scratch_buffer(lo);
}

// What lies past the tile's end counts as nothing.
static void clear_padding(RegisterScan *scan, int axis)
{
    Lowering *const lo = scan->lo;
    const Layout *const layout = scan->layout;
    if (layout_coverage(layout, axis) == layout->extent[axis]) return;
    for (int r = 0; r < scan->n; r++) {
        Expr *at = thread_part(lo, layout, axis);
        for (int i = 0; i < layout->n; i++)
            if (layout->mode[i].input == IN_REGISTER && layout->mode[i].dim == axis)
                at = i32_add(
                    lo, at,
                    i32_const(lo, r / register_step(layout, i) % layout->mode[i].extent * layout->mode[i].stride));
        Expr *const old = expr_index(lo->arena, scan->elements, i32_const(lo, r));
        emit_element(lo, scan->elements, i32_const(lo, r),
                     expr_select(lo->arena, i32_op(lo, X_LT, at, layout->extent[axis]), old, zero_of(lo, scan->type)));
    }
}

void print_register_scan(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->scan.dst.buffer);
    const int axis = op->scan.axis;
    int order[LAYOUT_MAX_MODES], n;
    RegisterScan scan = { .lo = lo,
                          .layout = &tile->layout,
                          .type = loop_type(tile->buffer->type),
                          .elements = tile->registers,
                          .n = layout_registers(&tile->layout) };
    Nest nest;
    begin_block(lo, &nest);
    clear_padding(&scan, axis);
    scan.sums = emit_array(lo, scan.type, "sums", scan.n);
    for (int r = 0; r < scan.n; r++) {
        scan.block[r] = r;
        emit_element(lo, scan.sums, i32_const(lo, r), expr_index(lo->arena, scan.elements, i32_const(lo, r)));
    }
    order_modes(scan.layout, axis, order, &n);
    for (int i = 0; i < n; i++) {
        const LayoutMode *const mode = &scan.layout->mode[order[i]];
        if (mode->input == IN_REGISTER) scan_own(&scan, order[i]);
        else if (mode->input == IN_LANE) scan_over_lanes(&scan, order[i]);
        else if (i == 0 || !is_of_warps(&scan.layout->mode[order[i - 1]])) scan_over_warps(&scan, axis);
    }
    end_nest(lo, &nest);
}
