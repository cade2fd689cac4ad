// SPDX-License-Identifier: MIT
// runtime_test.c - devices, memory, tensors, DLPack, elements and the thread pool.
#include "kiln/kiln.h"
#include "runtime/runtime.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Sanitizers otherwise end the program where malloc would return NULL.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1 die_after_fork=0"; }

static void assert_says(const char *part)
{
    if (!strstr(kiln_error_message(), part)) fail_msg("'%s' does not say '%s'", kiln_error_message(), part);
}

// ---- devices and memory

static void devices_are_found_by_name(void **state)
{
    kiln_device *a, *b;
    assert_int_equal(kiln_device_open("cpu", &a), KILN_OK);
    assert_int_equal(kiln_device_open("cpu", &b), KILN_OK);
    assert_ptr_equal(a, b);
    assert_string_equal(kiln_device_name(a), "cpu");
    assert_true(strlen(kiln_device_describe(a)) > 0);
    assert_int_equal(kiln_device_count("cpu"), 1);
    assert_int_equal(kiln_device_count("abacus"), 0);
    kiln_device_close(a);
    kiln_device_close(b);
    kiln_device_close(NULL);
}

static void wrong_device_names_are_refused(void **state)
{
    static const char *const names[] = { "", "gpu", "cpu:1", "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999", "cpu " };
    kiln_device *device;
    for (int i = 0; i < COUNT(names); i++) assert_int_equal(kiln_device_open(names[i], &device), KILN_NOT_FOUND);
    assert_says("expected cpu, cuda:0");
    assert_int_equal(kiln_device_open(NULL, &device), KILN_BAD_ARGUMENT);
    assert_says("'name' is null");
    assert_int_equal(kiln_device_open("cpu", NULL), KILN_BAD_ARGUMENT);
    if (kiln_device_count("cuda") == 0) {
        assert_int_equal(kiln_device_open("cuda:0", &device), KILN_NOT_FOUND);
        assert_says("CUDA");
    }
}

static void memory_is_aligned_and_copied(void **state)
{
    kiln_device *cpu;
    void *memory;
    char back[100], bytes[100];
    assert_int_equal(kiln_device_open("cpu", &cpu), KILN_OK);
    for (size_t n = 0; n < 70; n += 23) {
        assert_int_equal(kiln_alloc(cpu, n, &memory), KILN_OK);
        assert_int_equal((uintptr_t)memory % 256, 0);
        kiln_free(cpu, memory);
    }
    memset(bytes, 7, sizeof bytes);
    assert_int_equal(kiln_alloc(cpu, sizeof bytes, &memory), KILN_OK);
    assert_int_equal(kiln_upload(cpu, memory, bytes, sizeof bytes), KILN_OK);
    assert_int_equal(kiln_download(cpu, back, memory, sizeof back), KILN_OK);
    assert_memory_equal(back, bytes, sizeof back);
    assert_int_equal(kiln_upload(cpu, NULL, bytes, 1), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_download(cpu, NULL, memory, 1), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_upload(cpu, NULL, NULL, 0), KILN_OK);
    kiln_free(cpu, memory);
    kiln_free(cpu, NULL);
    assert_int_equal(kiln_host_alloc(cpu, sizeof bytes, &memory), KILN_OK);
    assert_int_equal((uintptr_t)memory % 256, 0);
    memcpy(memory, bytes, sizeof bytes);
    kiln_host_free(cpu, memory);
    kiln_host_free(cpu, NULL);
    assert_int_equal(kiln_host_alloc(cpu, 1, NULL), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_host_alloc(cpu, SIZE_MAX, &memory), KILN_OUT_OF_MEMORY);
    assert_int_equal(kiln_alloc(cpu, SIZE_MAX, &memory), KILN_OUT_OF_MEMORY);
    assert_int_equal(kiln_alloc(cpu, SIZE_MAX / 4, &memory), KILN_OUT_OF_MEMORY);
    kiln_device_close(cpu);
}

