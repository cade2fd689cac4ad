// SPDX-License-Identifier: MIT
// not_finite_test.c - keys and queries that are NaN or infinite: what decoding makes of them, however keys are divided.
//
// A score of NaN or +infinity makes a row's output and log-sum-exp NaN; one of -infinity is hidden. A row that sees nothing has
// a log-sum-exp of its own: -infinity, or +infinity of latent attention, beside an output of 0.
#include "latent.h"

// Softmax attention of one row, by the rule above. Keys and values stand `stride` numbers apart.
static double attend_row(const double *q, const double *k, const double *v, int stride, int keys, int size,
                         int value_size, double scale, double nothing, double *out)
{
    double sum = 0;
    for (int d = 0; d < value_size; d++) out[d] = 0;
    for (int j = 0; j < keys; j++) {
        const double score = dot(q, k + (int64_t)j * stride, size) * scale; // small if it is finite: no maximum needed
        if (score == -INFINITY) continue;
        const double w = score == INFINITY ? NAN : exp(score);
        sum += w;
        for (int d = 0; d < value_size; d++) out[d] += w * v[(int64_t)j * stride + d];
    }
    for (int d = 0; d < value_size; d++) out[d] = sum == 0 ? 0 : out[d] / sum;
    return sum == 0 ? nothing : log(sum);
}

enum { REQUESTS = 7, KEYS = 300, HEADS = 4, D = 64 };

