// SPDX-License-Identifier: MIT
// sweep_moe.c - families grouped, grouped-mxfp4, grouped-weights, route and moe: products of experts over ragged rows,
// gradients of their weights, the choice of experts, and whole layers.
#include "kiln/ops/moe.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

static double get(const Shape *s, const char *name) { return (double)shape_get(s, name); }

// ---- grouped products: R rows of E experts, as unevenly as batches of an engine

static const char *const grouped_ranges[] = {
    // experts, N, K: gpt-oss 20b; Qwen 3 30b and 235b; Mixtral; DeepSeek V3 on one of 8 devices; their second products
    "E/N/K: 32/5760/2880 32/2880/2880 128/1536/2048 128/2048/768 128/3072/4096 128/4096/1536 8/28672/4096 8/4096/14336 32/4096/7168 "
    "32/7168/2048 8/4096/4096",
    "R: 4 32 128 512 2048 4096 8192 16384 32768 1..1024 1..32768", "T: bf16 bf16 f16", NULL
};
static const char *const grouped_small[] = { "E/N/K: 4/128/64 8/96/128 2/333/64", "R: 8 64 1..200", "T: bf16 bf16 f16",
                                             NULL };

static double grouped_operations(const Shape *s) { return 2 * get(s, "R") * get(s, "N") * get(s, "K"); }

static double grouped_bytes(const Shape *s)
{
    return 2 * (get(s, "E") * get(s, "N") * get(s, "K") + get(s, "R") * (get(s, "N") + get(s, "K")));
}

// Where the rows of expert e begin; bench/peers.py has it, too.
static int64_t offset_at(const Shape *s, int64_t e)
{
    int64_t before = 0, all = 0;
    for (int64_t i = 0; i < shape_get(s, "E"); i++) {
        all += 500 + i * 7919 % 1000;
        before += i < e ? 500 + i * 7919 % 1000 : 0;
    }
    return shape_get(s, "R") * before / all;
}

static void prepare_grouped(SweepCase *c)
{
    kiln_grouped_gemm_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t E = shape_get(s, "E"), R = shape_get(s, "R"), N = shape_get(s, "N"), K = shape_get(s, "K");
    const kiln_type type = shape_type(s, "T");
    int32_t *const offsets = sweep_integers(c, E + 1);
    for (int64_t e = 0; offsets && e <= E; e++) offsets[e] = (int32_t)offset_at(s, e);
    args->a = &sweep_normal(c, "a", type, 1, EXTENTS(R, K))->tensor;
    args->b = &sweep_normal(c, "b", type, 1, EXTENTS(E, N, K))->tensor;
    args->c = &sweep_output(c, "c", type, true, EXTENTS(R, N))->tensor;
    args->offsets = &sweep_made(c, "offsets", KILN_I32, offsets, EXTENTS(E + 1))->tensor;
    args->transpose_b = true;
    SWEEP_WORKSPACE(c, kiln_grouped_gemm, args);
}

static kiln_status call_grouped(SweepCase *c) { return kiln_grouped_gemm(c->ops, NULL, c->own); }

static void refer_grouped(SweepCase *c)
{
    sweep_refer(c, "moe/grouped_gemm.tile", "grouped_gemm", "T=%s, A=a, B=b, OFFSET=offsets, C=c, room=0",
                sweep_type(c, "a"));
}

const SweepFamily sweep_grouped = {
    .name = "grouped",
    .about = "kiln_grouped_gemm over rows of experts that have unlike numbers of them; peer: torch._grouped_mm",
    .ranges = grouped_ranges,
    .small = grouped_small,
    .operations = grouped_operations,
    .bytes = grouped_bytes,
    .prepare = prepare_grouped,
    .call = call_grouped,
    .refer = refer_grouped,
};

// ---- the same with weights in MXFP4

static int64_t padded(int64_t k) { return (k + 127) / 128 * 128; }

