// SPDX-License-Identifier: MIT
// sparse_test.c - attention to blocks of keys in prefill and decoding, and masks from scores, against the kernels' references.
#include "kiln/ops/sparse.h"
#include "support.h"

static const Tolerance close_enough = { 1e-3, 8.01 / 128, 7e-6 };

static const char *yes(bool is) { return is ? "true" : "false"; }

static Array *numbers_of(const int *x, int n)
{
    Array *const a = ARRAY(KILN_I32, n);
    for (int i = 0; i < n; i++) set(a, i, x[i]);
    array_send(a);
    return a;
}

static Array *random_array(Array *a)
{
    fill_random(a, -1, 1);
    return a;
}

// Whole numbers from `low` to `high`, sent.
static Array *drawn(Array *a, int low, int high)
{
    for (int64_t i = 0; i < count(a); i++) set(a, i, (double)integer(low, high));
    array_send(a);
    return a;
}

// With a first dimension of 1, if `packed`.
static kiln_tensor batched(const kiln_tensor *t, bool packed)
{
    kiln_tensor b = *t;
    if (!packed) return b;
    for (int d = b.rank++; d > 0; d--) b.shape[d] = t->shape[d - 1], b.strides[d] = t->strides[d - 1];
    b.shape[0] = 1;
    b.strides[0] = 0;
    return b;
}

// ---- prefill

typedef struct Prefill {
    Array *q, *k, *v, *mask, *list, *counts, *q_offsets, *k_offsets, *out, *lse;
} Prefill;

// A mask of bytes, whatever they are called.
static kiln_arg host_mask(const Array *a, kiln_tensor *bytes)
{
    if (!a) return KILN_NONE;
    *bytes = *host_copy(a);
    bytes->type = KILN_U8;
    return KILN_TENSOR(bytes);
}

static const kiln_tensor *tensor_of(const Array *a) { return a ? &a->tensor : NULL; }

static kiln_block_sparse_args args_of(const Prefill *t)
{
    return (kiln_block_sparse_args){ .q = tensor_of(t->q),
                                     .k = tensor_of(t->k),
                                     .v = tensor_of(t->v),
                                     .mask = tensor_of(t->mask),
                                     .list = tensor_of(t->list),
                                     .counts = tensor_of(t->counts),
                                     .q_offsets = tensor_of(t->q_offsets),
                                     .k_offsets = tensor_of(t->k_offsets),
                                     .out = tensor_of(t->out),
                                     .lse = tensor_of(t->lse) };
}

static void run(kiln_block_sparse_args *a)
{
    assert_ok(kiln_block_sparse_workspace_size(ops, a, &a->workspace_bytes));
    a->workspace = bytes_new(a->workspace_bytes)->tensor.data;
    assert_ok(kiln_block_sparse(ops, NULL, a));
    assert_ok(kiln_stream_wait(device, NULL));
}

static void compare(const Prefill *t, const kiln_block_sparse_args *a)
{
    char bindings[200];
    kiln_tensor mask;
    const bool packed = t->q_offsets != NULL;
    const kiln_tensor *const out = host_result(t->out), *const lse = host_result(t->lse);
    const kiln_tensor q = batched(host_copy(t->q), packed), k = batched(host_copy(t->k), packed),
                      v = batched(host_copy(t->v), packed), o = batched(out, packed), l = batched(lse, packed);
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, CAUSAL=%s, BQ=%d, BK=%d%s%s%s%s", (int)q.shape[3],
             (int)v.shape[3], yes(a->causal), a->query_block ? (int)a->query_block : 64,
             a->key_block ? (int)a->key_block : 64, t->mask ? "" : ", MASK=none", t->list ? "" : ", LIST=none",
             t->counts ? "" : ", COUNT=none", packed ? "" : ", QOffset=none, KOffset=none");
    const kiln_arg args[] = { KILN_TENSOR(&q),
                              KILN_TENSOR(&k),
                              KILN_TENSOR(&v),
                              host_mask(t->mask, &mask),
                              host_arg(t->list),
                              host_arg(t->counts),
                              host_arg(t->q_offsets),
                              host_arg(t->k_offsets),
                              KILN_TENSOR(&o),
                              KILN_TENSOR(&l),
                              KILN_INT(q.shape[1]),
                              KILN_INT(k.shape[1]),
                              KILN_INT(99),
                              KILN_INT(a->first_row),
                              KILN_FLOAT(a->scale ? *a->scale : 1 / sqrt((double)q.shape[3])) };
    run_reference("sparse/block.tile", "block_sparse", bindings, args, 15);
    array_fetch(t->out);
    assert_close("out", t->out, numbers(out), close_enough);
    array_fetch(t->lse);
    assert_close("lse", t->lse, numbers(lse), (Tolerance){ 1e-6, 2.01 / 65536, 1e-7 });
}

