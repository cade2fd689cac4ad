// SPDX-License-Identifier: MIT
// moves.c - the code of wide loads and stores, and the loops over the registers around them (vector.c chose which).
//
// One uniform test decides whether rows divide into whole vectors; then each is inside or outside as a whole. If not,
// the prelude's load_vector and store_vector test bounds and alignment of each and fall back to single elements.
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/facts/row_pieces.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/values.h"

enum {
    CHOICE_BYTES_MIN = 8, // of a vector that is worth code for rows of both kinds
    UNALIGNED_WORDS = 9   // of two pieces, and where between them a vector begins
};

// The buffer whose rows are counted where elements are: the root, or a view that is all of a tensor in another shape.
static const Buffer *leave_views(Printer *pr, const Buffer *buffer, Expr **column)
{
    for (; buffer->kind == BUFFER_VIEW && !is_flat_tensor(buffer); buffer = buffer->base.buffer)
        *column = int_add(pr->arena, buffer->base.subs[buffer->base.buffer->rank - 1].start, *column);
    return buffer;
}

typedef enum { NEVER_WHOLE, PERHAPS_WHOLE, ALWAYS_WHOLE } Wholeness;

// Is the whole vector inside or outside its row, and aligned? `test` (lowered): if so for PERHAPS_WHOLE.
// Launches guarantee that tensors start at multiples of 16 bytes.
static Wholeness wholeness(Printer *pr, const Iteration *it, Buffer *buffer, Expr *const *subs, Expr **test)
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
    Expr *rest = NULL, *column = subs[buffer->rank - 1];
    const Buffer *const rows = leave_views(pr, buffer, &column);
    if (root->kind != BUFFER_TENSOR || root->strided || width * dtype_bits(root->type) > 8 * 64 ||
        !expr_affine(pr->arena, column, &run, 1, &coefficient, &rest) || coefficient != 1 ||
        expr_multiple(rest) % width != 0)
        return NEVER_WHOLE;
    Expr *const columns = rows->shape[rows->rank - 1];
    if (expr_multiple(columns) % width == 0) return ALWAYS_WHOLE;
    if (width * dtype_bits(root->type) < 8 * CHOICE_BYTES_MIN && !dtype_is_packed(root->type)) return NEVER_WHOLE;
    Expr *const over = expr_binary(pr->arena, X_MOD, columns, int_const(pr->arena, width));
    *test = lower_expr(pr, expr_binary(pr->arena, X_EQ, over, int_const(pr->arena, 0)), NULL);
    return PERHAPS_WHOLE;
}

static Expr *or_true(Printer *pr, Expr *test) { return test ? test : expr_bool(pr->arena, true); }

// One vector of a shared tile.
static void emit_shared_move(Printer *pr, const char *verb, int width, Var *values, const Place *place, Expr *extra)
{
    Expr *const address = expr_address(pr->arena, place->pointer, place->at);
    Expr *const rows = or_true(pr, both(pr->lo, extra, place->rows_inside));
    emit_call(pr, arena_printf(pr->arena, "%s_shared<%d>", verb, width), 3, var_of(pr, values), address, rows);
}

// One vector of a tensor: `columns` are tested by the function.
static void emit_tested_move(Printer *pr, const char *verb, int width, Expr *words, const Place *place, Expr *extra)
{
    Expr *const columns = place->columns ? place->columns : lower_int64(pr, place->extent, NULL);
    emit_call(pr, arena_printf(pr->arena, "%s<%d>", verb, width), 5, words,
              expr_address(pr->arena, place->pointer, place->at), or_true(pr, both(pr->lo, extra, place->rows_inside)),
              place->column, columns);
}

// Of packed elements: their bytes at once, or each by itself.
static void emit_packed_load(Printer *pr, bool whole, int width, Expr *words, const Place *place)
{
    const int bits = dtype_bits(place->root->type);
    if (whole) {
        Expr *const bytes =
            expr_binary(pr->arena, X_SHR, place->at, expr_int(pr->arena, place->at->type, bits == 4 ? 1 : 2));
        Var *const start = loop_new_pointer(pr->unit, DTYPE_U8, "codes");
        emit_definition(pr, start, expr_address(pr->arena, place->pointer, bytes));
        emit_call(pr, arena_printf(pr->arena, "load_whole<%d>", width * bits / 8), 3, words, var_of(pr, start),
                  or_true(pr, place->inside));
        return;
    }
    Expr *const columns = place->columns ? place->columns : lower_int64(pr, place->extent, NULL);
    emit_call(pr, arena_printf(pr->arena, "load_codes<%d, %d>", bits, width), 6, words, var_of(pr, place->pointer),
              place->at, or_true(pr, place->rows_inside), place->column, columns);
}