static const char *const mxfp4_small[] = { "E/N/K: 4/128/64 8/96/128 2/80/160", "R: 8 64 1..200", "T: bf16", NULL };
static const char *const mxfp4_ranges[] = {
    // gpt-oss 20b and 120b, Qwen 3 30b
    "E/N/K: 32/5760/2880 32/2880/2880 128/5760/2880 128/2880/2880 128/1536/2048 128/2048/768",
    "R: 4 32 128 512 2048 8192 16384 1..1024 1..32768", "T: bf16", NULL
};

static double mxfp4_bytes(const Shape *s)
{
    return get(s, "E") * get(s, "N") * get(s, "K") * 17 / 32 + 2 * get(s, "R") * (get(s, "N") + get(s, "K"));
}

static void prepare_mxfp4(SweepCase *c)
{
    kiln_grouped_mxfp4_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t E = shape_get(s, "E"), R = shape_get(s, "R"), N = shape_get(s, "N"), K = shape_get(s, "K");
    int32_t *const offsets = sweep_integers(c, E + 1);
    for (int64_t e = 0; offsets && e <= E; e++) offsets[e] = (int32_t)offset_at(s, e);
    args->a = &sweep_normal(c, "a", KILN_BF16, 1, EXTENTS(R, K))->tensor;
    args->codes = &sweep_uniform(c, "codes", KILN_U8, 0, 255, EXTENTS(E, N, padded(K) / 2))->tensor;
    args->scales = &sweep_uniform(c, "scales", KILN_U8, 115, 122, EXTENTS(E, N, padded(K) / 32))->tensor;
    args->c = &sweep_output(c, "c", KILN_BF16, true, EXTENTS(R, N))->tensor;
    args->offsets = &sweep_made(c, "offsets", KILN_I32, offsets, EXTENTS(E + 1))->tensor;
    SWEEP_WORKSPACE(c, kiln_grouped_mxfp4, args);
}

static kiln_status call_mxfp4(SweepCase *c) { return kiln_grouped_mxfp4(c->ops, NULL, c->own); }

static void refer_mxfp4(SweepCase *c)
{
    const int E = (int)shape_get(&c->shape, "E"), N = (int)shape_get(&c->shape, "N"),
              blocks = (int)padded(shape_get(&c->shape, "K")) / 128;
    sweep_refer(c, "moe/mxfp4.tile", "grouped_mxfp4",
                "A=a, W=codes[%d][%d][%d][128], S=scales[%d][%d][%d][4], OFFSET=offsets, C=c", E, N, blocks, E, N,
                blocks);
}

const SweepFamily sweep_grouped_mxfp4 = {
    .name = "grouped-mxfp4",
    .about =
        "kiln_grouped_mxfp4, products of experts with weights in MXFP4; peer: torch._grouped_mm with weights of 16 bits",
    .ranges = mxfp4_ranges,
    .small = mxfp4_small,
    .operations = grouped_operations,
    .bytes = mxfp4_bytes,
    .prepare = prepare_mxfp4,
    .call = call_mxfp4,
    .refer = refer_mxfp4,
};

// ---- gradients of the experts' weights: sums over each expert's rows

static void prepare_weights(SweepCase *c)
{
    kiln_grouped_gemm_weights_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t E = shape_get(s, "E"), R = shape_get(s, "R"), N = shape_get(s, "N"), K = shape_get(s, "K");
    const kiln_type type = shape_type(s, "T");
    int32_t *const offsets = sweep_integers(c, E + 1);
    for (int64_t e = 0; offsets && e <= E; e++) offsets[e] = (int32_t)offset_at(s, e);
    args->a = &sweep_normal(c, "a", type, 1, EXTENTS(R, K))->tensor;
    args->dc = &sweep_normal(c, "dc", type, 1, EXTENTS(R, N))->tensor;
    args->db = &sweep_output(c, "db", type, true, EXTENTS(E, N, K))->tensor;
    args->offsets = &sweep_made(c, "offsets", KILN_I32, offsets, EXTENTS(E + 1))->tensor;
    args->transpose_b = true;
}

