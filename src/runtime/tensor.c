// SPDX-License-Identifier: MIT
// tensor.c - element types of the public API, and what can be asked of a tensor.
#include "runtime/runtime.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

// The public types are DTYPE's without `int`, which has no storage of its own.
static_assert((int)KILN_E2M1 == DTYPE_E2M1 && (int)KILN_I64 == DTYPE_I64 - 1 && (int)KILN_BOOL == DTYPE_BOOL - 1 &&
                  (int)KILN_E8M0 == DTYPE_E8M0 - 1,
              "types of the API and of the language stand in the same order");

kiln_type type_of_dtype(DType type)
{
    if (type == DTYPE_INT) return KILN_I64;
    return (kiln_type)(type > DTYPE_INT ? type - 1 : type);
}

DType dtype_of_type(kiln_type type)
{
    if (type < KILN_F64 || type > KILN_E8M0) return DTYPE_NONE;
    return (DType)(type + (type >= KILN_I64));
}

const char *kiln_type_name(kiln_type type)
{
    const DType t = dtype_of_type(type);
    return t == DTYPE_NONE ? "unknown type" : dtype_name(t);
}

int kiln_type_bits(kiln_type type) { return dtype_bits(dtype_of_type(type)); }

kiln_tensor kiln_tensor_of(kiln_device *device, void *data, kiln_type type, int rank, const int64_t *shape)
{
    kiln_tensor tensor = { .data = data, .type = type, .rank = rank, .device = device };
    for (int i = 0; i < rank && i < KILN_MAX_RANK; i++) tensor.shape[i] = shape[i];
    return tensor;
}

int64_t tensor_elements(const kiln_tensor *tensor)
{
    int64_t n = 1;
    bool empty = false, too_many = false;
    if (tensor->rank < 0 || tensor->rank > KILN_MAX_RANK) return -1;
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0) return -1;
        empty |= tensor->shape[i] == 0;
        too_many |= __builtin_mul_overflow(n, tensor->shape[i], &n) || n > INT64_C(1) << 55; // of 64 bits each
    }
    return empty ? 0 : too_many ? -1 : n;
}

size_t kiln_tensor_bytes(const kiln_tensor *tensor)
{
    const int64_t n = tensor ? tensor_elements(tensor) : 0;
    return n <= 0 ? 0 : (size_t)dtype_bytes(dtype_of_type(tensor->type), n);
}

bool tensor_is_contiguous(const kiln_tensor *tensor, int *bad_dim, int64_t *expected)
{
    if (!tensor->has_strides || tensor_elements(tensor) == 0) return true;
    int64_t stride = 1;
    for (int i = tensor->rank - 1; i >= 0; stride *= tensor->shape[i], i--) {
        if (tensor->shape[i] == 1 || tensor->strides[i] == stride)
            continue; // a stride that is never taken may be anything
        *bad_dim = i;
        *expected = stride;
        return false;
    }
    return true;
}

int64_t tensor_stride(const kiln_tensor *tensor, int dim)
{
    int64_t stride = 1;
    if (tensor->has_strides) return tensor->strides[dim];
    for (int i = tensor->rank - 1; i > dim; i--) stride *= tensor->shape[i];
    return stride;
}

kiln_status kiln_tensor_slice(const kiln_tensor *tensor, int dim, int64_t first, int64_t extent, kiln_tensor *slice)
{
    if (!tensor || !slice)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_tensor_slice: '%s' is null", tensor ? "slice" : "tensor");
    if (dtype_of_type(tensor->type) == DTYPE_NONE)
        return status_fail(KILN_BAD_TYPE, "kiln_tensor_slice: the tensor is of %s", kiln_type_name(tensor->type));
    if (tensor->rank > KILN_MAX_RANK || dim < 0 || dim >= tensor->rank)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_tensor_slice: dimension %d of a tensor of rank %d", dim,
                           tensor->rank);
    if (first < 0 || extent < 0 || first > tensor->shape[dim] || extent > tensor->shape[dim] - first)
        return status_fail(KILN_BAD_SHAPE,
                           "kiln_tensor_slice: %" PRId64 " elements from %" PRId64 " on do not lie inside dimension "
                           "%d, which has %" PRId64,
                           extent, first, dim, tensor->shape[dim]);
    const int64_t bits = first * tensor_stride(tensor, dim) * kiln_type_bits(tensor->type);
    if (bits % 8 != 0)
        return status_fail(KILN_BAD_ALIGNMENT,
                           "kiln_tensor_slice: element %" PRId64 " of dimension %d begins within a byte", first, dim);
    kiln_tensor made = *tensor;
    for (int d = 0; d < tensor->rank; d++) made.strides[d] = tensor_stride(tensor, d);
    made.has_strides = true;
    made.shape[dim] = extent;
    if (tensor->data) made.data = (char *)tensor->data + bits / 8;
    *slice = made;
    return KILN_OK;
}

