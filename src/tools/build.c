// SPDX-License-Identifier: MIT
// build.c - `kiln build`: compile now, or write what a program links to need no compiler later.
//
// --emit=c gives NAME.c (the code and its launch plan as data) and NAME.h (typed functions around them), --emit=object
// gives the .c compiled. The .c includes nothing of Kiln's, because the emitted code has names of its own that the
// public header knows in another sense; it repeats the layout of kiln_code instead.
#include "tools/tool.h"
#include "base/c_words.h"
#include "base/memory.h"
#include "emit/escape.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

typedef struct BuildOptions {
    TargetOptions target;
    const char   *emit, *output, *name;
    int           n_args;
    char        **args;
} BuildOptions;

// One kernel on its way to files.
typedef struct Emission {
    const BuildOptions *options;
    const ToolRequest  *request;
    Arena              *arena;
    const char         *name;        // the C identifier
} Emission;

// ---- the .c

static void add_bytes(Text *out, const char *name, const char *bytes, size_t n)
{
    text_print(out, "static const unsigned char %s[%zu] __attribute__((aligned(16))) = {", name, n);
    for (size_t i = 0; i < n; i++)
        text_print(out, i % 24 == 0 ? "\n    %u," : "%u,", (unsigned char)bytes[i]);
    text_print(out, "\n};\n");
}

// A file for an instruction set says so when it is compiled without it.
static void add_isa_guard(Text *out, CpuIsa isa)
{
    static const char *const macros[] = { [ISA_PORTABLE] = NULL, [ISA_AVX2] = "__AVX2__", [ISA_AVX512] = "__AVX512F__" };
    if (macros[isa])
        text_print(out, "#ifndef %s\n#error this file was made for a machine with %s: compile it with the flags above, "
                   "or make it with --isa=portable\n#endif\n", macros[isa], macros[isa]);
}

static void add_description(Text *out, const LaunchPlan *plan)
{
    const char *const key = plan->key ? plan->key : plan->name;
    escape_comment(out, key, strlen(key));
    text_print(out, ", compiled by kiln %s for %s. Made by `kiln build`; do not edit.\n", KILN_VERSION, plan->target);
}

static void add_head(Text *out, const Emission *e, const Compiled *compiled)
{
    const bool cuda = compiled->plan->arch != 0;
    char compiler[512] = "";
    if (!cuda)
        cc_describe(compiler, sizeof compiler);
    text_print(out, "/* %s.c - ", e->name);
    add_description(out, compiled->plan);
    if (!cuda) {
        text_print(out, " * Compile it as Kiln does, where instruction sets matter:\n *     ");
        escape_comment(out, compiler, strlen(compiler));
    }
    text_print(out, cuda ? " */\n" : "\n */\n");
    if (!cuda)
        add_isa_guard(out, e->request->build.target.cpu.isa);
}

static void add_code_struct(Text *out, const Emission *e, const LaunchPlan *plan, const char *entry, bool cubin)
{
    text_print(out, "\n/* Laid out as kiln_code in kiln/code.h. */\n"
               "const struct {\n    const unsigned char *plan;\n    __SIZE_TYPE__ plan_bytes;\n"
               "    void (*entry)(void *, __INT64_TYPE__, __INT64_TYPE__, void *);\n"
               "    const unsigned char *cubin;\n    __SIZE_TYPE__ cubin_bytes;\n} %s_code = {\n"
               "    %s_plan, sizeof %s_plan, %s, %s%s, %s%s%s\n};\n", e->name, e->name, e->name, entry,
               cubin ? e->name : "0", cubin ? "_cubin" : "", cubin ? "sizeof " : "0", cubin ? e->name : "",
               cubin ? "_cubin" : "");
}

static kiln_status add_cubin(Text *out, const Emission *e, const Compiled *compiled)
{
    char key[HASH_NAME], *cubin = NULL;
    size_t n = 0;
    const kiln_device *const device = e->request->build.device;
    const CudaArch arch = cuda_arch(compiled->plan->arch, device ? device->arch : 0);
    const kiln_status status = nvrtc_build(compiled->source, arch, compiled->plan->name, key, &cubin, &n, NULL);
    if (!status)
        add_bytes(out, arena_printf(e->arena, "%s_cubin", e->name), cubin, n);
    memory_free(cubin);
    return status;
}