static void emit_whole_move(Printer *pr, const char *verb, int width, Expr *words, const Place *place, Expr *extra)
{
    emit_call(pr, arena_printf(pr->arena, "%s_whole<%d>", verb, width), 3, words,
              expr_address(pr->arena, place->pointer, place->at), or_true(pr, both(pr->lo, extra, place->inside)));
}

// Loops over the iterations whose loads are made together.
static int begin_batch(Printer *pr, Iteration *it, Nest *nests)
{
    for (int i = 0; i < it->n_batched; i++) {
        const int d = it->order[it->n_order - it->n_batched + i];
        const int extent = i == 0 ? it->chunk : it->layout.mode[d].extent;
        Var *const at = begin_unrolled(pr, &nests[i], "r", extent);
        it->batch[d].at = it->mode[d] = at;
        it->batch[d].extent = extent;
        if (i == 0 && it->chunk_begin)
            it->mode[d] = emit_declare(pr, DTYPE_I32, "r", i32_add(pr, var_of(pr, it->chunk_begin), var_of(pr, at)));
    }
    return it->n_batched;
}

// Narrow elements from any of them on, by the producer: words that are put right when all are there (around.cuh).
static bool is_loaded_around(Printer *pr, const Iteration *it, int i, bool trusting)
{
    const Expr *const load = it->loaded[i].load;
    const int bits = dtype_bits(load->load.buffer->type), width = it->layout.mode[it->vector].extent;
    Expr *unused;
    return it->loaded[i].in_words && pr->lo->begins_anywhere && pr->lo->role == ROLE_PRODUCER &&
           (bits == 8 || bits == 16) && width * bits % 32 == 0 &&
           !(trusting && wholeness(pr, it, load->load.buffer, load->load.subs, &unused) != NEVER_WHOLE);
}

static bool is_unaligned(const Iteration *it, int i)
{
    return it->loaded[i].in_words && it->loaded[i].load->load.buffer->unaligned;
}

static int raw_words(const Iteration *it, int i)
{
    if (is_unaligned(it, i)) return UNALIGNED_WORDS;
    return vector_words(it->loaded[i].load->load.buffer, it->layout.mode[it->vector].extent) + 2;
}

static Expr *raw_of_batch(Printer *pr, const Iteration *it, Var *raw, int i)
{
    return expr_address(pr->arena, raw, i32_mul(pr, batch_number(pr, it), raw_words(it, i)));
}

static void declare_raw(Printer *pr, Iteration *it, bool trusting, Var **raw)
{
    for (int i = 0; i < it->n_loaded; i++)
        if (is_unaligned(it, i) || is_loaded_around(pr, it, i, trusting))
            raw[i] = emit_array(pr, DTYPE_U32, arena_printf(pr->arena, "%s_raw", it->loaded[i].load->load.buffer->name),
                                it->batch_size * raw_words(it, i));
}

static void settle_raw(Printer *pr, Iteration *it, Var *const *raw)
{
    Nest nests[LAYOUT_MAX_MODES];
    const int width = it->layout.mode[it->vector].extent;
    bool any = false;
    for (int i = 0; i < it->n_loaded; i++) any |= raw[i] != NULL;
    if (!any) return;
    const int depth = begin_batch(pr, it, nests);
    for (int i = 0; i < it->n_loaded; i++) {
        if (!raw[i]) continue;
        const Buffer *const buffer = it->loaded[i].load->load.buffer;
        const char *const verb = is_unaligned(it, i) ? "settle_unaligned" : "settle";
        emit_call(pr, arena_printf(pr->arena, "%s<%d, %s>", verb, width, dtype_info[loop_type(buffer->type)].c_name), 2,
                  expr_address(pr->arena, it->loaded[i].values,
                               i32_mul(pr, batch_number(pr, it), vector_words(buffer, width))),
                  raw_of_batch(pr, it, raw[i], i));
    }
    end_nests(pr, nests, depth);
}

