// SPDX-License-Identifier: MIT
// tile_print.c - Tile IR as text: one line per op, blocks indented, close to the source it came from.
//
// What an op carries beside its meaning follows it in a comment: the warp groups it was placed on, the stage.
#include "ir/names.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

// clang-format off
const char *const update_names[] = {
    [UPDATE_ADD] = "+", [UPDATE_SUB] = "-", [UPDATE_MUL] = "*", [UPDATE_DIV] = "/", [UPDATE_MOD] = "%",
    [UPDATE_SHL] = "<<", [UPDATE_SHR] = ">>", [UPDATE_MIN] = "min", [UPDATE_MAX] = "max", [UPDATE_OR] = "|",
    [UPDATE_AND] = "&", [UPDATE_XOR] = "^",
};
// clang-format on
static const char *const atomic_marks[] = {
    [ATOMIC_ADD] = "+", [ATOMIC_MIN] = "min",           [ATOMIC_MAX] = "max", [ATOMIC_AND] = "&",
    [ATOMIC_OR] = "|",  [ATOMIC_EXCHANGE] = "exchange", [ATOMIC_CAS] = "cas",
};
static const char *const storage_names[] = {
    [BUFFER_TENSOR] = "tensor", [BUFFER_SHARED] = "shared", [BUFFER_FRAGMENT] = "fragment",
    [BUFFER_LOCAL] = "local",   [BUFFER_VIEW] = "view",
};
static const char *const hint_names[] = {
    [HINT_NONE] = "",           [HINT_SWIZZLE] = "swizzle", [HINT_PADDED] = "padded",         [HINT_ROWS] = "rows",
    [HINT_COLUMNS] = "columns", [HINT_PARTIAL] = "partial", [HINT_TRANSPOSED] = "transposed",
};

typedef struct Printer {
    Text *out;
    const Names *names;
} Printer;

static void print_region(const Printer *p, const Region *r);
static void print_operand(const Printer *p, const Operand *operand);

// %e an expression, %v a variable, %b a buffer, %r a region, %o an operand, %s text, %d an int; all else stands for itself.
static void say(const Printer *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (; *format; format++) {
        if (*format != '%') {
            text_add(p->out, format, 1);
            continue;
        }
        switch (*++format) {
        case 'e': expr_print_named(p->out, p->names, va_arg(args, const Expr *)); break;
        case 'v': names_print_var(p->out, p->names, va_arg(args, const Var *)); break;
        case 'b': names_print_buffer(p->out, p->names, va_arg(args, const Buffer *)); break;
        case 'r': print_region(p, va_arg(args, const Region *)); break;
        case 'o': print_operand(p, va_arg(args, const Operand *)); break;
        case 's': text_print(p->out, "%s", va_arg(args, const char *)); break;
        case 'd': text_print(p->out, "%d", va_arg(args, int)); break;
        default: assert(!"one of these"); break;
        }
    }
    va_end(args);
}

static void print_extents(const Printer *p, const Buffer *b)
{
    for (int d = 0; d < b->rank; d++) say(p, "[%e]", b->shape[d]);
}

// A view is written out where it is used: it has no op of its own.
static void print_buffer(const Printer *p, const Buffer *b)
{
    say(p, "%b", b);
    if (b->kind != BUFFER_VIEW) return;
    say(p, "{view");
    print_extents(p, b);
    say(p, " %s = %r}", dtype_name(b->type), &b->base);
}

static void print_region(const Printer *p, const Region *r)
{
    print_buffer(p, r->buffer);
    if (region_is_whole(r)) return;
    for (int d = 0; d < r->buffer->rank; d++) {
        const Sub *const sub = &r->subs[d];
        if (!sub->is_range) say(p, "[%e]", sub->start);
        else if (sub->step) say(p, "[%e +: %e : %e]", sub->start, sub->width, sub->step);
        else if (expr_is_int(sub->start, 0) && expr_equal(sub->width, r->buffer->shape[d])) say(p, "[:]");
        else say(p, "[%e +: %e]", sub->start, sub->width);
    }
}

