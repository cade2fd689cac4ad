// SPDX-License-Identifier: MIT
// print.c - the text of a kernel. Operands stand in parentheses; a literal whose type its neighbour would change is
// converted to it.
#include "program.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void print_expr(Writer *out, const Expr *x);

static const char *const storage_text[] = {
    [TENSOR_IN] = "in ",  [TENSOR_OUT] = "out ",    [TENSOR_INOUT] = "inout ",
    [SHARED] = "shared ", [FRAGMENT] = "fragment ", [LOCAL] = "local ",
};

static void print_subscripts(Writer *out, const Expr *x)
{
    for (int i = 0; i < x->memory->rank; i++) {
        write_text(out, "[");
        print_expr(out, x->args[i]);
        write_text(out, "]");
    }
}

static void print_list(Writer *out, Expr *const *args, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) write_text(out, ", ");
        print_expr(out, args[i]);
    }
}

static void print_op(Writer *out, const Expr *x)
{
    const OpInfo *const op = &op_info[x->op];
    if (op->style == CALLED) {
        write_text(out, "%s(", op->text);
        print_list(out, x->args, x->n);
        write_text(out, ")");
        return;
    }
    write_text(out, "(");
    if (op->style == PREFIX) write_text(out, "%s", op->text);
    print_expr(out, x->args[0]);
    if (op->style == INFIX) {
        write_text(out, " %s ", op->text);
        print_expr(out, x->args[1]);
    }
    if (op->style == CONDITIONAL) {
        write_text(out, " ? ");
        print_expr(out, x->args[1]);
        write_text(out, " : ");
        print_expr(out, x->args[2]);
    }
    write_text(out, ")");
}

static void print_literal(Writer *out, const Expr *x)
{
    if (!x->bare && x->type != BOOL) write_text(out, "convert<%s>(", type_info[x->type].name);
    if (x->kind == X_REAL && isnan(x->real)) write_text(out, "NAN");
    else if (x->kind == X_REAL && isinf(x->real)) write_text(out, "%sINFINITY", x->real < 0 ? "-" : "");
    else if (x->kind == X_REAL)
        write_text(out, floor(x->real) == x->real && fabs(x->real) < 1e15 ? "%.1f" : "%.17g", x->real);
    else if (x->type == BOOL) write_text(out, x->integer ? "true" : "false");
    else if (x->integer == INT64_MIN) write_text(out, "-9223372036854775807 - 1");
    else if (x->integer < 0 && x->type == U64) write_text(out, "%" PRIu64, (uint64_t)x->integer);
    else if (x->integer < 0 && x->bare) write_text(out, "(%" PRId64 ")", x->integer);
    else write_text(out, "%" PRId64, x->integer);
    if (!x->bare && x->type != BOOL) write_text(out, ")");
}

static const char *atomic_name(const Expr *x)
{
    return x->integer == 'x'   ? "exchange"
           : x->integer == 'c' ? "cas"
           : x->op == ADD      ? "add"
           : x->op == MIN      ? "min"
           : x->op == MAX      ? "max"
           : x->op == AND      ? "and"
                               : "or";
}

static void print_expr(Writer *out, const Expr *x)
{
    switch (x->kind) {
    case X_INTEGER:
    case X_REAL: print_literal(out, x); return;
    case X_VAR: write_text(out, "%s", x->var->name); return;
    case X_ELEMENT:
        write_text(out, "%s", x->memory->name);
        print_subscripts(out, x);
        return;
    case X_OP: print_op(out, x); return;
    case X_CONVERT:
    case X_BITCAST:
        write_text(out, "%s<%s>(", x->kind == X_CONVERT ? "convert" : "bitcast", type_info[x->type].name);
        print_expr(out, x->args[0]);
        write_text(out, ")");
        return;
    case X_CALL:
        write_text(out, "%s(", x->function->name);
        print_list(out, x->args, x->n);
        write_text(out, ")");
        return;
    case X_ATOMIC:
        write_text(out, "atomic_%s(%s", atomic_name(x), x->memory->name);
        print_subscripts(out, x->args[0]);
        write_text(out, ", ");
        print_list(out, x->args + 1, x->n - 1);
        write_text(out, ")");
        return;
    }
}

static void print_slice(Writer *out, const Slice *slice)
{
    int written = slice->memory->rank;
    while (written > 0 && slice->subs[written - 1].kind == WHOLE) written--;
    write_text(out, "%s", slice->memory->name);
    for (int i = 0; i < written; i++) {
        const Subscript *const sub = &slice->subs[i];
        write_text(out, "[");
        if (sub->kind == WHOLE) write_text(out, ":");
        else print_expr(out, sub->start);
        if (sub->kind == RANGE) write_text(out, " +: ");
        if (sub->kind == RANGE && sub->extent) print_expr(out, sub->extent);
        else if (sub->kind == RANGE) write_text(out, "%" PRId64, sub->width);
        if (sub->kind == RANGE && sub->step != 1) write_text(out, " : %" PRId64, sub->step);
        write_text(out, "]");
    }
}

