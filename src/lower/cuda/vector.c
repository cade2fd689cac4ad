// vector.c - loads and stores of several consecutive elements at a time.
//
// Where the fastest register digit of a forall runs along the last dimension of a tensor or shared tile, its
// elements are moved by one wide access before (loads) or after (stores) the loop over them.
//
// Loads from tensors are made for many iterations at once, before the first use of any: memory answers after a
// thousand cycles, and only what is in flight meanwhile counts. They stay words of 32 bits until they are used, else
// each would be taken apart, and so waited for, where it is loaded. One uniform test decides for all of them whether
// rows divide into whole vectors; then each is inside or outside as a whole. If not, the prelude's load_vector and
// store_vector test bounds and alignment of each and fall back to single elements.
#include "lower/cuda/cuda.h"

typedef struct Search {
    Lowering  *lo;
    Iteration *it;
    TileOp    *forall;
    Var       *run;                  // the index that the vector runs along
    int        width;
    const MapUses *uses;
    VEC(const Var *) inner;          // variables that live inside the body: addresses may not depend on them
    bool       under_condition;      // what is looked at may not be evaluated
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
        // The view's own end is tested once for all elements: it may not cut them.
        int64_t start;
        const Expr *const end = root->shape[root->rank - 1];
        const bool reaches = expr_as_int(sub->start, &start) && start == 0 &&
                             expr_equal(end, root->base.buffer->shape[root->base.buffer->rank - 1]);
        if (!reaches && expr_multiple(end) % s->width != 0)
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

// Accesses to tensors are bounded, those to shared tiles are not: they are the program's own.
static bool may_load_early(const Search *s, Buffer *buffer, Expr *const *subs)
{
    for (int d = 0; d < buffer->rank && s->under_condition && buffer_root(buffer)->kind != BUFFER_TENSOR; d++) {
        const Range at = expr_range(subs[d]), extent = expr_range(buffer->shape[d]);
        if (!at.has_lo || at.lo < 0 || !at.has_hi || !extent.has_lo || at.hi >= extent.lo)
            return false;
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
    if (x->kind != E_LOAD || s->it->n_loaded == COUNT(s->it->loaded))
        return false;
    for (int i = 0; i < s->it->n_loaded; i++)
        if (expr_equal(s->it->loaded[i].load, x))
            return false;
    Buffer *const root = buffer_root(x->load.buffer);
    if (is_run(s, x->load.buffer, x->load.subs) && !is_written(s, root, x->load.subs, x->load.buffer->rank) &&
        may_load_early(s, x->load.buffer, x->load.subs))
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
    const bool outer = s->under_condition;
    if (!x)
        return;
    s->under_condition = outer || expr_any(x, is_conditional, NULL);
    expr_any(x, visit_load, s);
    s->under_condition = outer;
}

// Loads of the body's own statements and of its conditions; statements under a condition may load early, because
// what is inside a tensor or a tile can always be read.
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
            const bool outer = s->under_condition;
            search_expr(s, op->branch.cond);
            s->under_condition = true;
            search_block(s, op->branch.then, false);
            search_block(s, op->branch.otherwise, false);
            s->under_condition = outer;
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

// ---- loads that are made together

enum {
    BATCH_WORDS_MIN = 16, BATCH_WORDS_MAX = 64,             // 32-bit registers of loads in flight
    CHOICE_BYTES_MIN = 8,            // of a vector that is worth code for rows of both kinds
};

static int words_of(const Buffer *buffer, int width)
{
    const int bytes = width * (dtype_bits(buffer->type) / 8);
    return bytes < 4 ? 1 : bytes / 4;
}

// Registers that the loads of one iteration take; 0: none is made ahead.
static int mark_words(Lowering *lo, Iteration *it)
{
    int words = 0;
    for (int i = 0; i < it->n_loaded && lo->role == ROLE_CONSUMER; i++) {
        Buffer *const buffer = it->loaded[i].load->load.buffer;
        it->loaded[i].in_words = buffer_root(buffer)->kind == BUFFER_TENSOR;
        if (it->loaded[i].in_words)
            words += words_of(buffer, it->layout.digit[it->vector].extent);
    }
    return words;
}

// Iterations whose loads are made together: the innermost digits, as far as registers last.
static void choose_batch(Lowering *lo, Iteration *it, int words)
{
    int spare = (consumer_registers(lo) - fragment_words(lo)) / 2;
    spare = spare < BATCH_WORDS_MIN ? BATCH_WORDS_MIN : spare > BATCH_WORDS_MAX ? BATCH_WORDS_MAX : spare;
    while (it->n_batched < it->n_order) {
        const int extent = it->layout.digit[it->order[it->n_order - 1 - it->n_batched]].extent;
        int chunk = extent;
        while (chunk > 1 && (extent % chunk != 0 || words * it->batch_size * chunk > spare))
            chunk--;
        if (chunk == 1 && extent > 1)
            return;
        it->n_batched++;
        it->batch_size *= chunk;
        it->chunk = chunk;
        if (chunk < extent)
            return;
    }
}

int choose_vectors(Lowering *lo, TileOp *forall, Iteration *it, Var **run)
{
    if (lo->kernel->checked)
        return -1;
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

void choose_moves(Lowering *lo, TileOp *forall, Iteration *it)
{
    it->vector = choose_vectors(lo, forall, it, &it->run);
    for (int i = it->layout.n - 1; i >= 0; i--)
        if (it->layout.digit[i].input == IN_REGISTER && i != it->vector)
            it->order[it->n_order++] = i;
    const int words = it->vector >= 0 ? mark_words(lo, it) : 0;
    it->batch_size = words ? 1 : 0;
    it->chunk = 1;
    if (words)
        choose_batch(lo, it, words);
}

// ---- printing

// The subscript along the root's last dimension that stands for subs of the buffer.
static Expr *root_column(Lowering *lo, const Buffer *buffer, Expr *const *subs)
{
    Expr *column = subs[buffer->rank - 1];
    for (; buffer->kind == BUFFER_VIEW; buffer = buffer->base.buffer)
        column = int_add(lo->arena, buffer->base.subs[buffer->base.buffer->rank - 1].start, column);
    return column;
}

typedef enum { NEVER_WHOLE, PERHAPS_WHOLE, ALWAYS_WHOLE } Wholeness;

// Is the whole vector inside or outside its row, and aligned? `test` (lowered): if so for PERHAPS_WHOLE.
// Launches guarantee that tensors start at multiples of 16 bytes.
static Wholeness wholeness(Lowering *lo, const Iteration *it, Buffer *buffer, Expr *const *subs, Expr **test)
{
    const Buffer *const root = buffer_root(buffer);
    const Digit *const digit = &it->layout.digit[it->vector];
    const int width = digit->extent;
    for (int i = 0; i < it->layout.n; i++)
        if (i != it->vector && it->layout.digit[i].dim == digit->dim && it->layout.digit[i].stride % width != 0)
            return NEVER_WHOLE;
    Var *run = NULL;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] == digit->dim)
            run = it->indices[i].var;
    int64_t coefficient = 0;
    Expr *rest = NULL;
    if (root->kind != BUFFER_TENSOR || root->strided || width * dtype_bits(root->type) > 8 * 64 ||
        !expr_affine(lo->arena, root_column(lo, buffer, subs), &run, 1, &coefficient, &rest) || coefficient != 1 ||
        expr_multiple(rest) % width != 0)
        return NEVER_WHOLE;
    Expr *const columns = root->shape[root->rank - 1];
    if (expr_multiple(columns) % width == 0)
        return ALWAYS_WHOLE;
    if (width * dtype_bits(root->type) < 8 * CHOICE_BYTES_MIN)
        return NEVER_WHOLE;
    *test = lower_expr(lo, expr_binary(lo->arena, X_EQ, expr_binary(lo->arena, X_MOD, columns, int_const(lo->arena, width)),
                                       int_const(lo->arena, 0)), NULL);
    return PERHAPS_WHOLE;
}

static Expr *or_true(Lowering *lo, Expr *test) { return test ? test : expr_bool(lo->arena, true); }

// One vector of a shared tile.
static void emit_shared_move(Lowering *lo, const char *verb, int width, Var *values, const Place *place, Expr *extra)
{
    Expr *const address = expr_address(lo->arena, place->pointer, place->at);
    Expr *rows = place->rows_inside;
    if (extra)
        rows = rows ? expr_binary(lo->arena, X_AND, extra, rows) : extra;
    emit_call(lo, arena_printf(lo->arena, "%s_shared<%d>", verb, width), 3, var_of(lo, values), address, or_true(lo, rows));
}

// One vector of a tensor: `columns` are tested by the function.
static void emit_tested_move(Lowering *lo, const char *verb, int width, Expr *words, const Place *place, Expr *extra)
{
    Expr *rows = place->rows_inside;
    if (extra)
        rows = rows ? expr_binary(lo->arena, X_AND, extra, rows) : extra;
    emit_call(lo, arena_printf(lo->arena, "%s<%d>", verb, width), 5, words, expr_address(lo->arena, place->pointer, place->at),
              or_true(lo, rows), place->column,
              place->columns ? place->columns : lower_int64(lo, place->root->shape[place->root->rank - 1], NULL));
}

static void emit_whole_move(Lowering *lo, const char *verb, int width, Expr *words, const Place *place, Expr *extra)
{
    Expr *inside = place->inside;
    if (extra)
        inside = inside ? expr_binary(lo->arena, X_AND, extra, inside) : extra;
    emit_call(lo, arena_printf(lo->arena, "%s_whole<%d>", verb, width), 3, words, expr_address(lo->arena, place->pointer, place->at),
              or_true(lo, inside));
}

// Of this iteration among those whose loads are made together.
static Expr *batch_number(Lowering *lo, const Iteration *it)
{
    Expr *number = i32_const(lo, 0);
    int stride = 1;
    for (int i = 0; i < it->layout.n; i++)
        if (it->batch[i].at) {
            number = i32_add(lo, number, i32_mul(lo, var_of(lo, it->batch[i].at), stride));
            stride *= it->batch[i].extent;
        }
    return number;
}

Expr *loaded_element(Lowering *lo, const Iteration *it, int i)
{
    Var *const values = it->loaded[i].values;
    Expr *const v = var_of(lo, it->digit[it->vector]);
    if (!it->loaded[i].in_words)
        return expr_index(lo->arena, values, v);
    const DType type = loop_type(it->loaded[i].load->load.buffer->type);
    return call_expr(lo, type, arena_printf(lo->arena, "element_of<%s, %d>", dtype_info[type].c_name, it->layout.digit[it->vector].extent),
                     3, var_of(lo, values), batch_number(lo, it), v);
}

// Loops over the iterations whose loads are made together.
static int begin_batch(Lowering *lo, Iteration *it, Nest *nests)
{
    for (int i = 0; i < it->n_batched; i++) {
        const int d = it->order[it->n_order - it->n_batched + i], extent = i == 0 ? it->chunk : it->layout.digit[d].extent;
        Var *const at = begin_unrolled(lo, &nests[i], "r", extent);
        it->batch[d].at = it->digit[d] = at;
        it->batch[d].extent = extent;
        if (i == 0 && it->chunk_begin)
            it->digit[d] = emit_declare(lo, DTYPE_I32, "r", i32_add(lo, var_of(lo, it->chunk_begin), var_of(lo, at)));
    }
    return it->n_batched;
}

// Loads of all iterations of the batch into their words. `trusting`: rows divide into whole vectors.
static void emit_loads_of_batch(Lowering *lo, Iteration *it, bool trusting)
{
    Nest nests[LAYOUT_MAX_DIGITS], block, guard;
    const int width = it->layout.digit[it->vector].extent, n = it->n_loaded;
    int depth = begin_batch(lo, it, nests);
    begin_block(lo, &block);
    Expr *const valid = declare_indices(lo, it, ~0u);
    if (valid)
        begin_if(lo, &guard, valid);
    it->n_loaded = 0;                // addresses are lowered without them
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load, *unused;
        Place place;
        if (!it->loaded[i].in_words || !place_element(lo, load->load.buffer, load->load.subs, it, &place, load->span))
            continue;
        Expr *const words = expr_address(lo->arena, it->loaded[i].values,
                                         i32_mul(lo, batch_number(lo, it), words_of(load->load.buffer, width)));
        if (trusting && wholeness(lo, it, load->load.buffer, load->load.subs, &unused) != NEVER_WHOLE)
            emit_whole_move(lo, "load", width, words, &place, NULL);
        else
            emit_tested_move(lo, "load_words", width, words, &place, NULL);
    }
    it->n_loaded = n;
    if (valid)
        end_nest(lo, &guard);
    end_nest(lo, &block);
    while (depth > 0)
        end_nest(lo, &nests[--depth]);
}

