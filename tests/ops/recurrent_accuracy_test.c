// SPDX-License-Identifier: MIT
// recurrent_accuracy_test.c - how far layers with a state are off the recurrence in f64, token by token: in bf16, and in f32, which
// multiplies the same numbers chunk by chunk; gates near 1, in between and near 0; with KILN_TEST_LONG up to 65536 tokens. Errors
// are root mean squares over that of what is expected: they may not grow with the sequence.
#include "support.h"

#include "kiln/ops/recurrent.h"

enum { HEADS = 2, D = 64 };

typedef enum Kind { DELTA, CHANNELS, LINEAR } Kind;

typedef struct Inputs {
    Array *q, *k, *v, *gates, *beta;
} Inputs;

typedef struct Results {
    Array *out, *last;
} Results;

static const kiln_tensor *of(const Array *x) { return &x->tensor; }

static Inputs draw(Kind kind, int64_t tokens, double most)
{
    const double size = kind == LINEAR ? 2 / sqrt((double)D) : 1;
    Inputs x = { .q = ARRAY(KILN_BF16, 1, tokens, HEADS, D),
                 .k = ARRAY(KILN_BF16, 1, tokens, HEADS, D),
                 .v = ARRAY(KILN_BF16, 1, tokens, HEADS, D),
                 .gates = kind == CHANNELS ? ARRAY(KILN_F32, 1, tokens, HEADS, D) : ARRAY(KILN_F32, 1, tokens, HEADS),
                 .beta = ARRAY(KILN_F32, 1, tokens, HEADS) };
    fill_random(x.q, -1, 1), fill_random(x.k, -size, size), fill_random(x.v, -1, 1);
    fill_random(x.gates, -most, 0), fill_random(x.beta, 0, 1);
    return x;
}

// The same numbers in f32.
static Array *widened(const Array *x)
{
    Array *const wide = array_new(KILN_F32, x->tensor.rank, x->tensor.shape);
    for (int64_t i = 0; i < count(x); i++) set(wide, i, get(x, i));
    array_send(wide);
    return wide;
}

static Results run(Kind kind, const Inputs *x)
{
    const int64_t tokens = x->q->tensor.shape[1];
    const Results r = { ARRAY(x->q->tensor.type, 1, tokens, HEADS, D), ARRAY(KILN_F32, 1, HEADS, D, D) };
    kiln_linear_attention_args linear = { .q = of(x->q), .k = of(x->k), .v = of(x->v), .gates = of(x->gates) };
    kiln_gdn_args delta = { .q = of(x->q), .k = of(x->k), .v = of(x->v), .gates = of(x->gates), .beta = of(x->beta) };
    linear.out = delta.out = of(r.out), linear.final_states = delta.final_states = of(r.last), delta.normalize = true;
    if (kind == LINEAR) {
        assert_ok(kiln_linear_attention_forward_workspace_size(ops, &linear, &linear.workspace_bytes));
        linear.workspace = bytes_new(linear.workspace_bytes)->tensor.data;
        assert_ok(kiln_linear_attention_forward(ops, NULL, &linear));
    } else {
        assert_ok(kiln_gdn_forward_workspace_size(ops, &delta, &delta.workspace_bytes));
        delta.workspace = bytes_new(delta.workspace_bytes)->tensor.data;
        assert_ok(kiln_gdn_forward(ops, NULL, &delta));
    }
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(r.out), array_fetch(r.last);
    return r;
}

static void expect(Kind kind, const Inputs *x, const kiln_tensor *out, const kiln_tensor *last)
{
    const kiln_arg scale = KILN_FLOAT(1 / sqrt((double)D)), to = KILN_TENSOR(out), states = KILN_TENSOR(last);
    const kiln_arg delta[] = {
        host_arg(x->q), host_arg(x->k), host_arg(x->v), host_arg(x->gates), host_arg(x->beta), KILN_NONE, KILN_NONE, to,
        states,         scale
    };
    const kiln_arg linear[] = { host_arg(x->q), host_arg(x->k), host_arg(x->v), host_arg(x->gates),
                                KILN_NONE,      KILN_NONE,      KILN_NONE,      to,
                                states,         scale };
    if (kind == LINEAR)
        run_reference("linear/linear_attention.tile", "linear_attention",
                      "T=f32, DK=64, DV=64, Decay=none, Offset=none, H0=none", linear, 10);
    else
        run_reference(kind == DELTA ? "linear/gdn.tile" : "linear/kda.tile",
                      kind == DELTA ? "gdn_forward" : "kda_forward",
                      "T=f32, TB=f32, DK=64, DV=64, NORM=true, Offset=none, H0=none", delta, 10);
}

static double off(const Array *got, const kiln_tensor *expected)
{
    const double *const x = values(got), *const y = numbers(expected);
    double wrong = 0, size = 0;
    for (int64_t i = 0; i < count(got); i++) wrong += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
    return sqrt(wrong / size);
}

static void measure(Kind kind, int64_t tokens, double most)
{
    static const char *const names[] = { "gated delta net", "gates for each channel", "gated linear attention" };
    seed((unsigned)tokens);
    const Inputs half = draw(kind, tokens, most);
    const Inputs whole = { widened(half.q), widened(half.k), widened(half.v), half.gates, half.beta };
    const Results narrow = run(kind, &half), wide = run(kind, &whole);
    const kiln_tensor *const out = host_result(wide.out), *const last = host_result(wide.last);
    expect(kind, &whole, out, last);
    const double errors[] = { off(narrow.out, out), off(narrow.last, last), off(wide.out, out), off(wide.last, last) };
    print_message("%s, %d tokens, gates to -%g: bf16 %.1e, states %.1e; f32 %.1e, states %.1e\n", names[kind],
                  (int)tokens, most, errors[0], errors[1], errors[2], errors[3]);
    assert_true(errors[0] < 8e-3 && errors[1] < 8e-3); // two roundings to bf16 of what is multiplied, and its own
    assert_true(errors[2] < 1e-4 && errors[3] < 1e-4);
}

static void check(Kind kind)
{
    static const double most[] = { 0.001, 1, 60 };
    const bool is_long = getenv("KILN_TEST_LONG") != NULL;
    for (int64_t tokens = 64; tokens <= (is_long ? 65536 : 1024); tokens *= is_long ? 32 : 16)
        for (int i = 0; i < 3; i++) {
            measure(kind, tokens, most[i]);
            free_arrays(NULL);
        }
}

static void gated_delta_net(void **state) { check(DELTA); }
static void gates_for_each_channel(void **state) { check(CHANNELS); }
static void gated_linear_attention(void **state) { check(LINEAR); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gated_delta_net, free_arrays),
        cmocka_unit_test_teardown(gates_for_each_channel, free_arrays),
        cmocka_unit_test_teardown(gated_linear_attention, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
