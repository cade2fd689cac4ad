// SPDX-License-Identifier: MIT
// device_cuda.c - NVIDIA GPUs, through libcuda alone.
//
// The device's primary context is used, as the CUDA runtime of other libraries does, so that their pointers and
// streams are ours too. It is pushed for the length of a call and popped again: the caller's thread keeps its own.
//
// A launch allocates nothing, waits for nothing and calls nothing back, so it can be captured into a graph. What has to be
// built for it is loaded beside the capture.
#include "runtime/runtime.h"
#include "runtime/cuda_driver.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>

// Closing the last use of a device whose context was poisoned by a fault destroys that context; opening makes another, if
// the driver lets the process have one.
static _Atomic bool met_a_fault;

// After these the driver answers every call on the context with the same error.
static bool poisons_context(int error) { return error == CU_ILLEGAL_ADDRESS || (error >= 714 && error <= 719); }

// Threads that meet the same fault at once read its record one after another.
static void note_fault(kiln_device *device, int error, char trap[sizeof device->trap])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    device->poisoned |= poisons_context(error);
    met_a_fault |= device->poisoned;
    if (device->poisoned && device->fault && device->fault->taken) {
        const int length = (int)strnlen(device->fault->text, sizeof device->fault->text);
        snprintf(device->trap, sizeof device->trap, "%.*s (block %u)", length, device->fault->text,
                 device->fault->block);
        *device->fault = (FaultRecord){ 0 };
    }
    memcpy(trap, device->trap, sizeof device->trap);
    if (!device->poisoned) trap[0] = 0;
    pthread_mutex_unlock(&lock);
}

static kiln_status fail_cuda(kiln_device *device, int error, const char *doing)
{
    char trap[sizeof device->trap];
    note_fault(device, error, trap);
    if (trap[0])
        return status_fail(KILN_TRAPPED,
                           "%s; %s must be closed and opened again, by another process if the driver "
                           "refuses",
                           trap, device->name);
    const CudaDriver *const d = cuda_driver();
    const char *name = "unknown error", *text = "";
    d->error_name(error, &name);
    d->error_text(error, &text);
    if (error == CU_NO_BINARY)
        return status_fail(KILN_UNSUPPORTED,
                           "%s is sm_%d, and the code was compiled for another generation (build it for "
                           "this device)",
                           device->name, device->arch);
    if (error == CU_OUT_OF_MEMORY)
        return status_fail(KILN_OUT_OF_MEMORY, "%s: out of device memory %s", device->name, doing);
    return status_fail(KILN_DEVICE_FAILED, "%s: %s (%s) %s", device->name, name, text ? text : "", doing);
}

static kiln_status enter(kiln_device *device)
{
    const int error = device->native ? cuda_driver()->context_push(device->native) : 0;
    if (!device->native) return status_fail(KILN_BAD_DEVICE, "%s is closed", device->name);
    return error ? fail_cuda(device, error, "using its context") : KILN_OK;
}

static void leave(void)
{
    void *context;
    cuda_driver()->context_pop(&context);
}

// ---- the device

static int cuda_count(void)
{
    const CudaDriver *const d = cuda_driver();
    int n = 0;
    return d && d->device_count(&n) == 0 ? n : 0;
}

static int attribute(const kiln_device *device, int which)
{
    int value = 0;
    cuda_driver()->device_attribute(&value, which, device->ordinal);
    return value;
}

enum { BLANK_BYTES = 128 }; // of zeros, and as many to be written

// With unified addressing, which every 64-bit system has, the device reaches the record under the same address.
static int open_memory(kiln_device *device)
{
    static const char zeros[2 * BLANK_BYTES];
    const CudaDriver *const d = cuda_driver();
    void *memory = NULL;
    int error = d->context_push(device->native);
    if (error) return error;
    error = d->host_alloc(&memory, sizeof *device->fault, CU_HOST_PORTABLE | CU_HOST_MAPPED);
    device->fault = memory;
    if (!error) *device->fault = (FaultRecord){ 0 };
    if (!error) error = d->memory_alloc(&device->blank, sizeof zeros);
    if (!error) error = d->upload(device->blank, zeros, sizeof zeros);
    if (!error) error = d->stream_wait(NULL);
    leave();
    return error;
}

