// SPDX-License-Identifier: MIT
// lower.c - one kernel as one C function: words to variables, a loop over the instances, the body statement by
// statement. What is said by a single statement of C is said here; the rest has files of its own.
//
// before: Tile IR, verified          after: Loop IR, plan->scratch_bytes set
#include "lower/cpu/abi.h"
#include "lower/cpu/cpu.h"

#include <assert.h>

// ---- simple statements

static void lower_let(Cpu *cx, TileOp *op)
{
    Expr *const value = op->let.value ? cpu_convert(cx, op->let.var->type, cpu_expr(cx, op->let.value)) : NULL;
    if (!cx->sequential) cpu_note_let(cx, op);
    cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = op->let.var, .value = value } });
}

static void lower_store(Cpu *cx, TileOp *op)
{
    Place p;
    Expr *const value = cpu_convert(cx, op->store.buffer->type, cpu_expr(cx, op->store.value));
    if (!cpu_place_element(cx, &p, op->store.buffer, op->store.subs, op->span)) return;
    Expr *const inside = cpu_place_condition(cx, &p), *const at = cpu_linear_at(cx, &p.at, NULL);
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    cpu_place_store(cx, &p, at, value);
    if (p.root->kind != BUFFER_TENSOR && cx->tiles[p.root->id].shadow) cpu_mark_region(cx, &p, false);
    cpu_enter(cx, out);
    if (inside) cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { inside, body.first, NULL } });
    else
        for (LoopStmt *s = body.first; s; s = s->next) cpu_add(cx, *s);
}

static LoopStmt *lower_body(Cpu *cx, TileOp *op)
{
    LoopList list = loop_list(cx->arena), *const out = cpu_enter(cx, &list);
    cpu_block(cx, op);
    cpu_enter(cx, out);
    return list.first;
}

static LoopStmt *lower_conditional_body(Cpu *cx, TileOp *op)
{
    if (cx->nest) cx->nest->conditional++;
    LoopStmt *const body = lower_body(cx, op);
    if (cx->nest) cx->nest->conditional--;
    return body;
}

static void lower_if(Cpu *cx, TileOp *op)
{
    Expr *const cond = cpu_expr(cx, op->branch.cond);
    LoopStmt *const then = lower_conditional_body(cx, op->branch.then);
    cpu_add(cx, (LoopStmt){ .kind = L_IF, .branch = { cond, then, lower_conditional_body(cx, op->branch.otherwise) } });
}

static void lower_assert(Cpu *cx, TileOp *op)
{
    if (!common_is_asserted(cx->kernel, op)) return;
    LoopList body = loop_list(cx->arena);
    Expr *const fails = expr_unary(cx->arena, X_NOT, cpu_expr(cx, op->assertion.cond));
    LoopList *const out = cpu_enter(cx, &body);
    cpu_emit_trap(cx, op->span, op->assertion.message);
    cpu_enter(cx, out);
    cpu_add_if(cx, fails, &body);
}

static void lower_print(Cpu *cx, TileOp *op)
{
    Expr **const args = NEW_ARRAY(cx->arena, Expr *, op->print.n + 2);
    int n = 0;
    args[n++] = cpu_of(cx, cx->host);
    args[n++] = cpu_quoted(cx, common_print_format(cx->arena, op));
    for (int i = 0; i < op->print.n; i++) {
        Expr *const value = cpu_expr(cx, op->print.args[i]);
        args[n++] = cpu_convert(cx, dtype_is_float(value->type) ? DTYPE_F64 : DTYPE_INT, value);
    }
    // `long long` and int64_t differ in name only where they differ at all.
    cpu_add_call(cx, expr_call(cx->arena, DTYPE_INT, "kiln_print", n, args));
}

static void lower_external(Cpu *cx, TileOp *op)
{
    Expr **const args = NEW_ARRAY(cx->arena, Expr *, op->external.n + 2);
    const int own = strncmp(op->external.name, "kiln_touch_", 11) == 0 ? 2 : 0; // passes/trace_foralls.c
    if (own) {
        args[0] = cpu_of(cx, cx->host);
        args[1] = cpu_where(cx, op->span);
    }
    for (int i = 0; i < op->external.n; i++) args[i + own] = cpu_expr(cx, op->external.args[i]);
    cpu_add_call(cx, expr_call(cx->arena, DTYPE_INT, op->external.name, op->external.n + own, args));
}

// ---- loops

// A bound as something that costs nothing to look at again.
static Expr *fixed(Cpu *cx, const char *name, Expr *x)
{
    if (x->kind == E_INT || x->kind == E_VAR) return x;
    return cpu_of(cx, cpu_declare(cx, DTYPE_INT, name, x));
}

