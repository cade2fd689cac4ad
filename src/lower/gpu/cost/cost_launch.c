// SPDX-License-Identifier: MIT
// cost_launch.c - how many CTAs a multiprocessor holds, how many instances each of them takes, what the memory has to move.
#include "lower/gpu/cost/cost.h"

#include <math.h>

enum {
    REGISTERS_BESIDE = 32,     // of a thread, beside its fragments
    SHARED_BYTES = 228 * 1024, // of a multiprocessor
    RESERVED_BYTES = 1024,     // of each CTA
    OVERLAP = 8, // what runs at the same time takes a little longer than the longest of it: the norm of this power
};

static int smaller(int a, int b) { return a < b ? a : b; }

// Registers that a thread is likely to get: ptxas is not asked.
static int likely_registers(const Schedule *schedule)
{
    int words = REGISTERS_BESIDE;
    for (int i = 0; i < schedule->tiles.count; i++) words += schedule->tiles.items[i]->registers;
    return smaller(words, 255);
}

static int resident_ctas(const CostQuestion *q)
{
    const Schedule *const s = q->schedule;
    if (s->is_persistent) return q->occupancy;
    int n = smaller(q->machine->ctas, q->machine->warps * 32 / s->threads);
    n = smaller(n, SHARED_BYTES / (s->shared_bytes + RESERVED_BYTES));
    n = smaller(n, q->machine->gpu->registers / (s->threads * likely_registers(s)));
    if (n < q->occupancy) n = q->occupancy;
    return n < 1 ? 1 : n;
}

static double bytes_of_tensor(const CostValues *values, const Buffer *tensor)
{
    double bytes = dtype_bits(tensor->type) / 8.0;
    for (int d = 0; d < tensor->rank; d++) {
        int64_t extent;
        if (!cost_value(values, tensor->shape[d], &extent)) return INFINITY;
        bytes *= (double)extent;
    }
    return bytes;
}

// L2 keeps what is read again; of a tensor that is larger, what is read at about the same time.
static double bytes_of_launch(const Cost *cost, const CostValues *values, const Traffic *traffic, int n)
{
    double bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += fmin(traffic[i].bytes * cost->instances, bytes_of_tensor(values, traffic[i].tensor));
    return bytes;
}

void cost_launch(Cost *cost, const CostQuestion *q, const CostValues *values, const Traffic *traffic, int n_traffic,
                 double longest)
{
    const GpuMachine *const m = q->machine;
    cost->resident = resident_ctas(q);
    const double alone = cost->chain / cost->resident;
    if (alone > cost->cycles) cost->cycles = alone, cost->bound = BOUND_CHAIN;
    if (cost->instances <= 0 || cost->open_loops.count > 0) return;
    // of the multiprocessor that has most; where there are few, each CTA runs alone
    const double each = cost->instances / m->multiprocessors, most = each < 16 ? ceil(each) : each + 0.5;
    const double rounds = ceil(most / cost->resident);
    const bool persists = q->schedule->is_persistent; // else every instance is a CTA that starts
    const double start = persists ? 0 : m->start;
    const double chains = (rounds - 1) * (cost->chain + start) + longest + start;
    const double beginning = (persists ? m->begin : 0) / m->hertz;
    cost->bytes = bytes_of_launch(cost, values, traffic, n_traffic);
    double times[BOUND_COUNT] = { [BOUND_MEMORY] = cost->bytes / m->bytes, [BOUND_CHAIN] = chains / m->hertz };
    for (int u = 0; u < UNITS; u++) times[u] = most * cost->units[u] / m->hertz;
    double sum = 0;
    cost->bound = BOUND_MEMORY;
    for (int i = 0; i < BOUND_COUNT; i++) {
        sum += pow(times[i], OVERLAP);
        if (times[i] > times[cost->bound]) cost->bound = i;
    }
    cost->seconds = m->launch + beginning + pow(sum, 1.0 / OVERLAP);
}
