// SPDX-License-Identifier: MIT
// matmul.c - products through the prelude's register-blocked kernels.
//
// An operand that lies in rows (of a tile, a slice of one, or a tensor that a tile borrows) is handed over as it is;
// one that must be converted first, or lies otherwise, is copied into the room after the tiles. Packing is the
// prelude's. Types that no kernel takes meet in the narrowest type that holds both exactly.
#include "lower/cpu/cpu.h"

#include <assert.h>

// Up to so many rows on the left, packing the right costs more than it saves.
enum { FEW_ROWS = 4 };

typedef struct Kind {
    const char *name;
    DType a, b, c;
    const char *use, *few;
} Kind;
// clang-format off
static const Kind kinds[] = {   // of kiln_matmul_NAME; `use`, `few`: the parts of the prelude that define it
    { "f32",       DTYPE_F32,  DTYPE_F32,  DTYPE_F32, "F32", "FEW_F32" },
    { "f64",       DTYPE_F64,  DTYPE_F64,  DTYPE_F64, "F64", "F64" },
    { "bf16",      DTYPE_BF16, DTYPE_BF16, DTYPE_F32, "BF16", "FEW_BF16" },
    { "f16",       DTYPE_F16,  DTYPE_F16,  DTYPE_F32, "F16", "FEW_F16" },
    { "e4m3",      DTYPE_E4M3, DTYPE_E4M3, DTYPE_F32, "E4M3", "FEW_E4M3" },
    { "e5m2",      DTYPE_E5M2, DTYPE_E5M2, DTYPE_F32, "E5M2", "FEW_E5M2" },
    { "e4m3_e5m2", DTYPE_E4M3, DTYPE_E5M2, DTYPE_F32, "E4M3_E5M2", NULL },
    { "e5m2_e4m3", DTYPE_E5M2, DTYPE_E4M3, DTYPE_F32, "E5M2_E4M3", NULL },
    { "i8i8",      DTYPE_I8,   DTYPE_I8,   DTYPE_I32, "I8I8", "FEW_I8" },
    { "u8u8",      DTYPE_U8,   DTYPE_U8,   DTYPE_I32, "U8U8", NULL },
    { "i8u8",      DTYPE_I8,   DTYPE_U8,   DTYPE_I32, "I8U8", NULL },
    { "u8i8",      DTYPE_U8,   DTYPE_I8,   DTYPE_I32, "U8I8", NULL },
    { "i32",       DTYPE_I32,  DTYPE_I32,  DTYPE_I32, "I32", NULL },
};
// clang-format on

static const Kind *find_kind(DType a, DType b, DType c)
{
    for (int i = 0; i < COUNT(kinds); i++)
        if (kinds[i].a == a && kinds[i].b == b && kinds[i].c == c) return &kinds[i];
    return NULL;
}

static bool fits_bf16(DType t) { return t == DTYPE_BF16 || t == DTYPE_E4M3 || t == DTYPE_E5M2 || t == DTYPE_E2M1; }

static DType byte_of(DType t)
{
    return t == DTYPE_I8 || t == DTYPE_I4 || t == DTYPE_I2   ? DTYPE_I8
           : t == DTYPE_U8 || t == DTYPE_U4 || t == DTYPE_U2 ? DTYPE_U8
                                                             : t;
}

// The product of two element types summed in c; NULL if there is none.
static const Kind *choose_kind(DType a, DType b, DType c)
{
    if (a == DTYPE_TF32) a = DTYPE_F32;
    if (b == DTYPE_TF32) b = DTYPE_F32;
    const Kind *const direct = find_kind(byte_of(a), byte_of(b), c);
    if (direct) return direct;
    if (c == DTYPE_I32) return find_kind(DTYPE_I32, DTYPE_I32, c);
    if (c == DTYPE_F64) return find_kind(DTYPE_F64, DTYPE_F64, c);
    if (c != DTYPE_F32) return NULL;
    return fits_bf16(a) && fits_bf16(b) ? find_kind(DTYPE_BF16, DTYPE_BF16, c) : find_kind(DTYPE_F32, DTYPE_F32, c);
}

