// SPDX-License-Identifier: MIT
// gdn_backward_test.c - gradients of the gated delta net and of the causal convolution: against central differences of the
// recurrence in f64, which no kernel's text is part of, and against the references of the kernels; gates near 0 and near 1, heads
// in groups, packed sequences, states that begin and end a call, rows that lie apart; what is refused.
#include "support.h"

#include "kiln/ops/recurrent.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }
static const char *yes(bool b) { return b ? "true" : "false"; }

static Array *drawn(Array *x, double low, double high)
{
    fill_random(x, low, high);
    return x;
}

static Array *whole(int n, const int32_t *numbers_)
{
    Array *const x = ARRAY(KILN_I32, n);
    for (int i = 0; i < n; i++) set(x, i, numbers_[i]);
    array_send(x);
    return x;
}

static void done(kiln_status status)
{
    assert_ok(status);
    assert_ok(kiln_stream_wait(device, NULL));
}

typedef struct Case {
    kiln_type type, beta, states;
    int64_t batch, tokens, key_heads, heads, keys, values;
    const int32_t *offsets; // of `sequences`; 0: not packed
    int sequences;
    bool has_states, normalize;
} Case;

typedef struct Layer {
    Array *q, *k, *v, *gates, *beta, *offsets, *initial, *dout, *dfinal; // what is given
    Array *dq, *dk, *dv, *dgates, *dbeta, *dinitial;                     // what is wanted
} Layer;

static Layer layer_of(const Case *c)
{
    static const double most[] = { 0.001, 1, 30 }; // a head forgets next to nothing, a part, almost all
    const int64_t n = c->sequences ? c->sequences : c->batch;
    const double size = c->normalize ? 1 : 1.5 / sqrt((double)c->keys);
    Layer x = { 0 };
    x.q = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), -1, 1);
    x.k = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), -size, size);
    x.v = drawn(ARRAY(c->type, c->batch, c->tokens, c->heads, c->values), -1, 1);
    x.gates = ARRAY(KILN_F32, c->batch, c->tokens, c->heads);
    for (int64_t i = 0; i < count(x.gates); i++) set(x.gates, i, -most[i % c->heads % 3] * uniform(0, 1));
    array_send(x.gates);
    x.beta = drawn(ARRAY(c->beta, c->batch, c->tokens, c->heads), 0, 1);
    x.dout = drawn(ARRAY(c->type, c->batch, c->tokens, c->heads, c->values), -1, 1);
    x.dq = ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys);
    x.dk = ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys);
    x.dv = ARRAY(c->type, c->batch, c->tokens, c->heads, c->values);
    x.dgates = ARRAY(KILN_F32, c->batch, c->tokens, c->heads);
    x.dbeta = ARRAY(c->beta, c->batch, c->tokens, c->heads);
    if (c->sequences) x.offsets = whole(c->sequences + 1, c->offsets);
    if (!c->has_states) return x;
    x.initial = drawn(ARRAY(c->states, n, c->heads, c->keys, c->values), -1, 1);
    x.dfinal = drawn(ARRAY(c->states, n, c->heads, c->keys, c->values), -0.3, 0.3);
    x.dinitial = ARRAY(c->states, n, c->heads, c->keys, c->values);
    return x;
}

static kiln_gdn_backward_args args_of(const Case *c, const Layer *x)
{
    return (kiln_gdn_backward_args){ .q = of(x->q),
                                     .k = of(x->k),
                                     .v = of(x->v),
                                     .gates = of(x->gates),
                                     .beta = of(x->beta),
                                     .offsets = of(x->offsets),
                                     .initial_states = of(x->initial),
                                     .dout = of(x->dout),
                                     .dfinal_states = of(x->dfinal),
                                     .dq = of(x->dq),
                                     .dk = of(x->dk),
                                     .dv = of(x->dv),
                                     .dgates = of(x->dgates),
                                     .dbeta = of(x->dbeta),
                                     .dinitial_states = of(x->dinitial),
                                     .normalize = c->normalize };
}

static void run_gdn(kiln_gdn_backward_args args)
{
    assert_ok(kiln_gdn_backward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_gdn_backward(ops, NULL, &args));
}

// ---- central differences of the recurrence

typedef struct Numbers {
    const Case *c;
    double *q, *k, *v, *gates, *beta, *initial, *dout, *dfinal;
} Numbers;

// out = row / sqrt(|row|^2 + 1e-6), if that is wanted.
static void row_of(const Case *c, const double *row, double *out)
{
    const double norm = c->normalize ? sqrt(dot(row, row, (int)c->keys) + 1e-6) : 1;
    for (int64_t a = 0; a < c->keys; a++) out[a] = row[a] / norm;
}

