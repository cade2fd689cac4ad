// SPDX-License-Identifier: MIT
// recurrent_backward_test.c - linear attention, normalised too, and Mamba-2, forward and backward, against the recurrence in
// f64, whose own gradients are held against differences of it: gates near 0 and near 1, states and their gradients at both
// ends, heads in groups, packed sequences, rows that lie apart, thousands of tokens; what is refused.
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

// The test's, freed with the arrays.
static double *zeros(int64_t n)
{
    double *const x = values(ARRAY(KILN_U8, n + 1));
    for (int64_t i = 0; i <= n; i++) x[i] = 0;
    return x;
}

// ---- one head of one sequence, in f64: X = exp(g) X + k^T v; Z = exp(g) Z + k; o = n scale q X, n = 1 / (scale q Z + 1e-10)

typedef struct Head {
    int tokens, keys, values;
    bool normalize;
    double scale;
    double *q, *k, *v, *g, *x0, *z0; // inputs: [tokens][keys] ..., x0 [keys][values], z0 [keys]
    double *o, *xt, *zt;             // outputs
    double *dq, *dk, *dv, *dg, *dx0, *dz0;
    double *dout, *dxt, *dzt; // of o, xt, zt
} Head;

static void forward(const Head *h)
{
    const int K = h->keys, V = h->values;
    memcpy(h->xt, h->x0, sizeof(double) * (size_t)(K * V));
    memcpy(h->zt, h->z0, sizeof(double) * (size_t)K);
    for (int64_t t = 0; t < h->tokens; t++) {
        const double left = exp(h->g[t]), *const k = h->k + t * K, *const v = h->v + t * V, *const q = h->q + t * K;
        double *const o = h->o + t * V, n = 1e-10;
        memset(o, 0, sizeof(double) * (size_t)V);
        for (int a = 0; a < K; a++) {
            h->zt[a] = left * h->zt[a] + k[a];
            n += h->scale * q[a] * h->zt[a];
            for (int d = 0; d < V; d++) {
                double *const x = &h->xt[a * V + d];
                *x = left * *x + k[a] * v[d];
                o[d] += h->scale * q[a] * *x;
            }
        }
        for (int d = 0; d < V && h->normalize; d++) o[d] /= n;
    }
}

// Every state is kept: `states` has room for tokens + 1 of [keys][values + 1], Z as a column more.
static void backward(const Head *h, double *states)
{
    const int K = h->keys, V = h->values, E = V + 1;
    double *const y = zeros(K * E), *const dy = zeros(E);
    for (int a = 0; a < K; a++)
        for (int d = 0; d < E; d++) {
            states[a * E + d] = d < V ? h->x0[a * V + d] : h->z0[a];
            y[a * E + d] = d < V ? h->dxt[a * V + d] : h->dzt[a];
        }
    for (int64_t t = 0; t < h->tokens; t++)
        for (int a = 0; a < K; a++)
            for (int d = 0; d < E; d++)
                states[((t + 1) * K + a) * E + d] =
                    exp(h->g[t]) * states[(t * K + a) * E + d] + h->k[t * K + a] * (d < V ? h->v[t * V + d] : 1);
    for (int64_t t = h->tokens - 1; t >= 0; t--) {
        const double left = exp(h->g[t]), *const q = h->q + t * K, *const k = h->k + t * K, *const v = h->v + t * V;
        const double *const x = states + (t + 1) * K * E, *const before = states + t * K * E;
        double n = 1;
        if (h->normalize) {
            n = 1e-10;
            for (int a = 0; a < K; a++) n += h->scale * q[a] * x[a * E + V];
        }
        dy[V] = 0;
        for (int d = 0; d < V; d++) {
            double o = 0;
            for (int a = 0; a < K; a++) o += h->scale * q[a] * x[a * E + d];
            dy[d] = h->dout[t * V + d] / n;
            if (h->normalize) dy[V] -= h->dout[t * V + d] * o / (n * n);
        }
        h->dg[t] = 0;
        for (int d = 0; d < V; d++) h->dv[t * V + d] = 0;
        for (int a = 0; a < K; a++) {
            double dq = 0, dk = 0;
            for (int d = 0; d < E; d++) {
                double *const s = &y[a * E + d];
                *s += h->scale * q[a] * dy[d];
                dq += h->scale * dy[d] * x[a * E + d];
                dk += (d < V ? v[d] : 1) * *s;
                if (d < V) h->dv[t * V + d] += k[a] * *s;
                h->dg[t] += left * *s * before[a * E + d];
                *s *= left;
            }
            h->dq[t * K + a] = dq;
            h->dk[t * K + a] = dk;
        }
    }
    for (int a = 0; a < K; a++) {
        h->dz0[a] = y[a * E + V];
        for (int d = 0; d < V; d++) h->dx0[a * V + d] = y[a * E + d];
    }
}

