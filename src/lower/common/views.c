// SPDX-License-Identifier: MIT
// views.c - how the dimensions of a view stand to its base's: equal ones in front and behind pair up; what is between is
// merged and split, row-major.
//
// Where the view's elements have another width, its last dimension is counted anew, and pairs with the base's if both hold
// the same bytes: if they are known to, or if all other dimensions are equal.
#include "lower/common/common.h"

static bool is_equal(const Buffer *view, int v, int range)
{
    return expr_equal(view->shape[v], region_extent(&view->base, range));
}

static bool hold_same_bytes(const Buffer *view, int ranges)
{
    const Region *const base = &view->base;
    int64_t n, m;
    if (expr_as_int(view->shape[view->rank - 1], &n) && expr_as_int(region_extent(base, ranges - 1), &m))
        return n * dtype_bits(view->type) == m * dtype_bits(base->buffer->type);
    bool alike = view->rank == ranges;
    for (int d = 0; d < ranges - 1 && alike; d++) alike = is_equal(view, d, d);
    return alike;
}

ViewPairs common_pair_view(const Buffer *view)
{
    const int ranges = region_rank(&view->base), rank = view->rank;
    const bool recounts = dtype_bits(view->type) != dtype_bits(view->base.buffer->type);
    const int most = (rank < ranges ? rank : ranges) - recounts; // in front: the last is none of them then
    ViewPairs pairs = { 0, 0 };
    while (pairs.front < most && is_equal(view, pairs.front, pairs.front)) pairs.front++;
    if (recounts && (pairs.front > most || !hold_same_bytes(view, ranges))) return pairs;
    pairs.back = recounts;
    while (pairs.back < rank - pairs.front && pairs.back < ranges - pairs.front &&
           is_equal(view, rank - 1 - pairs.back, ranges - 1 - pairs.back))
        pairs.back++;
    return pairs;
}
