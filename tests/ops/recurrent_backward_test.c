// SPDX-License-Identifier: MIT
// recurrent_backward_test.c - linear attention, normalised too, and Mamba-2, forward and backward, against the references of their
// kernels, which go token by token in f64: gates near 0 and near 1, states and their gradients at both ends, heads in groups,
// packed sequences, rows that lie apart, thousands of tokens; what is refused.
#include "support.h"

#include "kiln/ops/recurrent.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

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

// ---- the operators

static const int32_t packed[] = { 0, 0, 64, 65, 150 }; // lengths 0, 64, 1, 85
enum { SEQUENCES = 4 };

typedef struct Case {
    kiln_type type, states;
    int batch, tokens, key_heads, heads, keys, values;
    bool is_packed, gates, decay, normalize, ends, apart; // ends: with states at both
} Case;

static Tolerance tolerance_of(const Case *c, double size)
{
    switch (c->type) {
    case KILN_F32: return (Tolerance){ 3e-5 * size, 3e-5, 1e-10 };
    case KILN_F16: return (Tolerance){ 1e-2 * size, 1e-2, 1e-5 };
    default: return (Tolerance){ 6e-2 * size, 3e-2, 2e-5 };
    }
}

// Elements are held against the size that they have as a whole.
static void compare(const Case *c, const char *name, Array *got, const kiln_arg *reference)
{
    if (!got) return;
    const double *const expected = numbers(reference->tensor);
    double sum = 0;
    array_fetch(got);
    for (int64_t i = 0; i < count(got); i++) sum += expected[i] * expected[i];
    const double size = count(got) > 0 ? sqrt(sum / (double)count(got)) : 1;
    assert_close(name, got, expected, tolerance_of(c, size > 1 ? size : 1));
}

static Array *offsets_of(const Case *c)
{
    if (!c->is_packed) return NULL;
    Array *const x = ARRAY(KILN_I32, SEQUENCES + 1);
    for (int i = 0; i <= SEQUENCES; i++) set(x, i, packed[i]);
    array_send(x);
    return x;
}

// A third of the heads forgets next to nothing, one a part, one almost all.
static Array *gates_of(const Case *c)
{
    static const double most[] = { 0.001, 1, 30 };
    Array *const x = ARRAY(KILN_F32, c->batch, c->tokens, c->heads);
    for (int64_t i = 0; i < count(x); i++) set(x, i, -most[i % c->heads % 3] * uniform(0, 1));
    array_send(x);
    return x;
}

static Array *like(const Array *x) { return x ? array_new(x->tensor.type, x->tensor.rank, x->tensor.shape) : NULL; }
static Array *spread(const Case *c, Array *x) { return c->apart ? array_spread(x, false) : x; }

typedef struct Tensors { // of linear attention
    Array *q, *k, *v, *gates, *decay, *offsets, *x0, *z0, *out, *xt, *zt, *norm;
} Tensors;

static Tensors drawn_tensors(const Case *c)
{
    const int n = c->is_packed ? SEQUENCES : c->batch;
    const double least = c->normalize ? 0.05 : -1, keys = 2 / sqrt(c->keys);
    Tensors x = { 0 };
    x.q = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), least, 1);
    x.k = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), least * keys, keys);
    x.v = drawn(ARRAY(c->type, c->batch, c->tokens, c->heads, c->values), -1, 1);
    if (c->gates) x.gates = gates_of(c);
    if (c->decay) {
        x.decay = ARRAY(KILN_F32, c->heads);
        for (int h = 0; h < c->heads; h++) set(x.decay, h, log1p(-pow(2, -5 - h)));
        array_send(x.decay);
    }
    x.offsets = offsets_of(c);
    x.out = ARRAY(c->type, c->batch, c->tokens, c->heads, c->values);
    if (c->ends) {
        x.x0 = drawn(ARRAY(c->states, n, c->heads, c->keys, c->values), -1, 1), x.xt = like(x.x0);
        if (c->normalize) x.z0 = drawn(ARRAY(KILN_F32, n, c->heads, c->keys), 0, 1), x.zt = like(x.z0);
    }
    if (c->normalize) x.norm = ARRAY(KILN_F32, c->batch, c->tokens, c->heads);
    return x;
}

// Of outputs and gradients, in the order of the kernels' arguments; g: gradients of outputs, d: those that are looked for.
typedef struct Expected {
    kiln_arg forward[13], backward[22];
} Expected;

