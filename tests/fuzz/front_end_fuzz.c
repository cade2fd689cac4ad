// SPDX-License-Identifier: MIT
// front_end_fuzz.c - any bytes as a .tile source: parsed, formatted, and every kernel of it checked and compiled to text.
//
// Besides not crashing: no input takes more than 512 MB (here) or 20 s (replay.c, scripts/test.sh). What parses can be formatted, formatting keeps the tree,
// and formatting again changes nothing. Each violation aborts.
//
// With clang: cmake -S . -B build-fuzz -DCMAKE_C_COMPILER=clang -DKILN_SANITIZE=address,undefined -DKILN_FUZZ=ON
//             build-fuzz/tests/front_end_search tests/fuzz/corpus/front_end
// Elsewhere the same program replays the files it is given (replay.c); `make test` does so with the corpus.
#include "compile/compile.h"
#include "syntax/ast_print.h"
#include "syntax/format.h"
#include "syntax/parser.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 512 << 20 };

static void violated(const char *what, const char *first, const char *second)
{
    fprintf(stderr, "%s\n---- first:\n%s\n---- second:\n%s\n", what, first, second);
    abort();
}

static const char *tree_of(Arena *arena, const Source *source)
{
    Diags *const diags = diags_new(arena);
    const Module *const module = parse_module(arena, diags, source);
    Text tree = { .arena = arena };
    if (diags->errors) diags_print(diags, &tree, false);
    else ast_print(&tree, module);
    return text_cstr(&tree);
}

static void check_format(Arena *arena, const Source *source)
{
    Text once = { .arena = arena }, twice = { .arena = arena };
    Diags *const diags = diags_new(arena);
    if (!format_source(arena, diags, source, &once))
        violated("a source without errors is not formatted", source->text, "");
    const Source formatted = { .path = "formatted", .text = text_cstr(&once), .length = (int)once.length };
    const char *const before = tree_of(arena, source), *const after = tree_of(arena, &formatted);
    if (strcmp(before, after) != 0) violated("formatting changed the tree", before, after);
    if (!format_source(arena, diags, &formatted, &twice))
        violated("what was formatted is not formatted again", text_cstr(&once), "");
    if (strcmp(text_cstr(&once), text_cstr(&twice)) != 0)
        violated("formatting is not stable", text_cstr(&once), text_cstr(&twice));
}

typedef struct Form {
    const char *target;
    int arch;
    bool checked;
} Form;

static const Form forms[] = {
    { "cpu", 0, false }, { "cpu", 0, true }, { "cuda", 90, false }, { "cuda", 80, false }, { "cuda", 90, true }
};

static void compile_one(TileKernel *kernel, const Form *form)
{
    const Target target = { .kind = target_find(form->target),
                            .cpu = { .isa = ISA_AVX512 },
                            .gpu = gpu_find(form->arch) };
    if (kernel) compile_kernel(kernel, &target, NULL, NULL);
}

static void check_declaration(Program *program, const Decl *decl, const Form *form)
{
    const CheckOptions options = { .target = form->target, .arch = form->arch, .checked = form->checked };
    if (decl->kind == DECL_KERNEL) compile_one(check_kernel(program, decl->name, &options), form);
    if (decl->kind == DECL_OPERATOR) check_operator(program, decl->name, &options);
    if (decl->kind == DECL_REFERENCE) compile_one(check_reference(program, decl->name, &options), form);
    if (decl->kind == DECL_VERIFY) compile_one(check_verify(program, decl->name, &options), form);
    if (decl->kind == DECL_CHECK) check_cases(program, decl->name);
}

// Every kernel with its defaults, in all forms, and what belongs to it; each in memory of its own.
static void check_module(Arena *arena, Module *module)
{
    for (const Decl *decl = module->decls; decl; decl = decl->next)
        for (int i = 0; i < (decl->kind == DECL_CHECK ? 1 : COUNT(forms)); i++) {
            const ArenaMark mark = arena_mark(arena);
            Text report = { .arena = arena };
            Program program = { .arena = arena, .diags = diags_new(arena), .modules = &module, .n_modules = 1 };
            check_declaration(&program, decl, &forms[i]);
            diags_print(program.diags, &report, true);
            arena_rewind(arena, mark);
        }
}

static void run(Arena *arena, const Source *source)
{
    Diags *const diags = diags_new(arena);
    Module *const module = parse_module(arena, diags, source);
    if (diags->errors == 0) {
        check_format(arena, source);
        check_module(arena, module);
    }
    Text report = { .arena = arena };
    diags_print(diags, &report, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *const arena = arena_new();
    if (arena && setjmp(arena->out_of_memory) == 0) {
        arena->limit_bytes = ARENA_BYTES_MAX;
        const char *const text = arena_copy_text(arena, (const char *)data, size);
        const Source source = { .path = "fuzz.tile", .text = text, .length = (int)size };
        run(arena, &source);
    } else if (arena) {
        violated("an input takes more than 512 MB", (const char *)data, "");
    }
    arena_free(arena);
    return 0;
}
