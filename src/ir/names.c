// SPDX-License-Identifier: MIT
// names.c - which names repeat in a kernel or a unit.
#include "ir/names.h"
#include "base/intern.h"

#include <stdlib.h>

// Things are told apart by address: a lowered unit may hold variables of the kernel beside its own.
typedef struct NameEntry {
    const char *name;
    const void *thing;
    int order, number;
} NameEntry;

struct Names {
    Arena *arena;
    VEC(NameEntry) entries; // a thing each; sorted by name, then by appearance, once closed
    int *slots, n_slots;    // open addressing by thing: 1 + its entry; a power of two, at least twice the entries
};

static const char *name_or_t(const char *name) { return name ? name : "t"; } // made by a pass that had no better word

// The slot of the thing, or the empty one where it belongs.
static int *slot_of(const Names *names, const void *thing)
{
    size_t at = (size_t)((uintptr_t)thing * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    for (;; at++) {
        int *const slot = &names->slots[at & (size_t)(names->n_slots - 1)];
        if (*slot == 0 || names->entries.items[*slot - 1].thing == thing) return slot;
    }
}

static void fill_slots(Names *names, int n_slots)
{
    names->n_slots = n_slots;
    names->slots = NEW_ARRAY(names->arena, int, n_slots);
    for (int i = 0; i < names->entries.count; i++) *slot_of(names, names->entries.items[i].thing) = i + 1;
}

static void add_entry(Names *names, NameEntry entry)
{
    if (2 * (names->entries.count + 1) > names->n_slots) fill_slots(names, names->n_slots ? 2 * names->n_slots : 256);
    int *const slot = slot_of(names, entry.thing);
    if (*slot) return;
    VEC_PUSH(names->arena, &names->entries, entry);
    *slot = names->entries.count;
}

static void add_name(Names *names, const char *name, const void *thing)
{
    add_entry(names, (NameEntry){ name_or_t(name), thing, names->entries.count, 0 });
}

static void add_var(Names *names, const Var *v)
{
    if (v) add_name(names, v->name, v);
}
static void add_buffer(Names *names, const Buffer *b)
{
    if (b) add_name(names, b->name, b);
}

// What is called keeps its name; a variable whose name in C would be that gets a number.
static void add_called(Names *names, const char *name)
{
    const size_t prefix = strlen(LOOP_VAR_PREFIX);
    if (strncmp(name, LOOP_VAR_PREFIX, prefix) != 0) return;
    const char *const one = intern_text(names->arena, name + prefix);
    add_entry(names, (NameEntry){ one, one, -1, 0 });
}

static bool add_names_of(const Expr *x, void *context)
{
    if (x->kind == E_VAR) add_var(context, x->var.var);
    if (x->kind == E_LOAD) add_buffer(context, x->load.buffer);
    if (x->kind == E_ATOMIC) add_buffer(context, x->atomic.buffer);
    if (x->kind == E_INDEX || x->kind == E_ADDRESS) add_var(context, x->index.pointer);
    if (x->kind == E_CALL) add_called(context, x->call.name);
    return false;
}

static void add_expr(Names *names, const Expr *x)
{
    if (x) expr_any(x, add_names_of, names);
}

static void add_slot(Expr **slot, void *context) { add_expr(context, *slot); }

static void add_use(const TileUse *use, void *context)
{
    add_buffer(context, use->buffer);
    buffer_each_expr(use->buffer, add_slot, context);
}

static void add_block(Names *names, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_TILE) add_buffer(names, op->tile.buffer);
        if (op->kind == T_LET || op->kind == T_SET) add_var(names, op->let.var);
        if (op->kind == T_UPDATE) add_var(names, op->update.var);
        if (op->kind == T_FOR) add_var(names, op->for_.var);
        if (op->kind == T_FORALL || op->kind == T_PIPELINE)
            for (int i = 0; i < op->forall.n; i++) add_var(names, op->forall.indices[i].var);
        tile_uses(op, add_use, names);
        tile_each_expr(op, add_slot, names);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) add_block(names, *body);
    }
}

