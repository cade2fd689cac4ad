// SPDX-License-Identifier: MIT
// cut.c - tiles that a tensor's edge cuts, where products alone read them.
//
// Such a tile needs no copy: packing reads what is inside and writes zeros for the rest (prelude/matmul.c), and the
// product takes as many steps along k as one of its sides has. Rows of the sums from the edge on get nothing but zero
// times something; they are left out where nothing shows them, for a NaN may stand on the other side: where all that
// is done with the sums keeps rows apart, and stores end at the same edge.
#include "lower/cpu/cpu.h"

// ---- what of a tile is inside

static bool is_one(const Expr *x)
{
    int64_t value;
    return x && expr_as_int(x, &value) && value == 1;
}

enum { NO_AXIS = -1, OTHER_CHECK = -2 };

// The axis that a check runs along one by one; NO_AXIS: a place that is the same for the whole slice.
static int edge_axis(const Place *p, const PlaceCheck *c)
{
    int axis = NO_AXIS;
    for (int a = 0; a < p->n_axes; a++) {
        if (!c->at.coef[a]) continue;
        if (axis >= 0 || !is_one(c->at.coef[a])) return OTHER_CHECK;
        axis = a;
    }
    return axis;
}

// Notes in t which edges cut what is copied into it; false if they are more than one for an axis.
static bool note_edges(TileInfo *t, const Place *src)
{
    const PlaceCheck *edges[2] = { NULL, NULL };
    if (src->by_elements || src->n_axes != 2) return false;
    for (int i = 0; i < src->checks.count; i++) {
        const PlaceCheck *const c = &src->checks.items[i];
        const int axis = edge_axis(src, c);
        if (axis == NO_AXIS) continue;
        if (axis < 0 || edges[axis]) return false;
        edges[axis] = c;
    }
    for (int a = 0; a < 2; a++) {
        Expr *const begin = edges[a] ? edges[a]->at.base : NULL, *const extent = edges[a] ? edges[a]->extent : NULL;
        if (t->counts && (!begin != !t->begin[a] ||
                          (begin && (!expr_equal(begin, t->begin[a]) || !expr_equal(extent, t->extent[a])))))
            return false;
        t->begin[a] = begin;
        t->extent[a] = extent;
    }
    return t->counts = true;
}

typedef struct Survey {
    Cpu *cx;
    bool *refused;
} Survey;

static void refuse(const TileUse *use, void *context)
{
    const Survey *const s = context;
    s->refused[buffer_root(use->buffer)->id] = true;
}

static bool takes_whole(const Operand *o)
{
    return buffer_is_tile(o->region.buffer) && o->region.buffer->rank == 2 && region_is_whole(&o->region);
}

static void survey_product(Survey *s, TileOp *op)
{
    const Operand *const sides[] = { &op->matmul.a, &op->matmul.b };
    s->refused[buffer_root(op->matmul.dst.buffer)->id] = true;
    if (op->matmul.meta) s->refused[buffer_root(op->matmul.meta)->id] = true;
    for (int i = 0; i < 2; i++)
        if (!takes_whole(sides[i]) || !cpu_product_may_cut(s->cx, op, sides[i]))
            s->refused[buffer_root(sides[i]->region.buffer)->id] = true;
}

static void survey(Survey *s, TileOp *op, bool in_forall)
{
    for (; op; op = op->next) {
        Place src;
        if (op->kind == T_MATMUL) survey_product(s, op);
        else if (op->kind != T_COPY || in_forall || !cpu_can_lend(s->cx, op)) tile_uses(op, refuse, s);
        else if (!cpu_place_region(s->cx, &src, &op->copy.src) ||
                 !note_edges(&s->cx->tiles[op->copy.dst.buffer->id], &src))
            s->refused[op->copy.dst.buffer->id] = true;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) survey(s, *body, in_forall || op->kind == T_FORALL);
    }
}

// Gives each tile that products alone read variables for how much of it is inside.
void cpu_find_cut(Cpu *cx)
{
    const int n = cx->kernel->n_buffers + 1;
    Survey s = { cx, NEW_ARRAY(cx->arena, bool, n) };
    survey(&s, cx->kernel->body, false);
    for (int i = 0; i < n; i++) {
        TileInfo *const t = &cx->tiles[i];
        t->counts = t->counts && t->declared && !s.refused[i] && (t->begin[0] || t->begin[1]);
        for (int a = 0; a < 2 && t->counts; a++)
            if (t->begin[a]) t->there[a] = cpu_declare(cx, DTYPE_INT, "there", int_const(cx->arena, 0));
    }
}