// The words and the loads into them, both ways where only the launch tells which.
void emit_batch(Lowering *lo, Iteration *it)
{
    for (int i = 0; i < it->n_loaded; i++)
        if (it->loaded[i].in_words) {
            const Buffer *const buffer = it->loaded[i].load->load.buffer;
            it->loaded[i].values = emit_array(lo, DTYPE_U32, arena_printf(lo->arena, "%s_v", buffer->name),
                                              it->batch_size * words_of(buffer, it->layout.digit[it->vector].extent));
        }
    Expr *test = NULL;
    bool trusting = false;
    for (int i = 0; i < it->n_loaded; i++) {
        const Expr *const load = it->loaded[i].load;
        Expr *one = NULL;
        const Wholeness whole = it->loaded[i].in_words ? wholeness(lo, it, load->load.buffer, load->load.subs, &one) : NEVER_WHOLE;
        trusting |= whole != NEVER_WHOLE;
        if (whole == PERHAPS_WHOLE && !(test && expr_equal(test, one)))
            test = test ? expr_binary(lo->arena, X_AND, test, one) : one;
    }
    Nest choice;
    if (test)
        begin_if(lo, &choice, test);
    emit_loads_of_batch(lo, it, trusting);
    if (test) {
        begin_else(lo, &choice);
        emit_loads_of_batch(lo, it, false);
        end_nest(lo, &choice);
    }
    it->is_loaded = true;
}

