// SPDX-License-Identifier: MIT
// work_access.c - what one access of a map costs: the sectors of a tensor, or the banks of shared memory, that the lanes of a
// warp meet in their first iterations.
//
// Where a lane stands comes from the layout of the map's iterations, and the element from the subscripts, computed for the
// lane's indices. What is the same for all lanes is taken to be some large multiple, a list's element another place for each.
#include "lower/gpu/decide/explain/work.h"
#include "lower/gpu/facts/info.h"

#include <math.h>

enum {
    NODES_MAX = 64,
    COLUMNS_MAX = 1 << 30,
    ELSEWHERE = 1 << 20,
    SECTOR_BYTES = 32,
    SEEN_REGISTERS = 8,
    SEEN_MAX = SEEN_REGISTERS * WARP_LANES
};

// The values of a map's indices for a lane's n-th iteration.
static void place_of(const Iteration *it, int reg, int lane, int64_t *index)
{
    int at[LAYOUT_MAX_RANK + 1] = { 0 };
    if (it->is_linear) {
        int64_t rest = lane; // the last index fastest
        for (int i = it->n - 1; i >= 0; i--) {
            int64_t lo, hi;
            index[i] = 0;
            if (it->dim_of[i] < 0) continue;
            const bool known = static_extent(&it->indices[i], &lo, &hi) && hi > lo;
            index[i] = known ? rest % (hi - lo) : rest;
            rest = known ? rest / (hi - lo) : 0;
        }
        return;
    }
    layout_at(&it->layout, reg, lane, 0, 0, at);
    for (int i = 0; i < it->n; i++) index[i] = it->dim_of[i] < 0 ? 0 : at[it->dim_of[i]];
}

// What differs from lane to lane in a way that is not known: a list's elements, a scalar made of the indices.
static int64_t scattered(int64_t x) { return (int64_t)((uint64_t)x * 7919); }

// One number of two, that differs where they do; it wraps.
static int64_t mixed(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * 1000003 + (uint64_t)b); }

static int64_t value_at(const MapAccess *access, const Expr *x, const int64_t *index);

// Subtrees are shared, and a place is looked at for every lane.
static bool is_small(const MapAccess *access)
{
    for (int d = 0; d < access->buffer->rank; d++)
        if (expr_larger(access->subs[d], NODES_MAX)) return false;
    return true;
}

static int64_t value_of_var(const MapAccess *access, const Var *var, const int64_t *index)
{
    int64_t sum = 0;
    for (int i = 0; i < access->it->n; i++)
        if (access->it->indices[i].var == var) return index[i];
    for (int i = 0; i < access->it->n && var->id < access->n_vars; i++)
        if (access->uses[var->id] >> i & 1) sum = mixed(sum, index[i]);
    return sum ? scattered(sum) : ELSEWHERE; // the same for all lanes
}

static int64_t value_of_load(const MapAccess *access, const Expr *x, const int64_t *index)
{
    int64_t sum = 0;
    for (int d = 0; d < x->load.buffer->rank; d++) sum = mixed(sum, value_at(access, x->load.subs[d], index));
    return scattered(sum);
}

