// SPDX-License-Identifier: MIT
// work.c - how much a launch has to do: from its reference, or from the tiles of a kernel that has none.
#include "tools/work.h"

// ---- tiles: products as far as tensors fill their operands

static const int64_t STEPS_MAX = 20000000;

typedef struct Filled {
    bool known;
    int64_t n[MAX_RANK];
} Filled; // so much of each dimension holds elements of a tensor

typedef struct Walk {
    Ranges ranges;
    Filled *filled; // by Buffer.id
    bool ended;     // a break, continue or return was passed
    int64_t steps;
    const char *unknown;
} Walk;

static const char by_data[] = "it has no reference, and its loops depend on what is not known here";
static const char too_many_tiles[] = "it has no reference, and too many tiles to look at each";

static double walk_block(Walk *w, TileOp *op);

static void walk_index(Walk *w, const Var *var, int64_t at)
{
    w->ranges.vars[var->id] = (Interval){ at, at, true };
    w->ended = false; // break and return inside: as if the loop went on
}

static double walk_indices(Walk *w, const LoopIndex *indices, int n, int64_t step, TileOp *body)
{
    int64_t lo, hi;
    double sum = 0;
    if (n == 0) return walk_block(w, body);
    if (!value_of(&w->ranges, indices->lo, &lo) || !value_of(&w->ranges, indices->hi, &hi)) {
        w->unknown = by_data;
        return 0;
    }
    for (int64_t i = lo; (step > 0 ? i < hi : i > hi) && !w->unknown; i += step) {
        walk_index(w, indices->var, i);
        sum += walk_indices(w, indices + 1, n - 1, 1, body);
    }
    w->ended = false;
    return sum;
}

static int range_at(const Region *r, int axis)
{
    int d = 0;
    while (!r->subs[d].is_range || axis-- > 0) d++;
    return d;
}

// How much of a region's axis is inside its tensor, or holds what is.
static int64_t inside(const Walk *w, const Region *r, int axis)
{
    const int d = range_at(r, axis);
    const Filled *const filled = &w->filled[r->buffer->id];
    int64_t start, width, extent;
    if (!value_of(&w->ranges, r->subs[d].width, &width)) return 0;
    if (!value_of(&w->ranges, r->subs[d].start, &start)) return width;
    if (r->buffer->kind == BUFFER_TENSOR ? !value_of(&w->ranges, r->buffer->shape[d], &extent) : !filled->known)
        return width;
    extent = (r->buffer->kind == BUFFER_TENSOR ? extent : filled->n[d]) - start;
    return extent < 0 ? 0 : extent < width ? extent : width;
}

static void fill_tile(Walk *w, const TileOp *op)
{
    const Region *const dst = &op->copy.dst;
    Filled *const filled = &w->filled[dst->buffer->id];
    filled->known = region_rank(dst) == dst->buffer->rank && region_rank(&op->copy.src) == dst->buffer->rank &&
                    region_is_whole(dst);
    for (int d = 0; filled->known && d < dst->buffer->rank; d++) filled->n[d] = inside(w, &op->copy.src, d);
}

static double smaller(int64_t a, int64_t b) { return (double)(a < b ? a : b); }

static double count_product(const Walk *w, const TileOp *op)
{
    const Operand *const a = &op->matmul.a, *const b = &op->matmul.b;
    const double m = smaller(inside(w, &op->matmul.dst, 0), inside(w, &a->region, a->transposed));
    const double n = smaller(inside(w, &op->matmul.dst, 1), inside(w, &b->region, !b->transposed));
    return 2 * m * n * smaller(inside(w, &a->region, !a->transposed), inside(w, &b->region, b->transposed));
}

static double walk_branch(Walk *w, const TileOp *op)
{
    int64_t cond;
    if (value_of(&w->ranges, op->branch.cond, &cond))
        return walk_block(w, cond ? op->branch.then : op->branch.otherwise);
    const double then = walk_block(w, op->branch.then);
    w->ended = false;
    const double otherwise = walk_block(w, op->branch.otherwise);
    w->ended = false;
    if (then != otherwise) w->unknown = by_data;
    return then;
}

