// SPDX-License-Identifier: MIT
// attention_test.c - attention forward, packed, backward and decoding, against the kernels' references.
#include "support.h"

// Sequences of B requests; packed ones have offsets.
typedef struct Sizes {
    int batch, rows, keys, heads, key_heads, size, value_size;
} Sizes;

static const char *yes(bool is) { return is ? "true" : "false"; }

static Tolerance tolerance_of(kiln_type type)
{
    return type == KILN_F32 ? (Tolerance){ 1e-5, 1e-4, 1e-9 } : (Tolerance){ 1e-3, 8.01 / 128, 7e-6 };
}

static const Tolerance lse_tolerance = { 1e-6, 2.01 / 65536, 1e-7 };

// ---- forward

static void expect_forward(const Sizes *s, bool causal, int window, double scale, const Array *q, const Array *k,
                           const Array *v, const kiln_tensor *out, const kiln_tensor *lse)
{
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, CAUSAL=%s, WINDOW=%d", s->size, s->value_size, yes(causal),
             window);
    const kiln_arg args[] = { KILN_TENSOR(host_copy(q)), KILN_TENSOR(host_copy(k)), KILN_TENSOR(host_copy(v)),
                              KILN_TENSOR(out),          KILN_TENSOR(lse),          KILN_FLOAT(scale) };
    run_reference("attention/forward.tile", "attention_forward", bindings, args, 6);
}

static void run_forward(kiln_type type, Sizes s, bool causal, int window, bool with_lse, bool may_divide)
{
    seed((unsigned)(s.rows * 31 + s.keys));
    Array *const q = ARRAY(type, s.batch, s.rows, s.heads, s.size),
                 *const k = ARRAY(type, s.batch, s.keys, s.key_heads, s.size),
                 *const v = ARRAY(type, s.batch, s.keys, s.key_heads, s.value_size),
                 *const out = ARRAY(type, s.batch, s.rows, s.heads, s.value_size),
                 *const lse = ARRAY(KILN_F32, s.batch, s.heads, s.rows);
    fill_random(q, -1, 1);
    fill_random(k, -1, 1);
    fill_random(v, -0.5, 0.5);
    kiln_attention_args args = { .q = &q->tensor,
                                 .k = &k->tensor,
                                 .v = &v->tensor,
                                 .out = &out->tensor,
                                 .lse = with_lse ? &lse->tensor : NULL,
                                 .causal = causal,
                                 .window = window };
    size_t bytes;
    assert_ok(kiln_attention_forward_workspace_size(ops, &args, &bytes));
    assert_int_equal(bytes > 0, may_divide && !on_cpu());
    Array *const workspace = bytes_new(bytes);
    args.workspace = workspace->tensor.data;
    for (int less = 0; less < (bytes ? 2 : 1); less++) { // with too little the keys are not divided
        args.workspace_bytes = bytes - (size_t)less;
        assert_ok(kiln_attention_forward(ops, NULL, &args));
        assert_ok(kiln_stream_wait(device, NULL));
        if (with_lse) array_fetch(lse);
        array_fetch(out);
        array_unchanged(q, "q");
        array_unchanged(k, "k");
        array_unchanged(v, "v");

        const kiln_tensor *const o = host_result(out), *const l = host_result(lse);
        expect_forward(&s, causal, window, 1 / sqrt(s.size), q, k, v, o, l);
        assert_close("out", out, numbers(o), tolerance_of(type));
        if (with_lse) assert_close("lse", lse, numbers(l), lse_tolerance);
    }
    array_fetch(workspace);
    free_arrays(NULL);
}

static void check_forward(kiln_type type, Sizes s, bool causal, int window, bool with_lse)
{
    run_forward(type, s, causal, window, with_lse, false);
}

