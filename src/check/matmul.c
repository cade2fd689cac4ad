// SPDX-License-Identifier: MIT
// matmul.c - c = a @ b, c += a @ b: operands, extents, types.
#include "check/context.h"

static bool is_call(const Ex *ex, const char *name) { return ex->kind == EX_CALL && strcmp(ex->call.name, name) == 0; }

bool is_product(Checker *cx, const Ex *ex)
{
    if (ex->kind == EX_BINARY && ex->binary.op == OP_MATMUL) return true;
    return is_call(ex, "promote") || is_call(ex, "tf32x3");
}

// ---- operands

static bool one_argument(Checker *cx, const Ex *ex)
{
    if (ex->call.args && !ex->call.args->next) return true;
    return check_error(cx, ex->span, "'%s' takes one tile", ex->call.name);
}

static bool operand_conversion(Checker *cx, const Ex *ex, DType *type)
{
    if (*type != DTYPE_NONE) return check_error(cx, ex->span, "an operand is converted once");
    if (!ex->call.build || ex->call.build->next)
        return check_error(cx, ex->span, "'convert' names one type: convert<bf16>(x)");
    const Value v = check_expression(cx, ex->call.build);
    if (v.kind == VALUE_TYPE) *type = v.type;
    else if (v.kind != VALUE_POISON) check_error(cx, v.span, "expected a type, found %s", show_value(cx, &v));
    return v.kind == VALUE_TYPE;
}

static bool operand_type_allowed(Checker *cx, Span span, DType type)
{
    const bool narrow_integer = dtype_is_integer(type) && dtype_bits(type) <= 8;
    if (dtype_is_float(type) || narrow_integer) return true;
    return check_error(cx, span, "there is no product of %s; operands are floating or integers of at most 8 bits",
                       dtype_name(type));
}

static bool check_operand(Checker *cx, const Ex *ex, Operand *operand)
{
    DType type = DTYPE_NONE;
    bool transposed = false;
    const Span span = ex->span;
    while (ex->kind == EX_CALL) {
        if (is_call(ex, "transpose")) transposed = !transposed;
        else if (is_call(ex, "convert")) {
            if (!operand_conversion(cx, ex, &type)) return false;
        } else break;
        if (!one_argument(cx, ex)) return false;
        ex = ex->call.args;
    }
    if (ex->kind != EX_NAME && ex->kind != EX_SUBSCRIPT) {
        check_error(cx, ex->span, "an operand of '@' is a tile, or transpose(..) or convert<..>(..) of one");
        if (ex->kind == EX_BINARY && ex->binary.op == OP_MATMUL)
            check_help(cx, ex->span, "one product for each statement: give '%s' a fragment of its own", "a @ b");
        return false;
    }
    const Value v = check_expression(cx, ex);
    if (v.kind == VALUE_POISON) return false;
    if (v.kind != VALUE_REGION)
        return check_error(cx, ex->span, "an operand of '@' is a tile, not %s", show_value(cx, &v));
    if (!may_read(cx, v.entity, ex->span)) return false;
    if (buffer_root(v.region.buffer)->kind == BUFFER_TENSOR) {
        check_error(cx, ex->span, "an operand of '@' is a tile; '%s' is in global memory", v.region.buffer->name);
        check_help(cx, ex->span, "copy it first: shared %s tile[..][..] = ...;", dtype_name(v.region.buffer->type));
        return false;
    }
    if (region_rank(&v.region) != 2) {
        check_error(cx, ex->span, "an operand of '@' has two dimensions, not %d", region_rank(&v.region));
        check_note(cx, v.region.buffer->span, "'%s' is %s", v.region.buffer->name, show_buffer(cx, v.region.buffer));
        return false;
    }
    operand->region = v.region;
    operand->region.span = span;
    operand->transposed = transposed;
    operand->type = type != DTYPE_NONE ? type : v.region.buffer->type;
    return operand_type_allowed(cx, span, operand->type);
}

// rows: 0, columns: 1, of the operand as it is read
static bool operand_extent(Checker *cx, const Operand *operand, int axis, int64_t *extent)
{
    const Expr *const x = region_extent(&operand->region, operand->transposed ? 1 - axis : axis);
    if (expr_as_int(x, extent)) return true;
    return check_error(cx, operand->region.span, "the extents of a product must be known when built, and %s is not",
                       show_expr(cx, x));
}

// ---- types

static DType accumulator_of(DType operand)
{
    return operand == DTYPE_F64 ? DTYPE_F64 : dtype_is_float(operand) ? DTYPE_F32 : DTYPE_I32;
}

