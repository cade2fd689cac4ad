// SPDX-License-Identifier: MIT
// rewrite_facts.c - what the tree says of a kernel: who uses a name, what is constant, which statements are independent.
//
// Names are not resolved. Within a kernel a visible name is never declared again, so a name means one thing wherever it is
// visible; what is declared twice, in blocks side by side, is left alone.
#include "rewrite.h"

// ---- walking

void each_of(const Ex *ex, Each *each, void *context)
{
    for (; ex; ex = ex->next) {
        each(context, ex);
        switch (ex->kind) {
        case EX_UNARY: each_of(ex->unary.a, each, context); break;
        case EX_BINARY:
            each_of(ex->binary.a, each, context);
            each_of(ex->binary.b, each, context);
            break;
        case EX_SELECT:
            each_of(ex->select.cond, each, context);
            each_of(ex->select.a, each, context);
            each_of(ex->select.b, each, context);
            break;
        case EX_CALL:
            each_of(ex->call.build, each, context);
            each_of(ex->call.args, each, context);
            break;
        case EX_SUBSCRIPT:
            each_of(ex->sub.base, each, context);
            each_of(ex->sub.start, each, context);
            each_of(ex->sub.width, each, context);
            each_of(ex->sub.step, each, context);
            break;
        case EX_SET: each_of(ex->set.items, each, context); break;
        case EX_INT:
        case EX_FLOAT:
        case EX_BOOL:
        case EX_STRING:
        case EX_NAME:
        case EX_TYPE:
        case EX_NONE: break;
        }
    }
}

static void each_of_names(const Declarator *names, Each *each, void *context)
{
    for (const Declarator *d = names; d; d = d->next) {
        each_of(d->extents, each, context);
        each_of(d->init, each, context);
    }
}

static void each_of_indices(const IndexVar *indices, Each *each, void *context)
{
    for (const IndexVar *i = indices; i; i = i->next) {
        each_of(i->lo, each, context);
        each_of(i->hi, each, context);
    }
}

static void each_of_hints(const Hint *hints, Each *each, void *context)
{
    for (const Hint *h = hints; h; h = h->next) each_of(h->argument, each, context);
}

void each_own(const St *st, Each *each, void *context)
{
    switch ((int)st->kind) {
    case ST_DECL: each_of_names(st->decl.names, each, context); break;
    case ST_VIEW: each_of_names(st->view.name, each, context); break;
    case ST_ASSIGN:
    case ST_ATOMIC:
        each_of(st->assign.target, each, context);
        each_of(st->assign.value, each, context);
        break;
    case ST_CALL: each_of(st->call.call, each, context); break;
    case ST_IF: each_of(st->branch.cond, each, context); break;
    case ST_FOR: each_of(st->loop.cond, each, context); break;
    case ST_WHILE: each_of(st->while_.cond, each, context); break;
    case ST_FORALL: each_of_indices(st->forall.indices, each, context); break;
    case ST_PIPELINE:
        each_of_indices(st->pipeline.indices, each, context);
        each_of_hints(st->pipeline.hints, each, context);
        break;
    case ST_ON: each_of(st->on.groups, each, context); break;
    case ST_RETURN: each_of(st->return_.value, each, context); break;
    case ST_GRID:
        each_of_indices(st->grid.indices, each, context);
        each_of_hints(st->grid.hints, each, context);
        break;
    case ST_REQUIRE:
    case ST_ASSUME:
    case ST_ASSERT: each_of(st->require.cond, each, context); break;
    case ST_PRINT: each_of(st->print.args, each, context); break;
    case ST_LAYOUT: each_of(st->layout.target, each, context); break;
    default: break;
    }
}

// The lists of statements that a statement has in it.
static int lists_of(const St *st, const St *lists[3])
{
    switch ((int)st->kind) {
    case ST_BLOCK: return lists[0] = st->block.body, 1;
    case ST_IF: return lists[0] = st->branch.then, lists[1] = st->branch.otherwise, 2;
    case ST_FOR: return lists[0] = st->loop.init, lists[1] = st->loop.step, lists[2] = st->loop.body, 3;
    case ST_WHILE: return lists[0] = st->while_.body, 1;
    case ST_FORALL: return lists[0] = st->forall.body, 1;
    case ST_PIPELINE: return lists[0] = st->pipeline.body, 1;
    case ST_ON: return lists[0] = st->on.body, 1;
    default: return 0;
    }
}

void each_in(const St *st, Each *each, void *context)
{
    const St *lists[3];
    const int n = lists_of(st, lists);
    each_own(st, each, context);
    for (int i = 0; i < n; i++)
        for (const St *s = lists[i]; s; s = s->next) each_in(s, each, context);
}

