// kernel.c - the lowering's outline: analyses in their order, then the kernel's frame around the two roles.
#include "lower/cuda/cuda.h"

#include <stdarg.h>

// ---- shared by all files

bool unsupported(Lowering *lo, Span span, const char *format, ...)
{
    Text text = { .arena = lo->arena };
    va_list list;
    va_start(list, format);
    text_vprint(&text, format, list);
    va_end(list);
    lo->failed = true;
    return diag_error(lo->diags, span, "%s is not supported on cuda yet", text_cstr(&text));
}

void note(Lowering *lo, const char *format, ...)
{
    Text text = { .arena = lo->arena };
    va_list list;
    va_start(list, format);
    text_vprint(&text, format, list);
    va_end(list);
    VEC_PUSH(lo->arena, &lo->notes, text_cstr(&text));
}

static unsigned hash_op(const TileOp *op) { return (unsigned)((uintptr_t)op >> 4) * 2654435761u; }

static void grow_infos(Lowering *lo)
{
    OpInfo **const old = lo->infos;
    const int n = lo->infos_capacity;
    lo->infos_capacity = n ? 2 * n : 256;
    lo->infos = NEW_ARRAY(lo->arena, OpInfo *, lo->infos_capacity);
    for (int i = 0; i < n; i++) {
        if (!old[i])
            continue;
        unsigned at = hash_op(old[i]->op);
        while (lo->infos[at % (unsigned)lo->infos_capacity])
            at++;
        lo->infos[at % (unsigned)lo->infos_capacity] = old[i];
    }
}

OpInfo *op_info(Lowering *lo, const TileOp *op)
{
    if (2 * lo->n_infos >= lo->infos_capacity)
        grow_infos(lo);
    unsigned at = hash_op(op);
    for (;; at++) {
        OpInfo *const info = lo->infos[at % (unsigned)lo->infos_capacity];
        if (!info)
            break;
        if (info->op == op)
            return info;
    }
    lo->n_infos++;
    return lo->infos[at % (unsigned)lo->infos_capacity] = NEW(lo->arena, OpInfo, .op = op);
}

TileInfo *tile_info(const Lowering *lo, const Buffer *buffer)
{
    return buffer && (buffer->kind == BUFFER_SHARED || buffer->kind == BUFFER_FRAGMENT) ? lo->tiles[buffer->id] : NULL;
}

void each_op(Lowering *lo, TileOp *block, OpVisit *visit, void *context)
{
    for (TileOp *op = block; op; op = op->next) {
        if (visit(lo, op, context))
            continue;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            each_op(lo, *body, visit, context);
    }
}

int crew_threads(Crew crew) { return crew.groups * crew.warps * WARP_LANES; }

int consumer_threads(const Lowering *lo) { return crew_threads(lo->crew); }

int all_threads(const Lowering *lo) { return crew_threads(lo->all); }

static int producer_threads(const Lowering *lo)
{
    return !lo->has_producer ? 0 : lo->crew.warps == 4 ? WARPGROUP_THREADS : WARP_LANES;
}

// ---- first looks at the kernel

static void number_ops(Lowering *lo, TileOp *block, TileOp *parent)
{
    for (TileOp *op = block; op; op = op->next) {
        OpInfo *const info = op_info(lo, op);
        info->block = block;
        info->parent = parent;
        info->order = lo->n_ops++;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            number_ops(lo, *body, op);
    }
}

static bool collect_tile(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_TILE)
        return op->kind == T_FORALL;
    Buffer *const buffer = op->tile.buffer;
    if (buffer->kind != BUFFER_SHARED && buffer->kind != BUFFER_FRAGMENT)
        return false;
    TileInfo *const tile = NEW(lo->arena, TileInfo, .buffer = buffer, .declared = op);
    tile->home = buffer->kind == BUFFER_SHARED ? HOME_SHARED : HOME_REGISTERS;
    lo->tiles[buffer->id] = tile;
    VEC_PUSH(lo->arena, &lo->declared, tile);
    lo->n_declared = lo->declared.count;
    return false;
}

typedef struct Sizes { int64_t rows; bool products; int64_t largest; } Sizes;

static bool measure_products(Lowering *lo, TileOp *op, void *context)
{
    Sizes *const sizes = context;
    int64_t rows;
    if (op->kind == T_MATMUL) {
        sizes->products = true;
        const Operand *const a = &op->matmul.a;
        if (expr_as_int(region_extent(&a->region, a->transposed ? 1 : 0), &rows) && rows > sizes->rows)
            sizes->rows = rows;
    }
    if (op->kind == T_TILE) {
        int64_t n = 1, extent;
        for (int d = 0; d < op->tile.buffer->rank; d++)
            n *= expr_as_int(op->tile.buffer->shape[d], &extent) ? extent : 1;
        if (n > sizes->largest)
            sizes->largest = n;
    }
    return false;
}

// warps(n), or one group per 64 rows of the tallest product, at most two.
static void choose_crew(Lowering *lo)
{
    Sizes sizes = { 0 };
    each_op(lo, lo->kernel->body, measure_products, &sizes);
    int warps = lo->kernel->warps;
    if (!warps)
        warps = sizes.products ? (sizes.rows >= 128 ? 8 : 4) : sizes.largest > 8192 ? 8 : 4;
    if (warps > CONSUMER_WARPS_MAX)
        warps = CONSUMER_WARPS_MAX;
    lo->crew = warps < 4 ? (Crew){ 1, warps } : (Crew){ warps / 4, 4 };
}

static bool finds_product(Lowering *lo, TileOp *op, void *context)
{
    *(bool *)context |= op->kind == T_MATMUL;
    return op->kind == T_FORALL;
}

