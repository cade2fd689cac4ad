// SPDX-License-Identifier: MIT
// device_cpu.c - the CPU as a device: everything is done when a call returns.
#include "runtime/runtime.h"
#include "base/fork.h"
#include "base/memory.h"
#include "lower/cpu/abi.h"
#include "toolchain/toolchain.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// ---- memory: aligned to 256, the block that was asked for stands before it

enum { ALIGNMENT = 256 };

static kiln_status cpu_alloc(kiln_device *device, size_t bytes, void **memory)
{
    char *const block = bytes < SIZE_MAX - 2 * ALIGNMENT ? memory_alloc(bytes + 2 * ALIGNMENT) : NULL;
    if (!block) return status_fail(KILN_OUT_OF_MEMORY, "out of memory: %zu bytes on the cpu", bytes);
    char *const aligned = (char *)(((uintptr_t)block + sizeof block + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    memcpy(aligned - sizeof block, &block, sizeof block);
    *memory = aligned;
    return KILN_OK;
}

static void cpu_free(kiln_device *device, void *memory)
{
    char *block;
    memcpy(&block, (char *)memory - sizeof block, sizeof block);
    memory_free(block);
}

static kiln_status cpu_upload(kiln_device *device, void *memory, const void *host, size_t bytes)
{
    memmove(memory, host, bytes);
    return KILN_OK;
}

static kiln_status cpu_download(kiln_device *device, void *host, const void *memory, size_t bytes)
{
    memmove(host, memory, bytes);
    return KILN_OK;
}

// ---- the device

static int cpu_count(void) { return 1; }

static void read_model(char *model, size_t n)
{
    char line[256];
    snprintf(model, n, "processor");
    FILE *const file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(model, n, "%.90s", strchr(line, ':') + 2);
            model[strcspn(model, "\n")] = 0;
            break;
        }
    if (file) fclose(file);
}

static kiln_status cpu_open(kiln_device *device)
{
    const CpuForm *const form = cpu_form_of_machine(); // also asks the system for tile registers
    char model[96];
    read_model(model, sizeof model);
    device->processors = threads_count();
    snprintf(device->description, sizeof device->description, "%s, %s, %d threads", model, form->name,
             device->processors);
    return KILN_OK;
}

static void cpu_close(kiln_device *device) {}

// ---- streams and events

static kiln_status cpu_stream_open(kiln_stream *stream) { return KILN_OK; }
static void cpu_stream_close(kiln_stream *stream) {}
static kiln_status cpu_stream_wait(kiln_device *device, kiln_stream *stream) { return KILN_OK; }
static kiln_status cpu_event_open(kiln_event *event) { return KILN_OK; }
static void cpu_event_close(kiln_event *event) {}
static kiln_status cpu_event_wait(kiln_event *event) { return KILN_OK; }

static double seconds_of_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static kiln_status cpu_event_record(kiln_event *event, kiln_stream *stream)
{
    event->seconds = seconds_of_clock();
    return KILN_OK;
}

static kiln_status cpu_event_elapsed(kiln_event *begin, kiln_event *end, double *milliseconds)
{
    *milliseconds = 1e3 * (end->seconds - begin->seconds);
    return KILN_OK;
}

// ---- running

// One launch, shared by the threads that work on it.
typedef struct Run {
    KernelEntry *entry;
    const Launch *launch;
    const int64_t *some; // the instances that run; NULL: all
    CpuTimes *times;     // NULL: not noted
    _Atomic int ended;   // a RunEnd: no further piece is started
    char message[512];   // of the one that set it
} Run;

typedef enum { RUN_ON, RUN_TRAPPED, RUN_OUT_OF_MEMORY } RunEnd;

// A private array of the code that runs.
typedef struct Block Block;
struct Block {
    Block *next, **link;
};

// One piece of a launch on one thread: what the hooks of abi.h work with.
typedef struct Piece {
    Run *run;
    Block *blocks;
    jmp_buf trapped;
} Piece;

static void end_run(Run *run, RunEnd how, const char *message)
{
    int on = RUN_ON;
    if (atomic_compare_exchange_strong(&run->ended, &on, (int)how))
        snprintf(run->message, sizeof run->message, "%s", message);
}

static void host_trap(void *context, const char *where, const char *message)
{
    Piece *const piece = context;
    char text[512];
    snprintf(text, sizeof text, "%s: %s", where, message);
    end_run(piece->run, RUN_TRAPPED, text);
    longjmp(piece->trapped, 1);
}

static void host_print(void *context, const char *format, ...)
{
    const size_t n = format ? strlen(format) : 0;
    va_list args;
    va_start(args, format);
    flockfile(stdout);
    if (n > 0) vprintf(format, args);
    if (n == 0 || format[n - 1] != '\n') putchar_unlocked('\n');
    funlockfile(stdout);
    va_end(args);
}

static void *host_alloc(void *context, size_t bytes)
{
    Piece *const piece = context;
    Block *const block = memory_alloc(sizeof *block + bytes);
    if (!block) return NULL;
    *block = (Block){ piece->blocks, &piece->blocks };
    if (block->next) block->next->link = &block->next;
    piece->blocks = block;
    return block + 1;
}

static void host_free(void *context, void *memory)
{
    Block *const block = (Block *)memory - 1;
    *block->link = block->next;
    if (block->next) block->next->link = block->link;
    memory_free(block);
}

// Those that are noted run alone.
static void run_noted(const Run *run, int64_t first, int64_t last, CpuHost *host)
{
    for (int64_t i = first; i < last; i++) {
        const double begin = seconds_of_clock();
        run->entry(run->launch->words, i, i + 1, host);
        if (i < run->times->n) run->times->items[i] = (CpuInstance){ begin, seconds_of_clock(), host };
    }
}

static void run_instances(const Run *run, int64_t first, int64_t last, CpuHost *host)
{
    if (run->times) run_noted(run, first, last, host);
    else if (!run->some) run->entry(run->launch->words, first, last, host);
    for (int64_t i = first; run->some && i < last; i++)
        run->entry(run->launch->words, run->some[i], run->some[i] + 1, host);
}

static void run_piece(void *context, int64_t first, int64_t last)
{
    Run *const run = context;
    if (atomic_load_explicit(&run->ended, memory_order_relaxed) != RUN_ON) return;
    const int64_t wanted = run->launch->plan->scratch_bytes;
    CpuHost *const host = threads_scratch((size_t)(wanted > CPU_HOST_BYTES ? wanted : CPU_HOST_BYTES));
    if (!host) {
        end_run(run, RUN_OUT_OF_MEMORY, "out of memory for a thread's tiles");
        return;
    }
    Piece piece = { .run = run };
    *host = (CpuHost){ host_trap, host_print, host_alloc, host_free, &piece, { NULL } };
    if (setjmp(piece.trapped) == 0) run_instances(run, first, last, host);
    while (piece.blocks) host_free(&piece, piece.blocks + 1);
}

static kiln_status run_all(Run *run, int64_t n)
{
    threads_run(n, run_piece, run);
    if (run->ended == RUN_ON) return KILN_OK;
    return status_fail(run->ended == RUN_TRAPPED ? KILN_TRAPPED : KILN_OUT_OF_MEMORY, "%s: %s", run->launch->plan->name,
                       run->message);
}

kiln_status cpu_run(KernelEntry *entry, const Launch *launch, const int64_t *some, int64_t n)
{
    Run run = { .entry = entry, .launch = launch, .some = some };
    return run_all(&run, n);
}

static kiln_status cpu_launch(kiln_kernel *kernel, kiln_stream *stream, const Launch *launch)
{
    Run run = { .entry = kernel->entry, .launch = launch, .times = kernel->times };
    return run_all(&run, launch->instances);
}

static void cpu_unload(kiln_kernel *kernel)
{
    if (!kernel->object) return;
    fork_hold(); // the loader has a lock, too
    dlclose(kernel->object);
    fork_release();
}

const DeviceKind device_kind_cpu = {
    .name = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .alloc_host = cpu_alloc,
    .free_host = cpu_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .stream_open = cpu_stream_open,
    .stream_close = cpu_stream_close,
    .stream_wait = cpu_stream_wait,
    .event_open = cpu_event_open,
    .event_close = cpu_event_close,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_elapsed = cpu_event_elapsed,
    .unload = cpu_unload,
    .launch = cpu_launch,
};
