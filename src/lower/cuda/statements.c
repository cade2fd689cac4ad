// statements.c - the consumers' code: a walk over the tree.
//
// They run every statement but the fetched copies; before the first use of a channel's tiles they wait for its full
// barrier, after the last they release it. The rings advance at the end of every pass through the block that declares
// their tiles, here and in the producer's walk (producer.c).
#include "lower/cuda/cuda.h"

// ---- barriers

static void meet_all(Lowering *lo)
{
    wait_for_copies(lo);
    if (lo->needs_fence)
        emit_call(lo, "fence_async", 0);
    if (lo->has_producer || lo->has_teams)                 // walks of groups are apart: not one __syncthreads
        emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_CONSUMERS), i32_const(lo, all_threads(lo)));
    else
        emit_call(lo, "__syncthreads", 0);
}

// Of the threads that share the statement at hand.
void emit_barrier(Lowering *lo)
{
    if (!lo->has_teams || lo->crew.groups > 1) {
        meet_all(lo);
        return;
    }
    wait_for_copies(lo);
    if (lo->needs_fence)
        emit_call(lo, "fence_async", 0);
    emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_TEAMS + lo->walk), i32_const(lo, consumer_threads(lo)));
}

static bool is_mine(Lowering *lo, TileOp *op)
{
    return !lo->has_teams || op_groups(lo, op) >> lo->walk & 1;
}

static Expr *barrier_at(Lowering *lo, int offset, Expr *slot)
{
    Expr *address = expr_binary(lo->arena, X_ADD, call_expr(lo, DTYPE_U32, "shared_base", 0), expr_int(lo->arena, DTYPE_U32, offset));
    if (slot)
        address = expr_binary(lo->arena, X_ADD, address, expr_binary(lo->arena, X_MUL, slot, expr_int(lo->arena, DTYPE_U32, MBARRIER_BYTES)));
    return address;
}

static Expr *slot_of(Lowering *lo, const Clock *clock)
{
    return clock->buffers > 1 ? var_of(lo, clock->slot) : NULL;
}

Expr *full_barrier(Lowering *lo, const Channel *channel)
{
    return barrier_at(lo, channel->full, slot_of(lo, channel->clock));
}

Expr *empty_barrier(Lowering *lo, const Channel *channel)
{
    return barrier_at(lo, channel->empty, slot_of(lo, channel->clock));
}

static TileOp *first_use(const Lowering *lo, const Channel *channel)
{
    return lo->has_teams ? channel->first_of[lo->walk] : channel->first_use;
}

static TileOp *last_use(const Lowering *lo, const Channel *channel)
{
    return lo->has_teams ? channel->last_of[lo->walk] : channel->last_use;
}

static void emit_release_at(Lowering *lo, const Channel *channel, Expr *slot)
{
    Nest nest;
    if (channel->is_shared) {     // every instance of the cluster writes into all
        begin_if(lo, &nest, expr_binary(lo->arena, X_LT, var_of(lo, lo->lane), i32_const(lo, lo->cluster)));
        emit_call(lo, "mbar_arrive_at", 2, barrier_at(lo, channel->empty, slot), var_of(lo, lo->lane));
    } else {
        begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, lo->lane), i32_const(lo, 0)));
        emit_call(lo, "mbar_arrive", 1, barrier_at(lo, channel->empty, slot));
    }
    end_nest(lo, &nest);
}

void emit_release(Lowering *lo, Channel *channel)
{
    // The other lanes of the warp must be done, too, if they read by ordinary loads; and have seen the buffer full, where
    // the products that would hold them together stand in a loop or under a condition.
    if (!channel->is_product_only || last_use(lo, channel)->kind != T_MATMUL)
        emit_call(lo, "__syncwarp", 0);
    emit_release_at(lo, channel, slot_of(lo, channel->clock));
}

void point_tiles(Lowering *lo, const Channel *channel)
{
    for (int t = 0; t < channel->n_tiles; t++) {
        const TileInfo *const tile = channel->tiles[t];
        Expr *offset = i32_const(lo, tile->offset);
        if (tile->buffers > 1)
            offset = i32_add(lo, offset, call_expr(lo, DTYPE_I32, "(int32_t)", 1, expr_binary(lo->arena, X_MUL,
                             var_of(lo, channel->clock->slot), expr_int(lo->arena, DTYPE_U32, tile->shared.bytes))));
        emit_assign(lo, tile->pointer, call_expr(lo, tile->pointer->type,
                    arena_printf(lo->arena, "shared_pointer<%s>", dtype_info[tile->pointer->type].c_name), 1, offset));
    }
}

