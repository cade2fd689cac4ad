// SPDX-License-Identifier: MIT
// emit.h - Loop IR to C or CUDA C text.
#ifndef KILN_EMIT_EMIT_H
#define KILN_EMIT_EMIT_H

#include "ir/loop.h"

typedef struct Dialect Dialect; // print.h
extern const Dialect dialect_c, dialect_cuda;

// A complete source: what it needs of a prelude, functions. Deterministic: equal units give equal texts.
void emit_unit(Text *out, const LoopUnit *unit, const Dialect *dialect);

#endif
