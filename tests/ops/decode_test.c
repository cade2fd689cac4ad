// SPDX-License-Identifier: MIT
// decode_test.c - masked multi-head decoding: every option of it against the kernel's reference, out and cache alike.
//
// Caches begin as NaN, pages lie in random order, and only what may be read is filled.
#include "support.h"

enum {
    BIASES = 1 << 0,
    QKV_SCALES = 1 << 1,
    OUT_SCALE = 1 << 2,
    FINISHED = 1 << 3,
    PREFIX = 1 << 4,
    POSITIONS = 1 << 5,
    TASKS = 1 << 6,
    SLOPES = 1 << 7,
    BIAS = 1 << 8,
    BUCKETS = 1 << 9,
    ONE_SIDED = 1 << 10,
    POOL2 = 1 << 11,
    SCALES = 1 << 12,
    SOURCES = 1 << 13,
    CROSS = 1 << 14,
    LOG = 1 << 15,
    PACKED = 1 << 16,
    AFTER_PREFIX = 1 << 17,
    SINKS = 1 << 19,
    MOVED = 1 << 18, // tensors of i32 are aligned to 4 bytes alone, and have strides
};

typedef struct Case {
    unsigned with;
    kiln_type type, projection, cache, out; // 0: as `type`
    int heads, key_heads, size, page, pages, ring, beams, splits;
    int trained, distance, max_length;
    double scale;
    kiln_rotary rotary;
} Case;

enum { ROWS = 8, NT = 3, L = 80, NB = 16 };

typedef struct Tensors {
    Array *q, *k, *v, *cache, *table, *lengths, *out, *scales, *cache2, *bias_q, *bias_k, *bias_v, *qkv_scales, *tasks;
    Array *key_factors, *value_factors, *positions, *prefix, *slopes, *bias, *buckets, *finished, *sources, *prompts;
    Array *out_scale, *sinks;
    kiln_tensor moved_table, moved_lengths, moved_tasks, moved_positions, moved_prefix, moved_sources, moved_prompts;
} Tensors;

static bool has(const Case *c, unsigned option) { return (c->with & option) != 0; }

static Array *filled(kiln_type type, int rank, const int64_t *shape, double low, double high)
{
    Array *const a = array_new(type, rank, shape);
    if (type == KILN_I8 || type == KILN_I32)
        for (int64_t i = 0; i < count(a); i++) set(a, i, (double)integer((int64_t)low, (int64_t)high));
    else draw_random(a, low, high);
    array_send(a);
    return a;
}
#define FILLED(type, low, high, ...)                                                                                   \
    filled(type, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ }, low, high)

// Around a ring's size; of beams, which it must hold, below it.
static int length_of(const Case *c, int r)
{
    const int ring = c->ring ? c->ring : c->page * c->pages;
    const int lengths[] = { 0, 1, ring - 1, ring, ring + 1, 2 * ring + 3, 13, 5 };
    if (has(c, CROSS)) return lengths[r] < c->page * c->pages ? lengths[r] : c->page * c->pages;
    if (has(c, SOURCES)) return r / c->beams % 2 ? 7 : ring - 5;
    return has(c, BIAS) && lengths[r] > L - 4 ? L - 4 : lengths[r];
}

// What the cache holds for a row; a few entries of the table name the second pool.
static void fill_row(const Case *c, const Tensors *t, int r, int tokens)
{
    const int64_t HKV = c->key_heads, D = c->size;
    const bool is_i8 = c->cache == KILN_I8;
    for (int kv = 0; kv < 2; kv++)
        for (int p = 0; p < tokens; p++)
            for (int64_t g = 0; g < HKV; g++) {
                const double entry = get(t->table, (r * 2 + kv) * c->pages + p / c->page);
                Array *const pool = entry < 0 ? t->cache2 : t->cache;
                const int64_t block = (int64_t)(entry < 0 ? entry + 2147483648.0 : entry);
                const int64_t at = (block * HKV + g) * c->page + p % c->page;
                for (int64_t d = 0; d < D; d++)
                    set(pool, at * D + d, is_i8 ? (double)integer(-127, 127) : uniform(-1, 1));
                if (has(c, SCALES)) set(t->scales, at, is_i8 ? uniform(1, 2) / 127 : uniform(0.5, 1.5));
            }
}

