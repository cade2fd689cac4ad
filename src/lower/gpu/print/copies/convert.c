// SPDX-License-Identifier: MIT
// convert.c - printing: rows that pass through registers on their way to a tile, and on to the tiles of a cluster.
//
// before: the tile's buffer is free      after: it holds the rows; the caller fences and arrives
//
// Where several lines fit into the registers of a set, they are loaded together. Else there are two sets, each loaded anew, from the next line if this one ends, as soon as it is converted,
// so that a set is always in flight. Where a line is longer than both, its chunks take turns. In a cluster each
// instance converts a part of the rows and sends every line to the same place of the others' tiles.
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/print/rings/print_rings.h"
#include "lower/gpu/print/control/grid.h"
#include "lower/gpu/print/copies/print_rows.h"
#include "lower/gpu/facts/values.h"

// ---- sets

// Units of a line that share the value, where all lanes' columns of a unit do; else 1.
static int units_of_each(const Rows *rows, const Each *x, int units)
{
    const int64_t n = x->by / (4 * rows->unit);
    return x->by == 0 ? units : x->by % (4 * rows->unit) == 0 && units % n == 0 ? (int)n : 1;
}

void declare_set(Printer *pr, const Rows *rows, Set *set, int units)
{
    for (int u = 0; u < units; u++) {
        for (int i = 0; i < rows->n_runs; i++)
            set->raw[u][i] = emit_array(pr, DTYPE_U32, "raw", rows->unit * dtype_bits(rows->runs[i].load->type) / 32);
        for (int i = 0; i < rows->n_each; i++)
            set->each[u][i] = u % units_of_each(rows, &rows->each[i], units) != 0
                                  ? set->each[u - 1][i]
                                  : emit_declare(pr, loop_type(rows->each[i].load->type), "each", NULL);
    }
}

void load_set(Printer *pr, const Rows *rows, const Set *set, int from, int units, Expr *column)
{
    Arena *const a = pr->arena;
    const char *const multistage = pr->register_prefetch ? "_ahead" : ""; // there a line is never outside
    for (int u = 0; u < units; u++) {
        const int columns = (from + u) * 4 * rows->unit;
        for (int i = 0; i < rows->n_runs; i++) {
            const Run *const x = &rows->runs[i];
            emit_call(pr, arena_printf(a, "load_piece%s<%d>", multistage, rows->unit * dtype_bits(x->load->type) / 32),
                      pr->register_prefetch ? 2 : 3, var_of(pr, set->raw[u][i]),
                      in_line(pr, &x->line, i32_const(pr, columns)),
                      pr->register_prefetch ? NULL : var_of(pr, x->line.inside));
        }
        for (int i = 0; i < rows->n_each; i++) {
            const Each *const x = &rows->each[i];
            Var *const value = set->each[u][i];
            const int shared = units_of_each(rows, x, units);
            if (u % shared != 0) continue;
            Expr *const at = !x->by ? i32_const(pr, 0)
                             : shared > 1 || x->by == 4 * rows->unit
                                 ? i32_const(pr, columns / x->by)
                                 : i32_op(pr, X_DIV, i32_add(pr, column, i32_const(pr, columns)), x->by);
            emit_assign(pr, value,
                        call_expr(pr, value->type,
                                  arena_printf(a, "load_each%s<%s>", multistage, dtype_info[value->type].c_name),
                                  pr->register_prefetch ? 1 : 2, in_line(pr, &x->line, at),
                                  pr->register_prefetch ? NULL : var_of(pr, x->line.inside)));
        }
    }
}

