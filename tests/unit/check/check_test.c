// SPDX-License-Identifier: MIT
// check_test.c - what the checker makes of sources: Tile IR piece by piece, and all of the worked kernels.
#include "compile/compile.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

static Arena *arena;
static Diags *diags;

static int open_arena(void **state)
{
    arena = arena_new();
    diags = diags_new(arena);
    return arena ? 0 : 1;
}

static int close_arena(void **state)
{
    arena_free(arena);
    return 0;
}

static void print_diags(void)
{
    Text text = { .arena = arena };
    diags_print(diags, &text, false);
    fputs(text_cstr(&text), stderr);
}

static const TileKernel *verified(TileKernel *kernel)
{
    Text why = { .arena = arena };
    if (!kernel) print_diags();
    assert_non_null(kernel);
    if (!tile_verify(kernel, &why)) fail_msg("%s: %s", kernel->key, text_cstr(&why));
    return kernel;
}

static const char *printed(const TileKernel *kernel)
{
    Text text = { .arena = arena };
    tile_print(&text, kernel);
    return text_cstr(&text);
}

static Program *program_of(const char *source)
{
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    Program *const program = program_from_text(arena, diags, "test.tile", source, strlen(source));
    if (diags->errors) print_diags();
    assert_int_equal(diags->errors, 0);
    return program;
}

static const char *check_source(const char *source, const Binding *bindings, int n)
{
    const CheckOptions options = { .target = "cpu", .bindings = bindings, .n_bindings = n };
    return printed(verified(check_kernel(program_of(source), "k", &options)));
}

// The kernel's body is `body`; X, Y, L, C, n, s are at hand.
static const char *check_body(const char *body)
{
    return check_source(
        arena_printf(
            arena,
            "fn f32 early(f32 x) { if (x < 0) return 0; x *= 2; return x; }\n"
            "fn f32 first(in f32 t[N], f32 a) { for (int i = 0; i < N; i++) if (t[i] > a) return t[i]; return 0; }\n"
            "fn f32 half(f32 x) { return x / 2; }\n"
            "kernel k<int W = 4>(in f32 X[M][64], in i32 L[M], out f32 Y[M][64], inout i32 C[M], optional in f32 Z[M], int n, f32 s)\n"
            "{ grid (m : M); shared f32 t[64] = X[m]; %s }\n",
            body),
        NULL, 0);
}

static void expect(const char *text, const char *piece)
{
    if (!strstr(text, piece)) fail_msg("expected\n%s\nin\n%s", piece, text);
}

static void expect_not(const char *text, const char *piece)
{
    if (strstr(text, piece)) fail_msg("did not expect\n%s\nin\n%s", piece, text);
}

// ---- functions

static void functions_become_their_expression(void **state)
{
    expect(check_body("Y[m][0] = half(s) + 1;"), "Y[m][0] = s/2.0 + 1.0;");
}

static void early_returns_become_branches(void **state)
{
    expect(
        check_body("Y[m][0] = early(s);"),
        "    if (x < 0.0) {\n        early = 0.0;\n    } else {\n        x = x*2.0;\n        early = x;\n    }\n    Y[m][0] = early;");
}

static void returns_from_loops_leave_them(void **state)
{
    const char *const text = check_body("Y[m][0] = first(t, s);");
    expect(text, "returned = true;\n            break;");
    expect(text, "if (!returned) {\n        first = 0.0;\n    }");
}

static void arguments_that_change_are_copied(void **state)
{
    const char *const text = check_body("f32 v = s; v += early(v); Y[m][0] = v;");
    expect(text, "f32 x = v;");
    expect(text, "v = v + early;");
}

// ---- conditions

static void build_time_conditions_discard_the_other_side(void **state)
{
    const char *const text =
        check_body("if (W > 3 || missing > 2) Y[m][0] = W == 4 ? s : missing; else Y[m][missing] = 1;");
    expect(text, "Y[m][0] = s;");
    expect_not(text, "if (");
}

