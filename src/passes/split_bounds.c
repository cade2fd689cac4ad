// SPDX-License-Identifier: MIT
// split_bounds.c - one uniform test around a forall in place of one per element.
//
//   forall (i : 64, j : 64) if (n*64 + j >= len) s[i][j] = -INFINITY;
// becomes, because the condition grows with j,
//   if (n*64 + 63 >= len) forall (i : 64, j : 64) if (n*64 + j >= len) s[i][j] = -INFINITY;
// and where the condition guards tensors and can be seen to hold for every element, the inner test goes:
//   if (can) { if (must) forall (..) S; else forall (..) if (c) S; }
//
// Per comparison the difference of its sides is bounded over the box of the indices: each index at the corner that
// its coefficient asks for, through quotients, minima and maxima, which are monotone. && and || combine bounds. What
// cannot be bounded counts as "may hold" and "need not hold", so an answer is safe, never exact by promise.
//
// before: any kernel                                after: the same results
// never:  evaluates what the kernel would not: a quotient on the right of && or || stays there
#include "passes/passes.h"
#include "ir/linear.h"

enum { BOX_MAX = 8, SPLIT_MAX_OPS = 6 }; // a body of more ops is not worth keeping twice

typedef struct Box {
    Arena *arena;
    int n;
    Var *vars[BOX_MAX];
    Expr *first[BOX_MAX], *last[BOX_MAX];
} Box;

typedef enum { LEAST, MOST } Side;
typedef enum { ANYWHERE, EVERYWHERE } Quantifier;

// ---- values over the box

static int find_index(const Box *box, const Expr *x)
{
    for (int i = 0; i < box->n; i++)
        if (x->kind == E_VAR && x->var.var == box->vars[i]) return i;
    return -1;
}

static bool is_index(const Expr *x, void *context) { return find_index(context, x) >= 0; }
static bool varies(const Box *box, const Expr *x) { return expr_any(x, is_index, (void *)box); }

// What would trap or cost if computed where the kernel might not have.
static bool is_guarded(const Expr *x, void *context)
{
    const Expr *const divisor = x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD) ? x->op.b
                                : x->kind == E_MATH && x->math.fn == M_CEILDIV                  ? x->math.args[1]
                                                                                                : NULL;
    if (!divisor || dtype_is_float(divisor->type)) return false;
    const Range r = expr_range(divisor);
    return !((r.has_lo && r.lo > 0) || (r.has_hi && r.hi < 0));
}

// An element of a fragment is in one thread's registers, so the uniform test cannot read it.
static bool is_fixed(const Expr *x, void *context)
{
    return x->kind == E_ATOMIC || x->kind == E_CALL ||
           (x->kind == E_LOAD && buffer_root(x->load.buffer)->kind == BUFFER_FRAGMENT);
}

static bool may_move(const Expr *x, bool always)
{
    return !expr_any(x, is_fixed, NULL) && (always || !expr_any(x, is_guarded, NULL));
}

static Expr *bound_sum(const Box *box, const Linear *sum, Side side, bool always);

static Expr *bound(const Box *box, Expr *x, Side side, bool always)
{
    Linear sum = { 0 };
    if (!may_move(x, always)) return NULL;
    linear_add(&sum, x, 1);
    return sum.failed ? NULL : bound_sum(box, &sum, side, always);
}

// A quotient by something that does not vary is monotone in what is divided, downward if the divisor is negative.
static Expr *bound_quotient(const Box *box, const Expr *x, Expr *number, Expr *divisor, Side side, bool always)
{
    Arena *const a = box->arena;
    if (varies(box, divisor)) return NULL;
    Expr *const least = bound(box, number, LEAST, always), *const most = bound(box, number, MOST, always);
    if (!least || !most) return NULL;
    const bool is_ceil = x->kind == E_MATH;
    const Range r = expr_range(divisor);
    divisor = expr_convert(a, DTYPE_INT, divisor);
    Expr *const one = is_ceil ? int_ceildiv(a, least, divisor) : expr_binary(a, X_DIV, least, divisor);
    Expr *const two = is_ceil ? int_ceildiv(a, most, divisor) : expr_binary(a, X_DIV, most, divisor);
    if (is_ceil || (r.has_lo && r.lo > 0)) return side == LEAST ? one : two;
    return side == LEAST ? int_min(a, one, two) : int_max(a, one, two);
}

