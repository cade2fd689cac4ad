// SPDX-License-Identifier: MIT
// print_transfer.c - printing: registers of a fragment stored to shared memory and loaded from it: tiles that products read,
// boxes that TMA sends, the scratch of conversions (layout/shared_transfer.c).
#include "lower/gpu/print/layout/print_transfer.h"
#include "lower/gpu/print/expressions/expressions.h"

#include <assert.h>

// ---- what is stored

static Expr *value(Printer *pr, const Transfer *t, int element, int piece)
{
    const int reg = t->first + transfer_register(t->how, element, piece);
    return expr_index(pr->arena, tile_vars(pr, t->tile)->registers, i32_const(pr, reg));
}

// Two neighbouring elements of 16 bits.
static Expr *pair(Printer *pr, const Transfer *t, int piece)
{
    const DType from = t->tile->buffer->type;
    if (t->tile->is_packed) {
        const int word = (t->first + transfer_register(t->how, 0, piece)) / 2;
        return expr_index(pr->arena, tile_vars(pr, t->tile)->registers, i32_const(pr, word));
    }
    const char *const pack = from == DTYPE_F32 ? arena_printf(pr->arena, "pack_%s", dtype_name(t->type)) : "pack_bits";
    return call_expr(pr, DTYPE_U32, pack, 2, value(pr, t, 0, piece), value(pr, t, 1, piece));
}

// ---- where

static bool is_power_of_two(int x) { return x > 0 && (x & (x - 1)) == 0; }

// The value of a mode of a number below `count`. Numbers that are computed again have a sign that the compiler does not know: shifts
// and masks need none.
static Expr *mode_value_of(Printer *pr, Var *number, int count, int below, int extent)
{
    Expr *mode_value = var_of(pr, number);
    if (!is_power_of_two(below) || !is_power_of_two(extent))
        return i32_op(pr, X_MOD, i32_op(pr, X_DIV, mode_value, below), extent);
    if (below > 1) mode_value = i32_op(pr, X_SHR, mode_value, __builtin_ctz((unsigned)below));
    return below * extent < count ? i32_op(pr, X_BITAND, mode_value, extent - 1) : mode_value;
}

Expr *lanes_part(Printer *pr, const Layout *lanes, int dim)
{
    Var *const numbers[IN_COUNT] = { [IN_LANE] = pr->lane, [IN_WARP] = pr->warp, [IN_GROUP] = pr->group };
    const int counts[IN_COUNT] = { 1, WARP_LANES, pr->lo->partition.warps, pr->lo->partition.groups };
    int below[IN_COUNT] = { 1, 1, 1, 1 };
    Expr *sum = i32_const(pr, 0);
    for (int i = 0; i < lanes->n; i++) {
        const LayoutMode *const mode = &lanes->mode[i];
        Var *const number = numbers[mode->input];
        Expr *const mode_value = mode_value_of(pr, number, counts[mode->input], below[mode->input], mode->extent);
        if (mode->dim == dim) sum = i32_add(pr, sum, i32_mul(pr, mode_value, mode->stride));
        below[mode->input] *= mode->extent;
    }
    return sum;
}

// The shared address of what this lane hands to ldmatrix: row and column are expressions of the lane. What is constant
// in them becomes the instruction's own offset, since the sum is one of 32 bits.
Expr *lane_address(Printer *pr, const TileInfo *tile, Expr *row, Expr *column)
{
    Expr *const bytes = i32_mul(pr, shared_at(pr, tile, row, column), tile->shared.element_bytes);
    return expr_binary(pr->arena, X_ADD,
                       call_expr(pr, DTYPE_U32, "shared_address", 1, var_of(pr, tile_vars(pr, tile)->pointer)),
                       cast(pr, DTYPE_U32, bytes));
}

static Expr *start_of(Printer *pr, const Sub *sub)
{
    int64_t start;
    return expr_as_int(sub->start, &start) ? i32_const(pr, start)
                                           : cast(pr, DTYPE_I32, lower_expr(pr, sub->start, NULL));
}

Corner corner_of(Printer *pr, const Region *region)
{
    return (Corner){ start_of(pr, &region->subs[0]), start_of(pr, &region->subs[1]) };
}

// Of the instruction's bytes, in the thread that gives the address.
static Expr *place_of(Printer *pr, const Transfer *t, const PieceAddress *address)
{
    const SharedLayout *const shared = &t->how->shared;
    const Layout *const lanes = &t->how->lanes;
    Expr *const row = i32_add(pr, lanes_part(pr, lanes, 0), i32_const(pr, address->row));
    Expr *const panel = i32_add(pr, lanes_part(pr, lanes, 1), i32_const(pr, address->panel));
    Expr *const column = i32_add(pr, lanes_part(pr, lanes, 2), i32_const(pr, address->column));
    Expr *const offset = cast(pr, DTYPE_U32, i32_mul(pr, panel, shared->panel_bytes));
    Expr *const bytes = i32_mul(pr, column, shared->element_bytes);
    Expr *const at = expr_binary(pr->arena, X_ADD, t->at, offset);
    if (shared->swizzle_bytes)
        return call_expr(pr, DTYPE_U32, arena_printf(pr->arena, "swizzled_at<%d>", shared->swizzle_bytes), 3, at, row,
                         bytes);
    return expr_binary(pr->arena, X_ADD, at,
                       cast(pr, DTYPE_U32, i32_add(pr, i32_mul(pr, row, shared->pitch_bytes), bytes)));
}

