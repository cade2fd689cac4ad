// vector.c - loads and stores of several consecutive elements at a time.
//
// Where the fastest register digit of a forall runs along the last dimension of a tensor or shared tile, its
// elements are moved by one wide access before (loads) or after (stores) the loop over them. The prelude's
// load_vector and store_vector test bounds and alignment at run time and fall back to single elements.
#include "lower/cuda/cuda.h"

typedef struct Search {
    Lowering  *lo;
    Iteration *it;
    TileOp    *forall;
    Var       *run;                  // the index that the vector runs along
    int        width;
    const MapUses *uses;
    VEC(const Var *) inner;          // variables that live inside the body: addresses may not depend on them
} Search;

static bool is_written(const Search *s, const Buffer *root, Expr *const *subs, int rank)
{
    for (int i = 0; i < s->uses->count; i++) {
        const TileUse *const use = &s->uses->items[i].use;
        if (buffer_root(use->buffer) != root || !(use->writes || use->atomic))
            continue;
        bool same = use->subs != NULL && use->buffer->rank == rank && !use->atomic;
        for (int d = 0; d < rank && same; d++)
            same = expr_equal(use->subs[d], subs[d]);
        if (!same)
            return true;
    }
    return false;
}

static bool uses_inner(const Search *s, const Expr *x)
{
    for (int i = 0; i < s->inner.count; i++)
        if (expr_uses(x, s->inner.items[i]))
            return true;
    return false;
}

// Is buffer[subs] consecutive along `run`, the rest of its place fixed, and can it be moved `width` at a time?
static bool is_run(const Search *s, Buffer *buffer, Expr **subs)
{
    const Buffer *root = buffer;
    const int last = buffer->rank - 1;
    if (last < 0)
        return false;
    for (; root->kind == BUFFER_VIEW; root = root->base.buffer) {
        const Sub *const sub = &root->base.subs[root->base.buffer->rank - 1];
        if (region_rank(&root->base) != root->rank || !sub->is_range || sub->step || root->type != root->base.buffer->type)
            return false;
    }
    if (root->kind == BUFFER_LOCAL || dtype_bits(root->type) < 8 || is_fragment_in_registers(s->lo, root) ||
        (root->kind == BUFFER_TENSOR && root->strided))
        return false;
    for (int d = 0; d < last; d++)
        if (expr_uses(subs[d], s->run) || uses_inner(s, subs[d]))
            return false;
    int64_t coefficient = 0;
    Expr *rest = NULL;
    if (uses_inner(s, subs[last]) || !expr_affine(s->lo->arena, subs[last], &s->run, 1, &coefficient, &rest) || coefficient != 1)
        return false;
    if (root->kind == BUFFER_TENSOR)
        return true;
    const TileInfo *const tile = tile_info(s->lo, root);
    const int bytes = s->width * tile->shared.element_bytes;
    if (expr_multiple(rest) % s->width != 0 || bytes > (tile->shared.swizzle_bytes ? 16 : 64))
        return false;
    return tile->shared.swizzle_bytes || tile->shared.rows <= 1 || tile->shared.pitch_bytes % (bytes < 16 ? bytes : 16) == 0;
}

static bool visit_load(const Expr *x, void *context)
{
    Search *const s = context;
    if (x->kind != E_LOAD || s->it->n_loaded == COUNT(s->it->loaded))
        return false;
    for (int i = 0; i < s->it->n_loaded; i++)
        if (expr_equal(s->it->loaded[i].load, x))
            return false;
    Buffer *const root = buffer_root(x->load.buffer);
    if (is_run(s, x->load.buffer, x->load.subs) && !is_written(s, root, x->load.subs, x->load.buffer->rank))
        s->it->loaded[s->it->n_loaded++].load = (Expr *)x;
    return false;
}

static bool find_inner(Lowering *lo, TileOp *op, void *context)
{
    Search *const s = context;
    if (op->kind == T_LET)
        VEC_PUSH(lo->arena, &s->inner, op->let.var);
    if (op->kind == T_FOR)
        VEC_PUSH(lo->arena, &s->inner, op->for_.var);
    for (int i = 0; op->kind == T_FORALL && i < op->forall.n; i++)
        VEC_PUSH(lo->arena, &s->inner, op->forall.indices[i].var);
    if (op->kind == T_COPY || op->kind == T_FILL) {
        TileOp *const map = as_map(lo, op);
        for (int i = 0; i < map->forall.n; i++)
            VEC_PUSH(lo->arena, &s->inner, map->forall.indices[i].var);
    }
    return false;
}

// Two neighbours of a 16-bit fragment: converted by one instruction.
static bool is_register_pair(const Search *s, const TileOp *store)
{
    const TileInfo *const tile = tile_info(s->lo, store->store.buffer);
    int which[MAX_RANK];
    return s->width == 2 && tile && tile->home == HOME_REGISTERS && !tile->is_packed &&
           (tile->buffer->type == DTYPE_BF16 || tile->buffer->type == DTYPE_F16) &&
           subscripts_are_indices(store->store.subs, tile->buffer->rank, s->it->indices, s->it->n, which);
}

static void search_expr(Search *s, Expr *x)
{
    if (x)
        expr_any(x, visit_load, s);
}