static bool operand_types_agree(Checker *cx, Span span, const Operand *a, const Operand *b)
{
    if (a->type == b->type) return true;
    const bool both_fp8 =
        dtype_is_float(a->type) && dtype_is_float(b->type) && dtype_bits(a->type) == 8 && dtype_bits(b->type) == 8;
    const bool both_bytes =
        dtype_is_integer(a->type) && dtype_is_integer(b->type) && dtype_bits(a->type) == dtype_bits(b->type);
    if (both_fp8 || both_bytes) return true;
    check_error(cx, span, "operands of '@' differ: %s on the left, %s on the right", dtype_name(a->type),
                dtype_name(b->type));
    const Operand *const narrow = dtype_bits(a->type) < dtype_bits(b->type) ? a : b, *const wide = narrow == a ? b : a;
    if (dtype_is_float(a->type) == dtype_is_float(b->type))
        check_help(cx, wide->region.span, "convert one: convert<%s>(%s)", dtype_name(narrow->type),
                   wide->region.buffer->name);
    return false;
}

static bool accumulator_fits(Checker *cx, const Region *dst, const Operand *a)
{
    const Buffer *const buffer = dst->buffer;
    if (buffer_root((Buffer *)buffer)->kind != BUFFER_FRAGMENT) {
        check_error(cx, dst->span, "the result of '@' is a fragment; '%s' is %s", buffer->name,
                    show_buffer(cx, buffer));
        check_help(cx, dst->span, "multiply into a fragment, then copy it");
        return false;
    }
    const DType wanted = accumulator_of(a->type);
    if (buffer->type == wanted) return true;
    check_error(cx, dst->span, "a product of %s gives %s; '%s' is %s", dtype_name(a->type), dtype_name(wanted),
                buffer->name, dtype_name(buffer->type));
    check_note(cx, buffer->span, "declared here");
    if (dtype_bits(buffer->type) < dtype_bits(wanted))
        check_help(cx, dst->span, "multiply into a fragment of %s, then copy it", dtype_name(wanted));
    return false;
}

// ---- extents

static const char *operand_text(Checker *cx, const Operand *operand)
{
    return arena_printf(cx->arena, "%s%s%s", operand->transposed ? "transpose of " : "",
                        show_region(cx, &operand->region), "");
}

static bool result_is(const Region *dst, int64_t m, int64_t n)
{
    int64_t rows, columns;
    return region_rank(dst) == 2 && expr_as_int(region_extent(dst, 0), &rows) &&
           expr_as_int(region_extent(dst, 1), &columns) && rows == m && columns == n;
}

static bool inner_extents_agree(Checker *cx, Span span, const Region *dst, const Operand *a, const Operand *b,
                                int64_t ka, int64_t kb)
{
    int64_t m, n;
    if (ka == kb) return true;
    check_error(cx, span, "inner extents of '@' differ: %lld on the left, %lld on the right", (long long)ka,
                (long long)kb);
    check_note(cx, a->region.span, "the left operand is %s", operand_text(cx, a));
    check_note(cx, b->region.span, "the right operand is %s", operand_text(cx, b));
    if (!operand_extent(cx, a, 0, &m) || !operand_extent(cx, b, 1, &n)) return false;
    if (n == ka && !b->transposed && result_is(dst, m, kb))
        check_help(cx, b->region.span, "did you mean transpose(%s)?", b->region.buffer->name);
    else if (m == kb && !a->transposed && result_is(dst, ka, n))
        check_help(cx, a->region.span, "did you mean transpose(%s)?", a->region.buffer->name);
    return false;
}

static bool result_shape_agrees(Checker *cx, const Region *dst, Span span, int64_t m, int64_t n)
{
    int64_t rows, columns;
    if (region_rank(dst) != 2)
        return check_error(cx, span, "a product is %lld x %lld; '%s' has %d dimension%s", (long long)m, (long long)n,
                           dst->buffer->name, region_rank(dst), region_rank(dst) == 1 ? "" : "s");
    if (!expr_as_int(region_extent(dst, 0), &rows) || !expr_as_int(region_extent(dst, 1), &columns))
        return check_error(cx, span, "the extents of a product must be known when built");
    if (rows == m && columns == n) return true;
    check_error(cx, span, "the product is %lld x %lld, '%s' is %lld x %lld", (long long)m, (long long)n,
                dst->buffer->name, (long long)rows, (long long)columns);
    check_note(cx, dst->buffer->span, "declared here");
    return false;
}

// ---- sparse24(a, meta): of four neighbours along the contraction two are kept

static bool check_sparse(Checker *cx, const Ex *ex, Operand *a, Buffer **meta)
{
    const Ex *const values = ex->call.args, *const places = values ? values->next : NULL;
    if (!places || places->next)
        return check_error(cx, ex->span, "'sparse24' takes (a, meta): the kept elements and their places");
    if (!check_operand(cx, values, a)) return false;
    const Value v = check_expression(cx, places);
    if (v.kind == VALUE_POISON) return false;
    if (v.kind != VALUE_REGION || !region_is_whole(&v.region) || buffer_root(v.region.buffer)->kind == BUFFER_TENSOR)
        return check_error(cx, places->span, "the places of 'sparse24' are a whole tile");
    if (!dtype_is_integer(v.region.buffer->type))
        return check_error(cx, places->span, "the places of 'sparse24' are integers, not %s",
                           dtype_name(v.region.buffer->type));
    *meta = v.region.buffer;
    return true;
}