// The tile's other buffer, as this pass through its block begins to fill it.
static void turn_side(Lowering *lo, const TileInfo *tile)
{
    if (!tile->alternates)
        return;
    emit_assign(lo, tile->side, expr_binary(lo->arena, X_BITXOR, var_of(lo, tile->side), i32_const(lo, tile->shared.bytes)));
    emit_assign(lo, tile->pointer, call_expr(lo, tile->pointer->type, arena_printf(lo->arena, "shared_pointer<%s>",
                dtype_info[tile->pointer->type].c_name), 1, i32_add(lo, i32_const(lo, tile->offset), var_of(lo, tile->side))));
}

void advance_clocks(Lowering *lo, TileOp *block, int stage)
{
    for (int i = 0; i < lo->clocks.count; i++) {
        Clock *const clock = lo->clocks.items[i];
        if (clock->block != block || (stage >= 0 && clock->stage != stage))
            continue;
        Expr *const flipped = expr_binary(lo->arena, X_BITXOR, var_of(lo, clock->phase), expr_int(lo->arena, DTYPE_U32, 1));
        if (clock->buffers == 1) {
            emit_assign(lo, clock->phase, flipped);
            continue;
        }
        emit_assign(lo, clock->slot, expr_binary(lo->arena, X_ADD, var_of(lo, clock->slot), expr_int(lo->arena, DTYPE_U32, 1)));
        Nest nest;
        begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, clock->slot), expr_int(lo->arena, DTYPE_U32, clock->buffers)));
        emit_assign(lo, clock->slot, expr_int(lo->arena, DTYPE_U32, 0));
        emit_assign(lo, clock->phase, flipped);
        end_nest(lo, &nest);
    }
}

// ---- what an op touches, with all that is inside it

typedef struct Touch { Lowering *lo; bool has_product, leaves; TileInfo *tiles[64]; bool written[64]; int n; } Touch;

static void touch_use(const TileUse *use, void *context)
{
    Touch *const touch = context;
    TileInfo *const tile = tile_info(touch->lo, buffer_root(use->buffer));
    if (tile && touch->n < COUNT(touch->tiles)) {
        touch->tiles[touch->n] = tile;
        touch->written[touch->n++] = use->writes || use->atomic;
    }
}

static bool touch_op(Lowering *lo, TileOp *op, void *context)
{
    Touch *const touch = context;
    const OpInfo *const info = op_info(lo, op);
    if (info->fetched || !is_mine(lo, op))
        return true;
    touch->leaves |= op->kind == T_BREAK || op->kind == T_RETURN;
    touch->has_product |= op->kind == T_MATMUL && info->product->kind == PRODUCT_WGMMA;
    tile_uses(op, touch_use, touch);
    return false;
}

static void touches_of(Lowering *lo, TileOp *op, Touch *touch)
{
    *touch = (Touch){ .lo = lo };
    TileOp *const next = op->next;
    op->next = NULL;
    each_op(lo, op, touch_op, touch);
    op->next = next;
}

bool is_flow(const TileOp *op)
{
    return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE || op->kind == T_IF;
}

// Products in flight that this op must not overtake.
static void wait_for_op(Lowering *lo, TileOp *op)
{
    if (!lo->flights.count)
        return;
    Touch touch;
    touches_of(lo, op, &touch);
    if (is_flow(op) && (touch.has_product || touch.leaves)) {
        wait_for_all(lo);
        return;
    }
    const OpInfo *const info = op_info(lo, op);
    const bool is_wgmma = op->kind == T_MATMUL && info->product->kind == PRODUCT_WGMMA;
    const TileInfo *const acc = is_wgmma ? tile_info(lo, op->matmul.dst.buffer) : NULL;
    for (int i = 0; i < touch.n; i++)
        if (touch.tiles[i] != acc)   // products into one accumulator follow each other in order
            wait_for_tile(lo, touch.tiles[i], touch.written[i]);
}

// ---- the consumers

static void emit_block(Lowering *lo, TileOp *block, TileOp *owner_block, TileOp *end);

static Expr *narrow_to_i32(Lowering *lo, Expr *x)
{
    return x->type == DTYPE_I32 ? x : call_expr(lo, DTYPE_I32, "(int32_t)", 1, x);
}

void declare_value(Lowering *lo, TileOp *op)
{
    Var *const var = loop_var(lo, op->let.var);
    Expr *const value = !op->let.value ? NULL : var->type == DTYPE_I32 && op->let.var->type == DTYPE_INT
                      ? narrow_to_i32(lo, lower_expr(lo, op->let.value, NULL)) : lower_as(lo, op->let.var->type, op->let.value, NULL);
    if (lo->is_hoisting) {           // its variable is declared before the loop
        if (value)
            emit_assign(lo, var, value);
        return;
    }
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
}

