// SPDX-License-Identifier: MIT
// machine.h - how fast the machines of each GPU target are: rates, which the cost model reads (lower/gpu/cost).
//
// A rate is what is reached in practice, not what a data sheet has: measured where it could be measured (docs/hopper.md), and
// fitted to whole kernels by bench/cost.py, which compares estimates with times. Another machine of a target is another row.
#ifndef KILN_TARGET_GPU_MACHINE_H
#define KILN_TARGET_GPU_MACHINE_H

#include "target/gpu/gpu.h"

typedef struct GpuMachine {
    const GpuTarget *gpu;
    const char *name; // "H200"
    int multiprocessors;
    double hertz; // under load
    // of a multiprocessor, in a cycle
    double tensor;  // multiply-adds of 16-bit elements
    double special; // special functions
    double issue;   // instructions of warps
    double shared;  // passes of 128 bytes through the banks
    double memory;  // bytes from or to L2, while all multiprocessors ask for some
    // of the device, in a second
    double l2_bytes; // that L2 holds
    double bytes;    // of memory, read and written
    double launch;   // seconds from one kernel's end to the next one's first instruction
    // of a warp, in cycles
    double independent; // between two of its instructions, if no other warp runs,
    double instruction; // and if the second mostly depends on the first
    double load;        // until an element of a tensor is there
    double barrier, shuffle;
    double branch;   // around loads from memory: jump, wait for them, go on
    double begin;    // from a persistent CTA's first instruction to its first use of a tile that is fetched
    double start;    // of a CTA that computes one instance, until its code runs
    int warps, ctas; // of a multiprocessor, at most
} GpuMachine;

// The machine whose name is in the text, such as a device's description; else the target's first. NULL: there is none.
const GpuMachine *gpu_machine(const GpuTarget *gpu, const char *text);

#endif
