// SPDX-License-Identifier: MIT
// decode_refusal_test.c - every way to call masked decoding wrongly, each with the message that names the argument; wrong values
// in device memory.
#include "support.h"

enum { R = 4, H = 4, HKV = 2, D = 64, SIZE = 8, PAGES = 3, BLOCKS = R * 2 * PAGES, ROOM = SIZE * PAGES };

typedef struct Step {
    kiln_tensor q, k, v, cache, table, lengths, out, scales, ids, floats, rows;
    Array *outs, *caches, *tables, *length;
    kiln_rotary rotary;
    kiln_masked_decode_args args;
} Step;

// What points into itself: it stays where it is.
static void make_step(Step *s)
{
    *s = (Step){ .outs = ARRAY(KILN_F16, R, H, D),
                 .caches = ARRAY(KILN_F16, BLOCKS, HKV, SIZE, D),
                 .tables = ARRAY(KILN_I32, R, 2, PAGES),
                 .length = ARRAY(KILN_I32, R),
                 .rotary = { .style = KILN_ROTARY_HALVES } };
    Array *const q = ARRAY(KILN_F16, R, H, D), *const k = ARRAY(KILN_F16, R, HKV, D),
                 *const v = ARRAY(KILN_F16, R, HKV, D);
    fill_random(q, -1, 1), fill_random(k, -1, 1), fill_random(v, -1, 1), fill_random(s->caches, -1, 1);
    for (int i = 0; i < BLOCKS; i++) set(s->tables, i, i);
    for (int r = 0; r < R; r++) set(s->length, r, r * 5);
    array_send(s->tables), array_send(s->length);
    s->q = q->tensor, s->k = k->tensor, s->v = v->tensor, s->out = s->outs->tensor;
    s->cache = s->caches->tensor, s->table = s->tables->tensor, s->lengths = s->length->tensor;
    s->scales = ARRAY(KILN_F32, BLOCKS, HKV, SIZE)->tensor;
    s->ids = ARRAY(KILN_I32, R)->tensor;
    s->floats = ARRAY(KILN_F32, H)->tensor;
    s->rows = ARRAY(KILN_F16, H, D)->tensor;
    s->args = (kiln_masked_decode_args){ .q = &s->q,
                                         .k = &s->k,
                                         .v = &s->v,
                                         .cache = &s->cache,
                                         .table = &s->table,
                                         .lengths = &s->lengths,
                                         .out = &s->out,
                                         .rotary = &s->rotary,
                                         .splits = 1 };
    assert_ok(kiln_masked_decode_workspace_size(ops, &s->args, &s->args.workspace_bytes));
    s->args.workspace = bytes_new(s->args.workspace_bytes)->tensor.data;
}

static Step s;

#define RUN kiln_masked_decode(ops, NULL, &s.args)
#define WRONG(change, status, message) REFUSED(RUN, s, change, status, message)