bool holds(const St *st, StKind kind)
{
    const St *lists[3];
    const int n = lists_of(st, lists);
    if (st->kind == kind) return true;
    for (int i = 0; i < n; i++)
        for (const St *s = lists[i]; s; s = s->next)
            if (holds(s, kind)) return true;
    return false;
}

const St *own_block(const St *body) { return body->kind == ST_BLOCK ? body->block.body : body; }

// ---- names

const Ex *root_of(const Ex *ex)
{
    while (ex && ex->kind == EX_SUBSCRIPT) ex = ex->sub.base;
    return ex;
}

bool is_named(const Ex *ex, Name name) { return ex && ex->kind == EX_NAME && ex->name.name == name; }

typedef struct Search {
    Name name;
    bool found;
} Search;

static void search(void *context, const Ex *ex)
{
    Search *const s = context;
    s->found |= is_named(ex, s->name);
}

bool uses(const St *st, Name name)
{
    Search s = { name, false };
    each_in(st, search, &s);
    return s.found;
}

bool uses_in(const Ex *ex, Name name)
{
    Search s = { name, false };
    if (ex && ex->next) { // of this one alone
        Ex one = *ex;
        one.next = NULL;
        each_of(&one, search, &s);
    } else {
        each_of(ex, search, &s);
    }
    return s.found;
}

int count_list(const Ex *list)
{
    int n = 0;
    for (; list; list = list->next) n++;
    return n;
}

const Ex *nth_of(const Ex *list, int n)
{
    while (list && n-- > 0) list = list->next;
    return list;
}

const Declarator *find_tile(const Rewriter *w, Name name, const St **decl)
{
    const Declarator *found = NULL;
    for (int i = 0; i < w->places.count; i++) {
        const St *const st = w->places.items[i].st;
        if (st->kind != ST_DECL) continue;
        for (const Declarator *d = st->decl.names; d; d = d->next) {
            if (d->name != name) continue;
            if (found) return NULL;
            found = d;
            if (decl) *decl = st;
        }
    }
    return found;
}

const Param *find_param(const Rewriter *w, Name name)
{
    for (const Param *p = w->decl->params; p; p = p->next)
        if (p->name == name) return p;
    return NULL;
}

const St *find_view(const Rewriter *w, Name name)
{
    for (int i = 0; i < w->places.count; i++) {
        const St *const st = w->places.items[i].st;
        if (st->kind != ST_VIEW) continue;
        for (const Declarator *d = st->view.name; d; d = d->next)
            if (d->name == name) return st;
    }
    return NULL;
}

// Of several tiles of one name, in blocks side by side, the one of least freedom.
Storage storage_of(const Rewriter *w, Name name)
{
    Storage storage = STORE_SCALAR;
    for (int i = 0; i < w->places.count; i++) {
        const St *const st = w->places.items[i].st;
        if (st->kind != ST_DECL) continue;
        for (const Declarator *d = st->decl.names; d; d = d->next)
            if (d->name == name && storage != STORE_FRAGMENT) storage = st->decl.storage;
    }
    return storage;
}

bool is_forall_index(const Place *place, Name name)
{
    for (const St *const *up = place->up; *up; up++)
        if ((*up)->kind == ST_FORALL)
            for (const IndexVar *i = (*up)->forall.indices; i; i = i->next)
                if (i->name == name) return true;
    return false;
}

static bool is_function(const Rewriter *w, Name name) { return program_find(w->program, DECL_FN, name) != NULL; }

typedef struct Given {
    const Rewriter *w;
    Name name;
    bool found;
} Given;

static void search_given(void *context, const Ex *ex)
{
    Given *const g = context;
    if (ex->kind != EX_CALL || !is_function(g->w, ex->call.name)) return;
    for (const Ex *a = ex->call.args; a; a = a->next) g->found |= is_named(root_of(a), g->name);
}

bool is_changed(const Rewriter *w, Name name)
{
    Given s = { w, name, false };
    for (int i = 0; i < w->places.count && !s.found; i++) {
        const St *const st = w->places.items[i].st;
        if (st->kind == ST_ASSIGN || st->kind == ST_ATOMIC) s.found = is_named(root_of(st->assign.target), name);
        if (st->kind == ST_FOR && st->loop.init && st->loop.init->kind == ST_DECL)
            for (const Declarator *d = st->loop.init->decl.names; d; d = d->next) s.found |= d->name == name;
        if (!s.found) each_own(st, search_given, &s);
    }
    return s.found;
}

// ---- constants

// Types are numbers, too: T == bf16.
enum { TYPE_BASE = 1000, TARGET_CPU = 1, TARGET_CUDA = 2 };

