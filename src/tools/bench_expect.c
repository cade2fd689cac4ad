// SPDX-License-Identifier: MIT
// bench_expect.c - single elements of results, computed in float64 from the inputs, and the work of a launch.
//
// A reference that computes whole tensors takes hours at these sizes. One element of a product takes a row and a
// column; some dozen of them, drawn anew for each row, catch a kernel that is wrong.
#include "tools/bench.h"

#include <math.h>

typedef const BenchTensor *Tensor;

static int64_t extent(Tensor t, int dim) { return t->tensor.shape[dim]; }

// ---- products

static double product(Tensor a, int64_t a_at, int64_t a_step, Tensor b, int64_t b_at, int64_t b_step, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += bench_input(a, a_at + i * a_step) * bench_input(b, b_at + i * b_step);
    return sum;
}

static double gemm_operations(const BenchCase *c)
{
    return 2.0 * (double)bench_integer(c, "M", 0) * (double)bench_integer(c, "N", 0) * (double)bench_integer(c, "K", 0);
}

static double gemm_nt(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor a = bench_tensor(c, "A"), b = bench_tensor(c, "B");
    const int64_t k = extent(a, 1), n = extent(b, 0);
    return product(a, i / n * k, 1, b, i % n * k, 1, k);
}

static double gemv(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor a = bench_tensor(c, "A"), b = bench_tensor(c, "B");
    return product(a, 0, 1, b, i * extent(b, 1), 1, extent(b, 1));
}

static double gemv_split(const BenchCase *c, const char *output, int64_t i)
{
    return bench_input(bench_tensor(c, "Y"), i) + gemv(c, output, i);
}

static double gemv_transposed(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor a = bench_tensor(c, "A"), b = bench_tensor(c, "B");
    return product(a, 0, 1, b, i, extent(b, 1), extent(b, 0));
}

// ---- attention

static double attention_operations(const BenchCase *c)
{
    const double all = 4.0 * (double)bench_integer(c, "B", 1) * (double)bench_integer(c, "H", 1) *
                       (double)bench_integer(c, "S", 1) * (double)bench_integer(c, "SKV", 1) *
                       (double)bench_integer(c, "D", 128);
    return bench_integer(c, "CAUSAL", 0) ? all / 2 : all;
}

// One query row at q against keys at k + j * stride, for element d of the values: a softmax that never rescales.
static double attend(Tensor q, int64_t q_at, Tensor k, Tensor v, int64_t kv_at, int64_t stride, int64_t keys,
                     int64_t width, int64_t d, double scale)
{
    double top = -INFINITY, sum = 0, out = 0;
    for (int64_t j = 0; j < keys; j++) {
        const double s = scale * product(q, q_at, 1, k, kv_at + j * stride, 1, width);
        if (s > top) {
            sum *= exp(top - s);
            out *= exp(top - s);
            top = s;
        }
        sum += exp(s - top);
        out += exp(s - top) * bench_input(v, kv_at + j * stride + d);
    }
    return out / sum;
}

static double attention_forward(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor q = bench_tensor(c, "Q"), k = bench_tensor(c, "K"), v = bench_tensor(c, "V");
    const int64_t S = extent(q, 1), H = extent(q, 2), D = extent(q, 3), SKV = extent(k, 1), HKV = extent(k, 2);
    const int64_t d = i % D, h = i / D % H, s = i / D / H % S, b = i / D / H / S;
    const int64_t keys = bench_integer(c, "CAUSAL", 0) ? s + SKV - S + 1 : SKV;
    return attend(q, i - d, k, v, (b * SKV * HKV + h / (H / HKV)) * D, HKV * D, keys, D, d, bench_number(c, "scale"));
}

static double decode_operations(const BenchCase *c)
{
    return 4.0 * (double)bench_integer(c, "B", 1) * (double)bench_integer(c, "H", 1) *
           (double)bench_integer(c, "S", 1) * (double)bench_integer(c, "D", 128);
}

static double flash_decode(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor q = bench_tensor(c, "Q"), k = bench_tensor(c, "K"), v = bench_tensor(c, "V");
    const int64_t H = extent(q, 1), D = extent(q, 2), S = extent(k, 1), HKV = extent(k, 2);
    const int64_t d = i % D, h = i / D % H, b = i / D / H;
    return attend(q, i - d, k, v, (b * S * HKV + h / (H / HKV)) * D, HKV * D, S, D, d, bench_number(c, "scale"));
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
               bench_input(x->lse, (b * x->H + h) * x->S + i));
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
        sum += score_gradient(&x, b, r, j, h) * bench_input(x.k, key_at(&x, b, j, h) + d);
    for (int64_t n = 0; !of_query && n < group * x.S; n++) {
        const int64_t head = h * group + n / x.S, query = n % x.S, at = query_at(&x, b, query, head) + d;
        sum += strcmp(output, "dK") == 0 ? score_gradient(&x, b, query, r, head) * bench_input(x.q, at)
                                         : weight_at(&x, b, query, r, head) * bench_input(x.g, at);
    }
    return sum;
}

