// SPDX-License-Identifier: MIT
// convert.c - printing: rows that pass through registers on their way to a tile, and on to the tiles of a cluster.
//
// before: the tile's buffer is free      after: it holds the rows; the caller fences and arrives
//
// There are two sets of registers, each loaded anew, from the next line if this one ends, as soon as it is converted,
// so that a set is always in flight. Where a line is longer than both, its chunks take turns. In a cluster each
// instance converts a part of the rows and sends every line to the same place of the others' tiles.
#include "lower/cuda/actions.h"
#include "lower/cuda/grid.h"
#include "lower/cuda/print_action.h"
#include "lower/cuda/print_rows.h"

// ---- sets

// Units of a line that share the value, where all lanes' columns of a unit do; else 1.
static int units_of_each(const Rows *rows, const Each *x, int units)
{
    const int64_t n = x->by / (4 * rows->unit);
    return x->by == 0 ? units : x->by % (4 * rows->unit) == 0 && units % n == 0 ? (int)n : 1;
}

void declare_set(Lowering *lo, const Rows *rows, Set *set, int units)
{
    for (int u = 0; u < units; u++) {
        for (int i = 0; i < rows->n_runs; i++)
            set->raw[u][i] = emit_array(lo, DTYPE_U32, "raw", rows->unit * dtype_bits(rows->runs[i].load->type) / 32);
        for (int i = 0; i < rows->n_each; i++)
            set->each[u][i] = u % units_of_each(rows, &rows->each[i], units) != 0
                                  ? set->each[u - 1][i]
                                  : emit_declare(lo, loop_type(rows->each[i].load->type), "each", NULL);
    }
}

void load_set(Lowering *lo, const Rows *rows, const Set *set, int from, int units, Expr *column)
{
    Arena *const a = lo->arena;
    const char *const multistage = lo->register_prefetch ? "_ahead" : ""; // there a line is never outside
    for (int u = 0; u < units; u++) {
        const int columns = (from + u) * 4 * rows->unit;
        for (int i = 0; i < rows->n_runs; i++) {
            const Run *const x = &rows->runs[i];
            emit_call(lo, arena_printf(a, "load_piece%s<%d>", multistage, rows->unit * dtype_bits(x->load->type) / 32),
                      lo->register_prefetch ? 2 : 3, var_of(lo, set->raw[u][i]),
                      in_line(lo, &x->line, i32_const(lo, columns)),
                      lo->register_prefetch ? NULL : var_of(lo, x->line.inside));
        }
        for (int i = 0; i < rows->n_each; i++) {
            const Each *const x = &rows->each[i];
            Var *const value = set->each[u][i];
            const int shared = units_of_each(rows, x, units);
            if (u % shared != 0) continue;
            Expr *const at = !x->by ? i32_const(lo, 0)
                             : shared > 1 || x->by == 4 * rows->unit
                                 ? i32_const(lo, columns / x->by)
                                 : i32_op(lo, X_DIV, i32_add(lo, column, i32_const(lo, columns)), x->by);
            emit_assign(lo, value,
                        call_expr(lo, value->type,
                                  arena_printf(a, "load_each%s<%s>", multistage, dtype_info[value->type].c_name),
                                  lo->register_prefetch ? 1 : 2, in_line(lo, &x->line, at),
                                  lo->register_prefetch ? NULL : var_of(lo, x->line.inside)));
        }
    }
}

