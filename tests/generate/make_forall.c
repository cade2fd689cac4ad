// SPDX-License-Identifier: MIT
// make_forall.c - independent iterations: updates of tiles and tensors, reductions, atomics, scalars and control flow.
#include "maker.h"

#include <string.h>

Touched *find_touched(Maker *maker, const Memory *memory, const Var *var)
{
    for (int i = 0; i < maker->n_touched; i++)
        if ((memory && maker->touched[i].memory && root_of(maker->touched[i].memory) == root_of(memory)) ||
            (var && maker->touched[i].var == var))
            return &maker->touched[i];
    return NULL;
}

Touched *touch(Maker *maker, Memory *memory, Var *var)
{
    if (maker->n_touched == MAX_TOUCHED) return NULL;
    maker->touched[maker->n_touched] = (Touched){ .memory = memory, .var = var };
    return &maker->touched[maker->n_touched++];
}

// ---- subscripts that tell the iterations apart

static bool own_subscripts(Maker *maker, Memory *memory, Expr **subs, int first, int indices)
{
    bool used[MAX_RANK] = { false };
    int matched = 0;
    for (int d = first; d < memory->rank; d++) {
        int found = -1;
        for (int i = 0; i < maker->n_indices && found < 0; i++) {
            const Var *const var = maker->indices[i].var;
            const bool fits =
                memory->storage <= TENSOR_INOUT || (var->hi > var->lo && var->lo >= 0 && var->hi <= memory->dims[d]);
            if (!used[i] && fits && !chance(maker, 10)) found = i;
        }
        if (found < 0 && memory->dims[d] < 1) return false;
        if (found >= 0) used[found] = true, matched++;
        subs[d] = found >= 0 ? new_var_expr(maker, maker->indices[found].var)
                             : new_integer(maker, INT, below(maker, (int)memory->dims[d]));
    }
    return matched == indices;
}

static bool may_be_written(const Memory *memory)
{
    return root_of(memory)->storage == SHARED || memory->storage == FRAGMENT || memory->storage == TENSOR_OUT ||
           memory->storage == TENSOR_INOUT;
}

// Something that is written by all indices, or by fewer of them.
static Touched *find_target(Maker *maker, int indices)
{
    for (int i = 0; i < 8 && maker->n_memories > 0; i++) {
        Memory *const memory = maker->memories[below(maker, maker->n_memories)];
        if (!may_be_written(memory) || memory->atomic_op || memory->n == 0) continue;
        Touched *touched = find_touched(maker, memory, NULL);
        const bool reduces = indices < maker->n_indices;
        if (touched && (touched->memory != memory || touched->read || touched->reduced != reduces)) continue;
        if (reduces && (memory->storage <= TENSOR_INOUT || touched)) continue;
        if (touched && touched->written) return touched;
        Expr *subs[MAX_RANK] = { NULL };
        if (memory->own) subs[0] = new_var_expr(maker, maker->section->place);
        if (!own_subscripts(maker, memory, subs, memory->own, indices)) continue;
        if ((touched = touch(maker, memory, NULL)) == NULL) return NULL;
        memcpy(touched->subs, subs, sizeof subs);
        touched->written = true;
        return touched;
    }
    return NULL;
}

// ---- statements of an iteration

static void make_update(Maker *maker)
{
    static const Op any[] = { ADD, SUB, MUL, MIN, MAX }, integers[] = { AND, OR, XOR };
    Touched *const t = find_target(maker, maker->n_indices);
    if (!t) return;
    const Type wide = wide_type(t->memory->type);
    const bool updates = t->memory->storage != TENSOR_OUT && t->memory->type != BOOL && chance(maker, 40);
    const Type value = t->memory->type == BOOL        ? BOOL
                       : updates || chance(maker, 60) ? wide
                       : chance(maker, 50)            ? I32
                                                      : F32;
    add(maker, (Statement){ .kind = S_STORE,
                            .updates = updates,
                            .op = !is_float(wide) && chance(maker, 40) ? PICK(maker, integers) : PICK(maker, any),
                            .target = new_element(maker, t->memory, t->subs),
                            .value = make_value(maker, value, 1 + below(maker, 3)) });
}

static void make_reduction(Maker *maker)
{
    static const Op any[] = { ADD, ADD, MIN, MAX }, integers[] = { ADD, MIN, MAX, AND, OR, XOR };
    Touched *t = chance(maker, 70) ? find_target(maker, below(maker, maker->n_indices)) : NULL;
    if (t) t->reduced = true;
    if (t && (t->op || t->memory->type == BOOL)) return;
    Var *var = NULL;
    for (int i = 0; !t && i < 6 && maker->first_var > 0; i++) {
        Var *const candidate = maker->vars[below(maker, maker->first_var)];
        if (!candidate->fixed && candidate->type != BOOL && !find_touched(maker, NULL, candidate) &&
            candidate->hi <= candidate->lo)
            var = candidate;
    }
    if (!t && (!var || (t = touch(maker, NULL, var)) == NULL)) return;
    t->reduced = true;
    const Type wide = wide_type(t->memory ? t->memory->type : t->var->type);
    t->op = is_float(wide) ? PICK(maker, any) : PICK(maker, integers);
    if (wide == INT) t->op = chance(maker, 50) ? MIN : MAX;
    add(maker, (Statement){ .kind = t->memory ? S_STORE : S_SET,
                            .reduces = true,
                            .op = t->op,
                            .var = t->var,
                            .target = t->memory ? new_element(maker, t->memory, t->subs) : NULL,
                            .value = make_value(maker, wide, 1 + below(maker, 2)) });
}

