// SPDX-License-Identifier: MIT
// vector.cuh - several consecutive elements by one access, with bounds and alignment looked after.
template <int BYTES> struct Piece;
template <> struct Piece<16> { typedef uint4 type; };
template <> struct Piece<8> { typedef uint2 type; };
template <> struct Piece<4> { typedef uint32_t type; };
template <> struct Piece<2> { typedef uint16_t type; };
template <> struct Piece<1> { typedef uint8_t type; };

template <int N, class T> struct Run {
    enum { BYTES = N * sizeof(T), EACH = BYTES < 16 ? BYTES : 16, PIECES = BYTES / EACH, ELEMENTS = EACH / sizeof(T) };
    typedef typename Piece<EACH>::type type;
};
template <class T> DEVICE bool is_aligned(const T *p, int bytes) { return ((uint64_t)p & (bytes - 1)) == 0; }

template <int N, class T> DEVICE void load_pieces(T *v, const T *p)
{
    typedef Run<N, T> R;
#pragma unroll
    for (int i = 0; i < R::PIECES; i++) {
        const typename R::type piece = ((const typename R::type *)p)[i];
        memcpy(v + i * R::ELEMENTS, &piece, R::EACH);
    }
}
template <int N, class T> DEVICE void store_pieces(T *p, const T *v)
{
    typedef Run<N, T> R;
#pragma unroll
    for (int i = 0; i < R::PIECES; i++) {
        typename R::type piece;
        memcpy(&piece, v + i * R::ELEMENTS, R::EACH);
        ((typename R::type *)p)[i] = piece;
    }
}

// Which of N elements from `column` lie in 0 .. columns: first <= i < end, none unless `rows`.
struct Reach { int first, end; };
template <int N> DEVICE Reach reach_of(bool rows, int64_t column, int64_t columns)
{
    const int64_t left = columns - column;
    const Reach reach = { column >= 0 ? 0 : column <= -N ? N : -(int)column, !rows || left <= 0 ? 0 : left < N ? (int)left : N };
    return reach;
}

// v[0..N) = p[0..N) where `column` + i lies in 0 .. columns, else 0; nothing is read unless `rows`.
template <int N, class T> DEVICE void load_vector(T *v, const T *p, bool rows, int64_t column, int64_t columns)
{
    const Reach reach = reach_of<N>(rows, column, columns);
    if (reach.first == 0 && reach.end == N && is_aligned(p, Run<N, T>::EACH)) {
        load_pieces<N>(v, p);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = i >= reach.first && i < reach.end ? p[i] : (T)0;
}
template <int N, class T> DEVICE void store_vector(const T *v, T *p, bool rows, int64_t column, int64_t columns)
{
    const Reach reach = reach_of<N>(rows, column, columns);
    if (reach.first == 0 && reach.end == N && is_aligned(p, Run<N, T>::EACH)) {
        store_pieces<N>(p, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i >= reach.first && i < reach.end)
            p[i] = v[i];
}

// Vectors of tensors travel as words of 32 bits, each whole: what is taken apart where it is loaded is waited for there.
template <int N, class T> struct Words { enum { BYTES = N * sizeof(T), COUNT = BYTES < 4 ? 1 : BYTES / 4 }; };

// Element i of vector `number`.
template <class T, int N> DEVICE T element_of(const uint32_t *words, int number, int i)
{
    const uint32_t *const w = words + number * Words<N, T>::COUNT;
    if constexpr (sizeof(T) == 8) {
        return bitcast<T>((uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32);
    } else if constexpr (sizeof(T) == 4) {
        return bitcast<T>(w[i]);
    } else {
        enum { EACH = 4 / sizeof(T), BITS = 8 * sizeof(T) };
        return (T)(w[i / EACH] >> i % EACH * BITS & (1u << BITS) - 1);
    }
}
template <int N, class T> DEVICE void join(uint32_t *w, const T *v)
{
    if constexpr (sizeof(T) == 8) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const uint64_t u = bitcast<uint64_t>(v[i]);
            w[2 * i] = (uint32_t)u;
            w[2 * i + 1] = (uint32_t)(u >> 32);
        }
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < N; i++)
            w[i] = bitcast<uint32_t>(v[i]);
    } else {
        enum { EACH = 4 / sizeof(T), BITS = 8 * sizeof(T) };
#pragma unroll
        for (int i = 0; i < Words<N, T>::COUNT; i++)
            w[i] = 0;
#pragma unroll
        for (int i = 0; i < N; i++)
            w[i / EACH] |= ((uint32_t)v[i] & (1u << BITS) - 1) << i % EACH * BITS;
    }
}
// Floats to narrow ones, two at a time.
#define ROUNDING(name, each) \
    template <int N> DEVICE void round_##name(uint32_t *w, const float *v) \
    { \
        enum { PAIRS = each / 2 }; \
        _Pragma("unroll") for (int i = 0; i < (N + each - 1) / each; i++) w[i] = 0; \
        _Pragma("unroll") for (int i = 0; i < (N + 1) / 2; i++) \
            w[i / PAIRS] |= pack_##name(v[2 * i], 2 * i + 1 < N ? v[2 * i + 1] : 0.0f) << i % PAIRS * (32 / PAIRS); \
    }
