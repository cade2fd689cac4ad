// SPDX-License-Identifier: MIT
// Conversions between layouts, executed on arrays that stand for a CTA's registers and shared memory: every thread ends
// with the right values, whatever the layouts. Known cases take the way that a person would choose.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "layout/convert.h"
#include "random_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 512, NOTHING = -1, REGISTERS = 2048 };

// values[thread][register]: the number of the element that is there.
typedef struct Cta {
    const Layout *from, *to;
    const Conversion *plan;
    Partition partition;
    int element_bytes;
    int *values; // [THREADS][REGISTERS]
    int *memory; // by element
} Cta;

static int threads_of(const Cta *cta) { return cta->partition.groups * cta->partition.warps * WARP_LANES; }
static int warp_of(const Cta *cta, int thread) { return thread / WARP_LANES % cta->partition.warps; }
static int group_of(const Cta *cta, int thread) { return thread / WARP_LANES / cta->partition.warps; }

// The element that a register of a layout stands for; NOTHING: padding.
static int element_at(const Cta *cta, const Layout *layout, int thread, int reg)
{
    int at[LAYOUT_MAX_RANK], number = 0;
    layout_at(layout, reg, thread % WARP_LANES, warp_of(cta, thread), group_of(cta, thread), at);
    for (int d = 0; d < layout->rank; d++) {
        if (at[d] >= layout->extent[d]) return NOTHING;
        number = number * layout->extent[d] + at[d];
    }
    return number;
}

// ---- steps

static int mode_value_of(const Cta *cta, const ConversionStep *step, int thread)
{
    const int numbers[IN_COUNT] = { 0, thread % WARP_LANES, warp_of(cta, thread), group_of(cta, thread) };
    return numbers[step->by] / step->by_stride % step->extent;
}

static int source_lane(const ConversionStep *step, int lane)
{
    int source = 0;
    for (int bit = 0; bit < LANE_BITS; bit++)
        if (step->source[bit] != LANE_ZERO) source |= (lane >> step->source[bit] & 1) << bit;
    return source;
}

static void run_step(const Cta *cta, const ConversionStep *step, int before)
{
    static int result[THREADS][REGISTERS];
    for (int thread = 0; thread < threads_of(cta); thread++)
        for (int r = 0; r < step->registers; r++) {
            const int *own = cta->values + (size_t)thread * REGISTERS;
            const int other_lane = step->kind == STEP_LANES ? source_lane(step, thread % WARP_LANES)
                                                            : thread % WARP_LANES ^ step->by_stride;
            const int *other =
                cta->values + (size_t)(thread / WARP_LANES * WARP_LANES + other_lane % WARP_LANES) * REGISTERS;
            int value = NOTHING;
            switch (step->kind) {
            case STEP_SELECT: {
                const int low = r % step->stride, high = r / step->stride;
                value = own[(high * step->extent + mode_value_of(cta, step, thread)) * step->stride + low];
                break;
            }
            case STEP_EXCHANGE: {
                const int value_of_mode = r / step->stride % 2, bit = mode_value_of(cta, step, thread);
                value = value_of_mode == bit ? own[r] : other[bit ? r + step->stride : r - step->stride];
                break;
            }
            case STEP_LANES: value = other[r]; break;
            case STEP_GATHER: value = (r / before == mode_value_of(cta, step, thread) ? own : other)[r % before]; break;
            }
            result[thread][r] = value;
        }
    for (int thread = 0; thread < threads_of(cta); thread++)
        memcpy(cta->values + (size_t)thread * REGISTERS, result[thread], sizeof(int) * (size_t)step->registers);
}

// ---- shared memory

static int offset_of(const Cta *cta, int element)
{
    const int columns = cta->from->extent[cta->from->rank - 1];
    const int offset = shared_offset(&cta->plan->shared, element / columns, element % columns);
    assert_true(offset >= 0 && offset + cta->element_bytes <= cta->plan->shared.bytes);
    return offset;
}

