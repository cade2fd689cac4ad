// SPDX-License-Identifier: MIT
// attention_test.c - attention forward, packed, backward and decoding, against plain loops in double precision.
#include "support.h"

// Sequences of B requests; packed ones have offsets.
typedef struct Sizes {
    int batch, rows, keys, heads, key_heads, size, value_size;
} Sizes;

typedef struct View {
    const double *q, *k, *v;
    int64_t q_step, k_step, v_step;
} View; // one head of one sequence

// Which keys query i sees: lo .. hi - 1.
static void visible(int i, int rows, int keys, bool causal, int window, int *lo, int *hi)
{
    *lo = window > 0 && i + keys - rows - window + 1 > 0 ? i + keys - rows - window + 1 : 0;
    *hi = causal || window > 0 ? i + keys - rows + 1 : keys;
    if (*hi > keys) *hi = keys;
}

// Weights of keys lo .. hi - 1 in w; gives the log-sum-exp.
static double weigh(const View *x, int i, int lo, int hi, int size, double scale, double *w)
{
    double top = -INFINITY, sum = 0;
    for (int j = lo; j < hi; j++) {
        w[j] = 0;
        for (int d = 0; d < size; d++) w[j] += x->q[i * x->q_step + d] * x->k[j * x->k_step + d];
        w[j] *= scale;
        top = fmax(top, w[j]);
    }
    for (int j = lo; j < hi; j++) sum += exp(w[j] - top);
    for (int j = lo; j < hi; j++) w[j] = exp(w[j] - top) / sum;
    return sum == 0 ? -INFINITY : top + log(sum);
}

static double attend(const View *x, const Sizes *s, int i, int rows, int keys, bool causal, int window, double scale,
                     double *w, double *out)
{
    int lo, hi;
    visible(i, rows, keys, causal, window, &lo, &hi);
    const double lse = weigh(x, i, lo, hi, s->size, scale, w);
    for (int d = 0; d < s->value_size; d++) out[d] = 0;
    for (int j = lo; j < hi; j++)
        for (int d = 0; d < s->value_size; d++) out[d] += w[j] * x->v[j * x->v_step + d];
    return lse;
}

static View head_of(const Sizes *s, const double *q, const double *k, const double *v, int64_t row, int64_t key, int h)
{
    const int g = h / (s->heads / s->key_heads);
    return (View){ q + (row * s->heads + h) * s->size,
                   k + (key * s->key_heads + g) * s->size,
                   v + (key * s->key_heads + g) * s->value_size,
                   (int64_t)s->heads * s->size,
                   (int64_t)s->key_heads * s->size,
                   (int64_t)s->key_heads * s->value_size };
}

static Tolerance tolerance_of(kiln_type type)
{
    return type == KILN_F32 ? (Tolerance){ 1e-5, 1e-4, 1e-9 } : (Tolerance){ 1e-3, 8.01 / 128, 7e-6 };
}

static const Tolerance lse_tolerance = { 1e-6, 2.01 / 65536, 1e-7 };

// ---- forward

