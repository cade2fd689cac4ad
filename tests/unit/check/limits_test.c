// SPDX-License-Identifier: MIT
// limits_test.c - the limits of the language, each at it and one past it, for every target; and that building grows with
// what is built: four times the source takes about four times the memory and time.
//
// A source is made of pieces that are repeated: in them `#` is the number of the piece, '`' that of the next.
#include "compile/compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../skip.h"

typedef struct Shape {
    const char *head, *piece, *middle, *closing, *tail;
} Shape;

static void add_piece(Text *out, const char *piece, int i)
{
    for (; piece && *piece; piece++) {
        if (*piece == '#') text_print(out, "%d", i);
        else if (*piece == '`') text_print(out, "%d", i + 1);
        else text_add(out, piece, 1);
    }
}

static const char *source_of(Arena *arena, const Shape *shape, int n)
{
    Text out = { .arena = arena };
    add_piece(&out, shape->head, n);
    for (int i = 0; i < n; i++) add_piece(&out, shape->piece, i);
    add_piece(&out, shape->middle, n);
    for (int i = 0; i < n && shape->closing; i++) add_piece(&out, shape->closing, i);
    add_piece(&out, shape->tail, n);
    return text_cstr(&out);
}

// ---- building it: for a CPU and two kinds of GPU, to source text

// clang-format off
static const Target targets[] = {
    { .kind = &target_cpu, .cpu = { .isa = ISA_AVX512 } },
    { .kind = &target_cuda, .gpu = &gpu_sm_90a },
    { .kind = &target_cuda, .gpu = &gpu_sm_80 },
};
// clang-format on

typedef enum { BUILD_ALL, CHECK_ONLY } How;

static void compile_all(Program *program, const char *kernel, const Target *target, How how, bool checked)
{
    const CheckOptions options = { .target = target->kind->name, .arch = target_arch(target), .checked = checked };
    check_cases(program, kernel);
    check_reference(program, kernel, &options);
    TileKernel *const k = program->diags->errors ? NULL : check_kernel(program, kernel, &options);
    if (k && how == BUILD_ALL) compile_kernel(k, target, NULL, NULL);
}

typedef struct Outcome {
    char report[2000];
    size_t bytes;
    double seconds;
} Outcome;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static Outcome build(const Shape *shape, int n, const Target *target, How how, bool checked)
{
    Outcome outcome = { .report = "" };
    Arena *const arena = arena_new();
    assert_non_null(arena);
    if (setjmp(arena->out_of_memory)) {
        snprintf(outcome.report, sizeof outcome.report, "out of memory");
    } else {
        arena->limit_bytes = (size_t)512 << 20;
        const char *const source = source_of(arena, shape, n);
        const double start = now();
        Diags *const diags = diags_new(arena);
        Program *const program = program_from_text(arena, diags, "limit.tile", source, strlen(source));
        if (!diags->errors) compile_all(program, "k", target, how, checked);
        outcome.seconds = now() - start;
        Text text = { .arena = arena };
        diags_print(diags, &text, false);
        snprintf(outcome.report, sizeof outcome.report, "%s", text_cstr(&text));
    }
    outcome.bytes = arena->total_bytes;
    arena_free(arena);
    return outcome;
}

// ---- limits

typedef struct Limit {
    const char *name;
    Shape shape;
    int at;
    const char *message;
    How how;
} Limit;

#define KERNEL "kernel k(inout f32 A[N])\n{\n    grid ();\n"