static bool is_first_replica(const Cta *cta, const Layout *layout, int thread)
{
    LinearMap map;
    const int in[IN_COUNT] = { 0, thread % WARP_LANES, warp_of(cta, thread), group_of(cta, thread) };
    assert_null(layout_map(layout, cta->partition, &map));
    for (int i = 0; i < map.n; i++)
        if (map.mode[i].out == REPLICATED && in[map.mode[i].in] / map.mode[i].in_stride % map.mode[i].extent != 0)
            return false;
    return true;
}

static int register_of(const SharedSide *side, int element, int number)
{
    int reg;
    map_at(&side->pieces, (int[]){ element, number }, &reg);
    return reg;
}

static int numbers_of(const SharedSide *side)
{
    int numbers = 1;
    for (int i = 0; i < side->pieces.n; i++)
        if (side->pieces.mode[i].in == 1) numbers *= side->pieces.mode[i].extent;
    return numbers;
}

// Where element k of a thread's piece lies; NOTHING: the piece is padding.
static int piece_offset(const Cta *cta, const Layout *layout, const SharedSide *side, int thread, int number, int k)
{
    const int warp = thread / WARP_LANES * WARP_LANES, lane = thread % WARP_LANES, row = lane / 4;
    if (side->access == BY_VECTORS) {
        const int first = element_at(cta, layout, thread, register_of(side, 0, number));
        if (first == NOTHING) return NOTHING;
        assert_int_equal(offset_of(cta, first) % (side->piece * cta->element_bytes), 0);
        return offset_of(cta, first) + k * cta->element_bytes;
    }
    // The lane that has the first element of the memory's row; transposed, a thread's pair lies in two rows.
    const int line = side->access == BY_MATRICES ? row : lane % 4 * 2 + k;
    const int from = side->access == BY_MATRICES ? 4 * line : line / 2;
    const int reg = register_of(side, side->access == BY_MATRICES ? 0 : line % 2, number);
    const int offset = offset_of(cta, element_at(cta, layout, warp + from, reg));
    assert_int_equal(offset % 16, 0);
    return offset + (side->access == BY_MATRICES ? lane % 4 * 2 + k : row) * cta->element_bytes;
}

static void move_warp(Cta *cta, const Layout *layout, const SharedSide *side, int warp, bool is_store)
{
    for (int thread = warp * WARP_LANES; thread < (warp + 1) * WARP_LANES; thread++)
        for (int number = 0; number < numbers_of(side); number++)
            for (int k = 0; k < side->piece; k++) {
                const int offset = piece_offset(cta, layout, side, thread, number, k);
                if (offset == NOTHING || (is_store && !is_first_replica(cta, layout, thread))) continue;
                int *const value = &cta->values[(size_t)thread * REGISTERS + register_of(side, k, number)];
                int *const there = &cta->memory[offset / cta->element_bytes];
                if (is_store && *there != NOTHING && *there != *value) fail_msg("two values at one place");
                *(is_store ? there : value) = *(is_store ? value : there);
            }
}

// Loads find nothing in the registers that was there before.
static void load_warp(Cta *cta, int warp)
{
    for (int thread = warp * WARP_LANES; thread < (warp + 1) * WARP_LANES; thread++)
        for (int r = 0; r < layout_registers(cta->to); r++) cta->values[(size_t)thread * REGISTERS + r] = NOTHING;
    move_warp(cta, cta->to, &cta->plan->loads, warp, false);
}

static void forget_memory(const Cta *cta)
{
    for (int i = 0; i < cta->plan->shared.bytes / cta->element_bytes; i++) cta->memory[i] = NOTHING;
}

static void run_shared(Cta *cta)
{
    const Conversion *const plan = cta->plan;
    const int warps = threads_of(cta) / WARP_LANES;
    cta->memory = malloc(sizeof(int) * (size_t)plan->shared.bytes);
    forget_memory(cta);
    if (plan->scope == WITHIN_WARP) {
        for (int warp = 0; warp < warps; warp++) {
            forget_memory(cta);
            move_warp(cta, cta->from, &plan->stores, warp, true);
            load_warp(cta, warp);
        }
    } else {
        for (int warp = 0; warp < warps; warp++) move_warp(cta, cta->from, &plan->stores, warp, true);
        for (int warp = 0; warp < warps; warp++) load_warp(cta, warp);
    }
    free(cta->memory);
}

