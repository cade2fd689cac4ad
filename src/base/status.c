// SPDX-License-Identifier: MIT
// status.c - the error message of the calling thread.
//
// Short messages live in the thread itself, so that running out of memory can be reported; diagnostics of a whole
// source are longer and go to the heap, freed when the thread ends.
#include "base/status.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Message {
    char text[1024];
    char *longer;
} Message;

static _Thread_local Message message;
static pthread_key_t long_messages;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void) { pthread_key_create(&long_messages, memory_free); }

static void set_longer(char *text)
{
    pthread_once(&once, make_key);
    memory_free(message.longer);
    message.longer = text;
    pthread_setspecific(long_messages, text);
}

static void set_message(const char *format, va_list args)
{
    // The new text may quote the old one, so it is made whole before that is let go.
    char text[sizeof message.text], *longer = NULL;
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(text, sizeof text, format, args);
    if (n >= (int)sizeof text && (longer = memory_alloc((size_t)n + 1)) != NULL)
        vsnprintf(longer, (size_t)n + 1, format, again);
    va_end(again);
    memcpy(message.text, text, sizeof text);
    if (longer || message.longer) set_longer(longer);
}

kiln_status status_fail(kiln_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_message(format, args);
    va_end(args);
    return status;
}

kiln_status status_check_size(const char *what, size_t given, size_t known)
{
    return given == 0 || given == known
               ? KILN_OK
               : status_fail(KILN_BAD_ARGUMENT,
                             "%s: 'struct_size' is %zu, expected %zu, or 0: the caller was built for another version "
                             "than this library's, %s",
                             what, given, known, kiln_version());
}

static void replace(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_message(format, args);
    va_end(args);
}

void status_prefix(const char *format, ...)
{
    char prefix[256];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    replace("%s: %s", prefix, kiln_error_message());
}

const char *kiln_version(void) { return KILN_VERSION; }

const char *kiln_error_message(void) { return message.longer ? message.longer : message.text; }

const char *kiln_status_name(kiln_status status)
{
    // clang-format off
    static const char *const names[] = {
        [KILN_OK] = "ok", [KILN_OUT_OF_MEMORY] = "out of memory", [KILN_BAD_SOURCE] = "errors in the source",
        [KILN_BAD_ARGUMENT] = "bad argument", [KILN_BAD_TYPE] = "bad type", [KILN_BAD_SHAPE] = "bad shape",
        [KILN_BAD_DEVICE] = "bad device", [KILN_BAD_ALIGNMENT] = "bad alignment", [KILN_NOT_FOUND] = "not found",
        [KILN_UNSUPPORTED] = "unsupported", [KILN_TOOLCHAIN] = "toolchain failed", [KILN_IO] = "input/output error",
        [KILN_DEVICE_FAILED] = "device failed", [KILN_TRAPPED] = "trapped",
    };
    // clang-format on
    const unsigned i = (unsigned)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown status";
}
