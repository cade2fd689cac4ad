// SPDX-License-Identifier: MIT
// warm_test.c - a call that agrees with an earlier one in all but addresses, and the size of its workspace, ask for no memory
// and format no text. The linker puts the functions here before those that the library calls.
// link: -Wl,--wrap=calloc,--wrap=snprintf,--wrap=vsnprintf
#include "support.h"

#include "kiln/ops/deepseek.h"
#include "kiln/ops/recurrent.h"

static int allocations, texts;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    allocations++;
    return __real_calloc(n, bytes);
}

int __wrap_vsnprintf(char *text, size_t n, const char *format, va_list args);
int __real_vsnprintf(char *text, size_t n, const char *format, va_list args);
int __wrap_vsnprintf(char *text, size_t n, const char *format, va_list args)
{
    texts++;
    return __real_vsnprintf(text, n, format, args);
}

int __wrap_snprintf(char *text, size_t n, const char *format, ...);
int __wrap_snprintf(char *text, size_t n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = __wrap_vsnprintf(text, n, format, args);
    va_end(args);
    return length;
}

// ---- the calls

enum { B = 2, S = 32, H = 4, HKV = 2, D = 64, HL = 16, PAGES = 4, SIZE = 64, TOPK = 8 };

typedef struct Arguments {
    Array *q, *k, *v, *out, *lse, *dq, *dk, *dv, *offsets;
    Array *ql, *cache, *cache8, *table, *lengths, *indices, *outl, *lsel, *keys, *slots, *pages, *pasts;
    Array *indexed, *workspace, *dense_memory, *sparse_memory;
    kiln_mla_plan dense, sparse;
} Arguments;

static Arguments make_arguments(void)
{
    Arguments a = { .q = ARRAY(KILN_BF16, B, S, H, D),
                    .k = ARRAY(KILN_BF16, B, S, HKV, D),
                    .v = ARRAY(KILN_BF16, B, S, HKV, D),
                    .out = ARRAY(KILN_BF16, B, S, H, D),
                    .lse = ARRAY(KILN_F32, B, H, S),
                    .dq = ARRAY(KILN_BF16, B, S, H, D),
                    .dk = ARRAY(KILN_BF16, B, S, HKV, D),
                    .dv = ARRAY(KILN_BF16, B, S, HKV, D),
                    .offsets = ARRAY(KILN_I32, B + 1),
                    .ql = ARRAY(KILN_BF16, B, 1, HL, KILN_MLA_KEY),
                    .cache = ARRAY(KILN_BF16, PAGES, SIZE, 1, KILN_MLA_KEY),
                    .cache8 = ARRAY(KILN_U8, PAGES, SIZE, 1, 656),
                    .table = ARRAY(KILN_I32, B, 2),
                    .lengths = ARRAY(KILN_I32, B),
                    .indices = ARRAY(KILN_I32, B, 1, TOPK),
                    .outl = ARRAY(KILN_BF16, B, 1, HL, KILN_MLA_VALUE),
                    .lsel = ARRAY(KILN_F32, B, HL, 1),
                    .keys = ARRAY(KILN_BF16, B, 1, KILN_MLA_KEY),
                    .slots = ARRAY(KILN_I32, B),
                    .pages = ARRAY(KILN_I32, B, 2, 2),
                    .pasts = ARRAY(KILN_I32, B),
                    .indexed = ARRAY(KILN_BF16, 20, 1, KILN_MLA_VALUE),
                    .workspace = bytes_new(1 << 24),
                    .dense_memory = bytes_new(1 << 14),
                    .sparse_memory = bytes_new(1 << 14) };
    for (int b = 0; b <= B; b++) set(a.offsets, b, b * S);
    for (int b = 0; b < B; b++) set(a.lengths, b, 70), set(a.slots, b, b);
    for (int i = 0; i < B * 2; i++) set(a.table, i, i);
    for (int i = 0; i < B * TOPK; i++) set(a.indices, i, i);
    array_send(a.offsets), array_send(a.lengths), array_send(a.slots), array_send(a.table), array_send(a.indices);
    for (int i = 0; i < B * 4; i++) set(a.pages, i, i % PAGES);
    for (int b = 0; b < B; b++) set(a.pasts, b, 40 + b);
    array_send(a.pages), array_send(a.pasts);
    return a;
}

