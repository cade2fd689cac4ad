// SPDX-License-Identifier: MIT
// passes_test.c - every pass over its file in tests/language/passes: what it leaves, as text, and that it verifies.
//
// PASS.tile is run through the checker and PASS; all its kernels after that, one after the other, are PASS.expect.
// KILN_UPDATE_GOLDEN=1 rewrites the expectations instead of comparing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "compile/compile.h"
#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum Build { PLAIN, CHECKED, WITHOUT_BOXES } Build;
typedef struct Case {
    const char *name;
    void (*run)(TileKernel *kernel);
    Build build;
} Case;
static const Case cases[] = { { "simplify", simplify, PLAIN },
                              { "split_bounds", split_bounds, PLAIN },
                              { "trace_foralls", trace_foralls, CHECKED },
                              { "split_quotients", split_quotients, PLAIN },
                              { "widen_sums", widen_sums, PLAIN },
                              { "hoist_choices", hoist_choices, PLAIN },
                              { "scalar_loops", scalar_loops, PLAIN },
                              { "forward_indices", forward_indices, PLAIN },
                              { "sink_tiles", sink_tiles, PLAIN },
                              { "open_views", open_views, PLAIN },
                              { "make_copies", make_copies, PLAIN },
                              { "forward_copies", forward_copies, PLAIN },
                              { "cover_fragments", cover_fragments, PLAIN },
                              { "index_constants", index_constants, PLAIN },
                              { "split_groups", split_groups, PLAIN },
                              { "join_indices", join_indices, PLAIN },
                              { "whole_slices", whole_slices, PLAIN },
                              { "lift_branches", lift_branches, PLAIN },
                              { "pack_tiles", pack_tiles, PLAIN },
                              { "pack_tiles_without_boxes", pack_tiles, WITHOUT_BOXES },
                              { "halve_steps", halve_steps, PLAIN } };

static const char *path_of(Arena *arena, const char *name, const char *ending)
{
    const char *const here = __FILE__, *const end = strstr(here, "unit/passes/");
    assert_non_null(end);
    return arena_printf(arena, "%.*slanguage/passes/%s.%s", (int)(end - here), here, name, ending);
}

static const char *read_text(Arena *arena, const char *path)
{
    FILE *const file = fopen(path, "rb");
    if (!file) return "";
    Text text = { .arena = arena };
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) text_add(&text, part, n);
    fclose(file);
    return text_cstr(&text);
}

static void verify(const TileKernel *kernel, Arena *arena)
{
    Text why = { .arena = arena };
    if (!tile_verify(kernel, &why)) fail_msg("%s: %s", kernel->name, text_cstr(&why));
}

static void run_kernels(Arena *arena, const Case *one, Text *out)
{
    Diags *const diags = diags_new(arena);
    Program *const program = program_load(arena, diags, path_of(arena, one->name, "tile"));
    for (const Decl *decl = program->n_modules ? program->modules[0]->decls : NULL; decl; decl = decl->next) {
        if (decl->kind != DECL_KERNEL) continue;
        TileKernel *const kernel =
            check_kernel(program, decl->name, &(CheckOptions){ .target = "cpu", .checked = one->build == CHECKED });
        if (!kernel) break;
        verify(kernel, arena);
        kernel->shared_bytes = 227 * 1024;
        kernel->has_boxes = one->build != WITHOUT_BOXES;
        one->run(kernel);
        verify(kernel, arena);
        tile_print(out, kernel);
        text_print(out, "\n");
    }
    if (diags->errors) {
        Text messages = { .arena = arena };
        diags_print(diags, &messages, false);
        fail_msg("%s", text_cstr(&messages));
    }
}

static void test_pass(void **state)
{
    const Case *const one = *state;
    Arena *const arena = arena_new();
    assert_non_null(arena);
    assert_int_equal(setjmp(arena->out_of_memory), 0);
    Text out = { .arena = arena };
    run_kernels(arena, one, &out);
    assert_true(out.length > 0);
    const char *const path = path_of(arena, one->name, "expect");
    if (getenv("KILN_UPDATE_GOLDEN")) {
        FILE *const file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(out.data, 1, out.length, file), out.length);
        fclose(file);
    } else {
        assert_string_equal(text_cstr(&out), read_text(arena, path));
    }
    arena_free(arena);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases)];
    for (int i = 0; i < COUNT(cases); i++)
        tests[i] =
            (struct CMUnitTest){ .name = cases[i].name, .test_func = test_pass, .initial_state = (void *)&cases[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
