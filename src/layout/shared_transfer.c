// SPDX-License-Identifier: MIT
// shared_transfer.c - a fragment to a tile in shared memory, or from it: instructions, and where each goes.
//
// Pieces that would be too narrow are made wider by an exchange among neighbouring lanes before (widen.c).
//
// before: the fragment has a layout, the tile too
// after:  each instruction's address is that of a base, which threads work out once, with constants
#include "layout/convert.h"

enum { SWIZZLE_ROWS = 8, MATRICES = 4, MATRIX_BITS = 3 }; // the swizzle repeats every 8 rows

static bool is_power_of_two(int x) { return x > 0 && (x & (x - 1)) == 0; }

int transfer_register(const SharedTransfer *plan, int element, int piece)
{
    int reg;
    map_at(&plan->side.pieces, (int[]){ element, piece }, &reg);
    return reg;
}

// ---- who gives the addresses

typedef struct Splitting {
    const SharedLayout *shared;
    int rank, row_stride[LAYOUT_MAX_RANK]; // rows that one step along a dimension is; of the last: 0
    Layout *lanes;
} Splitting;

static void add_mode(Layout *lanes, LayoutInput input, int extent, int dim, int stride)
{
    LayoutMode *const last = lanes->n ? &lanes->mode[lanes->n - 1] : NULL;
    if (last && extent > 1 && last->input == input && last->dim == dim &&
        (dim == REPLICATED || last->stride * last->extent == stride))
        last->extent *= extent;
    else layout_add(lanes, input, extent, dim, stride);
}

// A mode of a thread's number as rows, panels and columns within them.
static bool split_mode(const Splitting *splitting, LayoutInput input, int extent, int dim, int stride)
{
    const int width = splitting->shared->panel_columns;
    Layout *const lanes = splitting->lanes;
    if (dim == REPLICATED) {
        add_mode(lanes, input, extent, REPLICATED, 0);
    } else if (dim != splitting->rank - 1) {
        add_mode(lanes, input, extent, 0, stride * splitting->row_stride[dim]);
    } else if (splitting->shared->swizzle_bytes == 0 || stride * extent <= width) {
        add_mode(lanes, input, extent, 2, stride);
    } else if (stride % width == 0) {
        add_mode(lanes, input, extent, 1, stride / width);
    } else {
        const int within = width / stride;
        if (width % stride != 0 || extent % within != 0) return false;
        add_mode(lanes, input, within, 2, stride);
        add_mode(lanes, input, extent / within, 1, 1);
    }
    return true;
}

// Which of the fragment's dimensions a step in one of its numbers moves, and how far; false: several.
static bool find_step(const LinearMap *map, const int *from, const int *to, int *dim, int *stride)
{
    int a[LAYOUT_MAX_RANK], b[LAYOUT_MAX_RANK];
    map_at(map, from, a);
    map_at(map, to, b);
    *dim = REPLICATED;
    *stride = 0;
    for (int d = 0; d < map->n_out; d++) {
        if (a[d] == b[d]) continue;
        if (*dim != REPLICATED) return false;
        *dim = d;
        *stride = b[d] - a[d];
    }
    return *stride >= 0;
}

// Lane 8*m + r gives the address of row r of matrix m of four.
static bool split_matrix_lanes(const Splitting *splitting, const Side *side, const SharedTransfer *plan)
{
    const bool across = plan->side.access == BY_TRANSPOSED_MATRICES;
    const int zero[IN_COUNT] = { transfer_register(plan, 0, 0) };
    for (int bit = 0; bit < MATRIX_BITS + 2; bit++) {
        int at[IN_COUNT] = { zero[IN_REGISTER] }, dim, stride;
        if (bit >= MATRIX_BITS) at[IN_REGISTER] = transfer_register(plan, 0, 1 << (bit - MATRIX_BITS));
        else if (across && bit == 0) at[IN_REGISTER] = transfer_register(plan, 1, 0);
        else at[IN_LANE] = across ? 1 << (bit - 1) : MATRICES << bit;
        if (!find_step(&side->map, zero, at, &dim, &stride) || !split_mode(splitting, IN_LANE, 2, dim, stride))
            return false;
    }
    return true;
}

