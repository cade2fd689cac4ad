// SPDX-License-Identifier: MIT
// calls.c - functions, inlined: arguments, deduction of build parameters, extents, return.
//
// A call becomes the function's statements, with its parameters standing for the arguments: scalars for their
// values (in a variable where the function changes them or their value could change), tiles and tensors for
// themselves or for a view of the slice passed. A single `return` at the end gives its expression directly; others
// set a variable, and what must not run after them is put under a condition (see Escape in context.h).
#include "check/context.h"
#include "base/c_words.h"
#include "syntax/foreign.h"

// ---- arguments

typedef struct Argument {
    const Ex *ex;
    Value value;      // of a scalar by value, tile or tensor
    Place place;      // of a scalar to be changed
    bool absent;      // `none`, or an optional tensor that is not there
    Entity *optional; // an optional tensor passed on
} Argument;

static int count_params(const Decl *fn)
{
    int n = 0;
    for (const Param *param = fn->params; param; param = param->next) n++;
    return n;
}

static bool has_few_params(Checker *cx, const Decl *fn)
{
    return count_params(fn) <= PARAMETERS_MAX ||
           check_error(cx, fn->name_span, "more than %d parameters", PARAMETERS_MAX);
}

static bool changes_scalar(const Param *param)
{
    return !param->extents && (param->mode == MODE_OUT || param->mode == MODE_INOUT);
}

// An optional tensor may be handed on to an optional parameter without a question.
static bool pass_optional(Checker *cx, const Param *param, const Ex *ex, Argument *argument)
{
    if (!param->optional) return false;
    if (ex->kind == EX_NONE) return argument->absent = true;
    Entity *const entity = ex->kind == EX_NAME ? find_entity(cx, ex->name.name) : NULL;
    if (!entity) return false;
    if (entity->kind == ENTITY_ABSENT) return argument->absent = true;
    if (entity->kind != ENTITY_BUFFER || !entity->optional) return false;
    argument->optional = entity;
    argument->value = (Value){ .kind = VALUE_REGION,
                               .span = ex->span,
                               .region = region_whole(cx->arena, entity->buffer, ex->span),
                               .entity = entity };
    return true;
}

static bool check_argument(Checker *cx, const Param *param, const Ex *ex, Argument *argument)
{
    *argument = (Argument){ .ex = ex };
    if (changes_scalar(param)) {
        argument->place = check_place(cx, ex);
        if (argument->place.kind == PLACE_POISON) return false;
        if (argument->place.kind == PLACE_VARIABLE) return true;
        return check_error(cx, ex->span, "'%s' changes, so it takes a variable", param->name);
    }
    if (!param->extents) {
        argument->value = check_scalar(cx, ex);
        return argument->value.kind != VALUE_POISON;
    }
    if (pass_optional(cx, param, ex, argument)) return true;
    if (ex->kind == EX_NONE) return check_error(cx, ex->span, "'%s' is not optional", param->name);
    if (ex->kind != EX_NAME && ex->kind != EX_SUBSCRIPT)
        return check_error(cx, ex->span, "'%s' is a tile or tensor; expected the name of one, or a slice", param->name);
    Entity *entity;
    Region region;
    if (!check_region(cx, ex, &entity, &region)) {
        if (entity && entity->kind != ENTITY_POISON && entity->kind != ENTITY_BUFFER)
            check_error(cx, ex->span, "'%s' is a tile or tensor, and '%s' a scalar", param->name, entity->name);
        return false;
    }
    argument->value = (Value){ .kind = VALUE_REGION, .span = ex->span, .region = region, .entity = entity };
    if (is_element(&region)) return check_error(cx, ex->span, "'%s' is a tile or tensor, not an element", param->name);
    return true;
}

// ---- deduction

static bool is_build_name(const BuildParam *build, Name name) { return name && build->name == name; }

