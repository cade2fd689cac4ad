/* SPDX-License-Identifier: MIT */
/* rotary.h - how rotary embedding turns the elements of a head: for kiln_masked_decode (decode.h),
 * kiln_paged_append (paged.h) and kiln_rotary_embedding (nn.h). */
#ifndef KILN_OPS_ROTARY_H
#define KILN_OPS_ROTARY_H

#include "kiln/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which elements of a head are rotated together, and by which angle. Pair i of size/2 at position p is rotated by
 * p * base^(-2i / size), changed as the style says. */
typedef enum kiln_rotary_style {
    KILN_ROTARY_HALVES = 1,          /* elements i and i + size/2; the angle divided by `scale` */
    KILN_ROTARY_INTERLEAVED,         /* elements 2i and 2i + 1 */
    KILN_ROTARY_DYNAMIC_NTK,         /* halves; for rows of length L > trained_length base grows by the factor
                                      *   (scale * L / trained_length - (scale - 1))^(size / (size - 2)) */
    KILN_ROTARY_QWEN_NTK,            /* the same with max(2^ceil(log2(L / trained_length) + 1) - 1, 1)^(size / (size - 2)) */
    KILN_ROTARY_YARN,                /* halves, from element `offset` on; between the pairs that turn `high` and `low` times over
                                      *   trained_length the angle goes over into angle / scale */
    KILN_ROTARY_LLAMA3,              /* halves; angle / scale where the wavelength is above trained_length / low, unchanged
                                      *   where it is below trained_length / high, blended between */
    KILN_ROTARY_MULTI                /* as halves; for positions of several components, of which the first counts */
} kiln_rotary_style;

typedef struct kiln_rotary {
    kiln_rotary_style style;
    int64_t size;                    /* how many elements of a head are rotated: even, 2 (NTK: 4) to D; 0: D; interleaved: D/2 */
    double  base;                    /* > 1; 0: 10000 */
    double  scale;                   /* > 0; 0: 1. Not with interleaved, Qwen NTK */
    double  low, high;               /* YaRN: 0: 1 and 32 turns; Llama 3: 0: factors 1 and 4. 0 < low < high. Others: 0 */
    double  extrapolation;           /* YaRN: 0 < x <= 1, the weight of angles that are not scaled; 0: 1. Others: 0 */
    double  magnitude;               /* > 0: what sine and cosine are multiplied by; 0: 1 */
    int64_t offset;                  /* YaRN: the first element rotated. Others: 0 */
} kiln_rotary;

#ifdef __cplusplus
}
#endif
#endif
