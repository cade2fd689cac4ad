// SPDX-License-Identifier: MIT
// launch_test.c - every way to launch a kernel wrongly, each with the message that names the argument; and right ones.
#include "kiln/kiln.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char source[] =
    "kernel scale<type T = f32, int BN = 32>(in T X[M][N], out T Y[M][N], optional in T W[N], f32 a, i32 mode)\n"
    "{\n"
    "    require(N % 2 == 0, \"N must be even\");\n"
    "    require(mode >= 0 && mode < 3, \"mode is 0, 1 or 2\");\n"
    "    grid (n : ceildiv(N, BN), m : M);\n"
    "    fragment f32 x[BN] = X[m][n*BN +: BN];\n"
    "    forall (i : BN) x[i] *= a;\n"
    "    if (present(W)) {\n"
    "        fragment f32 w[BN] = W[n*BN +: BN];\n"
    "        forall (i : BN) x[i] *= w[i];\n"
    "    }\n"
    "    Y[m][n*BN +: BN] = x;\n"
    "}\n"
    "kernel sum(in strided f32 X[M][N], in i32 FIRST[M + 1], inout f32 Y[M])\n"
    "{\n"
    "    grid (m : M);\n"
    "    fragment f32 x[64] = X[m][0 +: 64], s[1] = 0;\n"
    "    forall (i : 64) s[0] += x[i];\n"
    "    forall (i : 1) Y[m + i] += s[i];\n"
    "}\n"
    "kernel trapping(in f32 X[N], out f32 Y[N])\n"
    "{\n"
    "    grid ();\n"
    "    assert(N < 5, \"fewer than five\");\n"
    "    Y[0] = X[0];\n"
    "}\n"
    "operator partly(in f32 X[M][N], out f32 Y[M][N], i32 mode)\n"
    "{\n"
    "    temp f32 Z[M][N];\n"
    "    scale<f32>(X, Y, none, 1, 0);\n"
    "    scale<f32>(X, Z, none, 1, mode);\n"
    "}\n"
    "operator twice(in f32 X[M][N], out f32 Y[M][N], f32 a)\n"
    "{\n"
    "    temp f32 Z[M][N];\n"
    "    scale<f32>(X, Z, none, a, 0);\n"
    "    scale<f32>(Z, Y, none, a, 1);\n"
    "}\n"
    "kernel paired(in f32 X[M][N], out f32 Y[M][N])\n"
    "{\n"
    "    grid (m : M, n : ceildiv(N, 64)) cluster(m = 2);\n"
    "    fragment f32 x[64] = X[m][n*64 +: 64];\n"
    "    Y[m][n*64 +: 64] = x;\n"
    "}\n"
    "kernel turn(in strided f32 X[M][N], out strided f32 Y[M][N]) { grid (m : M); forall (n : N) Y[m][n] = X[m][n]; }\n";

static kiln_device *cpu;
static kiln_program *program;
static kiln_kernel *scale, *scale_w, *sum;
static float x[2][64], y[2][64], w[64];
static kiln_tensor tx, ty, tw;

static void assert_ok(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

static void assert_fails(kiln_status status, kiln_status expected, const char *part)
{
    if (status != expected)
        fail_msg("%s (%s), expected %s", kiln_status_name(status), status ? kiln_error_message() : "",
                 kiln_status_name(expected));
    if (!strstr(kiln_error_message(), part)) fail_msg("'%s' does not say '%s'", kiln_error_message(), part);
}

static int open_all(void **state)
{
    assert_ok(kiln_device_open("cpu", &cpu));
    assert_ok(kiln_program_load_text("test.tile", source, &program));
    assert_ok(kiln_kernel_build(cpu, program, "scale", "W=none", NULL, &scale));
    assert_ok(kiln_kernel_build(cpu, program, "scale", NULL, NULL, &scale_w));
    assert_ok(kiln_kernel_build(cpu, program, "sum", NULL, NULL, &sum));
    return 0;
}

static int close_all(void **state)
{
    kiln_kernel_free(scale);
    kiln_kernel_free(scale_w);
    kiln_kernel_free(sum);
    kiln_program_free(program);
    kiln_device_close(cpu);
    return 0;
}

static int reset(void **state)
{
    const int64_t shape[] = { 2, 64 };
    for (int i = 0; i < 64; i++) {
        x[0][i] = (float)i, x[1][i] = (float)-i;
        w[i] = 2;
    }
    memset(y, 0, sizeof y);
    tx = kiln_tensor_of(NULL, x, KILN_F32, 2, shape);
    ty = kiln_tensor_of(cpu, y, KILN_F32, 2, shape);
    tw = kiln_tensor_of(NULL, w, KILN_F32, 1, shape + 1);
    return 0;
}

static kiln_status launch_scale(void)
{
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_NONE, KILN_FLOAT(3), KILN_INT(0) };
    return kiln_launch(scale, NULL, args, 5);
}

