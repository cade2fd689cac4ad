// SPDX-License-Identifier: MIT
// print_shifted_rows.c - printing: rows that begin anywhere, which the producer's threads copy (shifted_rows.c).
//
// before: the loop's action has a ShiftedRows
// after:  from the loop's beginning to its end pr->shifted_vars has what is loaded ahead
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/values.h"

// Where a step's rows begin, how many of them are inside, and how many elements of each, one word more than it has at most.
typedef struct StepPlace {
    Var *from, *rows, *columns;
} StepPlace;

typedef struct ShiftedVars {
    const ShiftedRows *rows;
    Var *next[LOOP_INDICES_MAX];
    Var *held[SHIFTED_MAX], *pitch[SHIFTED_MAX];
    StepPlace here[SHIFTED_MAX]; // of what is held
} ShiftedVars;

static Expr *clamped(Printer *pr, int most, Expr *extent, Expr *start)
{
    return call_expr(pr, DTYPE_I32, arena_printf(pr->arena, "columns_left<%d>", most), 2, extent, start);
}

static StepPlace declare_place(Printer *pr, const ShiftedCopy *copy)
{
    const Buffer *const tensor = copy->tensor;
    const int last = tensor->rank - 1;
    Expr *subs[MAX_RANK], *inside = NULL;
    for (int d = 0; d <= last; d++) {
        subs[d] = var_of(pr, emit_declare(pr, DTYPE_I64, "from", lower_int64(pr, copy->start[d], NULL)));
        if (d != copy->along && d != last) inside = both(pr->lo, inside, is_below(pr, tensor, d, subs[d]));
    }
    inside =
        both(pr->lo, inside, expr_unary(pr->arena, X_NOT, lower_expr(pr, copy->aligned, NULL))); // else it is a box
    Expr *const rows = clamped(pr, copy->rows, lower_int64(pr, tensor->shape[copy->along], NULL), subs[copy->along]);
    StepPlace place;
    place.from = loop_new_pointer(pr->unit, pr->tensors[tensor->id]->type, "rows_from");
    emit_definition(pr, place.from,
                    expr_address(pr->arena, pr->tensors[tensor->id], place_in_tensor(pr, tensor, subs)));
    place.rows = emit_declare(pr, DTYPE_I32, "rows", expr_select(pr->arena, inside, rows, i32_const(pr, 0)));
    const int columns = copy->columns + 32 / dtype_bits(tensor->type);
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
    return arena_printf(pr->arena, "%d, %d, %d", copy->rows, copy->columns, copy->held);
}

void begin_shifted_rows(Printer *pr, const Action *action)
{
    const ShiftedRows *const rows = action->print;
    ShiftedVars *const vars = NEW(pr->arena, ShiftedVars, .rows = rows);
    declare_next_step(pr, rows->pipeline, vars->next);
    for (int i = 0; i < rows->n; i++) {
        const ShiftedCopy *const copy = &rows->copies[i];
        vars->pitch[i] = emit_declare(pr, DTYPE_I64, "pitch", pitch_of(pr, copy));
        vars->held[i] = emit_array(pr, DTYPE_U32, "held", 2 * copy->held * copy->parts);
        const KnownVars known = known_vars(pr);
        use_next_step(pr, rows->pipeline, vars->next);
        vars->here[i] = declare_place(pr, copy);
        emit_call(pr, arena_printf(pr->arena, "load_shifted<%s>", shape_of(pr, copy)), 7, var_of(pr, vars->held[i]),
                  var_of(pr, vars->here[i].from), var_of(pr, vars->pitch[i]), var_of(pr, vars->here[i].rows),
                  var_of(pr, vars->here[i].columns), var_of(pr, pr->warp), var_of(pr, pr->lane));
        restore_vars(pr, known);
    }
    pr->shifted_vars = vars;
    pr->has_shifted_rows = true;
    print_loop(pr, action);
    advance_next_step(pr, rows->pipeline, vars->next);
}

void end_shifted_rows(Printer *pr, const Action *action)
{
    end_loop(pr, action);
    pr->shifted_vars = NULL;
}

void print_shifted_copy(Printer *pr, const ShiftedCopy *copy)
{
    const ShiftedVars *const vars = pr->shifted_vars;
    const StepPlace *const here = &vars->here[copy->index];
    const KnownVars known = known_vars(pr);
    Nest block;
    begin_block(pr, &block);
    use_next_step(pr, vars->rows->pipeline, vars->next);
    const StepPlace next = declare_place(pr, copy);
    emit_call(pr, arena_printf(pr->arena, "move_shifted<%s, %d>", shape_of(pr, copy), copy->tile->shared.panel_bytes),
              11, var_of(pr, vars->held[copy->index]), var_of(pr, tile_vars(pr, copy->tile)->pointer),
              var_of(pr, here->from), var_of(pr, here->rows), var_of(pr, here->columns), var_of(pr, next.from),
              var_of(pr, next.rows), var_of(pr, next.columns), var_of(pr, vars->pitch[copy->index]),
              var_of(pr, pr->warp), var_of(pr, pr->lane));
    emit_assign(pr, here->from, var_of(pr, next.from));
    emit_assign(pr, here->rows, var_of(pr, next.rows));
    emit_assign(pr, here->columns, var_of(pr, next.columns));
    end_nest(pr, &block);
    restore_vars(pr, known);
}
