// SPDX-License-Identifier: MIT
// table.c - what becomes of codes of four bits or less, looked up in a table of all of them.
//
// In a loop over a row of such codes, an f32 expression that depends on the innermost index by one of these alone has 16
// values at most. They are computed before the loops that nothing else in it depends on, and a row of codes becomes
// a row of them by one permutation for a vector: conversion, scale, zero and quantiles cost the same.
#include "lower/cpu/cpu.h"

enum { CODES = 16, ROW_MAX = 1024, TURNED = 64, TURNED_MAX = 4096 }; // of whole fours of vectors; of a tile

typedef struct Coded {
    Cpu *cx;
    const Expr *load; // of the code
    int depth;        // of everything else
} Coded;

static bool is_written(const Nest *nest, const Buffer *root)
{
    for (int i = 0; i < nest->written.count; i++)
        if (nest->written.items[i] == root) return true;
    return false;
}

static bool is_code(const Cpu *cx, const Expr *x)
{
    const Nest *const nest = cx->nest;
    if (x->kind != E_LOAD) return false;
    const Buffer *const b = x->load.buffer;
    const Var *const inner = nest->op->forall.indices[nest->order[nest->n - 1]].var;
    if ((b->kind != BUFFER_SHARED && b->kind != BUFFER_FRAGMENT) || dtype_bits(b->type) > 4 || !b->rank ||
        is_written(nest, b))
        return false;
    for (int d = 0; d < b->rank; d++) {
        const bool last = d == b->rank - 1, along = x->load.subs[d]->kind == E_VAR && x->load.subs[d]->var.var == inner;
        if (!common_is_inside(x->load.subs[d], b->shape[d])) return false;
        if (last ? !along : cpu_expr_depth((Cpu *)cx, x->load.subs[d]) >= nest->n) return false;
    }
    return true;
}

// A load that the tables of all codes may hold: also for those that do not occur.
static bool is_inside(const Expr *load)
{
    for (int d = 0; d < load->load.buffer->rank; d++)
        if (!common_is_inside(load->load.subs[d], load->load.buffer->shape[d])) return false;
    return true;
}

static bool is_coded(Coded *c, Expr *x)
{
    const int depth = cpu_expr_depth(c->cx, x);
    if (depth < c->cx->nest->n) {
        c->depth = depth > c->depth ? depth : c->depth;
        return x->kind != E_CALL && x->kind != E_ATOMIC;
    }
    if (is_code(c->cx, x)) {
        if (!c->load) c->load = x;
        return expr_equal(c->load, x);
    }
    const bool from_tile = x->kind == E_LOAD && buffer_is_tile(x->load.buffer) &&
                           x->load.buffer->kind != BUFFER_LOCAL &&
                           !is_written(c->cx->nest, buffer_root(x->load.buffer)) && is_inside(x);
    if (!from_tile && x->kind != E_UNARY && x->kind != E_BINARY && x->kind != E_SELECT && x->kind != E_CONVERT &&
        x->kind != E_BITCAST && x->kind != E_MATH)
        return false;
    Expr **slots[EXPR_SLOTS_MAX];
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n; i++)
        if (!is_coded(c, *slots[i])) return false;
    return n > 0;
}

static bool may_fault(const Expr *x, void *context)
{
    if (x->kind == E_BINARY && (x->op.op == X_DIV || x->op.op == X_MOD)) return dtype_is_integer(x->type);
    if (x->kind == E_MATH) return builtins[x->math.fn].divides;
    return x->kind == E_LOAD && !is_inside(x);
}

typedef struct Replaced {
    const Expr *load;
    Expr *by;
} Replaced;

static Expr *replace_load(Expr *x, void *context)
{
    const Replaced *const r = context;
    return expr_equal(x, r->load) ? r->by : x;
}

static Var *declare_row(Cpu *cx, const char *name, int64_t elements)
{
    Var *const row = loop_new_pointer(cx->unit, DTYPE_F32, name);
    row->pointer = 0;
    cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = row, .elements = elements } });
    row->pointer = 1;
    return row;
}

