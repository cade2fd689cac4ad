// SPDX-License-Identifier: MIT
// profile.c - `kiln profile`: where the time of one launch goes, by role and by line of the source.
#include "tools/profile.h"
#include "tools/measure.h"

#include <errno.h>
#include <string.h>

// ---- what is profiled, as `kiln run` takes it

static int choose_case(Profile *p, Choice *choice)
{
    const ToolRequest *const request = &p->request;
    return case_choose(choice, p->arena, request->build.program, request->build.name, text_cstr(&request->bindings));
}

static CaseBuild build_of(const Profile *p, const CheckCase *check)
{
    kiln_program *const program = p->request.build.program;
    const char *const name = p->request.build.name;
    return (CaseBuild){ .program = program,
                        .name = name,
                        .bindings = check->build,
                        .n_bindings = check->n_build,
                        .has_reference = p->options->compare && program_find(program->program, DECL_REFERENCE, name),
                        .has_verify = p->options->compare && program_find(program->program, DECL_VERIFY, name) };
}

// ---- what is printed

static int write_chrome(const Profile *p)
{
    FILE *const out = fopen(p->options->chrome, "w");
    if (out) timeline_print_chrome(out, &p->timeline);
    if (out && fclose(out) == 0) return -1;
    fprintf(stderr, "kiln: cannot write %s: %s\n", p->options->chrome, strerror(errno));
    return EXIT_FAILED;
}

static void show_json(const Profile *p)
{
    FILE *const out = json_output();
    fprintf(out, "{");
    timeline_print_json(out, &p->timeline);
    fprintf(out, ", \"counts\": ");
    counts_print_json(out, p->arena, &p->counts);
    fprintf(out, "}\n");
}

static int show(const Profile *p)
{
    if (p->options->json) show_json(p);
    else if (!device_is_cpu(p->request.build.device)) timeline_print(&p->timeline);
    return p->options->chrome ? write_chrome(p) : -1;
}

// ---- the command

// Nothing is recorded or said: for who runs this under a profiler.
static int launch_once(const Profile *p)
{
    const bool ok = case_launch(p->open, NULL) && kiln_stream_wait(p->open->options.device, NULL) == KILN_OK;
    if (!ok) fprintf(stderr, "kiln: %s\n", p->open->problem[0] ? p->open->problem : kiln_error_message());
    return ok ? -1 : EXIT_FAILED;
}

// With what ncu counts: before anything is shown, as a JSON object is one.
static int record(Profile *p)
{
    const bool is_cpu = device_is_cpu(p->request.build.device);
    int result = is_cpu ? profile_cpu(p) : profile_trace(p);
    const bool counts = result < 0 && !is_cpu && !p->options->target.trace;
    if (counts && p->options->json) profile_ncu(p);
    if (result < 0) result = show(p);
    if (counts && !p->options->json) {
        fflush(stdout);
        profile_ncu(p);
        counts_print(p->arena, &p->counts);
    }
    return result;
}

static int look(Profile *p, const CaseBuild *build, const CheckCase *check, const CaseOptions *options)
{
    static Case open;
    int result = EXIT_FAILED;
    p->open = &open;
    if (!case_open(&open, build, check, options)) {
        fprintf(stderr, "kiln: %s\n", open.problem);
    } else {
        p->timeline =
            (Timeline){ .arena = p->arena, .kernel = check->label, .device = kiln_device_describe(options->device) };
        if (!p->options->json && !p->options->once)
            printf("%s%s%s on %s\n", paint(stdout, BOLD), check->label, paint(stdout, PLAIN), p->timeline.device);
        result = p->options->once ? launch_once(p) : record(p);
    }
    case_close(&open);
    return result;
}

static int build_and_look(Profile *p)
{
    Choice choice;
    const TargetOptions *const target = &p->options->target;
    const CaseOptions options = { .device = p->request.build.device,
                                  .build = { .check = target->check, .isa = target->isa, .arch = (int)target->arch },
                                  .trace = !device_is_cpu(p->request.build.device) && !p->options->once };
    int result = choose_case(p, &choice);
    if (result >= 0) return result;
    CaseBuild build = build_of(p, choice.wanted);
    progress("building %s", build.name);
    const bool ok = case_build(&build, &options);
    progress_end();
    if (!ok) fprintf(stderr, "kiln: %s\n", build.message ? build.message : "out of memory");
    result = ok ? look(p, &build, choice.wanted, &options) : EXIT_FAILED;
    case_build_free(&build);
    return result < 0 ? EXIT_OK : result;
}

static int profile(Arena *arena, void *context)
{
    Profile p = { .options = context, .arena = arena };
    if (p.options->json && !p.options->once) json_output();
    int result = request_open(&p.request, arena, &p.options->target, p.options->n_args, p.options->args);
    if (result < 0 && !p.request.build.device)
        result = fail_usage("profile: --arch needs a device to run on: --device=cuda:0; without one, 'kiln explain "
                            "--cost' says what is expected, and 'kiln dump --trace' shows the code");
    if (result < 0) result = build_and_look(&p);
    request_close(&p.request);
    json_output_end();
    return result;
}

int tool_profile(int argc, char **argv)
{
    char *given[argc + 1]; // parsing moves what `argv` holds
    memcpy(given, argv, sizeof *argv * (size_t)argc);
    ProfileOptions o = { .ctas = "0,1", .args = argv, .argc = argc, .argv = given };
    const Option options[] = {
        DEVICE_OPTIONS(o.target, "CUDA: 90 or 80 instead of the device's"),
        { "--trace", OPTION_FLAG, &o.target.trace, NULL,
          "CUDA: the trace of the waits alone, also where ncu is installed" },
        { "--ctas", OPTION_TEXT, &o.ctas, "N,...", "trace these blocks, four at most (default: 0,1)" },
        { "--steps", OPTION_NUMBER, &o.steps, "N",
          "show the first N steps of each warp (default: all that were recorded)" },
        { "--compare", OPTION_FLAG, &o.compare, NULL, "compare what the profiled kernel computes with its reference" },
        { "--chrome", OPTION_TEXT, &o.chrome, "FILE", "write a trace for Perfetto or chrome://tracing" },
        { "--json", OPTION_FLAG, &o.json, NULL, "print one JSON object: the spans of time, and what ncu counted" },
        { "--once", OPTION_FLAG, &o.once, NULL,
          "launch the kernel once and print nothing: under ncu, nsys and the like" },
    };
    const Usage usage = {
        "kiln profile [OPTION...] FILE [KERNEL] [NAME=VALUE...]",
        "Shows where the time of a launch goes. On CUDA a traced build records, with the device's clock, when each warp of\n"
        "a few blocks waits, and for what: full and empty slots, copies, products, barriers. Where Nsight Compute's ncu is\n"
        "installed, it counts stalls, instructions and bytes by line of the source, too. On the CPU the time of each instance\n"
        "of the grid is taken. Values not given are those of the largest case of the kernel's check.",
        options, COUNT(options),
        "  kiln profile --device=cuda:0 kernels/gemm/gemm.tile gemm_nt T=bf16 M=4096 N=4096 K=4096\n"
        "  kiln profile --device=cuda:0 --chrome=trace.json kernels/attention/forward.tile\n"
        "  kiln profile --device=cpu kernels/norm/softmax.tile\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(profile, &o);
}
