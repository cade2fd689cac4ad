// SPDX-License-Identifier: MIT
// hoist_choices.c - a branch that chooses a number becomes a choice, and what a choice reads from shared memory is read before it.
//
// The check makes `c ? f(x + 1) : 0` an `if` where f is inlined as statements, and kernels set a variable on both sides of an
// `if` of their own: each element then has a branch, though a select of two numbers would do.
//
//     f32 v; if (c) { f32 x = g[i] - g[j]; v = exp(x); } else { v = 0; }     =>     f32 x = g[i] - g[j];
//                                                                                   f32 v = c ? exp(x) : 0;
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
#include "passes/passes.h"

enum {
    NODES_MAX = 200,
    LETS_MAX = 32,
    SIDES_MAX = 96, // instructions of both sides of a branch, about: more may be dearer than to jump around them
    DEEP_MAX = 8    // branches in each other
};

typedef struct Choices {
    TileKernel *kernel;
    const TileOp *forall;
    const TileOp *lets[LETS_MAX]; // of the body, above the statement
    int n_lets;
    TileOp **link; // of the statement; declarations go in front of it
} Choices;

// An index, or a variable of the body.
static bool see_own(const Expr *x, void *context)
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
static Expr *opened(const Choices *c, Expr *x)
{
    for (int i = c->n_lets - 1; i >= 0; i--) {
        const TileOp *const let = c->lets[i];
        if (expr_uses(x, let->let.var)) x = expr_replace(c->kernel->arena, x, let->let.var, let->let.value);
        if (expr_larger(x, NODES_MAX)) return NULL;
    }
    return x;
}

