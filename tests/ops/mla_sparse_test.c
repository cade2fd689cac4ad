// SPDX-License-Identifier: MIT
// mla_sparse_test.c - decoding over lists of slots in the fp8 cache, and prefill over lists of rows, against sums in double precision
// over the kinds of tokens (latent.h), which are held against the reference of a kernel.
//
// Slots and rows that no list names are NaN; lists hold -1, numbers past the cache, and duplicates.
#include "latent.h"

enum {
    K = KILN_MLA_KEY,
    SHORT = KILN_MLA_SHORT_KEY,
    V = KILN_MLA_VALUE,
    BYTES = KILN_MLA_FP8_BYTES,
    SHORT_BYTES = KILN_MLA_FP8_SHORT_BYTES,
    FAR = 2147480000,
    UNUSED = KINDS
};
static const double ROW_MOST = 0.01; // roundings make 0.003 of it

// ---- decoding

typedef struct Case {
    int batch, queries, heads, topk, pages;
    int page_size;                                // 0: 64
    int extra_topk, extra_pages, extra_page_size; // of a second cache
    bool none_valid, round_scales, named_e4m3, lengths, sink;
    bool out_alone; // no lse
    bool is_short;  // keys of 512 values, the 584-byte format; pages lie 48 bytes apart or more
    bool unaligned; // lists and lengths begin 4 bytes further on, lists lie 3 values apart
    int partitions;
    int keys;           // > 0: lists of a request's own tokens, so many, each once; all others of the list hidden
    bool ragged, zeros; // then: about so many; some have none
} Case;

static void make_list(Array *indices, int64_t at, int64_t topk, int64_t slots, bool none_valid)
{
    for (int64_t k = 0; k < topk; k++) {
        const int64_t kind = none_valid ? 0 : integer(0, slots ? 9 : 1);
        set(indices, at + k,
            kind == 0   ? -1
            : kind == 1 ? (k % 2 ? FAR : (double)(slots + k))
                        : (double)integer(0, slots - 1));
    }
}

// Some of the n tokens that stand in the pages page[0], page[1] ... of `size` slots, in any order, at any places of a list;
// `order` has numbers 0 .. n - 1.
static void make_list_of(int32_t *list, int64_t topk, const int32_t *page, int64_t size, int64_t n, int32_t *order)
{
    for (int64_t k = 0; k < topk; k++) list[k] = -1;
    for (int64_t k = 0; k < n && k < topk; k++) {
        const int64_t from = integer(k, n - 1);
        const int32_t t = order[from];
        order[from] = order[k];
        order[k] = t;
        list[k] = page[t / size] * (int32_t)size + (int32_t)(t % size);
    }
    for (int64_t k = topk - 1; k > 0 && n < topk; k--) { // what is hidden stands among the others
        const int64_t from = integer(0, k);
        const int32_t slot = list[from];
        list[from] = list[k];
        list[k] = slot;
    }
}

// A cache and lists of its slots; `lengths` where only a part of each list counts.
typedef struct Lists {
    Array *cache, *indices, *lengths;
    ShortCache short_cache; // of the 584-byte format, whose memory is `cache`
    unsigned char *kinds;   // which of the pool's tokens a slot has a copy of; UNUSED: none
    int64_t slots, topk;
} Lists;

// Lists of a request's own tokens, in pages that no other request has.
static void make_own_lists(const Case *c, Lists *l, int64_t page_size)
{
    const int64_t each = c->pages / (c->batch + 1), most = each * page_size; // of a request
    int32_t *const pages = malloc(sizeof *pages * (size_t)c->pages), *const order =
                                                                         malloc(sizeof *order * (size_t)(most + 1));
    permute(pages, c->pages);
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t n = c->zeros && integer(0, 1) ? 0
                          : c->ragged               ? integer(c->queries, 2 * c->keys - c->queries)
                                                    : c->keys;
        assert_true(n <= most);
        for (int32_t t = 0; t < n; t++) order[t] = t;
        for (int64_t j = b * c->queries; j < (b + 1) * c->queries; j++)
            make_list_of((int32_t *)(void *)l->indices->host + j * l->topk, l->topk, pages + b * each, page_size, n,
                         order);
    }
    free(pages);
    free(order);
}

static int32_t index_of(const Lists *l, int64_t i) { return ((const int32_t *)(const void *)l->indices->host)[i]; }

