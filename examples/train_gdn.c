/* SPDX-License-Identifier: MIT */
/* train_gdn.c - trains a language model of two gated-delta-net layers on a small text: embedding; in each layer an RMS norm, one
 * projection to queries, keys and values, a short causal convolution over them, the gated delta net, a norm of its heads beside a
 * gate, a projection back; a norm and a projection to logits. All of it on the device: operators of the library, and the steps of
 * Adam, a kernel of the program's own. Before it begins, each weight's gradient is compared with a difference of two losses.
 *
 *     cc train_gdn.c -lkiln -lm -o train_gdn && ./train_gdn cpu        (or cuda:0)
 */
#include <kiln/ops/gemm.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/recurrent.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "The river takes its time. It takes the snow of the hills and the rain of the fields, and it takes the "
    "leaves that the trees let go, and it brings all of it down to the town. The town has a mill, and the "
    "mill has a wheel, and the wheel takes its turn from the river. What the river brings the wheel turns, "
    "and what the wheel turns the mill grinds, and what the mill grinds the town eats. When the snow is deep "
    "the river is slow, and the wheel is slow, and the town waits. When the rain is long the river is fast, "
    "and the wheel is fast, and the town eats well. The hills do not know the town, and the town does not "
    "know the hills, and the river, that knows them both, takes its time. ";

static const char source[] =
    "kernel adam(inout f32 W[N], in f32 G[N], inout f32 M[N], inout f32 V[N], f32 rate, f32 first, f32 second)\n"
    "{\n"
    "    grid (n : ceildiv(N, 1024));\n"
    "    forall (i : 1024) {\n"
    "        f32 g = G[n*1024 + i], m = 0.9*M[n*1024 + i] + 0.1*g, v = 0.99*V[n*1024 + i] + 0.01*g*g;\n"
    "        M[n*1024 + i] = m;\n"
    "        V[n*1024 + i] = v;\n"
    "        W[n*1024 + i] -= rate * (m / first) / (sqrt(v / second) + 1e-8);\n"
    "    }\n"
    "}\n";

enum {
    BATCH = 4,
    TOKENS = 96, /* of a sequence: a chunk and a half */
    ALL = BATCH * TOKENS,
    E = 64,
    HEADS = 4,
    D = E / HEADS,
    TAPS = 4,
    LAYERS = 2,
    LETTERS = 32, /* room for those of the text */
    STEPS = 80
};
static const double EPS = 1e-6;

static kiln_device *device;
static kiln_ops *ops;

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

/* ---- memory: everything is freed at the end, in one place */

static struct {
    void *p[160];
    int n;
} taken;
static void *workspace;
static size_t workspace_bytes;

static void *memory(size_t bytes)
{
    void *p;
    must(kiln_alloc(device, bytes, &p));
    if (taken.n == (int)(sizeof taken.p / sizeof *taken.p)) exit(1);
    return taken.p[taken.n++] = p;
}

/* One for all calls, which run one after the other. */
static void *scratch(size_t bytes)
{
    if (bytes <= workspace_bytes) return workspace;
    must(kiln_stream_wait(device, NULL));
    kiln_free(device, workspace);
    must(kiln_alloc(device, bytes, &workspace));
    workspace_bytes = bytes;
    return workspace;
}

static kiln_tensor array(kiln_type type, int rank, const int64_t *shape)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= (size_t)shape[i];
    return kiln_tensor_of(device, memory(n * 4), type, rank, shape);
}

static kiln_tensor matrix(int64_t rows, int64_t columns) { return array(KILN_F32, 2, (int64_t[]){ rows, columns }); }
static kiln_tensor row(kiln_type type, int64_t n) { return array(type, 1, &n); }

/* The same memory with another shape. */
static kiln_tensor as(const kiln_tensor *x, int rank, const int64_t *shape)
{
    return kiln_tensor_of(device, x->data, x->type, rank, shape);
}

/* Third `which` of [BATCH * TOKENS][3 E], as heads. */
static kiln_tensor heads(const kiln_tensor *x, int which)
{
    kiln_tensor t =
        kiln_tensor_of(device, (float *)x->data + which * E, KILN_F32, 4, (int64_t[]){ BATCH, TOKENS, HEADS, D });
    const int64_t strides[] = { TOKENS * 3 * E, 3 * E, D, 1 };
    t.has_strides = true;
    memcpy(t.strides, strides, sizeof strides);
    return t;
}

