// scalar.c - scalar expressions of Tile IR as expressions of Loop IR, and where one element of a buffer is.
//
// `int` means 64 bits; what provably fits 32 is computed in 32, and the two meet by widening. Values of narrow
// floating types are their bits (u16, u8) until they are converted. Accesses to tensors and views are checked here,
// one test per dimension, minus those that ranges prove.
#include "lower/cuda/cuda.h"

#include <assert.h>

DType loop_type(DType type)
{
    switch (type) {
    case DTYPE_INT: return DTYPE_I64;
    case DTYPE_TF32: return DTYPE_F32;
    case DTYPE_F16: case DTYPE_BF16: return DTYPE_U16;
    case DTYPE_E4M3: case DTYPE_E5M2: return DTYPE_U8;
    case DTYPE_E2M1: case DTYPE_I4: case DTYPE_I2: case DTYPE_U4: case DTYPE_U2: return DTYPE_U8;
    case DTYPE_NONE: case DTYPE_F64: case DTYPE_F32: case DTYPE_I64: case DTYPE_I32: case DTYPE_I16: case DTYPE_I8:
    case DTYPE_U64: case DTYPE_U32: case DTYPE_U16: case DTYPE_U8: case DTYPE_BOOL: case DTYPE_COUNT:
        break;
    }
    return type;
}

