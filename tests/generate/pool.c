// SPDX-License-Identifier: MIT
// pool.c - memory that is freed as a whole, and text that grows.
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Block {
    struct Block *next;
    size_t used;
    char bytes[65536];
} Block;
struct Pool {
    Block *blocks;
    struct Large {
        struct Large *next;
        max_align_t bytes[];
    } * large;
};

static void *must(void *memory)
{
    if (memory) return memory;
    fputs("generated_programs: out of memory\n", stderr);
    exit(2);
}

Pool *pool_new(void) { return must(calloc(1, sizeof(Pool))); }

void pool_free(Pool *pool)
{
    if (!pool) return;
    for (Block *b = pool->blocks, *next; b; b = next) next = b->next, free(b);
    for (struct Large *l = pool->large, *next; l; l = next) next = l->next, free(l);
    free(pool);
}

void *pool_take(Pool *pool, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    if (bytes > sizeof pool->blocks->bytes / 4) {
        struct Large *const large = must(calloc(1, sizeof *large + bytes));
        large->next = pool->large;
        pool->large = large;
        return large->bytes;
    }
    if (!pool->blocks || pool->blocks->used + bytes > sizeof pool->blocks->bytes) {
        Block *const block = must(calloc(1, sizeof *block));
        block->next = pool->blocks;
        pool->blocks = block;
    }
    void *const memory = pool->blocks->bytes + pool->blocks->used;
    pool->blocks->used += bytes;
    return memory;
}

void write_text(Writer *writer, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    const int n = vsnprintf(NULL, 0, format, list);
    if (writer->n + (size_t)n + 1 > writer->room) {
        writer->room = 2 * (writer->n + (size_t)n + 1);
        writer->text = must(realloc(writer->text, writer->room));
    }
    vsnprintf(writer->text + writer->n, (size_t)n + 1, format, again);
    writer->n += (size_t)n;
    va_end(again);
    va_end(list);
}
