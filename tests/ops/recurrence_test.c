// SPDX-License-Identifier: MIT
// recurrence_test.c - how far layers with a state and their gradients are from the recurrence in f64, token by token: gated delta
// net, its gates for each channel, linear attention, Mamba-2; 64 to 65536 tokens, heads of 64 and 128, gates near 1 and near 0.
// No kernel's text is part of the recurrence, and its gradients are held against differences of it. With KILN_TEST_LONG more
// than 64 tokens; each run prints what it found.
#include "support.h"

#include "kiln/ops/recurrent.h"

static const kiln_tensor *of(const Array *x) { return &x->tensor; }

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

static double *zeros(int64_t n) // the test's, freed with the arrays
{
    double *const x = values(ARRAY(KILN_U8, n));
    memset(x, 0, sizeof *x * (size_t)n);
    return x;
}

// ---- one head: X = exp(g) X, a gate for each key; r = v - k X with `delta`, else v; X += k^T (b r); o = scale q X

typedef struct Head {
    int tokens, keys, values;
    bool delta;
    double scale;
    double *q, *k, *v, *g, *b, *dout;             // [tokens][keys] or [values]; b [tokens]
    double *o, *dq, *dk, *dv, *dg, *db;           // of the same shapes
    double *states, *windows, *y, *r, *dr, *lost; // room: of a window, of all windows' begins, of a state, of rows
} Head;

enum { WINDOW = 128 }; // tokens whose states are kept at a time

static Head head_of(int tokens, int keys, int values_)
{
    const int64_t n = tokens, state = (int64_t)keys * values_;
    Head h = { .tokens = tokens, .keys = keys, .values = values_, .scale = 1 };
    double **const rows[] = { &h.q, &h.k, &h.g, &h.dq, &h.dk, &h.dg },
                   **const of_values[] = { &h.v, &h.dout, &h.o, &h.dv };
    for (int i = 0; i < 6; i++) *rows[i] = zeros(n * keys);
    for (int i = 0; i < 4; i++) *of_values[i] = zeros(n * values_);
    h.b = zeros(n), h.db = zeros(n);
    h.states = zeros((WINDOW + 1) * state), h.windows = zeros((n / WINDOW + 1) * state), h.y = zeros(state);
    h.r = zeros((int64_t)WINDOW * values_), h.dr = zeros(values_), h.lost = zeros(keys);
    return h;
}

// x, before token t, to what it is after it; r [values].
static void go_on(const Head *h, int64_t t, double *restrict x, double *restrict r)
{
    const int K = h->keys, V = h->values;
    const double *const k = h->k + t * K;
    memcpy(r, h->v + t * V, sizeof *r * (size_t)V);
    for (int a = 0; a < K; a++) {
        const double left = exp(h->g[t * K + a]), kept = h->delta ? k[a] : 0;
        for (int d = 0; d < V; d++) r[d] -= kept * (x[a * V + d] *= left);
    }
    for (int a = 0; a < K; a++)
        for (int d = 0; d < V; d++) x[a * V + d] += k[a] * h->b[t] * r[d];
}

static void forward(const Head *h)
{
    const int K = h->keys, V = h->values;
    double *const x = h->states;
    memset(x, 0, sizeof *x * (size_t)(K * V));
    for (int64_t t = 0; t < h->tokens; t++) {
        if (t % WINDOW == 0) memcpy(h->windows + t / WINDOW * K * V, x, sizeof *x * (size_t)(K * V));
        go_on(h, t, x, h->r);
        double *const o = h->o + t * V;
        memset(o, 0, sizeof *o * (size_t)V);
        for (int a = 0; a < K; a++)
            for (int d = 0; d < V; d++) o[d] += h->scale * h->q[t * K + a] * x[a * V + d];
    }
}

