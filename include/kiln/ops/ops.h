/* SPDX-License-Identifier: MIT */
/* ops.h - ready-made operators: what they share. The operators are in the other headers of kiln/ops: attention.h,
 * block_sparse.h, decode.h, deepseek.h, gemm.h, mla.h, moe.h, nn.h, nsa.h, paged.h, quant.h, recurrent.h, sampling.h and sparse.h.
 *
 *     kiln_device *device;   kiln_device_open("cuda:0", &device);                          or "cpu"
 *     kiln_ops *ops;         kiln_ops_open(device, NULL, &ops);
 *     kiln_attention_forward(ops, stream, &(kiln_attention_args){ .q = &q, .k = &k, .v = &v, .out = &out, .causal = true });
 *
 * The kernels are inside the library: no source file is needed. An operator builds its kernels on the first call
 * with given types, head sizes and options (about a second, or milliseconds from the cache of earlier runs) and keeps
 * them in the handle.
 *
 * What holds for every operator:
 *   tensors    row-major, on the handle's device, the data aligned to 16 bytes, that of i32 to 4 (in moe.h, nsa.h, quant.h,
 *              recurrent.h and sampling.h on a GPU to 16); each field's comment has its shape, outermost dimension first. Extents
 *              may be 0: an empty output is not written, and without keys the outputs are those of rows that see no key.
 *              Queries, keys, values, outputs, their gradients and caches may have strides (in decode.h q, k and v may):
 *              contiguous in the last dimension, positive multiples of 16 bytes in the others, in any order (parts of packed
 *              tensors, padded pages, heads before rows). The strides of tables, indices, slots, lengths, offsets and other
 *              tensors of i32 are any, but in the headers named above and where kiln_vertical_slash_estimate writes them, aligned
 *              as there. All others are contiguous, unless their header says more.
 *   work       is queued on `stream` (NULL: the device's default one) and not waited for; on the CPU it is done when the
 *              call returns. A call neither allocates device memory nor waits for the device, so that calls can be captured
 *              in a CUDA graph, the first one too, which builds the operator beside the capture.
 *   memory     is the caller's. Where an operator needs a workspace, its size function returns the size for the same
 *              arguments (the tensors need no data then). The workspace is scratch, aligned to 256 bytes, which may be used
 *              for other purposes between calls and shared by calls that run one after another.
 *   outputs    are fully written, and nothing else is; they may not overlap each other, inputs or the workspace.
 *   errors     KILN_BAD_*, KILN_UNSUPPORTED: nothing was started, and kiln_error_message() names the call, the argument, its
 *              value and what was expected; a size function's names the call whose arguments it was given. KILN_TOOLCHAIN and
 *              KILN_OUT_OF_MEMORY come from building. Values in device memory (lengths, page numbers, offsets) are checked
 *              on the CPU, and on a GPU in a handle opened with `check`: invalid ones are KILN_TRAPPED. Without the check,
 *              results that depend on them are undefined, but nothing outside the outputs is written.
 *   threads    any number may call any operator on one handle at once.
 */
#ifndef KILN_OPS_OPS_H
#define KILN_OPS_OPS_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_ops kiln_ops;

/* Opens the operators of a device. The handle keeps the device open and owns everything built through it.
 * options  as for kiln_kernel_build; NULL: all zero. `check`: values in device memory are checked, and kernels trap
 *          violations */
KILN_API kiln_status kiln_ops_open(kiln_device *device, const kiln_build_options *options, kiln_ops **ops);
/* The operators without a compiler: every kernel comes from an archive of `kiln build --emit=archive` (kiln/code.h), which
 * must outlive the handle. A call whose kernel is not in it is KILN_NOT_FOUND, and the message is the line to add to the
 * archive's list. */
struct kiln_archive;
KILN_API kiln_status kiln_ops_open_archive(kiln_device *device, const struct kiln_archive *archive, kiln_ops **ops);
/* Writes the lines of such a list for all kernels that calls on this handle have built so far, as many as fit, and returns
 * the list's length: 0 for none. */
KILN_API size_t      kiln_ops_list(kiln_ops *ops, char *text, size_t bytes);
/* Frees the handle; no call may be running or captured for replay. Accepts NULL. */
KILN_API void        kiln_ops_close(kiln_ops *ops);

#ifdef __cplusplus
}
#endif
#endif
