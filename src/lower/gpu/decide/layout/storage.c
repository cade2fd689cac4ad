// SPDX-License-Identifier: MIT
// storage.c - storage assignment: every tile in registers with a layout, or in shared memory.
//
// Products fix the layouts of their accumulators and register operands (products.c). From there layouts spread
// through the foralls: all fragments that one forall subscripts by plain indices must be projections of one
// iteration layout; whole copies between fragments come last, and convert if both have layouts then
// (convert_layout.c); a forall that reads two products' results of different layouts reads a converted copy of one
// (convert_reads.c). What remains gets a blocked layout of wide pieces, and spreads in turn. A fragment that cannot
// follow (other subscripts, two layouts at once, a row that would take a register per column), or that others cannot
// (results along an index it does not have), lives in shared memory instead, where every access works; explain says
// which and why.
//
// before: the partition and the groups of placed statements are known
// after:  every tile has its storage and every fragment in registers a layout; every product a kind (products.c)
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/decide/layout/scan.h"
#include "lower/gpu/decide/layout/warp_roles.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"

enum { ROW_REGISTERS_MAX = 16, ONE_ROW_REGISTERS_MAX = 64 }; // of a fragment that lies along another's columns

static void demote(Lowering *lo, TileInfo *tile, const char *why)
{
    if (tile->storage == TILE_IN_SHARED) return;
    tile->storage = TILE_IN_SHARED;
    tile->why = why;
    tile->has_layout = false;
}

// ---- fragments that never fit registers

typedef struct Scan {
    Lowering *lo;
    TileOp *op;
} Scan;

static void scalar_use(const TileUse *use, void *context)
{
    Scan *const scan = context;
    TileInfo *const tile = tile_info(scan->lo, buffer_root(use->buffer));
    if (tile && tile->storage == TILE_IN_REGISTERS) demote(scan->lo, tile, "single elements are used outside forall");
}

static void awkward_use(const TileUse *use, void *context)
{
    Scan *const scan = context;
    TileInfo *const tile = tile_info(scan->lo, buffer_root(use->buffer));
    if (!tile || tile->storage != TILE_IN_REGISTERS) return;
    if (use->buffer->kind == BUFFER_VIEW) demote(scan->lo, tile, "it is viewed in another shape");
    else if (use->atomic) demote(scan->lo, tile, "atomics work on it");
    else if (scan->op->kind == T_SCAN && !scans_in_registers(scan->lo, scan->op))
        demote(scan->lo, tile, "a scan reads or writes a part of it");
}

static bool scan_op(Lowering *lo, TileOp *op, void *context)
{
    Scan scan = { lo, op };
    tile_uses(op, awkward_use, &scan);
    if (op->kind == T_MATMUL || op->kind == T_SCAN || op->kind == T_TILE) return false;
    if (!is_map(op)) {
        tile_uses(op, scalar_use, &scan);
        return false;
    }
    MapUses uses = { 0 };
    map_uses(lo, as_map(lo, op), &uses);
    for (int i = 0; i < uses.count; i++) {
        scan.op = uses.items[i].op;
        awkward_use(&uses.items[i].use, &scan);
    }
    return true;
}

// ---- spreading layouts

typedef struct Spread {
    bool changed, copies; // copies: between fragments, too; they follow what other statements need
} Spread;

static void product_falls_back(Lowering *lo, const TileInfo *tile, const TileOp *map, const char *why);

// Two fragments of one forall want different layouts: the one that no product fixed is converted, or moves out. If products
// fixed both, one is converted; where that cannot be, a product becomes a loop.
static void conflict(Lowering *lo, TileInfo *tile, TileOp *map, MapUses *uses, const char *why, bool can_convert)
{
    if (!tile->is_accumulator) {
        demote(lo, tile, why);
        return;
    }
    for (int i = 0; i < uses->count; i++) {
        TileInfo *const other = tile_info(lo, uses->items[i].use.buffer);
        if (other && other->storage == TILE_IN_REGISTERS && !other->is_accumulator && other->has_layout) {
            if (can_convert && convert_fragment(lo, map, other, &tile->layout)) *table_at(lo->kept_uses, map) = NULL;
            else demote(lo, other, why);
            return;
        }
    }
    if (can_convert && convert_read(lo, map, uses, tile)) *table_at(lo->kept_uses, map) = NULL;
    else product_falls_back(lo, tile, map, why);
}

