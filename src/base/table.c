// SPDX-License-Identifier: MIT
// table.c - open addressing, at most half full; keys are never removed.
#include "base/table.h"

enum { FIRST_SLOTS = 16 };

static TableSlot *find_slot(const Table *table, const void *key)
{
    size_t at = (size_t)((uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    for (;; at++) {
        TableSlot *const slot = &table->slots[at & (table->n_slots - 1)];
        if (!slot->key || slot->key == key) return slot;
    }
}

static void grow(Table *table)
{
    const Table old = *table;
    table->n_slots = old.n_slots ? 2 * old.n_slots : FIRST_SLOTS;
    table->slots = NEW_ARRAY(table->arena, TableSlot, table->n_slots);
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].key) *find_slot(table, old.slots[i].key) = old.slots[i];
}

void **table_at(Table *table, const void *key)
{
    if (2 * table->n_keys >= table->n_slots) grow(table);
    TableSlot *const slot = find_slot(table, key);
    if (!slot->key) table->n_keys++;
    slot->key = key;
    return &slot->value;
}

void *table_find(const Table *table, const void *key) { return table->n_slots ? find_slot(table, key)->value : NULL; }
