// SPDX-License-Identifier: MIT
// deepseek_call.h - what the operators of deepseek.h share: checks of the indexer's sizes, how many logits are in memory.
#ifndef KILN_OPS_DEEPSEEK_CALL_H
#define KILN_OPS_DEEPSEEK_CALL_H

#include "ops/call.h"

enum {
    INDEXER_HEADS_MAX = 128,
    INDEXER_ROWS = 512,         // queries at a time, at least
    INDEXER_LOGITS = 128 << 20, // bytes of logits, where that is more of them
};

kiln_status indexer_heads(const Call *call); // HI and DI, which the tensors have bound
kiln_status indexer_topk(const Call *call, int64_t topk);
// Bindings of topk_select: of few rows each has a multiprocessor to itself, and all of its shared memory.
const char *indexer_selection(const Call *call, int64_t rows);
// The size D of latent keys; the scale of attention, with its default.
kiln_status indexer_keys(const Call *call, const double *given, double *scale);

#endif