// Bits of the narrowest elements that foralls with this tile move from and to tensors: they decide the pieces' width.
typedef struct Narrowest {
    const TileInfo *tile;
    int bits;
} Narrowest;

static bool see_narrowest(Lowering *lo, TileOp *op, void *context)
{
    Narrowest *const narrowest = context;
    if (!is_map(op)) return false;
    MapUses uses = { 0 };
    map_uses(lo, as_map(lo, op), &uses);
    bool here = false;
    for (int i = 0; i < uses.count; i++) here |= uses.items[i].use.buffer == narrowest->tile->buffer;
    for (int i = 0; i < uses.count && here; i++) {
        const Buffer *const root = buffer_root(uses.items[i].use.buffer);
        if (root->kind == BUFFER_TENSOR && dtype_bits(root->type) >= 8 && dtype_bits(root->type) < narrowest->bits)
            narrowest->bits = dtype_bits(root->type);
    }
    return true;
}

static int narrowest_bits(Lowering *lo, const TileInfo *tile)
{
    Narrowest narrowest = { tile, dtype_bits(tile->buffer->type) < 8 ? 8 : dtype_bits(tile->buffer->type) };
    each_op(lo, lo->kernel->body, see_narrowest, &narrowest);
    return narrowest.bits;
}

// The last dimension of the tile that the iterations' layout lacks, if it has `it->layout.rank` others of it, each once: their
// places in the tile go to `to`. -1: it lacks none, or has another.
static int last_missing(const TileInfo *tile, const Iteration *it, const int *which, const int *extents, int *to)
{
    int missing = -1, found = 0;
    for (int d = 0; d < tile->buffer->rank; d++) {
        const int dim = it->dim_of[which[d]];
        int64_t extent;
        if (dim < 0 && (!full_extent(&it->indices[which[d]], &extent) || extent != extents[d])) return -1;
        if (dim < 0) missing = d;
        else if (extents[d] != it->layout.extent[dim]) return -1;
        else to[dim] = d, found++;
    }
    return found == it->layout.rank ? missing : -1;
}

// A fragment of rows and columns beside one of rows alone, or of more dimensions beside one of fewer: the threads that hold the
// same row divide its columns, the last dimension that the other lacks, and hold all of the others.
static bool widen_rows(Lowering *lo, const TileInfo *tile, const Iteration *it, const int *which, Layout *layout)
{
    const int rank = tile->buffer->rank;
    int to[LAYOUT_MAX_RANK] = { 0 }, extents[LAYOUT_MAX_RANK] = { 0 }, done = 1;
    for (int d = 0; d < rank; d++) {
        int64_t extent;
        if (!expr_as_int(tile->buffer->shape[d], &extent)) return false;
        extents[d] = (int)extent;
    }
    const int column = last_missing(tile, it, which, extents, to);
    if (column < 0) return false;
    const int columns = extents[column];
    *layout = layout_new(rank, extents);
    int same = 1; // threads that hold the same row
    for (int i = 0; i < it->layout.n; i++) same *= it->layout.mode[i].dim == REPLICATED ? it->layout.mode[i].extent : 1;
    for (int v = 128 / narrowest_bits(lo, tile); column == rank - 1 && v > 1 && done == 1; v /= 2)
        if (columns % (v * same) == 0) done = v;
    layout_add(layout, IN_REGISTER, done, column, 1);
    for (int i = 0; i < it->layout.n; i++) {
        const LayoutMode *const mode = &it->layout.mode[i];
        const bool divides = mode->dim == REPLICATED && columns % (done * mode->extent) == 0;
        layout_add(layout, mode->input, mode->extent,
                   divides                   ? column
                   : mode->dim == REPLICATED ? REPLICATED
                                             : to[mode->dim],
                   divides ? done : mode->stride);
        if (divides) done *= mode->extent;
    }
    layout_add(layout, IN_REGISTER, columns / done, column, done);
    for (int d = 0; d < column; d++)
        if (it->dim_of[which[d]] < 0) layout_add(layout, IN_REGISTER, extents[d], d, 1);
    return layout_registers(layout) <= 128;
}