static void events_measure_time(void **state)
{
    kiln_device *cpu;
    kiln_stream *stream;
    kiln_event *begin, *end;
    double ms = -1;
    assert_int_equal(kiln_device_open("cpu", &cpu), KILN_OK);
    assert_int_equal(kiln_stream_open(cpu, &stream), KILN_OK);
    assert_int_equal(kiln_event_open(cpu, &begin), KILN_OK);
    assert_int_equal(kiln_event_open(cpu, &end), KILN_OK);
    assert_int_equal(kiln_event_elapsed(begin, end, &ms), KILN_BAD_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "kiln_event_elapsed: 'begin' was never recorded"));
    assert_int_equal(kiln_stream_wrap(NULL, NULL, &stream), KILN_BAD_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "kiln_stream_wrap: 'device' is null"));
    assert_int_equal(kiln_event_record(begin, stream), KILN_OK);
    usleep(2000);
    assert_int_equal(kiln_event_record(end, stream), KILN_OK);
    assert_int_equal(kiln_event_wait(end), KILN_OK);
    assert_int_equal(kiln_event_elapsed(begin, end, &ms), KILN_OK);
    assert_true(ms >= 2);
    assert_int_equal(kiln_stream_wait(cpu, stream), KILN_OK);
    assert_int_equal(kiln_stream_wait(cpu, NULL), KILN_OK);
    kiln_event_close(begin);
    kiln_event_close(end);
    kiln_stream_close(stream);
    kiln_device_close(cpu);
}

// ---- tensors

static void tensors_know_their_size(void **state)
{
    const int64_t shape[] = { 3, 5, 7 };
    kiln_tensor t = kiln_tensor_of(NULL, NULL, KILN_I4, 3, shape);
    assert_int_equal(kiln_tensor_bytes(&t), 53); // 105 half bytes
    assert_int_equal(kiln_tensor_bytes(NULL), 0);
    t.rank = 9;
    assert_int_equal(kiln_tensor_bytes(&t), 0);
    t.rank = -1;
    assert_int_equal(kiln_tensor_bytes(&t), 0);
    t.rank = 2, t.shape[0] = t.shape[1] = -4;
    assert_int_equal(kiln_tensor_bytes(&t), 0);
    assert_string_equal(kiln_type_name(KILN_BF16), "bf16");
    assert_int_equal(kiln_type_bits(KILN_U2), 2);
    for (int type = KILN_F64; type <= KILN_BOOL; type++)
        assert_int_equal(type_of_dtype(dtype_of_type((kiln_type)type)), type);
    assert_int_equal(dtype_of_type((kiln_type)0), DTYPE_NONE);
    assert_int_equal(dtype_of_type((kiln_type)99), DTYPE_NONE);
    const kiln_tensor huge = { .type = KILN_F32, .rank = 3, .shape = { INT64_C(1) << 40, INT64_C(1) << 40, 2 } };
    assert_int_equal(tensor_elements(&huge), -1);
    const kiln_tensor none = { .type = KILN_F32, .rank = 3, .shape = { INT64_C(1) << 40, INT64_C(1) << 40, 0 } };
    assert_int_equal(tensor_elements(&none), 0);
}

static void assert_ok(kiln_status status) { assert_int_equal(status, KILN_OK); }

static void assert_fails(kiln_status status, kiln_status expected, const char *part)
{
    assert_int_equal(status, expected);
    assert_says(part);
}