// `var` counts its steps, by `by`; NULL: nothing does.
static LoopStmt *loop_body(Cpu *cx, TileOp *body, const char *continue_label, const Var *var, int64_t by)
{
    const char *const before = cx->continue_label;
    const Var *const step_var = cx->step_var;
    Expr *const step_by = cx->step_by;
    cx->continue_label = continue_label;
    cx->step_var = var;
    cx->step_by = int_const(cx->arena, by);
    LoopStmt *const result = lower_body(cx, body);
    cx->continue_label = before;
    cx->step_var = step_var;
    cx->step_by = step_by;
    return result;
}

// Counting down is a while loop of Loop IR: its for only counts up.
static void lower_for_down(Cpu *cx, TileOp *op, Expr *lo, Expr *hi, int64_t step)
{
    const char *const next = cpu_fresh_label(cx, "next");
    LoopList body = loop_list(cx->arena);
    cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = op->for_.var, .value = lo } });
    Expr *const cond = expr_binary(cx->arena, X_GT, cpu_of(cx, op->for_.var), hi);
    LoopStmt *const inner = loop_body(cx, op->for_.body, next, op->for_.var, step);
    LoopList *const out = cpu_enter(cx, &body);
    cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { inner } });
    cpu_add(cx, (LoopStmt){ .kind = L_LABEL, .label = { next } });
    cpu_assign(cx, op->for_.var, int_add(cx->arena, cpu_of(cx, op->for_.var), int_const(cx->arena, step)));
    cpu_enter(cx, out);
    cpu_add(cx, (LoopStmt){ .kind = L_WHILE, .while_ = { cond, body.first } });
}

static void lower_for(Cpu *cx, TileOp *op)
{
    int64_t step = 1;
    Expr *const lo = fixed(cx, "lo", cpu_expr(cx, op->for_.lo)), *const hi = fixed(cx, "hi", cpu_expr(cx, op->for_.hi));
    if (!expr_as_int(op->for_.step, &step)) assert(!"the step of a counted loop is a constant");
    if (step < 0) {
        lower_for_down(cx, op, lo, hi, step);
        return;
    }
    cpu_add(cx, (LoopStmt){ .kind = L_FOR,
                            .for_ = { .var = op->for_.var,
                                      .lo = lo,
                                      .hi = hi,
                                      .step = int_const(cx->arena, step),
                                      .body = loop_body(cx, op->for_.body, NULL, op->for_.var, step) } });
}

static void lower_while(Cpu *cx, TileOp *op)
{
    const char *const next = op->while_.step ? cpu_fresh_label(cx, "next") : NULL;
    LoopList body = loop_list(cx->arena);
    Expr *const cond = cpu_expr(cx, op->while_.cond);
    LoopStmt *const inner = loop_body(cx, op->while_.body, next, NULL, 1);
    LoopList *const out = cpu_enter(cx, &body);
    cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { inner } });
    if (next) {
        cpu_add(cx, (LoopStmt){ .kind = L_LABEL, .label = { next } });
        cpu_block(cx, op->while_.step);
    }
    cpu_enter(cx, out);
    cpu_add(cx, (LoopStmt){ .kind = L_WHILE, .while_ = { cond, body.first } });
}

// Nested loops, the last index fastest. An inner bound may use an outer index.
static void lower_pipeline(Cpu *cx, TileOp *op, int at)
{
    if (at == op->pipeline.n) {
        const char *const before = cx->continue_label;
        const Var *const step_var = cx->step_var;
        Expr *const step_by = cx->step_by;
        cx->continue_label = NULL;
        cx->step_var = op->pipeline.indices[at - 1].var;
        cx->step_by = int_const(cx->arena, 1);
        cpu_block(cx, op->pipeline.body);
        cx->continue_label = before;
        cx->step_var = step_var;
        cx->step_by = step_by;
        return;
    }
    const LoopIndex *const index = &op->pipeline.indices[at];
    Expr *const lo = fixed(cx, "lo", cpu_expr(cx, index->lo)), *const hi = fixed(cx, "hi", cpu_expr(cx, index->hi));
    LoopList body = loop_list(cx->arena), *const out = cpu_enter(cx, &body);
    lower_pipeline(cx, op, at + 1);
    cpu_enter(cx, out);
    cpu_add_loop(cx, index->var, lo, hi, &body);
}

// ---- dispatch

