// SPDX-License-Identifier: MIT
// products.c - how every `@` is computed.
//
// On Hopper a product of 16- or 8-bit elements (or tf32) over whole warp groups is wgmma: B from shared memory, A from
// shared memory or from the registers of a fragment that has the accumulator's rows. Elsewhere, in CTAs of one or
// two warps, and where the contraction runs across rows of bytes, it is mma.sync. An operand may be a slice, also at a
// place known at run time: wgmma reads it where the swizzle's pattern begins anew, ldmatrix and mma.sync elsewhere.
// With a sparse left operand both have twice the contraction (sparse.c). What neither takes (f32 operands, odd
// contractions) is multiply-adds, of a rectangle in the registers of each thread (fma.c); what does not fit there
// either is a loop nest. The groups divide the rows where there are 64 for each, else the columns.
//
// before: the partition is known, and which tiles must be in shared memory
// after:  every product has a kind; the result and an operand in registers have layouts, shared operands are read as
//         panels
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/decide/iteration/hints.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

bool product_is_fixed(const Product *p)
{
    int64_t start[2], width[2];
    return product_region(&p->left.region, start, width) && product_region(&p->right.region, start, width);
}

// Two ranges of static widths, wherever they begin.
static bool has_two_ranges(const Region *region, const Sub **ranges)
{
    int64_t width;
    int n = 0;
    for (int d = 0; d < region->buffer->rank; d++) {
        const Sub *const sub = &region->subs[d];
        if (!sub->is_range || n == 2 || sub->step || !expr_as_int(sub->width, &width)) return false;
        ranges[n++] = sub;
    }
    return n == 2;
}

// A start that is only known at run time may not leave the panel in which the slice begins.
static bool stays_in_panel(const Sub *columns, const SharedLayout *layout)
{
    int64_t start, width;
    if (expr_as_int(columns->start, &start) || layout->columns == layout->panel_columns) return true;
    const int64_t multiple = expr_multiple(columns->start);
    expr_as_int(columns->width, &width);
    return multiple % layout->panel_columns == 0 || (layout->panel_columns % width == 0 && multiple % width == 0);
}

// The tile that an operand reads; NULL if it is a tensor or a view.
static TileInfo *operand_tile(const Lowering *lo, const Operand *operand)
{
    return tile_info(lo, operand->region.buffer);
}

// tf32 is stored as f32, and instructions drop the bits that it has not.
static bool is_tf32_of_f32(DType type, DType stored) { return type == DTYPE_TF32 && stored == DTYPE_F32; }

// *anywhere: it begins where wgmma cannot.
static const char *check_shared_operand(const Lowering *lo, const Operand *x, bool contraction_is_last, bool *anywhere)
{
    const TileInfo *const tile = operand_tile(lo, x);
    if (!tile || tile->buffer->rank != 2) return "an operand is no tile of its own";
    const bool is_converted = x->type != tile->buffer->type && !is_tf32_of_f32(x->type, tile->buffer->type);
    if (tile->buffer->kind == BUFFER_SHARED && is_converted) return "an operand in shared memory is converted";
    if (is_converted) return "an operand that must go through shared memory is converted";
    const Sub *ranges[2];
    if (!has_two_ranges(&x->region, ranges)) return "an operand's slice is no two ranges";
    if (!contraction_is_last && dtype_bits(x->type) > 16)
        return "only 16-bit operands and bytes can be read with the contraction across rows";
    SharedLayout layout;
    int64_t rows, columns;
    if (!expr_as_int(tile->buffer->shape[0], &rows) || !expr_as_int(tile->buffer->shape[1], &columns) ||
        !tile_panels(tile, (int)rows, (int)columns, dtype_bits(x->type) / 8, &layout))
        return tile->buffer->hint == HINT_NONE
                   ? "the rows of an operand are not a multiple of 32 bytes"
                   : "the layout of an operand puts its rows where tensor cores cannot read them";
    const int64_t piece = contraction_is_last ? 32 / layout.element_bytes : layout.panel_columns;
    const int64_t column = expr_multiple(ranges[1]->start);
    if (column % (16 / layout.element_bytes) != 0)
        return "an operand's slice does not begin where an instruction can begin";
    // wgmma reads whole pieces of the swizzle; ldmatrix, row by row, begins anywhere.
    *anywhere |= expr_multiple(ranges[0]->start) % (contraction_is_last ? 8 : 16) != 0 || column % piece != 0 ||
                 !stays_in_panel(ranges[1], &layout);
    return NULL;
}

