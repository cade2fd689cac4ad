// SPDX-License-Identifier: MIT
// make_atomic.c - atomics: on tensors that nothing else touches, by one operation, so that their order cannot be seen;
// on shared tiles; and with the value before, on elements that one instance has alone.
#include "maker.h"

#include <string.h>

static Op atomic_op_of(Maker *maker, Type type)
{
    static const Op any[] = { ADD, ADD, MIN, MAX }, integers[] = { ADD, MIN, MAX, AND, OR };
    return type == F16 || type == BF16 ? ADD : is_float(type) ? PICK(maker, any) : PICK(maker, integers);
}

void make_atomic_tensor(Maker *maker)
{
    static const Type types[] = { I32, I32, U32, I64, U64, F32, F32, F64, F16, BF16 };
    const Type type = PICK(maker, types);
    const int64_t dims[] = { maker->dims[0] + below(maker, 3) - 1, maker->dims[1] };
    Memory *const tensor = new_tensor(maker, TENSOR_INOUT, type, dims[0] > 0 ? 1 + below(maker, 2) : 1,
                                      (int64_t[]){ dims[0] > 0 ? dims[0] : 1, dims[1] }, SMALL, chance(maker, 30));
    tensor->strided = false;
    tensor->atomic_op = atomic_op_of(maker, type) + 1;
    show_memory(maker, tensor);
}

void make_own_tensor(Maker *maker)
{
    static const Type types[] = { I32, I32, U32, I64, F32, F16, I8 };
    Memory *const tensor =
        new_tensor(maker, TENSOR_INOUT, PICK(maker, types), 2,
                   (int64_t[]){ maker->grid->x * maker->grid->y, maker->dims[below(maker, 2)] }, SMALL, false);
    tensor->own = true;
    show_memory(maker, tensor);
}

// What a forall may add to: a tensor for atomics, or a shared tile that it does not touch otherwise.
static Memory *find_atomic_target(Maker *maker, Op *op)
{
    for (int i = 0; i < 8 && maker->n_memories > 0; i++) {
        Memory *const memory = maker->memories[below(maker, maker->n_memories)];
        const bool fits = memory->storage == SHARED && type_info[memory->type].bits >= 32 && memory->type != TF32;
        if (!memory->atomic_op && (!fits || find_touched(maker, memory, NULL))) continue;
        if (memory->atomic_op) {
            *op = (Op)(memory->atomic_op - 1);
            return memory;
        }
        Touched *const touched = touch(maker, memory, NULL);
        if (!touched) return NULL;
        touched->reduced = true;
        *op = touched->op = atomic_op_of(maker, memory->type);
        return memory;
    }
    return NULL;
}

void make_atomic(Maker *maker)
{
    Op op;
    Expr *subs[MAX_RANK];
    Memory *const memory = find_atomic_target(maker, &op);
    if (!memory) return;
    for (int i = 0; i < memory->rank; i++)
        subs[i] = memory->storage == SHARED ? make_place(maker, memory->dims[i]) : make_anywhere(maker);
    add(maker, (Statement){ .kind = S_ATOMIC,
                            .op = op,
                            .target = new_element(maker, memory, subs),
                            .value = make_value(maker, wide_type(memory->type), 1) });
}

void make_atomic_tile(Maker *maker)
{
    for (int i = 0; i < 20; i++) {
        Memory *const a = maker->memories[below(maker, maker->n_memories)],
                      *const b = maker->memories[below(maker, maker->n_memories)];
        if (a->atomic_op != ADD + 1 || (b->storage != SHARED && b->storage != FRAGMENT) || a->rank != b->rank ||
            a->type != b->type)
            continue;
        Slice dst = whole_of(a);
        for (int k = 0; k < b->rank; k++)
            dst.subs[k] = (Subscript){ .kind = RANGE, .start = make_anywhere(maker), .width = b->dims[k], .step = 1 };
        add(maker, (Statement){ .kind = S_ATOMIC_TILE, .dst = dst, .src = whole_of(b) });
        return;
    }
}

void make_value_before(Maker *maker)
{
    for (int i = 0; i < 6; i++) {
        Memory *const memory = maker->memories[below(maker, maker->n_memories)];
        if (!memory->own || is_float(memory->type) || type_info[memory->type].bits < 32) continue;
        Expr *const subs[] = { new_var_expr(maker, maker->section->place), make_place(maker, memory->dims[1]) };
        static const char kinds[] = { 'a', 'a', 'a', 'x', 'c' };
        const char kind = PICK(maker, kinds);
        Var *const var = new_var(maker, "s", memory->type);
        Expr *const x = TAKE(maker->pool, Expr, .kind = X_ATOMIC, .type = memory->type, .memory = memory,
                             .integer = kind, .n = kind == 'c' ? 3 : 2, .op = atomic_op_of(maker, memory->type),
                             .args = { new_element(maker, memory, subs) });
        for (int k = 1; k < x->n; k++) x->args[k] = make_value(maker, memory->type, 1);
        add(maker, (Statement){ .kind = S_LET, .var = var, .value = x });
        show_var(maker, var);
        return;
    }
}
