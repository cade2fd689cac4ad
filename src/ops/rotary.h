// SPDX-License-Identifier: MIT
// rotary.h - the rotary embedding of a call (kiln/ops/rotary.h), checked and with its defaults.
#ifndef KILN_OPS_ROTARY_TAKEN_H
#define KILN_OPS_ROTARY_TAKEN_H

#include "kiln/ops/rotary.h"
#include "ops/call.h"

typedef struct Rotary {
    kiln_rotary_style style; // 0: none
    int64_t size, offset;
    double base, scale, low, high, extrapolation, magnitude;
} Rotary;

// Of heads of D elements. With none given, the style is 0 and the other fields have values that kernels take.
kiln_status rotary_take(const Call *call, const kiln_rotary *given, int64_t D, Rotary *r);
// The same where each token has a position of its own, and a sequence of a length only with `has_lengths`, which NTK's styles take.
kiln_status rotary_take_positions(const Call *call, const kiln_rotary *given, int64_t D, int64_t trained_length,
                                  bool has_lengths, Rotary *r);
// The numbers as a kernel's arguments.
void rotary_add(Call *call, const Rotary *r, int64_t trained_length);

#endif