// Extents of tensors are below 2^31, in kernels with products below 2^28, so that sums of a few positions still fit
// 32 bits; the launch checks the symbols. Those that this build is for, or that a `require` lets be larger, take 64.
// Coordinates are below their extents.
static void bound_launch_values(Lowering *lo)
{
    bool products = false;
    each_op(lo, lo->kernel->body, finds_product, &products);
    lo->largest_extent = products ? 1 << 28 : INT32_MAX;
    for (int i = 0; i < lo->kernel->n_binds; i++) {
        Var *const symbol = lo->kernel->binds[i].symbol;
        const Range r = symbol->hi ? expr_range(symbol->hi) : (Range){ 0 };
        const bool is_large = (lo->target->wide >> i & 1) || (r.has_hi && r.hi > lo->largest_extent);
        if (is_large && !lo->kernel->binds[i].is_stride)
            lo->wide |= (uint64_t)1 << i;
        if (symbol->hi)
            continue;
        symbol->lo = symbol->lo ? symbol->lo : int_const(lo->arena, 0);
        symbol->hi = int_const(lo->arena, lo->wide >> i & 1 ? WIDE_SYMBOL_MAX : lo->largest_extent);
    }
    for (int i = 0; i < lo->kernel->n_grid; i++) {
        Var *const var = lo->kernel->grid[i].var;
        if (!var->lo)
            var->lo = int_const(lo->arena, 0);
        if (!var->hi)
            var->hi = int_const(lo->arena, INT32_MAX);
    }
}

// Scalars that are set once have the range of their value.
static bool bound_local(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_LET || !op->let.value || op->let.var->assigned || op->let.var->type != DTYPE_INT)
        return false;
    const Range r = expr_range(op->let.value);
    if (r.has_lo && !op->let.var->lo)
        op->let.var->lo = int_const(lo->arena, r.lo);
    if (r.has_hi && !op->let.var->hi)
        op->let.var->hi = int_const(lo->arena, r.hi);
    return false;
}

// ---- parameters

static Expr *literal(Lowering *lo, DType type, const char *text) { return expr_call(lo->arena, type, text, -1, NULL); }

static Expr *word(Lowering *lo, int index) { return call_expr(lo, DTYPE_I64, "param_word", 1, i32_const(lo, index)); }

static Expr *as_type(Lowering *lo, DType type, Expr *x)
{
    return type == DTYPE_I64 ? x : call_expr(lo, type, arena_printf(lo->arena, "(%s)", dtype_info[type].c_name), 1, x);
}

static bool is_clustered(const Lowering *lo, int coordinate) { return lo->cluster > 1 && coordinate == lo->clustered; }

// The launch's words become variables, in the order of plan.h. Returns their number.
static int declare_parameters(Lowering *lo)
{
    TileKernel *const k = lo->kernel;
    int at = 0;
    for (int i = 0; i < k->n_params; i++) {
        TileParam *const p = &k->params[i];
        if (p->absent)
            continue;
        if (!p->is_tensor) {
            Var *const var = loop_var(lo, p->scalar);
            Expr *const value = call_expr(lo, var->type, arena_printf(lo->arena, "param_scalar<%s>", dtype_info[var->type].c_name), 1, word(lo, at++));
            loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
            continue;
        }
        const DType type = loop_type(p->tensor->type);
        Var *const pointer = loop_new_pointer(lo->unit, type, p->tensor->name);
        pointer->multiple = at;      // its word: strides follow it
        lo->tensors[p->tensor->id] = pointer;
        loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = pointer,
                 .value = call_expr(lo, type, arena_printf(lo->arena, "(%s *)", dtype_info[type].c_name), 1, word(lo, at)) } });
        at += 1 + (p->tensor->strided ? p->tensor->rank : 0);
    }
    for (int i = 0; i < k->n_binds; i++) {
        Var *const var = loop_var(lo, k->binds[i].symbol);
        loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = as_type(lo, var->type, word(lo, at++)) } });
    }
    lo->grid_extents = NEW_ARRAY(lo->arena, Var *, k->n_grid + 1);
    lo->numbered_extents = NEW_ARRAY(lo->arena, Var *, k->n_grid + 1);
    Expr *total = i32_const(lo, 1);
    for (int i = 0; i < k->n_grid; i++) {
        Var *const extent = emit_declare(lo, DTYPE_I32, arena_printf(lo->arena, "n_%s", k->grid[i].var->name), as_type(lo, DTYPE_I32, word(lo, at++)));
        lo->grid_extents[i] = lo->numbered_extents[i] = extent;
        if (is_clustered(lo, i))
            lo->numbered_extents[i] = emit_declare(lo, DTYPE_I32, arena_printf(lo->arena, "clusters_%s", k->grid[i].var->name),
                                                   expr_binary(lo->arena, X_DIV, var_of(lo, extent), i32_const(lo, lo->cluster)));
        total = expr_binary(lo->arena, X_MUL, total, var_of(lo, lo->numbered_extents[i]));
    }
    lo->tiles_total = emit_declare(lo, DTYPE_I32, "instances", total);
    return at;
}

// ---- the grid: the instances of a cluster count as one, and are told apart by their rank along its coordinate

// n / d, and n % d in *rest. Where an instance is in the grid is divided out anew for each, with no product under way,
// so this is not the machine's long division.
static Expr *divide(Lowering *lo, const char *name, Expr *n, Expr *d, Expr **rest)
{
    Arena *const a = lo->arena;
    Expr *const quotient = var_of(lo, emit_declare(lo, DTYPE_I32, name, call_expr(lo, DTYPE_I32, "math_quotient", 2, n, d)));
    *rest = var_of(lo, emit_declare(lo, DTYPE_I32, "rest", expr_binary(a, X_SUB, n, expr_binary(a, X_MUL, d, quotient))));
    return quotient;
}

