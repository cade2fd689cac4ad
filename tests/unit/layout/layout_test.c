// SPDX-License-Identifier: MIT
// Layouts of fragments and shared tiles, checked by enumeration against plain formulas from the PTX manual.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "layout/layout.h"

#include <stdlib.h>

// How many threads and registers hold each element of a layout of rank 2; fails if one is out of reach.
static void count_owners(const Layout *layout, Partition partition, int *owners)
{
    const int rows = layout->extent[0], columns = layout->rank > 1 ? layout->extent[1] : 1;
    for (int i = 0; i < rows * columns; i++) owners[i] = 0;
    for (int group = 0; group < partition.groups; group++)
        for (int warp = 0; warp < partition.warps; warp++)
            for (int lane = 0; lane < WARP_LANES; lane++)
                for (int reg = 0; reg < layout_registers(layout); reg++) {
                    int at[LAYOUT_MAX_RANK] = { 0 };
                    layout_at(layout, reg, lane, warp, group, at);
                    if (at[0] < rows && at[1] < columns) owners[at[0] * columns + at[1]]++;
                }
}

static void expect_owners(const Layout *layout, Partition partition, int each)
{
    const int n = layout->extent[0] * (layout->rank > 1 ? layout->extent[1] : 1);
    int *const owners = malloc(sizeof(int) * (size_t)n);
    count_owners(layout, partition, owners);
    for (int i = 0; i < n; i++)
        if (each ? owners[i] != each : owners[i] < 1)
            fail_msg("element %d of %d x %d has %d places", i, layout->extent[0],
                     layout->rank > 1 ? layout->extent[1] : 1, owners[i]);
    free(owners);
}

// The figure of the manual: wgmma m64nN, D fragment.
static void accumulator_is_the_manuals(void **state)
{
    static const int widths[] = { 8, 16, 64, 80, 96, 256 };
    for (int w = 0; w < (int)(sizeof widths / sizeof widths[0]); w++) {
        const Partition partition = { 1, 4 };
        const Layout layout = layout_accumulator(64, widths[w], partition, DIVIDE_ROWS);
        assert_int_equal(layout_registers(&layout), widths[w] / 2);
        for (int warp = 0; warp < 4; warp++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < widths[w] / 2; r++) {
                    int at[LAYOUT_MAX_RANK];
                    layout_at(&layout, r, lane, warp, 0, at);
                    assert_int_equal(at[0], 16 * warp + lane / 4 + 8 * (r % 4 / 2));
                    assert_int_equal(at[1], 8 * (r / 4) + 2 * (lane % 4) + r % 2);
                }
    }
}

// Figure of wgmma's A of 8 bits: rows lane/4 and 8 more, columns 4*(lane%4) on and 16 more.
static void bytes_of_a_left_operand_are_the_manuals(void **state)
{
    const Partition partition = { 2, 4 };
    const Layout layout = layout_left_bytes(128, 64, partition);
    assert_true(layout_covers(&layout));
    for (int group = 0; group < 2; group++)
        for (int warp = 0; warp < 4; warp++)
            for (int lane = 0; lane < WARP_LANES; lane++)
                for (int r = 0; r < layout_registers(&layout); r++) {
                    int at[LAYOUT_MAX_RANK];
                    layout_at(&layout, r, lane, warp, group, at);
                    assert_int_equal(at[0], 64 * group + 16 * warp + lane / 4 + 8 * (r / 4 % 2));
                    assert_int_equal(at[1], 16 * (r / 8) + 4 * (lane % 4) + r % 4);
                }
    expect_owners(&layout, partition, 1);
}

static void accumulators_give_each_element_one_owner(void **state)
{
    static const int rows[] = { 1, 17, 64, 80, 128, 192, 256 }, columns[] = { 8, 24, 64, 80, 256 };
    static const Partition partitions[] = { { 1, 1 }, { 1, 2 }, { 1, 4 }, { 2, 4 }, { 3, 4 }, { 4, 4 } };
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 5; j++)
            for (int c = 0; c < 6; c++)
                for (int d = 0; d < 2; d++) {
                    const Layout layout = layout_accumulator(rows[i], columns[j], partitions[c], (Division)d);
                    const int wide = (columns[j] + 16 * partitions[c].groups - 1) / (16 * partitions[c].groups) *
                                     (16 * partitions[c].groups);
                    for (int odd = 1; odd < 4; odd++) {
                        const Layout bytes =
                            layout_accumulator_bytes(rows[i], wide, partitions[c], (Division)d, odd & 1, odd & 2);
                        assert_true(layout_covers(&bytes));
                    }
                    assert_true(layout_covers(&layout));
                    Division division;
                    assert_true(layout_is_accumulator(&layout, partitions[c], &division));
                    assert_true(division == (Division)d || partitions[c].groups == 1);
                    expect_owners(&layout, partitions[c], 1);
                }
}

