// SPDX-License-Identifier: MIT
// verify_program.c - each role's tree of actions as a list of steps with jumps, so that an agent can stop anywhere.
//
// after: a program for each role, and all source loops that any role has, each once
#include "lower/gpu/schedule/verify_run.h"

// Where break, continue and return go, while the body is made.
typedef struct Target {
    struct Target *outer;
    bool is_grid;
    VEC(int) to_next; // gotos that lead to the STEP_NEXT
    VEC(int) to_end;
} Target;

typedef struct Maker {
    const Schedule *schedule;
    Programs *programs;
    Program *program;
    Target *target;
    int outer_loop; // the source loop around; -1: none
    int warps;
    bool is_divergent;
    bool with_boxes, without; // whether what is made is run where the launch's strides allow boxes, and where not
} Maker;

// ---- source loops

static int64_t extent_of(const LoopIndex *index)
{
    int64_t lo, hi;
    if (!expr_as_int(index->lo, &lo) || !expr_as_int(index->hi, &hi)) return -1;
    return hi > lo ? hi - lo : 0;
}

static int64_t known_pipeline(const TileOp *op)
{
    int64_t trips = 1;
    for (int i = 0; i < op->pipeline.n; i++) {
        const int64_t extent = extent_of(&op->pipeline.indices[i]);
        if (extent < 0 || extent > 1000) return -1;
        trips *= extent;
    }
    return trips < 1000 ? trips : 1000;
}

static int known_trips(const TileOp *op)
{
    int64_t step;
    if (op->kind == T_PIPELINE) return op->pipeline.n ? (int)known_pipeline(op) : -1;
    if (op->kind != T_FOR || !op->for_.step || !expr_as_int(op->for_.step, &step) || step != 1) return -1;
    const int64_t extent = extent_of(&(LoopIndex){ op->for_.var, op->for_.lo, op->for_.hi });
    return extent < 1000 ? (int)extent : 1000;
}

static int loop_number(Maker *maker, const void *source)
{
    Programs *const all = maker->programs;
    for (int i = 0; i < all->loops.count; i++)
        if (all->loops.items[i].source == source) return i;
    const bool is_grid = source == maker->schedule;
    const SourceLoop loop = { source, is_grid || !source ? -1 : known_trips(source), is_grid, 0 };
    VEC_PUSH(maker->schedule->arena, &all->loops, loop);
    return all->loops.count - 1;
}

// ---- steps

static int add_step(Maker *maker, StepKind kind, const Action *action, int loop)
{
    const ProgramStep step = { kind, action, loop, 0, 0, maker->warps, maker->is_divergent, false };
    int *const most = &maker->programs->most_accesses;
    if (action && action->n_accesses > *most) *most = action->n_accesses;
    VEC_PUSH(maker->schedule->arena, &maker->program->steps, step);
    return maker->program->steps.count - 1;
}

static ProgramStep *step_at(Maker *maker, int at) { return &maker->program->steps.items[at]; }

static void make_block(Maker *maker, const Action *action);

static void make_loop(Maker *maker, const Action *action)
{
    const bool is_grid = action->kind == ACTION_GRID;
    const int loop = loop_number(maker, is_grid ? (const void *)maker->schedule : action->loop.source);
    const int outer = maker->outer_loop;
    if (outer >= 0) maker->programs->loops.items[outer].is_outer = true;
    Target target = { .outer = maker->target, .is_grid = is_grid };
    maker->target = &target;
    maker->outer_loop = loop;
    const int head = add_step(maker, STEP_LOOP, action, loop);
    make_block(maker, action->body);
    const int next = add_step(maker, STEP_NEXT, action, loop), end = next + 1;
    step_at(maker, next)->target = head + 1;
    step_at(maker, head)->target = end;
    for (int i = 0; i < target.to_next.count; i++) step_at(maker, target.to_next.items[i])->target = next;
    for (int i = 0; i < target.to_end.count; i++) step_at(maker, target.to_end.items[i])->target = end;
    maker->target = target.outer;
    maker->outer_loop = outer;
}

