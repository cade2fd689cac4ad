// SPDX-License-Identifier: MIT
// kda_test.c - Kimi delta attention, the gated delta net with a gate for each channel, against the references of its kernels, which
// go token by token in f64: channels near 0 and near 1, tokens that forget everything, heads in groups, packed sequences, states
// that begin and end a call; steps with drafts. Gradients against central differences of the recurrence in f64.
#include "support.h"

#include "kiln/ops/recurrent.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

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

// A third of the channels forgets next to nothing, one a part, one almost all; some tokens forget everything.
static Array *gates_of(int64_t batch, int64_t tokens, int64_t heads, int64_t keys)
{
    static const double most[] = { 0.001, 1, 60 };
    Array *const x = ARRAY(KILN_F32, batch, tokens, heads, keys);
    for (int64_t i = 0; i < count(x); i++)
        set(x, i, i / (heads * keys) % 50 == 29 ? -INFINITY : -most[i % 3] * uniform(0, 1));
    array_send(x);
    return x;
}

static Tolerance tolerance_of(kiln_type type)
{
    return type == KILN_F32 ? (Tolerance){ 3e-4, 3e-4, 1e-7 } : (Tolerance){ 2e-2, 2e-2, 5e-5 };
}

static void compare(const char *name, Array *got, const kiln_tensor *expected, kiln_type multiplied)
{
    array_fetch(got);
    assert_close(name, got, numbers(expected), tolerance_of(multiplied));
}

static void whole_sequences(kiln_type type, int64_t keys, int64_t values, bool is_packed)
{
    static const int32_t packed[] = { 0, 0, 64, 65, 150 };
    enum { S = 150, HK = 1, H = 2 };
    const int64_t batch = is_packed ? 1 : 2, n = is_packed ? 4 : 2;
    Array *const q = drawn(ARRAY(type, batch, S, HK, keys), -1, 1), *const k =
                                                                        drawn(ARRAY(type, batch, S, HK, keys), -1, 1);
    Array *const v = drawn(ARRAY(type, batch, S, H, values), -1, 1), *const gates = gates_of(batch, S, H, keys);
    Array *const beta = drawn(ARRAY(KILN_F32, batch, S, H), 0, 1), *const offsets = is_packed ? whole(5, packed) : NULL;
    Array *const initial = drawn(ARRAY(KILN_F32, n, H, keys, values), -1, 1);
    Array *const out = ARRAY(type, batch, S, H, values), *const final = ARRAY(KILN_F32, n, H, keys, values);
    kiln_gdn_args args = { .q = of(q),
                           .k = of(k),
                           .v = of(v),
                           .gates = of(gates),
                           .beta = of(beta),
                           .offsets = of(offsets),
                           .initial_states = of(initial),
                           .out = of(out),
                           .final_states = of(final),
                           .normalize = true };
    assert_ok(kiln_gdn_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_gdn_forward(ops, NULL, &args));

    char bindings[120];
    const kiln_tensor *const y = host_result(out), *const last = host_result(final);
    snprintf(bindings, sizeof bindings, "T=f32, TB=f32, TS=f32, DK=%d, DV=%d, G=2, NORM=true%s", (int)keys, (int)values,
             is_packed ? "" : ", Offset=none");
    const kiln_arg expected[] = {
        host_arg(q),       host_arg(k),       host_arg(v),    host_arg(gates),   host_arg(beta),
        host_arg(offsets), host_arg(initial), KILN_TENSOR(y), KILN_TENSOR(last), KILN_FLOAT(1 / sqrt((double)keys))
    };
    run_reference("linear/kda.tile", "kda_forward", bindings, expected, 10);
    compare("out", out, y, type);
    compare("final_states", final, last, type);
}

