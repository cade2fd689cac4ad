// SPDX-License-Identifier: MIT
// lines.c - printing: where a lane stands in a line: in the tensor's row and in the tile's.
//
// before: a Rows says what is loaded (rows.c)
// after:  its lines have pointers, and a variable that says whether they are inside the tensor; the rest adds constants
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/values.h"

// The numbers of the row, read once: a test that reads one again is a branch around it.
static void read_subscripts(Printer *pr, Expr **subs, int n, const Iteration *it)
{
    for (int d = 0; d < n; d++) {
        if (!expr_loads(subs[d])) continue;
        Var *const number = tile_new_var(pr->lo->kernel, VAR_LOCAL, subs[d]->type, "number", subs[d]->span);
        *var_slot(pr, number) =
            emit_declare(pr, loop_type(subs[d]->type), "number", lower_as(pr, subs[d]->type, subs[d], it));
        subs[d] = expr_var(pr->arena, number);
    }
}

// Of packed elements, a multiple of those in a byte, the bytes.
static Expr *in_bytes(Printer *pr, Expr *elements, int to_a_byte)
{
    return to_a_byte <= 1
               ? elements
               : expr_binary(pr->arena, X_SHR, elements, expr_int(pr->arena, elements->type, to_a_byte == 2 ? 1 : 2));
}

Line begin_line(Printer *pr, const Expr *load, const Iteration *it)
{
    Place place;
    Line line = { 0 };
    Expr *subs[MAX_RANK];
    memcpy(subs, load->load.subs, sizeof(Expr *) * (size_t)load->load.buffer->rank);
    if (pr->register_prefetch || row_is_chosen(load)) read_subscripts(pr, subs, load->load.buffer->rank, it);
    place_element(pr, load->load.buffer, subs, it, &place, load->span);
    line.size = dtype_bits(load->load.buffer->type) / dtype_bits(place.root->type);
    line.to_a_byte = is_packed_place(&place) ? 8 / dtype_bits(place.root->type) : 1;
    line.inside = emit_declare(pr, DTYPE_BOOL, "inside", place.inside ? place.inside : expr_bool(pr->arena, true));
    line.pointer = loop_new_pointer(pr->unit, place.pointer->type, "line_at");
    Expr *const at = expr_select(pr->arena, var_of(pr, line.inside), place.at, expr_int(pr->arena, place.at->type, 0));
    emit_definition(pr, line.pointer, expr_address(pr->arena, place.pointer, in_bytes(pr, at, line.to_a_byte)));
    return line;
}

void begin_lines(Printer *pr, Rows *rows)
{
    for (int i = 0; i < rows->n_runs; i++) rows->runs[i].line = begin_line(pr, rows->runs[i].load, &rows->it);
    for (int i = 0; i < rows->n_each; i++) {
        Expr *subs[MAX_RANK], *const load = rows->each[i].load; // from the first value of the line
        memcpy(subs, load->load.subs, sizeof(Expr *) * (size_t)load->load.buffer->rank);
        if (rows->each[i].by) subs[load->load.buffer->rank - 1] = int_const(pr->arena, 0);
        rows->each[i].line = begin_line(pr, expr_load(pr->arena, load->load.buffer, subs), &rows->it);
    }
}

int n_lines(const Rows *rows) { return rows->n_runs + rows->n_each; }

const Line *nth_line(const Rows *rows, int i)
{
    return i < rows->n_runs ? &rows->runs[i].line : &rows->each[i - rows->n_runs].line;
}

Expr *in_line(Printer *pr, const Line *line, Expr *elements)
{
    return expr_address(pr->arena, line->pointer, in_bytes(pr, i32_mul(pr, elements, line->size), line->to_a_byte));
}

void declare_line(Printer *pr, Rows *rows, Var *line)
{
    if (rows->mode >= 0) rows->it.mode[rows->mode] = line;
    for (int i = 0; i < rows->it.n; i++) *var_slot(pr, rows->it.indices[i].var) = NULL;
    declare_indices(pr, &rows->it, ~0u);
}

void declare_line_at(Printer *pr, Rows *rows, const char *name, Expr *line)
{
    declare_line(pr, rows, emit_declare(pr, DTYPE_I32, name, line));
}

void begin_columns(Printer *pr, const Rows *rows, Columns *block, int columns)
{
    Var **const slot = var_slot(pr, rows->column), *const first = block->first = *slot;
    begin_block(pr, &block->nest);
    *slot = emit_declare(pr, first->type, first->name,
                         expr_binary(pr->arena, X_ADD, var_of(pr, first), expr_int(pr->arena, first->type, columns)));
}

void end_columns(Printer *pr, const Rows *rows, Columns *block)
{
    end_nest(pr, &block->nest);
    *var_slot(pr, rows->column) = block->first;
}

Expr *column_of(Printer *pr, const Rows *rows) { return var_of(pr, *var_slot(pr, rows->column)); }

Expr *piece_address(Printer *pr, const Rows *rows)
{
    Place place;
    place_element(pr, rows->store->store.buffer, rows->store->store.subs, &rows->it, &place, rows->store->span);
    return call_expr(pr, DTYPE_U32, "shared_address", 1, expr_address(pr->arena, place.pointer, place.at));
}