static void close_memory(kiln_device *device)
{
    const CudaDriver *const d = cuda_driver();
    if ((device->fault || device->blank) && d->context_push(device->native) == 0) {
        if (device->fault) d->host_free(device->fault);
        if (device->blank) d->memory_free(device->blank);
        leave();
    }
    device->fault = NULL;
    device->blank = 0;
}

static kiln_status fail_open(kiln_device *device, int error)
{
    const char *name = "unknown error";
    device->native = NULL;
    if (!met_a_fault || !poisons_context(error)) return fail_cuda(device, error, "opening it");
    cuda_driver()->error_name(error, &name);
    return status_fail(KILN_DEVICE_FAILED,
                       "%s: %s opening it: the driver takes nothing more from this process after the fault it met; "
                       "only another process can go on",
                       device->name, name);
}

static kiln_status cuda_open(kiln_device *device)
{
    const CudaDriver *const d = cuda_driver();
    char name[96] = "GPU";
    if (!d) return status_fail(KILN_NOT_FOUND, "%s: %s", device->name, cuda_driver_problem());
    if (device->index >= cuda_count())
        return status_fail(KILN_NOT_FOUND, "%s: there %s", device->name,
                           cuda_count() == 1   ? "is one GPU, cuda:0"
                           : cuda_count() == 0 ? "is no GPU"
                                               : "are fewer GPUs");
    int error = d->device_get(&device->ordinal, device->index);
    if (!error) error = d->context_retain(&device->native, device->ordinal);
    if (error) return fail_open(device, error);
    if ((error = open_memory(device)) != 0) {
        close_memory(device);
        d->context_release(device->ordinal);
        return fail_open(device, error);
    }
    d->device_name(name, sizeof name, device->ordinal);
    device->arch = attribute(device, CU_ATTR_MAJOR) * 10 + attribute(device, CU_ATTR_MINOR);
    device->processors = attribute(device, CU_ATTR_PROCESSORS);
    device->shared_bytes_max = attribute(device, CU_ATTR_SHARED_BYTES_MAX);
    snprintf(device->description, sizeof device->description, "%s, sm_%d, %d SMs, driver for CUDA %d.%d", name,
             device->arch, device->processors, d->version / 1000, d->version % 1000 / 10);
    return KILN_OK;
}

static void cuda_close(kiln_device *device)
{
    close_memory(device);
    // A poisoned context is of no use to whoever shares it either; without the reset the next one opened is it again.
    if (device->poisoned) cuda_driver()->context_reset(device->ordinal);
    cuda_driver()->context_release(device->ordinal);
    device->native = NULL;
    device->poisoned = false;
    device->trap[0] = 0;
}

// ---- memory

static kiln_status cuda_alloc(kiln_device *device, size_t bytes, void **memory)
{
    uint64_t address = 0;
    char doing[64];
    kiln_status status = enter(device);
    if (status) return status;
    const int error = cuda_driver()->memory_alloc(&address, bytes ? bytes : 1);
    leave();
    snprintf(doing, sizeof doing, "for %zu bytes", bytes);
    if (error) return fail_cuda(device, error, doing);
    *memory = (void *)(uintptr_t)address;
    return KILN_OK;
}

static void cuda_free(kiln_device *device, void *memory)
{
    if (enter(device)) return;
    cuda_driver()->memory_free((uintptr_t)memory);
    leave();
}

static kiln_status cuda_alloc_host(kiln_device *device, size_t bytes, void **memory)
{
    const kiln_status status = enter(device);
    if (status) return status;
    const int error = cuda_driver()->host_alloc(memory, bytes ? bytes : 1, CU_HOST_PORTABLE | CU_HOST_MAPPED);
    leave();
    if (error == CU_OUT_OF_MEMORY)
        return status_fail(KILN_OUT_OF_MEMORY, "%s: out of pinned host memory for %zu bytes", device->name, bytes);
    return error ? fail_cuda(device, error, "pinning host memory") : KILN_OK;
}

static void cuda_free_host(kiln_device *device, void *memory)
{
    if (enter(device)) return;
    cuda_driver()->host_free(memory);
    leave();
}

static kiln_status cuda_upload(kiln_device *device, void *memory, const void *host, size_t bytes)
{
    const kiln_status status = enter(device);
    if (status) return status;
    // The driver may return when it has read the host's memory: streams that wait for no other would overtake the rest.
    int error = cuda_driver()->upload((uintptr_t)memory, host, bytes);
    if (!error) error = cuda_driver()->stream_wait(NULL);
    leave();
    return error ? fail_cuda(device, error, "copying to it") : KILN_OK;
}