// One thread's store, seen by all after the next barrier.
static void emit_by_one(Lowering *lo, TileOp *op)
{
    Iteration none = { .layout = layout_new(0, NULL), .vector = -1 };
    Nest nest;
    begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, lo->thread), i32_const(lo, 0)));
    TileOp *const next = op->next;
    op->next = NULL;
    emit_thread_block(lo, op, &none);
    op->next = next;
    end_nest(lo, &nest);
}

// An atomic whose result every thread needs: one thread makes it and hands it out.
static bool holds_atomic(const Expr *x, void *context) { return x->kind == E_ATOMIC; }

static void emit_shared_atomic(Lowering *lo, TileOp *op)
{
    Var *const var = loop_var(lo, op->let.var);
    if (op->kind == T_LET && !lo->is_hoisting)
        loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var } });
    Var *const cell = loop_new_pointer(lo->unit, var->type, "cell");
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = cell, .value = call_expr(lo, var->type,
             arena_printf(lo->arena, "shared_pointer<%s>", dtype_info[var->type].c_name), 1, i32_const(lo, lo->scratch_offset)) } });
    finish_staged_stores(lo);
    meet_all(lo);                    // everything before it is done
    Nest nest;
    if (!lo->has_teams || lo->walk == 0) {
        begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, lo->thread), i32_const(lo, 0)));
        emit_call(lo, "fence_device", 0);
        loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { cell, i32_const(lo, 0), lower_as(lo, op->let.var->type, op->let.value, NULL) } });
        emit_call(lo, "fence_device", 0);
        end_nest(lo, &nest);
    }
    meet_all(lo);
    emit_assign(lo, var, expr_index(lo->arena, cell, i32_const(lo, 0)));
    meet_all(lo);
}

static void emit_ordered_atomic(Lowering *lo, TileOp *op)
{
    finish_staged_stores(lo);
    meet_all(lo);
    Iteration none = { .layout = layout_new(0, NULL), .vector = -1 };
    if (!lo->has_teams || lo->walk == 0) {
        Nest nest;
        begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, lo->thread), i32_const(lo, 0)));
        emit_call(lo, "fence_device", 0);
        TileOp *const next = op->next;
        op->next = NULL;
        emit_thread_block(lo, op, &none);
        op->next = next;
        emit_call(lo, "fence_device", 0);
        end_nest(lo, &nest);
    }
    meet_all(lo);
}

void loop_bounds(Lowering *lo, Var *var, Expr *from, Expr *to, Expr **lowered_from, Expr **lowered_to)
{
    const bool wide = loop_var(lo, var)->type == DTYPE_I64;
    *lowered_from = wide ? lower_int64(lo, from, NULL) : lower_expr(lo, from, NULL);
    *lowered_to = wide ? lower_int64(lo, to, NULL) : lower_expr(lo, to, NULL);
}

void begin_index_loops(Lowering *lo, const LoopIndex *indices, int n, Nest *nests)
{
    for (int i = 0; i < n; i++) {
        Expr *from, *to;
        loop_bounds(lo, indices[i].var, indices[i].lo, indices[i].hi, &from, &to);
        Var *const var = loop_var(lo, indices[i].var);
        begin_for(lo, &nests[i], var, from, to, expr_int(lo->arena, var->type, 1), LOOP_NO_UNROLL);
    }
}

void emit_body(Lowering *lo, TileOp *body)
{
    emit_block(lo, body, body, NULL);
    wait_for_all(lo);
    advance_clocks(lo, body, -1);
}

// A loop of nothing but accumulating products: they stay in flight over the back edge, and what one step read is
// released when the next has been issued.
bool is_product_loop(Lowering *lo, TileOp *op, int *n_products)
{
    *n_products = 0;
    if (lo->has_teams)
        return false;
    // In a loop whose end depends on what it computes ptxas serialises products that are in flight from step to step.
    for (const TileOp *parent = op_info(lo, op)->parent; parent; parent = op_info(lo, parent)->parent)
        if (parent->kind == T_WHILE)
            return false;
    const Clock *clock = NULL;
    for (int i = 0; i < lo->clocks.count; i++)
        if (lo->clocks.items[i]->block == op->pipeline.body)
            clock = lo->clocks.items[i];
    if (!clock || clock->buffers < 2)
        return false;
    for (TileOp *x = op->pipeline.body; x; x = x->next) {
        const OpInfo *const info = op_info(lo, x);
        if (info->fetched || x->kind == T_TILE || x->kind == T_LET)
            continue;
        if (x->kind != T_MATMUL || info->product->kind != PRODUCT_WGMMA || info->product->a_in_registers || info->barrier_before ||
            !x->matmul.accumulate || x->matmul.promote || x->matmul.meta ||          // its places are in registers
            is_parted(lo, x))
            return false;
        (*n_products)++;
    }
    return *n_products > 0;
}

