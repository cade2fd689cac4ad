// SPDX-License-Identifier: MIT
// wgmma.c - printing: products on tensor cores of whole warp groups.
//
// A product is issued and committed as a group; what waits for it is an action of its own (in_flight.c).
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/products/print_product.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/info.h"

// ---- instructions as helper functions, one per shape in use

// By the operands' type; NULL: there is none.
static const char *const wgmma_suffix[DTYPE_COUNT] = {
    [DTYPE_BF16] = "f32.bf16.bf16", [DTYPE_F16] = "f32.f16.f16",    [DTYPE_TF32] = "f32.tf32.tf32",
    [DTYPE_E4M3] = "f32.e4m3.e4m3", [DTYPE_E5M2] = "f32.e5m2.e5m2", [DTYPE_I8] = "s32.s8.s8",
    [DTYPE_U8] = "s32.u8.u8",
};

static void print_registers(Text *out, const char *format, int first, int n)
{
    for (int i = 0; i < n; i++) {
        text_print(out, "%s", i ? ", " : "");
        text_print(out, format, first + i);
    }
}

// D[64][n] (+)= A * B: `d` are the thread's n/2 accumulators; add == 0 overwrites them. A sparse A comes with its
// places.
static const char *wgmma_helper(Printer *pr, const Product *p, int n, bool from_registers, bool a_across, bool b_across)
{
    const bool sparse = p->op->matmul.meta;
    const int k = sparse ? 2 * p->step_k : p->step_k;
    const char *const name =
        arena_printf(pr->arena, "wgmma%s_64x%dx%d_%s%s%s%s", sparse ? "_sp" : "", n, k, dtype_name(p->type),
                     from_registers ? "_rs" : "_ss", a_across ? "_ta" : "", b_across ? "_tb" : "");
    Text *const out = &pr->helpers;
    const char *const declared = arena_printf(pr->arena, "void %s(", name);
    if (out->data && strstr(out->data, declared)) return name;
    const bool is_float = dtype_is_float(p->type), is_16 = dtype_bits(p->type) == 16;
    const int d = n / 2, inputs = (from_registers ? 5 : 2) + sparse;
    text_print(out, "DEVICE void %s(%s *d, %s, uint64_t b, %sint add)\n{\n", name, is_float ? "float" : "int32_t",
               from_registers ? "uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3" : "uint64_t a",
               sparse ? "uint32_t places, " : "");
    text_print(out, "    asm volatile(\"{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %%%d, 0;\\n\\t\"\n", d + inputs);
    text_print(out, "                 \"wgmma.mma_async%s.sync.aligned.m64n%dk%d.%s {", sparse ? ".sp" : "", n, k,
               wgmma_suffix[p->type]);
    print_registers(out, "%%%d", 0, d);
    text_print(out, "}, ");
    if (from_registers) text_print(out, "{%%%d, %%%d, %%%d, %%%d}, %%%d, ", d, d + 1, d + 2, d + 3, d + 4);
    else text_print(out, "%%%d, %%%d, ", d, d + 1);
    if (sparse) text_print(out, "%%%d, 0, ", d + inputs - 1);
    text_print(out, "p");
    if (is_float) text_print(out, ", 1, 1");
    if (is_16 && !from_registers) text_print(out, ", %d", a_across);
    if (is_16) text_print(out, ", %d", b_across);
    text_print(out, ";\\n\\t}\"\n                 : ");
    print_registers(out, is_float ? "\"+f\"(d[%d])" : "\"+r\"(d[%d])", 0, d);
    text_print(out, "\n                 : %s, \"l\"(b), %s\"r\"(add));\n}\n",
               from_registers ? "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)" : "\"l\"(a)",
               sparse ? "\"r\"(places), " : "");
    return name;
}

// ---- operands in shared memory

// Bytes from the operand's first element to that at `row`, `column` of the tile; both where a piece may begin.
static int operand_offset(const SharedLayout *s, int row, int column)
{
    return column / s->panel_columns * s->panel_bytes + row * s->pitch_bytes +
           column % s->panel_columns * s->element_bytes;
}

