// rows.c - neighbouring statements that go over the same rows of tiles take them a few at a time together, so that
// a row is still in the first-level cache when the next statement needs it: the softmax of attention is one pass, not
// six. A few and not one, so that what is computed once per row still fills a vector.
//
// A run of foralls (and copies between tiles) shares its outermost loop if what any of them writes is reached by all
// of them through that loop's index in the first subscript alone. Then row i of each statement depends on row i of
// the others, and "all statements, rows by rows" cannot be told from "all rows, statement by statement".
#include "lower/cpu/cpu.h"

enum { MAX_RUN = 24, ROWS_TOGETHER = 16, ROW_BYTES = 1024 };   // 16 rows of 1 KB are a third of a cache

typedef struct Run {
    Cpu     *cx;
    TileOp  *ops[MAX_RUN];           // foralls, copies, and ifs over foralls alone
    int      n;
    int64_t  extent;
    VEC(const Buffer *) written;     // roots
    VEC(const Var *) assigned;
    // while looking at one op
    const Var *row;
    bool     fits;
} Run;

static bool is_private_tile(const Buffer *b) { return b->kind == BUFFER_SHARED || b->kind == BUFFER_FRAGMENT; }

// Whether it could stand in a run; scratch.c keeps the tiles of such neighbours alive together.
bool cpu_may_share_rows(const TileOp *op) { return op->kind == T_FORALL || op->kind == T_COPY || op->kind == T_IF; }

// ---- what an op writes

static void note_write(const TileUse *use, void *context)
{
    Run *const run = context;
    if (!use->writes && !use->atomic) return;
    const Buffer *const root = buffer_root(use->buffer);
    if (root->kind != BUFFER_LOCAL) VEC_PUSH(run->cx->arena, &run->written, root);
    if (!is_private_tile(root) && root->kind != BUFFER_LOCAL) run->fits = false;       // tensors: other instances look on
}

static void note_op(TileOp *op, Run *run)
{
    for (; op; op = op->next) {
        tile_uses(op, note_write, run);
        if (op->kind == T_SET) VEC_PUSH(run->cx->arena, &run->assigned, (const Var *)op->let.var);
        if (op->kind == T_UPDATE && op->update.var) VEC_PUSH(run->cx->arena, &run->assigned, (const Var *)op->update.var);
        if (op->kind == T_PRINT || op->kind == T_ASSERT || op->kind == T_EXTERN || op->kind == T_WHILE) run->fits = false;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) note_op(*body, run);
    }
}

// ---- how an op reaches what the run writes

static bool is_written(const Run *run, const Buffer *root)
{
    for (int i = 0; i < run->written.count; i++)
        if (run->written.items[i] == root) return true;
    return false;
}

static void check_use(const TileUse *use, void *context)
{
    Run *const run = context;
    if (!is_written(run, buffer_root(use->buffer))) return;
    const bool by_row = use->buffer->kind != BUFFER_VIEW && use->subs && use->subs[0]->kind == E_VAR && use->subs[0]->var.var == run->row;
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
    if (op->kind != T_FORALL) return;
    run->row = op->forall.indices[cpu_row_index(run->cx, op, &rows)].var;
    check_op(op->forall.body, run);
}

static bool reaches_by_rows(Run *run)
{
    for (int i = 0; i < run->n && run->fits; i++) reach_of(run, run->ops[i]);
    return run->fits;
}

// ---- collecting a run

// What one op writes, and how many rows it goes over; 0 if it does not fit in any run.
static int64_t note_member(Run *run, TileOp *op)
{
    int64_t rows = 0;
    if (op->kind == T_FORALL) {
        run->assigned.count = 0;
        if (cpu_row_index(run->cx, op, &rows) < 0) return 0;
        note_op(op->forall.body, run);
        return run->fits && !assigns_outside(run, op) ? rows : 0;
    }
    if (op->kind == T_COPY) {
        if (!cpu_can_copy_rows(run->cx, op, &rows)) return 0;
        VEC_PUSH(run->cx->arena, &run->written, (const Buffer *)op->copy.dst.buffer);
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
    return true;
}

// ---- emitting it

static int64_t rows_together(const Run *run)
{
    int64_t most = 1;
    for (int i = 0; i < run->written.count; i++) {
        const Buffer *const b = run->written.items[i];
        int64_t elements = 1, extent;
        for (int d = 1; d < b->rank; d++)
            if (expr_as_int(b->shape[d], &extent)) elements *= extent;
        if (dtype_bytes(b->type, elements) > most) most = dtype_bytes(b->type, elements);
    }
    int64_t rows = ROWS_TOGETHER;
    while (rows > 2 && rows * most > ROWS_TOGETHER * ROW_BYTES) rows /= 2;
    return rows;
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
        const int index = cpu_row_index(run->cx, op, &rows);
        LoopIndex *const indices = NEW_ARRAY(a, LoopIndex, op->forall.n);
        memcpy(indices, op->forall.indices, sizeof *indices * (size_t)op->forall.n);
        indices[index].lo = first;
        indices[index].hi = int_add(a, first, count);
        op->forall.indices = indices;
        return op;
    }
    Region *const regions[] = { &op->copy.dst, &op->copy.src };
    for (int r = 0; r < 2; r++) {
        Sub *const subs = NEW_ARRAY(a, Sub, regions[r]->buffer->rank);
        memcpy(subs, regions[r]->subs, sizeof *subs * (size_t)regions[r]->buffer->rank);
        subs[0].start = first;
        subs[0].width = count;
        regions[r]->subs = subs;
    }
    return op;
}

static void emit_run(Run *run)
{
    Cpu *const cx = run->cx;
    Arena *const a = cx->arena;
    const int64_t rows = rows_together(run);
    LoopList body = loop_list(a);
    Var *const row = loop_new_var(cx->unit, DTYPE_INT, "row");
    row->lo = int_const(a, 0);
    row->hi = int_const(a, run->extent - 1);
    Expr *const first = cpu_of(cx, row), *const left = int_sub(a, int_const(a, run->extent), first);
    LoopList *const out = cpu_enter(cx, &body);
    Expr *count = int_const(a, rows);
    if (run->extent % rows != 0) count = cpu_of(cx, cpu_declare(cx, DTYPE_INT, "rows", cpu_expr(cx, int_min(a, left, count))));
    for (int i = 0; i < run->n; i++) cpu_op(cx, op_for_rows(run, run->ops[i], first, count));
    cpu_enter(cx, out);
    cpu_add(cx, (LoopStmt){ .kind = L_FOR, .span = run->ops[0]->span,
                            .for_ = { .var = row, .lo = int_const(a, 0), .hi = int_const(a, run->extent),
                                      .step = int_const(a, rows), .body = body.first } });
}

// Takes a run that starts at `op` if at least two of its statements go along rows.
TileOp *cpu_rows(Cpu *cx, TileOp *op)
{
    if (cx->sequential || cpu_is_checked(cx) || cx->nest || !cpu_may_share_rows(op)) return NULL;
    Run run = { .cx = cx };
    TileOp *last = NULL;
    int deep = 0;
    for (TileOp *at = op; at && run.n < MAX_RUN; at = at->next) {
        if (at->kind == T_TILE && at->tile.buffer->kind != BUFFER_LOCAL) continue;
        if (!cpu_may_share_rows(at) || !try_op(&run, at)) break;
        deep += at->kind != T_FORALL || at->forall.n > 1;
        last = at;
    }
    if (run.n < 2 || deep < 2 || run.extent < ROWS_TOGETHER) return NULL;
    emit_run(&run);
    return last;
}
