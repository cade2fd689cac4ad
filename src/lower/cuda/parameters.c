// SPDX-License-Identifier: MIT
// parameters.c - the words that the launch hands to the kernel, as variables.
//
// before: nothing is printed        after: scalars, pointers, symbols and the extents of the grid have their variables
#include "lower/cuda/grid.h"
#include "lower/cuda/print.h"

static Expr *word(Lowering *lo, int index) { return call_expr(lo, DTYPE_I64, "param_word", 1, i32_const(lo, index)); }

// Returns the words it took.
static int declare_parameter(Lowering *lo, TileParam *p, int at)
{
    if (p->absent) return 0;
    if (!p->is_tensor) {
        Var *const var = loop_var(lo, p->scalar);
        const char *const reader = arena_printf(lo->arena, "param_scalar<%s>", dtype_info[var->type].c_name);
        emit_definition(lo, var, call_expr(lo, var->type, reader, 1, word(lo, at)));
        return 1;
    }
    const DType type = loop_type(p->tensor->type);
    Var *const pointer = loop_new_pointer(lo->unit, type, p->tensor->name);
    pointer->multiple = at; // its word: strides follow it
    lo->tensors[p->tensor->id] = pointer;
    const char *const pointer_to = arena_printf(lo->arena, "(%s *)", dtype_info[type].c_name);
    emit_definition(lo, pointer, call_expr(lo, type, pointer_to, 1, word(lo, at)));
    return 1 + (p->tensor->strided ? p->tensor->rank : 0);
}

static void declare_extents(Lowering *lo, int at)
{
    TileKernel *const k = lo->kernel;
    lo->grid_extents = NEW_ARRAY(lo->arena, Var *, k->n_grid + 1);
    lo->numbered_extents = NEW_ARRAY(lo->arena, Var *, k->n_grid + 1);
    Expr *total = i32_const(lo, 1);
    for (int i = 0; i < k->n_grid; i++) {
        const char *const name = k->grid[i].var->name;
        Var *const extent =
            emit_declare(lo, DTYPE_I32, arena_printf(lo->arena, "n_%s", name), cast(lo, DTYPE_I32, word(lo, at + i)));
        lo->grid_extents[i] = lo->numbered_extents[i] = extent;
        if (is_clustered(lo, i))
            lo->numbered_extents[i] = emit_declare(lo, DTYPE_I32, arena_printf(lo->arena, "clusters_%s", name),
                                                   i32_op(lo, X_DIV, var_of(lo, extent), lo->cluster));
        total = i32_times(lo, total, var_of(lo, lo->numbered_extents[i]));
    }
    lo->tiles_total = emit_declare(lo, DTYPE_I32, "instances", total);
}

// The launch's words become variables, in the order of plan.h. Returns their number.
int declare_parameters(Lowering *lo)
{
    TileKernel *const k = lo->kernel;
    int at = 0;
    for (int i = 0; i < k->n_params; i++) at += declare_parameter(lo, &k->params[i], at);
    for (int i = 0; i < k->n_binds; i++) {
        Var *const var = loop_var(lo, k->binds[i].symbol);
        emit_definition(lo, var, cast(lo, var->type, word(lo, at++)));
    }
    declare_extents(lo, at);
    return at + k->n_grid;
}
