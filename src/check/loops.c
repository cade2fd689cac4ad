// SPDX-License-Identifier: MIT
// loops.c - for, while, unroll for, forall, pipeline; break and continue.
#include "check/context.h"

// ---- frames

static LoopFrame new_frame(Checker *cx, FrameKind kind, Span span)
{
    return (LoopFrame){
        .kind = kind, .span = span, .branch_depth = cx->branch_depth, .unreached = cx->unreached, .outer = cx->loop
    };
}

static St alone(const St *st)
{
    St one = *st;
    one.next = NULL;
    return one;
}

// The body of a loop at run time: it may run any number of times, so nothing in it is certain.
static void check_loop_body(Checker *cx, FrameKind kind, Span span, const St *body, TileOp **into)
{
    if (!body) return;
    cx->branch_depth++;
    if (kind == FRAME_LOOP) cx->guards++;
    LoopFrame frame = new_frame(cx, kind, span);
    cx->loop = &frame;
    const St one = alone(body);
    check_body(cx, body->kind == ST_BLOCK ? body->block.body : &one, into);
    cx->loop = frame.outer;
    cx->branch_depth--;
    if (kind == FRAME_LOOP) cx->guards--;
}

// ---- while, and for that is no plain count

static void check_while_loop(Checker *cx, Span span, const Ex *cond_ex, const St *body, const St *step)
{
    const Flagged flagged = flagged_so_far(cx);
    TileOp *const op = emit(cx, (TileOp){ .kind = T_WHILE, .span = span });
    TileOp **const behind = cx->out;
    cx->out = &op->while_.body;
    Expr *cond = cond_ex ? check_condition(cx, cond_ex) : expr_bool(cx->arena, true);
    if (!cond) cond = expr_bool(cx->arena, false);
    if (op->while_.body) { // the condition needed statements: tested inside
        TileOp *const leave =
            NEW(cx->arena, TileOp, .kind = T_BREAK, .span = span, .groups = cx->groups, .stage = cx->stage);
        emit(cx, (TileOp){ .kind = T_IF, .span = span, .branch = { expr_unary(cx->arena, X_NOT, cond), leave, NULL } });
        cond = expr_bool(cx->arena, true);
    }
    op->while_.cond = cond;
    check_loop_body(cx, FRAME_LOOP, span, body, end_of(&op->while_.body));
    if (step) {
        const St one = alone(step);
        check_body(cx, &one, &op->while_.step);
    }
    cx->out = behind;
    finish_construct(cx, flagged, true);
}

void check_while(Checker *cx, const St *st) { check_while_loop(cx, st->span, st->while_.cond, st->while_.body, NULL); }

// ---- counted for

typedef struct Counted {
    const Declarator *index;
    Operator compare;
    const Ex *bound;
    int64_t step;
} Counted;

static bool mentions(const Ex *ex, Name name)
{
    if (!ex) return false;
    switch ((int)ex->kind) {
    case EX_NAME: return ex->name.name == name;
    case EX_UNARY: return mentions(ex->unary.a, name);
    case EX_BINARY: return mentions(ex->binary.a, name) || mentions(ex->binary.b, name);
    case EX_SELECT:
        return mentions(ex->select.cond, name) || mentions(ex->select.a, name) || mentions(ex->select.b, name);
    case EX_SUBSCRIPT:
        return mentions(ex->sub.base, name) || mentions(ex->sub.start, name) || mentions(ex->sub.width, name) ||
               mentions(ex->sub.step, name);
    case EX_CALL:
        for (const Ex *arg = ex->call.args; arg; arg = arg->next)
            if (mentions(arg, name)) return true;
        return false;
    default: return false;
    }
}

