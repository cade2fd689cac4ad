// SPDX-License-Identifier: MIT
// compile.c - the whole compiler on one screen: the passes of each target in their order, then lowering, then text.
//
// Every name in the tables is a stage of `kiln dump`, beside "tile" (what the checker made), "loop" and "source".
#include "compile/compile.h"
#include "emit/emit.h"
#include "lower/cpu/lower.h"
#include "lower/cuda/lower.h"
#include "passes/passes.h"

#include <assert.h>
#include <stdio.h>

typedef struct Pass {
    const char *name;
    void (*run)(TileKernel *kernel);
} Pass;

static const Pass cpu_passes[] = {
    { "simplify", simplify },
    { "split-bounds", split_bounds },
    { "split-quotients", split_quotients },
    { "trace-foralls", trace_foralls },
    { NULL, NULL },
};

static const Pass sequential_passes[] = {
    { "make-tasks", sequential_make_tasks },
    { NULL, NULL },
};

static const Pass cuda_passes[] = {
    { "simplify", simplify },
    { "split-bounds", split_bounds },
    { NULL, NULL },
};

static const Pass *passes_of_target(const Target *target)
{
    return strcmp(target->name, "cuda") == 0 ? cuda_passes : cpu_passes;
}

static const Pass *passes_of(const TileKernel *kernel, const Target *target)
{
    return kernel->is_sequential ? sequential_passes : passes_of_target(target);
}

int compile_stages(const Target *target, const char **names, int max)
{
    static const char *const last[] = { "loop", "source" };
    int n = 0;
    if (n < max) names[n++] = "tile";
    for (const Pass *pass = passes_of_target(target); pass->name && n < max; pass++) names[n++] = pass->name;
    for (int i = 0; i < COUNT(last) && n < max; i++) names[n++] = last[i];
    return n;
}

static bool wants(const char *stage, const char *name) { return stage && strcmp(stage, name) == 0; }

// The invariants hold after every pass; a violation is a mistake of ours, not of the source.
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

static void run_passes(TileKernel *kernel, const Target *target, const char *stage, Text *dump)
{
    verify(kernel, "tile");
    if (wants(stage, "tile")) tile_print(dump, kernel);
    for (const Pass *pass = passes_of(kernel, target); pass->name && !kernel->diags->errors; pass++) {
        pass->run(kernel);
        verify(kernel, pass->name);
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

static LoopUnit *lower(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation)
{
    if (kernel->is_sequential) return lower_sequential(kernel, plan);
    if (strcmp(target->name, "cuda") == 0) return lower_cuda(kernel, &target->cuda, plan, explanation);
    return lower_cpu(kernel, &target->cpu, plan);
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

Compiled *compile_kernel(TileKernel *kernel, const Target *target, const char *stage, Text *dump)
{
    Arena *const arena = kernel->arena;
    Text explanation = { .arena = arena }, source = { .arena = arena };
    run_passes(kernel, target, stage, dump);
    if (kernel->diags->errors) return NULL;
    LaunchPlan *const plan = plan_new(arena, kernel, symbol_of(kernel));
    if (kernel->diags->errors) return NULL;
    LoopUnit *const unit = lower(kernel, target, plan, &explanation);
    if (!unit || kernel->diags->errors) return NULL;
    verify_unit(unit);
    if (wants(stage, "loop")) loop_print(dump, unit);
    const bool is_cuda = strcmp(target->name, "cuda") == 0 && !kernel->is_sequential;
    emit_unit(&source, unit, is_cuda ? EMIT_CUDA : EMIT_C);
    if (wants(stage, "source")) text_add(dump, source.data, source.length);
    return NEW(arena, Compiled, .kernel = kernel, .unit = unit, .source = text_cstr(&source), .plan = plan,
               .explanation = text_cstr(&explanation));
}
