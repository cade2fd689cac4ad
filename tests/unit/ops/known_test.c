// SPDX-License-Identifier: MIT
// Kernels by keys: found by the same words alone, replaced where two want one place, right with several threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "ops/known.h"

#include <string.h>

static Known known;

static int open_known(void **state) { return known_open(&known), 0; }
static int close_known(void **state) { return known_close(&known), memset(&known, 0, sizeof known), 0; }

static KnownKey key_of(int64_t a, int64_t b)
{
    KnownKey key;
    known_key_begin(&key);
    known_key_word(&key, a);
    known_key_word(&key, b);
    return key;
}

static char kernels[4 * KNOWN_PLACES]; // as many addresses

static void the_same_words_alone(void **state)
{
    const KnownKey key = key_of(3, 4), turned = key_of(4, 3);
    assert_null(known_kernel(&known, &key));
    known_keep_kernel(&known, &key, &kernels[7]);
    assert_ptr_equal(known_kernel(&known, &key), &kernels[7]);
    assert_null(known_kernel(&known, &turned));
    assert_null(known_call(&known, &key)); // it is none
    known_keep_kernel(&known, &key, &kernels[8]);
    assert_ptr_equal(known_kernel(&known, &key), &kernels[8]);
}

static void texts_by_their_bytes(void **state)
{
    const char *const texts[] = { "", "a", "b", "12345678", "123456789", "12345678a" };
    for (int i = 0; i < 6; i++) {
        KnownKey key;
        known_key_begin(&key);
        known_key_text(&key, texts[i]);
        assert_null(known_kernel(&known, &key));
        known_keep_kernel(&known, &key, &kernels[i]);
        assert_ptr_equal(known_kernel(&known, &key), &kernels[i]);
    }
}

static void more_than_there_are_places(void **state)
{
    int there = 0;
    for (int i = 0; i < 4 * KNOWN_PLACES; i++) {
        const KnownKey key = key_of(i, -i);
        known_keep_kernel(&known, &key, &kernels[i]);
    }
    for (int i = 0; i < 4 * KNOWN_PLACES; i++) {
        const KnownKey key = key_of(i, -i);
        void *const found = known_kernel(&known, &key);
        if (!found) continue;
        assert_ptr_equal(found, &kernels[i]);
        there++;
    }
    assert_true(there > KNOWN_PLACES / 2 && there <= KNOWN_PLACES);
}

static void too_long_a_key(void **state)
{
    KnownKey key;
    known_key_begin(&key);
    for (int i = 0; i <= KNOWN_KEY_WORDS; i++) known_key_word(&key, i);
    known_keep_kernel(&known, &key, kernels);
    assert_null(known_kernel(&known, &key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_words_alone, open_known, close_known),
        cmocka_unit_test_setup_teardown(texts_by_their_bytes, open_known, close_known),
        cmocka_unit_test_setup_teardown(more_than_there_are_places, open_known, close_known),
        cmocka_unit_test_setup_teardown(too_long_a_key, open_known, close_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
