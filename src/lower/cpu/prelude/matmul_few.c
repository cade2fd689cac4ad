// SPDX-License-Identifier: MIT
// matmul_few.c - products with few rows of a: decoding, where b is read once and its bytes decide.
//
// Packing b would cost more than multiplying by it, so b is read where it lies and widened in registers: dot products
// where it lies as b[n][k], sums of scaled rows where it lies as b[k][n]. Few rows of a (1, 2 or 4; a third is
// computed as a fourth) meet as many rows of b, or as many vectors of a row, as registers hold sums. On tile registers
// a b[n][k] of bf16 is the left side of the transposed product as it lies, for up to 16 rows of a.
//
// `ahead`: where b of the next product lies, NULL if unknown; it is fetched along, row by row.
// scratch: a as 4 rows of f32, or (bf16) packed, and 64 rows of sums. needs: base.c, convert.c, matmul_pack.c,
// matmul_few_bf16.c
#if KILN_AVX512
enum { KILN_FEW_SUMS = 16 };
#else
enum { KILN_FEW_SUMS = 8 };
#endif

KILN_INLINE void kiln_fetch_row(const char *row, int64_t bytes)
{
    if (row)
        for (int64_t i = 0; i < bytes; i += 64) KILN_FETCH(row + i);
}

KILN_INLINE kiln_vf32 kiln_widened(enum KilnForm form, const char *from) { return (kiln_vf32)kiln_units_along(form, from); }

KILN_INLINE float kiln_widened_one(enum KilnForm form, const char *from)
{
    uint32_t bits = 0;
    __builtin_memcpy(&bits, from, (size_t)kiln_form_bytes(form));
    switch ((int)form) {
    case KILN_FORM_F32_FROM_BF16: return kiln_f32_from_bf16((uint16_t)bits);
    case KILN_FORM_F32_FROM_F16:  return kiln_f32_from_f16((uint16_t)bits);
    case KILN_FORM_F32_FROM_E4M3: return kiln_f32_from_e4m3((uint8_t)bits);
    case KILN_FORM_F32_FROM_E5M2: return kiln_f32_from_e5m2((uint8_t)bits);
    }
    return kiln_f32_bits(bits);
}

// c[i][j] of ROWS rows and COUNT = LANES / ROWS rows of b; left is widened, `line` apart.
KILN_INLINE void kiln_few_dots(float *c, int64_t c_stride, const float *left, int64_t line, enum KilnForm form, const char *b,
                               int64_t b_bytes, int rows, int64_t m, int64_t k, int accumulate)
{
    const int count = KILN_LANES / rows, bytes = kiln_form_bytes(form);
    kiln_vf32 sum[KILN_LANES];
    KILN_UNROLL for (int x = 0; x < KILN_LANES; x++) sum[x] = (kiln_vf32){ 0 };
    int64_t u = 0;
    for (; u + KILN_LANES <= k; u += KILN_LANES) {
        kiln_vf32 a[4];
        KILN_UNROLL for (int i = 0; i < rows; i++) a[i] = *(const kiln_vf32_any *)(left + i * line + u);
        KILN_UNROLL for (int j = 0; j < count; j++) {
            const kiln_vf32 y = kiln_widened(form, b + j * b_bytes + u * bytes);
            KILN_UNROLL for (int i = 0; i < rows; i++) sum[i * count + j] += a[i] * y;
        }
    }
    kiln_vf32 total = kiln_sums_of_lanes(sum);
    float one[KILN_LANES];
    __builtin_memcpy(one, &total, sizeof one);
    for (; u < k; u++)
        for (int x = 0; x < KILN_LANES; x++)
            one[x] += left[x / count * line + u] * kiln_widened_one(form, b + x % count * b_bytes + u * bytes);
    KILN_UNROLL for (int i = 0; i < rows; i++) {
        if (i >= m) break;
        float *const row = c + i * c_stride;
        for (int j = 0; j < count; j++) row[j] = accumulate ? row[j] + one[i * count + j] : one[i * count + j];
    }
}

// c += left @ b over VECTORS vectors of columns, all of k.
KILN_INLINE void kiln_few_rows(float *c, int64_t c_stride, const float *left, int64_t line, enum KilnForm form, const char *b,
                               int64_t b_bytes, int rows, int vectors, int64_t m, int64_t k, int accumulate,
                               const char *ahead, int64_t ahead_bytes)
{
    const int bytes = kiln_form_bytes(form);
    kiln_vf32 sum[4][KILN_FEW_SUMS];
    KILN_UNROLL for (int i = 0; i < rows; i++)
        KILN_UNROLL for (int v = 0; v < vectors; v++)
            if (accumulate && i < m) sum[i][v] = ((const kiln_vf32_any *)(c + i * c_stride))[v];
            else sum[i][v] = (kiln_vf32){ 0 };
    KILN_NO_UNROLL for (int64_t u = 0; u < k; u++) {
        KILN_UNROLL for (int v = 0; v < vectors; v++) {
            const kiln_vf32 y = kiln_widened(form, b + u * b_bytes + v * KILN_LANES * bytes);
            KILN_UNROLL for (int i = 0; i < rows; i++) sum[i][v] += left[i * line + u] * y;
        }
        if (ahead) kiln_fetch_row(ahead + u * b_bytes, ahead_bytes);
    }
    KILN_UNROLL for (int i = 0; i < rows; i++)
        if (i < m)
            KILN_UNROLL for (int v = 0; v < vectors; v++) ((kiln_vf32_any *)(c + i * c_stride))[v] = sum[i][v];
}