// "in line 7 it is ..."
static const char *in_line(Lowering *lo, const TileOp *map, const char *what)
{
    return arena_printf(lo->arena, "in line %s %s", line_of(lo, map), what);
}

static const char *want_different(Lowering *lo, const TileOp *map, const TileInfo *tile)
{
    const TileOp *const other = tile->laid_by ? tile->laid_by : map;
    const char *const line = line_of(lo, map), *const line_of_other = line_of(lo, other);
    const bool first = map->span.source == other->span.source && map->span.begin < other->span.begin;
    return strcmp(line, line_of_other) == 0 ? in_line(lo, map, "two fragments want different layouts")
                                            : arena_printf(lo->arena, "lines %s and %s want different layouts",
                                                           first ? line : line_of_other, first ? line_of_other : line);
}

// Whether the tile, seen with a dimension for each of its indices, lies as the iterations do.
static bool follows(const TileInfo *tile, const Subscripts *subs, const Layout *iteration, const int *dims)
{
    Layout parts;
    if (!subs->is_split || !split_layout(tile, subs, &parts)) return false;
    Layout layout = layout_project(iteration, subs->n, dims);
    memcpy(layout.extent, parts.extent, sizeof layout.extent);
    return layout_equal(&parts, &layout);
}

static void spread_to(Lowering *lo, TileOp *map, MapUses *uses, int which_use, const Iteration *it, Spread *spread)
{
    const TileUse *const use = &uses->items[which_use].use;
    TileInfo *const tile = tile_info(lo, use->buffer);
    if (!tile || tile->storage != TILE_IN_REGISTERS) return;
    Subscripts subs;
    int dims[LAYOUT_MAX_RANK];
    bool fits = use->subs && match_subscripts(lo, use->subs, use->buffer->rank, it->indices, it->n, &subs);
    for (int i = 0; fits && i < subs.n; i++) {
        dims[i] = it->dim_of[subs.index[i]];
        fits = dims[i] >= 0;
    }
    if (!fits) {
        spread->changed = true;
        conflict(lo, tile, map, uses,
                 in_line(lo, map, "its subscripts are not the indices that the forall is divided by"), false);
        return;
    }
    Layout layout = subs.is_split ? layout_merge(&it->layout, use->buffer->rank, subs.dims, dims)
                                  : layout_project(&it->layout, use->buffer->rank, dims);
    for (int d = 0; d < layout.rank; d++) {
        int64_t extent = 0;
        expr_as_int(tile->buffer->shape[d], &extent);
        layout.extent[d] = (int)extent;
        if (layout_coverage(&layout, d) < extent) {
            spread->changed = true;
            conflict(lo, tile, map, uses, in_line(lo, map, "it is larger than the fragment it is used with"), false);
            return;
        }
    }
    if (tile->has_layout) {
        if (!layout_equal(&tile->layout, &layout) && !follows(tile, &subs, &it->layout, dims)) {
            spread->changed = true;
            if (convert_fragment(lo, map, tile, &layout)) *table_at(lo->kept_uses, map) = NULL;
            else conflict(lo, tile, map, uses, want_different(lo, map, tile), true);
        }
        return;
    }
    spread->changed = true;
    // Where threads hold several rows it would take a register per column; with one row it takes what that one does.
    const int registers = layout_registers(&layout);
    if (layout.rank < it->layout.rank && registers > ROW_REGISTERS_MAX &&
        (registers > ONE_ROW_REGISTERS_MAX || registers < layout_registers(&it->layout))) {
        demote(lo, tile, in_line(lo, map, "it runs along another fragment's columns"));
        return;
    }
    tile->layout = layout;
    tile->has_layout = true;
    tile->laid_by = map;
}

