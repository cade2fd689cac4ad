// SPDX-License-Identifier: MIT
// emission_text.c - C texts that hold compiled kernels: emitted code or a cubin, the launch plan as data, and the kiln_code
// that says where they are. An operator has a text for each different kernel, and one that puts them together.
#include "tools/emission.h"
#include "base/memory.h"
#include "emit/escape.h"

#include <stdio.h>
#include <string.h>

// A member of kiln_code that is no address: "0", or of an array with its size.
typedef struct Code {
    const char *entry, *cubin, *steps, *kernels;
    int n_kernels;
} Code;

static void add_bytes(Text *out, const char *name, const char *what, const char *bytes, size_t n)
{
    text_print(out, "static const unsigned char %s_%s[%zu] __attribute__((aligned(16))) = {", name, what, n);
    for (size_t i = 0; i < n; i++) text_print(out, i % 24 == 0 ? "\n    %u," : "%u,", (unsigned char)bytes[i]);
    text_print(out, "\n};\n");
}

static void add_plan(Text *out, const char *name, const LaunchPlan *plan)
{
    Text bytes = { .arena = out->arena };
    plan_write(&bytes, plan);
    add_bytes(out, name, "plan", bytes.data, bytes.length);
}

static void add_address(Text *out, const char *name, const char *array)
{
    if (array) text_print(out, "    %s_%s, sizeof %s_%s,\n", name, array, name, array);
    else text_print(out, "    0, 0,\n");
}

static void add_code(Text *out, const char *name, const char *form, const char *next, Code code)
{
    if (next) text_print(out, "extern const char %s_code;\n", next);
    text_print(out,
               "\n/* Laid out as kiln_code in kiln/code.h. */\n"
               "const struct {\n    const char *form;\n    const void *next;\n"
               "    const unsigned char *plan;\n    __SIZE_TYPE__ plan_bytes;\n"
               "    void (*entry)(const void *, __INT64_TYPE__, __INT64_TYPE__, void *);\n"
               "    const unsigned char *cubin;\n    __SIZE_TYPE__ cubin_bytes;\n"
               "    const unsigned char *steps;\n    __SIZE_TYPE__ steps_bytes;\n"
               "    const void *const *kernels;\n    int n_kernels;\n} %s_code = {\n",
               name);
    text_print(out, "    \"%s\", %s%s%s,\n", form, next ? "&" : "0", next ? next : "", next ? "_code" : "");
    add_address(out, name, "plan");
    text_print(out, "    %s,\n", code.entry ? code.entry : "0");
    add_address(out, name, code.cubin);
    add_address(out, name, code.steps);
    text_print(out, "    %s%s, %d\n};\n", code.kernels ? name : "0", code.kernels ? "_kernels" : "", code.n_kernels);
}

static void add_title(Text *out, const char *name, const char *what, const LaunchPlan *plan, const CodeForm *form)
{
    const char *const key = plan->key ? plan->key : plan->name;
    text_print(out, "/* %s.c - %s", name, what);
    escape_comment(out, key, strlen(key));
    text_print(out, ", compiled by kiln %s for %s. Made by `kiln build`; do not edit.\n", KILN_VERSION, form->name);
}

// ---- kernels

// Code for an instruction set says so when it is compiled without it.
static void add_isa_guard(Text *out, const CodeForm *form)
{
    static const char *const macros[] = {
        [ISA_PORTABLE] = NULL,
        [ISA_AVX2] = "__AVX2__",
        [ISA_AVX512] = "__AVX512F__",
        [ISA_NEON] = "__ARM_NEON",
        [ISA_SVE256] = "__ARM_FEATURE_SVE",
    };
    const char *const macro = macros[form->target.cpu.isa];
    if (macro)
        text_print(out,
                   "#ifndef %s\n#error this file was made for a machine with %s: compile it with the flags above, "
                   "or make it with --isa=portable\n#endif\n",
                   macro, macro);
}