// Up to four rows of a, widened.
KILN_INLINE void kiln_few(float *c, int64_t c_stride, const float *left, int64_t line, enum KilnForm form, const char *b,
                          int64_t b_bytes, int b_transposed, int64_t m, int64_t n, int64_t k, int accumulate, const char *ahead)
{
    const int rows = m > 2 ? 4 : (int)m, count = KILN_LANES / rows, vectors = KILN_FEW_SUMS / rows, bytes = kiln_form_bytes(form);
    int64_t j = 0;
    if (b_transposed) {
        for (; j + count <= n; j += count) {
            kiln_few_dots(c + j, c_stride, left, line, form, b + j * b_bytes, b_bytes, rows, m, k, accumulate);
            for (int x = 0; ahead && x < count; x++) kiln_fetch_row(ahead + (j + x) * b_bytes, k * bytes);
        }
        for (; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                float sum = 0;
                for (int64_t u = 0; u < k; u++) sum += left[i * line + u] * kiln_widened_one(form, b + j * b_bytes + u * bytes);
                c[i * c_stride + j] = accumulate ? c[i * c_stride + j] + sum : sum;
            }
        return;
    }
    for (; j + vectors * KILN_LANES <= n; j += vectors * KILN_LANES)
        kiln_few_rows(c + j, c_stride, left, line, form, b + j * bytes, b_bytes, rows, vectors, m, k, accumulate,
                      ahead ? ahead + j * bytes : ahead, vectors * KILN_LANES * bytes);
    for (; j + KILN_LANES <= n; j += KILN_LANES)
        kiln_few_rows(c + j, c_stride, left, line, form, b + j * bytes, b_bytes, rows, 1, m, k, accumulate, NULL, 0);
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float sum = accumulate ? c[i * c_stride + j] : 0;
            for (int64_t u = 0; u < k; u++) sum += left[i * line + u] * kiln_widened_one(form, b + u * b_bytes + j * bytes);
            c[i * c_stride + j] = sum;
        }
}

#if KILN_AMX && KILN_USE_FEW_BF16
// c = transpose(b @ transpose(a)): 64 rows of b at a time as they lie, a packed as the right side.
KILN_INLINE void kiln_few_tiles(float *c, int64_t c_stride, const uint16_t *a, int64_t a_stride, int a_transposed,
                                const uint16_t *b, int64_t b_stride, int64_t m, int64_t n, int64_t k, int accumulate,
                                void *scratch, const char *ahead)
{
    char *const packed = scratch;                                      // [k / 2][16] pairs
    float *const sums = (float *)(packed + k * 32);                    // [64][16]
    const int64_t b_bytes = b_stride * 2;
    kiln_pack_panels(packed, KILN_FORM_PAIRS, a, a_stride, !a_transposed, m, k, 16, 16, k / 2, 0);
    kiln_amx_begin();
    for (int64_t j = 0; j < n; j += 64) {
        const int64_t blocks = kiln_least((n - j) / 16, 4);
        const char *at = (const char *)(b + j * b_stride);
        const char *fetch = ahead ? ahead + j * b_bytes : NULL;
        KILN_TILE_ZERO(0); KILN_TILE_ZERO(1); KILN_TILE_ZERO(2); KILN_TILE_ZERO(3);
        for (int64_t u = 0; u < k; u += 32, at += 64) {
            KILN_TILE_LOAD(6, packed + u * 32, 64);
            KILN_TILE_LOAD(4, at, b_bytes);
            KILN_TILE_MULTIPLY("tdpbf16ps", 0, 4, 6);
            if (blocks > 1) { KILN_TILE_LOAD(5, at + 16 * b_bytes, b_bytes); KILN_TILE_MULTIPLY("tdpbf16ps", 1, 5, 6); }
            if (blocks > 2) { KILN_TILE_LOAD(4, at + 32 * b_bytes, b_bytes); KILN_TILE_MULTIPLY("tdpbf16ps", 2, 4, 6); }
            if (blocks > 3) { KILN_TILE_LOAD(5, at + 48 * b_bytes, b_bytes); KILN_TILE_MULTIPLY("tdpbf16ps", 3, 5, 6); }
            if (fetch)
                for (int64_t r = 0; r < 16 * blocks; r++) KILN_FETCH(fetch + u * 2 + r * b_bytes);
        }
        KILN_TILE_STORE(0, sums, 64);
        KILN_TILE_STORE(1, sums + 256, 64);
        KILN_TILE_STORE(2, sums + 512, 64);
        KILN_TILE_STORE(3, sums + 768, 64);
        for (int64_t block = 0; block < blocks; block++) {
            kiln_vu32 row[KILN_LANES];
            KILN_UNROLL for (int i = 0; i < KILN_LANES; i++) row[i] = *(const kiln_vu32_any *)(sums + (block * 16 + i) * 16);
            kiln_transpose_words(row);
            KILN_UNROLL for (int i = 0; i < KILN_LANES; i++) {
                if (i >= m) break;
                kiln_vf32_any *const to = (kiln_vf32_any *)(c + i * c_stride + j + block * 16);
                if (accumulate) *to += (kiln_vf32)row[i];
                else *to = (kiln_vf32)row[i];
            }
        }
    }
    kiln_amx_end();
}
#endif

