// SPDX-License-Identifier: MIT
// im2col.c - foralls that gather rows by a merged index become copies that the tensor memory accelerator walks.
//
//     a[i][j] = X[p / OW / OH][p / OW % OH * stride - pad + kh*dilation][p % OW * stride - pad + kw*dilation][c*64 + j]
//
// with p = m*128 + i: the subscripts are p's digits, the fastest last, each times a step, plus what is the same for all
// rows. Of that, what the launch knows is where a dimension's walk begins; what depends on loop indices moves all rows.
//
// before: slices in foralls are indices, symbols and coordinates have bounds, no operation is noted
// after:  such a forall is a copy with an Im2col, whose region begins at its first row; the first row's digits are
//         scalars before the loops in which they are the same. The copy as a map is the forall as it was.
#include "lower/gpu/facts/im2col.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/decide/analyses.h"

enum { FACTORS_MAX = 8, TERMS_MAX = 8, LOOPS_MAX = 16, PIXELS_MAX = 1024 };

// ---- products of numbers that the launch knows

typedef struct Factors {
    int64_t constant;
    const Expr *x[FACTORS_MAX];
    int n;
} Factors;

static bool add_factors(Factors *f, const Expr *x)
{
    int64_t value;
    if (expr_as_int(x, &value)) return value > 0 && (f->constant *= value, true);
    if (x->kind == E_BINARY && x->op.op == X_MUL) return add_factors(f, x->op.a) && add_factors(f, x->op.b);
    if (f->n == FACTORS_MAX) return false;
    f->x[f->n++] = x;
    return true;
}

static bool add_all_factors(Factors *to, const Factors *from)
{
    if (to->n + from->n > FACTORS_MAX) return false;
    to->constant *= from->constant;
    for (int i = 0; i < from->n; i++) to->x[to->n++] = from->x[i];
    return true;
}

// Takes those of `divisor` away; false: it does not divide.
static bool divide_factors(Factors *f, const Factors *divisor)
{
    if (f->constant % divisor->constant != 0) return false;
    f->constant /= divisor->constant;
    for (int i = 0; i < divisor->n; i++) {
        int at = 0;
        while (at < f->n && !expr_equal(f->x[at], divisor->x[i])) at++;
        if (at == f->n) return false;
        f->x[at] = f->x[--f->n];
    }
    return true;
}

static bool are_same_factors(Factors a, const Factors *b)
{
    return divide_factors(&a, b) && a.n == 0 && a.constant == 1;
}

static Expr *product_of(Arena *arena, const Factors *f)
{
    Expr *product = int_const(arena, f->constant);
    for (int i = 0; i < f->n; i++) product = int_mul(arena, product, (Expr *)f->x[i]);
    return product;
}

// ---- digits: p / by % count

typedef struct Digit {
    Expr *p;
    Factors by, count;
    bool has_count; // else it is the highest
} Digit;

typedef struct Match {
    Lowering *lo;
    const TileOp *forall;
    Var *row, *column;
    Expr *p; // the merged index; NULL: not seen yet
} Match;

static bool is_unknown_at_launch(const Expr *x, void *context)
{
    (void)context;
    return (x->kind == E_VAR && x->var.var->kind != VAR_SYMBOL && x->var.var->kind != VAR_ARGUMENT) ||
           x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL;
}

static bool is_known_at_launch(const Expr *x) { return !expr_any(x, is_unknown_at_launch, NULL); }

static bool divide_digit(Digit *digit, const Expr *divisor)
{
    Factors by = { .constant = 1 };
    return is_known_at_launch(divisor) && add_factors(&by, divisor) &&
           (!digit->has_count || divide_factors(&digit->count, &by)) && add_all_factors(&digit->by, &by);
}

// x % a % b is x % b where b divides a.
static bool limit_digit(Digit *digit, const Expr *count)
{
    Factors factors = { .constant = 1 }, before = digit->count;
    if (!is_known_at_launch(count) || !add_factors(&factors, count) ||
        (digit->has_count && !divide_factors(&before, &factors)))
        return false;
    digit->count = factors;
    digit->has_count = true;
    return true;
}

static bool match_digit(const Match *m, Expr *x, Digit *digit)
{
    if (x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD))
        return match_digit(m, x->op.a, digit) &&
               (x->op.op == X_DIV ? divide_digit(digit, x->op.b) : limit_digit(digit, x->op.b));
    int64_t coefficient;
    Expr *rest;
    *digit = (Digit){ .p = x, .by = { .constant = 1 } };
    return expr_affine(m->lo->arena, x, &m->row, 1, &coefficient, &rest) && coefficient == 1 &&
           !expr_uses(rest, m->row) && expr_at_least(x, int_const(m->lo->arena, 0));
}

// ---- a subscript: digit*step + what is the same for all rows