// for (int i = a; i < b; i += c) where the body leaves i alone and c is constant.
static bool is_counted(Checker *cx, const St *st, Counted *counted)
{
    const St *const init = st->loop.init, *const step = st->loop.step;
    const Ex *const cond = st->loop.cond;
    if (!init || !step || !cond || init->kind != ST_DECL || step->kind != ST_ASSIGN || cond->kind != EX_BINARY)
        return false;
    counted->index = init->decl.names;
    if (init->decl.storage != STORE_SCALAR || init->decl.type.name || init->decl.type.type != DTYPE_INT) return false;
    if (counted->index->next || counted->index->extents || !counted->index->init) return false;
    const Name name = counted->index->name;
    if (cond->binary.a->kind != EX_NAME || cond->binary.a->name.name != name || mentions(cond->binary.b, name))
        return false;
    if (step->assign.target->kind != EX_NAME || step->assign.target->name.name != name) return false;
    if (step->assign.op != OP_ADD && step->assign.op != OP_SUB) return false;
    if (step->assign.value->kind != EX_INT && step->assign.value->kind != EX_NAME) return false;
    if (step->assign.value->kind == EX_NAME && !find_entity(cx, step->assign.value->name.name)) return false;
    const St body = alone(st->loop.body);
    if (statements_assign(cx, &body, name)) return false;
    const Value by = check_expression(cx, step->assign.value);
    if (by.kind != VALUE_SCALAR || !expr_as_int(by.expr, &counted->step) || counted->step <= 0) return false;
    if (step->assign.op == OP_SUB) counted->step = -counted->step;
    counted->compare = cond->binary.op;
    counted->bound = cond->binary.b;
    const bool up = counted->compare == OP_LT || counted->compare == OP_LE;
    const bool down = counted->compare == OP_GT || counted->compare == OP_GE;
    return counted->step > 0 ? up : down;
}

typedef struct BodyOf {
    Checker *cx;
    const St *body;
} BodyOf;

static bool body_changes(const Expr *x, void *context)
{
    const BodyOf *const of = context;
    if (x->kind == E_ATOMIC || x->kind == E_CALL) return true;
    if (x->kind == E_VAR) return x->var.var->assigned && statements_assign(of->cx, of->body, x->var.var->name);
    if (x->kind != E_LOAD) return false;
    const Buffer *const root = buffer_root(x->load.buffer);
    return root->kind != BUFFER_TENSOR || root->access != ACCESS_IN || of->cx->fills_inputs;
}

// The bound, computed once; NULL if the body may change it (nothing was emitted then).
static Expr *fixed_bound(Checker *cx, const Ex *ex, const St *body, bool *failed)
{
    TileOp *ops = NULL, **const out = cx->out;
    cx->out = &ops;
    Expr *bound = check_int(cx, ex, "the bound of a loop");
    cx->out = out;
    *failed = !bound;
    const St one = alone(body);
    if (!bound || expr_any(bound, body_changes, &(BodyOf){ cx, &one })) return NULL;
    *cx->out = ops;
    cx->out = end_of(cx->out);
    return snapshot(cx, bound, "end", ex->span);
}

static Var *new_index(Checker *cx, const char *name, Span span, Expr *lo, Expr *hi, int64_t step)
{
    Var *const var = tile_new_var(cx->kernel, VAR_INDEX, DTYPE_INT, name, span);
    var->lo = lo;
    var->hi = int_sub(cx->arena, hi, int_const(cx->arena, 1));
    if (step > 1) var->multiple = gcd(expr_multiple(lo), step);
    return var;
}

static void declare_index(Checker *cx, Var *var, Expr *value)
{
    Entity entity = { .kind = value ? ENTITY_VALUE : ENTITY_VARIABLE,
                      .name = var->name,
                      .span = var->span,
                      .what = "a loop's index",
                      .may_read = true,
                      .var = var,
                      .value = value,
                      .type = DTYPE_INT };
    declare(cx, entity);
}

