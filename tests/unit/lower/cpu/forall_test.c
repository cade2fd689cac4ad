// SPDX-License-Identifier: MIT
// Loop nests: every kind of reduction and order of indices, masks, bounds, scatters, local arrays, atomics, scans.
#include "run.h"

static void sums_maxima_and_counts_reduce_over_any_index(void **state)
{
    static const char source[] =
        "kernel k<int M = 20, int N = 37>(in f32 X[M][N], out f32 R[M], out f32 C[N], out f32 T[4], out i32 I[2])\n"
        "{\n"
        "    grid ();\n"
        "    fragment f32 x[M][N] = X, top[M] = -INFINITY, sum[N] = 1;\n"
        "    forall (i : M, j : N) top[i] max= x[i][j];\n"
        "    forall (i : M, j : N) sum[j] += x[i][j];\n"
        "    f32 all = 3, least = INFINITY;\n"
        "    int n = 0;\n"
        "    forall (i : M, j : N) all += x[i][j] * 2;\n"
        "    forall (i : M, j : N) least min= x[i][j];\n"
        "    forall (i : M, j : N) if (x[i][j] > 0) n += 1;\n"
        "    f32 dot = 0;\n"
        "    forall (j : N) dot += x[1][j] * x[2][j];\n"
        "    R = top;\n"
        "    C = sum;\n"
        "    T[0] = all;\n"
        "    T[1] = least;\n"
        "    T[2] = dot;\n"
        "    I[0] = n;\n"
        "    u32 bits = 0;\n"
        "    forall (i : M) bits |= 1 << i;\n"
        "    I[1] = bits;\n"
        "}\n";
    enum { M = 20, N = 37 };
    float *x = noise_array(M * N, 5), r[M], c[N], t[4] = { 0, 0, 0, 42 };
    int32_t n[2];
    x[3 * N + 4] = NAN;
    x[7 * N] = NAN;
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(x, KILN_F32, M, N), R = TENSOR(r, KILN_F32, M), C = TENSOR(c, KILN_F32, N),
                T = TENSOR(t, KILN_F32, 4);
    kiln_tensor I = TENSOR(n, KILN_I32, 2);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&R), KILN_TENSOR(&C), KILN_TENSOR(&T), KILN_TENSOR(&I));
    double least = INFINITY, dot = 0;
    int positive = 0;
    for (int i = 0; i < M; i++) {
        float top = -INFINITY;
        for (int j = 0; j < N; j++) {
            top = fmaxf(top, x[i * N + j]);
            least = fmin(least, x[i * N + j]);
            positive += x[i * N + j] > 0;
        }
        assert_close("R", i, r[i], top, 0);
    }
    for (int j = 0; j < N; j++) {
        double sum = 1;
        for (int i = 0; i < M; i++) sum += x[i * N + j];
        dot += (double)x[N + j] * x[2 * N + j];
        if (isnan(sum)) assert_true(isnan(c[j]));
        else assert_close("C", j, c[j], sum, 1e-6);
    }
    assert_true(isnan(t[0]));
    assert_close("least", 0, t[1], least, 0);
    assert_close("dot", 0, t[2], dot, 1e-6);
    assert_true(t[3] == 42); // not written: keeps its value
    assert_int_equal(n[0], positive);
    assert_int_equal(n[1], (1 << M) - 1);
    kiln_kernel_free(kernel);
    free(x);
}

static void narrow_targets_round_once(void **state)
{
    static const char source[] = "kernel k<int M = 8, int N = 300>(in f32 X[M][N], out bf16 R[M], out bf16 C[N])\n"
                                 "{\n"
                                 "    grid ();\n"
                                 "    fragment f32 x[M][N] = X;\n"
                                 "    fragment bf16 r[M] = 0, c[N] = 0;\n"
                                 "    forall (i : M, j : N) r[i] += x[i][j];\n"
                                 "    forall (i : M, j : N) c[j] += x[i][j];\n"
                                 "    R = r;\n"
                                 "    C = c;\n"
                                 "}\n";
    enum { M = 8, N = 300 };
    float x[M * N];
    uint16_t r[M], c[N];
    for (int i = 0; i < M * N; i++) x[i] = 1; // a bf16 sum would stop at 256
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(x, KILN_F32, M, N), R = TENSOR(r, KILN_BF16, M), C = TENSOR(c, KILN_BF16, N);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&R), KILN_TENSOR(&C));
    for (int i = 0; i < M; i++) assert_true(r[i] == bf16_of(N));
    for (int j = 0; j < N; j++) assert_true(c[j] == bf16_of(M));
    kiln_kernel_free(kernel);
}

