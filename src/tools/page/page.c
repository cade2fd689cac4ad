// SPDX-License-Identifier: MIT
// page.c - collecting what a page shows: the outline, tiles, costs and the timeline of the model.
#include "tools/page/page.h"
#include "lower/gpu/cost/timeline.h"
#include "lower/gpu/schedule/dump.h"

enum { THREAD_REGISTERS = 255 }; // that an instruction can name

Page *page_new(Arena *arena, const char *title, const char *command)
{
    return NEW(arena, Page, .arena = arena, .title = title, .command = command);
}

static const char *copied(Page *page, const char *text)
{
    return text ? arena_copy_text(page->arena, text, strlen(text)) : NULL;
}

// ---- tiles

static void set_layout(PageTile *tile, const ScheduleTile *from)
{
    TileLayout *const layout = &tile->layout;
    tile->has_layout = from->place == TILE_REGISTERS
                           ? from->fragment != NULL
                           : from->shared && from->shared->element_bytes > 0 && dtype_bits(from->type) >= 8;
    if (!tile->has_layout) return;
    layout->type = from->type;
    layout->rank = from->rank;
    for (int d = 0; d < from->rank; d++) layout->extent[d] = (int)from->shape[d];
    layout->in_shared = tile->in_shared;
    if (tile->in_shared) layout->shared = *from->shared;
    else layout->fragment = *from->fragment;
}

static void add_tile(Page *page, PageKernel *kernel, const Schedule *schedule, const ScheduleTile *from)
{
    Text shape = { .arena = page->arena };
    if (from->rank) text_print(&shape, "%s", dtype_name(from->type));
    for (int d = 0; d < from->rank; d++) text_print(&shape, "[%lld]", (long long)from->shape[d]);
    PageTile tile = { .name = copied(page, from->name),
                      .shape = text_cstr(&shape),
                      .in_shared = from->place == TILE_SHARED,
                      .registers = from->registers,
                      .offset = from->offset,
                      .bytes = from->parts ? from->part_bytes : from->bytes,
                      .slots = from->parts ? from->parts : from->slots,
                      .ring = from->ring != NO_RING
                                  ? copied(page, schedule_ring_name(page->arena, schedule, from->ring))
                                  : NULL,
                      .why = copied(page, from->why),
                      .source = from->span.source,
                      .like = kernel->tiles.count };
    if (tile.source) tile.line = source_position(tile.source, from->span.begin).line;
    set_layout(&tile, from);
    for (int i = kernel->tiles.count - 1; i >= 0 && tile.has_layout; i--)
        if (kernel->tiles.items[i].has_layout && tile_layout_equal(&kernel->tiles.items[i].layout, &tile.layout))
            tile.like = i;
    VEC_PUSH(page->arena, &kernel->tiles, tile);
}

static void add_tables(Page *page, PageKernel *kernel, const Schedule *schedule)
{
    for (int i = 0; i < schedule->tiles.count; i++) add_tile(page, kernel, schedule, schedule->tiles.items[i]);
    kernel->shared_bytes = schedule->shared_bytes;
    kernel->shared_limit = schedule->shared_limit;
    kernel->thread_registers = schedule->launch_registers;
    kernel->barrier_offset = schedule->shared_bytes;
    for (int i = 0; i < schedule->roles.count; i++)
        if (schedule->roles.items[i]->registers > kernel->thread_registers)
            kernel->thread_registers = schedule->roles.items[i]->registers;
    if (kernel->thread_registers > THREAD_REGISTERS) kernel->thread_registers = THREAD_REGISTERS;
    for (int i = 0; i < schedule->rings.count; i++) {
        const ScheduleRing *const ring = schedule->rings.items[i];
        kernel->barrier_bytes += 16 * ring->slots;
        if (ring->full_offset < kernel->barrier_offset) kernel->barrier_offset = ring->full_offset;
    }
}

// ---- costs and time

static void add_costs(Page *page, PageKernel *kernel, const Cost *cost)
{
    for (int i = 0; cost && i < cost->lines.count; i++) {
        const CostLine *const line = &cost->lines.items[i];
        const PageCost added = { line->source, line->line, line->floor, line->cycles, bound_names[line->bound] };
        if (line->source) VEC_PUSH(page->arena, &kernel->costs, added);
    }
}

void page_add_timeline(Page *page, PageKernel *kernel, PageTimeline timeline)
{
    PageSpan *const spans = NEW_ARRAY(page->arena, PageSpan, timeline.n + 1);
    for (int i = 0; i < timeline.n; i++) {
        spans[i] = timeline.spans[i];
        spans[i].role = copied(page, spans[i].role);
        spans[i].what = copied(page, spans[i].what);
    }
    timeline.spans = spans;
    VEC_PUSH(page->arena, &kernel->timelines, timeline);
}

