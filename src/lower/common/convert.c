// SPDX-License-Identifier: MIT
// convert.c - how a value of one type becomes one of another (docs/language.md, 3). It is widened first: narrow floats are
// their bits, packed integers a byte's.
#include "lower/common/common.h"

DType common_widened(DType type)
{
    if (dtype_is_narrow_float(type) || type == DTYPE_TF32) return DTYPE_F32;
    return dtype_is_integer(type) && dtype_bits(type) < 8 ? DTYPE_I32 : type;
}

ConvertStep common_convert_step(DType to, DType from)
{
    if (to == DTYPE_BOOL) return CONVERT_TRUTH;
    if (dtype_is_narrow_float(to)) return CONVERT_NARROW;
    if (to == DTYPE_TF32) return CONVERT_TF32;
    if (dtype_is_integer(to) && dtype_is_float(from)) return CONVERT_SATURATE;
    return dtype_is_integer(to) && dtype_bits(to) < 8 ? CONVERT_PACK : CONVERT_CAST;
}
