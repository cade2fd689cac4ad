/* SPDX-License-Identifier: MIT */
/* transformer_block.c - a transformer block from operators alone: norms, queries, keys and values by weights of 4 bits, grouped-query
 * attention over a paged cache with rotary embedding, a mixture of experts. A prompt at once and tokens one by one after it must agree
 * with all of them at once, by the same weights in 16 bits.
 *
 *     cc transformer_block.c -lkiln -lm -o transformer_block && ./transformer_block cpu        (or cuda:0)
 */
#include <kiln/ops/gemm.h>
#include <kiln/ops/moe.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/paged.h>
#include <kiln/ops/quant.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { E = 256, H = 8, HKV = 2, D = 32, QKV = (H + 2 * HKV) * D, F = 128, EXPERTS = 4, CHOSEN = 2 };
enum { GROUP = 128, TOKENS = 12, PROMPT = 9, PAGE = 8, PAGES = 2, ARENA = 1 << 26 };

static kiln_device *device;
static kiln_ops *ops;
static void *arena; /* of ARENA bytes */
static size_t used;

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

/* ---- memory */

/* A piece of the arena. */
static void *memory(size_t bytes)
{
    void *const p = (char *)arena + used;
    used += (bytes + 255) / 256 * 256;
    if (used > ARENA) exit(1);
    return p;
}

typedef union Word {
    float value;
    uint32_t bits;
} Word;

static uint16_t bf16_of(float x)
{
    const uint32_t bits = (Word){ .value = x }.bits;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t x) { return (Word){ .bits = (uint32_t)x << 16 }.value; }

static void *uploaded(const void *host, size_t bytes)
{
    void *const p = memory(bytes);
    must(kiln_upload(device, p, host, bytes));
    return p;
}

static void *random_values(int64_t n, float size)
{
    static uint16_t host[EXPERTS * 2 * F * E];
    for (int64_t i = 0; i < n; i++) host[i] = bf16_of(((float)rand() / (float)RAND_MAX * 2 - 1) * size);
    return uploaded(host, (size_t)n * sizeof *host);
}

static kiln_tensor matrix(void *data, int64_t rows, int64_t columns)
{
    return kiln_tensor_of(device, data, KILN_BF16, 2, (int64_t[]){ rows, columns });
}

static kiln_tensor room(int64_t rows, int64_t columns)
{
    return matrix(memory((size_t)(rows * columns) * 2), rows, columns);
}

/* One row for each output; of each expert, where there are some. */
static kiln_tensor projection(int64_t n, int64_t rows, int64_t columns)
{
    void *const data = random_values((n ? n : 1) * rows * columns, 0.1f);
    return n ? kiln_tensor_of(device, data, KILN_BF16, 3, (int64_t[]){ n, rows, columns })
             : matrix(data, rows, columns);
}

/* Columns of rows of queries, keys and values, as heads. */
static kiln_tensor heads(void *data, int64_t rows, int64_t first, int64_t n)
{
    kiln_tensor t = kiln_tensor_of(device, (uint16_t *)data + first, KILN_BF16, 3, (int64_t[]){ rows, n, D });
    t.has_strides = true, t.strides[0] = QKV, t.strides[1] = D, t.strides[2] = 1;
    return t;
}

static kiln_tensor integers(const int32_t *values, int rank, const int64_t *shape, size_t n)
{
    void *const p = values ? uploaded(values, n * sizeof *values) : memory(n * sizeof *values);
    return kiln_tensor_of(device, p, KILN_I32, rank, shape);
}

/* An operator with the workspace that it needs. */
#define RUN(call, args)                                                                                                \
    (must(call##_workspace_size(ops, &args, &args.workspace_bytes)), args.workspace = memory(args.workspace_bytes),    \
     must(call(ops, NULL, &args)))

/* ---- a block */

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
    const kiln_tensor packed =
        kiln_tensor_of(device, uploaded(codes, sizeof codes), KILN_U8, 2, (int64_t[]){ QKV, E / 2 });
    const kiln_tensor groups = matrix(uploaded(scales, sizeof scales), QKV, E / GROUP);
    b->qkv = matrix(uploaded(whole, sizeof whole), QKV, E);
    b->codes = kiln_tensor_of(device, memory(sizeof codes), KILN_I4, 2, (int64_t[]){ QKV, E });
    b->scales = room(QKV, E / GROUP);
    kiln_quant_pack_args args = { .format = KILN_QUANT_INT4S, .k = E, .group = GROUP, .weight_group = GROUP };
    args.weights = &packed, args.weight_scales = &groups, args.codes = &b->codes, args.scales = &b->scales;
    must(kiln_quant_pack(ops, NULL, &args));
}

static Block block_new(void)
{
    Block b = { .out = projection(0, E, H * D),
                .router = projection(0, EXPERTS, E),
                .gate_up = projection(EXPERTS, 2 * F, E),
                .down = projection(EXPERTS, E, F) };
    make_qkv(&b);
    b.norm1 = kiln_tensor_of(device, random_values(E, 1), KILN_BF16, 1, (int64_t[]){ E });
    b.norm2 = kiln_tensor_of(device, random_values(E, 1), KILN_BF16, 1, (int64_t[]){ E });
    b.table = integers((int32_t[]){ 1, 0 }, 2, (int64_t[]){ 1, PAGES }, PAGES);
    return b;
}

/* Another, in which nothing of the request stands. */
static void take_cache(Block *b)
{
    const int64_t cache[] = { PAGES, PAGE, HKV, D };
    b->keys = kiln_tensor_of(device, random_values(PAGES * PAGE * HKV * D, 1), KILN_BF16, 4, cache);
    b->values = kiln_tensor_of(device, random_values(PAGES * PAGE * HKV * D, 1), KILN_BF16, 4, cache);
}