// A tile of zeros before a loop of products: the first step overwrites it, and the zeros are only made where the loop has
// no step. Filling the registers takes time in which no product is under way.
static bool starts_in_loop(Lowering *lo, const TileOp *fill)
{
    const Buffer *const tile = fill->fill.dst.buffer;
    TileOp *loop = fill->next;
    while (loop && (loop->kind == T_TILE || (loop->kind == T_FILL && loop->fill.dst.buffer != tile)))
        loop = loop->next;
    const DType type = fill->fill.value->type;
    Expr *const zero = dtype_is_float(type) ? expr_float(lo->arena, type, 0) : expr_int(lo->arena, type, 0);
    int n_products;
    if (!expr_equal(fill->fill.value, zero) || !region_is_whole(&fill->fill.dst) || !loop || loop->kind != T_PIPELINE ||
        !is_product_loop(lo, loop, &n_products))
        return false;
    Product *only = NULL;
    for (TileOp *x = loop->pipeline.body; x; x = x->next)
        if (x->kind == T_MATMUL && x->matmul.dst.buffer == tile) {
            if (only)
                return false;
            only = op_info(lo, x)->product;
        }
    if (only)
        only->starts_tile = true;
    return only;
}

// In front of the loop: the first step is the one that no buffer is held from.
static void note_first_step(Lowering *lo, TileOp *body, Var *held)
{
    for (TileOp *x = body; x; x = x->next)
        if (x->kind == T_MATMUL && op_info(lo, x)->product->starts_tile)
            op_info(lo, x)->product->adds = expr_binary(lo->arena, X_GE, var_of(lo, held), i32_const(lo, 0));
}

// Behind the loop, as the other branch of the release of what is held: without a step there is nothing to release.
static void clear_unstarted(Lowering *lo, TileOp *body, Nest *released)
{
    bool any = false;
    for (TileOp *x = body; x; x = x->next) {
        if (x->kind != T_MATMUL || !op_info(lo, x)->product->starts_tile)
            continue;
        if (!any)
            begin_else(lo, released);
        any = true;
        const TileInfo *const tile = tile_info(lo, x->matmul.dst.buffer);
        emit_call(lo, arena_printf(lo->arena, "clear<%d>", layout_registers(&tile->layout)), 1, var_of(lo, tile->registers));
    }
}

static void emit_product_loop(Lowering *lo, TileOp *op, int n_products)
{
    TileOp *const body = op->pipeline.body;
    wait_for_all(lo);
    Clock *clock = NULL;
    for (int i = 0; i < lo->clocks.count; i++)
        if (lo->clocks.items[i]->block == body)
            clock = lo->clocks.items[i];
    Var *const held = emit_declare(lo, DTYPE_I32, "held", i32_const(lo, -1));
    note_first_step(lo, body, held);
    Nest nests[8], released;
    begin_index_loops(lo, op->pipeline.indices, op->pipeline.n, nests);
    emit_block(lo, body, body, NULL);
    const TileInfo *accumulators[8];
    int n = 0;
    for (int i = 0; i < lo->flights.count && n < 8; i++)
        accumulators[n++] = lo->flights.items[i].accumulator;
    lo->flights.count = 0;           // in flight: waited for here and after the loop
    emit_call(lo, "wgmma_wait", 1, i32_const(lo, n_products));
    begin_if(lo, &released, expr_binary(lo->arena, X_GE, var_of(lo, held), i32_const(lo, 0)));
    for (int i = 0; i < lo->channels.count; i++)
        if (lo->channels.items[i]->clock == clock)
            emit_release_at(lo, lo->channels.items[i], call_expr(lo, DTYPE_U32, "(uint32_t)", 1, var_of(lo, held)));
    end_nest(lo, &released);
    emit_assign(lo, held, call_expr(lo, DTYPE_I32, "(int32_t)", 1, var_of(lo, clock->slot)));
    advance_clocks(lo, body, -1);
    for (int i = op->pipeline.n - 1; i >= 0; i--)
        end_nest(lo, &nests[i]);
    emit_call(lo, "wgmma_wait", 1, i32_const(lo, 0));
    for (int i = 0; i < n; i++)
        emit_call(lo, arena_printf(lo->arena, "settle<%d>", layout_registers(&accumulators[i]->layout)), 1, var_of(lo, accumulators[i]->registers));
    begin_if(lo, &released, expr_binary(lo->arena, X_GE, var_of(lo, held), i32_const(lo, 0)));
    for (int i = 0; i < lo->channels.count; i++)
        if (lo->channels.items[i]->clock == clock)
            emit_release_at(lo, lo->channels.items[i], call_expr(lo, DTYPE_U32, "(uint32_t)", 1, var_of(lo, held)));
    clear_unstarted(lo, body, &released);
    end_nest(lo, &released);
}

