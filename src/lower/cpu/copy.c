// SPDX-License-Identifier: MIT
// copy.c - copies with conversion, fills, and atomic sums of tiles: rows at a time, bounds outside the rows.
//
// For each axis the bounds become a range of its index; inside the range nothing is tested. What lies outside the
// source is written as zeros, what lies outside the destination is not touched.
//
// A tile that is only ever filled by whole copies of its own type *borrows*: where the slice is inside the tensor
// the tile's pointer and strides are the tensor's and nothing moves; one test per copy decides. Decoding cannot run
// at memory speed without that.
#include "lower/cpu/cpu.h"

typedef enum { ROW_COPY, ROW_FILL, ROW_ATOMIC_ADD } RowKind;

typedef struct Rows {
    Cpu *cx;
    RowKind kind;
    Place dst, src;
    Expr *value;          // of a fill: Loop IR, in dst's type
    Expr *axes[MAX_RANK]; // the indices of the loops around
    Expr *inside;         // so far inside the source: bool, NULL: yes
} Rows;

// ---- ranges of an axis

static int deepest_axis(const Place *p, const PlaceCheck *c)
{
    for (int a = p->n_axes - 1; a >= 0; a--)
        if (c->at.coef[a]) return a;
    return -1;
}

static Expr *lesser(Cpu *cx, Expr *a, Expr *b) { return cpu_call(cx, DTYPE_INT, "kiln_min_int", 2, a, b); }
static Expr *greater(Cpu *cx, Expr *a, Expr *b) { return cpu_call(cx, DTYPE_INT, "kiln_max_int", 2, a, b); }

// Narrows [*lo, *hi) to where the checks that end at this axis hold, given the indices outside it. True if it did.
static bool narrow_range(Rows *r, const Place *p, int axis, Expr **lo, Expr **hi)
{
    Cpu *const cx = r->cx;
    bool narrowed = false;
    for (int i = 0; i < p->checks.count; i++) {
        const PlaceCheck *const c = &p->checks.items[i];
        if (deepest_axis(p, c) != axis) continue;
        Expr *axes[MAX_RANK];
        memcpy(axes, r->axes, sizeof axes);
        axes[axis] = NULL;
        Expr *const rest = cpu_linear_at(cx, &c->at, axes), *const step = cpu_expr(cx, c->at.coef[axis]);
        Expr *const extent = cpu_expr(cx, c->extent);
        Expr *first = int_sub(cx->arena, int_const(cx->arena, 0), rest), *end = int_sub(cx->arena, extent, rest);
        int64_t constant;
        if (!expr_as_int(step, &constant)) {
            first = cpu_call(cx, DTYPE_INT, "kiln_enters", 3, rest, extent, step);
            end = cpu_call(cx, DTYPE_INT, "kiln_leaves", 3, rest, extent, step);
        } else if (constant != 1) { // ceil of both
            Expr *const up = int_sub(cx->arena, step, int_const(cx->arena, 1));
            first = cpu_call(cx, DTYPE_INT, "kiln_floordiv", 2, int_add(cx->arena, first, up), step);
            end = cpu_call(cx, DTYPE_INT, "kiln_floordiv", 2, int_add(cx->arena, end, up), step);
        }
        *lo = greater(cx, *lo, first);
        *hi = lesser(cx, *hi, end);
        narrowed = true;
    }
    return narrowed;
}

// The checks that end at `axis` (-1: that no axis is in) as a condition, given all indices up to it.
static Expr *checks_at(Rows *r, const Place *p, int axis)
{
    Cpu *const cx = r->cx;
    Expr *all = NULL;
    for (int i = 0; i < p->checks.count; i++) {
        const PlaceCheck *const c = &p->checks.items[i];
        if (deepest_axis(p, c) != axis) continue;
        Expr *const at = cpu_linear_at(cx, &c->at, r->axes), *const extent = cpu_expr(cx, c->extent);
        all = cpu_both(cx, all, expr_binary(cx->arena, X_GE, at, int_const(cx->arena, 0)));
        all = cpu_both(cx, all, expr_binary(cx->arena, X_LT, at, extent));
    }
    return all;
}

// ---- one row

