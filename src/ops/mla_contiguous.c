// SPDX-License-Identifier: MIT
// mla_contiguous.c - latent decoding over contiguous caches, of kiln/ops/mla.h over kernels/mla/decode_contiguous.tile.
#include "kiln/ops/mla.h"
#include "ops/attention_call.h"
#include "ops/call.h"

#include <inttypes.h>
#include <math.h>

enum { TILE_HEADS = 64, TILE_HEADS_CPU = 16, SPLITS_MAX = 65536 };
enum { BLOCK_KEYS = 64, BLOCKS_AT_ONCE = 32 }; // what the combining kernel takes at once

static int64_t tiles_of_heads(const Call *call)
{
    const int64_t heads = call_extent(call, "H"), tile = ops_on_cpu(call->ops) ? TILE_HEADS_CPU : TILE_HEADS;
    return (heads + tile - 1) / tile;
}

// Tiles that make a cluster and fetch keys together; tiles of builds with checks are smaller.
static int pair_of(const Call *call)
{
    return !ops_on_cpu(call->ops) && !call->ops->options.check && tiles_of_heads(call) % 2 == 0 ? 2 : 1;
}

static bool is_fp8(const kiln_mla_decode_contiguous_args *a) { return a->cache && a->cache->type == KILN_E4M3; }

// So many shares of the keys; or of one block each, where all of them are worked on at once.
static int64_t splits_of(const Call *call, const kiln_mla_decode_contiguous_args *a)
{
    const int64_t tiles = call_extent(call, "B") * tiles_of_heads(call), keys = call_extent(call, "S");
    const int64_t blocks = (keys + BLOCK_KEYS - 1) / BLOCK_KEYS;
    if (a->splits) return a->splits;
    if (!ops_on_cpu(call->ops) && !is_fp8(a) && blocks >= 1 && blocks <= BLOCKS_AT_ONCE &&
        tiles * blocks <= ops_processors(call->ops))
        return blocks;
    return attention_splits(call->ops, tiles, keys, 0, ONE_SHARE);
}

// As the kernel takes it: [B][S][1], where the caller's is [B][S].
static const kiln_tensor *with_column(Call *call, const kiln_tensor *scales)
{
    if (!scales || scales->rank != 2) return scales;
    kiln_tensor made = *scales;
    made.rank = 3;
    made.shape[2] = made.strides[2] = 1;
    return call_keep(call, &made);
}

// The tensors, in the order of the kernel for caches of this type.
static kiln_status check_tensors(Call *call, const kiln_mla_decode_contiguous_args *a)
{
    const kiln_tensor *const cache = call_without_key_head(call, a->cache, 3);
    const kiln_tensor *const rotary = call_without_key_head(call, a->rotary_cache, 3);
    const Want scales = { IN_OPTIONAL, "scales", with_column(call, a->scales), 1 << KILN_F32, "[B][S][1]" };
    Want wants[8] = {
        { IN, "q", a->q, TYPES_16, "Q[B][H][512]" },
        { IN, "q_rotary", a->q_rotary, 0, "QP[B][H][64]" },
        { IN, "cache", cache, is_fp8(a) ? 1 << KILN_E4M3 : 0, "KV[B][S][512]" },
        { IN, "rotary_cache", rotary, 0, "KP[B][S][64]" },
    };
    int n = 4;
    if (is_fp8(a)) wants[n++] = scales;
    wants[n++] = (Want){ IN_OPTIONAL, "lengths", a->lengths, 1 << KILN_I32, "LENGTH[B]" };
    wants[n++] = (Want){ OUT, "out", a->out, 0, "O[B][H][512]" };
    wants[n++] = (Want){ OUT_OPTIONAL, "lse", a->lse, 1 << KILN_F32, "[B][H]" };
    const kiln_status status = call_check(call, wants, n, "workspace", a->workspace, a->workspace_bytes);
    return status || !a->scales || is_fp8(a)
               ? status
               : call_fail(call, KILN_BAD_ARGUMENT, "'scales' is not null, expected NULL with a cache of %s",
                           kiln_type_name(a->cache->type));
}

static kiln_status prepare(Call *call, const void *args)
{
    const kiln_mla_decode_contiguous_args *const a = args;
    double scale;
    kiln_status status = check_tensors(call, a);
    if (!status) status = call_scale(call, a->scale, 1 / sqrt(KILN_MLA_KEY), &scale);
    if (!status && (a->splits < 0 || a->splits > SPLITS_MAX))
        status = call_fail(call, KILN_BAD_ARGUMENT,
                           "'splits' is %" PRId64 ", expected 1 to %d, or 0 for a number that fills the device",
                           a->splits, SPLITS_MAX);
    const int64_t splits = status ? 1 : splits_of(call, a);
    const bool is_one =
        !status && !ops_on_cpu(call->ops) && !call->ops->options.check && call_extent(call, "S") <= splits * BLOCK_KEYS;
    if (!status && is_fp8(a))
        status = call_kernel(call, "mla/decode_contiguous.tile", "mla_decode_contiguous_fp8", "T=%s, PAIR=%d%-s%-s%-s",
                             kiln_type_name(a->q->type), pair_of(call), LACKS(a->scales, "KSCALE"),
                             LACKS(a->lengths, "LENGTH"), LACKS(a->lse, "LSE"));
    else if (!status)
        status = call_kernel(call, "mla/decode_contiguous.tile", "mla_decode_contiguous", "T=%s, PAIR=%d%s%-s%-s",
                             kiln_type_name(a->q->type), pair_of(call), is_one ? ", ONE=true" : "",
                             LACKS(a->lengths, "LENGTH"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(call, KILN_INT(splits));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

static const CallPair mla_decode_contiguous = {
    .name = "kiln_mla_decode_contiguous",
    .size_name = "kiln_mla_decode_contiguous_workspace_size",
    .prepare = prepare,
};

kiln_status kiln_mla_decode_contiguous_workspace_size(kiln_ops *ops, const kiln_mla_decode_contiguous_args *a,
                                                      size_t *bytes)
{
    return pair_size(&mla_decode_contiguous, ops, a, FORM(kiln_mla_decode_contiguous_args), bytes);
}

kiln_status kiln_mla_decode_contiguous(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_contiguous_args *a)
{
    return pair_run(&mla_decode_contiguous, ops, stream, a, FORM(kiln_mla_decode_contiguous_args));
}
