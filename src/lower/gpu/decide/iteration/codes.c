// SPDX-License-Identifier: MIT
// codes.c - conversions of neighbouring codes of a packed tile, as pack-tiles leaves them:
//
//     shared u8 q[64][64];  view u32 words = q;
//     w[i][j] = convert<bf16>(convert<u4>(words[i][j/8] >> j%8*4 & 15));
//
// Where a thread has 2, 4, 8 or 16 neighbours of a row, at most a word of them, it loads them at once and converts two
// by one instruction each for their place, their exponent and what that is too much (unpack.cuh). Of a byte and less it loads
// the word: lanes of tensor cores' layouts share words, and the next registers are in the next words of a piece of 16 bytes,
// which come with it.
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

enum { WORD_BITS = 32, BYTE_BITS = 8, PIECE_BYTES = 16 };

// A code within a word: which load has the word, and the number of the code in it.
typedef struct Code {
    const Expr *word;
    Expr *number;
} Code;

static bool is_op(const Expr *x, ExprOp op) { return x->kind == E_BINARY && x->op.op == op; }

static bool is_convert(const Expr *x, DType to) { return x->kind == E_CONVERT && x->type == to; }

// number * bits; NULL: it is not.
static Expr *number_of_shift(const Expr *shift, int bits)
{
    if (!is_convert(shift, DTYPE_U32)) return NULL;
    const Expr *const x = shift->convert.a;
    return is_op(x, X_MUL) && expr_is_int(x->op.b, bits) ? x->op.a : NULL;
}

static bool is_unsigned_code(const Expr *x, int bits, Code *code)
{
    if (!is_op(x, X_BITAND) || !expr_is_int(x->op.b, (1 << bits) - 1) || !is_op(x->op.a, X_SHR)) return false;
    code->word = x->op.a->op.a;
    code->number = number_of_shift(x->op.a->op.b, bits);
    return code->number != NULL;
}

static bool is_signed_code(const Expr *x, int bits, Code *code)
{
    if (!is_op(x, X_SHR) || !expr_is_int(x->op.b, WORD_BITS - bits) || x->op.a->kind != E_BITCAST) return false;
    const Expr *const top = x->op.a->convert.a;
    if (!is_op(top, X_SHL) || !is_convert(top->op.b, DTYPE_U32)) return false;
    const Expr *const up = top->op.b->convert.a;
    if (!is_op(up, X_SUB) || !expr_is_int(up->op.a, WORD_BITS - bits) || !is_op(up->op.b, X_MUL) ||
        !expr_is_int(up->op.b->op.b, bits))
        return false;
    code->word = top->op.a;
    code->number = up->op.b->op.a;
    return true;
}

static bool is_code(const Expr *x, Code *code)
{
    const int bits = dtype_bits(x->type);
    if (!dtype_is_packed(x->type)) return false;
    if (x->kind == E_BITCAST) x = x->convert.a;
    if (x->kind != E_CONVERT || !dtype_is_packed(x->type)) return false;
    return (dtype_info[x->type].class == CLASS_SIGNED ? is_signed_code : is_unsigned_code)(x->convert.a, bits, code);
}

// Of a run: the number is `at` % each, the word's last subscript `at` / each, and `at` counts with the run.
static bool is_run_of_codes(Lowering *lo, const Code *code, Var *run, int width, int bits)
{
    const int each = WORD_BITS / bits;
    const Expr *const number = code->number, *const word = code->word;
    if (!is_op(number, X_MOD) || !expr_is_int(number->op.b, each) || word->kind != E_LOAD || width * bits > WORD_BITS)
        return false;
    const Buffer *const words = word->load.buffer;
    if (words->type != DTYPE_U32 || words->kind != BUFFER_VIEW || words->base.buffer->kind != BUFFER_SHARED ||
        words->base.buffer->type != DTYPE_U8 || words->base.buffer->rank != words->rank ||
        !region_is_whole(&words->base))
        return false;
    const Expr *const last = word->load.subs[words->rank - 1];
    int64_t coefficient = 0;
    Expr *rest = NULL;
    if (!is_op(last, X_DIV) || !expr_is_int(last->op.b, each) || !expr_equal(last->op.a, number->op.a) ||
        !expr_affine(lo->arena, number->op.a, &run, 1, &coefficient, &rest) || coefficient != 1 ||
        expr_multiple(rest) % width != 0)
        return false;
    for (int d = 0; d + 1 < words->rank; d++)
        if (expr_uses(word->load.subs[d], run)) return false;
    return true;
}

void find_codes(Lowering *lo, Iteration *it, Var *run, int width, Expr *x)
{
    Code code;
    if (x->kind != E_CONVERT || it->n_codes == COUNT(it->codes) ||
        (x->type != DTYPE_F32 && x->type != DTYPE_F16 && x->type != DTYPE_BF16))
        return;
    const int bits = dtype_bits(x->convert.a->type);
    if (width < 2 || !is_code(x->convert.a, &code) || !is_run_of_codes(lo, &code, run, width, bits)) return;
    for (int i = 0; i < it->n_codes; i++)
        if (expr_equal(it->codes[i].convert, x)) return;
    Buffer *const bytes = code.word->load.buffer->base.buffer;
    Expr **const subs = NEW_ARRAY(lo->arena, Expr *, bytes->rank);
    for (int d = 0; d < bytes->rank; d++) subs[d] = code.word->load.subs[d];
    Arena *const a = lo->arena;
    Expr *const at = code.number->op.a;
    Expr *const byte = expr_binary(a, X_SHR, at, int_const(a, bits == 4 ? 1 : 2));
    const int i = it->n_codes++;
    it->codes[i].convert = x;
    it->codes[i].bytes = bytes;
    it->codes[i].subs = subs;
    if (width * bits > BYTE_BITS) {
        subs[bytes->rank - 1] = byte;
        return;
    }
    subs[bytes->rank - 1] = int_mul(a, expr_binary(a, X_SHR, byte, int_const(a, 4)), int_const(a, PIECE_BYTES));
    it->codes[i].byte = expr_binary(a, X_BITAND, byte, int_const(a, PIECE_BYTES - 1));
    if (width * bits < BYTE_BITS)
        it->codes[i].position = expr_binary(a, X_BITAND, at, int_const(a, BYTE_BITS / bits - 1));
}
