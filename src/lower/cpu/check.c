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
    const Range r = expr_range(sub);
    int64_t n;
    if (expr_as_int(extent, &n) && r.has_lo && r.has_hi && r.lo >= 0 && r.hi < n) return sub;
    Expr *const text = cpu_quoted(cx, arena_printf(cx->arena, "a subscript of '%s' is outside its extent", buffer->name));
    return cpu_call(cx, DTYPE_INT, "kiln_inside", 5, cpu_of(cx, cx->host), sub, extent, cpu_where(cx, span), text);
}

typedef struct Mark { const Place *p; bool read; } Mark;

static void mark_element(Cpu *cx, Expr **axes, void *context)
{
    const Mark *const mark = context;
    Place element;
    if (cpu_place_nth(cx, &element, mark->p, axes)) cpu_mark_region(cx, &element, mark->read);
}

// Loops over the axes of `p` that set the shadow or test it. Elements outside a view are left alone.
void cpu_mark_region(Cpu *cx, const Place *p, bool read)
{
    const Buffer *const root = p->by_elements ? buffer_root(p->buffer) : p->root;
    if (root->kind == BUFFER_TENSOR || !cx->tiles[root->id].shadow || p->bytes) return;
    if (p->by_elements) {
        cpu_each_element(cx, p, mark_element, &(Mark){ p, read });
        return;
    }
    Var *const shadow = cx->tiles[p->root->id].shadow;
    Expr *axes[MAX_RANK] = { NULL };
    LoopList lists[MAX_RANK + 1], *const out = cx->out;
    Var *vars[MAX_RANK];
    for (int a = 0; a <= p->n_axes; a++) {
        lists[a] = (LoopList){ .arena = cx->arena };
        lists[a].last = &lists[a].first;
    }
    for (int a = 0; a < p->n_axes; a++) {
        vars[a] = loop_new_var(cx->unit, DTYPE_INT, "c");
        axes[a] = cpu_of(cx, vars[a]);
    }
    cx->out = &lists[p->n_axes];
    Expr *inside = NULL;
    for (int i = 0; i < p->checks.count; i++) {
        Expr *const at = cpu_linear_at(cx, &p->checks.items[i].at, axes);
        inside = cpu_both(cx, inside, expr_binary(cx->arena, X_GE, at, int_const(cx->arena, 0)));
        inside = cpu_both(cx, inside, expr_binary(cx->arena, X_LT, at, cpu_expr(cx, p->checks.items[i].extent)));
    }
    Expr *const at = cpu_linear_at(cx, &p->at, axes), *const element = expr_index(cx->arena, shadow, at);
    LoopList body = { .arena = cx->arena };
    body.last = &body.first;
    LoopList *const innermost = cpu_enter(cx, &body);
    if (read) {
        LoopList trap = { .arena = cx->arena };
        trap.last = &trap.first;
        LoopList *const back = cpu_enter(cx, &trap);
        cpu_emit_trap(cx, p->span,
                      arena_printf(cx->arena, "reads an element of '%s' that nothing has written", p->buffer->name));
        cpu_enter(cx, back);
        cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { expr_binary(cx->arena, X_EQ, element, expr_int(cx->arena, DTYPE_U8, 0)), trap.first, NULL } });
    } else cpu_add(cx, (LoopStmt){ .kind = L_STORE, .store = { shadow, at, expr_int(cx->arena, DTYPE_U8, 1) } });
    cpu_enter(cx, innermost);
    if (inside) cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { inside, body.first, NULL } });
    else cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { body.first } });
    for (int a = p->n_axes - 1; a >= 0; a--) {
        cx->out = &lists[a];
        cpu_add(cx, (LoopStmt){ .kind = L_FOR, .for_ = { .var = vars[a], .lo = int_const(cx->arena, 0), .hi = cpu_expr(cx, p->widths[a]),
                            .step = int_const(cx->arena, 1), .body = lists[a + 1].first } });
    }
    cx->out = out;
    cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { lists[0].first } });
}