// Loads of the body's own statements and of its conditions; statements under a condition may load early, because
// what is inside a tensor can always be read.
static void search_block(Search *s, TileOp *block, bool top)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_LET || op->kind == T_SET)
            search_expr(s, op->let.value);
        if (op->kind == T_STORE)
            search_expr(s, op->store.value);
        if (op->kind == T_UPDATE)
            search_expr(s, op->update.value);
        if (op->kind == T_IF) {
            search_expr(s, op->branch.cond);
            search_block(s, op->branch.then, false);
            search_block(s, op->branch.otherwise, false);
        }
        if (op->kind == T_STORE && top && s->it->n_stored < COUNT(s->it->stored) && is_register_pair(s, op)) {
            s->it->stored[s->it->n_stored++].store = op;
            continue;
        }
        if (op->kind == T_STORE && top && s->it->n_stored < COUNT(s->it->stored) &&
            is_run(s, op->store.buffer, op->store.subs) &&
            !is_written(s, buffer_root(op->store.buffer), op->store.subs, op->store.buffer->rank))
            s->it->stored[s->it->n_stored++].store = op;
    }
}

static bool has_continue(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_CONTINUE || op->kind == T_BREAK || op->kind == T_WHILE)
        *(bool *)context = true;
    return false;
}

int choose_vectors(Lowering *lo, TileOp *forall, Iteration *it, Var **run)
{
    int first = 0;
    while (first < it->layout.n && it->layout.digit[first].input != IN_REGISTER)
        first++;
    if (first == it->layout.n)
        return -1;
    const Digit *const digit = &it->layout.digit[first];
    int axis = -1;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] == digit->dim)
            axis = i;
    int64_t from, to;
    if (axis < 0 || digit->stride != 1 || digit->extent > 16 || !static_extent(&it->indices[axis], &from, &to) ||
        from != 0 || to % digit->extent != 0)
        return -1;
    bool jumps = false;
    each_op(lo, forall->forall.body, has_continue, &jumps);
    if (jumps)
        return -1;
    MapUses uses = { 0 };
    map_uses(lo, forall, &uses);
    Search s = { .lo = lo, .it = it, .forall = forall, .run = it->indices[axis].var, .width = digit->extent, .uses = &uses };
    each_op(lo, forall->forall.body, find_inner, &s);
    search_block(&s, forall->forall.body, true);
    *run = s.run;
    return it->n_loaded + it->n_stored > 0 ? first : -1;
}

// ---- printing

static Expr *or_true(Lowering *lo, Expr *test) { return test ? test : expr_bool(lo->arena, true); }

// Arguments shared by loads and stores: address, and for tensors the bounds.
static void emit_move(Lowering *lo, const char *verb, int width, Var *values, const Place *place, Expr *extra)
{
    Expr *const address = expr_address(lo->arena, place->pointer, place->at);
    Expr *rows = place->rows_inside;
    if (extra)
        rows = rows ? expr_binary(lo->arena, X_AND, extra, rows) : extra;
    if (place->root->kind != BUFFER_TENSOR) {
        emit_call(lo, arena_printf(lo->arena, "%s_shared<%d>", verb, width), 3, var_of(lo, values), address, or_true(lo, rows));
        return;
    }
    if (!place->columns) {
        emit_call(lo, arena_printf(lo->arena, "%s_inside<%d>", verb, width), 3, var_of(lo, values), address, or_true(lo, rows));
        return;
    }
    emit_call(lo, arena_printf(lo->arena, "%s_vector<%d>", verb, width), 5, var_of(lo, values), address, or_true(lo, rows),
              place->column, place->columns);
}

void emit_vector_loads(Lowering *lo, Iteration *it)
{
    const int width = it->layout.digit[it->vector].extent;
    const int n = it->n_loaded;
    it->n_loaded = 0;                // addresses are lowered without them
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load;
        Place place;
        if (!place_element(lo, load->load.buffer, load->load.subs, it, &place, load->span))
            return;
        it->loaded[i].values = emit_array(lo, loop_type(load->load.buffer->type),
                                          arena_printf(lo->arena, "%s_v", load->load.buffer->name), width);
        emit_move(lo, "load", width, it->loaded[i].values, &place, NULL);
    }
    it->n_loaded = n;
    for (int i = 0; i < it->n_stored; i++) {
        const Buffer *const buffer = it->stored[i].store->store.buffer;
        const DType type = is_fragment_in_registers(lo, buffer) ? DTYPE_F32 : loop_type(buffer->type);
        it->stored[i].values = emit_array(lo, type, arena_printf(lo->arena, "%s_out", buffer->name), width);
    }
}

void emit_vector_stores(Lowering *lo, Iteration *it)
{
    const int width = it->layout.digit[it->vector].extent;
    Var *const digit = it->digit[it->vector];
    it->digit[it->vector] = NULL;
    const int n_loaded = it->n_loaded;
    it->n_loaded = 0;
    for (int i = 0; i < it->n_stored; i++) {
        TileOp *const store = it->stored[i].store;
        Place place;
        if (lo->is_muted && !is_fragment_in_registers(lo, store->store.buffer))
            continue;
        if (!place_element(lo, store->store.buffer, store->store.subs, it, &place, store->span))
            continue;
        if (is_fragment_in_registers(lo, store->store.buffer)) {
            Var *const v = it->stored[i].values;
            emit_call(lo, "store_pair", 2, expr_address(lo->arena, place.pointer, place.at),
                      call_expr(lo, DTYPE_U32, arena_printf(lo->arena, "pack_%s", dtype_name(store->store.buffer->type)), 2,
                                expr_index(lo->arena, v, i32_const(lo, 0)), expr_index(lo->arena, v, i32_const(lo, 1))));
        } else {
            emit_move(lo, "store", width, it->stored[i].values, &place, replica_is_first(lo, &it->layout));
        }
    }
    it->n_loaded = n_loaded;
    it->digit[it->vector] = digit;
}
