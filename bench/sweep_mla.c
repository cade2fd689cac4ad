// SPDX-License-Identifier: MIT
// sweep_mla.c - families mla, mla-sparse, mla-prefill and indexer: latent attention, dense over pages, over lists of an
// fp8 cache, over lists of prompts; and DeepSeek's indexer, selection and attention in one call.
#include "kiln/ops/deepseek.h"
#include "kiln/ops/mla.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

enum { KEY = KILN_MLA_KEY, VALUE = KILN_MLA_VALUE, TOKEN = KILN_MLA_FP8_BYTES, GROUP = 128, PAGE = 64 };

static double get(const Shape *s, const char *name) { return (double)shape_get(s, name); }
static double scale_of_key(void) { return 1 / sqrt((double)KEY); }

// Entry i of lists over `rows` rows: none twice in a list that is shorter than them.
static int64_t listed(int64_t i, int64_t topk, int64_t rows)
{
    const int64_t step = rows % 7919 ? 7919 : 1;
    return (i % topk * step + i / topk * 131) % rows;
}

// ---- dense decoding

static const char *const dense_ranges[] = {
    // DeepSeek V3: 128 heads, or a share of them on each of 2, 4, 8 devices; requests with R new tokens
    "H: 128 128 64 32 16", "B/R: 1/1 4/1 16/1 64/1 128/1 128/2 1..256/1 32/2",
    "S: 1024 4096 4096 8192 16384 32768 1..32768 1..8192", "T: bf16 bf16 f16", NULL
};
static const char *const dense_small[] = { "H: 16 8", "B/R: 1/1 2/2 4/1", "S: 64..512 100", "T: bf16 f16", NULL };

static double keys_of(const Shape *s)
{
    double sum = 0;
    for (int64_t b = 0; b < shape_get(s, "B"); b++) sum += (double)shape_length(shape_get(s, "S"), b);
    return sum;
}

static double dense_operations(const Shape *s) { return 2.0 * (KEY + VALUE) * get(s, "R") * get(s, "H") * keys_of(s); }

static double dense_bytes(const Shape *s)
{
    return 2.0 * KEY * keys_of(s) + 2.0 * (KEY + VALUE) * get(s, "B") * get(s, "R") * get(s, "H");
}

static int64_t pages_of(const Shape *s) { return (shape_get(s, "S") + PAGE - 1) / PAGE; }

static int64_t page_at(const Shape *s, int64_t i) { return listed(i, INT64_MAX, shape_get(s, "B") * pages_of(s)); }

typedef struct DecodeArgs {
    kiln_mla_shape shape;
    kiln_mla_plan plan;
    kiln_mla_decode_args dense;
    kiln_mla_decode_sparse_args sparse;
} DecodeArgs;

static void make_plan(SweepCase *c, DecodeArgs *args, const kiln_tensor *lengths)
{
    kiln_mla_plan_args make = { .shape = &args->shape, .lengths = lengths };
    if (!c->status) sweep_try(c, kiln_mla_plan_size(c->ops, &args->shape, &make.memory_bytes));
    if (!c->status) make.memory = sweep_workspace(c, make.memory_bytes);
    if (!c->status) sweep_try(c, kiln_mla_plan_make(c->ops, NULL, &make, &args->plan));
}

static void prepare_dense(SweepCase *c)
{
    DecodeArgs *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), R = shape_get(s, "R"), H = shape_get(s, "H"), each = pages_of(s);
    const kiln_type type = shape_type(s, "T");
    int32_t *const table = sweep_integers(c, B * each), *const lengths = sweep_integers(c, B);
    for (int64_t i = 0; table && i < B * each; i++) table[i] = (int32_t)page_at(s, i);
    for (int64_t b = 0; lengths && b < B; b++) lengths[b] = (int32_t)shape_length(shape_get(s, "S"), b);
    kiln_mla_decode_args *const d = &args->dense;
    d->q = &sweep_normal(c, "q", type, 1, EXTENTS(B, R, H, KEY))->tensor;
    d->cache = &sweep_normal(c, "cache", type, 1, EXTENTS(B * each, PAGE, 1, KEY))->tensor;
    d->table = &sweep_made(c, "table", KILN_I32, table, EXTENTS(B, each))->tensor;
    d->lengths = &sweep_made(c, "lengths", KILN_I32, lengths, EXTENTS(B))->tensor;
    d->out = &sweep_output(c, "out", type, true, EXTENTS(B, R, H, VALUE))->tensor;
    args->shape = (kiln_mla_shape){ .batch = B, .queries = R, .query_heads = H };
    make_plan(c, args, d->lengths);
    d->plan = &args->plan;
    SWEEP_WORKSPACE(c, kiln_mla_decode, d);
}