static void expect_linear(const Case *c, const Tensors *x, const Tensors *g, const Tensors *d, Expected *e)
{
    const kiln_arg q = host_arg(x->q), k = host_arg(x->k), v = host_arg(x->v), gates = host_arg(x->gates),
                   decay = host_arg(x->decay), offsets = host_arg(x->offsets), x0 = host_arg(x->x0),
                   z0 = host_arg(x->z0), out = result_arg(x->out), norm = result_arg(x->norm),
                   scale = KILN_FLOAT(1 / sqrt(c->keys));
    const kiln_arg forward[] = {
        q,    k,    v, gates, decay, offsets, x0, out, result_arg(x->xt), c->normalize ? z0 : scale, result_arg(x->zt),
        norm, scale
    };
    const kiln_arg backward[] = { q,
                                  k,
                                  v,
                                  gates,
                                  decay,
                                  offsets,
                                  x0,
                                  z0,
                                  c->normalize ? out : KILN_NONE,
                                  norm,
                                  host_arg(g->out),
                                  host_arg(g->xt),
                                  host_arg(g->zt),
                                  result_arg(d->q),
                                  result_arg(d->k),
                                  result_arg(d->v),
                                  result_arg(d->gates),
                                  result_arg(d->decay),
                                  result_arg(d->x0),
                                  result_arg(d->z0),
                                  scale };
    char bindings[80];
    snprintf(bindings, sizeof bindings, "T=f32, TS=f32, DK=%d, DV=%d, G=%d", c->keys, c->values,
             c->heads / c->key_heads);
    memcpy(e->forward, forward, sizeof forward), memcpy(e->backward, backward, sizeof backward);
    if (c->normalize)
        run_reference("linear/linear_attention_normalized.tile", "linear_attention_normalized", bindings, forward, 13);
    else run_reference("linear/linear_attention.tile", "linear_attention", bindings, forward, 10);
    run_reference("linear/linear_attention_backward.tile", "linear_attention_backward", bindings, backward, 21);
}

static void linear_attention(const Case *c)
{
    const Tensors x = drawn_tensors(c);
    Tensors g = { .out = drawn(like(x.out), -1, 1) }, d = { 0 };
    if (x.xt) g.xt = drawn(like(x.xt), -1, 1);
    if (x.zt) g.zt = drawn(like(x.zt), -1, 1);
    d.q = spread(c, like(x.q)), d.k = spread(c, like(x.k)), d.v = spread(c, like(x.v));
    d.gates = like(x.gates), d.decay = like(x.decay), d.x0 = like(x.x0), d.z0 = like(x.z0);
    const kiln_tensor *const q = of(spread(c, x.q)), *const k = of(spread(c, x.k)), *const v = of(spread(c, x.v));
    kiln_linear_attention_args args = { .q = q,
                                        .k = k,
                                        .v = v,
                                        .gates = of(x.gates),
                                        .decay = of(x.decay),
                                        .offsets = of(x.offsets),
                                        .initial_states = of(x.x0),
                                        .initial_keys = of(x.z0),
                                        .out = of(x.out),
                                        .final_states = of(x.xt),
                                        .final_keys = of(x.zt),
                                        .norm = of(x.norm),
                                        .normalize = c->normalize };
    assert_ok(kiln_linear_attention_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_linear_attention_forward(ops, NULL, &args));

    kiln_linear_attention_backward_args back = { .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .gates = of(x.gates),
                                                 .decay = of(x.decay),
                                                 .offsets = of(x.offsets),
                                                 .initial_states = of(x.x0),
                                                 .initial_keys = of(x.z0),
                                                 .out = c->normalize ? of(x.out) : NULL,
                                                 .norm = of(x.norm),
                                                 .dout = of(spread(c, g.out)),
                                                 .dfinal_states = of(g.xt),
                                                 .dfinal_keys = of(g.zt),
                                                 .dq = of(d.q),
                                                 .dk = of(d.k),
                                                 .dv = of(d.v),
                                                 .dgates = of(d.gates),
                                                 .ddecay = of(d.decay),
                                                 .dinitial_states = of(d.x0),
                                                 .dinitial_keys = of(d.z0) };
    assert_ok(kiln_linear_attention_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_linear_attention_backward(ops, NULL, &back));

    Expected e;
    expect_linear(c, &x, &g, &d, &e);
    compare(c, "out", x.out, &e.forward[7]);
    compare(c, "final_states", x.xt, &e.forward[8]);
    compare(c, "final_keys", x.zt, &e.forward[10]);
    compare(c, "dq", d.q, &e.backward[13]);
    compare(c, "dk", d.k, &e.backward[14]);
    compare(c, "dv", d.v, &e.backward[15]);
    compare(c, "dgates", d.gates, &e.backward[16]);
    compare(c, "ddecay", d.decay, &e.backward[17]);
    compare(c, "dinitial_states", d.x0, &e.backward[18]);
    compare(c, "dinitial_keys", d.z0, &e.backward[19]);
    done(kiln_linear_attention_backward(ops, NULL, &back)); // every run gives the same, to the bit
    array_unchanged(d.q, "dq"), array_unchanged(d.k, "dk"), array_unchanged(d.v, "dv");
    if (d.gates) array_unchanged(d.gates, "dgates");
    if (d.decay) array_unchanged(d.decay, "ddecay");
}

