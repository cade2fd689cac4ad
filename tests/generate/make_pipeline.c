// SPDX-License-Identifier: MIT
// make_pipeline.c - pipelines, whose tiles are fetched ahead, and products.
#include "maker.h"

#include <string.h>

// A tile of the loop's body, filled from a tensor at places that follow the loop.
static void make_fetched(Maker *maker, int rank)
{
    static const Filling fillings[] = { SMALL, SMALL, MIDDLE, WILD };
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = maker->dims[rank == 1 ? below(maker, 2) : i];
    Memory *const tile = new_memory(maker, chance(maker, 75) ? SHARED : FRAGMENT,
                                    fitting_type(any_type(maker), dims[rank - 1]), rank, dims, "t");
    if (tensors_left(maker) < 4) return;
    add(maker, (Statement){ .kind = S_TILE,
                            .dst = whole_of(tile),
                            .copies = true,
                            .src = slice_of_new_tensor(maker, tile, PICK(maker, fillings)) });
    show_memory(maker, tile);
}

void make_pipeline(Maker *maker)
{
    if (tensors_left(maker) < 5 || maker->staged) return;
    const bool two = chance(maker, 20);
    Statement *const st = add(maker, (Statement){ .kind = S_PIPELINE, .n = 1 + two, .stages = below(maker, 4) });
    const Scope scope = open_block(maker, &st->body);
    for (int i = 0; i < st->n; i++) {
        const int lo = chance(maker, 20) ? 1 : 0, n = 1 + lo + below(maker, two ? 3 : 5);
        Var *const k = make_index(maker, n);
        k->lo = lo;
        st->indices[i] = (Index){ .var = k, .lo = new_integer(maker, INT, lo), .hi = new_integer(maker, INT, n) };
        if (maker->section->n_symbols && chance(maker, 30)) {
            Var *const symbol = maker->section->symbols[below(maker, maker->section->n_symbols)];
            st->indices[i].hi = new_op(maker, CEILDIV, new_var_expr(maker, symbol), new_integer(maker, INT, 8), NULL);
            k->hi = (symbol->value.i + 7) / 8;
        }
        show_var(maker, k);
    }
    const bool staged = maker->loops == 0 && chance(maker, 30);
    maker->staged = staged;
    if (staged) add(maker, (Statement){ .kind = S_STAGE, .stages = 0 });
    make_fetched(maker, 2);
    if (chance(maker, 50)) make_fetched(maker, 1);
    if (staged) add(maker, (Statement){ .kind = S_STAGE, .stages = 1 });
    if (chance(maker, 15)) {
        Statement *const skip = add(maker, (Statement){ .kind = S_IF, .value = make_condition(maker, 1) });
        const Scope inner = open_block(maker, &skip->body);
        add(maker, (Statement){ .kind = S_CONTINUE });
        close_block(maker, inner);
    }
    maker->loops++;
    make_forall(maker);
    make_statements(maker, 1 + below(maker, 2));
    maker->loops--;
    maker->staged = false;
    close_block(maker, scope);
}

// ---- products

typedef struct Operands {
    Memory *tile[2];
    bool transposed[2];
} Operands;

static Memory *make_operand(Maker *maker, Type type, int64_t rows, int64_t columns)
{
    const int64_t dims[] = { rows, columns };
    Memory *const tile = new_memory(maker, SHARED, type, 2, dims, "t");
    add(maker,
        (Statement){
            .kind = S_TILE, .dst = whole_of(tile), .copies = true, .src = slice_of_new_tensor(maker, tile, SMALL) });
    show_memory(maker, tile);
    return tile;
}

void make_product(Maker *maker)
{
    static const Type types[] = { F32, F16, F16, BF16, BF16, TF32, E4M3, E5M2, I8, U8, F64 };
    static const int64_t inner[] = { 1, 3, 8, 16, 16, 17, 32, 33 };
    if (tensors_left(maker) < 6) return;
    const int64_t m = maker->dims[0], n = maker->dims[1], k = PICK(maker, inner);
    const Type type = PICK(maker, types);
    Statement st = { .kind = S_PRODUCT, .as = { type, type } };
    for (int i = 0; i < 2; i++) {
        st.transposed[i] = chance(maker, 35);
        const int64_t rows = i ? k : m, columns = i ? n : k;
        Memory *const tile =
            make_operand(maker, type, st.transposed[i] ? columns : rows, st.transposed[i] ? rows : columns);
        *(i ? &st.other : &st.src) = whole_of(tile);
    }
    Memory *const sum = new_memory(maker, FRAGMENT,
                                   type == F64      ? F64
                                   : is_float(type) ? F32
                                                    : I32,
                                   2, (int64_t[]){ m, n }, "t");
    st.dst = whole_of(sum);
    st.updates = chance(maker, 60);
    add(maker, (Statement){ .kind = S_TILE, .dst = st.dst, .value = new_typed(maker, sum->type, below(maker, 3)) });
    add(maker, st);
    show_memory(maker, sum);
}
