// SPDX-License-Identifier: MIT
// Transfers between fragments and tiles in shared memory: every instruction of every thread goes where the elements of its
// registers lie, and known cases take the instructions and bases that a person would choose.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "layout/convert.h"
#include "random_layout.h"

#include <stdlib.h>

typedef struct Thread {
    int lane, warp, group;
} Thread;

// Byte that a register's element has in the tile.
static int byte_of(const Layout *layout, const SharedLayout *shared, Thread thread, int reg)
{
    int at[LAYOUT_MAX_RANK], row = 0;
    layout_at(layout, reg, thread.lane, thread.warp, thread.group, at);
    for (int d = 0; d + 1 < layout->rank; d++) row = row * layout->extent[d] + at[d];
    return shared_offset(shared, row, at[layout->rank - 1]);
}

// Byte that the thread gives as the address of instruction i.
static int address_of(const SharedTransfer *plan, Thread thread, int i)
{
    int at[LAYOUT_MAX_RANK];
    const PieceAddress *const address = &plan->address[i], *const base = &plan->address[address->base];
    layout_at(&plan->lanes, 0, thread.lane, thread.warp, thread.group, at);
    const int column = (at[1] + base->panel) * plan->shared.panel_columns + at[2] + base->column;
    return (shared_offset(&plan->shared, at[0] + base->row, column) ^ address->flip) + address->step;
}

static void expect_vectors(const Layout *layout, const SharedTransfer *plan, Thread thread)
{
    for (int i = 0; i < plan->n; i++) {
        const bool swaps = plan->swap && thread.lane >> plan->swap_lane & 1;
        const int piece = swaps ? i ^ plan->swap : i;
        for (int k = 0; k < plan->side.piece; k++)
            assert_int_equal(byte_of(layout, &plan->shared, thread, transfer_register(plan, k, piece)),
                             address_of(plan, thread, piece) + k * plan->shared.element_bytes);
    }
}

// Of four matrices, lane 8*m + r gives the address of row r of matrix m, where lane 4*r + c has columns 2c and 2c + 1;
// transposed: lane 4*c + r rows 2r and 2r + 1.
static void expect_matrices(const Layout *layout, const SharedTransfer *plan, Thread thread)
{
    const bool across = plan->side.access == BY_TRANSPOSED_MATRICES;
    const int row = thread.lane % 8, matrix = thread.lane / 8;
    for (int i = 0; i < plan->n; i++)
        for (int column = 0; column < 8; column++) {
            Thread holder = thread;
            holder.lane = across ? 4 * column + row / 2 : 4 * row + column / 2;
            const int reg = transfer_register(plan, across ? row % 2 : column % 2, 4 * i + matrix);
            assert_int_equal(byte_of(layout, &plan->shared, holder, reg), address_of(plan, thread, i) + 2 * column);
        }
}

static void expect_right(const Layout *layout, const SharedTransfer *plan, Partition partition)
{
    for (int t = 0; t < partition.groups * partition.warps * WARP_LANES; t++) {
        const Thread thread = { t % WARP_LANES, t / WARP_LANES % partition.warps, t / WARP_LANES / partition.warps };
        if (plan->side.access == BY_VECTORS) expect_vectors(layout, plan, thread);
        else expect_matrices(layout, plan, thread);
    }
}

static const Partition partitions[] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 4 } };

// Of whole tiles; every third an accumulator, where there can be one.
static bool random_fragment(Random *random, int turn, Partition partition, Layout *layout)
{
    static const int factors[] = { 2, 4, 8, 16, 3, 5, 1 };
    int extents[2] = { 8, 16 };
    for (int i = 0; i < 3; i++) extents[below(random, 2)] *= factors[below(random, COUNT(factors))];
    if (turn % 3 == 0) extents[0] = 64 * partition.groups, extents[1] = 24 * partition.groups * (1 + below(random, 4));
    const Modes modes = random_modes(random, 2, extents, partition);
    if (modes.n > LAYOUT_MAX_MODES) return false;
    *layout = turn % 3 ? layout_of(random, &modes, 2, extents)
                       : layout_accumulator(extents[0], extents[1], partition, below(random, 2));
    return layout_registers(layout) <= 1024;
}

