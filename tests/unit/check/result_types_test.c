// SPDX-License-Identifier: MIT
// result_types_test.c - the table of result types of docs/language.md (13), cell by cell: every operator and function on
// every type or pair of types is refused, or has the type that the table says. `a` and `b` of a text are the operands.
#include "compile/compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the rules, written anew

static bool is_float(DType t) { return (t >= DTYPE_F64 && t <= DTYPE_E2M1) || t == DTYPE_E8M0; }

static DType widened(DType t)
{
    switch ((int)t) {
    case DTYPE_F64:
    case DTYPE_INT:
    case DTYPE_I64:
    case DTYPE_U64:
    case DTYPE_U32: return t;
    default: return is_float(t) ? DTYPE_F32 : DTYPE_I32;
    }
}

// Of two types that are wide already: the one that stands first wins.
static DType common(DType a, DType b)
{
    static const DType order[] = { DTYPE_F64, DTYPE_F32, DTYPE_U64, DTYPE_I64, DTYPE_INT, DTYPE_U32, DTYPE_I32 };
    const DType x = widened(a), y = widened(b);
    for (int i = 0; i < COUNT(order); i++)
        if (x == order[i] || y == order[i]) return order[i];
    return DTYPE_NONE;
}

static DType floating(DType t) { return is_float(t) ? t : DTYPE_F32; }

// ---- the table

typedef enum { NUMBERS, INTEGERS, INTEGER_A, WORDS, SAME_SIZE, ADDED, ORDERED, EXCHANGED } Takes;
typedef enum {
    COMMON,
    COMMON_OR_BOOL,
    COMMON_FLOAT,
    COMMON_OR_SAME,
    WITH_I32,
    WIDENED,
    WIDENED_FLOAT,
    FIRST,
    SECOND,
    GIVES_BOOL,
    GIVES_I32,
    GIVES_F32,
    GIVES_INT,
    DOT
} Gives;
typedef struct Row {
    const char *text;
    Takes takes;
    Gives gives;
} Row;

// clang-format off
static const Row rows[] = {
    { "a + b", NUMBERS, COMMON }, { "a - b", NUMBERS, COMMON }, { "a * b", NUMBERS, COMMON }, { "a / b", NUMBERS, COMMON },
    { "a % b", INTEGERS, COMMON },
    { "a & b", INTEGERS, COMMON_OR_BOOL }, { "a | b", INTEGERS, COMMON_OR_BOOL }, { "a ^ b", INTEGERS, COMMON_OR_BOOL },
    { "a << b", INTEGERS, WIDENED }, { "a >> b", INTEGERS, WIDENED }, { "a << 1", INTEGER_A, WIDENED }, { "1 << a", INTEGER_A, GIVES_INT },
    { "-a", NUMBERS, WIDENED }, { "~a", INTEGER_A, WIDENED }, { "+a", NUMBERS, FIRST },
    { "!a", NUMBERS, GIVES_BOOL }, { "a && b", NUMBERS, GIVES_BOOL }, { "a || b", NUMBERS, GIVES_BOOL },
    { "a < b", NUMBERS, GIVES_BOOL }, { "a <= b", NUMBERS, GIVES_BOOL }, { "a > b", NUMBERS, GIVES_BOOL },
    { "a >= b", NUMBERS, GIVES_BOOL }, { "a == b", NUMBERS, GIVES_BOOL }, { "a != b", NUMBERS, GIVES_BOOL },
    { "c ? a : b", NUMBERS, COMMON_OR_SAME }, { "b ? a : a", NUMBERS, FIRST }, { "c != c ? a : b", NUMBERS, COMMON_OR_SAME },
    { "true ? a : b", NUMBERS, FIRST }, { "c ? a : 1", NUMBERS, WIDENED }, { "c ? 1.5 : a", NUMBERS, WIDENED_FLOAT },
    { "a + 1", NUMBERS, WIDENED }, { "1 - a", NUMBERS, WIDENED }, { "a * 1.5", NUMBERS, WIDENED_FLOAT }, { "PI / a", NUMBERS, WIDENED_FLOAT },
    { "a % 3", INTEGER_A, WIDENED }, { "a & 1", INTEGER_A, WIDENED }, { "a < 1.5", NUMBERS, GIVES_BOOL },
    { "a * 0", NUMBERS, WIDENED }, { "a - a", NUMBERS, WIDENED }, { "a * 1", NUMBERS, WIDENED }, { "- - a", NUMBERS, WIDENED },
    { "a | 0", INTEGER_A, WIDENED }, { "(a != a) + 1", NUMBERS, GIVES_I32 }, { "(c ? 1 : 1) + 1", NUMBERS, GIVES_INT },
#define FLOATS(f) { f "(a)", NUMBERS, COMMON_FLOAT }
    FLOATS("exp"), FLOATS("exp2"), FLOATS("log"), FLOATS("log2"), FLOATS("sqrt"), FLOATS("rsqrt"), FLOATS("sin"), FLOATS("cos"),
    FLOATS("tanh"), FLOATS("fast_tanh"), FLOATS("erf"), FLOATS("floor"), FLOATS("ceil"), FLOATS("round"), FLOATS("rint"), FLOATS("trunc"),
    { "pow(a, b)", NUMBERS, COMMON_FLOAT }, { "pow(a, 2)", NUMBERS, COMMON_FLOAT }, { "fma(a, b, a)", NUMBERS, COMMON_FLOAT },
    { "fma(1, 2, a)", NUMBERS, COMMON_FLOAT },
    { "abs(a)", NUMBERS, WIDENED }, { "min(a, b)", NUMBERS, COMMON }, { "max(a, b)", NUMBERS, COMMON }, { "max(1, a)", NUMBERS, WIDENED },
    { "min(a, a)", NUMBERS, WIDENED }, { "max(a, 1.5)", NUMBERS, WIDENED_FLOAT },
    { "clamp(a, b, b)", NUMBERS, COMMON }, { "clamp(a, a, b)", NUMBERS, COMMON }, { "clamp(a, 0, 1)", NUMBERS, WIDENED },
    { "clamp(1, a, 0)", NUMBERS, WIDENED },
    { "ceildiv(a, b)", INTEGERS, COMMON }, { "ceildiv(a, 3)", INTEGER_A, WIDENED },
    { "popcount(a)", INTEGER_A, GIVES_I32 }, { "clz(a)", INTEGER_A, GIVES_I32 }, { "ffs(a)", INTEGER_A, GIVES_I32 },
    { "clz(7)", NUMBERS, GIVES_I32 }, { "ffs(a) + a", INTEGER_A, WITH_I32 }, { "min(clz(a), a)", INTEGER_A, WITH_I32 },
    { "dot4(a, b, 1)", WORDS, DOT }, { "dot4(1, 2, a)", INTEGER_A, GIVES_I32 },
    { "random(a, b)", INTEGERS, GIVES_F32 }, { "random(1, a)", INTEGER_A, GIVES_F32 },
    { "convert<B>(a)", NUMBERS, SECOND }, { "bitcast<B>(a)", SAME_SIZE, SECOND }, { "convert<B>(3)", NUMBERS, SECOND },
    { "atomic_add(a, 1)", ADDED, FIRST }, { "atomic_min(a, 1)", ORDERED, FIRST }, { "atomic_max(a, 1)", ORDERED, FIRST },
    { "atomic_exchange(a, 1)", ORDERED, FIRST }, { "atomic_and(a, 1)", EXCHANGED, FIRST }, { "atomic_or(a, 1)", EXCHANGED, FIRST },
    { "atomic_cas(a, 1, 2)", EXCHANGED, FIRST },
};
// clang-format on

