// SPDX-License-Identifier: MIT
// rows.c - neighbouring statements that go over the same rows (or columns) of tiles take them a few at a time together,
// so that what one statement made is still in the first-level cache when the next needs it: the softmax of attention is
// one pass, not six, and a kernel that memory bounds asks for memory all the time instead of once per statement. A few
// and not one, so that what is computed once per row still fills a vector.
//
// A run of foralls and whole copies (between tiles, from `in` tensors, into `out` tensors) shares its outermost loop if
// what any of them writes is reached by all of them through that loop's index in the first subscript alone. Then row i
// of each statement depends on row i of the others, and "all statements, rows by rows" cannot be told from "all rows,
// statement by statement". A run along columns shares its innermost loop and looks at the last subscript; what one of
// its statements reduces into, no other may touch. Tiles that come to life on the way, and fills of tiles that the run
// has not touched yet, stand before it.
#include "base/table.h"
#include "lower/cpu/cpu.h"

enum {
    MAX_RUN = 24,
    ROWS_TOGETHER = 16,
    ROW_BYTES = 1024, // 16 rows of 1 KB are a third of a cache
    COLUMNS_TOGETHER = 512
};

typedef struct Shared {
    int index;
    int64_t extent;
} Shared;
typedef struct Reduced {
    const Buffer *root;
    int owner;
} Reduced;

typedef struct Run {
    Cpu *cx;
    bool columns;
    TileOp *ops[MAX_RUN]; // foralls, copies, and ifs over foralls alone
    int n;
    int64_t extent;
    Table *shared;               // the index that each forall shares, found once
    VEC(TileOp *) before;        // tiles and fills
    VEC(const Buffer *) written; // roots
    VEC(const Buffer *) touched;
    VEC(Reduced) reduced; // into sums over the columns, by which op
    VEC(const Var *) assigned;
    // while looking at one op
    int at;
    const Var *row;
    const Buffer *reducing;
    bool fits;
} Run;

// Whether it could stand in a run; scratch.c keeps the tiles of such neighbours alive together.
bool cpu_may_share_rows(const TileOp *op)
{
    return op->kind == T_FORALL || op->kind == T_COPY || op->kind == T_IF || op->kind == T_FILL;
}

static bool has(const Buffer *const *items, int n, const Buffer *root)
{
    for (int i = 0; i < n; i++)
        if (items[i] == root) return true;
    return false;
}

static bool is_written(const Run *run, const Buffer *root) { return has(run->written.items, run->written.count, root); }
static bool is_touched(const Run *run, const Buffer *root) { return has(run->touched.items, run->touched.count, root); }

// Which index of a forall the run counts, if from 0 to a constant; -1: none.
static int shared_index(const Run *run, TileOp *forall, int64_t *extent)
{
    Shared *found = table_find(run->shared, forall);
    if (!found) {
        found = NEW(run->cx->arena, Shared);
        found->index = run->columns ? cpu_column_index(run->cx, forall, &found->extent)
                                    : cpu_row_index(run->cx, forall, &found->extent);
        *table_at(run->shared, forall) = found;
    }
    if (found->index >= 0) *extent = found->extent;
    return found->index;
}

// ---- what an op touches and writes

static void note_touch(const TileUse *use, void *context)
{
    Run *const run = context;
    VEC_PUSH(run->cx->arena, &run->touched, (const Buffer *)buffer_root(use->buffer));
}

static void note_touches(TileOp *op, Run *run)
{
    tile_uses(op, note_touch, run);
    TileOp **body;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner; inner = inner->next) note_touches(inner, run);
}

static void note_write(const TileUse *use, void *context)
{
    Run *const run = context;
    if (!use->writes && !use->atomic) return;
    const Buffer *const root = buffer_root(use->buffer);
    if (root == run->reducing) return;
    if (root->kind != BUFFER_LOCAL) VEC_PUSH(run->cx->arena, &run->written, root);
    if (!buffer_is_tile(root) && root->kind != BUFFER_LOCAL) run->fits = false; // tensors: other instances look on
}