static void make_local(Maker *maker)
{
    static const Type types[] = { I32, I32, F32, F32, U32, I64, BOOL, I8, F16, BF16, INT, U16 };
    const Type type = PICK(maker, types);
    Var *const var = new_var(maker, "v", type);
    add(maker, (Statement){ .kind = S_LET,
                            .var = var,
                            .value = make_value(maker, type == BOOL ? BOOL : wide_type(type), 1 + below(maker, 2)) });
    show_var(maker, var);
}

static void make_set(Maker *maker)
{
    for (int i = 0; i < 4 && maker->n_vars > maker->first_var; i++) {
        Var *const var = maker->vars[maker->first_var + below(maker, maker->n_vars - maker->first_var)];
        if (var->fixed || var->type == BOOL || var->type == INT) continue;
        add(maker, (Statement){ .kind = S_SET,
                                .var = var,
                                .updates = chance(maker, 50),
                                .op = chance(maker, 50) ? ADD : MAX,
                                .value = make_value(maker, wide_type(var->type), 1 + below(maker, 2)) });
        return;
    }
}

static void make_body(Maker *maker, int n, int depth);

static void make_branch(Maker *maker, int depth)
{
    Statement *const st = add(maker, (Statement){ .kind = S_IF, .value = make_condition(maker, 1 + below(maker, 2)) });
    Scope scope = open_block(maker, &st->body);
    make_body(maker, 1 + below(maker, 2), depth + 1);
    if (chance(maker, 20)) add(maker, (Statement){ .kind = S_CONTINUE });
    close_block(maker, scope);
    if (!chance(maker, 40)) return;
    scope = open_block(maker, &st->otherwise);
    make_body(maker, 1 + below(maker, 2), depth + 1);
    close_block(maker, scope);
}

static void make_inner_loop(Maker *maker, int depth)
{
    const int n = 1 + below(maker, 5);
    Var *const k = make_index(maker, n);
    Statement *const st =
        add(maker, (Statement){ .kind = S_FOR,
                                .indices[0] = { k, new_integer(maker, INT, 0), new_integer(maker, INT, n), 1 } });
    const Scope scope = open_block(maker, &st->body);
    show_var(maker, k);
    make_local(maker);
    make_set(maker);
    if (depth < 2) make_body(maker, 1, depth + 1);
    close_block(maker, scope);
}

static void make_iteration_statement(Maker *maker, int depth)
{
    const int kind = below(maker, 20);
    if (kind < 8) make_update(maker);
    else if (kind < 11) make_reduction(maker);
    else if (kind < 14) make_local(maker);
    else if (kind < 16) make_set(maker);
    else if (kind < 17 && depth < 2) make_branch(maker, depth);
    else if (kind < 18) make_atomic(maker);
    else if (depth < 1) make_inner_loop(maker, depth);
}

static void make_body(Maker *maker, int n, int depth)
{
    for (int i = 0; i < n; i++) make_iteration_statement(maker, depth);
}

// ---- the whole

// As many as a launch argument or an extent says: no tile can be subscripted by it.
static bool make_run_time_index(Maker *maker, Statement *st)
{
    Var *counts[MAX_RANK + MAX_SCALARS];
    int n = 0;
    for (int i = 0; i < maker->section->n_symbols; i++) counts[n++] = maker->section->symbols[i];
    for (int i = 0; i < maker->section->n_scalars; i++)
        if (maker->section->scalars[i]->type == INT) counts[n++] = maker->section->scalars[i];
    if (!n) return false;
    Var *const var = make_index(maker, 0), *const count = counts[below(maker, n)];
    st->n = 1;
    st->indices[0] = (Index){ .var = var,
                              .lo = new_integer(maker, INT, chance(maker, 70) ? 0 : below(maker, 4) - 2),
                              .hi = new_var_expr(maker, count) };
    show_var(maker, var);
    return true;
}

static void make_indices(Maker *maker, Statement *st)
{
    if (chance(maker, 10) && make_run_time_index(maker, st)) return;
    static const int kinds[] = { 1, 2, 2, 2, 3 };
    st->n = PICK(maker, kinds);
    const bool swapped = chance(maker, 25);
    for (int i = 0; i < st->n; i++) {
        Var *const var = make_index(maker, maker->dims[st->n == 1 ? below(maker, 2) : swapped && i < 2 ? 1 - i : i]);
        st->indices[i] =
            (Index){ .var = var, .lo = new_integer(maker, INT, 0), .hi = new_integer(maker, INT, var->hi) };
        show_var(maker, var);
    }
}

void make_forall(Maker *maker)
{
    Statement *const st = add(maker, (Statement){ .kind = S_FORALL });
    const Scope scope = open_block(maker, &st->body);
    maker->first_var = maker->n_vars;
    make_indices(maker, st);
    maker->in_forall = true;
    maker->indices = st->indices;
    maker->n_indices = st->n;
    maker->n_touched = 0;
    make_body(maker, 1 + below(maker, 4), 0);
    make_update(maker);
    maker->in_forall = false;
    close_block(maker, scope);
}
