/* SPDX-License-Identifier: MIT */
/* code.h - kernels and operators compiled ahead of time by `kiln build`, for programs that run without a compiler.
 *
 *     kiln build --emit=object --isa=avx512,avx2,portable --arch=90,80 --output=gen kernels/gemm/gemm.tile gemm_nt T=f32
 *
 * writes gen/gemm_nt.o and gen/gemm_nt.h:
 *
 *     #include "gemm_nt.h"
 *     kiln_kernel *kernel;   gemm_nt_open(device, &kernel);
 *     gemm_nt(kernel, NULL, &a, &b, &c);
 *
 * The object holds the kernel once for each form. Opening it chooses the best form that the processor supports and KILN_ISA
 * allows, or the one for the GPU. A form uses only its own instructions, wherever it is compiled.
 * An operator's launch takes memory for the temporaries; NAME_workspace_size returns its size. --emit=c writes C
 * instead: NAME.c, NAME_FORM.c for further forms, NAME_1.c ... for an operator's kernels.
 *
 * For the operators of kiln/ops, and for many kernels at once, build an archive: docs/operators.md.
 *
 * The program links libkiln_launch.a (and -lpthread -ldl -lm), which has the runtime and the operators, but no compiler.
 */
#ifndef KILN_CODE_H
#define KILN_CODE_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The contents of a generated file. The fields are internal. */
typedef struct kiln_code {
    const char            *form;             /* what it runs on: "avx2", "sm_90a" */
    const struct kiln_code *next;            /* the next form, by preference; NULL: none */
    const unsigned char   *plan;
    size_t                 plan_bytes;
    void                 (*entry)(const void *words, int64_t first, int64_t last, void *scratch);   /* CPU, else NULL */
    const unsigned char   *cubin;                                                                    /* CUDA, else NULL */
    size_t                 cubin_bytes;
    const unsigned char   *steps;            /* of an operator, with the kernel of each; else NULL */
    size_t                 steps_bytes;
    const struct kiln_code *const *kernels;
    int                    n_kernels;
} kiln_code;

/* The contents of a generated archive. */
typedef struct kiln_archive {
    const char *const      *names;           /* the lines of its list */
    const kiln_code *const *codes;
    int                     n;
} kiln_archive;

enum { KILN_CODE_LAYOUT = 2 };               /* version of these structs; generated headers compare it with their own */

/* Makes a kernel or operator from generated code, which must outlive it. Free it with kiln_kernel_free.
 * errors  KILN_BAD_DEVICE: the code is for another kind of device; KILN_UNSUPPORTED: for other processors, or made by
 *         another version of Kiln */
KILN_API kiln_status kiln_kernel_from_code(kiln_device *device, const kiln_code *code, kiln_kernel **kernel);

#ifdef __cplusplus
}
#endif
#endif