// Elements of the contraction in one instruction; 0: there is none for the type.
static int operand_step(const Lowering *lo, DType type)
{
    const MmaShape *const mma = gpu_mma(lo->gpu, MMA_WARP);
    return mma ? mma_step(mma, type) : 0;
}

// Padded rows are read by ldmatrix alone.
bool has_padded_rows(const Product *p)
{
    return row_padding(p->right.region.buffer) || (!p->a_in_registers && row_padding(p->left.region.buffer));
}

// A call anywhere in a kernel makes ptxas wait for each wgmma (C7510): beside printf mma.sync is the faster one.
static bool uses_wgmma(const Lowering *lo, const Product *p)
{
    return gpu_mma(lo->gpu, MMA_WARP_GROUP) && lo->partition.warps == 4 && !lo->calls_printf && !p->anywhere &&
           !reads_elements(p) && !p->op->matmul.in_three && !p->odd_rows && !p->odd_columns && !has_padded_rows(p);
}

// What no instruction reads, lanes may read element by element.
static const char *check_operand(Lowering *lo, Product *product, const Operand *x, bool is_left)
{
    ElementOperand *const elements = is_left ? &product->left_elements : &product->right_elements;
    const bool is_last = is_left ? !x->transposed : x->transposed;
    elements->why = product->k % product->step_k != 0 ? "the contraction is not a multiple of an instruction's"
                                                      : check_shared_operand(lo, x, is_last, &product->anywhere);
    return elements->why ? check_elements(lo, product, x) : NULL;
}

// Registers of a fragment that the product lays out itself; of bytes a warp group's instruction alone reads them.
static bool is_left_in_registers(Lowering *lo, const Product *p)
{
    const Operand *const a = &p->left;
    const bool may_be = dtype_bits(a->type) == 16 || (a->type == DTYPE_I8 && !p->op->matmul.meta);
    const TileInfo *const tile = operand_tile(lo, a);
    return tile && tile->buffer->rank == 2 && tile->buffer->kind == BUFFER_FRAGMENT &&
           tile->storage == TILE_IN_REGISTERS && !a->transposed && region_is_whole(&a->region) && may_be &&
           p->division == DIVIDE_ROWS && p->k % p->step_k == 0;
}

static const char *check_operands(Lowering *lo, Product *product)
{
    TileOp *const op = product->op;
    const Operand *const a = &product->left, *const b = &product->right;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    if (!acc || acc->buffer->kind != BUFFER_FRAGMENT || !region_is_whole(&op->matmul.dst) || acc->buffer->rank != 2)
        return "the result is no whole fragment";
    if (acc->storage != TILE_IN_REGISTERS) return "its result lives in shared memory";
    if (a->type != b->type || !operand_step(lo, a->type)) return "no tensor-core instruction for these types";
    if (dtype_is_float(a->type) != dtype_is_float(acc->buffer->type) || dtype_bits(acc->buffer->type) != 32)
        return "no tensor-core instruction accumulates in this type";
    product->anywhere = false;
    product->type = a->type;
    product->step_k = operand_step(lo, a->type);
    product->a_in_registers = is_left_in_registers(lo, product);
    product->left_elements.why = product->right_elements.why = NULL;
    const char *why = product->a_in_registers ? NULL : check_operand(lo, product, a, true);
    if (!why) why = check_operand(lo, product, b, false);
    product->odd_rows = a->transposed && dtype_bits(a->type) == 8 && !product->left_elements.why;
    product->odd_columns = !b->transposed && dtype_bits(b->type) == 8 && !product->right_elements.why;
    if (product->a_in_registers && dtype_bits(a->type) == 8 && !uses_wgmma(lo, product)) {
        product->a_in_registers = false;
        if (!why) why = check_operand(lo, product, a, true);
    }
    return why || !op->matmul.meta ? why : check_sparse(lo, product, uses_wgmma(lo, product));
}

