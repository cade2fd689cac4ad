// SPDX-License-Identifier: MIT
// counts_test.c - what Nsight Compute prints, read; the table of lines of a cubin; and both joined.
#include "tools/counts.h"
#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char raw_page[] =
    "==PROF== Connected to process 7 (/bin/kiln)\n"
    "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"gpu__time_duration.sum\",\"lts__t_sector_hit_rate.pct\"\n"
    "\"\",\"\",\"\",\"\",\"ns\",\"%\"\n"
    "\"0\",\"7\",\"kiln_a\",\"(384, 1, 1)\",\"12,345.5\",\"n/a\"\n"
    "the program's own words\n"
    "\"1\",\"7\",\"kiln_b\",\"(128, 1, 1)\",\"10\",\"50\"\r\n"
    "\"2\",\"7\",\"kiln_a\",\"(384, 1, 1)\",\"20\",\"75\"\n";

static const char source_page[] =
    "\"Kernel Name\",\"kiln_a(KernelParams)\"\n"
    "\"#\",\"Address\",\"Source\",\"Warp Stall Sampling (All Samples)\",\"Instructions Executed\",\"L2 Theoretical Sectors Global\","
    "\"L1 Wavefronts Shared\",\"L1 Wavefronts Shared Ideal\",\"stall_long_sb\",\"stall_wait\",\"stall_wait_not_issued\"\n"
    "\"1\",\"0x10\",\"LDG R1, [R2] \"\"x\"\"\",\"30\",\"1,000\",\"4\",\"0\",\"0\",\"20\",\"10\",\"9\"\n"
    "\"2\",\"0x20\",\"STS [R1], R2\",\"10\",\"100\",\"-\",\"8\",\"2\",\"0\",\"10\",\"0\"\n"
    "\"Kernel Name\",\"kiln_a(KernelParams)\"\n"
    "\"Address\",\"Source\",\"# Samples\"\n"
    "\"0x10\",\"NOP\",\"3\"\n"
    "\"Function Name\",\"other\"\n"
    "\"Address\",\"Source\",\"# Samples\"\n"
    "\"0x10\",\"NOP\",\"99\"\n";

static int new_arena(void **state) { return (*state = arena_new()) ? 0 : -1; }

static int free_arena(void **state)
{
    arena_free(*state);
    return 0;
}

static void reads_launches(void **state)
{
    NcuLaunches found = { 0 };
    assert_true(ncu_read_raw(*state, raw_page, strlen(raw_page), &found));
    assert_int_equal(found.count, 3);
    assert_string_equal(found.items[1].kernel, "kiln_b");
    assert_true(ncu_metric(&found.items[0], "gpu__time_duration.sum") == 12345.5);
    assert_true(isnan(ncu_metric(&found.items[0], "lts__t_sector_hit_rate.pct")));
    assert_true(ncu_metric(&found.items[2], "lts__t_sector_hit_rate.pct") == 75);
    assert_false(ncu_read_raw(*state, "nothing\n", 8, &found));
}

static void reads_instructions(void **state)
{
    NcuLaunches found = { 0 };
    assert_true(ncu_read_raw(*state, raw_page, strlen(raw_page), &found));
    assert_true(ncu_read_source(*state, source_page, strlen(source_page), &found));
    assert_int_equal(found.items[0].code.count, 2);
    assert_int_equal(found.items[1].code.count, 0);
    assert_int_equal(found.items[2].code.count, 1);
    const NcuInstruction *const load = &found.items[0].code.items[0], *const store = load + 1;
    assert_string_equal(load->sass, "LDG R1, [R2] \"x\"");
    assert_true(load->samples == 30 && load->executed == 1000 && load->l2_bytes == 128 && load->conflicts == 0);
    assert_int_equal(load->stalls.count, 2);
    assert_string_equal(load->stalls.items[0].name, "long_sb");
    assert_true(store->conflicts == 6 && store->l2_bytes == 0 && store->stalls.count == 1);
    assert_true(found.items[2].code.items[0].samples == 3);
}

