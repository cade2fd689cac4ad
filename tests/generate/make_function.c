// SPDX-License-Identifier: MIT
// make_function.c - functions of scalars, with branches, loops and several returns.
#include "maker.h"

#include <string.h>

static void make_return(Maker *maker, Type type, int depth)
{
    add(maker, (Statement){ .kind = S_RETURN, .value = make_value(maker, wide_type(type), depth) });
}

static void make_local_value(Maker *maker)
{
    static const Type types[] = { I32, F32, U32, I64, I8, F16 };
    const Type type = PICK(maker, types);
    Var *const var = new_var(maker, "v", type);
    add(maker, (Statement){ .kind = S_LET, .var = var, .value = make_value(maker, wide_type(type), 2) });
    show_var(maker, var);
}

static void make_counted_loop(Maker *maker)
{
    const int n = below(maker, 5);
    Var *const k = make_index(maker, n), *const sum = new_var(maker, "v", chance(maker, 50) ? I32 : F32);
    add(maker, (Statement){ .kind = S_LET, .var = sum, .value = make_value(maker, sum->type, 1) });
    Statement *const st =
        add(maker, (Statement){ .kind = S_FOR,
                                .indices[0] = { k, new_integer(maker, INT, 0), new_integer(maker, INT, n), 1 } });
    const Scope scope = open_block(maker, &st->body);
    show_var(maker, k);
    add(maker, (Statement){ .kind = S_SET,
                            .var = sum,
                            .updates = true,
                            .op = chance(maker, 50) ? ADD : MAX,
                            .value = make_value(maker, sum->type, 1) });
    close_block(maker, scope);
    show_var(maker, sum);
}

void make_function(Maker *maker)
{
    static const Type types[] = { I32, I32, F32, F32, U32, I64, I16, U8, F16 };
    Section *const section = maker->section;
    Maker inside = *maker;
    Function *const f = TAKE(maker->pool, Function, .type = PICK(maker, types), .n = 1 + below(maker, 3));
    Var *const name = new_var(maker, "f", I32);
    memcpy(f->name, name->name, sizeof f->name);
    inside.names = maker->names;
    inside.state = random_bits(maker);
    inside.n_vars = inside.n_memories = 0;
    inside.in_function = true;
    inside.tail = &f->body;
    for (int i = 0; i < f->n; i++) {
        f->params[i] = new_var(&inside, "a", PICK(&inside, types));
        f->params[i]->fixed = f->params[i]->constant = true;
        show_var(&inside, f->params[i]);
    }
    make_local_value(&inside);
    if (chance(&inside, 60)) {
        Statement *const st = add(&inside, (Statement){ .kind = S_IF, .value = make_condition(&inside, 2) });
        const Scope scope = open_block(&inside, &st->body);
        make_return(&inside, f->type, 1);
        close_block(&inside, scope);
    }
    if (chance(&inside, 50)) make_counted_loop(&inside);
    make_return(&inside, f->type, 2);
    maker->names = inside.names;
    section->functions[section->n_functions++] = f;
}