// The value of a build parameter as the arguments tell it; poison if none does.
static Value deduce(Checker *cx, const Decl *fn, const BuildParam *build, const Argument *arguments)
{
    int i = 0;
    for (const Param *param = fn->params; param; param = param->next, i++) {
        const Argument *const argument = &arguments[i];
        const Value *const value = &argument->value;
        if (argument->absent) continue;
        if (build->kind == BUILD_TYPE && is_build_name(build, param->type.name)) {
            DType type = DTYPE_NONE;
            if (argument->place.kind == PLACE_VARIABLE) type = argument->place.type;
            else if (value->kind == VALUE_REGION) type = value->region.buffer->type;
            else if (value->kind == VALUE_SCALAR) type = settle(cx, *value).expr->type;
            return (Value){ .kind = VALUE_TYPE, .span = argument->ex->span, .type = type };
        }
        if (build->kind != BUILD_INT || value->kind != VALUE_REGION) continue;
        int d = 0;
        for (const Ex *extent = param->extents; extent; extent = extent->next, d++)
            if (is_name(extent, build->name) && d < region_rank(&value->region) &&
                expr_is_const(region_extent(&value->region, d)))
                return scalar_value(region_extent(&value->region, d), argument->ex->span);
    }
    return POISON;
}

// `explicit_values`: those given in <...>, in order.
static bool bind_build_params(Checker *cx, const Decl *fn, const Ex *call, const Value *explicit_values, int n,
                              const Argument *arguments)
{
    int i = 0;
    bool ok = true;
    for (const BuildParam *build = fn->build; build; build = build->next, i++) {
        Value value = i < n ? explicit_values[i] : deduce(cx, fn, build, arguments);
        if (i >= n && value.kind == VALUE_POISON && build->value) value = check_build_value(cx, build, build->value);
        else if (i >= n && value.kind == VALUE_POISON) {
            ok = check_error(cx, call->call.name_span, "the arguments do not tell '%s' of '%s'", build->name, fn->name);
            check_help(cx, call->call.name_span, "give it: %s<...>(...)", fn->name);
        }
        declare_build_param(cx, build, value);
        ok &= value.kind != VALUE_POISON;
    }
    return ok;
}

// ---- binding tiles and tensors

static const char *access_text(Mode mode) { return mode == MODE_IN ? "in" : mode == MODE_OUT ? "out" : "inout"; }

static bool allows_mode(Checker *cx, const Param *param, const Argument *argument)
{
    const Entity *const entity = argument->value.entity;
    if (!entity) return true;
    const bool reads = param->mode != MODE_OUT, writes = param->mode != MODE_IN;
    if ((!reads || entity->may_read) && (!writes || entity->may_write)) return true;
    check_error(cx, argument->ex->span, "'%s' is '%s', and '%s' of the function '%s'", entity->name,
                entity->may_read ? "in" : "out", param->name, access_text(param->mode));
    check_note(cx, entity->span, "declared here");
    return false;
}

static Buffer *argument_buffer(Checker *cx, const Param *param, const Argument *argument)
{
    const Region *const region = &argument->value.region;
    if (region_is_whole(region) && region_rank(region) == region->buffer->rank) return region->buffer;
    if (cx->forall) {
        check_error(cx, argument->ex->span, "inside forall only whole tiles and tensors are passed, not slices");
        return NULL;
    }
    return new_view(cx, param->name, region->buffer->type, region, NULL, argument->ex->span);
}

static void bind_tensor(Checker *cx, const Param *param, const Argument *argument)
{
    Entity entity = { .kind = ENTITY_POISON,
                      .name = param->name,
                      .span = param->span,
                      .what = "a parameter",
                      .optional = param->optional };
    if (argument->absent) {
        entity.kind = ENTITY_ABSENT;
        declare(cx, entity);
        return;
    }
    const DType type = resolve_type(cx, &param->type);
    const Region *const region = &argument->value.region;
    bool ok = type != DTYPE_NONE && allows_mode(cx, param, argument);
    int rank = 0;
    for (const Ex *extent = param->extents; extent; extent = extent->next) rank++;
    if (ok && type != region->buffer->type) {
        ok =
            check_error(cx, argument->ex->span, "'%s' is a tile of %s, and '%s' of %s", param->name, dtype_name(type),
                        argument->value.entity ? argument->value.entity->name : "it", dtype_name(region->buffer->type));
        check_note(cx, param->span, "the parameter");
    }
    if (ok && rank != region_rank(region)) {
        ok = check_error(cx, argument->ex->span, "'%s' has %d dimension%s, the argument %s has %d", param->name, rank,
                         rank == 1 ? "" : "s", show_region(cx, region), region_rank(region));
        check_note(cx, param->span, "the parameter");
    }
    Buffer *const buffer = ok ? argument_buffer(cx, param, argument) : NULL;
    if (buffer) {
        entity.kind = ENTITY_BUFFER;
        entity.buffer = buffer;
        // An `out` tile may be read back once written; an `out` tensor of the kernel may not.
        entity.may_read = param->mode != MODE_OUT || !argument->value.entity || argument->value.entity->may_read;
        entity.may_write = param->mode != MODE_IN;
    }
    declare(cx, entity);
}