static double walk_op(Walk *w, TileOp *op)
{
    int64_t step = 1;
    switch (op->kind) {
    case T_MATMUL: return count_product(w, op);
    case T_COPY: fill_tile(w, op); return 0;
    case T_LET:
    case T_SET:
        w->ranges.vars[op->let.var->id] =
            op->let.value ? interval_of(&w->ranges, op->let.value) : (Interval){ 0, 0, false };
        return 0;
    case T_UPDATE:
        if (op->update.var) w->ranges.vars[op->update.var->id].known = false;
        return 0;
    case T_PIPELINE: return walk_indices(w, op->pipeline.indices, op->pipeline.n, 1, op->pipeline.body);
    case T_FOR:
        expr_as_int(op->for_.step, &step);
        return walk_indices(w, &(LoopIndex){ op->for_.var, op->for_.lo, op->for_.hi }, 1, step, op->for_.body);
    case T_WHILE:
        if (walk_block(w, op->while_.body) > 0) w->unknown = by_data;
        w->ended = false;
        return 0;
    case T_IF: return walk_branch(w, op);
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN: w->ended = true; return 0;
    case T_TILE:
    case T_STORE:
    case T_ATOMIC:
    case T_ATOMIC_TILE:
    case T_FILL:
    case T_SCAN:
    case T_FORALL:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: break;
    }
    return 0;
}

static double walk_block(Walk *w, TileOp *op)
{
    double sum = 0;
    for (; op && !w->ended && !w->unknown; op = op->next) {
        if (++w->steps > STEPS_MAX) w->unknown = too_many_tiles;
        sum += walk_op(w, op);
    }
    return sum;
}

static bool any_product(TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->kind == T_MATMUL) return true;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (any_product(*body)) return true;
    }
    return false;
}

// Every tensor once; those that are read and written, twice.
static double tensor_bytes(const Ranges *ranges, const char **unknown)
{
    double bytes = 0;
    for (int i = 0; i < ranges->kernel->n_params; i++) {
        const TileParam *const p = &ranges->kernel->params[i];
        double size = p->is_tensor && !p->absent ? dtype_bits(p->tensor->type) / 8.0 : 0;
        for (int d = 0; size > 0 && d < p->tensor->rank; d++) {
            int64_t extent;
            if (!value_of(ranges, p->tensor->shape[d], &extent)) *unknown = by_data;
            else size *= (double)extent;
        }
        bytes += size > 0 && p->tensor->access == ACCESS_INOUT ? 2 * size : size;
    }
    return bytes;
}

Work count_tiles(const TileKernel *kernel, const WorkValues *values)
{
    Walk w = { .ranges = ranges_of(kernel, values), .filled = NEW_ARRAY(kernel->arena, Filled, kernel->n_buffers + 1) };
    Work work = { .operations = 0 };
    LoopIndex grid[MAX_RANK];
    for (int i = 0; i < kernel->n_grid; i++)
        grid[i] = (LoopIndex){ kernel->grid[i].var, int_const(kernel->arena, 0), kernel->grid[i].extent };
    if (any_product(kernel->body)) work.operations = walk_indices(&w, grid, kernel->n_grid, 1, kernel->body);
    work.operations_unknown = w.unknown;
    work.gave_up = w.unknown == too_many_tiles;
    work.bytes = tensor_bytes(&w.ranges, &work.bytes_unknown);
    return work;
}

// ---- a launch

typedef struct Counting {
    const WorkValues *values;
    bool has_reference;
    int n;
    Work work;
} Counting;

static kiln_status count_compiled(const Compiled *compiled, void *context)
{
    Counting *const c = context;
    if (c->n++ > 0) // steps of an operator, whose sizes are its own
        c->work.operations_unknown = c->work.bytes_unknown = "it has several steps, and no reference";
    else c->work = (c->has_reference ? count_reference : count_tiles)(compiled->kernel, c->values);
    return KILN_OK;
}

Work work_of(kiln_program *program, const char *name, const Binding *bindings, int n_bindings, const WorkValues *values)
{
    Counting c = { .values = values, .has_reference = program_find(program->program, DECL_REFERENCE, name) };
    const BuildRequest request = { .program = program,
                                   .name = name,
                                   .bindings = bindings,
                                   .n_bindings = n_bindings,
                                   .target = { .kind = &target_cpu },
                                   .form = c.has_reference ? FORM_REFERENCE : FORM_KERNEL };
    if (kernel_compile(&request, NULL, NULL, count_compiled, &c))
        c.work.operations_unknown = c.work.bytes_unknown = "it does not compile for the CPU";
    return c.work;
}

Work work_of_case(const Case *c)
{
    const kiln_tensor *tensors[PLAN_MAX_PARAMS] = { NULL };
    for (int i = 0; i < c->build->kernel->plan->n_params; i++)
        if (c->inputs[i].block) tensors[i] = &c->inputs[i].host;
    return work_of(c->build->program, c->build->name, c->build->bindings, c->build->n_bindings,
                   &(WorkValues){ c->check->launch, c->check->n_launch, tensors });
}

double count_bytes(const Case *c)
{
    const LaunchPlan *const plan = c->build->kernel->plan;
    double sum = 0;
    for (int i = 0; i < plan->n_params; i++)
        if (c->inputs[i].block) sum += (double)c->inputs[i].bytes * (plan->params[i].access == ACCESS_INOUT ? 2 : 1);
    return sum;
}