static void make_jump(Maker *maker, const Action *action)
{
    Target *target = maker->target;
    while (target && action->jump.how == T_RETURN && !target->is_grid) target = target->outer;
    const int at = add_step(maker, STEP_GOTO, action, -1);
    if (!target) step_at(maker, at)->target = -1; // the role's end
    else if (action->jump.how == T_BREAK) {
        step_at(maker, at)->loop = maker->outer_loop;
        VEC_PUSH(maker->schedule->arena, &target->to_end, at);
    } else VEC_PUSH(maker->schedule->arena, &target->to_next, at);
}

// ---- conditions

static bool may_change(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL ||
           (x->kind == E_VAR && x->var.var->kind == VAR_LOCAL && x->var.var->assigned);
}

static ExprOp opposite_of(const Expr *x)
{
    const bool is_ordered = !dtype_is_float(x->op.a->type); // NaN is neither below nor at least anything
    switch ((int)x->op.op) {
    case X_EQ: return X_NE;
    case X_NE: return X_EQ;
    case X_LT: return is_ordered ? X_GE : X_LT;
    case X_GE: return is_ordered ? X_LT : X_GE;
    case X_LE: return is_ordered ? X_GT : X_LE;
    case X_GT: return is_ordered ? X_LE : X_GT;
    default: return x->op.op;
    }
}

static bool are_opposite(const Expr *x, const Expr *y)
{
    if (x->kind == E_UNARY && x->op.op == X_NOT) return expr_equal(x->op.a, y);
    if (y->kind == E_UNARY && y->op.op == X_NOT) return expr_equal(y->op.a, x);
    return x->kind == E_BINARY && y->kind == E_BINARY && x->op.op != y->op.op && opposite_of(x) == y->op.op &&
           expr_equal(x->op.a, y->op.a) && expr_equal(x->op.b, y->op.b);
}

// Whether the condition is the opposite of one that has come before, in any role.
static bool is_opposite(Maker *maker, const TileOp *source)
{
    Programs *const programs = maker->programs;
    if (!source || source->kind != T_IF || expr_any(source->branch.cond, may_change, NULL)) return false;
    for (int i = 0; i < programs->conditions.count; i++) {
        if (expr_equal(programs->conditions.items[i], source->branch.cond)) return false;
        if (are_opposite(programs->conditions.items[i], source->branch.cond)) return true;
    }
    VEC_PUSH(maker->schedule->arena, &programs->conditions, source->branch.cond);
    return false;
}

// Work of threads on registers alone: whether it is done nothing else depends on.
static bool is_of_registers(const Schedule *schedule, const Action *action)
{
    const ActionKind kind = action->kind;
    bool is_quiet = kind == ACTION_MAP || kind == ACTION_SCAN || kind == ACTION_SCALAR || kind == ACTION_DECLARE;
    for (int i = 0; i < action->n_accesses; i++)
        is_quiet &= schedule->tiles.items[action->accesses[i].tile]->place != TILE_SHARED;
    return is_quiet;
}

// Whether the steps, if they are run, show every fault that there is if they are not.
static bool are_quiet(Maker *maker, int first, int end)
{
    for (int i = first; i < end; i++)
        if (!does_something(step_at(maker, i)) || !is_of_registers(maker->schedule, step_at(maker, i)->action))
            return false;
    return true;
}

static void make_branch(Maker *maker, const Action *action)
{
    const bool was_divergent = maker->is_divergent;
    const int head = add_step(maker, STEP_IF, action, -1);
    step_at(maker, head)->is_opposite = is_opposite(maker, action->branch.source);
    maker->is_divergent |= !action->branch.is_uniform;
    make_block(maker, action->body);
    const int skip = add_step(maker, STEP_GOTO, NULL, -1);
    step_at(maker, head)->target = skip + 1;
    const bool is_seen = !action->otherwise && !step_at(maker, head)->is_opposite && are_quiet(maker, head + 1, skip);
    maker->programs->has_branches[0] |= action->branch.source && !is_seen && maker->with_boxes;
    maker->programs->has_branches[1] |= action->branch.source && !is_seen && maker->without;
    make_block(maker, action->otherwise);
    step_at(maker, skip)->target = maker->program->steps.count;
    maker->is_divergent = was_divergent;
}

