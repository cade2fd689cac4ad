// SPDX-License-Identifier: MIT
// large_test.c - extents past 2^31, and past 2^28 in products, on the device of KILN_TEST_DEVICE (default: cpu).
//
// Memory is asked for in full, and only a few pages of it are ever touched.
#include "kiln/kiln.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../skip.h"

static const char source[] =
    "kernel add(in u8 A[N], in u8 B[N], out u8 C[N], int first, int count)\n"
    "{\n"
    "    grid (n : ceildiv(N, 268435456)) warps(4);\n"
    "    int begin = max(n * 268435456, first), end = min((n + 1) * 268435456, first + count);\n"
    "    forall (i : end - begin) C[begin + i] = A[begin + i] + B[begin + i];\n"
    "}\n"
    "kernel move(in u8 X[N], out u8 Y[N], int first)\n"
    "{\n"
    "    grid (n : 3) warps(4);\n"
    "    fragment u8 x[64] = X[first + n*64 +: 64];\n"
    "    Y[first + n*64 +: 64] = x;\n"
    "}\n"
    "kernel move_columns(in u8 X[M][N], out u8 Y[M][N], int first)\n"
    "{\n"
    "    grid (n : 2, m : M) warps(4);\n"
    "    shared u8 x[1][64] = X[m +: 1][first + n*64 +: 64];\n"
    "    Y[m +: 1][first + n*64 +: 64] = x;\n"
    "}\n"
    "kernel product(in i8 A[M][K], in i8 B[N][K], out i32 C[M][N], int first)\n"
    "{\n"
    "    grid (m : 2) warps(4);\n"
    "    fragment i32 acc[64][16] = 0;\n"
    "    pipeline (k : ceildiv(K, 64); stages = 3) {\n"
    "        shared i8 a[64][64] = A[first + m*64 +: 64][k*64 +: 64];\n"
    "        shared i8 b[16][64] = B[0 +: 16][k*64 +: 64];\n"
    "        acc += a @ transpose(b);\n"
    "    }\n"
    "    C[first + m*64 +: 64][0 +: 16] = acc;\n"
    "}\n"
    "kernel long_product(in i8 A[M][K], in i8 B[N][K], out i32 C[M][N], int first)\n"
    "{\n"
    "    grid () warps(4);\n"
    "    fragment i32 acc[64][16] = 0;\n"
    "    pipeline (k : first .. ceildiv(K, 64); stages = 3) {\n"
    "        shared i8 a[64][64] = A[0 +: 64][k*64 +: 64];\n"
    "        shared i8 b[16][64] = B[0 +: 16][k*64 +: 64];\n"
    "        acc += a @ transpose(b);\n"
    "    }\n"
    "    C[0 +: 64][0 +: 16] = acc;\n"
    "}\n"
    "operator doubled(in u8 X[N], out u8 Y[N], int first)\n"
    "{\n"
    "    temp u8 half[N];\n"
    "    move(X, half, first);\n"
    "    add(half, half, Y, first, 192);\n"
    "}\n";

static kiln_device *device;
static kiln_program *program;
static int arch;

