// SPDX-License-Identifier: MIT
// choose_occupancy.c - how many CTAs a multiprocessor holds of a kernel with a producer, where its source does not say.
//
// The CTAs of such a kernel take instances one after another, and there are as many as run at once. With one on a
// multiprocessor nothing runs while its threads wait; how long they do, the model of cost says of a schedule for one CTA.
// There are as many more as it takes until what they wait for is hidden behind the busiest unit, while all have
//
//   - the registers that their fragments and statements hold, and BESIDE_VALUES for all else: a launch for more CTAs is
//     compiled for as few registers as they leave, and spills if those are too few;
//   - the shared memory of the schedule for one: no ring is made shorter;
//   - room among the threads and CTAs of a multiprocessor.
//
// Kernels with products of tiles keep one: their sources size accumulators and rings for it.
//
// before: the schedule for one CTA is complete, and its actions have their work        after: nothing but the reason is noted
#include "lower/gpu/decide/memory/choose_occupancy.h"
#include "lower/gpu/cost/cost.h"
#include "lower/gpu/decide/memory/memory.h"
#include "lower/gpu/decide/memory/register_limits.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/registers.h"

#include <math.h>

enum { BESIDE_VALUES = 64 }; // registers of a thread beside the values that it holds from one statement to another
static const double too_little = 1.1;   // times faster: not worth registers
static const double nearly_best = 1.03; // times slower than as many as have room: enough

// ---- registers

enum { ACCESS_WORDS = 4 }; // of an element of a tensor: an address, a bound, the value

static int array_words(const Buffer *array)
{
    int64_t elements = 1, extent;
    for (int d = 0; d < array->rank; d++)
        if (expr_as_int(array->shape[d], &extent)) elements *= extent;
    return (int)(elements * dtype_bits(array->type) + 31) / 32;
}

static void count_access(const TileUse *use, void *context)
{
    *(int *)context += buffer_root(use->buffer)->kind == BUFFER_TENSOR ? ACCESS_WORDS : 0;
}

// Local arrays, and what accesses of tensors take: loops that are unrolled are statements one after another by now.
static bool find_words(Lowering *lo, TileOp *op, void *context)
{
    int *const words = context;
    if (op->kind == T_TILE && op->tile.buffer->kind == BUFFER_LOCAL) *words += array_words(op->tile.buffer);
    else tile_uses(op, count_access, words);
    return false;
}

// What a statement holds beside the fragments; a copy by the threads, an address for each element.
static bool find_held(Lowering *lo, TileOp *op, void *context)
{
    int *const most = context, words = 0;
    if (op->kind == T_FORALL) each_op(lo, op->forall.body, find_words, &words);
    if (op->kind == T_COPY && !op_info(lo, op)->fetched && buffer_root(op->copy.src.buffer)->kind == BUFFER_TENSOR) {
        const TileInfo *const tile = tile_info(lo, buffer_root(op->copy.dst.buffer));
        words = tile && tile->storage == TILE_IN_REGISTERS ? layout_registers(&tile->layout) : 0;
    }
    *most = words > *most ? words : *most;
    return op->kind == T_FORALL;
}

static int registers_needed(Lowering *lo)
{
    int held = 0;
    each_op(lo, lo->kernel->body, find_held, &held);
    return live_words(lo, 0, false).words + held + BESIDE_VALUES;
}

// CTAs whose threads have so many registers each.
static int ctas_of_registers(Lowering *lo, int needed, int most)
{
    const int before = lo->occupancy;
    int n = most;
    for (; n > 1; n--) {
        lo->occupancy = lo->occupancy_chosen = n;
        if (consumer_registers(lo) >= needed) break;
    }
    lo->occupancy = before;
    lo->occupancy_chosen = 0;
    return n;
}

// ---- the choice

// NULL: it is one whose CTAs are counted here.
static const char *why_one(Lowering *lo)
{
    if (has_products(lo, lo->kernel->body)) return "its products have the registers of one";
    if (lo->is_specialised) return "its groups have statements of their own";
    if (lo->cluster > 1) return "it has clusters";
    return NULL;
}

// Cycles of an instance, where a multiprocessor holds so many CTAs.
static double cycles_beside(const Cost *cost, int ctas) { return fmax(busiest_unit(cost), cost->chain / ctas); }

static int choose(Lowering *lo, const Cost *cost)
{
    const int threads = all_threads(lo) + producer_threads(lo),
              by_threads = cost->machine->warps * WARP_LANES / threads;
    const int by_memory = ctas_of_shared_bytes(lo);
    int most = by_threads < cost->machine->ctas ? by_threads : cost->machine->ctas;
    const char *limit = "threads";
    if (by_memory < most) most = by_memory, limit = "shared memory";
    const int by_registers = ctas_of_registers(lo, registers_needed(lo), most);
    if (by_registers < most) most = by_registers, limit = "registers";
    const double best = cycles_beside(cost, most), alone = cycles_beside(cost, 1);
    int n = 1;
    while (alone >= too_little * best && n < most && cycles_beside(cost, n) > nearly_best * best) n++;
    lo->why_occupancy =
        arena_printf(lo->arena, "an instance takes %.0f cycles alone, its busiest unit %.0f%s%s", cost->chain,
                     busiest_unit(cost), n == most ? "; no more have room in " : "", n == most ? limit : "");
    return n;
}

bool is_occupancy_open(const Lowering *lo) { return lo->gpu->tma && !lo->kernel->checked && !lo->kernel->occupancy; }

int choose_occupancy(Lowering *lo)
{
    Target target = *lo->target; // of any launch
    target.n_launch = 0;
    const CostQuestion question = { .schedule = lo->builder.schedule,
                                    .kernel = lo->kernel,
                                    .machine = gpu_machine(lo->gpu, NULL),
                                    .target = &target,
                                    .occupancy = 1,
                                    .unknown_trips = LIKELY_TRIPS };
    if (!lo->has_producer || lo->occupancy > 1 || !question.machine) return 1;
    lo->why_occupancy = why_one(lo);
    return lo->why_occupancy ? 1 : choose(lo, cost_of(lo->arena, &question));
}
