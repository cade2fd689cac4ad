// SPDX-License-Identifier: MIT
// cluster_test.c - clusters and bulk stores on the emulated device: kernels made of the prelude run, and faults planted in them
// are found.
//
// A fault is one piece of a kernel's text replaced by another. Some seeds may miss it; one of those tried must find it,
// and without a fault none may find anything.
#include "base/memory.h"
#include "emit/prelude.h"
#include "runtime/cuda_driver.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 4, CLUSTER = 2, THREADS = 64, STEPS = 8, WIDTH = 64, SHARED = 2048, SEEDS = 8, OUTS = BLOCKS * 32 };

// Both blocks add up the columns of STEPS x WIDTH numbers; each fetches half of every row, for both. Warp 0 fetches.
static const char ring[] =
    "DEVICE void fetch(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t mask)\n"
    "{\n"
    "    asm volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \"\n"
    "                 \"[%0], [%1, {%3}], [%2], %4;\" ::\"r\"(dst), \"l\"(m), \"r\"(bar), \"r\"(x), \"h\"((uint16_t)mask) : \"memory\");\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(64, 1) run(const __grid_constant__ TensorMap map, float *out)\n"
    "{\n"
    "    const uint32_t base = shared_base(), full = base + 1024, empty = full + 16, rank = cluster_rank();\n"
    "    const int32_t lane = threadIdx.x % 32;\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (int32_t i = 0; i < 2; i++) {\n"
    "            mbar_init(full + 8 * i, 1);\n"
    "            mbar_init(empty + 8 * i, 2);\n"
    "        }\n"
    "        mbar_init_done();\n"
    "    }\n"
    "    /* begin */ cluster_sync();\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (int32_t k = 0; k < 8; k++) {\n"
    "            const uint32_t slot = k % 2;\n"
    "            mbar_wait(empty + 8 * slot, (k / 2 + 1) & 1);\n"
    "            mbar_expect(full + 8 * slot, 256);\n"
    "            fetch(base + slot * 256 + rank * 128, &map, full + 8 * slot, k * 64 + rank * 32, 3);\n"
    "        }\n"
    "    } else if (threadIdx.x >= 32) {\n"
    "        const float *const shared = shared_pointer<float>(0);\n"
    "        float sum = 0;\n"
    "        for (int32_t k = 0; k < 8; k++) {\n"
    "            const uint32_t slot = k % 2;\n"
    "            mbar_wait(full + 8 * slot, k / 2 & 1);\n"
    "            sum += shared[slot * 64 + lane] + shared[slot * 64 + 32 + lane];\n"
    "            fence_async();\n"
    "            __syncwarp();\n"
    "            if (lane < 2) mbar_arrive_at(empty + 8 * slot, lane);\n"
    "        }\n"
    "        out[blockIdx.x * 32 + lane] = sum;\n"
    "    }\n"
    "    /* end */ cluster_sync();\n"
    "}\n";

// Each block's warp 1 sends a row to the other block's warp 0, which adds it up and says when it may be overwritten.
static const char exchange[] =
    "DEVICE void remote_store_8(uint32_t to, uint32_t bar, uint32_t x, uint32_t y)\n"
    "{\n"
    "    asm volatile(\"st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%2, %3}, [%1];\"\n"
    "                 ::\"r\"(to), \"r\"(bar), \"r\"(x), \"r\"(y) : \"memory\");\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(64, 1) run(const __grid_constant__ TensorMap map, const float *in, float *out)\n"
    "{\n"
    "    const uint32_t base = shared_base(), full = base + 1024, empty = full + 8, other = cluster_rank() ^ 1;\n"
    "    const int32_t lane = threadIdx.x % 32;\n"
    "    if (threadIdx.x == 0) {\n"
    "        mbar_init(full, 1);\n"
    "        mbar_init(empty, 1);\n"
    "        mbar_init_done();\n"
    "        mbar_expect(full, 256);\n"
    "    }\n"
    "    /* begin */ cluster_sync();\n"
    "    if (threadIdx.x >= 32) {\n"
    "        const uint32_t to = address_at(base, other), bar = address_at(full, other);\n"
    "        for (int32_t k = 0; k < 8; k++) {\n"
    "            const float2 x = *(const float2 *)(in + k * 64 + lane * 2);\n"
    "            mbar_wait(empty, (k + 1) & 1);\n"
    "            remote_store_8(to + lane * 8, bar, __float_as_uint(x.x), __float_as_uint(x.y));\n"
    "        }\n"
    "    } else {\n"
    "        const float *const shared = shared_pointer<float>(0);\n"
    "        float sum = 0;\n"
    "        for (int32_t k = 0; k < 8; k++) {\n"
    "            mbar_wait(full, k & 1);\n"
    "            if (lane == 0 && k < 7) mbar_expect(full, 256);\n"
    "            sum += shared[lane] + shared[32 + lane];\n"
    "            __syncwarp();\n"
    "            if (lane == 0) mbar_arrive_at(empty, other);\n"
    "        }\n"
    "        out[blockIdx.x * 32 + lane] = sum;\n"
    "    }\n"
    "    /* end */ cluster_sync();\n"
    "}\n";

