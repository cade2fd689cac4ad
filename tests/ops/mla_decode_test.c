// SPDX-License-Identifier: MIT
// mla_decode_test.c - dense decoding over a paged cache, against sums in double precision over the kinds of tokens that a row sees
// (latent.h), which mla_sparse_test holds against the reference of a kernel.
//
// What must not be read is NaN: slots past a request's length, pages that no request uses. Entries of the table past a
// request's last page are no pages at all.
#include "latent.h"

typedef struct Case {
    kiln_type type;
    int batch, queries, keys, heads, key_heads, page_size;
    bool ragged, zeros, causal;
    int partitions;
    bool fp8, round_scales; // the cache in the 656-byte format
    bool unaligned;         // table and lengths are aligned to 4 bytes alone, rows of the table lie 3 numbers apart
    bool out_alone;         // no lse
} Case;

enum { K = KILN_MLA_KEY, V = KILN_MLA_VALUE, NO_PAGE = 2147480000 };
static const double ROW_MOST = 0.01; // roundings make 0.003 of it

typedef struct Problem {
    Case c;
    int64_t pages, table_pages, keys_most;
    Array *q, *cache, *table, *lengths, *out, *lse, *plan, *workspace;
    kiln_tensor table_given, lengths_given;
    Pool pool;
    unsigned char *kinds; // [batch][keys_most]: which of the pool's tokens each is a copy of
} Problem;

static int64_t length_of(const Problem *p, int64_t b) { return ((const int32_t *)(const void *)p->lengths->host)[b]; }

static void make_lengths(Problem *p)
{
    const Case *const c = &p->c;
    p->lengths = ARRAY(KILN_I32, c->batch);
    for (int b = 0; b < c->batch; b++) {
        int64_t n = c->ragged ? integer(c->queries, 2 * c->keys - c->queries) : c->keys;
        if (c->zeros && integer(0, 1)) n = 0;
        set(p->lengths, b, (double)n);
        p->keys_most = n > p->keys_most ? n : p->keys_most;
    }
    p->table_pages = (p->keys_most + c->page_size - 1) / c->page_size + 2;
    array_send(p->lengths);
}

static void fill_request(int64_t b, void *context)
{
    const Problem *const p = context;
    const int32_t *const table = (const int32_t *)(const void *)p->table->host + b * p->table_pages;
    for (int64_t t = 0; t < length_of(p, b); t++)
        put_token(p->cache, (int64_t)table[t / p->c.page_size] * p->c.page_size + t % p->c.page_size, &p->pool,
                  p->kinds[b * p->keys_most + t]);
}

// Tokens of a kind stand in runs, the longer the more tokens there are, so that one tile of them too few is seen.
static void draw_kinds(unsigned char *kinds, int64_t n)
{
    const int64_t most = n / 64 < 1 ? 1 : n / 64 < 127 ? n / 64 : 127;
    for (int64_t t = 0; t < n;) {
        const int kind = (int)integer(0, KINDS - 1);
        for (int64_t end = t + integer(1, most); t < n && t < end; t++) kinds[t] = (unsigned char)kind;
    }
}

static void make_cache(Problem *p)
{
    const Case *const c = &p->c;
    p->pages = c->batch * p->table_pages + 1;
    p->cache = c->fp8 ? ARRAY(KILN_U8, p->pages, c->page_size, KILN_MLA_FP8_BYTES)
                      : ARRAY(c->type, p->pages, c->page_size, c->key_heads, K);
    p->table = ARRAY(KILN_I32, c->batch, p->table_pages);
    p->pool = c->fp8 ? make_fp8_pool(c->round_scales) : make_pool(c->type, c->key_heads * K);
    p->kinds = malloc((size_t)(c->batch * p->keys_most + 1));
    int32_t *const order = malloc(sizeof *order * (size_t)p->pages);
    permute(order, p->pages);
    for (int b = 0; b < c->batch; b++) {
        const int64_t n = length_of(p, b), used = (n + c->page_size - 1) / c->page_size;
        for (int64_t x = 0; x < p->table_pages; x++)
            set(p->table, b * p->table_pages + x, x < used ? order[b * p->table_pages + x] : x % 2 ? -7 : NO_PAGE);
        draw_kinds(p->kinds + b * p->keys_most, n);
    }
    in_parallel(c->batch, fill_request, p);
    free(order);
    array_send(p->cache);
    array_send(p->table);
}