static bool is_word(DType t) { return t == DTYPE_I32 || t == DTYPE_U32; }

// An element, which `int` has none of.
static bool is_atomic(DType t) { return dtype_bits(t) >= 32 && t != DTYPE_TF32 && t != DTYPE_INT; }

static bool accepts(const Row *row, DType a, DType b)
{
    switch (row->takes) {
    case NUMBERS: return true;
    case INTEGERS: return !is_float(a) && !is_float(b);
    case INTEGER_A: return !is_float(a);
    case WORDS: return is_word(a) && is_word(b);
    case SAME_SIZE: return dtype_bits(a) == dtype_bits(b) && (b != DTYPE_BOOL || a == DTYPE_BOOL);
    case ADDED: return is_atomic(a) || a == DTYPE_F16 || a == DTYPE_BF16;
    case ORDERED: return is_atomic(a);
    case EXCHANGED: return is_atomic(a) && !is_float(a);
    }
    return false;
}

static DType result(const Row *row, DType a, DType b)
{
    switch (row->gives) {
    case COMMON: return common(a, b);
    case COMMON_OR_BOOL: return a == DTYPE_BOOL && b == DTYPE_BOOL ? DTYPE_BOOL : common(a, b);
    case COMMON_FLOAT: return floating(common(a, b));
    case COMMON_OR_SAME: return a == b ? a : common(a, b);
    case WITH_I32: return common(DTYPE_I32, a);
    case WIDENED: return widened(a);
    case WIDENED_FLOAT: return floating(widened(a));
    case FIRST: return a;
    case SECOND: return b;
    case GIVES_BOOL: return DTYPE_BOOL;
    case GIVES_I32: return DTYPE_I32;
    case GIVES_F32: return DTYPE_F32;
    case GIVES_INT: return DTYPE_INT;
    case DOT: return a == DTYPE_U32 && b == DTYPE_U32 ? DTYPE_U32 : DTYPE_I32;
    }
    return DTYPE_NONE;
}

// ---- a kernel of all cells: each is a print on a line of its own

enum {
    FIRST_TYPE = DTYPE_NONE + 1,
    TYPES = DTYPE_COUNT - FIRST_TYPE,
    ROWS = COUNT(rows),
    CELLS = ROWS * TYPES * TYPES
};
typedef struct Cell {
    const Row *row;
    DType a, b;
} Cell;

