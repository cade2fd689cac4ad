// SPDX-License-Identifier: MIT
// vector.c - loads and stores of several consecutive elements at a time.
//
// Where the fastest register mode of a forall runs along the last dimension of a tensor or shared tile, its
// elements are moved by one wide access before (loads) or after (stores) the loop over them.
//
// Loads from tensors are made for many iterations at once, before the first use of any: memory answers after a
// thousand cycles, and only what is in flight meanwhile counts. They stay words of 32 bits until they are used, else
// each would be taken apart, and so waited for, where it is loaded. One uniform test decides for all of them whether
// rows divide into whole vectors; then each is inside or outside as a whole. If not, the prelude's load_vector and
// store_vector test bounds and alignment of each and fall back to single elements.
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/row_pieces.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/roles.h"

typedef struct Search {
    Lowering *lo;
    Iteration *it;
    TileOp *forall;
    Var *run; // the index that the vector runs along
    int width;
    const MapUses *uses;
    VEC(const Var *) inner;     // variables that live inside the body: addresses may not depend on them
    VEC(const TileOp *) looped; // statements of loops in the body
    bool under_condition;       // what is looked at may not be evaluated
} Search;

static bool is_written(const Search *s, const Buffer *root, Expr *const *subs, int rank)
{
    for (int i = 0; i < s->uses->count; i++) {
        const TileUse *const use = &s->uses->items[i].use;
        if (buffer_root(use->buffer) != root || !(use->writes || use->atomic)) continue;
        bool same = use->subs != NULL && use->buffer->rank == rank && !use->atomic;
        for (int d = 0; d < rank && same; d++) same = expr_equal(use->subs[d], subs[d]);
        if (!same) return true;
    }
    return false;
}

static bool is_in_inner_loop(const Search *s, const TileOp *op)
{
    for (int i = 0; i < s->looped.count; i++)
        if (s->looped.items[i] == op) return true;
    return false;
}

// Is the root read by a statement after one that changes it? What was loaded before them all would be old. So
// would it be by a thread that repeats another's iterations.
static bool is_read_after_change(const Search *s, const Buffer *root)
{
    const TileOp *first = NULL;
    const bool repeats = has_replicas(&s->it->layout);
    for (int i = 0; i < s->uses->count; i++) {
        const MapUse *const at = &s->uses->items[i];
        const bool changes = at->use.writes || at->use.atomic;
        if (buffer_root(at->use.buffer) != root) continue;
        if ((first && at->op != first && at->use.reads) || (changes && (repeats || is_in_inner_loop(s, at->op))))
            return true;
        if (changes && !first) first = at->op;
    }
    return false;
}

// May the store wait until the end? Nothing else changes what it changes, and nothing after it reads that.
static bool may_store_late(const Search *s, const TileOp *store)
{
    const Buffer *const root = buffer_root(store->store.buffer);
    bool is_behind = false;
    for (int i = 0; i < s->uses->count; i++) {
        const MapUse *const at = &s->uses->items[i];
        if (buffer_root(at->use.buffer) != root) continue;
        if (at->op == store) is_behind = true;
        else if (at->use.writes || at->use.atomic || is_behind) return false;
    }
    return true;
}

static bool uses_inner(const Search *s, const Expr *x)
{
    for (int i = 0; i < s->inner.count; i++)
        if (expr_uses(x, s->inner.items[i])) return true;
    return false;
}

// Do the views of a buffer leave vectors whole? A view's own end is tested once for all elements, so it may not cut them:
// it is its base's, or it and the vectors begin at multiples of the width. `rest`: where the first vector begins.
static bool views_keep_vectors(const Search *s, const Buffer *buffer, const Expr *rest)
{
    bool aligned = expr_multiple(rest) % s->width == 0;
    for (; buffer->kind == BUFFER_VIEW && !is_flat_tensor(buffer); buffer = buffer->base.buffer) {
        if (s->it->recasts && recasts_rows(buffer)) return true;
        const Sub *const sub = &buffer->base.subs[buffer->base.buffer->rank - 1];
        const bool keeps_last = region_rank(&buffer->base) == buffer->rank || merges_rows(buffer);
        if (!keeps_last || !sub->is_range || sub->step || buffer->type != buffer->base.buffer->type) return false;
        int64_t start;
        const Expr *const end = buffer->shape[buffer->rank - 1];
        const bool reaches = expr_as_int(sub->start, &start) && start == 0 &&
                             expr_equal(end, buffer->base.buffer->shape[buffer->base.buffer->rank - 1]);
        if (!reaches && !(aligned && expr_multiple(end) % s->width == 0)) return false;
        aligned = aligned && expr_multiple(sub->start) % s->width == 0;
    }
    return true;
}

