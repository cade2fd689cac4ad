// SPDX-License-Identifier: MIT
// Linear maps: laws of composing, inverting and dividing over random layouts, and what has to be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "layout/linear.h"
#include "random_layout.h"

enum { ROUNDS = 400 };

static const Partition partitions[] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 4 }, { 1, 2 } };

typedef struct Case {
    Layout layout;
    Partition partition;
    LinearMap map;
} Case;

// Rank 1 to 3, extents of 2s, 3s and 5s, all elements at home.
static Case random_case(Random *random)
{
    static const int factors[] = { 2, 2, 4, 8, 16, 3, 5, 6, 1 };
    Case c = { .partition = partitions[below(random, 5)] };
    for (;;) {
        int coverage[3] = { 1, 1, 1 }, volume = 1;
        const int rank = 1 + below(random, 3);
        for (int i = 0; i < 4; i++) coverage[below(random, rank)] *= factors[below(random, 9)];
        for (int d = 0; d < rank; d++) volume *= coverage[d];
        const Modes modes = random_modes(random, rank, coverage, c.partition);
        if (volume > 2048 || modes.n > LAYOUT_MAX_MODES) continue;
        c.layout = layout_of(random, &modes, rank, coverage);
        assert_null(layout_map(&c.layout, c.partition, &c.map));
        return c;
    }
}

static void random_inputs(Random *random, const Case *c, int *in)
{
    in[IN_REGISTER] = below(random, layout_registers(&c->layout));
    in[IN_LANE] = below(random, WARP_LANES);
    in[IN_WARP] = below(random, c->partition.warps);
    in[IN_GROUP] = below(random, c->partition.groups);
}

static void maps_are_their_layouts(void **state)
{
    Random random = { 1 };
    for (int round = 0; round < ROUNDS; round++) {
        const Case c = random_case(&random);
        for (int i = 0; i < 50; i++) {
            int in[IN_COUNT], out[LAYOUT_MAX_RANK], at[LAYOUT_MAX_RANK];
            random_inputs(&random, &c, in);
            map_at(&c.map, in, out);
            layout_at(&c.layout, in[0], in[1], in[2], in[3], at);
            for (int d = 0; d < c.layout.rank; d++) assert_int_equal(out[d], at[d]);
        }
    }
}

// layout(inverse(x)) = x of every element; inverse(layout) is the identity but for replicas, and of it the inverse, too.
static void inverses_lead_back(void **state)
{
    Random random = { 2 };
    for (int round = 0; round < ROUNDS; round++) {
        const Case c = random_case(&random);
        LinearMap inverse, coordinates, inputs, again;
        assert_null(layout_invert(&c.map, &inverse));
        assert_null(layout_compose(&c.map, &inverse, &coordinates));
        assert_null(layout_compose(&inverse, &c.map, &inputs));
        assert_null(layout_invert(&inverse, &again));
        assert_true(map_is_identity(&coordinates));
        assert_true(map_is_identity(&inputs));
        for (int i = 0; i < 50; i++) {
            int at[LAYOUT_MAX_RANK] = { 0 }, in[LAYOUT_MAX_RANK], back[LAYOUT_MAX_RANK];
            for (int d = 0; d < c.layout.rank; d++) at[d] = below(&random, c.layout.extent[d]);
            map_at(&inverse, at, in);
            layout_at(&c.layout, in[0], in[1], in[2], in[3], back);
            for (int d = 0; d < c.layout.rank; d++) assert_int_equal(back[d], at[d]);
            map_at(&again, in, back);
            for (int d = 0; d < c.layout.rank; d++) assert_int_equal(back[d], at[d]);
        }
    }
}

// A layout after the inverse of another: the same as one after the other, and associative with a third.
static void composition_is_application(void **state)
{
    Random random = { 3 };
    int composed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const Case a = random_case(&random);
        Modes modes = random_modes(&random, a.layout.rank, a.layout.extent, a.partition);
        if (modes.n > LAYOUT_MAX_MODES) continue;
        const Layout other = layout_of(&random, &modes, a.layout.rank, a.layout.extent);
        LinearMap b, back, b_back, between, whole, left, right;
        assert_null(layout_map(&other, a.partition, &b));
        assert_null(layout_invert(&a.map, &back));
        if (layout_compose(&back, &b, &between)) continue; // 6 = 2 x 3 = 3 x 2
        composed++;
        assert_null(layout_compose(&a.map, &between, &whole));
        assert_null(layout_invert(&b, &b_back));
        assert_null(layout_compose(&between, &b_back, &right));
        assert_null(layout_compose(&b, &b_back, &left));
        assert_null(layout_compose(&back, &left, &left)); // the result may be an operand
        for (int i = 0; i < 50; i++) {
            int in[IN_COUNT], at[LAYOUT_MAX_RANK], direct[LAYOUT_MAX_RANK];
            const Case c = { other, a.partition, b };
            random_inputs(&random, &c, in);
            map_at(&b, in, at);
            map_at(&whole, in, direct);
            for (int d = 0; d < a.layout.rank; d++) assert_int_equal(at[d], direct[d]);
            map_at(&left, at, in);
            map_at(&right, at, direct);
            for (int k = 0; k < IN_COUNT; k++) assert_int_equal(in[k], direct[k]);
        }
    }
    assert_true(composed > ROUNDS / 4);
}

