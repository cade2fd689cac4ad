// SPDX-License-Identifier: MIT
// sweep_sparse.c - families nsa, nsa-whole, nsa-gradients, sparse, sparse-decode, seer and vertical-slash: attention to
// blocks of keys that lists name. A list has a query's own block and others before it, evenly spaced; bench/peers.py
// makes the same.
#include "kiln/ops/nsa.h"
#include "kiln/ops/sparse.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

static double get(const Shape *s, const char *name) { return (double)shape_get(s, name); }

// Block j of the list of a query in block `own`; -1: none.
static int64_t listed(int64_t own, int64_t j, int64_t places)
{
    const int64_t step = own / places > 1 ? own / places : 1;
    return own - j * step < 0 ? -1 : own - j * step;
}

// How many keys queries first .. last - 1 see together.
static double pairs_of(int64_t queries, int64_t block, int64_t places)
{
    double sum = 0;
    for (int64_t own = 0; own * block < queries; own++) {
        const int64_t rows = queries - own * block < block ? queries - own * block : block;
        for (int64_t j = 0; j < places; j++)
            if (listed(own, j, places) >= 0) sum += j ? (double)(rows * block) : (double)rows * (double)(rows + 1) / 2;
    }
    return sum;
}

// ---- native sparse attention, the selected branch

static const char *const nsa_ranges[] = {
    // heads 16 to a key head, as the authors'; fla's own sizes
    "H/HKV/D: 64/4/128 64/4/128 16/1/128 128/8/64 64/1/128 32/2/64",
    "B/S: 1/8192 2/4096 1/32768 4/4096 1/16384 1/1..16384 8/1000", "BS/PLACES: 64/16 64/16 32/8 64/32 128/16",
    "T: bf16", NULL
};
static const char *const nsa_small[] = { "H/HKV/D: 16/1/64 32/2/64", "B/S: 1/200 2/128 1/64..300",
                                         "BS/PLACES: 16/2 32/4", "T: bf16", NULL };

static double nsa_operations(const Shape *s)
{
    return 4 * get(s, "B") * pairs_of(shape_get(s, "S"), shape_get(s, "BS"), shape_get(s, "PLACES")) * get(s, "H") *
           get(s, "D");
}

static double nsa_bytes(const Shape *s)
{
    return get(s, "B") * get(s, "S") *
           (4 * (get(s, "H") + get(s, "HKV")) * get(s, "D") + 4 * get(s, "HKV") * get(s, "PLACES"));
}

static void make_selected(SweepCase *c, kiln_nsa_selected_args *args, bool checked)
{
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), H = shape_get(s, "H"), HKV = shape_get(s, "HKV"),
                  D = shape_get(s, "D");
    const int64_t places = shape_get(s, "PLACES");
    const kiln_type type = shape_type(s, "T");
    int32_t *const lists = sweep_integers(c, B * S * HKV * places);
    for (int64_t i = 0; lists && i < B * S * HKV * places; i++)
        lists[i] = (int32_t)listed(i / places / HKV % S / shape_get(s, "BS"), i % places, places);
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(B * S, H, D))->tensor;
    args->k = &sweep_normal(c, "k", type, 1, EXTENTS(B * S, HKV, D))->tensor;
    args->v = &sweep_normal(c, "v", type, 1, EXTENTS(B * S, HKV, D))->tensor;
    args->block_indices = &sweep_made(c, "lists", KILN_I32, lists, EXTENTS(B * S, HKV, places))->tensor;
    args->out = &sweep_output(c, "out", type, checked, EXTENTS(B * S, H, D))->tensor;
    args->sequences = B;
    args->block_size = shape_get(s, "BS");
    SWEEP_WORKSPACE(c, kiln_nsa_selected_forward, args);
}

static void prepare_nsa(SweepCase *c) { make_selected(c, sweep_own(c, sizeof(kiln_nsa_selected_args)), true); }

static kiln_status call_nsa(SweepCase *c) { return kiln_nsa_selected_forward(c->ops, NULL, c->own); }

static double scale_of(const Shape *s) { return 1 / sqrt(get(s, "D")); }

