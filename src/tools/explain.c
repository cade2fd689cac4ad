// SPDX-License-Identifier: MIT
// explain.c - `kiln explain`: what was decided for a kernel, what that is expected to cost, and what could be faster.
#include "tools/explain_page.h"
#include "tools/work.h"

#include <stdlib.h>
#include <string.h>

typedef struct ExplainOptions {
    TargetOptions target;
    const char *card, *at, *html, *measured, *profile;
    bool cost, notes, json;
    int n_args;
    char **args;
} ExplainOptions;

// ---- one kernel

static void print_report(const kiln_kernel *kernel)
{
    const LaunchPlan *const plan = kernel->plan;
    printf("%s%s%s for %s\n", paint(stdout, BOLD), plan->key ? plan->key : plan->name, paint(stdout, PLAIN),
           plan->target);
    const GpuTarget *const gpu = gpu_find(kernel->arch);
    if (gpu) {
        printf("  %s, %d threads, %d bytes of dynamic shared memory", gpu->name, plan->threads,
               plan->dynamic_shared_bytes);
        if (plan->cluster[0] > 1) printf(", clusters of %d", plan->cluster[0]);
        printf("%s, %d tensor maps\n", plan->persistent ? ", persistent" : "", plan->n_maps);
        if (kernel->report.known)
            printf("  ptxas: %d registers, %d bytes of stack, %d bytes spilled, %d bytes of static shared memory%s\n",
                   kernel->report.registers, kernel->report.stack_bytes, kernel->report.spill_bytes,
                   kernel->report.static_shared_bytes, kernel->report.serialised_wgmma ? ", wgmma SERIALISED" : "");
    } else {
        printf("  %lld bytes of scratch per thread\n", (long long)plan->scratch_bytes);
    }
    printf("  results are %s\n", plan->deterministic ? "the same in every run"
                                                     : "not bit-for-bit the same in every run: "
                                                       "atomics on floating point, or an atomic's result, are used");
    if (kernel->explanation && *kernel->explanation) printf("%s\n", kernel->explanation);
}

static int explain_built(Arena *arena, ToolRequest *request)
{
    kiln_kernel *kernel = NULL;
    if (kernel_build(&request->build, &kernel)) return fail_status(NULL);
    if (!kernel->steps) print_report(kernel);
    for (int i = 0; kernel->steps && i < kernel->steps->n_steps; i++) {
        printf("step %d: ", i + 1);
        print_report(kernel->steps->steps[i].kernel);
    }
    notes_show(arena, kernel);
    explain_roofline(&request->build, kernel);
    kiln_kernel_free(kernel);
    return EXIT_OK;
}

static kiln_status print_cost(const Compiled *compiled, void *context)
{
    (void)context;
    printf("%s for %s\n%s", compiled->plan->key ? compiled->plan->key : compiled->plan->name, compiled->plan->target,
           compiled->cost);
    return KILN_OK;
}

// No code is made.
static int explain_cost(ToolRequest *request)
{
    return kernel_compile(&request->build, NULL, NULL, print_cost, NULL) ? fail_status(NULL) : EXIT_OK;
}

// "M=4096,N=512"
static int read_launch(Arena *arena, const char *text, Target *target)
{
    VEC(LaunchValue) values = { 0 };
    for (const char *at = text; *at; at += strcspn(at, ","), at += *at == ',') {
        const size_t n = strcspn(at, "=,");
        LaunchValue value = { arena_copy_text(arena, at, n), 0 };
        char *end;
        value.value = at[n] == '=' ? strtoll(at + n + 1, &end, 10) : 0;
        if (at[n] != '=' || end == at + n + 1) return fail_usage("--at: expected NAME=NUMBER,... and found '%s'", at);
        VEC_PUSH(arena, &values, value);
    }
    target->launch = values.items;
    target->n_launch = values.count;
    return -1;
}

