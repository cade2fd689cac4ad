// SPDX-License-Identifier: MIT
// target.h - what Kiln compiles for: a row for each target, and for each GPU what its instructions can do.
//
// A TargetKind is a row of target.c: a name, the passes, the lowering, the dialect of the emitted text, the toolchain. The
// device that runs the code has the same name (runtime/device.c). Which instructions there are is said by capabilities:
// CpuTarget (the forms of CPU code are rows of toolchain/isa.c) and GpuTarget (rows of gpu/gpu.c). Code that decides reads
// capabilities, never a name or the number of an architecture: with what one row lacks, a decision is tested for all.
//
// docs/architecture.md, "Another GPU", lists what a target with another language (HIP) and a GPU with other products (tensor
// memory of Blackwell) add, and every file that changes.
#ifndef KILN_TARGET_TARGET_H
#define KILN_TARGET_TARGET_H

#include "ir/loop.h"
#include "plan/plan.h"
#include "target/gpu/gpu.h"

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

// ---- targets

typedef struct Target Target;
typedef struct TargetKind {
    const char *name;  // "cuda": of TARGET and extern functions in sources, of devices and lists
    const char *title; // for people: "CUDA"
    const struct Pass *passes;
    // NULL when a diagnostic was reported. Fills the target's part of the plan and the kernel's notes. `explanation`: what was
    // decided; `cost`: how long that is expected to take.
    LoopUnit *(*lower)(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost);
    const struct Dialect *dialect;
    const struct Toolchain *toolchain;
} TargetKind;

extern const TargetKind target_cpu, target_cuda;
extern const TargetKind target_sequential; // references, case code, verify: of the CPU, whatever the kernel is for

const TargetKind *target_find(const char *name); // "cpu", "cuda"; NULL: there is none

// A shape symbol or scalar argument of a launch that costs are estimated for; the code is for any.
typedef struct LaunchValue {
    const char *name;
    int64_t value;
} LaunchValue;

// What one kernel is compiled for.
struct Target {
    const TargetKind *kind;
    CpuTarget cpu;
    const GpuTarget *gpu; // NULL: a CPU
    const char *card;     // the machine that costs are estimated for, or what its name is part of; NULL: the usual one
    const LaunchValue *launch; // so many
    int n_launch;
    bool follows;     // a step of an operator that is not its first
    bool trace;       // CUDA: the code records when it waits (plan/trace.h)
    bool places;      // CUDA: comments of the text say where its actions come from; of kernel_compile alone
    uint64_t wide;    // shape symbols, a bit for each bind, that may pass 32 bits
    bool boxes_alone; // CUDA: launches whose rows are no boxes are built for when they come (wide.c)
    bool silent;      // CUDA: nobody reads the explanation, the estimate of costs or the notes
};

int target_arch(const Target *target); // 0: a CPU

#endif