// The 16-bit type's multiplication of each pair instead of two, and no constant of the rows is widened. Codes of less than
// a byte become pairs without an element of their own between.
static void multiply_piece(Printer *pr, const Rows *rows, Var *const *raw, Var *const *each, int part)
{
    Arena *const a = pr->arena;
    const DType narrow = rows->runs[0].load->type, type = rows->store->store.buffer->type;
    const char *const to = dtype_name(type);
    Expr *words[4];
    for (int i = 0; i < rows->n_each; i++) *var_slot(pr, rows->each[i].value) = each[i];
    Expr *const factor = lower_as(pr, type, rows->factor, &rows->it);
    Var *const both = emit_declare(pr, DTYPE_U32, "factor", call_expr(pr, DTYPE_U32, "pack_bits", 2, factor, factor));
    if (dtype_is_packed(narrow)) {
        Var *const pairs = emit_array(pr, DTYPE_U32, "pairs", COUNT(words));
        emit_call(pr, arena_printf(a, "pairs_%s_%s", dtype_name(narrow), to), 4, var_of(pr, pairs), var_of(pr, raw[0]),
                  i32_const(pr, part), rows->less ? lower_as(pr, DTYPE_I32, rows->less, &rows->it) : i32_const(pr, 0));
        for (int w = 0; w < COUNT(words); w++) words[w] = expr_index(a, pairs, i32_const(pr, w));
    } else {
        Var *const wide = emit_array(pr, DTYPE_F32, "wide", PIECE);
        emit_call(pr, arena_printf(a, "widen_%s", dtype_name(narrow)), 3, var_of(pr, wide), var_of(pr, raw[0]),
                  i32_const(pr, part * PIECE * dtype_bits(narrow) / 32));
        for (int w = 0; w < COUNT(words); w++)
            words[w] =
                call_expr(pr, DTYPE_U32, arena_printf(a, "pack_%s", to), 2, expr_index(a, wide, i32_const(pr, 2 * w)),
                          expr_index(a, wide, i32_const(pr, 2 * w + 1)));
    }
    for (int w = 0; w < COUNT(words); w++)
        words[w] = call_expr(pr, DTYPE_U32, arena_printf(a, "multiply_%s", to), 2, words[w], var_of(pr, both));
    emit_call(pr, "store_piece", 5, piece_address(pr, rows), words[0], words[1], words[2], words[3]);
}

// Elements `part` * PIECE .. of a unit.
static void convert_piece(Printer *pr, const Rows *rows, Var *const *raw, Var *const *each, int part)
{
    Arena *const a = pr->arena;
    const DType type = rows->store->store.buffer->type;
    Expr *const value = rows->value;
    const bool rounds = value->kind == E_CONVERT && value->convert.a->type == DTYPE_F32;
    Var *wide[RUNS_MAX];
    for (int i = 0; i < rows->n_runs; i++) {
        wide[i] = NULL;
        if (!expr_uses(value, rows->runs[i].wide)) continue;
        const DType narrow = rows->runs[i].load->type;
        wide[i] = emit_array(pr, DTYPE_F32, "wide", PIECE);
        emit_call(pr, arena_printf(a, "widen_%s", dtype_name(narrow)), 3, var_of(pr, wide[i]), var_of(pr, raw[i]),
                  i32_const(pr, dtype_is_packed(narrow) ? part : part * PIECE * dtype_bits(narrow) / 32));
    }
    for (int i = 0; i < rows->n_each; i++) *var_slot(pr, rows->each[i].value) = each[i];
    Var *const out = emit_array(pr, rounds ? DTYPE_F32 : DTYPE_U16, "out", PIECE);
    Nest loop;
    Var *const v = begin_unrolled(pr, &loop, "v", PIECE);
    for (int i = 0; i < rows->n_runs; i++) {
        if (wide[i])
            *var_slot(pr, rows->runs[i].wide) = emit_declare(pr, DTYPE_F32, "x", expr_index(a, wide[i], var_of(pr, v)));
        if (!expr_uses(value, rows->runs[i].element)) continue;
        const DType element = loop_type(rows->runs[i].load->type);
        *var_slot(pr, rows->runs[i].element) =
            emit_declare(pr, element, "element",
                         call_expr(pr, element,
                                   dtype_is_packed(rows->runs[i].load->type)
                                       ? arena_printf(a, "code_of<%d, %d>", dtype_bits(rows->runs[i].load->type), PIECE)
                                       : arena_printf(a, "element_of<%s, %d>", dtype_info[element].c_name, PIECE),
                                   3, var_of(pr, raw[i]), i32_const(pr, part), var_of(pr, v)));
    }
    emit_element(pr, out, var_of(pr, v),
                 rounds ? lower_as(pr, DTYPE_F32, value->convert.a, &rows->it) : lower_as(pr, type, value, &rows->it));
    end_nest(pr, &loop);
    Expr *words[4];
    for (int w = 0; w < COUNT(words); w++)
        words[w] = call_expr(pr, DTYPE_U32, rounds ? arena_printf(a, "pack_%s", dtype_name(type)) : "pack_bits", 2,
                             expr_index(a, out, i32_const(pr, 2 * w)), expr_index(a, out, i32_const(pr, 2 * w + 1)));
    emit_call(pr, "store_piece", 5, piece_address(pr, rows), words[0], words[1], words[2], words[3]);
}

// Sixteen elements of a byte.
static void widen_piece(Printer *pr, const Rows *rows, Var *const *raw, Var *const *each, int part)
{
    Var *const bytes = emit_array(pr, DTYPE_U32, "bytes", 4);
    (void)each;
    emit_call(pr, arena_printf(pr->arena, "bytes_%s", dtype_name(rows->runs[0].load->type)), 3, var_of(pr, bytes),
              var_of(pr, raw[0]), i32_const(pr, part));
    Expr *words[4];
    for (int w = 0; w < COUNT(words); w++) words[w] = expr_index(pr->arena, bytes, i32_const(pr, w));
    emit_call(pr, "store_piece", 5, piece_address(pr, rows), words[0], words[1], words[2], words[3]);
}