static kiln_status call_dense(SweepCase *c) { return kiln_mla_decode(c->ops, NULL, &((DecodeArgs *)c->own)->dense); }

static void refer_dense(SweepCase *c)
{
    sweep_refer(c, "mla/decode.tile", "mla_decode_planned",
                "T=%s, PS=%d, Q=q, CACHE=cache, TABLE=table, LENGTH=lengths, O=out, parts=1, scale=%.17g",
                sweep_type(c, "q"), PAGE, scale_of_key());
}

const SweepFamily sweep_mla = {
    .name = "mla",
    .about = "kiln_mla_decode with its plan made, pages of 64; peer: FlashMLA or FlashInfer, on a CPU PyTorch",
    .ranges = dense_ranges,
    .small = dense_small,
    .operations = dense_operations,
    .bytes = dense_bytes,
    .prepare = prepare_dense,
    .call = call_dense,
    .refer = refer_dense,
    .slack = 2,
};

// ---- decoding over lists, of a cache of 656-byte tokens that each request has S of

static const char *const sparse_ranges[] = {
    "H: 128 64", "B/R: 1/1 2/2 4/1 32/1 64/2 74/2 128/1 128/2 1..128/1",
    "S/TOPK: 8192/2048 32768/2048 65536/2048 32768/2048 32768/1024 32768/4096 2048..65536/2048", NULL
};
static const char *const sparse_small[] = { "H: 64 128", "B/R: 1/1 2/2", "S/TOPK: 256/64 300/128", NULL };

static double sparse_operations(const Shape *s)
{
    return 2.0 * (KEY + VALUE) * get(s, "B") * get(s, "R") * get(s, "H") * get(s, "TOPK");
}

// With the cache, which must fit.
static double sparse_bytes(const Shape *s)
{
    return get(s, "B") * (get(s, "S") * TOKEN + get(s, "R") * get(s, "H") * 2 * (KEY + VALUE));
}

static void prepare_sparse(SweepCase *c)
{
    DecodeArgs *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), R = shape_get(s, "R"), H = shape_get(s, "H"),
                  S = (shape_get(s, "S") + PAGE - 1) / PAGE * PAGE;
    const int64_t topk = shape_get(s, "TOPK");
    size_t piece = 0;
    const char *const tokens = latent_tokens(&piece);
    char *const cache = malloc((size_t)(B * S) * TOKEN + 1);
    int32_t *const lists = sweep_integers(c, B * R * topk);
    for (size_t at = 0, all = (size_t)(B * S) * TOKEN; cache && tokens && at < all; at += piece)
        memcpy(cache + at, tokens, all - at < piece ? all - at : piece);
    for (int64_t i = 0; lists && i < B * R * topk; i++) lists[i] = (int32_t)(i / topk / R * S + listed(i, topk, S));
    kiln_mla_decode_sparse_args *const d = &args->sparse;
    d->q = &sweep_normal(c, "q", KILN_BF16, 1, EXTENTS(B, R, H, KEY))->tensor;
    d->cache = &sweep_made(c, "cache", KILN_U8, cache, EXTENTS(B * S / PAGE, PAGE, TOKEN))->tensor;
    d->indices = &sweep_made(c, "indices", KILN_I32, lists, EXTENTS(B, R, topk))->tensor;
    d->out = &sweep_output(c, "out", KILN_BF16, true, EXTENTS(B, R, H, VALUE))->tensor;
    args->shape = (kiln_mla_shape){ .batch = B, .queries = R, .query_heads = H, .topk = topk };
    make_plan(c, args, NULL);
    d->plan = &args->plan;
    SWEEP_WORKSPACE(c, kiln_mla_decode_sparse, d);
}

