// SPDX-License-Identifier: MIT
// grid.c - which instance a thread block computes: its number, and the coordinates that this stands for.
//
// A persistent block takes one instance after another. The order is chosen so that blocks get alike and instances that
// run at the same time share what L2 holds: rasterize(n) makes bands; where the work depends on one coordinate
// (load_balance.c), that one runs slowest within groups of the others, or long and short instances are taken in pairs.
// The instances of a cluster count as one, and are told apart by their rank along its coordinate.
//
// before: parameters are variables (parameters.c)        after: so are the coordinates
#include "lower/cuda/grid.h"
#include "lower/cuda/print.h"

static Expr *extent_of(Lowering *lo, int coordinate) { return var_of(lo, lo->numbered_extents[coordinate]); }

static Expr *smaller(Lowering *lo, Expr *a, Expr *b) { return call_expr(lo, DTYPE_I32, "math_min", 2, a, b); }

static Expr *is_odd(Lowering *lo, Var *number)
{
    return i32_op(lo, X_NE, i32_op(lo, X_BITAND, var_of(lo, number), 1), 0);
}

static Expr *quotient(Lowering *lo, Expr *n, Expr *d) { return call_expr(lo, DTYPE_I32, "math_quotient", 2, n, d); }

// n / d, and n % d in *rest. Where an instance is in the grid is divided out anew for each, with no product under way,
// so this is not the machine's long division.
static Expr *divide(Lowering *lo, const char *name, Expr *n, Expr *d, Expr **rest)
{
    Expr *const whole = emit_i32(lo, name, quotient(lo, n, d));
    *rest = emit_i32(lo, "rest", i32_sub(lo, n, i32_times(lo, d, whole)));
    return whole;
}

bool is_clustered(const Lowering *lo, int coordinate) { return lo->cluster > 1 && coordinate == lo->clustered; }

// blockIdx or gridDim, counting clusters: taken anew, not held.
static Expr *clusters_of(Lowering *lo, const char *blocks)
{
    return literal(lo, DTYPE_I32,
                   lo->cluster > 1 ? arena_printf(lo->arena, "again((int32_t)(%s.x / %uu))", blocks, lo->cluster)
                                   : arena_printf(lo->arena, "(int32_t)%s.x", blocks));
}

// ---- within a cluster

// For boxes, whose places are worked out once.
void declare_rank(Lowering *lo)
{
    const char *const rank = arena_printf(lo->arena, "(int32_t)(blockIdx.x %% %uu)", lo->cluster);
    if (lo->cluster > 1) lo->rank = emit_declare(lo, DTYPE_I32, "rank", literal(lo, DTYPE_I32, rank));
}

Expr *cluster_rank(Lowering *lo)
{
    return literal(lo, DTYPE_I32, arena_printf(lo->arena, "again((int32_t)(blockIdx.x %% %uu))", lo->cluster));
}

// ---- coordinates

static void declare_coordinate(Lowering *lo, int i, Expr *value)
{
    Var *const var = loop_var(lo, lo->kernel->grid[i].var);
    if (is_clustered(lo, i)) value = i32_add(lo, i32_mul(lo, value, lo->cluster), cluster_rank(lo));
    emit_definition(lo, var, var->type == DTYPE_I64 ? value : call_expr(lo, DTYPE_I32, "(int32_t)", 1, value));
}

// The coordinates from `from` on, but for `except`; the first of them runs fastest.
static void declare_coordinates(Lowering *lo, Expr *rest, int from, int except)
{
    const int n = lo->kernel->n_grid, last = n - 1 == except ? n - 2 : n - 1;
    for (int i = from; i <= last; i++) {
        if (i == except) continue;
        Expr *value = rest;
        if (i < last) rest = divide(lo, "above", rest, extent_of(lo, i), &value);
        declare_coordinate(lo, i, value);
    }
}

// Bands of `rasterize` instances along the second coordinate: neighbours in time share rows and columns in the cache.
// Returns what the other coordinates are made of.
static Expr *declare_band(Lowering *lo, Expr *instance)
{
    Expr *const x = extent_of(lo, 0), *const y = extent_of(lo, 1);
    const int rows = is_clustered(lo, 1) ? lo->kernel->rasterize / lo->cluster : lo->kernel->rasterize;
    Expr *const band = i32_const(lo, rows > 1 ? rows : 1);
    Expr *plane = instance, *planes = NULL, *within, *row;
    if (lo->kernel->n_grid > 2) planes = divide(lo, "planes", instance, i32_times(lo, x, y), &plane);
    Expr *const number = divide(lo, "band", plane, i32_times(lo, band, x), &within);
    Expr *const first = emit_i32(lo, "first", i32_times(lo, number, band));
    Expr *const height = emit_i32(lo, "height", smaller(lo, i32_sub(lo, y, first), band));
    Expr *const column = divide(lo, "column", within, height, &row);
    declare_coordinate(lo, 1, i32_add(lo, first, row));
    declare_coordinate(lo, 0, column);
    return planes;
}

