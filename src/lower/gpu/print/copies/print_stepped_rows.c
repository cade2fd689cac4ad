// SPDX-License-Identifier: MIT
// print_stepped_rows.c - printing: whole rows that a thread copies, whose addresses it computes once before the pipeline
// (stepped_rows.c).
//
// before: the loop's action has a SteppedRows
// after:  from the loop's beginning to its end pr->stepped_vars has the row indices, and what is loaded ahead
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/control/print_statements.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/values.h"

typedef struct SteppedVars {
    const SteppedRows *rows;
    Var *part, *align, *held;                     // part: which of a row's pieces are the thread's
    Var *line[STEPPED_LINES], *at[STEPPED_LINES]; // of each row: its number in the tile, elements from the tensor's
    Var *inside[STEPPED_LINES];                   // start; what the step does not change of being inside
    Var *sub[STEPPED_LINES][MAX_RANK];
    Var *next[LOOP_INDICES_MAX]; // the indices of the step whose first pieces are loaded
} SteppedVars;

// Where a step stands in all rows.
typedef struct Step {
    Expr *at, *sub[MAX_RANK]; // elements from the row indices; NULL: 0
    Var *left;                // columns inside
} Step;

// ---- before the pipeline

static void place_line(Printer *pr, SteppedVars *vars, Expr *first, int i)
{
    const SteppedRows *const rows = vars->rows;
    const int last = rows->tensor->rank - 1;
    Expr *subs[MAX_RANK] = { NULL }, *inside = NULL;
    vars->line[i] = emit_declare(pr, DTYPE_I32, "line", i32_add(pr, first, i32_const(pr, i * WARPGROUP_THREADS)));
    *var_slot(pr, rows->row) = vars->line[i];
    for (int d = 0; d < last; d++) {
        if (!rows->of_row[d]) continue;
        Var *const sub = emit_declare(pr, DTYPE_I64, "row_at", lower_int64(pr, rows->of_row[d], NULL));
        subs[d] = var_of(pr, sub);
        if (rows->of_step[d]) vars->sub[i][d] = sub;
        else inside = both(pr->lo, inside, is_below(pr, rows->tensor, d, subs[d]));
    }
    vars->inside[i] = emit_declare(pr, DTYPE_BOOL, "inside", inside ? inside : expr_bool(pr->arena, true));
    vars->at[i] = emit_declare(pr, DTYPE_I64, "line_at", place_in_tensor(pr, rows->tensor, subs));
    *var_slot(pr, rows->row) = NULL;
}

// Of the rows' beginnings and ends: a piece is loaded as a whole where it begins inside, so rows end where pieces do. All
// strides are multiples of a row's length, or are given.
static Expr *alignment(Printer *pr, const SteppedRows *rows)
{
    Arena *const a = pr->arena;
    const Buffer *const tensor = rows->tensor;
    const int last = tensor->rank - 1, size = dtype_bits(tensor->type) / 8;
    Expr *bits = expr_int(a, DTYPE_I64, PIECE_BYTES | (expr_multiple(rows->of_step[last]) % PIECE_BYTES * size));
    for (int d = 0; d <= last; d++) {
        Expr *const length = d == last ? tensor->shape[last] : tensor->stride[0] ? tensor->stride[d] : NULL;
        if (!length) continue;
        Expr *const bytes = expr_binary(a, X_MUL, lower_int64(pr, length, NULL), expr_int(a, DTYPE_I64, size));
        bits = expr_binary(a, X_BITOR, bits, bytes);
    }
    return call_expr(pr, DTYPE_I32, "row_alignment", 1, bits);
}

// ---- a step

static Step begin_step(Printer *pr, const SteppedRows *rows)
{
    const Buffer *const tensor = rows->tensor;
    const int last = tensor->rank - 1;
    Step step = { .at = NULL };
    for (int d = 0; d <= last; d++)
        if (rows->of_step[d])
            step.sub[d] = var_of(pr, emit_declare(pr, DTYPE_I64, "step_at", lower_int64(pr, rows->of_step[d], NULL)));
    step.at = var_of(pr, emit_declare(pr, DTYPE_I64, "step_from", place_in_tensor(pr, tensor, step.sub)));
    const char *const columns = arena_printf(pr->arena, "columns_left<%d>", rows->columns);
    step.left =
        emit_declare(pr, DTYPE_I32, "left",
                     call_expr(pr, DTYPE_I32, columns, 2, lower_int64(pr, tensor->shape[last], NULL), step.sub[last]));
    return step;
}

static Expr *line_is_inside(Printer *pr, const SteppedVars *vars, const Step *step, int i)
{
    const Buffer *const tensor = vars->rows->tensor;
    Expr *inside = var_of(pr, vars->inside[i]);
    for (int d = 0; d + 1 < tensor->rank; d++) {
        Expr *const of_row = vars->sub[i][d] ? var_of(pr, vars->sub[i][d]) : NULL;
        if (step->sub[d]) inside = both(pr->lo, inside, is_below(pr, tensor, d, i64_add(pr, of_row, step->sub[d])));
    }
    return inside;
}

// Of all of the thread's rows, from this column on.
static void load_pieces(Printer *pr, const SteppedVars *vars, const Step *step, Expr *column, Var *to)
{
    const SteppedRows *const rows = vars->rows;
    Var *const tensor = pr->tensors[rows->tensor->id];
    for (int i = 0; i < rows->lines; i++) {
        Expr *const at = i64_add(pr, i64_add(pr, var_of(pr, vars->at[i]), step->at), cast(pr, DTYPE_I64, column));
        Expr *const left = expr_select(pr->arena, line_is_inside(pr, vars, step, i),
                                       i32_sub(pr, var_of(pr, step->left), column), i32_const(pr, 0));
        emit_call(pr, arena_printf(pr->arena, "load_raw<%d>", rows->piece), 4,
                  expr_address(pr->arena, to, i32_const(pr, i * rows->piece)), expr_address(pr->arena, tensor, at),
                  left, var_of(pr, vars->align));
    }
}