static void linear_attentions(void **state)
{
    static const Case cases[] = {
        { KILN_F32, KILN_F32, 2, 100, 2, 2, 32, 48, .apart = true },
        { KILN_F32, KILN_F32, 1, 3000, 3, 6, 16, 32, .gates = true, .ends = true },
        { KILN_F32, KILN_F32, 2, 0, 3, 6, 16, 32, .gates = true, .ends = true },
        { KILN_F32, KILN_F32, 1, 150, 1, 2, 32, 32, .is_packed = true, .decay = true, .normalize = true, .ends = true },
        { KILN_BF16, KILN_BF16, 1, 150, 1, 32, 64, 32, .is_packed = true, .gates = true, .decay = true, .ends = true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) linear_attention(&cases[i]);
}

// ---- Mamba-2; with gates there is a z

typedef struct Mamba {
    Array *x, *dt, *a, *b, *c, *skip, *bias, *z, *offsets, *x0, *out, *ungated, *xt;
} Mamba;

static Mamba drawn_mamba(const Case *c)
{
    const int n = c->is_packed ? SEQUENCES : c->batch;
    Mamba m = { 0 };
    m.x = drawn(ARRAY(c->type, c->batch, c->tokens, c->heads, c->values), -1, 1);
    m.dt = drawn(ARRAY(c->type, c->batch, c->tokens, c->heads), -4, 1);
    m.a = ARRAY(KILN_F32, c->heads);
    for (int h = 0; h < c->heads; h++) set(m.a, h, h % 3 == 0 ? -0.001 : h % 3 == 1 ? -1 : -20);
    array_send(m.a);
    m.b = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), -0.3, 0.3);
    m.c = drawn(ARRAY(c->type, c->batch, c->tokens, c->key_heads, c->keys), -0.3, 0.3);
    m.offsets = offsets_of(c);
    m.out = ARRAY(c->type, c->batch, c->tokens, c->heads, c->values);
    if (c->gates) m.z = drawn(like(m.out), -3, 3), m.ungated = like(m.out);
    if (!c->ends) return m;
    m.skip = drawn(ARRAY(KILN_F32, c->heads), -1, 1), m.bias = drawn(ARRAY(KILN_F32, c->heads), -1, 1);
    m.x0 = drawn(ARRAY(c->states, n, c->heads, c->values, c->keys), -1, 1), m.xt = like(m.x0);
    return m;
}

static void expect_mamba(const Case *c, const Mamba *m, const Mamba *g, const Mamba *d, Expected *e)
{
    const kiln_arg x = host_arg(m->x), dt = host_arg(m->dt), a = host_arg(m->a), b = host_arg(m->b),
                   c_ = host_arg(m->c), skip = host_arg(m->skip), bias = host_arg(m->bias), z = host_arg(m->z),
                   ungated = result_arg(m->ungated), offsets = host_arg(m->offsets), x0 = host_arg(m->x0);
    const kiln_arg forward[] = {
        x, dt, a, b, c_, skip, bias, z, offsets, x0, result_arg(m->out), ungated, result_arg(m->xt)
    };
    const kiln_arg backward[] = { x,
                                  dt,
                                  a,
                                  b,
                                  c_,
                                  skip,
                                  bias,
                                  z,
                                  ungated,
                                  offsets,
                                  x0,
                                  host_arg(g->out),
                                  host_arg(g->xt),
                                  result_arg(d->x),
                                  result_arg(d->dt),
                                  result_arg(d->a),
                                  result_arg(d->b),
                                  result_arg(d->c),
                                  result_arg(d->skip),
                                  result_arg(d->bias),
                                  result_arg(d->z),
                                  result_arg(d->x0) };
    char bindings[80];
    snprintf(bindings, sizeof bindings, "T=f32, TS=f32, P=%d, N=%d, G=%d", c->values, c->keys, c->heads / c->key_heads);
    memcpy(e->forward, forward, sizeof forward), memcpy(e->backward, backward, sizeof backward);
    run_reference("linear/mamba2.tile", "mamba2_forward", bindings, forward, 13);
    run_reference("linear/mamba2_backward.tile", "mamba2_backward", bindings, backward, 22);
}