static void right_launches_compute(void **state)
{
    assert_ok(launch_scale());
    for (int i = 0; i < 64; i++) assert_true(y[0][i] == 3 * x[0][i] && y[1][i] == 3 * x[1][i]);
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_TENSOR(&tw), KILN_INT(3), KILN_INT(2) };
    assert_ok(kiln_launch(scale_w, NULL, args, 5)); // an integer does for a float
    assert_true(y[1][5] == 6 * x[1][5]);
    assert_int_equal(kiln_kernel_parameters(scale), 5);
    assert_string_equal(kiln_kernel_parameter_name(scale, 3), "a");
    assert_null(kiln_kernel_parameter_name(scale, 5));
    assert_non_null(kiln_kernel_source(scale));
}

static void empty_tensors_are_fine(void **state)
{
    tx.shape[0] = ty.shape[0] = 0;
    tx.data = ty.data = NULL;
    assert_ok(launch_scale());
    tx.shape[0] = ty.shape[0] = 2;
    tx.shape[1] = ty.shape[1] = 0;
    assert_ok(launch_scale());
}

static void counts_and_null_pointers(void **state)
{
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_NONE, KILN_FLOAT(3), KILN_INT(0) };
    kiln_arg bad[5];
    assert_fails(kiln_launch(scale, NULL, args, 4), KILN_BAD_ARGUMENT, "4 arguments given, expected 5");
    assert_fails(kiln_launch(scale, NULL, NULL, 5), KILN_BAD_ARGUMENT, "'args' is null");
    assert_fails(kiln_launch(NULL, NULL, args, 5), KILN_BAD_ARGUMENT, "'kernel' is null");
    memcpy(bad, args, sizeof bad);
    bad[1].tensor = NULL;
    assert_fails(kiln_launch(scale, NULL, bad, 5), KILN_BAD_ARGUMENT, "argument 2 ('Y') is a null tensor pointer");
    ty.data = NULL;
    assert_fails(launch_scale(), KILN_BAD_ARGUMENT, "'Y' has no data");
}

static void kinds(void **state)
{
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_NONE, KILN_FLOAT(3), KILN_INT(0) };
    args[0] = KILN_INT(1);
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_TYPE,
                 "argument 1 ('X') is an integer, expected a tensor of f32");
    args[0] = KILN_NONE;
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_TYPE, "argument 1 ('X') is none");
    args[0] = KILN_TENSOR(&tx);
    args[2] = KILN_TENSOR(&tw);
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_ARGUMENT, "built with W=none");
    args[2] = KILN_NONE;
    assert_fails(kiln_launch(scale_w, NULL, args, 5), KILN_BAD_ARGUMENT, "build it with W=none");
    args[4] = KILN_FLOAT(1);
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_TYPE,
                 "argument 5 ('mode') is a floating-point number, expected a "
                 "scalar of type i32");
    args[4] = KILN_INT(INT64_C(1) << 31);
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_ARGUMENT, "which i32 cannot hold");
    args[4] = KILN_TENSOR(&tx);
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_TYPE, "is a tensor, expected a scalar");
    args[4].kind = (kiln_arg_kind)17;
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_TYPE, "unknown kind (17)");
}

static void types_ranks_and_extents(void **state)
{
    ty.type = KILN_F16;
    assert_fails(launch_scale(), KILN_BAD_TYPE, "'Y' is a tensor of f16, expected f32");
    ty.type = (kiln_type)99;
    assert_fails(launch_scale(), KILN_BAD_TYPE, "'Y' is a tensor of unknown type");
    ty.type = KILN_F32, ty.rank = 1;
    assert_fails(launch_scale(), KILN_BAD_SHAPE, "'Y' has rank 1, expected 2");
    ty.rank = 2, ty.shape[1] = -64;
    assert_fails(launch_scale(), KILN_BAD_SHAPE, "dimension 1 of 'Y' is -64");
    ty.shape[1] = 62;
    assert_fails(launch_scale(), KILN_BAD_SHAPE, "'N' of 'Y' (dimension 1) is 62, but 'X' has N = 64");
    tx.shape[0] = ty.shape[0] = INT64_C(1) << 40, tx.shape[1] = ty.shape[1] = INT64_C(1) << 40;
    assert_fails(launch_scale(), KILN_BAD_SHAPE, "more elements than memory can hold");
    tx.shape[0] = ty.shape[0] = INT64_C(1) << 50, tx.shape[1] = ty.shape[1] = 64; // its bits are no int64_t
    assert_fails(launch_scale(), KILN_BAD_SHAPE, "more elements than memory can hold");
}