// The same with plain stores and loads: one half of each row is put there, the other is got from there.
static const char plain[] =
    "extern \"C\" __global__ void __launch_bounds__(64, 1) run(const __grid_constant__ TensorMap map, const float *in, float *out)\n"
    "{\n"
    "    const uint32_t base = shared_base(), other = cluster_rank() ^ 1;\n"
    "    const int32_t lane = threadIdx.x % 32;\n"
    "    const uint32_t place = base + threadIdx.x * 4, there = address_at(place, other);\n"
    "    float sum = 0;\n"
    "    for (int32_t k = 0; k < 8; k++) {\n"
    "        const uint32_t x = __float_as_uint(in[k * 64 + threadIdx.x]);\n"
    "        if (threadIdx.x < 32) remote_put_4(there, x);\n"
    "        else shared_pointer<uint32_t>(0)[threadIdx.x] = x;\n"
    "        /* written */ cluster_sync();\n"
    "        if (threadIdx.x < 32) sum += shared_pointer<float>(0)[lane] + __uint_as_float(remote_get_4(there + 128));\n"
    "        /* read */ cluster_sync();\n"
    "    }\n"
    "    if (threadIdx.x < 32) out[blockIdx.x * 32 + lane] = sum;\n"
    "}\n";

// A block's row goes to the tensor by a bulk store, whose reading is waited for first and its writing then.
static const char stored[] =
    "extern \"C\" __global__ void __launch_bounds__(64, 1) run(const __grid_constant__ TensorMap map, const float *in, float *out)\n"
    "{\n"
    "    const uint32_t base = shared_base();\n"
    "    const int32_t lane = threadIdx.x % 32;\n"
    "    volatile float *const place = out + blockIdx.x * 32 + lane;\n"
    "    float sum = 0;\n"
    "    for (int32_t k = 0; k < 8; k++) sum += in[k * 64 + lane] + in[k * 64 + 32 + lane];\n"
    "    if (threadIdx.x < 32) {\n"
    "        *place = -1;\n"
    "        shared_pointer<float>(0)[lane] = sum;\n"
    "        fence_async_tensors();\n"
    "        fence_async();\n"
    "        __syncwarp();\n"
    "        if (lane == 0) {\n"
    "            asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\"\n"
    "                         ::\"l\"(out + blockIdx.x * 32), \"r\"(base), \"r\"(128) : \"memory\");\n"
    "            tma_commit();\n"
    "            tma_wait_read(0);\n"
    "            /* written */ tma_wait_written(0);\n"
    "        }\n"
    "        fence_async_tensors();\n"
    "        __syncwarp();\n"
    "        if (*place != sum) asm volatile(\"trap;\");\n"
    "    }\n"
    "    cluster_sync();\n"
    "}\n";

typedef struct Fault {
    const char *name, *text, *from, *to, *expected;
} Fault;

