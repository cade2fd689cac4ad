// SPDX-License-Identifier: MIT
// call.c - a call begins; the tensors that it makes of the caller's; scalars held to what they must be.
#include "ops/call_parts.h"
#include "kiln/ops/gemm.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

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

kiln_status call_named(const Call *call, kiln_status status)
{
    if (status) status_prefix("%.*s", name_length(call), call->name);
    return status;
}

// ---- tensors

const char *call_source(const Call *call, const char *name)
{
    const int i = find_symbol(call, name, (int)strlen(name), name_word(name, (int)strlen(name)));
    assert(i >= 0 && "a name of the table");
    return call->table.symbols[i].from;
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

kiln_tensor *call_copy_tensor(Call *call, int i)
{
    if (call->tensors[i] != &call->copies[i]) call->copies[i] = *call->tensors[i];
    call->tensors[i] = &call->copies[i];
    return &call->copies[i];
}

kiln_status call_check(Call *call, const Want *wants, int n, const char *memory_name, const void *memory, size_t bytes)
{
    assert(n <= CALL_TENSORS && "as many as fit");
    const kiln_status status = call_check_table(call, wants, n, memory_name, memory, bytes);
    if (!status && call->is_new && !call->sizing) call_record_table(call, wants, n);
    call->n_tensors = n;
    for (int i = 0; i < n; i++) call->tensors[i] = wants[i].tensor;
    return status;
}

bool call_has_columns(const kiln_tensor *t)
{
    return t && t->rank == 2 && t->has_strides && t->strides[0] == 1 && t->strides[1] != 1;
}

const kiln_tensor *call_by_columns(Call *call, const kiln_tensor *tensor)
{
    if (!call_has_columns(tensor)) return tensor;
    kiln_tensor turned = *tensor;
    turned.shape[0] = tensor->shape[1], turned.shape[1] = tensor->shape[0];
    turned.strides[0] = tensor->strides[1], turned.strides[1] = 1;
    return call_keep(call, &turned);
}

void call_take_bytes(Call *call, int i)
{
    if (call->tensors[i]) call_copy_tensor(call, i)->type = KILN_U8;
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