static void requires(void **state)
{
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_NONE, KILN_FLOAT(3), KILN_INT(7) };
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_SHAPE, "mode is 0, 1 or 2");
    tx.shape[1] = ty.shape[1] = 63;
    args[4] = KILN_INT(0);
    assert_fails(kiln_launch(scale, NULL, args, 5), KILN_BAD_SHAPE, "N must be even");
}

static void clusters_are_whole(void **state)
{
    kiln_kernel *paired;
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty) };
    assert_ok(kiln_kernel_build(cpu, program, "paired", NULL, NULL, &paired));
    assert_ok(kiln_launch(paired, NULL, args, 2));
    tx.shape[0] = ty.shape[0] = 1;
    assert_fails(kiln_launch(paired, NULL, args, 2), KILN_BAD_SHAPE,
                 "the extent of 'm' must be a multiple of its cluster, 2");
    kiln_kernel_free(paired);
}

static void strides(void **state)
{
    tx.has_strides = true;
    tx.strides[0] = 64, tx.strides[1] = 1;
    assert_ok(launch_scale());
    tx.strides[0] = 70;
    assert_fails(launch_scale(), KILN_BAD_SHAPE, "'X' must be contiguous: dimension 0 has stride 70, expected 64");
    tx.shape[0] = ty.shape[0] = 1; // a stride that is never taken
    assert_ok(launch_scale());
}

static void strided_parameters_take_strides(void **state)
{
    static float wide[4][80], out[4];
    static int32_t first[5];
    const int64_t rows[] = { 4 }, rows_and_one[] = { 5 };
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 80; j++) wide[i][j] = j < 10 ? 1 : 100;
    memset(out, 0, sizeof out);
    kiln_tensor t = {
        .data = wide, .type = KILN_F32, .rank = 2, .shape = { 4, 10 }, .strides = { 80, 1 }, .has_strides = true
    };
    kiln_tensor f = kiln_tensor_of(NULL, first, KILN_I32, 1, rows_and_one),
                o = kiln_tensor_of(NULL, out, KILN_F32, 1, rows);
    const kiln_arg args[] = { KILN_TENSOR(&t), KILN_TENSOR(&f), KILN_TENSOR(&o) };
    assert_ok(kiln_launch(sum, NULL, args, 3));
    for (int i = 0; i < 4; i++) assert_true(out[i] == 10);
    t.strides[0] = INT64_C(1) << 60;
    assert_fails(kiln_launch(sum, NULL, args, 3), KILN_BAD_SHAPE, "dimension 0 of 'X' has stride");
    t.strides[0] = 80;
    f.shape[0] = 4;
    assert_fails(kiln_launch(sum, NULL, args, 3), KILN_BAD_SHAPE, "dimension 0 of 'FIRST' is 4, expected 5 (M + 1)");
}

// Steps may be of any sign and order; of what is written no two elements are one.
static void strides_of_any_kind(void **state)
{
    // clang-format off
    static const struct { int64_t strides[2]; bool apart; } cases[] = {
        { { 4, 1 }, true }, { { 1, 4 }, true }, { { -4, 1 }, true }, { { 4, -1 }, true }, { { 2, 10 }, true }, { { 0, 1 }, false },
        { { 1, 1 }, false }, { { 2, 1 }, false }, { { 1, -2 }, false }, { { 3, 2 }, false } };
    static float from[64], to[64];
    kiln_kernel *turn;
    assert_ok(kiln_kernel_build(cpu, program, "turn", NULL, NULL, &turn));
    for (int i = 0; i < 64; i++) from[i] = (float)i;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int written = 0; written < 2; written++) {
            const int64_t a = cases[c].strides[0], b = cases[c].strides[1];
            kiln_tensor odd = { .data = (written ? to : from) + 16, .type = KILN_F32, .rank = 2, .shape = { 4, 4 }, .strides = { a, b }, .has_strides = true };
            const kiln_tensor even = { .data = written ? from : to, .type = KILN_F32, .rank = 2, .shape = { 4, 4 } };
            const kiln_arg args[] = { KILN_TENSOR(written ? &even : &odd), KILN_TENSOR(written ? &odd : &even) };
            if (written && !cases[c].apart) {
                assert_fails(kiln_launch(turn, NULL, args, 2), KILN_BAD_SHAPE, "'Y' is written, but with stride");
                odd.shape[0] = 0;
                assert_fails(kiln_launch(turn, NULL, args, 2), KILN_BAD_SHAPE, "'M' of 'Y' (dimension 0) is 0");
                continue;
            }
            assert_ok(kiln_launch(turn, NULL, args, 2));
            for (int m = 0; m < 4; m++)
                for (int n = 0; n < 4; n++)
                    assert_true(written ? to[16 + m*a + n*b] == from[m*4 + n] : to[m*4 + n] == from[16 + m*a + n*b]);
        }
    kiln_kernel_free(turn);
}

