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
#define KILN_DEFINE_CHECKED(NAME, OP, TEXT)                                                       \
    KILN_INLINE int64_t kiln_checked_##NAME(const void *host, int64_t a, int64_t b, const char *where) \
    {                                                                                             \
        int64_t c;                                                                                \
        if (__builtin_##OP##_overflow(a, b, &c)) kiln_trap(host, where, TEXT);             \
        return c;                                                                                 \
    }
KILN_DEFINE_CHECKED(add, add, "'int' overflows in '+'")
KILN_DEFINE_CHECKED(sub, sub, "'int' overflows in '-'")
KILN_DEFINE_CHECKED(mul, mul, "'int' overflows in '*'")
KILN_INLINE int64_t kiln_checked_div(const void *host, int64_t a, int64_t b, const char *where)
{
    if (b == 0) kiln_trap(host, where, "division by zero");
    if (b == -1 && a == INT64_MIN) kiln_trap(host, where, "'int' overflows in '/'");
    return a / b;
}
KILN_INLINE int64_t kiln_checked_mod(const void *host, int64_t a, int64_t b, const char *where)
{
    if (b == 0) kiln_trap(host, where, "remainder of a division by zero");
    return b == -1 ? 0 : a % b;
}
