// SPDX-License-Identifier: MIT
// values.c - types and values that deciding and printing name alike.
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/facts/values.h"

DType loop_type(DType type)
{
    switch (type) {
    case DTYPE_INT: return DTYPE_I64;
    case DTYPE_TF32: return DTYPE_F32;
    case DTYPE_F16:
    case DTYPE_BF16: return DTYPE_U16;
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_E8M0: return DTYPE_U8;
    case DTYPE_E2M1:
    case DTYPE_I4:
    case DTYPE_I2:
    case DTYPE_U4:
    case DTYPE_U2: return DTYPE_U8;
    case DTYPE_NONE:
    case DTYPE_F64:
    case DTYPE_F32:
    case DTYPE_I64:
    case DTYPE_I32:
    case DTYPE_I16:
    case DTYPE_I8:
    case DTYPE_U64:
    case DTYPE_U32:
    case DTYPE_U16:
    case DTYPE_U8:
    case DTYPE_BOOL:
    case DTYPE_COUNT: break;
    }
    return type;
}

Expr *zero_of(const Lowering *lo, DType type)
{
    return dtype_is_float(type) ? expr_float(lo->arena, type, 0) : expr_int(lo->arena, type, 0);
}

Expr *both(const Lowering *lo, Expr *a, Expr *b) { return !a ? b : !b ? a : expr_binary(lo->arena, X_AND, a, b); }
