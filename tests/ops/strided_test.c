// SPDX-License-Identifier: MIT
// strided_test.c - operators over tensors whose rows lie apart: in padded memory, with heads before rows, as parts of packed
// tensors. Each call gives what it gives over contiguous copies, and touches no byte between the rows.
#include "latent.h"

enum { OPERANDS = 12, D = 64, DV = 32, K = KILN_MLA_KEY, V = KILN_MLA_VALUE };

// A tensor of the call. `use`: what the call at hand gets.
typedef struct Operand {
    const char *name;
    Array *plain;
    bool is_strided, is_written;
    Array *use, *other;
} Operand;

#define IN(array)                                                                                                      \
    {                                                                                                                  \
        .name = #array, .plain = (array)                                                                               \
    }
#define ROWS(array)                                                                                                    \
    {                                                                                                                  \
        .name = #array, .plain = (array), .is_strided = true                                                           \
    }
#define OUT(array)                                                                                                     \
    {                                                                                                                  \
        .name = #array, .plain = (array), .is_written = true                                                           \
    }
#define OUT_ROWS(array)                                                                                                \
    {                                                                                                                  \
        .name = #array, .plain = (array), .is_strided = true, .is_written = true                                       \
    }

typedef void Run(const Operand *o);

static const Tolerance close_to = { 2e-3, 1e-2, 1e-5 }, equal_to = { 1e-30, 1e-30, 1e-12 };

static Array *copy_of(const Array *a)
{
    Array *const copy = array_new(a->tensor.type, a->tensor.rank, a->tensor.shape);
    memcpy(copy->host, a->host, a->bytes);
    array_send(copy);
    return copy;
}

// What was written is `expected`, and nothing between its rows; what was read is as it was.
static void compare(const Operand *o, double *const *expected, int n, Tolerance tolerance)
{
    for (int i = 0; i < n; i++)
        if (!o[i].is_written) array_unchanged(o[i].use, o[i].name);
    for (int i = 0; i < n; i++)
        if (o[i].is_written) array_fetch(o[i].use);
    for (int i = 0; i < n; i++)
        if (o[i].is_written) {
            assert_close(o[i].name, o[i].use, expected[i], tolerance);
            array_erase(o[i].use);
        }
    for (int i = 0; i < n; i++)
        if (o[i].is_written && !array_is_erased(o[i].use))
            fail_msg("something was written between the rows of '%s'", o[i].name);
}

// Over the plain arrays, then over the others.
static void check_others(Operand *o, int n, Run *run, Tolerance tolerance)
{
    double *expected[OPERANDS] = { 0 };
    for (int i = 0; i < n; i++) o[i].use = o[i].plain;
    run(o);
    assert_ok(kiln_stream_wait(device, NULL));
    for (int i = 0; i < n; i++)
        if (o[i].is_written) {
            array_fetch(o[i].plain);
            expected[i] = values(o[i].plain);
        }
    for (int i = 0; i < n; i++) o[i].use = o[i].other;
    run(o);
    assert_ok(kiln_stream_wait(device, NULL));
    compare(o, expected, n, tolerance);
}

static void check_spread(Operand *o, int n, Run *run, Tolerance tolerance)
{
    for (int swapped = 0; swapped < 2; swapped++) {
        for (int i = 0; i < n; i++) {
            const bool rows = o[i].is_strided;
            o[i].other = rows              ? array_spread(o[i].plain, swapped && o[i].plain->tensor.rank > 3)
                         : o[i].is_written ? copy_of(o[i].plain)
                                           : o[i].plain;
        }
        check_others(o, n, run, tolerance);
        for (int i = 0; i < n; i++) // as they were, for the next round
            if (o[i].is_written) {
                array_erase(o[i].plain);
                array_send(o[i].plain);
            }
    }
}

static Array *random_of(Array *a, double reach)
{
    fill_random(a, -reach, reach);
    return a;
}

static Array *integers(int n, const int *x)
{
    Array *const a = ARRAY(KILN_I32, n);
    for (int i = 0; i < n; i++) set(a, i, x[i]);
    array_send(a);
    return a;
}

static void *memory_of(size_t bytes) { return bytes_new(bytes)->tensor.data; }

#define T(i) &o[i].use->tensor

// ---- attention

static kiln_type type;
static bool causal, deterministic;