static void a_slice_is_a_part_of_a_tensor(void **state)
{
    static float memory[4][5][6];
    kiln_tensor whole = kiln_tensor_of(NULL, memory, KILN_F32, 3, (int64_t[]){ 4, 5, 6 }), slice;
    assert_ok(kiln_tensor_slice(&whole, 1, 2, 3, &slice));
    assert_ptr_equal(slice.data, &memory[0][2][0]);
    assert_true(slice.has_strides && slice.shape[1] == 3 && slice.shape[0] == 4 && slice.strides[0] == 30 &&
                slice.strides[1] == 6);
    assert_ok(kiln_tensor_slice(&slice, 2, 4, 2, &slice)); // of a slice, into itself
    assert_ptr_equal(slice.data, &memory[0][2][4]);
    assert_true(slice.shape[2] == 2 && slice.strides[1] == 6 && slice.strides[2] == 1);
    assert_ok(kiln_tensor_slice(&whole, 0, 4, 0, &slice)); // nothing, at the end
    assert_int_equal(kiln_tensor_bytes(&slice), 0);
    assert_fails(kiln_tensor_slice(&whole, 0, 2, 3, &slice), KILN_BAD_SHAPE,
                 "3 elements from 2 on do not lie inside dimension 0, which has 4");
    assert_fails(kiln_tensor_slice(&whole, 0, -1, 1, &slice), KILN_BAD_SHAPE, "1 elements from -1 on");
    assert_fails(kiln_tensor_slice(&whole, 0, 1, INT64_MAX, &slice), KILN_BAD_SHAPE, "do not lie inside");
    assert_fails(kiln_tensor_slice(&whole, 3, 0, 1, &slice), KILN_BAD_ARGUMENT, "dimension 3 of a tensor of rank 3");
    assert_fails(kiln_tensor_slice(NULL, 0, 0, 1, &slice), KILN_BAD_ARGUMENT, "'tensor' is null");
    assert_fails(kiln_tensor_slice(&whole, 0, 0, 1, NULL), KILN_BAD_ARGUMENT, "'slice' is null");
    whole.type = KILN_I4;
    assert_ok(kiln_tensor_slice(&whole, 2, 2, 4, &slice));
    assert_ptr_equal(slice.data, (char *)memory + 1);
    assert_fails(kiln_tensor_slice(&whole, 2, 1, 4, &slice), KILN_BAD_ALIGNMENT,
                 "element 1 of dimension 2 begins within a byte");
    whole.type = (kiln_type)99;
    assert_fails(kiln_tensor_slice(&whole, 2, 0, 4, &slice), KILN_BAD_TYPE, "the tensor is of unknown type");
}

static kiln_tensor strided(float *data, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
    return (kiln_tensor){ .data = data,
                          .type = KILN_F32,
                          .rank = 2,
                          .shape = { rows, columns },
                          .strides = { row_stride, column_stride },
                          .has_strides = true };
}

static void overlap_is_seen_and_interleaving_is_not(void **state)
{
    static float memory[1000];
    const kiln_tensor q = strided(memory, 10, 8, 24, 1), k = strided(memory + 8, 10, 8, 24, 1),
                      v = strided(memory + 16, 10, 8, 24, 1);
    assert_false(tensors_overlap(&q, &k));
    assert_false(tensors_overlap(&k, &q));
    assert_false(tensors_overlap(&q, &v));
    const kiln_tensor wide = strided(memory + 7, 10, 9, 24, 1);
    assert_true(tensors_overlap(&q, &wide));
    assert_true(tensors_overlap(&wide, &k));
    const kiln_tensor wraps = strided(memory + 16, 9, 9, 24, 1); // its last column is q's next row
    assert_true(tensors_overlap(&q, &wraps));
    const kiln_tensor a = strided(memory, 10, 10, 10, 1), b = strided(memory + 100, 10, 10, 10, 1);
    assert_false(tensors_overlap(&a, &b));
    const kiln_tensor c = strided(memory + 99, 10, 10, 10, 1);
    assert_true(tensors_overlap(&a, &c));
    const kiln_tensor back = strided(memory + 90, 10, 10, -10, 1);
    assert_true(tensors_overlap(&a, &back));
    const kiln_tensor empty = strided(memory, 0, 10, 10, 1);
    assert_false(tensors_overlap(&a, &empty));
}

// ---- DLPack

typedef struct Managed { // as the specification lays it out
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void *context;
    void (*deleter)(struct Managed *);
} Managed;