// One term of a sum: the least or most it can be, NULL if that is not known.
static Expr *bound_atom(const Box *box, Expr *x, Side side, bool always)
{
    Arena *const a = box->arena;
    if (!varies(box, x)) return expr_convert(a, DTYPE_INT, x);
    const int index = find_index(box, x);
    if (index >= 0) return side == LEAST ? box->first[index] : box->last[index];
    Expr *found = NULL;
    if (x->kind == E_BINARY && x->op.op == X_DIV) found = bound_quotient(box, x, x->op.a, x->op.b, side, always);
    if (x->kind == E_MATH && x->math.fn == M_CEILDIV)
        found = bound_quotient(box, x, x->math.args[0], x->math.args[1], side, always);
    if (x->kind == E_MATH && (x->math.fn == M_MIN || x->math.fn == M_MAX)) {
        Expr *const p = bound(box, x->math.args[0], side, always), *const q = bound(box, x->math.args[1], side, always);
        if (p && q) found = x->math.fn == M_MIN ? int_min(a, p, q) : int_max(a, p, q);
    }
    if (x->kind == E_SELECT && !varies(box, x->select.cond)) {
        Expr *const p = bound(box, x->select.a, side, false), *const q = bound(box, x->select.b, side, false);
        if (p && q) found = expr_select(a, x->select.cond, p, q);
    }
    if (found) return found;
    const Range r = expr_range(x);
    if (side == LEAST ? r.has_lo : r.has_hi) return int_const(a, side == LEAST ? r.lo : r.hi);
    return NULL;
}

static bool bound_terms(const Box *box, const Linear *sum, Side side, bool always, Linear *total)
{
    *total = (Linear){ .constant = sum->constant };
    for (int i = 0; i < sum->n; i++) {
        const LinearTerm term = sum->terms[i];
        Expr *const one = bound_atom(box, (Expr *)term.atom,
                                     term.factor > 0 ? side
                                     : side == LEAST ? MOST
                                                     : LEAST,
                                     always);
        if (!one) return false;
        linear_add(total, one, term.factor);
    }
    return !total->failed;
}

static Expr *bound_sum(const Box *box, const Linear *sum, Side side, bool always)
{
    Linear total;
    return bound_terms(box, sum, side, always, &total) ? linear_expr(box->arena, &total, DTYPE_INT) : NULL;
}

// ---- conditions over the box

static Expr *unknown(const Box *box, Quantifier q) { return expr_bool(box->arena, q == ANYWHERE); }

// sum op 0 as it follows from the bounds of the variables in it: 1, 0, or -1 if it does not.
static int decide(ExprOp op, const Linear *sum)
{
    Linear negative = { .constant = -sum->constant, .n = sum->n, .failed = sum->failed || sum->constant == INT64_MIN };
    for (int i = 0; i < sum->n; i++) {
        negative.terms[i] = (LinearTerm){ sum->terms[i].atom, -sum->terms[i].factor };
        negative.failed |= sum->terms[i].factor == INT64_MIN;
    }
    const bool less = op == X_LT || op == X_LE; // as  -sum op' 0, so that one direction is left
    const Linear *const up = less ? &negative : sum, *const down = less ? sum : &negative;
    if (op == X_EQ || op == X_NE) return -1;
    const int64_t strict = op == X_LT || op == X_GT;
    return linear_at_least(up, strict) ? 1 : linear_at_least(down, 1 - strict) ? 0 : -1;
}

// sum op 0, written with what is subtracted on the other side; NULL if the sum is not known.
static Expr *against_zero(const Box *box, ExprOp op, const Linear *sum)
{
    Linear left = { 0 }, right = { 0 };
    if (sum->failed) return NULL;
    const int known = decide(op, sum);
    if (known >= 0) return expr_bool(box->arena, known);
    for (int i = 0; i < sum->n; i++) {
        const LinearTerm term = sum->terms[i];
        if (term.factor > 0) left.terms[left.n++] = term;
        else right.terms[right.n++] = (LinearTerm){ term.atom, -term.factor };
    }
    if (sum->constant > INT64_MIN)
        *(sum->constant > 0 ? &left.constant : &right.constant) = sum->constant > 0 ? sum->constant : -sum->constant;
    else left.constant = sum->constant;
    return expr_binary(box->arena, op, linear_expr(box->arena, &left, DTYPE_INT),
                       linear_expr(box->arena, &right, DTYPE_INT));
}

