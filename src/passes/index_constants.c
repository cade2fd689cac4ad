// SPDX-License-Identifier: MIT
// index_constants.c - a constant that subscripts a fragment becomes an index that has one value.
//
//     forall (j : 64) sum[0] += x[0][j];      forall (row : 4, j : 64) if (row == 0) sum[row] += x[row][j];
//
// A fragment's elements lie in registers by the indices of foralls. What is written for one row at a time, by a loop that is
// unrolled, would need the row in other threads, and all of the fragment would have to leave the registers.
//
// before: simplified    after: few constants subscript fragments in foralls, or in stores outside of them
// never:  more than sixteen iterations in place of one; nor where a forall takes two rows of one dimension, or changes a
//         fragment that the index would not subscript, whose elements other threads hold, or memory that it also reads,
//         which threads of other values of the index would read; nor where one reduction would keep the index and another
//         drop it
#include "passes/passes.h"

enum { MORE_ITERATIONS_MAX = 16, CONSTANTS_MAX = 4 };

// One constant in one dimension, and the index that stands for it; those of the same value in other dimensions that no access
// has beside it share it, as they do where the program has an index in place of a loop.
typedef struct Constant {
    int64_t value, extent;
    int dimension;
    Var *var;
    uint32_t beside; // a bit for each of the others that one access has with it
} Constant;

typedef struct Constants {
    TileKernel *kernel;
    Constant items[CONSTANTS_MAX];
    int n;
    bool too_many;
} Constants;

static bool is_constant(const Buffer *b, const Expr *sub, int d, Constant *c)
{
    *c = (Constant){ .dimension = d };
    return buffer_is_tile(b) && b->kind == BUFFER_FRAGMENT && expr_as_int(sub, &c->value) &&
           expr_as_int(b->shape[d], &c->extent) && c->value >= 0 && c->value < c->extent;
}

static const Constant *find_constant(const Constants *all, const Constant *c)
{
    for (int i = 0; i < all->n; i++)
        if (all->items[i].value == c->value && all->items[i].extent == c->extent &&
            all->items[i].dimension == c->dimension)
            return &all->items[i];
    return NULL;
}

// Two rows of one dimension would be two indices where a fragment has one.
static bool has_other_value(const Constants *all, const Constant *c)
{
    for (int i = 0; i < all->n; i++)
        if (all->items[i].extent == c->extent && all->items[i].dimension == c->dimension) return true;
    return false;
}

static void note_beside(Constants *all, const TileUse *use)
{
    uint32_t seen = 0;
    Constant c;
    for (int d = 0; use->subs && d < use->buffer->rank; d++) {
        const Constant *const found = is_constant(use->buffer, use->subs[d], d, &c) ? find_constant(all, &c) : NULL;
        if (found) seen |= 1u << (found - all->items);
    }
    for (int i = 0; i < all->n; i++)
        if (seen >> i & 1) all->items[i].beside |= seen;
}

static void see_use(const TileUse *use, void *context)
{
    Constants *const all = context;
    Constant c;
    if (use->region) all->too_many |= buffer_root(use->buffer)->kind == BUFFER_FRAGMENT; // slices: as they are
    for (int d = 0; use->subs && d < use->buffer->rank; d++) {
        if (!is_constant(use->buffer, use->subs[d], d, &c) || find_constant(all, &c)) continue;
        all->too_many |= all->n == CONSTANTS_MAX || c.extent > MORE_ITERATIONS_MAX || has_other_value(all, &c);
        if (!all->too_many) all->items[all->n++] = c;
    }
    note_beside(all, use);
}

static void see_block(Constants *all, TileOp *op)
{
    for (; op; op = op->next) {
        tile_uses(op, see_use, all);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) see_block(all, *body);
    }
}

static bool is_subscripted(const Buffer *b, Expr *const *subs, const Constant *by)
{
    Constant c;
    return by->dimension < b->rank && is_constant(b, subs[by->dimension], by->dimension, &c) && c.value == by->value &&
           c.extent == by->extent;
}

typedef struct Reads {
    const Buffer *root;
    bool any;
} Reads;

static void note_read(const TileUse *use, void *context)
{
    Reads *const reads = context;
    reads->any |= use->reads && buffer_root(use->buffer) == reads->root;
}

