// SPDX-License-Identifier: MIT
// arena.c - a chain of blocks that only grows, and is cut back or freed as a whole.
//
//   newest block:  [ header | given out ... | free ]  ->  older block  ->  ...
//
// A request that does not fit starts a new block; what was left of the old one is lost, at most a request's
// size. Blocks of freed arenas serve the next ones, because new pages cost a compilation much of its time. There are two
// chains, one that marks cut back and one for what outlives them. In sanitizer builds no block serves again and everything
// not given out is poisoned, so that reading what was rewound or freed is reported.
#include "base/arena.h"
#include "base/memory.h"
#include "base/text.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISON 1
#endif
#endif
#ifdef ARENA_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum { ALIGNMENT = 16, FIRST_BLOCK_BYTES = 16 * 1024, LARGEST_BLOCK_BYTES = 1024 * 1024 };

struct ArenaBlock {
    ArenaBlock *older;
    size_t bytes;         // of data
    size_t written_bytes; // given out before the arena was cut back; what follows is still 0
    _Alignas(ALIGNMENT) char data[];
};

#ifdef ARENA_POISON
static void *take_block(size_t bytes, bool *is_used) { return (void)is_used, memory_alloc(bytes); }
static void give_block(ArenaBlock *block, size_t bytes) { (void)bytes, memory_free(block); }
#else
static void *take_block(size_t bytes, bool *is_used) { return memory_take_block(bytes, is_used); }
static void give_block(ArenaBlock *block, size_t bytes) { memory_give_block(block, bytes); }
#endif

static size_t round_up(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

_Noreturn static void fail(Arena *arena) { longjmp(arena->out_of_memory, 1); }

// Blocks double, so that a small compilation stays small and a large one asks rarely. With their heads they are powers of two.
static size_t next_block_bytes(const ArenaBlock *newest, size_t wanted)
{
    size_t bytes = newest ? 2 * (newest->bytes + sizeof(ArenaBlock)) : FIRST_BLOCK_BYTES;
    if (bytes > LARGEST_BLOCK_BYTES) bytes = LARGEST_BLOCK_BYTES;
    bytes -= sizeof(ArenaBlock);
    return bytes > wanted ? bytes : wanted;
}

static ArenaBlock *add_block(Arena *arena, ArenaBlock *newest, size_t wanted)
{
    const size_t bytes = next_block_bytes(newest, wanted);
    bool is_used = false;
    if (arena->limit_bytes && arena->total_bytes + bytes > arena->limit_bytes) fail(arena);
    ArenaBlock *const block = take_block(sizeof(ArenaBlock) + bytes, &is_used);
    if (!block) fail(arena);
    block->older = newest;
    block->bytes = bytes;
    block->written_bytes = is_used ? bytes : 0;
    arena->total_bytes += bytes;
    ASAN_POISON_MEMORY_REGION(block->data, bytes);
    return block;
}

static void *alloc_in(Arena *arena, ArenaBlock **newest, size_t *used, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) fail(arena);
    const size_t rounded = round_up(bytes ? bytes : 1);
    if (!*newest || (*newest)->bytes - *used < rounded) {
        *newest = add_block(arena, *newest, rounded);
        *used = 0;
    }
    char *const memory = (*newest)->data + *used;
    *used += rounded;
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    return memory < (*newest)->data + (*newest)->written_bytes ? memset(memory, 0, bytes) : memory;
}

static void free_block(Arena *arena, ArenaBlock *block)
{
    arena->total_bytes -= block->bytes;
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->bytes);
    give_block(block, sizeof(ArenaBlock) + block->bytes);
}

// Frees the blocks that are newer than `keep`; `keep` NULL: all.
static void free_newer(Arena *arena, ArenaBlock **newest, const ArenaBlock *keep)
{
    while (*newest != keep) {
        ArenaBlock *const older = (*newest)->older;
        free_block(arena, *newest);
        *newest = older;
    }
}

Arena *arena_new(void) { return memory_alloc(sizeof(Arena)); }

void arena_free(Arena *arena)
{
    if (!arena) return;
    free_newer(arena, &arena->block, NULL);
    free_newer(arena, &arena->kept_block, NULL);
    memory_free(arena);
}

void *arena_alloc(Arena *arena, size_t bytes) { return alloc_in(arena, &arena->block, &arena->used_bytes, bytes); }

void *arena_alloc_kept(Arena *arena, size_t bytes)
{
    return alloc_in(arena, &arena->kept_block, &arena->kept_used_bytes, bytes);
}

ArenaMark arena_mark(const Arena *arena) { return (ArenaMark){ arena->block, arena->used_bytes }; }

void arena_rewind(Arena *arena, ArenaMark mark)
{
    if (mark.block) {
        const size_t used = mark.block == arena->block ? arena->used_bytes : mark.block->bytes;
        if (used > mark.block->written_bytes) mark.block->written_bytes = used;
    }
    free_newer(arena, &arena->block, mark.block);
    arena->used_bytes = mark.used_bytes;
    if (mark.block) ASAN_POISON_MEMORY_REGION(mark.block->data + mark.used_bytes, mark.block->bytes - mark.used_bytes);
}

char *arena_copy_text(Arena *arena, const char *text, size_t n)
{
    char *const copy = arena_alloc(arena, n + 1);
    if (n) memcpy(copy, text, n);
    return copy;
}

char *arena_vprintf(Arena *arena, const char *format, va_list args)
{
    char room[256]; // most fit
    Text text = { .arena = arena, .data = room, .capacity = sizeof room };
    text_vprint(&text, format, args);
    return text.data == room ? arena_copy_text(arena, room, text.length) : text.data;
}

char *arena_printf(Arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *const text = arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}
