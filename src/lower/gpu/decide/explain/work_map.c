// SPDX-License-Identifier: MIT
// work_map.c - what a map over elements costs: its expressions, counted once for each value of the indices that they use.
//
// Code is unrolled over registers, so what depends on a row alone is computed once a row, by every thread that has a part of
// the row. Threads that hold the same elements all do the same; needed is each value once. Subscripts of fragments are
// register numbers and cost nothing; those of memory cost where they are no linear forms.
#include "lower/gpu/decide/explain/work.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"

#include <math.h>

enum {
    NODES_MAX = 20000,      // of the expressions of a map
    UNROLLED = 4,           // iterations of a loop whose loads are made together
    UNKNOWN_TRIPS = 8,      // of a loop inside a map whose length is not known
    UNKNOWN_EXTENT = 1024,  // of a map's index
    ATOMIC_INSTRUCTIONS = 4 // of a warp: the lanes of one address are combined
};

typedef struct MapCount {
    Lowering *lo;
    const Iteration *it;
    ActionWork *work;
    double threads, times; // of the partition; iterations of the loops around, inside the map
    double extent[LOOP_INDICES_MAX], run[LOOP_INDICES_MAX]; // of an index: its values, and how many a thread has
    uint32_t all;                                           // indices
    uint32_t *uses;                                         // by variable id: the indices that it depends on
    int nodes;         // of expressions that are still looked at: subtrees are shared
    int n_vars, depth; // depth: the longest chain of loads
    double rounds;     // of the longest loop that is not unrolled
} MapCount;

static double values_of(const MapCount *c, uint32_t uses)
{
    double n = 1;
    for (int i = 0; i < c->it->n; i++)
        if (uses >> i & 1) n *= c->extent[i];
    return n;
}

// How often all threads together compute what depends on these indices.
static double times_of(const MapCount *c, uint32_t uses)
{
    double n = c->threads, spread = 1;
    bool is_spread = false;
    for (int i = 0; i < c->it->n; i++) {
        if (!(uses >> i & 1)) continue;
        if (c->it->is_linear && c->it->dim_of[i] >= 0) spread *= c->extent[i], is_spread = true;
        else n *= c->run[i];
    }
    return is_spread ? n * ceil(spread / c->threads) : n;
}

static void add(MapCount *c, uint32_t uses, double instructions, double special)
{
    const double times = c->times * times_of(c, uses), values = c->times * values_of(c, uses);
    c->work->used[UNIT_ISSUE] += instructions * times / WARP_LANES;
    c->work->needed[UNIT_ISSUE] += instructions * values / WARP_LANES;
    c->work->used[UNIT_SPECIAL] += special * times;
    c->work->needed[UNIT_SPECIAL] += special * values;
}

// ---- expressions

typedef struct OpCost {
    double instructions, special;
} OpCost;

static OpCost cost_of_math(MathFn fn)
{
    switch (fn) {
    case M_EXP2:
    case M_FAST_TANH: return (OpCost){ 1, 1 };
    case M_EXP:
    case M_LOG:
    case M_LOG2:
    case M_RSQRT: return (OpCost){ 2, 1 };
    case M_SQRT: return (OpCost){ 6, 1 };
    case M_POW: return (OpCost){ 12, 2 };
    case M_SIN:
    case M_COS: return (OpCost){ 20, 1 };
    case M_TANH: return (OpCost){ 10, 2 };
    case M_ERF: return (OpCost){ 20, 1 };
    case M_POPCOUNT:
    case M_CLZ:
    case M_FFS: return (OpCost){ 1, 1 };
    case M_RANDOM: return (OpCost){ 40, 0 };
    case M_CLAMP:
    case M_CEILDIV: return (OpCost){ 2, 0 };
    case M_ABS:
    case M_FLOOR:
    case M_CEIL:
    case M_ROUND:
    case M_RINT:
    case M_TRUNC:
    case M_MIN:
    case M_MAX:
    case M_FMA:
    case M_DOT4:
    case M_COUNT: break;
    }
    return (OpCost){ 1, 0 };
}

static bool is_product(const Expr *x) { return x->kind == E_BINARY && x->op.op == X_MUL && dtype_is_float(x->type); }

