// SPDX-License-Identifier: MIT
// ceiling.c - what the machine can do at most: the figures a kernel's speed is held against.
//
// The CPU's are measured where they are used, by two loops compiled like any kernel: one reads memory, one keeps
// independent multiply-adds (or dot products, or tile products) in flight. A GPU's are known by its model.
#include "tools/work.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// `n` steps; returns operations per step in *per_step. The asm statements keep the compiler from seeing through.
static const char ceiling_source[] =
    "#include <stdint.h>\n"
    "#if __AVX512F__\n#define BYTES 64\n#define ANY \"+v\"\n#elif __AVX2__\n#define BYTES 32\n#else\n#define BYTES 16\n#endif\n"
    "#ifndef ANY\n#if __x86_64__\n#define ANY \"+x\"\n#else\n#define ANY \"+w\"\n#endif\n#endif\n"
    "typedef float V __attribute__((vector_size(BYTES)));\n"
    "typedef double D __attribute__((vector_size(BYTES)));\n"
    "#define EXPORT __attribute__((visibility(\"default\")))\n"
    // Twelve variables and no array: compilers keep arrays in memory, and a store for each operation takes as long.
    "#define N 12\n"
    "#define EACH(DO) DO(a) DO(b) DO(c) DO(d) DO(e) DO(f) DO(g) DO(h) DO(i) DO(j) DO(k) DO(l)\n"
    "#define START(x) x = y,\n"
    "#define MULTIPLY(x) x = x * y + z; __asm__ volatile(\"\" : ANY(x));\n"
    "EXPORT double peak_f32(int64_t n) {\n"
    "    V y = { 0 }, z = { 0 }, EACH(START) ignored = y;\n"
    "    for (int64_t s = 0; s < n; s++) { EACH(MULTIPLY) }\n"
    "    (void)ignored;\n    return 2.0 * N * BYTES / 4;\n}\n"
    "EXPORT double peak_f64(int64_t n) {\n"
    "    D y = { 0 }, z = { 0 }, EACH(START) ignored = y;\n"
    "    for (int64_t s = 0; s < n; s++) { EACH(MULTIPLY) }\n"
    "    (void)ignored;\n    return 2.0 * N * BYTES / 8;\n}\n"
    "#if __AMX_TILE__\n"
    "static void tiles(void) {\n"
    "    struct { uint8_t palette, start, zero[14]; uint16_t columns[16]; uint8_t rows[16]; } c = { 1 };\n"
    "    for (int i = 0; i < 8; i++) c.columns[i] = 64, c.rows[i] = 16;\n"
    "    __asm__ volatile(\"ldtilecfg %0\" : : \"m\"(c));\n}\n"
    "#define TILE_LOOP(OP) tiles(); for (int64_t s = 0; s < n; s++) __asm__ volatile(OP \" %tmm4, %tmm5, %tmm0\\n\" OP \" %tmm4, %tmm6, %tmm1\\n\" OP \" %tmm7, %tmm5, %tmm2\\n\" OP \" %tmm7, %tmm6, %tmm3\\n\"); __asm__ volatile(\"tilerelease\");\n"
    "EXPORT double peak_bf16(int64_t n) { TILE_LOOP(\"tdpbf16ps\") return 4 * 2.0 * 16 * 16 * 32; }\n"
    "EXPORT double peak_i8(int64_t n) { TILE_LOOP(\"tdpbssd\") return 4 * 2.0 * 16 * 16 * 64; }\n"
    "#else\n"
    "#if __AVX512BF16__\n"
    "#define DOT(x) __asm__ volatile(\"vdpbf16ps %1, %1, %0\" : \"+v\"(x) : \"v\"(y));\n"
    "EXPORT double peak_bf16(int64_t n) {\n"
    "    V y = { 0 }, EACH(START) ignored = y;\n"
    "    for (int64_t s = 0; s < n; s++) { EACH(DOT) }\n"
    "    (void)ignored;\n    return 4.0 * N * 16;\n}\n"
    "#endif\n"
    "#if __AVX512VNNI__\n"
    "typedef int32_t I __attribute__((vector_size(BYTES)));\n"
    "#define DOT_BYTES(x) __asm__ volatile(\"vpdpbusd %1, %1, %0\" : \"+v\"(x) : \"v\"(y));\n"
    "EXPORT double peak_i8(int64_t n) {\n"
    "    I y = { 0 }, EACH(START) ignored = y;\n"
    "    for (int64_t s = 0; s < n; s++) { EACH(DOT_BYTES) }\n"
    "    (void)ignored;\n    return 8.0 * N * 16;\n}\n"
    "#endif\n"
    "#endif\n"
    "EXPORT double read_memory(const char *p, int64_t n) {\n"
    "    typedef uint64_t U __attribute__((vector_size(BYTES)));\n"
    "    U s[8] = { 0 };\n"
    "    for (int64_t i = 0; i + 8 * BYTES <= n; i += 8 * BYTES) { _Pragma(\"GCC unroll 8\") for (int j = 0; j < 8; j++) s[j] |= *(const U *)(p + i + j * BYTES); }\n"
    "    for (int j = 1; j < 8; j++) s[0] |= s[j];\n"
    "    return (double)s[0][0];\n}\n";

