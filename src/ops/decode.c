// SPDX-License-Identifier: MIT
// decode.c - the operator of kiln/ops/decode.h over kernels/decode.
#include "kiln/ops/decode.h"
#include "ops/attention_call.h"
#include "ops/rotary.h"

#include <inttypes.h>
#include <math.h>

enum {
    HEAD_MAX = 256,
    GROUP_MAX = 128,      // query heads of a key head
    SUMS_MAX = 128 * 128, // of them, times D: they are in registers
    SPLITS_MAX = 1024,
    BEAMS_MAX = 1 << 20,
    GROUP_OF_TWO = 16, // at most: registers are left for two instances on a multiprocessor
};

// ---- the options that go with each other

static bool uses_trained_length(const kiln_masked_decode_args *a)
{
    const kiln_rotary_style style = a->rotary ? a->rotary->style : 0;
    return a->log_scaling || (style >= KILN_ROTARY_DYNAMIC_NTK && style <= KILN_ROTARY_LLAMA3);
}

// One of two tensors that only go together is missing.
static kiln_status need_both(const Call *call, const char *name, const kiln_tensor *tensor, const char *with,
                             const kiln_tensor *other)
{
    return (tensor != NULL) == (other != NULL)
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'%s' is null, but '%s' is not: they go together",
                           tensor ? with : name, tensor ? name : with);
}

// Cross attention has no new token, so that what concerns it, or positions relative to it, has no meaning.
static kiln_status check_cross(const Call *call, const kiln_masked_decode_args *a)
{
    const struct {
        const char *name;
        const kiln_tensor *tensor;
    } without[] = {
        { "k", a->k },
        { "v", a->v },
        { "k_bias", a->k_bias },
        { "v_bias", a->v_bias },
        { "tasks", a->tasks },
        { "prefix_lengths", a->prefix_lengths },
        { "slopes", a->slopes },
        { "bias", a->bias },
        { "bucket_bias", a->bucket_bias },
        { "sources", a->sources },
    };
    if (!a->cross) return KILN_OK;
    for (int i = 0; i < COUNT(without); i++)
        if (without[i].tensor)
            return call_fail(call, KILN_BAD_ARGUMENT, "'%s' is not null, expected NULL in cross attention",
                             without[i].name);
    return a->ring == 0 ? KILN_OK
                        : call_fail(call, KILN_BAD_ARGUMENT,
                                    "'ring' is %" PRId64 ", expected 0: cross attention has no ring", a->ring);
}

static kiln_status check_together(const Call *call, const kiln_masked_decode_args *a)
{
    kiln_status status = need_both(call, "tasks", a->tasks, "key_factors", a->key_factors);
    if (!status) status = need_both(call, "tasks", a->tasks, "value_factors", a->value_factors);
    if (!status) status = need_both(call, "sources", a->sources, "prompt_lengths", a->prompt_lengths);
    if (status) return status;
    if (a->cache2 && a->scales)
        return call_fail(call, KILN_UNSUPPORTED, "'cache2' is not null, expected NULL where there are 'scales'");
    if (a->positions && !a->rotary)
        return call_fail(call, KILN_BAD_ARGUMENT, "'rotary' is null, but 'positions' is not");
    if (a->positions_after_prefix && (!a->rotary || a->rotary->style != KILN_ROTARY_INTERLEAVED))
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'positions_after_prefix' is true, expected false without interleaved rotary embedding");
    if (a->beams > 1 && !a->sources && !a->cross)
        return call_fail(call, KILN_BAD_ARGUMENT, "'sources' is null, but 'beams' is %" PRId64, a->beams);
    if (uses_trained_length(a) ? a->trained_length < 2 || a->trained_length > INT32_MAX : a->trained_length != 0)
        return call_fail(call, KILN_BAD_ARGUMENT, "'trained_length' is %" PRId64 ", expected %s", a->trained_length,
                         uses_trained_length(a) ? "more than 1 and below 2^31: the positions of the model's training"
                                                : "0: neither 'log_scaling' nor the rotary embedding uses it");
    return check_cross(call, a);
}

// ---- types and sizes