static bool constant_name(const Rewriter *w, Name name, int64_t *value)
{
    if (strcmp(name, "TARGET") == 0) return *value = w->is_cpu ? TARGET_CPU : TARGET_CUDA, true;
    if (strcmp(name, "cpu") == 0) return *value = TARGET_CPU, true;
    if (strcmp(name, "cuda") == 0) return *value = TARGET_CUDA, true;
    if (strcmp(name, "ARCH") == 0) return *value = w->is_cpu ? 0 : w->arch, true;
    if (strcmp(name, "CHECKED") == 0) return *value = 0, true;
    for (int i = 0; i < w->n_build; i++) {
        if (strcmp(w->build[i].name, name) != 0) continue;
        *value = w->build[i].kind == BIND_TYPE ? TYPE_BASE + (int64_t)w->build[i].type : w->build[i].integer;
        return w->build[i].kind == BIND_TYPE || w->build[i].kind == BIND_INT;
    }
    for (const BuildParam *p = w->decl->build; p; p = p->next)
        if (p->name == name) return p->value && is_constant(w, p->value, value);
    const St *decl = NULL;
    const Declarator *const local = find_tile(w, name, &decl);
    if (local) return decl->decl.is_const && !local->extents && is_constant(w, local->init, value);
    for (int m = 0; m < w->program->n_modules; m++)
        for (const Decl *d = w->program->modules[m]->decls; d; d = d->next)
            for (const Declarator *c = d->kind == DECL_CONST ? d->body->decl.names : NULL; c; c = c->next)
                if (c->name == name) return is_constant(w, c->init, value);
    return false;
}

static bool constant_call(const Rewriter *w, const Ex *ex, int64_t *value)
{
    int64_t a[3] = { 0 };
    int n = 0;
    for (const Ex *e = ex->call.args; e; e = e->next, n++)
        if (n == 3 || !is_constant(w, e, &a[n])) return false;
    const char *const name = ex->call.name;
    if (n == 2 && strcmp(name, "min") == 0) return *value = a[0] < a[1] ? a[0] : a[1], true;
    if (n == 2 && strcmp(name, "max") == 0) return *value = a[0] > a[1] ? a[0] : a[1], true;
    if (n == 2 && strcmp(name, "ceildiv") == 0 && a[1] > 0) return *value = (a[0] + a[1] - 1) / a[1], true;
    if (n == 3 && strcmp(name, "clamp") == 0) return *value = a[0] < a[1] ? a[1] : a[0] > a[2] ? a[2] : a[0], true;
    return false;
}

static bool constant_binary(Operator op, int64_t a, int64_t b, int64_t *value)
{
    switch ((int)op) {
    case OP_MUL: return *value = a * b, true;
    case OP_DIV: return b != 0 && (*value = a / b, true);
    case OP_MOD: return b != 0 && (*value = a % b, true);
    case OP_ADD: return *value = a + b, true;
    case OP_SUB: return *value = a - b, true;
    case OP_LT: return *value = a < b, true;
    case OP_LE: return *value = a <= b, true;
    case OP_GT: return *value = a > b, true;
    case OP_GE: return *value = a >= b, true;
    case OP_EQ: return *value = a == b, true;
    case OP_NE: return *value = a != b, true;
    case OP_ANDAND: return *value = a && b, true;
    case OP_OROR: return *value = a || b, true;
    default: return false;
    }
}

bool is_constant(const Rewriter *w, const Ex *ex, int64_t *value)
{
    int64_t a, b;
    if (!ex) return false;
    switch ((int)ex->kind) {
    case EX_INT: return *value = (int64_t)ex->integer.value, true;
    case EX_BOOL: return *value = ex->boolean.value, true;
    case EX_TYPE: return *value = TYPE_BASE + (int64_t)ex->type.type, true;
    case EX_NAME: return constant_name(w, ex->name.name, value);
    case EX_CALL: return constant_call(w, ex, value);
    case EX_SELECT:
        return is_constant(w, ex->select.cond, &a) && is_constant(w, a ? ex->select.a : ex->select.b, value);
    case EX_BINARY:
        return is_constant(w, ex->binary.a, &a) && is_constant(w, ex->binary.b, &b) &&
               constant_binary(ex->binary.op, a, b, value);
    default: return false;
    }
}

// Whether an expression is of scalars that never change, and has no effect; `plain`: and of + - * / % alone.
typedef struct Plain {
    const Rewriter *w;
    bool plain, pure;
} Plain;

static bool is_arithmetic(Operator op)
{
    return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV || op == OP_MOD;
}

static bool never_changes(const Rewriter *w, Name name)
{
    const Param *const param = find_param(w, name);
    return !is_changed(w, name) && storage_of(w, name) == STORE_SCALAR && !find_view(w, name) &&
           !(param && param->mode != MODE_SCALAR);
}

