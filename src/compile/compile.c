// SPDX-License-Identifier: MIT
// compile.c - the whole compiler on one screen: the target's passes in their order, then its lowering, then text.
//
// Every pass is a stage of `kiln dump`, beside "tile" (what the checker made), "schedule" (of GPUs), "loop" and "source".
#include "compile/compile.h"
#include "emit/emit.h"
#include "lower/gpu/schedule/dump.h"
#include "lower/gpu/schedule/verify.h"
#include "passes/passes.h"

#include <assert.h>
#include <stdio.h>

// References and the like are the CPU's, whatever the kernel is compiled for.
static const TargetKind *kind_of(const TileKernel *kernel, const Target *target)
{
    return kernel->is_sequential ? &target_sequential : target->kind;
}

int compile_stages(const Target *target, const char **names, int max)
{
    static const char *const last[] = { "schedule", "loop", "source" };
    int n = 0;
    if (n < max) names[n++] = "tile";
    for (const Pass *pass = target->kind->passes; pass->name && n < max; pass++) names[n++] = pass->name;
    for (int i = target->gpu ? 0 : 1; i < COUNT(last) && n < max; i++) names[n++] = last[i];
    return n;
}

static bool wants(const char *stage, const char *name) { return stage && strcmp(stage, name) == 0; }

// The invariants hold after every pass; a violation is a mistake of ours, not of the source. Dumps look after each, other builds
// after the last.
static void verify(const TileKernel *kernel, const char *after)
{
#ifndef NDEBUG
    Text why = { .arena = kernel->arena };
    if (!tile_verify(kernel, &why)) {
        fprintf(stderr, "kiln: %s after '%s': %s\n", kernel->key ? kernel->key : kernel->name, after, text_cstr(&why));
        assert(false && "the Tile IR keeps its invariants");
    }
#endif
}

static void run_passes(TileKernel *kernel, const Pass *pass, const char *stage, Text *dump)
{
    verify(kernel, "tile");
    if (wants(stage, "tile")) tile_print(dump, kernel);
    for (; pass->name && !kernel->diags->errors; pass++) {
        pass->run(kernel);
        if (stage || !pass[1].name) verify(kernel, pass->name);
        if (wants(stage, pass->name)) tile_print(dump, kernel);
    }
}

// A C name that differs between specialisations, so that several may be linked into one program.
static const char *symbol_of(const TileKernel *kernel)
{
    uint64_t hash = 14695981039346656037u;
    for (const char *p = kernel->key ? kernel->key : kernel->name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return arena_printf(kernel->arena, "kiln_%s_%08x", kernel->name, (unsigned)(hash ^ hash >> 32));
}

static void verify_unit(const LoopUnit *unit)
{
#ifndef NDEBUG
    Text why = { .arena = unit->arena };
    if (!loop_verify(unit, &why)) {
        fprintf(stderr, "kiln: Loop IR: %s\n", text_cstr(&why));
        assert(false && "the Loop IR keeps its invariants");
    }
#endif
}

// In every build: what a GPU does wrong at times only, no test finds for sure.
static bool verify_schedule(TileKernel *kernel, const Schedule *schedule)
{
    const ScheduleFault fault = schedule ? schedule_verify(schedule) : (ScheduleFault){ 0 };
    if (fault.kind == FAULT_NONE) return true;
    diag_error(kernel->diags, fault.span,
               "the schedule that Kiln made of this is wrong, which is a mistake of Kiln's: %s", fault.message);
    return false;
}

Compiled *compile_kernel(TileKernel *kernel, const Target *target, const char *stage, Text *dump)
{
    Arena *const arena = kernel->arena;
    const TargetKind *const kind = kind_of(kernel, target);
    Text explanation = { .arena = arena }, cost = { .arena = arena }, source = { .arena = arena };
    if (target->gpu) kernel->shared_bytes = target->gpu->shared_bytes_max;
    if (target->gpu) kernel->has_boxes = target->gpu->tma;
    run_passes(kernel, kind->passes, stage, dump);
    if (kernel->diags->errors) return NULL;
    LaunchPlan *const plan = plan_new(arena, kernel, symbol_of(kernel));
    if (kernel->diags->errors) return NULL;
    LoopUnit *const unit = kind->lower(kernel, target, plan, &explanation, &cost);
    if (!unit || kernel->diags->errors) return NULL;
    if (wants(stage, "schedule") && unit->schedule) schedule_dump(unit->schedule, dump);
    if (!verify_schedule(kernel, unit->schedule)) return NULL;
    verify_unit(unit);
    if (wants(stage, "loop")) loop_print(dump, unit);
    emit_unit(&source, unit, kind->dialect);
    if (wants(stage, "source")) text_add(dump, source.data, source.length);
    return NEW(arena, Compiled, .kernel = kernel, .unit = unit, .source = text_cstr(&source), .plan = plan,
               .explanation = text_cstr(&explanation), .cost = text_cstr(&cost));
}