// clang-format off
static const Limit limits[] = {
    { "blocks in each other", { KERNEL, "if (A[#] > 0) {\n", "A[0] = 1;", "}", "}" }, 98, "nested more than 200 levels deep", BUILD_ALL },
    { "parentheses", { KERNEL "A[0] = ", "(", "1", ")", ";\n}" }, 198, "nested more than 200 levels deep", BUILD_ALL },
    { "else if", { KERNEL, "if (A[#] > 0) A[#] = #; else\n", "A[0] = 1;\n}", NULL, NULL }, 197, "nested more than 200 levels deep", BUILD_ALL },
    { "blocks of functions",
      { "fn f32 f0_(f32 x) { return x; }\n",
        "fn f32 f`_(f32 x) { f32 r = 0; if (x > 0) { if (x > 1) { if (x > 2) r = f#_(x); } } return r; }\n",
        KERNEL "A[0] = f#_(A[1]);\n}", NULL, NULL }, 49, "nested more than 200 levels deep", BUILD_ALL },
    { "functions in each other",
      { "fn f32 f0_(f32 x) { return x; }\n", "fn f32 f`_(f32 x) { return f#_(x) + 1; }\n", KERNEL "A[0] = f#_(A[1]);\n}", NULL, NULL },
      63, "more than 64 functions inlined into each other", BUILD_ALL },
    { "constants in each other",
      { "const int c0_ = 1;\n", "const int c`_ = c#_ + 1;\n", KERNEL "A[0] = c#_;\n}", NULL, NULL }, 63,
      "more than 64 constants computed from each other", BUILD_ALL },
    { "returns behind each other", { KERNEL, "if (A[#] > 0) return;\nA[#] = #;\n", "}", NULL, NULL }, 199,
      "nested more than 200 levels deep, counting functions and what follows an early leave", BUILD_ALL },
    { "steps that may break", { KERNEL "unroll for (int i = 0; i < #; i++) { if (A[i] > 0) break; A[i] = 1; }\n}", NULL, NULL, NULL, NULL },
      199, "nested more than 200 levels deep", BUILD_ALL },
    { "operators", { KERNEL "A[0] = 1", " + A[#]", ";\n}", NULL, NULL }, 500, "more than 1000 operators in one expression", BUILD_ALL },
    { "parameters", { "kernel k(inout f32 A[N]", ", f32 a#", ") { grid (); A[0] = a0; }", NULL, NULL }, 63,
      "a kernel has at most 64 parameters", BUILD_ALL },
    { "parameters of functions", { "fn f32 f(f32 a", ", f32 a#", ") { return a; }\n" KERNEL "A[0] = f(1", ", 1", ");\n}" }, 63,
      "more than 64 parameters", BUILD_ALL },
    { "build parameters", { "kernel k<int B = 1", ", int B# = #", ">(inout f32 A[N]) { grid (); A[0] = B; }", NULL, NULL }, 63,
      "more than 64 build parameters", BUILD_ALL },
    { "shape symbols", { "kernel k(inout f32 A[N]", ", in f32 B#[N#]", ") { grid (); A[0] = 1; }", NULL, NULL }, 63,
      "a kernel has at most 64 parameters", BUILD_ALL },
    { "symbols of a tensor", { "kernel k(inout f32 A[M]", ", in f32 B#[N#][P#][Q#]", ") { grid (); A[0] = 1; }", NULL, NULL }, 21,
      "a kernel has at most 64 shape symbols", BUILD_ALL },
    { "words", { "kernel k(inout f32 A[N]", ", in strided f32 B#[N][N][N][N][N][N][N]", ") { grid (); A[0] = 1; }", NULL, NULL }, 31,
      "of a kernel are at most 256, those of this one 258", BUILD_ALL },
    { "coordinates", { "kernel k(inout f32 A[N])\n{\n grid (x : N", ", x# : 2", "); A[x] = 1; }", NULL, NULL }, 63, "more than 64 coordinates", BUILD_ALL },
    { "indices of a forall", { KERNEL "forall (i : N", ", i_# : 1", ") A[i] = 1;\n}", NULL, NULL }, 15, "more than 16 indices", BUILD_ALL },
    { "indices of a pipeline",
      { KERNEL "pipeline (i : N", ", i_# : 2", ") { shared f32 t[64] = A[i*64 +: 64]; fragment f32 r[64] = t; A[i*64 +: 64] = r; }\n}", NULL, NULL },
      15, "more than 16 indices", BUILD_ALL },
    { "slices in a forall", { "kernel k(inout f32 A[N], in f32 B[N][2][2][2][2][2][2][2], out f32 C[N][2][2][2][2][2][2][2]) { grid ();\nforall (i : N",
                              ", i_# : 1", ") C[i] = B[i];\n}", NULL, NULL }, 15, "more than 16 indices", BUILD_ALL },
    { "printed values", { KERNEL "print(\"x\"", ", A[#]", ");\n}", NULL, NULL }, 32, "'print' takes at most 32 values", BUILD_ALL },
    { "dimensions", { "kernel k(inout f32 A[N])\n{\n grid (); shared f32 t", "[1]", ";\n}", NULL, NULL }, 8, "more than 8 dimensions", BUILD_ALL },
    { "dimensions of a tensor", { "kernel k(inout f32 A", "[N#]", ") { grid (); }", NULL, NULL }, 8, "more than 8 dimensions", BUILD_ALL },
    { "unrolled steps", { KERNEL "unroll for (int i = 0; i < #; i++) { }\n}", NULL, NULL, NULL, NULL }, 4096, "more than 4096 unrolled steps", BUILD_ALL },
    { "operations", { KERNEL "A[0] = 0;\nunroll for (int i = 0; i < #; i++) unroll for (int j = 0; j < 1000; j++) A[j] = i;\n}", NULL, NULL, NULL, NULL },
      99, "the kernel grows past 100000 operations; unroll less", CHECK_ONLY },
    { "steps that do nothing", { KERNEL "unroll for (int i = 0; i < 50; i++) unroll for (int j = 0; j < 100; j++) unroll for (int l = 0; l < #; l++) { }\n}",
                                 NULL, NULL, NULL, NULL }, 30, NULL, CHECK_ONLY },
    { "large tiles", { KERNEL "shared i8 t[8][2097152 + #];\n}", NULL, NULL, NULL, NULL }, 0, "a tile of more than 16777216 elements", CHECK_ONLY },
    { "local arrays", { KERNEL "forall (i : N) { local f32 t[65536 + #]; t[0] = A[i]; A[i] = t[0]; }\n}", NULL, NULL, NULL, NULL }, 0,
      "local arrays of more than 65536 elements in all", BUILD_ALL },
    { "padding", { KERNEL "shared f32 t[4][4]; layout(t) = padded(1024 + #); t = 0;\n}", NULL, NULL, NULL, NULL }, 0, "a padding of 1025", BUILD_ALL },
    { "stages", { KERNEL "pipeline (i : N; stages = 64 + #) { shared f32 t[64] = A[i*64 +: 64]; fragment f32 r[64] = t; A[i*64 +: 64] = r; }\n}",
                  NULL, NULL, NULL, NULL }, 0, "65 stages: there are 1 to 64", BUILD_ALL },
    { "inputs in several ways", { "kernel k(inout f32 A[N]", ", in f32 B#[N]", ") { grid (); A[0] = 1; }\ncheck k(N = 2) { ", "input B# = {0};\n", "}" },
      16, "more than 16 inputs made in several ways", BUILD_ALL },
    { "values of a case", { "kernel k<int B = 1", ", int B# = #", ">(inout f32 A[N]) { grid (); A[0] = B; }\ncheck k<B = 1", ", B# = 2", ">(N = 4) { }" },
      63, "more than 64", BUILD_ALL },
};
// clang-format on

