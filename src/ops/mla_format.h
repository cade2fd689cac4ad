// SPDX-License-Identifier: MIT
// mla_format.h - the two formats of fp8 caches, as kernels take them (kernels/mla/fp8_format.tile).
#ifndef KILN_OPS_MLA_FORMAT_H
#define KILN_OPS_MLA_FORMAT_H

#include "ops/call.h"

// A cache, in parts that live as long as the call.
typedef struct LatentCache {
    const kiln_tensor *tokens; // of the 656-byte format the cache itself; of the other u8 [pages][page size][576]
    const kiln_tensor *scales; // of the 584-byte format; NULL: of the other
    int64_t apart;             // rows of 8 bytes from a page to the next
} LatentCache;

// How many values a key has: the last dimension of `tensor`, of `rank` dimensions, called `name`; 576 or 512. 576 where the
// tensor is none or `rank` is below 0: the call's table refuses it.
kiln_status latent_keys(const Call *call, const char *name, const kiln_tensor *tensor, int rank, int64_t *keys);
// The parts of a cache of keys of so many values, as `of` has them. NULL: `tokens` is, too, for the call's table to refuse.
// written: `scales` are u8 [pages][page size * 8]; else u8 [N][8], in rows that reach from the first scale to the last.
kiln_status latent_cache(Call *call, const char *name, const kiln_tensor *tensor, int64_t keys, const char *of,
                         bool written, LatentCache *cache);
// The shape of `tokens` in the call's table, with the kernel's name of it.
const char *latent_shape(int64_t keys, bool is_extra);

#endif
