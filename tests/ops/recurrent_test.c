// SPDX-License-Identifier: MIT
// recurrent_test.c - layers with a state against the references of their kernels, which go token by token in f64: gates near 0
// and near 1, states that begin and end a call, heads in groups, packed sequences, rows that lie apart; steps that go on where a
// sequence ended, with drafts; what is refused.
#include "support.h"

#include "kiln/ops/recurrent.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

static Tolerance tolerance_of(kiln_type type)
{
    switch (type) {
    case KILN_F32: return (Tolerance){ 2e-4, 2e-4, 1e-7 };
    case KILN_F16: return (Tolerance){ 5e-3, 5e-3, 1e-5 };
    default: return (Tolerance){ 2e-2, 2e-2, 5e-5 };
    }
}

// States, too, are as exact as what was multiplied.
static void compare(const char *name, Array *got, const kiln_tensor *expected, kiln_type multiplied)
{
    if (!got) return;
    array_fetch(got);
    assert_close(name, got, numbers(expected),
                 tolerance_of(got->tensor.type == KILN_F32 ? multiplied : got->tensor.type));
}

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

// A third of the heads forgets next to nothing, one a part, one almost all.
static Array *gates_of(int64_t batch, int64_t tokens, int64_t heads)
{
    static const double most[] = { 0.001, 1, 60 };
    Array *const x = ARRAY(KILN_F32, batch, tokens, heads);
    for (int64_t i = 0; i < count(x); i++) set(x, i, -most[i % heads % 3] * uniform(0, 1));
    array_send(x);
    return x;
}

static const char *yes(bool b) { return b ? "true" : "false"; }

// ---- whole sequences

typedef struct Case {
    kiln_type type, beta, states;
    int64_t batch, tokens, key_heads, heads, keys, values;
    const int32_t *offsets; // of `sequences`; 0: not packed
    int sequences;
    bool initial, final, normalize;
} Case;

typedef struct Whole {
    Array *q, *k, *v, *gates, *beta, *offsets, *initial, *out, *final;
} Whole;

static Whole whole_of(const Case *c)
{
    const int64_t n = c->sequences ? c->sequences : c->batch;
    const double size = c->normalize ? 1 : 2 / sqrt((double)c->keys);
    Whole w = { 0 };
    w.q = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), -1, 1);
    w.k = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), -size, size);
    w.v = drawn(ARRAY(c->type, c->batch, c->tokens, c->heads, c->values), -1, 1);
    w.gates = gates_of(c->batch, c->tokens, c->heads);
    w.beta = drawn(ARRAY(c->beta, c->batch, c->tokens, c->heads), 0, 1);
    if (c->sequences) w.offsets = whole(c->sequences + 1, c->offsets);
    if (c->initial) w.initial = drawn(ARRAY(c->states, n, c->heads, c->keys, c->values), -1, 1);
    if (c->final) w.final = ARRAY(c->states, n, c->heads, c->keys, c->values);
    w.out = ARRAY(c->type, c->batch, c->tokens, c->heads, c->values);
    return w;
}

static kiln_gdn_args args_of(const Case *c, const Whole *w)
{
    return (kiln_gdn_args){ .q = of(w->q),
                            .k = of(w->k),
                            .v = of(w->v),
                            .gates = of(w->gates),
                            .beta = of(w->beta),
                            .offsets = of(w->offsets),
                            .initial_states = of(w->initial),
                            .out = of(w->out),
                            .final_states = of(w->final),
                            .normalize = c->normalize };
}

static void run_gdn(kiln_gdn_args args)
{
    assert_ok(kiln_gdn_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_gdn_forward(ops, NULL, &args));
}

