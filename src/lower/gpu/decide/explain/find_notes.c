// SPDX-License-Identifier: MIT
// find_notes.c - which lines are expected at more than twice their floor, and why: from what was decided and what it costs.
//
// A line that costs little of the whole is left alone, whatever its floor. Of the others the unit that bounds them says what
// to look at: a product that is no instruction of the tensor cores, a copy that the threads wait for, sectors or banks that are
// used in part, threads that repeat each other. What decided so has left its reason in the facts (Product.why_not,
// TileInfo.why and the like); a reason that is not known is not made up, and then there is no note.
//
// before: all is decided, and its cost is known              after: kernel->notes has what was found
#include "lower/gpu/decide/explain/find_notes.h"
#include "lower/gpu/decide/explain/work.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/registers.h"

#include <math.h>
#include <string.h>

enum { CONFLICTS_MANY = 4, ELEMENTS_MANY = 16, REPEATS_MANY = 4, WARPS_FEW = 8 };
static const double slow = 2, share_of_note = 0.1, share_of_ring = 0.3, more_than_units = 1.2, sectors_wasted = 2;

typedef struct Finding {
    Lowering *lo;
    const Cost *cost;
    double whole; // cycles of an instance on its multiprocessor
} Finding;

// CTAs beside each other hide what one of them waits for.
static double expected(const Finding *f, const CostLine *line)
{
    double units = 0;
    const GpuMachine *const m = f->cost->machine;
    const double rates[UNITS] = { m->tensor, m->special, m->issue, m->shared, m->memory };
    for (int u = 0; u < UNITS; u++) units = fmax(units, line->used[u] / rates[u]);
    return fmax(units, line->waits / f->cost->resident);
}

static bool is_slow(const Finding *f, const CostLine *line)
{
    const double cycles = line ? expected(f, line) : 0;
    return cycles > slow * line->floor && cycles > share_of_note * f->whole;
}

static const char *times_floor(const Finding *f, const CostLine *line)
{
    const double cycles = expected(f, line), whole = f->whole;
    if (line->floor * 100 < cycles)
        return arena_printf(f->lo->arena, "%.0f%% of the time", fmin(100, 100 * cycles / whole));
    return arena_printf(f->lo->arena, "%.1f times its floor, %.0f%% of the time", cycles / line->floor,
                        fmin(100, 100 * cycles / whole));
}

// ---- products

// What is known to change the reason; NULL: nothing simple.
static const char *instead_of_loop(const char *why)
{
    static const struct {
        const char *reason, *instead;
    } table[] = {
        { "not a multiple of an instruction's",
          "a contraction that is padded to a multiple of 16 (8 bits: 32), with zeros" },
        { "is no tile of its own", "copy the operand to a shared tile first" },
        { "is converted", "convert the operand into a fragment or shared tile of the product's type first" },
        { "no whole fragment", "a fragment of its own for the product's result" },
        { "no tensor-core instruction for these types", "operands of one type of 8 or 16 bits, or of tf32" },
        { "no tensor-core instruction accumulates", "f32 as the type of the result; i32 of integers" },
        { "are not a multiple of 32 bytes", "a tile whose rows are padded to a multiple of 32 bytes" },
        { "its subscripts are not the indices",
          "a copy of the result to a second fragment, which that line subscripts" },
    };
    for (int i = 0; i < COUNT(table); i++)
        if (why && strstr(why, table[i].reason)) return table[i].instead;
    return NULL;
}

static void note_product(const Finding *f, const TileOp *op, const CostLine *line)
{
    const Product *const p = op_info(f->lo, op)->product;
    if (!p || p->kind == PRODUCT_WGMMA || p->kind == PRODUCT_MMA) return;
    const char *const why = p->why_not ? p->why_not : p->why_loop;
    const char *instead = instead_of_loop(why);
    if (!instead) instead = instead_of_loop(p->why_loop);
    note_add(f->lo->kernel, NOTE_PRODUCT_LOOP, op->span, instead, "the product is %s, because %s (%s)",
             p->kind == PRODUCT_LOOP ? "a loop nest" : "multiply-adds", why ? why : "nothing faster takes it",
             times_floor(f, line));
}

