// SPDX-License-Identifier: MIT
// prelude_test.c - a text gets those items of the CUDA prelude that it needs, and no others.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/memory.h"
#include "emit/prelude.h"
#include "toolchain/toolchain.h"

#include <glob.h>
#include <string.h>

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

static const char *used_by(const char *text)
{
    Text out = { .arena = arena };
    prelude_add_used(&out, &prelude_cuda, text);
    return text_cstr(&out);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') n += *text != '\n';
    return n;
}

static void items_hold_all_lines(void **state)
{
    glob_t files;
    int items = 0, lines = 0;
    assert_int_equal(glob(KILN_TEST_DIR "/../src/lower/cuda/prelude/*.cuh", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        size_t length;
        char *const text = file_read(files.gl_pathv[i], &length);
        assert_non_null(text);
        lines += lines_of(text) - 1; // the licence
        memory_free(text);
    }
    globfree(&files);
    for (int i = 0; i < prelude_cuda.n_items; i++) items += lines_of(prelude_cuda.items[i].text);
    assert_int_equal(items, lines);
}

static void nothing_needs_nothing(void **state)
{
    assert_string_equal(used_by(""), "");
    assert_string_equal(used_by("int v_math_min = mbar_waiting(0x7fu);\n"), "");
}

typedef struct Case {
    const char *text, *has[5], *lacks[3];
} Case;

// clang-format off
static const Case cases[] = {
    { "mbar_wait(bar, 1);",
      { "// barrier.cuh - ", "mbar_try(uint32_t bar", "// A bounded wait", "#ifdef BOUNDED_WAIT", "typedef unsigned int uint32_t;" },
      { "mbar_init", "// tma.cuh", "uint64_t" } },
    // overloads, also those that macros make
    { "math_min(a, b)", { "float math_min(", "double math_min(", "INTEGER_MATH(int64_t)", "#define INTEGER_MATH(T)" }, { "math_abs" } },
    { "atomic_max(p, x)", { "T atomic_max(", "ATOMIC_EXTREMES(double", "#define ATOMIC_EXTREMES" }, { "atomic_cas" } },
    // names that macros put together, and what their text calls
    { "unpack_i4_bf16<8>(v, x)",
      { "UNPACK_INTEGERS(i4, 4, 8)", "#define UNPACK_PAIRS(", "void store_pair(", "pair_less_bf16(" }, { "UNPACK_INTEGERS(u4", "e2m1" } },
    { "round_e4m3<4>(w, v)", { "ROUNDING(e4m3, 4)", "pack_e4m3(float lo" }, { "ROUNDING(bf16" } },
    // a parameter that has a function's name
    { "load_whole<8>(w, p, true)", { "void load_whole(uint32_t *w, const T *p, bool inside)" }, { "int32_t inside(" } },
    // specialisations
    { "typename Run<4, float>::type x;", { "struct Piece;", "struct Piece<16>", "struct Piece<1>" }, { NULL } },
    // what lies between #if and #endif
    { "f32_to_e5m2(x)", { "#if __CUDA_ARCH__ >= 890\n", "#else\n", "#endif\n", "f32_to_small", "f32_to_e4m3" }, { NULL } },
    // macros that text calls, and variables
    { "int64_t n = param_word(3);", { "#define param_word(i)", "typedef long long int64_t;" }, { "param_map" } },
    { "shared_memory + 16", { "extern __shared__", "typedef unsigned char uint8_t;" }, { "shared_base" } },
};
// clang-format on

static void texts_get_what_they_name(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const text = used_by(cases[i].text);
        for (int k = 0; k < 5 && cases[i].has[k]; k++)
            if (!strstr(text, cases[i].has[k]))
                fail_msg("%s: there is no %s in\n%s", cases[i].text, cases[i].has[k], text);
        for (int k = 0; k < 3 && cases[i].lacks[k]; k++)
            if (strstr(text, cases[i].lacks[k]))
                fail_msg("%s: there is %s in\n%s", cases[i].text, cases[i].lacks[k], text);
    }
}

static void order_stays(void **state)
{
    const char *const text = used_by("mbar_wait(shared_base(), math_min(1, 2))");
    const char *const types = strstr(text, "// types.cuh"), *const math = strstr(text, "// math.cuh");
    const char *const barrier = strstr(text, "// barrier.cuh");
    assert_true(types && math && barrier && types < math && math < barrier);
    assert_true(strstr(text, "#define DEVICE") < strstr(text, "DEVICE uint32_t shared_address"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_hold_all_lines),
        cmocka_unit_test(nothing_needs_nothing),
        cmocka_unit_test(texts_get_what_they_name),
        cmocka_unit_test(order_stays),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
