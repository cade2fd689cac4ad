#!/bin/sh
# SPDX-License-Identifier: MIT
# Block-sparse and vertical-slash attention, sinks on a GPU: checks, then times beside figures of TileLang 0.1.15 (cold
# L2, medians of 12, as there). Runs in the root of the repository; some 6 minutes with the build. Last: a table. On a machine without a GPU:
# DEVICE=cpu DIVIDE=16 BUILD=build.
. bench/families/common.sh
check_kernels kernels/sparse/lists.tile kernels/sparse/block.tile kernels/sparse/decode.tile kernels/sparse/vertical_slash.tile kernels/sparse/vertical_slash_lists.tile kernels/attention/sink.tile kernels/attention/backward.tile kernels/attention/backward_varlen.tile
check_operators sparse attention_sink attention paged strided graph
cat >/tmp/sparse.c <<'END_C'
#include <kiln/ops/attention.h>
#include <kiln/ops/sparse.h>
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
static void *f16(size_t n) { static unsigned short h[CHUNK]; for (int i = 0; i < CHUNK; i++) h[i] = (unsigned short)(0x3000 + rnd() % 2560 + (rnd() & 1) * 0x8000); return fill(2 * n, h, sizeof h); }
static void *bf16(size_t n) { static unsigned short h[CHUNK]; for (int i = 0; i < CHUNK; i++) h[i] = (unsigned short)(0x3e00 + rnd() % 448 + (rnd() & 1) * 0x8000); return fill(2 * n, h, sizeof h); }
static void *ints(size_t n, const int *x) { void *p = mem(4 * n); OK(kiln_upload(dev, p, x, 4 * n)); return p; }
static kiln_kernel *sweep; static kiln_tensor swept;
static int by_size(const void *a, const void *b) { const double x = *(const double *)a, y = *(const double *)b; return (x > y) - (x < y); }
static double median(kiln_status f(void *), void *args)
{
    kiln_event *x, *y; OK(kiln_event_open(dev, &x)); OK(kiln_event_open(dev, &y)); double ms[12]; const int n = divide > 1 ? 1 : 12; const kiln_arg a[] = { KILN_TENSOR(&swept) };
    for (int i = 0; i < (divide > 1 ? 0 : 3); i++) OK(f(args));
    for (int i = 0; i < n; i++) {
        if (divide == 1) OK(kiln_launch(sweep, NULL, a, 1));
        OK(kiln_event_record(x, NULL)); OK(f(args)); OK(kiln_event_record(y, NULL)); OK(kiln_event_wait(y)); OK(kiln_event_elapsed(x, y, &ms[i]));
    }
    kiln_event_close(x); kiln_event_close(y); qsort(ms, n, sizeof *ms, by_size); return ms[n / 2];
}
static kiln_status block_of(void *a) { return kiln_block_sparse(ops, NULL, a); }
static kiln_status decode_of(void *a) { return kiln_block_sparse_decode(ops, NULL, a); }
static kiln_status mask_of(void *a) { return kiln_block_mask(ops, NULL, a); }
static kiln_status find_of(void *a) { return kiln_vertical_slash_estimate(ops, NULL, a); }
static kiln_status slash_of(void *a) { return kiln_vertical_slash(ops, NULL, a); }
static kiln_status forward_of(void *a) { return kiln_attention_forward(ops, NULL, a); }
static kiln_status backward_of(void *a) { return kiln_attention_backward(ops, NULL, a); }
static char table[64][200]; static int rows;
static void row(const char *name, double ms, double flops, double bytes, double peer)
{
    snprintf(table[rows++], sizeof *table, "| %-66s | %9.4f | %5.0f TFLOPS | %5.0f GB/s | %8.4f | %5.2f |", name, ms, flops / ms / 1e9, bytes / ms / 1e6, peer, peer / ms);
    puts(table[rows - 1]); fflush(stdout);
}
#define TENSOR(type, data, ...) kiln_tensor_of(dev, data, type, sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ })
#define SIZE(call, a) do { OK(call##_workspace_size(ops, &a, &a.workspace_bytes)); a.workspace = mem(a.workspace_bytes); } while (0)
/* `top` random blocks of those up to the diagonal, which is one of them; bhsd: heads before rows, as TileLang's */
static void prefill(int top, int block, int as_list, int bhsd, double peer)
{
    const long S = 8192 / divide, H = 32 / (divide > 1 ? 4 : 1), D = 128, R = S / block; double kept = 0; char name[100];
    if (top > R) top = (int)R;
    unsigned char *m = calloc(H * R * R, 1); int *list = malloc(4 * H * R * top);
    for (long r = 0; r < H * R; r++) {
        const long here = r % R + 1; long n = 0; m[r * R + here - 1] = 1, n = 1;
        while (n < top && n < here) { const long c = rnd() % here; if (!m[r * R + c]) m[r * R + c] = 1, n++; }
        kept += n; long at = 0; for (long c = 0; c < R; c++) if (m[r * R + c]) list[r * top + at++] = (int)c;
        while (at < top) list[r * top + at++] = -1;
    }
    void *dm = mem(H * R * R); OK(kiln_upload(dev, dm, m, H * R * R));
    kiln_tensor q = TENSOR(KILN_F16, f16((size_t)S * H * D), 1, S, H, D), k = TENSOR(KILN_F16, f16((size_t)S * H * D), 1, S, H, D), v = TENSOR(KILN_F16, f16((size_t)S * H * D), 1, S, H, D), o = TENSOR(KILN_F16, mem(2 * (size_t)S * H * D), 1, S, H, D),
        mask = TENSOR(KILN_U8, dm, 1, H, R, R), places = TENSOR(KILN_I32, ints(H * R * top, list), 1, H, R, top);
    if (bhsd) for (int i = 0; i < 4; i++) { kiln_tensor *t = (kiln_tensor *[]){ &q, &k, &v, &o }[i]; t->has_strides = true, t->strides[0] = S * H * D, t->strides[1] = D, t->strides[2] = S * D, t->strides[3] = 1; }
    kiln_block_sparse_args a = { .q = &q, .k = &k, .v = &v, .mask = as_list ? NULL : &mask, .list = as_list ? &places : NULL, .out = &o, .causal = true, .query_block = block, .key_block = block };
    SIZE(kiln_block_sparse, a);
    snprintf(name, sizeof name, "block-sparse S%ld H%ld D128 f16 causal, %d of %ld blocks of %d, %s%s", S, H, top, R, block, as_list ? "list" : "mask", bhsd ? ", BHSD" : "");
    row(name, median(block_of, &a), kept * 4 * block * block * D, 0, peer);
    free(m), free(list); free_all();
}
/* 20% of the blocks of 8192 keys, random, descending as TileLang's */
static void decode(int B, int block, int by_mask, long page, int splits, double peer)
{
    const long S = 8192 / divide, H = 32, HKV = 8, D = 128, C = S / block; char name[100]; if (divide > 1) B = 2;
    const long n = (C + 4) / 5; unsigned char *m = calloc(B * HKV * C, 1); int *list = malloc(4 * B * HKV * n), *len = malloc(4 * B), *t = page ? malloc(4 * B * S / page) : NULL;
    for (long r = 0; r < B * HKV; r++) {
        for (long got = 0; got < n;) { const long c = rnd() % C; if (!m[r * C + c]) m[r * C + c] = 1, got++; }
        long at = 0; for (long c = C - 1; c >= 0; c--) if (m[r * C + c]) list[r * n + at++] = (int)c;
    }
    for (int b = 0; b < B; b++) len[b] = (int)S;
    for (long i = 0; page && i < B * S / page; i++) t[i] = (int)(i * 7919 % (B * S / page));
    void *dm = mem(B * HKV * C); OK(kiln_upload(dev, dm, m, B * HKV * C));
    kiln_tensor q = TENSOR(KILN_F16, f16(B * H * D), B, H, D), k = TENSOR(KILN_F16, f16((size_t)B * S * HKV * D), B, S, HKV, D), v = TENSOR(KILN_F16, f16((size_t)B * S * HKV * D), B, S, HKV, D), o = TENSOR(KILN_F16, mem(2 * B * H * D), B, H, D),
        mask = TENSOR(KILN_U8, dm, B, HKV, C), places = TENSOR(KILN_I32, ints(B * HKV * n, list), B, HKV, n), lengths = TENSOR(KILN_I32, ints(B, len), B), tab;
    if (page) { tab = TENSOR(KILN_I32, ints(B * S / page, t), B, S / page); k.shape[0] = v.shape[0] = B * S / page, k.shape[1] = v.shape[1] = page; }
    kiln_block_sparse_decode_args a = { .q = &q, .k = &k, .v = &v, .table = page ? &tab : NULL, .lengths = &lengths, .mask = by_mask ? &mask : NULL, .list = by_mask ? NULL : &places, .out = &o, .key_block = block, .splits = splits };
    SIZE(kiln_block_sparse_decode, a);
    snprintf(name, sizeof name, "block-sparse decode b%d S%ld H32/8 D128, 20%% of blocks of %d, %s%s, splits %d", B, S, block, by_mask ? "mask" : "list", page ? ", paged" : "", splits);
    row(name, median(decode_of, &a), 0, (double)B * HKV * n * block * D * 4, peer);
    free(m), free(list), free(len), free(t); free_all();
}
static void slashes(long H, long D, double peer)
{
    const long S = 16384 / divide, NV = 1000 / divide, NS = 200 / divide; char name[100];
    kiln_tensor q = TENSOR(KILN_F16, f16((size_t)S * H * D), 1, S, H, D), k = TENSOR(KILN_F16, f16((size_t)S * H * D), 1, S, H, D), v = TENSOR(KILN_F16, f16((size_t)S * H * D), 1, S, H, D), o = TENSOR(KILN_F16, mem(2 * (size_t)S * H * D), 1, S, H, D),
        vert = TENSOR(KILN_I32, mem(4 * H * NV), 1, H, NV), sl = TENSOR(KILN_I32, mem(4 * H * NS), 1, H, NS);
    const double small = 0.125;
    kiln_vertical_slash_estimate_args e = { .q = &q, .k = &k, .vertical = &vert, .slash = &sl, .scale = &small };
    kiln_vertical_slash_args a = { .q = &q, .k = &k, .v = &v, .vertical = &vert, .slash = &sl, .out = &o };
    SIZE(kiln_vertical_slash_estimate, e); SIZE(kiln_vertical_slash, a);
    const double find = median(find_of, &e); snprintf(name, sizeof name, "vertical-slash S%ld H%ld D%ld: estimate", S, H, D); row(name, find, 0, 0, 0);
    snprintf(name, sizeof name, "vertical-slash S%ld H%ld D%ld, %ld columns, %ld diagonals, index in it", S, H, D, NV, NS); row(name, median(slash_of, &a), 0, 0, peer);
    free_all();
}
static void sinks(long B, long H, long HKV, long S, long D, long window, double peer)
{
    if (divide > 1) B = 1, H /= 8, HKV = HKV > 8 ? HKV / 8 : 1, S /= divide; char name[100]; float h[64]; for (int i = 0; i < 64; i++) h[i] = (float)(rnd() % 100) / 50;
    void *s = mem(256); OK(kiln_upload(dev, s, h, 256));
    const double pairs = window ? (double)S * window : (double)S * S / 2;
    kiln_tensor t[9]; for (int i = 0; i < 8; i++) { const long h = i == 1 || i == 2 || i > 5 ? HKV : H; t[i] = TENSOR(KILN_BF16, bf16((size_t)B * S * h * D), B, S, h, D); }
    kiln_tensor lse = TENSOR(KILN_F32, mem(4 * (size_t)B * H * S), B, H, S), sink = TENSOR(KILN_F32, s, H), ds = TENSOR(KILN_F32, mem(4 * H), H);
    kiln_attention_args f = { .q = &t[0], .k = &t[1], .v = &t[2], .out = &t[3], .lse = &lse, .causal = true, .window = window };
    const double plain = median(forward_of, &f); f.sinks = &sink;
    const double with = median(forward_of, &f); f.softcap = 30; const double capped = median(forward_of, &f); f.softcap = 0;
    snprintf(name, sizeof name, "attention with sinks B%ld H%ld/%ld S%ld D%ld bf16 causal, window %ld", B, H, HKV, S, D, window); row(name, with, 4 * pairs * B * H * D, 0, peer);
    snprintf(name, sizeof name, "... without sinks (peer: with)"); row(name, plain, 4 * pairs * B * H * D, 0, with);
    snprintf(name, sizeof name, "... with sinks, capped scores (peer: with sinks)"); row(name, capped, 4 * pairs * B * H * D, 0, with);
    OK(forward_of(&f));
    kiln_attention_backward_args b = { .q = &t[0], .k = &t[1], .v = &t[2], .out = &t[3], .lse = &lse, .dout = &t[4], .dq = &t[5], .dk = &t[6], .dv = &t[7], .causal = true, .window = window };
    SIZE(kiln_attention_backward, b); const double back = median(backward_of, &b);
    b.sinks = &sink, b.dsinks = &ds; SIZE(kiln_attention_backward, b);
    row("... backward without sinks", back, 10 * pairs * B * H * D, 0, 0);
    row("... backward with sinks (peer: without)", median(backward_of, &b), 10 * pairs * B * H * D, 0, back);
    free_all();
}
static void masks(void)
{
    const long H = 32, R = 2048 / divide;
    kiln_tensor x = TENSOR(KILN_F32, bf16((size_t)2 * H * R * R), 1, H, R, R), m = TENSOR(KILN_U8, mem(H * R * R), 1, H, R, R);
    kiln_block_mask_args a = { .scores = &x, .mask = &m, .queries = 64 * R, .keys = 64 * R, .causal = true, .top = 64 / divide };
    row("masks from scores, 32 heads of 131072 queries, top 64", median(mask_of, &a), 0, 5.0 * H * R * R, 0); free_all();
}
int main(int argc, char **argv)
{
    if (argc > 2) divide = atol(argv[2]);
    OK(kiln_device_open(argc > 1 ? argv[1] : "cuda:0", &dev)); OK(kiln_ops_open(dev, NULL, &ops)); puts(kiln_device_describe(dev));
    kiln_program *p; OK(kiln_program_load_text("sweep", "kernel sweep(out f32 X[N]) { grid (n : ceildiv(N, 4096)); fragment f32 x[4096] = 1; X[n*4096 +: 4096] = x; }", &p));
    OK(kiln_kernel_build(dev, p, "sweep", "", NULL, &sweep)); void *big; OK(kiln_alloc(dev, divide > 1 ? 4096 : 512 << 20, &big)); swept = TENSOR(KILN_F32, big, divide > 1 ? 1024 : 128 << 20);
    prefill(16, 64, 0, 1, 0.9857); prefill(64, 64, 0, 1, 1.971); prefill(16, 64, 0, 1, 1.41); prefill(16, 64, 0, 0, 0.9857); prefill(16, 64, 1, 0, 0.9857); prefill(64, 64, 1, 0, 1.971); prefill(16, 128, 0, 0, 0); prefill(32, 128, 0, 0, 0);
    decode(8, 32, 0, 0, 0, 0.03669); decode(8, 32, 0, 0, 2, 0.03669); decode(8, 32, 1, 0, 0, 0.5724); decode(64, 32, 0, 0, 0, 0.1382); decode(64, 32, 0, 0, 1, 0.1382); decode(64, 32, 1, 0, 0, 4.338);
    decode(8, 64, 0, 256, 0, 0.08325); decode(8, 32, 0, 256, 0, 0.1353); decode(64, 64, 0, 0, 0, 0); decode(1, 64, 0, 256, 0, 0);
    slashes(1, 64, 0.1443); slashes(divide > 1 ? 2 : 32, 128, 4.576);
    sinks(8, 32, 32, 4096, 128, 0, 2.043); sinks(8, 32, 32, 4096, 128, 128, 0.4707); sinks(1, 64, 8, 8192, 64, 0, 0); sinks(1, 64, 8, 8192, 64, 128, 0); masks();
    puts("\n| case | ms | | | TileLang or peer, ms | its time over Kiln's |\n| --- | --- | --- | --- | --- | --- |");
    for (int i = 0; i < rows; i++) puts(table[i]);
    return 0;
}
END_C
compile_times sparse
timeout 500 /tmp/sparse $device $divide
