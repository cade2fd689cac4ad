// SPDX-License-Identifier: MIT
// matmul.c - the products a kernel calls: c[m][n] = or += a[m][k] @ b[k][n], for each element type.
//
// Each matmul_*.c makes, for a pair of operand types called T:
//
//   kiln_pack_b_T(packed, b, stride, transposed, n, k, tile_n, tile_k)
//   kiln_pack_a_T(packed, a, stride, transposed, m, k, tile_m, tile_k)
//   kiln_product_T(c, c_stride, packed_a, packed_b, m, n, k, accumulate)
//   kiln_product_rows_T(c, c_stride, a, a_stride, a_transposed, packed_b, m, n, k, accumulate)
//   kiln_matmul_T(c, c_stride, a, a_stride, a_transposed, b, b_stride, b_transposed,
//                 m, n, k, accumulate, scratch)
//   kiln_matmul_cut_T(c, c_stride, a, a_stride, a_transposed, a_m, a_k, b, b_stride, b_transposed, b_n, b_k,
//                     m, n, k, accumulate, scratch)
//
// Strides count elements from row to row. `transposed`: a lies as a[k][m], b as b[n][k]. The
// flags are constants at every call. Packing reads k x n (or m x k) elements and fills with
// zeros up to the tile's extents, so it may read a tensor directly; the product then takes the
// tile's extents. product_rows reads an a that is a plain array, where kiln_in_place_T(a_stride,
// a_transposed, m, k) says that it can. matmul does what is fastest for two plain arrays.
//
// Bytes that packed operands and scratch need are at most (8 instead of 4 for f64)
//   packed b  4 * round_up(tile_n, 64) * round_up(tile_k, 16)
//   packed a  4 * round_up(tile_m, 16) * (round_up(tile_k, 16) + 16)
//   scratch   the sum of both, of (m, n, k)
// All are 64-byte aligned. needs: base.c, convert.c, matmul_pack.c, matmul_vector.c, matmul_amx.c

// Units of k that a tile's operand takes.
KILN_INLINE int64_t kiln_units(enum KilnForm form, int64_t k)
{
    const int count = kiln_form_count(form);
    return kiln_round_up((k + count - 1) / count, 16);
}

// Packing, outlined once for each orientation: the blocks inside are long straight-line code.
// NR: columns of a panel. PAD: b is zero up to a multiple of it. ROW, BLOCK_M, BLOCK_K: how packed
// a is laid out, in units; they may use `units`, the units of k.
#define KILN_DEFINE_PACK_B(NAME, B, FORM, TRANSPOSED, NR, PAD, FLIP)                               \
    KILN_OUTLINE void NAME(void *to, const B *b, int64_t stride, int64_t n, int64_t k,             \
                           int64_t tile_n, int64_t tile_k)                                         \
    {                                                                                              \
        kiln_pack_panels(to, FORM, b, stride, TRANSPOSED, n, k, NR, kiln_round_up(tile_n, PAD),    \
                         kiln_units(FORM, tile_k), FLIP);                                          \
    }
#define KILN_DEFINE_PACK_A(NAME, A, FORM, TRANSPOSED, ROW, BLOCK_M, BLOCK_K)                       \
    KILN_OUTLINE void NAME(void *to, const A *a, int64_t stride, int64_t m, int64_t k,             \
                           int64_t tile_m, int64_t tile_k)                                         \
    {                                                                                              \
        const int64_t units = kiln_units(FORM, tile_k);                                            \
        kiln_pack_rows(to, FORM, a, stride, TRANSPOSED, m, k, tile_m, units, ROW, BLOCK_M, BLOCK_K);\
    }