static void check_forward(kiln_type type, Sizes s, bool causal, int window, bool with_lse)
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
    assert_ok(kiln_attention_forward(ops, NULL,
                                     &(kiln_attention_args){ .q = &q->tensor,
                                                             .k = &k->tensor,
                                                             .v = &v->tensor,
                                                             .out = &out->tensor,
                                                             .lse = with_lse ? &lse->tensor : NULL,
                                                             .causal = causal,
                                                             .window = window }));
    assert_ok(kiln_stream_wait(device, NULL));
    if (with_lse) array_fetch(lse);
    array_fetch(out);
    array_unchanged(q, "q");
    array_unchanged(k, "k");
    array_unchanged(v, "v");

    const double *const qs = values(q), *const ks = values(k), *const vs = values(v);
    double *const outs = values(out), *const lses = values(lse), *const w = malloc(sizeof *w * (size_t)(s.keys + 1));
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++)
            for (int i = 0; i < s.rows; i++) {
                const View x = head_of(&s, qs, ks, vs, (int64_t)b * s.rows, (int64_t)b * s.keys, h);
                lses[(b * s.heads + h) * s.rows + i] =
                    attend(&x, &s, i, s.rows, s.keys, causal, window, 1 / sqrt(s.size), w,
                           outs + (((int64_t)b * s.rows + i) * s.heads + h) * s.value_size);
            }
    free(w);
    assert_close("out", out, outs, tolerance_of(type));
    if (with_lse) assert_close("lse", lse, lses, lse_tolerance);
    free_arrays(NULL);
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
                                                                 .scale = scale }));
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
    assert_ok(kiln_attention_forward_varlen(ops, NULL,
                                            &(kiln_attention_varlen_args){ .q = &q->tensor,
                                                                           .k = &k->tensor,
                                                                           .v = &v->tensor,
                                                                           .q_offsets = &q_offsets->tensor,
                                                                           .k_offsets = &k_offsets->tensor,
                                                                           .max_queries = longest,
                                                                           .out = &out->tensor,
                                                                           .lse = &lse->tensor,
                                                                           .causal = causal,
                                                                           .scale = 1 / sqrt(s.size + 100) }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    array_fetch(lse);
    array_unchanged(q, "q");
    array_unchanged(k, "k");
    array_unchanged(v, "v");

    const double *const qs = values(q), *const ks = values(k), *const vs = values(v);
    double *const outs = values(out), *const lses = values(lse), *const w = malloc(sizeof *w * (size_t)(s.keys + 1));
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++)
            for (int i = 0; i < rows[b]; i++) {
                const int64_t row = (int64_t)get(q_offsets, b), key = (int64_t)get(k_offsets, b);
                const View x = head_of(&s, qs, ks, vs, row, key, h);
                lses[h * s.rows + row + i] = attend(&x, &s, i, rows[b], keys[b], causal, 0, 1 / sqrt(s.size + 100), w,
                                                    outs + ((row + i) * s.heads + h) * s.value_size);
            }
    free(w);
    assert_close("out", out, outs, tolerance_of(KILN_BF16));
    assert_close("lse", lse, lses, lse_tolerance);
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

// What goes in and what comes out, of one sequence or of several of equal length.
typedef struct Gradients {
    const double *q, *k, *v, *dout;
    double *out, *lse, *dq, *dk, *dv;
    int64_t lse_head, lse_batch; // steps between heads and between sequences
} Gradients;

// Adds to dk and dv.
static void expect_gradients(const Sizes *s, const Gradients *x, bool causal, double scale)
{
    double *const w = malloc(sizeof *w * (size_t)(s->keys + 1));
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < s->heads; h++)
            for (int i = 0; i < s->rows; i++) {
                const int64_t row = ((int64_t)b * s->rows + i) * s->heads + h, key = (int64_t)b * s->keys;
                const View head = head_of(s, x->q, x->k, x->v, (int64_t)b * s->rows, key, h);
                const double *const g = x->dout + row * s->value_size;
                double *const o = x->out + row * s->value_size, *const dq = x->dq + row * s->size, delta = 0;
                int lo, hi;
                x->lse[b * x->lse_batch + h * x->lse_head + i] =
                    attend(&head, s, i, s->rows, s->keys, causal, 0, scale, w, o);
                visible(i, s->rows, s->keys, causal, 0, &lo, &hi);
                for (int d = 0; d < s->value_size; d++) delta += o[d] * g[d];
                for (int d = 0; d < s->size; d++) dq[d] = 0;
                for (int j = lo; j < hi; j++) {
                    const int64_t at = (key + j) * s->key_heads + h / (s->heads / s->key_heads);
                    double dp = 0;
                    for (int d = 0; d < s->value_size; d++) dp += g[d] * x->v[at * s->value_size + d];
                    for (int d = 0; d < s->value_size; d++) x->dv[at * s->value_size + d] += w[j] * g[d];
                    const double ds = w[j] * (dp - delta) * scale;
                    for (int d = 0; d < s->size; d++) x->dk[at * s->size + d] += ds * x->q[row * s->size + d];
                    for (int d = 0; d < s->size; d++) dq[d] += ds * x->k[at * s->size + d];
                }
            }
    free(w);
}

// The tensors of a backward call: rows and keys of all sequences together.
typedef struct Tensors {
    Array *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv, *workspace;
    Gradients expected;
} Tensors;

static double *zeros(const Array *a)
{
    double *const x = values(a);
    for (int64_t i = 0; i < count(a); i++) x[i] = 0;
    return x;
}

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
    t.expected = (Gradients){ values(t.q),
                              values(t.k),
                              values(t.v),
                              values(t.dout),
                              zeros(t.out),
                              zeros(t.lse),
                              zeros(t.dq),
                              zeros(t.dk),
                              zeros(t.dv),
                              s->rows,
                              (int64_t)s->heads * s->rows };
    return t;
}

// The forward's results, as the backward call takes them.
static void send_forward(Tensors *t)
{
    for (int64_t i = 0; i < count(t->out); i++) set(t->out, i, t->expected.out[i]);
    for (int64_t i = 0; i < count(t->lse); i++) set(t->lse, i, t->expected.lse[i]);
    array_send(t->out);
    array_send(t->lse);
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
    assert_close("dq", t->dq, t->expected.dq, tolerance);
    assert_close("dk", t->dk, t->expected.dk, tolerance);
    assert_close("dv", t->dv, t->expected.dv, tolerance);
    free_arrays(NULL);
}

