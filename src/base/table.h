// SPDX-License-Identifier: MIT
// table.h - a hash table by address: of interned names, variables, syntax.
#ifndef KILN_BASE_TABLE_H
#define KILN_BASE_TABLE_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct TableSlot {
    const void *key;
    void *value;
} TableSlot;
typedef struct Table {
    Arena *arena;
    TableSlot *slots;
    size_t n_slots, n_keys;
} Table; // of { arena } alone: empty

void **table_at(Table *table, const void *key);        // its value, NULL at first; until the next table_at
void *table_find(const Table *table, const void *key); // NULL: it is not there

#endif
