// SPDX-License-Identifier: MIT
// mla_cache_test.c - slots of new tokens, filling a paged cache, and both fp8 formats there and back.
#include "latent.h"

enum { K = KILN_MLA_KEY, V = KILN_MLA_VALUE, BYTES = KILN_MLA_FP8_BYTES };

static void finish(void) { assert_ok(kiln_stream_wait(device, NULL)); }

static void slots_of_new_tokens(void **state)
{
    enum { B = 4, PAGES = 3, SQ = 3, SIZE = 16 };
    static const int lengths[B] = { 40, 2, 0, 48 }; // within, shorter than the new tokens, none, up to the table's end
    Array *const table = ARRAY(KILN_I32, B, PAGES), *const length = ARRAY(KILN_I32, B),
                 *const slots = ARRAY(KILN_I32, B, SQ);
    seed(1);
    for (int i = 0; i < B * PAGES; i++) set(table, i, (double)integer(0, 1000));
    for (int b = 0; b < B; b++) set(length, b, lengths[b]);
    array_send(table);
    array_send(length);
    assert_ok(kiln_mla_slots(
        ops, NULL,
        &(kiln_mla_slots_args){
            .table = &table->tensor, .lengths = &length->tensor, .slots = &slots->tensor, .page_size = SIZE }));
    finish();
    array_fetch(slots);
    for (int b = 0; b < B; b++)
        for (int j = 0; j < SQ; j++) {
            const int at = lengths[b] - SQ + j;
            const double expected = at < 0 ? -1 : get(table, b * PAGES + at / SIZE) * SIZE + at % SIZE;
            if (get(slots, b * SQ + j) != expected)
                fail_msg("token %d of request %d is in slot %g, expected %g", j, b, get(slots, b * SQ + j), expected);
        }
}

// Slots in random order, two of them outside.
static Array *some_slots(int n, int64_t of)
{
    Array *const slots = ARRAY(KILN_I32, n);
    int32_t *const order = malloc(sizeof *order * (size_t)of);
    permute(order, of);
    for (int i = 0; i < n; i++) set(slots, i, i == 3 ? -1 : i == 5 ? (double)of : order[i]);
    free(order);
    array_send(slots);
    return slots;
}

static void slots_are_written_at_any_strides(void **state)
{
    enum { B = 3, PAGES = 2, SQ = 5, SIZE = 4 };
    Array *const table = ARRAY(KILN_I32, B, PAGES), *const length = ARRAY(KILN_I32, B),
                 *const room = ARRAY(KILN_I32, B * 7 + 1);
    kiln_tensor slots =
        kiln_tensor_of(room->tensor.device, (char *)room->tensor.data + 4, KILN_I32, 2, (int64_t[]){ B, SQ });
    slots.has_strides = true;
    slots.strides[0] = 7, slots.strides[1] = 1;
    for (int i = 0; i < B * PAGES; i++) set(table, i, 10 + i);
    for (int b = 0; b < B; b++) set(length, b, SQ + b);
    const kiln_tensor t = moved_away(table), l = moved_away(length);
    assert_ok(kiln_mla_slots(ops, NULL,
                             &(kiln_mla_slots_args){ .table = &t, .lengths = &l, .slots = &slots, .page_size = SIZE }));
    finish();
    array_fetch(room);
    for (int i = 0; i < B * 7 + 1; i++) {
        const int b = (i - 1) / 7, j = (i - 1) % 7, at = b + j;
        const double expected = i == 0 || j >= SQ ? -1 : (10 + b * PAGES + at / SIZE) * SIZE + at % SIZE;
        if (get(room, i) != expected) fail_msg("number %d is %g, expected %g", i, get(room, i), expected);
    }
}

static void append_writes_its_slots_alone(kiln_type type, bool with_slots, int64_t heads)
{
    enum { N = 21, PAGES = 3, SIZE = 16 };
    const int64_t row = heads * K;
    seed(2);
    Array *const keys = ARRAY(type, N, heads, K), *const cache = ARRAY(type, PAGES, SIZE, heads, K);
    Array *const slots = with_slots ? some_slots(N, PAGES * SIZE) : NULL;
    fill_random(keys, -2, 2);
    for (int n = 0; n < N; n++) { // the mirror becomes what is expected
        const int64_t slot = with_slots ? (int64_t)get(slots, n) : n;
        for (int64_t d = 0; slot >= 0 && slot < PAGES * SIZE && d < row; d++)
            set(cache, slot * row + d, get(keys, n * row + d));
    }
    assert_ok(kiln_mla_append(ops, NULL,
                              &(kiln_mla_append_args){ .keys = &keys->tensor,
                                                       .slots = with_slots ? &slots->tensor : NULL,
                                                       .cache = &cache->tensor }));
    finish();
    array_unchanged(cache, "cache, beside the slots");
    array_unchanged(keys, "keys");
}

