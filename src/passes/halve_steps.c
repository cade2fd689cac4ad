// SPDX-License-Identifier: MIT
// halve_steps.c - steps of a product that are too large for shared memory become two of half of the length.
//
// A step's products are in flight while the next one's operands come, so that a pipeline with less than three buffers does one
// after the other. Where three steps do not fit, half of the columns along the contraction are a step; sums are in the same
// order, as an instruction takes fewer than that.
//
//     pipeline (k : n; stages = 4) {                  =>     pipeline (k : n, half : 2; stages = 4) {
//         shared T a[M][128] = A[m +: M][k*128 +: 128];          shared T a[M][64] = A[m +: M][k*128 + half*64 +: 64];
//
// before: whole-slices, make-copies    after: as said, of pipelines that are copies into tiles and products that add them up
// never:  rows of half a step with less than 128 bytes, which a swizzled copy moves at once; halves that are no whole
//         instructions, for which a product would leave the tensor cores; products that round in between
#include "passes/passes.h"

enum {
    BUFFERS = 3,
    LEAST_ROW = 128,       // bytes
    INSTRUCTION_BYTES = 32 // along the contraction, of any tensor-core product
};

typedef struct Step {
    TileOp *pipeline;
    int64_t width; // along the contraction; 0: none was seen
    int64_t bytes;
} Step;

static int64_t extent(const Buffer *tile, int d)
{
    int64_t n = 0;
    return expr_as_int(tile->shape[d], &n) ? n : 0;
}

static bool is_declared(const Step *step, const Buffer *tile)
{
    for (const TileOp *op = step->pipeline->pipeline.body; op; op = op->next)
        if (op->kind == T_TILE && op->tile.buffer == tile) return tile->kind == BUFFER_SHARED && tile->rank == 2;
    return false;
}

// The dimension of a tile along which all products that read it go; -1: one does not read all of it, or they differ.
static int contraction_of(const Step *step, const Buffer *tile)
{
    int along = -1;
    for (const TileOp *op = step->pipeline->pipeline.body; op; op = op->next) {
        if (op->kind != T_MATMUL) continue;
        const Operand *const of[] = { &op->matmul.a, &op->matmul.b };
        for (int i = 0; i < 2; i++) {
            if (of[i]->region.buffer != tile) continue;
            const int d = (i == 0) != of[i]->transposed;
            if (!region_is_whole(&of[i]->region) || of[i]->type != tile->type || (along >= 0 && along != d)) return -1;
            along = d;
        }
    }
    return along;
}

static int copies_into(const Step *step, const Buffer *tile)
{
    int n = 0;
    for (const TileOp *op = step->pipeline->pipeline.body; op; op = op->next)
        n += op->kind == T_COPY && op->copy.dst.buffer == tile;
    return n;
}

static bool measure_tile(Step *step, const Buffer *tile)
{
    const int along = contraction_of(step, tile);
    if (!is_declared(step, tile) || along < 0 || copies_into(step, tile) != 1) return false;
    const int bits = dtype_bits(tile->type);
    const int64_t width = extent(tile, along), row = extent(tile, 1) * bits / 8;
    if (width * bits % (2 * INSTRUCTION_BYTES * 8) != 0 || (step->width && width != step->width) ||
        row < LEAST_ROW * (along == 1 ? 2 : 1))
        return false;
    step->width = width;
    step->bytes += row * extent(tile, 0);
    return true;
}

// The range of a slice that fills dimension d of a tile.
static Sub *sub_of(const Region *src, int d)
{
    for (int i = 0; i < src->buffer->rank; i++)
        if (src->subs[i].is_range && d-- == 0) return &src->subs[i];
    return NULL;
}

static bool is_slice(const Step *step, const TileOp *copy)
{
    const int along = contraction_of(step, copy->copy.dst.buffer);
    if (along < 0 || !region_is_whole(&copy->copy.dst) || copy->copy.src.buffer->kind != BUFFER_TENSOR) return false;
    const Sub *const sub = region_rank(&copy->copy.src) == 2 ? sub_of(&copy->copy.src, along) : NULL;
    return sub && !sub->step && sub->start->type == DTYPE_INT &&
           copy->copy.src.buffer->type == copy->copy.dst.buffer->type;
}

static bool measure_op(Step *step, const TileOp *op)
{
    switch ((int)op->kind) {
    case T_TILE: return measure_tile(step, op->tile.buffer);
    case T_COPY: return is_declared(step, op->copy.dst.buffer) && is_slice(step, op);
    case T_MATMUL:
        return op->matmul.accumulate && !op->matmul.promote && !op->matmul.meta &&
               is_declared(step, op->matmul.a.region.buffer) && is_declared(step, op->matmul.b.region.buffer);
    default: return false;
    }
}

static bool is_too_large(TileOp *op, Step *step, int64_t most)
{
    *step = (Step){ .pipeline = op };
    if (op->pipeline.stages < BUFFERS || op->pipeline.n_stage_labels || op->pipeline.n == LOOP_INDICES_MAX)
        return false;
    for (const TileOp *x = op->pipeline.body; x; x = x->next)
        if (x->stage || x->groups || !measure_op(step, x)) return false;
    return step->width && step->bytes * BUFFERS > most;
}

static void halve_tile(Arena *arena, const Step *step, TileOp *copy, Expr *at, Expr *width)
{
    Buffer *const tile = copy->copy.dst.buffer;
    const int along = contraction_of(step, tile); // of the tile as it was
    Sub *const sub = sub_of(&copy->copy.src, along);
    sub->start = expr_binary(arena, X_ADD, sub->start, at);
    sub->width = tile->shape[along] = width;
    copy->copy.dst = region_whole(arena, tile, copy->copy.dst.span);
}

static void halve(TileKernel *kernel, const Step *step)
{
    Arena *const arena = kernel->arena;
    TileOp *const op = step->pipeline;
    Var *const half = tile_new_var(kernel, VAR_INDEX, DTYPE_INT, "half", op->span);
    Expr *const width = int_const(arena, step->width / 2);
    Expr *const at = expr_binary(arena, X_MUL, expr_var(arena, half), width);
    for (TileOp *x = op->pipeline.body; x; x = x->next)
        if (x->kind == T_COPY) halve_tile(arena, step, x, at, width);
    for (TileOp *x = op->pipeline.body; x; x = x->next) {
        if (x->kind != T_MATMUL) continue;
        x->matmul.a.region = region_whole(arena, x->matmul.a.region.buffer, x->matmul.a.region.span);
        x->matmul.b.region = region_whole(arena, x->matmul.b.region.buffer, x->matmul.b.region.span);
    }
    LoopIndex *const indices = arena_alloc(arena, sizeof *indices * (size_t)(op->pipeline.n + 1));
    memcpy(indices, op->pipeline.indices, sizeof *indices * (size_t)op->pipeline.n);
    indices[op->pipeline.n++] = (LoopIndex){ half, int_const(arena, 0), int_const(arena, 2) };
    op->pipeline.indices = indices;
}

static void halve_in(TileKernel *kernel, TileOp *op)
{
    TileOp **body;
    Step step;
    for (; op; op = op->next) {
        while (op->kind == T_PIPELINE && is_too_large(op, &step, kernel->shared_bytes)) halve(kernel, &step);
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) halve_in(kernel, *body);
    }
}

void halve_steps(TileKernel *kernel)
{
    if (!kernel->checked && kernel->shared_bytes) halve_in(kernel, kernel->body);
}
