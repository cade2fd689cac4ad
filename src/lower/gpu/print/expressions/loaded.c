// SPDX-License-Identifier: MIT
// loaded.c - elements of vectors that were loaded before the loop over them.
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/values.h"

// Of this iteration among those whose loads are made together.
Expr *batch_number(Printer *pr, const Iteration *it)
{
    Expr *number = i32_const(pr, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++)
        if (it->batch[i].at) {
            number = i32_add(pr, number, i32_mul(pr, var_of(pr, it->batch[i].at), stride));
            stride *= it->batch[i].extent;
        }
    return number;
}

Expr *loaded_element(Printer *pr, const Iteration *it, int i)
{
    Var *const values = it->loaded[i].values;
    Expr *const v = var_of(pr, it->mode[it->vector]);
    if (!it->loaded[i].in_words) return expr_index(pr->arena, values, v);
    const DType stored = it->loaded[i].load->load.buffer->type, type = loop_type(stored);
    if (dtype_is_packed(stored))
        return call_expr(
            pr, type,
            arena_printf(pr->arena, "code_of<%d, %d>", dtype_bits(stored), it->layout.mode[it->vector].extent), 3,
            var_of(pr, values), batch_number(pr, it), v);
    return call_expr(
        pr, type,
        arena_printf(pr->arena, "element_of<%s, %d>", dtype_info[type].c_name, it->layout.mode[it->vector].extent), 3,
        var_of(pr, values), batch_number(pr, it), v);
}

static int unpacked_number(const Iteration *it, const Expr *x)
{
    for (int i = 0; it && i < it->n_codes; i++)
        if (expr_equal(it->codes[i].convert, x)) return i;
    return -1;
}

bool is_unpacked(const Iteration *it, const Expr *x) { return unpacked_number(it, x) >= 0; }

Expr *unpacked_element(Printer *pr, const Iteration *it, const Expr *x)
{
    const int i = unpacked_number(it, x);
    return i < 0 ? NULL : expr_index(pr->arena, it->codes[i].values, var_of(pr, it->mode[it->vector]));
}
