// SPDX-License-Identifier: MIT
// count.h - what a kernel has to do, counted from the loops of its reference without running them.
//
// The reference says which multiply-adds make each result, and which elements they take: a causal mask, a window, groups
// and ragged lengths are bounds and conditions of its loops. The count follows the loops. An index on which no bound, no
// condition and no place of an element depends, beyond the plain subscript it is, is not stepped through: what is in its
// loop is counted once, times its steps, with a range for its value. So a product takes a few steps, and causal attention
// one for each query.
//
//     count_values.c   the range of an integer expression
//     count_exact.c    which variables have to be stepped through
//     count_boxes.c    sets of elements
//     count.c          the walk
//     work.c           what is asked: reference or, without one, the tiles of the kernel; values; machines
#ifndef KILN_TOOLS_COUNT_H
#define KILN_TOOLS_COUNT_H

#include "runtime/build.h"

// What is known of a launch.
typedef struct WorkValues {
    const Binding *values;
    int n_values;                      // of shape symbols and scalar arguments
    const kiln_tensor *const *tensors; // by parameter, in host memory; NULL: contents are not known
} WorkValues;

// Of one launch: operations are multiply-adds times two; bytes are those of each element of a tensor that is read, once, and
// of each that is written, once.
typedef struct Work {
    double operations, bytes;
    const char *operations_unknown, *bytes_unknown; // NULL: counted; else why not, and the number means little
    bool at_most;                                   // what is unknown is not more than that
    bool gave_up;                                   // there is more than was looked at
} Work;

Work count_reference(const TileKernel *reference, const WorkValues *values);
// Of a kernel without reference: its products of tiles, as far as tensors fill them; all tensors once.
Work count_tiles(const TileKernel *kernel, const WorkValues *values);

// ---- ranges

typedef struct Interval {
    int64_t lo, hi;
    bool known;
} Interval; // inclusive
typedef struct Ranges {
    const TileKernel *kernel;
    const WorkValues *values;
    Interval *vars; // by Var.id
} Ranges;

Ranges ranges_of(const TileKernel *kernel, const WorkValues *values); // symbols and scalars have their values
Interval interval_of(const Ranges *ranges, const Expr *x);
bool value_of(const Ranges *ranges, const Expr *x, int64_t *value); // exactly one

// ---- which variables

bool *find_exact(const TileKernel *kernel); // by Var.id
bool sides_differ(const Expr *select);      // which side is taken matters for the elements that are read

// ---- sets of elements, as boxes that do not overlap

typedef struct Box {
    int64_t lo[MAX_RANK], hi[MAX_RANK];
} Box; // inclusive
typedef struct Boxes {
    int rank;
    VEC(Box) list;
    int last;       // the box that was met last: the next is often in it, or after it
    int64_t effort; // boxes looked at
    bool scattered; // too many boxes: not counted
} Boxes;
bool boxes_add(Arena *arena, Boxes *boxes, Box box); // true: something was new
double boxes_elements(const Boxes *boxes);

#endif
