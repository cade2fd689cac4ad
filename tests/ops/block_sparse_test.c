// SPDX-License-Identifier: MIT
// block_sparse_test.c - products over blocks against the kernel's reference; what the mask leaves out is not read; what is refused.
#include "support.h"

#include "kiln/ops/block_sparse.h"

static const kiln_tensor *of(const Array *x) { return x ? &x->tensor : NULL; }

typedef struct Case {
    kiln_type type, result, mask;
    int64_t m, n, k, block_m, block_n, block_k;
    bool transpose_b, apart;
} Case;

static int64_t blocks(int64_t n, int64_t block, int64_t otherwise)
{
    const int64_t size = block ? block : otherwise;
    return (n + size - 1) / size;
}

static void check(const Case *c)
{
    const int64_t rows = blocks(c->m, c->block_m, 128), columns = blocks(c->n, c->block_n, 128),
                  deep = blocks(c->k, c->block_k, 64);
    const int64_t bm = c->block_m ? c->block_m : 128, bn = c->block_n ? c->block_n : 128,
                  bk = c->block_k ? c->block_k : 64;
    Array *const a = ARRAY(c->type, c->m, c->k), *const mask = ARRAY(c->mask, rows, columns, deep);
    Array *const b = c->transpose_b ? ARRAY(c->type, c->n, c->k) : ARRAY(c->type, c->k, c->n);
    Array *const to = ARRAY(c->result, c->m, c->n);
    for (int64_t i = 0; i < count(mask); i++) set(mask, i, i / deep == 0 ? 0 : (double)integer(0, 1));
    draw_random(a, -1, 1);
    for (int64_t m = 0; m < c->m; m++) // what no block keeps is not read
        for (int64_t k = 0; k < c->k; k++) {
            bool kept = false;
            for (int64_t n = 0; n < columns; n++) kept |= get(mask, (m / bm * columns + n) * deep + k / bk) != 0;
            if (!kept) set(a, m * c->k + k, NAN);
        }
    array_send(a), array_send(mask), array_send(to);
    fill_random(b, -1, 1);
    kiln_tensor host_mask = *host_copy(mask);
    host_mask.type = KILN_U8;
    const kiln_tensor *const expected = host_result(to);
    char bindings[96];
    snprintf(bindings, sizeof bindings, "T=f32, TC=f32, TB=%s, GM=%d, GN=%d, GK=%d", c->transpose_b ? "true" : "false",
             (int)bm, (int)bn, (int)bk);
    const kiln_arg host[] = { KILN_TENSOR(host_copy(a)), KILN_TENSOR(host_copy(b)), KILN_TENSOR(&host_mask),
                              KILN_TENSOR(expected) };
    run_reference("gemm/block_sparse.tile", "gemm_block_sparse", bindings, host, 4);
    const kiln_block_sparse_gemm_args args = { .a = of(c->apart ? array_spread(a, false) : a),
                                               .b = of(b),
                                               .mask = of(mask),
                                               .c = of(to),
                                               .block_m = c->block_m,
                                               .block_n = c->block_n,
                                               .block_k = c->block_k,
                                               .transpose_b = c->transpose_b };
    assert_ok(kiln_block_sparse_gemm(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(to);
    assert_close("c", to, numbers(expected), (Tolerance){ 4e-2, 1e-2, 1e-4 });
}

static void products_over_blocks(void **state)
{
    check(&(Case){ KILN_F16, KILN_F16, KILN_U8, 150, 136, 200, 0, 0, 0, false, false });
    check(&(Case){ KILN_BF16, KILN_F32, KILN_BOOL, 70, 40, 72, 32, 16, 32, true, true });
    check(&(Case){ KILN_BF16, KILN_BF16, KILN_U8, 40, 400, 700, 16, 384, 320, true, false });
}

static void what_is_refused(void **state)
{
    Array *const a = ARRAY(KILN_BF16, 64, 64), *const b = ARRAY(KILN_BF16, 64, 64), *const c = ARRAY(KILN_BF16, 64, 64);
    Array *const mask = ARRAY(KILN_U8, 2, 1, 1);
    kiln_block_sparse_gemm_args g = { .a = of(a), .b = of(b), .mask = of(mask), .c = of(c), .block_m = 24 };
    assert_fails(
        kiln_block_sparse_gemm(ops, NULL, &g), KILN_UNSUPPORTED,
        "kiln_block_sparse_gemm: 'block_m' is 24, expected a power of two from 16 to 128, or a multiple of it up to 65536");
    g.block_m = 64;
    assert_fails(kiln_block_sparse_gemm(ops, NULL, &g), KILN_BAD_SHAPE,
                 "'mask' has 2 blocks of rows, expected 1 of 'block_m' = 64: M is 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(products_over_blocks, free_arrays),
        cmocka_unit_test_teardown(what_is_refused, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
