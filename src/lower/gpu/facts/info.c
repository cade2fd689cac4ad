// SPDX-License-Identifier: MIT
// info.c - what the passes note about operations and tiles, and the walk over operations by which they find them.
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/facts/factors.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/product.h"

#include <stdarg.h>

bool unsupported(Lowering *lo, Span span, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    common_unsupported(lo->kernel, span, format, list);
    va_end(list);
    lo->failed = true;
    return false;
}

void note(Lowering *lo, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *const text = arena_vprintf(lo->arena, format, list);
    va_end(list);
    VEC_PUSH(lo->arena, &lo->notes, text);
}

static unsigned hash_op(const TileOp *op) { return (unsigned)((uintptr_t)op >> 4) * 2654435761u; }

static void grow_infos(Lowering *lo)
{
    OpInfo **const old = lo->infos;
    const int n = lo->infos_capacity;
    lo->infos_capacity = n ? 2 * n : 256;
    lo->infos = NEW_ARRAY(lo->arena, OpInfo *, lo->infos_capacity);
    for (int i = 0; i < n; i++) {
        if (!old[i]) continue;
        unsigned at = hash_op(old[i]->op);
        while (lo->infos[at % (unsigned)lo->infos_capacity]) at++;
        lo->infos[at % (unsigned)lo->infos_capacity] = old[i];
    }
}

OpInfo *op_info(Lowering *lo, const TileOp *op)
{
    if (2 * lo->n_infos >= lo->infos_capacity) grow_infos(lo);
    unsigned at = hash_op(op);
    for (;; at++) {
        OpInfo *const info = lo->infos[at % (unsigned)lo->infos_capacity];
        if (!info) break;
        if (info->op == op) return info;
    }
    lo->n_infos++;
    return lo->infos[at % (unsigned)lo->infos_capacity] = NEW(lo->arena, OpInfo, .op = op);
}

// What was noted about it; nothing, where nobody did.
const OpInfo *info_of(const Lowering *lo, const TileOp *op)
{
    static const OpInfo nothing = { .op = NULL };
    for (unsigned at = hash_op(op); lo->infos_capacity; at++) {
        const OpInfo *const info = lo->infos[at % (unsigned)lo->infos_capacity];
        if (!info || info->op == op) return info ? info : &nothing;
    }
    return &nothing;
}

TileInfo *tile_info(const Lowering *lo, const Buffer *buffer)
{
    return buffer && buffer_is_tile(buffer) ? lo->tiles[buffer->id] : NULL;
}

bool is_wgmma(Lowering *lo, const TileOp *op)
{
    return op->kind == T_MATMUL && op_info(lo, op)->product->kind == PRODUCT_WGMMA;
}

bool is_within(const Lowering *lo, const TileOp *op, const TileOp *outer)
{
    for (; op && op != outer; op = info_of(lo, op)->parent) {
    }
    return op == outer;
}

void visit_op(Lowering *lo, TileOp *op, OpVisit *visit, void *context)
{
    if (visit(lo, op, context)) return;
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) each_op(lo, *body, visit, context);
}

void each_op(Lowering *lo, TileOp *block, OpVisit *visit, void *context)
{
    for (TileOp *op = block; op; op = op->next) visit_op(lo, op, visit, context);
}

bool op_has(Lowering *lo, TileOp *op, OpTest *test)
{
    if (test(lo, op)) return true;
    TileOp **body;
    for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++)
        if (block_has(lo, *body, test)) return true;
    return false;
}

bool block_has(Lowering *lo, TileOp *block, OpTest *test)
{
    for (TileOp *op = block; op; op = op->next)
        if (op_has(lo, op, test)) return true;
    return false;
}

static bool is_jump(Lowering *lo, TileOp *op)
{
    return op->kind == T_BREAK || op->kind == T_CONTINUE || op->kind == T_RETURN;
}

bool has_jumps(Lowering *lo, TileOp *block) { return block_has(lo, block, is_jump); }

typedef struct UseWalk {
    TileUseVisit *visit;
    void *context;
} UseWalk;

static bool visit_uses(Lowering *lo, TileOp *op, void *context)
{
    const UseWalk *const walk = context;
    tile_uses(op, walk->visit, walk->context);
    return false;
}

void each_use(Lowering *lo, TileOp *op, TileUseVisit *visit, void *context)
{
    visit_op(lo, op, visit_uses, &(UseWalk){ visit, context });
}

static void note_root_use(const TileUse *use, void *context)
{
    RootUses *const uses = context;
    if (buffer_root(use->buffer) == uses->root) {
        uses->reads |= use->reads;
        uses->writes |= use->writes || use->atomic;
    }
}

RootUses own_uses(TileOp *op, const Buffer *root)
{
    RootUses uses = { .root = root };
    tile_uses(op, note_root_use, &uses);
    return uses;
}

RootUses root_uses(Lowering *lo, TileOp *op, const Buffer *root)
{
    RootUses uses = { .root = root };
    each_use(lo, op, note_root_use, &uses);
    return uses;
}

// ---- first looks at the kernel

static void number_block(Lowering *lo, TileOp *block, TileOp *parent)
{
    for (TileOp *op = block; op; op = op->next) {
        OpInfo *const info = op_info(lo, op);
        info->block = block;
        info->parent = parent;
        info->order = lo->n_ops++;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) number_block(lo, *body, op);
    }
}

