// SPDX-License-Identifier: MIT
// known.c - values by keys of words (known.h). The lock is only tried: a child forked while another thread had it finds
// nothing known for ever, and is right all the same.
#include "ops/known.h"

#include "base/fork.h"
#include "base/memory.h"
#include "runtime/prepared.h"

#include <string.h>

typedef struct KnownEntry {
    uint64_t hash;
    Prepared *call; // or
    void *kernel;
    int n;
    int64_t words[]; // of the key
} KnownEntry;

static void free_entry(KnownEntry *e)
{
    if (e) prepared_end_use(e->call);
    memory_free(e);
}

void known_open(Known *known) { pthread_mutex_init(&known->lock, NULL); }

void known_close(Known *known)
{
    for (int i = 0; i < KNOWN_PLACES; i++) free_entry(known->entries[i]);
    pthread_mutex_destroy(&known->lock);
}

// Eight characters a word; a word with less ends the text. Texts are short names, so that a loop is faster than strlen.
void known_key_text(KnownKey *key, const char *text)
{
    unsigned char c = 0;
    do {
        uint64_t word = 0;
        for (int shift = 0; shift < 64 && (c = (unsigned char)*text++) != 0; shift += 8) word |= (uint64_t)c << shift;
        known_key_word(key, (int64_t)word);
    } while (c);
}

// Four chains side by side: one multiplication waits for the one before it.
static uint64_t hash_of(const KnownKey *key)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t a = (uint64_t)key->n, b = 1, c = 2, d = 3;
    int i = 0;
    for (; i + 4 <= key->n; i += 4) {
        a = (a ^ (uint64_t)key->words[i]) * factor;
        b = (b ^ (uint64_t)key->words[i + 1]) * factor;
        c = (c ^ (uint64_t)key->words[i + 2]) * factor;
        d = (d ^ (uint64_t)key->words[i + 3]) * factor;
    }
    for (; i < key->n; i++) a = (a ^ a >> 32 ^ (uint64_t)key->words[i]) * factor;
    a = (a ^ a >> 32 ^ b) * factor;
    a = (a ^ a >> 32 ^ c) * factor;
    a = (a ^ a >> 32 ^ d) * factor;
    return a ^ a >> 32;
}

// A key has a few places, so that two that a step's calls need do not take turns in one.
enum { PROBES = 4 };

static KnownEntry **place_of(Known *known, uint64_t hash, int probe)
{
    return &known->entries[(hash + (uint64_t)probe) % KNOWN_PLACES];
}

static bool has_key(const KnownEntry *e, const KnownKey *key)
{
    return e->n == key->n && memcmp(e->words, key->words, sizeof *e->words * (size_t)e->n) == 0;
}

static bool is_of(const KnownEntry *e, uint64_t hash, const KnownKey *key)
{
    return e && e->hash == hash && has_key(e, key);
}

// Where what was found last by a key with the same first word, a name, is noted: mostly it is what is asked for again.
static KnownEntry **recent_of(Known *known, const int64_t *words)
{
    return &known->recent[(uint64_t)words[0] * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}

static const KnownEntry *find_entry(Known *known, const KnownKey *key)
{
    KnownEntry **const recent = recent_of(known, key->words);
    if (*recent && has_key(*recent, key)) return *recent;
    const uint64_t hash = hash_of(key);
    for (int i = 0; i < PROBES; i++) {
        KnownEntry *const e = *place_of(known, hash, i);
        if (is_of(e, hash, key)) return *recent = e;
    }
    return NULL;
}

static void *find(Known *known, const KnownKey *key, bool is_call)
{
    void *found = NULL;
    if (key->is_none || !fork_try_lock(&known->lock)) return NULL;
    const KnownEntry *const e = find_entry(known, key);
    if (e) found = is_call ? (void *)e->call : e->kernel;
    if (found && is_call) prepared_use(e->call);
    pthread_mutex_unlock(&known->lock);
    return found;
}

Prepared *known_call(Known *known, const KnownKey *key) { return find(known, key, true); }
void *known_kernel(Known *known, const KnownKey *key) { return find(known, key, false); }

// In the place of what is known by the same key, in a free one, or in another's.
static KnownEntry *exchange(Known *known, const KnownKey *key, KnownEntry *made)
{
    KnownEntry **at = NULL;
    for (int i = 0; i < PROBES && !at; i++)
        if (is_of(*place_of(known, made->hash, i), made->hash, key)) at = place_of(known, made->hash, i);
    for (int i = 0; i < PROBES && !at; i++)
        if (!*place_of(known, made->hash, i)) at = place_of(known, made->hash, i);
    if (!at) at = place_of(known, made->hash, (int)(made->hash >> 32 & (PROBES - 1)));
    KnownEntry *const old = *at;
    *at = made;
    if (old && *recent_of(known, old->words) == old) *recent_of(known, old->words) = NULL;
    return old;
}

static void keep(Known *known, const KnownKey *key, Prepared *call, void *kernel)
{
    const size_t key_bytes = sizeof(int64_t) * (size_t)key->n;
    KnownEntry *const e = key->is_none ? NULL : memory_alloc(sizeof *e + key_bytes);
    if (!e) {
        prepared_end_use(call);
        return;
    }
    *e = (KnownEntry){ .hash = hash_of(key), .call = call, .kernel = kernel, .n = key->n };
    memcpy(e->words, key->words, key_bytes);
    KnownEntry *old = e; // freed where it finds no place
    if (fork_try_lock(&known->lock)) {
        old = exchange(known, key, e);
        pthread_mutex_unlock(&known->lock);
    }
    free_entry(old);
}

void known_keep_call(Known *known, const KnownKey *key, Prepared *call)
{
    if (call) keep(known, key, call, NULL);
}

void known_keep_kernel(Known *known, const KnownKey *key, void *kernel) { keep(known, key, NULL, kernel); }
