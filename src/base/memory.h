// SPDX-License-Identifier: MIT
// memory.h - the one place that asks the C library for memory, so that tests can make any request fail.
#ifndef KILN_BASE_MEMORY_H
#define KILN_BASE_MEMORY_H

#include <stddef.h>

void *memory_alloc(size_t bytes);         // zeroed; NULL when out of memory
void memory_free(void *memory);           // takes NULL
char *memory_copy_text(const char *text); // NULL when out of memory

// For tests: the n-th request from now on fails (0: the next one), and so do all after it; -1: none.
void memory_fail_after(long n);
long memory_live_blocks(void);

#endif