// A tensor bound to `strided` when built, of a kernel and of an operator.
static void tensors_may_be_built_strided(void **state)
{
    static float from[2][3][80] __attribute__((aligned(16))), to[2][3][96] __attribute__((aligned(16)));
    kiln_kernel *kernel, *both;
    assert_ok(kiln_kernel_build(cpu, program, "scale", "W=none, X=strided, Y=strided", NULL, &kernel));
    assert_ok(kiln_kernel_build(cpu, program, "twice", "X=strided, Y=strided", NULL, &both));
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 3; r++)
            for (int j = 0; j < 80; j++) from[i][r][j] = (float)(1000 * i + 100 * r + j);
    const kiln_tensor x = { .data = from, .type = KILN_F32, .rank = 2, .shape = { 2, 64 }, .strides = { 240, 1 }, .has_strides = true },
                      y = { .data = to, .type = KILN_F32, .rank = 2, .shape = { 2, 64 }, .strides = { 288, 1 }, .has_strides = true };
    kiln_tensor bad = y;
    kiln_arg args[] = { KILN_TENSOR(&x), KILN_TENSOR(&y), KILN_NONE, KILN_FLOAT(2), KILN_INT(0) };
    memset(to, 0, sizeof to);
    assert_ok(kiln_launch(kernel, NULL, args, 5));
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 3; r++)
            for (int j = 0; j < 96; j++) assert_true(to[i][r][j] == (r == 0 && j < 64 ? 2 * from[i][0][j] : 0));
    args[1] = KILN_TENSOR(&bad);
    bad.strides[1] = 2;
    assert_fails(kiln_launch(kernel, NULL, args, 5), KILN_BAD_SHAPE, "'Y' has stride 2 in its last dimension, expected 1");
    bad.strides[1] = 1, bad.strides[0] = 70;
    assert_fails(kiln_launch(kernel, NULL, args, 5), KILN_BAD_ALIGNMENT, "dimension 0 of 'Y' has stride 70, which is 280 bytes, expected");
    bad.strides[0] = 32;
    assert_fails(kiln_launch(kernel, NULL, args, 5), KILN_BAD_SHAPE, "'Y' is written, but with stride 32 in dimension 0 its elements overlap");
    bad.shape[0] = 1;                                      // a stride that is never taken may be anything
    assert_fails(kiln_launch(kernel, NULL, args, 5), KILN_BAD_SHAPE, "'M' of 'Y' (dimension 0) is 1, but 'X' has M = 2");
    static _Alignas(256) char workspace[512];
    const kiln_arg twice[] = { KILN_TENSOR(&x), KILN_TENSOR(&y), KILN_FLOAT(3) };
    assert_ok(kiln_launch_with(both, NULL, twice, 3, workspace, sizeof workspace));
    assert_true(to[1][0][63] == 9 * from[1][0][63] && to[1][0][64] == 0);
    kiln_kernel_free(kernel);
    kiln_kernel_free(both);
    assert_fails(kiln_kernel_build(cpu, program, "scale", "BN=strided", NULL, &kernel), KILN_BAD_TYPE, "'BN' is bound to strided, expected an integer");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "M=strided", NULL, &kernel), KILN_BAD_TYPE, "'M' is bound to strided, expected an extent");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "a=strided", NULL, &kernel), KILN_BAD_TYPE, "'a' is bound to strided, expected a number");
}

// Bound to `unaligned`: any strides, at any element.
static void tensors_may_be_built_unaligned(void **state)
{
    static float from[1 + 64 * 5 + 2] __attribute__((aligned(16))), to[1 + 2 * 67] __attribute__((aligned(16)));
    static _Alignas(256) char workspace[512];
    kiln_kernel *kernel, *both;
    assert_ok(kiln_kernel_build(cpu, program, "scale", "W=none, X=unaligned, Y=unaligned", NULL, &kernel));
    assert_ok(kiln_kernel_build(cpu, program, "twice", "X=unaligned, Y=unaligned", NULL, &both));
    for (int i = 0; i < (int)(sizeof from / sizeof *from); i++) from[i] = (float)i;
    const kiln_tensor x = { .data = from + 1, .type = KILN_F32, .rank = 2, .shape = { 2, 64 }, .strides = { 1, 5 }, .has_strides = true },
                      y = { .data = to + 1, .type = KILN_F32, .rank = 2, .shape = { 2, 64 }, .strides = { 67, 1 }, .has_strides = true };
    kiln_arg args[] = { KILN_TENSOR(&x), KILN_TENSOR(&y), KILN_NONE, KILN_FLOAT(2), KILN_INT(0) };
    const kiln_arg twice[] = { KILN_TENSOR(&x), KILN_TENSOR(&y), KILN_FLOAT(3) };
    for (int times = 1; times <= 2; times++) {
        memset(to, 0, sizeof to);
        assert_ok(times == 1 ? kiln_launch(kernel, NULL, args, 5) : kiln_launch_with(both, NULL, twice, 3, workspace, sizeof workspace));
        for (int i = 0; i < 2 * 67; i++)
            assert_true(to[1 + i] == (i % 67 < 64 ? (times == 1 ? 2 : 9) * from[1 + i / 67 + i % 67 * 5] : 0));
    }
    kiln_tensor bad = y;
    args[1] = KILN_TENSOR(&bad);
    bad.strides[0] = 32;
    assert_fails(kiln_launch(kernel, NULL, args, 5), KILN_BAD_SHAPE, "'Y' is written, but with stride 32 in dimension 0 its elements overlap");
    bad.strides[0] = 67, bad.data = (char *)bad.data + 2;
    assert_fails(kiln_launch(kernel, NULL, args, 5), KILN_BAD_ALIGNMENT, "is not aligned to 4 bytes");
    kiln_kernel_free(kernel);
    kiln_kernel_free(both);
    assert_fails(kiln_kernel_build(cpu, program, "scale", "BN=unaligned", NULL, &kernel), KILN_BAD_TYPE, "'BN' is bound to unaligned, expected an integer");
}

