/* SPDX-License-Identifier: MIT */
/* transformer_block.c - a transformer block from operators alone: norms, queries, keys and values by weights of 4 bits, grouped-query
 * attention over a paged cache with rotary embedding, a mixture of experts. A prompt and tokens one by one after it must agree with all
 * of them at once, by the same weights in 16 bits.
 *
 *     cc transformer_block.c -lkiln -lm -o transformer_block && ./transformer_block cpu        (or cuda:0)
 */
#include <kiln/ops/gemm.h>
#include <kiln/ops/moe.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/paged.h>
#include <kiln/ops/quant.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { E = 256, H = 8, HKV = 2, D = 32, QKV = (H + 2 * HKV) * D, F = 128, EXPERTS = 4, CHOSEN = 2 };
enum { GROUP = 128, TOKENS = 12, PROMPT = 9, PAGE = 8, PAGES = 2, ARENA = 1 << 26 };

static kiln_device *device;
static kiln_ops *ops;
static char *arena; /* of ARENA bytes */
static size_t used;

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

/* A piece of the arena, with what the host has, if anything. */
static void *memory(size_t bytes, const void *host)
{
    char *const p = arena + used;
    if ((used += (bytes + 255) / 256 * 256) > ARENA) exit(1);
    if (host) must(kiln_upload(device, p, host, bytes));
    return p;
}

typedef union Word {
    float value;
    uint32_t bits;
} Word;

static uint16_t bf16_of(float x) { return (uint16_t)((Word){ .value = x }.bits >> 16); } /* cut off */
static float float_of(uint16_t x) { return (Word){ .bits = (uint32_t)x << 16 }.value; }

static kiln_tensor room(int64_t rows, int64_t columns)
{
    return kiln_tensor_of(device, memory((size_t)(rows * columns) * 2, NULL), KILN_BF16, 2,
                          (int64_t[]){ rows, columns });
}

/* Random numbers within -size .. size. */
static kiln_tensor weights(int rank, const int64_t *shape, float size)
{
    static uint16_t host[EXPERTS * 2 * F * E];
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= shape[d];
    for (int64_t i = 0; i < n; i++) host[i] = bf16_of(((float)rand() / (float)RAND_MAX * 2 - 1) * size);
    return kiln_tensor_of(device, memory((size_t)n * sizeof *host, host), KILN_BF16, rank, shape);
}

/* Columns of rows of queries, keys and values, as heads. */
static kiln_tensor heads(const kiln_tensor *qkv, int64_t first, int64_t n)
{
    const int64_t shape[] = { qkv->shape[0], n, D };
    kiln_tensor t = kiln_tensor_of(device, (uint16_t *)qkv->data + first, KILN_BF16, 3, shape);
    t.has_strides = true, t.strides[0] = QKV, t.strides[1] = D, t.strides[2] = 1;
    return t;
}

static kiln_tensor integers(const int32_t *values, int64_t n)
{
    return kiln_tensor_of(device, memory((size_t)n * sizeof *values, values), KILN_I32, 1, &n);
}