static void print_element(const Printer *p, const Buffer *b, Expr *const *subs)
{
    print_buffer(p, b);
    for (int d = 0; d < b->rank; d++) say(p, "[%e]", subs[d]);
}

static void print_operand(const Printer *p, const Operand *operand)
{
    const bool converted = operand->type != operand->region.buffer->type;
    if (operand->transposed) say(p, "transpose(");
    if (converted) say(p, "convert<%s>(", dtype_name(operand->type));
    say(p, "%r%s%s", &operand->region, converted ? ")" : "", operand->transposed ? ")" : "");
}

static void print_matmul(const Printer *p, const TileOp *op)
{
    say(p, "%r %s ", &op->matmul.dst, op->matmul.accumulate ? "+=" : "=");
    if (op->matmul.promote) say(p, "promote(%d, ", op->matmul.promote);
    if (op->matmul.in_three) say(p, "tf32x3(");
    if (op->matmul.meta) say(p, "sparse24(%o, %b)", &op->matmul.a, op->matmul.meta);
    else say(p, "%o", &op->matmul.a);
    say(p, " @ %o%s;", &op->matmul.b, op->matmul.promote || op->matmul.in_three ? ")" : "");
}

static void print_indices(const Printer *p, const LoopIndex *indices, int n)
{
    for (int i = 0; i < n; i++) {
        say(p, "%s%v : ", i ? ", " : "", indices[i].var);
        if (!expr_is_int(indices[i].lo, 0)) say(p, "%e .. ", indices[i].lo);
        say(p, "%e", indices[i].hi);
    }
}

static void print_args(const Printer *p, Expr *const *args, int n)
{
    for (int i = 0; i < n; i++) say(p, "%s%e", i ? ", " : "", args[i]);
}

// A format or message as a literal.
static void print_quoted(const Printer *p, const char *text)
{
    text_print(p->out, "\"");
    for (; *text; text++) {
        if (*text == '\n') text_print(p->out, "\\n");
        else if (*text == '"' || *text == '\\') text_print(p->out, "\\%c", *text);
        else text_print(p->out, "%c", *text);
    }
    text_print(p->out, "\"");
}

static void print_tile(const Printer *p, const Buffer *b)
{
    say(p, "%s%s %s %b", b->cluster_shared ? "cluster " : "", storage_names[b->kind], dtype_name(b->type), b);
    print_extents(p, b);
    say(p, ";");
    if (b->hint) say(p, "  // layout %s(%d)", hint_names[b->hint], b->hint_value);
    if (b->buffers > 1) say(p, "  // %d buffers", b->buffers);
}

static void print_scalar(const Printer *p, const TileOp *op)
{
    if (op->kind == T_LET) say(p, "%s ", dtype_name(op->let.var->type));
    say(p, "%v", op->let.var);
    if (op->let.value) say(p, " = %e", op->let.value);
    say(p, ";");
}

static void print_update(const Printer *p, const TileOp *op)
{
    if (op->update.buffer) print_element(p, op->update.buffer, op->update.subs);
    else say(p, "%v", op->update.var);
    say(p, " %s= %e;%s", update_names[op->update.op], op->update.value, op->update.reduces ? "  // reduction" : "");
}

static void print_loop(const Printer *p, const TileOp *op)
{
    say(p, op->kind == T_FORALL ? "forall (" : "pipeline (");
    print_indices(p, op->forall.indices, op->forall.n);
    if (op->kind == T_PIPELINE) say(p, "; stages = %d", op->pipeline.stages);
    say(p, ")");
}

static void print_counted(const Printer *p, const TileOp *op)
{
    say(p, "for (%v : %e .. %e", op->for_.var, op->for_.lo, op->for_.hi);
    if (!expr_is_int(op->for_.step, 1)) say(p, " step %e", op->for_.step);
    say(p, ")");
}