// ---- operands

typedef struct Side {
    Expr *pointer, *stride; // of its first element; elements from row to row
    bool transposed;        // a lies as [k][m], b as [n][k]
    int64_t rows, columns;  // as it lies
    const TileInfo *cut;    // how much of it is inside (cut.c), NULL: all
} Side;

static bool const_widths(Cpu *cx, const Place *p, int64_t *rows, int64_t *columns, Span span)
{
    if (p->n_axes == 2 && expr_as_int(p->widths[0], rows) && expr_as_int(p->widths[1], columns)) return true;
    return cpu_unsupported(cx, span, "a product of slices whose extents are not known when built");
}

static Place own_array(Cpu *cx, DType type, int64_t rows, int64_t columns, int64_t *room)
{
    return cpu_own_array(cx, type, (int64_t[]){ rows, columns }, 2, room);
}

// p itself, or, where it is not a plain array, its contents in one.
static Place plain_place(Cpu *cx, const Place *p, int64_t *room)
{
    int64_t rows, columns;
    if ((!p->checks.count && !p->packed && !p->bytes && !p->by_elements) ||
        !const_widths(cx, p, &rows, &columns, p->span))
        return *p;
    Place plain = own_array(cx, p->type, rows, columns, room);
    cpu_copy_places(cx, &plain, p, p->span);
    return plain;
}

static bool lower_side(Cpu *cx, const Operand *o, DType type, int64_t *room, Side *side)
{
    Place p;
    if (!cpu_place_region(cx, &p, &o->region)) return false;
    if (!const_widths(cx, &p, &side->rows, &side->columns, o->region.span)) return false;
    if (cpu_is_checked(cx)) cpu_mark_region(cx, &p, true);
    side->transposed = o->transposed;
    const bool same = p.type == type || (p.type == DTYPE_TF32 && type == DTYPE_F32);
    // The conversion that the source asks for rounds; it is not skipped even if the kernel takes both types.
    const bool as_named =
        same && (o->type == p.type || o->type == DTYPE_NONE || o->type == DTYPE_TF32 || o->type == type);
    const TileInfo *const t = buffer_is_tile(o->region.buffer) ? &cx->tiles[o->region.buffer->id] : NULL;
    side->cut = t && t->counts ? t : NULL;
    const bool direct = as_named && !p.packed && !p.bytes && !p.by_elements && !p.checks.count;
    if (direct && (cpu_place_stride(&p, 1) == 1 || cpu_place_stride(&p, 0) == 1)) {
        const bool across = cpu_place_stride(&p, 1) != 1;
        side->pointer = cpu_place_address(cx, &p, cpu_linear_at(cx, &p.at, NULL));
        side->stride = cpu_expr(cx, p.at.coef[across ? 1 : 0]);
        if (across) {
            const int64_t rows = side->rows;
            side->rows = side->columns;
            side->columns = rows;
            side->transposed = !side->transposed;
        }
        return true;
    }
    Place dense = own_array(cx, type, side->rows, side->columns, room);
    if (o->type != DTYPE_NONE && o->type != p.type && o->type != type && dtype_bits(o->type) < dtype_bits(type)) {
        Place rounded = own_array(cx, o->type, side->rows, side->columns, room);
        cpu_copy_places(cx, &rounded, &p, o->region.span);
        cpu_copy_places(cx, &dense, &rounded, o->region.span);
    } else cpu_copy_places(cx, &dense, &p, o->region.span);
    side->pointer = cpu_of(cx, dense.pointer);
    side->stride = int_const(cx->arena, side->columns);
    return true;
}

// ---- 2:4 sparsity