/* c = a weights^T + residual. */
static void product(const kiln_tensor *a, const kiln_tensor *weights, const kiln_tensor *residual, const kiln_tensor *c)
{
    kiln_gemm_args args = { .a = a, .b = weights, .c = c, .residual = residual, .transpose_b = true };
    RUN(kiln_gemm, args);
}

/* y = x + the sum of the experts that the router chooses for each row of normed. */
static void experts(const Block *b, const kiln_tensor *normed, const kiln_tensor *x, const kiln_tensor *y)
{
    const int64_t n = x->shape[0], shape[] = { n, EXPERTS };
    const kiln_tensor logits = kiln_tensor_of(device, memory((size_t)n * EXPERTS * 4), KILN_F32, 2, shape);
    product(normed, &b->router, NULL, &logits);
    kiln_moe_args args = { .x = normed, .gate_up = &b->gate_up, .down = &b->down, .logits = &logits, .out = y };
    args.residual = x, args.top_k = CHOSEN, args.routing = &(kiln_moe_routing){ .renormalise = true };
    RUN(kiln_moe, args);
}

/* Of n new tokens x, when `before` are in the cache. */
static void attend(const Block *b, void *qkv, int64_t n, int64_t before, const kiln_tensor *out)
{
    const kiln_tensor q = heads(qkv, n, 0, H), k = heads(qkv, n, H * D, HKV), v = heads(qkv, n, (H + HKV) * D, HKV);
    const kiln_tensor lengths = integers(&(int32_t){ (int32_t)(before + n) }, 1, &(int64_t){ 1 }, 1);
    const kiln_tensor slots = integers(NULL, 1, &n, (size_t)n), positions = integers(NULL, 1, &n, (size_t)n);
    const kiln_rotary rotary = { .style = KILN_ROTARY_HALVES, .base = 10000 };
    kiln_paged_slots_args new = { .table = &b->table, .lengths = &lengths, .slots = &slots, .page_size = PAGE };
    kiln_rotary_embedding_args turned = { .x = &q, .positions = &positions, .rotary = &rotary };
    kiln_paged_append_args kept = { .keys = &k, .values = &v, .slots = &slots, .k = &b->keys, .v = &b->values };
    new.positions = kept.positions = &positions, kept.rotary = &rotary;
    must(kiln_paged_slots(ops, NULL, &new));
    must(kiln_rotary_embedding(ops, NULL, &turned));
    must(kiln_paged_append(ops, NULL, &kept));
    kiln_paged_attention_args args = { .q = &q, .k = &b->keys, .v = &b->values, .table = &b->table, .causal = true };
    args.lengths = &lengths, args.out = out;
    RUN(kiln_paged_attention, args);
}

static void block_run(const Block *b, const kiln_tensor *x, int64_t before, bool whole, const kiln_tensor *y)
{
    const size_t before_it = used;
    const int64_t n = x->shape[0];
    const kiln_tensor normed = room(n, E), qkv = room(n, QKV), attended = room(n, H * D), sum = room(n, E);
    const kiln_tensor as_heads = kiln_tensor_of(device, attended.data, KILN_BF16, 3, (int64_t[]){ n, H, D });
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = x, .weight = &b->norm1, .out = &normed, .eps = 1e-6 }));
    kiln_quantised_gemm_args args = { .format = KILN_QUANT_INT4S, .group = GROUP, .a = &normed, .c = &qkv };
    args.codes = &b->codes, args.scales = &b->scales;
    if (whole) product(&normed, &b->qkv, NULL, &qkv);
    else RUN(kiln_quantised_gemm, args);
    attend(b, qkv.data, n, before, &as_heads);
    product(&attended, &b->out, x, &sum);
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = &sum, .weight = &b->norm2, .out = &normed, .eps = 1e-6 }));
    experts(b, &normed, &sum, y);
    must(kiln_stream_wait(device, NULL));
    used = before_it;
}

int main(int argc, char **argv)
{
    static uint16_t whole[TOKENS * E], steps[TOKENS * E];
    double off = 0, size = 0;
    must(kiln_device_open(argc > 1 ? argv[1] : "cpu", &device));
    must(kiln_ops_open(device, NULL, &ops));
    must(kiln_alloc(device, ARENA, &arena));
    Block b = block_new();
    uint16_t *const x = random_values(TOKENS * E, 1), *const y = random_values(TOKENS * E, 1);
    const kiln_tensor tx = matrix(x, TOKENS, E), ty = matrix(y, TOKENS, E);
    take_cache(&b);
    block_run(&b, &tx, 0, true, &ty);
    must(kiln_download(device, whole, y, sizeof whole));
    take_cache(&b);
    for (int t = 0, n = PROMPT; t < TOKENS; t += n, n = 1) {
        const kiln_tensor tokens = matrix(x + t * E, n, E), result = matrix(y + t * E, n, E);
        block_run(&b, &tokens, t, false, &result);
    }
    must(kiln_download(device, steps, y, sizeof steps));
    kiln_free(device, arena), kiln_ops_close(ops), kiln_device_close(device);
    for (int i = 0; i < TOKENS * E; i++)
        off += pow(float_of(whole[i]) - float_of(steps[i]), 2), size += pow(float_of(whole[i]), 2);
    off = sqrt(off / size);
    printf("%d tokens at once in 16 bits, and %d, then one by one, in 4 bits differ by %.2g of their size: %s\n",
           TOKENS, PROMPT, off, off < 0.01 ? "as they should" : "WRONG");
    return off < 0.01 ? 0 : 1;
}
