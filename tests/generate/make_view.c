// SPDX-License-Identifier: MIT
// make_view.c - views of tensors and tiles, copies of parts, scans, gathers and scatters.
#include "maker.h"

#include <string.h>

// ---- views

static Memory *new_view(Maker *maker, ViewKind kind, Type type, int rank, const int64_t *dims, Slice window)
{
    Memory *const view = new_memory(maker, VIEW, type, rank, dims, "v");
    view->view = kind;
    view->window = TAKE(maker->pool, Slice, .memory = window.memory);
    *view->window = window;
    view->own = false;
    return view;
}

// A window: inside of a tile, or anywhere over a tensor, with an extent that a launch may give.
static Memory *make_window(Maker *maker, Memory *memory)
{
    const bool tile = memory->storage == SHARED;
    Slice window = whole_of(memory);
    int64_t dims[MAX_RANK];
    memcpy(dims, memory->dims, sizeof dims);
    for (int i = 0; i < memory->rank; i++) {
        if (chance(maker, 30) || memory->dims[i] < 1) continue;
        const int start = below(maker, (int)memory->dims[i]);
        dims[i] = 1 + below(maker, (int)memory->dims[i] - start);
        window.subs[i] =
            (Subscript){ .kind = RANGE,
                         .start = tile || chance(maker, 50) ? new_integer(maker, INT, start) : make_bounded(maker),
                         .width = dims[i],
                         .step = 1 };
        if (!tile && maker->section->n_symbols && chance(maker, 50))
            window.subs[i].extent = new_op(
                maker, SUB, new_var_expr(maker, maker->section->symbols[below(maker, maker->section->n_symbols)]),
                new_integer(maker, INT, below(maker, 3)), NULL);
    }
    return new_view(maker, WINDOW, memory->type, memory->rank, dims, window);
}

// Dimensions merged.
static Memory *make_reshaped(Maker *maker, Memory *memory)
{
    if (memory->rank < 2 || memory->n == 0) return NULL;
    for (int i = 0; i < memory->rank; i++)
        if (memory->extents[i][0]) return NULL;
    int64_t dims[MAX_RANK] = { memory->n };
    if (chance(maker, 40)) {
        dims[0] = memory->n / memory->dims[memory->rank - 1];
        dims[1] = memory->dims[memory->rank - 1];
        if (memory->rank == 3) return new_view(maker, RESHAPED, memory->type, 2, dims, whole_of(memory));
    }
    return new_view(maker, RESHAPED, memory->type, 1, (int64_t[]){ memory->n }, whole_of(memory));
}

// Bytes seen as elements of another type.
static Memory *make_retyped(Maker *maker, Memory *memory)
{
    static const Type types[] = { U16, I16, U32, I32, F32, U8, I8, F16 };
    const Type type = PICK(maker, types);
    if (memory->type == TF32) return NULL; // its low bits, were they set, a copy may round or keep
    const int bits = type_info[memory->type].bits, other = type_info[type].bits, last = memory->rank - 1;
    if (bits < 8 || bits == other || memory->n == 0 || memory->dims[last] * bits % other != 0 || memory->type == BOOL ||
        memory->extents[last][0])
        return NULL;
    for (int i = 0; i < memory->rank; i++)
        if (memory->extents[i][0]) return NULL;
    int64_t dims[MAX_RANK];
    memcpy(dims, memory->dims, sizeof dims);
    dims[last] = dims[last] * bits / other;
    return new_view(maker, RETYPED, type, memory->rank, dims, whole_of(memory));
}

void make_view(Maker *maker)
{
    for (int i = 0; i < 8; i++) {
        Memory *const memory = maker->memories[below(maker, maker->n_memories)];
        if ((memory->storage != TENSOR_IN && memory->storage != SHARED) || memory->strided) continue;
        const int kind = below(maker, 3);
        Memory *const view = kind == 0   ? make_window(maker, memory)
                             : kind == 1 ? make_reshaped(maker, memory)
                                         : make_retyped(maker, memory);
        if (!view) continue;
        add(maker, (Statement){ .kind = S_VIEW, .dst = { .memory = view } });
        show_memory(maker, view);
        return;
    }
}

// ---- parts of tiles

