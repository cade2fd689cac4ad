// SPDX-License-Identifier: MIT
// elements.c - copies, fills and atomic sums of slices whose elements lie nowhere in particular: those of a view that
// merges dimensions which do not follow each other in its base. Each element is placed on its own, as if it had been
// subscripted.
#include "lower/cpu/cpu.h"

// Loops over p's axes; they count in variables that stand for themselves in Tile IR and Loop IR.
void cpu_each_element(Cpu *cx, const Place *p, void (*visit)(Cpu *cx, Expr **axes, void *context), void *context)
{
    Nest *const nest = cx->nest;
    Expr *axes[MAX_RANK] = { NULL };
    Var *vars[MAX_RANK];
    for (int a = 0; a < p->n_axes; a++) {
        vars[a] = loop_new_var(cx->unit, DTYPE_INT, "e");
        axes[a] = cpu_of(cx, vars[a]);
    }
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    cx->nest = NULL; // nothing moves before these loops: the nest does not know them
    visit(cx, axes, context);
    cx->nest = nest;
    cpu_enter(cx, out);
    for (int a = p->n_axes - 1; a >= 0; a--) {
        Expr *const width = cpu_expr(cx, p->widths[a]);
        LoopList loop = loop_list(cx->arena);
        cpu_enter(cx, &loop);
        cpu_add_loop(cx, vars[a], int_const(cx->arena, 0), width, &body);
        cpu_enter(cx, out);
        body = loop;
    }
    cpu_add_if(cx, NULL, &body);
}

// The element of p at these axes. An array of the lowering's own has no region, and no bounds either.
bool cpu_place_nth(Cpu *cx, Place *element, const Place *p, Expr **axes)
{
    if (!p->region) {
        *element = *p;
        element->n_axes = 0;
        element->at = (Linear){ .base = cpu_linear_at(cx, &p->at, axes) };
        return true;
    }
    Expr *subs[MAX_RANK];
    region_element(cx->arena, p->region, axes, subs);
    return cpu_place_element(cx, element, p->buffer, subs, p->span);
}

typedef struct Pair {
    const Place *dst, *src;
    Expr *value;
    bool adds;
} Pair;

static void write_element(Cpu *cx, Expr **axes, void *context)
{
    const Pair *const pair = context;
    Place dst, src;
    Expr *value = pair->value;
    if (!cpu_place_nth(cx, &dst, pair->dst, axes)) return;
    if (pair->src) {
        if (!cpu_place_nth(cx, &src, pair->src, axes)) return;
        Expr *const inside = cpu_place_condition(cx, &src);
        value = cpu_place_load(cx, &src, cpu_linear_at(cx, &src.at, NULL));
        if (inside) value = expr_select(cx->arena, inside, value, cpu_zero_of(cx, value->type));
    }
    Expr *const inside = cpu_place_condition(cx, &dst), *const at = cpu_linear_at(cx, &dst.at, NULL);
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    if (pair->adds) cpu_add_call(cx, cpu_atomic_on_tensor(cx, ATOMIC_ADD, &dst, at, value, NULL));
    else cpu_place_store(cx, &dst, at, pair->src ? cpu_convert(cx, dst.type, value) : value);
    cpu_enter(cx, out);
    cpu_add_if(cx, inside, &body);
}

void cpu_copy_elements(Cpu *cx, const Place *dst, const Place *src)
{
    cpu_each_element(cx, dst, write_element, &(Pair){ dst, src, NULL, false });
}
void cpu_fill_elements(Cpu *cx, const Place *dst, Expr *value)
{
    cpu_each_element(cx, dst, write_element, &(Pair){ dst, NULL, value, false });
}
void cpu_add_elements(Cpu *cx, const Place *dst, const Place *src)
{
    cpu_each_element(cx, dst, write_element, &(Pair){ dst, src, NULL, true });
}