static void compare_gdn(const Case *c, const Whole *w)
{
    char bindings[200];
    const kiln_tensor *const out = host_result(w->out), *const final = w->final ? host_result(w->final) : NULL;
    snprintf(bindings, sizeof bindings, "T=f32, TB=f32, TS=f32, DK=%d, DV=%d, G=%d, NORM=%s%s%s%s", (int)c->keys,
             (int)c->values, (int)(c->heads / c->key_heads), yes(c->normalize), w->offsets ? "" : ", Offset=none",
             w->initial ? "" : ", H0=none", w->final ? "" : ", HT=none");
    const kiln_arg args[] = { host_arg(w->q),
                              host_arg(w->k),
                              host_arg(w->v),
                              host_arg(w->gates),
                              host_arg(w->beta),
                              host_arg(w->offsets),
                              host_arg(w->initial),
                              KILN_TENSOR(out),
                              final ? KILN_TENSOR(final) : KILN_NONE,
                              KILN_FLOAT(1 / sqrt((double)c->keys)) };
    run_reference("linear/gdn.tile", "gdn_forward", bindings, args, 10);
    compare("out", w->out, out, c->type);
    compare("final_states", w->final, final, c->type);
}

static const int32_t packed[] = { 0, 0, 64, 65, 150 }; // lengths 0, 64, 1, 85

static void gated_delta_nets(void **state)
{
    static const Case cases[] = {
        { KILN_F32, KILN_F32, KILN_F32, 2, 100, 3, 3, 32, 48, NULL, 0, true, true, true },
        { KILN_BF16, KILN_BF16, KILN_F32, 1, 65, 3, 6, 64, 64, NULL, 0, false, true, true },
        { KILN_F16, KILN_F32, KILN_F16, 1, 150, 1, 3, 64, 32, packed, 4, true, true, true },
        { KILN_BF16, KILN_F32, KILN_F32, 1, 150, 3, 3, 128, 128, packed, 4, false, false, false },
        { KILN_BF16, KILN_BF16, KILN_BF16, 2, 70, 1, 2, 256, 256, NULL, 0, true, true, true },
        { KILN_BF16, KILN_BF16, KILN_F32, 2, 70, 16, 32, 64, 64, NULL, 0, true, true, true }, // heads that fill a GPU
        { KILN_BF16, KILN_BF16, KILN_F32, 1, 70, 17, 34, 128, 128, NULL, 0, false, true, true }, // half of one
        { KILN_F32, KILN_F32, KILN_F32, 2, 0, 3, 3, 32, 48, NULL, 0, true, true, true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const Whole w = whole_of(&cases[i]);
        run_gdn(args_of(&cases[i], &w));
        compare_gdn(&cases[i], &w);
    }
}

static void rows_may_lie_apart(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, KILN_F32, 2, 70, 1, 2, 32, 32, NULL, 0, true, true, true };
    const Whole w = whole_of(&c);
    Whole apart = w;
    apart.q = array_spread(w.q, false), apart.k = array_spread(w.k, false), apart.v = array_spread(w.v, false);
    apart.out = array_spread(w.out, false);
    run_gdn(args_of(&c, &apart));
    apart.q = w.q, apart.k = w.k, apart.v = w.v;
    compare_gdn(&c, &apart);
}