static bool reads(TileOp *op, Reads *of)
{
    for (; op && !of->any; op = op->next) {
        TileOp **body;
        tile_uses(op, note_read, of);
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) reads(*body, of);
    }
    return of->any;
}

static bool is_held_elsewhere(const Constants *all, TileOp *body, Buffer *b, Expr *const *subs)
{
    if (buffer_root(b)->kind == BUFFER_LOCAL) return false;
    if (buffer_root(b)->kind != BUFFER_FRAGMENT) return reads(body, &(Reads){ .root = buffer_root(b) });
    for (int i = 0; i < all->n; i++)
        if (all->items[i].extent > 1 && !is_subscripted(b, subs, &all->items[i])) return true;
    return false;
}

// Whether the block of the forall's body changes, other than by a reduction, what other threads would hold or read.
static bool changes_others(const Constants *all, TileOp *body, TileOp *op)
{
    for (; op; op = op->next) {
        const bool updates = op->kind == T_UPDATE && op->update.buffer && !op->update.reduces;
        Buffer *const b = op->kind == T_STORE ? op->store.buffer : updates ? op->update.buffer : NULL;
        if (b && is_held_elsewhere(all, body, b, op->kind == T_STORE ? op->store.subs : op->update.subs)) return true;
        if (updates && buffer_root(b)->kind != BUFFER_FRAGMENT && buffer_root(b)->kind != BUFFER_LOCAL) return true;
        TileOp **inner;
        for (int i = 0; (inner = tile_bodies(op, i)) != NULL; i++)
            if (changes_others(all, body, *inner)) return true;
    }
    return false;
}

// Reductions of a forall may keep the new indices or drop them, but not some this and some that: a loop over what one drops
// would run inside the threads that tell the other's results apart.
static void see_reductions(const Constants *all, TileOp *op, bool *keeps, bool *drops)
{
    for (; op; op = op->next) {
        for (int i = 0; i < all->n && op->kind == T_UPDATE && op->update.reduces; i++) {
            Buffer *const b = op->update.buffer;
            if (all->items[i].extent == 1) continue;
            *(b && is_subscripted(b, op->update.subs, &all->items[i]) ? keeps : drops) = true;
        }
        TileOp **inner;
        for (int i = 0; (inner = tile_bodies(op, i)) != NULL; i++) see_reductions(all, *inner, keeps, drops);
    }
}

static bool mixes_reductions(const Constants *all, TileOp *body)
{
    bool keeps = false, drops = false;
    see_reductions(all, body, &keeps, &drops);
    return keeps && drops;
}

// ---- indices in their place

static Expr **indexed(const Constants *all, const Buffer *b, Expr **subs)
{
    Arena *const a = all->kernel->arena;
    Expr **const copy = NEW_ARRAY(a, Expr *, b->rank + 1);
    Constant c;
    for (int d = 0; d < b->rank; d++) {
        const Constant *const found = is_constant(b, subs[d], d, &c) ? find_constant(all, &c) : NULL;
        copy[d] = found ? expr_var(a, found->var) : subs[d];
    }
    return copy;
}

static Expr *index_load(Expr *x, void *context)
{
    const Constants *const all = context;
    if (x->kind != E_LOAD || x->load.buffer->kind != BUFFER_FRAGMENT) return x;
    Expr *const load = expr_load(all->kernel->arena, x->load.buffer, indexed(all, x->load.buffer, x->load.subs));
    load->span = x->span;
    return load;
}

static void index_slot(Expr **slot, void *context)
{
    const Constants *const all = context;
    *slot = expr_map(all->kernel->arena, *slot, index_load, context);
}

static void index_block(Constants *all, TileOp *op)
{
    for (; op; op = op->next) {
        tile_each_expr(op, index_slot, all);
        if (op->kind == T_STORE) op->store.subs = indexed(all, op->store.buffer, op->store.subs);
        if (op->kind == T_UPDATE && op->update.buffer)
            op->update.subs = indexed(all, op->update.buffer, op->update.subs);
        if (op->kind == T_ATOMIC) op->atomic.subs = indexed(all, op->atomic.buffer, op->atomic.subs);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) index_block(all, *body);
    }
}

