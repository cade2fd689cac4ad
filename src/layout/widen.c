// SPDX-License-Identifier: MIT
// widen.c - fragments whose lanes have longer runs of a row: modes of lanes and of registers are exchanged.
//
// Tensor cores leave two neighbours of a row in a lane, and the next two in the lane beside it. A store takes words of
// 4 bytes or vectors of 16: below that width every mode of the column has to be one of registers.
#include "layout/convert.h"

static void add_mode(Layout *layout, const MapMode *mode)
{
    LayoutMode *const last = layout->n ? &layout->mode[layout->n - 1] : NULL;
    if (last && (int)last->input == mode->in && last->dim == mode->out &&
        (mode->out == REPLICATED || last->stride * last->extent == mode->out_stride))
        last->extent *= mode->extent;
    else layout_add(layout, mode->in, mode->extent, mode->out, mode->out_stride);
}

// Neighbouring modes of one number that go on in the tile become one.
static const char *layout_of_map(const LinearMap *map, const Layout *like, Layout *layout)
{
    *layout = layout_new(like->rank, like->extent);
    for (int input = 0; input < IN_COUNT; input++)
        for (int stride = 1; stride > 0;) {
            const MapMode *const mode = map_mode_at(map, MAP_IN, input, stride);
            if (mode && layout->n == LAYOUT_MAX_MODES) return "a layout of too many modes";
            if (mode) add_mode(layout, mode);
            stride = mode ? stride * mode->extent : 0;
        }
    return NULL;
}

// The mode of the registers with the least stride along the last dimension that is at least `from`; NULL: none of two.
static MapMode *next_register(LinearMap *map, int last, int from)
{
    MapMode *next = NULL;
    for (int i = 0; i < map->n; i++) {
        MapMode *const mode = &map->mode[i];
        if (mode->in == IN_REGISTER && mode->out == last && mode->out_stride >= from &&
            (!next || mode->out_stride < next->out_stride))
            next = mode;
    }
    if (!next || next->extent == 2) return next;
    const int cut = 2 * next->out_stride, which = (int)(next - map->mode);
    return layout_divide(map, MAP_OUT, last, cut) ? NULL : &map->mode[which];
}

static const char *take_from_lanes(LinearMap *map, int last, int elements)
{
    int from = elements;
    for (int stride = 1; stride < elements; stride *= 2) {
        const MapMode *const mode = map_mode_at(map, MAP_OUT, last, stride);
        if (!mode || mode->extent != 2) return "a row's elements are not counted in twos";
        if (mode->in == IN_REGISTER) continue;
        if (mode->in != IN_LANE) return "other warps hold what a lane would get";
        const int which = (int)(mode - map->mode);
        MapMode *const other = next_register(map, last, from);
        if (!other) return "a lane has too little of a row";
        map->mode[which].out_stride = other->out_stride;
        from = 2 * other->out_stride;
        other->out_stride = stride;
    }
    return NULL;
}

const char *layout_widen(const Layout *layout, Partition partition, int elements, Layout *wide)
{
    LinearMap map;
    const int last = layout->rank - 1;
    const char *why = layout_map(layout, partition, &map);
    for (int cut = 2; cut <= elements && !why; cut *= 2) why = layout_divide(&map, MAP_OUT, last, cut);
    if (!why) why = take_from_lanes(&map, last, elements);
    return why ? why : layout_of_map(&map, layout, wide);
}

bool conversion_exchanges(const Conversion *how)
{
    for (int i = 0; i < how->n_steps; i++)
        if (how->step[i].kind != STEP_EXCHANGE) return false;
    return how->kind == CONVERT_SHUFFLES && map_is_identity(&how->registers);
}