void convert_set(Printer *pr, const Rows *rows, const Set *set, int from, int units)
{
    Columns block;
    const int piece = rows->is_bytes ? 2 * PIECE : PIECE;
    for (int u = 0; u < units; u++)
        for (int part = 0; part < rows->unit / piece; part++) {
            begin_columns(pr, rows, &block, (from + u) * 4 * rows->unit + part * piece);
            (rows->is_bytes ? widen_piece
             : rows->factor ? multiply_piece
                            : convert_piece)(pr, rows, set->raw[u], set->each[u], part);
            end_columns(pr, rows, &block);
        }
}

// ---- within a cluster

static Expr *uniform(Printer *pr, Expr *address)
{
    return call_expr(pr, DTYPE_U32, "(uint32_t)uniform", 1, call_expr(pr, DTYPE_I32, "(int32_t)", 1, address));
}

// The others' bytes are announced before this thread's arrival: until then the phase cannot end.
void begin_exchange(Printer *pr, Rows *rows)
{
    Arena *const a = pr->arena;
    const TileInfo *const tile = tile_of_rows(pr->lo, rows);
    if (!tile->is_exchanged) return;
    Expr *const full = full_barrier(pr, tile->ring);
    Nest nest;
    begin_if(pr, &nest, is_zero(pr, pr->thread));
    print_part(pr, ACTION_EXPECT);
    end_nest(pr, &nest);
    print_part(pr, ACTION_COPY);
    for (int i = 1; i < pr->lo->cluster; i++) {
        Expr *const rank = i32_op(pr, X_MOD, i32_add(pr, cluster_rank(pr), i32_const(pr, i)), pr->lo->cluster);
        Expr *const there = call_expr(pr, DTYPE_U32, "address_at", 2, call_expr(pr, DTYPE_U32, "shared_base", 0), rank);
        Var *const away =
            emit_declare(pr, DTYPE_U32, "away",
                         uniform(pr, expr_binary(a, X_SUB, there, call_expr(pr, DTYPE_U32, "shared_base", 0))));
        rows->away[rows->n_away] = away;
        rows->full_away[rows->n_away++] =
            emit_declare(pr, DTYPE_U32, "full_away", uniform(pr, expr_binary(a, X_ADD, full, var_of(pr, away))));
    }
}

int lines_here(Printer *pr, const Rows *rows, Expr **begin)
{
    *begin = i32_const(pr, 0);
    if (!tile_of_rows(pr->lo, rows)->is_exchanged) return rows->lines;
    const int lines = rows->lines / pr->lo->cluster;
    *begin = emit_i32(pr, "begin_line", i32_mul(pr, cluster_rank(pr), lines));
    return lines;
}

// Eight rows of a panel are one piece of shared memory, which begins with the first lane's.
void send_line(Printer *pr, const Rows *rows, int columns)
{
    if (!rows->n_away) return;
    Arena *const a = pr->arena;
    const SharedLayout *const panels = &tile_of_rows(pr->lo, rows)->shared;
    Columns block;
    Nest one;
    begin_columns(pr, rows, &block, 0);
    Var *const piece = emit_declare(pr, DTYPE_U32, "piece", uniform(pr, piece_address(pr, rows)));
    emit_call(pr, "fence_async", 0);
    emit_call(pr, "__syncwarp", 0);
    begin_if(pr, &one, call_expr(pr, DTYPE_BOOL, "elected", 0));
    for (int i = 0; i < columns / panels->panel_columns; i++)
        for (int n = 0; n < rows->n_away; n++) {
            Expr *const at = expr_binary(a, X_ADD, var_of(pr, piece), u32_const(pr, i * panels->panel_bytes));
            emit_call(pr, "remote_copy", 4, expr_binary(a, X_ADD, at, var_of(pr, rows->away[n])), at,
                      u32_const(pr, 8 * panels->pitch_bytes), var_of(pr, rows->full_away[n]));
        }
    end_nest(pr, &one);
    end_columns(pr, rows, &block);
}

// ---- line after line

enum { LINES_MAX = 8 };

typedef struct Chunks {
    Set set[SETS];
    int units, n, sets;
} Chunks; // of a line: n of so many units

static void load_chunk(Printer *pr, const Rows *rows, const Chunks *chunks, int c)
{
    load_set(pr, rows, &chunks->set[c % chunks->sets], c * chunks->units, chunks->units, column_of(pr, rows));
}

