// SPDX-License-Identifier: MIT
// parser_test.c - what sources mean, as trees with every parenthesis written out.
#include "syntax_test.h"

// The tree of one statement in a kernel.
static const char *statement(const char *text)
{
    const char *const tree = tree_of(source_of(arena_printf(arena, "kernel k()\n{\n%s\n}\n", text)));
    return strncmp(tree, "kernel k()\n", 11) == 0 ? tree + 11 : tree;
}

// The tree of one expression.
static const char *expression(const char *text)
{
    char *const tree = (char *)statement(arena_printf(arena, "x = %s;", text));
    const size_t n = strlen(tree);
    if (strncmp(tree, "    x = ", 8) != 0) return tree;
    tree[n - 1] = 0;
    return tree + 8;
}

typedef struct Pair {
    const char *text, *tree;
} Pair;

static void expressions(void **state)
{
    static const Pair cases[] = {
        { "1 + 2*3", "(1 + (2 * 3))" },
        { "a - b - c", "((a - b) - c)" },
        { "a @ b + c * d @ e", "((a @ b) + ((c * d) @ e))" },
        { "a << 1 + 2 & 3 ^ 4 | 5", "((((a << (1 + 2)) & 3) ^ 4) | 5)" },
        { "a < b == c > d", "((a < b) == (c > d))" },
        { "a || b && !c", "(a || (b && (!c)))" },
        { "a ? b : c ? d : e", "(a ? b : (c ? d : e))" },
        { "a ? b ? 1 : 2 : 3", "(a ? (b ? 1 : 2) : 3)" },
        { "- -a + ~b", "((-(-a)) + (~b))" },
        { "+a", "a" },
        { "want >> i & 1", "((want >> i) & 1)" },
        { "A[i][j +: 4][:][x +: W : s]", "A[i][j +: 4][:][x +: W : s]" },
        { "A[c ? 1 : 2 +: w ? 3 : 4 : s]", "A[(c ? 1 : 2) +: (w ? 3 : 4) : s]" },
        { "f<8, T>(x, y)", "f<8, T>(x, y)" },
        { "f<N/2>(x) < g(y)", "(f<(N / 2)>(x) < g(y))" },
        { "a < b && c > (d)", "((a < b) && (c > d))" },
        { "g(a < b, c > d)", "g((a < b), (c > d))" },
        { "f<(a > b)>(c)", "f<(a > b)>(c)" },
        { "convert<f32>(x) / 2", "(convert<f32>(x) / 2)" },
        { "T == bf16", "(T == bf16)" },
        { "TARGET == cuda", "(TARGET == cuda)" },
        { "true && present(A)", "(true && present(A))" },
        { "0x10 + 1e-3 + 1.", "((16 + 0.001) + 1.0)" },
        { "max(-rel, 0)", "max((-rel), 0)" },
        { "1 << WIDTH - 1", "(1 << (WIDTH - 1))" },
        { "view + stage + on + grid + in + out + check + input",
          "(((((((view + stage) + on) + grid) + in) + out) + check) + input)" },
    };
    for (int i = 0; i < COUNT(cases); i++) assert_string_equal(expression(cases[i].text), cases[i].tree);
}

