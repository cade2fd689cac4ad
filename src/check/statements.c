// SPDX-License-Identifier: MIT
// statements.c - statements in order: blocks, declarations, conditions, and the small ones.
#include "check/context.h"

TileOp **end_of(TileOp **list)
{
    while (*list) list = &(*list)->next;
    return list;
}

TileOp *emit(Checker *cx, TileOp op)
{
    TileOp *const made = NEW(cx->arena, TileOp, .kind = op.kind);
    *made = op;
    made->groups = cx->groups;
    made->stage = cx->stage;
    *cx->out = made;
    cx->out = &made->next;
    count_op(cx, op.span);
    return made;
}

// ---- leaving from the middle

Flagged flagged_so_far(const Checker *cx)
{
    const LoopFrame *const frame = cx->loop && cx->loop->kind == FRAME_UNROLLED ? cx->loop : NULL;
    return (Flagged){ cx->call ? cx->call->flagged : 0, frame ? frame->breaks : 0, frame ? frame->continues : 0 };
}

// What cannot be expressed by structure sets a flag, which what follows asks. Ops come after `declared_at` already.
void leave_by_flag(Checker *cx, Var **flag, const char *name, TileOp **declared_at, Span span)
{
    if (!*flag) {
        *flag = tile_new_var(cx->kernel, VAR_LOCAL, DTYPE_BOOL, name, span);
        (*flag)->assigned = true;
        *declared_at = NEW(cx->arena, TileOp, .kind = T_LET, .span = span, .next = *declared_at, .groups = cx->groups,
                           .stage = cx->stage, .let = { *flag, expr_bool(cx->arena, false) });
    }
    emit(cx, (TileOp){ .kind = T_SET, .span = span, .let = { *flag, expr_bool(cx->arena, true) } });
    cx->escape = ESCAPE_DEAD;
}

static bool in_loop(const Checker *cx)
{
    for (const LoopFrame *frame = cx->loop; frame; frame = frame->outer)
        if (frame->kind == FRAME_LOOP) return true;
    return false;
}

// The rest under a condition.
static void go_on_unless(Checker *cx, Var *flag)
{
    Expr *const cond = expr_unary(cx->arena, X_NOT, expr_var(cx->arena, flag));
    cx->out = &emit(cx, (TileOp){ .kind = T_IF, .span = flag->span, .branch = { cond, NULL, NULL } })->branch.then;
}

// Behind a construct in which a flag may have been set: out of the loop, or the rest under a condition.
void finish_construct(Checker *cx, Flagged before, bool is_loop)
{
    const Flagged now = flagged_so_far(cx);
    if (now.returns != before.returns && !in_loop(cx)) go_on_unless(cx, cx->call->returned);
    else if (now.returns != before.returns && is_loop) { // inside of the loop it has left by break
        const Span span = cx->call->span;
        TileOp *const leave =
            NEW(cx->arena, TileOp, .kind = T_BREAK, .span = span, .groups = cx->groups, .stage = cx->stage);
        emit(cx, (TileOp){
                     .kind = T_IF, .span = span, .branch = { expr_var(cx->arena, cx->call->returned), leave, NULL } });
    }
    if (now.breaks != before.breaks) go_on_unless(cx, cx->loop->left);
    if (now.continues != before.continues) go_on_unless(cx, cx->loop->skipped);
}

// One side of an `if`: its ops, where the rest of it is emitted (under its flags' conditions), how it was left.
typedef struct Arm {
    TileOp **list, **end;
    Escape escape;
} Arm;

// What follows goes into this side of an `if`, whose other side has left.
static void continue_in(Checker *cx, Arm arm, Escape left)
{
    TileOp **const behind = end_of(arm.list);
    cx->out = arm.end;
    if (left == ESCAPE_CONTINUE) cx->loop->continued = true;
    if (left == ESCAPE_BREAK) cx->loop->step_base = behind;
    if (left != ESCAPE_RETURN) return;
    for (LoopFrame *frame = cx->loop; frame; frame = frame->outer) frame->step_base = frame->base = behind;
}

