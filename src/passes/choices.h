// SPDX-License-Identifier: MIT
// choices.h - what hoist_choices.c and choose_branches.c know of a forall's body, statement by statement.
#ifndef KILN_PASSES_CHOICES_H
#define KILN_PASSES_CHOICES_H

#include "passes/passes.h"

enum { NODES_MAX = 200, LETS_MAX = 32 };

typedef struct Choices {
    TileKernel *kernel;
    const TileOp *forall;
    const TileOp *lets[LETS_MAX]; // of the body, above the statement
    int n_lets;
    TileOp **link; // of the statement; declarations go before it
} Choices;

// ---- hoist_choices.c
bool is_of_forall(const Expr *x, void *choices);   // an index, or a variable of the body
Expr *with_lets_opened(const Choices *c, Expr *x); // the values of the body's variables in their place; NULL: too large
bool load_is_inside(const Choices *c, const Expr *load); // of a tile, whatever the iteration

// ---- choose_branches.c
// Of the branch at *link; *before: the statement before it, NULL if it is the first. Returns where it begins as a choice.
TileOp **choose_by_select(Choices *c, TileOp *forall, TileOp **link, TileOp **before);

#endif