static Expr *comparison_holds(const Box *box, const Expr *x, Quantifier q, bool always)
{
    Arena *const a = box->arena;
    Linear difference = { 0 };
    if (!dtype_is_integer(x->op.a->type) || x->op.a->type == DTYPE_U64) return unknown(box, q);
    if (!may_move(x->op.a, always) || !may_move(x->op.b, always)) return unknown(box, q);
    linear_add(&difference, x->op.a, 1);
    linear_add(&difference, x->op.b, -1);
    if (difference.failed) return unknown(box, q);
    Linear lowest, highest, *const least = &lowest, *const most = &highest;
    least->failed |= !bound_terms(box, &difference, LEAST, always, least);
    most->failed |= !bound_terms(box, &difference, MOST, always, most);
    const bool any = q == ANYWHERE;
    Expr *answer = NULL, *p = NULL, *r = NULL;
    switch ((int)x->op.op) {
    case X_LT: answer = against_zero(box, X_LT, any ? least : most); break;
    case X_LE: answer = against_zero(box, X_LE, any ? least : most); break;
    case X_GT: answer = against_zero(box, X_GT, any ? most : least); break;
    case X_GE: answer = against_zero(box, X_GE, any ? most : least); break;
    case X_EQ:
        p = against_zero(box, any ? X_LE : X_EQ, least);
        r = against_zero(box, any ? X_GE : X_EQ, most);
        if (p && r) answer = expr_binary(a, X_AND, p, r);
        break;
    case X_NE:
        p = against_zero(box, any ? X_NE : X_GT, least);
        r = against_zero(box, any ? X_NE : X_LT, most);
        if (p && r) answer = expr_binary(a, X_OR, p, r);
        break;
    }
    return answer ? answer : unknown(box, q);
}

static Expr *holds(const Box *box, Expr *x, Quantifier q, bool always)
{
    Arena *const a = box->arena;
    if (!varies(box, x)) return may_move(x, always) ? x : unknown(box, q);
    if (x->kind == E_UNARY && x->op.op == X_NOT)
        return expr_unary(a, X_NOT, holds(box, x->op.a, q == ANYWHERE ? EVERYWHERE : ANYWHERE, always));
    if (x->kind != E_BINARY) return unknown(box, q);
    if (x->op.op == X_AND || x->op.op == X_OR)
        return expr_binary(a, x->op.op, holds(box, x->op.a, q, always), holds(box, x->op.b, q, false));
    return x->op.op >= X_LT && x->op.op <= X_NE ? comparison_holds(box, x, q, always) : unknown(box, q);
}

// ---- the statement

// s[i][j] = c ? v : s[i][j]  is  if (c) s[i][j] = v.
static bool open_select(Arena *a, TileOp **link)
{
    TileOp *const op = *link;
    if (op->kind != T_STORE || op->next || op->store.value->kind != E_SELECT) return false;
    Expr *const value = op->store.value;
    Expr **const own = op->store.subs;
    const Buffer *const b = op->store.buffer;
    for (int side = 0; side < 2; side++) {
        const Expr *const kept = side ? value->select.a : value->select.b;
        bool same = kept->kind == E_LOAD && kept->load.buffer == b;
        for (int d = 0; same && d < b->rank; d++) same = expr_equal(kept->load.subs[d], own[d]);
        if (!same) continue;
        op->store.value = side ? value->select.b : value->select.a;
        *link = NEW(a, TileOp, .kind = T_IF, .span = op->span, .next = op->next, .groups = op->groups,
                    .branch = { side ? expr_unary(a, X_NOT, value->select.cond) : value->select.cond, op, NULL });
        return true;
    }
    return false;
}

// The last op of a body if all before it are unchanging scalars, which are put into `cond` where it names them.
static TileOp *only_if(Arena *a, TileOp *body, Expr **cond)
{
    TileOp *op = body;
    while (op && op->kind == T_LET && op->let.value && !op->let.var->assigned && expr_is_pure(op->let.value))
        op = op->next;
    if (!op || op->next || op->kind != T_IF) return NULL;
    *cond = op->branch.cond;
    // Later scalars may use earlier ones: replaced until none is left.
    for (bool changed = true; changed;) {
        changed = false;
        for (TileOp *let = body; let != op; let = let->next) {
            Expr *const next = expr_replace(a, *cond, let->let.var, let->let.value);
            changed |= next != *cond;
            *cond = next;
        }
    }
    return op;
}

static int count_ops(const TileOp *op)
{
    int n = 0;
    for (; op; op = op->next) {
        n++;
        TileOp **body;
        for (int i = 0; (body = tile_bodies((TileOp *)op, i)) != NULL; i++) n += count_ops(*body);
    }
    return n;
}

static void note_tensor(const TileUse *use, void *context)
{
    *(bool *)context |= buffer_root(use->buffer)->kind == BUFFER_TENSOR;
}

static bool touches_tensors(TileOp *op)
{
    bool found = false;
    for (; op; op = op->next) {
        tile_uses(op, note_tensor, &found);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) found |= touches_tensors(*body);
    }
    return found;
}