// Of a tensor whose rows begin anywhere, and whose columns may lie apart.
static void emit_unaligned_load(Printer *pr, int width, Expr *raw, const Place *place)
{
    const Buffer *const tensor = place->root;
    Expr *const stride =
        call_expr(pr, DTYPE_I64, "param_word", 1, i32_const(pr, pr->tensors[tensor->id]->multiple + tensor->rank));
    Expr *const columns = place->columns ? place->columns : lower_int64(pr, place->extent, NULL);
    emit_call(pr, arena_printf(pr->arena, "load_unaligned<%d>", width), 6, raw,
              expr_address(pr->arena, place->pointer, place->at), stride, or_true(pr, place->rows_inside),
              place->column, columns);
}

// Loads of all iterations of the batch into their words. `trusting`: rows divide into whole vectors.
static void emit_loads_of_batch(Printer *pr, Iteration *it, bool trusting)
{
    Nest nests[LAYOUT_MAX_MODES], block, guard;
    const int width = it->layout.mode[it->vector].extent, n = it->n_loaded;
    Var *raw[COUNT(it->loaded)] = { 0 };
    declare_raw(pr, it, trusting, raw);
    const int depth = begin_batch(pr, it, nests);
    begin_block(pr, &block);
    Expr *const valid = declare_indices(pr, it, ~0u);
    if (valid) begin_if(pr, &guard, valid);
    it->n_loaded = 0; // addresses are lowered without them
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load, *unused;
        Place place;
        if (!it->loaded[i].in_words) continue;
        place_element(pr, load->load.buffer, load->load.subs, it, &place, load->span);
        Expr *const words = expr_address(pr->arena, it->loaded[i].values,
                                         i32_mul(pr, batch_number(pr, it), vector_words(load->load.buffer, width)));
        const bool whole = trusting && wholeness(pr, it, load->load.buffer, load->load.subs, &unused) != NEVER_WHOLE;
        if (is_packed_place(&place)) emit_packed_load(pr, whole, width, words, &place);
        else if (whole) emit_whole_move(pr, "load", width, words, &place, NULL);
        else if (is_unaligned(it, i)) emit_unaligned_load(pr, width, raw_of_batch(pr, it, raw[i], i), &place);
        else if (raw[i]) emit_tested_move(pr, "load_around", width, raw_of_batch(pr, it, raw[i], i), &place, NULL);
        else emit_tested_move(pr, "load_words", width, words, &place, NULL);
    }
    it->n_loaded = n;
    if (valid) end_nest(pr, &guard);
    end_nest(pr, &block);
    end_nests(pr, nests, depth);
    settle_raw(pr, it, raw);
}

// The words and the loads into them, both ways where only the launch tells which.
void emit_batch(Printer *pr, Iteration *it)
{
    for (int i = 0; i < it->n_loaded; i++)
        if (it->loaded[i].in_words) {
            const Buffer *const buffer = it->loaded[i].load->load.buffer;
            it->loaded[i].values =
                emit_array(pr, DTYPE_U32, arena_printf(pr->arena, "%s_v", buffer->name),
                           it->batch_size * vector_words(buffer, it->layout.mode[it->vector].extent));
        }
    Expr *test = NULL;
    bool trusting = false;
    for (int i = 0; i < it->n_loaded; i++) {
        const Expr *const load = it->loaded[i].load;
        Expr *one = NULL;
        const Wholeness whole =
            it->loaded[i].in_words ? wholeness(pr, it, load->load.buffer, load->load.subs, &one) : NEVER_WHOLE;
        trusting |= whole != NEVER_WHOLE;
        if (whole == PERHAPS_WHOLE && !(test && expr_equal(test, one))) test = both(pr->lo, test, one);
    }
    Nest choice;
    if (test) begin_if(pr, &choice, test);
    emit_loads_of_batch(pr, it, trusting);
    if (test) {
        begin_else(pr, &choice);
        emit_loads_of_batch(pr, it, false);
        end_nest(pr, &choice);
    }
    it->is_loaded = true;
}

// A mode's values: all, or one where rows are printed in two parts.
static bool divides_rows(Printer *pr, const Iteration *it, int i)
{
    const LayoutMode *const mode = &it->layout.mode[i];
    return pr->row_part > 0 && mode->input == IN_REGISTER && mode->dim == 0 && mode->extent == 2;
}

int first_of_mode(Printer *pr, const Iteration *it, int i) { return divides_rows(pr, it, i) ? pr->row_part - 1 : 0; }

int end_of_mode(Printer *pr, const Iteration *it, int i)
{
    return divides_rows(pr, it, i) ? pr->row_part : it->layout.mode[i].extent;
}