// ---- blocks

void check_body(Checker *cx, const St *list, TileOp **body)
{
    Entity *const names = cx->names;
    PresentFact *const present = cx->present;
    TileOp **const out = cx->out;
    const Escape escape = cx->escape;
    cx->out = body;
    cx->escape = ESCAPE_NONE;
    check_statements(cx, list);
    cx->out = out;
    cx->escape = escape;
    cx->names = names;
    cx->present = present;
}

// A block at the same level: what it emits, and where it leaves `out`, stays.
static void check_block(Checker *cx, const St *list)
{
    Entity *const names = cx->names;
    PresentFact *const present = cx->present;
    check_statements(cx, list);
    cx->names = names;
    cx->present = present;
}

static void check_arm(Checker *cx, const Ex *cond, bool truth_of_cond, const St *arm)
{
    PresentFact *const present = cx->present;
    assume_present(cx, cond, truth_of_cond);
    if (arm) check_block(cx, arm->kind == ST_BLOCK ? arm->block.body : arm);
    cx->present = present;
}

// ---- if

static Arm check_runtime_arm(Checker *cx, const St *st, bool is_then, TileOp **body)
{
    cx->out = body;
    cx->escape = ESCAPE_NONE;
    St *const arm = is_then ? st->branch.then : st->branch.otherwise;
    if (arm) {
        St one = *arm;
        one.next = NULL;
        check_arm(cx, st->branch.cond, is_then, &one);
    }
    return (Arm){ body, cx->out, cx->escape };
}

static bool is_structured(Escape escape) { return escape >= ESCAPE_CONTINUE; }

// if (c) { } else { ... } as if (!c) { ... }; returns what the else side became.
static Arm turn_around(Checker *cx, TileOp *op, Arm arm)
{
    const bool was_empty = op->branch.otherwise == NULL;
    op->branch.cond = expr_unary(cx->arena, X_NOT, op->branch.cond);
    op->branch.then = op->branch.otherwise;
    op->branch.otherwise = NULL;
    return (Arm){ &op->branch.then, was_empty ? &op->branch.then : arm.end, arm.escape };
}

// Neither side goes on. Where one only ends a step and the other the loop or function, further steps belong to the
// first; so does what follows the loop where one has left it by a flag.
static Escape both_leave(Checker *cx, Arm then, Arm otherwise, Flagged before)
{
    const bool swap = then.escape > otherwise.escape;
    const Arm near = swap ? otherwise : then, far = swap ? then : otherwise;
    if (near.escape == far.escape) return near.escape;
    const Flagged now = flagged_so_far(cx);
    const bool set_flag = now.breaks != before.breaks || now.continues != before.continues;
    if (near.escape == ESCAPE_DEAD && (!set_flag || far.escape == ESCAPE_CONTINUE)) return far.escape;
    TileOp **const out = cx->out;
    continue_in(cx, near, far.escape);
    cx->out = out;
    return near.escape; // what follows in this step is never reached
}

static void check_runtime_if(Checker *cx, const St *st, Expr *cond)
{
    const Flagged flagged = flagged_so_far(cx);
    TileOp *const op = emit(cx, (TileOp){ .kind = T_IF, .span = st->span, .branch = { cond, NULL, NULL } });
    TileOp **const behind = cx->out;
    cx->branch_depth++;
    cx->guards++;
    const Arm then = check_runtime_arm(cx, st, true, &op->branch.then);
    const Arm otherwise = check_runtime_arm(cx, st, false, &op->branch.otherwise);
    cx->branch_depth--;
    cx->guards--;
    cx->out = behind;
    cx->escape = ESCAPE_NONE;
    if (then.escape && otherwise.escape) cx->escape = both_leave(cx, then, otherwise, flagged);
    else if (is_structured(then.escape))
        continue_in(cx, op->branch.then ? otherwise : turn_around(cx, op, otherwise), then.escape);
    else if (is_structured(otherwise.escape)) continue_in(cx, then, otherwise.escape);
    else if (then.escape) { // `if (!present(A)) return;` and the like say something
        assume_present(cx, st->branch.cond, false);
    }
    finish_construct(cx, flagged, false);
}