static void fill_cache(const Case *c, const Tensors *t)
{
    const int entries = ROWS * 2 * c->pages, ring = c->ring ? c->ring : c->page * c->pages;
    int32_t blocks[ROWS * 2 * 16];
    permute(blocks, entries);
    for (int i = 0; i < entries; i++) set(t->table, i, blocks[i] - (has(c, POOL2) && integer(0, 1) ? 2147483648.0 : 0));
    for (int r = 0; r < ROWS; r++) {
        const int n = (int)get(t->lengths, r) + (has(c, PREFIX) ? (int)get(t->prefix, r) : 0);
        fill_row(c, t, r, has(c, CROSS) || n < ring ? n : ring);
    }
    array_send(t->table), array_send(t->cache);
    if (has(c, POOL2)) array_send(t->cache2);
    if (has(c, SCALES)) array_send(t->scales);
}

static void make_projections(const Case *c, Tensors *t)
{
    const bool is_i8 = c->projection == KILN_I8;
    const double most = is_i8 ? 127 : 1;
    const int64_t H = c->heads, HKV = c->key_heads, D = c->size;
    if (has(c, PACKED)) {
        Array *const all = FILLED(c->projection, -most, most, ROWS, H + 2 * HKV, D);
        t->q = array_part(all, 1, 0, H);
        t->k = array_part(all, 1, H, HKV);
        t->v = array_part(all, 1, H + HKV, HKV);
    } else {
        t->q = FILLED(c->projection, -most, most, ROWS, H, D);
        if (has(c, CROSS)) return;
        t->k = FILLED(c->projection, -most, most, ROWS, HKV, D);
        t->v = FILLED(c->projection, -most, most, ROWS, HKV, D);
    }
}

static void make_options(const Case *c, Tensors *t)
{
    const int64_t H = c->heads, HKV = c->key_heads, D = c->size;
    if (has(c, BIASES)) t->bias_q = FILLED(c->type, -1, 1, H, D);
    if (has(c, BIASES) && !has(c, CROSS))
        t->bias_k = FILLED(c->type, -1, 1, HKV, D), t->bias_v = FILLED(c->type, -1, 1, HKV, D);
    if (has(c, QKV_SCALES)) t->qkv_scales = FILLED(KILN_F32, 0.005, 0.02, 3);
    if (has(c, TASKS)) {
        t->tasks = FILLED(KILN_I32, 0, NT - 1, ROWS / c->beams);
        t->key_factors = FILLED(c->type, 0.5, 1.5, NT, HKV, D);
        t->value_factors = FILLED(c->type, 0.5, 1.5, NT, HKV, D);
    }
    if (has(c, POSITIONS)) t->positions = FILLED(KILN_I32, 0, 60, ROWS, 3);
    if (has(c, SLOPES)) t->slopes = FILLED(KILN_F32, 0, 0.3, H);
    if (has(c, BIAS)) t->bias = FILLED(c->type, -1, 1, H, L, L);
    if (has(c, BUCKETS)) t->buckets = FILLED(c->type, -1, 1, H, NB);
    if (has(c, FINISHED)) {
        t->finished = ARRAY(KILN_BOOL, ROWS);
        for (int r = 0; r < ROWS; r++) set(t->finished, r, r == 3 || r == 6);
        array_send(t->finished);
    }
    if (has(c, SOURCES)) { // entries that are not used name no beam
        t->prompts = ARRAY(KILN_I32, ROWS);
        t->sources = ARRAY(KILN_I32, ROWS, c->page * c->pages);
        for (int r = 0; r < ROWS; r++) set(t->prompts, r, r % 3 * 3);
        for (int r = 0; r < ROWS; r++)
            for (int p = r % 3 * 3; p < length_of(c, r); p++)
                set(t->sources, r * c->page * c->pages + p, (double)integer(0, c->beams - 1));
        array_send(t->prompts), array_send(t->sources);
    }
    if (has(c, OUT_SCALE)) t->out_scale = FILLED(KILN_F32, 50, 50, 1);
    if (has(c, SINKS)) {
        t->sinks = FILLED(KILN_F32, -2, 3, c->heads);
        set(t->sinks, 1, -INFINITY), set(t->sinks, c->heads - 1, 90);
        array_send(t->sinks);
    }
}

