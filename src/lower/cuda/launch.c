// SPDX-License-Identifier: MIT
// launch.c - what the launch hands to the kernel: words of parameters and tensor maps, and the plan that makes them.
#include "lower/cuda/cuda.h"

// ---- the kernel's side

static Expr *word(Lowering *lo, int index) { return call_expr(lo, DTYPE_I64, "param_word", 1, i32_const(lo, index)); }

// Returns the words it took.
static int declare_parameter(Lowering *lo, TileParam *p, int at)
{
    if (p->absent) return 0;
    if (!p->is_tensor) {
        Var *const var = loop_var(lo, p->scalar);
        const char *const reader = arena_printf(lo->arena, "param_scalar<%s>", dtype_info[var->type].c_name);
        emit_definition(lo, var, call_expr(lo, var->type, reader, 1, word(lo, at)));
        return 1;
    }
    const DType type = loop_type(p->tensor->type);
    Var *const pointer = loop_new_pointer(lo->unit, type, p->tensor->name);
    pointer->multiple = at; // its word: strides follow it
    lo->tensors[p->tensor->id] = pointer;
    const char *const pointer_to = arena_printf(lo->arena, "(%s *)", dtype_info[type].c_name);
    emit_definition(lo, pointer, call_expr(lo, type, pointer_to, 1, word(lo, at)));
    return 1 + (p->tensor->strided ? p->tensor->rank : 0);
}

static void declare_extents(Lowering *lo, int at)
{
    TileKernel *const k = lo->kernel;
    lo->grid_extents = NEW_ARRAY(lo->arena, Var *, k->n_grid + 1);
    lo->numbered_extents = NEW_ARRAY(lo->arena, Var *, k->n_grid + 1);
    Expr *total = i32_const(lo, 1);
    for (int i = 0; i < k->n_grid; i++) {
        const char *const name = k->grid[i].var->name;
        Var *const extent =
            emit_declare(lo, DTYPE_I32, arena_printf(lo->arena, "n_%s", name), cast(lo, DTYPE_I32, word(lo, at + i)));
        lo->grid_extents[i] = lo->numbered_extents[i] = extent;
        if (is_clustered(lo, i))
            lo->numbered_extents[i] = emit_declare(lo, DTYPE_I32, arena_printf(lo->arena, "clusters_%s", name),
                                                   i32_op(lo, X_DIV, var_of(lo, extent), lo->cluster));
        total = i32_times(lo, total, var_of(lo, lo->numbered_extents[i]));
    }
    lo->tiles_total = emit_declare(lo, DTYPE_I32, "instances", total);
}

// The launch's words become variables, in the order of plan.h. Returns their number.
int declare_parameters(Lowering *lo)
{
    TileKernel *const k = lo->kernel;
    int at = 0;
    for (int i = 0; i < k->n_params; i++) at += declare_parameter(lo, &k->params[i], at);
    for (int i = 0; i < k->n_binds; i++) {
        Var *const var = loop_var(lo, k->binds[i].symbol);
        emit_definition(lo, var, cast(lo, var->type, word(lo, at++)));
    }
    declare_extents(lo, at);
    return at + k->n_grid;
}

// ---- the unit

static void add_preludes(Lowering *lo)
{
    const GpuTarget *const gpu = lo->gpu;
    // clang-format off
    const struct { const char *name; bool in_backward_slice; } preludes[] = {
        { "cuda/types", true }, { "cuda/convert", true }, { "cuda/math", true }, { "cuda/threads", true },
        { "cuda/vector", true }, { "cuda/atomic", true }, { "cuda/tensor_core", true },
        { "cuda/barrier", gpu->mbarriers }, { "cuda/tma", gpu->tma }, { "cuda/stage", gpu->stmatrix },
        { "cuda/check", lo->kernel->checked },
        { "cuda/multistage", lo->multistages.count > 0 },
        { "cuda/cluster", lo->shares },
        { "cuda/rows", lo->has_producer_group || lo->has_rows },
        { "cuda/fma", lo->uses_fma },
    };
    // clang-format on
    lo->unit->preludes = NEW_ARRAY(lo->arena, const char *, COUNT(preludes));
    for (int i = 0; i < COUNT(preludes); i++)
        if (preludes[i].in_backward_slice) lo->unit->preludes[lo->unit->n_preludes++] = preludes[i].name;
}