static LoopForm form_of_loops(const Printer *pr)
{
    // The producer has few registers and none of them in arrays; the many tests of a --check build shall stay loops.
    return pr->lo->role == ROLE_PRODUCER || pr->lo->kernel->checked ? LOOP_NO_UNROLL : LOOP_UNROLL;
}

int begin_mode_loops(Printer *pr, Iteration *it, int first, int end, Nest *nests)
{
    for (int i = first; i < end; i++) {
        const int d = it->order[i];
        it->mode[d] = loop_new_var(pr->unit, DTYPE_I32, "r");
        begin_for(pr, &nests[i - first], it->mode[d], i32_const(pr, first_of_mode(pr, it, d)),
                  i32_const(pr, end_of_mode(pr, it, d)), i32_const(pr, 1), form_of_loops(pr));
    }
    return end - first;
}

int begin_register_loops(Printer *pr, Iteration *it, Nest *nests)
{
    int depth = begin_mode_loops(pr, it, 0, it->n_order - it->n_batched, nests);
    if (it->batch_size && !it->is_loaded) {
        const int first = it->n_batched ? it->layout.mode[it->order[it->n_order - it->n_batched]].extent : 1;
        if (it->chunk < first) {
            it->chunk_begin = loop_new_var(pr->unit, DTYPE_I32, "r");
            begin_for(pr, &nests[depth++], it->chunk_begin, i32_const(pr, 0), i32_const(pr, first),
                      i32_const(pr, it->chunk), form_of_loops(pr));
        }
        begin_block(pr, &nests[depth++]);
        emit_batch(pr, it);
    }
    return depth + begin_batch(pr, it, nests + depth);
}

bool is_fp8(DType type) { return type == DTYPE_E4M3 || type == DTYPE_E5M2; }

// What is stored in a narrow floating type is rounded together: f32 to a tensor, fp8 to a tile of 16 bits.
static bool rounds_together(const TileOp *store, int width)
{
    const DType type = store->store.buffer->type;
    const Expr *const value = store->store.value;
    if (value->kind == E_CONVERT && value->type == type && is_fp8(value->convert.a->type))
        return (type == DTYPE_BF16 || type == DTYPE_F16) && width % 2 == 0 &&
               buffer_root(store->store.buffer)->kind == BUFFER_SHARED;
    return (type == DTYPE_BF16 || type == DTYPE_F16 || type == DTYPE_E4M3 || type == DTYPE_E5M2) &&
           width * dtype_bits(type) >= 8 * CHOICE_BYTES_MIN &&
           buffer_root(store->store.buffer)->kind == BUFFER_TENSOR && value->kind == E_CONVERT && value->type == type &&
           value->convert.a->type == DTYPE_F32;
}

// The load of e4m3 whose codes a store into a tile of 16 bits has as they are, four at a time; -1: none.
static int converted_codes(Printer *pr, const Iteration *it, const TileOp *store, int width)
{
    const Expr *const value = store->store.value;
    if (!pr->lo->gpu->converts_fp8 || width % 4 != 0 || value->convert.a->type != DTYPE_E4M3) return -1;
    for (int i = 0; i < it->n_loaded; i++)
        if (!it->loaded[i].in_words && expr_equal(it->loaded[i].load, value->convert.a)) return i;
    return -1;
}

// What a vector takes is rounded in pairs; what is only moved, or converted in pairs beforehand, keeps its bits.
bool waits_in_f32(Printer *pr, const Iteration *it, const TileOp *store, bool rounds)
{
    if (is_unpacked(it, store->store.value)) return false;
    return rounds || (is_fragment_in_registers(pr->lo, store->store.buffer) && store->store.value->kind != E_LOAD);
}

static bool divides(const Expr *load)
{
    bool any = false;
    for (int d = 0; d < load->load.buffer->rank; d++) any |= expr_has_division(load->load.subs[d]);
    return any;
}

// Where a row is, is worked out only for pieces that begin before its end.
static void divide_inside(Printer *pr, Place *place)
{
    Expr *const before_end = place->columns ? expr_binary(pr->arena, X_LT, place->column, place->columns) : NULL;
    Expr *const inside = both(pr->lo, before_end, place->rows_inside);
    if (!inside) return;
    place->rows_inside = var_of(pr, emit_declare(pr, DTYPE_BOOL, "inside", inside));
    place->at = expr_select(pr->arena, place->rows_inside, place->at, expr_int(pr->arena, place->at->type, 0));
}

