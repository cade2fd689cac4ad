// SPDX-License-Identifier: MIT
// make_tensor.c - tensors: extents around those of tiles, some of them symbols, and what they hold.
#include "maker.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

Type any_type(Maker *maker)
{
    static const Type usual[] = { F32, F32, F32, I32, I32, I32, F16, BF16, I8, U8, U32, I64, F64 };
    if (chance(maker, 55)) return PICK(maker, usual);
    const Type t = (Type)below(maker, TYPES);
    return t == INT ? I16 : t;
}

Type fitting_type(Type type, int64_t last)
{
    if (last * type_info[type].bits % 8 == 0) return type;
    return is_float(type) ? F16 : I8;
}

int tensors_left(const Maker *maker) { return MAX_TENSORS - maker->section->n_tensors; }

// ---- what they hold

static double wild_real(Maker *maker, Type type)
{
    static const double edges[] = { 0,         1,       -1,      NAN,     INFINITY, -INFINITY,     0x1p-149,
                                    -0x1p-126, 0x1p-14, 0x1p-24, 0.5,     448,      -65504,        0x1.fffffep127,
                                    6,         1e30,    -3.3,    1234567, 0.1,      -2147483648.0, 4294967296.0,
                                    1e-40,     255,     -128 };
    if (type == F64 && chance(maker, 20)) return chance(maker, 50) ? 0x1p-1074 : 1e300;
    return PICK(maker, edges);
}

static Value real_number(Maker *maker, Type type, Filling filling)
{
    if (filling == WILD && chance(maker, 40)) return real_value(type, wild_real(maker, type));
    if (filling == MIDDLE) return real_value(type, (below(maker, 401) - 200) * 0.25);
    return real_value(type, below(maker, 13) - 6);
}

static Value integer_number(Maker *maker, Type type, Filling filling, int64_t rows)
{
    const int bits = type_info[type].bits;
    if (filling == PLACES) return integer_value(type, (uint64_t)(below(maker, (int)rows + 4) - 2));
    if (filling == WILD && chance(maker, 60)) {
        const uint64_t least = UINT64_C(1) << (bits - 1);
        const uint64_t edges[] = { 0,
                                   1,
                                   ~UINT64_C(0),
                                   least,
                                   least - 1,
                                   least + 1,
                                   random_bits(maker),
                                   random_bits(maker),
                                   UINT64_C(1) << below(maker, bits) };
        return integer_value(type, PICK(maker, edges));
    }
    if (filling == MIDDLE) return integer_value(type, (uint64_t)(int64_t)(below(maker, 2001) - 1000));
    return integer_value(type, (uint64_t)(int64_t)(below(maker, 13) - (type_info[type].is_unsigned ? 0 : 6)));
}

static void fill_tensor(Maker *maker, Memory *tensor, Filling filling)
{
    tensor->given = pool_take(maker->pool, sizeof(uint64_t) * (size_t)(tensor->n + 1));
    const int64_t rows = tensor->dims[0];
    if (filling == PERMUTED) {
        for (int64_t i = 0; i < tensor->n; i++) tensor->given[i] = (uint64_t)i;
        for (int64_t i = tensor->n; i-- > 1;) {
            const int64_t k = below(maker, (int)i + 1);
            const uint64_t moved = tensor->given[i];
            tensor->given[i] = tensor->given[k];
            tensor->given[k] = moved;
        }
        return;
    }
    for (int64_t i = 0; i < tensor->n; i++)
        tensor->given[i] = value_bits(is_float(tensor->type) ? real_number(maker, tensor->type, filling)
                                      : tensor->type == BOOL ? integer_value(BOOL, chance(maker, 50))
                                                             : integer_number(maker, tensor->type, filling, rows));
}

// ---- extents

// A symbol of its own, which this plain appearance binds.
static void name_extent(Maker *maker, Memory *tensor, int axis)
{
    Section *const section = maker->section;
    if (section->n_symbols == MAX_RANK) return;
    Var *const symbol = new_var(maker, "N", INT);
    symbol->fixed = true;
    symbol->value = integer_value(INT, (uint64_t)tensor->dims[axis]);
    section->symbols[section->n_symbols++] = symbol;
    snprintf(tensor->extents[axis], NAME_BYTES, "%s", symbol->name);
    show_var(maker, symbol);
}

Memory *new_tensor(Maker *maker, Storage storage, Type type, int rank, const int64_t *dims, Filling filling,
                   bool symbols)
{
    Memory *const tensor = new_memory(maker, storage, type, rank, dims,
                                      storage == TENSOR_IN    ? "A"
                                      : storage == TENSOR_OUT ? "Y"
                                                              : "B");
    maker->section->tensors[maker->section->n_tensors++] = tensor;
    for (int i = 0; i < rank && symbols; i++)
        if (chance(maker, 50)) name_extent(maker, tensor, i);
    if (chance(maker, 15) && type_info[type].bits >= 8) {
        tensor->strided = true;
        tensor->padding = below(maker, 4);
    }
    fill_tensor(maker, tensor, filling);
    return tensor;
}