static void pointers_and_tensors(void **state)
{
    size_t bytes = 1;
    make_step(&s);
    assert_fails(kiln_masked_decode(NULL, NULL, &s.args), KILN_BAD_ARGUMENT, "kiln_masked_decode: 'ops' is null");
    assert_fails(kiln_masked_decode(ops, NULL, NULL), KILN_BAD_ARGUMENT, "kiln_masked_decode: 'args' is null");
    assert_fails(kiln_masked_decode_workspace_size(ops, &s.args, NULL), KILN_BAD_ARGUMENT,
                 "kiln_masked_decode_workspace_size: 'bytes' is null");
    REFUSED(kiln_masked_decode_workspace_size(ops, &s.args, &bytes), s, s.args.cache = NULL, KILN_BAD_ARGUMENT,
            "kiln_masked_decode: 'cache' is null");
    assert_int_equal(bytes, 0);
    WRONG(s.args.q = NULL, KILN_BAD_ARGUMENT, "'q' is null");
    WRONG(s.args.k = NULL, KILN_BAD_ARGUMENT, "'k' is null");
    WRONG(s.args.v = NULL, KILN_BAD_ARGUMENT, "'v' is null");
    WRONG(s.args.cache = NULL, KILN_BAD_ARGUMENT, "'cache' is null");
    WRONG(s.args.table = NULL, KILN_BAD_ARGUMENT, "'table' is null");
    WRONG(s.args.lengths = NULL, KILN_BAD_ARGUMENT, "'lengths' is null");
    WRONG(s.args.out = NULL, KILN_BAD_ARGUMENT, "'out' is null");
    WRONG(s.q.rank = 2, KILN_BAD_SHAPE, "'q' has rank 2, expected 3: [R][H][D]");
    WRONG(s.q.rank = 0, KILN_BAD_SHAPE, "'q' has rank 0, expected 3");
    WRONG(s.q.type = KILN_I32, KILN_BAD_TYPE, "'q' is a tensor of i32, expected f32 or f16 or bf16 or i8");
    WRONG(s.k.type = KILN_BF16, KILN_BAD_TYPE, "'k' is a tensor of bf16, expected f16 as 'q'");
    WRONG(s.v.shape[0] = 3, KILN_BAD_SHAPE,
          "dimension 0 of 'v' is 3, expected 4: its shape is [R][HKV][D], and 'q' has R = 4");
    WRONG(s.cache.type = KILN_BF16, KILN_BAD_TYPE, "'cache' is a tensor of bf16, expected f16 or e4m3 or i8");
    WRONG(s.cache.shape[1] = 1, KILN_BAD_SHAPE, "dimension 1 of 'cache' is 1, expected 2");
    WRONG(s.cache.shape[3] = 32, KILN_BAD_SHAPE, "dimension 3 of 'cache' is 32, expected 64");
    WRONG(s.table.shape[1] = 1, KILN_BAD_SHAPE, "dimension 1 of 'table' is 1, expected 2");
    WRONG(s.table.shape[2] = 0, KILN_BAD_SHAPE, "'table' has 0 pages of 8 tokens for each row, expected 1 to");
    WRONG(s.lengths.type = KILN_I64, KILN_BAD_TYPE, "'lengths' is a tensor of i64, expected i32");
    WRONG(s.out.type = KILN_F32, KILN_BAD_TYPE, "'out' is a tensor of f32, expected f16 or e4m3");
    WRONG(s.out.data = s.q.data, KILN_BAD_ARGUMENT, "'q' and 'out' overlap in memory, and 'out' is written");
    WRONG(s.out.data = s.cache.data, KILN_BAD_ARGUMENT, "'cache' and 'out' overlap in memory");
    WRONG(s.cache.data = (char *)s.cache.data + 2, KILN_BAD_ALIGNMENT, "the data of 'cache' (");
    WRONG(s.q.shape[1] = 3, KILN_BAD_SHAPE, "dimension 1 of 'out' is 4, expected 3");
    WRONG((s.q.shape[1] = s.out.shape[1] = 3), KILN_BAD_SHAPE,
          "3 query heads (of 'q') are not a multiple of 2 key heads (of 'cache')");
    WRONG((s.q.shape[1] = s.out.shape[1] = 258, s.out.data = ARRAY(KILN_F16, R, 258, D)->tensor.data,
           s.q.data = ARRAY(KILN_F16, R, 258, D)->tensor.data),
          KILN_UNSUPPORTED, "129 query heads (of 'q') share a key head, expected at most 128 with D = 64");
    WRONG((s.q.shape[2] = s.k.shape[2] = s.v.shape[2] = s.cache.shape[3] = s.out.shape[2] = 24), KILN_UNSUPPORTED,
          "head size D is 24, expected a multiple of 16 up to 256");
    array_unchanged(s.outs, "out");
    array_unchanged(s.caches, "cache");
}

