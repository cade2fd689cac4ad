// SPDX-License-Identifier: MIT
// hash.h - SHA-256, which names and guards what the cache holds.
#ifndef KILN_TOOLCHAIN_HASH_H
#define KILN_TOOLCHAIN_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct Hash {
    uint32_t state[8];
    uint64_t length; // bytes taken so far
    uint8_t block[64];
} Hash;

enum { HASH_BYTES = 32, HASH_NAME = 41 }; // a name is 40 hexadecimal digits and a NUL

Hash hash_begin(void);
void hash_add(Hash *hash, const void *bytes, size_t n);
void hash_add_text(Hash *hash, const char *text); // its length first, so that joints cannot slip; NULL is ""
void hash_end(Hash *hash, uint8_t digest[HASH_BYTES]);
void hash_name(Hash *hash, char name[HASH_NAME]); // ends the hash, too

#endif
