// SPDX-License-Identifier: MIT
// partial.c - sums and extremes that only the end of a loop needs whole.
//
// sum[i] *= fix[i]; sum[i] += s[i][j] inside a loop is linear in sum: each thread may carry the sum of its own columns,
// and the lanes and warps of a row combine once after the loop instead of once per step. So it is with row_max[i] max=
// x[i][j] and min=, where nothing else changes row_max.
//
// layout(c) = partial divides the contraction of c += a @ b among the warp groups: each adds up its part in a copy of
// c, and the copies are added up after the loop, too; elsewhere after the product.
#include "lower/cuda/cuda.h"

typedef struct Linear {
    Lowering *lo;
    TileInfo *tile;
    bool sums, scales, other;
    UpdateOp with;
    TileOp *op;
    Iteration it;
    bool in_map;
} Linear;

// Every thread has iterations of its own: none repeats what another sums.
static bool threads_share(const Iteration *it)
{
    for (int i = 0; i < it->layout.n; i++)
        if (it->layout.mode[i].dim == REPLICATED) return false;
    return it->layout.n > 0 && !it->is_linear;
}

static void check_use(const TileUse *use, void *context)
{
    Linear *const linear = context;
    if (buffer_root(use->buffer) != linear->tile->buffer) return;
    const TileOp *const op = linear->op;
    const bool is_target = op->kind == T_UPDATE && op->update.buffer == linear->tile->buffer && use->writes;
    if (is_split_k(linear->lo, op) && op->matmul.dst.buffer == use->buffer && op->matmul.accumulate) {
        linear->other |= !use->writes || (linear->sums && linear->with != UPDATE_ADD);
        linear->sums = true;
        linear->with = UPDATE_ADD;
        return;
    }
    const UpdateOp with = op->update.op;
    if (is_target && op->update.reduces && (with == UPDATE_ADD || with == UPDATE_MAX || with == UPDATE_MIN) &&
        threads_share(&linear->it)) {
        linear->other |= linear->sums && linear->with != with;
        linear->sums = true;
        linear->with = with;
    } else if (is_target && !op->update.reduces && with == UPDATE_MUL) {
        linear->scales = true;
    } else {
        linear->other = true;
    }
}

static bool loads_buffer(const Expr *x, void *context)
{
    const Buffer *const buffer = context;
    return x->kind == E_LOAD && x->load.buffer == buffer;
}

static bool check_op(Lowering *lo, TileOp *op, void *context)
{
    Linear *const linear = context;
    if (op->kind == T_TILE) linear->other |= op->tile.buffer == linear->tile->buffer;
    linear->op = op;
    if (op->kind == T_FORALL) choose_iteration(lo, op, &linear->it);
    if (op_info(lo, op)->fetched) return true;
    tile_uses(op, check_use, linear);
    if (op->kind == T_UPDATE && expr_any(op->update.value, loads_buffer, (void *)linear->tile->buffer))
        linear->other = true;
    return false;
}

// Several threads hold the same element.
static bool is_replicated(const Layout *layout)
{
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].dim == REPLICATED) return true;
    return false;
}

static bool is_linear_in(Lowering *lo, TileOp *loop, TileInfo *tile)
{
    Linear linear = { .lo = lo, .tile = tile };
    if (lo->kernel->checked) return false;
    if (tile->storage != TILE_IN_REGISTERS || tile->is_partial || !is_replicated(&tile->layout) ||
        !dtype_is_float(tile->buffer->type) || dtype_bits(tile->buffer->type) < 32)
        return false;
    TileOp **body;
    for (int i = 0; (body = tile_bodies(loop, i)) != NULL; i++) each_op(lo, *body, check_op, &linear);
    tile->partial_with = linear.with;
    return linear.sums && !linear.other && !(linear.scales && linear.with != UPDATE_ADD);
}