static void places(void **state)
{
    static char bytes[2 * 64 * 4 + 8];
    ty.data = bytes + 1 + (4 - (uintptr_t)bytes % 4) % 4;
    assert_fails(launch_scale(), KILN_BAD_ALIGNMENT, "'Y' (");
    ty.data = x;
    assert_fails(launch_scale(), KILN_BAD_ARGUMENT, "'X' and 'Y' overlap in memory, and 'Y' is written");
    ty.data = &x[1][0];
    assert_fails(launch_scale(), KILN_BAD_ARGUMENT, "overlap");
}

static void streams(void **state)
{
    kiln_stream *stream;
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_NONE, KILN_FLOAT(3), KILN_INT(0) };
    assert_ok(kiln_stream_open(cpu, &stream));
    assert_ok(kiln_launch(scale, stream, args, 5));
    kiln_stream_close(stream);
}

static void build_mistakes(void **state)
{
    kiln_kernel *k = NULL;
    kiln_program *p = NULL;
    assert_fails(kiln_kernel_build(cpu, program, "nothing", NULL, NULL, &k), KILN_NOT_FOUND, "no kernel or operator called 'nothing'");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "T=f99", NULL, &k), KILN_BAD_ARGUMENT, "'f99' (of 'T')");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "T=3", NULL, &k), KILN_BAD_TYPE, "'T' is bound to an integer, expected a type");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "N=-1", NULL, &k), KILN_BAD_ARGUMENT, "'N' is bound to -1, expected an extent");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "BN", NULL, &k), KILN_BAD_ARGUMENT, "expected NAME=VALUE, found 'BN'");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "BN=010", NULL, &k), KILN_BAD_ARGUMENT, "'010' (of 'BN'): octal numbers do not exist");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "BN=99999999999999999999", NULL, &k), KILN_BAD_ARGUMENT,
                 "'99999999999999999999' (of 'BN') does not fit into 64 bits (-9223372036854775808 .. 9223372036854775807)");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "a=1e400", NULL, &k), KILN_BAD_ARGUMENT, "'1e400' (of 'a') is neither");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "a=1e39", NULL, &k), KILN_BAD_SOURCE, "1e+39 does not fit into f32");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "mode=0x80000000", NULL, &k), KILN_BAD_SOURCE,
                 "2147483648 does not fit into i32 (-2147483648 .. 2147483647)");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "BN=8, BN=9", NULL, &k), KILN_BAD_ARGUMENT, "'BN' is bound twice");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "Q=8", NULL, &k), KILN_BAD_ARGUMENT, "nothing called 'Q' to bind: it has T, ");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "Q=8", NULL, &k), KILN_BAD_ARGUMENT, ", N");
    assert_fails(kiln_kernel_build(cpu, program, "scale", "X=none", NULL, &k), KILN_BAD_TYPE, "'X' is bound to none");
    assert_fails(kiln_kernel_build(NULL, program, "scale", NULL, NULL, &k), KILN_BAD_ARGUMENT, "'device' is null");
    assert_fails(kiln_kernel_build(cpu, NULL, "scale", NULL, NULL, &k), KILN_BAD_ARGUMENT, "'program' is null");
    assert_fails(kiln_kernel_build(cpu, program, "scale", NULL, &(kiln_build_options){ .isa = "sse9" }, &k), KILN_BAD_ARGUMENT,
                 "sse9");
    assert_fails(kiln_program_load_file("/no/such/file.tile", &p), KILN_NOT_FOUND, "/no/such/file.tile");
    assert_fails(kiln_program_load_file("/dev", &p), KILN_IO, "'/dev': it is a folder");
    assert_fails(kiln_program_load_file("/dev/null", &p), KILN_IO, "'/dev/null': it is not a regular file");
    assert_fails(kiln_program_load_text("bad.tile", "kernel k( {", &p), KILN_BAD_SOURCE, "bad.tile:1:");
    assert_null(k);
    assert_null(p);
}

