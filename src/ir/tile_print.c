// tile_print.c - Tile IR as text: one line per op, blocks indented, close to the source it came from.
//
// What an op carries beside its meaning follows it in a comment: the warp groups it was placed on, the stage.
#include "ir/names.h"

#include <stdio.h>

const char *const update_names[] = {
    [UPDATE_ADD] = "+", [UPDATE_SUB] = "-", [UPDATE_MUL] = "*", [UPDATE_DIV] = "/", [UPDATE_MOD] = "%",
    [UPDATE_SHL] = "<<", [UPDATE_SHR] = ">>", [UPDATE_MIN] = "min", [UPDATE_MAX] = "max", [UPDATE_OR] = "|",
    [UPDATE_AND] = "&", [UPDATE_XOR] = "^",
};
static const char *const atomic_marks[] = {
    [ATOMIC_ADD] = "+", [ATOMIC_MIN] = "min", [ATOMIC_MAX] = "max", [ATOMIC_AND] = "&", [ATOMIC_OR] = "|",
    [ATOMIC_EXCHANGE] = "exchange", [ATOMIC_CAS] = "cas",
};
static const char *const storage_names[] = {
    [BUFFER_TENSOR] = "tensor", [BUFFER_SHARED] = "shared", [BUFFER_FRAGMENT] = "fragment", [BUFFER_LOCAL] = "local",
    [BUFFER_VIEW] = "view",
};
static const char *const hint_names[] = {
    [HINT_NONE] = "", [HINT_SWIZZLE] = "swizzle", [HINT_PADDED] = "padded", [HINT_ROWS] = "rows", [HINT_COLUMNS] = "columns",
    [HINT_PARTIAL] = "partial", [HINT_TRANSPOSED] = "transposed",
};

typedef struct Printer { Text *out; const Names *names; } Printer;

static void print_expr(const Printer *p, const Expr *x) { expr_print_named(p->out, p->names, x); }

static void print_extents(const Printer *p, const Buffer *b)
{
    for (int d = 0; d < b->rank; d++) {
        text_print(p->out, "[");
        print_expr(p, b->shape[d]);
        text_print(p->out, "]");
    }
}

static bool is_int(const Expr *x, int64_t value)
{
    int64_t c;
    return expr_as_int(x, &c) && c == value;
}

static void print_region(const Printer *p, const Region *r);

// A view is written out where it is used: it has no op of its own.
static void print_buffer(const Printer *p, const Buffer *b)
{
    names_print_buffer(p->out, p->names, b);
    if (b->kind != BUFFER_VIEW) return;
    text_print(p->out, "{view");
    print_extents(p, b);
    text_print(p->out, " %s = ", dtype_name(b->type));
    print_region(p, &b->base);
    text_print(p->out, "}");
}

static void print_region(const Printer *p, const Region *r)
{
    print_buffer(p, r->buffer);
    if (region_is_whole(r)) return;
    for (int d = 0; d < r->buffer->rank; d++) {
        const Sub *const sub = &r->subs[d];
        const bool whole = sub->is_range && is_int(sub->start, 0) && !sub->step &&
                           expr_equal(sub->width, r->buffer->shape[d]);
        text_print(p->out, "[");
        if (whole) text_print(p->out, ":");
        else print_expr(p, sub->start);
        if (sub->is_range && !whole) {
            text_print(p->out, " +: ");
            print_expr(p, sub->width);
            if (sub->step) {
                text_print(p->out, " : ");
                print_expr(p, sub->step);
            }
        }
        text_print(p->out, "]");
    }
}

static void print_element(const Printer *p, const Buffer *b, Expr *const *subs)
{
    print_buffer(p, b);
    for (int d = 0; d < b->rank; d++) {
        text_print(p->out, "[");
        print_expr(p, subs[d]);
        text_print(p->out, "]");
    }
}

static void print_operand(const Printer *p, const Operand *operand)
{
    const bool converted = operand->type != operand->region.buffer->type;
    if (operand->transposed) text_print(p->out, "transpose(");
    if (converted) text_print(p->out, "convert<%s>(", dtype_name(operand->type));
    print_region(p, &operand->region);
    text_print(p->out, "%s%s", converted ? ")" : "", operand->transposed ? ")" : "");
}

static void print_matmul(const Printer *p, const TileOp *op)
{
    print_region(p, &op->matmul.dst);
    text_print(p->out, op->matmul.accumulate ? " += " : " = ");
    if (op->matmul.promote) text_print(p->out, "promote(%d, ", op->matmul.promote);
    if (op->matmul.meta) text_print(p->out, "sparse24(");
    print_operand(p, &op->matmul.a);
    if (op->matmul.meta) {
        text_print(p->out, ", ");
        names_print_buffer(p->out, p->names, op->matmul.meta);
        text_print(p->out, ")");
    }
    text_print(p->out, " @ ");
    print_operand(p, &op->matmul.b);
    text_print(p->out, "%s;", op->matmul.promote ? ")" : "");
}

static void print_indices(const Printer *p, const LoopIndex *indices, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) text_print(p->out, ", ");
        names_print_var(p->out, p->names, indices[i].var);
        text_print(p->out, " : ");
        if (!is_int(indices[i].lo, 0)) {
            print_expr(p, indices[i].lo);
            text_print(p->out, " .. ");
        }
        print_expr(p, indices[i].hi);
    }
}