static void check_backward(Sizes s, bool causal, bool deterministic)
{
    const double scale = 1 / sqrt(s.size + 100);
    Tensors t = make_tensors(&s, false);
    expect_gradients(&s, &t.expected, causal, scale);
    send_forward(&t);
    kiln_attention_backward_args args = { .q = &t.q->tensor,
                                          .k = &t.k->tensor,
                                          .v = &t.v->tensor,
                                          .out = &t.out->tensor,
                                          .lse = &t.lse->tensor,
                                          .dout = &t.dout->tensor,
                                          .dq = &t.dq->tensor,
                                          .dk = &t.dk->tensor,
                                          .dv = &t.dv->tensor,
                                          .causal = causal,
                                          .deterministic = deterministic,
                                          .scale = scale };
    assert_ok(kiln_attention_backward_workspace_size(ops, &args, &args.workspace_bytes));
    t.workspace = bytes_new(args.workspace_bytes);
    args.workspace = t.workspace->tensor.data;
    assert_ok(kiln_attention_backward(ops, NULL, &args));
    compare_gradients(&t);
}

static void check_packed_backward(const int *rows, const int *keys, Sizes s, bool causal, bool deterministic)
{
    const double scale = 1 / sqrt(s.size + 100);
    Array *const q_offsets = offsets_of(rows, s.batch), *const k_offsets = offsets_of(keys, s.batch);
    int longest = 0, longest_rows = 0;
    s.rows = (int)get(q_offsets, s.batch);
    s.keys = (int)get(k_offsets, s.batch);
    Tensors t = make_tensors(&s, true);
    for (int b = 0; b < s.batch; b++) {
        const int64_t r = (int64_t)get(q_offsets, b), k = (int64_t)get(k_offsets, b) * s.key_heads;
        Sizes one = s;
        Gradients g = t.expected;
        one.batch = 1, one.rows = rows[b], one.keys = keys[b];
        g.q += r * s.heads * s.size, g.dq += r * s.heads * s.size, g.lse += r;
        g.out += r * s.heads * s.value_size, g.dout += r * s.heads * s.value_size;
        g.k += k * s.size, g.dk += k * s.size, g.v += k * s.value_size, g.dv += k * s.value_size;
        expect_gradients(&one, &g, causal, scale);
        longest = keys[b] > longest ? keys[b] : longest;
        longest_rows = rows[b] > longest_rows ? rows[b] : longest_rows;
    }
    send_forward(&t);
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
                                                 .scale = scale };
    assert_ok(kiln_attention_backward_varlen_workspace_size(ops, &args, &args.workspace_bytes));
    t.workspace = bytes_new(args.workspace_bytes);
    args.workspace = t.workspace->tensor.data;
    assert_ok(kiln_attention_backward_varlen(ops, NULL, &args));
    compare_gradients(&t);
}

static void packed_backward(void **state)
{
    static const int rows[] = { 70, 0, 1, 90, 5 }, keys[] = { 70, 12, 90, 60, 0 };
    for (int i = 0; i < 4; i++)
        check_packed_backward(
            rows, keys, (Sizes){ .batch = 5, .heads = 4, .key_heads = 2, .size = 64, .value_size = 64 }, i & 1, i & 2);
    check_packed_backward(rows, keys, (Sizes){ .batch = 5, .heads = 2, .key_heads = 2, .size = 128, .value_size = 128 },
                          true, false);
    check_packed_backward(rows, keys, (Sizes){ .batch = 5, .heads = 4, .key_heads = 1, .size = 192, .value_size = 128 },
                          false, false);
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
    for (int b = 0; length && b < s.batch; b++) { // NaN behind the end
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

    const double *const qs = values(q), *const ks = values(k), *const vs = values(v);
    double *const outs = values(out), *const lses = values(lse);
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++) {
            const View x = head_of(&s, qs, ks, vs, b, (int64_t)b * s.keys, h);
            const int g = h / (s.heads / s.key_heads);
            double sum = 0, *const o = outs + ((int64_t)b * s.heads + h) * s.value_size;
            for (int d = 0; d < s.value_size; d++) o[d] = 0;
            for (int j = 0; j < s.keys && (!lengths || j < lengths[b]); j++) {
                double dot = 0;
                if (mask && get(mask, ((int64_t)b * s.keys + j) * s.key_heads + g) == 0) continue;
                for (int d = 0; d < s.size; d++) dot += x.q[d] * x.k[j * x.k_step + d];
                const double e = exp(dot / sqrt(s.size)); // small scores: no maximum needed
                sum += e;
                for (int d = 0; d < s.value_size; d++) o[d] += e * x.v[j * x.v_step + d];
            }
            for (int d = 0; d < s.value_size; d++) o[d] = sum == 0 ? 0 : o[d] / sum;
            lses[b * s.heads + h] = sum == 0 ? -INFINITY : log(sum);
        }
    if (args.lse) {
        array_fetch(lse);
        assert_close("lse", lse, lses, lse_tolerance);
    }
    assert_close("out", out, outs, tolerance_of(KILN_BF16));
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
        cmocka_unit_test_teardown(forward_of_long_rows, free_arrays),
        cmocka_unit_test_teardown(packed, free_arrays),
        cmocka_unit_test_teardown(backward, free_arrays),
        cmocka_unit_test_teardown(packed_backward, free_arrays),
        cmocka_unit_test_teardown(decode, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
