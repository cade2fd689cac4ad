// SPDX-License-Identifier: MIT
// places.c - names and their declarations, from syntax trees alone.
#include "tools/places.h"
#include "syntax/lexer.h"

#include <ctype.h>
#include <string.h>

const Decl *decl_at(const Module *module, int offset)
{
    for (const Decl *decl = module->decls; decl; decl = decl->next)
        if (offset >= decl->span.begin && offset <= decl->span.end) return decl;
    return NULL;
}

static bool is_specification(const Decl *decl)
{
    return decl->kind == DECL_REFERENCE || decl->kind == DECL_CHECK || decl->kind == DECL_VERIFY;
}

const Decl *subject_of(const Program *program, const Decl *decl)
{
    if (!is_specification(decl) || !decl->name) return decl;
    const Decl *const kernel = program_find(program, DECL_KERNEL, decl->name);
    const Decl *const found = kernel ? kernel : program_find(program, DECL_OPERATOR, decl->name);
    return found ? found : decl;
}

Span head_of(const Decl *decl)
{
    const char *const text = decl->span.source->text;
    Span head = decl->span;
    char before = 0;
    for (int at = head.begin; at < head.end; at++) {
        if (text[at] == '{' && before != '=') head.end = at;
        if (!isspace((unsigned char)text[at])) before = text[at];
    }
    while (head.end > head.begin && isspace((unsigned char)text[head.end - 1])) head.end--;
    return head;
}

bool word_at(const Source *source, int offset, Span *word)
{
    const char *const text = source->text;
    int begin = offset, end = offset;
    if (offset < 0 || offset > source->length) return false;
    while (begin > 0 && (isalnum((unsigned char)text[begin - 1]) || text[begin - 1] == '_')) begin--;
    while (isalnum((unsigned char)text[end]) || text[end] == '_') end++;
    *word = (Span){ source, begin, end };
    return end > begin && !isdigit((unsigned char)text[begin]);
}

// ---- what a declaration declares

typedef struct Walk {
    const Decl *decl;
    UsePlace *use;
    void *context;
} Walk;

static void meet(const Walk *w, Name name, const char *what, Span span, Span text)
{
    if (!name || !span.source) return;
    w->use(w->context, &(Place){ .name = name, .what = what, .span = span, .text = text, .inside = w->decl });
}

static void meet_all(const Walk *w, const Declarator *one, const char *what, Span text)
{
    for (; one; one = one->next) meet(w, one->name, what, one->span, text);
}

static void meet_indices(const Walk *w, const IndexVar *index, const char *what)
{
    for (; index; index = index->next) {
        const Ex *const last = index->hi ? index->hi : index->lo;
        meet(w, index->name, what, index->span, last ? span_join(index->span, last->span) : index->span);
    }
}

static const char *storage_name(const St *st)
{
    static const char *const names[] = { [STORE_SCALAR] = "a variable",
                                         [STORE_SHARED] = "a shared tile",
                                         [STORE_CLUSTER_SHARED] = "a tile shared by a cluster",
                                         [STORE_FRAGMENT] = "a fragment",
                                         [STORE_LOCAL] = "a local array",
                                         [STORE_TEMP] = "a temporary tensor" };
    return st->decl.is_const ? "a constant" : names[st->decl.storage];
}

static void meet_statements(const Walk *w, const St *st)
{
    for (; st; st = st->next) {
        switch ((int)st->kind) {
        case ST_BLOCK: meet_statements(w, st->block.body); break;
        case ST_DECL: meet_all(w, st->decl.names, storage_name(st), st->span); break;
        case ST_VIEW: meet_all(w, st->view.name, "a view", st->span); break;
        case ST_IF:
            meet_statements(w, st->branch.then);
            meet_statements(w, st->branch.otherwise);
            break;
        case ST_FOR:
            meet_statements(w, st->loop.init);
            meet_statements(w, st->loop.body);
            break;
        case ST_WHILE: meet_statements(w, st->while_.body); break;
        case ST_FORALL:
            meet_indices(w, st->forall.indices, "an index");
            meet_statements(w, st->forall.body);
            break;
        case ST_PIPELINE:
            meet_indices(w, st->pipeline.indices, "an index of a pipeline");
            meet_statements(w, st->pipeline.body);
            break;
        case ST_ON: meet_statements(w, st->on.body); break;
        case ST_GRID: meet_indices(w, st->grid.indices, "a coordinate of the grid"); break;
        default: break;
        }
    }
}

// Plain names of extents, at their first place.
static void meet_symbols(const Walk *w, const Param *params)
{
    for (const Param *p = params; p; p = p->next)
        for (const Ex *ex = p->extents; ex; ex = ex->next)
            if (ex->kind == EX_NAME) meet(w, ex->name.name, "an extent", ex->span, ex->span);
}

static void meet_parameters(const Walk *w, const Decl *of)
{
    for (const BuildParam *b = of->build; b; b = b->next)
        meet(w, b->name, "a build parameter", b->span, b->value ? span_join(b->span, b->value->span) : b->span);
    for (const Param *p = of->params; p; p = p->next) {
        const Span type = p->type.span.source ? p->type.span : p->span;
        Span text = span_join(type, p->span);
        for (const Ex *ex = p->extents; ex; ex = ex->next) text.end = ex->span.end + 1; // with its bracket
        meet(w, p->name, p->extents ? "a tensor or tile" : "a scalar", p->span, text);
    }
    meet_symbols(w, of->params);
}

void places_in(const Program *program, const Decl *decl, UsePlace *use, void *context)
{
    const Walk w = { decl, use, context };
    meet_parameters(&w, subject_of(program, decl));
    if (decl->body) meet_statements(&w, decl->body);
}

void places_of(const Program *program, UsePlace *use, void *context)
{
    static const char *const names[] = { [DECL_KERNEL] = "a kernel",
                                         [DECL_FN] = "a function",
                                         [DECL_OPERATOR] = "an operator",
                                         [DECL_EXTERN] = "a function of the target" };
    const Walk w = { NULL, use, context };
    for (int m = 0; m < program->n_modules; m++)
        for (const Decl *d = program->modules[m]->decls; d; d = d->next) {
            if (d->kind == DECL_CONST && d->body) meet_all(&w, d->body->decl.names, "a constant", d->span);
            if (d->kind == DECL_KERNEL || d->kind == DECL_FN || d->kind == DECL_OPERATOR || d->kind == DECL_EXTERN)
                meet(&w, d->name, names[d->kind], d->name_span, head_of(d));
        }
}

// ---- what a word stands for

typedef struct Search {
    Span word;
    const char *text;
    int length;
    Place best;
    bool found;
} Search;

// The last declaration before the word, since sibling blocks may use a name again; else the first.
static void compare(void *context, const Place *place)
{
    Search *const s = context;
    if ((int)strlen(place->name) != s->length || memcmp(place->name, s->text, (size_t)s->length) != 0) return;
    const bool is_before = place->span.source != s->word.source || place->span.begin <= s->word.begin;
    if (s->found && !is_before) return;
    s->best = *place;
    s->found = true;
}

bool find_declared_place(const Program *program, const Module *module, Span word, Place *place)
{
    Search s = { .word = word, .text = word.source->text + word.begin, .length = word.end - word.begin };
    const Decl *const decl = decl_at(module, word.begin);
    if (decl) places_in(program, decl, compare, &s);
    if (!s.found) places_of(program, compare, &s);
    if (s.found) *place = s.best;
    return s.found;
}
