// SPDX-License-Identifier: MIT
// latent.c - rows of latent attention: lengths, page tables, lists, the fp8 cache, the plan; and what they cost.
//
// Lengths are normal around the row's mean with half of it as deviation, as batches of an engine are; a row without a mean
// has the whole table in use. The plan is made before the row is timed: it serves all layers of a step.
#include "bench.h"

#include "ops/call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY = 576, VALUE = 512, TOKEN_BYTES = 656, TOKENS = 4099 }; // TOKENS: a prime; the cache repeats so many

// ---- random numbers that depend on nothing but their place

static uint64_t hash_of(uint64_t i)
{
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u + 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    return i ^ i >> 31;
}

static double uniform_at(uint64_t i) { return ((double)(hash_of(i) >> 11) + 0.5) * 0x1p-53; }

static double normal_at(uint64_t i)
{
    return sqrt(-2 * log(uniform_at(2 * i))) * cos(6.283185307179586 * uniform_at(2 * i + 1));
}

// ---- lengths and lists

static int64_t length_of(const BenchCase *c, int64_t request)
{
    const int64_t most = bench_integer(c, "MAXP", 0) * bench_integer(c, "PS", 64), least = bench_integer(c, "SQ", 1);
    const double mean = (double)c->row->mean, n = floor(mean + mean / 2 * normal_at(1000 + (uint64_t)request));
    if (!c->row->mean || n > (double)most) return most;
    return n < (double)least ? least : (int64_t)n;
}

// Entry i of the lists: a slot of the request's own part of the cache, or a row of the keys.
static int64_t index_at(const BenchCase *c, int64_t i)
{
    const int64_t topk = bench_integer(c, "TOPK", 1), rows = bench_integer(c, "SKV", 0);
    if (rows) return (int64_t)(uniform_at((uint64_t)i) * (double)rows);
    const int64_t own = bench_integer(c, "PAGES", 1) * bench_integer(c, "PS", 64) / bench_integer(c, "B", 1);
    return i / topk / bench_integer(c, "SQ", 1) * own + (int64_t)(uniform_at((uint64_t)i) * (double)own);
}

static const char *fill_table(const BenchCase *c, int32_t *table, int64_t n)
{
    const CaseInput permutation = { .kind = INPUT_PERMUTATION };
    const int64_t pages = bench_integer(c, "PAGES", 0);
    const int64_t each = bench_integer(c, "MAXP", 1);
    const int64_t size = bench_integer(c, "PS", 64);
    int32_t *const order = malloc(sizeof *order * (size_t)(pages + 1));
    int64_t used = 0;
    if (!order) return "out of memory";
    fill_input(&permutation, DTYPE_I32, order, pages, 7);
    for (int64_t i = 0; i < n && used <= pages; i++) {
        const bool in_use = i % each < (length_of(c, i / each) + size - 1) / size;
        table[i] = in_use && used < pages ? order[used] : -1;
        used += in_use;
    }
    free(order);
    return used <= pages ? NULL : "the row has fewer pages than its requests need";
}

const char *latent_indices(const BenchCase *c, const char *name, int32_t *out, int64_t n)
{
    if (strcmp(name, "TABLE") == 0) return fill_table(c, out, n);
    for (int64_t i = 0; i < n; i++)
        out[i] = strcmp(name, "LENGTH") == 0  ? (int32_t)length_of(c, i)
                 : strcmp(name, "INDEX") == 0 ? (int32_t)index_at(c, i)
                                              : 0;
    return NULL;
}

// ---- the fp8 cache

bool latent_is_fp8(const kiln_tensor *t) { return t->type == KILN_U8 && t->rank == 3 && t->shape[2] == TOKEN_BYTES; }

