// SPDX-License-Identifier: MIT
// forall_copies.c - foralls that copy rows element by element become copies of slices, of boxes, or of rows that the tensor
// memory accelerator walks.
//
//     a[i][j] = X[n][y*8 + i / 16 * stride + kh][x*16 + i % 16 * stride + kw][c*64 + j]                          a box
//     a[i][j] = X[p / OW / OH][p / OW % OH * stride - pad + kh*dilation][p % OW * stride - pad + kw][c*64 + j]    walked
//     Y[n][y*8 + i / 16][x*16 + i % 16][f*128 + j] = acc[i][j]                                                   a slice
//
// with p = m*128 + i. The subscripts are components, the fastest last, each times a step, plus what is the same for all rows.
// Those of the row itself are the dimensions of a box. Those of a linear index are walked (facts/im2col.h): of what is the
// same for all rows, what the launch knows is where a dimension's walk begins; what depends on loop indices moves all rows.
//
// before: slices in foralls are indices, symbols and coordinates have bounds, no operation is noted
// after:  a forall that gathers is a copy to the whole tile, whose region is the box, or begins at the first row and has an
//         Im2col; the first row's components are scalars before the loops in which they are the same. A copy to a view that
//         gives a tile's rows several dimensions is a copy to the tile. A forall that stores all of a product's result is a
//         copy of it. A product's result that is stored to a view, is stored to the tensor under it (windows.c). The copy
//         as a map is the statement as it was.
#include "lower/gpu/facts/im2col.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/decide/copy/delinearize.h"
#include "lower/gpu/decide/copy/windows.h"

enum { LOOPS_MAX = 16, PIXELS_MAX = 1024 };

typedef struct Match {
    Lowering *lo;
    const TileOp *forall;
    Var *row, *column;
    Expr *p; // the linear index; NULL: not seen yet
} Match;

// ---- scalars

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

// ---- a subscript: component*step + what is the same for all rows

static bool find_loop_index(const Expr *x, void *context)
{
    Var **const found = context;
    if (x->kind == E_VAR && x->var.var->kind == VAR_INDEX) *found = x->var.var;
    return *found != NULL;
}

// Of component*factor, where the component is a loop index or one of its components: the values at both ends, if the factor is not
// negative.
static bool find_ends(Lowering *lo, Expr *x, Expr **low, Expr **high, Expr **factor)
{
    Arena *const a = lo->arena;
    Var *var = NULL;
    IndexComponent component;
    expr_any(x, find_loop_index, &var);
    if (!var || !match_step(a, x, var, &component, factor)) return false;
    Expr *const by = product_of(a, &component.by), *first = int_const(a, 0), *last;
    if (component.has_count) {
        last = int_sub(a, product_of(a, &component.count), int_const(a, 1));
    } else {
        if (!var->lo || !var->hi) return false;
        first = expr_binary(a, X_DIV, expr_replace(a, component.p, var, var->lo), by);
        last = expr_binary(a, X_DIV, expr_replace(a, component.p, var, var->hi), by);
    }
    *low = expr_map(a, int_mul(a, first, *factor), replace_scalar, lo);
    *high = expr_map(a, int_mul(a, last, *factor), replace_scalar, lo);
    return is_known_at_launch(*low) && is_known_at_launch(*high);
}

static Expr *at_least(Lowering *lo, Expr *test, Expr *x, Expr *y)
{
    return expr_at_least(x, y) ? test : both(lo, test, expr_binary(lo->arena, X_GE, x, y));
}

// Counted down it goes from the end on.
static bool add_offset(const Match *m, Walked *w, const Term *term)
{
    Arena *const a = m->lo->arena;
    Expr *const zero = int_const(a, 0), *low, *high, *factor;
    if (!find_ends(m->lo, term->x, &low, &high, &factor)) return false;
    w->offset = w->offset ? w->offset : zero;
    w->least = w->least ? w->least : zero;
    w->most = w->most ? w->most : zero;
    w->offset = int_add(a, w->offset, term->minus ? int_sub(a, high, term->x) : term->x);
    w->least = int_add(a, w->least, term->minus ? zero : low);
    w->most = int_add(a, w->most, term->minus ? int_sub(a, high, low) : high);
    if (term->minus) w->first = int_sub(a, w->first, high);
    w->rises = at_least(m->lo, at_least(m->lo, w->rises, factor, zero), high, low);
    return true;
}

