// SPDX-License-Identifier: MIT
// refusal_test.c - every way to call an operator wrongly, each with the message that names the argument. Nothing runs: the
// outputs stay as they were.
#include "latent.h"

#include <stdint.h>

enum { B = 2, SQ = 2, HQ = 4, PAGES = 5, SIZE = 64, TABLE = 3, TOPK = 64, K = KILN_MLA_KEY, V = KILN_MLA_VALUE };

static kiln_mla_shape dense_shape = { .batch = B, .queries = SQ, .query_heads = HQ, .key_heads = 1, .partitions = 3 };
static kiln_mla_shape sparse_shape = {
    .batch = B, .queries = SQ, .query_heads = HQ, .key_heads = 1, .topk = TOPK, .partitions = 3
};

static kiln_tensor at(const Array *a) { return a->tensor; }

static void give_strides(kiln_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    memcpy(t->strides, (int64_t[]){ a, b, c, d }, 4 * sizeof(int64_t));
    t->has_strides = true;
}

static void out_is_untouched(Array *out) { array_unchanged(out, "the output of a refused call"); }

// ---- plans

static void shapes_of_plans(void **state)
{
    size_t bytes;
    kiln_mla_shape s = dense_shape;
#define SIZE_OF(o, shape, to) kiln_mla_plan_size(o, shape, to)
    assert_fails(SIZE_OF(NULL, &s, &bytes), KILN_BAD_ARGUMENT, "kiln_mla_plan_size: 'ops' is null");
    assert_fails(SIZE_OF(ops, NULL, &bytes), KILN_BAD_ARGUMENT, "kiln_mla_plan_size: 'shape' is null");
    assert_fails(SIZE_OF(ops, &s, NULL), KILN_BAD_ARGUMENT, "'bytes' is null");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.batch = -1, KILN_BAD_SHAPE, "'batch' of the shape is -1, expected 0 to");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.queries = INT64_MAX, KILN_BAD_SHAPE, "'queries' of the shape is");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.query_heads = 0, KILN_BAD_SHAPE,
            "'query_heads' of the shape is 0, expected 1 to");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.key_heads = 3, KILN_BAD_SHAPE,
            "4 query heads of the shape are not a multiple of its 3 key");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.topk = -64, KILN_BAD_SHAPE, "'topk' of the shape is -64");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.extra_topk = 64, KILN_BAD_SHAPE,
            "'extra_topk' of the shape is 64, but its 'topk' is 0");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, (s.topk = 64, s.key_heads = 2), KILN_BAD_SHAPE,
            "'key_heads' of the shape is 2, expected 1");
    REFUSED(SIZE_OF(ops, &s, &bytes), s, s.partitions = -1, KILN_BAD_SHAPE, "'partitions' of the shape is -1");
    assert_int_equal(bytes, 0); // a failing size function gives 0
    assert_ok(SIZE_OF(ops, &s, &bytes));
    assert_true(bytes >= 3 * 32 + 3 * 4);
#define ROOM_OF(o, shape, to) kiln_mla_workspace_size(o, shape, to)
    assert_fails(ROOM_OF(NULL, &s, &bytes), KILN_BAD_ARGUMENT, "kiln_mla_workspace_size: 'ops' is null");
    assert_fails(ROOM_OF(ops, NULL, &bytes), KILN_BAD_ARGUMENT, "kiln_mla_workspace_size: 'shape' is null");
    REFUSED(ROOM_OF(ops, &s, &bytes), s, s.batch = s.queries = s.query_heads = 1 << 24, KILN_BAD_SHAPE,
            "which is more than memory can hold");
    REFUSED(ROOM_OF(ops, &s, &bytes), s, s.query_heads = 0, KILN_BAD_SHAPE,
            "kiln_mla_workspace_size: 'query_heads' of the shape is 0");
    assert_int_equal(bytes, 0);
    assert_fails(kiln_mla_plan_shape(NULL, &s), KILN_BAD_ARGUMENT, "kiln_mla_plan_shape: 'plan' is null");
    assert_fails(kiln_mla_plan_shape(&(kiln_mla_plan){ 0 }, NULL), KILN_BAD_ARGUMENT, "'shape' is null");
    assert_fails(kiln_mla_plan_shape(&(kiln_mla_plan){ 0 }, &s), KILN_BAD_ARGUMENT,
                 "kiln_mla_plan_shape: 'plan' was not made by kiln_mla_plan_make");
}

// What is sized for a batch serves any smaller one.
static void sizes_serve_smaller_batches(void **state)
{
    size_t plan = 0, workspace = 0;
    kiln_mla_shape s = { .queries = 2, .query_heads = 16 };
    for (s.batch = 0; s.batch < 600; s.batch += 13) {
        const size_t plan_before = plan, workspace_before = workspace;
        assert_ok(kiln_mla_plan_size(ops, &s, &plan));
        assert_ok(kiln_mla_workspace_size(ops, &s, &workspace));
        assert_true(plan >= plan_before && workspace >= workspace_before);
    }
}

static void making_plans(void **state)
{
    kiln_mla_plan plan;
    size_t bytes;
    assert_ok(kiln_mla_plan_size(ops, &dense_shape, &bytes));
    Array *const memory = bytes_new(bytes + 256), *const lengths = ARRAY(KILN_I32, B);
    kiln_tensor l = at(lengths);
    kiln_mla_plan_args a = {
        .shape = &dense_shape, .lengths = &l, .memory = memory->tensor.data, .memory_bytes = bytes
    };
#define MAKE kiln_mla_plan_make(ops, NULL, &a, &plan)
    assert_fails(kiln_mla_plan_make(ops, NULL, &a, NULL), KILN_BAD_ARGUMENT, "kiln_mla_plan_make: 'plan' is null");
    REFUSED(MAKE, a, a.shape = NULL, KILN_BAD_ARGUMENT, "'shape' is null");
    REFUSED(MAKE, a, a.lengths = NULL, KILN_BAD_ARGUMENT, "'lengths' is null");
    REFUSED(MAKE, a, a.memory = NULL, KILN_BAD_ARGUMENT, "'memory' is null");
    REFUSED(MAKE, a, a.memory_bytes = bytes - 1, KILN_BAD_ARGUMENT, "expected");
    REFUSED(MAKE, a, a.memory = (char *)a.memory + 16, KILN_BAD_ALIGNMENT, "is not aligned to 256 bytes");
    REFUSED(MAKE, a, a.topk_lengths = &l, KILN_BAD_ARGUMENT,
            "'topk_lengths' is given, but the shape has no such lists");
    REFUSED_TENSOR(MAKE, l, shape[0] = 3, KILN_BAD_SHAPE,
                   "dimension 0 of 'lengths' is 3, expected 2: its shape is [batch], and 'shape' has batch = 2");
    REFUSED_TENSOR(MAKE, l, type = KILN_I64, KILN_BAD_TYPE, "'lengths' is a tensor of i64, expected i32");
    REFUSED_TENSOR(MAKE, l, data = memory->tensor.data, KILN_BAD_ARGUMENT, "'memory' and 'lengths' overlap");
    a.shape = &sparse_shape;
    REFUSED(MAKE, a, a.extra_topk_lengths = &l, KILN_BAD_ARGUMENT, "'extra_topk_lengths' is given");
    out_is_untouched(memory);
}

