// SPDX-License-Identifier: MIT
// shifted.cuh - rows that begin at any element, by the words that they lie in (sm_90).
//
// A word of the tile is made of two words of memory. Lanes have those that lie side by side, so that a warp reads and stores
// 128 bytes at a time. Only words are read that lie in the row, or that the row begins in, which the allocation holds as well,
// since tensors begin at 16 bytes; where a row ends within a word, its elements.
template <int ROWS, int COLUMNS, int HELD, class T> struct Shifted {
    enum {
        SIZE = sizeof(T), WORDS = COLUMNS * SIZE / 4, LANES = WORDS < 32 ? WORDS : 32, AT_ONCE = 32 / LANES, PARTS = WORDS / LANES,
        ROUND = 4 * AT_ONCE, ROUNDS = ROWS / ROUND, BATCHES = ROUNDS / HELD, SWIZZLE = LANES * 4, ROUND_BYTES = ROUND * SWIZZLE
    };
    typedef T Element;
};
// A step's rows: where the first begins, elements from one to the next, how many are inside, and elements of each, one word
// more than a row of the tile has at most.
template <class T> struct ShiftedRows { const T *from; int64_t pitch; int32_t rows, columns; };
template <class Shape> DEVICE bool is_whole(const ShiftedRows<typename Shape::Element> &rows, int32_t all)
{
    return rows.rows == all && rows.columns * Shape::SIZE >= Shape::WORDS * 4 + 4;
}
// Of a lane: its word of the first of its rows. All its rows begin at the same byte of a word, being ROUND rows apart.
struct ShiftedLine {
    const char *at;
    int64_t step;
    int32_t rows, bytes;  // inside: from the lane's first row on; of a row, from the lane's word on
    uint32_t skip, after; // bytes of the word before the row; to the word that has the rest
};
template <class Shape>
DEVICE ShiftedLine shifted_line(const ShiftedRows<typename Shape::Element> &rows, int32_t warp, int32_t lane)
{
    const int32_t row = warp * Shape::AT_ONCE + lane / Shape::LANES, word = lane % Shape::LANES * 4;
    const char *const from = (const char *)(rows.from + row * rows.pitch);
    ShiftedLine line;
    line.skip = (uint32_t)(uint64_t)from & 3u;
    line.after = line.skip ? 4u : 0u;
    line.at = from + word - line.skip;
    line.step = rows.pitch * (int64_t)Shape::SIZE * Shape::ROUND;
    line.rows = rows.rows - row;
    line.bytes = rows.columns * Shape::SIZE - word + (int32_t)line.skip;
    return line;
}
DEVICE uint32_t join_words(uint32_t low, uint32_t high, uint32_t skip)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> skip * 8);
}
// Where a lane stores. The swizzle of two rounds is that of all others.
struct ShiftedPlace { char *even, *odd; };
template <class Shape> DEVICE ShiftedPlace shifted_place(void *tile, int32_t warp, int32_t lane)
{
    const int32_t row = warp * Shape::AT_ONCE + lane / Shape::LANES, word = lane % Shape::LANES * 4;
    return { (char *)tile + swizzle<Shape::SWIZZLE, 1>(row, word),
             (char *)tile + swizzle<Shape::SWIZZLE, 1>(row + Shape::ROUND, word) - Shape::ROUND_BYTES };
}
template <class Shape, int PANEL>
DEVICE void store_word(const ShiftedPlace &to, int32_t round, int part, uint32_t w)
{
    *(uint32_t *)((round % 2 ? to.odd : to.even) + round * Shape::ROUND_BYTES + part * PANEL) = w;
}