static void declare_coordinate(Lowering *lo, int i, Expr *value)
{
    Var *const var = loop_var(lo, lo->kernel->grid[i].var);
    if (is_clustered(lo, i))
        value = i32_add(lo, i32_mul(lo, value, lo->cluster), cluster_rank(lo));
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = as_type(lo, var->type, value) } });
}

// blockIdx or gridDim, counting clusters: taken anew, not held.
static Expr *clusters_of(Lowering *lo, const char *blocks)
{
    return literal(lo, DTYPE_I32, lo->cluster > 1 ? arena_printf(lo->arena, "again((int32_t)(%s.x / %uu))", blocks, lo->cluster)
                                                  : arena_printf(lo->arena, "(int32_t)%s.x", blocks));
}

// Bands of `rasterize` instances along the second coordinate: neighbours in time share rows and columns in the cache.
// Returns what the other coordinates are made of.
static Expr *declare_band(Lowering *lo, Expr *instance)
{
    Arena *const a = lo->arena;
    Expr *const x = var_of(lo, lo->numbered_extents[0]), *const y = var_of(lo, lo->numbered_extents[1]);
    const int rows = is_clustered(lo, 1) ? lo->kernel->rasterize / lo->cluster : lo->kernel->rasterize;
    Expr *const band = i32_const(lo, rows > 1 ? rows : 1);
    Expr *plane = instance, *planes = NULL, *within, *row;
    if (lo->kernel->n_grid > 2)
        planes = divide(lo, "planes", instance, expr_binary(a, X_MUL, x, y), &plane);
    Expr *const number = divide(lo, "band", plane, expr_binary(a, X_MUL, band, x), &within);
    Var *const first = emit_declare(lo, DTYPE_I32, "first", expr_binary(a, X_MUL, number, band));
    Var *const height = emit_declare(lo, DTYPE_I32, "height", call_expr(lo, DTYPE_I32, "math_min", 2, expr_binary(a, X_SUB, y, var_of(lo, first)), band));
    Expr *const column = divide(lo, "column", within, var_of(lo, height), &row);
    declare_coordinate(lo, 1, expr_binary(a, X_ADD, var_of(lo, first), row));
    declare_coordinate(lo, 0, column);
    return planes;
}

// ---- grids whose instances have unequal work

typedef struct Dependence { Lowering *lo; const Var *coordinate; bool loads, several, adds, begins; int depth; } Dependence;

static bool find_let(Lowering *lo, TileOp *op, void *context)
{
    struct { const Var *var; Expr *value; int n; } *const seek = context;
    if ((op->kind == T_LET || op->kind == T_SET) && op->let.var == seek->var) {
        seek->value = op->let.value;
        seek->n++;
    }
    return op->kind == T_FORALL;
}

// What is loaded may depend on any coordinate: lengths of sequences, which the others' order does not touch.
static void see_dependence(Dependence *d, Expr *x)
{
    if (x->kind == E_LOAD || x->kind == E_ATOMIC) {
        d->loads = true;
        return;
    }
    if (x->kind == E_VAR && x->var.var->kind == VAR_GRID) {
        d->several |= d->coordinate && d->coordinate != x->var.var;
        d->coordinate = x->var.var;
    }
    if (x->kind == E_VAR && x->var.var->kind == VAR_LOCAL && d->depth < 16) {
        struct { const Var *var; Expr *value; int n; } seek = { x->var.var, NULL, 0 };
        each_op(d->lo, d->lo->kernel->body, find_let, &seek);
        d->several |= seek.n != 1;
        d->depth++;
        if (seek.value)
            see_dependence(d, seek.value);
        d->depth--;
    }
    Expr **slots[8];
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n; i++)
        see_dependence(d, *slots[i]);
}

static bool see_pipeline(Lowering *lo, TileOp *op, void *context)
{
    Dependence *const d = context;
    d->adds |= op->kind == T_ATOMIC || op->kind == T_ATOMIC_TILE;
    for (int i = 0; op->kind == T_PIPELINE && i < op->pipeline.n; i++) {
        see_dependence(d, op->pipeline.indices[i].lo);
        d->begins |= d->coordinate != NULL;
        see_dependence(d, op->pipeline.indices[i].hi);
    }
    return false;
}

// The one coordinate that the length of the pipelines depends on; -1: none, or more than that. Where lengths are loaded
// as well, that must be their end alone (parts of a sequence are alike), and instances that add to each other's rows keep
// their order: what runs at the same time meets in L2.
static int uneven_coordinate(Lowering *lo, bool *adds)
{
    Dependence d = { .lo = lo };
    each_op(lo, lo->kernel->body, see_pipeline, &d);
    *adds = d.adds;
    for (int i = 0; i < lo->kernel->n_grid && !(d.loads && (d.adds || d.begins)) && !d.several; i++)
        if (lo->kernel->grid[i].var == d.coordinate)
            return i;
    return -1;
}

// The coordinates from `from` on, but for `except`; the first of them runs fastest.
static void declare_coordinates(Lowering *lo, Expr *rest, int from, int except)
{
    const int n = lo->kernel->n_grid, last = n - 1 == except ? n - 2 : n - 1;
    for (int i = from; i <= last; i++) {
        if (i == except)
            continue;
        Expr *value = rest;
        if (i < last)
            rest = divide(lo, "above", rest, var_of(lo, lo->numbered_extents[i]), &value);
        declare_coordinate(lo, i, value);
    }
}