static kiln_status cuda_download(kiln_device *device, void *host, const void *memory, size_t bytes)
{
    const kiln_status status = enter(device);
    if (status) return status;
    const int error = cuda_driver()->download(host, (uintptr_t)memory, bytes);
    leave();
    return error ? fail_cuda(device, error, "copying from it") : KILN_OK;
}

// ---- streams and events

static void *native_stream(const kiln_stream *stream) { return stream ? stream->native : NULL; }

static kiln_status cuda_stream_open(kiln_stream *stream)
{
    const kiln_status status = enter(stream->device);
    if (status) return status;
    const int error = cuda_driver()->stream_create(&stream->native, CU_STREAM_NON_BLOCKING);
    leave();
    return error ? fail_cuda(stream->device, error, "opening a stream") : KILN_OK;
}

static void cuda_stream_close(kiln_stream *stream)
{
    if (enter(stream->device)) return;
    cuda_driver()->stream_destroy(stream->native);
    leave();
}

// What failed on the device since the last wait shows here; the kernel launched last is the likeliest cause.
static kiln_status cuda_stream_wait(kiln_device *device, kiln_stream *stream)
{
    char doing[224];
    const kiln_status status = enter(device);
    if (status) return status;
    const int error = cuda_driver()->stream_wait(native_stream(stream));
    leave();
    if (!error) return KILN_OK;
    snprintf(doing, sizeof doing,
             "waiting for its work%s%s; close and open the device to go on, in another process if the driver refuses",
             device->last_kernel[0] ? "; launched last: " : "", device->last_kernel);
    return fail_cuda(device, error, doing);
}

static kiln_status cuda_event_open(kiln_event *event)
{
    const kiln_status status = enter(event->device);
    if (status) return status;
    const int error = cuda_driver()->event_create(&event->native, 0);
    leave();
    return error ? fail_cuda(event->device, error, "opening an event") : KILN_OK;
}

static void cuda_event_close(kiln_event *event)
{
    if (enter(event->device)) return;
    cuda_driver()->event_destroy(event->native);
    leave();
}

static kiln_status cuda_event_record(kiln_event *event, kiln_stream *stream)
{
    const kiln_status status = enter(event->device);
    if (status) return status;
    const int error = cuda_driver()->event_record(event->native, native_stream(stream));
    leave();
    return error ? fail_cuda(event->device, error, "recording an event") : KILN_OK;
}

static kiln_status cuda_event_wait(kiln_event *event)
{
    const kiln_status status = enter(event->device);
    if (status) return status;
    const int error = cuda_driver()->event_wait(event->native);
    leave();
    return error ? fail_cuda(event->device, error, "waiting for an event") : KILN_OK;
}

static kiln_status cuda_event_elapsed(kiln_event *begin, kiln_event *end, double *milliseconds)
{
    float ms = 0;
    const kiln_status status = enter(begin->device);
    if (status) return status;
    int error = cuda_driver()->event_wait(end->native);
    if (!error) error = cuda_driver()->event_elapsed(&ms, begin->native, end->native);
    leave();
    *milliseconds = ms;
    return error ? fail_cuda(begin->device, error, "reading events") : KILN_OK;
}

// ---- tensor maps: descriptors for TMA, kept from launch to launch

enum { MAPS_KEPT_BITS = 6 }; // as many tensors, such as the caches of a model's layers, may take turns

// What a map is made from, apart from the plan.
typedef struct MapKey {
    uint64_t base, unusable;
    uint64_t dims[5], strides[5];
    unsigned box[5], steps[5];
    int first[3], last[3]; // of dimensions that are walked
} MapKey;
typedef struct KeptMap {
    uint64_t words[16];
    int64_t base, computed[PLAN_MAP_COMPUTED]; // what its key was made from
    bool used;
} KeptMap;
typedef struct MapCache {
    int word; // of a launch, in which the tensor's address is
    KeptMap kept[1 << MAPS_KEPT_BITS];
} MapCache; // of one of the plan's maps

static KeptMap *kept_map(MapCache *cache, int64_t base)
{
    return &cache->kept[(uint64_t)base * UINT64_C(0x9E3779B97F4A7C15) >> (64 - MAPS_KEPT_BITS)];
}

