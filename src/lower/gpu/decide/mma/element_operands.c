// SPDX-License-Identifier: MIT
// element_operands.c - operands of mma.sync that ldmatrix cannot read: each lane reads its elements one by one.
//
// The contraction is not a multiple of an instruction's; the slice begins anywhere; the operand is converted on its way,
// is a view, or a slice of a tile with more dimensions; its rows are not whole pieces of 16 bytes. A read of a word takes
// two loads or more in place of a quarter of an ldmatrix, and still a product is ten times as fast as by a loop nest.
//
// before: products.c has found why instructions cannot read the operand
// after:  its tile is in shared memory, and what a lane reads is an expression of the line and the place along k
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

static TileInfo *root_tile(const Lowering *lo, const Operand *x)
{
    return tile_info(lo, buffer_root(x->region.buffer));
}

const char *check_elements(Lowering *lo, const Product *p, const Operand *x)
{
    const TileInfo *const tile = root_tile(lo, x);
    if (!tile || dtype_bits(tile->buffer->type) < 8) return "an operand is no tile of whole bytes";
    if (p->op->matmul.meta || p->op->matmul.promote) return "only plain products read single elements";
    return p->division == DIVIDE_CONTRACTION ? "the groups' parts of the contraction are read by instructions" : NULL;
}

// Neighbouring rows in different banks, where the tile can be laid out so.
static void share(Lowering *lo, const Operand *x)
{
    TileInfo *const tile = root_tile(lo, x);
    int64_t rows, columns;
    if (tile->storage == TILE_IN_REGISTERS) {
        tile->storage = TILE_IN_SHARED;
        tile->why = "an operand that is read element by element";
        tile->has_layout = false;
    }
    if (!tile->wants_panels && tile->buffer->rank == 2 && expr_as_int(tile->buffer->shape[0], &rows) &&
        expr_as_int(tile->buffer->shape[1], &columns))
        tile->wants_panels =
            tile_panels(tile, (int)rows, (int)columns, dtype_bits(tile->buffer->type) / 8, &tile->shared);
}

static Expr *is_below(Lowering *lo, Var *var, int extent)
{
    return expr_binary(lo->arena, X_LT, expr_var(lo->arena, var), int_const(lo->arena, extent));
}

// lines: of the operand; of whole instructions. is_left: a line is a row.
static void plan(Lowering *lo, const Product *p, const Operand *x, bool is_left, int lines, int covered,
                 ElementOperand *to)
{
    Arena *const a = lo->arena;
    const int whole = (p->k + p->step_k - 1) / p->step_k * p->step_k;
    Expr *subs[MAX_RANK];
    to->line = new_index(lo, is_left ? "row" : "column", int_const(a, covered), p->op->span).var;
    to->at = new_index(lo, "k", int_const(a, whole), p->op->span).var;
    Expr *const line = expr_var(a, to->line), *const at = expr_var(a, to->at);
    const bool transposed = is_left == x->transposed; // along the contraction first
    region_element(a, &x->region, (Expr *[]){ transposed ? at : line, transposed ? line : at }, subs);
    Expr *const element = expr_load(a, x->region.buffer, subs);
    element->span = x->region.span;
    const DType type = p->op->matmul.in_three ? DTYPE_F32 : x->type; // instructions get both halves of f32
    to->value = expr_convert(a, type, element);
    Expr *const zero = expr_convert(a, type, zero_of(lo, dtype_info[type].wide));
    if (lines < covered) to->value = expr_select(a, is_below(lo, to->line, lines), to->value, zero);
    if (p->k < whole) to->value = expr_select(a, is_below(lo, to->at, p->k), to->value, zero);
    share(lo, x);
}

void finish_elements(Lowering *lo, Product *p)
{
    const int row_groups = p->division == DIVIDE_ROWS ? lo->partition.groups : 1;
    const int column_groups = p->division == DIVIDE_COLUMNS ? lo->partition.groups : 1;
    const int rows = p->row_blocks * 16 * lo->partition.warps * row_groups;
    const int columns = p->n_group * column_groups + 8; // two eights are read at a time
    if (p->left_elements.why) plan(lo, p, &p->left, true, p->m, rows, &p->left_elements);
    if (p->right_elements.why) plan(lo, p, &p->right, false, p->n, columns, &p->right_elements);
}
