// SPDX-License-Identifier: MIT
// emission.c - from kernels to the files of `kiln build`: the forms that are asked for, a unit in all of them, and its texts
// written or compiled.
#include "tools/emission.h"
#include "base/memory.h"
#include "runtime/tuned.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- forms

static int add_form(CodeForms *forms, CodeForm form)
{
    for (int i = 0; i < forms->n; i++)
        if (strcmp(forms->of[i].name, form.name) == 0) return -1;
    if (forms->n == MAX_FORMS) return fail_usage("more than %d forms", MAX_FORMS);
    forms->of[forms->n++] = form;
    return -1;
}

static int add_cpu_form(CodeForms *forms, const char *name)
{
    const CpuForm *const form = cpu_form_find(name);
    if (!form) {
        char names[256];
        cpu_form_names(NULL, names, sizeof names);
        return fail_usage("--isa=%s: expected %s", name, names);
    }
    if (form->machine && forms->machine && strcmp(form->machine, forms->machine) != 0)
        return fail_usage("--isa=%s is of %s, other forms are of %s: one object holds code of one machine", name,
                          form->machine, forms->machine);
    if (form->machine) forms->machine = form->machine;
    return add_form(forms,
                    (CodeForm){ form->name, { .kind = &target_cpu, .cpu = form->target }, .flags = form->flags });
}

// `device_arch`: generic code is for the generation of the device at hand; 0: for the oldest.
static int add_cuda_form(CodeForms *forms, const GpuTarget *gpu, int device_arch)
{
    const CudaArch arch = cuda_arch(gpu, device_arch);
    const char *const name = arena_copy_text(forms->arena, arch.name, strlen(arch.name));
    return add_form(forms, (CodeForm){ name, { .kind = &target_cuda, .gpu = gpu }, arch, "" });
}

static int by_rank(const void *a, const void *b)
{
    const CpuForm *const x = cpu_form_find(((const CodeForm *)a)->name), *const y =
                                                                             cpu_form_find(((const CodeForm *)b)->name);
    return x && y ? (x < y) - (x > y) : (y != NULL) - (x != NULL); // rows of one table; cubins last
}

// The words of "avx2,portable", each given to `add`.
static int for_each_word(CodeForms *forms, const char *list, int (*add)(CodeForms *forms, const char *word))
{
    char word[64];
    int result = -1;
    for (const char *p = list; p && *p && result < 0; p += strcspn(p, ","), p += *p == ',') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p, ","), p);
        result = add(forms, word);
    }
    return result;
}

static int add_arch(CodeForms *forms, const char *word)
{
    int64_t path;
    const int result = read_number("--arch", word, &path);
    if (result >= 0) return result;
    const GpuTarget *const gpu = path > 0 && path <= INT_MAX ? gpu_find((int)path) : NULL;
    return gpu ? add_cuda_form(forms, gpu, 0) : fail_usage("--arch=%s: expected 90 or 80", word);
}

int forms_choose(CodeForms *forms, Arena *arena, const char *isas, const char *archs, const kiln_device *device)
{
    *forms = (CodeForms){ .arena = arena };
    const CpuForm *own;
    int result = for_each_word(forms, isas, add_cpu_form);
    if (result < 0) result = for_each_word(forms, archs, add_arch);
    if (result < 0 && forms->n == 0) {
        if (device && !device_is_cpu(device)) result = add_cuda_form(forms, gpu_for_device(device->arch), device->arch);
        else if (cpu_form_choose(NULL, &own)) result = fail_status(NULL);
        else result = add_cpu_form(forms, own->name);
    }
    qsort(forms->of, (size_t)forms->n, sizeof *forms->of, by_rank);
    return result;
}

const char *forms_list(const CodeForms *forms, Arena *arena)
{
    Text text = { .arena = arena };
    for (int i = 0; i < forms->n; i++) text_print(&text, "%s%s", i ? ", " : "", forms->of[i].name);
    return text_cstr(&text);
}

// ---- units

static kiln_status add_form_of_unit(Emission *e, const BuildRequest *request, int i, const char *name, Text *header)
{
    const CodeForms *const forms = e->forms;
    BuildRequest one = *request;
    kiln_kernel *kernel;
    one.device = NULL;
    one.target = forms->of[i].target;
    const kiln_status tuned = tuned_apply(e->arena, &one, e->tuned, e->tuned_for);
    if (tuned) return tuned;
    const kiln_status translated = kernel_translate(&one, &kernel);
    if (translated) return translated;
    const char *const next = i + 1 < forms->n ? arena_printf(e->arena, "%s_%s", name, forms->of[i + 1].name) : NULL;
    const char *const own = i == 0 ? name : arena_printf(e->arena, "%s_%s", name, forms->of[i].name);
    e->name = name;
    if (i == 0 && header) emission_functions(header, e, kernel->plan, kernel->steps != NULL);
    const kiln_status status = emission_code(e, kernel, &forms->of[i], own, next);
    kiln_kernel_free(kernel);
    return status;
}

kiln_status emission_unit(Emission *e, const BuildRequest *request, const char *name, Text *header)
{
    kiln_status status = KILN_OK;
    for (int i = 0; !status && i < e->forms->n; i++) status = add_form_of_unit(e, request, i, name, header);
    return status;
}

// ---- pieces

void emission_add(Emission *e, const char *name, const Text *text, const char *flags)
{
    Piece *const piece = NEW(e->arena, Piece, .name = name, .text = text_cstr(text), .flags = flags);
    VEC_PUSH(e->arena, &e->pieces, piece);
}

kiln_status emission_write(const Emission *e, const char *name, const Text *text)
{
    const char *const path = arena_printf(e->arena, "%s/%s", e->folder, name);
    if (!file_write(path, text_cstr(text), text->length))
        return status_fail(KILN_IO, "cannot write %s: %s", path, strerror(errno));
    printf("%s\n", path);
    return KILN_OK;
}

kiln_status emission_write_pieces(Emission *e)
{
    kiln_status status = KILN_OK;
    for (int i = 0; !status && i < e->pieces.count; i++) {
        const Piece *const piece = e->pieces.items[i];
        const Text text = { .arena = e->arena, .data = (char *)piece->text, .length = strlen(piece->text) };
        status = emission_write(e, arena_printf(e->arena, "%s.c", piece->name), &text);
    }
    return status;
}

// Messages belong to threads.
static void compile_piece(void *context, int i)
{
    const Emission *const e = context;
    Piece *const piece = e->pieces.items[i];
    piece->status = cc_object(piece->text, e->forms->machine, piece->flags, piece->object);
    if (piece->status) snprintf(piece->message, sizeof piece->message, "%s", kiln_error_message());
}

kiln_status emission_compile_pieces(Emission *e, const char *path)
{
    char folder[PATH_BYTES];
    const int n = e->pieces.count;
    const char **const objects = NEW_ARRAY(e->arena, const char *, n + 1);
    kiln_status status = work_folder_make(true, folder);
    if (status) return status;
    for (int i = 0; i < n; i++) {
        Piece *const piece = e->pieces.items[i];
        snprintf(piece->object, sizeof piece->object, "%s/%.120s.o", folder, piece->name);
        objects[i] = piece->object;
    }
    in_parallel(n, compile_piece, e);
    for (int i = 0; !status && i < n; i++)
        if (e->pieces.items[i]->status)
            status = status_fail(e->pieces.items[i]->status, "%s", e->pieces.items[i]->message);
    if (!status) status = cc_join(e->forms->machine, objects, n, path);
    if (!status) printf("%s\n", path);
    folder_remove(folder);
    return status;
}