static int64_t row_unit(const kiln_tensor *tensor) { return 16 * 8 / kiln_type_bits(tensor->type); }

int64_t tensor_row_stride(const kiln_tensor *tensor, int dim)
{
    return tensor->shape[dim] > 1 && tensor_elements(tensor) > 0 ? tensor_stride(tensor, dim) : row_unit(tensor);
}

static int64_t step_of(const kiln_tensor *tensor, int dim) { return llabs(tensor_row_stride(tensor, dim)); }

bool tensor_overlaps_itself(const kiln_tensor *tensor, int *dim)
{
    bool seen[KILN_MAX_RANK] = { false };
    int64_t within = 1;
    if (tensor_elements(tensor) == 0) return false;
    for (int n = 0; n < tensor->rank; n++) {
        int least = -1;
        for (int d = 0; d < tensor->rank; d++)
            if (!seen[d] && (least < 0 || step_of(tensor, d) < step_of(tensor, least))) least = d;
        seen[least] = true;
        if (tensor->shape[least] <= 1) continue;
        const int64_t step = step_of(tensor, least);
        *dim = least;
        if (step < within) return true;
        within += (tensor->shape[least] - 1) * step;
    }
    return false;
}

RowsFit tensor_check_rows(const kiln_tensor *tensor, bool written, int *dim)
{
    const int last = tensor->rank - 1;
    *dim = last;
    if (tensor_elements(tensor) == 0) return ROWS_FIT;
    if (last >= 0 && tensor->shape[last] > 1 && tensor_stride(tensor, last) != 1) return ROWS_BROKEN;
    for (int d = 0; d < last; d++) {
        const int64_t stride = tensor_row_stride(tensor, d);
        *dim = d;
        if (stride <= 0 || stride % row_unit(tensor) != 0 || stride > TENSOR_STRIDE_MAX ||
            tensor->shape[d] > (INT64_C(1) << 50) / (stride + 1))
            return ROWS_UNALIGNED;
    }
    return written && tensor_overlaps_itself(tensor, dim) ? ROWS_OVERLAP : ROWS_FIT;
}

bool tensor_range(const kiln_tensor *tensor, uintptr_t *begin, uintptr_t *end)
{
    const int64_t elements = tensor_elements(tensor);
    int64_t low = 0, high = tensor->has_strides ? 0 : elements - 1;
    if (elements == 0) return false;
    for (int i = 0; tensor->has_strides && i < tensor->rank; i++) {
        const int64_t reach = (tensor->shape[i] - 1) * tensor->strides[i];
        *(reach < 0 ? &low : &high) += reach;
    }
    const int64_t bits = kiln_type_bits(tensor->type);
    *begin = (uintptr_t)tensor->data + (uintptr_t)((low * bits) >> 3);
    *end = (uintptr_t)tensor->data + (uintptr_t)(((high + 1) * bits + 7) >> 3);
    return true;
}

// Where every long stride is a multiple of `period` bytes: how many bytes the short ones reach. -1 if one is not.
static int64_t width_within(const kiln_tensor *tensor, int64_t period)
{
    const int64_t bytes = kiln_type_bits(tensor->type) / 8;
    int64_t width = bytes;
    for (int i = 0; i < tensor->rank; i++) {
        const int64_t stride = tensor_stride(tensor, i) * bytes;
        if (tensor->shape[i] == 1) continue;
        if (stride < 0 || (stride >= period && stride % period != 0)) return -1;
        if (stride < period) width += (tensor->shape[i] - 1) * stride;
    }
    return width;
}

// Parts of one packed tensor (Q, K and V side by side) interleave without overlapping: each keeps to its own part of
// every period of the common long stride.
static bool interleave(const kiln_tensor *a, const kiln_tensor *b)
{
    const int64_t bits = kiln_type_bits(a->type);
    for (int i = 0; bits >= 8 && kiln_type_bits(b->type) >= 8 && i < a->rank; i++) {
        const int64_t period = tensor_stride(a, i) * (bits / 8);
        const int64_t wa = period > 0 ? width_within(a, period) : -1, wb = period > 0 ? width_within(b, period) : -1;
        if (wa < 0 || wb < 0) continue;
        int64_t apart = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data) % period;
        apart += apart < 0 ? period : 0;
        if (apart >= wa && apart + wb <= period) return true;
    }
    return false;
}

bool tensors_overlap(const kiln_tensor *a, const kiln_tensor *b)
{
    uintptr_t a_begin, a_end, b_begin, b_end;
    if (!tensor_range(a, &a_begin, &a_end) || !tensor_range(b, &b_begin, &b_end)) return false;
    return a_begin < b_end && b_begin < a_end && !interleave(a, b);
}
