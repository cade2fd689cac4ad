// SPDX-License-Identifier: MIT
// entry.c - the emitted side of lower/cpu/abi.h: argument words, scratch, traps and prints; the small integer and
// byte helpers that the lowering calls by name. needs: base.c
typedef struct {
    void (*trap)(void *context, const char *where, const char *message);
    void (*print)(void *context, const char *format, ...);
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *memory);
    void *context;
    void *reserved[3];
} KilnHost;

#define kiln_word_pointer(words, i) (*(void *const *)((const char *)(words) + 8 * (i)))
#define kiln_word_int(words, i) (*(const int64_t *)((const char *)(words) + 8 * (i)))
#define kiln_word(words, i, TYPE) (*(const TYPE *)((const char *)(words) + 8 * (i)))
#define kiln_at(pointer, bytes) ((void *)((char *)(pointer) + (bytes)))

#define kiln_trap(host, where, message) \
    (((const KilnHost *)(host))->trap(((const KilnHost *)(host))->context, where, message))
#define kiln_print(host, ...) \
    (((const KilnHost *)(host))->print(((const KilnHost *)(host))->context, __VA_ARGS__))
KILN_INLINE void kiln_free(const void *host, void *memory)
{
    const KilnHost *const h = host;
    if (memory) h->free(h->context, memory);
}
static __attribute__((unused)) void *kiln_alloc(const void *host, int64_t n, int64_t bytes, const char *where)
{
    const KilnHost *const h = host;
    void *memory = NULL;
    if (n <= 0) n = 1;
    if (n <= INT64_MAX / 2 / bytes) memory = h->alloc(h->context, (size_t)(n * bytes));
    if (!memory) h->trap(h->context, where, "out of memory for a private array");
    return memory;
}

// Asks for n bytes that will be read soon, or never.
KILN_INLINE void kiln_fetch(const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64) KILN_FETCH((const char *)from + i);
}

// Rows of bytes; n may be 0 or negative (nothing).
KILN_INLINE void kiln_copy_bytes(void *to, const void *from, int64_t n)
{
    if (n > 0) __builtin_memcpy(to, from, (size_t)n);
}
KILN_INLINE void kiln_zero_bytes(void *to, int64_t n)
{
    if (n > 0) __builtin_memset(to, 0, (size_t)n);
}

// Elements at any byte offset: what a view of another type needs.
#define KILN_DEFINE_ANY(NAME, TYPE)                                                               \
    KILN_INLINE TYPE kiln_load_##NAME(const void *p, int64_t at)                                  \
    {                                                                                             \
        TYPE x;                                                                                   \
        __builtin_memcpy(&x, (const char *)p + at, sizeof x);                                     \
        return x;                                                                                 \
    }                                                                                             \
    KILN_INLINE void kiln_store_##NAME(void *p, int64_t at, TYPE x)                               \
    {                                                                                             \
        __builtin_memcpy((char *)p + at, &x, sizeof x);                                           \
    }
KILN_DEFINE_ANY(double, double)
KILN_DEFINE_ANY(float, float)
KILN_DEFINE_ANY(int64_t, int64_t)
KILN_DEFINE_ANY(int32_t, int32_t)
KILN_DEFINE_ANY(int16_t, int16_t)
KILN_DEFINE_ANY(int8_t, int8_t)
KILN_DEFINE_ANY(uint64_t, uint64_t)
KILN_DEFINE_ANY(uint32_t, uint32_t)
KILN_DEFINE_ANY(uint16_t, uint16_t)
KILN_DEFINE_ANY(uint8_t, uint8_t)

// Of `int` and the sized integers; K for the kinds.
#define KILN_DEFINE_INTEGER(K, TYPE)                                                              \
    KILN_INLINE TYPE kiln_min_##K(TYPE a, TYPE b) { return a < b ? a : b; }                       \
    KILN_INLINE TYPE kiln_max_##K(TYPE a, TYPE b) { return a > b ? a : b; }                       \
    KILN_INLINE TYPE kiln_limit_##K(TYPE x, TYPE lo, TYPE hi)                                     \
    {                                                                                             \
        const TYPE above = x < lo ? lo : x;                                                       \
        return above > hi ? hi : above;                                                           \
    }                                                                                             \
    KILN_INLINE TYPE kiln_ceildiv_##K(TYPE a, TYPE b)                                             \
    {                                                                                             \
        const TYPE q = a / b;                                                                     \
        return q + (a % b > 0);                                                                   \
    }                                                                                             \
    KILN_INLINE TYPE kiln_any_ceildiv_##K(TYPE a, TYPE b) { return b <= 0 ? 0 : kiln_ceildiv_##K(a, b); }
