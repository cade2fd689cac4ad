// SPDX-License-Identifier: MIT
// scope.c - names: one name space for build parameters, tensors, symbols and locals.
//
// Visible are the names of the function being walked, newest first, then the constants of the files. Nothing is
// redeclared while visible; leaving a block forgets its names, so that siblings may use them again.
#include "check/context.h"
#include "syntax/foreign.h"
#include "target/target.h"

#include <math.h>

// ---- constants of the language

typedef struct NamedConstant {
    const char *name;
    double value;
} NamedConstant;

static const NamedConstant named_constants[] = {
    { "INFINITY", INFINITY },
    { "NAN", NAN },
    { "LOG2E", 1.44269504088896340736 },
    { "LN2", 0.69314718055994530942 },
    { "PI", 3.14159265358979323846 },
};

const char *check_constant_word(int i)
{
    static const char *const of_build[] = { "TARGET", "ARCH", "CHECKED" };
    const int n = COUNT(named_constants);
    return i < n ? named_constants[i].name : i < n + COUNT(of_build) ? of_build[i - n] : NULL;
}

static const NamedConstant *find_constant(Name name)
{
    for (int i = 0; i < COUNT(named_constants); i++)
        if (strcmp(named_constants[i].name, name) == 0) return &named_constants[i];
    return NULL;
}

static bool is_target_word(Name name) { return strcmp(name, "TARGET") == 0 || target_find(name); }

// What the build is for: the architecture, and whether it has checks. NULL: no such name.
static Expr *find_build_constant(const Checker *cx, Name name)
{
    return strcmp(name, "ARCH") == 0      ? int_const(cx->arena, cx->options->arch)
           : strcmp(name, "CHECKED") == 0 ? expr_bool(cx->arena, cx->options->checked)
                                          : NULL;
}

// ---- what the files declare

typedef struct FileConstant {
    const Decl *decl;
    const Declarator *one;
    Entity *made; // NULL: it was not used yet
    bool under_way;
} FileConstant;

static void note_declared(Table *table, Name name, void *what)
{
    void **const place = table_at(table, name);
    if (!*place) *place = what; // the first of two
}

static void note_constants(Checker *cx, const Decl *decl)
{
    for (const Declarator *one = decl->body->decl.names; one; one = one->next)
        note_declared(&cx->constants, one->name, NEW(cx->arena, FileConstant, .decl = decl, .one = one));
}

void find_declarations(Checker *cx)
{
    cx->functions.arena = cx->constants.arena = cx->assigned.arena = cx->arena;
    for (int m = 0; m < cx->program->n_modules; m++)
        for (Decl *decl = cx->program->modules[m]->decls; decl; decl = decl->next) {
            if (decl->kind == DECL_CONST && decl->body) note_constants(cx, decl);
            if (decl->kind == DECL_FN || decl->kind == DECL_EXTERN) note_declared(&cx->functions, decl->name, decl);
        }
}

const Decl *find_function(const Checker *cx, Name name) { return table_find(&cx->functions, name); }

static FileConstant *find_file_constant(const Checker *cx, Name name) { return table_find(&cx->constants, name); }

bool find_file_constant_named(const Checker *cx, Name name) { return find_file_constant(cx, name) != NULL; }

// A file's constant is computed where it is first used, with only other constants of files in sight.
static Entity *evaluate_file_constant(Checker *cx, FileConstant *constant)
{
    if (constant->made) return constant->made;
    const Decl *const decl = constant->decl;
    const Declarator *const one = constant->one;
    Entity *const made =
        NEW(cx->arena, Entity, .kind = ENTITY_POISON, .name = one->name, .span = one->span, .what = "a constant");
    if (constant->under_way || cx->constant_depth >= CALLS_MAX) {
        if (constant->under_way) check_error(cx, one->span, "the value of '%s' depends on itself", one->name);
        else check_error(cx, one->span, "more than %d constants computed from each other", CALLS_MAX);
        return made;
    }
    constant->under_way = true;
    Entity *const names = cx->names;
    cx->names = NULL;
    cx->constant_depth++;
    const DType type = resolve_type(cx, &decl->body->decl.type);
    if (!one->init) {
        check_error(cx, one->span, "a constant needs a value");
    } else if (type != DTYPE_NONE) {
        Expr *const value = convert_expr(cx, check_scalar(cx, one->init), type);
        if (value && !expr_is_const(value))
            check_error(cx, one->init->span, "the value of a file's constant must be known when built");
        else if (value) {
            made->kind = ENTITY_VALUE;
            made->value = value;
            made->type = type;
            made->is_constant = true;
        }
    }
    cx->constant_depth--;
    cx->names = names;
    constant->under_way = false;
    return constant->made = made;
}