typedef double Peak(int64_t n);
typedef double Read(const char *p, int64_t n);

typedef struct PeakRun {
    Peak *peak;
    int64_t steps;
    _Atomic double per_step;
} PeakRun; // all threads find the same

static void run_peak(void *context, int64_t first, int64_t last)
{
    PeakRun *const run = context;
    for (int64_t i = first; i < last; i++) run->per_step = run->peak(run->steps);
}

static double measure_peak(Peak *peak)
{
    enum { PIECES = 64, TRIES = 30 }; // the best of many: other programs take their share
    double best = 0;
    PeakRun run = { peak, 10000, 0 };
    for (int i = 0; i < TRIES; i++) {
        const double begin = seconds_now();
        threads_run(PIECES, run_peak, &run);
        const double rate = PIECES * (double)run.steps * run.per_step / (seconds_now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

enum { READ_BYTES = 256 << 20, READ_PIECES = 256 };
typedef struct ReadRun {
    Read *read;
    const char *memory;
} ReadRun;

static void run_read(void *context, int64_t first, int64_t last)
{
    const ReadRun *const run = context;
    enum { PIECE = READ_BYTES / READ_PIECES };
    volatile double sink = run->read(run->memory + first * PIECE, (last - first) * PIECE);
    (void)sink;
}

static double measure_reading(Read *read)
{
    char *const memory = aligned_alloc(4096, READ_BYTES);
    double best = 0;
    if (!memory) return 0;
    memset(memory, 1, READ_BYTES);
    ReadRun run = { read, memory };
    for (int i = 0; i < 5; i++) {
        const double begin = seconds_now();
        threads_run(READ_PIECES, run_read, &run);
        const double rate = READ_BYTES / (seconds_now() - begin);
        best = rate > best ? rate : best;
    }
    free(memory);
    return best;
}

// Which instructions they are matters: AMX's are twenty times as fast as what a kernel computes beside its products.
static const char *name_products(const CpuTarget *target, bool has_dots)
{
    if (target->amx && has_dots) return "measured here: reading memory; AMX's products of tiles in registers";
    return has_dots ? "measured here: reading memory; dot products in registers"
                    : "measured here: reading memory; multiply-adds in registers";
}

static Ceiling measure_cpu(DType type)
{
    Ceiling ceiling = { 0 };
    const CpuTarget target = cpu_target_of_machine();
    char name[HASH_NAME];
    void *object;
    if (cc_build(ceiling_source, &target, CC_KERNEL, "the ceiling", name, &object)) return (Ceiling){ 0 };
    const char *const wanted = type == DTYPE_BF16  ? "peak_bf16"
                               : type == DTYPE_I8  ? "peak_i8"
                               : type == DTYPE_F64 ? "peak_f64"
                                                   : "peak_f32";
    void *peak = dlsym(object, wanted), *const read = dlsym(object, "read_memory");
    ceiling.what = name_products(&target, peak && (type == DTYPE_BF16 || type == DTYPE_I8));
    if (!peak) peak = dlsym(object, "peak_f32");
    Peak *run_it;
    Read *read_it;
    memcpy(&run_it, &peak, sizeof peak);
    memcpy(&read_it, &read, sizeof read);
    ceiling.operations_per_second = measure_peak(run_it);
    ceiling.bytes_per_second = measure_reading(read_it);
    cc_close(object);
    return ceiling;
}

// Best rates seen on these models with power limits in force, not the data sheet's.
static const struct {
    const char *model;
    double bytes, f16, fp8, i8;
} gpus[] = {
    { "H200", 4270e9, 790e12, 1440e12, 1440e12 },
    { "H100", 3000e9, 750e12, 1400e12, 1400e12 },
    { "A100", 1800e9, 290e12, 0, 580e12 },
};

Ceiling ceiling_of(const kiln_device *device, DType type)
{
    if (device_is_cpu(device)) return measure_cpu(type);
    for (int i = 0; i < COUNT(gpus); i++)
        if (strstr(device->description, gpus[i].model))
            return (Ceiling){ gpus[i].bytes,
                              type == DTYPE_I8        ? gpus[i].i8
                              : dtype_bits(type) == 8 ? gpus[i].fp8
                                                      : gpus[i].f16,
                              "of this model in practice: device copy; tensor cores" };
    return (Ceiling){ 0 };
}
