// SPDX-License-Identifier: MIT
// json_test.c - any bytes become a string that is JSON and UTF-8, and what was text stays the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_read.h"

#include <stdlib.h>

static char *quoted(const char *text)
{
    char *out = NULL;
    size_t n;
    FILE *const file = open_memstream(&out, &n);
    assert_non_null(file);
    print_json_text(file, text);
    fclose(file);
    return out;
}

static void expect(const char *text, const char *json)
{
    char *const got = quoted(text);
    assert_string_equal(got, json);
    free(got);
}

static void control_bytes_are_escaped(void **state)
{
    expect("", "\"\"");
    expect("a\"b\\c\n\r\t\x1b[31m\x7f\x01", "\"a\\\"b\\\\c\\n\\u000d\\u0009\\u001b[31m\\u007f\\u0001\"");
    for (int c = 1; c < 128; c++) {
        char *const got = quoted((const char[]){ (char)c, 0 });
        for (const char *p = got; *p; p++) assert_true(*p >= 32 && *p < 127);
        free(got);
    }
}

static void text_in_utf8_stays(void **state)
{
    static const char *const texts[] = { "\xc2\x80",         "\xc3\xa9",        "\xdf\xbf",     "\xe0\xa0\x80",
                                         "\xe2\x82\xac",     "\xed\x9f\xbf",    "\xee\x80\x80", "\xef\xbf\xbf",
                                         "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf" };
    for (int i = 0; i < COUNT(texts); i++) {
        char json[16];
        snprintf(json, sizeof json, "\"%s!\"", texts[i]);
        char text[16];
        snprintf(text, sizeof text, "%s!", texts[i]);
        expect(text, json);
    }
}

static void what_is_no_utf8_is_replaced(void **state)
{
    expect("a\xff"
           "b",
           "\"a\\ufffdb\"");
    expect("\x80", "\"\\ufffd\"");
    expect("\xc3", "\"\\ufffd\""); // cut off by the end
    expect("\xe2\x82", "\"\\ufffd\\ufffd\"");
    expect("\xf0\x9f\x98\"", "\"\\ufffd\\ufffd\\ufffd\\\"\""); // the quote is not swallowed
    expect("\xc0\xaf", "\"\\ufffd\\ufffd\"");                  // longer than need be
    expect("\xe0\x80\xa2", "\"\\ufffd\\ufffd\\ufffd\"");
    expect("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");            // a surrogate
    expect("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); // past the last
}

// ---- reading

static Arena *arena;

static const Json *read(const char *text) { return json_read(arena, text, strlen(text)); }

static void values_are_read(void **state)
{
    const Json *const json = read(" {\"a\": [1, -2.5e1, true, null, \"x\"], \"b\" : {\"c\":\"d\"}, \"n\": 7} ");
    assert_non_null(json);
    assert_string_equal(json_text(json, "b.c", "-"), "d");
    assert_string_equal(json_text(json, "b.e", "-"), "-");
    assert_string_equal(json_text(json, "n", "-"), "-"); // no string
    assert_int_equal(json_int(json, "n", 0), 7);
    assert_int_equal(json_int(json, "b.c", 3), 3);
    const Json *one = json_at(json, "a")->first;
    assert_true(one->number == 1 && one->next->number == -25 && one->next->next->kind == JSON_TRUE);
    assert_null(json_at(json, "a.0"));
}

static void strings_are_read(void **state)
{
    assert_string_equal(read("\"a\\n\\\"\\u00e4\\ud83d\\ude00\\/\"")->text, "a\n\"\xc3\xa4\xf0\x9f\x98\x80/");
    assert_string_equal(read("\"\\ud83dx\\u0000\"")->text, "\xef\xbf\xbdx\xef\xbf\xbd"); // half a pair; a zero byte
}

static void what_is_no_json_is_refused(void **state)
{
    static const char *const wrong[] = { "",      "{",   "[1,]", "{\"a\"}", "{\"a\":}",
                                         "{a:1}", "\"",  "\"\\", "\"\\x\"", "\"\\u12\"",
                                         "tru",   "1 2", "--",   "]",       "{\"a\":1,}" };
    char deep[200];
    for (int i = 0; i < COUNT(wrong); i++)
        if (read(wrong[i])) fail_msg("'%s' is taken", wrong[i]);
    memset(deep, '[', 100), memset(deep + 100, ']', 100);
    assert_null(json_read(arena, deep, 200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(strings_are_read),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(control_bytes_are_escaped),
        cmocka_unit_test(text_in_utf8_stays),
        cmocka_unit_test(what_is_no_utf8_is_replaced),
    };
    arena = arena_new();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(arena);
    return failed;
}
