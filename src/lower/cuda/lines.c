// SPDX-License-Identifier: MIT
// lines.c - printing: where a lane stands in a line: in the tensor's row and in the tile's.
//
// before: a Rows says what is loaded (rows.c)
// after:  its lines have pointers, and a variable that says whether they are inside the tensor; the rest adds constants
#include "lower/cuda/print_rows.h"
#include "lower/cuda/elementwise.h"

// The numbers of the row, read once: a test that reads one again is a branch around it.
static void read_subscripts(Lowering *lo, Expr **subs, int n, const Iteration *it)
{
    for (int d = 0; d < n; d++) {
        if (!expr_loads(subs[d])) continue;
        Var *const number = tile_new_var(lo->kernel, VAR_LOCAL, subs[d]->type, "number", subs[d]->span);
        *var_slot(lo, number) =
            emit_declare(lo, loop_type(subs[d]->type), "number", lower_as(lo, subs[d]->type, subs[d], it));
        subs[d] = expr_var(lo->arena, number);
    }
}

Line begin_line(Lowering *lo, const Expr *load, const Iteration *it)
{
    Place place;
    Line line = { 0 };
    Expr *subs[MAX_RANK];
    memcpy(subs, load->load.subs, sizeof(Expr *) * (size_t)load->load.buffer->rank);
    if (lo->register_prefetch) read_subscripts(lo, subs, load->load.buffer->rank, it);
    if (!place_element(lo, load->load.buffer, subs, it, &place, load->span)) return line;
    line.size = dtype_bits(load->load.buffer->type) / dtype_bits(place.root->type);
    line.inside = emit_declare(lo, DTYPE_BOOL, "inside", place.inside ? place.inside : expr_bool(lo->arena, true));
    line.pointer = loop_new_pointer(lo->unit, place.pointer->type, "line_at");
    Expr *const at = expr_select(lo->arena, var_of(lo, line.inside), place.at, expr_int(lo->arena, place.at->type, 0));
    emit_definition(lo, line.pointer, expr_address(lo->arena, place.pointer, at));
    return line;
}

void begin_lines(Lowering *lo, Rows *rows)
{
    for (int i = 0; i < rows->n_runs; i++) rows->runs[i].line = begin_line(lo, rows->runs[i].load, &rows->it);
    for (int i = 0; i < rows->n_each; i++) {
        Expr *subs[MAX_RANK], *const load = rows->each[i].load; // from the first value of the line
        memcpy(subs, load->load.subs, sizeof(Expr *) * (size_t)load->load.buffer->rank);
        if (rows->each[i].by) subs[load->load.buffer->rank - 1] = int_const(lo->arena, 0);
        rows->each[i].line = begin_line(lo, expr_load(lo->arena, load->load.buffer, subs), &rows->it);
    }
}

int n_lines(const Rows *rows) { return rows->n_runs + rows->n_each; }

const Line *nth_line(const Rows *rows, int i)
{
    return i < rows->n_runs ? &rows->runs[i].line : &rows->each[i - rows->n_runs].line;
}

Expr *in_line(Lowering *lo, const Line *line, Expr *elements)
{
    return expr_address(lo->arena, line->pointer, i32_mul(lo, elements, line->size));
}

void declare_line(Lowering *lo, Rows *rows, Var *line)
{
    if (rows->mode >= 0) rows->it.mode[rows->mode] = line;
    for (int i = 0; i < rows->it.n; i++) *var_slot(lo, rows->it.indices[i].var) = NULL;
    declare_indices(lo, &rows->it, ~0u);
}

void declare_line_at(Lowering *lo, Rows *rows, const char *name, Expr *line)
{
    declare_line(lo, rows, emit_declare(lo, DTYPE_I32, name, line));
}

void begin_columns(Lowering *lo, const Rows *rows, Columns *block, int columns)
{
    Var **const slot = var_slot(lo, rows->column), *const first = block->first = *slot;
    begin_block(lo, &block->nest);
    *slot = emit_declare(lo, first->type, first->name,
                         expr_binary(lo->arena, X_ADD, var_of(lo, first), expr_int(lo->arena, first->type, columns)));
}

void end_columns(Lowering *lo, const Rows *rows, Columns *block)
{
    end_nest(lo, &block->nest);
    *var_slot(lo, rows->column) = block->first;
}

Expr *column_of(Lowering *lo, const Rows *rows) { return var_of(lo, *var_slot(lo, rows->column)); }

Expr *piece_address(Lowering *lo, const Rows *rows)
{
    Place place;
    place_element(lo, rows->store->store.buffer, rows->store->store.subs, &rows->it, &place, rows->store->span);
    return call_expr(lo, DTYPE_U32, "shared_address", 1, expr_address(lo->arena, place.pointer, place.at));
}