// Whether nothing but ends of axes is outside of what is copied; NULL: always.
static Expr *ends_alone(Cpu *cx, const Place *src)
{
    Arena *const a = cx->arena;
    Expr *all = NULL;
    for (int i = 0; i < src->checks.count; i++) {
        const PlaceCheck *const c = &src->checks.items[i];
        const Range known = expr_range(c->at.base);
        Expr *const begin = cpu_expr(cx, c->at.base);
        if (!known.has_lo || known.lo < 0) all = cpu_both(cx, all, expr_binary(a, X_GE, begin, int_const(a, 0)));
        if (edge_axis(src, c) == NO_AXIS) all = cpu_both(cx, all, expr_binary(a, X_LT, begin, cpu_expr(cx, c->extent)));
    }
    return all;
}

// At a copy of src into it. Returns whether what is inside begins where the tile does, and is zeros beyond; otherwise,
// and if that is not NULL, all of the tile is to be filled, and counts.
Expr *cpu_count_there(Cpu *cx, const TileInfo *t, const Place *src)
{
    if (!t->counts) return NULL;
    Expr *ends = ends_alone(cx, src);
    if (ends) ends = cpu_of(cx, cpu_declare(cx, DTYPE_BOOL, "ends", ends));
    for (int a = 0; a < 2; a++) {
        if (!t->there[a]) continue;
        Expr *const width = cpu_expr(cx, src->widths[a]);
        Expr *const inside =
            cpu_call(cx, DTYPE_INT, "kiln_max_int", 2, int_const(cx->arena, 0),
                     cpu_call(cx, DTYPE_INT, "kiln_min_int", 2, width,
                              int_sub(cx->arena, cpu_expr(cx, t->extent[a]), cpu_expr(cx, t->begin[a]))));
        cpu_assign(cx, t->there[a], ends ? expr_select(cx->arena, ends, inside, width) : inside);
    }
    return ends;
}

// ---- sums whose rows nothing shows

typedef struct Shown {
    Cpu *cx;
    int axis;
    Expr *begin, *extent;
    bool *hidden;         // by buffer id: tiles that hold what rows become
    bool more;            // there are new ones
    const Var *at[2];     // in a forall: what all their subscripts are
    int uses;             // of them
    bool elsewhere;       // in a forall: something else is written, or not at `at`
    VEC(const Var *) own; // declared in the forall
    VEC(TileOp *) lets;   // of the kernel, as they come
} Shown;

static bool is_declared_in_loop(TileOp *op, const Var *var, bool in_loop)
{
    for (; op; op = op->next) {
        if (in_loop && op->kind == T_LET && op->let.var == var) return true;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (is_declared_in_loop(*body, var, in_loop || op->kind != T_IF)) return true;
    }
    return false;
}

typedef struct Setting {
    const Var *var;
    const Buffer *sums;
    bool sums_begin; // they have been used
} Setting;

static void see_sums(const TileUse *use, void *context)
{
    Setting *const s = context;
    s->sums_begin |= buffer_root(use->buffer) == s->sums;
}

// Whether the variable gets another value in a loop, or once the sums have begun.
static bool is_set_late(Setting *s, TileOp *op, bool in_loop)
{
    for (; op; op = op->next) {
        const bool sets =
            (op->kind == T_SET && op->let.var == s->var) || (op->kind == T_UPDATE && op->update.var == s->var);
        if (sets && (in_loop || s->sums_begin)) return true;
        tile_uses(op, see_sums, s);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (is_set_late(s, *body, in_loop || op->kind != T_IF)) return true;
    }
    return false;
}

typedef struct Steady {
    const Cpu *cx;
    const Buffer *sums;
} Steady;

// A place that is not the same from the first use of the sums to the end of an instance.
static bool is_unsteady(const Expr *x, void *context)
{
    const Steady *const s = context;
    if (x->kind != E_VAR) return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL;
    const Var *const var = x->var.var;
    TileOp *const body = s->cx->kernel->body;
    return var->kind == VAR_INDEX || (var->kind == VAR_LOCAL && is_declared_in_loop(body, var, false)) ||
           (var->assigned && is_set_late(&(Setting){ var, s->sums, false }, body, false));
}

static bool says_equal(const Expr *cond, const Expr *x, const Expr *y)
{
    if (cond->kind != E_BINARY) return false;
    const Expr *const a = cond->op.a, *const b = cond->op.b;
    if (cond->op.op == X_AND) return says_equal(a, x, y) || says_equal(b, x, y);
    return cond->op.op == X_EQ && ((expr_equal(a, x) && expr_equal(b, y)) || (expr_equal(a, y) && expr_equal(b, x)));
}

// The same number, or the launch says so.
static bool are_equal(const Cpu *cx, const Expr *x, const Expr *y)
{
    if (expr_equal(x, y)) return true;
    for (int i = 0; i < cx->kernel->n_requires; i++)
        if (says_equal(cx->kernel->requires[i].cond, x, y)) return true;
    return false;
}

static void count_use(const TileUse *use, void *context)
{
    Shown *const s = context;
    if (s->hidden[buffer_root(use->buffer)->id]) s->uses++;
}