static kiln_status call_weights(SweepCase *c) { return kiln_grouped_gemm_weights(c->ops, NULL, c->own); }

static void refer_weights(SweepCase *c)
{
    sweep_refer(c, "moe/grouped_gemm.tile", "grouped_gemm_weights", "T=%s, A=a, DC=dc, OFFSET=offsets, DB=db",
                sweep_type(c, "a"));
}

const SweepFamily sweep_grouped_weights = {
    .name = "grouped-weights",
    .about = "kiln_grouped_gemm_weights, the gradients of the weights of grouped; peer: torch._grouped_mm",
    .ranges = grouped_ranges,
    .small = grouped_small,
    .operations = grouped_operations,
    .bytes = grouped_bytes,
    .prepare = prepare_weights,
    .call = call_weights,
    .refer = refer_weights,
};

// ---- the choice of experts: softmax, or sigmoid with the best of groups

static const char *const route_ranges[] = {
    "E/TOP/GROUPS/OP: 32/4/1/softmax 128/8/1/softmax 8/2/1/softmax 128/4/1/softmax 256/8/8/sigmoid 384/8/1/sigmoid",
    "M: 1 16 64 256 1024 4096 16384 1..16384", "T: f32 bf16", NULL
};
static const char *const route_small[] = { "E/TOP/GROUPS/OP: 8/2/1/softmax 32/4/1/softmax 64/8/8/sigmoid",
                                           "M: 1 7 64 1..100", "T: f32", NULL };

static double route_operations(const Shape *s)
{
    (void)s;
    return 0;
}

static double route_bytes(const Shape *s)
{
    return get(s, "M") * (get(s, "E") * shape_type_bytes(s, "T") + 8 * get(s, "TOP"));
}

typedef struct RouteArgs {
    kiln_moe_route_args route;
    kiln_moe_routing routing;
} RouteArgs;

enum { TOP_GROUPS = 4 }; // of those there are

static void prepare_route(SweepCase *c)
{
    RouteArgs *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t M = shape_get(s, "M"), E = shape_get(s, "E"), top = shape_get(s, "TOP"),
                  groups = shape_get(s, "GROUPS");
    args->routing.sigmoid = shape_is(s, "OP", "sigmoid");
    args->routing.renormalise = true;
    if (groups > 1) {
        args->routing.groups = groups;
        args->routing.top_groups = TOP_GROUPS;
    }
    args->route.logits = &sweep_normal(c, "logits", shape_type(s, "T"), 1, EXTENTS(M, E))->tensor;
    args->route.experts =
        &sweep_output(c, "experts", KILN_I32, groups == 1 && !args->routing.sigmoid, EXTENTS(M, top))->tensor;
    args->route.weights = &sweep_output(c, "weights", KILN_F32, true, EXTENTS(M, top))->tensor;
    args->route.routing = &args->routing;
}

static kiln_status call_route(SweepCase *c) { return kiln_moe_route(c->ops, NULL, &((RouteArgs *)c->own)->route); }

static void refer_route(SweepCase *c)
{
    const Shape *const s = &c->shape;
    const int groups = (int)shape_get(s, "GROUPS");
    sweep_refer(c, "moe/route.tile", "moe_route",
                "T=%s, E=%d, KK=%d, SIGMOID=%s, GROUPS=%d, TOPG=%d, LOGIT=logits, ID=experts, WEIGHT=weights, scale=1",
                sweep_type(c, "logits"), (int)shape_get(s, "E"), (int)shape_get(s, "TOP"),
                shape_is(s, "OP", "sigmoid") ? "true" : "false", groups, groups > 1 ? TOP_GROUPS : 1);
}

const SweepFamily sweep_route = {
    .name = "route",
    .about = "kiln_moe_route, weights made to add up to 1; peer: PyTorch's softmax or sigmoid and topk",
    .ranges = route_ranges,
    .small = route_small,
    .operations = route_operations,
    .bytes = route_bytes,
    .prepare = prepare_route,
    .call = call_route,
    .refer = refer_route,
    .samples = 16,
};

