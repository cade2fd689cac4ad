// SPDX-License-Identifier: MIT
// make.c - a program from a seed: its dimensions, some tiles, statements, and at the end what it holds goes to tensors.
#include "maker.h"

#include <stdio.h>
#include <string.h>

// ---- chance

uint64_t random_bits(Maker *maker)
{
    uint64_t x = maker->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int below(Maker *maker, int n) { return (int)((random_bits(maker) >> 33) % (uint64_t)n); }
bool chance(Maker *maker, int percent) { return below(maker, 100) < percent; }

// ---- building

Expr *new_integer(Maker *maker, Type type, int64_t value)
{
    return TAKE(maker->pool, Expr, .kind = X_INTEGER, .type = type, .integer = value, .bare = true);
}

Expr *new_typed(Maker *maker, Type type, int64_t value)
{
    return TAKE(maker->pool, Expr, .kind = X_INTEGER, .type = type, .integer = integer_value(type, (uint64_t)value).i);
}

Expr *new_real(Maker *maker, Type type, double value, bool bare)
{
    return TAKE(maker->pool, Expr, .kind = X_REAL, .type = type, .real = value, .bare = bare);
}

Expr *new_var_expr(Maker *maker, Var *var)
{
    return TAKE(maker->pool, Expr, .kind = X_VAR, .type = var->type, .var = var);
}

Expr *new_op(Maker *maker, Op op, Expr *a, Expr *b, Expr *c)
{
    Expr *const x = TAKE(maker->pool, Expr, .kind = X_OP, .op = op, .n = op_info[op].operands, .args = { a, b, c });
    Type types[3];
    for (int i = 0; i < x->n; i++) types[i] = x->args[i]->type;
    x->type = result_type(op, types, x->n);
    return x;
}

Expr *new_element(Maker *maker, Memory *memory, Expr *const *subs)
{
    Expr *const x =
        TAKE(maker->pool, Expr, .kind = X_ELEMENT, .type = memory->type, .memory = memory, .n = memory->rank);
    memcpy(x->args, subs, sizeof *subs * (size_t)memory->rank);
    return x;
}

Expr *new_convert(Maker *maker, Type type, Expr *x)
{
    return TAKE(maker->pool, Expr, .kind = X_CONVERT, .type = type, .n = 1, .args = { x });
}

Var *new_var(Maker *maker, const char *prefix, Type type)
{
    Var *const var = TAKE(maker->pool, Var, .type = type, .value = { .type = type });
    snprintf(var->name, sizeof var->name, "%s%d_%d", prefix, maker->names++, maker->section->number);
    return var;
}

void show_var(Maker *maker, Var *var)
{
    if (maker->n_vars < MAX_VISIBLE) maker->vars[maker->n_vars++] = var;
}

Memory *new_memory(Maker *maker, Storage storage, Type type, int rank, const int64_t *dims, const char *prefix)
{
    Memory *const m = TAKE(maker->pool, Memory, .storage = storage, .type = type, .rank = rank, .n = 1);
    snprintf(m->name, sizeof m->name, "%s%d_%d", prefix, maker->names++, maker->section->number);
    for (int i = 0; i < rank; i++) m->n *= m->dims[i] = dims[i];
    if (storage != VIEW) m->cells = pool_take(maker->pool, sizeof(Cell) * (size_t)(m->n + 1));
    return m;
}

void show_memory(Maker *maker, Memory *memory)
{
    if (maker->n_memories < MAX_VISIBLE) maker->memories[maker->n_memories++] = memory;
}

Statement *add(Maker *maker, Statement st)
{
    Statement *const made = TAKE(maker->pool, Statement, .kind = S_BLOCK);
    *made = st;
    if (st.kind == S_LET && (maker->in_function || is_constant(st.value))) st.var->constant = true;
    *maker->tail = made;
    maker->tail = &made->next;
    maker->section->statements++;
    return made;
}

Scope open_block(Maker *maker, Statement **list)
{
    const Scope scope = { maker->n_vars, maker->n_memories, maker->tail };
    maker->tail = list;
    return scope;
}

void close_block(Maker *maker, Scope scope)
{
    maker->n_vars = scope.n_vars;
    maker->n_memories = scope.n_memories;
    maker->tail = scope.tail;
}

// ---- the whole

static void choose_dims(Maker *maker)
{
    static const int64_t usual[] = { 1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 16, 17, 20, 31, 32, 33 };
    maker->dims[0] = PICK(maker, usual);
    maker->dims[1] = PICK(maker, usual);
    maker->dims[2] = 1 + below(maker, 6);
    if (maker->dims[0] * maker->dims[1] > 600) maker->dims[1] = 8;
}

// All that a tile holds goes to a tensor, of its type or another that can show it.
static void show_tile(Maker *maker, Memory *tile)
{
    int64_t dims[MAX_RANK] = { maker->grid->x * maker->grid->y };
    memcpy(dims + 1, tile->dims, sizeof *dims * (size_t)tile->rank);
    for (int i = 1; i <= tile->rank; i++)
        if (chance(maker, 15)) dims[i] = dims[i] > 1 && chance(maker, 50) ? dims[i] - 1 : dims[i] + 2;
    const Type type = fitting_type(chance(maker, 80) ? tile->type : any_type(maker), dims[tile->rank]);
    Memory *const out = new_tensor(maker, TENSOR_OUT, type, tile->rank + 1, dims, SMALL, chance(maker, 30));
    Slice dst = whole_of(out);
    for (int i = 0; i < tile->rank; i++)
        dst.subs[i + 1] =
            (Subscript){ .kind = RANGE, .start = new_integer(maker, INT, 0), .width = tile->dims[i], .step = 1 };
    dst.subs[0] = (Subscript){ .kind = AT, .start = new_var_expr(maker, maker->section->place) };
    add(maker, (Statement){ .kind = S_COPY, .dst = dst, .src = whole_of(tile) });
}

static void show_scalars(Maker *maker)
{
    Var *shown[6];
    int n = 0;
    for (int i = maker->n_vars; i-- > 0 && n < 5;)
        if (!maker->vars[i]->fixed) shown[n++] = maker->vars[i];
    if (!n) return;
    bool floating = false;
    for (int i = 0; i < n; i++) floating |= is_float(shown[i]->type);
    Memory *const out = new_tensor(maker, TENSOR_OUT, floating ? F64 : I64, 2,
                                   (int64_t[]){ maker->grid->x * maker->grid->y, n }, SMALL, false);
    for (int i = 0; i < n; i++) {
        Expr *const subs[] = { new_var_expr(maker, maker->section->place), new_integer(maker, INT, i) };
        add(maker, (Statement){ .kind = S_STORE,
                                .target = new_element(maker, out, subs),
                                .value = new_var_expr(maker, shown[i]) });
    }
}

static void show_results(Maker *maker)
{
    show_scalars(maker);
    for (int i = maker->n_memories; i-- > 0 && tensors_left(maker) > 0;)
        if (maker->memories[i]->storage == SHARED || maker->memories[i]->storage == FRAGMENT)
            show_tile(maker, maker->memories[i]);
}

// Arguments of the launch.
static void make_scalars(Maker *maker)
{
    static const Type types[] = { INT, INT, F32, I32 };
    while (maker->section->n_scalars < 2 && chance(maker, 40)) {
        Var *const var = new_var(maker, "n", PICK(maker, types));
        var->fixed = true;
        var->value = convert(var->type, integer_value(I32, (uint64_t)(int64_t)(below(maker, 9) - 2)));
        maker->section->scalars[maker->section->n_scalars++] = var;
        show_var(maker, var);
    }
}

Section *make_section(uint64_t seed, int number, const Grid *grid)
{
    Pool *const pool = pool_new();
    Section *const section = TAKE(pool, Section, .seed = seed, .number = number, .pool = pool);
    Maker maker = { .state = seed * 0x2545f4914f6cdd1du + 77,
                    .section = section,
                    .pool = pool,
                    .grid = grid,
                    .tail = &section->body,
                    .budget = 11 };
    section->place = new_var(&maker, "p", INT);
    section->place->hi = grid->x * grid->y;
    section->place->fixed = true;
    show_var(&maker, section->place);
    choose_dims(&maker);
    make_scalars(&maker);
    for (int i = below(&maker, 3); i > 0; i--) make_function(&maker);
    if (chance(&maker, 35)) make_atomic_tensor(&maker);
    if (chance(&maker, 25)) make_own_tensor(&maker);
    for (int i = 2 + below(&maker, 2); i > 0; i--) make_tile(&maker);
    make_statements(&maker, 3 + below(&maker, 4));
    show_results(&maker);
    return section;
}

Grid make_grid(uint64_t seed)
{
    static const int warps[] = { 0, 0, 1, 2, 4, 4, 8 };
    Maker maker = { .state = seed * 31 + 5 };
    Grid grid = {
        .x = 1 + below(&maker, 3), .y = 1 + below(&maker, 2), .warps = PICK(&maker, warps), .blocks = chance(&maker, 40)
    };
    if (grid.x == 2 && chance(&maker, 50)) grid.cluster = 2;
    if (chance(&maker, 10)) grid.occupancy = 2;
    if (chance(&maker, 10)) grid.rasterize = 2;
    grid.persistent = chance(&maker, 20);
    return grid;
}