static bool fits_i32(Range r)
{
    return r.has_lo && r.has_hi && r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

Var **var_slot(Lowering *lo, const Var *var)
{
    if (var->id >= lo->n_vars) {
        const int n = 2 * var->id + 64;
        Var **const grown = NEW_ARRAY(lo->arena, Var *, n);
        if (lo->n_vars)
            memcpy(grown, lo->vars, sizeof(Var *) * (size_t)lo->n_vars);
        lo->vars = grown;
        lo->n_vars = n;
    }
    return &lo->vars[var->id];
}

Var *loop_var(Lowering *lo, Var *var)
{
    Var **const slot = var_slot(lo, var);
    Var *known = *slot;
    if (!known) {
        DType type = loop_type(var->type);
        const bool is_fixed = var->kind == VAR_INDEX || var->kind == VAR_GRID || var->kind == VAR_SYMBOL ||
                              (var->kind == VAR_LOCAL && !var->assigned);
        if (var->type == DTYPE_INT && is_fixed &&
            fits_i32(expr_range(expr_var(lo->arena, var))))
            type = DTYPE_I32;
        known = *slot = loop_new_var(lo->unit, type, var->name);
    }
    return known;
}

// ---- conversions

static const char *conversion_name(Lowering *lo, DType to, DType from)
{
    return arena_printf(lo->arena, "%s_to_%s", dtype_name(from), dtype_name(to));
}

static bool is_narrow_float(DType t) { return dtype_is_float(t) && dtype_bits(t) < 32; }

// To the type it computes in; `from` tells how the bits of a narrow float are to be read.
static Expr *widen(Lowering *lo, DType from, Expr *x)
{
    if (is_narrow_float(from))
        return call_expr(lo, DTYPE_F32, conversion_name(lo, DTYPE_F32, from), 1, x);
    if (dtype_is_integer(from) && dtype_bits(from) < 8)
        return call_expr(lo, DTYPE_I32, conversion_name(lo, DTYPE_I32, from), 1, x);
    if (dtype_bits(x->type) < 32 && !dtype_is_float(x->type))
        return cast(lo, DTYPE_I32, x);
    return x;
}

// Whether f32 on the way to a narrower type would round what that type then rounds again: integers that f32 does not hold
// are beyond the other narrow types.
static bool rounds_twice(DType to, DType from)
{
    if (!is_narrow_float(to) && to != DTYPE_TF32)
        return false;
    return from == DTYPE_F64 || (dtype_is_integer(from) && dtype_bits(from) >= 32 && (to == DTYPE_BF16 || to == DTYPE_TF32));
}

Expr *to_dtype(Lowering *lo, DType to, DType from, Expr *x)
{
    if (to == from)
        return x;
    Arena *const a = lo->arena;
    x = widen(lo, from, x);
    if (to == DTYPE_BOOL)
        return expr_binary(a, X_NE, x, dtype_is_float(x->type) ? expr_float(a, x->type, 0) : expr_int(a, x->type, 0));
    if (dtype_is_float(to)) {
        const DType wide = to == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
        x = rounds_twice(to, from) ? call_expr(lo, DTYPE_F32, "odd_f32", 1, x) : cast(lo, wide, x);
        if (to == DTYPE_TF32)
            return call_expr(lo, DTYPE_F32, "f32_to_tf32", 1, x);
        return is_narrow_float(to) ? call_expr(lo, loop_type(to), conversion_name(lo, to, DTYPE_F32), 1, x) : x;
    }
    if (dtype_is_float(x->type))     // truncates and saturates
        return call_expr(lo, loop_type(to), conversion_name(lo, dtype_bits(to) < 8 ? to : loop_type(to), x->type), 1, x);
    if (to == DTYPE_INT && (x->type == DTYPE_I32 || x->type == DTYPE_I64))
        return x;                    // `int` may stay in 32 bits
    return cast(lo, loop_type(to), x);
}

Expr *lower_as(Lowering *lo, DType type, Expr *x, const Iteration *it)
{
    Expr *const value = lower_expr(lo, x, it);
    if (type == DTYPE_INT || type == DTYPE_I64)
        return cast(lo, DTYPE_I64, to_dtype(lo, type, x->type, value));
    return to_dtype(lo, type, x->type, value);
}

Expr *lower_int64(Lowering *lo, Expr *x, const Iteration *it)
{
    return cast(lo, DTYPE_I64, lower_expr(lo, x, it));
}

// ---- arithmetic

// Both in one type: the wider of the two if they are i32 and i64.
static void unify(Lowering *lo, Expr **a, Expr **b)
{
    if ((*a)->type == (*b)->type)
        return;
    if ((*a)->type == DTYPE_I64)
        *b = cast(lo, DTYPE_I64, *b);
    else if ((*b)->type == DTYPE_I64)
        *a = cast(lo, DTYPE_I64, *a);
    else if ((*a)->type != (*b)->type)
        *b = cast(lo, (*a)->type, *b);
}

static bool is_comparison(ExprOp op) { return op >= X_LT && op <= X_NE; }

static bool leaves_registers(const Expr *x, void *context)
{
    const Lowering *const lo = context;
    return x->kind == E_ATOMIC || x->kind == E_CALL || (x->kind == E_LOAD && !is_fragment_in_registers(lo, x->load.buffer));
}

static bool is_division(const Expr *x, void *context)
{
    return x->kind == E_BINARY && x->op.op == X_DIV && x->type == DTYPE_F32;
}

// In a forall the divisor is often that of a whole row. Its reciprocal is computed before the statement, even where the
// division stands under a condition: what is the same for neighbours the compiler then computes once.
static Expr *divide(Lowering *lo, const Expr *x, Expr *a, Expr *b, const Iteration *it)
{
    if (!it || expr_is_const(b) || expr_any(x->op.b, leaves_registers, lo))
        return call_expr(lo, DTYPE_F32, "math_div", 2, a, b);
    Var *const divisor = emit_declare(lo, DTYPE_F32, "divisor", b);
    Var *const inverse = emit_declare(lo, DTYPE_F32, "inverse", call_expr(lo, DTYPE_F32, "math_reciprocal", 1, var_of(lo, divisor)));
    return call_expr(lo, DTYPE_F32, "math_divide", 3, a, var_of(lo, divisor), var_of(lo, inverse));
}

static Expr *lower_op(Lowering *lo, Expr *x, const Iteration *it)
{
    Expr *a = lower_expr(lo, x->op.a, it);
    if (x->kind == E_UNARY) {
        if (x->type == DTYPE_INT && !fits_i32(expr_range(x)))
            a = cast(lo, DTYPE_I64, a);
        return expr_unary(lo->arena, x->op.op, a);
    }
    Expr *b = lower_expr(lo, x->op.b, it);
    // A quotient or remainder of 32-bit values is one, but for the least dividend.
    const Range dividend = x->op.op == X_DIV || x->op.op == X_MOD ? expr_range(x->op.a) : (Range){ 0 };
    const bool divides = a->type == DTYPE_I32 && b->type == DTYPE_I32 && dividend.has_lo && dividend.lo > INT32_MIN;
    if (x->type == DTYPE_INT && !divides && !fits_i32(expr_range(x)))
        a = cast(lo, DTYPE_I64, a);
    if (x->op.op == X_AND || x->op.op == X_OR)
        return expr_binary(lo->arena, x->op.op, a, b);
    Expr *const tested = test_overflow(lo, x, a, b);
    if (tested)
        return tested;
    unify(lo, &a, &b);
    if (!is_comparison(x->op.op) && x->type != DTYPE_INT) {
        a = cast(lo, loop_type(x->type), a);
        b = cast(lo, loop_type(x->type), b);
    }
    if (x->op.op == X_DIV && a->type == DTYPE_F32)
        return divide(lo, x, a, b, it);
    return expr_binary(lo->arena, x->op.op, a, b);
}

static Expr *lower_math(Lowering *lo, Expr *x, const Iteration *it)
{
    Expr *args[8];
    DType type = loop_type(x->type);
    for (int i = 0; i < x->math.n; i++)
        args[i] = lower_expr(lo, x->math.args[i], it);
    if (x->math.fn == M_RANDOM) {
        args[0] = cast(lo, DTYPE_U64, args[0]);
        args[1] = cast(lo, DTYPE_U64, args[1]);
    } else if (x->type == DTYPE_INT) {
        bool narrow = fits_i32(expr_range(x));
        for (int i = 0; i < x->math.n; i++)
            narrow = narrow && args[i]->type == DTYPE_I32;
        type = narrow ? DTYPE_I32 : DTYPE_I64;
        for (int i = 0; i < x->math.n; i++)
            args[i] = cast(lo, type, args[i]);
    }
    return expr_call(lo->arena, type, arena_printf(lo->arena, "math_%s", math_info[x->math.fn].name), x->math.n, args);
}

Expr *combine(Lowering *lo, UpdateOp op, DType type, Expr *a, Expr *b)
{
    static const ExprOp plain[] = {
        [UPDATE_ADD] = X_ADD, [UPDATE_SUB] = X_SUB, [UPDATE_MUL] = X_MUL, [UPDATE_DIV] = X_DIV, [UPDATE_MOD] = X_MOD,
        [UPDATE_SHL] = X_SHL, [UPDATE_SHR] = X_SHR, [UPDATE_OR] = X_BITOR, [UPDATE_AND] = X_BITAND, [UPDATE_XOR] = X_BITXOR,
    };
    a = cast(lo, type, a);
    b = cast(lo, type, b);
    if (op == UPDATE_MIN || op == UPDATE_MAX)
        return call_expr(lo, type, op == UPDATE_MIN ? "math_min" : "math_max", 2, a, b);
    if (type == DTYPE_BOOL)          // | & ^ of bools; both sides are computed, for one may come by a shuffle
        return expr_binary(lo->arena, op == UPDATE_OR ? X_BITOR : op == UPDATE_AND ? X_BITAND : X_NE, a, b);
    return expr_binary(lo->arena, plain[op], a, b);
}

// ---- places

// 0 <= sub < extent, as far as it has to be tested. NULL: proved.
static Expr *inside_test(Lowering *lo, Expr *sub, Expr *extent)
{
    Arena *const a = lo->arena;
    const Range r = expr_range(sub);
    int64_t n;
    Expr *test = NULL;
    if (!(r.has_lo && r.lo >= 0))
        test = expr_binary(a, X_GE, sub, int_const(a, 0));
    if (!(r.has_hi && expr_as_int(extent, &n) && r.hi < n))
        test = both(lo, test, expr_binary(a, X_LT, sub, extent));
    return test && expr_is_const(test) && test->integer.value ? NULL : test;
}

// The linear position of subs in a row-major box of the given extents.
static Expr *linear_position(Lowering *lo, Expr **subs, Expr *const *extents, int rank)
{
    Expr *at = int_const(lo->arena, 0);
    for (int d = 0; d < rank; d++)
        at = int_add(lo->arena, int_mul(lo->arena, at, extents[d]), subs[d]);
    return at;
}

// The subscripts of the view's base that stand for `subs` of the view.
static void through_view(Lowering *lo, const Buffer *view, Expr **subs)
{
    Arena *const a = lo->arena;
    const Region *const base = &view->base;
    Expr *position[MAX_RANK] = { 0 };
    const int ranges = region_rank(base);
    const int64_t size = dtype_bits(view->type) / 8, base_size = dtype_bits(base->buffer->type) / 8;
    // Equal dimensions in front and behind pair up; what is between is merged and split.
    int front = 0, back = 0;
    while (front < view->rank && front < ranges && expr_equal(view->shape[front], region_extent(base, front)) &&
           !(size != base_size && (front == view->rank - 1 || front == ranges - 1))) {
        position[front] = subs[front];
        front++;
    }
    while (back < view->rank - front && back < ranges - front) {
        const int v = view->rank - 1 - back, r = ranges - 1 - back;
        int64_t n, m;
        if (back == 0 && size != base_size) {                // the last dimension is counted anew
            if (!expr_as_int(view->shape[v], &n) || !expr_as_int(region_extent(base, r), &m) || n * size != m * base_size)
                break;
            position[r] = expr_binary(a, X_DIV, int_mul(a, subs[v], int_const(a, size)), int_const(a, base_size));
        } else if (expr_equal(view->shape[v], region_extent(base, r))) {
            position[r] = subs[v];
        } else {
            break;
        }
        back++;
    }
    Expr *rest = linear_position(lo, subs + front, view->shape + front, view->rank - front - back);
    if (back == 0 && size != base_size)                      // counted in bytes
        rest = expr_binary(a, X_DIV, int_mul(a, rest, int_const(a, size)), int_const(a, base_size));
    int outer = front;                                       // dimensions of one element stay at 0
    for (int64_t n; outer < ranges - back - 1 && expr_as_int(region_extent(base, outer), &n) && n == 1; outer++)
        position[outer] = int_const(a, 0);
    for (int d = ranges - back - 1; d >= outer; d--) {
        Expr *const width = region_extent(base, d);
        position[d] = d == outer ? rest : expr_binary(a, X_MOD, rest, width);
        rest = d == outer ? rest : expr_binary(a, X_DIV, rest, width);
    }
    for (int d = 0, range = 0; d < base->buffer->rank; d++) {
        const Sub *const sub = &base->subs[d];
        if (!sub->is_range) {
            subs[d] = sub->start;
            continue;
        }
        Expr *const along = position[range++];
        subs[d] = int_add(a, sub->start, sub->step ? int_mul(a, along, sub->step) : along);
    }
}

Expr *shared_at(Lowering *lo, const TileInfo *tile, Expr *row, Expr *column)
{
    const SharedLayout *const s = &tile->shared;
    if (!s->swizzle_bytes) {
        const int pitch = s->pitch_bytes / s->element_bytes;
        return i32_add(lo, i32_mul(lo, row, pitch), column);
    }
    Expr *within = column, *panel = i32_const(lo, 0);
    if (s->columns != s->panel_columns) {
        panel = i32_mul(lo, expr_binary(lo->arena, X_SHR, column, i32_const(lo, __builtin_ctz((unsigned)s->panel_columns))),
                        s->panel_bytes / s->element_bytes);
        within = expr_binary(lo->arena, X_BITAND, column, i32_const(lo, s->panel_columns - 1));
    }
    return i32_add(lo, panel, call_expr(lo, DTYPE_I32, arena_printf(lo->arena, "swizzle<%d, %d>", s->swizzle_bytes, s->element_bytes),
                                        2, row, within));
}

static Expr *as_i32(Lowering *lo, Expr *x) { return cast(lo, DTYPE_I32, x); }

// One subscript of a tile: i32.
static Expr *tile_subscript(Lowering *lo, const Buffer *tile, int d, Expr *sub, const Iteration *it, Span span)
{
    Expr *const lowered = lower_expr(lo, sub, it);
    return as_i32(lo, test_subscript(lo, tile, d, sub, lowered, span));
}

static void place_shared(Lowering *lo, TileInfo *tile, Expr **subs, const Iteration *it, Place *place, Span span)
{
    const Buffer *const buffer = tile->buffer;
    Expr *row = i32_const(lo, 0);
    for (int d = 0; d + 1 < buffer->rank; d++) {
        int64_t extent;
        expr_as_int(buffer->shape[d], &extent);
        row = i32_add(lo, i32_mul(lo, row, extent), tile_subscript(lo, buffer, d, subs[d], it, span));
    }
    Expr *const column = buffer->rank ? tile_subscript(lo, buffer, buffer->rank - 1, subs[buffer->rank - 1], it, span) : i32_const(lo, 0);
    place->pointer = tile->pointer;
    place->at = shared_at(lo, tile, row, column);
}

static int index_of(const Iteration *it, const Expr *sub)
{
    if (it && sub->kind == E_VAR)
        for (int i = 0; i < it->n; i++)
            if (it->indices[i].var == sub->var.var)
                return i;
    return -1;
}

// The register number: the tile's register digits, each at the loop variable of the same digit of the iteration.
static bool place_registers(Lowering *lo, TileInfo *tile, Expr **subs, const Iteration *it, Place *place)
{
    const Layout *const layout = &tile->layout;
    Expr *at = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < layout->n; i++) {
        const Digit *const digit = &layout->digit[i];
        if (digit->input != IN_REGISTER)
            continue;
        const int index = index_of(it, subs[digit->dim]);
        if (index < 0 || it->dim_of[index] < 0)
            return false;
        Var *loop = NULL;
        bool found = false;
        for (int j = 0; j < it->layout.n; j++) {
            const Digit *const other = &it->layout.digit[j];
            if (other->input == IN_REGISTER && other->dim == it->dim_of[index] && other->stride == digit->stride &&
                other->extent == digit->extent) {
                loop = it->digit[j];
                found = true;
            }
        }
        if (!found)
            return false;
        if (loop)                    // before and after the loop of a vector its digit stands at 0
            at = i32_add(lo, at, i32_mul(lo, var_of(lo, loop), stride));
        stride *= digit->extent;
    }
    place->pointer = tile->registers;
    place->at = at;
    return true;
}