static Head head_of(int tokens, int keys, int values_)
{
    const int64_t n = tokens, K = keys, V = values_;
    return (Head){ .tokens = tokens,
                   .keys = keys,
                   .values = values_,
                   .q = zeros(n * K),
                   .k = zeros(n * K),
                   .v = zeros(n * V),
                   .g = zeros(n),
                   .x0 = zeros(K * V),
                   .z0 = zeros(K),
                   .o = zeros(n * V),
                   .xt = zeros(K * V),
                   .zt = zeros(K),
                   .dq = zeros(n * K),
                   .dk = zeros(n * K),
                   .dv = zeros(n * V),
                   .dg = zeros(n),
                   .dx0 = zeros(K * V),
                   .dz0 = zeros(K),
                   .dout = zeros(n * V),
                   .dxt = zeros(K * V),
                   .dzt = zeros(K) };
}

static double loss_of(const void *head)
{
    const Head *const h = head;
    forward(h);
    return dot(h->o, h->dout, h->tokens * h->values) + dot(h->xt, h->dxt, h->keys * h->values) +
           dot(h->zt, h->dzt, h->keys);
}

static void draw(double *x, int n, double low, double high)
{
    for (int i = 0; i < n; i++) x[i] = uniform(low, high);
}

static void the_recurrence_has_these_gradients(void **state)
{
    enum { S = 9, K = 5, V = 4 };
    for (int i = 0; i < 2; i++) {
        Head h = head_of(S, K, V);
        h.normalize = i == 1, h.scale = 0.3;
        draw(h.q, S * K, i ? 0.1 : -1, 1), draw(h.k, S * K, i ? 0.1 : -1, 1), draw(h.v, S * V, -1, 1);
        draw(h.g, S, -1, 0), draw(h.x0, K * V, -1, 1), draw(h.z0, K, 0, 1);
        draw(h.dout, S * V, -1, 1), draw(h.dxt, K * V, -1, 1), draw(h.dzt, i ? K : 0, -1, 1);
        h.g[3] = -40, h.g[4] = -1e-4, h.g[5] = 0;
        backward(&h, zeros((S + 1) * K * (V + 1)));
        check_differences("q", h.q, h.dq, S * K, loss_of, &h);
        check_differences("k", h.k, h.dk, S * K, loss_of, &h);
        check_differences("v", h.v, h.dv, S * V, loss_of, &h);
        check_differences("g", h.g, h.dg, S, loss_of, &h);
        check_differences("x0", h.x0, h.dx0, K * V, loss_of, &h);
        check_differences("z0", h.z0, h.dz0, K, loss_of, &h);
    }
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
static void compare(const Case *c, const char *name, Array *got, const double *expected)
{
    double sum = 0;
    if (!got) return;
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

// Rows of a head in a tensor [B][S][H][n], to or from those of the sequence that begins at token `first` of batch b.
static void take(double *rows, const double *all, const Case *c, int64_t at, int head, int heads, int n)
{
    for (int64_t t = 0; t < c->tokens; t++)
        for (int i = 0; i < n; i++) rows[t * n + i] = all ? all[((at + t) * heads + head) * n + i] : 0;
}

static void give(double *all, const double *rows, int64_t tokens, int64_t at, int head, int heads, int n)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int i = 0; i < n; i++) all[((at + t) * heads + head) * n + i] += rows[t * n + i];
}