static void assert_ok(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

// ---- tensors of which little is touched

typedef struct Large {
    kiln_tensor tensor;
    size_t bytes;
} Large;

static bool is_cpu(void) { return strcmp(kiln_device_name(device), "cpu") == 0; }

static Large make(kiln_type type, int rank, int64_t rows, int64_t columns)
{
    const int64_t shape[] = { rank == 2 ? rows : columns, columns };
    Large t = { kiln_tensor_of(is_cpu() ? NULL : device, NULL, type, rank, shape), 0 };
    t.bytes = kiln_tensor_bytes(&t.tensor);
    if (!is_cpu()) {
        assert_ok(kiln_alloc(device, t.bytes, &t.tensor.data));
        return t;
    }
    t.tensor.data = mmap(NULL, t.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t.tensor.data == MAP_FAILED) skip_because("address space is limited");
    return t;
}

static void drop(Large *t)
{
    if (is_cpu()) munmap(t->tensor.data, t->bytes);
    else kiln_free(device, t->tensor.data);
}

static void put(Large *t, int64_t at, const void *values, size_t bytes)
{
    assert_ok(kiln_upload(device, (char *)t->tensor.data + at, values, bytes));
}

static void get(const Large *t, int64_t at, void *values, size_t bytes)
{
    assert_ok(kiln_download(device, values, (char *)t->tensor.data + at, bytes));
}

static kiln_kernel *build(const char *name)
{
    kiln_kernel *kernel;
    assert_ok(kiln_kernel_build(device, program, name, NULL, &(kiln_build_options){ .arch = arch }, &kernel));
    return kernel;
}

// ---- one dimension

enum { END = 192 };
static const int64_t LENGTH = (INT64_C(1) << 31) + 100,
                     FIRST = (INT64_C(1) << 31) - 64; // the last of three tiles ends outside

static void check_sums(const Large *c, const uint8_t *a, const uint8_t *b)
{
    uint8_t got[END];
    const int n = (int)(LENGTH - FIRST);
    get(c, FIRST, got, (size_t)n);
    for (int i = 0; i < n; i++)
        if (got[i] != (uint8_t)(a[i] + b[i])) fail_msg("element %d is %d, expected %d + %d", i, got[i], a[i], b[i]);
}

static void vectors(void **state)
{
    uint8_t ones[END], twos[END], zeros[END] = { 0 };
    Large a = make(KILN_U8, 1, 1, LENGTH), b = make(KILN_U8, 1, 1, LENGTH), c = make(KILN_U8, 1, 1, LENGTH);
    for (int i = 0; i < END; i++) {
        ones[i] = (uint8_t)(1 + i);
        twos[i] = (uint8_t)(3 * i);
    }
    put(&a, FIRST, ones, (size_t)(LENGTH - FIRST));
    put(&b, FIRST, twos, (size_t)(LENGTH - FIRST));
    put(&c, FIRST, zeros, (size_t)(LENGTH - FIRST));
    kiln_kernel *const add = build("add"), *const move = build("move");
    assert_ok(kiln_launch(add, NULL,
                          (kiln_arg[]){ KILN_TENSOR(&a.tensor), KILN_TENSOR(&b.tensor), KILN_TENSOR(&c.tensor),
                                        KILN_INT(FIRST), KILN_INT(LENGTH - FIRST) },
                          5));
    check_sums(&c, ones, twos);
    assert_ok(
        kiln_launch(move, NULL, (kiln_arg[]){ KILN_TENSOR(&b.tensor), KILN_TENSOR(&c.tensor), KILN_INT(FIRST) }, 3));
    check_sums(&c, twos, zeros);
    size_t bytes = 1;
    assert_ok(kiln_workspace_size(move, (kiln_arg[]){ KILN_TENSOR(&b.tensor), KILN_TENSOR(&c.tensor), KILN_INT(FIRST) },
                                  3, &bytes));
    assert_int_equal(bytes, 0);
    // The same kernel goes on with short ones.
    Large x = make(KILN_U8, 1, 1, 100), y = make(KILN_U8, 1, 1, 100);
    put(&x, 0, ones, 100);
    assert_ok(kiln_launch(move, NULL, (kiln_arg[]){ KILN_TENSOR(&x.tensor), KILN_TENSOR(&y.tensor), KILN_INT(0) }, 3));
    get(&y, 0, zeros, 100);
    assert_memory_equal(zeros, ones, 100);
    kiln_kernel_free(add);
    kiln_kernel_free(move);
    for (int i = 0; i < 5; i++) drop((Large *[]){ &a, &b, &c, &x, &y }[i]);
}

static void operators(void **state)
{
    uint8_t ones[END];
    Large x = make(KILN_U8, 1, 1, LENGTH), y = make(KILN_U8, 1, 1, LENGTH);
    kiln_kernel *const doubled = build("doubled");
    size_t bytes;
    const kiln_arg args[] = { KILN_TENSOR(&x.tensor), KILN_TENSOR(&y.tensor), KILN_INT(FIRST) };
    assert_ok(kiln_workspace_size(doubled, args, 3, &bytes));
    Large temp = make(KILN_U8, 1, 1, (int64_t)bytes);
    for (int i = 0; i < END; i++) ones[i] = (uint8_t)(1 + i);
    put(&x, FIRST, ones, (size_t)(LENGTH - FIRST));
    assert_ok(kiln_launch_with(doubled, NULL, args, 3, temp.tensor.data, bytes));
    check_sums(&y, ones, ones);
    kiln_kernel_free(doubled);
    for (int i = 0; i < 3; i++) drop((Large *[]){ &x, &y, &temp }[i]);
}

static void rows_longer_than_that(void **state)
{
    enum { ROWS = 2, COUNT = 128 };
    const int64_t columns = (INT64_C(1) << 31) + 64, first = columns - 100;
    uint8_t values[COUNT], got[COUNT];
    Large x = make(KILN_U8, 2, ROWS, columns), y = make(KILN_U8, 2, ROWS, columns);
    kiln_kernel *const move = build("move_columns");
    for (int i = 0; i < COUNT; i++) values[i] = (uint8_t)(5 * i + 1);
    for (int row = 0; row < ROWS; row++) put(&x, row * columns + first, values, 100);
    put(&y, columns, (uint8_t[32]){ 0 }, 32); // of the next row, where a write past the first would go
    assert_ok(
        kiln_launch(move, NULL, (kiln_arg[]){ KILN_TENSOR(&x.tensor), KILN_TENSOR(&y.tensor), KILN_INT(first) }, 3));
    for (int row = 0; row < ROWS; row++) {
        get(&y, row * columns + first, got, 100);
        assert_memory_equal(got, values, 100);
    }
    get(&y, columns, got, 28);
    for (int i = 0; i < 28; i++) assert_int_equal(got[i], 0);
    kiln_kernel_free(move);
    drop(&x);
    drop(&y);
}

// ---- products

static int8_t element(int row, int column) { return (int8_t)((row * 7 + column * 3) % 11 - 5); }

static void products_of_many_rows(void **state)
{
    enum { K = 16, N = 8, COUNT = 100 };
    const int64_t rows = (INT64_C(1) << 28) + 64, first = rows - COUNT; // the second tile ends outside
    int8_t a[COUNT][K], b[N][K];
    int32_t got[COUNT][N];
    Large ta = make(KILN_I8, 2, rows, K), tb = make(KILN_I8, 2, N, K), tc = make(KILN_I32, 2, rows, N);
    kiln_kernel *const product = build("product");
    for (int k = 0; k < K; k++) {
        for (int i = 0; i < COUNT; i++) a[i][k] = element(i, k);
        for (int j = 0; j < N; j++) b[j][k] = element(j + 100, k);
    }
    put(&ta, first * K, a, sizeof a);
    put(&tb, 0, b, sizeof b);
    assert_ok(kiln_launch(
        product, NULL,
        (kiln_arg[]){ KILN_TENSOR(&ta.tensor), KILN_TENSOR(&tb.tensor), KILN_TENSOR(&tc.tensor), KILN_INT(first) }, 4));
    get(&tc, first * N * 4, got, sizeof got);
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < N; j++) {
            int expected = 0;
            for (int k = 0; k < K; k++) expected += a[i][k] * b[j][k];
            if (got[i][j] != expected) fail_msg("C[first + %d][%d] is %d, expected %d", i, j, got[i][j], expected);
        }
    kiln_kernel_free(product);
    for (int i = 0; i < 3; i++) drop((Large *[]){ &ta, &tb, &tc }[i]);
}

