// SPDX-License-Identifier: MIT
// print_shifted_rows.c - printing: rows that begin anywhere, which the producer's threads copy (shifted_rows.c).
//
// before: the loop's action has a ShiftedRows
// after:  from the loop's beginning to its end pr->shifted_vars has what is loaded ahead
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/values.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/build/parts.h"

// Where a step's rows begin, how many of them are inside, and how many elements of each, at most 16 bytes more than it has.
typedef struct StepAddress {
    Var *from, *rows, *columns;
} StepAddress;

typedef struct ShiftedVars {
    const ShiftedRows *rows;
    Var *next[LOOP_INDICES_MAX];
    Var *pitch[SHIFTED_MAX];
    Var *held[SHIFTED_MAX], *coming[SHIFTED_MAX];     // tails of the step at hand, and of the next one
    StepAddress here[SHIFTED_MAX], then[SHIFTED_MAX]; // their rows
} ShiftedVars;

static Expr *clamped(Printer *pr, int most, Expr *extent, Expr *start)
{
    return call_expr(pr, DTYPE_I32, arena_printf(pr->arena, "columns_left<%d>", most), 2, extent, start);
}

static StepAddress declare_address(Printer *pr, const ShiftedCopy *copy)
{
    const Buffer *const tensor = copy->tensor;
    const int last = tensor->rank - 1;
    Expr *subs[MAX_RANK], *inside = NULL;
    print_place(pr, copy->op->span);
    for (int d = 0; d <= last; d++) {
        subs[d] = var_of(pr, emit_declare(pr, DTYPE_I64, "from", lower_int64(pr, copy->start[d], NULL)));
        if (d != copy->along && d != last) inside = both(pr->lo, inside, is_below(pr, tensor, d, subs[d]));
    }
    inside =
        both(pr->lo, inside, expr_unary(pr->arena, X_NOT, lower_expr(pr, copy->aligned, NULL))); // else it is a box
    Expr *const rows = clamped(pr, copy->rows, lower_int64(pr, tensor->shape[copy->along], NULL), subs[copy->along]);
    StepAddress place;
    place.from = loop_new_pointer(pr->unit, pr->tensors[tensor->id]->type, "rows_from");
    emit_definition(pr, place.from,
                    expr_address(pr->arena, pr->tensors[tensor->id], place_in_tensor(pr, tensor, subs)));
    place.rows = emit_declare(pr, DTYPE_I32, "rows", expr_select(pr->arena, inside, rows, i32_const(pr, 0)));
    const int columns = copy->columns + 128 / dtype_bits(tensor->type);
    place.columns = emit_declare(pr, DTYPE_I32, "columns",
                                 clamped(pr, columns, lower_int64(pr, tensor->shape[last], NULL), subs[last]));
    return place;
}

// Elements from a row to the next.
static Expr *pitch_of(Printer *pr, const ShiftedCopy *copy)
{
    Expr *subs[MAX_RANK] = { NULL };
    subs[copy->along] = expr_int(pr->arena, DTYPE_I64, 1);
    return place_in_tensor(pr, copy->tensor, subs);
}

static const char *shape_of(Printer *pr, const ShiftedCopy *copy)
{
    return arena_printf(pr->arena, "%d, %d, %d, %d, %d", copy->rows, copy->columns, copy->of_warp, copy->shares,
                        copy->tile->shared.panel_bytes);
}

static Expr *slot_pointer(Printer *pr, const TileInfo *tile)
{
    Expr *const slot = var_of(pr, ring_vars(pr, tile->ring->ring_state)->slot);
    Expr *const bytes = expr_binary(pr->arena, X_MUL, slot, u32_const(pr, tile->shared.bytes));
    return shared_pointer(pr, tile_vars(pr, tile)->pointer->type,
                          i32_add(pr, i32_const(pr, tile->offset), cast(pr, DTYPE_I32, bytes)));
}

