// SPDX-License-Identifier: MIT
// run.h - for the tests of the language's rules: builds a kernel from text and launches it on arrays, on the device that
// KILN_TEST_DEVICE names (cpu), where the arrays are copied to and back.
#ifndef TESTS_LANGUAGE_RUN_H
#define TESTS_LANGUAGE_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kiln/kiln.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

static inline kiln_device *test_device(void)
{
    static kiln_device *device;
    const char *const wanted = getenv("KILN_TEST_DEVICE");
    if (!device && kiln_device_open(wanted && *wanted ? wanted : "cpu", &device) != KILN_OK)
        fail_msg("%s", kiln_error_message());
    return device;
}

static inline bool on_cpu(void) { return strcmp(kiln_device_name(test_device()), "cpu") == 0; }

static inline kiln_status try_build(const char *text, const char *name, const char *bindings, bool check,
                                    kiln_kernel **kernel)
{
    kiln_program *program = NULL;
    const kiln_build_options options = { .check = check, .isa = getenv("KILN_TEST_ISA") };
    *kernel = NULL;
    kiln_status status = kiln_program_load_text("test.tile", text, &program);
    if (!status) status = kiln_kernel_build(test_device(), program, name, bindings, &options, kernel);
    kiln_program_free(program);
    return status;
}

static inline kiln_kernel *build_checked(const char *text, const char *name, const char *bindings, bool check)
{
    kiln_kernel *kernel;
    if (try_build(text, name, bindings, check, &kernel) != KILN_OK)
        fail_msg("%s<%s>: %s", name, bindings ? bindings : "", kiln_error_message());
    return kernel;
}

// Built with the checks of --check where KILN_TEST_CHECK says so: what is right must stay right there.
static inline kiln_kernel *build(const char *text, const char *name, const char *bindings)
{
    return build_checked(text, name, bindings, getenv("KILN_TEST_CHECK") != NULL);
}

// ---- launching

typedef struct Arg {
    kiln_arg arg;
    kiln_tensor tensor;
} Arg;

static inline Arg tensor_arg(void *data, kiln_type type, int rank, const int64_t *shape)
{
    return (Arg){ .arg.kind = KILN_ARG_TENSOR, .tensor = kiln_tensor_of(NULL, data, type, rank, shape) };
}
#define T(data, type, ...)                                                                                             \
    tensor_arg((void *)(data), (type), COUNT_OF(((int64_t[]){ __VA_ARGS__ })), (int64_t[]){ __VA_ARGS__ })
#define I(value) ((Arg){ .arg = KILN_INT(value) })
#define F(value) ((Arg){ .arg = KILN_FLOAT(value) })
#define NONE ((Arg){ .arg = KILN_NONE })

static inline kiln_status try_launch(kiln_kernel *kernel, Arg *args, int n)
{
    kiln_arg launched[64];
    void *memory[64] = { NULL }, *host[64];
    kiln_status status = KILN_OK;
    for (int i = 0; i < n && !status; i++) {
        launched[i] = args[i].arg;
        if (args[i].arg.kind != KILN_ARG_TENSOR) continue;
        launched[i].tensor = &args[i].tensor;
        if (on_cpu()) continue;
        const size_t bytes = kiln_tensor_bytes(&args[i].tensor);
        host[i] = args[i].tensor.data;
        status = kiln_alloc(test_device(), bytes ? bytes : 1, &memory[i]);
        if (!status && bytes) status = kiln_upload(test_device(), memory[i], host[i], bytes);
        args[i].tensor.device = test_device();
        args[i].tensor.data = memory[i];
    }
    if (!status) status = kiln_launch(kernel, NULL, launched, n);
    if (!status && !on_cpu()) status = kiln_stream_wait(test_device(), NULL);
    for (int i = 0; i < n; i++)
        if (memory[i]) {
            const size_t bytes = kiln_tensor_bytes(&args[i].tensor);
            if (!status && bytes) status = kiln_download(test_device(), host[i], memory[i], bytes);
            kiln_free(test_device(), memory[i]);
        }
    return status;
}
#define TRY(kernel, ...) try_launch((kernel), (Arg[]){ __VA_ARGS__ }, COUNT_OF(((Arg[]){ __VA_ARGS__ })))

static inline void launch(kiln_kernel *kernel, Arg *args, int n)
{
    assert_true(n <= 64);
    if (try_launch(kernel, args, n) != KILN_OK) fail_msg("launch: %s", kiln_error_message());
}
#define RUN(kernel, ...) launch((kernel), (Arg[]){ __VA_ARGS__ }, COUNT_OF(((Arg[]){ __VA_ARGS__ })))

// ---- numbers

// Repeatable bits.
static inline uint64_t bits_of(uint64_t i)
{
    uint64_t x = i * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

#endif