// y: the gradient of the state after token t, to that of the state before it. x: the states before and after; r of the token.
static void go_back(const Head *h, int64_t t, const double *x, const double *r, double *restrict y)
{
    const int K = h->keys, V = h->values;
    const double *const q = h->q + t * K, *const k = h->k + t * K, *const dout = h->dout + t * V, b = h->b[t];
    double *const dr = h->dr;
    memset(dr, 0, sizeof *dr * (size_t)V);
    for (int a = 0; a < K; a++) {
        double *const row = y + a * V;
        double dq = 0, dk = 0;
        for (int d = 0; d < V; d++) {
            row[d] += h->scale * q[a] * dout[d];
            dr[d] += k[a] * row[d];
            dk += row[d] * r[d];
            dq += dout[d] * x[(K + a) * V + d];
        }
        h->dq[t * K + a] = h->scale * dq, h->dk[t * K + a] = b * dk;
    }
    h->db[t] = dot(dr, r, V);
    for (int d = 0; d < V; d++) h->dv[t * V + d] = dr[d] *= b;
    for (int a = 0; a < K; a++) {
        const double left = exp(h->g[t * K + a]), kept = h->delta ? k[a] : 0;
        double *const row = y + a * V;
        double dk = 0, dg = 0;
        for (int d = 0; d < V; d++) {
            const double before = left * x[a * V + d];
            dk += before * dr[d];
            row[d] -= kept * dr[d];
            dg += row[d] * before;
            row[d] *= left;
        }
        h->dg[t * K + a] = dg;
        if (h->delta) h->dk[t * K + a] -= dk;
    }
}

static void backward(const Head *h)
{
    const int64_t state = (int64_t)h->keys * h->values;
    memset(h->y, 0, sizeof *h->y * (size_t)state);
    for (int64_t w = (h->tokens - 1) / WINDOW; w >= 0; w--) {
        const int64_t first = w * WINDOW, n = first + WINDOW < h->tokens ? WINDOW : h->tokens - first;
        memcpy(h->states, h->windows + w * state, sizeof(double) * (size_t)state);
        for (int64_t i = 0; i < n; i++) {
            double *const x = h->states + i * state;
            memcpy(x + state, x, sizeof *x * (size_t)state);
            go_on(h, first + i, x + state, h->r + i * h->values);
        }
        for (int64_t i = n - 1; i >= 0; i--) go_back(h, first + i, h->states + i * state, h->r + i * h->values, h->y);
    }
}

static double loss_of(const void *head)
{
    const Head *const h = head;
    forward(h);
    return dot(h->o, h->dout, h->tokens * h->values);
}

static void draw(double *x, int64_t n, double low, double high)
{
    for (int64_t i = 0; i < n; i++) x[i] = uniform(low, high);
}

static void the_recurrence_has_these_gradients(void **state)
{
    enum { S = WINDOW + 3, K = 3, V = 2 };
    for (int i = 0; i < 2; i++) {
        Head h = head_of(S, K, V);
        h.delta = i == 1, h.scale = 0.3;
        draw(h.q, S * K, -1, 1), draw(h.k, S * K, -0.5, 0.5), draw(h.v, S * V, -1, 1), draw(h.dout, S * V, -1, 1);
        draw(h.g, S * K, -0.5, 0), draw(h.b, S, 0, 1);
        h.g[5 * K] = -30, h.g[6 * K + 1] = 0;
        forward(&h);
        backward(&h);
        check_differences("q", h.q, h.dq, S * K, loss_of, &h), check_differences("k", h.k, h.dk, S * K, loss_of, &h);
        check_differences("v", h.v, h.dv, S * V, loss_of, &h), check_differences("g", h.g, h.dg, S * K, loss_of, &h);
        check_differences("b", h.b, h.db, S, loss_of, &h);
    }
}

// ---- the operators: head 0 has gates near 1, head 1 near 0

typedef enum Layer { GDN, KDA, LINEAR, MAMBA2 } Layer;
enum { HEADS = 2 };

typedef struct Case {
    Layer layer;
    kiln_type type;
    int tokens, size; // of a head; Mamba-2 has P 64 and N of this size
} Case;

// Rows of head h of [1][S][heads][n], to [S][n].
static void take(double *rows, const Array *all, int64_t tokens, int h, int heads, int n)
{
    for (int64_t t = 0; t < tokens; t++) get_many(all, (t * heads + h % heads) * n, n, rows + t * n);
}

static void work(int64_t h, void *heads)
{
    forward((Head *)heads + h);
    backward((Head *)heads + h);
}

// What is asked of each result of each head: the length of its error, of its own length. Whatever a call keeps between its passes is
// of T, and products take T: a result has the errors of some sixteen roundings that do not know of each other. With the tokens
// nothing grows: states are f32, and what was added to them fades, or later keys take it away. In f32 sums of gates count more:
// within a chunk of 128 tokens they reach 2000 where gates are near 0, with 2^-24 of that in each coefficient, of which a
// neighbour's is exp(-g), an eighth on average. On a GPU f32 multiplies as tf32. Gradients of gates are differences of products
// that are as large as the sums: four times that.
static double most_of(const Case *c, bool of_gates)
{
    const double one = c->type == KILN_BF16 ? 0x1p-9 : on_cpu() ? 0x1p-24 * 32 : 0x1p-11;
    return one * sqrt(16) * (of_gates ? 4 : 1);
}