// Rows or columns for the groups; sets what one group does.
static const char *divide(Lowering *lo, Product *product, LayoutHint hint)
{
    const int groups = lo->partition.groups, step = 16 * lo->partition.warps;
    const bool can_columns = product->n % (8 * groups) == 0, in_split_k = groups > 1 && hint == HINT_PARTIAL;
    product->division = DIVIDE_ROWS;
    if (groups > 1 && hint == HINT_COLUMNS && !can_columns) return "the groups cannot have multiples of 8 columns each";
    const bool by_columns = hint == HINT_COLUMNS || (hint != HINT_ROWS && product->m <= step * (groups - 1));
    if (in_split_k) product->division = DIVIDE_CONTRACTION;
    else if (groups > 1 && by_columns && can_columns) product->division = DIVIDE_COLUMNS;
    const int row_groups = product->division == DIVIDE_ROWS ? groups : 1;
    const int column_groups = product->division == DIVIDE_COLUMNS ? groups : 1;
    product->row_blocks = (product->m + step * row_groups - 1) / (step * row_groups);
    product->n_group = (product->n + 8 * column_groups - 1) / (8 * column_groups) * 8;
    return NULL;
}

static int panel_columns(const Lowering *lo, const Operand *x)
{
    const TileInfo *const tile = operand_tile(lo, x);
    SharedLayout layout = { .panel_columns = 64 };
    int64_t rows, columns;
    if (expr_as_int(tile->buffer->shape[0], &rows) && expr_as_int(tile->buffer->shape[1], &columns))
        tile_panels(tile, (int)rows, (int)columns, dtype_bits(x->type) / 8, &layout);
    return layout.panel_columns;
}

// The groups' parts of the contraction: whole instructions, as far apart in both operands whatever the step.
static const char *check_split_k(const Lowering *lo, const Product *product)
{
    const int part = product->k / lo->partition.groups;
    if (reads_elements(product) || !product_is_fixed(product)) return "an operand's slice is not at a fixed place";
    if (lo->is_specialised) return "statements are placed on groups";
    if (product->op->matmul.meta || product->op->matmul.promote ||
        !dtype_is_float(tile_info(lo, product->op->matmul.dst.buffer)->buffer->type))
        return "only plain sums of f32 are in parts";
    if (part * lo->partition.groups != product->k || part % product->step_k != 0)
        return "the contraction is not a multiple of an instruction's for each group";
    const Operand *const along[2] = { product->left.transposed ? NULL : &product->left,
                                      product->right.transposed ? &product->right : NULL };
    for (int i = 0; i < 2; i++) {
        int64_t start[2] = { 0 }, width[2];
        if (!along[i] || !product_region(&along[i]->region, start, width)) continue;
        const int columns = panel_columns(lo, along[i]);
        if (part % columns != 0 && start[1] % columns + product->k > columns)
            return "the groups' parts of the contraction do not begin at panels";
    }
    return NULL;
}

// The widest panels of the right operand at which the groups' columns begin, if they divide them.
static int group_panels(const Lowering *lo, const Product *product)
{
    const int columns = panel_columns(lo, &product->right), of_group = product->n_group & -product->n_group;
    return product->n > columns && of_group < columns ? of_group : columns;
}

// Padding is read by instructions: it must lie within the tile as it is laid out.
static const char *check_right_padding(const Lowering *lo, const Product *product)
{
    const Operand *const b = &product->right;
    const int column_groups = product->division == DIVIDE_COLUMNS ? lo->partition.groups : 1;
    if (b->transposed || product->right_elements.why) return NULL;
    if (product->n % 8 != 0) return "the columns of the right operand are not a multiple of 8";
    if (product->odd_columns && (product->n_group % 16 != 0 || product->n != product->n_group * column_groups))
        return "the columns of a right operand of bytes are not a multiple of 16";
    const int panels = group_panels(lo, product);
    const bool is_fixed = operand_tile(lo, b)->buffer->hint == HINT_SWIZZLE && panels < panel_columns(lo, b);
    if (column_groups > 1 && (is_fixed || panels * dtype_bits(b->type) / 8 < 32))
        return "the groups' columns do not begin at panels of the right operand";
    return NULL;
}

