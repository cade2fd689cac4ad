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

// v[0..N) = p[0..N) where `column` + i lies in 0 .. columns, else 0; nothing is read unless `rows`.
template <int N, class T> DEVICE void load_vector(T *v, const T *p, bool rows, int64_t column, int64_t columns)
{
    if (rows && column >= 0 && column + N <= columns && is_aligned(p, Run<N, T>::EACH)) {
        load_pieces<N>(v, p);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = rows && column + i >= 0 && column + i < columns ? p[i] : (T)0;
}
template <int N, class T> DEVICE void store_vector(const T *v, T *p, bool rows, int64_t column, int64_t columns)
{
    if (rows && column >= 0 && column + N <= columns && is_aligned(p, Run<N, T>::EACH)) {
        store_pieces<N>(p, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (rows && column + i >= 0 && column + i < columns)
            p[i] = v[i];
}
// The columns are known to be inside.
template <int N, class T> DEVICE void load_inside(T *v, const T *p, bool rows)
{
    if (rows && is_aligned(p, Run<N, T>::EACH)) {
        load_pieces<N>(v, p);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = rows ? p[i] : (T)0;
}
template <int N, class T> DEVICE void store_inside(const T *v, T *p, bool rows)
{
    if (rows && is_aligned(p, Run<N, T>::EACH)) {
        store_pieces<N>(p, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (rows)
            p[i] = v[i];
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