static Tensors make_tensors(const Case *c)
{
    const int64_t H = c->heads, HKV = c->key_heads, D = c->size, blocks = ROWS * 2 * c->pages;
    Tensors t = { .cache = ARRAY(c->cache, blocks, HKV, c->page, D),
                  .table = ARRAY(KILN_I32, ROWS, 2, c->pages),
                  .lengths = ARRAY(KILN_I32, ROWS),
                  .out = ARRAY(c->out, ROWS, H, D) };
    make_projections(c, &t);
    make_options(c, &t);
    if (has(c, PREFIX)) t.prefix = FILLED(KILN_I32, 0, 3, ROWS);
    if (has(c, POOL2)) t.cache2 = ARRAY(c->cache, blocks, HKV, c->page, D);
    if (has(c, SCALES)) t.scales = ARRAY(KILN_F32, blocks, HKV, c->page);
    for (int r = 0; r < ROWS; r++) set(t.lengths, r, length_of(c, r));
    array_send(t.lengths);
    fill_cache(c, &t);
    if (has(c, MOVED)) {
        t.moved_table = moved_away(t.table), t.moved_lengths = moved_away(t.lengths);
        if (t.tasks) t.moved_tasks = moved_away(t.tasks);
        if (t.positions) t.moved_positions = moved_away(t.positions);
        if (t.prefix) t.moved_prefix = moved_away(t.prefix);
        if (t.sources) t.moved_sources = moved_away(t.sources), t.moved_prompts = moved_away(t.prompts);
    }
    return t;
}

static const kiln_tensor *tensor_or_null(const Array *a) { return a ? &a->tensor : NULL; }

static const kiln_tensor *maybe_moved(const Array *a, const kiln_tensor *moved)
{
    return a && moved->data ? moved : tensor_or_null(a);
}

static kiln_masked_decode_args arguments(const Case *c, const Tensors *t)
{
    return (kiln_masked_decode_args){ .q = &t->q->tensor,
                                      .k = tensor_or_null(t->k),
                                      .v = tensor_or_null(t->v),
                                      .cache = &t->cache->tensor,
                                      .table = maybe_moved(t->table, &t->moved_table),
                                      .lengths = maybe_moved(t->lengths, &t->moved_lengths),
                                      .out = &t->out->tensor,
                                      .rotary = c->rotary.style ? &c->rotary : NULL,
                                      .scales = tensor_or_null(t->scales),
                                      .cache2 = tensor_or_null(t->cache2),
                                      .ring = c->ring,
                                      .max_length = c->max_length,
                                      .splits = c->splits,
                                      .q_bias = tensor_or_null(t->bias_q),
                                      .k_bias = tensor_or_null(t->bias_k),
                                      .v_bias = tensor_or_null(t->bias_v),
                                      .qkv_scales = tensor_or_null(t->qkv_scales),
                                      .type = c->projection == KILN_I8 ? c->type : 0,
                                      .tasks = maybe_moved(t->tasks, &t->moved_tasks),
                                      .key_factors = tensor_or_null(t->key_factors),
                                      .value_factors = tensor_or_null(t->value_factors),
                                      .positions = maybe_moved(t->positions, &t->moved_positions),
                                      .prefix_lengths = maybe_moved(t->prefix, &t->moved_prefix),
                                      .positions_after_prefix = has(c, AFTER_PREFIX),
                                      .scale = c->scale > 0 ? &c->scale : NULL,
                                      .slopes = tensor_or_null(t->slopes),
                                      .bias = tensor_or_null(t->bias),
                                      .bucket_bias = tensor_or_null(t->buckets),
                                      .bucket_distance = c->distance,
                                      .one_sided_buckets = has(c, ONE_SIDED),
                                      .log_scaling = has(c, LOG),
                                      .trained_length = c->trained,
                                      .finished = tensor_or_null(t->finished),
                                      .cross = has(c, CROSS),
                                      .beams = c->beams == 1 ? 0 : c->beams,
                                      .sources = maybe_moved(t->sources, &t->moved_sources),
                                      .prompt_lengths = maybe_moved(t->prompts, &t->moved_prompts),
                                      .out_scale = tensor_or_null(t->out_scale),
                                      .sinks = tensor_or_null(t->sinks) };
}