static void blocked_layouts_reach_every_element(void **state)
{
    static const int extents[][2] = { { 1, 4096 }, { 16, 512 }, { 7, 33 }, { 192, 64 },
                                      { 3, 1 },    { 576, 80 }, { 1, 1 },  { 64, 100 } };
    static const Partition partitions[] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 4 } };
    for (int e = 0; e < 8; e++)
        for (int c = 0; c < 4; c++)
            for (int vector = 1; vector <= 8; vector *= 2) {
                const Layout layout = layout_blocked(2, extents[e], partitions[c], vector);
                expect_owners(&layout, partitions[c], 0);
            }
}

// A row's element lives with every thread that holds part of the row, and nowhere else.
static void projections_follow_their_rows(void **state)
{
    const Partition partition = { 2, 4 };
    const Layout tile = layout_accumulator(128, 80, partition, DIVIDE_ROWS),
                 rows = layout_project(&tile, 1, (int[]){ 0 });
    assert_int_equal(layout_registers(&rows), 2);
    for (int group = 0; group < 2; group++)
        for (int warp = 0; warp < 4; warp++)
            for (int lane = 0; lane < 32; lane++)
                for (int half = 0; half < 2; half++) {
                    int whole[LAYOUT_MAX_RANK], row[LAYOUT_MAX_RANK];
                    layout_at(&tile, 2 * half, lane, warp, group, whole);
                    layout_at(&rows, half, lane, warp, group, row);
                    assert_int_equal(whole[0], row[0]);
                }
    const Layout columns = layout_project(&tile, 1, (int[]){ 1 });
    assert_int_equal(layout_registers(&columns), 20);
    assert_false(layout_equal(&rows, &columns));
    assert_true(layout_equal(&rows, &rows));
}

// Rows x columns of an accumulator, with the columns (or rows) as `slow` times `fast`.
static void expect_split(int rows, int columns, bool of_rows, int slow, int fast)
{
    const Partition partition = { 2, 4 };
    const Layout layout = layout_accumulator(rows, columns, partition, DIVIDE_ROWS);
    const DimensionSplit two = { 2, { slow, fast } };
    const DimensionSplit dims[2] = { of_rows ? two : (DimensionSplit){ 1, { rows } },
                                     of_rows ? (DimensionSplit){ 1, { columns } } : two };
    Layout parts;
    assert_true(layout_split(&layout, dims, &parts));
    assert_int_equal(parts.rank, 3);
    for (int group = 0; group < partition.groups; group++)
        for (int warp = 0; warp < partition.warps; warp++)
            for (int lane = 0; lane < WARP_LANES; lane++)
                for (int reg = 0; reg < layout_registers(&layout); reg++) {
                    int at[LAYOUT_MAX_RANK], of[LAYOUT_MAX_RANK];
                    layout_at(&layout, reg, lane, warp, group, at);
                    layout_at(&parts, reg, lane, warp, group, of);
                    const int row = of_rows ? of[0] * fast + of[1] : of[0],
                              column = of_rows ? of[2] : of[1] * fast + of[2];
                    assert_int_equal(row, at[0]);
                    assert_int_equal(column, at[1]);
                    assert_true(of[of_rows ? 1 : 2] < fast);
                }
    const Layout whole = layout_merge(&parts, 2, dims, (int[]){ 0, 1, 2 });
    assert_true(layout_equal(&layout, &whole));
}

static void dimensions_split_and_merge(void **state)
{
    for (int fast = 1; fast <= 128; fast *= 2) {
        expect_split(128, 128, false, 128 / fast, fast);
        expect_split(256, 64, true, 256 / fast, fast);
    }
    expect_split(128, 80, false, 5, 16);
    expect_split(128, 80, false, 1, 80);
    expect_split(128, 96, false, 2, 48);
    // A lane or a register would stand in two parts.
    const Layout layout = layout_accumulator(64, 48, (Partition){ 1, 4 }, DIVIDE_ROWS);
    Layout parts;
    assert_true(layout_split(&layout, (DimensionSplit[]){ { 1, { 64 } }, { 2, { 6, 8 } } }, &parts));
    assert_false(layout_split(&layout, (DimensionSplit[]){ { 1, { 64 } }, { 2, { 4, 12 } } }, &parts));
    assert_false(layout_split(&layout, (DimensionSplit[]){ { 1, { 64 } }, { 2, { 16, 3 } } }, &parts));
}