// Instances of equal work side by side: the uneven coordinate runs slowest within a group of combinations of the others.
// With rounds that alternate in direction, groups of a twelfth of the blocks make the blocks differ by less than 1% (of
// 16, by up to 10%), and are few enough that what a group reads again stays in L2. Where the uneven coordinate has few
// values the blocks differ more, and what a group reads is less: groups of a sixth. Less than two groups are one.
enum { UNEVEN_FEW = 32 };

static void declare_uneven(Lowering *lo, Var *instance, int uneven, Expr **place, Expr **rest)
{
    TileKernel *const k = lo->kernel;
    Arena *const a = lo->arena;
    Expr *others_expr = i32_const(lo, 1);
    for (int i = 0; i < k->n_grid; i++)
        if (i != uneven)
            others_expr = expr_binary(a, X_MUL, others_expr, var_of(lo, lo->numbered_extents[i]));
    Var *const others = emit_declare(lo, DTYPE_I32, "others", others_expr);
    Expr *const sixth = literal(lo, DTYPE_I32, arena_printf(a, "(int32_t)gridDim.x / %d", 6 * lo->cluster));
    Expr *const twelfth = literal(lo, DTYPE_I32, arena_printf(a, "(int32_t)gridDim.x / %d", 12 * lo->cluster));
    Expr *const are_few = expr_binary(a, X_LT, var_of(lo, lo->numbered_extents[uneven]), i32_const(lo, UNEVEN_FEW));
    Var *const part = emit_declare(lo, DTYPE_I32, "part", call_expr(lo, DTYPE_I32, "math_max", 2, expr_select(a, are_few, sixth, twelfth), i32_const(lo, 1)));
    Expr *const few = expr_binary(a, X_LT, var_of(lo, others), expr_binary(a, X_MUL, var_of(lo, part), i32_const(lo, 2)));
    Var *const size = emit_declare(lo, DTYPE_I32, "size", expr_select(a, few, var_of(lo, others), var_of(lo, part)));
    Var *const area = emit_declare(lo, DTYPE_I32, "area", expr_binary(a, X_MUL, var_of(lo, lo->numbered_extents[uneven]), var_of(lo, size)));
    Expr *within, *other;
    Expr *const group = divide(lo, "turn", var_of(lo, instance), var_of(lo, area), &within);
    Var *const first = emit_declare(lo, DTYPE_I32, "first", expr_binary(a, X_MUL, group, var_of(lo, size)));
    Var *const height = emit_declare(lo, DTYPE_I32, "height", call_expr(lo, DTYPE_I32, "math_min", 2,
                        expr_binary(a, X_SUB, var_of(lo, others), var_of(lo, first)), var_of(lo, size)));
    *place = divide(lo, "place", within, var_of(lo, height), &other);
    *rest = expr_binary(a, X_ADD, var_of(lo, first), other);
}

// Where instances add to tensors, those that run at the same time should add to the same rows, which L2 holds then: all
// of the uneven coordinate, one combination of the others after another. The i-th longest and the i-th shortest cost the
// same together for all i, so that a block takes them in turn. Not where too few pairs leave blocks without work.
typedef struct Pairs { Expr *half, *count, *wanted, *number; } Pairs;

static Pairs count_pairs(Lowering *lo, int uneven, Var *round, Expr *blocks, Expr *block)
{
    Arena *const a = lo->arena;
    Expr *count = NULL;
    Expr *const half = var_of(lo, emit_declare(lo, DTYPE_I32, "half", expr_binary(a, X_SHR, i32_add(lo, call_expr(lo, DTYPE_I32, "again", 1, var_of(lo, lo->numbered_extents[uneven])), i32_const(lo, 1)), i32_const(lo, 1))));
    for (int i = 0; i < lo->kernel->n_grid; i++)
        if (i != uneven)
            count = count ? expr_binary(a, X_MUL, count, var_of(lo, lo->numbered_extents[i])) : var_of(lo, lo->numbered_extents[i]);
    count = var_of(lo, emit_declare(lo, DTYPE_I32, "pairs", expr_binary(a, X_MUL, call_expr(lo, DTYPE_I32, "again", 1, count), half)));
    Expr *const rounds = call_expr(lo, DTYPE_I32, "math_quotient", 2, expr_binary(a, X_SUB, i32_add(lo, count, blocks), i32_const(lo, 1)), blocks);
    Expr *const slots = expr_binary(a, X_MUL, rounds, blocks);           // of pairs, some without one
    Expr *const wanted = var_of(lo, emit_declare(lo, DTYPE_BOOL, "paired", expr_binary(a, X_LE, expr_binary(a, X_SUB, slots, count), expr_binary(a, X_SHR, count, i32_const(lo, 4)))));
    Expr *const number = expr_binary(a, X_ADD, expr_binary(a, X_MUL, expr_binary(a, X_SHR, var_of(lo, round), i32_const(lo, 1)), blocks), block);
    return (Pairs){ half, count, wanted, number };
}