static kiln_mla_decode_args arguments(const Problem *p, const kiln_mla_plan *plan)
{
    return (kiln_mla_decode_args){ .plan = plan,
                                   .q = &p->q->tensor,
                                   .cache = &p->cache->tensor,
                                   .table = &p->table_given,
                                   .lengths = &p->lengths_given,
                                   .out = &p->out->tensor,
                                   .lse = p->c.out_alone ? NULL : &p->lse->tensor,
                                   .causal = p->c.causal,
                                   .round_scales = p->c.round_scales,
                                   .workspace = p->workspace ? p->workspace->tensor.data : NULL,
                                   .workspace_bytes = p->workspace ? p->workspace->bytes : 0 };
}

static Problem make_problem(Case c)
{
    Problem p = { .c = c };
    seed((unsigned)(c.batch * 1000 + c.queries * 100 + c.keys));
    make_lengths(&p);
    make_cache(&p);
    p.table_given = c.unaligned ? moved_away(p.table) : p.table->tensor;
    p.lengths_given = c.unaligned ? moved_away(p.lengths) : p.lengths->tensor;
    return p;
}

// Plans and decodes, `layers` times with the one plan.
static void run(Problem *p, int layers)
{
    const Case *const c = &p->c;
    const kiln_mla_shape shape = { .batch = c->batch,
                                   .queries = c->queries,
                                   .query_heads = c->heads,
                                   .key_heads = c->key_heads,
                                   .partitions = c->partitions };
    kiln_mla_plan plan;
    size_t bytes;
    p->q = ARRAY(c->type, c->batch, c->queries, c->heads, K);
    fill_random(p->q, -1, 1);
    p->out = ARRAY(c->type, c->batch, c->queries, c->heads, V);
    p->lse = ARRAY(KILN_F32, c->batch, c->heads, c->queries);
    p->workspace = NULL;
    assert_ok(kiln_mla_plan_size(ops, &shape, &bytes));
    p->plan = bytes_new(bytes);
    assert_ok(kiln_mla_plan_make(
        ops, NULL,
        &(kiln_mla_plan_args){
            .shape = &shape, .lengths = &p->lengths_given, .memory = p->plan->tensor.data, .memory_bytes = bytes },
        &plan));
    kiln_mla_decode_args args = arguments(p, &plan);
    assert_ok(kiln_mla_decode_workspace_size(ops, &args, &bytes));
    assert_true(bytes <= decoding_bytes(&plan)); // partial results may be of 16 bits
    p->workspace = bytes_new(bytes);
    args = arguments(p, &plan);
    for (int i = 0; i < layers; i++) {
        assert_ok(kiln_mla_decode(ops, NULL, &args));
    }
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(p->plan);
    array_fetch(p->workspace);
    array_unchanged(p->q, "q");
    array_fetch(p->out);
    array_fetch(p->lse);
}

typedef struct Comparisons {
    const Problem *problem;
    Comparison out, lse;
} Comparisons;

// All heads of query i: they see the same tokens.
static void compare_query(int64_t i, void *context)
{
    Comparisons *const all = context;
    const Problem *const p = all->problem;
    const Case *const c = &p->c;
    const int64_t b = i / c->queries, j = i % c->queries, end = length_of(p, b) - (c->causal ? c->queries - 1 - j : 0);
    int32_t counts[KINDS] = { 0 };
    for (int64_t t = 0; t < end; t++) counts[p->kinds[b * p->keys_most + t]]++;
    for (int64_t h = 0; h < c->heads; h++) {
        const int64_t row = i * c->heads + h;
        double q[K];
        Attended a;
        get_many(p->q, row * K, K, q);
        attend(&a, q, p->pool.values + h / (c->heads / c->key_heads) * K, p->pool.row, counts, K, 1 / sqrt(K),
               -INFINITY);
        if (isinf(a.lse)) a.lse = INFINITY;
        compare_part(&all->out, row * V, V, a.out);
        if (!c->out_alone) compare_part(&all->lse, (b * c->heads + h) * c->queries + j, 1, &a.lse);
    }
}

static void compare(const Problem *p)
{
    Comparisons all = {
        .problem = p,
        .out = { .name = "out", .got = p->out, .tolerance = { 8e-4, 2.01 / 128, 5e-6 }, .part_most = ROW_MOST },
        .lse = { .name = "lse", .got = p->lse, .tolerance = { 1e-6, 8.01 / 65536, 1e-7 } }
    };
    in_parallel((int64_t)p->c.batch * p->c.queries, compare_query, &all);
    assert_compared(&all.out);
    if (!p->c.out_alone) assert_compared(&all.lse);
}