// ---- finding and declaring

// Names that are visible together, as a tree by two bits of the name's hash at a time. A new name copies the nodes on its
// way, so that the tree of an outer block is there again when the block ends.
typedef struct NameNode NameNode;
struct NameNode {
    Entity *entity;
    const NameNode *child[4];
};

static uint64_t hash_of(Name name) { return (uintptr_t)name * UINT64_C(0x9E3779B97F4A7C15); }

static const NameNode *with_name(Arena *arena, const NameNode *old, Entity *entity)
{
    const NameNode *root = NULL, **link = &root;
    for (uint64_t hash = hash_of(entity->name);; hash <<= 2) {
        NameNode *const node = NEW(arena, NameNode, .entity = entity);
        *link = node;
        if (!old) return root;
        *node = *old;
        if (node->entity->name == entity->name) {
            node->entity = entity;
            return root;
        }
        link = &node->child[hash >> 62];
        old = *link;
    }
}

void show(Checker *cx, Entity *entity)
{
    entity->all = with_name(cx->arena, cx->names ? cx->names->all : NULL, entity);
    entity->next = cx->names;
    cx->names = entity;
}

static Entity *find_declared(Checker *cx, Name name)
{
    uint64_t hash = hash_of(name);
    const NameNode *node = cx->names ? cx->names->all : NULL;
    for (; node && node->entity->name != name; hash <<= 2) node = node->child[hash >> 62];
    return node ? node->entity : NULL;
}

Name called_function(Checker *cx, Name name)
{
    const Entity *const entity = find_declared(cx, name);
    return entity && entity->kind == ENTITY_FUNCTION ? entity->function : name;
}

Entity *find_entity(Checker *cx, Name name)
{
    Entity *const local = find_declared(cx, name);
    if (local) return local;
    FileConstant *const constant = find_file_constant(cx, name);
    if (constant) return evaluate_file_constant(cx, constant);
    const NamedConstant *const named = find_constant(name);
    if (named)
        return NEW(cx->arena, Entity, .kind = ENTITY_VALUE, .name = name, .what = "a named constant", .flexible = true,
                   .value = expr_float(cx->arena, DTYPE_F64, named->value), .type = DTYPE_F64);
    Expr *const build = find_build_constant(cx, name);
    return !build ? NULL
                  : NEW(cx->arena, Entity, .kind = ENTITY_VALUE, .name = name, .what = "a constant of the build",
                        .flexible = true, .value = build, .type = build->type);
}

static void report_unknown(Checker *cx, Name name, Span span)
{
    const char *candidates[512];
    int n = 0;
    for (const Entity *e = cx->names; e && n < 400; e = e->next)
        if (e->kind != ENTITY_POISON) candidates[n++] = e->name;
    for (int i = 0; i < COUNT(named_constants); i++) candidates[n++] = named_constants[i].name;
    check_error(cx, span, "'%s' is not declared", name);
    const ForeignWord *const foreign = find_foreign(name);
    if (find_function(cx, name) || is_builtin(name)) {
        check_help(cx, span, "'%s' is a function; call it with (...)", name);
        return;
    }
    if (foreign) {
        check_help(cx, span, "%s", foreign_advice(cx->arena, foreign));
        return;
    }
    const char *const near = nearest_name(name, candidates, n);
    if (near) check_help(cx, span, "did you mean '%s'?", near);
}

Entity *get_entity(Checker *cx, Name name, Span span)
{
    Entity *const found = find_entity(cx, name);
    if (found) return found;
    report_unknown(cx, name, span);
    // Declared as poison, so that each unknown name is reported once.
    Entity *const poison = NEW(cx->arena, Entity, .kind = ENTITY_POISON, .name = name, .span = span);
    show(cx, poison);
    return poison;
}

Entity *declare(Checker *cx, Entity entity)
{
    Entity *const made = NEW(cx->arena, Entity, .kind = ENTITY_POISON);
    *made = entity;
    made->forall_depth = forall_depth(cx);
    const FileConstant *const constant = find_file_constant(cx, entity.name);
    const Entity *const before = find_declared(cx, entity.name);
    if (before && before->kind != ENTITY_POISON) {
        check_error(cx, entity.span, "'%s' is already declared", entity.name);
        if (before->span.source)
            check_note(cx, before->span, "here, as %s", before->what ? before->what : "a variable");
        return made; // the first one stays visible
    } else if (find_constant(entity.name) || is_target_word(entity.name) || find_build_constant(cx, entity.name)) {
        check_error(cx, entity.span, "'%s' is a constant of the language", entity.name);
    } else if (constant) {
        check_error(cx, entity.span, "'%s' is already declared", entity.name);
        check_note(cx, constant->one->span, "here, as a constant of the file");
    }
    show(cx, made);
    return made;
}

