// SPDX-License-Identifier: MIT
// matmul_amx.c - products on the tile registers of AMX: sixteen times the rate of f32 vectors.
//
// A tile register holds 16 rows of 64 bytes. One instruction adds the product of a 16 x 16-unit
// block of a and a 16-unit x 16 block of b to 16 x 16 sums. Two tiles of a against two of b keep
// four sums in flight and load each tile for two products, which just balances loads against
// products. a is read in place or packed, b from panels 16 columns wide.
//
// KILN_DEFINE_AMX_PRODUCT(NAME, ACC, INSTRUCTION) defines
//   NAME(c, c_stride, a, row_bytes, block_m, block_k, packed, k_units, m, n, k_units, accumulate)
// block_m and block_k: bytes from one 16-row block of a, and one 64-byte block of k, to the next.
// a is readable up to whole blocks; packed b is zero up to 32 columns. The process must have
// asked the kernel for tile data (arch_prctl ARCH_REQ_XCOMP_PERM 18) before. needs: base.c
//
// The instructions read bf16 subnormals as zero and flush subnormal sums.
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} KilnTileConfig;

KILN_INLINE void kiln_amx_begin(void)
{
    KilnTileConfig config = { .palette = 1 };
    for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = 16;
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
KILN_INLINE void kiln_amx_end(void) { __asm__ volatile("tilerelease"); }

#define KILN_TILE_LOAD(TILE, AT, ROW_BYTES) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #TILE : : "r"(AT), "r"((int64_t)(ROW_BYTES)) : "memory")
#define KILN_TILE_STORE(TILE, AT, ROW_BYTES) \
    __asm__ volatile("tilestored %%tmm" #TILE ", (%0,%1,1)" : : "r"(AT), "r"((int64_t)(ROW_BYTES)) : "memory")
#define KILN_TILE_ZERO(TILE) __asm__ volatile("tilezero %%tmm" #TILE : :)
#define KILN_TILE_MULTIPLY(INSTRUCTION, C, A, B) \
    __asm__ volatile(INSTRUCTION " %%tmm" #B ", %%tmm" #A ", %%tmm" #C : :)

typedef struct {
    const char *at;
    int64_t row_bytes, block_m, block_k;
} KilnTileRows;

// 32 or 16 rows of c (two or one blocks of a) by 32 columns (two panels of b).
#define KILN_DEFINE_AMX_BLOCK(NAME, INSTRUCTION)                                                   \
    KILN_INLINE void NAME##_block(void *c, int64_t c_bytes, KilnTileRows a, int two, const char *b,\
                             int64_t panel_bytes, int64_t blocks, int accumulate)                  \
    {                                                                                              \
        char *const c0 = c, *const c1 = c0 + 16 * c_bytes;                                         \
        const char *a0 = a.at, *a1 = a0 + a.block_m;                                               \
        if (accumulate) {                                                                          \
            KILN_TILE_LOAD(0, c0, c_bytes);                                                        \
            KILN_TILE_LOAD(1, c0 + 64, c_bytes);                                                   \
            if (two) KILN_TILE_LOAD(2, c1, c_bytes);                                               \
            if (two) KILN_TILE_LOAD(3, c1 + 64, c_bytes);                                          \
        } else {                                                                                   \
            KILN_TILE_ZERO(0); KILN_TILE_ZERO(1); KILN_TILE_ZERO(2); KILN_TILE_ZERO(3);            \
        }                                                                                          \
        for (int64_t u = 0; u < blocks; u++, a0 += a.block_k, a1 += a.block_k, b += 1024) {        \
            KILN_TILE_LOAD(6, b, 64);                                                              \
            KILN_TILE_LOAD(4, a0, a.row_bytes);                                                    \
            KILN_TILE_LOAD(7, b + panel_bytes, 64);                                                \
            KILN_TILE_MULTIPLY(INSTRUCTION, 0, 4, 6);                                              \
            KILN_TILE_MULTIPLY(INSTRUCTION, 1, 4, 7);                                              \
            if (two) {                                                                             \
                KILN_TILE_LOAD(5, a1, a.row_bytes);                                                \
                KILN_TILE_MULTIPLY(INSTRUCTION, 2, 5, 6);                                          \
                KILN_TILE_MULTIPLY(INSTRUCTION, 3, 5, 7);                                          \
            }                                                                                      \
        }                                                                                          \
        KILN_TILE_STORE(0, c0, c_bytes);                                                           \
        KILN_TILE_STORE(1, c0 + 64, c_bytes);                                                      \
        if (two) KILN_TILE_STORE(2, c1, c_bytes);                                                  \
        if (two) KILN_TILE_STORE(3, c1 + 64, c_bytes);                                             \
    }

// The same where c ends before the block does: computed beside c, then added.
#define KILN_DEFINE_AMX_EDGE(NAME, ACC)                                                            \
    static void NAME##_edge(ACC *c, int64_t c_stride, KilnTileRows a, int64_t rows,                \
                            int64_t columns, const char *b, int64_t panel_bytes, int64_t blocks,   \
                            int accumulate)                                                        \
    {                                                                                              \
        ACC beside[32][32];                                                                        \
        if (rows > 16) NAME##_block(beside, sizeof beside[0], a, 1, b, panel_bytes, blocks, 0);    \
        else NAME##_block(beside, sizeof beside[0], a, 0, b, panel_bytes, blocks, 0);              \
        for (int64_t i = 0; i < rows; i++)                                                         \
            for (int64_t j = 0; j < columns; j++) {                                                \
                ACC *const at = c + i * c_stride + j;                                              \
                *at = accumulate ? *at + beside[i][j] : beside[i][j];                              \
            }                                                                                      \
    }

// Blocks of k for which two panels of b fit the first-level cache.
enum { KILN_AMX_DEPTH = 16 };

#define KILN_DEFINE_AMX_PRODUCT(NAME, ACC, INSTRUCTION)                                            \
    KILN_DEFINE_AMX_BLOCK(NAME, INSTRUCTION)                                                       \
    KILN_DEFINE_AMX_EDGE(NAME, ACC)                                                                \
    static __attribute__((unused)) void NAME(ACC *c, int64_t c_stride, KilnTileRows a,             \
                                             const void *packed, int64_t panel_units, int64_t m,   \
                                             int64_t n, int64_t k_units, int accumulate)           \
    {                                                                                              \
        const int64_t panel_bytes = panel_units * 64, c_bytes = c_stride * 4;                      \
        kiln_amx_begin();                                                                          \
        int64_t u = 0;                                                                             \
        do {                                                                                       \
            const int64_t blocks = kiln_least((k_units - u + 15) / 16, KILN_AMX_DEPTH);            \
            const int more = accumulate || u > 0;                                                  \
            for (int64_t j = 0; j < n; j += 32) {                                                  \
                const char *const b = (const char *)packed + j / 16 * panel_bytes + u * 64;        \
                for (int64_t i = 0; i < m; i += 32) {                                              \
                    KilnTileRows rows = a;                                                         \
                    rows.at += i / 16 * a.block_m + u / 16 * a.block_k;                            \
                    if (m - i >= 32 && n - j >= 32)                                                \
                        NAME##_block(c + i * c_stride + j, c_bytes, rows, 1, b, panel_bytes,       \
                                     blocks, more);                                                \
                    else if (m - i == 16 && n - j >= 32)                                           \
                        NAME##_block(c + i * c_stride + j, c_bytes, rows, 0, b, panel_bytes,       \
                                     blocks, more);                                                \
                    else                                                                           \
                        NAME##_edge(c + i * c_stride + j, c_stride, rows, kiln_least(m - i, 32),   \
                                    kiln_least(n - j, 32), b, panel_bytes, blocks, more);          \
                }                                                                                  \
            }                                                                                      \
            u += 16 * KILN_AMX_DEPTH;                                                              \
        } while (u < k_units);                                                                     \
        kiln_amx_end();                                                                            \
    }