// ---- copies

typedef struct Reading {
    const Buffer *tensor;
} Reading;

static void note_reading(const TileUse *use, void *context)
{
    Reading *const reading = context;
    if (buffer_root(use->buffer)->kind != BUFFER_TENSOR || use->writes || use->atomic) return;
    if (!reading->tensor || use->buffer->rank > 1) reading->tensor = buffer_root(use->buffer);
}

static const TileOp *loop_around(Lowering *lo, const TileOp *op)
{
    const TileOp *at = op_info(lo, op)->parent;
    while (at && at->kind != T_FOR && at->kind != T_WHILE && at->kind != T_PIPELINE) at = op_info(lo, at)->parent;
    return at;
}

// Why no producer made this copy ahead; NULL: it is not a copy that could be.
static const char *why_not_ahead(Lowering *lo, TileOp *op, const TileOp *loop, const char **instead)
{
    if (lo->kernel->persistent && !loop) return NULL;
    if (loop->kind != T_PIPELINE) {
        *instead = "a pipeline in place of the loop, with stages(2) or more, and a shared tile that is declared in it";
        return "the loop around it is no pipeline";
    }
    if (op->kind == T_FORALL) {
        *instead = "slices, row by row: forall (i : ROWS) tile[i] = tensor[row(i)][first +: n]";
        return "its elements are computed one by one";
    }
    if (op->kind == T_COPY && buffer_root(op->copy.dst.buffer)->kind == BUFFER_FRAGMENT) {
        *instead = "a shared tile, which the fragment is made from";
        return "only shared tiles are filled ahead";
    }
    if (op->kind == T_COPY && !copy_is_box(lo, op) && !copy_is_small(lo, op)) {
        *instead = "starts that are multiples of 16 bytes: a require, or an index times a constant";
        return "its slice does not provably begin at a multiple of 16 bytes, or is no box";
    }
    return "its place, or a condition around it, depends on what the loop computes";
}

static void note_copy(const Finding *f, TileOp *op, const CostLine *line)
{
    Lowering *const lo = f->lo;
    Reading reading = { 0 };
    const char *instead = NULL;
    each_use(lo, op, note_reading, &reading);
    const TileOp *const loop = loop_around(lo, op);
    if (!reading.tensor || !loop || op_info(lo, op)->fetched || op_info(lo, op)->multistage) return;
    const char *const why = why_not_ahead(lo, op, loop, &instead);
    if (!why) return;
    note_add(lo->kernel, NOTE_COPY_WAITS, op->span, instead,
             "%s is read by the threads, which wait for it in every step, because %s (%s)", reading.tensor->name, why,
             times_floor(f, line));
}

static void note_sectors(const Finding *f, TileOp *op, const CostLine *line)
{
    Reading reading = { 0 };
    if (line->sectors < sectors_wasted) return;
    each_use(f->lo, op, note_reading, &reading);
    note_add(f->lo->kernel, NOTE_SCATTERED, op->span,
             "an order of the indices in which the last dimension of the tensor is the last index, or a copy "
             "of whole rows to a shared tile",
             "accesses to %s are not coalesced: %.0f bytes move for each byte that is used (%s)",
             reading.tensor ? reading.tensor->name : "a tensor", line->sectors, times_floor(f, line));
}

// ---- shared memory

typedef struct Demoted {
    const Lowering *lo;
    const TileInfo *tile; // a fragment that is in shared memory; NULL: none
} Demoted;

static void note_demoted(const TileUse *use, void *context)
{
    Demoted *const demoted = context;
    const TileInfo *const tile = tile_info(demoted->lo, buffer_root(use->buffer));
    if (tile && tile->buffer->kind == BUFFER_FRAGMENT && tile->storage == TILE_IN_SHARED && tile->why)
        demoted->tile = tile;
}