// A row that is cut anywhere is no row, and nothing after the text is read.
static void reads_what_is_cut(void **state)
{
    for (size_t n = 0; n <= strlen(source_page); n++) {
        NcuLaunches found = { 0 };
        char *const text = malloc(n + 1);
        memcpy(text, source_page, n);
        ncu_read_raw(*state, raw_page, strlen(raw_page), &found);
        ncu_read_source(*state, text, n, &found);
        free(text);
    }
}

// Lines of the text count from 1: the helper is line 1, its call line 6.
static const char text[] =
    "static __device__ __forceinline__ float half_of(float x) { return __fdividef(1.5f, x) * 0.5f; }\n"
    "extern \"C\" __global__ void kiln_a(float *p)\n"
    "{\n"
    "    // at some/where.tile:7\n"
    "    const float x = p[threadIdx.x];\n"
    "    // at some/where.tile:9\n"
    "    p[threadIdx.x] = half_of(x);\n"
    "}\n";

static char *build(size_t *n)
{
    const CudaArch arch = { "sm_90a" };
    char *cubin = NULL;
    if (nvrtc_lines(text, arch, &cubin, n)) print_message("skipped: %s\n", kiln_error_message());
    return cubin;
}

static void puts_instructions_to_lines(void **state)
{
    size_t n;
    const int *lines;
    int n_lines, of_helper = 0, of_load = 0, of_call = 0;
    char *const cubin = build(&n);
    if (!cubin) skip();
    assert_true(sass_text_lines(*state, cubin, n, &lines, &n_lines));
    for (int i = 0; i < n_lines; i++) {
        of_helper += lines[i] == 1;
        of_load += lines[i] == 5;
        of_call += lines[i] == 7;
    }
    assert_true(n_lines > 4 && of_helper == 0 && of_load > 0 &&
                of_call > 2); // a load, its address; a division, a store
    for (size_t cut = 0; cut < n; cut += cut < 4096 ? 7 : 61) {
        char *const part = malloc(cut + 1);
        memcpy(part, cubin, cut);
        sass_text_lines(*state, part, cut, &lines, &n_lines);
        free(part);
    }
    memory_free(cubin);
}

static void joins_them(void **state)
{
    Arena *const arena = *state;
    Counts counts = { 0 };
    CodePlaces part = { .symbol = "kiln_a" };
    LineCounts lines = { 0 };
    SassPlaces of_text = { 0 };
    sass_places_of_text(arena, text, &of_text);
    assert_int_equal(of_text.items[5].line, 7);
    assert_int_equal(of_text.items[7].line, 9);
    assert_string_equal(of_text.items[7].path, "some/where.tile");
    assert_null(of_text.items[1].path);
    assert_true(ncu_read_raw(arena, raw_page, strlen(raw_page), &counts.launches));
    assert_true(ncu_read_source(arena, source_page, strlen(source_page), &counts.launches));
    VEC_PUSH(arena, &part.places, of_text.items[5]);
    counts_of_lines(arena, &counts, &counts.launches.items[0], &lines);
    assert_int_equal(lines.count, 0); // other code than that
    VEC_PUSH(arena, &part.places, of_text.items[7]);
    VEC_PUSH(arena, &counts.parts, part);
    counts_of_lines(arena, &counts, &counts.launches.items[0], &lines);
    assert_int_equal(lines.count, 2);
    assert_true(lines.items[0].place.line == 7 && lines.items[0].samples == 30);
    assert_true(lines.items[1].place.line == 9 && lines.items[1].conflicts == 6);
    assert_string_equal(lines.items[0].stalls.items[0].name, "long_sb");
    lines.count = 0;
    counts_of_lines(arena, &counts, &counts.launches.items[1], &lines);
    assert_int_equal(lines.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_launches, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(reads_instructions, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(reads_what_is_cut, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(puts_instructions_to_lines, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(joins_them, new_arena, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