// ---- the reference

typedef struct Expected {
    const kiln_tensor *out, *cache, *cache2, *scales;
} Expected;

static const char *yes(bool is) { return is ? "true" : "false"; }

static double or_else(double given, double otherwise) { return given != 0 ? given : otherwise; }

static void print_bindings(const Case *c, const Tensors *t, char *text, size_t bytes)
{
    const kiln_rotary *const r = &c->rotary;
    const int style = (int)r->style;
    const int64_t size = r->size ? r->size : style == KILN_ROTARY_INTERLEAVED ? c->size / 2 : c->size;
    const struct {
        const char *name;
        const Array *array;
    } optional[] = {
        { "K", t->k },
        { "V", t->v },
        { "QB", t->bias_q },
        { "KB", t->bias_k },
        { "VB", t->bias_v },
        { "QKV_SCALE", t->qkv_scales },
        { "OUT_SCALE", t->out_scale },
        { "FINISHED", t->finished },
        { "PREFIX", t->prefix },
        { "POSITION", t->positions },
        { "TASK", t->tasks },
        { "IA3K", t->key_factors },
        { "IA3V", t->value_factors },
        { "SLOPE", t->slopes },
        { "RELATIVE", t->bias },
        { "BUCKET", t->buckets },
        { "POOL2", t->cache2 },
        { "STEP", t->scales },
        { "CONTEXT", t->prompts },
        { "SOURCE", t->sources },
        { "SINK", t->sinks },
    };
    int n =
        snprintf(text, bytes,
                 "T=f32, TC=%s, TQ=%s, TO=f32, DH=%d, G=%d, TB=%d, BN=16, ROPE=%d, ROT=%d, INT8=%s, LOGN=%s, "
                 "CROSS=%s, BOTH=%s",
                 c->cache == KILN_I8 ? "i8" : "f32", c->projection == KILN_I8 ? "i8" : "f32", c->size,
                 c->heads / c->key_heads, c->page, style, style == KILN_ROTARY_INTERLEAVED ? 2 * (int)size : (int)size,
                 yes(c->cache == KILN_I8), yes(has(c, LOG)), yes(has(c, CROSS)), yes(!has(c, ONE_SIDED)));
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (!optional[i].array) n += snprintf(text + n, bytes - (size_t)n, ", %s=none", optional[i].name);
}

