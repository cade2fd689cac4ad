// SPDX-License-Identifier: MIT
// memory.c - the one place that asks the C library for memory.
//
// Counting requests costs one atomic addition beside a malloc, which is why it is not a build option: the
// failure tests run the library that ships.
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long requests_left = -1; // until failure; -1: never fail
static atomic_long live_blocks;

// True when this request must fail. Once the count is used up it stays at 0, so that later ones fail too.
static int must_fail(void)
{
    long left = atomic_load(&requests_left);
    while (left > 0)
        if (atomic_compare_exchange_weak(&requests_left, &left, left - 1)) return 0;
    return left == 0;
}

void *memory_alloc(size_t bytes)
{
    if (must_fail()) return NULL;
    void *const memory = calloc(1, bytes ? bytes : 1);
    if (memory) atomic_fetch_add(&live_blocks, 1);
    return memory;
}

void memory_free(void *memory)
{
    if (memory) atomic_fetch_sub(&live_blocks, 1);
    free(memory);
}

char *memory_copy_text(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *const copy = memory_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void memory_fail_after(long n) { atomic_store(&requests_left, n); }

long memory_live_blocks(void) { return atomic_load(&live_blocks); }