static kiln_status call_sparse(SweepCase *c)
{
    return kiln_mla_decode_sparse(c->ops, NULL, &((DecodeArgs *)c->own)->sparse);
}

static void refer_sparse(SweepCase *c)
{
    sweep_refer(c, "mla/decode_fp8.tile", "mla_decode_fp8_planned",
                "Q=q, CACHE=cache, INDEX=indices, O=out, parts=1, topk2=0, scale=%.17g, apart=0, apart2=0",
                scale_of_key());
}

const SweepFamily sweep_mla_sparse = {
    .name = "mla-sparse",
    .about = "kiln_mla_decode_sparse over an fp8 cache, with its plan made; peer: FlashMLA, where its module is",
    .ranges = sparse_ranges,
    .small = sparse_small,
    .operations = sparse_operations,
    .bytes = sparse_bytes,
    .prepare = prepare_sparse,
    .call = call_sparse,
    .refer = refer_sparse,
    .samples = 4, // of all heads each
    .slack = 2,
};

// ---- prompts over lists

static const char *const prefill_ranges[] = {
    "H: 128 128 64", "S/SKV: 4096/8192 4096/32768 4096/131072 1024/8192 1..4096/8192 512/2048..65536",
    "TOPK: 2048 2048 1024 512", NULL
};
static const char *const prefill_small[] = { "H: 64 128", "S/SKV: 4/300 9/200 1/128", "TOPK: 64 128", NULL };

static double prefill_operations(const Shape *s)
{
    return 2.0 * (KEY + VALUE) * get(s, "S") * get(s, "H") * get(s, "TOPK");
}

static double prefill_bytes(const Shape *s)
{
    return 2.0 * KEY * get(s, "SKV") + get(s, "S") * (2.0 * (KEY + VALUE) * get(s, "H") + 4 * get(s, "TOPK"));
}

static void prepare_prefill(SweepCase *c)
{
    kiln_mla_prefill_sparse_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t S = shape_get(s, "S"), SKV = shape_get(s, "SKV"), H = shape_get(s, "H"), topk = shape_get(s, "TOPK");
    int32_t *const lists = sweep_integers(c, S * topk);
    for (int64_t i = 0; lists && i < S * topk; i++) lists[i] = (int32_t)listed(i, topk, SKV);
    args->q = &sweep_normal(c, "q", KILN_BF16, 1, EXTENTS(S, H, KEY))->tensor;
    args->kv = &sweep_normal(c, "kv", KILN_BF16, 1, EXTENTS(SKV, KEY))->tensor;
    args->indices = &sweep_made(c, "indices", KILN_I32, lists, EXTENTS(S, topk))->tensor;
    args->out = &sweep_output(c, "out", KILN_BF16, true, EXTENTS(S, H, VALUE))->tensor;
}

static kiln_status call_prefill(SweepCase *c) { return kiln_mla_prefill_sparse(c->ops, NULL, c->own); }

static void refer_prefill(SweepCase *c)
{
    sweep_refer(c, "mla/prefill.tile", "mla_prefill_sparse", "Q=q, KV=kv, INDEX=indices, O=out, scale=%.17g",
                scale_of_key());
}

const SweepFamily sweep_mla_prefill = {
    .name = "mla-prefill",
    .about = "kiln_mla_prefill_sparse; peer: FlashMLA, where its module is; on a CPU PyTorch over gathered rows",
    .ranges = prefill_ranges,
    .small = prefill_small,
    .operations = prefill_operations,
    .bytes = prefill_bytes,
    .prepare = prepare_prefill,
    .call = call_prefill,
    .refer = refer_prefill,
    .slack = 2,
};

// ---- the indexer's logits, which the selection reads

static const char *const indexer_ranges[] = { "HI/DI: 64/128 64/128 32/64",
                                              "S/SKV: 4096/8192 4096/32768 1024/65536 64/16384 1..4096/1..32768",
                                              NULL };
