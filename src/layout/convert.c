// SPDX-License-Identifier: MIT
// convert.c - plans to convert between layouts: within registers and warps; through shared memory where that is
// impossible or dearer.
//
// Both maps are divided until they have the same modes of every coordinate. Then the plan follows where each mode
// stands, from its place under `from` step by step to that under `to`.
#include "layout/convert.h"

#include <assert.h>

enum { SELECT_CYCLES = 2, SHUFFLE_CYCLES = 4 };                                        // of a warp
enum { SHUFFLE_WAIT = 24, SHARED_WAIT = 60, BARRIER_WAIT = 40, ANY = -1, FIRST = -2 }; // ANY, FIRST: see Places

// What follows the plan's steps. A lane bit holds a mode (its number in `modes`), or the lanes that differ in it hold
// the same (ANY), or only the lane with 0 holds what counts (FIRST).
typedef struct Places {
    LinearMap modes; // of `to` -> where it stands now
    int lane[LANE_BITS];
    int wanted[LANE_BITS]; // the mode that `to` has there, or ANY
    int registers;
    Conversion *plan;
} Places;

// ---- both maps, mode by mode

static int coverage(const LinearMap *map, int dim)
{
    int reach = 1;
    for (int i = 0; i < map->n; i++)
        if (map->mode[i].out == dim) reach += (map->mode[i].extent - 1) * map->mode[i].out_stride;
    return reach;
}

static const char *divide_lanes(LinearMap *map, MapSide side)
{
    const char *why = NULL;
    for (int cut = 2; cut < WARP_LANES && !why; cut *= 2) why = layout_divide(map, side, IN_LANE, cut);
    return why;
}

// What one layout covers beyond the other counts nowhere: its modes move out of the map, into `padding`.
static const char *drop_padding(LinearMap *map, int dim, int end, LinearMap *padding)
{
    const char *const why = layout_divide(map, MAP_OUT, dim, end);
    if (why) return why;
    for (int i = 0; i < map->n; i++) {
        MapMode *const mode = &map->mode[i];
        if (mode->out != dim || mode->out_stride < end) continue;
        mode->out = REPLICATED;
        mode->out_stride = 0;
        padding->mode[padding->n++] = *mode;
    }
    return NULL;
}

typedef struct Sides {
    LinearMap from, to, from_padding, to_padding;
} Sides;

static const char *make_sides(const Layout *from, const Layout *to, Partition partition, Sides *sides)
{
    *sides = (Sides){ .from_padding = map_new(IN_COUNT, from->rank), .to_padding = map_new(IN_COUNT, to->rank) };
    const char *why = layout_map(from, partition, &sides->from);
    if (!why) why = layout_map(to, partition, &sides->to);
    for (int d = 0; d < from->rank && !why; d++) {
        const int a = coverage(&sides->from, d), b = coverage(&sides->to, d);
        if (a > b) why = drop_padding(&sides->from, d, b, &sides->from_padding);
        if (b > a) why = drop_padding(&sides->to, d, a, &sides->to_padding);
    }
    if (!why) why = divide_lanes(&sides->from, MAP_IN);
    if (!why) why = divide_lanes(&sides->to, MAP_IN);
    for (int cut = 2; cut < WARP_LANES && !why; cut *= 2) { // padding, too, lane bit by lane bit
        why = layout_divide(&sides->from_padding, MAP_IN, IN_LANE, cut);
        if (!why) why = layout_divide(&sides->to_padding, MAP_IN, IN_LANE, cut);
    }
    return why;
}

static const char *follow_modes(const Sides *sides, LinearMap *modes)
{
    LinearMap inverse;
    const char *why = layout_invert(&sides->from, &inverse);
    if (!why) why = layout_compose(&inverse, &sides->to, modes);
    if (!why) why = divide_lanes(modes, MAP_IN);
    if (!why) why = divide_lanes(modes, MAP_OUT);
    return why;
}

// ---- warps and groups

static bool is_beyond_warp(int input) { return input == IN_WARP || input == IN_GROUP; }

// Whether every warp has what it needs: its own modes, or registers to select from.
static const char *check_warps(const LinearMap *modes, const Sides *sides)
{
    for (int i = 0; i < modes->n; i++) {
        const MapMode *const mode = &modes->mode[i];
        if (mode->out == REPLICATED) continue;
        const bool stays = mode->in == mode->out && mode->in_stride == mode->out_stride;
        if (is_beyond_warp(mode->out) && !stays) return "other warps hold what a warp needs";
        if (is_beyond_warp(mode->in) && !stays && mode->out == IN_LANE)
            return "a warp's number would select among lanes";
    }
    for (int i = 0; i < sides->from_padding.n; i++) {
        const MapMode *const mode = &sides->from_padding.mode[i];
        if (!is_beyond_warp(mode->in)) continue;
        const MapMode *const same = map_mode_at(&sides->to_padding, MAP_IN, mode->in, mode->in_stride);
        if (!same || same->extent != mode->extent) return "some warps hold nothing";
    }
    return NULL;
}

