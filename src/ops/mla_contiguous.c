// SPDX-License-Identifier: MIT
// mla_contiguous.c - latent decoding over contiguous caches, of kiln/ops/mla.h over kernels/mla/decode_contiguous.tile.
#include "kiln/ops/mla.h"
#include "ops/attention_call.h"
#include "ops/call.h"

#include <inttypes.h>
#include <math.h>

enum { TILE_HEADS = 64, TILE_HEADS_CPU = 16, SPLITS_MAX = 65536 };

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

static kiln_status prepare(Call *call, const kiln_mla_decode_contiguous_args *a)
{
    double scale;
    const kiln_tensor *const cache = call_without_key_head(call, a->cache, 3);
    const kiln_tensor *const rotary = call_without_key_head(call, a->rotary_cache, 3);
    // clang-format off
    const Want wants[] = {
        { IN,           "q",            a->q,        TYPES_16,      "Q[B][H][512]" },
        { IN,           "q_rotary",     a->q_rotary, 0,             "QP[B][H][64]" },
        { IN,           "cache",        cache,       0,             "KV[B][S][512]" },
        { IN,           "rotary_cache", rotary,      0,             "KP[B][S][64]" },
        { IN_OPTIONAL,  "lengths",      a->lengths,  1 << KILN_I32, "LENGTH[B]" },
        { OUT,          "out",          a->out,      0,             "O[B][H][512]" },
        { OUT_OPTIONAL, "lse",          a->lse,      1 << KILN_F32, "[B][H]" },
    };
    // clang-format on
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = call_scale(call, a->scale, 1 / sqrt(KILN_MLA_KEY), &scale);
    if (!status && (a->splits < 0 || a->splits > SPLITS_MAX))
        status = call_fail(call, KILN_BAD_ARGUMENT,
                           "'splits' is %" PRId64 ", expected 1 to %d, or 0 for a number that fills the device",
                           a->splits, SPLITS_MAX);
    if (!status)
        status =
            call_kernel(call, "mla/decode_contiguous.tile", "mla_decode_contiguous", "T=%s, PAIR=%d%-s%-s",
                        kiln_type_name(a->q->type), pair_of(call), LACKS(a->lengths, "LENGTH"), LACKS(a->lse, "LSE"));
    if (status) return status;
    call_add(call, KILN_INT(a->splits ? a->splits
                                      : attention_splits(call->ops, call_extent(call, "B") * tiles_of_heads(call),
                                                         call_extent(call, "S"), false)));
    call_add(call, KILN_FLOAT(scale));
    return KILN_OK;
}

kiln_status kiln_mla_decode_contiguous_workspace_size(kiln_ops *ops, const kiln_mla_decode_contiguous_args *a,
                                                      size_t *bytes)
{
    Call call;
    kiln_status status =
        call_begin_sizing(&call, "kiln_mla_decode_contiguous_workspace_size", ops, a, sizeof *a, bytes);
    if (!status) status = prepare(&call, a);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_mla_decode_contiguous(kiln_ops *ops, kiln_stream *stream, const kiln_mla_decode_contiguous_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_decode_contiguous", ops, a, sizeof *a);
    if (!status) status = prepare(&call, a);
    return status ? status : call_run(&call, stream, a->workspace, a->workspace_bytes);
}
