// SPDX-License-Identifier: MIT
// handle_test.c - the handle of the operators: opened wrongly and rightly, used by several threads from its first call on,
// with every request for memory failing once, and with checks of what stands in device memory.
#include "support.h"
#include "base/memory.h"
#include "ops/call.h"

#include <pthread.h>

static void opening(void **state)
{
    kiln_ops *made = NULL;
    assert_fails(kiln_ops_open(NULL, NULL, &made), KILN_BAD_ARGUMENT, "kiln_ops_open: 'device' is null");
    assert_fails(kiln_ops_open(device, NULL, NULL), KILN_BAD_ARGUMENT, "kiln_ops_open: 'ops' is null");
    if (on_cpu()) {
        assert_fails(kiln_ops_open(device, &(kiln_build_options){ .arch = 90 }, &made), KILN_BAD_ARGUMENT,
                     "options->arch is 90");
        assert_fails(kiln_ops_open(device, &(kiln_build_options){ .isa = "mmx" }, &made), KILN_BAD_ARGUMENT, "mmx");
    }
    assert_null(made);
    kiln_ops_close(NULL);
    assert_ok(kiln_ops_open(device, NULL, &made));
    kiln_ops_close(made); // without a call
}

// ---- building

// A workspace's size function builds all that the call will run.
static void sizes_are_the_warm_up(void **state)
{
    kiln_ops *made;
    kiln_mla_plan plan;
    size_t bytes;
    assert_ok(kiln_ops_open(device, &(kiln_build_options){ .check = true }, &made));
    Array *const offsets = ARRAY(KILN_I32, 2), *const lengths = ARRAY(KILN_I32, 1), *const lse = ARRAY(KILN_F32, 2, 0);
    set(offsets, 0, 0);
    set(offsets, 1, 0);
    set(lengths, 0, 0);
    array_send(offsets);
    array_send(lengths);
    const kiln_tensor *const t = &ARRAY(KILN_BF16, 0, 2, 64)->tensor, *const o = &offsets->tensor;
    kiln_attention_backward_varlen_args b = { .q = t,
                                              .k = t,
                                              .v = t,
                                              .q_offsets = o,
                                              .k_offsets = o,
                                              .out = t,
                                              .lse = &lse->tensor,
                                              .dout = t,
                                              .dq = t,
                                              .dk = t,
                                              .dv = t };
    assert_ok(kiln_attention_backward_varlen_workspace_size(made, &b, &bytes));
    int n = ops_kernel_count(made);
    b.workspace_bytes = bytes;
    b.workspace = bytes ? bytes_new(bytes)->tensor.data : NULL;
    assert_ok(kiln_attention_backward_varlen(made, NULL, &b));
    assert_int_equal(ops_kernel_count(made), n);
    assert_ok(kiln_stream_wait(device, NULL));
    const kiln_mla_shape shape = { .batch = 1, .queries = 1, .query_heads = 1, .partitions = 1 };
    assert_ok(kiln_mla_plan_size(made, &shape, &bytes));
    assert_ok(kiln_mla_plan_make(made, NULL,
                                 &(kiln_mla_plan_args){ .shape = &shape,
                                                        .lengths = &lengths->tensor,
                                                        .memory = bytes_new(bytes)->tensor.data,
                                                        .memory_bytes = bytes },
                                 &plan));
    kiln_mla_decode_args d = { .plan = &plan,
                               .q = &ARRAY(KILN_BF16, 1, 1, 1, 576)->tensor,
                               .cache = &ARRAY(KILN_BF16, 1, 64, 1, 576)->tensor,
                               .table = &ARRAY(KILN_I32, 1, 1)->tensor,
                               .lengths = &lengths->tensor,
                               .out = &ARRAY(KILN_BF16, 1, 1, 1, 512)->tensor,
                               .lse = &ARRAY(KILN_F32, 1, 1, 1)->tensor };
    assert_ok(kiln_mla_decode_workspace_size(made, &d, &bytes));
    n = ops_kernel_count(made);
    d.workspace_bytes = bytes;
    d.workspace = bytes_new(bytes)->tensor.data;
    assert_ok(kiln_mla_decode(made, NULL, &d));
    assert_int_equal(ops_kernel_count(made), n);
    kiln_ops_close(made);
}

// ---- threads

enum { THREADS = 4, CALLS = 6, B = 2, HQ = 3, SIZE = 64, PAGES = 4, K = KILN_MLA_KEY, V = KILN_MLA_VALUE };

