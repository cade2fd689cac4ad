// SPDX-License-Identifier: MIT
// forall.c - what independent iterations may do: updates, reductions, and what each may touch.
//
// A write tells iterations apart if its subscripts give every iteration an element of its own. That is proved one
// dimension at a time: a subscript c1*i1 + c2*i2 + ... of constant factors is a number in a mixed radix if, in the
// order of the factors, each is larger than what all before it can reach; then it determines its indices. A slice
// counts as one more, smallest digit. Subscripts that are not of this form (read from memory, divided) cannot be
// judged and are the author's promise.
#include "check/context.h"

// ---- which indices an expression depends on

int forall_depth(const Checker *cx)
{
    int depth = 0;
    for (const ForallFrame *frame = cx->forall; frame; frame = frame->outer) depth++;
    return depth;
}

// Names of the callers count too: their variables arrive in an inlined function through its arguments.
static const Entity *find_variable(const Checker *cx, const Var *var)
{
    const Entity *names = cx->names;
    for (const CallFrame *call = cx->call;; call = call->outer) {
        for (const Entity *e = names; e; e = e->next)
            if (e->var == var && (e->kind == ENTITY_VARIABLE || e->kind == ENTITY_VALUE)) return e;
        if (!call) return NULL;
        names = call->names;
    }
}

typedef struct Dependence {
    Checker *cx;
    uint32_t indices;
} Dependence;

static bool collect_indices(const Expr *x, void *context)
{
    Dependence *const all = context;
    const ForallFrame *const frame = all->cx->forall;
    if (x->kind == E_LOAD && buffer_root(x->load.buffer)->kind == BUFFER_LOCAL) all->indices = UINT32_MAX;
    if (x->kind != E_VAR || !frame) return false;
    for (int i = 0; i < frame->n_vars; i++)
        if (frame->vars[i] == x->var.var) {
            all->indices |= 1u << i;
            return false;
        }
    // The index of a loop in the iteration depends on what its bounds depend on.
    const Var *const var = x->var.var;
    if (var->kind == VAR_INDEX && var->lo && expr_any(var->lo, collect_indices, all)) return true;
    if (var->kind == VAR_INDEX && var->hi && expr_any(var->hi, collect_indices, all)) return true;
    if (var->kind != VAR_LOCAL) return false;
    const Entity *const entity = find_variable(all->cx, x->var.var);
    // A variable nobody names was made inside the forall, from who knows what. One of outside is the same for all.
    if (!entity) all->indices = UINT32_MAX;
    else if (entity->forall_depth >= forall_depth(all->cx)) all->indices |= entity->depends;
    return false;
}

uint32_t depends_on(Checker *cx, const Expr *x)
{
    Dependence all = { cx, 0 };
    expr_any(x, collect_indices, &all);
    return all.indices;
}

// ---- extents of indices

static bool index_extent(const ForallFrame *frame, int i, int64_t *extent)
{
    int64_t lo, hi;
    const LoopIndex *const index = &frame->op->forall.indices[i];
    if (!expr_as_int(index->lo, &lo) || !expr_as_int(index->hi, &hi)) return false;
    *extent = hi - lo;
    return true;
}

// The indices that take more than one value.
static uint32_t varying_indices(const ForallFrame *frame)
{
    uint32_t all = 0;
    for (int i = 0; i < frame->n_vars; i++) {
        int64_t extent;
        if (!index_extent(frame, i, &extent) || extent > 1) all |= 1u << i;
    }
    return all;
}

// ---- mixed radix

typedef struct Form {
    bool affine;
    int64_t factors[32], spread;
    uint32_t indices;
    Expr *rest;
} Form;

static bool is_inner_variable(const Expr *x, void *context)
{
    const Checker *const cx = context;
    if (x->kind != E_VAR || (x->var.var->kind != VAR_INDEX && x->var.var->kind != VAR_LOCAL)) return false;
    const Entity *const entity = find_variable(cx, x->var.var);
    return entity && entity->forall_depth >= forall_depth(cx);
}

