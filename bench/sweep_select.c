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

#include <math.h>
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
    } else if (shape_is(&c->shape, "OP", "argmax")) {
        args->argmax.x = x;
        args->argmax.index = &sweep_output(c, "indices", KILN_I32, true, EXTENTS(m))->tensor;
    } else {
        args->sample.logits = x;
        prepare_sample(c, &args->sample, m, k);
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

// ---- a row in float64

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The elements of a row from the largest down; free it.
static double *sorted_row(const SweepTensor *x, int64_t row, int64_t n)
{
    double *const sorted = malloc(sizeof *sorted * (size_t)n);
    if (!sorted) abort();
    for (int64_t i = 0; i < n; i++) sorted[i] = sweep_at(x, row * n + i);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    return sorted;
}

// The column of the element of rank k: of equal ones the lowest first.
static int64_t column_of(const SweepTensor *x, int64_t row, int64_t n, const double *sorted, int64_t k)
{
    int64_t equal = 0;
    while (k - equal > 0 && sorted[k - equal - 1] == sorted[k]) equal++;
    for (int64_t i = 0; i < n; i++)
        if (sweep_at(x, row * n + i) == sorted[k] && equal-- == 0) return i;
    return -1;
}

// The column in place j of the K largest in ascending order of columns.
static int64_t place_of(const SweepTensor *x, int64_t row, int64_t n, const double *sorted, int64_t k, int64_t j)
{
    const double least = sorted[(k < n ? k : n) - 1];
    int64_t equal = k < n ? k : n; // how many of the least are taken
    for (int64_t i = 0; i < n && sorted[i] > least; i++) equal--;
    for (int64_t i = 0; i < n; i++) {
        const double value = sweep_at(x, row * n + i);
        if ((value > least || (value == least && equal-- > 0)) && j-- == 0) return i;
    }
    return -1;
}

// What the drawn token's probability is among the candidates; 0: it is none of them.
static double probability_of(const SweepCase *c, const SweepTensor *x, int64_t row, int64_t n, const double *sorted)
{
    const int64_t k = shape_get(&c->shape, "K") > 0 ? shape_get(&c->shape, "K") : n;
    const SweepTensor *const tokens = sweep_find(c, "tokens");
    double all = 0, taken = 0;
    int32_t token = -1;
    int64_t last = 0;
    if (kiln_download(c->machine->device, &token, (const int32_t *)tokens->tensor.data + row, sizeof token) ||
        token < 0)
        return 0;
    for (int64_t i = 0; i < k; i++) all += exp(sorted[i] - sorted[0]);
    for (; last < k && taken < TOP_P * all; last++) taken += exp(sorted[last] - sorted[0]);
    const double own = sweep_at(x, row * n + token);
    return own >= sorted[last - 1] ? exp(own - sorted[0]) / taken : 0;
}

static double expected(const SweepCase *c, const SweepTensor *output, int64_t at)
{
    const SweepTensor *const x = sweep_find(c, "x");
    const int64_t n = shape_get(&c->shape, "N"), k = output->tensor.rank == 2 ? output->tensor.shape[1] : 1,
                  row = at / k;
    double *const sorted = sorted_row(x, row, n);
    double is;
    if (strcmp(output->name, "probabilities") == 0) is = probability_of(c, x, row, n, sorted);
    else if (strcmp(output->name, "values") == 0) is = sorted[at % k];
    else if (!shape_is(&c->shape, "OP", "select")) is = (double)column_of(x, row, n, sorted, at % k);
    else is = (double)place_of(x, row, n, sorted, k, at % k);
    free(sorted);
    return is;
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
    .expected = expected,
};
