// SPDX-License-Identifier: MIT
// count.c - the walk through a reference: multiply-adds, and the elements that are read and written.
#include "tools/count.h"

// One op and one box looked at are a step each; a second or two.
static const int64_t STEPS_MAX = 20000000;

typedef enum { FLOW_ON, FLOW_CONTINUE, FLOW_BREAK, FLOW_RETURN } Flow;

// The elements of a tensor, or of a view of one, that are read and written.
// `maybe` ones depend on what is not known; if others cover them, that does not matter.
typedef struct Touched {
    Buffer *buffer;
    Interval shape[MAX_RANK];
    Boxes sure[2], maybe[2]; // read, written
} Touched;

typedef struct Walk {
    Ranges ranges;
    Arena *arena;
    const bool *exact;
    Touched *touched; // by Buffer.id
    Flow flow;
    int64_t steps;
    int unsure;  // depth of branches that may or may not be taken
    bool behind; // the rest of an iteration that may have been left
    Work work;   // the bytes are added up at the end
} Walk;

static const char too_many_steps[] = "its reference takes too many steps to follow";
static const char computed[] = "it depends on values that are computed, or on contents that are not known here";

static bool is_lost(const Walk *w) { return w->steps > STEPS_MAX; }

static void lose(const char **unknown, const char *why)
{
    if (!*unknown) *unknown = why;
}

// What is left does not bound it either.
static void lose_both(Walk *w, const char *why)
{
    w->work.at_most = false;
    lose(&w->work.operations_unknown, why);
    lose(&w->work.bytes_unknown, why);
}

// ---- elements

static Touched *touched_of(Walk *w, Buffer *buffer)
{
    Touched *const t = &w->touched[buffer->id];
    if (t->buffer) return t;
    t->buffer = buffer;
    for (int writes = 0; writes < 2; writes++) t->sure[writes].rank = t->maybe[writes].rank = buffer->rank;
    for (int d = 0; d < buffer->rank; d++) t->shape[d] = interval_of(&w->ranges, buffer->shape[d]);
    return t;
}

// A range of each subscript; what is outside the tensor is not there.
static void touch(Walk *w, Buffer *buffer, const Interval *at, bool reads)
{
    const Buffer *const root = buffer_root(buffer);
    if (root->kind != BUFFER_TENSOR || !(root->access & (reads ? ACCESS_IN : ACCESS_OUT))) return;
    Touched *const t = touched_of(w, buffer);
    Box box;
    bool sure = w->unsure == 0;
    for (int d = 0; d < buffer->rank; d++) {
        if (!t->shape[d].known || t->shape[d].lo != t->shape[d].hi) {
            w->work.at_most = false;
            lose(&w->work.bytes_unknown, computed);
            return;
        }
        sure &= at[d].known;
        box.lo[d] = at[d].known && at[d].lo > 0 ? at[d].lo : 0;
        box.hi[d] = at[d].known && at[d].hi < t->shape[d].lo - 1 ? at[d].hi : t->shape[d].lo - 1;
        if (box.lo[d] > box.hi[d]) return;
    }
    Boxes *const boxes = &(sure ? t->sure : t->maybe)[!reads];
    const int64_t before = boxes->effort;
    boxes_add(w->arena, boxes, box);
    w->steps += (boxes->effort - before) / 8;
    if (boxes->scattered) {
        w->work.at_most = false;
        lose(&w->work.bytes_unknown, "the elements it takes are too scattered");
    }
}

static void touch_element(Walk *w, Buffer *buffer, Expr *const *subs, bool reads)
{
    Interval at[MAX_RANK];
    if (buffer_root(buffer)->kind != BUFFER_TENSOR) return;
    for (int d = 0; d < buffer->rank; d++) at[d] = interval_of(&w->ranges, subs[d]);
    touch(w, buffer, at, reads);
}