// A pair of integers of a word is taken out of two copies of its byte, where a number of the other type has room for both.
static bool is_in_halves(const Iteration *it, int i)
{
    const Expr *const convert = it->codes[i].convert;
    const DType of = convert->convert.a->type, to = convert->type;
    const int room = to == DTYPE_F16 ? 10 : to == DTYPE_BF16 ? 7 : 0;
    return it->codes[i].byte && it->layout.mode[it->vector].extent == 2 && dtype_is_integer(of) &&
           2 * dtype_bits(of) <= room;
}

// The codes of a vector, from bit 0 on, and others above them.
static Expr *load_codes(Printer *pr, const Iteration *it, int i, int bits)
{
    Arena *const a = pr->arena;
    const char *const take = is_in_halves(it, i) ? "byte_in_halves" : "byte_of_word";
    Place place;
    Expr *const byte = it->codes[i].byte, *const position = it->codes[i].position;
    place_element(pr, it->codes[i].bytes, it->codes[i].subs, it, &place, it->codes[i].convert->span);
    Expr *const address = expr_address(a, place.pointer, place.at);
    const int all = bits * it->layout.mode[it->vector].extent;
    if (!byte) return call_expr(pr, DTYPE_U32, arena_printf(a, "element_as<uint%d_t>", all), 1, address);
    Expr *const at = cast(pr, DTYPE_I32, lower_expr(pr, byte, it));
    Expr *const word = call_expr(pr, DTYPE_U32, "element_as<uint32_t>", 2, address, i32_op(pr, X_BITAND, at, 12));
    Expr *const codes = call_expr(pr, DTYPE_U32, take, 2, word, i32_op(pr, X_BITAND, at, 3));
    if (!position) return codes;
    Expr *const bit = i32_mul(pr, cast(pr, DTYPE_I32, lower_expr(pr, position, it)), bits);
    return expr_binary(a, X_SHR, codes, cast(pr, DTYPE_U32, bit));
}

// Conversions of a packed tile's codes, of all of a vector's together.
static void emit_codes(Printer *pr, Iteration *it)
{
    const int width = it->layout.mode[it->vector].extent;
    for (int i = 0; i < it->n_codes; i++) {
        const Expr *const convert = it->codes[i].convert;
        const DType of = convert->convert.a->type, to = convert->type;
        Var *const values = it->codes[i].values =
            emit_array(pr, loop_type(to), arena_printf(pr->arena, "%s_v", it->codes[i].bytes->name), width);
        const char *const name = arena_printf(pr->arena, "unpack_%s_%s", dtype_name(of), dtype_name(to));
        emit_call(pr,
                  is_in_halves(it, i) ? arena_printf(pr->arena, "%s_of_halves", name)
                                      : arena_printf(pr->arena, "%s<%d>", name, width),
                  2, var_of(pr, values), load_codes(pr, it, i, dtype_bits(of)));
    }
}

void emit_vector_loads(Printer *pr, Iteration *it)
{
    const int width = it->layout.mode[it->vector].extent;
    const int n = it->n_loaded;
    it->n_loaded = 0; // addresses are lowered without them
    emit_codes(pr, it);
    for (int i = 0; i < n; i++) {
        Expr *const load = it->loaded[i].load;
        Place place;
        if (it->loaded[i].in_words) continue;
        place_element(pr, load->load.buffer, load->load.subs, it, &place, load->span);
        Var *const values = it->loaded[i].values = emit_array(
            pr, loop_type(load->load.buffer->type), arena_printf(pr->arena, "%s_v", load->load.buffer->name), width);
        if (place.root->kind == BUFFER_TENSOR) {
            if (pr->lo->role == ROLE_PRODUCER && divides(load)) divide_inside(pr, &place);
            emit_tested_move(pr, "load_vector", width, var_of(pr, values), &place, NULL);
        } else {
            emit_shared_move(pr, "load", width, values, &place, NULL);
        }
    }
    it->n_loaded = n;
    for (int i = 0; i < it->n_stored; i++) {
        const TileOp *const store = it->stored[i].store;
        const Buffer *const buffer = store->store.buffer;
        it->stored[i].rounds = rounds_together(store, width);
        const bool of_fp8 = it->stored[i].rounds && is_fp8(store->store.value->convert.a->type);
        it->stored[i].codes = of_fp8 ? converted_codes(pr, it, store, width) : -1;
        if (it->stored[i].codes >= 0) continue;
        const DType type = waits_in_f32(pr, it, store, it->stored[i].rounds) ? DTYPE_F32 : loop_type(buffer->type);
        it->stored[i].values = emit_array(pr, type, arena_printf(pr->arena, "%s_out", buffer->name), width);
    }
}