// The root of a sum over the columns: it can be added to a few columns at a time, if nothing is rounded in between.
static const Buffer *reduced_root(const Run *run, const TileOp *op)
{
    if (!run->columns || op->kind != T_UPDATE || !op->update.reduces || !op->update.buffer) return NULL;
    Buffer *const b = op->update.buffer;
    for (int d = 0; d < b->rank; d++)
        if (expr_uses(op->update.subs[d], run->row)) return NULL;
    return b->kind != BUFFER_VIEW && buffer_is_tile(b) && dtype_info[b->type].wide == b->type ? b : NULL;
}

static void note_op(TileOp *op, Run *run)
{
    for (; op; op = op->next) {
        run->reducing = reduced_root(run, op);
        if (run->reducing) VEC_PUSH(run->cx->arena, &run->reduced, ((Reduced){ run->reducing, run->n }));
        tile_uses(op, note_write, run);
        run->reducing = NULL;
        if (op->kind == T_SET) VEC_PUSH(run->cx->arena, &run->assigned, (const Var *)op->let.var);
        if (op->kind == T_UPDATE && op->update.var)
            VEC_PUSH(run->cx->arena, &run->assigned, (const Var *)op->update.var);
        if (op->kind == T_PRINT || op->kind == T_ASSERT || op->kind == T_EXTERN || op->kind == T_WHILE)
            run->fits = false;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) note_op(*body, run);
    }
}

// ---- how an op reaches what the run writes

static bool is_row(const Run *run, const Expr *x) { return x->kind == E_VAR && x->var.var == run->row; }

static void check_reduced(const TileUse *use, void *context)
{
    Run *const run = context;
    for (int i = 0; i < run->reduced.count; i++)
        if (run->reduced.items[i].root == buffer_root(use->buffer) && run->reduced.items[i].owner != run->at)
            run->fits = false;
}

static void check_use(const TileUse *use, void *context)
{
    Run *const run = context;
    check_reduced(use, context);
    if (!is_written(run, buffer_root(use->buffer))) return;
    const int d = run->columns ? use->buffer->rank - 1 : 0;
    const bool by_row =
        use->buffer->kind != BUFFER_VIEW &&
        ((use->subs && is_row(run, use->subs[d])) ||
         (use->region && !run->columns && !use->region->subs[0].is_range && is_row(run, use->region->subs[0].start)));
    if (!by_row) run->fits = false;
}

static void check_op(TileOp *op, Run *run)
{
    for (; op; op = op->next) {
        tile_uses(op, check_use, run);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) check_op(*body, run);
    }
}

// A scalar that one forall reduces into and another reads is complete only after all rows.
static bool assigns_outside(const Run *run, const TileOp *forall)
{
    for (int i = 0; i < run->assigned.count; i++) {
        bool inside = false;
        for (const TileOp *op = forall->forall.body; op; op = op->next)
            inside = inside || (op->kind == T_LET && op->let.var == run->assigned.items[i]);
        if (!inside) return true;
    }
    return false;
}

static void reach_of(Run *run, TileOp *op)
{
    int64_t rows;
    if (op->kind == T_IF) {
        reach_of(run, op->branch.then);
        if (op->branch.otherwise) reach_of(run, op->branch.otherwise);
    }
    if (op->kind == T_COPY) tile_uses(op, check_reduced, run);
    if (op->kind != T_FORALL) return;
    run->row = op->forall.indices[shared_index(run, op, &rows)].var;
    check_op(op->forall.body, run);
}

static bool reaches_by_rows(Run *run)
{
    for (run->at = 0; run->at < run->n && run->fits; run->at++) reach_of(run, run->ops[run->at]);
    return run->fits;
}

// ---- collecting a run