static void check_if(Checker *cx, const St *st)
{
    Expr *const cond = check_condition(cx, st->branch.cond);
    bool known;
    if (cond && is_const_bool(cond, &known)) {
        const St *const arm = known ? st->branch.then : st->branch.otherwise;
        if (!arm) return;
        St one = *arm;
        one.next = NULL;
        check_arm(cx, st->branch.cond, known, &one);
        return;
    }
    if (cond && st->branch.is_static) {
        check_error(cx, st->branch.cond->span, "the condition of 'static if' must be known when built");
        return;
    }
    // Without a condition both sides are still looked at, for their own mistakes.
    check_runtime_if(cx, st,
                     cond ? cond
                          : expr_var(cx->arena, tile_new_var(cx->kernel, VAR_LOCAL, DTYPE_BOOL, "unknown", st->span)));
}

// ---- declarations

// An unchanging scalar stands for its value where that costs nothing and tells more: constants, what a launch can
// compute, and index arithmetic inside forall, which masks and addresses are recognised by. Not what is large: each use
// repeats it, so that a chain of such scalars would double at every link.
static bool stands_for_itself(Checker *cx, const Expr *value)
{
    enum { NODES_MAX = 64, LAUNCH_NODES_MAX = 1000 };
    if (expr_larger(value, cx->is_launch_time ? LAUNCH_NODES_MAX : NODES_MAX) || !is_stable(value)) return false;
    if (expr_is_const(expr_folded(cx->arena, (Expr *)value))) return true;
    const bool counts = value->type == DTYPE_INT || value->type == DTYPE_BOOL;
    return counts && (cx->forall || cx->is_launch_time);
}

Entity *declare_scalar(Checker *cx, Entity entity, DType type, Expr *value, bool assigned)
{
    if (value && !assigned && stands_for_itself(cx, value)) {
        entity.kind = ENTITY_VALUE;
        entity.value = value;
        entity.type = type;
        return declare(cx, entity);
    }
    Var *const var = tile_new_var(cx->kernel, VAR_LOCAL, type, entity.name, entity.span);
    var->assigned = assigned;
    if (value && !assigned && type == DTYPE_INT) {
        const Range r = expr_range(value);
        if (r.has_lo) var->lo = int_const(cx->arena, r.lo);
        if (r.has_hi) var->hi = int_const(cx->arena, r.hi);
        var->multiple = expr_multiple(value);
    }
    emit(cx, (TileOp){ .kind = T_LET, .span = entity.span, .let = { var, value } });
    entity.kind = ENTITY_VARIABLE;
    entity.var = var;
    entity.type = type;
    entity.depends = !cx->forall ? 0 : assigned || !value ? UINT32_MAX : depends_on(cx, value);
    return declare(cx, entity);
}

static void check_scalar_declaration(Checker *cx, const St *st, const Declarator *one, DType type)
{
    Entity entity = {
        .kind = ENTITY_POISON, .name = one->name, .span = one->span, .may_read = true, .may_write = !st->decl.is_const
    };
    if (st->decl.is_const) entity.what = "a constant";
    entity.is_constant = st->decl.is_const;
    Expr *value = NULL;
    if (one->init) value = convert_expr(cx, check_scalar(cx, one->init), type);
    else if (st->decl.is_const) check_error(cx, one->span, "a constant needs a value");
    if (type == DTYPE_NONE || (!value && (one->init || st->decl.is_const))) {
        declare(cx, entity);
        return;
    }
    const bool assigned = !st->decl.is_const && declared_is_assigned(cx, cx->body_of, one);
    declare_scalar(cx, entity, type, value, assigned);
}