static double uniform(void) { return rand() / (double)RAND_MAX; }

/* ---- a weight, its gradient, and what Adam keeps of it */

typedef struct Weight {
    const char *name;
    kiln_tensor value, gradient, mean, square;
    int64_t n;
} Weight;

/* About `middle`, `size` away from it at most. */
static Weight weight_new(const char *name, int64_t rows, int64_t columns, double middle, double size)
{
    Weight w = { .name = name, .n = rows * columns };
    float *const host = calloc((size_t)w.n, sizeof *host);
    const size_t bytes = (size_t)w.n * sizeof *host;
    if (!host) exit(1);
    w.value = matrix(rows, columns), w.gradient = matrix(rows, columns);
    w.mean = matrix(rows, columns), w.square = matrix(rows, columns);
    must(kiln_upload(device, w.mean.data, host, bytes));
    must(kiln_upload(device, w.square.data, host, bytes));
    for (int64_t i = 0; i < w.n; i++) host[i] = (float)(middle + (2 * uniform() - 1) * size);
    must(kiln_upload(device, w.value.data, host, bytes));
    free(host);
    return w;
}

/* ---- the model */

typedef struct Layer {
    Weight norm, qkv, taps, gating, a_log, dt_bias, gate, heads_norm, out;
    kiln_tensor x, normed, projected, mixed, raw, gates, beta, read, z,
        gated; /* what the forward pass leaves for the backward pass */
} Layer;

enum { WEIGHTS = 3 + 9 * LAYERS };

typedef struct Model {
    Weight embedding, norm, logits_weight;
    Layer layers[LAYERS];
    kiln_tensor tokens, labels, one_hot, last, normed, logits, losses, lse;
    kiln_tensor dloss, dlogits, dx[2], dnormed, dpart[2], dgated, dread, dz, dmixed, dprojected, dgates, dbeta,
        draw; /* gradients on their way */
    kiln_program *program;
    kiln_kernel *adam;
    int steps;
} Model;

static int weights_of(Model *m, Weight **all)
{
    int n = 0;
    all[n++] = &m->embedding, all[n++] = &m->norm, all[n++] = &m->logits_weight;
    for (int l = 0; l < LAYERS; l++) {
        Layer *const layer = &m->layers[l];
        all[n++] = &layer->norm, all[n++] = &layer->qkv, all[n++] = &layer->taps, all[n++] = &layer->gating;
        all[n++] = &layer->a_log, all[n++] = &layer->dt_bias, all[n++] = &layer->gate, all[n++] = &layer->heads_norm;
        all[n++] = &layer->out;
    }
    return n;
}

static void model_open(Model *m)
{
    static float share[ALL];
    *m = (Model){ .embedding = weight_new("embedding", LETTERS, E, 0, 1),
                  .norm = weight_new("norm", 1, E, 1, 0.1),
                  .logits_weight = weight_new("logits", LETTERS, E, 0, 0.1) };
    for (int l = 0; l < LAYERS; l++) {
        m->layers[l] = (Layer){ .norm = weight_new("norm", 1, E, 1, 0.1),
                                .qkv = weight_new("qkv", 3 * E, E, 0, 0.2),
                                .taps = weight_new("taps", 3 * E, TAPS, 0, 0.5),
                                .gating = weight_new("gates", 2 * HEADS, E, 0, 0.1),
                                .a_log = weight_new("a_log", 1, HEADS, 0, 0.5),
                                .dt_bias = weight_new("dt_bias", 1, HEADS, -1, 0.5),
                                .gate = weight_new("gate", E, E, 0, 0.2),
                                .heads_norm = weight_new("heads_norm", 1, D, 1, 0.1),
                                .out = weight_new("out", E, E, 0, 0.2) };
        Layer *const layer = &m->layers[l];
        layer->x = matrix(ALL, E), layer->normed = matrix(ALL, E), layer->projected = matrix(ALL, 3 * E);
        layer->mixed = matrix(ALL, 3 * E), layer->raw = matrix(ALL, 2 * HEADS), layer->read = matrix(ALL, E);
        layer->gates = matrix(ALL, HEADS), layer->beta = matrix(ALL, HEADS);
        layer->z = matrix(ALL, E), layer->gated = matrix(ALL, E);
    }
    m->tokens = row(KILN_I32, ALL), m->labels = row(KILN_I32, ALL), m->one_hot = matrix(ALL, LETTERS);
    m->last = matrix(ALL, E), m->normed = matrix(ALL, E), m->logits = matrix(ALL, LETTERS);
    m->losses = row(KILN_F32, ALL), m->lse = row(KILN_F32, ALL), m->dloss = row(KILN_F32, ALL);
    m->dlogits = matrix(ALL, LETTERS), m->dx[0] = matrix(ALL, E), m->dx[1] = matrix(ALL, E);
    m->dnormed = matrix(ALL, E), m->dpart[0] = matrix(ALL, E), m->dpart[1] = matrix(ALL, E);
    m->dread = matrix(ALL, E), m->dgated = matrix(ALL, E), m->dz = matrix(ALL, E);
    m->dmixed = matrix(ALL, 3 * E), m->dprojected = matrix(ALL, 3 * E), m->draw = matrix(ALL, 2 * HEADS);
    m->dgates = matrix(ALL, HEADS), m->dbeta = matrix(ALL, HEADS);
    for (int i = 0; i < ALL; i++) share[i] = 1.0f / ALL; /* the loss is their mean */
    must(kiln_upload(device, m->dloss.data, share, sizeof share));
    must(kiln_program_load_text("train_gdn.tile", source, &m->program));
    must(kiln_kernel_build(device, m->program, "adam", NULL, NULL, &m->adam));
}

