// SPDX-License-Identifier: MIT
// notes.c - performance notes of the CPU: what the C compiler cannot make vectors of, and what is moved an element at a time.
//
// Before anything is lowered each statement gets a weight: the vector operations that its elements and loops come to, a loop of
// unknown length counted as LIKELY_TRIPS steps. Where the lowering takes a slow form it says how many times slower that is and
// why; the note is made if the statement, so slowed down, matters beside the whole kernel.
#include "lower/cpu/cpu.h"

enum { LIKELY_TRIPS = 16, LIKELY_EXTENT = 256, NODES_MAX = 10000, VECTOR = 16, PRODUCT_VECTOR = 64 };
static const double share_of_note = 0.1;

struct CpuWeights {
    struct Weight {
        const Source *source;
        int begin;
        double weight;
    } * items;
    int count, capacity;
    double all;
};

// ---- weights

static double extent_of(const Expr *x)
{
    int64_t n;
    return !expr_as_int(x, &n) ? LIKELY_EXTENT : n > 0 ? (double)n : 0;
}

static double trips_of(const Expr *lo, const Expr *hi)
{
    int64_t from, to;
    return !expr_as_int(lo, &from) || !expr_as_int(hi, &to) ? LIKELY_TRIPS : to > from ? (double)(to - from) : 0;
}

static double elements_of(const Region *region)
{
    double n = 1;
    for (int d = 0; d < region->buffer->rank; d++)
        if (region->subs[d].is_range) n *= extent_of(region->subs[d].width);
    return n;
}

// Subtrees are shared: what is large enough is not counted to its end.
static bool count_node(const Expr *x, void *context)
{
    double *const n = context;
    *n += x->kind != E_INT && x->kind != E_VAR;
    return *n > NODES_MAX;
}

static void count_slot(Expr **slot, void *context) { expr_any(*slot, count_node, context); }

static double nodes_of_block(TileOp *op)
{
    double n = 0;
    for (; op && n <= NODES_MAX; op = op->next) {
        TileOp **body;
        tile_each_expr(op, count_slot, &n);
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) n += nodes_of_block(*body);
    }
    return n;
}

static double weight_of(const TileOp *op)
{
    double n = 1;
    switch (op->kind) {
    case T_FORALL:
        for (int i = 0; i < op->forall.n; i++) {
            int64_t lo, hi;
            const LoopIndex *const index = &op->forall.indices[i];
            n *= expr_as_int(index->lo, &lo) && expr_as_int(index->hi, &hi) ? (double)(hi > lo ? hi - lo : 0)
                                                                            : LIKELY_EXTENT;
        }
        return n * (1 + nodes_of_block(op->forall.body)) / VECTOR;
    case T_COPY:
    case T_ATOMIC_TILE: return elements_of(&op->copy.dst) / VECTOR;
    case T_FILL: return elements_of(&op->fill.dst) / VECTOR;
    case T_SCAN: return elements_of(&op->scan.dst);
    case T_MATMUL:
        n = extent_of(region_extent(&op->matmul.a.region, !op->matmul.a.transposed));
        return elements_of(&op->matmul.dst) * n / PRODUCT_VECTOR;
    case T_TILE:
    case T_LET:
    case T_SET:
    case T_STORE:
    case T_UPDATE:
    case T_ATOMIC:
    case T_FOR:
    case T_WHILE:
    case T_PIPELINE:
    case T_IF:
    case T_BREAK:
    case T_CONTINUE:
    case T_RETURN:
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: break;
    }
    return n;
}

static double steps_of(const TileOp *op)
{
    double n = 1;
    if (op->kind == T_FOR) return trips_of(op->for_.lo, op->for_.hi);
    if (op->kind == T_WHILE) return LIKELY_TRIPS;
    for (int i = 0; op->kind == T_PIPELINE && i < op->pipeline.n; i++)
        n *= trips_of(op->pipeline.indices[i].lo, op->pipeline.indices[i].hi);
    return n;
}

static void add_weights(Cpu *cx, TileOp *op, double times)
{
    struct CpuWeights *const w = cx->weights;
    for (; op; op = op->next) {
        TileOp **body;
        const double weight = times * weight_of(op);
        if (w->count == w->capacity) return;
        w->items[w->count++] = (struct Weight){ op->span.source, op->span.begin, weight };
        w->all += weight;
        for (int i = 0; op->kind != T_FORALL && (body = tile_bodies(op, i)) != NULL; i++)
            add_weights(cx, *body, times * steps_of(op));
    }
}

