// SPDX-License-Identifier: MIT
// assignments.c - x = y, x op= y, copies, fills, atomics and scans: which operation each of them is.
#include "check/context.h"
#include "syntax/foreign.h"

// ---- operators of updates

static bool update_op(Operator op, UpdateOp *update)
{
    switch ((int)op) {
    case OP_ADD: *update = UPDATE_ADD; return true;
    case OP_SUB: *update = UPDATE_SUB; return true;
    case OP_MUL: *update = UPDATE_MUL; return true;
    case OP_DIV: *update = UPDATE_DIV; return true;
    case OP_MOD: *update = UPDATE_MOD; return true;
    case OP_SHL: *update = UPDATE_SHL; return true;
    case OP_SHR: *update = UPDATE_SHR; return true;
    case OP_MIN: *update = UPDATE_MIN; return true;
    case OP_MAX: *update = UPDATE_MAX; return true;
    case OP_OR: *update = UPDATE_OR; return true;
    case OP_AND: *update = UPDATE_AND; return true;
    case OP_XOR: *update = UPDATE_XOR; return true;
    default: return false;
    }
}

static bool reduces_with(Operator op)
{
    return op == OP_ADD || op == OP_MUL || op == OP_MIN || op == OP_MAX || op == OP_OR || op == OP_AND || op == OP_XOR;
}

static bool atomic_op(Operator op, AtomicOp *atomic)
{
    switch ((int)op) {
    case OP_ADD: *atomic = ATOMIC_ADD; return true;
    case OP_MIN: *atomic = ATOMIC_MIN; return true;
    case OP_MAX: *atomic = ATOMIC_MAX; return true;
    case OP_AND: *atomic = ATOMIC_AND; return true;
    case OP_OR: *atomic = ATOMIC_OR; return true;
    default: return false;
    }
}

// ---- the value of an update

static bool is_bitwise(Operator op) { return op == OP_AND || op == OP_OR || op == OP_XOR; }

// old op value; the operands are converted to the type in which that is computed.
static Value combine(Checker *cx, Span span, Operator op, Value *old, Value *value)
{
    if (old->kind == VALUE_POISON || value->kind == VALUE_POISON) return POISON;
    const bool both_bool =
        value->kind == VALUE_SCALAR && old->expr->type == DTYPE_BOOL && value->expr->type == DTYPE_BOOL;
    if (both_bool && is_bitwise(op)) return check_binary(cx, span, op, *old, *value);
    if (op == OP_MIN || op == OP_MAX) {
        if (!convert_pair(cx, old, value, update_text(op))) return POISON;
        Expr *const result =
            written_math(cx, old->expr->type, op == OP_MIN ? M_MIN : M_MAX, 2, (Expr *[]){ old->expr, value->expr });
        return scalar_value(result, span);
    }
    const Value result = check_binary(cx, span, op, *old, *value);
    if (result.kind == VALUE_POISON) return POISON;
    if (op == OP_SHL || op == OP_SHR) *value = convert_value(cx, *value, result.expr->type);
    else convert_pair(cx, old, value, update_text(op));
    return result;
}

// ---- variables

static bool is_outer_variable(const Checker *cx, const Place *place)
{
    return cx->forall && place->entity->forall_depth < forall_depth(cx);
}

static void note_reduction(Checker *cx, TileOp *op, const Buffer *root, Var *var)
{
    const Reduction reduction = { (Buffer *)root, var, op->update.op, op };
    VEC_PUSH(cx->arena, &cx->forall->reductions, reduction);
}

static void report_no_reduction(Checker *cx, Span span, Operator op, const char *name)
{
    if (op == OP_ASSIGN) {
        check_error(cx, span, "every iteration writes '%s'", name);
        check_help(cx, span,
                   "a variable declared inside the forall belongs to one iteration; 'op=' reduces over all of them");
    } else {
        check_error(cx, span, "'%s' does not reduce; += *= min= max= |= &= ^= do", update_text(op));
        if (op == OP_SUB) check_help(cx, span, "add the negative: '%s += -(...)'", name);
    }
}

static bool is_index(const Checker *cx, const Expr *x)
{
    for (int i = 0; x->kind == E_VAR && i < cx->forall->n_vars; i++)
        if (cx->forall->vars[i] == x->var.var) return true;
    return false;
}