// Rows and columns first: what runs along the columns alone can follow them.
static bool spread_to_rows(Lowering *lo, const TileOp *map, const MapUses *uses, const Iteration *it)
{
    for (int i = 0; i < uses->count; i++) {
        const TileUse *const use = &uses->items[i].use;
        TileInfo *const tile = tile_info(lo, use->buffer);
        int which[MAX_RANK];
        if (tile && tile->storage == TILE_IN_REGISTERS && !tile->has_layout && use->subs && use->buffer->rank >= 2 &&
            subscripts_are_indices(use->subs, use->buffer->rank, it->indices, it->n, which) &&
            widen_rows(lo, tile, it, which, &tile->layout)) {
            tile->has_layout = true;
            tile->laid_by = map;
            return true;
        }
    }
    return false;
}

static void spread_map(Lowering *lo, TileOp *map, Spread *spread)
{
    MapUses uses = { 0 };
    map_uses(lo, map, &uses);
    bool any = false, led = false;
    for (int i = 0; i < uses.count; i++) {
        const TileInfo *const tile = tile_info(lo, uses.items[i].use.buffer);
        if (tile && tile->storage == TILE_IN_REGISTERS) {
            any = true;
            led = led || tile->has_layout;
        }
    }
    if (!any || !led) return;
    Iteration it;
    choose_iteration(lo, map, &it);
    spread->changed = spread_to_rows(lo, map, &uses, &it);
    for (int i = 0; i < uses.count && !spread->changed; i++) spread_to(lo, map, &uses, i, &it, spread);
}

// Whether every register holds the same element, however the modes are written.
static bool is_same_layout(const Lowering *lo, const Layout *a, const Layout *b)
{
    const ConversionTarget target = { .partition = lo->partition, .element_bits = 16, .in_registers = true };
    Conversion how;
    return layout_equal(a, b) || (!layout_convert(a, b, &target, &how) && how.kind == CONVERT_SAME);
}

// The left operand of a product in registers.
static void lay_operand(Lowering *lo, TileOp *op, Spread *spread)
{
    const Product *const p = op_info(lo, op)->product;
    TileInfo *const a = tile_info(lo, p->left.region.buffer);
    const Layout layout = dtype_bits(p->type) == 8 ? layout_left_bytes(p->m, p->k, lo->partition)
                                                   : layout_accumulator(p->m, p->k, lo->partition, p->division);
    if (a->storage == TILE_IN_REGISTERS && !a->has_layout) {
        a->layout = layout;
        a->has_layout = spread->changed = true;
        a->laid_by = op;
    } else if (a->storage == TILE_IN_REGISTERS && !is_same_layout(lo, &a->layout, &layout)) {
        spread->changed = true;
        demote(lo, a, want_different(lo, op, a));
    }
}

// Before layouts spread: one that came from rows alone would be another.
static bool lay_operands(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_MATMUL || op_info(lo, op)->product->kind == PRODUCT_LOOP) return false;
    if (op_info(lo, op)->product->a_in_registers) lay_operand(lo, op, context);
    return false;
}

static bool spread_op(Lowering *lo, TileOp *op, void *context)
{
    Spread *const spread = context;
    if (spread->changed) return true;
    if (is_map(op)) {
        if (copies_fragment(lo, op) && (!spread->copies || plan_conversion(lo, op, NULL))) return true;
        spread_map(lo, as_map(lo, op), spread);
        return true;
    }
    const OpInfo *const info = op_info(lo, op);
    if (op->kind == T_MATMUL && info->product->kind == PRODUCT_LOOP) {
        for (TileOp *part = product_as_loops(lo, op); part; part = part->next)
            if (!spread->changed) spread_map(lo, as_map(lo, part), spread);
        return true;
    }
    if (op->kind == T_MATMUL && info->product->a_in_registers) lay_operand(lo, op, spread);
    return false;
}

// ---- starting anew after a fragment moved out

// An error where the source asks for the layout that cannot be kept.
static void product_falls_back(Lowering *lo, const TileInfo *tile, const TileOp *map, const char *why)
{
    const Buffer *const b = tile->buffer;
    if (b->hint != HINT_NONE && !lo->failed) {
        lo->failed = true;
        diag_error(lo->diags, map->span, "the layout of '%s' cannot be kept: %s", b->name, why);
        diag_note(lo->diags, b->hint_span, "it is given here");
    }
    for (int i = 0; i < lo->infos_capacity; i++) {
        Product *const product = lo->infos[i] ? lo->infos[i]->product : NULL;
        if (product && product->op->matmul.dst.buffer == tile->buffer)
            product->why_loop = why, product->kind = PRODUCT_LOOP, product->fell_back = true;
    }
}