static bool tile_extents(Checker *cx, const Declarator *one, Buffer *buffer)
{
    bool ok = true;
    int64_t elements = 1;
    for (const Ex *extent = one->extents; extent; extent = extent->next) {
        int64_t value = 1;
        if (buffer->rank == MAX_RANK) return check_error(cx, extent->span, "more than %d dimensions", MAX_RANK);
        if (cx->sequential) {
            buffer->shape[buffer->rank] = check_int(cx, extent, "an extent");
            ok &= buffer->shape[buffer->rank] != NULL;
            if (ok) buffer->shape[buffer->rank] = snapshot(cx, buffer->shape[buffer->rank], "extent", extent->span);
        } else if (!check_const_int(cx, extent, "the extent of a tile", &value)) {
            ok = false;
        } else if (value <= 0) {
            ok = check_error(cx, extent->span, "an extent of %lld: a tile has at least one element", (long long)value);
        } else if (__builtin_mul_overflow(elements, value, &elements) || elements > TILE_ELEMENTS_MAX) {
            ok = check_error(cx, extent->span, "a tile of more than %d elements", TILE_ELEMENTS_MAX);
        } else {
            buffer->shape[buffer->rank] = int_const(cx->arena, value);
        }
        buffer->rank++;
    }
    if (ok && buffer->kind == BUFFER_LOCAL && !cx->sequential && (cx->local_elements += elements) > LOCAL_ELEMENTS_MAX)
        ok = check_error(cx, one->span, "local arrays of more than %d elements in all", LOCAL_ELEMENTS_MAX);
    return ok;
}

static bool storage_allowed(Checker *cx, const St *st, const Declarator *one)
{
    const Storage storage = st->decl.storage;
    if (cx->sequential) {
        if (storage == STORE_SCALAR || storage == STORE_LOCAL) return true;
        return check_error(cx, st->span, "sequential code has no tiles; a private array is %s %s[...];",
                           dtype_name(st->decl.type.type), one->name);
    }
    if (storage == STORE_TEMP) return check_error(cx, st->span, "'temp' tensors belong to operators");
    if (storage == STORE_SCALAR) {
        check_error(cx, one->span, "an array needs a storage class: shared, fragment, or local inside forall");
        return false;
    }
    if (storage == STORE_LOCAL) {
        if (cx->forall) return true;
        return check_error(cx, st->span,
                           "'local' arrays belong to one iteration of a forall; outside write shared or fragment");
    }
    if (cx->forall)
        return check_error(cx, st->span,
                           "a tile belongs to the instance: declare it before the forall, or a 'local' array in it");
    return true;
}

static bool tile_type_allowed(Checker *cx, const St *st, DType type)
{
    if (dtype_bits(type) >= 8 || st->decl.storage != STORE_LOCAL) return true;
    return check_error(cx, st->decl.type.span, "a local array of %s: packed types have none, declare it i32",
                       dtype_name(type));
}

static BufferKind buffer_kind(Storage storage)
{
    return storage == STORE_FRAGMENT                           ? BUFFER_FRAGMENT
           : storage == STORE_LOCAL || storage == STORE_SCALAR ? BUFFER_LOCAL
                                                               : BUFFER_SHARED;
}

