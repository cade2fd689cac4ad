// SPDX-License-Identifier: MIT
// stream.c - writing large tensors past the caches.
//
// An ordinary store first reads the line it writes, and its line later pushes another one out: a kernel that only
// writes a tensor larger than what caches keep moves half as many bytes again as it has to. Whole lines written past
// the caches are not read. `streams` says whether the tensor is that large. needs: base.c, convert.c
enum { KILN_LINE = 64, KILN_STREAM_FROM = 1 << 26, KILN_STREAM_ROOM = 2048 };

KILN_INLINE int kiln_streams(int64_t bytes) { return bytes >= KILN_STREAM_FROM; }

#if KILN_AVX512 || KILN_AVX2
KILN_INLINE void kiln_stream_line(char *to, const char *from)
{
    for (int i = 0; i < KILN_LINE; i += KILN_VECTOR_BYTES)
        __asm__("vmovntdq %1, %0" : "=m"(*(kiln_vi32 *)(to + i)) : "v"(*(const kiln_vi32_any *)(from + i)));
}
// What was streamed is in memory before anything that follows is.
KILN_INLINE void kiln_stream_end(void) { __asm__ volatile("sfence" : : : "memory"); }
#else
KILN_INLINE void kiln_stream_line(char *to, const char *from) { __builtin_memcpy(to, from, KILN_LINE); }
KILN_INLINE void kiln_stream_end(void) { }
#endif

KILN_INLINE int64_t kiln_to_line(const void *p) { return (int64_t)(-(uintptr_t)p % KILN_LINE); }

static __attribute__((unused)) void kiln_stream_bytes(void *to, const void *from, int64_t n, int streams)
{
    char *d = to;
    const char *s = from;
    if (n <= 0) return;
    if (streams && n >= 2 * KILN_LINE) {
        const int64_t head = kiln_to_line(d);
        if (head) __builtin_memcpy(d, s, (size_t)head);
        d += head, s += head, n -= head;
        for (; n >= KILN_LINE; n -= KILN_LINE, d += KILN_LINE, s += KILN_LINE) kiln_stream_line(d, s);
    }
    if (n) __builtin_memcpy(d, s, (size_t)n);
}

// kiln_row_NAME through a buffer of the first-level cache.
#define KILN_DEFINE_STREAM(NAME, TO, FROM)                                                                       \
    static __attribute__((unused)) void kiln_stream_##NAME(TO *to, const FROM *from, int64_t n, int streams)     \
    {                                                                                                            \
        enum { MOST = KILN_STREAM_ROOM / (int)sizeof(TO) };                                                      \
        TO room[MOST] __attribute__((aligned(64)));                                                              \
        if (!streams || n < MOST / 4) {                                                                          \
            kiln_row_##NAME(to, from, n);                                                                        \
            return;                                                                                              \
        }                                                                                                        \
        const int64_t head = kiln_to_line(to) / (int64_t)sizeof(TO);                                             \
        kiln_row_##NAME(to, from, head);                                                                         \
        for (int64_t i = head, step; i < n; i += step) {                                                         \
            step = kiln_least(n - i, MOST);                                                                      \
            kiln_row_##NAME(room, from + i, step);                                                               \
            kiln_stream_bytes(to + i, room, step * (int64_t)sizeof(TO), 1);                                      \
        }                                                                                                        \
    }
#if KILN_AVX512 && (KILN_BF16 || KILN_AMX)
static __attribute__((unused)) void kiln_stream_bf16_from_f32(uint16_t *to, const float *from, int64_t n, int streams)
{
    const int64_t head = kiln_least(kiln_to_line(to) / 2, n), whole = (n - head) / 32 * 32;
    if (!streams) {
        kiln_row_bf16_from_f32(to, from, n);
        return;
    }
    uint16_t subnormal = 0;
    kiln_row_bf16_from_f32(to, from, head);
    for (int64_t i = head; i < head + whole; i += 32) {
        const kiln_vf32_any *const two = (const kiln_vf32_any *)(from + i);
        const kiln_vu32 line = kiln_bf16_lanes(two[0], two[1], &subnormal);
        __asm__("vmovntdq %1, %0" : "=m"(*(kiln_vu32 *)(to + i)) : "v"(line));
    }
    if (subnormal) kiln_row_bf16_exact(to + head, from + head, whole);
    kiln_row_bf16_from_f32(to + head + whole, from + head + whole, n - head - whole);
}
#else
KILN_DEFINE_STREAM(bf16_from_f32, uint16_t, float)
#endif
KILN_DEFINE_STREAM(f16_from_f32, uint16_t, float)
KILN_DEFINE_STREAM(e4m3_from_f32, uint8_t, float)
KILN_DEFINE_STREAM(e5m2_from_f32, uint8_t, float)
KILN_DEFINE_STREAM(f32_from_bf16, float, uint16_t)
KILN_DEFINE_STREAM(f32_from_f16, float, uint16_t)
KILN_DEFINE_STREAM(f32_from_e4m3, float, uint8_t)
KILN_DEFINE_STREAM(f32_from_e5m2, float, uint8_t)
