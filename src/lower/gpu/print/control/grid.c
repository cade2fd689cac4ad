// SPDX-License-Identifier: MIT
// grid.c - which instance a thread block computes: its number, and the coordinates that this stands for.
//
// A persistent block takes one instance after another. The order is chosen so that blocks get alike and instances that
// run at the same time share what L2 holds: rasterize(n) makes bands; where the work depends on one coordinate
// (load_balance.c), that one runs slowest within groups of the others, or long and short instances are taken in pairs.
// The instances of a cluster count as one, and are told apart by their rank along its coordinate.
//
// before: parameters are variables (parameters.c)        after: so are the coordinates
#include "lower/gpu/print/control/grid.h"
#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/facts/load_balance.h"

static Expr *again(Printer *pr, Expr *x) { return call_expr(pr, DTYPE_I32, "again", 1, x); }

static Expr *extent_of(Printer *pr, int coordinate) { return var_of(pr, pr->numbered_extents[coordinate]); }

static Expr *smaller(Printer *pr, Expr *a, Expr *b) { return call_expr(pr, DTYPE_I32, "math_min", 2, a, b); }

static Expr *is_odd(Printer *pr, Var *number)
{
    return i32_op(pr, X_NE, i32_op(pr, X_BITAND, var_of(pr, number), 1), 0);
}

static Expr *quotient(Printer *pr, Expr *n, Expr *d) { return call_expr(pr, DTYPE_I32, "math_quotient", 2, n, d); }

// n / d, and n % d in *rest. Where an instance is in the grid is divided out anew for each, with no product under way,
// so this is not the machine's long division.
static Expr *divide(Printer *pr, const char *name, Expr *n, Expr *d, Expr **rest)
{
    Expr *const whole = emit_i32(pr, name, quotient(pr, n, d));
    *rest = emit_i32(pr, "rest", i32_sub(pr, n, i32_times(pr, d, whole)));
    return whole;
}

bool is_clustered(Printer *pr, int coordinate) { return pr->lo->cluster > 1 && coordinate == pr->lo->clustered; }

// Where the producer group holds rows in registers, consumers have none to spare: what they make of the grid's extents is
// made for each instance. Through a role it would be spilled.
static bool counts_anew(Printer *pr) { return pr->lo->has_register_prefetch && pr->lo->role == ROLE_CONSUMER; }

// blockIdx or gridDim, counting clusters: taken anew, not held.
static Expr *clusters_of(Printer *pr, const char *blocks)
{
    Arena *const a = pr->arena;
    const int n = pr->lo->cluster;
    if (!counts_anew(pr))
        return literal(pr, DTYPE_I32,
                       n > 1 ? arena_printf(a, "again((int32_t)(%s.x / %uu))", blocks, n)
                             : arena_printf(a, "(int32_t)%s.x", blocks));
    return literal(pr, DTYPE_I32,
                   n > 1 ? arena_printf(a, "(int32_t)((uint32_t)again((int32_t)%s.x) / %uu)", blocks, n)
                         : arena_printf(a, "again((int32_t)%s.x)", blocks));
}

// ---- within a cluster

// For boxes, whose coordinates are computed once.
void declare_rank(Printer *pr)
{
    const char *const rank = arena_printf(pr->arena, "(int32_t)(blockIdx.x %% %uu)", pr->lo->cluster);
    if (pr->lo->cluster > 1) pr->rank = emit_declare(pr, DTYPE_I32, "rank", literal(pr, DTYPE_I32, rank));
}

Expr *cluster_rank(Printer *pr)
{
    return literal(pr, DTYPE_I32, arena_printf(pr->arena, "again((int32_t)(blockIdx.x %% %uu))", pr->lo->cluster));
}

// ---- coordinates

static void declare_coordinate(Printer *pr, int i, Expr *value)
{
    Var *const var = loop_var(pr, pr->lo->kernel->grid[i].var);
    if (is_clustered(pr, i)) value = i32_add(pr, i32_mul(pr, value, pr->lo->cluster), cluster_rank(pr));
    emit_definition(pr, var, var->type == DTYPE_I64 ? value : call_expr(pr, DTYPE_I32, "(int32_t)", 1, value));
}

static Expr *divisor_of(Printer *pr, int coordinate)
{
    Expr *const extent = extent_of(pr, coordinate);
    return counts_anew(pr) ? emit_i32(pr, "extent", again(pr, extent)) : extent;
}

static Expr *instances(Printer *pr)
{
    Expr *total = i32_const(pr, 1);
    if (!counts_anew(pr)) return var_of(pr, pr->tiles_total);
    for (int i = 0; i < pr->lo->kernel->n_grid; i++) total = i32_times(pr, total, again(pr, extent_of(pr, i)));
    return total;
}