static int count_shared(const Lowering *lo)
{
    int n = 0;
    for (int i = 0; i < lo->kernel->n_buffers; i++) n += lo->tiles[i] && lo->tiles[i]->storage == TILE_IN_SHARED;
    return n;
}

static int count_loops(const Lowering *lo)
{
    int n = 0;
    for (int i = 0; i < lo->infos_capacity; i++)
        n += lo->infos[i] && lo->infos[i]->product && lo->infos[i]->product->why_loop;
    return n;
}

static void forget_layouts(Lowering *lo)
{
    for (int i = 0; i < lo->kernel->n_buffers; i++)
        if (lo->tiles[i]) lo->tiles[i]->has_layout = lo->tiles[i]->is_accumulator = false;
}

static TileInfo *largest_without_layout(const Lowering *lo, int *elements)
{
    TileInfo *best = NULL;
    for (int i = 0; i < lo->kernel->n_buffers; i++) {
        TileInfo *const tile = lo->tiles[i];
        if (!tile || !tile->declared || tile->storage != TILE_IN_REGISTERS || tile->has_layout) continue;
        int64_t n = 1, extent;
        for (int d = 0; d < tile->buffer->rank; d++) n *= expr_as_int(tile->buffer->shape[d], &extent) ? extent : 1;
        if (!best || n > *elements) {
            best = tile;
            *elements = (int)n;
        }
    }
    return best;
}

static void assign_blocked(Lowering *lo, TileInfo *tile, int elements)
{
    const Buffer *const buffer = tile->buffer;
    if (buffer->rank == 0 || elements > 128 * consumer_threads(lo)) {
        demote(lo, tile, buffer->rank ? "it is larger than the registers" : "it is a single element");
        return;
    }
    int extents[MAX_RANK];
    for (int d = 0; d < buffer->rank; d++) {
        int64_t extent = 1;
        expr_as_int(buffer->shape[d], &extent);
        extents[d] = (int)extent;
    }
    tile->layout = layout_blocked(buffer->rank, extents, lo->partition, 128 / narrowest_bits(lo, tile));
    tile->has_layout = true;
    tile->laid_by = NULL;
}

// ---- 16-bit fragments that are only packed and multiplied

typedef struct Packing {
    TileInfo *tile;
    bool other;
} Packing;

static bool seek_tile(const TileUse *use, const TileInfo *tile) { return buffer_root(use->buffer) == tile->buffer; }

typedef struct SeekUse {
    const TileInfo *tile;
    bool found;
} SeekUse;

static void seek_use(const TileUse *use, void *context)
{
    SeekUse *const seek = context;
    seek->found |= seek_tile(use, seek->tile);
}

static bool packing_op(Lowering *lo, TileOp *op, void *context)
{
    Packing *const packing = context;
    if (is_map(op)) {
        MapUses uses = { 0 };
        TileOp *const map = as_map(lo, op);
        map_uses(lo, map, &uses);
        bool uses_tile = false;
        for (int i = 0; i < uses.count; i++) uses_tile |= seek_tile(&uses.items[i].use, packing->tile);
        TileInfo *to, *from;
        if (uses_tile && !(is_packed_conversion(lo, map, &to, &from) && to == packing->tile) &&
            !copy_is_transfer(lo, op))
            packing->other = true;
        return true;
    }
    SeekUse seek = { packing->tile, false };
    if (op->kind != T_TILE) tile_uses(op, seek_use, &seek);
    if (seek.found)
        packing->other |= !(op->kind == T_MATMUL && op_info(lo, op)->product->a_in_registers &&
                            op_info(lo, op)->product->kind != PRODUCT_LOOP &&
                            op_info(lo, op)->product->left.region.buffer == packing->tile->buffer);
    return false;
}

static void choose_packed(Lowering *lo)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->storage != TILE_IN_REGISTERS || (tile->buffer->type != DTYPE_BF16 && tile->buffer->type != DTYPE_F16))
            continue;
        Packing packing = { tile, false };
        each_op(lo, lo->kernel->body, packing_op, &packing);
        tile->is_packed = !packing.other;
    }
}

