// SPDX-License-Identifier: MIT
// gpu.h - what the instructions of each GPU can do: capabilities, which deciding code asks for.
//
// In a folder of its own: the lowerings ask here, and the rows of targets (target.c) name the lowerings.
#ifndef KILN_TARGET_GPU_GPU_H
#define KILN_TARGET_GPU_GPU_H

#include "base/arena.h"
#include "ir/dtype.h"

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

#endif
