// rows.cuh - pieces of 16 bytes of a tile's rows, gathered or converted by the producer's threads (sm_90).
//
// 16 bytes without a register in between; outside they become zero and nothing is read.
DEVICE void cp_async_16(uint32_t dst, const void *src, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(inside ? 16 : 0) : "memory");
}
DEVICE void cp_async_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Eight elements; alignment is known.
template <class T> DEVICE void load_piece(T *v, const void *p, bool inside)
{
    uint32_t w[2 * sizeof(T)] = {};
    if (inside) {
        if constexpr (sizeof(T) == 1) {
            const uint2 x = *(const uint2 *)p;
            w[0] = x.x, w[1] = x.y;
        } else {
#pragma unroll
            for (int i = 0; i < (int)sizeof(T) / 2; i++) {
                const uint4 x = ((const uint4 *)p)[i];
                w[4 * i] = x.x, w[4 * i + 1] = x.y, w[4 * i + 2] = x.z, w[4 * i + 3] = x.w;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = (T)(w[i * sizeof(T) / 4] >> i * sizeof(T) % 4 * 8);
}
template <class T> DEVICE T load_each(const void *p, bool inside) { return inside ? *(const T *)p : (T)0; }
DEVICE void store_piece(uint32_t at, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}
// Two codes at a time.
DEVICE void widen_e4m3(float *f, const uint8_t *v)
{
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        uint32_t r;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)(v[i] | v[i + 1] << 8)));
        f[i] = f16_to_f32((uint16_t)r);
        f[i + 1] = f16_to_f32((uint16_t)(r >> 16));
    }
}
DEVICE void widen_e5m2(float *f, const uint8_t *v)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = e5m2_to_f32(v[i]);
}
DEVICE void widen_bf16(float *f, const uint16_t *v)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = bf16_to_f32(v[i]);
}
DEVICE void widen_f16(float *f, const uint16_t *v)
{
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = f16_to_f32(v[i]);
}