static bool split_lanes(const Side *side, SharedTransfer *plan)
{
    Splitting splitting = { .shared = &plan->shared, .rank = side->layout->rank, .lanes = &plan->lanes };
    int stride = 1;
    for (int d = splitting.rank - 2; d >= 0; d--) {
        splitting.row_stride[d] = stride;
        stride *= side->layout->extent[d];
    }
    plan->lanes =
        layout_new(3, (int[]){ stride, plan->shared.columns / plan->shared.panel_columns, plan->shared.panel_columns });
    const bool by_matrices = plan->side.access != BY_VECTORS;
    if (by_matrices && !split_matrix_lanes(&splitting, side, plan)) return false;
    for (int i = 0; i < side->layout->n; i++) {
        const LayoutMode *const mode = &side->layout->mode[i];
        if (mode->input == IN_REGISTER || (by_matrices && mode->input == IN_LANE)) continue;
        if (!split_mode(&splitting, mode->input, mode->extent, mode->dim, mode->stride)) return false;
    }
    return true;
}

// ---- addresses

// Bits that the threads' columns within a panel may have; -1: they are no bits.
static int column_bits(const Layout *lanes)
{
    int bits = 0;
    for (int i = 0; i < lanes->n; i++) {
        const LayoutMode *const mode = &lanes->mode[i];
        if (mode->dim != 2) continue;
        if (!is_power_of_two(mode->extent) || !is_power_of_two(mode->stride)) return -1;
        bits |= mode->stride * (mode->extent - 1);
    }
    return bits;
}

static void find_place(const Side *side, const SharedTransfer *plan, int piece, PieceAddress *at)
{
    int coordinates[LAYOUT_MAX_RANK], row = 0;
    const int last = side->layout->rank - 1;
    map_at(&side->map, (int[]){ transfer_register(plan, 0, piece), 0, 0, 0 }, coordinates);
    for (int d = 0; d < last; d++) row = row * side->layout->extent[d] + coordinates[d];
    at->row = row;
    at->panel = coordinates[last] / plan->shared.panel_columns;
    at->column = coordinates[last] % plan->shared.panel_columns;
}

// Whether instruction `at` is reached from that of `from` by constants.
static bool follows(const SharedTransfer *plan, const PieceAddress *from, PieceAddress *at, int bits)
{
    const SharedLayout *const shared = &plan->shared;
    const int size = shared->element_bytes;
    at->step = (at->row - from->row) * shared->pitch_bytes + (at->panel - from->panel) * shared->panel_bytes;
    at->flip = (at->column ^ from->column) * size;
    if (shared->swizzle_bytes)
        return (at->row - from->row) % SWIZZLE_ROWS == 0 && !((at->column | from->column) & bits);
    at->step += (at->column - from->column) * size;
    at->flip = 0;
    return true;
}

static bool find_addresses(const Side *side, SharedTransfer *plan, bool anywhere)
{
    const int bits = column_bits(&plan->lanes), pieces = plan->side.access == BY_VECTORS ? 1 : MATRICES;
    if (bits < 0) return false;
    for (int i = 0; i < plan->n; i++) {
        PieceAddress *const at = &plan->address[i];
        find_place(side, plan, i * pieces, at);
        if (plan->shared.swizzle_bytes && (at->column & bits)) return false;
        at->base = anywhere ? i : 0;
        while (at->base < i &&
               (plan->address[at->base].base != at->base || !follows(plan, &plan->address[at->base], at, bits)))
            at->base++;
        if (at->base == i) at->flip = at->step = 0;
    }
    return true;
}

// Four matrices of an instruction lie as the first four do.
static bool matrices_are_alike(const Side *side, const SharedTransfer *plan)
{
    PieceAddress first[MATRICES], at;
    for (int m = 0; m < MATRICES; m++) find_place(side, plan, m, &first[m]);
    for (int i = 0; i < plan->n; i++)
        for (int m = 1; m < MATRICES; m++) {
            find_place(side, plan, i * MATRICES + m, &at);
            if (at.row - plan->address[i].row != first[m].row - first[0].row ||
                at.panel - plan->address[i].panel != first[m].panel - first[0].panel ||
                at.column - plan->address[i].column != first[m].column - first[0].column)
                return false;
        }
    return true;
}

// ---- boxes

