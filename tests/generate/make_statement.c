// SPDX-License-Identifier: MIT
// make_statement.c - statements outside of foralls: tiles, copies, scalars, control flow.
#include "maker.h"

#include <string.h>

// ---- tiles

Slice whole_of(Memory *memory)
{
    Slice slice = { .memory = memory };
    for (int i = 0; i < memory->rank; i++) slice.subs[i].kind = WHOLE;
    return slice;
}

// A slice of a new tensor, as large as the tile; it may begin before the tensor and end after it.
Slice slice_of_new_tensor(Maker *maker, const Memory *tile, Filling filling)
{
    int64_t dims[MAX_RANK];
    for (int i = 0; i < tile->rank; i++)
        dims[i] = chance(maker, 5) ? 0 : tile->dims[i] * (1 + below(maker, 2)) + below(maker, 4) - 1;
    const Type type =
        fitting_type(filling == SMALL || chance(maker, 75) ? tile->type : any_type(maker), dims[tile->rank - 1]);
    Memory *const tensor = new_tensor(maker, TENSOR_IN, type, tile->rank, dims, filling, chance(maker, 60));
    show_memory(maker, tensor);
    Slice slice = { .memory = tensor };
    for (int i = 0; i < tile->rank; i++) {
        Expr *const start = chance(maker, 40) ? new_integer(maker, INT, below(maker, 4) - 1) : make_bounded(maker);
        slice.subs[i] =
            (Subscript){ .kind = RANGE, .start = start, .width = tile->dims[i], .step = chance(maker, 12) ? 2 : 1 };
    }
    return slice;
}

Memory *make_tile(Maker *maker)
{
    static const int ranks[] = { 1, 2, 2, 2, 2, 3 };
    static const Filling fillings[] = { SMALL, SMALL, SMALL, MIDDLE, WILD, PLACES };
    const int rank = PICK(maker, ranks);
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = rank == 1 ? maker->dims[below(maker, 2)] : maker->dims[i];
    const Type type = fitting_type(any_type(maker), dims[rank - 1]);
    Memory *const tile = new_memory(maker, chance(maker, 50) ? SHARED : FRAGMENT, type, rank, dims, "t");
    Statement st = { .kind = S_TILE, .dst = whole_of(tile) };
    if (tensors_left(maker) > 4 && chance(maker, 65)) {
        st.copies = true;
        st.src = slice_of_new_tensor(maker, tile, PICK(maker, fillings));
    } else st.value = make_value(maker, type == BOOL ? BOOL : wide_type(type), 1);
    add(maker, st);
    show_memory(maker, tile);
    return tile;
}

static void make_copy(Maker *maker)
{
    for (int i = 0; i < 10; i++) {
        Memory *const a = maker->memories[below(maker, maker->n_memories)],
                      *const b = maker->memories[below(maker, maker->n_memories)];
        if (a == b || (a->storage != SHARED && a->storage != FRAGMENT) ||
            (b->storage != SHARED && b->storage != FRAGMENT))
            continue;
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
    add(maker, (Statement){ .kind = S_LET,
                            .var = var,
                            .value = make_value(maker, type == BOOL ? BOOL : wide_type(type), 1 + below(maker, 2)) });
    show_var(maker, var);
}

static void make_scalar_update(Maker *maker)
{
    static const Op any[] = { ADD, SUB, MUL, MIN, MAX };
    for (int i = 0; i < 5 && maker->n_vars > 0; i++) {
        Var *const var = maker->vars[below(maker, maker->n_vars)];
        if (var->fixed || var->type == BOOL) continue;
        add(maker, (Statement){ .kind = S_SET,
                                .var = var,
                                .updates = chance(maker, 60),
                                .op = PICK(maker, any),
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

Var *make_index(Maker *maker, int64_t n)
{
    Var *const var = new_var(maker, "i", INT);
    var->hi = n;
    var->fixed = true;
    return var;
}

// Upwards and downwards, in steps, to a bound that a launch argument gives.
static Index make_range(Maker *maker, bool *known)
{
    Section *const section = maker->section;
    Var *count = NULL;
    for (int i = 0; i < section->n_scalars; i++)
        if (section->scalars[i]->type == INT) count = section->scalars[i];
    *known = !count || chance(maker, 60);
    if (!*known)
        return (Index){ make_index(maker, count->value.i > 0 ? count->value.i : 0), new_integer(maker, INT, 0),
                        new_var_expr(maker, count), 1 };
    const int n = 1 + below(maker, 4); // what never runs is refused where its subscripts have no range
    if (chance(maker, 20))
        return (Index){ make_index(maker, n + 1), new_integer(maker, INT, n), new_integer(maker, INT, 0),
                        -1 - below(maker, 2) };
    return (Index){ make_index(maker, n), new_integer(maker, INT, 0), new_integer(maker, INT, n),
                    1 + below(maker, 4) / 3 };
}

static void make_while(Maker *maker)
{
    Var *const count = new_var(maker, "w", I32);
    count->fixed = true; // but for its own statements
    add(maker, (Statement){ .kind = S_LET, .var = count, .value = new_typed(maker, I32, below(maker, 3)) });
    show_var(maker, count);
    Expr *condition = new_op(maker, LT, new_var_expr(maker, count), new_integer(maker, I32, 2 + below(maker, 4)), NULL);
    if (chance(maker, 40)) condition = new_op(maker, BOTH, condition, make_condition(maker, 1), NULL);
    Statement *const st = add(maker, (Statement){ .kind = S_WHILE, .value = condition });
    const Scope scope = open_block(maker, &st->body);
    add(maker, (Statement){ .kind = S_SET,
                            .var = count,
                            .updates = true,
                            .op = ADD,
                            .value = new_integer(maker, I32, 1 + below(maker, 2)) });
    maker->loops++;
    make_statements(maker, 1 + below(maker, 2));
    maker->loops--;
    close_block(maker, scope);
}

static void make_loop(Maker *maker)
{
    bool known;
    const Index range = make_range(maker, &known);
    Var *const k = range.var;
    Statement *const st =
        add(maker, (Statement){ .kind = S_FOR, .unrolled = known && chance(maker, 15), .indices[0] = range });
    const Scope scope = open_block(maker, &st->body);
    k->constant = st->unrolled;
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

typedef struct Kind {
    void (*make)(Maker *);
    int weight;
    bool nests;
} Kind;

static void make_statement(Maker *maker)
{
    // clang-format off
    static const Kind kinds[] = {
        { make_forall, 30, false }, { make_scalar, 6, false }, { make_scalar_update, 7, false }, { make_copy, 6, false }, { make_parts, 5, false },
        { make_view, 6, false }, { make_scan, 4, false }, { make_gather, 5, false }, { make_atomic_tile, 3, false }, { make_value_before, 3, false },
        { make_product, 4, false }, { make_if, 7, true }, { make_loop, 7, true }, { make_while, 3, true }, { make_pipeline, 7, true },
    };
    // clang-format on
    int total = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) total += kinds[i].weight;
    int left = below(maker, total);
    const Kind *kind = kinds;
    while (left >= kind->weight) left -= kind++->weight;
    if (kind->nests && (maker->nesting > 2 || maker->loops > 1)) kind = kinds;
    kind->make(maker);
}

void make_statements(Maker *maker, int n)
{
    maker->nesting++;
    for (int i = 0; i < n && maker->budget > 0; i++, maker->budget--) make_statement(maker);
    maker->nesting--;
}