static void panels_are_one_to_one(void **state)
{
    static const int shapes[][4] = { { 64, 64, 2 }, { 128, 128, 2 },    { 80, 64, 2 },
                                     { 5, 16, 2 },  { 64, 32, 2 },      { 256, 128, 1 },
                                     { 33, 48, 4 }, { 64, 192, 2, 32 }, { 64, 192, 2, 16 } };
    for (int s = 0; s < 9; s++) {
        SharedLayout layout;
        assert_true(shared_panels(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], &layout));
        assert_true(!shapes[s][3] || layout.panel_columns == shapes[s][3]);
        unsigned char *const used = calloc(1, (size_t)layout.bytes);
        for (int r = 0; r < shapes[s][0]; r++)
            for (int c = 0; c < shapes[s][1]; c++) {
                const int at = shared_offset(&layout, r, c);
                assert_true(at >= 0 && at + shapes[s][2] <= layout.bytes && at % shapes[s][2] == 0);
                assert_int_equal(used[at]++, 0);
                // TMA and wgmma: the 16-byte piece is XORed with the 128-byte line of the panel.
                const int sw = layout.swizzle_bytes, plain = r * sw + c % layout.panel_columns * shapes[s][2];
                const int piece = plain % sw / 16 ^ (plain / 128 % 8 & (sw / 16 - 1));
                assert_int_equal(at % layout.panel_bytes, plain / sw * sw + piece * 16 + plain % 16);
            }
        free(used);
    }
    SharedLayout none;
    assert_false(shared_panels(64, 9, 2, 0, &none));
}

// ldmatrix of eight rows, and stmatrix: each phase of eight lanes hits all banks once.
static void swizzled_columns_have_no_conflicts(void **state)
{
    SharedLayout swizzled;
    assert_true(shared_panels(64, 64, 2, 0, &swizzled));
    const SharedLayout plain = shared_plain(64, 64, 2);
    for (int column = 0; column < 64; column += 8) {
        int rows[8], columns[8];
        for (int i = 0; i < 8; i++) {
            rows[i] = i;
            columns[i] = column;
        }
        assert_int_equal(shared_conflicts(&swizzled, rows, columns, 8), 1);
        assert_int_equal(shared_conflicts(&plain, rows, columns, 8), 8);
    }
}

// Every element has a home, a thread's rectangle is where the product looks for it, and operands are read in whole runs.
static void register_tiles_are_rectangles(void **state)
{
    static const struct {
        int rows, columns, groups, warps, row_run, column_run;
        bool keep_rows;
    } cases[] = {
        { 128, 256, 2, 4, 1, 1, false }, { 128, 256, 2, 4, 4, 4, false }, { 64, 64, 1, 4, 1, 4, true },
        { 16, 16, 1, 4, 1, 4, false },   { 192, 128, 3, 4, 4, 1, false }, { 8, 24, 1, 1, 1, 1, false },
        { 96, 64, 1, 2, 2, 2, true },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        const Partition partition = { cases[i].groups, cases[i].warps };
        RegisterTile t;
        assert_true(layout_register_tile(cases[i].rows, cases[i].columns, partition, cases[i].row_run,
                                         cases[i].column_run, cases[i].keep_rows, 128, &t));
        assert_true(layout_covers(&t.layout));
        assert_int_equal(layout_registers(&t.layout), t.row_run * t.row_runs * t.column_run * t.column_runs);
        assert_int_equal(layout_extent_of(&t.layout, IN_LANE), WARP_LANES);
        assert_int_equal(cases[i].row_run % t.row_run + cases[i].column_run % t.column_run, 0);
        for (int lane = 0; lane < WARP_LANES; lane++)
            for (int warp = 0; warp < partition.warps; warp++)
                for (int group = 0; group < partition.groups; group++) {
                    int corner[2], at[2];
                    layout_at(&t.layout, 0, lane, warp, group, corner);
                    for (int r = 0; r < t.row_run * t.row_runs; r++)
                        for (int c = 0; c < t.column_run * t.column_runs; c++) {
                            const int reg =
                                c % t.column_run +
                                t.column_run *
                                    (r % t.row_run + t.row_run * (c / t.column_run + t.column_runs * (r / t.row_run)));
                            layout_at(&t.layout, reg, lane, warp, group, at);
                            assert_int_equal(at[0], corner[0] + r / t.row_run * t.row_stride + r % t.row_run);
                            assert_int_equal(at[1], corner[1] + c / t.column_run * t.column_stride + c % t.column_run);
                        }
                }
    }
    RegisterTile none;
    assert_false(layout_register_tile(512, 512, (Partition){ 1, 4 }, 1, 1, false, 128, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulator_is_the_manuals),
        cmocka_unit_test(bytes_of_a_left_operand_are_the_manuals),
        cmocka_unit_test(accumulators_give_each_element_one_owner),
        cmocka_unit_test(blocked_layouts_reach_every_element),
        cmocka_unit_test(projections_follow_their_rows),
        cmocka_unit_test(dimensions_split_and_merge),
        cmocka_unit_test(panels_are_one_to_one),
        cmocka_unit_test(swizzled_columns_have_no_conflicts),
        cmocka_unit_test(register_tiles_are_rectangles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