// Bit for bit, whatever the workspace held: the kernels of a call see all that those before them wrote.
static void repeats(void **state)
{
    static const int32_t packed[] = { 0, 0, 50, 51, 150 };
    enum { S = 150, H = 2, D = 64, N = 4, TIMES = 12 };
    Array *const q = drawn(ARRAY(KILN_BF16, 1, S, H, D), -1, 1), *const k = drawn(ARRAY(KILN_BF16, 1, S, H, D), -1, 1);
    Array *const v = drawn(ARRAY(KILN_BF16, 1, S, H, D), -1, 1), *const gates = gates_of(1, S, H, D);
    Array *const beta = drawn(ARRAY(KILN_BF16, 1, S, H), 0, 1), *const out = ARRAY(KILN_BF16, 1, S, H, D);
    kiln_gdn_args args = { .q = of(q),
                           .k = of(k),
                           .v = of(v),
                           .gates = of(gates),
                           .beta = of(beta),
                           .offsets = of(whole(5, packed)),
                           .initial_states = of(drawn(ARRAY(KILN_BF16, N, H, D, D), -1, 1)),
                           .out = of(out),
                           .final_states = of(ARRAY(KILN_BF16, N, H, D, D)),
                           .normalize = true };
    assert_ok(kiln_gdn_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    const size_t bytes = kiln_tensor_bytes(&out->tensor);
    char *const junk = malloc(args.workspace_bytes), *const first = malloc(bytes), *const again = malloc(bytes);
    const int times = on_cpu() ? 2 : TIMES;
    for (int i = 0; i < times; i++) {
        memset(junk, 0x3c + i, args.workspace_bytes);
        assert_ok(kiln_upload(device, args.workspace, junk, args.workspace_bytes));
        done(kiln_gdn_forward(ops, NULL, &args));
        assert_ok(kiln_download(device, i ? again : first, out->tensor.data, bytes));
        if (i) assert_memory_equal(first, again, bytes);
    }
    free(junk);
    free(first);
    free(again);
}

static void kimi_delta_attention(void **state)
{
    whole_sequences(KILN_F32, 32, 48, false);
    whole_sequences(KILN_BF16, 64, 64, true);
}

// Two drafts of three requests: one goes on in place or from state 3, one begins at none.
static void steps(void **state)
{
    static const int32_t from_numbers[] = { 3, 0, -1 }, to_numbers[] = { 4, 5, 1, 2, -1, 6 };
    enum { B = 3, R = 2, HK = 1, H = 2, D = 64 };
    Array *const q = drawn(ARRAY(KILN_BF16, B, R, HK, D), -1, 1), *const k =
                                                                      drawn(ARRAY(KILN_BF16, B, R, HK, D), -1, 1);
    Array *const v = drawn(ARRAY(KILN_BF16, B, R, H, D), -1, 1), *const gates = gates_of(B, R, H, D);
    Array *const beta = drawn(ARRAY(KILN_F32, B, R, H), 0, 1), *const from = whole(B, from_numbers);
    Array *const to = ARRAY(KILN_I32, B, R), *const states = drawn(ARRAY(KILN_F32, 7, H, D, D), -1, 1);
    Array *const out = ARRAY(KILN_BF16, B, R, H, D);
    for (int i = 0; i < B * R; i++) set(to, i, to_numbers[i]);
    array_send(to);
    const kiln_tensor *const after = host_copy(states), *const y = host_result(out);
    const kiln_arg args[] = { host_arg(q),    host_arg(k),  host_arg(v),        host_arg(gates), host_arg(beta),
                              host_arg(from), host_arg(to), KILN_TENSOR(after), KILN_TENSOR(y),  KILN_FLOAT(0.125) };
    run_reference("linear/kda.tile", "kda_step", "T=f32, TB=f32, TS=f32, DK=64, DV=64, G=2, R=2, NORM=true", args, 10);
    kiln_gdn_step_args call = { .q = of(q),
                                .k = of(k),
                                .v = of(v),
                                .gates = of(gates),
                                .beta = of(beta),
                                .from = of(from),
                                .to = of(to),
                                .states = of(states),
                                .out = of(out),
                                .normalize = true };
    done(kiln_gdn_step(ops, NULL, &call));
    compare("states", states, after, KILN_BF16);
    compare("out", out, y, KILN_BF16);
    call.gates = of(ARRAY(KILN_F32, B, R, H, D / 2));
    assert_fails(kiln_gdn_step(ops, NULL, &call), KILN_BAD_SHAPE,
                 "kiln_gdn_step: dimension 3 of 'gates' is 32, expected 64");
}

// ---- gradients

enum { S = 40, HEADS = 2, D = 16 }; // a key head, two value heads; two chunks and a half

typedef struct Numbers {
    double *q, *k, *v, *gates, *beta, *initial, *dout, *dfinal;
} Numbers;

static void row_of(const double *row, double *out)
{
    const double norm = sqrt(dot(row, row, D) + 1e-6);
    for (int a = 0; a < D; a++) out[a] = row[a] / norm;
}

// The sum of products of all results with their gradients.
static double whole_sum(const Numbers *n)
{
    double sum = 0;
    for (int h = 0; h < HEADS; h++) {
        double x[D * D], q[D], k[D];
        for (int i = 0; i < D * D; i++) x[i] = n->initial[h * D * D + i];
        for (int t = 0; t < S; t++) {
            row_of(n->q + t * D, q), row_of(n->k + t * D, k);
            for (int d = 0; d < D; d++) {
                double kept = 0, out = 0;
                for (int a = 0; a < D; a++) kept += k[a] * (x[a * D + d] *= exp(n->gates[(t * HEADS + h) * D + a]));
                const double r = n->beta[t * HEADS + h] * (n->v[(t * HEADS + h) * D + d] - kept);
                for (int a = 0; a < D; a++) out += q[a] * (x[a * D + d] += k[a] * r);
                sum += out / sqrt((double)D) * n->dout[(t * HEADS + h) * D + d];
            }
        }
        for (int i = 0; i < D * D; i++) sum += x[i] * n->dfinal[h * D * D + i];
    }
    return sum;
}

static void compare_differences(const char *name, const Numbers *n, double *input, Array *gradient)
{
    enum { SAMPLES = 40 };
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

static void gradients_are_differences(void **state)
{
    Array *const q = drawn(ARRAY(KILN_F32, 1, S, 1, D), -1, 1), *const k = drawn(ARRAY(KILN_F32, 1, S, 1, D), -1, 1);
    Array *const v = drawn(ARRAY(KILN_F32, 1, S, HEADS, D), -1, 1), *const gates = ARRAY(KILN_F32, 1, S, HEADS, D);
    Array *const beta = drawn(ARRAY(KILN_F32, 1, S, HEADS), 0, 1), *const dout =
                                                                       drawn(ARRAY(KILN_F32, 1, S, HEADS, D), -1, 1);
    Array *const initial = drawn(ARRAY(KILN_F32, 1, HEADS, D, D), -1, 1);
    Array *const dfinal = drawn(ARRAY(KILN_F32, 1, HEADS, D, D), -1, 1);
    for (int64_t i = 0; i < count(gates); i++)
        set(gates, i, -(i % 3 == 0 ? 0.001 : i % 3 == 1 ? 1 : 30) * uniform(0, 1));
    array_send(gates);
    Array *const dq = ARRAY(KILN_F32, 1, S, 1, D), *const dk = ARRAY(KILN_F32, 1, S, 1, D);
    Array *const dv = ARRAY(KILN_F32, 1, S, HEADS, D), *const dgates = ARRAY(KILN_F32, 1, S, HEADS, D);
    Array *const dbeta = ARRAY(KILN_F32, 1, S, HEADS), *const dinitial = ARRAY(KILN_F32, 1, HEADS, D, D);
    kiln_gdn_backward_args args = { .q = of(q),
                                    .k = of(k),
                                    .v = of(v),
                                    .gates = of(gates),
                                    .beta = of(beta),
                                    .initial_states = of(initial),
                                    .dout = of(dout),
                                    .dfinal_states = of(dfinal),
                                    .dq = of(dq),
                                    .dk = of(dk),
                                    .dv = of(dv),
                                    .dgates = of(dgates),
                                    .dbeta = of(dbeta),
                                    .dinitial_states = of(dinitial),
                                    .normalize = true };
    assert_ok(kiln_gdn_backward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_gdn_backward(ops, NULL, &args));
    const Numbers n = { values(q),    values(k),       values(v),    values(gates),
                        values(beta), values(initial), values(dout), values(dfinal) };
    compare_differences("dq", &n, n.q, dq);
    compare_differences("dk", &n, n.k, dk);
    compare_differences("dv", &n, n.v, dv);
    compare_differences("dgates", &n, n.gates, dgates);
    compare_differences("dbeta", &n, n.beta, dbeta);
    compare_differences("dinitial_states", &n, n.initial, dinitial);
    args.dgates = of(dbeta);
    assert_fails(kiln_gdn_backward(ops, NULL, &args), KILN_BAD_SHAPE, "kiln_gdn_backward: 'dgates'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(kimi_delta_attention, free_arrays),
        cmocka_unit_test_teardown(repeats, free_arrays),
        cmocka_unit_test_teardown(steps, free_arrays),
        cmocka_unit_test_teardown(gradients_are_differences, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
