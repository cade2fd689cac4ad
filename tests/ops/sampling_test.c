// SPDX-License-Identifier: MIT
// sampling_test.c - the largest of rows against the kernels' reference, draws against the distribution that they are from, by a
// chi-square test with fixed seeds, and against the candidates that may be drawn; what is refused.
#include "support.h"

#include "kiln/ops/sampling.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static Array *result(Array *x)
{
    array_send(x);
    return x;
}

static Array *all_of(kiln_type type, int64_t n, double value)
{
    Array *const x = ARRAY(type, n);
    for (int64_t i = 0; i < n; i++) set(x, i, value);
    array_send(x);
    return x;
}

static Array *counted(int64_t n)
{
    Array *const x = ARRAY(KILN_I64, n);
    for (int64_t i = 0; i < n; i++) set(x, i, (double)i);
    array_send(x);
    return x;
}

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

// ---- the largest

static void largest(void **state)
{
    static const struct {
        kiln_type type;
        int64_t rows, columns, k;
        bool apart;
    } cases[] = { { KILN_F32, 5, 100, 6, true }, { KILN_BF16, 3, 3000, 40, true }, { KILN_BF16, 0, 3000, 40, false } };
    for (int i = 0; i < 3; i++) {
        Array *const x = ARRAY(cases[i].type, cases[i].rows, cases[i].columns);
        fill_random(x, -3, 3);
        Array *const v = result(ARRAY(cases[i].type, cases[i].rows, cases[i].k));
        Array *const at = result(ARRAY(KILN_I32, cases[i].rows, cases[i].k));
        const kiln_tensor *const ev = host_result(v), *const eat = host_result(at);
        char bindings[40];
        snprintf(bindings, sizeof bindings, "T=f32, K=%d", (int)cases[i].k);
        const kiln_arg args[] = { KILN_TENSOR(host_copy(x)), KILN_TENSOR(ev), KILN_TENSOR(eat) };
        run_reference("topk/rows.tile", "topk_rows", bindings, args, 3);
        kiln_topk_args a = { .x = of(cases[i].apart ? array_spread(x, false) : x), .values = of(v), .indices = of(at) };
        assert_ok(kiln_topk_workspace_size(ops, &a, &a.workspace_bytes));
        a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
        done(kiln_topk(ops, NULL, &a));
        array_fetch(v), array_fetch(at);
        assert_close("values", v, numbers(ev), (Tolerance){ 1e-9, 0, 1e-12 });
        assert_close("indices", at, numbers(eat), (Tolerance){ 0.5, 0, 1e-12 });
    }
}

// ---- draws

enum { ROWS = 600, V = 12 };

// The same logits in all rows: twice the last one, so that two are equal.
static Array *rows_of_logits(double *p, double temperature)
{
    Array *const x = ARRAY(KILN_F32, ROWS, V);
    double logits[V], sum = 0;
    for (int j = 0; j < V; j++) logits[j] = j % 5 == 4 ? 1.5 : 0.37 * ((j * 7) % V);
    for (int i = 0; i < ROWS * V; i++) set(x, i, logits[i % V]);
    for (int j = 0; j < V; j++) sum += p[j] = exp((float)logits[j] / temperature);
    for (int j = 0; j < V; j++) p[j] /= sum;
    array_send(x);
    return x;
}

// Sum of squared deviations, in units of what is expected: chi-square of one less than there are candidates.
static double chi_square(const Array *tokens, const double *p, int *candidates)
{
    double seen[V] = { 0 }, sum = 0;
    *candidates = 0;
    for (int i = 0; i < ROWS; i++) {
        const int token = (int)get(tokens, i);
        assert_in_range(token, 0, V - 1);
        if (p[token] <= 0) fail_msg("row %d has token %d, which is no candidate", i, token);
        seen[token] += 1;
    }
    for (int j = 0; j < V; j++)
        if (p[j] > 0) {
            sum += (seen[j] - ROWS * p[j]) * (seen[j] - ROWS * p[j]) / (ROWS * p[j]);
            *candidates += 1;
        }
    return sum;
}