static void call_attention(Arguments *a)
{
    size_t bytes;
    const int64_t packed[] = { B * S, H, D }, packed_keys[] = { B * S, HKV, D }, one[] = { B, H, D };
    const kiln_tensor q = kiln_tensor_of(device, a->q->tensor.data, KILN_BF16, 3, packed);
    const kiln_tensor k = kiln_tensor_of(device, a->k->tensor.data, KILN_BF16, 3, packed_keys);
    const kiln_tensor v = kiln_tensor_of(device, a->v->tensor.data, KILN_BF16, 3, packed_keys);
    const kiln_tensor out = kiln_tensor_of(device, a->out->tensor.data, KILN_BF16, 3, packed);
    const kiln_tensor q1 = kiln_tensor_of(device, a->q->tensor.data, KILN_BF16, 3, one);
    const kiln_tensor out1 = kiln_tensor_of(device, a->out->tensor.data, KILN_BF16, 3, one);
    assert_ok(kiln_attention_forward(ops, NULL,
                                     &(kiln_attention_args){ .q = &a->q->tensor,
                                                             .k = &a->k->tensor,
                                                             .v = &a->v->tensor,
                                                             .out = &a->out->tensor,
                                                             .lse = &a->lse->tensor,
                                                             .causal = true }));
    assert_ok(kiln_attention_forward_varlen(ops, NULL,
                                            &(kiln_attention_varlen_args){ .q = &q,
                                                                           .k = &k,
                                                                           .v = &v,
                                                                           .q_offsets = &a->offsets->tensor,
                                                                           .k_offsets = &a->offsets->tensor,
                                                                           .max_queries = S,
                                                                           .out = &out }));
    const kiln_attention_decode_args decode = { .q = &q1,
                                                .k = &a->k->tensor,
                                                .v = &a->v->tensor,
                                                .out = &out1,
                                                .workspace = a->workspace->tensor.data,
                                                .workspace_bytes = a->workspace->bytes };
    assert_ok(kiln_attention_decode_workspace_size(ops, &decode, &bytes));
    assert_ok(kiln_attention_decode(ops, NULL, &decode));
    const kiln_attention_backward_args backward = { .q = &a->q->tensor,
                                                    .k = &a->k->tensor,
                                                    .v = &a->v->tensor,
                                                    .out = &a->out->tensor,
                                                    .lse = &a->lse->tensor,
                                                    .dout = &a->out->tensor,
                                                    .dq = &a->dq->tensor,
                                                    .dk = &a->dk->tensor,
                                                    .dv = &a->dv->tensor,
                                                    .causal = true,
                                                    .workspace = a->workspace->tensor.data,
                                                    .workspace_bytes = a->workspace->bytes };
    assert_ok(kiln_attention_backward_workspace_size(ops, &backward, &bytes));
    assert_ok(kiln_attention_backward(ops, NULL, &backward));
}

static void make_plans(Arguments *a)
{
    const kiln_mla_shape dense = { .batch = B, .queries = 1, .query_heads = HL },
                         sparse = { .batch = B, .queries = 1, .query_heads = HL, .topk = TOPK };
    assert_ok(kiln_mla_plan_make(ops, NULL,
                                 &(kiln_mla_plan_args){ .shape = &dense,
                                                        .lengths = &a->lengths->tensor,
                                                        .memory = a->dense_memory->tensor.data,
                                                        .memory_bytes = a->dense_memory->bytes },
                                 &a->dense));
    assert_ok(kiln_mla_plan_make(ops, NULL,
                                 &(kiln_mla_plan_args){ .shape = &sparse,
                                                        .memory = a->sparse_memory->tensor.data,
                                                        .memory_bytes = a->sparse_memory->bytes },
                                 &a->sparse));
}