static void place_tensor(Lowering *lo, Buffer *tensor, Expr **subs, const Iteration *it, Place *place)
{
    Arena *const a = lo->arena;
    Expr *at = expr_int(a, DTYPE_I64, 0);
    for (int d = 0; d < tensor->rank; d++) {
        if (tensor->stride[0]) {
            Expr *const stride = lower_int64(lo, tensor->stride[d], NULL);
            at = expr_binary(a, X_ADD, at, expr_binary(a, X_MUL, lower_int64(lo, subs[d], it), stride));
        } else if (tensor->strided) {
            Expr *const stride = call_expr(lo, DTYPE_I64, "param_word", 1,
                                           i32_const(lo, lo->tensors[tensor->id]->multiple + 1 + d));
            at = expr_binary(a, X_ADD, at, expr_binary(a, X_MUL, lower_int64(lo, subs[d], it), stride));
        } else {
            at = expr_binary(a, X_MUL, at, lower_int64(lo, tensor->shape[d], NULL));
            at = expr_binary(a, X_ADD, at, lower_int64(lo, subs[d], it));
        }
    }
    place->pointer = lo->tensors[tensor->id];
    place->at = at;
}

bool place_element(Lowering *lo, Buffer *buffer, Expr **given, const Iteration *it, Place *place, Span span)
{
    Expr *subs[MAX_RANK] = { 0 };
    for (int d = 0; d < buffer->rank; d++)
        subs[d] = given[d];
    *place = (Place){ 0 };
    Expr *rows = NULL;               // tests as Tile IR, so that they fold
    while (buffer->kind == BUFFER_VIEW) {
        if (buffer->type != buffer->base.buffer->type && (dtype_bits(buffer->type) < 8 || dtype_bits(buffer->base.buffer->type) < 8))
            return unsupported(lo, span, "a view of packed elements in another type ('%s')", buffer->name);
        if (buffer->type != buffer->base.buffer->type && !place->recast)
            place->recast = buffer->type;
        for (int d = 0; d < buffer->rank; d++)
            rows = both(lo, rows, inside_test(lo, subs[d], buffer->shape[d]));
        through_view(lo, buffer, subs);
        buffer = buffer->base.buffer;
    }
    place->root = buffer;
    if (buffer->kind == BUFFER_TENSOR) {
        const int last = buffer->rank - 1;
        for (int d = 0; d < last; d++)
            rows = both(lo, rows, inside_test(lo, subs[d], buffer->shape[d]));
        Expr *const column_test = last >= 0 ? inside_test(lo, subs[last], buffer->shape[last]) : NULL;
        place_tensor(lo, buffer, subs, it, place);
        place->rows_inside = rows ? lower_expr(lo, rows, it) : NULL;
        place->column = last >= 0 ? lower_int64(lo, subs[last], it) : NULL;
        place->columns = column_test ? lower_int64(lo, buffer->shape[last], NULL) : NULL;
        place->inside = both(lo, place->rows_inside, column_test ? lower_expr(lo, column_test, it) : NULL);
        return true;
    }
    place->inside = place->rows_inside = rows ? lower_expr(lo, rows, it) : NULL;
    if (buffer->kind == BUFFER_LOCAL) {
        place->pointer = lo->tensors[buffer->id];
        place->at = buffer->rank ? lower_int64(lo, linear_position(lo, subs, buffer->shape, buffer->rank), it) : i32_const(lo, 0);
        for (int d = 0; d < buffer->rank && lo->kernel->checked; d++) {
            int64_t extent = 1;
            expr_as_int(buffer->shape[d], &extent);
            place->at = d == 0 ? tile_subscript(lo, buffer, d, subs[d], it, span)
                      : i32_add(lo, i32_mul(lo, place->at, extent), tile_subscript(lo, buffer, d, subs[d], it, span));
        }
        return true;
    }
    TileInfo *const tile = tile_info(lo, buffer);
    if (tile->home == HOME_SHARED) {
        place_shared(lo, tile, subs, it, place, span);
        return true;
    }
    if (!place_registers(lo, tile, subs, it, place))
        return unsupported(lo, span, "this access to fragment '%s'", buffer->name);
    return true;
}