// The values go to a tensor as words; rows that divide into whole vectors are known at launch at the latest.
static void emit_tensor_store(Printer *pr, Iteration *it, int i, const Place *place)
{
    const int width = it->layout.mode[it->vector].extent;
    TileOp *const store = it->stored[i].store;
    Buffer *const buffer = store->store.buffer;
    if (width * dtype_bits(buffer->type) < 8 * CHOICE_BYTES_MIN) {
        emit_tested_move(pr, "store_vector", width, var_of(pr, it->stored[i].values), place,
                         replica_is_first(pr, &it->layout));
        return;
    }
    Var *const words =
        emit_array(pr, DTYPE_U32, arena_printf(pr->arena, "%s_words", buffer->name), vector_words(buffer, width));
    const char *const verb = it->stored[i].rounds
                                 ? arena_printf(pr->arena, "round_%s<%d>", dtype_name(buffer->type), width)
                                 : arena_printf(pr->arena, "join<%d>", width);
    emit_call(pr, verb, 2, var_of(pr, words), var_of(pr, it->stored[i].values));
    Expr *test = NULL, *const first = replica_is_first(pr, &it->layout);
    const Wholeness whole = wholeness(pr, it, buffer, store->store.subs, &test);
    Nest choice;
    if (whole == PERHAPS_WHOLE) begin_if(pr, &choice, test);
    if (whole != NEVER_WHOLE) emit_whole_move(pr, "store", width, var_of(pr, words), place, first);
    if (whole == PERHAPS_WHOLE) begin_else(pr, &choice);
    if (whole != ALWAYS_WHOLE) emit_tested_move(pr, "store_words", width, var_of(pr, words), place, first);
    if (whole == PERHAPS_WHOLE) end_nest(pr, &choice);
}

// Eight elements of 16 bits that a quad has put together.
void store_quad(Printer *pr, const TileOp *store, Var *words, const Iteration *it)
{
    Place place;
    place_element(pr, store->store.buffer, store->store.subs, it, &place, store->span);
    emit_tested_move(pr, "store_words", 8, var_of(pr, words), &place, NULL);
}

void emit_vector_stores(Printer *pr, Iteration *it)
{
    Var *const mode = it->mode[it->vector];
    it->mode[it->vector] = NULL;
    const int n_loaded = it->n_loaded;
    it->n_loaded = 0;
    for (int i = 0; i < it->n_stored; i++) {
        TileOp *const store = it->stored[i].store;
        Place place;
        if (pr->is_muted && !is_fragment_in_registers(pr->lo, store->store.buffer)) continue;
        place_element(pr, store->store.buffer, store->store.subs, it, &place, store->span);
        if (is_fragment_in_registers(pr->lo, store->store.buffer)) {
            Var *const v = it->stored[i].values;
            emit_call(pr, "store_pair", 2, expr_address(pr->arena, place.pointer, place.at),
                      call_expr(pr, DTYPE_U32,
                                waits_in_f32(pr, it, store, false)
                                    ? arena_printf(pr->arena, "pack_%s", dtype_name(store->store.buffer->type))
                                    : "pack_bits",
                                2, expr_index(pr->arena, v, i32_const(pr, 0)),
                                expr_index(pr->arena, v, i32_const(pr, 1))));
        } else if (place.root->kind == BUFFER_TENSOR) {
            emit_tensor_store(pr, it, i, &place);
        } else {
            const int codes = it->stored[i].codes;
            const char *const verb =
                codes >= 0 ? arena_printf(pr->arena, "store_%s_of_e4m3", dtype_name(store->store.buffer->type))
                : it->stored[i].rounds ? arena_printf(pr->arena, "store_%s", dtype_name(store->store.buffer->type))
                : is_unpacked(it, store->store.value) && dtype_bits(store->store.buffer->type) == 16 ? "store_pairs"
                                                                                                     : "store";
            emit_shared_move(pr, verb, it->layout.mode[it->vector].extent,
                             codes >= 0 ? it->loaded[codes].values : it->stored[i].values, &place,
                             replica_is_first(pr, &it->layout));
        }
    }
    it->n_loaded = n_loaded;
    it->mode[it->vector] = mode;
}