static void builds_know_whether_they_are_checked(void **state)
{
    Program *const program =
        program_of("kernel k<int BM = CHECKED ? 16 : 64>(in f32 A[M], out f32 Y[M]) { grid (m : M);"
                   "shared f32 a[BM] = A[m*BM +: BM]; if (CHECKED) Y[m] = a[1]; else Y[m] = a[2]; }");
    for (int i = 0; i < 4; i++) {
        const CheckOptions options = { .target = i / 2 ? "cuda" : "cpu", .arch = i / 2 ? 90 : 0, .checked = i % 2 };
        const char *const text = printed(verified(check_kernel(program, "k", &options)));
        expect(text, options.checked ? "shared f32 a[16];" : "shared f32 a[64];");
        expect(text, options.checked ? "Y[m] = a[1];" : "Y[m] = a[2];");
        expect_not(text, options.checked ? "a[2]" : "a[1];");
        expect_not(text, "if (");
    }
}

static void arms_that_need_statements_become_ifs(void **state)
{
    const char *const text = check_body("Y[m][0] = n > 3 ? early(s) : s;");
    expect(text, "if (n > 3) {");
    expect(text, "chosen = s;");
}

static void continue_in_forall_nests_the_rest(void **state)
{
    const char *const text = check_body("forall (i : 64) { if (t[i] > 2) continue; Y[m][i] = 1; }");
    expect(text, "if (!(t[i] > 2.0)) {\n            Y[m][i] = 1.0;\n        }");
    expect_not(text, "continue");
}

// ---- loops

static void loops_that_count_are_counted(void **state)
{
    expect(check_body("for (int i = 0; i <= n; i += 2) Y[m][i] = 1;"), "for (i : 0 .. n + 1 step 2)");
    expect(check_body("for (int i = 10; i >= 0; i -= 3) Y[m][i] = 1;"),
           "for (i : 0 .. 4) {\n        Y[m][10 - i*3] = 1.0;");
}

static void loops_whose_bound_changes_are_not(void **state)
{
    const char *const text = check_body("int q = n; for (int i = 0; i < q; i++) q -= 1;");
    expect(text, "while (i < q) {");
    expect(text, "step {");
}

static void unrolled_loops_know_their_index(void **state)
{
    const char *const text = check_body("unroll for (int i = 1; i < 5; i *= 2) { shared f32 u[i]; u[i - 1] = i; }");
    expect(text, "shared f32 u.3[4];");
    expect(text, "u.3[3] = 4.0;");
}

static void breaks_of_unrolled_loops_nest_the_rest(void **state)
{
    expect(
        check_body("unroll for (int i = 0; i < 2; i++) { if (L[i] > 2) break; Y[m][i] = 1; } Y[m][9] = 2;"),
        "    if (L[0] <= 2) {\n        Y[m][0] = 1.0;\n        if (L[1] <= 2) {\n            Y[m][1] = 1.0;\n        }\n    }\n    Y[m][9] = 2.0;");
}

static void a_continue_skips_the_rest_of_its_step_only(void **state)
{
    expect(check_body("unroll for (int i = 0; i < 2; i++) { if (L[i] > 2) continue; Y[m][i] = 1; }"),
           "    if (L[0] <= 2) {\n        Y[m][0] = 1.0;\n    }\n    if (L[1] <= 2) {\n        Y[m][1] = 1.0;\n    }");
    // A return after it cannot be nested: the next step runs where `continue` was taken.
    expect(
        check_source(
            "fn int f(in i32 L[N]) { unroll for (int i = 0; i < 2; i++) { if (L[i] > 2) continue; return i; } return 9; }\n"
            "kernel k(in i32 L[M], out i32 Y[M]) { grid (m : M); Y[m] = f(L); }",
            NULL, 0),
        "    if (L[0] <= 2) {\n        f = 0;\n        returned = true;\n    }\n    if (!returned) {\n        if (L[1] <= 2) {\n            f = 1;");
}

// ---- arithmetic