#define KILN_DEFINE_PACKING(T, A, B, FORM_A, FORM_B, NR, PAD, FLIP, ROW, BLOCK_M, BLOCK_K)         \
    KILN_DEFINE_PACK_B(kiln_pack_b_##T##_kn, B, FORM_B, 0, NR, PAD, FLIP)                          \
    KILN_DEFINE_PACK_B(kiln_pack_b_##T##_nk, B, FORM_B, 1, NR, PAD, FLIP)                          \
    KILN_DEFINE_PACK_A(kiln_pack_a_##T##_mk, A, FORM_A, 0, ROW, BLOCK_M, BLOCK_K)                  \
    KILN_DEFINE_PACK_A(kiln_pack_a_##T##_km, A, FORM_A, 1, ROW, BLOCK_M, BLOCK_K)                  \
    KILN_INLINE void kiln_pack_b_##T(void *packed, const B *b, int64_t stride, int transposed,     \
                                     int64_t n, int64_t k, int64_t tile_n, int64_t tile_k)         \
    {                                                                                              \
        if (transposed) kiln_pack_b_##T##_nk(packed, b, stride, n, k, tile_n, tile_k);             \
        else kiln_pack_b_##T##_kn(packed, b, stride, n, k, tile_n, tile_k);                        \
    }                                                                                              \
    KILN_INLINE void kiln_pack_a_##T(void *packed, const A *a, int64_t stride, int transposed,     \
                                     int64_t m, int64_t k, int64_t tile_m, int64_t tile_k)         \
    {                                                                                              \
        if (transposed) kiln_pack_a_##T##_km(packed, a, stride, m, k, tile_m, tile_k);             \
        else kiln_pack_a_##T##_mk(packed, a, stride, m, k, tile_m, tile_k);                        \
    }

// matmul: packs b, and a where it cannot be read in place. matmul_cut: a_m x a_k and b_k x b_n of the sides are in
// memory, zeros beyond; k is 0 or more.
#define KILN_DEFINE_WHOLE(T, A, B, ACC, FORM_B, IN_PLACE)                                          \
    KILN_INLINE void kiln_matmul_cut_##T(                                                          \
        ACC *c, int64_t c_stride, const A *a, int64_t a_stride, int a_transposed, int64_t a_m,     \
        int64_t a_k, const B *b, int64_t b_stride, int b_transposed, int64_t b_n, int64_t b_k,     \
        int64_t m, int64_t n, int64_t k, int accumulate, void *scratch)                            \
    {                                                                                              \
        char *const packed_a = (char *)scratch + 4 * kiln_round_up(n, 64) * kiln_units(FORM_B, k); \
        kiln_pack_b_##T(scratch, b, b_stride, b_transposed, kiln_least(b_n, n), kiln_least(b_k, k), n, k); \
        if (a_m >= m && a_k >= k && IN_PLACE(a_stride, a_transposed, m, k)) {                      \
            kiln_product_rows_##T(c, c_stride, a, a_stride, a_transposed, scratch, m, n, k,        \
                                  accumulate);                                                     \
        } else {                                                                                   \
            kiln_pack_a_##T(packed_a, a, a_stride, a_transposed, kiln_least(a_m, m),               \
                            kiln_least(a_k, k), m, k);                                             \
            kiln_product_##T(c, c_stride, packed_a, scratch, m, n, k, accumulate);                 \
        }                                                                                          \
    }                                                                                              \
    KILN_INLINE void kiln_matmul_##T(                                                              \
        ACC *c, int64_t c_stride, const A *a, int64_t a_stride, int a_transposed, const B *b,      \
        int64_t b_stride, int b_transposed, int64_t m, int64_t n, int64_t k, int accumulate,       \
        void *scratch)                                                                             \
    {                                                                                              \
        kiln_matmul_cut_##T(c, c_stride, a, a_stride, a_transposed, m, k, b, b_stride, b_transposed, n, k, m, n, k, \
                            accumulate, scratch);                                                  \
    }

