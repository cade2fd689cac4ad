// SPDX-License-Identifier: MIT
// shapes.c - parameters of a kernel: tensors, shape symbols and how a launch learns them, preconditions.
//
// An extent that is a new name is a symbol. Its first plain appearance binds it (not in an absent tensor); a name
// that only occurs as `X + constant` is bound by that. Everything else is checked at launch. A binding makes a
// symbol or a scalar argument a constant, which the launch then checks.
#include "check/context.h"

static bool is_symbol_name(Checker *cx, const Ex *ex) { return ex->kind == EX_NAME && !find_entity(cx, ex->name.name); }

// ---- scalars

static void declare_argument(Checker *cx, const Param *param, TileParam *made)
{
    Entity entity = {
        .kind = ENTITY_POISON, .name = param->name, .span = param->span, .what = "a scalar argument", .may_read = true
    };
    const DType type = resolve_type(cx, &param->type);
    if (param->mode != MODE_SCALAR) {
        check_error(cx, param->span, "'%s' has no extents: '%s' is for tensors, a scalar is passed by value",
                    param->name,
                    param->mode == MODE_IN    ? "in"
                    : param->mode == MODE_OUT ? "out"
                                              : "inout");
    } else if (type != DTYPE_NONE && dtype_bits(type) < 8) {
        check_error(cx, param->type.span, "a scalar argument of %s: packed types are for tensors", dtype_name(type));
    } else if (type != DTYPE_NONE) {
        made->scalar = tile_new_var(cx->kernel, VAR_ARGUMENT, type, param->name, param->span);
        Expr *const fixed = bound_constant(cx, param->name, param->span, type);
        entity.kind = fixed ? ENTITY_VALUE : ENTITY_VARIABLE;
        entity.var = made->scalar;
        entity.value = fixed;
        entity.type = type;
        if (fixed) {
            const TileRequire equal = { expr_binary(cx->arena, X_EQ, expr_var(cx->arena, made->scalar), fixed),
                                        arena_printf(cx->arena, "'%s' was fixed when built", param->name),
                                        param->span };
            VEC_PUSH(cx->arena, &cx->requires, equal);
        }
    }
    declare(cx, entity);
}

// ---- symbols

static Var *new_symbol(Checker *cx, Name name, Span span)
{
    Expr *const fixed = bound_constant(cx, name, span, DTYPE_INT);
    Entity entity = { .kind = fixed ? ENTITY_VALUE : ENTITY_VARIABLE,
                      .name = name,
                      .span = span,
                      .what = "a shape symbol",
                      .may_read = true,
                      .value = fixed,
                      .type = DTYPE_INT };
    if (!fixed) {
        entity.var = tile_new_var(cx->kernel, VAR_SYMBOL, DTYPE_INT, name, span);
        entity.var->lo = int_const(cx->arena, 0);
    }
    declare(cx, entity);
    return entity.var;
}

static void add_bind(Checker *cx, Var *symbol, int param, int dim, int64_t subtract)
{
    const TileBind bind = { .symbol = symbol, .param = param, .dim = dim, .subtract = subtract };
    if (symbol) VEC_PUSH(cx->arena, &cx->binds, bind);
}

// X + c, c + X, X - c where X is not known yet.
static const Ex *symbol_plus_constant(Checker *cx, const Ex *ex, int64_t *constant)
{
    if (ex->kind != EX_BINARY || (ex->binary.op != OP_ADD && ex->binary.op != OP_SUB)) return NULL;
    const Ex *symbol = ex->binary.a, *other = ex->binary.b;
    if (ex->binary.op == OP_ADD && !is_symbol_name(cx, symbol)) {
        symbol = ex->binary.b;
        other = ex->binary.a;
    }
    if (!is_symbol_name(cx, symbol)) return NULL;
    if (other->kind != EX_INT && !(other->kind == EX_NAME && find_entity(cx, other->name.name))) return NULL;
    const Value v = check_expression(cx, other);
    if (v.kind != VALUE_SCALAR || !expr_as_int(v.expr, constant)) return NULL;
    if (ex->binary.op == OP_SUB) *constant = -*constant;
    return symbol;
}

static bool is_absent_param(Checker *cx, const Param *param)
{
    return param->optional && is_bound_absent(cx, param->name);
}

static void bind_plain_symbols(Checker *cx, const Decl *decl)
{
    int index = 0;
    for (const Param *param = decl->params; param; param = param->next, index++) {
        if (!param->extents || is_absent_param(cx, param)) continue;
        int d = 0;
        for (const Ex *extent = param->extents; extent; extent = extent->next, d++)
            if (is_symbol_name(cx, extent)) add_bind(cx, new_symbol(cx, extent->name.name, extent->span), index, d, 0);
    }
}