static void literals_take_the_other_type(void **state)
{
    expect(check_body("Y[m][0] = s * 2 + LOG2E;"), "s*2.0 + 1.442695");
    expect(check_body("u32 b = bitcast<u32>(s); C[m] = b | 0x80000000;"), "b | 2147483648");
    expect(check_body("Y[m][0] = s * (n > 3 ? 1 : 0.5);"), "s*(n > 3 ? 1.0 : 0.5)");
}

static void narrow_types_are_widened(void **state)
{
    expect(check_body("shared bf16 a[64]; shared i8 b[64]; forall (i : 64) a[i] = a[i] * b[i];"),
           "a[i] = convert<bf16>(convert<f32>(a[i])*convert<f32>(b[i]));");
    expect(check_body("C[m] = L[m] + n;"), "C[m] = convert<i32>(convert<int>(L[m]) + n);");
}

// ---- forall

static void fewer_subscripts_than_indices_reduce(void **state)
{
    const char *const text = check_body(
        "shared f32 u[64][64], v[64]; u = 0; v = 0; f32 all = 0;"
        "forall (i : 64, j : 64) v[i] += u[i][j]; forall (i : 64, j : 64) u[i][j] *= v[i]; forall (i : 64) all max= v[i];");
    expect(text, "v[i] += u[i][j];  // reduction");
    expect(text, "u[i.2][j.2] *= v[i.2];\n");
    expect(text, "all max= v[i.3];  // reduction");
}

static void mixed_radix_subscripts_tell_apart(void **state)
{
    expect_not(
        check_body("shared f32 u[64]; forall (i : 16, j : 4) u[i*4 + j] = 1; forall (i : 16, j : 4) u[i*4 + j] += 1;"),
        "reduction");
    expect(check_body("shared f32 u[16]; u = 0; forall (i : 4, j : 4, h : 3) u[i*4 + j] += t[h];"), "// reduction");
}

static void slices_in_forall_are_row_copies(void **state)
{
    expect(check_body("shared f32 u[8][64]; forall (r : 8) u[r] = X[L[r]];"), "u[r][:] = X[convert<int>(L[r])][:];");
}

// ---- shapes, views

static void symbols_are_bound_once_then_checked(void **state)
{
    const char *const text = check_source(
        "kernel k<int N = 8>(in f32 A[M][N], in i32 F[B + 1], in f32 D[M][2*B], out f32 Y[M]) { grid (m : M); Y[m] = B; }",
        NULL, 0);
    expect(text, "M = extent 0 of A");
    expect(text, "extent 1 of A must be 8");
    expect(text, "B = extent 0 of F - 1");
    expect(text, "extent 1 of D must be B*2");
}

static void bindings_make_constants(void **state)
{
    const Binding bindings[] = { { .name = "M", .kind = BIND_INT, .integer = 5 },
                                 { .name = "s", .kind = BIND_FLOAT, .real = 0.5 } };
    const char *const text =
        check_source("kernel k(in f32 A[M], out f32 Y[M], f32 s) { grid (m : M); Y[m] = s * M; }", bindings, 2);
    expect(text, "extent 0 of A must be 5");
    expect(text, "Y[m] = 2.5;");
    expect(text, "s == 0.5");
}

static void absent_tensors_are_constants_too(void **state)
{
    const Binding none = { .name = "Z", .kind = BIND_NONE };
    const char *const source =
        "kernel k(optional in f32 Z[M], out f32 Y[M]) { grid (m : M); if (present(Z)) Y[m] = Z[m]; else Y[m] = 7; }";
    expect(check_source(source, &none, 1), "Y[m] = 7.0;");
    expect(check_source(source, NULL, 0), "Y[m] = Z[m];");
}

static void views_keep_what_they_were_made_of(void **state)
{
    const char *const text = check_body("int q = n; view w = X[L[m]][q +: 3]; q = 0; Y[m][0] = w[1];");
    expect(text, "int at = convert<int>(L[m]);");
    expect(text, "int at.2 = q;");
}