static Expr *is_in_part(Printer *pr, const Transfer *t, const PieceAddress *address)
{
    Expr *const row = i32_add(pr, lanes_part(pr, &t->how->lanes, 0), i32_const(pr, address->row - t->first_row));
    return expr_binary(pr->arena, X_LT, cast(pr, DTYPE_U32, row), u32_const(pr, t->rows));
}

// ---- instructions

enum { MATRICES = 4 }; // of an instruction

typedef struct Piece {
    Expr *at, *step, *flip;
} Piece;

static void move_words(Printer *pr, const Transfer *t, const char *name, Piece piece, int i)
{
    Expr *args[7] = { piece.at, piece.step, piece.flip };
    const int n = t->how->side.piece;
    for (int k = 0; k < n; k++) args[3 + k] = value(pr, t, k, i);
    emit_call_if(pr, NULL, expr_call(pr->arena, DTYPE_NONE, name, 3 + n, args));
}

static void store_matrices(Printer *pr, const Transfer *t, Piece piece, int i)
{
    const bool is_turned = t->how->side.access == BY_TRANSPOSED_MATRICES;
    emit_call(pr, is_turned ? "store_turned_matrices" : "store_matrices", 7, piece.at, piece.step, piece.flip,
              pair(pr, t, 4 * i), pair(pr, t, 4 * i + 1), pair(pr, t, 4 * i + 2), pair(pr, t, 4 * i + 3));
}

// Words of two neighbouring registers each.
static void load_matrices(Printer *pr, const Transfer *t, Piece piece, int i)
{
    const bool is_turned = t->how->side.access == BY_TRANSPOSED_MATRICES;
    Expr *const place = expr_binary(pr->arena, X_BITXOR, piece.at, cast(pr, DTYPE_U32, piece.flip));
    Var *const words = emit_array(pr, DTYPE_U32, "words", MATRICES);
    emit_call(pr, is_turned ? "ldmatrix_x4_trans" : "ldmatrix_x4", 2, var_of(pr, words),
              expr_binary(pr->arena, X_ADD, place, cast(pr, DTYPE_U32, piece.step)));
    for (int m = 0; m < MATRICES; m++) {
        const int reg = t->first + transfer_register(t->how, 0, MATRICES * i + m);
        emit_call(pr, "store_pair", 2, expr_address(pr->arena, tile_vars(pr, t->tile)->registers, i32_const(pr, reg)),
                  expr_index(pr->arena, words, i32_const(pr, m)));
    }
}

// Lanes that swap have that in its address already.
static void move_swapped(Printer *pr, const Transfer *t, const char *name, Piece piece, Var *swaps, int i)
{
    const int swap = t->how->swap;
    if (i & swap) return;
    emit_call(pr, name, 9, piece.at, piece.step, piece.flip, i32_const(pr, t->how->address[swap].flip),
              var_of(pr, swaps), value(pr, t, 0, i), value(pr, t, 1, i), value(pr, t, 0, i ^ swap),
              value(pr, t, 1, i ^ swap));
}

static void move_piece(Printer *pr, const Transfer *t, bool is_load, Piece piece, Var *swaps, int i)
{
    if (t->how->side.access != BY_VECTORS) (is_load ? load_matrices : store_matrices)(pr, t, piece, i);
    else if (swaps) move_swapped(pr, t, is_load ? "load_swapped" : "store_swapped", piece, swaps, i);
    else move_words(pr, t, is_load ? "load_at" : "store_at", piece, i);
}

static Var *declare_swaps(Printer *pr, const SharedTransfer *how)
{
    if (!how->swap) return NULL;
    Expr *const bit = i32_op(pr, X_BITAND, var_of(pr, pr->lane), 1 << how->swap_lane);
    return emit_declare(pr, DTYPE_BOOL, "swaps", i32_op(pr, X_NE, bit, 0));
}

static void move_piece_at(Printer *pr, const Transfer *t, bool is_load, Var *at, Var *swaps, int i)
{
    const PieceAddress *const address = &t->how->address[i];
    const int step = t->offset + address->step - t->first_row * t->how->shared.pitch_bytes;
    const Piece piece = { var_of(pr, at), i32_const(pr, step), i32_const(pr, address->flip) };
    Nest some;
    if (t->rows) begin_if(pr, &some, is_in_part(pr, t, address));
    move_piece(pr, t, is_load, piece, swaps, i);
    if (t->rows) end_nest(pr, &some);
}

