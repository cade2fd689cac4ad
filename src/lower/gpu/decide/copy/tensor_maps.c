// SPDX-License-Identifier: MIT
// tensor_maps.c - deciding: which tensor maps a kernel has, and which one each copy and store of boxes goes by.
//
// Maps are numbered in the order of their first use. Actions with the same tensor, box and swizzle share one.
//
// before: which part of a box this CTA moves is known      after: the map is in lo->maps, its number in the action
#include "lower/gpu/facts/box.h"

#include <assert.h>

static bool has_steps(const TensorMap *map)
{
    bool any = false;
    for (int d = 0; d < BOX_RANK; d++) any |= map->step[d] != NULL;
    return any;
}

static bool is_same_map(const TensorMap *map, const Buffer *tensor, const int *shape, int swizzle)
{
    return !has_steps(map) && map->tensor == tensor && map->swizzle == swizzle &&
           memcmp(map->box, shape, sizeof map->box) == 0;
}

static int new_map(Lowering *lo, Buffer *tensor, const int *shape, int swizzle)
{
    TensorMap *const map = NEW(lo->arena, TensorMap, .tensor = tensor, .swizzle = swizzle, .index = lo->maps.count);
    memcpy(map->box, shape, sizeof map->box);
    VEC_PUSH(lo->arena, &lo->maps, map);
    return map->index;
}

static int add_map(Lowering *lo, Buffer *tensor, const int *shape, int swizzle)
{
    for (int i = 0; i < lo->maps.count; i++)
        if (is_same_map(lo->maps.items[i], tensor, shape, swizzle)) return i;
    return new_map(lo, tensor, shape, swizzle);
}

// Boxes of a panel's columns, of as many rows as the tile.
static int map_of_walk(Lowering *lo, const BoxCopy *copy)
{
    const SharedLayout *const s = &copy->tile->shared;
    for (int i = 0; i < lo->maps.count; i++) {
        const TensorMap *const map = lo->maps.items[i];
        if (map->tensor == copy->box.tensor && map->swizzle == s->swizzle_bytes && map->box[0] == s->panel_columns &&
            im2col_is_same(map->im2col, copy->im2col))
            return i;
    }
    const int index =
        new_map(lo, copy->box.tensor, (int[BOX_RANK]){ s->panel_columns, copy->im2col->rows }, s->swizzle_bytes);
    lo->maps.items[index]->im2col = copy->im2col;
    for (int i = 0; i < copy->im2col->n; i++) lo->maps.items[index]->step[1 + i] = copy->im2col->walked[i].step;
    return index;
}

// Boxes whose elements are apart.
static int map_of_steps(Lowering *lo, const Box *box, const int *shape, int swizzle)
{
    const int rank = box->tensor->rank;
    for (int i = 0; i < lo->maps.count; i++) {
        const TensorMap *const map = lo->maps.items[i];
        bool same = !map->im2col && map->tensor == box->tensor && map->swizzle == swizzle &&
                    memcmp(map->box, shape, sizeof map->box) == 0;
        for (int d = 0; d < rank && same; d++) {
            const Expr *const a = map->step[rank - 1 - d], *const b = box->step[d];
            same = a && b ? expr_equal(a, b) : a == b;
        }
        if (same) return i;
    }
    const int index = new_map(lo, box->tensor, shape, swizzle);
    for (int d = 0; d < rank; d++) lo->maps.items[index]->step[rank - 1 - d] = box->step[d];
    return index;
}

// Widths of a box as a map has them: the fastest dimension first.
static void reverse_widths(const int64_t *widths, int rank, int *shape)
{
    for (int d = 0; d < rank; d++) shape[rank - 1 - d] = (int)widths[d];
}

int map_of_slice(Lowering *lo, const Region *region, int columns, int rows, int swizzle)
{
    int64_t widths[MAX_RANK];
    const bool is_box = box_widths(lo, region, widths);
    assert(is_box);
    (void)is_box;
    const int rank = region->buffer->rank;
    int shape[BOX_RANK] = { 0 };
    reverse_widths(widths, rank, shape);
    shape[0] = columns;
    for (int i = 1, left = rows; i < rank && rows > 0; i++) {
        shape[i] = shape[i] < left ? shape[i] : left;
        left /= shape[i];
    }
    return add_map(lo, region->buffer, shape, swizzle);
}

// Maps of the same columns and 1, 4, 16 ... and at last all rows along the dimension that is cut, one after the other.
// Returns the first.
static int maps_of_cut(Lowering *lo, const Box *box, int columns, int swizzle)
{
    const int rank = box->tensor->rank, along = rank - 1 - box->cut;
    int shape[BOX_RANK] = { 0 }, rows[6], n = 0;
    reverse_widths(box->width, rank, shape);
    shape[0] = columns;
    for (int r = 1; r < box->width[box->cut]; r *= 4) rows[n++] = r;
    rows[n++] = (int)box->width[box->cut];
    for (int i = 0; i + n <= lo->maps.count; i++) {
        bool same = true;
        for (int k = 0; k < n && same; k++) {
            shape[along] = rows[k];
            same = is_same_map(lo->maps.items[i + k], box->tensor, shape, swizzle);
        }
        if (same) return i;
    }
    const int first = lo->maps.count;
    for (int k = 0; k < n; k++) {
        shape[along] = rows[k];
        new_map(lo, box->tensor, shape, swizzle);
    }
    return first;
}

int map_of_copy(Lowering *lo, const BoxCopy *copy)
{
    const SharedLayout *const s = &copy->tile->shared;
    const int rank = copy->box.tensor->rank;
    int shape[BOX_RANK] = { 0 };
    if (copy->im2col) return map_of_walk(lo, copy);
    if (copy->box.cut >= 0) return maps_of_cut(lo, &copy->box, s->panel_columns, s->swizzle_bytes);
    reverse_widths(copy->box.width, rank, shape);
    if (copy->share.along != rank - 1) shape[0] = s->panel_columns;
    if (box_has_steps(&copy->box)) return map_of_steps(lo, &copy->box, shape, s->swizzle_bytes);
    return add_map(lo, copy->box.tensor, shape, s->swizzle_bytes);
}

bool maps_suffice(Lowering *lo)
{
    const int most = plan_most_maps(plan_words(lo->plan));
    if (lo->maps.count <= most) return true;
    return diag_error(lo->diags, lo->kernel->params[0].span,
                      "the copies of this kernel take %d tensor maps, a launch carries %d: use fewer sizes of slices",
                      lo->maps.count, most);
}
