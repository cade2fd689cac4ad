// SPDX-License-Identifier: MIT
// parameters.c - the words that the launch hands to the kernel, as variables.
//
// before: nothing is printed        after: scalars, pointers, symbols and the extents of the grid have their variables
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/control/grid.h"
#include "lower/gpu/print/roles/print_roles.h"
#include "lower/gpu/facts/values.h"

static Expr *word(Printer *pr, int index) { return call_expr(pr, DTYPE_I64, "param_word", 1, i32_const(pr, index)); }

// Returns the words it took.
static int declare_parameter(Printer *pr, TileParam *p, int at)
{
    if (p->absent) return 0;
    if (!p->is_tensor) {
        Var *const var = loop_var(pr, p->scalar);
        const char *const reader = arena_printf(pr->arena, "param_scalar<%s>", dtype_info[var->type].c_name);
        emit_definition(pr, var, call_expr(pr, var->type, reader, 1, word(pr, at)));
        return 1;
    }
    const DType type = loop_type(p->tensor->type);
    Var *const pointer = loop_new_pointer(pr->unit, type, p->tensor->name);
    pointer->multiple = at; // its word: strides follow it
    pr->tensors[p->tensor->id] = pointer;
    const char *const pointer_to = arena_printf(pr->arena, "(%s *)", dtype_info[type].c_name);
    emit_definition(pr, pointer, call_expr(pr, type, pointer_to, 1, word(pr, at)));
    return 1 + (p->tensor->strided ? p->tensor->rank : 0);
}

static void declare_extents(Printer *pr, int at)
{
    TileKernel *const k = pr->lo->kernel;
    pr->grid_extents = NEW_ARRAY(pr->arena, Var *, k->n_grid + 1);
    pr->numbered_extents = NEW_ARRAY(pr->arena, Var *, k->n_grid + 1);
    Expr *total = i32_const(pr, 1);
    for (int i = 0; i < k->n_grid; i++) {
        const char *const name = k->grid[i].var->name;
        Var *const extent =
            emit_declare(pr, DTYPE_I32, arena_printf(pr->arena, "n_%s", name), cast(pr, DTYPE_I32, word(pr, at + i)));
        pr->grid_extents[i] = pr->numbered_extents[i] = extent;
        if (is_clustered(pr, i))
            pr->numbered_extents[i] = emit_declare(pr, DTYPE_I32, arena_printf(pr->arena, "clusters_%s", name),
                                                   i32_op(pr, X_DIV, var_of(pr, extent), pr->lo->cluster));
        total = i32_times(pr, total, var_of(pr, pr->numbered_extents[i]));
    }
    pr->tiles_total = emit_declare(pr, DTYPE_I32, "instances", total);
}

// The launch's words become variables, in the order of plan.h. Returns their number.
int declare_parameters(Printer *pr)
{
    TileKernel *const k = pr->lo->kernel;
    int at = 0;
    for (int i = 0; i < k->n_params; i++) at += declare_parameter(pr, &k->params[i], at);
    for (int i = 0; i < k->n_binds; i++) {
        Var *const var = loop_var(pr, k->binds[i].symbol);
        emit_definition(pr, var, cast(pr, var->type, word(pr, at++)));
    }
    declare_extents(pr, at);
    return at + k->n_grid;
}