// Build values and arguments that references of the selected branch share.
static void print_selected(const SweepCase *c, char *text, size_t bytes)
{
    const Shape *const s = &c->shape;
    snprintf(text, bytes, "T=%s, D=%d, DV=%d, G=%d, BS=%d, Q=q, K=k, V=v, max_len=%d, scale=%.17g", sweep_type(c, "q"),
             (int)shape_get(s, "D"), (int)shape_get(s, "D"), (int)(shape_get(s, "H") / shape_get(s, "HKV")),
             (int)shape_get(s, "BS"), (int)shape_get(s, "S"), scale_of(s));
}

static void refer_nsa(SweepCase *c)
{
    char selected[192];
    print_selected(c, selected, sizeof selected);
    sweep_refer(c, "nsa/selected.tile", "nsa_selected", "%s, Idx=lists, O=out, sequences=%d", selected,
                (int)shape_get(&c->shape, "B"));
}

const SweepFamily sweep_nsa = {
    .name = "nsa",
    .about = "kiln_nsa_selected_forward, the selected branch of native sparse attention; peer: fla",
    .ranges = nsa_ranges,
    .small = nsa_small,
    .operations = nsa_operations,
    .bytes = nsa_bytes,
    .prepare = prepare_nsa,
    .call = call_nsa,
    .refer = refer_nsa,
};

// ---- all branches with their gates: compared over given lists, timed with the lists that the call chooses itself

typedef struct WholeArgs {
    kiln_nsa_args nsa;
    bool chooses;
} WholeArgs;

enum { NSA_WINDOW = 512 };

// Sequences of S tokens.
static void make_offsets(SweepCase *c)
{
    const int64_t B = shape_get(&c->shape, "B"), S = shape_get(&c->shape, "S");
    int32_t *const offsets = sweep_integers(c, B + 1);
    for (int64_t b = 0; offsets && b <= B; b++) offsets[b] = (int32_t)(b * S);
    sweep_made(c, "offsets", KILN_I32, offsets, EXTENTS(B + 1));
}

static void prepare_whole(SweepCase *c)
{
    WholeArgs *const whole = sweep_own(c, sizeof *whole);
    kiln_nsa_args *const args = &whole->nsa;
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), H = shape_get(s, "H"), HKV = shape_get(s, "HKV"),
                  D = shape_get(s, "D");
    const int64_t places = shape_get(s, "PLACES");
    const kiln_type type = shape_type(s, "T");
    int32_t *const lists = sweep_integers(c, B * S * HKV * places);
    for (int64_t i = 0; lists && i < B * S * HKV * places; i++)
        lists[i] = (int32_t)listed(i / places / HKV % S / shape_get(s, "BS"), i % places, places);
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(B * S, H, D))->tensor;
    args->k = &sweep_normal(c, "k", type, 1, EXTENTS(B * S, HKV, D))->tensor;
    args->v = &sweep_normal(c, "v", type, 1, EXTENTS(B * S, HKV, D))->tensor;
    args->g_compressed = &sweep_uniform(c, "g_compressed", type, 0, 1, EXTENTS(B * S, H))->tensor;
    args->g_selected = &sweep_uniform(c, "g_selected", type, 0, 1, EXTENTS(B * S, H))->tensor;
    args->g_window = &sweep_uniform(c, "g_window", type, 0, 1, EXTENTS(B * S, H))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(B * S, H, D))->tensor;
    make_offsets(c);
    sweep_between(c, "pooled_k", type, EXTENTS(B * S / shape_get(s, "BS") + B, HKV, D));
    sweep_between(c, "pooled_v", type, EXTENTS(B * S / shape_get(s, "BS") + B, HKV, D));
    sweep_between(c, "compressed", type, EXTENTS(B * S, H, D));
    sweep_between(c, "selected", type, EXTENTS(B * S, H, D));
    sweep_between(c, "near", type, EXTENTS(B * S, H, D));
    args->sequences = B;
    args->block_size = shape_get(s, "BS");
    args->blocks = places;
    args->window = NSA_WINDOW;
    SWEEP_WORKSPACE(c, kiln_nsa_forward, args);
    const size_t chosen = args->workspace_bytes;
    args->blocks = 0; // the lists say it
    args->block_indices = &sweep_made(c, "lists", KILN_I32, lists, EXTENTS(B * S, HKV, places))->tensor;
    SWEEP_WORKSPACE(c, kiln_nsa_forward, args);
    if (!c->status && chosen > args->workspace_bytes)
        args->workspace = sweep_workspace(c, args->workspace_bytes = chosen);
}