static void make_scope(Maker *maker, const Action *action)
{
    const bool was_divergent = maker->is_divergent;
    const bool with_boxes = maker->with_boxes, without = maker->without;
    const int warps = maker->warps;
    const ScopeKind kind = action->scope.kind;
    maker->programs->has_forms |= kind == SCOPE_ALIGNED;
    maker->without &= kind != SCOPE_ALIGNED;
    const int loop = action->scope.source ? loop_number(maker, action->scope.source) : -1;
    const int head = add_step(maker, STEP_SCOPE, action, loop);
    if (kind == SCOPE_ONE_THREAD || (kind == SCOPE_EACH_WARP && action->scope.threads % 32 != 0))
        maker->is_divergent = true;
    if (kind == SCOPE_ONE_WARP) maker->warps = 1;
    make_block(maker, action->body);
    maker->warps = warps;
    maker->is_divergent = was_divergent;
    const int leave = add_step(maker, STEP_LEAVE, action, loop);
    step_at(maker, leave)->first = head;
    step_at(maker, head)->target = leave + 1;
    maker->without = without;
    if (!action->otherwise) return;
    maker->with_boxes &= kind != SCOPE_ALIGNED;
    const int skip = add_step(maker, STEP_GOTO, NULL, -1);
    step_at(maker, head)->target = skip + 1;
    make_block(maker, action->otherwise);
    step_at(maker, skip)->target = maker->program->steps.count;
    maker->with_boxes = with_boxes;
}

static void make_advance(Maker *maker, const Action *action)
{
    if (action->ring.ring != NO_RING) maker->programs->ring_loop[action->ring.ring] = maker->outer_loop;
    add_step(maker, STEP_DO, action, -1);
}

// What is nothing but its accesses.
static bool is_work(ActionKind kind)
{
    return kind == ACTION_SCALAR || kind == ACTION_DECLARE || kind == ACTION_MAP || kind == ACTION_SCAN ||
           kind == ACTION_ATOMIC || kind == ACTION_PREFETCH || kind == ACTION_FENCE_REGISTERS;
}

static void add_leaf(Maker *maker, const Action *action)
{
    const ActionKind kind = action->kind;
    const bool accesses =
        is_work(kind) || kind == ACTION_COPY || kind == ACTION_STORE || kind == ACTION_MMA || kind == ACTION_LDMATRIX;
    if (!is_work(kind) || action->n_accesses > 0) add_step(maker, accesses ? STEP_ACCESS : STEP_DO, action, -1);
}

// What it does in the course of its work comes after what it accesses; but a copy's waits and announcements before.
static void make_leaf(Maker *maker, const Action *action)
{
    const bool is_copy = action->kind == ACTION_COPY;
    if (is_copy) make_block(maker, action->body);
    add_leaf(maker, action);
    if (!is_copy) make_block(maker, action->body);
}

static void make_block(Maker *maker, const Action *action)
{
    for (; action; action = action->next) {
        if (action->kind == ACTION_LOOP || action->kind == ACTION_GRID) make_loop(maker, action);
        else if (action->kind == ACTION_IF) make_branch(maker, action);
        else if (action->kind == ACTION_SCOPE) make_scope(maker, action);
        else if (action->kind == ACTION_JUMP) make_jump(maker, action);
        else if (action->kind == ACTION_ADVANCE) make_advance(maker, action);
        else make_leaf(maker, action);
    }
}

void make_programs(const Schedule *schedule, Programs *programs)
{
    programs->ring_loop = NEW_ARRAY(schedule->arena, int, schedule->rings.count + 1);
    for (int i = 0; i < schedule->rings.count; i++) programs->ring_loop[i] = -1;
    for (int i = 0; i < schedule->roles.count; i++) {
        Program *const program = NEW(schedule->arena, Program);
        Maker maker = { .schedule = schedule,
                        .programs = programs,
                        .program = program,
                        .outer_loop = -1,
                        .warps = -1,
                        .with_boxes = true,
                        .without = true };
        make_block(&maker, schedule->roles.items[i]->body);
        const int end = add_step(&maker, STEP_END, NULL, -1);
        for (int s = 0; s < end; s++)
            if (step_at(&maker, s)->target < 0) step_at(&maker, s)->target = end;
        VEC_PUSH(schedule->arena, &programs->roles, program);
    }
}