static bool match_row(const Match *m, Expr *x, IndexComponent *component, Expr **step)
{
    return match_step(m->lo->arena, x, m->row, component, step) && component->coefficient == 1;
}

static bool match_subscript(const Match *m, Expr *sub, IndexComponent *component, Walked *w)
{
    Arena *const a = m->lo->arena;
    Terms terms = { 0 };
    bool found = false;
    *w = (Walked){ .first = int_const(a, 0) };
    if (!add_terms(&terms, sub, false)) return false;
    for (int i = 0; i < terms.n; i++) {
        const Term *const term = &terms.list[i];
        if (expr_uses(term->x, m->row)) {
            if (found || term->minus || !match_row(m, term->x, component, &w->step)) return false;
            found = true;
        } else if (is_known_at_launch(term->x)) {
            w->first = add_term(a, w->first, term);
        } else if (!add_offset(m, w, term)) {
            return false;
        }
    }
    return found;
}

// component*step, and anything that is the same for all rows.
static bool match_sum(const Match *m, Expr *sub, IndexComponent *component, Expr **step, Expr **same)
{
    Arena *const a = m->lo->arena;
    Terms terms = { 0 };
    bool found = false;
    *same = int_const(a, 0);
    if (!add_terms(&terms, sub, false)) return false;
    for (int i = 0; i < terms.n; i++) {
        const Term *const term = &terms.list[i];
        if (!expr_uses(term->x, m->row)) {
            *same = add_term(a, *same, term);
        } else {
            if (found || term->minus || !match_row(m, term->x, component, step)) return false;
            found = true;
        }
    }
    return found;
}

// The outermost subscript is not limited: it is its component, and anything that is the same for all rows.
static bool match_outermost(const Match *m, Expr *sub, IndexComponent *component, Expr **base)
{
    Expr *step;
    return match_sum(m, sub, component, &step, base) && expr_is_int(step, 1) && !component->has_count;
}

// ---- a gather

typedef struct Gather {
    const TileOp *store;
    const Expr *load;
    Expr *at[MAX_RANK]; // its subscripts, without scalars
    int64_t rows, columns;
    Sub subs[MAX_RANK];
    bool walks;
    Im2col im2col; // if it walks
} Gather;

// Without scalars, and with the columns apart.
static Expr *plain(Lowering *lo, const TileOp *forall, Expr *x)
{
    int64_t columns;
    Expr *const value = expr_map(lo->arena, x, replace_scalar, lo);
    return full_extent(&forall->forall.indices[1], &columns)
               ? split_columns(lo->arena, value, forall->forall.indices[1].var, columns)
               : value;
}

// Whether it holds wherever the element is in the tensor: a test of one of its subscripts.
static bool holds_inside(const Gather *gather, const Expr *test)
{
    if (test->kind != E_BINARY) return false;
    if (test->op.op == X_AND) return holds_inside(gather, test->op.a) && holds_inside(gather, test->op.b);
    const Buffer *const tensor = gather->load->load.buffer;
    for (int d = 0; d < tensor->rank; d++) {
        const Expr *const at = gather->at[d], *const a = test->op.a, *const b = test->op.b;
        if (test->op.op == X_GE && expr_equal(a, at) && expr_is_int(b, 0)) return true;
        if (test->op.op == X_LE && expr_equal(b, at) && expr_is_int(a, 0)) return true;
        if (test->op.op == X_LT && expr_equal(a, at) && expr_equal(b, tensor->shape[d])) return true;
        if (test->op.op == X_GT && expr_equal(b, at) && expr_equal(a, tensor->shape[d])) return true;
    }
    return false;
}

