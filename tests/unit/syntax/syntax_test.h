// SPDX-License-Identifier: MIT
// syntax_test.h - what the tests of the front end share: an arena per test, parsing a text, reading the sample files.
#ifndef KILN_SYNTAX_TEST_H
#define KILN_SYNTAX_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "syntax/ast_print.h"
#include "syntax/format.h"
#include "syntax/lexer.h"
#include "syntax/parser.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

static Arena *arena;

static inline int open_arena(void **state)
{
    arena = arena_new();
    return arena == NULL;
}

static inline int close_arena(void **state)
{
    arena_free(arena);
    return 0;
}

// Calls the test that `state` holds; memory that runs out fails it.
static inline void guarded(void **state)
{
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    else ((void (*)(void **)) * state)(state);
}

#define TEST(name)                                                                                                     \
    {                                                                                                                  \
#name, guarded, open_arena, close_arena, (void *)name                                                          \
    }

static inline const Source *source_of(const char *text)
{
    return NEW(arena, Source, .path = "t.tile", .text = text, .length = (int)strlen(text));
}

static inline const char *reported(const Diags *diags)
{
    Text out = { .arena = arena };
    diags_print(diags, &out, false);
    return text_cstr(&out);
}

// The tree of a source as text; its errors if it has any.
static inline const char *tree_of(const Source *source)
{
    Diags *const diags = diags_new(arena);
    const Module *const module = parse_module(arena, diags, source);
    if (diags->errors) return reported(diags);
    Text out = { .arena = arena };
    ast_print(&out, module);
    return text_cstr(&out);
}

static inline const Source *read_source(const char *path)
{
    FILE *const file = fopen(path, "rb");
    assert_non_null(file);
    static char bytes[1 << 20];
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    assert_true(n < sizeof bytes);
    fclose(file);
    return NEW(arena, Source, .path = arena_printf(arena, "%s", path), .text = arena_copy_text(arena, bytes, n),
               .length = (int)n);
}

// Calls `check` for every kernel of the library; there must be some.
static inline void for_each_kernel_file(void (*check)(const Source *))
{
    glob_t found;
    assert_int_equal(glob(KILN_TEST_DIR "/../kernels/*/*.tile", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 20);
    for (size_t i = 0; i < found.gl_pathc; i++) check(read_source(found.gl_pathv[i]));
    globfree(&found);
}

#endif
