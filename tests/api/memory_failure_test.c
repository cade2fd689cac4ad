// SPDX-License-Identifier: MIT
// memory_failure_test.c - every request for memory fails once, on every path of the API: the call says so, nothing leaks,
// and the next call works.
#include "base/memory.h"
#include "kiln/kiln.h"
#include "runtime/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char source[] =
    "fn f32 twice(f32 x) { return 2 * x; }\n"
    "kernel add<type T = f32, int BN = 32>(in T A[M][N], in T B[M][N], out T C[M][N], optional in T D[N], f32 a)\n"
    "{\n"
    "    require(N > 0, \"columns\");\n"
    "    grid (n : ceildiv(N, BN), m : M);\n"
    "    fragment f32 x[BN] = A[m][n*BN +: BN], y[BN] = B[m][n*BN +: BN];\n"
    "    forall (i : BN) x[i] = twice(x[i]) + a * y[i];\n"
    "    C[m][n*BN +: BN] = x;\n"
    "}\n";

static kiln_device *cpu;
static kiln_program *program;
static float a[2][40], b[2][40], c[2][40];

// Fails the n-th request until none fails any more; each time the outcome must be clean.
static void fail_each(kiln_status (*work)(void), int most)
{
    const long before = memory_live_blocks();
    for (int n = 0; n < most; n++) {
        memory_fail_after(n);
        const kiln_status status = work();
        memory_fail_after(-1);
        if (memory_live_blocks() != before)
            fail_msg("request %d failed and %ld blocks were left (%s)", n, memory_live_blocks() - before,
                     kiln_status_name(status));
        if (status == KILN_OK) return;
        if (status != KILN_OUT_OF_MEMORY)
            fail_msg("request %d failed and the call said %s: %s", n, kiln_status_name(status), kiln_error_message());
    }
    fail_msg("it still fails after %d requests", most);
}

static kiln_status load(void)
{
    kiln_program *p = NULL;
    const kiln_status status = kiln_program_load_text("memory.tile", source, &p);
    kiln_program_free(p);
    return status;
}

static kiln_status compile(void)
{
    BuildRequest request = { .device = cpu, .program = program, .name = "add" };
    const kiln_status status = target_choose(cpu, NULL, &request.target);
    return status ? status : kernel_compile(&request, NULL, NULL, NULL, NULL);
}

static kiln_status build(void)
{
    kiln_kernel *k = NULL;
    const kiln_status status = kiln_kernel_build(cpu, program, "add", "D=none", NULL, &k);
    kiln_kernel_free(k);
    return status;
}

static kiln_status build_cold(void)
{
    cache_clean(0);
    return build();
}

static kiln_kernel *kernel;

static kiln_status launch(void)
{
    const int64_t shape[] = { 2, 40 };
    const kiln_tensor ta = kiln_tensor_of(NULL, a, KILN_F32, 2, shape),
                      tb = kiln_tensor_of(NULL, b, KILN_F32, 2, shape),
                      tc = kiln_tensor_of(NULL, c, KILN_F32, 2, shape);
    const kiln_arg args[] = { KILN_TENSOR(&ta), KILN_TENSOR(&tb), KILN_TENSOR(&tc), KILN_NONE, KILN_FLOAT(1) };
    return kiln_launch(kernel, NULL, args, 5);
}

static kiln_status small_things(void)
{
    kiln_stream *stream = NULL;
    kiln_event *event = NULL;
    void *memory = NULL, *managed = NULL;
    const int64_t shape[] = { 2, 40 };
    const kiln_tensor t = kiln_tensor_of(NULL, a, KILN_F32, 2, shape);
    kiln_status status = kiln_stream_open(cpu, &stream);
    if (!status) status = kiln_event_open(cpu, &event);
    if (!status) status = kiln_alloc(cpu, 100, &memory);
    if (!status) status = kiln_tensor_to_dlpack(&t, &managed);
    if (managed) ((void (**)(void *))managed)[7](managed); // its deleter, by the ABI
    kiln_free(cpu, memory);
    kiln_event_close(event);
    kiln_stream_close(stream);
    return status;
}

static void loading(void **state) { fail_each(load, 2000); }
static void compiling(void **state) { fail_each(compile, 2000); }
static void building(void **state) { fail_each(build, 2000); }
static void building_cold(void **state) { fail_each(build_cold, 2000); }
static void the_rest(void **state) { fail_each(small_things, 100); }

static void launching(void **state)
{
    assert_int_equal(kiln_kernel_build(cpu, program, "add", "D=none", NULL, &kernel), KILN_OK);
    kiln_set_threads(1); // other threads keep their scratch, which is no leak
    assert_int_equal(launch(), KILN_OK);
    fail_each(launch, 100);
    kiln_set_threads(0);
    kiln_kernel_free(kernel);
}

static char folder[] = "/tmp/kiln-memory-XXXXXX";

static int open_all(void **state)
{
    assert_non_null(mkdtemp(folder));
    setenv("KILN_CACHE", folder, 1);
    assert_int_equal(kiln_device_open("cpu", &cpu), KILN_OK);
    assert_int_equal(kiln_program_load_text("memory.tile", source, &program), KILN_OK);
    assert_int_equal(build(), KILN_OK);
    // A first long message makes room that a thread keeps.
    assert_int_equal(small_things(), KILN_OK);
    return 0;
}

static int close_all(void **state)
{
    kiln_program_free(program);
    kiln_device_close(cpu);
    folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading),       cmocka_unit_test(compiling), cmocka_unit_test(building),
        cmocka_unit_test(building_cold), cmocka_unit_test(launching), cmocka_unit_test(the_rest),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
