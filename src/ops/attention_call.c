// SPDX-License-Identifier: MIT
// attention_call.c - head sizes, windows and scales held to what headers say; how many shares of the keys keep all processors busy.
#include "ops/attention_call.h"

#include <inttypes.h>
#include <math.h>

enum { WINDOW_MAX = 1 << 30 };

// Head sizes and counts, once the tensors have bound them.
static kiln_status check_heads(const Call *call)
{
    static const char *const sizes[] = { "D", "DV" };
    const int64_t H = call_extent(call, "H"), HKV = call_extent(call, "HKV");
    for (int i = 0; i < 2; i++) {
        const int64_t size = call_extent(call, sizes[i]);
        if (size < 16 || size > ATTENTION_HEAD_MAX || size % 16 != 0)
            return call_fail(call, KILN_UNSUPPORTED, "head size %s is %" PRId64 ", expected a multiple of 16 up to %d",
                             sizes[i], size, ATTENTION_HEAD_MAX);
    }
    if (HKV < 1 || H % HKV != 0)
        return call_fail(call, KILN_BAD_SHAPE,
                         "%" PRId64 " query heads (of '%s') are not a multiple of %" PRId64 " key heads (of '%s')", H,
                         call_source(call, "H"), HKV, call_source(call, "HKV"));
    return KILN_OK;
}

static kiln_status check_window(const Call *call, int64_t window)
{
    return window >= 0 && window <= WINDOW_MAX
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'window' is %" PRId64 ", expected 0 (none) to %d", window,
                           WINDOW_MAX);
}

kiln_status attention_options(const Call *call, int64_t window, const double *given, double *scale)
{
    kiln_status status = check_heads(call);
    if (!status) status = check_window(call, window);
    if (!status) status = call_scale(call, given, 1 / sqrt((double)call_extent(call, "D")), scale);
    return status;
}

kiln_status attention_has_heads(const Call *call)
{
    return call_extent(call, "H") > 0
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'%s' has no heads (H = 0), expected some", call_source(call, "H"));
}

kiln_status attention_softcap(const Call *call, double softcap)
{
    return softcap == 0 || (softcap >= 1e-30 && softcap <= 1e30) // kernels compute scores over it in f32
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'softcap' is %g, expected 1e-30 to 1e30, or 0 for none", softcap);
}

// ---- shares of the keys

enum { SHARE_STEPS = 2 }; // that a share takes beside its own, to begin, to end and to be combined

// So many shares that every processor has work, of at least two steps of keys each.
static int64_t splits_on_cpu(int64_t tiles, int64_t keys, int64_t processors)
{
    const int64_t steps = keys / (2 * SPLITS_CPU_KEYS), splits = tiles > 0 ? (4 * processors + tiles - 1) / tiles : 1;
    return splits < steps ? splits : steps;
}

// The longest time of a multiprocessor, in steps. It works on one share at a time, or on two, which take as long together
// as one after the other.
static int64_t time_of_shares(int64_t shares, int64_t steps, int64_t processors, bool two)
{
    const int64_t at_once = two ? 2 * processors : processors, rounds = shares / at_once;
    const int64_t left = shares - rounds * at_once;
    return (rounds * (two ? 2 : 1) + (left > processors ? 2 : left > 0 ? 1 : 0)) * (steps + SHARE_STEPS);
}

static int64_t splits_on_gpu(int64_t tiles, int64_t keys, int64_t processors, bool two)
{
    static const int counts[] = { 2, 3, 4, 5, 6, 8, 11, 16, 22, 32 }; // 32: what the combining kernel takes at once
    const int64_t steps = (keys + SPLITS_GPU_KEYS - 1) / SPLITS_GPU_KEYS;
    int64_t best = 1, least = time_of_shares(tiles, steps, processors, two);
    for (int i = 0; i < COUNT(counts) && counts[i] <= steps; i++) {
        const int n = counts[i];
        const int64_t time = time_of_shares(tiles * n, (steps + n - 1) / n, processors, two);
        if (time >= least) continue;
        best = n;
        least = time;
    }
    return best;
}

int64_t attention_splits(const kiln_ops *ops, int64_t tiles, int64_t keys, bool two)
{
    const int64_t processors = ops_processors(ops);
    const int64_t splits =
        ops_on_cpu(ops) ? splits_on_cpu(tiles, keys, processors) : splits_on_gpu(tiles, keys, processors, two);
    return splits > 1 ? splits : 1;
}

// ---- tiles of forward calls

// ns of an H200.
static const struct {
    struct {
        int rows;
        double narrow, wide; // of a step of 128 keys, of heads up to 64 and up to 128; 0: the kernel has no such tiles
    } tiles[3];
    double instance;    // its beginning and end, beside its steps
    double uneven;      // that causal tiles, longest first, take beside an even share
    double join, bytes; // shares of keys are added by a second kernel; bytes that a ns brings, there and back
} forward_costs = {
    .tiles = { { 192, 1640, 0 }, { 128, 1130, 1450 }, { 64, 900, 1050 } },
    .instance = 1500,
    .uneven = 1.03,
    .join = 3000,
    .bytes = 3000,
};