// Two bits for each element that `a` keeps, rows below rows.
static bool places_fit(Checker *cx, const Ex *ex, const Buffer *meta, int64_t m, int64_t kept)
{
    const int64_t per = dtype_bits(meta->type) / 2, columns = (kept + per - 1) / per;
    int64_t extent[2];
    if (meta->rank == 2 && expr_as_int(meta->shape[0], &extent[0]) && expr_as_int(meta->shape[1], &extent[1]) &&
        extent[0] == m && extent[1] == columns)
        return true;
    return check_error(cx, ex->span, "the places of %lld x %lld kept elements are %s[%lld][%lld], two bits each",
                       (long long)m, (long long)kept, dtype_name(meta->type), (long long)m, (long long)columns);
}

// ---- the statement

static bool check_promote(Checker *cx, const Ex **ex, bool accumulate, int *promote)
{
    const Ex *const call = *ex, *const steps = call->call.args;
    int64_t value;
    if (!steps || !steps->next || steps->next->next) return check_error(cx, call->span, "'promote' takes (n, a @ b)");
    if (!accumulate) return check_error(cx, call->span, "'promote' adds: c += promote(n, a @ b)");
    if (!check_const_int(cx, steps, "the number of steps", &value)) return false;
    if (value < 1 || value > 1024)
        return check_error(cx, steps->span, "%lld steps: there are 1 to 1024", (long long)value);
    *promote = (int)value;
    *ex = steps->next;
    if ((*ex)->kind == EX_BINARY && (*ex)->binary.op == OP_MATMUL) return true;
    return check_error(cx, (*ex)->span, "'promote' takes (n, a @ b)");
}

// tf32x3(a @ b): a target may multiply f32 in three products of tf32.
static bool check_in_three(Checker *cx, const Ex **ex)
{
    const Ex *const call = *ex, *const product = call->call.args;
    if (!product || product->next || product->kind != EX_BINARY || product->binary.op != OP_MATMUL)
        return check_error(cx, call->span, "'tf32x3' takes (a @ b)");
    *ex = product;
    return true;
}

void check_product(Checker *cx, const Region *dst, Span span, const Ex *ex, bool accumulate)
{
    Operand a = { 0 }, b = { 0 };
    Buffer *meta = NULL;
    int promote = 0;
    int64_t m, n, ka, kb;
    if (cx->sequential) {
        check_error(cx, ex->span, "sequential code has no products of tiles; write the loops");
        return;
    }
    if (cx->forall) {
        check_error(cx, span, "a product stands outside of forall");
        return;
    }
    if (is_call(ex, "promote") && !check_promote(cx, &ex, accumulate, &promote)) return;
    const bool in_three = is_call(ex, "tf32x3");
    if (in_three && !check_in_three(cx, &ex)) return;
    const bool is_sparse = is_call(ex->binary.a, "sparse24");
    const bool ok_a = is_sparse ? check_sparse(cx, ex->binary.a, &a, &meta) : check_operand(cx, ex->binary.a, &a);
    const bool ok_b = check_operand(cx, ex->binary.b, &b);
    if (!ok_a || !ok_b) return;
    if (!operand_extent(cx, &a, 0, &m) || !operand_extent(cx, &a, 1, &ka) || !operand_extent(cx, &b, 0, &kb) ||
        !operand_extent(cx, &b, 1, &n))
        return;
    if (!inner_extents_agree(cx, ex->span, dst, &a, &b, is_sparse ? 2 * ka : ka, kb)) return;
    if (!operand_types_agree(cx, ex->span, &a, &b) || !accumulator_fits(cx, dst, &a) ||
        !result_shape_agrees(cx, dst, span, m, n))
        return;
    if (is_sparse && !places_fit(cx, ex->binary.a->call.args->next, meta, m, ka)) return;
    if (promote && (!dtype_is_float(a.type) || dtype_bits(a.type) != 8)) {
        check_error(cx, ex->span, "'promote' is for products of fp8, not of %s", dtype_name(a.type));
        return;
    }
    if (in_three && (a.type != DTYPE_F32 || is_sparse)) {
        check_error(cx, ex->span, "'tf32x3' is for dense products of f32, not of %s", dtype_name(a.type));
        return;
    }
    emit(cx, (TileOp){ .kind = T_MATMUL,
                       .span = span,
                       .matmul = { *dst, a, b, accumulate, promote, .in_three = in_three, .meta = meta } });
}
