// mla_decode_test.c - dense decoding over a paged cache, against a plain loop in double precision.
//
// What must not be read is NaN: slots past a request's length, pages that no request uses. Entries of the table past a
// request's last page are no pages at all.
#include "support.h"

typedef struct Case {
    kiln_type type;
    int  batch, queries, keys, heads, key_heads, page_size;
    bool ragged, zeros, causal;
    int  partitions;
    bool fp8, round_scales;          // the cache in the 656-byte format
    int  samples;                    // query rows that are compared, drawn at random; 0: all
} Case;

enum { K = KILN_MLA_KEY, V = KILN_MLA_VALUE, NO_PAGE = 2147480000 };

typedef struct Problem {
    Case    c;
    int64_t pages, table_pages;
    Array  *q, *cache, *table, *lengths, *out, *lse, *plan, *workspace;
    double *keys;                    // what a cache in the 656-byte format holds
} Problem;

static int64_t length_of(const Problem *p, int b) { return (int64_t)get(p->lengths, b); }

static void make_lengths(Problem *p)
{
    const Case *const c = &p->c;
    p->lengths = ARRAY(KILN_I32, c->batch);
    for (int b = 0; b < c->batch; b++) {
        int64_t n = c->ragged ? integer(c->queries, 2 * c->keys - c->queries) : c->keys;
        if (c->zeros && integer(0, 1)) n = 0;
        set(p->lengths, b, (double)n);
        const int64_t used = (n + c->page_size - 1) / c->page_size;
        p->table_pages = used > p->table_pages ? used : p->table_pages;
    }
    p->table_pages += 2;
    array_send(p->lengths);
}

// The tokens of one request draw the numbers from `places[b]` on.
typedef struct Filling { Problem *problem; const int32_t *order; uint64_t *places; } Filling;

static void fill_request(int64_t b, void *context)
{
    const Filling *const f = context;
    const Problem *const p = f->problem;
    const int64_t row = (int64_t)p->c.key_heads * K, n = length_of(p, (int)b), size = p->c.page_size;
    uint64_t place = f->places[b];
    for (int64_t t = 0; t < n; t += size) {
        const int64_t page = f->order[b * p->table_pages + t / size], tokens = n - t < size ? n - t : size;
        place = fill_taken(p->cache, page * size * row, tokens * row, place, -0.3, 0.3);
    }
}

static void make_cache(Problem *p)
{
    const Case *const c = &p->c;
    const int64_t row = (int64_t)c->key_heads * K;
    p->pages = c->batch * p->table_pages + 1;
    p->cache = c->fp8 ? ARRAY(KILN_U8, p->pages, c->page_size, KILN_MLA_FP8_BYTES) : ARRAY(c->type, p->pages, c->page_size, c->key_heads, K);
    p->keys = c->fp8 ? values(ARRAY(KILN_F32, p->pages, c->page_size, K)) : NULL;
    p->table = ARRAY(KILN_I32, c->batch, p->table_pages);
    int32_t *const order = malloc(sizeof *order * (size_t)p->pages);
    uint64_t *const places = malloc(sizeof *places * (size_t)(c->batch + 1));
    permute(order, p->pages);
    for (int b = 0; b < c->batch; b++) {
        const int64_t n = length_of(p, b), used = (n + c->page_size - 1) / c->page_size;
        for (int64_t x = 0; x < p->table_pages; x++)
            set(p->table, b * p->table_pages + x, x < used ? order[b * p->table_pages + x] : x % 2 ? -7 : NO_PAGE);
        for (int64_t t = 0; t < n && c->fp8; t++) {
            const int64_t slot = order[b * p->table_pages + t / c->page_size] * (int64_t)c->page_size + t % c->page_size;
            fp8_token(p->cache, slot, p->keys + slot * K, c->round_scales);
        }
        places[b] = c->fp8 ? 0 : random_take(n * row);
    }
    if (!c->fp8) in_parallel(c->batch, fill_request, &(Filling){ p, order, places });
    free(order);
    free(places);
    array_send(p->cache);
    array_send(p->table);
}