// from NULL: zeros.
static void store_pieces(Printer *pr, const SteppedVars *vars, Expr *column, Var *from)
{
    const SteppedRows *const rows = vars->rows;
    for (int i = 0; i < rows->lines; i++) {
        Expr *const at = expr_address(pr->arena, tile_vars(pr, rows->tile)->pointer,
                                      shared_at(pr, rows->tile, var_of(pr, vars->line[i]), column));
        if (from)
            emit_call(pr, arena_printf(pr->arena, "store_raw<%d>", rows->piece), 3,
                      expr_address(pr->arena, from, i32_const(pr, i * rows->piece)), at, var_of(pr, vars->align));
        else emit_call(pr, arena_printf(pr->arena, "store_zeros<%d>", rows->piece), 1, at);
    }
}

// Of the thread's pieces number `unit`.
static Expr *column_of_unit(Printer *pr, const SteppedVars *vars, Expr *unit)
{
    const SteppedRows *const rows = vars->rows;
    Expr *number = unit;
    if (rows->across > 1) number = i32_add(pr, i32_mul(pr, unit, rows->across), var_of(pr, vars->part));
    return i32_mul(pr, number, rows->piece);
}

static void load_ahead(Printer *pr, const SteppedVars *vars)
{
    const KnownVars known = known_vars(pr);
    Nest block;
    begin_block(pr, &block);
    use_next_step(pr, vars->rows->pipeline, vars->next);
    const Step step = begin_step(pr, vars->rows);
    load_pieces(pr, vars, &step, column_of_unit(pr, vars, i32_const(pr, 0)), vars->held);
    end_nest(pr, &block);
    restore_vars(pr, known);
}

// ---- the loop

void begin_stepped_rows(Printer *pr, const Action *action)
{
    SteppedVars *const vars = NEW(pr->arena, SteppedVars, .rows = action->print);
    const SteppedRows *const rows = vars->rows;
    Expr *first = var_of(pr, pr->thread);
    if (rows->across > 1) {
        vars->part = emit_declare(pr, DTYPE_I32, "part", i32_op(pr, X_DIV, first, rows->rows));
        first = i32_op(pr, X_MOD, first, rows->rows);
    }
    vars->align = emit_declare(pr, DTYPE_I32, "align", alignment(pr, rows));
    for (int i = 0; i < rows->lines; i++) place_line(pr, vars, first, i);
    declare_next_step(pr, rows->pipeline, vars->next);
    vars->held = emit_array(pr, DTYPE_U32, "held", stepped_registers(rows));
    load_ahead(pr, vars);
    pr->stepped_vars = vars;
    print_loop(pr, action);
}

void end_stepped_rows(Printer *pr, const Action *action)
{
    end_loop(pr, action);
    pr->stepped_vars = NULL;
}

// ---- a step's copy

// Number of the thread's pieces that begin inside a row.
static Var *declare_full(Printer *pr, const SteppedVars *vars, const Step *step)
{
    const SteppedRows *const rows = vars->rows;
    const int elements = rows->across * rows->piece;
    Expr *left = var_of(pr, step->left);
    if (rows->across > 1) left = i32_sub(pr, left, column_of_unit(pr, vars, i32_const(pr, 0)));
    return emit_declare(pr, DTYPE_I32, "full",
                        i32_op(pr, X_DIV, i32_add(pr, left, i32_const(pr, elements - 1)), elements));
}

static Expr *begin_units(Printer *pr, const SteppedVars *vars, Nest *nest, Expr *from, Expr *to)
{
    Var *const unit = loop_new_var(pr->unit, DTYPE_I32, "unit");
    begin_for(pr, nest, unit, from, to, i32_const(pr, 1), LOOP_NO_UNROLL);
    return var_of(pr, emit_declare(pr, DTYPE_I32, "column", column_of_unit(pr, vars, var_of(pr, unit))));
}

// The pieces after the first, as far as there are any inside: nothing is loaded ahead meanwhile, and they take its registers.
static Var *copy_rest(Printer *pr, const SteppedVars *vars)
{
    Nest each;
    const Step step = begin_step(pr, vars->rows);
    Var *const full = declare_full(pr, vars, &step);
    Expr *const column = begin_units(pr, vars, &each, i32_const(pr, 1), var_of(pr, full));
    load_pieces(pr, vars, &step, column, vars->held);
    store_pieces(pr, vars, column, vars->held);
    end_nest(pr, &each);
    return full;
}

static void clear_rest(Printer *pr, const SteppedVars *vars, Var *full)
{
    Nest each;
    Expr *const from = call_expr(pr, DTYPE_I32, "math_max", 2, var_of(pr, full), i32_const(pr, 1));
    Expr *const column = begin_units(pr, vars, &each, from, i32_const(pr, vars->rows->units));
    store_pieces(pr, vars, column, NULL);
    end_nest(pr, &each);
}

void print_stepped_copy(Printer *pr, const SteppedCopy *plan)
{
    const SteppedVars *const vars = pr->stepped_vars;
    const SteppedRows *const rows = plan->rows;
    Nest block;
    begin_block(pr, &block);
    store_pieces(pr, vars, column_of_unit(pr, vars, i32_const(pr, 0)), vars->held);
    Var *const full = rows->units > 1 ? copy_rest(pr, vars) : NULL;
    advance_next_step(pr, rows->pipeline, vars->next);
    load_ahead(pr, vars);
    if (full) clear_rest(pr, vars, full);
    end_nest(pr, &block);
}
