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

enum { KNOWN_KEY_WORDS = 512, KNOWN_PLACES = 128 };

typedef struct KnownKey {
    int64_t words[KNOWN_KEY_WORDS];
    int n;
    uint64_t hash;
    bool too_long;
} KnownKey;
typedef struct Known {
    pthread_mutex_t lock;
    struct KnownEntry *entries[KNOWN_PLACES];
} Known;

void known_open(Known *known);
void known_close(Known *known);

void known_key_begin(KnownKey *key);
void known_key_word(KnownKey *key, int64_t word);
void known_key_text(KnownKey *key, const char *text); // its bytes: it may be gone the next time

// False: it is not known, or another thread looks at this moment.
bool known_find(Known *known, const KnownKey *key, void *value, size_t bytes);
void known_keep(Known *known, const KnownKey *key, const void *value, size_t bytes);

#endif