// How many places of row i's list count.
static int64_t places_of(const Lists *l, const Case *c, int64_t i)
{
    return l->lengths ? (int64_t)get(l->lengths, i / c->queries) : l->topk;
}

static Lists make_lists(const Case *c, const Pool *pool, int64_t topk, int64_t pages, int64_t page_size)
{
    Lists l = { .slots = pages * page_size, .topk = topk };
    if (c->is_short) {
        l.short_cache = make_short_cache(pages, page_size, (page_size * SHORT_BYTES + 48 + 15) / 16 * 16);
        l.cache = l.short_cache.memory;
    } else {
        l.cache = ARRAY(c->named_e4m3 ? KILN_E4M3 : KILN_U8, pages, page_size, BYTES);
    }
    l.indices = ARRAY(KILN_I32, c->batch, c->queries, topk);
    l.kinds = malloc((size_t)l.slots + 1);
    memset(l.kinds, UNUSED, (size_t)l.slots + 1);
    if (c->lengths) {
        l.lengths = ARRAY(KILN_I32, c->batch);
        for (int b = 0; b < c->batch; b++) set(l.lengths, b, b == 0 ? 0 : (double)integer(0, topk));
        array_send(l.lengths);
    }
    if (c->keys) make_own_lists(c, &l, page_size);
    for (int64_t i = 0; i < (int64_t)c->batch * c->queries; i++) {
        if (!c->keys) make_list(l.indices, i * topk, topk, l.slots, c->none_valid);
        for (int64_t k = 0; k < places_of(&l, c, i); k++) {
            const int64_t slot = index_of(&l, i * topk + k);
            if (slot < 0 || slot >= l.slots || l.kinds[slot] != UNUSED) continue;
            l.kinds[slot] = (unsigned char)integer(0, KINDS - 1);
            if (c->is_short) put_short_token(&l.short_cache, slot, pool, l.kinds[slot]);
            else put_token(l.cache, slot, pool, l.kinds[slot]);
        }
    }
    array_send(l.indices);
    array_send(l.cache);
    return l;
}

static void count_kinds(const Lists *l, const Case *c, int64_t i, int32_t counts[KINDS])
{
    for (int64_t k = 0; k < places_of(l, c, i); k++) {
        const int64_t slot = index_of(l, i * l->topk + k);
        if (slot >= 0 && slot < l->slots) counts[l->kinds[slot]]++;
    }
}

typedef struct Comparisons {
    const Case *c;
    const Pool *pool;
    const Lists *first, *extra;
    const Array *q, *sink;
    Comparison out, lse;
} Comparisons;

// All heads of query token i.
static void compare_token(int64_t i, void *context)
{
    Comparisons *const all = context;
    const Case *const c = all->c;
    int32_t counts[KINDS] = { 0 };
    count_kinds(all->first, c, i, counts);
    if (c->extra_topk) count_kinds(all->extra, c, i, counts);
    for (int64_t h = 0; h < c->heads; h++) {
        const int size = all->pool->row;
        double q[K];
        Attended a;
        get_many(all->q, (i * c->heads + h) * size, size, q);
        attend(&a, q, all->pool->values, size, counts, size, 1 / sqrt(size), all->sink ? get(all->sink, h) : -INFINITY);
        if (isinf(a.lse)) a.lse = INFINITY;
        compare_part(&all->out, (i * c->heads + h) * V, V, a.out);
        if (!c->out_alone)
            compare_part(&all->lse, (i / c->queries * c->heads + h) * c->queries + i % c->queries, 1, &a.lse);
    }
}

static const kiln_tensor *tensor_of(const Array *a) { return a ? &a->tensor : NULL; }

static const kiln_tensor *cache_of(const Lists *l)
{
    return l->short_cache.memory ? &l->short_cache.tensor : tensor_of(l->cache);
}

static const kiln_tensor *numbers_of(const Case *c, const Array *a, kiln_tensor *moved)
{
    if (a && c->unaligned) *moved = moved_away(a);
    return a && c->unaligned ? moved : tensor_of(a);
}