static void reduce_variable(Checker *cx, const Place *place, Operator op, Value value, Span span)
{
    Value old = scalar_value(expr_var(cx->arena, place->var), place->span);
    if (!reduces_with(op)) {
        report_no_reduction(cx, span, op, place->entity->name);
        if (op == OP_ASSIGN && is_index(cx, value.expr))
            check_help(cx, span, "to find where the largest is, %s", foreign_advice(cx->arena, find_foreign("argmax")));
        return;
    }
    if (combine(cx, span, op, &old, &value).kind == VALUE_POISON) return;
    TileOp update = { .kind = T_UPDATE,
                      .span = span,
                      .update = { .var = place->var, .value = value.expr, .reduces = true } };
    update_op(op, &update.update.op);
    note_reduction(cx, emit(cx, update), NULL, place->var);
}

static void assign_variable(Checker *cx, const Place *place, Operator op, Value value, Span span)
{
    if (is_outer_variable(cx, place)) {
        reduce_variable(cx, place, op, value, span);
        return;
    }
    if (op != OP_ASSIGN) {
        Value old = scalar_value(expr_var(cx->arena, place->var), place->span);
        value = combine(cx, span, op, &old, &value);
    }
    Expr *const x = convert_expr(cx, value, place->type);
    if (x) emit(cx, (TileOp){ .kind = T_SET, .span = span, .let = { place->var, x } });
}

// ---- elements and regions inside forall

static bool is_private(const Checker *cx, const Place *place)
{
    const Buffer *const root = buffer_root(place->region.buffer);
    return root->kind == BUFFER_LOCAL && place->entity->forall_depth >= forall_depth(cx);
}

static const char *missing_index(const Checker *cx, uint32_t used)
{
    for (int i = 0; i < cx->forall->n_vars; i++) {
        int64_t lo, hi;
        const LoopIndex *const index = &cx->forall->op->forall.indices[i];
        const bool single = expr_as_int(index->lo, &lo) && expr_as_int(index->hi, &hi) && hi - lo <= 1;
        if (!(used >> i & 1) && !single) return index->var->name;
    }
    return "";
}

// Whether iterations may write here. `reduces`: as a reduction.
static bool may_write_in_forall(Checker *cx, const Place *place, Operator op, Span span, bool *reduces)
{
    *reduces = false;
    if (!cx->forall || is_private(cx, place)) return true;
    if (cx->forall->poisoned) return false;
    uint32_t used;
    const WriteKind kind = classify_write(cx, &place->region, &used);
    const char *const name = place->entity->name;
    const char *const missing = missing_index(cx, used);
    if (op == OP_ASSIGN) {
        if (kind == WRITE_APART || (kind == WRITE_UNKNOWN && !*missing)) return true;
        if (kind == WRITE_REDUCES || *missing) {
            check_error(cx, span, "every '%s' writes the same element of '%s'", missing, name);
            check_help(cx, span, "'op=' reduces over '%s'; '=' needs it among the subscripts", missing);
        } else {
            check_error(cx, span, "different iterations write the same element of '%s'", name);
            if (place->kind == PLACE_REGION)
                check_note(cx, place->span, "a slice tells iterations apart if its stride is at least its width");
        }
        return false;
    }
    if (kind == WRITE_APART) return true;
    if (kind == WRITE_REDUCES && reduces_with(op)) {
        *reduces = true;
        return true;
    }
    if (kind == WRITE_REDUCES) {
        report_no_reduction(cx, span, op, name);
        return false;
    }
    AtomicOp atomic;
    check_error(cx, span, "the subscripts of '%s' do not tell the iterations apart", name);
    if (atomic_op(op, &atomic) && buffer_root(place->region.buffer)->kind != BUFFER_FRAGMENT)
        check_help(cx, span, "write 'atomic' before it if iterations may meet in one element");
    return false;
}

static void assign_element(Checker *cx, const Place *place, Operator op, Value value, Span span)
{
    bool reduces;
    if (value.kind == VALUE_REGION) {
        check_error(cx, value.span, "an element of '%s' takes one value, not %s", place->entity->name,
                    show_region(cx, &value.region));
        return;
    }
    if (!may_write_in_forall(cx, place, op, span, &reduces)) return;
    Buffer *const buffer = place->region.buffer;
    Expr **const subs = region_subs(cx, &place->region);
    if (op == OP_ASSIGN) {
        Expr *const x = convert_expr(cx, value, buffer->type);
        if (x) emit(cx, (TileOp){ .kind = T_STORE, .span = span, .store = { buffer, subs, x } });
        return;
    }
    if (!may_read(cx, place->entity, place->span)) return;
    Value old = scalar_value(load_element(cx, &place->region), place->span);
    const Value result = combine(cx, span, op, &old, &value);
    if (result.kind == VALUE_POISON) return;
    if (!reduces && result.expr->type != dtype_info[buffer->type].wide) { // computed in a type of its own
        Expr *const x = convert_expr(cx, result, buffer->type);
        if (x) emit(cx, (TileOp){ .kind = T_STORE, .span = span, .store = { buffer, subs, x } });
        return;
    }
    TileOp update = { .kind = T_UPDATE,
                      .span = span,
                      .update = { .buffer = buffer, .subs = subs, .value = value.expr, .reduces = reduces } };
    update_op(op, &update.update.op);
    TileOp *const made = emit(cx, update);
    if (reduces) note_reduction(cx, made, buffer_root(buffer), NULL);
}