static bool is_float(kiln_type type) { return type == KILN_BF16 || type == KILN_F16 || type == KILN_F32; }

// The type that is computed in, where it is known before the table of tensors is looked at.
static kiln_status choose_type(const Call *call, const kiln_masked_decode_args *a, kiln_type *type)
{
    *type = a->type ? a->type : KILN_F16;
    if (a->type && !is_float(a->type))
        return call_fail(call, KILN_BAD_ARGUMENT, "'type' is %s, expected f32 or f16 or bf16, or 0 for that of 'q'",
                         kiln_type_name(a->type));
    if (!a->q || !a->out) return KILN_OK; // the table says so
    if (is_float(a->q->type)) {
        *type = a->q->type;
        return a->type == 0 || a->type == *type
                   ? KILN_OK
                   : call_fail(call, KILN_BAD_ARGUMENT, "'type' is %s, but 'q' is a tensor of %s",
                               kiln_type_name(a->type), kiln_type_name(*type));
    }
    if (!a->type && is_float(a->out->type)) *type = a->out->type;
    else if (!a->type && a->q->type == KILN_I8 && a->out->type == KILN_E4M3)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'type' is 0, expected f32 or f16 or bf16: neither 'q' nor 'out' says what to compute in");
    if (a->q->type == KILN_I8 && !a->qkv_scales)
        return call_fail(call, KILN_BAD_ARGUMENT, "'qkv_scales' is null, but 'q' is a tensor of i8");
    return KILN_OK;
}

static kiln_status check_scales(const Call *call, const kiln_masked_decode_args *a, kiln_type type)
{
    if (a->cache->type == KILN_I8 && !a->scales)
        return call_fail(call, KILN_BAD_ARGUMENT, "'scales' is null, but 'cache' is a tensor of i8");
    if (a->scales && a->cache->type == type)
        return call_fail(call, KILN_BAD_ARGUMENT, "'scales' is not null, expected NULL with a cache of %s",
                         kiln_type_name(type));
    return KILN_OK;
}

static kiln_status check_heads(const Call *call)
{
    const int64_t D = call_extent(call, "D"), H = call_extent(call, "H"), HKV = call_extent(call, "HKV");
    if (D < 16 || D > HEAD_MAX || D % 16 != 0)
        return call_fail(call, KILN_UNSUPPORTED, "head size D is %" PRId64 ", expected a multiple of 16 up to %d", D,
                         HEAD_MAX);
    if (HKV < 1 || H % HKV != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "%" PRId64 " query heads (of 'q') are not a multiple of %" PRId64 " key heads (of 'cache')", H,
                         HKV);
    const int64_t most = GROUP_MAX * D > SUMS_MAX ? SUMS_MAX / D : GROUP_MAX;
    if (H / HKV > most)
        return call_fail(call, KILN_UNSUPPORTED,
                         "%" PRId64 " query heads (of 'q') share a key head, expected at most %" PRId64
                         " with D = %" PRId64,
                         H / HKV, most, D);
    return KILN_OK;
}

static kiln_status check_buckets(const Call *call, const kiln_masked_decode_args *a)
{
    const int64_t n = a->bucket_bias ? call_extent(call, "buckets") : 0;
    if (!a->bucket_bias)
        return a->bucket_distance == 0
                   ? KILN_OK
                   : call_fail(call, KILN_BAD_ARGUMENT, "'bucket_bias' is null, but 'bucket_distance' is %" PRId64,
                               a->bucket_distance);
    if (n < 4)
        return call_fail(call, KILN_BAD_SHAPE, "dimension 1 of 'bucket_bias' is %" PRId64 ", expected at least 4", n);
    if (a->bucket_distance <= n / 2 || a->bucket_distance > INT32_MAX)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'bucket_distance' is %" PRId64 ", expected more than half of the %" PRId64 " buckets",
                         a->bucket_distance, n);
    return KILN_OK;
}