// What is packed into bytes is loaded from tensors in whole words. Nothing stores it so.
static bool is_packed_run(const Search *s, const Buffer *root)
{
    return root->kind == BUFFER_TENSOR && root->access == ACCESS_IN && s->lo->role == ROLE_CONSUMER &&
           s->width * dtype_bits(root->type) % 32 == 0;
}

// Rows of values that begin anywhere are loaded by the pieces of 16 bytes that a vector lies in (unaligned.cuh).
static bool is_unaligned_run(const Search *s, const Buffer *buffer)
{
    const int bits = dtype_bits(buffer->type);
    const bool is_list = dtype_is_integer(buffer->type) && bits >= 32;
    return buffer->unaligned && !is_list && buffer->access == ACCESS_IN && s->lo->role == ROLE_CONSUMER && bits >= 8 &&
           s->width * bits == 8 * PIECE_BYTES;
}

// Is buffer[subs] consecutive along `run`, the rest of its place fixed, and can it be moved `width` at a time?
static bool is_run(const Search *s, Buffer *buffer, Expr **subs)
{
    const Buffer *const root = buffer_root(buffer);
    const int last = buffer->rank - 1;
    int64_t coefficient = 0;
    Expr *rest = NULL;
    if (last < 0 || uses_inner(s, subs[last]) ||
        !expr_affine(s->lo->arena, subs[last], &s->run, 1, &coefficient, &rest) || coefficient != 1 ||
        !views_keep_vectors(s, buffer, rest))
        return false;
    const bool in_bytes = dtype_bits(root->type) >= 8 || (s->it->recasts && dtype_bits(buffer->type) >= 8);
    if (root->kind == BUFFER_LOCAL || (!in_bytes && !is_packed_run(s, root)) || is_fragment_in_registers(s->lo, root) ||
        (root->kind == BUFFER_TENSOR && root->strided && !is_unaligned_run(s, buffer)))
        return false;
    for (int d = 0; d < last; d++)
        if (expr_uses(subs[d], s->run) || uses_inner(s, subs[d])) return false;
    if (root->kind == BUFFER_TENSOR) return true;
    const TileInfo *const tile = tile_info(s->lo, root);
    const int bytes = s->width * tile->shared.element_bytes;
    if (expr_multiple(rest) % s->width != 0 || bytes > (tile->shared.swizzle_bytes ? 16 : 64)) return false;
    return tile->shared.swizzle_bytes || tile->shared.rows <= 1 ||
           tile->shared.pitch_bytes % (bytes < 16 ? bytes : 16) == 0;
}

// Accesses to tensors are bounded, those to shared tiles are not: they are the program's own.
static bool may_load_early(const Search *s, Buffer *buffer, Expr *const *subs)
{
    for (int d = 0; d < buffer->rank && s->under_condition && buffer_root(buffer)->kind != BUFFER_TENSOR; d++) {
        const Range at = expr_range(subs[d]), extent = expr_range(buffer->shape[d]);
        if (!at.has_lo || at.lo < 0 || !at.has_hi || !extent.has_lo || at.hi >= extent.lo) return false;
    }
    return true;
}

static bool is_conditional(const Expr *x, void *context)
{
    return x->kind == E_SELECT || (x->kind == E_BINARY && (x->op.op == X_AND || x->op.op == X_OR));
}

static bool visit_load(const Expr *x, void *context)
{
    Search *const s = context;
    if (x->kind != E_LOAD || s->it->n_loaded == COUNT(s->it->loaded)) return false;
    for (int i = 0; i < s->it->n_loaded; i++)
        if (expr_equal(s->it->loaded[i].load, x)) return false;
    Buffer *const root = buffer_root(x->load.buffer);
    if (is_run(s, x->load.buffer, x->load.subs) && !is_written(s, root, x->load.subs, x->load.buffer->rank) &&
        !is_read_after_change(s, root) && may_load_early(s, x->load.buffer, x->load.subs))
        s->it->loaded[s->it->n_loaded++].load = (Expr *)x;
    return false;
}

