// SPDX-License-Identifier: MIT
// layout.c - layouts of fragments: making, projecting, asking.
#include "layout/layout.h"

#include <assert.h>
#include <stdint.h>

Layout layout_new(int rank, const int *extents)
{
    assert(rank >= 0 && rank <= LAYOUT_MAX_RANK);
    Layout layout = { .rank = rank };
    for (int d = 0; d < rank; d++) layout.extent[d] = extents[d];
    return layout;
}

void layout_add(Layout *layout, LayoutInput input, int extent, int dim, int stride)
{
    if (extent == 1) return;
    assert(layout->n < LAYOUT_MAX_DIGITS && "layouts need few digits");
    layout->digit[layout->n++] = (Digit){ input, extent, dim, dim == REPLICATED ? 0 : stride };
}

static int largest_power_of_two_divisor(int x, int limit)
{
    int p = 1;
    while (p * 2 <= limit && x % (p * 2) == 0) p *= 2;
    return p;
}

static int power_of_two_at_least(int x)
{
    int p = 1;
    while (p < x) p *= 2;
    return p;
}

// Hands `count` threads of one input out over the dimensions, the last first; what is left over replicates.
// done[d]: elements of dimension d that are spread already.
static void spread(Layout *layout, LayoutInput input, int count, int *done)
{
    for (int d = layout->rank - 1; d >= 0 && count > 1; d--) {
        const int left = (layout->extent[d] + done[d] - 1) / done[d];
        int take = power_of_two_at_least(left);
        if (take > count) take = count;
        if (count % take != 0) // three groups: all of them along one dimension, or none
            take = left >= count ? count : 1;
        layout_add(layout, input, take, d, done[d]);
        done[d] *= take;
        count /= take;
    }
    layout_add(layout, input, count, REPLICATED, 0);
}

Layout layout_blocked(int rank, const int *extents, Crew crew, int vector)
{
    Layout layout = layout_new(rank, extents);
    int done[LAYOUT_MAX_RANK];
    for (int d = 0; d < rank; d++) done[d] = 1;
    if (rank > 0) {
        const int last = rank - 1;
        int elements = 1;
        for (int d = 0; d < rank; d++) elements *= extents[d];
        // Small tiles: rather more threads than wide pieces.
        while (vector > 1 && elements / vector < WARP_LANES * crew.warps * crew.groups) vector /= 2;
        const int v = largest_power_of_two_divisor(extents[last], vector);
        layout_add(&layout, IN_REGISTER, v, last, 1);
        done[last] = v;
    }
    spread(&layout, IN_LANE, WARP_LANES, done);
    // Warps take whole rows where there are enough of them, so that reductions along rows stay within a warp.
    Layout by_rows = layout;
    int rows_done[LAYOUT_MAX_RANK];
    for (int d = 0; d < rank; d++) rows_done[d] = done[d];
    const int warps = crew.warps * crew.groups;
    if (rank >= 2 && extents[0] >= warps * done[0]) {
        layout_add(&by_rows, IN_WARP, crew.warps, 0, rows_done[0]);
        layout_add(&by_rows, IN_GROUP, crew.groups, 0, rows_done[0] * crew.warps);
        rows_done[0] *= warps;
        layout = by_rows;
        for (int d = 0; d < rank; d++) done[d] = rows_done[d];
    } else {
        spread(&layout, IN_WARP, crew.warps, done);
        spread(&layout, IN_GROUP, crew.groups, done);
    }
    for (int d = rank - 1; d >= 0; d--)
        layout_add(&layout, IN_REGISTER, (extents[d] + done[d] - 1) / done[d], d, done[d]);
    return layout;
}

Layout layout_project(const Layout *layout, int rank, const int *keep)
{
    Layout result = { .rank = rank };
    int to[LAYOUT_MAX_RANK];
    for (int d = 0; d < layout->rank; d++) to[d] = REPLICATED;
    for (int i = 0; i < rank; i++) {
        to[keep[i]] = i;
        result.extent[i] = layout->extent[keep[i]];
    }
    for (int i = 0; i < layout->n; i++) {
        const Digit *const digit = &layout->digit[i];
        const int dim = digit->dim == REPLICATED ? REPLICATED : to[digit->dim];
        if (dim != REPLICATED || digit->input != IN_REGISTER)
            layout_add(&result, digit->input, digit->extent, dim, digit->stride);
    }
    return result;
}