static const char *const indexer_small[] = { "HI/DI: 8/32 16/64", "S/SKV: 16/100 1/64..500", NULL };

static double indexer_operations(const Shape *s)
{
    return 2 * get(s, "S") * get(s, "SKV") * get(s, "HI") * get(s, "DI");
}

static double indexer_bytes(const Shape *s)
{
    return get(s, "S") * get(s, "HI") * (get(s, "DI") + 4) + get(s, "SKV") * (get(s, "DI") + 4) +
           4 * get(s, "S") * get(s, "SKV");
}

static void prepare_indexer(SweepCase *c)
{
    kiln_indexer_logits_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t S = shape_get(s, "S"), SKV = shape_get(s, "SKV"), HI = shape_get(s, "HI"), DI = shape_get(s, "DI");
    args->q = &sweep_normal(c, "q", KILN_E4M3, 1, EXTENTS(S, HI, DI))->tensor;
    args->k = &sweep_normal(c, "k", KILN_E4M3, 1, EXTENTS(SKV, DI))->tensor;
    args->k_scales = &sweep_uniform(c, "scales", KILN_F32, 0.5, 1.5, EXTENTS(SKV))->tensor;
    args->weights = &sweep_uniform(c, "weights", KILN_F32, 0, 1, EXTENTS(S, HI))->tensor;
    args->logits = &sweep_output(c, "logits", KILN_F32, true, EXTENTS(S, SKV))->tensor;
}

static kiln_status call_indexer(SweepCase *c) { return kiln_indexer_logits(c->ops, NULL, c->own); }

static void refer_indexer(SweepCase *c)
{
    sweep_refer(c, "topk/indexer.tile", "indexer_logits", "H=%d, D=%d, Q=q, K=k, KSCALE=scales, W=weights, L=logits",
                (int)shape_get(&c->shape, "HI"), (int)shape_get(&c->shape, "DI"));
}

const SweepFamily sweep_indexer = {
    .name = "indexer",
    .about = "kiln_indexer_logits of DeepSeek's sparse attention; peer: none is on PyPI",
    .ranges = indexer_ranges,
    .small = indexer_small,
    .operations = indexer_operations,
    .bytes = indexer_bytes,
    .prepare = prepare_indexer,
    .call = call_indexer,
    .refer = refer_indexer,
};

// ---- decoding over a contiguous cache, latent and rotary parts apart

static const char *const contiguous_ranges[] = { "H: 128 64 16", "B: 1 1 8 32 64 128 1..128",
                                                 "S: 1024 4096 8192 16384 32768 1..32768", "T: bf16 bf16 f16", NULL };
static const char *const contiguous_small[] = { "H: 16 8", "B: 1 2 5", "S: 64..512 100", "T: bf16 f16", NULL };

static double contiguous_operations(const Shape *s)
{
    return 2.0 * (KEY + VALUE) * get(s, "B") * get(s, "H") * get(s, "S");
}
static double contiguous_bytes(const Shape *s)
{
    return 2.0 * get(s, "B") * (KEY * get(s, "S") + (KEY + VALUE) * get(s, "H"));
}

static void prepare_contiguous(SweepCase *c)
{
    kiln_mla_decode_contiguous_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), H = shape_get(s, "H"), S = shape_get(s, "S");
    const kiln_type type = shape_type(s, "T");
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(B, H, VALUE))->tensor;
    args->q_rotary = &sweep_normal(c, "q_rotary", type, 1, EXTENTS(B, H, KEY - VALUE))->tensor;
    args->cache = &sweep_normal(c, "cache", type, 1, EXTENTS(B, S, VALUE))->tensor;
    args->rotary_cache = &sweep_normal(c, "rotary", type, 1, EXTENTS(B, S, KEY - VALUE))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(B, H, VALUE))->tensor;
    SWEEP_WORKSPACE(c, kiln_mla_decode_contiguous, args);
}

static kiln_status call_contiguous(SweepCase *c) { return kiln_mla_decode_contiguous(c->ops, NULL, c->own); }