static Expr *zero_of(Lowering *lo, DType type)
{
    return dtype_is_float(type) ? expr_float(lo->arena, type, 0) : expr_int(lo->arena, type, 0);
}

// Several elements of a tensor in a byte. Tiles hold each in a byte of its own.
bool is_packed_place(const Place *place) { return place->root->kind == BUFFER_TENSOR && dtype_bits(place->root->type) < 8; }

// What stands at a place, in the loop's type for `stored`.
Expr *element_at(Lowering *lo, const Place *place, DType stored)
{
    const DType type = loop_type(stored);
    if (place->recast)
        return call_expr(lo, type, arena_printf(lo->arena, "element_as<%s>", dtype_info[type].c_name), 1,
                         expr_address(lo->arena, place->pointer, place->at));
    if (is_packed_place(place))
        return call_expr(lo, type, arena_printf(lo->arena, "packed_element<%d>", dtype_bits(place->root->type)), 2,
                         var_of(lo, place->pointer), place->at);
    Expr *const element = expr_index(lo->arena, place->pointer, place->at);
    element->type = type;
    return element;
}

static Expr *lower_load(Lowering *lo, Expr *x, const Iteration *it)
{
    const DType type = loop_type(x->load.buffer->type);
    for (int i = 0; it && i < it->n_loaded; i++)
        if (expr_equal(it->loaded[i].load, x))
            return loaded_element(lo, it, i);
    Place place;
    if (!place_element(lo, x->load.buffer, x->load.subs, it, &place, x->span))
        return zero_of(lo, type);
    Expr *const element = test_written(lo, &place, element_at(lo, &place, x->load.buffer->type), x->span);
    return place.inside ? expr_select(lo->arena, place.inside, element, zero_of(lo, type)) : element;
}