// ---- whole regions: copy and fill

static void copy_region(Checker *cx, const Place *place, const Value *src, Span span)
{
    if (!may_read(cx, src->entity, src->span)) return;
    if (!same_shape(cx, span, &place->region, &src->region, "copy")) return;
    emit(cx, (TileOp){ .kind = T_COPY, .span = span, .copy = { place->region, src->region } });
}

static bool reads_root(const Expr *x, void *root)
{
    return x->kind == E_ATOMIC || (x->kind == E_LOAD && buffer_root(x->load.buffer) == root);
}

// One value for all elements, found before the first is written.
static void fill_region(Checker *cx, const Place *place, Value value, Span span)
{
    Expr *x = convert_expr(cx, value, place->region.buffer->type);
    if (x && expr_any(x, reads_root, buffer_root(place->region.buffer))) x = snapshot(cx, x, "value", span);
    if (x) emit(cx, (TileOp){ .kind = T_FILL, .span = span, .fill = { place->region, x } });
}

static void assign_region(Checker *cx, const Place *place, Operator op, const Ex *ex, Span span)
{
    bool reduces;
    if (is_product(cx, ex)) {
        if (op != OP_ASSIGN && op != OP_ADD)
            check_error(cx, span, "a product is assigned with = or +=, not with %s", update_text(op));
        else check_product(cx, &place->region, span, ex, op == OP_ADD);
        return;
    }
    if (op != OP_ASSIGN) {
        check_error(cx, span, "'%s' takes single elements, not the whole of %s", update_text(op),
                    show_region(cx, &place->region));
        check_help(cx, span, "element by element: forall (i : ...) %s[i] %s ...", place->entity->name, update_text(op));
        return;
    }
    const Value value = check_expression(cx, ex);
    if (value.kind == VALUE_POISON || !may_write_in_forall(cx, place, op, span, &reduces)) return;
    if (value.kind == VALUE_REGION) {
        copy_region(cx, place, &value, span);
        return;
    }
    fill_region(cx, place, value, span);
}

void assign_to(Checker *cx, Place place, Operator op, const Ex *ex, Span span)
{
    if (place.kind == PLACE_POISON) {
        check_expression(cx, ex); // for its own mistakes
        return;
    }
    if (place.kind == PLACE_REGION) {
        assign_region(cx, &place, op, ex, span);
        return;
    }
    const Value value = check_expression(cx, ex);
    if (value.kind == VALUE_POISON) return;
    if (place.kind == PLACE_VARIABLE && value.kind == VALUE_REGION) {
        check_error(cx, value.span, "'%s' takes one value, not %s", place.entity->name, show_region(cx, &value.region));
        return;
    }
    if (place.kind == PLACE_VARIABLE) assign_variable(cx, &place, op, value, span);
    else assign_element(cx, &place, op, value, span);
}

void check_assign(Checker *cx, const St *st)
{
    const Place place = check_place(cx, st->assign.target);
    if (place.kind == PLACE_POISON && is_product(cx, st->assign.value)) return;
    assign_to(cx, place, st->assign.op, st->assign.value, st->span);
}

// ---- atomics

static bool has_atomics(DType type, AtomicOp op)
{
    const bool is_float = dtype_is_float(type);
    if (dtype_bits(type) == 32 || dtype_bits(type) == 64) {
        if (type == DTYPE_TF32) return false;
        return !is_float || op == ATOMIC_ADD || op == ATOMIC_MIN || op == ATOMIC_MAX || op == ATOMIC_EXCHANGE;
    }
    return (type == DTYPE_F16 || type == DTYPE_BF16) && op == ATOMIC_ADD;
}