static void model_close(Model *m)
{
    kiln_kernel_free(m->adam);
    kiln_program_free(m->program);
}

/* ---- the calls */

static void product(kiln_gemm_args args)
{
    must(kiln_gemm_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = scratch(args.workspace_bytes + 1);
    must(kiln_gemm(ops, NULL, &args));
}

/* y = x weight^T + residual. */
static void project(const kiln_tensor *x, const Weight *weight, const kiln_tensor *residual, const kiln_tensor *y)
{
    product((kiln_gemm_args){ .a = x, .b = &weight->value, .c = y, .residual = residual, .transpose_b = true });
}

/* The weight's gradient, dy^T x; dx = dy weight + residual. */
static void project_backward(const kiln_tensor *x, const Weight *weight, const kiln_tensor *dy,
                             const kiln_tensor *residual, const kiln_tensor *dx)
{
    product((kiln_gemm_args){ .a = dy, .b = x, .c = &weight->gradient, .transpose_a = true });
    product((kiln_gemm_args){ .a = dy, .b = &weight->value, .c = dx, .residual = residual });
}

static kiln_tensor as_row(const kiln_tensor *x, int64_t n) { return as(x, 1, &n); }
static kiln_tensor of_heads(const kiln_tensor *x) { return as(x, 3, (int64_t[]){ ALL, HEADS, D }); }
static kiln_tensor of_one(const kiln_tensor *x) { return as(x, 3, (int64_t[]){ ALL, 1, E }); }

static void norm(const kiln_tensor *x, const Weight *weight, const kiln_tensor *y)
{
    const kiln_tensor w = as_row(&weight->value, weight->n);
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = x, .weight = &w, .out = y, .eps = EPS }));
}