// What is reduced is complete where the body's variables have no value any more.
static bool is_body_variable(const Expr *x, void *context)
{
    const Checker *const cx = context;
    const ForallFrame *const frame = cx->forall;
    for (int i = 0; x->kind == E_VAR && i < frame->n_vars; i++)
        if (frame->vars[i] == x->var.var) return false;
    return is_inner_variable(x, context);
}

static Form form_of(Checker *cx, const ForallFrame *frame, Expr *sub)
{
    Form form = { .indices = depends_on(cx, sub) };
    form.affine = expr_affine(cx->arena, sub, frame->vars, frame->n_vars, form.factors, &form.rest) &&
                  depends_on(cx, form.rest) == 0;
    // What a loop or variable of the iteration adds differs between iterations: one more digit, if it is bounded.
    if (form.affine && form.indices && expr_any(form.rest, is_inner_variable, cx)) {
        const Range r = expr_range(form.rest);
        form.affine = r.has_lo && r.has_hi;
        form.spread = form.affine ? r.hi - r.lo : 0;
    }
    return form;
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Whether a subscript determines all of its `open` indices. `reach`: what its smallest digit, a slice, covers.
static bool is_mixed_radix(const ForallFrame *frame, const Form *form, uint32_t open, int64_t reach)
{
    uint32_t left = open;
    reach += form->spread;
    while (left) {
        int next = -1;
        for (int i = 0; i < frame->n_vars; i++)
            if ((left >> i & 1) && (next < 0 || magnitude(form->factors[i]) < magnitude(form->factors[next]))) next = i;
        left &= ~(1u << next);
        int64_t extent;
        if (magnitude(form->factors[next]) <= reach) return false;
        if (!left) return true;
        if (!index_extent(frame, next, &extent)) return false;
        reach += magnitude(form->factors[next]) * (extent - 1);
    }
    return true;
}

static int64_t slice_reach(const Sub *sub)
{
    int64_t width, step = 1;
    if (!sub->is_range) return 0;
    if (!expr_as_int(sub->width, &width) || (sub->step && !expr_as_int(sub->step, &step))) return INT64_MAX / 4;
    return (width - 1) * step;
}

WriteKind classify_write(Checker *cx, const Region *region, uint32_t *used)
{
    const ForallFrame *const frame = cx->forall;
    const uint32_t all = varying_indices(frame);
    const int rank = region->buffer->rank;
    Form forms[MAX_RANK];
    uint32_t known = 0;
    bool opaque = false;
    *used = 0;
    for (int d = 0; d < rank; d++) {
        forms[d] = form_of(cx, frame, region->subs[d].start);
        forms[d].indices &= all;
        *used |= forms[d].indices;
        opaque |= !forms[d].affine && forms[d].indices;
    }
    for (bool progress = true; progress;) {
        progress = false;
        for (int d = 0; d < rank; d++) {
            const uint32_t open = forms[d].indices & ~known;
            if (!forms[d].affine || !open || !is_mixed_radix(frame, &forms[d], open, slice_reach(&region->subs[d])))
                continue;
            known |= open;
            progress = true;
        }
    }
    if (*used & ~known) return opaque ? WRITE_UNKNOWN : WRITE_COLLIDES;
    if (*used == all) return WRITE_APART;
    for (int d = 0; d < rank; d++)
        if (expr_any(region->subs[d].start, is_body_variable, cx)) return WRITE_COLLIDES;
    return WRITE_REDUCES;
}

// ---- fragments

static void report_fragment(Checker *cx, const Entity *entity, const Region *region, const char *why)
{
    check_error(cx, region->span,
                "a fragment's subscript is an index, a constant or a form of indices such as i*4 + j; %s", why);
    check_note(cx, entity->span, "'%s' is %s", entity->name, show_buffer(cx, entity->buffer));
    check_help(cx, region->span, "a 'shared' tile takes any subscript");
}

static void check_fragment_sub(Checker *cx, const Entity *entity, const Region *region, const Sub *sub)
{
    const ForallFrame *const frame = cx->forall;
    int64_t extent;
    if (sub->is_range && !expr_is_const(sub->width)) {
        report_fragment(cx, entity, region, "this width is known only at run time");
        return;
    }
    if (expr_is_const(sub->start)) return;
    if (!frame) {
        report_fragment(cx, entity, region, "outside of forall only constants");
        return;
    }
    if (frame->poisoned) return;
    const Form form = form_of(cx, frame, sub->start);
    if (!form.affine || !expr_is_const(form.rest)) {
        report_fragment(cx, entity, region,
                        form.affine && form.indices ? "here something is added that is no constant"
                                                    : "this is none of them");
        return;
    }
    for (int i = 0; i < frame->n_vars; i++) {
        if (!(form.indices >> i & 1) || index_extent(frame, i, &extent)) continue;
        check_error(cx, region->span, "index '%s' subscripts a fragment, so its extent must be known when built",
                    frame->vars[i]->name);
        check_note(cx, frame->vars[i]->span, "its extent is %s", show_expr(cx, frame->op->forall.indices[i].hi));
        return;
    }
    if (!is_mixed_radix(frame, &form, form.indices & varying_indices(frame), slice_reach(sub)))
        report_fragment(cx, entity, region, "here different iterations meet in one element");
}

bool check_fragment_subs(Checker *cx, const Entity *entity, const Region *region)
{
    if (!entity || buffer_root(region->buffer)->kind != BUFFER_FRAGMENT) return true;
    const int errors = cx->errors;
    for (int d = 0; d < region->buffer->rank && cx->errors == errors; d++)
        check_fragment_sub(cx, entity, region, &region->subs[d]);
    return cx->errors == errors;
}

// ---- after the body: targets of reductions, and reads of what other iterations write

typedef struct Touch {
    const Buffer *root;
    const Region *region;
    Expr **subs;
    const Buffer *buffer;
    bool writes, reads, atomic;
    TileOp *op;
} Touch;
typedef struct Touches {
    Checker *cx;
    VEC(Touch) items;
    TileOp *op;
} Touches;

static void note_touch(const TileUse *use, void *context)
{
    Touches *const all = context;
    const Touch touch = {
        buffer_root(use->buffer), use->region, use->subs, use->buffer, use->writes, use->reads, use->atomic, all->op
    };
    VEC_PUSH(all->cx->arena, &all->items, touch);
}

static void collect_touches(Touches *all, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        all->op = op;
        tile_uses(op, note_touch, all);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) collect_touches(all, *body);
    }
}

