// SPDX-License-Identifier: MIT
// delinearize.h - subscripts as sums of terms, one of them a component of a linear index times a step: p / by % count * step.
#ifndef KILN_LOWER_GPU_DECIDE_COPY_DELINEARIZE_H
#define KILN_LOWER_GPU_DECIDE_COPY_DELINEARIZE_H

#include "lower/gpu/facts/factors.h"
#include "lower/gpu/facts/lowering.h"

enum { TERMS_MAX = 8 };

typedef struct IndexComponent {
    Expr *p;             // the linear index
    int64_t coefficient; // by which it counts with the row, at least 1
    Factors by, count;
    bool has_count; // else it is the highest
} IndexComponent;

typedef struct Term {
    Expr *x;
    bool minus;
} Term;
typedef struct Terms {
    Term list[TERMS_MAX];
    int n;
} Terms;

bool add_terms(Terms *terms, Expr *x, bool minus); // false: too many
Expr *add_term(Arena *a, Expr *sum, const Term *term);
// Of an index that counts columns from a multiple of their number on, quotients and remainders by such a multiple are the
// first column's: (k*64 + j) / C is k*64 / C, and (k*64 + j) % C is k*64 % C + j.
Expr *split_columns(Arena *a, Expr *x, Var *column, int64_t columns);
bool match_step(Arena *a, Expr *x, Var *row, IndexComponent *component, Expr **step);

#endif
