// SPDX-License-Identifier: MIT
// launch.c - what the launch hands to the kernel: words of parameters and tensor maps, and the plan that makes them.
#include "lower/gpu/print/roles/print_roles.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/info.h"

// ---- the unit

void fill_unit(Printer *pr, LoopStmt *body, int words, int threads)
{
    const Lowering *const lo = pr->lo;
    LoopUnit *const unit = pr->unit;
    Text helpers = { .arena = lo->arena };
    text_print(&helpers, "\nstruct __align__(64) KernelParams {\n");
    if (words || !(pr->traps || lo->target->trace)) // it has some member
        text_print(&helpers, "    uint64_t word[%d];\n", words ? words : 1);
    if (lo->maps.count) text_print(&helpers, "    TensorMap map[%d];\n", lo->maps.count);
    text_print(&helpers, "%s%s};\n", pr->traps ? "    uint64_t fault;\n" : "",
               lo->target->trace ? "    uint64_t trace;\n" : "");
    if (pr->helpers.data) text_add(&helpers, pr->helpers.data, pr->helpers.length);
    unit->helpers = text_cstr(&helpers);
    LoopFunction *const function = NEW(lo->arena, LoopFunction, .name = lo->plan->symbol, .body = body);
    function->signature = arena_printf(lo->arena,
                                       "extern \"C\" __global__ void __launch_bounds__(%d, %d)\n"
                                       "%s(const __grid_constant__ KernelParams kp)",
                                       threads, occupancy(lo), lo->plan->symbol);
    VEC_PUSH(lo->arena, &unit->functions, function);
}

// ---- the plan

static PlanCode code_of(Printer *pr, const Expr *x)
{
    return plan_add_code(pr->arena, pr->lo->plan, pr->lo->kernel, x);
}

static void fill_steps(Printer *pr, const TensorMap *map, PlanMap *out)
{
    for (int d = 0; d < out->rank; d++) out->has_steps |= map->step[d] != NULL;
    for (int d = 0; out->has_steps && d < out->rank; d++)
        out->step[d] = code_of(pr, map->step[d] ? map->step[d] : int_const(pr->arena, 1));
    out->n_walked = map->im2col ? map->im2col->n : 0;
    for (int i = 0; i < out->n_walked; i++) {
        out->walked[i].first = code_of(pr, map->im2col->walked[i].first);
        out->walked[i].last = code_of(pr, im2col_last(pr->lo, map->tensor, map->im2col, i));
    }
}

static void fill_map(Printer *pr, const TensorMap *map, PlanMap *out)
{
    const Lowering *const lo = pr->lo;
    Arena *const a = lo->arena;
    Buffer *const tensor = map->tensor;
    *out = (PlanMap){
        .param = buffer_root(tensor)->param, .rank = tensor->rank, .type = tensor->type, .swizzle = map->swizzle
    };
    Expr *stride = int_const(a, 1);
    for (int d = 0; d < tensor->rank; d++) {
        Expr *const extent = tensor->shape[tensor->rank - 1 - d];
        if (tensor->stride[0]) stride = tensor->stride[tensor->rank - 1 - d];
        out->dim[d] = code_of(pr, extent);
        out->stride[d] = code_of(pr, stride);
        out->box[d] = map->box[d];
        stride = int_mul(a, stride, extent);
    }
    fill_steps(pr, map, out);
}

void fill_plan(Printer *pr, int threads)
{
    const Lowering *const lo = pr->lo;
    LaunchPlan *const plan = lo->plan;
    plan->arch = lo->gpu->arch;
    plan->threads = threads;
    plan->dynamic_shared_bytes = lo->shared_bytes;
    plan->cluster[0] = lo->cluster;
    plan->cluster[1] = plan->cluster[2] = 1;
    plan->min_alignment = 16;
    plan->persistent = lo->is_persistent;
    plan->blocks_per_sm = occupancy(lo);
    plan->traps = pr->traps;
    plan->traces = lo->target->trace;
    plan->deterministic = !lo->adds_floats;
    plan->symbol_max = lo->largest_extent;
    plan->wide = lo->wide;
    if (lo->has_boxes_alone) plan->boxes = code_of(pr, lo->fetch_alignment);
    plan->n_maps = lo->maps.count;
    plan->maps = NEW_ARRAY(lo->arena, PlanMap, plan->n_maps + 1);
    for (int i = 0; i < plan->n_maps; i++) fill_map(pr, lo->maps.items[i], &plan->maps[i]);
}
