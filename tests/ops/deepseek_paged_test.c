// SPDX-License-Identifier: MIT
// deepseek_paged_test.c - appending to paged caches and the indexer over them against the references of the kernels; attention to
// what it selects against the call over rows.
#include "kiln/ops/deepseek.h"
#include "kiln/ops/paged.h"
#include "support.h"

enum { B = 5, TQ = 13, HI = 16, DI = 32, H = 4, D = 576, V = 512, TOPK = 24, SIZE = 16, EACH = 8, PAGES = B * EACH };

static const int queries[B] = { 7, 3, 1, 0, 2 }, keys[B] = { 120, 2, 1, 30, 77 };

static Array *drawn(Array *x, double low, double high)
{
    fill_random(x, low, high);
    return x;
}

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

typedef struct Batch {
    Array *index_q, *index_k, *scales, *weights, *table, *lengths, *offsets, *q, *kv, *out, *lse, *indices;
    kiln_tensor moved_table;
} Batch;

// Caches of NaN, then every token of every request appended; entries after a request's pages are no pages.
static Batch make(void)
{
    seed(11);
    Batch b = { .index_q = drawn(ARRAY(KILN_E4M3, TQ, HI, DI), -2, 2),
                .index_k = ARRAY(KILN_E4M3, PAGES, SIZE, DI),
                .scales = ARRAY(KILN_F32, PAGES, SIZE),
                .weights = drawn(ARRAY(KILN_F32, TQ, HI), -1, 1),
                .table = ARRAY(KILN_I32, B, EACH),
                .lengths = ARRAY(KILN_I32, B),
                .offsets = ARRAY(KILN_I32, B + 1),
                .q = drawn(ARRAY(KILN_BF16, TQ, H, D), -1, 1),
                .kv = drawn(ARRAY(KILN_BF16, PAGES, SIZE, D), -0.5, 0.5),
                .out = ARRAY(KILN_BF16, TQ, H, V),
                .lse = ARRAY(KILN_F32, TQ, H),
                .indices = ARRAY(KILN_I32, TQ, TOPK) };
    int32_t order[PAGES];
    permute(order, PAGES);
    set(b.offsets, 0, 0);
    for (int r = 0; r < B; r++) {
        set(b.lengths, r, keys[r]);
        set(b.offsets, r + 1, get(b.offsets, r) + queries[r]);
        for (int p = 0; p < EACH; p++) set(b.table, r * EACH + p, p * SIZE < keys[r] ? order[r * EACH + p] : -9);
    }
    array_send(b.table), array_send(b.lengths), array_send(b.offsets);
    b.moved_table = moved_away(b.table);
    return b;
}

static int slot_of(const Batch *b, int r, int at)
{
    return (int)get(b->table, r * EACH + at / SIZE) * SIZE + at % SIZE;
}

// Keys of all tokens to where their slots say.
static void append(const Batch *b, const kiln_tensor *index_k, const kiln_tensor *scales, bool power, Array **x,
                   Array **slots)
{
    enum { N = 120 + 2 + 1 + 30 + 77 };
    seed(12);
    *x = drawn(ARRAY(KILN_BF16, N + 1, DI), -3, 3), *slots = ARRAY(KILN_I32, N + 1);
    for (int r = 0, i = 0; r < B; r++)
        for (int at = 0; at < keys[r]; at++, i++) set(*slots, i, slot_of(b, r, at));
    set(*slots, N, PAGES * SIZE); // goes nowhere
    array_send(*slots);
    done(kiln_index_append(ops, NULL,
                           &(kiln_index_append_args){ .keys = &(*x)->tensor,
                                                      .slots = &(*slots)->tensor,
                                                      .index_k = index_k,
                                                      .index_scales = scales,
                                                      .power_of_two = power }));
}

static void appending(void **state)
{
    const Batch b = make();
    for (int power = 0; power < 2; power++) {
        Array *x, *slots;
        append(&b, &b.index_k->tensor, &b.scales->tensor, power, &x, &slots);
        const kiln_arg args[] = { host_arg(x), host_arg(slots), mirror_arg(b.index_k),
                                  mirror_arg(b.scales) }; // their mirrors
        run_reference("topk/indexer_paged.tile", "index_append", power ? "T=f32, D=32, POWER=true" : "T=f32, D=32",
                      args, 4);
        double *const codes = values(b.index_k), *const scales = values(b.scales);
        array_fetch(b.index_k), array_fetch(b.scales);
        assert_close("scales", b.scales, scales, (Tolerance){ 0, 1e-6, 1e-12 });
        assert_close("index_k", b.index_k, codes, (Tolerance){ 0.002, 0.13, 1e-5 }); // a quotient may round either way
    }
}

