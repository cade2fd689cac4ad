// SPDX-License-Identifier: MIT
// evaluate.c - what a program computes: the tree is walked, statement by statement, for one instance after another.
#include "machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Flow { NEXT, BREAK, CONTINUE, RETURN } Flow;

enum { MAX_STEPS = 3000000 };

static Flow run(Machine *machine, Statement *list);

_Noreturn void give_up(Machine *machine, const char *reason)
{
    machine->reason = reason;
    longjmp(machine->out, 1);
}

// ---- expressions

static Value evaluate(Machine *machine, const Expr *x);

static int64_t evaluate_integer(Machine *machine, const Expr *x)
{
    const Value v = evaluate(machine, x);
    if (v.vague) give_up(machine, "a subscript or bound that is vague");
    if (v.type == U64 && v.i < 0) give_up(machine, "a subscript or bound of 2^63 or more");
    return v.i;
}

static bool evaluate_condition(Machine *machine, const Expr *x)
{
    const Value v = evaluate(machine, x);
    if (v.vague) give_up(machine, "a condition that is vague");
    return is_true(v);
}

static void evaluate_subscripts(Machine *machine, const Expr *x, int64_t *index)
{
    for (int i = 0; i < x->memory->rank; i++) index[i] = evaluate_integer(machine, x->args[i]);
}

// Parameters by value; the function's variables stand in its tree, as it cannot call itself.
static Value call_function(Machine *machine, const Expr *x)
{
    Value values[MAX_ARGS];
    for (int i = 0; i < x->n; i++) values[i] = convert(x->function->params[i]->type, evaluate(machine, x->args[i]));
    for (int i = 0; i < x->n; i++) x->function->params[i]->value = values[i];
    const Type caller = machine->returned_type;
    machine->returned_type = x->function->type;
    if (run(machine, x->function->body) != RETURN) give_up(machine, "a function without return");
    machine->returned_type = caller;
    return machine->returned;
}

static Value evaluate_atomic(Machine *machine, const Expr *x)
{
    int64_t index[MAX_RANK] = { 0 };
    const char *undefined;
    evaluate_subscripts(machine, x->args[0], index);
    const Value old = read_element(machine, x->memory, index);
    Value values[2];
    for (int i = 1; i < x->n; i++) values[i - 1] = convert(x->memory->type, evaluate(machine, x->args[i]));
    if (x->integer == 'x') write_element(machine, x->memory, index, values[0]);
    else if (x->integer == 'c') {
        if (old.i == values[0].i) write_element(machine, x->memory, index, values[1]);
    } else write_element(machine, x->memory, index, compute(x->op, (Value[]){ old, values[0] }, 2, &undefined));
    return old;
}

static Value evaluate_bitcast(Type type, Value x)
{
    Value y = value_of_bits(type, value_bits(x));
    y.vague = x.vague || (is_float(x.type) && (x.f == 0 || x.f != x.f));
    return y;
}

static Value evaluate_op(Machine *machine, const Expr *x)
{
    const char *undefined;
    Value v[3];
    if (x->op == BOTH || x->op == EITHER) {
        const bool first = evaluate_condition(machine, x->args[0]);
        if (first == (x->op == EITHER)) return integer_value(BOOL, first);
        return integer_value(BOOL, evaluate_condition(machine, x->args[1]));
    }
    if (x->op == SELECT) {
        Value y = evaluate(machine, x->args[evaluate_condition(machine, x->args[0]) ? 1 : 2]);
        return convert(x->type, y);
    }
    for (int i = 0; i < x->n; i++) v[i] = evaluate(machine, x->args[i]);
    const Value y = compute(x->op, v, x->n, &undefined);
    if (undefined) give_up(machine, undefined);
    return y;
}

static Value evaluate(Machine *machine, const Expr *x)
{
    int64_t index[MAX_RANK] = { 0 };
    if (machine->steps++ > MAX_STEPS) give_up(machine, "too many steps");
    switch (x->kind) {
    case X_INTEGER:
        return is_float(x->type) ? real_value(x->type, (double)x->integer)
                                 : integer_value(x->type, (uint64_t)x->integer);
    case X_REAL: return real_value(x->type, x->real);
    case X_VAR:
        if (x->var->total) give_up(machine, "a read of what a reduction changes");
        return x->var->value;
    case X_ELEMENT: evaluate_subscripts(machine, x, index); return read_element(machine, x->memory, index);
    case X_OP: return evaluate_op(machine, x);
    case X_CONVERT: return convert(x->type, evaluate(machine, x->args[0]));
    case X_BITCAST: return evaluate_bitcast(x->type, evaluate(machine, x->args[0]));
    case X_CALL: return call_function(machine, x);
    case X_ATOMIC: return evaluate_atomic(machine, x);
    }
    abort();
}