// All values of x, before the loop over level `depth` + 1; those of codes of fewer than four bits again and again.
static Var *tabulate(Cpu *cx, const Coded *c, Expr *x)
{
    Arena *const a = cx->arena;
    Nest *const nest = cx->nest;
    LoopList fill = loop_list(a), *const here = cpu_enter(cx, nest->before[c->depth]);
    Var *const table = declare_row(cx, "table", CODES), *const code = loop_new_var(cx->unit, DTYPE_I32, "code");
    Expr *const value = NEW(a, Expr);
    *value = *cpu_of(cx, code);
    value->type = c->load->type;
    cpu_enter(cx, &fill);
    cx->nest = NULL;
    Expr *const y = cpu_expr(cx, expr_map(a, x, replace_load, &(Replaced){ c->load, value }));
    cx->nest = nest;
    cpu_add(cx, (LoopStmt){ .kind = L_STORE, .store = { table, cpu_of(cx, code), y } });
    cpu_enter(cx, nest->before[c->depth]);
    cpu_add(cx, (LoopStmt){ .kind = L_FOR,
                            .for_ = { .var = code,
                                      .lo = expr_int(a, DTYPE_I32, 0),
                                      .hi = expr_int(a, DTYPE_I32, CODES),
                                      .step = expr_int(a, DTYPE_I32, 1),
                                      .body = fill.first,
                                      .form = LOOP_VECTORISE } });
    cpu_enter(cx, here);
    return table;
}

// Whether x is one of few values of a code, and its loop is over a row of them; n: of how many.
static bool find_code(Cpu *cx, Expr *x, Coded *c, int64_t *n)
{
    Nest *const nest = cx->nest;
    int64_t lo;
    *c = (Coded){ cx, NULL, 0 };
    if (!nest || cpu_is_checked(cx) || x->type != DTYPE_F32 || x->kind == E_LOAD || (!nest->lane && !nest->inner32) ||
        !is_coded(c, x) || !c->load || ((nest->conditional || nest->may_be_empty) && expr_any(x, may_fault, NULL)))
        return false;
    const LoopIndex *const index = &nest->op->forall.indices[nest->order[nest->n - 1]];
    return expr_as_int(index->lo, &lo) && lo == 0 && expr_as_int(index->hi, n);
}

// Where the row of a tile's load begins, or, of lanes, the part of it.
static Expr *row_address(Cpu *cx, const Expr *load, Var *block)
{
    Nest *const nest = cx->nest;
    Expr *subs[MAX_RANK];
    const int last = load->load.buffer->rank - 1;
    for (int d = 0; d <= last; d++) subs[d] = load->load.subs[d];
    subs[last] = block ? cpu_of(cx, block) : int_const(cx->arena, 0);
    Place p;
    cx->nest = NULL;
    Expr *const address = cpu_place_element(cx, &p, load->load.buffer, subs, load->span)
                              ? cpu_place_address(cx, &p, cpu_linear_at(cx, &p.at, NULL))
                              : cpu_literal(cx, "NULL");
    cx->nest = nest;
    return address;
}

// x of the innermost iteration, from a row that is looked up before its loop; NULL: x is computed.
Expr *cpu_looked_up(Cpu *cx, Expr *x)
{
    Nest *const nest = cx->nest;
    Coded c;
    int64_t n;
    if (!find_code(cx, x, &c, &n)) return NULL;
    if (nest->lane) n = nest->n_lanes;
    Expr *const at = cpu_of(cx, nest->lane ? nest->lane : nest->inner32);
    for (int i = 0; i < nest->rows.count; i++)
        if (expr_equal(nest->rows.items[i].expr, x)) return expr_index(cx->arena, nest->rows.items[i].var, at);
    if (n < CODES || n > ROW_MAX) return NULL;
    Var *const table = tabulate(cx, &c, x);
    LoopList *const here = cpu_enter(cx, nest->lane ? nest->before_lanes : nest->before[nest->n - 1]);
    Expr *const codes = row_address(cx, c.load, nest->lane ? nest->block : NULL);
    Var *const row = declare_row(cx, "looked", n);
    cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_look_up", 4, cpu_of(cx, row), cpu_of(cx, table), codes,
                              int_const(cx->arena, n)));
    cpu_enter(cx, here);
    VEC_PUSH(cx->arena, &nest->rows, ((Hoist){ x, row, nest->n }));
    return expr_index(cx->arena, row, at);
}