static void check_counted_for(Checker *cx, const St *st, const Counted *counted, Expr *lo, Expr *bound)
{
    Arena *const a = cx->arena;
    const Flagged flagged = flagged_so_far(cx);
    Entity *const names = cx->names;
    Expr *const one = int_const(a, 1), *hi = bound, *value = NULL;
    const Span span = counted->index->span;
    int64_t step = counted->step;
    if (counted->compare == OP_LE) hi = int_add(a, bound, one);
    if (step < 0) { // counts up all the same: i = lo - t*step
        step = -step;
        Expr *const last = counted->compare == OP_GE ? int_sub(a, bound, one) : bound;
        hi = int_ceildiv(a, int_sub(a, lo, last), int_const(a, step));
    }
    Expr *const from = counted->step < 0 ? int_const(a, 0) : lo;
    Var *const var = new_index(cx, counted->index->name, span, from, hi, counted->step);
    if (counted->step < 0) value = int_sub(a, lo, int_mul(a, expr_var(a, var), int_const(a, step)));
    TileOp *const op =
        emit(cx, (TileOp){ .kind = T_FOR,
                           .span = st->span,
                           .for_ = { var, from, hi, int_const(a, counted->step < 0 ? 1 : step), NULL } });
    declare_index(cx, var, value);
    check_loop_body(cx, FRAME_LOOP, st->span, st->loop.body, &op->for_.body);
    cx->names = names;
    finish_construct(cx, flagged, true);
}

// ---- unroll for

static bool unrolled_head(Checker *cx, const St *st)
{
    const St *const init = st->loop.init, *const step = st->loop.step;
    if (init && init->kind == ST_DECL && init->decl.storage == STORE_SCALAR && init->decl.names->init &&
        !init->decl.names->next && st->loop.cond && step && step->kind == ST_ASSIGN &&
        step->assign.target->kind == EX_NAME && step->assign.target->name.name == init->decl.names->name)
        return true;
    check_error(cx, st->span, "'unroll for' has the form unroll for (int i = a; i < b; i += c)");
    return false;
}

// The next value of the index; NULL after an error.
static Expr *unrolled_step(Checker *cx, const St *step, Entity *index)
{
    Value value = check_scalar(cx, step->assign.value);
    if (step->assign.op != OP_ASSIGN)
        value = check_binary(cx, step->span, step->assign.op, scalar_value(index->value, step->span), value);
    Expr *const next = convert_expr(cx, value, index->type);
    if (next && !expr_is_const(next)) {
        check_error(cx, step->span, "the step of 'unroll for' must be known when built");
        return NULL;
    }
    return next;
}

static bool unrolled_goes_on(Checker *cx, const Ex *cond_ex, bool *goes_on)
{
    const Expr *const cond = check_condition(cx, cond_ex);
    if (!cond) return false;
    if (is_const_bool(cond, goes_on)) return true;
    return check_error(cx, cond_ex->span, "the bounds of 'unroll for' must be known when built");
}

// One pass of the body; false: no other follows.
static bool check_unrolled_step(Checker *cx, const St *body, LoopFrame *frame, PresentFact *present)
{
    const int errors = cx->errors;
    Flagged flagged = flagged_so_far(cx);
    frame->continued = false;
    frame->skipped = NULL;
    frame->step_start = cx->out;
    check_statements(cx, body->kind == ST_BLOCK ? body->block.body : body);
    cx->present = present;
    // Behind a `continue` leaving is not certain: other steps still follow where it was taken.
    if (cx->escape == ESCAPE_RETURN || cx->escape == ESCAPE_BREAK || (cx->escape == ESCAPE_DEAD && !frame->continued))
        return false;
    cx->escape = ESCAPE_NONE;
    cx->out = frame->step_base = end_of(frame->step_base); // moving on, so that no step walks over all before it
    flagged.continues = frame->continues;                  // of this step alone
    finish_construct(cx, flagged, false);
    frame->step_base = cx->out;
    return cx->errors == errors; // else the same again in every step
}

