// SPDX-License-Identifier: MIT
// deepseek_test.c - the indexer against the references of its kernels, its selection, of which the kernel has no reference, to the
// column, and the call that does all against its parts.
#include "kiln/ops/deepseek.h"
#include "kiln/ops/mla.h"
#include "support.h"

#include <stdlib.h>

enum { S = 18, SKV = 101, HI = 16, DI = 32, H = 4, D = 576, V = 512, TOPK = 24, B = 2 };

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

static Array *drawn(Array *x, double low, double high)
{
    fill_random(x, low, high);
    return x;
}

// Queries, keys and their windows: empty ones, ones that leave the keys, two packed sequences.
typedef struct Index {
    Array *q, *k, *scales, *weights, *starts, *ends;
    kiln_tensor moved_starts, moved_ends; // the same windows, by other strides
} Index;

static Index make_index(void)
{
    seed(3);
    Index x = { .q = drawn(ARRAY(KILN_E4M3, S, HI, DI), -2, 2),
                .k = drawn(ARRAY(KILN_E4M3, SKV, DI), -2, 2),
                .scales = drawn(ARRAY(KILN_F32, SKV), 0.5, 1.5),
                .weights = drawn(ARRAY(KILN_F32, S, HI), -1, 1),
                .starts = ARRAY(KILN_I32, S),
                .ends = ARRAY(KILN_I32, S) };
    for (int i = 0; i < S; i++) {
        set(x.starts, i, i == 5 ? 60 : i == 6 ? -9 : i < 10 ? 0 : 37);
        set(x.ends, i, i == 5 ? 20 : i == 6 ? 1000 : i < 10 ? 3 * i + 1 : 37 + 3 * i);
    }
    array_send(x.starts), array_send(x.ends);
    x.moved_starts = moved_away(x.starts), x.moved_ends = moved_away(x.ends);
    return x;
}

static const double *expected_logits(const Index *x, bool all)
{
    const kiln_tensor *const l = host_result(ARRAY(KILN_F32, S, SKV));
    const kiln_arg args[] = { mirror_arg(x->q),
                              mirror_arg(x->k),
                              host_arg(x->scales),
                              host_arg(x->weights),
                              host_arg(all ? NULL : x->starts),
                              host_arg(all ? NULL : x->ends),
                              KILN_TENSOR(l) };
    run_reference("topk/indexer.tile", "indexer_logits", "H=16, D=32", args, 7);
    return numbers(l);
}

// Tensor cores sum products of fp8 with few bits.
static const Tolerance close_to = { 0.06, 1e-3, 1e-5 };

static void logits(void **state)
{
    const Index x = make_index();
    Array *const l = ARRAY(KILN_F32, S, SKV), *const spread = array_spread(l, false);
    kiln_indexer_logits_args a = { .q = of(x.q),
                                   .k = of(x.k),
                                   .k_scales = of(x.scales),
                                   .weights = of(x.weights),
                                   .starts = of(x.starts),
                                   .ends = of(x.ends),
                                   .logits = of(l) };
    done(kiln_indexer_logits(ops, NULL, &a));
    array_fetch(l);
    assert_close("logits", l, expected_logits(&x, false), close_to);
    a.logits = of(spread), a.starts = &x.moved_starts, a.ends = &x.moved_ends, a.windows_alone = true;
    done(kiln_indexer_logits(ops, NULL, &a));
    done(kiln_clean_logits(
        ops, NULL,
        &(kiln_clean_logits_args){ .logits = of(spread), .starts = &x.moved_starts, .ends = &x.moved_ends }));
    array_fetch(spread);
    assert_close("logits", spread, values(l), (Tolerance){ 1e-30, 1e-30, 1e-12 });
    array_erase(spread);
    assert_true(array_is_erased(spread));
    a.logits = of(l), a.starts = a.ends = NULL, a.windows_alone = false;
    done(kiln_indexer_logits(ops, NULL, &a));
    array_fetch(l);
    assert_close("logits", l, expected_logits(&x, true), close_to);
}