static bool is_row_of_numbers(Cpu *cx, const Expr *x)
{
    const Nest *const nest = cx->nest;
    const Var *const inner = nest->op->forall.indices[nest->order[nest->n - 1]].var;
    if (x->kind != E_LOAD || x->type != DTYPE_F32) return false;
    const Buffer *const b = x->load.buffer;
    if ((b->kind != BUFFER_SHARED && b->kind != BUFFER_FRAGMENT) || !b->rank || is_written(nest, b)) return false;
    for (int d = 0; d < b->rank; d++) {
        const Expr *const sub = x->load.subs[d];
        if (!common_is_inside(x->load.subs[d], b->shape[d])) return false;
        if (d == b->rank - 1 ? sub->kind != E_VAR || sub->var.var != inner : cpu_expr_depth(cx, sub) >= nest->n)
            return false;
    }
    return true;
}

// A row of the tile of `load`, in the order in which four codes to a word are looked up; NULL: it has to stay as it is. All
// rows are turned, before the nest.
static Expr *turned_row(Cpu *cx, const Expr *load, int64_t n)
{
    Nest *const nest = cx->nest;
    const Buffer *const b = load->load.buffer;
    int64_t elements = 1, last = 0;
    for (int d = 0; d < b->rank; d++) {
        if (!expr_as_int(b->shape[d], &last)) return NULL;
        elements *= last;
    }
    if (n % TURNED || n != last || elements > TURNED_MAX || cx->tiles[b->id].borrowed) return NULL;
    Expr *at = int_const(cx->arena, 0), *first[MAX_RANK];
    for (int d = 0; d < b->rank; d++) {
        int64_t extent = 1;
        expr_as_int(b->shape[d], &extent);
        at = int_mul(cx->arena, at, int_const(cx->arena, extent));
        if (d < b->rank - 1) at = int_add(cx->arena, at, cpu_expr(cx, load->load.subs[d]));
        first[d] = int_const(cx->arena, 0);
    }
    Place p;
    LoopList *const here = cpu_enter(cx, nest->before[0]);
    cx->nest = NULL;
    Var *const turned = declare_row(cx, "turned", elements);
    if (cpu_place_element(cx, &p, load->load.buffer, first, load->span))
        cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_turn_fours", 3, cpu_of(cx, turned),
                                  cpu_place_address(cx, &p, cpu_linear_at(cx, &p.at, NULL)),
                                  int_const(cx->arena, elements)));
    cx->nest = nest;
    cpu_enter(cx, here);
    return expr_address(cx->arena, turned, at);
}

// A body that only adds products of looked up values and a row of numbers: without rows between. The sum of what an
// element at level `depth` gets, in statements after the loops below; NULL: it is not that.
Expr *cpu_dot_looked_up(Cpu *cx, const TileOp *op, int depth)
{
    Nest *const nest = cx->nest;
    Expr *x = op->update.value;
    Coded c;
    int64_t n;
    const bool vectors = cx->target && (cx->target->isa == ISA_AVX512 || cx->target->isa == ISA_AVX2);
    if (!nest || !vectors || op->update.op != UPDATE_ADD || x->kind != E_BINARY || x->op.op != X_MUL ||
        nest->op->forall.body != op || op->next || nest->conditional || depth >= nest->n)
        return NULL;
    const bool swapped = !is_row_of_numbers(cx, x->op.b);
    Expr *const row = swapped ? x->op.a : x->op.b;
    x = swapped ? x->op.b : x->op.a;
    if (!is_row_of_numbers(cx, row) || !find_code(cx, x, &c, &n) || n < CODES || n > ROW_MAX || n % CODES) return NULL;
    Expr *const sums = cpu_literal(cx, arena_printf(cx->arena, "sums_%d", cx->n_sums++));
    LoopList *const here = cpu_enter(cx, nest->before[depth]);
    cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "KILN_DECLARE_SUMS", 1, sums));
    Var *const table = tabulate(cx, &c, x);
    cpu_enter(cx, nest->before[nest->n - 1]);
    cx->nest = NULL;
    Expr *const ahead = cpu_take_ahead_bits(cx, c.load);
    cx->nest = nest;
    Expr *const turned = turned_row(cx, row, n);
    cpu_add_call(cx, cpu_call(cx, DTYPE_INT, turned ? "kiln_dot_turned" : "kiln_dot_looked_up", 6, sums,
                              cpu_of(cx, table), row_address(cx, c.load, NULL),
                              turned ? turned : row_address(cx, row, NULL), int_const(cx->arena, n), ahead));
    cpu_enter(cx, here);
    return cpu_call(cx, DTYPE_F32, "kiln_sum_of_sums", 1, sums);
}