static void bind_offset_symbols(Checker *cx, const Decl *decl)
{
    int index = 0;
    for (const Param *param = decl->params; param; param = param->next, index++) {
        if (!param->extents || is_absent_param(cx, param)) continue;
        int d = 0;
        for (const Ex *extent = param->extents; extent; extent = extent->next, d++) {
            int64_t constant;
            const Ex *const symbol = symbol_plus_constant(cx, extent, &constant);
            if (symbol) add_bind(cx, new_symbol(cx, symbol->name.name, symbol->span), index, d, constant);
        }
    }
}

static void note_unbound_symbols(Checker *cx, const Decl *decl)
{
    for (const Param *param = decl->params; param; param = param->next) {
        if (!param->extents || !is_absent_param(cx, param)) continue;
        for (const Ex *extent = param->extents; extent; extent = extent->next)
            if (is_symbol_name(cx, extent))
                declare(cx, (Entity){ .kind = ENTITY_UNBOUND,
                                      .name = extent->name.name,
                                      .span = extent->span,
                                      .what = param->name });
    }
}

// ---- tensors

static bool is_bind(const Checker *cx, int param, int dim)
{
    for (int i = 0; i < cx->binds.count; i++)
        if (cx->binds.items[i].param == param && cx->binds.items[i].dim == dim) return true;
    return false;
}

