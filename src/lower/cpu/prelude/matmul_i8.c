// SPDX-License-Identifier: MIT
// matmul_i8.c - i8 and u8 in any combination into i32, exact for all inputs. needs: matmul.c
//
// Define KILN_USE_I8I8, KILN_USE_U8U8, KILN_USE_I8U8 or KILN_USE_U8I8 (a, then b).
//   tiles     there is an instruction for each combination
//   vpdpbusd  multiplies unsigned by signed bytes. Where a and b are of one kind, b is packed
//             with its top bit flipped, which makes it the other kind and adds or takes 128; then
//             128 times the sum of each row of a is taken away or added.
//   sdot, udot multiply bytes of one kind; it is the mixed products whose b is flipped.
//   else      both become i16 (vpmaddwd: a pair cannot overflow) or, in portable C, i32
#if KILN_AMX
#define KILN_DEFINE_BYTES(T, A, B, MULTIPLY, INSTRUCTION, A16, B16, A32, B32) \
    KILN_DEFINE_AMX_MATMUL(T, A, B, int32_t, INSTRUCTION, KILN_FORM_QUADS, KILN_FORM_QUADS, 1)
#elif KILN_VNNI || KILN_ARM_DOT
#if KILN_VNNI
KILN_INLINE kiln_vi32 kiln_dot_signed_a(kiln_vi32 sum, uint32_t quad, kiln_vi32 b)
{
    const kiln_vu32 x = (kiln_vu32){ 0 } + quad;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(b), "v"(x));
    return sum;
}
KILN_INLINE kiln_vi32 kiln_dot_unsigned_a(kiln_vi32 sum, uint32_t quad, kiln_vi32 b)
{
    const kiln_vu32 x = (kiln_vu32){ 0 } + quad;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(b));
    return sum;
}
enum { KILN_CORRECT_i8i8 = -128, KILN_CORRECT_u8u8 = 128, KILN_CORRECT_i8u8 = 0, KILN_CORRECT_u8i8 = 0 };
#else
#if KILN_SVE256
#define KILN_DOT_OF_BYTES(NAME) NAME " %0.s, %1.b, %2.b"
#else
#define KILN_DOT_OF_BYTES(NAME) NAME " %0.4s, %1.16b, %2.16b"
#endif
KILN_INLINE kiln_vi32 kiln_dot_signed_a(kiln_vi32 sum, uint32_t quad, kiln_vi32 b)
{
    const kiln_vu32 x = (kiln_vu32){ 0 } + quad;
    __asm__(KILN_DOT_OF_BYTES("sdot") : "+w"(sum) : "w"(x), "w"(b));
    return sum;
}
KILN_INLINE kiln_vi32 kiln_dot_unsigned_a(kiln_vi32 sum, uint32_t quad, kiln_vi32 b)
{
    const kiln_vu32 x = (kiln_vu32){ 0 } + quad;
    __asm__(KILN_DOT_OF_BYTES("udot") : "+w"(sum) : "w"(x), "w"(b));
    return sum;
}
enum { KILN_CORRECT_i8i8 = 0, KILN_CORRECT_u8u8 = 0, KILN_CORRECT_i8u8 = 128, KILN_CORRECT_u8i8 = -128 };
#endif
// correct: starts (or goes on) each row of c with a multiple of the sum of a's row, where b's top bits were flipped.
#define KILN_DEFINE_BYTES(T, A, B, MULTIPLY, INSTRUCTION, A16, B16, A32, B32)         \
    KILN_DEFINE_VECTOR_MATMUL(T##_raw, A, B, int32_t, kiln_u32_any, kiln_vi32, MULTIPLY,             \
                              KILN_FORM_QUADS, KILN_FORM_QUADS, KILN_CORRECT_##T ? 0x80808080u : 0, 1) \
    static __attribute__((unused)) int kiln_correct_##T(int32_t *c, int64_t c_stride, const A *a,    \
                                                        int64_t a_stride, int64_t m, int64_t n,      \
                                                        int64_t k, int accumulate)                   \
    {                                                                                                \
        if (KILN_CORRECT_##T == 0) return accumulate;                                                \
        for (int64_t i = 0; i < m; i++) {                                                            \
            uint32_t sum = 0;                                                                        \
            for (int64_t u = 0; u < k; u++) sum += (uint32_t)a[i * a_stride + u];                    \
            const int32_t first = (int32_t)(sum * (uint32_t)KILN_CORRECT_##T);                       \
            if (accumulate) for (int64_t j = 0; j < n; j++) c[i * c_stride + j] += first;            \
            else for (int64_t j = 0; j < n; j++) c[i * c_stride + j] = first;                        \
        }                                                                                            \
        return 1;                                                                                    \
    }                                                                                                \
    KILN_INLINE void kiln_pack_b_##T(void *packed, const B *b, int64_t stride, int transposed,       \
                                     int64_t n, int64_t k, int64_t tile_n, int64_t tile_k)           \
    {                                                                                                \
        kiln_pack_b_##T##_raw(packed, b, stride, transposed, n, k, tile_n, tile_k);                  \
    }                                                                                                \
    KILN_INLINE void kiln_pack_a_##T(void *packed, const A *a, int64_t stride, int transposed,       \
                                     int64_t m, int64_t k, int64_t tile_m, int64_t tile_k)           \
    {                                                                                                \
        kiln_pack_a_##T##_raw(packed, a, stride, transposed, m, k, tile_m, tile_k);                  \
    }                                                                                                \
    KILN_INLINE int kiln_in_place_##T(int64_t a_stride, int a_transposed, int64_t m, int64_t k)      \
    {                                                                                                \
        return kiln_in_place_##T##_raw(a_stride, a_transposed, m, k);                                \
    }                                                                                                \
    KILN_INLINE void kiln_product_##T(int32_t *c, int64_t c_stride, const void *packed_a,            \
                                      const void *packed_b, int64_t m, int64_t n, int64_t k,         \
                                      int accumulate)                                                \
    {                                                                                                \
        const int64_t row = (kiln_units(KILN_FORM_QUADS, k) + 16) * 4;                               \
        const int more = kiln_correct_##T(c, c_stride, packed_a, row, m, n, k, accumulate);          \
        kiln_product_##T##_raw(c, c_stride, packed_a, packed_b, m, n, k, more);                      \
    }                                                                                                \
    KILN_INLINE void kiln_product_rows_##T(int32_t *c, int64_t c_stride, const A *a,                 \
                                           int64_t a_stride, int a_transposed, const void *packed_b, \
                                           int64_t m, int64_t n, int64_t k, int accumulate)          \
    {                                                                                                \
        const int more = kiln_correct_##T(c, c_stride, a, a_stride, m, n, k, accumulate);            \
        kiln_product_rows_##T##_raw(c, c_stride, a, a_stride, a_transposed, packed_b, m, n, k, more);\
    }                                                                                                \
    KILN_DEFINE_WHOLE(T, A, B, int32_t, KILN_FORM_QUADS, kiln_in_place_##T)
#elif KILN_AVX512 || KILN_AVX2
KILN_INLINE kiln_vi32 kiln_dot_i16(kiln_vi32 sum, uint32_t pair, kiln_vi32 b)
{
    const kiln_vu32 x = (kiln_vu32){ 0 } + pair;
    kiln_vi32 products;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(products) : "v"(b), "v"(x));
    return sum + products;
}
#define KILN_DEFINE_BYTES(T, A, B, MULTIPLY, INSTRUCTION, A16, B16, A32, B32)       \
    KILN_DEFINE_VECTOR_MATMUL(T, A, B, int32_t, kiln_u32_any, kiln_vi32, kiln_dot_i16, A16, B16, 0, 0)