static void add_cpu_kernel(Text *out, const Emission *e, const kiln_kernel *kernel, const CodeForm *form,
                           const char *name)
{
    char command[768] = "";
    cc_describe(e->forms->machine, form->flags, command, sizeof command);
    text_print(out, " * Compile it as Kiln does, where instruction sets matter:\n *     ");
    escape_comment(out, command, strlen(command));
    text_print(out, "\n */\n");
    add_isa_guard(out, form);
    // Named after the file: a program may hold the same kernel twice.
    text_print(out, "#define %s %s_entry\n%s\n", kernel->plan->symbol, name, kernel->source);
}

static kiln_status add_cuda_kernel(Text *out, const kiln_kernel *kernel, const CodeForm *form, const char *name)
{
    char key[HASH_NAME], *cubin = NULL;
    size_t n = 0;
    const kiln_status status = nvrtc_build(kernel->source, form->arch, kernel->plan->name, key, &cubin, &n, NULL);
    text_print(out, " */\n");
    if (!status) add_bytes(out, name, "cubin", cubin, n);
    memory_free(cubin);
    return status;
}

static kiln_status add_kernel(Emission *e, const kiln_kernel *kernel, const CodeForm *form, const char *name,
                              const char *next)
{
    Text text = { .arena = e->arena }, *const out = &text;
    const bool cuda = kernel->plan->arch != 0;
    kiln_status status = KILN_OK;
    add_title(out, name, "", kernel->plan, form);
    if (cuda) status = add_cuda_kernel(out, kernel, form, name);
    else add_cpu_kernel(out, e, kernel, form, name);
    if (status) return status;
    add_plan(out, name, kernel->plan);
    add_code(out, name, form->name, next, cuda ? (Code){ .cubin = "cubin" } : (Code){ .entry = kernel->plan->symbol });
    emission_add(e, name, out, form->flags);
    return KILN_OK;
}

// ---- operators

// The first step with the same kernel.
static int first_alike(const Steps *steps, int step)
{
    int i = 0;
    while (strcmp(steps->steps[i].kernel->plan->symbol, steps->steps[step].kernel->plan->symbol) != 0) i++;
    return i;
}

static void add_operator(Emission *e, const kiln_kernel *kernel, const CodeForm *form, const char *name,
                         const char *next)
{
    const Steps *const steps = kernel->steps;
    Text text = { .arena = e->arena }, *const out = &text, bytes = { .arena = e->arena };
    steps_write(&bytes, steps, NULL);
    add_title(out, name, "the steps of the operator ", kernel->plan, form);
    text_print(out, " */\n");
    add_plan(out, name, kernel->plan);
    add_bytes(out, name, "steps", bytes.data, bytes.length);
    for (int i = 0; i < steps->n_steps; i++)
        if (first_alike(steps, i) == i) text_print(out, "extern const char %s_%d_code;\n", name, i + 1);
    text_print(out, "static const void *const %s_kernels[] = {", name);
    for (int i = 0; i < steps->n_steps; i++) text_print(out, " &%s_%d_code,", name, first_alike(steps, i) + 1);
    text_print(out, " 0 };\n");
    add_code(out, name, form->name, next,
             (Code){ .steps = "steps", .kernels = "kernels", .n_kernels = steps->n_steps });
    emission_add(e, name, out, "");
}

kiln_status emission_code(Emission *e, const kiln_kernel *kernel, const CodeForm *form, const char *name,
                          const char *next)
{
    if (!kernel->steps) return add_kernel(e, kernel, form, name, next);
    add_operator(e, kernel, form, name, next);
    kiln_status status = KILN_OK;
    for (int i = 0; !status && i < kernel->steps->n_steps; i++)
        if (first_alike(kernel->steps, i) == i)
            status =
                add_kernel(e, kernel->steps->steps[i].kernel, form, arena_printf(e->arena, "%s_%d", name, i + 1), NULL);
    return status;
}