static const Reduction *reduction_of(const ForallFrame *frame, const TileOp *op)
{
    for (int i = 0; i < frame->reductions.count; i++)
        if (frame->reductions.items[i].made == op) return &frame->reductions.items[i];
    return NULL;
}

static void report_used_target(Checker *cx, const Reduction *r, const char *name, Span span)
{
    check_error(cx, span, "'%s' is reduced over in this forall and may not be used otherwise in it", name);
    check_note(cx, r->made->span, "reduced here");
    check_help(cx, span, "use the result in a forall of its own, after this one");
}

static bool is_same_reduction(const ForallFrame *frame, const TileOp *op, const Reduction *r)
{
    const Reduction *const other = reduction_of(frame, op);
    return other && other->root == r->root && other->var == r->var && other->op == r->op;
}

static void check_reduction_target(Checker *cx, const ForallFrame *frame, const Reduction *r, const Touches *touches)
{
    for (int i = 0; i < touches->items.count; i++) {
        const Touch *const touch = &touches->items.items[i];
        if (touch->root != r->root) continue;
        const bool is_target = is_same_reduction(frame, touch->op, r) && touch->writes;
        if (!is_target) {
            report_used_target(cx, r, r->root->name, touch->op->span);
            return;
        }
    }
}

typedef struct VarSearch {
    const Var *var;
    bool found;
} VarSearch;