static const char *check_left_padding(const Lowering *lo, const Product *product)
{
    const Operand *const a = &product->left;
    const int row_groups = product->division == DIVIDE_ROWS ? lo->partition.groups : 1;
    const int rows = product->row_blocks * 16 * lo->partition.warps * row_groups;
    if (product->left_elements.why) return NULL;
    if (a->transposed && product->m != rows) return "a transposed left operand needs whole instructions of rows";
    if (!product->a_in_registers && !a->transposed && product->m != rows && !region_is_whole(&a->region))
        return "a slice as left operand needs whole instructions of rows";
    return NULL;
}

static const char *check_padding(Lowering *lo, Product *product)
{
    const char *const right = check_right_padding(lo, product), *const left = check_left_padding(lo, product);
    if (right && check_elements(lo, product, &product->right)) return right;
    if (left && check_elements(lo, product, &product->left)) return left;
    if (right) product->right_elements.why = right;
    if (left) product->left_elements.why = left;
    product->odd_columns &= !right;
    product->odd_rows &= !left;
    return NULL;
}

static void require_panels(Lowering *lo, const Operand *x, int rows)
{
    TileInfo *const tile = operand_tile(lo, x);
    int64_t extent[2];
    expr_as_int(tile->buffer->shape[0], &extent[0]);
    expr_as_int(tile->buffer->shape[1], &extent[1]);
    if (tile->storage == TILE_IN_REGISTERS) {
        tile->storage = TILE_IN_SHARED;
        tile->why = "an operand that instructions read from shared memory";
    }
    tile->wants_panels = tile->is_async = true;
    if (rows > extent[0]) extent[0] = rows;
    if (tile->shared.rows > extent[0]) extent[0] = tile->shared.rows;
    tile_panels(tile, (int)extent[0], (int)extent[1], dtype_bits(x->type) / 8, &tile->shared);
}

// ldmatrix brings 16 columns at a time: where the last are 8, it reads 8 rows more of a right operand that lies along
// k.
static int right_rows(const Lowering *lo, const Product *product)
{
    int64_t start[2] = { 0 }, width[2];
    if (product->kind != PRODUCT_MMA || !product->right.transposed) return 0;
    if (!product_region(&product->right.region, start, width) && // the last place that it can begin at
        expr_as_int(product->right.region.buffer->shape[0], &start[0]))
        start[0] -= product->n;
    const int column_groups = product->division == DIVIDE_COLUMNS ? lo->partition.groups : 1;
    return (int)start[0] + product->n_group * (column_groups - 1) + (product->n_group + 15) / 16 * 16;
}

static const char *other_layout(Lowering *lo, const Product *product)
{
    const TileInfo *const result = tile_info(lo, product->op->matmul.dst.buffer);
    return arena_printf(lo->arena, "line %s gives its result another layout",
                        result->laid_by ? line_of(lo, result->laid_by) : "?");
}

static void finish_product(Lowering *lo, Product *product)
{
    TileOp *const op = product->op;
    TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    Layout layout = layout_accumulator_bytes(product->m, product->n, lo->partition, product->division,
                                             product->odd_rows, product->odd_columns);
    const int most = product_mma(lo, product)->n_max;
    product->n_piece = product->n_group < most ? product->n_group : most;
    if (product->is_swapped) layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    if (acc->has_layout && !layout_equal(&acc->layout, &layout)) {
        product->why_loop = other_layout(lo, product);
        return;
    }
    acc->layout = layout;
    acc->has_layout = acc->is_accumulator = true;
    acc->laid_by = product->op;
    acc->is_split_k = product->division == DIVIDE_CONTRACTION;
    if (!product->a_in_registers && !product->left_elements.why) {
        const int row_groups = product->division == DIVIDE_ROWS ? lo->partition.groups : 1;
        require_panels(lo, &product->left,
                       product->left.transposed ? 0 : product->row_blocks * 16 * lo->partition.warps * row_groups);
        product->left_load = plan_operand_load(lo, &product->left, true);
    }
    if (product->division == DIVIDE_COLUMNS && !product->right.transposed && !product->right_elements.why)
        operand_tile(lo, &product->right)->panel_most = group_panels(lo, product);
    if (!product->right_elements.why) {
        require_panels(lo, &product->right, right_rows(lo, product));
        product->right_load = plan_operand_load(lo, &product->right, false);
    }
    finish_elements(lo, product);
    if (op->matmul.meta) finish_sparse(lo, product);
}