// ---- slices: where they start, and how wide they are

typedef struct Region {
    Memory *memory;
    int rank;
    int64_t starts[MAX_RANK], steps[MAX_RANK], shape[MAX_RANK];
    int axes[MAX_RANK];
} Region;

static Region evaluate_slice(Machine *machine, const Slice *slice)
{
    Region r = { .memory = slice->memory };
    for (int i = 0; i < slice->memory->rank; i++) {
        const Subscript *const sub = &slice->subs[i];
        r.starts[i] = sub->kind == WHOLE ? 0 : evaluate_integer(machine, sub->start);
        r.steps[i] = sub->kind == RANGE ? sub->step : 1;
        if (sub->kind == AT) continue;
        r.axes[r.rank] = i;
        r.shape[r.rank++] = sub->kind == WHOLE ? slice->memory->dims[i]
                            : sub->extent      ? evaluate_integer(machine, sub->extent)
                                               : sub->width;
    }
    return r;
}

static int64_t region_size(const Region *r)
{
    int64_t n = 1;
    for (int i = 0; i < r->rank; i++) n *= r->shape[i] > 0 ? r->shape[i] : 0;
    return n;
}

// The index in the memory of the region's element `flat`, in row-major order.
static void region_index(const Region *r, int64_t flat, int64_t *index)
{
    memcpy(index, r->starts, sizeof r->starts);
    for (int i = r->rank; i-- > 0; flat /= r->shape[i]) index[r->axes[i]] += flat % r->shape[i] * r->steps[r->axes[i]];
}

static void same_shapes(Machine *machine, const Region *a, const Region *b)
{
    if (a->rank != b->rank || memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->rank) != 0)
        give_up(machine, "a copy between shapes");
}

static void copy(Machine *machine, const Slice *to, const Slice *from, bool atomic)
{
    const Region dst = evaluate_slice(machine, to), src = evaluate_slice(machine, from);
    const int64_t n = region_size(&dst);
    same_shapes(machine, &dst, &src);
    int64_t index[MAX_RANK];
    Value *const values = malloc(sizeof(Value) * (size_t)(n + 1));
    if (!values) abort();
    for (int64_t i = 0; i < n; i++) {
        region_index(&src, i, index);
        values[i] = read_element(machine, src.memory, index);
    }
    for (int64_t i = 0; i < n; i++) {
        region_index(&dst, i, index);
        if (atomic) add_to_element(machine, dst.memory, index, ADD, values[i], true);
        else write_element(machine, dst.memory, index, values[i]);
    }
    free(values);
}

static void fill(Machine *machine, const Slice *to, const Expr *value)
{
    const Region dst = evaluate_slice(machine, to);
    const Value v = evaluate(machine, value);
    int64_t index[MAX_RANK];
    for (int64_t i = 0, n = region_size(&dst); i < n; i++) {
        region_index(&dst, i, index);
        write_element(machine, dst.memory, index, v);
    }
}

// An inclusive scan along an axis, computed in the wide type and rounded once for each element.
static void scan(Machine *machine, const Statement *st)
{
    const Region dst = evaluate_slice(machine, &st->dst), src = evaluate_slice(machine, &st->src);
    same_shapes(machine, &dst, &src);
    int64_t stride = 1, index[MAX_RANK];
    for (int i = st->axis + 1; i < src.rank; i++) stride *= src.shape[i];
    const int64_t n = region_size(&src), extent = src.shape[st->axis];
    const Type type = common_type(src.memory->type, dst.memory->type);
    for (int64_t first = 0; first < n; first++) {
        if (first / stride % extent != 0) continue;
        Total sum = total_begin(ADD, convert(type, integer_value(I32, 0)));
        for (int64_t i = 0; i < extent; i++) {
            region_index(&src, first + i * stride, index);
            total_add(&sum, convert(type, read_element(machine, src.memory, index)));
            region_index(&dst, first + i * stride, index);
            write_element(machine, dst.memory, index, total_end(&sum, type_info[type].mantissa));
        }
    }
}

static Value operand(Machine *machine, const Region *r, const Statement *st, int which, int64_t row, int64_t column)
{
    int64_t index[MAX_RANK];
    if (st->transposed[which]) region_index(r, column * r->shape[1] + row, index);
    else region_index(r, row * r->shape[1] + column, index);
    return convert(st->as[which], read_element(machine, r->memory, index));
}

