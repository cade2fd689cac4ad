// SPDX-License-Identifier: MIT
// convert_shared.c - conversions through shared memory: the layout of the staging tile, and the instructions of each
// side.
//
// Registers are names, so a side can move vectors wherever the lowest modes of the last dimension are in registers,
// in whatever order. Where lanes hold 8 x 8 matrices as tensor cores do, stmatrix and ldmatrix move rows of 16 bytes
// instead of pairs.
#include "layout/convert.h"

enum { WAVEFRONT_CYCLES = 4, INSTRUCTION_CYCLES = 2, VECTOR_BYTES = 16, MATRIX_ROWS = 8, NO_DIMENSION = -2 };

// ---- pieces

// (element, number) -> register: the registers' modes that `is_element` are those of the element.
static LinearMap name_pieces(const LinearMap *map, const bool *is_element, int last)
{
    LinearMap pieces = map_new(2, 1);
    int numbers = 1, elements = 1;
    for (int stride = 1; stride > 0;) { // in the order of the registers
        int next = 0;
        for (int i = 0; i < map->n; i++) {
            const MapMode *const mode = &map->mode[i];
            if (mode->in != IN_REGISTER || mode->in_stride != stride) continue;
            next = stride * mode->extent;
            const int at = is_element[i] ? (mode->out == last ? mode->out_stride : elements) : numbers;
            (void)map_add(&pieces, (MapMode){ !is_element[i], at, mode->extent, 0, mode->in_stride });
            if (is_element[i]) elements *= mode->extent;
            else numbers *= mode->extent;
        }
        stride = next;
    }
    return pieces;
}

// Whether every thread has runs of so many elements along the last dimension.
static bool find_vectors(const Side *side, int piece, LinearMap *pieces)
{
    const int last = side->layout->rank - 1;
    LinearMap map = side->map;
    bool is_element[MAP_MAX_MODES] = { false };
    int found = 1;
    if (side->layout->extent[last] % piece != 0 || (piece > 1 && layout_divide(&map, MAP_OUT, last, piece)))
        return false;
    for (int i = 0; i < map.n; i++) {
        const MapMode *const mode = &map.mode[i];
        is_element[i] = mode->in == IN_REGISTER && mode->out == last && mode->out_stride < piece;
        if (is_element[i]) found *= mode->extent;
    }
    *pieces = name_pieces(&map, is_element, last);
    return found == piece;
}

static bool is_at(const LinearMap *map, int in, int in_stride, int out, int out_stride)
{
    const MapMode *const mode = map_mode_at(map, MAP_IN, in, in_stride);
    return mode && mode->extent == 2 && mode->out == out && mode->out_stride == out_stride;
}

// Whether the lanes hold 8 x 8 matrices of 16-bit elements, lane 4*r + c two neighbours of row (transposed: column) r.
static bool find_matrices(const Side *side, bool transposed, LinearMap *pieces)
{
    const Layout *const layout = side->layout;
    const int last = layout->rank - 1;
    LinearMap map = side->map;
    if (side->element_bytes != 2) return false;
    for (int d = 0; d < layout->rank; d++) // all lanes take part, with whole rows
        if (layout_coverage(layout, d) != layout->extent[d]) return false;
    const char *why = layout_divide(&map, MAP_IN, IN_REGISTER, 2);
    for (int cut = 2; cut < WARP_LANES && !why; cut *= 2) why = layout_divide(&map, MAP_IN, IN_LANE, cut);
    if (why) return false;
    bool is_element[MAP_MAX_MODES] = { false }, found = false;
    for (int i = 0; i < map.n; i++) {
        const MapMode *const mode = &map.mode[i];
        if (mode->in == IN_LANE && mode->out == REPLICATED) return false;
        is_element[i] = mode->in == IN_REGISTER && mode->extent == 2 &&
                        (transposed ? mode->in_stride == 1 : mode->out == last && mode->out_stride == 1);
        found |= is_element[i];
    }
    const int first = transposed ? 4 : 1, bits = transposed ? 3 : 2; // lane bits along the last dimension
    for (int bit = 0; bit < bits; bit++)
        if (!is_at(&map, IN_LANE, first << bit, last, (transposed ? 1 : 2) << bit)) return false;
    *pieces = name_pieces(&map, is_element, transposed ? NO_DIMENSION : last);
    return found;
}

// ---- what the banks do

typedef struct Lane {
    int row, column;
    bool takes_part;
} Lane;

// Where warp 0's lane has a register's element.
static Lane element_of(const Side *side, int lane, int reg)
{
    int at[LAYOUT_MAX_RANK], row = 0;
    bool inside = true;
    map_at(&side->map, (int[]){ reg, lane, 0, 0 }, at);
    for (int d = 0; d < side->layout->rank; d++) inside &= at[d] < side->layout->extent[d];
    for (int d = 0; d < side->layout->rank - 1; d++) row = row * side->layout->extent[d] + at[d];
    for (int i = 0; i < side->map.n && side->is_store; i++) { // of replicas the first stores
        const MapMode *const mode = &side->map.mode[i];
        if (mode->in == IN_LANE && mode->out == REPLICATED && lane / mode->in_stride % mode->extent != 0)
            inside = false;
    }
    return (Lane){ row, at[side->layout->rank - 1], inside };
}