static LoopIndex new_index(TileKernel *kernel, Constant *c, Span span)
{
    Arena *const a = kernel->arena;
    c->var = tile_new_var(kernel, VAR_INDEX, DTYPE_INT, "at", span);
    c->var->lo = int_const(a, 0);
    c->var->hi = int_const(a, c->extent - 1);
    return (LoopIndex){ c->var, int_const(a, 0), int_const(a, c->extent) };
}

// An earlier one whose index it shares.
static const Constant *twin_of(const Constants *all, int i)
{
    for (int j = 0; j < i; j++)
        if (all->items[i].extent > 1 && all->items[j].value == all->items[i].value &&
            all->items[j].extent == all->items[i].extent && !(all->items[j].beside >> i & 1))
            return &all->items[j];
    return NULL;
}

static Expr *condition(const Constants *all)
{
    Arena *const a = all->kernel->arena;
    Expr *cond = expr_bool(a, true);
    for (int i = 0; i < all->n; i++) {
        if (all->items[i].extent == 1 || twin_of(all, i)) continue;
        Expr *const one = expr_binary(a, X_EQ, expr_var(a, all->items[i].var), int_const(a, all->items[i].value));
        cond = expr_binary(a, X_AND, cond, one);
    }
    return cond;
}

static void index_forall(TileKernel *kernel, TileOp *op)
{
    int64_t always;
    int n = 0;
    Constants all = { .kernel = kernel };
    see_block(&all, op->forall.body);
    TileOp *const body = op->forall.body;
    if (all.too_many || all.n == 0 || op->forall.n + all.n > MAX_RANK || changes_others(&all, body, body) ||
        mixes_reductions(&all, body))
        return;
    LoopIndex *const indices = NEW_ARRAY(kernel->arena, LoopIndex, op->forall.n + all.n + 1);
    for (int i = 0; i < all.n; i++) {
        const Constant *const twin = twin_of(&all, i);
        if (twin) all.items[i].var = twin->var;
        else indices[n++] = new_index(kernel, &all.items[i], op->span);
    }
    for (int i = 0; i < op->forall.n; i++) indices[n + i] = op->forall.indices[i];
    op->forall.indices = indices;
    op->forall.n += n;
    index_block(&all, op->forall.body);
    Expr *const cond = condition(&all);
    if (expr_as_int(cond, &always)) return;
    op->forall.body =
        NEW(kernel->arena, TileOp, .kind = T_IF, .span = op->span, .branch = { cond, op->forall.body, NULL });
}

// An element's store outside of foralls is one of a forall without indices; it gets them.
static bool stores_element(const TileOp *op)
{
    const Buffer *const b = op->kind == T_STORE ? op->store.buffer : op->kind == T_UPDATE ? op->update.buffer : NULL;
    Expr *const *const subs = op->kind == T_STORE ? op->store.subs : op->update.subs;
    Constant c;
    if (!b || b->kind != BUFFER_FRAGMENT || b->rank == 0) return false;
    if (!expr_is_pure(op->kind == T_STORE ? op->store.value : op->update.value)) return false;
    for (int d = 0; d < b->rank; d++)
        if (!is_constant(b, subs[d], d, &c) || c.extent > MORE_ITERATIONS_MAX) return false;
    return true;
}

static void index_in(TileKernel *kernel, TileOp **link)
{
    for (TileOp *op; (op = *link) != NULL; link = &op->next) {
        TileOp **body;
        if (stores_element(op)) {
            TileOp *const store = NEW(kernel->arena, TileOp, .kind = op->kind);
            *store = *op;
            store->next = NULL;
            store->stage = 0;
            store->groups = 0;
            op->kind = T_FORALL;
            op->forall.n = 0;
            op->forall.indices = NULL;
            op->forall.body = store;
            index_forall(kernel, op);
            if (op->forall.n == 0) { // too many: as it was
                op->kind = store->kind;
                if (store->kind == T_STORE) op->store = store->store;
                else op->update = store->update;
            }
        } else if (op->kind == T_FORALL) {
            index_forall(kernel, op);
        } else {
            for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) index_in(kernel, body);
        }
    }
}

void index_constants(TileKernel *kernel)
{
    if (!kernel->checked) index_in(kernel, &kernel->body);
}