static void append(void **state)
{
    append_writes_its_slots_alone(KILN_BF16, true, 1);
    append_writes_its_slots_alone(KILN_BF16, false, 2);
    append_writes_its_slots_alone(KILN_F16, true, 1);
}

// ---- the 656-byte format

static float scale_at(const Array *cache, int64_t slot, int group)
{
    float scale;
    memcpy(&scale, cache->host + slot * BYTES + V + 4 * group, sizeof scale);
    return scale;
}

static double code_at(const Array *cache, int64_t slot, int d)
{
    const unsigned char code = cache->host[slot * BYTES + d];
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return (code & 0x7F) == 0x7F ? NAN : code & 0x80 ? -size : size;
}

static void quantize_keeps_what_eight_bits_can(bool full_scales, bool with_slots)
{
    enum { N = 12, PAGES = 2, SIZE = 16 };
    seed(3);
    Array *const keys = ARRAY(KILN_BF16, N, K), *const cache = ARRAY(KILN_U8, PAGES, SIZE, BYTES);
    Array *const slots = with_slots ? some_slots(N, PAGES * SIZE) : NULL;
    for (int n = 0; n < N; n++) // row 2 is zeros; row 4 has a NaN; magnitudes differ
        for (int d = 0; d < K; d++)
            set(keys, n * K + d, n == 2 ? 0 : n == 4 && d == 200 ? NAN : uniform(-1, 1) * ldexp(1, n - 6));
    array_send(keys);
    assert_ok(kiln_mla_quantize(ops, NULL,
                                &(kiln_mla_quantize_args){ .keys = &keys->tensor,
                                                           .slots = with_slots ? &slots->tensor : NULL,
                                                           .cache = &cache->tensor,
                                                           .full_scales = full_scales }));
    finish();
    array_fetch(cache);
    for (int n = 0; n < N; n++) {
        const int64_t slot = with_slots ? (int64_t)get(slots, n) : n;
        if (slot < 0 || slot >= PAGES * SIZE) continue;
        for (int g = 0; g < 4; g++) {
            double top = 0;
            for (int d = g * 128; d < g * 128 + 128; d++) top = fmax(top, fabs(get(keys, n * K + d)));
            const double exact = fmax(top / 448, 0x1p-126), scale = scale_at(cache, slot, g);
            if (fabs(scale - exact) > exact * (full_scales ? 0x1p-23 : 0x1p-8))
                fail_msg("scale %d of row %d is %g, expected %g", g, n, scale, exact);
            for (int d = g * 128; d < g * 128 + 128; d++) {
                const double x = get(keys, n * K + d), back = code_at(cache, slot, d) * scale;
                if (isnan(x) ? !isnan(back) : !(fabs(back - x) <= fmax(fabs(x) * 0x1.02p-4, scale * 0x1.02p-10)))
                    fail_msg("value %d of row %d is %g, expected %g", d, n, back, x);
            }
        }
        if (memcmp(cache->host + slot * BYTES + V + 16, keys->host + (n * K + V) * 2, 128) != 0)
            fail_msg("the rotary values of row %d differ", n);
    }
    for (int64_t slot = 0; slot < PAGES * SIZE; slot++) { // what no row went to is as before
        bool used = false;
        for (int n = 0; n < N; n++) used |= (with_slots ? (int64_t)get(slots, n) : n) == slot;
        for (int i = 0; i < BYTES && !used; i++)
            if (cache->host[slot * BYTES + i] != 0xFF) fail_msg("slot %lld was written", (long long)slot);
    }
}

static void quantize(void **state)
{
    quantize_keeps_what_eight_bits_can(false, true);
    quantize_keeps_what_eight_bits_can(true, false);
}

// To nearest even; finite numbers that bf16 can hold.
static double round_bf16(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(x, 8 - exponent)), exponent - 8);
}

static void dequantize_multiplies_and_rounds_once(bool round_scales)
{
    enum { N = 9, PAGES = 2, SIZE = 16 };
    seed(4);
    Array *const keys = ARRAY(KILN_BF16, N, K), *const cache = ARRAY(KILN_E4M3, PAGES, SIZE, BYTES),
                 *const slots = some_slots(N, 32);
    for (int64_t slot = 0; slot < PAGES * SIZE; slot++) {
        for (int d = 0; d < BYTES; d++) cache->host[slot * BYTES + d] = (unsigned char)integer(0, 126);
        for (int g = 0; g < 4; g++) {
            const float scale = (float)uniform(0.001, 0.02);
            memcpy(cache->host + slot * BYTES + V + 4 * g, &scale, sizeof scale);
        }
    }
    array_send(cache);
    assert_ok(kiln_mla_dequantize(
        ops, NULL,
        &(kiln_mla_dequantize_args){
            .cache = &cache->tensor, .slots = &slots->tensor, .keys = &keys->tensor, .round_scales = round_scales }));
    finish();
    array_fetch(keys);
    for (int n = 0; n < N; n++)
        for (int d = 0; d < K; d++) {
            const int64_t slot = (int64_t)get(slots, n);
            const bool inside = slot >= 0 && slot < PAGES * SIZE;
            double expected = 0;
            if (inside && d < V) {
                const double scale = scale_at(cache, slot, d / 128);
                expected = round_bf16(code_at(cache, slot, d) * (round_scales ? round_bf16(scale) : scale));
            } else if (inside) {
                uint16_t bits;
                memcpy(&bits, cache->host + slot * BYTES + V + 16 + 2 * (d - V), sizeof bits);
                const uint32_t wide = (uint32_t)bits << 16;
                float x;
                memcpy(&x, &wide, sizeof x);
                expected = x;
            }
            if (get(keys, n * K + d) != expected)
                fail_msg("value %d of row %d is %.9g, expected %.9g", d, n, get(keys, n * K + d), expected);
        }
    array_unchanged(cache, "cache");
}

