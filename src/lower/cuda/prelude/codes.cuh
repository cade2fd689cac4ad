// SPDX-License-Identifier: MIT
// codes.cuh - vectors of e4m3 that become elements of 16 bits in shared memory, two codes by one instruction.
//
// Two of a word's four codes as f16, which has every value. The upper two are named as a register's half, not shifted there.
DEVICE uint32_t low_pair_of_e4m3(uint32_t w)
{
    uint32_t r;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }" : "=r"(r) : "r"(w));
    return r;
}
DEVICE uint32_t high_pair_of_e4m3(uint32_t w)
{
    uint32_t r;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high; }" : "=r"(r) : "r"(w));
    return r;
}
template <int N> DEVICE void halves_of_e4m3(uint32_t *pairs, const uint8_t *v)
{
    uint32_t codes[N / 4];
    join<N>(codes, v);
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        pairs[2 * i] = low_pair_of_e4m3(codes[i]);
        pairs[2 * i + 1] = high_pair_of_e4m3(codes[i]);
    }
}
template <int N> DEVICE void store_f16_of_e4m3_shared(const uint8_t *v, uint16_t *p, bool rows)
{
    uint32_t w[N / 2];
    halves_of_e4m3<N>(w, v);
    store_shared<N / 2>(w, (uint32_t *)p, rows);
}
template <int N> DEVICE void store_bf16_of_e4m3_shared(const uint8_t *v, uint16_t *p, bool rows)
{
    uint32_t w[N / 2];
    halves_of_e4m3<N>(w, v);
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        w[i] = pack_bf16(f16_to_f32((uint16_t)w[i]), f16_to_f32((uint16_t)(w[i] >> 16)));
    store_shared<N / 2>(w, (uint32_t *)p, rows);
}