// ---- splitting and merging

typedef struct Part {
    int extent, unit;
    bool is_slowest;
} Part; // unit: of the dimension that it is a part of

// Of dimension `dim`; returns the number of the first.
static int parts_of(const DimensionSplit *dims, int dim, Part *parts)
{
    int first = 0, unit = 1;
    for (int d = 0; d < dim; d++) first += dims[d].n;
    for (int i = dims[dim].n - 1; i >= 0; i--) {
        parts[i] = (Part){ dims[dim].extent[i], unit, i == 0 };
        unit *= dims[dim].extent[i];
    }
    return first;
}

// Gives one digit to the parts that it runs through, the fastest first.
static bool split_digit(Layout *result, Digit digit, const Part *parts, int n, int first)
{
    for (int i = n - 1; i >= 0 && digit.extent > 1; i--) {
        const Part *const part = &parts[i];
        const int end = part->unit * part->extent;
        if (!part->is_slowest && digit.stride >= end) continue;
        const bool fits = part->is_slowest || (int64_t)digit.stride * digit.extent <= end;
        if (digit.stride % part->unit != 0 || (!fits && end % digit.stride != 0)) return false;
        const int take = fits ? digit.extent : end / digit.stride;
        if (digit.extent % take != 0 || result->n == LAYOUT_MAX_DIGITS) return false;
        layout_add(result, digit.input, take, first + i, digit.stride / part->unit);
        digit.stride *= take;
        digit.extent /= take;
    }
    return true;
}

bool layout_split(const Layout *layout, const DimensionSplit *dims, Layout *result)
{
    Part parts[LAYOUT_MAX_RANK];
    int rank = 0;
    *result = (Layout){ 0 };
    for (int d = 0; d < layout->rank; d++)
        for (int i = 0; i < dims[d].n; i++) {
            if (rank == LAYOUT_MAX_RANK) return false;
            result->extent[rank++] = dims[d].extent[i];
        }
    result->rank = rank;
    for (int i = 0; i < layout->n; i++) {
        const Digit *const digit = &layout->digit[i];
        if (digit->dim == REPLICATED) {
            if (result->n == LAYOUT_MAX_DIGITS) return false;
            layout_add(result, digit->input, digit->extent, REPLICATED, 0);
            continue;
        }
        const int first = parts_of(dims, digit->dim, parts);
        if (!split_digit(result, *digit, parts, dims[digit->dim].n, first)) return false;
    }
    // The digits of a part stay below its extent, so that none carries into the next.
    for (int d = 0, at = 0; d < layout->rank; at += dims[d++].n)
        for (int i = 1; i < dims[d].n; i++)
            if (layout_coverage(result, at + i) > dims[d].extent[i]) return false;
    return true;
}

// A digit that goes on where the digit of the same input before it ends, in the next part of one dimension, was one with it.
static bool joins(const Layout *layout, const Digit *digit, bool is_next_part)
{
    const Digit *const last = layout->n ? &layout->digit[layout->n - 1] : NULL;
    return last && is_next_part && last->input == digit->input && last->dim == digit->dim &&
           last->stride * last->extent == digit->stride;
}

Layout layout_merge(const Layout *layout, int rank, const DimensionSplit *dims, const int *part)
{
    Layout result = { .rank = rank };
    int to[LAYOUT_MAX_RANK], unit[LAYOUT_MAX_RANK], next_of[LAYOUT_MAX_RANK]; // next_of: the part that is next faster
    for (int d = 0; d < layout->rank; d++) to[d] = next_of[d] = REPLICATED, unit[d] = 0;
    for (int d = 0; d < rank; d++) {
        Part parts[LAYOUT_MAX_RANK];
        const int first = parts_of(dims, d, parts);
        result.extent[d] = parts[0].unit * parts[0].extent;
        for (int i = 0; i < dims[d].n; i++) {
            to[part[first + i]] = d;
            unit[part[first + i]] = parts[i].unit;
            next_of[part[first + i]] = i + 1 < dims[d].n ? part[first + i + 1] : REPLICATED;
        }
    }
    int last = REPLICATED; // the part of the digit before
    for (int i = 0; i < layout->n; i++) {
        const Digit *const digit = &layout->digit[i];
        const int dim = digit->dim == REPLICATED ? REPLICATED : to[digit->dim];
        const Digit merged = { digit->input, digit->extent, dim,
                               dim == REPLICATED ? 0 : digit->stride * unit[digit->dim] };
        if (dim == REPLICATED && digit->input == IN_REGISTER) continue;
        if (joins(&result, &merged, dim != REPLICATED && next_of[digit->dim] == last && last != REPLICATED))
            result.digit[result.n - 1].extent *= merged.extent;
        else layout_add(&result, merged.input, merged.extent, dim, merged.stride);
        last = dim == REPLICATED ? REPLICATED : digit->dim;
    }
    return result;
}

