// SPDX-License-Identifier: MIT
// hoist_choices.c - what a choice reads from shared memory is read before it; branches that choose a number are choices first
// (choose_branches.c).
//
// In `c ? f(tile[i]) : x` only the chosen side's accesses are made, so a GPU's compiler jumps around the load: each element
// has a branch of its own, waits for its load alone, and nothing overlaps. Where the tile has the element whatever c is, the
// side is computed first, into a variable, and what is left is a select. Of a chunk scan whose weights are masked element by
// element that is half of the time.
//
//     s[i][j] = c ? s[i][j] * scale[j] : 0;     =>     f32 side = s[i][j] * scale[j];
//                                                      s[i][j] = c ? side : 0;
//
// before: simplified    after: no side of a choice in a forall loads from a shared tile, if the place is provably inside; no
//                       branch in one is about the value of one variable alone, if both sides are cheap
// never:  --check builds, which count reads of elements that nobody has written; sides that read tensors, atomics, calls;
//         choices whose condition is the same for all iterations: those are branches that cost nothing
#include "passes/choices.h"

// An index, or a variable of the body.
bool is_of_forall(const Expr *x, void *context)
{
    const Choices *const c = context;
    if (x->kind != E_VAR) return false;
    for (int i = 0; i < c->forall->forall.n; i++)
        if (c->forall->forall.indices[i].var == x->var.var) return true;
    for (const TileOp *op = c->forall->forall.body; op; op = op->next)
        if (op->kind == T_LET && op->let.var == x->var.var) return true;
    return false;
}

// With the values of the body's variables in their place.
Expr *with_lets_opened(const Choices *c, Expr *x)
{
    for (int i = c->n_lets - 1; i >= 0; i--) {
        const TileOp *const let = c->lets[i];
        if (expr_uses(x, let->let.var)) x = expr_replace(c->kernel->arena, x, let->let.var, let->let.value);
        if (expr_larger(x, NODES_MAX)) return NULL;
    }
    return x;
}

bool load_is_inside(const Choices *c, const Expr *load)
{
    const Buffer *const tile = load->load.buffer;
    for (int d = 0; d < tile->rank; d++) {
        int64_t extent;
        Expr *const sub = with_lets_opened(c, load->load.subs[d]);
        if (!sub || !expr_as_int(tile->shape[d], &extent) || !expr_fits(sub, 0, extent - 1)) return false;
    }
    return true;
}

typedef struct Side {
    const Choices *choices;
    bool reads_shared, must_wait; // must_wait: something in it may only be done if it is chosen
} Side;

static bool see_side(const Expr *x, void *context)
{
    Side *const side = context;
    if (x->kind == E_ATOMIC || x->kind == E_CALL) side->must_wait = true;
    if (x->kind != E_LOAD) return side->must_wait;
    const Buffer *const b = x->load.buffer;
    if (b->kind == BUFFER_SHARED && load_is_inside(side->choices, x)) side->reads_shared = true;
    else if (b->kind != BUFFER_LOCAL && (b->kind != BUFFER_FRAGMENT || !load_is_inside(side->choices, x)))
        side->must_wait = true;
    return side->must_wait;
}

static bool can_be_first(const Choices *c, const Expr *x)
{
    Side side = { .choices = c };
    if (expr_larger(x, NODES_MAX)) return false;
    expr_any(x, see_side, &side);
    return side.reads_shared && !side.must_wait;
}

// ---- choices

static Expr *computed_first(Choices *c, Expr *x)
{
    if (!can_be_first(c, x)) return x;
    Var *const var = tile_new_var(c->kernel, VAR_LOCAL, x->type, "side", x->span);
    TileOp *const let = NEW(c->kernel->arena, TileOp, .kind = T_LET, .span = (*c->link)->span,
                            .groups = (*c->link)->groups, .stage = (*c->link)->stage);
    let->let.var = var;
    let->let.value = x;
    let->next = *c->link;
    *c->link = let;
    c->link = &let->next;
    return expr_var(c->kernel->arena, var);
}

static Expr *hoist(Expr *x, void *context)
{
    Choices *const c = context;
    if (x->kind != E_SELECT || !expr_any(x->select.cond, is_of_forall, c)) return x;
    Expr *const a = computed_first(c, x->select.a), *const b = computed_first(c, x->select.b);
    return a == x->select.a && b == x->select.b ? x : expr_select(c->kernel->arena, x->select.cond, a, b);
}

static void hoist_slot(Expr **slot, void *context)
{
    if (!expr_larger(*slot, NODES_MAX)) *slot = expr_map(((Choices *)context)->kernel->arena, *slot, hoist, context);
}

// Statements of the body itself: what is inside of loops and conditions stays.
static void hoist_body(TileKernel *kernel, TileOp *forall)
{
    Choices c = { .kernel = kernel, .forall = forall };
    TileOp **before = NULL;
    for (TileOp **link = &forall->forall.body; *link; before = link, link = &(*link)->next) {
        if ((*link)->kind == T_IF) link = choose_by_select(&c, forall, link, before);
        TileOp *const op = *link;
        c.link = link;
        if (op->kind == T_STORE) hoist_slot(&op->store.value, &c);
        else if (op->kind == T_UPDATE) hoist_slot(&op->update.value, &c);
        else if (op->kind == T_LET && op->let.value) hoist_slot(&op->let.value, &c);
        link = c.link;
        if (op->kind == T_LET && op->let.value && !op->let.var->assigned && c.n_lets < LETS_MAX)
            c.lets[c.n_lets++] = op;
    }
}

static void hoist_block(TileKernel *kernel, TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->kind == T_FORALL) hoist_body(kernel, op);
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++) hoist_block(kernel, *body);
    }
}

void hoist_choices(TileKernel *kernel)
{
    if (!kernel->checked) hoist_block(kernel, kernel->body);
}
