// SPDX-License-Identifier: MIT
// capture.h - a CUDA graph captured from a stream by the driver's own functions: graphs are its user's business, not Kiln's.
#ifndef KILN_TESTS_CAPTURE_H
#define KILN_TESTS_CAPTURE_H

#include "kiln/kiln.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Driver {
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*create)(void **stream, unsigned flags);
    int (*destroy)(void *stream);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
} Driver;

typedef struct Capture {
    Driver driver;
    kiln_device *device;
    void *context, *native, *exec;
    kiln_stream *stream;
} Capture;

static Driver open_driver(void)
{
    Driver d;
    const char *const given = getenv("KILN_CUDA");
    void *const library = dlopen(given && *given ? given : "libcuda.so.1", RTLD_NOW);
    // clang-format off
    const struct { const char *name; void *slot; } entries[] = {
        { "cuDevicePrimaryCtxRetain", &d.retain }, { "cuDevicePrimaryCtxRelease_v2", &d.release }, { "cuCtxPushCurrent_v2", &d.push },
        { "cuCtxPopCurrent_v2", &d.pop }, { "cuStreamCreate", &d.create }, { "cuStreamDestroy_v2", &d.destroy },
        { "cuStreamBeginCapture_v2", &d.begin }, { "cuStreamEndCapture", &d.end }, { "cuGraphInstantiateWithFlags", &d.instantiate },
        { "cuGraphLaunch", &d.launch } };
    assert_non_null(library);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *const found = dlsym(library, entries[i].name);
        assert_non_null(found);
        memcpy(entries[i].slot, &found, sizeof found);
    }
    // clang-format on
    return d;
}

static Capture begin_capture(kiln_device *device)
{
    Capture c = { .driver = open_driver(), .device = device };
    assert_int_equal(c.driver.retain(&c.context, 0), 0);
    assert_int_equal(c.driver.push(c.context), 0);
    assert_int_equal(c.driver.create(&c.native, 1), 0);
    assert_int_equal(kiln_stream_wrap(device, c.native, &c.stream), KILN_OK);
    assert_int_equal(c.driver.begin(c.native, 0), 0); // global: anything unsafe in any thread fails the capture
    return c;
}

static void end_capture(Capture *c)
{
    void *graph;
    assert_int_equal(c->driver.end(c->native, &graph), 0);
    assert_int_equal(c->driver.instantiate(&c->exec, graph, 0), 0);
}

static void replay(const Capture *c)
{
    assert_int_equal(c->driver.launch(c->exec, c->native), 0);
    assert_int_equal(kiln_stream_wait(c->device, c->stream), KILN_OK);
}

static void close_capture(Capture *c)
{
    kiln_stream_close(c->stream);
    assert_int_equal(c->driver.destroy(c->native), 0);
    assert_int_equal(c->driver.pop(&c->context), 0);
    assert_int_equal(c->driver.release(0), 0);
}

#endif
