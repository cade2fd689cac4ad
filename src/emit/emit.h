// SPDX-License-Identifier: MIT
// emit.h - Loop IR to C or CUDA C text.
#ifndef KILN_EMIT_EMIT_H
#define KILN_EMIT_EMIT_H

#include "ir/loop.h"

typedef struct Dialect Dialect; // print.h
extern const Dialect dialect_c, dialect_cuda;

// A complete source: prelude texts, functions. Deterministic: equal units give equal texts.
void emit_unit(Text *out, const LoopUnit *unit, const Dialect *dialect);

// The texts of src/lower/*/prelude, embedded in the library by the build. NULL if there is none of that name.
const char *prelude_text(const char *name); // "cpu/vector_math", "cuda/barrier" ...

#endif