static void each_register(Lowering *lo, TileInfo *tile, void (*body)(Lowering *, TileInfo *, Expr *))
{
    Nest nest;
    Var *const r = begin_unrolled(lo, &nest, "r", layout_registers(&tile->layout));
    body(lo, tile, var_of(lo, r));
    end_nest(lo, &nest);
}

static void store_register(Lowering *lo, TileInfo *tile, Expr *at, Expr *value)
{
    emit_element(lo, tile->registers, at, value);
}

static void keep_first(Lowering *lo, TileInfo *tile, Expr *at)
{
    Expr *const value = expr_index(lo->arena, tile->registers, at);
    store_register(
        lo, tile, at,
        expr_select(lo->arena, replica_is_first(lo, &tile->layout), value, expr_float(lo->arena, value->type, 0)));
}

bool is_split_k(Lowering *lo, const TileOp *op)
{
    if (op->kind != T_MATMUL) return false;
    const Product *const p = op_info(lo, op)->product;
    return p && p->division == DIVIDE_CONTRACTION && (p->kind == PRODUCT_WGMMA || p->kind == PRODUCT_MMA);
}

void begin_split_k(Lowering *lo, TileInfo *tile) { each_register(lo, tile, keep_first); }

int split_k_bytes(const Lowering *lo, const TileInfo *tile)
{
    return layout_registers(&tile->layout) * lo->partition.groups * 32 * lo->partition.warps * 4;
}

// Where this thread's register r of the part of `group` is: neighbouring lanes in neighbouring words.
static Expr *part_at(Lowering *lo, Expr *r, Expr *group)
{
    const int threads = 32 * lo->partition.warps;
    Expr *const mine = i32_add(lo, i32_mul(lo, var_of(lo, lo->warp), 32), var_of(lo, lo->lane));
    return i32_add(lo, i32_mul(lo, i32_add(lo, i32_mul(lo, r, lo->partition.groups), group), threads), mine);
}

// All groups add the parts in one order, so that their copies have the same bits.
void reduce_split_k(Lowering *lo, TileInfo *tile)
{
    Nest block, nest;
    begin_block(lo, &block);
    Var *const scratch = loop_new_pointer(lo->unit, DTYPE_F32, "parts");
    emit_definition(lo, scratch,
                    call_expr(lo, DTYPE_F32, "shared_pointer<float>", 1, i32_const(lo, lo->scratch_offset)));
    emit_barrier(lo); // earlier readers of the scratch
    for (int write = 1; write >= 0; write--) {
        Var *const r = begin_unrolled(lo, &nest, "r", layout_registers(&tile->layout));
        if (write) {
            emit_element(lo, scratch, part_at(lo, var_of(lo, r), var_of(lo, lo->group)),
                         expr_index(lo->arena, tile->registers, var_of(lo, r)));
        } else {
            Expr *sum = expr_index(lo->arena, scratch, part_at(lo, var_of(lo, r), i32_const(lo, 0)));
            for (int g = 1; g < lo->partition.groups; g++)
                sum = expr_binary(lo->arena, X_ADD, sum,
                                  expr_index(lo->arena, scratch, part_at(lo, var_of(lo, r), i32_const(lo, g))));
            store_register(lo, tile, var_of(lo, r), sum);
        }
        end_nest(lo, &nest);
        if (write) emit_barrier(lo);
    }
    end_nest(lo, &block);
}

void begin_partial_sums(Lowering *lo, TileOp *loop)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const bool of_another_group = lo->is_specialised && tile->groups && !(tile->groups >> lo->walk & 1);
        if (of_another_group || !is_linear_in(lo, loop, tile)) continue;
        if (tile->partial_with == UPDATE_ADD) each_register(lo, tile, keep_first);
        tile->is_partial = true;
        tile->partial_in = loop;
    }
}

void end_partial_sums(Lowering *lo, TileOp *loop)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        if (!tile->is_partial || tile->partial_in != loop) continue;
        tile->is_partial = false;
        if (tile->is_split_k) reduce_split_k(lo, tile);
        else join_partial_sums(lo, tile);
    }
}
