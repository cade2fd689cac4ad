// SPDX-License-Identifier: MIT
// sweep_paged.c - families paged and paged-mixed: kiln_paged_attention over caches whose pages lie in any order. Requests have
// R queries each, in paged-mixed the first alone, the others one; and from half of S keys to S (shape_length).
#include "kiln/ops/paged.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

static const char *const ranges[] = {
    // as the heads of attention
    "H/HKV/D: 32/8/128 32/8/128 64/8/128 8/1/128 16/2/128 40/8/128 64/4/128 64/8/64 16/8/256 32/32/128",
    "PAGE: 16 16 1 32 64 128 256",
    // decoding, drafts, chunks of prompts, prompts
    "B/R: 1/1 4/1 16/1 32/1 64/1 128/1 1..256/1 16/4 64/4 64/2 8/8 1/2048 1/512 4/512 8/256 2/1..2048",
    "S: 512 1024 2048 4096 4096 8192 16384 32768 1..32768 1..8192", "WINDOW: 0 0 0 0 128 1024 4096",
    "SOFTCAP: 0 0 0 0 0 30", "T/TK: bf16/bf16 bf16/bf16 f16/f16 bf16/e4m3", NULL
};
static const char *const small[] = { "H/HKV/D: 4/1/64 4/4/64 8/2/128",
                                     "PAGE: 1 16 64",
                                     "B/R: 1/1 4/1 4/2 1/64 2/1..50",
                                     "S: 64 100..512 1..512",
                                     "WINDOW: 0 0 100",
                                     "SOFTCAP: 0 0 30",
                                     "T/TK: bf16/bf16 f16/f16",
                                     NULL };

static const char *const mixed_ranges[] = {
    "H/HKV/D: 32/8/128 32/8/128 64/8/128 8/1/128 16/2/128 40/8/128 64/8/64 16/8/256", "PAGE: 16 16 32 64",
    // a chunk of a prompt, and the tokens of other requests
    "B/R: 9/512 17/2048 33/512 65/256 129/1024 2..256/2048 2..64/128", "S: 2048 4096 8192 16384 32768 1..8192",
    "WINDOW: 0 0 0 0 128 1024", "SOFTCAP: 0 0 0 0 0 30", "T/TK: bf16/bf16 bf16/bf16 f16/f16 bf16/e4m3", "MIXED: true",
    NULL
};
static const char *const mixed_small[] = { "H/HKV/D: 4/1/64 4/4/64 8/2/128",
                                           "PAGE: 1 16 64",
                                           "B/R: 3/40 5/17 2..6/64",
                                           "S: 100..300 1..512",
                                           "WINDOW: 0 0 100",
                                           "SOFTCAP: 0 0 30",
                                           "T/TK: bf16/bf16 f16/f16",
                                           "MIXED: true",
                                           NULL };

typedef struct Sizes {
    int64_t B, R, S, H, HKV, D, page, window, each; // each: pages of a request
    double softcap;
    bool mixed;
} Sizes;

static Sizes sizes_of(const Shape *s)
{
    const int64_t S = shape_get(s, "S"), page = shape_get(s, "PAGE");
    return (Sizes){ shape_get(s, "B"),
                    shape_get(s, "R"),
                    S,
                    shape_get(s, "H"),
                    shape_get(s, "HKV"),
                    shape_get(s, "D"),
                    page,
                    shape_get(s, "WINDOW"),
                    (S + page - 1) / page,
                    (double)shape_get(s, "SOFTCAP"),
                    shape_get(s, "MIXED") != 0 };
}

static int64_t queries_of(const Sizes *x, int64_t b) { return x->mixed && b > 0 ? 1 : x->R; }
static int64_t tokens_of(const Sizes *x) { return x->mixed ? x->R + x->B - 1 : x->B * x->R; }
// A request has at least its queries' keys.
static void settle(Shape *s)
{
    if (shape_get(s, "S") < 2 * shape_get(s, "R")) shape_set(s, "S", 2 * shape_get(s, "R"));
}

static double pairs_of(const Sizes *x)
{
    double sum = 0;
    for (int64_t b = 0; b < x->B; b++)
        for (int64_t i = 0; i < queries_of(x, b); i++) {
            const int64_t seen = shape_length(x->S, b) - queries_of(x, b) + i + 1;
            sum += (double)(x->window && x->window < seen ? x->window : seen);
        }
    return sum;
}

static double operations(const Shape *s)
{
    const Sizes x = sizes_of(s);
    return x.R * x.H / x.HKV < 64 ? 0 : 4 * pairs_of(&x) * (double)(x.H * x.D);
}

static double bytes(const Shape *s)
{
    const Sizes x = sizes_of(s);
    double keys = 0;
    for (int64_t b = 0; b < x.B; b++) {
        const int64_t n = shape_length(x.S, b);
        const int64_t near = x.window + queries_of(&x, b) - 1;
        keys += (double)(x.window && near < n ? near : n);
    }
    return keys * 2 * (double)(x.HKV * x.D) * shape_type_bytes(s, "TK") + 4.0 * (double)(tokens_of(&x) * x.H * x.D);
}

