#!/bin/sh
# SPDX-License-Identifier: MIT
# Linear attention, retention and Mamba-2, forward and backward, on a GPU: checks, then times beside the least time for their bytes.
# Runs in the root of the repository; some 6 minutes with the build. Last: a table. DEVICE=cpu DIVIDE=32 BUILD=build: small, without a GPU.
. bench/families/common.sh
[ -z "${QUICK:-}" ] || { recurrent_peers linear mamba2; exit; }
check_kernels kernels/linear/linear_attention.tile kernels/linear/linear_attention_normalized.tile kernels/linear/linear_dv.tile kernels/linear/linear_dqk.tile kernels/linear/gate_gradients.tile kernels/linear/linear_attention_backward.tile kernels/linear/mamba2.tile kernels/linear/mamba2_backward.tile
KILN_TEST_LONG=1 check_operators recurrent recurrent_backward
cat >/tmp/lin.c <<'END_C'
#include <kiln/ops/recurrent.h>
#include <stdio.h>
#include <stdlib.h>
#define OK(x) do { if (x) { fprintf(stderr, "%s\n", kiln_error_message()); exit(1); } } while (0)
static kiln_device *dev; static kiln_ops *ops; static long divide = 1;
static unsigned long long seed = 1;
static unsigned rnd(void) { seed = seed * 6364136223846793005ull + 1442695040888963407ull; return (unsigned)(seed >> 33); }
static void *all[256]; static int n_all;
static void *mem(size_t n) { void *p; OK(kiln_alloc(dev, n + 256, &p)); return all[n_all++] = p; }
static void free_all(void) { while (n_all) kiln_free(dev, all[--n_all]); }
enum { CHUNK = 1 << 20 };
static void *fill(size_t bytes, const void *h, size_t chunk) { char *p = mem(bytes); for (size_t at = 0; at < bytes; at += chunk) OK(kiln_upload(dev, p + at, h, bytes - at < chunk ? bytes - at : chunk)); return p; }
static void *bf16(size_t n) { static unsigned short h[CHUNK]; for (int i = 0; i < CHUNK; i++) h[i] = (unsigned short)(0x3d00 + rnd() % 512 + (rnd() & 1) * 0x8000); return fill(2 * n, h, sizeof h); }
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
static kiln_status lf(void *a) { return kiln_linear_attention_forward(ops, NULL, a); }
static kiln_status lb(void *a) { return kiln_linear_attention_backward(ops, NULL, a); }
static kiln_status mf(void *a) { return kiln_mamba2_forward(ops, NULL, a); }
static kiln_status mb(void *a) { return kiln_mamba2_backward(ops, NULL, a); }
#define TENSOR(type, data, ...) kiln_tensor_of(dev, data, type, sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ })
/* floor: inputs and outputs once, at 4.3 TB/s */
static void row(const char *what, long B, long S, int H, int D, double ms, double bytes)
{ printf("%-34s B%-3ld S%-6ld H%-3d D%-4d %8.3f ms  floor %7.3f ms  %3.0f%%\n", what, B, S, H, D, ms, bytes / 4.3e9, 100 * bytes / 4.3e9 / ms); fflush(stdout); }
static void linear(long B, long S, int H, int D, int gated)
{
    S /= divide;
    size_t n = (size_t)B * S * H * D, r = (size_t)B * S * H;
    kiln_tensor q = TENSOR(KILN_BF16, bf16(n), B, S, H, D), k = TENSOR(KILN_BF16, bf16(n), B, S, H, D), v = TENSOR(KILN_BF16, bf16(n), B, S, H, D), o = TENSOR(KILN_BF16, mem(2 * n), B, S, H, D), y = TENSOR(KILN_BF16, bf16(n), B, S, H, D);
    kiln_tensor g = TENSOR(KILN_F32, f32(r, -0.1f, 0), B, S, H), decay = TENSOR(KILN_F32, f32(H, -0.03f, 0), H), dg = TENSOR(KILN_F32, mem(4 * r), B, S, H), norm = TENSOR(KILN_F32, mem(4 * r), B, S, H);
    kiln_tensor dq = TENSOR(KILN_BF16, mem(2 * n), B, S, H, D), dk = TENSOR(KILN_BF16, mem(2 * n), B, S, H, D), dv = TENSOR(KILN_BF16, mem(2 * n), B, S, H, D);
    kiln_linear_attention_args f = { .q = &q, .k = &k, .v = &v, .out = &o, .gates = gated == 2 ? &g : NULL, .decay = gated == 1 ? &decay : NULL };
    OK(kiln_linear_attention_forward_workspace_size(ops, &f, &f.workspace_bytes)); f.workspace = mem(f.workspace_bytes);
    const char *kind = gated == 2 ? "gated" : gated ? "retention" : "linear"; char name[64];
    snprintf(name, sizeof name, "%s forward", kind); row(name, B, S, H, D, best_of(lf, &f), 8.0 * n);
    f.normalize = true, f.norm = &norm;
    OK(kiln_linear_attention_forward_workspace_size(ops, &f, &f.workspace_bytes)); f.workspace = mem(f.workspace_bytes);
    snprintf(name, sizeof name, "%s forward, normalised", kind); row(name, B, S, H, D, best_of(lf, &f), 8.0 * n);
    kiln_linear_attention_backward_args b = { .q = &q, .k = &k, .v = &v, .dout = &y, .dq = &dq, .dk = &dk, .dv = &dv, .gates = f.gates, .decay = f.decay, .dgates = gated == 2 ? &dg : NULL };
    OK(kiln_linear_attention_backward_workspace_size(ops, &b, &b.workspace_bytes)); b.workspace = mem(b.workspace_bytes);
    snprintf(name, sizeof name, "%s backward", kind); row(name, B, S, H, D, best_of(lb, &b), 14.0 * n);
    b.out = &o, b.norm = &norm;
    OK(kiln_linear_attention_backward_workspace_size(ops, &b, &b.workspace_bytes)); b.workspace = mem(b.workspace_bytes);
    snprintf(name, sizeof name, "%s backward, normalised", kind); row(name, B, S, H, D, best_of(lb, &b), 16.0 * n);
    free_all();
}
static void mamba(long B, long S, int H, int P, int G, int N)
{
    S /= divide;
    size_t n = (size_t)B * S * H * P, r = (size_t)B * S * H, w = (size_t)B * S * G * N;
    kiln_tensor x = TENSOR(KILN_BF16, bf16(n), B, S, H, P), dt = TENSOR(KILN_BF16, bf16(r), B, S, H), a = TENSOR(KILN_F32, f32(H, -4, -0.1f), H), b = TENSOR(KILN_BF16, bf16(w), B, S, G, N), c = TENSOR(KILN_BF16, bf16(w), B, S, G, N), o = TENSOR(KILN_BF16, mem(2 * n), B, S, H, P), y = TENSOR(KILN_BF16, bf16(n), B, S, H, P);
    kiln_tensor dx = TENSOR(KILN_BF16, mem(2 * n), B, S, H, P), ddt = TENSOR(KILN_BF16, mem(2 * r), B, S, H), da = TENSOR(KILN_F32, mem(4 * H), H), db = TENSOR(KILN_BF16, mem(2 * w), B, S, G, N), dc = TENSOR(KILN_BF16, mem(2 * w), B, S, G, N), skip = TENSOR(KILN_F32, f32(H, -1, 1), H);
    kiln_mamba2_args f = { .x = &x, .dt = &dt, .a = &a, .b = &b, .c = &c, .skip = &skip, .out = &o };
    OK(kiln_mamba2_forward_workspace_size(ops, &f, &f.workspace_bytes)); f.workspace = mem(f.workspace_bytes);
    row("Mamba-2 forward", B, S, H, P, best_of(mf, &f), 4.0 * n + 2.0 * r + 4.0 * w);
    kiln_mamba2_backward_args g = { .x = &x, .dt = &dt, .a = &a, .b = &b, .c = &c, .skip = &skip, .dout = &y, .dx = &dx, .ddt = &ddt, .da = &da, .db = &db, .dc = &dc };
    OK(kiln_mamba2_backward_workspace_size(ops, &g, &g.workspace_bytes)); g.workspace = mem(g.workspace_bytes);
    row("Mamba-2 backward", B, S, H, P, best_of(mb, &g), 6.0 * n + 4.0 * r + 8.0 * w);
    free_all();
}
int main(int argc, char **argv)
{
    if (argc > 2) divide = atol(argv[2]);
    OK(kiln_device_open(argv[1], &dev)); OK(kiln_ops_open(dev, NULL, &ops));
    for (int gated = 0; gated < 3; gated++) { linear(8, 2048, 16, 128, gated); linear(1, 32768, 16, 128, gated); }
    linear(4, 8192, 16, 64, 2); linear(4, 8192, 16, 256, 2); linear(4, 8192, 64, 128, 2);
    mamba(8, 4096, 80, 64, 1, 128); mamba(1, 32768, 64, 64, 8, 128);
    return 0;
}
END_C
compile_times lin
timeout 400 /tmp/lin "$device" "$divide"
[ "$device" = cpu ] || recurrent_peers linear mamba2