static void touch_region(Walk *w, const Region *r, bool reads)
{
    Interval at[MAX_RANK];
    for (int d = 0; d < r->buffer->rank; d++) {
        at[d] = interval_of(&w->ranges, r->subs[d].start);
        const Interval width =
            r->subs[d].is_range ? interval_of(&w->ranges, r->subs[d].width) : (Interval){ 1, 1, true };
        at[d].hi += width.hi - 1;
        at[d].known &= width.known;
    }
    touch(w, r->buffer, at, reads);
}

static void read_elements(Walk *w, Expr *x);

static void read_side(Walk *w, const Expr *x)
{
    int64_t taken;
    const bool differ = sides_differ(x);
    read_elements(w, x->select.cond);
    if (value_of(&w->ranges, x->select.cond, &taken) || !differ) {
        read_elements(w, !differ || taken ? x->select.a : x->select.b);
        return;
    }
    w->unsure++;
    read_elements(w, x->select.a);
    read_elements(w, x->select.b);
    w->unsure--;
}

static void read_elements(Walk *w, Expr *x)
{
    Expr **slots[MAX_RANK + 16];
    int64_t left;
    if (!x) return;
    if (x->kind == E_SELECT) {
        read_side(w, x);
        return;
    }
    if (x->kind == E_BINARY && (x->op.op == X_AND || x->op.op == X_OR) && value_of(&w->ranges, x->op.a, &left) &&
        (left != 0) == (x->op.op == X_OR)) {
        read_elements(w, x->op.a);
        return;
    }
    if (x->kind == E_LOAD) touch_element(w, x->load.buffer, x->load.subs, true);
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n && i < COUNT(slots); i++) read_elements(w, *slots[i]);
}

static void read_slot(Expr **slot, void *context) { read_elements(context, *slot); }

// ---- multiply-adds

// What a sum is added up in.
typedef struct Sum {
    const Var *var;
    const Buffer *buffer;
    Expr *const *subs;
} Sum;

static bool is_sum(const Expr *x, void *context)
{
    const Sum *const sum = context;
    if (x->kind == E_VAR) return sum->var && x->var.var == sum->var;
    if (x->kind != E_LOAD || x->load.buffer != sum->buffer) return false;
    for (int d = 0; d < sum->buffer->rank; d++)
        if (!expr_equal(x->load.subs[d], sum->subs[d])) return false;
    return true;
}

static bool holds_sum(const Expr *x, const Sum *sum) { return expr_any(x, is_sum, (void *)sum); }

