// SPDX-License-Identifier: MIT
// sweep_masked.c - family masked: kiln_masked_decode, a decoding step of a layer with rotary embedding and the new token
// appended, over a cache whose pages lie in any order. Rows have from half of S cached tokens to S (shape_length).
#include "kiln/ops/decode.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

static const char *const ranges[] = {
    "H/HKV/D: 32/8/128 32/8/128 64/8/128 8/1/128 16/2/128 40/8/128 64/4/128 64/8/64 16/8/256 32/32/128",
    "PAGE: 16 64 64 128",
    "B: 1 4 8 16 32 64 128 1..256",
    "S: 512 1000 2048 4096 8192 16384 32768 1..8192",
    "T/TK: bf16/bf16 f16/f16 bf16/e4m3",
    NULL
};
static const char *const small[] = { "H/HKV/D: 4/1/64 4/4/64 8/2/128", "PAGE: 16 64", "B: 1 3", "S: 64 1..300",
                                     "T/TK: bf16/bf16 f32/f32",        NULL };

typedef struct Sizes {
    int64_t B, S, H, HKV, D, page, each; // each: pages of a row
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    const int64_t S = shape_get(s, "S"), page = shape_get(s, "PAGE");
    return (Sizes){ shape_get(s, "B"), S,    shape_get(s, "H"), shape_get(s, "HKV"),
                    shape_get(s, "D"), page, (S + page) / page }; // the new token has a place, too
}

static double operations(const Shape *s)
{
    (void)s;
    return 0; // bound by memory
}

static double bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    double tokens = 0;
    for (int64_t b = 0; b < x.B; b++) tokens += (double)shape_length(x.S, b);
    return 2 * tokens * (double)(x.HKV * x.D) * shape_type_bytes(s, "TK") +
           shape_type_bytes(s, "T") * (double)(x.B * (2 * x.H + 2 * x.HKV) * x.D);
}

// Block i of the table, [B][2][each], in the order of a multiplication by a number that has no factor in common with theirs.
static int64_t block_at(const Sizes *x, int64_t i)
{
    const int64_t n = x->B * 2 * x->each, step = n % 7919 ? 7919 : 1;
    return i * step % n;
}

typedef struct Args {
    kiln_masked_decode_args step;
    kiln_rotary rotary;
} Args;

static void prepare(SweepCase *c)
{
    Args *const own = sweep_own(c, sizeof *own);
    kiln_masked_decode_args *const args = &own->step;
    const Sizes x = sizes_of(&c->shape);
    const kiln_type type = shape_type(&c->shape, "T"), cached = shape_type(&c->shape, "TK");
    int32_t *const table = sweep_integers(c, x.B * 2 * x.each), *const lengths = sweep_integers(c, x.B);
    for (int64_t i = 0; table && i < x.B * 2 * x.each; i++) table[i] = (int32_t)block_at(&x, i);
    for (int64_t b = 0; lengths && b < x.B; b++) lengths[b] = (int32_t)shape_length(x.S, b);
    own->rotary.style = KILN_ROTARY_HALVES;
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(x.B, x.H, x.D))->tensor;
    args->k = &sweep_normal(c, "k", type, 1, EXTENTS(x.B, x.HKV, x.D))->tensor;
    args->v = &sweep_normal(c, "v", type, 1, EXTENTS(x.B, x.HKV, x.D))->tensor;
    SweepTensor *const cache = sweep_normal(c, "cache", cached, 1, EXTENTS(x.B * 2 * x.each, x.HKV, x.page, x.D));
    args->cache = &sweep_in_place(c, cache)->tensor;
    args->table = &sweep_made(c, "table", KILN_I32, table, EXTENTS(x.B, 2, x.each))->tensor;
    args->lengths = &sweep_made(c, "lengths", KILN_I32, lengths, EXTENTS(x.B))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(x.B, x.H, x.D))->tensor;
    args->rotary = &own->rotary;
    args->max_length = x.S;
    SWEEP_WORKSPACE(c, kiln_masked_decode, args);
}

static kiln_status call(SweepCase *c) { return kiln_masked_decode(c->ops, NULL, &((Args *)c->own)->step); }

static void refer(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    sweep_refer(
        c, "decode/masked.tile", "masked_mha",
        "T=%s, TC=%s, DH=%d, G=%d, TB=%d, Q=q, K=k, V=v, LENGTH=lengths, TABLE=table, POOL=cache, O=out, splits=1, "
        "limit=%d, ring=%d, beams=1, scale=%.17g, max_distance=0, count_prefix=1, base=10000, rscale=1, low=1, "
        "high=4, extra=1, mscale=1, offset=0, max_pos=1",
        sweep_type(c, "q"), sweep_type(c, "cache"), (int)x.D, (int)(x.H / x.HKV), (int)x.page, (int)(x.each * x.page),
        (int)(x.each * x.page), 1 / sqrt((double)x.D));
}

const SweepFamily sweep_masked = {
    .name = "masked",
    .about =
        "kiln_masked_decode: rotary embedding, attention over pages, the new token appended; peer: FlashInfer's attention alone, "
        "on a CPU PyTorch's over gathered pages",
    .ranges = ranges,
    .small = small,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
    .samples = 16, // of all heads of a key head each
    .slack = 2,
};