static kiln_status make_c(Text *out, const Emission *e, const Compiled *compiled)
{
    Text plan = { .arena = e->arena };
    const bool cuda = compiled->plan->arch != 0;
    kiln_status status = KILN_OK;
    add_head(out, e, compiled);
    plan_write(&plan, compiled->plan);
    if (cuda)
        status = add_cubin(out, e, compiled);
    else    // named after the file: a program may hold the same kernel twice
        text_print(out, "#define %s %s_entry\n%s\n", compiled->plan->symbol, e->name, compiled->source);
    add_bytes(out, arena_printf(e->arena, "%s_plan", e->name), plan.data, plan.length);
    add_code_struct(out, e, compiled->plan, cuda ? "0" : compiled->plan->symbol, cuda);
    return status;
}

// ---- the .h

// No macro or function of a program that includes the header is called so.
static const char *c_name(const Emission *e, const char *name) { return arena_printf(e->arena, "arg_%s", name); }

static void add_shape(Text *out, const PlanParam *param)
{
    text_print(out, " *   %-10s %s%s tensor of %s", param->name, param->absent ? "absent (pass NULL), " : "",
               param->access == ACCESS_IN ? "in" : param->access == ACCESS_OUT ? "out" : "inout",
               dtype_name(param->type));
    text_print(out, ", rank %d%s\n", param->rank, param->strided || param->spaced ? ", may be strided" : "");
}

static void add_parameters(Text *out, const Emission *e, const LaunchPlan *plan)
{
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const p = &plan->params[i];
        const char *const type = p->is_tensor ? "const kiln_tensor *" : dtype_is_float(p->type) ? "double " : "int64_t ";
        text_print(out, ", %s%s", type, c_name(e, p->name));
    }
}

static void add_arguments(Text *out, const Emission *e, const LaunchPlan *plan)
{
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const p = &plan->params[i];
        const char *const name = c_name(e, p->name);
        text_print(out, "    args[%d].kind = %s;\n", i, p->absent ? "KILN_ARG_NONE" : p->is_tensor ? "KILN_ARG_TENSOR"
                   : dtype_is_float(p->type) ? "KILN_ARG_FLOAT" : "KILN_ARG_INT");
        if (!p->absent)
            text_print(out, "    args[%d].%s = %s;\n", i, p->is_tensor ? "tensor" : dtype_is_float(p->type) ? "real"
                       : "integer", name);
        else
            text_print(out, "    (void)%s;\n", name);
    }
}

// A typed function around `call`, a format of the number of arguments; `before` and `behind` the parameters.
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

