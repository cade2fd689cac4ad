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

kiln_status attention_softcap(const Call *call, double softcap)
{
    const float taken = (float)softcap; // as kernels take it
    return softcap == 0 || (taken > 0 && !isinf(taken))
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'softcap' is %g, expected a positive number, or 0 for none",
                           softcap);
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
