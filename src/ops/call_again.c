// SPDX-License-Identifier: MIT
// call_again.c - a call that agrees with an earlier one in all but addresses runs again: its key, what is kept of the earlier one.
#include "ops/call_parts.h"

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
    if ((unsigned)t->rank > KILN_MAX_RANK || (unsigned)t->type > KILN_BOOL || !call_is_home(call, t) ||
        k->n_tensors + 2 > PLACES_MOST || to - k->key.words > KNOWN_KEY_WORDS - OTHER_WORDS - 1 - 2 * KILN_MAX_RANK)
        return NULL;
    *to++ = (int64_t)(1 | (uint64_t)t->has_strides << 1 | (uint64_t)((uintptr_t)t->data % TENSOR_ALIGNMENT != 0) << 2 |
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
void call_record_table(Call *call, const Want *wants, int n)
{
    CallKey k;
    Recording *const r = call->record = &call->recorded;
    recording_begin(r);
    if (!make_key(&k, call)) r->failed = true;
    for (int i = 0; i < k.n_tensors && !r->failed; i++) recording_give(r, k.tensors[i]);
    if (k.has_memory) recording_give_workspace(r, k.memory, k.memory_bytes);
    for (int i = 0; i < n && !r->failed; i++)
        if (wants[i].tensor)
            recording_demand(r, wants[i].tensor, call_alignment(call, &wants[i]), want_is_written(&wants[i]), true);
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

__attribute__((noinline)) void call_keep_size(const Call *call, size_t bytes)
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
    call_keep_size(call, bytes);
    return KILN_OK;
}
