// SPDX-License-Identifier: MIT
// diag_test.c - how diagnostics are kept, sorted and shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/diag.h"

static Arena *arena;

static int open_arena(void **state)
{
    arena = arena_new();
    return arena == NULL;
}

static int close_arena(void **state)
{
    arena_free(arena);
    return 0;
}

// Calls the test that `state` holds; memory that runs out fails it.
static void guarded(void **state)
{
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    else ((void (*)(void **)) * state)(state);
}

#define TEST(name)                                                                                                     \
    {                                                                                                                  \
#name, guarded, open_arena, close_arena, (void *)name                                                          \
    }

static Source source_of(const char *text)
{
    return (Source){ .path = "a.tile", .text = text, .length = (int)strlen(text) };
}

static Span at(const Source *source, const char *what)
{
    const int begin = (int)(strstr(source->text, what) - source->text);
    return (Span){ source, begin, begin + (int)strlen(what) };
}

static const char *shown(const Diags *diags)
{
    Text out = { .arena = arena };
    diags_print(diags, &out, false);
    return text_cstr(&out);
}

static void the_place_is_underlined(void **state)
{
    const Source source = source_of("first\n    acc += a @ b;\nlast");
    Diags *const diags = diags_new(arena);
    assert_false(diag_error(diags, at(&source, "a @ b"), "inner extents differ: %d and %d", 64, 128));
    diag_note(diags, at(&source, "first"), "'b' is here");
    diag_help(diags, at(&source, "b;"), "transpose");
    assert_string_equal(shown(diags), "a.tile:2:12: error: inner extents differ: 64 and 128\n"
                                      "    acc += a @ b;\n"
                                      "           ^~~~~\n"
                                      "a.tile:1:1: note: 'b' is here\n"
                                      "a.tile:2:16: help: transpose\n");
}

static void tabs_and_wide_characters_keep_the_columns(void **state)
{
    const Source source = source_of("\t\"\xc3\xa9\" +\tx;\r\n");
    Diags *const diags = diags_new(arena);
    diag_error(diags, at(&source, "x"), "m");
    assert_string_equal(shown(diags), "a.tile:1:9: error: m\n\t\"\xc3\xa9\" +\tx;\n\t     \t^\n");
}

static void bytes_that_are_no_text_are_not_printed(void **state)
{
    const Source source = { .path = "a.tile", .text = "a\0\xff\x1b[2J", .length = 7 };
    Diags *const diags = diags_new(arena);
    diag_error(diags, (Span){ &source, 1, 3 }, "m");
    assert_string_equal(shown(diags), "a.tile:1:2: error: m\na???[2J\n ^~\n");
}

static void long_lines_are_clipped_around_the_place(void **state)
{
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = 0;
    text[500] = '!';
    const Source source = source_of(text);
    Diags *const diags = diags_new(arena);
    diag_error(diags, at(&source, "!"), "m");
    char *const line = strchr(shown(diags), '\n') + 1, *const under = strchr(line, '\n') + 1;
    assert_true(under - line < 130);
    assert_memory_equal(line, "...xxx", 6);
    assert_memory_equal(under - 5, "x...", 4);
    assert_int_equal(strchr(line, '!') - line, strchr(under, '^') - under);
}

static void messages_are_sorted_and_keep_their_notes(void **state)
{
    const Source source = source_of("a b c");
    Diags *const diags = diags_new(arena);
    diag_error(diags, at(&source, "c"), "third");
    diag_note(diags, at(&source, "a"), "of third");
    diag_error(diags, at(&source, "a"), "first");
    diag_error(diags, at(&source, "b"), "second");
    assert_string_equal(shown(diags), "a.tile:1:1: error: first\na b c\n^\n"
                                      "a.tile:1:3: error: second\na b c\n  ^\n"
                                      "a.tile:1:5: error: third\na b c\n    ^\na.tile:1:1: note: of third\n");
}

static void one_error_per_span(void **state)
{
    const Source source = source_of("a b");
    Diags *const diags = diags_new(arena);
    diag_error(diags, at(&source, "a"), "kept");
    diag_error(diags, at(&source, "a"), "dropped");
    diag_note(diags, at(&source, "b"), "dropped with it");
    diag_error(diags, (Span){ 0 }, "nowhere");
    diag_error(diags, (Span){ 0 }, "nowhere else");
    assert_int_equal(diags->errors, 3);
    assert_string_equal(shown(diags), "a.tile:1:1: error: kept\na b\n^\nerror: nowhere\nerror: nowhere else\n");
}

static void errors_past_the_limit_are_counted(void **state)
{
    const Source source = source_of("abcdefgh");
    Diags *const diags = diags_new(arena);
    diags->limit = 2;
    for (int i = 0; i < 5; i++) diag_error(diags, (Span){ &source, i, i + 1 }, "e%d", i);
    assert_int_equal(diags->errors, 5);
    assert_string_equal(shown(diags), "a.tile:1:1: error: e0\nabcdefgh\n^\na.tile:1:2: error: e1\nabcdefgh\n ^\n"
                                      "5 errors, the first 2 are shown\n");
}

static void the_end_of_a_file_can_be_shown(void **state)
{
    const Source source = source_of("a b"), empty = source_of("");
    Diags *const diags = diags_new(arena);
    diag_error(diags, (Span){ &source, 3, 3 }, "m");
    diag_error(diags, (Span){ &empty, 0, 0 }, "n");
    assert_string_equal(shown(diags), "a.tile:1:4: error: m\na b\n   ^\na.tile:1:1: error: n\n\n^\n");
}

static void positions_count_from_one(void **state)
{
    const Source source = source_of("ab\n\ncd");
    assert_int_equal(source_position(&source, 0).column, 1);
    assert_int_equal(source_position(&source, 2).column, 3);
    assert_int_equal(source_position(&source, 3).line, 2);
    assert_int_equal(source_position(&source, 5).line, 3);
    assert_int_equal(source_position(&source, 5).column, 2);
    assert_int_equal(source_position(&source, 1000).column, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_place_is_underlined),
        TEST(tabs_and_wide_characters_keep_the_columns),
        TEST(bytes_that_are_no_text_are_not_printed),
        TEST(long_lines_are_clipped_around_the_place),
        TEST(messages_are_sorted_and_keep_their_notes),
        TEST(one_error_per_span),
        TEST(errors_past_the_limit_are_counted),
        TEST(the_end_of_a_file_can_be_shown),
        TEST(positions_count_from_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