static void dequantize(void **state)
{
    dequantize_multiplies_and_rounds_once(false);
    dequantize_multiplies_and_rounds_once(true);
}

// ---- the 584-byte format

// Rows go there and come back: powers of two as scales, codes of what they leave, and nothing else is written.
static void short_keys(void **state)
{
    enum { N = 12, PAGES = 3, SIZE = 7, S = KILN_MLA_SHORT_KEY, CODES = S - 64, STRIDE = 4096 + 32 };
    seed(5);
    Array *const keys = ARRAY(KILN_BF16, N, S), *const back = ARRAY(KILN_BF16, N, S),
                 *const slots = some_slots(N, PAGES * SIZE);
    const ShortCache cache = make_short_cache(PAGES, SIZE, STRIDE);
    const kiln_tensor at = moved_away(slots);
    for (int n = 0; n < N; n++) // row 2 is zeros; in row 4 the scale is at its least
        for (int d = 0; d < S; d++) set(keys, n * S + d, n == 2 ? 0 : uniform(-1, 1) * ldexp(1, n == 4 ? -20 : n));
    array_send(keys);
    array_send(cache.memory);
    assert_ok(kiln_mla_quantize(
        ops, NULL, &(kiln_mla_quantize_args){ .keys = &keys->tensor, .slots = &at, .cache = &cache.tensor }));
    assert_ok(kiln_mla_dequantize(
        ops, NULL, &(kiln_mla_dequantize_args){ .keys = &back->tensor, .slots = &at, .cache = &cache.tensor }));
    finish();
    array_fetch(cache.memory);
    array_fetch(back);
    bool *const written = calloc(PAGES * STRIDE, sizeof *written);
    for (int n = 0; n < N; n++) {
        const int64_t slot = (int64_t)get(slots, n);
        const bool inside = slot >= 0 && slot < PAGES * SIZE;
        for (int d = 0; d < S && !inside; d++) assert_true(get(back, n * S + d) == 0);
        if (!inside) continue;
        memset(written + (short_token(&cache, slot) - cache.memory->host), 1, 576);
        memset(written + (short_scales(&cache, slot) - cache.memory->host), 1, 7);
        for (int g = 0; g < CODES / 64; g++) {
            double top = 0;
            for (int d = g * 64; d < g * 64 + 64; d++) top = fmax(top, fabs(get(keys, n * S + d)));
            const double scale = ldexp(1, short_scales(&cache, slot)[g] - 127), least = fmax(top / 448, 1e-4);
            if (!(scale >= least && scale < 2 * least)) fail_msg("scale %d of row %d is %g for %g", g, n, scale, least);
            for (int d = g * 64; d < g * 64 + 64; d++) {
                const double x = get(keys, n * S + d), got = get(back, n * S + d);
                if (!(fabs(got - x) <= fmax(fabs(x) * 0x1p-4, scale * 0x1p-10)))
                    fail_msg("value %d of row %d is %g, expected %g", d, n, got, x);
            }
        }
        for (int d = CODES; d < S; d++) assert_true(get(back, n * S + d) == get(keys, n * S + d));
    }
    for (int i = 0; i < PAGES * STRIDE; i++)
        if (!written[i] && cache.memory->host[i] != 0xFF) fail_msg("byte %d was written", i);
    free(written);
}

static void nothing_to_do(void **state)
{
    Array *const keys = ARRAY(KILN_BF16, 0, K), *const cache = ARRAY(KILN_U8, 2, 16, BYTES);
    assert_ok(
        kiln_mla_quantize(ops, NULL, &(kiln_mla_quantize_args){ .keys = &keys->tensor, .cache = &cache->tensor }));
    finish();
    array_unchanged(cache, "cache");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(slots_of_new_tokens, free_arrays),
        cmocka_unit_test_teardown(slots_are_written_at_any_strides, free_arrays),
        cmocka_unit_test_teardown(append, free_arrays),
        cmocka_unit_test_teardown(short_keys, free_arrays),
        cmocka_unit_test_teardown(quantize, free_arrays),
        cmocka_unit_test_teardown(dequantize, free_arrays),
        cmocka_unit_test_teardown(nothing_to_do, free_arrays),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