static void dlpack_there_and_back(void **state)
{
    static float data[24];
    for (int type = KILN_F64; type <= KILN_BOOL; type++) {
        const kiln_tensor t = { .data = data, .type = (kiln_type)type, .rank = 3, .shape = { 2, 3, 1 } };
        kiln_tensor back;
        void *managed = NULL;
        if (type == KILN_TF32) {
            assert_int_equal(kiln_tensor_to_dlpack(&t, &managed), KILN_BAD_TYPE);
            continue;
        }
        assert_int_equal(kiln_tensor_to_dlpack(&t, &managed), KILN_OK);
        const Managed *const m = managed;
        assert_ptr_equal(m->data, data);
        assert_int_equal(m->device_type, 1);
        assert_int_equal(m->ndim, 3);
        assert_int_equal(m->strides[0], 3);
        assert_int_equal(kiln_tensor_from_dlpack(managed, &back), KILN_OK);
        assert_int_equal(back.type, type);
        assert_int_equal(back.shape[1], 3);
        assert_true(back.has_strides);
        m->deleter(managed);
    }
}

static void dlpack_offsets_and_what_it_cannot_carry(void **state)
{
    static char data[64];
    int64_t shape[] = { 4 };
    Managed m = {
        .data = data, .device_type = 1, .ndim = 1, .code = 2, .bits = 32, .lanes = 1, .shape = shape, .byte_offset = 16
    };
    kiln_tensor t;
    assert_int_equal(kiln_tensor_from_dlpack(&m, &t), KILN_OK);
    assert_ptr_equal(t.data, data + 16);
    assert_false(t.has_strides);
    m.lanes = 4;
    assert_int_equal(kiln_tensor_from_dlpack(&m, &t), KILN_BAD_TYPE);
    m.lanes = 1, m.ndim = 9;
    assert_int_equal(kiln_tensor_from_dlpack(&m, &t), KILN_BAD_SHAPE);
    m.ndim = 1, m.device_type = 7;
    assert_int_equal(kiln_tensor_from_dlpack(&m, &t), KILN_BAD_DEVICE);
    assert_int_equal(kiln_tensor_from_dlpack(NULL, &t), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_tensor_from_dlpack(&m, NULL), KILN_BAD_ARGUMENT);
}

// An object is a Managed, whose first fields are a DLTensor.
static int tensor_of_object(void *object, void *tensor)
{
    if (!object) return -1;
    memcpy(tensor, object, offsetof(Managed, context));
    return 0;
}
static void *item_of(void *objects, intptr_t i) { return ((void **)objects)[i]; }
static int types_held;
static void *type_of_object(void *object)
{
    types_held++;
    return ((Managed *)object)->context;
}
static void release_type(void *type)
{
    (void)type;
    types_held--;
}

static void dlpack_objects_agree(void **state)
{
    static _Alignas(16) char data[64];
    int64_t shape[] = { 2, 2 }, strides[] = { 2, 1 }, other[] = { 4, 1 };
    Managed a = { .data = data,
                  .device_type = 1,
                  .ndim = 2,
                  .code = 2,
                  .bits = 32,
                  .lanes = 1,
                  .shape = shape,
                  .strides = strides,
                  .context = shape };
    Managed b = a;
    const struct {
        uint32_t version[2];
        void *others[4];
        int (*tensor)(void *, void *);
    } api = { .version = { 1, 3 }, .tensor = tensor_of_object };
    void *(*const item)(void *, intptr_t) = item_of;
    void *(*const type_of)(void *) = type_of_object;
    void (*const release)(void *) = release_type;
    void *at[2], *objects[] = { &a, "option", &b };
    kiln_dlpack_place places[] = { { .address = &at[0] },
                                   { .same = objects[1], .index = 1 },
                                   { .address = &at[1], .index = 2 } };
    kiln_dlpack_places all = { .exchange_api = &api, .places = places, .n = 3 };
    memcpy(&all.item, &item, sizeof item), memcpy(&all.type_of, &type_of, sizeof type_of);
    memcpy(&all.release, &release, sizeof release);
    b.byte_offset = 16;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 1);
    assert_ptr_equal(at[0], data), assert_ptr_equal(at[1], data + 16);
    b.data = data + 16;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 1);
    assert_ptr_equal(at[1], data + 32);
    b.strides = other;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    b.strides = strides, b.code = 0;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    b.code = 2, b.ndim = 9;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    b.ndim = 2, b.context = data; // of another type
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    b.context = shape, b.data = NULL;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    b.data = data, objects[1] = data;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    places[1].same = data;
    assert_int_equal(kiln_dlpack_agree(&all, objects), 1);
    b.data = data + 4; // not a multiple of 16 any more
    assert_int_equal(kiln_dlpack_agree(&all, objects), 0);
    b.data = data;
    objects[2] = NULL;
    assert_int_equal(kiln_dlpack_agree(&all, objects), -1);
    assert_int_equal(types_held, 0);
}

