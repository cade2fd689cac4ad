// SPDX-License-Identifier: MIT
// call.c - hold the arguments of an operator's call to what they must be, in a fixed order: pointers, types, ranks,
// extents, strides, device, alignment of each tensor; then what is written against everything else.
#include "ops/call.h"
#include "kiln/ops/gemm.h"

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

kiln_status call_begin(Call *call, const char *name, kiln_ops *ops, const void *args, const Form *form)
{
    call->ops = ops, call->name = name, call->given = args, call->form = form;
    call->sizing = call->is_new = false;
    call->longest = INT32_MAX;
    call->record = NULL;
    call->table.n_symbols = call->n_tensors = call->n_own = call->n_args = 0;
    if (!ops || !args) return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null", ops ? "args" : "ops");
    return form ? status_check_size(name, *(const size_t *)args, form->bytes) : KILN_OK;
}

kiln_status call_begin_sizing(Call *call, const char *name, kiln_ops *ops, const void *args, const Form *form,
                              size_t *bytes)
{
    const kiln_status status = call_begin(call, name, ops, args, form);
    if (!status && !bytes) return call_fail(call, KILN_BAD_ARGUMENT, "'bytes' is null");
    if (bytes) *bytes = 0;
    call->sizing = true;
    call->bytes = bytes;
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

// A copy of tensor i, which kernels take in its place.
static kiln_tensor *copy_tensor(Call *call, int i)
{
    if (call->tensors[i] != &call->copies[i]) call->copies[i] = *call->tensors[i];
    call->tensors[i] = &call->copies[i];
    return &call->copies[i];
}

// ---- calls that run again

// All of a call but addresses, and those.
typedef struct CallKey {
    KnownKey key;
    int n_tensors;
    const kiln_tensor *tensors[PLACES_MOST];
    bool has_memory;
    const void *memory;
    size_t memory_bytes;
} CallKey;

enum { OTHER_WORDS = 128 }; // at most, of a call: those of all its fields that are no tensors

// Where its words end; NULL: the call has no key.
static int64_t *add_tensor(CallKey *k, const Call *call, const kiln_tensor *t, int64_t *to)
{
    if ((unsigned)t->rank > KILN_MAX_RANK || (unsigned)t->type > KILN_BOOL || !is_at_home(call, t) ||
        k->n_tensors + 2 > PLACES_MOST || to - k->key.words > KNOWN_KEY_WORDS - OTHER_WORDS - 1 - 2 * KILN_MAX_RANK)
        return NULL;
    *to++ = (int64_t)(1 | (uint64_t)t->has_strides << 1 | (uint64_t)((uintptr_t)t->data % ALIGNMENT != 0) << 2 |
                      (uint64_t)t->rank << 8 | (uint64_t)t->type << 16);
    for (int d = 0; d < t->rank; d++) *to++ = t->shape[d];
    for (int d = 0; t->has_strides && d < t->rank; d++) *to++ = t->strides[d];
    k->tensors[k->n_tensors++] = t;
    return to;
}

static int64_t *add_fields(CallKey *k, const Call *call, const Form *form, const char *from, int64_t *to);

// What a pointer that is not NULL leads to.
static int64_t *add_pointer(CallKey *k, const Call *call, const FormField *field, const char *pointer, int64_t *to)
{
    if (field->kind == FORM_TENSOR) return add_tensor(k, call, (const kiln_tensor *)pointer, to);
    *to++ = 1;
    if (field->kind == FORM_STRUCT) return add_fields(k, call, field->of, pointer, to);
    memcpy(to, pointer, (size_t)field->bytes);
    return to + field->bytes / 8;
}

static int64_t *add_fields(CallKey *k, const Call *call, const Form *form, const char *from, int64_t *to)
{
    const FormField *const end = form->fields + form->n;
    for (const FormField *field = form->fields; field < end; field++) {
        const char *const at = from + field->offset, *pointer;
        switch (field->kind) {
        case FORM_BYTE: *to++ = *(const unsigned char *)at; continue;
        case FORM_INT: *to++ = *(const int *)at; continue;
        case FORM_WORD: *to++ = *(const int64_t *)at; continue;
        case FORM_MEMORY:
            k->has_memory = true;
            k->memory = *(void *const *)at;
            k->memory_bytes = *(const size_t *)(from + field[1].offset);
            continue;
        case FORM_TENSOR:
        case FORM_WORDS:
        case FORM_STRUCT: break;
        }
        if (!(pointer = *(const char *const *)at)) *to++ = 0;
        else if (!(to = add_pointer(k, call, field, pointer, to))) return NULL;
    }
    return to;
}

// False: the call has no key.
static bool make_key(CallKey *k, const Call *call)
{
    k->n_tensors = 0;
    k->has_memory = k->key.is_none = false;
    k->key.words[0] = (int64_t)(uintptr_t)call->name;
    const int64_t *const end = add_fields(k, call, call->form, call->given, k->key.words + 1);
    k->key.n = end ? (int)(end - k->key.words) : 0;
    return end != NULL;
}

static bool run_again(const Call *call, const CallKey *k, const Prepared *p, kiln_stream *stream, kiln_status *status)
{
    uintptr_t at[PLACES_MOST];
    if (stream && stream->device != call->ops->device) return false;
    for (int i = 0; i < k->n_tensors; i++) at[i] = (uintptr_t)k->tensors[i]->data;
    if (k->has_memory) at[k->n_tensors] = (uintptr_t)k->memory;
    if (!prepared_run(p, stream, at, status)) return false;
    if (*status) call_named(call, *status);
    return true;
}

bool call_again(Call *call, kiln_stream *stream, kiln_status *status)
{
    CallKey k;
    if (*status) return true;
    if (!make_key(&k, call)) return false;
    Prepared *const p = known_call(&call->ops->known, &k.key);
    if (p && call->sizing) *call->bytes = prepared_bytes(p);
    const bool done = p && (call->sizing || run_again(call, &k, p, stream, status));
    prepared_end_use(p);
    call->is_new = !done;
    return done;
}

// What tables demand of places, beside what launches do: that what is written is apart from everything else.
static void record_table(Call *call, const Want *wants, int n)
{
    CallKey k;
    Recording *const r = call->record = &call->recorded;
    recording_begin(r);
    if (!make_key(&k, call)) r->failed = true;
    for (int i = 0; i < k.n_tensors && !r->failed; i++) recording_give(r, k.tensors[i]);
    if (k.has_memory) recording_give_workspace(r, k.memory, k.memory_bytes);
    for (int i = 0; i < n && !r->failed; i++)
        if (wants[i].tensor)
            recording_demand(r, wants[i].tensor, alignment_of(call, &wants[i]), is_written(&wants[i]), true);
}

static void keep(const Call *call, const Recording *r)
{
    CallKey k;
    if (make_key(&k, call)) known_keep_call(&call->ops->known, &k.key, prepared_of(r));
}

void call_done(const Call *call)
{
    if (call->record && !call->record->failed) keep(call, call->record);
}

__attribute__((noinline)) static void keep_size(const Call *call, size_t bytes)
{
    Recording r;
    if (!call->sizing || !call->is_new) return;
    recording_begin(&r);
    r.bytes = bytes;
    keep(call, &r);
}

kiln_status call_sized(const Call *call, size_t bytes)
{
    *call->bytes = bytes;
    keep_size(call, bytes);
    return KILN_OK;
}

// ---- the table

kiln_status call_check(Call *call, const Want *wants, int n, const char *memory_name, const void *memory, size_t bytes)
{
    assert(n <= CALL_TENSORS && "as many as fit");
    const kiln_status status = check_table(call, wants, n, memory_name, memory, bytes);
    if (!status && call->is_new && !call->sizing) record_table(call, wants, n);
    call->n_tensors = n;
    for (int i = 0; i < n; i++) call->tensors[i] = wants[i].tensor;
    return status;
}

void call_take_bytes(Call *call, int i)
{
    if (call->tensors[i]) copy_tensor(call, i)->type = KILN_U8;
}

int call_tile_on_cpu(int64_t extent, int least, int most)
{
    static const int tiles[] = { 256, 128, 64, 32, 16 };
    enum { OF_TILE = 16 }; // what a tile costs beside its rows, in rows
    int best = most;
    int64_t least_cost = INT64_MAX;
    for (int i = 0; i < COUNT(tiles); i++) {
        const int64_t cost = (extent + tiles[i] - 1) / tiles[i] * (tiles[i] + OF_TILE);
        if (tiles[i] < least || tiles[i] > most || cost >= least_cost) continue;
        best = tiles[i];
        least_cost = cost;
    }
    return best;
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
    if ((*kernel = known_kernel(&call->ops->known, &key)) != NULL) return KILN_OK;
    const kiln_status status = build_kernel(call, n, file, name, kernel, format, args);
    if (!status) known_keep_kernel(&call->ops->known, &key, *kernel);
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
    if ((*kernel = known_kernel(&call->ops->known, &key)) != NULL) return KILN_OK;
    va_start(args, format);
    const kiln_status status = build_taking_kernel(call, file, name, taken, n, kernel, format, args);
    va_end(args);
    if (!status) known_keep_kernel(&call->ops->known, &key, *kernel);
    return status;
}

static kiln_status size_of_kernel(Call *call, size_t *bytes)
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

kiln_status call_size(Call *call, size_t *bytes)
{
    const kiln_status status = size_of_kernel(call, bytes);
    if (!status) keep_size(call, *bytes);
    return status;
}

kiln_status call_room(Call *call, size_t workspace_bytes)
{
    size_t needed;
    const kiln_status status = call_size(call, &needed);
    if (!status && workspace_bytes < needed)
        return call_fail(call, KILN_BAD_ARGUMENT, "needs a workspace of %zu bytes, %zu given", needed, workspace_bytes);
    return status;
}

static kiln_status launch(const Call *call, kiln_stream *stream, kiln_kernel *kernel, const kiln_arg *args, int n,
                          void *workspace, size_t bytes)
{
    Recording *const r = call->record;
    return call_named(call, r && !r->failed ? launch_recorded(kernel, stream, args, n, workspace, bytes, r)
                                            : kiln_launch_with(kernel, stream, args, n, workspace, bytes));
}

kiln_status call_run(const Call *call, kiln_stream *stream, void *workspace, size_t workspace_bytes)
{
    const kiln_status status = launch(call, stream, call->kernel, call->args, call->n_args, workspace, workspace_bytes);
    if (!status) call_done(call);
    return status;
}

kiln_status call_launch(const Call *call, kiln_stream *stream, kiln_kernel *kernel, const kiln_arg *args, int n)
{
    return launch(call, stream, kernel, args, n, NULL, 0);
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