static void add_model_timeline(Page *page, PageKernel *kernel, const Schedule *schedule, const GpuMachine *machine)
{
    static const PageSpanKind kinds[TIMELINE_KINDS] = { [TIMELINE_COMPUTE] = SPAN_COMPUTE,
                                                        [TIMELINE_PRODUCT] = SPAN_PRODUCT,
                                                        [TIMELINE_COPY] = SPAN_COPY,
                                                        [TIMELINE_WAIT] = SPAN_WAIT,
                                                        [TIMELINE_HELD] = SPAN_HELD };
    const Timeline *const model = timeline_of(page->arena, schedule, machine);
    PageSpan *const spans = NEW_ARRAY(page->arena, PageSpan, model->spans.count + 1);
    for (int i = 0; i < model->spans.count; i++) {
        const TimelineSpan *const from = &model->spans.items[i];
        spans[i] = (PageSpan){ from->lane, from->what, from->begin, from->end, kinds[from->kind], from->step, 0 };
        if (from->span.source) spans[i].line = source_position(from->span.source, from->span.begin).line;
    }
    page_add_timeline(
        page, kernel,
        (PageTimeline){
            "The first steps of one instance", "cycles",
            arena_printf(page->arena,
                         "Not measured: the schedule, simulated with the durations of the cost model for %s. Innermost "
                         "loops are shown for up to six steps, loops around them for two.%s%s%s",
                         machine->name, model->stopped ? " It ends early: " : "", model->stopped ? model->stopped : "",
                         model->stopped ? "." : ""),
            spans, model->spans.count });
}

// ---- the whole

static void add_fact(Page *page, PageKernel *kernel, const char *text) { VEC_PUSH(page->arena, &kernel->facts, text); }

static void add_overview(Page *page, PageKernel *kernel, const Compiled *compiled, const Target *target)
{
    const LaunchPlan *const plan = compiled->plan;
    Arena *const arena = page->arena;
    if (!target->gpu) {
        add_fact(page, kernel, arena_printf(arena, "%lld bytes of scratch per thread", (long long)plan->scratch_bytes));
    } else {
        add_fact(page, kernel, arena_printf(arena, "%d threads", plan->threads));
        add_fact(page, kernel, arena_printf(arena, "%d bytes of dynamic shared memory", plan->dynamic_shared_bytes));
        if (plan->cluster[0] > 1) add_fact(page, kernel, arena_printf(arena, "clusters of %d", plan->cluster[0]));
        if (plan->persistent) add_fact(page, kernel, "persistent");
        if (plan->n_maps)
            add_fact(page, kernel, arena_printf(arena, "%d tensor map%s", plan->n_maps, plan->n_maps == 1 ? "" : "s"));
    }
    add_fact(page, kernel,
             plan->deterministic ? "results are the same in every run"
                                 : "results differ in their last bits from run to run");
}

// ---- sources

static PageSource *source_of(Page *page, PageKernel *kernel, const Source *source)
{
    for (int i = 0; i < kernel->sources.count; i++)
        if (kernel->sources.items[i].source == source) return &kernel->sources.items[i];
    VEC_PUSH(page->arena, &kernel->sources, (PageSource){ .source = source });
    return &kernel->sources.items[kernel->sources.count - 1];
}

static int line_at(const Source *source, int offset) { return source_position(source, offset).line; }

// The declaration that the line is in is shown.
static void open_line(Page *page, PageKernel *kernel, const Program *program, const Source *source, int line)
{
    for (int m = 0; source && m < program->n_modules; m++) {
        if (program->modules[m]->source != source) continue;
        PageSource *const shown = source_of(page, kernel, source);
        for (const Decl *d = program->modules[m]->decls; d; d = d->next) {
            const PageLines lines = { line_at(source, d->span.begin), line_at(source, d->span.end) };
            if (line < lines.first || line > lines.last) continue;
            int at = 0;
            while (at < shown->open.count && shown->open.items[at].first < lines.first) at++;
            if (at < shown->open.count && shown->open.items[at].first == lines.first) return;
            VEC_PUSH(page->arena, &shown->open, lines);
            for (int i = shown->open.count - 1; i > at; i--) shown->open.items[i] = shown->open.items[i - 1];
            shown->open.items[at] = lines;
            return;
        }
    }
}

static void add_sources(Page *page, PageKernel *kernel, const Program *program, const char *name)
{
    const Decl *const decl = program_find(program, DECL_KERNEL, name);
    if (decl) open_line(page, kernel, program, decl->span.source, line_at(decl->span.source, decl->span.begin));
    for (int i = 0; i < kernel->lines.count; i++)
        open_line(page, kernel, program, kernel->lines.items[i].source, kernel->lines.items[i].line);
    for (int i = 0; i < kernel->costs.count; i++)
        open_line(page, kernel, program, kernel->costs.items[i].source, kernel->costs.items[i].line);
}

PageKernel *page_add_kernel(Page *page, const Compiled *compiled, const Target *target, const Program *program)
{
    PageKernel *const kernel = NEW(page->arena, PageKernel, .expected_seconds = compiled->unit->expected_seconds);
    const Schedule *const schedule = compiled->unit->schedule;
    VEC_PUSH(page->arena, &page->kernels, kernel);
    kernel->name = copied(page, compiled->plan->key ? compiled->plan->key : compiled->plan->name);
    kernel->target = target->gpu ? target->gpu->name : "the CPU";
    kernel->explanation = copied(page, compiled->explanation);
    kernel->code = copied(page, compiled->source);
    kernel->code_title = target->gpu ? "CUDA C" : "C";
    add_overview(page, kernel, compiled, target);
    if (schedule) {
        add_tables(page, kernel, schedule);
        page_add_roles(page, kernel, compiled);
        page_add_barriers(page, kernel, compiled);
        const GpuMachine *const machine = gpu_machine(target->gpu, target->card);
        if (machine) add_model_timeline(page, kernel, schedule, machine);
    } else {
        kernel->no_schedule =
            "a kernel for the CPU has no schedule of warps: --arch=90 or --arch=80 shows one for a GPU";
    }
    add_costs(page, kernel, compiled->unit->cost);
    page_add_facts(page, kernel, compiled);
    add_sources(page, kernel, program, compiled->kernel->name);
    return kernel;
}