static void print_print(const Printer *p, const TileOp *op)
{
    say(p, "print(");
    print_quoted(p, op->print.format);
    for (int i = 0; i < op->print.n; i++) say(p, ", %e", op->print.args[i]);
    say(p, ");");
}

static void print_assertion(const Printer *p, const TileOp *op)
{
    say(p, "%s(%e", op->assertion.assume ? "assume" : "assert", op->assertion.cond);
    if (op->assertion.message) {
        say(p, ", ");
        print_quoted(p, op->assertion.message);
    }
    say(p, ");");
}

// The line of an op, without its bodies.
static void print_head(const Printer *p, const TileOp *op)
{
    switch (op->kind) {
    case T_TILE: print_tile(p, op->tile.buffer); break;
    case T_LET:
    case T_SET: print_scalar(p, op); break;
    case T_STORE:
        print_element(p, op->store.buffer, op->store.subs);
        say(p, " = %e;", op->store.value);
        break;
    case T_UPDATE: print_update(p, op); break;
    case T_ATOMIC:
        say(p, "atomic ");
        print_element(p, op->atomic.buffer, op->atomic.subs);
        say(p, " %s= %e;", atomic_marks[op->atomic.op], op->atomic.value);
        break;
    case T_ATOMIC_TILE: say(p, "atomic %r += %r;", &op->copy.dst, &op->copy.src); break;
    case T_COPY: say(p, "%r = %r;", &op->copy.dst, &op->copy.src); break;
    case T_FILL: say(p, "%r = %e;", &op->fill.dst, op->fill.value); break;
    case T_MATMUL: print_matmul(p, op); break;
    case T_SCAN: say(p, "cumsum(%r, %r, %d);", &op->scan.dst, &op->scan.src, op->scan.axis); break;
    case T_FORALL:
    case T_PIPELINE: print_loop(p, op); break;
    case T_FOR: print_counted(p, op); break;
    case T_WHILE: say(p, "while (%e)", op->while_.cond); break;
    case T_IF: say(p, "if (%e)", op->branch.cond); break;
    case T_BREAK: say(p, "break;"); break;
    case T_CONTINUE: say(p, "continue;"); break;
    case T_RETURN: say(p, "return;"); break;
    case T_PRINT: print_print(p, op); break;
    case T_ASSERT: print_assertion(p, op); break;
    case T_EXTERN:
        say(p, "%s(", op->external.name);
        print_args(p, op->external.args, op->external.n);
        say(p, ");");
        break;
    }
}

static void print_placement(const Printer *p, const TileOp *op)
{
    if (op->groups) {
        text_print(p->out, "  // on (");
        const char *comma = "";
        for (int g = 0; g < 32; g++) {
            if (!(op->groups >> g & 1)) continue;
            text_print(p->out, "%s%d", comma, g);
            comma = ", ";
        }
        text_print(p->out, ")");
    }
    if (op->stage) text_print(p->out, "  // stage %d", op->stage);
    if (op->kind == T_PIPELINE && op->pipeline.n_stage_labels)
        text_print(p->out, "  // %d stage labels", op->pipeline.n_stage_labels);
}

static void print_block(const Printer *p, const TileOp *op, int depth);

static void print_braces(const Printer *p, const TileOp *body, int depth)
{
    print_block(p, body, depth + 1);
    text_indent(p->out, depth);
    text_print(p->out, "}");
}

static void print_op(const Printer *p, const TileOp *op, int depth)
{
    text_indent(p->out, depth);
    print_head(p, op);
    TileOp **const first = tile_bodies((TileOp *)op, 0), **const second = tile_bodies((TileOp *)op, 1);
    if (first) text_print(p->out, " {");
    print_placement(p, op);
    text_print(p->out, "\n");
    if (!first) return;
    print_braces(p, *first, depth);
    if (second && *second) {
        text_print(p->out, op->kind == T_IF ? " else {\n" : " step {\n");
        print_braces(p, *second, depth);
    }
    text_print(p->out, "\n");
}

