// SPDX-License-Identifier: MIT
// quant.c - the operators of kiln/ops/quant.h over kernels/quant.
#include "kiln/ops/quant.h"
#include "ops/call.h"
#include "ops/gemm_blocks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
    BLOCK = 128,  // columns of codes that kernels take at a time
    K_STEP = 32,  // that K is a multiple of
    FEW_ROWS = 8, // of a, that are multiplied one by one, or in fours
    WORD_BITS = 32,
    WORDS_READ = 4,        // of codes of i4 or i2 of one row on a GPU, by a thread at a time: 16 bytes
    RING_CODES = 1 << 27,  // of such codes, from which on they are fetched ahead
    RING_COLUMNS = 128,    // of a tile of several rows
    ROW_CODES = 1 << 26,   // up to which one row by codes of 4 bits with zeros of a block goes without tensor cores
    STEP_ON_CPU = 1024,    // columns of codes
    GEMV_ROWS = 2,         // ... on a GPU, where codes have scales of groups
    TILED_CODES = 1 << 25, // from which on one row goes by tiles
    LEAST_TILE_ROWS = 8,   // of codes of 4 bits
    SMALL_TILES_ROWS = 16,
    FEW_MOST_ROWS = 32,
    PART_BLOCKS = 32, // that a part of few rows keeps scales of
    PARTS_MOST = 16,  // that a tile is divided into along K
    FEW_TILES_ROWS = 64,
    TILE_ROWS = 128, // also of weights, as the left operand, and the columns of a step
    LARGE_TILE_ROWS = 256,
};

// ---- formats

typedef enum { BY_GROUPS, BY_ROWS, BY_BLOCKS } Scaling;

typedef struct Format {
    const char *name;
    kiln_type code;
    Scaling scaling;
    int group;          // the only one; 0: any of 16, 32, 64, 128
    unsigned scales;    // their types
    unsigned layouts;   // 1 << kiln_quant_layout
    bool zeros, minima; // may have; has
} Format;

enum {
    PLAIN_ONLY = 1 << KILN_QUANT_PLAIN,
    ANY_INT4 = PLAIN_ONLY | 1 << KILN_QUANT_AWQ | 1 << KILN_QUANT_GPTQ,
    SWAPPED = PLAIN_ONLY | 1 << KILN_QUANT_BITSANDBYTES,
};

// clang-format off
static const Format formats[] = {
    [KILN_QUANT_INT4]      = { "INT4",    KILN_U4,   BY_GROUPS, 0,  TYPES_16,      ANY_INT4,                                   true,  false },
    [KILN_QUANT_INT4S]     = { "INT4S",   KILN_I4,   BY_GROUPS, 0,  TYPES_16,      PLAIN_ONLY | 1 << KILN_QUANT_GGUF,          false, false },
    [KILN_QUANT_INT2]      = { "INT2",    KILN_U2,   BY_GROUPS, 0,  TYPES_16,      PLAIN_ONLY | 1 << KILN_QUANT_GPTQ,          true,  false },
    [KILN_QUANT_NF4]       = { "NF4",     KILN_U4,   BY_GROUPS, 0,  TYPES_16,      SWAPPED,                                    false, false },
    [KILN_QUANT_FP4]       = { "FP4",     KILN_E2M1, BY_GROUPS, 0,  TYPES_16,      PLAIN_ONLY | 1 << KILN_QUANT_TWIDDLED,         false, false },
    [KILN_QUANT_MXFP4]     = { "MXFP4",   KILN_E2M1, BY_GROUPS, 32, 1 << KILN_U8,  PLAIN_ONLY | 1 << KILN_QUANT_TWIDDLED,      false, false },
    [KILN_QUANT_INT8]      = { "INT8",    KILN_I8,   BY_GROUPS, 0,  TYPES_16,      PLAIN_ONLY | 1 << KILN_QUANT_GGUF,          false, false },
    [KILN_QUANT_FP8]       = { "FP8",     KILN_E4M3, BY_GROUPS, 0,  TYPES_16,      PLAIN_ONLY,                                 false, false },
    [KILN_QUANT_INT4MIN]   = { "INT4MIN", KILN_U4,   BY_GROUPS, 32, TYPES_16,      1 << KILN_QUANT_GGUF,                       false, true  },
    [KILN_QUANT_W8A8]      = { "W8A8",    KILN_I8,   BY_ROWS,   0,  1 << KILN_F32, PLAIN_ONLY,                                 false, false },
    [KILN_QUANT_W4A8]      = { "W4A8",    KILN_I4,   BY_ROWS,   0,  1 << KILN_F32, PLAIN_ONLY,                                 false, false },
    [KILN_QUANT_W2A8]      = { "W2A8",    KILN_I2,   BY_ROWS,   0,  1 << KILN_F32, PLAIN_ONLY | 1 << KILN_QUANT_INTERLEAVED,   false, false },
    [KILN_QUANT_FP8_BLOCK] = { "FP8_BLOCK", KILN_E4M3, BY_BLOCKS, 0, 1 << KILN_F32, PLAIN_ONLY,                                false, false },
    [KILN_QUANT_W4A8U]     = { "W4A8U",   KILN_U4,   BY_ROWS,   0,  1 << KILN_F32, PLAIN_ONLY,                                 true,  false },
};
// clang-format on

static const Format *format_of(int format) { return format >= 0 && format < COUNT(formats) ? &formats[format] : NULL; }

static int group_of(const Format *format, int group)
{
    if (format->group) return format->group;
    return group == 16 || group == 32 || group == 64 || group == 128 ? group : 0;
}

static int64_t padded(int64_t k) { return rounded_up(k, BLOCK); }

kiln_status kiln_quant_extents(kiln_quant_format format, int64_t k, int group, kiln_type *code_type,
                               int64_t *code_columns, int64_t *scale_columns)
{
    const Format *const f = format_of((int)format);
    if (!f)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_quant_extents: 'format' is %d, expected one of kiln_quant_format",
                           (int)format);
    if (k < 0 || k % K_STEP != 0)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_quant_extents: 'k' is %" PRId64 ", expected a multiple of %d", k,
                           K_STEP);
    if (f->scaling == BY_GROUPS && !group_of(f, group))
        return status_fail(KILN_BAD_ARGUMENT, "kiln_quant_extents: 'group' is %d, expected 16, 32, 64 or 128", group);
    if (code_type) *code_type = f->code;
    if (code_columns) *code_columns = padded(k);
    if (scale_columns)
        *scale_columns = f->scaling == BY_GROUPS   ? padded(k) / group_of(f, group)
                         : f->scaling == BY_BLOCKS ? padded(k) / BLOCK
                                                   : 1;
    return KILN_OK;
}

