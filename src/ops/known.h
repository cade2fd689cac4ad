// SPDX-License-Identifier: MIT
// known.h - what a handle has found out before and need not find out again: by a key of words, so many bytes.
//
// Calls of a step's operators agree with those of the step before in all but addresses. Which symbols a table of tensors
// binds, and which kernel a text of bindings is, stay the same; both are looked up here. What has no place takes another's.
#ifndef KILN_OPS_KNOWN_H
#define KILN_OPS_KNOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KNOWN_KEY_WORDS = 512, KNOWN_PLACES = 1024 };

typedef struct KnownKey {
    int n;
    bool is_none; // what it would stand for is not looked up, nor kept
    int64_t words[KNOWN_KEY_WORDS];
} KnownKey;
typedef struct Known {
    pthread_mutex_t lock;
    struct KnownEntry *entries[KNOWN_PLACES];
} Known;

void known_open(Known *known);
void known_close(Known *known);

static inline void known_key_begin(KnownKey *key) { key->n = 0, key->is_none = false; }

static inline void known_key_word(KnownKey *key, int64_t word)
{
    if (key->n < KNOWN_KEY_WORDS) key->words[key->n++] = word;
    else key->is_none = true;
}

void known_key_text(KnownKey *key, const char *text); // its bytes: it may be gone the next time

// False: it is not known, or other threads look. A value has at most `most` bytes.
bool known_find(Known *known, const KnownKey *key, void *value, size_t most);
void known_keep(Known *known, const KnownKey *key, const void *value, size_t bytes);

#endif