// Extents: a new name stands for the argument's extent; anything else must agree with it.
static void bind_extents(Checker *cx, const Decl *fn, const Argument *arguments, bool plain_names)
{
    int i = 0;
    for (const Param *param = fn->params; param; param = param->next, i++) {
        const Region *const region = &arguments[i].value.region;
        if (!param->extents || arguments[i].absent || arguments[i].value.kind != VALUE_REGION) continue;
        int d = 0;
        for (const Ex *extent = param->extents; extent && d < region_rank(region); extent = extent->next, d++) {
            Expr *const actual = region_extent(region, d);
            const bool is_new = extent->kind == EX_NAME && !find_entity(cx, extent->name.name);
            if (is_new && plain_names)
                declare(cx, (Entity){ .kind = ENTITY_VALUE,
                                      .name = extent->name.name,
                                      .span = extent->span,
                                      .what = "an extent",
                                      .value = actual,
                                      .type = DTYPE_INT });
            if (plain_names) continue;
            const Expr *const expected = check_int(cx, extent, "an extent");
            int64_t a, e;
            if (!expected || expr_equal(expected, actual)) continue;
            if (!expr_as_int(expected, &e) || !expr_as_int(actual, &a)) {
                if (expr_is_const(expected) == expr_is_const(actual)) continue; // two run-time extents: trusted
                a = e = -1;
            }
            check_error(cx, arguments[i].ex->span, "'%s' has an extent of %s, the argument %s has %s", param->name,
                        show_expr(cx, expected), show_region(cx, region), show_expr(cx, actual));
            check_note(cx, extent->span, "the extent");
        }
    }
}

static void bind_scalar(Checker *cx, const Decl *fn, const Param *param, const Argument *argument)
{
    Entity entity = { .kind = ENTITY_POISON,
                      .name = param->name,
                      .span = param->span,
                      .what = "a parameter",
                      .may_read = true,
                      .may_write = true };
    const DType type = resolve_type(cx, &param->type);
    if (type == DTYPE_NONE) {
        declare(cx, entity);
    } else if (!changes_scalar(param)) {
        Expr *value = convert_expr(cx, argument->value, type);
        const bool assigned = body_assigns(cx, fn, param->name);
        if (!value) {
            declare(cx, entity);
        } else if (!assigned && is_stable(value) && (expr_is_const(value) || value->kind == E_VAR)) {
            entity.kind = ENTITY_VALUE;
            entity.value = value;
            declare(cx, entity);
        } else {
            declare_scalar(cx, entity, type, value, assigned);
        }
    } else if (argument->place.type != type) {
        check_error(cx, argument->ex->span, "'%s' changes a variable of %s, and '%s' is %s", param->name,
                    dtype_name(type), argument->place.entity->name, dtype_name(argument->place.type));
        declare(cx, entity);
    } else {
        entity.kind = ENTITY_VARIABLE;
        entity.var = argument->place.var;
        entity.type = type;
        Entity *const made = declare(cx, entity);
        made->forall_depth = argument->place.entity->forall_depth;
        made->depends = argument->place.entity->depends;
    }
}

// ---- return

static int count_returns(const St *list)
{
    int n = 0;
    for (; list; list = list->next) {
        switch ((int)list->kind) {
        case ST_RETURN: n++; break;
        case ST_BLOCK: n += count_returns(list->block.body); break;
        case ST_IF: n += count_returns(list->branch.then) + count_returns(list->branch.otherwise); break;
        case ST_FOR: n += count_returns(list->loop.body); break;
        case ST_WHILE: n += count_returns(list->while_.body); break;
        case ST_FORALL: n += count_returns(list->forall.body); break;
        case ST_ON: n += count_returns(list->on.body); break;
        case ST_PIPELINE: n += count_returns(list->pipeline.body); break;
        default: break;
        }
    }
    return n;
}