static void call_latent(Arguments *a)
{
    size_t bytes;
    const kiln_mla_append_args append = { .keys = &a->keys->tensor,
                                          .slots = &a->slots->tensor,
                                          .cache = &a->cache->tensor };
    const kiln_mla_quantize_args quantize = { .keys = &a->keys->tensor,
                                              .slots = &a->slots->tensor,
                                              .cache = &a->cache8->tensor };
    assert_ok(kiln_mla_append(ops, NULL, &append));
    assert_ok(kiln_mla_quantize(ops, NULL, &quantize));
    make_plans(a);
    const kiln_mla_decode_args dense = { .plan = &a->dense,
                                         .q = &a->ql->tensor,
                                         .cache = &a->cache->tensor,
                                         .table = &a->table->tensor,
                                         .lengths = &a->lengths->tensor,
                                         .out = &a->outl->tensor,
                                         .lse = &a->lsel->tensor,
                                         .workspace = a->workspace->tensor.data,
                                         .workspace_bytes = a->workspace->bytes };
    const kiln_mla_decode_sparse_args sparse = { .plan = &a->sparse,
                                                 .q = &a->ql->tensor,
                                                 .cache = &a->cache8->tensor,
                                                 .indices = &a->indices->tensor,
                                                 .out = &a->outl->tensor,
                                                 .lse = &a->lsel->tensor,
                                                 .workspace = a->workspace->tensor.data,
                                                 .workspace_bytes = a->workspace->bytes };
    assert_ok(kiln_mla_decode_workspace_size(ops, &dense, &bytes));
    assert_ok(kiln_mla_decode(ops, NULL, &dense));
    assert_ok(kiln_mla_decode_sparse_workspace_size(ops, &sparse, &bytes));
    assert_ok(kiln_mla_decode_sparse(ops, NULL, &sparse));
}

// In two parts of the queries: three launches each.
static void call_indexed(Arguments *a)
{
    enum { KEYS = 48, QUERIES = 20, HI = 8, DI = 32 };
    size_t bytes;
    const kiln_tensor index_q = kiln_tensor_of(device, a->q->tensor.data, KILN_E4M3, 3, (int64_t[]){ QUERIES, HI, DI });
    const kiln_tensor index_k = kiln_tensor_of(device, a->k->tensor.data, KILN_E4M3, 2, (int64_t[]){ KEYS, DI });
    const kiln_tensor scales = kiln_tensor_of(device, a->q->tensor.data, KILN_F32, 1, (int64_t[]){ KEYS });
    const kiln_tensor weights = kiln_tensor_of(device, a->q->tensor.data, KILN_F32, 2, (int64_t[]){ QUERIES, HI });
    const kiln_tensor q =
        kiln_tensor_of(device, a->cache->tensor.data, KILN_BF16, 3, (int64_t[]){ QUERIES, 1, KILN_MLA_KEY });
    const kiln_tensor kv =
        kiln_tensor_of(device, a->cache->tensor.data, KILN_BF16, 2, (int64_t[]){ KEYS, KILN_MLA_KEY });
    const kiln_tensor result =
        kiln_tensor_of(device, a->indexed->tensor.data, KILN_BF16, 3, (int64_t[]){ QUERIES, 1, KILN_MLA_VALUE });
    const kiln_indexed_attention_args args = { .index_q = &index_q,
                                               .index_k = &index_k,
                                               .index_scales = &scales,
                                               .index_weights = &weights,
                                               .q = &q,
                                               .kv = &kv,
                                               .out = &result,
                                               .topk = 16,
                                               .rows = 16,
                                               .workspace = a->workspace->tensor.data,
                                               .workspace_bytes = a->workspace->bytes };
    assert_ok(kiln_indexed_attention_workspace_size(ops, &args, &bytes));
    assert_ok(kiln_indexed_attention(ops, NULL, &args));
}