static void convert_chunk(Printer *pr, const Rows *rows, const Chunks *chunks, int c)
{
    convert_set(pr, rows, &chunks->set[c % chunks->sets], c * chunks->units, chunks->units);
}

static void convert_line(Printer *pr, const Rows *rows, const Chunks *chunks)
{
    for (int c = 0; c < chunks->n; c++) {
        convert_chunk(pr, rows, chunks, c);
        if (c + chunks->sets < chunks->n) load_chunk(pr, rows, chunks, c + chunks->sets);
    }
    send_line(pr, rows, (int)rows->n_columns);
}

// The first chunks of a line are loaded when the last of the line before are converted.
static void convert_lines(Printer *pr, Rows *rows, const Chunks *chunks, Var *line, Expr *begin, Expr *end)
{
    Arena *const a = pr->arena;
    Nest loop;
    begin_for(pr, &loop, line, begin, end, i32_const(pr, 1), LOOP_NO_UNROLL);
    Expr *const next = i32_add(pr, var_of(pr, line), i32_const(pr, 1)), *const more = expr_binary(a, X_LT, next, end);
    declare_line_at(pr, rows, "next_line", expr_select(a, more, next, var_of(pr, line)));
    Rows multistage = *rows;
    begin_lines(pr, &multistage);
    for (int i = 0; i < n_lines(&multistage); i++)
        emit_assign(pr, nth_line(&multistage, i)->inside,
                    expr_binary(a, X_AND, more, var_of(pr, nth_line(&multistage, i)->inside)));
    declare_line(pr, rows, line);
    for (int c = 0; c < chunks->n; c++) {
        const int later = c + chunks->sets;
        convert_chunk(pr, rows, chunks, c);
        load_chunk(pr, later < chunks->n ? rows : &multistage, chunks, later % chunks->n);
    }
    send_line(pr, rows, (int)rows->n_columns);
    for (int i = 0; i < n_lines(rows) && chunks->n > chunks->sets; i++) {
        emit_assign(pr, nth_line(rows, i)->pointer, var_of(pr, nth_line(&multistage, i)->pointer));
        emit_assign(pr, nth_line(rows, i)->inside, var_of(pr, nth_line(&multistage, i)->inside));
    }
    end_nest(pr, &loop);
}

// Of a lane's lines, each of one chunk, how many are loaded before the first of them is converted.
static int lines_together(const Rows *rows, const Chunks *chunks, int lines)
{
    int words = 0, together = LINES_MAX;
    for (int i = 0; i < rows->n_runs; i++)
        words += rows->units * rows->unit * dtype_bits(rows->runs[i].load->type) / 32;
    while (together > 1 && (lines % together != 0 || together * words > SET_WORDS)) together /= 2;
    return chunks->n == 1 ? together : 1;
}

static void convert_lines_together(Printer *pr, const Rows *rows, const Chunks *chunks, int n, int first, Expr *begin)
{
    Set set[LINES_MAX];
    for (int i = 0; i < n; i++) {
        Rows line = *rows;
        declare_line_at(pr, &line, "line", i32_add(pr, begin, i32_const(pr, first + i)));
        begin_lines(pr, &line);
        declare_set(pr, &line, &set[i], chunks->units);
        load_set(pr, &line, &set[i], 0, chunks->units, column_of(pr, &line));
    }
    for (int i = 0; i < n; i++) {
        Rows line = *rows;
        declare_line_at(pr, &line, "line", i32_add(pr, begin, i32_const(pr, first + i)));
        convert_set(pr, &line, &set[i], 0, chunks->units);
        send_line(pr, &line, (int)rows->n_columns);
    }
}

void convert_rows(Printer *pr, Rows *rows)
{
    Chunks chunks = { .units = set_units(rows) };
    Expr *begin;
    chunks.n = rows->units / chunks.units;
    chunks.sets = chunks.n % SETS == 0 ? SETS : 1;
    begin_exchange(pr, rows);
    const int lines = lines_here(pr, rows, &begin);
    const int together = lines_together(rows, &chunks, lines);
    for (int i = 0; together > 1 && i < lines; i += together)
        convert_lines_together(pr, rows, &chunks, together, i, begin);
    if (together > 1) return;
    Var *const line = loop_new_var(pr->unit, DTYPE_I32, "line");
    declare_line_at(pr, rows, "first_line", begin);
    begin_lines(pr, rows);
    for (int c = 0; c < chunks.sets; c++) {
        declare_set(pr, rows, &chunks.set[c], chunks.units);
        load_chunk(pr, rows, &chunks, c);
    }
    if (lines == 1) convert_line(pr, rows, &chunks);
    else convert_lines(pr, rows, &chunks, line, begin, i32_add(pr, begin, i32_const(pr, lines)));
}
