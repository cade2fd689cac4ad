// SPDX-License-Identifier: MIT
// driver.cpp - the entry points of libcuda that Kiln uses, and those for graphs: one device, one context.
//
// Work is queued and done in order by one thread, whatever its stream, so that launches return at once as a driver's do.
// An error of a launch is told by the next call that waits, and what was queued after it is dropped. Then, unlike a
// driver's, the context goes on: tests that follow are worth running. With KILN_EMULATOR_STICKY it does not, and if that
// is 2 no context of the process does.
#include "emulator.h"
#include "image.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#define ENTRY extern "C" __attribute__((visibility("default")))

using namespace emu;

namespace {

typedef std::function<int()> Work;
struct Graph { std::vector<Work> work; };
struct Stream { Graph *captured = nullptr; int mode = 0; std::thread::id by; bool invalid = false; };
struct Event { std::chrono::steady_clock::time_point at; bool recorded = false; };
struct Module { int file; void *library; std::vector<struct Function *> functions; const KernelInfo *kernels; };
struct Function { Module *module; const KernelInfo *kernel; int dynamic_shared_max = 48 * 1024; bool large_clusters = false; };

enum { CONTEXT = 1, QUEUED_MAX = 4096 };
enum { CAPTURE_GLOBAL, CAPTURE_OF_THREAD, CAPTURE_RELAXED };

// Never destroyed: the thread that serves the queue outlives main().
std::mutex &lock = *new std::mutex;
std::condition_variable &changed = *new std::condition_variable;
std::deque<Work> &queue = *new std::deque<Work>;
bool busy, started;
int sticky;                                                // the error that the context is left with
unsigned launches;
thread_local std::vector<void *> contexts;
thread_local int capture_mode = CAPTURE_GLOBAL;
std::vector<Stream *> &capturing = *new std::vector<Stream *>;

void serve()
{
    std::unique_lock<std::mutex> hold(lock);
    for (;;) {
        changed.wait(hold, [] { return !queue.empty(); });
        const Work work = std::move(queue.front());
        queue.pop_front();
        busy = true;
        if (!sticky) {
            hold.unlock();
            const int error = work();
            hold.lock();
            if (error)
                sticky = error;
        }
        busy = false;
        changed.notify_all();
    }
}

int enqueue(Work work)
{
    std::unique_lock<std::mutex> hold(lock);
    if (sticky)
        return sticky;
    if (!started) {
        started = true;
        std::thread(serve).detach();
    }
    changed.wait(hold, [] { return queue.size() < QUEUED_MAX; });
    queue.push_back(std::move(work));
    changed.notify_all();
    return OK;
}

int wait_for_all()
{
    std::unique_lock<std::mutex> hold(lock);
    changed.wait(hold, [] { return queue.empty() && !busy; });
    const int error = sticky;
    if (!setting("KILN_EMULATOR_STICKY", 0))
        sticky = OK;
    return error;
}

// Copies from the host's memory land when something waits for the default stream, or uses it: other streams do not.
struct Upload { uint64_t to; std::vector<char> bytes; };
std::vector<Upload> &uploads = *new std::vector<Upload>;

void land_uploads()
{
    std::lock_guard<std::mutex> hold(lock);
    for (const Upload &u : uploads)
        if (is_allocated(u.to, u.bytes.size()))
            memcpy((void *)u.to, u.bytes.data(), u.bytes.size());
    uploads.clear();
}

// Into the graph that the stream records, or the queue.
int submit(void *stream, Work work)
{
    Stream *const s = (Stream *)stream;
    if (!s)
        land_uploads();
    if (s && s->captured) {
        if (s->invalid)
            return STREAM_CAPTURE_INVALIDATED;
        s->captured->work.push_back(std::move(work));
        return OK;
    }
    return enqueue(std::move(work));
}

// What waits for the device, or may: refused while streams are captured, whose captures are then void.
int unsafe_in_capture(const char *what)
{
    std::lock_guard<std::mutex> hold(lock);
    int error = OK;
    for (Stream *s : capturing)
        if (capture_mode != CAPTURE_RELAXED && s->mode != CAPTURE_RELAXED &&
            (s->by == std::this_thread::get_id() || (s->mode == CAPTURE_GLOBAL && capture_mode == CAPTURE_GLOBAL))) {
            s->invalid = true;
            error = STREAM_CAPTURE_UNSUPPORTED;
        }
    if (error)
        fprintf(stderr, "emulated device: %s while a stream is captured\n", what);
    return error;
}

int processors() { return (int)setting("KILN_EMULATOR_SMS", 132); }

std::shared_ptr<char> aligned_copy(const void *from, size_t bytes)
{
    char *const memory = (char *)aligned_alloc(64, (bytes + 63) / 64 * 64);
    memcpy(memory, from, bytes);
    return std::shared_ptr<char>(memory, free);
}

}