// Without gates, with a decay for each head (retention), packed with both.
static void linear_attentions(void **state)
{
    for (int i = 0; i < 3; i++) {
        const bool is_packed = i == 2, has_gates = i == 2, has_decay = i > 0;
        const Case c = { i ? KILN_BF16 : KILN_F32,
                         KILN_F32,
                         KILN_F32,
                         is_packed ? 1 : 2,
                         150,
                         2,
                         4,
                         64,
                         32,
                         packed,
                         is_packed ? 4 : 0,
                         i > 0,
                         true,
                         false };
        Whole w = whole_of(&c);
        Array *const decay = ARRAY(KILN_F32, c.heads);
        for (int h = 0; h < c.heads; h++) set(decay, h, log1p(-pow(2, -5 - h)));
        array_send(decay);
        if (!has_gates) w.gates = NULL;
        kiln_linear_attention_args args = { .q = of(w.q),
                                            .k = of(w.k),
                                            .v = of(w.v),
                                            .gates = of(w.gates),
                                            .decay = has_decay ? of(decay) : NULL,
                                            .offsets = of(w.offsets),
                                            .initial_states = of(w.initial),
                                            .out = of(w.out),
                                            .final_states = of(w.final) };
        assert_ok(kiln_linear_attention_forward_workspace_size(ops, &args, &args.workspace_bytes));
        args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
        done(kiln_linear_attention_forward(ops, NULL, &args));

        char bindings[200];
        const kiln_tensor *const out = host_result(w.out), *const final = host_result(w.final);
        snprintf(bindings, sizeof bindings, "T=f32, TS=f32, DK=64, DV=32, G=2%s%s%s%s", has_gates ? "" : ", Gi=none",
                 has_decay ? "" : ", Decay=none", is_packed ? "" : ", Offset=none", w.initial ? "" : ", H0=none");
        const kiln_arg expected[] = { host_arg(w.q),
                                      host_arg(w.k),
                                      host_arg(w.v),
                                      host_arg(w.gates),
                                      has_decay ? host_arg(decay) : KILN_NONE,
                                      host_arg(w.offsets),
                                      host_arg(w.initial),
                                      KILN_TENSOR(out),
                                      KILN_TENSOR(final),
                                      KILN_FLOAT(0.125) };
        run_reference("linear/linear_attention.tile", "linear_attention", bindings, expected, 10);
        compare("out", w.out, out, c.type);
        compare("final_states", w.final, final, c.type);
    }
}

// ---- steps

// Two tokens of three requests: one goes on in place or from state 3, one begins at none.
static const int32_t from_numbers[] = { 3, 0, -1 }, to_numbers[] = { 4, 5, 1, 2, -1, 6 };

static void step_is_the_recurrence(kiln_type type, bool is_delta, bool has_drafts)
{
    const int64_t tokens = has_drafts ? 2 : 1;
    const Case c = { type, type, KILN_F32, 3, tokens, 1, 2, 128, 48, NULL, 0, false, false, is_delta };
    Whole w = whole_of(&c);
    Array *const states = drawn(ARRAY(KILN_F32, 7, 2, 128, 48), -1, 1);
    Array *const from = has_drafts ? whole(3, from_numbers) : NULL, *const to =
                                                                        has_drafts ? ARRAY(KILN_I32, 3, 2) : NULL;
    for (int i = 0; to && i < 6; i++) set(to, i, to_numbers[i]);
    if (to) array_send(to);

    char bindings[200];
    const kiln_tensor *const after = host_copy(states), *const out = host_result(w.out);
    snprintf(bindings, sizeof bindings,
             "T=f32, TB=f32, TS=f32, DK=128, DV=48, G=2, R=%d, DELTA=%s, NORM=%s, Decay=none, Norm=none%s%s",
             (int)tokens, yes(is_delta), yes(is_delta), is_delta ? "" : ", Beta=none",
             has_drafts ? "" : ", From=none, To=none");
    const kiln_arg args[] = { host_arg(w.q),      host_arg(w.k),    host_arg(w.v),
                              host_arg(w.gates),  KILN_NONE,        is_delta ? host_arg(w.beta) : KILN_NONE,
                              host_arg(from),     host_arg(to),     KILN_NONE,
                              KILN_TENSOR(after), KILN_TENSOR(out), KILN_FLOAT(1 / sqrt(128.0)) };
    run_reference("linear/step.tile", "recurrent_step", bindings, args, 12);
    if (has_drafts) w.q = array_spread(w.q, false), w.k = array_spread(w.k, false), w.v = array_spread(w.v, false);
    if (is_delta)
        done(kiln_gdn_step(ops, NULL,
                           &(kiln_gdn_step_args){ .q = of(w.q),
                                                  .k = of(w.k),
                                                  .v = of(w.v),
                                                  .gates = of(w.gates),
                                                  .beta = of(w.beta),
                                                  .from = of(from),
                                                  .to = of(to),
                                                  .states = of(states),
                                                  .out = of(w.out),
                                                  .normalize = true }));
    else
        done(kiln_linear_attention_step(ops, NULL,
                                        &(kiln_linear_attention_step_args){ .q = of(w.q),
                                                                            .k = of(w.k),
                                                                            .v = of(w.v),
                                                                            .gates = of(w.gates),
                                                                            .from = of(from),
                                                                            .to = of(to),
                                                                            .states = of(states),
                                                                            .out = of(w.out) }));
    compare("states", states, after, type);
    compare("out", w.out, out, type);
}

