// SPDX-License-Identifier: MIT
// Products through pipelines of borrowed and cut tiles, in every orientation and element type.
#include "run.h"

static const char source[] =
    "kernel gemm_nt<type T = f32, int BM = 32, int BN = 48, int BK = 16>\n"
    "    (in T A[M][K], in T B[N][K], out f32 C[M][N])\n"
    "{\n"
    "    grid (n : ceildiv(N, BN), m : ceildiv(M, BM));\n"
    "    fragment f32 acc[BM][BN] = 0;\n"
    "    pipeline (k : ceildiv(K, BK); stages = 2) {\n"
    "        shared T a[BM][BK] = A[m*BM +: BM][k*BK +: BK];\n"
    "        shared T b[BN][BK] = B[n*BN +: BN][k*BK +: BK];\n"
    "        acc += a @ transpose(b);\n"
    "    }\n"
    "    C[m*BM +: BM][n*BN +: BN] = acc;\n"
    "}\n"
    "kernel gemm_tn<type T = f32, int BM = 32, int BN = 48, int BK = 16>\n"
    "    (in T A[K][M], in T B[K][N], out f32 C[M][N])\n"
    "{\n"
    "    grid (n : ceildiv(N, BN), m : ceildiv(M, BM));\n"
    "    fragment f32 acc[BM][BN] = 0;\n"
    "    pipeline (k : ceildiv(K, BK); stages = 2) {\n"
    "        shared T a[BK][BM] = A[k*BK +: BK][m*BM +: BM];\n"
    "        shared T b[BK][BN] = B[k*BK +: BK][n*BN +: BN];\n"
    "        acc += transpose(a) @ b;\n"
    "    }\n"
    "    C[m*BM +: BM][n*BN +: BN] = acc;\n"
    "}\n"
    "kernel gemm_i8<int BM = 32, int BN = 48, int BK = 16>(in i8 A[M][K], in i8 B[N][K], out i32 C[M][N])\n"
    "{\n"
    "    grid (n : ceildiv(N, BN), m : ceildiv(M, BM));\n"
    "    fragment i32 acc[BM][BN] = 0;\n"
    "    pipeline (k : ceildiv(K, BK); stages = 2) {\n"
    "        shared i8 a[BM][BK] = A[m*BM +: BM][k*BK +: BK];\n"
    "        shared i8 b[BN][BK] = B[n*BN +: BN][k*BK +: BK];\n"
    "        acc += a @ transpose(b);\n"
    "    }\n"
    "    C[m*BM +: BM][n*BN +: BN] = acc;\n"
    "}\n";

typedef struct Case {
    int64_t m, n, k;
} Case;
static const Case cases[] = {
    { 32, 48, 16 }, { 64, 96, 64 }, { 1, 1, 1 }, { 33, 49, 17 }, { 100, 7, 45 }, { 31, 97, 0 }
};

static void check_f32(const Case *c, bool tn)
{
    float *a = noise_array(c->m * c->k, 1), *b = noise_array(c->n * c->k, 2);
    float *out = malloc(sizeof *out * (size_t)(c->m * c->n));
    memset(out, 0xff, sizeof *out * (size_t)(c->m * c->n));
    kiln_kernel *const kernel = build(source, tn ? "gemm_tn" : "gemm_nt", NULL);
    kiln_tensor A = tn ? TENSOR(a, KILN_F32, c->k, c->m) : TENSOR(a, KILN_F32, c->m, c->k);
    kiln_tensor B = tn ? TENSOR(b, KILN_F32, c->k, c->n) : TENSOR(b, KILN_F32, c->n, c->k);
    kiln_tensor C = TENSOR(out, KILN_F32, c->m, c->n);
    LAUNCH(kernel, KILN_TENSOR(&A), KILN_TENSOR(&B), KILN_TENSOR(&C));
    for (int64_t i = 0; i < c->m; i++)
        for (int64_t j = 0; j < c->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < c->k; k++)
                sum += tn ? (double)a[k * c->m + i] * b[k * c->n + j] : (double)a[i * c->k + k] * b[j * c->k + k];
            assert_close("C", i * c->n + j, out[i * c->n + j], sum, 1e-5);
        }
    kiln_kernel_free(kernel);
    free(a), free(b), free(out);
}