// ---- a layer: M tokens, each of TOP of E experts, of F hidden elements

static const char *const layer_ranges[] = {
    // gpt-oss 20b, Qwen 3 30b, Mixtral, DeepSeek V3 on one of 8 devices
    "E/TOP/D/F: 32/4/2880/2880 32/4/2880/2880 128/8/2048/768 8/2/4096/14336 32/8/7168/2048",
    "M: 1 2 4 8 16 32 64 128 256 512 1024 2048 4096 1..64 1..4096", "T: bf16", NULL
};
static const char *const layer_small[] = { "E/TOP/D/F: 8/2/128/64 4/1/64/128 16/4/64/64", "M: 1 7 32 1..64", "T: bf16",
                                           NULL };

static double layer_operations(const Shape *s) { return 6 * get(s, "M") * get(s, "TOP") * get(s, "D") * get(s, "F"); }

static double layer_bytes(const Shape *s)
{
    return 2 * (3 * get(s, "E") * get(s, "D") * get(s, "F") + 2 * get(s, "M") * get(s, "D"));
}

typedef struct LayerArgs {
    kiln_moe_args moe;
    kiln_moe_routing routing;
} LayerArgs;

static void prepare_layer(SweepCase *c)
{
    LayerArgs *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t E = shape_get(s, "E"), D = shape_get(s, "D"), F = shape_get(s, "F"), M = shape_get(s, "M");
    const kiln_type type = shape_type(s, "T");
    kiln_moe_args *const moe = &args->moe;
    args->routing.renormalise = true;
    moe->x = &sweep_normal(c, "x", type, 1, EXTENTS(M, D))->tensor;
    moe->gate_up = &sweep_normal(c, "gate_up", type, 1 / sqrt((double)D), EXTENTS(E, 2 * F, D))->tensor;
    moe->down = &sweep_normal(c, "down", type, 1 / sqrt((double)F), EXTENTS(E, D, F))->tensor;
    moe->logits = &sweep_normal(c, "logits", KILN_F32, 1, EXTENTS(M, E))->tensor;
    moe->out = &sweep_output(c, "out", type, true, EXTENTS(M, D))->tensor;
    moe->top_k = shape_get(s, "TOP");
    moe->routing = &args->routing;
    sweep_between(c, "experts", KILN_I32, EXTENTS(M, moe->top_k));
    sweep_between(c, "weights", KILN_F32, EXTENTS(M, moe->top_k));
    SWEEP_WORKSPACE(c, kiln_moe, moe);
}

static kiln_status call_layer(SweepCase *c) { return kiln_moe(c->ops, NULL, &((LayerArgs *)c->own)->moe); }

// Experts first, of all tokens.
static void refer_layer(SweepCase *c)
{
    const int E = (int)shape_get(&c->shape, "E"), top = (int)shape_get(&c->shape, "TOP");
    sweep_refer_all(c, "moe/route.tile", "moe_route", "E=%d, KK=%d, LOGIT=logits, ID=experts, WEIGHT=weights, scale=1",
                    E, top);
    sweep_refer(
        c, "moe/moe.tile", "moe",
        "T=%s, E=%d, KK=%d, X=x, W1=gate_up, W2=down, ID=experts, WEIGHT=weights, OUT=out, scale=1, alpha=1, limit=0",
        sweep_type(c, "x"), E, top);
}

const SweepFamily sweep_moe = {
    .name = "moe",
    .about = "kiln_moe, a layer from logits to sums, SwiGLU; peer: triton-kernels and torch._grouped_mm",
    .ranges = layer_ranges,
    .small = layer_small,
    .operations = layer_operations,
    .bytes = layer_bytes,
    .prepare = prepare_layer,
    .call = call_layer,
    .refer = refer_layer,
    .samples = 16, // fewer say too little of how large results are
    .slack = 2,
};
