// SPDX-License-Identifier: MIT
// near.h - the name that was meant: what every "did you mean" of the compiler, the library and the command asks.
#ifndef KILN_BASE_NEAR_H
#define KILN_BASE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

// The candidate nearest to `name`, or NULL if none is near. A candidate that differs only in capitals is the nearest.
const char *nearest_name(const char *name, const char *const *candidates, int n);
// The same among the .tile files and folders beside the file `path`: its last part.
bool nearest_file(const char *path, char *near, size_t bytes);

#endif