// On vector registers. FORM_A, FORM_B: what packing makes of the operands; MULTIPLY as in
// matmul_vector.c. In place, a unit of a is one element, or several that lie together; rows whole
// kilobytes apart fall on few sets of the first-level cache and are copied first (GEMM of 2048: 0.79
// to 0.92 of OpenBLAS).
#define KILN_DEFINE_VECTOR_MATMUL(T, A, B, ACC, UNIT, VECTOR, MULTIPLY, FORM_A, FORM_B, FLIP, IN_PLACE) \
    KILN_DEFINE_PRODUCT(kiln_vector_##T, UNIT, ACC, VECTOR, MULTIPLY)                              \
    KILN_DEFINE_PACKING(T, A, B, FORM_A, FORM_B, 2 * KILN_LANES, 2 * KILN_LANES, FLIP,             \
                        units + 16, 16 * (units + 16), 16)                                         \
    KILN_INLINE int kiln_in_place_##T(int64_t a_stride, int a_transposed, int64_t m, int64_t k)    \
    {                                                                                              \
        (void)a_stride, (void)m, (void)a_transposed, (void)k;                                      \
        const int count = kiln_form_count(FORM_A);                                                 \
        const int spread = m <= 4 || a_transposed || a_stride * (int64_t)sizeof(A) % 2048 != 0;    \
        return IN_PLACE && spread && (count == 1 || (!a_transposed && (k | a_stride) % count == 0));\
    }                                                                                              \
    KILN_INLINE void kiln_product_##T(ACC *c, int64_t c_stride, const void *packed_a,              \
                                      const void *packed_b, int64_t m, int64_t n, int64_t k,       \
                                      int accumulate)                                              \
    {                                                                                              \
        const int64_t units = kiln_units(FORM_B, k), count = kiln_form_count(FORM_B);              \
        kiln_vector_##T(c, c_stride, packed_a, units + 16, 1, packed_b, units, m, n,               \
                        (k + count - 1) / count, accumulate);                                      \
    }                                                                                              \
    KILN_INLINE void kiln_product_rows_##T(ACC *c, int64_t c_stride, const A *a, int64_t a_stride, \
                                           int a_transposed, const void *packed_b, int64_t m,      \
                                           int64_t n, int64_t k, int accumulate)                   \
    {                                                                                              \
        const int64_t units = kiln_units(FORM_B, k), count = kiln_form_count(FORM_B);              \
        const int64_t along = a_stride * (int64_t)sizeof(A) / (int64_t)sizeof(UNIT);               \
        kiln_vector_##T(c, c_stride, (const UNIT *)a, a_transposed ? 1 : along,                    \
                        a_transposed ? along : 1, packed_b, units, m, n, k / count, accumulate);   \
    }                                                                                              \
    KILN_DEFINE_WHOLE(T, A, B, ACC, FORM_B, kiln_in_place_##T)

// On tile registers. In place, rows must be whole 64-byte blocks, in whole blocks of 16, and not a
// multiple of 4 KB apart: 16 such rows fall on one set of a 12-way cache.
#define KILN_DEFINE_AMX_MATMUL(T, A, B, ACC, INSTRUCTION, FORM_A, FORM_B, IN_PLACE)                \
    KILN_DEFINE_AMX_PRODUCT(kiln_amx_##T, ACC, INSTRUCTION)                                        \
    KILN_DEFINE_PACKING(T, A, B, FORM_A, FORM_B, 16, 32, 0, 16, 16 * units, 256)                   \
    KILN_INLINE int kiln_in_place_##T(int64_t a_stride, int a_transposed, int64_t m, int64_t k)    \
    {                                                                                              \
        return IN_PLACE && !a_transposed && m % 16 == 0 && k * (int64_t)sizeof(A) % 64 == 0 &&     \
               a_stride * (int64_t)sizeof(A) % 4096 != 0;                                          \
    }                                                                                              \
    KILN_INLINE void kiln_product_##T(ACC *c, int64_t c_stride, const void *packed_a,              \
                                      const void *packed_b, int64_t m, int64_t n, int64_t k,       \
                                      int accumulate)                                              \
    {                                                                                              \
        const int64_t units = kiln_units(FORM_B, k);                                               \
        const KilnTileRows a = { packed_a, 64, units * 64, 1024 };                                 \
        kiln_amx_##T(c, c_stride, a, packed_b, units, m, n, units, accumulate);                    \
    }                                                                                              \
    KILN_INLINE void kiln_product_rows_##T(ACC *c, int64_t c_stride, const A *a, int64_t a_stride, \
                                           int a_transposed, const void *packed_b, int64_t m,      \
                                           int64_t n, int64_t k, int accumulate)                   \
    {                                                                                              \
        const int64_t units = kiln_units(FORM_B, k), bytes = a_stride * (int64_t)sizeof(A);        \
        const KilnTileRows rows = { (const char *)a, bytes, 16 * bytes, 64 };                      \
        (void)a_transposed;                                                                        \
        kiln_amx_##T(c, c_stride, rows, packed_b, units, m, n, units, accumulate);                 \
    }                                                                                              \
    KILN_DEFINE_WHOLE(T, A, B, ACC, FORM_B, kiln_in_place_##T)