static void symbols_may_be_fixed_when_built(void **state)
{
    kiln_kernel *k;
    assert_ok(kiln_kernel_build(cpu, program, "scale", "W=none, N=64, BN=16", NULL, &k));
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_NONE, KILN_FLOAT(3), KILN_INT(0) };
    assert_ok(kiln_launch(k, NULL, args, 5));
    assert_true(y[0][63] == 189);
    tx.shape[1] = ty.shape[1] = 62;
    assert_fails(kiln_launch(k, NULL, args, 5), KILN_BAD_SHAPE, "dimension 1 of 'X' is 62, expected 64");
    assert_null(strstr(kiln_error_message(), "64 (64)"));  // a number does not explain itself
    kiln_kernel_free(k);
}

// What the second step refuses is said before the first has run.
static void operators_start_nothing_that_fails(void **state)
{
    static _Alignas(256) char workspace[512];
    kiln_kernel *k;
    assert_ok(kiln_kernel_build(cpu, program, "partly", NULL, NULL, &k));
    kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_INT(7) };
    const float before = y[0][5];
    assert_fails(kiln_launch_with(k, NULL, args, 3, workspace, sizeof workspace), KILN_BAD_SHAPE, "partly, step 2: scale: mode is 0, 1 or 2");
    assert_true(y[0][5] == before && x[0][5] != before);
    args[2] = KILN_INT(2);
    assert_ok(kiln_launch_with(k, NULL, args, 3, workspace, sizeof workspace));
    assert_true(y[0][5] == x[0][5]);
    kiln_kernel_free(k);
}

// The message is of the last call that failed, whatever those do inside that do not.
static void messages_stay(void **state)
{
    kiln_program *p;
    kiln_kernel *k;
    char message[200];
    assert_fails(kiln_kernel_build(cpu, program, "nothing", NULL, NULL, &k), KILN_NOT_FOUND, "nothing");
    snprintf(message, sizeof message, "%s", kiln_error_message());
    assert_ok(kiln_program_load_text("another.tile", "kernel one(out i32 Y[N]) { grid (n : N); Y[n] = 123454321; }", &p));
    assert_ok(kiln_kernel_build(cpu, p, "one", NULL, NULL, &k));          // cold, then from the cache
    kiln_kernel_free(k);
    assert_ok(kiln_kernel_build(cpu, p, "one", NULL, NULL, &k));
    static int32_t out[3];
    const kiln_tensor t = kiln_tensor_of(NULL, out, KILN_I32, 1, (int64_t[]){ 3 });
    assert_ok(kiln_launch(k, NULL, &KILN_TENSOR(&t), 1));
    assert_int_equal(out[2], 123454321);
    kiln_kernel_free(k);
    kiln_program_free(p);
    assert_string_equal(kiln_error_message(), message);
}

static void traps_say_where(void **state)
{
    kiln_kernel *k;
    float in[8] = { 1 }, out[8];
    const int64_t four[] = { 4 }, eight[] = { 8 };
    const kiln_build_options check = { .check = true };
    assert_ok(kiln_kernel_build(cpu, program, "trapping", NULL, &check, &k));
    kiln_tensor i = kiln_tensor_of(NULL, in, KILN_F32, 1, four), o = kiln_tensor_of(NULL, out, KILN_F32, 1, four);
    const kiln_arg args[] = { KILN_TENSOR(&i), KILN_TENSOR(&o) };
    assert_ok(kiln_launch(k, NULL, args, 2));
    i.shape[0] = o.shape[0] = eight[0];
    assert_fails(kiln_launch(k, NULL, args, 2), KILN_TRAPPED, ":24:5: fewer than five");
    i.shape[0] = o.shape[0] = 4;
    assert_ok(kiln_launch(k, NULL, args, 2));              // a trap leaves nothing broken
    kiln_kernel_free(k);
}