static bool is_word_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

// A name of one letter: an operand, not a letter of a word.
static bool is_name(const char *text, const char *p, char name)
{
    return *p == name && (p == text || !is_word_letter(p[-1])) && !is_word_letter(p[1]);
}

static bool mentions_b(const Row *row)
{
    for (const char *p = row->text; *p; p++)
        if (*p == 'B' || is_name(row->text, p, 'b')) return true;
    return false;
}

static const char *operand(Arena *arena, DType t)
{
    return t == DTYPE_INT ? "n" : arena_printf(arena, "X_%s[0]", dtype_name(t));
}

static void add_cell(Arena *arena, Text *out, int line, Cell cell)
{
    text_print(out, "print(\"%d\", ", line);
    for (const char *p = cell.row->text; *p; p++) {
        if (*p == 'B') text_print(out, "%s", dtype_name(cell.b));
        else if (is_name(cell.row->text, p, 'a')) text_print(out, "%s", operand(arena, cell.a));
        else if (is_name(cell.row->text, p, 'b')) text_print(out, "%s", operand(arena, cell.b));
        else text_print(out, "%c", *p);
    }
    text_print(out, ");\n");
}

static const char *kernel_of(Arena *arena, const Cell *cells, int n)
{
    Text out = { .arena = arena };
    text_print(&out, "kernel k(int n, bool c");
    for (int t = FIRST_TYPE; t < DTYPE_COUNT; t++)
        if (t != DTYPE_INT) text_print(&out, ", inout %s X_%s[8]", dtype_name((DType)t), dtype_name((DType)t));
    text_print(&out, ") { grid ();\n");
    for (int i = 0; i < n; i++) add_cell(arena, &out, i + 2, cells[i]);
    text_print(&out, "}\n");
    return text_cstr(&out);
}

static TileKernel *check_cells(Arena *arena, Diags *diags, const Cell *cells, int n)
{
    const char *const text = kernel_of(arena, cells, n);
    diags->limit = CELLS + 1;
    Program *const program = program_from_text(arena, diags, "cells.tile", text, strlen(text));
    assert_int_equal(diags->errors, 0);
    return check_kernel(program, "k", &(CheckOptions){ .target = "cpu" });
}

static const char *shown(const Cell *cell, Arena *arena)
{
    return arena_printf(arena, "%s of %s and %s", cell->row->text, dtype_name(cell->a), dtype_name(cell->b));
}

static int all_cells(Cell *cells, bool accepted)
{
    int n = 0;
    for (int r = 0; r < ROWS; r++)
        for (int a = FIRST_TYPE; a < DTYPE_COUNT; a++)
            for (int b = FIRST_TYPE; b < DTYPE_COUNT; b++) {
                const Cell cell = { &rows[r], (DType)a, (DType)(mentions_b(&rows[r]) ? b : a) };
                if (accepts(cell.row, cell.a, cell.b) == accepted) cells[n++] = cell;
                if (!mentions_b(&rows[r])) break;
            }
    return n;
}

static Arena *arena;
static Diags *diags;
static Cell cells[CELLS];

static int open_arena(void **state)
{
    arena = arena_new();
    diags = diags_new(arena);
    return arena ? 0 : 1;
}

static int close_arena(void **state)
{
    arena_free(arena);
    return 0;
}

static void what_is_accepted_has_its_type(void **state)
{
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    const int n = all_cells(cells, true);
    const TileKernel *const kernel = check_cells(arena, diags, cells, n);
    if (!kernel) {
        const Diag *const first = diags->first;
        const int line = source_position(first->span.source, first->span.begin).line;
        fail_msg("%s is refused: %s", shown(&cells[line - 2], arena), first->message);
    }
    int printed = 0;
    for (const TileOp *op = kernel->body; op; op = op->next) {
        if (op->kind != T_PRINT) continue;
        const Cell *const cell = &cells[atoi(op->print.format) - 2];
        const DType type = op->print.args[0]->type, right = result(cell->row, cell->a, cell->b);
        if (type != right) fail_msg("%s is %s, expected %s", shown(cell, arena), dtype_name(type), dtype_name(right));
        printed++;
    }
    assert_int_equal(printed, n);
}

static void what_is_refused_has_an_error(void **state)
{
    static bool refused[CELLS + 2];
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    const int n = all_cells(cells, false);
    assert_true(n > 1000);
    assert_null(check_cells(arena, diags, cells, n));
    for (const Diag *diag = diags->first; diag; diag = diag->next)
        if (diag->kind == DIAG_ERROR) refused[source_position(diag->span.source, diag->span.begin).line - 2] = true;
    for (int i = 0; i < n; i++)
        if (!refused[i]) fail_msg("%s is accepted", shown(&cells[i], arena));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_accepted_has_its_type, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(what_is_refused_has_an_error, open_arena, close_arena),
    };
    return cmocka_run_group_tests_name("result types", tests, NULL, NULL);
}