// ---- the device and its context

ENTRY int cuInit(unsigned) { return OK; }
ENTRY int cuDriverGetVersion(int *version) { return *version = 13000, (int)OK; }
ENTRY int cuDeviceGetCount(int *n) { return *n = 1, (int)OK; }
ENTRY int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal == 0 ? (int)OK : (int)INVALID_VALUE; }
ENTRY int cuDeviceGetName(char *name, int n, int) { return snprintf(name, (size_t)n, "emulated Hopper"), (int)OK; }

ENTRY int cuDeviceGetAttribute(int *value, int attribute, int)
{
    switch (attribute) {
    case 1: *value = 1024; return OK;                      // threads of a block
    case 10: *value = WARP; return OK;
    case 16: *value = processors(); return OK;
    case 75: *value = 9; return OK;
    case 76: *value = 0; return OK;
    case 81: *value = 228 * 1024; return OK;               // shared memory of a processor
    case 97: *value = SHARED_BYTES_MAX; return OK;
    default: return INVALID_VALUE;
    }
}

ENTRY int cuDevicePrimaryCtxRetain(void **context, int)
{
    *context = (void *)CONTEXT;
    std::lock_guard<std::mutex> hold(lock);
    return sticky;
}
ENTRY int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
ENTRY int cuDevicePrimaryCtxReset_v2(int)
{
    wait_for_all();
    std::lock_guard<std::mutex> hold(lock);
    if (setting("KILN_EMULATOR_STICKY", 0) < 2)
        sticky = OK;
    return sticky;
}
ENTRY int cuCtxPushCurrent_v2(void *context) { return contexts.push_back(context), (int)OK; }
ENTRY int cuCtxPopCurrent_v2(void **context)
{
    if (contexts.empty())
        return INVALID_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    return OK;
}

// ---- memory

ENTRY int cuMemAlloc_v2(uint64_t *memory, size_t bytes)
{
    if (const int error = unsafe_in_capture("cuMemAlloc"))
        return error;
    *memory = bytes ? allocate(bytes) : 0;
    return bytes == 0 ? (int)INVALID_VALUE : *memory ? (int)OK : (int)OUT_OF_MEMORY;
}
ENTRY int cuMemFree_v2(uint64_t memory)
{
    if (const int error = unsafe_in_capture("cuMemFree"))
        return error;
    wait_for_all();
    land_uploads();
    return !memory || release(memory) ? (int)OK : (int)INVALID_VALUE;
}
// Memory of the host that the device reaches: here all is.
ENTRY int cuMemHostAlloc(void **memory, size_t bytes, unsigned)
{
    if (sticky)
        return sticky;
    *memory = bytes ? (void *)allocate(bytes) : nullptr;
    return bytes == 0 ? (int)INVALID_VALUE : *memory ? (int)OK : (int)OUT_OF_MEMORY;
}
ENTRY int cuMemFreeHost(void *memory)
{
    wait_for_all();
    return release((uint64_t)memory) ? (int)OK : (int)INVALID_VALUE;
}
ENTRY int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    const int error = wait_for_all();
    if (error)
        return error;
    if (bytes && !is_allocated(to, bytes))
        return INVALID_VALUE;
    std::lock_guard<std::mutex> hold(lock);
    uploads.push_back({ to, std::vector<char>((const char *)from, (const char *)from + bytes) });
    return OK;
}
ENTRY int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    const int error = wait_for_all();
    land_uploads();
    if (error)
        return error;
    if (bytes && !is_allocated(from, bytes))
        return INVALID_VALUE;
    memcpy(to, (const void *)from, bytes);
    return OK;
}

// What `kiln bench` measures with. Done at once: nothing that was queued before is still to come.
ENTRY int cuMemsetD32Async(uint64_t to, unsigned value, size_t n, void *)
{
    const int error = wait_for_all();
    land_uploads();
    if (error)
        return error;
    if (n && !is_allocated(to, 4 * n))
        return INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        ((unsigned *)to)[i] = value;
    return OK;
}
ENTRY int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *)
{
    const int error = wait_for_all();
    land_uploads();
    if (error)
        return error;
    if (bytes && !(is_allocated(to, bytes) && is_allocated(from, bytes)))
        return INVALID_VALUE;
    memmove((void *)to, (const void *)from, bytes);
    return OK;
}

// ---- streams, events, graphs

