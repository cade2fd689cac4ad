// cluster.cuh - the thread blocks of a cluster: their ranks, their barrier, each other's shared memory (sm_90).
//
// Operations on mbarriers are the unqualified ones: .release.cluster and .acquire.cluster compile to fences of the whole
// device. So an arrival at another block's mbarrier may give a buffer back, but does not order stores into it: data
// goes there by multicast or by st.async, which tell the barrier themselves, or across cluster_sync. What comes by
// st.async needs fence_async before a product reads it.
DEVICE uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// All threads of all its blocks meet; what they stored before is seen behind it.
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
// Stores that the barrier counts in bytes; it is in the same block as the destination.
DEVICE void remote_store_8(uint32_t to, uint32_t bar, uint32_t x, uint32_t y)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                 ::"r"(to), "r"(x), "r"(y), "r"(bar) : "memory");
}
DEVICE void remote_store_16(uint32_t to, uint32_t bar, uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w), "r"(bar) : "memory");
}
// Plain ones, ordered by cluster_sync alone.
DEVICE void remote_put_4(uint32_t to, uint32_t x) { asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory"); }
DEVICE uint32_t remote_get_4(uint32_t from)
{
    uint32_t x;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
