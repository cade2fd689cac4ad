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
    assert(layout->n < LAYOUT_MAX_MODES && "layouts need few modes");
    layout->mode[layout->n++] = (LayoutMode){ input, extent, dim, dim == REPLICATED ? 0 : stride };
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

Layout layout_blocked(int rank, const int *extents, Partition partition, int vector)
{
    Layout layout = layout_new(rank, extents);
    int done[LAYOUT_MAX_RANK];
    for (int d = 0; d < rank; d++) done[d] = 1;
    if (rank > 0) {
        const int last = rank - 1;
        int elements = 1;
        for (int d = 0; d < rank; d++) elements *= extents[d];
        // Small tiles: rather more threads than wide pieces.
        while (vector > 1 && elements / vector < WARP_LANES * partition.warps * partition.groups) vector /= 2;
        const int v = largest_power_of_two_divisor(extents[last], vector);
        layout_add(&layout, IN_REGISTER, v, last, 1);
        done[last] = v;
    }
    spread(&layout, IN_LANE, WARP_LANES, done);
    // Warps take whole rows where there are enough of them, so that reductions along rows stay within a warp.
    Layout by_rows = layout;
    int rows_done[LAYOUT_MAX_RANK];
    for (int d = 0; d < rank; d++) rows_done[d] = done[d];
    const int warps = partition.warps * partition.groups;
    if (rank >= 2 && extents[0] >= warps * done[0]) {
        layout_add(&by_rows, IN_WARP, partition.warps, 0, rows_done[0]);
        layout_add(&by_rows, IN_GROUP, partition.groups, 0, rows_done[0] * partition.warps);
        rows_done[0] *= warps;
        layout = by_rows;
        for (int d = 0; d < rank; d++) done[d] = rows_done[d];
    } else {
        spread(&layout, IN_WARP, partition.warps, done);
        spread(&layout, IN_GROUP, partition.groups, done);
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
        const LayoutMode *const mode = &layout->mode[i];
        const int dim = mode->dim == REPLICATED ? REPLICATED : to[mode->dim];
        if (dim != REPLICATED || mode->input != IN_REGISTER)
            layout_add(&result, mode->input, mode->extent, dim, mode->stride);
    }
    return result;
}

Layout layout_of_threads(const Layout *layout, LayoutInput first)
{
    Layout threads = layout_new(layout->rank, layout->extent);
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->input >= first) layout_add(&threads, mode->input, mode->extent, mode->dim, mode->stride);
    }
    return threads;
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

// Gives one mode to the parts that it runs through, the fastest first.
static bool split_mode(Layout *result, LayoutMode mode, const Part *parts, int n, int first)
{
    for (int i = n - 1; i >= 0 && mode.extent > 1; i--) {
        const Part *const part = &parts[i];
        const int end = part->unit * part->extent;
        if (!part->is_slowest && mode.stride >= end) continue;
        const bool fits = part->is_slowest || (int64_t)mode.stride * mode.extent <= end;
        if (mode.stride % part->unit != 0 || (!fits && end % mode.stride != 0)) return false;
        const int take = fits ? mode.extent : end / mode.stride;
        if (mode.extent % take != 0 || result->n == LAYOUT_MAX_MODES) return false;
        layout_add(result, mode.input, take, first + i, mode.stride / part->unit);
        mode.stride *= take;
        mode.extent /= take;
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
        const LayoutMode *const mode = &layout->mode[i];
        if (mode->dim == REPLICATED) {
            if (result->n == LAYOUT_MAX_MODES) return false;
            layout_add(result, mode->input, mode->extent, REPLICATED, 0);
            continue;
        }
        const int first = parts_of(dims, mode->dim, parts);
        if (!split_mode(result, *mode, parts, dims[mode->dim].n, first)) return false;
    }
    // The modes of a part stay below its extent, so that none carries into the next.
    for (int d = 0, at = 0; d < layout->rank; at += dims[d++].n)
        for (int i = 1; i < dims[d].n; i++)
            if (layout_coverage(result, at + i) > dims[d].extent[i]) return false;
    return true;
}

// A mode that goes on where the mode of the same input before it ends, in the next part of one dimension, was one with
// it.
static bool joins(const Layout *layout, const LayoutMode *mode, bool is_next_part)
{
    const LayoutMode *const last = layout->n ? &layout->mode[layout->n - 1] : NULL;
    return last && is_next_part && last->input == mode->input && last->dim == mode->dim &&
           last->stride * last->extent == mode->stride;
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
    int last = REPLICATED; // the part of the mode before
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        const int dim = mode->dim == REPLICATED ? REPLICATED : to[mode->dim];
        const LayoutMode merged = { mode->input, mode->extent, dim,
                                    dim == REPLICATED ? 0 : mode->stride * unit[mode->dim] };
        if (dim == REPLICATED && mode->input == IN_REGISTER) continue;
        if (joins(&result, &merged, dim != REPLICATED && next_of[mode->dim] == last && last != REPLICATED))
            result.mode[result.n - 1].extent *= merged.extent;
        else layout_add(&result, merged.input, merged.extent, dim, merged.stride);
        last = dim == REPLICATED ? REPLICATED : mode->dim;
    }
    return result;
}

int layout_extent_of(const Layout *layout, LayoutInput input)
{
    int product = 1;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].input == input) product *= layout->mode[i].extent;
    return product;
}

int layout_registers(const Layout *layout) { return layout_extent_of(layout, IN_REGISTER); }

int layout_coverage(const Layout *layout, int dim)
{
    int reach = 1;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].dim == dim) reach += (layout->mode[i].extent - 1) * layout->mode[i].stride;
    return reach;
}

void layout_at(const Layout *layout, int reg, int lane, int warp, int group, int *coordinates)
{
    int value[IN_COUNT] = { [IN_REGISTER] = reg, [IN_LANE] = lane, [IN_WARP] = warp, [IN_GROUP] = group };
    for (int d = 0; d < layout->rank; d++) coordinates[d] = 0;
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        const int v = value[mode->input] % mode->extent;
        value[mode->input] /= mode->extent;
        if (mode->dim != REPLICATED) coordinates[mode->dim] += v * mode->stride;
    }
}

bool layout_equal(const Layout *a, const Layout *b)
{
    if (a->rank != b->rank || a->n != b->n) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->extent[d] != b->extent[d]) return false;
    // The order of modes of different inputs does not matter: compare input by input.
    for (int input = 0; input < IN_COUNT; input++) {
        int j = 0;
        for (int i = 0; i < a->n; i++) {
            if ((int)a->mode[i].input != input) continue;
            while (j < b->n && (int)b->mode[j].input != input) j++;
            if (j == b->n || a->mode[i].extent != b->mode[j].extent || a->mode[i].dim != b->mode[j].dim ||
                a->mode[i].stride != b->mode[j].stride)
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
    // Distinct modes of one dimension never overlap in a sane layout, so counting distinct coordinates of each
    // dimension is enough: the elements are their product.
    for (int d = 0; d < layout->rank; d++) {
        int64_t combinations = 1;
        for (int i = 0; i < layout->n; i++)
            if (layout->mode[i].dim == d) combinations *= layout->mode[i].extent;
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
            const LayoutMode *const mode = &layout->mode[i];
            if ((int)mode->input != input) continue;
            text_print(out, "%s", any ? " " : input ? "; " : "");
            if (!any) text_print(out, "%s ", names[input]);
            if (mode->dim == REPLICATED) text_print(out, "%d x same", mode->extent);
            else text_print(out, "%d x d%d+%d", mode->extent, mode->dim, mode->stride);
            any = true;
        }
    }
}
