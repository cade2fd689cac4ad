// SPDX-License-Identifier: MIT
// specification.c - reference, verify and the code of checks: sequential kernels with another's parameters.
#include "check/context.h"

static void report_no_subject(Program *program, const Decl *decl)
{
    const char *names[256];
    int n = 0;
    for (int m = 0; m < program->n_modules; m++)
        for (const Decl *one = program->modules[m]->decls; one && n < 256; one = one->next)
            if (one->kind == DECL_KERNEL || one->kind == DECL_OPERATOR) names[n++] = one->name;
    diag_error(program->diags, decl->name_span, "there is no kernel or operator '%s'", decl->name);
    const char *const near = nearest_name(decl->name, names, n);
    if (near) diag_help(program->diags, decl->name_span, "did you mean '%s'?", near);
}

// The kernel or operator whose parameters are meant; the declaration itself if it lists its own. NULL: reported.
const Decl *signature_of(Program *program, const Decl *decl)
{
    const Decl *const subject = find_launchable(program, decl->name);
    if (!subject) {
        report_no_subject(program, decl);
        return NULL;
    }
    if (decl->kind == DECL_CHECK || !decl->has_params) return subject;
    Decl *const own = NEW(program->arena, Decl, .kind = decl->kind);
    *own = *decl;
    if (!decl->has_build) own->build = subject->build;
    return own;
}

static TileKernel *check_sequential(Program *program, const Decl *decl, const CheckOptions *options, bool with_expected,
                                    bool fills_inputs)
{
    const Decl *const signature = signature_of(program, decl);
    if (!signature) return NULL;
    Checker *const cx = new_checker(program, signature, options);
    TileKernel *const k = new_kernel(cx, decl->name);
    k->is_sequential = true;
    cx->sequential = true;
    cx->fills_inputs = fills_inputs;
    cx->has_grid = true;
    cx->body_of = decl;
    resolve_build_params(cx, signature, options->bindings, options->n_bindings);
    k->key = build_key(cx, signature);
    bind_parameters(cx, signature, with_expected);
    report_unused_bindings(cx);
    check_statements(cx, decl->body);
    finish_parameters(cx);
    if (cx->errors == 0) check_nesting(cx, k->body);
    return cx->errors == 0 ? k : NULL;
}

TileKernel *check_reference(Program *program, const char *name, const CheckOptions *options)
{
    const Decl *const decl = program_find(program, DECL_REFERENCE, name);
    return decl ? check_sequential(program, decl, options, false, false) : NULL;
}

TileKernel *check_verify(Program *program, const char *name, const CheckOptions *options)
{
    const Decl *const decl = program_find(program, DECL_VERIFY, name);
    const bool has_reference = program_find(program, DECL_REFERENCE, name) != NULL;
    return decl ? check_sequential(program, decl, options, has_reference, false) : NULL;
}

TileKernel *check_case_code(Program *program, const char *name, const CheckCase *one)
{
    const CheckOptions options = { .target = "cpu", .bindings = one->build, .n_bindings = one->n_build };
    return check_sequential(program, one->decl, &options, false, true);
}