void cpu_op(Cpu *cx, TileOp *op)
{
    switch (op->kind) {
    case T_TILE:
        if (cx->sequential) cpu_sequential_array(cx, op->tile.buffer);
        else cpu_declare_tile(cx, op->tile.buffer);
        break;
    case T_LET: lower_let(cx, op); break;
    case T_SET: cpu_assign(cx, op->let.var, cpu_convert(cx, op->let.var->type, cpu_expr(cx, op->let.value))); break;
    case T_STORE: lower_store(cx, op); break;
    case T_UPDATE: cpu_update(cx, op); break;
    case T_ATOMIC: cpu_atomic(cx, op); break;
    case T_ATOMIC_TILE:
    case T_FILL:
    case T_COPY: cpu_copy(cx, op); break;
    case T_MATMUL: cpu_matmul(cx, op); break;
    case T_SCAN: cpu_scan(cx, op); break;
    case T_FORALL:
        if (cx->sequential) cpu_sequential_forall(cx, op, 0);
        else cpu_forall(cx, op);
        break;
    case T_FOR: lower_for(cx, op); break;
    case T_WHILE: lower_while(cx, op); break;
    case T_PIPELINE: lower_pipeline(cx, op, 0); break;
    case T_IF: lower_if(cx, op); break;
    case T_BREAK: cpu_add(cx, (LoopStmt){ .kind = L_BREAK }); break;
    case T_CONTINUE:
        if (cx->continue_label) cpu_add(cx, (LoopStmt){ .kind = L_GOTO, .label = { cx->continue_label } });
        else cpu_add(cx, (LoopStmt){ .kind = L_CONTINUE });
        break;
    case T_RETURN: cpu_add(cx, (LoopStmt){ .kind = L_GOTO, .label = { cx->return_label } }); break;
    case T_PRINT: lower_print(cx, op); break;
    case T_ASSERT: lower_assert(cx, op); break;
    case T_EXTERN: lower_external(cx, op); break;
    }
}

void cpu_block(Cpu *cx, TileOp *op)
{
    for (; op && !cx->failed; op = op->next) {
        TileOp *const last = cpu_rows(cx, op);
        if (last) op = last;
        else cpu_op(cx, op);
    }
}

// ---- the function around it

static Expr *word(Cpu *cx, Var *words, int i, DType type)
{
    if (type == DTYPE_INT) return cpu_call(cx, type, "kiln_word_int", 2, cpu_of(cx, words), int_const(cx->arena, i));
    return cpu_call(cx, type, "kiln_word", 3, cpu_of(cx, words), int_const(cx->arena, i),
                    cpu_literal(cx, dtype_info[type].c_name));
}

static void declare_var(Cpu *cx, Var *var, Expr *value) { common_declare(cx->out, var, value); }

// Row-major strides as variables; those that are symbols; a strided tensor's own follow its pointer.
static int declare_strides(Cpu *cx, Buffer *b, Var *words, int at)
{
    Expr **const strides = cx->strides[b->id];
    Expr *inner = int_const(cx->arena, 1);
    for (int d = b->rank - 1; d >= 0; d--) {
        if (b->stride[0]) strides[d] = cpu_expr(cx, b->stride[d]);
        else if (b->strided)
            strides[d] = cpu_of(cx, cpu_declare(cx, DTYPE_INT, "stride", word(cx, words, at + d, DTYPE_INT)));
        else {
            strides[d] = fixed(cx, "stride", cpu_expr(cx, inner));
            inner = int_mul(cx->arena, strides[d], b->shape[d]);
        }
    }
    return b->strided ? at + b->rank : at;
}

// The words of plan.h: parameters, symbols, extents of the grid. Symbols first, for the strides need them.
static int symbols_at(const TileKernel *k)
{
    int at = 0;
    for (int i = 0; i < k->n_params; i++)
        if (!k->params[i].absent)
            at += 1 + (k->params[i].is_tensor && k->params[i].tensor->strided ? k->params[i].tensor->rank : 0);
    return at;
}

void cpu_declare_arguments(Cpu *cx, Var *words)
{
    const TileKernel *const k = cx->kernel;
    int at = symbols_at(k);
    for (int i = 0; i < k->n_binds; i++) declare_var(cx, k->binds[i].symbol, word(cx, words, at++, DTYPE_INT));
    at = 0;
    for (int i = 0; i < k->n_params; i++)
        if (!k->params[i].absent && !k->params[i].is_tensor) {
            declare_var(cx, k->params[i].scalar, word(cx, words, at++, k->params[i].scalar->type));
        } else if (!k->params[i].absent) {
            at += 1 + (k->params[i].tensor->strided ? k->params[i].tensor->rank : 0);
        }
    at = 0;
    for (int i = 0; i < k->n_params; i++) {
        Buffer *const b = k->params[i].tensor;
        if (k->params[i].absent) continue;
        if (!k->params[i].is_tensor) {
            at++;
            continue;
        }
        cx->tensors[b->id] = cpu_declare_pointer(
            cx, b->type, b->name,
            cpu_call(cx, b->type, "kiln_word_pointer", 2, cpu_of(cx, words), int_const(cx->arena, at)));
        at = declare_strides(cx, b, words, at + 1);
    }
}

