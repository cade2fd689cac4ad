// SPDX-License-Identifier: MIT
// dump.c - `kiln dump`: what the stages of the compiler made of a kernel.
#include "tools/work.h"
#include "tools/counts.h"
#include "syntax/ast_print.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_text(const Text *text)
{
    fwrite(text_cstr(text), 1, text->length, stdout);
    if (text->length && text->data[text->length - 1] != '\n') putchar('\n');
}

static int dump_ast(const ToolRequest *request, Arena *arena)
{
    Text out = { .arena = arena };
    ast_print(&out, request->build.program->program->modules[0]);
    print_text(&out);
    return EXIT_OK;
}

// ---- what comes after the source

static kiln_status print_ptx(const Compiled *compiled, void *context)
{
    char *ptx = NULL;
    const kiln_status status = nvrtc_ptx(compiled->source, cuda_arch(((const Target *)context)->gpu, 0), &ptx);
    if (!status) fputs(ptx, stdout);
    memory_free(ptx);
    return status;
}

// Runs a disassembler on `bytes`, put into a file of its own.
static kiln_status disassemble(const char *name, const char *elsewhere, const char *option, const char *bytes, size_t n)
{
    enum { OUTPUT_BYTES = 16 << 20 };
    char tool[PATH_BYTES], folder[PATH_BYTES], file[PATH_BYTES + 16];
    if (!process_find(name, tool) && !(elsewhere && process_find(elsewhere, tool)))
        return status_fail(KILN_TOOLCHAIN, "no disassembler: %s is not in PATH%s%s", name,
                           elsewhere ? ", and there is no " : "", elsewhere ? elsewhere : "");
    kiln_status status = work_folder_make(true, folder);
    if (status) return status;
    snprintf(file, sizeof file, "%s/code", folder);
    char *const output = memory_alloc(OUTPUT_BYTES);
    char *const argv[] = { tool, (char *)option, file, NULL };
    if (!output || !file_write(file, bytes, n)) status = status_fail(KILN_IO, "cannot write %s", file);
    else if (process_run(argv, NULL, build_seconds(), output, OUTPUT_BYTES) != 0)
        status = status_fail(KILN_TOOLCHAIN, "%s failed: %.400s", tool, output);
    else fputs(output, stdout);
    memory_free(output);
    folder_remove(folder);
    return status;
}

static kiln_status print_cubin(const Compiled *compiled, void *context)
{
    char name[HASH_NAME], *cubin = NULL;
    size_t n;
    kiln_status status = nvrtc_build(compiled->source, cuda_arch(((const Target *)context)->gpu, 0),
                                     compiled->plan->name, name, &cubin, &n, NULL);
    if (!status) status = disassemble("nvdisasm", "/usr/local/cuda/bin/nvdisasm", "-c", cubin, n);
    memory_free(cubin);
    return status;
}

static kiln_status print_lines(const Compiled *compiled, void *context)
{
    return lines_print(compiled, cuda_arch(((const Target *)context)->gpu, 0));
}

static kiln_status print_assembly(const Compiled *compiled, void *context)
{
    char folder[PATH_BYTES], path[PATH_BYTES + 16];
    size_t n = 0;
    kiln_status status = work_folder_make(true, folder);
    if (status) return status;
    snprintf(path, sizeof path, "%s/kernel.o", folder);
    status = cc_object(compiled->source, NULL, cc_isa_flags(&((const Target *)context)->cpu), path);
    char *const bytes = status ? NULL : file_read(path, &n);
    if (!status) status = disassemble("objdump", NULL, "-d", bytes, n);
    memory_free(bytes);
    folder_remove(folder);
    return status;
}

// ---- the stages

typedef struct LateStage {
    const char *name;
    const TargetKind *kind;
    const char *choice; // of the target
    UseCompiled *print;
} LateStage;
static const LateStage late_stages[] = {
    { "ptx", &target_cuda, "--arch=90", print_ptx },
    { "sass", &target_cuda, "--arch=90", print_cubin },
    { "lines", &target_cuda, "--arch=90", print_lines },
    { "asm", &target_cpu, "--device=cpu", print_assembly },
};

static int dump_late(const ToolRequest *request, const LateStage *stage)
{
    if (stage->kind != request->build.target.kind)
        return fail_usage("--stage=%s is of the %s target; choose it with %s", stage->name, stage->kind->title,
                          stage->choice);
    BuildRequest build = request->build;
    build.target.places = stage->print == print_lines;
    return kernel_compile(&build, NULL, NULL, stage->print, &build.target) ? fail_status(NULL) : EXIT_OK;
}

static int fail_stage(const ToolRequest *request, const char *stage)
{
    const char *names[64] = { "ast" };
    int n = 1 + compile_stages(&request->build.target, names + 1, COUNT(names) - 8);
    for (int i = 0; i < COUNT(late_stages); i++) names[n++] = late_stages[i].name;
    fail_usage("there is no stage called '%s' for this kernel and target; see 'kiln dump --help'", stage);
    print_near(stage, names, n);
    return EXIT_USAGE;
}

static int dump_stage(ToolRequest *request, Arena *arena, const char *stage)
{
    if (strcmp(stage, "ast") == 0) return dump_ast(request, arena);
    const int end = request_bind(request, arena);
    if (end >= 0) return end;
    for (int i = 0; i < COUNT(late_stages); i++)
        if (strcmp(stage, late_stages[i].name) == 0) return dump_late(request, &late_stages[i]);
    Text out = { .arena = arena };
    const kiln_status status = kernel_compile(&request->build, stage, &out, NULL, NULL);
    print_text(&out);
    if (status) return fail_status(NULL);
    return out.length ? EXIT_OK : fail_stage(request, stage);
}

typedef struct DumpOptions {
    TargetOptions target;
    const char *stage;
    int n_args;
    char **args;
} DumpOptions;

static int dump(Arena *arena, void *context)
{
    const DumpOptions *const o = context;
    ToolRequest request;
    int result = request_open(&request, arena, &o->target, o->n_args, o->args);
    if (result < 0) result = dump_stage(&request, arena, o->stage);
    request_close(&request);
    return result;
}

int tool_dump(int argc, char **argv)
{
    DumpOptions o = { .stage = "tile", .args = argv };
    const Option options[] = {
        { "--stage", OPTION_TEXT, &o.stage, "NAME", "what to print (default: tile)" },
        TARGET_OPTIONS(o.target),
        { "--trace", OPTION_FLAG, &o.target.trace, NULL, "CUDA: the build that 'kiln profile' traces" },
    };
    const Usage usage = {
        "kiln dump [OPTION...] FILE [KERNEL] [NAME=VALUE...]",
        "Prints a kernel as a stage of the compiler made it. Stages, in order: ast, tile, each pass by its\n"
        "name, schedule (CUDA), loop, source, then asm (CPU) or ptx, sass and lines (CUDA): how many machine\n"
        "instructions each line of the source has.",
        options, COUNT(options),
        "  kiln dump --stage=source kernels/gemm/gemm.tile gemm_nt T=f32\n"
        "  kiln dump --stage=sass --arch=90 kernels/gemm/gemm.tile gemm_nt\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(dump, &o);
}
