// SPDX-License-Identifier: MIT
// far_test.c - caches past 4 GiB and 2^31 elements: the last tokens of one give what the first ones give.
//
// Memory is asked for in full, and only a few pages of it are ever touched.
#include "latent.h"

#include <sys/mman.h>

enum { TOKENS = 70, HEADS = 4, TOPK = 128, SIZE = 64, K = KILN_MLA_KEY, V = KILN_MLA_VALUE, PAGES = 60000 };

typedef struct Far {
    kiln_tensor tensor;
    size_t bytes;
} Far;

static Far far_new(kiln_type type, int rank, const int64_t *shape)
{
    Far f = { kiln_tensor_of(on_cpu() ? NULL : device, NULL, type, rank, shape), 0 };
    f.bytes = kiln_tensor_bytes(&f.tensor);
    if (on_cpu())
        f.tensor.data = mmap(NULL, f.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    else if (kiln_alloc(device, f.bytes, &f.tensor.data)) f.tensor.data = MAP_FAILED;
    if (f.tensor.data == MAP_FAILED) // a limit on address space, or a small device
        skip_because("there is not so much memory, or address space");
    return f;
}

static void far_free(Far *f)
{
    if (on_cpu()) munmap(f->tensor.data, f->bytes);
    else kiln_free(device, f->tensor.data);
}

// The tokens' slots, at the cache's beginning or end.
static Array *slots_at(int64_t first, int n)
{
    Array *const slots = ARRAY(KILN_I32, n);
    for (int i = 0; i < n; i++) set(slots, i, i < TOKENS ? (double)(first + i) : -1);
    array_send(slots);
    return slots;
}

static Array *random_of(int64_t rows, int64_t size)
{
    Array *const a = ARRAY(KILN_BF16, rows, size);
    fill_random(a, -1, 1);
    return a;
}

static const kiln_tensor *shaped(const Array *a, kiln_tensor *t, int rank, const int64_t *shape)
{
    *t = kiln_tensor_of(a->tensor.device, a->tensor.data, a->tensor.type, rank, shape);
    return t;
}

static void finish(Array *out)
{
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
}

static void expect_same(const Array *near, const Array *far)
{
    for (int64_t i = 0; i < count(near); i++)
        if (isnan(get(near, i)) || fabs(get(near, i) - get(far, i)) > 1e-3)
            fail_msg("element %lld is %g from far, %g from near", (long long)i, get(far, i), get(near, i));
}

static void check_slots(int64_t size, int64_t token)
{
    const kiln_mla_shape shape = { .batch = 1, .queries = 1, .query_heads = HEADS, .topk = TOPK };
    Far cache = far_new(KILN_U8, 3, (int64_t[]){ 2 * PAGES, SIZE, token });
    Array *out[2], *const keys = random_of(TOKENS, size), *const q = random_of(HEADS, size);
    kiln_tensor tq, ti, to;
    for (int far = 0; far < 2; far++) {
        const int64_t first = far ? INT64_C(2) * PAGES * SIZE - TOKENS : 0;
        Array *const lists = slots_at(first, TOPK), *const lse = ARRAY(KILN_F32, 1, HEADS, 1),
                     *const back = ARRAY(KILN_BF16, TOKENS, size);
        const kiln_tensor slots =
            kiln_tensor_of(lists->tensor.device, lists->tensor.data, KILN_I32, 1, (int64_t[]){ TOKENS });
        const kiln_mla_plan plan = make_plan(&shape, NULL);
        out[far] = ARRAY(KILN_BF16, HEADS, V);
        assert_ok(kiln_mla_quantize(
            ops, NULL, &(kiln_mla_quantize_args){ .keys = &keys->tensor, .slots = &slots, .cache = &cache.tensor }));
        assert_ok(kiln_mla_dequantize(
            ops, NULL, &(kiln_mla_dequantize_args){ .cache = &cache.tensor, .slots = &slots, .keys = &back->tensor }));
        kiln_mla_decode_sparse_args a = { .plan = &plan,
                                          .q = shaped(q, &tq, 4, (int64_t[]){ 1, 1, HEADS, size }),
                                          .cache = &cache.tensor,
                                          .indices = shaped(lists, &ti, 3, (int64_t[]){ 1, 1, TOPK }),
                                          .out = shaped(out[far], &to, 4, (int64_t[]){ 1, 1, HEADS, V }),
                                          .lse = &lse->tensor };
        assert_ok(kiln_mla_decode_sparse_workspace_size(ops, &a, &a.workspace_bytes));
        a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
        assert_ok(kiln_mla_decode_sparse(ops, NULL, &a));
        finish(out[far]);
        array_fetch(back);
        for (int i = 0; i < TOKENS; i++) assert_true(get(back, i * size + size - 1) == get(keys, i * size + size - 1));
    }
    expect_same(out[0], out[1]);
    far_free(&cache);
}

static void fp8_slots(void **state) { check_slots(K, KILN_MLA_FP8_BYTES); }

static void short_fp8_slots(void **state) { check_slots(KILN_MLA_SHORT_KEY, KILN_MLA_FP8_SHORT_BYTES); }

static void pages_and_rows(void **state)
{
    const kiln_mla_shape shape = { .batch = 1, .queries = 1, .query_heads = HEADS };
    Far cache = far_new(KILN_BF16, 4, (int64_t[]){ PAGES, SIZE, 1, K });
    const kiln_tensor rows =
        kiln_tensor_of(cache.tensor.device, cache.tensor.data, KILN_BF16, 2, (int64_t[]){ (int64_t)PAGES * SIZE, K });
    Array *out[2][2], *const keys = random_of(TOKENS, K), *const q = random_of(HEADS, K),
                             *const table = ARRAY(KILN_I32, 1, 2), *const lengths = ARRAY(KILN_I32, 1);
    kiln_tensor tk, tq, ti, to;
    set(lengths, 0, TOKENS);
    array_send(lengths);
    for (int far = 0; far < 2; far++) {
        const int64_t page = far ? PAGES - 2 : 0;
        Array *const lists = slots_at(page * SIZE, TOPK), *const lse = ARRAY(KILN_F32, 1, HEADS, 1),
                     *const top = ARRAY(KILN_F32, 1, HEADS), *const sum = ARRAY(KILN_F32, 1, HEADS);
        const kiln_tensor slots =
            kiln_tensor_of(lists->tensor.device, lists->tensor.data, KILN_I32, 1, (int64_t[]){ TOKENS });
        for (int i = 0; i < 2; i++) set(table, i, (double)(page + i));
        for (int i = 0; i < 2; i++) out[i][far] = ARRAY(KILN_BF16, HEADS, V);
        array_send(table);
        const kiln_mla_plan plan = make_plan(&shape, &lengths->tensor);
        assert_ok(kiln_mla_append(ops, NULL,
                                  &(kiln_mla_append_args){ .keys = shaped(keys, &tk, 3, (int64_t[]){ TOKENS, 1, K }),
                                                           .slots = &slots,
                                                           .cache = &cache.tensor }));
        kiln_mla_decode_args a = { .plan = &plan,
                                   .q = shaped(q, &tq, 4, (int64_t[]){ 1, 1, HEADS, K }),
                                   .cache = &cache.tensor,
                                   .table = &table->tensor,
                                   .lengths = &lengths->tensor,
                                   .out = shaped(out[0][far], &to, 4, (int64_t[]){ 1, 1, HEADS, V }),
                                   .lse = &lse->tensor };
        assert_ok(kiln_mla_decode_workspace_size(ops, &a, &a.workspace_bytes));
        a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
        assert_ok(kiln_mla_decode(ops, NULL, &a));
        finish(out[0][far]);
        assert_ok(kiln_mla_prefill_sparse(
            ops, NULL,
            &(kiln_mla_prefill_sparse_args){ .q = shaped(q, &tq, 3, (int64_t[]){ 1, HEADS, K }),
                                             .kv = &rows,
                                             .indices = shaped(lists, &ti, 2, (int64_t[]){ 1, TOPK }),
                                             .out = shaped(out[1][far], &to, 3, (int64_t[]){ 1, HEADS, V }),
                                             .max_logits = &top->tensor,
                                             .lse = &sum->tensor }));
        finish(out[1][far]);
    }
    expect_same(out[0][0], out[0][1]);
    expect_same(out[1][0], out[1][1]);
    expect_same(out[0][0], out[1][0]); // the same keys, read by pages and by rows
    far_free(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fp8_slots, free_arrays),
        cmocka_unit_test_teardown(short_fp8_slots, free_arrays),
        cmocka_unit_test_teardown(pages_and_rows, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