static void steps(void **state)
{
    step_is_the_recurrence(KILN_BF16, true, false);
    step_is_the_recurrence(KILN_F32, true, true);
    step_is_the_recurrence(KILN_BF16, false, true);
}

// Normalised tokens as one sequence, and as a part of one and steps that go on from it.
static void normalized_steps_go_on(void **state)
{
    enum { S = 40, R = 3, H = 2, D = 32 };
    const Case c = { KILN_F32, KILN_F32, KILN_F32, 1, S + R, H, H, D, D, NULL, 0, false, false, true };
    Whole w = whole_of(&c);
    fill_random(w.q, 0.1, 1), fill_random(w.k, 0.1, 1);
    Array *const states = ARRAY(KILN_F32, 1, H, D, D), *const keys = ARRAY(KILN_F32, 1, H, D),
                 *const gates = ARRAY(KILN_F32, 1, R, H);
    Array *const out = ARRAY(KILN_F32, 1, R, H, D), *const norm = ARRAY(KILN_F32, 1, R, H),
                 *const all = ARRAY(KILN_F32, 1, S + R, H);
    kiln_linear_attention_args whole_ = {
        .q = of(w.q), .k = of(w.k), .v = of(w.v), .gates = of(w.gates), .out = of(w.out)
    };
    whole_.normalize = true, whole_.norm = of(all);
    assert_ok(kiln_linear_attention_forward_workspace_size(ops, &whole_, &whole_.workspace_bytes));
    whole_.workspace = bytes_new(whole_.workspace_bytes)->tensor.data;
    done(kiln_linear_attention_forward(ops, NULL, &whole_));
    array_fetch(w.out), array_fetch(all);
    const double *const expected = values(w.out), *const factors = values(all);
    kiln_tensor head[4] = { w.q->tensor, w.k->tensor, w.v->tensor, w.out->tensor };
    for (int i = 0; i < 4; i++) head[i].shape[1] = S;
    kiln_tensor first = w.gates->tensor;
    first.shape[1] = S;
    kiln_linear_attention_args part = { .q = &head[0], .k = &head[1], .v = &head[2], .gates = &first, .out = &head[3] };
    part.normalize = true, part.final_states = of(states), part.final_keys = of(keys);
    part.workspace = whole_.workspace, part.workspace_bytes = whole_.workspace_bytes;
    done(kiln_linear_attention_forward(ops, NULL, &part));
    for (int i = 0; i < R * H; i++) set(gates, i, get(w.gates, S * H + i));
    array_send(gates);
    kiln_linear_attention_step_args step = {
        .gates = of(gates), .states = of(states), .out = of(out), .keys = of(keys), .norm = of(norm)
    };
    step.q = of(array_part(w.q, 1, S, R)), step.k = of(array_part(w.k, 1, S, R)), step.v = of(array_part(w.v, 1, S, R));
    done(kiln_linear_attention_step(ops, NULL, &step));
    array_fetch(out), array_fetch(norm);
    assert_close("out", out, expected + S * H * D, tolerance_of(KILN_F32));
    assert_close("norm", norm, factors + S * H, tolerance_of(KILN_F32));
    REFUSED(kiln_linear_attention_step(ops, NULL, &step), step, step.norm = NULL, KILN_BAD_ARGUMENT,
            "kiln_linear_attention_step: 'norm' is null");
    REFUSED(kiln_linear_attention_step(ops, NULL, &step), step, step.keys = NULL, KILN_BAD_ARGUMENT,
            "kiln_linear_attention_step: 'keys' is null");
}