// Elements `part` * PIECE .. of a unit.
static void convert_piece(Lowering *lo, const Rows *rows, Var *const *raw, Var *const *each, int part)
{
    Arena *const a = lo->arena;
    const DType type = rows->store->store.buffer->type;
    Expr *const value = rows->value;
    const bool rounds = value->kind == E_CONVERT && value->convert.a->type == DTYPE_F32;
    Var *wide[RUNS_MAX];
    for (int i = 0; i < rows->n_runs; i++) {
        wide[i] = NULL;
        if (!expr_uses(value, rows->runs[i].wide)) continue;
        const DType narrow = rows->runs[i].load->type;
        wide[i] = emit_array(lo, DTYPE_F32, "wide", PIECE);
        emit_call(lo, arena_printf(a, "widen_%s", dtype_name(narrow)), 3, var_of(lo, wide[i]), var_of(lo, raw[i]),
                  i32_const(lo, part * PIECE * dtype_bits(narrow) / 32));
    }
    for (int i = 0; i < rows->n_each; i++) *var_slot(lo, rows->each[i].value) = each[i];
    Var *const out = emit_array(lo, rounds ? DTYPE_F32 : DTYPE_U16, "out", PIECE);
    Nest loop;
    Var *const v = begin_unrolled(lo, &loop, "v", PIECE);
    for (int i = 0; i < rows->n_runs; i++) {
        const DType element = loop_type(rows->runs[i].load->type);
        *var_slot(lo, rows->runs[i].element) = emit_declare(
            lo, element, "element",
            call_expr(lo, element, arena_printf(a, "element_of<%s, %d>", dtype_info[element].c_name, PIECE), 3,
                      var_of(lo, raw[i]), i32_const(lo, part), var_of(lo, v)));
        if (wide[i])
            *var_slot(lo, rows->runs[i].wide) = emit_declare(lo, DTYPE_F32, "x", expr_index(a, wide[i], var_of(lo, v)));
    }
    emit_element(lo, out, var_of(lo, v),
                 rounds ? lower_as(lo, DTYPE_F32, value->convert.a, &rows->it) : lower_as(lo, type, value, &rows->it));
    end_nest(lo, &loop);
    Expr *words[4];
    for (int w = 0; w < COUNT(words); w++)
        words[w] = call_expr(lo, DTYPE_U32, rounds ? arena_printf(a, "pack_%s", dtype_name(type)) : "pack_bits", 2,
                             expr_index(a, out, i32_const(lo, 2 * w)), expr_index(a, out, i32_const(lo, 2 * w + 1)));
    emit_call(lo, "store_piece", 5, piece_address(lo, rows), words[0], words[1], words[2], words[3]);
}

void convert_set(Lowering *lo, const Rows *rows, const Set *set, int from, int units)
{
    Columns block;
    for (int u = 0; u < units; u++)
        for (int part = 0; part < rows->unit / PIECE; part++) {
            begin_columns(lo, rows, &block, (from + u) * 4 * rows->unit + part * PIECE);
            convert_piece(lo, rows, set->raw[u], set->each[u], part);
            end_columns(lo, rows, &block);
        }
}

// ---- within a cluster

static Expr *uniform(Lowering *lo, Expr *address)
{
    return call_expr(lo, DTYPE_U32, "(uint32_t)uniform", 1, call_expr(lo, DTYPE_I32, "(int32_t)", 1, address));
}

// The others' bytes are announced before this thread's arrival: until then the phase cannot end.
void begin_exchange(Lowering *lo, Rows *rows)
{
    Arena *const a = lo->arena;
    const TileInfo *const tile = tile_of_rows(lo, rows);
    if (!tile->is_exchanged) return;
    Expr *const full = full_barrier(lo, tile->ring);
    Nest nest;
    begin_if(lo, &nest, is_zero(lo, lo->thread));
    print_part(lo, ACTION_EXPECT);
    end_nest(lo, &nest);
    print_part(lo, ACTION_COPY);
    for (int i = 1; i < lo->cluster; i++) {
        Expr *const rank = i32_op(lo, X_MOD, i32_add(lo, cluster_rank(lo), i32_const(lo, i)), lo->cluster);
        Expr *const there = call_expr(lo, DTYPE_U32, "address_at", 2, call_expr(lo, DTYPE_U32, "shared_base", 0), rank);
        Var *const away =
            emit_declare(lo, DTYPE_U32, "away",
                         uniform(lo, expr_binary(a, X_SUB, there, call_expr(lo, DTYPE_U32, "shared_base", 0))));
        rows->away[rows->n_away] = away;
        rows->full_away[rows->n_away++] =
            emit_declare(lo, DTYPE_U32, "full_away", uniform(lo, expr_binary(a, X_ADD, full, var_of(lo, away))));
    }
}

int lines_here(Lowering *lo, const Rows *rows, Expr **begin)
{
    *begin = i32_const(lo, 0);
    if (!tile_of_rows(lo, rows)->is_exchanged) return rows->lines;
    const int lines = rows->lines / lo->cluster;
    *begin = emit_i32(lo, "begin_line", i32_mul(lo, cluster_rank(lo), lines));
    return lines;
}