// clang-format off
static const signed char map_types[DTYPE_COUNT] = {        // CUtensorMapDataType + 1
    [DTYPE_F64] = 9, [DTYPE_F32] = 8, [DTYPE_TF32] = 8, [DTYPE_F16] = 7, [DTYPE_BF16] = 10, [DTYPE_E4M3] = 1, [DTYPE_E5M2] = 1,
    [DTYPE_E2M1] = 1, [DTYPE_INT] = 6, [DTYPE_I64] = 6, [DTYPE_I32] = 4, [DTYPE_I16] = 2, [DTYPE_I8] = 1, [DTYPE_I4] = 1,
    [DTYPE_I2] = 1, [DTYPE_U64] = 5, [DTYPE_U32] = 3, [DTYPE_U16] = 2, [DTYPE_U8] = 1, [DTYPE_U4] = 1, [DTYPE_U2] = 1,
    [DTYPE_BOOL] = 1, [DTYPE_E8M0] = 1,
};
// clang-format on

static int map_element_bytes(DType type) { return dtype_bits(type) < 8 ? 1 : dtype_bits(type) / 8; }

// No map is empty. What has no elements is seen as one that is 0, or that is written to no purpose: every other is outside.
static MapKey key_of_nothing(const kiln_device *device, const LaunchPlan *plan, const PlanMap *map)
{
    MapKey key = { .steps = { 1, 1, 1, 1, 1 },
                   .base = device->blank + (plan->params[map->param].access & ACCESS_OUT ? BLANK_BYTES : 0) };
    for (int i = 0; i < map->rank; i++) {
        key.dims[i] = 1;
        key.strides[i] = 16;
        key.box[i] = (unsigned)map->box[i];
    }
    return key;
}

// Steps are 1 to 8; a box reaches over what lies between its elements.
static void take_steps(const PlanMap *map, const int64_t *steps, MapKey *key)
{
    enum { STEP_MAX = 8, BOX_MAX = 256 };
    for (int i = 0; map->has_steps && i < map->rank; i++) {
        const int64_t step = steps[i];
        const bool fits = step >= 1 && step <= STEP_MAX && (map->n_walked || (map->box[i] - 1) * step < BOX_MAX);
        if (!fits) key->unusable = 1;
        else if (!map->n_walked) key->box[i] = (unsigned)((map->box[i] - 1) * step + 1);
        key->steps[i] = fits ? (unsigned)step : 1;
    }
}

// Corners have as many bits as the dimensions leave them.
static void take_walks(const PlanMap *map, const int64_t *corners, MapKey *key)
{
    static const int bits[] = { 0, 16, 8, 5 };
    for (int i = 0; i < map->n_walked; i++) {
        const int64_t half = INT64_C(1) << (bits[map->n_walked] - 1), first = corners[2 * i], last = corners[2 * i + 1];
        if (first < -half || first >= half || last < -half || last >= half ||
            first > (int64_t)key->dims[1 + i] - 1 + last)
            key->unusable = 1;
        key->first[i] = (int)first;
        key->last[i] = (int)last;
    }
}

// `computed`: as plan_map_computed says.
static kiln_status make_key(const kiln_device *device, const Launch *launch, const PlanMap *map, int64_t base,
                            const int64_t *computed, MapKey *key)
{
    const int bytes = map_element_bytes(map->type);
    const char *const name = launch->plan->params[map->param].name;
    *key = key_of_nothing(device, launch->plan, map);
    key->base = (uint64_t)base;
    if (key->base % 16 != 0)
        return status_fail(KILN_BAD_ALIGNMENT, "%s: '%s' starts at %#" PRIx64 ", which is not aligned to 16 bytes",
                           launch->plan->name, name, key->base);
    for (int i = 0; i < map->rank; i++) {
        const int64_t dim = computed[2 * i];
        if (dim < 1 && !map->n_walked) return *key = key_of_nothing(device, launch->plan, map), KILN_OK;
        if (dim < 1) return key->unusable = 1, KILN_OK;
        key->dims[i] = (uint64_t)dim;
        key->strides[i] = i == 0 ? (uint64_t)bytes : (uint64_t)(computed[2 * i + 1] * bytes);
        if (key->dims[i] > UINT64_C(1) << 32)
            return status_fail(KILN_BAD_SHAPE,
                               "%s: '%s' has %" PRIu64 " elements in one dimension; copies of this kernel "
                               "reach 2^32",
                               launch->plan->name, name, key->dims[i]);
        if (i > 0 && (key->strides[i] % 16 != 0 || key->strides[i] >> 40)) key->unusable = 1;
    }
    take_steps(map, computed + 2 * map->rank, key);
    take_walks(map, computed + 3 * map->rank, key);
    return KILN_OK;
}