static int try_limit(const Limit *limit, const Target *target, bool checked)
{
    const Outcome at = build(&limit->shape, limit->at, target, limit->how, checked);
    const Outcome past = build(&limit->shape, limit->at + 1, target, limit->how, checked);
    const bool ends = !limit->message || strstr(past.report, limit->message);
    if (*at.report) printf("%s, %d (%s): not built: %s\n", limit->name, limit->at, target->kind->name, at.report);
    if (!ends)
        printf("%s, %d (%s): expected '%s', got '%s'\n", limit->name, limit->at + 1, target->kind->name, limit->message,
               past.report);
    return *at.report || !ends;
}

static void each_limit_holds(void **state)
{
    int failed = 0;
    for (int i = 0; i < COUNT(limits); i++)
        for (int t = 0; t < (limits[i].how == CHECK_ONLY ? 1 : COUNT(targets)); t++) {
            failed += try_limit(&limits[i], &targets[t], false);
            if (limits[i].how == BUILD_ALL) failed += try_limit(&limits[i], &targets[t], true);
        }
    assert_int_equal(failed, 0);
}

// ---- growth

typedef struct Growth {
    const char *name;
    Shape shape;
    int n, four_times;
} Growth;

#define INTS "kernel k(inout f32 A[N], in i32 X[N])\n{\n    grid ();\n"
#define CHAIN(link)                                                                                                    \
    {                                                                                                                  \
        "kernel k(inout f32 A[N], int m)\n{\n grid ();\n forall (i : N) { int a0_ = i - m;\n", link,                   \
            "A[i] = a#_; }\n}", NULL, NULL                                                                             \
    }