static Expected expect(const Case *c, const Tensors *t)
{
    char bindings[640];
    const kiln_rotary *const r = &c->rotary;
    const int capacity = c->page * c->pages;
    const Expected e = { host_result(t->out), host_copy(t->cache), t->cache2 ? host_copy(t->cache2) : NULL,
                         t->scales ? host_copy(t->scales) : NULL };
    const kiln_arg args[] = { KILN_TENSOR(host_copy(t->q)),
                              host_arg(t->k),
                              host_arg(t->v),
                              KILN_TENSOR(e.cache),
                              KILN_TENSOR(host_copy(t->table)),
                              KILN_TENSOR(host_copy(t->lengths)),
                              KILN_TENSOR(e.out),
                              e.scales ? KILN_TENSOR(e.scales) : KILN_NONE,
                              e.cache2 ? KILN_TENSOR(e.cache2) : KILN_NONE,
                              host_arg(t->bias_q),
                              host_arg(t->bias_k),
                              host_arg(t->bias_v),
                              host_arg(t->qkv_scales),
                              host_arg(t->tasks),
                              host_arg(t->key_factors),
                              host_arg(t->value_factors),
                              host_arg(t->positions),
                              host_arg(t->prefix),
                              host_arg(t->slopes),
                              host_arg(t->bias),
                              host_arg(t->buckets),
                              host_arg(t->finished),
                              host_arg(t->sources),
                              host_arg(t->prompts),
                              host_arg(t->out_scale),
                              host_arg(t->sinks),
                              KILN_INT(1),
                              KILN_INT(c->ring ? c->ring : capacity),
                              KILN_INT(c->ring ? c->ring : capacity),
                              KILN_INT(c->beams),
                              KILN_FLOAT(or_else(c->scale, 1 / sqrt(c->size))),
                              KILN_INT(c->distance),
                              KILN_INT(!has(c, AFTER_PREFIX)),
                              KILN_FLOAT(or_else(r->base, 10000)),
                              KILN_FLOAT(or_else(r->scale, 1)),
                              KILN_FLOAT(or_else(r->low, 1)),
                              KILN_FLOAT(or_else(r->high, r->style == KILN_ROTARY_YARN ? 32 : 4)),
                              KILN_FLOAT(or_else(r->extrapolation, 1)),
                              KILN_FLOAT(or_else(r->magnitude, 1)),
                              KILN_INT(r->offset),
                              KILN_INT(c->trained) };
    print_bindings(c, t, bindings, sizeof bindings);
    run_reference("decode/masked.tile", "masked_mha", bindings, args, (int)(sizeof args / sizeof *args));
    return e;
}

// ---- a case

static Tolerance out_tolerance(const Case *c)
{
    return c->out == KILN_E4M3   ? (Tolerance){ 1, 0.13, 1e-2 }
           : c->type == KILN_F32 ? (Tolerance){ 5e-5, 1e-4, 1e-8 }
           : c->type == KILN_F16 ? (Tolerance){ 2e-3, 1e-2, 1e-5 }
                                 : (Tolerance){ 1e-2, 2e-2, 1e-4 };
}

// An i8 of a value halfway between two may be either.
static Tolerance cache_tolerance(const Case *c)
{
    return c->cache == KILN_I8     ? (Tolerance){ 1.01, 0, 1 }
           : c->cache == KILN_E4M3 ? (Tolerance){ 0x1p-9, 0.07, 1e-2 }
           : c->cache == KILN_F32  ? (Tolerance){ 1e-5, 1e-4, 1e-8 }
                                   : (Tolerance){ 1e-4, 1e-2, 1e-4 };
}

static void compare(const Case *c, const Tensors *t)
{
    const Expected e = expect(c, t);
    double *const out = (double *)(uintptr_t)numbers(e.out);
    const int64_t row = (int64_t)c->heads * c->size;
    for (int64_t i = 0; i < row * ROWS; i++)
        if (has(c, FINISHED) && get(t->finished, i / row) != 0) out[i] = NAN; // as it was
    array_unchanged(t->q, "q");
    array_unchanged(t->table, "table");
    array_fetch(t->out);
    array_fetch(t->cache);
    assert_close("out", t->out, out, out_tolerance(c));
    assert_close("cache", t->cache, numbers(e.cache), cache_tolerance(c));
    if (t->cache2) array_fetch(t->cache2), assert_close("cache2", t->cache2, numbers(e.cache2), cache_tolerance(c));
    if (t->scales)
        array_fetch(t->scales), assert_close("scales", t->scales, numbers(e.scales), (Tolerance){ 1e-7, 1e-4, 1e-6 });
}