static void mamba2(const Case *c)
{
    const Mamba m = drawn_mamba(c);
    const Mamba g = { .out = drawn(like(m.out), -1, 1), .xt = m.xt ? drawn(like(m.xt), -1, 1) : NULL };
    const Mamba d = { .x = spread(c, like(m.x)),
                      .dt = spread(c, like(m.dt)),
                      .a = like(m.a),
                      .b = spread(c, like(m.b)),
                      .c = spread(c, like(m.c)),
                      .skip = like(m.skip),
                      .bias = like(m.bias),
                      .z = like(m.z),
                      .x0 = like(m.x0) };
    const kiln_tensor *const z = m.z ? of(spread(c, m.z)) : NULL;
    const kiln_tensor *const x = of(spread(c, m.x)), *const dt = of(spread(c, m.dt)), *const b = of(spread(c, m.b));
    kiln_mamba2_args args = { .x = x,
                              .dt = dt,
                              .a = of(m.a),
                              .b = b,
                              .c = of(m.c),
                              .skip = of(m.skip),
                              .dt_bias = of(m.bias),
                              .z = z,
                              .ungated = of(m.ungated),
                              .offsets = of(m.offsets),
                              .initial_states = of(m.x0),
                              .out = of(m.out),
                              .final_states = of(m.xt) };
    assert_ok(kiln_mamba2_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data;
    done(kiln_mamba2_forward(ops, NULL, &args));
    kiln_mamba2_backward_args back = { .x = x,
                                       .dt = dt,
                                       .a = of(m.a),
                                       .b = b,
                                       .c = of(m.c),
                                       .skip = of(m.skip),
                                       .dt_bias = of(m.bias),
                                       .z = z,
                                       .ungated = of(m.ungated),
                                       .dz = of(d.z),
                                       .offsets = of(m.offsets),
                                       .initial_states = of(m.x0),
                                       .dout = of(spread(c, g.out)),
                                       .dfinal_states = of(g.xt),
                                       .dx = of(d.x),
                                       .ddt = of(d.dt),
                                       .da = of(d.a),
                                       .db = of(d.b),
                                       .dc = of(d.c),
                                       .dskip = of(d.skip),
                                       .ddt_bias = of(d.bias),
                                       .dinitial_states = of(d.x0) };
    assert_ok(kiln_mamba2_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_mamba2_backward(ops, NULL, &back));
    Expected e;
    expect_mamba(c, &m, &g, &d, &e);
    compare(c, "out", m.out, &e.forward[10]);
    compare(c, "ungated", m.ungated, &e.forward[11]);
    compare(c, "final_states", m.xt, &e.forward[12]);
    compare(c, "dx", d.x, &e.backward[13]);
    compare(c, "ddt", d.dt, &e.backward[14]);
    compare(c, "da", d.a, &e.backward[15]);
    compare(c, "db", d.b, &e.backward[16]);
    compare(c, "dc", d.c, &e.backward[17]);
    compare(c, "dskip", d.skip, &e.backward[18]);
    compare(c, "ddt_bias", d.bias, &e.backward[19]);
    compare(c, "dz", d.z, &e.backward[20]);
    compare(c, "dinitial_states", d.x0, &e.backward[21]);
    done(kiln_mamba2_backward(ops, NULL, &back));
    array_unchanged(d.x, "dx"), array_unchanged(d.a, "da"), array_unchanged(d.b, "db"), array_unchanged(d.c, "dc");
}

static void mamba2s(void **state)
{
    static const Case cases[] = {
        { KILN_F32, KILN_F32, 1, 3000, 3, 3, 16, 16, .ends = true },
        { KILN_F32, KILN_F32, 2, 0, 3, 3, 16, 16, .ends = true },
        { KILN_F32, KILN_F32, 1, 150, 1, 3, 32, 32, .is_packed = true, .apart = true, .gates = true, .ends = true },
        { KILN_BF16, KILN_F32, 2, 300, 1, 3, 64, 64, .apart = true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) mamba2(&cases[i]);
}

// ---- many tokens

static void very_many_tokens(void **state)
{
    need_long_tests();
    const Case linear = { KILN_F32, KILN_F32, 1, 65536, 3, 6, 16, 32, .gates = true, .ends = true };
    const Case normalized = { KILN_F32, KILN_F32, 1, 65536, 3, 3, 16, 16, .decay = true, .normalize = true };
    const Case mamba = { KILN_F32, KILN_F32, 1, 65536, 3, 3, 16, 16, .ends = true };
    linear_attention(&linear);
    linear_attention(&normalized);
    mamba2(&mamba);
}

// ---- refusals

static void what_is_refused(void **state)
{
    const Case c = { KILN_BF16, KILN_F32, 2, 40, 1, 2, 32, 32, .gates = true, .normalize = true, .ends = true };
    const Tensors x = drawn_tensors(&c);
    kiln_linear_attention_args args = {
        .q = of(x.q), .k = of(x.k), .v = of(x.v), .out = of(x.out), .norm = of(x.norm)
    };
    assert_fails(kiln_linear_attention_forward(ops, NULL, &args), KILN_BAD_ARGUMENT,
                 "kiln_linear_attention_forward: 'norm' is given, and 'normalize' is false");
    kiln_linear_attention_backward_args back = { .q = of(x.q),
                                                 .k = of(x.k),
                                                 .v = of(x.v),
                                                 .out = of(x.out),
                                                 .norm = of(x.norm),
                                                 .dout = of(like(x.out)),
                                                 .dq = of(like(x.q)),
                                                 .dk = of(like(x.k)),
                                                 .dv = of(like(x.v)) };
    const kiln_tensor *const wrong = of(ARRAY(KILN_F16, 2, 2, 32, 32));
#define FAILS(change, status, part)                                                                                    \
    REFUSED(kiln_linear_attention_backward(ops, NULL, &back), back, change, status,                                    \
            "kiln_linear_attention_backward: " part)
    FAILS(back.norm = NULL, KILN_BAD_ARGUMENT, "'norm' is null, and 'out' is not");
    FAILS(back.out = NULL; back.norm = NULL;
          back.dfinal_keys = of(x.z0), KILN_BAD_ARGUMENT, "'dfinal_keys' is given, and 'norm' is null");
    FAILS(back.dv = NULL, KILN_BAD_ARGUMENT, "'dv' is null");
    FAILS(back.initial_states = of(x.x0);
          back.dinitial_states = wrong, KILN_BAD_TYPE, "'dinitial_states' is a tensor of f16, expected f32");
    FAILS((void)0, KILN_BAD_ARGUMENT, "linear_attention_backward: needs a workspace of");
#undef FAILS
    const kiln_tensor *const u = of(ARRAY(KILN_F32, 1, 4, 2, 24)), *const heads = of(ARRAY(KILN_F32, 2));
    const kiln_tensor *const rows = of(ARRAY(KILN_F32, 1, 4, 1, 64)), *const dt = of(ARRAY(KILN_F32, 1, 4, 2));
    kiln_mamba2_backward_args mamba = { .x = u, .dt = dt, .a = heads, .b = rows, .c = rows, .dout = u };
    mamba.dx = of(ARRAY(KILN_F32, 1, 4, 2, 24)), mamba.ddt = of(ARRAY(KILN_F32, 1, 4, 2));
    mamba.da = of(ARRAY(KILN_F32, 2)), mamba.db = of(ARRAY(KILN_F32, 1, 4, 1, 64));
    mamba.dc = of(ARRAY(KILN_F32, 1, 4, 1, 64));
    assert_fails(kiln_mamba2_backward(ops, NULL, &mamba), KILN_UNSUPPORTED, "states of P = 24 by N = 64");
    mamba.z = of(ARRAY(KILN_F32, 1, 4, 2, 24));
    assert_fails(kiln_mamba2_backward(ops, NULL, &mamba), KILN_BAD_ARGUMENT, "'ungated' is null, and 'z' is not");
    mamba.z = NULL, mamba.dz = of(ARRAY(KILN_F32, 1, 4, 2, 24));
    assert_fails(kiln_mamba2_backward(ops, NULL, &mamba), KILN_BAD_ARGUMENT, "'z' is null, but 'dz' is not");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(linear_attentions, free_arrays),
        cmocka_unit_test_teardown(mamba2s, free_arrays),
        cmocka_unit_test_teardown(very_many_tokens, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
