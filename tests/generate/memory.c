// SPDX-License-Identifier: MIT
// memory.c - elements of tensors, tiles and views: where they are, what outside means, and who may touch them when.
//
// The rules that a program must keep are looked after here: no tile is read before it is written or outside, iterations
// of a forall and instances of the grid do not read or write what another writes.
#include "machine.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void reset_memory(Memory *memory, bool defined)
{
    for (int64_t i = 0; i < memory->n; i++)
        memory->cells[i] =
            (Cell){ .writer = NOBODY, .reader = NOBODY, .owner = NOBODY, .user = NOBODY, .defined = defined };
}

void begin_tensor(Memory *memory)
{
    reset_memory(memory, true);
    for (int64_t i = 0; i < memory->n; i++) memory->cells[i].bits = memory->given[i];
}

// ---- places

typedef struct Place {
    Memory *root;
    int64_t flat;
    int bit;
    bool inside;
} Place;

static int slice_shape(const Slice *slice, int64_t *shape)
{
    int n = 0;
    for (int i = 0; i < slice->memory->rank; i++)
        if (slice->subs[i].kind != AT)
            shape[n++] = slice->subs[i].kind == RANGE ? slice->subs[i].width : slice->memory->dims[i];
    return n;
}

// From an index of a view to one of what it is a view of; `bit` is where it begins in that element.
static void index_of_parent(const Memory *view, const int64_t *index, int64_t *result, int *bit)
{
    const Slice *const window = view->window;
    const int bits = type_info[view->type].bits, parent_bits = type_info[window->memory->type].bits;
    int64_t at[MAX_RANK], shape[MAX_RANK], flat = 0;
    memcpy(at, index, sizeof at);
    if (view->view == RESHAPED) {
        for (int i = 0; i < view->rank; i++) flat = flat * view->dims[i] + index[i];
        for (int i = slice_shape(window, shape); i-- > 0; flat /= shape[i]) at[i] = flat % shape[i];
    }
    if (view->view == RETYPED) {
        const int64_t first = index[view->rank - 1] * bits;
        at[view->rank - 1] = first / parent_bits;
        *bit = (int)(first % parent_bits);
    }
    for (int i = 0, n = 0; i < window->memory->rank; i++)
        result[i] =
            view->starts[i] +
            (window->subs[i].kind == AT ? 0 : at[n++] * (window->subs[i].kind == RANGE ? window->subs[i].step : 1));
}

static Place find_place(Machine *machine, Memory *memory, const int64_t *index)
{
    int64_t flat = 0, up[MAX_RANK];
    bool inside = true;
    int bit = 0;
    for (int i = 0; i < memory->rank; i++) {
        inside &= index[i] >= 0 && index[i] < memory->dims[i];
        flat = inside ? flat * memory->dims[i] + index[i] : 0;
    }
    if (memory->storage == VIEW) {
        if (!inside) return (Place){ .inside = false };
        index_of_parent(memory, index, up, &bit);
        Place place = find_place(machine, memory->window->memory, up);
        place.bit += bit;
        return place;
    }
    if (!inside && memory->storage > TENSOR_INOUT) give_up(machine, "a subscript outside of a tile");
    return (Place){ memory, flat, 0, inside };
}

// ---- who may touch it

static void note_reader(Machine *machine, const Memory *root, Cell *cell)
{
    if (cell->total) give_up(machine, "a read of what a reduction changes");
    if (root->storage == TENSOR_OUT || root->atomic_op)
        give_up(machine, "a read of an out tensor, or of one for atomics");
    if (!cell->defined) give_up(machine, "a read of an undefined element");
    if (root->storage <= TENSOR_INOUT) {
        if (cell->owner != NOBODY && cell->owner != machine->instance)
            give_up(machine, "instances depend on each other");
        cell->user = cell->user == NOBODY || cell->user == machine->instance ? machine->instance : MANY;
    }
    if (machine->iteration == NOBODY || root->storage == LOCAL) return;
    if (cell->epoch != machine->epoch) cell->epoch = machine->epoch, cell->writer = cell->reader = NOBODY;
    if (cell->writer != NOBODY && cell->writer != machine->iteration)
        give_up(machine, "iterations depend on each other");
    cell->reader = cell->reader == NOBODY || cell->reader == machine->iteration ? machine->iteration : MANY;
}

static void note_writer(Machine *machine, const Memory *root, Cell *cell)
{
    if (cell->total) give_up(machine, "a write to what a reduction changes");
    if (root->storage == TENSOR_IN || root->atomic_op)
        give_up(machine, "a write to an in tensor, or to one for atomics");
    if (root->storage <= TENSOR_INOUT) {
        if ((cell->owner != NOBODY && cell->owner != machine->instance) ||
            (cell->user != NOBODY && cell->user != machine->instance))
            give_up(machine, "instances depend on each other");
        cell->owner = machine->instance;
    }
    if (machine->iteration == NOBODY || root->storage == LOCAL) return;
    if (cell->epoch != machine->epoch) cell->epoch = machine->epoch, cell->writer = cell->reader = NOBODY;
    if ((cell->writer != NOBODY && cell->writer != machine->iteration) ||
        (cell->reader != NOBODY && cell->reader != machine->iteration))
        give_up(machine, "iterations depend on each other");
    cell->writer = machine->iteration;
}

