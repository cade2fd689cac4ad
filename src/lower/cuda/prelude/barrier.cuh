// SPDX-License-Identifier: MIT
// barrier.cuh - mbarriers: how the producer and the consumers of a ring wait for each other; and launches (sm_90).
//
// The unqualified forms: .release.cluster and .acquire.cluster compile to fences of the whole device.
DEVICE void mbar_init(uint32_t bar, uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
DEVICE void mbar_init_done(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void mbar_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
// Arrives and announces bytes; or announces bytes alone.
DEVICE void mbar_expect(uint32_t bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
DEVICE void mbar_expect_more(uint32_t bar, uint32_t bytes) { asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
DEVICE uint32_t mbar_try(uint32_t bar, uint32_t parity)
{
    uint32_t ok;
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
    return ok;
}
// A bounded wait for development falls through, with wrong results: a trap here would serialise every wgmma.
DEVICE void mbar_wait(uint32_t bar, uint32_t parity)
{
#ifdef BOUNDED_WAIT
    for (uint32_t tries = 0; tries < BOUNDED_WAIT && !mbar_try(bar, parity); tries++) { }
#else
    while (!mbar_try(bar, parity)) { }
#endif
}
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")
// Until the launches before this one have ended and what they wrote is seen. Without effect if it was started after them.
DEVICE void wait_for_launches(void) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