// ---- presence

bool is_known_present(const Checker *cx, const Entity *entity)
{
    for (const PresentFact *fact = cx->present; fact; fact = fact->next)
        if (fact->entity == entity) return true;
    return false;
}

void assume_present(Checker *cx, const Ex *cond, bool truth)
{
    if (cond->kind == EX_UNARY && cond->unary.op == OP_NOT) {
        assume_present(cx, cond->unary.a, !truth);
    } else if (cond->kind == EX_BINARY && cond->binary.op == (truth ? OP_ANDAND : OP_OROR)) {
        assume_present(cx, cond->binary.a, truth);
        assume_present(cx, cond->binary.b, truth);
    } else if (truth && cond->kind == EX_CALL && strcmp(cond->call.name, "present") == 0 && cond->call.args &&
               cond->call.args->kind == EX_NAME) {
        const Entity *const entity = find_entity(cx, cond->call.args->name.name);
        if (entity) cx->present = NEW(cx->arena, PresentFact, .entity = entity, .next = cx->present);
    }
}

// ---- what a name stands for

static Value target_value(Checker *cx, Name name, Span span)
{
    const char *const target = strcmp(name, "TARGET") == 0 ? cx->options->target : name;
    return (Value){ .kind = VALUE_TARGET, .span = span, .text = target };
}

Value entity_value(Checker *cx, Entity *entity, Span span)
{
    switch (entity->kind) {
    case ENTITY_POISON: return POISON;
    case ENTITY_VALUE:
        return (Value){
            .kind = VALUE_SCALAR, .span = span, .expr = entity->value, .flexible = entity->flexible, .entity = entity
        };
    case ENTITY_VARIABLE:
        return (
            Value){ .kind = VALUE_SCALAR, .span = span, .expr = expr_var(cx->arena, entity->var), .entity = entity };
    case ENTITY_TYPE: return (Value){ .kind = VALUE_TYPE, .span = span, .type = entity->type };
    case ENTITY_FUNCTION: return (Value){ .kind = VALUE_FUNCTION, .span = span, .function = entity->function };
    case ENTITY_BUFFER:
        if (entity->optional && !is_known_present(cx, entity)) break;
        return (Value){ .kind = VALUE_REGION,
                        .span = span,
                        .region = region_whole(cx->arena, entity->buffer, span),
                        .entity = entity };
    case ENTITY_ABSENT: break;
    case ENTITY_UNBOUND:
        check_error(cx, span, "'%s' is not known: only '%s' binds it, which is absent", entity->name, entity->what);
        return POISON;
    }
    check_error(cx, span, "'%s' is optional, so every use must stand under present(%s)", entity->name, entity->name);
    check_note(cx, entity->span, "declared here");
    return POISON;
}

static Value name_value(Checker *cx, Name name, Span span)
{
    if (!find_declared(cx, name) && is_target_word(name)) return target_value(cx, name, span);
    return entity_value(cx, get_entity(cx, name, span), span);
}

Value check_name(Checker *cx, const Ex *ex) { return name_value(cx, ex->name.name, ex->span); }

DType resolve_type(Checker *cx, const TypeRef *ref)
{
    if (!ref->name) return ref->type;
    const Entity *const entity = find_entity(cx, ref->name);
    if (entity && entity->kind == ENTITY_TYPE) return entity->type;
    if (entity && entity->kind == ENTITY_POISON) return DTYPE_NONE;
    if (entity) {
        check_error(cx, ref->span, "'%s' is no type", ref->name);
        if (entity->span.source) check_note(cx, entity->span, "it is %s", entity->what ? entity->what : "a variable");
        return DTYPE_NONE;
    }
    const char *candidates[256];
    int n = 0;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) candidates[n++] = dtype_name((DType)t);
    for (const Entity *e = cx->names; e && n < 256; e = e->next)
        if (e->kind == ENTITY_TYPE) candidates[n++] = e->name;
    check_error(cx, ref->span, "there is no type '%s'", ref->name);
    const char *const near = nearest_name(ref->name, candidates, n);
    if (near) check_help(cx, ref->span, "did you mean '%s'?", near);
    return DTYPE_NONE;
}