// ---- elements

// The bits of an element may be those of several cells, or a part of one.
Value read_element(Machine *machine, Memory *memory, const int64_t *index)
{
    const Place place = find_place(machine, memory, index);
    if (!place.inside) return is_float(memory->type) ? real_value(memory->type, 0) : integer_value(memory->type, 0);
    const int bits = type_info[memory->type].bits, cell_bits = type_info[place.root->type].bits;
    uint64_t word = 0;
    bool vague = false;
    for (int done = 0; done < bits; done += cell_bits) {
        Cell *const cell = &place.root->cells[place.flat + done / cell_bits];
        note_reader(machine, place.root, cell);
        // The bits of a NaN and the sign of a zero are not followed: who looks at them as another type sees something vague.
        const Value held = value_of_bits(place.root->type, cell->bits);
        vague |= cell->vague ||
                 (memory->type != place.root->type && is_float(held.type) && (held.f == 0 || held.f != held.f));
        word |= cell->bits >> place.bit << done;
    }
    Value value = value_of_bits(memory->type, bits < 64 ? word & ((UINT64_C(1) << bits) - 1) : word);
    value.vague = vague;
    return value;
}

void write_element(Machine *machine, Memory *memory, const int64_t *index, Value value)
{
    const Place place = find_place(machine, memory, index);
    if (!place.inside) return;
    value = convert(memory->type, value);
    const int bits = type_info[memory->type].bits, cell_bits = type_info[place.root->type].bits;
    const uint64_t word = value_bits(value), cell_ones = cell_bits < 64 ? (UINT64_C(1) << cell_bits) - 1 : UINT64_MAX;
    const uint64_t ones = bits < cell_bits ? (UINT64_C(1) << bits) - 1 : cell_ones;
    for (int done = 0; done < bits; done += cell_bits) {
        Cell *const cell = &place.root->cells[place.flat + done / cell_bits];
        note_writer(machine, place.root, cell);
        if (bits < cell_bits && !cell->defined) give_up(machine, "a part of an undefined element is written");
        cell->bits = (cell->bits & ~(ones << place.bit)) | ((word >> done & ones) << place.bit);
        cell->vague = value.vague || (bits < cell_bits && cell->vague);
        if (memory->type != place.root->type && is_float(value.type) && (value.f == 0 || value.f != value.f))
            cell->vague = true;
        cell->defined = true;
    }
}

// ---- reductions and atomics

static void keep_pending(Machine *machine, Pending pending)
{
    if (machine->n_totals == MAX_TOTALS) give_up(machine, "too many totals");
    machine->totals[machine->n_totals++] = pending;
}

static void end_cell(Cell *cell, Type type, int mantissa)
{
    const Value sum = convert(type, total_end(cell->total, mantissa));
    cell->bits = value_bits(sum);
    cell->vague = sum.vague;
    free(cell->total);
    cell->total = NULL;
}

// An atomic minimum or maximum may leave a NaN that is in memory.
static bool may_stay(Op op, Value old) { return (op == MIN || op == MAX) && is_float(old.type) && isnan(old.f); }

void add_to_element(Machine *machine, Memory *memory, const int64_t *index, Op op, Value value, bool atomic)
{
    const Place place = find_place(machine, memory, index);
    if (!place.inside) return;
    if (memory->type != place.root->type) give_up(machine, "an atomic through a view of another type");
    Cell *const cell = &place.root->cells[place.flat];
    if (!cell->total) {
        if (!place.root->atomic_op) {
            note_reader(machine, place.root, cell);
            note_writer(machine, place.root, cell);
        }
        Value old = value_of_bits(memory->type, cell->bits);
        old.vague = cell->vague || (atomic && may_stay(op, old));
        cell->total = malloc(sizeof *cell->total);
        if (!cell->total) abort();
        *cell->total = total_begin(op, convert(wide_type(memory->type), old));
        if (!place.root->atomic_op) keep_pending(machine, (Pending){ .cell = cell, .type = memory->type });
    }
    if (cell->total->op != op) give_up(machine, "several operations reduce into one element");
    total_add(cell->total, value);
    if (atomic && machine->iteration == NOBODY && !place.root->atomic_op) end_totals(machine);
}

void end_totals(Machine *machine)
{
    for (int i = 0; i < machine->n_totals; i++) {
        const Pending *const p = &machine->totals[i];
        if (p->cell) {
            end_cell(p->cell, p->type, type_info[wide_type(p->type)].mantissa);
            continue;
        }
        p->var->value = convert(p->var->type, total_end(p->var->total, type_info[wide_type(p->var->type)].mantissa));
        free(p->var->total);
        p->var->total = NULL;
    }
    machine->n_totals = 0;
}

// Atomics round each time to the type itself.
void end_tensor(Memory *memory)
{
    for (int64_t i = 0; i < memory->n; i++)
        if (memory->cells[i].total) end_cell(&memory->cells[i], memory->type, type_info[memory->type].mantissa);
}
