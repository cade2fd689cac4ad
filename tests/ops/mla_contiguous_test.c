// SPDX-License-Identifier: MIT
// mla_contiguous_test.c - latent decoding over contiguous caches against its kernel's reference.
#include "kiln/ops/mla.h"
#include "support.h"

enum { B = 4, H = 72, S = 150, V = 512, P = 64 };

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

typedef struct Tensors {
    Array *q, *q_rotary, *cache, *rotary_cache, *lengths, *out, *lse;
} Tensors;

// NaN after each length.
static Tensors make(kiln_type type)
{
    static const int lengths[B] = { 150, 0, 67, 200 };
    seed(6);
    Tensors t = { .q = ARRAY(type, B, H, V),
                  .q_rotary = ARRAY(type, B, H, P),
                  .cache = ARRAY(type, B, S, V),
                  .rotary_cache = ARRAY(type, B, S, P),
                  .lengths = ARRAY(KILN_I32, B),
                  .out = ARRAY(type, B, H, V),
                  .lse = ARRAY(KILN_F32, B, H) };
    fill_random(t.q, -1, 1), fill_random(t.q_rotary, -1, 1);
    draw_random(t.cache, -1, 1), draw_random(t.rotary_cache, -1, 1);
    for (int b = 0; b < B; b++) {
        set(t.lengths, b, lengths[b]);
        for (int j = lengths[b]; j < S; j++) {
            for (int d = 0; d < V; d++) set(t.cache, (b * S + j) * V + d, NAN);
            for (int d = 0; d < P; d++) set(t.rotary_cache, (b * S + j) * P + d, NAN);
        }
    }
    array_send(t.cache), array_send(t.rotary_cache), array_send(t.lengths);
    return t;
}

static kiln_mla_decode_contiguous_args arguments(const Tensors *t)
{
    return (kiln_mla_decode_contiguous_args){ .q = of(t->q),
                                              .q_rotary = of(t->q_rotary),
                                              .cache = of(t->cache),
                                              .rotary_cache = of(t->rotary_cache),
                                              .lengths = of(t->lengths),
                                              .out = of(t->out),
                                              .lse = of(t->lse) };
}

static void run(kiln_mla_decode_contiguous_args *a)
{
    assert_ok(kiln_mla_decode_contiguous_workspace_size(ops, a, &a->workspace_bytes));
    Array *const workspace = bytes_new(a->workspace_bytes);
    a->workspace = workspace->tensor.data;
    assert_ok(kiln_mla_decode_contiguous(ops, NULL, a));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(workspace);
}

// Split and not; with a key head of 1, lengths by another stride, rows that lie apart; without what may be left out.
static void decoding(void **state)
{
    const double tenth = 0.1;
    const Tolerance close_to = { 4e-3, 1.0 / 64, 1e-5 };
    for (int c = 0; c < 3; c++) {
        Tensors t = make(c == 1 ? KILN_BF16 : KILN_F16);
        const kiln_tensor *const out = host_result(t.out), *const lse = host_result(t.lse);
        const kiln_arg args[] = { KILN_TENSOR(host_copy(t.q)),
                                  KILN_TENSOR(host_copy(t.q_rotary)),
                                  KILN_TENSOR(host_copy(t.cache)),
                                  KILN_TENSOR(host_copy(t.rotary_cache)),
                                  KILN_TENSOR(host_copy(t.lengths)),
                                  KILN_TENSOR(out),
                                  KILN_TENSOR(lse),
                                  KILN_INT(1),
                                  KILN_FLOAT(c == 2 ? tenth : 1.0 / 24) };
        run_reference("mla/decode_contiguous.tile", "mla_decode_contiguous", "T=f32", args, 9);
        if (c == 1) t.cache = array_spread(t.cache, false), t.out = array_spread(t.out, false);
        kiln_mla_decode_contiguous_args a = arguments(&t);
        const kiln_tensor moved = moved_away(t.lengths);
        kiln_tensor with_head = t.rotary_cache->tensor;
        with_head.rank = 4, with_head.shape[2] = 1, with_head.shape[3] = P;
        a.splits = c == 1 ? 3 : c;
        if (c == 1) a.lengths = &moved, a.rotary_cache = &with_head;
        if (c == 2) a.splits = 1, a.lse = NULL, a.scale = &tenth;
        run(&a);
        array_fetch(t.out), array_fetch(t.lse);
        assert_close("out", t.out, numbers(out), close_to);
        if (c < 2) assert_close("lse", t.lse, numbers(lse), (Tolerance){ 1e-3, 1e-3, 1e-6 });
        free_arrays(NULL);
    }
}