typedef struct Worker {
    pthread_t thread;
    kiln_ops *ops;
    Array *q, *cache, *table, *lengths, *out, *lse, *plan, *workspace;
    char problem[256];
} Worker;

// A step: a plan, then decoding; and a packed attention of no rows. The first calls of all threads build the same kernels.
static kiln_status plan_step(Worker *w, kiln_mla_plan *plan)
{
    const kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = HQ, .partitions = 3 };
    return kiln_mla_plan_make(w->ops, NULL,
                              &(kiln_mla_plan_args){ .shape = &shape,
                                                     .lengths = &w->lengths->tensor,
                                                     .memory = w->plan->tensor.data,
                                                     .memory_bytes = w->plan->bytes },
                              plan);
}

static kiln_status decode_planned(Worker *w, const kiln_mla_plan *plan)
{
    size_t bytes;
    kiln_mla_decode_args args = { .plan = plan,
                                  .q = &w->q->tensor,
                                  .cache = &w->cache->tensor,
                                  .table = &w->table->tensor,
                                  .lengths = &w->lengths->tensor,
                                  .out = &w->out->tensor,
                                  .lse = &w->lse->tensor,
                                  .workspace = w->workspace->tensor.data,
                                  .workspace_bytes = w->workspace->bytes };
    const kiln_status status = kiln_mla_decode_workspace_size(w->ops, &args, &bytes);
    return status ? status : kiln_mla_decode(w->ops, NULL, &args);
}

static kiln_status step(Worker *w)
{
    kiln_mla_plan plan;
    const kiln_status status = plan_step(w, &plan);
    return status ? status : decode_planned(w, &plan);
}

// ---- calls like one before

typedef struct Warm {
    kiln_tensor q, k, v, out;
    kiln_attention_decode_args args;
} Warm;

static kiln_status call_warm(Warm *w) { return kiln_attention_decode(ops, NULL, &w->args); }

// Each is like the first, which was right, but for one thing: it is refused in the words that a first call is refused with.
static void warm_calls_are_checked(void **state)
{
    Array *const q = ARRAY(KILN_BF16, 2, 4, 64), *const k = ARRAY(KILN_BF16, 2, 300, 2, 64),
                 *const v = ARRAY(KILN_BF16, 2, 300, 2, 64);
    Array *const out = ARRAY(KILN_BF16, 2, 4, 64), *const other = ARRAY(KILN_BF16, 2, 4, 64),
                 *const memory = bytes_new(1 << 16);
    fill_random(q, -1, 1);
    fill_random(k, -1, 1);
    fill_random(v, -1, 1);
    Warm w = { q->tensor,
               k->tensor,
               v->tensor,
               out->tensor,
               { .splits = 2, .workspace = memory->tensor.data, .workspace_bytes = 1 << 16 } };
    w.args.q = &w.q, w.args.k = &w.k, w.args.v = &w.v, w.args.out = &w.out;
    for (int i = 0; i < 3; i++) assert_ok(call_warm(&w));
    const Warm right = w;
#define WRONG(change, status, message)                                                                                 \
    do {                                                                                                               \
        change;                                                                                                        \
        assert_fails(call_warm(&w), status, message);                                                                  \
        w = right;                                                                                                     \
        assert_ok(call_warm(&w));                                                                                      \
    } while (0)
    WRONG(w.k.data = NULL, KILN_BAD_ARGUMENT, "'k' has no data");
    WRONG(w.v.data = (char *)w.v.data + 2, KILN_BAD_ALIGNMENT, "'v'");
    WRONG(w.out.data = w.q.data, KILN_BAD_ARGUMENT, "'q' and 'out' overlap");
    WRONG(w.args.workspace = w.k.data, KILN_BAD_ARGUMENT, "overlap");
    WRONG(w.args.workspace = NULL, KILN_BAD_ARGUMENT, "'workspace' is null");
    WRONG(w.args.workspace = (char *)w.args.workspace + 16, KILN_BAD_ALIGNMENT, "'workspace'");
    WRONG(w.args.workspace_bytes = 64, KILN_BAD_ARGUMENT, "workspace of");
    WRONG(w.q.shape[1] = 3, KILN_BAD_SHAPE, "dimension 1 of 'out' is 4, expected 3");
    WRONG(w.v.type = KILN_F16, KILN_BAD_TYPE, "'v'");
    WRONG((w.k.has_strides = true, w.k.strides[3] = 2), KILN_BAD_SHAPE, "contiguous");
    WRONG(w.q.rank = 2, KILN_BAD_SHAPE, "'q' has rank 2");
    WRONG(w.args.splits = -1, KILN_BAD_ARGUMENT, "'splits' is -1");
    WRONG(w.args.scale = &(double){ -1 }, KILN_BAD_ARGUMENT, "'scale' is -1");
    WRONG(w.args.q = NULL, KILN_BAD_ARGUMENT, "'q' is null");
#undef WRONG
    // Another address, another scale, another number of shares: what is kept serves the first, and not the others.
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    w.out = other->tensor;
    assert_ok(call_warm(&w));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(other);
    for (int64_t i = 0; i < count(out); i++) assert_true(get(out, i) == get(other, i));
    w.args.scale = &(double){ 3 };
    assert_ok(call_warm(&w));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(other);
    int same = 0;
    for (int64_t i = 0; i < count(out); i++) same += get(out, i) == get(other, i);
    assert_true(same < count(out) / 2);
}