// ---- elements

static void small_floats_come_back_bit_for_bit(void **state)
{
    static const DType types[] = { DTYPE_F16, DTYPE_BF16, DTYPE_E4M3, DTYPE_E5M2, DTYPE_E2M1, DTYPE_E8M0 };
    for (int t = 0; t < COUNT(types); t++)
        for (unsigned word = 0; word < 1u << dtype_bits(types[t]); word++) {
            uint64_t from = word, back = 0;
            const double value = element_get(types[t], &from, 0);
            element_set(types[t], &back, 0, value);
            if (isnan(value)) assert_true(isnan(element_get(types[t], &back, 0)));
            else if (isinf(value) && dtype_bits(types[t]) == 8)
                assert_true(fabs(element_get(types[t], &back, 0)) == 57344); // conversions to fp8 saturate
            else assert_int_equal(back, from);
        }
}

static void conversions_round_and_saturate(void **state)
{
    // clang-format off
    static const struct { DType type; double value, expected; } rows[] = {
        { DTYPE_F16, 65519, 65504 }, { DTYPE_F16, 65520, INFINITY }, { DTYPE_F16, 0x1p-25, 0 }, { DTYPE_F16, 0x1.8p-25, 0x1p-24 },
        { DTYPE_F16, 2049, 2048 }, { DTYPE_F16, 2051, 2052 }, { DTYPE_BF16, 257, 256 }, { DTYPE_BF16, 259, 260 },
        { DTYPE_E4M3, 1000, 448 }, { DTYPE_E4M3, -INFINITY, -448 }, { DTYPE_E5M2, 1e9, 57344 }, { DTYPE_E2M1, 100, 6 },
        { DTYPE_E2M1, 2.5, 2 }, { DTYPE_I8, 300, 127 }, { DTYPE_I8, -300, -128 }, { DTYPE_I8, -1.9, -1 }, { DTYPE_U8, -5, 0 },
        { DTYPE_U8, 256, 255 }, { DTYPE_I4, 9, 7 }, { DTYPE_U2, 9, 3 }, { DTYPE_I32, NAN, 0 }, { DTYPE_BOOL, 0.5, 1 },
        { DTYPE_I64, 1e30, 0x1p63 }, { DTYPE_U64, 1e30, 0x1p64 }, { DTYPE_E8M0, 3, 2 }, { DTYPE_E8M0, 1.5, 2 }, { DTYPE_E8M0, 6, 8 },
        { DTYPE_E8M0, 0, 0x1p-127 }, { DTYPE_E8M0, -3, 0x1p-127 }, { DTYPE_E8M0, INFINITY, 0x1p127 },
    };
    // clang-format on
    for (int i = 0; i < COUNT(rows); i++) {
        uint64_t word = 0;
        element_set(rows[i].type, &word, 0, rows[i].value);
        if (element_get(rows[i].type, &word, 0) != rows[i].expected)
            fail_msg("%s of %g is %g", dtype_name(rows[i].type), rows[i].value, element_get(rows[i].type, &word, 0));
    }
    uint8_t packed[3] = { 0 };
    for (int i = 0; i < 6; i++) element_set_int(DTYPE_I4, packed, i, i - 3);
    for (int i = 0; i < 6; i++) assert_int_equal(element_get_int(DTYPE_I4, packed, i), i - 3);
    assert_int_equal(packed[0], 0xed); // the first in the low bits
}

