// SPDX-License-Identifier: MIT
// run.h - builds a kernel from text for the CPU and launches it on arrays, for the tests of the CPU lowering.
#ifndef TESTS_LOWER_CPU_RUN_H
#define TESTS_LOWER_CPU_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "kiln/kiln.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

static inline kiln_kernel *build_checked(const char *text, const char *name, const char *bindings, bool check)
{
    kiln_device *device;
    kiln_program *program = NULL;
    kiln_kernel *kernel = NULL;
    const kiln_build_options options = { .check = check };
    if (kiln_device_open("cpu", &device) != KILN_OK || kiln_program_load_text("test.tile", text, &program) != KILN_OK ||
        kiln_kernel_build(device, program, name, bindings, &options, &kernel) != KILN_OK)
        fail_msg("%s<%s>: %s", name, bindings ? bindings : "", kiln_error_message());
    kiln_program_free(program);
    kiln_device_close(device);
    return kernel;
}

static inline kiln_kernel *build(const char *text, const char *name, const char *bindings)
{
    return build_checked(text, name, bindings, false);
}

static inline kiln_tensor tensor(void *data, kiln_type type, int rank, const int64_t *shape)
{
    return kiln_tensor_of(NULL, data, type, rank, shape);
}
#define TENSOR(data, type, ...)                                                                                        \
    tensor((data), (type), COUNT_OF(((int64_t[]){ __VA_ARGS__ })), (int64_t[]){ __VA_ARGS__ })

static inline void launch(kiln_kernel *kernel, const kiln_arg *args, int n)
{
    if (kiln_launch(kernel, NULL, args, n) != KILN_OK) fail_msg("launch: %s", kiln_error_message());
}
#define LAUNCH(kernel, ...) launch((kernel), (kiln_arg[]){ __VA_ARGS__ }, COUNT_OF(((kiln_arg[]){ __VA_ARGS__ })))

// Repeatable numbers in [-1, 1).
static inline float noise(uint32_t i)
{
    uint32_t x = i * 2654435761u + 12345u;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (float)((x ^ x >> 16) >> 8) / 8388608.0f - 1.0f;
}

static inline float *noise_array(int64_t n, uint32_t seed)
{
    float *const x = malloc(sizeof *x * (size_t)(n > 0 ? n : 1));
    for (int64_t i = 0; i < n; i++) x[i] = noise((uint32_t)i * 7 + seed);
    return x;
}

static inline uint16_t bf16_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline float of_bf16(uint16_t x)
{
    const uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline void assert_close(const char *what, int64_t i, double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%s[%lld]: %.9g, expected %.9g", what, (long long)i, got, expected);
}

#endif