typedef struct Term {
    Expr *x;
    bool minus;
} Term;
typedef struct Terms {
    Term list[TERMS_MAX];
    int n;
} Terms;

static bool add_terms(Terms *terms, Expr *x, bool minus)
{
    if (x->kind == E_BINARY && (x->op.op == X_ADD || x->op.op == X_SUB))
        return add_terms(terms, x->op.a, minus) && add_terms(terms, x->op.b, minus != (x->op.op == X_SUB));
    if (terms->n == TERMS_MAX) return false;
    terms->list[terms->n++] = (Term){ x, minus };
    return true;
}

static Expr *add_term(Arena *a, Expr *sum, const Term *term)
{
    return term->minus ? int_sub(a, sum, term->x) : int_add(a, sum, term->x);
}

static bool match_step(const Match *m, Expr *x, Digit *digit, Expr **step)
{
    *step = int_const(m->lo->arena, 1);
    if (x->kind == E_BINARY && x->op.op == X_MUL) {
        const bool left = expr_uses(x->op.a, m->row);
        *step = left ? x->op.b : x->op.a;
        x = left ? x->op.a : x->op.b;
    }
    return is_known_at_launch(*step) && match_digit(m, x, digit);
}

// v or v*factor, where v is a loop's index: between its value at both ends. Counted down, from the end on.
static bool add_offset(const Match *m, Walked *w, const Term *term)
{
    Arena *const a = m->lo->arena;
    const Expr *const x = term->x;
    const Expr *v = x;
    if (x->kind == E_BINARY && x->op.op == X_MUL) v = is_known_at_launch(x->op.a) ? x->op.b : x->op.a;
    if (v->kind != E_VAR || v->var.var->kind != VAR_INDEX || !v->var.var->lo || !v->var.var->hi) return false;
    Var *const var = v->var.var;
    Expr *const low = expr_replace(a, term->x, var, var->lo), *const high = expr_replace(a, term->x, var, var->hi);
    if (!is_known_at_launch(low) || !is_known_at_launch(high)) return false;
    Expr *const zero = int_const(a, 0);
    w->offset = w->offset ? w->offset : zero;
    w->least = w->least ? w->least : zero;
    w->most = w->most ? w->most : zero;
    w->offset = int_add(a, w->offset, term->minus ? int_sub(a, high, term->x) : term->x);
    w->least = int_add(a, w->least, term->minus ? zero : low);
    w->most = int_add(a, w->most, term->minus ? int_sub(a, high, low) : high);
    if (term->minus) w->first = int_sub(a, w->first, high);
    return true;
}

static bool match_subscript(const Match *m, Expr *sub, Digit *digit, Walked *w)
{
    Arena *const a = m->lo->arena;
    Terms terms = { 0 };
    bool found = false;
    *w = (Walked){ .first = int_const(a, 0) };
    if (!add_terms(&terms, sub, false)) return false;
    for (int i = 0; i < terms.n; i++) {
        const Term *const term = &terms.list[i];
        if (expr_uses(term->x, m->row)) {
            if (found || term->minus || !match_step(m, term->x, digit, &w->step)) return false;
            found = true;
        } else if (is_known_at_launch(term->x)) {
            w->first = add_term(a, w->first, term);
        } else if (!add_offset(m, w, term)) {
            return false;
        }
    }
    return found;
}

// The outermost subscript is not limited: it is its digit, and anything that is the same for all rows.
static bool match_outermost(const Match *m, Expr *sub, Digit *digit, Expr **base)
{
    Arena *const a = m->lo->arena;
    Terms terms = { 0 };
    bool found = false;
    *base = int_const(a, 0);
    if (!add_terms(&terms, sub, false)) return false;
    for (int i = 0; i < terms.n; i++) {
        const Term *const term = &terms.list[i];
        if (!expr_uses(term->x, m->row)) {
            *base = add_term(a, *base, term);
        } else {
            if (found || term->minus || !match_digit(m, term->x, digit)) return false;
            found = true;
        }
    }
    return found && !digit->has_count;
}

// ---- a gather

typedef struct Gather {
    const TileOp *store;
    Expr *value, *start[MAX_RANK]; // of the first row
    Im2col im2col;
} Gather;

// What scalars that are set once stand for.
typedef struct Scalar {
    const Var *var;
    Expr *value;
} Scalar;

static bool find_scalar(Lowering *lo, TileOp *op, void *context)
{
    Scalar *const scalar = context;
    if (op->kind == T_LET && op->let.var == scalar->var) scalar->value = op->let.value;
    return false;
}

static bool is_assigned(const Expr *x, void *context)
{
    return x->kind == E_LOAD || (x->kind == E_VAR && x->var.var->assigned);
}