// The coordinates from `from` on, but for `except`; the first of them runs fastest.
static void declare_coordinates(Printer *pr, Expr *rest, int from, int except)
{
    const int n = pr->lo->kernel->n_grid, last = n - 1 == except ? n - 2 : n - 1;
    for (int i = from; i <= last; i++) {
        if (i == except) continue;
        Expr *value = rest;
        if (i < last) rest = divide(pr, "above", rest, divisor_of(pr, i), &value);
        declare_coordinate(pr, i, value);
    }
}

// Bands of `rasterize` instances along the second coordinate: neighbours in time share rows and columns in the cache.
// Returns what the other coordinates are made of.
static Expr *declare_band(Printer *pr, Expr *instance)
{
    Expr *const x = extent_of(pr, 0), *const y = extent_of(pr, 1);
    const int rows = is_clustered(pr, 1) ? pr->lo->kernel->rasterize / pr->lo->cluster : pr->lo->kernel->rasterize;
    Expr *const band = i32_const(pr, rows > 1 ? rows : 1);
    Expr *plane = instance, *planes = NULL, *within, *row;
    if (pr->lo->kernel->n_grid > 2) planes = divide(pr, "planes", instance, i32_times(pr, x, y), &plane);
    Expr *const number = divide(pr, "band", plane, i32_times(pr, band, x), &within);
    Expr *const first = emit_i32(pr, "first", i32_times(pr, number, band));
    Expr *const height = emit_i32(pr, "height", smaller(pr, i32_sub(pr, y, first), band));
    Expr *const column = divide(pr, "column", within, height, &row);
    declare_coordinate(pr, 1, i32_add(pr, first, row));
    declare_coordinate(pr, 0, column);
    return planes;
}

// In the order of their numbers.
static void declare_instance(Printer *pr, Var *instance)
{
    if (pr->lo->kernel->rasterize > 1 && pr->lo->kernel->n_grid >= 2)
        declare_coordinates(pr, declare_band(pr, var_of(pr, instance)), 2, -1);
    else declare_coordinates(pr, var_of(pr, instance), 0, -1);
}

// ---- unequal work

// The combinations of the coordinates but `except`.
static Expr *count_others(Printer *pr, int except)
{
    Expr *count = i32_const(pr, 1);
    for (int i = 0; i < pr->lo->kernel->n_grid; i++)
        if (i != except) count = i32_times(pr, count, extent_of(pr, i));
    return count;
}

// Combinations of the other coordinates that form a group. With rounds that alternate in direction, groups of a twelfth
// of the blocks make the blocks differ by less than 1% (of 16, by up to 10%), and are few enough that what a group
// reads again stays in L2. Where the imbalanced coordinate has few values the blocks differ more, and what a group
// reads is less: groups of a sixth. Less than two groups are one.
static Expr *group_size(Printer *pr, int imbalanced, Expr *others)
{
    enum { IMBALANCED_FEW = 32 };
    Arena *const a = pr->arena;
    Expr *const sixth = literal(pr, DTYPE_I32, arena_printf(a, "(int32_t)gridDim.x / %d", 6 * pr->lo->cluster));
    Expr *const twelfth = literal(pr, DTYPE_I32, arena_printf(a, "(int32_t)gridDim.x / %d", 12 * pr->lo->cluster));
    Expr *const wanted = expr_select(a, i32_op(pr, X_LT, extent_of(pr, imbalanced), IMBALANCED_FEW), sixth, twelfth);
    Expr *const part = emit_i32(pr, "part", call_expr(pr, DTYPE_I32, "math_max", 2, wanted, i32_const(pr, 1)));
    Expr *const is_one = expr_binary(a, X_LT, others, i32_mul(pr, part, 2));
    return emit_i32(pr, "size", expr_select(a, is_one, others, part));
}

// An instance: its place along the imbalanced coordinate, and the number of its combination of the others.
typedef struct Imbalance {
    int coordinate;
    Var *round, *instance;
    Expr *place, *rest;
} Imbalance;

// Instances of equal work side by side: the imbalanced coordinate runs slowest within a group of combinations of the
// others.
static void place_in_groups(Printer *pr, Imbalance *u)
{
    Expr *within, *other;
    Expr *const extent = extent_of(pr, u->coordinate);
    Expr *const others = emit_i32(pr, "others", count_others(pr, u->coordinate));
    Expr *const size = group_size(pr, u->coordinate, others);
    Expr *const area = emit_i32(pr, "area", i32_times(pr, extent, size));
    Expr *const group = divide(pr, "turn", var_of(pr, u->instance), area, &within);
    Expr *const first = emit_i32(pr, "first", i32_times(pr, group, size));
    Expr *const height = emit_i32(pr, "height", smaller(pr, i32_sub(pr, others, first), size));
    u->place = divide(pr, "place", within, height, &other);
    u->rest = i32_add(pr, first, other);
}

// Where instances add to tensors, those that run at the same time should add to the same rows, which L2 holds then: all
// of the imbalanced coordinate, one combination of the others after another. The i-th longest and the i-th shortest
// cost the same together for all i, so that a block takes them in turn. Not where too few pairs leave blocks without
// work.
typedef struct Pairs {
    Expr *half, *count, *wanted, *number;
} Pairs;