static void emit_steps(Lowering *lo, TileOp *op)
{
    if (can_rotate(lo, op)) {
        emit_rotated(lo, op);
        return;
    }
    if (op_info(lo, op)->ahead) {
        emit_ahead(lo, op);
        return;
    }
    Nest nests[8];
    begin_index_loops(lo, op->pipeline.indices, op->pipeline.n, nests);
    emit_body(lo, op->pipeline.body);
    for (int i = op->pipeline.n - 1; i >= 0; i--)
        end_nest(lo, &nests[i]);
}

// What stands behind a pipeline full of products gets thread numbers of its own: what is computed from them would else be
// computed before the pipeline, and held, or spilled, through all of it.
static void refresh_threads(Lowering *lo)
{
    Var **const numbers[] = { &lo->lane, &lo->warp, &lo->thread };
    for (int i = 0; i < COUNT(numbers); i++)
        *numbers[i] = emit_declare(lo, DTYPE_I32, (*numbers[i])->name, call_expr(lo, DTYPE_I32, "again", 1, var_of(lo, *numbers[i])));
}

static void emit_pipeline(Lowering *lo, TileOp *op)
{
    int n_products;
    if (is_product_loop(lo, op, &n_products)) {
        emit_product_loop(lo, op, n_products);
        return;
    }
    begin_partial_sums(lo, op);
    if (lo->has_teams && uneven_registers(lo, lo->walk))
        refresh_threads(lo);
    preload_operands(lo, op);
    emit_steps(lo, op);
    end_partial_sums(lo, op);
}

static void emit_for(Lowering *lo, TileOp *op)
{
    Nest nest;
    Expr *from, *to;
    loop_bounds(lo, op->for_.var, op->for_.lo, op->for_.hi, &from, &to);
    Var *const var = loop_var(lo, op->for_.var);
    int64_t step = 1;
    if (op->for_.step)
        expr_as_int(op->for_.step, &step);
    begin_partial_sums(lo, op);
    begin_for(lo, &nest, var, from, to, expr_int(lo->arena, var->type, step), LOOP_NO_UNROLL);
    emit_body(lo, op->for_.body);
    end_nest(lo, &nest);
    end_partial_sums(lo, op);
}

static void emit_while(Lowering *lo, TileOp *op)
{
    Nest loop, leave;
    begin_while(lo, &loop, expr_bool(lo->arena, true));
    begin_if(lo, &leave, expr_unary(lo->arena, X_NOT, lower_expr(lo, op->while_.cond, NULL)));
    loop_add(lo->out, (LoopStmt){ .kind = L_BREAK });
    end_nest(lo, &leave);
    emit_body(lo, op->while_.body);
    emit_block(lo, op->while_.step, op->while_.step, NULL);
    end_nest(lo, &loop);
}

static void emit_if(Lowering *lo, TileOp *op)
{
    Nest nest;
    Touch touch;
    touches_of(lo, op, &touch);
    begin_if(lo, &nest, lower_expr(lo, op->branch.cond, NULL));
    const int flights = lo->flights.count;
    emit_block(lo, op->branch.then, op->branch.then, NULL);
    wait_for_copies(lo);
    if (lo->flights.count != flights)
        wait_for_all(lo);
    advance_clocks(lo, op->branch.then, -1);
    if (op->branch.otherwise) {
        begin_else(lo, &nest);
        emit_block(lo, op->branch.otherwise, op->branch.otherwise, NULL);
        wait_for_copies(lo);
        if (lo->flights.count != flights)
            wait_for_all(lo);
        advance_clocks(lo, op->branch.otherwise, -1);
    }
    end_nest(lo, &nest);
}

static void emit_map(Lowering *lo, TileOp *op)
{
    if (op->kind == T_FILL && starts_in_loop(lo, op))
        return;
    if (copy_is_panels(lo, op)) {
        emit_panels(lo, op);
        return;
    }
    if (!store_is_staged(lo, op)) {
        if (!op_info(lo, op)->loads && emit_rows(lo, op)) {
            lo->has_rows = true;
            return;
        }
        Expr *const test = rescale_test(lo, op);
        Nest needed;
        if (test)
            begin_if(lo, &needed, test);
        emit_forall(lo, as_map(lo, op), op_info(lo, op)->loads);
        if (test)
            end_nest(lo, &needed);
        return;
    }
    Expr *const aligned = strides_are_aligned(lo, op->copy.dst.buffer);
    if (!aligned) {
        emit_staged_store(lo, op);
        return;
    }
    Nest nest;
    begin_if(lo, &nest, lower_expr(lo, aligned, NULL));
    emit_staged_store(lo, op);
    begin_else(lo, &nest);
    emit_forall(lo, as_map(lo, op), NULL);
    end_nest(lo, &nest);
}