// Whether every warp holds all that it needs once only the first of replicas have stored.
static bool is_within_warps(const LinearMap *modes, const Sides *sides)
{
    for (int i = 0; i < modes->n; i++) {
        const MapMode *const mode = &modes->mode[i];
        if (mode->out != REPLICATED && (is_beyond_warp(mode->in) || is_beyond_warp(mode->out)) &&
            (mode->in != mode->out || mode->in_stride != mode->out_stride))
            return false;
    }
    for (int i = 0; i < sides->from.n; i++)
        if (is_beyond_warp(sides->from.mode[i].in) && sides->from.mode[i].out == REPLICATED) return false;
    return true;
}

// ---- steps

static ConversionStep *add_step(Places *p, ConversionStep step)
{
    assert(p->plan->n_steps < CONVERT_MAX_STEPS && "each mode of lanes, warps and groups takes at most two steps");
    ConversionStep *const added = &p->plan->step[p->plan->n_steps++];
    *added = step;
    added->registers = p->registers;
    return added;
}

// One of several registers, by the thread's number.
static void add_select(Places *p, int which, LayoutInput by, int by_stride)
{
    MapMode *const mode = &p->modes.mode[which];
    const int stride = mode->out_stride, extent = mode->extent;
    p->registers /= extent;
    add_step(p, (ConversionStep){ STEP_SELECT, .stride = stride, .extent = extent, .by = by, .by_stride = by_stride })
        ->selections = p->registers * (extent - 1);
    for (int i = 0; i < p->modes.n; i++) {
        MapMode *const other = &p->modes.mode[i];
        if (other->out == IN_REGISTER && other->out_stride > stride) other->out_stride /= extent;
    }
    mode->out = by;
    mode->out_stride = by_stride;
}

static void add_exchange(Places *p, int which, int bit)
{
    MapMode *const mode = &p->modes.mode[which], *const other = &p->modes.mode[p->lane[bit]];
    ConversionStep *const step = add_step(p, (ConversionStep){ STEP_EXCHANGE, .stride = mode->out_stride, .extent = 2,
                                                               .by = IN_LANE, .by_stride = 1 << bit });
    step->shuffles = p->registers / 2;
    step->selections = 3 * p->registers / 2;
    other->out = IN_REGISTER;
    other->out_stride = mode->out_stride;
    mode->out = IN_LANE;
    mode->out_stride = 1 << bit;
    p->lane[bit] = which;
}

static void add_lanes(Places *p, const int *source)
{
    ConversionStep *const step = add_step(p, (ConversionStep){ STEP_LANES, .by = IN_LANE });
    for (int bit = 0; bit < LANE_BITS; bit++) step->source[bit] = source[bit];
    step->shuffles = p->registers;
}

static void add_gather(Places *p, int bit)
{
    MapMode *const mode = &p->modes.mode[p->lane[bit]];
    const int before = p->registers;
    p->registers *= 2;
    ConversionStep *const step = add_step(
        p, (ConversionStep){ STEP_GATHER, .stride = before, .extent = 2, .by = IN_LANE, .by_stride = 1 << bit });
    step->shuffles = before;
    step->selections = 2 * before;
    mode->out = IN_REGISTER;
    mode->out_stride = before;
    p->lane[bit] = ANY;
}

// ---- lanes

static int bit_of(int stride)
{
    int bit = 0;
    while (1 << bit < stride) bit++;
    return bit;
}

static bool leaves_lanes(const Places *p, int bit)
{
    return p->lane[bit] >= 0 && p->modes.mode[p->lane[bit]].in != IN_LANE;
}

static void find_lanes(Places *p, const Sides *sides)
{
    for (int bit = 0; bit < LANE_BITS; bit++) p->lane[bit] = p->wanted[bit] = ANY;
    for (int i = 0; i < p->modes.n; i++) {
        const MapMode *const mode = &p->modes.mode[i];
        if (mode->out == IN_LANE) p->lane[bit_of(mode->out_stride)] = i;
        if (mode->in == IN_LANE && mode->out != REPLICATED) p->wanted[bit_of(mode->in_stride)] = i;
    }
    for (int i = 0; i < sides->from_padding.n; i++) {
        const MapMode *const mode = &sides->from_padding.mode[i];
        if (mode->in == IN_LANE) p->lane[bit_of(mode->in_stride)] = FIRST;
    }
}