// clang-format off
static const Growth growths[] = {
    { "whiles in each other", { INTS "int x = 0;\n", "while (A[#] > x) {\n", "x += 1; fragment f32 t[4] = x; A[0 +: 4] = t;\n", "}", "}" }, 12, 48 },
    { "loops in each other", { KERNEL, "for (int j_# = 0; j_# < N; j_#++) {\n", "shared f32 t[4]; t = A[0 +: 4]; A[4 +: 4] = t;\n", "}", "}" }, 12, 48 },
    { "pipelines in each other",
      { KERNEL, "pipeline (k# : N) { shared f32 t#[64] = A[k#*64 +: 64]; fragment f32 g#[64]; g# = t#; A[0 +: 64] = g#;\n", "", "}", "}" }, 8, 32 },
    { "loops with placed statements",
      { "kernel k(inout f32 A[N])\n{\n    grid () warps(8);\n shared f32 s[256], u[256];\n", "for (int j_# = 0; j_# < N; j_#++) {\n",
        "on(0) s = A[0 +: 256]; on(1) { forall (i : 256) u[i] = s[i] * 2; } on(0) A[0 +: 256] = u;\n", "}", "}" }, 10, 40 },
    { "scalars of the one before, max", CHAIN("int a`_ = max(a#_*3, a#_ + a#_);\n"), 10, 40 },
    { "scalars of the one before, ?:", CHAIN("int a`_ = a#_ > # ? a#_*2 : a#_ + 3;\n"), 10, 40 },
    { "scalars of the one before, floats", CHAIN("f32 a`_ = max(a#_*3, a#_ + a#_);\n"), 10, 40 },
    { "function of function", { "fn int sq(int x) { return x*x + x; }\n" KERNEL "forall (i : N) A[i] = ", "sq(", "i", ")", ";\n}" }, 10, 40 },
    { "functions that call the one before twice",
      { "fn f32 f0_(f32 x) { return x + 1; }\n", "fn f32 f`_(f32 x) { return f#_(x) * f#_(x + 2); }\n", KERNEL "A[0] = f#_(A[1]);\n}", NULL, NULL }, 9, 11 },
    { "constants of the one before twice", { "const int c0_ = 0;\n", "const int c`_ = c#_ + c#_ + 1;\n", KERNEL "A[0] = c#_;\n}", NULL, NULL }, 12, 48 },
    { "bounds of minima",
      { "kernel k(inout f32 A[N], int m)\n{\n grid ();\n forall (i : 64) {\n", "int c#_ = min(N - #*m, m + i + #) + max(m*#, N / `);\n",
        "int z = c0_ + c1_ + c2_ + c3_; if (z >= 0 && z < N) A[z] = 1; }\n}", NULL, NULL }, 6, 24 },
    { "declarations", { KERNEL, "f32 v#_ = A[#];\n", "A[0] = v0_;\n}", NULL, NULL }, 1500, 6000 },
    { "blocks", { KERNEL, "{ f32 v = A[#]; A[#] = v; }\n", "}", NULL, NULL }, 500, 2000 },
    { "stores", { KERNEL, "A[#] = A[`] + 1;\n", "}", NULL, NULL }, 500, 2000 },
    { "fragments", { KERNEL, "fragment f32 t#_[64] = A[0 +: 64]; A[# +: 64] = t#_;\n", "}", NULL, NULL }, 40, 160 },
    { "shared tiles", { KERNEL, "shared f32 t#_[64] = A[0 +: 64]; A[# +: 64] = t#_;\n", "}", NULL, NULL }, 100, 400 },
    { "copies", { KERNEL "shared f32 t[64];\n", "t = A[#*64 +: 64]; A[#*64 + 5 +: 64] = t;\n", "}", NULL, NULL }, 200, 800 },
    { "foralls", { KERNEL "fragment f32 t[64] = 0;\n", "forall (i : 64) t[i] = t[i]*2 + #;\n", "A[0 +: 64] = t;\n}", NULL, NULL }, 100, 400 },
    { "loops behind each other", { INTS "int x = 0;\n", "while (x < #) { x += 1; fragment f32 t#_[4] = x; A[0 +: 4] = t#_; }\n", "}", NULL, NULL }, 50, 200 },
    { "unrolled steps", { KERNEL "unroll for (int i = 0; i < 10; i++) unroll for (int j = 0; j < #; j++) A[i*10 + j] = A[j]*2 + i;\n}", NULL, NULL, NULL, NULL }, 100, 400 },
    { "preconditions", { "kernel k(inout f32 A[N])\n{\n", "require(N > #);\n", "grid ();\n A[0] = 1;\n}", NULL, NULL }, 500, 2000 },
    { "functions", { "", "fn f32 f#_(f32 x) { return x + 1; }\n", KERNEL, "A[#] = f#_(A[#]);\n", "}" }, 300, 1200 },
    { "constants", { "", "const int c#_ = #;\n", KERNEL, "A[#] = c#_;\n", "}" }, 500, 2000 },
    { "kernels", { "", "kernel k#_(inout f32 A[N]) { grid (); A[0] = 1; }\n", KERNEL "A[0] = 1;\n}", NULL, NULL }, 1000, 4000 },
    { "views of views", { KERNEL "view v0_ = A[0 +: 64];\n", "view v`_ = v#_[0 +: 64];\n", "v#_[0] = 1;\n}", NULL, NULL }, 10, 40 },
    { "operands", { KERNEL "A[0] = 1", " + A[#]", ";\n}", NULL, NULL }, 100, 400 },
    { "else if", { KERNEL, "if (A[#] > 0) A[#] = #; else\n", "A[0] = 1;\n}", NULL, NULL }, 40, 160 },
    { "cases", { KERNEL "A[0] = 1; }\ncheck k(N = {1", ", #", "}) { }", NULL, NULL }, 300, 1200 },
    { "comments", { "/*", "a comment of some words, ", "*/ " KERNEL "A[0] = 1;\n}", NULL, NULL }, 2000, 8000 },
    { "a reference's loops", { KERNEL "A[0] = 1; }\nreference k {\n", "for (int j_# = 0; j_# < N; j_#++) {\n", "A[0] = 1;\n", "}", "}" }, 12, 48 },
};
// clang-format on

