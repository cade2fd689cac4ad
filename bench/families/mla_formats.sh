#!/bin/sh
# SPDX-License-Identifier: MIT
# FlashMLA's second cache format, natural logarithms and loose index tensors on a GPU: checks, then times of sparse decode.
# Runs in the root of the repository; some 8 minutes. Last: a table.
. bench/families/common.sh
check_kernels kernels/mla
check_operators mla_cache mla_sparse mla_decode strided refusal far warm graph attention not_finite handle
cat >/tmp/flashmla.c <<'END'
#include <kiln/ops/mla.h>
#include <stdio.h>
#include <stdlib.h>
#define OK(x) do { if (x) { fprintf(stderr, "%s\n", kiln_error_message()); exit(1); } } while (0)
enum { CHUNK = 65536 };
static kiln_device *dev; static kiln_ops *ops;
static unsigned long long seed = 1;
static unsigned rnd(void) { seed = seed * 6364136223846793005ull + 1442695040888963407ull; return (unsigned)(seed >> 33); }
static void *mem(size_t n) { void *p; OK(kiln_alloc(dev, n + 256, &p)); return p; }
typedef struct { kiln_tensor t; long slots, each; } Cache;
static Cache cache(int b, long s_kv, int page, int D)      /* filled through kiln_mla_quantize */
{
    static void *keys[2]; static int *host; int k = D == 512; if (!host) host = malloc(4 * CHUNK);
    if (!keys[k]) { unsigned short *h = malloc((size_t)CHUNK * D * 2); for (size_t i = 0; i < (size_t)CHUNK * D; i++) h[i] = (unsigned short)(0x3d00 + rnd() % 256 + (rnd() & 1) * 0x8000);
        keys[k] = mem((size_t)CHUNK * D * 2); OK(kiln_upload(dev, keys[k], h, (size_t)CHUNK * D * 2)); free(h); }
    long pages = (b * s_kv + page - 1) / page, token = D == 512 ? 584 : 656;
    long stride = D == 512 ? (page * 584L + 575) / 576 * 576 : (page + 1) * 656L;
    Cache c = { .slots = pages * page, .each = s_kv };
    c.t = kiln_tensor_of(dev, mem((size_t)pages * stride), KILN_U8, 3, (int64_t[]){ pages, page, token });
    c.t.has_strides = true; c.t.strides[0] = stride; c.t.strides[1] = token; c.t.strides[2] = 1;
    void *slots = mem(4 * CHUNK);
    for (long at = 0; at < c.slots; at += CHUNK) {
        long n = c.slots - at < CHUNK ? c.slots - at : CHUNK; for (long i = 0; i < n; i++) host[i] = (int)(at + i);
        OK(kiln_upload(dev, slots, host, 4 * n));
        kiln_tensor K = kiln_tensor_of(dev, keys[k], KILN_BF16, 2, (int64_t[]){ n, D }), S = kiln_tensor_of(dev, slots, KILN_I32, 1, (int64_t[]){ n });
        OK(kiln_mla_quantize(ops, NULL, &(kiln_mla_quantize_args){ .keys = &K, .slots = &S, .cache = &c.t, .power_scales = D == 576 }));
        OK(kiln_stream_wait(dev, NULL));
    }
    kiln_free(dev, slots); return c;
}
static kiln_tensor lists(const Cache *c, int b, int sq, int topk)
{
    size_t n = (size_t)b * sq * topk; int *h = malloc(4 * n);
    for (size_t i = 0; i < n; i++) h[i] = (int)(i / ((size_t)sq * topk) * c->each + rnd() % c->each);
    void *d = mem(4 * n); OK(kiln_upload(dev, d, h, 4 * n)); free(h);
    return kiln_tensor_of(dev, d, KILN_I32, 3, (int64_t[]){ b, sq, topk });
}
static void row(int D, int b, int sq, int h, long s_kv, int page, int topk, int more, int page2)
{
    Cache c = cache(b, s_kv, page, D), e = { 0 }; if (more) e = cache(b, s_kv, page2, D);
    kiln_tensor idx = lists(&c, b, sq, topk), idx2; if (more) idx2 = lists(&e, b, sq, more);
    size_t qn = (size_t)b * sq * h * D; unsigned short *hq = malloc(2 * qn); for (size_t i = 0; i < qn; i++) hq[i] = (unsigned short)(0x3d00 + rnd() % 256 + (rnd() & 1) * 0x8000);
    void *dq = mem(2 * qn); OK(kiln_upload(dev, dq, hq, 2 * qn)); free(hq);
    kiln_tensor q = kiln_tensor_of(dev, dq, KILN_BF16, 4, (int64_t[]){ b, sq, h, D }), out = kiln_tensor_of(dev, mem((size_t)b * sq * h * 1024), KILN_BF16, 4, (int64_t[]){ b, sq, h, 512 }),
        lse = kiln_tensor_of(dev, mem((size_t)b * sq * h * 4), KILN_F32, 3, (int64_t[]){ b, h, sq }), sink = kiln_tensor_of(dev, mem(4 * h), KILN_F32, 1, (int64_t[]){ h });
    float *hs = calloc(h, 4); OK(kiln_upload(dev, sink.data, hs, 4 * h)); free(hs);
    kiln_mla_shape s = { .batch = b, .queries = sq, .query_heads = h, .topk = topk, .extra_topk = more }; kiln_mla_plan plan; size_t pb;
    OK(kiln_mla_plan_size(ops, &s, &pb)); void *pm = mem(pb);
    OK(kiln_mla_plan_make(ops, NULL, &(kiln_mla_plan_args){ .shape = &s, .memory = pm, .memory_bytes = pb }, &plan));
    kiln_mla_decode_sparse_args a = { .plan = &plan, .q = &q, .cache = &c.t, .indices = &idx, .extra_cache = more ? &e.t : NULL, .extra_indices = more ? &idx2 : NULL, .sink = &sink, .out = &out, .lse = &lse };
    OK(kiln_mla_decode_sparse_workspace_size(ops, &a, &a.workspace_bytes)); a.workspace = mem(a.workspace_bytes);
    kiln_event *x, *y; OK(kiln_event_open(dev, &x)); OK(kiln_event_open(dev, &y)); double best = 1e9;
    for (int i = 0; i < 10; i++) OK(kiln_mla_decode_sparse(ops, NULL, &a));
    for (int r = 0; r < 5; r++) { double ms; OK(kiln_event_record(x, NULL)); for (int i = 0; i < 20; i++) OK(kiln_mla_decode_sparse(ops, NULL, &a)); OK(kiln_event_record(y, NULL)); OK(kiln_event_wait(y)); OK(kiln_event_elapsed(x, y, &ms)); if (ms / 20 < best) best = ms / 20; }
    double n = (double)b * sq * (topk + more);
    printf("%4d B  b%-4d q%d h%-4d pages %4d top %5d + %4d of pages %3d  %9.1f us %7.1f TFLOPS %7.0f GB/s\n", D == 512 ? 584 : 656, b, sq, h, page, topk, more, more ? page2 : 0, best * 1e3, 2.0 * n * h * (D + 512) / best / 1e9, n * (D == 512 ? 584 : 656) / best / 1e6);
    fflush(stdout);
    void *all[] = { c.t.data, e.t.data, idx.data, more ? idx2.data : NULL, dq, out.data, lse.data, sink.data, pm, a.workspace };
    for (int i = 0; i < 10; i++) kiln_free(dev, all[i]);
}
int main(void)
{
    OK(kiln_device_open("cuda:0", &dev)); OK(kiln_ops_open(dev, NULL, &ops));
    static const int b[] = { 2, 64, 74, 128 };
    for (int i = 0; i < 4; i++) row(576, b[i], 2, 128, 32768, 64, 2048, 0, 0);
    for (int i = 0; i < 4; i++) row(576, b[i], 2, 64, 32768, 64, 2048, 0, 0);
    for (int i = 0; i < 4; i++) row(512, b[i], 2, 64, 16384, 256, 128, 512, 64);
    for (int i = 0; i < 4; i++) row(512, b[i], 2, 128, 16384, 256, 128, 1024, 64);
    row(512, 148, 2, 64, 16384, 256, 128, 512, 64); row(512, 148, 2, 128, 16384, 256, 128, 1024, 64);
    row(512, 64, 2, 128, 16384, 256, 128, 1024, 2); row(512, 128, 2, 128, 16384, 256, 128, 1024, 2);
    row(512, 148, 2, 64, 32768, 64, 16384, 0, 0); row(512, 148, 2, 128, 32768, 64, 16384, 0, 0);
    return 0;
}
END
compile_times flashmla
timeout 400 /tmp/flashmla