// The same tokens as one sequence, and as a part of one and steps that go on from it.
static void steps_go_on_where_a_sequence_ended(void **state)
{
    enum { S = 70, R = 3, H = 3, D = 32 };
    const Case c = { KILN_F32, KILN_F32, KILN_F32, 1, S + R, H, H, D, D, NULL, 0, false, false, true };
    Whole w = whole_of(&c), head = w;
    Array *const states = ARRAY(KILN_F32, 1, H, D, D), *const end = ARRAY(KILN_F32, 1, H, D, D);
    w.final = end;
    run_gdn(args_of(&c, &w));
    array_fetch(w.out), array_fetch(end);
    const double *const out = values(w.out), *const last = values(end);

    head.q = array_part(w.q, 1, 0, S), head.k = array_part(w.k, 1, 0, S), head.v = array_part(w.v, 1, 0, S);
    head.gates = array_part(w.gates, 1, 0, S), head.beta = array_part(w.beta, 1, 0, S);
    head.out = array_part(w.out, 1, 0, S), head.final = states;
    run_gdn(args_of(&c, &head));
    const Array *const q = array_part(w.q, 1, S, R), *const k = array_part(w.k, 1, S, R),
                       *const v = array_part(w.v, 1, S, R);
    Array *const o = ARRAY(KILN_F32, 1, R, H, D);
    Array *const aligned[2] = { ARRAY(KILN_F32, 1, R, H), ARRAY(KILN_F32, 1, R, H) };
    for (int i = 0; i < R * H; i++)
        set(aligned[0], i, get(w.gates, S * H + i)), set(aligned[1], i, get(w.beta, S * H + i));
    array_send(aligned[0]), array_send(aligned[1]);
    done(kiln_gdn_step(ops, NULL,
                       &(kiln_gdn_step_args){ .q = of(q),
                                              .k = of(k),
                                              .v = of(v),
                                              .gates = of(aligned[0]),
                                              .beta = of(aligned[1]),
                                              .states = of(states),
                                              .out = of(o),
                                              .normalize = true }));
    array_fetch(o), array_fetch(states);
    assert_close("out", o, out + S * H * D, tolerance_of(KILN_F32));
    assert_close("states", states, last, tolerance_of(KILN_F32));
}