void cpu_weigh(Cpu *cx)
{
    enum { WEIGHTS_MAX = 4096 };
    struct CpuWeights *const w = NEW(cx->arena, struct CpuWeights, .capacity = WEIGHTS_MAX);
    w->items = arena_alloc(cx->arena, sizeof *w->items * WEIGHTS_MAX);
    cx->weights = w;
    add_weights(cx, cx->kernel->body, 1);
}

// Whether a statement that is so many times slower matters. Statements that the lowering has made keep their span.
static bool matters(const Cpu *cx, Span span, double slower)
{
    const struct CpuWeights *const w = cx->weights;
    for (int i = 0; w && i < w->count; i++)
        if (w->items[i].source == span.source && w->items[i].begin == span.begin) {
            const double weight = w->items[i].weight * slower;
            return weight > share_of_note * (w->all + weight);
        }
    return false;
}

// ---- notes

void cpu_note(Cpu *cx, NoteKind kind, Span span, double slower, const char *instead, const char *why)
{
    if (cx->sequential || cpu_is_checked(cx) || !matters(cx, span, slower)) return;
    note_add(cx->kernel, kind, span, instead, "%s", why);
}

static const char *named(TileKind kind)
{
    switch (kind) {
    case T_FOR:
    case T_WHILE: return "a loop";
    case T_ATOMIC: return "an atomic";
    case T_BREAK:
    case T_RETURN: return "a jump";
    case T_COPY:
    case T_FILL:
    case T_ATOMIC_TILE: return "a copy of a slice";
    case T_FORALL: return "a forall";
    case T_SCAN: return "a cumsum";
    case T_MATMUL: return "a product";
    case T_PRINT:
    case T_ASSERT:
    case T_EXTERN: return "a call";
    case T_TILE:
    case T_LET:
    case T_SET:
    case T_STORE:
    case T_UPDATE:
    case T_PIPELINE:
    case T_IF:
    case T_CONTINUE: break;
    }
    return "an atomic";
}

typedef struct Accesses {
    Cpu *cx;
    const Var *inner;
    int n, scattered; // that use the innermost index; of these, not along their last dimension
    const Buffer *packed, *apart;
} Accesses;

static void see_access(const TileUse *use, void *context)
{
    Accesses *const a = context;
    if (!use->subs || buffer_root(use->buffer)->kind == BUFFER_LOCAL) return;
    bool uses = false, along = true;
    for (int d = 0; d < use->buffer->rank; d++) {
        Var *var = (Var *)a->inner;
        int64_t c = 0;
        Expr *rest;
        if (!expr_uses(use->subs[d], var)) continue;
        uses = true;
        along &= d == use->buffer->rank - 1 && expr_affine(a->cx->arena, use->subs[d], &var, 1, &c, &rest) && c == 1;
    }
    a->n += uses;
    a->scattered += uses && !along;
    if (uses && !along) a->apart = use->buffer;
    if (dtype_is_packed(use->buffer->type) && buffer_root(use->buffer)->kind == BUFFER_TENSOR) a->packed = use->buffer;
}

static void see_block(TileOp *op, Accesses *accesses)
{
    for (; op; op = op->next) {
        TileOp **body;
        tile_uses(op, see_access, accesses);
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) see_block(*body, accesses);
    }
}

// A loop nest: why its innermost loop is no vector loop, or a slow one.
void cpu_note_nest(Cpu *cx, const Nest *nest)
{
    if (nest->outer || nest->n == 0) return;
    const Span span = nest->op->span;
    Accesses accesses = { .cx = cx, .inner = nest->op->forall.indices[nest->order[nest->n - 1]].var };
    see_block(nest->op->forall.body, &accesses);
    const bool copies = nest->op->forall.body && nest->op->forall.body->kind == T_COPY;
    if (!nest->plain && !copies)
        cpu_note(cx, NOTE_NOT_VECTORISED, span, 8,
                 nest->in_the_way == T_FOR ? "the loop's index as one more index of the forall, with a reduction"
                                           : NULL,
                 arena_printf(cx->arena, "the loop runs an element at a time, because %s is in it",
                              named(nest->in_the_way)));
    else if (accesses.packed)
        cpu_note(cx, NOTE_SCATTERED, span, 8, "a copy of whole rows to a tile of the same type first",
                 arena_printf(cx->arena, "the elements of %s, several to a byte, are unpacked one by one",
                              accesses.packed->name));
    else if (accesses.scattered)
        cpu_note(cx, NOTE_SCATTERED, span, 4,
                 "an index that runs along the last dimension of all that is accessed, or a transposed copy first",
                 arena_printf(cx->arena, "neighbouring iterations access %s with a stride, element by element",
                              accesses.apart->name));
}
