// SPDX-License-Identifier: MIT
// check.cuh - what --check builds call: each stops the kernel where it finds a mistake.
template <class T> DEVICE T written(T x, uint8_t is_written, uint64_t fault, const char *text)
{
    if (!is_written) trapped(fault, text);
    return x;
}
DEVICE int32_t inside(int64_t x, int32_t extent, uint64_t fault, const char *text)
{
    if (x < 0 || x >= extent) trapped(fault, text);
    return (int32_t)x;
}
DEVICE int64_t checked_add(int64_t a, int64_t b, uint64_t fault, const char *text)
{
    const int64_t c = (int64_t)((uint64_t)a + (uint64_t)b);
    if (((a ^ c) & (b ^ c)) < 0) trapped(fault, text);
    return c;
}
DEVICE int64_t checked_sub(int64_t a, int64_t b, uint64_t fault, const char *text)
{
    const int64_t c = (int64_t)((uint64_t)a - (uint64_t)b);
    if (((a ^ b) & (a ^ c)) < 0) trapped(fault, text);
    return c;
}
DEVICE int64_t checked_mul(int64_t a, int64_t b, uint64_t fault, const char *text)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    const int64_t c = (int64_t)(x * y), high = (int64_t)(__umul64hi(x, y) - (a < 0 ? y : 0) - (b < 0 ? x : 0));
    if (high != c >> 63) trapped(fault, text);
    return c;
}
DEVICE int64_t checked_div(int64_t a, int64_t b, uint64_t fault, const char *text)
{
    if (b == -1 && a == (int64_t)0x8000000000000000ull) trapped(fault, text);
    return math_any_div(a, b);
}
DEVICE int64_t checked_shl(int64_t a, int64_t n, uint64_t fault, const char *text)
{
    const int64_t c = (int64_t)((uint64_t)a << (n & 63));
    if (c >> (n & 63) != a) trapped(fault, text);
    return c;
}
DEVICE int64_t checked_abs(int64_t x, uint64_t fault, const char *text)
{
    if (x == (int64_t)0x8000000000000000ull) trapped(fault, text);
    return math_abs(x);
}
DEVICE int64_t shift_count(int64_t n, uint64_t fault, const char *text)
{
    if (n < 0 || n > 63) trapped(fault, text);
    return n;
}
template <class T> DEVICE T nonzero(T divisor, uint64_t fault, const char *text)
{
    if (divisor == 0) trapped(fault, text);
    return divisor;
}
template <class T> DEVICE T positive(T divisor, uint64_t fault, const char *text)
{
    if (divisor <= 0) trapped(fault, text);
    return divisor;
}