// Rows that begin at different banks: swizzled, if they are whole panels, else longer.
static const char *instead_of_rows(const Lowering *lo, const Buffer *tile)
{
    int64_t columns = 0;
    if (tile->rank < 2 || tile->kind != BUFFER_SHARED) return NULL;
    expr_as_int(tile->shape[tile->rank - 1], &columns);
    const int64_t bytes = columns * dtype_bits(tile->type) / 8;
    if (tile->rank == 2 && bytes % 128 == 0 && tile->hint == HINT_NONE)
        return arena_printf(lo->arena, "layout(%s) = swizzle(128)", tile->name);
    return arena_printf(lo->arena, "layout(%s) = padded(%d), or another order of its dimensions", tile->name,
                        32 / dtype_bits(tile->type) > 0 ? 32 / dtype_bits(tile->type) : 1);
}

static void note_shared(const Finding *f, TileOp *op, const CostLine *line)
{
    Demoted demoted = { f->lo, NULL };
    if (line->conflicts > CONFLICTS_MANY) {
        note_add(f->lo->kernel, NOTE_BANK_CONFLICTS, op->span, instead_of_rows(f->lo, line->conflicting),
                 "%d lanes of a warp meet at one bank of %s (%s)", line->conflicts, line->conflicting->name,
                 times_floor(f, line));
        return;
    }
    each_use(f->lo, op, note_demoted, &demoted);
    if (!demoted.tile) return;
    note_add(f->lo->kernel, NOTE_CONVERSION, op->span, NULL,
             "fragment %s is in shared memory, because %s, and is accessed element by element (%s)",
             demoted.tile->buffer->name, demoted.tile->why, times_floor(f, line));
}

// ---- what threads do

static void note_threads(const Finding *f, TileOp *op, const CostLine *line)
{
    if (line->repeats < REPEATS_MANY) return;
    note_add(f->lo->kernel, NOTE_REPLICAS, op->span,
             "fewer warps, or tiles of more rows, so that every register of every thread has an "
             "element of its own",
             "the threads compute %.0f values for each that is needed: their layout has room for so many (%s)",
             line->repeats, times_floor(f, line));
}

static void note_waits(const Finding *f, TileOp *op, const CostLine *line)
{
    if (op->kind == T_FORALL && line->branches * f->cost->machine->branch > line->waits / 2) {
        note_add(f->lo->kernel, NOTE_BRANCHES, op->span,
                 "a variable that is read or computed before the condition, where that is inside of the tile or tensor",
                 "each element has a branch of its own, because a side of its condition reads memory or computes "
                 "a function (%s)",
                 times_floor(f, line));
    } else if (op->kind == T_SCAN) {
        note_add(f->lo->kernel, NOTE_SERIAL, op->span,
                 "cumsum of a whole fragment, whose scanned dimension is its last",
                 "the scan goes through shared memory, a warp for each line (%s)", times_floor(f, line));
    } else if (op->kind == T_COPY || op->kind == T_FORALL) {
        note_copy(f, op, line);
    } else if ((op->kind == T_LET || op->kind == T_SET) && op->let.value && load_depth(op->let.value) &&
               loop_around(f->lo, op)) {
        note_add(f->lo->kernel, NOTE_SERIAL, op->span,
                 "a copy of the list to a shared tile before the loop, or a pipeline, which reads lists ahead",
                 "every step waits for an element of a tensor (%s)", times_floor(f, line));
    }
}

// Whatever bounds it: other threads could have helped.
static bool note_alone(const Finding *f, const TileOp *op, const CostLine *line)
{
    static const char *const instead = "an index more: forall (i : ROWS, j : COLUMNS), and elements in place of slices";
    if (op->kind != T_FORALL) return false;
    if (line->alone >= ELEMENTS_MANY)
        note_add(f->lo->kernel, NOTE_SERIAL, op->span, instead,
                 "each thread copies %.0f elements by itself, one after the other (%s)", line->alone,
                 times_floor(f, line));
    else if (line->idle >= REPEATS_MANY && line->bound != BOUND_WAITS)
        note_add(f->lo->kernel, NOTE_SERIAL, op->span, "an index more, for what each iteration goes through by itself",
                 "one of %.0f threads has an iteration (%s)", line->idle, times_floor(f, line));
    else return false;
    return true;
}

