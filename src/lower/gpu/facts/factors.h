// SPDX-License-Identifier: MIT
// factors.h - products of numbers that a kernel's launch knows, as a constant and what it is multiplied by.
#ifndef KILN_LOWER_GPU_FACTS_FACTORS_H
#define KILN_LOWER_GPU_FACTS_FACTORS_H

#include "lower/gpu/facts/lowering.h"

enum { FACTORS_MAX = 8 };

typedef struct Factors {
    int64_t constant; // above 0
    const Expr *x[FACTORS_MAX];
    int n;
} Factors; // 1 is { .constant = 1 }

bool add_factors(Factors *f, const Expr *x); // false: too many, or one is 0 or below
bool add_all_factors(Factors *to, const Factors *from);
bool divide_factors(Factors *f, const Factors *divisor); // takes those of the divisor away; false: it does not divide
bool are_same_factors(Factors a, const Factors *b);
Expr *product_of(Arena *arena, const Factors *f);

#endif