// Of an operator, the functions also take the memory of its temporaries.
static void make_header(Text *out, const Emission *e, const LaunchPlan *plan, bool is_operator)
{
    Text guard = { .arena = e->arena };
    for (const char *p = e->name; *p; p++)
        text_print(&guard, "%c", toupper((unsigned char)*p));
    text_print(out, "/* %s.h - ", e->name);
    add_description(out, plan);
    text_print(out, " *\n");
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].is_tensor)
            add_shape(out, &plan->params[i]);
        else
            text_print(out, " *   %-10s scalar, %s\n", plan->params[i].name, dtype_name(plan->params[i].type));
    text_print(out, " *\n * Results are %s.\n */\n", plan->deterministic ? "the same in every run on the same inputs"
               : "not bit-for-bit the same in every run: it uses atomics whose order shows");
    text_print(out, "#ifndef %s_H\n#define %s_H\n\n#include <kiln/code.h>\n\n", text_cstr(&guard), text_cstr(&guard));
    text_print(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\nextern const kiln_%scode %s_code;\n\n",
               is_operator ? "operator_" : "", e->name);
    text_print(out, "/* Makes the kernel ready on a device; once is enough. kiln_kernel_free ends it. */\n"
               "static inline kiln_status %s_open(kiln_device *device, kiln_kernel **kernel)\n{\n"
               "    return kiln_%s_from_code(device, &%s_code, kernel);\n}\n\n", e->name,
               is_operator ? "operator" : "kernel", e->name);
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
    text_print(out, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

// ---- writing

static kiln_status write_file(const Emission *e, const char *extension, const Text *text)
{
    const char *const path = arena_printf(e->arena, "%s/%s%s", e->options->output, e->name, extension);
    if (!file_write(path, text_cstr(text), text->length))
        return status_fail(KILN_IO, "cannot write %s: %s", path, strerror(errno));
    printf("%s\n", path);
    return KILN_OK;
}

static bool wants_code(const Emission *e) { return strcmp(e->options->emit, "header") != 0; }

// As C, or compiled.
static kiln_status write_code(const Emission *e, const Text *code)
{
    if (strcmp(e->options->emit, "object") != 0)
        return write_file(e, ".c", code);
    const char *const path = arena_printf(e->arena, "%s/%s.o", e->options->output, e->name);
    const kiln_status status = cc_object(text_cstr(code), &e->request->build.target.cpu, path);
    if (!status)
        printf("%s\n", path);
    return status;
}

static kiln_status write_kernel(const Emission *e, const Compiled *compiled)
{
    Text code = { .arena = e->arena };
    const kiln_status status = make_c(&code, e, compiled);
    return status ? status : write_code(e, &code);
}

static kiln_status emit(const Compiled *compiled, void *context)
{
    const Emission *const e = context;
    Text header = { .arena = e->arena };
    make_header(&header, e, compiled->plan, false);
    const kiln_status status = write_file(e, ".h", &header);
    return status || !wants_code(e) ? status : write_kernel(e, compiled);
}

// ---- operators: a file for each different kernel, and one that puts them together

// The first step with the same kernel.
static int first_alike(const Steps *steps, int step)
{
    int i = 0;
    while (strcmp(steps->steps[i].kernel->plan->symbol, steps->steps[step].kernel->plan->symbol) != 0) i++;
    return i;
}

static void make_operator_c(Text *out, const Emission *e, const kiln_kernel *kernel)
{
    const Steps *const steps = kernel->steps;
    Text plan = { .arena = e->arena }, bytes = { .arena = e->arena };
    plan_write(&plan, kernel->plan);
    steps_write(&bytes, steps, NULL);
    text_print(out, "/* %s.c - the steps of the operator ", e->name);
    add_description(out, kernel->plan);
    text_print(out, " */\n");
    add_bytes(out, arena_printf(e->arena, "%s_plan", e->name), plan.data, plan.length);
    add_bytes(out, arena_printf(e->arena, "%s_steps", e->name), bytes.data, bytes.length);
    for (int i = 0; i < steps->n_steps; i++)
        if (first_alike(steps, i) == i)
            text_print(out, "extern const char %s_%d_code;\n", e->name, i + 1);
    text_print(out, "static const void *const %s_kernels[] = {", e->name);
    for (int i = 0; i < steps->n_steps; i++)
        text_print(out, " &%s_%d_code,", e->name, first_alike(steps, i) + 1);
    text_print(out, " 0 };\n\n/* Laid out as kiln_operator_code in kiln/code.h. */\n"
               "const struct {\n    const unsigned char *plan;\n    __SIZE_TYPE__ plan_bytes;\n    const unsigned char *steps;\n"
               "    __SIZE_TYPE__ steps_bytes;\n    const void *const *kernels;\n    int n_kernels;\n} %s_code = {\n"
               "    %s_plan, sizeof %s_plan, %s_steps, sizeof %s_steps, %s_kernels, %d\n};\n",
               e->name, e->name, e->name, e->name, e->name, e->name, steps->n_steps);
}

static kiln_status emit_operator(const Emission *e, const kiln_kernel *kernel)
{
    Text header = { .arena = e->arena }, code = { .arena = e->arena };
    make_header(&header, e, kernel->plan, true);
    kiln_status status = write_file(e, ".h", &header);
    if (status || !wants_code(e))
        return status;
    make_operator_c(&code, e, kernel);
    status = write_code(e, &code);
    for (int i = 0; !status && i < kernel->steps->n_steps; i++) {
        const kiln_kernel *const step = kernel->steps->steps[i].kernel;
        Emission one = *e;
        one.name = arena_printf(e->arena, "%s_%d", e->name, i + 1);
        if (first_alike(kernel->steps, i) == i)
            status = write_kernel(&one, &(Compiled){ .source = step->source, .plan = step->plan });
    }
    return status;
}

static kiln_status build_and_emit_operator(const Emission *e)
{
    kiln_kernel *kernel = NULL;
    kiln_status status = kernel_build(&e->request->build, &kernel);
    if (!status)
        status = emit_operator(e, kernel);
    kiln_kernel_free(kernel);
    return status;
}

static bool is_identifier(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static int emit_files(const BuildOptions *options, const ToolRequest *request, Arena *arena)
{
    const char *const kinds[] = { "c", "header", "object" };
    bool known = false;
    for (int i = 0; i < COUNT(kinds); i++)
        known |= strcmp(options->emit, kinds[i]) == 0;
    Emission e = { options, request, arena, options->name ? options->name : request->build.name };
    if (!known)
        return fail_usage("--emit=%s: expected c, header or object", options->emit);
    if (!is_identifier(e.name))
        return fail_usage("--name=%s is not a C identifier", e.name);
    if (is_c_word(e.name) || is_c_header_name(e.name))
        return fail_usage("'%s' is a %s: --name=NAME gives files and functions another", e.name,
                          is_c_word(e.name) ? "word of C or C++" : "name of C's headers");
    if (!folder_make(options->output))
        return fail_usage("cannot make the folder %s: %s", options->output, strerror(errno));
    const bool is_operator = program_find(request->build.program->program, DECL_OPERATOR, request->build.name);
    const kiln_status status = is_operator ? build_and_emit_operator(&e)
                                           : kernel_compile(&request->build, NULL, NULL, emit, &e);
    return status ? fail_status(NULL) : EXIT_OK;
}

// Without --emit: into the cache, for a first run without waiting.
static int build_into_cache(const ToolRequest *request)
{
    kiln_kernel *kernel = NULL;
    const double begin = seconds_now();
    if (kernel_build(&request->build, &kernel))
        return fail_status(NULL);
    printf("%s for %s in %.3f s\n", kernel->plan->key ? kernel->plan->key : kernel->plan->name,
           request->build.target.name, seconds_now() - begin);
    kiln_kernel_free(kernel);
    return EXIT_OK;
}

static int build(Arena *arena, void *context)
{
    const BuildOptions *const o = context;
    ToolRequest request;
    int result = request_open(&request, arena, &o->target, o->n_args, o->args);
    if (result < 0)
        result = request_bind(&request, arena);
    if (result < 0)
        result = o->emit ? emit_files(o, &request, arena) : build_into_cache(&request);
    request_close(&request);
    return result;
}

int tool_build(int argc, char **argv)
{
    BuildOptions o = { .output = ".", .args = argv };
    const Option options[] = {
        { "--emit", OPTION_TEXT, &o.emit, "KIND", "c, header or object: write files (default: only fill the cache)" },
        { "--output", OPTION_TEXT, &o.output, "FOLDER", "where to write (default: here)" },
        { "--name", OPTION_TEXT, &o.name, "NAME", "of the files and functions (default: the kernel's)" },
        TARGET_OPTIONS(o.target),
    };
    const Usage usage = {
        "kiln build [OPTION...] FILE [KERNEL] [NAME=VALUE...]",
        "Compiles a kernel or operator. With --emit, writes C that a program links together with libkiln_launch.a, with no compiler at\n"
        "run time: the code (for CUDA: the cubin) with its launch plan, and a header with typed functions.",
        options, COUNT(options),
        "  kiln build kernels/gemm/gemm.tile gemm_nt T=f32\n"
        "  kiln build --emit=c --output=gen --name=gemm_f32 kernels/gemm/gemm.tile gemm_nt T=f32\n"
        "  kiln build --emit=c --arch=90 --output=gen kernels/gemm/gemm.tile gemm_nt\n" };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(build, &o);
}
