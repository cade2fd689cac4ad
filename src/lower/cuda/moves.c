// SPDX-License-Identifier: MIT
// moves.c - the code of wide loads and stores, and the loops over the registers around them (vector.c chose which).
//
// One uniform test decides whether rows divide into whole vectors; then each is inside or outside as a whole. If not,
// the prelude's load_vector and store_vector test bounds and alignment of each and fall back to single elements.
#include "lower/cuda/print.h"
#include "lower/cuda/elementwise.h"

enum { CHOICE_BYTES_MIN = 8 }; // of a vector that is worth code for rows of both kinds

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
    const LayoutMode *const mode = &it->layout.mode[it->vector];
    const int width = mode->extent;
    for (int i = 0; i < it->layout.n; i++)
        if (i != it->vector && it->layout.mode[i].dim == mode->dim && it->layout.mode[i].stride % width != 0)
            return NEVER_WHOLE;
    Var *run = NULL;
    for (int i = 0; i < it->n; i++)
        if (it->dim_of[i] == mode->dim) run = it->indices[i].var;
    int64_t coefficient = 0;
    Expr *rest = NULL;
    if (root->kind != BUFFER_TENSOR || root->strided || width * dtype_bits(root->type) > 8 * 64 ||
        !expr_affine(lo->arena, root_column(lo, buffer, subs), &run, 1, &coefficient, &rest) || coefficient != 1 ||
        expr_multiple(rest) % width != 0)
        return NEVER_WHOLE;
    Expr *const columns = root->shape[root->rank - 1];
    if (expr_multiple(columns) % width == 0) return ALWAYS_WHOLE;
    if (width * dtype_bits(root->type) < 8 * CHOICE_BYTES_MIN) return NEVER_WHOLE;
    Expr *const over = expr_binary(lo->arena, X_MOD, columns, int_const(lo->arena, width));
    *test = lower_expr(lo, expr_binary(lo->arena, X_EQ, over, int_const(lo->arena, 0)), NULL);
    return PERHAPS_WHOLE;
}

static Expr *or_true(Lowering *lo, Expr *test) { return test ? test : expr_bool(lo->arena, true); }

// One vector of a shared tile.
static void emit_shared_move(Lowering *lo, const char *verb, int width, Var *values, const Place *place, Expr *extra)
{
    Expr *const address = expr_address(lo->arena, place->pointer, place->at);
    Expr *const rows = or_true(lo, both(lo, extra, place->rows_inside));
    emit_call(lo, arena_printf(lo->arena, "%s_shared<%d>", verb, width), 3, var_of(lo, values), address, rows);
}

// One vector of a tensor: `columns` are tested by the function.
static void emit_tested_move(Lowering *lo, const char *verb, int width, Expr *words, const Place *place, Expr *extra)
{
    Expr *const columns =
        place->columns ? place->columns : lower_int64(lo, place->root->shape[place->root->rank - 1], NULL);
    emit_call(lo, arena_printf(lo->arena, "%s<%d>", verb, width), 5, words,
              expr_address(lo->arena, place->pointer, place->at), or_true(lo, both(lo, extra, place->rows_inside)),
              place->column, columns);
}

static void emit_whole_move(Lowering *lo, const char *verb, int width, Expr *words, const Place *place, Expr *extra)
{
    emit_call(lo, arena_printf(lo->arena, "%s_whole<%d>", verb, width), 3, words,
              expr_address(lo->arena, place->pointer, place->at), or_true(lo, both(lo, extra, place->inside)));
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
    Expr *const v = var_of(lo, it->mode[it->vector]);
    if (!it->loaded[i].in_words) return expr_index(lo->arena, values, v);
    const DType type = loop_type(it->loaded[i].load->load.buffer->type);
    return call_expr(
        lo, type,
        arena_printf(lo->arena, "element_of<%s, %d>", dtype_info[type].c_name, it->layout.mode[it->vector].extent), 3,
        var_of(lo, values), batch_number(lo, it), v);
}

// Loops over the iterations whose loads are made together.
static int begin_batch(Lowering *lo, Iteration *it, Nest *nests)
{
    for (int i = 0; i < it->n_batched; i++) {
        const int d = it->order[it->n_order - it->n_batched + i];
        const int extent = i == 0 ? it->chunk : it->layout.mode[d].extent;
        Var *const at = begin_unrolled(lo, &nests[i], "r", extent);
        it->batch[d].at = it->mode[d] = at;
        it->batch[d].extent = extent;
        if (i == 0 && it->chunk_begin)
            it->mode[d] = emit_declare(lo, DTYPE_I32, "r", i32_add(lo, var_of(lo, it->chunk_begin), var_of(lo, at)));
    }
    return it->n_batched;
}