static kiln_status call_whole(SweepCase *c)
{
    WholeArgs *const whole = c->own;
    if (whole->chooses) {
        whole->nsa.block_indices = NULL;
        whole->nsa.blocks = shape_get(&c->shape, "PLACES");
    }
    whole->chooses = true;
    return kiln_nsa_forward(c->ops, NULL, &whole->nsa);
}

// Of its branches, of which each reference has an instance for a head of a token, and draws the same ones.
static void refer_whole(SweepCase *c)
{
    const Shape *const s = &c->shape;
    const int D = (int)shape_get(s, "D");
    const char *const type = sweep_type(c, "q");
    char selected[192];
    print_selected(c, selected, sizeof selected);
    for (int i = 0; i < 2; i++)
        sweep_refer_all(c, "nsa/compress.tile", "nsa_pool", "T=%s, D=%d, BS=%d, X=%s, Offset=offsets, Y=%s, max_len=%d",
                        type, D, (int)shape_get(s, "BS"), i ? "v" : "k", i ? "pooled_v" : "pooled_k",
                        (int)shape_get(s, "S"));
    sweep_refer(
        c, "nsa/compress.tile", "nsa_compressed",
        "T=%s, D=%d, DV=%d, G=%d, BS=%d, Q=q, K=pooled_k, V=pooled_v, Offset=offsets, O=compressed, max_len=%d, "
        "scale=%.17g",
        type, D, D, (int)(shape_get(s, "H") / shape_get(s, "HKV")), (int)shape_get(s, "BS"), (int)shape_get(s, "S"),
        scale_of(s));
    sweep_refer(c, "nsa/selected.tile", "nsa_selected", "%s, Idx=lists, O=selected, sequences=%d", selected,
                (int)shape_get(s, "B"));
    sweep_refer(c, "attention/varlen.tile", "attention_varlen",
                "T=%s, D=%d, DV=%d, CAUSAL=true, WINDOW=%d, Q=q, K=k, V=v, QOffset=offsets, KOffset=offsets, O=near, "
                "max_queries=%d, scale=%.17g",
                type, D, D, NSA_WINDOW, (int)shape_get(s, "S"), scale_of(s));
    sweep_refer(
        c, "nsa/combine.tile", "nsa_combine",
        "T=%s, TG=%s, DV=%d, Oc=compressed, Os=selected, Ow=near, Gc=g_compressed, Gs=g_selected, Gw=g_window, O=out",
        type, type, D);
}

static double whole_operations(const Shape *s)
{
    const double S = get(s, "S"),
                 pairs = S * fmin(NSA_WINDOW, S / 2) +
                         S * S / get(s, "BS"); // the window's, and those of choosing and of the pooled keys
    return nsa_operations(s) + 4 * get(s, "B") * get(s, "H") * get(s, "D") * pairs;
}

const SweepFamily sweep_nsa_whole = {
    .name = "nsa-whole",
    .about = "kiln_nsa_forward, all branches of native sparse attention; peer: fla, whose window is FlashAttention's",
    .ranges = nsa_ranges,
    .small = nsa_small,
    .operations = whole_operations,
    .bytes = nsa_bytes,
    .prepare = prepare_whole,
    .call = call_whole,
    .refer = refer_whole,
    .samples = 16,
    .slack = 2,
};

// ---- gradients of the selected branch; that of q is compared

typedef struct NsaGradientArgs {
    kiln_nsa_selected_args forward;
    kiln_nsa_selected_backward_args backward;
} NsaGradientArgs;

