// SPDX-License-Identifier: MIT
// call_parts.h - what the files of a call share: call.c begins it, call_table.c holds its tensors to the table, call_again.c runs it again,
// call_kernel.c finds and launches its kernels, call_pair.c makes the two functions of an operator whose kernel takes the workspace.
#ifndef KILN_OPS_CALL_PARTS_H
#define KILN_OPS_CALL_PARTS_H

#include "ops/call.h"

enum { TENSOR_ALIGNMENT = 16 }; // of what kernels copy by hardware

static inline bool want_is_written(const Want *want) { return want->role == OUT || want->role == OUT_OPTIONAL; }

static inline bool call_is_home(const Call *call, const kiln_tensor *t)
{
    return t->device == call->ops->device || (device_is_cpu(t->device) && ops_on_cpu(call->ops));
}

// Every tensor of the table in the order of its rows, then what is between them; notes which rows lie apart.
kiln_status call_check_table(Call *call, const Want *wants, int n, const char *memory_name, const void *memory,
                             size_t bytes);
int call_alignment(const Call *call, const Want *want); // of its data, in bytes

// A copy of tensor i, which kernels take in its place.
kiln_tensor *call_copy_tensor(Call *call, int i);

// Begins the recording of a call whose table holds.
void call_record_table(Call *call, const Want *wants, int n);
void call_keep_size(const Call *call, size_t bytes); // of a size function that has not run so before

#endif