static void products_of_f32_reach_every_edge(void **state)
{
    for (int i = 0; i < COUNT_OF(cases); i++) check_f32(&cases[i], false);
}

static void products_of_f32_take_transposed_tiles(void **state)
{
    for (int i = 0; i < COUNT_OF(cases); i++) check_f32(&cases[i], true);
}

static void products_of_bf16_round_nothing_but_their_operands(void **state)
{
    for (int x = 0; x < COUNT_OF(cases); x++) {
        const Case *const c = &cases[x];
        float *fa = noise_array(c->m * c->k, 3), *fb = noise_array(c->n * c->k, 4);
        uint16_t *a = calloc((size_t)(c->m * c->k + 1), 2), *b = calloc((size_t)(c->n * c->k + 1), 2);
        float *out = calloc((size_t)(c->m * c->n), sizeof *out);
        for (int64_t i = 0; i < c->m * c->k; i++) a[i] = bf16_of(fa[i]);
        for (int64_t i = 0; i < c->n * c->k; i++) b[i] = bf16_of(fb[i]);
        kiln_kernel *const kernel = build(source, "gemm_nt", "T=bf16");
        kiln_tensor A = TENSOR(a, KILN_BF16, c->m, c->k), B = TENSOR(b, KILN_BF16, c->n, c->k);
        kiln_tensor C = TENSOR(out, KILN_F32, c->m, c->n);
        LAUNCH(kernel, KILN_TENSOR(&A), KILN_TENSOR(&B), KILN_TENSOR(&C));
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < c->k; k++) sum += (double)of_bf16(a[i * c->k + k]) * of_bf16(b[j * c->k + k]);
                assert_close("C", i * c->n + j, out[i * c->n + j], sum, 1e-5);
            }
        kiln_kernel_free(kernel);
        free(fa), free(fb), free(a), free(b), free(out);
    }
}

static void products_of_bytes_are_exact(void **state)
{
    for (int x = 0; x < COUNT_OF(cases); x++) {
        const Case *const c = &cases[x];
        int8_t *a = calloc((size_t)(c->m * c->k + 1), 1), *b = calloc((size_t)(c->n * c->k + 1), 1);
        int32_t *out = calloc((size_t)(c->m * c->n), sizeof *out);
        for (int64_t i = 0; i < c->m * c->k; i++) a[i] = (int8_t)(noise((uint32_t)i) * 128);
        for (int64_t i = 0; i < c->n * c->k; i++) b[i] = (int8_t)(noise((uint32_t)i + 77) * 128);
        kiln_kernel *const kernel = build(source, "gemm_i8", NULL);
        kiln_tensor A = TENSOR(a, KILN_I8, c->m, c->k), B = TENSOR(b, KILN_I8, c->n, c->k);
        kiln_tensor C = TENSOR(out, KILN_I32, c->m, c->n);
        LAUNCH(kernel, KILN_TENSOR(&A), KILN_TENSOR(&B), KILN_TENSOR(&C));
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++) {
                int32_t sum = 0;
                for (int64_t k = 0; k < c->k; k++) sum += a[i * c->k + k] * b[j * c->k + k];
                assert_int_equal(out[i * c->n + j], sum);
            }
        kiln_kernel_free(kernel);
        free(a), free(b), free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_f32_reach_every_edge),
        cmocka_unit_test(products_of_f32_take_transposed_tiles),
        cmocka_unit_test(products_of_bf16_round_nothing_but_their_operands),
        cmocka_unit_test(products_of_bytes_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
