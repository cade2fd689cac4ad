// SPDX-License-Identifier: MIT
// Slices and views: windows, merged and split dimensions, other element types, packed elements, steps, strides.
#include "run.h"

static void windows_end_where_they_say(void **state)
{
    static const char source[] = "kernel k<int B = 8>(in f32 X[R][D], in i32 AT[G][2], out f32 Y[G][B][D])\n"
                                 "{\n"
                                 "    grid (g : G);\n"
                                 "    view w = X[AT[g][0] +: AT[g][1]];\n"
                                 "    shared f32 x[B][16];\n"
                                 "    x = w[0 +: B][0 +: 16];\n"
                                 "    forall (i : B) Y[g][i] = x[i][0 +: D];\n"
                                 "}\n";
    enum { R = 20, D = 16, G = 6, B = 8 };
    static const int32_t at[G][2] = { { 0, 8 }, { 5, 3 }, { -2, 8 }, { 15, 8 }, { 4, -1 }, { 18, 1 } };
    float *const x = noise_array(R * D, 1), y[G * B * D];
    kiln_kernel *const kernel = build(source, "k", "D=16");
    kiln_tensor X = TENSOR(x, KILN_F32, R, D), A = TENSOR((void *)at, KILN_I32, G, 2), Y = TENSOR(y, KILN_F32, G, B, D);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&A), KILN_TENSOR(&Y));
    for (int g = 0; g < G; g++)
        for (int i = 0; i < B; i++)
            for (int d = 0; d < D; d++) {
                const int row = at[g][0] + i;
                const float expected = i < at[g][1] && row >= 0 && row < R ? x[row * D + d] : 0;
                assert_close("Y", (g * B + i) * D + d, y[(g * B + i) * D + d], expected, 0);
            }
    kiln_kernel_free(kernel);
    free(x);
}

static void views_merge_split_and_retype(void **state)
{
    static const char source[] =
        "kernel k(in u8 CACHE[P][4][20], out f32 A[P*4][2], out f32 B[P*4][12], out f32 C[P][4*12])\n"
        "{\n"
        "    grid (r : P*4);\n"
        "    view f32 step[P*4][2] = CACHE[:][:][12 +: 8];\n"
        "    view code[P*4][12] = CACHE[:][:][0 +: 12];\n"
        "    view Cr[P*4][12] = C;\n"
        "    forall (j : 2) A[r][j] = step[r][j];\n"
        "    shared f32 c[12] = code[r];\n"
        "    B[r] = c;\n"
        "    forall (j : 12) Cr[r][j] = code[r][j] * step[r][1];\n"
        "}\n";
    enum { P = 3 };
    uint8_t cache[P * 4][20];
    float a[P * 4][2], b[P * 4][12], c[P * 4][12];
    for (int r = 0; r < P * 4; r++) {
        const float step[2] = { noise((uint32_t)r), (float)r + 0.5f };
        for (int j = 0; j < 12; j++) cache[r][j] = (uint8_t)(r * 20 + j);
        memcpy(cache[r] + 12, step, 8);
    }
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(cache, KILN_U8, P, 4, 20), A = TENSOR(a, KILN_F32, P * 4, 2),
                B = TENSOR(b, KILN_F32, P * 4, 12);
    kiln_tensor C = TENSOR(c, KILN_F32, P, 48);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&A), KILN_TENSOR(&B), KILN_TENSOR(&C));
    for (int r = 0; r < P * 4; r++) {
        assert_memory_equal(a[r], cache[r] + 12, 8);
        for (int j = 0; j < 12; j++) {
            assert_true(b[r][j] == cache[r][j]);
            assert_true(c[r][j] == cache[r][j] * ((float)r + 0.5f));
        }
    }
    kiln_kernel_free(kernel);
}