static void options_that_go_together(void **state)
{
    make_step(&s);
    WRONG(s.args.tasks = &s.ids, KILN_BAD_ARGUMENT, "'key_factors' is null, but 'tasks' is not: they go together");
    WRONG(s.args.value_factors = &s.rows, KILN_BAD_ARGUMENT, "'tasks' is null, but 'value_factors' is not");
    WRONG(s.args.sources = &s.ids, KILN_BAD_ARGUMENT, "'prompt_lengths' is null, but 'sources' is not");
    WRONG(s.args.prompt_lengths = &s.ids, KILN_BAD_ARGUMENT, "'sources' is null, but 'prompt_lengths' is not");
    WRONG((s.args.cache2 = &s.cache, s.args.scales = &s.scales), KILN_UNSUPPORTED,
          "'cache2' is not null, expected NULL where there are 'scales'");
    WRONG((s.args.positions = &s.ids, s.args.rotary = NULL), KILN_BAD_ARGUMENT,
          "'rotary' is null, but 'positions' is not");
    WRONG(s.args.positions_after_prefix = true, KILN_BAD_ARGUMENT, "'positions_after_prefix' is true, expected false");
    WRONG(s.args.beams = 2, KILN_BAD_ARGUMENT, "'sources' is null, but 'beams' is 2");
    WRONG(s.args.beams = 3, KILN_BAD_SHAPE, "4 rows (of 'q') are not a multiple of the 3 'beams' of a request");
    WRONG(s.args.beams = -1, KILN_BAD_ARGUMENT, "'beams' is -1, expected 1 to");
    WRONG(s.args.trained_length = 100, KILN_BAD_ARGUMENT,
          "'trained_length' is 100, expected 0: neither 'log_scaling' nor");
    WRONG(s.args.log_scaling = true, KILN_BAD_ARGUMENT, "'trained_length' is 0, expected more than 1");
    WRONG(s.rotary.style = KILN_ROTARY_YARN, KILN_BAD_ARGUMENT, "'trained_length' is 0, expected more than 1");
    WRONG(s.args.type = KILN_I8, KILN_BAD_ARGUMENT, "'type' is i8, expected f32 or f16 or bf16, or 0 for that of 'q'");
    WRONG(s.args.type = KILN_BF16, KILN_BAD_ARGUMENT, "'type' is bf16, but 'q' is a tensor of f16");
    WRONG(s.q.type = KILN_I8, KILN_BAD_ARGUMENT, "'qkv_scales' is null, but 'q' is a tensor of i8");
    WRONG((s.q.type = KILN_I8, s.out.type = KILN_E4M3), KILN_BAD_ARGUMENT,
          "'type' is 0, expected f32 or f16 or bf16: neither");
    WRONG(s.cache.type = KILN_I8, KILN_BAD_ARGUMENT, "'scales' is null, but 'cache' is a tensor of i8");
    WRONG(s.args.scales = &s.scales, KILN_BAD_ARGUMENT, "'scales' is not null, expected NULL with a cache of f16");
    WRONG(s.args.bucket_distance = 30, KILN_BAD_ARGUMENT, "'bucket_bias' is null, but 'bucket_distance' is 30");
    WRONG((s.args.bucket_bias = &s.rows, s.args.bucket_distance = 32), KILN_BAD_ARGUMENT,
          "'bucket_distance' is 32, expected more than half of the 64 buckets");
    WRONG((s.rows.shape[1] = 3, s.args.bucket_bias = &s.rows), KILN_BAD_SHAPE,
          "dimension 1 of 'bucket_bias' is 3, expected at least 4");
    array_unchanged(s.outs, "out");
}

