// SPDX-License-Identifier: MIT
// call.c - hold the arguments of an operator's call to what they must be, in a fixed order: pointers, types, ranks,
// extents, strides, device, alignment of each tensor; then what is written against everything else.
#include "ops/call.h"
#include "kiln/ops/gemm.h"
#include "runtime/prepared.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGNMENT = 16, MEMORY_ALIGNMENT = 256 };
static const int64_t STRIDE_MAX = INT64_C(1) << 50;

// What messages call it: without its end where only the workspace's size is wanted, for that is no call of its own.
static int name_length(const Call *call)
{
    const char *const end = call->sizing ? strstr(call->name, "_workspace_size") : NULL;
    return (int)(end ? (size_t)(end - call->name) : strlen(call->name));
}

kiln_status call_fail(const Call *call, kiln_status status, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return status_fail(status, "%.*s: %s", name_length(call), call->name, text);
}

kiln_status call_begin(Call *call, const char *name, kiln_ops *ops, const void *args, size_t known)
{
    call->ops = ops, call->name = name;
    call->sizing = false;
    call->table.n_symbols = call->n_tensors = call->n_own = call->n_args = 0;
    if (!ops || !args) return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null", ops ? "args" : "ops");
    return known ? status_check_size(name, *(const size_t *)args, known) : KILN_OK;
}

kiln_status call_begin_sizing(Call *call, const char *name, kiln_ops *ops, const void *args, size_t known,
                              size_t *bytes)
{
    const kiln_status status = call_begin(call, name, ops, args, known);
    if (!status && !bytes) return call_fail(call, KILN_BAD_ARGUMENT, "'bytes' is null");
    if (bytes) *bytes = 0;
    call->sizing = true;
    return status;
}

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

const char *call_source(const Call *call, const char *name)
{
    const int i = find_symbol(call, name, (int)strlen(name), name_word(name, (int)strlen(name)));
    assert(i >= 0 && "a name of the table");
    return call->table.symbols[i].from;
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

const kiln_tensor *call_keep(Call *call, const kiln_tensor *tensor)
{
    assert(call->n_own < CALL_OWN && "as many as fit");
    call->own[call->n_own].tensor = *tensor;
    call->own[call->n_own].removed = -1;
    call->own[call->n_own].is_batch = false;
    return &call->own[call->n_own++].tensor;
}

const kiln_tensor *call_without_key_head(Call *call, const kiln_tensor *tensor, int rank)
{
    if (!tensor || tensor->rank != rank + 1 || tensor->shape[rank - 1] != 1) return tensor;
    kiln_tensor flat = *tensor;
    flat.rank = rank;
    flat.shape[rank - 1] = tensor->shape[rank];
    flat.strides[rank - 1] = tensor->strides[rank];
    const kiln_tensor *const kept = call_keep(call, &flat);
    call->own[call->n_own - 1].removed = rank - 1;
    return kept;
}

const kiln_tensor *call_with_batch(Call *call, const kiln_tensor *tensor, int rank)
{
    if (!tensor || tensor->rank != rank - 1) return tensor;
    kiln_tensor batch = *tensor;
    batch.rank = rank;
    batch.shape[0] = 1, batch.strides[0] = 0; // which is never taken
    for (int d = 0; d < rank - 1; d++) batch.shape[d + 1] = tensor->shape[d], batch.strides[d + 1] = tensor->strides[d];
    const kiln_tensor *const kept = call_keep(call, &batch);
    call->own[call->n_own - 1].is_batch = true;
    return kept;
}

// ---- one tensor

static bool is_written(const Want *want) { return want->role == OUT || want->role == OUT_OPTIONAL; }
static bool is_optional(const Want *want) { return want->role == IN_OPTIONAL || want->role == OUT_OPTIONAL; }

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
    if (!is_written(want) || !tensor_overlaps_itself(t, &dim)) return KILN_OK;
    return call_fail(call, KILN_BAD_SHAPE,
                     "'%s' is written, but with stride %" PRId64 " in dimension %d its elements overlap", want->name,
                     t->strides[dim], callers_dim(call, want, dim));
}