// A square mask for each key head, of which the queries are the last rows; heads before rows.
static void prefill_by_mask(void **state)
{
    seed(1);
    Prefill t = { .q = random_array(ARRAY(KILN_BF16, 2, 150, 4, 64)),
                  .k = random_array(ARRAY(KILN_BF16, 2, 278, 2, 64)),
                  .v = random_array(ARRAY(KILN_BF16, 2, 278, 2, 32)),
                  .mask = drawn(ARRAY(KILN_U8, 2, 2, 5, 5), 0, 1),
                  .out = ARRAY(KILN_BF16, 2, 150, 4, 32),
                  .lse = ARRAY(KILN_F32, 2, 4, 150) };
    kiln_block_sparse_args a = args_of(&t);
    a.causal = true, a.first_row = 2;
    a.scale = &(double){ 0.3 };
    run(&a);
    compare(&t, &a);
    array_erase(t.out);
    array_send(t.out);
    Array *const q = array_spread(t.q, true), *const k = array_spread(t.k, true), *const v = array_spread(t.v, false);
    a.q = &q->tensor, a.k = &k->tensor, a.v = &v->tensor;
    run(&a);
    compare(&t, &a);
    array_unchanged(t.mask, "mask");
}

// Packed sequences, one of no queries, one of no keys; a list for all heads, with and without counts, anywhere in memory.
static void packed_prefill_by_list(void **state)
{
    static const int queries[] = { 0, 130, 150, 150, 300 }, keys[] = { 0, 150, 150, 180, 320 };
    seed(2);
    Prefill t = { .q = random_array(ARRAY(KILN_F16, 300, 2, 64)),
                  .k = random_array(ARRAY(KILN_F16, 320, 1, 64)),
                  .v = random_array(ARRAY(KILN_F16, 320, 1, 64)),
                  .list = drawn(ARRAY(KILN_I32, 4, 1, 2, 6), -1, 6),
                  .counts = drawn(ARRAY(KILN_I32, 4, 1, 2), 0, 8),
                  .q_offsets = numbers_of(queries, 5),
                  .k_offsets = numbers_of(keys, 5),
                  .out = ARRAY(KILN_F16, 300, 2, 64),
                  .lse = ARRAY(KILN_F32, 2, 300) };
    kiln_block_sparse_args a = args_of(&t);
    a.query_block = 128, a.key_block = 32, a.max_queries = 150, a.max_keys = 150;
    const kiln_tensor list = moved_away(t.list);
    a.list = &list;
    run(&a);
    compare(&t, &a);
}

// A mask and a list of the same blocks give the same bits, whatever the list's order.
static void masks_and_lists_agree(void **state)
{
    seed(3);
    Prefill t = { .q = random_array(ARRAY(KILN_F16, 1, 70, 1, 64)),
                  .k = random_array(ARRAY(KILN_F16, 1, 500, 1, 64)),
                  .v = random_array(ARRAY(KILN_F16, 1, 500, 1, 64)),
                  .mask = drawn(ARRAY(KILN_I8, 1, 1, 2, 8), 0, 1),
                  .out = ARRAY(KILN_F16, 1, 70, 1, 64),
                  .lse = ARRAY(KILN_F32, 1, 1, 70) };
    kiln_block_sparse_args a = args_of(&t);
    run(&a);
    compare(&t, &a);
    Array *const list = ARRAY(KILN_I32, 1, 1, 2, 8), *const again = ARRAY(KILN_F16, 1, 70, 1, 64);
    for (int i = 0; i < 16; i++) set(list, i, get(t.mask, i / 8 * 8 + 7 - i % 8) != 0 ? 7 - i % 8 : -1);
    array_send(list);
    a.mask = NULL, a.list = &list->tensor, a.out = &again->tensor, a.lse = NULL;
    run(&a);
    array_fetch(again);
    for (int64_t i = 0; i < count(again); i++) assert_true(get(again, i) == get(t.out, i));
}