static Pairs count_pairs(Printer *pr, const Imbalance *u, Expr *blocks, Expr *block)
{
    Expr *const extent = again(pr, extent_of(pr, u->coordinate));
    Expr *const others = again(pr, count_others(pr, u->coordinate));
    Expr *const half = emit_i32(pr, "half", i32_op(pr, X_SHR, i32_op(pr, X_ADD, extent, 1), 1));
    Expr *const count = emit_i32(pr, "pairs", i32_times(pr, others, half));
    Expr *const rounds = quotient(pr, i32_op(pr, X_SUB, i32_add(pr, count, blocks), 1), blocks);
    Expr *const unused = i32_sub(pr, i32_times(pr, rounds, blocks), count);
    Expr *const few = expr_binary(pr->arena, X_LE, unused, i32_op(pr, X_SHR, count, 4));
    Expr *const wanted = var_of(pr, emit_declare(pr, DTYPE_BOOL, "paired", few));
    Expr *const number = i32_add(pr, i32_times(pr, i32_op(pr, X_SHR, var_of(pr, u->round), 1), blocks), block);
    return (Pairs){ half, count, wanted, number };
}

// In every second round the other of a pair; an odd coordinate's middle one has no other, and is left out there.
static void place_in_pairs(Printer *pr, Imbalance *u, const Pairs *pairs)
{
    Arena *const a = pr->arena;
    Expr *x;
    Expr *const others = divide(pr, "others_before", var_of(pr, u->instance), pairs->half, &x);
    Expr *const second = is_odd(pr, u->round);
    Expr *const mirrored = i32_sub(pr, i32_op(pr, X_SUB, extent_of(pr, u->coordinate), 1), x);
    Expr *const is_middle = expr_binary(a, X_EQ, mirrored, x);
    Nest same;
    begin_if(pr, &same, expr_binary(a, X_AND, expr_binary(a, X_AND, pairs->wanted, second), is_middle));
    emit_jump(pr, L_CONTINUE);
    end_nest(pr, &same);
    u->place = expr_select(a, pairs->wanted, expr_select(a, second, mirrored, x), u->place);
    u->rest = expr_select(a, pairs->wanted, others, u->rest);
}

// ---- instances

// The instances of a persistent block. Every second round runs backwards: where work falls or rises along the grid, all
// blocks get alike.
static void begin_rounds(Printer *pr, Nest *nest, Imbalance *u, Pairs *pairs)
{
    Arena *const a = pr->arena;
    Expr *const block = clusters_of(pr, "blockIdx"), *const blocks = clusters_of(pr, "gridDim");
    // Left by the test below: the number of rounds would be one more value to keep. One block that takes pairs has
    // more rounds than instances, as an odd coordinate's middle one stands in two.
    Expr *const most = pairs || counts_anew(pr) ? i32_const(pr, INT32_MAX) : var_of(pr, pr->tiles_total);
    u->round = loop_new_var(pr->unit, DTYPE_I32, "round");
    begin_for(pr, nest, u->round, i32_const(pr, 0), most, i32_const(pr, 1), LOOP_NO_UNROLL);
    Expr *const reversed = i32_sub(pr, i32_op(pr, X_SUB, blocks, 1), block);
    Expr *const place = pr->lo->kernel->rasterize > 1 ? block : expr_select(a, is_odd(pr, u->round), reversed, block);
    Expr *number = i32_add(pr, i32_times(pr, var_of(pr, u->round), blocks), place), *end = instances(pr);
    if (pairs) {
        *pairs = count_pairs(pr, u, blocks, block);
        number = expr_select(a, pairs->wanted, pairs->number, number);
        end = expr_select(a, pairs->wanted, pairs->count, end);
    }
    u->instance = emit_declare(pr, DTYPE_I32, "instance", number);
    Nest leave;
    begin_if(pr, &leave, expr_binary(a, X_GE, var_of(pr, u->instance), end));
    emit_jump(pr, L_BREAK);
    end_nest(pr, &leave);
}

static void begin_persistent(Printer *pr, Nest *nest)
{
    Imbalance u = { .coordinate = pr->lo->imbalance };
    Pairs pairs, *const paired = pr->lo->in_pairs ? &pairs : NULL;
    begin_rounds(pr, nest, &u, paired);
    if (u.coordinate < 0) {
        declare_instance(pr, u.instance);
        return;
    }
    place_in_groups(pr, &u);
    if (paired) place_in_pairs(pr, &u, paired);
    declare_coordinate(pr, u.coordinate, u.place);
    declare_coordinates(pr, emit_i32(pr, "rest", u.rest), 0, u.coordinate);
}

void begin_grid(Printer *pr, Nest *nest)
{
    if (pr->lo->is_persistent) {
        begin_persistent(pr, nest);
        return;
    }
    begin_block(pr, nest);
    declare_instance(pr, emit_declare(pr, DTYPE_I32, "instance", clusters_of(pr, "blockIdx")));
}
