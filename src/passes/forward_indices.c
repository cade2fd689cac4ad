// SPDX-License-Identifier: MIT
// forward_indices.c - addresses that arithmetic makes are worked out where rows are fetched.
//
// A gather by index arithmetic may take its rows from tiles: img[i] = p / OW / OH; ... a[i][:] = X[img[i]][..]. Such a
// tile holds nothing that memory does, so its elements can be computed again wherever rows of a tensor are copied to
// shared memory. Only then can a lowering see which rows they are, and fetch them before the threads need them.
//
// before: simplified    after: foralls that copy from tensors into shared tiles take the values of integer tiles which one
//                       forall has filled from indices, arguments and constants; what nobody reads any more is gone
// never:  forwards what was loaded, what is placed on groups of warps, or a value that may have changed since
#include "passes/passes.h"

enum {
    NODES_MAX = 64, // of a value: it is computed anew in each place
    LETS_MAX = 32   // that a value may be made with
};

typedef struct Forward {
    TileKernel *kernel;
    const Buffer *tile;
    const TileOp *made; // the forall that fills the tile
    Expr *const *subs;  // its store's, an index each
    Expr *value;
    bool uses, fetches, changed; // while looking at a forall
} Forward;

// ---- what a tile holds

typedef struct Count {
    const Buffer *root;
    int n;
} Count;

static void count_use(const TileUse *use, void *context)
{
    Count *const count = context;
    if (buffer_root(use->buffer) == count->root && (use->writes || use->atomic)) count->n++;
}

static int count_writes(TileOp *op, Count *count)
{
    for (; op; op = op->next) {
        if (op->kind != T_TILE) tile_uses(op, count_use, count);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) count_writes(*body, count);
    }
    return count->n;
}

static bool may_change(const Expr *x, void *context)
{
    (void)context;
    return x->kind == E_LOAD || x->kind == E_ATOMIC || x->kind == E_CALL || (x->kind == E_VAR && x->var.var->assigned);
}

typedef struct Lets {
    const TileOp *list[LETS_MAX];
    int n;
} Lets;

// Those before the store, in its block and in the blocks around it.
static bool find_lets(const TileOp *block, const TileOp *store, Lets *lets)
{
    for (const TileOp *op = block; op; op = op->next) {
        if (op == store) return true;
        if (op->kind == T_LET && lets->n < LETS_MAX) lets->list[lets->n++] = op;
        const int outside = lets->n;
        if (op->kind == T_IF && find_lets(op->branch.then, store, lets)) return true;
        lets->n = outside;
    }
    return false;
}

// The forall's own scalars are not known elsewhere.
static Expr *without_scalars(TileKernel *k, const TileOp *body, const TileOp *store)
{
    Expr *value = store->store.value;
    Lets lets = { .n = 0 };
    if (!find_lets(body, store, &lets) || lets.n == LETS_MAX) return NULL;
    for (int i = lets.n - 1; i >= 0; i--) {
        const TileOp *const op = lets.list[i];
        if (!expr_uses(value, op->let.var)) continue;
        if (!op->let.value || op->let.var->assigned) return NULL;
        value = expr_replace(k->arena, value, op->let.var, op->let.value);
        if (expr_larger(value, NODES_MAX)) return NULL;
    }
    return expr_larger(value, NODES_MAX) ? NULL : value;
}

static bool is_all_of_dimension(const LoopIndex *index, const Expr *sub, const Expr *extent)
{
    return sub->kind == E_VAR && sub->var.var == index->var && expr_is_int(index->lo, 0) &&
           expr_equal(index->hi, extent);
}

// The store into the tile of a block of stores and scalars, some of them under conditions; NULL: there is none, or more than
// that before it. What else an arm holds that does not store to the tile does not matter: the tile is written in one place.
static const TileOp *find_in_block(const TileOp *block, const Buffer *tile)
{
    const TileOp *found = NULL;
    for (const TileOp *op = block; op; op = op->next) {
        const bool is_branch = op->kind == T_IF && !op->branch.otherwise;
        if (op->kind != T_LET && op->kind != T_STORE && !is_branch) return NULL;
        if (op->kind == T_STORE && op->store.buffer == tile) found = op;
        const TileOp *const inside = is_branch ? find_in_block(op->branch.then, tile) : NULL;
        found = inside ? inside : found;
    }
    return found;
}