static kiln_mla_decode_args arguments(const Problem *p, const kiln_mla_plan *plan)
{
    return (kiln_mla_decode_args){
        .plan = plan, .q = &p->q->tensor, .cache = &p->cache->tensor, .table = &p->table->tensor, .lengths = &p->lengths->tensor,
        .out = &p->out->tensor, .lse = &p->lse->tensor, .causal = p->c.causal, .round_scales = p->c.round_scales,
        .workspace = p->workspace ? p->workspace->tensor.data : NULL, .workspace_bytes = p->workspace ? p->workspace->bytes : 0 };
}

static Problem make_problem(Case c)
{
    Problem p = { .c = c };
    seed((unsigned)(c.batch * 1000 + c.queries * 100 + c.keys));
    make_lengths(&p);
    make_cache(&p);
    p.q = ARRAY(c.type, c.batch, c.queries, c.heads, K);
    fill_random(p.q, -1, 1);
    p.out = ARRAY(c.type, c.batch, c.queries, c.heads, V);
    p.lse = ARRAY(KILN_F32, c.batch, c.heads, c.queries);
    return p;
}

// Plans and decodes, `layers` times with the one plan.
static void run(Problem *p, int layers)
{
    const Case *const c = &p->c;
    const kiln_mla_shape shape = { .batch = c->batch, .queries = c->queries, .query_heads = c->heads, .key_heads = c->key_heads,
                                   .partitions = c->partitions };
    kiln_mla_plan plan;
    size_t bytes;
    assert_ok(kiln_mla_plan_size(ops, &shape, &bytes));
    p->plan = bytes_new(bytes);
    assert_ok(kiln_mla_plan_make(ops, NULL, &(kiln_mla_plan_args){ .shape = &shape, .lengths = &p->lengths->tensor,
        .memory = p->plan->tensor.data, .memory_bytes = bytes }, &plan));
    kiln_mla_decode_args args = arguments(p, &plan);
    assert_ok(kiln_mla_decode_workspace_size(ops, &args, &bytes));
    p->workspace = bytes_new(bytes);
    args = arguments(p, &plan);
    for (int i = 0; i < layers; i++) {
        assert_ok(kiln_mla_decode(ops, NULL, &args));
    }
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(p->plan);
    array_fetch(p->workspace);
    array_unchanged(p->q, "q");
    array_unchanged(p->cache, "cache");
    array_unchanged(p->table, "table");
    array_unchanged(p->lengths, "lengths");
    array_fetch(p->out);
    array_fetch(p->lse);
}

static void take_key(const Problem *p, int b, int64_t t, int g, double key[K])
{
    const Case *const c = &p->c;
    const int64_t page = (int64_t)get(p->table, b * p->table_pages + t / c->page_size), slot = page * c->page_size + t % c->page_size;
    if (p->keys) memcpy(key, p->keys + slot * K, K * sizeof *key);
    else get_many(p->cache, (slot * c->key_heads + g) * K, K, key);
}

// Row (b, j, h): a softmax that scales down what it has summed whenever a larger score comes.
static void expect_row(const Problem *p, int64_t row, double *out, double *lse)
{
    const Case *const c = &p->c;
    const int h = (int)(row % c->heads), j = (int)(row / c->heads % c->queries), b = (int)(row / c->heads / c->queries);
    const int64_t n = length_of(p, b), end = c->causal ? n - (c->queries - 1 - j) : n;
    double q[K], key[K], top = -INFINITY, sum = 0;
    for (int d = 0; d < K; d++) q[d] = get(p->q, row * K + d) / sqrt(K);
    for (int d = 0; d < V; d++) out[d] = 0;
    for (int64_t t = 0; t < end; t++) {
        take_key(p, b, t, h / (c->heads / c->key_heads), key);
        const double score = dot(q, key, K);
        const double most = fmax(top, score), fix = exp(top - most), e = exp(score - most);
        if (most > top)
            for (int d = 0; d < V; d++) out[d] *= fix;
        sum = sum * fix + e;
        top = most;
        for (int d = 0; d < V; d++) out[d] += e * key[d];
    }
    for (int d = 0; d < V; d++) out[d] = sum > 0 ? out[d] / sum : 0;
    *lse = sum > 0 ? top + log(sum) : INFINITY;
}