static bool make_box(const TileOp *op, Arena *a, Box *box)
{
    *box = (Box){ .arena = a };
    if (op->forall.n > BOX_MAX) return false;
    for (int i = 0; i < op->forall.n; i++) {
        const LoopIndex *const index = &op->forall.indices[i];
        if (index->var->type != DTYPE_INT || !expr_is_pure(index->lo) || !expr_is_pure(index->hi)) return false;
        if (varies(box, index->lo) || varies(box, index->hi)) return false;
        box->vars[i] = index->var;
        box->first[i] = index->lo;
        box->last[i] = int_sub(a, index->hi, int_const(a, 1));
        box->n++;
    }
    return true;
}

static TileOp *guard(Arena *a, const TileOp *at, Expr *cond, TileOp *then, TileOp *otherwise)
{
    return NEW(a, TileOp, .kind = T_IF, .span = at->span, .next = at->next, .groups = at->groups, .stage = at->stage,
               .branch = { cond, then, otherwise });
}

static TileOp *alone(TileOp *op)
{
    op->next = NULL;
    op->stage = 0; // what is nested has no stage of its own
    return op;
}

// A copy of the forall with its inner test replaced by one of its sides; NULL if that side is empty.
static TileOp *with_side(TileKernel *k, const TileOp *forall, bool then)
{
    TileOp whole = *forall;
    whole.next = NULL;
    TileOp *const copy = tile_copy_block(k, &whole);
    TileOp **link = &copy->forall.body;
    while ((*link)->kind != T_IF || (*link)->next) link = &(*link)->next;
    TileOp *const side = then ? (*link)->branch.then : (*link)->branch.otherwise;
    *link = side;
    return side ? alone(copy) : NULL;
}

// Whether the forall could be split, which changed *link.
static bool split_test(TileKernel *k, TileOp **link)
{
    Arena *const a = k->arena;
    TileOp *const op = *link;
    Box box;
    Expr *cond;
    TileOp *const test = only_if(a, op->forall.body, &cond);
    if (!test || !make_box(op, a, &box)) return false;
    Expr *const can = holds(&box, cond, ANYWHERE, true), *const must = holds(&box, cond, EVERYWHERE, true);
    int64_t known;
    const bool has_else = test->branch.otherwise != NULL;
    const bool can_known = expr_as_int(can, &known);
    if (can_known && !known && !has_else) { // never
        *link = op->next;
        return true;
    }
    const bool must_known = expr_as_int(must, &known);
    if (must_known && known) { // always: no test at all
        TileOp *const next = op->next, *const plain = with_side(k, op, true);
        *link = plain ? plain : next;
        if (plain) {
            plain->next = next;
            plain->stage = op->stage;
        }
        return true;
    }
    const bool worth_must =
        !must_known && touches_tensors(test->branch.then) && count_ops(op->forall.body) <= SPLIT_MAX_OPS;
    if (can_known && !worth_must) return false;
    if (has_else && count_ops(op->forall.body) > SPLIT_MAX_OPS) return false;
    TileOp *const when_not = has_else && !can_known ? with_side(k, op, false) : NULL;
    TileOp *const when_must = worth_must ? with_side(k, op, true) : NULL;
    TileOp outer = *op;
    TileOp *inner = alone(op);
    if (when_must) inner = guard(a, inner, must, when_must, inner);
    if (!can_known) {
        *link = guard(a, &outer, can, inner, when_not);
    } else {
        inner->next = outer.next;
        inner->stage = outer.stage;
        *link = inner;
    }
    return true;
}

static void split_forall(TileKernel *k, TileOp **link)
{
    TileOp *const op = *link, *const body = op->forall.body;
    if (!body) return;
    const TileOp before = *body;
    const bool opened = open_select(k->arena, &op->forall.body);
    if (split_test(k, link) || !opened) return;
    *body = before; // a select without branches suits vectors better
    op->forall.body = body;
}

static void split_block(TileKernel *k, TileOp **link)
{
    for (; *link; link = &(*link)->next) {
        if ((*link)->kind == T_FORALL) {
            TileOp *const before = *link;
            split_forall(k, link);
            if (!*link) return;
            if (*link == before->next) { // it went: look at what took its place
                split_block(k, link);
                return;
            }
            continue;
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(*link, i)) != NULL; i++) split_block(k, body);
    }
}

void split_bounds(TileKernel *kernel)
{
    if (kernel->checked) return; // every access keeps its own test there
    split_block(kernel, &kernel->body);
}