// Keeps the `n` largest of p, the lowest columns among equals, and gives their sum 1.
static void keep(double *p, int n, double min_p)
{
    double q[V] = { 0 }, sum = 0, top = 0;
    for (int k = 0; k < n; k++) {
        int at = -1;
        for (int j = 0; j < V; j++)
            if (q[j] == 0 && (at < 0 || p[j] > p[at])) at = j;
        q[at] = p[at];
        top = fmax(top, p[at]);
    }
    for (int j = 0; j < V; j++) sum += p[j] = q[j] >= min_p * top ? q[j] : 0;
    for (int j = 0; j < V; j++) p[j] /= sum;
}

// 99.9% of chi-square with n degrees of freedom lie below, by Wilson and Hilferty.
static double most_of(int n)
{
    const double x = 1 - 2.0 / (9 * n) + 3.09 * sqrt(2.0 / (9 * n));
    return n * x * x * x;
}

static void draws_have_their_distribution(void **state)
{
    static const struct {
        double temperature, top_p, min_p;
        int top_k, left; // that top-k and top-p leave
    } cases[] = { { 1, 1, 0, 0, V }, { 0.7, 1, 0, 5, 5 }, { 2, 0.5, 0, 0, 0 }, { 1.3, 1, 0.3, 0, V } };
    for (int i = 0; i < 4; i++) {
        double p[V], sum = 0;
        int candidates, left = cases[i].left;
        Array *const logits = rows_of_logits(p, cases[i].temperature), *const tokens = result(ARRAY(KILN_I32, ROWS));
        Array *const chosen = result(ARRAY(KILN_F32, ROWS)), *const all = result(ARRAY(KILN_F32, ROWS, V));
        for (double q[V]; !left || (left < V && sum < cases[i].top_p && !cases[i].top_k);) {
            memcpy(q, p, sizeof q);
            keep(q, ++left, 0);
            sum = 0;
            for (int j = 0; j < V; j++) sum += q[j] > 0 ? p[j] : 0;
        }
        keep(p, left, cases[i].min_p);
        done(kiln_sample(ops, NULL,
                         &(kiln_sample_args){ .logits = of(logits),
                                              .temperatures = of(all_of(KILN_F32, ROWS, cases[i].temperature)),
                                              .top_k = of(all_of(KILN_I32, ROWS, cases[i].top_k)),
                                              .top_p = of(all_of(KILN_F32, ROWS, cases[i].top_p)),
                                              .min_p = of(all_of(KILN_F32, ROWS, cases[i].min_p)),
                                              .seeds = of(counted(ROWS)),
                                              .tokens = of(tokens),
                                              .probabilities = of(chosen),
                                              .distribution = of(all) }));
        array_fetch(tokens), array_fetch(chosen), array_fetch(all);
        const double chi = chi_square(tokens, p, &candidates);
        if (!(chi < most_of(candidates - 1)))
            fail_msg("case %d: chi-square is %g of %d candidates", i, chi, candidates);
        double *const expected = values(all), *const own = values(chosen);
        for (int j = 0; j < ROWS * V; j++) expected[j] = p[j % V];
        for (int j = 0; j < ROWS; j++) own[j] = p[(int)get(tokens, j)];
        assert_close("distribution", all, expected, (Tolerance){ 1e-6, 1e-4, 1e-9 });
        assert_close("probabilities", chosen, own, (Tolerance){ 1e-6, 1e-4, 1e-9 });
    }
}

// One seed: its steps are draws of their own; the same step is the same token.
static void steps_of_a_seed(void **state)
{
    double p[V];
    int candidates;
    Array *const logits = rows_of_logits(p, 1), *const seeds = all_of(KILN_I64, ROWS, 7), *const steps = counted(ROWS);
    Array *const first = result(ARRAY(KILN_I32, ROWS)), *const second = result(ARRAY(KILN_I32, ROWS));
    kiln_sample_args a = { .logits = of(logits), .seeds = of(seeds), .steps = of(steps), .tokens = of(first) };
    done(kiln_sample(ops, NULL, &a));
    a.tokens = of(second);
    done(kiln_sample(ops, NULL, &a));
    array_fetch(first), array_fetch(second);
    assert_close("tokens", second, values(first), (Tolerance){ 1e-9, 0, 1e-12 });
    assert_true(chi_square(first, p, &candidates) < most_of(V - 1));
}