static bool returns_only_at_end(const St *body)
{
    if (count_returns(body) != 1) return false;
    while (body->next) body = body->next;
    return body->kind == ST_RETURN;
}

static const char *barred_frame(const Checker *cx)
{
    for (const LoopFrame *frame = cx->loop; frame; frame = frame->outer) {
        if (frame->kind == FRAME_FORALL) return "a forall";
        if (frame->kind == FRAME_PIPELINE) return "a pipeline";
    }
    return NULL;
}

static void return_from_kernel(Checker *cx, const St *st)
{
    if (st->return_.value) {
        check_error(cx, st->span, "%s returns no value", cx->sequential ? "this code" : "a kernel");
        return;
    }
    emit(cx, (TileOp){ .kind = T_RETURN, .span = st->span });
    cx->may_have_left = true;
    cx->escape = ESCAPE_DEAD;
}

// A return that stands too deep to be expressed by structure.
static void return_by_flag(Checker *cx, const St *st)
{
    CallFrame *const call = cx->call;
    leave_by_flag(cx, &call->returned, "returned", call->start, st->span);
    call->flagged++;
    for (const LoopFrame *frame = cx->loop; frame; frame = frame->outer)
        if (frame->kind == FRAME_LOOP) {
            emit(cx, (TileOp){ .kind = T_BREAK, .span = st->span });
            break;
        }
}

// Other steps of a loop, or what follows it, then stand outside of the conditions that this place is under.
static bool in_conditional_step(const Checker *cx)
{
    for (const LoopFrame *frame = cx->loop; frame; frame = frame->outer)
        if (frame->kind == FRAME_LOOP || frame->continued || frame->broken) return true;
    return false;
}

void check_return(Checker *cx, const St *st)
{
    CallFrame *const call = cx->call;
    const char *const barred = barred_frame(cx);
    if (barred) {
        check_error(cx, st->span, "'return' may not leave %s", barred);
        return;
    }
    if (!call) {
        return_from_kernel(cx, st);
        return;
    }
    const DType type = call->type;
    if (type == DTYPE_NONE && st->return_.value) {
        if (!call->decl->result.name) check_error(cx, st->span, "'%s' is void and returns no value", call->decl->name);
    } else if (type != DTYPE_NONE && !st->return_.value) {
        check_error(cx, st->span, "'%s' returns a value of %s", call->decl->name, dtype_name(type));
    } else if (type != DTYPE_NONE) {
        call->value = convert_expr(cx, check_scalar(cx, st->return_.value), type);
        if (!call->value) call->failed = true;
        else if (call->result)
            emit(cx, (TileOp){ .kind = T_SET, .span = st->span, .let = { call->result, call->value } });
    }
    if (cx->unreached > call->unreached) return;
    if (cx->branch_depth <= call->branch_depth + 1 && !in_conditional_step(cx)) cx->escape = ESCAPE_RETURN;
    else return_by_flag(cx, st);
}

// ---- the call

static Value inline_body(Checker *cx, const Decl *fn, const Ex *ex, DType type)
{
    CallFrame *const call = cx->call;
    LoopFrame *const loop = cx->loop;
    const Escape escape = cx->escape;
    const Decl *const body_of = cx->body_of;
    cx->loop = NULL;
    cx->escape = ESCAPE_NONE;
    cx->body_of = fn;
    call->branch_depth = cx->branch_depth;
    call->unreached = cx->unreached;
    call->type = type;
    if (type != DTYPE_NONE && !returns_only_at_end(fn->body)) {
        call->result = tile_new_var(cx->kernel, VAR_LOCAL, type, fn->name, ex->span);
        call->result->assigned = true;
        emit(cx, (TileOp){ .kind = T_LET, .span = ex->span, .let = { call->result, NULL } });
    }
    call->start = cx->out;
    check_statements(cx, fn->body);
    const bool falls_through = cx->escape == ESCAPE_NONE && call->flagged == 0;
    // Behind the whole body, from wherever a return has moved the rest to.
    cx->out = end_of(call->start);
    cx->loop = loop;
    cx->escape = escape;
    cx->body_of = body_of;
    if (type == DTYPE_NONE) return (Value){ .kind = VALUE_VOID, .span = ex->span };
    if (falls_through && !call->failed)
        return FAIL(cx, fn->name_span, "'%s' may end without returning a value", fn->name);
    if (call->failed || !call->value) return POISON;
    return scalar_value(call->result ? expr_var(cx->arena, call->result) : call->value, ex->span);
}