// Products among the terms of a value; the sum itself, scaled, is none. Products of indices are none either.
static double count_terms(Walk *w, const Expr *x, const Sum *sum)
{
    int64_t taken;
    switch (x->kind) {
    case E_CONVERT: return count_terms(w, x->convert.a, sum);
    case E_UNARY: return x->op.op == X_NEG ? count_terms(w, x->op.a, sum) : 0;
    case E_BINARY:
        if (x->op.op == X_ADD || x->op.op == X_SUB) return count_terms(w, x->op.a, sum) + count_terms(w, x->op.b, sum);
        if (x->op.op == X_DIV) return count_terms(w, x->op.a, sum);
        return x->op.op == X_MUL && !holds_sum(x, sum) && (dtype_is_float(x->type) || expr_loads(x));
    case E_MATH:
        if (x->math.fn == M_FMA)
            return !holds_sum(x->math.args[0], sum) && !holds_sum(x->math.args[1], sum)
                       ? 1 + count_terms(w, x->math.args[2], sum)
                       : 0;
        return x->math.fn == M_DOT4 ? 4 : 0;
    case E_SELECT: {
        const double a = count_terms(w, x->select.a, sum), b = count_terms(w, x->select.b, sum);
        if (value_of(&w->ranges, x->select.cond, &taken)) return taken ? a : b;
        if (a != b) lose(&w->work.operations_unknown, computed);
        return a > b ? a : b;
    }
    case E_INT:
    case E_FLOAT:
    case E_VAR:
    case E_LOAD:
    case E_BITCAST:
    case E_ATOMIC:
    case E_CALL:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return 0;
}

// sum = sum + a*b, also where the sum is scaled on the way.
static double count_assigned(Walk *w, const Expr *value, const Sum *sum)
{
    return value && holds_sum(value, sum) ? count_terms(w, value, sum) : 0;
}

static double count_update(Walk *w, const TileOp *op)
{
    const Sum sum = { op->update.var, op->update.buffer, op->update.subs };
    return op->update.op == UPDATE_ADD || op->update.op == UPDATE_SUB ? count_terms(w, op->update.value, &sum) : 0;
}

// ---- variables

static void set_var(Walk *w, const Var *var, const Expr *value)
{
    w->ranges.vars[var->id] = value ? interval_of(&w->ranges, value) : (Interval){ 0, 0, false };
}

static void update_var(Walk *w, const TileOp *op)
{
    Var *const var = op->update.var;
    Expr self = { .kind = E_VAR, .type = var->type, .var = { var } };
    if (!w->exact[var->id] || dtype_is_float(var->type)) {
        w->ranges.vars[var->id].known = false;
        return;
    }
    if (op->update.op == UPDATE_MIN || op->update.op == UPDATE_MAX) {
        Expr *args[] = { &self, op->update.value };
        const Expr x = { .kind = E_MATH,
                         .type = var->type,
                         .math = { op->update.op == UPDATE_MIN ? M_MIN : M_MAX, 2, args } };
        set_var(w, var, &x);
    } else {
        const Expr x = { .kind = E_BINARY,
                         .type = var->type,
                         .op = { update_operator(op->update.op), &self, op->update.value } };
        set_var(w, var, &x);
    }
}

// Behind a branch that may have been taken, what it sets is not known.
static void forget_block(Walk *w, TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->kind == T_SET) w->ranges.vars[op->let.var->id].known = false;
        if (op->kind == T_UPDATE && op->update.var) w->ranges.vars[op->update.var->id].known = false;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) forget_block(w, *body);
    }
}

// ---- loops and branches

static double walk_block(Walk *w, TileOp *op);

static double walk_iteration(Walk *w, TileOp *body)
{
    const int unsure = w->unsure;
    const bool behind = w->behind;
    const double sum = walk_block(w, body);
    w->unsure = unsure;
    w->behind = behind;
    return sum;
}

static double walk_indices(Walk *w, const LoopIndex *indices, int n, int64_t step, TileOp *body);

// False: the loop ends.
static bool goes_on(Walk *w)
{
    const Flow flow = w->flow;
    if (flow == FLOW_CONTINUE || flow == FLOW_BREAK) w->flow = FLOW_ON;
    return flow < FLOW_BREAK && !is_lost(w);
}

static double walk_exactly(Walk *w, const LoopIndex *indices, int n, int64_t first, int64_t steps, int64_t step,
                           TileOp *body)
{
    double sum = 0;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t at = first + i * step;
        w->ranges.vars[indices->var->id] = (Interval){ at, at, true };
        w->steps++;
        sum += walk_indices(w, indices + 1, n - 1, 1, body);
        if (!goes_on(w)) break;
    }
    return sum;
}

// One step for all of them.
static double walk_at_once(Walk *w, const LoopIndex *indices, int n, int64_t first, int64_t steps, int64_t step,
                           TileOp *body)
{
    const int64_t last = first + (steps - 1) * step;
    w->ranges.vars[indices->var->id] = (Interval){ first < last ? first : last, first < last ? last : first, true };
    const double once = walk_indices(w, indices + 1, n - 1, 1, body);
    return goes_on(w) ? once * (double)steps : once;
}

