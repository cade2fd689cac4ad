// SPDX-License-Identifier: MIT
// shifted.cuh - rows that begin at any element, by the pieces of 16 bytes that they lie in (sm_90).
//
// cp.async brings the pieces that a row of the tile lies in, but for the last, to where the row will be; a lane holds the last,
// the row's tail. Each warp then shifts its own rows in place. Only pieces are read that have an element of the row, or that the
// row begins in, which the allocation holds as well, since tensors begin at 16 bytes; where a row ends within a piece, its bytes.
template <int ROWS, int COLUMNS, int EACH, int SHARES, int PANEL, class T> struct Shifted {
    enum {
        SIZE = sizeof(T), BYTES = COLUMNS * SIZE, PIECES = BYTES / 16, WIDTH = BYTES < 128 ? BYTES : 128, PANEL_BYTES = PANEL,
        OF_WARP = EACH, ALL = ROWS, AT_ONCE = 32 / PIECES, ROUNDS = OF_WARP / AT_ONCE,       // rows; those of a copy by all lanes
        LANES = SHARES, BLOCK = 32 / SHARES, BLOCKS = OF_WARP / BLOCK, OWN = PIECES / SHARES // of a row; rows of a shift by all
    };
    typedef T Element;
};
// A piece of a row in the tile.
template <class Shape> DEVICE uint32_t shifted_at(uint32_t tile, int32_t row, int32_t piece)
{
    const int32_t byte = piece * 16;
    const uint32_t mixed = (uint32_t)(row * Shape::WIDTH) >> 3 & (Shape::WIDTH - 16);
    return tile + byte / 128 * Shape::PANEL_BYTES + row * Shape::WIDTH + ((uint32_t)(byte % Shape::WIDTH) ^ mixed);
}
// The last warps may have fewer rows, or none.
template <class Shape> DEVICE bool is_row(int32_t row) { return Shape::ALL == 4 * Shape::OF_WARP || row < Shape::ALL; }
// A step's rows: where the first begins, elements from one to the next, how many are inside, and elements of each, 16 bytes
// more than a row of the tile has at most.
template <class T> struct ShiftedRows { const T *from; int64_t pitch; int32_t rows, columns; };
template <class Shape> DEVICE bool is_whole(const ShiftedRows<typename Shape::Element> &rows)
{
    return rows.rows == Shape::ALL && rows.columns * Shape::SIZE >= Shape::BYTES + 16;
}
DEVICE const char *piece_of(const char *p) { return (const char *)((uint64_t)p & ~(uint64_t)15); }
DEVICE int32_t skip_of(const char *p) { return (int32_t)((uint32_t)(uint64_t)p & 15u); }
DEVICE void copy_bytes_16(uint32_t dst, const void *src, int32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
DEVICE void commit_shifted(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void wait_shifted(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
    __syncwarp();
}
DEVICE int32_t bytes_of_piece(int32_t left) { return left < 0 ? 0 : left < 16 ? left : 16; }

// A step's pieces into its tile.
template <int ROWS, int COLUMNS, int EACH, int SHARES, int PANEL, class T>
DEVICE void fetch_shifted(const T *tile, const T *from, int32_t rows, int32_t columns, int64_t pitch, int32_t warp, int32_t lane)
{
    typedef Shifted<ROWS, COLUMNS, EACH, SHARES, PANEL, T> Shape;
    const ShiftedRows<T> here = { from, pitch, rows, columns };
    const int32_t piece = lane % Shape::PIECES, first = warp * Shape::OF_WARP + lane / Shape::PIECES;
    const uint32_t to = shared_address(tile);
    const char *at = (const char *)(from + first * pitch) + piece * 16;
    const int64_t step = pitch * (int64_t)(Shape::SIZE * Shape::AT_ONCE);
    const int32_t inside = columns > 0 ? rows : 0; // a row that begins past its end has no piece
    if (is_whole<Shape>(here)) {
#pragma unroll
        for (int r = 0; r < Shape::ROUNDS; r++) {
            if (is_row<Shape>(first + r * Shape::AT_ONCE))
                copy_bytes_16(shifted_at<Shape>(to, first + r * Shape::AT_ONCE, piece), piece_of(at), 16);
            at += step;
        }
        return;
    }
#pragma unroll 1
    for (int r = 0; r < Shape::ROUNDS; r++) {
        const int32_t left = columns * Shape::SIZE + skip_of(at) - piece * 16;
        if (is_row<Shape>(first + r * Shape::AT_ONCE))
            copy_bytes_16(shifted_at<Shape>(to, first + r * Shape::AT_ONCE, piece), piece_of(at),
                          first + r * Shape::AT_ONCE < inside ? bytes_of_piece(left) : 0);
        at += step;
    }
}
// The bytes of a word that are inside, the others 0.
template <class T> DEVICE uint32_t load_inside(const char *p, int32_t bytes)
{
    if (bytes >= 4) return *(const uint32_t *)p;
    enum { BITS = 8 * sizeof(T), EACH = 32 / BITS };
    uint32_t w = 0;
    for (int i = 0; i < EACH - 1; i++)
        if (i * (int)sizeof(T) < bytes) w |= ((uint32_t)((const T *)p)[i] & ~0u >> (32 - BITS)) << (BITS * i & 31);
    return w;
}
// The pieces after those that the tile has. Nothing waits for them here.
template <int ROWS, int COLUMNS, int EACH, int SHARES, int PANEL, class T>
DEVICE void load_tails(uint32_t *held, const T *from, int32_t rows, int32_t columns, int64_t pitch, int32_t warp, int32_t lane)
{
    typedef Shifted<ROWS, COLUMNS, EACH, SHARES, PANEL, T> Shape;
    const ShiftedRows<T> here = { from, pitch, rows, columns };
    const int32_t first = warp * Shape::OF_WARP + lane % Shape::BLOCK;
    const char *at = (const char *)(from + first * pitch) + Shape::BYTES;
    const int64_t step = pitch * (int64_t)(Shape::SIZE * Shape::BLOCK);
    const bool whole = is_whole<Shape>(here);
#pragma unroll
    for (int b = 0; b < Shape::BLOCKS; b++) {
        uint32_t *const w = held + 4 * b;
        if (whole && is_row<Shape>(first + b * Shape::BLOCK)) { // a row that begins a piece has none after it
            const char *const p = piece_of(at) - (skip_of(at) ? 0 : 16);
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(p));
        } else {
            const int32_t left = first + b * Shape::BLOCK < rows && skip_of(at) ? columns * Shape::SIZE + skip_of(at) - Shape::BYTES : 0;
            for (int i = 0; i < 4; i++)
                w[i] = load_inside<T>(piece_of(at) + 4 * i, left - 4 * i);
        }
        at += step;
    }
}
template <int N> DEVICE void keep_tails(uint32_t *held, const uint32_t *coming)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        held[i] = coming[i];
}
DEVICE uint32_t join_words(uint32_t low, uint32_t high, uint32_t skip)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> skip * 8);
}
// Four words of a row from eight, `skip` bytes on.
DEVICE uint4 shift_piece(const uint32_t *w, int32_t skip)
{
    uint32_t x[7], y[5];
#pragma unroll
    for (int i = 0; i < 7; i++)
        x[i] = skip & 4 ? w[i + 1] : w[i];
#pragma unroll
    for (int i = 0; i < 5; i++)
        y[i] = skip & 8 ? x[i + 2] : x[i];
    const uint32_t bytes = skip & 3;
    return { join_words(y[0], y[1], bytes), join_words(y[1], y[2], bytes), join_words(y[2], y[3], bytes), join_words(y[3], y[4], bytes) };
}
DEVICE void load_shared_piece(uint32_t *w, uint32_t at)
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at) : "memory");
}
DEVICE void store_shared_piece(uint32_t at, uint4 w)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w) : "memory");
}
// A step's rows, which have come, to their places.
template <int ROWS, int COLUMNS, int EACH, int SHARES, int PANEL, class T>
DEVICE void shift_rows(const uint32_t *held, const T *tile, const T *from, int64_t pitch, int32_t warp, int32_t lane)
{
    typedef Shifted<ROWS, COLUMNS, EACH, SHARES, PANEL, T> Shape;
    const int32_t first = warp * Shape::OF_WARP + lane % Shape::BLOCK, share = lane / Shape::BLOCK;
    const uint32_t to = shared_address(tile);
#pragma unroll
    for (int b = 0; b < Shape::BLOCKS; b++) {
        const int32_t row = first + b * Shape::BLOCK, piece = share * Shape::OWN;
        const int32_t skip = skip_of((const char *)(from + row * pitch));
        const bool is_own = is_row<Shape>(row);
        uint32_t w[Shape::OWN * 4 + 4];
#pragma unroll
        for (int p = 0; is_own && p < Shape::OWN; p++)
            load_shared_piece(w + 4 * p, shifted_at<Shape>(to, row, piece + p));
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[Shape::OWN * 4 + i] = held[4 * b + i];
        if constexpr (Shape::LANES > 1) {
            if (is_own && share < Shape::LANES - 1) load_shared_piece(w + Shape::OWN * 4, shifted_at<Shape>(to, row, piece + Shape::OWN));
            __syncwarp(); // others have read what is overwritten
        }
#pragma unroll
        for (int p = 0; is_own && p < Shape::OWN; p++)
            store_shared_piece(shifted_at<Shape>(to, row, piece + p), shift_piece(w + 4 * p, skip));
    }
}