// The lists of tokens as nsa_backward_queries takes them: sequence n begins n places later; all of them are wanted.
static void make_numbers(SweepCase *c)
{
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), HKV = shape_get(s, "HKV"),
                  places = shape_get(s, "PLACES"), slots = B * S + B;
    int32_t *const numbers = sweep_integers(c, slots * HKV), *const blocks = sweep_integers(c, slots * HKV * places),
                   *const wanted = sweep_integers(c, slots * HKV * places);
    for (int64_t i = 0; numbers && blocks && wanted && i < B * S * HKV; i++) {
        const int64_t token = i / HKV, at = i + token / S * HKV;
        for (int64_t j = 0; j < places; j++) {
            const int64_t block = listed(token % S / shape_get(s, "BS"), j, places);
            if (block < 0) continue;
            wanted[at * places + numbers[at]] = 1;
            blocks[at * places + numbers[at]++] = (int32_t)block;
        }
    }
    sweep_made(c, "numbers", KILN_I32, numbers, EXTENTS(slots, HKV));
    sweep_made(c, "blocks", KILN_I32, blocks, EXTENTS(slots, HKV, places));
    sweep_made(c, "wanted", KILN_I32, wanted, EXTENTS(slots, HKV, places));
}

static void prepare_nsa_gradients(SweepCase *c)
{
    NsaGradientArgs *const args = sweep_own(c, sizeof *args);
    make_selected(c, &args->forward, false);
    const kiln_nsa_selected_args *const f = &args->forward;
    if (c->status) return;
    args->forward.lse = &sweep_output(c, "lse", KILN_F32, false, 2, f->q->shape)->tensor;
    kiln_nsa_selected_backward_args *const back = &args->backward;
    *back = (kiln_nsa_selected_backward_args){ .q = f->q,
                                               .k = f->k,
                                               .v = f->v,
                                               .out = f->out,
                                               .lse = args->forward.lse,
                                               .sequences = f->sequences,
                                               .block_indices = f->block_indices,
                                               .block_size = f->block_size };
    back->dout = &sweep_normal(c, "dout", f->q->type, 1, 3, f->q->shape)->tensor;
    back->dq = &sweep_output(c, "dq", f->q->type, true, 3, f->q->shape)->tensor;
    back->dk = &sweep_output(c, "dk", f->q->type, false, 3, f->k->shape)->tensor;
    back->dv = &sweep_output(c, "dv", f->q->type, false, 3, f->v->shape)->tensor;
    make_offsets(c);
    make_numbers(c);
    sweep_between(c, "lse2", KILN_F32, 2, f->q->shape);
    sweep_between(c, "delta", KILN_F32, 2, f->q->shape);
    SWEEP_WORKSPACE(c, kiln_nsa_selected_backward, back);
    if (!c->status) sweep_try(c, kiln_nsa_selected_forward(c->ops, NULL, &args->forward));
}

static kiln_status call_nsa_gradients(SweepCase *c)
{
    return kiln_nsa_selected_backward(c->ops, NULL, &((NsaGradientArgs *)c->own)->backward);
}

static void refer_nsa_gradients(SweepCase *c)
{
    static const char file[] = "nsa/backward.tile";
    const Shape *const s = &c->shape;
    char selected[192];
    print_selected(c, selected, sizeof selected);
    sweep_refer_all(c, file, "nsa_backward_rows",
                    "T=%s, D=%d, DV=%d, G=%d, O=out, dO=dout, LSE=lse, LSE2=lse2, Delta=delta", sweep_type(c, "q"),
                    (int)shape_get(s, "D"), (int)shape_get(s, "D"), (int)(shape_get(s, "H") / shape_get(s, "HKV")));
    sweep_refer(
        c, file, "nsa_backward_queries",
        "%s, BT=1, dO=dout, LSE2=lse2, Delta=delta, Number=numbers, Block=blocks, Want=wanted, Offset=offsets, dQ=dq",
        selected);
}

static double nsa_gradient_operations(const Shape *s) { return 2.5 * nsa_operations(s); }
static double nsa_gradient_bytes(const Shape *s) { return 3 * nsa_bytes(s); }

const SweepFamily sweep_nsa_gradients = {
    .name = "nsa-gradients",
    .about = "kiln_nsa_selected_backward; peer: fla",
    .ranges = nsa_ranges,
    .small = nsa_small,
    .operations = nsa_gradient_operations,
    .bytes = nsa_gradient_bytes,
    .prepare = prepare_nsa_gradients,
    .call = call_nsa_gradients,
    .refer = refer_nsa_gradients,
    .slack = 2,
};