static void mamba2(void **state)
{
    for (int i = 0; i < 2; i++) {
        const kiln_type type = i ? KILN_BF16 : KILN_F32;
        Array *const x = drawn(ARRAY(type, 2, 300, 4, 32), -1, 1), *const dt = drawn(ARRAY(type, 2, 300, 4), -4, 1);
        Array *const a = drawn(ARRAY(KILN_F32, 4), -4, -0.01), *const skip =
                                                                   i ? drawn(ARRAY(KILN_F32, 4), -1, 1) : NULL;
        Array *const b = drawn(ARRAY(type, 2, 300, 2, 64), -0.5, 0.5), *const c =
                                                                           drawn(ARRAY(type, 2, 300, 2, 64), -0.5, 0.5);
        Array *const initial = i ? drawn(ARRAY(KILN_F32, 2, 4, 32, 64), -1, 1) : NULL;
        Array *const out = ARRAY(type, 2, 300, 4, 32), *const final = ARRAY(KILN_F32, 2, 4, 32, 64);
        const kiln_tensor *const y = host_result(out), *const last = host_result(final);
        const kiln_arg args[] = { host_arg(x),    host_arg(dt), host_arg(a),      host_arg(b), host_arg(c),
                                  host_arg(skip), KILN_NONE,    KILN_NONE,        KILN_NONE,   host_arg(initial),
                                  KILN_TENSOR(y), KILN_NONE,    KILN_TENSOR(last) };
        run_reference(
            "linear/mamba2.tile", "mamba2_forward",
            i ? "T=f32, TS=f32, P=32, N=64, G=2, Bias=none, Z=none, Offset=none, Raw=none"
              : "T=f32, TS=f32, P=32, N=64, G=2, Bias=none, Z=none, Offset=none, Raw=none, Skip=none, Init=none",
            args, 13);
        kiln_mamba2_args call = { .x = of(i ? array_spread(x, false) : x),
                                  .dt = of(i ? array_spread(dt, false) : dt),
                                  .a = of(a),
                                  .b = of(i ? array_spread(b, false) : b),
                                  .c = of(i ? array_spread(c, false) : c),
                                  .skip = of(skip),
                                  .initial_states = of(initial),
                                  .out = of(out),
                                  .final_states = of(final) };
        assert_ok(kiln_mamba2_forward_workspace_size(ops, &call, &call.workspace_bytes));
        call.workspace = bytes_new(call.workspace_bytes)->tensor.data;
        done(kiln_mamba2_forward(ops, NULL, &call));
        compare("out", out, y, type);
        compare("final_states", final, last, type);
    }
}

static void steps_of_mamba2(void **state)
{
    Array *const x = drawn(ARRAY(KILN_BF16, 3, 2, 4, 40), -1, 1), *const dt = drawn(ARRAY(KILN_BF16, 3, 2, 4), -3, 1);
    Array *const a = drawn(ARRAY(KILN_F32, 4), -2, -0.5), *const skip = drawn(ARRAY(KILN_F32, 4), -1, 1);
    Array *const b = drawn(ARRAY(KILN_BF16, 3, 2, 2, 64), -1, 1), *const c =
                                                                      drawn(ARRAY(KILN_BF16, 3, 2, 2, 64), -1, 1);
    Array *const z = drawn(ARRAY(KILN_BF16, 3, 2, 4, 40), -1, 1), *const from = whole(3, from_numbers);
    Array *const to = ARRAY(KILN_I32, 3, 2), *const out = ARRAY(KILN_BF16, 3, 2, 4, 40);
    Array *const states = drawn(ARRAY(KILN_F32, 7, 4, 40, 64), -1, 1);
    for (int i = 0; i < 6; i++) set(to, i, to_numbers[i]);
    array_send(to);
    const kiln_tensor *const after = host_copy(states), *const y = host_result(out);
    const kiln_arg args[] = { host_arg(x),    host_arg(dt),   host_arg(a),        host_arg(b),
                              host_arg(c),    host_arg(skip), KILN_NONE,          host_arg(z),
                              host_arg(from), host_arg(to),   KILN_TENSOR(after), KILN_TENSOR(y) };
    run_reference("linear/mamba2.tile", "mamba2_step", "T=f32, TS=f32, P=40, N=64, G=2, R=2, Bias=none", args, 12);
    done(kiln_mamba2_step(ops, NULL,
                          &(kiln_mamba2_step_args){ .x = of(x),
                                                    .dt = of(dt),
                                                    .a = of(a),
                                                    .b = of(b),
                                                    .c = of(c),
                                                    .skip = of(skip),
                                                    .z = of(z),
                                                    .from = of(from),
                                                    .to = of(to),
                                                    .states = of(states),
                                                    .out = of(out) }));
    compare("states", states, after, KILN_BF16);
    compare("out", out, y, KILN_BF16);
}

// ---- causal convolution: packed sequences, then a token of each that goes on

