/* SPDX-License-Identifier: MIT */
/* code.h - kernels compiled ahead of time by `kiln build`.
 *
 *     kiln build --emit=c --output=gen kernels/gemm/gemm.tile gemm_nt T=f32      writes gen/gemm_nt.c and gen/gemm_nt.h
 *
 *     #include "gemm_nt.h"
 *     kiln_kernel *kernel;   gemm_nt_open(device, &kernel);
 *     gemm_nt(kernel, NULL, &a, &b, &c);
 *
 * An operator becomes NAME.c, a file for each different kernel it runs (NAME_1.c ...) and NAME.h, whose launch takes
 * memory for the temporaries and whose NAME_workspace_size says how much.
 *
 * The program links libkiln_launch.a (and -lpthread -ldl -lm), which has the runtime and no compiler.
 */
#ifndef KILN_CODE_H
#define KILN_CODE_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a generated file holds. Its parts are Kiln's own business. */
typedef struct kiln_code {
    const unsigned char *plan;
    size_t               plan_bytes;
    void               (*entry)(const void *words, int64_t first, int64_t last, void *scratch);   /* CPU, else NULL */
    const unsigned char *cubin;                                                                    /* CUDA, else NULL */
    size_t               cubin_bytes;
} kiln_code;

/* A kernel from generated code, which must stay as long as the kernel is used. Free it with kiln_kernel_free.
 * errors  KILN_BAD_DEVICE: the code is for another kind of device; KILN_UNSUPPORTED: for another architecture, or made by
 *         another version of Kiln */
KILN_API kiln_status kiln_kernel_from_code(kiln_device *device, const kiln_code *code, kiln_kernel **kernel);

/* What a generated file of an operator holds: its steps, and the kernel of each. */
typedef struct kiln_operator_code {
    const unsigned char     *plan;
    size_t                   plan_bytes;
    const unsigned char     *steps;
    size_t                   steps_bytes;
    const kiln_code *const  *kernels;
    int                      n_kernels;
} kiln_operator_code;

/* The same for an operator. */
KILN_API kiln_status kiln_operator_from_code(kiln_device *device, const kiln_operator_code *code, kiln_kernel **kernel);

#ifdef __cplusplus
}
#endif
#endif