// Loads of all iterations of the batch into their words. `trusting`: rows divide into whole vectors.
static void emit_loads_of_batch(Lowering *lo, Iteration *it, bool trusting)
{
    Nest nests[LAYOUT_MAX_MODES], block, guard;
    const int width = it->layout.mode[it->vector].extent, n = it->n_loaded;
    const int depth = begin_batch(lo, it, nests);
    begin_block(lo, &block);
    Expr *const valid = declare_indices(lo, it, ~0u);
    if (valid) begin_if(lo, &guard, valid);
    it->n_loaded = 0; // addresses are lowered without them
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load, *unused;
        Place place;
        if (!it->loaded[i].in_words || !place_element(lo, load->load.buffer, load->load.subs, it, &place, load->span))
            continue;
        Expr *const words = expr_address(lo->arena, it->loaded[i].values,
                                         i32_mul(lo, batch_number(lo, it), vector_words(load->load.buffer, width)));
        if (trusting && wholeness(lo, it, load->load.buffer, load->load.subs, &unused) != NEVER_WHOLE)
            emit_whole_move(lo, "load", width, words, &place, NULL);
        else emit_tested_move(lo, "load_words", width, words, &place, NULL);
    }
    it->n_loaded = n;
    if (valid) end_nest(lo, &guard);
    end_nest(lo, &block);
    end_nests(lo, nests, depth);
}

// The words and the loads into them, both ways where only the launch tells which.
void emit_batch(Lowering *lo, Iteration *it)
{
    for (int i = 0; i < it->n_loaded; i++)
        if (it->loaded[i].in_words) {
            const Buffer *const buffer = it->loaded[i].load->load.buffer;
            it->loaded[i].values =
                emit_array(lo, DTYPE_U32, arena_printf(lo->arena, "%s_v", buffer->name),
                           it->batch_size * vector_words(buffer, it->layout.mode[it->vector].extent));
        }
    Expr *test = NULL;
    bool trusting = false;
    for (int i = 0; i < it->n_loaded; i++) {
        const Expr *const load = it->loaded[i].load;
        Expr *one = NULL;
        const Wholeness whole =
            it->loaded[i].in_words ? wholeness(lo, it, load->load.buffer, load->load.subs, &one) : NEVER_WHOLE;
        trusting |= whole != NEVER_WHOLE;
        if (whole == PERHAPS_WHOLE && !(test && expr_equal(test, one))) test = both(lo, test, one);
    }
    Nest choice;
    if (test) begin_if(lo, &choice, test);
    emit_loads_of_batch(lo, it, trusting);
    if (test) {
        begin_else(lo, &choice);
        emit_loads_of_batch(lo, it, false);
        end_nest(lo, &choice);
    }
    it->is_loaded = true;
}

// A mode's values: all, or one where rows are printed in two parts.
static bool divides_rows(const Lowering *lo, const Iteration *it, int i)
{
    const LayoutMode *const mode = &it->layout.mode[i];
    return lo->row_part > 0 && mode->input == IN_REGISTER && mode->dim == 0 && mode->extent == 2;
}

int first_of_mode(const Lowering *lo, const Iteration *it, int i)
{
    return divides_rows(lo, it, i) ? lo->row_part - 1 : 0;
}

int end_of_mode(const Lowering *lo, const Iteration *it, int i)
{
    return divides_rows(lo, it, i) ? lo->row_part : it->layout.mode[i].extent;
}