// ---- a whole plan

static void fail_layouts(const Layout *from, const Layout *to, const char *what)
{
    Text text = { 0 };
    layout_print(&text, from);
    text_print(&text, " -> ");
    layout_print(&text, to);
    fail_msg("%s: %s", what, text.data);
}

static void expect_converts(const Layout *from, const Layout *to, const Conversion *plan,
                            const ConversionTarget *target)
{
    static int values[THREADS][REGISTERS];
    Cta cta = { from, to, plan, target->partition, target->element_bits / 8, &values[0][0], NULL };
    int before = layout_registers(from);
    assert_true(threads_of(&cta) <= THREADS && before <= REGISTERS && layout_registers(to) <= REGISTERS);
    for (int thread = 0; thread < threads_of(&cta); thread++)
        for (int r = 0; r < before; r++) values[thread][r] = element_at(&cta, from, thread, r);
    if (plan->kind == CONVERT_SHARED) run_shared(&cta);
    for (int i = 0; i < plan->n_steps; i++) {
        run_step(&cta, &plan->step[i], before);
        before = plan->step[i].registers;
    }
    for (int thread = 0; thread < threads_of(&cta); thread++)
        for (int r = 0; r < layout_registers(to); r++) {
            const int wanted = element_at(&cta, to, thread, r);
            int at = r;
            if (plan->kind == CONVERT_RENAMED || plan->kind == CONVERT_SHUFFLES) map_at(&plan->registers, &r, &at);
            if (wanted != NOTHING && values[thread][at] != wanted) fail_layouts(from, to, "a value is wrong");
        }
}

static const Partition partitions[] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 4 }, { 1, 2 } };

// Converts, in registers alone if that is possible, and through shared memory.
static void expect_all_ways(const Layout *from, const Layout *to, ConversionTarget target, int *kinds)
{
    Conversion plan;
    assert_null(layout_convert(from, to, &target, &plan));
    expect_converts(from, to, &plan, &target);
    Conversion shared = { .kind = CONVERT_SHARED, .scope = WITHIN_CTA };
    plan_shared(from, to, &target, &shared);
    expect_converts(from, to, &shared, &target);
    target.in_registers = true;
    Conversion in_registers = { .kind = CONVERT_SHARED };
    if (!layout_convert(from, to, &target, &in_registers)) expect_converts(from, to, &in_registers, &target);
    assert_true(in_registers.kind == CONVERT_SHARED || plan.cost <= in_registers.cost);
    kinds[in_registers.kind]++;
    for (int i = 0; i < in_registers.n_steps; i++) kinds[CONVERT_SHARED + 1 + (int)in_registers.step[i].kind]++;
}

static bool random_pair(Random *random, Partition partition, Layout *from, Layout *to)
{
    static const int factors[] = { 2, 2, 4, 8, 16, 3, 5, 6, 1 };
    int coverage[3] = { 1, 1, 1 }, extents[3], volume = 1;
    const int rank = 1 + below(random, 3);
    for (int i = 0; i < 4; i++) coverage[below(random, rank)] *= factors[below(random, 9)];
    const int padding = below(random, 6); // 0: of any width, 1: one layout covers a power of two as much
    for (int d = 0; d < rank; d++) {
        volume *= coverage[d];
        extents[d] = padding == 0 ? coverage[d] - below(random, coverage[d] / 2 + 1) : coverage[d];
    }
    Modes modes = random_modes(random, rank, coverage, partition), others = modes;
    for (int d = 0; d < rank && padding < 2; d++)
        while (below(random, 2)) coverage[d] = padding == 0 ? extents[d] + below(random, extents[d]) : 2 * coverage[d];
    if (padding < 2 || below(random, 3) == 0) others = random_modes(random, rank, coverage, partition);
    else mix_within_warps(random, &others);
    if (below(random, 2)) shuffle_modes(random, &others);
    if (volume > 2048 || modes.n > LAYOUT_MAX_MODES || others.n > LAYOUT_MAX_MODES) return false;
    *from = layout_of(random, &modes, rank, extents);
    *to = layout_of(random, &others, rank, extents);
    if (below(random, 2)) { // both ways
        const Layout first = *from;
        *from = *to;
        *to = first;
    }
    return true;
}

