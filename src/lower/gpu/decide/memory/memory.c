// SPDX-License-Identifier: MIT
// memory.c - shared memory of a CTA: tiles and their rings, staging, scratch, barriers.
//
// before: storage, rings, and the copies that run ahead are known
// after:  all have offsets, and rings as many buffers as fit; or the kernel is refused, with a note for each tile
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/checked.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/facts/reduce.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/memory/memory.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/decide/layout/scan.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/decide/pipeline/multistage.h"

enum { LOOP_BUFFERS = 3 };

int shared_bytes_max(const Lowering *lo) { return lo->gpu->shared_bytes_max; }

static int align_up(int x, int to) { return (x + to - 1) / to * to; }

// The layout of a tile that no product reads: row by row.
static bool lay_out(Lowering *lo, TileInfo *tile)
{
    const Buffer *const buffer = tile->buffer;
    if (tile->wants_panels) return true;
    int64_t rows = 1, columns = 1;
    for (int d = 0; d < buffer->rank; d++) {
        int64_t extent;
        if (!expr_as_int(buffer->shape[d], &extent))
            return unsupported(lo, buffer->span, "tile '%s' with an extent known at run time", buffer->name);
        if (d == buffer->rank - 1) columns = extent;
        else rows *= extent;
    }
    const int bits = dtype_bits(buffer->type); // tiles of packed types have a byte for each element
    tile->shared = shared_padded((int)rows, (int)columns, row_padding(buffer), bits < 8 ? 1 : bits / 8);
    return true;
}

bool lay_out_shared_tiles(Lowering *lo)
{
    for (int i = 0; i < lo->n_declared; i++)
        if (lo->declared.items[i]->storage == TILE_IN_SHARED && !lay_out(lo, lo->declared.items[i])) return false;
    return true;
}

static bool measure_stores(Lowering *lo, TileOp *op, void *context)
{
    if (!is_map(op)) return false;
    if (store_is_staged(lo, op)) {
        const int bytes = staged_store_bytes(lo, op);
        lo->n_staged++;
        lo->n_transposed += store_is_transposed(lo, op);
        if (bytes > lo->staging_bytes) lo->staging_bytes = bytes;
    }
    return true;
}

static void measure_staging(Lowering *lo)
{
    lo->staging_bytes = lo->n_staged = lo->n_transposed = 0;
    each_op(lo, lo->kernel->body, measure_stores, NULL);
}

static bool measure_op(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_MATMUL && op_info(lo, op)->product->kind == PRODUCT_LOOP) {
        for (TileOp *part = product_as_loops(lo, op); part; part = part->next)
            measure_op(lo, as_map(lo, part), context);
        return true;
    }
    if (is_split_k(lo, op)) {
        const int bytes = split_k_bytes(lo, tile_info(lo, op->matmul.dst.buffer));
        lo->has_one_scratch = true;
        if (bytes > lo->scratch_bytes) lo->scratch_bytes = bytes;
    }
    if (op->kind == T_SCAN && scan_scratch_bytes(lo, op) > lo->scratch_bytes)
        lo->scratch_bytes = scan_scratch_bytes(lo, op);
    if (!is_map(op)) return false;
    measure_stores(lo, op, NULL);
    if (op_info(lo, op)->fetched) return true;
    TileOp *const map = as_map(lo, op);
    Iteration it;
    choose_iteration(lo, map, &it);
    find_reductions(lo, map, &it);
    for (int i = 0; i < it.n_reductions; i++) {
        const int bytes = it.is_linear && it.reductions[i].kept ? 0 : reduction_scratch_bytes(&it, i);
        if (bytes > lo->scratch_bytes) lo->scratch_bytes = bytes;
    }
    return true;
}

static bool measure_conversion(Lowering *lo, TileOp *op, void *context)
{
    int *const most = context;
    const int bytes = is_map(op) ? conversion_scratch_bytes(lo, op) : 0;
    if (bytes > *most) *most = bytes;
    return is_map(op);
}

static int conversion_bytes(Lowering *lo)
{
    int most = 0;
    each_op(lo, lo->kernel->body, measure_conversion, &most);
    return most;
}

// Conversions go part of the rows by part: fewer bytes, and more barriers. others: bytes that the rest needs.
static bool split_conversions(Lowering *lo, int others)
{
    const int before = lo->scratch_is_swizzled ? conversion_bytes(lo) : 0;
    lo->conversion_most = before / 2;
    const int after = before > others ? conversion_bytes(lo) : before;
    if (after >= before) return false;
    lo->scratch_bytes = after > others ? after : others;
    note(lo, "conversions between layouts go by parts of %d bytes", after);
    return true;
}

