// SPDX-License-Identifier: MIT
// names.h - telling apart variables and buffers that share a name: the first keeps it, the others get a number.
#ifndef KILN_IR_NAMES_H
#define KILN_IR_NAMES_H

#include "ir/loop.h"
#include "ir/tile.h"

typedef struct Names Names;

Names *names_of_kernel(Arena *arena, const TileKernel *kernel);
Names *names_of_unit(Arena *arena, const LoopUnit *unit);
// Which of the things called `name` this is, in the order in which they appear: 1, 2 ... NULL names: 1.
int names_number(const Names *names, const char *name, const void *thing);

void names_print_var(Text *out, const Names *names, const Var *var); // i   i.2   i.3
void names_print_buffer(Text *out, const Names *names, const Buffer *buffer);
void expr_print_named(Text *out, const Names *names, const Expr *x);
void tile_print_head(Text *out, const Names *names, const TileOp *op); // its line, without its bodies
void tile_print_region(Text *out, const Names *names, const Region *region);

#endif