static void statements(void **state)
{
    static const Pair cases[] = {
        { "x++; y--;", "    x += 1\n    y -= 1\n" },
        { "m[i] max= s; a min= b; a <<= 1;", "    m[i] max= s\n    a min= b\n    a <<= 1\n" },
        { "const int N = 4, M = 5;", "    const int N = 4, M = 5\n" },
        { "shared T a[4][8] = A[0], b[2];", "    shared T a[4][8] = A[0], b[2]\n" },
        { "cluster shared bf16 k[64];", "    cluster shared bf16 k[64]\n" },
        { "temp f32 P[B + 1];", "    temp f32 P[(B + 1)]\n" },
        { "temp = 3; view = 4;", "    temp = 3\n    view = 4\n" },
        { "view v = A[0], w = B; view f32 x[4] = y; view z[2] = y;",
          "    view v = A[0], w = B\n    view f32 x[4] = y\n    view z[2] = y\n" },
        { "atomic A[0] += 1;", "    atomic A[0] += 1\n" },
        { "if (a) x = 1; else if (b) x = 2; else { x = 3; }",
          "    if a\n        x = 1\n    else\n        if b\n            x = 2\n        else\n            block\n                x = 3\n" },
        { "static if (TARGET == cuda) { }", "    static if (TARGET == cuda)\n        block\n" },
        { "for (int i = 0; i < 4; i++) f(i);", "    for (int i = 0; (i < 4); i += 1)\n        f(i)\n" },
        { "unroll for (;;) break;", "    unroll for (; ; )\n        break\n" },
        { "while (a) continue;", "    while a\n        continue\n" },
        { "forall (i : 4, j : lo .. hi) x = 1;", "    forall (i : 4, j : lo .. hi)\n        x = 1\n" },
        { "pipeline (k : n; stages = 2) { stage 0: x = 1; stage S: y = 2; }",
          "    pipeline (k : n) stages(2)\n        block\n            stage 0\n            x = 1\n            stage S\n            y = 2\n" },
        { "on (0, 1) x = 1;", "    on (0, 1)\n        x = 1\n" },
        { "grid (); grid (x : 4) warps(8) persistent cluster(x = 2);",
          "    grid ()\n    grid (x : 4) warps(8) persistent cluster(x = 2)\n" },
        { "grid (x : 4) warps(8)\n accept(serial, \"why\");", "    grid (x : 4) warps(8) accept(serial, \"why\")\n" },
        { "require(a, \"m\"); assume(b); assert(c, \"n\");",
          "    require(a, \"m\")\n    assume(b)\n    assert(c, \"n\")\n" },
        { "print(\"x\", a, b);", "    print(\"x\", a, b)\n" },
        { "layout(a) = swizzle(128); layout(b) = partial;", "    layout(a) = swizzle(128)\n    layout(b) = partial\n" },
        { "return; return a + b;", "    return\n    return (a + b)\n" },
        { "k<8>(A, none);", "    k<8>(A, none)\n" },
    };
    for (int i = 0; i < COUNT(cases); i++) assert_string_equal(statement(cases[i].text), cases[i].tree);
}

static void declarations(void **state)
{
    static const Pair cases[] = {
        { "import \"a.tile\" import \"b.tile\";", "import \"a.tile\"\nimport \"b.tile\"\n" },
        { "const int N = 4;", "const int N = 4\n" },
        { "fn void f() { }", "fn void f()\n" },
        { "fn T f<type T = f32, int N>(inout T a[N], out T b, f32 c) { return c; }",
          "fn T f<type T = f32, int N>(inout T a[N], out T b, f32 c)\n    return c\n" },
        { "kernel k(optional in strided T A[M][2], out strided f32 B[N]) { }",
          "kernel k(optional in strided T A[M][2], out strided f32 B[N])\n" },
        { "operator o(f32 s) { k(s); }", "operator o(f32 s)\n    k(s)\n" },
        { "extern cuda fn f32 f(f32 x);", "extern cuda fn f32 f(f32 x)\n" },
        { "reference k { x = 1; } reference k<int N>(f32 s) { }",
          "reference k\n    x = 1\nreference k<int N>(f32 s)\n" },
        { "check k<T = {f32, bf16}, N = 4>(M = {1, 2}) { input A = normal(0, 1); input B, D = {none, present}; tolerance: exact; "
          "tolerance C: relative 1e-2, absolute 1; }",
          "check k<T = {f32, bf16}, N = 4>(M = {1, 2})\n    input A = normal(0, 1)\n    input B = {none, present}\n    input D = {none, present}\n    tolerance exact\n"
          "    tolerance C: relative(0.01) absolute(1)\n" },
        { "check k(M = 1) { }", "check k(M = 1)\n" },
        { "verify k { assert(a, \"b\"); }", "verify k\n    assert(a, \"b\")\n" },
    };
    for (int i = 0; i < COUNT(cases); i++) assert_string_equal(tree_of(source_of(cases[i].text)), cases[i].tree);
}