typedef struct Rows { const Problem *problem; int64_t *numbers; double *out, *lse; } Rows;

static void expect_one(int64_t i, void *context)
{
    const Rows *const r = context;
    expect_row(r->problem, r->numbers[i], r->out + i * V, r->lse + i);
}

// The rows to compare stand together in arrays of their own; all others must at least be written.
static void compare(const Problem *p)
{
    const Case *const c = &p->c;
    const int64_t rows = (int64_t)c->batch * c->queries * c->heads, n = c->samples && c->samples < rows ? c->samples : rows;
    const size_t bytes = (size_t)V * 2;                    // of a row, in either type
    Array *const outs = ARRAY(c->type, n, V), *const lses = ARRAY(KILN_F32, n);
    double *const out = values(outs), *const lse = values(lses);
    int64_t *const numbers = malloc(sizeof *numbers * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) numbers[i] = n == rows ? i : integer(0, rows - 1);
    in_parallel(n, expect_one, &(Rows){ p, numbers, out, lse });
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = numbers[i], h = row % c->heads, j = row / c->heads % c->queries, b = row / c->heads / c->queries;
        memcpy(outs->host + (size_t)i * bytes, p->out->host + (size_t)row * bytes, bytes);
        memcpy(lses->host + (size_t)i * 4, p->lse->host + (size_t)((b * c->heads + h) * c->queries + j) * 4, 4);
    }
    free(numbers);
    assert_close("out", outs, out, (Tolerance){ 8e-4, 2.01 / 128, 5e-6 });
    assert_close("lse", lses, lse, (Tolerance){ 1e-6, 8.01 / 65536, 1e-7 });
    const int64_t nan = first_nan(p->out);
    if (nan >= 0) fail_msg("out[%lld] was not written", (long long)nan);
}

static void check_case(Case c)
{
    Problem p = make_problem(c);
    run(&p, 1);
    compare(&p);
    free_arrays(NULL);
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
                            check_case((Case){ .type = KILN_BF16, .batch = batches[i], .queries = queries[j], .keys = keys[k],
                                               .heads = batches[i] * queries[j] * keys[k] > 4000 ? 1 : 4, .key_heads = 1,
                                               .page_size = 64, .ragged = ragged, .causal = causal });
}

static void many_heads(void **state)
{
    check_case((Case){ .type = KILN_BF16, .batch = 2, .queries = 1, .keys = 100, .heads = 128, .key_heads = 1, .page_size = 64,
                       .ragged = true });
    check_case((Case){ .type = KILN_BF16, .batch = 1, .queries = 2, .keys = 70, .heads = 70, .key_heads = 1, .page_size = 64,
                       .causal = true });
}

static void groups_of_heads(void **state)
{
    check_case((Case){ .type = KILN_BF16, .batch = 2, .queries = 2, .keys = 150, .heads = 6, .key_heads = 2, .page_size = 64,
                       .ragged = true });
}

static void requests_without_keys(void **state)
{
    check_case((Case){ .type = KILN_BF16, .batch = 9, .queries = 2, .keys = 140, .heads = 4, .key_heads = 1, .page_size = 64,
                       .ragged = true, .zeros = true });
    check_case((Case){ .type = KILN_BF16, .batch = 9, .queries = 2, .keys = 140, .heads = 4, .key_heads = 1, .page_size = 64,
                       .ragged = true, .zeros = true, .causal = true });
    check_case((Case){ .type = KILN_BF16, .batch = 3, .queries = 2, .keys = 0, .heads = 4, .key_heads = 1, .page_size = 64 });
    // Causal: the first queries of a request shorter than their number see nothing.
    check_case((Case){ .type = KILN_BF16, .batch = 2, .queries = 4, .keys = 2, .heads = 3, .key_heads = 1, .page_size = 64,
                       .causal = true });
}