// Split, in parts of one tensor: what looks at values and what prepares the scratch are calls, too.
static void call_masked(Arguments *a)
{
    size_t bytes;
    kiln_tensor q, k, v;
    const int64_t packed[] = { B, H + 2 * HKV, D }, one[] = { B, H, D }, blocks[] = { PAGES, HKV, SIZE / 2, D },
                  two[] = { B, 2, 2 };
    const kiln_tensor qkv = kiln_tensor_of(device, a->q->tensor.data, KILN_BF16, 3, packed);
    const kiln_tensor cache = kiln_tensor_of(device, a->cache->tensor.data, KILN_BF16, 4, blocks);
    const kiln_tensor table = kiln_tensor_of(device, a->pages->tensor.data, KILN_I32, 3, two);
    const kiln_tensor out = kiln_tensor_of(device, a->out->tensor.data, KILN_BF16, 3, one);
    const kiln_rotary rotary = { .style = KILN_ROTARY_HALVES };
    assert_ok(kiln_tensor_slice(&qkv, 1, 0, H, &q));
    assert_ok(kiln_tensor_slice(&qkv, 1, H, HKV, &k));
    assert_ok(kiln_tensor_slice(&qkv, 1, H + HKV, HKV, &v));
    const kiln_masked_decode_args args = { .q = &q,
                                           .k = &k,
                                           .v = &v,
                                           .cache = &cache,
                                           .table = &table,
                                           .lengths = &a->pasts->tensor,
                                           .out = &out,
                                           .rotary = &rotary,
                                           .workspace = a->workspace->tensor.data,
                                           .workspace_bytes = a->workspace->bytes,
                                           .splits = 2 };
    assert_ok(kiln_masked_decode_workspace_size(ops, &args, &bytes));
    assert_ok(kiln_masked_decode(ops, NULL, &args));
}

// Packed, so that the look at the offsets is a call, too; then a token of each sequence.
static void call_recurrent(Arguments *a)
{
    size_t bytes;
    const int64_t packed[] = { 1, B * S, H, D }, packed_keys[] = { 1, B * S, HKV, D }, packed_gates[] = { 1, B * S, H };
    const int64_t one[] = { B, 1, H, D }, one_key[] = { B, 1, HKV, D }, one_gate[] = { B, 1, H },
                  all[] = { B, H, D, D };
    kiln_tensor q = kiln_tensor_of(device, a->k->tensor.data, KILN_BF16, 4, packed_keys);
    kiln_tensor k = kiln_tensor_of(device, a->v->tensor.data, KILN_BF16, 4, packed_keys);
    kiln_tensor v = kiln_tensor_of(device, a->q->tensor.data, KILN_BF16, 4, packed);
    kiln_tensor gates = kiln_tensor_of(device, a->lse->tensor.data, KILN_F32, 3, packed_gates);
    kiln_tensor out = kiln_tensor_of(device, a->out->tensor.data, KILN_BF16, 4, packed);
    const kiln_tensor states = kiln_tensor_of(device, a->cache->tensor.data, KILN_F32, 4, all);
    const kiln_gdn_args args = { .q = &q,
                                 .k = &k,
                                 .v = &v,
                                 .gates = &gates,
                                 .beta = &gates,
                                 .offsets = &a->offsets->tensor,
                                 .out = &out,
                                 .final_states = &states,
                                 .normalize = true,
                                 .workspace = a->workspace->tensor.data,
                                 .workspace_bytes = a->workspace->bytes };
    assert_ok(kiln_gdn_forward_workspace_size(ops, &args, &bytes));
    assert_ok(kiln_gdn_forward(ops, NULL, &args));
    q = kiln_tensor_of(device, q.data, KILN_BF16, 4, one_key),
    k = kiln_tensor_of(device, k.data, KILN_BF16, 4, one_key);
    v = kiln_tensor_of(device, v.data, KILN_BF16, 4, one), out = kiln_tensor_of(device, out.data, KILN_BF16, 4, one);
    gates = kiln_tensor_of(device, gates.data, KILN_F32, 3, one_gate);
    assert_ok(kiln_gdn_step(ops, NULL,
                            &(kiln_gdn_step_args){ .q = &q,
                                                   .k = &k,
                                                   .v = &v,
                                                   .gates = &gates,
                                                   .beta = &gates,
                                                   .states = &states,
                                                   .out = &out,
                                                   .normalize = true }));
}

// The second time a call finds all that the first has kept.
static void is_quiet_when_warm(void call(Arguments *))
{
    Arguments a = make_arguments();
    kiln_set_threads(1); // others may start, and take what memory their tiles need, in any call
    call(&a);
    call(&a);
    assert_ok(kiln_stream_wait(device, NULL));
    allocations = texts = 0;
    call(&a);
    const int n_allocations = allocations, n_texts = texts;
    kiln_set_threads(0);
    assert_int_equal(n_allocations, 0);
    assert_int_equal(n_texts, 0);
}

