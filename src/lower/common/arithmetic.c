// SPDX-License-Identifier: MIT
// arithmetic.c - the rules of integer operations where C has no answer: what --check builds test, counts of shifts, and what
// a reduction begins with.
#include "lower/common/common.h"

#include <math.h>

const char *common_tested(const TileKernel *kernel, ExprOp op, bool is_int, Span span)
{
    if (!kernel->checked || !span.source) return NULL; // what the compiler made itself is right
    return is_int || op_divides(op) ? expr_op_info[op].checked : NULL;
}

Expr *common_shift_count(Arena *arena, DType type, Expr *count, const Expr *right)
{
    if (expr_is_count(right, type)) return count;
    return expr_binary(arena, X_BITAND, count, expr_int(arena, count->type, dtype_bits(type) - 1));
}

bool common_is_positive(const Expr *x)
{
    const Range r = expr_range(x);
    return r.has_lo && r.lo > 0;
}

static Expr *number(Arena *arena, DType type, int value)
{
    return dtype_is_float(type) ? expr_float(arena, type, value) : expr_int(arena, type, value);
}

static Expr *limit_of(Arena *arena, DType type, bool is_largest)
{
    const int bits = dtype_bits(type);
    if (dtype_is_float(type)) return expr_float(arena, type, is_largest ? INFINITY : -INFINITY);
    if (type == DTYPE_BOOL) return expr_int(arena, type, is_largest);
    if (dtype_is_unsigned(type)) return expr_int(arena, type, is_largest ? -1 : 0);
    const int64_t largest = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return expr_int(arena, type, is_largest ? largest : -largest - 1);
}

Expr *common_identity(Arena *arena, UpdateOp op, DType type)
{
    switch (op) {
    case UPDATE_MUL: return number(arena, type, 1);
    case UPDATE_MIN: return limit_of(arena, type, true);
    case UPDATE_MAX: return limit_of(arena, type, false);
    case UPDATE_AND: return expr_int(arena, type, type == DTYPE_BOOL ? 1 : -1);
    case UPDATE_ADD:
    case UPDATE_SUB:
    case UPDATE_OR:
    case UPDATE_XOR:
    case UPDATE_DIV:
    case UPDATE_MOD:
    case UPDATE_SHL:
    case UPDATE_SHR: break;
    }
    return number(arena, type, 0);
}
