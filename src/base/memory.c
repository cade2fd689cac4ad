// SPDX-License-Identifier: MIT
// memory.c - the one place that asks the C library for memory.
//
// Counting requests costs one atomic addition beside a malloc, which is why it is not a build option: the
// failure tests run the library that ships.
#include "base/memory.h"
#include "base/fork.h"

#include <pthread.h>
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

// ---- blocks that are kept

// So many of SMALLEST_KEPT << class bytes: at most 8 MB.
enum { SMALLEST_KEPT = 128 * 1024, CLASSES = 4, KEPT_MOST = 6 };

static struct {
    pthread_mutex_t lock;
    void *blocks[CLASSES][KEPT_MOST];
    int n[CLASSES];
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };
static const int kept_most[CLASSES] = { 2, 2, 2, KEPT_MOST };

static int class_of(size_t bytes)
{
    for (int c = 0; c < CLASSES; c++)
        if (bytes == (size_t)SMALLEST_KEPT << c) return c;
    return -1;
}

void *memory_take_block(size_t bytes, bool *is_used)
{
    const int c = class_of(bytes);
    void *block = NULL;
    *is_used = false;
    if (c < 0) return memory_alloc(bytes);
    if (must_fail()) return NULL;
    if (fork_try_lock(&kept.lock)) {
        if (kept.n[c] > 0) block = kept.blocks[c][--kept.n[c]];
        pthread_mutex_unlock(&kept.lock);
    }
    *is_used = block != NULL;
    if (!block) block = calloc(1, bytes);
    if (block) atomic_fetch_add(&live_blocks, 1);
    return block;
}

void memory_give_block(void *block, size_t bytes)
{
    const int c = class_of(bytes);
    if (c >= 0 && fork_try_lock(&kept.lock)) {
        const bool keeps = kept.n[c] < kept_most[c];
        if (keeps) kept.blocks[c][kept.n[c]++] = block;
        pthread_mutex_unlock(&kept.lock);
        if (keeps) {
            atomic_fetch_sub(&live_blocks, 1);
            return;
        }
    }
    memory_free(block);
}

char *memory_copy_text(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *const copy = memory_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void memory_fail_after(long n) { atomic_store(&requests_left, n); }

long memory_live_blocks(void) { return atomic_load(&live_blocks); }