#define kiln_row_f32_from_f32(to, from, n) __builtin_memcpy(to, from, (size_t)(n) * 4)
#define kiln_f32_from_f32(x) (x)

// m, n, k and the flags are constants at each call.
#define KILN_DEFINE_FEW(T, STORED, FORM)                                                                \
    KILN_INLINE void kiln_few_##T(                                                                      \
        float *c, int64_t c_stride, const STORED *a, int64_t a_stride, int a_transposed,                \
        const STORED *b, int64_t b_stride, int b_transposed, int64_t m, int64_t n, int64_t k,           \
        int accumulate, void *scratch, const void *ahead)                                               \
    {                                                                                                   \
        KILN_FEW_TILES_##T                                                                              \
        const int64_t line = kiln_round_up(k, 16);                                                      \
        for (int64_t first = 0; first < m; first += 4) {                                                \
            const int64_t rows = kiln_least(m - first, 4);                                              \
            float *const left = scratch;                                                                \
            for (int64_t i = 0; i < rows; i++)                                                          \
                if (a_transposed)                                                                       \
                    for (int64_t u = 0; u < k; u++)                                                     \
                        left[i * line + u] = kiln_f32_from_##T(a[u * a_stride + first + i]);            \
                else kiln_row_f32_from_##T(left + i * line, a + (first + i) * a_stride, k);             \
            if (rows == 3) __builtin_memset(left + 3 * line, 0, (size_t)k * 4);                         \
            kiln_few(c + first * c_stride, c_stride, left, line, FORM, (const char *)b,                 \
                     b_stride * (int64_t)sizeof(STORED), b_transposed, rows, n, k, accumulate,          \
                     (const char *)(first ? NULL : ahead));                                             \
        }                                                                                               \
    }
#if KILN_AMX
#define KILN_FEW_TILES_bf16                                                                             \
    if (b_transposed && n % 16 == 0 && k % 32 == 0 && k > 0 && m <= 16) {                               \
        kiln_few_tiles(c, c_stride, a, a_stride, a_transposed, b, b_stride, m, n, k, accumulate, scratch, ahead); \
        return;                                                                                         \
    }
#elif KILN_BF16
#define KILN_FEW_TILES_bf16                                                                             \
    if (!a_transposed && (b_transposed ? k % 32 == 0 : n % 32 == 0 && k % 2 == 0)) {                    \
        kiln_few_bf16_pairs(c, c_stride, a, a_stride, b, b_stride, b_transposed, m, n, k, accumulate, scratch, ahead); \
        return;                                                                                         \
    }
#else
#define KILN_FEW_TILES_bf16
#endif
#define KILN_FEW_TILES_f32
#define KILN_FEW_TILES_f16
#define KILN_FEW_TILES_e4m3
#define KILN_FEW_TILES_e5m2
#if KILN_USE_FEW_F32
KILN_DEFINE_FEW(f32, float, KILN_FORM_F32)
#endif
#if KILN_USE_FEW_BF16
KILN_DEFINE_FEW(bf16, uint16_t, KILN_FORM_F32_FROM_BF16)
#endif
#if KILN_USE_FEW_F16
KILN_DEFINE_FEW(f16, uint16_t, KILN_FORM_F32_FROM_F16)
#endif
#if KILN_USE_FEW_E4M3
KILN_DEFINE_FEW(e4m3, uint8_t, KILN_FORM_F32_FROM_E4M3)
#endif
#if KILN_USE_FEW_E5M2
KILN_DEFINE_FEW(e5m2, uint8_t, KILN_FORM_F32_FROM_E5M2)
#endif