// Rows that lie apart.
static kiln_status check_rows(const Call *call, const Want *want)
{
    int dim;
    const RowsFit fit = tensor_check_rows(want->tensor, is_written(want), &dim);
    const int64_t stride = tensor_stride(want->tensor, dim);
    switch (fit) {
    case ROWS_FIT: return KILN_OK;
    case ROWS_BROKEN:
        return call_fail(call, KILN_BAD_SHAPE, "the last dimension of '%s' must be contiguous: it has stride %" PRId64,
                         want->name, stride);
    case ROWS_UNALIGNED:
        return call_fail(call, KILN_BAD_ALIGNMENT,
                         "dimension %d of '%s' has stride %" PRId64 ", which is %" PRId64
                         " bytes, expected a positive multiple of 16",
                         callers_dim(call, want, dim), want->name, stride,
                         (int64_t)((uint64_t)stride * (uint64_t)kiln_type_bits(want->tensor->type) / 8));
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

static int alignment_of(const Call *call, const Want *want)
{
    return want->tensor->type == KILN_I32 && (takes_any_strides(want) || ops_on_cpu(call->ops)) ? 4 : ALIGNMENT;
}

// Where a kernel for tensors that are aligned does not take it.
static bool is_misaligned(const Call *call, const Want *want)
{
    return want->tensor && takes_any_strides(want) && !ops_on_cpu(call->ops) &&
           (uintptr_t)want->tensor->data % ALIGNMENT != 0;
}

static bool is_at_home(const Call *call, const kiln_tensor *t)
{
    return t->device == call->ops->device || (device_is_cpu(t->device) && ops_on_cpu(call->ops));
}

static kiln_status check_place(const Call *call, const Want *want)
{
    const kiln_tensor *const t = want->tensor;
    const kiln_device *const device = call->ops->device;
    if (!is_at_home(call, t))
        return call_fail(call, KILN_BAD_DEVICE, "'%s' is memory of %s, but the operators run on %s", want->name,
                         t->device ? kiln_device_name(t->device) : "the host", kiln_device_name(device));
    if (call->sizing || tensor_elements(t) == 0) return KILN_OK;
    if (!t->data)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'%s' has no data: its pointer is null and it has %" PRId64 " elements", want->name,
                         tensor_elements(t));
    const int alignment = alignment_of(call, want);
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
            if (wants[j].tensor && (is_written(&wants[i]) || is_written(&wants[j])) &&
                tensors_overlap(wants[i].tensor, wants[j].tensor))
                return call_fail(call, KILN_BAD_ARGUMENT, "'%s' and '%s' overlap in memory, and '%s' is written",
                                 wants[j].name, wants[i].name, wants[is_written(&wants[i]) ? i : j].name);
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

// ---- tables that were checked before

// One word of all that is no extent or stride, of a tensor that is there.
static int64_t want_word(const Call *call, const Want *want)
{
    const kiln_tensor *const t = want->tensor;
    return (int64_t)((uint64_t)want->role | (uint64_t)want->types << 2 | (uint64_t)is_misaligned(call, want) << 62 |
                     (uint64_t)t->rank << 32 | (uint64_t)t->has_strides << 36 | (uint64_t)t->type << 40);
}

static bool has_key(const Call *call, const kiln_tensor *t)
{
    return (unsigned)t->rank <= KILN_MAX_RANK && (unsigned)t->type <= KILN_BOOL && is_at_home(call, t);
}

static_assert(CALL_TENSORS < 64, "a bit for each");
static_assert(3 + CALL_SYMBOLS + CALL_TENSORS * (2 + 2 * KILN_MAX_RANK) <= KNOWN_KEY_WORDS, "any table has a key");

static void key_of_table(KnownKey *key, const Call *call, const Want *wants, int n)
{
    int64_t *at = key->words;
    *at++ = (int64_t)(uintptr_t)call->name;
    *at++ = call->table.n_symbols;
    for (int i = 0; i < call->table.n_symbols; i++) *at++ = call->table.symbols[i].value;
    key->is_none = false;
    uint64_t there = 0;
    for (int i = 0; i < n && !key->is_none; i++) {
        const kiln_tensor *const t = wants[i].tensor;
        key->is_none = t ? !has_key(call, t) : !is_optional(&wants[i]);
        if (!t || key->is_none) continue; // nothing follows from what an absent one would have been
        there |= UINT64_C(1) << i;
        *at++ = want_word(call, &wants[i]);
        *at++ = (int64_t)(uintptr_t)wants[i].shape;
        for (int d = 0; d < t->rank; d++) *at++ = t->shape[d];
        for (int d = 0; t->has_strides && d < t->rank; d++) *at++ = t->strides[d];
    }
    *at++ = (int64_t)there;
    key->n = (int)(at - key->words);
}

static void note_tensors(Call *call, const Want *wants, int n)
{
    for (int i = 0; i < n; i++) {
        const kiln_tensor *const t = wants[i].tensor;
        uintptr_t begin = 0, end = 0;
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
        call->table.tensors[i].is_empty = !tensor_range(t, &begin, &end);
        call->table.tensors[i].alignment = alignment_of(call, &wants[i]);
        call->table.tensors[i].low = (intptr_t)(begin - (uintptr_t)t->data);
        call->table.tensors[i].high = (intptr_t)(end - (uintptr_t)t->data);
    }
}

// The addresses of a table that is known: there, aligned, and nothing written within the bounds of anything else. What is
// not so is looked at as if it were new.
static bool addresses_fit(const CallTable *table, const Want *wants, int n, const void *memory, size_t bytes)
{
    uintptr_t begin[CALL_TENSORS + 1], end[CALL_TENSORS + 1];
    int written[CALL_TENSORS + 1], n_written = 0, m = 0;
    if ((bytes && !memory) || (uintptr_t)memory % MEMORY_ALIGNMENT != 0) return false;
    for (int i = 0; i < n; i++) {
        if (!wants[i].tensor || table->tensors[i].is_empty) continue;
        const uintptr_t at = (uintptr_t)wants[i].tensor->data;
        if (!at || (at & ((uintptr_t)table->tensors[i].alignment - 1)) != 0) return false;
        begin[m] = at + (uintptr_t)table->tensors[i].low, end[m] = at + (uintptr_t)table->tensors[i].high;
        if (is_written(&wants[i])) written[n_written++] = m;
        m++;
    }
    if (memory) {
        begin[m] = (uintptr_t)memory, end[m] = begin[m] + bytes;
        written[n_written++] = m++;
    }
    for (int k = 0; k < n_written; k++)
        for (int i = written[k], j = 0; j < m; j++)
            if (begin[i] < end[j] && begin[j] < end[i] && i != j) return false;
    return true;
}

static bool is_known(Call *call, const KnownKey *key, const Want *wants, int n, const void *memory, size_t bytes)
{
    const int n_bound = call->table.n_symbols;
    if (!known_find(&call->ops->known, key, &call->table, sizeof call->table)) return false;
    if (call->sizing || addresses_fit(&call->table, wants, n, memory, bytes)) return true;
    call->table.n_symbols = n_bound; // which the key has, so that they are the same
    return false;
}

static kiln_status check_table(Call *call, const Want *wants, int n, const char *memory_name, const void *memory,
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

static size_t bytes_of(const CallTable *table)
{
    return offsetof(CallTable, symbols) + sizeof *table->symbols * (size_t)table->n_symbols;
}

// A copy of tensor i, which kernels take in its place.
static kiln_tensor *copy_tensor(Call *call, int i)
{
    if (call->tensors[i] != &call->copies[i]) call->copies[i] = *call->tensors[i];
    call->tensors[i] = &call->copies[i];
    return &call->copies[i];
}

kiln_status call_check(Call *call, const Want *wants, int n, const char *memory_name, const void *memory, size_t bytes)
{
    KnownKey key;
    kiln_status status = KILN_OK;
    assert(n <= CALL_TENSORS && "as many as fit");
    key_of_table(&key, call, wants, n);
    if (!is_known(call, &key, wants, n, memory, bytes)) {
        status = check_table(call, wants, n, memory_name, memory, bytes);
        if (!status) known_keep(&call->ops->known, &key, &call->table, bytes_of(&call->table));
    }
    call->n_tensors = n;
    for (int i = 0; i < n; i++) call->tensors[i] = wants[i].tensor;
    return status;
}

void call_take_bytes(Call *call, int i)
{
    if (call->tensors[i]) copy_tensor(call, i)->type = KILN_U8;
}

kiln_status call_activation(const Call *call, int activation)
{
    return activation >= KILN_ACTIVATION_NONE && activation <= KILN_ACTIVATION_SILU
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'activation' is %d, expected one of kiln_activation", activation);
}

kiln_status call_scale(const Call *call, const double *given, double otherwise, double *scale)
{
    *scale = given ? *given : otherwise;
    const float taken = (float)*scale; // as kernels take it
    if (!(taken > 0) || isinf(taken))
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'scale' is %g, expected a positive number that f32 holds; left out it is %g", *scale,
                         otherwise);
    return KILN_OK;
}

// ---- kernels

kiln_status call_named(const Call *call, kiln_status status)
{
    if (status) status_prefix("%.*s", name_length(call), call->name);
    return status;
}

static int64_t tensors_there(const Call *call)
{
    uint64_t there = 0;
    for (int i = 0; i < call->n_tensors; i++) there |= (uint64_t)(call->tensors[i] != NULL) << i;
    return (int64_t)there;
}

// All that the text of its bindings is made from; formats have %s, %-s and %d alone. The first n tensors may be strided.
static void key_of_kernel(KnownKey *key, const Call *call, int n, const char *name, const char *format, va_list args)
{
    known_key_begin(key);
    known_key_word(key, (int64_t)(uintptr_t)name);
    known_key_word(key, (int64_t)(uintptr_t)format);
    known_key_word(key, tensors_there(call));
    for (const char *at = format; (at = *at == '%' ? at : strchr(at, '%')) != NULL;
         at += 2) {                        // often one after the other
        const bool is_told = at[1] == '-'; // by which tensors are there
        at += is_told;
        assert((at[1] == 's' || at[1] == 'd') && "formats of bindings have %s, %-s and %d alone");
        if (is_told) (void)va_arg(args, const char *);
        else if (at[1] == 's') known_key_text(key, va_arg(args, const char *));
        else known_key_word(key, va_arg(args, int));
    }
    for (int i = 0; i < n; i++)
        if (call->table.tensors[i].strided) {
            known_key_word(key, (int64_t)(uintptr_t)call->table.tensors[i].strided);
            known_key_word(key, call->table.tensors[i].is_unaligned);
        }
}

// What a parameter is bound to whose rows lie apart.
static const char *stride_word(const Call *call, int i)
{
    return call->table.tensors[i].is_unaligned ? "unaligned" : "strided";
}

static kiln_status build_kernel(const Call *call, int n, const char *file, const char *name, kiln_kernel **kernel,
                                const char *format, va_list args)
{
    char bindings[OPS_BINDINGS_BYTES];
    size_t length = (size_t)vsnprintf(bindings, sizeof bindings, format, args);
    for (int i = 0; i < n && length < sizeof bindings; i++) {
        const char *const shape = call->table.tensors[i].strided;
        if (shape)
            length += (size_t)snprintf(bindings + length, sizeof bindings - length, "%s%.*s=%s", length ? ", " : "",
                                       (int)strcspn(shape, "["), shape, stride_word(call, i));
    }
    if (length >= sizeof bindings)
        return call_fail(call, KILN_UNSUPPORTED, "'%s': the bindings are too long: %s", name, bindings);
    return call_named(call, ops_kernel(call->ops, file, name, bindings, kernel));
}

static kiln_status find_kernel(const Call *call, int n, const char *file, const char *name, kiln_kernel **kernel,
                               const char *format, va_list args)
{
    KnownKey key;
    va_list again;
    va_copy(again, args);
    key_of_kernel(&key, call, n, name, format, again);
    va_end(again);
    if (known_find(&call->ops->known, &key, kernel, sizeof *kernel)) return KILN_OK;
    const kiln_status status = build_kernel(call, n, file, name, kernel, format, args);
    if (!status) known_keep(&call->ops->known, &key, kernel, sizeof *kernel);
    return status;
}

kiln_status call_kernel(Call *call, const char *file, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const kiln_status status = find_kernel(call, call->n_tensors, file, name, &call->kernel, format, args);
    va_end(args);
    call->n_args = 0; // another kernel may have been bound before
    for (int i = 0; i < call->n_tensors; i++) call_add(call, call_tensor(call, i));
    return status;
}

kiln_status call_other_kernel(const Call *call, const char *file, const char *name, kiln_kernel **kernel,
                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const kiln_status status = find_kernel(call, call->n_tensors, file, name, kernel, format, args);
    va_end(args);
    return status;
}

kiln_status call_plain_kernel(const Call *call, const char *file, const char *name, kiln_kernel **kernel,
                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const kiln_status status = find_kernel(call, 0, file, name, kernel, format, args);
    va_end(args);
    return status;
}

static bool lies_apart(const Call *call, const Taken *taken)
{
    return call->tensors[taken->tensor] && call->table.tensors[taken->tensor].strided;
}

static kiln_status build_taking_kernel(const Call *call, const char *file, const char *name, const Taken *taken, int n,
                                       kiln_kernel **kernel, const char *format, va_list args)
{
    char text[OPS_BINDINGS_BYTES];
    size_t length = (size_t)vsnprintf(text, sizeof text, format, args);
    for (int i = 0; i < n && length < sizeof text; i++)
        if (!call->tensors[taken[i].tensor] || lies_apart(call, &taken[i]))
            length +=
                (size_t)snprintf(text + length, sizeof text - length, "%s%s=%s", length ? ", " : "", taken[i].parameter,
                                 lies_apart(call, &taken[i]) ? stride_word(call, taken[i].tensor) : "none");
    assert(length < sizeof text && "a few short names");
    return call_named(call, ops_kernel(call->ops, file, name, text, kernel));
}

kiln_status call_taking_kernel(const Call *call, const char *file, const char *name, const Taken *taken, int n,
                               kiln_kernel **kernel, const char *format, ...)
{
    KnownKey key;
    va_list args;
    va_start(args, format);
    key_of_kernel(&key, call, 0, name, format, args);
    va_end(args);
    for (int i = 0; i < n; i++)
        known_key_word(&key, !call->tensors[taken[i].tensor]                     ? 0
                             : !lies_apart(call, &taken[i])                      ? 1
                             : call->table.tensors[taken[i].tensor].is_unaligned ? 2
                                                                                 : 3);
    if (known_find(&call->ops->known, &key, kernel, sizeof *kernel)) return KILN_OK;
    va_start(args, format);
    const kiln_status status = build_taking_kernel(call, file, name, taken, n, kernel, format, args);
    va_end(args);
    if (!status) known_keep(&call->ops->known, &key, kernel, sizeof *kernel);
    return status;
}

kiln_status call_size(Call *call, size_t *bytes)
{
    if (prepared_size_of_shapes(call->kernel, call->args, call->n_args, bytes)) return KILN_OK;
    // A tensor that only has its shape gets an address of its own, so that it overlaps no other.
    for (int i = 0; call->sizing && i < call->n_args; i++)
        if (call->args[i].kind == KILN_ARG_TENSOR) {
            copy_tensor(call, i)->data = (void *)(((uintptr_t)i + 1) << 58 >> 4);
            call->args[i] = call_tensor(call, i);
        }
    return call_named(call, kiln_workspace_size(call->kernel, call->args, call->n_args, bytes));
}

kiln_status call_room(Call *call, size_t workspace_bytes)
{
    size_t needed;
    const kiln_status status = call_size(call, &needed);
    if (!status && workspace_bytes < needed)
        return call_fail(call, KILN_BAD_ARGUMENT, "needs a workspace of %zu bytes, %zu given", needed, workspace_bytes);
    return status;
}

kiln_status call_run(const Call *call, kiln_stream *stream, void *workspace, size_t workspace_bytes)
{
    return call_named(call,
                      kiln_launch_with(call->kernel, stream, call->args, call->n_args, workspace, workspace_bytes));
}

kiln_status call_launch(const Call *call, kiln_stream *stream, kiln_kernel *kernel, const kiln_arg *args, int n)
{
    return call_named(call, kiln_launch_with(kernel, stream, args, n, NULL, 0));
}

kiln_status call_check_offsets(const Call *call, kiln_stream *stream, int i, int64_t rows, int64_t longest)
{
    kiln_kernel *kernel;
    if (!call->tensors[i] || !ops_look_at_values(call->ops)) return KILN_OK;
    const kiln_status status = call_taking_kernel(call, "attention/inputs.tile", "attention_offsets",
                                                  &(Taken){ i, "OFFSET" }, 1, &kernel, "%s", "");
    const kiln_arg args[] = { call_tensor(call, i), KILN_INT(rows), KILN_INT(longest) };
    return status || call->sizing ? status : call_launch(call, stream, kernel, args, COUNT(args));
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