static void look_plain(void *context, const Ex *ex)
{
    Plain *const p = context;
    bool pure = true, plain = true;
    switch (ex->kind) {
    case EX_INT: break;
    case EX_NAME: pure = never_changes(p->w, ex->name.name); break;
    case EX_BINARY:
        plain = is_arithmetic(ex->binary.op);
        pure = ex->binary.op != OP_MATMUL;
        break;
    case EX_CALL:
        plain = false;
        pure = !is_function(p->w, ex->call.name) && strncmp(ex->call.name, "atomic_", 7) != 0;
        break;
    case EX_FLOAT:
    case EX_BOOL:
    case EX_UNARY:
    case EX_SELECT:
    case EX_TYPE: plain = false; break;
    case EX_STRING:
    case EX_NONE:
    case EX_SUBSCRIPT:
    case EX_SET: pure = false; break;
    }
    p->pure &= pure;
    p->plain &= pure && plain;
}

static Plain look_at(const Rewriter *w, const Ex *ex)
{
    Plain p = { w, true, true };
    Ex one = *ex;
    one.next = NULL;
    each_of(&one, look_plain, &p);
    return p;
}

bool is_plain(const Rewriter *w, const Ex *ex) { return look_at(w, ex).plain; }
bool is_pure(const Rewriter *w, const Ex *ex) { return look_at(w, ex).pure; }

const Place *find_place(const Rewriter *w, const St *st)
{
    for (int i = 0; i < w->places.count; i++)
        if (w->places.items[i].st == st) return &w->places.items[i];
    return NULL;
}

// ---- effects

typedef struct Names {
    Name items[128];
    int n;
} Names;
typedef struct Effects {
    const Rewriter *w;
    Names read, written;
    bool ordered; // with everything
} Effects;

static void add_name(Effects *e, Names *names, Name name)
{
    const St *const view = find_view(e->w, name);
    if (names->n == COUNT(names->items)) {
        e->ordered = true;
        return;
    }
    names->items[names->n++] = name;
    for (const Declarator *d = view ? view->view.name : NULL; d; d = d->next)
        if (d->name == name && root_of(d->init)->kind == EX_NAME) add_name(e, names, root_of(d->init)->name.name);
}

static void add_read(void *context, const Ex *ex)
{
    Effects *const e = context;
    if (ex->kind == EX_NAME) add_name(e, &e->read, ex->name.name);
    if (ex->kind != EX_CALL) return;
    if (strncmp(ex->call.name, "atomic_", 7) == 0) e->ordered = true;
    for (const Ex *a = is_function(e->w, ex->call.name) ? ex->call.args : NULL; a; a = a->next)
        if (root_of(a)->kind == EX_NAME) add_name(e, &e->written, root_of(a)->name.name);
}

static void add_effects(Effects *e, const St *st)
{
    const St *lists[3];
    const int n = lists_of(st, lists);
    switch ((int)st->kind) {
    case ST_BREAK:
    case ST_CONTINUE:
    case ST_RETURN:
    case ST_STAGE:
    case ST_GRID:
    case ST_REQUIRE:
    case ST_ASSUME:
    case ST_ASSERT:
    case ST_PRINT:
    case ST_LAYOUT:
    case ST_ATOMIC:
    case ST_PIPELINE: e->ordered = true; break;
    case ST_ASSIGN:
        if (root_of(st->assign.target)->kind == EX_NAME)
            add_name(e, &e->written, root_of(st->assign.target)->name.name);
        else e->ordered = true;
        break;
    case ST_DECL:
        for (const Declarator *d = st->decl.names; d; d = d->next) add_name(e, &e->written, d->name);
        break;
    case ST_VIEW:
        for (const Declarator *d = st->view.name; d; d = d->next) add_name(e, &e->written, d->name);
        break;
    case ST_CALL:
        for (const Ex *a = st->call.call->call.args; a; a = a->next)
            if (root_of(a)->kind == EX_NAME) add_name(e, &e->written, root_of(a)->name.name);
        break;
    default: break;
    }
    each_own(st, add_read, e);
    for (int i = 0; i < n; i++)
        for (const St *s = lists[i]; s; s = s->next) add_effects(e, s);
}

static bool meet(const Names *a, const Names *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->items[i] == b->items[k]) return true;
    return false;
}

bool are_independent(const Rewriter *w, const St *a, const St *b)
{
    Effects x = { .w = w }, y = { .w = w };
    add_effects(&x, a);
    add_effects(&y, b);
    return !x.ordered && !y.ordered && !meet(&x.written, &y.written) && !meet(&x.written, &y.read) &&
           !meet(&x.read, &y.written);
}
