// SPDX-License-Identifier: MIT
// build.c - `kiln build`: compile now, or write what a program links to need no compiler later.
#include "tools/emission.h"

#include <errno.h>
#include <string.h>

typedef struct BuildOptions {
    const char *emit, *output, *name, *device, *isas, *archs;
    TargetOptions target; // what is the same with and without --emit
    int n_args;
    char **args;
} BuildOptions;

// ---- files for a program

typedef enum { EMIT_C, EMIT_HEADER, EMIT_OBJECT, EMIT_ARCHIVE, EMIT_COUNT } EmitKind;
static const char *const emit_names[] = { "c", "header", "object", "archive" };

static kiln_status emit_unit(Emission *e, const BuildRequest *request, EmitKind kind)
{
    const char *const name = e->name;
    Text header = { .arena = e->arena };
    emission_header_begin(&header, name, forms_list(e->forms, e->arena));
    kiln_status status = emission_unit(e, request, name, &header);
    emission_header_end(&header);
    if (!status) status = emission_write(e, arena_printf(e->arena, "%s.h", name), &header);
    if (!status && kind == EMIT_C) status = emission_write_pieces(e);
    if (!status && kind == EMIT_OBJECT)
        status = emission_compile_pieces(e, arena_printf(e->arena, "%s/%s.o", e->folder, name));
    return status;
}

static int emit_request(const BuildOptions *o, Emission *e, EmitKind kind)
{
    ToolRequest request;
    const TargetOptions target = { .check = o->target.check, .folders = o->target.folders };
    int result = request_open(&request, e->arena, &target, o->n_args, o->args);
    if (result < 0) result = request_bind(&request, e->arena);
    if (result < 0) {
        e->name = o->name ? o->name : request.build.name;
        result = check_identifier(e->name);
    }
    if (result < 0) result = emit_unit(e, &request.build, kind) ? fail_status(NULL) : EXIT_OK;
    request_close(&request);
    return result;
}

static int emit_archive(const BuildOptions *o, Emission *e)
{
    if (o->n_args != 1) return fail_usage("--emit=archive takes one file: a list of kernels");
    if (o->target.check) return fail_usage("--emit=archive takes no --check");
    e->name = o->name ? o->name : "kernels";
    const int result = check_identifier(e->name);
    return result < 0 ? build_archive(e, o->args[0]) : result;
}

static int emit_with_forms(const BuildOptions *o, Arena *arena, EmitKind kind, const CodeForms *forms)
{
    Emission e = { .arena = arena,
                   .forms = forms,
                   .folder = o->output,
                   .folders = &o->target.folders,
                   .tuned = o->target.tuned,
                   .tuned_for = o->target.tuned_for };
    if (!folder_make_shared(o->output)) return fail_usage("cannot make the folder %s: %s", o->output, strerror(errno));
    return kind == EMIT_ARCHIVE ? emit_archive(o, &e) : emit_request(o, &e, kind);
}

static int emit_files(const BuildOptions *o, Arena *arena)
{
    CodeForms forms;
    kiln_device *device = NULL;
    int kind = 0;
    while (kind < EMIT_COUNT && strcmp(emit_names[kind], o->emit) != 0) kind++;
    if (kind == EMIT_COUNT) return fail_usage("--emit=%s: expected c, header, object or archive", o->emit);
    if (o->device && (o->isas || o->archs))
        return fail_usage("--device stands for its own form: --isa and --arch name others");
    if (o->device && kiln_device_open(o->device, &device)) return fail_status(NULL);
    const int result = forms_choose(&forms, arena, o->isas, o->archs, device);
    kiln_device_close(device);
    return result < 0 ? emit_with_forms(o, arena, (EmitKind)kind, &forms) : result;
}

// ---- without --emit: into the cache, for a first run without waiting

static int build_request(const ToolRequest *request)
{
    kiln_kernel *kernel = NULL;
    const double begin = seconds_now();
    if (kernel_build(&request->build, &kernel)) return fail_status(NULL);
    printf("%s for %s in %.3f s\n", kernel->plan->key ? kernel->plan->key : kernel->plan->name,
           request->build.target.kind->name, seconds_now() - begin);
    kiln_kernel_free(kernel);
    return EXIT_OK;
}

static int build_into_cache(const BuildOptions *o, Arena *arena)
{
    ToolRequest request;
    TargetOptions target = o->target;
    target.device = o->device, target.isa = o->isas;
    int result = o->archs ? read_number("--arch", o->archs, &target.arch) : -1;
    if (result >= 0) return result;
    result = request_open(&request, arena, &target, o->n_args, o->args);
    if (result < 0) result = request_bind(&request, arena);
    if (result < 0) result = build_request(&request);
    request_close(&request);
    return result;
}

static int build(Arena *arena, void *context)
{
    const BuildOptions *const o = context;
    return o->emit ? emit_files(o, arena) : build_into_cache(o, arena);
}

int tool_build(int argc, char **argv)
{
    BuildOptions o = { .output = ".", .args = argv };
    const Option options[] = {
        { "--emit", OPTION_TEXT, &o.emit, "KIND",
          "c, header, object or archive: write files (default: only fill the cache)" },
        { "--output", OPTION_TEXT, &o.output, "FOLDER", "where to write (default: here)" },
        { "--name", OPTION_TEXT, &o.name, "NAME", "of the files and functions (default: the kernel's)" },
        { "--isa", OPTION_TEXT, &o.isas, "NAMES",
          "CPU forms, as avx512,avx2,portable; what runs is chosen where it runs" },
        { "--arch", OPTION_TEXT, &o.archs, "N", "CUDA architectures: 90, 80 or 90,80; needs no GPU" },
        { "--device", OPTION_TEXT, &o.device, "NAME", "cpu, cuda:0 ...: what it is compiled for (default: cpu)" },
        { "--check", OPTION_FLAG, &o.target.check, NULL, "trap accesses outside tiles and reads of undefined tiles" },
        FOLDER_OPTION(o.target.folders),
        TUNED_OPTIONS(o.target),
    };
    const Usage usage = {
        "kiln build [OPTION...] FILE [KERNEL] [NAME=VALUE...]\n       kiln build --emit=archive [OPTION...] LIST",
        "Compiles a kernel or operator. With --emit, writes what a program links together with libkiln_launch.a, with no compiler at\n"
        "run time: the code (for CUDA: the cubin) with its launch plan, and a header with typed functions. An archive holds all\n"
        "kernels of a list, libNAME.a; its lines are [cpu|cuda] FILE KERNEL [as NAME] [NAME=VALUE, ...] (docs/operators.md).",
        options, COUNT(options),
        "  kiln build kernels/gemm/gemm.tile gemm_nt T=f32\n"
        "  kiln build --emit=object --isa=avx512,avx2,portable --arch=90,80 --output=gen kernels/gemm/gemm.tile gemm_nt T=f32\n"
        "  kiln build --emit=archive --isa=avx512,avx2 --output=gen --name=mine mine.list\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(build, &o);
}