// The same number, where one may be named by scalars of the kernel.
static bool is_named(const Shown *s, Expr *x, const Expr *y)
{
    for (int i = s->lets.count - 1; i >= 0 && !expr_equal(x, y); i--) {
        const TileOp *const let = s->lets.items[i];
        x = expr_replace(s->cx->arena, x, let->let.var, let->let.value);
    }
    return expr_equal(x, y);
}

static bool ends_at_edge(Shown *s, const Region *dst)
{
    Place p;
    if (!cpu_place_region(s->cx, &p, dst) || p.by_elements || p.n_axes != 2) return false;
    for (int i = 0; i < p.checks.count; i++) {
        const PlaceCheck *const c = &p.checks.items[i];
        if (edge_axis(&p, c) == s->axis && is_named(s, c->at.base, s->begin) && are_equal(s->cx, c->extent, s->extent))
            return true;
    }
    return false;
}

// How many uses of hidden tiles an op has that keep them so.
static int harmless_uses(Shown *s, TileOp *op)
{
    if (op->kind == T_FILL || op->kind == T_MATMUL) {
        const Region *const dst = op->kind == T_FILL ? &op->fill.dst : &op->matmul.dst;
        return s->hidden[dst->buffer->id] && region_is_whole(dst);
    }
    if (op->kind != T_COPY) return 0;
    Buffer *const dst = op->copy.dst.buffer, *const src = op->copy.src.buffer;
    const bool from = s->hidden[src->id] && region_is_whole(&op->copy.src);
    if (!buffer_is_tile(dst)) return from && ends_at_edge(s, &op->copy.dst);
    if (from && !s->hidden[dst->id] && region_is_whole(&op->copy.dst) && dst->rank == 2)
        s->hidden[dst->id] = s->more = true;
    return from + (s->hidden[dst->id] && region_is_whole(&op->copy.dst));
}

static void see_element(const TileUse *use, void *context)
{
    Shown *const s = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (!s->hidden[root->id]) {
        s->elsewhere |= use->writes && root->kind != BUFFER_LOCAL;
        return;
    }
    s->uses++;
    for (int a = 0; a < 2; a++) {
        const Expr *const sub = use->subs && use->buffer == root ? use->subs[a] : NULL;
        const Var *const var = sub && sub->kind == E_VAR ? sub->var.var : NULL;
        s->elsewhere |= !var || var->kind != VAR_INDEX || (s->at[a] && s->at[a] != var);
        s->at[a] = var;
    }
}

static bool is_own(const Shown *s, const Var *var)
{
    for (int i = 0; i < s->own.count; i++)
        if (s->own.items[i] == var) return true;
    return false;
}

static void see_elements(Shown *s, TileOp *op)
{
    for (; op; op = op->next) {
        tile_uses(op, see_element, s);
        if (op->kind == T_LET) VEC_PUSH(s->cx->arena, &s->own, op->let.var);
        else if (op->kind == T_SET) s->elsewhere |= !is_own(s, op->let.var);
        else if (op->kind == T_UPDATE) s->elsewhere |= op->update.var && !is_own(s, op->update.var);
        else s->elsewhere |= op->kind != T_STORE && op->kind != T_IF && op->kind != T_FOR && op->kind != T_TILE;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) see_elements(s, *body);
    }
}

static bool keeps_apart(Shown *s, TileOp *op)
{
    s->at[0] = s->at[1] = NULL;
    s->uses = s->own.count = 0;
    s->elsewhere = false;
    see_elements(s, op->forall.body);
    return s->uses == 0 || (!s->elsewhere && s->at[0] != s->at[1]);
}

static bool keeps_hidden(Shown *s, TileOp *op)
{
    for (; op; op = op->next) {
        s->uses = 0;
        tile_uses(op, count_use, s);
        if (s->uses != harmless_uses(s, op)) return false;
        if (op->kind == T_LET && op->let.value && !op->let.var->assigned) VEC_PUSH(s->cx->arena, &s->lets, op);
        if (op->kind == T_FORALL) {
            if (!keeps_apart(s, op)) return false;
            continue;
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (!keeps_hidden(s, *body)) return false;
    }
    return true;
}

// Whether nothing shows rows (axis 0) or columns (1) of the product's sums from the edge of its side on.
bool cpu_hides_sums(Cpu *cx, const TileOp *product, int axis, const TileInfo *side, int side_axis)
{
    Buffer *const sums = product->matmul.dst.buffer;
    Shown s = { .cx = cx, .axis = axis, .begin = side->begin[side_axis], .extent = side->extent[side_axis] };
    if (!s.begin || !product->matmul.accumulate || !region_is_whole(&product->matmul.dst) || !buffer_is_tile(sums) ||
        expr_any(s.begin, is_unsteady, &(Steady){ cx, buffer_root(sums) }))
        return false;
    s.hidden = NEW_ARRAY(cx->arena, bool, cx->kernel->n_buffers + 1);
    s.hidden[sums->id] = true;
    do {
        s.more = false;
        s.lets.count = 0;
        if (!keeps_hidden(&s, cx->kernel->body)) return false;
    } while (s.more);
    return true;
}