// Coordinates of instance `number`, the first fastest.
void cpu_declare_coordinates(Cpu *cx, Var *words, Var *number)
{
    const TileKernel *const k = cx->kernel;
    const int at = symbols_at(k) + k->n_binds;
    Expr *rest = cpu_of(cx, number);
    for (int i = 0; i < k->n_grid; i++) {
        Expr *const extent = word(cx, words, at + i, DTYPE_INT);
        const bool last = i == k->n_grid - 1;
        declare_var(cx, k->grid[i].var, last ? rest : expr_binary(cx->arena, X_MOD, rest, extent));
        if (!last) rest = cpu_of(cx, cpu_declare(cx, DTYPE_INT, "rest", expr_binary(cx->arena, X_DIV, rest, extent)));
    }
}

Cpu *cpu_new(TileKernel *k, const CpuTarget *target, LaunchPlan *plan)
{
    Cpu *const cx =
        NEW(k->arena, Cpu, .arena = k->arena, .diags = k->diags, .kernel = k, .target = target, .plan = plan);
    cx->unit = NEW(k->arena, LoopUnit, .arena = k->arena, .n_vars = k->n_vars);
    cx->var_map = NEW_ARRAY(k->arena, Expr *, k->n_vars + 1);
    cx->tiles = NEW_ARRAY(k->arena, TileInfo, k->n_buffers + 1);
    cx->tensors = NEW_ARRAY(k->arena, Var *, k->n_buffers + 1);
    cx->strides = arena_alloc(k->arena, sizeof *cx->strides * (size_t)(k->n_buffers + 1));
    return cx;
}

// The entry: its parameters, `begin` before the loop over instances, `body` in it.
LoopUnit *cpu_finish(Cpu *cx, Var **params, LoopStmt *body)
{
    LoopFunction *const f = NEW(cx->arena, LoopFunction, .name = cx->plan->symbol, .params = params, .n_params = 4,
                                .attributes = "__attribute__((visibility(\"default\")))", .body = body);
    Text head = { .arena = cx->arena };
    if (cx->isa) text_print(&head, "%s", cx->isa);
    for (int i = 0; i < cx->uses.count; i++) text_print(&head, "#define KILN_USE_%s 1\n", cx->uses.items[i]);
    cx->unit->head = text_cstr(&head);
    VEC_PUSH(cx->arena, &cx->unit->functions, f);
    return cx->failed || cx->diags->errors ? NULL : cx->unit;
}

Var **cpu_entry_params(Cpu *cx)
{
    Var **const params = NEW_ARRAY(cx->arena, Var *, 4);
    params[0] = loop_new_pointer(cx->unit, DTYPE_NONE, "words");
    params[1] = loop_new_var(cx->unit, DTYPE_INT, "first");
    params[2] = loop_new_var(cx->unit, DTYPE_INT, "last");
    params[3] = loop_new_pointer(cx->unit, DTYPE_NONE, "scratch");
    cx->host = params[3];
    return params;
}

LoopUnit *lower_cpu(TileKernel *kernel, const Target *target, LaunchPlan *plan, Text *explanation, Text *cost)
{
    Cpu *const cx = cpu_new(kernel, &target->cpu, plan);
    Var **const params = cpu_entry_params(cx);
    LoopList function = loop_list(cx->arena), instance = loop_list(cx->arena);
    cx->out = &function;
    cpu_declare_arguments(cx, params[0]);
    cpu_plan_scratch(cx);
    cpu_find_borrowed(cx);
    cpu_find_streamed(cx);

    Var *const number = loop_new_var(cx->unit, DTYPE_INT, "instance");
    cpu_enter(cx, &instance);
    cx->return_label = cpu_fresh_label(cx, "done");
    cpu_declare_coordinates(cx, params[0], number);
    cx->step_var = kernel->n_grid ? kernel->grid[0].var : NULL;
    cx->step_by = int_const(cx->arena, 1);
    cpu_weigh(cx);
    LoopStmt *const body = lower_body(cx, kernel->body);
    notes_sort(&kernel->notes);
    cpu_add(cx, (LoopStmt){ .kind = L_BLOCK, .block = { body } });
    cpu_add(cx, (LoopStmt){ .kind = L_LABEL, .label = { cx->return_label } });

    cpu_enter(cx, &function);
    cpu_declare_streams(cx);
    cpu_add_loop(cx, number, cpu_of(cx, params[1]), cpu_of(cx, params[2]), &instance);
    if (cpu_has_use(cx, "STREAM")) cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_stream_end", 0));
    plan->scratch_bytes += cx->temp_bytes;
    cpu_choose_preludes(cx);
    return cpu_finish(cx, params, function.first);
}