static void check(Case c)
{
    seed(c.with + (unsigned)c.size);
    if (!c.type) c.type = KILN_F16;
    if (!c.projection) c.projection = c.type;
    if (!c.cache) c.cache = c.type;
    if (!c.out) c.out = c.type;
    if (!c.beams) c.beams = 1;
    if (!c.heads) c.heads = 4, c.key_heads = 2;
    if (!c.size) c.size = 32;
    if (!c.page) c.page = 8, c.pages = 5;
    const Tensors t = make_tensors(&c);
    kiln_masked_decode_args args = arguments(&c, &t);
    assert_ok(kiln_masked_decode_workspace_size(ops, &args, &args.workspace_bytes));
    args.workspace = bytes_new(args.workspace_bytes)->tensor.data; // of anything
    assert_ok(kiln_masked_decode(ops, NULL, &args));
    assert_ok(kiln_stream_wait(device, NULL));
    compare(&c, &t);
    free_arrays(NULL);
}

// ---- cases

static void plain_step(void **state)
{
    check((Case){ .heads = 8, .key_heads = 2, .size = 64, .rotary = { .style = KILN_ROTARY_HALVES } });
}

static void no_rows(void **state)
{
    Array *const q = ARRAY(KILN_F16, 0, 4, 32), *const kv = ARRAY(KILN_F16, 0, 2, 32),
                 *const out = ARRAY(KILN_F16, 0, 4, 32), *const cache = ARRAY(KILN_F16, 0, 2, 8, 32),
                 *const table = ARRAY(KILN_I32, 0, 2, 9), *const lengths = ARRAY(KILN_I32, 0);
    for (int splits = 0; splits <= 2; splits += 2) {
        const kiln_masked_decode_args args = { .q = &q->tensor,
                                               .k = &kv->tensor,
                                               .v = &kv->tensor,
                                               .cache = &cache->tensor,
                                               .table = &table->tensor,
                                               .lengths = &lengths->tensor,
                                               .out = &out->tensor,
                                               .splits = splits };
        assert_ok(kiln_masked_decode(ops, NULL, &args));
        assert_ok(kiln_stream_wait(device, NULL));
    }
    array_unchanged(out, "out");
    array_unchanged(cache, "cache");
}

static void types_and_sizes(void **state)
{
    check((Case){ .type = KILN_BF16, .size = 128, .page = 64, .pages = 1, .splits = 1, .heads = 3, .key_heads = 1 });
    check((Case){ .type = KILN_F32, .size = 80, .page = 5, .pages = 4, .ring = 19 });
}

static void splits(void **state)
{
    const Case c = { .type = KILN_F32, .size = 64, .page = 64, .pages = 3, .splits = 3 };
    check(c);
    Case longest = c;
    longest.ring = 70, longest.max_length = 1000, longest.splits = 2;
    check(longest);
}

static void rotary_styles(void **state)
{
    const Case c = { .type = KILN_F32, .trained = 20 };
    for (int style = KILN_ROTARY_HALVES; style <= KILN_ROTARY_MULTI; style++) {
        Case s = c;
        s.rotary = (kiln_rotary){ .style = style, .size = 16, .base = 5000, .magnitude = 1.25 };
        if (style != KILN_ROTARY_INTERLEAVED && style != KILN_ROTARY_QWEN_NTK) s.rotary.scale = 4;
        if (style == KILN_ROTARY_YARN) s.rotary.offset = 16, s.rotary.extrapolation = 0.9;
        if (style == KILN_ROTARY_LLAMA3) s.rotary.low = 1.5, s.rotary.high = 3;
        if (style <= KILN_ROTARY_INTERLEAVED || style == KILN_ROTARY_MULTI) s.trained = 0;
        if (style == KILN_ROTARY_INTERLEAVED) s.with = PREFIX | AFTER_PREFIX;
        if (style == KILN_ROTARY_MULTI) s.with = POSITIONS;
        check(s);
    }
    check((Case){ .type = KILN_F32, .rotary = { .style = KILN_ROTARY_INTERLEAVED, .size = 32 } }); // of the whole head
}