static void causal_convolutions(void **state)
{
    enum { D = 72, W = 4, N = 4, S = 150 };
    Array *const x = drawn(ARRAY(KILN_BF16, 1, S, D), -1, 1), *const filter = drawn(ARRAY(KILN_BF16, D, W), -1, 1);
    Array *const bias = drawn(ARRAY(KILN_BF16, D), -1, 1), *const offsets = whole(N + 1, packed);
    Array *const initial = drawn(ARRAY(KILN_BF16, N, W - 1, D), -1, 1), *const final = ARRAY(KILN_BF16, N, W - 1, D);
    Array *const out = ARRAY(KILN_BF16, 1, S, D), *const next = drawn(ARRAY(KILN_BF16, N, 1, D), -1, 1);
    Array *const next_out = ARRAY(KILN_BF16, N, 1, D);
    const kiln_tensor *const y = host_result(out), *const last = host_result(final), *const z = host_result(next_out);
    const kiln_arg args[] = { host_arg(x),       host_arg(filter), host_arg(bias),   host_arg(offsets),
                              host_arg(initial), KILN_TENSOR(y),   KILN_TENSOR(last) };
    run_reference("linear/causal_conv.tile", "causal_conv", "T=f32, TS=f32, W=4, ACT=4", args, 7);
    done(kiln_causal_conv(ops, NULL,
                          &(kiln_causal_conv_args){ .x = of(array_spread(x, false)),
                                                    .filter = of(filter),
                                                    .bias = of(bias),
                                                    .offsets = of(offsets),
                                                    .initial_states = of(initial),
                                                    .out = of(out),
                                                    .final_states = of(final),
                                                    .activation = KILN_ACTIVATION_SILU }));
    compare("out", out, y, KILN_BF16);
    compare("final_states", final, last, KILN_BF16);

    const kiln_arg step[] = { host_arg(next), host_arg(filter),  host_arg(bias), KILN_NONE,
                              KILN_NONE,      KILN_TENSOR(last), KILN_TENSOR(z) };
    run_reference("linear/causal_conv.tile", "causal_conv_step", "T=f32, TS=f32, W=4, ACT=4, R=1, From=none, To=none",
                  step, 7);
    done(kiln_causal_conv_step(ops, NULL,
                               &(kiln_causal_conv_step_args){ .x = of(next),
                                                              .filter = of(filter),
                                                              .bias = of(bias),
                                                              .states = of(final),
                                                              .out = of(next_out),
                                                              .activation = KILN_ACTIVATION_SILU }));
    compare("out of the step", next_out, z, KILN_BF16);
    compare("states", final, last, KILN_BF16);
}

// ---- refusals

static void what_is_refused(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, KILN_F32, 2, 40, 1, 2, 32, 32, NULL, 0, true, true, true };
    Whole w = whole_of(&c);
    kiln_gdn_args args = args_of(&c, &w);
    Array *const wrong = ARRAY(KILN_BF16, 2, 2, 32, 32), *const falling = whole(3, (const int32_t[]){ 0, 30, 20 });
    const kiln_tensor *const three = of(ARRAY(KILN_BF16, 2, 40, 3, 32)), *const none =
                                                                             of(ARRAY(KILN_BF16, 2, 40, 0, 32));
#define FAILS(change, status, part)                                                                                    \
    REFUSED(kiln_gdn_forward(ops, NULL, &args), args, change, status, "kiln_gdn_forward: " part)
    FAILS(args.beta = NULL, KILN_BAD_ARGUMENT, "'beta' is null");
    FAILS(args.gates = of(w.v), KILN_BAD_TYPE, "'gates' is a tensor of bf16, expected f32");
    FAILS(args.final_states = of(wrong), KILN_BAD_TYPE, "'final_states' is a tensor of bf16, expected f32");
    FAILS(args.offsets = of(falling), KILN_BAD_SHAPE, "dimension 0 of 'q' is 2, expected 1");
    FAILS(args.k = three; args.q = three, KILN_BAD_SHAPE, "2 heads (of 'v') are not a multiple of 3 (of 'k')");
    FAILS(args.k = none; args.q = none, KILN_UNSUPPORTED, "'k' has HK = 0, expected 1 to");
    FAILS(args.scale = &(double){ -1 }, KILN_BAD_ARGUMENT, "'scale' is -1");
    FAILS((void)0, KILN_BAD_ARGUMENT, "gdn_forward: needs a workspace of");