// The general form: [dst = 0;] forall (i, j, x) dst[i][j] += a[i][x] * b[x][j]
static Expr *operand_element(Lowering *lo, const Operand *x, Expr *row, Expr *column, DType wide)
{
    Expr *subs[MAX_RANK], *along[2] = { x->transposed ? column : row, x->transposed ? row : column };
    region_element(lo->arena, &x->region, along, subs);
    Expr *const element = expr_load(lo->arena, x->region.buffer, subs);
    element->span = x->region.span;
    return expr_convert(lo->arena, wide, expr_convert(lo->arena, x->type, element));
}

// The row of b that element x of row i of a sparse a meets: meta holds its place among four, in two bits.
static Expr *row_met(Lowering *lo, const TileOp *op, Expr *i, Expr *x)
{
    Arena *const a = lo->arena;
    Buffer *const meta = op->matmul.meta;
    if (!meta) return x;
    Expr *const per = int_const(a, dtype_bits(meta->type) / 2), *const two = int_const(a, 2);
    Expr *const word = expr_convert(a, DTYPE_INT, expr_load(a, meta, (Expr *[]){ i, expr_binary(a, X_DIV, x, per) }));
    Expr *const place = expr_binary(a, X_SHR, word, int_mul(a, expr_binary(a, X_MOD, x, per), two));
    return int_add(a, int_mul(a, expr_binary(a, X_DIV, x, two), int_const(a, 4)),
                   expr_binary(a, X_BITAND, place, int_const(a, 3)));
}

TileOp *product_as_loops(Lowering *lo, TileOp *op)
{
    OpInfo *const info = op_info(lo, op);
    if (info->map) return info->map;
    Arena *const a = lo->arena;
    const Product *const product = info->product;
    const Region *const dst = &op->matmul.dst;
    const DType wide = dtype_info[dst->buffer->type].wide;
    LoopIndex *const indices = NEW_ARRAY(a, LoopIndex, 3);
    const int extents[3] = { product->is_swapped ? product->n : product->m,
                             product->is_swapped ? product->m : product->n, product->k };
    static const char *const names[3] = { "i", "j", "x" };
    Expr *at[3], **const subs = NEW_ARRAY(a, Expr *, MAX_RANK);
    for (int i = 0; i < 3; i++) {
        indices[i] = new_index(lo, names[i], int_const(a, extents[i]), op->span);
        at[i] = expr_var(a, indices[i].var);
    }
    region_element(a, dst, at, subs);
    TileOp *const update = NEW(a, TileOp, .kind = T_UPDATE, .span = op->span);
    update->update.buffer = dst->buffer;
    update->update.subs = subs;
    update->update.op = UPDATE_ADD;
    update->update.reduces = true;
    update->update.value = expr_binary(a, X_MUL, operand_element(lo, &op->matmul.a, at[0], at[2], wide),
                                       operand_element(lo, &op->matmul.b, row_met(lo, op, at[0], at[2]), at[1], wide));
    TileOp *const map = NEW(a, TileOp, .kind = T_FORALL, .span = op->span);
    map->forall.indices = indices;
    map->forall.n = 3;
    map->forall.body = update;
    map->groups = op->groups;
    TileOp *first = map;
    if (!op->matmul.accumulate) {
        first = NEW(a, TileOp, .kind = T_FILL, .span = op->span, .next = map, .groups = op->groups);
        first->fill.dst = *dst;
        first->fill.value = zero_of(lo, wide);
    }
    return info->map = first;
}

// A loop nest reads every element of its operands from every thread.
static void share_operands(Lowering *lo, const Product *product)
{
    const Operand *const operands[2] = { &product->op->matmul.a, &product->op->matmul.b };
    for (int i = 0; i < 2; i++) {
        TileInfo *const tile = operand_tile(lo, operands[i]);
        if (tile && tile->storage == TILE_IN_REGISTERS) {
            tile->storage = TILE_IN_SHARED;
            tile->why = "an operand of a product by loops";
        }
    }
}

