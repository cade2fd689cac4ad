// SPDX-License-Identifier: MIT
// scan_registers.c - inclusive sums along a dimension of a fragment in registers.
//
// A cumsum is made a copy into a fragment, a scan of that in place, and, where the result is no such fragment, a copy
// of it (expand_scans, before layouts are chosen). A fragment whose layout does not count the dimension through mode by
// mode moves to shared memory (storage.c), where scan.c has one warp for each line.
#include "lower/cuda/cuda.h"

enum { SCAN_REGISTERS_MAX = 64 };

static bool static_widths(const Region *region, int64_t *widths)
{
    const int rank = region_rank(region);
    for (int d = 0; d < rank; d++)
        if (!expr_as_int(region_extent(region, d), &widths[d])) return false;
    return true;
}

// ---- scans in registers

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

// The modes of a dimension, the fastest first. False: they do not count it through one after the other.
static bool order_modes(const Layout *layout, int axis, int *order, int *n)
{
    int reached = 1, next;
    for (*n = 0;; reached *= layout->mode[next].extent) {
        next = -1;
        for (int i = 0; i < layout->n; i++)
            if (layout->mode[i].dim == axis && layout->mode[i].stride == reached) next = i;
        if (next < 0) break;
        order[(*n)++] = next;
    }
    int along = 0;
    for (int i = 0; i < layout->n; i++) along += layout->mode[i].dim == axis;
    return along == *n;
}

static bool is_of_warps(const LayoutMode *mode) { return mode->input == IN_WARP || mode->input == IN_GROUP; }

// Lanes before warps, and warps in one run of modes; lanes of other dimensions would have sums of their own.
static bool layout_scans(const Layout *layout, int axis)
{
    int order[LAYOUT_MAX_MODES], n, runs = 0;
    bool other_lanes = false;
    if (!order_modes(layout, axis, order, &n) || layout_registers(layout) > SCAN_REGISTERS_MAX) return false;
    for (int i = 0; i < layout->n; i++)
        other_lanes |= layout->mode[i].input == IN_LANE && layout->mode[i].dim >= 0 && layout->mode[i].dim != axis;
    for (int i = 0; i < n; i++) {
        const LayoutMode *const mode = &layout->mode[order[i]];
        if (runs > 0 && mode->input == IN_LANE) return false;
        if (is_of_warps(mode) && (i == 0 || !is_of_warps(&layout->mode[order[i - 1]]))) runs++;
    }
    return runs == 0 || (runs == 1 && !other_lanes);
}

bool scans_in_registers(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->scan.dst.buffer);
    return !lo->is_specialised && tile && op->scan.src.buffer == op->scan.dst.buffer &&
           region_is_whole(&op->scan.dst) && region_is_whole(&op->scan.src) &&
           (!tile->has_layout || layout_scans(&tile->layout, op->scan.axis));
}

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
    if (!lo->scratch_buffer) emit_barrier(lo); // earlier readers of the scratch
    Expr *const base = i32_const(lo, lo->scratch_offset);
    Expr *const side = lo->scratch_buffer ? i32_add(lo, base, var_of(lo, lo->scratch_buffer)) : base;
    emit_definition(lo, scratch, shared_pointer(lo, scan->type, side));
    for (int block = 0; block < scan->n; block++)
        if (scan->block[block] == block)
            emit_element(lo, scratch, i32_add(lo, i32_add(lo, rows, i32_const(lo, row++ * along)), warp),
                         sum_of(scan, block));
    emit_barrier(lo);
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

// Bytes of the scratch; 0: no warps meet.
int scan_scratch_bytes(Lowering *lo, const TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->scan.dst.buffer);
    if (!tile || tile->storage != TILE_IN_REGISTERS) return 0;
    int order[LAYOUT_MAX_MODES], n, blocks = layout_registers(&tile->layout),
                                    warps = lo->partition.warps * lo->partition.groups;
    order_modes(&tile->layout, op->scan.axis, order, &n);
    for (int i = 0; i < n; i++) {
        const LayoutMode *const mode = &tile->layout.mode[order[i]];
        if (is_of_warps(mode)) return blocks * warps * dtype_bits(loop_type(tile->buffer->type)) / 8;
        if (mode->input == IN_REGISTER) blocks /= mode->extent;
    }
    return 0;
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

void emit_register_scan(Lowering *lo, TileOp *op)
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

// ---- before anything is decided: a copy into a fragment, its scan in place, and a copy to where the sums belong

static TileOp *new_copy(Lowering *lo, const TileOp *op, const Region *dst, const Region *src)
{
    TileOp *const copy = NEW(lo->arena, TileOp, .kind = T_COPY, .span = op->span, .stage = op->stage);
    copy->copy.dst = *dst;
    copy->copy.src = *src;
    return copy;
}

static DType scanned_type(DType type) { return dtype_info[type].wide; }

// A fragment that many threads hold little of; otherwise the lines of a shared tile are scanned where they are.
static bool has_fragment(Lowering *lo, const TileOp *op)
{
    int64_t widths[MAX_RANK], n = 1;
    const int rank = region_rank(&op->scan.src);
    if (!static_widths(&op->scan.src, widths) || op->groups || rank > LAYOUT_MAX_RANK) return false;
    for (int d = 0; d < rank; d++) n *= widths[d];
    return n > 0 && n <= SCAN_REGISTERS_MAX * (int64_t)consumer_threads(lo);
}

static Buffer *new_fragment(Lowering *lo, const TileOp *op)
{
    const Region *const src = &op->scan.src;
    const int rank = region_rank(src);
    Buffer *const tile =
        tile_new_buffer(lo->kernel, BUFFER_FRAGMENT, scanned_type(op->scan.dst.buffer->type), "sums", rank, op->span);
    for (int d = 0; d < rank; d++) tile->shape[d] = region_extent(src, d);
    return tile;
}

static TileOp *expand_scan(Lowering *lo, TileOp *op)
{
    Buffer *const dst = op->scan.dst.buffer;
    const bool own =
        dst->kind != BUFFER_FRAGMENT || dst->type != scanned_type(dst->type) || !region_is_whole(&op->scan.dst);
    Buffer *const tile = own ? new_fragment(lo, op) : dst;
    const Region sums = region_whole(lo->arena, tile, op->span);
    TileOp *const scan = NEW(lo->arena, TileOp, .kind = T_SCAN, .span = op->span, .stage = op->stage);
    scan->scan.dst = scan->scan.src = sums;
    scan->scan.axis = op->scan.axis;
    TileOp *first = scan;
    if (op->scan.src.buffer != tile || !region_is_whole(&op->scan.src)) {
        first = new_copy(lo, op, &sums, &op->scan.src);
        first->next = scan;
    }
    if (!own) return first;
    TileOp *const declaration =
        NEW(lo->arena, TileOp, .kind = T_TILE, .span = op->span, .stage = op->stage, .next = first);
    declaration->tile.buffer = tile;
    scan->next = new_copy(lo, op, &op->scan.dst, &sums);
    return declaration;
}

void expand_scans(Lowering *lo, TileOp **link)
{
    for (TileOp *op; (op = *link) != NULL; link = &(*link)->next) {
        TileOp **body;
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++) expand_scans(lo, body);
        if (op->kind != T_SCAN || lo->is_specialised || !has_fragment(lo, op)) continue;
        TileOp *const rest = op->next;
        *link = expand_scan(lo, op);
        while ((*link)->next) link = &(*link)->next;
        (*link)->next = rest;
    }
}