static void check_unrolled(Checker *cx, const St *st)
{
    if (!unrolled_head(cx, st)) return;
    const Declarator *const index = st->loop.init->decl.names;
    const DType type = resolve_type(cx, &st->loop.init->decl.type);
    Expr *value = convert_expr(cx, check_scalar(cx, index->init), type);
    const St body = alone(st->loop.body);
    if (!value) return;
    if (!expr_is_const(value)) {
        check_error(cx, index->init->span, "the bounds of 'unroll for' must be known when built");
        return;
    }
    if (statements_assign(cx, &body, index->name)) {
        check_error(cx, index->span, "the body of an unrolled loop may not change its index '%s'", index->name);
        return;
    }
    const Flagged flagged_before = flagged_so_far(cx);
    LoopFrame frame = new_frame(cx, FRAME_UNROLLED, st->span);
    frame.start = frame.base = frame.step_base = cx->out;
    cx->loop = &frame;
    Entity *const names = cx->names;
    PresentFact *const present = cx->present;
    bool goes_on = true;
    for (int steps = 0; value && !frame.stopped && !cx->too_much; steps++) {
        cx->names = names;
        Entity *const entity = declare(cx, (Entity){ .kind = ENTITY_VALUE,
                                                     .name = index->name,
                                                     .span = index->span,
                                                     .what = "an unrolled index",
                                                     .value = value,
                                                     .type = type });
        if (!unrolled_goes_on(cx, st->loop.cond, &goes_on) || !goes_on) break;
        if (steps == UNROLL_MAX) {
            check_error(cx, st->span, "more than %d unrolled steps", UNROLL_MAX);
            break;
        }
        if (!check_unrolled_step(cx, &body, &frame, present)) break;
        cx->names = entity;
        value = unrolled_step(cx, st->loop.step, entity);
    }
    cx->names = names;
    cx->loop = frame.outer;
    if (frame.broken) cx->escape = ESCAPE_NONE;
    if (cx->escape) return;
    cx->out = end_of(frame.base);
    finish_construct(cx, flagged_before, false);
}

// ---- for

void check_for(Checker *cx, const St *st)
{
    if (st->loop.unroll) {
        check_unrolled(cx, st);
        return;
    }
    Counted counted;
    bool failed = false;
    if (is_counted(cx, st, &counted)) {
        Expr *lo = check_int(cx, counted.index->init, "the start of a loop");
        if (!lo) return;
        lo = snapshot(cx, lo, "begin", counted.index->init->span);
        Expr *const bound = fixed_bound(cx, counted.bound, st->loop.body, &failed);
        if (failed) return;
        if (bound) {
            check_counted_for(cx, st, &counted, lo, bound);
            return;
        }
    }
    Entity *const names = cx->names;
    if (st->loop.init) {
        const St init = alone(st->loop.init);
        check_statements(cx, &init);
    }
    check_while_loop(cx, st->span, st->loop.cond, st->loop.body, st->loop.step);
    cx->names = names;
}

// ---- forall and pipeline

static Expr *loop_end(Checker *cx, const Ex *ex, const char *name)
{
    Expr *const x = check_int(cx, ex, "the extent of an index");
    return x ? snapshot(cx, x, name, ex->span) : NULL;
}

// Evaluates all bounds, then declares all indices. Returns their number; -1 after an error.
static int check_indices(Checker *cx, const IndexVar *index, LoopIndex *indices)
{
    Name names[LOOP_INDICES_MAX];
    Span spans[LOOP_INDICES_MAX];
    int n = 0;
    bool ok = true;
    for (; index; index = index->next) {
        if (n == LOOP_INDICES_MAX) {
            check_error(cx, index->span, "more than %d indices", LOOP_INDICES_MAX);
            return -1;
        }
        indices[n].lo = index->lo ? loop_end(cx, index->lo, "begin") : int_const(cx->arena, 0);
        indices[n].hi = loop_end(cx, index->hi, "end");
        ok &= indices[n].lo && indices[n].hi;
        names[n] = index->name;
        spans[n++] = index->span;
    }
    for (int i = 0; i < n; i++) {
        if (!ok) {
            declare(cx, (Entity){ .kind = ENTITY_POISON, .name = names[i], .span = spans[i], .what = "an index" });
            continue;
        }
        indices[i].var = new_index(cx, names[i], spans[i], indices[i].lo, indices[i].hi, 1);
        declare_index(cx, indices[i].var, NULL);
    }
    return ok ? n : -1;
}