// ---- block-sparse prompts by lists, one for 128 or 64 queries

static const char *const sparse_ranges[] = { "H/HKV/D: 32/32/128 32/8/128 64/8/128 16/16/64",
                                             "B/S: 1/8192 1/32768 2/4096 1/16384 1/1..16384",
                                             "BS: 64 64 128",
                                             "PLACES: 16 32 64 8 4",
                                             "T: bf16 f16",
                                             NULL };
static const char *const sparse_small[] = {
    "H/HKV/D: 2/1/64 4/4/64", "B/S: 1/256 1/100..500", "BS: 64", "PLACES: 2 4", "T: bf16 f16", NULL
};

static double sparse_operations(const Shape *s)
{
    return 4 * get(s, "B") * pairs_of(shape_get(s, "S"), shape_get(s, "BS"), shape_get(s, "PLACES")) * get(s, "H") *
           get(s, "D");
}

static double sparse_bytes(const Shape *s)
{
    return 4 * get(s, "B") * get(s, "S") * (get(s, "H") + get(s, "HKV")) * get(s, "D");
}

static void prepare_sparse(SweepCase *c)
{
    kiln_block_sparse_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), H = shape_get(s, "H"), HKV = shape_get(s, "HKV"),
                  D = shape_get(s, "D");
    const int64_t places = shape_get(s, "PLACES"), block = shape_get(s, "BS"), blocks = (S + block - 1) / block;
    const kiln_type type = shape_type(s, "T");
    int32_t *const lists = sweep_integers(c, B * HKV * blocks * places);
    for (int64_t i = 0; lists && i < B * HKV * blocks * places; i++)
        lists[i] = (int32_t)listed(i / places % blocks, i % places, places);
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(B, S, H, D))->tensor;
    args->k = &sweep_normal(c, "k", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->v = &sweep_normal(c, "v", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->list = &sweep_made(c, "lists", KILN_I32, lists, EXTENTS(B, HKV, blocks, places))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(B, S, H, D))->tensor;
    args->causal = true;
    args->query_block = args->key_block = block;
    SWEEP_WORKSPACE(c, kiln_block_sparse, args);
}

static kiln_status call_sparse(SweepCase *c) { return kiln_block_sparse(c->ops, NULL, c->own); }

// Over a list of each block of queries, or a mask.
static void refer_blocks(SweepCase *c, int block, const char *chosen)
{
    const Shape *const s = &c->shape;
    const int D = (int)shape_get(s, "D"), S = (int)shape_get(s, "S");
    sweep_refer(
        c, "sparse/block.tile", "block_sparse",
        "T=%s, D=%d, DV=%d, CAUSAL=true, BQ=%d, BK=%d, Q=q, K=k, V=v, %s, O=out, max_queries=%d, max_keys=%d, room=0, "
        "first_row=0, scale=%.17g",
        sweep_type(c, "q"), D, D, block, block, chosen, S, S, scale_of(s));
}

static void refer_sparse(SweepCase *c) { refer_blocks(c, (int)shape_get(&c->shape, "BS"), "LIST=lists"); }

const SweepFamily sweep_sparse = {
    .name = "sparse",
    .about = "kiln_block_sparse by lists, causal; peer: PyTorch's flex_attention, on a CPU its attention with a mask",
    .ranges = sparse_ranges,
    .small = sparse_small,
    .operations = sparse_operations,
    .bytes = sparse_bytes,
    .prepare = prepare_sparse,
    .call = call_sparse,
    .refer = refer_sparse,
};

// ---- the same in decoding: one query of each request, lists of blocks over a contiguous cache

static const char *const decode_ranges[] = { "H/HKV/D: 32/8/128 32/8/128 64/8/128 16/2/128",
                                             "B: 1 8 32 64 1..64",
                                             "S: 8192 16384 32768 65536 1..65536",
                                             "BS: 64 32 128",
                                             "PLACES: 16 32 64",
                                             "T: bf16 f16",
                                             NULL };
static const char *const decode_small[] = {
    "H/HKV/D: 4/1/64 8/2/128", "B: 1 3", "S: 512 100..1000", "BS: 32 64", "PLACES: 2 4", "T: bf16 f16", NULL
};

