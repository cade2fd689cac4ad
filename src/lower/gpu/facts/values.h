// SPDX-License-Identifier: MIT
// values.h - short forms of expressions that both Tile IR and Loop IR have.
#ifndef KILN_LOWER_GPU_FACTS_VALUES_H
#define KILN_LOWER_GPU_FACTS_VALUES_H

#include "lower/gpu/facts/lowering.h"

DType loop_type(DType type); // how Loop IR names it: `int` is i64
Expr *zero_of(const Lowering *lo, DType type);
Expr *both(const Lowering *lo, Expr *a, Expr *b); // a & b; NULL: nothing to test

#endif