static kiln_status check_rows(const Call *call, const kiln_masked_decode_args *a, int64_t beams)
{
    if (a->beams < 0 || beams > BEAMS_MAX)
        return call_fail(call, KILN_BAD_ARGUMENT, "'beams' is %" PRId64 ", expected 1 to %d, or 0 for 1", a->beams,
                         BEAMS_MAX);
    if (a->q && a->q->rank > 0 && a->q->shape[0] % beams != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "%" PRId64 " rows (of 'q') are not a multiple of the %" PRId64 " 'beams' of a request",
                         a->q->shape[0], beams);
    return KILN_OK;
}

// ---- how the cached tokens are split

typedef struct Split {
    int64_t ring, keys; // as many of the cache are seen at most
    int64_t shares;
    int step; // tokens of a step, of which a share has some
} Split;

static int64_t ring_of(const Call *call, const kiln_masked_decode_args *a)
{
    return a->ring ? a->ring : call_extent(call, "pages") * call_extent(call, "page size");
}

static int64_t seen_of(const kiln_masked_decode_args *a, int64_t ring)
{
    return a->max_length && a->max_length < ring ? a->max_length : ring;
}

// As many tokens as the shared memory of a multiprocessor holds four times.
static int step_keys(const Call *call, const kiln_masked_decode_args *a)
{
    const int64_t bytes = 2 * call_extent(call, "D") * kiln_type_bits(a->cache->type) / 8;
    return ops_on_cpu(call->ops) || bytes <= 512 ? 64 : bytes <= 1024 ? 32 : 16;
}

// Rows have fewer tokens than the longest, by as much as nobody knows: two shares on a multiprocessor take less than one after
// the other.
static int64_t choose_shares(const Call *call, kiln_type type, int64_t keys)
{
    const int64_t R = call_extent(call, "R"), H = call_extent(call, "H"), HKV = call_extent(call, "HKV");
    const bool is_two = call_extent(call, "D") <= 128 && type != KILN_F32 && H / HKV <= GROUP_OF_TWO;
    return attention_splits(call->ops, R * HKV, keys, R * H, is_two ? TWO_NARROW_SHARES : ONE_SHARE);
}

static kiln_status choose_split(const Call *call, const kiln_masked_decode_args *a, kiln_type type, Split *split)
{
    const int64_t capacity = call_extent(call, "pages") * call_extent(call, "page size");
    if (capacity < 1 || capacity > INT32_MAX / 2)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'table' has %" PRId64 " pages of %" PRId64 " tokens for each row, expected 1 to %d tokens",
                         call_extent(call, "pages"), call_extent(call, "page size"), INT32_MAX / 2);
    if (a->ring < 0 || a->ring > capacity)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'ring' is %" PRId64 ", expected 1 to %" PRId64
                         ", the places of the table's pages, or 0 for all",
                         a->ring, capacity);
    if (a->max_length < 0)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'max_length' is %" PRId64 ", expected the tokens of the longest row, or 0", a->max_length);
    if (a->splits < 0 || a->splits > SPLITS_MAX)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'splits' is %" PRId64 ", expected 1 to %d, or 0 for a number that fills the device",
                         a->splits, SPLITS_MAX);
    split->ring = ring_of(call, a);
    split->keys = seen_of(a, split->ring);
    split->step = step_keys(call, a);
    const int64_t steps = (split->keys + split->step - 1) / split->step;
    const int64_t wanted = a->splits ? a->splits : choose_shares(call, type, split->keys);
    split->shares = wanted < steps ? wanted : steps;
    return KILN_OK;
}

// ---- the call

// Tensors, in the order of the table; clang-format would give each a line.
// clang-format off
enum {
    Q, K, V, CACHE, TABLE, LENGTHS, RESULT, SCALES, CACHE2, Q_BIAS, K_BIAS, V_BIAS, QKV_SCALES, TASKS, KEY_FACTORS,
    VALUE_FACTORS, POSITIONS, PREFIX, SLOPES, BIAS, BUCKETS, FINISHED, SOURCES, PROMPTS, OUT_SCALE,
    SINKS
};
// clang-format on