static Expr *position(Rows *r, const Place *p, Expr *inner)
{
    Expr *axes[MAX_RANK];
    memcpy(axes, r->axes, sizeof axes);
    if (p->n_axes > 0) axes[p->n_axes - 1] = inner;
    return cpu_linear_at(r->cx, &p->at, axes);
}

static bool is_plain_row(const Place *p) { return !p->packed && cpu_place_stride(p, p->n_axes - 1) == 1; }

static int stored_bytes(DType t) { return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8; }

static bool has_row_function(DType to, DType from)
{
    const DType narrow = to == DTYPE_F32 ? from : to;
    return (to == DTYPE_F32 || from == DTYPE_F32) &&
           (narrow == DTYPE_BF16 || narrow == DTYPE_F16 || narrow == DTYPE_E4M3 || narrow == DTYPE_E5M2);
}

static void store_element(Rows *r, Expr *at, Expr *value)
{
    Cpu *const cx = r->cx;
    if (r->kind != ROW_ATOMIC_ADD) {
        cpu_place_store(cx, &r->dst, at, value);
        return;
    }
    cpu_add_call(cx, cpu_atomic_on_tensor(cx, ATOMIC_ADD, &r->dst, at, value, NULL));
}

static void element_loop(Rows *r, Expr *lo, Expr *hi, bool zero)
{
    Cpu *const cx = r->cx;
    Var *const i = loop_new_var(cx->unit, DTYPE_INT, "i");
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    Expr *value = r->value;
    if (zero) value = cpu_zero_of(cx, r->dst.type);
    else if (r->kind != ROW_FILL) value = cpu_place_load(cx, &r->src, position(r, &r->src, cpu_of(cx, i)));
    if (r->kind == ROW_COPY && !zero) value = cpu_convert(cx, r->dst.type, value);
    store_element(r, position(r, &r->dst, cpu_of(cx, i)), value);
    cpu_enter(cx, out);
    cpu_add(cx,
            (LoopStmt){ .kind = L_FOR,
                        .for_ = { .var = i,
                                  .lo = lo,
                                  .hi = hi,
                                  .step = int_const(cx->arena, 1),
                                  .body = body.first,
                                  .form = r->kind == ROW_ATOMIC_ADD || r->dst.packed ? LOOP_PLAIN : LOOP_VECTORISE } });
}

static Expr *bytes_between(Cpu *cx, Expr *lo, Expr *hi, DType type)
{
    return int_mul(cx->arena, int_sub(cx->arena, hi, lo), int_const(cx->arena, stored_bytes(type)));
}

static void zero_row(Rows *r, Expr *lo, Expr *hi)
{
    Cpu *const cx = r->cx;
    if (r->kind == ROW_ATOMIC_ADD) return;
    if (is_plain_row(&r->dst))
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_zero_bytes", 2,
                                  cpu_place_address(cx, &r->dst, position(r, &r->dst, lo)),
                                  bytes_between(cx, lo, hi, r->dst.type)));
    else element_loop(r, lo, hi, true);
}

static bool is_zero(const Expr *x)
{
    int64_t value;
    return expr_as_int(x, &value) ? value == 0
                                  : x->kind == E_FLOAT && x->real.value == 0 && !__builtin_signbit(x->real.value);
}

static bool is_packed_row(const Place *p) { return p->packed && cpu_place_stride(p, p->n_axes - 1) == 1; }

// Between packed elements of a tensor and a tile's, a byte each.
static bool copy_packed_row(Rows *r, Expr *lo, Expr *hi)
{
    Cpu *const cx = r->cx;
    const bool unpacks = is_packed_row(&r->src) && is_plain_row(&r->dst);
    if (r->kind != ROW_COPY || r->dst.type != r->src.type || cx->sequential) return false;
    if (!unpacks && !(is_packed_row(&r->dst) && is_plain_row(&r->src))) return false;
    const Place *const packed = unpacks ? &r->src : &r->dst, *const plain = unpacks ? &r->dst : &r->src;
    Expr *const row = cpu_of(cx, packed->pointer), *const first = position(r, packed, lo);
    Expr *const bytes = cpu_place_address(cx, plain, position(r, plain, lo)), *const n = int_sub(cx->arena, hi, lo);
    const int bits = dtype_bits(packed->type);
    cpu_add_call(
        cx, unpacks
                ? cpu_call(cx, DTYPE_INT, arena_printf(cx->arena, "kiln_unpack_bits%d", bits), 4, bytes, row, first, n)
                : cpu_call(cx, DTYPE_INT, arena_printf(cx->arena, "kiln_pack_bits%d", bits), 4, row, first, bytes, n));
    return true;
}