static void product(Machine *machine, const Statement *st)
{
    const Region a = evaluate_slice(machine, &st->src), b = evaluate_slice(machine, &st->other),
                 c = evaluate_slice(machine, &st->dst);
    const int64_t inner = a.shape[st->transposed[0] ? 0 : 1];
    const Type type = c.memory->type;
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < c.shape[0]; i++)
        for (int64_t j = 0; j < c.shape[1]; j++) {
            region_index(&c, i * c.shape[1] + j, index);
            Total sum = total_begin(ADD, st->updates ? read_element(machine, c.memory, index)
                                                     : convert(type, integer_value(I32, 0)));
            for (int64_t k = 0; k < inner; k++) {
                const char *undefined;
                const Value pair[2] = { convert(type, operand(machine, &a, st, 0, i, k)),
                                        convert(type, operand(machine, &b, st, 1, k, j)) };
                total_add(&sum, compute(MUL, pair, 2, &undefined));
            }
            // Tensor cores may add up with few bits more than their operands have.
            write_element(machine, c.memory, index, total_end(&sum, type == F32 ? 12 : type_info[type].mantissa));
        }
}

// ---- statements

static Value updated(Machine *machine, const Statement *st, Value old, Value value)
{
    const char *undefined;
    if (!st->updates) return value;
    const Value y = compute(st->op, (Value[]){ old, value }, 2, &undefined);
    if (undefined) give_up(machine, undefined);
    return y;
}

static void set_var(Machine *machine, const Statement *st)
{
    Var *const var = st->var;
    const Value value = evaluate(machine, st->value);
    if (!st->reduces) {
        if (var->total) give_up(machine, "a write to what a reduction changes");
        var->value = convert(var->type, updated(machine, st, var->value, value));
        return;
    }
    if (!var->total) {
        var->total = malloc(sizeof *var->total);
        if (!var->total || machine->n_totals == MAX_TOTALS) abort();
        *var->total = total_begin(st->op, convert(wide_type(var->type), var->value));
        machine->totals[machine->n_totals++] = (Pending){ .var = var };
    }
    if (var->total->op != st->op) give_up(machine, "several operations reduce into one element");
    total_add(var->total, value);
}

static void store(Machine *machine, const Statement *st)
{
    int64_t index[MAX_RANK] = { 0 };
    Memory *const memory = st->target->memory;
    evaluate_subscripts(machine, st->target, index);
    const Value value = evaluate(machine, st->value);
    if (st->reduces || st->kind == S_ATOMIC)
        add_to_element(machine, memory, index, st->op, value, st->kind == S_ATOMIC);
    else
        write_element(machine, memory, index,
                      st->updates ? updated(machine, st, read_element(machine, memory, index), value) : value);
}

static Flow run_loop(Machine *machine, const Statement *st)
{
    const Index *const x = &st->indices[0];
    const int64_t lo = evaluate_integer(machine, x->lo);
    for (int64_t i = lo;; i += x->step) {
        const int64_t hi = evaluate_integer(machine, x->hi);
        if (x->step > 0 ? i >= hi : i < hi) return NEXT;
        x->var->value = integer_value(INT, (uint64_t)i);
        const Flow flow = run(machine, st->body);
        if (flow == BREAK) return NEXT;
        if (flow == RETURN) return RETURN;
    }
}

static Flow run_while(Machine *machine, const Statement *st)
{
    while (evaluate_condition(machine, st->value)) {
        const Flow flow = run(machine, st->body);
        if (flow == BREAK) break;
        if (flow == RETURN) return RETURN;
    }
    return NEXT;
}

// The iterations of a forall, or the steps of a pipeline: the last index is the fastest.
static void run_indices(Machine *machine, const Statement *st, int depth, const int64_t (*ranges)[2])
{
    if (depth == st->n) {
        if (machine->steps++ > MAX_STEPS) give_up(machine, "too many steps");
        if (st->kind == S_FORALL) machine->iteration++;
        run(machine, st->body);
        return;
    }
    for (int64_t i = ranges[depth][0]; i < ranges[depth][1]; i++) {
        st->indices[depth].var->value = integer_value(INT, (uint64_t)i);
        run_indices(machine, st, depth + 1, ranges);
    }
}

// A minimum or maximum that no iteration took part in gives a NaN that was there, or the infinity that it begins with.
static void blur_extremes(const Statement *list)
{
    for (const Statement *st = list; st; st = st->next) {
        if (st->body) blur_extremes(st->body);
        if (st->otherwise) blur_extremes(st->otherwise);
        if (!st->reduces || (st->op != MIN && st->op != MAX)) continue;
        if (st->kind == S_SET) st->var->value.vague |= is_float(st->var->type) && isnan(st->var->value.f);
        if (st->kind != S_STORE) continue;
        const Memory *memory = st->target->memory;
        while (memory->storage == VIEW) memory = memory->window->memory;
        for (int64_t i = 0; i < memory->n && is_float(memory->type); i++)
            memory->cells[i].vague |= isnan(value_of_bits(memory->type, memory->cells[i].bits).f);
    }
}

