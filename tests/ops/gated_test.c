// SPDX-License-Identifier: MIT
// gated_test.c - the gates of a gated delta net's layer and the norm beside a gate, forward and backward, against the references
// of their kernels; rows that lie apart, no rows; what is refused.
#include "support.h"

#include "kiln/ops/nn.h"
#include "kiln/ops/recurrent.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }
static Array *like(const Array *x) { return x ? array_new(x->tensor.type, x->tensor.rank, x->tensor.shape) : NULL; }
static const char *yes(bool x) { return x ? "true" : "false"; }

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

static Tolerance tolerance_of(kiln_type type)
{
    return type == KILN_F32 ? (Tolerance){ 2e-4, 2e-4, 1e-8 } : (Tolerance){ 2e-2, 1e-2, 2e-5 };
}

static void compare(const char *name, Array *got, const kiln_arg *expected)
{
    if (!got) return;
    array_fetch(got);
    assert_close(name, got, numbers(expected->tensor), tolerance_of(got->tensor.type));
}

// [a][b], [a][b][c] or [b][c] of a host tensor, as the kernels have it.
static kiln_arg shaped(kiln_arg x, int rank, int64_t a, int64_t b, int64_t c)
{
    if (x.kind == KILN_ARG_NONE) return x;
    const int64_t shape[] = { a, b, c };
    return KILN_TENSOR(host_as(x.tensor->data, x.tensor->type, rank, shape));
}

// ---- norms

typedef struct NormCase {
    kiln_type type;
    int64_t rows, groups, n;
    bool gated, first, sigmoid, weight, each, residual, apart;
} NormCase;

static void norm(const NormCase *k)
{
    Array *const x = drawn(ARRAY(k->type, k->rows, k->groups, k->n), -2, 2);
    Array *const z = k->gated ? drawn(like(x), -2, 2) : NULL, *const dout = drawn(like(x), -1, 1);
    Array *const w = !k->weight ? NULL
                     : k->each  ? drawn(ARRAY(k->type, k->groups, k->n), 0.5, 1.5)
                                : drawn(ARRAY(k->type, k->n), 0.5, 1.5);
    Array *const residual = k->residual ? drawn(like(x), -1, 1) : NULL, *const out = like(x);
    Array *const dx = k->apart ? array_spread(like(x), false) : like(x), *const dz = like(z), *const dw = like(w);
    const kiln_arg weight = shaped(host_arg(w), 2, k->each ? k->groups : 1, k->n, 0);
    const kiln_arg exact[] = { host_arg(x), host_arg(z), weight, result_arg(out), KILN_FLOAT(1e-5) };
    const kiln_arg slopes[] = {
        host_arg(x),        host_arg(z),    weight,         host_arg(dout),
        host_arg(residual), result_arg(dx), result_arg(dz), shaped(result_arg(dw), 2, k->each ? k->groups : 1, k->n, 0),
        KILN_FLOAT(1e-5)
    };
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, FIRST=%s, SIGMOID=%s", yes(k->first), yes(k->sigmoid));
    run_reference("norm/gated.tile", "gated_norm", bindings, exact, 5);
    run_reference("norm/gated.tile", "gated_norm_gradients", bindings, slopes, 9);
    const kiln_tensor *const from = of(k->apart ? array_spread(x, false) : x);
    const kiln_tensor *const through = z ? of(k->apart ? array_spread(z, false) : z) : NULL;
    done(kiln_gated_norm(ops, NULL,
                         &(kiln_gated_norm_args){ .x = from,
                                                  .z = through,
                                                  .weight = of(w),
                                                  .out = of(out),
                                                  .eps = 1e-5,
                                                  .gate_first = k->first,
                                                  .sigmoid = k->sigmoid }));
    kiln_gated_norm_backward_args back = { .x = from,
                                           .z = through,
                                           .weight = of(w),
                                           .dout = of(dout),
                                           .dresidual = of(residual),
                                           .dx = of(dx),
                                           .dz = of(dz),
                                           .dweight = of(dw),
                                           .eps = 1e-5,
                                           .gate_first = k->first,
                                           .sigmoid = k->sigmoid };
    assert_ok(kiln_gated_norm_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_gated_norm_backward(ops, NULL, &back));
    compare("out", out, &exact[3]);
    compare("dx", dx, &slopes[5]);
    compare("dz", dz, &slopes[6]);
    compare("dweight", dw, &slopes[7]);
}