static kiln_status check_format(const Call *call, int format, int group, const Format **f)
{
    *f = format_of(format);
    if (!*f) return call_fail(call, KILN_BAD_ARGUMENT, "'format' is %d, expected one of kiln_quant_format", format);
    return (*f)->scaling != BY_GROUPS || group_of(*f, group)
               ? KILN_OK
               : call_fail(call, KILN_BAD_ARGUMENT, "'group' is %d, expected 16, 32, 64 or 128", group);
}

// ---- tensors as kernels take them

// Tensor i of the table, of [rows][columns], as [rows][columns / inner][inner] of another type of the same bytes; inner 0: as it is.
static void retype(Call *call, int i, kiln_type type, int64_t inner)
{
    if (!call->tensors[i]) return;
    kiln_tensor t = *call->tensors[i];
    const int64_t bits = (int64_t)kiln_type_bits(t.type), own = (int64_t)kiln_type_bits(type);
    t.shape[1] = t.shape[1] * bits / own;
    if (t.has_strides) t.strides[0] = t.strides[0] * bits / own;
    t.type = type;
    if (inner) {
        t.rank = 3;
        t.shape[2] = inner, t.shape[1] /= inner;
        t.strides[1] = inner, t.strides[2] = 1;
    }
    call->tensors[i] = call_keep(call, &t);
}

// Codes may be called bytes: `columns` of them.
static const char *codes_shape(const Format *f, const kiln_tensor *codes, int64_t k, int64_t *columns)
{
    const bool as_bytes = codes && codes->type == KILN_U8;
    *columns = as_bytes ? padded(k) * (int64_t)kiln_type_bits(f->code) / 8 : padded(k);
    return "[N][CODES]";
}

static unsigned code_types(const Format *f) { return 1u << f->code | 1u << KILN_U8; }

// ---- products

enum { A, CODES, SCALES, ZEROS, MINIMA };

static kiln_status check_columns(const Call *call, const kiln_quantised_gemm_args *g, int64_t multiple)
{
    const int64_t k = g->a && g->a->rank == 2 ? g->a->shape[1] : 0;
    return k % multiple == 0
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'a' has K = %" PRId64 " columns, expected a multiple of %d", k,
                           (int)multiple);
}

static kiln_status check_presence(const Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    if (g->zeros && !f->zeros)
        return call_fail(call, KILN_BAD_ARGUMENT, "'zeros' is not null, but format %s has none", f->name);
    if ((g->minima != NULL) != f->minima)
        return call_fail(call, KILN_BAD_ARGUMENT, "'minima' is %s, but format %s has %s",
                         g->minima ? "not null" : "null", f->name, f->minima ? "some" : "none");
    if (g->a_scales && f->scaling == BY_GROUPS)
        return call_fail(call, KILN_BAD_ARGUMENT, "'a_scales' is not null, but format %s has none", f->name);
    if (g->residual && f->scaling != BY_GROUPS)
        return call_fail(call, KILN_BAD_ARGUMENT, "'residual' is not null, but format %s takes none", f->name);
    return KILN_OK;
}

static unsigned result_types(const kiln_tensor *c, unsigned types)
{
    const unsigned of_c = c && (unsigned)c->type <= KILN_BOOL ? types & 1u << c->type : 0;
    return of_c ? of_c : types;
}

