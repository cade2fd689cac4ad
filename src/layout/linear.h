// SPDX-License-Identifier: MIT
// linear.h - the algebra of layouts: maps that compose, invert and divide.
//
// A layout is a function between tuples of small numbers: from (register, lane, warp, group) to the coordinates of a
// tile. All layouts of this compiler are linear: each number is written in mixed radix, and every digit of an input
// adds its value times a stride to one output. Such a digit with its two places is a mode:
//
//     out[mode.out] += (in[mode.in] / mode.in_stride) % mode.extent * mode.out_stride       summed over the modes
//
// With extents of 2 only, and outputs whose digits do not carry into each other, this is a matrix of bits over F2
// ("Linear Layouts", Zhou and others 2025, as in Triton); with any extents it is the algebra of shapes and strides of
// CuTe (Cecka). Modes of any extent are needed here for 80 = 5 x 16 rows and for three warp groups. What CuTe calls a
// logical divide is layout_divide; the XOR of swizzled shared memory stays outside (SharedLayout).
//
//   divide    a mode of extent a*b is the same as two of extents a and b, the second at a times the strides
//   compose   outer after inner: divide both where the other has a mode's end; then every digit that inner writes is
//             one that outer reads, and the two modes become one
//   invert    exchange the two places of every mode
//   split     composition with the map that takes one coordinate apart (layout_split does it to a Layout directly)
//
// Functions that can be impossible return the reason, or NULL when the result is there. Impossible is: a result whose
// digits would carry; radices with no common refinement, as 6 = 2 x 3 and 6 = 3 x 2; too many modes.
#ifndef KILN_LAYOUT_LINEAR_H
#define KILN_LAYOUT_LINEAR_H

#include "layout/layout.h"

enum { MAP_MAX_MODES = 48 };

typedef struct MapMode {
    int in, in_stride;
    int extent;          // never 1
    int out, out_stride; // out: REPLICATED, if the digit moves nothing
} MapMode;

typedef struct LinearMap {
    int n_in, n_out; // numbers
    int n;
    MapMode mode[MAP_MAX_MODES]; // in any order
} LinearMap;

typedef enum MapSide { MAP_IN, MAP_OUT } MapSide;

// ---- making
LinearMap map_new(int n_in, int n_out);
const char *map_add(LinearMap *map, MapMode mode); // nothing, if the extent is 1
// Inputs IN_REGISTER .. IN_GROUP, outputs the coordinates. What of the lanes and the partition has no mode replicates.
const char *layout_map(const Layout *layout, Partition partition, LinearMap *map);

// ---- the algebra
void map_at(const LinearMap *map, const int *in, int *out);
// So that no mode runs across `cut` on this number of this side.
const char *layout_divide(LinearMap *map, MapSide side, int number, int cut);
// map_at(result, x) = map_at(outer, map_at(inner, x)) for every x. result may be one of both.
const char *layout_compose(const LinearMap *outer, const LinearMap *inner, LinearMap *result);
// map_at(map, map_at(result, y)) = y for every y that the map reaches. Replicated digits of the input are 0.
const char *layout_invert(const LinearMap *map, LinearMap *result);

// ---- asking
bool map_is_identity(const LinearMap *map); // of as many numbers; replicated digits do not matter
// The mode at a place of one side, or NULL; it may be longer or shorter than the reader wants.
const MapMode *map_mode_at(const LinearMap *map, MapSide side, int number, int stride);

#endif