static bool finds_printf(Lowering *lo, TileOp *op, void *context)
{
    lo->calls_printf |= op->kind == T_PRINT || (op->kind == T_ASSERT && (!op->assertion.assume || lo->kernel->checked));
    return false;
}

static const char *check_division(Lowering *lo, Product *product, LayoutHint hint)
{
    const char *why = divide(lo, product, hint);
    if (!why) why = check_operands(lo, product);
    if (!why && product->division == DIVIDE_CONTRACTION) why = check_split_k(lo, product);
    return why ? why : check_padding(lo, product);
}

// layout(c) = rows, columns, partial: an error where tensor cores would take the product, but not divided so.
static void check_tensor_cores(Lowering *lo, Product *product)
{
    const Buffer *const result = product->op->matmul.dst.buffer;
    product->why_not = check_division(lo, product, result->hint);
    if (!product->why_not ||
        (result->hint != HINT_ROWS && result->hint != HINT_COLUMNS && result->hint != HINT_PARTIAL))
        return;
    const char *const why = product->why_not;
    product->why_not = check_division(lo, product, HINT_NONE);
    if (product->why_not || lo->failed) return;
    lo->failed = true;
    const char *const hint = result->hint == HINT_ROWS ? "rows" : result->hint == HINT_COLUMNS ? "columns" : "partial";
    diag_error(lo->diags, product->op->span, "layout(%s) = %s: %s", result->name, hint, why);
}

// The product as it is computed: itself, or transpose(a @ b) = transpose(b) @ transpose(a).
static void take_operands(Lowering *lo, Product *product)
{
    const TileOp *const op = product->op;
    const Operand *const a = &op->matmul.a, *const b = &op->matmul.b;
    int64_t m = 0, n = 0, k = 0;
    expr_as_int(region_extent(&a->region, a->transposed ? 1 : 0), &m);
    expr_as_int(region_extent(&b->region, b->transposed ? 0 : 1), &n);
    expr_as_int(region_extent(&a->region, a->transposed ? 0 : 1), &k);
    product->is_swapped =
        op->matmul.dst.buffer->hint == HINT_TRANSPOSED && !op->matmul.meta; // the sparse side stays left
    product->left = product->is_swapped ? *b : *a;
    product->right = product->is_swapped ? *a : *b;
    if (op->matmul.in_three && operand_step(lo, DTYPE_TF32)) product->left.type = product->right.type = DTYPE_TF32;
    product->left.transposed ^= product->is_swapped;
    product->right.transposed ^= product->is_swapped;
    product->m = (int)(product->is_swapped ? n : m);
    product->n = (int)(product->is_swapped ? m : n);
    product->k = (int)k;
}

static ProductKind choose_kind(Lowering *lo, Product *product)
{
    if (lo->kernel->checked) {
        product->why_loop = "a --check build tests every access";
        return PRODUCT_LOOP;
    }
    check_tensor_cores(lo, product);
    product->kind = uses_wgmma(lo, product) ? PRODUCT_WGMMA : PRODUCT_MMA;
    if (!product->why_not) {
        finish_product(lo, product);
    } else {
        product->kind = PRODUCT_FMA;
        if (product->op->matmul.in_three) product->left.type = product->right.type = DTYPE_F32;
        product->why_loop = plan_fma(lo, product);
        if (!product->why_loop && !finish_fma(lo, product)) product->why_loop = other_layout(lo, product);
    }
    return product->why_loop ? PRODUCT_LOOP : product->kind;
}

static bool choose_product(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_MATMUL) return op->kind == T_FORALL;
    OpInfo *const info = op_info(lo, op);
    if (!info->product) info->product = NEW(lo->arena, Product, .op = op);
    Product *const product = info->product;
    if (!product->why_loop) {
        take_operands(lo, product);
        product->kind = choose_kind(lo, product);
    }
    if (product->kind == PRODUCT_LOOP) share_operands(lo, product);
    return true;
}

static bool is_product(Lowering *lo, TileOp *op) { return op->kind == T_MATMUL; }

bool has_products(Lowering *lo, TileOp *list) { return block_has(lo, list, is_product); }

void choose_products(Lowering *lo)
{
    each_op(lo, lo->kernel->body, finds_printf, NULL);
    each_op(lo, lo->kernel->body, choose_product, NULL);
}