static void check_tile_declaration(Checker *cx, const St *st, const Declarator *one, DType type)
{
    Entity entity = { .kind = ENTITY_POISON,
                      .name = one->name,
                      .span = one->span,
                      .what = "a tile",
                      .may_read = true,
                      .may_write = !st->decl.is_const };
    Buffer *const buffer = tile_new_buffer(cx->kernel, buffer_kind(st->decl.storage), type, one->name, 0, one->span);
    buffer->cluster_shared = st->decl.storage == STORE_CLUSTER_SHARED;
    bool ok = storage_allowed(cx, st, one) && type != DTYPE_NONE && tile_type_allowed(cx, st, type);
    if (st->decl.is_const) ok = check_error(cx, st->span, "a tile cannot be 'const'");
    if (!one->extents) ok = check_error(cx, one->span, "a tile needs extents: %s[...]", one->name);
    ok = tile_extents(cx, one, buffer) && ok;
    if (!ok) {
        declare(cx, entity);
        return;
    }
    entity.kind = ENTITY_BUFFER;
    entity.buffer = buffer;
    emit(cx, (TileOp){ .kind = T_TILE, .span = one->span, .tile = { buffer } });
    if (!one->init) {
        declare(cx, entity);
        return;
    }
    Entity *const made = declare(cx, entity);
    const Region whole = region_whole(cx->arena, buffer, one->span);
    const Place place = { .kind = PLACE_REGION,
                          .span = span_join(one->span, one->init->span),
                          .entity = made,
                          .region = whole,
                          .type = type };
    assign_to(cx, place, OP_ASSIGN, one->init, place.span);
}

static void check_declaration(Checker *cx, const St *st)
{
    const DType type = resolve_type(cx, &st->decl.type);
    for (const Declarator *one = st->decl.names; one; one = one->next) {
        if (st->decl.storage == STORE_SCALAR && !one->extents) check_scalar_declaration(cx, st, one, type);
        else check_tile_declaration(cx, st, one, type);
    }
}

// ---- small statements

static const char *message_text(Checker *cx, const Ex *message, const char *otherwise)
{
    if (!message) return otherwise;
    if (message->kind == EX_STRING) return message->string.text;
    check_error(cx, message->span, "the message must be a text in quotes");
    return otherwise;
}

static void check_assertion(Checker *cx, const St *st)
{
    Expr *cond = check_condition(cx, st->require.cond);
    const bool assume = st->kind == ST_ASSUME;
    const char *const message = message_text(cx, st->require.message,
                                             assume ? "this assumption does not hold" : "this assertion does not hold");
    bool known;
    if (!cond) return;
    cond = expr_folded(cx->arena, cond);
    if (is_const_bool(cond, &known)) {
        if (known) return;
        if (assume) {
            check_error(cx, st->require.cond->span, "this assumption is false however the kernel is launched");
            return;
        }
    }
    emit(cx, (TileOp){ .kind = T_ASSERT, .span = st->span, .assertion = { cond, message, assume } });
    if (assume) learn_assumed(cx, cond);
}

static void check_print(Checker *cx, const St *st)
{
    const char *format = "";
    const Ex *arg = st->print.args;
    Expr *args[32];
    int n = 0;
    if (arg && arg->kind == EX_STRING) {
        format = arg->string.text;
        arg = arg->next;
    }
    for (; arg; arg = arg->next) {
        const Value v = settle(cx, check_scalar(cx, arg));
        if (v.kind == VALUE_POISON) return;
        if (n == COUNT(args)) {
            check_error(cx, arg->span, "'print' takes at most %d values", COUNT(args));
            return;
        }
        args[n++] = v.expr;
    }
    Expr **const copy = NEW_ARRAY(cx->arena, Expr *, n + 1);
    memcpy(copy, args, sizeof(Expr *) * (size_t)n);
    emit(cx, (TileOp){ .kind = T_PRINT, .span = st->span, .print = { format, copy, n } });
}

static void check_call_statement(Checker *cx, const St *st) { check_call(cx, st->call.call, true); }

typedef struct LayoutName {
    const char *name;
    LayoutHint hint;
    bool has_value;
} LayoutName;

static const LayoutName layouts[] = {
    { "swizzle", HINT_SWIZZLE, true },  { "padded", HINT_PADDED, true },    { "rows", HINT_ROWS, false },
    { "columns", HINT_COLUMNS, false }, { "partial", HINT_PARTIAL, false }, { "transposed", HINT_TRANSPOSED, false },
};

