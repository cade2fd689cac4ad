/* SPDX-License-Identifier: MIT */
/* decode_loop.c - multi-head latent attention as an inference engine calls it: requests of different lengths share one paged
 * cache for each layer, and every step adds a token to each of them.
 *
 *     cc decode_loop.c -lkiln -lm -o decode_loop && ./decode_loop --device cpu            (or: --device cuda:0)
 *
 * The same program for machines without a compiler: the list of the kernels that it called, an archive of them in several
 * forms, and a program that links it.
 *
 *     ./decode_loop --device cpu --list >decode.list
 *     kiln build --emit=archive --isa=avx512,avx2,portable --name=decode --output=gen decode.list
 *     cc -DSHIPPED -Igen decode_loop.c -Lgen -ldecode -lkiln_launch -lpthread -ldl -lm -o shipped && ./shipped --device cpu
 *
 * A step: give new pages to the requests that need one; find the slots of the new tokens; plan, once; then for each layer
 * append the new keys to its cache and decode. Random numbers stand for what a model's projections would give. At the end
 * the last layer's result is compared with a plain loop.
 */
#include <kiln/ops/mla.h>
#ifdef SHIPPED
#include "decode.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REQUESTS = 5,
    LAYERS = 4,
    STEPS = 8,
    HEADS = 16,
    PAGE = 64,
    PAGES_EACH = 4,
    PAGES = REQUESTS * PAGES_EACH,
    KEY = KILN_MLA_KEY,
    VALUE = KILN_MLA_VALUE
};

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

static void *must_have(void *memory)
{
    if (!memory) exit(1);
    return memory;
}

/* ---- bf16, and numbers that stand for a model's */

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void random_bf16(uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = to_bf16((float)rand() / (float)RAND_MAX - 0.5f);
}

/* ---- device memory */

static kiln_device *device;

static kiln_tensor new_tensor(kiln_type type, int rank, const int64_t *shape)
{
    kiln_tensor tensor = kiln_tensor_of(device, NULL, type, rank, shape);
    must(kiln_alloc(device, kiln_tensor_bytes(&tensor), &tensor.data));
    return tensor;
}

static void upload(const kiln_tensor *tensor, const void *host)
{
    must(kiln_upload(device, tensor->data, host, kiln_tensor_bytes(tensor)));
}

/* ---- the cache: which pages a request has */

typedef struct Batch {
    int32_t lengths[REQUESTS], table[REQUESTS][PAGES_EACH], free_pages[PAGES];
    int n_free;
} Batch;

/* One more token for every request. A table entry without a page stays -1: no kernel looks at it. */
static void grow(Batch *batch)
{
    for (int b = 0; b < REQUESTS; b++) {
        const int page = batch->lengths[b]++ / PAGE;
        if (batch->table[b][page] < 0) batch->table[b][page] = batch->free_pages[--batch->n_free];
    }
}

static void begin(Batch *batch)
{
    memset(batch->table, -1, sizeof batch->table);
    memset(batch->lengths, 0, sizeof batch->lengths);
    for (batch->n_free = 0; batch->n_free < PAGES; batch->n_free++)
        batch->free_pages[batch->n_free] = (batch->n_free * 7 + 3) % PAGES; /* in no particular order */
}

/* ---- the check: head h of request b, in double precision */

static double largest_error(const Batch *batch, const uint16_t *cache, const uint16_t *q, const uint16_t *out, int b,
                            int h)
{
    const uint16_t *const row = q + (b * HEADS + h) * KEY;
    double w[PAGES_EACH * PAGE], top = -INFINITY, sum = 0, worst = 0;
    for (int t = 0; t < batch->lengths[b]; t++) {
        const uint16_t *const key = cache + (batch->table[b][t / PAGE] * PAGE + t % PAGE) * KEY;
        w[t] = 0;
        for (int d = 0; d < KEY; d++) w[t] += (double)from_bf16(row[d]) * (double)from_bf16(key[d]);
        w[t] /= sqrt(KEY);
        top = fmax(top, w[t]);
    }
    for (int t = 0; t < batch->lengths[b]; t++) sum += w[t] = exp(w[t] - top);
    for (int d = 0; d < VALUE; d++) {
        double expected = 0;
        for (int t = 0; t < batch->lengths[b]; t++)
            expected += w[t] / sum * (double)from_bf16(cache[(batch->table[b][t / PAGE] * PAGE + t % PAGE) * KEY + d]);
        worst = fmax(worst, fabs(expected - (double)from_bf16(out[(b * HEADS + h) * VALUE + d])));
    }
    return worst;
}

/* ---- the loop */

static kiln_status open_operators(kiln_ops **ops)
{
#ifdef SHIPPED
    return kiln_ops_open_archive(device, &decode_archive, ops);
#else
    return kiln_ops_open(device, NULL, ops);
#endif
}

static void print_list(kiln_ops *ops)
{
    char text[4096];
    if (kiln_ops_list(ops, text, sizeof text) < sizeof text) fputs(text, stdout);
}

typedef struct Options {
    const char *device;
    int list;
} Options;

static Options read_options(int argc, char **argv)
{
    Options options = { "cpu", 0 };
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--list") == 0) options.list = 1;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) options.device = argv[++i];
        else {
            fprintf(stderr, "usage: %s [--device NAME] [--list]\n", argv[0]);
            exit(2);
        }
    return options;
}