static bool is_zero(const Expr *x) { return x->kind == E_FLOAT ? x->real.value == 0 : expr_is_int(x, 0); }

// An element, or one where it is inside and else 0, which is what is outside.
static bool find_load(Lowering *lo, const TileOp *forall, Expr *value, Gather *gather)
{
    const bool tests = value->kind == E_SELECT && is_zero(value->select.b);
    gather->load = tests ? value->select.a : value;
    if (gather->load->kind != E_LOAD) return false;
    for (int d = 0; d < gather->load->load.buffer->rank; d++)
        gather->at[d] = plain(lo, forall, gather->load->load.subs[d]);
    return !tests || holds_inside(gather, plain(lo, forall, value->select.cond));
}

static const TileOp *only_store(const TileOp *body)
{
    while (body && body->kind == T_LET) body = body->next;
    return body && body->kind == T_STORE && !body->next ? body : NULL;
}

static bool covers_tile(const TileOp *forall, const Buffer *tile, Expr *const *subs)
{
    for (int d = 0; d < 2; d++) {
        const LoopIndex *const index = &forall->forall.indices[d];
        int64_t extent;
        if (subs[d]->kind != E_VAR || subs[d]->var.var != index->var || !full_extent(index, &extent) ||
            !expr_is_int(tile->shape[d], extent))
            return false;
    }
    return true;
}

static bool may_gather(Lowering *lo, const TileOp *forall, Gather *gather)
{
    const TileOp *const store = gather->store = only_store(forall->forall.body);
    if (!store || forall->groups || forall->forall.n != 2 || store->store.buffer->rank != 2 ||
        !find_load(lo, forall, store->store.value, gather))
        return false;
    const Buffer *const tile = store->store.buffer, *const tensor = gather->load->load.buffer;
    return tile->kind == BUFFER_SHARED && tile->hint == HINT_NONE && tile->type == tensor->type &&
           tensor->kind == BUFFER_TENSOR && tensor->access == ACCESS_IN && !tensor->strided && tensor->rank >= 2 &&
           tensor->rank <= BOX_RANK && dtype_bits(tensor->type) >= 8 && covers_tile(forall, tile, store->store.subs);
}

static bool match_columns(Match *m, Expr *sub, Expr **start)
{
    int64_t coefficient;
    return expr_affine(m->lo->arena, sub, &m->column, 1, &coefficient, start) && coefficient == 1 &&
           !expr_uses(*start, m->column) && !expr_uses(*start, m->row);
}

// The component of the first row.
static Expr *first_component(const Match *m, const IndexComponent *component, Expr *p)
{
    Arena *const a = m->lo->arena;
    Expr *const by = product_of(a, &component->by);
    Expr *const quotient = expr_is_int(by, 1) ? p : expr_binary(a, X_DIV, p, by);
    return component->has_count ? expr_binary(a, X_MOD, quotient, product_of(a, &component->count)) : quotient;
}

static bool match_rows(Match *m, Expr *const *subs, int rank, Gather *gather)
{
    Arena *const a = m->lo->arena;
    Factors faster = { .constant = 1 };
    gather->im2col = (Im2col){ .rows = (int)gather->rows, .columns = (int)gather->columns, .n = rank - 2 };
    for (int d = rank - 2; d >= 0; d--) {
        IndexComponent component;
        Expr *base = NULL;
        Walked *const w = d ? &gather->im2col.walked[rank - 2 - d] : NULL;
        if (!(w ? match_subscript(m, subs[d], &component, w) : match_outermost(m, subs[d], &component, &base)))
            return false;
        m->p = m->p ? m->p : component.p;
        if (!expr_equal(component.p, m->p) || !are_same_factors(component.by, &faster)) return false;
        if (w && (!component.has_count || !add_all_factors(&faster, &component.count))) return false;
        Expr *const first = first_component(m, &component, expr_replace(a, m->p, m->row, int_const(a, 0)));
        if (w) w->count = product_of(a, &component.count);
        Expr *const start = w ? int_add(a, w->first, int_mul(a, first, w->step)) : int_add(a, base, first);
        gather->subs[d] = (Sub){ .start = start };
    }
    return true;
}