// Shared memory must stay until the last stores have read it.
static void end_stores(Lowering *lo)
{
    if (!lo->n_staged)
        return;
    Nest nest;
    begin_if(lo, &nest, expr_binary(lo->arena, X_EQ, var_of(lo, lo->lane), i32_const(lo, 0)));
    emit_call(lo, "tma_wait_read", 1, i32_const(lo, 0));
    end_nest(lo, &nest);
}

// Where structure.c found no `if` to say it with: only instances that are a whole block may leave.
static void emit_return(Lowering *lo, TileOp *op)
{
    if (lo->is_persistent) {
        unsupported(lo, op->span, "a return at this place");
        return;
    }
    wait_for_all(lo);
    end_stores(lo);
    loop_add(lo->out, (LoopStmt){ .kind = L_RETURN });
}

void emit_op(Lowering *lo, TileOp *op)
{
    switch (op->kind) {
    case T_TILE:
        turn_side(lo, tile_info(lo, op->tile.buffer));
        clear_shadow(lo, tile_info(lo, op->tile.buffer));
        return;
    case T_LET: case T_SET:
        if (op->let.value && expr_any(op->let.value, holds_atomic, NULL))
            emit_shared_atomic(lo, op);
        else if (op->kind == T_LET)
            declare_value(lo, op);
        else
            emit_assign(lo, loop_var(lo, op->let.var), lower_as(lo, op->let.var->type, op->let.value, NULL));
        return;
    case T_UPDATE:
        if (op->update.buffer) {
            emit_by_one(lo, op);
        } else {
            Iteration none = { .layout = layout_new(0, NULL), .vector = -1 };
            TileOp *const next = op->next;
            op->next = NULL;
            emit_thread_block(lo, op, &none);
            op->next = next;
        }
        return;
    case T_STORE: emit_by_one(lo, op); return;
    case T_ATOMIC: emit_ordered_atomic(lo, op); return;
    case T_FORALL: case T_COPY: case T_FILL: case T_ATOMIC_TILE: emit_map(lo, op); return;
    case T_MATMUL: emit_product(lo, op); return;
    case T_SCAN: {
        const Crew crew = lo->crew;
        if (lo->has_teams && !op->groups)
            lo->crew = lo->all;
        emit_scan(lo, op);
        lo->crew = crew;
        return;
    }
    case T_FOR: emit_for(lo, op); return;
    case T_WHILE: emit_while(lo, op); return;
    case T_PIPELINE:
        emit_pipeline(lo, op);
        if (lo->has_teams)
            refresh_threads(lo);
        return;
    case T_IF: emit_if(lo, op); return;
    case T_BREAK: loop_add(lo->out, (LoopStmt){ .kind = L_BREAK }); return;
    case T_CONTINUE: loop_add(lo->out, (LoopStmt){ .kind = L_CONTINUE }); return;
    case T_RETURN: emit_return(lo, op); return;
    case T_PRINT: emit_print(lo, op, NULL); return;
    case T_ASSERT: emit_assert(lo, op, NULL); return;
    case T_EXTERN: emit_external(lo, op, NULL); return;
    }
}

// Whoever hears of this group's accesses relies on their being over: products may still read tiles that others fill.
static void end_shared_reads(Lowering *lo)
{
    for (int i = lo->flights.count - 1; i >= 0; i--)
        for (int r = 0; r < COUNT(lo->flights.items[i].reads); r++) {
            const TileInfo *const tile = lo->flights.items[i].reads[r];
            if (tile && !tile->channel) {
                wait_for_tile(lo, lo->flights.items[i].accumulator, false);
                return;
            }
        }
}

static void wait_for_signals(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->signals.count; i++) {
        const Signal *const signal = lo->signals.items[i];
        if (signal->before == op && signal->to == lo->walk)
            emit_call(lo, "bar_sync", 2, i32_const(lo, signal->barrier), i32_const(lo, 2 * crew_threads(lo->crew)));
    }
}

// What follows an arrival must not be scheduled before it: the other group waits. Only the end of a basic block holds
// it, and a wait for a buffer that this group holds is one.
static void hold_arrival(Lowering *lo, const TileOp *op)
{
    const OpInfo *const info = op_info(lo, op);
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        const TileOp *const first = first_use(lo, channel), *const last = last_use(lo, channel);
        if (channel->clock->block != info->block || !first || channel->is_released || op_info(lo, first)->order > info->order ||
            op_info(lo, last)->order <= info->order)
            continue;
        emit_call(lo, "mbar_wait", 2, full_barrier(lo, channel), var_of(lo, channel->clock->phase));
        return;
    }
}

