// SPDX-License-Identifier: MIT
// expect.c - what of a row's results is compared with its reference, and the work of a launch.
//
// All of a reference takes hours at these sizes. Some dozen of its instances, a row or an element each, drawn anew for
// each row, catch a kernel that is wrong. An instance of the gradients' reference is a head, which takes minutes: of
// them single elements are computed here.
#include "bench.h"

#include <math.h>

typedef const BenchTensor *Tensor;

static int64_t extent(Tensor t, int dim) { return t->tensor.shape[dim]; }

// ---- products

static double element(Tensor t, int64_t i) { return element_get(dtype_of_type(t->tensor.type), t->before, i); }

static double product(Tensor a, int64_t a_at, int64_t a_step, Tensor b, int64_t b_at, int64_t b_step, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += element(a, a_at + i * a_step) * element(b, b_at + i * b_step);
    return sum;
}

static double gemm_operations(const BenchCase *c)
{
    return 2.0 * (double)bench_integer(c, "M", 0) * (double)bench_integer(c, "N", 0) * (double)bench_integer(c, "K", 0);
}

// ---- attention

static double attention_operations(const BenchCase *c)
{
    const double all = 4.0 * (double)bench_integer(c, "B", 1) * (double)bench_integer(c, "H", 1) *
                       (double)bench_integer(c, "S", 1) * (double)bench_integer(c, "SKV", 1) *
                       (double)bench_integer(c, "D", 128);
    return bench_integer(c, "CAUSAL", 0) ? all / 2 : all;
}

static double decode_operations(const BenchCase *c)
{
    return 4.0 * (double)bench_integer(c, "B", 1) * (double)bench_integer(c, "H", 1) *
           (double)bench_integer(c, "S", 1) * (double)bench_integer(c, "D", 128);
}

// ---- the gradients of attention: O, LSE and dO are numbers like all others

static double backward_operations(const BenchCase *c) { return 2.5 * attention_operations(c); }

// Gradients of the scores of query i of head h over the keys of group g: what all three gradients are sums over.
typedef struct Scores {
    Tensor q, k, v, o, g, lse;
    int64_t S, SKV, H, HKV, D;
    double scale;
    bool causal;
} Scores;

static Scores scores_of(const BenchCase *c)
{
    const Tensor q = bench_tensor(c, "Q"), k = bench_tensor(c, "K");
    return (Scores){ q,
                     k,
                     bench_tensor(c, "V"),
                     bench_tensor(c, "O"),
                     bench_tensor(c, "dO"),
                     bench_tensor(c, "LSE"),
                     extent(q, 1),
                     extent(k, 1),
                     extent(q, 2),
                     extent(k, 2),
                     extent(q, 3),
                     bench_number(c, "scale"),
                     bench_integer(c, "CAUSAL", 0) != 0 };
}

static int64_t query_at(const Scores *x, int64_t b, int64_t i, int64_t h) { return ((b * x->S + i) * x->H + h) * x->D; }
static int64_t key_at(const Scores *x, int64_t b, int64_t j, int64_t h)
{
    return ((b * x->SKV + j) * x->HKV + h / (x->H / x->HKV)) * x->D;
}

static double weight_at(const Scores *x, int64_t b, int64_t i, int64_t j, int64_t h)
{
    if (x->causal && j > i + x->SKV - x->S) return 0;
    return exp(x->scale * product(x->q, query_at(x, b, i, h), 1, x->k, key_at(x, b, j, h), 1, x->D) -
               element(x->lse, (b * x->H + h) * x->S + i));
}

static double score_gradient(const Scores *x, int64_t b, int64_t i, int64_t j, int64_t h)
{
    const int64_t at = query_at(x, b, i, h);
    const double w = weight_at(x, b, i, j, h);
    return w == 0 ? 0
                  : x->scale * w *
                        (product(x->g, at, 1, x->v, key_at(x, b, j, h), 1, x->D) -
                         product(x->o, at, 1, x->g, at, 1, x->D));
}

static double attention_backward(const BenchCase *c, const char *output, int64_t i)
{
    const Scores x = scores_of(c);
    const bool of_query = strcmp(output, "dQ") == 0;
    const int64_t heads = of_query ? x.H : x.HKV, rows = of_query ? x.S : x.SKV, group = x.H / x.HKV;
    const int64_t d = i % x.D, h = i / x.D % heads, r = i / x.D / heads % rows, b = i / x.D / heads / rows;
    double sum = 0;
    for (int64_t j = 0; of_query && j < x.SKV; j++)
        sum += score_gradient(&x, b, r, j, h) * element(x.k, key_at(&x, b, j, h) + d);
    for (int64_t n = 0; !of_query && n < group * x.S; n++) {
        const int64_t head = h * group + n / x.S, query = n % x.S, at = query_at(&x, b, query, head) + d;
        sum += strcmp(output, "dK") == 0 ? score_gradient(&x, b, query, r, head) * element(x.q, at)
                                         : weight_at(&x, b, query, r, head) * element(x.g, at);
    }
    return sum;
}

// ---- the table

// clang-format off
static const Expectation expectations[] = {
    { "gemm_nt",            NULL,                     200, gemm_operations,           NULL },
    { "attention_forward",  NULL,                     16,  attention_operations,      NULL },
    { "flash_decode",       NULL,                     16,  decode_operations,         NULL },
    { "attention_backward", NULL,                     8,   backward_operations,       attention_backward },
    { "mla_decode_planned", NULL,                     16,  latent_operations,         NULL },
    { "mla_decode_dense",   "mla_decode_planned",     16,  latent_operations,         NULL },
    { "mla_decode_fp8",     "mla_decode_fp8_planned", 4,   latent_operations,         NULL }, // of 128 heads each
    { "mla_prefill_sparse", NULL,                     16,  latent_prefill_operations, NULL },
    { "gemv",               NULL,                     64,  NULL,                      NULL },
    { "gemv_split",         NULL,                     64,  NULL,                      NULL },
    { "gemv_transposed",    NULL,                     64,  NULL,                      NULL },
    { "add",                NULL,                     200, NULL,                      NULL },
    { "rms_norm",           NULL,                     64,  NULL,                      NULL },
    { "rms_norm_long",      NULL,                     64,  NULL,                      NULL },
    { "layer_norm",         NULL,                     64,  NULL,                      NULL },
    { "softmax",            NULL,                     64,  NULL,                      NULL },
    { "cast_per_group",     NULL,                     200, NULL,                      NULL },
    { "cast_per_token",     NULL,                     64,  NULL,                      NULL },
    { "hadamard",           NULL,                     64,  NULL,                      NULL },
};
// clang-format on

const Expectation *find_expectation(const char *kernel)
{
    for (int i = 0; i < COUNT(expectations); i++)
        if (strcmp(expectations[i].kernel, kernel) == 0) return &expectations[i];
    return NULL;
}

// Every tensor once, twice if in and out; of latent decoding what the requests use of the cache.
double bench_bytes(const BenchCase *c)
{
    double sum = 0;
    if (bench_tensor(c, "CACHE")) return latent_bytes(c);
    for (int i = 0; i < c->build.kernel->plan->n_params; i++)
        if (c->tensors[i].name)
            sum += (double)kiln_tensor_bytes(&c->tensors[i].tensor) *
                   (c->build.kernel->plan->params[i].access == ACCESS_INOUT ? 2 : 1);
    return sum;
}