static void print_args(const Printer *p, Expr *const *args, int n)
{
    for (int i = 0; i < n; i++) {
        text_print(p->out, i ? ", " : "");
        print_expr(p, args[i]);
    }
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
    text_print(p->out, "%s%s %s ", b->cluster_shared ? "cluster " : "", storage_names[b->kind], dtype_name(b->type));
    names_print_buffer(p->out, p->names, b);
    print_extents(p, b);
    text_print(p->out, ";");
    if (b->hint) text_print(p->out, "  // layout %s(%d)", hint_names[b->hint], b->hint_value);
    if (b->buffers > 1) text_print(p->out, "  // %d buffers", b->buffers);
}

// The line of an op, without its bodies.
static void print_head(const Printer *p, const TileOp *op)
{
    Text *const out = p->out;
    switch (op->kind) {
    case T_TILE:
        print_tile(p, op->tile.buffer);
        break;
    case T_LET: case T_SET:
        if (op->kind == T_LET) text_print(out, "%s ", dtype_name(op->let.var->type));
        names_print_var(out, p->names, op->let.var);
        if (op->let.value) {
            text_print(out, " = ");
            print_expr(p, op->let.value);
        }
        text_print(out, ";");
        break;
    case T_STORE:
        print_element(p, op->store.buffer, op->store.subs);
        text_print(out, " = ");
        print_expr(p, op->store.value);
        text_print(out, ";");
        break;
    case T_UPDATE:
        if (op->update.buffer) print_element(p, op->update.buffer, op->update.subs);
        else names_print_var(out, p->names, op->update.var);
        text_print(out, " %s= ", update_names[op->update.op]);
        print_expr(p, op->update.value);
        text_print(out, op->update.reduces ? ";  // reduction" : ";");
        break;
    case T_ATOMIC:
        text_print(out, "atomic ");
        print_element(p, op->atomic.buffer, op->atomic.subs);
        text_print(out, " %s= ", atomic_marks[op->atomic.op]);
        print_expr(p, op->atomic.value);
        text_print(out, ";");
        break;
    case T_ATOMIC_TILE: case T_COPY:
        if (op->kind == T_ATOMIC_TILE) text_print(out, "atomic ");
        print_region(p, &op->copy.dst);
        text_print(out, op->kind == T_ATOMIC_TILE ? " += " : " = ");
        print_region(p, &op->copy.src);
        text_print(out, ";");
        break;
    case T_FILL:
        print_region(p, &op->fill.dst);
        text_print(out, " = ");
        print_expr(p, op->fill.value);
        text_print(out, ";");
        break;
    case T_MATMUL:
        print_matmul(p, op);
        break;
    case T_SCAN:
        text_print(out, "cumsum(");
        print_region(p, &op->scan.dst);
        text_print(out, ", ");
        print_region(p, &op->scan.src);
        text_print(out, ", %d);", op->scan.axis);
        break;
    case T_FORALL: case T_PIPELINE:
        text_print(out, op->kind == T_FORALL ? "forall (" : "pipeline (");
        print_indices(p, op->forall.indices, op->forall.n);
        if (op->kind == T_PIPELINE) text_print(out, "; stages = %d", op->pipeline.stages);
        text_print(out, ")");
        break;
    case T_FOR:
        text_print(out, "for (");
        names_print_var(out, p->names, op->for_.var);
        text_print(out, " : ");
        print_expr(p, op->for_.lo);
        text_print(out, " .. ");
        print_expr(p, op->for_.hi);
        if (!is_int(op->for_.step, 1)) {
            text_print(out, " step ");
            print_expr(p, op->for_.step);
        }
        text_print(out, ")");
        break;
    case T_WHILE: case T_IF:
        text_print(out, op->kind == T_IF ? "if (" : "while (");
        print_expr(p, op->kind == T_IF ? op->branch.cond : op->while_.cond);
        text_print(out, ")");
        break;
    case T_BREAK:    text_print(out, "break;"); break;
    case T_CONTINUE: text_print(out, "continue;"); break;
    case T_RETURN:   text_print(out, "return;"); break;
    case T_PRINT:
        text_print(out, "print(");
        print_quoted(p, op->print.format);
        for (int i = 0; i < op->print.n; i++) {
            text_print(out, ", ");
            print_expr(p, op->print.args[i]);
        }
        text_print(out, ");");
        break;
    case T_ASSERT:
        text_print(out, op->assertion.assume ? "assume(" : "assert(");
        print_expr(p, op->assertion.cond);
        if (op->assertion.message) {
            text_print(out, ", ");
            print_quoted(p, op->assertion.message);
        }
        text_print(out, ");");
        break;
    case T_EXTERN:
        text_print(out, "%s(", op->external.name);
        print_args(p, op->external.args, op->external.n);
        text_print(out, ");");
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
    for (int i = 0; i < k->n_grid; i++)
        if (k->grid[i].cluster > 1) text_print(p->out, " cluster(%s = %d)", k->grid[i].var->name, k->grid[i].cluster);
}

static void print_grid(const Printer *p, const TileKernel *k)
{
    text_print(p->out, "    grid (");
    for (int i = 0; i < k->n_grid; i++) {
        text_print(p->out, i ? ", " : "");
        names_print_var(p->out, p->names, k->grid[i].var);
        text_print(p->out, " : ");
        print_expr(p, k->grid[i].extent);
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
        text_print(p->out, "    // extent %d of %s must be ", k->checks[i].dim, k->params[k->checks[i].param].name);
        print_expr(p, k->checks[i].expected);
        text_print(p->out, "\n");
    }
    for (int i = 0; i < k->n_requires; i++) {
        text_print(p->out, "    require(");
        print_expr(p, k->requires[i].cond);
        text_print(p->out, ");\n");
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
