#!/bin/sh
# SPDX-License-Identifier: MIT
# Attention over paged caches on a GPU: checks, then times beside the contiguous calls of the same shapes.
# Runs in the root of the repository; some 6 minutes, and 4 more with FlashInfer, whose kernels are compiled on their first call
# (pip install --no-deps --target .gpu/peers flashinfer-python requests urllib3 idna certifi charset-normalizer ninja
# setuptools packaging). Last: a table.
. bench/families/common.sh
check_kernels kernels/attention/paged.tile kernels/attention/paged_plan.tile kernels/attention/paged_cache.tile tests/language/run/gathers.tile
check_operators paged attention nn
cat >/tmp/paged.c <<'END_C'
#include <kiln/ops/attention.h>
#include <kiln/ops/paged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define OK(x) do { if (x) { fprintf(stderr, "%s\n", kiln_error_message()); exit(1); } } while (0)
static kiln_device *dev; static kiln_ops *ops; static long divide = 1; static bool eight;
static unsigned long long seed = 1;
static unsigned rnd(void) { seed = seed * 6364136223846793005ull + 1442695040888963407ull; return (unsigned)(seed >> 33); }
static void *all[64]; static int n_all;
static void *mem(size_t n) { void *p; OK(kiln_alloc(dev, n + 256, &p)); return all[n_all++] = p; }
static void *ints(const int *x, long n) { void *p = mem(4 * n + 4); OK(kiln_upload(dev, p, x, 4 * n)); return p; }
static void *values(size_t n) /* bf16, the same chunk again and again */
{
    enum { CHUNK = 1 << 22 }; static unsigned short *h;
    if (!h) { h = malloc(2 * CHUNK); for (int i = 0; i < CHUNK; i++) h[i] = (unsigned short)(0x3d00 + rnd() % 512 + (rnd() & 1) * 0x8000); }
    char *p = mem(2 * n);
    for (size_t at = 0; at < n; at += CHUNK) OK(kiln_upload(dev, p + 2 * at, h, 2 * (n - at < CHUNK ? n - at : CHUNK)));
    return p;
}
static double best_of(kiln_status f(void *), void *args)
{
    kiln_event *x, *y; OK(kiln_event_open(dev, &x)); OK(kiln_event_open(dev, &y)); double best = 1e9, ms;
    for (int i = 0; i < 5; i++) OK(f(args));
    for (int r = 0; r < 5; r++) {
        OK(kiln_event_record(x, NULL)); for (int i = 0; i < 20; i++) OK(f(args));
        OK(kiln_event_record(y, NULL)); OK(kiln_event_wait(y)); OK(kiln_event_elapsed(x, y, &ms)); if (ms / 20 < best) best = ms / 20;
    }
    kiln_event_close(x); kiln_event_close(y); return best;
}
static kiln_status paged(void *a) { return kiln_paged_attention(ops, NULL, a); }
static kiln_status append(void *a) { return kiln_paged_append(ops, NULL, a); }
static kiln_status varlen(void *a) { return kiln_attention_forward_varlen(ops, NULL, a); }
static kiln_status decode(void *a) { return kiln_attention_decode(ops, NULL, a); }
/* b requests of sq queries over s keys, then b2 of one query over s2; window, softcap; splits 0: chosen */
static void row(const char *name, int b, int sq, long s, int b2, long s2, int H, int HKV, int D, int page, long window, double cap, bool contiguous)
{
    const kiln_type type = eight ? KILN_E4M3 : KILN_BF16; const int bytes = eight ? 1 : 2; int one[64]; for (int i = 0; i < 64; i++) one[i] = 0x3f800000;
    s = s / divide > sq ? s / divide : sq; s2 /= divide;
    int B = b + b2, TQ = b * sq + b2; long longest = s > s2 ? s : s2, each = (longest + page - 1) / page, pages = each * B, keys = 0, pairs = 0;
    int *t = malloc(4 * pages), *l = malloc(4 * B), *o = calloc(B + 1, 4), *ko = calloc(B + 1, 4);
    for (long i = 0; i < pages; i++) t[i] = (int)i;
    for (long i = pages - 1; i > 0; i--) { long j = rnd() % (i + 1); int x = t[i]; t[i] = t[j]; t[j] = x; }
    for (int i = 0; i < B; i++) {
        long len = i < b ? s : s2; int n = i < b ? sq : 1; l[i] = (int)len; o[i + 1] = o[i] + n; ko[i + 1] = ko[i] + (int)len; keys += len;
        for (int q = 0; q < n; q++) { long seen = len - n + q + 1; pairs += window && window < seen ? window : seen; }
    }
    kiln_tensor q = kiln_tensor_of(dev, values((size_t)TQ * H * D), KILN_BF16, 3, (int64_t[]){ TQ, H, D }), out = kiln_tensor_of(dev, mem((size_t)TQ * H * D * 2), KILN_BF16, 3, (int64_t[]){ TQ, H, D }),
        k = kiln_tensor_of(dev, values((size_t)pages * page * HKV * D), type, 4, (int64_t[]){ pages, page, HKV, D }), v = kiln_tensor_of(dev, values((size_t)pages * page * HKV * D), type, 4, (int64_t[]){ pages, page, HKV, D }),
        ones = kiln_tensor_of(dev, ints(one, HKV), KILN_F32, 1, (int64_t[]){ HKV }), table = kiln_tensor_of(dev, ints(t, pages), KILN_I32, 2, (int64_t[]){ B, each }), lengths = kiln_tensor_of(dev, ints(l, B), KILN_I32, 1, (int64_t[]){ B }), offsets = kiln_tensor_of(dev, ints(o, B + 1), KILN_I32, 1, (int64_t[]){ B + 1 }),
        k_offsets = kiln_tensor_of(dev, ints(ko, B + 1), KILN_I32, 1, (int64_t[]){ B + 1 });
    kiln_paged_attention_args a = { .q = &q, .k = &k, .v = &v, .table = &table, .lengths = &lengths, .q_offsets = &offsets, .max_queries = b ? sq : 1, .max_keys = longest, .out = &out, .causal = true, .window = window, .softcap = cap, .k_scales = eight ? &ones : NULL, .v_scales = eight ? &ones : NULL };
    OK(kiln_paged_attention_workspace_size(ops, &a, &a.workspace_bytes)); a.workspace = mem(a.workspace_bytes);
    double ms = best_of(paged, &a), other = 0;
    if (contiguous && sq == 1 && !b2) { /* the same keys, one after another */
        kiln_tensor q3 = q, k4 = kiln_tensor_of(dev, k.data, KILN_BF16, 4, (int64_t[]){ B, s, HKV, D }), v4 = kiln_tensor_of(dev, v.data, KILN_BF16, 4, (int64_t[]){ B, s, HKV, D });
        kiln_attention_decode_args d = { .q = &q3, .k = &k4, .v = &v4, .out = &out };
        OK(kiln_attention_decode_workspace_size(ops, &d, &d.workspace_bytes)); d.workspace = mem(d.workspace_bytes); other = best_of(decode, &d);
    } else if (contiguous) {
        kiln_tensor kk = kiln_tensor_of(dev, k.data, KILN_BF16, 3, (int64_t[]){ keys, HKV, D }), vv = kiln_tensor_of(dev, v.data, KILN_BF16, 3, (int64_t[]){ keys, HKV, D });
        kiln_attention_varlen_args d = { .q = &q, .k = &kk, .v = &vv, .q_offsets = &offsets, .k_offsets = &k_offsets, .max_queries = b ? sq : 1, .out = &out, .causal = true, .window = window };
        other = best_of(varlen, &d);
    }
    printf("%-26s page %3d  %9.1f us %7.1f TFLOPS %7.0f GB/s  workspace %4zu MiB", name, page, ms * 1e3, 4.0 * pairs * H * D / ms / 1e9, 2.0 * bytes * keys * HKV * D / ms / 1e6, a.workspace_bytes >> 20);
    if (other) printf("  contiguous %9.1f us, ratio %.3f", other * 1e3, other / ms);
    printf("\n"); fflush(stdout);
    while (n_all) kiln_free(dev, all[--n_all]);
    free(t); free(l); free(o); free(ko);
}
static void append_row(int N, int HKV, int D)
{
    int *to = malloc(4 * N), *at = malloc(4 * N); for (int i = 0; i < N; i++) to[i] = N - 1 - i, at[i] = i * 3;
    kiln_tensor keys = kiln_tensor_of(dev, values((size_t)N * HKV * D), KILN_BF16, 3, (int64_t[]){ N, HKV, D }), vals = kiln_tensor_of(dev, values((size_t)N * HKV * D), KILN_BF16, 3, (int64_t[]){ N, HKV, D }),
        k = kiln_tensor_of(dev, values((size_t)N * HKV * D), KILN_BF16, 4, (int64_t[]){ N / 16, 16, HKV, D }), v = kiln_tensor_of(dev, values((size_t)N * HKV * D), KILN_BF16, 4, (int64_t[]){ N / 16, 16, HKV, D }),
        slots = kiln_tensor_of(dev, ints(to, N), KILN_I32, 1, (int64_t[]){ N }), pos = kiln_tensor_of(dev, ints(at, N), KILN_I32, 1, (int64_t[]){ N });
    kiln_rotary r = { .style = KILN_ROTARY_HALVES };
    kiln_paged_append_args a = { .keys = &keys, .values = &vals, .slots = &slots, .positions = &pos, .k = &k, .v = &v, .rotary = &r };
    double turned = best_of(append, &a); a.rotary = NULL, a.positions = NULL; double plain = best_of(append, &a);
    printf("append %5d tokens           %9.1f us turned, %9.1f us plain, %7.0f GB/s\n", N, turned * 1e3, plain * 1e3, 8.0 * N * HKV * D / turned / 1e6);
    while (n_all) kiln_free(dev, all[--n_all]);
    free(to); free(at);
}
int main(int argc, char **argv)
{
    if (argc > 2) divide = atol(argv[2]);
    OK(kiln_device_open(argc > 1 ? argv[1] : "cuda:0", &dev)); OK(kiln_ops_open(dev, NULL, &ops));
    static const int pages[] = { 1, 16, 64, 256 };
    int few = divide > 1;
    for (int i = 0; i < 4; i++) row("decode B64 S4096 H32/8", few ? 4 : 64, 1, 4096, 0, 0, 32, 8, 128, pages[i], 0, 0, true);
    row("decode B1 S32768 H32/8", 1, 1, 32768, 0, 0, 32, 8, 128, 16, 0, 0, true);
    row("decode B16 S4096 H64/8", few ? 2 : 16, 1, 4096, 0, 0, 64, 8, 128, 16, 0, 0, true);
    row("decode B32 S8192 H32/32", few ? 2 : 32, 1, 8192, 0, 0, 32, 32, 128, 16, 0, 0, true);
    row("decode window 1024", few ? 4 : 64, 1, 16384, 0, 0, 32, 8, 128, 16, 1024, 0, false);
    row("drafts B64 q4 S4096", few ? 4 : 64, 4, 4096, 0, 0, 32, 8, 128, 16, 0, 0, true);
    row("drafts B16 q8 S8192", few ? 2 : 16, 8, 8192, 0, 0, 32, 8, 128, 64, 0, 0, true);
    row("chunk B1 q2048 S16384", 1, few ? 64 : 2048, 16384, 0, 0, 32, 8, 128, 4, 0, 0, false);
    row("chunk B1 q2048 S16384", 1, few ? 64 : 2048, 16384, 0, 0, 32, 8, 128, 32, 0, 0, false);
    for (int i = 0; i < 4; i++) row("chunk B1 q2048 S16384", 1, few ? 64 : 2048, 16384, 0, 0, 32, 8, 128, pages[i], 0, 0, true);
    row("chunk B1 q512 S32768", 1, few ? 64 : 512, 32768, 0, 0, 32, 8, 128, 16, 0, 0, true);
    row("chunk B4 q512 S8192", 4, few ? 64 : 512, 8192, 0, 0, 32, 8, 128, 64, 0, 0, true);
    row("chunk D64 H32/8", 4, few ? 64 : 512, 8192, 0, 0, 32, 8, 64, 64, 0, 0, true);
    row("chunk D256 H16/8", 2, few ? 64 : 1024, 8192, 0, 0, 16, 8, 256, 64, 0, 0, true);
    row("chunk softcap", 4, few ? 64 : 512, 8192, 0, 0, 32, 8, 128, 64, 0, 30, false);
    row("prompts B8 q2048", few ? 1 : 8, few ? 64 : 2048, few ? 64 * divide : 2048, 0, 0, 32, 8, 128, 64, 0, 0, true);
    row("mixed q1024 + 63 x 1", 1, few ? 64 : 1024, 8192, few ? 3 : 63, 4096, 32, 8, 128, 16, 0, 0, true);
    eight = true;
    for (int i = 0; i < 4; i++) row("e4m3 decode B64 S4096", few ? 4 : 64, 1, 4096, 0, 0, 32, 8, 128, pages[i], 0, 0, false);
    row("e4m3 decode B1 S32768", 1, 1, 32768, 0, 0, 32, 8, 128, 16, 0, 0, false);
    row("e4m3 chunk B4 q512 S8192", 4, few ? 64 : 512, 8192, 0, 0, 32, 8, 128, 64, 0, 0, false);
    append_row(64, 8, 128); append_row(8192, 8, 128);
    return 0;
}
END_C
compile_times paged
timeout 60 "$build/kiln" run --device=cuda:0 --seconds=1 kernels/attention/decode.tile flash_decode Mask=none LENGTH=none SINK=none LSE=none D=128 G=4 BN=64 B=64 S=4096 H=32 HKV=8 splits=2 scale=0.088 2>&1 | tail -n 3
timeout 400 /tmp/paged
cat >/tmp/paged_peer.py <<'END_PY'
import torch
try:
    import flashinfer
