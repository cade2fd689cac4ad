// SPDX-License-Identifier: MIT
// emission_header.c - the header of code compiled ahead of time: typed functions around its kernels.
#include "tools/emission.h"
#include "base/c_words.h"
#include "emit/escape.h"
#include "kiln/code.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_identifier(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_') return false;
    return true;
}

int check_identifier(const char *name)
{
    if (!is_identifier(name)) return fail_usage("--name=%s is not a C identifier", name);
    if (is_c_word(name) || is_c_header_name(name))
        return fail_usage("'%s' is a %s: --name=NAME gives files and functions another", name,
                          is_c_word(name) ? "word of C or C++" : "name of C's headers");
    return -1;
}

// No macro or function of a program that includes the header is called so.
static const char *c_name(const Emission *e, const char *name) { return arena_printf(e->arena, "arg_%s", name); }

static void add_shape(Text *out, const PlanParam *param)
{
    text_print(out, " *   %-10s %s%s tensor of %s", param->name, param->absent ? "absent (pass NULL), " : "",
               param->access == ACCESS_IN    ? "in"
               : param->access == ACCESS_OUT ? "out"
                                             : "inout",
               dtype_name(param->type));
    text_print(out, ", rank %d%s\n", param->rank, param->strided || param->spaced ? ", may be strided" : "");
}

static void add_parameters(Text *out, const Emission *e, const LaunchPlan *plan)
{
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const p = &plan->params[i];
        const char *const type = p->is_tensor              ? "const kiln_tensor *"
                                 : dtype_is_float(p->type) ? "double "
                                                           : "int64_t ";
        text_print(out, ", %s%s", type, c_name(e, p->name));
    }
}

static void add_arguments(Text *out, const Emission *e, const LaunchPlan *plan)
{
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const p = &plan->params[i];
        const char *const name = c_name(e, p->name);
        text_print(out, "    args[%d].kind = %s;\n", i,
                   p->absent                 ? "KILN_ARG_NONE"
                   : p->is_tensor            ? "KILN_ARG_TENSOR"
                   : dtype_is_float(p->type) ? "KILN_ARG_FLOAT"
                                             : "KILN_ARG_INT");
        if (!p->absent)
            text_print(out, "    args[%d].%s = %s;\n", i,
                       p->is_tensor              ? "tensor"
                       : dtype_is_float(p->type) ? "real"
                                                 : "integer",
                       name);
        else text_print(out, "    (void)%s;\n", name);
    }
}

// A typed function around `call`, a format of the number of arguments; `before` and `after` the parameters.
static void add_function(Text *out, const Emission *e, const char *name, const LaunchPlan *plan, const char *before,
                         const char *behind, const char *call)
{
    text_print(out, "static inline kiln_status %s(kiln_kernel *kernel%s", name, before);
    add_parameters(out, e, plan);
    text_print(out, "%s)\n{\n    kiln_arg args[%d];\n", behind, plan->n_params ? plan->n_params : 1);
    add_arguments(out, e, plan);
    char line[128];
    snprintf(line, sizeof line, call, plan->n_params);
    text_print(out, "    return %s;\n}\n\n", line);
}

void emission_header_begin(Text *out, const char *name, const char *forms)
{
    Text guard = { .arena = out->arena };
    for (const char *p = name; *p; p++) text_print(&guard, "%c", toupper((unsigned char)*p));
    text_print(out, "/* %s.h - compiled by kiln %s for %s. Made by `kiln build`; do not edit. */\n", name, KILN_VERSION,
               forms);
    text_print(out,
               "#ifndef %s_H\n#define %s_H\n\n#include <kiln/code.h>\n\n"
               "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
               "typedef char %s_needs_the_headers_of_its_kiln[KILN_CODE_LAYOUT == %d ? 1 : -1];\n\n",
               text_cstr(&guard), text_cstr(&guard), name, KILN_CODE_LAYOUT);
}

void emission_header_end(Text *out) { text_print(out, "#ifdef __cplusplus\n}\n#endif\n#endif\n"); }

static void add_about(Text *out, const LaunchPlan *plan)
{
    const char *const key = plan->key ? plan->key : plan->name;
    text_print(out, "/* ");
    escape_comment(out, key, strlen(key));
    text_print(out, "\n *\n");
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].is_tensor) add_shape(out, &plan->params[i]);
        else text_print(out, " *   %-10s scalar, %s\n", plan->params[i].name, dtype_name(plan->params[i].type));
    text_print(out, " *\n * Results are %s. */\n",
               plan->deterministic ? "the same in every run on the same inputs"
                                   : "not bit-for-bit the same in every run: it uses atomics whose order shows");
}

// Of an operator, the functions also take the memory of its temporaries.
void emission_functions(Text *out, const Emission *e, const LaunchPlan *plan, bool is_operator)
{
    add_about(out, plan);
    text_print(out, "extern const kiln_code %s_code;\n\n", e->name);
    text_print(out,
               "/* Makes the kernel ready on a device; once is enough. kiln_kernel_free ends it. */\n"
               "static inline kiln_status %s_open(kiln_device *device, kiln_kernel **kernel)\n{\n"
               "    return kiln_kernel_from_code(device, &%s_code, kernel);\n}\n\n",
               e->name, e->name);
    if (is_operator) {
        text_print(out, "/* Bytes that a launch with these arguments needs for its temporaries, aligned to 256. */\n");
        add_function(out, e, arena_printf(e->arena, "%s_workspace_size", e->name), plan, "", ", size_t *bytes",
                     "kiln_workspace_size(kernel, args, %d, bytes)");
    }
    text_print(out, "/* One launch, as kiln_launch%s does it. */\n", is_operator ? "_with" : "");
    add_function(out, e, e->name, plan, ", kiln_stream *stream",
                 is_operator ? ", void *workspace, size_t workspace_bytes" : "",
                 is_operator ? "kiln_launch_with(kernel, stream, args, %d, workspace, workspace_bytes)"
                             : "kiln_launch(kernel, stream, args, %d)");
}