void check_forall(Checker *cx, const St *st)
{
    if (cx->forall && !cx->sequential) {
        check_error(cx, st->span, "a forall inside a forall");
        check_help(cx, st->span, "name all indices in one: forall (i : M, j : N), or use 'for' inside");
        return;
    }
    Entity *const names = cx->names;
    LoopIndex indices[LOOP_INDICES_MAX] = { 0 };
    const int n = check_indices(cx, st->forall.indices, indices);
    const int count = n < 0 ? 0 : n;
    TileOp *const op = emit(cx, (TileOp){ .kind = T_FORALL, .span = st->span });
    op->forall.indices = NEW_ARRAY(cx->arena, LoopIndex, count + 1);
    memcpy(op->forall.indices, indices, sizeof(LoopIndex) * (size_t)count);
    op->forall.n = count;
    ForallFrame frame = { .op = op,
                          .vars = NEW_ARRAY(cx->arena, Var *, count + 1),
                          .n_vars = count,
                          .outer = cx->forall,
                          .poisoned = n < 0 };
    for (int i = 0; i < count; i++) frame.vars[i] = indices[i].var;
    const int errors = cx->errors;
    cx->forall = &frame;
    check_loop_body(cx, FRAME_FORALL, st->span, st->forall.body, &op->forall.body);
    if (cx->errors == errors && n >= 0 && check_nesting(cx, op->forall.body)) check_forall_uses(cx, &frame);
    cx->forall = frame.outer;
    cx->names = names;
}

static void check_pipeline_hints(Checker *cx, const Hint *hint, int *stages)
{
    for (; hint; hint = hint->next) {
        int64_t value;
        if (strcmp(hint->name, "stages") != 0) {
            check_error(cx, hint->span, "a pipeline has no hint '%s'; there is 'stages'", hint->name);
        } else if (check_const_int(cx, hint->argument, "the number of stages", &value)) {
            if (value < 1 || value > 64)
                check_error(cx, hint->span, "%lld stages: there are 1 to 64", (long long)value);
            else *stages = (int)value;
        }
    }
}

// ---- stages: a tile declared outside of the pipeline may be written in one stage only

typedef struct StageWrite {
    const Buffer *root;
    int stage;
    Span span;
} StageWrite;
typedef struct StageWrites {
    Checker *cx;
    VEC(StageWrite) writes;
    VEC(const Buffer *) inner;
    const TileOp *op;
} StageWrites;

static void note_stage_write(const TileUse *use, void *context)
{
    StageWrites *const all = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (!use->writes || root->kind == BUFFER_TENSOR || root->kind == BUFFER_LOCAL) return;
    for (int i = 0; i < all->inner.count; i++)
        if (all->inner.items[i] == root) return;
    for (int i = 0; i < all->writes.count; i++) {
        const StageWrite *const before = &all->writes.items[i];
        if (before->root != root) continue;
        if (before->stage == all->op->stage) return;
        check_error(all->cx, all->op->span, "'%s' is declared outside of the pipeline and written in stages %d and %d",
                    root->name, before->stage, all->op->stage);
        check_note(all->cx, before->span, "also written here");
        return;
    }
    VEC_PUSH(all->cx->arena, &all->writes, ((StageWrite){ root, all->op->stage, all->op->span }));
}

static void collect_stage_writes(StageWrites *all, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_TILE) VEC_PUSH(all->cx->arena, &all->inner, op->tile.buffer);
        all->op = op;
        tile_uses(op, note_stage_write, all);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) collect_stage_writes(all, *body);
    }
}