// ---- steps of which something is outside: nothing of them is loaded ahead

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
template <class Shape, int PANEL> DEVICE void move_part(const ShiftedPlace &to, const ShiftedLine &line)
{
    typedef typename Shape::Element T;
    enum {
        MOST = Shape::PARTS > 2 ? 1 : 4 / Shape::PARTS,
        TOGETHER = Shape::ROUNDS < MOST ? Shape::ROUNDS : Shape::ROUNDS % MOST == 0 ? MOST : 1
    };
#pragma unroll 1
    for (int first = 0; first < Shape::ROUNDS; first += TOGETHER) {
        uint32_t w[TOGETHER][Shape::PARTS][2];
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            const char *const at = line.at + line.step * (first + r);
            const int32_t bytes = line.rows > (first + r) * Shape::ROUND ? line.bytes : 0;
#pragma unroll
            for (int p = 0; p < Shape::PARTS; p++) {
                w[r][p][0] = load_inside<T>(at + 128 * p, bytes - 128 * p);
                w[r][p][1] = line.skip ? load_inside<T>(at + 128 * p + 4, bytes - 128 * p - 4) : 0u;
            }
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
#pragma unroll
            for (int p = 0; p < Shape::PARTS; p++)
                store_word<Shape, PANEL>(to, first + r, p, join_words(w[r][p][0], w[r][p][1], line.skip));
    }
}

// ---- whole steps

// Nothing waits for it here.
DEVICE uint32_t load_word(const void *p)
{
    uint32_t w;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(w) : "l"(p));
    return w;
}
// Of one round. That no address is made ahead saves its registers.
template <class Shape> DEVICE void load_round(uint32_t *held, ShiftedLine &line)
{
#pragma unroll
    for (int p = 0; p < Shape::PARTS; p++) {
        held[2 * p] = load_word(line.at + 128 * p);
        held[2 * p + 1] = load_word(line.at + 128 * p + line.after);
    }
    line.at += line.step;
    asm volatile("" : "+l"(line.at));
}
template <class Shape, int PANEL>
DEVICE void store_round(const uint32_t *held, const ShiftedPlace &to, int round, uint32_t skip)
{
#pragma unroll
    for (int p = 0; p < Shape::PARTS; p++)
        store_word<Shape, PANEL>(to, round, p, join_words(held[2 * p], held[2 * p + 1], skip));
}
// The first HELD rounds of a step, if it is whole.
template <int ROWS, int COLUMNS, int HELD, class T>
DEVICE void load_shifted(uint32_t *held, const T *from, int64_t pitch, int32_t rows, int32_t columns, int32_t warp, int32_t lane)
{
    typedef Shifted<ROWS, COLUMNS, HELD, T> Shape;
    const ShiftedRows<T> first = { from, pitch, rows, columns };
    if (!is_whole<Shape>(first, ROWS)) return;
    ShiftedLine line = shifted_line<Shape>(first, warp, lane);
#pragma unroll
    for (int r = 0; r < HELD; r++)
        load_round<Shape>(held + 2 * r * Shape::PARTS, line);
}
// A step's rows to its tile; a register that is stored is loaded anew, at last with the next step's.
template <int ROWS, int COLUMNS, int HELD, int PANEL, class T>
DEVICE void move_shifted(uint32_t *held, T *tile, const T *from, int32_t rows, int32_t columns, const T *next, int32_t next_rows,
                         int32_t next_columns, int64_t pitch, int32_t warp, int32_t lane)
{
    typedef Shifted<ROWS, COLUMNS, HELD, T> Shape;
    const ShiftedPlace to = shifted_place<Shape>(tile, warp, lane);
    const ShiftedRows<T> here = { from, pitch, rows, columns }, then = { next, pitch, next_rows, next_columns };
    ShiftedLine line = shifted_line<Shape>(here, warp, lane);
    if (!is_whole<Shape>(here, ROWS)) {
        move_part<Shape, PANEL>(to, line);
        load_shifted<ROWS, COLUMNS, HELD>(held, next, pitch, next_rows, next_columns, warp, lane);
        return;
    }
    const uint32_t skip = line.skip;
    line.at += line.step * HELD;
#pragma unroll
    for (int b = 0; b < Shape::BATCHES; b++) {
        if (b + 1 == Shape::BATCHES) // where there is no next one, this one's once more
            line = shifted_line<Shape>(is_whole<Shape>(then, ROWS) ? then : here, warp, lane);
#pragma unroll
        for (int r = 0; r < HELD; r++) {
            uint32_t *const w = held + 2 * r * Shape::PARTS;
            store_round<Shape, PANEL>(w, to, b * HELD + r, skip);
            load_round<Shape>(w, line);
        }
    }
}