// In the order of their numbers.
static void declare_instance(Lowering *lo, Var *instance)
{
    if (lo->kernel->rasterize > 1 && lo->kernel->n_grid >= 2)
        declare_coordinates(lo, declare_band(lo, var_of(lo, instance)), 2, -1);
    else declare_coordinates(lo, var_of(lo, instance), 0, -1);
}

// ---- unequal work

// The combinations of the coordinates but `except`.
static Expr *count_others(Lowering *lo, int except)
{
    Expr *count = i32_const(lo, 1);
    for (int i = 0; i < lo->kernel->n_grid; i++)
        if (i != except) count = i32_times(lo, count, extent_of(lo, i));
    return count;
}

// Combinations of the other coordinates that form a group. With rounds that alternate in direction, groups of a twelfth
// of the blocks make the blocks differ by less than 1% (of 16, by up to 10%), and are few enough that what a group
// reads again stays in L2. Where the imbalanced coordinate has few values the blocks differ more, and what a group
// reads is less: groups of a sixth. Less than two groups are one.
static Expr *group_size(Lowering *lo, int imbalanced, Expr *others)
{
    enum { IMBALANCED_FEW = 32 };
    Arena *const a = lo->arena;
    Expr *const sixth = literal(lo, DTYPE_I32, arena_printf(a, "(int32_t)gridDim.x / %d", 6 * lo->cluster));
    Expr *const twelfth = literal(lo, DTYPE_I32, arena_printf(a, "(int32_t)gridDim.x / %d", 12 * lo->cluster));
    Expr *const wanted = expr_select(a, i32_op(lo, X_LT, extent_of(lo, imbalanced), IMBALANCED_FEW), sixth, twelfth);
    Expr *const part = emit_i32(lo, "part", call_expr(lo, DTYPE_I32, "math_max", 2, wanted, i32_const(lo, 1)));
    Expr *const is_one = expr_binary(a, X_LT, others, i32_mul(lo, part, 2));
    return emit_i32(lo, "size", expr_select(a, is_one, others, part));
}

// An instance: its place along the imbalanced coordinate, and the number of its combination of the others.
typedef struct Imbalance {
    int coordinate;
    Var *round, *instance;
    Expr *place, *rest;
} Imbalance;

// Instances of equal work side by side: the imbalanced coordinate runs slowest within a group of combinations of the
// others.
static void place_in_groups(Lowering *lo, Imbalance *u)
{
    Expr *within, *other;
    Expr *const extent = extent_of(lo, u->coordinate);
    Expr *const others = emit_i32(lo, "others", count_others(lo, u->coordinate));
    Expr *const size = group_size(lo, u->coordinate, others);
    Expr *const area = emit_i32(lo, "area", i32_times(lo, extent, size));
    Expr *const group = divide(lo, "turn", var_of(lo, u->instance), area, &within);
    Expr *const first = emit_i32(lo, "first", i32_times(lo, group, size));
    Expr *const height = emit_i32(lo, "height", smaller(lo, i32_sub(lo, others, first), size));
    u->place = divide(lo, "place", within, height, &other);
    u->rest = i32_add(lo, first, other);
}

// Where instances add to tensors, those that run at the same time should add to the same rows, which L2 holds then: all
// of the imbalanced coordinate, one combination of the others after another. The i-th longest and the i-th shortest
// cost the same together for all i, so that a block takes them in turn. Not where too few pairs leave blocks without
// work.
typedef struct Pairs {
    Expr *half, *count, *wanted, *number;
} Pairs;

static Expr *again(Lowering *lo, Expr *x) { return call_expr(lo, DTYPE_I32, "again", 1, x); }