static void give_signals(Lowering *lo, const TileOp *op)
{
    for (int i = 0; i < lo->signals.count; i++) {
        const Signal *const signal = lo->signals.items[i];
        if (signal->after != op || signal->from != lo->walk)
            continue;
        end_shared_reads(lo);
        if (signal->fences && lo->needs_fence)
            emit_call(lo, "fence_async", 0);
        emit_call(lo, "bar_arrive", 2, i32_const(lo, signal->barrier), i32_const(lo, 2 * crew_threads(lo->crew)));
        hold_arrival(lo, op);
    }
}

static bool finds_staged(Lowering *lo, TileOp *op, void *context)
{
    *(bool *)context |= store_is_staged(lo, op);
    return is_map(op);
}

// Where all meet, a turned store behind learns that its staging is free: a meeting of its group less.
static void free_staging(Lowering *lo, TileOp *op)
{
    for (TileOp *x = op; x && !lo->has_teams; x = x->next) {
        if (store_is_turned(lo, x)) {
            emit_staging_done(lo);
            op_info(lo, x)->staging_is_free = true;
            return;
        }
        bool staged = false;
        TileOp *const next = x->next;
        x->next = NULL;
        each_op(lo, x, finds_staged, &staged);
        x->next = next;
        if (staged)
            return;
    }
}

void emit_consumer_op(Lowering *lo, TileOp *op, TileOp *owner_block)
{
    OpInfo *const info = op_info(lo, op);
    if (info->fetched)
        return;
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        if (channel->clock->block == owner_block && first_use(lo, channel) == op) {
            emit_call(lo, "mbar_wait", 2, full_barrier(lo, channel), var_of(lo, channel->clock->phase));
            if (channel->has_gathers || channel->tiles[0]->is_exchanged)         // by ordinary stores: products see them behind a fence
                emit_call(lo, "fence_async", 0);
            point_tiles(lo, channel);
        }
    }
    const bool mine = is_mine(lo, op);
    if (mine)
        wait_for_op(lo, op);
    if (info->barrier_before && (!lo->has_teams || info->barrier_group < 0)) {
        if (lo->has_teams)
            end_shared_reads(lo);
        free_staging(lo, op);
        if (op == lo->staged_over)
            emit_staging_done(lo);
        if (info->orders_tensors)
            finish_staged_stores(lo);
        meet_all(lo);
    } else if (info->barrier_before && info->barrier_group == lo->walk) {
        wait_for_copies(lo);
        if (lo->needs_fence)
            emit_call(lo, "fence_async", 0);
        emit_call(lo, "bar_sync", 2, i32_const(lo, BAR_TEAMS + lo->walk), i32_const(lo, crew_threads(lo->crew)));
    }
    wait_for_signals(lo, op);
    begin_giving(lo, op);
    if (mine)
        emit_op(lo, op);
    end_giving(lo, op);
    give_signals(lo, op);
    for (int i = 0; i < lo->channels.count; i++) {
        Channel *const channel = lo->channels.items[i];
        if (channel->clock->block == owner_block && last_use(lo, channel) == op && !channel->is_released &&
            !release_with_flight(lo, channel))
            emit_release(lo, channel);
    }
}

static void emit_block(Lowering *lo, TileOp *block, TileOp *owner_block, TileOp *end)
{
    Var *const lane = lo->lane, *const warp = lo->warp, *const thread = lo->thread;
    for (TileOp *op = block; op != end; op = op->next) {
        emit_early_loads(lo, op, end);
        emit_consumer_op(lo, op, owner_block);
    }
    lo->lane = lane;
    lo->warp = warp;
    lo->thread = thread;
}

// ---- the role's own variables

void declare_clocks(Lowering *lo, int phase)
{
    for (int i = 0; i < lo->clocks.count; i++) {
        Clock *const clock = lo->clocks.items[i];
        clock->slot = clock->buffers > 1 ? emit_declare(lo, DTYPE_U32, "slot", expr_int(lo->arena, DTYPE_U32, 0)) : NULL;
        clock->phase = emit_declare(lo, DTYPE_U32, "phase", expr_int(lo->arena, DTYPE_U32, phase));
    }
}

void declare_tiles(Lowering *lo, bool only_channels)
{
    for (int i = 0; i < lo->n_declared; i++) {
        TileInfo *const tile = lo->declared.items[i];
        const DType type = loop_type(tile->buffer->type);
        if (only_channels ? !tile->channel && !tile->is_private : tile->is_private)
            continue;
        if (tile->home == HOME_REGISTERS) {
            if (lo->has_teams && tile->team && !(tile->team >> lo->walk & 1))
                continue;            // of another group
            tile->registers = tile->is_packed ? emit_array(lo, DTYPE_U32, tile->buffer->name, layout_registers(&tile->layout) / 2)
                                              : emit_array(lo, type, tile->buffer->name, layout_registers(&tile->layout));
        } else {
            tile->pointer = loop_new_pointer(lo->unit, type, tile->buffer->name);
            loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = tile->pointer, .value = call_expr(lo, type,
                     arena_printf(lo->arena, "shared_pointer<%s>", dtype_info[type].c_name), 1, i32_const(lo, tile->offset)) } });
            if (tile->alternates)
                tile->side = emit_declare(lo, DTYPE_I32, "side", i32_const(lo, 0));
        }
        declare_shadow(lo, tile);
    }
}