// Row i of the compressed a holds, for each group of four columns, two values; meta has their columns.
static bool expand_sparse(Cpu *cx, TileOp *op, DType type, int64_t *room, Side *side)
{
    Place a, meta;
    int64_t rows, columns;
    Region whole = region_whole(cx->arena, op->matmul.meta, op->span);
    if (!cpu_place_region(cx, &a, &op->matmul.a.region) || !cpu_place_region(cx, &meta, &whole)) return false;
    a = plain_place(cx, &a, room);
    meta = plain_place(cx, &meta, room);
    if (op->matmul.a.transposed ? !const_widths(cx, &a, &columns, &rows, op->span)
                                : !const_widths(cx, &a, &rows, &columns, op->span))
        return false;
    Place dense = own_array(cx, type, rows, 2 * columns, room);
    cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_zero_bytes", 2, cpu_of(cx, dense.pointer),
                              int_const(cx->arena, rows * columns * 2 * dtype_bits(type) / 8)));
    Var *const i = loop_new_var(cx->unit, DTYPE_INT, "i"), *const j = loop_new_var(cx->unit, DTYPE_INT, "j");
    LoopList inner = loop_list(cx->arena), outer = loop_list(cx->arena), *const out = cpu_enter(cx, &inner);
    // meta: u8[rows][columns / 4] holds four 2-bit columns a byte; any wider integer goes on the same way.
    const int per = dtype_bits(op->matmul.meta->type) / 2;
    Expr *at_meta[] = { cpu_of(cx, i), expr_binary(cx->arena, X_DIV, cpu_of(cx, j), int_const(cx->arena, per)) };
    Expr *const word = cpu_convert(cx, DTYPE_U64, cpu_place_load(cx, &meta, cpu_linear_at(cx, &meta.at, at_meta)));
    Expr *const shift = int_mul(cx->arena, expr_binary(cx->arena, X_MOD, cpu_of(cx, j), int_const(cx->arena, per)),
                                int_const(cx->arena, 2));
    Expr *const bits =
        expr_binary(cx->arena, X_BITAND, expr_binary(cx->arena, X_SHR, word, cpu_convert(cx, DTYPE_U64, shift)),
                    expr_int(cx->arena, DTYPE_U64, 3));
    Expr *const group = int_mul(cx->arena, expr_binary(cx->arena, X_DIV, cpu_of(cx, j), int_const(cx->arena, 2)),
                                int_const(cx->arena, 4));
    Expr *at_dense[] = { cpu_of(cx, i), int_add(cx->arena, group, cpu_convert(cx, DTYPE_INT, bits)) };
    Expr *at_a[] = { cpu_of(cx, op->matmul.a.transposed ? j : i), cpu_of(cx, op->matmul.a.transposed ? i : j) };
    cpu_place_store(cx, &dense, cpu_linear_at(cx, &dense.at, at_dense),
                    cpu_convert(cx, type, cpu_place_load(cx, &a, cpu_linear_at(cx, &a.at, at_a))));
    cpu_enter(cx, &outer);
    cpu_add_loop(cx, j, int_const(cx->arena, 0), int_const(cx->arena, columns), &inner);
    cpu_enter(cx, out);
    cpu_add_loop(cx, i, int_const(cx->arena, 0), int_const(cx->arena, rows), &outer);
    *side = (Side){ cpu_of(cx, dense.pointer), int_const(cx->arena, 2 * columns), false, rows, 2 * columns, NULL };
    return true;
}

// ---- the op

static DType operand_type(const Operand *o) { return o->type == DTYPE_NONE ? o->region.buffer->type : o->type; }

// Whether b is better read where it lies (prelude/matmul_few.c). For bf16 and i8, tile registers and dot products of
// pairs and quads take up to 16 rows, where b lies as they need it.
static bool is_few(const Cpu *cx, const Kind *kind, int64_t m, int64_t n, int64_t k, bool a_transposed,
                   bool b_transposed)
{
    const CpuTarget *const t = cx->target;
    const bool bf16 = kind->a == DTYPE_BF16 && kind->b == DTYPE_BF16 && t->isa == ISA_AVX512 && m <= 16;
    if (bf16 && t->amx && b_transposed && n % 16 == 0 && k % 32 == 0) return true;
    if (bf16 && t->bf16 && !t->amx && !a_transposed && (b_transposed ? k % 32 == 0 : n % 32 == 0 && k % 2 == 0))
        return true;
    if (kind->a == DTYPE_I8)
        return kind->few && t->vnni && t->isa == ISA_AVX512 && m <= (t->amx ? FEW_ROWS : 16) && !a_transposed &&
               b_transposed && k % 64 == 0;
    if (kind->c == DTYPE_F64 && (a_transposed || !b_transposed)) return false;
    return kind->few && m <= FEW_ROWS;
}

