// SPDX-License-Identifier: MIT
// dialect.c - the languages that Loop IR is printed in: C, with the macros of src/lower/cpu/prelude, and CUDA C.
#include "emit/prelude.h"
#include "emit/print.h"

const Dialect dialect_c = {
    .restrict_word = "restrict",
    .align = "_Alignas",
    .bool_name = "_Bool",
    .spaces = { [SPACE_AUTO] = "", [SPACE_SHARED] = "", [SPACE_CONST] = "static const " },
    .loops = { [LOOP_UNROLL] = "KILN_UNROLL",
               [LOOP_VECTORISE] = "KILN_VECTORIZE",
               [LOOP_VECTORISE_SHORT] = "KILN_VECTORIZE_SHORT",
               [LOOP_NO_UNROLL] = "KILN_NO_UNROLL" },
    .wraps_unsigned = true,
};

// clang-format off
const Dialect dialect_cuda = {
    .restrict_word = "__restrict__",
    .align = "__align__",
    .bool_name = "bool",
    .spaces = { [SPACE_AUTO] = "", [SPACE_SHARED] = "__shared__ ", [SPACE_CONST] = "static __constant__ " },
    .loops = { [LOOP_UNROLL] = "#pragma unroll", [LOOP_NO_UNROLL] = "#pragma unroll 1" },
    .vectors = {
        [DTYPE_F32] = "float", [DTYPE_F64] = "double", [DTYPE_I32] = "int", [DTYPE_U32] = "uint", [DTYPE_I64] = "longlong",
        [DTYPE_INT] = "longlong", [DTYPE_U64] = "ulonglong", [DTYPE_I16] = "short", [DTYPE_U16] = "ushort", [DTYPE_I8] = "char",
        [DTYPE_U8] = "uchar", [DTYPE_F16] = "ushort", [DTYPE_BF16] = "ushort",
    },
    .f64_bits = "__longlong_as_double",
    .f32_bits = "__int_as_float",
    .prelude = &prelude_cuda,
    .overloads = true,
};
// clang-format on
