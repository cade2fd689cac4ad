// SPDX-License-Identifier: MIT
// builtin.h - the functions of the language that compute a number from numbers: one row each in builtin.c, which the check,
// the expression builders, ranges, launch plans and both targets read.
#ifndef KILN_IR_BUILTIN_H
#define KILN_IR_BUILTIN_H

#include "ir/operator.h"
#include "ir/range.h"

enum { BUILTIN_ARGUMENTS_MAX = 3 };

typedef enum { // compiled plans hold these numbers: new ones stand last
    M_EXP,
    M_EXP2,
    M_LOG,
    M_LOG2,
    M_SQRT,
    M_RSQRT,
    M_POW,
    M_SIN,
    M_COS,
    M_TANH,
    M_ERF,
    M_ABS,
    M_FLOOR,
    M_CEIL,
    M_ROUND,
    M_RINT,
    M_TRUNC,
    M_MIN,
    M_MAX,
    M_CLAMP,
    M_FMA,
    M_CEILDIV, // rounds toward plus infinity; 0 if the divisor is not positive
    M_POPCOUNT,
    M_CLZ,
    M_FFS,
    M_DOT4,
    M_RANDOM,
    M_FAST_TANH,
    M_COUNT
} MathFn;

typedef enum {      // what the arguments are brought to, and so what the result is (docs/language.md, 13)
    TAKES_FLOATS,   // numbers: their common type, a floating one
    TAKES_NUMBERS,  // numbers: their common type
    TAKES_INTEGERS, // integers: their common type
    TAKES_BITS,     // integers as they are in memory; gives i32
    TAKES_BYTES,    // two times four bytes and a sum: u32 if the bytes are u32, else i32
    TAKES_COUNTERS, // `int`s; gives f32
} BuiltinTakes;

typedef enum {       // how C computes it
    C_NEVER,         // arguments of this class do not occur
    C_CALL,          // kiln_NAME_TYPE(...) of the prelude
    C_CALL_UNSIGNED, // the same, of arguments as u32 or u64
    C_CALL_COUNTERS, // kiln_NAME(...), of arguments as u64
    C_COMPILER,      // __builtin_NAME(...), with an f for f32
    C_MIN_OF_MAX,    // min(max(x, lo), hi)
    C_MAGNITUDE,     // a call that --check builds test (lower/cpu/arithmetic.c)
    C_ROUND_UP,      // the same
} CForm;

typedef struct CText {
    CForm form;
    const char *name;                // NULL: the function's own
    const char *part_f32, *part_f64; // of the prelude, that must be there; NULL: it always is
} CText;

typedef enum {          // how CUDA C computes it of integers; of floats it is always a CUDA_CALL
    CUDA_CALL,          // math_NAME(...) of the prelude, overloaded
    CUDA_CALL_COUNTERS, // the same, of arguments as u64
    CUDA_MAGNITUDE,     // a call that --check builds test (lower/gpu/print/expressions/arithmetic.c)
    CUDA_ROUND_UP,      // the same
} CudaForm;

typedef struct Builtin {
    const char *name;
    int arguments;
    BuiltinTakes takes;
    bool picks;   // the result is one of the arguments
    bool divides; // the last argument must be positive
    bool in_loop; // stays as it is in Loop IR for integers of 32 and 64 bits, whose ranges and folds know it
    // Of constants; `type` is that of the arguments. NULL: not known before it runs. A result that is not exact has the
    // precision of a double, and the caller rounds it to `type`.
    double (*real)(DType type, const double *v);
    OpFault (*integer)(DType type, const int64_t *v, int64_t *result);
    Range (*range)(const Range *v); // over the mathematical integers; NULL: nothing is known
    CText c_real, c_integer;
    CudaForm cuda_integer;
} Builtin;
extern const Builtin builtins[M_COUNT];

DType builtin_type(MathFn fn, DType of);    // of its result, where its arguments are `of`
bool builtin_computes(MathFn fn, DType of); // whether constants `of` a type have a result that is known

#endif