void fill_unit(Lowering *lo, LoopStmt *body, int words, int threads)
{
    LoopUnit *const unit = lo->unit;
    add_preludes(lo);
    Text helpers = { .arena = lo->arena };
    text_print(&helpers, "\nstruct __align__(64) KernelParams {\n");
    if (words || !lo->traps) // it has some member
        text_print(&helpers, "    uint64_t word[%d];\n", words ? words : 1);
    if (lo->maps.count) text_print(&helpers, "    TensorMap map[%d];\n", lo->maps.count);
    text_print(&helpers, "%s};\n", lo->traps ? "    uint64_t fault;\n" : "");
    if (lo->helpers.data) text_add(&helpers, lo->helpers.data, lo->helpers.length);
    unit->helpers = text_cstr(&helpers);
    LoopFunction *const function = NEW(lo->arena, LoopFunction, .name = lo->plan->symbol, .body = body);
    function->signature = arena_printf(lo->arena,
                                       "extern \"C\" __global__ void __launch_bounds__(%d, %d)\n"
                                       "%s(const __grid_constant__ KernelParams kp)",
                                       threads, occupancy(lo), lo->plan->symbol);
    VEC_PUSH(lo->arena, &unit->functions, function);
}

// ---- the plan

static void fill_map(Lowering *lo, const TensorMap *map, PlanMap *out)
{
    Arena *const a = lo->arena;
    LaunchPlan *const plan = lo->plan;
    Buffer *const tensor = map->tensor;
    *out = (PlanMap){
        .param = buffer_root(tensor)->param, .rank = tensor->rank, .type = tensor->type, .swizzle = map->swizzle
    };
    Expr *stride = int_const(a, 1);
    for (int d = 0; d < tensor->rank; d++) {
        Expr *const extent = tensor->shape[tensor->rank - 1 - d];
        if (tensor->stride[0]) stride = tensor->stride[tensor->rank - 1 - d];
        out->dim[d] = plan_add_code(a, plan, lo->kernel, extent);
        out->stride[d] = plan_add_code(a, plan, lo->kernel, stride);
        out->box[d] = map->box[d];
        stride = int_mul(a, stride, extent);
    }
}

static bool adds_floats(Lowering *lo, TileOp *op, void *context)
{
    bool *const adds = context;
    if (op->kind == T_ATOMIC_TILE) *adds |= dtype_is_float(op->copy.dst.buffer->type);
    if (op->kind == T_ATOMIC && op->atomic.op == ATOMIC_ADD) *adds |= dtype_is_float(op->atomic.buffer->type);
    return false;
}

void fill_plan(Lowering *lo, int threads)
{
    LaunchPlan *const plan = lo->plan;
    bool order_matters = false; // of sums
    each_op(lo, lo->kernel->body, adds_floats, &order_matters);
    plan->arch = lo->gpu->arch;
    plan->threads = threads;
    plan->dynamic_shared_bytes = lo->shared_bytes;
    plan->cluster[0] = lo->cluster;
    plan->cluster[1] = plan->cluster[2] = 1;
    plan->min_alignment = 16;
    plan->persistent = lo->is_persistent;
    plan->blocks_per_sm = occupancy(lo);
    plan->traps = lo->traps;
    plan->deterministic = !order_matters;
    plan->symbol_max = lo->largest_extent;
    plan->wide = lo->wide;
    plan->n_maps = lo->maps.count;
    const int most = plan_most_maps(plan_words(plan));
    if (plan->n_maps > most)
        diag_error(lo->diags, lo->kernel->params[0].span,
                   "the copies of this kernel take %d tensor maps, a launch carries %d: "
                   "use fewer sizes of slices",
                   plan->n_maps, most);
    plan->maps = NEW_ARRAY(lo->arena, PlanMap, plan->n_maps + 1);
    for (int i = 0; i < plan->n_maps; i++) fill_map(lo, lo->maps.items[i], &plan->maps[i]);
}
