// SPDX-License-Identifier: MIT
// find_notes.h - performance notes of a kernel's schedule (ir/note.h).
#ifndef KILN_LOWER_GPU_DECIDE_EXPLAIN_FIND_NOTES_H
#define KILN_LOWER_GPU_DECIDE_EXPLAIN_FIND_NOTES_H

#include "lower/gpu/cost/cost.h"
#include "lower/gpu/facts/lowering.h"

const Cost *explain_cost(Lowering *lo, Text *out); // what it is expected to take (NULL: no model); and finds the notes

#endif