// ---- statements

static void print_statements(Writer *out, const Statement *list, int depth);

static void print_extents(Writer *out, const Memory *memory)
{
    for (int i = 0; i < memory->rank; i++)
        if (memory->extents[i][0]) write_text(out, "[%s]", memory->extents[i]);
        else write_text(out, "[%" PRId64 "]", memory->dims[i]);
}

static void print_assignment(Writer *out, const Statement *st)
{
    const char *const text = st->updates || st->reduces || st->kind == S_ATOMIC ? op_info[st->op].text : "";
    if (st->kind == S_ATOMIC) write_text(out, "atomic ");
    if (st->kind == S_SET) write_text(out, "%s", st->var->name);
    else print_expr(out, st->target);
    write_text(out, " %s= ", text);
    print_expr(out, st->value);
    write_text(out, ";\n");
}

static void print_indices(Writer *out, const Statement *st)
{
    for (int i = 0; i < st->n; i++) {
        write_text(out, "%s%s : ", i ? ", " : "", st->indices[i].var->name);
        if (st->indices[i].lo->kind != X_INTEGER || st->indices[i].lo->integer != 0) {
            print_expr(out, st->indices[i].lo);
            write_text(out, " .. ");
        }
        print_expr(out, st->indices[i].hi);
    }
}

static void print_block(Writer *out, const Statement *list, int depth)
{
    write_text(out, " {\n");
    print_statements(out, list, depth + 1);
    write_text(out, "%*s}\n", 4 * depth, "");
}

static void print_for(Writer *out, const Statement *st, int depth)
{
    const Index *const x = &st->indices[0];
    write_text(out, "%sfor (int %s = ", st->unrolled ? "unroll " : "", x->var->name);
    print_expr(out, x->lo);
    write_text(out, "; %s %s ", x->var->name, x->step > 0 ? "<" : ">=");
    print_expr(out, x->hi);
    if (x->step == 1) write_text(out, "; %s++)", x->var->name);
    else
        write_text(out, "; %s %s= %" PRId64 ")", x->var->name, x->step > 0 ? "+" : "-",
                   x->step > 0 ? x->step : -x->step);
    print_block(out, st->body, depth);
}

static void print_operand(Writer *out, const Statement *st, int which)
{
    const Slice *const slice = which ? &st->other : &st->src;
    const bool converted = st->as[which] != slice->memory->type;
    if (converted) write_text(out, "convert<%s>(", type_info[st->as[which]].name);
    if (st->transposed[which]) write_text(out, "transpose(");
    print_slice(out, slice);
    write_text(out, "%s%s", st->transposed[which] ? ")" : "", converted ? ")" : "");
}

static void print_tile(Writer *out, const Statement *st)
{
    const Memory *const tile = st->dst.memory;
    write_text(out, "%s%s%s %s", st->constant ? "cluster " : "", storage_text[tile->storage],
               type_info[tile->type].name, tile->name);
    print_extents(out, tile);
    if (st->copies || st->value) write_text(out, " = ");
    if (st->copies) print_slice(out, &st->src);
    else if (st->value) print_expr(out, st->value);
    write_text(out, ";\n");
}

static void print_view(Writer *out, const Memory *view)
{
    write_text(out, "view ");
    if (view->view == RETYPED) write_text(out, "%s ", type_info[view->type].name);
    write_text(out, "%s", view->name);
    if (view->view != WINDOW) print_extents(out, view);
    write_text(out, " = ");
    print_slice(out, view->window);
    write_text(out, ";\n");
}

static void print_if(Writer *out, const Statement *st, int depth)
{
    write_text(out, "if (");
    print_expr(out, st->value);
    write_text(out, ")");
    print_block(out, st->body, depth);
    if (!st->otherwise) return;
    write_text(out, "%*selse", 4 * depth, "");
    print_block(out, st->otherwise, depth);
}

