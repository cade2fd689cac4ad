// SPDX-License-Identifier: MIT
// record.c - what each operation of a walk is as an action of the schedule.
//
// The printing of these operations still stands in the walks; what is recorded here says the same in the schedule's
// terms.
//
// before: a role is open        after: the action stands at the end of the innermost open one
#include "lower/cuda/actions.h"

Action *record(Lowering *lo, Action action) { return schedule_add(&lo->builder, action); }
void record_open(Lowering *lo, Action action) { schedule_open(&lo->builder, action); }
void record_otherwise(Lowering *lo) { schedule_otherwise(&lo->builder); }
void record_close(Lowering *lo) { schedule_close(&lo->builder); }

void record_scope(Lowering *lo, ScopeKind kind, const TileOp *source)
{
    record_open(lo, (Action){ .kind = ACTION_SCOPE, .scope = { .kind = kind, .source = source } });
}

void record_loop(Lowering *lo, LoopPart part, const TileOp *source)
{
    record_open(lo, (Action){ .kind = ACTION_LOOP, .op = source, .loop = { .part = part, .source = source } });
}

void record_tile(Lowering *lo, ActionKind kind, const TileInfo *tile)
{
    record(lo, (Action){ .kind = kind, .registers = { .tile = tile->number } });
}

void record_ring(Lowering *lo, ActionKind kind, const Ring *ring, int arrivals)
{
    (void)lo;
    record(lo, (Action){ .kind = kind, .ring = { .ring = ring->index, .arrivals = arrivals } });
}

// ---- accesses

typedef struct Listing {
    Lowering *lo;
    Action *action;
    const TileOp *op; // whose accesses they are
} Listing;

static TileAccess *find_access(const Listing *listing, const TileInfo *tile)
{
    for (int i = 0; i < listing->action->n_accesses; i++)
        if (listing->action->accesses[i].tile == tile->number) return &listing->action->accesses[i];
    return NULL;
}

static void list_access(const Listing *listing, const TileInfo *tile, bool reads, bool writes, bool is_async)
{
    TileAccess *const known = find_access(listing, tile);
    if (known) {
        known->reads |= reads;
        known->writes |= writes;
        known->is_async |= is_async;
        return;
    }
    schedule_access(listing->lo->builder.schedule, listing->action,
                    (TileAccess){ .tile = tile->number, .reads = reads, .writes = writes, .is_async = is_async });
}

static void list_use(const TileUse *use, void *context)
{
    const Listing *const listing = context;
    const TileInfo *const tile = tile_info(listing->lo, buffer_root(use->buffer));
    const TileOp *const op = listing->op;
    if (!tile) return;
    const bool adds =
        use->atomic && op->kind == T_ATOMIC && op->atomic.op == ATOMIC_ADD && use->subs == op->atomic.subs;
    TileAccess *const known = find_access(listing, tile);
    const bool adds_only = adds && (!known || known->is_addition);
    list_access(listing, tile, use->reads || adds, use->writes || use->atomic, false);
    find_access(listing, tile)->is_addition = adds_only;
}

static bool list_op(Lowering *lo, TileOp *op, void *context)
{
    (void)lo;
    ((Listing *)context)->op = op;
    if (op->kind != T_TILE) tile_uses(op, list_use, context);
    return false;
}

// All tiles that threads read or write in the op and what is inside it.
void record_accesses(Lowering *lo, Action *action, TileOp *op)
{
    Listing listing = { lo, action, op };
    visit_op(lo, op, list_op, &listing);
}

// ---- operations

static const char *instruction_name(Lowering *lo, const Product *p)
{
    const char *const type = dtype_name(p->type);
    if (p->kind == PRODUCT_WGMMA)
        return arena_printf(lo->arena, "m64n%dk%d %s", p->n_group < 256 ? p->n_group : 256, p->step_k, type);
    if (p->kind == PRODUCT_MMA) return arena_printf(lo->arena, "m16n8k%d %s", p->step_k, type);
    return arena_printf(lo->arena, p->kind == PRODUCT_FMA ? "multiply-adds %s" : "loops %s", type);
}

static void list_operand(const Listing *listing, const Operand *operand, bool is_async)
{
    const TileInfo *const tile = tile_info(listing->lo, buffer_root(operand->region.buffer));
    if (tile) list_access(listing, tile, true, false, is_async && (tile->storage == TILE_IN_SHARED || tile->is_packed));
}

static void record_product(Lowering *lo, TileOp *op)
{
    const Product *const p = op_info(lo, op)->product;
    const TileInfo *const acc = tile_info(lo, op->matmul.dst.buffer);
    const bool is_async = p->kind == PRODUCT_WGMMA && !op->matmul.promote;
    Action *const action = record(lo, (Action){ .kind = ACTION_MMA,
                                                .op = op,
                                                .mma = { .instruction = instruction_name(lo, p),
                                                         .count = 1,
                                                         .is_async = is_async,
                                                         .accumulator = acc ? acc->number : NO_TILE } });
    if (p->kind != PRODUCT_WGMMA) {
        record_accesses(lo, action, op);
        return;
    }
    const Listing listing = { lo, action, op };
    if (acc) list_access(&listing, acc, op->matmul.accumulate, true, false);
    if (!p->preloaded) list_operand(&listing, &p->left, true);
    list_operand(&listing, &p->right, true);
}

static StoreKind store_kind(Lowering *lo, TileOp *op)
{
    if (!store_is_staged(lo, op)) return op->kind == T_ATOMIC_TILE ? STORE_ATOMIC : STORE_THREADS;
    if (store_is_transposed(lo, op)) return STORE_TRANSPOSED;
    return op->kind == T_ATOMIC_TILE ? STORE_REDUCE : STORE_STAGED;
}

static Action map_action(Lowering *lo, TileOp *op)
{
    const bool to_tensor =
        (op->kind == T_COPY || op->kind == T_ATOMIC_TILE) && buffer_root(op->copy.dst.buffer)->kind == BUFFER_TENSOR;
    if (to_tensor) return (Action){ .kind = ACTION_STORE, .store = { .how = store_kind(lo, op) } };
    const bool from_tensor = op->kind == T_COPY && buffer_root(op->copy.src.buffer)->kind == BUFFER_TENSOR;
    if (from_tensor) return (Action){ .kind = ACTION_COPY, .copy = { .how = COPY_THREADS, .ring = NO_RING } };
    return (Action){ .kind = ACTION_MAP };
}

static void record_leaf(Lowering *lo, TileOp *op, Action action)
{
    action.op = op;
    record_accesses(lo, record(lo, action), op);
}

void record_op(Lowering *lo, TileOp *op)
{
    switch (op->kind) {
    case T_LET:
    case T_SET:
    case T_UPDATE:
    case T_STORE:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: record_leaf(lo, op, (Action){ .kind = ACTION_SCALAR }); return;
    case T_ATOMIC: record_leaf(lo, op, (Action){ .kind = ACTION_ATOMIC }); return;
    case T_FORALL:
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE: record_leaf(lo, op, map_action(lo, op)); return;
    case T_SCAN: record_leaf(lo, op, (Action){ .kind = ACTION_SCAN }); return;
    case T_MATMUL: record_product(lo, op); return;
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN: record(lo, (Action){ .kind = ACTION_JUMP, .op = op, .jump = { op->kind } }); return;
    case T_TILE:
    case T_FOR:
    case T_WHILE:
    case T_PIPELINE:
    case T_IF: return; // the walk opens them
    }
}