// Lanes that hold nothing get what the first of them holds, unless nobody asks them under `to` either.
static void fill_empty_lanes(Places *p, const Sides *sides)
{
    int source[LANE_BITS];
    bool any = false;
    for (int bit = 0; bit < LANE_BITS; bit++) {
        const bool fills = p->lane[bit] == FIRST && !map_mode_at(&sides->to_padding, MAP_IN, IN_LANE, 1 << bit);
        source[bit] = fills ? LANE_ZERO : bit;
        any |= fills;
        if (fills) p->lane[bit] = ANY;
    }
    if (any) add_lanes(p, source);
}

// A mode of the registers goes to lanes: to the bit where it belongs if that is free, else to another.
static bool find_bit(const Places *p, int which, bool exchanges, int *bit)
{
    const int home = bit_of(p->modes.mode[which].in_stride);
    for (int pass = 0; pass < 2; pass++)
        for (*bit = 0; *bit < LANE_BITS; ++*bit)
            if ((pass == 1 || *bit == home) && (exchanges ? leaves_lanes(p, *bit) : p->lane[*bit] == ANY)) return true;
    return false;
}

// First those that find their own place, then the rest.
static const char *move_to_lanes(Places *p)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->modes.n; i++) {
            const MapMode *const mode = &p->modes.mode[i];
            int bit;
            if (mode->in != IN_LANE || mode->out != IN_REGISTER) continue;
            const int home = bit_of(mode->in_stride);
            if (find_bit(p, i, true, &bit) && (pass == 1 || bit == home)) {
                add_exchange(p, i, bit);
            } else if (pass == 1) {
                if (!find_bit(p, i, false, &bit)) return "lanes that hold nothing are in the way";
                add_select(p, i, IN_LANE, 1 << bit);
                p->lane[bit] = i;
            }
        }
    return NULL;
}

// Which bit of the reader's lane number each bit of the source's follows: every mode goes to its bit, those that both
// lanes are to have to bits that `to` has no mode for.
static bool choose_lanes(const Places *p, int *source)
{
    bool is_free[LANE_BITS], settled[LANE_BITS];
    for (int bit = 0; bit < LANE_BITS; bit++) {
        const bool leaves = leaves_lanes(p, bit), stays = p->lane[bit] >= 0 && !leaves;
        source[bit] = stays ? bit_of(p->modes.mode[p->lane[bit]].in_stride) : bit;
        is_free[bit] = p->wanted[bit] == ANY && p->lane[bit] != FIRST;
        settled[bit] = !leaves || is_free[bit];
        is_free[bit] &= !leaves;
    }
    for (int bit = 0; bit < LANE_BITS; bit++) {
        if (settled[bit]) continue;
        int to = 0;
        while (to < LANE_BITS && !is_free[to]) to++;
        if (to == LANE_BITS) return false;
        is_free[to] = false;
        source[bit] = to;
    }
    return true;
}

static const char *permute_lanes(Places *p)
{
    int source[LANE_BITS], lane[LANE_BITS];
    bool moves = false;
    if (!choose_lanes(p, source)) return "lanes that hold nothing are in the way";
    for (int bit = 0; bit < LANE_BITS; bit++) lane[bit] = p->lane[bit] == FIRST ? FIRST : ANY;
    for (int bit = 0; bit < LANE_BITS; bit++) {
        moves |= source[bit] != bit;
        if (p->lane[bit] < 0) continue;
        lane[source[bit]] = p->lane[bit];
        p->modes.mode[p->lane[bit]].out_stride = 1 << source[bit];
    }
    if (moves) add_lanes(p, source);
    for (int bit = 0; bit < LANE_BITS; bit++) p->lane[bit] = lane[bit];
    return NULL;
}

// ---- the plan within registers and warps

static const char *plan_steps(Places *p, const Sides *sides)
{
    for (int i = 0; i < p->modes.n; i++) {
        const MapMode mode = p->modes.mode[i];
        if (is_beyond_warp(mode.in) && mode.out == IN_REGISTER) add_select(p, i, mode.in, mode.in_stride);
    }
    find_lanes(p, sides);
    fill_empty_lanes(p, sides);
    const char *why = move_to_lanes(p);
    if (!why) why = permute_lanes(p);
    for (int bit = 0; bit < LANE_BITS && !why; bit++)
        if (leaves_lanes(p, bit)) add_gather(p, bit);
    return why;
}