static Expr *replace_scalar(Expr *x, void *context)
{
    Lowering *const lo = context;
    if (x->kind != E_VAR || x->var.var->kind != VAR_LOCAL || x->var.var->assigned) return x;
    Scalar scalar = { x->var.var, NULL };
    each_op(lo, lo->kernel->body, find_scalar, &scalar);
    if (!scalar.value || expr_any(scalar.value, is_assigned, NULL)) return x;
    return expr_map(lo->arena, scalar.value, replace_scalar, lo);
}

static const TileOp *only_store(const TileOp *body)
{
    while (body && body->kind == T_LET) body = body->next;
    return body && body->kind == T_STORE && !body->next ? body : NULL;
}

static bool is_whole_tile(const TileOp *forall, const TileOp *store)
{
    const Buffer *const tile = store->store.buffer;
    for (int d = 0; d < 2; d++) {
        const LoopIndex *const index = &forall->forall.indices[d];
        const Expr *const sub = store->store.subs[d];
        int64_t extent;
        if (sub->kind != E_VAR || sub->var.var != index->var || !full_extent(index, &extent) ||
            !expr_is_int(tile->shape[d], extent))
            return false;
    }
    return true;
}

static bool may_gather(Lowering *lo, const TileOp *forall, Gather *gather)
{
    const TileOp *const store = gather->store = only_store(forall->forall.body);
    if (!store || forall->groups || forall->forall.n != 2 || store->store.value->kind != E_LOAD) return false;
    const Buffer *const tile = store->store.buffer, *const tensor = store->store.value->load.buffer;
    return tile->kind == BUFFER_SHARED && tile->rank == 2 && tile->hint == HINT_NONE && tile->type == tensor->type &&
           tensor->kind == BUFFER_TENSOR && tensor->access == ACCESS_IN && !tensor->strided && tensor->rank >= 3 &&
           tensor->rank <= BOX_RANK && dtype_bits(tensor->type) >= 8 && is_whole_tile(forall, store);
}

static bool match_columns(Match *m, Expr *sub, Expr **start)
{
    int64_t coefficient;
    return expr_affine(m->lo->arena, sub, &m->column, 1, &coefficient, start) && coefficient == 1 &&
           !expr_uses(*start, m->column) && !expr_uses(*start, m->row);
}

// The digit of the first row.
static Expr *first_digit(const Match *m, const Digit *digit, Expr *p)
{
    Arena *const a = m->lo->arena;
    Expr *const by = product_of(a, &digit->by);
    Expr *const quotient = expr_is_int(by, 1) ? p : expr_binary(a, X_DIV, p, by);
    return digit->has_count ? expr_binary(a, X_MOD, quotient, product_of(a, &digit->count)) : quotient;
}

static bool match_rows(Match *m, Expr *const *subs, int rank, Gather *gather)
{
    Arena *const a = m->lo->arena;
    Factors faster = { .constant = 1 };
    gather->im2col.n = rank - 2;
    for (int d = rank - 2; d >= 0; d--) {
        Digit digit;
        Expr *base = NULL;
        Walked *const w = d ? &gather->im2col.walked[rank - 2 - d] : NULL;
        if (!(w ? match_subscript(m, subs[d], &digit, w) : match_outermost(m, subs[d], &digit, &base))) return false;
        m->p = m->p ? m->p : digit.p;
        if (!expr_equal(digit.p, m->p) || !are_same_factors(digit.by, &faster)) return false;
        if (w && (!digit.has_count || !add_all_factors(&faster, &digit.count))) return false;
        Expr *const first = first_digit(m, &digit, expr_replace(a, m->p, m->row, int_const(a, 0)));
        if (w) w->count = product_of(a, &digit.count);
        gather->start[d] = w ? int_add(a, w->first, int_mul(a, first, w->step)) : int_add(a, base, first);
    }
    return true;
}

static bool match_gather(Lowering *lo, const TileOp *forall, Gather *gather)
{
    if (!may_gather(lo, forall, gather)) return false;
    const Expr *const load = gather->store->store.value;
    const int rank = load->load.buffer->rank;
    Match m = { .lo = lo,
                .forall = forall,
                .row = forall->forall.indices[0].var,
                .column = forall->forall.indices[1].var };
    Expr *subs[MAX_RANK];
    int64_t rows, columns;
    for (int d = 0; d < rank; d++) {
        subs[d] = expr_map(lo->arena, load->load.subs[d], replace_scalar, lo);
        if (expr_loads(subs[d]) || (d < rank - 1 && expr_uses(subs[d], m.column))) return false;
    }
    full_extent(&forall->forall.indices[0], &rows);
    full_extent(&forall->forall.indices[1], &columns);
    gather->im2col.rows = (int)rows;
    gather->im2col.columns = (int)columns;
    return rows <= PIXELS_MAX && match_columns(&m, subs[rank - 1], &gather->start[rank - 1]) &&
           match_rows(&m, subs, rank, gather);
}