int begin_register_loops(Lowering *lo, Iteration *it, Nest *nests)
{
    // The producer has few registers and none of them in arrays; the many tests of a --check build shall stay loops.
    const LoopForm form = lo->role == ROLE_PRODUCER || lo->kernel->checked ? LOOP_NO_UNROLL : LOOP_UNROLL;
    int depth = 0;
    for (int i = 0; i < it->n_order - it->n_batched; i++) {
        const int d = it->order[i];
        it->mode[d] = loop_new_var(lo->unit, DTYPE_I32, "r");
        begin_for(lo, &nests[depth++], it->mode[d], i32_const(lo, first_of_mode(lo, it, d)),
                  i32_const(lo, end_of_mode(lo, it, d)), i32_const(lo, 1), form);
    }
    if (it->batch_size && !it->is_loaded) {
        const int first = it->n_batched ? it->layout.mode[it->order[it->n_order - it->n_batched]].extent : 1;
        if (it->chunk < first) {
            it->chunk_begin = loop_new_var(lo->unit, DTYPE_I32, "r");
            begin_for(lo, &nests[depth++], it->chunk_begin, i32_const(lo, 0), i32_const(lo, first),
                      i32_const(lo, it->chunk), form);
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
           width * dtype_bits(type) >= 8 * CHOICE_BYTES_MIN &&
           buffer_root(store->store.buffer)->kind == BUFFER_TENSOR && value->kind == E_CONVERT && value->type == type &&
           value->convert.a->type == DTYPE_F32;
}

// What a vector takes is rounded in pairs; what is only moved keeps its bits.
bool waits_in_f32(Lowering *lo, const TileOp *store, bool rounds)
{
    return rounds || (is_fragment_in_registers(lo, store->store.buffer) && store->store.value->kind != E_LOAD);
}

void emit_vector_loads(Lowering *lo, Iteration *it)
{
    const int width = it->layout.mode[it->vector].extent;
    const int n = it->n_loaded;
    it->n_loaded = 0; // addresses are lowered without them
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load;
        Place place;
        if (it->loaded[i].in_words || !place_element(lo, load->load.buffer, load->load.subs, it, &place, load->span))
            continue;
        Var *const values = it->loaded[i].values = emit_array(
            lo, loop_type(load->load.buffer->type), arena_printf(lo->arena, "%s_v", load->load.buffer->name), width);
        if (place.root->kind == BUFFER_TENSOR)
            emit_tested_move(lo, "load_vector", width, var_of(lo, values), &place, NULL);
        else emit_shared_move(lo, "load", width, values, &place, NULL);
    }
    it->n_loaded = n;
    for (int i = 0; i < it->n_stored; i++) {
        const TileOp *const store = it->stored[i].store;
        const Buffer *const buffer = store->store.buffer;
        it->stored[i].rounds = rounds_together(store, width);
        const DType type = waits_in_f32(lo, store, it->stored[i].rounds) ? DTYPE_F32 : loop_type(buffer->type);
        it->stored[i].values = emit_array(lo, type, arena_printf(lo->arena, "%s_out", buffer->name), width);
    }
}

// The values go to a tensor as words; rows that divide into whole vectors are known at launch at the latest.
static void emit_tensor_store(Lowering *lo, Iteration *it, int i, const Place *place)
{
    const int width = it->layout.mode[it->vector].extent;
    TileOp *const store = it->stored[i].store;
    Buffer *const buffer = store->store.buffer;
    if (width * dtype_bits(buffer->type) < 8 * CHOICE_BYTES_MIN) {
        emit_tested_move(lo, "store_vector", width, var_of(lo, it->stored[i].values), place,
                         replica_is_first(lo, &it->layout));
        return;
    }
    Var *const words =
        emit_array(lo, DTYPE_U32, arena_printf(lo->arena, "%s_words", buffer->name), vector_words(buffer, width));
    const char *const verb = it->stored[i].rounds
                                 ? arena_printf(lo->arena, "round_%s<%d>", dtype_name(buffer->type), width)
                                 : arena_printf(lo->arena, "join<%d>", width);
    emit_call(lo, verb, 2, var_of(lo, words), var_of(lo, it->stored[i].values));
    Expr *test = NULL, *const first = replica_is_first(lo, &it->layout);
    const Wholeness whole = wholeness(lo, it, buffer, store->store.subs, &test);
    Nest choice;
    if (whole == PERHAPS_WHOLE) begin_if(lo, &choice, test);
    if (whole != NEVER_WHOLE) emit_whole_move(lo, "store", width, var_of(lo, words), place, first);
    if (whole == PERHAPS_WHOLE) begin_else(lo, &choice);
    if (whole != ALWAYS_WHOLE) emit_tested_move(lo, "store_words", width, var_of(lo, words), place, first);
    if (whole == PERHAPS_WHOLE) end_nest(lo, &choice);
}

void emit_vector_stores(Lowering *lo, Iteration *it)
{
    Var *const mode = it->mode[it->vector];
    it->mode[it->vector] = NULL;
    const int n_loaded = it->n_loaded;
    it->n_loaded = 0;
    for (int i = 0; i < it->n_stored; i++) {
        TileOp *const store = it->stored[i].store;
        Place place;
        if (lo->is_muted && !is_fragment_in_registers(lo, store->store.buffer)) continue;
        if (!place_element(lo, store->store.buffer, store->store.subs, it, &place, store->span)) continue;
        if (is_fragment_in_registers(lo, store->store.buffer)) {
            Var *const v = it->stored[i].values;
            emit_call(lo, "store_pair", 2, expr_address(lo->arena, place.pointer, place.at),
                      call_expr(lo, DTYPE_U32,
                                waits_in_f32(lo, store, false)
                                    ? arena_printf(lo->arena, "pack_%s", dtype_name(store->store.buffer->type))
                                    : "pack_bits",
                                2, expr_index(lo->arena, v, i32_const(lo, 0)),
                                expr_index(lo->arena, v, i32_const(lo, 1))));
        } else if (place.root->kind == BUFFER_TENSOR) {
            emit_tensor_store(lo, it, i, &place);
        } else {
            emit_shared_move(lo, "store", it->layout.mode[it->vector].extent, it->stored[i].values, &place,
                             replica_is_first(lo, &it->layout));
        }
    }
    it->n_loaded = n_loaded;
    it->mode[it->vector] = mode;
}