static double walk_indices(Walk *w, const LoopIndex *indices, int n, int64_t step, TileOp *body)
{
    int64_t lo, hi;
    if (n == 0) return walk_iteration(w, body);
    if (!value_of(&w->ranges, indices->lo, &lo) || !value_of(&w->ranges, indices->hi, &hi)) {
        w->ranges.vars[indices->var->id].known = false;
        w->unsure++;
        if (walk_indices(w, indices + 1, n - 1, 1, body) > 0) {
            w->work.at_most = false;
            lose(&w->work.operations_unknown, computed);
        }
        w->unsure--;
        w->flow = FLOW_ON;
        forget_block(w, body);
        return 0;
    }
    const int64_t steps = step > 0 ? (hi - lo + step - 1) / step : (lo - hi - step - 1) / -step;
    if (step > 0 ? hi <= lo : hi >= lo) return 0;
    return (w->exact[indices->var->id] ? walk_exactly : walk_at_once)(w, indices, n, lo, steps, step, body);
}

// A side that goes to the next iteration leaves the rest of this one in doubt, another jump all that follows.
static void leave_in_doubt(Walk *w, bool goes_on, bool jumps)
{
    if (goes_on) {
        w->unsure++;
        w->behind = true;
    }
    if (jumps) {
        lose(&w->work.operations_unknown, computed);
        lose(&w->work.bytes_unknown, computed);
    }
}

static double walk_unknown_branch(Walk *w, const TileOp *op)
{
    w->unsure++;
    const double then = walk_block(w, op->branch.then);
    const Flow first = w->flow;
    w->flow = FLOW_ON;
    const double otherwise = walk_block(w, op->branch.otherwise);
    w->unsure--;
    if (then != otherwise) lose(&w->work.operations_unknown, computed);
    leave_in_doubt(w, first == FLOW_CONTINUE || w->flow == FLOW_CONTINUE,
                   first > FLOW_CONTINUE || w->flow > FLOW_CONTINUE);
    w->flow = FLOW_ON;
    forget_block(w, op->branch.then);
    forget_block(w, op->branch.otherwise);
    return then > otherwise ? then : otherwise;
}

static double walk_branch(Walk *w, const TileOp *op)
{
    int64_t cond;
    return value_of(&w->ranges, op->branch.cond, &cond) ? walk_block(w, cond ? op->branch.then : op->branch.otherwise)
                                                        : walk_unknown_branch(w, op);
}

static double walk_while(Walk *w, const TileOp *op)
{
    double sum = 0;
    int64_t cond = 0;
    while (value_of(&w->ranges, op->while_.cond, &cond) && cond) {
        w->steps++;
        sum += walk_iteration(w, op->while_.body);
        if (!goes_on(w)) return sum;
        sum += walk_block(w, op->while_.step);
    }
    if (value_of(&w->ranges, op->while_.cond, &cond)) return sum;
    w->unsure++;
    if (walk_block(w, op->while_.body) > 0) {
        w->work.at_most = false;
        lose(&w->work.operations_unknown, computed);
    }
    w->unsure--;
    w->flow = FLOW_ON;
    forget_block(w, op->while_.body);
    forget_block(w, op->while_.step);
    return sum;
}

// ---- statements

