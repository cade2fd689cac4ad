// SPDX-License-Identifier: MIT
// request.c - "FILE [KERNEL] [NAME=VALUE...]" on the command line, as a request for the builder.
#include "tools/tool.h"
#include "runtime/tuned.h"

#include <string.h>
#include <unistd.h>

static bool is_value(const char *arg) { return strchr(arg, '=') != NULL; }

// The kernel or operator meant: the one named, or the first of the file; operators stand for the kernels they use.
static const char *choose_name(const Program *program, const char *given)
{
    const char *first = NULL;
    if (given)
        return program_find(program, DECL_KERNEL, given) || program_find(program, DECL_OPERATOR, given) ? given : NULL;
    for (const Decl *d = program->modules[0]->decls; d; d = d->next) {
        if (d->kind == DECL_OPERATOR) return d->name;
        if (d->kind == DECL_KERNEL && !first) first = d->name;
    }
    return first;
}

static int fail_name(const Program *program, const char *file, const char *given)
{
    const char *names[256];
    int n = 0;
    for (int m = 0; m < program->n_modules; m++)
        for (const Decl *d = program->modules[m]->decls; d && n < COUNT(names); d = d->next)
            if (d->kind == DECL_KERNEL || d->kind == DECL_OPERATOR) names[n++] = d->name;
    if (!given) return fail_usage("%s has no kernel", file);
    fail_usage("%s has no kernel or operator called '%s'", file, given);
    print_near(given, names, n);
    return EXIT_USAGE;
}

static int open_device(ToolRequest *request, const TargetOptions *options)
{
    const char *const name = options->device ? options->device : options->arch ? NULL : "cpu";
    const kiln_build_options build = { .check = options->check, .arch = (int)options->arch, .isa = options->isa };
    if (name && kiln_device_open(name, &request->build.device)) return fail_status(NULL);
    const bool is_cpu = request->build.device && device_is_cpu(request->build.device);
    if (is_cpu && options->arch)
        return fail_usage("--arch is for CUDA, and %s is none: --device=cuda:0, or no --device", name);
    if (!is_cpu && options->isa) return fail_usage("--isa is for the CPU");
    request->build.checked = options->check;
    if (options->trace && is_cpu) return fail_usage("--trace is of CUDA: --device=cuda:0, or --arch=90");
    if (target_choose(request->build.device, &build, &request->build.target)) return fail_status(NULL);
    request->build.target.trace = options->trace;
    return -1;
}

int request_open(ToolRequest *request, Arena *arena, const TargetOptions *options, int n_args, char **args)
{
    *request =
        (ToolRequest){ .bindings = { .arena = arena }, .tuned = options->tuned, .tuned_for = options->tuned_for };
    if (n_args == 0 || is_value(args[0]))
        return fail_usage("which file? a FILE comes first, then KERNEL and NAME=VALUE; see --help");
    const char *given = NULL;
    request->values = NEW_ARRAY(arena, const char *, n_args);
    for (int i = 1; i < n_args; i++) {
        if (is_value(args[i])) {
            text_print(&request->bindings, "%s%s", request->n_values ? ", " : "", args[i]);
            request->values[request->n_values++] = args[i];
        } else if (given) {
            return fail_usage("'%s': expected NAME=VALUE, or one kernel", args[i]);
        } else {
            given = args[i];
        }
    }
    if (load_program(args[0], &options->folders, &request->build.program)) {
        const int result = fail_status(NULL);
        if (access(args[0], F_OK) != 0) print_near_file(args[0]);
        return result;
    }
    request->build.name = choose_name(request->build.program->program, given);
    if (!request->build.name) return fail_name(request->build.program->program, args[0], given);
    return open_device(request, options);
}

int request_bind(ToolRequest *request, Arena *arena)
{
    Binding *bindings;
    if (bindings_parse(arena, request->build.program, request->build.name, text_cstr(&request->bindings), &bindings,
                       &request->build.n_bindings))
        return fail_status(NULL);
    request->build.bindings = bindings;
    if (request->build.target.kind && tuned_apply(arena, &request->build, request->tuned, request->tuned_for))
        return fail_status(NULL);
    return -1;
}

bool bind_first_check(BuildRequest *build)
{
    kiln_program *const program = build->program;
    pthread_mutex_lock(&program->lock);
    const CheckCases *const cases = check_cases(program->program, build->name);
    pthread_mutex_unlock(&program->lock);
    if (!cases || cases->count == 0) return false;
    build->bindings = cases->items[0].build;
    build->n_bindings = cases->items[0].n_build;
    return true;
}

void request_close(ToolRequest *request)
{
    kiln_program_free(request->build.program);
    kiln_device_close(request->build.device);
}
