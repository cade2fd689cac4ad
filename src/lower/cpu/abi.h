// SPDX-License-Identifier: MIT
// abi.h - what emitted CPU code expects of whoever runs it. The emitted side of it is prelude/entry.c.
//
//   void SYMBOL(const void *words, int64_t first, int64_t last, void *scratch)
//
// runs the instances first .. last-1. `words` are those of plan.h. `scratch` is private to the running thread,
// aligned to 64 and plan->scratch_bytes long; it begins with a CpuHost that the caller has filled in; the rest may
// hold anything. Calls on different threads need different scratch and nothing else.
//
// Emitted code wants: cc -std=gnu11 -O3 -march=... -fno-strict-aliasing -fwrapv -fno-math-errno -fno-trapping-math
// -ffp-contract=fast -fopenmp-simd, and -lm. Where the machine has AMX the process must have asked for tile data
// (arch_prctl ARCH_REQ_XCOMP_PERM 18) before the first launch, or be compiled for a target without it.
#ifndef KILN_LOWER_CPU_ABI_H
#define KILN_LOWER_CPU_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct CpuHost {
    // A --check build, an assert or an assume found a mistake at `where` in the source (softmax.tile:12:5). Must not
    // return: it longjmps to the loop that called the entry, which gives up the launch. Emitted code holds nothing but what it
    // got from `alloc`.
    void (*trap)(void *context, const char *where, const char *message);
    // print("...", x): one call per execution, printf's format and (promoted) arguments; one whole line.
    void (*print)(void *context, const char *format, ...);
    // Private arrays of sequential kernels, zeroed, aligned to 16. NULL when out of memory (the code then traps).
    // After a trap the host frees what was not given back.
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *memory);
    void *context;
    void *reserved[3];
} CpuHost;

enum { CPU_HOST_BYTES = 64 };
_Static_assert(sizeof(CpuHost) == CPU_HOST_BYTES, "scratch starts with it and stays aligned");

#endif