KILN_DEFINE_INTEGER(int, int64_t)
KILN_DEFINE_INTEGER(i32, int32_t)
KILN_DEFINE_INTEGER(u32, uint32_t)
KILN_DEFINE_INTEGER(u64, uint64_t)
KILN_INLINE int64_t kiln_abs_int(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }
KILN_INLINE int32_t kiln_abs_i32(int32_t x) { return x < 0 ? (int32_t)(0 - (uint32_t)x) : x; }

// Division by what may be 0 or -1, for which machines stop the program: x / 0 is 0 and x % 0 is x; what -1 makes of the
// least number wraps.
#define KILN_DEFINE_SIGNED_DIVISION(K, TYPE, BITS)                                                \
    KILN_INLINE TYPE kiln_any_div_##K(TYPE a, TYPE b)                                                 \
    {                                                                                             \
        return (BITS)b + 1 <= 1 ? (TYPE)((BITS)a * (BITS)b) : a / b;                              \
    }                                                                                             \
    KILN_INLINE TYPE kiln_any_mod_##K(TYPE a, TYPE b) { return (BITS)b + 1 <= 1 ? a & ~b : a % b; }
#define KILN_DEFINE_UNSIGNED_DIVISION(K, TYPE)                                                    \
    KILN_INLINE TYPE kiln_any_div_##K(TYPE a, TYPE b) { return b ? a / b : 0; }                       \
    KILN_INLINE TYPE kiln_any_mod_##K(TYPE a, TYPE b) { return b ? a % b : a; }
KILN_DEFINE_SIGNED_DIVISION(int, int64_t, uint64_t)
KILN_DEFINE_SIGNED_DIVISION(i32, int32_t, uint32_t)
KILN_DEFINE_UNSIGNED_DIVISION(u32, uint32_t)
KILN_DEFINE_UNSIGNED_DIVISION(u64, uint64_t)

// Quotient rounded down, for any divisor but 0: where a step enters a range.
KILN_INLINE int64_t kiln_floordiv(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
// The first i of those for which first + i * step is in 0 .. extent - 1, and the one behind the last. A step may be anything.
KILN_INLINE int64_t kiln_enters(int64_t first, int64_t extent, int64_t step)
{
    if (step > 0) return first < 0 ? -kiln_floordiv(first, step) : 0;
    return step < 0 && first >= extent ? kiln_floordiv(first - extent, step < -INT64_MAX ? INT64_MAX : -step) + 1 : 0;
}
KILN_INLINE int64_t kiln_leaves(int64_t first, int64_t extent, int64_t step)
{
    if (step > 0) return first < extent ? -kiln_floordiv(first - extent, step) : 0;
    if (step == 0) return first >= 0 && first < extent ? INT64_MAX : 0;
    return first >= 0 ? kiln_floordiv(first, step < -INT64_MAX ? INT64_MAX : -step) + 1 : 0;
}

KILN_INLINE int32_t kiln_popcount_u32(uint32_t x) { return __builtin_popcount(x); }
KILN_INLINE int32_t kiln_popcount_u64(uint64_t x) { return __builtin_popcountll(x); }
KILN_INLINE int32_t kiln_clz_u32(uint32_t x) { return x ? __builtin_clz(x) : 32; }
KILN_INLINE int32_t kiln_clz_u64(uint64_t x) { return x ? __builtin_clzll(x) : 64; }
KILN_INLINE int32_t kiln_ffs_u32(uint32_t x) { return __builtin_ffs((int)x); }
KILN_INLINE int32_t kiln_ffs_u64(uint64_t x) { return __builtin_ffsll((long long)x); }
KILN_INLINE int32_t kiln_dot4_i32(int32_t a, int32_t b, int32_t sum)
{
    for (int i = 0; i < 32; i += 8) sum += (int8_t)((uint32_t)a >> i) * (int8_t)((uint32_t)b >> i);
    return sum;
}
KILN_INLINE uint32_t kiln_dot4_u32(uint32_t a, uint32_t b, uint32_t sum)
{
    for (int i = 0; i < 32; i += 8) sum += (a >> i & 255u) * (b >> i & 255u);
    return sum;
}

// random(seed, i): uniform in [0, 1), the same on every target: 24 bits of a mixed counter.
KILN_INLINE float kiln_random(uint64_t seed, uint64_t i)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u + 0x632be59bd9b4e019u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((x ^ x >> 31) >> 40) * 0x1p-24f;
}

KILN_INLINE uint64_t kiln_bits_f64(double x) { uint64_t u; __builtin_memcpy(&u, &x, 8); return u; }
KILN_INLINE double kiln_f64_bits(uint64_t u) { double x; __builtin_memcpy(&x, &u, 8); return x; }
// Nearest even to 10 bits of mantissa; infinity and NaN stay.
KILN_INLINE float kiln_tf32_from_f32(float x)
{
    const uint32_t u = kiln_bits_f32(x), rounded = (u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu;
    return (u & 0x7f800000u) == 0x7f800000u ? x : kiln_f32_bits(rounded);
}