static bool batch_is_all(const Iteration *it)
{
    return it->n_batched == it->n_order && (it->n_order == 0 || it->chunk == it->layout.digit[it->order[0]].extent);
}

int early_words(const Iteration *it)
{
    int words = 0;
    for (int i = 0; i < it->n_loaded; i++)
        if (it->loaded[i].in_words)
            words += it->batch_size * words_of(it->loaded[i].load->load.buffer, it->layout.digit[it->vector].extent);
    return it->batch_size > 0 && batch_is_all(it) ? words : 0;
}

// A digit's values: all, or one where rows are printed in two parts.
static bool divides_rows(const Lowering *lo, const Iteration *it, int i)
{
    const Digit *const digit = &it->layout.digit[i];
    return lo->row_part > 0 && digit->input == IN_REGISTER && digit->dim == 0 && digit->extent == 2;
}

int first_of_digit(const Lowering *lo, const Iteration *it, int i) { return divides_rows(lo, it, i) ? lo->row_part - 1 : 0; }

int end_of_digit(const Lowering *lo, const Iteration *it, int i)
{
    return divides_rows(lo, it, i) ? lo->row_part : it->layout.digit[i].extent;
}

int begin_register_loops(Lowering *lo, Iteration *it, Nest *nests)
{
    // The producer has few registers and none of them in arrays; the many tests of a --check build shall stay loops.
    const LoopForm form = lo->role == ROLE_PRODUCER || lo->kernel->checked ? LOOP_NO_UNROLL : LOOP_UNROLL;
    int depth = 0;
    for (int i = 0; i < it->n_order - it->n_batched; i++) {
        const int d = it->order[i];
        it->digit[d] = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &nests[depth++], it->digit[d], i32_const(lo, first_of_digit(lo, it, d)), i32_const(lo, end_of_digit(lo, it, d)), i32_const(lo, 1), form);
    }
    if (it->batch_size && !it->is_loaded) {
        const int first = it->n_batched ? it->layout.digit[it->order[it->n_order - it->n_batched]].extent : 1;
        if (it->chunk < first) {
            it->chunk_begin = loop_new_var(lo->unit, DTYPE_I32, "r");
            begin_for(lo, &nests[depth++], it->chunk_begin, i32_const(lo, 0), i32_const(lo, first), i32_const(lo, it->chunk), form);
        }
        begin_block(lo, &nests[depth++]);
        emit_batch(lo, it);
    }
    return depth + begin_batch(lo, it, nests + depth);
}

