// SPDX-License-Identifier: MIT
// call_table.c - hold the tensors of a call to what its table says, in a fixed order: pointers, types, ranks, extents,
// strides, device, alignment of each; then what is written against everything else.
#include "ops/call_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MEMORY_ALIGNMENT = 256 };
static const int64_t STRIDE_MAX = INT64_C(1) << 50;

// ---- shapes: "[batch][queries][576]"

static const char *dims_of(const Want *want) { return want->shape + strcspn(want->shape, "["); }

// One dimension: a number, a name, or a name and what is added to it.
typedef struct Dim {
    const char *name;
    int length;
    int64_t number, added;
} Dim;

// The dimension that stands between the brackets at *at, which moves past it; false at the end.
static bool next_dim(const char **at, Dim *dim)
{
    if (**at != '[') return false;
    const char *const begin = *at + 1;
    const char *const end = begin + strcspn(begin, "]"), *plus = begin;
    while (plus < end && *plus != '+') plus++;
    *dim = (Dim){ .name = begin, .length = (int)(end - begin), .number = -1 };
    if (isdigit((unsigned char)*begin)) dim->number = strtoll(begin, NULL, 10);
    if (plus < end) {
        dim->length = (int)(plus - 1 - begin); // "name + 1"
        dim->added = strtoll(plus + 1, NULL, 10);
    }
    *at = end + 1;
    return true;
}

static int rank_of(const char *shape)
{
    int n = 0;
    for (; *shape; shape++) n += *shape == '[';
    return n;
}

// Where the tensor stands among those that the call has made of the caller's; -1: it is the caller's own.
static int place_of_own(const Call *call, const kiln_tensor *tensor)
{
    for (int i = 0; i < call->n_own; i++)
        if (tensor == &call->own[i].tensor) return i;
    return -1;
}

// The number that the caller has for a dimension.
static int callers_dim(const Call *call, const Want *want, int d)
{
    const int i = place_of_own(call, want->tensor);
    if (i < 0) return d;
    return call->own[i].is_batch ? d - 1 : call->own[i].removed >= 0 && d >= call->own[i].removed ? d + 1 : d;
}

// The shape that is wanted, with the dimensions that the caller's tensor has.
typedef struct ShapeText {
    char text[120];
} ShapeText;
static const char *shape_of(const Call *call, const Want *want, ShapeText *out)
{
    const char *const dims = dims_of(want), *at = dims;
    const int i = place_of_own(call, want->tensor);
    const int removed = i >= 0 ? call->own[i].removed : -1;
    Dim dim;
    if (i >= 0 && call->own[i].is_batch && next_dim(&at, &dim)) return at;
    for (int d = 0; d < removed && next_dim(&at, &dim); d++) continue;
    snprintf(out->text, sizeof out->text, "%.*s%s%s", (int)(at - dims), dims, removed >= 0 ? "[1]" : "", at);
    return out->text;
}

static kiln_status check_extent(Call *call, const Want *want, int d, const Dim *dim)
{
    const int64_t is = want->tensor->shape[d];
    const int callers = callers_dim(call, want, d);
    ShapeText text;
    if (is < 0) return call_fail(call, KILN_BAD_SHAPE, "dimension %d of '%s' is %" PRId64, callers, want->name, is);
    if (dim->number >= 0)
        return is == dim->number
                   ? KILN_OK
                   : call_fail(call, KILN_BAD_SHAPE,
                               "dimension %d of '%s' is %" PRId64 ", expected %" PRId64 ": its shape is %s", callers,
                               want->name, is, dim->number, shape_of(call, want, &text));
    const int known = find_symbol(call, dim->name, dim->length, name_word(dim->name, dim->length));
    if (known < 0 && is < dim->added)
        return call_fail(call, KILN_BAD_SHAPE,
                         "dimension %d of '%s' is %" PRId64 ", expected at least %" PRId64 ": its shape is %s", callers,
                         want->name, is, dim->added, shape_of(call, want, &text));
    if (known < 0) add_symbol(call, dim->name, dim->length, is - dim->added, want->name);
    else if (callers < 0 && is != call->table.symbols[known].value)
        return call_fail(call, KILN_BAD_SHAPE, "'%s' has no batch, but '%s' has one of %" PRId64, want->name,
                         call->table.symbols[known].from, call->table.symbols[known].value);
    else if (is != call->table.symbols[known].value + dim->added)
        return call_fail(call, KILN_BAD_SHAPE,
                         "dimension %d of '%s' is %" PRId64 ", expected %" PRId64 ": its shape is %s, "
                         "and '%s' has %.*s = %" PRId64,
                         callers, want->name, is, call->table.symbols[known].value + dim->added,
                         shape_of(call, want, &text), call->table.symbols[known].from, dim->length, dim->name,
                         call->table.symbols[known].value);
    return KILN_OK;
}

// ---- one tensor