static void optional_tensors(void **state)
{
    make_step(&s);
    WRONG(s.args.q_bias = &s.floats, KILN_BAD_TYPE, "'q_bias' is a tensor of f32, expected f16");
    WRONG(s.args.k_bias = &s.rows, KILN_BAD_SHAPE, "dimension 0 of 'k_bias' is 4, expected 2: its shape is [HKV][D]");
    WRONG(s.args.v_bias = &s.rows, KILN_BAD_SHAPE, "dimension 0 of 'v_bias' is 4, expected 2");
    WRONG(s.args.qkv_scales = &s.floats, KILN_BAD_SHAPE, "dimension 0 of 'qkv_scales' is 4, expected 3");
    WRONG((s.args.tasks = &s.floats, s.args.key_factors = s.args.value_factors = &s.rows), KILN_BAD_TYPE,
          "'tasks' is a tensor of f32, expected i32");
    WRONG((s.args.tasks = &s.ids, s.args.key_factors = s.args.value_factors = &s.rows), KILN_BAD_SHAPE,
          "'key_factors' has rank 2, expected 3: [tasks][HKV][D]");
    WRONG(s.args.positions = &s.ids, KILN_BAD_SHAPE, "'positions' has rank 1, expected 2: [R][components]");
    WRONG(s.args.prefix_lengths = &s.floats, KILN_BAD_TYPE, "'prefix_lengths' is a tensor of f32, expected i32");
    WRONG(s.args.slopes = &s.rows, KILN_BAD_TYPE, "'slopes' is a tensor of f16, expected f32");
    WRONG(s.args.bias = &s.rows, KILN_BAD_SHAPE, "'bias' has rank 2, expected 3: [H][L][L]");
    WRONG(s.args.finished = &s.ids, KILN_BAD_TYPE, "'finished' is a tensor of i32, expected bool");
    WRONG((s.args.sources = s.args.prompt_lengths = &s.ids), KILN_BAD_SHAPE,
          "'sources' has rank 1, expected 2: [R][positions]");
    WRONG(s.args.out_scale = &s.floats, KILN_BAD_SHAPE, "dimension 0 of 'out_scale' is 4, expected 1");
    WRONG(s.args.sinks = &s.rows, KILN_BAD_TYPE, "'sinks' is a tensor of f16, expected f32");
    WRONG(s.args.cache2 = &s.rows, KILN_BAD_SHAPE, "'cache2' has rank 2, expected 4");
    WRONG((s.cache.type = KILN_I8, s.args.scales = &s.floats), KILN_BAD_SHAPE, "'scales' has rank 1, expected 3");
    WRONG(s.args.ring = ROOM + 1, KILN_BAD_ARGUMENT, "'ring' is 25, expected 1 to 24, the places of the table's pages");
    WRONG(s.args.ring = -1, KILN_BAD_ARGUMENT, "'ring' is -1");
    WRONG(s.args.max_length = -1, KILN_BAD_ARGUMENT, "'max_length' is -1");
    WRONG(s.args.splits = -1, KILN_BAD_ARGUMENT, "'splits' is -1, expected 1 to 1024");
    WRONG(s.args.splits = 1025, KILN_BAD_ARGUMENT, "'splits' is 1025, expected 1 to 1024");
    WRONG(s.args.scale = &(double){ -1 }, KILN_BAD_ARGUMENT,
          "'scale' is -1, expected a positive number that f32 holds; left out it is 0.125");
    WRONG(s.args.scale = &(double){ NAN }, KILN_BAD_ARGUMENT, "'scale' is nan");
    array_unchanged(s.outs, "out");
}

static void rotary_embeddings(void **state)
{
    make_step(&s);
    WRONG(s.rotary.style = 0, KILN_BAD_ARGUMENT, "'style' of the rotary embedding is 0, expected 1 to 7");
    WRONG(s.rotary.style = 8, KILN_BAD_ARGUMENT, "'style' of the rotary embedding is 8, expected 1 to 7");
    WRONG(s.rotary.size = 3, KILN_BAD_ARGUMENT,
          "'size' of the rotary embedding is 3, expected an even number from 2 to D = 64");
    WRONG(s.rotary.size = 66, KILN_BAD_ARGUMENT, "'size' of the rotary embedding is 66");
    WRONG(s.rotary.size = -2, KILN_BAD_ARGUMENT, "'size' of the rotary embedding is -2");
    WRONG((s.rotary.style = KILN_ROTARY_QWEN_NTK, s.rotary.size = 2, s.args.trained_length = 9), KILN_BAD_ARGUMENT,
          "expected an even number from 4 to D");
    WRONG(s.rotary.base = 1, KILN_BAD_ARGUMENT,
          "'base' of the rotary embedding is 1, expected more than 1, or 0 for 10000");
    WRONG(s.rotary.base = NAN, KILN_BAD_ARGUMENT, "'base' of the rotary embedding is nan");
    WRONG(s.rotary.scale = -1, KILN_BAD_ARGUMENT, "'scale' of the rotary embedding is -1, expected a positive number");
    WRONG((s.rotary.style = KILN_ROTARY_INTERLEAVED, s.rotary.scale = 2), KILN_BAD_ARGUMENT,
          "'scale' of the rotary embedding is 2, expected 0: this style has none");
    WRONG(s.rotary.low = 1, KILN_BAD_ARGUMENT, "'low' of the rotary embedding is 1, expected 0: only YaRN and Llama 3");
    WRONG(s.rotary.high = 1, KILN_BAD_ARGUMENT, "'high' of the rotary embedding is 1, expected 0");
    WRONG(s.rotary.extrapolation = 1, KILN_BAD_ARGUMENT, "'extrapolation' of the rotary embedding is 1, expected 0");
    WRONG(s.rotary.magnitude = -1, KILN_BAD_ARGUMENT, "'magnitude' of the rotary embedding is -1, expected a positive");
    WRONG(s.rotary.offset = 16, KILN_BAD_ARGUMENT,
          "'offset' of the rotary embedding is 16, expected 0: only YaRN has one");
    s.rotary.style = KILN_ROTARY_YARN;
    s.args.trained_length = 100;
    WRONG((s.rotary.size = 32, s.rotary.offset = 33), KILN_BAD_ARGUMENT,
          "'offset' of the rotary embedding is 33, expected 0 to 32");
    WRONG(s.rotary.offset = -1, KILN_BAD_ARGUMENT, "'offset' of the rotary embedding is -1");
    WRONG(s.rotary.low = 40, KILN_BAD_ARGUMENT, "'high' of the rotary embedding is 32, expected more than 'low'");
    WRONG(s.rotary.low = -1, KILN_BAD_ARGUMENT, "'low' of the rotary embedding is -1, expected a positive number");
    WRONG(s.rotary.extrapolation = 2, KILN_BAD_ARGUMENT,
          "'extrapolation' of the rotary embedding is 2, expected more than 0 and at most 1");
    array_unchanged(s.outs, "out");
}

