// tma.cuh - asynchronous copies of boxes between tensors and shared memory (sm_90).
DEVICE void fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void tma_prefetch(const TensorMap *m) { asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory"); }
DEVICE void tma_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most n of this thread's stores still read shared memory.
#define tma_wait_read(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
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
