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

enum {
    SHARE_STEPS = 2,   // that a share takes beside its own, to begin, to end and to be combined
    GAIN_PERCENT = 85, // of the time, at most, where all processors have shares, which bandwidth bounds
    ROWS_ADDED = 2048, // of shares, that the adding kernel takes half a step for
    LEAST_SHARE = 256, // keys of a share of forward calls
};

// So many shares that every processor has work, of at least two steps of keys each.
static int64_t splits_on_cpu(int64_t tiles, int64_t keys, int64_t processors)
{
    const int64_t steps = keys / (2 * SPLITS_CPU_KEYS), splits = tiles > 0 ? (4 * processors + tiles - 1) / tiles : 1;
    return splits < steps ? splits : steps;
}

// The longest time of a multiprocessor, in halves of a step. It works on one share at a time, or on two, which take as long
// together as one after the other, or, of narrow heads or keys that are converted, half as long again as one: alone it waits
// for its few bytes, or for its own conversions and products, one after another.
static int64_t time_of_shares(int64_t shares, int64_t steps, int64_t processors, SharesAtOnce at_once)
{
    const int64_t places = at_once == ONE_SHARE ? processors : 2 * processors, rounds = shares / places;
    const int64_t left = shares - rounds * places, pair = at_once == TWO_NARROW_SHARES ? 3 : 4;
    return (rounds * (at_once == ONE_SHARE ? 2 : pair) + (left > processors ? pair
                                                          : left > 0        ? 2
                                                                            : 0)) *
           (steps + SHARE_STEPS);
}

static int64_t splits_on_gpu(int64_t tiles, int64_t keys, int64_t rows, int64_t processors, SharesAtOnce at_once)
{
    static const int counts[] = { 2, 3, 4, 5, 6, 8, 11, 16, 22, 32 }; // 32: what the combining kernel takes at once
    const int64_t steps = (keys + SPLITS_GPU_KEYS - 1) / SPLITS_GPU_KEYS;
    int64_t best = 1, least = time_of_shares(tiles, steps, processors, at_once);
    if (at_once == TWO_SHARES && tiles > processors) least = least * GAIN_PERCENT / 100;
    for (int i = 0; i < COUNT(counts) && counts[i] <= steps; i++) {
        const int n = counts[i];
        const int64_t time =
            time_of_shares(tiles * n, (steps + n - 1) / n, processors, at_once) + rows * n / ROWS_ADDED;
        if (time >= least) continue;
        best = n;
        least = time;
    }
    return best;
}

int64_t attention_splits(const kiln_ops *ops, int64_t tiles, int64_t keys, int64_t rows, SharesAtOnce at_once)
{
    const int64_t processors = ops_processors(ops);
    const int64_t splits = ops_on_cpu(ops) ? splits_on_cpu(tiles, keys, processors)
                                           : splits_on_gpu(tiles, keys, rows, processors, at_once);
    return splits > 1 ? splits : 1;
}

// ---- tiles of forward calls

// Times of an H200, ns. Tiles of 64 rows of narrow heads are two at a time on a multiprocessor.
typedef struct TileCost {
    int rows;
    bool is_two;
    double step, pair;          // of 128 keys: of an instance alone, of two at a time
    double instance, imbalance; // beside its steps; what masks of causal tiles take
} TileCost;

static const struct {
    TileCost narrow[2], wide[2], broad; // heads up to 64; up to 128; of 192 and 256
    double balance;                     // causal tiles, longest first, beside an even share
    double join, bytes; // shares of keys are added by a second kernel; bytes that a ns brings, there and back
    double gain;        // what division must bring, for its workspace
} forward_costs = {
    .narrow = { { 192, false, 1450, 0, 1000, 4000 }, { 64, true, 860, 1150, 1100, 0 } },
    .wide = { { 128, false, 1420, 0, 2200, 2000 }, { 64, false, 1100, 0, 1700, 800 } },
    .broad = { 128, false, 2360, 0, 2500, 3000 },
    .balance = 1.03,
    .join = 6000,
    .bytes = 6000,
    .gain = 0.87,
};

// `each`: of an instance, in 128 keys.
static double even_time(const TileCost *c, double instances, double each, int64_t processors)
{
    const double step = c->is_two ? c->pair / 2 : c->step, beside = c->instance / (c->is_two ? 2 : 1);
    return (each * step + beside + c->imbalance) * instances / (double)processors * forward_costs.balance;
}

static double rounds_time(const TileCost *c, int64_t instances, double each, int64_t processors)
{
    const int64_t at_once = c->is_two ? 2 * processors : processors, rounds = instances / at_once;
    const int64_t left = instances - rounds * at_once;
    const double full = each * (c->is_two ? c->pair : c->step) + c->instance, alone = each * c->step + c->instance;
    return (double)rounds * full + (left > processors ? full : left > 0 ? alone : 0);
}

static double forward_time(const ForwardShape *s, const TileCost *c, int64_t splits, int64_t processors)
{
    const int64_t instances = (s->queries + c->rows - 1) / c->rows * s->heads * s->batch * splits;
    const double past = (double)(s->keys - s->queries);
    double longest = ceil((double)s->keys / 128), mean = longest;
    if (s->is_causal) mean = fmax(past + 0.5 * (double)(s->queries + c->rows), 0.5 * (double)s->keys) / 128 + 0.5;
    if (s->window) longest = fmin(longest, (double)(s->window + c->rows) / 128 + 1);
    mean = fmin(mean, longest);
    const double share = ceil(longest / (double)splits);
    double time = rounds_time(c, instances, share, processors);
    if (s->is_causal)
        time = fmax(share * c->step + c->instance + c->imbalance,
                    even_time(c, (double)instances, mean / (double)splits, processors));
    if (splits == 1) return time;
    const double bytes = 8.0 * (double)(s->batch * s->heads * s->queries * s->value_size * splits);
    return (time + forward_costs.join + bytes / forward_costs.bytes) / forward_costs.gain;
}

ForwardTiles attention_forward_tiles(const kiln_ops *ops, const ForwardShape *s)
{
    static const int counts[] = { 1, 2, 3, 4, 5, 6, 8, 11, 16, 22, 32 };
    ForwardTiles best = { .keys = s->step_keys, .splits = 1 };
    const int64_t size = s->size > s->value_size ? s->size : s->value_size, processors = ops_processors(ops);
    const bool is_broad = size > 128;
    if (!s->is_16_bit || s->queries < 1 || s->keys < 1 || (is_broad && (s->size % 64 != 0 || s->value_size % 64 != 0)))
        return best;
    double least = INFINITY;
    for (int i = 0; i < (is_broad ? 1 : 2); i++) {
        const TileCost *const tile = is_broad     ? &forward_costs.broad
                                     : size <= 64 ? &forward_costs.narrow[i]
                                                  : &forward_costs.wide[i];
        const int64_t tiles = (s->queries + tile->rows - 1) / tile->rows * s->heads * s->batch;
        const bool divides = s->may_divide && !s->window && tiles <= 2 * processors;
        for (int n = 0; n < COUNT(counts); n++) {
            const int64_t splits = counts[n];
            if (splits > 1 && (!divides || splits * LEAST_SHARE > s->keys)) break;
            const double time = forward_time(s, tile, splits, processors);
            if (time >= least) continue;
            least = time;
            best = (ForwardTiles){ tile->rows, s->step_keys, splits };
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