static void page_sizes_and_types(void **state)
{
    check_case((Case){ .type = KILN_F16, .batch = 3, .queries = 1, .keys = 200, .heads = 4, .key_heads = 1, .page_size = 16,
                       .ragged = true });
    check_case((Case){ .type = KILN_BF16, .batch = 2, .queries = 1, .keys = 300, .heads = 4, .key_heads = 1, .page_size = 256,
                       .ragged = true });
}

static void fp8_caches(void **state)
{
    check_case((Case){ .type = KILN_BF16, .batch = 3, .queries = 2, .keys = 140, .heads = 4, .key_heads = 1, .page_size = 64,
                       .ragged = true, .fp8 = true });
    check_case((Case){ .type = KILN_BF16, .batch = 4, .queries = 3, .keys = 70, .heads = 30, .key_heads = 1, .page_size = 20,
                       .ragged = true, .zeros = true, .causal = true, .fp8 = true, .round_scales = true, .partitions = 5 });
}

// From one partition for everything to many without work: the splits of a request are weighed together again.
static void partitions(void **state)
{
    static const int parts[] = { 1, 2, 7, 40 };
    for (int i = 0; i < 4; i++)
        check_case((Case){ .type = KILN_BF16, .batch = 3, .queries = 2, .keys = 400, .heads = 4, .key_heads = 1, .page_size = 64,
                           .ragged = true, .causal = true, .partitions = parts[i] });
}

static void one_plan_serves_all_layers(void **state)
{
    Problem p = make_problem((Case){ .type = KILN_BF16, .batch = 3, .queries = 1, .keys = 140, .heads = 4, .key_heads = 1,
                                     .page_size = 64, .ragged = true });
    run(&p, 3);
    compare(&p);
}

static void nothing_to_do(void **state)
{
    check_case((Case){ .type = KILN_BF16, .batch = 0, .queries = 1, .keys = 1, .heads = 4, .key_heads = 1, .page_size = 64 });
    check_case((Case){ .type = KILN_BF16, .batch = 2, .queries = 0, .keys = 10, .heads = 4, .key_heads = 1, .page_size = 64 });
}

// The grid of FlashMLA's tests at full size: 128 heads, long caches, big batches. Some minutes; with KILN_TEST_LONG.
static void whole_grid(void **state)
{
    static const int batches[] = { 1, 2, 6, 64 }, queries[] = { 1, 2, 4 }, keys[] = { 20, 140, 4096 };
    need_long_tests();
    for (int i = 0; i < 4 * 3 * 3 * 4; i++)
        check_case((Case){ .type = KILN_BF16, .batch = batches[i / 36], .queries = queries[i / 12 % 3], .keys = keys[i / 4 % 3],
                           .heads = 128, .key_heads = 1, .page_size = 64, .ragged = i & 1, .causal = i & 2, .samples = 64 });
    for (int i = 0; i < 3 * 3 * 3; i++)
        check_case((Case){ .type = KILN_F16, .batch = batches[i / 9], .queries = queries[i / 3 % 3], .keys = keys[i % 3],
                           .heads = 128, .key_heads = 1, .page_size = 64, .ragged = true, .causal = i & 1, .samples = 16 });
    for (int causal = 0; causal < 2; causal++)
        check_case((Case){ .type = KILN_BF16, .batch = 128, .queries = 2, .keys = 4096, .heads = 128, .key_heads = 1, .page_size = 64,
                           .ragged = true, .zeros = true, .causal = causal, .samples = 64 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lengths_and_queries, free_arrays),
        cmocka_unit_test_teardown(many_heads, free_arrays), cmocka_unit_test_teardown(groups_of_heads, free_arrays),
        cmocka_unit_test_teardown(requests_without_keys, free_arrays),
        cmocka_unit_test_teardown(page_sizes_and_types, free_arrays), cmocka_unit_test_teardown(fp8_caches, free_arrays),
        cmocka_unit_test_teardown(partitions, free_arrays),
        cmocka_unit_test_teardown(one_plan_serves_all_layers, free_arrays),
        cmocka_unit_test_teardown(nothing_to_do, free_arrays), cmocka_unit_test_teardown(whole_grid, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
