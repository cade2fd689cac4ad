// SPDX-License-Identifier: MIT
// hash.c - SHA-256 (FIPS 180-4). A cache entry must never be taken for another: a wrong kernel would run.
#include "toolchain/hash.h"

#include <stdio.h>
#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void take_block(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
             h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 =
            h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
        const uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t mixed[8] = { a, b, c, d, e, f, g, h };
    for (int i = 0; i < 8; i++) state[i] += mixed[i];
}

Hash hash_begin(void)
{
    return (Hash){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                              0x5be0cd19 } };
}

void hash_add(Hash *hash, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    size_t held = hash->length % 64;
    hash->length += n;
    if (held && held + n >= 64) {
        const size_t more = 64 - held;
        memcpy(hash->block + held, p, more);
        take_block(hash->state, hash->block);
        p += more, n -= more, held = 0;
    }
    if (!held)
        for (; n >= 64; p += 64, n -= 64) take_block(hash->state, p);
    if (n) memcpy(hash->block + held, p, n);
}

void hash_add_text(Hash *hash, const char *text)
{
    const uint64_t n = text ? strlen(text) : 0;
    hash_add(hash, &n, sizeof n);
    hash_add(hash, text ? text : "", n);
}

void hash_end(Hash *hash, uint8_t digest[HASH_BYTES])
{
    const uint64_t bits = hash->length * 8;
    uint8_t tail[72] = { 0x80 };
    const size_t zeros = (119 - hash->length % 64) % 64; // after the 0x80, up to the 8 bytes of length
    for (int i = 0; i < 8; i++) tail[1 + zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    hash_add(hash, tail, 1 + zeros + 8);
    for (int i = 0; i < HASH_BYTES; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hash_name(Hash *hash, char name[HASH_NAME])
{
    uint8_t digest[HASH_BYTES];
    hash_end(hash, digest);
    for (int i = 0; i < (HASH_NAME - 1) / 2; i++) snprintf(name + 2 * i, 3, "%02x", digest[i]);
}
