// SPDX-License-Identifier: MIT
// intern.h - one pointer per spelling, so that names compare with ==.
//
// The table belongs to the arena: all modules of a program are parsed into one arena, and so share their names.
// Names survive arena_rewind.
#ifndef KILN_BASE_INTERN_H
#define KILN_BASE_INTERN_H

#include "base/arena.h"

const char *intern(Arena *arena, const char *text, size_t length);
const char *intern_text(Arena *arena, const char *text); // NUL-terminated

#endif
