// SPDX-License-Identifier: MIT
// explain_page.c - `kiln explain --html`: the kernel is compiled, what the page says of it collected, then written.
#include "tools/explain_page.h"
#include "tools/measure.h"
#include "tools/page/page.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

typedef struct Making {
    Page *page;
    const ToolRequest *request;
    bool has_free_shape;
} Making;

// ---- kernels

static void add_ptx(Page *page, PageKernel *kernel, const Compiled *compiled, const Target *target)
{
    char *ptx = NULL;
    if (nvrtc_ptx(compiled->source, cuda_arch(target->gpu, 0), &ptx)) {
        const char *const why = kiln_error_message();
        kernel->no_ptx = arena_copy_text(page->arena, why, strcspn(why, "\n"));
    } else {
        kernel->ptx = arena_copy_text(page->arena, ptx, strlen(ptx));
    }
    memory_free(ptx);
}

static kiln_status add_kernel(const Compiled *compiled, void *context)
{
    Making *const m = context;
    const BuildRequest *const build = &m->request->build;
    PageKernel *const kernel = page_add_kernel(m->page, compiled, &build->target, build->program->program);
    for (int i = 0; i < compiled->plan->n_binds; i++) m->has_free_shape |= !compiled->plan->binds[i].is_stride;
    if (build->target.gpu) add_ptx(m->page, kernel, compiled, &build->target);
    return KILN_OK;
}

// ---- the launch

// The bindings of the build, and what --at says of the launch.
static const Binding *all_bindings(Arena *arena, const BuildRequest *build, int *n)
{
    Binding *const all = NEW_ARRAY(arena, Binding, build->n_bindings + build->target.n_launch + 1);
    *n = 0;
    for (int i = 0; i < build->n_bindings; i++) all[(*n)++] = build->bindings[i];
    for (int i = 0; i < build->target.n_launch; i++)
        all[(*n)++] = (Binding){ .name = build->target.launch[i].name,
                                 .kind = BIND_INT,
                                 .integer = build->target.launch[i].value };
    return all;
}

static void add_roofline(Making *m)
{
    const BuildRequest *const build = &m->request->build;
    PageRoofline *const r = &m->page->roofline;
    BuildRequest bound = *build;
    bound.bindings = all_bindings(m->page->arena, build, &bound.n_bindings);
    if (!build->target.gpu) {
        r->unknown = "the floor is known for GPUs: --arch=90 or --arch=80; 'kiln run' measures this machine";
        return;
    }
    if (m->has_free_shape && m->page->kernels.count == 1 && build->target.n_launch == 0) {
        r->unknown = "bind the shapes' names (NAME=VALUE), or give --at, to see operations, bytes and the least time";
        return;
    }
    const Roofline roofline = roofline_of(&bound);
    r->unknown = roofline.unknown ? arena_printf(m->page->arena, "not counted: %s", roofline.unknown) : NULL;
    r->card = roofline.card;
    r->operations = roofline.operations;
    r->bytes = roofline.bytes;
    r->operation_rate = roofline.operation_rate;
    r->byte_rate = roofline.byte_rate;
    for (int i = 0; i < m->page->kernels.count; i++) r->expected_seconds += m->page->kernels.items[i]->expected_seconds;
    for (int i = 0; i < m->page->kernels.count; i++)
        if (m->page->kernels.items[i]->expected_seconds <= 0) r->expected_seconds = 0; // the sum is not known
}

// "182us", "0.2 ms", "1.5s": seconds; 0: it is none, or none that a launch takes.
static double read_time(const char *text)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } };
    char *end;
    const double value = strtod(text, &end), least = 1e-12, most = 1e6;
    end += strspn(end, " ");
    for (int i = 0; i < COUNT(units) && end != text; i++)
        if (strcmp(end, units[i].unit) == 0 && value * units[i].seconds >= least && value * units[i].seconds <= most)
            return value * units[i].seconds;
    return 0;
}

// On the request's device; nothing, if it cannot be run there.
static void measure(Making *m)
{
    static Case c;
    PageRoofline *const r = &m->page->roofline;
    const BuildRequest *const build = &m->request->build;
    Choice choice = { 0 };
    Measurement measured = { 0 };
    const CaseOptions options = { .device = build->device, .build = { .check = build->checked } };
    if (case_choose(&choice, m->page->arena, build->program, build->name, text_cstr(&m->request->bindings)) >= 0)
        return;
    CaseBuild made = { .program = build->program,
                       .name = build->name,
                       .bindings = choice.wanted->build,
                       .n_bindings = choice.wanted->n_build };
    if (case_build(&made, &options)) {
        if (case_open(&c, &made, choice.wanted, &options) && measure_times(&c, 0.2, &measured)) {
            r->measured_seconds = measured.median;
            r->measured_where = arena_printf(m->page->arena, "the median of %d launches on %s", measured.runs,
                                             kiln_device_describe(build->device));
        }
        case_close(&c);
    }
    case_build_free(&made);
}

// ---- the whole

static const char *command_of(Arena *arena, const ToolRequest *request, const PageOptions *o)
{
    Text text = { .arena = arena };
    text_print(&text, "kiln explain --html");
    if (o->target->device) text_print(&text, " --device=%s", o->target->device);
    if (o->target->arch) text_print(&text, " --arch=%d", (int)o->target->arch);
    if (o->target->isa) text_print(&text, " --isa=%s", o->target->isa);
    if (o->card) text_print(&text, " --card=%s", o->card);
    if (o->at) text_print(&text, " --at=%s", o->at);
    if (o->profile) text_print(&text, " --profile=%s", o->profile);
    text_print(&text, " %s %s", o->file, request->build.name);
    for (int i = 0; i < request->n_values; i++) text_print(&text, " %s", request->values[i]);
    return text_cstr(&text);
}

int explain_page(ToolRequest *request, Arena *arena, const PageOptions *o)
{
    const char *const title = arena_printf(arena, "%s in %s", request->build.name, o->file);
    Making m = { .page = page_new(arena, title, command_of(arena, request, o)), .request = request };
    const double given = o->measured ? read_time(o->measured) : 0;
    if (o->measured && given <= 0)
        return fail_usage("--measured takes a time, such as 182us, and not '%s'", o->measured);
    if (kernel_compile(&request->build, NULL, NULL, add_kernel, &m)) return fail_status(NULL);
    const int traced = o->profile ? explain_trace(m.page, o->profile) : -1;
    if (traced >= 0) return traced;
    add_roofline(&m);
    if (given > 0) {
        m.page->roofline.measured_seconds = given;
        m.page->roofline.measured_where = "--measured";
    } else if (!m.page->roofline.unknown && request->build.device && !device_is_cpu(request->build.device)) {
        measure(&m);
    }
    Text out = { .arena = arena };
    page_write(&out, m.page);
    return output_text(o->out, &out);
}
