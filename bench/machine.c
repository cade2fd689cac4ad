// SPDX-License-Identifier: MIT
// machine.c - cold caches, clocks, and how fast memory is: what `kiln bench` measures with.
//
// On a GPU a run begins with the L2 holding nothing of use (a buffer several times its size was written just before),
// events stand around the kernel alone, and all runs of a batch are queued before the first is waited for, so that
// the host is never in the way. On the CPU a run is timed by its clock; rows there are larger than the caches.
#include "bench.h"
#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <stdlib.h>

// ---- times

void times_add(Times *times, double seconds)
{
    if (times->n < TIMES_MAX) times->seconds[times->n++] = seconds;
}

Spread times_spread(const Times *times)
{
    static Times sorted;
    sorted = *times;
    if (sorted.n == 0) return (Spread){ 0 };
    qsort(sorted.seconds, (size_t)sorted.n, sizeof *sorted.seconds, compare_doubles);
    const double low = sorted.seconds[(sorted.n - 1) / 2], high = sorted.seconds[sorted.n / 2];
    return (Spread){ (low + high) / 2, sorted.seconds[0], sorted.seconds[sorted.n - 1] };
}

// ---- opening

bool machine_open(Machine *machine, kiln_device *device)
{
    *machine = (Machine){ .device = device, .is_cpu = device_is_cpu(device) };
    if (machine->is_cpu) return true;
    machine->set = dlsym(cuda_driver()->library, "cuMemsetD32Async");
    machine->copy = dlsym(cuda_driver()->library, "cuMemcpyDtoDAsync_v2");
    if (!machine->set || !machine->copy)
        return status_fail(KILN_TOOLCHAIN, "the driver has neither cuMemsetD32Async nor cuMemcpyDtoDAsync"), false;
    void *memory;
    if (kiln_alloc(device, MACHINE_BYTES, &memory)) return false;
    machine->flush = memory;
    for (; machine->n_events < COUNT(machine->events); machine->n_events++)
        if (kiln_event_open(device, &machine->events[machine->n_events].begin) ||
            kiln_event_open(device, &machine->events[machine->n_events].end))
            return false;
    return true;
}

void machine_close(Machine *machine)
{
    for (int i = 0; i < machine->n_events; i++) {
        kiln_event_close(machine->events[i].begin);
        kiln_event_close(machine->events[i].end);
    }
    kiln_free(machine->device, machine->flush);
    kiln_free(machine->device, machine->other);
    *machine = (Machine){ .device = NULL };
}

static bool open_buffer(Machine *machine, char **buffer)
{
    void *memory;
    if (*buffer) return true;
    if (kiln_alloc(machine->device, MACHINE_BYTES, &memory)) return false;
    *buffer = memory;
    if (machine->is_cpu) memset(memory, 1, MACHINE_BYTES);
    return true;
}

// ---- on a GPU: through the driver, not through a kernel of ours

typedef int MemsetAsync(uint64_t to, unsigned value, size_t n, void *stream);
typedef int CopyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream);

static bool in_context(Machine *machine, int error)
{
    void *context;
    cuda_driver()->context_pop(&context);
    if (error) status_fail(KILN_DEVICE_FAILED, "%s: error %d moving memory", machine->device->name, error);
    return error == 0;
}

// CUDA: overwrites more than the L2 holds; queued only.
static bool machine_flush(Machine *machine)
{
    MemsetAsync *set;
    static unsigned value;
    if (machine->is_cpu) return true;
    memcpy(&set, &machine->set, sizeof set);
    const int error = cuda_driver()->context_push(machine->device->native);
    return in_context(machine, error ? error : set((uintptr_t)machine->flush, ++value, MACHINE_BYTES / 4, NULL));
}

static bool copy_on_gpu(Machine *machine)
{
    CopyAsync *copy;
    memcpy(&copy, &machine->copy, sizeof copy);
    const int error = cuda_driver()->context_push(machine->device->native);
    return in_context(
        machine, error ? error : copy((uintptr_t)machine->other, (uintptr_t)machine->flush, MACHINE_BYTES / 2, NULL));
}

// ---- on the CPU: all threads, pieces of a megabyte

enum { PIECE = 1 << 20 };
typedef uint64_t Words __attribute__((vector_size(64)));

static void copy_pieces(void *context, int64_t first, int64_t last)
{
    Machine *const machine = context;
    memcpy(machine->other + first * PIECE, machine->flush + first * PIECE, (size_t)(last - first) * PIECE);
}

static void read_pieces(void *context, int64_t first, int64_t last)
{
    const Machine *const machine = context;
    const Words *const from = (const Words *)(machine->flush + first * PIECE);
    const int64_t n = (last - first) * PIECE / (int64_t)sizeof(Words);
    Words a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    for (int64_t i = 0; i < n; i += 4) {
        a |= from[i];
        b |= from[i + 1];
        c |= from[i + 2];
        d |= from[i + 3];
    }
    volatile uint64_t sink = (a | b | c | d)[0];
    (void)sink;
}

bool machine_copy(void *context)
{
    Machine *const machine = context;
    if (!open_buffer(machine, &machine->flush) || !open_buffer(machine, &machine->other)) return false;
    if (!machine->is_cpu) return copy_on_gpu(machine);
    threads_run(MACHINE_BYTES / 2 / PIECE, copy_pieces, machine);
    return true;
}

bool machine_read(void *context)
{
    Machine *const machine = context;
    if (!open_buffer(machine, &machine->flush)) return false;
    threads_run(MACHINE_BYTES / PIECE, read_pieces, machine);
    return true;
}

// ---- timing

static bool time_on_cpu(bool (*run)(void *context), void *context, int runs, double seconds, Times *times)
{
    double sum = 0;
    for (int i = 0; i < runs || (sum < seconds && i < TIMES_MAX); i++) {
        const double begin = seconds_now();
        if (!run(context)) return false;
        const double t = seconds_now() - begin;
        times_add(times, t);
        sum += t;
    }
    return true;
}

static bool queue_run(Machine *machine, bool (*run)(void *context), void *context, int i)
{
    return machine_flush(machine) && kiln_event_record(machine->events[i].begin, NULL) == KILN_OK && run(context) &&
           kiln_event_record(machine->events[i].end, NULL) == KILN_OK;
}

bool machine_time(Machine *machine, bool (*run)(void *context), void *context, int runs, double seconds, Times *times)
{
    double ms;
    if (machine->is_cpu) return time_on_cpu(run, context, runs, seconds, times);
    runs = runs < machine->n_events ? runs : machine->n_events;
    for (int i = 0; i < runs; i++)
        if (!queue_run(machine, run, context, i)) return false;
    for (int i = 0; i < runs; i++) {
        if (kiln_event_elapsed(machine->events[i].begin, machine->events[i].end, &ms)) return false;
        times_add(times, ms * 1e-3);
    }
    return true;
}
