/* SPDX-License-Identifier: MIT */
/* transformer_block.c - a transformer block from operators alone: norms, grouped-query attention over a paged cache with rotary
 * embedding, a mixture of experts. A prompt is taken at once and then token by token from an empty cache; both must agree.
 *
 *     cc transformer_block.c -lkiln -lm -o transformer_block && ./transformer_block cpu        (or cuda:0)
 */
#include <kiln/ops/gemm.h>
#include <kiln/ops/moe.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/paged.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { E = 256, H = 8, HKV = 2, D = 32, QKV = (H + 2 * HKV) * D, F = 128, EXPERTS = 4, CHOSEN = 2 };
enum { TOKENS = 12, PAGE = 8, PAGES = 2, ARENA = 1 << 26 };

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

static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void *random_values(int64_t n, float size)
{
    uint16_t *host = malloc((size_t)n * sizeof *host);
    void *p = memory((size_t)n * sizeof *host);
    if (!host) exit(1);
    for (int64_t i = 0; i < n; i++) host[i] = bf16_of(((float)rand() / (float)RAND_MAX * 2 - 1) * size);
    must(kiln_upload(device, p, host, (size_t)n * sizeof *host));
    free(host);
    return p;
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
    t.has_strides = true;
    t.strides[0] = QKV, t.strides[1] = D, t.strides[2] = 1;
    return t;
}

static kiln_tensor integers(const int32_t *values, int rank, const int64_t *shape, size_t n)
{
    void *p = memory(n * sizeof *values);
    if (values) must(kiln_upload(device, p, values, n * sizeof *values));
    return kiln_tensor_of(device, p, KILN_I32, rank, shape);
}

/* An operator with the workspace that it needs. */
#define RUN(call, args)                                                                                                \
    do {                                                                                                               \
        must(call##_workspace_size(ops, &args, &args.workspace_bytes));                                                \
        args.workspace = memory(args.workspace_bytes);                                                                 \
        must(call(ops, NULL, &args));                                                                                  \
    } while (0)

/* ---- a block */

typedef struct Block {
    kiln_tensor norm1, qkv, out, norm2, router, gate_up, down;
    kiln_tensor keys, values, table; /* the cache of one request */
} Block;

static Block block_new(void)
{
    Block b = { .qkv = projection(0, QKV, E),
                .out = projection(0, E, H * D),
                .router = projection(0, EXPERTS, E),
                .gate_up = projection(EXPERTS, 2 * F, E),
                .down = projection(EXPERTS, E, F) };
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

static void block_run(const Block *b, const kiln_tensor *x, int64_t before, const kiln_tensor *y)
{
    const size_t before_it = used;
    const int64_t n = x->shape[0];
    const kiln_tensor normed = room(n, E), qkv = room(n, QKV), attended = room(n, H * D), sum = room(n, E);
    const kiln_tensor as_heads = kiln_tensor_of(device, attended.data, KILN_BF16, 3, (int64_t[]){ n, H, D });
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = x, .weight = &b->norm1, .out = &normed, .eps = 1e-6 }));
    product(&normed, &b->qkv, NULL, &qkv);
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
    take_cache(&b);
    void *const x = random_values(TOKENS * E, 1), *const y = random_values(TOKENS * E, 1);
    const kiln_tensor tx = matrix(x, TOKENS, E), ty = matrix(memory(sizeof whole), TOKENS, E);
    block_run(&b, &tx, 0, &ty);
    must(kiln_download(device, whole, ty.data, sizeof whole));
    take_cache(&b);
    for (int t = 0; t < TOKENS; t++) {
        const kiln_tensor token = matrix((uint16_t *)x + t * E, 1, E), result = matrix((uint16_t *)y + t * E, 1, E);
        block_run(&b, &token, t, &result);
    }
    must(kiln_download(device, steps, y, sizeof steps));
    kiln_free(device, arena), kiln_ops_close(ops), kiln_device_close(device);
    for (int i = 0; i < TOKENS * E; i++) {
        off += pow(float_of(whole[i]) - float_of(steps[i]), 2);
        size += pow(float_of(whole[i]), 2);
    }
    off = sqrt(off / size);
    printf("a prompt of %d tokens at once and token by token differ by %.2g of their size: %s\n", TOKENS, off,
           off < 0.01 ? "as they should" : "WRONG");
    return off < 0.01 ? 0 : 1;
}