static void fill_or_copy_row(Rows *r, Expr *lo, Expr *hi)
{
    Cpu *const cx = r->cx;
    if (copy_packed_row(r, lo, hi)) return;
    const bool plain = is_plain_row(&r->dst) && (r->kind == ROW_FILL || is_plain_row(&r->src));
    const bool floats = r->dst.type == DTYPE_F32 && r->src.type == DTYPE_F32 && !r->dst.bytes && !r->src.bytes;
    Expr *const streams =
        r->kind == ROW_COPY && plain && !r->dst.bytes && r->src.root && r->src.root->kind != BUFFER_TENSOR
            ? cpu_streams(cx, &r->dst)
            : NULL;
    if (r->kind == ROW_FILL && plain && is_zero(r->value)) {
        zero_row(r, lo, hi);
    } else if (r->kind == ROW_ATOMIC_ADD && plain && floats) {
        cx->atomics = true;
        const int axis = r->dst.n_axes - 1;
        Expr *const stride =
            axis > 0 && r->dst.at.coef[axis - 1] ? cpu_expr(cx, r->dst.at.coef[axis - 1]) : int_const(cx->arena, 0);
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_atomic_add_row_float", 4,
                                  cpu_place_address(cx, &r->dst, position(r, &r->dst, lo)),
                                  cpu_place_address(cx, &r->src, position(r, &r->src, lo)), int_sub(cx->arena, hi, lo),
                                  stride));
    } else if (r->kind == ROW_COPY && plain && r->dst.type == r->src.type) {
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, streams ? "kiln_stream_bytes" : "kiln_copy_bytes", streams ? 4 : 3,
                                  cpu_place_address(cx, &r->dst, position(r, &r->dst, lo)),
                                  cpu_place_address(cx, &r->src, position(r, &r->src, lo)),
                                  bytes_between(cx, lo, hi, r->dst.type), streams));
    } else if (r->kind == ROW_COPY && plain && !r->dst.bytes && !r->src.bytes &&
               has_row_function(r->dst.type, r->src.type)) {
        const char *const name = arena_printf(cx->arena, "kiln_%s_%s_from_%s", streams ? "stream" : "row",
                                              dtype_name(r->dst.type), dtype_name(r->src.type));
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, name, streams ? 4 : 3,
                                  cpu_place_address(cx, &r->dst, position(r, &r->dst, lo)),
                                  cpu_place_address(cx, &r->src, position(r, &r->src, lo)), int_sub(cx->arena, hi, lo),
                                  streams));
    } else {
        element_loop(r, lo, hi, false);
    }
}

static Expr *kept(Cpu *cx, const char *name, Expr *x)
{
    return x->kind == E_INT || x->kind == E_VAR ? x : cpu_of(cx, cpu_declare(cx, DTYPE_INT, name, x));
}

static void emit_row(Rows *r, int axis)
{
    Cpu *const cx = r->cx;
    Expr *lo = int_const(cx->arena, 0), *hi = cpu_expr(cx, r->dst.widths[axis]);
    if (narrow_range(r, &r->dst, axis, &lo, &hi)) {
        lo = kept(cx, "lo", lo);
        hi = kept(cx, "hi", greater(cx, lo, hi));
    } else hi = kept(cx, "hi", hi);
    Expr *first = lo, *end = hi;
    const bool narrowed = r->kind != ROW_FILL && narrow_range(r, &r->src, axis, &first, &end);
    if (!narrowed && !r->inside) {
        fill_or_copy_row(r, lo, hi);
        return;
    }
    first = kept(cx, "first", lesser(cx, first, hi));
    end = greater(cx, first, end);
    if (r->inside) end = expr_select(cx->arena, r->inside, end, first);
    end = kept(cx, "end", end);
    zero_row(r, lo, first);
    fill_or_copy_row(r, first, end);
    zero_row(r, end, hi);
}