static void declare_ordered(Lowering *lo, Var *instance, int uneven, Var *round, const Pairs *pairs)
{
    Arena *const a = lo->arena;
    Expr *place, *rest;
    declare_uneven(lo, instance, uneven, &place, &rest);
    if (pairs) {
        Expr *x;
        Expr *const other = divide(lo, "others_before", var_of(lo, instance), pairs->half, &x);
        Expr *const second = expr_binary(a, X_NE, expr_binary(a, X_BITAND, var_of(lo, round), i32_const(lo, 1)), i32_const(lo, 0));
        Expr *const mirrored = expr_binary(a, X_SUB, expr_binary(a, X_SUB, var_of(lo, lo->numbered_extents[uneven]), i32_const(lo, 1)), x);
        Nest same;
        begin_if(lo, &same, expr_binary(a, X_AND, expr_binary(a, X_AND, pairs->wanted, second), expr_binary(a, X_EQ, mirrored, x)));
        loop_add(lo->out, (LoopStmt){ .kind = L_CONTINUE });
        end_nest(lo, &same);
        place = expr_select(a, pairs->wanted, expr_select(a, second, mirrored, x), place);
        rest = expr_select(a, pairs->wanted, other, rest);
    }
    declare_coordinate(lo, uneven, place);
    declare_coordinates(lo, var_of(lo, emit_declare(lo, DTYPE_I32, "rest", rest)), 0, uneven);
}

void begin_grid(Lowering *lo, Nest *nest)
{
    TileKernel *const k = lo->kernel;
    Arena *const a = lo->arena;
    Expr *const block = clusters_of(lo, "blockIdx");
    bool adds = false;
    const int uneven = lo->is_persistent && k->rasterize <= 1 && k->n_grid > 1 ? uneven_coordinate(lo, &adds) : -1;
    const bool pairs_up = uneven >= 0 && adds && lo->cluster == 1;
    Var *instance, *round = NULL;
    Pairs pairs;
    if (lo->is_persistent) {
        // Every second round runs backwards: where work falls or rises along the grid, all blocks get alike.
        round = loop_new_var(lo->unit, DTYPE_I32, "round");
        Expr *const blocks = clusters_of(lo, "gridDim");
        // Left by the test below: the number of rounds would be one more value to keep. One block that takes pairs has
        // more rounds than instances, as an odd coordinate's middle one stands in two.
        begin_for(lo, nest, round, i32_const(lo, 0), pairs_up ? i32_const(lo, INT32_MAX) : var_of(lo, lo->tiles_total), i32_const(lo, 1), LOOP_NO_UNROLL);
        Expr *const odd = expr_binary(a, X_NE, expr_binary(a, X_BITAND, var_of(lo, round), i32_const(lo, 1)), i32_const(lo, 0));
        Expr *const turned = expr_binary(a, X_SUB, expr_binary(a, X_SUB, blocks, i32_const(lo, 1)), block);
        Expr *const place = lo->kernel->rasterize > 1 ? block : expr_select(a, odd, turned, block);
        Expr *number = expr_binary(a, X_ADD, expr_binary(a, X_MUL, var_of(lo, round), blocks), place), *end = var_of(lo, lo->tiles_total);
        if (pairs_up) {
            pairs = count_pairs(lo, uneven, round, blocks, block);
            number = expr_select(a, pairs.wanted, pairs.number, number);
            end = expr_select(a, pairs.wanted, pairs.count, end);
        }
        instance = emit_declare(lo, DTYPE_I32, "instance", number);
        Nest leave;
        begin_if(lo, &leave, expr_binary(a, X_GE, var_of(lo, instance), end));
        loop_add(lo->out, (LoopStmt){ .kind = L_BREAK });
        end_nest(lo, &leave);
    } else {
        begin_block(lo, nest);
        instance = emit_declare(lo, DTYPE_I32, "instance", block);
    }
    if (uneven >= 0) {
        declare_ordered(lo, instance, uneven, round, pairs_up ? &pairs : NULL);
        return;
    }
    if (k->rasterize > 1 && k->n_grid >= 2)
        declare_coordinates(lo, declare_band(lo, var_of(lo, instance)), 2, -1);
    else
        declare_coordinates(lo, var_of(lo, instance), 0, -1);
}

void end_grid(Lowering *lo, Nest *nest) { end_nest(lo, nest); }

// ---- roles

static void declare_threads(Lowering *lo, int first, Crew crew)
{
    Arena *const a = lo->arena;
    Expr *thread = literal(lo, DTYPE_I32, "(int32_t)threadIdx.x");
    if (first)
        thread = expr_binary(a, X_SUB, thread, i32_const(lo, first));
    lo->thread = emit_declare(lo, DTYPE_I32, "thread", thread);
    lo->lane = emit_declare(lo, DTYPE_I32, "lane", expr_binary(a, X_BITAND, var_of(lo, lo->thread), i32_const(lo, WARP_LANES - 1)));
    Var *const number = emit_declare(lo, DTYPE_I32, "warp_number",
                                     call_expr(lo, DTYPE_I32, "uniform", 1, expr_binary(a, X_SHR, var_of(lo, lo->thread), i32_const(lo, 5))));
    lo->warp = emit_declare(lo, DTYPE_I32, "warp", expr_binary(a, X_MOD, var_of(lo, number), i32_const(lo, crew.warps)));
    lo->group = emit_declare(lo, DTYPE_I32, "group", expr_binary(a, X_DIV, var_of(lo, number), i32_const(lo, crew.warps)));
}

// Groups that release a channel's buffers.
static int user_groups(const Lowering *lo, const Channel *channel)
{
    int n = 0;
    for (int g = 0; g < lo->all.groups; g++)
        n += channel->first_of[g] != NULL;
    return lo->has_teams ? n : lo->all.groups;
}

// Arrivals that fill a buffer: every lane of a warp, each of a filler's warps, or the announcement of bytes alone.
static Expr *lanes_or_one(Lowering *lo, const Channel *channel)
{
    Expr *const lanes = i32_const(lo, WARP_LANES), *const one = i32_const(lo, 1);
    if (channel->is_gathered)
        return i32_const(lo, WARPGROUP_THREADS);
    if (channel->is_filled || channel->is_handed)
        return i32_const(lo, WARPGROUP_THREADS / WARP_LANES + (channel->has_gathers ? WARPGROUP_THREADS : 0));
    if (!channel->by_lanes)
        return one;
    return lo->fetch_aligned ? expr_select(lo->arena, lo->fetch_aligned, lanes, one) : lanes;
}