static void cross_attention(void **state)
{
    make_step(&s);
    s.args.cross = true;
    WRONG(s.args.v = NULL, KILN_BAD_ARGUMENT, "'k' is not null, expected NULL in cross attention");
    WRONG(s.args.k = NULL, KILN_BAD_ARGUMENT, "'v' is not null, expected NULL in cross attention");
    s.args.k = s.args.v = NULL;
    WRONG(s.args.k_bias = &s.rows, KILN_BAD_ARGUMENT, "'k_bias' is not null, expected NULL in cross attention");
    WRONG(s.args.slopes = &s.floats, KILN_BAD_ARGUMENT, "'slopes' is not null, expected NULL in cross attention");
    WRONG(s.args.prefix_lengths = &s.ids, KILN_BAD_ARGUMENT, "'prefix_lengths' is not null");
    WRONG(s.args.ring = 8, KILN_BAD_ARGUMENT, "'ring' is 8, expected 0: cross attention has no ring");
    array_unchanged(s.outs, "out");
}

static void workspaces(void **state)
{
    size_t bytes;
    make_step(&s);
    s.table.shape[2] = 8 * PAGES, s.table.data = ARRAY(KILN_I32, R, 2, 8 * PAGES)->tensor.data;
    s.args.splits = 3;
    assert_ok(kiln_masked_decode_workspace_size(ops, &s.args, &bytes));
    assert_true(bytes >= 3 * R * H * D * sizeof(float));
    Array *const memory = bytes_new(bytes + 256);
    WRONG(s.args.splits = 3, KILN_BAD_ARGUMENT, "needs a workspace of");
    s.args.workspace = memory->tensor.data, s.args.workspace_bytes = bytes;
    WRONG(s.args.workspace_bytes--, KILN_BAD_ARGUMENT, "needs a workspace of");
    WRONG(s.args.workspace = NULL, KILN_BAD_ARGUMENT, "'workspace' is null, but 'workspace_bytes' is");
    WRONG(s.args.workspace = (char *)memory->tensor.data + 16, KILN_BAD_ALIGNMENT, "is not aligned to 256 bytes");
    array_unchanged(s.outs, "out");
    array_unchanged(memory, "workspace");
}

// On a GPU only with checks, and a trap ends its context.
static void values_in_device_memory(void **state)
{
    if (!on_cpu()) skip_because("on a GPU a wrong value traps and ends the context");
    make_step(&s);
    assert_ok(RUN);
    for (int page = -1; page <= BLOCKS; page += BLOCKS + 1) {
        set(s.tables, 3 * 2 * PAGES + 1, page);
        array_send(s.tables);
        assert_fails(RUN, KILN_TRAPPED, "every used entry of the table is a block of the cache");
    }
    set(s.tables, 3 * 2 * PAGES + 1, 0);
    set(s.tables, 2 * 2 * PAGES + 4,
        99); // row 2 has 10 tokens: the page that it appends a value to, which is read, too
    array_send(s.tables);
    assert_fails(RUN, KILN_TRAPPED, "every used entry of the table is a block of the cache");
    set(s.tables, 2 * 2 * PAGES + 4, 0);
    set(s.tables, 0, 99); // row 0 has none
    array_send(s.tables);
    assert_fails(RUN, KILN_TRAPPED, "the entry that a token is appended to is a block of the cache");
    set(s.tables, 0, 0);
    array_send(s.tables);
    s.args.max_length = 14;
    assert_fails(RUN, KILN_TRAPPED, "no row has more tokens than 'max_length'");
    s.args.max_length = 15;
    assert_ok(RUN);
    set(s.length, 1, -1);
    array_send(s.length);
    assert_fails(RUN, KILN_TRAPPED, "no length is negative");
}

