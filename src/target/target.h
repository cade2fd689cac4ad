// SPDX-License-Identifier: MIT
// target.h - what Kiln compiles for: a row for each target, and for each GPU what its instructions can do.
//
// A TargetKind is a row of target.c: a name, the passes, the lowering, the dialect of the emitted text, the toolchain. The
// device that runs the code has the same name (runtime/device.c). Which instructions there are is said by capabilities:
// CpuTarget (the forms of CPU code are rows of toolchain/isa.c) and GpuTarget (rows of gpu.c). Code that decides reads
// capabilities, never a name or the number of an architecture: with what one row lacks, a decision is tested for all.
//
// Another generation of NVIDIA GPUs, such as Blackwell with products whose accumulators are in tensor memory (tcgen05):
//   adds     a row in gpu.c with a row of MmaShape, kind MMA_TENSOR_MEMORY; a capability `tensor_memory_columns`;
//            src/lower/cuda/tcgen05.c (the printer of those products, beside wgmma.c) and prelude/tensor_memory.cuh
//   changes  products.c (uses_wgmma: the kind that is taken), registers.c (accumulators are no registers of a thread),
//            memory.c (columns are assigned as bytes are), launch.c (its prelude), the layouts of accumulators in
//            src/layout/tensor_core.c
//   leaves   passes, checker, CPU, emission, runtime, rings, copies, clusters: their capabilities are the row's
//
// A target with another language, such as HIP (MFMA, waves of 64 lanes, LDS):
//   adds     a row in target.c, rows in gpu.c (no tma, no mbarriers, no async proxy; lanes 64; MFMA as rows of MmaShape);
//            a dialect in emit/dialect.c; prelude texts with the functions that src/lower/cuda/prelude declares;
//            src/lower/cuda/mfma.c (the printer of its products) and its accumulators in src/layout/tensor_core.c;
//            src/toolchain/hiprtc.c; src/runtime/device_hip.c
//   changes  runtime/device.c (a row of its table), check/scope.c nothing: words of targets are these rows' names;
//            src/layout/layout.h: WARP_LANES becomes a field of Partition, and with it the shuffles of reduce.c and scan.c
//   leaves   passes, checker, CPU, plan; of decisions those that ask for the capabilities that it lacks
#ifndef KILN_TARGET_TARGET_H
#define KILN_TARGET_TARGET_H

#include "ir/loop.h"
#include "plan/plan.h"

// ---- CPUs

typedef enum {
    ISA_PORTABLE,
    ISA_AVX2,
    ISA_AVX512,
    ISA_NEON,
    ISA_SVE256
} CpuIsa; // of one machine: each has those before it
typedef struct CpuTarget {
    CpuIsa isa;
    bool bf16, vnni, amx; // dot products of pairs of bf16, of four bytes; tile registers
} CpuTarget;

// ---- GPUs

typedef enum { MMA_WARP, MMA_WARP_GROUP } MmaKind; // who issues it: mma.sync, wgmma

// A family of MMA instructions: D[m][n] += A[m][k] * B[k][n] with accumulators in the registers of those who issue it.
typedef struct MmaShape {
    MmaKind kind;
    int m, n, n_max;    // n: the least, and the step between those that there are
    int k_bytes;        // of a row of A, whatever the type
    bool in_flight;     // it is issued, and waited for later
    const DType *types; // of A and B, until DTYPE_NONE
} MmaShape;

typedef struct GpuTarget {
    int arch;          // ARCH of a source, and what options name
    const char *name;  // of the code that is made: "sm_90a"
    const char *title; // of the machines: "Hopper"
    bool exact;        // its code runs on this arch alone; else on all later ones
    // machine
    int warp_lanes;
    int registers, thread_registers; // of a multiprocessor; that one thread addresses
    int shared_bytes_max; // of a CTA. What runs on later machines, too, is refused by a launch where they have less
    // instructions
    const MmaShape *mma; // until one without m
    bool cp_async;       // threads copy to shared memory and wait later
    bool tma;            // one thread copies boxes of tensors, which mbarriers announce
    bool mbarriers;      // threads wait for a count of arrivals and bytes in shared memory
    bool async_proxy;    // copies and products reach shared memory by a proxy that sees threads' stores after a fence
    bool converts_fp8;   // fp8 to f16 by an instruction
    bool stmatrix;       // a warp stores accumulators as rows
    bool clusters;       // CTAs reach each other's shared memory
    bool setmaxnreg;     // warp groups hand registers over
    bool early_launch;   // a kernel may start before the one before it has ended, and waits itself
} GpuTarget;

extern const GpuTarget gpu_sm_90a, gpu_sm_80;

const GpuTarget *gpu_find(int arch);                         // NULL: there is none
const GpuTarget *gpu_for_device(int device_arch);            // the best whose code runs there, or the oldest
bool gpu_code_runs(const GpuTarget *gpu, int device_arch);   // there
const char *gpu_list(char *text, size_t bytes);              // "90 (Hopper) or 80 (Ampere and later)"
const MmaShape *gpu_mma(const GpuTarget *gpu, MmaKind kind); // NULL: it has none
bool gpu_has_mma_in_flight(const GpuTarget *gpu);            // that are waited for later
int mma_step(const MmaShape *mma, DType type);               // elements of k in one instruction; 0: not of this type

// ---- targets

typedef struct Target Target;
typedef struct TargetKind {
    const char *name;  // "cuda": of TARGET and extern functions in sources, of devices and lists
    const char *title; // for people: "CUDA"
    const struct Pass *passes;
    // NULL when a diagnostic was reported. Fills the target's part of the plan. `explanation`: what was decided.
    LoopUnit *(*lower)(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation);
    const struct Dialect *dialect;
    const struct Toolchain *toolchain;
} TargetKind;

extern const TargetKind target_cpu, target_cuda;
extern const TargetKind target_sequential; // references, case code, verify: of the CPU, whatever the kernel is for

const TargetKind *target_find(const char *name); // "cpu", "cuda"; NULL: there is none

// What one kernel is compiled for.
struct Target {
    const TargetKind *kind;
    CpuTarget cpu;
    const GpuTarget *gpu; // NULL: a CPU
    bool follows;         // a step of an operator that is not its first
    uint64_t wide;        // shape symbols, a bit for each bind, that may pass 32 bits
};

int target_arch(const Target *target); // 0: a CPU

#endif
