// SPDX-License-Identifier: MIT
// choose_branches.c - a branch that chooses a number becomes a choice; a part of the pass hoist-choices.
//
// The check makes `c ? f(x + 1) : 0` an `if` where f is inlined as statements, and kernels set a variable on both sides of an
// `if` of their own: each element then has a branch, though a select of two numbers would do.
//
//     f32 v; if (c) { f32 x = g[i] - g[j]; v = exp(x); } else { v = 0; }     =>     f32 x = g[i] - g[j];
//                                                                                   f32 v = c ? exp(x) : 0;
//
// after:  no branch in a forall's body is about the value of one variable alone, if both sides are cheap
// never:  sides that read tensors, atomics, calls; a condition that is the same for all iterations
#include "passes/choices.h"

enum {
    SIDES_MAX = 96, // instructions of both sides of a branch, about: more may be dearer than to jump around them
    DEEP_MAX = 8    // branches in each other
};

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
    const bool is_special = fn == M_EXP || fn == M_EXP2 || fn == M_LOG || fn == M_LOG2 || fn == M_SQRT ||
                            fn == M_RSQRT || fn == M_TANH || fn == M_FAST_TANH;
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
        if (kind == BUFFER_TENSOR || kind == BUFFER_VIEW || !load_is_inside(sides->choices, x)) sides->must_wait = true;
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
    return is_of_forall(x, context);
}

static bool differs_by_element(const Choices *c, Expr *cond)
{
    Expr *const open = with_lets_opened(c, cond);
    return !open || expr_any(open, see_varying, (void *)c);
}

// Of the branch at *link; *before: the statement before it, NULL if it is the first. Returns where it begins as a choice.
TileOp **choose_by_select(Choices *c, TileOp *forall, TileOp **link, TileOp **before)
{
    TileOp *const op = *link;
    Var *const var = target_of(forall->forall.body, op);
    Sides sides = { .choices = c, .target = var };
    if (!var || !differs_by_element(c, op->branch.cond) || !can_choose(&sides, op, 0)) return link;
    const bool declared = before && (*before)->kind == T_LET && (*before)->let.var == var;
    return choose_in_place(c->kernel, forall, link, declared ? before : NULL, var);
}