// What a code is read from may not change meanwhile, nor be out of the tile where it is not looked at.
static bool visit_code(const Expr *x, void *context)
{
    Search *const s = context;
    const int n = s->it->n_codes;
    find_codes(s->lo, s->it, s->run, s->width, (Expr *)x);
    if (s->it->n_codes == n) return false;
    Buffer *const bytes = s->it->codes[n].bytes;
    bool stays =
        !is_written(s, bytes, s->it->codes[n].subs, bytes->rank) && may_load_early(s, bytes, s->it->codes[n].subs);
    for (int d = 0; d < bytes->rank; d++) stays &= !uses_inner(s, s->it->codes[n].subs[d]);
    if (!stays) s->it->n_codes--;
    return false;
}

static bool note_looped(Lowering *lo, TileOp *op, void *context)
{
    Search *const s = context;
    VEC_PUSH(lo->arena, &s->looped, op);
    return false;
}

static bool find_inner(Lowering *lo, TileOp *op, void *context)
{
    Search *const s = context;
    if (op->kind == T_FOR) each_op(lo, op->for_.body, note_looped, s);
    if (op->kind == T_LET) VEC_PUSH(lo->arena, &s->inner, op->let.var);
    if (op->kind == T_FOR) VEC_PUSH(lo->arena, &s->inner, op->for_.var);
    for (int i = 0; op->kind == T_FORALL && i < op->forall.n; i++)
        VEC_PUSH(lo->arena, &s->inner, op->forall.indices[i].var);
    if (op->kind == T_COPY || op->kind == T_FILL) {
        TileOp *const map = as_map(lo, op);
        for (int i = 0; i < map->forall.n; i++) VEC_PUSH(lo->arena, &s->inner, map->forall.indices[i].var);
    }
    return false;
}

// Two neighbours of a 16-bit fragment: converted by one instruction.
static bool is_register_pair(const Search *s, const TileOp *store)
{
    const TileInfo *const tile = tile_info(s->lo, store->store.buffer);
    int which[MAX_RANK];
    return s->width == 2 && tile && tile->storage == TILE_IN_REGISTERS && !tile->is_packed &&
           (tile->buffer->type == DTYPE_BF16 || tile->buffer->type == DTYPE_F16) &&
           subscripts_are_indices(store->store.subs, tile->buffer->rank, s->it->indices, s->it->n, which);
}

static void search_expr(Search *s, Expr *x)
{
    const bool outer = s->under_condition;
    if (!x) return;
    s->under_condition = outer || expr_any(x, is_conditional, NULL);
    expr_any(x, visit_load, s);
    expr_any(x, visit_code, s);
    s->under_condition = outer;
}

// Loads of the body's own statements and of its conditions; statements under a condition may load early, because
// what is inside a tensor or a tile can always be read.
static void search_block(Search *s, TileOp *block, bool top)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_LET || op->kind == T_SET) search_expr(s, op->let.value);
        if (op->kind == T_STORE) search_expr(s, op->store.value);
        if (op->kind == T_UPDATE) search_expr(s, op->update.value);
        if (op->kind == T_IF) {
            const bool outer = s->under_condition;
            search_expr(s, op->branch.cond);
            s->under_condition = true;
            search_block(s, op->branch.then, false);
            search_block(s, op->branch.otherwise, false);
            s->under_condition = outer;
        }
        if (op->kind == T_STORE && top && s->it->n_stored < COUNT(s->it->stored) &&
            (is_register_pair(s, op) || is_run(s, op->store.buffer, op->store.subs)) && may_store_late(s, op))
            s->it->stored[s->it->n_stored++].store = op;
    }
}

static bool has_continue(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_CONTINUE || op->kind == T_BREAK || op->kind == T_WHILE) *(bool *)context = true;
    return false;
}

// ---- loads that are made together

enum { BATCH_WORDS_MIN = 16, BATCH_WORDS_MAX = 64, PRODUCER_WORDS = 32 }; // 32-bit registers of loads in flight

