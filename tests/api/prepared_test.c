// SPDX-License-Identifier: MIT
// prepared_test.c - launches that agree with an earlier one in all but addresses: they compute, they are refused with the same
// words as the first, and nothing else is taken for them.
#include "kiln/kiln.h"
#include "runtime/prepared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char source[] = "kernel scale(in f32 X[M][N], in strided f32 V[N], out f32 Y[M][N], f32 a)\n"
                             "{\n"
                             "    grid (m : M);\n"
                             "    fragment f32 x[64] = X[m][0 +: 64], v[64] = V[0 +: 64];\n"
                             "    forall (i : 64) x[i] = x[i] * a + v[i];\n"
                             "    Y[m][0 +: 64] = x;\n"
                             "}\n"
                             "operator twice(in f32 X[M][N], in strided f32 V[N], out f32 Y[M][N], f32 a)\n"
                             "{\n"
                             "    temp f32 Z[M][N];\n"
                             "    scale(X, V, Z, a);\n"
                             "    if (M > 1) scale(Z, V, Y, a);\n"
                             "}\n";

enum { ROWS = 24, COLUMNS = 64 };

static kiln_program *program;
static kiln_kernel *scale, *twice;
static float x[2][ROWS][COLUMNS], y[2][ROWS][COLUMNS], v[2 * COLUMNS];
static _Alignas(256) char workspace[2][sizeof x[0] + 256];
static kiln_tensor tx, tv, ty;

static void assert_ok(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

static void assert_fails(kiln_status status, kiln_status expected, const char *part)
{
    if (status != expected || !strstr(kiln_error_message(), part))
        fail_msg("%s: '%s', expected %s: '%s'", kiln_status_name(status), status ? kiln_error_message() : "",
                 kiln_status_name(expected), part);
}

static int open_all(void **state)
{
    kiln_device *cpu;
    assert_ok(kiln_device_open("cpu", &cpu));
    assert_ok(kiln_program_load_text("test.tile", source, &program));
    assert_ok(kiln_kernel_build(cpu, program, "scale", "V=strided", NULL, &scale));
    assert_ok(kiln_kernel_build(cpu, program, "twice", "V=strided", NULL, &twice));
    kiln_device_close(cpu);
    return 0;
}

static int close_all(void **state)
{
    kiln_kernel_free(scale);
    kiln_kernel_free(twice);
    kiln_program_free(program);
    return 0;
}

static int reset(void **state)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            x[0][r][c] = (float)(r + c);
            x[1][r][c] = (float)(r - c);
        }
    for (int c = 0; c < 2 * COLUMNS; c++) v[c] = (float)c;
    memset(y, 0, sizeof y);
    tx = kiln_tensor_of(NULL, x, KILN_F32, 2, (int64_t[]){ ROWS, COLUMNS });
    ty = kiln_tensor_of(NULL, y, KILN_F32, 2, (int64_t[]){ ROWS, COLUMNS });
    tv = kiln_tensor_of(NULL, v, KILN_F32, 1, (int64_t[]){ COLUMNS });
    return 0;
}

static bool is_prepared(kiln_kernel *kernel, const kiln_arg *args, char *memory)
{
    kiln_status status = KILN_OK;
    const bool was = prepared_launch(kernel, NULL, args, 4, memory, sizeof workspace[0], &status);
    assert_ok(status);
    return was;
}

static void addresses_may_change(void **state)
{
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&tv), KILN_TENSOR(&ty), KILN_FLOAT(2) };
    assert_false(is_prepared(scale, args, NULL));
    assert_ok(kiln_launch(scale, NULL, args, 4));
    tx.data = x[1], ty.data = y[1], tv.data = v + 5;
    assert_true(is_prepared(scale, args, NULL));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            assert_true(y[0][r][c] == 2 * x[0][r][c] + v[c]);
            assert_true(y[1][r][c] == 2 * x[1][r][c] + v[c + 5]);
        }
}

static void nothing_else_may(void **state)
{
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&tv), KILN_TENSOR(&ty), KILN_FLOAT(2) };
    assert_ok(kiln_launch(scale, NULL, args, 4));
    args[3] = KILN_FLOAT(3);
    assert_false(is_prepared(scale, args, NULL));
    args[3] = KILN_INT(2);
    assert_false(is_prepared(scale, args, NULL));
    args[3] = KILN_FLOAT(2);
    tx.shape[0] = ty.shape[0] = 3;
    assert_false(is_prepared(scale, args, NULL));
    reset(NULL);
    tv.has_strides = true, tv.strides[0] = 2;
    assert_false(is_prepared(scale, args, NULL));
    assert_ok(kiln_launch(scale, NULL, args, 4));
    assert_true(is_prepared(scale, args, NULL));
    assert_true(y[0][1][3] == 2 * x[0][1][3] + v[6]);
}