// The store by which this forall fills all of the tile. Elements are undefined for which its condition does not hold.
static const TileOp *find_store(const TileOp *forall, const Buffer *tile)
{
    if (forall->groups || forall->forall.n != tile->rank) return NULL;
    const TileOp *const found = find_in_block(forall->forall.body, tile);
    for (int d = 0; found && d < tile->rank; d++)
        if (!is_all_of_dimension(&forall->forall.indices[d], found->store.subs[d], tile->shape[d])) return NULL;
    return found;
}

static bool find_value(Forward *f, TileOp *declared)
{
    TileKernel *const k = f->kernel;
    f->tile = declared->tile.buffer;
    if (!buffer_is_tile(f->tile) || f->tile->type != DTYPE_INT || f->tile->rank < 1) return false;
    Count count = { f->tile, 0 };
    if (count_writes(k->body, &count) != 1) return false;
    for (TileOp *op = declared->next; op; op = op->next) {
        const TileOp *const store = op->kind == T_FORALL ? find_store(op, f->tile) : NULL;
        if (!store) continue;
        f->made = op;
        f->subs = store->store.subs;
        f->value = without_scalars(k, op->forall.body, store);
        return f->value && !expr_any(f->value, may_change, NULL);
    }
    return false;
}

// ---- where rows are fetched

static bool reads_tile(const Expr *x, void *context)
{
    const Forward *const f = context;
    return x->kind == E_LOAD && x->load.buffer == f->tile;
}

static bool loads_by_tile(const Expr *x, void *context)
{
    if (x->kind != E_LOAD || x->load.buffer->kind != BUFFER_TENSOR) return false;
    for (int d = 0; d < x->load.buffer->rank; d++)
        if (expr_any(x->load.subs[d], reads_tile, context)) return true;
    return false;
}

static void see_slot(Expr **slot, void *context)
{
    Forward *const f = context;
    f->uses |= expr_any(*slot, reads_tile, f);
}

static void see_fetch(Forward *f, TileOp *op)
{
    if (op->kind == T_LET) tile_each_expr(op, see_slot, f);
    if (op->kind == T_STORE && op->store.buffer->kind == BUFFER_SHARED)
        f->fetches |= expr_any(op->store.value, loads_by_tile, f) || (f->uses && expr_loads(op->store.value));
    if (op->kind == T_COPY && op->copy.dst.buffer->kind == BUFFER_SHARED && op->copy.src.buffer->kind == BUFFER_TENSOR)
        f->fetches = true;
}

static Expr *replace_element(Expr *x, void *context)
{
    const Forward *const f = context;
    if (!reads_tile(x, context)) return x;
    Expr *value = f->value;
    for (int d = 0; d < f->tile->rank; d++)
        value = expr_replace(f->kernel->arena, value, f->subs[d]->var.var, x->load.subs[d]);
    return value;
}

static void replace_slot(Expr **slot, void *context)
{
    Forward *const f = context;
    if (!expr_any(*slot, reads_tile, f)) return;
    *slot = expr_map(f->kernel->arena, *slot, replace_element, f);
    f->changed = true;
}

static void forward_block(Forward *f, TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->kind != T_FORALL) {
            for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) forward_block(f, *body);
            continue;
        }
        f->uses = f->fetches = false;
        for (TileOp *inner = op->forall.body; inner; inner = inner->next) see_fetch(f, inner);
        if (!f->fetches || op->groups) continue;
        for (TileOp *inner = op->forall.body; inner; inner = inner->next) tile_each_expr(inner, replace_slot, f);
    }
}

static bool forward_all(TileKernel *kernel, TileOp *block)
{
    bool changed = false;
    for (TileOp *op = block; op; op = op->next) {
        TileOp **body;
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++)
            changed |= forward_all(kernel, *body);
        Forward f = { .kernel = kernel };
        if (op->kind != T_TILE || !find_value(&f, op)) continue;
        forward_block(&f, f.made->next);
        changed |= f.changed;
    }
    return changed;
}

void forward_indices(TileKernel *kernel)
{
    if (!kernel->checked && forward_all(kernel, kernel->body)) simplify(kernel);
}
