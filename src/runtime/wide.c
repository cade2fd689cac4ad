// SPDX-License-Identifier: MIT
// wide.c - builds of a CUDA kernel for launches that its first build does not take: larger shapes, rows that are no boxes.
//
// A kernel computes places in 32 bits as far as it can, and so takes shape symbols up to plan->symbol_max. A launch with
// larger ones builds the kernel again, those symbols in 64 bits. Where a kernel would have code for rows that TMA does not
// take, which the producer shifts, the first build has none, and a launch with such rows builds the kernel again, with both.
// These builds are kept beside the first, and other launches pay nothing. The program lives as long as a kernel may need it.
#include "runtime/build.h"
#include "base/memory.h"

typedef struct Variant Variant;
struct Variant {
    uint64_t symbols;
    kiln_kernel *kernel;
    Variant *next;
};

struct Wide {
    pthread_mutex_t lock; // not the kernel's: launches that need no build do not wait for one
    BuildRequest request;
    Variant *variants;
}; // in the kernel's arena; variants: memory_alloc'ed

static kiln_status build_variant(const Wide *wide, uint64_t symbols, Variant **made)
{
    BuildRequest request = wide->request;
    Variant *const variant = memory_alloc(sizeof *variant);
    if (!variant) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    request.target.wide = symbols;
    request.target.boxes_alone = false;
    *variant = (Variant){ .symbols = symbols };
    const kiln_status status = kernel_build(&request, &variant->kernel);
    if (status) memory_free(variant);
    else *made = variant;
    return status;
}

static bool takes(const Variant *variant, uint64_t symbols)
{
    return symbols ? !(symbols & ~variant->symbols) : !variant->symbols;
}

// `symbols` 0: for any rows.
static kiln_status widen(kiln_kernel *kernel, uint64_t symbols, kiln_kernel **result)
{
    Wide *const wide = kernel->wide;
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&wide->lock);
    Variant *variant = wide->variants;
    while (variant && !takes(variant, symbols)) variant = variant->next;
    if (!variant && !(status = build_variant(wide, symbols, &variant))) {
        variant->next = wide->variants;
        wide->variants = variant;
    }
    pthread_mutex_unlock(&wide->lock);
    if (status) status_prefix("%s, built again for this launch", kernel->plan->name);
    else *result = variant->kernel;
    return status;
}

static void free_wide(Wide *wide)
{
    for (Variant *v = wide->variants, *next; v; v = next) {
        next = v->next;
        kiln_kernel_free(v->kernel);
        memory_free(v);
    }
    pthread_mutex_destroy(&wide->lock);
    kiln_program_free(wide->request.program);
}

void wide_connect(kiln_kernel *kernel, const BuildRequest *request)
{
    Arena *const a = kernel->arena;
    if (setjmp(a->out_of_memory) != 0) return; // then such launches are refused
    Wide *const wide = NEW(a, Wide, .request = *request);
    Binding *const bindings = NEW_ARRAY(a, Binding, request->n_bindings + 1);
    for (int i = 0; i < request->n_bindings; i++) {
        bindings[i] = request->bindings[i];
        bindings[i].name = arena_copy_text(a, bindings[i].name, strlen(bindings[i].name));
    }
    wide->request.name = arena_copy_text(a, request->name, strlen(request->name));
    wide->request.bindings = bindings;
    pthread_mutex_init(&wide->lock, NULL);
    program_keep(request->program);
    kernel->wide = wide;
    kernel->widen = widen;
    kernel->free_wide = free_wide;
}