static void print_statement(Writer *out, const Statement *st, int depth)
{
    if (st->kind != S_STAGE) write_text(out, "%*s", 4 * depth, "");
    switch (st->kind) {
    case S_BLOCK: print_block(out, st->body, depth); return;
    case S_LET:
        write_text(out, "%s%s %s = ", st->constant ? "const " : "", type_info[st->var->type].name, st->var->name);
        print_expr(out, st->value);
        write_text(out, ";\n");
        return;
    case S_SET:
    case S_STORE:
    case S_ATOMIC: print_assignment(out, st); return;
    case S_IF: print_if(out, st, depth); return;
    case S_FOR: print_for(out, st, depth); return;
    case S_WHILE:
        write_text(out, "while (");
        print_expr(out, st->value);
        write_text(out, ")");
        print_block(out, st->body, depth);
        return;
    case S_FORALL:
    case S_PIPELINE:
        write_text(out, st->kind == S_FORALL ? "forall (" : "pipeline (");
        print_indices(out, st);
        if (st->kind == S_PIPELINE && st->stages) write_text(out, "; stages = %d", st->stages);
        write_text(out, ")");
        print_block(out, st->body, depth);
        return;
    case S_STAGE: write_text(out, "%*sstage %d:\n", 4 * (depth - 1), "", st->stages); return;
    case S_BREAK: write_text(out, "break;\n"); return;
    case S_CONTINUE: write_text(out, "continue;\n"); return;
    case S_RETURN:
        write_text(out, "return ");
        print_expr(out, st->value);
        write_text(out, ";\n");
        return;
    case S_TILE: print_tile(out, st); return;
    case S_COPY:
    case S_ATOMIC_TILE:
        if (st->kind == S_ATOMIC_TILE) write_text(out, "atomic ");
        print_slice(out, &st->dst);
        write_text(out, st->kind == S_ATOMIC_TILE ? " += " : " = ");
        print_slice(out, &st->src);
        write_text(out, ";\n");
        return;
    case S_FILL:
        print_slice(out, &st->dst);
        write_text(out, " = ");
        print_expr(out, st->value);
        write_text(out, ";\n");
        return;
    case S_SCAN:
        write_text(out, "cumsum(");
        print_slice(out, &st->dst);
        write_text(out, ", ");
        print_slice(out, &st->src);
        write_text(out, ", %d);\n", st->axis);
        return;
    case S_PRODUCT:
        print_slice(out, &st->dst);
        write_text(out, st->updates ? " += " : " = ");
        print_operand(out, st, 0);
        write_text(out, " @ ");
        print_operand(out, st, 1);
        write_text(out, ";\n");
        return;
    case S_VIEW: print_view(out, st->dst.memory); return;
    case S_CALL:
        print_expr(out, st->call);
        write_text(out, ";\n");
        return;
    case S_CHECK:
        write_text(out, "assert(");
        print_expr(out, st->value);
        write_text(out, ", \"claim\");\n");
        return;
    }
}

static void print_statements(Writer *out, const Statement *list, int depth)
{
    for (const Statement *st = list; st; st = st->next)
        if (!st->dropped) print_statement(out, st, depth);
}

// ---- functions, parameters, the kernel

static void print_function(Writer *out, const Function *f)
{
    write_text(out, "fn %s %s(", type_info[f->type].name, f->name);
    for (int i = 0; i < f->n; i++)
        write_text(out, "%s%s %s", i ? ", " : "", type_info[f->params[i]->type].name, f->params[i]->name);
    write_text(out, ")");
    print_block(out, f->body, 0);
}

static void print_parameters(Writer *out, const Section *section, bool first)
{
    for (int i = 0; i < section->n_tensors; i++) {
        const Memory *const t = section->tensors[i];
        write_text(out, "%s\n    %s%s%s %s", first && i == 0 ? "" : ",", storage_text[t->storage],
                   t->strided ? "strided " : "", type_info[t->type].name, t->name);
        print_extents(out, t);
    }
    for (int i = 0; i < section->n_scalars; i++)
        write_text(out, ", %s %s", type_info[section->scalars[i]->type].name, section->scalars[i]->name);
}

static void print_grid(Writer *out, const Grid *grid)
{
    write_text(out, "    grid (x : %d, y : %d)", grid->x, grid->y);
    if (grid->warps) write_text(out, " warps(%d)", grid->warps);
    if (grid->cluster > 1) write_text(out, " cluster(x = %d)", grid->cluster);
    if (grid->occupancy) write_text(out, " occupancy(%d)", grid->occupancy);
    if (grid->rasterize) write_text(out, " rasterize(%d)", grid->rasterize);
    if (grid->persistent) write_text(out, " persistent");
    write_text(out, ";\n");
}

void print_kernel(Writer *out, Section *const *sections, int n, const Grid *grid)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < sections[i]->n_functions; k++) print_function(out, sections[i]->functions[k]);
    write_text(out, "kernel generated(");
    for (int i = 0; i < n; i++) print_parameters(out, sections[i], i == 0);
    write_text(out, ")\n{\n");
    print_grid(out, grid);
    for (int i = 0; i < n; i++) {
        write_text(out, "    // section %d\n    int %s = y*%d + x;\n", sections[i]->number, sections[i]->place->name,
                   grid->x);
        if (grid->blocks) print_block(out, sections[i]->body, 1);
        else print_statements(out, sections[i]->body, 1);
    }
    write_text(out, "}\n");
}
