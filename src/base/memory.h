// SPDX-License-Identifier: MIT
// memory.h - the one place that asks the C library for memory, so that tests can make any request fail.
#ifndef KILN_BASE_MEMORY_H
#define KILN_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *memory_alloc(size_t bytes); // zeroed; NULL when out of memory
void memory_free(void *memory);   // takes NULL
// Blocks of 128 KB to 1 MB, powers of two, are kept when they are given back, and taken again: then they are not zeroed.
void *memory_take_block(size_t bytes, bool *is_used);
void memory_give_block(void *block, size_t bytes);
char *memory_copy_text(const char *text); // NULL when out of memory

// For tests: the n-th request from now on fails (0: the next one), and so do all after it; -1: none.
void memory_fail_after(long n);
long memory_live_blocks(void);

#endif