static const Fault faults[] = {
    { "a buffer is given back to its own block alone", ring, "if (lane < 2) mbar_arrive_at(empty + 8 * slot, lane)",
      "if (lane < 2) mbar_arrive(empty + 8 * slot)", "an asynchronous copy writes, not ordered after" },
    { "nobody waits for a buffer", ring, "mbar_wait(empty + 8 * slot, (k / 2 + 1) & 1);", "",
      "an asynchronous copy writes, not ordered|arrivals at mbarrier" },
    { "a block ends while others write into it", ring, "/* end */ cluster_sync();", "",
      "ends, not ordered after an access|has ended" },
    { "a block ends before others arrive at its barrier", ring, "/* end */ cluster_sync();", "__syncthreads();",
      "ends, not ordered after an access|has ended" },
    { "bytes come before the barrier", ring, "/* begin */ cluster_sync();", "__syncthreads();",
      "not ordered after its initialisation|never initialised" },
    { "barriers without a fence", ring, "        mbar_init_done();\n", "", "no fence.mbarrier_init follows" },
    { "a mask beyond the cluster", ring, "rank * 32, 3)", "rank * 32, 7)", "a mask of 0x7" },
    { "half of the data goes to one block", ring, "rank * 32, 3)", "rank * 32, 1 << rank)",
      "deadlock: nothing can go on" },
    { "another block's barrier is waited for", ring, "mbar_wait(full + 8 * slot, k / 2 & 1)",
      "mbar_wait(address_at(full + 8 * slot, rank ^ 1), k / 2 & 1)", "is another block's" },
    { "arrived, and not waited", ring, "/* begin */ cluster_sync();", "cluster_arrive(); cluster_sync();",
      "has arrived and not waited" },
    { "there is no such rank", ring, "mbar_arrive_at(empty + 8 * slot, lane)",
      "mbar_arrive_at(empty + 8 * slot, lane * 2)", "there is no rank 2" },

    { "nobody waits for what is sent", exchange, "mbar_wait(full, k & 1);", "", // a block ahead arrives twice
      "read, not ordered after the write|not ordered after the read|1 arrivals at mbarrier" },
    { "it is overwritten before it is read", exchange, "mbar_wait(empty, (k + 1) & 1);", "",
      "an asynchronous copy writes, not ordered|transaction" },
    { "it is given back too early", exchange,
      "            sum += shared[lane] + shared[32 + lane];\n            __syncwarp();\n            if (lane == 0) mbar_arrive_at(empty, other);\n",
      "            if (lane == 0) mbar_arrive_at(empty, other);\n            sum += shared[lane] + shared[32 + lane];\n",
      "an asynchronous copy writes, not ordered" },
    { "the barrier is in another block", exchange, "bar = address_at(full, other)", "bar = full",
      "is not in the block of" },
    { "data and barrier are its own", exchange,
      "const uint32_t to = address_at(base, other), bar = address_at(full, other)",
      "const uint32_t to = base, bar = full", "an asynchronous copy writes, not ordered" },
    { "too few bytes are announced", exchange, "mbar_expect(full, 256);\n    }", "mbar_expect(full, 128);\n    }",
      "deadlock|not ordered|arrivals at mbarrier|differ" },
    { "a block sends to one that has ended", exchange, "/* end */ cluster_sync();", "",
      "ends, not ordered after an access|has ended" },
    { "data is put there, and its barrier told by a plain arrival", exchange,
      "remote_store_8(to + lane * 8, bar, __float_as_uint(x.x), __float_as_uint(x.y));",
      "remote_put_4(to + lane * 8, __float_as_uint(x.x)); remote_put_4(to + lane * 8 + 4, __float_as_uint(x.y)); __syncwarp();\n"
      "            if (lane == 0) asm volatile(\"mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 256;\" ::\"r\"(bar));",
      "for the cluster" },

    { "read before all is written", plain, "/* written */ cluster_sync();", "__syncthreads();",
      "read, not ordered after the write" },
    { "overwritten before all is read", plain, "/* read */ cluster_sync();", "__syncthreads();",
      "not ordered after the read|ends, not ordered" },
    { "the barrier releases nothing", plain, "/* written */ cluster_sync();",
      "asm volatile(\"barrier.cluster.arrive.relaxed;\" ::: \"memory\"); cluster_wait();",
      "read, not ordered after the write" },
    { "another block's memory is taken for its own", plain, "remote_put_4(there, x)",
      "asm volatile(\"st.shared.b32 [%0], %1;\" ::\"r\"(there), \"r\"(x))", "is another block's" },

    { "read before the store has written", stored, "/* written */ tma_wait_written(0);", "", "trap" },
};

static char source[1 << 18], said[1 << 16];
static uint64_t numbers, results;
static CuTensorMap map;

static void must(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: error %d\n", what, error);
        exit(1);
    }
}

// false: `from` is not in the text, once
static bool replace(char *text, const char *from, const char *to)
{
    char *const at = strstr(text, from);
    if (!at) return false;
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
    return !strstr(at + strlen(to), from);
}

static bool make_source(const char *text, const char *from, const char *to)
{
    static char kernel[1 << 14];
    strcpy(kernel, text);
    const bool is_once = !from || replace(kernel, from, to);
    Arena *const arena = arena_new();
    if (!arena || setjmp(arena->out_of_memory) != 0) exit(1);
    Text out = { .arena = arena };
    prelude_add_used(&out, &prelude_cuda, kernel);
    snprintf(source, sizeof source, "%s%s", text_cstr(&out), kernel);
    arena_free(arena);
    return is_once;
}

static void *compiled(void **module)
{
    const CudaDriver *const d = cuda_driver();
    char name[HASH_NAME], *cubin;
    size_t n;
    void *function;
    if (nvrtc_build(source, cuda_arch(&gpu_sm_90a, 90), "a kernel", name, &cubin, &n, NULL)) {
        fprintf(stderr, "%s\n", kiln_error_message());
        exit(1);
    }
    must(d->module_load(module, cubin), "loading");
    must(d->module_function(&function, *module, "run"), "the kernel");
    memory_free(cubin);
    return function;
}

