// SPDX-License-Identifier: MIT
// latent.h - what the tests of latent attention share: plans, tokens of a cache, and a reference that can follow at full size.
//
// The kernels' references take an hour for 128 requests of 32768 keys. But here tokens are copies of KINDS: a sum over the
// tokens that a row sees is one over KINDS, each as often as the row sees it, and every element can be compared. The kernels
// do not know. mla_sparse_test holds these sums against a kernel's reference.
#ifndef KILN_TESTS_OPS_LATENT_H
#define KILN_TESTS_OPS_LATENT_H

#include "support.h"

kiln_mla_plan make_plan(const kiln_mla_shape *shape, const kiln_tensor *lengths); // in memory of its own
kiln_mla_plan make_plan_in(Array *memory, const kiln_mla_shape *shape, const kiln_tensor *lengths);

enum { KINDS = 127 };
typedef struct Pool {
    Array *tokens;  // [KINDS][row], of which only the mirror counts
    double *values; // what readers make of them
    int row;        // values of a token
} Pool;
Pool make_pool(kiln_type type, int row);
Pool make_fp8_pool(bool round_scales);
Pool make_short_pool(void);                                             // of the 584-byte format
void put_token(Array *cache, int64_t slot, const Pool *pool, int kind); // into the mirror

// A cache of the 584-byte format whose pages are `stride` bytes apart: memory of u8 [pages][stride], and its tensor.
typedef struct ShortCache {
    Array *memory;
    kiln_tensor tensor;
    int64_t page_size, stride;
} ShortCache;
ShortCache make_short_cache(int64_t pages, int64_t page_size, int64_t stride);
unsigned char *short_token(const ShortCache *cache, int64_t slot);  // in the mirror: 576 bytes
unsigned char *short_scales(const ShortCache *cache, int64_t slot); // 8 bytes
void put_short_token(const ShortCache *cache, int64_t slot, const Pool *pool, int kind);

// A row of attention: q of `size` numbers over tokens of all kinds, `counts` of each; keys stand `stride` values apart, the
// first KILN_MLA_VALUE numbers of one are its value. Natural logarithms. A sink: -INFINITY for none.
typedef struct Attended {
    double out[KILN_MLA_VALUE], lse, top;
} Attended;
void attend(Attended *restrict result, const double *q, const double *restrict keys, int stride,
            const int32_t counts[KINDS], int size, double scale, double sink);

// Values have the size of those in FlashMLA's tests, whose tolerances are absolute, too: a standard deviation of 0.1.
// Token `slot` of a cache in the 656-byte format, at random, with scales that bf16 cannot hold; and the 576 values that
// readers make of it: products in f32, rounded once to bf16.
void fp8_token(Array *cache, int64_t slot, double *values, bool round_scales);

#endif