int layout_extent_of(const Layout *layout, LayoutInput input)
{
    int product = 1;
    for (int i = 0; i < layout->n; i++)
        if (layout->digit[i].input == input) product *= layout->digit[i].extent;
    return product;
}

int layout_registers(const Layout *layout) { return layout_extent_of(layout, IN_REGISTER); }

int layout_coverage(const Layout *layout, int dim)
{
    int reach = 1;
    for (int i = 0; i < layout->n; i++)
        if (layout->digit[i].dim == dim) reach += (layout->digit[i].extent - 1) * layout->digit[i].stride;
    return reach;
}

void layout_at(const Layout *layout, int reg, int lane, int warp, int group, int *coordinates)
{
    int value[IN_COUNT] = { [IN_REGISTER] = reg, [IN_LANE] = lane, [IN_WARP] = warp, [IN_GROUP] = group };
    for (int d = 0; d < layout->rank; d++) coordinates[d] = 0;
    for (int i = 0; i < layout->n; i++) {
        const Digit *const digit = &layout->digit[i];
        const int v = value[digit->input] % digit->extent;
        value[digit->input] /= digit->extent;
        if (digit->dim != REPLICATED) coordinates[digit->dim] += v * digit->stride;
    }
}

bool layout_equal(const Layout *a, const Layout *b)
{
    if (a->rank != b->rank || a->n != b->n) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->extent[d] != b->extent[d]) return false;
    // The order of digits of different inputs does not matter: compare input by input.
    for (int input = 0; input < IN_COUNT; input++) {
        int j = 0;
        for (int i = 0; i < a->n; i++) {
            if ((int)a->digit[i].input != input) continue;
            while (j < b->n && (int)b->digit[j].input != input) j++;
            if (j == b->n || a->digit[i].extent != b->digit[j].extent || a->digit[i].dim != b->digit[j].dim ||
                a->digit[i].stride != b->digit[j].stride)
                return false;
            j++;
        }
    }
    return true;
}

bool layout_covers(const Layout *layout)
{
    int64_t wanted = 1;
    for (int d = 0; d < layout->rank; d++) wanted *= layout->extent[d];
    // Distinct digits of one dimension never overlap in a sane layout, so counting distinct coordinates of each
    // dimension is enough: the elements are their product.
    for (int d = 0; d < layout->rank; d++) {
        int64_t combinations = 1;
        for (int i = 0; i < layout->n; i++)
            if (layout->digit[i].dim == d) combinations *= layout->digit[i].extent;
        if (combinations < layout->extent[d] || layout_coverage(layout, d) != combinations) return false;
    }
    return wanted > 0;
}

void layout_print(Text *out, const Layout *layout)
{
    static const char *const names[IN_COUNT] = { "register", "lane", "warp", "group" };
    for (int input = 0; input < IN_COUNT; input++) {
        bool any = false;
        for (int i = 0; i < layout->n; i++) {
            const Digit *const digit = &layout->digit[i];
            if ((int)digit->input != input) continue;
            text_print(out, "%s", any ? " " : input ? "; " : "");
            if (!any) text_print(out, "%s ", names[input]);
            if (digit->dim == REPLICATED) text_print(out, "%d x same", digit->extent);
            else text_print(out, "%d x d%d+%d", digit->extent, digit->dim, digit->stride);
            any = true;
        }
    }
}
