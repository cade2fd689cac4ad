// SPDX-License-Identifier: MIT
// matmul_narrow_float.c - bf16, f16, e4m3 and e5m2 into f32. needs: matmul.c
//
// bf16 and what converts to it exactly (fp8) use tile products or bf16 dot products; f16 does
// not fit bf16 and goes through f32. KILN_BF16 is for machines whose dot product beats two f32
// products: on Intel's vdpbf16ps issues every second cycle, which is half their f32 rate, so there
// it is tiles or f32. KILN_ARM_BF16: bfdot.
#if KILN_AMX
#define KILN_DEFINE_NARROW(T, A, B, TO_F32_A, TO_F32_B, TO_PAIRS_A, TO_PAIRS_B, IN_PLACE) \
    KILN_DEFINE_AMX_MATMUL(T, A, B, float, "tdpbf16ps", TO_PAIRS_A, TO_PAIRS_B, IN_PLACE)
#elif KILN_BF16 || KILN_ARM_BF16
#if KILN_BF16
#define KILN_DOT_OF_BF16(sum, x, b) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(b), "v"(x))
#elif KILN_SVE256
#define KILN_DOT_OF_BF16(sum, x, b) __asm__("bfdot %0.s, %1.h, %2.h" : "+w"(sum) : "w"(x), "w"(b))
#else
#define KILN_DOT_OF_BF16(sum, x, b) __asm__("bfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(x), "w"(b))
#endif
KILN_INLINE kiln_vf32 kiln_dot_bf16(kiln_vf32 sum, uint32_t pair, kiln_vf32 b)
{
    const kiln_vu32 x = (kiln_vu32){ 0 } + pair;
    KILN_DOT_OF_BF16(sum, x, b);
    return sum;
}
#define KILN_DEFINE_NARROW(T, A, B, TO_F32_A, TO_F32_B, TO_PAIRS_A, TO_PAIRS_B, IN_PLACE)    \
    KILN_DEFINE_VECTOR_MATMUL(T, A, B, float, kiln_u32_any, kiln_vf32, kiln_dot_bf16, TO_PAIRS_A, \
                              TO_PAIRS_B, 0, IN_PLACE)
#else
#define KILN_MULTIPLY_WIDENED(sum, x, b) ((sum) + (x) * (b))
#define KILN_DEFINE_NARROW(T, A, B, TO_F32_A, TO_F32_B, TO_PAIRS_A, TO_PAIRS_B, IN_PLACE)    \
    KILN_DEFINE_VECTOR_MATMUL(T, A, B, float, float, kiln_vf32, KILN_MULTIPLY_WIDENED, TO_F32_A, \
                              TO_F32_B, 0, 0)
#endif

#if KILN_USE_BF16
KILN_DEFINE_NARROW(bf16, uint16_t, uint16_t, KILN_FORM_F32_FROM_BF16, KILN_FORM_F32_FROM_BF16,
                   KILN_FORM_PAIRS, KILN_FORM_PAIRS, 1)
#endif
#if KILN_USE_E4M3
KILN_DEFINE_NARROW(e4m3, uint8_t, uint8_t, KILN_FORM_F32_FROM_E4M3, KILN_FORM_F32_FROM_E4M3,
                   KILN_FORM_PAIRS_FROM_E4M3, KILN_FORM_PAIRS_FROM_E4M3, 0)
#endif
#if KILN_USE_E5M2
KILN_DEFINE_NARROW(e5m2, uint8_t, uint8_t, KILN_FORM_F32_FROM_E5M2, KILN_FORM_F32_FROM_E5M2,
                   KILN_FORM_PAIRS_FROM_E5M2, KILN_FORM_PAIRS_FROM_E5M2, 0)
#endif
#if KILN_USE_E4M3_E5M2
KILN_DEFINE_NARROW(e4m3_e5m2, uint8_t, uint8_t, KILN_FORM_F32_FROM_E4M3, KILN_FORM_F32_FROM_E5M2,
                   KILN_FORM_PAIRS_FROM_E4M3, KILN_FORM_PAIRS_FROM_E5M2, 0)
#endif
#if KILN_USE_E5M2_E4M3
KILN_DEFINE_NARROW(e5m2_e4m3, uint8_t, uint8_t, KILN_FORM_F32_FROM_E5M2, KILN_FORM_F32_FROM_E4M3,
                   KILN_FORM_PAIRS_FROM_E5M2, KILN_FORM_PAIRS_FROM_E4M3, 0)
#endif
#if KILN_USE_F16
#define KILN_MULTIPLY_F16(sum, x, b) ((sum) + (x) * (b))
KILN_DEFINE_VECTOR_MATMUL(f16, uint16_t, uint16_t, float, float, kiln_vf32, KILN_MULTIPLY_F16,
                          KILN_FORM_F32_FROM_F16, KILN_FORM_F32_FROM_F16, 0, 0)
#endif