// ---- rows

static double add(const BenchCase *c, const char *output, int64_t i)
{
    return bench_input(bench_tensor(c, "A"), i) + bench_input(bench_tensor(c, "B"), i);
}

static double weight(const BenchCase *c, const char *name, int64_t i, double otherwise)
{
    const Tensor w = bench_tensor(c, name);
    return w ? bench_input(w, i) : otherwise;
}

static double rms_norm(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor x = bench_tensor(c, "X");
    const int64_t n = extent(x, 1), row = i / n * n;
    return bench_input(x, i) / sqrt(product(x, row, 1, x, row, 1, n) / (double)n + bench_number(c, "eps")) *
           weight(c, "W", i - row, 1);
}

static double layer_norm(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor x = bench_tensor(c, "X");
    const int64_t n = extent(x, 1), row = i / n * n;
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < n; j++) mean += bench_input(x, row + j) / (double)n;
    for (int64_t j = 0; j < n; j++)
        variance += (bench_input(x, row + j) - mean) * (bench_input(x, row + j) - mean) / (double)n;
    return (bench_input(x, i) - mean) / sqrt(variance + bench_number(c, "eps")) * weight(c, "W", i - row, 1) +
           weight(c, "B", i - row, 0);
}

static double softmax(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor x = bench_tensor(c, "X");
    const int64_t n = extent(x, 1), row = i / n * n;
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += exp(bench_input(x, row + j));
    return exp(bench_input(x, i)) / sum;
}

static double largest(Tensor x, int64_t at, int64_t n)
{
    double top = 1e-4;
    for (int64_t j = 0; j < n; j++) top = fmax(top, fabs(bench_input(x, at + j)));
    return top;
}

static double cast_rows(const BenchCase *c, const char *output, int64_t i, int64_t group)
{
    const Tensor x = bench_tensor(c, "X");
    if (strcmp(output, "Scale") == 0) return largest(x, i * group, group) / 448;
    return bench_input(x, i) * (448 / largest(x, i / group * group, group));
}

static double cast_per_group(const BenchCase *c, const char *output, int64_t i)
{
    return cast_rows(c, output, i, bench_integer(c, "GROUP", 128));
}

static double cast_per_token(const BenchCase *c, const char *output, int64_t i)
{
    return cast_rows(c, output, i, extent(bench_tensor(c, "X"), 1));
}

static double hadamard(const BenchCase *c, const char *output, int64_t i)
{
    const Tensor x = bench_tensor(c, "X");
    const int64_t n = extent(x, 1), row = i / n * n;
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += __builtin_parityll((unsigned long long)(j & (i - row))) ? -bench_input(x, row + j)
                                                                       : bench_input(x, row + j);
    return sum;
}

// ---- the table

static const Expectation expectations[] = {
    { "gemm_nt", 200, gemm_operations, gemm_nt },
    { "attention_forward", 16, attention_operations, attention_forward },
    { "flash_decode", 16, decode_operations, flash_decode },
    { "attention_backward", 8, backward_operations, attention_backward },
    { "mla_decode_planned", 6, latent_operations, latent_decode },
    { "mla_decode_dense", 6, latent_operations, latent_decode },
    { "mla_decode_fp8", 16, latent_operations, latent_decode },
    { "mla_prefill_sparse", 16, latent_prefill_operations, latent_prefill },
    { "gemv", 64, NULL, gemv },
    { "gemv_split", 64, NULL, gemv_split },
    { "gemv_transposed", 64, NULL, gemv_transposed },
    { "add", 200, NULL, add },
    { "rms_norm", 64, NULL, rms_norm },
    { "rms_norm_long", 64, NULL, rms_norm },
    { "layer_norm", 64, NULL, layer_norm },
    { "softmax", 64, NULL, softmax },
    { "cast_per_group", 200, NULL, cast_per_group },
    { "cast_per_token", 64, NULL, cast_per_token },
    { "hadamard", 64, NULL, hadamard },
};

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