static double forward_time(const ForwardShape *s, int rows, double step, int64_t splits, int64_t processors)
{
    const int64_t tiles = (s->queries + rows - 1) / rows, instances = tiles * s->heads * s->batch * splits;
    const double all = (double)((s->keys + 127) / 128), past = (double)(s->keys - s->queries);
    double longest = all, mean = all;
    if (s->is_causal) mean = fmin(all, fmax(past + 0.5 * (double)(s->queries + rows), 0.5 * (double)s->keys) / 128 + 0.5);
    if (s->window) longest = fmin(longest, (double)(s->window + rows) / 128 + 1);
    mean = fmin(mean, longest);
    const double share = ceil(longest / (double)splits) * step + forward_costs.instance;
    const double even = mean / (double)splits * step + forward_costs.instance;
    const double rounds = (double)((instances + processors - 1) / processors);
    double time = s->is_causal ? fmax(share, even * forward_costs.uneven * (double)instances / (double)processors)
                               : rounds * share;
    if (splits == 1) return time;
    const double bytes = 8.0 * (double)(s->batch * s->heads * s->queries * s->value_size * splits);
    return time + forward_costs.join + bytes / forward_costs.bytes;
}

ForwardTiles attention_forward_tiles(const kiln_ops *ops, const ForwardShape *s)
{
    static const int counts[] = { 1, 2, 3, 4, 5, 6, 8, 11, 16, 22, 32 };
    ForwardTiles best = { .keys = s->step_keys, .splits = 1 };
    const bool is_narrow = s->size <= 64 && s->value_size <= 64;
    if (ops_on_cpu(ops) || !s->is_16_bit || s->size > 128 || s->value_size > 128 || s->queries < 1 || s->keys < 1)
        return best;
    double least = INFINITY;
    for (int i = 0; i < COUNT(forward_costs.tiles); i++) {
        const double step = is_narrow ? forward_costs.tiles[i].narrow : forward_costs.tiles[i].wide;
        for (int n = 0; step > 0 && n < COUNT(counts); n++) {
            const int64_t splits = counts[n];
            if (splits > 1 && (!s->may_divide || s->window || splits * 256 > s->keys)) break;
            const double time =
                forward_time(s, forward_costs.tiles[i].rows, step, splits, ops_processors(ops)) * (splits > 1 ? 1.1 : 1);
            if (time >= least) continue;
            least = time;
            best = (ForwardTiles){ forward_costs.tiles[i].rows, s->step_keys, splits };
        }
    }
    return best;
}

// ---- shares of the query heads, of gradients

enum { STEP_QUERIES = 64 };

static const double GAIN = 0.85; // what division must bring: steps take a fifth longer where all processors have some

// ns, of an H200.
static const struct {
    double step, step_element; // of 128 keys: of any; by elements of a key and a value
    double instance;           // its beginning and end, beside its steps
    double join;               // that sums are added up by the last kernel, beside their bytes
    double bytes;              // that a ns brings, there and back
} gradient_costs = { .step = 470, .step_element = 5.16, .instance = 2000, .join = 2000, .bytes = 2200 };

static double gradient_time(const GradientShape *s, int64_t heads, int64_t processors)
{
    const double steps = (double)((s->queries + STEP_QUERIES - 1) / STEP_QUERIES);
    const double seen =
        s->keys < s->queries ? (double)s->keys : (double)s->queries; // queries that some keys come after
    const double group = (double)(s->heads / heads);
    const int64_t tiles = (s->keys + s->tile_keys - 1) / s->tile_keys, instances = tiles * heads * s->batch;
    const double step = (gradient_costs.step + gradient_costs.step_element * (double)s->sizes) * s->tile_keys / 128;
    double longest = s->causal && s->keys < s->queries ? (double)s->keys / STEP_QUERIES + 1 : steps, mean = longest;
    if (s->causal) mean = longest * (1 - seen / (2 * (double)s->keys)) + 0.5;
    if (s->window) longest = fmin(longest, (double)(s->window + s->tile_keys) / STEP_QUERIES + 1);
    mean = fmin(mean, longest);
    const double rounds = (double)((instances + processors - 1) / processors);
    const double shared =
        s->causal ? (double)instances / (double)processors : rounds; // by the processors: equal ones in rounds
    const double time = fmax(longest, mean * shared) * group * step + rounds * gradient_costs.instance;
    if (heads == s->key_heads) return time;
    const double bytes = 4.0 * (double)(heads * s->batch * s->keys * s->sizes);
    return time + gradient_costs.join + bytes / gradient_costs.bytes;
}

int64_t attention_gradient_heads(const kiln_ops *ops, const GradientShape *s)
{
    const int64_t group = s->heads / (s->key_heads > 0 ? s->key_heads : 1), processors = ops_processors(ops);
    if (ops_on_cpu(ops) || s->batch == 0 || s->queries == 0 || s->keys == 0) return s->key_heads;
    int64_t best = s->key_heads;
    double least = GAIN * gradient_time(s, best, processors);
    for (int64_t shares = 2; shares <= group; shares++) {
        if (group % shares != 0) continue;
        const double time = gradient_time(s, shares * s->key_heads, processors);
        if (time >= least) continue;
        least = time;
        best = shares * s->key_heads;
    }
    return best;
}