static void random_transfers_are_right(void **state)
{
    (void)state;
    Arena *const arena = arena_new();
    assert_non_null(arena);
    Random random = { 20261125 };
    int planned[3] = { 0 };
    for (int turn = 0; turn < 600; turn++) {
        const Partition partition = partitions[below(&random, COUNT(partitions))];
        const int bytes = below(&random, 2) ? 2 : 4;
        const TransferOptions options = {
            .partition = partition, .element_bytes = bytes, .is_store = turn % 2 == 0, .has_matrices = true
        };
        Layout layout;
        SharedTransfer plan;
        if (!random_fragment(&random, turn, partition, &layout)) continue;
        SharedLayout shared = shared_padded(layout.extent[0], layout.extent[1], 16 / bytes, bytes);
        if (turn % 4) shared_panels(layout.extent[0], layout.extent[1], bytes, 0, &shared);
        if (!plan_transfer(arena, &layout, &shared, &options, &plan)) continue;
        expect_right(&layout, &plan, partition);
        planned[plan.side.access]++;
    }
    arena_free(arena);
    if (planned[BY_VECTORS] < 100 || planned[BY_MATRICES] < 30)
        fail_msg("only %d and %d were planned", planned[BY_VECTORS], planned[BY_MATRICES]);
}

static SharedTransfer transfer(Arena *arena, const Layout *layout, Partition partition, int bytes)
{
    SharedLayout shared;
    SharedTransfer plan;
    const TransferOptions options = {
        .partition = partition, .element_bytes = bytes, .is_store = true, .has_matrices = true
    };
    assert_true(shared_panels(layout->extent[0], layout->extent[1], bytes, 0, &shared));
    assert_true(plan_transfer(arena, layout, &shared, &options, &plan));
    expect_right(layout, &plan, partition);
    return plan;
}

static int count_bases(const SharedTransfer *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n; i++) n += plan->address[i].base == i;
    return n;
}

static void boxes_and_panels_have_one_base(void **state)
{
    Arena *const arena = arena_new();
    assert_non_null(arena);
    if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
    const Partition warp = { 1, 1 }, groups = { 2, 4 };
    Layout layout = layout_accumulator(16, 64, warp, DIVIDE_ROWS);
    SharedTransfer plan = transfer(arena, &layout, warp, 2);
    assert_int_equal(plan.side.access, BY_MATRICES);
    assert_int_equal(plan.n, 4);
    assert_int_equal(count_bases(&plan), 1);
    layout = layout_accumulator(128, 256, groups, DIVIDE_COLUMNS);
    plan = transfer(arena, &layout, groups, 2);
    assert_int_equal(plan.side.access, BY_MATRICES);
    assert_int_equal(plan.n, 16);
    assert_int_equal(count_bases(&plan), 1);
    // Rows 2r and 2r + 1 of a half warp would meet in the same banks: half of the lanes begin elsewhere.
    layout = layout_accumulator(16, 32, warp, DIVIDE_ROWS);
    plan = transfer(arena, &layout, warp, 4);
    assert_int_equal(plan.side.access, BY_VECTORS);
    assert_int_equal(plan.side.piece, 2);
    assert_int_equal(count_bases(&plan), 1);
    assert_int_not_equal(plan.swap, 0);
    assert_int_equal(plan.side.wavefronts, 2 * plan.n);
    arena_free(arena);
}

// Neighbours of a register are rows of the tile: eight rows have addresses of their own, the next eight constants.
static void transposed_results_have_four_bases(void **state)
{
    Arena *const arena = arena_new();
    assert_non_null(arena);
    if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
    const Partition group = { 1, 4 };
    Layout layout = layout_accumulator(64, 96, group, DIVIDE_ROWS);
    layout = layout_project(&layout, 2, (int[]){ 1, 0 });
    SharedTransfer plan = transfer(arena, &layout, group, 4);
    assert_int_equal(plan.side.access, BY_VECTORS);
    assert_int_equal(plan.side.piece, 1);
    assert_int_equal(plan.n, 48);
    assert_true(count_bases(&plan) <= 4);
    plan = transfer(arena, &layout, group, 2); // of 16 bits there are matrices
    assert_int_equal(plan.side.access, BY_TRANSPOSED_MATRICES);
    assert_int_equal(count_bases(&plan), 1);
    arena_free(arena);
}

// Elements of 8 bits: lanes exchange words of pairs of two rows before, and store whole words of either row.
static void bytes_are_exchanged_to_words(void **state)
{
    (void)state;
    Arena *const arena = arena_new();
    assert_non_null(arena);
    if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
    const Partition warp = { 1, 1 };
    for (int columns = 32; columns <= 128; columns *= 2) {
        const Layout layout = layout_accumulator(16, columns, warp, DIVIDE_ROWS);
        TransferOptions options = { .partition = warp, .element_bytes = 1, .is_store = true, .has_matrices = true };
        SharedLayout shared;
        SharedTransfer plan;
        assert_true(shared_panels(16, columns, 1, 0, &shared));
        assert_true(plan_transfer(arena, &layout, &shared, &options, &plan)); // of any width
        assert_int_equal(plan.exchange.n_steps, 0);
        assert_int_equal(plan.side.piece, 2);
        const int wavefronts = plan.side.wavefronts;
        options.least_bytes = 4;
        assert_true(plan_transfer(arena, &layout, &shared, &options, &plan));
        assert_true(conversion_exchanges(&plan.exchange));
        assert_int_equal(plan.exchange.n_steps, 1);
        assert_int_equal(plan.exchange.per_word, 4);
        assert_int_equal(plan.side.piece, 4);
        assert_int_equal(plan.n, columns / 8);
        assert_int_equal(count_bases(&plan), 1);
        assert_int_equal(plan.side.wavefronts, plan.n); // no bank is met twice
        assert_true(plan.side.wavefronts <= wavefronts / 2);
        Layout wide;
        assert_null(layout_widen(&layout, warp, 4, &wide));
        expect_right(&wide, &plan, warp);
        options.is_store = false; // what is loaded is exchanged by nobody
        assert_false(plan_transfer(arena, &layout, &shared, &options, &plan));
    }
    arena_free(arena);
}

