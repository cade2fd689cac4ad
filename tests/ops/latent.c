// SPDX-License-Identifier: MIT
// latent.c - see latent.h.
#include "latent.h"
#include "runtime/runtime.h"

kiln_mla_plan make_plan_in(Array *memory, const kiln_mla_shape *shape, const kiln_tensor *lengths)
{
    kiln_mla_plan plan;
    assert_ok(kiln_mla_plan_make(
        ops, NULL,
        &(kiln_mla_plan_args){
            .shape = shape, .lengths = lengths, .memory = memory->tensor.data, .memory_bytes = memory->bytes },
        &plan));
    return plan;
}

kiln_mla_plan make_plan(const kiln_mla_shape *shape, const kiln_tensor *lengths)
{
    size_t bytes;
    assert_ok(kiln_mla_plan_size(ops, shape, &bytes));
    return make_plan_in(bytes_new(bytes), shape, lengths);
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

enum { SHORT = KILN_MLA_SHORT_KEY, CODES = SHORT - 64, TOKEN = CODES + 128, SCALES = CODES / 64 };

// Tokens, each with its scales after it.
Pool make_short_pool(void)
{
    Pool pool = { .tokens = ARRAY(KILN_U8, KINDS, KILN_MLA_FP8_SHORT_BYTES),
                  .values = values(ARRAY(KILN_F32, KINDS, SHORT)),
                  .row = SHORT };
    for (int kind = 0; kind < KINDS; kind++) {
        unsigned char *const token = pool.tokens->host + kind * KILN_MLA_FP8_SHORT_BYTES;
        Array rotary = { .tensor = { .type = KILN_BF16 }, .host = token + CODES };
        double *const x = pool.values + kind * SHORT;
        for (int g = 0; g < SCALES; g++) token[TOKEN + g] = (unsigned char)integer(113, 116);
        for (int d = 0; d < CODES; d++) {
            element_set(DTYPE_E4M3, token, d, uniform(-224, 224));
            x[d] = element_get(DTYPE_E4M3, token, d) * ldexp(1, token[TOKEN + d / 64] - 127);
        }
        for (int d = 0; d < 64; d++) {
            set(&rotary, d, uniform(-0.17, 0.17));
            x[CODES + d] = get(&rotary, d);
        }
    }
    return pool;
}

ShortCache make_short_cache(int64_t pages, int64_t page_size, int64_t stride)
{
    ShortCache cache = { .memory = ARRAY(KILN_U8, pages, stride), .page_size = page_size, .stride = stride };
    cache.tensor = kiln_tensor_of(cache.memory->tensor.device, cache.memory->tensor.data, KILN_U8, 4,
                                  (int64_t[]){ pages, page_size, 1, KILN_MLA_FP8_SHORT_BYTES });
    const int64_t strides[] = { stride, KILN_MLA_FP8_SHORT_BYTES, KILN_MLA_FP8_SHORT_BYTES, 1 };
    cache.tensor.has_strides = true;
    memcpy(cache.tensor.strides, strides, sizeof strides);
    return cache;
}

unsigned char *short_token(const ShortCache *cache, int64_t slot)
{
    return cache->memory->host + slot / cache->page_size * cache->stride + slot % cache->page_size * TOKEN;
}

unsigned char *short_scales(const ShortCache *cache, int64_t slot)
{
    return cache->memory->host + slot / cache->page_size * cache->stride + cache->page_size * TOKEN +
           slot % cache->page_size * 8;
}

void put_short_token(const ShortCache *cache, int64_t slot, const Pool *pool, int kind)
{
    const unsigned char *const token = pool->tokens->host + kind * KILN_MLA_FP8_SHORT_BYTES;
    memcpy(short_token(cache, slot), token, TOKEN);
    memcpy(short_scales(cache, slot), token + TOKEN, SCALES);
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