// ---- dense decoding

static void dense_decoding(void **state)
{
    Array *const outs = ARRAY(KILN_BF16, B, SQ, HQ, V), *const lengths = ARRAY(KILN_I32, B);
    set(lengths, 0, 0);
    set(lengths, 1, 0);
    array_send(lengths);
    kiln_tensor q = at(ARRAY(KILN_BF16, B, SQ, HQ, K)), cache = at(ARRAY(KILN_BF16, PAGES, SIZE, 1, K)),
                table = at(ARRAY(KILN_I32, B, TABLE)), length = at(lengths), out = at(outs),
                lse = at(ARRAY(KILN_F32, B, HQ, SQ));
    const kiln_mla_shape one_shape = { .batch = 1, .queries = SQ, .query_heads = HQ };
    kiln_tensor first = length;
    first.shape[0] = 1;
    Array *const planned = bytes_new(4096);
    kiln_mla_plan plan = make_plan_in(planned, &dense_shape, &length), sparse = make_plan(&sparse_shape, NULL),
                  one = make_plan(&one_shape, &first);
    kiln_mla_decode_args a = {
        .plan = &plan, .q = &q, .cache = &cache, .table = &table, .lengths = &length, .out = &out, .lse = &lse
    };
    size_t bytes;
    assert_ok(kiln_mla_decode_workspace_size(ops, &a, &bytes));
    assert_true(bytes > 0);
    a.workspace = bytes_new(bytes)->tensor.data;
    a.workspace_bytes = bytes;
#define RUN kiln_mla_decode(ops, NULL, &a)
    assert_ok(RUN);
    assert_ok(kiln_stream_wait(device, NULL));
    memset(outs->host, 0xFF, outs->bytes);
    array_send(outs);

    assert_fails(kiln_mla_decode(NULL, NULL, &a), KILN_BAD_ARGUMENT, "kiln_mla_decode: 'ops' is null");
    assert_fails(kiln_mla_decode(ops, NULL, NULL), KILN_BAD_ARGUMENT, "kiln_mla_decode: 'args' is null");
    REFUSED(RUN, a, a.plan = NULL, KILN_BAD_ARGUMENT, "'plan' is null");
    REFUSED(RUN, a, a.plan = &sparse, KILN_BAD_ARGUMENT, "'plan' is for sparse decoding: its shape has 'topk' = 64");
    REFUSED(RUN, a, a.plan = &(kiln_mla_plan){ .opaque = { 1 } }, KILN_BAD_ARGUMENT, "'plan' was not made by");
    REFUSED(RUN, a, a.q = NULL, KILN_BAD_ARGUMENT, "'q' is null");
    REFUSED(RUN, a, a.cache = NULL, KILN_BAD_ARGUMENT, "'cache' is null");
    REFUSED(RUN, a, a.table = NULL, KILN_BAD_ARGUMENT, "'table' is null");
    REFUSED(RUN, a, a.lengths = NULL, KILN_BAD_ARGUMENT, "'lengths' is null");
    REFUSED(RUN, a, a.out = NULL, KILN_BAD_ARGUMENT, "'out' is null");
    REFUSED(RUN, a, a.scale = &(double){ -1 }, KILN_BAD_ARGUMENT,
            "'scale' is -1, expected a positive number that f32 holds; left out it is 0.0416667");
    REFUSED(RUN, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0, expected a positive number");
    REFUSED(RUN, a, a.scale = &(double){ NAN }, KILN_BAD_ARGUMENT, "'scale' is nan");
    REFUSED(RUN, a, a.scale = &(double){ INFINITY }, KILN_BAD_ARGUMENT, "'scale' is inf");
    REFUSED(RUN, a, a.scale = &(double){ 1e39 }, KILN_BAD_ARGUMENT,
            "'scale' is 1e+39, expected a positive number that f32 holds");
    REFUSED(RUN, a, a.scale = &(double){ 1e-60 }, KILN_BAD_ARGUMENT, "'scale' is 1e-60");
    REFUSED(RUN, a, a.workspace = NULL, KILN_BAD_ARGUMENT, "'workspace' is null, but 'workspace_bytes' is");
    REFUSED(RUN, a, (a.workspace = NULL, a.workspace_bytes = 0), KILN_BAD_ARGUMENT, "needs a workspace of");
    REFUSED(RUN, a, a.workspace_bytes = bytes - 1, KILN_BAD_ARGUMENT, "needs a workspace of");
    REFUSED(RUN, a, a.workspace = (char *)a.workspace + 16, KILN_BAD_ALIGNMENT, "'workspace' (");
    REFUSED(RUN, a, a.workspace = out.data, KILN_BAD_ARGUMENT, "'workspace' and '");

    REFUSED_TENSOR(RUN, q, type = KILN_F32, KILN_BAD_TYPE, "'q' is a tensor of f32, expected f16 or bf16");
    REFUSED_TENSOR(RUN, q, type = (kiln_type)99, KILN_BAD_TYPE, "'q' is a tensor of unknown type");
    REFUSED_TENSOR(RUN, q, type = KILN_F16, KILN_BAD_TYPE, "'cache' is a tensor of bf16, expected f16 as 'q'");
    REFUSED_TENSOR(RUN, q, rank = 3, KILN_BAD_SHAPE, "'q' has rank 3, expected 4: [batch][queries][query_heads][576]");
    REFUSED_TENSOR(RUN, q, shape[3] = 512, KILN_BAD_SHAPE, "dimension 3 of 'q' is 512, expected 576");
    REFUSED_TENSOR(RUN, q, shape[0] = 3, KILN_BAD_SHAPE,
                   "dimension 0 of 'q' is 3, expected 2: its shape is "
                   "[batch][queries][query_heads][576], and 'plan' has batch = 2");
    REFUSED_TENSOR(RUN, q, shape[1] = 1, KILN_BAD_SHAPE, "and 'plan' has queries = 2");
    REFUSED_TENSOR(RUN, q, shape[2] = 8, KILN_BAD_SHAPE, "and 'plan' has query_heads = 4");
    REFUSED_TENSOR(RUN, q, shape[0] = -2, KILN_BAD_SHAPE, "dimension 0 of 'q' is -2");
    REFUSED_TENSOR(RUN, q, data = NULL, KILN_BAD_ARGUMENT,
                   "'q' has no data: its pointer is null and it has 9216 elements");
    REFUSED_TENSOR(RUN, q, data = (char *)q.data + 2, KILN_BAD_ALIGNMENT, "the data of 'q' (");
    REFUSED(RUN, q, give_strides(&q, SQ * HQ * K, HQ * K, K, 2), KILN_BAD_SHAPE,
            "the last dimension of 'q' must be contiguous: it has stride 2");
    REFUSED(RUN, q, give_strides(&q, SQ * HQ * K, HQ * K, K + 4, 1), KILN_BAD_ALIGNMENT,
            "dimension 2 of 'q' has stride 580, which is 1160 bytes, expected a positive multiple of 16");
    REFUSED(RUN, q, give_strides(&q, -K, HQ * K, K, 1), KILN_BAD_ALIGNMENT, "dimension 0 of 'q' has stride -576");
    REFUSED(RUN, q, give_strides(&q, INT64_C(1) << 40, HQ * K, K, 1), KILN_BAD_ALIGNMENT,
            "dimension 0 of 'q' has stride 1099511627776");
    REFUSED(RUN, out, give_strides(&out, SQ * HQ * V, 0, V, 1), KILN_BAD_ALIGNMENT,
            "dimension 1 of 'out' has stride 0, which is 0 bytes, expected a positive");
    REFUSED(RUN, out, give_strides(&out, SQ * HQ * V, (HQ - 1) * V, V, 1), KILN_BAD_SHAPE,
            "'out' is written, but with stride 1536 in dimension 1 its elements overlap");
    REFUSED(RUN, lse, give_strides(&lse, HQ * SQ, 1, HQ, 0), KILN_BAD_SHAPE,
            "'lse' must be contiguous: dimension 2 has stride 4, expected 1");
    REFUSED(RUN, table, give_strides(&table, INT64_MAX / 2, 1, 0, 0), KILN_BAD_SHAPE,
            "dimension 0 of 'table' has stride 4611686018427387903, which leaves the memory");
    REFUSED_TENSOR(RUN, table, data = (char *)table.data + 2, KILN_BAD_ALIGNMENT, "is not aligned to 4 bytes");
    REFUSED_TENSOR(RUN, cache, shape[2] = 2, KILN_BAD_SHAPE, "dimension 2 of 'cache' is 2, expected 1");
    REFUSED_TENSOR(RUN, cache, shape[3] = 656, KILN_BAD_SHAPE, "dimension 3 of 'cache' is 656, expected 576");
    REFUSED_TENSOR(RUN, cache, shape[1] = 48, KILN_UNSUPPORTED,
                   "the page size (dimension 1 of 'cache') is 48, expected 16, 32, 64, 128 or 256");
    REFUSED_TENSOR(RUN, cache, shape[1] = 8, KILN_UNSUPPORTED, "the page size (dimension 1 of 'cache') is 8");
    REFUSED_TENSOR(RUN, cache, shape[0] = INT64_MAX / 600, KILN_BAD_SHAPE,
                   "'cache' has more elements than memory can hold");
    REFUSED_TENSOR(RUN, table, shape[0] = 1, KILN_BAD_SHAPE, "dimension 0 of 'table' is 1, expected 2");
    REFUSED_TENSOR(RUN, table, type = KILN_I64, KILN_BAD_TYPE, "'table' is a tensor of i64, expected i32");
    REFUSED_TENSOR(RUN, table, data = (char *)table.data + 2, KILN_BAD_ALIGNMENT, "the data of 'table' (");
    REFUSED_TENSOR(RUN, length, shape[0] = 1, KILN_BAD_SHAPE, "dimension 0 of 'lengths' is 1, expected 2");
    REFUSED_TENSOR(RUN, length, rank = 0, KILN_BAD_SHAPE, "'lengths' has rank 0, expected 1: [batch]");
    REFUSED(RUN, plan, plan = one, KILN_BAD_SHAPE, "and 'plan' has batch = 1");
    REFUSED_TENSOR(RUN, plan, opaque[1] ^= 1, KILN_BAD_ARGUMENT, "'plan' was not made by");
    REFUSED_TENSOR(RUN, out, shape[3] = K, KILN_BAD_SHAPE, "dimension 3 of 'out' is 576, expected 512");
    REFUSED_TENSOR(RUN, out, type = KILN_F16, KILN_BAD_TYPE, "'out' is a tensor of f16, expected bf16 as 'q'");
    REFUSED_TENSOR(RUN, out, data = q.data, KILN_BAD_ARGUMENT, "'q' and 'out' overlap in memory, and 'out' is written");
    REFUSED_TENSOR(RUN, out, data = cache.data, KILN_BAD_ARGUMENT, "'cache' and 'out' overlap");
    REFUSED_TENSOR(RUN, out, data = planned->tensor.data, KILN_BAD_ARGUMENT, "'plan' and 'out' overlap");
    REFUSED_TENSOR(RUN, lse, type = KILN_BF16, KILN_BAD_TYPE, "'lse' is a tensor of bf16, expected f32");
    REFUSED_TENSOR(RUN, lse, shape[1] = SQ, KILN_BAD_SHAPE, "dimension 1 of 'lse' is 2, expected 4");
    REFUSED_TENSOR(RUN, lse, data = out.data, KILN_BAD_ARGUMENT, "'out' and 'lse' overlap");

    kiln_tensor bytes_cache = at(ARRAY(KILN_U8, PAGES, SIZE, 656)), half = q;
    half.type = KILN_F16;
    a.cache = &bytes_cache;
    REFUSED(RUN, a, a.q = &half, KILN_BAD_TYPE, "'q' is a tensor of f16, expected bf16");
    REFUSED_TENSOR(RUN, bytes_cache, shape[2] = 576, KILN_UNSUPPORTED,
                   "'cache' is not supported: 576 bytes a token (dimension 2)");
    REFUSED_TENSOR(RUN, bytes_cache, shape[2] = 584, KILN_UNSUPPORTED,
                   "'cache' is not supported here: 584 bytes a token (dimension 2), expected 656");
    REFUSED_TENSOR(RUN, bytes_cache, shape[1] = 0, KILN_BAD_SHAPE, "the page size (dimension 1 of 'cache') is 0");
    a.cache = &cache;
    if (!on_cpu())
        REFUSED_TENSOR(RUN, q, device = NULL, KILN_BAD_DEVICE, "'q' is memory of the host, but the operators run on");
    out_is_untouched(outs);
}

static void a_stream_of_another_device(void **state)
{
    kiln_device *other;
    kiln_stream *stream;
    if (on_cpu() || kiln_device_open("cpu", &other)) return; // there is one CPU
    assert_ok(kiln_stream_open(other, &stream));
    kiln_tensor length = at(ARRAY(KILN_I32, B));
    size_t bytes;
    kiln_mla_plan plan;
    assert_ok(kiln_mla_plan_size(ops, &dense_shape, &bytes));
    const kiln_mla_plan_args a = {
        .shape = &dense_shape, .lengths = &length, .memory = bytes_new(bytes)->tensor.data, .memory_bytes = bytes
    };
    assert_fails(kiln_mla_plan_make(ops, stream, &a, &plan), KILN_BAD_DEVICE, "but the stream is of cpu");
    kiln_stream_close(stream);
    kiln_device_close(other);
}

// ---- sparse decoding

static void sparse_decoding(void **state)
{
    Array *const outs = ARRAY(KILN_BF16, B, SQ, HQ, V);
    kiln_tensor q = at(ARRAY(KILN_BF16, B, SQ, HQ, K)), cache = at(ARRAY(KILN_U8, PAGES, SIZE, 656)),
                indices = at(ARRAY(KILN_I32, B, SQ, TOPK)), out = at(outs), lse = at(ARRAY(KILN_F32, B, HQ, SQ)),
                sink = at(ARRAY(KILN_F32, HQ)), lengths = at(ARRAY(KILN_I32, B));
    kiln_mla_plan plan = make_plan(&sparse_shape, NULL), dense = make_plan(&dense_shape, &lengths);
    kiln_mla_shape two_lists = sparse_shape;
    two_lists.extra_topk = TOPK;
    kiln_mla_plan extra = make_plan(&two_lists, NULL);
    kiln_mla_decode_sparse_args a = {
        .plan = &plan, .q = &q, .cache = &cache, .indices = &indices, .out = &out, .lse = &lse
    };
    size_t bytes;
    assert_ok(kiln_mla_decode_sparse_workspace_size(ops, &a, &bytes));
    a.workspace = bytes_new(bytes)->tensor.data;
    a.workspace_bytes = bytes;
#undef RUN
#define RUN kiln_mla_decode_sparse(ops, NULL, &a)
    REFUSED(RUN, a, a.plan = &dense, KILN_BAD_ARGUMENT, "'plan' is for dense decoding: its shape has no 'topk'");
    REFUSED(RUN, a, a.plan = &extra, KILN_BAD_ARGUMENT, "'extra_cache' is null, but 'plan' has extra_topk = 64");
    REFUSED(RUN, a, (a.extra_cache = &cache, a.extra_indices = &indices), KILN_BAD_ARGUMENT,
            "'extra_cache' is given, but 'plan' has extra_topk = 0");
    REFUSED(RUN, a, a.extra_cache = &cache, KILN_BAD_ARGUMENT, "'extra_indices' is null, but 'extra_cache' is given");
    REFUSED(RUN, a, a.extra_indices = &indices, KILN_BAD_ARGUMENT,
            "'extra_cache' is null, but 'extra_indices' is given");
    REFUSED(RUN, a, a.extra_topk_lengths = &lengths, KILN_BAD_ARGUMENT,
            "'extra_cache' is null, but 'extra_topk_lengths' is given");
    REFUSED(RUN, a, a.indices = NULL, KILN_BAD_ARGUMENT, "'indices' is null");
    REFUSED(RUN, a, a.workspace_bytes -= 1, KILN_BAD_ARGUMENT, "needs a workspace of");
    REFUSED(RUN, a, a.scale = &(double){ -0.5 }, KILN_BAD_ARGUMENT, "'scale' is -0.5");
    REFUSED_TENSOR(RUN, q, type = KILN_F16, KILN_BAD_TYPE, "'q' is a tensor of f16, expected bf16");
    REFUSED(RUN, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED_TENSOR(RUN, cache, type = KILN_BF16, KILN_UNSUPPORTED,
                   "the format of 'cache' is not supported here: it is a tensor of bf16, expected e4m3, i8 or u8");
    REFUSED_TENSOR(RUN, cache, shape[2] = 576, KILN_UNSUPPORTED,
                   "the format of 'cache' is not supported: 576 bytes a token (dimension 2)");
    REFUSED(RUN, cache, (cache.rank = 4, cache.shape[2] = 1, cache.shape[3] = 640), KILN_UNSUPPORTED,
            "640 bytes a token (dimension 3)");
    REFUSED(RUN, cache, (cache.rank = 4, cache.shape[2] = 3, cache.shape[3] = 656), KILN_BAD_SHAPE,
            "'cache' has rank 4, expected 3: [pages][page size][656], or 4 with a dimension of 1 before the last one");
    REFUSED(RUN, q, (q.rank = 5, q.shape[3] = 1, q.shape[4] = 512), KILN_BAD_SHAPE, "'q' has rank 5, expected 4");
    REFUSED_TENSOR(RUN, cache, shape[2] = 584, KILN_BAD_SHAPE,
                   "'cache' has keys of 512 values (dimension 2 is 584), but 'q' has keys of 576");
    REFUSED_TENSOR(RUN, q, shape[3] = 640, KILN_UNSUPPORTED,
                   "the key size (dimension 3 of 'q') is 640, expected 576 or 512");
    REFUSED_TENSOR(RUN, cache, shape[1] = 0, KILN_BAD_SHAPE, "the page size of 'cache' (dimension 1) is 0");
    REFUSED_TENSOR(RUN, cache, data = (char *)cache.data + 8, KILN_BAD_ALIGNMENT, "the data of 'cache' (");
    REFUSED_TENSOR(RUN, indices, shape[2] = 128, KILN_BAD_SHAPE, "dimension 2 of 'indices' is 128, expected 64");
    REFUSED_TENSOR(RUN, indices, shape[1] = 1, KILN_BAD_SHAPE, "dimension 1 of 'indices' is 1, expected 2");
    a.sink = &sink;
    REFUSED_TENSOR(RUN, sink, shape[0] = 1, KILN_BAD_SHAPE, "dimension 0 of 'sink' is 1, expected 4");
    a.topk_lengths = &lengths;
    REFUSED_TENSOR(RUN, lengths, type = KILN_F32, KILN_BAD_TYPE, "'topk_lengths' is a tensor of f32, expected i32");
    REFUSED_TENSOR(RUN, out, data = indices.data, KILN_BAD_ARGUMENT, "and 'out' is written");
    out_is_untouched(outs);
}

static void sparse_prefill(void **state)
{
    Array *const outs = ARRAY(KILN_BF16, SQ, HQ, V);
    kiln_tensor q = at(ARRAY(KILN_BF16, SQ, HQ, K)), kv = at(ARRAY(KILN_BF16, 10, K)),
                indices = at(ARRAY(KILN_I32, SQ, TOPK)), out = at(outs), top = at(ARRAY(KILN_F32, SQ, HQ)),
                lse = at(ARRAY(KILN_F32, SQ, HQ));
    kiln_mla_prefill_sparse_args a = {
        .q = &q, .kv = &kv, .indices = &indices, .out = &out, .max_logits = &top, .lse = &lse
    };
#undef RUN
#define RUN kiln_mla_prefill_sparse(ops, NULL, &a)
    REFUSED(RUN, a, a.kv = NULL, KILN_BAD_ARGUMENT, "kiln_mla_prefill_sparse: 'kv' is null");
    REFUSED(RUN, a, a.scale = &(double){ 0 }, KILN_BAD_ARGUMENT, "'scale' is 0");
    REFUSED(RUN, a, a.sink = &q, KILN_BAD_TYPE, "'sink' is a tensor of bf16, expected f32");
    REFUSED_TENSOR(RUN, kv, shape[1] = 512, KILN_BAD_SHAPE,
                   "dimension 1 of 'kv' is 512, expected 576: its shape is [SKV][D], and 'q' has D = 576");
    REFUSED(RUN, kv, (kv.rank = 3, kv.shape[1] = 1, kv.shape[2] = 512), KILN_BAD_SHAPE,
            "dimension 2 of 'kv' is 512, expected 576: its shape is [SKV][1][D], and 'q' has D = 576");
    REFUSED(RUN, q, (q.shape[2] = 128, kv.shape[1] = 128), KILN_UNSUPPORTED,
            "the key size (dimension 2 of 'q') is 128, expected 576 or 512");
    kv.shape[1] = K;
    REFUSED_TENSOR(RUN, indices, shape[0] = 1, KILN_BAD_SHAPE, "dimension 0 of 'indices' is 1, expected 2");
    REFUSED_TENSOR(RUN, out, shape[2] = K, KILN_BAD_SHAPE, "dimension 2 of 'out' is 576, expected 512");
    REFUSED_TENSOR(RUN, lse, data = top.data, KILN_BAD_ARGUMENT, "'max_logits' and 'lse' overlap");
    out_is_untouched(outs);
}

// ---- caches

static void caches(void **state)
{
    Array *const caches16 = ARRAY(KILN_BF16, PAGES, SIZE, 1, K), *const caches8 = ARRAY(KILN_U8, PAGES, SIZE, 656);
    kiln_tensor keys = at(ARRAY(KILN_BF16, 3, 1, K)), rows = at(ARRAY(KILN_BF16, 3, K)), slots = at(ARRAY(KILN_I32, 3)),
                cache = at(caches16), bytes = at(caches8), table = at(ARRAY(KILN_I32, B, TABLE)),
                lengths = at(ARRAY(KILN_I32, B)), places = at(ARRAY(KILN_I32, B, SQ));
    kiln_mla_append_args append = { .keys = &keys, .slots = &slots, .cache = &cache };
    kiln_mla_quantize_args quantize = { .keys = &rows, .slots = &slots, .cache = &bytes };
    kiln_mla_dequantize_args dequantize = { .cache = &bytes, .slots = &slots, .keys = &rows };
    kiln_mla_slots_args find = { .table = &table, .lengths = &lengths, .slots = &places, .page_size = SIZE };
#define APPEND kiln_mla_append(ops, NULL, &append)
#define QUANTIZE kiln_mla_quantize(ops, NULL, &quantize)
#define DEQUANTIZE kiln_mla_dequantize(ops, NULL, &dequantize)
#define FIND kiln_mla_slots(ops, NULL, &find)
    REFUSED(APPEND, append, append.keys = NULL, KILN_BAD_ARGUMENT, "kiln_mla_append: 'keys' is null");
    REFUSED(APPEND, append, append.cache = &bytes, KILN_BAD_TYPE, "'cache' is a tensor of u8, expected bf16 as 'keys'");
    REFUSED_TENSOR(APPEND, slots, shape[0] = 2, KILN_BAD_SHAPE,
                   "dimension 0 of 'slots' is 2, expected 3: its shape is [N], and 'keys' has N = 3");
    REFUSED_TENSOR(APPEND, cache, shape[1] = 0, KILN_BAD_SHAPE, "the page size (dimension 1 of 'cache') is 0");
    REFUSED_TENSOR(APPEND, cache, data = keys.data, KILN_BAD_ARGUMENT, "'keys' and 'cache' overlap");
    REFUSED(QUANTIZE, quantize, quantize.cache = &cache, KILN_UNSUPPORTED,
            "the format of 'cache' is not supported here: it is a tensor of bf16, expected e4m3, i8 or u8");
    REFUSED_TENSOR(QUANTIZE, rows, shape[1] = 512, KILN_BAD_SHAPE,
                   "'cache' has keys of 576 values (dimension 2 is 656), but 'keys' has keys of 512");
    REFUSED(QUANTIZE, rows, (rows.rank = 3, rows.shape[1] = 1, rows.shape[2] = 500), KILN_UNSUPPORTED,
            "the key size (dimension 2 of 'keys') is 500, expected 576 or 512");
    REFUSED_TENSOR(
        QUANTIZE, bytes, shape[2] = 640, KILN_UNSUPPORTED,
        "the format of 'cache' is not supported: 640 bytes a token (dimension 2), expected 656, of keys of 576 values, or 584");
    REFUSED(QUANTIZE, quantize, (quantize.full_scales = quantize.power_scales = true), KILN_BAD_ARGUMENT,
            "'full_scales' and 'power_scales'");
    rows.shape[1] = 512; // the 584-byte format, in memory that has more
    give_strides(&bytes, SIZE * 584, 584, 1, 0);
    bytes.shape[2] = 584;
    REFUSED(QUANTIZE, quantize, quantize.full_scales = true, KILN_BAD_ARGUMENT,
            "'full_scales' is set, but 'cache' has 584 bytes a token");
    REFUSED_TENSOR(QUANTIZE, bytes, strides[0] += 8, KILN_BAD_ALIGNMENT,
                   "dimension 0 of 'cache' has stride 37384, expected a multiple of 16 bytes");
    REFUSED_TENSOR(QUANTIZE, bytes, strides[0] -= 16, KILN_BAD_ALIGNMENT, "of at least the page's 37376");
    REFUSED_TENSOR(QUANTIZE, bytes, strides[1] = 576, KILN_BAD_SHAPE,
                   "dimension 1 of 'cache' has stride 576, expected 584");
    REFUSED_TENSOR(QUANTIZE, bytes, shape[1] = 0, KILN_BAD_SHAPE, "dimension 1 of 'cache' is 0, expected 1 to");
    REFUSED_TENSOR(QUANTIZE, bytes, data = (char *)bytes.data + 8, KILN_BAD_ALIGNMENT, "the data of 'cache' (");
    REFUSED_TENSOR(QUANTIZE, rows, data = bytes.data, KILN_BAD_ARGUMENT, "'keys' and 'cache' overlap");
    rows.shape[1] = K;
    bytes = at(caches8);
    REFUSED_TENSOR(DEQUANTIZE, rows, type = KILN_F16, KILN_BAD_TYPE, "'keys' is a tensor of f16, expected bf16");
    REFUSED_TENSOR(DEQUANTIZE, slots, rank = 2, KILN_BAD_SHAPE, "'slots' has rank 2, expected 1: [N]");
    REFUSED(FIND, find, find.page_size = 0, KILN_BAD_SHAPE, "'page_size' is 0, expected at least 1");
    REFUSED_TENSOR(FIND, places, shape[0] = 1, KILN_BAD_SHAPE, "dimension 0 of 'slots' is 1, expected 2");
    REFUSED_TENSOR(FIND, places, data = table.data, KILN_BAD_ARGUMENT, "'table' and 'slots' overlap");
    out_is_untouched(caches16);
    out_is_untouched(caches8);
}

// ---- attention

static void attention(void **state)
{
    Array *const outs = ARRAY(KILN_BF16, B, 8, HQ, 64);
    kiln_tensor q = at(ARRAY(KILN_BF16, B, 8, HQ, 64)), k = at(ARRAY(KILN_BF16, B, 9, 3, 64)),
                v = at(ARRAY(KILN_BF16, B, 9, 3, 64)), out = at(outs), lse = at(ARRAY(KILN_F32, B, HQ, 8));
    k.shape[2] = v.shape[2] = 2; // with room for the 3 heads below
    kiln_attention_args a = { .q = &q, .k = &k, .v = &v, .out = &out, .lse = &lse };
#undef RUN
#define RUN kiln_attention_forward(ops, NULL, &a)
    REFUSED(RUN, a, a.k = NULL, KILN_BAD_ARGUMENT, "kiln_attention_forward: 'k' is null");
    REFUSED(RUN, a, a.window = -1, KILN_BAD_ARGUMENT, "'window' is -1, expected 0 (none) to");
    REFUSED(RUN, a, a.scale = &(double){ -1 }, KILN_BAD_ARGUMENT, "'scale' is -1");
    REFUSED_TENSOR(RUN, q, type = KILN_I8, KILN_BAD_TYPE, "'q' is a tensor of i8, expected f32 or f16 or bf16");
    REFUSED_TENSOR(RUN, v, type = KILN_F32, KILN_BAD_TYPE, "'v' is a tensor of f32, expected bf16 as 'q'");
    REFUSED_TENSOR(RUN, k, shape[3] = 32, KILN_BAD_SHAPE,
                   "dimension 3 of 'k' is 32, expected 64: its shape is [B][SKV][HKV][D], and 'q' has D = 64");
    REFUSED_TENSOR(RUN, v, shape[1] = 8, KILN_BAD_SHAPE, "dimension 1 of 'v' is 8, expected 9");
    REFUSED(RUN, k, (k.shape[2] = 3, v.shape[2] = 3), KILN_BAD_SHAPE,
            "4 query heads (of 'q') are not a multiple of 3 key heads (of 'k')");
    v.shape[2] = 2;
    REFUSED(RUN, k, (k.shape[2] = 0, v.shape[2] = 0), KILN_BAD_SHAPE, "are not a multiple of 0 key heads");
    v.shape[2] = 2;
    REFUSED(RUN, q, (q.shape[3] = 40, k.shape[3] = 40), KILN_UNSUPPORTED,
            "head size D is 40, expected a multiple of 16 up to 256");
    k.shape[3] = 64;
    REFUSED_TENSOR(RUN, lse, shape[2] = 9, KILN_BAD_SHAPE, "dimension 2 of 'lse' is 9, expected 8");
    REFUSED_TENSOR(RUN, out, data = v.data, KILN_BAD_ARGUMENT, "'v' and 'out' overlap");
    out_is_untouched(outs);
}

static void packed_attention(void **state)
{
    Array *const outs = ARRAY(KILN_BF16, 8, HQ, 64);
    kiln_tensor q = at(ARRAY(KILN_BF16, 8, HQ, 64)), k = at(ARRAY(KILN_BF16, 9, 2, 64)),
                v = at(ARRAY(KILN_BF16, 9, 2, 64)), out = at(outs), q_offsets = at(ARRAY(KILN_I32, B + 1)),
                k_offsets = at(ARRAY(KILN_I32, B + 1));
    kiln_attention_varlen_args a = {
        .q = &q, .k = &k, .v = &v, .q_offsets = &q_offsets, .k_offsets = &k_offsets, .max_queries = 8, .out = &out
    };
#undef RUN
#define RUN kiln_attention_forward_varlen(ops, NULL, &a)
    REFUSED(RUN, a, a.k_offsets = NULL, KILN_BAD_ARGUMENT, "'k_offsets' is null");
    REFUSED(RUN, a, a.max_queries = -1, KILN_BAD_ARGUMENT, "'max_queries' is -1");
    REFUSED_TENSOR(RUN, k_offsets, shape[0] = 2, KILN_BAD_SHAPE,
                   "dimension 0 of 'k_offsets' is 2, expected 3: its shape is [B + 1], and 'q_offsets' has B = 2");
    REFUSED(RUN, q_offsets, q_offsets.shape[0] = 0, KILN_BAD_SHAPE,
            "dimension 0 of 'q_offsets' is 0, expected at least 1");
    REFUSED_TENSOR(RUN, q_offsets, type = KILN_I64, KILN_BAD_TYPE, "'q_offsets' is a tensor of i64, expected i32");
    REFUSED(RUN, k, give_strides(&k, 64, 9 * 64, 2, 0), KILN_BAD_SHAPE,
            "the last dimension of 'k' must be contiguous: it has stride 2");
    kiln_tensor qkv = at(ARRAY(KILN_BF16, 8, HQ, 192)), kv = at(ARRAY(KILN_BF16, 9, 2, 128));
    kiln_attention_qkvpacked_args p = {
        .qkv = &qkv, .head_size = 64, .offsets = &q_offsets, .max_rows = 8, .out = &out
    };
    kiln_attention_kvpacked_args s = {
        .q = &q, .kv = &kv, .q_offsets = &q_offsets, .k_offsets = &k_offsets, .max_queries = 8, .out = &out
    };
#define ALL_PACKED kiln_attention_forward_qkvpacked(ops, NULL, &p)
#define KEYS_PACKED kiln_attention_forward_kvpacked(ops, NULL, &s)
    assert_fails(kiln_attention_forward_qkvpacked(ops, NULL, NULL), KILN_BAD_ARGUMENT,
                 "kiln_attention_forward_qkvpacked: 'args' is null");
    assert_fails(kiln_attention_forward_kvpacked(NULL, NULL, &s), KILN_BAD_ARGUMENT,
                 "kiln_attention_forward_kvpacked: 'ops' is null");
    REFUSED(ALL_PACKED, p, p.qkv = NULL, KILN_BAD_ARGUMENT, "'qkv' is null");
    REFUSED(ALL_PACKED, p, p.offsets = NULL, KILN_BAD_ARGUMENT, "'offsets' is null");
    REFUSED(ALL_PACKED, p, p.max_rows = -1, KILN_BAD_ARGUMENT, "'max_rows' is -1");
    REFUSED_TENSOR(ALL_PACKED, qkv, type = KILN_I8, KILN_BAD_TYPE, "'qkv' is a tensor of i8");
    REFUSED(ALL_PACKED, p, p.head_size = 0, KILN_BAD_ARGUMENT, "'head_size' is 0, expected 1 to 256");
    REFUSED(ALL_PACKED, p, p.head_size = 97, KILN_BAD_SHAPE,
            "dimension 2 of 'qkv' is 192, which has no room for keys of 97 beside");
    REFUSED(ALL_PACKED, p, p.out = &qkv, KILN_BAD_SHAPE, "dimension 2 of 'out' is 192, expected 64");
    REFUSED_TENSOR(ALL_PACKED, qkv, rank = 2, KILN_BAD_SHAPE, "'qkv' has rank 2, expected 3");
    REFUSED_TENSOR(ALL_PACKED, out, data = qkv.data, KILN_BAD_ARGUMENT, "and 'out' overlap in memory");
    REFUSED(KEYS_PACKED, s, s.q = NULL, KILN_BAD_ARGUMENT, "'q' is null");
    REFUSED(KEYS_PACKED, s, s.kv = NULL, KILN_BAD_ARGUMENT, "'kv' is null");
    REFUSED_TENSOR(KEYS_PACKED, q, rank = 4, KILN_BAD_SHAPE, "'q' has rank 4, expected 3: [TQ][H][D]");
    REFUSED_TENSOR(KEYS_PACKED, kv, shape[2] = 60, KILN_BAD_SHAPE,
                   "dimension 2 of 'kv' is 60, which has no room for keys of 64");
    out_is_untouched(outs);
}

static void backward_and_decoding(void **state)
{
    Array *const grads = ARRAY(KILN_BF16, B, 8, HQ, 64), *const outs = ARRAY(KILN_BF16, B, HQ, 64);
    kiln_tensor q = at(ARRAY(KILN_BF16, B, 8, HQ, 64)), k = at(ARRAY(KILN_BF16, B, 9, 2, 64)),
                v = at(ARRAY(KILN_BF16, B, 9, 2, 64)), o = at(ARRAY(KILN_BF16, B, 8, HQ, 64)),
                g = at(ARRAY(KILN_BF16, B, 8, HQ, 64)), lse = at(ARRAY(KILN_F32, B, HQ, 8)), dq = at(grads),
                dk = at(ARRAY(KILN_BF16, B, 9, 2, 64)), dv = at(ARRAY(KILN_BF16, B, 9, 2, 64)),
                one = at(ARRAY(KILN_BF16, B, HQ, 64)), out = at(outs);
    kiln_attention_backward_args a = {
        .q = &q, .k = &k, .v = &v, .out = &o, .lse = &lse, .dout = &g, .dq = &dq, .dk = &dk, .dv = &dv
    };
    kiln_attention_decode_args d = { .q = &one, .k = &k, .v = &v, .out = &out };
#undef RUN
#define RUN kiln_attention_backward(ops, NULL, &a)
#define DECODE kiln_attention_decode(ops, NULL, &d)
    REFUSED(RUN, a, a.dv = NULL, KILN_BAD_ARGUMENT, "kiln_attention_backward: 'dv' is null");
    REFUSED(RUN, a, a.lse = NULL, KILN_BAD_ARGUMENT, "'lse' is null");
    REFUSED_TENSOR(RUN, dk, shape[1] = 8, KILN_BAD_SHAPE, "dimension 1 of 'dk' is 8, expected 9");
    REFUSED_TENSOR(RUN, dq, data = q.data, KILN_BAD_ARGUMENT, "'q' and 'dq' overlap");
    assert_fails(RUN, KILN_BAD_ARGUMENT, "needs a workspace of");
    REFUSED(DECODE, d, d.splits = -1, KILN_BAD_ARGUMENT, "'splits' is -1, expected 1 to 65536");
    REFUSED(DECODE, d, d.mask = &q, KILN_BAD_TYPE, "'mask' is a tensor of bf16, expected u8");
    REFUSED(DECODE, d, d.lengths = &q, KILN_BAD_TYPE, "'lengths' is a tensor of bf16, expected i32");
    REFUSED(DECODE, d, d.lse = &q, KILN_BAD_TYPE, "'lse' is a tensor of bf16, expected f32");
    REFUSED(DECODE, d, d.lse = &lse, KILN_BAD_SHAPE, "'lse' has rank 3, expected 2: [B][H]");
    REFUSED_TENSOR(DECODE, one, shape[1] = 3, KILN_BAD_SHAPE, "dimension 1 of 'out' is 4, expected 3");
    assert_fails(DECODE, KILN_BAD_ARGUMENT, "needs a workspace of");
    kiln_tensor offsets = at(ARRAY(KILN_I32, B + 1)), rows = q, keys = k; // shapes of q and k, packed
    rows.rank = keys.rank = 3;
    memmove(rows.shape, rows.shape + 1, 3 * sizeof(int64_t));
    memmove(keys.shape, keys.shape + 1, 3 * sizeof(int64_t));
    kiln_tensor packed_lse = at(ARRAY(KILN_F32, HQ, 8)), values = keys, d_rows = rows, d_keys = keys, d_values = keys,
                o_rows = rows, g_rows = rows;
    values.data = v.data, d_rows.data = dq.data, d_keys.data = dk.data, d_values.data = dv.data, o_rows.data = o.data,
    g_rows.data = g.data;
    kiln_attention_backward_varlen_args p = { .q = &rows,
                                              .k = &keys,
                                              .v = &values,
                                              .q_offsets = &offsets,
                                              .k_offsets = &offsets,
                                              .max_keys = 9,
                                              .out = &o_rows,
                                              .lse = &packed_lse,
                                              .dout = &g_rows,
                                              .dq = &d_rows,
                                              .dk = &d_keys,
                                              .dv = &d_values };
#define PACKED kiln_attention_backward_varlen(ops, NULL, &p)
    REFUSED(PACKED, p, p.k_offsets = NULL, KILN_BAD_ARGUMENT, "kiln_attention_backward_varlen: 'k_offsets' is null");
    REFUSED(PACKED, p, (p.deterministic = true, p.max_queries = -1), KILN_BAD_ARGUMENT, "'max_queries' is -1");
    REFUSED(PACKED, p, p.max_keys = -1, KILN_BAD_ARGUMENT, "'max_keys' is -1");
    REFUSED_TENSOR(PACKED, packed_lse, shape[1] = 9, KILN_BAD_SHAPE, "dimension 1 of 'lse' is 9, expected 8");
    assert_fails(PACKED, KILN_BAD_ARGUMENT, "needs a workspace of");
    out_is_untouched(grads);
    out_is_untouched(outs);
}

// ---- at random

// One field of a tensor gets another value: fewer elements, none, or no sense at all; never more than there is memory for.
// A moved pointer is always misaligned: a plan read 4 bytes further on would be another plan, and running it undefined.
static void spoil(kiln_tensor *t)
{
    static const int64_t values[] = { 0, 1, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 40 };
    const int64_t value = values[integer(0, 5)];
    const int d = (int)integer(0, KILN_MAX_RANK - 1);
    switch (integer(0, 6)) {
    case 0: t->shape[d] = value == INT64_C(1) << 40 ? t->shape[d] - 1 : value; break;
    case 1: t->rank = (int)integer(-2, KILN_MAX_RANK + 2); break;
    case 2: t->type = (kiln_type)integer(-1, KILN_BOOL + 2); break;
    case 3: t->strides[d] = value == INT64_C(1) << 40 ? 1 : value, t->has_strides = true; break;
    case 4: t->data = integer(0, 1) || !t->data ? NULL : (char *)t->data + 2 * integer(0, 7) + 1; break;
    case 5: t->has_strides = true; break;
    case 6: t->rank--; break;
    }
}

// Calls whose arguments are wrong in one to three places: refused or, now and then, run. Nothing beside the outputs changes.
static void spoilt_arguments(void **state)
{
    enum { ROUNDS = 3000, TENSORS = 6 };
    if (!on_cpu() && getenv("KILN_TEST_CHECK")) skip_because("pages that are none trap, and end the context of a GPU");
    Array *const lengths = ARRAY(KILN_I32, B), *const q = ARRAY(KILN_BF16, B, SQ, HQ, K),
                 *const cache = ARRAY(KILN_BF16, PAGES, SIZE, 1, K), *const table = ARRAY(KILN_I32, B, TABLE),
                 *const out = ARRAY(KILN_BF16, B, SQ, HQ, V), *const lse = ARRAY(KILN_F32, B, HQ, SQ);
    for (int b = 0; b < B; b++) set(lengths, b, 70);
    for (int i = 0; i < B * TABLE; i++) set(table, i, i % PAGES);
    array_send(lengths);
    array_send(table);
    const kiln_tensor good[TENSORS] = { at(q), at(cache), at(table), at(lengths), at(out), at(lse) };
    kiln_mla_plan plan = make_plan(&dense_shape, &lengths->tensor);
    Array *const workspace = bytes_new(1 << 20);
    int ran = 0;
    seed(77);
    for (int n = 0; n < ROUNDS; n++) {
        kiln_tensor t[TENSORS];
        kiln_mla_plan p = plan;
        memcpy(t, good, sizeof t);
        kiln_mla_decode_args a = { .plan = &p,
                                   .q = &t[0],
                                   .cache = &t[1],
                                   .table = &t[2],
                                   .lengths = &t[3],
                                   .out = &t[4],
                                   .lse = &t[5],
                                   .workspace = workspace->tensor.data,
                                   .workspace_bytes = workspace->bytes };
        for (int64_t k = integer(1, 3); k > 0; k--) {
            const int64_t which = integer(0, TENSORS + 2);
            if (which < TENSORS) spoil(&t[which]);
            else if (which == TENSORS) p.opaque[integer(0, 9)] ^= UINT64_C(1) << integer(0, 63);
            else if (which == TENSORS + 1) a.workspace_bytes = (size_t)integer(0, 70000);
            else a.plan = integer(0, 1) ? NULL : &(kiln_mla_plan){ 0 };
        }
        size_t bytes;
        if (kiln_mla_decode(ops, NULL, &a) == KILN_OK) ran++;
        else assert_true(strncmp(kiln_error_message(), "kiln_mla_decode: ", 17) == 0);
        if (kiln_mla_decode_workspace_size(ops, &a, &bytes)) assert_int_equal(bytes, 0);
    }
    assert_ok(kiln_stream_wait(device, NULL));
    assert_in_range(ran, 1, ROUNDS / 2);
    array_fetch(out);
    array_fetch(lse);
    array_fetch(workspace);
    array_unchanged(q, "q");
    array_unchanged(cache, "cache");
    array_unchanged(table, "table");
    array_unchanged(lengths, "lengths");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shapes_of_plans, free_arrays),
        cmocka_unit_test_teardown(sizes_serve_smaller_batches, free_arrays),
        cmocka_unit_test_teardown(making_plans, free_arrays),
        cmocka_unit_test_teardown(dense_decoding, free_arrays),
        cmocka_unit_test_teardown(a_stream_of_another_device, free_arrays),
        cmocka_unit_test_teardown(sparse_decoding, free_arrays),
        cmocka_unit_test_teardown(sparse_prefill, free_arrays),
        cmocka_unit_test_teardown(caches, free_arrays),
        cmocka_unit_test_teardown(attention, free_arrays),
        cmocka_unit_test_teardown(packed_attention, free_arrays),
        cmocka_unit_test_teardown(backward_and_decoding, free_arrays),
        cmocka_unit_test_teardown(spoilt_arguments, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
