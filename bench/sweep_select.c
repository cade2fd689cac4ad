// SPDX-License-Identifier: MIT
// sweep_select.c - family select: the largest of rows, and tokens drawn from logits. OP says which; M rows of N
// elements, K of each.
//
//     topk       kiln_topk: values and columns, the largest first        select  kiln_topk_select: columns in ascending order
//     argmax     kiln_argmax                                             sample  kiln_sample: top-k K, top-p 0.9, a seed for each row
#include "kiln/ops/deepseek.h"
#include "kiln/ops/nn.h"
#include "kiln/ops/sampling.h"
#include "sweep.h"

#include <stdlib.h>

static const char *const ranges[] = {
    // experts of a router, keys of an indexer, vocabularies
    "OP/N/K/T: topk/128/8/f32 topk/128/6/f32 topk/256/8/f32 topk/128256/50/f32 topk/151936/20/f32 topk/1..65536/1..64/f32 "
    "select/8192/2048/f32 select/32768/2048/f32 select/131072/2048/f32 select/1..65536/1024/f32 "
    "argmax/128256/1/f32 argmax/151936/1/bf16 sample/128256/50/f32 sample/151936/20/bf16 sample/201088/0/f32",
    "M: 1 16 64 256 1024 4096 1..64 1..4096", NULL
};
static const char *const small[] = {
    "OP/N/K/T: topk/128/6/f32 topk/1..3000/1..9/bf16 select/1..2000/64/f32 argmax/1000/1/bf16 sample/3001/20/f32 sample/500/0/f32",
    "M: 1 5 64 1..64", NULL
};

#define TOP_P 0.9

typedef union SelectArgs {
    kiln_topk_args topk;
    kiln_topk_select_args select;
    kiln_argmax_args argmax;
    kiln_sample_args sample;
} SelectArgs;

static double operations(const Shape *s)
{
    (void)s;
    return 0;
}

static double bytes(const Shape *s)
{
    const double m = (double)shape_get(s, "M"), k = (double)shape_get(s, "K");
    return m * (double)shape_get(s, "N") * shape_type_bytes(s, "T") + m * k * 8;
}

// No more than there are.
static void settle(Shape *s)
{
    if (!shape_is(s, "OP", "select") && shape_get(s, "K") > shape_get(s, "N")) shape_set(s, "K", shape_get(s, "N"));
}

static void prepare_sample(SweepCase *c, kiln_sample_args *args, int64_t m, int64_t k)
{
    int32_t *const top_k = sweep_integers(c, m);
    int64_t *const seeds = calloc((size_t)m + 1, sizeof *seeds);
    for (int64_t i = 0; i < m && top_k && seeds; i++) {
        top_k[i] = (int32_t)k;
        seeds[i] = i * 7919 + 1;
    }
    args->top_k = &sweep_made(c, "top_k", KILN_I32, top_k, EXTENTS(m))->tensor;
    args->seeds = &sweep_made(c, "seeds", KILN_I64, seeds, EXTENTS(m))->tensor;
    args->top_p = &sweep_uniform(c, "top_p", KILN_F32, TOP_P, TOP_P, EXTENTS(m))->tensor;
    args->tokens = &sweep_output(c, "tokens", KILN_I32, false, EXTENTS(m))->tensor;
    args->probabilities = &sweep_output(c, "probabilities", KILN_F32, true, EXTENTS(m))->tensor;
}

static void prepare(SweepCase *c)
{
    SelectArgs *const args = sweep_own(c, sizeof *args);
    const int64_t m = shape_get(&c->shape, "M"), n = shape_get(&c->shape, "N"), k = shape_get(&c->shape, "K");
    const kiln_tensor *const x = &sweep_normal(c, "x", shape_type(&c->shape, "T"), 1, EXTENTS(m, n))->tensor;
    if (shape_is(&c->shape, "OP", "topk")) {
        args->topk.x = x;
        args->topk.values = &sweep_output(c, "values", x->type, true, EXTENTS(m, k))->tensor;
        args->topk.indices = &sweep_output(c, "indices", KILN_I32, true, EXTENTS(m, k))->tensor;
        SWEEP_WORKSPACE(c, kiln_topk, &args->topk);
    } else if (shape_is(&c->shape, "OP", "select")) {
        args->select.logits = x;
        args->select.indices = &sweep_output(c, "indices", KILN_I32, true, EXTENTS(m, k))->tensor;
        sweep_between(c, "values", KILN_F32, EXTENTS(m, k < n ? k : n));
        sweep_between(c, "columns", KILN_I32, EXTENTS(m, k < n ? k : n));
    } else if (shape_is(&c->shape, "OP", "argmax")) {
        args->argmax.x = x;
        args->argmax.index = &sweep_output(c, "indices", KILN_I32, true, EXTENTS(m))->tensor;
    } else {
        args->sample.logits = x;
        prepare_sample(c, &args->sample, m, k);
        sweep_between(c, "drawn", KILN_I32, EXTENTS(m));
        sweep_between(c, "all", KILN_F32, EXTENTS(m, n));
    }
}