#undef FAILS
    kiln_gdn_step_args step = { .q = of(w.q),
                                .k = of(w.k),
                                .v = of(w.v),
                                .gates = of(w.gates),
                                .beta = of(w.beta),
                                .states = of(w.initial),
                                .out = of(w.out) };
    assert_fails(kiln_gdn_step(ops, NULL, &step), KILN_UNSUPPORTED, "kiln_gdn_step: 'q' has R = 40, expected 1 to 16");
    const kiln_tensor *const u = of(ARRAY(KILN_F32, 1, 4, 2, 16)), *const heads = of(ARRAY(KILN_F32, 2));
    const kiln_tensor *const rows = of(ARRAY(KILN_F32, 1, 4, 1, 256));
    kiln_mamba2_args mamba = { .x = u, .dt = of(ARRAY(KILN_F32, 1, 4, 2)), .a = heads, .b = rows, .c = rows };
    mamba.out = of(ARRAY(KILN_F32, 1, 4, 2, 16));
    assert_fails(kiln_mamba2_forward(ops, NULL, &mamba), KILN_UNSUPPORTED,
                 "states of P = 16 by N = 256, expected P = 16, 32, 64 or 128, N at most 128 and P * N at most 8192");
    Array *const x = ARRAY(KILN_BF16, 2, 40, 24), *const y = ARRAY(KILN_BF16, 2, 40, 24);
    kiln_causal_conv_args conv = { .x = of(x), .filter = of(ARRAY(KILN_BF16, 24, 9)), .out = of(y) };
    assert_fails(kiln_causal_conv(ops, NULL, &conv), KILN_UNSUPPORTED,
                 "kiln_causal_conv: 'filter' has W = 9, expected 2 to 8");
    conv.filter = of(ARRAY(KILN_BF16, 24, 4)), conv.initial_states = of(ARRAY(KILN_F32, 2, 4, 24));
    assert_fails(kiln_causal_conv(ops, NULL, &conv), KILN_BAD_SHAPE,
                 "dimension 1 of 'initial_states' is 4, expected 3");
}

// On the CPU, and with checks, the offsets are looked at.
static void offsets_that_fall(void **state)
{
    if (!on_cpu()) skip_because("on a GPU values in device memory are not looked at");
    const int32_t falling[] = { 0, 30, 20, 40 };
    const Case c = { KILN_BF16, KILN_F32, KILN_F32, 1, 40, 1, 1, 32, 32, falling, 3, false, true, true };
    const Whole w = whole_of(&c);
    kiln_gdn_args args = args_of(&c, &w);
    assert_ok(kiln_gdn_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    assert_fails(kiln_gdn_forward(ops, NULL, &args), KILN_TRAPPED, "offsets never fall");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gated_delta_nets, free_arrays),
        cmocka_unit_test_teardown(rows_may_lie_apart, free_arrays),
        cmocka_unit_test_teardown(linear_attentions, free_arrays),
        cmocka_unit_test_teardown(steps, free_arrays),
        cmocka_unit_test_teardown(normalized_steps_go_on, free_arrays),
        cmocka_unit_test_teardown(steps_go_on_where_a_sequence_ended, free_arrays),
        cmocka_unit_test_teardown(mamba2, free_arrays),
        cmocka_unit_test_teardown(steps_of_mamba2, free_arrays),
        cmocka_unit_test_teardown(causal_convolutions, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
        cmocka_unit_test_teardown(offsets_that_fall, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