static void biases_of_scores(void **state)
{
    check((Case){ .type = KILN_F32, .with = SLOPES | BIAS, .ring = 24 }); // by position in a ring, not by place
    check((Case){ .type = KILN_F32, .with = BUCKETS, .distance = 30 });
    check((Case){ .with = BUCKETS | ONE_SIDED | LOG, .distance = 30, .trained = 15, .scale = 0.3 });
}

static void byte_caches(void **state)
{
    check((Case){ .with = SCALES, .cache = KILN_I8, .rotary = { .style = KILN_ROTARY_HALVES } });
    check((Case){ .type = KILN_BF16, .cache = KILN_E4M3 });
    check((Case){ .with = SCALES, .cache = KILN_E4M3 });
    check((Case){ .with = SCALES, .type = KILN_F32, .cache = KILN_I8 });
}

static void byte_projections_and_results(void **state)
{
    check((Case){ .with = BIASES | QKV_SCALES | OUT_SCALE | TASKS | PACKED,
                  .type = KILN_BF16,
                  .projection = KILN_I8,
                  .out = KILN_E4M3 });
}

static void second_pool(void **state)
{
    check((Case){ .with = POOL2 | FINISHED | PACKED, .rotary = { .style = KILN_ROTARY_HALVES } });
}

static void beams(void **state)
{
    check((Case){ .with = SOURCES | TASKS, .beams = 4 });
    check((Case){ .with = SOURCES | TASKS | MOVED, .beams = 4 });
}

static void cross_attention(void **state)
{
    check((Case){ .with = CROSS | BIASES | SINKS, .rotary = { .style = KILN_ROTARY_HALVES } });
    check((Case){ .with = CROSS, .cache = KILN_E4M3, .beams = 2, .splits = 1 });
}

static void everything_together(void **state)
{
    check((Case){ .with = BIASES | QKV_SCALES | OUT_SCALE | FINISHED | PREFIX | POSITIONS | TASKS | SLOPES | BIAS |
                          BUCKETS | SCALES | LOG | MOVED | SINKS,
                  .type = KILN_BF16,
                  .projection = KILN_I8,
                  .cache = KILN_I8,
                  .out = KILN_E4M3,
                  .page = 32,
                  .pages = 4,
                  .ring = 70,
                  .splits = 2,
                  .trained = 20,
                  .distance = 50,
                  .rotary = { .style = KILN_ROTARY_DYNAMIC_NTK, .scale = 2 } });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(plain_step, free_arrays),
        cmocka_unit_test_teardown(no_rows, free_arrays),
        cmocka_unit_test_teardown(types_and_sizes, free_arrays),
        cmocka_unit_test_teardown(splits, free_arrays),
        cmocka_unit_test_teardown(rotary_styles, free_arrays),
        cmocka_unit_test_teardown(biases_of_scores, free_arrays),
        cmocka_unit_test_teardown(byte_caches, free_arrays),
        cmocka_unit_test_teardown(byte_projections_and_results, free_arrays),
        cmocka_unit_test_teardown(second_pool, free_arrays),
        cmocka_unit_test_teardown(beams, free_arrays),
        cmocka_unit_test_teardown(cross_attention, free_arrays),
        cmocka_unit_test_teardown(everything_together, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