// For cut.c: whether the product takes this side as its tile holds it, by a function that packs.
bool cpu_product_may_cut(Cpu *cx, TileOp *op, const Operand *side)
{
    const DType a = operand_type(&op->matmul.a), b = operand_type(&op->matmul.b);
    const Kind *const kind = choose_kind(a, b, op->matmul.dst.buffer->type);
    const DType type = side == &op->matmul.a ? kind ? kind->a : DTYPE_NONE : kind ? kind->b : DTYPE_NONE;
    const bool transposed = op->matmul.a.transposed;
    int64_t m, n, k;
    if (!kind || kind->c == DTYPE_F64 || kind->a == DTYPE_I32 || op->matmul.meta || operand_type(side) != type ||
        side->region.buffer->type != type || !expr_as_int(region_extent(&op->matmul.dst, 0), &m) ||
        !expr_as_int(region_extent(&op->matmul.dst, 1), &n) ||
        !expr_as_int(region_extent(&op->matmul.a.region, transposed ? 0 : 1), &k))
        return false;
    return !is_few(cx, kind, m, n, k, transposed, op->matmul.b.transposed);
}

static Expr *there(Cpu *cx, const TileInfo *t, int axis, int64_t extent)
{
    return t && t->there[axis] ? cpu_of(cx, t->there[axis]) : int_const(cx->arena, extent);
}

static Expr *larger(Cpu *cx, Expr *x, Expr *y)
{
    int64_t a, b;
    if (expr_equal(x, y) || (expr_as_int(x, &a) && expr_as_int(y, &b) && a >= b)) return x;
    return cpu_call(cx, DTYPE_INT, "kiln_max_int", 2, x, y);
}

// What a product computes, where the edges of tensors cut its sides, and what of these is in memory.
typedef struct Extents {
    Expr *m, *n, *k, *a_m, *a_k, *b_n, *b_k;
} Extents;

static Extents product_extents(Cpu *cx, const TileOp *op, const Side *a, const Side *b, int64_t m, int64_t n, int64_t k)
{
    enum { PANEL = 64 }; // columns that are computed together, at most
    const int a_k = a->transposed ? 0 : 1, b_n = b->transposed ? 0 : 1;
    Arena *const arena = cx->arena;
    Expr *const rows = there(cx, a->cut, 1 - a_k, m), *const columns = there(cx, b->cut, b_n, n);
    Expr *const a_steps = there(cx, a->cut, a_k, k), *const b_steps = there(cx, b->cut, 1 - b_n, k);
    const bool a_lent = a->cut && a->cut->borrowed, b_lent = b->cut && b->cut->borrowed;
    Extents e = { int_const(arena, m), int_const(arena, n), int_const(arena, k), int_const(arena, m),
                  int_const(arena, k), int_const(arena, n), int_const(arena, k) };
    if (a_lent) e.a_m = rows, e.a_k = a_steps;
    if (b_lent) e.b_n = columns, e.b_k = b_steps;
    if (a->cut && a->cut->there[a_k] && b->cut && b->cut->there[1 - b_n]) e.k = larger(cx, a_steps, b_steps);
    if (a->cut && a->cut->there[1 - a_k] && cpu_hides_sums(cx, op, 0, a->cut, 1 - a_k)) e.m = rows;
    if (b->cut && b->cut->there[b_n] && cpu_hides_sums(cx, op, 1, b->cut, b_n)) {
        Expr *const whole =
            int_mul(arena, int_const(arena, PANEL), int_ceildiv(arena, columns, int_const(arena, PANEL)));
        e.n = n % PANEL == 0 ? whole : columns;
    }
    return e;
}