static int explain_one(Arena *arena, const ExplainOptions *o)
{
    ToolRequest request;
    int result = request_open(&request, arena, &o->target, o->n_args, o->args);
    if (result < 0) result = request_bind(&request, arena);
    if (o->card) request.build.target.card = o->card;
    if (result < 0 && o->at) result = read_launch(arena, o->at, &request.build.target);
    const PageOptions page = { o->html, o->args[0], o->at, o->card, o->measured, o->profile, &o->target };
    if (result < 0)
        result = o->html   ? explain_page(&request, arena, &page)
                 : o->cost ? explain_cost(&request)
                           : explain_built(arena, &request);
    request_close(&request);
    return result;
}

// ---- the notes of many

typedef struct Collection {
    const ExplainOptions *options;
    const char *path, *kernel;
    int n, n_open, n_failed;
} Collection;

static void print_note_field(const char *name, const char *text)
{
    fprintf(json_output(), ", \"%s\": ", name);
    if (text) print_json_text(json_output(), text);
    else fprintf(json_output(), "null");
}

static void print_note_json(const Collection *c, const Note *note, const char *accepted)
{
    const Position at = note->span.source ? source_position(note->span.source, note->span.begin) : (Position){ 0, 0 };
    fprintf(json_output(), "%s\n  {\"file\": ", c->n ? "," : "");
    print_json_text(json_output(), note->span.source ? note->span.source->path : c->path);
    fprintf(json_output(), ", \"line\": %d, \"column\": %d", at.line, at.column);
    print_note_field("kernel", c->kernel);
    print_note_field("kind", note_infos[note->kind].name);
    print_note_field("why", note->why);
    print_note_field("instead", note->instead);
    print_note_field("accepted", accepted);
    fprintf(json_output(), "}");
}

static kiln_status collect_notes(const Compiled *compiled, void *context)
{
    Collection *const c = context;
    const NoteList *const notes = &compiled->kernel->notes;
    for (int i = 0; i < notes->list.count; i++) {
        const Note *const note = &notes->list.items[i];
        if (c->options->json) print_note_json(c, note, notes->accepted[note->kind]);
        c->n++;
    }
    c->n_open += notes_open(notes);
    if (c->options->json || notes_open(notes) == 0) return KILN_OK;
    Text text = { .arena = compiled->kernel->arena };
    notes_print(&text, notes);
    printf("%s%s%s\n%s", paint(stdout, BOLD), c->kernel, paint(stdout, PLAIN), text_cstr(&text));
    return KILN_OK;
}

static void collect_kernel(Collection *c, ToolRequest *request, const char *name)
{
    c->kernel = name;
    request->build.name = name;
    request->build.n_bindings = 0;
    if (!kernel_compile(&request->build, NULL, NULL, collect_notes, c)) return;
    if (!bind_first_check(&request->build) || kernel_compile(&request->build, NULL, NULL, collect_notes, c)) {
        c->n_failed++;
        fprintf(stderr, "kiln: %s %s: not looked at: %s\n", c->path, name, kiln_error_message());
    }
}

// Files of functions have none.
static bool has_kernels(const ExplainOptions *o, const char *path)
{
    kiln_program *program;
    bool found = false;
    if (load_program(path, &o->target.folders, &program)) return true; // which says why not
    for (const Decl *d = program->program->modules[0]->decls; d; d = d->next) found |= d->kind == DECL_KERNEL;
    kiln_program_free(program);
    return found;
}

// All kernels of a file, with the values that their parameters have by themselves.
static int collect_file(Arena *arena, Collection *c, const char *path)
{
    ToolRequest request;
    if (!has_kernels(c->options, path)) return EXIT_OK;
    char *const args[] = { (char *)path };
    int result = request_open(&request, arena, &c->options->target, 1, (char **)args);
    c->path = path;
    if (result < 0)
        for (const Decl *d = request.build.program->program->modules[0]->decls; d; d = d->next)
            if (d->kind == DECL_KERNEL) collect_kernel(c, &request, d->name);
    request_close(&request);
    return result < 0 ? EXIT_OK : result;
}

