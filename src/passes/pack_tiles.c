// SPDX-License-Identifier: MIT
// pack_tiles.c - a shared tile of packed elements that copies fill and foralls read holds them as the tensor does.
//
//     shared u4 q[64][128] = W[n*64 +: 64][k*128 +: 128];      shared u8 q[64][64] = bytes[n*64 +: 64][k*64 +: 64];
//     w[i][j] = q[i][j];                                       w[i][j] = words[i][j/8] >> j%8*4 & 15;
//
// `bytes` is a view of W, `words` one of q. Such a tile is fetched by hardware, where one with a byte for each element is
// filled by threads, which wait for what they load. A word is read once for all elements that are read beside each other.
//
// before: make-copies, sink-tiles    after: no tile of packed elements whose rows are whole 16 bytes is filled by copies of
//                                    slices alone and read element by element alone
// never:  a tile that threads write, which others would share bytes with; a slice that may begin within a byte; before
//         hardware copies boxes, a tile that is not of a pipeline with buffers: nothing else runs ahead there
#include "passes/passes.h"

enum { ROW_BITS = 128, WORD_BITS = 32, BYTE_BITS = 8 };

typedef struct Tile {
    TileKernel *kernel;
    Buffer *packed, *bytes, *words;
    int bits;
    bool fits, in_parts; // in_parts: some copy fills a slice
    int n_copies, n_reads;
    const TileOp *pipeline; // whose body declares it; NULL: none
} Tile;

static bool is_multiple(const Expr *x, int64_t n) { return expr_multiple(x) % n == 0; }

// ---- whether it is one

static bool is_slice_of_bytes(const Tile *tile, const Region *r)
{
    const Sub *const sub = &r->subs[r->buffer->rank - 1];
    const int each = BYTE_BITS / tile->bits;
    return sub->is_range && (!sub->step || expr_is_int(sub->step, 1)) && is_multiple(sub->start, each) &&
           is_multiple(sub->width, each);
}

static bool is_fill(const Tile *tile, const TileOp *op)
{
    if (op->kind != T_COPY || op->copy.dst.buffer != tile->packed) return false;
    const Buffer *const from = op->copy.src.buffer;
    return from->kind == BUFFER_TENSOR && from->type == tile->packed->type && !from->unaligned &&
           is_slice_of_bytes(tile, &op->copy.dst) && is_slice_of_bytes(tile, &op->copy.src);
}

static void see_use(const TileUse *use, void *context)
{
    Tile *const tile = context;
    if (buffer_root(use->buffer) != tile->packed) return;
    const bool reads = use->buffer == tile->packed && use->subs && use->reads && !use->writes && !use->atomic;
    tile->fits &= reads;
    tile->n_reads += reads;
}

static void see_block(Tile *tile, TileOp *op)
{
    for (; op && tile->fits; op = op->next) {
        if (is_fill(tile, op)) {
            tile->n_copies++;
            tile->in_parts |= !region_is_whole(&op->copy.dst);
        } else if (op->kind != T_TILE) {
            tile_uses(op, see_use, tile);
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) see_block(tile, *body);
    }
}

// Without boxes copies run ahead that are statements of the pipeline itself, from tensors that nothing writes.
static bool runs_ahead(const Tile *tile)
{
    int n = 0;
    if (tile->kernel->has_boxes) return true;
    if (!tile->pipeline || tile->pipeline->pipeline.n != 1 || tile->pipeline->pipeline.stages < 2) return false;
    for (const TileOp *op = tile->pipeline->pipeline.body; op; op = op->next)
        n += is_fill(tile, op) && op->copy.src.buffer->access == ACCESS_IN;
    return n == tile->n_copies;
}

// ---- what it becomes

// x / n, which leaves nothing.
static Expr *over(Arena *a, Expr *x, int64_t n)
{
    int64_t value;
    if (expr_as_int(x, &value)) return int_const(a, value / n);
    if (x->kind == E_BINARY && (x->op.op == X_ADD || x->op.op == X_SUB) && is_multiple(x->op.a, n) &&
        is_multiple(x->op.b, n))
        return expr_binary(a, x->op.op, over(a, x->op.a, n), over(a, x->op.b, n));
    if (x->kind == E_BINARY && x->op.op == X_MUL && expr_as_int(x->op.b, &value) && value % n == 0)
        return int_mul(a, x->op.a, int_const(a, value / n));
    return expr_binary(a, X_DIV, x, int_const(a, n));
}

// Another buffer with so many elements of the last dimension for one of `of`.
static Buffer *new_like(TileKernel *k, BufferKind kind, DType type, Buffer *of, int last_bits)
{
    Buffer *const b = tile_new_buffer(k, kind, type, of->name, of->rank, of->span);
    const int64_t each = dtype_bits(type) / last_bits;
    for (int d = 0; d < of->rank; d++) b->shape[d] = of->shape[d];
    Expr *const last = of->shape[of->rank - 1];
    b->shape[of->rank - 1] = is_multiple(last, each) ? over(k->arena, last, each)
                                                     : expr_binary(k->arena, X_DIV, last, int_const(k->arena, each));
    if (kind == BUFFER_VIEW) b->base = region_whole(k->arena, of, of->span);
    return b;
}