// Fills `said` with what the emulator says, and with "differ" if the sums are wrong.
static void launch(void *function, bool is_ring, const char *seed)
{
    static float out[OUTS];
    void *with_input[] = { &map, &numbers, &results }, *without[] = { &map, &results };
    CuLaunchAttribute attribute = { .id = CU_LAUNCH_CLUSTER, .value.cluster = { CLUSTER, 1, 1 } };
    const CuLaunchConfig config = { .grid = { BLOCKS, 1, 1 },
                                    .block = { THREADS, 1, 1 },
                                    .shared_bytes = SHARED,
                                    .attributes = &attribute,
                                    .n_attributes = 1 };
    FILE *const file = tmpfile();
    const int kept = dup(2);
    fflush(stderr);
    dup2(fileno(file), 2);
    setenv("KILN_EMULATOR_SEED", seed, 1);
    int error = cuda_driver()->launch(&config, function, is_ring ? without : with_input, NULL);
    if (!error) error = cuda_driver()->stream_wait(NULL);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    must(cuda_driver()->download(out, results, sizeof out), "reading");
    for (int i = 0; i < OUTS && !error && !strstr(said, "differ"); i++) {
        float sum = 0;
        for (int k = 0; k < STEPS; k++) sum += (float)(k * WIDTH + i % 32) + (float)(k * WIDTH + i % 32 + 32);
        if (!(out[i] == sum)) strcat(said, "sums differ\n");
    }
    if (error && !said[0]) strcpy(said, "an error without a word\n");
}

static bool says_one_of(const char *patterns)
{
    char all[256];
    snprintf(all, sizeof all, "%s", patterns);
    for (char *p = strtok(all, "|"); p; p = strtok(NULL, "|"))
        if (strstr(said, p)) return true;
    return false;
}

static bool runs(const char *name, const char *text)
{
    void *module;
    bool ok = make_source(text, NULL, NULL);
    void *const function = compiled(&module);
    for (int seed = 1; seed <= SEEDS && ok; seed++) {
        char number[16];
        snprintf(number, sizeof number, "%d", seed);
        launch(function, text == ring, number);
        ok = said[0] == 0;
    }
    must(cuda_driver()->module_unload(module), "unloading");
    printf("%s: %s\n%s", ok ? "ok" : "FAIL", name, ok ? "" : said);
    return ok;
}

static bool is_found(const Fault *fault)
{
    void *module;
    if (!make_source(fault->text, fault->from, fault->to)) {
        printf("FAIL: %s: not in the kernel once: %s\n", fault->name, fault->from);
        return false;
    }
    void *const function = compiled(&module);
    bool ok = false;
    for (int seed = 1; seed <= SEEDS && !ok; seed++) {
        char number[16];
        snprintf(number, sizeof number, "%d", seed);
        launch(function, fault->text == ring, number);
        ok = says_one_of(fault->expected);
    }
    must(cuda_driver()->module_unload(module), "unloading");
    printf("%s: %s\n%s", ok ? "ok" : "FAIL", fault->name, ok ? "" : said);
    return ok;
}

static void open_device(void)
{
    const CudaDriver *const d = cuda_driver();
    const uint64_t dims[] = { STEPS * WIDTH };
    const unsigned box[] = { WIDTH / 2 }, one[] = { 1 };
    enum { F32 = 7 };
    void *context;
    float x[STEPS * WIDTH];
    if (!d) {
        fprintf(stderr, "%s\n", cuda_driver_problem());
        exit(1);
    }
    must(d->context_retain(&context, 0), "a context");
    must(d->context_push(context), "the context");
    must(d->memory_alloc(&numbers, sizeof x), "memory");
    must(d->memory_alloc(&results, OUTS * sizeof(float)), "memory");
    for (int i = 0; i < STEPS * WIDTH; i++) x[i] = (float)i;
    must(d->upload(numbers, x, sizeof x), "writing");
    must(d->tensor_map(&map, F32, 1, (void *)(uintptr_t)numbers, dims, NULL, box, one, 0, 0, 0, 0), "a tensor map");
}

int main(void)
{
    int failed = 0;
    open_device();
    failed += !runs("multicast", ring);
    failed += !runs("stores that a barrier counts", exchange);
    failed += !runs("plain stores and loads", plain);
    failed += !runs("a bulk store", stored);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) failed += !is_found(&faults[i]);
    printf("%d failed\n", failed);
    return failed != 0;
}
