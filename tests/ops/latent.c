// SPDX-License-Identifier: MIT
// latent.c - see latent.h.
#include "latent.h"
#include "runtime/runtime.h"

kiln_mla_plan make_plan(const kiln_mla_shape *shape, const kiln_tensor *lengths)
{
    kiln_mla_plan plan;
    size_t bytes;
    assert_ok(kiln_mla_plan_size(ops, shape, &bytes));
    assert_ok(kiln_mla_plan_make(
        ops, NULL,
        &(kiln_mla_plan_args){
            .shape = shape, .lengths = lengths, .memory = bytes_new(bytes)->tensor.data, .memory_bytes = bytes },
        &plan));
    return plan;
}

enum { K = KILN_MLA_KEY, V = KILN_MLA_VALUE, BYTES = KILN_MLA_FP8_BYTES };

void fp8_token(Array *cache, int64_t slot, double *values, bool round_scales)
{
    unsigned char *const token = cache->host + slot * BYTES;
    uint16_t words[K];
    Array bf16 = { .tensor = { .type = KILN_BF16 }, .host = (unsigned char *)words }; // of the host alone
    for (int g = 0; g < 4; g++) {
        const float scale = (float)uniform(0.00025, 0.0005);
        memcpy(token + V + 4 * g, &scale, sizeof scale);
        set(&bf16, 0, scale);
        const double factor = round_scales ? get(&bf16, 0) : (double)scale;
        for (int d = g * 128; d < g * 128 + 128; d++) {
            element_set(DTYPE_E4M3, token, d, uniform(-448, 448));
            values[d] = element_get(DTYPE_E4M3, token, d) * factor;
        }
    }
    for (int d = 0; d < V; d++) set(&bf16, d, values[d]);
    for (int d = V; d < K; d++) set(&bf16, d, uniform(-0.17, 0.17));
    for (int d = 0; d < K; d++) values[d] = get(&bf16, d);
    memcpy(token + V + 16, words + V, 128);
}

Pool make_pool(kiln_type type, int row)
{
    Pool pool = { .tokens = ARRAY(type, KINDS, row), .row = row };
    fill_random(pool.tokens, -0.17, 0.17);
    pool.values = values(pool.tokens);
    return pool;
}

Pool make_fp8_pool(bool round_scales)
{
    Pool pool = { .tokens = ARRAY(KILN_U8, KINDS, BYTES), .values = values(ARRAY(KILN_F32, KINDS, K)), .row = K };
    for (int kind = 0; kind < KINDS; kind++) fp8_token(pool.tokens, kind, pool.values + kind * K, round_scales);
    return pool;
}

void put_token(Array *cache, int64_t slot, const Pool *pool, int kind)
{
    const size_t bytes = pool->tokens->bytes / KINDS;
    memcpy(cache->host + (size_t)slot * bytes, pool->tokens->host + (size_t)kind * bytes, bytes);
}

void attend(Attended *restrict result, const double *q, const double *restrict keys, int stride,
            const int32_t counts[KINDS], int size, double scale, double sink)
{
    double sum = 0, scores[KINDS];
    *result = (Attended){ .top = -INFINITY, .lse = -INFINITY };
    for (int k = 0; k < KINDS; k++) {
        if (!counts[k]) continue;
        scores[k] = dot(q, keys + (int64_t)k * stride, size) * scale;
        result->top = fmax(result->top, scores[k]);
    }
    if (isinf(result->top)) return;
    for (int k = 0; k < KINDS; k++) {
        if (!counts[k]) continue;
        const double e = counts[k] * exp(scores[k] - result->top);
        sum += e;
        for (int d = 0; d < V; d++) result->out[d] += e * keys[(int64_t)k * stride + d];
    }
    const double all = sum + (isinf(sink) ? 0 : exp(sink - result->top));
    for (int d = 0; d < V; d++) result->out[d] /= all;
    result->lse = result->top + log(sum);
}