// The sum of products of a head's results with their gradients; tokens first .. end - 1 of a batch of `at` tokens before it.
static double head_sum(const Numbers *n, int64_t sequence, int64_t first, int64_t end, int64_t h)
{
    const Case *const c = n->c;
    const int64_t DK = c->keys, DV = c->values, hk = h / (c->heads / c->key_heads);
    const int64_t state = (sequence * c->heads + h) * DK * DV;
    double x[32 * 32], q[32], k[32], sum = 0;
    for (int64_t i = 0; i < DK * DV; i++) x[i] = n->initial ? n->initial[state + i] : 0;
    for (int64_t t = first; t < end; t++) {
        row_of(c, n->q + (t * c->key_heads + hk) * DK, q);
        row_of(c, n->k + (t * c->key_heads + hk) * DK, k);
        const double decay = exp(n->gates[t * c->heads + h]), beta = n->beta[t * c->heads + h];
        for (int64_t d = 0; d < DV; d++) {
            double kept = 0, out = 0;
            for (int64_t a = 0; a < DK; a++) kept += k[a] * (x[a * DV + d] *= decay);
            const double r = beta * (n->v[(t * c->heads + h) * DV + d] - kept);
            for (int64_t a = 0; a < DK; a++) out += q[a] * (x[a * DV + d] += k[a] * r);
            sum += out / sqrt((double)DK) * n->dout[(t * c->heads + h) * DV + d];
        }
    }
    for (int64_t i = 0; i < DK * DV && n->dfinal; i++) sum += x[i] * n->dfinal[state + i];
    return sum;
}

static double whole_sum(const Numbers *n)
{
    const Case *const c = n->c;
    double sum = 0;
    for (int64_t s = 0; s < (c->sequences ? c->sequences : c->batch); s++)
        for (int64_t h = 0; h < c->heads; h++)
            sum += c->sequences ? head_sum(n, s, c->offsets[s], c->offsets[s + 1], h)
                                : head_sum(n, s, s * c->tokens, (s + 1) * c->tokens, h);
    return sum;
}

// Some of the elements of one input.
static void compare_differences(const char *name, const Numbers *n, double *input, Array *gradient)
{
    enum { SAMPLES = 25 };
    const double step = 1e-5;
    array_fetch(gradient);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = integer(0, count(gradient) - 1);
        const double x = input[at];
        input[at] = x + step;
        double expected = whole_sum(n);
        input[at] = x - step;
        expected = (expected - whole_sum(n)) / (2 * step);
        input[at] = x;
        if (!(fabs(get(gradient, at) - expected) <= 1e-3 + 1e-3 * fabs(expected)))
            fail_msg("%s: element %lld is %.8g, expected %.8g", name, (long long)at, get(gradient, at), expected);
    }
}

static const int32_t packed[] = { 0, 0, 64, 65, 135 }; // lengths 0, 64, 1, 70