static void end_problem(Problem *p)
{
    array_unchanged(p->cache, "cache");
    array_unchanged(p->table, "table");
    array_unchanged(p->lengths, "lengths");
    free(p->kinds);
    free_arrays(NULL);
}

static void check_case(Case c)
{
    Problem p = make_problem(c);
    run(&p, 1);
    compare(&p);
    end_problem(&p);
}

// Lengths and queries as the tests of FlashMLA have them; heads so that a plain loop can follow.
static void lengths_and_queries(void **state)
{
    static const int batches[] = { 1, 2, 6, 64 }, queries[] = { 1, 2, 4 }, keys[] = { 20, 140, 4096 };
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++)
                for (int ragged = 0; ragged < 2; ragged++)
                    for (int causal = 0; causal < 2; causal++)
                        if (batches[i] * queries[j] * keys[k] <= 8192)
                            check_case((Case){ .type = KILN_BF16,
                                               .batch = batches[i],
                                               .queries = queries[j],
                                               .keys = keys[k],
                                               .heads = batches[i] * queries[j] * keys[k] > 4000 ? 1 : 4,
                                               .key_heads = 1,
                                               .page_size = 64,
                                               .ragged = ragged,
                                               .causal = causal });
}

static void many_heads(void **state)
{
    check_case((Case){ .type = KILN_BF16,
                       .batch = 2,
                       .queries = 1,
                       .keys = 100,
                       .heads = 128,
                       .key_heads = 1,
                       .page_size = 64,
                       .ragged = true });
    check_case((Case){ .type = KILN_BF16,
                       .batch = 1,
                       .queries = 2,
                       .keys = 70,
                       .heads = 70,
                       .key_heads = 1,
                       .page_size = 64,
                       .causal = true });
}

static void groups_of_heads(void **state)
{
    check_case((Case){ .type = KILN_BF16,
                       .batch = 2,
                       .queries = 2,
                       .keys = 150,
                       .heads = 6,
                       .key_heads = 2,
                       .page_size = 64,
                       .ragged = true });
}

static void requests_without_keys(void **state)
{
    check_case((Case){ .type = KILN_BF16,
                       .batch = 9,
                       .queries = 2,
                       .keys = 140,
                       .heads = 4,
                       .key_heads = 1,
                       .page_size = 64,
                       .ragged = true,
                       .zeros = true });
    check_case((Case){ .type = KILN_BF16,
                       .batch = 9,
                       .queries = 2,
                       .keys = 140,
                       .heads = 4,
                       .key_heads = 1,
                       .page_size = 64,
                       .ragged = true,
                       .zeros = true,
                       .causal = true });
    check_case(
        (Case){ .type = KILN_BF16, .batch = 3, .queries = 2, .keys = 0, .heads = 4, .key_heads = 1, .page_size = 64 });
    // Causal: the first queries of a request shorter than their number see nothing.
    check_case((Case){ .type = KILN_BF16,
                       .batch = 2,
                       .queries = 4,
                       .keys = 2,
                       .heads = 3,
                       .key_heads = 1,
                       .page_size = 64,
                       .causal = true });
}

static void page_sizes_and_types(void **state)
{
    check_case((Case){ .type = KILN_F16,
                       .batch = 3,
                       .queries = 1,
                       .keys = 200,
                       .heads = 4,
                       .key_heads = 1,
                       .page_size = 16,
                       .ragged = true });
    check_case((Case){ .type = KILN_BF16,
                       .batch = 2,
                       .queries = 1,
                       .keys = 300,
                       .heads = 4,
                       .key_heads = 1,
                       .page_size = 256,
                       .ragged = true });
}

static void fp8_caches(void **state)
{
    check_case((Case){ .type = KILN_BF16,
                       .batch = 3,
                       .queries = 2,
                       .keys = 140,
                       .heads = 4,
                       .key_heads = 1,
                       .page_size = 64,
                       .ragged = true,
                       .fp8 = true });
    check_case((Case){ .type = KILN_BF16,
                       .batch = 4,
                       .queries = 3,
                       .keys = 70,
                       .heads = 30,
                       .key_heads = 1,
                       .page_size = 20,
                       .ragged = true,
                       .zeros = true,
                       .causal = true,
                       .fp8 = true,
                       .round_scales = true,
                       .partitions = 5 });
}

