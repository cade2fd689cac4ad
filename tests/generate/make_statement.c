// SPDX-License-Identifier: MIT
// make_statement.c - statements outside of foralls: tiles, copies, scalars, control flow.
#include "maker.h"

#include <string.h>

// ---- tiles

static Slice whole_of(Memory *memory)
{
    Slice slice = { .memory = memory };
    for (int i = 0; i < memory->rank; i++) slice.subs[i].kind = WHOLE;
    return slice;
}

// A slice of a new tensor, as large as the tile; it may begin before the tensor and end behind it.
static Slice slice_of_new_tensor(Maker *maker, const Memory *tile)
{
    static const Filling fillings[] = { SMALL, SMALL, SMALL, MIDDLE, WILD, PLACES };
    int64_t dims[MAX_RANK];
    for (int i = 0; i < tile->rank; i++) dims[i] = chance(maker, 5) ? 0 : tile->dims[i] * (1 + below(maker, 2)) + below(maker, 4) - 1;
    const Type type = fitting_type(chance(maker, 75) ? tile->type : any_type(maker), dims[tile->rank - 1]);
    Memory *const tensor = new_tensor(maker, TENSOR_IN, type, tile->rank, dims, PICK(maker, fillings), chance(maker, 60));
    show_memory(maker, tensor);
    Slice slice = { .memory = tensor };
    for (int i = 0; i < tile->rank; i++) {
        Expr *const start = chance(maker, 40) ? new_integer(maker, INT, below(maker, 4) - 1) :
            new_op(maker, MUL, new_var_expr(maker, maker->section->place), new_integer(maker, INT, 1 + below(maker, (int)tile->dims[i])), NULL);
        slice.subs[i] = (Subscript){ .kind = RANGE, .start = start, .width = tile->dims[i], .step = chance(maker, 12) ? 2 : 1 };
    }
    return slice;
}

Memory *make_tile(Maker *maker)
{
    static const int ranks[] = { 1, 2, 2, 2, 2, 3 };
    const int rank = PICK(maker, ranks);
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = rank == 1 ? maker->dims[below(maker, 2)] : maker->dims[i];
    const Type type = fitting_type(any_type(maker), dims[rank - 1]);
    Memory *const tile = new_memory(maker, chance(maker, 50) ? SHARED : FRAGMENT, type, rank, dims, "t");
    Statement st = { .kind = S_TILE, .dst = whole_of(tile) };
    if (tensors_left(maker) > 4 && chance(maker, 65)) {
        st.copies = true;
        st.src = slice_of_new_tensor(maker, tile);
    } else st.value = make_value(maker, type == BOOL ? BOOL : wide_type(type), 1);
    add(maker, st);
    show_memory(maker, tile);
    return tile;
}

static void make_copy(Maker *maker)
{
    for (int i = 0; i < 10; i++) {
        Memory *const a = maker->memories[below(maker, maker->n_memories)], *const b = maker->memories[below(maker, maker->n_memories)];
        if (a == b || (a->storage != SHARED && a->storage != FRAGMENT) || (b->storage != SHARED && b->storage != FRAGMENT)) continue;
        if (a->rank != b->rank || memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) != 0) continue;
        add(maker, (Statement){ .kind = S_COPY, .dst = whole_of(a), .src = whole_of(b) });
        return;
    }
}

// ---- scalars

static void make_scalar(Maker *maker)
{
    static const Type types[] = { I32, I32, F32, F32, U32, I64, U64, F64, BOOL, I8, U16, F16, BF16, E4M3, I4, INT };
    const Type type = PICK(maker, types);
    Var *const var = new_var(maker, "s", type);
    add(maker, (Statement){ .kind = S_LET, .var = var, .value = make_value(maker, type == BOOL ? BOOL : wide_type(type), 1 + below(maker, 2)) });
    show_var(maker, var);
}

static void make_scalar_update(Maker *maker)
{
    static const Op any[] = { ADD, SUB, MUL, MIN, MAX };
    for (int i = 0; i < 5 && maker->n_vars > 0; i++) {
        Var *const var = maker->vars[below(maker, maker->n_vars)];
        if (var->fixed || var->type == BOOL) continue;
        add(maker, (Statement){ .kind = S_SET, .var = var, .updates = chance(maker, 60), .op = PICK(maker, any),
                                .value = make_value(maker, wide_type(var->type), 1 + below(maker, 2)) });
        return;
    }
}

// ---- control flow

static void make_if(Maker *maker)
{
    Statement *const st = add(maker, (Statement){ .kind = S_IF, .value = make_condition(maker, 1 + below(maker, 2)) });
    Scope scope = open_block(maker, &st->body);
    make_statements(maker, 1 + below(maker, 3));
    close_block(maker, scope);
    if (!chance(maker, 50)) return;
    scope = open_block(maker, &st->otherwise);
    make_statements(maker, 1 + below(maker, 3));
    close_block(maker, scope);
}

static void make_loop(Maker *maker)
{
    const int n = below(maker, 5);
    Var *const k = new_var(maker, "k", INT);
    k->hi = n;
    k->fixed = true;
    Statement *const st = add(maker, (Statement){ .kind = S_FOR, .unrolled = chance(maker, 15), .indices[0] = { k, new_integer(maker, INT, 0), new_integer(maker, INT, n), 1 } });
    const Scope scope = open_block(maker, &st->body);
    show_var(maker, k);
    maker->loops++;
    make_statements(maker, 1 + below(maker, 3));
    if (chance(maker, 25)) {
        Statement *const leave = add(maker, (Statement){ .kind = S_IF, .value = make_condition(maker, 1) });
        const Scope inner = open_block(maker, &leave->body);
        add(maker, (Statement){ .kind = chance(maker, 50) ? S_BREAK : S_CONTINUE });
        close_block(maker, inner);
        make_statements(maker, 1);
    }
    maker->loops--;
    close_block(maker, scope);
}

static void make_statement(Maker *maker)
{
    const int kind = below(maker, 20);
    if (kind < 8) make_forall(maker);
    else if (kind < 10) make_scalar(maker);
    else if (kind < 12) make_scalar_update(maker);
    else if (kind < 14) make_copy(maker);
    else if (kind < 16 && maker->nesting < 3) make_if(maker);
    else if (kind < 18 && maker->nesting < 3 && maker->loops < 2) make_loop(maker);
    else make_tile(maker);
}

void make_statements(Maker *maker, int n)
{
    maker->nesting++;
    for (int i = 0; i < n && maker->budget > 0; i++, maker->budget--) make_statement(maker);
    maker->nesting--;
}