// i / by % count * step, and anything that is the same for all rows.
static bool match_range(const Match *m, Expr *sub, IndexComponent *component, Sub *range)
{
    *range = (Sub){ .is_range = true };
    if (!match_sum(m, sub, component, &range->step, &range->start)) return false;
    if (expr_is_int(range->step, 1)) range->step = NULL;
    return component->p->kind == E_VAR && component->by.n == 0 && component->count.n == 0;
}

// Components of the row itself, so many each as the rows are together.
static bool match_box(const Match *m, Expr *const *subs, int rank, Gather *gather)
{
    int64_t rows = 1;
    bool is_highest = false;
    for (int d = rank - 2; d >= 0; d--) {
        IndexComponent component;
        gather->subs[d] = (Sub){ .start = subs[d] };
        if (!expr_uses(subs[d], m->row)) continue;
        if (is_highest || !match_range(m, subs[d], &component, &gather->subs[d]) || component.by.constant != rows)
            return false;
        const int64_t width = component.has_count ? component.count.constant : gather->rows / rows;
        is_highest = !component.has_count;
        gather->subs[d].width = int_const(m->lo->arena, width);
        rows *= width;
    }
    return rows == gather->rows;
}

static bool begin_match(Lowering *lo, const TileOp *forall, int rank, Gather *gather, Match *m)
{
    Expr *column;
    const int last = rank - 1;
    *m = (Match){
        .lo = lo, .forall = forall, .row = forall->forall.indices[0].var, .column = forall->forall.indices[1].var
    };
    for (int d = 0; d <= last; d++)
        if (expr_loads(gather->at[d]) || (d < last && expr_uses(gather->at[d], m->column))) return false;
    full_extent(&forall->forall.indices[0], &gather->rows);
    full_extent(&forall->forall.indices[1], &gather->columns);
    if (!match_columns(m, gather->at[last], &column)) return false;
    gather->subs[last] = (Sub){ .is_range = true, .start = column, .width = int_const(lo->arena, gather->columns) };
    return true;
}

static bool match_slice(Lowering *lo, const TileOp *forall, int rank, Gather *gather)
{
    Match m;
    return begin_match(lo, forall, rank, gather, &m) && match_box(&m, gather->at, rank, gather);
}