static void operators_need_their_workspace(void **state)
{
    kiln_kernel *k;
    void *workspace;
    size_t bytes;
    assert_ok(kiln_kernel_build(cpu, program, "twice", NULL, NULL, &k));
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_FLOAT(3) };
    assert_ok(kiln_workspace_size(k, args, 3, &bytes));
    assert_int_equal(bytes, 512);
    assert_fails(kiln_launch(k, NULL, args, 3), KILN_BAD_ARGUMENT, "needs a workspace of 512 bytes, 0 given");
    assert_ok(kiln_alloc(cpu, bytes, &workspace));
    assert_fails(kiln_launch_with(k, NULL, args, 3, workspace, 511), KILN_BAD_ARGUMENT, "511 given");
    assert_fails(kiln_launch_with(k, NULL, args, 3, (char *)workspace + 4, 512), KILN_BAD_ALIGNMENT, "workspace");
    assert_ok(kiln_launch_with(k, NULL, args, 3, workspace, bytes));
    for (int i = 0; i < 64; i++)
        assert_true(y[1][i] == 9 * x[1][i]);
    assert_fails(kiln_launch_with(k, NULL, args, 2, workspace, bytes), KILN_BAD_ARGUMENT, "2 arguments given, expected 3");
    kiln_free(cpu, workspace);
    kiln_kernel_free(k);
}

// What a launch computes may have no value: that is said of the place, with what it was computed from.
static void divisions_of_a_launch(void **state)
{
    static const struct { const char *kernel; int64_t d; const char *message; } cases[] = {
        { "grid (n : N / d);", 0, "k: extent 0 of the grid divides by 0 (N = 4, d = 0)" },
        { "grid (m : 1, n : N % d);", 0, "extent 1 of the grid divides by 0" },
        { "grid (n : ceildiv(N, d));", -1, "extent 0 of the grid takes 'ceildiv' by a divisor that is not positive (N = 4, d = -1)" },
        { "grid (n : d / -1);", INT64_MIN, "extent 0 of the grid does not fit into 64 bits" },
        { "grid (n : N << d);", 64, "extent 0 of the grid shifts by less than 0 or more than 63" },
        { "grid (n : N * d);", INT64_MAX, "extent 0 of the grid does not fit into 64 bits" },
        { "require(N % d == 0, \"whole\"); grid ();", 0, "k: the requirement \"whole\" divides by 0" },
        { "require(d == 0 || N % d == 0, \"whole\"); grid (n : d != 0 ? N / d : 1);", 0, NULL },
        { "grid (n : N / d);", 3, NULL },
    };
    // clang-format on
    int32_t data[4] = { 0 };
    const kiln_tensor t = kiln_tensor_of(NULL, data, KILN_I32, 1, (int64_t[]){ 4 });
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        char text[256];
        kiln_program *p;
        kiln_kernel *k;
        snprintf(text, sizeof text, "kernel k(inout i32 Y[N], int d) { %s Y[0] = 1; }", cases[i].kernel);
        assert_ok(kiln_program_load_text("divided.tile", text, &p));
        assert_ok(kiln_kernel_build(cpu, p, "k", NULL, NULL, &k));
        const kiln_arg args[] = { KILN_TENSOR(&t), KILN_INT(cases[i].d) };
        if (cases[i].message) assert_fails(kiln_launch(k, NULL, args, 2), KILN_BAD_SHAPE, cases[i].message);
        else assert_ok(kiln_launch(k, NULL, args, 2));
        kiln_kernel_free(k);
        kiln_program_free(p);
    }
}

// Another shape has as many elements, and rows of bytes are whole elements of another type: the launch is told where.
static void views_have_as_many_elements(void **state)
{
    kiln_program *p;
    kiln_kernel *k;
    uint8_t data[48] = { 0 };
    kiln_tensor x = kiln_tensor_of(NULL, data, KILN_U8, 2, (int64_t[]){ 4, 12 });
    assert_ok(
        kiln_program_load_text("views.tile",
                               "kernel k(inout u8 X[M][N], int n)\n{\n    grid ();\n    view pairs[M][N / 2][2] = X;\n"
                               "    view f32 f = X;\n    view part[3][n] = X[0 +: n][0 +: 3];\n"
                               "    view two[6] = X[0][0 +: n];\n    pairs[0][0][0] = part[0][0];\n}\n",
                               &p));
    assert_ok(kiln_kernel_build(cpu, p, "k", NULL, NULL, &k));
    kiln_arg args[] = { KILN_TENSOR(&x), KILN_INT(6) };
    assert_ok(kiln_launch(k, NULL, args, 2));
    args[1] = KILN_INT(5);
    assert_fails(kiln_launch(k, NULL, args, 2), KILN_BAD_SHAPE,
                 "k: views.tile:7:10: the view 'two' has 6 elements, what it names max(n, 0)");
    args[1] = KILN_INT(6);
    x.shape[1] = 10;
    assert_fails(kiln_launch(k, NULL, args, 2), KILN_BAD_SHAPE,
                 "k: views.tile:5:14: a row of N u8 is no whole number of f32");
    x.shape[0] = 3, x.shape[1] = 13;
    assert_fails(kiln_launch(k, NULL, args, 2), KILN_BAD_SHAPE,
                 "k: views.tile:4:10: the view 'pairs' has M*(N/2)*2 elements, what it names M*N");
    kiln_kernel_free(k);
    kiln_program_free(p);
}