// Keys that the list of the last query reaches.
static double keys_of(const Shape *s)
{
    const int64_t S = shape_get(s, "S"), block = shape_get(s, "BS"), own = (S - 1) / block;
    double sum = 0;
    for (int64_t j = 0; j < shape_get(s, "PLACES"); j++)
        if (listed(own, j, shape_get(s, "PLACES")) >= 0) sum += j ? (double)block : (double)(S - own * block);
    return sum;
}

static double decode_operations(const Shape *s)
{
    (void)s;
    return 0;
}

static double decode_bytes(const Shape *s)
{
    return 4 * get(s, "B") * get(s, "D") * (keys_of(s) * get(s, "HKV") + get(s, "H"));
}

static void prepare_decode(SweepCase *c)
{
    kiln_block_sparse_decode_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), H = shape_get(s, "H"), HKV = shape_get(s, "HKV"),
                  D = shape_get(s, "D");
    const int64_t places = shape_get(s, "PLACES"), block = shape_get(s, "BS");
    const kiln_type type = shape_type(s, "T");
    int32_t *const lists = sweep_integers(c, B * HKV * places), *const lengths = sweep_integers(c, B);
    for (int64_t i = 0; lists && i < B * HKV * places; i++)
        lists[i] = (int32_t)listed((S - 1) / block, i % places, places);
    for (int64_t b = 0; lengths && b < B; b++) lengths[b] = (int32_t)S;
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(B, H, D))->tensor;
    args->k = &sweep_normal(c, "k", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->v = &sweep_normal(c, "v", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->lengths = &sweep_made(c, "lengths", KILN_I32, lengths, EXTENTS(B))->tensor;
    args->list = &sweep_made(c, "lists", KILN_I32, lists, EXTENTS(B, HKV, places))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(B, H, D))->tensor;
    args->key_block = block;
    SWEEP_WORKSPACE(c, kiln_block_sparse_decode, args);
}

static kiln_status call_decode(SweepCase *c) { return kiln_block_sparse_decode(c->ops, NULL, c->own); }

static void refer_decode(SweepCase *c)
{
    const Shape *const s = &c->shape;
    const int D = (int)shape_get(s, "D");
    sweep_refer(
        c, "sparse/decode.tile", "sparse_decode",
        "T=%s, D=%d, DV=%d, G=%d, BS=%d, Q=q, K=k, V=v, LIST=lists, LENGTH=lengths, O=out, splits=1, scale=%.17g",
        sweep_type(c, "q"), D, D, (int)(shape_get(s, "H") / shape_get(s, "HKV")), (int)shape_get(s, "BS"), scale_of(s));
}

const SweepFamily sweep_sparse_decode = {
    .name = "sparse-decode",
    .about =
        "kiln_block_sparse_decode by lists over a contiguous cache; peer: PyTorch over gathered blocks, FlashInfer over them as pages",
    .ranges = decode_ranges,
    .small = decode_small,
    .operations = decode_operations,
    .bytes = decode_bytes,
    .prepare = prepare_decode,
    .call = call_decode,
    .refer = refer_decode,
};

// ---- SeerAttention: a mask of the TOP best scores of blocks, then attention under it

static const char *const seer_ranges[] = { "H/HKV/D: 32/32/128 32/8/128 16/16/64",
                                           "B/S: 1/8192 1/32768 2/4096 1/16384 1/64..16384", "TOP: 8 16 32 64",
                                           "T: bf16 f16", NULL };
static const char *const seer_small[] = { "H/HKV/D: 2/1/64 4/4/64", "B/S: 1/256 1/100..500", "TOP: 2 4", "T: bf16 f16",
                                          NULL };

enum { SEER_BLOCK = 64 };
static int64_t seer_blocks(const Shape *s) { return (shape_get(s, "S") + SEER_BLOCK - 1) / SEER_BLOCK; }

static double seer_operations(const Shape *s)
{
    double pairs = 0;
    for (int64_t i = 0; i < seer_blocks(s); i++) pairs += fmin((double)i + 0.5, get(s, "TOP"));
    return 4 * get(s, "B") * get(s, "H") * get(s, "D") * pairs * SEER_BLOCK * SEER_BLOCK;
}