static kiln_status encode_map(kiln_device *device, const Launch *launch, const PlanMap *map, const MapKey *key,
                              CuTensorMap *out)
{
    const unsigned *const box = key->box;
    const int swizzle = map->swizzle == 128 ? 3 : map->swizzle == 64 ? 2 : map->swizzle == 32 ? 1 : 0;
    enum { NO_INTERLEAVE = 0, PROMOTE_128 = 2, FILL_ZERO = 0 };
    const CudaDriver *const d = cuda_driver();
    void *const memory = (void *)(uintptr_t)key->base;
    const int type = map_types[map->type] - 1;
    const unsigned rank = (unsigned)map->rank;
    const int error = map->n_walked ? d->tensor_map_im2col(out, type, rank, memory, key->dims, key->strides + 1,
                                                           key->first, key->last, box[0], box[1], key->steps,
                                                           NO_INTERLEAVE, swizzle, PROMOTE_128, FILL_ZERO)
                                    : d->tensor_map(out, type, rank, memory, key->dims, key->strides + 1, box,
                                                    key->steps, NO_INTERLEAVE, swizzle, PROMOTE_128, FILL_ZERO);
    if (!error) return KILN_OK;
    char doing[192];
    snprintf(doing, sizeof doing, "describing '%s' of %s to the copy engine (rank %d, box %u x %u, swizzle %d)",
             launch->plan->params[map->param].name, launch->plan->name, map->rank, box[0], map->rank > 1 ? box[1] : 1,
             map->swizzle);
    return fail_cuda(device, error, doing);
}

static kiln_status make_map(kiln_device *device, const Launch *launch, const PlanMap *map, int64_t base,
                            const int64_t *computed, CuTensorMap *out)
{
    MapKey key;
    const kiln_status status = make_key(device, launch, map, base, computed, &key);
    // The copy engine takes no such strides: kernels test for them and copy another way.
    if (!status && key.unusable) memset(out, 0, sizeof *out);
    return status || key.unusable ? status : encode_map(device, launch, map, &key, out);
}

static kiln_status find_or_make_map(kiln_kernel *kernel, const Launch *launch, int i, const int64_t *computed,
                                    CuTensorMap *out)
{
    const PlanMap *const map = &launch->plan->maps[i];
    const size_t bytes = sizeof *computed * (size_t)plan_map_computed(map);
    MapCache *const cache = (MapCache *)kernel->map_cache + i;
    const int64_t base = launch->words[cache->word];
    KeptMap *const kept = kept_map(cache, base);
    if (kept->used && kept->base == base && memcmp(kept->computed, computed, bytes) == 0)
        return memcpy(out, kept->words, sizeof *out), KILN_OK;
    const kiln_status status = make_map(kernel->device, launch, map, base, computed, out);
    if (status) return status;
    *kept = (KeptMap){ .base = base, .used = true };
    memcpy(kept->computed, computed, bytes);
    memcpy(kept->words, out, sizeof *out);
    return KILN_OK;
}

// ---- loading and launching

static unsigned blocks_of_cluster(const LaunchPlan *plan)
{
    unsigned n = 1;
    for (int i = 0; i < 3; i++) n *= plan->cluster[i] > 1 ? (unsigned)plan->cluster[i] : 1;
    return n;
}

// A kernel that waits for the launches before it is started when their blocks have ended, and not when all they wrote has
// reached memory. Streams can be captured with such launches since 12.3.
static CuLaunchConfig launch_config(const LaunchPlan *plan, unsigned blocks, CuLaunchAttribute attributes[2])
{
    const unsigned cluster = blocks_of_cluster(plan);
    unsigned n = 0;
    if (cluster > 1)
        attributes[n++] = (CuLaunchAttribute){ .id = CU_LAUNCH_CLUSTER, .value.cluster = { cluster, 1, 1 } };
    if (plan->follows && cuda_driver()->version >= 12030)
        attributes[n++] = (CuLaunchAttribute){ .id = CU_LAUNCH_EARLY, .value.early = 1 };
    return (CuLaunchConfig){ .grid = { blocks, 1, 1 },
                             .block = { (unsigned)plan->threads, 1, 1 },
                             .shared_bytes = (unsigned)plan->dynamic_shared_bytes,
                             .attributes = attributes,
                             .n_attributes = n };
}

