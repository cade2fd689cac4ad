#!/bin/sh
# SPDX-License-Identifier: MIT
# DeepSeek sparse attention and latent decoding over contiguous caches on a GPU: checks, then times. Runs in the root of the repository;
# some 6 minutes with the build. Last: a table. DEVICE=cpu DIVIDE=32 BUILD=build: small, on a machine without a GPU.
. bench/families/common.sh
check_kernels kernels/topk/indexer.tile kernels/topk/select.tile kernels/mla/prefill.tile kernels/mla/decode_contiguous.tile kernels/conv/conv2d.tile tests/language/run/shapes.tile
check_operators deepseek mla_contiguous mla_decode mla_sparse graph decode nn refusal
cat >/tmp/dsv.c <<'END_C'
#include <kiln/ops/deepseek.h>
#include <kiln/ops/mla.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define OK(x) do { if (x) { fprintf(stderr, "%s\n", kiln_error_message()); exit(1); } } while (0)
static kiln_device *dev; static kiln_ops *ops; static long divide = 1;
static unsigned long long seed = 1;
static unsigned rnd(void) { seed = seed * 6364136223846793005ull + 1442695040888963407ull; return (unsigned)(seed >> 33); }
static void *all[64]; static int n_all;
static void *mem(size_t n) { void *p; OK(kiln_alloc(dev, n + 256, &p)); return all[n_all++] = p; }
static void free_all(void) { while (n_all) kiln_free(dev, all[--n_all]); }
enum { CHUNK = 1 << 20 };
static void *fill(size_t bytes, const void *h, size_t chunk) { char *p = mem(bytes); for (size_t at = 0; at < bytes; at += chunk) OK(kiln_upload(dev, p + at, h, bytes - at < chunk ? bytes - at : chunk)); return p; }
static void *bf16(size_t n) { static unsigned short h[CHUNK]; for (int i = 0; i < CHUNK; i++) h[i] = (unsigned short)(0x3d00 + rnd() % 512 + (rnd() & 1) * 0x8000); return fill(2 * n, h, sizeof h); }
static void *e4m3(size_t n) { static unsigned char h[CHUNK]; for (int i = 0; i < CHUNK; i++) h[i] = (unsigned char)(0x28 + rnd() % 24 + (rnd() & 1) * 0x80); return fill(n, h, sizeof h); }
static void *f32(size_t n, float low, float high) { static float h[CHUNK]; for (int i = 0; i < CHUNK; i++) h[i] = low + (high - low) * (float)(rnd() % 65536) / 65536; return fill(4 * n, h, sizeof h); }
static double best_of(kiln_status f(void *), void *args)
{
    kiln_event *x, *y; OK(kiln_event_open(dev, &x)); OK(kiln_event_open(dev, &y)); double best = 1e9, ms; const int n = divide > 1 ? 1 : 10;
    for (int i = 0; i < (divide > 1 ? 1 : 3); i++) OK(f(args));
    for (int r = 0; r < (divide > 1 ? 1 : 5); r++) {
        OK(kiln_event_record(x, NULL)); for (int i = 0; i < n; i++) OK(f(args));
        OK(kiln_event_record(y, NULL)); OK(kiln_event_wait(y)); OK(kiln_event_elapsed(x, y, &ms)); if (ms / n < best) best = ms / n;
    }
    kiln_event_close(x); kiln_event_close(y); return best;
}
static kiln_status logits_of(void *a) { return kiln_indexer_logits(ops, NULL, a); }
static kiln_status scores_of(void *a) { return kiln_indexer_scores(ops, NULL, a); }
static kiln_status select_of(void *a) { return kiln_topk_select(ops, NULL, a); }
static kiln_status prefill_of(void *a) { return kiln_mla_prefill_sparse(ops, NULL, a); }
static kiln_status indexed_of(void *a) { return kiln_indexed_attention(ops, NULL, a); }
static kiln_status contiguous_of(void *a) { return kiln_mla_decode_contiguous(ops, NULL, a); }
static kiln_status paged_of(void *a) { return kiln_mla_decode(ops, NULL, a); }
#define TENSOR(type, data, ...) kiln_tensor_of(dev, data, type, sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ })
/* S queries at the end of SKV keys, causal; the parts one after the other, and all at once with `rows` queries at a time */
static void prefill(long S, long SKV, int HI, int DI, int H, long topk)
{
    S /= divide, SKV /= divide; if (divide > 1) topk /= divide;
    int *ends = malloc(4 * S); double pairs = 0, reads = 0;
    for (long i = 0; i < S; i++) ends[i] = (int)(SKV - S + i + 1), pairs += ends[i], reads += ends[i] < topk ? ends[i] : topk;
    void *e = mem(4 * S); OK(kiln_upload(dev, e, ends, 4 * S));
    kiln_tensor iq = TENSOR(KILN_E4M3, e4m3((size_t)S * HI * DI), S, HI, DI), ik = TENSOR(KILN_E4M3, e4m3((size_t)SKV * DI), SKV, DI), sc = TENSOR(KILN_F32, f32(SKV, 0.5f, 1.5f), SKV), w = TENSOR(KILN_F32, f32((size_t)S * HI, -1, 1), S, HI),
        to = TENSOR(KILN_I32, e, S), q = TENSOR(KILN_BF16, bf16((size_t)S * H * 576), S, H, 576), kv = TENSOR(KILN_BF16, bf16((size_t)SKV * 576), SKV, 576), out = TENSOR(KILN_BF16, mem((size_t)S * H * 1024), S, H, 512),
        l = TENSOR(KILN_F32, mem((size_t)S * SKV * 4), S, SKV), at = TENSOR(KILN_I32, mem((size_t)S * topk * 4), S, topk);
    kiln_indexer_logits_args a = { .q = &iq, .k = &ik, .k_scales = &sc, .weights = &w, .ends = &to, .logits = &l };
    kiln_topk_select_args s = { .logits = &l, .ends = &to, .indices = &at };
    kiln_mla_prefill_sparse_args p = { .q = &q, .kv = &kv, .indices = &at, .out = &out };
    kiln_indexed_attention_args x = { .index_q = &iq, .index_k = &ik, .index_scales = &sc, .index_weights = &w, .ends = &to, .q = &q, .kv = &kv, .out = &out, .topk = topk };
    const double clean = best_of(logits_of, &a); a.windows_alone = true;
    const double index = best_of(logits_of, &a), choose = best_of(select_of, &s), attend = best_of(prefill_of, &p);
    printf("prefill S %5ld over %6ld: logits %8.1f us %5.0f TFLOPS (cleaned %8.1f us), select %8.1f us %5.0f GB/s, attention %8.1f us %4.0f TFLOPS\n", S, SKV, index * 1e3, 2 * pairs * HI * DI / index / 1e9, clean * 1e3,
           choose * 1e3, 4 * pairs / choose / 1e6, attend * 1e3, 2 * reads * H * 1088 / attend / 1e9);
    static const long rows[] = { 0, 256, 512, 1024, 4096 };
    for (int i = 0; i < 5; i++) {
        if (i && rows[i] >= S) continue;
        x.rows = rows[i], x.workspace = NULL, x.workspace_bytes = 0;
        OK(kiln_indexed_attention_workspace_size(ops, &x, &x.workspace_bytes)); x.workspace = mem(x.workspace_bytes);
        const double ms = best_of(indexed_of, &x);
        printf("    in one call, rows %4ld: %9.1f us, %.3f of the parts, workspace %5zu MiB\n", rows[i], ms * 1e3, (index + choose + attend) / ms, x.workspace_bytes >> 20);
    }
    fflush(stdout); free(ends); free_all();
}
static void scores(int B, int S, long SKV)
{
    enum { HI = 64, DI = 128 }; SKV /= divide;
    kiln_tensor iq = TENSOR(KILN_E4M3, e4m3((size_t)B * S * HI * DI), B, S, HI, DI), ik = TENSOR(KILN_E4M3, e4m3((size_t)B * SKV * DI), B, SKV, DI), sc = TENSOR(KILN_F32, f32((size_t)B * SKV, 0.5f, 1.5f), B, SKV),
        w = TENSOR(KILN_F32, f32((size_t)B * S * HI, -1, 1), B, S, HI), o = TENSOR(KILN_F32, mem((size_t)B * S * SKV * 4), B, S, SKV);
    kiln_indexer_scores_args a = { .q = &iq, .k = &ik, .k_scales = &sc, .weights = &w, .scores = &o };
    const double ms = best_of(scores_of, &a);
    printf("scores B %3d S %d SKV %6ld: %8.1f us %5.0f TFLOPS %5.0f GB/s\n", B, S, SKV, ms * 1e3, 2.0 * B * S * SKV * HI * DI / ms / 1e9, (double)B * SKV * (DI + 4 + 4 * S) / ms / 1e6);
    fflush(stdout); free_all();
}
/* TileLang's case: 128 heads, f16 or bf16; beside it pages of 64 with the same keys in one tensor of 576 */
static void decode(int B, long S, int H, int splits)
{
    double eight[2];
    S = S / divide / 64 * 64;
    kiln_tensor q = TENSOR(KILN_BF16, bf16((size_t)B * H * 512), B, H, 512), qr = TENSOR(KILN_BF16, bf16((size_t)B * H * 64), B, H, 64), c = TENSOR(KILN_BF16, bf16((size_t)B * S * 512), B, S, 512), r = TENSOR(KILN_BF16, bf16((size_t)B * S * 64), B, S, 64),
        o = TENSOR(KILN_BF16, mem((size_t)B * H * 1024), B, H, 512), lse = TENSOR(KILN_F32, mem((size_t)B * H * 4), B, H);
    kiln_mla_decode_contiguous_args a = { .q = &q, .q_rotary = &qr, .cache = &c, .rotary_cache = &r, .out = &o, .lse = &lse, .splits = splits };
    OK(kiln_mla_decode_contiguous_workspace_size(ops, &a, &a.workspace_bytes)); a.workspace = mem(a.workspace_bytes);
    const double ms = best_of(contiguous_of, &a);
    kiln_tensor c8 = TENSOR(KILN_E4M3, e4m3((size_t)B * S * 512), B, S, 512), sc = TENSOR(KILN_F32, f32((size_t)B * S, 0.5f, 1.5f), B, S);
    a.cache = &c8, eight[0] = best_of(contiguous_of, &a), a.scales = &sc, eight[1] = best_of(contiguous_of, &a);
    const long pages = S / 64; int *t = malloc(4 * B * pages), *n = malloc(4 * B);
    for (long i = 0; i < B * pages; i++) t[i] = (int)i;
    for (int i = 0; i < B; i++) n[i] = (int)S;
    void *dt = mem(4 * B * pages), *dn = mem(4 * B); OK(kiln_upload(dev, dt, t, 4 * B * pages)); OK(kiln_upload(dev, dn, n, 4 * B)); free(t); free(n);
    kiln_tensor q4 = TENSOR(KILN_BF16, bf16((size_t)B * H * 576), B, 1, H, 576), cache = TENSOR(KILN_BF16, bf16((size_t)B * S * 576), B * pages, 64, 1, 576), table = TENSOR(KILN_I32, dt, B, pages), lengths = TENSOR(KILN_I32, dn, B), o4 = TENSOR(KILN_BF16, o.data, B, 1, H, 512), l4 = TENSOR(KILN_F32, lse.data, B, H, 1);
    const kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = H }; kiln_mla_plan plan; kiln_mla_plan_args make = { .shape = &shape, .lengths = &lengths };
    OK(kiln_mla_plan_size(ops, &shape, &make.memory_bytes)); make.memory = mem(make.memory_bytes); OK(kiln_mla_plan_make(ops, NULL, &make, &plan));
    kiln_mla_decode_args d = { .plan = &plan, .q = &q4, .cache = &cache, .table = &table, .lengths = &lengths, .out = &o4, .lse = &l4 };
    OK(kiln_mla_workspace_size(ops, &shape, &d.workspace_bytes)); d.workspace = mem(d.workspace_bytes);
    const double paged = best_of(paged_of, &d);
    printf("decode B %3d S %6ld H %3d splits %2d: %8.1f us %5.0f TFLOPS %5.0f GB/s; pages %8.1f us, ratio %.3f; e4m3 %8.1f us, with scales %8.1f us\n", B, S, H, splits, ms * 1e3, 2.0 * B * S * H * 1088 / ms / 1e9, B * S * 1152.0 / ms / 1e6, paged * 1e3, paged / ms, eight[0] * 1e3, eight[1] * 1e3);
    fflush(stdout); free_all();
}
int main(int argc, char **argv)
{
    if (argc > 2) divide = atol(argv[2]);
    OK(kiln_device_open(argc > 1 ? argv[1] : "cuda:0", &dev)); OK(kiln_ops_open(dev, NULL, &ops));
    prefill(4096, 8192, 32, 64, 128, 2048); prefill(4096, 4096, 64, 128, 128, 2048); prefill(4096, 32768, 64, 128, 128, 2048); prefill(1024, 65536, 64, 128, 64, 2048); prefill(64, 16384, 64, 128, 128, 2048);
    scores(1, 1, 65536); scores(64, 1, 8192); scores(16, 2, 32768); scores(2, 64, 8192);
    static const int splits[] = { 0, 1, 2, 4 };
    for (int i = 0; i < 4; i++) decode(divide > 1 ? 2 : 1, 8192, 128, splits[i]);
    for (int i = 0; i < 3; i++) decode(divide > 1 ? 2 : 132, 8192, 128, splits[i]);
    for (int i = 0; i < 3; i++) decode(divide > 1 ? 2 : 64, 4096, 64, splits[i]);
    decode(divide > 1 ? 2 : 16, 32768, 16, 0); decode(divide > 1 ? 2 : 128, 1024, 128, 0);
    return 0;
}
END_C
compile_times dsv
timeout 400 /tmp/dsv $device $divide
[ "$device" = cpu ] || timeout 200 python3 - <<'END_PY'
import torch
def best(f, n=10):
    for _ in range(3): f()
    times = []
    for _ in range(5):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); [f() for _ in range(n)]; b.record(); b.synchronize(); times.append(a.elapsed_time(b) / n)
    return min(times)
for s, n in ((4096, 8192), (4096, 32768), (1024, 65536), (64, 16384)):
    x = torch.randn(s, n, device="cuda")
    print("torch.topk S %5d over %6d: %8.1f us" % (s, n, best(lambda: x.topk(2048, -1, sorted=False)) * 1e3))
for b, s, h in ((1, 8192, 128), (132, 8192, 128), (64, 4096, 64), (16, 32768, 16), (128, 1024, 128)):
    q, k = torch.randn(b, h, 576, device="cuda", dtype=torch.bfloat16), torch.randn(b, s, 576, device="cuda", dtype=torch.bfloat16)
    f = lambda: torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 24, -1), k[..., :512])
    print("torch latent decode B %3d S %6d H %3d: %8.1f us" % (b, s, h, best(f) * 1e3))
END_PY