int main(int argc, char **argv)
{
    static const int prompts[REQUESTS] = { 3, 60, 127, 0, 200 };
    Batch batch;
    kiln_ops *ops;
    kiln_stream *stream;
    const Options options = read_options(argc, argv);
    must(kiln_device_open(options.device, &device));
    must(open_operators(&ops));
    must(kiln_stream_open(device, &stream));

    kiln_tensor lengths = new_tensor(KILN_I32, 1, (int64_t[]){ REQUESTS });
    kiln_tensor table = new_tensor(KILN_I32, 2, (int64_t[]){ REQUESTS, PAGES_EACH });
    kiln_tensor slots = new_tensor(KILN_I32, 2, (int64_t[]){ REQUESTS, 1 });
    kiln_tensor keys = new_tensor(KILN_BF16, 3, (int64_t[]){ REQUESTS, 1, KEY });
    kiln_tensor q = new_tensor(KILN_BF16, 4, (int64_t[]){ REQUESTS, 1, HEADS, KEY });
    kiln_tensor out = new_tensor(KILN_BF16, 4, (int64_t[]){ REQUESTS, 1, HEADS, VALUE });
    kiln_tensor lse = new_tensor(KILN_F32, 3, (int64_t[]){ REQUESTS, HEADS, 1 });
    kiln_tensor slot_list = kiln_tensor_of(device, slots.data, KILN_I32, 1, (int64_t[]){ REQUESTS });
    kiln_tensor caches[LAYERS];
    for (int l = 0; l < LAYERS; l++) caches[l] = new_tensor(KILN_BF16, 4, (int64_t[]){ PAGES, PAGE, 1, KEY });

    /* Memory for the plan, and for what a layer's call needs while it runs. */
    const kiln_mla_shape shape = { .batch = REQUESTS, .queries = 1, .query_heads = HEADS };
    kiln_mla_plan_args planning = { .shape = &shape, .lengths = &lengths };
    kiln_mla_plan plan;
    must(kiln_mla_plan_size(ops, &shape, &planning.memory_bytes));
    must(kiln_alloc(device, planning.memory_bytes, &planning.memory));
    begin(&batch);
    upload(&lengths, batch.lengths);
    must(kiln_mla_plan_make(ops, stream, &planning, &plan));
    kiln_mla_decode_args decoding = {
        .plan = &plan, .q = &q, .cache = &caches[0], .table = &table, .lengths = &lengths, .out = &out, .lse = &lse
    };
    must(kiln_mla_decode_workspace_size(ops, &decoding, &decoding.workspace_bytes));
    must(kiln_alloc(device, decoding.workspace_bytes, &decoding.workspace));

    /* The prompts: their keys in each layer's cache, page by page. */
    uint16_t *const host_cache = must_have(malloc(kiln_tensor_bytes(&caches[0])));
    uint16_t *const host_keys = must_have(malloc(kiln_tensor_bytes(&keys)));
    uint16_t *const host_q = must_have(malloc(kiln_tensor_bytes(&q)));
    uint16_t *const host_out = must_have(malloc(kiln_tensor_bytes(&out)));
    for (int b = 0; b < REQUESTS; b++)
        for (int t = 0; t < prompts[b]; t += PAGE) batch.table[b][t / PAGE] = batch.free_pages[--batch.n_free];
    for (int b = 0; b < REQUESTS; b++) batch.lengths[b] = prompts[b];
    random_bf16(host_cache, kiln_tensor_bytes(&caches[0]) / 2);
    for (int l = 0; l < LAYERS; l++) upload(&caches[l], host_cache);

    for (int step = 0; step < STEPS; step++) {
        grow(&batch);
        upload(&lengths, batch.lengths);
        upload(&table, batch.table);
        must(kiln_mla_slots(
            ops, stream,
            &(kiln_mla_slots_args){ .table = &table, .lengths = &lengths, .slots = &slots, .page_size = PAGE }));
        must(kiln_mla_plan_make(ops, stream, &planning, &plan));
        for (int l = 0; l < LAYERS; l++) {
            random_bf16(host_keys, REQUESTS * KEY); /* what the layer's projections would give */
            random_bf16(host_q, REQUESTS * HEADS * KEY);
            upload(&keys, host_keys);
            upload(&q, host_q);
            decoding.cache = &caches[l];
            must(kiln_mla_append(ops, stream,
                                 &(kiln_mla_append_args){ .keys = &keys, .slots = &slot_list, .cache = &caches[l] }));
            must(kiln_mla_decode(ops, stream, &decoding));
            must(kiln_stream_wait(device, stream)); /* for the uploads above: an engine's own kernels would not */
        }
    }

    double worst = 0;
    must(kiln_download(device, host_cache, caches[LAYERS - 1].data, kiln_tensor_bytes(&caches[0])));
    must(kiln_download(device, host_out, out.data, kiln_tensor_bytes(&out)));
    for (int b = 0; b < REQUESTS; b++)
        for (int h = 0; h < HEADS; h += 5)
            worst = fmax(worst, largest_error(&batch, host_cache, host_q, host_out, b, h));
    if (options.list) {
        print_list(ops);
    } else {
        printf("%d steps of %d layers for %d requests on %s; lengths now", STEPS, LAYERS, REQUESTS,
               kiln_device_describe(device));
        for (int b = 0; b < REQUESTS; b++) printf(" %d", batch.lengths[b]);
        printf("; largest difference %.2g\n", worst);
    }

    for (int l = 0; l < LAYERS; l++) kiln_free(device, caches[l].data);
    void *const others[] = { lengths.data, table.data, slots.data,      keys.data,         q.data,
                             out.data,     lse.data,   planning.memory, decoding.workspace };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) kiln_free(device, others[i]);
    free(host_cache);
    free(host_keys);
    free(host_q);
    free(host_out);
    kiln_stream_close(stream);
    kiln_ops_close(ops);
    kiln_device_close(device);
    return worst < 4e-3 ? 0 : 1; /* results are rounded to bf16: 2^-9 of values up to a half */
}
