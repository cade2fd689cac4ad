// SPDX-License-Identifier: MIT
// check.c - the entry points for kernels: find, bind, walk, finish.
#include "check/context.h"

Decl *program_find(const Program *program, DeclKind kind, const char *name)
{
    for (int m = 0; m < program->n_modules; m++)
        for (Decl *decl = program->modules[m]->decls; decl; decl = decl->next)
            if (decl->kind == kind && decl->name && strcmp(decl->name, name) == 0) return decl;
    return NULL;
}

const Decl *find_launchable(const Program *program, const char *name)
{
    const Decl *const kernel = program_find(program, DECL_KERNEL, name);
    return kernel ? kernel : program_find(program, DECL_OPERATOR, name);
}

TileKernel *new_kernel(Checker *cx, const char *name)
{
    TileKernel *const k = NEW(cx->arena, TileKernel, .name = name, .key = name, .target = cx->options->target,
                              .arena = cx->arena, .diags = cx->diags, .checked = cx->options->checked);
    cx->kernel = k;
    cx->out = &k->body;
    return k;
}

Checker *new_checker(Program *program, const Decl *decl, const CheckOptions *options)
{
    Checker *const cx = NEW(program->arena, Checker, .program = program, .arena = program->arena,
                            .diags = program->diags, .options = options, .decl = decl, .body_of = decl);
    cx->binding_used = NEW_ARRAY(cx->arena, bool, options->n_bindings + 1);
    find_declarations(cx);
    return cx;
}

static Span start_of(const Program *program)
{
    const Source *const source = program->n_modules ? program->modules[0]->source : NULL;
    return (Span){ source, 0, 0 };
}

// Names of one kind are unique over all files of a program.
static void report_missing(Program *program, const char *name, const char *what, DeclKind kind, DeclKind other)
{
    const char *candidates[256];
    int n = 0;
    for (int m = 0; m < program->n_modules; m++)
        for (const Decl *decl = program->modules[m]->decls; decl && n < 256; decl = decl->next)
            if (decl->kind == kind) candidates[n++] = decl->name;
    diag_error(program->diags, start_of(program), "there is no %s '%s'", what, name);
    const Decl *const found = program_find(program, other, name);
    if (found)
        diag_note(program->diags, found->name_span, "this is %s", other == DECL_OPERATOR ? "an operator" : "a kernel");
    const char *const near = nearest_name(name, candidates, n);
    if (near) diag_help(program->diags, start_of(program), "did you mean '%s'?", near);
}

static void report_duplicate(Checker *cx)
{
    for (int m = 0; m < cx->program->n_modules; m++)
        for (const Decl *decl = cx->program->modules[m]->decls; decl; decl = decl->next)
            if (decl != cx->decl && decl->kind == cx->decl->kind && decl->name == cx->decl->name) {
                check_error(cx, decl->name_span, "'%s' is declared twice", decl->name);
                check_note(cx, cx->decl->name_span, "also here");
            }
}

static void check_kernel_body(Checker *cx, const Decl *decl)
{
    cx->is_launch_time = true;
    check_statements(cx, decl->body);
    if (!cx->has_grid) {
        check_error(cx, decl->name_span, "a kernel needs a grid");
        check_help(cx, decl->name_span, "grid () is one instance");
    }
}

TileKernel *check_kernel(Program *program, const char *name, const CheckOptions *options)
{
    const Decl *const decl = program_find(program, DECL_KERNEL, name);
    if (!decl) {
        report_missing(program, name, "kernel", DECL_KERNEL, DECL_OPERATOR);
        return NULL;
    }
    Checker *const cx = new_checker(program, decl, options);
    TileKernel *const k = new_kernel(cx, decl->name);
    report_duplicate(cx);
    resolve_build_params(cx, decl, options->bindings, options->n_bindings);
    k->key = build_key(cx, decl);
    bind_parameters(cx, decl, false);
    report_unused_bindings(cx);
    check_kernel_body(cx, decl);
    finish_parameters(cx);
    if (cx->errors == 0) check_nesting(cx, k->body);
    if (cx->errors == 0) check_cluster(cx);
    return cx->errors == 0 ? k : NULL;
}

void report_missing_operator(Program *program, const char *name)
{
    report_missing(program, name, "operator", DECL_OPERATOR, DECL_KERNEL);
}