static int wrong; // results that are too far off

// got: [1][S][heads][n], expected of each head: [S][n].
static void compare(const Case *c, const char *name, Array *got, int heads, const double *const *expected,
                    bool of_gates)
{
    static const char *const layers[] = { "gated delta net", "KDA", "linear attention", "Mamba-2" };
    const int64_t n = count(got) / c->tokens / heads;
    double *const x = zeros(c->tokens * n);
    bool is_wrong = false;
    array_fetch(got);
    printf("    %-16s %s %3d %6d  %-6s", layers[c->layer], kiln_type_name(c->type), c->size, c->tokens, name);
    for (int h = 0; h < heads; h++) {
        double error = 0, size = 0;
        take(x, got, c->tokens, h, heads, (int)n);
        for (int64_t i = 0; i < c->tokens * n; i++)
            error += (x[i] - expected[h][i]) * (x[i] - expected[h][i]), size += expected[h][i] * expected[h][i];
        printf(" %.1e", sqrt(error / size));
        is_wrong |= !(sqrt(error / size) <= most_of(c, of_gates));
    }
    printf("%s\n", is_wrong ? ", WRONG" : "");
    wrong += is_wrong;
}

static Array *gates_of(int64_t tokens, int64_t keys)
{
    Array *const x = keys > 1 ? ARRAY(KILN_F32, 1, tokens, HEADS, keys) : ARRAY(KILN_F32, 1, tokens, HEADS);
    for (int64_t i = 0; i < count(x); i++) set(x, i, -(i / keys % HEADS ? 30 : 1e-3) * uniform(0, 1));
    array_send(x);
    return x;
}

static Array *like(const Array *x) { return array_new(x->tensor.type, x->tensor.rank, x->tensor.shape); }

typedef struct Tensors {
    Array *q, *k, *v, *gates, *beta, *dout;
    Array *out, *dq, *dk, *dv, *dgates, *dbeta;
} Tensors;

static void run_delta(const Tensors *x)
{
    kiln_gdn_args go = { .q = of(x->q), .k = of(x->k), .v = of(x->v), .gates = of(x->gates), .beta = of(x->beta) };
    kiln_gdn_backward_args back = { .q = go.q, .k = go.k, .v = go.v, .gates = go.gates, .beta = go.beta };
    go.out = of(x->out);
    back.dout = of(x->dout), back.dq = of(x->dq), back.dk = of(x->dk), back.dv = of(x->dv);
    back.dgates = of(x->dgates), back.dbeta = of(x->dbeta);
    assert_ok(kiln_gdn_forward_workspace_size(ops, &go, &go.workspace_bytes));
    go.workspace = bytes_new(go.workspace_bytes)->tensor.data;
    done(kiln_gdn_forward(ops, NULL, &go));
    assert_ok(kiln_gdn_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_gdn_backward(ops, NULL, &back));
}

static void run_linear(const Tensors *x)
{
    kiln_linear_attention_args go = { .q = of(x->q), .k = of(x->k), .v = of(x->v), .gates = of(x->gates) };
    kiln_linear_attention_backward_args back = { .q = go.q, .k = go.k, .v = go.v, .gates = go.gates };
    go.out = of(x->out);
    back.dout = of(x->dout), back.dq = of(x->dq), back.dk = of(x->dk), back.dv = of(x->dv);
    back.dgates = of(x->dgates);
    assert_ok(kiln_linear_attention_forward_workspace_size(ops, &go, &go.workspace_bytes));
    go.workspace = bytes_new(go.workspace_bytes)->tensor.data;
    done(kiln_linear_attention_forward(ops, NULL, &go));
    assert_ok(kiln_linear_attention_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_linear_attention_backward(ops, NULL, &back));
}

// A gate of a head, where all its channels have the same: the gradient is the sum of theirs, in their place.
static void sum_channels(const Head *h)
{
    for (int64_t t = 0; t < h->tokens; t++) {
        double sum = 0;
        for (int a = 0; a < h->keys; a++) sum += h->dg[t * h->keys + a];
        h->dg[t] = sum;
    }
}

static void spread_gates(const Head *h, const double *gates)
{
    for (int64_t t = 0; t < h->tokens; t++)
        for (int a = 0; a < h->keys; a++) h->g[t * h->keys + a] = gates[t];
}

