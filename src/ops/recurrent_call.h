// SPDX-License-Identifier: MIT
// recurrent_call.h - what calls of recurrent.h and of its gradients check alike.
#ifndef KILN_OPS_RECURRENT_CALL_H
#define KILN_OPS_RECURRENT_CALL_H

#include "kiln/ops/recurrent.h"
#include "ops/call.h"

#include <inttypes.h>
#include <math.h>

enum {
    SIZE_MOST = 256,   // of keys and values, and of a row of Mamba-2's state
    SIZE_STEP = 16,    // their divisor
    STEP_TOKENS = 16,  // of a step: its kernel is made for their number
    FILTER_TOKENS = 8, // of a convolution
};

static inline const char *name_of(const kiln_tensor *tensor) { return kiln_type_name(tensor->type); }

// f32, or the type of `first`.
static inline unsigned same_or_f32(const kiln_tensor *first)
{
    const bool is_known = first && (unsigned)first->type <= KILN_BOOL;
    return (is_known ? TYPES_FLOAT & 1U << first->type : TYPES_FLOAT) | 1U << KILN_F32;
}

static inline kiln_status check_size(const Call *call, const char *letter, int divisor)
{
    const int64_t size = call_extent(call, letter);
    return size >= divisor && size <= SIZE_MOST && size % divisor == 0
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "size %s is %" PRId64 ", expected a multiple of %d up to %d", letter,
                           size, divisor, SIZE_MOST);
}

static inline kiln_status check_count(const Call *call, const char *letter, const char *tensor, int64_t least,
                                      int64_t most)
{
    const int64_t n = call_extent(call, letter);
    return n >= least && n <= most
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "'%s' has %s = %" PRId64 ", expected %" PRId64 " to %" PRId64,
                           tensor, letter, n, least, most);
}

// H value heads in groups: how many share a key head.
static inline kiln_status check_groups(const Call *call, const char *groups, const char *heads_of,
                                       const char *groups_of)
{
    const int64_t H = call_extent(call, "H"), G = call_extent(call, groups);
    kiln_status status = check_count(call, "H", heads_of, 1, INT32_MAX);
    if (!status) status = check_count(call, groups, groups_of, 1, INT32_MAX);
    if (status) return status;
    return H % G == 0 ? KILN_OK
                      : call_fail(call, KILN_BAD_SHAPE,
                                  "%" PRId64 " heads (of '%s') are not a multiple of %" PRId64 " (of '%s')", H,
                                  heads_of, G, groups_of);
}

static inline int group_of(const Call *call, const char *groups)
{
    return (int)(call_extent(call, "H") / call_extent(call, groups));
}

static inline kiln_status check_attention(const Call *call, const double *given, double *scale)
{
    kiln_status status = check_size(call, "DK", SIZE_STEP);
    if (!status) status = check_size(call, "DV", SIZE_STEP);
    if (!status) status = check_groups(call, "HK", "v", "k");
    if (!status) status = call_scale(call, given, 1 / sqrt((double)call_extent(call, "DK")), scale);
    return status;
}

// ---- whole sequences

// The states of a call: f32 or T, both the same.
typedef struct States {
    const kiln_tensor *any;  // one of them; NULL: there is none
    unsigned initial, final; // types
} States;

static inline States states_of(const kiln_tensor *first, const kiln_tensor *initial, const kiln_tensor *final)
{
    const unsigned types = same_or_f32(first);
    const bool is_known = initial && (unsigned)initial->type <= KILN_BOOL && types >> initial->type & 1;
    return (States){ initial ? initial : final, types, is_known ? 1U << initial->type : types };
}

static inline const char *state_type(const States *states) { return states->any ? name_of(states->any) : "f32"; }

// Packed sequences are a batch of one.
static inline void bind_batch(Call *call, const kiln_tensor *offsets)
{
    if (offsets) call_bind(call, "B", 1, "offsets");
}

// Whether states of packed sequences, of `keys` x `keys`, go by blocks of 64 columns, though one sequence may have most tokens: where
// those of 32 columns of one sequence do not fit at once, or there are many heads. As measured on an H200 with 132 multiprocessors.
static inline bool packed_wide(Call *call, const kiln_tensor *offsets, int64_t keys)
{
    const int64_t heads = call_extent(call, "H");
    if (keys != 64 && keys != 128 && keys != 256) return false;
    return (keys == 128 && heads > 33) || (keys == 256 && heads > 16) || (offsets->shape[0] - 1) * heads > 255;
}

// States of a call and their gradients have one type: that of the first there is.
static inline unsigned one_type(const kiln_tensor *first, const kiln_tensor *const *states, int n, const char **name)
{
    const unsigned types = same_or_f32(first);
    *name = "f32";
    for (int i = 0; i < n; i++)
        if (states[i]) {
            const bool is_known = (unsigned)states[i]->type <= KILN_BOOL && types >> states[i]->type & 1;
            *name = name_of(states[i]);
            return is_known ? 1U << states[i]->type : types;
        }
    return types;
}

// ---- gated delta net

// A gate for each channel of a key: Kimi delta attention.
static inline bool is_by_channel(const kiln_tensor *gates) { return gates && gates->rank == 4; }

// ---- causal convolution

// A state has one token less than a filter, whose size is `filter`'s.
static inline kiln_status check_filter(Call *call, const kiln_tensor *filter, kiln_activation activation)
{
    const int64_t tokens = filter && filter->rank == 2 ? filter->shape[1] : 2; // else call_check says what is wrong
    const kiln_status status = call_activation(call, (int)activation);
    if (status) return status;
    if (tokens < 2 || tokens > FILTER_TOKENS)
        return call_fail(call, KILN_UNSUPPORTED, "'filter' has W = %" PRId64 ", expected 2 to %d", tokens,
                         FILTER_TOKENS);
    call_bind(call, "W - 1", tokens - 1, "filter");
    return KILN_OK;
}

// ---- Mamba-2

// Whole sequences: what the shared memory of a multiprocessor holds.
static inline kiln_status check_state(const Call *call, const kiln_tensor *x)
{
    const int64_t P = call_extent(call, "P"), N = call_extent(call, "N");
    const bool is_f32 = x->type == KILN_F32;
    const bool is_power = P == 16 || P == 32 || P == 64 || P == 128;
    return is_power && (!is_f32 || N <= SIZE_MOST / 2) && P * N <= (is_f32 ? 8192 : 16384)
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "states of P = %" PRId64 " by N = %" PRId64
                           ", expected P = 16, 32, 64 or 128, N at most %d and P * N at most %d",
                           P, N, is_f32 ? SIZE_MOST / 2 : SIZE_MOST, is_f32 ? 8192 : 16384);
}

#endif
