/* SPDX-License-Identifier: MIT */
/* ops.h - ready-made operators: what they share. The operators stand in kiln/ops/attention.h and kiln/ops/mla.h.
 *
 *     kiln_device *device;   kiln_device_open("cuda:0", &device);                          or "cpu"
 *     kiln_ops *ops;         kiln_ops_open(device, NULL, &ops);
 *     kiln_attention_forward(ops, stream, &(kiln_attention_args){ .q = &q, .k = &k, .v = &v, .out = &out, .causal = true });
 *
 * The kernels are inside the library: no source file is looked for. An operator builds what it needs on its first call
 * with given types, head sizes and options (a second or so, or milliseconds from the cache of earlier runs) and keeps
 * it in the handle.
 *
 * What holds for every operator:
 *   tensors    row-major, on the handle's device, the data aligned to 16 bytes (on the CPU that of i32 to 4); shapes stand
 *              beside each field, outermost dimension first. Extents of 0 are fine: an empty output is left
 *              alone, and where there are no keys the outputs are those of rows that see none. Queries, keys, values, outputs, their
 *              gradients, caches, tables of pages and lists of indices may have strides: contiguous in the last dimension,
 *              positive multiples of 16 bytes in the others, in any order (parts of packed tensors, padded pages, heads before
 *              rows). All others are contiguous.
 *   work       is queued on `stream` (NULL: the device's default one) and not waited for; on the CPU it is done when the
 *              call returns. Nothing is allocated and nothing is waited for once the operator is built, so that calls can
 *              be captured in a CUDA graph; call the operator, or its workspace's size function, once before.
 *   memory     is the caller's. Where an operator needs a workspace, its size function says how much for the same
 *              arguments (the tensors need no data then); it is scratch, aligned to 256 bytes, which may be used for other
 *              things between calls and shared by calls that run one after another.
 *   outputs    are written wholly, and nothing else is; they may not overlap each other, inputs or the workspace.
 *   errors     KILN_BAD_*, KILN_UNSUPPORTED: nothing was started, and kiln_error_message() names the argument, what it was
 *              and what it should have been. KILN_TOOLCHAIN and KILN_OUT_OF_MEMORY come from building. Values in device
 *              memory (lengths, page numbers, offsets) are looked at on the CPU, and on a GPU in a handle opened with `check`:
 *              wrong ones are KILN_TRAPPED. Elsewhere what is computed from them is undefined, but nothing outside the
 *              outputs is written.
 *   threads    any number may call any operator on one handle at once.
 */
#ifndef KILN_OPS_OPS_H
#define KILN_OPS_OPS_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_ops kiln_ops;

/* Opens the operators of a device. The handle holds a use of the device and everything built through it.
 * options  as for kiln_kernel_build; NULL: all zero. `check`: values in device memory are looked at, and kernels trap what
 *          they must not do */
KILN_API kiln_status kiln_ops_open(kiln_device *device, const kiln_build_options *options, kiln_ops **ops);
/* The operators without a compiler: every kernel comes from the archive of `kiln build --emit=archive` (kiln/code.h), which
 * must stay as long as the handle. A call whose kernel is not there is KILN_NOT_FOUND, and the message is the line that the
 * archive's list lacks. */
struct kiln_archive;
KILN_API kiln_status kiln_ops_open_archive(kiln_device *device, const struct kiln_archive *archive, kiln_ops **ops);
/* Writes the lines of such a list for all kernels that calls on this handle have built so far, as much of it as fits, and
 * returns its length: 0 for none. */
KILN_API size_t      kiln_ops_list(kiln_ops *ops, char *text, size_t bytes);
/* Frees it; no call may be running or captured for replay. Takes NULL. */
KILN_API void        kiln_ops_close(kiln_ops *ops);

#ifdef __cplusplus
}
#endif
#endif