// Another tile of the type of one, or one whose part is taken.
void make_parts(Maker *maker)
{
    for (int i = 0; i < 10; i++) {
        Memory *const a = maker->memories[below(maker, maker->n_memories)],
                      *const b = maker->memories[below(maker, maker->n_memories)];
        if (a == b || (a->storage != SHARED && a->storage != FRAGMENT) ||
            (b->storage != SHARED && b->storage != FRAGMENT) || a->rank != b->rank)
            continue;
        Slice dst = whole_of(a), src = whole_of(b);
        for (int d = 0; d < a->rank; d++) {
            const int64_t least = a->dims[d] < b->dims[d] ? a->dims[d] : b->dims[d],
                          width = 1 + below(maker, (int)least);
            const int64_t step = 2 * width <= b->dims[d] && chance(maker, 20) ? 2 : 1;
            dst.subs[d] = (Subscript){ .kind = RANGE,
                                       .start = new_integer(maker, INT, below(maker, (int)(a->dims[d] - width) + 1)),
                                       .width = width,
                                       .step = 1 };
            src.subs[d] =
                (Subscript){ .kind = RANGE,
                             .start = new_integer(maker, INT, below(maker, (int)(b->dims[d] - width * step) + 1)),
                             .width = width,
                             .step = step };
        }
        if (chance(maker, 30))
            add(maker, (Statement){ .kind = S_FILL,
                                    .dst = dst,
                                    .value = make_value(maker, a->type == BOOL ? BOOL : wide_type(a->type), 1) });
        else add(maker, (Statement){ .kind = S_COPY, .dst = dst, .src = src });
        return;
    }
}

void make_scan(Maker *maker)
{
    for (int i = 0; i < 10; i++) {
        Memory *const a = maker->memories[below(maker, maker->n_memories)],
                      *const b = maker->memories[below(maker, maker->n_memories)];
        if ((a->storage != SHARED && a->storage != FRAGMENT) || (b->storage != SHARED && b->storage != FRAGMENT))
            continue;
        if (a->type != b->type || a->type == BOOL || a->rank != b->rank ||
            memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) != 0)
            continue;
        add(maker,
            (Statement){ .kind = S_SCAN, .dst = whole_of(a), .src = whole_of(b), .axis = below(maker, a->rank) });
        return;
    }
}

// ---- gathers and scatters

// Rows by places of a tile: `forall (r : R) t[r] = A[at[r]];` or `Y[p][at[r]] = t[r];`.
void make_gather(Maker *maker)
{
    if (tensors_left(maker) < 5) return;
    const bool scatters = chance(maker, 40);
    const int64_t rows = maker->dims[0], columns = maker->dims[1];
    Memory *const at = new_memory(maker, SHARED, I32, 1, &rows, "t");
    Memory *const list = new_tensor(maker, TENSOR_IN, I32, 1, &rows, scatters ? PERMUTED : PLACES, false);
    add(maker, (Statement){ .kind = S_TILE, .dst = whole_of(at), .copies = true, .src = whole_of(list) });
    Memory *tile = NULL;
    for (int i = 0; i < 8 && !tile; i++) {
        Memory *const m = maker->memories[below(maker, maker->n_memories)];
        if (m->storage == SHARED && m->rank == 2 && m->dims[0] == rows && m->dims[1] == columns) tile = m;
    }
    if (!tile) return;
    const int64_t dims[] = { maker->grid->x * maker->grid->y, rows + below(maker, 3), columns };
    Memory *const tensor = scatters ? new_tensor(maker, TENSOR_OUT, tile->type, 3, dims, SMALL, false)
                                    : new_tensor(maker, TENSOR_IN, tile->type, 2, dims + 1, SMALL, chance(maker, 50));
    Var *const r = make_index(maker, rows);
    Statement *const st =
        add(maker, (Statement){ .kind = S_FORALL,
                                .n = 1,
                                .indices[0] = { r, new_integer(maker, INT, 0), new_integer(maker, INT, rows), 1 } });
    const Scope scope = open_block(maker, &st->body);
    Slice one = whole_of(tile), other = whole_of(tensor);
    const Subscript row = { .kind = AT, .start = new_element(maker, at, (Expr *[]){ new_var_expr(maker, r) }) };
    one.subs[0] = (Subscript){ .kind = AT, .start = new_var_expr(maker, r) };
    other.subs[scatters] = row;
    other.subs[scatters + 1] =
        (Subscript){ .kind = RANGE, .start = new_integer(maker, INT, 0), .width = columns, .step = 1 };
    if (scatters) other.subs[0] = (Subscript){ .kind = AT, .start = new_var_expr(maker, maker->section->place) };
    add(maker, (Statement){ .kind = S_COPY, .dst = scatters ? other : one, .src = scatters ? one : other });
    close_block(maker, scope);
    show_memory(maker, at);
}
