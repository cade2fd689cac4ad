// SPDX-License-Identifier: MIT
// parameter_test.c - what a program can ask of a kernel whose source it does not know: parameters, extents of outputs.
#include "kiln/kiln.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char source[] =
    "kernel many<type T = f16>(in T X[M][N], optional in f32 W[N], in strided u8 Z[M], inout T Y[M],\n"
    "                          out f32 P[ceildiv(N, 32)][M * n + 1], f32 a, int n, bool b)\n"
    "{ grid (m : M); Y[m] = X[m][0]; }\n"
    "kernel first(out f32 Y[M][N], in f32 X[N], in f32 Z[M + 1]) { grid (m : M); Y[m][0] = X[0]; }\n"
    "kernel alone(out f32 Y[M]) { grid (m : M); Y[m] = 0; }\n"
    "operator copied(in f32 X[N], in f32 Z[M + 1], out f32 Y[M][N]) { first(Y, X, Z); }\n";

static kiln_device *cpu;
static kiln_program *program;

static void assert_ok(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

static void assert_fails(kiln_status status, kiln_status expected, const char *message)
{
    assert_int_equal(status, expected);
    assert_string_equal(kiln_error_message(), message);
}

static int open_all(void **state)
{
    return kiln_device_open("cpu", &cpu) || kiln_program_load_text("parameter.tile", source, &program);
}

static int close_all(void **state)
{
    kiln_program_free(program);
    kiln_device_close(cpu);
    return 0;
}

static kiln_kernel *build(const char *name, const char *bindings)
{
    kiln_kernel *kernel;
    assert_ok(kiln_kernel_build(cpu, program, name, bindings, NULL, &kernel));
    return kernel;
}

static void parameters_are_told(void **state)
{
    static const kiln_parameter expected[] = {
        { 0, "X", KILN_ARG_TENSOR, KILN_BF16, 2, .reads = true },
        { 0, "W", KILN_ARG_NONE, KILN_F32, 1, .reads = true, .optional = true },
        { 0, "Z", KILN_ARG_TENSOR, KILN_U8, 1, .reads = true, .strided = true },
        { 0, "Y", KILN_ARG_TENSOR, KILN_BF16, 1, .reads = true, .writes = true },
        { 0, "P", KILN_ARG_TENSOR, KILN_F32, 2, .writes = true },
        { 0, "a", KILN_ARG_FLOAT, KILN_F32, 0, .reads = true },
        { 0, "n", KILN_ARG_INT, KILN_I64, 0, .reads = true },
        { 0, "b", KILN_ARG_INT, KILN_BOOL, 0, .reads = true },
    };
    kiln_kernel *const kernel = build("many", "T=bf16, W=none");
    assert_int_equal(kiln_kernel_parameters(kernel), 8);
    for (int i = 0; i < 8; i++) {
        kiln_parameter p = KILN_ARGS(kiln_parameter);
        const kiln_parameter *const e = &expected[i];
        assert_ok(kiln_kernel_parameter(kernel, i, &p));
        assert_string_equal(p.name, e->name);
        assert_string_equal(p.name, kiln_kernel_parameter_name(kernel, i));
        assert_int_equal(p.struct_size, sizeof p);
        assert_true(p.kind == e->kind && p.type == e->type && p.rank == e->rank);
        assert_true(p.reads == e->reads && p.writes == e->writes);
        assert_true(p.optional == e->optional && p.strided == e->strided);
    }
    kiln_parameter p = { 0 };
    assert_fails(kiln_kernel_parameter(kernel, 8, &p), KILN_BAD_ARGUMENT,
                 "kiln_kernel_parameter: 'index' is 8, but 'many' has 8 parameters");
    assert_fails(kiln_kernel_parameter(NULL, 0, &p), KILN_BAD_ARGUMENT, "kiln_kernel_parameter: 'kernel' is null");
    assert_fails(kiln_kernel_parameter(kernel, 0, NULL), KILN_BAD_ARGUMENT,
                 "kiln_kernel_parameter: 'parameter' is null");
    kiln_kernel_free(kernel);
}

static void extents_of_outputs(void **state)
{
    kiln_kernel *const kernel = build("many", "W=none");
    const kiln_tensor x = { .type = KILN_F16, .rank = 2, .shape = { 3, 65 } };
    kiln_arg args[] = { KILN_TENSOR(&x), KILN_NONE,     KILN_NONE,   KILN_NONE,
                        KILN_NONE,       KILN_FLOAT(1), KILN_INT(4), KILN_INT(0) };
    int64_t shape[KILN_MAX_RANK] = { 0 };
    assert_ok(kiln_kernel_extents(kernel, args, 8, 4, shape));
    assert_true(shape[0] == 3 && shape[1] == 13);
    assert_ok(kiln_kernel_extents(kernel, args, 8, 3, shape));
    assert_int_equal(shape[0], 3);
    args[6] = KILN_NONE;
    assert_fails(kiln_kernel_extents(kernel, args, 8, 4, shape), KILN_BAD_SHAPE,
                 "many: dimension 1 of 'P' depends on n, which no other argument gives");
    args[6] = KILN_INT(-4);
    assert_fails(kiln_kernel_extents(kernel, args, 8, 4, shape), KILN_BAD_SHAPE,
                 "many: dimension 1 of 'P' has no extent with these arguments");
    assert_fails(kiln_kernel_extents(kernel, args, 8, 1, shape), KILN_BAD_TYPE,
                 "many: 'W' is no tensor of this kernel");
    assert_fails(kiln_kernel_extents(kernel, args, 8, 5, shape), KILN_BAD_TYPE,
                 "many: 'a' is no tensor of this kernel");
    assert_fails(kiln_kernel_extents(kernel, args, 7, 4, shape), KILN_BAD_ARGUMENT,
                 "many: 7 arguments given, expected 8");
    assert_fails(kiln_kernel_extents(kernel, args, 8, -1, shape), KILN_BAD_ARGUMENT,
                 "kiln_kernel_extents: 'index' is -1, but 'many' has 8 parameters");
    assert_fails(kiln_kernel_extents(kernel, NULL, 8, 4, shape), KILN_BAD_ARGUMENT,
                 "kiln_kernel_extents: 'args' is null");
    kiln_kernel_free(kernel);
}

// A symbol that the output itself binds has its value from wherever else it stands alone.
static void extents_without_what_binds_them(void **state)
{
    kiln_kernel *const kernel = build("first", NULL), *const fixed = build("first", "N=7"),
                       *const alone = build("alone", NULL), *const copied = build("copied", NULL);
    const kiln_tensor x = { .type = KILN_F32, .rank = 1, .shape = { 5 } },
                      z = { .type = KILN_F32, .rank = 1, .shape = { 9 } }, y = { .rank = 2, .shape = { 1, 2 } };
    kiln_arg args[] = { KILN_TENSOR(&y), KILN_TENSOR(&x), KILN_TENSOR(&z) };
    int64_t shape[KILN_MAX_RANK];
    assert_ok(kiln_kernel_extents(kernel, args, 3, 0, shape));
    assert_true(shape[0] == 8 && shape[1] == 5);
    assert_ok(kiln_kernel_extents(kernel, args, 3, 1, shape));
    assert_int_equal(shape[0], 2);
    args[0] = args[1] = KILN_NONE;
    assert_fails(kiln_kernel_extents(kernel, args, 3, 1, shape), KILN_BAD_SHAPE,
                 "first: dimension 0 of 'X' depends on N, which no other argument gives");
    assert_ok(kiln_kernel_extents(fixed, args, 3, 1, shape));
    assert_int_equal(shape[0], 7);
    assert_fails(kiln_kernel_extents(alone, args, 1, 0, shape), KILN_BAD_SHAPE,
                 "alone: dimension 0 of 'Y' depends on M, which no other argument gives");
    args[2] = KILN_TENSOR(&y);
    assert_fails(kiln_kernel_extents(kernel, args, 3, 1, shape), KILN_BAD_SHAPE, "first: 'Z' has rank 2, expected 1");
    const kiln_arg of_operator[] = { KILN_TENSOR(&x), KILN_TENSOR(&z), KILN_NONE };
    assert_ok(kiln_kernel_extents(copied, of_operator, 3, 2, shape));
    assert_true(shape[0] == 8 && shape[1] == 5);
    kiln_kernel_free(kernel);
    kiln_kernel_free(fixed);
    kiln_kernel_free(alone);
    kiln_kernel_free(copied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_told),
        cmocka_unit_test(extents_of_outputs),
        cmocka_unit_test(extents_without_what_binds_them),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
