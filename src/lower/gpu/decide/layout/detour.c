// SPDX-License-Identifier: MIT
// detour.c - products whose result cannot stay where tensor cores leave it get a fragment of their own for it.
//
// A fragment that is viewed in another shape, or that a forall uses under subscripts that its registers do not follow
// (columns 32 + j, rows i and i + 64 at once), lives in shared memory, or its product would. The product is
// computed into a fragment that nothing else uses, and that is copied, or added, to the result: one pass over the tile
// for each product, where a loop nest takes one for each element of the contraction.
//
// before: storage is assigned, and a product is a loop nest because of its result
// after:  the kernel of Tile IR is another one, for which all is decided anew; a product is changed once
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/values.h"

enum { LEAST_PRODUCTS = 2048, MOST_REGISTERS = 128 }; // for which it pays; of a thread

static bool is_worthwhile(Lowering *lo, const Product *p)
{
    const TileOp *const op = p->op;
    const TileInfo *const result = tile_info(lo, op->matmul.dst.buffer);
    const bool is_elsewhere = !result || result->storage != TILE_IN_REGISTERS || p->fell_back;
    return p->kind == PRODUCT_LOOP && is_elsewhere && !op->matmul.is_apart &&
           op->matmul.dst.buffer->hint == HINT_NONE && (int64_t)p->m * p->n * p->k >= LEAST_PRODUCTS &&
           p->m * p->n <= MOST_REGISTERS * consumer_threads(lo);
}

// An op like the product, as far as where it stands goes.
static TileOp *beside(const Lowering *lo, const TileOp *op, TileKind kind)
{
    return NEW(lo->arena, TileOp, .kind = kind, .span = op->span, .groups = op->groups, .stage = op->stage);
}

static Buffer *new_fragment(const Lowering *lo, const TileOp *op)
{
    const Region *const dst = &op->matmul.dst;
    Buffer *const tile =
        tile_new_buffer(lo->kernel, BUFFER_FRAGMENT, dst->buffer->type, dst->buffer->name, 2, dst->buffer->span);
    for (int d = 0; d < 2; d++) tile->shape[d] = region_extent(dst, d);
    return tile;
}

static TileOp *copy_to(const Lowering *lo, const TileOp *op, const Region *dst, const Region *src)
{
    TileOp *const copy = beside(lo, op, T_COPY);
    copy->copy.dst = *dst;
    copy->copy.src = *src;
    return copy;
}

static TileOp *add_to(Lowering *lo, const TileOp *op, const Region *dst, Buffer *src)
{
    Arena *const a = lo->arena;
    TileOp *const all = beside(lo, op, T_FORALL), *const one = beside(lo, op, T_UPDATE);
    Expr **const to = NEW_ARRAY(a, Expr *, MAX_RANK), **const along = NEW_ARRAY(a, Expr *, MAX_RANK);
    all->forall.n = 2;
    all->forall.indices = NEW_ARRAY(a, LoopIndex, 2);
    for (int d = 0; d < 2; d++) {
        all->forall.indices[d] = new_index(lo, d ? "j" : "i", src->shape[d], op->span);
        along[d] = expr_var(a, all->forall.indices[d].var);
    }
    region_element(a, dst, along, to);
    one->update.buffer = dst->buffer;
    one->update.subs = to;
    one->update.op = UPDATE_ADD;
    one->update.value = expr_load(a, src, along);
    all->forall.body = one;
    return all;
}

// Declaration, product, and what brings its result to where it was to go; returns the last.
static TileOp *change(Lowering *lo, TileOp **link)
{
    TileOp *const op = *link, *const declaration = beside(lo, op, T_TILE);
    Buffer *const tile = declaration->tile.buffer = new_fragment(lo, op);
    const Region dst = op->matmul.dst, src = region_whole(lo->arena, tile, op->span);
    TileOp *const last = op->matmul.accumulate ? add_to(lo, op, &dst, tile) : copy_to(lo, op, &dst, &src);
    last->next = op->next;
    op->matmul.dst = src;
    op->matmul.accumulate = false;
    op->matmul.is_apart = true;
    op->next = last;
    declaration->next = op;
    *link = declaration;
    return last;
}

static bool change_block(Lowering *lo, TileOp **link)
{
    bool any = false;
    for (TileOp *op; (op = *link) != NULL; link = &op->next) {
        TileOp **body;
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++) any |= change_block(lo, body);
        if (op->kind != T_MATMUL || !is_worthwhile(lo, op_info(lo, op)->product)) continue;
        op = change(lo, link);
        any = true;
    }
    return any;
}

bool give_products_fragments(Lowering *lo)
{
    return !lo->kernel->checked && !lo->failed && change_block(lo, &lo->kernel->body);
}