static OpCost cost_of_operator(const Expr *x)
{
    const bool is_float = dtype_is_float(x->op.a->type);
    if (op_divides(x->op.op)) return is_float ? (OpCost){ 6, 1 } : (OpCost){ expr_is_const(x->op.b) ? 2 : 5, 0 };
    const bool fuses = (x->op.op == X_ADD || x->op.op == X_SUB) && (is_product(x->op.a) || is_product(x->op.b));
    return (OpCost){ fuses ? 0 : 1, 0 };
}

// Two narrow values are converted at a time. What is packed becomes a float without a conversion's instruction.
static OpCost cost_of_conversion(DType from, DType to)
{
    if (dtype_is_packed(from) && to == DTYPE_F32) return (OpCost){ 2, 0 };
    if (dtype_is_float(from) != dtype_is_float(to)) return (OpCost){ 1, 1 };
    if (!dtype_is_float(from) || from == to) return (OpCost){ 0, 0 };
    return (OpCost){ dtype_bits(from) < 16 || dtype_bits(to) < 16 ? 1 : 0.5, 0 };
}

static OpCost cost_of(const Expr *x)
{
    switch (x->kind) {
    case E_UNARY: return (OpCost){ 1, 0 };
    case E_BINARY: return cost_of_operator(x);
    case E_SELECT: return (OpCost){ 1, 0 };
    case E_CONVERT: return cost_of_conversion(x->convert.a->type, x->type);
    case E_MATH: return cost_of_math(x->math.fn);
    case E_CALL: return (OpCost){ 20, 0 };
    case E_ATOMIC: return (OpCost){ ATOMIC_INSTRUCTIONS, 0 };
    case E_INT:
    case E_FLOAT:
    case E_VAR:
    case E_LOAD:
    case E_BITCAST:
    case E_INDEX:
    case E_ADDRESS: break;
    }
    return (OpCost){ 0, 0 };
}

static int depth_of(const Expr *x, int *nodes)
{
    Expr **slots[EXPR_SLOTS_MAX];
    int depth = 0;
    if (--*nodes < 0) return 0;
    const int n = expr_children((Expr *)x, slots, COUNT(slots));
    for (int i = 0; i < n && i < COUNT(slots); i++) {
        const int inner = depth_of(*slots[i], nodes);
        if (inner > depth) depth = inner;
    }
    return depth + ((x->kind == E_LOAD && buffer_root(x->load.buffer)->kind == BUFFER_TENSOR) || x->kind == E_ATOMIC);
}

int load_depth(const Expr *x)
{
    int nodes = NODES_MAX;
    return depth_of(x, &nodes);
}

// ---- accesses

static int vector_of(const Iteration *it, const Expr *load, const TileOp *store)
{
    bool is_wide = false;
    for (int i = 0; i < it->n_loaded && load; i++) is_wide |= it->loaded[i].load == load;
    for (int i = 0; i < it->n_stored && store; i++) is_wide |= it->stored[i].store == store;
    return is_wide && it->vector >= 0 ? it->layout.mode[it->vector].extent : 1;
}

static void count_access(MapCount *c, Buffer *buffer, Expr *const *subs, uint32_t uses, int vector, bool writes)
{
    Buffer *const root = buffer_root(buffer);
    const TileInfo *const tile = tile_info(c->lo, root);
    const MapAccess access = { .it = c->it,
                               .buffer = buffer,
                               .subs = subs,
                               .writes = writes,
                               .vector = vector,
                               .threads = c->times * times_of(c, uses),
                               .needed = c->times * values_of(c, uses),
                               .uses = c->uses,
                               .n_vars = c->n_vars };
    if (root->kind == BUFFER_TENSOR) add_tensor_access(&access, c->work);
    else if (tile && tile->storage == TILE_IN_SHARED) add_shared_access(c->lo, &access, c->work);
}

static uint32_t count_expression(MapCount *c, Expr *x);

static bool is_in_memory(const MapCount *c, const Buffer *buffer)
{
    const Buffer *const root = buffer_root((Buffer *)buffer);
    const TileInfo *const tile = tile_info(c->lo, root);
    return root->kind == BUFFER_TENSOR || (tile && tile->storage == TILE_IN_SHARED);
}