static void emit_axis(Rows *r, int axis)
{
    Cpu *const cx = r->cx;
    if (axis == r->dst.n_axes - 1) {
        emit_row(r, axis);
        return;
    }
    Expr *lo = int_const(cx->arena, 0), *hi = cpu_expr(cx, r->dst.widths[axis]);
    narrow_range(r, &r->dst, axis, &lo, &hi);
    lo = kept(cx, "lo", lo);
    hi = kept(cx, "hi", hi);
    Var *const i = loop_new_var(cx->unit, DTYPE_INT, "r");
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    Expr *const inside = r->inside;
    r->axes[axis] = cpu_of(cx, i);
    Expr *const here = r->kind == ROW_FILL ? NULL : checks_at(r, &r->src, axis);
    if (here) r->inside = cpu_of(cx, cpu_declare(cx, DTYPE_BOOL, "inside", cpu_both(cx, inside, here)));
    emit_axis(r, axis + 1);
    r->inside = inside;
    r->axes[axis] = NULL;
    cpu_enter(cx, out);
    cpu_add_loop(cx, i, lo, hi, &body);
}

static void emit_element(Rows *r)
{
    Cpu *const cx = r->cx;
    Expr *value = r->value;
    if (r->kind != ROW_FILL) {
        value = cpu_place_load(cx, &r->src, position(r, &r->src, NULL));
        if (r->inside) value = expr_select(cx->arena, r->inside, value, cpu_zero_of(cx, value->type));
        value = cpu_convert(cx, r->dst.type, value);
    }
    store_element(r, position(r, &r->dst, NULL), value);
}

// ---- the whole slice

static bool merges(const Place *p, int a)
{
    int64_t outer, inner, width;
    return p->at.coef[a] && p->at.coef[a + 1] && expr_as_int(p->at.coef[a], &outer) &&
           expr_as_int(p->at.coef[a + 1], &inner) && expr_as_int(p->widths[a + 1], &width) && outer == inner * width;
}

// Where a row of the merged axis ends is where the outer one ends, if the check counts that one by one.
static bool check_merges(const PlaceCheck *c, int a)
{
    int64_t step;
    return !c->at.coef[a + 1] && (!c->at.coef[a] || (expr_as_int(c->at.coef[a], &step) && step == 1));
}

static bool checks_merge(const Place *p, int a)
{
    for (int i = 0; i < p->checks.count; i++)
        if (!check_merges(&p->checks.items[i], a)) return false;
    return true;
}

static void merge_coefficients(const Place *p, Linear *at, int a)
{
    for (int i = a; i + 1 < p->n_axes; i++) at->coef[i] = at->coef[i + 1];
    at->coef[p->n_axes - 1] = NULL;
}

static void merge_check(Cpu *cx, const Place *p, PlaceCheck *c, int a)
{
    Expr *const width = p->widths[a + 1];
    if (c->at.coef[a]) {
        c->at.base = int_mul(cx->arena, c->at.base, width);
        c->extent = int_mul(cx->arena, c->extent, width);
        for (int i = 0; i < p->n_axes; i++)
            if (c->at.coef[i]) c->at.coef[i] = int_mul(cx->arena, c->at.coef[i], width);
        c->at.coef[a] = NULL;
        c->at.coef[a + 1] = int_const(cx->arena, 1);
    }
    merge_coefficients(p, &c->at, a);
}

static void merge_axis(Cpu *cx, Place *p, int a)
{
    const int n = p->checks.count;
    PlaceCheck *const checks = NEW_ARRAY(cx->arena, PlaceCheck, n + 1); // not those of the place it is a copy of
    for (int i = 0; i < n; i++) {
        checks[i] = p->checks.items[i];
        merge_check(cx, p, &checks[i], a);
    }
    if (n) p->checks.items = checks;
    p->widths[a + 1] = int_mul(cx->arena, p->widths[a], p->widths[a + 1]);
    merge_coefficients(p, &p->at, a);
    for (int i = a; i + 1 < p->n_axes; i++) p->widths[i] = p->widths[i + 1];
    p->n_axes--;
}