/* The gradient of that, or of a gated norm: tensors are [ALL][groups][elements]. */
static void norm_backward(kiln_gated_norm_backward_args args, const Weight *weight)
{
    const kiln_tensor w = as_row(&weight->value, weight->n), dw = as_row(&weight->gradient, weight->n);
    args.weight = &w, args.dweight = &dw, args.eps = EPS;
    must(kiln_gated_norm_backward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = scratch(args.workspace_bytes);
    must(kiln_gated_norm_backward(ops, NULL, &args));
}

/* Of a whole row; `past` is the gradient of what went past it. */
static void row_norm_backward(const kiln_tensor *x, const Weight *weight, const kiln_tensor *dy,
                              const kiln_tensor *past, const kiln_tensor *dx)
{
    const kiln_tensor from = of_one(x), of_y = of_one(dy), of_x = of_one(dx), of_past = of_one(past ? past : dy);
    norm_backward(
        (kiln_gated_norm_backward_args){ .x = &from, .dout = &of_y, .dresidual = past ? &of_past : NULL, .dx = &of_x },
        weight);
}

/* The two halves of [ALL][2 HEADS]. */
static kiln_tensor half(const kiln_tensor *x, int which)
{
    kiln_tensor t = kiln_tensor_of(device, (float *)x->data + which * HEADS, KILN_F32, 2, (int64_t[]){ ALL, HEADS });
    t.has_strides = true;
    t.strides[0] = 2 * HEADS, t.strides[1] = 1;
    return t;
}

/* What the layer's delta net is called with; the same forward and backward. */
typedef struct Parts {
    kiln_tensor q, k, v, gates, beta, read;
} Parts;

static const int64_t per_channel[] = { BATCH, TOKENS, 3 * E }, per_head[] = { BATCH, TOKENS, HEADS },
                     per_element[] = { BATCH, TOKENS, HEADS, D };

static Parts parts_of(const Layer *l)
{
    return (Parts){ heads(&l->mixed, 0),        heads(&l->mixed, 1),       heads(&l->mixed, 2),
                    as(&l->gates, 3, per_head), as(&l->beta, 3, per_head), as(&l->read, 4, per_element) };
}

static void layer_forward(const Layer *l, const kiln_tensor *y)
{
    const Parts p = parts_of(l);
    const kiln_tensor projected = as(&l->projected, 3, per_channel), mixed = as(&l->mixed, 3, per_channel);
    const kiln_tensor a = half(&l->raw, 0), b = half(&l->raw, 1), read = of_heads(&l->read), z = of_heads(&l->z);
    const kiln_tensor a_log = as_row(&l->a_log.value, HEADS), dt_bias = as_row(&l->dt_bias.value, HEADS);
    const kiln_tensor weight = as_row(&l->heads_norm.value, D), gated = of_heads(&l->gated);
    norm(&l->x, &l->norm, &l->normed);
    project(&l->normed, &l->qkv, NULL, &l->projected);
    must(kiln_causal_conv(
        ops, NULL,
        &(kiln_causal_conv_args){
            .x = &projected, .filter = &l->taps.value, .out = &mixed, .activation = KILN_ACTIVATION_SILU }));
    project(&l->normed, &l->gating, NULL, &l->raw);
    must(kiln_gdn_gates(
        ops, NULL,
        &(kiln_gdn_gates_args){
            .a = &a, .b = &b, .a_log = &a_log, .dt_bias = &dt_bias, .gates = &l->gates, .beta = &l->beta }));
    kiln_gdn_args args = {
        .q = &p.q, .k = &p.k, .v = &p.v, .gates = &p.gates, .beta = &p.beta, .out = &p.read, .normalize = true
    };
    must(kiln_gdn_forward_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = scratch(args.workspace_bytes);
    must(kiln_gdn_forward(ops, NULL, &args));
    project(&l->normed, &l->gate, NULL, &l->z);
    must(kiln_gated_norm(ops, NULL,
                         &(kiln_gated_norm_args){ .x = &read, .z = &z, .weight = &weight, .out = &gated, .eps = EPS }));
    project(&l->gated, &l->out, &l->x, y);
}

/* From the gradient of the layer's output that of its input. */
static void layer_backward(const Model *m, const Layer *l, const kiln_tensor *dy, const kiln_tensor *dx)
{
    const Parts p = parts_of(l);
    const kiln_tensor projected = as(&l->projected, 3, per_channel), dread = as(&m->dread, 4, per_element);
    const kiln_tensor dmixed = as(&m->dmixed, 3, per_channel), dprojected = as(&m->dprojected, 3, per_channel);
    const kiln_tensor dq = heads(&m->dmixed, 0), dk = heads(&m->dmixed, 1), dv = heads(&m->dmixed, 2);
    const kiln_tensor dgates = as(&m->dgates, 3, per_head), dbeta = as(&m->dbeta, 3, per_head);
    const kiln_tensor a = half(&l->raw, 0), b = half(&l->raw, 1), da = half(&m->draw, 0), db = half(&m->draw, 1);
    const kiln_tensor a_log = as_row(&l->a_log.value, HEADS), dt_bias = as_row(&l->dt_bias.value, HEADS);
    const kiln_tensor da_log = as_row(&l->a_log.gradient, HEADS), ddt_bias = as_row(&l->dt_bias.gradient, HEADS);
    const kiln_tensor read = of_heads(&l->read), z = of_heads(&l->z), dgated = of_heads(&m->dgated);
    const kiln_tensor of_read = of_heads(&m->dread), dz = of_heads(&m->dz);
    project_backward(&l->gated, &l->out, dy, NULL, &m->dgated);
    norm_backward((kiln_gated_norm_backward_args){ .x = &read, .z = &z, .dout = &dgated, .dx = &of_read, .dz = &dz },
                  &l->heads_norm);
    kiln_gdn_backward_args delta = { .q = &p.q,
                                     .k = &p.k,
                                     .v = &p.v,
                                     .gates = &p.gates,
                                     .beta = &p.beta,
                                     .dout = &dread,
                                     .dq = &dq,
                                     .dk = &dk,
                                     .dv = &dv,
                                     .dgates = &dgates,
                                     .dbeta = &dbeta,
                                     .normalize = true };
    must(kiln_gdn_backward_workspace_size(ops, &delta, &delta.workspace_bytes));
    delta.workspace = scratch(delta.workspace_bytes);
    must(kiln_gdn_backward(ops, NULL, &delta));
    kiln_gdn_gates_backward_args gates = { .a = &a,
                                           .b = &b,
                                           .a_log = &a_log,
                                           .dt_bias = &dt_bias,
                                           .dgates = &m->dgates,
                                           .dbeta = &m->dbeta,
                                           .da = &da,
                                           .db = &db,
                                           .da_log = &da_log,
                                           .ddt_bias = &ddt_bias };
    must(kiln_gdn_gates_backward_workspace_size(ops, &gates, &gates.workspace_bytes));
    gates.workspace = scratch(gates.workspace_bytes);
    must(kiln_gdn_gates_backward(ops, NULL, &gates));
    kiln_causal_conv_backward_args conv = { .x = &projected,
                                            .filter = &l->taps.value,
                                            .dout = &dmixed,
                                            .dx = &dprojected,
                                            .dfilter = &l->taps.gradient,
                                            .activation = KILN_ACTIVATION_SILU };
    must(kiln_causal_conv_backward_workspace_size(ops, &conv, &conv.workspace_bytes));
    conv.workspace = scratch(conv.workspace_bytes);
    must(kiln_causal_conv_backward(ops, NULL, &conv));
    project_backward(&l->normed, &l->qkv, &m->dprojected, NULL, &m->dpart[0]);
    project_backward(&l->normed, &l->gating, &m->draw, &m->dpart[0], &m->dpart[1]);
    project_backward(&l->normed, &l->gate, &m->dz, &m->dpart[1], &m->dnormed);
    row_norm_backward(&l->x, &l->norm, &m->dnormed, dy, dx);
}

/* The mean loss of the tokens. */
static double forward(const Model *m)
{
    static float losses[ALL];
    double sum = 0;
    must(kiln_embedding(
        ops, NULL,
        &(kiln_embedding_args){ .table = &m->embedding.value, .tokens = &m->tokens, .out = &m->layers[0].x }));
    for (int l = 0; l < LAYERS; l++) layer_forward(&m->layers[l], l + 1 < LAYERS ? &m->layers[l + 1].x : &m->last);
    norm(&m->last, &m->norm, &m->normed);
    project(&m->normed, &m->logits_weight, NULL, &m->logits);
    must(kiln_cross_entropy(
        ops, NULL,
        &(kiln_cross_entropy_args){ .logits = &m->logits, .labels = &m->labels, .loss = &m->losses, .lse = &m->lse }));
    must(kiln_download(device, losses, m->losses.data, sizeof losses));
    for (int i = 0; i < ALL; i++) sum += losses[i];
    return sum / ALL;
}

/* All gradients, after `forward`. */
static void backward(const Model *m)
{
    must(kiln_cross_entropy_backward(
        ops, NULL,
        &(kiln_cross_entropy_backward_args){
            .logits = &m->logits, .labels = &m->labels, .lse = &m->lse, .dloss = &m->dloss, .dlogits = &m->dlogits }));
    project_backward(&m->normed, &m->logits_weight, &m->dlogits, NULL, &m->dnormed);
    row_norm_backward(&m->last, &m->norm, &m->dnormed, NULL, &m->dx[LAYERS % 2]);
    for (int l = LAYERS - 1; l >= 0; l--) layer_backward(m, &m->layers[l], &m->dx[(l + 1) % 2], &m->dx[l % 2]);
    product((kiln_gemm_args){ .a = &m->one_hot, .b = &m->dx[0], .c = &m->embedding.gradient, .transpose_a = true });
}

static void step(Model *m, double rate)
{
    Weight *all[WEIGHTS];
    const int n = weights_of(m, all);
    m->steps++;
    for (int i = 0; i < n; i++) {
        const kiln_tensor w = as(&all[i]->value, 1, &all[i]->n), g = as(&all[i]->gradient, 1, &all[i]->n);
        const kiln_tensor mean = as(&all[i]->mean, 1, &all[i]->n), square = as(&all[i]->square, 1, &all[i]->n);
        must(kiln_launch(m->adam, NULL,
                         (kiln_arg[]){ KILN_TENSOR(&w), KILN_TENSOR(&g), KILN_TENSOR(&mean), KILN_TENSOR(&square),
                                       KILN_FLOAT(rate), KILN_FLOAT(1 - pow(0.9, m->steps)),
                                       KILN_FLOAT(1 - pow(0.99, m->steps)) },
                         7));
    }
}

/* ---- the text */

/* Pieces of it that begin anywhere; a label is the letter that follows. */
static void draw_batch(const Model *m)
{
    static char letters[LETTERS];
    static int32_t tokens[ALL], labels[ALL];
    static float one_hot[ALL][LETTERS];
    memset(one_hot, 0, sizeof one_hot);
    for (int b = 0; b < BATCH; b++) {
        const int first = (int)(uniform() * (double)(sizeof text - TOKENS - 2));
        for (int t = 0; t < TOKENS + 1; t++) {
            int c = 0;
            while (letters[c] && letters[c] != text[first + t]) c++;
            if (c == LETTERS - 1) exit(1); /* the text has more */
            letters[c] = text[first + t];
            if (t < TOKENS) one_hot[b * TOKENS + t][tokens[b * TOKENS + t] = c] = 1;
            if (t > 0) labels[b * TOKENS + t - 1] = c;
        }
    }
    must(kiln_upload(device, m->tokens.data, tokens, sizeof tokens));
    must(kiln_upload(device, m->labels.data, labels, sizeof labels));
    must(kiln_upload(device, m->one_hot.data, one_hot, sizeof one_hot));
}

/* Along a weight's gradient the loss rises by the gradient's length. */
static double gradient_error(const Model *m, const Weight *w)
{
    const size_t bytes = (size_t)w->n * sizeof(float);
    float *const host = malloc(3 * bytes), *const gradient = host + w->n, *const moved = gradient + w->n;
    double length = 0, losses[2];
    if (!host) exit(1);
    must(kiln_download(device, host, w->value.data, bytes));
    must(kiln_download(device, gradient, w->gradient.data, bytes));
    for (int64_t i = 0; i < w->n; i++) length += gradient[i] * (double)gradient[i];
    length = sqrt(length);
    const double reach = 1e-2;
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < w->n; i++) moved[i] = (float)(host[i] + (side ? reach : -reach) * gradient[i] / length);
        must(kiln_upload(device, w->value.data, moved, bytes));
        losses[side] = forward(m);
    }
    must(kiln_upload(device, w->value.data, host, bytes));
    free(host);
    return fabs((losses[1] - losses[0]) / (2 * reach) / length - 1);
}

