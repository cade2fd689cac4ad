// SPDX-License-Identifier: MIT
// constant.h - the values of constants: what a type can hold, and the language's conversions computed exactly.
//
// A constant integer is kept as int64_t: sign-extended for signed types, zero-extended for unsigned ones, u64 as
// its bits. A constant float is kept as the double of the same value.
#ifndef KILN_IR_CONSTANT_H
#define KILN_IR_CONSTANT_H

#include "ir/dtype.h"

int64_t constant_wrap(DType type, int64_t value);    // modulo 2^bits; bool: 0 or 1
double constant_round(DType type, double value);     // to nearest even; fp8 and fp4 saturate
int64_t constant_truncate(DType type, double value); // truncates and saturates; NaN gives 0
bool constant_float_from_int(DType to, DType from, int64_t value, double *result); // false: not known exactly

uint64_t constant_bits(DType type, double value); // of a floating type: how it is stored

bool dtype_holds(DType wide, DType narrow);              // every value of `narrow` is one of `wide`
bool dtype_limits(DType type, int64_t *lo, int64_t *hi); // of integers and bool; false for u64 and floats
double dtype_most(DType type);                           // of a floating type: its largest number
bool constant_overflows(DType type, double value);       // a finite value that the floating type has no number for

#endif
