// SPDX-License-Identifier: MIT
// arena_test.c - arenas: zeroing, marks, what survives them, limits, and each allocation failing once.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/intern.h"
#include "base/memory.h"

static void allocations_are_zeroed_and_aligned(void **state)
{
    Arena *const arena = arena_new();
    assert_int_equal(setjmp(arena->out_of_memory), 0);
    for (size_t bytes = 0; bytes < 3000; bytes += 7) {
        unsigned char *const memory = arena_alloc(arena, bytes);
        assert_int_equal((uintptr_t)memory % 16, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(memory[i], 0);
        memset(memory, 0xff, bytes);
    }
    arena_free(arena);
}

static void rewound_memory_is_zeroed_again(void **state)
{
    Arena *const arena = arena_new();
    assert_int_equal(setjmp(arena->out_of_memory), 0);
    const ArenaMark mark = arena_mark(arena);
    for (int round = 0; round < 3; round++) {
        unsigned char *const small = arena_alloc(arena, 100), *const large = arena_alloc(arena, 3 << 20);
        for (int i = 0; i < 100; i++) assert_int_equal(small[i] | large[i], 0);
        memset(small, 1, 100);
        memset(large, 1, 3 << 20);
        arena_rewind(arena, mark);
    }
    assert_int_equal(arena->total_bytes, 0);
    arena_free(arena);
}

static void names_survive_a_rewind(void **state)
{
    Arena *const arena = arena_new();
    assert_int_equal(setjmp(arena->out_of_memory), 0);
    const ArenaMark mark = arena_mark(arena);
    const char *const name = intern_text(arena, "accumulator");
    arena_alloc(arena, 100000);
    arena_rewind(arena, mark);
    assert_ptr_equal(intern(arena, "accumulators", 11), name);
    assert_string_equal(name, "accumulator");
    arena_free(arena);
}

static void one_pointer_per_spelling(void **state)
{
    enum { NAMES = 5000 };
    static const char *names[NAMES];
    Arena *const arena = arena_new();
    assert_int_equal(setjmp(arena->out_of_memory), 0);
    for (int i = 0; i < NAMES; i++) names[i] = intern_text(arena, arena_printf(arena, "n%d", i));
    for (int i = 0; i < NAMES; i++) assert_ptr_equal(names[i], intern_text(arena, arena_printf(arena, "n%d", i)));
    assert_ptr_not_equal(names[1], names[10]);
    assert_ptr_equal(intern(arena, "", 0), intern_text(arena, ""));
    arena_free(arena);
}

static void the_limit_counts_as_out_of_memory(void **state)
{
    Arena *const arena = arena_new();
    arena->limit_bytes = 1 << 20;
    volatile int got = 0;
    if (setjmp(arena->out_of_memory) == 0)
        for (;; got++) arena_alloc(arena, 1000);
    assert_true(got > 500 && got <= 1049);
    if (setjmp(arena->out_of_memory) == 0) {
        arena_alloc(arena, SIZE_MAX - 8);
        fail();
    }
    arena_free(arena);
}

static void a_vector_keeps_what_was_pushed(void **state)
{
    Arena *const arena = arena_new();
    assert_int_equal(setjmp(arena->out_of_memory), 0);
    VEC(int) numbers = { 0 };
    for (int i = 0; i < 1000; i++) VEC_PUSH(arena, &numbers, i * i);
    assert_int_equal(numbers.count, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(numbers.items[i], i * i);
    arena_free(arena);
}

// Work that takes many requests of all kinds; false when one of them failed.
static bool work_until_it_fails(void)
{
    Arena *const arena = arena_new();
    if (!arena) return false;
    if (setjmp(arena->out_of_memory)) {
        arena_free(arena);
        return false;
    }
    for (int i = 0; i < 100; i++) intern_text(arena, arena_printf(arena, "%0*d", 5000, i));
    arena_free(arena);
    return true;
}

static void every_failing_request_is_survived(void **state)
{
    const long before = memory_live_blocks();
    bool done = false;
    for (long n = 0; !done; n++) {
        memory_fail_after(n);
        done = work_until_it_fails();
        memory_fail_after(-1);
        assert_int_equal(memory_live_blocks(), before);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_zeroed_and_aligned),
        cmocka_unit_test(rewound_memory_is_zeroed_again),
        cmocka_unit_test(names_survive_a_rewind),
        cmocka_unit_test(one_pointer_per_spelling),
        cmocka_unit_test(the_limit_counts_as_out_of_memory),
        cmocka_unit_test(a_vector_keeps_what_was_pushed),
        cmocka_unit_test(every_failing_request_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
