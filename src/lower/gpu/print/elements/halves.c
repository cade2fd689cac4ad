// SPDX-License-Identifier: MIT
// halves.c - a forall that stores the halves of a word as 16-bit elements, the lower one first: where both are registers of
// one thread, the word is made once and stored whole.
//
//     u32 x = ...;                                                    of e/2, not of e
//     w[i][e] = bitcast<bf16>(convert<u16>(x >> e%2*16));
//
// An index of the halves alone serves as well: w[i][e*2 + p], x >> p*16.
#include "lower/gpu/print/elements/elements.h"
#include "lower/gpu/facts/elementwise.h"
#include "lower/gpu/facts/info.h"

typedef struct Uses {
    const Var *var;
    int all, of_pairs; // alone; divided by an even number
} Uses;

static bool is_var(const Expr *x, const Var *var) { return x->kind == E_VAR && x->var.var == var; }

static bool count_use(const Expr *x, void *context)
{
    Uses *const uses = context;
    int64_t by;
    uses->all += is_var(x, uses->var);
    uses->of_pairs += x->kind == E_BINARY && x->op.op == X_DIV && is_var(x->op.a, uses->var) &&
                      expr_as_int(x->op.b, &by) && by > 0 && by % 2 == 0;
    return false;
}

static void count_uses(Expr **slot, void *context) { expr_any(*slot, count_use, context); }

static const Expr *unconverted(const Expr *x)
{
    while (x->kind == E_CONVERT && dtype_is_integer(x->type) && dtype_is_integer(x->convert.a->type)) x = x->convert.a;
    return x;
}

// e%2*16, or of an index of two p*16: no word is turned by 32 bits and more
static bool is_half_shift(const Expr *x, const Var *var)
{
    x = unconverted(x);
    if (x->kind != E_BINARY || x->op.op != X_MUL || !expr_is_int(x->op.b, 16)) return false;
    const Expr *const rest = unconverted(x->op.a);
    return is_var(rest, var) ||
           (rest->kind == E_BINARY && rest->op.op == X_MOD && is_var(rest->op.a, var) && expr_is_int(rest->op.b, 2));
}

Expr *word_of_halves(const TileOp *store, const Var *var)
{
    const Expr *const bits = store->store.value;
    if (bits->kind != E_BITCAST || bits->convert.a->kind != E_CONVERT || bits->convert.a->type != DTYPE_U16)
        return NULL;
    const Expr *const shift = bits->convert.a->convert.a;
    return shift->kind == E_BINARY && shift->op.op == X_SHR && shift->type == DTYPE_U32 &&
                   is_half_shift(shift->op.b, var)
               ? shift->op.a
               : NULL;
}

// Whether elements along mode `last` of the iteration are registers 2n and 2n + 1.
static bool has_pairs(const Lowering *lo, const TileOp *store, const Iteration *it, int last)
{
    const TileInfo *const tile = tile_info(lo, store->store.buffer);
    Layout layout;
    int same[LAYOUT_MAX_MODES];
    if (!tile || tile->storage != TILE_IN_REGISTERS || tile->is_packed ||
        !find_register_modes(lo, tile, store->store.subs, it, &layout, same))
        return false;
    for (int i = 0; i < layout.n; i++)
        if (layout.mode[i].input == IN_REGISTER) return same[i] == last;
    return false;
}

// Statements that are the same for both elements of a pair, and at last the store.
static const TileOp *store_of_pair(TileOp *body, const Var *var)
{
    for (TileOp *op = body; op; op = op->next) {
        if (op->kind == T_STORE && !op->next) {
            Expr *word = word_of_halves(op, var);
            Uses uses = { var, 0, 0 };
            if (word) count_uses(&word, &uses);
            return word && uses.all == uses.of_pairs ? op : NULL;
        }
        Uses uses = { var, 0, 0 };
        tile_each_expr(op, count_uses, &uses);
        if ((op->kind != T_LET && op->kind != T_SET) || uses.all != uses.of_pairs) return NULL;
    }
    return NULL;
}

const TileOp *find_halves(Printer *pr, TileOp *map, const Iteration *it)
{
    if (pr->lo->kernel->checked || it->is_linear || it->vector >= 0 || it->n_reductions || it->n_batched ||
        it->n_order == 0 || it->batch_size)
        return NULL;
    const int last = it->order[it->n_order - 1];
    const LayoutMode *const mode = &it->layout.mode[last];
    if (mode->stride != 1 || mode->extent != 2) return NULL;
    for (int i = 0; i < it->n; i++) {
        int64_t extent;
        if (it->dim_of[i] != mode->dim || !full_extent(&it->indices[i], &extent) ||
            extent != layout_coverage(&it->layout, mode->dim))
            continue;
        const TileOp *const store = store_of_pair(map->forall.body, it->indices[i].var);
        return store && has_pairs(pr->lo, store, it, last) ? store : NULL;
    }
    return NULL;
}
