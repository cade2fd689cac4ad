// SPDX-License-Identifier: MIT
// cluster.cuh - the thread blocks of a cluster: their ranks, their barrier, each other's shared memory (sm_90).
//
// Operations on mbarriers are the unqualified ones: .release.cluster and .acquire.cluster compile to fences of the whole
// device. So an arrival at another block's mbarrier may give a buffer back, but does not order stores into it: data
// goes there by multicast or by remote_copy, which tell the barrier themselves, or across cluster_sync.
DEVICE uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// All threads of all its CTAs synchronise; what they stored before is seen after it.
DEVICE void cluster_arrive(void) { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
DEVICE void cluster_wait(void) { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
DEVICE void cluster_sync(void)
{
    cluster_arrive();
    cluster_wait();
}
// The same place in block `rank`: for what is called _at or remote_.
DEVICE uint32_t address_at(uint32_t address, uint32_t rank)
{
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}
// Arrives at the barrier that stands at this place in block `rank` of the cluster.
DEVICE void mbar_arrive_at(uint32_t bar, uint32_t rank)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_at(bar, rank)) : "memory");
}
// What lies in this block's shared memory, a multiple of 16 bytes, written before fence_async; the barrier, which is in the
// same block as the destination, counts the bytes.
DEVICE void remote_copy(uint32_t to, uint32_t from, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "r"(from), "r"(bytes), "r"(bar) : "memory");
}
// Plain ones, ordered by cluster_sync alone.
DEVICE void remote_put_4(uint32_t to, uint32_t x) { asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory"); }
DEVICE uint32_t remote_get_4(uint32_t from)
{
    uint32_t x;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