static void emit_rows(Printer *pr, const char *what, const ShiftedCopy *copy, Expr *to, const StepAddress *place)
{
    const ShiftedVars *const vars = pr->shifted_vars;
    emit_call(pr, arena_printf(pr->arena, "%s<%s>", what, shape_of(pr, copy)), 7, to, var_of(pr, place->from),
              var_of(pr, place->rows), var_of(pr, place->columns), var_of(pr, vars->pitch[copy->index]),
              var_of(pr, pr->warp), var_of(pr, pr->lane));
}

// Where this launch makes no box of them.
static void emit_shifted_rows(Printer *pr, const char *what, const ShiftedCopy *copy, Expr *to,
                              const StepAddress *place)
{
    Nest nest;
    print_place(pr, copy->op->span);
    begin_if(pr, &nest, expr_unary(pr->arena, X_NOT, lower_expr(pr, copy->aligned, NULL)));
    emit_rows(pr, what, copy, to, place);
    end_nest(pr, &nest);
}

// Of a step, to the slot that the ring's variables say, where the step is one.
static void fetch_step(Printer *pr, const ShiftedRows *rows, const StepAddress *addresses)
{
    const TileOp *const op = rows->pipeline;
    Expr *is_step = NULL, *from, *to;
    Nest step;
    for (int i = 0; i < op->pipeline.n; i++) {
        Var *const next = pr->shifted_vars->next[i];
        index_bounds(pr, &op->pipeline.indices[i], NULL, &from, &to);
        is_step = both(pr->lo, is_step, expr_binary(pr->arena, X_LT, var_of(pr, next), cast(pr, next->type, to)));
    }
    begin_if(pr, &step, is_step);
    for (int i = 0; i < rows->n; i++) {
        const Ring *const ring = rows->copies[i].tile->ring;
        if (is_first_of_ring(rows, i))
            emit_call(pr, "mbar_wait", 2, empty_barrier(pr, ring), var_of(pr, ring_vars(pr, ring->ring_state)->phase));
    }
    for (int i = 0; i < rows->n; i++) {
        const ShiftedCopy *const copy = &rows->copies[i];
        emit_shifted_rows(pr, "fetch_shifted", copy, slot_pointer(pr, copy->tile), &addresses[i]);
    }
    end_nest(pr, &step);
    emit_call(pr, "commit_shifted", 0);
}

// The next step's slot.
static void fetch_next(Printer *pr, const ShiftedRows *rows, const StepAddress *addresses)
{
    RingVars *const ring = ring_vars(pr, rows->copies[0].tile->ring->ring_state);
    const RingVars own = *ring;
    Expr *const last = expr_binary(pr->arena, X_EQ, var_of(pr, own.slot),
                                   u32_const(pr, rows->copies[0].tile->ring->ring_state->buffers - 1));
    Var *const slot = emit_declare(pr, DTYPE_U32, "next_slot",
                                   expr_select(pr->arena, last, u32_const(pr, 0),
                                               expr_binary(pr->arena, X_ADD, var_of(pr, own.slot), u32_const(pr, 1))));
    Var *const phase = emit_declare(
        pr, DTYPE_U32, "next_phase",
        expr_select(pr->arena, last, expr_binary(pr->arena, X_BITXOR, var_of(pr, own.phase), u32_const(pr, 1)),
                    var_of(pr, own.phase)));
    ring->slot = slot;
    ring->phase = phase;
    fetch_step(pr, rows, addresses);
    *ring = own;
}

// Of the step that `next` is.
static void declare_addresses(Printer *pr, const ShiftedRows *rows, StepAddress *addresses)
{
    const KnownVars known = known_vars(pr);
    use_next_step(pr, rows->pipeline, pr->shifted_vars->next);
    for (int i = 0; i < rows->n; i++) addresses[i] = declare_address(pr, &rows->copies[i]);
    restore_vars(pr, known);
}