static bool is_launch_value(const Expr *x, void *context)
{
    if (x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    return x->kind == E_VAR && x->var.var->kind != VAR_SYMBOL && x->var.var->kind != VAR_ARGUMENT;
}

// Computable at launch: from symbols and scalar arguments.
bool known_at_launch(const Expr *x) { return !expr_any(x, is_launch_value, NULL); }

// Names in an extent that is checked, not solved, must be bound elsewhere.
static bool report_unbound(Checker *cx, const Ex *ex)
{
    switch ((int)ex->kind) {
    case EX_NAME:
        if (find_entity(cx, ex->name.name)) return false;
        check_error(cx, ex->span, "nothing binds '%s'", ex->name.name);
        check_help(cx, ex->span, "a shape symbol is bound where it is an extent by itself, or as %s + constant",
                   ex->name.name);
        return true;
    case EX_UNARY: return report_unbound(cx, ex->unary.a);
    case EX_BINARY: {
        const bool left = report_unbound(cx, ex->binary.a);
        return report_unbound(cx, ex->binary.b) || left;
    }
    case EX_CALL: {
        bool any = false;
        for (const Ex *arg = ex->call.args; arg; arg = arg->next) any |= report_unbound(cx, arg);
        return any;
    }
    default: return false;
    }
}

static bool tensor_shape(Checker *cx, const Param *param, int index, bool absent, Buffer *tensor)
{
    bool ok = true;
    for (const Ex *extent = param->extents; extent; extent = extent->next) {
        if (tensor->rank == MAX_RANK)
            return check_error(cx, extent->span, "'%s' has more than %d dimensions", param->name, MAX_RANK);
        const int d = tensor->rank++;
        if (absent) {
            tensor->shape[d] = int_const(cx->arena, 0);
            continue;
        }
        if (report_unbound(cx, extent)) {
            ok = false;
            tensor->shape[d] = int_const(cx->arena, 0);
            continue;
        }
        tensor->shape[d] = check_int(cx, extent, "an extent");
        int64_t constant;
        if (!tensor->shape[d]) {
            ok = false;
            tensor->shape[d] = int_const(cx->arena, 0);
        } else if (expr_as_int(tensor->shape[d], &constant) && constant < 0) {
            ok = check_error(cx, extent->span, "an extent of %lld", (long long)constant);
        } else if (!is_bind(cx, index, d)) {
            const TileShapeCheck check = { index, d, tensor->shape[d] };
            VEC_PUSH(cx->arena, &cx->checks, check);
        }
    }
    return ok;
}

// Rows that began within a byte would be written by two instances at once. Known when built, or else at launch.
static bool packed_rows_fill_bytes(Checker *cx, const Param *param, const Buffer *tensor)
{
    Arena *const a = cx->arena;
    const int bits = dtype_bits(tensor->type);
    if (bits >= 8 || tensor->rank == 0) return true;
    Expr *const last = tensor->shape[tensor->rank - 1], *const zero = int_const(a, 0);
    Expr *const cond = expr_binary(a, X_EQ, expr_binary(a, X_MOD, last, int_const(a, 8 / bits)), zero);
    bool known;
    if (is_const_bool(cond, &known))
        return known || check_error(cx, param->span, "a row of %s %s fills no whole bytes: %d are one",
                                    show_expr(cx, last), dtype_name(tensor->type), 8 / bits);
    const char *const message = arena_printf(a, "the rows of '%s', %s of %s, must fill whole bytes: %d are one",
                                             param->name, show_expr(cx, last), dtype_name(tensor->type), 8 / bits);
    VEC_PUSH(cx->arena, &cx->requires, ((TileRequire){ cond, message, param->span }));
    learn_required(cx, cond);
    return true;
}

// Bound to `strided`: the last dimension is contiguous, the strides of the others are symbols, which a launch binds to
// multiples of 16 bytes.
static void space_rows(Checker *cx, const Param *param, int index, Buffer *tensor)
{
    const int bits = dtype_bits(tensor->type);
    if (tensor->rank == 0 || bits < 8) {
        check_error(cx, param->span, "'%s' cannot be strided: it has no rows of whole bytes", param->name);
        return;
    }
    tensor->stride[tensor->rank - 1] = int_const(cx->arena, 1);
    for (int d = 0; d + 1 < tensor->rank; d++) {
        const char *const name = arena_printf(cx->arena, "%s_stride%d", param->name, d);
        Var *const symbol = tile_new_var(cx->kernel, VAR_SYMBOL, DTYPE_INT, name, param->span);
        symbol->lo = int_const(cx->arena, 0);
        symbol->hi = int_const(cx->arena, TENSOR_STRIDE_MAX);
        symbol->multiple = 16 * 8 / bits;
        tensor->stride[d] = expr_var(cx->arena, symbol);
        VEC_PUSH(cx->arena, &cx->binds, ((TileBind){ .symbol = symbol, .param = index, .dim = d, .is_stride = true }));
    }
}

static void declare_tensor(Checker *cx, const Param *param, int index, TileParam *made)
{
    Entity entity = {
        .kind = ENTITY_POISON, .name = param->name, .span = param->span, .what = "a tensor", .optional = param->optional
    };
    const DType type = resolve_type(cx, &param->type);
    const bool absent = is_absent_param(cx, param);
    Buffer *const tensor = tile_new_buffer(cx->kernel, BUFFER_TENSOR, type, param->name, 0, param->span);
    tensor->param = index;
    tensor->access = param->mode == MODE_IN ? ACCESS_IN : param->mode == MODE_OUT ? ACCESS_OUT : ACCESS_INOUT;
    tensor->strided = param->strided;
    tensor->optional = param->optional;
    made->is_tensor = true;
    made->tensor = tensor;
    made->absent = absent;
    if (param->mode == MODE_SCALAR)
        check_error(cx, param->span, "the tensor '%s' needs a direction: in, out or inout", param->name);
    else if (tensor_shape(cx, param, index, absent, tensor) && type != DTYPE_NONE &&
             packed_rows_fill_bytes(cx, param, tensor)) {
        const bool spaced = is_bound_strided(cx, param->name), unaligned = is_bound_unaligned(cx, param->name);
        tensor->unaligned = unaligned && !cx->sequential; // references take contiguous tensors
        tensor->strided |= tensor->unaligned;
        if (spaced && !absent && !cx->sequential && !tensor->strided) space_rows(cx, param, index, tensor);
        entity.kind = absent ? ENTITY_ABSENT : ENTITY_BUFFER;
        entity.buffer = tensor;
        entity.may_read = param->mode != MODE_OUT || cx->sequential;
        entity.may_write = param->mode != MODE_IN || cx->fills_inputs;
    }
    const Entity *const declared = declare(cx, entity);
    // A case says itself which tensors it has.
    if (cx->fills_inputs && entity.kind == ENTITY_BUFFER && param->optional)
        cx->present = NEW(cx->arena, PresentFact, .entity = declared, .next = cx->present);
}

// One more `in` tensor for each that is written: what the reference made of it.
static void declare_expected(Checker *cx, const Decl *decl)
{
    const int n = cx->params.count;
    int index = 0;
    for (const Param *param = decl->params; param && index < n; param = param->next, index++) {
        const TileParam written = cx->params.items[index];
        if (!written.is_tensor || !(written.tensor->access & ACCESS_OUT)) continue;
        const char *const text = arena_printf(cx->arena, "expected_%s", param->name);
        const Name name = intern_text(cx->arena, text);
        TileParam made = { .name = name, .span = param->span, .is_tensor = true, .absent = written.absent };
        made.tensor =
            tile_new_buffer(cx->kernel, BUFFER_TENSOR, written.tensor->type, name, written.tensor->rank, param->span);
        memcpy(made.tensor->shape, written.tensor->shape, sizeof made.tensor->shape);
        made.tensor->param = cx->params.count;
        made.tensor->access = ACCESS_IN;
        made.tensor->optional = written.tensor->optional;
        declare(cx, (Entity){ .kind = written.absent ? ENTITY_ABSENT : ENTITY_BUFFER,
                              .name = name,
                              .span = param->span,
                              .what = "a tensor",
                              .buffer = made.tensor,
                              .may_read = true,
                              .optional = written.tensor->optional });
        VEC_PUSH(cx->arena, &cx->params, made);
    }
}

bool bind_parameters(Checker *cx, const Decl *decl, bool with_expected)
{
    const int errors = cx->errors;
    int n = 0;
    for (const Param *param = decl->params; param; param = param->next, n++)
        VEC_PUSH(cx->arena, &cx->params, ((TileParam){ .name = param->name, .span = param->span }));
    int i = 0;
    for (const Param *param = decl->params; param; param = param->next, i++)
        if (!param->extents) declare_argument(cx, param, &cx->params.items[i]);
    bind_plain_symbols(cx, decl);
    bind_offset_symbols(cx, decl);
    note_unbound_symbols(cx, decl);
    i = 0;
    for (const Param *param = decl->params; param; param = param->next, i++)
        if (param->extents) declare_tensor(cx, param, i, &cx->params.items[i]);
    if (with_expected) declare_expected(cx, decl);
    return cx->errors == errors;
}

// ---- preconditions

// The values of the names in a condition that turned out false when built.
static void note_values(Checker *cx, const Ex *ex)
{
    if (!ex) return;
    switch ((int)ex->kind) {
    case EX_NAME: {
        const Entity *const entity = find_entity(cx, ex->name.name);
        if (entity && entity->kind == ENTITY_VALUE && !entity->flexible && expr_is_const(entity->value))
            check_note(cx, ex->span, "%s is %s", ex->name.name, show_expr(cx, entity->value));
        break;
    }
    case EX_UNARY: note_values(cx, ex->unary.a); break;
    case EX_BINARY:
        note_values(cx, ex->binary.a);
        note_values(cx, ex->binary.b);
        break;
    case EX_SELECT:
        note_values(cx, ex->select.cond);
        note_values(cx, ex->select.a);
        note_values(cx, ex->select.b);
        break;
    case EX_CALL:
        for (const Ex *arg = ex->call.args; arg; arg = arg->next) note_values(cx, arg);
        break;
    default: break;
    }
}

void check_require(Checker *cx, const St *st)
{
    Expr *cond = check_condition(cx, st->require.cond);
    const char *message = "a precondition does not hold";
    bool known;
    if (st->require.message && st->require.message->kind == EX_STRING) message = st->require.message->string.text;
    else if (st->require.message) check_error(cx, st->require.message->span, "the message must be a text in quotes");
    if (!cond) return;
    if (cx->branch_depth > 0 || cx->forall) {
        check_error(cx, st->span, "a precondition stands outside of conditions and loops");
        return;
    }
    cond = expr_folded(cx->arena, cond);
    if (is_const_bool(cond, &known)) {
        if (known) return;
        check_error(cx, st->require.cond->span, "%s", message);
        note_values(cx, st->require.cond);
        return;
    }
    if (!known_at_launch(cond)) {
        check_error(cx, st->require.cond->span, "'require' is about shapes and scalar arguments");
        check_help(cx, st->require.cond->span, "what depends on data is 'assume' (a fact) or 'assert' (a test)");
        return;
    }
    learn_required(cx, cond);
    VEC_PUSH(cx->arena, &cx->requires, ((TileRequire){ cond, message, st->span }));
}

// ---- the end

void finish_parameters(Checker *cx)
{
    TileKernel *const k = cx->kernel;
    k->params = cx->params.items;
    k->n_params = cx->params.count;
    k->binds = cx->binds.items;
    k->n_binds = cx->binds.count;
    k->checks = cx->checks.items;
    k->n_checks = cx->checks.count;
    k->requires = cx->requires.items;
    k->n_requires = cx->requires.count;
    k->grid = cx->grid.items;
    k->n_grid = cx->grid.count;
}