// Eight rows of a panel are one piece of shared memory, which begins with the first lane's.
void send_line(Lowering *lo, const Rows *rows, int columns)
{
    if (!rows->n_away) return;
    Arena *const a = lo->arena;
    const SharedLayout *const panels = &tile_of_rows(lo, rows)->shared;
    Columns block;
    Nest one;
    begin_columns(lo, rows, &block, 0);
    Var *const piece = emit_declare(lo, DTYPE_U32, "piece", uniform(lo, piece_address(lo, rows)));
    emit_call(lo, "fence_async", 0);
    emit_call(lo, "__syncwarp", 0);
    begin_if(lo, &one, call_expr(lo, DTYPE_BOOL, "elected", 0));
    for (int i = 0; i < columns / panels->panel_columns; i++)
        for (int n = 0; n < rows->n_away; n++) {
            Expr *const at = expr_binary(a, X_ADD, var_of(lo, piece), u32_const(lo, i * panels->panel_bytes));
            emit_call(lo, "remote_copy", 4, expr_binary(a, X_ADD, at, var_of(lo, rows->away[n])), at,
                      u32_const(lo, 8 * panels->pitch_bytes), var_of(lo, rows->full_away[n]));
        }
    end_nest(lo, &one);
    end_columns(lo, rows, &block);
}

// ---- line after line

typedef struct Chunks {
    Set set[SETS];
    int units, n, sets;
} Chunks; // of a line: n of so many units

static void load_chunk(Lowering *lo, const Rows *rows, const Chunks *chunks, int c)
{
    load_set(lo, rows, &chunks->set[c % chunks->sets], c * chunks->units, chunks->units, column_of(lo, rows));
}

static void convert_chunk(Lowering *lo, const Rows *rows, const Chunks *chunks, int c)
{
    convert_set(lo, rows, &chunks->set[c % chunks->sets], c * chunks->units, chunks->units);
}

static void convert_line(Lowering *lo, const Rows *rows, const Chunks *chunks)
{
    for (int c = 0; c < chunks->n; c++) {
        convert_chunk(lo, rows, chunks, c);
        if (c + chunks->sets < chunks->n) load_chunk(lo, rows, chunks, c + chunks->sets);
    }
    send_line(lo, rows, (int)rows->n_columns);
}

// The first chunks of a line are loaded when the last of the line before are converted.
static void convert_lines(Lowering *lo, Rows *rows, const Chunks *chunks, Var *line, Expr *begin, Expr *end)
{
    Arena *const a = lo->arena;
    Nest loop;
    begin_for(lo, &loop, line, begin, end, i32_const(lo, 1), LOOP_NO_UNROLL);
    Expr *const next = i32_add(lo, var_of(lo, line), i32_const(lo, 1)), *const more = expr_binary(a, X_LT, next, end);
    declare_line_at(lo, rows, "next_line", expr_select(a, more, next, var_of(lo, line)));
    Rows multistage = *rows;
    begin_lines(lo, &multistage);
    for (int i = 0; i < n_lines(&multistage); i++)
        emit_assign(lo, nth_line(&multistage, i)->inside,
                    expr_binary(a, X_AND, more, var_of(lo, nth_line(&multistage, i)->inside)));
    declare_line(lo, rows, line);
    for (int c = 0; c < chunks->n; c++) {
        const int later = c + chunks->sets;
        convert_chunk(lo, rows, chunks, c);
        load_chunk(lo, later < chunks->n ? rows : &multistage, chunks, later % chunks->n);
    }
    send_line(lo, rows, (int)rows->n_columns);
    for (int i = 0; i < n_lines(rows) && chunks->n > chunks->sets; i++) {
        emit_assign(lo, nth_line(rows, i)->pointer, var_of(lo, nth_line(&multistage, i)->pointer));
        emit_assign(lo, nth_line(rows, i)->inside, var_of(lo, nth_line(&multistage, i)->inside));
    }
    end_nest(lo, &loop);
}

void convert_rows(Lowering *lo, Rows *rows)
{
    Chunks chunks = { .units = set_units(rows) };
    Expr *begin;
    chunks.n = rows->units / chunks.units;
    chunks.sets = chunks.n % SETS == 0 ? SETS : 1;
    begin_exchange(lo, rows);
    const int lines = lines_here(lo, rows, &begin);
    Var *const line = loop_new_var(lo->unit, DTYPE_I32, "line");
    declare_line_at(lo, rows, "first_line", begin);
    begin_lines(lo, rows);
    for (int c = 0; c < chunks.sets; c++) {
        declare_set(lo, rows, &chunks.set[c], chunks.units);
        load_chunk(lo, rows, &chunks, c);
    }
    if (lines == 1) convert_line(lo, rows, &chunks);
    else convert_lines(lo, rows, &chunks, line, begin, i32_add(lo, begin, i32_const(lo, lines)));
}
