// SPDX-License-Identifier: MIT
// arena.h - all memory of one compilation.
//
// Allocation zeroes, never returns NULL and is never freed singly. When memory runs out the arena jumps to
// `out_of_memory`, which whoever made the arena has set with setjmp; so while an arena is in use only arena
// memory may be held: files, handles and locks are taken outside.
#ifndef KILN_BASE_ARENA_H
#define KILN_BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct ArenaBlock ArenaBlock;
typedef struct NameTable NameTable;

typedef struct Arena {
    jmp_buf out_of_memory;
    ArenaBlock *block;      // the newest block; allocation goes on in it
    size_t used_bytes;      // of the newest block
    size_t total_bytes;     // of all blocks
    size_t limit_bytes;     // 0: none; past it the arena counts as out of memory
    ArenaBlock *kept_block; // the same for what no rewind frees
    size_t kept_used_bytes;
    NameTable *names; // of intern.h
} Arena;

typedef struct ArenaMark {
    ArenaBlock *block;
    size_t used_bytes;
} ArenaMark;

Arena *arena_new(void);                             // NULL when out of memory
void arena_free(Arena *arena);                      // takes NULL
void *arena_alloc(Arena *arena, size_t bytes);      // zeroed, aligned to 16
void *arena_alloc_kept(Arena *arena, size_t bytes); // the same, but survives every rewind
ArenaMark arena_mark(const Arena *arena);
void arena_rewind(Arena *arena, ArenaMark mark);                 // frees what came after the mark
char *arena_copy_text(Arena *arena, const char *text, size_t n); // NUL-terminated copy
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *arena, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

// NEW(arena, TileOp, .kind = OP_FILL, ...) gives an initialised object.
#define NEW(arena, Type, ...) ((Type *)memcpy(arena_alloc((arena), sizeof(Type)), &(Type){ __VA_ARGS__ }, sizeof(Type)))
#define NEW_ARRAY(arena, Type, n) ((Type *)arena_alloc((arena), sizeof(Type) * (size_t)(n)))

// A growing array of pointers or plain structs: `items`, `count`, `capacity` are its three fields.
// VEC_PUSH(arena, &vec, item) appends.
#define VEC(Type)                                                                                                      \
    struct {                                                                                                           \
        Type *items;                                                                                                   \
        int count, capacity;                                                                                           \
    }
#define VEC_PUSH(arena, vec, ...)                                                                                      \
    do {                                                                                                               \
        if ((vec)->count == (vec)->capacity) {                                                                         \
            const int more_ = (vec)->capacity ? 2 * (vec)->capacity : 8;                                               \
            void *const new_ = arena_alloc((arena), sizeof(*(vec)->items) * (size_t)more_);                            \
            if ((vec)->count) memcpy(new_, (vec)->items, sizeof(*(vec)->items) * (size_t)(vec)->count);                \
            (vec)->items = new_;                                                                                       \
            (vec)->capacity = more_;                                                                                   \
        }                                                                                                              \
        (vec)->items[(vec)->count++] = __VA_ARGS__;                                                                    \
    } while (0)

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#endif