static double seer_bytes(const Shape *s)
{
    return sparse_bytes(s) + 4 * get(s, "B") * get(s, "H") * pow((double)seer_blocks(s), 2);
}

typedef struct SeerArgs {
    kiln_block_mask_args mask;
    kiln_block_sparse_args attention;
} SeerArgs;

static void prepare_seer(SweepCase *c)
{
    SeerArgs *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), H = shape_get(s, "H"), HKV = shape_get(s, "HKV"),
                  D = shape_get(s, "D"), blocks = seer_blocks(s);
    const kiln_type type = shape_type(s, "T");
    const kiln_tensor *const mask = &sweep_output(c, "mask", KILN_U8, true, EXTENTS(B, H, blocks, blocks))->tensor;
    args->mask =
        (kiln_block_mask_args){ .scores =
                                    &sweep_normal(c, "scores", KILN_F32, 1, EXTENTS(B, H, blocks, blocks))->tensor,
                                .mask = mask,
                                .queries = S,
                                .keys = S,
                                .causal = true,
                                .top = shape_get(s, "TOP") };
    args->attention.q = &sweep_normal(c, "q", type, 1, EXTENTS(B, S, H, D))->tensor;
    args->attention.k = &sweep_normal(c, "k", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->attention.v = &sweep_normal(c, "v", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->attention.out = &sweep_output(c, "out", type, true, EXTENTS(B, S, H, D))->tensor;
    args->attention.mask = mask;
    args->attention.causal = true;
    SWEEP_WORKSPACE(c, kiln_block_sparse, &args->attention);
}

static kiln_status call_seer(SweepCase *c)
{
    const SeerArgs *const args = c->own;
    const kiln_status status = kiln_block_mask(c->ops, NULL, &args->mask);
    return status ? status : kiln_block_sparse(c->ops, NULL, &args->attention);
}

// Of the mask some rows; attention under the mask as it is.
static void refer_seer(SweepCase *c)
{
    const Shape *const s = &c->shape;
    sweep_refer(c, "sparse/lists.tile", "block_mask",
                "CAUSAL=true, SCORE=scores, MASK=mask, S=%d, SKV=%d, top=%d, whole=0, threshold=0",
                (int)shape_get(s, "S"), (int)shape_get(s, "S"), (int)shape_get(s, "TOP"));
    refer_blocks(c, SEER_BLOCK, "MASK=mask");
}

const SweepFamily sweep_seer = {
    .name = "seer",
    .about =
        "kiln_block_mask of a gate's scores, then kiln_block_sparse; peer: PyTorch's topk and flex_attention, on a CPU its attention with a mask",
    .ranges = seer_ranges,
    .small = seer_small,
    .operations = seer_operations,
    .bytes = seer_bytes,
    .prepare = prepare_seer,
    .call = call_seer,
    .refer = refer_seer,
    .samples = 16,
};

// ---- vertical-slash attention over COLUMNS columns and DIAGONALS diagonals, evenly spaced

static const char *const slash_ranges[] = { "H/HKV/D: 32/32/128 32/8/128 1/1/64 16/16/64",
                                            "B/S: 1/16384 1/8192 1/32768 1/65536 1/256..16384",
                                            "COLUMNS/DIAGONALS: 1000/200 1000/1000 500/700 100/800", "T: bf16 f16",
                                            NULL };
static const char *const slash_small[] = { "H/HKV/D: 2/1/64 2/2/64", "B/S: 1/300 1/128..400",
                                           "COLUMNS/DIAGONALS: 10/5 20/9", "T: bf16 f16", NULL };

static void slash_settle(Shape *s)
{
    const int64_t most = shape_get(s, "S") / 2;
    if (shape_get(s, "COLUMNS") > most) shape_set(s, "COLUMNS", most);
    if (shape_get(s, "DIAGONALS") > most) shape_set(s, "DIAGONALS", most);
}

static int64_t spaced(const Shape *s, int64_t i, const char *of) { return i * (shape_get(s, "S") / shape_get(s, of)); }

// Blocks of 64 keys that the diagonals reach from block `own` of queries, as the authors merge them, from the lowest
// key up: how many keys they have up to `key`, and whether it is one of them.
static int64_t count_reached(const Shape *s, int64_t own, int64_t key, bool *is_one)
{
    const int64_t end = (own + 1) * 64, S = shape_get(s, "S"), step = S / shape_get(s, "DIAGONALS");
    int64_t keys = 0, reach = -128;
    *is_one = false;
    for (int64_t t = shape_get(s, "DIAGONALS") - 1; t >= 0; t--) {
        const int64_t d = t * step, x = end - d > 64 ? end - d : 64;
        if (d >= end || d >= S || x <= reach) continue;
        const int64_t at = x > reach + 64 ? x - 64 : reach;
        if (at > key) break;
        keys += key - at < 64 ? key - at + 1 : 64;
        *is_one |= key < at + 64;
        reach = at + 64;
    }
    return keys;
}

static double slash_pairs(const Shape *s)
{
    const int64_t S = shape_get(s, "S");
    double pairs = 0;
    bool is_one;
    for (int64_t own = 0; own * 64 < S; own++)
        pairs += 64 * ((double)count_reached(s, own, own * 64 + 63, &is_one) - 32);
    return pairs + (double)S * get(s, "COLUMNS") / 2; // columns after the query's own are few
}

static double slash_operations(const Shape *s) { return 4 * get(s, "B") * get(s, "H") * get(s, "D") * slash_pairs(s); }
static double slash_bytes(const Shape *s) { return sparse_bytes(s); }

static void prepare_slash(SweepCase *c)
{
    kiln_vertical_slash_args *const args = sweep_own(c, sizeof *args);
    const Shape *const s = &c->shape;
    const int64_t B = shape_get(s, "B"), S = shape_get(s, "S"), H = shape_get(s, "H"), HKV = shape_get(s, "HKV"),
                  D = shape_get(s, "D");
    const int64_t columns = shape_get(s, "COLUMNS"), diagonals = shape_get(s, "DIAGONALS");
    const kiln_type type = shape_type(s, "T");
    int32_t *const vertical = sweep_integers(c, B * H * columns), *const slash = sweep_integers(c, B * H * diagonals);
    for (int64_t i = 0; vertical && i < B * H * columns; i++) vertical[i] = (int32_t)spaced(s, i % columns, "COLUMNS");
    for (int64_t i = 0; slash && i < B * H * diagonals; i++) slash[i] = (int32_t)spaced(s, i % diagonals, "DIAGONALS");
    args->q = &sweep_normal(c, "q", type, 1, EXTENTS(B, S, H, D))->tensor;
    args->k = &sweep_normal(c, "k", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->v = &sweep_normal(c, "v", type, 1, EXTENTS(B, S, HKV, D))->tensor;
    args->vertical = &sweep_made(c, "vertical", KILN_I32, vertical, EXTENTS(B, H, columns))->tensor;
    args->slash = &sweep_made(c, "slash", KILN_I32, slash, EXTENTS(B, H, diagonals))->tensor;
    args->out = &sweep_output(c, "out", type, true, EXTENTS(B, S, H, D))->tensor;
    SWEEP_WORKSPACE(c, kiln_vertical_slash, args);
}

static kiln_status call_slash(SweepCase *c) { return kiln_vertical_slash(c->ops, NULL, c->own); }

static void refer_slash(SweepCase *c)
{
    sweep_refer(c, "sparse/vertical_slash_lists.tile", "vertical_slash_attention",
                "T=%s, D=%d, Q=q, K=k, V=v, VERTICAL=vertical, SLASH=slash, O=out, scale=%.17g", sweep_type(c, "q"),
                (int)shape_get(&c->shape, "D"), scale_of(&c->shape));
}

const SweepFamily sweep_vertical_slash = {
    .name = "vertical-slash",
    .about =
        "kiln_vertical_slash over given columns and diagonals; peer: PyTorch's flex_attention, on a CPU its attention with a mask",
    .ranges = slash_ranges,
    .small = slash_small,
    .settle = slash_settle,
    .operations = slash_operations,
    .bytes = slash_bytes,
    .prepare = prepare_slash,
    .call = call_slash,
    .refer = refer_slash,
    .samples = 16,
};
