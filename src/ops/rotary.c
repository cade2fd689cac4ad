// SPDX-License-Identifier: MIT
// rotary.c - the fields of kiln_rotary held to what its header says.
#include "ops/rotary.h"

#include <inttypes.h>
#include <math.h>

static kiln_status bad_rotary(const Call *call, const char *name, double value, const char *expected)
{
    return call_fail(call, KILN_BAD_ARGUMENT, "'%s' of the rotary embedding is %g, expected %s", name, value, expected);
}

static bool is_positive(double x) { return x > 0 && (float)x > 0 && !isinf((float)x); }

static double or_else(double given, double otherwise) { return given == 0 ? otherwise : given; }

static kiln_status check_rotary_size(const Call *call, const Rotary *r, int64_t D)
{
    const bool is_ntk = r->style == KILN_ROTARY_DYNAMIC_NTK || r->style == KILN_ROTARY_QWEN_NTK;
    if (r->size < (is_ntk ? 4 : 2) || r->size > D || r->size % 2 != 0)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'size' of the rotary embedding is %" PRId64
                         ", expected an even number from %d to D = %" PRId64,
                         r->size, is_ntk ? 4 : 2, D);
    if (r->style != KILN_ROTARY_YARN && r->offset != 0)
        return bad_rotary(call, "offset", (double)r->offset, "0: only YaRN has one");
    if (r->offset < 0 || r->offset > D - r->size)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'offset' of the rotary embedding is %" PRId64 ", expected 0 to %" PRId64 ": D is %" PRId64
                         ", and %" PRId64 " elements are rotated",
                         r->offset, D - r->size, D, r->size);
    return KILN_OK;
}

static kiln_status check_rotary_numbers(const Call *call, const Rotary *r, const kiln_rotary *given)
{
    const bool is_yarn = r->style == KILN_ROTARY_YARN, has_ends = is_yarn || r->style == KILN_ROTARY_LLAMA3;
    const bool has_scale = r->style != KILN_ROTARY_INTERLEAVED && r->style != KILN_ROTARY_QWEN_NTK;
    if (!(r->base > 1) || !is_positive(r->base))
        return bad_rotary(call, "base", r->base, "more than 1, or 0 for 10000");
    if (!is_positive(r->scale)) return bad_rotary(call, "scale", r->scale, "a positive number, or 0 for 1");
    if (!has_scale && given->scale != 0) return bad_rotary(call, "scale", r->scale, "0: this style has none");
    if (!has_ends && given->low != 0) return bad_rotary(call, "low", r->low, "0: only YaRN and Llama 3 have one");
    if (!has_ends && given->high != 0) return bad_rotary(call, "high", r->high, "0: only YaRN and Llama 3 have one");
    if (!is_positive(r->low)) return bad_rotary(call, "low", r->low, "a positive number, or 0 for 1");
    if (!(r->high > r->low) || !is_positive(r->high))
        return bad_rotary(call, "high", r->high, "more than 'low', or 0 for 32 (YaRN) or 4 (Llama 3)");
    if (!is_yarn && given->extrapolation != 0)
        return bad_rotary(call, "extrapolation", r->extrapolation, "0: only YaRN has one");
    if (!(r->extrapolation > 0) || r->extrapolation > 1)
        return bad_rotary(call, "extrapolation", r->extrapolation, "more than 0 and at most 1, or 0 for 1");
    if (!is_positive(r->magnitude)) return bad_rotary(call, "magnitude", r->magnitude, "a positive number, or 0 for 1");
    return KILN_OK;
}

kiln_status rotary_take(const Call *call, const kiln_rotary *given, int64_t D, Rotary *r)
{
    if (!given) {
        *r = (Rotary){ .size = D, .base = 10000, .scale = 1, .low = 1, .high = 4, .extrapolation = 1, .magnitude = 1 };
        return KILN_OK;
    }
    if ((int)given->style < KILN_ROTARY_HALVES || given->style > KILN_ROTARY_MULTI)
        return call_fail(call, KILN_BAD_ARGUMENT, "'style' of the rotary embedding is %d, expected %d to %d",
                         (int)given->style, KILN_ROTARY_HALVES, KILN_ROTARY_MULTI);
    *r = (Rotary){ .style = given->style,
                   .size = given->size                               ? given->size
                           : given->style == KILN_ROTARY_INTERLEAVED ? D / 2
                                                                     : D,
                   .offset = given->offset,
                   .base = or_else(given->base, 10000),
                   .scale = or_else(given->scale, 1),
                   .low = or_else(given->low, 1),
                   .high = or_else(given->high, given->style == KILN_ROTARY_YARN ? 32 : 4),
                   .extrapolation = or_else(given->extrapolation, 1),
                   .magnitude = or_else(given->magnitude, 1) };
    const kiln_status status = check_rotary_size(call, r, D);
    return status ? status : check_rotary_numbers(call, r, given);
}

kiln_status rotary_take_positions(const Call *call, const kiln_rotary *given, int64_t D, int64_t trained_length,
                                  bool has_lengths, Rotary *r)
{
    const kiln_status status = rotary_take(call, given, D, r);
    if (status) return status;
    const bool is_ntk = r->style == KILN_ROTARY_DYNAMIC_NTK || r->style == KILN_ROTARY_QWEN_NTK;
    if (is_ntk && !has_lengths)
        return call_fail(call, KILN_UNSUPPORTED,
                         "'style' of the rotary embedding is %d, one of NTK, which needs the sequences' lengths",
                         (int)r->style);
    if (!is_ntk && has_lengths)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'lengths' is not null, but 'style' of the rotary embedding is %d, which takes none",
                         (int)r->style);
    if (r->style == KILN_ROTARY_MULTI) r->style = KILN_ROTARY_HALVES; // of the first component, which positions have
    const bool uses_length = is_ntk || r->style == KILN_ROTARY_YARN || r->style == KILN_ROTARY_LLAMA3;
    if (uses_length ? trained_length < 1 || trained_length > INT32_MAX : trained_length != 0)
        return call_fail(call, KILN_BAD_ARGUMENT, "'trained_length' is %" PRId64 ", expected %s", trained_length,
                         uses_length ? "at least 1 and below 2^31: the positions of the model's training"
                         : given     ? "0: this style does not use it"
                                     : "0: there is no 'rotary'");
    return KILN_OK;
}

void rotary_add(Call *call, const Rotary *r, int64_t trained_length)
{
    const kiln_arg numbers[] = { KILN_FLOAT(r->base),     KILN_FLOAT(r->scale),         KILN_FLOAT(r->low),
                                 KILN_FLOAT(r->high),     KILN_FLOAT(r->extrapolation), KILN_FLOAT(r->magnitude),
                                 KILN_INT(trained_length) };
    for (int i = 0; i < COUNT(numbers); i++) call_add(call, numbers[i]);
}