static void random_conversions_are_right(void **state)
{
    Random random = { 7 };
    int kinds[CONVERT_SHARED + 1 + STEP_GATHER + 1] = { 0 };
    for (int round = 0; round < 800; round++) {
        const Partition partition = partitions[below(&random, 5)];
        const bool has_matrices = below(&random, 2);
        const ConversionTarget target = { partition, 8 << below(&random, 4), has_matrices, has_matrices, false };
        Layout from, to;
        if (random_pair(&random, partition, &from, &to)) expect_all_ways(&from, &to, target, kinds);
    }
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof kinds[0]); kind++)
        if (kinds[kind] < 10) fail_msg("kind %d occurs %d times only", kind, kinds[kind]);
}

// ---- known cases

static Conversion convert(const Layout *from, const Layout *to, Partition partition, int bits)
{
    const ConversionTarget target = { partition, bits, true, true, false };
    Conversion plan;
    int kinds[16] = { 0 };
    assert_null(layout_convert(from, to, &target, &plan));
    expect_all_ways(from, to, target, kinds);
    return plan;
}

// The accumulator of one product is the A operand of the next, of 16-bit elements: its words in order.
static void accumulators_are_left_operands(void **state)
{
    const Partition one = { 1, 4 }, two = { 2, 4 };
    const Layout result = layout_accumulator(64, 128, one, DIVIDE_ROWS);
    // The manual's figure: k in steps of 16; of a step the words are row, row + 8, and the same 8 columns on.
    Layout left = layout_new(2, (int[]){ 64, 128 });
    layout_add(&left, IN_REGISTER, 2, 1, 1);
    layout_add(&left, IN_REGISTER, 2, 0, 8);
    layout_add(&left, IN_REGISTER, 2, 1, 8);
    layout_add(&left, IN_REGISTER, 8, 1, 16);
    layout_add(&left, IN_LANE, 4, 1, 2);
    layout_add(&left, IN_LANE, 8, 0, 1);
    layout_add(&left, IN_WARP, 4, 0, 16);
    assert_int_equal(convert(&result, &left, one, 16).kind, CONVERT_SAME);
    assert_int_equal(convert(&result, &result, one, 32).cost, 0);
    // Its steps of k outermost, so that two blocks of rows stand side by side: names only.
    const Layout rows = layout_accumulator(256, 64, two, DIVIDE_ROWS);
    Layout steps = rows;
    for (int i = 0, n = 0; i < steps.n; i++) // the fourth and the fifth: block of columns, block of rows
        if (steps.mode[i].input == IN_REGISTER && ++n == 3) {
            const LayoutMode mode = steps.mode[i];
            steps.mode[i] = steps.mode[i + 1];
            steps.mode[i + 1] = mode;
            break;
        }
    const Conversion renamed = convert(&rows, &steps, two, 16);
    assert_int_equal(renamed.kind, CONVERT_RENAMED);
    assert_int_equal(renamed.cost, 0);
}

// To a blocked layout: rows are the lanes of other warps, so it goes through shared memory, without bank conflicts.
static void accumulators_are_staged_for_wide_stores(void **state)
{
    const Partition partition = { 1, 4 };
    const Layout result = layout_accumulator(64, 64, partition, DIVIDE_ROWS);
    const Layout blocked = layout_blocked(2, (int[]){ 64, 64 }, partition, 8);
    const Conversion plan = convert(&result, &blocked, partition, 16);
    assert_int_equal(plan.kind, CONVERT_SHARED);
    assert_int_equal(plan.stores.access, BY_MATRICES);
    assert_int_equal(plan.stores.instructions, 4); // 32 registers by four matrices of two
    assert_int_equal(plan.stores.wavefronts, 16);
    assert_int_equal(plan.loads.access, BY_VECTORS);
    assert_int_equal(plan.loads.piece, 8);
    assert_int_equal(plan.loads.instructions, 4);
    assert_int_equal(plan.loads.wavefronts, 16);
    assert_int_equal(plan.shared.swizzle_bytes, 128);
}