static void *work(void *context)
{
    Worker *const w = context;
    for (int i = 0; i < CALLS; i++)
        if (step(w)) snprintf(w->problem, sizeof w->problem, "%.250s", kiln_error_message());
    return NULL;
}

static Worker make_worker(kiln_ops *of, int number)
{
    seed((unsigned)number);
    Worker w = { .ops = of,
                 .q = ARRAY(KILN_BF16, B, 1, HQ, K),
                 .cache = ARRAY(KILN_BF16, PAGES, SIZE, 1, K),
                 .table = ARRAY(KILN_I32, B, 2),
                 .lengths = ARRAY(KILN_I32, B),
                 .out = ARRAY(KILN_BF16, B, 1, HQ, V),
                 .lse = ARRAY(KILN_F32, B, HQ, 1),
                 .plan = bytes_new(4096),
                 .workspace = bytes_new(1 << 20) };
    fill_random(w.q, -1, 1);
    fill_random(w.cache, -0.3, 0.3);
    for (int i = 0; i < B * 2; i++) set(w.table, i, i);
    for (int b = 0; b < B; b++) set(w.lengths, b, 30 + 70 * b);
    array_send(w.table);
    array_send(w.lengths);
    return w;
}

static void several_threads(void **state)
{
    static Worker workers[THREADS];
    kiln_ops *shared;
    assert_ok(kiln_ops_open(device, NULL, &shared));
    for (int i = 0; i < THREADS; i++) workers[i] = make_worker(shared, 1); // all compute the same
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    assert_ok(kiln_stream_wait(device, NULL));
    for (int i = 0; i < THREADS; i++) {
        if (workers[i].problem[0]) fail_msg("%s", workers[i].problem);
        array_fetch(workers[i].out);
        array_fetch(workers[i].workspace);
        array_fetch(workers[i].plan);
        assert_memory_equal(workers[i].out->host, workers[0].out->host, workers[0].out->bytes);
    }
    assert_false(isnan(get(workers[0].out, 0)));
    kiln_ops_close(shared);
}

// ---- memory that runs out

static Worker failing;

// A handle from its opening over its first calls to its end.
static kiln_status whole_life(void)
{
    kiln_ops *made = NULL;
    kiln_status status = kiln_ops_open(device, &(kiln_build_options){ .isa = on_cpu() ? "portable" : NULL }, &made);
    failing.ops = made;
    if (!status) status = step(&failing);
    kiln_ops_close(made);
    return status;
}

static void memory_runs_out(void **state)
{
    failing = make_worker(NULL, 2);
    kiln_set_threads(1); // other threads keep their scratch, which is no leak
    assert_ok(whole_life());
    const long before = memory_live_blocks();
    for (int n = 0;; n += n < 40 ? 1 : 7) { // each of the handle's own requests, and every seventh of the compiler's
        memory_fail_after(n);
        const kiln_status status = whole_life();
        memory_fail_after(-1);
        if (memory_live_blocks() != before)
            fail_msg("request %d failed and %ld blocks were left", n, memory_live_blocks() - before);
        if (status == KILN_OK) break;
        if (status != KILN_OUT_OF_MEMORY)
            fail_msg("request %d failed and the call said %s: %s", n, kiln_status_name(status), kiln_error_message());
    }
    kiln_set_threads(0);
}

// ---- checks