// A warp's 16 rows as boxes of 64 columns, one after the other in its registers; transposed: 16 columns of 64 rows.
static void fragments_are_boxes(void **state)
{
    (void)state;
    const Partition groups = { 2, 4 }, warp = { 1, 1 };
    const Layout rows = layout_accumulator(256, 128, groups, DIVIDE_ROWS),
                 box = layout_accumulator(16, 64, warp, DIVIDE_ROWS);
    int corner[2];
    for (int i = 0; i < 4; i++) {
        assert_true(layout_find_box(&rows, &box, 32 * i, corner));
        assert_int_equal(corner[0], i / 2 * 64);
        assert_int_equal(corner[1], i % 2 * 64);
    }
    assert_false(layout_find_box(&rows, &box, 48, corner));  // over the end of its columns
    assert_false(layout_find_box(&rows, &box, 112, corner)); // more than there is
    Layout threads = layout_of_threads(&rows, IN_WARP);
    int at[2];
    layout_at(&threads, 0, 5, 3, 1, at); // of any lane
    assert_int_equal(at[0], 128 + 3 * 16);
    assert_int_equal(at[1], 0);
    // Of a group, too: the box has warps, and only groups stand apart.
    const Layout columns = layout_accumulator(128, 96, groups, DIVIDE_ROWS),
                 half = layout_accumulator(64, 96, (Partition){ 1, 4 }, DIVIDE_ROWS);
    const Layout turned = layout_project(&columns, 2, (int[]){ 1, 0 }),
                 of_group = layout_project(&half, 2, (int[]){ 1, 0 });
    assert_true(layout_find_box(&turned, &of_group, 0, corner));
    threads = layout_of_threads(&turned, IN_GROUP);
    layout_at(&threads, 0, 5, 3, 1, at);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[1], 64);
    assert_false(layout_find_box(&turned, &half, 0, corner));
}

// A slice that begins anywhere, as it is and transposed: rows and columns from its corner on, an address for each
// instruction. The tile's panels are not the slice's.
static void slices_are_read_from_anywhere(void **state)
{
    (void)state;
    Arena *const arena = arena_new();
    assert_non_null(arena);
    if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
    const Partition partition = { 2, 4 };
    const TransferOptions options = {
        .partition = partition, .element_bytes = 2, .has_matrices = true, .anywhere = true
    };
    for (int transposed = 0; transposed < 2; transposed++) {
        Layout layout = layout_accumulator(256, 48, partition, DIVIDE_ROWS);
        if (transposed) layout = layout_project(&layout, 2, (int[]){ 1, 0 });
        SharedLayout shared;
        SharedTransfer plan;
        assert_true(shared_panels(512, 512, 2, 0, &shared));
        shared.columns = layout.extent[1];
        assert_true(plan_transfer(arena, &layout, &shared, &options, &plan));
        assert_int_equal(plan.side.access, transposed ? BY_TRANSPOSED_MATRICES : BY_MATRICES);
        assert_int_equal(plan.n, 2 * 3);
        assert_int_equal(count_bases(&plan), plan.n);
        for (int lane = 0; lane < WARP_LANES; lane++)
            for (int i = 0; i < plan.n; i++) {
                int place[3], first[2];
                const int row = lane % 8, matrix = lane / 8, holder = transposed ? row / 2 : 4 * row;
                layout_at(&plan.lanes, 0, lane, 3, 1, place);
                layout_at(&layout, transfer_register(&plan, transposed ? row % 2 : 0, 4 * i + matrix), holder, 3, 1,
                          first);
                assert_int_equal(place[1], 0); // panels
                assert_int_equal(place[0] + plan.address[i].row, first[0]);
                assert_int_equal(place[2] + plan.address[i].column, first[1]);
            }
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_transfers_are_right),
        cmocka_unit_test(boxes_and_panels_have_one_base),
        cmocka_unit_test(transposed_results_have_four_bases),
        cmocka_unit_test(bytes_are_exchanged_to_words),
        cmocka_unit_test(fragments_are_boxes),
        cmocka_unit_test(slices_are_read_from_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