// ---- threads

typedef struct Counter {
    _Atomic int64_t sum;
    int64_t *seen;
    int depth;
} Counter;

static void count(void *context, int64_t first, int64_t last)
{
    Counter *const c = context;
    for (int64_t i = first; i < last; i++) {
        c->sum += i;
        if (c->seen) c->seen[i]++;
    }
}

static void every_index_runs_once(void **state)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 17, 1000, 12345 };
    for (int threads = 1; threads <= 8; threads *= 2) {
        kiln_set_threads(threads);
        assert_int_equal(threads_count(), threads);
        for (int s = 0; s < COUNT(sizes); s++) {
            int64_t *const seen = calloc((size_t)sizes[s] + 1, sizeof *seen);
            Counter c = { .seen = seen };
            threads_run(sizes[s], count, &c);
            for (int64_t i = 0; i < sizes[s]; i++) assert_int_equal(seen[i], 1);
            assert_int_equal(c.sum, sizes[s] * (sizes[s] - 1) / 2);
            free(seen);
        }
    }
    kiln_set_threads(0);
}

static void nest(void *context, int64_t first, int64_t last)
{
    Counter *const c = context;
    for (int64_t i = first; i < last; i++) {
        Counter inner = { 0 };
        threads_run(50, count, &inner);
        c->sum += inner.sum;
    }
}

static void *launch_often(void *context)
{
    for (int i = 0; i < 200; i++) {
        Counter c = { 0 };
        threads_run(100, count, &c);
        if (c.sum != 4950) return "wrong";
        if (i % 20 == 0) {
            Counter outer = { 0 };
            threads_run(8, nest, &outer);
            if (outer.sum != 8 * 1225) return "wrong when nested";
        }
    }
    return NULL;
}

static void several_threads_launch_and_nest(void **state)
{
    pthread_t threads[6];
    kiln_set_threads(4);
    for (int i = 0; i < COUNT(threads); i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_often, NULL), 0);
    for (int i = 0; i < COUNT(threads); i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        assert_null(problem);
    }
    kiln_set_threads(0);
}

static void a_forked_child_has_threads_of_its_own(void **state)
{
    int status;
    Counter before = { 0 };
    kiln_set_threads(3);
    threads_run(1000, count, &before);
    const pid_t pid = fork();
    if (pid == 0) {
        Counter c = { 0 };
        threads_run(1000, count, &c);
        _exit(c.sum == 499500 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    kiln_set_threads(0);
}

static void statuses_have_names(void **state)
{
    assert_string_equal(kiln_status_name(KILN_OK), "ok");
    assert_string_equal(kiln_status_name(KILN_TRAPPED), "trapped");
    assert_string_equal(kiln_status_name((kiln_status)77), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_found_by_name),
        cmocka_unit_test(wrong_device_names_are_refused),
        cmocka_unit_test(memory_is_aligned_and_copied),
        cmocka_unit_test(events_measure_time),
        cmocka_unit_test(tensors_know_their_size),
        cmocka_unit_test(a_slice_is_a_part_of_a_tensor),
        cmocka_unit_test(overlap_is_seen_and_interleaving_is_not),
        cmocka_unit_test(dlpack_there_and_back),
        cmocka_unit_test(dlpack_offsets_and_what_it_cannot_carry),
        cmocka_unit_test(dlpack_objects_agree),
        cmocka_unit_test(small_floats_come_back_bit_for_bit),
        cmocka_unit_test(conversions_round_and_saturate),
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(several_threads_launch_and_nest),
        cmocka_unit_test(a_forked_child_has_threads_of_its_own),
        cmocka_unit_test(statuses_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