// The transposed accumulator: shuffles cannot, as warps have rows; stmatrix transposes what the lanes hold.
static void transposition_is_by_matrices(void **state)
{
    const Partition partition = { 1, 4 };
    const Layout result = layout_accumulator(64, 64, partition, DIVIDE_ROWS),
                 transposed = layout_project(&result, 2, (int[]){ 1, 0 });
    const Conversion plan = convert(&transposed, &result, partition, 16);
    assert_int_equal(plan.kind, CONVERT_SHARED);
    assert_int_equal(plan.stores.access, BY_TRANSPOSED_MATRICES);
    assert_int_equal(plan.loads.access, BY_MATRICES);
    assert_int_equal(plan.scope, WITHIN_CTA);
    assert_int_equal(plan.stores.wavefronts + plan.loads.wavefronts, 32);
    assert_string_equal(plan.why, "other warps hold what a warp needs");
    const Conversion words = convert(&transposed, &result, partition, 32);
    assert_true(words.cost > plan.cost);
}

// One warp's 8 x 8 block with a row in each quad to rows in single lanes, and back: bits change places.
static void quads_exchange(void **state)
{
    const Partition partition = { 1, 1 };
    Layout quads = layout_new(2, (int[]){ 32, 4 }), rows = layout_new(2, (int[]){ 32, 4 });
    layout_add(&quads, IN_REGISTER, 4, 0, 8);
    layout_add(&quads, IN_LANE, 4, 1, 1);
    layout_add(&quads, IN_LANE, 8, 0, 1);
    layout_add(&rows, IN_REGISTER, 4, 1, 1);
    layout_add(&rows, IN_LANE, 4, 0, 8);
    layout_add(&rows, IN_LANE, 8, 0, 1);
    Conversion plan = convert(&quads, &rows, partition, 32);
    assert_int_equal(plan.kind, CONVERT_SHUFFLES);
    assert_int_equal(plan.n_steps, 2);
    assert_int_equal(plan.step[0].kind, STEP_EXCHANGE);
    assert_int_equal(plan.step[0].shuffles + plan.step[1].shuffles, 4);
    // Replicas divide: a selection alone, and the way back is a gather.
    Layout same = layout_new(2, (int[]){ 32, 4 });
    layout_add(&same, IN_REGISTER, 4, 1, 1);
    layout_add(&same, IN_REGISTER, 4, 0, 8);
    layout_add(&same, IN_LANE, 4, REPLICATED, 0);
    layout_add(&same, IN_LANE, 8, 0, 1);
    plan = convert(&same, &quads, partition, 32);
    assert_int_equal(plan.kind, CONVERT_SHUFFLES);
    assert_int_equal(plan.step[0].kind, STEP_SELECT);
    assert_int_equal(plan.step[0].shuffles + plan.step[1].shuffles, 0);
    const Conversion back = convert(&quads, &same, partition, 32);
    assert_int_equal(back.step[0].kind, STEP_GATHER);
    assert_true(back.cost > plan.cost);
}

// ---- wider pieces

// Whether each lane has whole runs of so many neighbours of a row.
static bool has_runs(const Layout *layout, Partition partition, int elements)
{
    LinearMap map;
    int found = 1;
    const int last = layout->rank - 1;
    assert_null(layout_map(layout, partition, &map));
    if (layout_divide(&map, MAP_OUT, last, elements)) return false;
    for (int i = 0; i < map.n; i++)
        if (map.mode[i].in == IN_REGISTER && map.mode[i].out == last && map.mode[i].out_stride < elements)
            found *= map.mode[i].extent;
    return found == elements;
}

static Conversion exchange(const Layout *from, const Layout *to, Partition partition, int bits)
{
    const ConversionTarget target = { .partition = partition, .element_bits = bits, .in_registers = true };
    Conversion plan;
    assert_null(layout_convert(from, to, &target, &plan));
    expect_converts(from, to, &plan, &target);
    assert_true(conversion_exchanges(&plan));
    return plan;
}