static void forward(void **state)
{
    for (int causal = 0; causal < 2; causal++) {
        check_forward(KILN_BF16, (Sizes){ 2, 100, 100, 4, 2, 64, 64 }, causal, 0, true);
        check_forward(KILN_BF16, (Sizes){ 1, 1, 77, 4, 4, 64, 64 }, causal, 0, true);
        check_forward(KILN_BF16, (Sizes){ 1, 33, 150, 3, 1, 64, 64 }, causal, 0, true);
        check_forward(KILN_BF16, (Sizes){ 1, 90, 20, 2, 1, 64, 64 }, causal, 0, true); // causal: rows that see nothing
        check_forward(KILN_BF16, (Sizes){ 2, 30, 0, 2, 1, 64, 64 }, causal, 0, true);
        check_forward(KILN_BF16, (Sizes){ 0, 30, 30, 2, 1, 64, 64 }, causal, 0, true);
        check_forward(KILN_BF16, (Sizes){ 2, 0, 30, 2, 1, 64, 64 }, causal, 0, true);
    }
}

static void forward_head_sizes(void **state)
{
    check_forward(KILN_BF16, (Sizes){ 1, 70, 90, 2, 2, 128, 128 }, true, 0, true);
    check_forward(KILN_BF16, (Sizes){ 1, 70, 90, 2, 1, 192, 128 }, true, 0, true);
    check_forward(KILN_F16, (Sizes){ 1, 40, 90, 2, 1, 96, 32 }, false, 0, false);
}

static void forward_windows_and_types(void **state)
{
    check_forward(KILN_BF16, (Sizes){ 1, 150, 200, 2, 1, 64, 64 }, false, 33, true);
    check_forward(KILN_F32, (Sizes){ 1, 50, 60, 2, 1, 32, 32 }, false, 0, false);
}

// Few queries over many keys.
static void forward_divided(void **state)
{
    for (int causal = 0; causal < 2; causal++)
        run_forward(KILN_BF16, (Sizes){ 1, 20, 2000, 2, 1, 64, 64 }, causal, 0, true, true);
}

// Scores that are all alike: no step changes the maximum, and none may change what was summed before it.
static void forward_of_long_rows(void **state)
{
    enum { KEYS = 65536, D = 64 };
    Array *const q = ARRAY(KILN_BF16, 1, 1, 1, D), *const k = ARRAY(KILN_BF16, 1, KEYS, 1, D),
                 *const v = ARRAY(KILN_BF16, 1, KEYS, 1, D), *const out = ARRAY(KILN_BF16, 1, 1, 1, D),
                 *const lse = ARRAY(KILN_F32, 1, 1, 1);
    double score = 0;
    for (int d = 0; d < D; d++) {
        set(q, d, d % 3 ? 1 : 0.71875);
        score += get(q, d);
    }
    for (int64_t i = 0; i < (int64_t)KEYS * D; i++) {
        set(k, i, 1);
        set(v, i, i < (int64_t)KEYS * D / 2);
    }
    array_send(q);
    array_send(k);
    array_send(v);
    for (float scale = 0.5f; scale < 3; scale *= 1.3f) {
        assert_ok(kiln_attention_forward(ops, NULL,
                                         &(kiln_attention_args){ .q = &q->tensor,
                                                                 .k = &k->tensor,
                                                                 .v = &v->tensor,
                                                                 .out = &out->tensor,
                                                                 .lse = &lse->tensor,
                                                                 .scale = &(double){ scale } }));
        assert_ok(kiln_stream_wait(device, NULL));
        array_fetch(out);
        array_fetch(lse);
        assert_float_equal(get(out, 0), 0.5, 1e-3);
        assert_float_equal(get(lse, 0) / (score * scale + log(KEYS)), 1, 1e-6);
    }
}

// ---- packed

static Array *offsets_of(const int *lengths, int n)
{
    Array *const offsets = ARRAY(KILN_I32, n + 1);
    int at = 0;
    for (int i = 0; i <= n; i++) {
        set(offsets, i, at);
        at += i < n ? lengths[i] : 0;
    }
    array_send(offsets);
    return offsets;
}