// Axes that lie after each other on both sides become one long row.
static void merge_axes(Rows *r)
{
    if (r->dst.checks.count) return;
    for (int a = r->dst.n_axes - 2; a >= 0; a--) {
        if (!merges(&r->dst, a) || (r->kind != ROW_FILL && !(merges(&r->src, a) && checks_merge(&r->src, a)))) continue;
        merge_axis(r->cx, &r->dst, a);
        if (r->kind != ROW_FILL) merge_axis(r->cx, &r->src, a);
    }
}

static void emit_rows(Rows *r)
{
    Cpu *const cx = r->cx;
    if (r->dst.by_elements || r->src.by_elements) {
        if (r->kind == ROW_FILL) cpu_fill_elements(cx, &r->dst, r->value);
        else if (r->kind == ROW_COPY) cpu_copy_elements(cx, &r->dst, &r->src);
        else cpu_add_elements(cx, &r->dst, &r->src);
        return;
    }
    merge_axes(r);
    Expr *const writes = checks_at(r, &r->dst, -1);
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    if (r->kind != ROW_FILL) {
        Expr *const inside = checks_at(r, &r->src, -1);
        if (inside) r->inside = cpu_of(cx, cpu_declare(cx, DTYPE_BOOL, "inside", inside));
    }
    if (r->dst.n_axes == 0) emit_element(r);
    else emit_axis(r, 0);
    cpu_enter(cx, out);
    cpu_add_if(cx, writes, &body);
}

void cpu_copy_places(Cpu *cx, const Place *dst, const Place *src, Span span)
{
    Rows r = { .cx = cx, .kind = ROW_COPY, .dst = *dst, .src = *src };
    emit_rows(&r);
}

// ---- borrowing

// Whether the whole slice is inside; NULL: always.
static Expr *box_inside(Cpu *cx, const Place *p)
{
    Arena *const a = cx->arena;
    Expr *all = NULL;
    for (int i = 0; i < p->checks.count; i++) {
        const PlaceCheck *const c = &p->checks.items[i];
        Expr *last = cpu_expr(cx, c->at.base);
        Expr *const first = last;
        for (int x = 0; x < p->n_axes; x++)
            if (c->at.coef[x])
                last = int_add(
                    a, last,
                    int_mul(a, cpu_expr(cx, c->at.coef[x]), int_sub(a, cpu_expr(cx, p->widths[x]), int_const(a, 1))));
        all = cpu_both(cx, all, expr_binary(a, X_GE, first, int_const(a, 0)));
        all = cpu_both(cx, all, expr_binary(a, X_LT, last, cpu_expr(cx, c->extent)));
    }
    return all;
}

static void lower_borrowing_copy(Cpu *cx, TileOp *op)
{
    Buffer *const tile = op->copy.dst.buffer;
    TileInfo *const t = &cx->tiles[tile->id];
    Place src, dst;
    if (!cpu_place_region(cx, &src, &op->copy.src)) return;
    cpu_note_ahead(cx, op, &src);
    Expr *const inside = t->counts ? cpu_count_there(cx, t, &src) : box_inside(cx, &src);
    LoopList take = loop_list(cx->arena), fill = loop_list(cx->arena), *const out = cpu_enter(cx, &take);
    cpu_assign(cx, t->pointer, cpu_place_address(cx, &src, cpu_linear_at(cx, &src.at, NULL)));
    for (int d = 0; d < tile->rank - 1; d++) cpu_assign(cx, t->strides[d]->var.var, cpu_expr(cx, src.at.coef[d]));

    cpu_enter(cx, inside ? &fill : out);
    if (!inside) {
        cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { take.first } });
        return;
    }
    Expr *borrowed[MAX_RANK];
    int64_t stride = 1, extent = 1;
    memcpy(borrowed, t->strides, sizeof borrowed);
    cpu_assign(cx, t->pointer,
               cpu_call(cx, tile->type, "kiln_at", 2, cpu_of(cx, cx->host), int_const(cx->arena, t->offset)));
    for (int d = tile->rank - 1; d >= 0; d--) {
        if (d < tile->rank - 1) cpu_assign(cx, t->strides[d]->var.var, int_const(cx->arena, stride));
        t->strides[d] = int_const(cx->arena, stride);
        if (expr_as_int(tile->shape[d], &extent)) stride *= extent;
    }
    if (cpu_place_region(cx, &dst, &op->copy.dst)) cpu_copy_places(cx, &dst, &src, op->span);
    memcpy(t->strides, borrowed, sizeof borrowed);
    cpu_enter(cx, out);
    cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { inside, take.first, fill.first } });
}

