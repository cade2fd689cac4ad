// SPDX-License-Identifier: MIT
// check.c - what --check builds call. `shadow` has a byte per element of a tile: 1 once it was written.
// needs: entry.c
KILN_INLINE int64_t kiln_inside(const void *host, int64_t x, int64_t extent, const char *where, const char *message)
{
    if (x < 0 || x >= extent) kiln_trap(host, where, message);
    return x;
}
KILN_INLINE int64_t kiln_written(const void *host, const uint8_t *shadow, int64_t at, const char *where, const char *message)
{
    if (!shadow[at]) kiln_trap(host, where, message);
    return at;
}
// Of `int`: what overflows.
#define KILN_DEFINE_CHECKED(NAME, SIGN)                                                           \
    KILN_INLINE int64_t kiln_checked_##NAME##_int(const void *host, int64_t a, int64_t b, const char *where) \
    {                                                                                             \
        int64_t c;                                                                                \
        if (__builtin_##NAME##_overflow(a, b, &c)) kiln_trap(host, where, "'int' overflows in '" SIGN "'"); \
        return c;                                                                                 \
    }
KILN_DEFINE_CHECKED(add, "+")
KILN_DEFINE_CHECKED(sub, "-")
KILN_DEFINE_CHECKED(mul, "*")
KILN_INLINE int64_t kiln_checked_abs(const void *host, int64_t x, const char *where)
{
    if (x == INT64_MIN) kiln_trap(host, where, "'int' overflows in 'abs'");
    return kiln_abs_int(x);
}
KILN_INLINE int64_t kiln_checked_shl_int(const void *host, int64_t a, int64_t n, const char *where)
{
    if (n < 0 || n > 63) kiln_trap(host, where, "'<<' by less than 0 or more than 63");
    const int64_t c = (int64_t)((uint64_t)a << (n & 63));
    if (c >> (n & 63) != a) kiln_trap(host, where, "'int' overflows in '<<'");
    return c;
}
KILN_INLINE int64_t kiln_checked_shr_int(const void *host, int64_t a, int64_t n, const char *where)
{
    if (n < 0 || n > 63) kiln_trap(host, where, "'>>' by less than 0 or more than 63");
    return a >> (n & 63);
}
// Of every type, by its name and the name of its kind: divisors that there are none of.
#define KILN_DEFINE_CHECKED_DIVISION(NAME, K, TYPE, OVERFLOWS)                                    \
    KILN_INLINE TYPE kiln_checked_div_##NAME(const void *host, TYPE a, TYPE b, const char *where) \
    {                                                                                             \
        if (b == 0) kiln_trap(host, where, "division by zero");                                   \
        if (OVERFLOWS) kiln_trap(host, where, "'int' overflows in '/'");                          \
        return kiln_any_div_##K(a, b);                                                                \
    }                                                                                             \
    KILN_INLINE TYPE kiln_checked_mod_##NAME(const void *host, TYPE a, TYPE b, const char *where) \
    {                                                                                             \
        if (b == 0) kiln_trap(host, where, "remainder of a division by zero");                    \
        return kiln_any_mod_##K(a, b);                                                                \
    }                                                                                             \
    KILN_INLINE TYPE kiln_checked_ceildiv_##NAME(const void *host, TYPE a, TYPE b, const char *where) \
    {                                                                                             \
        if (b <= 0) kiln_trap(host, where, "'ceildiv' by a divisor that is not positive");        \
        return kiln_any_ceildiv_##K(a, b);                                                        \
    }
KILN_DEFINE_CHECKED_DIVISION(int, int, int64_t, a == INT64_MIN && b == -1)
KILN_DEFINE_CHECKED_DIVISION(i64, int, int64_t, 0)
KILN_DEFINE_CHECKED_DIVISION(i32, i32, int32_t, 0)
KILN_DEFINE_CHECKED_DIVISION(u32, u32, uint32_t, 0)
KILN_DEFINE_CHECKED_DIVISION(u64, u64, uint64_t, 0)

// ---- iterations that depend on each other: who wrote and who read each element, since the forall began
typedef struct { int64_t key, writer, reader; } KilnTouch;             // reader -1: several
static __thread __attribute__((unused)) struct { KilnTouch *list; int64_t n, room; } kiln_touched;
static __attribute__((unused)) int64_t kiln_touch_begin(const void *host, const char *where)
{
    kiln_touched.list = NULL;
    return kiln_touched.n = kiln_touched.room = 0;
}
static __attribute__((unused)) int64_t kiln_touch_end(const void *host, const char *where)
{
    kiln_free(host, kiln_touched.list);
    return kiln_touch_begin(host, where);
}
static KilnTouch *kiln_touch_place(KilnTouch *list, int64_t room, int64_t key)
{
    int64_t at = (int64_t)((uint64_t)key * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (list[at].key && list[at].key != key) at = (at + 1) & (room - 1);
    return &list[at];
}
static __attribute__((unused)) KilnTouch *kiln_touch(const void *host, const char *where, int64_t tensor, int64_t element)
{
    const int64_t key = (tensor + 1) << 44 ^ (element + 1);
    if (2 * kiln_touched.n >= kiln_touched.room) {
        const int64_t room = kiln_touched.room ? 4 * kiln_touched.room : 1024;
        KilnTouch *const more = kiln_alloc(host, room, sizeof *more, where);
        for (int64_t i = 0; i < kiln_touched.room; i++)
            if (kiln_touched.list[i].key) *kiln_touch_place(more, room, kiln_touched.list[i].key) = kiln_touched.list[i];
        kiln_free(host, kiln_touched.list);
        kiln_touched.list = more;
        kiln_touched.room = room;
    }
    KilnTouch *const place = kiln_touch_place(kiln_touched.list, kiln_touched.room, key);
    kiln_touched.n += !place->key;
    place->key = key;
    return place;
}
static __attribute__((unused)) int64_t kiln_touch_write(const void *host, const char *where, int64_t tensor, int64_t element, int64_t count,
                                                        int64_t iteration, const char *written, const char *read)
{
    for (int64_t i = 0; i < count; i++) {
        KilnTouch *const t = kiln_touch(host, where, tensor, element + i);
        if (t->writer && t->writer != iteration) kiln_trap(host, where, written);
        if (t->reader && t->reader != iteration) kiln_trap(host, where, read);
        t->writer = iteration;
    }
    return 0;
}
static __attribute__((unused)) int64_t kiln_touch_read(const void *host, const char *where, int64_t tensor, int64_t element, int64_t count,
                                                       int64_t iteration, const char *written)
{
    for (int64_t i = 0; i < count; i++) {
        KilnTouch *const t = kiln_touch(host, where, tensor, element + i);
        if (t->writer && t->writer != iteration) kiln_trap(host, where, written);
        t->reader = t->reader && t->reader != iteration ? -1 : iteration;
    }
    return 0;
}