const char *check_layout_word(int i) { return i < COUNT(layouts) ? layouts[i].name : NULL; }

enum { PADDING_MAX = 1024 }; // elements between rows; more is none that memory has

static void check_layout(Checker *cx, const St *st)
{
    Entity *entity;
    Region region;
    const Hint *const hint = st->layout.hint;
    if (!check_region(cx, st->layout.target, &entity, &region)) return;
    Buffer *const buffer = region.buffer;
    if (st->layout.target->kind != EX_NAME || (buffer->kind != BUFFER_SHARED && buffer->kind != BUFFER_FRAGMENT)) {
        check_error(cx, st->layout.target->span, "'layout' takes the name of a shared tile or a fragment");
        return;
    }
    const char *names[COUNT(layouts)];
    for (int i = 0; i < COUNT(layouts); i++) {
        names[i] = layouts[i].name;
        if (strcmp(layouts[i].name, hint->name) != 0) continue;
        int64_t value = 0;
        if (layouts[i].has_value != (hint->argument != NULL)) {
            check_error(cx, hint->span, layouts[i].has_value ? "'%s' needs a number: %s(8)" : "'%s' takes no number",
                        hint->name, hint->name);
        } else if (!hint->argument || check_const_int(cx, hint->argument, "a layout's number", &value)) {
            const bool of_shared = layouts[i].hint == HINT_SWIZZLE || layouts[i].hint == HINT_PADDED;
            if (of_shared != (buffer->kind == BUFFER_SHARED))
                check_error(cx, hint->span, "'%s' is a layout of %s", hint->name,
                            of_shared ? "shared tiles" : "fragments");
            else if (layouts[i].hint == HINT_SWIZZLE && value != 0 && value != 32 && value != 64 && value != 128)
                check_error(cx, hint->span, "a swizzle of %lld bytes: there are 0, 32, 64 and 128", (long long)value);
            else if (value < 0 || value > PADDING_MAX)
                check_error(cx, hint->span, "a padding of %lld elements: there are 0 to %d", (long long)value,
                            PADDING_MAX);
            else if (buffer->hint && (buffer->hint != layouts[i].hint || buffer->hint_value != value)) {
                check_error(cx, hint->span, "'%s' has another layout already", buffer->name);
                check_note(cx, buffer->hint_span, "it is given here");
            } else {
                buffer->hint = layouts[i].hint;
                buffer->hint_value = (int)value;
                buffer->hint_span = hint->span;
            }
        }
        return;
    }
    check_error(cx, hint->span, "there is no layout '%s'", hint->name);
    const char *const near = nearest_name(hint->name, names, COUNT(names));
    if (near) check_help(cx, hint->span, "did you mean '%s'?", near);
}

static void check_on(Checker *cx, const St *st)
{
    const uint32_t outer = cx->groups;
    uint32_t groups = 0;
    if (cx->forall) {
        check_error(cx, st->span, "'on' places a whole statement; it stands outside of forall");
        return;
    }
    for (const Ex *number = st->on.groups; number; number = number->next) {
        int64_t group;
        if (!check_const_int(cx, number, "a warp group", &group)) continue;
        if (group < 0 || group > 15)
            check_error(cx, number->span, "warp group %lld: they are numbered 0 .. 15", (long long)group);
        else groups |= 1u << group;
    }
    if (outer) check_error(cx, st->span, "an 'on' inside another 'on'");
    cx->groups = groups;
    const St *const body = st->on.body;
    check_block(cx, body->kind == ST_BLOCK ? body->block.body : body);
    cx->groups = outer;
}