static void the_most_probable(void **state)
{
    Array *const x = ARRAY(KILN_F16, 3, 40), *const tokens = result(ARRAY(KILN_I32, 3)),
                 *const logprobs = result(ARRAY(KILN_F32, 3));
    for (int i = 0; i < 3 * 40; i++)
        set(x, i, i / 40 == 2 ? -INFINITY : i % 40 == 9 || i % 40 == 17 ? 2 : i % 40 % 3 ? NAN : 1);
    array_send(x);
    done(
        kiln_sample(ops, NULL, &(kiln_sample_args){ .logits = of(x), .tokens = of(tokens), .logprobs = of(logprobs) }));
    array_fetch(tokens), array_fetch(logprobs);
    const double sum = 2 + 13 * exp(-1); // of columns that are multiples of 3, but 9
    const double expected[3] = { 9, 9, -1 }, log_of[3] = { -log(sum), -log(sum), -INFINITY };
    assert_close("tokens", tokens, expected, (Tolerance){ 1e-9, 0, 1e-12 });
    assert_close("logprobs", logprobs, log_of, (Tolerance){ 1e-5, 1e-5, 1e-9 });
}

// Probabilities are whole numbers of 2^-36 of the largest.
static void the_least_probable(void **state)
{
    static const double logits[4] = { 0, -24.9, -25.1, -INFINITY }; // 2^-35.92, 2^-36.21
    Array *const x = ARRAY(KILN_F32, 1, 4), *const all = result(ARRAY(KILN_F32, 1, 4));
    for (int i = 0; i < 4; i++) set(x, i, logits[i]);
    array_send(x);
    done(kiln_sample(ops, NULL,
                     &(kiln_sample_args){ .logits = of(x),
                                          .temperatures = of(all_of(KILN_F32, 1, 1)),
                                          .top_k = of(all_of(KILN_I32, 1, 0)),
                                          .top_p = of(all_of(KILN_F32, 1, 1)),
                                          .min_p = of(all_of(KILN_F32, 1, 0)),
                                          .seeds = of(counted(1)),
                                          .tokens = of(result(ARRAY(KILN_I32, 1))),
                                          .probabilities = of(result(ARRAY(KILN_F32, 1))),
                                          .distribution = of(all) }));
    array_fetch(all);
    assert_true(get(all, 0) == 1 && get(all, 1) == ldexp(1, -36) && get(all, 2) == 0 && get(all, 3) == 0);
}

// ---- refusals

static void what_is_refused(void **state)
{
    Array *const x = ARRAY(KILN_F32, 2, 8), *const v = ARRAY(KILN_F32, 2, 9), *const at = ARRAY(KILN_I32, 2, 9);
    Array *const tokens = ARRAY(KILN_I32, 2), *const seeds = ARRAY(KILN_I32, 2);
    const kiln_tensor wide = kiln_tensor_of(device, x->tensor.data, KILN_F32, 2, (int64_t[]){ 0, 300000 });
    const kiln_tensor none = kiln_tensor_of(device, tokens->tensor.data, KILN_I32, 1, (int64_t[]){ 0 });
    const kiln_topk_args a = { .x = of(x), .values = of(v), .indices = of(at) };
    assert_fails(kiln_topk(ops, NULL, &a), KILN_UNSUPPORTED, "kiln_topk: 'x' has N = 8, expected 9 to");
    kiln_sample_args s = { .logits = of(x), .tokens = of(tokens) };
    REFUSED(kiln_sample(ops, NULL, &s), s, s.seeds = of(seeds), KILN_BAD_TYPE,
            "kiln_sample: 'seeds' is a tensor of i32, expected i64");
    REFUSED(kiln_sample(ops, NULL, &s), s, (s.logits = &wide, s.tokens = &none), KILN_UNSUPPORTED,
            "'logits' has V = 300000, expected 1 to 262144");
    REFUSED(kiln_sample(ops, NULL, &s), s, s.tokens = NULL, KILN_BAD_ARGUMENT, "'tokens' is null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(largest, free_arrays),
        cmocka_unit_test_teardown(draws_have_their_distribution, free_arrays),
        cmocka_unit_test_teardown(steps_of_a_seed, free_arrays),
        cmocka_unit_test_teardown(the_most_probable, free_arrays),
        cmocka_unit_test_teardown(the_least_probable, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