static void values_of_beams_and_tasks(void **state)
{
    if (!on_cpu()) skip_because("on a GPU a wrong value traps and ends the context");
    make_step(&s);
    Array *const sources = ARRAY(KILN_I32, R, ROOM), *const prompts = ARRAY(KILN_I32, R),
                 *const tasks = ARRAY(KILN_I32, 2), *const factors = ARRAY(KILN_F16, 3, HKV, D),
                 *const bias = ARRAY(KILN_F16, H, 16, 16);
    fill_random(factors, 0, 1), fill_random(bias, 0, 1);
    for (int i = 0; i < R * ROOM; i++) set(sources, i, i % 2);
    for (int r = 0; r < R; r++) set(prompts, r, 2);
    for (int i = 0; i < 2; i++) set(tasks, i, i + 1);
    array_send(sources), array_send(prompts), array_send(tasks);
    s.args.beams = 2;
    s.args.sources = &sources->tensor, s.args.prompt_lengths = &prompts->tensor;
    s.args.tasks = &tasks->tensor;
    s.args.key_factors = s.args.value_factors = &factors->tensor;
    assert_ok(RUN);
    set(sources, 3 * ROOM, 2); // of the prompt: not looked at
    array_send(sources);
    assert_ok(RUN);
    set(sources, 3 * ROOM + 14, 2);
    array_send(sources);
    assert_fails(RUN, KILN_TRAPPED, "every source is a beam of its request");
    set(sources, 3 * ROOM + 14, 1);
    set(tasks, 1, 3);
    array_send(sources), array_send(tasks);
    assert_fails(RUN, KILN_TRAPPED, "every task is one of the factors'");
    set(tasks, 1, 2);
    array_send(tasks);
    set(s.length, 3, ROOM);
    array_send(s.length);
    assert_fails(RUN, KILN_TRAPPED, "a row of beams fits the ring");
    set(s.length, 3, 16);
    array_send(s.length);
    assert_ok(RUN);
    s.args.beams = 1;
    s.args.tasks = s.args.key_factors = s.args.value_factors = s.args.sources = s.args.prompt_lengths = NULL;
    s.args.bias = &bias->tensor;
    assert_fails(RUN, KILN_TRAPPED, "every position is one of the bias");
}

// Unchecked, wrong entries give wrong results, but nothing is written beside the cache and the output.
static void wrong_entries_write_nothing_else(void **state)
{
    if (on_cpu() || getenv("KILN_TEST_CHECK"))
        skip_because("wrong values are refused: values_in_device_memory has them");
    make_step(&s);
    static const int wrong[] = { -1, BLOCKS, BLOCKS + 1, INT32_MAX, INT32_MIN, -BLOCKS };
    for (int i = 0; i < 2 * PAGES * (R - 1); i++) set(s.tables, i, wrong[i % 6]);
    set(s.length, 1, INT32_MAX), set(s.length, 2, -7);
    array_send(s.tables), array_send(s.length);
    s.args.rotary = NULL;
    assert_ok(RUN);
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(s.outs), array_fetch(s.caches); // with guards
    array_unchanged(s.tables, "table");
    array_unchanged(s.length, "lengths");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pointers_and_tensors, free_arrays),
        cmocka_unit_test_teardown(options_that_go_together, free_arrays),
        cmocka_unit_test_teardown(optional_tensors, free_arrays),
        cmocka_unit_test_teardown(rotary_embeddings, free_arrays),
        cmocka_unit_test_teardown(cross_attention, free_arrays),
        cmocka_unit_test_teardown(workspaces, free_arrays),
        cmocka_unit_test_teardown(values_in_device_memory, free_arrays),
        cmocka_unit_test_teardown(values_of_beams_and_tasks, free_arrays),
        cmocka_unit_test_teardown(wrong_entries_write_nothing_else, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
