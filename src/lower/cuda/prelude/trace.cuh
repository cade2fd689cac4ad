// SPDX-License-Identifier: MIT
// trace.cuh - when a warp waits: one lane writes a word for each beginning and end. plan/trace.h says where, and why so;
// 4, 5, 16, 32, 48 and 2048 are its numbers.
//
// `at`: the word that is next, from the buffer's first; 0 in lanes that record nothing. A track is full where `at` is a
// multiple of its words; what comes then is counted.
DEVICE uint64_t trace_clock(void)
{
    uint64_t cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) :: "memory");
    return cycles;
}
DEVICE uint64_t trace_nanoseconds(void)
{
    uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
    return time;
}
// Of a warp whose role begins here; one of its lanes says `records`.
DEVICE uint32_t trace_begin(uint64_t buffer, bool records)
{
    volatile uint64_t *const words = (volatile uint64_t *)buffer;
    for (uint32_t i = 0; records && i < 4; i++) {
        if (words[i] != (uint64_t)blockIdx.x + 1) continue;
        const uint32_t track = (1 + i * 32 + threadIdx.x / 32) * 2048;
        words[track] = trace_nanoseconds();
        words[track + 1] = trace_clock();
        return track + 5;
    }
    return 0;
}
DEVICE void trace_mark(uint64_t buffer, uint32_t &at, uint32_t event)
{
    volatile uint64_t *const words = (volatile uint64_t *)buffer;
    if (at == 0) return;
    if (at % 2048 != 0) words[at++] = (trace_clock() << 16 >> 16) | (uint64_t)event << 48;
    else words[at - 2048 + 4] = words[at - 2048 + 4] + 1;
}
DEVICE void trace_end(uint64_t buffer, uint32_t at)
{
    volatile uint64_t *const words = (volatile uint64_t *)buffer;
    const uint32_t track = (at - 1) / 2048 * 2048;
    if (at == 0) return;
    words[track + 2] = trace_nanoseconds();
    words[track + 3] = trace_clock();
}
