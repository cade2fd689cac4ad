// SPDX-License-Identifier: MIT
// intern.c - a hash table with linear probing, at most half full; names are never removed.
#include "base/intern.h"

struct NameTable {
    const char **slots;
    size_t n_slots, n_names; // n_slots: a power of two
};

static uint64_t hash_bytes(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static const char **find_slot(const NameTable *table, const char *text, size_t length)
{
    for (size_t i = hash_bytes(text, length);; i++) {
        const char **const slot = &table->slots[i & (table->n_slots - 1)];
        if (!*slot || (strncmp(*slot, text, length) == 0 && (*slot)[length] == 0)) return slot;
    }
}

static NameTable *new_table(Arena *arena, size_t n_slots)
{
    NameTable *const table = arena_alloc_kept(arena, sizeof(NameTable));
    table->slots = arena_alloc_kept(arena, n_slots * sizeof(*table->slots));
    table->n_slots = n_slots;
    return table;
}

static NameTable *grow_table(Arena *arena, const NameTable *old)
{
    NameTable *const table = new_table(arena, 2 * old->n_slots);
    for (size_t i = 0; i < old->n_slots; i++)
        if (old->slots[i]) *find_slot(table, old->slots[i], strlen(old->slots[i])) = old->slots[i];
    table->n_names = old->n_names;
    return table;
}

const char *intern(Arena *arena, const char *text, size_t length)
{
    if (!arena->names) arena->names = new_table(arena, 256);
    if (2 * arena->names->n_names >= arena->names->n_slots) arena->names = grow_table(arena, arena->names);
    const char **const slot = find_slot(arena->names, text, length);
    if (!*slot) {
        char *const name = arena_alloc_kept(arena, length + 1);
        if (length) memcpy(name, text, length);
        *slot = name;
        arena->names->n_names++;
    }
    return *slot;
}

const char *intern_text(Arena *arena, const char *text) { return intern(arena, text, strlen(text)); }