// ---- before which loop the first row is worked out

typedef struct Loops {
    TileOp **link[LOOPS_MAX]; // outermost first
    int n;
} Loops;

static bool is_index_of(const TileOp *loop, const Var *var)
{
    if (loop->kind == T_FOR) return loop->for_.var == var;
    for (int i = 0; loop->kind == T_PIPELINE && i < loop->pipeline.n; i++)
        if (loop->pipeline.indices[i].var == var) return true;
    return false;
}

typedef struct Inside {
    Lowering *lo;
    TileOp *loop;
} Inside;

static bool depends_on_loop(const Expr *x, void *context)
{
    const Inside *const inside = context;
    if (x->kind != E_VAR || x->var.var->kind == VAR_SYMBOL || x->var.var->kind == VAR_ARGUMENT ||
        x->var.var->kind == VAR_GRID)
        return false;
    if (x->var.var->kind == VAR_INDEX) return is_index_of(inside->loop, x->var.var);
    return true; // a scalar: wherever it is set
}

static TileOp **place_before(Lowering *lo, const Loops *loops, const Expr *x, TileOp **here)
{
    for (int i = loops->n - 1; i >= 0; i--) {
        Inside inside = { lo, *loops->link[i] };
        if (expr_any(x, depends_on_loop, &inside)) break;
        here = loops->link[i];
    }
    return here;
}

// A scalar for x before the outermost loop in which it is the same. The links of loops inside stay those of their ops.
static Expr *hoist(Lowering *lo, Loops *loops, Expr *x, TileOp **here)
{
    if (expr_is_const(x) || x->kind == E_VAR) return x;
    TileOp **const link = place_before(lo, loops, x, here);
    const Range range = expr_range(x);
    Var *const var = tile_new_var(lo->kernel, VAR_LOCAL, DTYPE_INT, "first", x->span);
    if (range.has_lo) var->lo = int_const(lo->arena, range.lo);
    if (range.has_hi) var->hi = int_const(lo->arena, range.hi);
    TileOp *const let = NEW(lo->arena, TileOp, .kind = T_LET, .span = (*link)->span, .next = *link);
    let->let.var = var;
    let->let.value = x;
    *link = let;
    for (int i = 0; i < loops->n; i++)
        if (loops->link[i] == link) loops->link[i] = &let->next;
    return expr_var(lo->arena, var);
}

// ---- the copy

static void become_copy(Lowering *lo, TileOp *op, const Gather *gather)
{
    Arena *const a = lo->arena;
    Buffer *const tensor = gather->store->store.value->load.buffer;
    TileOp *const map = NEW(a, TileOp, .kind = T_FORALL);
    *map = *op;
    map->next = NULL;
    Region src = { .buffer = tensor, .subs = NEW_ARRAY(a, Sub, tensor->rank), .span = op->span };
    for (int d = 0; d < tensor->rank; d++) src.subs[d] = (Sub){ .start = gather->start[d] };
    src.subs[tensor->rank - 1].is_range = true;
    src.subs[tensor->rank - 1].width = int_const(a, gather->im2col.columns);
    op->kind = T_COPY;
    op->copy.dst = region_whole(a, gather->store->store.buffer, op->span);
    op->copy.src = src;
    Im2col *const im2col = NEW(a, Im2col, .rows = 0);
    *im2col = gather->im2col;
    op_info(lo, op)->im2col = im2col;
    op_info(lo, op)->map = map;
}

static void find_in_block(Lowering *lo, TileOp **link, Loops *loops);

static void find_in_loop(Lowering *lo, TileOp **link, Loops *loops)
{
    TileOp *const op = *link;
    TileOp **body;
    const bool is_loop = op->kind == T_FOR || op->kind == T_PIPELINE || op->kind == T_WHILE;
    if (is_loop && loops->n == LOOPS_MAX) return;
    if (is_loop) loops->link[loops->n++] = link;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) find_in_block(lo, body, loops);
    if (is_loop) loops->n--;
}

static void find_in_block(Lowering *lo, TileOp **link, Loops *loops)
{
    for (; *link; link = &(*link)->next) {
        TileOp *const op = *link;
        Gather gather = { 0 };
        if (op->kind != T_FORALL) {
            find_in_loop(lo, link, loops);
        } else if (loops->n && match_gather(lo, op, &gather)) {
            const int last = gather.store->store.value->load.buffer->rank - 1;
            for (int d = 0; d < last; d++) gather.start[d] = hoist(lo, loops, gather.start[d], link);
            become_copy(lo, op, &gather);
        }
        while (*link != op) link = &(*link)->next; // scalars have come before it
    }
}

void find_im2col(Lowering *lo)
{
    if (lo->gpu->tma && !lo->kernel->checked) find_in_block(lo, &lo->kernel->body, &(Loops){ .n = 0 });
}