static bool is_optional(const Want *want)
{
    return want->role == IN_OPTIONAL || want->role == IN_ANYWHERE_OPTIONAL || want->role == OUT_OPTIONAL;
}

static kiln_status check_type(const Call *call, const Want *want, const Want *first)
{
    const kiln_tensor *const t = want->tensor;
    char expected[64] = "";
    if (!want->types && t->type != first->tensor->type)
        return call_fail(call, KILN_BAD_TYPE, "'%s' is a tensor of %s, expected %s as '%s'", want->name,
                         kiln_type_name(t->type), kiln_type_name(first->tensor->type), first->name);
    if (!want->types || ((unsigned)t->type <= KILN_BOOL && want->types >> t->type & 1)) return KILN_OK;
    for (int type = KILN_F64; type <= KILN_BOOL; type++)
        if (want->types >> type & 1) {
            strcat(expected, *expected ? " or " : "");
            strcat(expected, kiln_type_name((kiln_type)type));
        }
    return call_fail(call, KILN_BAD_TYPE, "'%s' is a tensor of %s, expected %s", want->name, kiln_type_name(t->type),
                     expected);
}

// Indices, tables, lengths, offsets and slots.
static bool takes_any_strides(const Want *want) { return want->types == 1u << KILN_I32 && *want->shape != '['; }

// Rows that hardware need not be able to copy.
static bool begins_anywhere(const Call *call, const Want *want)
{
    return (want->role == IN_ANYWHERE || want->role == IN_ANYWHERE_OPTIONAL) && !ops_on_cpu(call->ops);
}

// By any strides, as long as what is written does not overlap.
static kiln_status check_elements(const Call *call, const Want *want)
{
    const kiln_tensor *const t = want->tensor;
    int dim;
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] > 1 && (t->strides[d] > STRIDE_MAX / t->shape[d] || t->strides[d] < -STRIDE_MAX / t->shape[d]))
            return call_fail(call, KILN_BAD_SHAPE,
                             "dimension %d of '%s' has stride %" PRId64 ", which leaves the memory",
                             callers_dim(call, want, d), want->name, t->strides[d]);
    if (!want_is_written(want) || !tensor_overlaps_itself(t, &dim)) return KILN_OK;
    return call_fail(call, KILN_BAD_SHAPE,
                     "'%s' is written, but with stride %" PRId64 " in dimension %d its elements overlap", want->name,
                     t->strides[dim], callers_dim(call, want, dim));
}

// Rows that lie apart.
static kiln_status check_rows(const Call *call, const Want *want)
{
    int dim;
    const RowsFit fit = tensor_check_rows(want->tensor, want_is_written(want), &dim);
    const int64_t stride = tensor_stride(want->tensor, dim);
    switch (fit) {
    case ROWS_FIT: return KILN_OK;
    case ROWS_BROKEN:
        return call_fail(call, KILN_BAD_SHAPE, "the last dimension of '%s' must be contiguous: it has stride %" PRId64,
                         want->name, stride);
    case ROWS_UNALIGNED:
        if (begins_anywhere(call, want)) return check_elements(call, want);
        return call_fail(call, KILN_BAD_ALIGNMENT,
                         "dimension %d of '%s' has stride %" PRId64 ", which is %" PRId64
                         " bytes, expected a positive multiple of 16",
                         callers_dim(call, want, dim), want->name, stride,
                         (int64_t)((uint64_t)stride * (uint64_t)kiln_type_bits(want->tensor->type)) / 8);
    case ROWS_OVERLAP:
        return call_fail(call, KILN_BAD_SHAPE,
                         "'%s' is written, but with stride %" PRId64 " in dimension %d its "
                         "elements overlap",
                         want->name, stride, callers_dim(call, want, dim));
    }
    return KILN_OK;
}

static kiln_status check_shape(Call *call, const Want *want)
{
    const kiln_tensor *const t = want->tensor;
    const int rank = rank_of(want->shape);
    const char *at = dims_of(want);
    int bad;
    int64_t stride;
    Dim dim;
    if (t->rank != rank)
        return call_fail(call, KILN_BAD_SHAPE, "'%s' has rank %d, expected %d: %s", want->name, t->rank, rank,
                         dims_of(want));
    kiln_status status = KILN_OK;
    for (int d = 0; !status && next_dim(&at, &dim); d++) status = check_extent(call, want, d, &dim);
    if (status) return status;
    if (tensor_elements(t) < 0)
        return call_fail(call, KILN_BAD_SHAPE, "'%s' has more elements than memory can hold", want->name);
    if (tensor_is_contiguous(t, &bad, &stride)) return KILN_OK;
    if (takes_any_strides(want)) return check_elements(call, want);
    if (*want->shape != '[') return check_rows(call, want);
    return call_fail(call, KILN_BAD_SHAPE,
                     "'%s' must be contiguous: dimension %d has stride %" PRId64 ", expected %" PRId64, want->name,
                     callers_dim(call, want, bad), t->strides[bad], stride);
}

