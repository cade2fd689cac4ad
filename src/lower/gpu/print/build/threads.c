// SPDX-License-Identifier: MIT
// threads.c - what a layout says of the thread at hand: its part of a coordinate, and whether it is the first of replicas.
#include "lower/gpu/print/build/build.h"
#include "lower/gpu/facts/values.h"

Expr *mode_value(Printer *pr, const Layout *layout, int i)
{
    const LayoutMode *const mode = &layout->mode[i];
    Var *const inputs[IN_COUNT] = { [IN_LANE] = pr->lane, [IN_WARP] = pr->warp, [IN_GROUP] = pr->group };
    const int sizes[IN_COUNT] = {
        [IN_LANE] = WARP_LANES, [IN_WARP] = pr->lo->partition.warps, [IN_GROUP] = pr->lo->partition.groups
    };
    int below = 1;
    for (int j = 0; j < i; j++)
        if (layout->mode[j].input == mode->input) below *= layout->mode[j].extent;
    Expr *value = var_of(pr, inputs[mode->input]);
    if (below > 1) value = i32_op(pr, X_DIV, value, below);
    return below * mode->extent < sizes[mode->input] ? i32_op(pr, X_MOD, value, mode->extent) : value;
}

Expr *thread_part(Printer *pr, const Layout *layout, int dim)
{
    Expr *sum = i32_const(pr, 0);
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].dim == dim && layout->mode[i].input != IN_REGISTER)
            sum = i32_add(pr, sum, i32_mul(pr, mode_value(pr, layout, i), layout->mode[i].stride));
    return sum;
}

Expr *replica_is_first(Printer *pr, const Layout *layout)
{
    Expr *test = NULL;
    for (int i = 0; i < layout->n; i++)
        if (layout->mode[i].dim == REPLICATED)
            test = both(pr->lo, test, i32_op(pr, X_EQ, mode_value(pr, layout, i), 0));
    return test;
}