// Without keys, and without queries.
static void nothing_to_see(void **state)
{
    Prefill t = { .q = random_array(ARRAY(KILN_F16, 1, 70, 1, 64)),
                  .k = ARRAY(KILN_F16, 1, 0, 1, 64),
                  .v = ARRAY(KILN_F16, 1, 0, 1, 64),
                  .mask = ARRAY(KILN_U8, 1, 1, 2, 0),
                  .out = ARRAY(KILN_F16, 1, 70, 1, 64),
                  .lse = ARRAY(KILN_F32, 1, 1, 70) };
    kiln_block_sparse_args a = args_of(&t);
    run(&a);
    array_fetch(t.out);
    array_fetch(t.lse);
    for (int64_t i = 0; i < count(t.out); i++) assert_true(get(t.out, i) == 0);
    for (int64_t i = 0; i < count(t.lse); i++) assert_true(get(t.lse, i) == -INFINITY);
    t.q = ARRAY(KILN_F16, 1, 0, 1, 64), t.out = ARRAY(KILN_F16, 1, 0, 1, 64), t.lse = ARRAY(KILN_F32, 1, 1, 0);
    a = args_of(&t);
    run(&a);
}

// ---- decoding

typedef struct Decoding {
    Array *q, *k, *v, *table, *mask, *list, *counts, *lengths, *out, *lse;
} Decoding;

