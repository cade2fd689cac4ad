// SPDX-License-Identifier: MIT
// scan.c - inclusive sums along a dimension: in registers, or in shared memory.
//
// A cumsum is made a copy into a fragment, a scan of that in place, and, where the result is no such fragment, a copy
// of it (expand_scans, before layouts are chosen). A fragment whose layout does not count the dimension through mode by
// mode moves to shared memory (storage.c), which has one warp for each line.
//
// before: layouts are chosen    after: a scan is an action; the barriers between its warps are parts of it
#include "lower/gpu/decide/layout/scan.h"
#include "lower/gpu/facts/scans.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/values.h"

// ---- scans in registers

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

static bool crosses_warps(const Layout *layout, int axis)
{
    int order[LAYOUT_MAX_MODES], n;
    order_modes(layout, axis, order, &n);
    for (int i = 0; i < n; i++)
        if (is_of_warps(&layout->mode[order[i]])) return true;
    return false;
}

void act_scan(Lowering *lo, TileOp *op)
{
    const TileInfo *const tile = tile_info(lo, op->scan.dst.buffer);
    const bool in_registers = tile && tile->storage == TILE_IN_REGISTERS;
    int64_t widths[MAX_RANK];
    if (!in_registers && !static_widths(&op->scan.src, widths)) {
        unsupported(lo, op->span, "a scan whose extents are known at run time");
        return;
    }
    ScanPlan *const plan = NEW(lo->arena, ScanPlan, .op = op, .in_registers = in_registers);
    plan->partition = lo->is_specialised && !op->groups ? lo->all : lo->partition;
    record_accesses(lo, open_action(lo, (Action){ .kind = ACTION_SCAN, .op = op, .print = plan }), op);
    if (in_registers && crosses_warps(&tile->layout, op->scan.axis)) {
        if (lo->scratch_buffers <= 1) act_sync(lo); // earlier readers of the scratch
        act_sync(lo);
    }
    close_action(lo);
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
