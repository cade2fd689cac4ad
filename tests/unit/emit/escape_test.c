// SPDX-License-Identifier: MIT
// escape_test.c - any bytes stay inside their literal or comment, and a literal means exactly them; the C compiler judges,
// in the mode that reads trigraphs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "emit/emit.h"
#include "emit/escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static Arena *arena;

static int setup(void **state)
{
    arena = arena_new();
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    arena_free(arena);
    return 0;
}

#define HOSTILE(text)                                                                                                  \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }
static const struct {
    const char *bytes;
    size_t n;
} hostile[] = {
    HOSTILE(""),
    HOSTILE("plain"),
    HOSTILE("a\r#include \"/etc/passwd\"\r"),
    HOSTILE("a\n#error b\n"),
    HOSTILE("nul\0 inside\0"),
    HOSTILE("\"); abort(); (\""),
    HOSTILE("back\\"),
    HOSTILE("\\\n#error c"),
    HOSTILE("\\\r\n#error d"),
    HOSTILE("what?\?/"),
    HOSTILE("?\?/\n#error e"),
    HOSTILE("?\?=error ?\?' ?\?( ?\?) ?\?! ?\?< ?\?> ?\?- ?\?\?\?/"),
    HOSTILE("*/ #error f /*"),
    HOSTILE("**//"),
    HOSTILE("/\\\n/ x"),
    HOSTILE("*\\\n/ abort();"),
    HOSTILE("1\0012"),
    HOSTILE("\x80\xff\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80"),
    HOSTILE("\v\f\b\a\t\x1b[31m\x7f"),
    HOSTILE("%s%n{}"),
    HOSTILE("*"),
    HOSTILE("/"),
    HOSTILE("?"),
};

// Every value of a byte, alone between two that it may join, and all in a row.
static const char *every_byte(size_t *n)
{
    Text text = { .arena = arena };
    for (int i = 0; i < 256; i++) {
        const char c = (char)i;
        text_add(&text, &c, 1);
    }
    for (int i = 0; i < 256; i++)
        for (const char *before = "?*/\\0"; *before; before++) {
            const char three[3] = { *before, (char)i, *before };
            text_add(&text, three, 3);
        }
    *n = text.length;
    return text.data;
}

static void add_bytes(Text *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) text_print(out, "%d,", (unsigned char)bytes[i]);
}

// A test of one literal: its bytes, its length, and that only the end is after them.
static void add_literal(Text *out, const char *bytes, size_t n)
{
    text_print(out, "    { static const unsigned char is[] = {");
    add_bytes(out, bytes, n);
    text_print(out, "0};\n      static const char got[] = ");
    escape_string(out, bytes, n);
    text_print(out, ";\n      if (sizeof got != sizeof is || memcmp(got, is, sizeof is) != 0) return %d; }\n",
               __LINE__ & 127);
}

// If a comment ended early or took the next line along, the count would be another, or the text would not compile.
static void add_comments(Text *out, const char *bytes, size_t n)
{
    text_print(out, "    // ");
    escape_comment(out, bytes, n);
    text_print(out, "\n    count++;\n    /* ");
    escape_comment(out, bytes, n);
    text_print(out, " */ count++;\n    //");
    escape_comment(out, bytes, n);
    text_print(out, "\n    count++;\n");
}

static int compile_and_run(const char *text, const char *flags)
{
    char source[] = "/tmp/kiln-escape-XXXXXX.c", command[300];
    const int file = mkstemps(source, 2);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    snprintf(command, sizeof command, "cc %s -o %s.out %s && %s.out", flags, source, source, source);
    const int status = system(command);
    unlink(source);
    snprintf(command, sizeof command, "%s.out", source);
    unlink(command);
    return status;
}

static void literals_and_comments_hold_any_bytes(void **state)
{
    Text text = { .arena = arena };
    size_t n;
    const char *const all = every_byte(&n);
    text_print(&text, "#include <string.h>\nint main(void)\n{\n    int count = 0;\n");
    for (int i = 0; i < COUNT(hostile); i++) {
        add_literal(&text, hostile[i].bytes, hostile[i].n);
        add_comments(&text, hostile[i].bytes, hostile[i].n);
    }
    add_literal(&text, all, n);
    add_comments(&text, all, n);
    text_print(&text, "    return count != %d;\n}\n", 3 * (COUNT(hostile) + 1));
    assert_int_equal(compile_and_run(text_cstr(&text), "-std=c11 -Werror=comment -Wno-trigraphs"), 0);
    assert_int_equal(compile_and_run(text_cstr(&text), "-std=gnu11 -Werror=comment -Wno-trigraphs"), 0);
}

// What a reader sees is left as it was.
static void plain_text_stays_readable(void **state)
{
    Text text = { .arena = arena };
    escape_string(&text,
                  "a\"b\\c\n?\?\xc3\x01"
                  "7",
                  11);
    text_print(&text, " ");
    escape_comment(&text, "for (i : 8) x += \"y\"; // a/b.tile:3", 35);
    assert_string_equal(text_cstr(&text), "\"a\\\"b\\\\c\\n?\\?\\303\\0017\" for (i : 8) x += \"y\"; // a/b.tile:3");
}

// A variable, whatever it is called, has a name of its own in the text.
static void names_of_variables_have_a_prefix(void **state)
{
    static const char *const names[] = { "int", "int32_t", "static_assert", "EOF", "v_int", "errno", "i_2", "i", "i",
                                         NULL,  "t" };
    LoopUnit unit = { .arena = arena };
    LoopList body = loop_list(arena);
    for (int i = 0; i < COUNT(names); i++)
        loop_add(&body,
                 (LoopStmt){ .kind = L_DECLARE, .declare = { .var = loop_new_var(&unit, DTYPE_I32, names[i]) } });
    Expr *const called = expr_call(arena, DTYPE_I32, "v_EOF", 0, NULL); // of an extern function
    loop_add(&body, (LoopStmt){ .kind = L_CALL, .call = { called } });
    LoopFunction function = { .name = "f", .body = body.first };
    VEC_PUSH(arena, &unit.functions, &function);
    Text text = { .arena = arena };
    emit_unit(&text, &unit, &dialect_c);
    assert_string_equal(
        text_cstr(&text),
        "\nstatic void f(void)\n{\n    int32_t v_int;\n    int32_t v_int32_t;\n"
        "    int32_t v_static_assert;\n    int32_t v_EOF_2;\n    int32_t v_v_int;\n    int32_t v_errno;\n"
        "    int32_t v_i_2_1;\n    int32_t v_i;\n    int32_t v_i_2;\n    int32_t v_t;\n    int32_t v_t_2;\n"
        "    v_EOF();\n}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_and_comments_hold_any_bytes),
        cmocka_unit_test(plain_text_stays_readable),
        cmocka_unit_test(names_of_variables_have_a_prefix),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