static void print_block(const Printer *p, const TileOp *op, int depth)
{
    for (; op; op = op->next) print_op(p, op, depth);
}

void tile_print_head(Text *out, const Names *names, const TileOp *op) { print_head(&(Printer){ out, names }, op); }
void tile_print_region(Text *out, const Names *names, const Region *r) { print_region(&(Printer){ out, names }, r); }
void tile_print_op(Text *out, const TileOp *op) { print_op(&(Printer){ out, NULL }, op, 0); }

static void print_param(const Printer *p, const TileParam *param)
{
    static const char *const modes[] = { "", "in", "out", "inout" };
    if (!param->is_tensor) {
        text_print(p->out, "%s %s", dtype_name(param->scalar->type), param->name);
        return;
    }
    const Buffer *const b = param->tensor;
    text_print(p->out, "%s%s %s%s ", b->optional ? "optional " : "", modes[b->access & 3], b->strided ? "strided " : "",
               dtype_name(b->type));
    text_print(p->out, "%s", param->name);
    print_extents(p, b);
    if (param->absent) text_print(p->out, " = none");
}

static void print_hints(const Printer *p, const TileKernel *k)
{
    if (k->warps) text_print(p->out, " warps(%d)", k->warps);
    if (k->occupancy) text_print(p->out, " occupancy(%d)", k->occupancy);
    if (k->rasterize) text_print(p->out, " rasterize(%d)", k->rasterize);
    if (k->persistent) text_print(p->out, " persistent");
    if (k->early) text_print(p->out, " early");
    for (int i = 0; i < k->n_grid; i++)
        if (k->grid[i].cluster > 1) text_print(p->out, " cluster(%s = %d)", k->grid[i].var->name, k->grid[i].cluster);
}

static void print_grid(const Printer *p, const TileKernel *k)
{
    text_print(p->out, "    grid (");
    for (int i = 0; i < k->n_grid; i++) {
        say(p, "%s%v : %e", i ? ", " : "", k->grid[i].var, k->grid[i].extent);
    }
    text_print(p->out, ")");
    print_hints(p, k);
    text_print(p->out, ";\n");
}

static void print_contract(const Printer *p, const TileKernel *k)
{
    for (int i = 0; i < k->n_binds; i++) {
        const TileBind *const bind = &k->binds[i];
        text_print(p->out, "    // %s = %s %d of %s", bind->symbol->name, bind->is_stride ? "stride" : "extent",
                   bind->dim, k->params[bind->param].name);
        if (bind->subtract) text_print(p->out, " - %lld", (long long)bind->subtract);
        if (bind->symbol->multiple > 1) text_print(p->out, ", a multiple of %lld", (long long)bind->symbol->multiple);
        text_print(p->out, "\n");
    }
    for (int i = 0; i < k->n_checks; i++) {
        say(p, "    // extent %d of %s must be %e\n", k->checks[i].dim, k->params[k->checks[i].param].name,
            k->checks[i].expected);
    }
    for (int i = 0; i < k->n_requires; i++) {
        say(p, "    require(%e);\n", k->requires[i].cond);
    }
}

void tile_print(Text *out, const TileKernel *kernel)
{
    const Printer p = { out, names_of_kernel(kernel->arena, kernel) };
    text_print(out, "kernel %s(", kernel->key ? kernel->key : kernel->name);
    for (int i = 0; i < kernel->n_params; i++) {
        if (i) text_print(out, ", ");
        print_param(&p, &kernel->params[i]);
    }
    text_print(out, ") {\n");
    print_contract(&p, kernel);
    print_grid(&p, kernel);
    print_block(&p, kernel->body, 1);
    text_print(out, "}\n");
}