except Exception as e:
    print('FlashInfer is not there:', repr(e)[:160])
    raise SystemExit
def best_of(f):
    for _ in range(5): f()
    best = 1e9
    for _ in range(5):
        x, y = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        x.record()
        for _ in range(20): f()
        y.record(); y.synchronize()
        best = min(best, x.elapsed_time(y) / 20 * 1e3)
    return best
def ints(x): return torch.tensor(x, dtype=torch.int32, device='cuda')
space = torch.empty(512 << 20, dtype=torch.uint8, device='cuda')
def row(name, B, R, S, H, HKV, D, page, kv=torch.bfloat16):
    each = (S + page - 1) // page
    indices = torch.randperm(B * each, device='cuda').int()
    starts, last = ints([i * each for i in range(B + 1)]), ints([(S - 1) % page + 1] * B)
    q = torch.randn(B * R, H, D, device='cuda').bfloat16()
    k, v = (torch.randn(B * each, page, HKV, D, device='cuda', dtype=torch.bfloat16).to(kv) for _ in range(2))
    more = dict(q_data_type=q.dtype, kv_data_type=kv)
    if R == 1:
        w = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, 'NHD', use_tensor_cores=True)
        w.plan(starts, indices, last, H, HKV, D, page, **more)
    else:
        w = flashinfer.BatchPrefillWithPagedKVCacheWrapper(space, 'NHD')
        w.plan(ints([i * R for i in range(B + 1)]), starts, indices, last, H, HKV, D, page, causal=True, **more)
    out = torch.empty_like(q)
    print('FlashInfer %-26s page %3d  %9.1f us' % (name, page, best_of(lambda: w.run(q, (k, v), out=out))), flush=True)
def attempt(*x):
    try: row(*x)
    except Exception as e: print('FlashInfer %s: %s' % (x[0], repr(e)[:160]), flush=True)
for page in (1, 16, 64): attempt('decode B64 S4096 H32/8', 64, 1, 4096, 32, 8, 128, page)
attempt('decode B1 S32768 H32/8', 1, 1, 32768, 32, 8, 128, 16)
attempt('decode B16 S4096 H64/8', 16, 1, 4096, 64, 8, 128, 16)
for page in (1, 16, 64): attempt('chunk B1 q2048 S16384', 1, 2048, 16384, 32, 8, 128, page)
attempt('chunk B1 q512 S32768', 1, 512, 32768, 32, 8, 128, 16)
for page in (1, 16, 64): attempt('e4m3 decode B64 S4096', 64, 1, 4096, 32, 8, 128, page, torch.float8_e4m3fn)
END_PY
[ "$device" = cpu ] || PATH="$PWD/.gpu/peers/bin:$PATH" timeout 400 "$python" /tmp/paged_peer.py