static kiln_status call(SweepCase *c)
{
    const SelectArgs *const args = c->own;
    if (shape_is(&c->shape, "OP", "topk")) return kiln_topk(c->ops, NULL, &args->topk);
    if (shape_is(&c->shape, "OP", "select")) return kiln_topk_select(c->ops, NULL, &args->select);
    if (shape_is(&c->shape, "OP", "argmax")) return kiln_argmax(c->ops, NULL, &args->argmax);
    return kiln_sample(c->ops, NULL, &args->sample);
}

// ---- expected results

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// kiln_topk_select gives the columns of topk_rows in ascending order.
static void refer_select(SweepCase *c, int64_t m, int64_t n, int64_t k)
{
    const int64_t some = k < n ? k : n;
    sweep_refer(c, "topk/rows.tile", "topk_rows", "T=f32, K=%d, X=x, Value=values, Index=columns", (int)some);
    int32_t *from = (int32_t *)(void *)sweep_expected(c, "columns"),
            *to = (int32_t *)(void *)sweep_expected(c, "indices");
    for (int64_t row = 0; !c->status && row < m; row++, from += some, to += k) {
        if (from[0] < 0) continue; // of no instance
        qsort(from, (size_t)some, sizeof *from, ascending);
        memcpy(to, from, (size_t)some * sizeof *to);
    }
}

// Which token is drawn hangs on roundings; its probability does not: the reference gives those of all tokens.
static void refer_sample(SweepCase *c, int64_t m, int64_t n)
{
    sweep_refer(c, "topk/sample.tile", "sample",
                "T=%s, LOGIT=x, TOPK=top_k, TOPP=top_p, SEED=seeds, TOKEN=drawn, PROBABILITY=probabilities, ALL=all",
                sweep_type(c, "x"));
    const int32_t *const drawn = (const int32_t *)(void *)sweep_expected(c, "drawn");
    float *const probabilities = (float *)(void *)sweep_expected(c, "probabilities");
    const float *const all = (const float *)(void *)sweep_expected(c, "all");
    for (int64_t row = 0; !c->status && row < m; row++) {
        int32_t token = -1;
        if (drawn[row] < 0) continue; // of no instance
        sweep_try(c, kiln_download(c->machine->device, &token,
                                   (const int32_t *)sweep_find(c, "tokens")->tensor.data + row, sizeof token));
        probabilities[row] = token >= 0 && token < n ? all[row * n + token] : 0;
    }
}

static void refer(SweepCase *c)
{
    const int64_t m = shape_get(&c->shape, "M"), n = shape_get(&c->shape, "N"), k = shape_get(&c->shape, "K");
    const char *const type = sweep_type(c, "x");
    if (shape_is(&c->shape, "OP", "topk"))
        sweep_refer(c, "topk/rows.tile", "topk_rows", "T=%s, K=%d, X=x, Value=values, Index=indices", type, (int)k);
    else if (shape_is(&c->shape, "OP", "argmax"))
        sweep_refer(c, "nn/embedding.tile", "argmax", "T=%s, X=x, INDEX=indices", type);
    else if (shape_is(&c->shape, "OP", "select")) refer_select(c, m, n, k);
    else refer_sample(c, m, n);
}

const SweepFamily sweep_select = {
    .name = "select",
    .about =
        "kiln_topk, kiln_topk_select, kiln_argmax, and kiln_sample with top-k and top-p; peer: PyTorch, FlashInfer for draws",
    .ranges = ranges,
    .small = small,
    .settle = settle,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
    .samples = 16, // the reference looks through a row for each element
};
