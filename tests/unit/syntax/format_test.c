// SPDX-License-Identifier: MIT
// format_test.c - canonical form: what it is, that it is stable, and that it means the same.
#include "syntax_test.h"

static const char *formatted(const Source *source)
{
    Text out = { .arena = arena };
    Diags *const diags = diags_new(arena);
    return format_source(arena, diags, source, &out) ? text_cstr(&out) : reported(diags);
}

static const char *body(const char *statements)
{
    return formatted(source_of(arena_printf(arena, "kernel k()\n{\n%s\n}\n", statements)));
}

static void check_body(const char *statements, const char *expected)
{
    assert_string_equal(body(statements), arena_printf(arena, "kernel k()\n{\n%s}\n", expected));
}

static void spaces(void **state)
{
    check_body("x=a+b*c-d *e;", "    x = a + b*c - d * e;\n");
    check_body("x [ i ] [ : ]=f ( a,b )[j+:4:2];", "    x[i][:] = f(a, b)[j +: 4 : 2];\n");
    check_body("x=-a+ - b*!c;y ++ ;", "    x = -a + -b*!c;\n    y++;\n");
    check_body("x=f < 8 ,T > (a)<b;", "    x = f<8, T>(a) < b;\n");
    check_body("x=a?b:c ;return(a) ;", "    x = a ? b : c;\n    return (a);\n");
    check_body("grid(i:4,j:lo..hi)warps( 8 )cluster(i=2);",
               "    grid (i : 4, j : lo .. hi) warps(8) cluster(i = 2);\n");
    check_body("grid(i:4)accept( serial,\"why\" );", "    grid (i : 4) accept(serial, \"why\");\n");
    check_body("if(a)x=1;else y=2;", "    if (a) x = 1; else y = 2;\n");
    check_body("x  max=  c;  a  =  b;", "    x max= c;\n    a = b;\n");
    check_body("layout ( a )=rows ;on(0)f(a );", "    layout(a) = rows;\n    on (0) f(a);\n");
}

static void lines(void **state)
{
    check_body("if(a){x=1;y=2;}else{z=3;}", "    if (a) {\n        x = 1;\n        y = 2;\n    } else { z = 3; }\n");
    check_body("if (a)\n{\nx=1;\n}\nelse\nif (b)\ny=1;",
               "    if (a) {\n        x = 1;\n    } else if (b)\n        y = 1;\n");
    check_body("forall (i:4) if (a)\nx = 1;", "    forall (i : 4) if (a)\n        x = 1;\n");
    check_body("while(a){}", "    while (a) { }\n");
    check_body("pipeline (k : 4) { stage 0: a = 1; stage 1:\nb = 2; }",
               "    pipeline (k : 4) {\n    stage 0:\n        a = 1;\n    stage 1:\n        b = 2;\n    }\n");
    check_body("\n\n\na = 1;\n\n\n\nb = 2;\n\n", "    a = 1;\n\n    b = 2;\n");
    check_body("a = f(b,\nc);\nd = e\n+ g;", "    a = f(b,\n          c);\n    d = e\n        + g;\n");
}

static void comments(void **state)
{
    check_body("a = 1; // one\nlonger = 2;// two\n// own\n   /* block */ b = 3;",
               "    a = 1;       // one\n    longer = 2;  // two\n    // own\n    /* block */\n    b = 3;\n");
    check_body("a = 1;       // kept\nb = 22;      // kept", "    a = 1;   // kept\n    b = 22;  // kept\n");
    check_body("    a = 1;       // kept\n    b = 22;      // kept",
               "    a = 1;       // kept\n    b = 22;      // kept\n");
    check_body("f(a /* x */, /* y */ b);", "    f(a /* x */, /* y */ b);\n");
    check_body("if (a) // why\n{ x = 1; }", "    if (a)  // why\n    { x = 1; }\n");
    check_body("{ // open\n\na = 1;   \t\n// last\n}", "    {  // open\n        a = 1;\n        // last\n    }\n");
    assert_string_equal(formatted(source_of("\xef\xbb\xbf// only\r\n\r\n\r\n// two  ")), "// only\n\n// two\n");
    assert_string_equal(formatted(source_of("")), "");
}

static void broken_sources_are_left_alone(void **state)
{
    Text out = { .arena = arena };
    Diags *const diags = diags_new(arena);
    assert_false(format_source(arena, diags, source_of("kernel"), &out));
    assert_int_equal(diags->errors, 1);
    assert_int_equal(out.length, 0);
}

// Formatting keeps the tree, and formatting again keeps the text.
static void check_stable(const Source *source)
{
    const char *const once = formatted(source), *const twice = formatted(source_of(once));
    assert_string_equal(once, twice);
    assert_string_equal(tree_of(source), tree_of(source_of(once)));
}

// The same source without line breaks and indentation, as far as line comments allow.
static void check_flattened(const Source *source)
{
    check_stable(source);
    char *const text = arena_copy_text(arena, source->text, (size_t)source->length);
    bool in_comment = false;
    for (char *p = text; *p; p++) {
        if (p[0] == '/' && p[1] == '/') in_comment = true;
        if (*p == '\n' && !in_comment) *p = ' ';
        if (*p == '\n') in_comment = false;
    }
    check_stable(source_of(text));
}

static void kernels_keep_their_meaning(void **state) { for_each_kernel_file(check_flattened); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(spaces),
        TEST(lines),
        TEST(comments),
        TEST(broken_sources_are_left_alone),
        TEST(kernels_keep_their_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