// From one partition for everything to many without work: the splits of a request are weighed together again.
static void partitions(void **state)
{
    static const int parts[] = { 1, 2, 7, 40 };
    for (int i = 0; i < 4; i++)
        check_case((Case){ .type = KILN_BF16,
                           .batch = 3,
                           .queries = 2,
                           .keys = 400,
                           .heads = 4,
                           .key_heads = 1,
                           .page_size = 64,
                           .ragged = true,
                           .causal = true,
                           .partitions = parts[i] });
}

static void one_plan_serves_all_layers(void **state)
{
    Problem p = make_problem((Case){ .type = KILN_BF16,
                                     .batch = 3,
                                     .queries = 1,
                                     .keys = 140,
                                     .heads = 4,
                                     .key_heads = 1,
                                     .page_size = 64,
                                     .ragged = true });
    run(&p, 3);
    compare(&p);
    end_problem(&p);
}

static void nothing_to_do(void **state)
{
    check_case(
        (Case){ .type = KILN_BF16, .batch = 0, .queries = 1, .keys = 1, .heads = 4, .key_heads = 1, .page_size = 64 });
    check_case(
        (Case){ .type = KILN_BF16, .batch = 2, .queries = 0, .keys = 10, .heads = 4, .key_heads = 1, .page_size = 64 });
}

static void unaligned_partitions(void **state)
{
    for (int fp8 = 0; fp8 < 2; fp8++)
        check_case((Case){ .type = KILN_BF16,
                           .batch = 3,
                           .queries = 2,
                           .keys = 200,
                           .heads = 4,
                           .key_heads = 1,
                           .page_size = 32,
                           .ragged = true,
                           .causal = true,
                           .partitions = 5,
                           .fp8 = fp8,
                           .unaligned = true,
                           .out_alone = fp8 });
}

// Many queries of one cache, with a causal mask and without: 1, 2 and 4, or as many of them as c.queries has.
static void check_cache(Case c)
{
    Problem p = make_problem(c);
    for (int queries = 1; queries <= c.queries; queries *= 2)
        for (int causal = 0; causal < 2; causal++) {
            p.c.queries = queries;
            p.c.causal = causal;
            run(&p, 1);
            compare(&p);
        }
    end_problem(&p);
}

// The whole grid of FlashMLA's tests, all 128 heads, every element; with KILN_TEST_LONG. On the CPU long caches with fewer
// requests.
static void whole_grid(void **state)
{
    static const int batches[] = { 1, 2, 6, 64 }, keys[] = { 20, 140, 4096 };
    static const kiln_type types[] = { KILN_BF16, KILN_F16 };
    need_long_tests();
    for (int i = 0; i < 2 * 4 * 3 * 2; i++)
        check_cache((Case){ .type = types[i / 24],
                            .batch = batches[i / 6 % 4],
                            .queries = 4,
                            .keys = keys[i / 2 % 3],
                            .heads = 128,
                            .key_heads = 1,
                            .page_size = 64,
                            .ragged = i & 1 });
    for (int i = 0; i < 2; i++)
        check_cache((Case){ .type = types[i],
                            .batch = 128,
                            .queries = 2,
                            .keys = 4096,
                            .heads = 128,
                            .key_heads = 1,
                            .page_size = 64,
                            .ragged = true,
                            .zeros = true });
    for (int i = 0; i < 2 * 4; i++)
        check_cache((Case){ .type = types[i / 4],
                            .batch = on_cpu() ? 2 : 128,
                            .queries = 2,
                            .keys = 4096 << i % 4,
                            .heads = 128,
                            .key_heads = 1,
                            .page_size = 64,
                            .ragged = true });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lengths_and_queries, free_arrays),
        cmocka_unit_test_teardown(many_heads, free_arrays),
        cmocka_unit_test_teardown(groups_of_heads, free_arrays),
        cmocka_unit_test_teardown(requests_without_keys, free_arrays),
        cmocka_unit_test_teardown(page_sizes_and_types, free_arrays),
        cmocka_unit_test_teardown(fp8_caches, free_arrays),
        cmocka_unit_test_teardown(partitions, free_arrays),
        cmocka_unit_test_teardown(unaligned_partitions, free_arrays),
        cmocka_unit_test_teardown(one_plan_serves_all_layers, free_arrays),
        cmocka_unit_test_teardown(nothing_to_do, free_arrays),
        cmocka_unit_test_teardown(whole_grid, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