static bool is_recursive(Checker *cx, const Decl *fn, Span span)
{
    for (const CallFrame *call = cx->call; call; call = call->outer) {
        if (call->decl != fn) continue;
        check_error(cx, span, "'%s' calls itself; functions are inlined and cannot", fn->name);
        return true;
    }
    if (cx->call && cx->call->depth >= CALLS_MAX) {
        check_error(cx, span, "more than %d functions inlined into each other", CALLS_MAX);
        return true;
    }
    return false;
}

static bool check_arguments(Checker *cx, const Decl *fn, const Ex *ex, Argument *arguments)
{
    int given = 0;
    bool ok = true;
    const int wanted = count_params(fn);
    for (const Ex *arg = ex->call.args; arg; arg = arg->next) given++;
    if (given != wanted) {
        check_error(cx, ex->span, "'%s' takes %d argument%s, not %d", fn->name, wanted, wanted == 1 ? "" : "s", given);
        check_note(cx, fn->name_span, "declared here");
        return false;
    }
    const Ex *arg = ex->call.args;
    int i = 0;
    for (const Param *param = fn->params; param; param = param->next, arg = arg->next)
        ok &= check_argument(cx, param, arg, &arguments[i++]);
    return ok;
}

// The values in <...>, in the caller's eyes.
static int check_build_values(Checker *cx, const Decl *fn, const Ex *ex, Value *values, bool *ok)
{
    int n = 0, wanted = 0;
    for (const BuildParam *build = fn->build; build; build = build->next) wanted++;
    const BuildParam *build = fn->build;
    for (const Ex *value = ex->call.build; value; value = value->next, build = build->next) {
        if (!build) {
            *ok =
                check_error(cx, value->span, "'%s' has %d build parameter%s", fn->name, wanted, wanted == 1 ? "" : "s");
            check_note(cx, fn->name_span, "declared here");
            break;
        }
        values[n] = check_build_value(cx, build, value);
        *ok &= values[n++].kind != VALUE_POISON;
    }
    return n;
}

static Value call_function(Checker *cx, const Decl *fn, const Ex *ex)
{
    Argument arguments[PARAMETERS_MAX] = { 0 };
    Value values[PARAMETERS_MAX];
    bool ok = has_few_params(cx, fn) && check_build_count(cx, fn);
    if (!ok || is_recursive(cx, fn, ex->span)) return POISON;
    const int n = check_build_values(cx, fn, ex, values, &ok);
    if (!check_arguments(cx, fn, ex, arguments) || !ok) return POISON;

    CallFrame call = {
        .decl = fn, .span = ex->span, .depth = cx->call ? cx->call->depth + 1 : 1, .names = cx->names, .outer = cx->call
    };
    Entity *const names = cx->names;
    PresentFact *const present = cx->present;
    cx->names = NULL;
    cx->call = &call;
    Value result = POISON;
    if (bind_build_params(cx, fn, ex, values, n, arguments)) {
        const bool is_void = !fn->result.name && fn->result.type == DTYPE_NONE;
        const DType type = is_void ? DTYPE_NONE : resolve_type(cx, &fn->result);
        bind_extents(cx, fn, arguments, true);
        bind_extents(cx, fn, arguments, false);
        int i = 0;
        for (const Param *param = fn->params; param; param = param->next, i++) {
            if (!param->extents) bind_scalar(cx, fn, param, &arguments[i]);
            else bind_tensor(cx, param, &arguments[i]);
            if (arguments[i].optional && is_known_present(cx, arguments[i].optional))
                cx->present = NEW(cx->arena, PresentFact, .entity = cx->names, .next = cx->present);
        }
        if (is_void || type != DTYPE_NONE) result = inline_body(cx, fn, ex, type);
    }
    cx->call = call.outer;
    cx->names = names;
    cx->present = present;
    return result;
}

