// SPDX-License-Identifier: MIT
// Values by keys: found by the same words alone, replaced where two want one place, right with several threads.
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

static void the_same_words_alone(void **state)
{
    const KnownKey key = key_of(3, 4), turned = key_of(4, 3);
    int64_t value = 7, found = 0;
    int32_t narrow;
    assert_false(known_find(&known, &key, &found, sizeof found));
    known_keep(&known, &key, &value, sizeof value);
    assert_true(known_find(&known, &key, &found, sizeof found) && found == 7);
    assert_false(known_find(&known, &turned, &found, sizeof found));
    assert_false(known_find(&known, &key, &narrow, sizeof narrow));
    value = 8;
    known_keep(&known, &key, &value, sizeof value);
    assert_true(known_find(&known, &key, &found, sizeof found) && found == 8);
}

static void texts_by_their_bytes(void **state)
{
    const char *const texts[] = { "", "a", "b", "12345678", "123456789", "12345678a" };
    for (int64_t i = 0; i < 6; i++) {
        KnownKey key;
        int64_t found = -1;
        known_key_begin(&key);
        known_key_text(&key, texts[i]);
        assert_false(known_find(&known, &key, &found, sizeof found));
        known_keep(&known, &key, &i, sizeof i);
        assert_true(known_find(&known, &key, &found, sizeof found) && found == i);
    }
}

static void more_than_there_are_places(void **state)
{
    int there = 0;
    for (int64_t i = 0; i < 4 * KNOWN_PLACES; i++) {
        const KnownKey key = key_of(i, -i);
        known_keep(&known, &key, &i, sizeof i);
    }
    for (int64_t i = 0; i < 4 * KNOWN_PLACES; i++) {
        const KnownKey key = key_of(i, -i);
        int64_t found = -1;
        if (known_find(&known, &key, &found, sizeof found)) {
            assert_true(found == i);
            there++;
        }
    }
    assert_true(there > KNOWN_PLACES / 2 && there <= KNOWN_PLACES);
}

static void too_long_a_key(void **state)
{
    KnownKey key;
    int64_t value = 1;
    known_key_begin(&key);
    for (int i = 0; i <= KNOWN_KEY_WORDS; i++) known_key_word(&key, i);
    known_keep(&known, &key, &value, sizeof value);
    assert_false(known_find(&known, &key, &value, sizeof value));
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