static void run_forward(const Operand *o)
{
    assert_ok(kiln_attention_forward(
        ops, NULL,
        &(kiln_attention_args){ .q = T(0), .k = T(1), .v = T(2), .out = T(3), .lse = T(4), .causal = causal }));
}

static void run_backward(const Operand *o)
{
    kiln_attention_backward_args a = { .q = T(0),
                                       .k = T(1),
                                       .v = T(2),
                                       .out = T(3),
                                       .lse = T(4),
                                       .dout = T(5),
                                       .dq = T(6),
                                       .dk = T(7),
                                       .dv = T(8),
                                       .causal = causal,
                                       .deterministic = deterministic };
    assert_ok(kiln_attention_backward_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = memory_of(a.workspace_bytes);
    assert_ok(kiln_attention_backward(ops, NULL, &a));
}

static void forward_and_backward(void **state)
{
    // clang-format off
    static const struct { kiln_type type; bool causal, deterministic; } cases[] = {
        { KILN_BF16, false, false }, { KILN_BF16, true, true }, { KILN_F32, true, false } };
    for (int c = 0; c < 3; c++) {
        type = cases[c].type, causal = cases[c].causal, deterministic = cases[c].deterministic;
        seed(5);
        Array *const q = random_of(ARRAY(type, 2, 70, 4, D), 1), *const k = random_of(ARRAY(type, 2, 90, 2, D), 1),
              *const v = random_of(ARRAY(type, 2, 90, 2, DV), 0.5), *const out = ARRAY(type, 2, 70, 4, DV),
              *const lse = ARRAY(KILN_F32, 2, 4, 70), *const dout = random_of(ARRAY(type, 2, 70, 4, DV), 0.5),
              *const dq = ARRAY(type, 2, 70, 4, D), *const dk = ARRAY(type, 2, 90, 2, D), *const dv = ARRAY(type, 2, 90, 2, DV);
        Operand forward[] = { ROWS(q), ROWS(k), ROWS(v), OUT_ROWS(out), OUT(lse) };
        check_spread(forward, 5, run_forward, close_to);
        for (int i = 0; i < 5; i++) forward[i].use = forward[i].plain;
        run_forward(forward);
        assert_ok(kiln_stream_wait(device, NULL));
        array_fetch(out);
        array_fetch(lse);
        Operand backward[] = { ROWS(q), ROWS(k), ROWS(v), ROWS(out), IN(lse), ROWS(dout), OUT_ROWS(dq), OUT_ROWS(dk), OUT_ROWS(dv) };
        check_spread(backward, 9, run_backward, close_to);
        free_arrays(NULL);
    }
    // clang-format on
}

static void run_varlen(const Operand *o)
{
    assert_ok(kiln_attention_forward_varlen(ops, NULL,
                                            &(kiln_attention_varlen_args){ .q = T(0),
                                                                           .k = T(1),
                                                                           .v = T(2),
                                                                           .out = T(3),
                                                                           .lse = T(4),
                                                                           .q_offsets = T(5),
                                                                           .k_offsets = T(6),
                                                                           .max_queries = 60,
                                                                           .causal = causal }));
}

static const kiln_tensor *moved_offsets; // the same as T(6), aligned to 4 bytes alone

static void run_varlen_backward(const Operand *o)
{
    kiln_attention_backward_varlen_args a = { .q = T(0),
                                              .k = T(1),
                                              .v = T(2),
                                              .out = T(3),
                                              .lse = T(4),
                                              .q_offsets = T(5),
                                              .k_offsets = moved_offsets ? moved_offsets : T(6),
                                              .dout = T(7),
                                              .dq = T(8),
                                              .dk = T(9),
                                              .dv = T(10),
                                              .max_keys = 60,
                                              .causal = causal };
    assert_ok(kiln_attention_backward_varlen_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = memory_of(a.workspace_bytes);
    assert_ok(kiln_attention_backward_varlen(ops, NULL, &a));
}

// q, k and v are the parts of `other`: its columns.
static void use_part(Operand *o, Array *packed, int64_t *at)
{
    const int64_t width = o->plain->tensor.shape[2];
    o->other = array_part(packed, 2, *at, width);
    for (int64_t i = 0; i < count(o->plain); i++) set(o->other, i, get(o->plain, i));
    *at += width;
}

static void others_are_copies(Operand *o, int n)
{
    for (int i = 0; i < n; i++) o[i].other = o[i].is_written ? copy_of(o[i].plain) : o[i].plain;
}

static const int offsets[] = { 0, 60, 60, 61, 100 }; // sequences of 60, 0, 1 and 39 tokens
enum { TOKENS = 100, HEADS = 3 };

// Forward and gradients with q, k, v and dq, dk, dv in one tensor each; the same through the packed call.
static void packed(void **state)
{
    type = KILN_BF16, causal = true;
    seed(7);
    Array *const q = random_of(ARRAY(type, TOKENS, HEADS, D), 1),
                 *const k = random_of(ARRAY(type, TOKENS, HEADS, D), 1),
                 *const v = random_of(ARRAY(type, TOKENS, HEADS, DV), 0.5), *const out = ARRAY(type, TOKENS, HEADS, DV),
                 *const lse = ARRAY(KILN_F32, HEADS, TOKENS), *const at = integers(5, offsets),
                 *const same = integers(5, offsets), *const dout = random_of(ARRAY(type, TOKENS, HEADS, DV), 0.5),
                 *const dq = ARRAY(type, TOKENS, HEADS, D), *const dk = ARRAY(type, TOKENS, HEADS, D),
                 *const dv = ARRAY(type, TOKENS, HEADS, DV), *const qkv = ARRAY(type, TOKENS, HEADS, 2 * D + DV),
                 *const dqkv = ARRAY(type, TOKENS, HEADS, 2 * D + DV);
    Operand forward[] = { IN(q), IN(k), IN(v), OUT(out), OUT(lse), IN(at), IN(same) };
    int64_t column = 0;
    others_are_copies(forward, 7);
    for (int i = 0; i < 3; i++) use_part(&forward[i], qkv, &column);
    array_send(qkv);
    check_others(forward, 7, run_varlen, close_to);

    Array *const once = copy_of(out), *const lse_once = copy_of(lse);
    double *const expected = values(out), *const expected_lse = values(lse);
    array_erase(once);
    array_send(once);
    const kiln_tensor moved = moved_away(at);
    assert_ok(kiln_attention_forward_qkvpacked(ops, NULL,
                                               &(kiln_attention_qkvpacked_args){ .qkv = &qkv->tensor,
                                                                                 .head_size = D,
                                                                                 .offsets = &moved,
                                                                                 .max_rows = 60,
                                                                                 .out = &once->tensor,
                                                                                 .lse = &lse_once->tensor,
                                                                                 .causal = true }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(once);
    array_fetch(lse_once);
    array_unchanged(qkv, "qkv");
    assert_close("out", once, expected, close_to);
    assert_close("lse", lse_once, expected_lse, close_to);

    Operand backward[] = {
        IN(q), IN(k), IN(v), IN(out), IN(lse), IN(at), IN(same), IN(dout), OUT(dq), OUT(dk), OUT(dv)
    };
    others_are_copies(backward, 11);
    for (int i = 0; i < 3; i++) backward[i].other = forward[i].other;
    for (int i = 8; i < 11; i++) {
        static const int64_t first[] = { 0, D, 2 * D };
        backward[i].other = array_part(dqkv, 2, first[i - 8], backward[i].plain->tensor.shape[2]);
    }
    moved_offsets = &moved;
    check_others(backward, 11, run_varlen_backward, close_to);
    moved_offsets = NULL;
}

static void packed_keys(void **state)
{
    static const int rows[] = { 0, 10, 50, 50, 70 };
    type = KILN_BF16, causal = false;
    seed(8);
    Array *const q = random_of(ARRAY(type, 70, 4, D), 1), *const k = random_of(ARRAY(type, TOKENS, 2, D), 1),
                 *const v = random_of(ARRAY(type, TOKENS, 2, DV), 0.5), *const out = ARRAY(type, 70, 4, DV),
                 *const lse = ARRAY(KILN_F32, 4, 70), *const q_at = integers(5, rows),
                 *const k_at = integers(5, offsets), *const kv = ARRAY(type, TOKENS, 2, D + DV);
    Operand o[] = { IN(q), IN(k), IN(v), OUT(out), OUT(lse), IN(q_at), IN(k_at) };
    int64_t column = 0;
    others_are_copies(o, 7);
    for (int i = 1; i < 3; i++) use_part(&o[i], kv, &column);
    array_send(kv);
    check_others(o, 7, run_varlen, close_to);

    double *const expected = values(out), *const expected_lse = values(lse);
    array_erase(out);
    array_erase(lse);
    array_send(out);
    array_send(lse);
    assert_ok(kiln_attention_forward_kvpacked(ops, NULL,
                                              &(kiln_attention_kvpacked_args){ .q = &q->tensor,
                                                                               .kv = &kv->tensor,
                                                                               .q_offsets = &q_at->tensor,
                                                                               .k_offsets = &k_at->tensor,
                                                                               .max_queries = 60,
                                                                               .out = &out->tensor,
                                                                               .lse = &lse->tensor }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    array_fetch(lse);
    assert_close("out", out, expected, close_to);
    assert_close("lse", lse, expected_lse, close_to);
}

static void run_decode(const Operand *o)
{
    kiln_attention_decode_args a = {
        .q = T(0), .k = T(1), .v = T(2), .out = T(3), .lse = T(4), .lengths = T(5), .splits = 3
    };
    assert_ok(kiln_attention_decode_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = memory_of(a.workspace_bytes);
    assert_ok(kiln_attention_decode(ops, NULL, &a));
}

static void decode(void **state)
{
    static const int n[] = { 300, 17 };
    type = KILN_F16;
    seed(9);
    Array *const q = random_of(ARRAY(type, 2, 8, D), 1), *const k = random_of(ARRAY(type, 2, 300, 2, D), 1),
                 *const v = random_of(ARRAY(type, 2, 300, 2, DV), 0.5), *const out = ARRAY(type, 2, 8, DV),
                 *const lse = ARRAY(KILN_F32, 2, 8), *const lengths = integers(2, n);
    Operand o[] = { ROWS(q), ROWS(k), ROWS(v), OUT_ROWS(out), OUT(lse), IN(lengths) };
    check_spread(o, 6, run_decode, close_to);
}

// ---- latent attention

enum { BATCH = 2, QUERIES = 2, TABLE = 3, PAGES = BATCH * TABLE, SIZE = 16, TOPK = 64 };

static kiln_mla_shape shape;
static const Array *plan_lengths;

static kiln_mla_plan plan_of(void)
{
    kiln_mla_plan plan;
    size_t bytes;
    assert_ok(kiln_mla_plan_size(ops, &shape, &bytes));
    assert_ok(kiln_mla_plan_make(ops, NULL,
                                 &(kiln_mla_plan_args){ .shape = &shape,
                                                        .lengths = plan_lengths ? &plan_lengths->tensor : NULL,
                                                        .memory = memory_of(bytes),
                                                        .memory_bytes = bytes },
                                 &plan));
    return plan;
}

static void run_dense(const Operand *o)
{
    const kiln_mla_plan plan = plan_of();
    kiln_mla_decode_args a = { .plan = &plan,
                               .q = T(0),
                               .cache = T(1),
                               .table = T(2),
                               .lengths = T(3),
                               .out = T(4),
                               .lse = T(5),
                               .causal = true };
    assert_ok(kiln_mla_decode_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = memory_of(a.workspace_bytes);
    assert_ok(kiln_mla_decode(ops, NULL, &a));
}

static void latent(void **state)
{
    static const int n[] = { 40, 9 };
    for (int heads = 1; heads < 3; heads++) {
        seed(10);
        shape = (kiln_mla_shape){
            .batch = BATCH, .queries = QUERIES, .query_heads = 8, .key_heads = heads, .partitions = 3
        };
        Array *const q = random_of(ARRAY(KILN_BF16, BATCH, QUERIES, 8, K), 1),
                     *const cache = random_of(ARRAY(KILN_BF16, PAGES, SIZE, heads, K), 0.3),
                     *const table = ARRAY(KILN_I32, BATCH, TABLE), *const lengths = integers(BATCH, n),
                     *const out = ARRAY(KILN_BF16, BATCH, QUERIES, 8, V),
                     *const lse = ARRAY(KILN_F32, BATCH, 8, QUERIES);
        permute((int32_t *)(void *)table->host, PAGES);
        array_send(table);
        plan_lengths = lengths;
        Operand o[] = { ROWS(q), ROWS(cache), ROWS(table), IN(lengths), OUT_ROWS(out), OUT(lse) };
        check_spread(o, 6, run_dense, close_to);
        free_arrays(NULL);
    }
}

static Array *fp8_cache(void)
{
    Array *const cache = ARRAY(KILN_U8, PAGES, SIZE, KILN_MLA_FP8_BYTES);
    double kept[K];
    for (int s = 0; s < PAGES * SIZE; s++) fp8_token(cache, s, kept, false);
    array_send(cache);
    return cache;
}

static void latent_bytes(void **state)
{
    static const int n[] = { 40, 9 };
    seed(11);
    shape = (kiln_mla_shape){ .batch = BATCH, .queries = QUERIES, .query_heads = 8, .partitions = 3 };
    Array *const q = random_of(ARRAY(KILN_BF16, BATCH, QUERIES, 8, K), 0.05), *const cache = fp8_cache(),
                 *const table = ARRAY(KILN_I32, BATCH, TABLE), *const lengths = integers(BATCH, n),
                 *const out = ARRAY(KILN_BF16, BATCH, QUERIES, 8, V), *const lse = ARRAY(KILN_F32, BATCH, 8, QUERIES);
    permute((int32_t *)(void *)table->host, PAGES);
    array_send(table);
    plan_lengths = lengths;
    Operand o[] = { ROWS(q), ROWS(cache), ROWS(table), IN(lengths), OUT_ROWS(out), OUT(lse) };
    check_spread(o, 6, run_dense, close_to);
}

static void run_sparse(const Operand *o)
{
    const kiln_mla_plan plan = plan_of();
    kiln_mla_decode_sparse_args a = { .plan = &plan,
                                      .q = T(0),
                                      .cache = T(1),
                                      .indices = T(2),
                                      .out = T(3),
                                      .lse = T(4),
                                      .extra_cache = T(5),
                                      .extra_indices = T(6) };
    assert_ok(kiln_mla_decode_sparse_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = memory_of(a.workspace_bytes);
    assert_ok(kiln_mla_decode_sparse(ops, NULL, &a));
}

static void latent_lists(void **state)
{
    seed(12);
    shape = (kiln_mla_shape){
        .batch = BATCH, .queries = QUERIES, .query_heads = 8, .topk = TOPK, .extra_topk = TOPK, .partitions = 3
    };
    Array *const q = random_of(ARRAY(KILN_BF16, BATCH, QUERIES, 8, K), 0.05), *const cache = fp8_cache(),
                 *const extra = fp8_cache(), *const indices = ARRAY(KILN_I32, BATCH, QUERIES, TOPK),
                 *const more = ARRAY(KILN_I32, BATCH, QUERIES, TOPK),
                 *const out = ARRAY(KILN_BF16, BATCH, QUERIES, 8, V), *const lse = ARRAY(KILN_F32, BATCH, 8, QUERIES);
    for (int64_t i = 0; i < count(indices); i++) {
        set(indices, i, (double)integer(-5, PAGES * SIZE + 5));
        set(more, i, (double)integer(-5, PAGES * SIZE + 5));
    }
    array_send(indices);
    array_send(more);
    plan_lengths = NULL;
    Operand o[] = { ROWS(q), ROWS(cache), ROWS(indices), OUT_ROWS(out), OUT(lse), ROWS(extra), ROWS(more) };
    check_spread(o, 7, run_sparse, close_to);
}

// The same with the one key head named, and bytes called i8.
static Array *with_key_head(Array *a, kiln_type type)
{
    Array *const b = copy_of(a);
    kiln_tensor *const t = &b->tensor;
    t->type = type;
    t->shape[t->rank] = t->shape[t->rank - 1];
    t->shape[t->rank - 1] = 1;
    t->rank++;
    return b;
}

static void key_heads_are_named(void **state)
{
    seed(15);
    shape = (kiln_mla_shape){
        .batch = BATCH, .queries = QUERIES, .query_heads = 8, .topk = TOPK, .extra_topk = TOPK, .partitions = 3
    };
    Array *const q = random_of(ARRAY(KILN_BF16, BATCH, QUERIES, 8, K), 0.05), *const cache = fp8_cache(),
                 *const extra = fp8_cache(), *const indices = ARRAY(KILN_I32, BATCH, QUERIES, TOPK),
                 *const more = ARRAY(KILN_I32, BATCH, QUERIES, TOPK),
                 *const out = ARRAY(KILN_BF16, BATCH, QUERIES, 8, V), *const lse = ARRAY(KILN_F32, BATCH, 8, QUERIES);
    for (int64_t i = 0; i < count(indices); i++) {
        set(indices, i, (double)integer(0, PAGES * SIZE - 1));
        set(more, i, (double)integer(0, PAGES * SIZE - 1));
    }
    array_send(indices);
    array_send(more);
    plan_lengths = NULL;
    Operand o[] = { IN(q), IN(cache), IN(indices), OUT(out), OUT(lse), IN(extra), IN(more) };
    others_are_copies(o, 7);
    o[1].other = with_key_head(cache, KILN_I8);
    o[5].other = with_key_head(extra, KILN_E4M3);
    check_others(o, 7, run_sparse, close_to);
}

static void run_prefill(const Operand *o)
{
    assert_ok(kiln_mla_prefill_sparse(
        ops, NULL,
        &(kiln_mla_prefill_sparse_args){
            .q = T(0), .kv = T(1), .indices = T(2), .out = T(3), .max_logits = T(4), .lse = T(5) }));
}

static void latent_prefill(void **state)
{
    seed(13);
    Array *const q = random_of(ARRAY(KILN_BF16, 5, 8, K), 1), *const kv = random_of(ARRAY(KILN_BF16, 30, K), 0.3),
                 *const indices = ARRAY(KILN_I32, 5, TOPK), *const out = ARRAY(KILN_BF16, 5, 8, V),
                 *const top = ARRAY(KILN_F32, 5, 8), *const lse = ARRAY(KILN_F32, 5, 8);
    for (int64_t i = 0; i < count(indices); i++) set(indices, i, (double)integer(-5, 35));
    array_send(indices);
    Operand o[] = { ROWS(q), ROWS(kv), ROWS(indices), OUT_ROWS(out), OUT(top), OUT(lse) };
    check_spread(o, 6, run_prefill, close_to);
    others_are_copies(o, 6);
    o[1].other = with_key_head(kv, KILN_BF16);
    o[2].other = with_key_head(indices, KILN_I32);
    check_others(o, 6, run_prefill, close_to);
}

static void run_append(const Operand *o)
{
    assert_ok(kiln_mla_append(ops, NULL, &(kiln_mla_append_args){ .keys = T(0), .slots = T(1), .cache = T(2) }));
}

static void run_quantize(const Operand *o)
{
    assert_ok(kiln_mla_quantize(ops, NULL, &(kiln_mla_quantize_args){ .keys = T(0), .slots = T(1), .cache = T(2) }));
}

static void run_dequantize(const Operand *o)
{
    assert_ok(
        kiln_mla_dequantize(ops, NULL, &(kiln_mla_dequantize_args){ .cache = T(0), .slots = T(1), .keys = T(2) }));
}

static void caches(void **state)
{
    static const int where[] = { 3, -1, 40, 0, 1000, 17, 18 };
    seed(14);
    Array *const keys = random_of(ARRAY(KILN_BF16, 7, 2, K), 1), *const rows = random_of(ARRAY(KILN_BF16, 7, K), 1),
                 *const slots = integers(7, where), *const cache = ARRAY(KILN_BF16, TABLE, SIZE, 2, K),
                 *const bytes = ARRAY(KILN_U8, TABLE, SIZE, KILN_MLA_FP8_BYTES), *const filled = fp8_cache(),
                 *const read = ARRAY(KILN_BF16, 7, K);
    Operand append[] = { ROWS(keys), IN(slots), OUT_ROWS(cache) },
            quantize[] = { ROWS(rows), IN(slots), OUT_ROWS(bytes) },
            dequantize[] = { ROWS(filled), IN(slots), OUT_ROWS(read) };
    check_spread(append, 3, run_append, equal_to);
    check_spread(quantize, 3, run_quantize, equal_to);
    check_spread(dequantize, 3, run_dequantize, equal_to);
    others_are_copies(dequantize, 3);
    dequantize[0].other = with_key_head(filled, KILN_I8);
    dequantize[2].other = with_key_head(read, KILN_BF16);
    check_others(dequantize, 3, run_dequantize, equal_to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(forward_and_backward, free_arrays),
        cmocka_unit_test_teardown(packed, free_arrays),
        cmocka_unit_test_teardown(packed_keys, free_arrays),
        cmocka_unit_test_teardown(decode, free_arrays),
        cmocka_unit_test_teardown(latent, free_arrays),
        cmocka_unit_test_teardown(latent_bytes, free_arrays),
        cmocka_unit_test_teardown(latent_lists, free_arrays),
        cmocka_unit_test_teardown(key_heads_are_named, free_arrays),
        cmocka_unit_test_teardown(latent_prefill, free_arrays),
        cmocka_unit_test_teardown(caches, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
