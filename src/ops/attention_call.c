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