static Pairs count_pairs(Lowering *lo, const Imbalance *u, Expr *blocks, Expr *block)
{
    Expr *const extent = again(lo, extent_of(lo, u->coordinate));
    Expr *const others = again(lo, count_others(lo, u->coordinate));
    Expr *const half = emit_i32(lo, "half", i32_op(lo, X_SHR, i32_op(lo, X_ADD, extent, 1), 1));
    Expr *const count = emit_i32(lo, "pairs", i32_times(lo, others, half));
    Expr *const rounds = quotient(lo, i32_op(lo, X_SUB, i32_add(lo, count, blocks), 1), blocks);
    Expr *const unused = i32_sub(lo, i32_times(lo, rounds, blocks), count);
    Expr *const few = expr_binary(lo->arena, X_LE, unused, i32_op(lo, X_SHR, count, 4));
    Expr *const wanted = var_of(lo, emit_declare(lo, DTYPE_BOOL, "paired", few));
    Expr *const number = i32_add(lo, i32_times(lo, i32_op(lo, X_SHR, var_of(lo, u->round), 1), blocks), block);
    return (Pairs){ half, count, wanted, number };
}

// In every second round the other of a pair; an odd coordinate's middle one has no other, and is left out there.
static void place_in_pairs(Lowering *lo, Imbalance *u, const Pairs *pairs)
{
    Arena *const a = lo->arena;
    Expr *x;
    Expr *const others = divide(lo, "others_before", var_of(lo, u->instance), pairs->half, &x);
    Expr *const second = is_odd(lo, u->round);
    Expr *const mirrored = i32_sub(lo, i32_op(lo, X_SUB, extent_of(lo, u->coordinate), 1), x);
    Expr *const is_middle = expr_binary(a, X_EQ, mirrored, x);
    Nest same;
    begin_if(lo, &same, expr_binary(a, X_AND, expr_binary(a, X_AND, pairs->wanted, second), is_middle));
    emit_jump(lo, L_CONTINUE);
    end_nest(lo, &same);
    u->place = expr_select(a, pairs->wanted, expr_select(a, second, mirrored, x), u->place);
    u->rest = expr_select(a, pairs->wanted, others, u->rest);
}

// ---- instances

// The instances of a persistent block. Every second round runs backwards: where work falls or rises along the grid, all
// blocks get alike.
static void begin_rounds(Lowering *lo, Nest *nest, Imbalance *u, Pairs *pairs)
{
    Arena *const a = lo->arena;
    Expr *const block = clusters_of(lo, "blockIdx"), *const blocks = clusters_of(lo, "gridDim");
    // Left by the test below: the number of rounds would be one more value to keep. One block that takes pairs has
    // more rounds than instances, as an odd coordinate's middle one stands in two.
    Expr *const most = pairs ? i32_const(lo, INT32_MAX) : var_of(lo, lo->tiles_total);
    u->round = loop_new_var(lo->unit, DTYPE_I32, "round");
    begin_for(lo, nest, u->round, i32_const(lo, 0), most, i32_const(lo, 1), LOOP_NO_UNROLL);
    Expr *const reversed = i32_sub(lo, i32_op(lo, X_SUB, blocks, 1), block);
    Expr *const place = lo->kernel->rasterize > 1 ? block : expr_select(a, is_odd(lo, u->round), reversed, block);
    Expr *number = i32_add(lo, i32_times(lo, var_of(lo, u->round), blocks), place), *end = var_of(lo, lo->tiles_total);
    if (pairs) {
        *pairs = count_pairs(lo, u, blocks, block);
        number = expr_select(a, pairs->wanted, pairs->number, number);
        end = expr_select(a, pairs->wanted, pairs->count, end);
    }
    u->instance = emit_declare(lo, DTYPE_I32, "instance", number);
    Nest leave;
    begin_if(lo, &leave, expr_binary(a, X_GE, var_of(lo, u->instance), end));
    emit_jump(lo, L_BREAK);
    end_nest(lo, &leave);
}

static void begin_persistent(Lowering *lo, Nest *nest)
{
    bool in_pairs;
    Imbalance u = { .coordinate = find_imbalance(lo, &in_pairs) };
    Pairs pairs, *const paired = in_pairs ? &pairs : NULL;
    begin_rounds(lo, nest, &u, paired);
    if (u.coordinate < 0) {
        declare_instance(lo, u.instance);
        return;
    }
    place_in_groups(lo, &u);
    if (paired) place_in_pairs(lo, &u, paired);
    declare_coordinate(lo, u.coordinate, u.place);
    declare_coordinates(lo, emit_i32(lo, "rest", u.rest), 0, u.coordinate);
}

void begin_grid(Lowering *lo, Nest *nest)
{
    if (lo->is_persistent) {
        begin_persistent(lo, nest);
        return;
    }
    begin_block(lo, nest);
    declare_instance(lo, emit_declare(lo, DTYPE_I32, "instance", clusters_of(lo, "blockIdx")));
}