static void gradients_are_differences(void **state)
{
    static const Case cases[] = {
        { KILN_F32, KILN_F32, KILN_F32, 2, 70, 1, 3, 16, 32, NULL, 0, true, true },
        { KILN_F32, KILN_F32, KILN_F32, 1, 135, 3, 3, 32, 16, packed, 4, true, true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const Case *const c = &cases[i];
        const Layer x = layer_of(c);
        run_gdn(args_of(c, &x));
        const Numbers n = { c,
                            values(x.q),
                            values(x.k),
                            values(x.v),
                            values(x.gates),
                            values(x.beta),
                            x.initial ? values(x.initial) : NULL,
                            values(x.dout),
                            x.dfinal ? values(x.dfinal) : NULL };
        compare_differences("dq", &n, n.q, x.dq);
        compare_differences("dk", &n, n.k, x.dk);
        compare_differences("dv", &n, n.v, x.dv);
        compare_differences("dgates", &n, n.gates, x.dgates);
        compare_differences("dbeta", &n, n.beta, x.dbeta);
        if (x.dinitial) compare_differences("dinitial_states", &n, n.initial, x.dinitial);
    }
}

// ---- the reference of the kernels

static Tolerance tolerance_of(kiln_type type, double size)
{
    switch (type) {
    case KILN_F32: return (Tolerance){ 3e-4 * size, 3e-4, 1e-7 };
    case KILN_F16: return (Tolerance){ 1e-2 * size, 1e-2, 2e-5 };
    default: return (Tolerance){ 6e-2 * size, 6e-2, 3e-4 };
    }
}

// All elements, to a share of the root of their mean square.
static void compare(const char *name, Array *got, const kiln_arg *expected, kiln_type multiplied)
{
    if (!got) return;
    const double *const x = numbers(expected->tensor);
    const int64_t n = count(got);
    const double square = n ? dot(x, x, (int)n) / (double)n : 0;
    array_fetch(got);
    assert_close(name, got, x,
                 tolerance_of(got->tensor.type == KILN_F32 ? multiplied : got->tensor.type, fmax(1, sqrt(square))));
}

static void compare_gdn(const Case *c, const Layer *x)
{
    char bindings[240];
    snprintf(bindings, sizeof bindings, "T=f32, TB=f32, TS=f32, DK=%d, DV=%d, G=%d, NORM=%s%s%s", (int)c->keys,
             (int)c->values, (int)(c->heads / c->key_heads), yes(c->normalize), x->offsets ? "" : ", Offset=none",
             x->initial ? "" : ", H0=none, dHT=none, dH0=none");
    kiln_arg args[] = {
        host_arg(x->q),        host_arg(x->k),       host_arg(x->v),          host_arg(x->gates),
        host_arg(x->beta),     host_arg(x->offsets), host_arg(x->initial),    host_arg(x->dout),
        host_arg(x->dfinal),   result_arg(x->dq),    result_arg(x->dk),       result_arg(x->dv),
        result_arg(x->dgates), result_arg(x->dbeta), result_arg(x->dinitial), KILN_FLOAT(1 / sqrt((double)c->keys))
    };
    run_reference("linear/gdn_backward.tile", "gdn_backward", bindings, args, 16);
    compare("dq", x->dq, &args[9], c->type);
    compare("dk", x->dk, &args[10], c->type);
    compare("dv", x->dv, &args[11], c->type);
    compare("dgates", x->dgates, &args[12], c->type);
    compare("dbeta", x->dbeta, &args[13], c->type);
    compare("dinitial_states", x->dinitial, &args[14], c->type);
}

static void gated_delta_nets(void **state)
{
    static const Case cases[] = {
        { KILN_BF16, KILN_F32, KILN_F32, 1, 135, 1, 3, 64, 64, packed, 4, true, true },
        { KILN_F16, KILN_F16, KILN_F16, 2, 70, 2, 2, 128, 32, NULL, 0, true, false },
        { KILN_BF16, KILN_BF16, KILN_F32, 1, 70, 1, 2, 256, 64, NULL, 0, false, true },
        { KILN_BF16, KILN_BF16, KILN_F32, 2, 70, 34, 34, 64, 64, NULL, 0, true, true }, // heads that fill a GPU
        { KILN_F32, KILN_F32, KILN_F32, 2, 0, 1, 3, 16, 32, NULL, 0, true, true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const Layer x = layer_of(&cases[i]);
        Layer given = x; // of one case with rows that lie apart
        if (cases[i].type == KILN_F16) {
            given.q = array_spread(x.q, false), given.k = array_spread(x.k, false), given.v = array_spread(x.v, false);
            given.dout = array_spread(x.dout, false), given.dq = array_spread(x.dq, false);
            given.dk = array_spread(x.dk, false), given.dv = array_spread(x.dv, false);
        }
        run_gdn(args_of(&cases[i], &given));
        given.q = x.q, given.k = x.k, given.v = x.v, given.dout = x.dout;
        compare_gdn(&cases[i], &given);
    }
}

// The same call twice: the same bits.
static void results_do_not_change(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, KILN_F32, 1, 135, 1, 3, 64, 64, packed, 4, true, true };
    const Layer x = layer_of(&c);
    Layer again = x;
    again.dq = ARRAY(c.type, 1, 135, 1, 64), again.dk = ARRAY(c.type, 1, 135, 1, 64);
    again.dgates = ARRAY(KILN_F32, 1, 135, 3);
    run_gdn(args_of(&c, &x));
    run_gdn(args_of(&c, &again));
    Array *const pairs[][2] = { { x.dq, again.dq }, { x.dk, again.dk }, { x.dgates, again.dgates } };
    for (int i = 0; i < 3; i++) {
        array_fetch(pairs[i][0]), array_fetch(pairs[i][1]);
        assert_memory_equal(pairs[i][0]->host, pairs[i][1]->host, pairs[i][0]->bytes);
    }
}

// ---- causal convolution

static void causal_convolutions(void **state)
{
    enum { D = 72, W = 4, N = 4, S = 135 };
    Array *const x = drawn(ARRAY(KILN_F32, 1, S, D), -1, 1), *const filter = drawn(ARRAY(KILN_F32, D, W), -1, 1);
    Array *const bias = drawn(ARRAY(KILN_F32, D), -1, 1), *const offsets = whole(N + 1, packed);
    Array *const initial = drawn(ARRAY(KILN_F32, N, W - 1, D), -1, 1), *const dout =
                                                                           drawn(ARRAY(KILN_F32, 1, S, D), -1, 1);
    Array *const dfinal = drawn(ARRAY(KILN_F32, N, W - 1, D), -1, 1), *const dx = ARRAY(KILN_F32, 1, S, D);
    Array *const dfilter = ARRAY(KILN_F32, D, W), *const dbias = ARRAY(KILN_F32, D);
    Array *const dinitial = ARRAY(KILN_F32, N, W - 1, D);
    kiln_arg expected[] = { host_arg(x),         host_arg(filter),  host_arg(bias),      host_arg(offsets),
                            host_arg(initial),   host_arg(dout),    host_arg(dfinal),    result_arg(dx),
                            result_arg(dfilter), result_arg(dbias), result_arg(dinitial) };
    run_reference("linear/causal_conv.tile", "causal_conv_backward", "T=f32, TS=f32, W=4, ACT=4", expected, 11);
    kiln_causal_conv_backward_args args = { .x = of(array_spread(x, false)),
                                            .filter = of(filter),
                                            .bias = of(bias),
                                            .offsets = of(offsets),
                                            .initial_states = of(initial),
                                            .dout = of(dout),
                                            .dfinal_states = of(dfinal),
                                            .dx = of(dx),
                                            .dfilter = of(dfilter),
                                            .dbias = of(dbias),
                                            .dinitial_states = of(dinitial),
                                            .activation = KILN_ACTIVATION_SILU };
    assert_ok(kiln_causal_conv_backward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_causal_conv_backward(ops, NULL, &args));
    compare("dx", dx, &expected[7], KILN_F32);
    compare("dfilter", dfilter, &expected[8], KILN_F32);
    compare("dbias", dbias, &expected[9], KILN_F32);
    compare("dinitial_states", dinitial, &expected[10], KILN_F32);
}

// ---- refusals

static void what_is_refused(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, KILN_F32, 2, 40, 1, 2, 32, 32, NULL, 0, true, true };
    const Layer x = layer_of(&c);
    kiln_gdn_backward_args args = args_of(&c, &x);
    const kiln_tensor *const wrong = of(ARRAY(KILN_BF16, 2, 2, 32, 32)), *const three =
                                                                             of(ARRAY(KILN_BF16, 2, 40, 3, 32));
    const kiln_tensor *const more = of(ARRAY(KILN_BF16, 2, 40, 3, 32)), *const third =
                                                                            of(ARRAY(KILN_BF16, 2, 40, 3, 32));
#define FAILS(change, status, part)                                                                                    \
    REFUSED(kiln_gdn_backward(ops, NULL, &args), args, change, status, "kiln_gdn_backward: " part)
    FAILS(args.dout = NULL, KILN_BAD_ARGUMENT, "'dout' is null");
    FAILS(args.dgates = of(x.dv), KILN_BAD_TYPE, "'dgates' is a tensor of bf16, expected f32");
    FAILS(args.dbeta = of(x.dv), KILN_BAD_TYPE, "'dbeta' is a tensor of bf16, expected f32");
    FAILS(args.dinitial_states = wrong, KILN_BAD_TYPE, "'dinitial_states' is a tensor of bf16, expected f32");
    FAILS(args.dfinal_states = wrong, KILN_BAD_TYPE, "'dfinal_states' is a tensor of bf16, expected f32");
    FAILS(args.k = three; args.q = three; args.dq = more;
          args.dk = third, KILN_BAD_SHAPE, "2 heads (of 'v') are not a multiple of 3 (of 'k')");
    FAILS((void)0, KILN_BAD_ARGUMENT, "gdn_backward: needs a workspace of");
#undef FAILS
    Array *const y = ARRAY(KILN_BF16, 2, 40, 24), *const dx = ARRAY(KILN_BF16, 2, 40, 24);
    const kiln_causal_conv_backward_args conv = {
        .x = of(y), .filter = of(ARRAY(KILN_BF16, 24, 4)), .dout = of(y), .dx = of(dx)
    };
    assert_fails(kiln_causal_conv_backward(ops, NULL, &conv), KILN_BAD_ARGUMENT,
                 "kiln_causal_conv_backward: 'dfilter' is null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gradients_are_differences, free_arrays),
        cmocka_unit_test_teardown(gated_delta_nets, free_arrays),
        cmocka_unit_test_teardown(results_do_not_change, free_arrays),
        cmocka_unit_test_teardown(causal_convolutions, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