// Words of pairs change places among four lanes (16 bits), or pairs of two rows between two (8 bits): then each stores a
// vector of 16 bytes, or a word.
static void lanes_get_wider_pieces(void **state)
{
    (void)state;
    const Partition partition = { 2, 4 };
    const Layout result = layout_accumulator(128, 96, partition, DIVIDE_ROWS);
    Layout wide;
    assert_null(layout_widen(&result, partition, 8, &wide));
    assert_true(has_runs(&wide, partition, 8));
    Conversion plan = exchange(&result, &wide, partition, 16);
    assert_int_equal(plan.n_steps, 2);
    assert_int_equal(plan.per_word, 2);
    assert_int_equal(plan.step[0].by_stride, 1);
    assert_int_equal(plan.step[1].by_stride, 2);
    // 48 registers, of which each exchange sends half as 12 words, with three selections for two registers.
    assert_int_equal(plan.cost, 2 * (4 * 12 + 2 * 36 + 24));
    exchange(&wide, &result, partition, 16); // and back
    assert_null(layout_widen(&result, partition, 4, &wide));
    plan = exchange(&result, &wide, partition, 8);
    assert_int_equal(plan.n_steps, 1);
    assert_int_equal(plan.per_word, 4);
    assert_int_equal(plan.step[0].stride, 4);
    assert_int_equal(plan.cost, 4 * 6 + 2 * 18 + 24);
    // What lanes have already costs nothing.
    assert_null(layout_widen(&result, partition, 2, &wide));
    assert_int_equal(convert(&result, &wide, partition, 16).cost, 0);
    // Twelve columns are no pairs of eights; four lanes have all of eight columns, and no more to give.
    const Layout twelve = layout_accumulator(128, 12, partition, DIVIDE_ROWS),
                 eight = layout_accumulator(128, 8, partition, DIVIDE_ROWS);
    assert_string_equal(layout_widen(&eight, partition, 8, &wide), "a lane has too little of a row");
    assert_null(layout_widen(&twelve, partition, 4, &wide)); // of padding, too
    Layout by_warps = layout_new(2, (int[]){ 32, 16 });
    layout_add(&by_warps, IN_REGISTER, 4, 1, 4);
    layout_add(&by_warps, IN_LANE, 32, 0, 1);
    layout_add(&by_warps, IN_WARP, 4, 1, 1);
    // Of three blocks of 32 columns there is no half.
    assert_string_equal(layout_widen(&result, partition, 16, &wide), "a lane has too little of a row");
    assert_string_equal(layout_widen(&by_warps, (Partition){ 1, 4 }, 2, &wide),
                        "other warps hold what a lane would get");
}

static void random_layouts_get_wider_pieces(void **state)
{
    (void)state;
    Random random = { 11 };
    int widened = 0, kinds[16] = { 0 };
    for (int round = 0; round < 600; round++) {
        const Partition partition = partitions[below(&random, 5)];
        const ConversionTarget target = { partition, 16, false, false, false };
        const int elements = 2 << below(&random, 3);
        int extents[2] = { 1 << below(&random, 6), 16 << below(&random, 4) };
        const Modes modes = random_modes(&random, 2, extents, partition);
        Layout layout, wide;
        if (modes.n > LAYOUT_MAX_MODES) continue;
        layout = layout_of(&random, &modes, 2, extents);
        if (layout_widen(&layout, partition, elements, &wide)) continue;
        assert_true(has_runs(&wide, partition, elements));
        assert_int_equal(layout_registers(&wide), layout_registers(&layout));
        expect_all_ways(&layout, &wide, target, kinds);
        widened++;
    }
    if (widened < 50) fail_msg("only %d were widened", widened);
}