static void preconditions_teach_ranges(void **state)
{
    expect(
        check_source(
            "kernel k(in f32 A[M], out f32 Y[M]) { require(M % 64 == 0 && M > 8, \"x\"); grid (m : M / 64); Y[m*64 % 64 + (M > 3 ? 0 : 1)] = 1; }",
            NULL, 0),
        "Y[0] = 1.0;");
}

// ---- all kernels of the library

enum { ABSENT = 3 };
typedef struct Fixed {
    const char *kernel;
    const char *absent[ABSENT];
} Fixed;

// Kernels whose options exclude each other, or that take none of another kernel's.
static const Fixed fixed[] = { { "masked_mha", { "POOL2" } },   { "gemm_row", { "UP", "UPS", "UPB" } },
                               { "quant_bytes_gemv", { "Z" } }, { "quant_by_bytes", { "Z" } },
                               { "quant_bytes_row", { "Z" } },  { "quant_bytes_ring", { "Z" } } };

static void check_declarations(Program *program)
{
    for (const Decl *decl = program->modules[0]->decls; decl; decl = decl->next) {
        Binding none[ABSENT];
        CheckOptions options = { .target = "cuda", .bindings = none };
        for (int i = 0; i < COUNT(fixed); i++)
            for (int j = 0; j < ABSENT && strcmp(fixed[i].kernel, decl->name) == 0 && fixed[i].absent[j]; j++)
                none[options.n_bindings++] = (Binding){ .kind = BIND_NONE, .name = fixed[i].absent[j] };
        if (decl->kind == DECL_KERNEL) verified(check_kernel(program, decl->name, &options));
        if (decl->kind == DECL_REFERENCE) verified(check_reference(program, decl->name, &options));
        if (decl->kind == DECL_VERIFY) verified(check_verify(program, decl->name, &options));
        if (decl->kind == DECL_CHECK) assert_non_null(check_cases(program, decl->name));
        if (decl->kind != DECL_OPERATOR) continue;
        const OperatorPlan *const plan = check_operator(program, decl->name, &options);
        if (!plan) print_diags();
        assert_non_null(plan);
        for (int i = 0; i < plan->n_steps; i++) verified(plan->steps[i].kernel);
    }
}

static void kernels_pass(void **state)
{
    glob_t found;
    assert_int_equal(glob(KILN_TEST_DIR "/../kernels/*/*.tile", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 20);
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    for (volatile size_t i = 0; i < found.gl_pathc; i++) {
        Program *const program = program_load(arena, diags, found.gl_pathv[i]);
        if (diags->errors) print_diags();
        assert_int_equal(diags->errors, 0);
        check_declarations(program);
    }
    globfree(&found);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_arena, close_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(functions_become_their_expression),
        TEST(early_returns_become_branches),
        TEST(returns_from_loops_leave_them),
        TEST(arguments_that_change_are_copied),
        TEST(build_time_conditions_discard_the_other_side),
        TEST(builds_know_whether_they_are_checked),
        TEST(arms_that_need_statements_become_ifs),
        TEST(continue_in_forall_nests_the_rest),
        TEST(loops_that_count_are_counted),
        TEST(loops_whose_bound_changes_are_not),
        TEST(unrolled_loops_know_their_index),
        TEST(breaks_of_unrolled_loops_nest_the_rest),
        TEST(a_continue_skips_the_rest_of_its_step_only),
        TEST(literals_take_the_other_type),
        TEST(narrow_types_are_widened),
        TEST(fewer_subscripts_than_indices_reduce),
        TEST(mixed_radix_subscripts_tell_apart),
        TEST(slices_in_forall_are_row_copies),
        TEST(symbols_are_bound_once_then_checked),
        TEST(bindings_make_constants),
        TEST(absent_tensors_are_constants_too),
        TEST(views_keep_what_they_were_made_of),
        TEST(preconditions_teach_ranges),
        TEST(kernels_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