typedef struct SharedOperand {
    Var *descriptor;
    const SharedLayout *layout;
    int row, column;
    bool across;
    int step_k;
} SharedOperand;

// Bytes to where a slice begins, as far as that is known at run time alone; the rest goes to `row` and `column`.
static Expr *run_time_offset(Printer *pr, const SharedLayout *s, const Region *region, int64_t *row, int64_t *column)
{
    Expr *bytes = NULL;
    *row = *column = 0;
    if (!expr_as_int(region->subs[0].start, row))
        bytes = i32_mul(pr, cast(pr, DTYPE_I32, lower_expr(pr, region->subs[0].start, NULL)), s->pitch_bytes);
    if (!expr_as_int(region->subs[1].start, column)) {
        Expr *const at = cast(pr, DTYPE_I32, lower_expr(pr, region->subs[1].start, NULL));
        Expr *const panel = i32_op(pr, X_SHR, at, __builtin_ctz((unsigned)s->panel_columns));
        Expr *const within = i32_mul(pr, i32_op(pr, X_BITAND, at, s->panel_columns - 1), s->element_bytes);
        Expr *const sum = s->columns == s->panel_columns ? i32_mul(pr, at, s->element_bytes)
                                                         : i32_add(pr, i32_mul(pr, panel, s->panel_bytes), within);
        bytes = bytes ? i32_add(pr, bytes, sum) : sum;
    }
    return bytes;
}

// `across`: the contraction runs down the tile's rows. group_bytes: what a warp group adds to the address.
static SharedOperand begin_operand(Printer *pr, const Operand *x, bool across, int step_k, const char *name,
                                   Expr *group_bytes)
{
    const TileInfo *const tile = tile_info(pr->lo, x->region.buffer);
    const SharedLayout *const s = &tile->shared;
    int64_t row, column;
    Expr *const start = run_time_offset(pr, s, &x->region, &row, &column);
    const int swizzle = s->swizzle_bytes == 128 ? 1 : s->swizzle_bytes == 64 ? 2 : 3;
    Expr *address = call_expr(pr, DTYPE_U32, "shared_address", 1, var_of(pr, tile_vars(pr, tile)->pointer));
    if (group_bytes) address = expr_binary(pr->arena, X_ADD, address, cast(pr, DTYPE_U32, group_bytes));
    if (start) address = expr_binary(pr->arena, X_ADD, address, cast(pr, DTYPE_U32, start));
    Expr *const value = call_expr(pr, DTYPE_U64, "matrix_descriptor", 4, address, i32_const(pr, swizzle),
                                  i32_const(pr, across ? s->panel_bytes : 16), i32_const(pr, 8 * s->swizzle_bytes));
    return (SharedOperand){ emit_declare(pr, DTYPE_U64, name, value), s, (int)row, (int)column, across, step_k };
}

// The descriptor of the piece that begins `lines` (rows or columns of the product) and `step` (of k) further.
static Expr *operand_at(Printer *pr, const SharedOperand *x, int lines, int step)
{
    const int row = x->row + (x->across ? step * x->step_k : lines);
    const int column = x->column + (x->across ? lines : step * x->step_k);
    const int bytes = operand_offset(x->layout, row, column);
    return expr_binary(pr->arena, X_ADD, var_of(pr, x->descriptor), expr_int(pr->arena, DTYPE_U64, bytes / 16));
}

static Expr *group_offset(Printer *pr, int bytes)
{
    return pr->lo->partition.groups > 1 && bytes ? i32_mul(pr, var_of(pr, pr->group), bytes) : NULL;
}

// ---- the left operand in registers: pairs packed into words

