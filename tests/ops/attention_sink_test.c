// SPDX-License-Identifier: MIT
// attention_sink_test.c - sinks and capped scores in the forward and decoding calls, against the kernels' references; the gradients
// of sinks, of windows and of capped scores against finite differences of the forward call.
#include "kiln/ops/attention.h"
#include "support.h"

typedef struct Tensors {
    Array *q, *k, *v, *sinks, *q_offsets, *k_offsets, *out, *lse;
} Tensors;

static Array *random_array(Array *a)
{
    fill_random(a, -1, 1);
    return a;
}

static Array *numbers_of(const int *x, int n)
{
    Array *const a = ARRAY(KILN_I32, n);
    for (int i = 0; i < n; i++) set(a, i, x[i]);
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
    return b;
}

static void compare(const Tensors *t, bool causal, int window, double softcap)
{
    char bindings[160];
    const bool packed = t->q_offsets != NULL;
    const kiln_tensor *const out = host_result(t->out), *const lse = host_result(t->lse);
    const kiln_tensor q = batched(host_copy(t->q), packed), k = batched(host_copy(t->k), packed),
                      v = batched(host_copy(t->v), packed), o = batched(out, packed), l = batched(lse, packed);
    snprintf(bindings, sizeof bindings, "T=f32, D=64, CAUSAL=%s, W=%d, CAP=%s%s%s", causal ? "true" : "false", window,
             softcap > 0 ? "true" : "false", t->sinks ? "" : ", SINK=none",
             packed ? "" : ", QOffset=none, KOffset=none");
    const kiln_arg args[] = { KILN_TENSOR(&q),
                              KILN_TENSOR(&k),
                              KILN_TENSOR(&v),
                              t->sinks ? KILN_TENSOR(host_copy(t->sinks)) : KILN_NONE,
                              packed ? KILN_TENSOR(host_copy(t->q_offsets)) : KILN_NONE,
                              packed ? KILN_TENSOR(host_copy(t->k_offsets)) : KILN_NONE,
                              KILN_TENSOR(&o),
                              KILN_TENSOR(&l),
                              KILN_INT(packed ? q.shape[1] : 0),
                              KILN_FLOAT(0.125),
                              KILN_FLOAT(softcap > 0 ? softcap : 1) };
    run_reference("attention/sink.tile", "attention_sink", bindings, args, 11);
    array_fetch(t->out);
    assert_close("out", t->out, numbers(out), (Tolerance){ 1e-3, 8.01 / 128, 7e-6 });
    array_fetch(t->lse);
    assert_close("lse", t->lse, numbers(lse), (Tolerance){ 1e-5, 2.01 / 65536, 1e-7 });
}