static void emit_product(Cpu *cx, TileOp *op, const Kind *kind)
{
    Place c;
    Side a, b;
    int64_t room = 0, m, n;
    if (!cpu_place_region(cx, &c, &op->matmul.dst) || !const_widths(cx, &c, &m, &n, op->span)) return;
    if (cpu_is_checked(cx) && op->matmul.accumulate) cpu_mark_region(cx, &c, true);
    assert(!c.checks.count && !c.packed && !c.bytes && !c.by_elements && cpu_place_stride(&c, 1) == 1 &&
           "products go into rows of fragments");
    const bool sparse = op->matmul.meta != NULL;
    if (sparse ? !expand_sparse(cx, op, kind->a, &room, &a) : !lower_side(cx, &op->matmul.a, kind->a, &room, &a))
        return;
    if (!lower_side(cx, &op->matmul.b, kind->b, &room, &b)) return;
    const int64_t k = a.transposed ? a.rows : a.columns;
    const int64_t unit = kind->c == DTYPE_F64 ? 8 : 4;
    Expr *const scratch = cpu_call(cx, DTYPE_U8, "kiln_at", 2, cpu_of(cx, cx->temp), int_const(cx->arena, room));
    cpu_temp_room(cx, room, unit * (round_up(n, 64) * round_up(k, 16) + round_up(m, 16) * (round_up(k, 16) + 16)) + 64);
    const bool few = is_few(cx, kind, m, n, k, a.transposed, b.transposed);
    if (few) cpu_temp_room(cx, room, 16 * round_up(k, 16) + 32 * k + 64 * 16 * 4 + 64);
    cpu_use_prelude(cx, few ? kind->few : kind->use);
    Expr *const to = cpu_place_address(cx, &c, cpu_linear_at(cx, &c.at, NULL)), *const to_stride =
                                                                                    cpu_expr(cx, c.at.coef[0]);
    Expr *const turned_a = int_const(cx->arena, a.transposed), *const turned_b = int_const(cx->arena, b.transposed);
    Expr *const more = int_const(cx->arena, op->matmul.accumulate);
    if (few || (!a.cut && !b.cut)) {
        cpu_add_call(cx,
                     cpu_call(cx, DTYPE_INT, arena_printf(cx->arena, "kiln_%s_%s", few ? "few" : "matmul", kind->name),
                              few ? 14 : 13, to, to_stride, a.pointer, a.stride, turned_a, b.pointer, b.stride,
                              turned_b, int_const(cx->arena, m), int_const(cx->arena, n), int_const(cx->arena, k), more,
                              scratch, few ? cpu_take_ahead(cx, &op->matmul.b) : NULL));
    } else {
        const Extents e = product_extents(cx, op, &a, &b, m, n, k);
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, arena_printf(cx->arena, "kiln_matmul_cut_%s", kind->name), 17, to,
                                  to_stride, a.pointer, a.stride, turned_a, e.a_m, e.a_k, b.pointer, b.stride, turned_b,
                                  e.b_n, e.b_k, e.m, e.n, e.k, more, scratch));
    }
    if (cpu_is_checked(cx)) cpu_mark_region(cx, &c, false);
}

void cpu_matmul(Cpu *cx, TileOp *op)
{
    const DType a = operand_type(&op->matmul.a), b = operand_type(&op->matmul.b), c = op->matmul.dst.buffer->type;
    const Kind *const kind = choose_kind(a, b, c);
    if (!kind) {
        cpu_unsupported(cx, op->span, "a product of %s and %s summed in %s", dtype_name(a), dtype_name(b),
                        dtype_name(c));
        return;
    }
    if (kind->a == DTYPE_I32 && dtype_bits(a) <= 8)
        cpu_note(cx, NOTE_PRODUCT_LOOP, op->span, 8, "operands that are both of 8 bits or less",
                 arena_printf(cx->arena, "the product of %s and %s is computed in i32, without dot products of bytes",
                              dtype_name(a), dtype_name(b)));
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    emit_product(cx, op, kind);
    cpu_enter(cx, out);
    cpu_add_if(cx, NULL, &body);
}
