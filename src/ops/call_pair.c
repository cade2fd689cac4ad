// SPDX-License-Identifier: MIT
// call_pair.c - the two functions of an operator whose kernel takes the workspace; the mark of a plan.
#include "ops/call_parts.h"

static kiln_status check_sequences(const CallPair *pair, const Call *call, kiln_stream *stream)
{
    if (!pair->rows) return KILN_OK;
    return call_check_offsets(call, stream, pair->offsets, call_extent(call, pair->rows), call->longest);
}

static bool looks(const CallPair *pair, const Call *call) { return pair->look && ops_look_at_values(call->ops); }

kiln_status pair_size(const CallPair *pair, kiln_ops *ops, const void *args, const Form *form, size_t *bytes)
{
    Call call;
    kiln_status status = call_begin_sizing(&call, pair->size_name, ops, args, form, bytes);
    if (call_again(&call, NULL, &status)) return status;
    status = pair->prepare(&call, args);
    if (!status) status = check_sequences(pair, &call, NULL);
    if (!status && looks(pair, &call)) status = pair->look(&call, NULL, args);
    return status ? status : call_size(&call, bytes);
}

// Whether something is launched before the kernel that would say that the workspace is too small.
static bool launches_before(const CallPair *pair, const Call *call)
{
    return looks(pair, call) || (pair->rows && call->tensors[pair->offsets]);
}

// The scratch of a struct of arguments.
static void *memory_of(const void *args, const Form *form, size_t *bytes)
{
    const FormField *field = form->fields;
    while (field->kind != FORM_MEMORY) field++;
    *bytes = *(const size_t *)((const char *)args + field[1].offset);
    return *(void *const *)((const char *)args + field->offset);
}

kiln_status pair_run(const CallPair *pair, kiln_ops *ops, kiln_stream *stream, const void *args, const Form *form)
{
    Call call;
    size_t bytes;
    kiln_status status = call_begin(&call, pair->name, ops, args, form);
    if (call_again(&call, stream, &status)) return status;
    void *const workspace = memory_of(args, form, &bytes);
    status = pair->prepare(&call, args);
    if (!status && launches_before(pair, &call)) status = call_room(&call, bytes);
    if (!status) status = check_sequences(pair, &call, stream);
    if (!status && looks(pair, &call)) status = pair->look(&call, stream, args);
    return status ? status : call_run(&call, stream, workspace, bytes);
}

uint64_t plan_mark(const void *plan, size_t bytes)
{
    uint64_t mark = UINT64_C(0x4b696c6e506c616e), word;
    for (size_t at = sizeof word; at < bytes; at += sizeof word) {
        memcpy(&word, (const char *)plan + at, sizeof word);
        mark = (mark ^ word) * UINT64_C(0x100000001b3);
    }
    return mark;
}