static void attention_is_quiet(void **state) { is_quiet_when_warm(call_attention); }
static void masked_decoding_is_quiet(void **state) { is_quiet_when_warm(call_masked); }
static void layers_with_a_state_are_quiet(void **state) { is_quiet_when_warm(call_recurrent); }
static void indexed_attention_is_quiet(void **state) { is_quiet_when_warm(call_indexed); }
static void latent_attention_is_quiet(void **state) { is_quiet_when_warm(call_latent); }

// What a handle computes that has been told nothing before.
static void as_another_handle_does(const kiln_attention_args *a, Array *out)
{
    kiln_ops *other;
    double *const got = values(out);
    assert_ok(kiln_ops_open(device, NULL, &other));
    assert_ok(kiln_attention_forward(other, NULL, a));
    kiln_ops_close(other);
    array_fetch(out);
    const double *const expected = values(out);
    for (int64_t i = 0; i < count(out); i++) assert_true(got[i] == expected[i]);
}

static void computes_the_same(const kiln_attention_args *a, Array *out)
{
    assert_ok(kiln_attention_forward(ops, NULL, a));
    array_fetch(out);
    as_another_handle_does(a, out);
}

// The same shapes: one tensor for two, then two, then parts of one.
static void only_addresses_differ(void **state)
{
    Array *const q = ARRAY(KILN_BF16, B, S, H, D), *const both = ARRAY(KILN_BF16, B, S, 2 * HKV, D),
                 *const out = ARRAY(KILN_BF16, B, S, H, D), *const k = ARRAY(KILN_BF16, B, S, HKV, D),
                 *const v = ARRAY(KILN_BF16, B, S, HKV, D);
    fill_random(q, -1, 1), fill_random(k, -1, 1), fill_random(v, -1, 1), fill_random(both, -1, 1);
    kiln_tensor to = out->tensor, low = array_part(both, 2, 0, HKV)->tensor,
                high = array_part(both, 2, HKV, HKV)->tensor;
    kiln_attention_args a = { .q = &q->tensor, .k = &k->tensor, .v = &k->tensor, .out = &to };
    computes_the_same(&a, out);
    a.v = &v->tensor;
    computes_the_same(&a, out);
    a.k = &v->tensor;
    computes_the_same(&a, out);
    a.k = &low, a.v = &high;
    computes_the_same(&a, out);
    a.k = &high, a.v = &low;
    computes_the_same(&a, out);
    a.v = &high;
    computes_the_same(&a, out);
}

// A call that has run before is looked at as if it were new where it is wrong.
static void what_is_wrong_is_said(void **state)
{
    Array *const q = ARRAY(KILN_BF16, B, S, H, D), *const k = ARRAY(KILN_BF16, B, S, HKV, D),
                 *const out = ARRAY(KILN_BF16, B, S, H, D);
    kiln_tensor to = out->tensor;
    double scale = 0.5;
    kiln_attention_args a = { .q = &q->tensor, .k = &k->tensor, .v = &k->tensor, .out = &to, .scale = &scale };
    for (int n = 0; n < 2; n++) {
        to.data = out->tensor.data, scale = 0.5;
        assert_ok(kiln_attention_forward(ops, NULL, &a));
        to.data = q->tensor.data;
        assert_fails(kiln_attention_forward(ops, NULL, &a), KILN_BAD_ARGUMENT, "'q' and 'out' overlap");
        to.data = NULL;
        assert_fails(kiln_attention_forward(ops, NULL, &a), KILN_BAD_ARGUMENT, "'out' has no data");
        to.data = (char *)out->tensor.data + 8;
        assert_fails(kiln_attention_forward(ops, NULL, &a), KILN_BAD_ALIGNMENT, "the data of 'out'");
        to.data = out->tensor.data, scale = -1;
        assert_fails(kiln_attention_forward(ops, NULL, &a), KILN_BAD_ARGUMENT, "'scale' is -1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(attention_is_quiet, free_arrays),
                                        cmocka_unit_test_teardown(latent_attention_is_quiet, free_arrays),
                                        cmocka_unit_test_teardown(indexed_attention_is_quiet, free_arrays),
                                        cmocka_unit_test_teardown(masked_decoding_is_quiet, free_arrays),
                                        cmocka_unit_test_teardown(layers_with_a_state_are_quiet, free_arrays),
                                        cmocka_unit_test_teardown(only_addresses_differ, free_arrays),
                                        cmocka_unit_test_teardown(what_is_wrong_is_said, free_arrays) };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