// Pages in the order of a multiplication by a number that has no factor in common with theirs.
static int32_t page_at(const Sizes *x, int64_t i)
{
    const int64_t n = x->B * x->each, step = n % 7919 ? 7919 : 1;
    return (int32_t)(i * step % n);
}

typedef struct Args {
    kiln_paged_attention_args attention; // what is timed
    kiln_paged_plan plan;
} Args;

// What a step makes once, for all of its layers.
static void make_plan(SweepCase *c, Args *args, const Sizes *x)
{
    int32_t *const offsets = sweep_integers(c, x->B + 1);
    for (int64_t b = 0; offsets && b < x->B; b++) offsets[b + 1] = offsets[b] + (int32_t)queries_of(x, b);
    kiln_paged_attention_args *const a = &args->attention;
    a->q_offsets = &sweep_made(c, "offsets", KILN_I32, offsets, EXTENTS(x->B + 1))->tensor;
    a->max_queries = x->R;
    a->plan = &args->plan;
    kiln_paged_plan_args plan = { .lengths = a->lengths,
                                  .q_offsets = a->q_offsets,
                                  .rows = tokens_of(x),
                                  .max_queries = x->R,
                                  .heads = x->H,
                                  .key_heads = x->HKV,
                                  .size = x->D,
                                  .eight_bit = shape_type(&c->shape, "TK") == KILN_E4M3,
                                  .causal = true,
                                  .window = x->window };
    if (!c->status) sweep_try(c, kiln_paged_plan_size(c->ops, &plan, &plan.memory_bytes));
    if (!c->status) plan.memory = sweep_workspace(c, plan.memory_bytes);
    if (!c->status) sweep_try(c, kiln_paged_plan_make(c->ops, NULL, &plan, &args->plan));
}

static void prepare(SweepCase *c)
{
    Args *const own = sweep_own(c, sizeof *own);
    kiln_paged_attention_args *const args = &own->attention;
    const Sizes x = sizes_of(&c->shape);
    const kiln_type type = shape_type(&c->shape, "T"), cached = shape_type(&c->shape, "TK");
    int32_t *const table = sweep_integers(c, x.B * x.each), *const lengths = sweep_integers(c, x.B);
    for (int64_t i = 0; table && i < x.B * x.each; i++) table[i] = page_at(&x, i);
    for (int64_t b = 0; lengths && b < x.B; b++) lengths[b] = (int32_t)shape_length(x.S, b);
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(tokens_of(&x), x.H, x.D))->tensor;
    args->k = &sweep_normal(c, "k", cached, 1, EXTENTS(x.B * x.each, x.page, x.HKV, x.D))->tensor;
    args->v = &sweep_normal(c, "v", cached, 1, EXTENTS(x.B * x.each, x.page, x.HKV, x.D))->tensor;
    args->table = &sweep_made(c, "table", KILN_I32, table, EXTENTS(x.B, x.each))->tensor;
    args->lengths = &sweep_made(c, "lengths", KILN_I32, lengths, EXTENTS(x.B))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(tokens_of(&x), x.H, x.D))->tensor;
    args->causal = true;
    args->window = x.window;
    args->softcap = x.softcap;
    args->max_keys = x.S;
    if (x.mixed) make_plan(c, own, &x);
    SWEEP_WORKSPACE(c, kiln_paged_attention, args);
}

static kiln_status call(SweepCase *c) { return kiln_paged_attention(c->ops, NULL, &((Args *)c->own)->attention); }

static void refer(SweepCase *c)
{
    const Sizes x = sizes_of(&c->shape);
    sweep_refer(
        c, "attention/paged.tile", "paged_attention",
        "T=%s, C=%s, D=%d, G=%d, PS=%d, WINDOW=%d, CAP=%s, Q=q, K=k, V=v, TABLE=table, LENGTH=lengths%s, O=out, "
        "splits=1, scale=%.17g, cap=%.17g",
        sweep_type(c, "q"), sweep_type(c, "k"), (int)x.D, (int)(x.H / x.HKV), (int)x.page, (int)x.window,
        x.softcap > 0 ? "true" : "false", x.mixed ? ", QOffset=offsets" : "", 1 / sqrt((double)x.D), x.softcap);
}

const SweepFamily sweep_paged = {
    .name = "paged",
    .about =
        "kiln_paged_attention: decoding, drafts and chunks of prompts; peer: FlashInfer, on a CPU PyTorch over gathered pages",
    .ranges = ranges,
    .small = small,
    .settle = settle,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
    .slack = 2, // weights are of T, and keys of e4m3 as they are
};

const SweepFamily sweep_paged_mixed = {
    .name = "paged-mixed",
    .about =
        "kiln_paged_attention with its plan made: a chunk of a prompt and single tokens in one call; peer: FlashInfer, on a CPU "
        "PyTorch over gathered pages",
    .ranges = mixed_ranges,
    .small = mixed_small,
    .settle = settle,
    .operations = operations,
    .bytes = bytes,
    .prepare = prepare,
    .call = call,
    .refer = refer,
    .slack = 2,
};