// A word of each four bytes.
static Var *pack_left_bytes(Printer *pr, const TileInfo *tile)
{
    const int words = layout_registers(&tile->layout) / 4;
    Text *const out = &pr->helpers;
    if (!out->data || !strstr(out->data, "uint32_t pack_bytes("))
        text_print(out, "DEVICE uint32_t pack_bytes(const int8_t *x)\n{\n"
                        "    const uint32_t low = __byte_perm((uint8_t)x[0], (uint8_t)x[1], 0x0040);\n"
                        "    return __byte_perm(low, __byte_perm((uint8_t)x[2], (uint8_t)x[3], 0x0040), 0x5410);\n}\n");
    Var *const packed = emit_array(pr, DTYPE_U32, arena_printf(pr->arena, "%s_words", tile->buffer->name), words);
    Nest nest;
    Var *const i = begin_unrolled(pr, &nest, "i", words);
    Expr *const bytes = expr_address(pr->arena, tile_vars(pr, tile)->registers, i32_mul(pr, var_of(pr, i), 4));
    emit_element(pr, packed, var_of(pr, i), call_expr(pr, DTYPE_U32, "pack_bytes", 1, bytes));
    end_nest(pr, &nest);
    return packed;
}

Var *pack_left(Printer *pr, const Product *p)
{
    const Operand *const a = &p->left;
    const TileInfo *const tile = tile_info(pr->lo, a->region.buffer);
    if (tile->is_packed) return tile_vars(pr, tile)->registers;
    if (dtype_bits(p->type) == 8 && p->a_in_registers) return pack_left_bytes(pr, tile);
    const int words = layout_registers(&tile->layout) / 2;
    Var *const packed = emit_array(pr, DTYPE_U32, arena_printf(pr->arena, "%s_words", tile->buffer->name), words);
    Nest nest;
    Var *const i = begin_unrolled(pr, &nest, "i", words);
    Expr *const even = expr_index(pr->arena, tile_vars(pr, tile)->registers, i32_mul(pr, var_of(pr, i), 2));
    Expr *const odd = expr_index(pr->arena, tile_vars(pr, tile)->registers,
                                 i32_add(pr, i32_mul(pr, var_of(pr, i), 2), i32_const(pr, 1)));
    const char *const pack =
        dtype_bits(tile->buffer->type) == 16 ? "pack_bits" : arena_printf(pr->arena, "pack_%s", dtype_name(a->type));
    emit_element(pr, packed, var_of(pr, i), call_expr(pr, DTYPE_U32, pack, 2, even, odd));
    end_nest(pr, &nest);
    return packed;
}

// ---- one product

// Where a product's pieces come from.
typedef struct Pieces {
    Var *packed, *places;
    SharedOperand left, right;
} Pieces;

// Steps first .. end of k into these registers; `add` 0 overwrites them with the first.
static void emit_steps(Printer *pr, const Product *p, const Pieces *from, Var *into, int first, int end, Expr *add)
{
    const int registers = p->n_group / 2; // of one block of 64 rows
    for (int step = first; step < end; step++)
        for (int block_row = 0; block_row < p->row_blocks; block_row++)
            for (int column = 0; column < p->n_group; column += p->n_piece) {
                const int n = p->n_group - column < p->n_piece ? p->n_group - column : p->n_piece;
                const char *const name =
                    wgmma_helper(pr, p, n, from->packed != NULL, p->left.transposed, !p->right.transposed);
                Expr *const d = expr_address(pr->arena, into, i32_const(pr, block_row * registers + column / 2));
                Expr *const adds = step == first ? add : i32_const(pr, 1);
                Expr *const from_b = operand_at(pr, &from->right, column, step);
                Expr *places = NULL;
                if (from->places)
                    places = expr_index(pr->arena, from->places, i32_const(pr, block_row * (p->k / p->step_k) + step));
                if (from->packed) {
                    Expr *word[4];
                    for (int i = 0; i < 4; i++)
                        word[i] = expr_index(pr->arena, from->packed,
                                             i32_const(pr, 4 * (block_row * (p->k / p->step_k) + step) + i));
                    emit_call(pr, name, places ? 8 : 7, d, word[0], word[1], word[2], word[3], from_b,
                              places ? places : adds, adds);
                } else {
                    Expr *const from_a = operand_at(pr, &from->left, block_row * 64, step);
                    emit_call(pr, name, places ? 5 : 4, d, from_a, from_b, places ? places : adds, adds);
                }
            }
    emit_call(pr, "wgmma_commit", 0);
}

