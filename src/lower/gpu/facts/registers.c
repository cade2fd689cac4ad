// SPDX-License-Identifier: MIT
// registers.c - how the threads' registers are divided between the producer and the groups of consumers.
//
// A launch gives every thread as many. Where a producer stands beside at least two groups, or statements are placed on
// groups, those that need few give registers back (setmaxnreg), and the others take them. What has no row here stays as
// compiled.
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/ring_counts.h"
#include "lower/gpu/facts/partition.h"

enum {
    REGISTERS_MAX = 240,     // that a thread is given
    HEAVY_FRAGMENTS = 160,   // words of fragments; above, the consumers get what the producer can spare
    BESIDE_FRAGMENTS = 40,   // registers of a group that holds few
    BESIDE_WIDE = 64,        // of consumers beside a producer that shifts rows, where a thread has few
    LIGHT_REGISTERS = 72,    // of a group that has statements but no products
    PRODUCER_REGISTERS = 72, // where it also moves elements; leaves 216 to each of two consumers
    LIGHT_WORDS = 128,       // of fragments of a consumer, at most, beside which
    WIDE_REGISTERS = 104, // a producer group has so many, for lines in flight; a producer that may well move elements
    GATHERER_REGISTERS = 56, // where cp.async moves them
    SPARING_REGISTERS = 40,  // where it may have to, but heavy consumers or three CTAs need the rest
    BOXES_REGISTERS = 24,
    FEW_CUTS_REGISTERS = 40,
    MANY_CUTS_REGISTERS = 56, // where it issues boxes alone
    CUTS_FEW = 8,
    CUTS_SOME = 16,   // copies of cut boxes whose coordinates the first and the second of these hold
    PANELS_MANY = 13, // of a tile's rows, a box each: the first has their coordinates, too
    LIGHTER_WORDS = 32,
    LIGHTER_REGISTERS = 48, // a group with so many words less leaves so many registers,
    HEAVIER_REGISTERS = 8,  // one with more so many, to a producer group
};

int occupancy(const Lowering *lo) { return lo->occupancy; }

// Of a thread, where so many share a multiprocessor's.
int registers_each(const Lowering *lo, int threads) { return lo->gpu->registers / threads / 8 * 8; }

static int at_most(int registers) { return registers < REGISTERS_MAX ? registers : REGISTERS_MAX; }

// ---- what fragments need

int tile_words(const TileInfo *tile)
{
    return tile->storage == TILE_IN_REGISTERS
               ? (layout_registers(&tile->layout) * dtype_bits(tile->buffer->type) + 31) / 32
               : 0;
}

int fragment_words(const Lowering *lo)
{
    int words = 0;
    for (int i = 0; i < lo->n_declared; i++) words += tile_words(lo->declared.items[i]);
    return words;
}

// Of those that a block declares, and of the fullest one in it: what stands in two blocks beside each other is never there
// at one time.
static int scope_words(const Lowering *lo, TileOp *block)
{
    int words = 0, inner = 0;
    for (TileOp *op = block; op; op = op->next) {
        const TileInfo *const tile = op->kind == T_TILE ? tile_info(lo, op->tile.buffer) : NULL;
        words += tile ? tile_words(tile) : 0;
        TileOp **body;
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++) {
            const int below = scope_words(lo, *body);
            inner = below > inner ? below : inner;
        }
    }
    return words + inner;
}

bool is_of_group(const TileInfo *tile, int group) { return !tile->groups || tile->groups >> group & 1; }

int group_words(const Lowering *lo, int group)
{
    int words = 0;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        words += is_of_group(tile, group) ? tile_words(tile) : 0;
    }
    return words;
}

int most_words(const Lowering *lo)
{
    int most = 0;
    for (int g = 0; g < lo->all.groups; g++) most = group_words(lo, g) > most ? group_words(lo, g) : most;
    return most;
}

static int least_words(const Lowering *lo)
{
    int least = INT32_MAX;
    for (int g = 0; g < lo->all.groups; g++) least = group_words(lo, g) < least ? group_words(lo, g) : least;
    return least;
}

// Of the fragments that may hold a value during the loop: what is declared after it does not.
int words_during(Lowering *lo, const TileOp *loop)
{
    int words = 0;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (op_info(lo, tile->declared)->order < op_info(lo, loop)->order || is_within(lo, tile->declared, loop))
            words += tile_words(tile);
    }
    return words;
}

// ---- between the roles

// Boxes of the tile that takes the most of them side by side.
static int most_panels(const Lowering *lo)
{
    int most = 0;
    for (int i = 0; i < lo->rings.count; i++)
        for (int t = 0; t < lo->rings.items[i]->n_tiles; t++) {
            const TileInfo *const tile = lo->rings.items[i]->tiles[t];
            const int panel = tile->shared.panel_columns;
            int64_t columns;
            if (panel > 0 && expr_as_int(tile->buffer->shape[tile->buffer->rank - 1], &columns))
                most = (columns + panel - 1) / panel > most ? (int)((columns + panel - 1) / panel) : most;
        }
    return most;
}

// The coordinates of all boxes of a run are live at one time.
static bool has_runs(const Lowering *lo)
{
    bool any = false;
    for (int i = 0; i < lo->rings.count; i++) any |= lo->rings.items[i]->is_run;
    return any;
}

static int consumer_share(const Lowering *lo, int producer)
{
    const int groups = lo->all.groups + 1, each = registers_each(lo, groups * WARPGROUP_THREADS * occupancy(lo));
    return at_most((groups * each - producer) / lo->all.groups / 8 * 8);
}