// ---- functions of the target

static Value call_extern(Checker *cx, const Decl *fn, const Ex *ex, bool is_statement)
{
    if (is_c_word(fn->name))
        return FAIL(cx, fn->name_span, "'%s' is a word of C or C++, not the name of a function", fn->name);
    if (strcmp(fn->target, cx->options->target) != 0) {
        check_error(cx, ex->span, "'%s' exists only on %s, and this is built for %s", fn->name, fn->target,
                    cx->options->target);
        check_note(cx, fn->name_span, "declared here");
        check_help(cx, ex->span, "static if (TARGET == %s) keeps it from other targets", fn->target);
        return POISON;
    }
    int given = 0;
    if (!has_few_params(cx, fn)) return POISON;
    for (const Ex *arg = ex->call.args; arg; arg = arg->next) given++;
    if (given != count_params(fn))
        return FAIL(cx, ex->span, "'%s' takes %d argument%s, not %d", fn->name, count_params(fn),
                    count_params(fn) == 1 ? "" : "s", given);
    Expr **const args = NEW_ARRAY(cx->arena, Expr *, given + 1);
    const Param *param = fn->params;
    int i = 0;
    for (const Ex *arg = ex->call.args; arg; arg = arg->next, param = param->next) {
        if (param->extents) return FAIL(cx, param->span, "a function of the target takes scalars");
        if (!(args[i++] = convert_expr(cx, check_scalar(cx, arg), resolve_type(cx, &param->type)))) return POISON;
    }
    const DType type = resolve_type(cx, &fn->result);
    if (is_statement || type == DTYPE_NONE) {
        emit(cx, (TileOp){ .kind = T_EXTERN, .span = ex->span, .external = { fn->name, args, given } });
        return (Value){ .kind = VALUE_VOID, .span = ex->span };
    }
    Expr *const value = expr_call(cx->arena, type, fn->name, given, args);
    value->span = ex->span;
    return scalar_value(snapshot(cx, value, fn->name, ex->span), ex->span);
}

// ---- names that are no function

void report_no_function(Checker *cx, Name name, Span span)
{
    const char *candidates[512];
    int n = builtin_names(candidates, 128);
    for (int m = 0; m < cx->program->n_modules; m++)
        for (const Decl *decl = cx->program->modules[m]->decls; decl; decl = decl->next) {
            if ((decl->kind == DECL_FN || decl->kind == DECL_EXTERN) && n < 512) candidates[n++] = decl->name;
            if ((decl->kind == DECL_KERNEL || decl->kind == DECL_OPERATOR) && decl->name == name) {
                check_error(cx, span, "'%s' is %s: it is launched, not called", name,
                            decl->kind == DECL_KERNEL ? "a kernel" : "an operator");
                check_help(cx, span, "kernels run in sequence in an operator");
                return;
            }
        }
    const ForeignWord *const foreign = find_foreign(name);
    check_error(cx, span, "there is no function '%s'", name);
    const char *const near = foreign ? NULL : nearest_name(name, candidates, n);
    if (foreign) check_help(cx, span, "%s", foreign_advice(cx->arena, foreign));
    if (near) check_help(cx, span, "did you mean '%s'?", near);
}

Value check_call(Checker *cx, const Ex *ex, bool is_statement)
{
    const Name name = called_function(cx, ex->call.name);
    if (is_builtin(name)) {
        Ex call = *ex;
        call.call.name = name;
        return check_builtin(cx, &call, is_statement);
    }
    const Decl *const fn = find_function(cx, name);
    if (!fn) {
        const Entity *const entity = find_entity(cx, name);
        if (!entity || entity->kind != ENTITY_POISON) report_no_function(cx, name, ex->call.name_span);
        return POISON;
    }
    const Value result = fn->kind == DECL_EXTERN ? call_extern(cx, fn, ex, is_statement) : call_function(cx, fn, ex);
    if (!is_statement && result.kind == VALUE_VOID) return FAIL(cx, ex->span, "'%s' returns no value", fn->name);
    return result;
}