static bool refuse(Lowering *lo)
{
    const Span span = lo->kernel->body ? lo->kernel->body->span : (Span){ 0 };
    diag_error(lo->diags, span, "%s needs %d bytes of shared memory; a CTA has %d", lo->kernel->key, lo->shared_bytes,
               shared_bytes_max(lo));
    const TileInfo *largest = NULL;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->storage != TILE_IN_SHARED) continue;
        diag_note(lo->diags, tile->buffer->span, "'%s': %d x %d bytes", tile->buffer->name, tile->buffers,
                  tile->shared.bytes);
        if (!largest || tile->shared.bytes > largest->shared.bytes) largest = tile;
    }
    if (lo->staging_bytes)
        diag_note(lo->diags, span, "staging of stores: %d bytes; between warps: %d bytes", lo->staging_bytes,
                  lo->scratch_bytes);
    if (largest)
        diag_help(lo->diags, largest->buffer->span, "'%s' must have fewer rows or columns", largest->buffer->name);
    return false;
}

// After so many bytes more; what no CTA has is not counted on.
static int end_after(int at, int64_t bytes)
{
    enum { NEVER = 1 << 30 };
    return at + bytes < NEVER ? (int)(at + bytes) : NEVER;
}

static int place_all(Lowering *lo)
{
    int at = 0;
    for (int swizzled = 1; swizzled >= 0; swizzled--)
        for (int i = 0; i < lo->n_declared; i++) {
            TileInfo *const tile = lo->declared.items[i];
            if (tile->storage != TILE_IN_SHARED || (tile->shared.swizzle_bytes > 0) != swizzled) continue;
            tile->shared.bytes = align_up(tile->shared.bytes, swizzled ? SHARED_ALIGN : 128);
            tile->buffers = tile->ring                                     ? tile->ring->ring_state->buffers
                            : tile->multistage                             ? tile->multistage->buffers
                            : tile->is_double_buffered || tile->alternates ? 2
                                                                           : 1;
            tile->offset = at;
            at = end_after(at, (int64_t)tile->shared.bytes * tile->buffers);
        }
    for (int i = 0; i < lo->n_declared; i++) {
        lo->declared.items[i]->shadow_offset = at;
        at = end_after(at, shadow_bytes(lo, lo->declared.items[i]));
    }
    lo->staging_offset = at = align_up(at, lo->staging_bytes && !lo->staged_over ? SHARED_ALIGN : 16);
    if (lo->staged_over) lo->staging_offset = lo->first_under->offset;
    else at += lo->staging_bytes;
    if (lo->scratch_is_swizzled) at = align_up(at, 128);
    lo->scratch_offset = at;
    at = align_up(at + lo->scratch_bytes * (lo->is_specialised ? lo->all.groups : lo->scratch_buffers), 16);
    lo->barrier_offset = at;
    for (int i = 0; i < lo->rings.count; i++) {
        Ring *const ring = lo->rings.items[i];
        ring->full = at;
        ring->empty = at + MBARRIER_BYTES * ring->ring_state->buffers;
        at += 2 * MBARRIER_BYTES * ring->ring_state->buffers;
    }
    return lo->shared_bytes = at;
}

static bool is_atomic_tile(Lowering *lo, TileOp *op) { return op->kind == T_ATOMIC_TILE; }

// A ring of one buffer waits for memory in every step: worse than one tile's stores without staging.
static bool would_end_rings(Lowering *lo)
{
    int deepest = 1;
    for (int i = 0; i < lo->ring_states.count; i++)
        if (lo->ring_states.items[i]->buffers > deepest) deepest = lo->ring_states.items[i]->buffers;
    // Sums of tiles go element by element without staging.
    const bool adds = block_has(lo, lo->kernel->body, is_atomic_tile);
    return deepest == 2 && !adds && lo->shared_bytes - lo->staging_bytes <= shared_bytes_max(lo);
}

static bool count_staged(Lowering *lo, TileOp *op, void *context)
{
    *(int *)context += is_map(op) && store_is_staged(lo, op);
    return is_map(op);
}

// The pipeline in whose steps the threads themselves make this tile, if nothing is staged meanwhile.
static TileOp *lends_itself(Lowering *lo, const TileInfo *tile)
{
    TileOp *const pipeline = op_info(lo, tile->declared)->parent;
    if (tile->storage != TILE_IN_SHARED || tile->ring || tile->multistage || tile->is_double_buffered ||
        tile->shared.swizzle_bytes == 0 || !pipeline || pipeline->kind != T_PIPELINE)
        return NULL;
    return block_has(lo, pipeline->pipeline.body, store_is_staged) ? NULL : pipeline;
}

typedef struct Seen {
    const Buffer *root;
    bool any;
} Seen;

static void see_tile(const TileUse *use, void *context)
{
    Seen *const seen = context;
    seen->any |= buffer_root(use->buffer) == seen->root;
}

static bool finds_tile(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    tile_uses(op, see_tile, context);
    return false;
}