// A number that differs where the value does, and is the value as far as it is made of the map's indices.
static int64_t value_at(const MapAccess *access, const Expr *x, const int64_t *index)
{
    int64_t a, b;
    switch (x->kind) {
    case E_INT: return x->integer.value;
    case E_VAR: return value_of_var(access, x->var.var, index);
    case E_LOAD: return value_of_load(access, x, index);
    case E_CONVERT: return value_at(access, x->convert.a, index);
    case E_SELECT: return value_at(access, x->select.a, index);
    case E_UNARY:
        a = value_at(access, x->op.a, index);
        if (x->op.op == X_NEG) op_compute_int(X_SUB, DTYPE_I64, 0, a, &a);
        return a;
    case E_BINARY:
        a = value_at(access, x->op.a, index), b = value_at(access, x->op.b, index);
        op_compute_int(x->op.op, DTYPE_I64, a, b, &a);
        return a;
    case E_MATH:
        a = 0;
        for (int i = 0; i < x->math.n; i++) a = mixed(a, value_at(access, x->math.args[i], index));
        return a;
    case E_FLOAT:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return 0;
}

static int registers_of(const Iteration *it) { return it->is_linear ? 1 : layout_registers(&it->layout); }

// ---- tensors

typedef struct Place {
    int64_t row, column; // column: bytes along the last dimension
} Place;

static void see_places(const MapAccess *access, Place *places, int registers)
{
    const int rank = access->buffer->rank, bits = dtype_bits(access->buffer->type);
    for (int reg = 0; reg < registers; reg++) {
        for (int lane = 0; lane < WARP_LANES; lane++) {
            int64_t index[LOOP_INDICES_MAX];
            Place place = { 0, 0 };
            place_of(access->it, reg * access->vector, lane, index);
            for (int d = 0; d < rank - 1; d++) place.row = mixed(place.row, value_at(access, access->subs[d], index));
            place.column = value_at(access, access->subs[rank - 1], index) % COLUMNS_MAX * bits / 8;
            places[reg * WARP_LANES + lane] = place;
        }
    }
}

// How many differ, if columns are taken in units of so many bytes.
static int count_different(const Place *places, int n, int unit)
{
    enum { SLOTS = 2 * SEEN_MAX };
    const Place *slots[SLOTS] = { NULL }; // open addressing
    int different = 0;
    for (int i = 0; i < n; i++) {
        const int64_t row = places[i].row, column = places[i].column / unit;
        size_t at = (size_t)((uint64_t)mixed(row, column) * UINT64_C(0x9E3779B97F4A7C15) >> 32) % SLOTS;
        while (slots[at] && (slots[at]->row != row || slots[at]->column / unit != column)) at = (at + 1) % SLOTS;
        different += !slots[at];
        slots[at] = &places[i];
    }
    return different;
}

void add_tensor_access(const MapAccess *access, ActionWork *work)
{
    Place places[SEEN_MAX];
    const int all = registers_of(access->it) / access->vector, registers = all < 1                ? 1
                                                                           : all < SEEN_REGISTERS ? all
                                                                                                  : SEEN_REGISTERS;
    const int bits = dtype_bits(access->buffer->type),
              wide = bits * access->vector / 8 > 0 ? bits * access->vector / 8 : 1;
    const int n = registers * WARP_LANES;
    double sectors = (double)n * wide / SECTOR_BYTES, wanted = n; // as if side by side
    if (is_small(access)) {
        see_places(access, places, registers);
        sectors = count_different(places, n, SECTOR_BYTES);
        wanted = count_different(places, n, wide);
    }
    const double waste = fmax(1, sectors * SECTOR_BYTES / (wanted * wide));
    const double bytes = access->needed * bits / 8, instructions = access->threads / access->vector / WARP_LANES;
    work->used[UNIT_MEMORY] += bytes * waste;
    work->needed[UNIT_MEMORY] += bytes;
    work->used[UNIT_ISSUE] += instructions;
    work->used[UNIT_SHARED] += instructions * fmax(1, sectors / registers / 4);
    if (waste > work->sectors && bytes >= SECTOR_BYTES) work->sectors = waste;
    add_traffic(work, buffer_root(access->buffer), bytes * waste, access->writes);
}

// ---- shared memory

// Lanes that the banks serve together: 16-byte accesses go eight lanes at a time.
static int lanes_together(int bytes) { return bytes >= 16 ? 8 : bytes == 8 ? 16 : WARP_LANES; }

static int count_conflicts(const MapAccess *access, const TileInfo *tile, int lanes)
{
    int rows[WARP_LANES], columns[WARP_LANES];
    const int rank = access->buffer->rank;
    if (buffer_root(access->buffer) != access->buffer || rank < 1 || !is_small(access)) return 1;
    for (int lane = 0; lane < lanes; lane++) {
        int64_t index[LOOP_INDICES_MAX], row = 0, extent = 1;
        place_of(access->it, 0, lane, index);
        for (int d = 0; d < rank - 1; d++) {
            expr_as_int(access->buffer->shape[d], &extent);
            row = (row * extent + value_at(access, access->subs[d], index) % COLUMNS_MAX) % COLUMNS_MAX;
        }
        rows[lane] = (int)(row % (tile->shared.rows > 0 ? tile->shared.rows : 1));
        columns[lane] = (int)(value_at(access, access->subs[rank - 1], index) %
                              (tile->shared.columns > 0 ? tile->shared.columns : 1));
        if (rows[lane] < 0 || columns[lane] < 0) return 1;
    }
    return shared_conflicts(&tile->shared, rows, columns, lanes);
}

void add_shared_access(Lowering *lo, const MapAccess *access, ActionWork *work)
{
    const TileInfo *const tile = tile_info(lo, buffer_root(access->buffer));
    const int bits = dtype_bits(access->buffer->type), bytes = bits * access->vector / 8;
    const int lanes = lanes_together(bytes), conflicts = count_conflicts(access, tile, lanes);
    const double instructions = access->threads / access->vector / WARP_LANES;
    work->used[UNIT_ISSUE] += instructions;
    work->used[UNIT_SHARED] += instructions * conflicts * (WARP_LANES / lanes);
    work->needed[UNIT_SHARED] += access->needed * bits / 8 / 128;
    if (conflicts <= work->conflicts) return;
    work->conflicts = conflicts;
    work->conflicting = tile->buffer;
}