ENTRY int cuStreamCreate(void **stream, unsigned) { return *stream = new Stream, (int)OK; }
ENTRY int cuStreamDestroy_v2(void *stream) { return wait_for_all(), delete (Stream *)stream, (int)OK; }
ENTRY int cuStreamSynchronize(void *stream)
{
    const Stream *const s = (Stream *)stream;
    if (!s)
        land_uploads();
    return s && s->captured ? (int)STREAM_CAPTURE_UNSUPPORTED : wait_for_all();
}
ENTRY int cuEventCreate(void **event, unsigned) { return *event = new Event, (int)OK; }
ENTRY int cuEventDestroy_v2(void *event) { return wait_for_all(), delete (Event *)event, (int)OK; }
ENTRY int cuEventRecord(void *event, void *stream)
{
    return submit(stream, [event] {
        ((Event *)event)->at = std::chrono::steady_clock::now();
        ((Event *)event)->recorded = true;
        return (int)OK;
    });
}
ENTRY int cuEventSynchronize(void *) { return wait_for_all(); }
ENTRY int cuEventElapsedTime(float *milliseconds, void *begin, void *end)
{
    const Event *const a = (Event *)begin, *const b = (Event *)end;
    const int error = wait_for_all();
    if (!error && a->recorded && b->recorded)
        *milliseconds = std::chrono::duration<float, std::milli>(b->at - a->at).count();
    return error ? error : a->recorded && b->recorded ? (int)OK : (int)INVALID_VALUE;
}

ENTRY int cuThreadExchangeStreamCaptureMode(int *mode) { return std::swap(capture_mode, *mode), (int)OK; }
ENTRY int cuStreamBeginCapture_v2(void *stream, int mode)
{
    Stream *const s = (Stream *)stream;
    if (!s || s->captured)
        return INVALID_VALUE;
    std::lock_guard<std::mutex> hold(lock);
    s->captured = new Graph;
    s->mode = mode;
    s->by = std::this_thread::get_id();
    s->invalid = false;
    capturing.push_back(s);
    return OK;
}
ENTRY int cuStreamEndCapture(void *stream, void **graph)
{
    Stream *const s = (Stream *)stream;
    std::lock_guard<std::mutex> hold(lock);
    capturing.erase(std::remove(capturing.begin(), capturing.end(), s), capturing.end());
    *graph = s->invalid ? nullptr : s->captured;
    if (s->invalid)
        delete s->captured;
    s->captured = nullptr;
    return *graph ? (int)OK : s->invalid ? (int)STREAM_CAPTURE_INVALIDATED : (int)INVALID_VALUE;
}
ENTRY int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) { return *exec = new Graph(*(Graph *)graph), (int)OK; }
ENTRY int cuGraphLaunch(void *exec, void *stream)
{
    int error = OK;
    for (const Work &work : ((Graph *)exec)->work)
        if (!error)
            error = submit(stream, work);
    return error;
}
ENTRY int cuGraphDestroy(void *graph) { return delete (Graph *)graph, (int)OK; }
ENTRY int cuGraphExecDestroy(void *exec) { return delete (Graph *)exec, (int)OK; }

// ---- code

ENTRY int cuModuleLoadData(void **module, const void *image)
{
    if (const int error = unsafe_in_capture("cuModuleLoadData"))
        return error;
    ImageHead head;
    char path[64];
    memcpy(&head, image, sizeof head);
    if (head.magic != IMAGE_MAGIC) {
        fprintf(stderr, "emulated device: this code was compiled for a real one, or by another emulator\n");
        return NO_BINARY;
    }
    const int file = memfd_create("kernel", MFD_CLOEXEC);
    const char *at = (const char *)image + sizeof head;
    for (uint64_t left = head.bytes; left > 0; ) {
        const ssize_t n = write(file, at, left);
        if (n <= 0)
            return OUT_OF_MEMORY;
        at += n, left -= (uint64_t)n;
    }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), file);
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        close(file);
        fprintf(stderr, "emulated device: a module cannot be loaded: %s\n", dlerror());
        return INVALID_IMAGE;
    }
    *module = new Module{ file, library, {}, (const KernelInfo *)dlsym(library, "emu_kernels") };
    return OK;
}

ENTRY int cuModuleUnload(void *module)
{
    if (const int error = unsafe_in_capture("cuModuleUnload"))
        return error;
    Module *const m = (Module *)module;
    wait_for_all();
    for (Function *f : m->functions)
        delete f;
    dlclose(m->library);
    close(m->file);                                        // open till now: the loader takes equal names for one library
    delete m;
    return OK;
}

ENTRY int cuModuleGetFunction(void **function, void *module, const char *name)
{
    Module *const m = (Module *)module;
    for (const KernelInfo *k = m->kernels; k && k->name; k++)
        if (strcmp(k->name, name) == 0) {
            m->functions.push_back(new Function{ m, k });
            *function = m->functions.back();
            return OK;
        }
    return NOT_FOUND;
}