static void init_barriers(Lowering *lo)
{
    Nest nest;
    begin_if(lo, &nest, literal(lo, DTYPE_BOOL, "threadIdx.x == 0"));
    for (int i = 0; i < lo->channels.count; i++) {
        const Channel *const channel = lo->channels.items[i];
        for (int b = 0; b < channel->clock->buffers; b++) {
            Expr *const base = call_expr(lo, DTYPE_U32, "shared_base", 0);
            emit_call(lo, "mbar_init", 2, expr_binary(lo->arena, X_ADD, base, expr_int(lo->arena, DTYPE_U32, channel->full + b * MBARRIER_BYTES)),
                      lanes_or_one(lo, channel));
            emit_call(lo, "mbar_init", 2, expr_binary(lo->arena, X_ADD, base, expr_int(lo->arena, DTYPE_U32, channel->empty + b * MBARRIER_BYTES)),
                      i32_const(lo, user_groups(lo, channel) * lo->crew.warps * (channel->is_shared ? lo->cluster : 1)));
        }
    }
    emit_call(lo, "mbar_init_done", 0);
    end_nest(lo, &nest);
    emit_call(lo, lo->shares ? "cluster_sync" : "__syncthreads", 0);
}

// Registers of a thread of each role, so that the sum over the groups fits; 0: as compiled.
static void divide_registers(const Lowering *lo, int *producer, int *consumer)
{
    const int groups = lo->all.groups + 1, occupancy = lo->kernel->occupancy > 1 ? lo->kernel->occupancy : 1;
    const int each = 65536 / (groups * WARPGROUP_THREADS * occupancy) / 8 * 8;
    *producer = *consumer = 0;
    if (!lo->has_producer || lo->crew.warps != 4 || (groups < 3 && occupancy == 1))
        return;
    const int cuts = lo->shares ? 0 : CUTS_FEW;
    *producer = only_gathers(lo) ? GATHERER_REGISTERS : lo->has_filler ? PRODUCER_REGISTERS : !lo->may_need_elements ? (lo->n_cuts > CUTS_SOME ? 56 : lo->n_cuts > cuts ? 40 : 24) : fragment_words(lo) > HEAVY_FRAGMENTS ? 40 : PRODUCER_REGISTERS;
    *consumer = (groups * each - *producer) / lo->all.groups / 8 * 8;
    if (*consumer > 240)
        *consumer = 240;
}

int spare_registers(const Lowering *lo)
{
    int producer, consumer;
    divide_registers(lo, &producer, &consumer);
    return 65536 / WARPGROUP_THREADS - producer;
}

int group_registers(const Lowering *lo, int group)
{
    int producer, consumer, most = 0, least = INT32_MAX;
    divide_registers(lo, &producer, &consumer);
    for (int g = 0; g < lo->all.groups; g++) {
        const int words = team_words(lo, g);
        most = words > most ? words : most;
        least = words < least ? words : least;
    }
    if (!consumer || !lo->shares || most - least < LIGHTER_WORDS)
        return consumer;             // only a filler that exchanges rows has many in registers (rows.c)
    return most - team_words(lo, group) >= LIGHTER_WORDS ? consumer - LIGHTER_REGISTERS : consumer + HEAVIER_REGISTERS;
}

int consumer_registers(const Lowering *lo)
{
    int producer, consumer;
    divide_registers(lo, &producer, &consumer);
    if (consumer)
        return consumer;
    const int occupancy = lo->kernel->occupancy > 1 ? lo->kernel->occupancy : 1;
    const int each = 65536 / ((all_threads(lo) + producer_threads(lo)) * occupancy) / 8 * 8;
    return each < 240 ? each : 240;
}

static void emit_producer_role(Lowering *lo, Expr *aligned)
{
    Nest one, choice;
    const Crew crew = lo->crew, all = lo->all;
    const bool has_teams = lo->has_teams;
    declare_threads(lo, 0, (Crew){ 1, crew.warps });
    if (aligned)
        begin_if(lo, &choice, aligned);
    bool lanes = false;              // one thread issues boxes; small copies take its warp, a filler's statements all
    for (int i = 0; i < lo->channels.count; i++)
        lanes |= lo->channels.items[i]->by_lanes;
    lo->by_warp = lanes && !lo->has_filler;
    if (lo->has_filler) {
        begin_block(lo, &one);
        lo->crew = lo->all = (Crew){ 1, crew.warps };
        lo->has_teams = false;
    } else {
        begin_if(lo, &one, expr_binary(lo->arena, X_LT, var_of(lo, lo->thread), i32_const(lo, lanes ? WARP_LANES : 1)));
    }
    emit_producer(lo, true);
    end_nest(lo, &one);
    lo->crew = crew;
    lo->all = all;
    lo->has_teams = has_teams;
    if (aligned) {
        begin_else(lo, &choice);
        lo->crew = lo->all = (Crew){ 1, crew.warps == 4 ? 4 : 1 };
        lo->has_teams = false;
        emit_producer(lo, false);
        lo->crew = crew;
        lo->all = all;
        lo->has_teams = has_teams;
        end_nest(lo, &choice);
    }
}

static bool add_alignment(Lowering *lo, TileOp *op, void *context)
{
    Expr **const test = context;
    const OpInfo *const info = op->kind == T_TILE ? NULL : op_info(lo, op);
    if (!info || !info->fetched || info->fills || copy_is_small(lo, op))
        return false;
    Expr *const one = strides_are_aligned(lo, buffer_root(op->copy.src.buffer));
    if (one && !(*test && expr_equal(*test, one)))
        *test = *test ? expr_binary(lo->arena, X_AND, *test, one) : one;
    return false;
}