static void masks_and_bounds_hold_at_every_corner(void **state)
{
    static const char source[] = "kernel k<int B = 16>(in f32 X[M][N], out f32 Y[M][N], int past)\n"
                                 "{\n"
                                 "    grid (n : ceildiv(N, B), m : ceildiv(M, B));\n"
                                 "    fragment f32 x[B][B];\n"
                                 "    forall (i : B, j : B) x[i][j] = X[m*B + i - 1][n*B + j + 1];\n"
                                 "    forall (i : B, j : B) {\n"
                                 "        int key = n*B + j;\n"
                                 "        if (key > m*B + i + past || key + 7 <= m*B + i) x[i][j] = -1;\n"
                                 "    }\n"
                                 "    forall (i : B, j : B) Y[m*B + i][n*B + j] = x[i][j];\n"
                                 "}\n";
    static const int64_t shapes[][2] = { { 16, 16 }, { 1, 1 }, { 17, 33 }, { 40, 15 } };
    kiln_kernel *const kernel = build(source, "k", NULL);
    for (int s = 0; s < COUNT_OF(shapes); s++)
        for (int past = -20; past <= 20; past += 10) {
            const int64_t M = shapes[s][0], N = shapes[s][1];
            float *const x = noise_array(M * N, 9), *const y = calloc((size_t)(M * N), 4);
            kiln_tensor X = TENSOR(x, KILN_F32, M, N), Y = TENSOR(y, KILN_F32, M, N);
            LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&Y), KILN_INT(past));
            for (int64_t i = 0; i < M; i++)
                for (int64_t j = 0; j < N; j++) {
                    const float in = i - 1 >= 0 && j + 1 < N ? x[(i - 1) * N + j + 1] : 0;
                    const float expected = j > i + past || j + 7 <= i ? -1 : in;
                    assert_close("Y", i * N + j, y[i * N + j], expected, 0);
                }
            free(x), free(y);
        }
    kiln_kernel_free(kernel);
}

static void gathers_and_scatters_move_rows(void **state)
{
    static const char source[] =
        "kernel k<int B = 8, int D = 24>(in f32 X[R][D], in i32 FROM[N], in i32 TO[N], out bf16 Y[R][D])\n"
        "{\n"
        "    grid (n : ceildiv(N, B));\n"
        "    shared f32 x[B][D];\n"
        "    forall (r : B) x[r] = X[n*B + r < N ? FROM[n*B + r] : -1];\n"
        "    forall (r : B) if (n*B + r < N) Y[TO[n*B + r]] = x[r];\n"
        "}\n";
    enum { R = 30, N = 21, D = 24 };
    float *const x = noise_array(R * D, 3);
    int32_t from[N], to[N];
    uint16_t y[R * D];
    memset(y, 0x55, sizeof y);
    for (int i = 0; i < N; i++) from[i] = i % 5 == 0 ? R + i : (i * 7) % R, to[i] = i == 4 ? -3 : (i * 11) % R;
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(x, KILN_F32, R, D), F = TENSOR(from, KILN_I32, N), T = TENSOR(to, KILN_I32, N),
                Y = TENSOR(y, KILN_BF16, R, D);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&F), KILN_TENSOR(&T), KILN_TENSOR(&Y));
    bool written[R] = { false };
    for (int i = 0; i < N; i++) {
        if (to[i] < 0) continue;
        written[to[i]] = true;
        for (int d = 0; d < D; d++) assert_int_equal(y[to[i] * D + d], from[i] < R ? bf16_of(x[from[i] * D + d]) : 0);
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D && !written[r]; d++) assert_int_equal(y[r * D + d], 0x5555);
    kiln_kernel_free(kernel);
    free(x);
}

static void scans_atomics_and_local_arrays(void **state)
{
    static const char source[] =
        "kernel k<int N = 40>(in i32 X[N], out i32 P[N], inout i32 H[8], inout f32 F[2], out i32 OLD[G], out f32 S[N])\n"
        "{\n"
        "    grid (g : G);\n"
        "    shared i32 x[N] = X, at[N], hist[8] = 0;\n"
        "    cumsum(at, x, 0);\n"
        "    P = at;\n"
        "    forall (i : N) atomic hist[x[i] & 7] += 1;\n"
        "    forall (i : 8) atomic H[i] += hist[i];\n"
        "    atomic F[0] += 0.5;\n"
        "    atomic F[1] max= convert<f32>(g);\n"
        "    OLD[g] = atomic_add(H[7], 0) >= 0 ? 1 : 0;\n"
        "    shared f32 s[N];\n"
        "    forall (i : N) {\n"
        "        local f32 v[4];\n"
        "        unroll for (int p = 0; p < 4; p++) v[p] = x[i] + p;\n"
        "        f32 sum = 0;\n"
        "        unroll for (int p = 0; p < 4; p++) sum += v[p];\n"
        "        s[i] = sum;\n"
        "    }\n"
        "    S = s;\n"
        "}\n";
    enum { N = 40, G = 50 };
    int32_t x[N], p[N], h[8] = { 0 }, old[G];
    float f[2] = { 0, -1 }, s[N];
    for (int i = 0; i < N; i++) x[i] = i * i % 13;
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(x, KILN_I32, N), P = TENSOR(p, KILN_I32, N), H = TENSOR(h, KILN_I32, 8),
                F = TENSOR(f, KILN_F32, 2);
    kiln_tensor O = TENSOR(old, KILN_I32, G), S = TENSOR(s, KILN_F32, N);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&P), KILN_TENSOR(&H), KILN_TENSOR(&F), KILN_TENSOR(&O),
           KILN_TENSOR(&S));
    int32_t sum = 0, hist[8] = { 0 };
    for (int i = 0; i < N; i++) {
        sum += x[i];
        hist[x[i] & 7]++;
        assert_int_equal(p[i], sum);
        assert_true(s[i] == 4 * x[i] + 6);
    }
    for (int i = 0; i < 8; i++) assert_int_equal(h[i], hist[i] * G);
    assert_true(f[0] == 25 && f[1] == G - 1);
    for (int i = 0; i < G; i++) assert_int_equal(old[i], 1);
    kiln_kernel_free(kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_maxima_and_counts_reduce_over_any_index),
        cmocka_unit_test(narrow_targets_round_once),
        cmocka_unit_test(masks_and_bounds_hold_at_every_corner),
        cmocka_unit_test(gathers_and_scatters_move_rows),
        cmocka_unit_test(scans_atomics_and_local_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