static bool match_gather(Lowering *lo, const TileOp *forall, Gather *gather)
{
    if (!may_gather(lo, forall, gather)) return false;
    const int rank = gather->load->load.buffer->rank;
    Match m;
    if (match_slice(lo, forall, rank, gather)) return true;
    gather->walks = true;
    return rank >= 3 && gather->rows <= PIXELS_MAX && begin_match(lo, forall, rank, gather, &m) &&
           match_rows(&m, gather->at, rank, gather);
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

static void note_rewritten(Lowering *lo, TileOp *op)
{
    const Rewritten one = { op, *op };
    VEC_PUSH(lo->arena, &lo->rewritten, one);
}

static bool become_copy(Lowering *lo, TileOp *op, const Gather *gather)
{
    Arena *const a = lo->arena;
    Buffer *const tensor = gather->load->load.buffer;
    Region src = { .buffer = tensor, .subs = NEW_ARRAY(a, Sub, tensor->rank), .span = op->span };
    memcpy(src.subs, gather->subs, sizeof(Sub) * (size_t)tensor->rank);
    Box box;
    if (!gather->walks && !find_box(lo, &src, &box)) return false;
    TileOp *const map = NEW(a, TileOp, .kind = T_FORALL);
    *map = *op;
    map->next = NULL;
    OpInfo *const info = op_info(lo, op);
    info->map = map;
    note_rewritten(lo, op);
    op->kind = T_COPY;
    op->copy.dst = region_whole(a, gather->store->store.buffer, op->span);
    op->copy.src = src;
    info->merges_rows = !gather->walks;
    if (!gather->walks) return true;
    Im2col *const im2col = NEW(a, Im2col, .rows = 0);
    *im2col = gather->im2col;
    im2col->row = op_info(lo, op)->map->forall.indices[0].var;
    im2col->column = op_info(lo, op)->map->forall.indices[1].var;
    im2col->subs = NEW_ARRAY(a, Expr *, tensor->rank);
    memcpy(im2col->subs, gather->at, sizeof(Expr *) * (size_t)tensor->rank);
    info->im2col = op_info(lo, map)->im2col = im2col;
    return true;
}

// Through a view that gives the tile's rows the slice's dimensions.
static void see_copy(Lowering *lo, TileOp *op)
{
    Buffer *const view = op->copy.dst.buffer;
    Box box;
    if (op->groups || view->kind != BUFFER_VIEW || view->rank < 2 || !region_is_whole(&op->copy.dst)) return;
    Buffer *const tile = view->base.buffer, *const tensor = op->copy.src.buffer;
    if (tile->kind != BUFFER_SHARED || tile->rank != 2 || tile->hint != HINT_NONE || !region_is_whole(&view->base) ||
        view->type != tile->type || tensor->kind != BUFFER_TENSOR || tensor->access != ACCESS_IN ||
        tensor->type != tile->type || !expr_equal(view->shape[view->rank - 1], tile->shape[1]) ||
        region_rank(&op->copy.src) != view->rank || !find_box(lo, &op->copy.src, &box))
        return;
    as_map(lo, op); // of the copy as it was
    note_rewritten(lo, op);
    op->copy.dst = region_whole(lo->arena, tile, op->copy.dst.span);
    op_info(lo, op)->merges_rows = true;
}

// ---- windows

typedef struct Results {
    const Buffer *tile;
    bool any;
} Results;

static bool see_product(Lowering *lo, TileOp *op, void *context)
{
    Results *const results = context;
    results->any |= op->kind == T_MATMUL && op->matmul.dst.buffer == results->tile;
    return op->kind == T_FORALL;
}

static bool is_result(Lowering *lo, const Buffer *tile)
{
    Results results = { .tile = tile };
    each_op(lo, lo->kernel->body, see_product, &results);
    return results.any;
}

// Where the program stores the tile to the tensor itself as well, it has told whole tiles from others.
typedef struct WholeStore {
    const TileOp *of_view;
    bool any;
} WholeStore;

static bool see_whole_store(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    WholeStore *const store = context;
    store->any |= op->kind == T_COPY && op->copy.src.buffer == store->of_view->copy.src.buffer &&
                  op->copy.dst.buffer == buffer_root(store->of_view->copy.dst.buffer);
    return op->kind == T_FORALL;
}

static bool is_told_apart(Lowering *lo, const TileOp *op)
{
    WholeStore store = { .of_view = op };
    each_op(lo, lo->kernel->body, see_whole_store, &store);
    return store.any;
}

// Rows of a product's result, to a window.
static void see_window(Lowering *lo, TileOp *op)
{
    Region dst = op->copy.dst;
    if (op->groups || op->copy.src.buffer->kind != BUFFER_FRAGMENT || op->copy.src.buffer->rank != 2 ||
        !region_is_whole(&op->copy.src) || region_rank(&dst) != 2 || !is_result(lo, op->copy.src.buffer) ||
        is_told_apart(lo, op))
        return;
    const Window *const window = through_window(lo, &dst);
    if (!window || region_rank(&dst) != 2) return;
    as_map(lo, op); // of the copy as it was
    note_rewritten(lo, op);
    op->copy.dst = dst;
    op_info(lo, op)->window = window;
}

// ---- scatters

// A product's result, element by element, converted or not.
static const Expr *find_result(Lowering *lo, const TileOp *forall, const TileOp *store)
{
    const Expr *const value = store->store.value, *const load = value->kind == E_CONVERT ? value->convert.a : value;
    if (load->kind != E_LOAD || load->load.buffer->kind != BUFFER_FRAGMENT || load->load.buffer->rank != 2 ||
        !covers_tile(forall, load->load.buffer, load->load.subs))
        return NULL;
    return is_result(lo, load->load.buffer) ? load : NULL;
}

// Rows of 16 are stored together.
static bool stores_boxes(const Buffer *tensor, const Sub *subs, int *n_ranges)
{
    *n_ranges = 0;
    for (int d = 0; d < tensor->rank; d++) {
        if (subs[d].is_range && subs[d].step) return false;
        *n_ranges += subs[d].is_range;
    }
    return *n_ranges >= 2 && boxes_divide_rows(tensor, subs, 16);
}

// Element by element from a product's result to a slice of a tensor: a copy.
static void see_scatter(Lowering *lo, TileOp *op)
{
    const TileOp *const store = only_store(op->forall.body);
    if (!store || op->groups || op->forall.n != 2) return;
    Buffer *const tensor = store->store.buffer;
    const Expr *const result = find_result(lo, op, store);
    Gather gather = { .store = store };
    const Window *window = NULL;
    int n_ranges;
    if (!result || buffer_root(tensor)->kind != BUFFER_TENSOR || buffer_root(tensor)->access != ACCESS_OUT ||
        tensor->rank < 2 || tensor->rank > BOX_RANK)
        return;
    for (int d = 0; d < tensor->rank; d++) gather.at[d] = plain(lo, op, store->store.subs[d]);
    if (!match_slice(lo, op, tensor->rank, &gather) || !stores_boxes(tensor, gather.subs, &n_ranges)) return;
    TileOp *const map = NEW(lo->arena, TileOp, .kind = T_FORALL);
    *map = *op;
    map->next = NULL;
    Region dst = { .buffer = tensor, .subs = NEW_ARRAY(lo->arena, Sub, tensor->rank), .span = op->span };
    memcpy(dst.subs, gather.subs, sizeof(Sub) * (size_t)tensor->rank);
    if (tensor->kind != BUFFER_TENSOR && !(window = through_window(lo, &dst))) return;
    op_info(lo, op)->map = map;
    op_info(lo, op)->window = window;
    op_info(lo, op)->merges_rows = n_ranges > 2;
    note_rewritten(lo, op);
    op->kind = T_COPY;
    op->copy.dst = dst;
    op->copy.src = region_whole(lo->arena, result->load.buffer, op->span);
}

// ---- all statements

static void see_gather(Lowering *lo, TileOp **link, Loops *loops)
{
    TileOp *const op = *link;
    Gather gather = { 0 };
    if (!loops->n || !match_gather(lo, op, &gather) || !become_copy(lo, op, &gather) || !gather.walks) return;
    for (int d = 0; !op->copy.src.subs[d].is_range; d++)
        op->copy.src.subs[d].start = hoist(lo, loops, op->copy.src.subs[d].start, link);
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
        if (op->kind == T_FORALL) see_gather(lo, link, loops);
        if (op->kind == T_FORALL) see_scatter(lo, op);
        else if (op->kind == T_COPY && op->copy.dst.buffer->kind == BUFFER_VIEW) {
            see_copy(lo, op);
            if (op->copy.dst.buffer->kind == BUFFER_VIEW) see_window(lo, op);
        } else find_in_loop(lo, link, loops);
        while (*link != op) link = &(*link)->next; // scalars have come before it
    }
}

void find_forall_copies(Lowering *lo)
{
    if (lo->gpu->tma && !lo->kernel->checked) find_in_block(lo, &lo->kernel->body, &(Loops){ .n = 0 });
}

void undo_forall_copies(Lowering *lo)
{
    for (int i = lo->rewritten.count - 1; i >= 0; i--) {
        TileOp *const op = lo->rewritten.items[i].op, *const next = op->next;
        *op = lo->rewritten.items[i].before;
        op->next = next;
    }
    lo->rewritten.count = 0;
}
