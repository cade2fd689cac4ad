// SPDX-License-Identifier: MIT
// prepared.h - launches that were checked before: the same kernel, the same arguments but for their addresses.
//
// What launch_prepare finds out depends on types, shapes, strides and scalars, and on addresses in three ways alone:
// none may be null where there are elements, each is aligned, and what is written overlaps nothing else. A kernel keeps
// its last launches. One that agrees in all but addresses is looked at for these three and runs with the words that are
// kept, its addresses put in. What does not agree goes the long way, which words the messages as well.
#ifndef KILN_RUNTIME_PREPARED_H
#define KILN_RUNTIME_PREPARED_H

#include "runtime/runtime.h"

// Launches it, if it agrees with a kept one; false: it takes the long way.
bool prepared_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                     size_t workspace_bytes, kiln_status *status);
// The bytes of its workspace, if a call that agrees has asked or run before, and the arguments' addresses are such that it
// would be answered the long way.
bool prepared_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes);
// The same of arguments that are shapes alone: no address is looked at.
bool prepared_size_of_shapes(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes);

// ---- what the long way leaves: begin, one step for each launch in order, end. Out of memory: nothing is kept.

typedef struct Kept Kept;

// `outer`: what was checked of the caller's arguments.
Kept *prepared_begin(const Launch *outer, int n_args);
// The temporaries of an operator, as offsets from its workspace.
void prepared_temps(Kept *kept, const kiln_tensor *temps, const char *workspace, int n, size_t bytes);
// One step. from[i]: the caller's argument that argument i is, or n_args and the number of a temporary; -1: neither.
void prepared_step(Kept *kept, kiln_kernel *kernel, const Launch *launch, const int *from);
// Keeps it; `ran` false: it holds the workspace's size alone. `ok` false: forgets it.
void prepared_end(kiln_kernel *kernel, Kept *kept, bool ok, bool ran);

void prepared_free(struct PreparedCache *cache);

#endif
