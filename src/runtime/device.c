// SPDX-License-Identifier: MIT
// device.c - the devices of this process by name, and their public functions, which the kind's table carries out.
//
// A device, once opened, stays in the table: closing the last use releases what it holds, but the struct lives on, so
// that a tensor which still names it can be refused with a message instead of being followed into freed memory.
#include "runtime/runtime.h"
#include "base/fork.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEVICES = 64 };

static const DeviceKind *const kinds[] = { &device_kind_cpu, &device_kind_cuda };
static struct {
    pthread_mutex_t lock;
    kiln_device *items[MAX_DEVICES];
    int count;
} opened = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void lock_opened(void)
{
    fork_hold();
    pthread_mutex_lock(&opened.lock);
}

static void unlock_opened(void)
{
    pthread_mutex_unlock(&opened.lock);
    fork_release();
}

static const DeviceKind *find_kind(const char *name, size_t n)
{
    for (int i = 0; i < COUNT(kinds); i++)
        if (strlen(kinds[i]->name) == n && memcmp(kinds[i]->name, name, n) == 0) return kinds[i];
    return NULL;
}

// "cuda:1" or "cuda", which is "cuda:0".
static kiln_status parse_name(const char *name, const DeviceKind **kind, int *index)
{
    const size_t n = strcspn(name, ":");
    char *end = (char *)name + n;
    *kind = find_kind(name, n);
    const long number = name[n] ? strtol(name + n + 1, &end, 10) : 0;
    if (!*kind || *end || (name[n] && end == name + n + 1) || number < 0 || number >= MAX_DEVICES)
        return status_fail(KILN_NOT_FOUND, "no device is called '%s': expected cpu, cuda:0, cuda:1 ...", name);
    if (*kind == &device_kind_cpu && number != 0)
        return status_fail(KILN_NOT_FOUND, "no device is called '%s': there is one cpu", name);
    *index = (int)number;
    return KILN_OK;
}

static kiln_device *find_device(const DeviceKind *kind, int index)
{
    for (int i = 0; i < opened.count; i++)
        if (opened.items[i]->kind == kind && opened.items[i]->index == index) return opened.items[i];
    return NULL;
}

static kiln_device *new_device(const DeviceKind *kind, int index)
{
    kiln_device *const device = opened.count < MAX_DEVICES ? memory_alloc(sizeof *device) : NULL;
    if (!device) return NULL;
    device->kind = kind;
    device->index = index;
    if (kind == &device_kind_cpu) snprintf(device->name, sizeof device->name, "cpu");
    else snprintf(device->name, sizeof device->name, "%s:%d", kind->name, index);
    return opened.items[opened.count++] = device;
}

// Under the lock.
static kiln_status use_device(const DeviceKind *kind, int index, kiln_device **device)
{
    kiln_device *found = find_device(kind, index);
    if (!found) found = new_device(kind, index);
    if (!found) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a device");
    const kiln_status status = found->uses ? KILN_OK : kind->open(found);
    if (!status) {
        found->uses++;
        *device = found;
    }
    return status;
}

kiln_status kiln_device_open(const char *name, kiln_device **device)
{
    const DeviceKind *kind;
    int index = 0;
    if (!name || !device)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_device_open: '%s' is null", name ? "device" : "name");
    kiln_status status = parse_name(name, &kind, &index);
    if (status) return status;
    lock_opened();
    status = use_device(kind, index, device);
    unlock_opened();
    return status;
}

void kiln_device_close(kiln_device *device)
{
    if (!device) return;
    lock_opened();
    if (device->uses > 0 && --device->uses == 0) device->kind->close(device);
    unlock_opened();
}

void device_keep(kiln_device *device)
{
    lock_opened();
    if (device) device->uses++;
    unlock_opened();
}

const char *kiln_device_name(const kiln_device *device) { return device ? device->name : "cpu"; }
const char *kiln_device_describe(const kiln_device *device) { return device ? device->description : "host memory"; }
bool device_is_cpu(const kiln_device *device) { return !device || device->kind == &device_kind_cpu; }

int kiln_device_count(const char *kind)
{
    const DeviceKind *const found = kind ? find_kind(kind, strlen(kind)) : NULL;
    return found ? found->count() : 0;
}

// ---- memory

static const DeviceKind *kind_of(const kiln_device *device) { return device ? device->kind : &device_kind_cpu; }

kiln_status kiln_alloc(kiln_device *device, size_t bytes, void **memory)
{
    if (!memory) return status_fail(KILN_BAD_ARGUMENT, "kiln_alloc: 'memory' is null");
    return kind_of(device)->alloc(device, bytes, memory);
}

void kiln_free(kiln_device *device, void *memory)
{
    if (memory) kind_of(device)->free(device, memory);
}