static void scores(void **state)
{
    for (int queries = 1; queries < 4; queries += 2) {
        seed(4);
        Array *const q = drawn(ARRAY(KILN_E4M3, B, queries, HI, DI), -2, 2),
                     *const k = drawn(ARRAY(KILN_E4M3, B, SKV, DI), -2, 2),
                     *const scale = drawn(ARRAY(KILN_F32, B, SKV), 0.5, 1.5),
                     *const weights = drawn(ARRAY(KILN_F32, B, queries, HI), -1, 1),
                     *const out = ARRAY(KILN_F32, B, queries, SKV);
        done(kiln_indexer_scores(
            ops, NULL,
            &(kiln_indexer_scores_args){
                .q = of(q), .k = of(k), .k_scales = of(scale), .weights = of(weights), .scores = of(out) }));
        const kiln_arg args[] = { mirror_arg(q), host_arg(weights), mirror_arg(k), host_arg(scale), result_arg(out) };
        run_reference("topk/indexer.tile", "indexer_scores", "H=16, D=32", args, 5);
        array_fetch(out);
        assert_close("scores", out, numbers(args[4].tensor), close_to);
    }
}

// ---- selection

typedef struct Column {
    double logit;
    int at;
} Column;

static int compare_columns(const void *a, const void *b)
{
    const Column *const x = a, *const y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : x->at - y->at;
}