/* An operator with the workspace that it needs. */
#define RUN(call, args)                                                                                                \
    (must(call##_workspace_size(ops, &args, &args.workspace_bytes)),                                                   \
     args.workspace = memory(args.workspace_bytes, NULL), must(call(ops, NULL, &args)))

typedef struct Block {
    kiln_tensor norm1, codes, scales, qkv, out, norm2, router, gate_up, down; /* qkv: as codes and scales, in 16 bits */
    kiln_tensor keys, values, table;                                          /* the cache of one request */
} Block;

/* Weights of 4 bits, a scale for each group along a row, as a checkpoint has them; packed once. */
static void make_qkv(Block *b)
{
    static uint16_t scales[QKV * E / GROUP], whole[QKV * E];
    static uint8_t codes[QKV * E / 2];
    for (int i = 0; i < QKV * E; i++) {
        if (i % GROUP == 0) scales[i / GROUP] = bf16_of((float)(rand() % 256 + 128) / 25600);
        const int code = rand() % 16 - 8;
        codes[i / 2] |= (uint8_t)((code & 15) << i % 2 * 4);
        whole[i] = bf16_of((float)code * float_of(scales[i / GROUP]));
    }
    const int64_t bytes[] = { QKV, E / 2 }, shape[] = { QKV, E }, groups[] = { QKV, E / GROUP };
    const kiln_tensor packed = kiln_tensor_of(device, memory(sizeof codes, codes), KILN_U8, 2, bytes);
    const kiln_tensor given = kiln_tensor_of(device, memory(sizeof scales, scales), KILN_BF16, 2, groups);
    b->qkv = kiln_tensor_of(device, memory(sizeof whole, whole), KILN_BF16, 2, shape);
    b->codes = kiln_tensor_of(device, memory(sizeof codes, NULL), KILN_I4, 2, shape), b->scales = room(QKV, E / GROUP);
    kiln_quant_pack_args args = { .format = KILN_QUANT_INT4S, .k = E, .group = GROUP, .weight_group = GROUP };
    args.weights = &packed, args.weight_scales = &given, args.codes = &b->codes, args.scales = &b->scales;
    must(kiln_quant_pack(ops, NULL, &args));
}

static Block block_new(void)
{
    Block b = { .out = weights(2, (int64_t[]){ E, H * D }, 0.1f) };
    b.gate_up = weights(3, (int64_t[]){ EXPERTS, 2 * F, E }, 0.1f);
    b.down = weights(3, (int64_t[]){ EXPERTS, E, F }, 0.1f), b.router = weights(2, (int64_t[]){ EXPERTS, E }, 0.1f);
    b.norm1 = weights(1, (int64_t[]){ E }, 1), b.norm2 = weights(1, (int64_t[]){ E }, 1);
    b.table = integers((int32_t[]){ 1, 0 }, PAGES), b.table.rank = 2, b.table.shape[0] = 1, b.table.shape[1] = PAGES;
    make_qkv(&b);
    return b;
}

/* c = a b^T + residual. */
static void product(const kiln_tensor *a, const kiln_tensor *b, const kiln_tensor *residual, const kiln_tensor *c)
{
    kiln_gemm_args args = { .a = a, .b = b, .c = c, .residual = residual, .transpose_b = true };
    RUN(kiln_gemm, args);
}

/* Of new tokens, when `before` are in the cache. */
static void attend(const Block *b, const kiln_tensor *qkv, int64_t before, const kiln_tensor *out)
{
    const int64_t n = qkv->shape[0];
    const kiln_tensor q = heads(qkv, 0, H), k = heads(qkv, H * D, HKV), v = heads(qkv, (H + HKV) * D, HKV);
    const kiln_tensor lengths = integers(&(int32_t){ (int32_t)(before + n) }, 1);
    const kiln_tensor slots = integers(NULL, n), positions = integers(NULL, n);
    const kiln_rotary rotary = { .style = KILN_ROTARY_HALVES, .base = 10000 };
    kiln_paged_slots_args new = { .table = &b->table, .lengths = &lengths, .slots = &slots, .page_size = PAGE };
    kiln_rotary_embedding_args turned = { .x = &q, .positions = &positions, .rotary = &rotary };
    kiln_paged_append_args kept = { .keys = &k, .values = &v, .slots = &slots, .k = &b->keys, .v = &b->values };
    new.positions = kept.positions = &positions, kept.rotary = &rotary;
    must(kiln_paged_slots(ops, NULL, &new)), must(kiln_rotary_embedding(ops, NULL, &turned));
    must(kiln_paged_append(ops, NULL, &kept));
    kiln_paged_attention_args args = { .q = &q, .k = &b->keys, .v = &b->values, .table = &b->table, .causal = true };
    args.lengths = &lengths, args.out = out;
    RUN(kiln_paged_attention, args);
}

static void block_run(const Block *b, const kiln_tensor *x, int64_t before, bool whole, const kiln_tensor *y)
{
    const size_t before_it = used;
    const int64_t n = x->shape[0];
    const kiln_tensor normed = room(n, E), qkv = room(n, QKV), attended = room(n, H * D), sum = room(n, E),
                      logits = room(n, EXPERTS);
    const kiln_tensor as_heads = kiln_tensor_of(device, attended.data, KILN_BF16, 3, (int64_t[]){ n, H, D });
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = x, .weight = &b->norm1, .out = &normed, .eps = 1e-6 }));
    kiln_quantised_gemm_args args = { .format = KILN_QUANT_INT4S, .group = GROUP, .a = &normed, .c = &qkv };
    args.codes = &b->codes, args.scales = &b->scales;
    if (whole) product(&normed, &b->qkv, NULL, &qkv);
    else RUN(kiln_quantised_gemm, args);
    attend(b, &qkv, before, &as_heads);
    product(&attended, &b->out, x, &sum);
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = &sum, .weight = &b->norm2, .out = &normed, .eps = 1e-6 }));
    product(&normed, &b->router, NULL, &logits);
    kiln_moe_args moe = { .x = &normed, .gate_up = &b->gate_up, .down = &b->down, .logits = &logits, .residual = &sum };
    moe.top_k = CHOSEN, moe.routing = &(kiln_moe_routing){ .renormalise = true }, moe.out = y;
    RUN(kiln_moe, moe);
    must(kiln_stream_wait(device, NULL)), used = before_it;
}

/* The first `prompt` tokens at once, then one by one, over a cache in which nothing stands that counts. */
static void run(Block *b, const kiln_tensor *x, int prompt, bool whole, uint16_t *result)
{
    const int64_t cache[] = { PAGES, PAGE, HKV, D };
    b->keys = weights(4, cache, 1), b->values = weights(4, cache, 1);
    const kiln_tensor y = room(TOKENS, E);
    for (int t = 0, n = prompt; t < TOKENS; t += n, n = 1) {
        kiln_tensor from = *x, to = y;
        from.shape[0] = to.shape[0] = n, from.data = (uint16_t *)x->data + t * E, to.data = (uint16_t *)y.data + t * E;
        block_run(b, &from, t, whole, &to);
    }
    must(kiln_download(device, result, y.data, TOKENS * E * sizeof *result));
}

int main(int argc, char **argv)
{
    static uint16_t whole[TOKENS * E], steps[TOKENS * E];
    double off = 0, size = 0;
    must(kiln_device_open(argc > 1 ? argv[1] : "cpu", &device)), must(kiln_ops_open(device, NULL, &ops));
    must(kiln_alloc(device, ARENA, (void **)&arena));
    Block b = block_new();
    const kiln_tensor x = weights(2, (int64_t[]){ TOKENS, E }, 1);
    run(&b, &x, TOKENS, true, whole), run(&b, &x, PROMPT, false, steps);
    kiln_free(device, arena), kiln_ops_close(ops), kiln_device_close(device);
    for (int i = 0; i < TOKENS * E; i++)
        off += pow(float_of(whole[i]) - float_of(steps[i]), 2), size += pow(float_of(whole[i]), 2);
    printf("%d tokens at once in 16 bits, and %d, then one by one, in 4 bits differ by %.2g of their size: %s\n",
           TOKENS, PROMPT, sqrt(off / size), sqrt(off / size) < 0.01 ? "as they should" : "WRONG");
    return sqrt(off / size) < 0.01 ? 0 : 1;
}