static void check_decode(kiln_type type, int64_t splits)
{
    Array *const q = ARRAY(type, REQUESTS, HEADS, D), *const k = ARRAY(type, REQUESTS, KEYS, 1, D),
                 *const v = ARRAY(type, REQUESTS, KEYS, 1, D), *const out = ARRAY(type, REQUESTS, HEADS, D),
                 *const lse = ARRAY(KILN_F32, REQUESTS, HEADS), *const lengths = ARRAY(KILN_I32, REQUESTS);
    seed(7);
    draw_random(q, -1, 1);
    draw_random(k, -1, 1);
    fill_random(v, -0.5, 0.5);
    for (int b = 0; b < REQUESTS; b++) set(lengths, b, b == 6 ? 0 : KEYS);
    for (int h = 0; h < HEADS; h++)
        for (int b = 1; b < REQUESTS; b++) set(q, (b * HEADS + h) * D, 1);
    set(k, (0 * KEYS + 70) * D + 9, NAN); // one key of NaN; of +infinity; of -infinity
    set(k, (1 * KEYS + 130) * D, INFINITY);
    set(k, (2 * KEYS + 130) * D, -INFINITY);
    for (int j = 0; j < KEYS; j++) { // all keys of NaN; of -infinity
        set(k, (3 * KEYS + j) * D + 5, NAN);
        set(k, (4 * KEYS + j) * D, -INFINITY);
    }
    set(q, (5 * HEADS + 2) * D + 3, NAN); // one head's query
    array_send(q);
    array_send(k);
    array_send(lengths);
    kiln_attention_decode_args args = { .q = &q->tensor,
                                        .k = &k->tensor,
                                        .v = &v->tensor,
                                        .lengths = &lengths->tensor,
                                        .out = &out->tensor,
                                        .lse = &lse->tensor,
                                        .splits = splits };
    assert_ok(kiln_attention_decode_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    assert_ok(kiln_attention_decode(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    array_fetch(lse);

    const double *const qs = values(q), *const ks = values(k), *const vs = values(v);
    double *const outs = values(out), *const lses = values(lse);
    for (int i = 0; i < REQUESTS * HEADS; i++) {
        const int64_t b = i / HEADS;
        lses[i] = attend_row(qs + i * D, ks + b * KEYS * D, vs + b * KEYS * D, D, b == 6 ? 0 : KEYS, D, D, 0.125,
                             -INFINITY, outs + i * D);
    }
    assert_true(isnan(lses[0]) && isnan(lses[HEADS]) && isfinite(lses[2 * HEADS]) && isnan(lses[3 * HEADS]));
    assert_close("lse", lse, lses, (Tolerance){ 1e-5, 1e-5, 1e-7 });
    assert_close("out", out, outs, (Tolerance){ 1e-3, 8.01 / 128, 7e-6 });
    free_arrays(NULL);
}

static void decode_not_finite(void **state)
{
    for (int64_t splits = 0; splits < 4; splits++) check_decode(KILN_BF16, splits);
    check_decode(KILN_F16, 5);
}

static void check_latent_decode(int partitions)
{
    enum { REQUESTS = 5, PAGES = REQUESTS * KEYS / 60, K = KILN_MLA_KEY, V = KILN_MLA_VALUE }; // 5 pages of 64 for each
    const kiln_mla_shape shape = { .batch = REQUESTS, .queries = 1, .query_heads = HEADS, .partitions = partitions };
    Array *const q = ARRAY(KILN_BF16, REQUESTS, 1, HEADS, K), *const cache = ARRAY(KILN_BF16, PAGES, 64, 1, K),
                 *const table = ARRAY(KILN_I32, REQUESTS, 5), *const lengths = ARRAY(KILN_I32, REQUESTS),
                 *const out = ARRAY(KILN_BF16, REQUESTS, 1, HEADS, V), *const lse = ARRAY(KILN_F32, REQUESTS, HEADS, 1);
    seed(8);
    draw_random(q, -1, 1);
    draw_random(cache, -0.2, 0.2);
    for (int i = 0; i < PAGES; i++) set(table, i, i);
    for (int b = 0; b < REQUESTS; b++) set(lengths, b, b == 4 ? 0 : KEYS);
    for (int i = 0; i < REQUESTS * HEADS; i++) set(q, (int64_t)i * K + K - 1, 1);
    set(cache, (0 * 320 + 70) * (int64_t)K + 9, NAN);
    set(cache, (1 * 320 + 130) * (int64_t)K + K - 1, INFINITY);
    set(cache, (2 * 320 + 130) * (int64_t)K + K - 1, -INFINITY);
    for (int j = 0; j < KEYS; j++) set(cache, (3 * 320 + j) * (int64_t)K + K - 1, -INFINITY);
    array_send(q);
    array_send(cache);
    array_send(table);
    array_send(lengths);
    const kiln_mla_plan plan = make_plan(&shape, &lengths->tensor);
    kiln_mla_decode_args args = { .plan = &plan,
                                  .q = &q->tensor,
                                  .cache = &cache->tensor,
                                  .table = &table->tensor,
                                  .lengths = &lengths->tensor,
                                  .out = &out->tensor,
                                  .lse = &lse->tensor };
    assert_ok(kiln_mla_decode_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    assert_ok(kiln_mla_decode(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    array_fetch(lse);

    const double *const qs = values(q), *const ks = values(cache);
    double *const outs = values(out), *const lses = values(lse);
    for (int i = 0; i < REQUESTS * HEADS; i++) {
        const double *const k = ks + (int64_t)(i / HEADS) * 320 * K;
        lses[i] = attend_row(qs + (int64_t)i * K, k, k, K, i / HEADS == 4 ? 0 : KEYS, K, V, 1.0 / 24, INFINITY,
                             outs + (int64_t)i * V);
    }
    assert_true(isnan(lses[0]) && isnan(lses[HEADS]) && isfinite(lses[2 * HEADS]) && isinf(lses[3 * HEADS]));
    assert_close("lse", lse, lses, (Tolerance){ 1e-5, 1e-5, 1e-7 });
    assert_close("out", out, outs, (Tolerance){ 1e-3, 8.01 / 128, 7e-6 });
    free_arrays(NULL);
}

static void latent_decode_not_finite(void **state)
{
    check_latent_decode(1);
    check_latent_decode(17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(decode_not_finite, free_arrays),
        cmocka_unit_test_teardown(latent_decode_not_finite, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