// Caches of e4m3, with scales and without.
static void decoding_of_fp8(void **state)
{
    for (int c = 0; c < 2; c++) {
        Tensors t = make(KILN_BF16);
        Array *const codes = ARRAY(KILN_E4M3, B, S, V), *const scales = c ? ARRAY(KILN_F32, B, S) : NULL;
        fill_random(codes, -2, 2);
        if (scales) fill_random(scales, 0.2, 1);
        for (int64_t i = 0; i < count(t.cache); i++) // what a reader makes of them, rounded once
            set(t.cache, i, get(codes, i) * (scales ? get(scales, i / V) : 1));
        const kiln_tensor *const out = host_result(t.out), *const lse = host_result(t.lse);
        const kiln_arg args[] = { KILN_TENSOR(host_copy(t.q)),
                                  KILN_TENSOR(host_copy(t.q_rotary)),
                                  KILN_TENSOR(host_copy(t.cache)),
                                  KILN_TENSOR(host_copy(t.rotary_cache)),
                                  KILN_TENSOR(host_copy(t.lengths)),
                                  KILN_TENSOR(out),
                                  KILN_TENSOR(lse),
                                  KILN_INT(1),
                                  KILN_FLOAT(1.0 / 24) };
        run_reference("mla/decode_contiguous.tile", "mla_decode_contiguous", "T=f32", args, 9);
        kiln_mla_decode_contiguous_args a = arguments(&t);
        a.cache = of(codes), a.scales = of(scales), a.splits = c ? 2 : 0;
        run(&a);
        array_fetch(t.out), array_fetch(t.lse);
        assert_close("out", t.out, numbers(out), (Tolerance){ 8e-3, 1.0 / 64, 1e-5 });
        assert_close("lse", t.lse, numbers(lse), (Tolerance){ 1e-3, 1e-3, 1e-6 });
        free_arrays(NULL);
    }
}

static void refusals(void **state)
{
    const Tensors t = make(KILN_F16);
    kiln_tensor q = t.q->tensor, cache = t.cache->tensor, rotary = t.rotary_cache->tensor, lse = t.lse->tensor;
    kiln_mla_decode_contiguous_args a = arguments(&t);
    a.q = &q, a.cache = &cache, a.rotary_cache = &rotary, a.lse = &lse, a.splits = 2;
    assert_ok(kiln_mla_decode_contiguous_workspace_size(ops, &a, &a.workspace_bytes));
    a.workspace = bytes_new(a.workspace_bytes)->tensor.data;
#define RUN kiln_mla_decode_contiguous(ops, NULL, &a)
    REFUSED(RUN, a, a.q_rotary = NULL, KILN_BAD_ARGUMENT, "kiln_mla_decode_contiguous: 'q_rotary' is null");
    REFUSED(RUN, a, a.splits = -1, KILN_BAD_ARGUMENT, "'splits' is -1, expected 1 to 65536, or 0");
    REFUSED(RUN, a, a.scale = &(double){ -1 }, KILN_BAD_ARGUMENT, "'scale' is -1");
    REFUSED(RUN, a, a.workspace_bytes -= 256, KILN_BAD_ARGUMENT, "kiln_mla_decode_contiguous");
    REFUSED_TENSOR(RUN, q, type = KILN_F32, KILN_BAD_TYPE, "'q' is a tensor of f32, expected f16 or bf16");
    REFUSED_TENSOR(RUN, q, shape[2] = 576, KILN_BAD_SHAPE, "dimension 2 of 'q' is 576, expected 512");
    REFUSED_TENSOR(RUN, cache, shape[1] = 7, KILN_BAD_SHAPE, "dimension 1 of 'rotary_cache' is 150, expected 7");
    REFUSED_TENSOR(RUN, rotary, type = KILN_BF16, KILN_BAD_TYPE,
                   "'rotary_cache' is a tensor of bf16, expected f16 as 'q'");
    REFUSED_TENSOR(RUN, lse, data = t.out->tensor.data, KILN_BAD_ARGUMENT, "'out' and 'lse' overlap");
    REFUSED(RUN, a, a.scales = &lse, KILN_BAD_ARGUMENT, "'scales' is not null, expected NULL with a cache of f16");
    REFUSED_TENSOR(RUN, cache, type = KILN_U8, KILN_BAD_TYPE, "'cache' is a tensor of u8, expected f16 as 'q'");
    array_unchanged(t.out, "out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(decoding, free_arrays),
        cmocka_unit_test_teardown(decoding_of_fp8, free_arrays),
        cmocka_unit_test_teardown(refusals, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