#else
// Unsigned, so that sums wrap instead of overflowing.
#define KILN_MULTIPLY_I32(sum, x, b) ((sum) + (x) * (b))
#define KILN_DEFINE_BYTES(T, A, B, MULTIPLY, INSTRUCTION, A16, B16, A32, B32)       \
    KILN_DEFINE_VECTOR_MATMUL(T, A, B, int32_t, kiln_u32_any, kiln_vu32, KILN_MULTIPLY_I32, A32, B32, 0, 0)
#endif

#if KILN_USE_I8I8
KILN_DEFINE_BYTES(i8i8, int8_t, int8_t, kiln_dot_signed_a, "tdpbssd",
                  KILN_FORM_I16_FROM_I8, KILN_FORM_I16_FROM_I8, KILN_FORM_I32_FROM_I8, KILN_FORM_I32_FROM_I8)
#endif
#if KILN_USE_U8U8
KILN_DEFINE_BYTES(u8u8, uint8_t, uint8_t, kiln_dot_unsigned_a, "tdpbuud",
                  KILN_FORM_I16_FROM_U8, KILN_FORM_I16_FROM_U8, KILN_FORM_I32_FROM_U8, KILN_FORM_I32_FROM_U8)
#endif
#if KILN_USE_I8U8
KILN_DEFINE_BYTES(i8u8, int8_t, uint8_t, kiln_dot_signed_a, "tdpbsud",
                  KILN_FORM_I16_FROM_I8, KILN_FORM_I16_FROM_U8, KILN_FORM_I32_FROM_I8, KILN_FORM_I32_FROM_U8)
#endif
#if KILN_USE_U8I8
KILN_DEFINE_BYTES(u8i8, uint8_t, int8_t, kiln_dot_unsigned_a, "tdpbusd",
                  KILN_FORM_I16_FROM_U8, KILN_FORM_I16_FROM_I8, KILN_FORM_I32_FROM_U8, KILN_FORM_I32_FROM_I8)
#endif