static const char *const atomic_names[] = {
    [ATOMIC_ADD] = "atomic_add", [ATOMIC_MIN] = "atomic_min", [ATOMIC_MAX] = "atomic_max", [ATOMIC_AND] = "atomic_and",
    [ATOMIC_OR] = "atomic_or", [ATOMIC_EXCHANGE] = "atomic_exchange", [ATOMIC_CAS] = "atomic_cas",
};

static Expr *lower_atomic(Lowering *lo, Expr *x, const Iteration *it)
{
    const DType type = loop_type(x->atomic.buffer->type);
    Place place;
    if (!place_element(lo, x->atomic.buffer, x->atomic.subs, it, &place, x->span))
        return zero_of(lo, type);
    Expr *const address = expr_address(lo->arena, place.pointer, place.at);
    Expr *const value = lower_as(lo, x->atomic.buffer->type, x->atomic.value, it);
    Expr *call;
    if (x->atomic.op == ATOMIC_CAS)
        call = call_expr(lo, type, "atomic_cas", 3, address, lower_as(lo, x->atomic.buffer->type, x->atomic.compare, it), value);
    else if (is_narrow_float(x->atomic.buffer->type) && x->atomic.op == ATOMIC_ADD)
        call = call_expr(lo, type, arena_printf(lo->arena, "atomic_add_%s", dtype_name(x->atomic.buffer->type)), 2, address, value);
    else
        call = call_expr(lo, type, atomic_names[x->atomic.op], 2, address, value);
    return place.inside ? expr_select(lo->arena, place.inside, call, zero_of(lo, type)) : call;
}