static void norms(void **state)
{
    static const NormCase cases[] = {
        { KILN_F32, 5, 3, 20, .gated = true, .weight = true, .residual = true, .apart = true },
        { KILN_F32, 3, 2, 64, .gated = true, .first = true, .weight = true, .each = true },
        { KILN_BF16, 3, 2, 48, .gated = true, .sigmoid = true, .weight = true },
        { KILN_F32, 4, 1, 70, .weight = true }, // an RMS norm
        { KILN_F32, 0, 3, 20, .gated = true, .weight = true, .residual = true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) norm(&cases[i]);
}

// ---- gates

// channels 0: a gate for each head
static void gates(kiln_type type, int64_t rows, int64_t heads, int64_t channels, bool has_bias, bool is_double)
{
    const bool is_apart = channels == 0;
    Array *const a = drawn(is_apart ? ARRAY(type, rows, heads) : ARRAY(type, rows, heads, channels), -3, 3);
    Array *const b = drawn(ARRAY(type, rows, heads), -3, 3), *const log_ = drawn(ARRAY(KILN_F32, heads), -1, 2);
    Array *const bias = !has_bias  ? NULL
                        : is_apart ? drawn(ARRAY(KILN_F32, heads), -1, 1)
                                   : drawn(ARRAY(KILN_F32, heads, channels), -1, 1);
    Array *const g = array_new(KILN_F32, a->tensor.rank, a->tensor.shape), *const beta = like(b);
    Array *const dg = drawn(like(g), -1, 1), *const dbeta = drawn(like(beta), -1, 1);
    Array *const da = like(a), *const db = like(b), *const dlog = like(log_), *const dbias = like(bias);
    const int64_t D = is_apart ? 1 : channels, C = heads * D;
    const kiln_arg exact[] = {
        shaped(host_arg(a), 2, rows, C, 0),   host_arg(b),     host_arg(log_), shaped(host_arg(bias), 1, C, 0, 0),
        shaped(result_arg(g), 2, rows, C, 0), result_arg(beta)
    };
    const kiln_arg slopes[] = { exact[0],
                                exact[1],
                                exact[2],
                                exact[3],
                                shaped(host_arg(dg), 2, rows, C, 0),
                                host_arg(dbeta),
                                shaped(result_arg(da), 2, rows, C, 0),
                                result_arg(db),
                                result_arg(dlog),
                                shaped(result_arg(dbias), 1, C, 0, 0) };
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, TB=f32, D=%d, DOUBLE=%s", (int)D, yes(is_double));
    run_reference("linear/gates.tile", "delta_gates", bindings, exact, 6);
    run_reference("linear/gates.tile", "delta_gates_gradients", bindings, slopes, 10);
    const kiln_tensor *const from = of(is_apart ? array_spread(a, false) : a), *const strength =
                                                                                   of(array_spread(b, false));
    done(kiln_gdn_gates(ops, NULL,
                        &(kiln_gdn_gates_args){ .a = from,
                                                .b = strength,
                                                .a_log = of(log_),
                                                .dt_bias = of(bias),
                                                .gates = of(g),
                                                .beta = of(beta),
                                                .double_beta = is_double }));
    kiln_gdn_gates_backward_args back = { .a = from,
                                          .b = strength,
                                          .a_log = of(log_),
                                          .dt_bias = of(bias),
                                          .dgates = of(dg),
                                          .dbeta = of(dbeta),
                                          .da = of(da),
                                          .db = of(db),
                                          .da_log = of(dlog),
                                          .ddt_bias = of(dbias),
                                          .double_beta = is_double };
    assert_ok(kiln_gdn_gates_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_gdn_gates_backward(ops, NULL, &back));
    compare("gates", g, &exact[4]);
    compare("beta", beta, &exact[5]);
    compare("da", da, &slopes[6]);
    compare("db", db, &slopes[7]);
    compare("da_log", dlog, &slopes[8]);
    compare("ddt_bias", dbias, &slopes[9]);
}

static void gates_of_layers(void **state)
{
    gates(KILN_BF16, 20, 5, 0, true, false);
    gates(KILN_F32, 6, 2, 32, false, true);
    gates(KILN_BF16, 0, 5, 0, true, false);
}

// ---- refusals

static void what_is_refused(void **state)
{
    Array *const x = ARRAY(KILN_F32, 2, 3, 64), *const out = like(x), *const long_ = ARRAY(KILN_F32, 1, 1, 4100);
    kiln_gated_norm_args args = { .x = of(x), .out = of(out), .eps = 1e-5 };
#define FAILS(change, status, part)                                                                                    \
    REFUSED(kiln_gated_norm(ops, NULL, &args), args, change, status, "kiln_gated_norm: " part)
    FAILS(args.eps = -1, KILN_BAD_ARGUMENT, "'eps' is -1");
    FAILS(args.x = of(long_);
          args.out = of(like(long_)), KILN_UNSUPPORTED, "'x' has groups of N = 4100 elements, expected at most 4096");
    FAILS(args.weight = of(ARRAY(KILN_F32, 2, 64)), KILN_BAD_SHAPE,
          "dimension 0 of 'weight' is 2, expected 3: its shape is [G][N]");
    FAILS(args.weight = of(ARRAY(KILN_F32, 60)), KILN_BAD_SHAPE,
          "dimension 0 of 'weight' is 60, expected 64: its shape is [N]");
#undef FAILS
    kiln_gated_norm_backward_args back = { .x = of(x), .dout = of(like(x)), .dx = of(out), .eps = 1e-5 };
#define FAILS(change, status, part)                                                                                    \
    REFUSED(kiln_gated_norm_backward(ops, NULL, &back), back, change, status, "kiln_gated_norm_backward: " part)
    FAILS(back.dz = of(like(x)), KILN_BAD_ARGUMENT, "'z' is null, but 'dz' is not");
    FAILS(back.dweight = of(ARRAY(KILN_F32, 64)), KILN_BAD_ARGUMENT, "'weight' is null, but 'dweight' is not");
#undef FAILS
    Array *const a = ARRAY(KILN_F32, 2, 3, 24), *const b = ARRAY(KILN_F32, 2, 3);
    kiln_gdn_gates_args gates_args = { .a = of(a), .b = of(b), .a_log = of(ARRAY(KILN_F32, 3)) };
    gates_args.gates = of(like(a)), gates_args.beta = of(like(b));
#define FAILS(change, status, part)                                                                                    \
    REFUSED(kiln_gdn_gates(ops, NULL, &gates_args), gates_args, change, status, "kiln_gdn_gates: " part)
    FAILS((void)0, KILN_UNSUPPORTED, "size DK is 24, expected a multiple of 16 up to 256");
    FAILS(gates_args.a = of(b), KILN_BAD_SHAPE, "'gates' has rank 3, expected 2: [M][H]");
    FAILS(gates_args.a_log = NULL, KILN_BAD_ARGUMENT, "'a_log' is null");
#undef FAILS
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(norms, free_arrays),
        cmocka_unit_test_teardown(gates_of_layers, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