// Registers of `to` among those that the steps end with.
static LinearMap name_registers(const Places *p)
{
    LinearMap registers = map_new(1, 1);
    for (int i = 0; i < p->modes.n; i++) {
        const MapMode *const mode = &p->modes.mode[i];
        if (mode->in == IN_REGISTER && mode->out == IN_REGISTER)
            registers.mode[registers.n++] = (MapMode){ 0, mode->in_stride, mode->extent, 0, mode->out_stride };
    }
    return registers;
}

static bool is_same(const Conversion *plan, const Layout *from, const Layout *to)
{
    int named = 1;
    for (int i = 0; i < plan->registers.n; i++) named *= plan->registers.mode[i].extent;
    return map_is_identity(&plan->registers) && named == layout_registers(to) && named == layout_registers(from);
}

// The lowest modes of the register number that are the same before and after, and that no step touches.
static int registers_per_word(const LinearMap *before, const Places *p, int element_bits)
{
    int per_word = 1;
    while (per_word * element_bits < 32) {
        const MapMode *const mode = map_mode_at(before, MAP_IN, IN_REGISTER, per_word);
        const MapMode *const after = map_mode_at(&p->modes, MAP_IN, IN_REGISTER, per_word);
        if (!mode || mode->out != IN_REGISTER || mode->out_stride != per_word || mode->extent % 2 != 0 ||
            after->out != IN_REGISTER || after->out_stride != per_word)
            return per_word;
        per_word *= mode->extent & -mode->extent;
    }
    return 32 / element_bits ? 32 / element_bits : 1;
}

static int cost_of_steps(const Conversion *plan, int element_bits)
{
    int cost = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const ConversionStep *const step = &plan->step[i];
        const int words = SHUFFLE_CYCLES * step->shuffles + SELECT_CYCLES * step->selections;
        cost += words * (element_bits > 32 ? 2 : 1) / plan->per_word + (step->shuffles ? SHUFFLE_WAIT : 0);
    }
    return cost;
}

static const char *plan_in_warps(const Layout *from, const Layout *to, const ConversionTarget *target,
                                 const LinearMap *modes, const Sides *sides, Conversion *plan)
{
    const char *why = check_warps(modes, sides);
    if (why) return why;
    Places places = { .modes = *modes, .registers = layout_registers(from), .plan = plan };
    why = plan_steps(&places, sides);
    if (why) return why;
    plan->registers = name_registers(&places);
    plan->per_word = registers_per_word(modes, &places, target->element_bits);
    plan->cost = cost_of_steps(plan, target->element_bits);
    plan->kind = plan->n_steps ? CONVERT_SHUFFLES : is_same(plan, from, to) ? CONVERT_SAME : CONVERT_RENAMED;
    return NULL;
}

static const char *check_layouts(const Layout *from, const Layout *to, const ConversionTarget *target)
{
    if (from->rank != to->rank || from->rank == 0) return "the ranks differ, or there is no dimension";
    for (int d = 0; d < from->rank; d++)
        if (from->extent[d] != to->extent[d]) return "the extents differ";
    if (!layout_covers(from) || !layout_covers(to)) return "an element has no register, or two modes overlap";
    if (target->element_bits < 8) return "elements of less than a byte";
    LinearMap map;
    const char *const why = layout_map(from, target->partition, &map);
    return why ? why : layout_map(to, target->partition, &map);
}

const char *layout_convert(const Layout *from, const Layout *to, const ConversionTarget *target, Conversion *plan)
{
    Sides sides;
    LinearMap modes = map_new(IN_COUNT, IN_COUNT);
    const char *why = check_layouts(from, to, target);
    if (why) return why;
    Conversion in_warps = { .n_steps = 0 }, shared = { .kind = CONVERT_SHARED, .scope = WITHIN_CTA };
    why = make_sides(from, to, target->partition, &sides);
    if (!why) why = follow_modes(&sides, &modes);
    if (!why) shared.scope = is_within_warps(&modes, &sides) ? WITHIN_WARP : WITHIN_CTA;
    if (!why) why = plan_in_warps(from, to, target, &modes, &sides, &in_warps);
    if (!why) *plan = in_warps;
    if (target->in_registers || (!why && in_warps.cost == 0)) return why;
    plan_shared(from, to, target, &shared);
    shared.cost += SHARED_WAIT + (shared.scope == WITHIN_CTA ? BARRIER_WAIT : 0);
    shared.why = why ? why : "shuffles would be dearer";
    if (why || in_warps.cost > shared.cost) *plan = shared;
    return NULL;
}