// A label belongs to what stands directly in the body; inner pipelines have their own.
static void drop_inner_stages(TileOp *block, bool is_inner)
{
    for (TileOp *op = block; op; op = op->next) {
        if (is_inner) op->stage = 0;
        TileOp **body;
        for (int i = 0; op->kind != T_PIPELINE && (body = tile_bodies(op, i)) != NULL; i++)
            drop_inner_stages(*body, true);
    }
}

void check_pipeline(Checker *cx, const St *st)
{
    Entity *const names = cx->names;
    LoopIndex indices[LOOP_INDICES_MAX] = { 0 };
    int stages = 2;
    const int n = check_indices(cx, st->pipeline.indices, indices);
    const int count = n < 0 ? 0 : n;
    check_pipeline_hints(cx, st->pipeline.hints, &stages);
    TileOp *const op = emit(cx, (TileOp){ .kind = T_PIPELINE, .span = st->span });
    op->pipeline.indices = NEW_ARRAY(cx->arena, LoopIndex, count + 1);
    memcpy(op->pipeline.indices, indices, sizeof(LoopIndex) * (size_t)count);
    op->pipeline.n = count;
    op->pipeline.stages = stages;
    TileOp *const outer = cx->pipeline;
    const int outer_stage = cx->stage;
    cx->pipeline = op;
    cx->stage = 0;
    cx->guards++;
    check_loop_body(cx, FRAME_PIPELINE, st->span, st->pipeline.body, &op->pipeline.body);
    cx->guards--;
    cx->pipeline = outer;
    cx->stage = outer_stage;
    cx->names = names;
    if (!check_nesting(cx, op->pipeline.body)) return;
    StageWrites writes = { .cx = cx };
    if (op->pipeline.n_stage_labels > 1) collect_stage_writes(&writes, op->pipeline.body);
    drop_inner_stages(op->pipeline.body, false);
}

// ---- break and continue

void check_break(Checker *cx, const St *st)
{
    LoopFrame *const frame = cx->loop;
    if (!frame) {
        check_error(cx, st->span, "'break' outside of a loop");
        return;
    }
    switch (frame->kind) {
    case FRAME_LOOP:
        emit(cx, (TileOp){ .kind = T_BREAK, .span = st->span });
        cx->escape = ESCAPE_DEAD;
        break;
    case FRAME_UNROLLED:
        if (cx->unreached > frame->unreached) break;
        if (frame->continued || cx->branch_depth > frame->branch_depth + 1) {
            frame->breaks++;
            leave_by_flag(cx, &frame->left, "left", frame->start, st->span);
        } else {
            frame->stopped = cx->branch_depth == frame->branch_depth;
            cx->escape = ESCAPE_BREAK;
        }
        frame->broken = true;
        break;
    case FRAME_FORALL:
    case FRAME_PIPELINE:
        check_error(cx, st->span, "'break' may not leave a %s", frame->kind == FRAME_FORALL ? "forall" : "pipeline");
        break;
    }
}

void check_continue(Checker *cx, const St *st)
{
    LoopFrame *const frame = cx->loop;
    if (!frame) {
        check_error(cx, st->span, "'continue' outside of a loop");
        return;
    }
    if (cx->unreached > frame->unreached) return;
    const bool is_flat = frame->kind == FRAME_UNROLLED || frame->kind == FRAME_FORALL;
    if (is_flat && cx->branch_depth <= frame->branch_depth + 1) {
        cx->escape = ESCAPE_CONTINUE;
    } else if (frame->kind == FRAME_UNROLLED) {
        frame->continues++;
        frame->continued = true;
        leave_by_flag(cx, &frame->skipped, "skipped", frame->step_start, st->span);
    } else {
        emit(cx, (TileOp){ .kind = T_CONTINUE, .span = st->span });
        cx->escape = ESCAPE_DEAD;
    }
}