// promote(n, ..): tensor cores keep fewer bits of an fp8 sum than f32 has. Every n steps are a sum of their own, which
// multiply-adds' adders add to the result.
static void emit_promoted(Printer *pr, const Product *p, const Pieces *from)
{
    const TileInfo *const acc = tile_info(pr->lo, p->op->matmul.dst.buffer);
    const int steps = p->k / p->step_k, registers = layout_registers(&acc->layout);
    int n = p->op->matmul.promote;
    if (from->places) // of 64 along the contraction each
        n = n > 1 ? n / 2 : 1;
    Var *const part = emit_array(pr, DTYPE_F32, "part", registers);
    for (int first = 0; first < steps; first += n) {
        emit_call(pr, "wgmma_fence", 0);
        emit_steps(pr, p, from, part, first, first + n < steps ? first + n : steps, i32_const(pr, 0));
        emit_call(pr, "wgmma_wait", 1, i32_const(pr, 0));
        fence_registers(pr, acc, part);
        Nest nest;
        Var *const r = begin_unrolled(pr, &nest, "r", registers);
        Expr *const sum =
            expr_binary(pr->arena, X_ADD, expr_index(pr->arena, tile_vars(pr, acc)->registers, var_of(pr, r)),
                        expr_index(pr->arena, part, var_of(pr, r)));
        emit_element(pr, tile_vars(pr, acc)->registers, var_of(pr, r), sum);
        end_nest(pr, &nest);
    }
}

// From one group's lines of an operand to the next's, where `division` divides them, or from its part of the
// contraction.
static int group_bytes(const Product *p, const SharedLayout *s, Division division, int lines, bool across, int part)
{
    if (p->division == DIVIDE_CONTRACTION) return across ? part * s->pitch_bytes : operand_offset(s, 0, part);
    return p->division != division ? 0 : across ? operand_offset(s, 0, lines) : lines * s->pitch_bytes;
}

void emit_wgmma(Printer *pr, Product *p)
{
    TileOp *const op = p->op;
    const Operand *const a = &p->left, *const b = &p->right;
    const TileInfo *const acc = tile_info(pr->lo, op->matmul.dst.buffer);
    const int part = p->division == DIVIDE_CONTRACTION ? p->k / pr->lo->partition.groups : p->k; // of one group
    const bool a_across = a->transposed, b_across = !b->transposed;
    Nest block;
    begin_block(pr, &block);
    Pieces from = { .places = op->matmul.meta ? load_places(pr, p) : NULL };
    if (p->a_in_registers || product_vars(pr, p)->preloaded) {
        from.packed = product_vars(pr, p)->preloaded ? product_vars(pr, p)->preloaded : pack_left(pr, p);
    } else {
        const SharedLayout *const s = &tile_info(pr->lo, a->region.buffer)->shared;
        const int rows = p->row_blocks * 64; // of one group
        const int bytes = group_bytes(p, s, DIVIDE_ROWS, rows, a_across, part);
        from.left = begin_operand(pr, a, a_across, p->step_k, "left", group_offset(pr, bytes));
    }
    const SharedLayout *const s = &tile_info(pr->lo, b->region.buffer)->shared;
    const int bytes = group_bytes(p, s, DIVIDE_COLUMNS, p->n_group, b_across, part);
    from.right =
        begin_operand(pr, b, b_across, op->matmul.meta ? 2 * p->step_k : p->step_k, "right", group_offset(pr, bytes));
    if (op->matmul.promote) {
        emit_promoted(pr, p, &from);
        end_nest(pr, &block);
        return;
    }
    print_parts(pr); // fences of sums
    emit_call(pr, "wgmma_fence", 0);
    emit_steps(pr, p, &from, tile_vars(pr, acc)->registers, 0, part / p->step_k,
               product_vars(pr, p)->adds ? product_vars(pr, p)->adds : i32_const(pr, op->matmul.accumulate));
    end_nest(pr, &block);
}