// The first fragment of the forall gives up its place in registers.
static bool release_one(Lowering *lo, TileOp *op, MapUses *uses, const char *why)
{
    for (int i = 0; i < uses->count; i++) {
        TileInfo *const tile = tile_info(lo, uses->items[i].use.buffer);
        if (tile && tile->storage == TILE_IN_REGISTERS) {
            conflict(lo, tile, op, uses, in_line(lo, op, why), false);
            return true;
        }
    }
    return false;
}

static bool see_forall(Lowering *lo, TileOp *op, Iteration *it, MapUses *uses)
{
    if (op->kind != T_FORALL) return false;
    choose_iteration(lo, op, it);
    map_uses(lo, op, uses);
    return true;
}

// A fragment leads a forall whose result runs along an index that it does not have: each thread would loop over that
// index, and hold no element of the result. Without its layout the index is divided like the others.
static bool release_result(Lowering *lo, TileOp *op, void *context)
{
    Iteration it;
    MapUses uses = { 0 };
    bool is_looped = false;
    if (!see_forall(lo, op, &it, &uses)) return false;
    for (int i = 0; i < uses.count; i++)
        is_looped |= uses.items[i].op->kind == T_UPDATE && result_is_looped(uses.items[i].op, &it);
    return is_looped && release_one(lo, op, &uses, "a result runs along an index that it does not have");
}

// A fragment that several threads hold leads a forall that changes what they all read.
static bool release_replicas(Lowering *lo, TileOp *op, void *context)
{
    Iteration it;
    MapUses uses = { 0 };
    return see_forall(lo, op, &it, &uses) && !it.is_linear && replicas_would_race(lo, op, &uses, &it.layout) &&
           release_one(lo, op, &uses, "threads that hold the same of it read what one of them changes");
}

// A fragment is scanned whose layout has no order along the dimension.
static bool release_scan(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_SCAN || scans_in_registers(lo, op)) return false;
    TileInfo *const tile = tile_info(lo, buffer_root(op->scan.dst.buffer));
    if (tile && tile->storage == TILE_IN_REGISTERS)
        demote(lo, tile, in_line(lo, op, "the scan does not run along its registers, lanes and warps in this order"));
    return false;
}

static void finish_storage(Lowering *lo)
{
    each_op(lo, lo->kernel->body, scan_op, NULL);
    assign_fragment_groups(lo);
    for (;;) {
        finish_warp_roles(lo);
        forget_layouts(lo);
        const int shared = count_shared(lo);
        choose_products(lo);
        if (shared != count_shared(lo)) // an operand moved out that may be another product's result
            continue;
        const int loops = count_loops(lo);
        for (TileInfo *tile;;) {
            Spread spread = { true, false };
            each_op(lo, lo->kernel->body, lay_operands, &spread);
            while (spread.changed && shared == count_shared(lo) && loops == count_loops(lo)) {
                spread = (Spread){ false, false };
                each_op(lo, lo->kernel->body, spread_op, &spread);
                spread.copies = true;
                if (!spread.changed) each_op(lo, lo->kernel->body, spread_op, &spread);
            }
            int elements = 0;
            if (shared != count_shared(lo) || loops != count_loops(lo) ||
                !(tile = largest_without_layout(lo, &elements)))
                break;
            assign_blocked(lo, tile, elements);
        }
        if (shared == count_shared(lo) && loops == count_loops(lo)) each_op(lo, lo->kernel->body, release_result, NULL);
        if (shared == count_shared(lo) && loops == count_loops(lo))
            each_op(lo, lo->kernel->body, release_replicas, NULL);
        if (shared == count_shared(lo) && loops == count_loops(lo)) each_op(lo, lo->kernel->body, release_scan, NULL);
        if (shared == count_shared(lo) && loops == count_loops(lo)) return;
    }
}

void assign_storage(Lowering *lo)
{
    Table kept = { .arena = lo->arena };
    take_layout_hints(lo);
    lo->kept_uses = &kept; // layouts spread round by round over foralls that stay as they are
    finish_storage(lo);
    lo->kept_uses = NULL;
    if (!lo->kernel->checked) choose_packed(lo);
}