// Of linear subscripts the compiler makes a pointer and constants.
static uint32_t count_subscripts(MapCount *c, Buffer *buffer, Expr *const *subs)
{
    uint32_t uses = 0;
    const ActionWork before = *c->work;
    for (int d = 0; d < buffer->rank; d++) {
        Var *vars[LOOP_INDICES_MAX];
        int64_t coefficients[LOOP_INDICES_MAX];
        Expr *rest;
        for (int i = 0; i < c->it->n; i++) vars[i] = c->it->indices[i].var;
        const ActionWork linear = *c->work;
        uses |= count_expression(c, subs[d]);
        if (expr_affine(c->lo->arena, subs[d], vars, c->it->n, coefficients, &rest) && !expr_loads(subs[d]))
            *c->work = linear;
    }
    if (!is_in_memory(c, buffer)) *c->work = before;
    return uses;
}

static uint32_t uses_of_var(const MapCount *c, const Var *var)
{
    for (int i = 0; i < c->it->n; i++)
        if (c->it->indices[i].var == var) return 1u << i;
    return var->id < c->n_vars ? c->uses[var->id] : 0;
}

static bool see_memory(const Expr *x, void *context)
{
    return x->kind == E_LOAD && is_in_memory(context, x->load.buffer);
}

// A side that loads is jumped around, element by element, and nothing overlaps. Where both sides are there, it is a select.
static void count_branch(MapCount *c, const Expr *x, uint32_t uses_of_condition, uint32_t uses)
{
    enum { LARGE = 1000 };
    if (expr_larger(x, LARGE)) return;
    const bool loads = expr_any(x->select.a, see_memory, c) || expr_any(x->select.b, see_memory, c);
    if (loads && uses_of_condition)
        c->work->branches = fmax(c->work->branches, c->times * times_of(c, uses) / c->threads);
}

// What a branch keeps from overlapping: loads, and functions of which each is an instruction that answers late.
static bool see_late(const Expr *x, void *context)
{
    return see_memory(x, context) ||
           (x->kind == E_MATH && dtype_is_float(x->type) && cost_of_math(x->math.fn).special > 0);
}

static void note_late(Expr **slot, void *context)
{
    MapCount **const c = context;
    if (*c && expr_any(*slot, see_late, *c)) *c = NULL;
}

static bool answers_late(MapCount *c, TileOp *op)
{
    MapCount *left = c;
    for (; op; op = op->next) {
        TileOp **body;
        tile_each_expr(op, note_late, &left);
        if (!left) return true;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (answers_late(c, *body)) return true;
    }
    return false;
}

// A branch of each element that its condition tells apart.
static void count_if(MapCount *c, const TileOp *op, uint32_t uses_of_condition)
{
    if (uses_of_condition && (answers_late(c, op->branch.then) || answers_late(c, op->branch.otherwise)))
        c->work->branches = fmax(c->work->branches, c->times * times_of(c, uses_of_condition) / c->threads);
}

// Codes that are converted two at a time, from one load for all of a vector.
static int codes_of(const MapCount *c, const Expr *x)
{
    for (int i = 0; i < c->it->n_codes; i++)
        if (c->it->codes[i].convert == x) return i;
    return -1;
}

static uint32_t count_codes(MapCount *c, int i)
{
    const Expr *const x = c->it->codes[i].convert;
    Buffer *const bytes = c->it->codes[i].bytes;
    const uint32_t uses = count_subscripts(c, bytes, c->it->codes[i].subs);
    count_access(c, bytes, c->it->codes[i].subs, uses, c->it->layout.mode[c->it->vector].extent, false);
    add(c, uses, x->type == DTYPE_F32 ? 2 : x->convert.a->type == DTYPE_E2M1 ? 2.5 : 1.5, 0);
    return uses;
}