// Registers that the loads of one iteration take; 0: none is made ahead. The pieces that vectors of an unaligned tensor lie in
// are not counted: they are put right before anything else is loaded, and of the largest batch they are 144 beside its 64.
static int mark_words(Lowering *lo, Iteration *it)
{
    int words = 0;
    const bool may_load = lo->role == ROLE_CONSUMER || (moves_elements(lo) && lo->begins_anywhere);
    for (int i = 0; i < it->n_loaded && may_load; i++) {
        Buffer *const buffer = it->loaded[i].load->load.buffer;
        it->loaded[i].in_words = buffer_root(buffer)->kind == BUFFER_TENSOR;
        if (it->loaded[i].in_words) words += vector_words(buffer, it->layout.mode[it->vector].extent);
    }
    return words;
}

// Iterations whose loads are made together: the innermost modes, as far as registers last.
static void choose_batch(Lowering *lo, Iteration *it, int words)
{
    int spare = (consumer_registers(lo) - fragment_words(lo)) / 2;
    spare = spare < BATCH_WORDS_MIN ? BATCH_WORDS_MIN : spare > BATCH_WORDS_MAX ? BATCH_WORDS_MAX : spare;
    if (lo->role == ROLE_PRODUCER) // of WIDE_REGISTERS; an end of a row takes a register for each element
        spare = it->layout.mode[it->vector].extent > 8 ? PRODUCER_WORDS / 2 : PRODUCER_WORDS;
    while (it->n_batched < it->n_order) {
        const int extent = it->layout.mode[it->order[it->n_order - 1 - it->n_batched]].extent;
        int chunk = extent;
        while (chunk > 1 && (extent % chunk != 0 || words * it->batch_size * chunk > spare)) chunk--;
        if (chunk == 1 && extent > 1) return;
        it->n_batched++;
        it->batch_size *= chunk;
        it->chunk = chunk;
        if (chunk < extent) return;
    }
}

int choose_vectors(Lowering *lo, TileOp *forall, Iteration *it, Var **run)
{
    if (lo->kernel->checked) return -1;
    int first = 0;
    while (first < it->layout.n && it->layout.mode[first].input != IN_REGISTER) first++;
    if (first == it->layout.n) return -1;
    const LayoutMode *const mode = &it->layout.mode[first];
    int axis = -1;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] == mode->dim) axis = i;
    int64_t from, to;
    if (axis < 0 || mode->stride != 1 || mode->extent > 16 || !static_extent(&it->indices[axis], &from, &to) ||
        from % mode->extent != 0 || to % mode->extent != 0 || (mode->extent & (mode->extent - 1)) != 0)
        return -1; // pieces have powers of two
    bool jumps = false;
    each_op(lo, forall->forall.body, has_continue, &jumps);
    if (jumps) return -1;
    MapUses uses = { 0 };
    map_uses(lo, forall, &uses);
    Search s = {
        .lo = lo, .it = it, .forall = forall, .run = it->indices[axis].var, .width = mode->extent, .uses = &uses
    };
    each_op(lo, forall->forall.body, find_inner, &s);
    search_block(&s, forall->forall.body, true);
    *run = s.run;
    return it->n_loaded + it->n_stored + it->n_codes > 0 ? first : -1;
}

void choose_moves(Lowering *lo, TileOp *forall, Iteration *it)
{
    it->vector = choose_vectors(lo, forall, it, &it->run);
    for (int i = it->layout.n - 1; i >= 0; i--)
        if (it->layout.mode[i].input == IN_REGISTER && i != it->vector) it->order[it->n_order++] = i;
    const int words = it->vector >= 0 ? mark_words(lo, it) : 0;
    it->batch_size = words ? 1 : 0;
    it->chunk = 1;
    if (words) choose_batch(lo, it, words);
}

static bool batch_is_all(const Iteration *it)
{
    return it->n_batched == it->n_order && (it->n_order == 0 || it->chunk == it->layout.mode[it->order[0]].extent);
}

int early_words(const Iteration *it)
{
    int words = 0;
    for (int i = 0; i < it->n_loaded; i++)
        if (it->loaded[i].in_words)
            words += it->batch_size * vector_words(it->loaded[i].load->load.buffer, it->layout.mode[it->vector].extent);
    return it->batch_size > 0 && batch_is_all(it) ? words : 0;
}