static kiln_status check_tensors(Call *call, const kiln_masked_decode_args *a, kiln_type type, int64_t beams)
{
    const unsigned t = 1u << type, projections = TYPES_FLOAT | 1 << KILN_I8, caches = t | 1 << KILN_I8 | 1 << KILN_E4M3;
    const unsigned same = a->cache && (unsigned)a->cache->type <= KILN_BOOL ? 1u << a->cache->type : caches;
    const Role written = a->cross ? IN : OUT, written_too = a->cross ? IN_OPTIONAL : OUT_OPTIONAL;
    const Role projected = a->cross ? IN_OPTIONAL : IN;
    if (a->q && a->q->rank > 0) call_bind(call, "requests", a->q->shape[0] / beams, "q");
    // clang-format off
    const Want wants[] = {
        [Q]             = { IN,          "q",              a->q,              projections,    "Q[R][H][D]" },
        [K]             = { projected,   "k",              a->k,              0,              "K[R][HKV][D]" },
        [V]             = { projected,   "v",              a->v,              0,              "V[R][HKV][D]" },
        [CACHE]         = { written,     "cache",          a->cache,          caches,         "[blocks][HKV][page size][D]" },
        [TABLE]         = { IN,          "table",          a->table,          1 << KILN_I32,  "TABLE[R][2][pages]" },
        [LENGTHS]       = { IN,          "lengths",        a->lengths,        1 << KILN_I32,  "LENGTH[R]" },
        [RESULT]        = { OUT,         "out",            a->out,            t | 1 << KILN_E4M3, "[R][H][D]" },
        [SCALES]        = { written_too, "scales",         a->scales,         1 << KILN_F32,  "[blocks][HKV][page size]" },
        [CACHE2]        = { written_too, "cache2",         a->cache2,         same,           "[blocks2][HKV][page size][D]" },
        [Q_BIAS]        = { IN_OPTIONAL, "q_bias",         a->q_bias,         t,              "[H][D]" },
        [K_BIAS]        = { IN_OPTIONAL, "k_bias",         a->k_bias,         t,              "[HKV][D]" },
        [V_BIAS]        = { IN_OPTIONAL, "v_bias",         a->v_bias,         t,              "[HKV][D]" },
        [QKV_SCALES]    = { IN_OPTIONAL, "qkv_scales",     a->qkv_scales,     1 << KILN_F32,  "[3]" },
        [TASKS]         = { IN_OPTIONAL, "tasks",          a->tasks,          1 << KILN_I32,  "TASK[requests]" },
        [KEY_FACTORS]   = { IN_OPTIONAL, "key_factors",    a->key_factors,    t,              "[tasks][HKV][D]" },
        [VALUE_FACTORS] = { IN_OPTIONAL, "value_factors",  a->value_factors,  t,              "[tasks][HKV][D]" },
        [POSITIONS]     = { IN_OPTIONAL, "positions",      a->positions,      1 << KILN_I32,  "POSITION[R][components]" },
        [PREFIX]        = { IN_OPTIONAL, "prefix_lengths", a->prefix_lengths, 1 << KILN_I32,  "PREFIX[R]" },
        [SLOPES]        = { IN_OPTIONAL, "slopes",         a->slopes,         1 << KILN_F32,  "[H]" },
        [BIAS]          = { IN_OPTIONAL, "bias",           a->bias,           t,              "[H][L][L]" },
        [BUCKETS]       = { IN_OPTIONAL, "bucket_bias",    a->bucket_bias,    t,              "[H][buckets]" },
        [FINISHED]      = { IN_OPTIONAL, "finished",       a->finished,       1 << KILN_BOOL, "[R]" },
        [SOURCES]       = { IN_OPTIONAL, "sources",        a->sources,        1 << KILN_I32,  "SOURCE[R][positions]" },
        [PROMPTS]       = { IN_OPTIONAL, "prompt_lengths", a->prompt_lengths, 1 << KILN_I32,  "CONTEXT[R]" },
        [OUT_SCALE]     = { IN_OPTIONAL, "out_scale",      a->out_scale,      1 << KILN_F32,  "[1]" },
        [SINKS]         = { IN_OPTIONAL, "sinks",          a->sinks,          1 << KILN_F32,  "[H]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
}

// f16 has all codes of e4m3, which become it by one instruction for two; where nothing makes weights larger than it can be.
static kiln_type type_of_products(const Call *call, const kiln_masked_decode_args *a, kiln_type type)
{
    const bool are_codes = type == KILN_BF16 && a->cache->type == KILN_E4M3 && !a->scales;
    const bool has_room = call_extent(call, "H") / call_extent(call, "HKV") <= GROUP_OF_TWO;
    return are_codes && has_room && ops_on_hopper(call->ops) ? KILN_F16 : type;
}

// Of few tokens a request, by one instance that has all of them and appends behind them: a launch less, nothing to add.
static bool has_few(const Call *call, const kiln_masked_decode_args *a, kiln_type type, const Split *split)
{
    const bool is_plain = !a->cross && !a->log_scaling && !a->scales && !a->cache2 && !a->sources && !a->tasks &&
                          !a->slopes && !a->bias && !a->bucket_bias && a->cache->type == type;
    const int64_t D = call_extent(call, "D"), group = call_extent(call, "H") / call_extent(call, "HKV");
    return ops_on_hopper(call->ops) && is_plain && type != KILN_F32 && D == 128 && group <= GROUP_OF_TWO &&
           split->shares <= 1 && split->keys <= split->step;
}

static kiln_status find_kernel(Call *call, const kiln_masked_decode_args *a, kiln_type type, const Rotary *rotary,
                               const Split *split)
{
    const bool is_interleaved = rotary->style == KILN_ROTARY_INTERLEAVED; // the kernel turns half of ROT
    const int rot = (int)(rotary->style == 0 ? 2 : is_interleaved ? 2 * rotary->size : rotary->size);
    return call_kernel(
        call, "decode/masked.tile", "masked_mha",
        "T=%s, TC=%s, TQ=%s, TO=%s, TP=%s, DH=%d, G=%d, TB=%d, BN=%d, ROPE=%d, ROT=%d, INT8=%s, LOGN=%s, CROSS=%s, BOTH=%s, "
        "FEW=%s"
        "%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s%-s",
        kiln_type_name(type), kiln_type_name(a->cache->type), kiln_type_name(a->q->type), kiln_type_name(a->out->type),
        kiln_type_name(type_of_products(call, a, type)), (int)call_extent(call, "D"),
        (int)(call_extent(call, "H") / call_extent(call, "HKV")), (int)call_extent(call, "page size"), split->step,
        (int)rotary->style, rot, yes(a->cache->type == KILN_I8), yes(a->log_scaling), yes(a->cross),
        yes(!a->one_sided_buckets), yes(has_few(call, a, type, split)), LACKS(a->q_bias, "QB"), LACKS(a->k_bias, "KB"),
        LACKS(a->v_bias, "VB"), LACKS(a->qkv_scales, "QKV_SCALE"), LACKS(a->out_scale, "OUT_SCALE"),
        LACKS(a->finished, "FINISHED"), LACKS(a->prefix_lengths, "PREFIX"), LACKS(a->positions, "POSITION"),
        LACKS(a->tasks, "TASK=none, IA3K=none, IA3V"), LACKS(a->slopes, "SLOPE"), LACKS(a->bias, "RELATIVE"),
        LACKS(a->bucket_bias, "BUCKET"), LACKS(a->cache2, "POOL2"), LACKS(a->scales, "STEP"),
        LACKS(a->sources, "CONTEXT=none, SOURCE"), LACKS(a->sinks, "SINK"), LACKS(a->k, "K=none, V"));
}

// What a call is checked for, and what follows from its shapes.
typedef struct Checked {
    kiln_type type;
    int64_t beams;
    Rotary rotary;
    double scale;
    Split split;
} Checked;

static void add_numbers(Call *call, const kiln_masked_decode_args *a, const Checked *c)
{
    const Rotary *const rotary = &c->rotary;
    const kiln_arg numbers[] = { KILN_INT(c->split.shares),
                                 KILN_INT(c->split.keys),
                                 KILN_INT(c->split.ring),
                                 KILN_INT(c->beams),
                                 KILN_FLOAT(c->scale),
                                 KILN_INT(a->bucket_distance),
                                 KILN_INT(!a->positions_after_prefix),
                                 KILN_FLOAT(rotary->base),
                                 KILN_FLOAT(rotary->scale),
                                 KILN_FLOAT(rotary->low),
                                 KILN_FLOAT(rotary->high),
                                 KILN_FLOAT(rotary->extrapolation),
                                 KILN_FLOAT(rotary->magnitude),
                                 KILN_INT(rotary->offset),
                                 KILN_INT(a->trained_length) };
    for (int i = 0; i < COUNT(numbers); i++) call_add(call, numbers[i]);
}

static kiln_status check(Call *call, const kiln_masked_decode_args *a, Checked *checked)
{
    *checked = (Checked){ .beams = a->beams ? a->beams : 1 };
    kiln_status status = check_rows(call, a, checked->beams);
    if (!status) status = choose_type(call, a, &checked->type);
    if (!status) status = check_together(call, a);
    if (!status) status = check_tensors(call, a, checked->type, checked->beams);
    if (!status) status = check_heads(call);
    if (!status) status = check_scales(call, a, checked->type);
    if (!status) status = check_buckets(call, a);
    if (!status) status = rotary_take(call, a->rotary, call_extent(call, "D"), &checked->rotary);
    if (!status) status = call_scale(call, a->scale, 1 / sqrt((double)call_extent(call, "D")), &checked->scale);
    if (!status) status = choose_split(call, a, checked->type, &checked->split);
    return status;
}

static kiln_status prepare(Call *call, const void *args)
{
    const kiln_masked_decode_args *const a = args;
    Checked checked;
    kiln_status status = check(call, a, &checked);
    if (!status) status = find_kernel(call, a, checked.type, &checked.rotary, &checked.split);
    if (status) return status;
    add_numbers(call, a, &checked);
    return KILN_OK;
}

static kiln_status look(Call *call, kiln_stream *stream, const void *args)
{
    const kiln_masked_decode_args *const a = args;
    static const Taken taken[] = {
        { FINISHED, "FINISHED" }, { LENGTHS, "LENGTH" }, { PREFIX, "PREFIX" }, { TABLE, "TABLE" },
        { PROMPTS, "CONTEXT" },   { SOURCES, "SOURCE" }, { TASKS, "TASK" },
    };
    kiln_kernel *inputs;
    const kiln_status status = call_taking_kernel(call, "decode/inputs.tile", "masked_mha_inputs", taken, COUNT(taken),
                                                  &inputs, "CROSS=%s", yes(a->cross));
    if (status || call->sizing) return status;
    const int64_t ring = ring_of(call, a);
    const kiln_arg looked[] = { call_tensor(call, FINISHED),
                                call_tensor(call, LENGTHS),
                                call_tensor(call, PREFIX),
                                call_tensor(call, TABLE),
                                call_tensor(call, PROMPTS),
                                call_tensor(call, SOURCES),
                                call_tensor(call, TASKS),
                                KILN_INT(a->beams ? a->beams : 1),
                                KILN_INT(call_extent(call, "blocks")),
                                KILN_INT(a->cache2 ? call_extent(call, "blocks2") : 0),
                                KILN_INT(call_extent(call, "page size")),
                                KILN_INT(ring),
                                KILN_INT(seen_of(a, ring)),
                                KILN_INT(a->bias ? call_extent(call, "L") : 0),
                                KILN_INT(a->tasks ? call_extent(call, "tasks") : 0) };
    return call_launch(call, stream, inputs, looked, COUNT(looked));
}

static const CallPair masked_decode = {
    .name = "kiln_masked_decode", .size_name = "kiln_masked_decode_workspace_size", .prepare = prepare, .look = look
};

kiln_status kiln_masked_decode_workspace_size(kiln_ops *ops, const kiln_masked_decode_args *a, size_t *bytes)
{
    return pair_size(&masked_decode, ops, a, FORM(kiln_masked_decode_args), bytes);
}

kiln_status kiln_masked_decode(kiln_ops *ops, kiln_stream *stream, const kiln_masked_decode_args *a)
{
    return pair_run(&masked_decode, ops, stream, a, FORM(kiln_masked_decode_args));
}