static void values_are_looked_at(bool check)
{
    kiln_ops *checked;
    assert_ok(kiln_ops_open(device, &(kiln_build_options){ .check = check }, &checked));
    Worker w = make_worker(checked, 3);
    assert_ok(step(&w));
    array_fetch(w.out);
    assert_false(isnan(get(w.out, 0)));

    set(w.lengths, 1, 2 * SIZE + 1);
    array_send(w.lengths);
    assert_fails(step(&w), KILN_TRAPPED, "no length is longer than its row of the table");
    set(w.lengths, 1, -1);
    array_send(w.lengths);
    assert_fails(step(&w), KILN_TRAPPED, "no length is negative");
    set(w.lengths, 1, 100);
    array_send(w.lengths);
    for (int page = -1; page <= PAGES; page += PAGES + 1) {
        set(w.table, 3, page);
        array_send(w.table);
        assert_fails(step(&w), KILN_TRAPPED, "every used entry of the table is a page of the cache");
    }
    set(w.lengths, 1, 10); // then that entry is not used
    array_send(w.lengths);
    assert_ok(step(&w));

    kiln_mla_plan plan; // of an earlier step, whose last request had a block less
    assert_ok(plan_step(&w, &plan));
    set(w.table, 3, 0);
    array_send(w.table);
    set(w.lengths, B - 1, 2 * SIZE);
    array_send(w.lengths);
    assert_fails(decode_planned(&w, &plan), KILN_TRAPPED, "the plan was made for these lengths");
    assert_ok(plan_step(&w, &plan));
    set(w.lengths, B - 1, 10);
    array_send(w.lengths);
    assert_fails(decode_planned(&w, &plan), KILN_TRAPPED, "the plan was made for these lengths");
    assert_ok(step(&w));

    Array *const q = ARRAY(KILN_BF16, 8, 2, 16), *const out = ARRAY(KILN_BF16, 8, 2, 16),
                 *const good = ARRAY(KILN_I32, 3), *const bad = ARRAY(KILN_I32, 3);
    // clang-format off
    static const struct { int at[3]; int longest; const char *message; } wrong[] = {
        { { 1, 4, 8 }, 8, "offsets begin at 0" },  { { 0, 9, 8 }, 9, "offsets never fall" },
        { { 0, 4, 7 }, 8, "offsets end at the number of rows" }, { { 0, 2, 8 }, 5, "no sequence is longer than the call says" } };
    fill_random(q, -1, 1);
    for (int i = 0; i < 3; i++) set(good, i, 4 * i);
    array_send(good);
    kiln_attention_varlen_args args = { .q = &q->tensor, .k = &q->tensor, .v = &q->tensor, .q_offsets = &good->tensor,
        .k_offsets = &good->tensor, .max_queries = 4, .out = &out->tensor };
    assert_ok(kiln_attention_forward_varlen(checked, NULL, &args));
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 3; i++) set(bad, i, wrong[k].at[i]);
        array_send(bad);
        args.q_offsets = &bad->tensor;
        args.max_queries = wrong[k].longest;
        assert_fails(kiln_attention_forward_varlen(checked, NULL, &args), KILN_TRAPPED, wrong[k].message);
    }
    // clang-format on
    kiln_ops_close(checked);
}

// On a GPU only with checks, and a trap ends its context.
static void values_in_device_memory(void **state)
{
    if (!on_cpu()) skip_because("on a GPU a wrong value traps and ends the context: a_gpu_traps has one");
    values_are_looked_at(true);
    free_arrays(NULL);
    values_are_looked_at(false);
}

// What traps on a GPU is told by the next wait, and ends the context: the last thing that is done here.
static void a_gpu_traps(void **state)
{
    kiln_ops *checked;
    if (on_cpu()) skip_because("needs a GPU, emulated or not");
    assert_ok(kiln_ops_open(device, &(kiln_build_options){ .check = true }, &checked));
    Worker w = make_worker(checked, 3);
    assert_ok(step(&w));
    array_fetch(w.out);
    assert_false(isnan(get(w.out, 0)));
    set(w.table, 3, PAGES);
    array_send(w.table);
    assert_ok(step(&w));
    assert_fails(kiln_stream_wait(device, NULL), KILN_TRAPPED, "every used entry of the table is a page of the cache");
    kiln_ops_close(checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(opening, free_arrays),
        cmocka_unit_test_teardown(sizes_are_the_warm_up, free_arrays),
        cmocka_unit_test_teardown(several_threads, free_arrays),
        cmocka_unit_test_teardown(warm_calls_are_checked, free_arrays),
        cmocka_unit_test_teardown(memory_runs_out, free_arrays),
        cmocka_unit_test_teardown(values_in_device_memory, free_arrays),
        cmocka_unit_test_teardown(a_gpu_traps, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