static int collect_all(Arena *arena, const ExplainOptions *o)
{
    Collection c = { .options = o };
    const char **paths;
    int n, result = EXIT_OK;
    if (!find_tile_files(arena, o->n_args, o->args, &paths, &n)) return EXIT_USAGE;
    if (o->json) fprintf(json_output(), "{\"notes\": [");
    for (int i = 0; i < n && result == EXIT_OK; i++) result = collect_file(arena, &c, paths[i]);
    if (o->json) fprintf(json_output(), "\n], \"accepted\": %d, \"not_looked_at\": %d}\n", c.n - c.n_open, c.n_failed);
    else
        printf("%d performance note%s, %d more accepted by headers\n", c.n_open, c.n_open == 1 ? "" : "s",
               c.n - c.n_open);
    json_output_end();
    return result == EXIT_OK && c.n_failed ? EXIT_FAILED : result;
}

// ---- the command

static int explain(Arena *arena, void *context)
{
    const ExplainOptions *const o = context;
    if (o->n_args == 0) return fail_usage("explain: which file? see 'kiln explain --help'");
    return o->notes ? collect_all(arena, o) : explain_one(arena, o);
}

int tool_explain(int argc, char **argv)
{
    ExplainOptions o = { .args = argv };
    const Option options[] = {
        TARGET_OPTIONS(o.target),
        { "--trace", OPTION_FLAG, &o.target.trace, NULL, "CUDA: of the build that 'kiln profile' traces" },
        { "--cost", OPTION_FLAG, &o.cost, NULL, "only what it is expected to cost; makes no code" },
        { "--at", OPTION_TEXT, &o.at, "NAME=N,...",
          "estimate a launch of these shapes and scalars, with code for any" },
        { "--card", OPTION_TEXT, &o.card, "NAME", "H200, H100 or A100 instead of the usual card of the architecture" },
        { "--html", OPTION_FILE, &o.html, "FILE", "one page of it all, on standard output or into a file" },
        { "--measured", OPTION_TEXT, &o.measured, "TIME",
          "with --html: the time of a launch, such as 182us, for its plot" },
        { "--profile", OPTION_TEXT, &o.profile, "FILE",
          "with --html: the waits that 'kiln profile --json' recorded, in a table and over time" },
        { "--notes", OPTION_FLAG, &o.notes, NULL,
          "the performance notes of all kernels of files or folders; makes no code" },
        { "--json", OPTION_FLAG, &o.json, NULL, "with --notes: one JSON object" },
    };
    const Usage usage = {
        "kiln explain [OPTION...] FILE [KERNEL] [NAME=VALUE...]\n       kiln explain --notes [OPTION...] FILE|FOLDER...",
        "Says what the compiler decided for a kernel on a target: memory, pipelines, layouts, barriers,\n"
        "registers, what held a decision back, and what each line is expected to cost.",
        options, COUNT(options),
        "  kiln explain --arch=90 kernels/attention/forward.tile D=64\n"
        "  kiln explain --arch=90 --cost kernels/gemm/gemm.tile gemm_nt M=4096 N=4096 K=4096\n"
        "  kiln explain --arch=90 --html=gemm.html kernels/gemm/gemm.tile gemm_nt M=4096 N=4096 K=4096\n"
        "  kiln explain --arch=90 --notes kernels/\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    if (end >= 0) return end;
    if (o.html && (o.notes || o.cost))
        return fail_usage("explain: --html is a page of one kernel, without --notes or --cost");
    if (o.profile && !o.html) return fail_usage("explain: --profile goes with --html");
    if (o.measured && !o.html) return fail_usage("explain: --measured goes with --html");
    if (o.json && !o.notes) return fail_usage("explain: --json goes with --notes");
    return with_arena(explain, &o);
}