// The op of the tile's block that first fills it, if every staged store stands in that block after the tile's last
// use; else NULL.
static TileOp *is_spent(Lowering *lo, const TileInfo *tile)
{
    const TileOp *const parent = op_info(lo, tile->declared)->parent;
    if (tile->storage != TILE_IN_SHARED || tile->ring || tile->multistage || tile->is_double_buffered ||
        tile->is_filled || tile->is_private || tile->shared.swizzle_bytes == 0 ||
        (parent && parent->kind == T_PIPELINE))
        return NULL;
    TileOp *first = NULL;
    int n = 0; // staged stores after the last use
    for (TileOp *op = tile->declared->next; op; op = op->next) {
        Seen seen = { tile->buffer, false };
        visit_op(lo, op, finds_tile, &seen);
        if (seen.any) {
            first = first ? first : op;
            n = 0;
        }
        visit_op(lo, op, count_staged, &n);
        if (seen.any && n > 0) return NULL;
    }
    return n == lo->n_staged ? first : NULL;
}

// A tile that lives in a turn of a loop and is read no more when its results are stored (the queries of attention) is
// free for them: several boxes for each warp, filled and sent together.
static bool stage_over_spent(Lowering *lo)
{
    if (!lo->is_specialised || !lo->staging_bytes || lo->staged_over || lo->n_transposed) return false;
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        TileOp *const first = is_spent(lo, tile);
        for (int boxes = 8; first && boxes > 2; boxes /= 2) {
            lo->boxes_most = boxes;
            measure_staging(lo);
            if (lo->staging_bytes <= tile->shared.bytes) {
                lo->staged_over = first;
                lo->first_under = tile;
                return true;
            }
        }
    }
    lo->boxes_most = 0;
    measure_staging(lo);
    return false;
}

// Groups with statements of their own synchronise before a pipeline and after it: tiles that live only in its steps are
// free for the stores between two of them, a box for each warp (hazards.c).
static bool stage_over_tiles(Lowering *lo)
{
    if (!lo->is_specialised || !lo->staging_bytes || lo->staged_over || lo->n_transposed) return false;
    lo->one_box = true;
    measure_staging(lo);
    TileInfo *first = NULL;
    TileOp *over = NULL;
    for (int i = 0, bytes = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (tile->storage != TILE_IN_SHARED || tile->shared.swizzle_bytes == 0) continue; // lies elsewhere
        TileOp *const pipeline = lends_itself(lo, tile);
        if (!pipeline || pipeline != over) {
            first = pipeline ? tile : NULL;
            over = pipeline;
            bytes = 0;
        }
        bytes += pipeline ? align_up(tile->shared.bytes, SHARED_ALIGN) : 0;
        if (pipeline && bytes >= lo->staging_bytes) {
            lo->staged_over = over;
            lo->first_under = first;
            return true;
        }
    }
    return false;
}

// One box for each warp's stores instead of two in turn: cheaper than a ring's second buffer.
static bool drop_second_boxes(Lowering *lo)
{
    const int before = lo->staging_bytes;
    if (lo->is_specialised || lo->one_box) return false;
    lo->one_box = true;
    measure_staging(lo);
    return lo->staging_bytes < before;
}

// Where shared memory is full to the brim, stores go straight from the registers.
static bool drop_staging(Lowering *lo)
{
    if (stage_over_spent(lo) || stage_over_tiles(lo)) return true;
    const bool had = lo->staging_bytes > 0 && (lo->is_specialised || would_end_rings(lo));
    if (had && drop_second_boxes(lo)) return true;
    if (had) {
        lo->staging_bytes = lo->n_staged = lo->n_transposed = 0;
        lo->no_staging = true;
        note(lo, "no room for staging: stores go straight from registers");
    }
    return had;
}

// The deepest rings give a buffer: fewer stages cost time, not meaning.
static bool shorten_rings(Lowering *lo)
{
    int deepest = 1;
    for (int i = 0; i < lo->ring_states.count; i++)
        if (lo->ring_states.items[i]->buffers > deepest) deepest = lo->ring_states.items[i]->buffers;
    for (int i = 0; i < lo->multistages.count; i++)
        if (lo->multistages.items[i]->buffers > deepest) deepest = lo->multistages.items[i]->buffers;
    if (deepest == 2 && drop_second_boxes(lo)) return true;
    for (int i = 0; i < lo->multistages.count; i++)
        if (lo->multistages.items[i]->buffers == deepest && deepest > 1) lo->multistages.items[i]->buffers--;
    for (int i = 0; i < lo->ring_states.count; i++)
        if (lo->ring_states.items[i]->buffers == deepest && deepest > 1) lo->ring_states.items[i]->buffers--;
    if (deepest > 1) note(lo, "rings of %d buffers do not fit: %d", deepest, deepest - 1);
    return deepest > 1;
}

