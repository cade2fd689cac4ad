// SPDX-License-Identifier: MIT
// bench_latent.c - rows of latent attention: lengths, page tables, lists, the fp8 cache, the plan; what they cost, and
// single elements of their results.
//
// Lengths are normal around the row's mean with half of it as deviation, as batches of an engine are; a row without a mean
// has the whole table in use. The plan is made before the row is timed: it serves all layers of a step.
#include "tools/bench.h"

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

static int64_t extent(const BenchTensor *t, int dim) { return t->tensor.shape[dim]; }

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

// TOKENS tokens as stored, and their values: products in f32, rounded once to bf16.
static bool make_tokens(char **stored, double **values)
{
    static char *kept_stored;
    static double *kept_values;
    if (!kept_stored) {
        kept_stored = malloc((size_t)TOKENS * TOKEN_BYTES);
        kept_values = malloc(sizeof(double) * TOKENS * KEY);
        if (!kept_stored || !kept_values) return false;
        for (uint64_t i = 0; i < (uint64_t)TOKENS; i++) {
            char *const token = kept_stored + i * TOKEN_BYTES;
            double *const value = kept_values + i * KEY;
            for (int g = 0; g < 4; g++)
                element_set(DTYPE_F32, token + VALUE, g, 0.02 + 0.01 * uniform_at(i * 4 + (uint64_t)g));
            for (int d = 0; d < KEY; d++) {
                const double x = normal_at(i * KEY + (uint64_t)d);
                char word[2];
                if (d < VALUE) element_set(DTYPE_E4M3, token, d, 40 * x);
                else element_set(DTYPE_BF16, token + VALUE + 16, d - VALUE, x);
                element_set(
                    DTYPE_BF16, word, 0,
                    d < VALUE ? element_get(DTYPE_E4M3, token, d) * element_get(DTYPE_F32, token + VALUE, d / 128) : x);
                value[d] = element_get(DTYPE_BF16, word, 0);
            }
        }
    }
    *stored = kept_stored;
    *values = kept_values;
    return true;
}

kiln_status latent_fill_fp8(const BenchCase *c, BenchTensor *t)
{
    char *stored = NULL;
    double *values = NULL;
    const size_t total = kiln_tensor_bytes(&t->tensor), piece = (size_t)TOKENS * TOKEN_BYTES;
    kiln_status status =
        make_tokens(&stored, &values) ? KILN_OK : status_fail(KILN_OUT_OF_MEMORY, "out of memory for the fp8 cache");
    for (size_t at = 0; !status && at < total; at += piece)
        status = kiln_upload(c->machine->device, (char *)t->tensor.data + at, stored,
                             total - at < piece ? total - at : piece);
    t->values = values; // by token and value of it, not by byte
    t->period = (int64_t)TOKENS * KEY;
    t->offset = 0;
    return status;
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
    const int64_t rows = bench_integer(c, "SQ", 1) * (bench_integer(c, "HQ", 1) / bench_integer(c, "HKV", 1));
    char bindings[64];
    snprintf(bindings, sizeof bindings, "SPARSE=%s, FIXED=%d", topk ? "true" : "false", mla_request_cost(topk, rows));
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

// ---- single elements; one key head

typedef struct Attended {
    double out, lse, top;
} Attended;
typedef int64_t KeyAt(const BenchCase *c, int64_t list, int64_t t); // the row of key t of a list or request

// One query row over n keys of `kv`: a running softmax.
static Attended attend_keys(const BenchCase *c, int64_t q_row, const BenchTensor *kv, int64_t n, KeyAt *key,
                            int64_t list, int64_t d)
{
    const BenchTensor *const q = bench_tensor(c, "Q");
    double top = -INFINITY, sum = 0, out = 0;
    for (int64_t t = 0; t < n; t++) {
        const int64_t at = key(c, list, t) * KEY;
        double s = 0;
        for (int64_t x = 0; x < KEY; x++) s += bench_input(q, q_row * KEY + x) * bench_input(kv, at + x);
        s *= bench_number(c, "scale");
        if (s > top) {
            sum *= exp(top - s);
            out *= exp(top - s);
            top = s;
        }
        sum += exp(s - top);
        out += exp(s - top) * bench_input(kv, at + d);
    }
    return (Attended){ sum == 0 ? 0 : out / sum, sum == 0 ? INFINITY : top + log(sum), top };
}

static int64_t key_of_page(const BenchCase *c, int64_t request, int64_t t)
{
    const int64_t size = bench_integer(c, "PS", 64);
    const BenchTensor *const table = bench_tensor(c, "TABLE");
    return (int64_t)bench_input(table, request * extent(table, 1) + t / size) * size + t % size;
}

static int64_t key_of_list(const BenchCase *c, int64_t list, int64_t t)
{
    return index_at(c, list * bench_integer(c, "TOPK", 1) + t);
}

// O [B][SQ][HQ][512] or LSE [B][HQ][SQ].
double latent_decode(const BenchCase *c, const char *output, int64_t i)
{
    const int64_t SQ = bench_integer(c, "SQ", 1), HQ = bench_integer(c, "HQ", 1);
    const bool is_lse = strcmp(output, "LSE") == 0, lists = bench_tensor(c, "INDEX") != NULL;
    const int64_t row = is_lse ? (i / SQ / HQ * SQ + i % SQ) * HQ + i / SQ % HQ : i / VALUE;
    const int64_t query = row / HQ;
    const int64_t b = query / SQ;
    const int64_t hidden = bench_integer(c, "CAUSAL", 0) ? SQ - 1 - query % SQ : 0;
    const int64_t n = lists ? bench_integer(c, "TOPK", 1) : length_of(c, b) - hidden;
    const Attended a = attend_keys(c, row, bench_tensor(c, "CACHE"), n, lists ? key_of_list : key_of_page,
                                   lists ? query : b, i % VALUE);
    return is_lse ? a.lse : a.out;
}

// O [S][HQ][512], or TOP or LSE [S][HQ], in base 2.
double latent_prefill(const BenchCase *c, const char *output, int64_t i)
{
    const bool is_out = strcmp(output, "O") == 0;
    const int64_t row = is_out ? i / VALUE : i;
    const Attended a = attend_keys(c, row, bench_tensor(c, "KV"), bench_integer(c, "TOPK", 1), key_of_list,
                                   row / bench_integer(c, "HQ", 1), is_out ? i % VALUE : 0);
    return is_out ? a.out : (strcmp(output, "TOP") == 0 ? a.top : a.lse) / log(2);
}