static void decode(const Decoding *t, int block, int splits)
{
    char bindings[200];
    kiln_tensor mask;
    kiln_block_sparse_decode_args a = { .q = tensor_of(t->q),
                                        .k = tensor_of(t->k),
                                        .v = tensor_of(t->v),
                                        .table = tensor_of(t->table),
                                        .lengths = tensor_of(t->lengths),
                                        .mask = tensor_of(t->mask),
                                        .list = tensor_of(t->list),
                                        .counts = tensor_of(t->counts),
                                        .out = tensor_of(t->out),
                                        .lse = tensor_of(t->lse),
                                        .key_block = block,
                                        .splits = splits };
    assert_ok(kiln_block_sparse_decode_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_ok(kiln_block_sparse_decode(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    const kiln_tensor *const out = host_result(t->out), *const lse = host_result(t->lse);
    const int D = (int)t->q->tensor.shape[2];
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, G=%d, BS=%d%s%s%s%s", D, (int)t->v->tensor.shape[3],
             (int)(t->q->tensor.shape[1] / t->k->tensor.shape[2]), block ? block : 64, t->table ? "" : ", TABLE=none",
             t->mask ? "" : ", MASK=none", t->list ? "" : ", LIST=none", t->counts ? "" : ", COUNT=none");
    const kiln_arg args[] = {
        host_arg(t->q),    host_arg(t->k),         host_arg(t->v),       host_arg(t->table), host_mask(t->mask, &mask),
        host_arg(t->list), host_arg(t->counts),    host_arg(t->lengths), KILN_TENSOR(out),   KILN_TENSOR(lse),
        KILN_INT(1),       KILN_FLOAT(1 / sqrt(D))
    };
    run_reference("sparse/decode.tile", "sparse_decode", bindings, args, 12);
    array_fetch(t->out);
    assert_close("out", t->out, numbers(out), close_enough);
    array_fetch(t->lse);
    assert_close("lse", t->lse, numbers(lse), (Tolerance){ 1e-6, 2.01 / 65536, 1e-7 });
}

static void decoding_by_mask(void **state)
{
    static const int lengths[] = { 500, 0, 77 };
    seed(4);
    const Decoding t = { .q = random_array(ARRAY(KILN_BF16, 3, 8, 64)),
                         .k = random_array(ARRAY(KILN_BF16, 3, 500, 2, 64)),
                         .v = random_array(ARRAY(KILN_BF16, 3, 500, 2, 32)),
                         .mask = drawn(ARRAY(KILN_BOOL, 3, 2, 8), 0, 1),
                         .lengths = numbers_of(lengths, 3),
                         .out = ARRAY(KILN_BF16, 3, 8, 32),
                         .lse = ARRAY(KILN_F32, 3, 8) };
    decode(&t, 0, 0);
    array_erase(t.out);
    array_send(t.out);
    decode(&t, 0, 5);
}

// Entries of the table whose blocks are not taken are no pages.
static void paged_decoding_by_list(void **state)
{
    static const int lengths[] = { 250, 256 };
    static const int taken[] = { 7, 2, -1, 0, 3, 6, 1, -1 };
    seed(5);
    Decoding t = { .q = random_array(ARRAY(KILN_F16, 2, 4, 64)),
                   .k = random_array(ARRAY(KILN_F16, 9, 64, 1, 64)),
                   .v = random_array(ARRAY(KILN_F16, 9, 64, 1, 64)),
                   .table = ARRAY(KILN_I32, 2, 4),
                   .list = ARRAY(KILN_I32, 2, 1, 4),
                   .counts = ARRAY(KILN_I32, 2, 1),
                   .lengths = numbers_of(lengths, 2),
                   .out = ARRAY(KILN_F16, 2, 4, 64),
                   .lse = ARRAY(KILN_F32, 2, 4) };
    for (int i = 0; i < 8; i++) set(t.list, i, taken[i]), set(t.table, i, i == 2 ? -5 : 8 - i);
    set(t.counts, 0, 4), set(t.counts, 1, 2);
    array_send(t.list);
    array_send(t.table);
    array_send(t.counts);
    decode(&t, 32, 3);
    t.counts = NULL;
    decode(&t, 32, 0);
}

// ---- masks

static void masks_of_scores(void **state)
{
    seed(6);
    Array *const scores = random_array(ARRAY(KILN_F32, 1, 2, 5, 7)), *const mask = ARRAY(KILN_U8, 1, 2, 5, 7);
    kiln_block_mask_args a = { .scores = &scores->tensor,
                               .mask = &mask->tensor,
                               .queries = 300,
                               .keys = 428,
                               .causal = true,
                               .top = 2,
                               .whole_rows = 1 };
    for (int threshold = 0; threshold < 2; threshold++) {
        if (threshold) a.top = 0, a.threshold = 0.25;
        assert_ok(kiln_block_mask(ops, NULL, &a));
        assert_ok(kiln_stream_wait(device, NULL));
        const kiln_tensor *const expected = host_copy(mask);
        const kiln_arg args[] = { host_arg(scores), KILN_TENSOR(expected),  KILN_INT(300),          KILN_INT(428),
                                  KILN_INT(a.top),  KILN_INT(a.whole_rows), KILN_FLOAT(a.threshold) };
        run_reference("sparse/lists.tile", "block_mask", "CAUSAL=true", args, 7);
        array_fetch(mask);
        for (int64_t i = 0; i < count(mask); i++) assert_true(get(mask, i) == numbers(expected)[i]);
    }
}

// ---- vertical-slash attention

// The lists are found again in double precision: what is listed has at least the weight of what is not.
static void expect_largest(const char *what, const Array *list, int row, int n, const double *scores, int rows)
{
    double lowest = INFINITY;
    bool *const is_listed = calloc((size_t)rows, sizeof *is_listed);
    for (int i = 0; i < n; i++) {
        const int at = (int)get(list, row * n + i);
        if (at < 0 || at >= rows || is_listed[at] || (i && at < get(list, row * n + i - 1)))
            fail_msg("place %d of %s of head %d is %d", i, what, row, at);
        is_listed[at] = true;
        if (scores[at] < lowest) lowest = scores[at];
    }
    for (int i = 0; i < rows; i++)
        if (!is_listed[i] && scores[i] > lowest + 1e-4)
            fail_msg("%d is not among the %s of head %d: %g, and %g is", i, what, row, scores[i], lowest);
    free(is_listed);
}

static void expect_estimate(const Array *q, const Array *k, const Array *vertical, const Array *slash, int head)
{
    enum { S = 200, D = 256 };
    double column[S] = { 0 }, diagonal[S] = { 0 }, w[S];
    const double *const qs = values(q), *const ks = values(k);
    for (int i = S - 64; i < S; i++) {
        double sum = 0;
        for (int j = 0; j <= i; j++) sum += w[j] = exp(dot(qs + (i * 2 + head) * D, ks + j * D, D));
        for (int j = 0; j <= i; j++) column[j] += w[j] / sum, diagonal[i - j] += w[j] / sum;
    }
    for (int i = 0; i < 30; i++) column[i] = diagonal[i] = INFINITY;
    expect_largest("columns", vertical, head, 60, column, S);
    expect_largest("diagonals", slash, head, 40, diagonal, S);
}

static void vertical_slash(void **state)
{
    seed(7);
    Array *const q = ARRAY(KILN_F16, 1, 200, 2, 256), *const k = ARRAY(KILN_F16, 1, 200, 1, 256);
    Array *const v = random_array(ARRAY(KILN_F16, 1, 200, 1, 256)), *const out = ARRAY(KILN_F16, 1, 200, 2, 256);
    Array *const vertical = ARRAY(KILN_I32, 1, 2, 60), *const slash = ARRAY(KILN_I32, 1, 2, 40);
    fill_random(q, -0.5, 0.5);
    fill_random(k, -0.5, 0.5);
    kiln_vertical_slash_estimate_args e = {
        .q = &q->tensor, .k = &k->tensor, .vertical = &vertical->tensor, .slash = &slash->tensor
    };
    assert_ok(kiln_vertical_slash_estimate_workspace_size(ops, &e, &e.workspace_bytes));
    e.workspace = bytes_new(e.workspace_bytes)->tensor.data;
    assert_ok(kiln_vertical_slash_estimate(ops, NULL, &e));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(vertical);
    array_fetch(slash);
    expect_estimate(q, k, vertical, slash, 0);
    expect_estimate(q, k, vertical, slash, 1);

    Array *const spread = array_spread(q, true);
    kiln_vertical_slash_args a = { .q = &spread->tensor,
                                   .k = &k->tensor,
                                   .v = &v->tensor,
                                   .vertical = &vertical->tensor,
                                   .slash = &slash->tensor,
                                   .out = &out->tensor };
    assert_ok(kiln_vertical_slash_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_ok(kiln_vertical_slash(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    const kiln_tensor *const expected = host_result(out);
    const kiln_arg args[] = { host_arg(q),     host_arg(k),           host_arg(v),         host_arg(vertical),
                              host_arg(slash), KILN_TENSOR(expected), KILN_FLOAT(1.0 / 16) };
    run_reference("sparse/vertical_slash_lists.tile", "vertical_slash_attention", "T=f32, D=256", args, 7);
    array_fetch(out);
    assert_close("out", out, numbers(expected), close_enough);
    REFUSED(kiln_vertical_slash(ops, NULL, &a), a, a.vertical = &q->tensor, KILN_BAD_TYPE,
            "kiln_vertical_slash: 'vertical' is a tensor of f16, expected i32");
    REFUSED(kiln_vertical_slash(ops, NULL, &a), a, a.scale = &(double){ -1 }, KILN_BAD_ARGUMENT, "'scale' is -1");
    REFUSED(kiln_vertical_slash_estimate(ops, NULL, &e), e, e.slash = NULL, KILN_BAD_ARGUMENT, "'slash' is null");
}

// ---- refusals

static void refused_prefill(void **state)
{
    static const int offsets[] = { 0, 30, 70 };
    Prefill t = { .q = ARRAY(KILN_F16, 2, 70, 4, 64),
                  .k = ARRAY(KILN_F16, 2, 200, 2, 64),
                  .v = ARRAY(KILN_F16, 2, 200, 2, 64),
                  .mask = ARRAY(KILN_U8, 2, 2, 2, 4),
                  .out = ARRAY(KILN_F16, 2, 70, 4, 64),
                  .lse = ARRAY(KILN_F32, 2, 4, 70) };
    Array *const list = ARRAY(KILN_I32, 2, 2, 2, 3), *const begin = numbers_of(offsets, 3);
    kiln_block_sparse_args a = args_of(&t);
    kiln_tensor mask = t.mask->tensor;
    a.mask = &mask;
#define CALL kiln_block_sparse(ops, NULL, &a)
    REFUSED(CALL, a, a.mask = NULL, KILN_BAD_ARGUMENT, "kiln_block_sparse: 'mask' and 'list' are both null");
    REFUSED(CALL, a, a.list = &list->tensor, KILN_BAD_ARGUMENT, "'mask' and 'list' are both given");
    REFUSED(CALL, a, a.counts = &list->tensor, KILN_BAD_ARGUMENT, "'counts' is given, but 'list' is null");
    REFUSED(CALL, a, a.q_offsets = &begin->tensor, KILN_BAD_ARGUMENT, "'q_offsets' is given, but 'k_offsets' is null");
    REFUSED(CALL, a, (a.q_offsets = a.k_offsets = &begin->tensor), KILN_BAD_SHAPE,
            "dimension 0 of 'q' is 2, expected 1");
    REFUSED(CALL, a, a.query_block = 48, KILN_UNSUPPORTED,
            "'query_block' is 48, expected a power of two from 16 to 1024");
    REFUSED(CALL, a, a.key_block = 8, KILN_UNSUPPORTED, "'key_block' is 8");
    REFUSED(CALL, a, a.first_row = -1, KILN_BAD_ARGUMENT, "'first_row' is -1");
    REFUSED(CALL, a, a.first_row = 1, KILN_BAD_SHAPE, "dimension 2 of 'mask' is 2, expected at least 3");
    REFUSED(CALL, a, a.key_block = 32, KILN_BAD_SHAPE, "dimension 3 of 'mask' is 4, expected at least 7");
    REFUSED(CALL, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED(CALL, a, a.out = a.q, KILN_BAD_ARGUMENT, "overlap");
    REFUSED_TENSOR(CALL, mask, shape[1] = 3, KILN_BAD_SHAPE,
                   "4 query heads (of 'q') are not a multiple of 3 heads (of 'mask')");
    REFUSED_TENSOR(CALL, mask, type = KILN_F16, KILN_BAD_TYPE, "'mask' is a tensor of f16");
    array_unchanged(t.out, "the output of a refused call");
#undef CALL
}

static void refused_decoding(void **state)
{
    Array *const q = ARRAY(KILN_F16, 2, 4, 64), *const k = ARRAY(KILN_F16, 2, 96, 2, 64),
                 *const out = ARRAY(KILN_F16, 2, 4, 64);
    Array *const lengths = ARRAY(KILN_I32, 2), *const list = ARRAY(KILN_I32, 2, 2, 1),
                 *const table = ARRAY(KILN_I32, 2, 1);
    Array *const scores = ARRAY(KILN_F32, 1, 1, 2, 2), *const mask = ARRAY(KILN_U8, 1, 1, 2, 2);
    Array *const v = ARRAY(KILN_F16, 2, 96, 2, 64);
    kiln_block_sparse_decode_args a = { .q = &q->tensor,
                                        .k = &k->tensor,
                                        .v = &v->tensor,
                                        .lengths = &lengths->tensor,
                                        .list = &list->tensor,
                                        .out = &out->tensor };
#define CALL kiln_block_sparse_decode(ops, NULL, &a)
    REFUSED(CALL, a, a.list = NULL, KILN_BAD_ARGUMENT, "kiln_block_sparse_decode: 'mask' and 'list' are both null");
    REFUSED(CALL, a, a.lengths = NULL, KILN_BAD_ARGUMENT, "'lengths' is null");
    REFUSED(CALL, a, a.table = &table->tensor, KILN_BAD_SHAPE,
            "the page size (dimension 1 of 'k') is 96, expected a multiple");
    REFUSED(CALL, a, a.key_block = 512, KILN_UNSUPPORTED, "'key_block' is 512, expected a power of two from 16 to 256");
    REFUSED(CALL, a, a.splits = -1, KILN_BAD_ARGUMENT, "'splits' is -1");
    REFUSED(CALL, a, a.q = &k->tensor, KILN_BAD_SHAPE, "'q' has rank 4, expected 3");
#undef CALL
    kiln_block_mask_args m = { .scores = &scores->tensor, .mask = &mask->tensor, .queries = 100, .keys = 100 };
    REFUSED(kiln_block_mask(ops, NULL, &m), m, m.top = -1, KILN_BAD_ARGUMENT, "kiln_block_mask: 'top' is -1");
    REFUSED(kiln_block_mask(ops, NULL, &m), m, m.queries = -1, KILN_BAD_ARGUMENT, "'queries' is -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(prefill_by_mask, free_arrays),
        cmocka_unit_test_teardown(packed_prefill_by_list, free_arrays),
        cmocka_unit_test_teardown(masks_and_lists_agree, free_arrays),
        cmocka_unit_test_teardown(nothing_to_see, free_arrays),
        cmocka_unit_test_teardown(decoding_by_mask, free_arrays),
        cmocka_unit_test_teardown(paged_decoding_by_list, free_arrays),
        cmocka_unit_test_teardown(masks_of_scores, free_arrays),
        cmocka_unit_test_teardown(vertical_slash, free_arrays),
        cmocka_unit_test_teardown(refused_prefill, free_arrays),
        cmocka_unit_test_teardown(refused_decoding, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