enum { OF_CTA = 1024 }; // that every CTA takes beside its own

// What a kernel can do without takes no room from as many CTAs as a multiprocessor is to hold, if they have it now.
static int room_for_more(Lowering *lo)
{
    const int each = (shared_bytes_max(lo) + OF_CTA) / occupancy(lo) - OF_CTA;
    return place_all(lo) <= each ? each : shared_bytes_max(lo);
}

// A tile of a pipeline's step that the threads make and products read, in two buffers taken in turn: who writes the
// next step's need not wait for who reads this step's, and one barrier per step is enough (hazards.c).
static void assign_double_buffers(Lowering *lo)
{
    const int room = room_for_more(lo);
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        TileOp *const pipeline = op_info(lo, tile->declared)->parent;
        if (tile->storage != TILE_IN_SHARED || tile->ring || tile->multistage || !tile->is_async || !lo->has_producer ||
            lo->is_specialised || lo->kernel->checked || !pipeline || pipeline->kind != T_PIPELINE ||
            (pipeline->pipeline.n_stage_labels > 0 && !can_issue_early(lo, pipeline)))
            continue;
        if (has_jumps(lo, pipeline->pipeline.body)) continue;
        tile->alternates = true;
        tile->alternates = place_all(lo) <= room;
    }
    place_all(lo);
}

// A tile of the grid's own block that a pipeline reads to its end (the queries of attention): with a second buffer the
// next instance's is there when this one's last step is done, instead of being asked for then.
static void assign_spares(Lowering *lo)
{
    if (!lo->is_persistent || lo->is_specialised) return;
    const int room = room_for_more(lo);
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        if (ring->ring_state->block != lo->kernel->body || ring->ring_state->buffers > 1 || ring->is_filled ||
            ring->last_use->kind != T_PIPELINE || is_preloaded_alone(lo, ring))
            continue;
        ring->ring_state->buffers = 2;
        if (place_all(lo) > room) ring->ring_state->buffers = 1;
    }
    place_all(lo);
}

static bool is_filled_by_threads(const Lowering *lo, const RingState *ring_state)
{
    bool filled = false;
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        filled |= ring->ring_state == ring_state && (ring->is_filled || ring->is_consumer_ring);
    }
    return filled;
}

// Copies of a plain loop's steps: the source asks for no number of buffers, so that there are as many as in most
// pipelines, if they fit.
static void assign_loop_buffers(Lowering *lo)
{
    const int most = shared_bytes_max(lo) / occupancy(lo);
    for (int i = 0; i < lo->ring_states.count && !lo->is_specialised; i++) {
        RingState *const ring_state = lo->ring_states.items[i];
        const TileOp *const loop = op_info(lo, ring_state->block)->parent;
        if (ring_state->buffers > 1 || !loop || (loop->kind != T_FOR && loop->kind != T_WHILE) ||
            is_filled_by_threads(lo, ring_state))
            continue;
        ring_state->buffers = LOOP_BUFFERS;
        while (ring_state->buffers > 1 && place_all(lo) > most) ring_state->buffers--;
    }
    place_all(lo);
}

int ctas_of_shared_bytes(const Lowering *lo) { return (shared_bytes_max(lo) + OF_CTA) / (lo->shared_bytes + OF_CTA); }

// More CTAs than were hinted (partition.c, choose_occupancy.c) are no more than have room.
static void fit_occupancy(Lowering *lo)
{
    const int hinted = lo->kernel->occupancy > 1 ? lo->kernel->occupancy : 1;
    place_all(lo);
    while (lo->occupancy > hinted && lo->occupancy > ctas_of_shared_bytes(lo)) lo->occupancy--;
}

bool place_memory(Lowering *lo)
{
    each_op(lo, lo->kernel->body, measure_op, NULL);
    const int converted = conversion_bytes(lo),
              others = lo->scratch_bytes > SCALAR_BYTES ? lo->scratch_bytes : SCALAR_BYTES;
    if (converted) lo->has_one_scratch = lo->scratch_is_swizzled = true;
    if (converted > lo->scratch_bytes) lo->scratch_bytes = converted;
    lo->scratch_buffers = lo->scratch_bytes > 0 && !lo->is_specialised && !lo->has_one_scratch ? 2 : 1;
    if (lo->scratch_bytes < SCALAR_BYTES) lo->scratch_bytes = SCALAR_BYTES;
    while (place_all(lo) > shared_bytes_max(lo))
        if (!split_conversions(lo, others) && !drop_staging(lo) && !shorten_rings(lo) && !drop_shadow(lo))
            return refuse(lo);
    assign_double_buffers(lo);
    assign_loop_buffers(lo);
    assign_spares(lo);
    fit_occupancy(lo);
    return true;
}