static const char *const atomic_names[] = {
    [ATOMIC_ADD] = "add",
    [ATOMIC_MIN] = "min",
    [ATOMIC_MAX] = "max",
    [ATOMIC_AND] = "and",
    [ATOMIC_OR] = "or",
    [ATOMIC_EXCHANGE] = "exchange",
    [ATOMIC_CAS] = "compare-and-exchange",
};

bool is_atomic_target(Checker *cx, const Place *place, AtomicOp op)
{
    if (place->kind == PLACE_POISON) return false;
    if (place->kind == PLACE_VARIABLE) {
        check_error(cx, place->span, "'%s' is a scalar, which only this instance sees: it needs no atomic",
                    place->entity->name);
        return false;
    }
    const Buffer *const root = buffer_root(place->region.buffer);
    if (root->kind == BUFFER_FRAGMENT || root->kind == BUFFER_LOCAL) {
        check_error(cx, place->span, "an atomic works on tensors and shared tiles; '%s' is %s", place->entity->name,
                    show_buffer(cx, root));
        return false;
    }
    if (!may_read(cx, place->entity, place->span)) return false;
    if (place->kind == PLACE_REGION && op != ATOMIC_ADD) {
        check_error(cx, place->span, "atomics on whole tiles add; '%s' is for elements", atomic_names[op]);
        return false;
    }
    if (has_atomics(place->type, op)) return true;
    check_error(cx, place->span, "there is no atomic %s for %s", atomic_names[op], dtype_name(place->type));
    return false;
}

void check_atomic(Checker *cx, const St *st)
{
    const Place place = check_place(cx, st->assign.target);
    AtomicOp op;
    if (!atomic_op(st->assign.op, &op)) {
        check_error(cx, st->span, "there is no atomic '%s'; += min= max= |= &= are", update_text(st->assign.op));
        return;
    }
    const Value value = check_expression(cx, st->assign.value);
    if (value.kind == VALUE_POISON || !is_atomic_target(cx, &place, op)) return;
    if (place.kind == PLACE_REGION && value.kind == VALUE_REGION) {
        if (cx->forall) {
            check_error(cx, st->span, "an atomic on a whole tile stands outside of forall");
            return;
        }
        if (!may_read(cx, value.entity, value.span) ||
            !same_shape(cx, st->span, &place.region, &value.region, "atomic"))
            return;
        emit(cx, (TileOp){ .kind = T_ATOMIC_TILE, .span = st->span, .copy = { place.region, value.region } });
        return;
    }
    if (place.kind == PLACE_REGION) {
        check_error(cx, st->span, "an atomic on a slice adds a tile, not %s", show_value(cx, &value));
        return;
    }
    Expr *const x = convert_expr(cx, value, place.type);
    if (x)
        emit(cx, (TileOp){ .kind = T_ATOMIC,
                           .span = st->span,
                           .atomic = { op, place.region.buffer, region_subs(cx, &place.region), x } });
}

// ---- scans

void check_cumsum(Checker *cx, const Ex *call)
{
    const Ex *const dst = call->call.args, *const src = dst ? dst->next : NULL, *const axis_ex = src ? src->next : NULL;
    if (!axis_ex || axis_ex->next) {
        check_error(cx, call->span, "'cumsum' takes (dst, src, axis)");
        return;
    }
    if (cx->forall) {
        check_error(cx, call->span, "'cumsum' stands outside of forall");
        return;
    }
    const Place place = check_place(cx, dst);
    const Value value = check_expression(cx, src);
    int64_t axis;
    if (!check_const_int(cx, axis_ex, "the axis", &axis) || place.kind == PLACE_POISON || value.kind == VALUE_POISON)
        return;
    if (place.kind != PLACE_REGION || value.kind != VALUE_REGION) {
        check_error(cx, call->span, "'cumsum' scans tiles, not single values");
        return;
    }
    for (int side = 0; side < 2; side++) {
        const Region *const region = side == 0 ? &place.region : &value.region;
        if (buffer_root(region->buffer)->kind != BUFFER_TENSOR) continue;
        check_error(cx, region->span, "'cumsum' works on tiles; copy '%s' into one first", region->buffer->name);
        return;
    }
    if (!may_read(cx, value.entity, value.span) || !same_shape(cx, call->span, &place.region, &value.region, "cumsum"))
        return;
    if (axis < 0 || axis >= region_rank(&place.region)) {
        check_error(cx, axis_ex->span, "axis %lld of %s", (long long)axis, show_region(cx, &place.region));
        return;
    }
    emit(cx, (TileOp){ .kind = T_SCAN, .span = call->span, .scan = { place.region, value.region, (int)axis } });
}