static Region as_bytes(const Tile *tile, const Region *r, Buffer *bytes)
{
    Arena *const a = tile->kernel->arena;
    const int last = r->buffer->rank - 1, each = BYTE_BITS / tile->bits;
    Region made = { bytes, NEW_ARRAY(a, Sub, r->buffer->rank), r->span };
    for (int d = 0; d <= last; d++) made.subs[d] = r->subs[d];
    made.subs[last].start = over(a, r->subs[last].start, each);
    made.subs[last].width = over(a, r->subs[last].width, each);
    return made;
}

// The element at `at` of a row of words: a number of its bits, and their sign.
static Expr *element(const Tile *tile, Expr *word, Expr *at)
{
    Arena *const a = tile->kernel->arena;
    const DType type = tile->packed->type;
    const int each = WORD_BITS / tile->bits;
    Expr *const shift = int_mul(a, expr_binary(a, X_MOD, at, int_const(a, each)), int_const(a, tile->bits));
    if (dtype_info[type].class == CLASS_SIGNED) {
        Expr *const up = expr_convert(a, DTYPE_U32, int_sub(a, int_const(a, WORD_BITS - tile->bits), shift));
        Expr *const top = expr_bitcast(a, DTYPE_I32, expr_binary(a, X_SHL, word, up));
        return expr_convert(a, type, expr_binary(a, X_SHR, top, expr_int(a, DTYPE_I32, WORD_BITS - tile->bits)));
    }
    Expr *const down = expr_binary(a, X_SHR, word, expr_convert(a, DTYPE_U32, shift));
    Expr *const code = expr_binary(a, X_BITAND, down, expr_int(a, DTYPE_U32, (1 << tile->bits) - 1));
    const DType number = tile->bits == 2 ? DTYPE_U2 : DTYPE_U4;
    return type == number ? expr_convert(a, number, code) : expr_bitcast(a, type, expr_convert(a, number, code));
}

static Expr *read_words(Expr *x, void *context)
{
    const Tile *const tile = context;
    if (x->kind != E_LOAD || x->load.buffer != tile->packed) return x;
    Arena *const a = tile->kernel->arena;
    const int last = tile->packed->rank - 1, each = WORD_BITS / tile->bits;
    Expr *subs[MAX_RANK];
    for (int d = 0; d <= last; d++) subs[d] = x->load.subs[d];
    subs[last] = expr_binary(a, X_DIV, x->load.subs[last], int_const(a, each));
    Expr *const word = expr_load(a, tile->words, subs);
    word->span = x->span;
    Expr *const made = element(tile, word, x->load.subs[last]);
    made->span = x->span;
    return made;
}

static void read_slot(Expr **slot, void *context)
{
    const Tile *const tile = context;
    *slot = expr_map(tile->kernel->arena, *slot, read_words, context);
}

static void change(Tile *tile, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_TILE && op->tile.buffer == tile->packed) op->tile.buffer = tile->bytes;
        tile_each_expr(op, read_slot, tile);
        if (op->kind == T_COPY && op->copy.dst.buffer == tile->packed) {
            Buffer *const bytes = new_like(tile->kernel, BUFFER_VIEW, DTYPE_U8, op->copy.src.buffer, tile->bits);
            op->copy.src = as_bytes(tile, &op->copy.src, bytes);
            op->copy.dst = as_bytes(tile, &op->copy.dst, tile->bytes);
        }
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) change(tile, *body);
    }
}

// Rows of 32, 64 and whole 128 bytes in panels, whose pieces of 16 bytes are turned: fragments of tensor cores read a column
// of eight rows at once, which would stand in few banks. Slices of a panel are no boxes.
static void turn_rows(Buffer *bytes)
{
    int64_t columns, rows;
    if (bytes->rank != 2 || !expr_as_int(bytes->shape[1], &columns) || !expr_as_int(bytes->shape[0], &rows) || rows % 8)
        return;
    const int panel = columns % 128 == 0 ? 128 : columns == 64 || columns == 32 ? (int)columns : 0;
    bytes->hint = panel ? HINT_SWIZZLE : HINT_NONE;
    bytes->hint_value = panel;
}

static void pack(TileKernel *kernel, const TileOp *pipeline, Buffer *packed)
{
    Tile tile = {
        .kernel = kernel, .packed = packed, .bits = dtype_bits(packed->type), .fits = true, .pipeline = pipeline
    };
    if (packed->kind != BUFFER_SHARED || packed->rank == 0 || packed->hint || packed->cluster_shared ||
        tile.bits >= BYTE_BITS || !is_multiple(packed->shape[packed->rank - 1], ROW_BITS / tile.bits))
        return;
    see_block(&tile, kernel->body);
    if (!tile.fits || tile.n_copies == 0 || tile.n_reads == 0 || !runs_ahead(&tile)) return;
    tile.bytes = new_like(kernel, BUFFER_SHARED, DTYPE_U8, packed, tile.bits);
    if (!tile.in_parts) turn_rows(tile.bytes);
    tile.words = new_like(kernel, BUFFER_VIEW, DTYPE_U32, tile.bytes, BYTE_BITS);
    change(&tile, kernel->body);
}

static void pack_in(TileKernel *kernel, const TileOp *pipeline, TileOp *op)
{
    for (; op; op = op->next) {
        if (op->kind == T_TILE) pack(kernel, pipeline, op->tile.buffer);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
            pack_in(kernel, op->kind == T_PIPELINE ? op : NULL, *body);
    }
}

void pack_tiles(TileKernel *kernel)
{
    if (!kernel->checked) pack_in(kernel, NULL, kernel->body);
}