static double *values_of(const Array *x) { return x ? values(x) : NULL; }
static Array *like(const Array *x) { return x ? array_new(x->tensor.type, x->tensor.rank, x->tensor.shape) : NULL; }
static double *zeros_like(const Array *x) { return zeros(x ? count(x) : 0); }
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

// What the recurrence gives for all heads of all sequences: x holds inputs, g gradients of outputs; the others are filled.
typedef struct Expected {
    double *out, *xt, *zt, *dq, *dk, *dv, *dgates, *ddecay, *dx0, *dz0;
} Expected;

static Expected expected_of(const Case *c, const Tensors *x, const Tensors *g)
{
    const double *const q = values(x->q), *const k = values(x->k), *const v = values(x->v),
                        *const dout = values(g->out);
    const double *const gates = values_of(x->gates), *const decay = values_of(x->decay);
    const double *const x0 = values_of(x->x0), *const z0 = values_of(x->z0);
    const double *const dxt = values_of(g->xt), *const dzt = values_of(g->zt);
    const int K = c->keys, V = c->values, H = c->heads, group = c->heads / c->key_heads;
    Expected e = { zeros_like(x->out), zeros_like(x->xt),    zeros_like(x->zt), zeros_like(x->q),  zeros_like(x->k),
                   zeros_like(x->v),   zeros_like(x->gates), zeros(H),          zeros_like(x->x0), zeros_like(x->z0) };
    Head h = head_of(c->tokens, K, V);
    double *const states = zeros((int64_t)(c->tokens + 1) * K * (V + 1));
    h.normalize = c->normalize, h.scale = 1 / sqrt(K);
    for (int n = 0; n < (c->is_packed ? SEQUENCES : c->batch); n++)
        for (int i = 0; i < H; i++) {
            const int64_t at = c->is_packed ? packed[n] : (int64_t)n * c->tokens, state = (int64_t)n * H + i;
            Case one = *c;
            if (c->is_packed) one.tokens = packed[n + 1] - packed[n];
            h.tokens = one.tokens;
            take(h.q, q, &one, at, i / group, c->key_heads, K), take(h.k, k, &one, at, i / group, c->key_heads, K);
            take(h.v, v, &one, at, i, H, V), take(h.dout, dout, &one, at, i, H, V);
            take(h.g, gates, &one, at, i, H, 1);
            for (int t = 0; t < h.tokens && decay; t++) h.g[t] += decay[i];
            for (int j = 0; j < K * V; j++)
                h.x0[j] = x0 ? x0[state * K * V + j] : 0, h.dxt[j] = dxt ? dxt[state * K * V + j] : 0;
            for (int j = 0; j < K; j++) h.z0[j] = z0 ? z0[state * K + j] : 0, h.dzt[j] = dzt ? dzt[state * K + j] : 0;
            forward(&h);
            backward(&h, states);
            give(e.out, h.o, h.tokens, at, i, H, V), give(e.dv, h.dv, h.tokens, at, i, H, V);
            give(e.dq, h.dq, h.tokens, at, i / group, c->key_heads, K);
            give(e.dk, h.dk, h.tokens, at, i / group, c->key_heads, K);
            if (x->gates) give(e.dgates, h.dg, h.tokens, at, i, H, 1);
            for (int t = 0; t < h.tokens; t++) e.ddecay[i] += h.dg[t];
            for (int j = 0; j < K * V && x->x0; j++)
                e.xt[state * K * V + j] = h.xt[j], e.dx0[state * K * V + j] = h.dx0[j];
            for (int j = 0; j < K && x->z0; j++) e.zt[state * K + j] = h.zt[j], e.dz0[state * K + j] = h.dz0[j];
        }
    return e;
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

    const Expected e = expected_of(c, &x, &g);
    compare(c, "out", x.out, e.out);
    compare(c, "final_states", x.xt, e.xt);
    compare(c, "final_keys", x.zt, e.zt);
    compare(c, "dq", d.q, e.dq);
    compare(c, "dk", d.k, e.dk);
    compare(c, "dv", d.v, e.dv);
    compare(c, "dgates", d.gates, e.dgates);
    compare(c, "ddecay", d.decay, e.ddecay);
    compare(c, "dinitial_states", d.x0, e.dx0);
    compare(c, "dinitial_keys", d.z0, e.dz0);
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

// ---- Mamba-2: keys are b, queries c, values d x, gates a d, all of them of one scale; states are turned. With gates there is a z

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

typedef struct ExpectedMamba {
    double *out, *xt, *dx, *ddt, *da, *db, *dc, *dskip, *dbias, *dx0, *ungated, *dz;
} ExpectedMamba;

static double slope_of_silu(double z)
{
    const double s = 1 / (1 + exp(-z));
    return s * (1 + z * (1 - s));
}

static ExpectedMamba expected_of_mamba(const Case *c, const Mamba *m, const Array *dout_, const Array *dxt_)
{
    const double *const x = values(m->x), *const dt = values(m->dt), *const a = values(m->a), *const b = values(m->b);
    const double *const cs = values(m->c), *const skip = values_of(m->skip), *const bias = values_of(m->bias);
    const double *const x0 = values_of(m->x0), *const z = values_of(m->z), *const dxt = values_of(dxt_);
    const int K = c->keys, V = c->values, H = c->heads, group = H / c->key_heads;
    const int64_t elements = (int64_t)c->batch * c->tokens * H * V;
    const double *const through = values(dout_);
    double *const dout = zeros(elements); // without the gate
    for (int64_t i = 0; i < elements; i++) dout[i] = through[i] * (z ? z[i] / (1 + exp(-z[i])) : 1);
    ExpectedMamba e = { zeros_like(m->out), zeros_like(m->xt), zeros_like(m->x),   zeros_like(m->dt),
                        zeros(H),           zeros_like(m->b),  zeros_like(m->c),   zeros(H),
                        zeros(H),           zeros_like(m->x0), zeros_like(m->out), zeros_like(m->out) };
    Head h = head_of(c->tokens, K, V);
    double *const states = zeros((int64_t)(c->tokens + 1) * K * (V + 1)), *const xs = zeros((int64_t)c->tokens * V);
    double *const d = zeros(c->tokens);
    h.scale = 1;
    for (int n = 0; n < (c->is_packed ? SEQUENCES : c->batch); n++)
        for (int i = 0; i < H; i++) {
            const int64_t at = c->is_packed ? packed[n] : (int64_t)n * c->tokens, state = ((int64_t)n * H + i) * K * V;
            Case one = *c;
            if (c->is_packed) one.tokens = packed[n + 1] - packed[n];
            h.tokens = one.tokens;
            take(h.q, cs, &one, at, i / group, c->key_heads, K), take(h.k, b, &one, at, i / group, c->key_heads, K);
            take(xs, x, &one, at, i, H, V), take(h.dout, dout, &one, at, i, H, V);
            for (int64_t t = 0; t < h.tokens; t++) {
                d[t] = log1p(exp(dt[(at + t) * H + i] + (bias ? bias[i] : 0)));
                h.g[t] = a[i] * d[t];
                for (int p = 0; p < V; p++) h.v[t * V + p] = d[t] * xs[t * V + p];
            }
            for (int p = 0; p < V; p++)
                for (int j = 0; j < K; j++) {
                    h.x0[j * V + p] = x0 ? x0[state + p * K + j] : 0;
                    h.dxt[j * V + p] = dxt ? dxt[state + p * K + j] : 0;
                }
            forward(&h);
            backward(&h, states);
            give(e.dc, h.dq, h.tokens, at, i / group, c->key_heads, K);
            give(e.db, h.dk, h.tokens, at, i / group, c->key_heads, K);
            for (int64_t t = 0; t < h.tokens; t++) {
                double dd = a[i] * h.dg[t];
                for (int p = 0; p < V; p++) {
                    const int64_t place = ((at + t) * H + i) * V + p;
                    e.ungated[place] = h.o[t * V + p] + (skip ? skip[i] : 0) * xs[t * V + p];
                    e.out[place] = e.ungated[place] * (z ? z[place] / (1 + exp(-z[place])) : 1);
                    if (z) e.dz[place] = through[place] * e.ungated[place] * slope_of_silu(z[place]);
                    e.dx[place] = d[t] * h.dv[t * V + p] + (skip ? skip[i] : 0) * h.dout[t * V + p];
                    dd += xs[t * V + p] * h.dv[t * V + p];
                    e.dskip[i] += xs[t * V + p] * h.dout[t * V + p];
                }
                dd *= 1 - exp(-d[t]);
                e.ddt[(at + t) * H + i] = dd;
                e.dbias[i] += dd;
                e.da[i] += d[t] * h.dg[t];
            }
            for (int p = 0; p < V && m->x0; p++)
                for (int j = 0; j < K; j++)
                    e.xt[state + p * K + j] = h.xt[j * V + p], e.dx0[state + p * K + j] = h.dx0[j * V + p];
        }
    return e;
}

static void mamba2(const Case *c)
{
    const Mamba m = drawn_mamba(c);
    Array *const dout = drawn(like(m.out), -1, 1), *const dxt = m.xt ? drawn(like(m.xt), -1, 1) : NULL;
    Array *const dx = spread(c, like(m.x)), *const ddt = spread(c, like(m.dt)), *const da = like(m.a);
    Array *const db = spread(c, like(m.b)), *const dc = spread(c, like(m.c)), *const dskip = like(m.skip);
    Array *const dbias = like(m.bias), *const dx0 = like(m.x0), *const dz = like(m.z);
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
                                       .dz = of(dz),
                                       .offsets = of(m.offsets),
                                       .initial_states = of(m.x0),
                                       .dout = of(spread(c, dout)),
                                       .dfinal_states = of(dxt),
                                       .dx = of(dx),
                                       .ddt = of(ddt),
                                       .da = of(da),
                                       .db = of(db),
                                       .dc = of(dc),
                                       .dskip = of(dskip),
                                       .ddt_bias = of(dbias),
                                       .dinitial_states = of(dx0) };
    assert_ok(kiln_mamba2_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_mamba2_backward(ops, NULL, &back));
    const ExpectedMamba e = expected_of_mamba(c, &m, dout, dxt);
    compare(c, "out", m.out, e.out);
    compare(c, "final_states", m.xt, e.xt);
    if (z) compare(c, "ungated", m.ungated, e.ungated), compare(c, "dz", dz, e.dz);
    compare(c, "dx", dx, e.dx);
    compare(c, "ddt", ddt, e.ddt);
    compare(c, "da", da, e.da);
    compare(c, "db", db, e.db);
    compare(c, "dc", dc, e.dc);
    compare(c, "dskip", dskip, e.dskip);
    compare(c, "ddt_bias", dbias, e.dbias);
    compare(c, "dinitial_states", dx0, e.dx0);
    done(kiln_mamba2_backward(ops, NULL, &back));
    array_unchanged(dx, "dx"), array_unchanged(da, "da"), array_unchanged(db, "db"), array_unchanged(dc, "dc");
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
        cmocka_unit_test_teardown(the_recurrence_has_these_gradients, free_arrays),
        cmocka_unit_test_teardown(linear_attentions, free_arrays),
        cmocka_unit_test_teardown(mamba2s, free_arrays),
        cmocka_unit_test_teardown(very_many_tokens, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