static int compare_numbers(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void check_selected(const Array *l, const Array *indices, int from, int to, int row)
{
    Column columns[SKV];
    int taken[TOPK], n = 0;
    for (int c = from > 0 ? from : 0; c < to && c < SKV; c++) columns[n++] = (Column){ get(l, row * SKV + c), c };
    qsort(columns, (size_t)n, sizeof *columns, compare_columns);
    if (n > TOPK) n = TOPK;
    for (int i = 0; i < n; i++) taken[i] = columns[i].at;
    qsort(taken, (size_t)n, sizeof *taken, compare_numbers);
    for (int i = 0; i < TOPK; i++) assert_int_equal((int)get(indices, row * TOPK + i), i < n ? taken[i] : -1);
}

static void selection(void **state)
{
    const Index x = make_index();
    Array *const l = drawn(ARRAY(KILN_F32, S, SKV), -1, 1), *const indices = ARRAY(KILN_I32, S, TOPK);
    for (int i = 0; i < S * SKV; i += 3) set(l, i, i % 2 ? 0.25 : -INFINITY); // ties, and what is masked
    array_send(l);
    kiln_topk_select_args a = {
        .logits = of(l), .starts = &x.moved_starts, .ends = of(x.ends), .indices = of(indices)
    };
    done(kiln_topk_select(ops, NULL, &a));
    array_fetch(indices);
    for (int i = 0; i < S; i++) check_selected(l, indices, (int)get(x.starts, i), (int)get(x.ends, i), i);
    array_erase(indices), array_send(indices);
    a.starts = a.ends = NULL;
    done(kiln_topk_select(ops, NULL, &a));
    array_fetch(indices);
    for (int i = 0; i < S; i++) check_selected(l, indices, 0, SKV, i);
}

// ---- all of it

typedef struct Attention {
    Array *q, *kv, *sink, *out, *top, *lse, *indices;
} Attention;

static Attention make_attention(void)
{
    Attention x = { .q = drawn(ARRAY(KILN_BF16, S, H, D), -1, 1),
                    .kv = drawn(ARRAY(KILN_BF16, SKV, D), -0.5, 0.5),
                    .sink = drawn(ARRAY(KILN_F32, H), -1, 3),
                    .out = ARRAY(KILN_BF16, S, H, V),
                    .top = ARRAY(KILN_F32, S, H),
                    .lse = ARRAY(KILN_F32, S, H),
                    .indices = ARRAY(KILN_I32, S, TOPK) };
    return x;
}

static void run_parts(const Index *x, const Attention *t)
{
    Array *const l = ARRAY(KILN_F32, S, SKV);
    done(kiln_indexer_logits(ops, NULL,
                             &(kiln_indexer_logits_args){ .q = of(x->q),
                                                          .k = of(x->k),
                                                          .k_scales = of(x->scales),
                                                          .weights = of(x->weights),
                                                          .starts = of(x->starts),
                                                          .ends = of(x->ends),
                                                          .logits = of(l) }));
    done(kiln_topk_select(
        ops, NULL,
        &(kiln_topk_select_args){
            .logits = of(l), .starts = of(x->starts), .ends = of(x->ends), .indices = of(t->indices) }));
    done(kiln_mla_prefill_sparse(ops, NULL,
                                 &(kiln_mla_prefill_sparse_args){ .q = of(t->q),
                                                                  .kv = of(t->kv),
                                                                  .indices = of(t->indices),
                                                                  .sink = of(t->sink),
                                                                  .out = of(t->out),
                                                                  .max_logits = of(t->top),
                                                                  .lse = of(t->lse) }));
}

static kiln_indexed_attention_args arguments(const Index *x, const Attention *t)
{
    return (kiln_indexed_attention_args){ .index_q = of(x->q),
                                          .index_k = of(x->k),
                                          .index_scales = of(x->scales),
                                          .index_weights = of(x->weights),
                                          .starts = of(x->starts),
                                          .ends = of(x->ends),
                                          .q = of(t->q),
                                          .kv = of(t->kv),
                                          .sink = of(t->sink),
                                          .out = of(t->out),
                                          .max_logits = of(t->top),
                                          .lse = of(t->lse),
                                          .indices = of(t->indices),
                                          .topk = TOPK };
}

// Everything that was written, to the bit; then it is forgotten.
static void compare_all(const Attention *got, double *const expected[4])
{
    Array *const written[] = { got->out, got->top, got->lse, got->indices };
    for (int i = 0; i < 4; i++) {
        if (!written[i]) continue;
        array_fetch(written[i]);
        assert_close(i == 3 ? "indices" : "results", written[i], expected[i], (Tolerance){ 1e-30, 1e-30, 1e-12 });
        array_erase(written[i]), array_send(written[i]);
    }
}

static void all_at_once(void **state)
{
    const Index x = make_index();
    Attention t = make_attention();
    run_parts(&x, &t);
    Array *const written[] = { t.out, t.top, t.lse, t.indices };
    double *expected[4];
    for (int i = 0; i < 4; i++) {
        array_fetch(written[i]);
        expected[i] = values(written[i]);
        array_erase(written[i]), array_send(written[i]);
    }
    for (int c = 0; c < 3;
         c++) { // all queries at once; 16 and 2, over tensors that lie apart; without what may be left out
        kiln_indexed_attention_args a = arguments(&x, &t);
        size_t bytes;
        if (c > 0) a.rows = 9;
        if (c == 1) {
            t.q = array_spread(t.q, false), t.out = array_spread(t.out, false);
            a.q = of(t.q), a.out = of(t.out), a.starts = &x.moved_starts, a.ends = &x.moved_ends;
        }
        if (c == 2) a.indices = a.lse = a.max_logits = NULL;
        assert_ok(kiln_indexed_attention_workspace_size(ops, &a, &bytes));
        const size_t rows = c ? 16 : S;
        assert_int_equal(bytes,
                         (rows * 104 * 4 + 255) / 256 * 256 + (c == 2 ? (rows * TOPK * 4 + 255) / 256 * 256 : 0));
        Array *const workspace = bytes_new(bytes);
        a.workspace = workspace->tensor.data, a.workspace_bytes = bytes;
        done(kiln_indexed_attention(ops, NULL, &a));
        array_fetch(workspace);
        if (c == 2) t.top = t.lse = t.indices = NULL;
        compare_all(&t, expected);
    }
}

// Rows from `ends` on are masked, as if the lists did not name them.
static void lists_with_ends(void **state)
{
    const Index x = make_index();
    const Attention t = make_attention();
    for (int i = 0; i < S * TOPK; i++) set(t.indices, i, (double)integer(-3, SKV + 3));
    array_send(t.indices);
    kiln_mla_prefill_sparse_args a = { .q = of(t.q),
                                       .kv = of(t.kv),
                                       .indices = of(t.indices),
                                       .sink = of(t.sink),
                                       .out = of(t.out),
                                       .max_logits = of(t.top),
                                       .lse = of(t.lse),
                                       .ends = of(x.ends) };
    done(kiln_mla_prefill_sparse(ops, NULL, &a));
    Array *const written[] = { t.out, t.top, t.lse };
    double *expected[4] = { NULL };
    for (int i = 0; i < 3; i++) {
        array_fetch(written[i]);
        expected[i] = values(written[i]);
        array_erase(written[i]), array_send(written[i]);
    }
    for (int i = 0; i < S * TOPK; i++)
        if (get(t.indices, i) >= get(x.ends, i / TOPK)) set(t.indices, i, -1);
    array_send(t.indices);
    expected[3] = values(t.indices);
    a.ends = NULL;
    done(kiln_mla_prefill_sparse(ops, NULL, &a));
    compare_all(&t, expected);
}

static void nothing_to_do(void **state)
{
    Array *const q = ARRAY(KILN_E4M3, 0, HI, DI), *const k = ARRAY(KILN_E4M3, 0, DI),
                 *const scales = ARRAY(KILN_F32, 0), *const weights = ARRAY(KILN_F32, 0, HI),
                 *const queries = ARRAY(KILN_BF16, 0, H, D), *const kv = ARRAY(KILN_BF16, 0, D),
                 *const out = ARRAY(KILN_BF16, 0, H, V);
    kiln_indexed_attention_args a = { .index_q = of(q),
                                      .index_k = of(k),
                                      .index_scales = of(scales),
                                      .index_weights = of(weights),
                                      .q = of(queries),
                                      .kv = of(kv),
                                      .out = of(out),
                                      .topk = TOPK };
    done(kiln_indexed_attention(ops, NULL, &a));

    Array *const q2 = drawn(ARRAY(KILN_E4M3, 2, HI, DI), -1, 1), *const weights2 = drawn(ARRAY(KILN_F32, 2, HI), -1, 1),
                 *const queries2 = drawn(ARRAY(KILN_BF16, 2, H, D), -1, 1), *const out2 = ARRAY(KILN_BF16, 2, H, V);
    a.index_q = of(q2), a.index_weights = of(weights2), a.q = of(queries2), a.out = of(out2); // queries, but no keys
    assert_ok(kiln_indexed_attention_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    done(kiln_indexed_attention(ops, NULL, &a));
    array_fetch(out2);
    for (int64_t i = 0; i < count(out2); i++) assert_true(get(out2, i) == 0);
}

// ---- refusals

static void refusals(void **state)
{
    const Index x = make_index();
    const Attention t = make_attention();
    kiln_tensor q = x.q->tensor, k = x.k->tensor, w = x.weights->tensor, ends = x.ends->tensor, latent = t.q->tensor,
                kv = t.kv->tensor, indices = t.indices->tensor;
    kiln_indexed_attention_args a = arguments(&x, &t);
    a.index_q = &q, a.index_k = &k, a.index_weights = &w, a.ends = &ends, a.q = &latent, a.kv = &kv,
    a.indices = &indices;
    assert_ok(kiln_indexed_attention_workspace_size(ops, &a, &a.workspace_bytes));
    Array *const workspace = bytes_new(a.workspace_bytes);
    a.workspace = workspace->tensor.data;
#define RUN kiln_indexed_attention(ops, NULL, &a)
    REFUSED(RUN, a, a.index_q = NULL, KILN_BAD_ARGUMENT, "kiln_indexed_attention: 'index_q' is null");
    REFUSED(RUN, a, a.topk = 0, KILN_BAD_SHAPE, "'topk' is 0, expected 1 to 16384");
    REFUSED(RUN, a, a.topk = 20000, KILN_UNSUPPORTED, "'topk' is 20000, expected 1 to 16384");
    REFUSED(RUN, a, a.topk = 25, KILN_BAD_SHAPE,
            "dimension 1 of 'indices' is 24, expected 25: its shape is [S][topk], and 'topk' has topk = 25");
    REFUSED(RUN, a, a.rows = -1, KILN_BAD_ARGUMENT, "'rows' is -1");
    REFUSED(RUN, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED(RUN, a, a.workspace_bytes -= 256, KILN_BAD_ARGUMENT, "needs a workspace of");
    REFUSED(RUN, a, a.workspace = t.out->tensor.data, KILN_BAD_ARGUMENT, "'workspace' and 'out' overlap");
    REFUSED_TENSOR(RUN, q, type = KILN_I8, KILN_BAD_TYPE, "'index_q' is a tensor of i8, expected e4m3");
    REFUSED_TENSOR(RUN, q, shape[0] = 3, KILN_BAD_SHAPE, "and 'index_q' has S = 3");
    REFUSED_TENSOR(RUN, k, shape[1] = 64, KILN_BAD_SHAPE, "dimension 1 of 'index_k' is 64, expected 32");
    REFUSED_TENSOR(RUN, ends, shape[0] = 1, KILN_BAD_SHAPE, "dimension 0 of 'ends' is 1, expected 18");
    REFUSED_TENSOR(RUN, kv, shape[0] = 5, KILN_BAD_SHAPE, "dimension 0 of 'kv' is 5, expected 101");
    REFUSED(RUN, latent, (latent.shape[2] = kv.shape[1] = 128), KILN_UNSUPPORTED,
            "the key size (dimension 2 of 'q') is 128, expected 576 or 512");
    kv.shape[1] = D;
    REFUSED_TENSOR(RUN, indices, data = a.workspace, KILN_BAD_ARGUMENT, "'workspace' and 'indices' overlap");
    REFUSED(RUN, q, (q.shape[1] = w.shape[1] = 4), KILN_UNSUPPORTED,
            "the indexer has 4 heads (of 'index_q'), expected a multiple of 8 up to 128");
    w.shape[1] = HI;
    REFUSED(RUN, q, (q.shape[2] = k.shape[1] = 16), KILN_UNSUPPORTED,
            "the indexer's head size (of 'index_q') is 16, expected a multiple of 32 up to 256");
    k.shape[1] = DI;
    size_t bytes;
    assert_fails(kiln_indexed_attention_workspace_size(ops, NULL, &bytes), KILN_BAD_ARGUMENT,
                 "kiln_indexed_attention_workspace_size: 'args' is null");
    array_unchanged(t.out, "out");

    Array *const l = ARRAY(KILN_F32, S, SKV);
    kiln_topk_select_args select = { .logits = of(l), .indices = of(t.indices) };
    REFUSED(kiln_topk_select(ops, NULL, &select), select, select.logits = NULL, KILN_BAD_ARGUMENT,
            "kiln_topk_select: 'logits' is null");
    REFUSED(kiln_topk_select(ops, NULL, &select), select, select.starts = &kv, KILN_BAD_TYPE,
            "'starts' is a tensor of bf16");
    kiln_clean_logits_args clean = { 0 };
    assert_fails(kiln_clean_logits(ops, NULL, &clean), KILN_BAD_ARGUMENT, "kiln_clean_logits: 'logits' is null");
    kiln_indexer_logits_args index = { .q = &q, .k = &k, .k_scales = of(x.scales), .weights = &w, .logits = &kv };
    assert_fails(kiln_indexer_logits(ops, NULL, &index), KILN_BAD_TYPE,
                 "kiln_indexer_logits: 'logits' is a tensor of bf16");
    kiln_indexer_scores_args batch = { .q = &q };
    assert_fails(kiln_indexer_scores(ops, NULL, &batch), KILN_BAD_SHAPE,
                 "kiln_indexer_scores: 'q' has rank 3, expected 4: [B][S][HI][DI]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(logits, free_arrays),          cmocka_unit_test_teardown(scores, free_arrays),
        cmocka_unit_test_teardown(selection, free_arrays),       cmocka_unit_test_teardown(all_at_once, free_arrays),
        cmocka_unit_test_teardown(lists_with_ends, free_arrays), cmocka_unit_test_teardown(nothing_to_do, free_arrays),
        cmocka_unit_test_teardown(refusals, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