static void check_decode(Case c)
{
    const kiln_mla_shape shape = { .batch = c.batch,
                                   .queries = c.queries,
                                   .query_heads = c.heads,
                                   .topk = c.topk,
                                   .extra_topk = c.extra_topk,
                                   .partitions = c.partitions };
    seed((unsigned)(c.batch * 100 + c.topk));
    Array *const q = ARRAY(KILN_BF16, c.batch, c.queries, c.heads, c.is_short ? SHORT : K),
                 *const sink = c.sink ? ARRAY(KILN_F32, c.heads) : NULL,
                 *const out = ARRAY(KILN_BF16, c.batch, c.queries, c.heads, V),
                 *const lse = ARRAY(KILN_F32, c.batch, c.heads, c.queries);
    const Pool pool = c.is_short ? make_short_pool() : make_fp8_pool(c.round_scales);
    const Lists first = make_lists(&c, &pool, c.topk, c.pages, c.page_size ? c.page_size : 64);
    const Lists extra =
        c.extra_topk ? make_lists(&c, &pool, c.extra_topk, c.extra_pages, c.extra_page_size) : (Lists){ 0 };
    fill_random(q, -1, 1);
    if (sink) fill_random(sink, -1, 4);

    size_t bytes;
    kiln_mla_plan plan;
    kiln_tensor moved[4];
    const kiln_tensor *const lengths = numbers_of(&c, first.lengths, &moved[0]), *const extra_lengths = numbers_of(
                                                                                     &c, extra.lengths, &moved[1]);
    assert_ok(kiln_mla_plan_size(ops, &shape, &bytes));
    Array *const memory = bytes_new(bytes);
    assert_ok(kiln_mla_plan_make(ops, NULL,
                                 &(kiln_mla_plan_args){ .shape = &shape,
                                                        .topk_lengths = lengths,
                                                        .extra_topk_lengths = extra_lengths,
                                                        .memory = memory->tensor.data,
                                                        .memory_bytes = bytes },
                                 &plan));
    // clang-format off
    kiln_mla_decode_sparse_args args = {
        .plan = &plan, .q = &q->tensor, .cache = cache_of(&first), .indices = numbers_of(&c, first.indices, &moved[2]),
        .topk_lengths = lengths, .extra_cache = c.extra_topk ? cache_of(&extra) : NULL,
        .extra_indices = numbers_of(&c, extra.indices, &moved[3]), .extra_topk_lengths = extra_lengths, .sink = tensor_of(sink), .out = &out->tensor,
        .lse = c.out_alone ? NULL : &lse->tensor,
        .round_scales = c.round_scales };
    assert_ok(kiln_mla_decode_sparse_workspace_size(ops, &args, &bytes));
    assert_true(bytes <= decoding_bytes(&plan)); // partial results may be of 16 bits
    Array *const workspace = bytes_new(bytes);
    args.workspace = workspace->tensor.data;
    args.workspace_bytes = bytes;
    assert_ok(kiln_mla_decode_sparse(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(memory);
    array_fetch(workspace);
    array_fetch(out);
    array_fetch(lse);
    array_unchanged(q, "q");
    array_unchanged(first.cache, "cache");
    array_unchanged(first.indices, "indices");

    Comparisons all = { .c = &c, .pool = &pool, .first = &first, .extra = &extra, .q = q, .sink = sink,
                        .out = { .name = "out", .got = out, .tolerance = { 8e-4, 2.01 / 128, 5e-6 }, .part_most = ROW_MOST },
                        .lse = { .name = "lse", .got = lse, .tolerance = { 1e-6, 8.01 / 65536, 1e-7 } } };
    in_parallel((int64_t)c.batch * c.queries, compare_token, &all);
    assert_compared(&all.out);
    if (!c.out_alone) assert_compared(&all.lse);
    free(first.kinds);
    free(extra.kinds);
    free_arrays(NULL);
}

static void decode_lists(void **state)
{
    static const int batches[] = { 1, 2, 6 }, queries[] = { 1, 2, 4 };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            check_decode((Case){ .batch = batches[i], .queries = queries[j], .heads = 4, .topk = 128, .pages = 3 });
}

static void decode_many_heads(void **state)
{
    check_decode((Case){ .batch = 2, .queries = 1, .heads = 128, .topk = 64, .pages = 2, .named_e4m3 = true });
    check_decode((Case){ .batch = 1, .queries = 2, .heads = 70, .topk = 64, .pages = 2 });
}

// Lists that are no whole blocks of 64, and long ones cut into splits.
static void decode_lists_of_any_length(void **state)
{
    check_decode((Case){ .batch = 2, .queries = 1, .heads = 3, .topk = 1, .pages = 1 });
    check_decode((Case){ .batch = 2, .queries = 2, .heads = 3, .topk = 200, .pages = 4, .partitions = 5 });
    check_decode((Case){ .batch = 1, .queries = 1, .heads = 2, .topk = 2048, .pages = 20, .partitions = 7 });
}

static void decode_without_valid_indices(void **state)
{
    check_decode((Case){ .batch = 3, .queries = 2, .heads = 4, .topk = 128, .pages = 2, .none_valid = true });
    check_decode((Case){ .batch = 3, .queries = 2, .heads = 4, .topk = 640, .pages = 1, .none_valid = true, .partitions = 9 });
}

static void decode_with_rounded_scales(void **state)
{
    check_decode((Case){ .batch = 2, .queries = 1, .heads = 4, .topk = 128, .pages = 3, .round_scales = true });
}

static void decode_part_of_each_list(void **state)
{
    check_decode((Case){ .batch = 5, .queries = 2, .heads = 3, .topk = 192, .pages = 3, .lengths = true });
    check_decode((Case){ .batch = 5, .queries = 1, .heads = 3, .topk = 700, .pages = 3, .lengths = true, .partitions = 9 });
}

static void decode_with_sinks_and_pages_of_any_size(void **state)
{
    check_decode((Case){ .batch = 2, .queries = 2, .heads = 5, .topk = 100, .pages = 9, .page_size = 7, .sink = true });
    check_decode((Case){ .batch = 2, .queries = 1, .heads = 5, .topk = 300, .pages = 1, .page_size = 256, .sink = true, .partitions = 6 });
}

static void decode_over_two_caches(void **state)
{
    check_decode((Case){ .batch = 3, .queries = 2, .heads = 4, .topk = 100, .pages = 2, .extra_topk = 70, .extra_pages = 5,
                         .extra_page_size = 20 });
    check_decode((Case){ .batch = 4, .queries = 1, .heads = 4, .topk = 300, .pages = 2, .extra_topk = 500, .extra_pages = 5,
                         .extra_page_size = 64, .lengths = true, .sink = true, .partitions = 11 });
}

static void decode_short_keys_of_two_caches(void **state)
{
    check_decode((Case){ .is_short = true, .batch = 3, .queries = 2, .heads = 4, .topk = 128, .pages = 3, .sink = true });
    check_decode((Case){ .is_short = true, .batch = 2, .queries = 1, .heads = 128, .topk = 100, .pages = 9, .page_size = 7 });
    check_decode((Case){ .is_short = true, .batch = 3, .queries = 1, .heads = 64, .topk = 200, .pages = 1, .page_size = 256, .extra_topk = 300,
                         .extra_pages = 70, .extra_page_size = 2, .lengths = true, .sink = true, .partitions = 5 });
}

static void decode_unaligned_lists_of_two_caches(void **state)
{
    check_decode((Case){ .unaligned = true, .out_alone = true, .batch = 3, .queries = 2, .heads = 5, .topk = 101, .pages = 2, .lengths = true });
    check_decode((Case){ .unaligned = true, .is_short = true, .batch = 2, .queries = 2, .heads = 4, .topk = 70, .pages = 2, .extra_topk = 65,
                         .extra_pages = 5, .extra_page_size = 20, .lengths = true });
}

// A plan of an earlier step, whose lists counted for less, leaves places out: refused where values are looked at. One for
// more, or for full lists, serves. On a GPU a refusal ends its context: there only some that serve.
static void plans_for_shorter_lists(void **state)
{
    enum { B = 3, TOPK = 300, EXTRA = 130 };
    static const struct { int planned[2], called[2]; bool refused; } steps[] = {       // of request 1; -1: no lengths are given
        { { 64, 10 }, { 64, 10 }, false }, { { 64, 10 }, { 65, 10 }, true },  { { 0, 0 }, { 0, 1 }, true },
        { { 64, 64 }, { 64, 65 }, true },  { { 300, 10 }, { 7, 10 }, false }, { { -1, -1 }, { 299, 10 }, false },
        { { 0, 0 }, { -1, -1 }, true },    { { -1, -1 }, { -1, -1 }, false } };
    const kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = 4, .topk = TOPK, .extra_topk = EXTRA, .partitions = 4 };
    kiln_ops *checked = NULL;
    size_t bytes;
    if (!on_cpu()) assert_ok(kiln_ops_open(device, &(kiln_build_options){ .check = true }, &checked));
    kiln_ops *const o = checked ? checked : ops;
    Array *const lengths = ARRAY(KILN_I32, B), *const more = ARRAY(KILN_I32, B), *const q = ARRAY(KILN_BF16, B, 1, 4, K),
          *const cache = ARRAY(KILN_U8, 2, 64, BYTES), *const indices = ARRAY(KILN_I32, B, 1, TOPK),
          *const extra = ARRAY(KILN_I32, B, 1, EXTRA), *const sink = ARRAY(KILN_F32, 4), *const out = ARRAY(KILN_BF16, B, 1, 4, V),
          *const lse = ARRAY(KILN_F32, B, 4, 1);
    assert_ok(kiln_mla_plan_size(o, &shape, &bytes));
    Array *const memory = bytes_new(bytes), *const workspace = bytes_new(1 << 20);
    for (int i = 0; i < (int)(sizeof steps / sizeof *steps); i++) {
        if (!on_cpu() && (steps[i].refused || steps[i].planned[0] < 0)) continue;
        kiln_mla_plan plan;
        kiln_mla_plan_args make = { .shape = &shape, .memory = memory->tensor.data, .memory_bytes = bytes };
        kiln_mla_decode_sparse_args args = { .plan = &plan, .q = &q->tensor, .cache = &cache->tensor, .indices = &indices->tensor,
            .extra_cache = &cache->tensor, .extra_indices = &extra->tensor, .out = &out->tensor, .lse = &lse->tensor,
            .workspace = workspace->tensor.data, .workspace_bytes = workspace->bytes };
        for (int call = 0; call < 2; call++) {
            const int *const n = call ? steps[i].called : steps[i].planned;
            for (int b = 0; b < B; b++) set(lengths, b, b == 1 ? n[0] : 20), set(more, b, b == 1 ? n[1] : 20);
            array_send(lengths);
            array_send(more);
            if (!call && n[0] >= 0) make.topk_lengths = &lengths->tensor, make.extra_topk_lengths = &more->tensor;
            if (!call) assert_ok(kiln_mla_plan_make(o, NULL, &make, &plan));
            if (call && n[0] >= 0) args.topk_lengths = &lengths->tensor, args.extra_topk_lengths = &more->tensor, args.sink = &sink->tensor;
        }
        kiln_status status = kiln_mla_decode_sparse(o, NULL, &args);
        if (!status) status = kiln_stream_wait(device, NULL);
        if (steps[i].refused) assert_fails(status, KILN_TRAPPED, "the plan was made for lists as long as these");
        else assert_ok(status);
    }
    // clang-format on
    kiln_ops_close(checked);
}

static void nothing_to_decode(void **state)
{
    check_decode((Case){ .batch = 0, .queries = 1, .heads = 4, .topk = 64, .pages = 1 });
    check_decode((Case){ .batch = 2, .queries = 0, .heads = 4, .topk = 64, .pages = 1 });
}

static void decode_lists_of_own_tokens(void **state)
{
    check_decode((Case){ .batch = 3, .queries = 2, .heads = 4, .topk = 128, .pages = 40, .keys = 140, .ragged = true });
    check_decode((Case){ .batch = 5, .queries = 2, .heads = 4, .topk = 300, .pages = 12, .keys = 20, .zeros = true });
}

// The whole grid of FlashMLA's tests, every element; with KILN_TEST_LONG. On the CPU long caches with fewer requests.
static void decode_whole_grid(void **state)
{
    static const int batches[] = { 1, 2, 6, 64 }, queries[] = { 1, 2, 4 }, keys[] = { 20, 140, 4096 },
                     lists[] = { 128, 2048, 4096 };
    const int long_batch = on_cpu() ? 2 : 128;
    need_long_tests();
    for (int i = 0; i < 4 * 3 * 3 * 2 * 2; i++) {
        const int batch = batches[i / 36], n = keys[i / 4 % 3], ragged = i / 2 % 2;
        check_decode((Case){ .batch = batch,
                             .queries = queries[i / 12 % 3],
                             .heads = 128,
                             .topk = lists[i % 2],
                             .keys = n,
                             .ragged = ragged,
                             .pages = (batch + 1) * ((ragged ? 2 * n : n) / 64 + 1) });
    }
    for (int i = 0; i < 4 * 3 * 2; i++) // lists of any slots of the cache, some more than once
        check_decode((Case){
            .batch = batches[i / 6], .queries = queries[i / 2 % 3], .heads = 128, .topk = lists[i % 2], .pages = 64 });
    for (int i = 0; i < 3; i++)
        check_decode(
            (Case){ .batch = 128, .queries = 2, .heads = 128, .topk = lists[i], .pages = 64, .none_valid = true });
    for (int i = 0; i < 2; i++)
        check_decode((Case){ .batch = 128,
                             .queries = 2,
                             .heads = 128,
                             .topk = lists[i],
                             .keys = 4096,
                             .ragged = true,
                             .zeros = true,
                             .pages = 129 * 129 });
    for (int i = 0; i < 4 * 2; i++)
        check_decode((Case){ .batch = long_batch,
                             .queries = 1 + i % 2,
                             .heads = 128,
                             .topk = 2048,
                             .keys = 4096 << i / 2,
                             .ragged = true,
                             .pages = (long_batch + 1) * (129 << i / 2) });
    check_decode((Case){ .batch = 1, .queries = 1, .heads = 128, .topk = 32768, .pages = 512 });
}

// ---- prefill

typedef struct Prefill {
    int queries, heads, size, keys, topk;
    bool sink, lengths, base2, unaligned, out_alone;
} Prefill;

typedef struct Prefilled {
    const Prefill *c;
    const Pool *pool;
    const Array *q, *indices, *lengths, *sink;
    const unsigned char *kinds;
    Comparison out, top, lse;
} Prefilled;

static int places_of_query(const Prefilled *p, int64_t i) { return p->lengths ? (int)get(p->lengths, i) : p->c->topk; }

static void compare_prefilled(int64_t i, void *context)
{
    Prefilled *const p = context;
    const Prefill *const c = p->c;
    const int32_t *const list = (const int32_t *)(const void *)p->indices->host + i * c->topk;
    int32_t counts[KINDS] = { 0 };
    for (int k = 0; k < places_of_query(p, i); k++)
        if (list[k] >= 0 && list[k] < c->keys) counts[p->kinds[list[k]]]++;
    for (int64_t row = i * c->heads; row < (i + 1) * c->heads; row++) {
        double q[K];
        Attended a;
        get_many(p->q, row * c->size, c->size, q);
        attend(&a, q, p->pool->values, c->size, counts, c->size, 1 / sqrt(c->size),
               p->sink ? get(p->sink, row % c->heads) : -INFINITY);
        if (c->base2) a.top /= log(2), a.lse /= log(2);
        else if (isinf(a.lse)) a.lse = INFINITY;
        compare_part(&p->out, row * V, V, a.out);
        if (!c->out_alone) compare_part(&p->top, row, 1, &a.top);
        if (!c->out_alone) compare_part(&p->lse, row, 1, &a.lse);
    }
}

static const kiln_tensor *numbers_of_prefill(const Prefill *c, const Array *a, kiln_tensor *moved)
{
    return numbers_of(&(Case){ .unaligned = c->unaligned }, a, moved);
}

static void check_prefill(Prefill c)
{
    seed((unsigned)(c.keys + c.topk));
    Array *const q = ARRAY(KILN_BF16, c.queries, c.heads, c.size), *const kv = ARRAY(KILN_BF16, c.keys, c.size),
                 *const indices = ARRAY(KILN_I32, c.queries, c.topk),
                 *const sink = c.sink ? ARRAY(KILN_F32, c.heads) : NULL,
                 *const lengths = c.lengths ? ARRAY(KILN_I32, c.queries) : NULL,
                 *const out = ARRAY(KILN_BF16, c.queries, c.heads, V), *const top = ARRAY(KILN_F32, c.queries, c.heads),
                 *const lse = ARRAY(KILN_F32, c.queries, c.heads);
    const Pool pool = make_pool(KILN_BF16, c.size);
    unsigned char *const kinds = malloc((size_t)c.keys + 1);
    Prefilled all = {
        .c = &c,
        .pool = &pool,
        .q = q,
        .indices = indices,
        .lengths = lengths,
        .sink = sink,
        .kinds = kinds,
        .out = { .name = "out", .got = out, .tolerance = { 8e-4, 2.01 / 128, 7e-6 }, .part_most = ROW_MOST },
        .top = { .name = "max_logits", .got = top, .tolerance = { 1e-6, 2.01 / 65536, 1e-7 } },
        .lse = { .name = "lse", .got = lse, .tolerance = { 1e-6, 2.01 / 65536, 1e-7 } }
    };
    memset(kinds, UNUSED, (size_t)c.keys + 1);
    fill_random(q, -1, 1);
    if (sink) fill_random(sink, -1, 4);
    for (int i = 0; i < c.queries; i++) {
        make_list(indices, (int64_t)i * c.topk, c.topk, c.keys, c.queries > 2 && i == 1);
        if (lengths) set(lengths, i, i == 0 ? 0 : (double)integer(0, c.topk));
        for (int k = 0; k < places_of_query(&all, i); k++) {
            const int32_t t = ((const int32_t *)(const void *)indices->host)[(int64_t)i * c.topk + k];
            if (t < 0 || t >= c.keys || kinds[t] != UNUSED) continue; // what no list names stays NaN
            kinds[t] = (unsigned char)integer(0, KINDS - 1);
            put_token(kv, t, &pool, kinds[t]);
        }
    }
    array_send(kv);
    array_send(indices);
    if (lengths) array_send(lengths);
    kiln_tensor moved[2];
    assert_ok(kiln_mla_prefill_sparse(
        ops, NULL,
        &(kiln_mla_prefill_sparse_args){ .q = &q->tensor,
                                         .kv = &kv->tensor,
                                         .indices = numbers_of_prefill(&c, indices, &moved[0]),
                                         .topk_lengths = numbers_of_prefill(&c, lengths, &moved[1]),
                                         .sink = sink ? &sink->tensor : NULL,
                                         .out = &out->tensor,
                                         .max_logits = c.out_alone ? NULL : &top->tensor,
                                         .lse = c.out_alone ? NULL : &lse->tensor,
                                         .base2 = c.base2 }));
    assert_ok(kiln_stream_wait(device, NULL));
    array_fetch(out);
    array_fetch(top);
    array_fetch(lse);
    array_unchanged(q, "q");
    array_unchanged(kv, "kv");
    array_unchanged(indices, "indices");

    in_parallel(c.queries, compare_prefilled, &all);
    assert_compared(&all.out);
    if (!c.out_alone) assert_compared(&all.top);
    if (!c.out_alone) assert_compared(&all.lse);
    free(kinds);
    free_arrays(NULL);
}

// clang-format off
static const struct { int keys, topk; } sizes[] = {
    { 128, 128 }, { 256, 256 }, { 512, 512 }, { 592, 128 }, { 1840, 256 }, { 1592, 384 }, { 1521, 512 }, { 95, 128 },
    { 153, 256 }, { 114, 384 } };

static void prefill_lists(void **state)
{
    for (int i = 0; i < 10; i++)
        for (int queries = 1; queries <= (on_cpu() ? 9 : 1); queries += 8)
            check_prefill((Prefill){ .queries = queries, .heads = 3, .size = K, .keys = sizes[i].keys, .topk = sizes[i].topk });
}
// clang-format on

// Whole blocks without a valid index.
static void prefill_long_lists_of_few_keys(void **state)
{
    check_prefill((Prefill){ .queries = 3, .heads = 2, .size = K, .keys = 32, .topk = 2048 });
    check_prefill((Prefill){ .queries = 3, .heads = 2, .size = K, .keys = 0, .topk = 130 });
}

static void prefill_options(void **state)
{
    check_prefill(
        (Prefill){ .queries = 5, .heads = 128, .size = K, .keys = 70, .topk = 100, .sink = true, .lengths = true });
    check_prefill((Prefill){ .queries = 5, .heads = 16, .size = V, .keys = 70, .topk = 100, .base2 = true });
    check_prefill((Prefill){ .queries = 5,
                             .heads = 3,
                             .size = V,
                             .keys = 70,
                             .topk = 99,
                             .lengths = true,
                             .unaligned = true,
                             .out_alone = true });
    check_prefill((Prefill){ .queries = 0, .heads = 16, .size = V, .keys = 70, .topk = 100 });
}

// The whole grid of FlashMLA's tests, every element; with KILN_TEST_LONG. On the CPU with fewer queries where lists are long.
static void prefill_whole_grid(void **state)
{
    static const int keys[] = { 4096, 8192, 16384, 32768, 49152, 65536, 81920, 98304, 114688, 131072 };
    const int corner = on_cpu() ? 16 : 1024, many = on_cpu() ? 4 : 4096;
    need_long_tests();
    for (int i = 0; i < 10 * 2; i++)
        check_prefill((Prefill){
            .queries = i % 2 ? 62 : 1, .heads = 128, .size = K, .keys = sizes[i / 2].keys, .topk = sizes[i / 2].topk });
    for (int i = 0; i < 2 * 2; i++)
        check_prefill((Prefill){ .queries = i % 2 ? corner : 1,
                                 .heads = 128,
                                 .size = K,
                                 .keys = i < 2 ? 32 : 64,
                                 .topk = i < 2 ? 2048 : 8192 });
    for (int i = 0; i < 10; i++)
        check_prefill((Prefill){ .queries = many, .heads = 128, .size = K, .keys = keys[i], .topk = 2048 });
}

// ---- the sums

// Those of latent.h are what a kernel's reference makes of lists that name each kind as often.
static void sums_over_kinds(void **state)
{
    enum { ROWS = 3, HEADS = 2, TOPK = 400, ALL = ROWS * HEADS };
    const Pool pool = make_pool(KILN_BF16, K);
    Array *const q = ARRAY(KILN_BF16, ROWS, HEADS, K), *const indices = ARRAY(KILN_I32, ROWS, TOPK),
                 *const sink = ARRAY(KILN_F32, HEADS), *const out = ARRAY(KILN_BF16, ROWS, HEADS, V),
                 *const top = ARRAY(KILN_F32, ROWS, HEADS), *const lse = ARRAY(KILN_F32, ROWS, HEADS);
    double *const qs = (draw_random(q, -9, 9), values(q)), *const outs = values(out), *const tops = values(top),
                  *const lses = values(lse);
    int32_t counts[ROWS][KINDS] = { { 0 } };
    for (int i = 0; i < ROWS * TOPK; i++) {
        const int kind = (int)integer(0, i % 3 ? 9 : KINDS - 1);
        set(indices, i, kind);
        counts[i / TOPK][kind]++;
    }
    draw_random(sink, -1, 3);
    const kiln_arg args[] = {
        mirror_arg(q),   mirror_arg(pool.tokens), host_arg(indices),      host_arg(sink), KILN_NONE, KILN_NONE,
        mirror_arg(out), // the mirrors of the results
        mirror_arg(top), mirror_arg(lse),         KILN_FLOAT(1 / sqrt(K))
    };
    run_reference("mla/prefill.tile", "mla_prefill_sparse", "", args, 10);
    for (int i = 0; i < ALL; i++) {
        Attended a;
        attend(&a, qs + i * K, pool.values, K, counts[i / HEADS], K, 1 / sqrt(K), get(sink, i % HEADS));
        memcpy(outs + i * V, a.out, sizeof a.out);
        tops[i] = a.top, lses[i] = a.lse;
    }
    assert_close("out", out, outs, (Tolerance){ 1e-30, 4e-3, 4e-6 }); // rounded to bf16
    assert_close("max_logits", top, tops, (Tolerance){ 1e-6, 1e-6, 1e-12 });
    assert_close("lse", lse, lses, (Tolerance){ 1e-6, 1e-6, 1e-12 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sums_over_kinds, free_arrays),
        cmocka_unit_test_teardown(decode_lists, free_arrays),
        cmocka_unit_test_teardown(decode_many_heads, free_arrays),
        cmocka_unit_test_teardown(decode_lists_of_any_length, free_arrays),
        cmocka_unit_test_teardown(decode_without_valid_indices, free_arrays),
        cmocka_unit_test_teardown(decode_with_rounded_scales, free_arrays),
        cmocka_unit_test_teardown(decode_part_of_each_list, free_arrays),
        cmocka_unit_test_teardown(decode_with_sinks_and_pages_of_any_size, free_arrays),
        cmocka_unit_test_teardown(decode_over_two_caches, free_arrays),
        cmocka_unit_test_teardown(decode_short_keys_of_two_caches, free_arrays),
        cmocka_unit_test_teardown(decode_unaligned_lists_of_two_caches, free_arrays),
        cmocka_unit_test_teardown(decode_lists_of_own_tokens, free_arrays),
        cmocka_unit_test_teardown(decode_whole_grid, free_arrays),
        cmocka_unit_test_teardown(plans_for_shorter_lists, free_arrays),
        cmocka_unit_test_teardown(nothing_to_decode, free_arrays),
        cmocka_unit_test_teardown(prefill_lists, free_arrays),
        cmocka_unit_test_teardown(prefill_long_lists_of_few_keys, free_arrays),
        cmocka_unit_test_teardown(prefill_options, free_arrays),
        cmocka_unit_test_teardown(prefill_whole_grid, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