static bool note_op(Lowering *lo, TileOp *op, void *context)
{
    const Finding *const f = context;
    if (op->kind == T_TILE || !op->span.source) return false;
    const CostLine *const line = cost_line(f->cost, op);
    const bool is_leaf = op->kind == T_FORALL;
    if (!line || !is_slow(f, line)) return is_leaf;
    if (op->kind == T_MATMUL) note_product(f, op, line);
    else if (note_alone(f, op, line)) return is_leaf;
    else if (line->bound == BOUND_WAITS) note_waits(f, op, line);
    else if (op->kind != T_COPY && op->kind != T_FORALL && op->kind != T_ATOMIC_TILE) return false;
    else if (line->bound == UNIT_MEMORY) note_sectors(f, op, line);
    else if (line->bound == UNIT_SHARED) note_shared(f, op, line);
    else note_threads(f, op, line);
    return is_leaf;
}

// ---- the whole

// Their copies run ahead, but not far enough: the units could do more.
static void note_rings(const Finding *f)
{
    const Schedule *const schedule = f->lo->builder.schedule;
    for (int i = 0; i < schedule->tiles.count; i++) {
        const ScheduleTile *const tile = schedule->tiles.items[i];
        if (tile->place != TILE_SHARED || tile->ring == NO_RING) continue;
        const double late = f->cost->late[tile->ring], alone = f->cost->chain;
        if (alone / f->cost->resident < more_than_units * busiest_unit(f->cost) || late < share_of_ring * alone)
            continue;
        note_add(f->lo->kernel, NOTE_COPY_WAITS, tile->span,
                 tile->slots < 2 ? "a pipeline around with stages(2) or more, or smaller tiles, of which more fit"
                                 : "more stages, or smaller tiles",
                 "each copy of %s is waited for, because the step before holds %s (%.0f%% of the time)", tile->name,
                 tile->slots < 2 ? "its only buffer" : "one of its buffers", 100 * late / alone);
    }
}

static void note_grid(const Finding *f)
{
    const TileKernel *const kernel = f->lo->kernel;
    const int most = f->cost->machine->multiprocessors;
    if (kernel->n_grid == 0 || f->cost->instances <= 0 || f->cost->instances * 2 > most) return;
    note_add(f->lo->kernel, NOTE_FEW_INSTANCES, kernel->grid[0].var->span,
             "smaller tiles, or a split of the longest loop among instances", "%.0f instances for %d multiprocessors",
             f->cost->instances, most);
}

static void note_occupancy(const Finding *f)
{
    const TileKernel *const kernel = f->lo->kernel;
    const Schedule *const schedule = f->lo->builder.schedule;
    const double warps = f->cost->resident * schedule->threads / 32.0;
    const double units = busiest_unit(f->cost);
    if (kernel->n_grid == 0 || f->lo->has_producer || warps >= WARPS_FEW ||
        f->cost->chain / f->cost->resident < slow * units)
        return;
    note_add(f->lo->kernel, NOTE_OCCUPANCY, kernel->grid[0].var->span, "occupancy(n) with smaller tiles, or a pipeline",
             "a multiprocessor holds %.0f warps, which wait for what they load (%.1f times its floor)", warps,
             f->cost->chain / f->cost->resident / fmax(1, units));
}

static void find_notes(Lowering *lo, const Cost *cost)
{
    Finding f = { lo, cost, fmax(cost->cycles, cost->chain / cost->resident) };
    each_op(lo, lo->kernel->body, note_op, &f);
    note_rings(&f);
    note_grid(&f);
    note_occupancy(&f);
    notes_sort(&lo->kernel->notes);
}

const Cost *explain_cost(Lowering *lo, Text *out)
{
    CostQuestion question = { .schedule = lo->builder.schedule,
                              .kernel = lo->kernel,
                              .machine = gpu_machine(lo->gpu, lo->target->card),
                              .target = lo->target,
                              .occupancy = occupancy(lo),
                              .unknown_trips = 1 };
    if (!question.machine || lo->kernel->checked) return NULL;
    const Cost *const cost = cost_of(lo->arena, &question);
    cost_print(out, cost, lo->kernel);
    question.unknown_trips = LIKELY_TRIPS;
    find_notes(lo, cost_of(lo->arena, &question));
    return cost;
}
