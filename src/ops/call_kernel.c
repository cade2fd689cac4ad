// SPDX-License-Identifier: MIT
// call_kernel.c - the kernels of a call: found by what their bindings are made from, sized, launched.
#include "ops/call_parts.h"

#include <stdarg.h>
#include <stdio.h>

static int64_t tensors_there(const Call *call)
{
    uint64_t there = 0;
    for (int i = 0; i < call->n_tensors; i++) there |= (uint64_t)(call->tensors[i] != NULL) << i;
    return (int64_t)there;
}

// What LACKS makes: a binding to none, or nothing.
static bool is_lack(const char *text)
{
    const char *const value = strrchr(text, '=');
    return !*text || (value && strcmp(value, "=none") == 0);
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
        if (is_told) {
            const bool lacks = is_lack(va_arg(args, const char *));
            assert(lacks && "other text than that of LACKS tells kernels apart, and is no part of the key by %-s");
            (void)lacks;
        } else if (at[1] == 's') known_key_text(key, va_arg(args, const char *));
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
            call_copy_tensor(call, i)->data = (void *)(((uintptr_t)i + 1) << 58 >> 4);
            call->args[i] = call_tensor(call, i);
        }
    return call_named(call, kiln_workspace_size(call->kernel, call->args, call->n_args, bytes));
}

kiln_status call_size(Call *call, size_t *bytes)
{
    const kiln_status status = size_of_kernel(call, bytes);
    if (!status) call_keep_size(call, *bytes);
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
