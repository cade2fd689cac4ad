// SPDX-License-Identifier: MIT
// tma.cuh - asynchronous copies of boxes between tensors and shared memory (sm_90).
// True in one lane of a warp, of which ptxas knows that it is one: copies need no loop over lanes then.
DEVICE bool elected(void)
{
    uint32_t one;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(one));
    return one != 0;
}
DEVICE void fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void tma_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most n of this thread's stores still read shared memory.
#define tma_wait_read(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
// At most n have not reached their tensors.
#define tma_wait_written(n) asm volatile("cp.async.bulk.wait_group " #n ";" ::: "memory")
DEVICE void fence_async_tensors(void) { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// 4 bytes by one lane; `bytes` 0 writes zero and reads nothing. The second arrives at the barrier when this lane's are done.
DEVICE void cp_async_4(uint32_t dst, const void *src, int32_t bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
DEVICE void cp_async_arrive(uint32_t bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory"); }
DEVICE void tma_load_1d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x)
{
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x) : "memory");
}
DEVICE void tma_load_2d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_load_3d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y, int32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z) : "memory");
}
DEVICE void tma_load_4d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y, int32_t z, int32_t w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_load_5d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y, int32_t z, int32_t w, int32_t v)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
template <int RANK> DEVICE void tma_load(uint32_t dst, const TensorMap *m, uint32_t bar, const int32_t (&at)[RANK])
{
    if constexpr (RANK == 2) tma_load_2d(dst, m, bar, at[0], at[1]);
    if constexpr (RANK == 3) tma_load_3d(dst, m, bar, at[0], at[1], at[2]);
    if constexpr (RANK == 4) tma_load_4d(dst, m, bar, at[0], at[1], at[2], at[3]);
    if constexpr (RANK == 5) tma_load_5d(dst, m, bar, at[0], at[1], at[2], at[3], at[4]);
}
// To the same place in every block of the cluster whose bit is set in MASK; each block's barrier at that place counts.
template <int MASK, int RANK> DEVICE void tma_multicast_box(uint32_t dst, const TensorMap *m, uint32_t bar, const int32_t (&at)[RANK])
{
    if constexpr (RANK == 1)
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3}], [%2], %4;"
                     ::"r"(dst), "l"(m), "r"(bar), "r"(at[0]), "h"((uint16_t)MASK) : "memory");
    if constexpr (RANK == 2)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                     ::"r"(dst), "l"(m), "r"(bar), "r"(at[0]), "r"(at[1]), "h"((uint16_t)MASK) : "memory");
    if constexpr (RANK == 3)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;"
                     ::"r"(dst), "l"(m), "r"(bar), "r"(at[0]), "r"(at[1]), "r"(at[2]), "h"((uint16_t)MASK) : "memory");
    if constexpr (RANK == 4)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], %7;"
                     ::"r"(dst), "l"(m), "r"(bar), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "h"((uint16_t)MASK) : "memory");
    if constexpr (RANK == 5)
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;"
                     ::"r"(dst), "l"(m), "r"(bar), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "h"((uint16_t)MASK) : "memory");
}
template <int MASK, class... At> DEVICE void tma_multicast(uint32_t dst, const TensorMap *m, uint32_t bar, At... at_each)
{
    const int32_t at[] = {at_each...};
    tma_multicast_box<MASK>(dst, m, bar, at);
}
template <int MASK, int RANK> DEVICE void tma_load_box(uint32_t dst, const TensorMap *m, uint32_t bar, const int32_t (&at)[RANK])
{
    if constexpr (MASK) tma_multicast_box<MASK>(dst, m, bar, at);
    else tma_load(dst, m, bar, at);
}
// Not by the number of rows that are left after clamping: ptxas 13.0 reads that off VIMNMX.RELU's predicate and gets "not
// whole" for whole.
template <int ROWS> DEVICE bool is_whole(int32_t skip, int32_t rows) { return skip <= 0 && rows >= ROWS; }
// ROWS rows along dimension ALONG of PANELS panels, in shared memory PITCH bytes a row and PANEL a panel, of which those
// before `skip` and those from `rows` on become zero. m[k] has boxes of 4^k rows, the last one of all, WIDE elements wide.
// What is outside lies beyond the tensor: zeros, and nothing is read. MASK not 0: by multicast.
template <int ROWS, int PITCH, int ALONG, int PANELS, int PANEL, int WIDE, int MASK = 0, class... At>
DEVICE void tma_load_rows(uint32_t dst, const TensorMap *m, uint32_t bar, bool whole, int32_t skip, int32_t rows, At... at_each)
{
    constexpr int LAST = ROWS > 64 ? 4 : ROWS > 16 ? 3 : ROWS > 4 ? 2 : ROWS > 1;
    constexpr int32_t BEYOND = 1 << 30;
    int32_t at[] = {at_each...};
    if (whole) {
        #pragma unroll
        for (int panel = 0; panel < PANELS; panel++, at[0] += WIDE)
            tma_load_box<MASK>(dst + panel * PANEL, m + LAST, bar, at);
        return;
    }
    const int32_t begin = at[ALONG], end = rows < 0 ? 0 : rows > ROWS ? ROWS : rows, first = skip < 0 ? 0 : skip > end ? end : skip;
    #pragma unroll 1
    for (int panel = 0; panel < PANELS; panel++, dst += PANEL, at[0] += WIDE)
        #pragma unroll 1
        for (int32_t row = 0; row < ROWS; ) {
            const bool inside = row >= first && row < end;
            int32_t left = (inside ? end : row < first ? first : ROWS) - row;
            #pragma unroll 1
            for (int32_t k = LAST - 1; k >= 0; k--)
                #pragma unroll 1
                for (; left >= 1 << 2 * k; left -= 1 << 2 * k, row += 1 << 2 * k) {
                    at[ALONG] = inside ? begin + row : BEYOND;
                    tma_load_box<MASK>(dst + row * PITCH, m + k, bar, at);
                }
        }
}
// Into the L2 cache alone.
template <class... At> DEVICE void tma_prefetch(const TensorMap *m, At... at_each)
{
    constexpr int RANK = sizeof...(At);
    const int32_t at[] = {at_each...};
    if constexpr (RANK == 2)
        asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(m), "r"(at[0]), "r"(at[1]) : "memory");
    if constexpr (RANK == 3)
        asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(m), "r"(at[0]), "r"(at[1]), "r"(at[2]) : "memory");
    if constexpr (RANK == 4)
        asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];"
                     ::"l"(m), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]) : "memory");
    if constexpr (RANK == 5)
        asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global [%0, {%1, %2, %3, %4, %5}];"
                     ::"l"(m), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]) : "memory");
}
template <int ROWS, class... At> DEVICE void tma_prefetch_rows(const TensorMap *m, bool whole, At... at_each)
{
    if (whole) tma_prefetch(m + (ROWS > 64 ? 4 : ROWS > 16 ? 3 : ROWS > 4 ? 2 : ROWS > 1), at_each...);
}
DEVICE int32_t box_coordinate(int64_t x) { return x < -(1 << 30) ? -(1 << 30) : x > 1 << 30 ? 1 << 30 : (int32_t)x; }
// Stores take no negative coordinate: a box before the tensor goes past its end.
DEVICE int32_t store_coordinate(int32_t x) { return x < 0 ? 0x7ffffff0 : x; }
DEVICE void tma_store_1d(const TensorMap *m, uint32_t src, int32_t x)
{
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];"
                 ::"l"(m), "r"(src), "r"(x) : "memory");
}
DEVICE void tma_store_2d(const TensorMap *m, uint32_t src, int32_t x, int32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_store_3d(const TensorMap *m, uint32_t src, int32_t x, int32_t y, int32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z) : "memory");
}
DEVICE void tma_store_4d(const TensorMap *m, uint32_t src, int32_t x, int32_t y, int32_t z, int32_t w)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_store_5d(const TensorMap *m, uint32_t src, int32_t x, int32_t y, int32_t z, int32_t w, int32_t v)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
DEVICE void tma_add_1d(const TensorMap *m, uint32_t src, int32_t x)
{
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%2}], [%1];"
                 ::"l"(m), "r"(src), "r"(x) : "memory");
}
DEVICE void tma_add_2d(const TensorMap *m, uint32_t src, int32_t x, int32_t y)
{
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_add_3d(const TensorMap *m, uint32_t src, int32_t x, int32_t y, int32_t z)
{
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z) : "memory");
}
DEVICE void tma_add_4d(const TensorMap *m, uint32_t src, int32_t x, int32_t y, int32_t z, int32_t w)
{
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
DEVICE void tma_add_5d(const TensorMap *m, uint32_t src, int32_t x, int32_t y, int32_t z, int32_t w, int32_t v)
{
    asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(m), "r"(src), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
