// SPDX-License-Identifier: MIT
// sequential.c - references, check code and verify blocks: plain scalar C, one statement for one statement.
//
// Nothing of the tile lowering is used but expressions and the statements of lower.c: no tiles, no loop nests, no
// vectors, no reordering, so that a reference and the kernel it judges share the front end alone. Private arrays
// may have extents known at run time; they come from the host and go back to it.
//
// before: a sequential kernel         after: Loop IR whose instances are the kernel's grid (one if it has none)
#include "lower/cpu/abi.h"
#include "lower/cpu/cpu.h"

enum { STACK_ELEMENTS = 512 };

// ---- the outermost forall as tasks

static bool has_order(TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_PRINT || (op->kind == T_UPDATE && op->update.reduces)) return true;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            if (has_order(*body)) return true;
    }
    return false;
}

// `continue` of the forall ends a task.
static void continue_to_return(TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_CONTINUE) op->kind = T_RETURN;
        if (op->kind != T_IF) continue;
        continue_to_return(op->branch.then);
        continue_to_return(op->branch.otherwise);
    }
}

// A body that is one forall from 0 whose iterations nobody can tell apart becomes a grid. Before plan_new.
void sequential_make_tasks(TileKernel *k)
{
    TileOp *const op = k->body;
    if (k->n_grid || !op || op->next || op->kind != T_FORALL || op->forall.n < 1 || has_order(op->forall.body)) return;
    for (int i = 0; i < op->forall.n; i++) {
        const LoopIndex *const index = &op->forall.indices[i];
        int64_t lo;
        if (!expr_as_int(index->lo, &lo) || lo != 0 || expr_loads(index->hi)) return;
        for (int j = 0; j < i; j++)
            if (expr_uses(index->hi, op->forall.indices[j].var)) return;
    }
    k->n_grid = op->forall.n;
    k->grid = NEW_ARRAY(k->arena, TileGridDim, k->n_grid);
    for (int i = 0; i < k->n_grid; i++) {
        const LoopIndex *const index = &op->forall.indices[k->n_grid - 1 - i];
        index->var->kind = VAR_GRID;
        k->grid[i] = (TileGridDim){ .var = index->var, .extent = index->hi };
    }
    k->body = op->forall.body;
    continue_to_return(k->body);
}

// ---- private arrays

static void each_array(Cpu *cx, TileOp *op, void (*visit)(Cpu *, Buffer *))
{
    for (; op; op = op->next) {
        if (op->kind == T_TILE) visit(cx, op->tile.buffer);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) each_array(cx, *body, visit);
    }
}

static int64_t const_elements(const Buffer *b)
{
    int64_t n = 1, extent;
    for (int d = 0; d < b->rank; d++) {
        if (!expr_as_int(b->shape[d], &extent)) return -1;
        n *= extent;
    }
    return n;
}

static bool is_on_stack(const Buffer *b)
{
    const int64_t n = const_elements(b);
    return n >= 0 && n <= STACK_ELEMENTS;
}

static void declare_array(Cpu *cx, Buffer *b)
{
    cx->tiles[b->id].pointer = loop_new_pointer(cx->unit, cpu_array_type(b->type), b->name);
    Var *const p = cx->tiles[b->id].pointer;
    if (!is_on_stack(b)) {
        cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = p, .value = cpu_literal(cx, "0") } });
        return;
    }
    const int64_t n = const_elements(b);
    p->pointer = 0;
    cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = p, .elements = n > 0 ? n : 1 } });
    p->pointer = 1;
}

static void free_array(Cpu *cx, Buffer *b)
{
    if (!is_on_stack(b))
        cpu_add_call(
            cx, cpu_call(cx, DTYPE_INT, "kiln_free", 2, cpu_of(cx, cx->host), cpu_of(cx, cx->tiles[b->id].pointer)));
}

// An array comes to life: its strides, and memory if it was not worth the stack.
void cpu_sequential_array(Cpu *cx, Buffer *b)
{
    TileInfo *const t = &cx->tiles[b->id];
    Expr *elements = int_const(cx->arena, 1);
    for (int d = b->rank - 1; d >= 0; d--) {
        t->strides[d] = elements->kind == E_INT ? elements : cpu_of(cx, cpu_declare(cx, DTYPE_INT, "stride", elements));
        elements = int_mul(cx->arena, t->strides[d], cpu_expr(cx, b->shape[d]));
    }
    if (is_on_stack(b)) return;
    const int bytes = dtype_bits(b->type) < 8 ? 1 : dtype_bits(b->type) / 8;
    free_array(cx, b);
    cpu_assign(cx, t->pointer,
               cpu_call(cx, b->type, "kiln_alloc", 4, cpu_of(cx, cx->host), elements, int_const(cx->arena, bytes),
                        cpu_where(cx, b->span)));
}

// ---- forall: plain nested loops in the order of the source

void cpu_sequential_forall(Cpu *cx, TileOp *op, int at)
{
    if (at == op->forall.n) {
        const char *const label = cx->continue_label;
        cx->continue_label = NULL;
        cpu_block(cx, op->forall.body);
        cx->continue_label = label;
        return;
    }
    const LoopIndex *const index = &op->forall.indices[at];
    Expr *const lo = cpu_expr(cx, index->lo);
    Expr *const hi = cpu_of(cx, cpu_declare(cx, DTYPE_INT, "hi", cpu_expr(cx, index->hi)));
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    cpu_sequential_forall(cx, op, at + 1);
    cpu_enter(cx, out);
    cpu_add_loop(cx, index->var, lo, hi, &body);
}

// ---- the kernel

LoopUnit *lower_sequential(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost)
{
    Cpu *const cx = cpu_new(kernel, NULL, plan);
    Var **const params = cpu_entry_params(cx);
    LoopList function = loop_list(cx->arena), instance = loop_list(cx->arena), body = loop_list(cx->arena);
    cx->sequential = true;
    cx->out = &function;
    cpu_declare_arguments(cx, params[0]);
    Var *const number = loop_new_var(cx->unit, DTYPE_INT, "instance");
    cpu_enter(cx, &instance);
    cx->return_label = cpu_fresh_label(cx, "done");
    cpu_declare_coordinates(cx, params[0], number);
    each_array(cx, kernel->body, declare_array);
    cpu_enter(cx, &body);
    cpu_block(cx, kernel->body);
    cpu_enter(cx, &instance);
    cpu_add_if(cx, NULL, &body);
    cpu_add(cx, (LoopStmt){ .kind = L_LABEL, .label = { cx->return_label } });
    each_array(cx, kernel->body, free_array);
    cpu_enter(cx, &function);
    cpu_add_loop(cx, number, cpu_of(cx, params[1]), cpu_of(cx, params[2]), &instance);
    plan->scratch_bytes = CPU_HOST_BYTES;
    cpu_choose_preludes(cx);
    return cpu_finish(cx, params, function.first);
}