// Gated delta net, its gates for each channel, or linear attention; queries and keys are not normalised.
static void layer_is_the_recurrence(const Case *c)
{
    const int D = c->size, S = c->tokens;
    const bool delta = c->layer != LINEAR, channels = c->layer == KDA;
    Tensors x = { .q = drawn(ARRAY(c->type, 1, S, HEADS, D), -1, 1), .gates = gates_of(S, channels ? D : 1) };
    x.k = drawn(like(x.q), -1.5 / sqrt(D), 1.5 / sqrt(D)), x.v = drawn(like(x.q), -1, 1);
    x.dout = drawn(like(x.q), -1, 1), x.out = like(x.q), x.dq = like(x.q), x.dk = like(x.q), x.dv = like(x.q);
    x.dgates = like(x.gates), x.beta = drawn(ARRAY(KILN_F32, 1, S, HEADS), 0, 1), x.dbeta = like(x.beta);
    if (delta) run_delta(&x);
    else run_linear(&x);

    Head heads[HEADS];
    for (int i = 0; i < HEADS; i++) {
        Head *const h = &heads[i];
        *h = head_of(S, D, D);
        h->delta = delta, h->scale = 1 / sqrt(D);
        take(h->q, x.q, S, i, HEADS, D), take(h->k, x.k, S, i, HEADS, D), take(h->v, x.v, S, i, HEADS, D);
        take(h->dout, x.dout, S, i, HEADS, D), take(channels ? h->g : h->db, x.gates, S, i, HEADS, channels ? D : 1);
        if (!channels) spread_gates(h, h->db);
        if (delta) take(h->b, x.beta, S, i, HEADS, 1);
        for (int t = 0; t < S && !delta; t++) h->b[t] = 1;
    }
    in_parallel(HEADS, work, heads);
#define ROWS(of_one) ((const double *const[HEADS]){ heads[0].of_one, heads[1].of_one })
    compare(c, "out", x.out, HEADS, ROWS(o), false), compare(c, "dq", x.dq, HEADS, ROWS(dq), false);
    compare(c, "dk", x.dk, HEADS, ROWS(dk), false), compare(c, "dv", x.dv, HEADS, ROWS(dv), false);
    if (delta) compare(c, "dbeta", x.dbeta, HEADS, ROWS(db), false);
    for (int i = 0; i < HEADS && !channels; i++) sum_channels(&heads[i]);
    compare(c, "dgates", x.dgates, HEADS, ROWS(dg), true);
}

typedef struct Mamba {
    Array *x, *dt, *a, *b, *c, *dout;
    Array *out, *dx, *ddt, *da, *db, *dc;
} Mamba;

static void run_mamba2(const Mamba *m)
{
    kiln_mamba2_args go = { .x = of(m->x), .dt = of(m->dt), .a = of(m->a), .b = of(m->b), .c = of(m->c) };
    kiln_mamba2_backward_args back = { .x = go.x, .dt = go.dt, .a = go.a, .b = go.b, .c = go.c };
    go.out = of(m->out);
    back.dout = of(m->dout), back.dx = of(m->dx), back.ddt = of(m->ddt), back.da = of(m->da);
    back.db = of(m->db), back.dc = of(m->dc);
    assert_ok(kiln_mamba2_forward_workspace_size(ops, &go, &go.workspace_bytes));
    go.workspace = bytes_new(go.workspace_bytes)->tensor.data;
    done(kiln_mamba2_forward(ops, NULL, &go));
    assert_ok(kiln_mamba2_backward_workspace_size(ops, &back, &back.workspace_bytes));
    back.workspace = bytes_new(back.workspace_bytes)->tensor.data;
    done(kiln_mamba2_backward(ops, NULL, &back));
}

// dg of a token is the sum of <q, dq> - <k, dk> over it and all later ones that see its state, and each product, of rounded rows,
// is off by a part of itself: that of token t is in da with the sum of d before it, as far as it is left. b db is <k, dk>.
static void check_da(const Case *c, const Head *h, double a, double da)
{
    double expected = 0, terms = 0, before = 0;
    for (int t = 0; t < h->tokens; t++) {
        before = exp(a * h->b[t]) * before + h->b[t];
        expected += h->b[t] * h->dg[t];
        terms += pow(before * h->b[t] * h->db[t], 2);
    }
    const double most = most_of(c, true) * (fabs(expected) + sqrt(terms));
    if (!(fabs(da - expected) <= most)) fail_msg("da of %g is %g, expected %g within %g", a, da, expected, most);
}