// Dividing changes modes, not values.
static void division_changes_nothing(void **state)
{
    Random random = { 4 };
    for (int round = 0; round < ROUNDS; round++) {
        const Case c = random_case(&random);
        LinearMap divided = c.map;
        const MapSide side = below(&random, 2) ? MAP_IN : MAP_OUT;
        const int number = below(&random, side == MAP_IN ? IN_COUNT : c.layout.rank), cut = 1 << below(&random, 6);
        if (layout_divide(&divided, side, number, cut)) continue;
        for (int i = 0; i < divided.n; i++) {
            const MapMode *const mode = &divided.mode[i];
            const int stride = side == MAP_IN ? mode->in_stride : mode->out_stride;
            if ((side == MAP_IN ? mode->in : mode->out) != number) continue;
            assert_true(stride >= cut || stride * mode->extent <= cut);
        }
        for (int i = 0; i < 20; i++) {
            int in[IN_COUNT], a[LAYOUT_MAX_RANK], b[LAYOUT_MAX_RANK];
            random_inputs(&random, &c, in);
            map_at(&c.map, in, a);
            map_at(&divided, in, b);
            for (int d = 0; d < c.layout.rank; d++) assert_int_equal(a[d], b[d]);
        }
    }
}

// layout_split is composition with the map that takes a coordinate apart.
static void splits_are_compositions(void **state)
{
    const Partition partition = { 2, 4 };
    const Layout layout = layout_accumulator(128, 96, partition, DIVIDE_ROWS);
    for (int fast = 1; fast <= 96; fast *= 2) {
        if (96 % fast != 0) continue;
        Layout parts;
        assert_true(layout_split(&layout, (DimensionSplit[]){ { 1, { 128 } }, { 2, { 96 / fast, fast } } }, &parts));
        LinearMap map, apart = map_new(2, 3), whole;
        assert_null(layout_map(&layout, partition, &map));
        assert_null(map_add(&apart, (MapMode){ 0, 1, 128, 0, 1 }));
        assert_null(map_add(&apart, (MapMode){ 1, 1, fast, 2, 1 }));
        assert_null(map_add(&apart, (MapMode){ 1, fast, 96 / fast, 1, 1 }));
        assert_null(layout_compose(&apart, &map, &whole));
        for (int reg = 0; reg < layout_registers(&layout); reg++)
            for (int lane = 0; lane < WARP_LANES; lane++) {
                int a[LAYOUT_MAX_RANK], b[LAYOUT_MAX_RANK];
                layout_at(&parts, reg, lane, 3, 1, a);
                map_at(&whole, (int[]){ reg, lane, 3, 1 }, b);
                for (int d = 0; d < 3; d++) assert_int_equal(a[d], b[d]);
            }
    }
}

static void what_is_not_linear_is_refused(void **state)
{
    LinearMap two_three = map_new(1, 2), three_two = map_new(2, 1), result;
    assert_null(map_add(&two_three, (MapMode){ 0, 1, 2, 0, 1 }));
    assert_null(map_add(&two_three, (MapMode){ 0, 2, 3, 1, 1 }));
    assert_null(map_add(&three_two, (MapMode){ 0, 1, 3, 0, 1 }));
    assert_null(map_add(&three_two, (MapMode){ 1, 1, 2, 0, 3 }));
    assert_string_equal(layout_compose(&two_three, &three_two, &result), "the extents have no common refinement");
    LinearMap sum = map_new(2, 1);
    assert_null(map_add(&sum, (MapMode){ 0, 1, 3, 0, 1 }));
    assert_null(map_add(&sum, (MapMode){ 1, 1, 3, 0, 1 }));
    assert_string_equal(layout_invert(&sum, &result), "two modes reach the same place");
    assert_string_equal(layout_compose(&two_three, &sum, &result), "the modes of the inner map carry into each other");
    // A stride of 3 over a mode of 2 that is read alone would change it.
    LinearMap low = map_new(1, 1), stride = map_new(1, 1);
    assert_null(map_add(&low, (MapMode){ 0, 1, 2, 0, 1 }));
    assert_null(map_add(&stride, (MapMode){ 0, 1, 2, 0, 3 }));
    assert_non_null(layout_compose(&low, &stride, &result));
    assert_string_equal(layout_divide(&stride, MAP_OUT, 0, 4), "the extents have no common refinement");
    const Layout wide = layout_accumulator(128, 8, (Partition){ 2, 4 }, DIVIDE_ROWS);
    assert_string_equal(layout_map(&wide, (Partition){ 1, 4 }, &result), "more threads than the partition has");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_their_layouts),     cmocka_unit_test(inverses_lead_back),
        cmocka_unit_test(composition_is_application), cmocka_unit_test(division_changes_nothing),
        cmocka_unit_test(splits_are_compositions),    cmocka_unit_test(what_is_not_linear_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