// What is selected are the best of what a query sees: none that is left out is better by more than products of fp8 are off.
static void check_selection(const Batch *b)
{
    const kiln_tensor *const sums = host_result(ARRAY(KILN_F32, 1, TQ, PAGES * SIZE)); // of every query and slot
    const kiln_arg args[] = { KILN_TENSOR(HOST_AS(b->index_q->host, KILN_E4M3, 1, TQ, HI, DI)),
                              KILN_TENSOR(HOST_AS(b->weights->host, KILN_F32, 1, TQ, HI)),
                              KILN_TENSOR(HOST_AS(b->index_k->host, KILN_E4M3, 1, PAGES * SIZE, DI)),
                              KILN_TENSOR(HOST_AS(b->scales->host, KILN_F32, 1, PAGES * SIZE)), KILN_TENSOR(sums) };
    run_reference("topk/indexer.tile", "indexer_scores", "H=16, D=32", args, 5);
    const double *const scores = numbers(sums);
    for (int r = 0, row = 0; r < B; r++)
        for (int i = 0; i < queries[r]; i++, row++) {
            const int seen = keys[r] - queries[r] + i + 1 > 0 ? keys[r] - queries[r] + i + 1 : 0;
            double least = INFINITY, best = -INFINITY;
            for (int at = 0, n = 0; at < seen; at++) {
                const int slot = slot_of(b, r, at);
                const double sum = scores[row * PAGES * SIZE + slot];
                const bool is_taken = n < TOPK && get(b->indices, row * TOPK + n) == slot;
                if (is_taken) least = fmin(least, sum), n++;
                else best = fmax(best, sum);
            }
            for (int n = seen < TOPK ? seen : TOPK; n < TOPK; n++)
                assert_int_equal((int)get(b->indices, row * TOPK + n), -1);
            for (int n = 0; n < TOPK && n < seen; n++) assert_true(get(b->indices, row * TOPK + n) >= 0);
            if (best > least + 0.06) fail_msg("row %d: left out %g, taken %g", row, best, least);
        }
}

static kiln_indexed_attention_paged_args arguments(const Batch *b)
{
    return (kiln_indexed_attention_paged_args){ .index_q = &b->index_q->tensor,
                                                .index_k = &b->index_k->tensor,
                                                .index_scales = &b->scales->tensor,
                                                .index_weights = &b->weights->tensor,
                                                .table = &b->table->tensor,
                                                .lengths = &b->lengths->tensor,
                                                .q_offsets = &b->offsets->tensor,
                                                .q = &b->q->tensor,
                                                .kv = &b->kv->tensor,
                                                .out = &b->out->tensor,
                                                .lse = &b->lse->tensor,
                                                .indices = &b->indices->tensor,
                                                .topk = TOPK };
}

static void run(kiln_indexed_attention_paged_args *a)
{
    assert_ok(kiln_indexed_attention_paged_workspace_size(ops, a, &a->workspace_bytes));
    a->workspace = bytes_new(a->workspace_bytes)->tensor.data;
    done(kiln_indexed_attention_paged(ops, NULL, a));
}

static void same(const char *name, Array *got, const double *expected)
{
    array_fetch(got);
    assert_close(name, got, expected, (Tolerance){ 1e-30, 1e-30, 1e-12 });
    array_erase(got), array_send(got);
}

// All at once; a few tiles at a time, the caches parts of packed pages of 36 bytes a token; the selection alone.
static void everything(void **state)
{
    Batch b = make();
    Array *x, *slots;
    append(&b, &b.index_k->tensor, &b.scales->tensor, true, &x, &slots);
    kiln_indexed_attention_paged_args a = arguments(&b);
    run(&a);
    array_fetch(b.index_k), array_fetch(b.scales), array_fetch(b.indices), array_fetch(b.out), array_fetch(b.lse);
    check_selection(&b);
    double *const indices = values(b.indices), *const out = values(b.out), *const lse = values(b.lse);
    array_erase(b.out), array_send(b.out);

    const kiln_tensor rows = kiln_tensor_of(device, b.kv->tensor.data, KILN_BF16, 2, (int64_t[]){ PAGES * SIZE, D });
    done(kiln_mla_prefill_sparse(ops, NULL,
                                 &(kiln_mla_prefill_sparse_args){ .q = &b.q->tensor,
                                                                  .kv = &rows,
                                                                  .indices = &b.indices->tensor,
                                                                  .out = &b.out->tensor,
                                                                  .lse = &b.lse->tensor }));
    same("out", b.out, out), same("lse", b.lse, lse);

    enum { PAGE = SIZE * (DI + 4) };
    char *const memory = bytes_new((size_t)PAGES * PAGE)->tensor.data;
    kiln_tensor packed_k = kiln_tensor_of(device, memory, KILN_E4M3, 3, (int64_t[]){ PAGES, SIZE, DI });
    kiln_tensor packed_scales = kiln_tensor_of(device, memory + SIZE * DI, KILN_F32, 2, (int64_t[]){ PAGES, SIZE });
    packed_k.has_strides = packed_scales.has_strides = true;
    packed_k.strides[0] = PAGE, packed_k.strides[1] = DI, packed_k.strides[2] = 1;
    packed_scales.strides[0] = PAGE / 4, packed_scales.strides[1] = 1;
    append(&b, &packed_k, &packed_scales, true, &x, &slots);
    a = arguments(&b);
    array_erase(b.indices), array_send(b.indices);
    a.index_k = &packed_k, a.index_scales = &packed_scales, a.table = &b.moved_table, a.rows = 9, a.max_keys = 121;
    run(&a);
    same("out", b.out, out), same("lse", b.lse, lse), same("indices", b.indices, indices);

    a.q = a.kv = a.out = a.lse = NULL, a.rows = 1; // fewer than a tile has
    run(&a);
    same("indices", b.indices, indices);
    a.rows = INT64_MAX;
    run(&a);
    same("indices", b.indices, indices);
    a = arguments(&b), a.indices = NULL;
    run(&a);
    same("out", b.out, out);
    array_fetch(b.indices);
    assert_true(array_is_erased(b.indices));
}