// Keys are b, queries c, values x, gates a d, strengths d; b and c are of both heads.
static void mamba2_is_the_recurrence(const Case *c)
{
    enum { P = 64 };
    const int N = c->size, S = c->tokens;
    Mamba m = { .x = drawn(ARRAY(c->type, 1, S, HEADS, P), -1, 1), .dt = drawn(ARRAY(c->type, 1, S, HEADS), -4, 1) };
    m.b = drawn(ARRAY(c->type, 1, S, 1, N), -0.3, 0.3), m.c = drawn(like(m.b), -0.3, 0.3);
    m.a = ARRAY(KILN_F32, HEADS), m.dout = drawn(like(m.x), -1, 1), m.out = like(m.x), m.dx = like(m.x);
    m.ddt = like(m.dt), m.da = like(m.a), m.db = like(m.b), m.dc = like(m.b);
    set(m.a, 0, -1e-3), set(m.a, 1, -20), array_send(m.a);
    run_mamba2(&m);

    Head heads[HEADS];
    for (int i = 0; i < HEADS; i++) {
        Head *const h = &heads[i];
        *h = head_of(S, N, P);
        take(h->q, m.c, S, 0, 1, N), take(h->k, m.b, S, 0, 1, N), take(h->v, m.x, S, i, HEADS, P);
        take(h->dout, m.dout, S, i, HEADS, P), take(h->b, m.dt, S, i, HEADS, 1);
        for (int t = 0; t < S; t++) h->b[t] = log1p(exp(h->b[t])), h->db[t] = get(m.a, i) * h->b[t];
        spread_gates(h, h->db);
    }
    in_parallel(HEADS, work, heads);
    compare(c, "out", m.out, HEADS, ROWS(o), false), compare(c, "dx", m.dx, HEADS, ROWS(dv), false);
    array_fetch(m.da);
    for (int i = 0; i < HEADS; i++) {
        Head *const h = &heads[i];
        sum_channels(h);
        check_da(c, h, get(m.a, i), get(m.da, i));
        for (int t = 0; t < S; t++) h->db[t] = (get(m.a, i) * h->dg[t] + h->db[t]) * (1 - exp(-h->b[t]));
    }
    for (int64_t j = 0; j < (int64_t)S * N; j++) heads[0].dq[j] += heads[1].dq[j], heads[0].dk[j] += heads[1].dk[j];
    compare(c, "ddt", m.ddt, HEADS, ROWS(db), true);
    compare(c, "db", m.db, 1, ROWS(dk), false), compare(c, "dc", m.dc, 1, ROWS(dq), false);
}

static void all_layers(int tokens, int size, kiln_type type)
{
    for (int layer = GDN; layer <= MAMBA2; layer++) {
        const Case c = { (Layer)layer, type, tokens, size };
        if (layer == MAMBA2) mamba2_is_the_recurrence(&c);
        else layer_is_the_recurrence(&c);
        free_arrays(NULL);
    }
}

static void assert_none_wrong(void)
{
    const int n = wrong;
    wrong = 0;
    if (n) fail_msg("%d results are too far from the recurrence", n);
}

static void few_tokens(void **state)
{
    all_layers(64, 64, KILN_BF16);
    assert_none_wrong();
}

static void many_tokens(void **state)
{
    static const int tokens[] = { 64, 1024, 16384 };
    need_long_tests();
    for (int i = 0; i < 3; i++)
        for (int size = 64; size <= 128; size *= 2) all_layers(tokens[i], size, KILN_BF16);
    for (int i = 0; i < 3; i++) all_layers(tokens[i], 64, KILN_F32);
    assert_none_wrong();
}

static void very_many_tokens(void **state)
{
    need_long_tests();
    all_layers(65536, 64, KILN_BF16);
    assert_none_wrong();
}

static void very_many_tokens_of_wide_heads(void **state) // minutes, most of them the recurrence's
{
    need_long_tests();
    all_layers(65536, 128, KILN_BF16);
    all_layers(65536, 64, KILN_F32);
    assert_none_wrong();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_recurrence_has_these_gradients, free_arrays),
        cmocka_unit_test_teardown(few_tokens, free_arrays),
        cmocka_unit_test_teardown(many_tokens, free_arrays),
        cmocka_unit_test_teardown(very_many_tokens, free_arrays),
        cmocka_unit_test_teardown(very_many_tokens_of_wide_heads, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