static void expect_packed(const Sizes *s, bool causal, double scale, const Array *q, const Array *k, const Array *v,
                          const Array *q_offsets, const Array *k_offsets, int longest, const kiln_tensor *out,
                          const kiln_tensor *lse)
{
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, CAUSAL=%s", s->size, s->value_size, yes(causal));
    const kiln_arg args[] = { KILN_TENSOR(host_copy(q)),
                              KILN_TENSOR(host_copy(k)),
                              KILN_TENSOR(host_copy(v)),
                              KILN_TENSOR(host_copy(q_offsets)),
                              KILN_TENSOR(host_copy(k_offsets)),
                              KILN_TENSOR(out),
                              KILN_TENSOR(lse),
                              KILN_INT(longest),
                              KILN_FLOAT(scale) };
    run_reference("attention/varlen.tile", "attention_varlen", bindings, args, 9);
}

static void check_packed(const int *rows, const int *keys, Sizes s, bool causal)
{
    int longest = 0;
    seed(9);
    Array *const q_offsets = offsets_of(rows, s.batch), *const k_offsets = offsets_of(keys, s.batch);
    s.rows = (int)get(q_offsets, s.batch);
    s.keys = (int)get(k_offsets, s.batch);
    for (int b = 0; b < s.batch; b++) longest = rows[b] > longest ? rows[b] : longest;
    Array *const q = ARRAY(KILN_BF16, s.rows, s.heads, s.size),
                 *const k = ARRAY(KILN_BF16, s.keys, s.key_heads, s.size),
                 *const v = ARRAY(KILN_BF16, s.keys, s.key_heads, s.value_size),
                 *const out = ARRAY(KILN_BF16, s.rows, s.heads, s.value_size),
                 *const lse = ARRAY(KILN_F32, s.heads, s.rows);
    fill_random(q, -1, 1);
    fill_random(k, -1, 1);
    fill_random(v, -0.5, 0.5);
    assert_ok(
        kiln_attention_forward_varlen(ops, NULL,
                                      &(kiln_attention_varlen_args){ .q = &q->tensor,
                                                                     .k = &k->tensor,
                                                                     .v = &v->tensor,
                                                                     .q_offsets = &q_offsets->tensor,
                                                                     .k_offsets = &k_offsets->tensor,
                                                                     .max_queries = longest,
                                                                     .out = &out->tensor,
                                                                     .lse = &lse->tensor,
                                                                     .causal = causal,
                                                                     .scale = &(double){ 1 / sqrt(s.size + 100) } }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    array_fetch(lse);
    array_unchanged(q, "q");
    array_unchanged(k, "k");
    array_unchanged(v, "v");

    const kiln_tensor *const o = host_result(out), *const l = host_result(lse);
    expect_packed(&s, causal, 1 / sqrt(s.size + 100), q, k, v, q_offsets, k_offsets, longest, o, l);
    assert_close("out", out, numbers(o), tolerance_of(KILN_BF16));
    assert_close("lse", lse, numbers(l), lse_tolerance);
    free_arrays(NULL);
}

static void packed(void **state)
{
    static const int rows[] = { 70, 0, 1, 130, 5 }, keys[] = { 70, 12, 90, 150, 0 }, more[] = { 90, 10, 40, 130, 5 };
    for (int causal = 0; causal < 2; causal++) {
        check_packed(rows, keys, (Sizes){ .batch = 5, .heads = 4, .key_heads = 2, .size = 64, .value_size = 64 },
                     causal);
        check_packed(more, keys, (Sizes){ .batch = 5, .heads = 2, .key_heads = 1, .size = 64, .value_size = 64 },
                     causal);
    }
    check_packed(rows, keys, (Sizes){ .batch = 1, .heads = 2, .key_heads = 2, .size = 128, .value_size = 128 }, true);
    check_packed(rows, keys, (Sizes){ .batch = 5, .heads = 4, .key_heads = 1, .size = 192, .value_size = 128 }, true);
}

// ---- backward

// The tensors of a backward call, rows and keys of all sequences together; and what the references make of them.
typedef struct Tensors {
    Array *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv, *workspace;
    const kiln_tensor *expected_out, *expected_lse, *expected_dq, *expected_dk, *expected_dv;
} Tensors;

static Tensors make_tensors(const Sizes *s, bool packed)
{
    const int64_t q[] = { s->batch, s->rows, s->heads, s->size }, k[] = { s->batch, s->keys, s->key_heads, s->size },
                  v[] = { s->batch, s->keys, s->key_heads, s->value_size },
                  o[] = { s->batch, s->rows, s->heads, s->value_size };
    const int from = packed ? 1 : 0, rank = 4 - from;
    seed(12);
    Tensors t = { .q = array_new(KILN_BF16, rank, q + from),
                  .k = array_new(KILN_BF16, rank, k + from),
                  .v = array_new(KILN_BF16, rank, v + from),
                  .out = array_new(KILN_BF16, rank, o + from),
                  .dout = array_new(KILN_BF16, rank, o + from),
                  .dq = array_new(KILN_BF16, rank, q + from),
                  .dk = array_new(KILN_BF16, rank, k + from),
                  .dv = array_new(KILN_BF16, rank, v + from),
                  .lse = packed ? ARRAY(KILN_F32, s->heads, s->rows) : ARRAY(KILN_F32, s->batch, s->heads, s->rows) };
    fill_random(t.q, -0.5, 0.5);
    fill_random(t.k, -0.5, 0.5);
    fill_random(t.v, -0.5, 0.5);
    fill_random(t.dout, -0.5, 0.5);
    t.expected_out = host_result(t.out), t.expected_lse = host_result(t.lse);
    t.expected_dq = host_result(t.dq), t.expected_dk = host_result(t.dk), t.expected_dv = host_result(t.dv);
    return t;
}

// The forward's results, as the backward call takes them.
static void send_forward(Tensors *t)
{
    const double *const out = numbers(t->expected_out), *const lse = numbers(t->expected_lse);
    for (int64_t i = 0; i < count(t->out); i++) set(t->out, i, out[i]);
    for (int64_t i = 0; i < count(t->lse); i++) set(t->lse, i, lse[i]);
    array_send(t->out);
    array_send(t->lse);
}

// Of sequences of equal length, or, with offsets, of packed ones.
static void expect_gradients(const Sizes *s, const Tensors *t, bool causal, double scale, const Array *q_offsets,
                             const Array *k_offsets, int longest)
{
    kiln_arg args[13] = { KILN_TENSOR(host_copy(t->q)),   KILN_TENSOR(host_copy(t->k)),
                          KILN_TENSOR(host_copy(t->v)),   KILN_TENSOR(host_copy(t->out)),
                          KILN_TENSOR(host_copy(t->lse)), KILN_TENSOR(host_copy(t->dout)) };
    char bindings[96];
    int n = 6;
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, CAUSAL=%s", s->size, s->value_size, yes(causal));
    if (q_offsets) args[n++] = KILN_TENSOR(host_copy(q_offsets)), args[n++] = KILN_TENSOR(host_copy(k_offsets));
    args[n++] = KILN_TENSOR(t->expected_dq);
    args[n++] = KILN_TENSOR(t->expected_dk);
    args[n++] = KILN_TENSOR(t->expected_dv);
    if (q_offsets) args[n++] = KILN_INT(longest);
    args[n++] = KILN_FLOAT(scale);
    run_reference(q_offsets ? "attention/backward_varlen.tile" : "attention/backward.tile",
                  q_offsets ? "attention_varlen_backward" : "attention_backward", bindings, args, n);
}

static void compare_gradients(Tensors *t)
{
    // Weights and their gradients are rounded to bf16 before they are multiplied.
    const Tolerance tolerance = { 2e-3, 8.01 / 128, 3e-5 };
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(t->workspace);
    array_fetch(t->dq);
    array_fetch(t->dk);
    array_fetch(t->dv);
    array_unchanged(t->out, "out");
    array_unchanged(t->lse, "lse");
    array_unchanged(t->q, "q");
    assert_close("dq", t->dq, numbers(t->expected_dq), tolerance);
    assert_close("dk", t->dk, numbers(t->expected_dk), tolerance);
    assert_close("dv", t->dv, numbers(t->expected_dv), tolerance);
    free_arrays(NULL);
}

// part: of the workspace that the size function asks for.
static size_t check_backward_within(Sizes s, bool causal, bool deterministic, double part)
{
    const double scale = 1 / sqrt(s.size + 100);
    Tensors t = make_tensors(&s, false);
    expect_forward(&s, causal, 0, scale, t.q, t.k, t.v, t.expected_out, t.expected_lse);
    send_forward(&t);
    expect_gradients(&s, &t, causal, scale, NULL, NULL, 0);
    // clang-format off
    kiln_attention_backward_args args = {
        .q = &t.q->tensor, .k = &t.k->tensor, .v = &t.v->tensor, .out = &t.out->tensor, .lse = &t.lse->tensor, .dout = &t.dout->tensor,
        .dq = &t.dq->tensor, .dk = &t.dk->tensor, .dv = &t.dv->tensor, .causal = causal, .deterministic = deterministic, .scale = &scale };
    assert_ok(kiln_attention_backward_workspace_size(ops, &args, &args.workspace_bytes));
    const size_t bytes = args.workspace_bytes;
    args.workspace_bytes = (size_t)((double)bytes * part);
    t.workspace = bytes_new(args.workspace_bytes);
    args.workspace = t.workspace->tensor.data;
    assert_ok(kiln_attention_backward(ops, NULL, &args));
    compare_gradients(&t);
    return bytes;
}

static void check_backward(Sizes s, bool causal, bool deterministic)
{
    check_backward_within(s, causal, deterministic, 1);
}

// With `room` of the workspace that is asked for, whose size is returned.
static size_t check_packed_backward(const int *rows, const int *keys, Sizes s, bool causal, bool deterministic, double room)
{
    const double scale = 1 / sqrt(s.size + 100);
    Array *const q_offsets = offsets_of(rows, s.batch), *const k_offsets = offsets_of(keys, s.batch);
    int longest = 0, longest_rows = 0;
    s.rows = (int)get(q_offsets, s.batch);
    s.keys = (int)get(k_offsets, s.batch);
    Tensors t = make_tensors(&s, true);
    for (int b = 0; b < s.batch; b++) {
        longest = keys[b] > longest ? keys[b] : longest;
        longest_rows = rows[b] > longest_rows ? rows[b] : longest_rows;
    }
    // clang-format on
    expect_packed(&s, causal, scale, t.q, t.k, t.v, q_offsets, k_offsets, longest_rows, t.expected_out, t.expected_lse);
    send_forward(&t);
    expect_gradients(&s, &t, causal, scale, q_offsets, k_offsets, longest);
    kiln_attention_backward_varlen_args args = { .q = &t.q->tensor,
                                                 .k = &t.k->tensor,
                                                 .v = &t.v->tensor,
                                                 .q_offsets = &q_offsets->tensor,
                                                 .k_offsets = &k_offsets->tensor,
                                                 .max_keys = longest,
                                                 .out = &t.out->tensor,
                                                 .lse = &t.lse->tensor,
                                                 .dout = &t.dout->tensor,
                                                 .dq = &t.dq->tensor,
                                                 .dk = &t.dk->tensor,
                                                 .dv = &t.dv->tensor,
                                                 .causal = causal,
                                                 .deterministic = deterministic,
                                                 .max_queries = deterministic ? longest_rows : 0,
                                                 .scale = &scale };
    size_t bytes = 0;
    assert_ok(kiln_attention_backward_varlen_workspace_size(ops, &args, &bytes));
    args.workspace_bytes = (size_t)((double)bytes * room);
    t.workspace = bytes_new(args.workspace_bytes);
    args.workspace = t.workspace->tensor.data;
    assert_ok(kiln_attention_backward_varlen(ops, NULL, &args));
    compare_gradients(&t);
    return bytes;
}

static void packed_backward(void **state)
{
    static const int rows[] = { 70, 0, 1, 90, 5 }, keys[] = { 70, 12, 90, 60, 0 };
    for (int i = 0; i < 4; i++)
        check_packed_backward(rows, keys,
                              (Sizes){ .batch = 5, .heads = 4, .key_heads = 2, .size = 64, .value_size = 64 }, i & 1,
                              i & 2, 1);
    check_packed_backward(rows, keys, (Sizes){ .batch = 5, .heads = 2, .key_heads = 2, .size = 128, .value_size = 128 },
                          true, false, 1);
    check_packed_backward(rows, keys, (Sizes){ .batch = 5, .heads = 4, .key_heads = 1, .size = 192, .value_size = 128 },
                          false, false, 1);
}

static void backward(void **state)
{
    for (int causal = 0; causal < 2; causal++) {
        check_backward((Sizes){ 2, 100, 100, 2, 2, 64, 64 }, causal, false);
        check_backward((Sizes){ 1, 40, 130, 4, 2, 64, 64 }, causal, false);
        check_backward((Sizes){ 1, 90, 20, 2, 1, 64, 64 }, causal, false); // causal: rows that see nothing
        check_backward((Sizes){ 1, 100, 70, 2, 1, 64, 64 }, causal, true);
    }
    check_backward((Sizes){ 1, 50, 60, 2, 1, 192, 128 }, true, false);
    check_backward((Sizes){ 1, 0, 20, 2, 1, 64, 64 }, false, false);
}

// Few tiles of keys and many query heads: each tile is several instances on a GPU, if the workspace has room for their sums.
static void divided_backward(void **state)
{
    const Sizes s = { 1, 70, 200, 8, 1, 64, 64 };
    const size_t bytes = check_backward_within(s, true, false, 1);
    if (on_cpu()) return;
    assert_true(bytes > sizeof(float) * 8 * 200 * 64 * 2);
    check_backward_within(s, true, false, 0.5);
}

static void divided_packed_backward(void **state)
{
    static const int rows[] = { 70, 130 }, keys[] = { 150, 120 };
    const Sizes s = { .batch = 2, .heads = 8, .key_heads = 1, .size = 64, .value_size = 64 };
    const size_t bytes = check_packed_backward(rows, keys, s, true, false, 1);
    if (on_cpu()) return;
    assert_true(bytes > sizeof(float) * 8 * 270 * 64 * 2);
    check_packed_backward(rows, keys, s, true, false, 0.5);
}

// ---- decoding

static void check_decode(Sizes s, bool masked, int64_t splits, const int *lengths)
{
    seed((unsigned)s.keys);
    Array *const q = ARRAY(KILN_BF16, s.batch, s.heads, s.size),
                 *const k = ARRAY(KILN_BF16, s.batch, s.keys, s.key_heads, s.size),
                 *const v = ARRAY(KILN_BF16, s.batch, s.keys, s.key_heads, s.value_size),
                 *const out = ARRAY(KILN_BF16, s.batch, s.heads, s.value_size),
                 *const lse = ARRAY(KILN_F32, s.batch, s.heads),
                 *const length = lengths ? ARRAY(KILN_I32, s.batch) : NULL,
                 *const mask = masked ? ARRAY(KILN_U8, s.batch, s.keys, s.key_heads) : NULL;
    fill_random(q, -1, 1);
    fill_random(k, -1, 1);
    fill_random(v, -0.5, 0.5);
    for (int64_t i = 0; mask && i < count(mask); i++) // request 0 sees nothing
        set(mask, i, i < (int64_t)s.keys * s.key_heads ? 0 : (double)integer(0, 1));
    if (mask) array_send(mask);
    for (int b = 0; length && b < s.batch; b++) { // NaN after the end
        set(length, b, lengths[b]);
        for (int64_t j = lengths[b] > 0 ? lengths[b] : 0; j < s.keys; j++) {
            for (int d = 0; d < s.key_heads * s.size; d++)
                set(k, ((int64_t)b * s.keys + j) * s.key_heads * s.size + d, NAN);
            for (int d = 0; d < s.key_heads * s.value_size; d++)
                set(v, ((int64_t)b * s.keys + j) * s.key_heads * s.value_size + d, NAN);
        }
    }
    if (length) array_send(length);
    array_send(k);
    array_send(v);
    kiln_attention_decode_args args = { .q = &q->tensor,
                                        .k = &k->tensor,
                                        .v = &v->tensor,
                                        .mask = mask ? &mask->tensor : NULL,
                                        .lengths = length ? &length->tensor : NULL,
                                        .out = &out->tensor,
                                        .splits = splits,
                                        .lse = length || masked ? &lse->tensor : NULL };
    size_t bytes;
    assert_ok(kiln_attention_decode_workspace_size(ops, &args, &bytes));
    Array *const workspace = bytes_new(bytes);
    args.workspace = workspace->tensor.data;
    args.workspace_bytes = bytes;
    assert_ok(kiln_attention_decode(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(workspace);
    array_fetch(out);
    array_unchanged(q, "q");
    array_unchanged(k, "k");

    const kiln_tensor *const o = host_result(out), *const l = host_result(lse);
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, D=%d, DV=%d, G=%d, SINK=none%s%s", s.size, s.value_size,
             s.heads / s.key_heads, mask ? "" : ", Mask=none", length ? "" : ", LENGTH=none");
    const kiln_arg host[] = { KILN_TENSOR(host_copy(q)),
                              KILN_TENSOR(host_copy(k)),
                              KILN_TENSOR(host_copy(v)),
                              mask ? KILN_TENSOR(host_copy(mask)) : KILN_NONE,
                              length ? KILN_TENSOR(host_copy(length)) : KILN_NONE,
                              KILN_NONE,
                              KILN_TENSOR(o),
                              KILN_TENSOR(l),
                              KILN_INT(1),
                              KILN_FLOAT(1 / sqrt(s.size)) };
    run_reference("attention/decode.tile", "flash_decode", bindings, host, 10);
    if (args.lse) {
        array_fetch(lse);
        assert_close("lse", lse, numbers(l), lse_tolerance);
    }
    assert_close("out", out, numbers(o), tolerance_of(KILN_BF16));
    free_arrays(NULL);
}

static void decode(void **state)
{
    static const int keys[] = { 0, 1, 333, 1500 };
    for (int i = 0; i < 4; i++) {
        check_decode((Sizes){ .batch = 2, .keys = keys[i], .heads = 8, .key_heads = 2, .size = 64, .value_size = 64 },
                     false, i, NULL);
        check_decode((Sizes){ .batch = 2, .keys = keys[i], .heads = 8, .key_heads = 2, .size = 64, .value_size = 64 },
                     true, 0, NULL);
    }
    check_decode((Sizes){ .batch = 0, .keys = 10, .heads = 8, .key_heads = 2, .size = 64, .value_size = 64 }, false, 0,
                 NULL);
    static const int lengths[] = { 0, 1, 128, 700, -3, 900 };
    check_decode((Sizes){ .batch = 6, .keys = 700, .heads = 4, .key_heads = 2, .size = 64, .value_size = 32 }, false, 3,
                 lengths);
    check_decode((Sizes){ .batch = 6, .keys = 700, .heads = 4, .key_heads = 1, .size = 64, .value_size = 32 }, true, 0,
                 lengths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(forward, free_arrays),
        cmocka_unit_test_teardown(forward_head_sizes, free_arrays),
        cmocka_unit_test_teardown(forward_windows_and_types, free_arrays),
        cmocka_unit_test_teardown(forward_divided, free_arrays),
        cmocka_unit_test_teardown(forward_of_long_rows, free_arrays),
        cmocka_unit_test_teardown(packed, free_arrays),
        cmocka_unit_test_teardown(backward, free_arrays),
        cmocka_unit_test_teardown(divided_backward, free_arrays),
        cmocka_unit_test_teardown(divided_packed_backward, free_arrays),
        cmocka_unit_test_teardown(packed_backward, free_arrays),
        cmocka_unit_test_teardown(decode, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
