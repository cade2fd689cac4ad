// SPDX-License-Identifier: MIT
// count_boxes.c - a set of elements of a tensor, as boxes that do not overlap; neighbours become one.
#include "tools/count.h"

enum { BOXES_MAX = 1 << 15 };

static bool contains(const Box *a, const Box *b, int rank)
{
    for (int d = 0; d < rank; d++)
        if (b->lo[d] < a->lo[d] || b->hi[d] > a->hi[d]) return false;
    return true;
}

static bool overlaps(const Box *a, const Box *b, int rank)
{
    for (int d = 0; d < rank; d++)
        if (b->hi[d] < a->lo[d] || b->lo[d] > a->hi[d]) return false;
    return true;
}

// Of two that do not overlap: whether they are one box together; `a` becomes it.
static bool join(Box *a, const Box *b, int rank)
{
    int along = -1;
    for (int d = 0; d < rank; d++) {
        if (a->lo[d] == b->lo[d] && a->hi[d] == b->hi[d]) continue;
        if (along >= 0 || (a->hi[d] + 1 != b->lo[d] && b->hi[d] + 1 != a->lo[d])) return false;
        along = d;
    }
    if (along < 0) return true;
    a->lo[along] = a->lo[along] < b->lo[along] ? a->lo[along] : b->lo[along];
    a->hi[along] = a->hi[along] > b->hi[along] ? a->hi[along] : b->hi[along];
    return true;
}

// What of `b` lies outside `a`, dimension by dimension.
static void add_outside(Arena *arena, Boxes *boxes, const Box *a, Box b)
{
    for (int d = 0; d < boxes->rank; d++) {
        Box part = b;
        if (b.lo[d] < a->lo[d]) {
            part.hi[d] = a->lo[d] - 1;
            boxes_add(arena, boxes, part);
            b.lo[d] = a->lo[d];
        }
        part = b;
        if (b.hi[d] > a->hi[d]) {
            part.lo[d] = a->hi[d] + 1;
            boxes_add(arena, boxes, part);
            b.hi[d] = a->hi[d];
        }
    }
}

// Joined with one box it may fit to another.
static void add_disjoint(Arena *arena, Boxes *boxes, Box box)
{
    bool joined = true;
    while (joined) {
        joined = false;
        for (int i = boxes->list.count - 1; i >= 0 && !joined; i--) {
            boxes->effort++;
            joined = join(&box, &boxes->list.items[i], boxes->rank);
            if (joined) boxes->list.items[i] = boxes->list.items[--boxes->list.count];
        }
    }
    VEC_PUSH(arena, &boxes->list, box);
    boxes->last = boxes->list.count - 1;
    boxes->scattered |= boxes->list.count > BOXES_MAX;
}

bool boxes_add(Arena *arena, Boxes *boxes, Box box)
{
    const int rank = boxes->rank;
    if (boxes->scattered || (boxes->last < boxes->list.count && contains(&boxes->list.items[boxes->last], &box, rank)))
        return false;
    for (int i = boxes->list.count - 1; i >= 0; i--) {
        boxes->effort++;
        if (!overlaps(&boxes->list.items[i], &box, rank)) continue;
        if (contains(&boxes->list.items[i], &box, rank)) return boxes->last = i, false;
        const Box other = boxes->list.items[i]; // the list moves
        add_outside(arena, boxes, &other, box);
        return true;
    }
    add_disjoint(arena, boxes, box);
    return true;
}

double boxes_elements(const Boxes *boxes)
{
    double sum = 0;
    for (int i = 0; i < boxes->list.count; i++) {
        double n = 1;
        for (int d = 0; d < boxes->rank; d++)
            n *= (double)(boxes->list.items[i].hi[d] - boxes->list.items[i].lo[d] + 1);
        sum += n;
    }
    return sum;
}