// A cluster lies within one part of the device, and the parts' multiprocessors are not always a multiple of it.
static int count_clusters(kiln_kernel *kernel)
{
    CuLaunchAttribute attributes[2];
    const CuLaunchConfig config = launch_config(kernel->plan, blocks_of_cluster(kernel->plan), attributes);
    return cuda_driver()->cluster_occupancy(&kernel->clusters, kernel->function, &config);
}

// The driver refuses to load and to unload while a stream is captured, and ends the capture, unless the thread says that it
// knows what it does: nothing of it becomes part of a graph.
static kiln_status enter_beside_captures(kiln_device *device, int *mode)
{
    const kiln_status status = enter(device);
    *mode = CU_CAPTURE_RELAXED;
    if (!status) cuda_driver()->capture_mode(mode);
    return status;
}

static void leave_beside_captures(int mode)
{
    cuda_driver()->capture_mode(&mode);
    leave();
}

// Room for the maps of a kernel.
static bool open_maps(kiln_kernel *kernel)
{
    const LaunchPlan *const plan = kernel->plan;
    int words[PLAN_MAX_PARAMS];
    MapCache *const caches = memory_alloc(sizeof *caches * (size_t)plan->n_maps);
    launch_address_words(plan, words);
    for (int i = 0; caches && i < plan->n_maps; i++) caches[i].word = words[plan->maps[i].param];
    kernel->map_cache = caches;
    return caches != NULL;
}

kiln_status cuda_load(kiln_kernel *kernel)
{
    const CudaDriver *const d = cuda_driver();
    const LaunchPlan *const plan = kernel->plan;
    kiln_device *const device = kernel->device;
    if (plan->dynamic_shared_bytes + kernel->report.static_shared_bytes > device->shared_bytes_max)
        return status_fail(KILN_UNSUPPORTED, "%s: needs %d bytes of shared memory, %s has %" PRId64, plan->name,
                           plan->dynamic_shared_bytes + kernel->report.static_shared_bytes, device->name,
                           device->shared_bytes_max);
    if (!open_maps(kernel)) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    int mode;
    const kiln_status status = enter_beside_captures(device, &mode);
    if (status) return status;
    int error = d->module_load(&kernel->module, kernel->cubin);
    if (!error) error = d->module_function(&kernel->function, kernel->module, plan->symbol);
    if (!error && plan->dynamic_shared_bytes > 0)
        error = d->function_set(kernel->function, CU_FUNCTION_DYNAMIC_SHARED, plan->dynamic_shared_bytes);
    if (!error && plan->cluster[0] > 8) error = d->function_set(kernel->function, CU_FUNCTION_LARGE_CLUSTERS, 1);
    if (!error && blocks_of_cluster(plan) > 1) error = count_clusters(kernel);
    leave_beside_captures(mode);
    char doing[96];
    snprintf(doing, sizeof doing, "loading %s", plan->name);
    return error ? fail_cuda(device, error, doing) : KILN_OK;
}

static void cuda_unload(kiln_kernel *kernel)
{
    int mode;
    memory_free(kernel->map_cache);
    if (kernel->trace) cuda_free(kernel->device, kernel->trace);
    if (!kernel->module || enter_beside_captures(kernel->device, &mode)) return;
    cuda_driver()->module_unload(kernel->module);
    leave_beside_captures(mode);
}

enum { PARAM_BYTES = PLAN_MAX_WORDS * 8 + 64 + PLAN_MAX_MAPS * 128 + (PLAN_MAX_EXTRAS + 2) * 8 };

static kiln_status fill_maps(kiln_kernel *kernel, const Launch *launch, const int64_t *computed, char *params)
{
    const LaunchPlan *const plan = launch->plan;
    kiln_status status = KILN_OK;
    if (plan->n_maps == 0) return KILN_OK;
    pthread_mutex_lock(&kernel->lock);
    for (int i = 0; !status && i < plan->n_maps; i++, params += sizeof(CuTensorMap)) {
        status = find_or_make_map(kernel, launch, i, computed, (CuTensorMap *)params);
        computed += plan_map_computed(&plan->maps[i]);
    }
    pthread_mutex_unlock(&kernel->lock);
    return status;
}

