// SPDX-License-Identifier: MIT
// lexer_test.c - words, numbers, strings, and bytes that are none of these.
#include "syntax_test.h"

#include <float.h>
#include <locale.h>

static Lexer lexer;
static Diags *diags;

static Token first_of(const char *text)
{
    diags = diags_new(arena);
    lexer_open(&lexer, arena, diags, source_of(text));
    return lexer_next(&lexer);
}

static void every_spelling_is_its_own_token(void **state)
{
    int n = 0;
    for (TokenKind kind = TOK_LPAREN; kind < TOK_COUNT; kind++, n++) {
        assert_int_equal(first_of(token_spelling(kind)).kind, kind);
        assert_int_equal(lexer_next(&lexer).kind, TOK_END);
        assert_int_equal(diags->errors, 0);
    }
    assert_true(n > 60);
}

static void element_types_are_words(void **state)
{
    for (int type = DTYPE_NONE + 1; type < DTYPE_COUNT; type++) {
        const Token token = first_of(dtype_name((DType)type));
        assert_int_equal(token.kind, TOK_TYPE);
        assert_int_equal(token.type, type);
    }
    assert_int_equal(first_of("f320").kind, TOK_NAME);
    assert_int_equal(first_of("in").kind, TOK_NAME);
}

static void integers(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        { "0", 0 },
        { "42", 42 },
        { "1'000_000", 1000000 },
        { "0xff", 255 },
        { "0XFF", 255 },
        { "0b1011", 11 },
        { "18446744073709551615", UINT64_MAX },
        { "0xffff'ffff'ffff'ffff", UINT64_MAX },
        { "9223372036854775808", 1ull << 63 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const Token token = first_of(cases[i].text);
        assert_int_equal(token.kind, TOK_INT);
        assert_true(token.integer.value == cases[i].value);
        assert_int_equal(diags->errors, 0);
    }
}

static void reals(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        { "1.", 1 },          { ".5", 0.5 },      { "1e-3", 1e-3 }, { "1.5E+2", 150 },    { "0x1p3", 8 },
        { "0x1.8p-1", 0.75 }, { "1e308", 1e308 }, { "0.1", 0.1 },   { "1'0.2_5", 10.25 }, { "1e-999", 0 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const Token token = first_of(cases[i].text);
        assert_int_equal(token.kind, TOK_FLOAT);
        assert_true(token.real == cases[i].value);
        assert_int_equal(diags->errors, 0);
    }
}

static void ranges_are_no_reals(void **state)
{
    assert_int_equal(first_of("0..n").kind, TOK_INT);
    assert_int_equal(lexer_next(&lexer).kind, TOK_DOTDOT);
    assert_int_equal(lexer_next(&lexer).kind, TOK_NAME);
}

static void the_locale_does_not_matter(void **state)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8" };
    bool found = false;
    for (int i = 0; i < COUNT(names) && !found; i++) found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found) print_message("no locale with a decimal comma here: only the C locale is tested\n");
    assert_true(first_of("2.5").real == 2.5);
    setlocale(LC_NUMERIC, "C");
}

static void strings(void **state)
{
    Token token = first_of("\"a\\n\\t\\\\\\\"\xc3\xa9\"");
    assert_int_equal(token.kind, TOK_STRING);
    assert_string_equal(token.string.text, "a\n\t\\\"\xc3\xa9");
    assert_int_equal(token.string.length, 7);
    token = first_of("\"\"");
    assert_int_equal(token.string.length, 0);
    assert_string_equal(token.string.text, "");
}

static void maximum_and_assignment(void **state)
{
    assert_int_equal(first_of("max=").kind, TOK_MAX_ASSIGN);
    assert_int_equal(first_of("min= x").kind, TOK_MIN_ASSIGN);
    assert_int_equal(first_of("max == x").kind, TOK_NAME);
    assert_int_equal(first_of("max==x").kind, TOK_NAME);
    assert_int_equal(first_of("maxi=x").kind, TOK_NAME);
    assert_int_equal(first_of("max(").kind, TOK_NAME);
}

static void lines_and_comments(void **state)
{
    assert_true(first_of("\xef\xbb\xbf"
                         "a b // c\r\n/* d\n */ e /**/ f")
                    .line_start);
    assert_false(lexer_next(&lexer).line_start);
    assert_true(lexer_next(&lexer).line_start);
    assert_false(lexer_next(&lexer).line_start);
    assert_int_equal(lexer_next(&lexer).kind, TOK_END);
    assert_int_equal(diags->errors, 0);
}

static void all_single_bytes_are_survived(void **state)
{
    for (int first = 0; first < 256; first++)
        for (int second = 0; second < 256; second++) {
            const char text[3] = { (char)first, (char)second, 0 };
            const Source source = { .path = "t", .text = text, .length = 2 };
            Lexer one;
            lexer_open(&one, arena, diags_new(arena), &source);
            int n = 0;
            while (lexer_next(&one).kind != TOK_END) n++;
            assert_true(n <= 2);
        }
}

static void build_lists_are_told_from_comparisons(void **state)
{
    // clang-format off
    static const struct { const char *text; bool opens; } cases[] = {
        { "8, T>(x)", true }, { "T>(x)", true }, { "N/2 + 1, f32>(x)", true }, { "(a > b)>(c)", true }, { ">(x)", true },
        { "g<8>(1), T>(x)", true }, { "b", false }, { "b > c", false }, { "b; f > (c)", false }, { "b && c > (d)", false },
        { "b >> (c)", false }, { "b) > (c)", false }, { "8 < 9>(c)", false }, { "b == c>(d)", false },
    };
    // clang-format on
    for (int i = 0; i < COUNT(cases); i++) {
        Lexer behind;
        lexer_open(&behind, arena, NULL, source_of(cases[i].text));
        assert_int_equal(lexer_opens_build_list(behind), cases[i].opens);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_spelling_is_its_own_token),
        TEST(element_types_are_words),
        TEST(integers),
        TEST(reals),
        TEST(ranges_are_no_reals),
        TEST(the_locale_does_not_matter),
        TEST(strings),
        TEST(maximum_and_assignment),
        TEST(lines_and_comments),
        TEST(all_single_bytes_are_survived),
        TEST(build_lists_are_told_from_comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