static void refusals(void **state)
{
    const Batch b = make();
    kiln_indexed_attention_paged_args a = arguments(&b);
    kiln_tensor k = b.index_k->tensor, kv = b.kv->tensor, lengths = b.lengths->tensor;
    a.index_k = &k, a.kv = &kv, a.lengths = &lengths;
#define RUN kiln_indexed_attention_paged(ops, NULL, &a)
    REFUSED(RUN, a, a.table = NULL, KILN_BAD_ARGUMENT, "kiln_indexed_attention_paged: 'table' is null");
    REFUSED(RUN, a, a.kv = NULL, KILN_BAD_ARGUMENT, "'kv' is null");
    REFUSED(RUN, a, a.q = NULL, KILN_BAD_ARGUMENT, "'kv' is given, but 'q' is null");
    REFUSED(RUN, a, (a.q = a.kv = a.out = a.lse = a.indices = NULL), KILN_BAD_ARGUMENT, "nothing is wanted");
    REFUSED(RUN, a, a.topk = 0, KILN_BAD_SHAPE, "'topk' is 0, expected 1 to 16384");
    REFUSED(RUN, a, a.max_keys = -1, KILN_BAD_ARGUMENT, "'max_keys' is -1");
    REFUSED(RUN, a, a.q_offsets = NULL, KILN_BAD_SHAPE, "the 13 rows of 'index_q' are not a multiple of 5 requests");
    REFUSED(RUN, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED(RUN, a, a.workspace_bytes = 0, KILN_BAD_ARGUMENT, "needs a workspace of");
    const kiln_tensor wide = kiln_tensor_of(device, NULL, KILN_I32, 2, (int64_t[]){ B, INT64_C(1) << 40 });
    size_t bytes;
    REFUSED(kiln_indexed_attention_paged_workspace_size(ops, &a, &bytes), a, a.table = &wide, KILN_UNSUPPORTED,
            "'table' has 1099511627776 pages per request, expected at most 134217727");
    REFUSED_TENSOR(RUN, k, shape[1] = 8, KILN_BAD_SHAPE, "dimension 1 of 'index_scales' is 16, expected 8");
    REFUSED_TENSOR(RUN, lengths, shape[0] = 4, KILN_BAD_SHAPE, "dimension 0 of 'lengths' is 4, expected 5");
    kv.has_strides = true, kv.strides[0] = (SIZE + 1) * D, kv.strides[1] = D, kv.strides[2] = 1, kv.shape[0] = 2;
    k.shape[0] = 2;
    kiln_tensor scales = b.scales->tensor;
    scales.shape[0] = 2;
    a.index_scales = &scales;
    assert_fails(RUN, KILN_UNSUPPORTED, "pages of 'kv' are 9792 elements apart, expected 9216, so that slots are rows");
    array_unchanged(b.out, "out");
}

static void nothing_to_do(void **state)
{
    const Batch b = make();
    kiln_indexed_attention_paged_args a = arguments(&b);
    const kiln_tensor q = kiln_tensor_of(device, b.index_q->tensor.data, KILN_E4M3, 3, (int64_t[]){ 0, HI, DI });
    const kiln_tensor w = kiln_tensor_of(device, b.weights->tensor.data, KILN_F32, 2, (int64_t[]){ 0, HI });
    const kiln_tensor indices = kiln_tensor_of(device, b.indices->tensor.data, KILN_I32, 2, (int64_t[]){ 0, TOPK });
    a.index_q = &q, a.index_weights = &w, a.indices = &indices, a.q_offsets = NULL;
    a.q = a.kv = a.out = a.lse = NULL;
    run(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(appending, free_arrays),
        cmocka_unit_test_teardown(everything, free_arrays),
        cmocka_unit_test_teardown(refusals, free_arrays),
        cmocka_unit_test_teardown(nothing_to_do, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
