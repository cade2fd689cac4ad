// SPDX-License-Identifier: MIT
// fma.cuh - products by multiply-adds: a rectangle of the result in each thread, operands from shared memory.
template <class T> struct Element {
    typedef T type;
    DEVICE T wide(T x) { return x; }
};
struct Bf16 { typedef uint16_t type; DEVICE float wide(uint16_t x) { return bf16_to_f32(x); } };
struct F16 { typedef uint16_t type; DEVICE float wide(uint16_t x) { return f16_to_f32(x); } };
struct E4m3 { typedef uint8_t type; DEVICE float wide(uint8_t x) { return e4m3_to_f32(x); } };
struct E5m2 { typedef uint8_t type; DEVICE float wide(uint8_t x) { return e5m2_to_f32(x); } };

// A tile as it is laid out (layout.h): without panels SWIZZLE is 0 and PITCH the row. Bytes from its beginning.
template <int SWIZZLE, int PITCH, int PANEL> struct FmaTile {
    DEVICE int32_t at(int32_t row, int32_t column_bytes)
    {
        if (!SWIZZLE)
            return row * PITCH + column_bytes;
        return column_bytes / PITCH * PANEL + row * PITCH + (column_bytes % PITCH ^ (row / (128 / PITCH) & (PITCH / 16 - 1)) << 4);
    }
};

// RUNS * RUN lines (rows of the left operand, columns of the right), STEPS of the contraction of each. The lines are rows
// of the tile, or, ACROSS, its columns. ROW, COLUMN: where the operand begins in the tile.
template <class E, class Tile, bool ACROSS, int RUNS, int RUN, int STRIDE, int ROW, int COLUMN> struct FmaOperand {
    typedef typename E::type T;
    template <int STEPS, class W> DEVICE void load(W (&v)[RUNS * RUN][STEPS], const T *tile, int32_t line, int32_t k)
    {
        T x[ACROSS ? RUN : STEPS];
#pragma unroll
        for (int i = 0; i < RUNS; i++) {
            if (!ACROSS) {
                static_assert(ACROSS || RUN == 1, "lines that are rows are loaded one by one");
                load_pieces<STEPS>(x, (const T *)((const uint8_t *)tile + Tile::at(ROW + line + i * STRIDE, (COLUMN + k) * (int)sizeof(T))));
#pragma unroll
                for (int s = 0; s < STEPS; s++)
                    v[i][s] = (W)E::wide(x[s]);
            } else {
#pragma unroll
                for (int s = 0; s < STEPS; s++) {
                    load_pieces<RUN>(x, (const T *)((const uint8_t *)tile + Tile::at(ROW + k + s, (COLUMN + line + i * STRIDE) * (int)sizeof(T))));
#pragma unroll
                    for (int r = 0; r < RUN; r++)
                        v[i * RUN + r][s] = (W)E::wide(x[r]);
                }
            }
        }
    }
    enum { N_RUNS = RUNS, LENGTH = RUN, STEP = STRIDE };
    // The same lines, one run of them.
    typedef FmaOperand<E, Tile, ACROSS, 1, RUN, STRIDE, ROW, COLUMN> OneRun;
};

DEVICE float fma_add(float a, float b, float sum) { return fmaf(a, b, sum); }
DEVICE double fma_add(double a, double b, double sum) { return fma(a, b, sum); }
DEVICE int32_t fma_add(int32_t a, int32_t b, int32_t sum) { return (int32_t)((uint32_t)a * (uint32_t)b + (uint32_t)sum); }

// Registers of acc: column and row within the run, run of columns, run of rows (RegisterTile).
template <class A, class B, int STEPS, int K, class W>
DEVICE void fma_add_product(W *acc, const typename A::T *left, int32_t row, const typename B::T *right, int32_t column)
{
    enum { ROWS = A::N_RUNS * A::LENGTH };
#pragma unroll 1
    for (int k = 0; k < K; k += STEPS) {
        W a[ROWS][STEPS];
        A::load(a, left, row, k);
#pragma unroll
        for (int u = 0; u < B::N_RUNS; u++) {
            W b[B::LENGTH][STEPS];
            B::OneRun::load(b, right, column + u * B::STEP, k);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < B::LENGTH; j++) {
                    W &sum = acc[j + B::LENGTH * (i % A::LENGTH + A::LENGTH * (u + B::N_RUNS * (i / A::LENGTH)))];
#pragma unroll
                    for (int s = 0; s < STEPS; s++)
                        sum = fma_add(a[i][s], b[j][s], sum);
                }
        }
    }
}
// Where registers are left the product is summed by itself first: rounding errors grow with the length of a sum.
template <class A, class B, int STEPS, int K, class W>
DEVICE void fma_product(W *acc, const typename A::T *left, int32_t row, const typename B::T *right, int32_t column)
{
    enum { N = A::N_RUNS * A::LENGTH * B::N_RUNS * B::LENGTH };
    if (N * sizeof(W) > 256) {
        fma_add_product<A, B, STEPS, K>(acc, left, row, right, column);
        return;
    }
    W sum[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = 0;
    fma_add_product<A, B, STEPS, K>(sum, left, row, right, column);
#pragma unroll
    for (int i = 0; i < N; i++)
        acc[i] = wrapping_sum(acc[i], sum[i]);
}
