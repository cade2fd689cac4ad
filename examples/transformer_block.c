/* SPDX-License-Identifier: MIT */
/* transformer_block.c - a transformer block from operators alone: norms, grouped-query attention over a paged cache with rotary
 * embedding, SwiGLU. A prompt is taken at once and then token by token from an empty cache; both must agree.
 *
 *     cc transformer_block.c -lkiln -lm -o transformer_block && ./transformer_block cpu        (or cuda:0)
 */
#include <kiln/ops/gemm.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/paged.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { E = 256, H = 8, HKV = 2, D = 32, F = 512, TOKENS = 40, PAGE = 16, PAGES = 3, QKV = (H + 2 * HKV) * D };

static kiln_device *device;
static kiln_ops *ops;

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

/* ---- memory */

static void *memory(size_t bytes)
{
    void *p;
    must(kiln_alloc(device, bytes, &p));
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

/* Columns first .. first + columns - 1 of rows of `stride` elements. */
static kiln_tensor part(void *data, int64_t rows, int64_t stride, int64_t first, int64_t columns)
{
    kiln_tensor t = matrix((uint16_t *)data + first, rows, columns);
    t.has_strides = true;
    t.strides[0] = stride, t.strides[1] = 1;
    return t;
}

/* The same as heads. */
static kiln_tensor heads(void *data, int64_t rows, int64_t first, int64_t n)
{
    kiln_tensor t = kiln_tensor_of(device, (uint16_t *)data + first, KILN_BF16, 3, (int64_t[]){ rows, n, D });
    t.has_strides = true;
    t.strides[0] = QKV, t.strides[1] = D, t.strides[2] = 1;
    return t;
}

static kiln_tensor integers(const int32_t *values, int rank, const int64_t *shape, size_t n)
{
    void *p = memory((n + 4) * sizeof *values);
    if (values) must(kiln_upload(device, p, values, n * sizeof *values));
    return kiln_tensor_of(device, p, KILN_I32, rank, shape);
}

/* ---- a block */

typedef struct Block {
    kiln_tensor norm1, qkv, out, norm2, gate_up, down; /* weights: one row for each output */
    kiln_tensor keys, values, table;                   /* the cache of one request */
} Block;

static Block block_new(void)
{
    Block b = { .qkv = matrix(random_values(QKV * E, 0.1f), QKV, E),
                .out = matrix(random_values(E * H * D, 0.1f), E, H * D),
                .gate_up = matrix(random_values(2 * F * E, 0.1f), 2 * F, E),
                .down = matrix(random_values(E * F, 0.1f), E, F) };
    b.norm1 = kiln_tensor_of(device, random_values(E, 1), KILN_BF16, 1, (int64_t[]){ E });
    b.norm2 = kiln_tensor_of(device, random_values(E, 1), KILN_BF16, 1, (int64_t[]){ E });
    b.table = integers((int32_t[]){ 2, 0, 1 }, 2, (int64_t[]){ 1, PAGES }, PAGES);
    return b;
}

static void drop_cache(Block *b) { kiln_free(device, b->keys.data), kiln_free(device, b->values.data); }

/* Another, in which nothing of the request stands. */
static void take_cache(Block *b)
{
    drop_cache(b);
    const int64_t cache[] = { PAGES, PAGE, HKV, D };
    b->keys = kiln_tensor_of(device, random_values(PAGES * PAGE * HKV * D, 1), KILN_BF16, 4, cache);
    b->values = kiln_tensor_of(device, random_values(PAGES * PAGE * HKV * D, 1), KILN_BF16, 4, cache);
}

static void block_free(Block *b)
{
    void *const all[] = { b->norm1.data,   b->qkv.data,  b->out.data,  b->norm2.data,
                          b->gate_up.data, b->down.data, b->table.data };
    drop_cache(b);
    for (int i = 0; i < 7; i++) kiln_free(device, all[i]);
}

/* c = a weights^T + residual. */
static void product(const kiln_tensor *a, const kiln_tensor *weights, const kiln_tensor *residual, const kiln_tensor *c)
{
    kiln_gemm_args args = { .a = a, .b = weights, .c = c, .residual = residual, .transpose_b = true };
    must(kiln_gemm_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = memory(args.workspace_bytes + 1);
    must(kiln_gemm(ops, NULL, &args));
    must(kiln_stream_wait(device, NULL));
    kiln_free(device, args.workspace);
}

/* Of n new tokens x, when `before` are in the cache. */
static void attend(const Block *b, void *qkv, int64_t n, int64_t before, const kiln_tensor *out)
{
    const kiln_tensor q = heads(qkv, n, 0, H), k = heads(qkv, n, H * D, HKV), v = heads(qkv, n, (H + HKV) * D, HKV);
    const kiln_tensor lengths = integers((int32_t[]){ (int32_t)(before + n) }, 1, (int64_t[]){ 1 }, 1);
    const kiln_tensor slots = integers(NULL, 1, &n, (size_t)n), positions = integers(NULL, 1, &n, (size_t)n);
    const kiln_rotary rotary = { .style = KILN_ROTARY_HALVES, .base = 10000 };
    must(kiln_paged_slots(
        ops, NULL,
        &(kiln_paged_slots_args){
            .table = &b->table, .lengths = &lengths, .slots = &slots, .positions = &positions, .page_size = PAGE }));
    must(kiln_rotary_embedding(ops, NULL,
                               &(kiln_rotary_embedding_args){ .x = &q, .positions = &positions, .rotary = &rotary }));
    must(kiln_paged_append(ops, NULL,
                           &(kiln_paged_append_args){ .keys = &k,
                                                      .values = &v,
                                                      .slots = &slots,
                                                      .positions = &positions,
                                                      .k = &b->keys,
                                                      .v = &b->values,
                                                      .rotary = &rotary }));
    kiln_paged_attention_args args = {
        .q = &q, .k = &b->keys, .v = &b->values, .table = &b->table, .lengths = &lengths, .out = out, .causal = true
    };
    must(kiln_paged_attention_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = memory(args.workspace_bytes + 1);
    must(kiln_paged_attention(ops, NULL, &args));
    must(kiln_stream_wait(device, NULL));
    kiln_free(device, args.workspace);
    kiln_free(device, lengths.data), kiln_free(device, slots.data), kiln_free(device, positions.data);
}

static void block_run(const Block *b, const kiln_tensor *x, int64_t before, const kiln_tensor *y)
{
    const int64_t n = x->shape[0];
    const kiln_tensor normed = matrix(memory((size_t)n * E * 2), n, E),
                      qkv = matrix(memory((size_t)n * QKV * 2), n, QKV);
    const kiln_tensor attended = matrix(memory((size_t)n * H * D * 2), n, H * D),
                      sum = matrix(memory((size_t)n * E * 2), n, E);
    const kiln_tensor both = matrix(memory((size_t)n * 2 * F * 2), n, 2 * F),
                      active = matrix(memory((size_t)n * F * 2), n, F);
    const kiln_tensor as_heads = kiln_tensor_of(device, attended.data, KILN_BF16, 3, (int64_t[]){ n, H, D });
    const kiln_tensor gate = part(both.data, n, 2 * F, 0, F), up = part(both.data, n, 2 * F, F, F);
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = x, .weight = &b->norm1, .out = &normed, .eps = 1e-6 }));
    product(&normed, &b->qkv, NULL, &qkv);
    attend(b, qkv.data, n, before, &as_heads);
    product(&attended, &b->out, x, &sum);
    must(kiln_rms_norm(ops, NULL, &(kiln_norm_args){ .x = &sum, .weight = &b->norm2, .out = &normed, .eps = 1e-6 }));
    product(&normed, &b->gate_up, NULL, &both);
    must(kiln_activate(
        ops, NULL,
        &(kiln_activate_args){ .gate = &gate, .up = &up, .out = &active, .activation = KILN_ACTIVATION_SILU }));
    product(&active, &b->down, &sum, y);
    void *const all[] = { normed.data, qkv.data, attended.data, sum.data, both.data, active.data };
    for (int i = 0; i < 6; i++) kiln_free(device, all[i]);
}

int main(int argc, char **argv)
{
    static uint16_t whole[TOKENS * E], steps[TOKENS * E];
    double off = 0, size = 0;
    must(kiln_device_open(argc > 1 ? argv[1] : "cpu", &device));
    must(kiln_ops_open(device, NULL, &ops));
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
    block_free(&b), kiln_free(device, x), kiln_free(device, y), kiln_free(device, ty.data);
    kiln_ops_close(ops), kiln_device_close(device);
    for (int i = 0; i < TOKENS * E; i++) {
        off += pow(float_of(whole[i]) - float_of(steps[i]), 2);
        size += pow(float_of(whole[i]), 2);
    }
    off = sqrt(off / size);
    printf("a prompt of %d tokens at once and token by token differ by %.2g of their size: %s\n", TOKENS, off,
           off < 0.01 ? "as they should" : "WRONG");
    return off < 0.01 ? 0 : 1;
}