// What one op writes, and how many rows it goes over; 0 if it does not fit in any run.
static int64_t note_member(Run *run, TileOp *op)
{
    int64_t rows = 0;
    if (op->kind == T_FORALL) {
        run->assigned.count = 0;
        const int index = shared_index(run, op, &rows);
        if (index < 0) return 0;
        run->row = op->forall.indices[index].var;
        note_op(op->forall.body, run);
        return run->fits && !assigns_outside(run, op) ? rows : 0;
    }
    if (op->kind == T_COPY) {
        const Buffer *const dst = buffer_root(op->copy.dst.buffer);
        if (!cpu_can_copy_rows(run->cx, op, run->columns, &rows) || (!buffer_is_tile(dst) && is_touched(run, dst)))
            return 0;
        VEC_PUSH(run->cx->arena, &run->written, dst);
        return rows;
    }
    // An `if` over one forall, as split-bounds makes them: the same test for all rows.
    if (op->kind != T_IF || expr_loads(op->branch.cond) || op->branch.then->next) return 0;
    if (op->branch.otherwise && op->branch.otherwise->next) return 0;
    rows = op->branch.then->kind == T_COPY ? 0 : note_member(run, op->branch.then);
    return !op->branch.otherwise || note_member(run, op->branch.otherwise) == rows ? rows : 0;
}

static bool try_op(Run *run, TileOp *op)
{
    const Run before = *run;
    run->fits = true;
    const int64_t rows = note_member(run, op);
    run->ops[run->n++] = op;
    const bool fits = run->fits && rows > 1 && (run->n == 1 || rows == run->extent) && reaches_by_rows(run);
    if (!fits) {
        *run = before;
        return false;
    }
    run->extent = rows;
    note_touches(op, run);
    return true;
}

// What may stand before the run although it comes later.
static bool goes_before(const Run *run, const TileOp *op)
{
    if (op->kind == T_TILE) return op->tile.buffer->kind != BUFFER_LOCAL;
    return run->n > 0 && op->kind == T_FILL && !expr_loads(op->fill.value) &&
           !is_touched(run, buffer_root(op->fill.dst.buffer)) && buffer_is_tile(op->fill.dst.buffer);
}

// ---- emitting it

static bool touches_tensors(const Run *run)
{
    for (int i = 0; i < run->touched.count; i++)
        if (run->touched.items[i]->kind == BUFFER_TENSOR) return true;
    return false;
}

static int64_t row_bytes(const Buffer *b)
{
    int64_t elements = 1, extent;
    for (int d = 1; d < b->rank; d++)
        if (expr_as_int(b->shape[d], &extent)) elements *= extent;
    return dtype_bytes(b->type, elements);
}

static int64_t rows_together(const Run *run)
{
    int64_t most = 1, all = 0;
    if (run->columns) return COLUMNS_TOGETHER;
    for (int i = 0; i < run->written.count; i++) {
        const Buffer *const b = run->written.items[i];
        if (!buffer_is_tile(b)) continue;
        if (row_bytes(b) > most) most = row_bytes(b);
        if (!has(run->written.items, i, b)) all += row_bytes(b);
    }
    if (touches_tensors(run)) most = all;
    int64_t rows = ROWS_TOGETHER;
    while (rows > 2 && rows * most > ROWS_TOGETHER * ROW_BYTES) rows /= 2;
    return rows;
}

// The rows of a whole copy's region: of a tile by its dimension, of a tensor by the range that stands for it.
static void narrow_region(Run *run, Region *r, Expr *first, Expr *count)
{
    Arena *const a = run->cx->arena;
    Sub *const subs = NEW_ARRAY(a, Sub, r->buffer->rank);
    memcpy(subs, r->subs, sizeof *subs * (size_t)r->buffer->rank);
    int at = run->columns ? r->buffer->rank - 1 : 0;
    while (!subs[at].is_range) at += run->columns ? -1 : 1;
    Expr *const moved = subs[at].step ? int_mul(a, first, subs[at].step) : first;
    subs[at].start = int_add(a, subs[at].start, moved);
    subs[at].width = count;
    r->subs = subs;
}