static void run_nest(Machine *machine, const Statement *st)
{
    int64_t ranges[MAX_RANK][2];
    for (int i = 0; i < st->n; i++) {
        ranges[i][0] = evaluate_integer(machine, st->indices[i].lo);
        ranges[i][1] = evaluate_integer(machine, st->indices[i].hi);
    }
    if (st->kind == S_FORALL) machine->epoch++;
    run_indices(machine, st, 0, (const int64_t(*)[2])ranges);
    if (st->kind == S_FORALL) {
        machine->iteration = NOBODY;
        end_totals(machine);
        blur_extremes(st->body);
    }
}

static void declare_tile(Machine *machine, const Statement *st)
{
    reset_memory(st->dst.memory, false);
    if (st->copies) copy(machine, &st->dst, &st->src, false);
    else if (st->value) fill(machine, &st->dst, st->value);
}

static void declare_view(Machine *machine, const Statement *st)
{
    Memory *const view = st->dst.memory;
    const Region r = evaluate_slice(machine, view->window);
    memcpy(view->starts, r.starts, sizeof r.starts);
    for (int i = 0; view->view == WINDOW && i < r.rank; i++) view->dims[i] = r.shape[i];
}

static Flow run_statement(Machine *machine, Statement *st)
{
    switch (st->kind) {
    case S_BLOCK: return run(machine, st->body);
    case S_LET: st->var->value = convert(st->var->type, evaluate(machine, st->value)); return NEXT;
    case S_SET: set_var(machine, st); return NEXT;
    case S_STORE:
    case S_ATOMIC: store(machine, st); return NEXT;
    case S_IF: return run(machine, evaluate_condition(machine, st->value) ? st->body : st->otherwise);
    case S_FOR: return run_loop(machine, st);
    case S_WHILE: return run_while(machine, st);
    case S_FORALL:
    case S_PIPELINE: run_nest(machine, st); return NEXT;
    case S_STAGE: return NEXT;
    case S_BREAK: return BREAK;
    case S_CONTINUE: return CONTINUE;
    case S_RETURN: machine->returned = convert(machine->returned_type, evaluate(machine, st->value)); return RETURN;
    case S_TILE: declare_tile(machine, st); return NEXT;
    case S_COPY: copy(machine, &st->dst, &st->src, false); return NEXT;
    case S_FILL: fill(machine, &st->dst, st->value); return NEXT;
    case S_SCAN: scan(machine, st); return NEXT;
    case S_PRODUCT: product(machine, st); return NEXT;
    case S_VIEW: declare_view(machine, st); return NEXT;
    case S_ATOMIC_TILE: copy(machine, &st->dst, &st->src, true); return NEXT;
    case S_CALL: evaluate(machine, st->call); return NEXT;
    case S_CHECK:
        if (!evaluate_condition(machine, st->value)) give_up(machine, "a claim that is false");
        return NEXT;
    }
    abort();
}

static Flow run(Machine *machine, Statement *list)
{
    for (Statement *st = list; st; st = st->next) {
        if (st->dropped) continue;
        const Flow flow = run_statement(machine, st);
        if (flow != NEXT) return flow;
    }
    return NEXT;
}

// ---- the launch

// What a program that was given up leaves behind.
static void forget_totals(Machine *machine)
{
    for (int i = 0; i < machine->n_totals; i++) {
        Pending *const p = &machine->totals[i];
        Total **const total = p->cell ? &p->cell->total : &p->var->total;
        free(*total);
        *total = NULL;
    }
    for (int i = 0; i < machine->section->n_tensors; i++)
        for (int64_t k = 0; k < machine->section->tensors[i]->n; k++) {
            free(machine->section->tensors[i]->cells[k].total);
            machine->section->tensors[i]->cells[k].total = NULL;
        }
}

bool evaluate_section(Section *section, const Grid *grid, const char **reason)
{
    Machine *const machine = calloc(1, sizeof *machine);
    if (!machine) abort();
    machine->section = section;
    machine->grid = *grid;
    for (int i = 0; i < section->n_tensors; i++) begin_tensor(section->tensors[i]);
    const bool whole = setjmp(machine->out) == 0;
    if (whole) {
        for (machine->instance = 0; machine->instance < grid->x * grid->y; machine->instance++) {
            machine->iteration = NOBODY;
            section->place->value = integer_value(INT, (uint64_t)machine->instance);
            run(machine, section->body);
        }
        for (int i = 0; i < section->n_tensors; i++) end_tensor(section->tensors[i]);
    } else forget_totals(machine);
    *reason = machine->reason;
    free(machine);
    return whole;
}