static int count_wavefronts(const SharedLayout *shared, const Lane *lanes, int n)
{
    int rows[WARP_LANES], columns[WARP_LANES], active = 0;
    for (int i = 0; i < n; i++)
        if (lanes[i].takes_part) {
            rows[active] = lanes[i].row;
            columns[active++] = lanes[i].column;
        }
    return active ? shared_conflicts(shared, rows, columns, active) : 0;
}

static int first_register(const LinearMap *pieces, int element, int number)
{
    int reg;
    map_at(pieces, (int[]){ element, number }, &reg);
    return reg;
}

static int count_pieces(const LinearMap *pieces)
{
    int numbers = 1;
    for (int i = 0; i < pieces->n; i++)
        if (pieces->mode[i].in == 1) numbers *= pieces->mode[i].extent;
    return numbers;
}

int swapped_wavefronts(const Side *side, const SharedLayout *shared, const SharedSide *result, int swap, int lane)
{
    const int bytes = result->piece * side->element_bytes;
    const int together = bytes <= 4 ? WARP_LANES : 128 / bytes; // lanes of a wavefront
    int wavefronts = 0;
    for (int number = 0; number < result->instructions; number++) {
        Lane lanes[WARP_LANES];
        for (int i = 0; i < WARP_LANES; i++)
            lanes[i] = element_of(side, i, first_register(&result->pieces, 0, i >> lane & 1 ? number ^ swap : number));
        for (int i = 0; i < WARP_LANES; i += together) wavefronts += count_wavefronts(shared, lanes + i, together);
    }
    return wavefronts;
}

static void count_vectors(const Side *side, const SharedLayout *shared, SharedSide *result)
{
    result->instructions = count_pieces(&result->pieces);
    result->wavefronts = swapped_wavefronts(side, shared, result, 0, 0);
}

// Four matrices by an instruction, each of eight rows of 16 bytes.
static void count_matrices(const Side *side, const SharedLayout *shared, SharedSide *result)
{
    const int matrices = count_pieces(&result->pieces);
    result->instructions = (matrices + 3) / 4;
    for (int number = 0; number < matrices; number++) {
        Lane rows[MATRIX_ROWS];
        for (int row = 0; row < MATRIX_ROWS; row++)
            rows[row] = result->access == BY_MATRICES
                            ? element_of(side, 4 * row, first_register(&result->pieces, 0, number))
                            : element_of(side, row / 2, first_register(&result->pieces, row % 2, number));
        result->wavefronts += count_wavefronts(shared, rows, MATRIX_ROWS);
    }
}

// ---- choosing

static int cost_of(const SharedSide *side)
{
    return WAVEFRONT_CYCLES * side->wavefronts + INSTRUCTION_CYCLES * side->instructions;
}

// Matrices, then the widest vectors, then narrower ones, unless they are cheaper.
SharedSide best_side(const Side *side, const SharedLayout *shared, bool has_matrices)
{
    SharedSide best = { .instructions = 0 };
    for (int transposed = 0; transposed < 2 && has_matrices; transposed++) {
        SharedSide here = { .access = transposed ? BY_TRANSPOSED_MATRICES : BY_MATRICES, .piece = 2 };
        if (shared->pitch_bytes % VECTOR_BYTES != 0 || !find_matrices(side, transposed, &here.pieces)) continue;
        count_matrices(side, shared, &here);
        if (!best.instructions || cost_of(&here) < cost_of(&best)) best = here;
    }
    for (int piece = VECTOR_BYTES / side->element_bytes; piece >= 1; piece /= 2) {
        SharedSide here = { .access = BY_VECTORS, .piece = piece };
        if (!find_vectors(side, piece, &here.pieces)) continue;
        count_vectors(side, shared, &here);
        if (!best.instructions || cost_of(&here) < cost_of(&best)) best = here;
    }
    return best;
}

void plan_shared(const Layout *from, const Layout *to, const ConversionTarget *target, Conversion *plan)
{
    const int bytes = target->element_bits / 8, columns = from->extent[from->rank - 1];
    int rows = 1;
    for (int d = 0; d < from->rank - 1; d++) rows *= from->extent[d];
    Side store = { .layout = from, .element_bytes = bytes, .is_store = true },
         load = { .layout = to, .element_bytes = bytes };
    (void)layout_map(from, target->partition, &store.map); // both have been made before
    (void)layout_map(to, target->partition, &load.map);
    SharedLayout candidates[3] = { shared_plain(rows, columns, bytes),
                                   shared_padded(rows, columns, VECTOR_BYTES / bytes, bytes) };
    const int n = shared_panels(rows, columns, bytes, 0, &candidates[2]) ? 3 : 2;
    for (int i = n - 1; i >= 0; i--) {
        const SharedSide stores = best_side(&store, &candidates[i], target->has_stmatrix);
        const SharedSide loads = best_side(&load, &candidates[i], target->has_ldmatrix);
        const int cost = cost_of(&stores) + cost_of(&loads);
        if (i < n - 1 && cost >= plan->cost) continue;
        plan->cost = cost;
        plan->shared = candidates[i];
        plan->stores = stores;
        plan->loads = loads;
    }
}