static void refer_contiguous(SweepCase *c)
{
    sweep_refer(c, "mla/decode_contiguous.tile", "mla_decode_contiguous",
                "T=%s, Q=q, QP=q_rotary, KV=cache, KP=rotary, O=out, splits=1, scale=%.17g", sweep_type(c, "q"),
                scale_of_key());
}

const SweepFamily sweep_mla_contiguous = {
    .name = "mla-contiguous",
    .about =
        "kiln_mla_decode_contiguous, latent and rotary parts apart; peer: FlashInfer over pages in order, on a CPU PyTorch",
    .ranges = contiguous_ranges,
    .small = contiguous_small,
    .operations = contiguous_operations,
    .bytes = contiguous_bytes,
    .prepare = prepare_contiguous,
    .call = call_contiguous,
    .refer = refer_contiguous,
    .slack = 2,
};

// ---- DeepSeek's sparse attention whole: indexer, selection, attention over what was selected. What is compared are
// the attention's results over the keys that the call says it has selected, and that these are keys.

static const char *const indexed_ranges[] = { "H/HI/DI: 128/64/128 64/64/128",
                                              "S/SKV: 4096/8192 1024/32768 64/65536 1..2048/8192",
                                              "TOPK: 2048 2048 1024", NULL };
static const char *const indexed_small[] = { "H/HI/DI: 64/8/32", "S/SKV: 4/300 1/128..400", "TOPK: 64", NULL };

static double indexed_operations(const Shape *s) { return indexer_operations(s) + prefill_operations(s); }
static double indexed_bytes(const Shape *s)
{
    return prefill_bytes(s) + get(s, "SKV") * (get(s, "DI") + 4) + get(s, "S") * get(s, "HI") * (get(s, "DI") + 4);
}

static void prepare_indexed(SweepCase *c)
{
    kiln_indexed_attention_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t S = shape_get(s, "S"), SKV = shape_get(s, "SKV"), H = shape_get(s, "H"), HI = shape_get(s, "HI"),
                  DI = shape_get(s, "DI");
    args->topk = shape_get(s, "TOPK");
    args->index_q = &sweep_normal(c, "index_q", KILN_E4M3, 1, EXTENTS(S, HI, DI))->tensor;
    args->index_k = &sweep_normal(c, "index_k", KILN_E4M3, 1, EXTENTS(SKV, DI))->tensor;
    args->index_scales = &sweep_uniform(c, "scales", KILN_F32, 0.5, 1.5, EXTENTS(SKV))->tensor;
    args->index_weights = &sweep_uniform(c, "weights", KILN_F32, 0, 1, EXTENTS(S, HI))->tensor;
    args->q = &sweep_normal(c, "q", KILN_BF16, 1, EXTENTS(S, H, KEY))->tensor;
    args->kv = &sweep_normal(c, "kv", KILN_BF16, 1, EXTENTS(SKV, KEY))->tensor;
    args->out = &sweep_output(c, "out", KILN_BF16, true, EXTENTS(S, H, VALUE))->tensor;
    args->indices = &sweep_output(c, "indices", KILN_I32, false, EXTENTS(S, args->topk))->tensor;
    SWEEP_WORKSPACE(c, kiln_indexed_attention, args);
}

static kiln_status call_indexed(SweepCase *c) { return kiln_indexed_attention(c->ops, NULL, c->own); }

static void refer_indexed(SweepCase *c)
{
    sweep_refer(c, "mla/prefill.tile", "mla_prefill_sparse", "Q=q, KV=kv, INDEX=indices, O=out, scale=%.17g",
                scale_of_key());
}

const SweepFamily sweep_indexed = {
    .name = "indexed",
    .about = "kiln_indexed_attention, DeepSeek's sparse attention whole; peer: none is on PyPI",
    .ranges = indexed_ranges,
    .small = indexed_small,
    .operations = indexed_operations,
    .bytes = indexed_bytes,
    .prepare = prepare_indexed,
    .call = call_indexed,
    .refer = refer_indexed,
    .samples = 16,
    .slack = 2,
};