int call_alignment(const Call *call, const Want *want)
{
    if (begins_anywhere(call, want)) return kiln_type_bits(want->tensor->type) / 8;
    return want->tensor->type == KILN_I32 && (takes_any_strides(want) || ops_on_cpu(call->ops)) ? 4 : TENSOR_ALIGNMENT;
}

// Where a kernel for tensors that are aligned does not take it.
static bool is_misaligned(const Call *call, const Want *want)
{
    const bool is_taken = begins_anywhere(call, want) || (takes_any_strides(want) && !ops_on_cpu(call->ops));
    return want->tensor && is_taken && (uintptr_t)want->tensor->data % TENSOR_ALIGNMENT != 0;
}

static kiln_status check_place(const Call *call, const Want *want)
{
    const kiln_tensor *const t = want->tensor;
    const kiln_device *const device = call->ops->device;
    if (!call_is_home(call, t))
        return call_fail(call, KILN_BAD_DEVICE, "'%s' is memory of %s, but the operators run on %s", want->name,
                         t->device ? kiln_device_name(t->device) : "the host", kiln_device_name(device));
    if (call->sizing || tensor_elements(t) == 0) return KILN_OK;
    if (!t->data)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'%s' has no data: its pointer is null and it has %" PRId64 " elements", want->name,
                         tensor_elements(t));
    const int alignment = call_alignment(call, want);
    if ((uintptr_t)t->data % (uintptr_t)alignment != 0)
        return call_fail(call, KILN_BAD_ALIGNMENT, "the data of '%s' (%p) is not aligned to %d bytes", want->name,
                         t->data, alignment);
    return KILN_OK;
}

static kiln_status check_tensor(Call *call, const Want *want, const Want *first)
{
    if (!want->tensor) return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null", want->name);
    kiln_status status = check_type(call, want, first);
    if (!status) status = check_shape(call, want);
    if (!status) status = check_place(call, want);
    return status;
}

// ---- between tensors

static kiln_status check_overlap(const Call *call, const Want *wants, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i && wants[i].tensor; j++)
            if (wants[j].tensor && (want_is_written(&wants[i]) || want_is_written(&wants[j])) &&
                tensors_overlap(wants[i].tensor, wants[j].tensor))
                return call_fail(call, KILN_BAD_ARGUMENT, "'%s' and '%s' overlap in memory, and '%s' is written",
                                 wants[j].name, wants[i].name, wants[want_is_written(&wants[i]) ? i : j].name);
    return KILN_OK;
}

// Scratch of the caller's beside the tensors.
static kiln_status check_memory(const Call *call, const Want *wants, int n, const char *name, const void *memory,
                                size_t bytes)
{
    const kiln_tensor space =
        kiln_tensor_of(call->ops->device, (void *)(uintptr_t)memory, KILN_U8, 1, (int64_t[]){ (int64_t)bytes });
    if (bytes && !memory)
        return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null, but '%s_bytes' is %zu", name, name, bytes);
    if ((uintptr_t)memory % MEMORY_ALIGNMENT != 0)
        return call_fail(call, KILN_BAD_ALIGNMENT, "'%s' (%p) is not aligned to %d bytes", name, memory,
                         MEMORY_ALIGNMENT);
    for (int i = 0; memory && i < n; i++)
        if (wants[i].tensor && tensors_overlap(wants[i].tensor, &space))
            return call_fail(call, KILN_BAD_ARGUMENT, "'%s' and '%s' overlap in memory", name, wants[i].name);
    return KILN_OK;
}

static void note_tensors(Call *call, const Want *wants, int n)
{
    for (int i = 0; i < n; i++) {
        const kiln_tensor *const t = wants[i].tensor;
        int dim;
        int64_t stride;
        call->table.tensors[i].strided = NULL;
        call->table.tensors[i].is_unaligned = is_misaligned(call, &wants[i]);
        if (!t) continue;
        if (!tensor_is_contiguous(t, &dim, &stride)) {
            call->table.tensors[i].strided = wants[i].shape;
            call->table.tensors[i].is_unaligned |= tensor_check_rows(t, false, &dim) != ROWS_FIT;
        }
        if (call->table.tensors[i].is_unaligned) call->table.tensors[i].strided = wants[i].shape;
    }
}

kiln_status call_check_table(Call *call, const Want *wants, int n, const char *memory_name, const void *memory,
                             size_t bytes)
{
    kiln_status status = KILN_OK;
    for (int i = 0; !status && i < n; i++)
        if (wants[i].tensor || !is_optional(&wants[i])) status = check_tensor(call, &wants[i], &wants[0]);
    if (!status && !call->sizing) status = check_overlap(call, wants, n);
    if (!status && !call->sizing) status = check_memory(call, wants, n, memory_name, memory, bytes);
    if (!status) note_tensors(call, wants, n);
    return status;
}
