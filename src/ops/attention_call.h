// SPDX-License-Identifier: MIT
// attention_call.h - what the operators of attention.h, paged.h and nsa.h share: checks of their options, shares of the keys.
#ifndef KILN_OPS_ATTENTION_CALL_H
#define KILN_OPS_ATTENTION_CALL_H

#include "ops/call.h"

enum {
    ATTENTION_HEAD_MAX = 256, // elements of a head
    SPLITS_CPU_KEYS = 128,    // of a step of a share
    SPLITS_GPU_KEYS = 64,
};

// Head sizes D and DV, counts H and HKV, which the tensors have bound, the window; the scale, with its default.
kiln_status attention_options(const Call *call, int64_t window, const double *given, double *scale);
// 0: scores are not capped.
kiln_status attention_has_heads(const Call *call); // that a key head has query heads, where kernels take them together
kiln_status attention_softcap(const Call *call, double softcap);
// Instances that a multiprocessor has at a time; narrow: with heads up to 64, or keys that are converted.
typedef enum SharesAtOnce { ONE_SHARE, TWO_SHARES, TWO_NARROW_SHARES } SharesAtOnce;

// Of `tiles` instances that have `keys` keys each. `rows`: of the result, over all heads, whose shares are added; 0 where that is
// a small part of the time.
int64_t attention_splits(const kiln_ops *ops, int64_t tiles, int64_t keys, int64_t rows, SharesAtOnce at_once);

// What a forward call is to compute, as far as it tells by which tiles.
typedef struct ForwardShape {
    int64_t batch, queries, keys, heads, size, value_size; // sizes: of a head
    int64_t window;                                        // 0: none
    bool is_causal, is_16_bit, may_divide;                 // may_divide: a workspace is there
    int step_keys;                                         // that fit
} ForwardShape;

// rows: of queries, 0: the kernel's own choice; keys: of a step; splits: instances of a tile, which divide its keys.
typedef struct ForwardTiles {
    int rows, keys;
    int64_t splits;
} ForwardTiles;

ForwardTiles attention_forward_tiles(const kiln_ops *ops, const ForwardShape *shape);

// What a backward call is to compute, as far as it tells how it is divided.
typedef struct GradientShape {
    int64_t batch, queries, keys, heads, key_heads, sizes; // sizes: elements of a head's key and value
    int64_t window;                                        // 0: none
    bool causal;
    int tile_keys; // of an instance
} GradientShape;

// Instances for each tile of keys of a batch, a multiple of the key heads and a divisor of the query heads: each takes its
// part of the query heads that share a key head. The key heads: gradients of keys are not divided.
int64_t attention_gradient_heads(const kiln_ops *ops, const GradientShape *shape);

#endif