// The same op for rows from `first` on.
static TileOp *op_for_rows(Run *run, const TileOp *from, Expr *first, Expr *count)
{
    Arena *const a = run->cx->arena;
    TileOp *const op = NEW(a, TileOp, .kind = T_FORALL);
    *op = *from;
    op->next = NULL;
    if (op->kind == T_IF) {
        op->branch.then = op_for_rows(run, op->branch.then, first, count);
        if (op->branch.otherwise) op->branch.otherwise = op_for_rows(run, op->branch.otherwise, first, count);
        return op;
    }
    if (op->kind == T_FORALL) {
        int64_t rows;
        const int index = shared_index(run, op, &rows);
        LoopIndex *const indices = NEW_ARRAY(a, LoopIndex, op->forall.n);
        memcpy(indices, op->forall.indices, sizeof *indices * (size_t)op->forall.n);
        indices[index].lo = first;
        indices[index].hi = int_add(a, first, count);
        op->forall.indices = indices;
        return op;
    }
    narrow_region(run, &op->copy.dst, first, count);
    narrow_region(run, &op->copy.src, first, count);
    return op;
}

// Where the next step's contents of a tile lie is known before its rows are taken apart.
static void note_ahead(Run *run, TileOp *op)
{
    Place src;
    if (op->kind == T_COPY && buffer_is_tile(op->copy.dst.buffer) &&
        buffer_root(op->copy.src.buffer)->kind == BUFFER_TENSOR && cpu_place_region(run->cx, &src, &op->copy.src))
        cpu_note_ahead(run->cx, op, &src);
}

static void emit_run(Run *run)
{
    Cpu *const cx = run->cx;
    Arena *const a = cx->arena;
    const int64_t rows = rows_together(run);
    for (int i = 0; i < run->before.count; i++) cpu_op(cx, run->before.items[i]);
    for (int i = 0; i < run->n; i++) note_ahead(run, run->ops[i]);
    LoopList body = loop_list(a);
    Var *const row = loop_new_var(cx->unit, DTYPE_INT, run->columns ? "column" : "row");
    row->lo = int_const(a, 0);
    row->hi = int_const(a, run->extent - 1);
    Expr *const first = cpu_of(cx, row), *const left = int_sub(a, int_const(a, run->extent), first);
    LoopList *const out = cpu_enter(cx, &body);
    Expr *count = int_const(a, rows);
    if (run->extent % rows != 0)
        count = cpu_of(cx, cpu_declare(cx, DTYPE_INT, "rows", cpu_expr(cx, int_min(a, left, count))));
    for (int i = 0; i < run->n; i++) cpu_op(cx, op_for_rows(run, run->ops[i], first, count));
    cpu_enter(cx, out);
    cpu_add(cx, (LoopStmt){ .kind = L_FOR,
                            .for_ = { .var = row,
                                      .lo = int_const(a, 0),
                                      .hi = int_const(a, run->extent),
                                      .step = int_const(a, rows),
                                      .body = body.first } });
}

// The last op of a run from `op` on, NULL if at least two of its statements do not go along rows.
static TileOp *collect(Run *run, TileOp *op)
{
    TileOp *last = NULL;
    int deep = 0, before = 0;
    for (TileOp *at = op; at && run->n < MAX_RUN; at = at->next) {
        if (goes_before(run, at)) {
            VEC_PUSH(run->cx->arena, &run->before, at);
            continue;
        }
        if (!cpu_may_share_rows(at) || !try_op(run, at)) break;
        deep += at->kind != T_FORALL || at->forall.n > 1;
        last = at;
        before = run->before.count;
    }
    run->before.count = before; // what comes after the last op stays there
    const bool long_enough = run->columns ? run->extent > COLUMNS_TOGETHER && run->extent % COLUMNS_TOGETHER == 0
                                          : run->extent >= ROWS_TOGETHER;
    return run->n >= 2 && deep >= 2 && long_enough ? last : NULL;
}

// Takes a run that starts at `op`; the last op it took, NULL: none.
TileOp *cpu_rows(Cpu *cx, TileOp *op)
{
    if (cx->sequential || cpu_is_checked(cx) || cx->nest || !cpu_may_share_rows(op)) return NULL;
    for (int columns = 0; columns < 2; columns++) {
        Table shared = { .arena = cx->arena };
        Run run = { .cx = cx, .columns = columns, .shared = &shared };
        TileOp *const last = collect(&run, op);
        if (last) {
            emit_run(&run);
            return last;
        }
    }
    return NULL;
}