static void find_var(Expr **slot, void *context)
{
    VarSearch *const search = context;
    search->found |= expr_uses(*slot, search->var);
}

static bool check_var_target(Checker *cx, const ForallFrame *frame, const Reduction *r, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        VarSearch search = { r->var, false };
        tile_each_expr(op, find_var, &search);
        const bool sets = (op->kind == T_SET && op->let.var == r->var) ||
                          (op->kind == T_UPDATE && op->update.var == r->var && !is_same_reduction(frame, op, r));
        if (search.found || sets) {
            report_used_target(cx, r, r->var->name, op->span);
            return false;
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (!check_var_target(cx, frame, r, *body)) return false;
    }
    return true;
}

// Whether an element read by one iteration is for certain written by another: the same factors in both subscripts,
// and constants that differ by a whole number of steps within the extents.
static bool reads_neighbour(Checker *cx, const ForallFrame *frame, const Touch *write, const Touch *read)
{
    bool differs = false;
    for (int d = 0; d < write->buffer->rank; d++) {
        Expr *const w = write->region ? write->region->subs[d].start : write->subs[d];
        Expr *const r = read->region ? read->region->subs[d].start : read->subs[d];
        const Form fw = form_of(cx, frame, w), fr = form_of(cx, frame, r);
        int64_t difference, extent;
        if (!fw.affine || !fr.affine) return false;
        int index = -1;
        for (int i = 0; i < frame->n_vars; i++) {
            if (fw.factors[i] != fr.factors[i]) return false;
            if (fw.factors[i] == 0) continue;
            if (index >= 0) return false;
            index = i;
        }
        if (!expr_as_int(int_sub(cx->arena, fr.rest, fw.rest), &difference)) return false;
        if (index < 0) {
            if (difference != 0) return false;
            continue;
        }
        if (difference % fw.factors[index] != 0) return false;
        if (difference == 0) continue;
        if (!index_extent(frame, index, &extent) || magnitude(difference / fw.factors[index]) >= extent) return false;
        differs = true;
    }
    return differs;
}

static bool is_plain(const Touch *touch)
{
    if (touch->root->kind == BUFFER_LOCAL || touch->atomic) return false;
    if (!touch->region) return touch->subs != NULL;
    for (int d = 0; d < touch->buffer->rank; d++)
        if (touch->region->subs[d].is_range && !expr_is_const(touch->region->subs[d].start)) return false;
    return true;
}

static void check_independence(Checker *cx, const ForallFrame *frame, const Touches *touches)
{
    for (int w = 0; w < touches->items.count; w++) {
        const Touch *const write = &touches->items.items[w];
        if (!write->writes || !is_plain(write) || reduction_of(frame, write->op)) continue;
        for (int r = 0; r < touches->items.count; r++) {
            const Touch *const read = &touches->items.items[r];
            if (read->writes || !read->reads || !is_plain(read) || read->buffer != write->buffer) continue;
            if (!reads_neighbour(cx, frame, write, read)) continue;
            check_error(cx, read->op->span, "an iteration reads an element of '%s' that another one writes",
                        write->root->name);
            check_note(cx, write->op->span, "written here");
            check_help(cx, read->op->span, "read into another tile first, in a forall of its own");
            return;
        }
    }
}

void check_forall_uses(Checker *cx, ForallFrame *frame)
{
    Touches touches = { .cx = cx };
    collect_touches(&touches, frame->op->forall.body);
    for (int i = 0; i < frame->reductions.count; i++) {
        const Reduction *const r = &frame->reductions.items[i];
        if (r->root) check_reduction_target(cx, frame, r, &touches);
        else check_var_target(cx, frame, r, frame->op->forall.body);
    }
    if (!cx->sequential) check_independence(cx, frame, &touches);
}
