// SPDX-License-Identifier: MIT
// known.h - what a handle has found out before and need not find out again, by a key of words: calls that run again, kernels.
//
// Calls of a step's operators agree with those of the step before in all but addresses. All of a call but addresses is its key,
// and its launches, prepared, are looked up by it. So is a kernel by what the text of its bindings is made from. What has no
// place takes another's.
#ifndef KILN_OPS_KNOWN_H
#define KILN_OPS_KNOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Prepared;

enum { KNOWN_KEY_WORDS = 512, KNOWN_PLACES = 1024 };

typedef struct KnownKey {
    int n;
    bool is_none; // what it would stand for is not looked up, nor kept
    int64_t words[KNOWN_KEY_WORDS];
} KnownKey;
typedef struct Known {
    pthread_mutex_t lock;
    struct KnownEntry *entries[KNOWN_PLACES];
    struct KnownEntry *recent[64]; // of them, by the first word
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

// NULL: it is not known, or other threads look. A prepared call has a use more.
struct Prepared *known_call(Known *known, const KnownKey *key);
void *known_kernel(Known *known, const KnownKey *key);
void known_keep_call(Known *known, const KnownKey *key, struct Prepared *call); // takes its use; NULL: nothing
void known_keep_kernel(Known *known, const KnownKey *key, void *kernel);

#endif