static bool finds_rotation(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_PIPELINE)
        *(bool *)context |= can_rotate(lo, op) && groups_take_turns(lo, op);
    return op->kind == T_FORALL;
}

static void emit_walk(Lowering *lo)
{
    lo->copies_fly = false;
    declare_clocks(lo, 0);
    declare_tiles(lo, false);
    declare_scratch_side(lo);
    bool rotates = false;
    each_op(lo, lo->kernel->body, finds_rotation, &rotates);
    if (rotates)
        begin_turns(lo);
    Nest grid;
    begin_grid(lo, &grid);
    emit_body(lo, lo->kernel->body);
    end_grid(lo, &grid);
    end_stores(lo);
}

static int registers_needed(Lowering *lo, int group) { return (team_words(lo, group) + BESIDE_FRAGMENTS + 7) / 8 * 8; }

// Holds less than half of what the fullest group does, and needs less than its share of the registers.
static bool holds_little(Lowering *lo, int group)
{
    int most = 0;
    for (int g = 0; g < lo->all.groups; g++)
        most = team_words(lo, g) > most ? team_words(lo, g) : most;
    return 2 * team_words(lo, group) <= most && registers_needed(lo, group) <= consumer_registers(lo) * 3 / 4;
}

// Registers of a group's threads, where some groups beside a producer hold much less than the others; 0: all take the
// same.
int uneven_registers(Lowering *lo, int group)
{
    const int groups = lo->all.groups;
    int few = 0, n_few = 0;
    if (!lo->has_teams || !lo->has_producer || lo->crew.warps != 4 || groups < 3)
        return 0;
    for (int g = 0; g < groups; g++)
        if (holds_little(lo, g)) {
            few = registers_needed(lo, g) > few ? registers_needed(lo, g) : few;
            n_few++;
        }
    if (!n_few)
        return 0;
    const int others = (spare_registers(lo) - n_few * few) / (groups - n_few) / 8 * 8;
    return holds_little(lo, group) ? few : others < 240 ? others : 240;
}

// Registers from the groups without products to the others.
static void divide_among_teams(Lowering *lo, int group)
{
    if (lo->has_producer) {
        const int registers = uneven_registers(lo, group), each = 65536 / WARPGROUP_THREADS / (lo->all.groups + 1) / 8 * 8;
        if (registers)
            emit_call(lo, registers < each ? "setmaxnreg_dec" : "setmaxnreg_inc", 1, i32_const(lo, registers));
        return;
    }
    const uint32_t light = light_groups(lo);
    const int groups = lo->all.groups, n_light = __builtin_popcount(light), n_heavy = groups - n_light;
    const int each = 65536 / all_threads(lo) / 8 * 8;
    if (!light || groups < 3 || lo->crew.warps != 4 || !n_heavy || lo->target->arch < 90)
        return;
    int heavy = (groups * each - n_light * LIGHT_REGISTERS) / n_heavy / 8 * 8;
    heavy = heavy > 240 ? 240 : heavy;
    if (light >> group & 1)
        emit_call(lo, "setmaxnreg_dec", 1, i32_const(lo, LIGHT_REGISTERS));
    else
        emit_call(lo, "setmaxnreg_inc", 1, i32_const(lo, heavy));
}

void emit_consumer(Lowering *lo)
{
    lo->role = ROLE_CONSUMER;
    if (!lo->has_teams) {
        emit_walk(lo);
        return;
    }
    Var *const group = lo->group;
    lo->thread_of_all = lo->thread;
    lo->thread = emit_declare(lo, DTYPE_I32, "member", expr_binary(lo->arena, X_MOD, var_of(lo, lo->thread_of_all), i32_const(lo, crew_threads(lo->crew))));
    for (int g = 0; g < lo->all.groups; g++) {
        Nest walk;
        begin_if(lo, &walk, expr_binary(lo->arena, X_EQ, var_of(lo, group), i32_const(lo, g)));
        lo->walk = g;
        lo->flights.count = 0;
        divide_among_teams(lo, g);
        if (lo->has_filler && !uneven_registers(lo, g) && group_registers(lo, g))
            emit_call(lo, "setmaxnreg_inc", 1, i32_const(lo, group_registers(lo, g)));
        lo->group = emit_declare(lo, DTYPE_I32, "this_group", i32_const(lo, g));
        emit_walk(lo);
        end_nest(lo, &walk);
    }
}