static int producer_need(const Lowering *lo)
{
    if (only_gathers(lo) && !lo->gathers_beside) return GATHERER_REGISTERS;
    if (lo->has_producer_group && lo->gathers_by_list) return STEPPING_REGISTERS;
    if (lo->has_producer_group)
        return most_words(lo) <= LIGHT_WORDS && !lo->has_register_prefetch ? WIDE_REGISTERS : PRODUCER_REGISTERS;
    if (lo->may_need_elements && scope_words(lo, lo->kernel->body) > HEAVY_FRAGMENTS) return SPARING_REGISTERS;
    if (lo->may_shift_rows) return SHIFTING_REGISTERS;
    if (lo->begins_anywhere) return WIDE_REGISTERS;
    if (lo->may_need_elements && lo->may_step_rows) return STEPPING_REGISTERS;
    if (lo->may_need_elements)
        return lo->occupancy_chosen && occupancy(lo) > 2 ? SPARING_REGISTERS : PRODUCER_REGISTERS;
    if (lo->n_cuts > CUTS_SOME) return MANY_CUTS_REGISTERS;
    return lo->n_cuts > (lo->shares ? 0 : CUTS_FEW) || most_panels(lo) >= PANELS_MANY || has_runs(lo)
               ? FEW_CUTS_REGISTERS
               : BOXES_REGISTERS;
}

// The sum over the groups fits.
Shares divide_registers(const Lowering *lo)
{
    const int groups = lo->all.groups + 1;
    if (!lo->has_producer || lo->partition.warps != 4 || (groups < 3 && occupancy(lo) == 1)) return (Shares){ 0, 0 };
    const int producer = producer_need(lo);
    return (Shares){ producer, consumer_share(lo, producer) };
}

// What each thread is compiled for.
static int registers_of_thread(const Lowering *lo)
{
    return at_most(registers_each(lo, (all_threads(lo) + producer_threads(lo)) * occupancy(lo)));
}

// Where several CTAs leave a thread fewer than the producer wants, consumers need more beside their fragments.
bool can_shift_rows(const Lowering *lo)
{
    const int words = scope_words(lo, lo->kernel->body);
    const int beside = registers_of_thread(lo) < SHIFTING_REGISTERS ? BESIDE_WIDE : BESIDE_FRAGMENTS;
    return words <= HEAVY_FRAGMENTS && consumer_share(lo, SHIFTING_REGISTERS) >= words + beside;
}

int consumer_registers(const Lowering *lo)
{
    const int consumer = divide_registers(lo).consumer;
    return consumer ? consumer : registers_of_thread(lo);
}

// ---- between groups of consumers

// Of a group beside a producer group; only one with a register prefetch holds many itself (register_prefetch.c).
static int group_registers(const Lowering *lo, int group)
{
    const int consumer = divide_registers(lo).consumer, most = most_words(lo);
    if (!consumer || !lo->has_register_prefetch || most - least_words(lo) < LIGHTER_WORDS) return consumer;
    const bool is_lighter = most - group_words(lo, group) >= LIGHTER_WORDS;
    return consumer - (is_lighter ? LIGHTER_REGISTERS : HEAVIER_REGISTERS);
}

static int registers_needed(Lowering *lo, int group) { return (group_words(lo, group) + BESIDE_FRAGMENTS + 7) / 8 * 8; }

// Holds less than half of what the fullest group does, and needs less than its share of the registers.
static bool holds_little(Lowering *lo, int group)
{
    return 2 * group_words(lo, group) <= most_words(lo) &&
           registers_needed(lo, group) <= consumer_registers(lo) * 3 / 4;
}

// Registers of a group's threads, where some groups beside a producer hold much less than the others.
int unequal_registers(Lowering *lo, int group)
{
    const int groups = lo->all.groups;
    int few = 0, n_few = 0;
    if (!lo->is_specialised || !lo->has_producer || lo->partition.warps != 4 || groups < 3) return 0;
    for (int g = 0; g < groups; g++)
        if (holds_little(lo, g)) {
            few = registers_needed(lo, g) > few ? registers_needed(lo, g) : few;
            n_few++;
        }
    if (!n_few) return 0;
    if (holds_little(lo, group)) return few;
    const int spare =
        lo->gpu->registers / WARPGROUP_THREADS - divide_registers(lo).producer; // of all consumers' groups
    return at_most((spare - n_few * few) / (groups - n_few) / 8 * 8);
}

// ---- what each sets

int producer_registers(const Lowering *lo)
{
    const Shares shares = divide_registers(lo);
    int registers = shares.producer;
    for (int g = 0; g < lo->all.groups && lo->has_producer_group; g++)
        registers += shares.consumer - group_registers(lo, g);
    return registers;
}

// Without a producer: registers from the groups without products to the others. 0: as compiled.
static int registers_by_products(Lowering *lo, int group)
{
    const uint32_t light = light_groups(lo);
    const int groups = lo->all.groups, n_light = __builtin_popcount(light), n_heavy = groups - n_light;
    if (!light || groups < 3 || lo->partition.warps != 4 || !n_heavy || !lo->gpu->setmaxnreg) return 0;
    return light >> group & 1
               ? LIGHT_REGISTERS
               : at_most((groups * registers_each(lo, all_threads(lo)) - n_light * LIGHT_REGISTERS) / n_heavy / 8 * 8);
}

// What a group of consumers sets in its own walk; 0: nothing.
int own_registers(Lowering *lo, int group)
{
    if (!lo->has_producer) return registers_by_products(lo, group);
    const int unequal = unequal_registers(lo, group);
    return unequal ? unequal : lo->has_producer_group ? group_registers(lo, group) : 0;
}