Expr *lower_expr(Lowering *lo, Expr *x, const Iteration *it)
{
    Arena *const a = lo->arena;
    switch (x->kind) {
    case E_INT:
        if (x->type == DTYPE_INT)
            return expr_int(a, x->integer.value >= INT32_MIN && x->integer.value <= INT32_MAX ? DTYPE_I32 : DTYPE_I64,
                            x->integer.value);
        return x;
    case E_FLOAT:
        if (is_narrow_float(x->type))
            return to_dtype(lo, x->type, DTYPE_F32, expr_float(a, DTYPE_F32, x->real.value));
        return x->type == DTYPE_TF32 ? expr_float(a, DTYPE_F32, x->real.value) : x;
    case E_VAR:
        return expr_var(a, loop_var(lo, x->var.var));
    case E_LOAD:
        return lower_load(lo, x, it);
    case E_UNARY: case E_BINARY:
        return lower_op(lo, x, it);
    case E_SELECT: {
        Expr *const cond = lower_expr(lo, x->select.cond, it);
        Expr *first = lower_expr(lo, x->select.a, it), *second = lower_expr(lo, x->select.b, it);
        unify(lo, &first, &second);
        // Both are computed where one divides: a branch per element would hide what rows have in common.
        if (it && first->type == DTYPE_F32 && (expr_any(x, is_division, lo)) && !expr_any(x->select.a, leaves_registers, lo) &&
            !expr_any(x->select.b, leaves_registers, lo))
            return call_expr(lo, DTYPE_F32, "choose", 3, cond, first, second);
        return expr_select(a, cond, first, second);
    }
    case E_CONVERT:
        return to_dtype(lo, x->type, x->convert.a->type, lower_expr(lo, x->convert.a, it));
    case E_BITCAST: {
        Expr *const from = x->convert.a->type == DTYPE_INT ? lower_int64(lo, x->convert.a, it) : lower_expr(lo, x->convert.a, it);
        return call_expr(lo, loop_type(x->type), arena_printf(a, "bitcast<%s>", dtype_info[loop_type(x->type)].c_name), 1, from);
    }
    case E_MATH:
        return lower_math(lo, x, it);
    case E_ATOMIC:
        return lower_atomic(lo, x, it);
    case E_CALL: {
        Expr **const args = NEW_ARRAY(a, Expr *, x->call.n + 1);
        for (int i = 0; i < x->call.n; i++)
            args[i] = lower_expr(lo, x->call.args[i], it);
        return expr_call(a, loop_type(x->type), x->call.name, x->call.n, args);
    }
    case E_INDEX: case E_ADDRESS:
        return x;
    }
    return x;
}