// Words, maps, extras, as plan.h says.
static kiln_status fill_params(kiln_kernel *kernel, const Launch *launch, char *params)
{
    const LaunchPlan *const plan = launch->plan;
    const size_t extras_bytes = (size_t)plan->n_extras * 8;
    size_t at = (size_t)launch->n_words * 8;
    memcpy(params, launch->words, at);
    if (plan->n_maps) at = (at + 63) & ~(size_t)63;
    kiln_status status = fill_maps(kernel, launch, launch->computed, params + at);
    at += (size_t)plan->n_maps * sizeof(CuTensorMap);
    memcpy(params + at, launch->computed + launch->n_computed - plan->n_extras, extras_bytes);
    at += extras_bytes;
    if (!status && plan->traps) {
        const uint64_t record = (uintptr_t)kernel->device->fault;
        memcpy(params + at, &record, sizeof record);
        at += sizeof record;
    }
    if (!status && plan->traces && !kernel->trace)
        status = status_fail(KILN_UNSUPPORTED, "%s: is traced, and nothing says which of its blocks", plan->name);
    if (!status && plan->traces) {
        const uint64_t trace = (uintptr_t)kernel->trace;
        memcpy(params + at, &trace, sizeof trace);
        at += sizeof trace;
    }
    if (!status && at > PLAN_ARGUMENT_BYTES)
        status = status_fail(KILN_UNSUPPORTED, "%s: its arguments take %zu bytes, a launch carries %d",
                             launch->plan->name, at, PLAN_ARGUMENT_BYTES);
    return status;
}

static kiln_status count_blocks(const kiln_kernel *kernel, const Launch *launch, unsigned *blocks)
{
    int64_t n = launch->instances;
    const unsigned cluster = blocks_of_cluster(launch->plan);
    int64_t slots =
        (int64_t)kernel->device->processors * (launch->plan->blocks_per_sm ? launch->plan->blocks_per_sm : 1);
    if (kernel->clusters > 0 && (int64_t)kernel->clusters * cluster < slots)
        slots = (int64_t)kernel->clusters * cluster;
    if (n % cluster != 0)
        return status_fail(KILN_BAD_SHAPE, "%s: %" PRId64 " instances do not divide into clusters of %u",
                           launch->plan->name, n, cluster);
    if (launch->plan->persistent && n > slots) n = slots > cluster ? slots / cluster * cluster : cluster;
    if (n > INT32_MAX)
        return status_fail(KILN_BAD_SHAPE, "%s: %" PRId64 " instances; a launch holds 2^31 - 1", launch->plan->name, n);
    *blocks = (unsigned)n;
    return KILN_OK;
}

static kiln_status cuda_launch(kiln_kernel *kernel, kiln_stream *stream, const Launch *launch)
{
    _Alignas(64) char params[PARAM_BYTES];
    const LaunchPlan *const plan = launch->plan;
    unsigned blocks = 0;
    kiln_status status = count_blocks(kernel, launch, &blocks);
    if (!status) status = enter(kernel->device);
    if (status) return status;
    if ((status = fill_params(kernel, launch, params)) != KILN_OK) { // maps are made in a context, too
        leave();
        return status;
    }
    CuLaunchAttribute attributes[2];
    CuLaunchConfig config = launch_config(plan, blocks, attributes);
    config.stream = native_stream(stream);
    void *pointers[] = { params };
    const int error = cuda_driver()->launch(&config, kernel->function, pointers, NULL);
    leave();
    strncpy(kernel->device->last_kernel, plan->name, sizeof kernel->device->last_kernel - 1);
    if (!error) return KILN_OK;
    char doing[160];
    snprintf(doing, sizeof doing, "launching %s (%u blocks of %d threads, %d bytes of shared memory)", plan->name,
             blocks, plan->threads, plan->dynamic_shared_bytes);
    return fail_cuda(kernel->device, error, doing);
}

const DeviceKind device_kind_cuda = {
    .name = "cuda",
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .upload = cuda_upload,
    .download = cuda_download,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_wait = cuda_stream_wait,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_elapsed = cuda_event_elapsed,
    .unload = cuda_unload,
    .launch = cuda_launch,
};