static bool flip_is_done(const SharedTransfer *how, int i)
{
    for (int k = 0; k < i; k++)
        if (how->address[k].base == how->address[i].base && how->address[k].flip == how->address[i].flip) return true;
    return false;
}

// Each base is worked out once; from there on constants lead, one XOR after the other, so that one address is alive. A kept one
// is no move that ptxas does not see through: beside such a move it lets work pass barriers that others wait at.
static void move_pieces(Printer *pr, const Transfer *t, bool is_load)
{
    const SharedTransfer *const how = t->how;
    Var *const swaps = declare_swaps(pr, how);
    for (int base = 0; base < how->n; base++) {
        if (how->address[base].base != base) continue;
        Expr *first = place_of(pr, t, &how->address[base]);
        if (swaps) {
            Expr *const other = i32_mul(pr, cast(pr, DTYPE_I32, var_of(pr, swaps)), how->address[how->swap].flip);
            first = expr_binary(pr->arena, X_BITXOR, first, cast(pr, DTYPE_U32, other));
        }
        if (!t->keeps_address) first = call_expr(pr, DTYPE_U32, "made_here", 1, first);
        Var *const at = emit_declare(pr, DTYPE_U32, "at", first);
        for (int i = base; i < how->n; i++) {
            if (how->address[i].base != base || flip_is_done(how, i)) continue;
            for (int k = i; k < how->n; k++)
                if (how->address[k].base == base && how->address[k].flip == how->address[i].flip)
                    move_piece_at(pr, t, is_load, at, swaps, k);
        }
    }
}

// ---- stores whose lanes exchange registers before

// Registers `reg` and the next of the fragment, as 8 bits each.
static Expr *pair_of_8(Printer *pr, const Transfer *t, int reg)
{
    Var *const registers = tile_vars(pr, t->tile)->registers;
    return call_expr(pr, DTYPE_U32, arena_printf(pr->arena, "pack_%s", dtype_name(t->type)), 2,
                     expr_index(pr->arena, registers, i32_const(pr, t->first + reg)),
                     expr_index(pr->arena, registers, i32_const(pr, t->first + reg + 1)));
}

// What stage_8 does: neighbouring lanes exchange words of four elements, the pairs of two rows, and each stores a word of
// either row.
static bool is_stage_8(const SharedTransfer *how)
{
    const ConversionStep *const step = &how->exchange.step[0];
    return how->exchange.n_steps == 1 && how->exchange.per_word == 4 && step->stride == 4 && step->by_stride == 1 &&
           how->shared.element_bytes == 1 && how->side.piece == 4 && how->n % 2 == 0 && how->shared.swizzle_bytes;
}

static void store_exchanged(Printer *pr, const Transfer *t)
{
    enum { BETWEEN = 16, PAIRS = 4 }; // columns that four lanes have of a row after it; pairs of a lane before it
    const SharedTransfer *const how = t->how;
    assert(is_stage_8(how) && "words of 8-bit elements");
    Expr *const box = expr_binary(pr->arena, X_ADD, t->at, u32_const(pr, t->offset));
    const char *const stage = arena_printf(pr->arena, "stage_8<%d>", how->shared.swizzle_bytes);
    for (int i = 0; i < how->n; i += 2) { // a piece and that eight rows below it, of two words before
        Expr *pair[PAIRS];
        for (int k = 0; k < PAIRS; k++) pair[k] = pair_of_8(pr, t, how->exchange.per_word * i + 2 * k);
        emit_call(pr, stage, 7, box, var_of(pr, pr->lane), i32_const(pr, how->address[i].column / BETWEEN), pair[0],
                  pair[1], pair[2], pair[3]);
    }
}

// ---- whole transfers

void store_transfer(Printer *pr, const Transfer *transfer)
{
    if (transfer->how->exchange.n_steps) {
        store_exchanged(pr, transfer);
        return;
    }
    assert(transfer->how->side.access != BY_VECTORS || transfer->how->shared.element_bytes == 4);
    move_pieces(pr, transfer, false);
}

void load_transfer(Printer *pr, const Transfer *transfer)
{
    assert(transfer->how->side.access != BY_VECTORS || transfer->how->shared.element_bytes == 4);
    move_pieces(pr, transfer, true);
}

void print_copy_transfer(Printer *pr, const TransferPlan *plan)
{
    Nest block;
    begin_block(pr, &block);
    store_transfer(pr, &(Transfer){ .how = &plan->how,
                                    .keeps_address = !pr->lo->remakes_addresses,
                                    .tile = plan->from,
                                    .type = plan->to->buffer->type,
                                    .at = call_expr(pr, DTYPE_U32, "shared_address", 1,
                                                    var_of(pr, tile_vars(pr, plan->to)->pointer)) });
    end_nest(pr, &block);
}