kiln_status kiln_host_alloc(kiln_device *device, size_t bytes, void **memory)
{
    if (!memory) return status_fail(KILN_BAD_ARGUMENT, "kiln_host_alloc: 'memory' is null");
    return kind_of(device)->alloc_host(device, bytes, memory);
}

void kiln_host_free(kiln_device *device, void *memory)
{
    if (memory) kind_of(device)->free_host(device, memory);
}

static kiln_status check_copy(const char *function, const void *memory, const void *host, size_t bytes)
{
    if (bytes && (!memory || !host))
        return status_fail(KILN_BAD_ARGUMENT, "%s: '%s' is null", function, memory ? "host" : "memory");
    return KILN_OK;
}

kiln_status kiln_upload(kiln_device *device, void *memory, const void *host, size_t bytes)
{
    const kiln_status status = check_copy("kiln_upload", memory, host, bytes);
    return status || !bytes ? status : kind_of(device)->upload(device, memory, host, bytes);
}

kiln_status kiln_download(kiln_device *device, void *host, const void *memory, size_t bytes)
{
    const kiln_status status = check_copy("kiln_download", memory, host, bytes);
    return status || !bytes ? status : kind_of(device)->download(device, host, memory, bytes);
}

// ---- streams and events

static kiln_status new_stream(const char *function, kiln_device *device, kiln_stream **stream, kiln_stream **made)
{
    if (!device || !stream)
        return status_fail(KILN_BAD_ARGUMENT, "%s: '%s' is null", function, device ? "stream" : "device");
    *made = memory_alloc(sizeof **made);
    if (!*made) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a stream");
    (*made)->device = device;
    return KILN_OK;
}

kiln_status kiln_stream_open(kiln_device *device, kiln_stream **stream)
{
    kiln_stream *made = NULL;
    kiln_status status = new_stream("kiln_stream_open", device, stream, &made);
    if (!status && (status = device->kind->stream_open(made)) == KILN_OK) *stream = made;
    else memory_free(made);
    return status;
}

kiln_status kiln_stream_wrap(kiln_device *device, void *native, kiln_stream **stream)
{
    kiln_stream *made = NULL;
    const kiln_status status = new_stream("kiln_stream_wrap", device, stream, &made);
    if (!status) {
        made->native = native;
        made->borrowed = true;
        *stream = made;
    }
    return status;
}

void kiln_stream_close(kiln_stream *stream)
{
    if (stream && !stream->borrowed) stream->device->kind->stream_close(stream);
    memory_free(stream);
}

kiln_status kiln_stream_wait(kiln_device *device, kiln_stream *stream)
{
    if (stream && device && stream->device != device)
        return status_fail(KILN_BAD_DEVICE, "kiln_stream_wait: the stream is of %s, not of %s", stream->device->name,
                           device->name);
    return kind_of(stream ? stream->device : device)->stream_wait(stream ? stream->device : device, stream);
}

kiln_status kiln_event_open(kiln_device *device, kiln_event **event)
{
    if (!device || !event)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_event_open: '%s' is null", device ? "event" : "device");
    kiln_event *const made = memory_alloc(sizeof *made);
    if (!made) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for an event");
    made->device = device;
    const kiln_status status = device->kind->event_open(made);
    if (status) memory_free(made);
    else *event = made;
    return status;
}

void kiln_event_close(kiln_event *event)
{
    if (event) event->device->kind->event_close(event);
    memory_free(event);
}

kiln_status kiln_event_record(kiln_event *event, kiln_stream *stream)
{
    if (!event) return status_fail(KILN_BAD_ARGUMENT, "kiln_event_record: 'event' is null");
    if (stream && stream->device != event->device)
        return status_fail(KILN_BAD_DEVICE, "kiln_event_record: the event is of %s, the stream of %s",
                           event->device->name, stream->device->name);
    const kiln_status status = event->device->kind->event_record(event, stream);
    event->recorded |= status == KILN_OK;
    return status;
}

kiln_status kiln_event_wait(kiln_event *event)
{
    if (!event) return status_fail(KILN_BAD_ARGUMENT, "kiln_event_wait: 'event' is null");
    return event->device->kind->event_wait(event);
}

kiln_status kiln_event_elapsed(kiln_event *begin, kiln_event *end, double *milliseconds)
{
    if (!begin || !end || !milliseconds)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_event_elapsed: '%s' is null",
                           !begin ? "begin"
                           : !end ? "end"
                                  : "milliseconds");
    if (begin->device != end->device)
        return status_fail(KILN_BAD_DEVICE, "kiln_event_elapsed: the events are of %s and %s", begin->device->name,
                           end->device->name);
    if (!begin->recorded || !end->recorded)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_event_elapsed: '%s' was never recorded",
                           begin->recorded ? "end" : "begin");
    return begin->device->kind->event_elapsed(begin, end, milliseconds);
}