static bool gradients_are_right(Model *m)
{
    Weight *all[WEIGHTS];
    const int n = weights_of(m, all);
    double worst = 0;
    forward(m);
    backward(m);
    for (int i = 0; i < n; i++) {
        const double error = gradient_error(m, all[i]);
        if (!(error < 0.01)) fprintf(stderr, "the gradient of weight %d (%s) is off by %.2g\n", i, all[i]->name, error);
        if (!(error <= worst)) worst = error;
    }
    printf("gradients of %d weights: within %.1g of differences\n", n, worst);
    return worst < 0.01;
}

int main(int argc, char **argv)
{
    static Model m;
    double first = 0, loss = 0, mean = 0;
    must(kiln_device_open(argc > 1 ? argv[1] : "cpu", &device));
    must(kiln_ops_open(device, NULL, &ops));
    model_open(&m);
    draw_batch(&m);
    const bool is_right = gradients_are_right(&m);
    for (int i = 0; i < STEPS; i++) {
        draw_batch(&m);
        loss = forward(&m);
        backward(&m);
        step(&m, 3e-3);
        mean += loss / 10;
        if (i == 0) first = loss;
        if (i % 10 == 9) printf("steps %2d to %2d: loss %.3f\n", i - 8, i + 1, mean), mean = 0;
    }
    must(kiln_stream_wait(device, NULL));
    model_close(&m);
    kiln_free(device, workspace);
    for (int i = 0; i < taken.n; i++) kiln_free(device, taken.p[i]);
    kiln_ops_close(ops), kiln_device_close(device);
    printf("from %.3f to %.3f: %s\n", first, loss, loss < 0.6 * first ? "it learns" : "it does NOT learn");
    return is_right && loss < 0.6 * first ? 0 : 1;
}