// What memory costs under a sanitizer is its own, and depends on the machine.
#ifdef HAS_ADDRESS_SANITIZER
enum { IS_TIMED = false };
#else
enum { IS_TIMED = true };
#endif

// Quadratic growth would be 16 times. What takes no time is not measured; a machine that stutters gets three tries.
static bool grows_as_it_should(const Growth *growth, const Target *target)
{
    enum { TRIES = 3, MOST = 9 };
    Outcome small, large;
    for (int i = 0; i < TRIES; i++) {
        small = build(&growth->shape, growth->n, target, BUILD_ALL, false);
        large = build(&growth->shape, growth->four_times, target, BUILD_ALL, false);
        if (*small.report || *large.report) break;
        if (large.bytes <= MOST * small.bytes && (!IS_TIMED || large.seconds <= MOST * small.seconds + 0.03))
            return true;
    }
    printf("%s (%s %d): %d take %zu KB and %.1f ms, %d %zu KB and %.1f ms %s%s\n", growth->name, target->kind->name,
           target_arch(target), growth->n, small.bytes >> 10, small.seconds * 1e3, growth->four_times,
           large.bytes >> 10, large.seconds * 1e3, small.report, large.report);
    return false;
}

static void building_grows_with_what_is_built(void **state)
{
    int failed = 0;
    for (int i = 0; i < COUNT(growths); i++)
        for (int t = 0; t < COUNT(targets); t++) failed += !grows_as_it_should(&growths[i], &targets[t]);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_holds),
        cmocka_unit_test(building_grows_with_what_is_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