typedef struct Borrow {
    Cpu *cx;
    bool *refused;
    bool *filled;
} Borrow;

// A copy into a whole tile of what could stand in for it.
bool cpu_can_lend(Cpu *cx, TileOp *op)
{
    Buffer *const tile = op->copy.dst.buffer, *const root = buffer_root(op->copy.src.buffer);
    Place src;
    if (!buffer_is_tile(tile) || !region_is_whole(&op->copy.dst) || root->kind != BUFFER_TENSOR ||
        root->access != ACCESS_IN || tile->type != op->copy.src.buffer->type || dtype_bits(tile->type) < 8 ||
        region_rank(&op->copy.src) != tile->rank)
        return false;
    return cpu_place_region(cx, &src, &op->copy.src) && !src.by_elements && !src.bytes && tile->rank > 0 &&
           cpu_place_stride(&src, tile->rank - 1) == 1;
}

static void refuse(const TileUse *use, void *context)
{
    const Borrow *const b = context;
    Buffer *const root = buffer_root(use->buffer);
    if (buffer_is_tile(root) && (use->writes || use->atomic || use->buffer != root)) b->refused[root->id] = true;
}

// f32 products read their left side where it lies, once for each panel of the right: rows far apart fall on few cache
// sets, so a tile that many panels read is worth its copy.
static void refuse_left_side(Borrow *b, const TileOp *op)
{
    const Operand *const a = &op->matmul.a;
    int64_t n;
    Expr *const columns = region_extent(&op->matmul.dst, 1);
    const bool in_place = a->region.buffer->type == DTYPE_F32 || a->region.buffer->type == DTYPE_F64;
    if (in_place && buffer_is_tile(a->region.buffer) && expr_as_int(columns, &n) && n >= 64)
        b->refused[a->region.buffer->id] = true;
}

static void survey_borrows(Borrow *b, TileOp *op, bool in_forall)
{
    for (; op; op = op->next) {
        if (op->kind == T_COPY && !in_forall && cpu_can_lend(b->cx, op)) {
            b->filled[op->copy.dst.buffer->id] = true;
            continue;
        }
        tile_uses(op, refuse, b);
        if (op->kind == T_MATMUL) refuse_left_side(b, op);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            survey_borrows(b, *body, in_forall || op->kind == T_FORALL);
    }
}

// Gives each tile that may borrow variables for its strides.
void cpu_find_borrowed(Cpu *cx)
{
    const int n = cx->kernel->n_buffers + 1;
    Borrow b = { cx, NEW_ARRAY(cx->arena, bool, n), NEW_ARRAY(cx->arena, bool, n) };
    if (cpu_is_checked(cx)) return;
    survey_borrows(&b, cx->kernel->body, false);
    for (int i = 0; i < n; i++) {
        TileInfo *const t = &cx->tiles[i];
        if (!b.filled[i] || b.refused[i] || !t->declared) continue;
        t->borrowed = true;
        for (int d = 0; d < MAX_RANK && t->strides[d]; d++) {
            int64_t one;
            if (t->strides[d + 1] == NULL && expr_as_int(t->strides[d], &one)) break;
            t->strides[d] = cpu_of(cx, cpu_declare(cx, DTYPE_INT, "stride", t->strides[d]));
        }
    }
    cpu_find_cut(cx);
}

// ---- the ops

static bool is_borrowing(const Cpu *cx, const TileOp *op)
{
    return op->kind == T_COPY && op->copy.dst.buffer->kind != BUFFER_TENSOR &&
           op->copy.dst.buffer->kind != BUFFER_VIEW && cx->tiles[op->copy.dst.buffer->id].borrowed;
}