static void forward_with_sinks(void **state)
{
    seed(1);
    Tensors t = { .q = random_array(ARRAY(KILN_BF16, 2, 100, 4, 64)),
                  .k = random_array(ARRAY(KILN_BF16, 2, 150, 2, 64)),
                  .v = random_array(ARRAY(KILN_BF16, 2, 150, 2, 64)),
                  .sinks = random_array(ARRAY(KILN_F32, 4)),
                  .out = ARRAY(KILN_BF16, 2, 100, 4, 64),
                  .lse = ARRAY(KILN_F32, 2, 4, 100) };
    kiln_attention_args a = { .q = &t.q->tensor,
                              .k = &t.k->tensor,
                              .v = &t.v->tensor,
                              .out = &t.out->tensor,
                              .lse = &t.lse->tensor,
                              .window = 70,
                              .sinks = &t.sinks->tensor };
    assert_ok(kiln_attention_forward(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    compare(&t, true, 70, 0);
    REFUSED(kiln_attention_forward(ops, NULL, &a), a, a.softcap = -1, KILN_BAD_ARGUMENT,
            "kiln_attention_forward: 'softcap' is -1, expected 1e-30 to 1e30, or 0 for none");
    REFUSED(kiln_attention_forward(ops, NULL, &a), a, a.sinks = a.lse, KILN_BAD_SHAPE,
            "'sinks' has rank 3, expected 1");
    REFUSED(kiln_attention_forward(ops, NULL, &a), a, a.v = a.q, KILN_BAD_SHAPE,
            "dimension 1 of 'v' is 100, expected 150: its shape is [B][SKV][HKV][DV], and 'k' has SKV = 150");
    t.sinks = NULL;
    a.sinks = NULL, a.softcap = 0.5, a.window = 0;
    assert_ok(kiln_attention_forward(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    compare(&t, false, 0, 0.5);
}

static const int queries[] = { 0, 30, 30, 100 }, keys[] = { 0, 40, 80, 150 };

static void packed_forward_with_sinks(void **state)
{
    seed(2);
    Tensors t = { .q = random_array(ARRAY(KILN_F16, 100, 4, 64)),
                  .k = random_array(ARRAY(KILN_F16, 150, 2, 64)),
                  .v = random_array(ARRAY(KILN_F16, 150, 2, 64)),
                  .sinks = random_array(ARRAY(KILN_F32, 4)),
                  .q_offsets = numbers_of(queries, 4),
                  .k_offsets = numbers_of(keys, 4),
                  .out = ARRAY(KILN_F16, 100, 4, 64),
                  .lse = ARRAY(KILN_F32, 4, 100) };
    kiln_attention_varlen_args a = { .q = &t.q->tensor,
                                     .k = &t.k->tensor,
                                     .v = &t.v->tensor,
                                     .q_offsets = &t.q_offsets->tensor,
                                     .k_offsets = &t.k_offsets->tensor,
                                     .max_queries = 70,
                                     .out = &t.out->tensor,
                                     .lse = &t.lse->tensor,
                                     .causal = true,
                                     .sinks = &t.sinks->tensor,
                                     .softcap = 0.7 };
    assert_ok(kiln_attention_forward_varlen(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    compare(&t, true, 0, 0.7);
    REFUSED(kiln_attention_forward_varlen(ops, NULL, &a), a, a.k_offsets = NULL, KILN_BAD_ARGUMENT,
            "'k_offsets' is null");
}

static void decoding_with_capped_scores(void **state)
{
    seed(5);
    Array *const q = random_array(ARRAY(KILN_BF16, 2, 4, 64)), *const k = random_array(ARRAY(KILN_BF16, 2, 200, 2, 64)),
                 *const v = random_array(ARRAY(KILN_BF16, 2, 200, 2, 64)), *const out = ARRAY(KILN_BF16, 2, 4, 64);
    Array *const sinks = random_array(ARRAY(KILN_F32, 4)), *const lse = ARRAY(KILN_F32, 2, 4);
    kiln_attention_decode_args a = {
        .q = &q->tensor, .k = &k->tensor, .v = &v->tensor, .out = &out->tensor, .softcap = 0.3
    };
    assert_ok(kiln_attention_decode_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_ok(kiln_attention_decode(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    const kiln_tensor *const expected = host_result(out);
    const kiln_arg args[] = { KILN_TENSOR(host_copy(q)),
                              KILN_TENSOR(host_copy(k)),
                              KILN_TENSOR(host_copy(v)),
                              KILN_NONE,
                              KILN_NONE,
                              KILN_NONE,
                              KILN_TENSOR(expected),
                              KILN_NONE,
                              KILN_INT(1),
                              KILN_FLOAT(0.125) };
    run_reference("attention/decode.tile", "flash_decode",
                  "T=f32, D=64, G=2, CAP=0.3, Mask=none, LENGTH=none, SINK=none, LSE=none", args, 10);
    array_fetch(out);
    assert_close("out", out, numbers(expected), (Tolerance){ 1e-3, 8.01 / 128, 7e-6 });
    REFUSED(kiln_attention_decode(ops, NULL, &a), a, a.softcap = NAN, KILN_BAD_ARGUMENT, "'softcap' is");
    REFUSED(kiln_attention_decode(ops, NULL, &a), a, a.sinks = a.q, KILN_BAD_TYPE, "'sinks' is a tensor of bf16");
    a.sinks = &sinks->tensor, a.lse = &lse->tensor, a.softcap = 0, a.splits = 3;
    assert_ok(kiln_attention_decode_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
    assert_ok(kiln_attention_decode(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    const kiln_tensor *const sums = host_result(lse);
    kiln_arg with_sinks[10];
    memcpy(with_sinks, args, sizeof args);
    with_sinks[5] = KILN_TENSOR(host_copy(sinks));
    with_sinks[7] = KILN_TENSOR(sums);
    run_reference("attention/decode.tile", "flash_decode", "T=f32, D=64, G=2, Mask=none, LENGTH=none", with_sinks, 10);
    array_fetch(out);
    assert_close("out", out, numbers(expected), (Tolerance){ 1e-3, 8.01 / 128, 7e-6 });
    array_fetch(lse);
    assert_close("lse", lse, numbers(sums), (Tolerance){ 1e-5, 2.01 / 65536, 1e-7 });
}

static void decoding_with_very_many_heads(void **state)
{
    Array *const q = ARRAY(KILN_BF16, 1, 512, 128), *const k = ARRAY(KILN_BF16, 1, 8, 1, 128);
    const kiln_attention_decode_args a = { .q = &q->tensor, .k = &k->tensor, .v = &k->tensor, .out = &q->tensor };
    size_t bytes;
    if (on_cpu()) skip_because("a CPU takes any number of heads");
    assert_int_equal(kiln_attention_decode_workspace_size(ops, &a, &bytes), KILN_UNSUPPORTED);
    assert_string_equal(kiln_error_message(),
                        "kiln_attention_decode: 512 query heads (of 'q') share a key head, more "
                        "than fit on a multiprocessor with D = 128 and DV = 128; expected at most 128 in 16 "
                        "bits, 16 in f32 (kiln_paged_attention takes any number)");
}

// ---- gradients

enum { TQ = 100, TK = 150, H = 4, HKV = 2, D = 64 };

// Sequences of one batch, or packed ones. The loss is the sum of out times dout.
typedef struct Training {
    bool packed;
    int window;
    double softcap;
    bool without_sinks;
    Array *q, *k, *v, *sinks, *out, *lse, *dout, *dq, *dk, *dv, *dsinks;
    Array *q_offsets, *k_offsets;
} Training;

static Training make_training(bool packed, int window, double softcap)
{
    seed(packed ? 3 : 4);
    Training t = { .packed = packed, .window = window, .softcap = softcap };
    t.q = packed ? ARRAY(KILN_F32, TQ, H, D) : ARRAY(KILN_F32, 1, TQ, H, D);
    t.k = packed ? ARRAY(KILN_F32, TK, HKV, D) : ARRAY(KILN_F32, 1, TK, HKV, D);
    t.v = packed ? ARRAY(KILN_F32, TK, HKV, D) : ARRAY(KILN_F32, 1, TK, HKV, D);
    t.out = packed ? ARRAY(KILN_F32, TQ, H, D) : ARRAY(KILN_F32, 1, TQ, H, D);
    t.dout = packed ? ARRAY(KILN_F32, TQ, H, D) : ARRAY(KILN_F32, 1, TQ, H, D);
    t.dq = packed ? ARRAY(KILN_F32, TQ, H, D) : ARRAY(KILN_F32, 1, TQ, H, D);
    t.dk = packed ? ARRAY(KILN_F32, TK, HKV, D) : ARRAY(KILN_F32, 1, TK, HKV, D);
    t.dv = packed ? ARRAY(KILN_F32, TK, HKV, D) : ARRAY(KILN_F32, 1, TK, HKV, D);
    t.lse = packed ? ARRAY(KILN_F32, H, TQ) : ARRAY(KILN_F32, 1, H, TQ);
    t.sinks = ARRAY(KILN_F32, H), t.dsinks = ARRAY(KILN_F32, H);
    t.q_offsets = numbers_of(queries, 4), t.k_offsets = numbers_of(keys, 4);
    random_array(t.q), random_array(t.k), random_array(t.v), random_array(t.dout);
    fill_random(t.sinks, 1, 4);
    return t;
}

static double loss_of(const Training *t)
{
    const kiln_tensor *const sinks = t->without_sinks ? NULL : &t->sinks->tensor;
    if (t->packed)
        assert_ok(kiln_attention_forward_varlen(ops, NULL,
                                                &(kiln_attention_varlen_args){ .q = &t->q->tensor,
                                                                               .k = &t->k->tensor,
                                                                               .v = &t->v->tensor,
                                                                               .q_offsets = &t->q_offsets->tensor,
                                                                               .k_offsets = &t->k_offsets->tensor,
                                                                               .max_queries = TQ,
                                                                               .out = &t->out->tensor,
                                                                               .lse = &t->lse->tensor,
                                                                               .causal = true,
                                                                               .window = t->window,
                                                                               .sinks = sinks,
                                                                               .softcap = t->softcap }));
    else
        assert_ok(kiln_attention_forward(ops, NULL,
                                         &(kiln_attention_args){ .q = &t->q->tensor,
                                                                 .k = &t->k->tensor,
                                                                 .v = &t->v->tensor,
                                                                 .out = &t->out->tensor,
                                                                 .lse = &t->lse->tensor,
                                                                 .causal = true,
                                                                 .window = t->window,
                                                                 .sinks = sinks,
                                                                 .softcap = t->softcap }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(t->out);
    double loss = 0;
    for (int64_t i = 0; i < count(t->out); i++) loss += get(t->out, i) * get(t->dout, i);
    return loss;
}

static void run_backward(const Training *t, bool deterministic)
{
    kiln_attention_backward_args a = { .q = &t->q->tensor,
                                       .k = &t->k->tensor,
                                       .v = &t->v->tensor,
                                       .out = &t->out->tensor,
                                       .lse = &t->lse->tensor,
                                       .dout = &t->dout->tensor,
                                       .dq = &t->dq->tensor,
                                       .dk = &t->dk->tensor,
                                       .dv = &t->dv->tensor,
                                       .causal = true,
                                       .deterministic = deterministic,
                                       .window = t->window,
                                       .sinks = t->without_sinks ? NULL : &t->sinks->tensor,
                                       .dsinks = t->without_sinks ? NULL : &t->dsinks->tensor,
                                       .softcap = t->softcap };
    kiln_attention_backward_varlen_args p = { .q = a.q,
                                              .k = a.k,
                                              .v = a.v,
                                              .q_offsets = &t->q_offsets->tensor,
                                              .k_offsets = &t->k_offsets->tensor,
                                              .max_keys = TK,
                                              .out = a.out,
                                              .lse = a.lse,
                                              .dout = a.dout,
                                              .dq = a.dq,
                                              .dk = a.dk,
                                              .dv = a.dv,
                                              .causal = true,
                                              .deterministic = deterministic,
                                              .max_queries = TQ,
                                              .window = t->window,
                                              .sinks = a.sinks,
                                              .dsinks = a.dsinks,
                                              .softcap = a.softcap };
    size_t bytes;
    if (t->packed) assert_ok(kiln_attention_backward_varlen_workspace_size(ops, &p, &bytes));
    else assert_ok(kiln_attention_backward_workspace_size(ops, &a, &bytes));
    a.workspace = p.workspace = bytes_new(bytes)->tensor.data;
    a.workspace_bytes = p.workspace_bytes = bytes;
    if (t->packed) assert_ok(kiln_attention_backward_varlen(ops, NULL, &p));
    else assert_ok(kiln_attention_backward(ops, NULL, &a));
    assert_ok(kiln_stream_wait(device, NULL));
    if (t->packed)
        REFUSED(kiln_attention_backward_varlen(ops, NULL, &p), p, p.softcap = -2, KILN_BAD_ARGUMENT, "'softcap' is -2");
    else REFUSED(kiln_attention_backward(ops, NULL, &a), a, a.softcap = NAN, KILN_BAD_ARGUMENT, "'softcap' is");
    if (t->without_sinks) return;
    if (t->packed)
        REFUSED(kiln_attention_backward_varlen(ops, NULL, &p), p, p.dsinks = NULL, KILN_BAD_ARGUMENT,
                "kiln_attention_backward_varlen: 'sinks' is given, but 'dsinks' is null");
    else
        REFUSED(kiln_attention_backward(ops, NULL, &a), a, a.sinks = NULL, KILN_BAD_ARGUMENT,
                "kiln_attention_backward: 'dsinks' is given, but 'sinks' is null");
}

// A few elements of a gradient are differences of the loss.
static void expect_differences(const char *name, const Training *t, Array *x, Array *dx, int few)
{
    static const double step = 0.05;
    array_fetch(dx);
    for (int n = 0; n < few; n++) {
        const int64_t at = few == count(x) ? n : integer(0, count(x) - 1);
        const double was = get(x, at);
        set(x, at, was + step);
        array_send(x);
        const double above = loss_of(t);
        set(x, at, was - step);
        array_send(x);
        const double below = loss_of(t), expected = (above - below) / (2 * step), got = get(dx, at);
        set(x, at, was);
        array_send(x);
        if (!(fabs(got - expected) <= 2e-3 + 0.01 * fabs(expected)))
            fail_msg("element %d of d%s is %g, expected %g", (int)at, name, got, expected);
    }
}

static void gradients(bool packed, int window, double softcap)
{
    const Training t = make_training(packed, window, softcap);
    loss_of(&t);
    run_backward(&t, false);
    array_fetch(t.dsinks);
    double first[H];
    for (int h = 0; h < H; h++) first[h] = get(t.dsinks, h);
    if (window) run_backward(&t, true);
    array_fetch(t.dsinks);
    for (int h = 0; h < H; h++) assert_true(first[h] == get(t.dsinks, h));
    expect_differences("sinks", &t, t.sinks, t.dsinks, H);
    expect_differences("q", &t, t.q, t.dq, 6);
    expect_differences("k", &t, t.k, t.dk, 6);
    expect_differences("v", &t, t.v, t.dv, 6);
}

static void gradients_of_sinks(void **state) { gradients(false, 0, 0); }
static void gradients_of_sinks_and_windows(void **state) { gradients(false, 37, 0); }
static void packed_gradients_of_sinks(void **state) { gradients(true, 37, 0); }
static void gradients_of_capped_scores_with_sinks(void **state) { gradients(false, 37, 0.8); }

// Without sinks: kernels of their own.
static void gradients_of_capped_scores(void **state)
{
    for (int packed = 0; packed < 2; packed++) {
        Training t = make_training(packed, 0, 0.8);
        t.without_sinks = true;
        loss_of(&t);
        run_backward(&t, packed);
        expect_differences("q", &t, t.q, t.dq, 3);
        expect_differences("k", &t, t.k, t.dk, 3);
        expect_differences("v", &t, t.v, t.dv, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(forward_with_sinks, free_arrays),
        cmocka_unit_test_teardown(packed_forward_with_sinks, free_arrays),
        cmocka_unit_test_teardown(decoding_with_capped_scores, free_arrays),
        cmocka_unit_test_teardown(decoding_with_very_many_heads, free_arrays),
        cmocka_unit_test_teardown(gradients_of_sinks, free_arrays),
        cmocka_unit_test_teardown(gradients_of_sinks_and_windows, free_arrays),
        cmocka_unit_test_teardown(packed_gradients_of_sinks, free_arrays),
        cmocka_unit_test_teardown(gradients_of_capped_scores_with_sinks, free_arrays),
        cmocka_unit_test_teardown(gradients_of_capped_scores, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
