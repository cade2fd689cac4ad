// SPDX-License-Identifier: MIT
// linear.h - integer expressions as sums: constant + c1*atom1 + c2*atom2 ..., over the mathematical integers.
//
// An atom is what the sum cannot look into (a variable, a quotient, a load ...); equal atoms are one term, so that
// i*64 + j - i*64 is j. A sum looks through conversions and sized arithmetic only where nothing can wrap.
#ifndef KILN_IR_LINEAR_H
#define KILN_IR_LINEAR_H

#include "ir/expr.h"

enum { LINEAR_TERMS = 24 };

typedef struct LinearTerm {
    const Expr *atom;
    int64_t factor;
} LinearTerm; // factor not 0
typedef struct Linear {
    int64_t constant;
    int n;
    LinearTerm terms[LINEAR_TERMS];
    bool failed; // too many terms, or a constant that overflowed
    bool merged; // an atom occurred twice
} Linear;

// The terms are left as they are: zeroing them takes longer than most sums.
static inline void linear_clear(Linear *sum)
{
    sum->constant = 0;
    sum->n = 0;
    sum->failed = sum->merged = false;
}

void linear_add(Linear *sum, const Expr *x, int64_t factor); // sum += factor * x
Range linear_range(const Linear *sum);
bool linear_at_least(const Linear *sum, int64_t least);     // provably, also where bounds of variables are symbolic
Expr *linear_expr(Arena *a, const Linear *sum, DType type); // back to an expression

#endif