void cpu_copy(Cpu *cx, TileOp *op)
{
    if (is_borrowing(cx, op)) {
        lower_borrowing_copy(cx, op);
        return;
    }
    Rows r = { .cx = cx, .kind = op->kind == T_FILL ? ROW_FILL : op->kind == T_COPY ? ROW_COPY : ROW_ATOMIC_ADD };
    if (r.kind == ROW_FILL) {
        Expr *const value = cpu_convert(cx, op->fill.dst.buffer->type, cpu_expr(cx, op->fill.value));
        r.value = value->kind == E_INT || value->kind == E_FLOAT || value->kind == E_VAR
                      ? value
                      : cpu_of(cx, cpu_declare(cx, value->type, "value", value));
    }
    if (!cpu_place_region(cx, &r.dst, r.kind == ROW_FILL ? &op->fill.dst : &op->copy.dst)) return;
    if (r.kind != ROW_FILL && !cpu_place_region(cx, &r.src, &op->copy.src)) return;
    if (cpu_is_checked(cx) && r.kind != ROW_FILL) cpu_mark_region(cx, &r.src, true);
    if (cpu_is_checked(cx) && r.kind == ROW_ATOMIC_ADD) cpu_mark_region(cx, &r.dst, true);
    if (r.kind == ROW_COPY) cpu_note_ahead(cx, op, &r.src);
    if (r.dst.by_elements || (r.kind != ROW_FILL && r.src.by_elements))
        cpu_note(cx, NOTE_SCATTERED, op->span, 8, "slices of the tensor itself, or a view that keeps its rows",
                 "the copy goes element by element, because its slice of a view is no linear form of its indices");
    else if (r.kind == ROW_COPY && (r.src.packed || r.dst.packed) && r.src.type != r.dst.type)
        cpu_note(cx, NOTE_SCATTERED, op->span, 8,
                 "a copy to a tile of the same type first, and the conversion from there",
                 "elements that are several to a byte are unpacked one by one");
    emit_rows(&r);
    if (r.kind == ROW_COPY && cx->tiles &&
        (op->copy.dst.buffer->kind == BUFFER_SHARED || op->copy.dst.buffer->kind == BUFFER_FRAGMENT))
        cpu_count_there(cx, &cx->tiles[op->copy.dst.buffer->id], &r.src);
    if (cpu_is_checked(cx) && r.kind != ROW_ATOMIC_ADD) cpu_mark_region(cx, &r.dst, false);
}

static bool is_whole_tile(const Region *r)
{
    return buffer_is_tile(r->buffer) && r->buffer->rank > 0 && region_is_whole(r);
}

// One side of a copy between a whole tile and a tensor that nothing but such copies touches.
static bool is_quiet_tensor(const Region *r, Access access, int rank)
{
    const Buffer *const root = buffer_root(r->buffer);
    return root->kind == BUFFER_TENSOR && root->access == access && region_rank(r) == rank;
}

// For rows.c: whether it copies row by row (or a few columns at a time) between tiles, from an `in` tensor, or into an
// `out` tensor, and how many there are.
bool cpu_can_copy_rows(const Cpu *cx, const TileOp *op, bool columns, int64_t *extent)
{
    const Region *const dst = &op->copy.dst, *const src = &op->copy.src;
    const Region *const tile = buffer_is_tile(dst->buffer) ? dst : src;
    const int rank = tile->buffer->rank;
    if (op->kind != T_COPY || !is_whole_tile(tile) || rank < (columns ? 1 : 2) || region_rank(tile) != rank)
        return false;
    if (tile == dst && (cx->tiles[dst->buffer->id].borrowed || cx->tiles[dst->buffer->id].counts)) return false;
    const bool fits = tile == src                   ? is_quiet_tensor(dst, ACCESS_OUT, rank)
                      : buffer_is_tile(src->buffer) ? src->buffer != dst->buffer && is_whole_tile(src) &&
                                                          src->buffer->rank == rank && region_rank(src) == rank
                                                    : is_quiet_tensor(src, ACCESS_IN, rank);
    return fits && expr_as_int(tile->buffer->shape[columns ? rank - 1 : 0], extent);
}