static uint32_t count_expression(MapCount *c, Expr *x)
{
    Expr **slots[EXPR_SLOTS_MAX];
    uint32_t uses = 0;
    if (--c->nodes < 0) return 0;
    if (x->kind == E_VAR) return uses_of_var(c, x->var.var);
    if (x->kind == E_LOAD) {
        uses = count_subscripts(c, x->load.buffer, x->load.subs);
        count_access(c, x->load.buffer, x->load.subs, uses, vector_of(c->it, x, NULL), false);
        return uses;
    }
    const int codes = x->kind == E_CONVERT ? codes_of(c, x) : -1;
    if (codes >= 0) return count_codes(c, codes);
    const int n = expr_children(x, slots, COUNT(slots));
    uint32_t first = 0;
    for (int i = 0; i < n && i < COUNT(slots); i++) {
        const uint32_t here = count_expression(c, *slots[i]);
        if (x->kind == E_SELECT && *slots[i] == x->select.cond) first = here;
        uses |= here;
    }
    if (x->kind == E_SELECT) count_branch(c, x, first, uses);
    const OpCost cost = cost_of(x);
    add(c, uses, cost.instructions, cost.special);
    return uses;
}

static uint32_t count_value(MapCount *c, Expr *x)
{
    const int depth = load_depth(x);
    if (depth > c->depth) c->depth = depth;
    return count_expression(c, x);
}

// ---- statements

static void count_block(MapCount *c, TileOp *op);

static void note_var(const MapCount *c, const Var *var, uint32_t uses)
{
    if (var->id < c->n_vars) c->uses[var->id] |= uses;
}

// Lanes exchange by shuffles, a step for each bit of their number, warps through shared memory.
static void count_reduction(MapCount *c, const TileOp *op)
{
    const Iteration *const it = c->it;
    double outputs = 1, steps = 0, warps = 1;
    for (int r = 0; r < it->n_reductions; r++) {
        if (it->reductions[r].update != op || !it->reductions[r].joins) continue;
        for (int i = 0; i < it->layout.n; i++) {
            const LayoutMode *const mode = &it->layout.mode[i];
            const bool kept = mode->dim == REPLICATED || it->reductions[r].kept >> mode->dim & 1;
            if (mode->input == IN_REGISTER && kept && mode->dim != REPLICATED) outputs *= mode->extent;
            if (mode->input == IN_LANE && !kept) steps += log2(mode->extent);
            if ((mode->input == IN_WARP || mode->input == IN_GROUP) && !kept) warps *= mode->extent;
        }
        c->work->used[UNIT_ISSUE] += c->threads / WARP_LANES * outputs * steps * 2;
        c->work->shuffles += steps;
        if (warps > 1) c->work->shuffles += 1; // its barriers are actions
    }
}

static void count_update(MapCount *c, TileOp *op)
{
    uint32_t uses = count_value(c, op->update.value), at = 0;
    if (op->update.buffer) at = count_subscripts(c, op->update.buffer, op->update.subs);
    const bool fuses = is_product(op->update.value) && (op->update.op == UPDATE_ADD || op->update.op == UPDATE_SUB);
    add(c, uses | at, fuses ? 0 : 1, 0);
    if (op->update.reduces) {
        count_reduction(c, op);
        return;
    }
    if (op->update.var) note_var(c, op->update.var, uses);
    if (!op->update.buffer || !is_in_memory(c, op->update.buffer)) return;
    count_access(c, op->update.buffer, op->update.subs, at, 1, false);
    count_access(c, op->update.buffer, op->update.subs, at, 1, true);
}

static void count_store(MapCount *c, TileOp *op)
{
    count_value(c, op->store.value);
    const uint32_t at = count_subscripts(c, op->store.buffer, op->store.subs);
    if (is_in_memory(c, op->store.buffer))
        count_access(c, op->store.buffer, op->store.subs, at, vector_of(c->it, NULL, op), true);
}

static void count_atomic(MapCount *c, TileOp *op)
{
    const uint32_t uses = count_value(c, op->atomic.value) | count_subscripts(c, op->atomic.buffer, op->atomic.subs);
    add(c, uses, ATOMIC_INSTRUCTIONS, 0);
    count_access(c, op->atomic.buffer, op->atomic.subs, uses, 1, true);
}