ENTRY int cuFuncSetAttribute(void *function, int attribute, int value)
{
    Function *const f = (Function *)function;
    if (attribute == 8) {
        if (value < 0 || value > SHARED_BYTES_MAX)
            return INVALID_VALUE;
        f->dynamic_shared_max = value;
    } else if (attribute == 14) {
        f->large_clusters = value != 0;
    }
    return OK;
}

ENTRY int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    const Function *const f = (Function *)function;
    *value = attribute == 0 ? (f->kernel->max_threads ? f->kernel->max_threads : 1024) : attribute == 8 ? f->dynamic_shared_max : 0;
    return OK;
}

ENTRY int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int threads, size_t shared_bytes)
{
    const int by_shared = (int)(228 * 1024 / (shared_bytes + RESERVED_SHARED)), by_threads = 2048 / (threads ? threads : 1);
    *blocks = by_shared < by_threads ? by_shared : by_threads;
    return OK;
}

struct LaunchAttribute { int id, pad; union { char bytes[64]; struct { unsigned x, y, z; } cluster; int early; } value; };
struct LaunchConfig { unsigned grid[3], block[3], shared_bytes; void *stream; LaunchAttribute *attributes; unsigned n_attributes; };

// As if a part of the device had 18 SMs: what is left over in each stays without a cluster.
ENTRY int cuOccupancyMaxActiveClusters(int *clusters, void *, const LaunchConfig *config)
{
    const int size = config->n_attributes && config->attributes[0].id == 4 ? (int)config->attributes[0].value.cluster.x : 1;
    const int n = processors() / 18 * (18 / size) + processors() % 18 / size;
    *clusters = n > 0 ? n : 1;
    return OK;
}

static int refused(const Function *f, const Launch &l)
{
    const uint64_t threads = (uint64_t)l.block.x * l.block.y * l.block.z, most = f->kernel->max_threads ? (unsigned)f->kernel->max_threads : 1024;
    const char *why = nullptr;
    if (threads < 1 || threads > most) why = "the threads of a block are none, or more than its launch bounds";
    else if (l.grid.x < 1 || l.grid.y < 1 || l.grid.z < 1 || l.grid.x > 0x7fffffff) why = "the grid has no blocks, or too many";
    else if (l.shared_bytes > (unsigned)f->dynamic_shared_max) why = "more shared memory than the function is allowed";
    else if (l.cluster < 1 || l.grid.x % l.cluster != 0) why = "the grid does not divide into clusters";
    else if (l.cluster > 16 || (l.cluster > 8 && !f->large_clusters)) why = "the cluster is too large";
    else if (f->kernel->n_params > 64) why = "too many parameters";
    if (why)
        fprintf(stderr, "emulated device: cuLaunchKernelEx: %s: %s\n", f->kernel->name, why);
    return why ? (int)INVALID_VALUE : (int)OK;
}

ENTRY int cuLaunchKernelEx(const LaunchConfig *config, void *function, void **params, void **)
{
    const Function *const f = (Function *)function;
    auto l = std::make_shared<Launch>();
    l->kernel = f->kernel;
    l->name = f->kernel->name;
    l->grid = { config->grid[0], config->grid[1], config->grid[2] };
    l->block = { config->block[0], config->block[1], config->block[2] };
    l->cluster = 1;
    l->early = false;
    l->shared_bytes = config->shared_bytes;
    for (unsigned i = 0; i < config->n_attributes; i++)
        if (config->attributes[i].id == 4) {
            const auto &c = config->attributes[i].value.cluster;
            if (c.y != 1 || c.z != 1)
                return INVALID_VALUE;
            l->cluster = c.x;
        } else if (config->attributes[i].id == 6) {
            l->early = config->attributes[i].value.early;
        }
    const int error = refused(f, *l);
    if (error)
        return error;
    for (int i = 0; i < f->kernel->n_params; i++)
        l->params.push_back(aligned_copy(params[i], f->kernel->param_bytes[i]));
    {
        std::lock_guard<std::mutex> hold(lock);
        l->index = launches++;
    }
    return submit(config->stream, [l] { return run_launch(*l); });
}

// ---- errors

ENTRY int cuGetErrorName(int error, const char **text)
{
    *text = error == OK ? "CUDA_SUCCESS" : error == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == NO_BINARY ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : error == INVALID_IMAGE ? "CUDA_ERROR_INVALID_IMAGE"
          : error == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : error == STREAM_CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
          : error == STREAM_CAPTURE_INVALIDATED ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" : "CUDA_ERROR_UNKNOWN";
    return OK;
}
ENTRY int cuGetErrorString(int error, const char **text)
{
    *text = error == ILLEGAL_ADDRESS || error == LAUNCH_FAILED ? "the emulated device has said on stderr what happened" : "emulated device";
    return OK;
}