// What is stored in a narrow floating type is rounded together.
static bool rounds_together(const TileOp *store, int width)
{
    const DType type = store->store.buffer->type;
    const Expr *const value = store->store.value;
    return (type == DTYPE_BF16 || type == DTYPE_F16 || type == DTYPE_E4M3 || type == DTYPE_E5M2) &&
           width * dtype_bits(type) >= 8 * CHOICE_BYTES_MIN && buffer_root(store->store.buffer)->kind == BUFFER_TENSOR && value->kind == E_CONVERT && value->type == type &&
           value->convert.a->type == DTYPE_F32;
}

void emit_vector_loads(Lowering *lo, Iteration *it)
{
    const int width = it->layout.digit[it->vector].extent;
    const int n = it->n_loaded;
    it->n_loaded = 0;                // addresses are lowered without them
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load;
        Place place;
        if (it->loaded[i].in_words || !place_element(lo, load->load.buffer, load->load.subs, it, &place, load->span))
            continue;
        Var *const values = it->loaded[i].values = emit_array(lo, loop_type(load->load.buffer->type),
                                                              arena_printf(lo->arena, "%s_v", load->load.buffer->name), width);
        if (place.root->kind == BUFFER_TENSOR)
            emit_tested_move(lo, "load_vector", width, var_of(lo, values), &place, NULL);
        else
            emit_shared_move(lo, "load", width, values, &place, NULL);
    }
    it->n_loaded = n;
    for (int i = 0; i < it->n_stored; i++) {
        const TileOp *const store = it->stored[i].store;
        const Buffer *const buffer = store->store.buffer;
        it->stored[i].rounds = rounds_together(store, width);
        const DType type = is_fragment_in_registers(lo, buffer) || it->stored[i].rounds ? DTYPE_F32 : loop_type(buffer->type);
        it->stored[i].values = emit_array(lo, type, arena_printf(lo->arena, "%s_out", buffer->name), width);
    }
}