ROUNDING(bf16, 2)
ROUNDING(f16, 2)
ROUNDING(e4m3, 4)
ROUNDING(e5m2, 4)

// The same of elements that are packed into bytes; vectors of them are whole words.
template <int BITS, int N> DEVICE uint8_t code_of(const uint32_t *words, int number, int i)
{
    const int at = (number * N + i) * BITS;
    return (uint8_t)(words[at / 32] >> at % 32 & (1u << BITS) - 1);
}
template <int BITS, int N>
DEVICE void load_codes(uint32_t *w, const uint8_t *p, int64_t at, bool rows, int64_t column, int64_t columns)
{
#pragma unroll
    for (int i = 0; i < N * BITS / 32; i++)
        w[i] = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (rows && column + i >= 0 && column + i < columns) {
            const int64_t bit = (at + i) * BITS;
            w[i * BITS / 32] |= ((uint32_t)p[bit >> 3] >> (bit & 7) & (1u << BITS) - 1) << i * BITS % 32;
        }
}

// To global memory, in one access: a plain store of 16 bytes whose parts were computed may reach the machine as a store of
// each, which writes a part of each sector. Smaller ones share the arithmetic of their addresses, and nearly all stay whole.
template <class T> DEVICE void store_piece_global(T *p, T piece) { *p = piece; }
DEVICE void store_piece_global(uint4 *p, uint4 piece)
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 ::"l"(p), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w)
                 : "memory");
}

// Rows divide into whole vectors: this one is inside or not, and aligned.
template <int N, class T> DEVICE void load_whole(uint32_t *w, const T *p, bool inside)
{
    typedef Run<N, T> R;
#pragma unroll
    for (int i = 0; i < R::PIECES; i++) {
        typename R::type piece = {};
        if (inside)
            piece = ((const typename R::type *)p)[i];
        if constexpr (R::EACH < 4)
            w[i] = piece;
        else
            memcpy(w + i * R::EACH / 4, &piece, R::EACH);
    }
}
template <int N, class T> DEVICE void store_whole(const uint32_t *w, T *p, bool inside)
{
    typedef Run<N, T> R;
#pragma unroll
    for (int i = 0; i < R::PIECES; i++) {
        typename R::type piece;
        if constexpr (R::EACH < 4)
            piece = (typename R::type)w[i];
        else
            memcpy(&piece, w + i * R::EACH / 4, R::EACH);
        if (inside)
            store_piece_global((typename R::type *)p + i, piece);
    }
}
// Rows end anywhere.
template <int N, class T> DEVICE void load_words(uint32_t *w, const T *p, bool rows, int64_t column, int64_t columns)
{
    T v[N];
    load_vector<N>(v, p, rows, column, columns);
    join<N>(w, v);
}
template <int N, class T> DEVICE void store_words(const uint32_t *w, T *p, bool rows, int64_t column, int64_t columns)
{
    T v[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = element_of<T, N>(w, 0, i);
    store_vector<N>(v, p, rows, column, columns);
}
// Shared memory: alignment is known.
template <int N, class T> DEVICE void load_shared(T *v, const T *p, bool rows)
{
    if (rows) {
        load_pieces<N>(v, p);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = (T)0;
    }
}
template <int N, class T> DEVICE void store_shared(const T *v, T *p, bool rows)
{
    if (rows)
        store_pieces<N>(p, v);
}
// Rounded in pairs.
template <int N> DEVICE void store_bf16_shared(const float *v, uint16_t *p, bool rows)
{
    uint32_t w[(N + 1) / 2];
    round_bf16<N>(w, v);
    store_shared<N / 2>(w, (uint32_t *)p, rows);
}
template <int N> DEVICE void store_f16_shared(const float *v, uint16_t *p, bool rows)
{
    uint32_t w[(N + 1) / 2];
    round_f16<N>(w, v);
    store_shared<N / 2>(w, (uint32_t *)p, rows);
}