bool layout_find_box(const Layout *fragment, const Layout *box, int first, int *corner)
{
    const int registers = layout_registers(box), warps = layout_extent_of(box, IN_WARP);
    layout_at(fragment, first, 0, 0, 0, corner);
    if (fragment->rank != box->rank || first + registers > layout_registers(fragment)) return false;
    for (int i = 0; i < registers * WARP_LANES * warps; i++) {
        const int reg = i % registers, lane = i / registers % WARP_LANES, warp = i / registers / WARP_LANES;
        int at[LAYOUT_MAX_RANK], in_box[LAYOUT_MAX_RANK];
        layout_at(fragment, first + reg, lane, warp, 0, at);
        layout_at(box, reg, lane, warp, 0, in_box);
        for (int d = 0; d < box->rank; d++)
            if (at[d] - corner[d] != in_box[d]) return false;
    }
    return true;
}

// ---- which lanes swap

static void choose_swap(const Side *side, SharedTransfer *plan)
{
    int least = plan->side.wavefronts;
    for (int swap = 1; swap < plan->n && plan->n % (2 * swap) == 0; swap *= 2) {
        const int flip = plan->address[swap].flip;
        bool is_flip = flip != 0;
        for (int i = 0; i < plan->n && is_flip; i++) {
            const PieceAddress *const a = &plan->address[i], *const b = &plan->address[i ^ swap];
            is_flip = a->base == b->base && a->step == b->step && (a->flip ^ b->flip) == flip;
        }
        for (int lane = 0; lane < LANE_BITS && is_flip; lane++) {
            const int wavefronts = swapped_wavefronts(side, &plan->shared, &plan->side, swap, lane);
            if (wavefronts > least || wavefronts == plan->side.wavefronts) continue;
            least = wavefronts;
            plan->swap = swap;
            plan->swap_lane = lane;
        }
    }
    plan->side.wavefronts = least;
}

// Rows and columns of a slice; what they are in panels its place in the tile decides.
static SharedLayout without_panels(const SharedLayout *shared)
{
    SharedLayout rows = *shared;
    rows.panel_columns = rows.columns;
    rows.swizzle_bytes = 0;
    return rows;
}

static bool plan_pieces(Arena *arena, const Side *side, const TransferOptions *options, SharedTransfer *plan)
{
    plan->side = best_side(side, &plan->shared, options->has_matrices);
    if (options->anywhere) plan->shared = without_panels(&plan->shared);
    const bool by_vectors = plan->side.access == BY_VECTORS;
    plan->n = plan->side.instructions;
    plan->address = NEW_ARRAY(arena, PieceAddress, plan->n);
    if (!split_lanes(side, plan) || !find_addresses(side, plan, options->anywhere)) return false;
    if (!by_vectors) return matrices_are_alike(side, plan);
    if (plan->side.piece == 2 && !options->anywhere) choose_swap(side, plan);
    return true;
}

// The layout from which pieces are as wide as they are to be, and the exchange that leads there.
static bool plan_exchange(const Layout *fragment, const TransferOptions *options, Layout *wide, Conversion *how)
{
    const ConversionTarget target = { .partition = options->partition,
                                      .element_bits = 8 * options->element_bytes,
                                      .in_registers = true };
    return !layout_widen(fragment, options->partition, options->least_bytes / options->element_bytes, wide) &&
           !layout_convert(fragment, wide, &target, how) && conversion_exchanges(how);
}

bool plan_transfer(Arena *arena, const Layout *fragment, const SharedLayout *shared, const TransferOptions *options,
                   SharedTransfer *plan)
{
    Layout wide;
    Side side = { .layout = fragment, .element_bytes = options->element_bytes, .is_store = options->is_store };
    *plan = (SharedTransfer){ .shared = *shared };
    if (layout_map(fragment, options->partition, &side.map)) return false;
    if (!plan_pieces(arena, &side, options, plan)) return false;
    if (plan->side.access != BY_VECTORS || plan->side.piece * options->element_bytes >= options->least_bytes)
        return true;
    *plan = (SharedTransfer){ .shared = *shared };
    side.layout = &wide;
    return options->is_store && plan_exchange(fragment, options, &wide, &plan->exchange) &&
           !layout_map(&wide, options->partition, &side.map) && plan_pieces(arena, &side, options, plan) &&
           plan->side.piece * options->element_bytes >= options->least_bytes;
}
