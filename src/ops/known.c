// SPDX-License-Identifier: MIT
// known.c - values by keys of words (known.h). The lock is only tried: a child forked while another thread had it finds
// nothing known for ever, and is right all the same.
#include "ops/known.h"

#include "base/memory.h"

#include <string.h>

typedef struct KnownEntry {
    uint64_t hash;
    int n;
    size_t bytes;
    int64_t words[];
} KnownEntry; // the key, then the value

void known_open(Known *known) { pthread_mutex_init(&known->lock, NULL); }

void known_close(Known *known)
{
    for (int i = 0; i < KNOWN_PLACES; i++) memory_free(known->entries[i]);
    pthread_mutex_destroy(&known->lock);
}

void known_key_begin(KnownKey *key) { key->n = 0, key->hash = 0, key->too_long = false; }

void known_key_word(KnownKey *key, int64_t word)
{
    if (key->n == KNOWN_KEY_WORDS) {
        key->too_long = true;
        return;
    }
    key->words[key->n++] = word;
    key->hash = (key->hash ^ (uint64_t)word) * UINT64_C(0x9E3779B97F4A7C15);
    key->hash ^= key->hash >> 32;
}

void known_key_text(KnownKey *key, const char *text)
{
    size_t left = strlen(text);
    known_key_word(key, (int64_t)left);
    for (; left > 0; left -= left < 8 ? left : 8, text += 8) {
        int64_t word = 0;
        memcpy(&word, text, left < 8 ? left : 8);
        known_key_word(key, word);
    }
}

static KnownEntry **place_of(Known *known, const KnownKey *key) { return &known->entries[key->hash % KNOWN_PLACES]; }

bool known_find(Known *known, const KnownKey *key, void *value, size_t bytes)
{
    if (key->too_long || pthread_mutex_trylock(&known->lock) != 0) return false;
    const KnownEntry *const e = *place_of(known, key);
    const bool found = e && e->hash == key->hash && e->n == key->n && e->bytes == bytes &&
                       memcmp(e->words, key->words, sizeof *e->words * (size_t)e->n) == 0;
    if (found) memcpy(value, e->words + e->n, bytes);
    pthread_mutex_unlock(&known->lock);
    return found;
}

void known_keep(Known *known, const KnownKey *key, const void *value, size_t bytes)
{
    const size_t key_bytes = sizeof(int64_t) * (size_t)key->n;
    KnownEntry *const e = key->too_long ? NULL : memory_alloc(sizeof *e + key_bytes + bytes);
    if (!e) return;
    e->hash = key->hash, e->n = key->n, e->bytes = bytes;
    memcpy(e->words, key->words, key_bytes);
    memcpy(e->words + e->n, value, bytes);
    KnownEntry *old = e; // freed where it finds no place
    if (pthread_mutex_trylock(&known->lock) == 0) {
        old = *place_of(known, key);
        *place_of(known, key) = e;
        pthread_mutex_unlock(&known->lock);
    }
    memory_free(old);
}