static bool collect_tile(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_TILE) return op->kind == T_FORALL;
    Buffer *const buffer = op->tile.buffer;
    if (buffer->kind != BUFFER_SHARED && buffer->kind != BUFFER_FRAGMENT) return false;
    TileInfo *const tile = NEW(lo->arena, TileInfo, .buffer = buffer, .declared = op);
    tile->storage = buffer->kind == BUFFER_SHARED ? TILE_IN_SHARED : TILE_IN_REGISTERS;
    lo->tiles[buffer->id] = tile;
    VEC_PUSH(lo->arena, &lo->declared, tile);
    lo->n_declared = lo->declared.count;
    return false;
}

// A tile that a pass has declared: numbers and blocks are noted anew.
void note_insertion(Lowering *lo, TileOp *declared)
{
    TileInfo **const old = lo->tiles;
    lo->tiles = NEW_ARRAY(lo->arena, TileInfo *, lo->kernel->n_buffers + 1);
    for (int i = 0; i < lo->n_declared; i++)
        lo->tiles[lo->declared.items[i]->buffer->id] = old[lo->declared.items[i]->buffer->id];
    collect_tile(lo, declared, NULL);
    lo->n_ops = 0;
    number_block(lo, lo->kernel->body, NULL);
}

// before: nothing is noted       after: every operation has its number, block and parent, every tile its TileInfo
void note_operations(Lowering *lo)
{
    lo->tiles = NEW_ARRAY(lo->arena, TileInfo *, lo->kernel->n_buffers + 1);
    each_op(lo, lo->kernel->body, collect_tile, NULL);
    number_block(lo, lo->kernel->body, NULL);
}

bool is_flow(const TileOp *op)
{
    return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE || op->kind == T_IF;
}

// An extent that divides another without rest, N/128 of N, is that one, and the divisor is the other side's.
static bool add_extent(Factors *to, Factors *other, const Expr *x)
{
    int64_t by;
    const Range range = expr_range(x); // a symbol that is required to be a number
    if (range.has_lo && range.has_hi && range.lo == range.hi) return range.lo > 0 && (to->constant *= range.lo, true);
    const bool divides = x->kind == E_BINARY && x->op.op == X_DIV && expr_as_int(x->op.b, &by) && by > 0 &&
                         expr_multiple(x->op.a) % by == 0;
    return divides ? add_factors(other, x->op.b) && add_factors(to, x->op.a) : add_factors(to, x);
}

// As many as its base: of rows of 7 a view of rows of 3 x 2 leaves one out, and does not go on in the next row by itself.
bool has_all_elements(const Buffer *view)
{
    Factors all = { .constant = 1 }, base = { .constant = 1 };
    for (int d = 0; d < view->rank; d++)
        if (!add_extent(&all, &base, view->shape[d])) return false;
    for (int d = 0; d < view->base.buffer->rank; d++)
        if (!add_extent(&base, &all, view->base.buffer->shape[d])) return false;
    return are_same_factors(all, &base);
}

bool is_flat_tensor(const Buffer *view)
{
    const Buffer *const tensor = view->base.buffer;
    return view->kind == BUFFER_VIEW && view->rank > 0 && tensor->kind == BUFFER_TENSOR && tensor->rank > 0 &&
           !tensor->strided && !tensor->stride[0] && view->type == tensor->type && region_is_whole(&view->base) &&
           (expr_equal(view->shape[view->rank - 1], tensor->shape[tensor->rank - 1]) ||
            (dtype_bits(view->type) >= 8 && has_all_elements(view)));
}

bool merges_rows(const Buffer *view)
{
    const Region *const base = &view->base;
    if (view->kind != BUFFER_VIEW || base->buffer->kind != BUFFER_TENSOR || !base->buffer->stride[0]) return false;
    const ViewPairs pairs = common_pair_view(view);
    return view->type == base->buffer->type && pairs.back > 0 && pairs.front + pairs.back < region_rank(base) &&
           region_is_whole(base);
}

bool recasts_rows(const Buffer *view)
{
    const Buffer *const tensor = view->base.buffer;
    if (view->kind != BUFFER_VIEW || tensor->kind != BUFFER_TENSOR || tensor->strided || tensor->stride[0] ||
        tensor->unaligned || view->type == tensor->type || dtype_bits(view->type) < 8 ||
        dtype_bits(view->type) < dtype_bits(tensor->type) || !region_is_whole(&view->base))
        return false;
    const ViewPairs pairs = common_pair_view(view);
    return view->rank == tensor->rank && pairs.back > 0 && pairs.front + pairs.back == view->rank;
}

// ---- places in the source

// Of a file that is imported: with its name.
const char *line_of(Lowering *lo, const TileOp *op)
{
    const Source *const source = op->span.source;
    if (!source) return "?";
    const int line = source_position(source, op->span.begin).line;
    if (lo->kernel->n_params == 0 || source == lo->kernel->params[0].span.source)
        return arena_printf(lo->arena, "%d", line);
    const char *const slash = strrchr(source->path, '/');
    return arena_printf(lo->arena, "%s:%d", slash ? slash + 1 : source->path, line);
}