static void packed_rows_fill_bytes(void **state)
{
    kiln_program *p;
    kiln_kernel *k;
    uint8_t data[16] = { 0 };
    int32_t out[1];
    kiln_tensor x = kiln_tensor_of(NULL, data, KILN_I4, 2, (int64_t[]){ 2, 8 });
    const kiln_tensor y = kiln_tensor_of(NULL, out, KILN_I32, 1, (int64_t[]){ 1 });
    const kiln_arg args[] = { KILN_TENSOR(&x), KILN_TENSOR(&y) };
    assert_ok(kiln_program_load_text("packed.tile",
                                     "kernel k(in i4 X[M][N], out i32 Y[1]) { grid (); Y[0] = X[0][0]; }", &p));
    assert_ok(kiln_kernel_build(cpu, p, "k", NULL, NULL, &k));
    assert_ok(kiln_launch(k, NULL, args, 2));
    x.shape[1] = 7;
    assert_fails(kiln_launch(k, NULL, args, 2), KILN_BAD_SHAPE,
                 "k: the rows of 'X', N of i4, must fill whole bytes: 2 are one");
    kiln_kernel_free(k);
    assert_fails(kiln_kernel_build(cpu, p, "k", "N=7", NULL, &k), KILN_BAD_SOURCE,
                 "a row of 7 i4 fills no whole bytes: 2 are one");
    kiln_program_free(p);
}

// ---- several threads build and launch at once

static void *build_and_launch(void *context)
{
    static const char *const widths[] = { "W=none", "W=none, BN=16", "W=none, BN=64", "W=none, BN=8" };
    const int thread = (int)(intptr_t)context;
    float in[64], out[64];
    const int64_t shape[] = { 1, 64 };
    for (int i = 0; i < 64; i++) in[i] = (float)(i + thread);
    const kiln_tensor a = kiln_tensor_of(NULL, in, KILN_F32, 2, shape),
                      b = kiln_tensor_of(NULL, out, KILN_F32, 2, shape);
    const kiln_arg args[] = { KILN_TENSOR(&a), KILN_TENSOR(&b), KILN_NONE, KILN_FLOAT(2), KILN_INT(0) };
    for (int round = 0; round < 20; round++) {
        kiln_kernel *k = scale;
        if (round % 5 == 0 && kiln_kernel_build(cpu, program, "scale", widths[(thread + round / 5) % 4], NULL, &k))
            return "build";
        memset(out, 0, sizeof out);
        if (kiln_launch(k, NULL, args, 5)) return "launch";
        for (int i = 0; i < 64; i++)
            if (out[i] != 2 * in[i]) return "result";
        if (kiln_launch(k, NULL, args, 3) != KILN_BAD_ARGUMENT || !strstr(kiln_error_message(), "3 arguments"))
            return "message";
        if (k != scale) kiln_kernel_free(k);
    }
    return NULL;
}

static void threads_build_and_launch_at_once(void **state)
{
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, build_and_launch, (void *)(intptr_t)i), 0);
    for (int i = 0; i < 6; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        if (problem) fail_msg("%s", (char *)problem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(right_launches_compute, reset),
        cmocka_unit_test_setup(empty_tensors_are_fine, reset),
        cmocka_unit_test_setup(counts_and_null_pointers, reset),
        cmocka_unit_test_setup(kinds, reset),
        cmocka_unit_test_setup(types_ranks_and_extents, reset),
        cmocka_unit_test_setup(requires, reset),
        cmocka_unit_test_setup(clusters_are_whole, reset),
        cmocka_unit_test_setup(strides, reset),
        cmocka_unit_test_setup(strided_parameters_take_strides, reset),
        cmocka_unit_test_setup(strides_of_any_kind, reset),
        cmocka_unit_test_setup(tensors_may_be_built_strided, reset),
        cmocka_unit_test_setup(tensors_may_be_built_unaligned, reset),
        cmocka_unit_test_setup(places, reset),
        cmocka_unit_test_setup(streams, reset),
        cmocka_unit_test_setup(build_mistakes, reset),
        cmocka_unit_test_setup(symbols_may_be_fixed_when_built, reset),
        cmocka_unit_test_setup(operators_start_nothing_that_fails, reset),
        cmocka_unit_test_setup(messages_stay, reset),
        cmocka_unit_test_setup(traps_say_where, reset),
        cmocka_unit_test_setup(operators_need_their_workspace, reset),
        cmocka_unit_test_setup(divisions_of_a_launch, reset),
        cmocka_unit_test_setup(views_have_as_many_elements, reset),
        cmocka_unit_test_setup(packed_rows_fill_bytes, reset),
        cmocka_unit_test_setup(threads_build_and_launch_at_once, reset),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