static void check_stage(Checker *cx, const St *st)
{
    int64_t stage;
    if (!cx->pipeline || cx->loop->kind != FRAME_PIPELINE || cx->branch_depth != cx->loop->branch_depth) {
        check_error(cx, st->span, "a stage label stands directly in the body of a pipeline");
        return;
    }
    if (!check_const_int(cx, st->stage.number, "a stage", &stage)) return;
    const int last = cx->pipeline->pipeline.n_stage_labels - 1;
    if (stage != cx->stage && stage != last + 1) {
        check_error(cx, st->span, "stage %lld after stage %d: stages follow each other, from 0", (long long)stage,
                    last);
        return;
    }
    if (stage == cx->stage && last >= 0 && stage <= last) {
        check_error(cx, st->span, "stage %lld is already labelled", (long long)stage);
        return;
    }
    cx->stage = (int)stage;
    cx->pipeline->pipeline.n_stage_labels = (int)stage + 1;
}

// ---- all kinds

static bool allowed_here(Checker *cx, const St *st)
{
    const char *const in_forall = st->kind == ST_PIPELINE ? "a pipeline" : st->kind == ST_GRID ? "the grid" : NULL;
    if (cx->forall && in_forall) return check_error(cx, st->span, "%s stands outside of forall", in_forall);
    if (!cx->sequential) return true;
    const char *const in_kernel = st->kind == ST_PIPELINE ? "a pipeline"
                                  : st->kind == ST_ON     ? "'on'"
                                  : st->kind == ST_LAYOUT ? "a layout"
                                  : st->kind == ST_GRID   ? "a grid"
                                                          : NULL;
    if (in_kernel) return check_error(cx, st->span, "%s is for kernels; this code is sequential", in_kernel);
    return true;
}

static void check_one(Checker *cx, const St *st)
{
    if (!allowed_here(cx, st)) return;
    switch (st->kind) {
    case ST_BLOCK: check_block(cx, st->block.body); break;
    case ST_DECL: check_declaration(cx, st); break;
    case ST_VIEW: check_view(cx, st); break;
    case ST_ASSIGN: check_assign(cx, st); break;
    case ST_ATOMIC: check_atomic(cx, st); break;
    case ST_CALL: check_call_statement(cx, st); break;
    case ST_IF: check_if(cx, st); break;
    case ST_FOR: check_for(cx, st); break;
    case ST_WHILE: check_while(cx, st); break;
    case ST_FORALL: check_forall(cx, st); break;
    case ST_PIPELINE: check_pipeline(cx, st); break;
    case ST_STAGE: check_stage(cx, st); break;
    case ST_ON: check_on(cx, st); break;
    case ST_BREAK: check_break(cx, st); break;
    case ST_CONTINUE: check_continue(cx, st); break;
    case ST_RETURN: check_return(cx, st); break;
    case ST_GRID: check_grid(cx, st); break;
    case ST_REQUIRE: check_require(cx, st); break;
    case ST_ASSUME:
    case ST_ASSERT: check_assertion(cx, st); break;
    case ST_PRINT: check_print(cx, st); break;
    case ST_LAYOUT: check_layout(cx, st); break;
    case ST_TOLERANCE:
    case ST_INPUT:
        if (!cx->fills_inputs) check_error(cx, st->span, "this statement stands only in a check");
        break;
    }
}

static void check_statement(Checker *cx, const St *st)
{
    if (!count_step(cx, st->span)) return;
    if (++cx->nesting > NESTING_MAX) report_nesting(cx, st->span);
    else check_one(cx, st);
    cx->nesting--;
}

void check_statements(Checker *cx, const St *list)
{
    TileOp **const nowhere = NEW_ARRAY(cx->arena, TileOp *, 1), **live = NULL;
    Escape left = ESCAPE_NONE;
    for (const St *st = list; st && !cx->too_much; st = st->next) {
        // What comes after a return is still checked, but emitted nowhere.
        if (cx->escape && !live) {
            live = cx->out;
            left = cx->escape;
            cx->unreached++;
        }
        if (live) {
            *nowhere = NULL;
            cx->out = nowhere;
        }
        check_statement(cx, st);
        if (live) cx->escape = left;
    }
    if (!live) return;
    cx->out = live;
    cx->unreached--;
}