static void packed_elements_keep_their_neighbours(void **state)
{
    static const char source[] =
        "kernel k<int N = 32>(in i4 X[R][N], in u2 U[R][N], in e2m1 E[R][N], out i8 Y[R][N], out i4 Z[R][N], out f32 F[R][N])\n"
        "{\n"
        "    grid (r : R);\n"
        "    shared i4 x[N] = X[r];\n"
        "    shared u2 u[N] = U[r];\n"
        "    shared i8 y[N];\n"
        "    forall (i : N) y[i] = x[i] * 4 + u[i];\n"
        "    Y[r] = y;\n"
        "    shared i4 z[N];\n"
        "    forall (i : N) z[i] = x[i] - u[i];\n"
        "    Z[r] = z;\n"
        "    shared e2m1 e[N] = E[r];\n"
        "    forall (i : N) F[r][i] = e[i];\n"
        "}\n";
    enum { R = 3, N = 32 };
    static const float halves[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    uint8_t x[R][N / 2], u[R][N / 4], e[R][N / 2], z[R][N / 2];
    int8_t y[R][N];
    float f[R][N];
    for (int r = 0; r < R; r++)
        for (int i = 0; i < N / 2; i++)
            x[r][i] = (uint8_t)(i * 37 + r), e[r][i] = (uint8_t)(i * 91 + r), u[r][i / 2] = (uint8_t)(i * 13 + r);
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(x, KILN_I4, R, N), U = TENSOR(u, KILN_U2, R, N), E = TENSOR(e, KILN_E2M1, R, N);
    kiln_tensor Y = TENSOR(y, KILN_I8, R, N), Z = TENSOR(z, KILN_I4, R, N), F = TENSOR(f, KILN_F32, R, N);
    LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&U), KILN_TENSOR(&E), KILN_TENSOR(&Y), KILN_TENSOR(&Z),
           KILN_TENSOR(&F));
    for (int r = 0; r < R; r++)
        for (int i = 0; i < N; i++) {
            const int a = ((x[r][i / 2] >> i % 2 * 4 & 15) ^ 8) - 8, b = u[r][i / 4] >> i % 4 * 2 & 3;
            const int c = e[r][i / 2] >> i % 2 * 4 & 15;
            assert_int_equal(y[r][i], (int8_t)(a * 4 + b));
            assert_int_equal(z[r][i / 2] >> i % 2 * 4 & 15, (a - b) & 15);
            assert_true(f[r][i] == (c & 8 ? -halves[c & 7] : halves[c & 7]));
        }
    kiln_kernel_free(kernel);
}

static void steps_and_strides_reach_the_right_elements(void **state)
{
    static const char source[] = "kernel k(in strided f32 X[H][W], out f32 Y[4][5], int step)\n"
                                 "{\n"
                                 "    grid ();\n"
                                 "    shared f32 y[4][5];\n"
                                 "    y = X[-1 +: 4 : step][1 +: 5 : 2];\n"
                                 "    Y = y;\n"
                                 "}\n";
    float x[7 * 20], y[4][5];
    for (int i = 0; i < COUNT_OF(x); i++) x[i] = (float)i;
    kiln_kernel *const kernel = build(source, "k", NULL);
    kiln_tensor X = TENSOR(x, KILN_F32, 6, 9), Y = TENSOR(y, KILN_F32, 4, 5);
    X.has_strides = true;
    X.strides[0] = 20;
    X.strides[1] = 2;
    for (int step = 1; step <= 3; step++) {
        LAUNCH(kernel, KILN_TENSOR(&X), KILN_TENSOR(&Y), KILN_INT(step));
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 5; j++) {
                const int row = -1 + i * step, column = 1 + j * 2;
                const float expected = row >= 0 && row < 6 && column < 9 ? x[row * 20 + column * 2] : 0;
                assert_close("Y", i * 5 + j, y[i][j], expected, 0);
            }
    }
    kiln_kernel_free(kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_end_where_they_say),
        cmocka_unit_test(views_merge_split_and_retype),
        cmocka_unit_test(packed_elements_keep_their_neighbours),
        cmocka_unit_test(steps_and_strides_reach_the_right_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