// The words are those of a launch that is the first.
static void what_is_wrong_is_said(void **state)
{
    kiln_kernel *const kernels[] = { scale, twice };
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&tv), KILN_TENSOR(&ty), KILN_FLOAT(2) };
    for (int k = 0; k < 2; k++) {
        reset(NULL);
        assert_ok(kiln_launch_with(kernels[k], NULL, args, 4, workspace[0], sizeof workspace[0]));
        tx.data = NULL;
        assert_fails(kiln_launch_with(kernels[k], NULL, args, 4, workspace[0], sizeof workspace[0]), KILN_BAD_ARGUMENT,
                     "'X' has no data");
        tx.data = (char *)x + 2;
        assert_fails(kiln_launch_with(kernels[k], NULL, args, 4, workspace[0], sizeof workspace[0]), KILN_BAD_ALIGNMENT,
                     "'X'");
        tx.data = y[0][ROWS - 1];
        assert_fails(kiln_launch_with(kernels[k], NULL, args, 4, workspace[0], sizeof workspace[0]), KILN_BAD_ARGUMENT,
                     "overlap");
        tx.data = x, args[1] = KILN_NONE;
        assert_fails(kiln_launch_with(kernels[k], NULL, args, 4, workspace[0], sizeof workspace[0]), KILN_BAD_TYPE,
                     "'V'");
        args[1] = KILN_TENSOR(NULL);
        assert_fails(kiln_launch_with(kernels[k], NULL, args, 4, workspace[0], sizeof workspace[0]), KILN_BAD_ARGUMENT,
                     "null");
        args[1] = KILN_TENSOR(&tv);
        assert_fails(kiln_launch_with(kernels[k], NULL, args, 3, workspace[0], sizeof workspace[0]), KILN_BAD_ARGUMENT,
                     "3 arguments given");
    }
    assert_fails(kiln_launch_with(twice, NULL, args, 4, workspace[0], 64), KILN_BAD_ARGUMENT, "64 given");
    assert_fails(kiln_launch_with(twice, NULL, args, 4, workspace[0] + 16, sizeof x[0]), KILN_BAD_ALIGNMENT,
                 "workspace");
    tx.data = workspace[0];
    assert_fails(kiln_launch_with(twice, NULL, args, 4, workspace[0], sizeof workspace[0]), KILN_BAD_ARGUMENT,
                 "overlap");
}

static void operators_keep_their_steps(void **state)
{
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&tv), KILN_TENSOR(&ty), KILN_FLOAT(3) };
    size_t bytes = 0, again = 0;
    assert_ok(kiln_workspace_size(twice, args, 4, &bytes));
    assert_true(prepared_size(twice, args, 4, &again));
    assert_true(bytes == sizeof x[0] && bytes == again);
    tx.data = NULL; // what the first call refuses, a later one does; shapes alone have a size
    assert_fails(kiln_workspace_size(twice, args, 4, &bytes), KILN_BAD_ARGUMENT, "'X' has no data");
    assert_true(prepared_size_of_shapes(twice, args, 4, &again) && again == sizeof x[0]);
    tx.data = (char *)x + 2;
    assert_fails(kiln_workspace_size(twice, args, 4, &bytes), KILN_BAD_ALIGNMENT, "'X'");
    tx.data = x;
    assert_false(is_prepared(twice, args, workspace[0])); // its size is known, not its steps
    assert_ok(kiln_launch_with(twice, NULL, args, 4, workspace[0], sizeof workspace[0]));
    ty.data = y[1];
    assert_true(is_prepared(twice, args, workspace[1]));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            assert_true(y[0][r][c] == 9 * x[0][r][c] + 4 * v[c]);
            assert_true(y[1][r][c] == y[0][r][c]);
        }
    tx.shape[0] = ty.shape[0] = 1; // one step alone
    ty.data = y[0];
    memset(y, 0, sizeof y);
    for (int i = 0; i < 2; i++) assert_ok(kiln_launch_with(twice, NULL, args, 4, workspace[0], sizeof workspace[0]));
    assert_true(y[0][0][5] == 0);
}

// More shapes than are kept take turns.
static void many_shapes(void **state)
{
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&tv), KILN_TENSOR(&ty), KILN_FLOAT(2) };
    for (int turn = 0; turn < 3; turn++)
        for (int rows = 0; rows <= ROWS; rows++) {
            memset(y, 0, sizeof y);
            tx.shape[0] = ty.shape[0] = rows;
            for (int i = 0; i < 2; i++) assert_ok(kiln_launch(scale, NULL, args, 4));
            for (int r = 0; r < ROWS; r++) assert_true(y[0][r][7] == (r < rows ? 2 * x[0][r][7] + v[7] : 0));
            assert_true(rows == 0 || is_prepared(scale, args, NULL));
        }
}

static void *launch_often(void *context)
{
    float out[4][COLUMNS];
    kiln_tensor to = kiln_tensor_of(NULL, out, KILN_F32, 2, (int64_t[]){ 4, COLUMNS });
    kiln_tensor from = kiln_tensor_of(NULL, x, KILN_F32, 2, (int64_t[]){ 4, COLUMNS });
    const kiln_arg args[] = { KILN_TENSOR(&from), KILN_TENSOR(&tv), KILN_TENSOR(&to), KILN_FLOAT(2) };
    for (int i = 0; i < 500; i++) {
        const int64_t rows = 1 + i % 4;
        memset(out, 0, sizeof out);
        to.shape[0] = from.shape[0] = rows;
        if (kiln_launch(scale, NULL, args, 4) || out[rows - 1][9] != 2 * x[0][rows - 1][9] + v[9]) return (void *)1;
    }
    return NULL;
}

static void threads_share_what_is_kept(void **state)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_often, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(addresses_may_change, reset),  cmocka_unit_test_setup(nothing_else_may, reset),
        cmocka_unit_test_setup(what_is_wrong_is_said, reset), cmocka_unit_test_setup(operators_keep_their_steps, reset),
        cmocka_unit_test_setup(many_shapes, reset),           cmocka_unit_test_setup(threads_share_what_is_kept, reset),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