static void spans_cover_what_they_mean(void **state)
{
    const Source *const source = source_of("kernel k() { x = f(a) + b[1]; }");
    const Module *const module = parse_module(arena, diags_new(arena), source);
    const St *const st = module->decls->body;
    const Ex *const value = st->assign.value;
    assert_string_equal(arena_copy_text(arena, source->text + st->span.begin, (size_t)(st->span.end - st->span.begin)),
                        "x = f(a) + b[1];");
    assert_string_equal(
        arena_copy_text(arena, source->text + value->span.begin, (size_t)(value->span.end - value->span.begin)),
        "f(a) + b[1]");
    assert_int_equal(module->decls->span.end, source->length);
    assert_ptr_equal(module->decls->name, intern_text(arena, "k"));
}

static void check_kernel_file(const Source *source)
{
    Diags *const diags = diags_new(arena);
    parse_module(arena, diags, source);
    if (diags->errors) print_error("%s", reported(diags));
    assert_int_equal(diags->errors, 0);
}

static void kernels_parse(void **state) { for_each_kernel_file(check_kernel_file); }

// Every beginning of a kernel, and the kernel without any one byte, gives errors but nothing worse.
static void check_damaged(const Source *source)
{
    const int step = source->length / 40 + 1;
    for (int at = 0; at < source->length; at += step) {
        const ArenaMark mark = arena_mark(arena);
        const Source cut = { .path = "cut", .text = arena_copy_text(arena, source->text, (size_t)at), .length = at };
        parse_module(arena, diags_new(arena), &cut);
        char *const text = arena_copy_text(arena, source->text, (size_t)source->length);
        memmove(text + at, text + at + 1, (size_t)(source->length - at));
        const Source without = { .path = "without", .text = text, .length = source->length - 1 };
        Diags *const diags = diags_new(arena);
        parse_module(arena, diags, &without);
        if (diags->errors > 6) print_error("%d: %s", at, reported(diags));
        assert_true(diags->errors <= 6); // no cascade: `fr (;;)` is the worst, twice in a line
        arena_rewind(arena, mark);
    }
}

static void damaged_kernels_are_survived(void **state) { for_each_kernel_file(check_damaged); }

static void huge_sources_are_refused(void **state)
{
    const Source source = { .path = "huge.tile", .text = "x", .length = 100 << 20 };
    Diags *const diags = diags_new(arena);
    assert_null(parse_module(arena, diags, &source)->decls);
    assert_int_equal(diags->errors, 1);
    assert_true(arena->total_bytes < 1 << 20);
}

static const char *repeated(const char *text, size_t bytes)
{
    char *const all = arena_alloc(arena, bytes + 1);
    for (size_t i = 0; i < bytes; i++) all[i] = text[i % strlen(text)];
    return all;
}

static void the_largest_sources_stay_in_bounds(void **state)
{
    static const char *const patterns[] = {
        "(",     "[",     "{",    "a<",        "a<(",
        "- ",    "a[",    "x=1;", ";",         "}",
        "a+",    "\"",    "/*",   "//\n",      "1",
        "a ? ",  "if(a)", "f(",   "kernel k(", "kernel k<",
        "\xff",  "a ",    "a,",   "{1,",       "check k(M={1},",
        "else ", "x=f<",
    };
    for (int i = 0; i < COUNT(patterns); i++)
        for (int inside = 0; inside < 2; inside++) {
            const ArenaMark mark = arena_mark(arena);
            const char *const text =
                arena_printf(arena, "%s%s", inside ? "kernel k() { x = 1; " : "", repeated(patterns[i], 100000));
            parse_module(arena, diags_new(arena), source_of(text));
            assert_true(arena->total_bytes < (size_t)40 << 20);
            arena_rewind(arena, mark);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(expressions),
        TEST(statements),
        TEST(declarations),
        TEST(spans_cover_what_they_mean),
        TEST(kernels_parse),
        TEST(damaged_kernels_are_survived),
        TEST(huge_sources_are_refused),
        TEST(the_largest_sources_stay_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