static bool is_inside(const Choices *c, const Expr *load)
{
    const Buffer *const tile = load->load.buffer;
    for (int d = 0; d < tile->rank; d++) {
        int64_t extent;
        Expr *const sub = opened(c, load->load.subs[d]);
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
    if (b->kind == BUFFER_SHARED && is_inside(side->choices, x)) side->reads_shared = true;
    else if (b->kind != BUFFER_LOCAL && (b->kind != BUFFER_FRAGMENT || !is_inside(side->choices, x)))
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

// ---- branches

typedef struct Sides {
    Choices *choices;
    const Var *target; // which both sides set
    int cost;
    bool must_wait;
} Sides;

// Roughly the instructions of a node.
static int cost_of_node(const Expr *x)
{
    enum { QUOTIENT = 12, SPECIAL = 4, LONG = 24, NEVER = SIDES_MAX + 1 };
    if (x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD)) return x->type == DTYPE_F64 ? NEVER : QUOTIENT;
    if (x->kind != E_MATH) return 1;
    const MathFn fn = x->math.fn;
    const bool is_long = fn == M_POW || fn == M_SIN || fn == M_COS || fn == M_ERF || fn == M_RANDOM;
    const bool is_special =
        fn == M_EXP || fn == M_EXP2 || fn == M_LOG || fn == M_LOG2 || fn == M_SQRT || fn == M_RSQRT || fn == M_TANH ||
        fn == M_FAST_TANH;
    if (fn == M_CEILDIV) return QUOTIENT;
    if (!is_long && !is_special) return 1;
    return x->type == DTYPE_F64 ? NEVER : is_long ? LONG : SPECIAL;
}

// Whether it may be computed though it is not chosen: no effect, nothing from memory but elements of tiles that are there.
static bool see_in_branch(const Expr *x, void *context)
{
    Sides *const sides = context;
    sides->cost += cost_of_node(x);
    if (x->kind == E_ATOMIC || x->kind == E_CALL) sides->must_wait = true;
    if (x->kind == E_LOAD) {
        const BufferKind kind = x->load.buffer->kind;
        if (kind == BUFFER_TENSOR || kind == BUFFER_VIEW || !is_inside(sides->choices, x)) sides->must_wait = true;
    }
    return sides->must_wait || sides->cost > SIDES_MAX;
}

static bool is_cheap(Sides *sides, const Expr *x) { return !expr_any(x, see_in_branch, sides); }

static const Var *chosen_by(const TileOp *op);
static bool sets_always(const TileOp *op);

// Declarations, branches that choose one of them, and last the target's new value, or a branch that chooses it.
static const Var *last_set(const TileOp *side)
{
    const TileOp *op = side;
    while (op && op->next) op = op->next;
    return !op ? NULL : op->kind == T_SET ? op->let.var : op->kind == T_IF ? chosen_by(op) : NULL;
}

static const Var *chosen_by(const TileOp *op)
{
    const Var *const then = last_set(op->branch.then), *const otherwise = last_set(op->branch.otherwise);
    if (!op->branch.otherwise) return then;
    return then == otherwise ? then : NULL;
}

static bool can_choose(Sides *sides, const TileOp *branch, int deep);

static bool is_side(Sides *sides, const TileOp *side, int deep)
{
    Choices *const c = sides->choices;
    const int outside = c->n_lets;
    bool fits = true;
    for (const TileOp *op = side; op && fits; op = op->next) {
        const Var *const open = op->kind == T_LET && !op->let.value ? op->let.var : NULL;
        if (open)
            fits = op->next && op->next->kind == T_IF && chosen_by(op->next) == open && sets_always(op->next) &&
                   op->next->next;
        else if (op->kind == T_LET) fits = !op->let.var->assigned && is_cheap(sides, op->let.value);
        else if (op->kind == T_SET) fits = !op->next && op->let.var == sides->target && is_cheap(sides, op->let.value);
        else if (op->kind != T_IF) fits = false;
        else {
            Sides inner = { .choices = c, .target = chosen_by(op), .cost = sides->cost };
            fits = inner.target && (op->next != NULL) == (inner.target != sides->target) &&
                   is_cheap(sides, op->branch.cond) && can_choose(&inner, op, deep + 1);
            sides->cost = inner.cost;
        }
        if (fits && op->kind == T_LET && op->let.value) {
            fits = c->n_lets < LETS_MAX;
            if (fits) c->lets[c->n_lets++] = op;
        }
    }
    c->n_lets = outside;
    return fits;
}

static bool can_choose(Sides *sides, const TileOp *branch, int deep)
{
    return deep < DEEP_MAX && expr_is_pure(branch->branch.cond) && is_side(sides, branch->branch.then, deep) &&
           is_side(sides, branch->branch.otherwise, deep);
}

static int sets_of(const TileOp *op, const Var *var)
{
    int n = 0;
    for (; op; op = op->next) {
        n += (op->kind == T_SET && op->let.var == var) || (op->kind == T_UPDATE && op->update.var == var);
        TileOp **body;
        for (int i = 0; (body = tile_bodies((TileOp *)op, i)) != NULL; i++) n += sets_of(*body, var);
    }
    return n;
}

static void note_use(Expr **slot, void *context)
{
    const Var **const var = context;
    if (*var && expr_uses(*slot, *var)) *var = NULL;
}

static bool uses_var(TileOp *op, const Var *var)
{
    for (; op && var; op = op->next) {
        tile_each_expr(op, note_use, &var);
        TileOp **body;
        for (int i = 0; var && (body = tile_bodies(op, i)) != NULL; i++)
            if (uses_var(*body, var)) return true;
    }
    return !var;
}

static bool branch_uses(const TileOp *op, const Var *var)
{
    return expr_uses(op->branch.cond, var) || uses_var(op->branch.then, var) || uses_var(op->branch.otherwise, var);
}

// The statements of a side but the last go to *end, and what the target is then is returned: `old` where it is not set.
static Expr *flattened(TileKernel *kernel, TileOp *side, Expr *old, TileOp ***end);

static Expr *flattened_branch(TileKernel *kernel, TileOp *op, Expr *old, TileOp ***end)
{
    Expr *const then = flattened(kernel, op->branch.then, old, end);
    Expr *const otherwise = flattened(kernel, op->branch.otherwise, old, end);
    return expr_select(kernel->arena, op->branch.cond, then, otherwise);
}

static Expr *flattened(TileKernel *kernel, TileOp *side, Expr *old, TileOp ***end)
{
    for (TileOp *op = side, *next; op; op = next) {
        next = op->next;
        if (!next) return op->kind == T_SET ? op->let.value : flattened_branch(kernel, op, old, end);
        if (op->kind == T_LET && !op->let.value) { // is_side: a branch that chooses it follows
            op->let.value = flattened_branch(kernel, next, NULL, end);
            op->let.var->assigned = false;
            next = next->next;
        }
        **end = op;
        *end = &op->next;
    }
    return old;
}

static bool is_simple(const Expr *x) { return !x || expr_is_const(x) || x->kind == E_VAR; }

// `*link` is a branch; `declared` is the declaration of its target, if that stands right before it. Returns where it begins now.
static TileOp **choose_in_place(TileKernel *kernel, TileOp *forall, TileOp **link, TileOp **declared, Var *var)
{
    TileOp *const op = *link, *const after = op->next, *const let = declared ? *declared : NULL;
    const bool may_go = let && (is_simple(let->let.value) || (sets_always(op) && expr_is_pure(let->let.value)));
    const bool fresh = may_go && !branch_uses(op, var);
    TileOp *first = NULL, **end = &first;
    Expr *const value = flattened_branch(kernel, op, fresh ? let->let.value : expr_var(kernel->arena, var), &end);
    TileOp *const set = fresh ? let
                              : NEW(kernel->arena, TileOp, .kind = T_SET, .span = op->span, .groups = op->groups,
                                    .stage = op->stage, .let = { var, NULL });
    set->let.value = value;
    *end = set;
    set->next = after;
    *(fresh ? declared : link) = first;
    if (fresh && !sets_of(forall->forall.body, var)) var->assigned = false;
    return fresh ? declared : link;
}

// Whether the variable has a value where the branch begins: one that a side leaves as it is must have one.
static bool is_set_before(const TileOp *body, const TileOp *branch, const Var *var)
{
    for (const TileOp *op = body; op && op != branch; op = op->next)
        if ((op->kind == T_LET || op->kind == T_SET) && op->let.var == var && op->let.value) return true;
    return false;
}

static bool sets_always(const TileOp *op)
{
    const TileOp *const sides[] = { op->branch.then, op->branch.otherwise };
    for (int i = 0; i < 2; i++) {
        const TileOp *last = sides[i];
        while (last && last->next) last = last->next;
        if (!last || (last->kind == T_IF && !sets_always(last))) return false;
    }
    return true;
}

static Var *target_of(const TileOp *body, const TileOp *branch)
{
    const Var *const var = chosen_by(branch);
    for (const TileOp *op = body; op && var && op != branch; op = op->next)
        if (op->kind == T_LET && op->let.var == var)
            return sets_always(branch) || is_set_before(body, branch, var) ? op->let.var : NULL;
    return NULL; // declared outside of the forall: another iteration may have set it
}

// An index, or a variable of the body that has no one value.
static bool see_varying(const Expr *x, void *context)
{
    const Choices *const c = context;
    for (int i = 0; i < c->n_lets && x->kind == E_VAR; i++)
        if (c->lets[i]->let.var == x->var.var) return false;
    return see_own(x, context);
}

static bool differs_by_element(const Choices *c, Expr *cond)
{
    Expr *const open = opened(c, cond);
    return !open || expr_any(open, see_varying, (void *)c);
}

// Of the branch at *link; *before: the statement in front of it, NULL if it is the first. Returns where it begins as a choice.
static TileOp **choose_by_select(Choices *c, TileOp *forall, TileOp **link, TileOp **before)
{
    TileOp *const op = *link;
    Var *const var = target_of(forall->forall.body, op);
    Sides sides = { .choices = c, .target = var };
    if (!var || !differs_by_element(c, op->branch.cond) || !can_choose(&sides, op, 0)) return link;
    const bool declared = before && (*before)->kind == T_LET && (*before)->let.var == var;
    return choose_in_place(c->kernel, forall, link, declared ? before : NULL, var);
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
    if (x->kind != E_SELECT || !expr_any(x->select.cond, see_own, c)) return x;
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
