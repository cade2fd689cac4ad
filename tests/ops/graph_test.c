// SPDX-License-Identifier: MIT
// graph_test.c - a decoding step captured in a CUDA graph: a replay plans and decodes for what it finds in device memory then.
#include "support.h"

#include <dlfcn.h>

enum { B = 3, HQ = 4, SIZE = 64, PAGES = 12, EACH = 4, K = KILN_MLA_KEY, V = KILN_MLA_VALUE };

// The driver's own functions: graphs are its user's business, not Kiln's.
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

typedef struct Step {
    Array *q, *cache, *table, *lengths, *keys, *slots, *out, *lse, *plan, *workspace;
} Step;

static Step make_step(void)
{
    seed(5);
    Step s = { .q = ARRAY(KILN_BF16, B, 1, HQ, K),
               .cache = ARRAY(KILN_BF16, PAGES, SIZE, 1, K),
               .table = ARRAY(KILN_I32, B, EACH),
               .lengths = ARRAY(KILN_I32, B),
               .keys = ARRAY(KILN_BF16, B, 1, K),
               .slots = ARRAY(KILN_I32, B, 1),
               .out = ARRAY(KILN_BF16, B, 1, HQ, V),
               .lse = ARRAY(KILN_F32, B, HQ, 1),
               .plan = bytes_new(4096),
               .workspace = bytes_new(1 << 20) };
    fill_random(s.q, -1, 1);
    fill_random(s.cache, -0.3, 0.3);
    fill_random(s.keys, -0.3, 0.3);
    for (int i = 0; i < B * EACH; i++) set(s.table, i, (i * 5 + 1) % PAGES);
    array_send(s.table);
    return s;
}

static void send_lengths(const Step *s, const int *lengths)
{
    for (int b = 0; b < B; b++) set(s->lengths, b, lengths[b]);
    array_send(s->lengths);
}

static void run_step(const Step *s, kiln_stream *stream)
{
    const kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = HQ, .partitions = 5 };
    const kiln_tensor slots = kiln_tensor_of(device, s->slots->tensor.data, KILN_I32, 1, (int64_t[]){ B });
    kiln_mla_plan plan;
    assert_ok(kiln_mla_slots(ops, stream,
                             &(kiln_mla_slots_args){ .table = &s->table->tensor,
                                                     .lengths = &s->lengths->tensor,
                                                     .slots = &s->slots->tensor,
                                                     .page_size = SIZE }));
    assert_ok(kiln_mla_append(
        ops, stream, &(kiln_mla_append_args){ .keys = &s->keys->tensor, .slots = &slots, .cache = &s->cache->tensor }));
    assert_ok(kiln_mla_plan_make(ops, stream,
                                 &(kiln_mla_plan_args){ .shape = &shape,
                                                        .lengths = &s->lengths->tensor,
                                                        .memory = s->plan->tensor.data,
                                                        .memory_bytes = s->plan->bytes },
                                 &plan));
    assert_ok(kiln_mla_decode(ops, stream,
                              &(kiln_mla_decode_args){ .plan = &plan,
                                                       .q = &s->q->tensor,
                                                       .cache = &s->cache->tensor,
                                                       .table = &s->table->tensor,
                                                       .lengths = &s->lengths->tensor,
                                                       .out = &s->out->tensor,
                                                       .lse = &s->lse->tensor,
                                                       .workspace = s->workspace->tensor.data,
                                                       .workspace_bytes = s->workspace->bytes }));
}

static void a_step_is_captured(void **state)
{
    static const int some[B] = { 1, 64, 130 }, others[B] = { 200, 3, 255 };
    void *context, *native, *graph, *exec;
    kiln_stream *stream;
    if (on_cpu()) skip_because("graphs are CUDA's");
    const Driver d = open_driver();
    const Step captured = make_step(), plain = make_step();
    send_lengths(&captured, some);
    run_step(&captured, NULL); // builds what a capture may not build
    assert_ok(kiln_stream_wait(device, NULL));

    assert_int_equal(d.retain(&context, 0), 0);
    assert_int_equal(d.push(context), 0);
    assert_int_equal(d.create(&native, 1), 0);
    assert_ok(kiln_stream_wrap(device, native, &stream));
    assert_int_equal(d.begin(native, 0), 0); // global: anything unsafe in any thread fails the capture
    run_step(&captured, stream);
    assert_int_equal(d.end(native, &graph), 0);
    assert_int_equal(d.instantiate(&exec, graph, 0), 0);

    send_lengths(&plain, others);
    run_step(&plain, NULL);
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(plain.out);
    array_fetch(plain.lse);
    array_send(captured.cache); // as it was before the first step
    send_lengths(&captured, others);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(d.launch(exec, native), 0);
        assert_ok(kiln_stream_wait(device, stream));
        array_fetch(captured.out);
        array_fetch(captured.lse);
        assert_memory_equal(captured.out->host, plain.out->host, plain.out->bytes);
        assert_memory_equal(captured.lse->host, plain.lse->host, plain.lse->bytes);
        memset(captured.out->host, 0xFF, captured.out->bytes);
        array_send(captured.out);
    }
    assert_false(isnan(get(plain.out, 0)));
    kiln_stream_close(stream);
    assert_int_equal(d.destroy(native), 0);
    assert_int_equal(d.pop(&context), 0);
    assert_int_equal(d.release(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(a_step_is_captured, free_arrays) };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