const char *latent_tokens(size_t *bytes)
{
    static char *kept;
    *bytes = (size_t)TOKENS * TOKEN_BYTES;
    if (kept || !(kept = malloc(*bytes))) return kept;
    for (uint64_t i = 0; i < (uint64_t)TOKENS; i++) {
        char *const token = kept + i * TOKEN_BYTES;
        for (int g = 0; g < 4; g++)
            element_set(DTYPE_F32, token + VALUE, g, 0.02 + 0.01 * uniform_at(i * 4 + (uint64_t)g));
        for (int d = 0; d < KEY; d++)
            element_set(d < VALUE ? DTYPE_E4M3 : DTYPE_BF16, d < VALUE ? token : token + VALUE + 16,
                        d < VALUE ? d : d - VALUE, (d < VALUE ? 40 : 1) * normal_at(i * KEY + (uint64_t)d));
    }
    return kept;
}

// ---- the plan

kiln_status latent_plan(BenchCase *c)
{
    const BenchTensor *const part = bench_tensor(c, "PART");
    const BenchTensor *const first = bench_tensor(c, "FIRST");
    const BenchTensor *length = bench_tensor(c, "LENGTH");
    kiln_kernel *kernel;
    if (!part || !first) return KILN_OK;
    const int64_t topk = length ? 0 : bench_integer(c, "TOPK", 0);
    kiln_tensor none = first->tensor; // a sparse plan does not look at lengths
    void *memory = NULL;
    none.shape[0]--;
    const kiln_mla_shape shape = { .batch = none.shape[0],
                                   .queries = bench_integer(c, "SQ", 1),
                                   .query_heads = bench_integer(c, "HQ", 1),
                                   .key_heads = bench_integer(c, "HKV", 1),
                                   .topk = topk,
                                   .partitions = bench_integer(c, "P", 1) };
    char bindings[64];
    snprintf(bindings, sizeof bindings, "SPARSE=%s, FIXED=%d, SLACK=%d", topk ? "true" : "false",
             mla_request_cost(&shape), mla_whole_slack(&shape));
    kiln_status status = kiln_kernel_build(c->machine->device, c->program, "mla_plan", bindings, NULL, &kernel);
    if (status) return status;
    if (!length) status = kiln_alloc(c->machine->device, kiln_tensor_bytes(&none) + 1, &memory);
    none.data = memory;
    const kiln_arg args[] = { KILN_TENSOR(length ? &length->tensor : &none), KILN_TENSOR(&part->tensor),
                              KILN_TENSOR(&first->tensor), KILN_INT(topk) };
    if (!status) status = kiln_launch(kernel, NULL, args, COUNT(args));
    if (!status) status = kiln_stream_wait(c->machine->device, NULL);
    kiln_free(c->machine->device, memory);
    kiln_kernel_free(kernel);
    return status;
}

// ---- what a launch costs: causal masks are not discounted, hidden places of lists count

static double count_of(const BenchCase *c, const char *name) { return (double)bench_integer(c, name, 1); }

// Keys of all requests together.
static double all_keys(const BenchCase *c)
{
    double sum = 0;
    for (int64_t b = 0; b < bench_integer(c, "B", 1); b++) sum += (double)length_of(c, b);
    return sum;
}

double latent_operations(const BenchCase *c)
{
    const double keys = bench_tensor(c, "INDEX") ? count_of(c, "B") * count_of(c, "TOPK") : all_keys(c);
    return 2.0 * (KEY + VALUE) * count_of(c, "SQ") * count_of(c, "HQ") * keys;
}

double latent_bytes(const BenchCase *c)
{
    const double rows = count_of(c, "B") * count_of(c, "SQ") * count_of(c, "HQ");
    const double keys = bench_tensor(c, "INDEX") ? count_of(c, "B") * count_of(c, "SQ") * count_of(c, "TOPK")
                                                 : all_keys(c) * count_of(c, "HKV");
    return rows * 2 * (KEY + VALUE) + keys * (latent_is_fp8(&bench_tensor(c, "CACHE")->tensor) ? TOKEN_BYTES : 2 * KEY);
}

double latent_prefill_operations(const BenchCase *c)
{
    return 2.0 * (KEY + VALUE) * count_of(c, "S") * count_of(c, "HQ") * count_of(c, "TOPK");
}