// The strides that boxes need, of all tensors that are fetched. NULL: proved.
static Expr *fetch_alignment(Lowering *lo)
{
    Expr *test = NULL;
    each_op(lo, lo->kernel->body, add_alignment, &test);
    return test;
}

static void emit_roles(Lowering *lo)
{
    if (!lo->has_producer) {
        declare_threads(lo, 0, lo->all);
        emit_consumer(lo);
        return;
    }
    int producer_registers, consumer_registers;
    divide_registers(lo, &producer_registers, &consumer_registers);
    Nest roles;
    begin_if(lo, &roles, expr_binary(lo->arena, X_LT, call_expr(lo, DTYPE_I32, "uniform", 1, literal(lo, DTYPE_I32, "(int32_t)threadIdx.x")),
                                     i32_const(lo, producer_threads(lo))));
    for (int g = 0; g < lo->all.groups && lo->has_filler; g++)
        producer_registers += consumer_registers - group_registers(lo, g);
    if (producer_registers)
        emit_call(lo, "setmaxnreg_dec", 1, i32_const(lo, producer_registers));
    emit_producer_role(lo, lo->fetch_aligned);
    begin_else(lo, &roles);
    if (consumer_registers && !lo->has_filler && !uneven_registers(lo, 0))
        emit_call(lo, "setmaxnreg_inc", 1, i32_const(lo, consumer_registers));
    declare_threads(lo, producer_threads(lo), lo->all);
    emit_consumer(lo);
    end_nest(lo, &roles);
}

// ---- the unit and the plan

static const char *const preludes[] = {
    "cuda/types", "cuda/convert", "cuda/math", "cuda/threads", "cuda/vector", "cuda/atomic", "cuda/tensor_core",
};
static const char *const hopper_preludes[] = { "cuda/barrier", "cuda/tma", "cuda/stage" };

static void fill_unit(Lowering *lo, LoopStmt *body, int words, int threads)
{
    LoopUnit *const unit = lo->unit;
    unit->preludes = NEW_ARRAY(lo->arena, const char *, COUNT(preludes) + COUNT(hopper_preludes) + 4);
    for (int i = 0; i < COUNT(preludes); i++)
        unit->preludes[unit->n_preludes++] = preludes[i];
    for (int i = 0; i < COUNT(hopper_preludes) && lo->target->arch >= 90; i++)
        unit->preludes[unit->n_preludes++] = hopper_preludes[i];
    if (lo->kernel->checked)
        unit->preludes[unit->n_preludes++] = "cuda/check";
    if (lo->aheads.count)
        unit->preludes[unit->n_preludes++] = "cuda/ahead";
    if (lo->shares)
        unit->preludes[unit->n_preludes++] = "cuda/cluster";
    if (lo->has_filler || lo->has_rows)
        unit->preludes[unit->n_preludes++] = "cuda/rows";
    if (lo->uses_fma)
        unit->preludes[unit->n_preludes++] = "cuda/fma";
    Text helpers = { .arena = lo->arena };
    text_print(&helpers, "\nstruct __align__(64) KernelParams {\n");
    if (words || !lo->traps)         // it has some member
        text_print(&helpers, "    uint64_t word[%d];\n", words ? words : 1);
    if (lo->maps.count)
        text_print(&helpers, "    TensorMap map[%d];\n", lo->maps.count);
    text_print(&helpers, "%s};\n", lo->traps ? "    uint64_t fault;\n" : "");
    if (lo->helpers.data)
        text_add(&helpers, lo->helpers.data, lo->helpers.length);
    unit->helpers = text_cstr(&helpers);
    LoopFunction *const function = NEW(lo->arena, LoopFunction, .name = lo->plan->symbol, .body = body);
    function->signature = arena_printf(lo->arena, "extern \"C\" __global__ void __launch_bounds__(%d, %d)\n%s(const __grid_constant__ KernelParams kp)",
                                       threads, lo->kernel->occupancy > 1 ? lo->kernel->occupancy : 1, lo->plan->symbol);
    VEC_PUSH(lo->arena, &unit->functions, function);
}

static void fill_maps(Lowering *lo)
{
    LaunchPlan *const plan = lo->plan;
    plan->n_maps = lo->maps.count;
    plan->maps = NEW_ARRAY(lo->arena, PlanMap, plan->n_maps + 1);
    for (int i = 0; i < plan->n_maps; i++) {
        const TensorMap *const map = lo->maps.items[i];
        Buffer *const tensor = map->tensor;
        PlanMap *const out = &plan->maps[i];
        *out = (PlanMap){ .param = buffer_root(tensor)->param, .rank = tensor->rank, .type = tensor->type, .swizzle = map->swizzle };
        out->base_offset = plan_add_code(lo->arena, plan, lo->kernel, int_const(lo->arena, 0));
        Expr *stride = int_const(lo->arena, 1);
        for (int d = 0; d < tensor->rank; d++) {
            Expr *const extent = tensor->shape[tensor->rank - 1 - d];
            if (tensor->stride[0])
                stride = tensor->stride[tensor->rank - 1 - d];
            out->dim[d] = plan_add_code(lo->arena, plan, lo->kernel, extent);
            out->stride[d] = plan_add_code(lo->arena, plan, lo->kernel, stride);
            out->box[d] = map->box[d];
            out->element_stride[d] = 1;
            stride = int_mul(lo->arena, stride, extent);
        }
    }
}