static double walk_op(Walk *w, TileOp *op)
{
    double n = 0;
    int64_t step = 1;
    tile_each_expr(op, read_slot, w);
    switch (op->kind) {
    case T_LET:
    case T_SET:
        n = op->kind == T_SET ? count_assigned(w, op->let.value, &(Sum){ op->let.var, NULL, NULL }) : 0;
        set_var(w, op->let.var, op->let.value);
        break;
    case T_STORE:
        n = count_assigned(w, op->store.value, &(Sum){ NULL, op->store.buffer, op->store.subs });
        touch_element(w, op->store.buffer, op->store.subs, false);
        break;
    case T_UPDATE:
        n = count_update(w, op);
        if (op->update.var) {
            update_var(w, op);
            break;
        }
        touch_element(w, op->update.buffer, op->update.subs, true);
        touch_element(w, op->update.buffer, op->update.subs, false);
        break;
    case T_ATOMIC:
        touch_element(w, op->atomic.buffer, op->atomic.subs, true);
        touch_element(w, op->atomic.buffer, op->atomic.subs, false);
        break;
    case T_FILL: touch_region(w, &op->fill.dst, false); break;
    case T_COPY:
    case T_ATOMIC_TILE:
        touch_region(w, &op->copy.src, true);
        touch_region(w, &op->copy.dst, false);
        break;
    case T_FORALL: return walk_indices(w, op->forall.indices, op->forall.n, 1, op->forall.body);
    case T_PIPELINE: return walk_indices(w, op->pipeline.indices, op->pipeline.n, 1, op->pipeline.body);
    case T_FOR:
        expr_as_int(op->for_.step, &step);
        return walk_indices(w, &(LoopIndex){ op->for_.var, op->for_.lo, op->for_.hi }, 1, step, op->for_.body);
    case T_WHILE: return walk_while(w, op);
    case T_IF: return walk_branch(w, op);
    case T_BREAK: w->flow = FLOW_BREAK; break;
    case T_CONTINUE: w->flow = FLOW_CONTINUE; break;
    case T_RETURN: w->flow = FLOW_RETURN; break;
    case T_MATMUL:
    case T_SCAN:
    case T_EXTERN: lose_both(w, "its reference does more than scalar code"); break;
    case T_TILE:
    case T_PRINT:
    case T_ASSERT: break;
    }
    if (n > 0 && w->behind) lose(&w->work.operations_unknown, computed);
    return n;
}

static double walk_block(Walk *w, TileOp *op)
{
    double sum = 0;
    for (; op && w->flow == FLOW_ON && !is_lost(w); op = op->next) {
        w->steps++;
        sum += walk_op(w, op);
    }
    return sum;
}

// The instances of a reference are the steps of its first forall; to return ends one of them.
static double walk_instances(Walk *w, int i)
{
    const TileKernel *const k = w->ranges.kernel;
    int64_t extent;
    if (i < 0) {
        const double sum = walk_block(w, k->body);
        w->flow = FLOW_ON;
        return sum;
    }
    const Var *const var = k->grid[i].var;
    if (!value_of(&w->ranges, k->grid[i].extent, &extent)) {
        lose_both(w, computed);
        return 0;
    }
    if (extent <= 0) return 0;
    if (!w->exact[var->id]) {
        w->ranges.vars[var->id] = (Interval){ 0, extent - 1, true };
        return (double)extent * walk_instances(w, i - 1);
    }
    double sum = 0;
    for (int64_t at = 0; at < extent && !is_lost(w); at++) {
        w->ranges.vars[var->id] = (Interval){ at, at, true };
        sum += walk_instances(w, i - 1);
    }
    return sum;
}

// Of one tensor; what may have been touched must have been.
static double add_up(Walk *w, Touched *t)
{
    double elements = 0;
    for (int writes = 0; writes < 2; writes++) {
        for (int i = 0; i < t->maybe[writes].list.count; i++)
            if (boxes_add(w->arena, &t->sure[writes], t->maybe[writes].list.items[i]))
                lose(&w->work.bytes_unknown, computed);
        elements += boxes_elements(&t->sure[writes]);
    }
    return elements * dtype_bits(t->buffer->type) / 8;
}

Work count_reference(const TileKernel *k, const WorkValues *values)
{
    Walk w = { .ranges = ranges_of(k, values),
               .arena = k->arena,
               .exact = find_exact(k),
               .touched = NEW_ARRAY(k->arena, Touched, k->n_buffers + 1),
               .work.at_most = true };
    w.work.operations = 2 * walk_instances(&w, k->n_grid - 1);
    for (int i = 0; i <= k->n_buffers; i++)
        if (w.touched[i].buffer) w.work.bytes += add_up(&w, &w.touched[i]);
    w.work.gave_up = is_lost(&w);
    if (w.work.gave_up) lose_both(&w, too_many_steps);
    return w.work;
}
