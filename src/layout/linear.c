// SPDX-License-Identifier: MIT
// linear.c - linear maps: dividing their modes, composing and inverting them.
#include "layout/linear.h"

#include <assert.h>
#include <stdint.h>

static const char no_refinement[] = "the extents have no common refinement";
static const char too_many[] = "a map of too many modes";

LinearMap map_new(int n_in, int n_out)
{
    assert(n_in <= LAYOUT_MAX_RANK && n_out <= LAYOUT_MAX_RANK);
    return (LinearMap){ .n_in = n_in, .n_out = n_out };
}

const char *map_add(LinearMap *map, MapMode mode)
{
    if (mode.extent == 1) return NULL;
    if (map->n == MAP_MAX_MODES) return too_many;
    if (mode.out == REPLICATED) mode.out_stride = 0;
    map->mode[map->n++] = mode;
    return NULL;
}

const char *layout_map(const Layout *layout, Partition partition, LinearMap *map)
{
    int done[IN_COUNT] = { 1, 1, 1, 1 };
    *map = map_new(IN_COUNT, layout->rank);
    for (int i = 0; i < layout->n; i++) {
        const LayoutMode *const mode = &layout->mode[i];
        const char *const why =
            map_add(map, (MapMode){ mode->input, done[mode->input], mode->extent, mode->dim, mode->stride });
        if (why) return why;
        done[mode->input] *= mode->extent;
    }
    const int threads[IN_COUNT] = { done[IN_REGISTER], WARP_LANES, partition.warps, partition.groups };
    for (int input = IN_LANE; input < IN_COUNT; input++) {
        if (threads[input] % done[input] != 0) return "more threads than the partition has";
        const char *const why =
            map_add(map, (MapMode){ input, done[input], threads[input] / done[input], REPLICATED, 0 });
        if (why) return why;
    }
    return NULL;
}

void map_at(const LinearMap *map, const int *in, int *out)
{
    for (int i = 0; i < map->n_out; i++) out[i] = 0;
    for (int i = 0; i < map->n; i++) {
        const MapMode *const mode = &map->mode[i];
        if (mode->out != REPLICATED) out[mode->out] += in[mode->in] / mode->in_stride % mode->extent * mode->out_stride;
    }
}

// ---- dividing

static int number_of(const MapMode *mode, MapSide side) { return side == MAP_IN ? mode->in : mode->out; }
static int stride_of(const MapMode *mode, MapSide side) { return side == MAP_IN ? mode->in_stride : mode->out_stride; }
static int end_of(const MapMode *mode, MapSide side) { return stride_of(mode, side) * mode->extent; }

const char *layout_divide(LinearMap *map, MapSide side, int number, int cut)
{
    for (int i = 0, n = map->n; i < n; i++) {
        MapMode *const mode = &map->mode[i];
        const int stride = stride_of(mode, side);
        if (number_of(mode, side) != number || stride >= cut || end_of(mode, side) <= cut) continue;
        const int first = cut / stride;
        if (cut % stride != 0 || mode->extent % first != 0) return no_refinement;
        const char *const why = map_add(map, (MapMode){ mode->in, mode->in_stride * first, mode->extent / first,
                                                        mode->out, mode->out_stride * first });
        if (why) return why;
        map->mode[i].extent = first;
    }
    return NULL;
}

// Where the modes of `by` begin and end on its side, `map` is divided on the other.
static const char *divide_by(LinearMap *map, MapSide side, const LinearMap *by, MapSide by_side)
{
    for (int i = 0; i < by->n; i++) {
        const MapMode *const mode = &by->mode[i];
        const int number = number_of(mode, by_side);
        if (number == REPLICATED) continue;
        const char *why = layout_divide(map, side, number, stride_of(mode, by_side));
        if (!why) why = layout_divide(map, side, number, end_of(mode, by_side));
        if (why) return why;
    }
    return NULL;
}

// ---- composing and inverting

// Whether the digits that the modes write stand beside each other, so that none carries into the next.
static bool is_without_carry(const LinearMap *map)
{
    for (int i = 0; i < map->n; i++)
        for (int j = 0; j < map->n; j++) {
            const MapMode *const a = &map->mode[i], *const b = &map->mode[j];
            if (i == j || a->out == REPLICATED || a->out != b->out || a->out_stride > b->out_stride) continue;
            if (b->out_stride % end_of(a, MAP_OUT) != 0) return false;
        }
    return true;
}

// Whether a digit that is written moves no digit that is read below it: strides as 3 over a digit of 2 would.
static bool leaves_lower_digits(const MapMode *written, const LinearMap *reader)
{
    for (int i = 0; i < reader->n; i++) {
        const MapMode *const mode = &reader->mode[i];
        if (mode->in == written->out && end_of(mode, MAP_IN) <= written->out_stride &&
            written->out_stride % end_of(mode, MAP_IN) != 0)
            return false;
    }
    return true;
}

const MapMode *map_mode_at(const LinearMap *map, MapSide side, int number, int stride)
{
    for (int i = 0; i < map->n; i++)
        if (number_of(&map->mode[i], side) == number && stride_of(&map->mode[i], side) == stride) return &map->mode[i];
    return NULL;
}

const char *layout_compose(const LinearMap *outer, const LinearMap *inner, LinearMap *result)
{
    assert(outer->n_in == inner->n_out && "what the inner map writes the outer reads");
    LinearMap second = *outer, first = *inner, whole = map_new(inner->n_in, outer->n_out);
    if (!is_without_carry(&first)) return "the modes of the inner map carry into each other";
    const char *why = divide_by(&first, MAP_OUT, &second, MAP_IN);
    if (!why) why = divide_by(&second, MAP_IN, &first, MAP_OUT);
    for (int i = 0; i < first.n && !why; i++) {
        const MapMode *const mode = &first.mode[i];
        int readers = 0;
        if (!leaves_lower_digits(mode, &second)) why = no_refinement;
        for (int j = 0; j < second.n && mode->out != REPLICATED && !why; j++) {
            const MapMode *const reader = &second.mode[j];
            if (reader->in != mode->out || reader->in_stride != mode->out_stride) continue;
            assert(reader->extent == mode->extent && "both are divided at each other's ends");
            why =
                map_add(&whole, (MapMode){ mode->in, mode->in_stride, mode->extent, reader->out, reader->out_stride });
            readers++;
        }
        if (readers == 0 && !why)
            why = map_add(&whole, (MapMode){ mode->in, mode->in_stride, mode->extent, REPLICATED, 0 });
    }
    if (!why) *result = whole;
    return why;
}

const char *layout_invert(const LinearMap *map, LinearMap *result)
{
    LinearMap inverse = map_new(map->n_out, map->n_in);
    if (!is_without_carry(map)) return "two modes reach the same place";
    for (int i = 0; i < map->n; i++) {
        const MapMode *const mode = &map->mode[i];
        if (mode->out == REPLICATED) continue;
        inverse.mode[inverse.n++] = (MapMode){ mode->out, mode->out_stride, mode->extent, mode->in, mode->in_stride };
    }
    *result = inverse;
    return NULL;
}

bool map_is_identity(const LinearMap *map)
{
    if (map->n_in != map->n_out) return false;
    for (int i = 0; i < map->n; i++) {
        const MapMode *const mode = &map->mode[i];
        if (mode->out != REPLICATED && (mode->out != mode->in || mode->out_stride != mode->in_stride)) return false;
    }
    return true;
}