static bool adds_floats(Lowering *lo, TileOp *op, void *context)
{
    bool *const deterministic = context;
    if (op->kind == T_ATOMIC_TILE && dtype_is_float(op->copy.dst.buffer->type))
        *deterministic = false;
    if (op->kind == T_ATOMIC && op->atomic.op == ATOMIC_ADD && dtype_is_float(op->atomic.buffer->type))
        *deterministic = false;
    return false;
}

static void fill_plan(Lowering *lo, int threads)
{
    LaunchPlan *const plan = lo->plan;
    plan->arch = lo->target->arch;
    plan->threads = threads;
    plan->dynamic_shared_bytes = lo->shared_bytes;
    plan->cluster[0] = lo->cluster;
    plan->cluster[1] = plan->cluster[2] = 1;
    plan->min_alignment = 16;
    plan->persistent = lo->is_persistent;
    plan->blocks_per_sm = lo->kernel->occupancy > 1 ? lo->kernel->occupancy : 1;
    plan->traps = lo->traps;
    plan->deterministic = true;
    each_op(lo, lo->kernel->body, adds_floats, &plan->deterministic);
    fill_maps(lo);
    plan->symbol_max = lo->largest_extent;
    plan->wide = lo->wide;
}

typedef struct ReadScan { const Channel *channel; bool other; TileOp *op; Lowering *lo; } ReadScan;

static void scan_read(const TileUse *use, void *context)
{
    ReadScan *const scan = context;
    // Within a loop, which may have no step, a product keeps no warp together; the places of a sparse operand lanes read.
    const OpInfo *const info = op_info(scan->lo, scan->op);
    const bool is_wgmma = scan->op->kind == T_MATMUL && info->product->kind == PRODUCT_WGMMA && use->buffer != scan->op->matmul.meta &&
                          info->block == scan->channel->clock->block;
    for (int t = 0; t < scan->channel->n_tiles; t++)
        if (buffer_root(use->buffer) == scan->channel->tiles[t]->buffer && !is_wgmma)
            scan->other = true;
}

static bool read_by_other(Lowering *lo, TileOp *op, void *context)
{
    ReadScan *const scan = context;
    scan->op = op;
    if (op->kind != T_TILE && !op_info(lo, op)->fetched)
        tile_uses(op, scan_read, scan);
    return false;
}

static bool is_read_by_wgmma_alone(Lowering *lo, const Channel *channel)
{
    ReadScan scan = { .channel = channel, .lo = lo };
    each_op(lo, lo->kernel->body, read_by_other, &scan);
    return !scan.other;
}

// Everything that is decided before anything is printed.
static bool analyse(Lowering *lo)
{
    structure_kernel(lo);
    bound_launch_values(lo);
    each_op(lo, lo->kernel->body, bound_local, NULL);
    choose_crew(lo);
    find_cluster(lo);
    find_teams(lo);
    lo->tiles = NEW_ARRAY(lo->arena, TileInfo *, lo->kernel->n_buffers + 1);
    lo->tensors = NEW_ARRAY(lo->arena, Var *, lo->kernel->n_buffers + 1);
    each_op(lo, lo->kernel->body, collect_tile, NULL);
    number_ops(lo, lo->kernel->body, NULL);
    find_filler(lo);
    choose_homes(lo);
    // A group that has no products fetches in place: a producer beside it would take its registers twice.
    if (lo->target->arch >= 90 && !light_groups(lo) && !lo->kernel->checked)
        find_fetches(lo);
    find_handed(lo);
    find_shared_tiles(lo);
    for (int i = 0; i < lo->channels.count; i++)
        lo->channels.items[i]->is_product_only = is_read_by_wgmma_alone(lo, lo->channels.items[i]);
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        lo->needs_fence |= lo->target->arch >= 90 && tile->home == HOME_SHARED && tile->is_async && !tile->channel;
    }
    lo->is_persistent = lo->kernel->n_grid > 0 && (lo->kernel->persistent || lo->has_producer);
    if (lo->failed || !lay_out_shared_tiles(lo))
        return false;
    if (lo->target->arch < 90 && !lo->kernel->checked)
        find_aheads(lo);
    lo->may_need_elements = lo->has_producer && fetch_alignment(lo) != NULL;
    choose_preloads(lo);
    if (!place_memory(lo))
        return false;
    find_hazards(lo);
    find_needs(lo);
    return !lo->failed;
}

LoopUnit *lower_cuda(TileKernel *kernel, const CudaTarget *target, LaunchPlan *plan, Text *explanation)
{
    Arena *const arena = kernel->arena;
    Lowering *const lo = NEW(arena, Lowering, .arena = arena, .kernel = kernel, .diags = kernel->diags, .target = target,
                             .plan = plan, .explanation = explanation);
    lo->unit = NEW(arena, LoopUnit, .arena = arena);
    lo->helpers.arena = arena;
    if (!analyse(lo))
        return NULL;
    LoopList body = loop_list(arena);
    lo->out = &body;
    const int words = declare_parameters(lo);
    declare_rank(lo);
    if (lo->has_producer) {
        Expr *const alignment = fetch_alignment(lo);
        lo->fetch_aligned = alignment ? lower_expr(lo, alignment, NULL) : NULL;
        init_barriers(lo);
    }
    emit_roles(lo);
    if (lo->shares)              // nobody leaves while a peer may still give back a buffer
        emit_call(lo, "cluster_sync", 0);
    if (lo->failed || kernel->diags->errors)
        return NULL;
    const int threads = all_threads(lo) + producer_threads(lo);
    fill_unit(lo, body.first, words, threads);
    fill_plan(lo, threads);
    explain(lo);
    return lo->unit;
}