// What is on its way while a step is shifted: the next one's rows, and its tails, which are kept when it ends.
static void begin_ahead(Printer *pr, const ShiftedRows *rows)
{
    ShiftedVars *const vars = pr->shifted_vars;
    advance_next_step(pr, rows->pipeline, vars->next);
    declare_addresses(pr, rows, vars->then);
    for (int i = 0; i < rows->n; i++) {
        vars->coming[i] = emit_array(pr, DTYPE_U32, "coming", rows->copies[i].tail_words);
        emit_shifted_rows(pr, "load_tails", &rows->copies[i], var_of(pr, vars->coming[i]), &vars->then[i]);
    }
    fetch_next(pr, rows, vars->then);
    print_place(pr, rows->pipeline->span);
}

// The first step's, before the loop.
static void fetch_first(Printer *pr, const ShiftedRows *rows)
{
    ShiftedVars *const vars = pr->shifted_vars;
    declare_next_step(pr, rows->pipeline, vars->next);
    declare_addresses(pr, rows, vars->here);
    fetch_step(pr, rows, vars->here);
    for (int i = 0; i < rows->n; i++)
        emit_shifted_rows(pr, "load_tails", &rows->copies[i], var_of(pr, vars->held[i]), &vars->here[i]);
    print_place(pr, rows->pipeline->span);
}

void begin_shifted_rows(Printer *pr, const Action *action)
{
    const ShiftedRows *const rows = action->print;
    ShiftedVars *const vars = NEW(pr->arena, ShiftedVars, .rows = rows);
    for (int i = 0; i < rows->n; i++) {
        vars->pitch[i] = emit_declare(pr, DTYPE_I64, "pitch", pitch_of(pr, &rows->copies[i]));
        vars->held[i] = emit_array(pr, DTYPE_U32, "held", rows->copies[i].tail_words);
    }
    pr->shifted_vars = vars;
    if (rows->ahead) fetch_first(pr, rows);
    print_loop(pr, action);
    if (rows->ahead) begin_ahead(pr, rows);
}

void end_shifted_rows(Printer *pr, const Action *action)
{
    const ShiftedRows *const rows = action->print;
    const ShiftedVars *const vars = pr->shifted_vars;
    for (int i = 0; rows->ahead && i < rows->n; i++) {
        emit_assign(pr, vars->here[i].from, var_of(pr, vars->then[i].from));
        emit_assign(pr, vars->here[i].rows, var_of(pr, vars->then[i].rows));
        emit_assign(pr, vars->here[i].columns, var_of(pr, vars->then[i].columns));
        emit_call(pr, arena_printf(pr->arena, "keep_tails<%d>", rows->copies[i].tail_words), 2,
                  var_of(pr, vars->held[i]), var_of(pr, vars->coming[i]));
    }
    end_loop(pr, action);
    pr->shifted_vars = NULL;
}

void print_shifted_copy(Printer *pr, const ShiftedCopy *copy)
{
    ShiftedVars *const vars = pr->shifted_vars;
    const int i = copy->index;
    const bool ahead = vars->rows->ahead;
    Nest block;
    pr->next_part = NULL; // its parts are here
    begin_block(pr, &block);
    if (!ahead) {
        vars->here[i] = declare_address(pr, copy);
        emit_rows(pr, "fetch_shifted", copy, var_of(pr, tile_vars(pr, copy->tile)->pointer), &vars->here[i]);
        emit_call(pr, "commit_shifted", 0);
        emit_rows(pr, "load_tails", copy, var_of(pr, vars->held[i]), &vars->here[i]);
    }
    emit_call(pr, ahead ? "wait_shifted<1>" : "wait_shifted<0>", 0);
    emit_call(pr, arena_printf(pr->arena, "shift_rows<%s>", shape_of(pr, copy)), 6, var_of(pr, vars->held[i]),
              var_of(pr, tile_vars(pr, copy->tile)->pointer), var_of(pr, vars->here[i].from),
              var_of(pr, vars->pitch[i]), var_of(pr, pr->warp), var_of(pr, pr->lane));
    end_nest(pr, &block);
}