static int by_name(const void *a, const void *b)
{
    const NameEntry *const x = a, *const y = b;
    const int order = x->name == y->name ? 0 : strcmp(x->name, y->name);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

// Sorts by name and numbers what shares one.
static Names *close_names(Names *names)
{
    NameEntry *const items = names->entries.items;
    const int n = names->entries.count;
    if (n == 0) return names;
    qsort(items, (size_t)n, sizeof(*items), by_name);
    for (int i = 0; i < n; i++)
        items[i].number = i > 0 && strcmp(items[i - 1].name, items[i].name) == 0 ? items[i - 1].number + 1 : 1;
    fill_slots(names, names->n_slots);
    return names;
}

Names *names_of_kernel(Arena *arena, const TileKernel *kernel)
{
    Names *const names = NEW(arena, Names, .arena = arena);
    for (int i = 0; i < kernel->n_params; i++) {
        add_buffer(names, kernel->params[i].tensor);
        add_var(names, kernel->params[i].scalar);
    }
    for (int i = 0; i < kernel->n_binds; i++) add_var(names, kernel->binds[i].symbol);
    for (int i = 0; i < kernel->n_grid; i++) add_var(names, kernel->grid[i].var);
    add_block(names, kernel->body);
    return close_names(names);
}

static void add_statements(Names *names, const LoopStmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case L_BLOCK: add_statements(names, s->block.body); break;
        case L_DECLARE:
            add_var(names, s->declare.var);
            add_expr(names, s->declare.value);
            break;
        case L_ASSIGN:
            add_var(names, s->assign.var);
            add_expr(names, s->assign.value);
            break;
        case L_STORE:
            add_var(names, s->store.pointer);
            add_expr(names, s->store.at);
            add_expr(names, s->store.value);
            break;
        case L_CALL: add_expr(names, s->call.call); break;
        case L_FOR:
            add_var(names, s->for_.var);
            add_expr(names, s->for_.lo);
            add_expr(names, s->for_.hi);
            add_expr(names, s->for_.step);
            add_statements(names, s->for_.body);
            break;
        case L_WHILE:
            add_expr(names, s->while_.cond);
            add_statements(names, s->while_.body);
            break;
        case L_IF:
            add_expr(names, s->branch.cond);
            add_statements(names, s->branch.then);
            add_statements(names, s->branch.otherwise);
            break;
        case L_BREAK:
        case L_CONTINUE:
        case L_RETURN:
        case L_LABEL:
        case L_GOTO:
        case L_COMMENT: break;
        }
    }
}

Names *names_of_unit(Arena *arena, const LoopUnit *unit)
{
    Names *const names = NEW(arena, Names, .arena = arena);
    for (int f = 0; f < unit->functions.count; f++) {
        const LoopFunction *const function = unit->functions.items[f];
        add_called(names, function->name);
        for (int i = 0; i < function->n_params; i++) add_var(names, function->params[i]);
        add_statements(names, function->body);
    }
    return close_names(names);
}

int names_number(const Names *names, const char *name, const void *thing)
{
    if (!names || !names->n_slots) return 1;
    const int entry = *slot_of(names, thing);
    return entry && strcmp(names->entries.items[entry - 1].name, name_or_t(name)) == 0
               ? names->entries.items[entry - 1].number
               : 1;
}

static void print_numbered(Text *out, const Names *names, const char *name, const void *thing)
{
    const int number = names_number(names, name, thing);
    text_print(out, number > 1 ? "%s.%d" : "%s", name_or_t(name), number);
}

void names_print_var(Text *out, const Names *names, const Var *var) { print_numbered(out, names, var->name, var); }

void names_print_buffer(Text *out, const Names *names, const Buffer *buffer)
{
    print_numbered(out, names, buffer->name, buffer);
}