// Where warps hold the same, the first of them stores for all: the others must wait for it.
static void replicated_warps_wait_for_the_first(void **state)
{
    const Partition partition = { 1, 4 };
    Layout rows = layout_new(2, (int[]){ 32, 64 }), columns = rows;
    layout_add(&rows, IN_REGISTER, 64, 1, 1);
    layout_add(&rows, IN_LANE, 32, 0, 1);
    layout_add(&columns, IN_REGISTER, 32, 0, 1);
    layout_add(&columns, IN_REGISTER, 2, 1, 1);
    layout_add(&columns, IN_LANE, 32, 1, 2);
    Conversion plan = convert(&rows, &columns, partition, 32);
    assert_int_equal(plan.kind, CONVERT_SHARED);
    assert_string_equal(plan.why, "shuffles would be dearer");
    assert_int_equal(plan.scope, WITHIN_CTA);
    assert_int_equal(convert(&rows, &columns, (Partition){ 1, 1 }, 32).scope, WITHIN_WARP);
    // Each warp takes its part of the registers; the lanes' parts it does not take.
    Layout parts = layout_new(2, (int[]){ 32, 64 });
    layout_add(&parts, IN_REGISTER, 16, 1, 4);
    layout_add(&parts, IN_LANE, 32, 0, 1);
    layout_add(&parts, IN_WARP, 4, 1, 1);
    plan = convert(&rows, &parts, partition, 32);
    assert_int_equal(plan.n_steps, 1);
    assert_int_equal(plan.step[0].by, IN_WARP);
    Layout others = layout_new(2, (int[]){ 32, 64 });
    layout_add(&others, IN_REGISTER, 64, 1, 1);
    layout_add(&others, IN_LANE, 8, 0, 4);
    layout_add(&others, IN_LANE, 4, REPLICATED, 0);
    layout_add(&others, IN_WARP, 4, 0, 1);
    assert_string_equal(convert(&rows, &others, partition, 32).why, "a warp's number would select among lanes");
}

// A tile that is smaller than what its layout covers: matrices would store beyond it.
static void padded_tiles_move_by_vectors(void **state)
{
    const Partition partition = { 1, 4 };
    const Layout result = layout_accumulator(50, 64, partition, DIVIDE_ROWS);
    const Layout blocked = layout_blocked(2, (int[]){ 50, 64 }, partition, 8);
    const Conversion plan = convert(&result, &blocked, partition, 16);
    assert_int_equal(plan.kind, CONVERT_SHARED);
    assert_int_equal(plan.stores.access, BY_VECTORS);
    assert_int_equal(plan.stores.piece, 2);
    assert_int_equal(plan.loads.piece, 8);
}

static void what_cannot_be_converted_is_refused(void **state)
{
    const Partition partition = { 1, 4 };
    const Layout a = layout_accumulator(64, 64, partition, DIVIDE_ROWS),
                 b = layout_accumulator(64, 32, partition, DIVIDE_ROWS);
    ConversionTarget target = { partition, 16, true, true, false };
    Conversion plan;
    assert_string_equal(layout_convert(&a, &b, &target, &plan), "the extents differ");
    Layout part = layout_new(2, (int[]){ 64, 64 });
    layout_add(&part, IN_REGISTER, 64, 1, 1);
    layout_add(&part, IN_LANE, 32, 0, 1);
    assert_string_equal(layout_convert(&a, &part, &target, &plan), "an element has no register, or two modes overlap");
    target.element_bits = 4;
    assert_string_equal(layout_convert(&a, &a, &target, &plan), "elements of less than a byte");
    target.element_bits = 16;
    target.in_registers = true;
    const Layout blocked = layout_blocked(2, (int[]){ 64, 64 }, partition, 8);
    assert_non_null(layout_convert(&a, &blocked, &target, &plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_conversions_are_right),
        cmocka_unit_test(accumulators_are_left_operands),
        cmocka_unit_test(accumulators_are_staged_for_wide_stores),
        cmocka_unit_test(transposition_is_by_matrices),
        cmocka_unit_test(quads_exchange),
        cmocka_unit_test(lanes_get_wider_pieces),
        cmocka_unit_test(random_layouts_get_wider_pieces),
        cmocka_unit_test(replicated_warps_wait_for_the_first),
        cmocka_unit_test(padded_tiles_move_by_vectors),
        cmocka_unit_test(what_cannot_be_converted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