static void count_loop(MapCount *c, const TileOp *op)
{
    const double times = c->times;
    int64_t lo, hi, step = 1;
    double trips = UNKNOWN_TRIPS;
    uint32_t uses = 0;
    if (op->kind == T_FOR) {
        uses = count_value(c, op->for_.lo) | count_value(c, op->for_.hi);
        expr_as_int(op->for_.step, &step);
        if (expr_as_int(op->for_.lo, &lo) && expr_as_int(op->for_.hi, &hi))
            trips = fmax(0, (double)(hi - lo) / (double)(step ? step : 1));
        note_var(c, op->for_.var, uses);
    }
    c->times *= trips;
    if (op->kind == T_WHILE) count_value(c, op->while_.cond);
    count_block(c, op->kind == T_FOR ? op->for_.body : op->while_.body);
    if (op->kind == T_WHILE) count_block(c, op->while_.step);
    c->times = times;
}

// Each thread runs all of it, an element at a time: its loops are not unrolled, and wait.
static void count_inner(MapCount *c, const TileOp *forall)
{
    const double times = c->times;
    for (int i = 0; i < forall->forall.n; i++) {
        int64_t lo, hi;
        c->times *= static_extent(&forall->forall.indices[i], &lo, &hi) ? fmax(0, (double)(hi - lo)) : UNKNOWN_TRIPS;
    }
    c->rounds = fmax(c->rounds, c->times / UNROLLED);
    c->work->alone = fmax(c->work->alone, c->times);
    count_block(c, forall->forall.body);
    c->times = times;
}

static void count_op(MapCount *c, TileOp *op)
{
    switch (op->kind) {
    case T_LET:
    case T_SET:
        if (op->let.value) note_var(c, op->let.var, count_value(c, op->let.value));
        return;
    case T_STORE: count_store(c, op); return;
    case T_UPDATE: count_update(c, op); return;
    case T_ATOMIC: count_atomic(c, op); return;
    case T_FOR:
    case T_WHILE: count_loop(c, op); return;
    case T_IF:
        count_if(c, op, count_value(c, op->branch.cond));
        count_block(c, op->branch.then);
        count_block(c, op->branch.otherwise);
        return;
    case T_FORALL: count_inner(c, op); return;
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE: count_inner(c, as_map(c->lo, op)); return;
    case T_TILE:
    case T_MATMUL:
    case T_SCAN:
    case T_PIPELINE:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: return;
    }
}

static void count_block(MapCount *c, TileOp *op)
{
    for (; op; op = op->next) count_op(c, op);
}

// ---- the map

static void measure_indices(MapCount *c)
{
    const Iteration *const it = c->it;
    double alone = 1; // along indices that no threads divide
    for (int i = 0; i < it->n; i++) {
        int64_t lo, hi;
        c->all |= 1u << i;
        c->extent[i] = static_extent(&it->indices[i], &lo, &hi) ? fmax(0, (double)(hi - lo)) : UNKNOWN_EXTENT;
        c->run[i] = it->dim_of[i] < 0 ? c->extent[i] : 1;
        if (it->dim_of[i] < 0 && it->n_reductions == 0) alone *= c->extent[i];
        for (int m = 0; m < it->layout.n && it->dim_of[i] >= 0; m++)
            if (it->layout.mode[m].input == IN_REGISTER && it->layout.mode[m].dim == it->dim_of[i])
                c->run[i] *= it->layout.mode[m].extent;
    }
    if (alone > 1) c->work->alone = fmax(c->work->alone, alone);
}

void add_map_work(Lowering *lo, const TileOp *forall, const Iteration *it, ActionWork *work)
{
    MapCount c = { .lo = lo,
                   .it = it,
                   .work = work,
                   .threads = partition_threads(it->partition),
                   .times = 1,
                   .n_vars = lo->kernel->n_vars,
                   .nodes = NODES_MAX };
    c.uses = NEW_ARRAY(lo->arena, uint32_t, c.n_vars + 1);
    measure_indices(&c);
    const double values = values_of(&c, c.all);
    if (values <= 0) return;
    count_block(&c, forall->forall.body);
    work->idle = fmax(work->idle, c.threads / values);
    work->repeats = fmax(work->repeats, times_of(&c, c.all) / fmax(values, c.threads));
    if (it->is_linear) c.rounds = fmax(c.rounds, times_of(&c, c.all) / c.threads / UNROLLED);
    work->loads += c.depth * fmax(1, c.rounds); // each of them waits
}