static kiln_status check_groups(Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    const int64_t k = g->a && g->a->rank == 2 ? g->a->shape[1] : 0;
    const unsigned same = g->scales && (unsigned)g->scales->type <= KILN_BOOL ? 1u << g->scales->type : TYPES_16;
    const unsigned of_a = g->a && (unsigned)g->a->type <= KILN_BOOL ? 1u << g->a->type : 0;
    const bool is_turned = call_has_columns(g->c);
    int64_t columns;
    const char *const codes = codes_shape(f, g->codes, k, &columns);
    call_bind(call, "CODES", columns, "a");
    call_bind(call, "GROUPS", padded(k) / group_of(f, g->group), "a");
    // clang-format off
    const Want wants[] = {
        { IN,          "a",      g->a,      f->scales == 1 << KILN_U8 ? 1 << KILN_BF16 : TYPES_16, "A[M][K]" },
        { IN,          "codes",  g->codes,  code_types(f),                   codes },
        { IN,          "scales", g->scales, f->scales,                       "[N][GROUPS]" },
        { IN_OPTIONAL, "zeros",  g->zeros,  1 << KILN_U8,                    "[N][GROUPS]" },
        { IN_OPTIONAL, "minima", g->minima, same,                            "[N][GROUPS]" },
        { IN_OPTIONAL, "bias",   g->bias,   result_types(g->c, TYPES_FLOAT), "[N]" },
        { IN_OPTIONAL, "residual", g->residual, result_types(g->c, TYPES_FLOAT), "RES[M][N]" },
        { OUT,         "c",      call_by_columns(call, g->c), 1 << KILN_F32 | of_a, is_turned ? "C[N][M]" : "C[M][N]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
}

// Products of bytes, with scales of rows.
static kiln_status check_bytes(Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    const bool is_turned = call_has_columns(g->c);
    const int64_t k = g->a && g->a->rank == 2 ? g->a->shape[1] : 0;
    const unsigned results = g->a_scales || g->scales ? TYPES_FLOAT : TYPES_FLOAT | 1 << KILN_I32;
    int64_t columns;
    const char *const codes = codes_shape(f, g->codes, k, &columns);
    call_bind(call, "CODES", columns, "a");
    // clang-format off
    const Want wants[] = {
        { IN,          "a",        g->a,        1 << KILN_I8,  "A[M][K]" },
        { IN,          "codes",    g->codes,    code_types(f), codes },
        { IN_OPTIONAL, "a_scales", g->a_scales, 1 << KILN_F32, "[M]" },
        { IN_OPTIONAL, "scales",   g->scales,   1 << KILN_F32, "[N]" },
        { IN_OPTIONAL, "zeros",    g->zeros,    1 << KILN_U8,  "[N]" },
        { IN_OPTIONAL, "bias",     g->bias,     result_types(g->c, results), "[N]" },
        { OUT,         "c",        call_by_columns(call, g->c), results, is_turned ? "C[N][M]" : "C[M][N]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
}

static kiln_status check_blocks(Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    const int64_t k = g->a && g->a->rank == 2 ? g->a->shape[1] : 0,
                  n = g->codes && g->codes->rank == 2 ? g->codes->shape[0] : 0;
    int64_t columns;
    const char *const codes = codes_shape(f, g->codes, k, &columns);
    call_bind(call, "CODES", columns, "a");
    call_bind(call, "BLOCKS", padded(k) / BLOCK, "a");
    call_bind(call, "ROWS", padded(n) / BLOCK, "codes");
    // clang-format off
    const Want wants[] = {
        { IN,          "a",        g->a,        1 << KILN_E4M3, "A[M][K]" },
        { IN,          "codes",    g->codes,    code_types(f),  codes },
        { IN,          "a_scales", call_by_columns(call, g->a_scales), 1 << KILN_F32, gemm_row_scales_shape(g->a_scales) },
        { IN,          "scales",   g->scales,   1 << KILN_F32,  "[ROWS][BLOCKS]" },
        { IN_OPTIONAL, "bias",     g->bias,     result_types(g->c, TYPES_FLOAT), "[N]" },
        { OUT,         "c",        g->c,        TYPES_FLOAT,    "C[M][N]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
}

static kiln_status check(Call *call, const kiln_quantised_gemm_args *g, const Format **f)
{
    kiln_status status = check_format(call, (int)g->format, g->group, f);
    if (!status) status = check_presence(call, *f, g);
    if (!status) status = check_columns(call, g, (*f)->scaling == BY_GROUPS ? K_STEP : BLOCK);
    if (status) return status;
    return (*f)->scaling == BY_GROUPS   ? check_groups(call, *f, g)
           : (*f)->scaling == BY_BLOCKS ? check_blocks(call, *f, g)
                                        : check_bytes(call, *f, g);
}

// Rows of a tile, its parts along K, and the last columns of c of which tiles are divided into them.
typedef struct Tiling {
    int rows, parts;
    int64_t columns;
} Tiling;

static int64_t tiles_of(int64_t m, int64_t n, int rows)
{
    const int columns = rows == FEW_TILES_ROWS ? FEW_TILES_ROWS : TILE_ROWS;
    return (m + rows - 1) / rows * ((n + columns - 1) / columns);
}

// So many parts that the rounds of all take the least time; each part more costs some of it (one H200).
static int least_parts(int64_t tiles, int64_t room, int64_t blocks)
{
    int least = 1;
    double least_time = 0;
    for (int parts = 1; parts <= PARTS_MOST && parts <= blocks; parts++) {
        const double rounds = (double)((tiles * parts + room - 1) / room), time = rounds / parts * (1 + 0.03 * parts);
        if (parts > 1 && time >= least_time) continue;
        least_time = time;
        least = parts;
    }
    return least;
}

// The largest tiles that fill the processors; where the smallest do not, parts of them do, two on a processor. Of few rows
// parts of small tiles, three on a processor.
static Tiling choose_tiling(const Call *call, int64_t m, int64_t n, int64_t blocks)
{
    const int processors = ops_processors(call->ops);
    if (ops_on_cpu(call->ops)) return (Tiling){ m <= FEW_TILES_ROWS ? FEW_TILES_ROWS : TILE_ROWS, 1, n };
    if (m <= SMALL_TILES_ROWS)
        return (Tiling){ SMALL_TILES_ROWS,
                         least_parts((n + FEW_TILES_ROWS - 1) / FEW_TILES_ROWS, 3 * processors, blocks), n };
    if (tiles_of(m, n, LARGE_TILE_ROWS) >= processors) return (Tiling){ LARGE_TILE_ROWS, 1, n };
    const int rows = m > FEW_TILES_ROWS && tiles_of(m, n, TILE_ROWS) * 2 >= processors ? TILE_ROWS : FEW_TILES_ROWS;
    const int64_t tiles = tiles_of(m, n, rows), room = rows == FEW_TILES_ROWS ? 2 * processors : processors;
    int64_t parts = tiles ? room / tiles : 1;
    parts = parts > PARTS_MOST ? PARTS_MOST : parts > blocks ? blocks : parts;
    return (Tiling){ rows, parts < 1 ? 1 : (int)parts, n };
}

// Tiles of weights as the left operand (kernels/quant/left.tile, few_left.tile, bytes_left.tile): microseconds of a step of a
// tile, of TILE_ROWS columns, where tiles fill a processor, and of adding up parts; one H200.
typedef struct LeftTile {
    int rows;
    double step;
} LeftTile;

static const LeftTile group_tiles[] = { { 16, 0.55 }, { 32, 0.58 }, { 64, 0.85 }, { 128, 1.0 }, { 256, 1.48 }, { 0 } };
static const LeftTile byte_tiles[] = { { 16, 0.58 }, { 32, 0.6 }, { 64, 0.65 }, { 128, 0.72 }, { 256, 0.9 }, { 0 } };
static const double JOIN_TIME = 4, JOIN_BYTES = 3e6; // of a launch more; that are read in a microsecond

static int64_t rounds_of(int64_t instances, int64_t room) { return (instances + room - 1) / room; }

// Of c's first `whole` columns tiles are not divided, and come first.
static double left_time(const LeftTile *tile, int64_t m, int64_t n, int64_t blocks, int parts, int64_t whole,
                        int processors)
{
    const int64_t down = (m + tile->rows - 1) / tile->rows, before = down * (whole / TILE_ROWS);
    const int64_t tiles = down * ((n - whole + TILE_ROWS - 1) / TILE_ROWS), full = before / processors;
    const int64_t beside = before - full * processors; // whole ones in the round of the first parts
    int64_t rounds = rounds_of((beside + tiles) * parts, processors);
    if (beside > 0 && rounds < parts) rounds = parts;
    const double join = JOIN_TIME + (double)m * (double)(n - whole) * 8 * parts / JOIN_BYTES;
    return ((double)full + (double)rounds / parts) * (double)blocks * tile->step + (parts > 1 ? join : 0);
}

// The most columns whose tiles fill the processors in full rounds.
static int64_t whole_columns(const LeftTile *tile, int64_t m, int64_t n, int processors)
{
    const int64_t down = (m + tile->rows - 1) / tile->rows, across = (n + TILE_ROWS - 1) / TILE_ROWS;
    return tile->rows < TILE_ROWS ? 0 : down * across / processors * processors / down * TILE_ROWS;
}

// The rows, from rows_least to rows_most, the parts and the columns in parts that take the least time.
static Tiling choose_left(const Call *call, const LeftTile *tiles, int64_t m, int64_t blocks, int rows_least,
                          int rows_most, int parts_most)
{
    const int64_t n = call_extent(call, "N");
    const int processors = ops_processors(call->ops);
    while (tiles->rows < rows_least) tiles++;
    Tiling least = { tiles[0].rows, 1, n };
    double least_time = INFINITY;
    for (int i = 0; tiles[i].rows > 0 && tiles[i].rows <= rows_most && (i == 0 || m > tiles[i - 1].rows); i++)
        for (int parts = 1; parts <= parts_most && (parts == 1 || parts <= blocks); parts++) {
            const int64_t most = parts > 1 ? whole_columns(&tiles[i], m, n, processors) : 0;
            for (int64_t whole = 0; whole <= most; whole += most ? most : 1) {
                const double time = left_time(&tiles[i], m, n, blocks, parts, whole, processors);
                if (time >= least_time || whole >= n) continue;
                least_time = time;
                least = (Tiling){ tiles[i].rows, parts, n - whole };
            }
        }
    return least;
}

// Few rows of codes of 4 bits (few_left.tile): two tiles of 64 rows of weights, or one of 128, fill a processor; microseconds of a
// block of codes of 64 rows; one H200.
static const double FEW_STEP = 0.13;

static double few_time(int64_t m, int64_t n, int64_t blocks, int64_t parts, int width, int processors)
{
    const int64_t rows = rounds_of((n + width - 1) / width * parts, processors) * width;
    const double sums = JOIN_TIME / 2 + (double)m * (double)n * 8 * (double)parts / JOIN_BYTES;
    return (double)(rows < TILE_ROWS ? TILE_ROWS : rows) / FEW_TILES_ROWS * (double)blocks * FEW_STEP +
           (parts > 1 ? sums : 0);
}

// The parts, each of no more blocks than it keeps scales of, that take the least time; a step has two blocks of codes, or a block
// with several scales.
static Tiling choose_few(const Call *call, int64_t m, int64_t blocks, int group)
{
    const int64_t n = call_extent(call, "N");
    const int rows = m <= LEAST_TILE_ROWS ? LEAST_TILE_ROWS : m <= SMALL_TILES_ROWS ? SMALL_TILES_ROWS : FEW_MOST_ROWS;
    const int step = group == BLOCK ? 2 : 1, width = rows == FEW_MOST_ROWS ? TILE_ROWS : FEW_TILES_ROWS;
    const int64_t steps = rounds_of(blocks, step), first = steps ? rounds_of(steps, PART_BLOCKS / step) : 1;
    Tiling least = { rows, (int)first, n };
    double least_time = INFINITY;
    for (int64_t parts = first; parts == first || (parts <= steps && parts <= PARTS_MOST); parts++) {
        const double time = few_time(m, n, rounds_of(steps, parts) * step, parts, width, ops_processors(call->ops));
        if (time >= least_time) continue;
        least_time = time;
        least.parts = (int)parts;
    }
    return least;
}

// Whether few rows go by few_left.tile.
static bool takes_few(const Format *f, int group)
{
    return (f->code == KILN_U4 || f->code == KILN_I4 || f->code == KILN_E2M1) && !f->minima && group >= K_STEP;
}

// Rows that are multiplied one by one, or in fours.
static int64_t gemv_rows(const Call *call, const Format *f, bool is_few)
{
    if (ops_on_cpu(call->ops)) return FEW_ROWS;
    if (f->code == KILN_E4M3) return GEMV_ROWS;
    if (f->code == KILN_E2M1) return 0;
    return is_few && f != &formats[KILN_QUANT_NF4] && call_extent(call, "N") * call_extent(call, "K") >= TILED_CODES
               ? 0
               : 1;
}

// A step of a short K on the CPU: not longer than that, but by twos.
static const char *step_on_cpu(const Call *call, int chunk, char text[16])
{
    int chunks = STEP_ON_CPU / chunk;
    text[0] = 0;
    if (!ops_on_cpu(call->ops)) return text;
    while (chunks > 1 && chunks / 2 * chunk >= call_extent(call, "K")) chunks /= 2;
    snprintf(text, 16, ", BC=%d", chunks);
    return text;
}

// Whether rows are pieces of 16 bytes, which a kernel fetches ahead.
static bool is_fetched(const kiln_tensor *t)
{
    return !t || (t->has_strides ? t->strides[0] : t->shape[1]) * kiln_type_bits(t->type) % 128 == 0;
}

// One row on Hopper, but of large matrices with zeros of groups of a block's columns, and where scales are not fetched ahead,
// which tiles are faster for (one H200).
static bool takes_row(const Call *call, const Format *f, const kiln_quantised_gemm_args *g, int group)
{
    return ops_on_hopper(call->ops) && call_extent(call, "M") == 1 && group >= K_STEP &&
           (f->code == KILN_U4 || f->code == KILN_I4) && f != &formats[KILN_QUANT_NF4] && is_fetched(g->scales) &&
           is_fetched(g->zeros) && is_fetched(g->minima) &&
           (group < BLOCK || !g->zeros || call_extent(call, "N") * call_extent(call, "K") <= ROW_CODES);
}

static kiln_status choose_row(Call *call, const Format *f, const kiln_quantised_gemm_args *g, int group)
{
    retype(call, A, g->a->type, K_STEP);
    retype(call, CODES, KILN_U32, 0);
    return call_kernel(call, "quant/row.tile", "quant_row",
                       "T=%s, TC=%s, SIGNED=%s, TS=%s, G=%d, TURNED=%s%-s%-s%-s%-s", kiln_type_name(g->a->type),
                       kiln_type_name(g->c->type), yes(f->code == KILN_I4), kiln_type_name(g->scales->type), group,
                       yes(call_has_columns(g->c)), LACKS(g->zeros, "Z"), LACKS(g->minima, "MINIMA"),
                       LACKS(g->bias, "BIAS"), LACKS(g->residual, "RES"));
}

static kiln_status choose_groups(Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    const int64_t m = call_extent(call, "M"), n = call_extent(call, "N"), k = call_extent(call, "K");
    const int group = group_of(f, g->group), chunk = !ops_on_cpu(call->ops) ? 16 : k % group == 0 ? group : K_STEP;
    const char *const a = kiln_type_name(g->a->type), *const c = kiln_type_name(g->c->type);
    const char *const code = kiln_type_name(f->code), *const scale = kiln_type_name(g->scales->type);
    const bool is_nf4 = g->format == KILN_QUANT_NF4, is_left = !ops_on_cpu(call->ops) && f->code != KILN_E4M3;
    const bool is_few = ops_on_hopper(call->ops) && takes_few(f, group), is_turned = call_has_columns(g->c);
    if (takes_row(call, f, g, group)) return choose_row(call, f, g, group);
    if (m <= gemv_rows(call, f, is_few)) {
        char step[16];
        retype(call, A, g->a->type, chunk);
        retype(call, CODES, f->code, chunk);
        return call_kernel(call, "quant/weights.tile", "quant_gemv",
                           "T=%s, TC=%s, Q=%s, TS=%s, G=%d, NF4=%s, TURNED=%s, MB=%d, E=%d%s%-s%-s%-s%-s", a, c, code,
                           scale, group, yes(is_nf4), yes(is_turned), m < 3 ? (int)m + (m == 0) : 4, chunk,
                           step_on_cpu(call, chunk, step), LACKS(g->zeros, "Z"), LACKS(g->minima, "MINIMA"),
                           LACKS(g->bias, "BIAS"), LACKS(g->residual, "RES"));
    }
    // Groups of 16 have more scales than threads have registers beside the largest tiles, and so has a matrix that is added.
    const int rows_most = group < K_STEP || g->residual ? TILE_ROWS : LARGE_TILE_ROWS;
    const Tiling tiling = is_few && m <= FEW_MOST_ROWS ? choose_few(call, m, padded(k) / BLOCK, group)
                          : is_left ? choose_left(call, group_tiles, m, padded(k) / BLOCK, is_few ? FEW_TILES_ROWS : 1,
                                                  rows_most, PARTS_MOST)
                                    : choose_tiling(call, m, n, padded(k) / BLOCK);
    retype(call, CODES, f->code, BLOCK);
    retype(call, SCALES, g->scales->type, BLOCK / group);
    if (g->zeros) retype(call, ZEROS, KILN_U8, BLOCK / group);
    if (g->minima) retype(call, MINIMA, g->minima->type, BLOCK / group);
    const kiln_status status =
        call_kernel(call, "quant/weights.tile", "quant_matmul",
                    "T=%s, TC=%s, Q=%s, TS=%s, G=%d, NF4=%s, SPLIT=%s, TURNED=%s, BM=%d%-s%-s%-s%-s", a, c, code, scale,
                    group, yes(is_nf4), yes(tiling.parts > 1), yes(is_turned), tiling.rows, LACKS(g->zeros, "Z"),
                    LACKS(g->minima, "MINIMA"), LACKS(g->bias, "BIAS"), LACKS(g->residual, "RES"));
    call_add(call, KILN_INT(tiling.parts));
    call_add(call, KILN_INT(tiling.columns));
    return status;
}

// Rows by codes of i4 or i2 on a GPU that take less time one by one than by tiles (one H200).
static bool takes_bytes_rows(const Call *call, int bits)
{
    const int64_t m = call_extent(call, "M"), codes = call_extent(call, "N") * call_extent(call, "K");
    return m <= 1 || (m <= FEW_ROWS && m * codes < ((int64_t)1 << 31) / bits);
}

// Codes fetched ahead: one row of many, or several rows whose tiles fill the processors, nearly.
static kiln_status choose_bytes_rows(Call *call, const Format *f, const kiln_quantised_gemm_args *g, int bits)
{
    const int64_t m = call_extent(call, "M"), n = call_extent(call, "N");
    const bool is_ring = m > 1 ? (n + RING_COLUMNS - 1) / RING_COLUMNS * m * 4 >= ops_processors(call->ops) * 3
                               : n * call_extent(call, "K") >= RING_CODES;
    retype(call, A, KILN_U32, is_ring ? WORD_BITS / bits : WORDS_READ);
    retype(call, CODES, KILN_U32, is_ring ? 0 : WORDS_READ);
    return call_kernel(call, is_ring ? "quant/bytes_ring.tile" : "quant/bytes_row.tile",
                       is_ring ? "quant_bytes_ring" : "quant_bytes_row",
                       "TC=%s, BITS=%d, UNSIGNED=%s, TURNED=%s%s%-s%-s%-s%-s", kiln_type_name(g->c->type), bits,
                       yes(f->code == KILN_U4), yes(call_has_columns(g->c)), is_ring && m > 1 ? ", BN=128" : "",
                       LACKS(g->a_scales, "SA"), LACKS(g->scales, "SW"), LACKS(g->zeros, "Z"), LACKS(g->bias, "BIAS"));
}

static kiln_status choose_bytes(Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    const int64_t m = call_extent(call, "M");
    const bool on_cpu = ops_on_cpu(call->ops);
    const char *const c = kiln_type_name(g->c->type), *const code = kiln_type_name(f->code);
    const char *const turned = yes(call_has_columns(g->c));
    const bool is_left = !on_cpu && f->scaling == BY_ROWS && f->code != KILN_I8;
    const int rows = is_left               ? choose_left(call, byte_tiles, m, 1, 1, LARGE_TILE_ROWS, 1).rows
                     : m <= FEW_TILES_ROWS ? FEW_TILES_ROWS
                                           : TILE_ROWS;
    if (f->scaling == BY_BLOCKS) {
        retype(call, CODES, f->code, 0);
        return gemm_choose_blocks(call, g->c->type, g->bias, call_has_columns(g->a_scales));
    }
    const int bits = (int)kiln_type_bits(f->code);
    if (is_left && takes_bytes_rows(call, bits)) return choose_bytes_rows(call, f, g, bits);
    if (!is_left && m <= FEW_ROWS) {
        const int chunk = on_cpu ? BLOCK : 16;
        retype(call, A, KILN_I8, chunk);
        retype(call, CODES, f->code, chunk);
        return call_kernel(call, "quant/bytes.tile", "quant_bytes_gemv", "TC=%s, Q=%s, TURNED=%s, E=%d%-s%-s%-s%-s", c,
                           code, turned, chunk, LACKS(g->a_scales, "SA"), LACKS(g->scales, "SW"), LACKS(g->zeros, "Z"),
                           LACKS(g->bias, "BIAS"));
    }
    retype(call, CODES, f->code, BLOCK);
    return call_kernel(call, "quant/bytes.tile", "quant_by_bytes", "TC=%s, Q=%s, BM=%d, TURNED=%s%-s%-s%-s%-s", c, code,
                       rows, turned, LACKS(g->a_scales, "SA"), LACKS(g->scales, "SW"), LACKS(g->zeros, "Z"),
                       LACKS(g->bias, "BIAS"));
}

static kiln_status choose(Call *call, const Format *f, const kiln_quantised_gemm_args *g)
{
    return f->scaling == BY_GROUPS ? choose_groups(call, f, g) : choose_bytes(call, f, g);
}

static kiln_status prepare(Call *call, const void *args)
{
    const Format *f;
    const kiln_status status = check(call, args, &f);
    return status ? status : choose(call, f, args);
}

static const CallPair quantised_gemm = { .name = "kiln_quantised_gemm",
                                         .size_name = "kiln_quantised_gemm_workspace_size",
                                         .prepare = prepare };

kiln_status kiln_quantised_gemm_workspace_size(kiln_ops *ops, const kiln_quantised_gemm_args *args, size_t *bytes)
{
    return pair_size(&quantised_gemm, ops, args, FORM(kiln_quantised_gemm_args), bytes);
}

kiln_status kiln_quantised_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_quantised_gemm_args *args)
{
    return pair_run(&quantised_gemm, ops, stream, args, FORM(kiln_quantised_gemm_args));
}

// ---- packing

// As pack.tile numbers them.
enum { FROM_GGUF_Q4_0 = 6, FROM_GGUF_Q8_0, FROM_GGUF_Q4_K, FROM_GGUF_Q6_K };

enum { WEIGHTS, WEIGHT_SCALES, WEIGHT_ZEROS, TO_CODES, TO_SCALES, TO_ZEROS, TO_MINIMA };

typedef struct PackSource {
    int number; // of the layout, in pack.tile
    int64_t rows, columns, scale_rows, scale_columns, zero_columns;
    int64_t group; // of its scales
    kiln_type word;
} PackSource;

typedef struct Blocks {
    kiln_quant_format format;
    int group, number, codes, bytes;
} Blocks; // of ggml

static const Blocks blocks[] = {
    { KILN_QUANT_INT4S, 32, FROM_GGUF_Q4_0, 32, 18 },
    { KILN_QUANT_INT8, 32, FROM_GGUF_Q8_0, 32, 34 },
    { KILN_QUANT_INT4MIN, 32, FROM_GGUF_Q4_K, 256, 144 },
    { KILN_QUANT_INT8, 16, FROM_GGUF_Q6_K, 256, 210 },
};

static kiln_status find_blocks(const Call *call, const Format *f, const kiln_quant_pack_args *g, PackSource *source)
{
    for (int i = 0; i < COUNT(blocks); i++) {
        if (blocks[i].format != g->format || blocks[i].group != group_of(f, g->group)) continue;
        if (g->k % blocks[i].codes != 0)
            return call_fail(call, KILN_BAD_ARGUMENT,
                             "'k' is %" PRId64 ", expected a multiple of %d, the codes of a block", g->k,
                             blocks[i].codes);
        source->number = blocks[i].number;
        source->columns = g->k / blocks[i].codes * blocks[i].bytes;
        return KILN_OK;
    }
    return call_fail(call, KILN_UNSUPPORTED, "'group' is %d, of which GGUF has no blocks for format %s", g->group,
                     f->name);
}

static kiln_status find_source(const Call *call, const Format *f, const kiln_quant_pack_args *g, int64_t n,
                               PackSource *source)
{
    const int64_t bits = (int64_t)kiln_type_bits(f->code);
    *source =
        (PackSource){ (int)g->layout, n, g->k * bits / 8, n, 0, 0, g->weight_group ? g->weight_group : g->k, KILN_U8 };
    if ((unsigned)g->layout >= 32 || !(f->layouts >> g->layout & 1))
        return call_fail(call, KILN_UNSUPPORTED, "'layout' is %d, which format %s does not come in", (int)g->layout,
                         f->name);
    if (g->k < 0 || g->k % K_STEP != 0)
        return call_fail(call, KILN_BAD_ARGUMENT, "'k' is %" PRId64 ", expected a multiple of %d", g->k, K_STEP);
    if (g->layout == KILN_QUANT_GGUF) return find_blocks(call, f, g, source);
    const int64_t group = source->group, least = f->scaling == BY_GROUPS ? group_of(f, g->group) : 1;
    if (g->weight_group < 0 || (group && (g->k % group != 0 || group % least != 0)))
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'weight_group' is %d, expected a divisor of k = %" PRId64 " and a multiple of 'group'",
                         g->weight_group, g->k);
    const int64_t groups = group ? g->k / group : 0;
    source->scale_columns = source->zero_columns = groups;
    if (g->layout != KILN_QUANT_AWQ && g->layout != KILN_QUANT_GPTQ) return KILN_OK;
    const int64_t each = 32 / bits;
    if (n % each != 0)
        return call_fail(call, KILN_BAD_SHAPE, "'codes' has N = %" PRId64 " rows, expected a multiple of %d", n,
                         (int)each);
    source->word = KILN_I32;
    source->rows = g->layout == KILN_QUANT_AWQ ? g->k : g->k / each;
    source->columns = g->layout == KILN_QUANT_AWQ ? n / each : n;
    source->scale_rows = groups, source->scale_columns = n, source->zero_columns = n / each;
    return KILN_OK;
}

static kiln_status check_pack_presence(const Call *call, const Format *f, const kiln_quant_pack_args *g)
{
    const bool gguf = g->layout == KILN_QUANT_GGUF, grouped = f->scaling == BY_GROUPS;
    if ((g->weight_scales != NULL) != (grouped && !gguf))
        return call_fail(call, KILN_BAD_ARGUMENT, "'weight_scales' is %s",
                         grouped && !gguf ? "null" : "not null: it has none");
    if ((g->scales != NULL) != grouped)
        return call_fail(call, KILN_BAD_ARGUMENT, "'scales' is %s",
                         grouped ? "null" : "not null: format has none that are packed");
    if (g->weight_zeros && !(f->zeros && grouped))
        return call_fail(call, KILN_BAD_ARGUMENT, "'weight_zeros' is not null, but format %s has none", f->name);
    if ((g->zeros != NULL) != (g->weight_zeros != NULL))
        return call_fail(call, KILN_BAD_ARGUMENT, "'zeros' is %s",
                         g->zeros ? "not null, but 'weight_zeros' is" : "null");
    if ((g->minima != NULL) != f->minima)
        return call_fail(call, KILN_BAD_ARGUMENT, "'minima' is %s, but format %s has %s",
                         g->minima ? "not null" : "null", f->name, f->minima ? "some" : "none");
    if (g->format == KILN_QUANT_MXFP4 && (g->exponent_offset < 0 || g->exponent_offset > 127))
        return call_fail(call, KILN_BAD_ARGUMENT, "'exponent_offset' is %d, expected 0 to 127", g->exponent_offset);
    return KILN_OK;
}

static kiln_status check_pack(Call *call, const Format *f, const kiln_quant_pack_args *g, PackSource *source)
{
    const int64_t n = g->codes && g->codes->rank == 2 ? g->codes->shape[0] : 0;
    const unsigned same = g->scales && (unsigned)g->scales->type <= KILN_BOOL ? 1u << g->scales->type : TYPES_16;
    int64_t columns;
    kiln_status status = check_pack_presence(call, f, g);
    if (!status) status = find_source(call, f, g, n, source);
    if (status) return status;
    const bool words = source->word == KILN_I32, mx = f->scales == 1 << KILN_U8;
    const bool own_type = !words && g->weights && g->weights->type == f->code && kiln_type_bits(f->code) < 8;
    const unsigned bytes = 1 << KILN_U8 | 1 << KILN_I8;
    const char *const codes = codes_shape(f, g->codes, g->k, &columns);
    call_bind(call, "CODES", columns, "k");
    call_bind(call, "ROWS", source->rows, "codes");
    call_bind(call, "COLUMNS", own_type ? g->k : source->columns, "k");
    call_bind(call, "SCALE_ROWS", source->scale_rows, "codes");
    call_bind(call, "SCALE_COLUMNS", source->scale_columns, "k");
    call_bind(call, "ZERO_COLUMNS", source->zero_columns, "k");
    call_bind(call, "GROUPS", f->scaling == BY_GROUPS ? padded(g->k) / group_of(f, g->group) : 0, "k");
    // clang-format off
    const Want wants[] = {
        { IN,           "weights",       g->weights,       words ? 1 << KILN_I32 : g->layout == KILN_QUANT_GGUF ? bytes : bytes | 1u << f->code, "[ROWS][COLUMNS]" },
        { IN_OPTIONAL,  "weight_scales", g->weight_scales, mx ? 1 << KILN_U8 : TYPES_FLOAT,           "[SCALE_ROWS][SCALE_COLUMNS]" },
        { IN_OPTIONAL,  "weight_zeros",  g->weight_zeros,  words ? 1 << KILN_I32 : 1 << KILN_U8,      "[SCALE_ROWS][ZERO_COLUMNS]" },
        { OUT,          "codes",         g->codes,         code_types(f),                             codes },
        { OUT_OPTIONAL, "scales",        g->scales,        f->scales,                                 "[N][GROUPS]" },
        { OUT_OPTIONAL, "zeros",         g->zeros,         1 << KILN_U8,                              "[N][GROUPS]" },
        { OUT_OPTIONAL, "minima",        g->minima,        same,                                      "[N][GROUPS]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), NULL, NULL, 0);
}

static const char *type_of(const kiln_tensor *tensor, const char *otherwise)
{
    return tensor ? kiln_type_name(tensor->type) : otherwise;
}

static kiln_status find_pack_codes(Call *call, const Format *f, const PackSource *source, kiln_kernel **kernel)
{
    const int bits = (int)kiln_type_bits(f->code);
    const kiln_type raw = bits == 8 ? KILN_U8 : bits == 4 ? KILN_U4 : KILN_U2;
    retype(call, WEIGHTS, source->word, 0);
    retype(call, TO_CODES, raw, BLOCK);
    return call_plain_kernel(call, "quant/pack.tile", "quant_pack_codes", kernel, "FROM=%d, X=%s, Q=%s, BITS=%d",
                             source->number, kiln_type_name(source->word), kiln_type_name(raw), bits);
}

static kiln_status find_pack_scales(Call *call, const Format *f, const PackSource *source,
                                    const kiln_quant_pack_args *g, kiln_kernel **kernel)
{
    const int group = group_of(f, g->group);
    retype(call, TO_SCALES, g->scales->type, BLOCK / group);
    if (g->zeros) retype(call, TO_ZEROS, KILN_U8, BLOCK / group);
    if (g->minima) retype(call, TO_MINIMA, g->minima->type, BLOCK / group);
    return call_plain_kernel(call, "quant/pack.tile", "quant_pack_scales", kernel,
                             "FROM=%d, X=%s, XS=%s, XZ=%s, TS=%s, BITS=%d, G=%d, BIAS=%d%s%s%s%s%s", source->number,
                             kiln_type_name(source->word), type_of(g->weight_scales, "f16"),
                             type_of(g->weight_zeros, "u8"), kiln_type_name(g->scales->type),
                             (int)kiln_type_bits(f->code), group,
                             g->format == KILN_QUANT_MXFP4 ? g->exponent_offset : 0,
                             g->layout == KILN_QUANT_GGUF ? "" : ", SRC=none", LACKS(g->weight_scales, "SCALES"),
                             LACKS(g->weight_zeros, "ZEROS"), LACKS(g->zeros, "Z"), LACKS(g->minima, "MINIMA"));
}

// Both kernels are there before either is queued.
static kiln_status pack(Call *call, kiln_stream *stream, const Format *f, const PackSource *source,
                        const kiln_quant_pack_args *g)
{
    kiln_kernel *of_codes, *of_scales = NULL;
    kiln_status status = find_pack_codes(call, f, source, &of_codes);
    if (!status && f->scaling == BY_GROUPS) status = find_pack_scales(call, f, source, g, &of_scales);
    if (status) return status;
    const kiln_arg codes[] = { call_tensor(call, WEIGHTS), call_tensor(call, TO_CODES), KILN_INT(g->k) };
    status = call_launch(call, stream, of_codes, codes, COUNT(codes));
    if (status || !of_scales) return status;
    const kiln_arg scales[] = { g->layout == KILN_QUANT_GGUF ? call_tensor(call, WEIGHTS) : KILN_NONE,
                                call_tensor(call, WEIGHT_SCALES),
                                call_tensor(call, WEIGHT_ZEROS),
                                call_tensor(call, TO_SCALES),
                                call_tensor(call, TO_ZEROS),
                                call_tensor(call, TO_MINIMA),
                                KILN_INT(g->k),
                                KILN_INT(source->group ? source->group : 1) };
    return call_launch(call, stream, of_scales, scales, COUNT(scales));
}

kiln_status kiln_quant_pack(kiln_ops *ops, kiln_stream *stream, const kiln_quant_pack_args *args)
{
    Call call;
    const Format *f;
    PackSource source;
    kiln_status status = call_begin(&call, "kiln_quant_pack", ops, args, FORM(kiln_quant_pack_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_format(&call, (int)args->format, args->group, &f);
    if (!status) status = check_pack(&call, f, args, &source);
    if (!status) status = pack(&call, stream, f, &source, args);
    if (!status) call_done(&call);
    return status;
}

// ---- packed weights as numbers

enum { U_CODES, U_SCALES, U_ZEROS, U_MINIMA };

static kiln_status check_unpack(Call *call, const Format *f, const kiln_quant_unpack_args *g)
{
    const bool by_groups = f->scaling == BY_GROUPS, by_rows = f->scaling == BY_ROWS;
    const int64_t k = g->weights && g->weights->rank == 2 ? g->weights->shape[1] : 0,
                  n = g->codes && g->codes->rank == 2 ? g->codes->shape[0] : 0;
    const unsigned same = g->scales && (unsigned)g->scales->type <= KILN_BOOL ? 1u << g->scales->type : TYPES_16;
    int64_t columns;
    const char *const codes = codes_shape(f, g->codes, k, &columns);
    if (g->zeros && !f->zeros)
        return call_fail(call, KILN_BAD_ARGUMENT, "'zeros' is not null, but format %s has none", f->name);
    if ((g->minima != NULL) != f->minima)
        return call_fail(call, KILN_BAD_ARGUMENT, "'minima' is %s, but format %s has %s",
                         g->minima ? "not null" : "null", f->name, f->minima ? "some" : "none");
    if (k % K_STEP != 0)
        return call_fail(call, KILN_BAD_SHAPE, "'weights' has K = %" PRId64 " columns, expected a multiple of %d", k,
                         K_STEP);
    call_bind(call, "CODES", columns, "weights");
    call_bind(call, "GROUPS", by_groups ? padded(k) / group_of(f, g->group) : padded(k) / BLOCK, "weights");
    call_bind(call, "ROWS", padded(n) / BLOCK, "codes");
    // clang-format off
    const Want wants[] = {
        { IN,          "codes",   g->codes,   code_types(f), codes },
        { by_rows ? IN_OPTIONAL : IN, "scales", g->scales, f->scales, by_groups ? "[N][GROUPS]" : by_rows ? "[N]" : "[ROWS][GROUPS]" },
        { IN_OPTIONAL, "zeros",   g->zeros,   1 << KILN_U8,  by_rows ? "[N]" : "[N][GROUPS]" },
        { IN_OPTIONAL, "minima",  g->minima,  same,          "[N][GROUPS]" },
        { OUT,         "weights", g->weights, TYPES_FLOAT,   "Y[N][K]" },
    };
    // clang-format on
    return call_check(call, wants, COUNT(wants), NULL, NULL, 0);
}

// A number for each row, [N], as [N][1][1].
static void take_of_rows(Call *call, int i)
{
    if (!call->tensors[i]) return;
    kiln_tensor t = *call->tensors[i];
    t.rank = 3, t.shape[1] = t.shape[2] = 1, t.has_strides = false;
    call->tensors[i] = call_keep(call, &t);
}

kiln_status kiln_quant_unpack(kiln_ops *ops, kiln_stream *stream, const kiln_quant_unpack_args *args)
{
    Call call;
    const Format *f;
    kiln_status status = call_begin(&call, "kiln_quant_unpack", ops, args, FORM(kiln_quant_unpack_args));
    if (call_again(&call, stream, &status)) return status;
    status = check_format(&call, (int)args->format, args->group, &f);
    if (!status) status = check_unpack(&call, f, args);
    if (status) return status;
    const int group = f->scaling == BY_GROUPS ? group_of(f, args->group) : BLOCK;
    retype(&call, U_CODES, f->code, BLOCK);
    if (f->scaling == BY_ROWS) {
        take_of_rows(&call, U_SCALES);
        take_of_rows(&call, U_ZEROS);
    } else {
        retype(&call, U_SCALES, args->scales->type, BLOCK / group);
        if (args->zeros) retype(&call, U_ZEROS, KILN_U8, BLOCK / group);
    }
    if (args->minima) retype(&call, U_MINIMA, args->minima->type, BLOCK / group);
    status = call_kernel(
        &call, "quant/unpack.tile", "quant_unpack", "T=%s, Q=%s, TS=%s, G=%d, NF4=%s, WHOLE=%s, ROWS=%d%s%s%s",
        kiln_type_name(args->weights->type), kiln_type_name(f->code), type_of(args->scales, "f32"), group,
        yes(args->format == KILN_QUANT_NF4), yes(f->scaling == BY_ROWS), f->scaling == BY_BLOCKS ? BLOCK : 1,
        LACKS(args->scales, "S"), LACKS(args->zeros, "Z"), LACKS(args->minima, "MINIMA"));
    return status ? status : call_run(&call, stream, NULL, 0);
}

// ---- BitNet's weights

static kiln_status prepare_ternary(Call *call, const void *args)
{
    const kiln_quant_ternary_args *const g = args;
    const int64_t k = g->weights && g->weights->rank == 2 ? g->weights->shape[1] : 0;
    int64_t columns;
    const char *const codes = codes_shape(&formats[KILN_QUANT_W2A8], g->codes, k, &columns);
    if (g->weights && (k < K_STEP || k % K_STEP != 0))
        return call_fail(call, KILN_BAD_SHAPE, "'weights' has K = %" PRId64 " columns, expected a multiple of %d", k,
                         K_STEP);
    call_bind(call, "CODES", columns, "weights");
    const Want wants[] = { { IN, "weights", g->weights, TYPES_FLOAT, "W[N][K]" },
                           { IN_OPTIONAL, "offsets", g->offsets, 1 << KILN_I32, "[groups + 1]" },
                           { OUT, "codes", g->codes, code_types(&formats[KILN_QUANT_W2A8]), codes },
                           { OUT, "scales", g->scales, 1 << KILN_F32, "[N]" } };
    const kiln_status status = call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
    if (status) return status;
    retype(call, 2, KILN_I2, BLOCK);
    return call_kernel(call, "quant/ternary.tile", "quant_ternary", "T=%s%s", kiln_type_name(g->weights->type),
                       LACKS(g->offsets, "OFFSET"));
}

static const CallPair ternary = { .name = "kiln_quant_ternary",
                                  .size_name = "kiln_quant_ternary_workspace_size",
                                  .prepare = prepare_ternary,
                                  .rows = "N",
                                  .offsets = 1 };

kiln_status kiln_quant_ternary_workspace_size(kiln_ops *ops, const kiln_quant_ternary_args *args, size_t *bytes)
{
    return pair_size(&ternary, ops, args, FORM(kiln_quant_ternary_args), bytes);
}

kiln_status kiln_quant_ternary(kiln_ops *ops, kiln_stream *stream, const kiln_quant_ternary_args *args)
{
    return pair_run(&ternary, ops, stream, args, FORM(kiln_quant_ternary_args));
}