static void products_of_long_rows(void **state)
{
    enum { M = 4, N = 3, COUNT = 300 };
    const int64_t columns = (INT64_C(1) << 28) + 80, first = (columns - COUNT) / 64, begin = first * 64;
    const int n = (int)(columns - begin);
    static int8_t a[M][COUNT + 64], b[N][COUNT + 64];
    int32_t got[M][N];
    Large ta = make(KILN_I8, 2, M, columns), tb = make(KILN_I8, 2, N, columns), tc = make(KILN_I32, 2, M, N);
    kiln_kernel *const product = build("long_product");
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < M; i++) a[i][k] = element(i, k);
        for (int j = 0; j < N; j++) b[j][k] = element(j + 100, k);
    }
    for (int i = 0; i < M; i++) put(&ta, i * columns + begin, a[i], (size_t)n);
    for (int j = 0; j < N; j++) put(&tb, j * columns + begin, b[j], (size_t)n);
    assert_ok(kiln_launch(
        product, NULL,
        (kiln_arg[]){ KILN_TENSOR(&ta.tensor), KILN_TENSOR(&tb.tensor), KILN_TENSOR(&tc.tensor), KILN_INT(first) }, 4));
    get(&tc, 0, got, sizeof got);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int expected = 0;
            for (int k = 0; k < n; k++) expected += a[i][k] * b[j][k];
            if (got[i][j] != expected) fail_msg("C[%d][%d] is %d, expected %d", i, j, got[i][j], expected);
        }
    kiln_kernel_free(product);
    for (int i = 0; i < 3; i++) drop((Large *[]){ &ta, &tb, &tc }[i]);
}

// ---- all of it

static int open_all(void **state)
{
    const char *const name = getenv("KILN_TEST_DEVICE");
    assert_ok(kiln_device_open(name && *name ? name : "cpu", &device));
    assert_ok(kiln_program_load_text("large.tile", source, &program));
    return 0;
}

static int close_all(void **state)
{
    kiln_program_free(program);
    kiln_device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(operators),
        cmocka_unit_test(rows_longer_than_that),
        cmocka_unit_test(products_of_many_rows),
        cmocka_unit_test(products_of_long_rows),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    int failed = cmocka_run_group_tests(tests, open_all, close_all);
    const char *const name = getenv("KILN_TEST_DEVICE");
    if (name && strncmp(name, "cuda", 4) == 0) { // what sm_80 and later ones run
        arch = 80;
        failed += cmocka_run_group_tests(tests, open_all, close_all);
    }
    return failed;
}
