// SPDX-License-Identifier: MIT
// check.c - what --check builds add: subscripts of tiles inside, elements written before they are read.
//
// Each tile has a shadow of one byte per element. Declaring the tile clears it, writing sets, reading tests; a trap
// goes to the host with the place in the source.
#include "lower/cpu/cpu.h"

bool cpu_is_checked(const Cpu *cx) { return cx->kernel->checked; }

Expr *cpu_where(Cpu *cx, Span span) { return cpu_quoted(cx, span_where(cx->arena, span)); }

void cpu_emit_trap(Cpu *cx, Span span, const char *message)
{
    cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_trap", 3, cpu_of(cx, cx->host), cpu_where(cx, span),
                              cpu_quoted(cx, message)));
}

// `sub` itself if it is inside the dimension; otherwise a trap. Tile IR.
Expr *cpu_check_sub(Cpu *cx, Expr *sub, Expr *extent, const Buffer *buffer, Span span)
{
    if (common_is_inside(sub, extent)) return sub;
    Expr *const text = cpu_quoted(cx, common_outside_text(cx->arena, buffer));
    return cpu_call(cx, DTYPE_INT, "kiln_inside", 5, cpu_of(cx, cx->host), sub, extent, cpu_where(cx, span), text);
}

typedef struct Mark {
    const Place *p;
    bool read;
} Mark;

static void mark_element(Cpu *cx, Expr **axes, void *context)
{
    const Mark *const mark = context;
    Place element;
    if (cpu_place_nth(cx, &element, mark->p, axes)) cpu_mark_region(cx, &element, mark->read);
}

// Sets the shadow of the element at `axes` or tests it. Elements outside a view are left alone.
static void mark_at(Cpu *cx, const Place *p, Expr **axes, bool read)
{
    Expr *inside = NULL;
    for (int i = 0; i < p->checks.count; i++) {
        Expr *const at = cpu_linear_at(cx, &p->checks.items[i].at, axes);
        inside = cpu_both(cx, inside, expr_binary(cx->arena, X_GE, at, int_const(cx->arena, 0)));
        inside = cpu_both(cx, inside, expr_binary(cx->arena, X_LT, at, cpu_expr(cx, p->checks.items[i].extent)));
    }
    Var *const shadow = cx->tiles[p->root->id].shadow;
    Expr *const at = cpu_linear_at(cx, &p->at, axes);
    LoopList body = loop_list(cx->arena), trap = body, *const out = cpu_enter(cx, &body);
    if (read) {
        cpu_enter(cx, &trap);
        cpu_emit_trap(cx, p->span, common_unwritten_text(cx->arena, p->buffer));
        cpu_enter(cx, &body);
        cpu_add_if(cx,
                   expr_binary(cx->arena, X_EQ, expr_index(cx->arena, shadow, at), expr_int(cx->arena, DTYPE_U8, 0)),
                   &trap);
    } else {
        cpu_add(cx, (LoopStmt){ .kind = L_STORE, .store = { shadow, at, expr_int(cx->arena, DTYPE_U8, 1) } });
    }
    cpu_enter(cx, out);
    cpu_add_if(cx, inside, &body);
}

void cpu_mark_region(Cpu *cx, const Place *p, bool read)
{
    const Buffer *const root = p->by_elements ? buffer_root(p->buffer) : p->root;
    if (root->kind == BUFFER_TENSOR || !cx->tiles[root->id].shadow || p->bytes) return;
    if (p->by_elements) {
        cpu_each_element(cx, p, mark_element, &(Mark){ p, read });
        return;
    }
    Expr *axes[MAX_RANK] = { NULL };
    Var *vars[MAX_RANK];
    LoopList lists[MAX_RANK + 1] = { loop_list(cx->arena) }, *const out = cx->out;
    for (int a = 0; a < p->n_axes; a++) {
        lists[a + 1] = loop_list(cx->arena);
        vars[a] = loop_new_var(cx->unit, DTYPE_INT, "c");
        axes[a] = cpu_of(cx, vars[a]);
    }
    cpu_enter(cx, &lists[p->n_axes]);
    mark_at(cx, p, axes, read);
    for (int a = p->n_axes - 1; a >= 0; a--) {
        cpu_enter(cx, &lists[a]);
        cpu_add_loop(cx, vars[a], int_const(cx->arena, 0), cpu_expr(cx, p->widths[a]), &lists[a + 1]);
    }
    cpu_enter(cx, out);
    cpu_add_if(cx, NULL, &lists[0]);
}