// The values go to a tensor as words; rows that divide into whole vectors are known at launch at the latest.
static void emit_tensor_store(Lowering *lo, Iteration *it, int i, const Place *place)
{
    const int width = it->layout.digit[it->vector].extent;
    TileOp *const store = it->stored[i].store;
    Buffer *const buffer = store->store.buffer;
    if (width * dtype_bits(buffer->type) < 8 * CHOICE_BYTES_MIN) {
        emit_tested_move(lo, "store_vector", width, var_of(lo, it->stored[i].values), place, replica_is_first(lo, &it->layout));
        return;
    }
    Var *const words = emit_array(lo, DTYPE_U32, arena_printf(lo->arena, "%s_words", buffer->name), words_of(buffer, width));
    const char *const verb = it->stored[i].rounds ? arena_printf(lo->arena, "round_%s<%d>", dtype_name(buffer->type), width)
                                                  : arena_printf(lo->arena, "join<%d>", width);
    emit_call(lo, verb, 2, var_of(lo, words), var_of(lo, it->stored[i].values));
    Expr *test = NULL, *const first = replica_is_first(lo, &it->layout);
    const Wholeness whole = wholeness(lo, it, buffer, store->store.subs, &test);
    Nest choice;
    if (whole == PERHAPS_WHOLE)
        begin_if(lo, &choice, test);
    if (whole != NEVER_WHOLE)
        emit_whole_move(lo, "store", width, var_of(lo, words), place, first);
    if (whole == PERHAPS_WHOLE)
        begin_else(lo, &choice);
    if (whole != ALWAYS_WHOLE)
        emit_tested_move(lo, "store_words", width, var_of(lo, words), place, first);
    if (whole == PERHAPS_WHOLE)
        end_nest(lo, &choice);
}

void emit_vector_stores(Lowering *lo, Iteration *it)
{
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
        } else if (place.root->kind == BUFFER_TENSOR) {
            emit_tensor_store(lo, it, i, &place);
        } else {
            emit_shared_move(lo, "store", it->layout.digit[it->vector].extent, it->stored[i].values, &place, replica_is_first(lo, &it->layout));
        }
    }
    it->n_loaded = n_loaded;
    it->digit[it->vector] = digit;
}
