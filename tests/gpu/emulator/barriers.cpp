// SPDX-License-Identifier: MIT
// barriers.cpp - mbarriers, the block's named barriers, and the cluster's barrier.
//
// An mbarrier's state is kept beside shared memory; its 8 bytes there hold a mark, so that a stray store is noticed.
#include "emulator.h"
#include "ptx.h"

#include <algorithm>
#include <cstring>

namespace emu {

enum { COUNT_MAX = (1 << 20) - 1 };

static uint64_t mark_of(uint32_t offset) { return 0x6b61727269657221ull ^ (uint64_t)offset << 32; }

static void check_alignment(uint32_t address, const char *what)
{
    if (address % 8 != 0)
        fault(ILLEGAL_ADDRESS, "%s: mbarrier %#x is not aligned to 8 bytes", what, address);
}

MBarrier &mbarrier_in(Block *block, uint32_t offset, const char *what)
{
    uint64_t mark;
    check_alignment(offset, what);
    memcpy(&mark, shared_in(block, offset, 8, what), 8);
    const auto found = block->mbarriers.find(offset);
    if (found == block->mbarriers.end())
        fault(LAUNCH_FAILED, "%s: there is no mbarrier at %#x (never initialised)", what, offset);
    if (mark != mark_of(offset))
        fault(LAUNCH_FAILED, "%s: the mbarrier at %#x was overwritten", what, offset);
    return found->second;
}

// For the running thread, which must know that it is initialised.
static MBarrier &known_mbarrier(Block *block, uint32_t offset, const char *what)
{
    MBarrier &bar = mbarrier_in(block, offset, what);
    if (!is_ordered(self()->warp, bar.maker, bar.made))
        fault(LAUNCH_FAILED, "race: %s: mbarrier %#x of block %u, not ordered after its initialisation", what, offset, block->index.x);
    return bar;
}

MBarrier &mbarrier_for_copy(Block *block, uint32_t offset, const char *what)
{
    MBarrier &bar = known_mbarrier(block, offset, what);
    if (!bar.is_told)
        fault(LAUNCH_FAILED, "%s: no fence.mbarrier_init follows the initialisation of mbarrier %#x", what, offset);
    return bar;
}

void tell_of_mbarriers(Warp *warp)
{
    Block *const b = warp->block;
    if (!b->untold)
        return;
    for (auto &bar : b->mbarriers)
        if (!bar.second.is_told && bar.second.maker == warp->agent) {
            bar.second.is_told = true;
            b->untold--;
        }
}

static void end_phase_if_done(MBarrier &bar)
{
    if (bar.pending > 0 || bar.bytes != 0)
        return;
    bar.phase++;
    bar.before = bar.order;
    bar.pending = bar.expected;
    wake_all(bar.waiting);
}

static void expect(MBarrier &bar, int64_t bytes, const char *what)
{
    bar.bytes += bytes;
    if (bar.bytes > COUNT_MAX || bar.bytes < -COUNT_MAX)
        fault(LAUNCH_FAILED, "%s: the transaction count runs over: %lld", what, (long long)bar.bytes);
}

static void arrive(MBarrier &bar, uint32_t offset, uint32_t count, const char *what)
{
    if (count > bar.pending)
        fault(LAUNCH_FAILED, "%s: %u arrivals at mbarrier %#x, which waits for %u of %u", what, count, offset, bar.pending, bar.expected);
    bar.pending -= count;
    note_progress();
    end_phase_if_done(bar);
}

// What an asynchronous copy does at its end; the barrier may be another block's of the cluster.
void mbarrier_complete(Block *block, uint32_t offset, int64_t bytes, uint32_t arrivals, const Issued &issued)
{
    MBarrier &bar = mbarrier_in(block, offset, "an asynchronous copy's end");
    complete_async(issued, bar.order);
    expect(bar, -bytes, "an asynchronous copy's end");
    if (arrivals)
        arrive(bar, offset, arrivals, "an asynchronous copy's end");
    else
        end_phase_if_done(bar);
}

// ---- named barriers

static void release_barrier(NamedBarrier &bar)
{
    bar.arrived = bar.expected = 0;
    for (const Fiber *f : bar.waiting)
        acquire_from(f->warp, bar.order);
    wake_all(bar.waiting);
}

static void come(uint32_t id, uint32_t threads, bool stay, const char *what)
{
    Block *const b = self()->block;
    if (id >= NAMED_BARRIERS)
        fault(LAUNCH_FAILED, "%s: there is no barrier %u", what, id);
    if (threads % WARP != 0 || threads == 0)
        fault(LAUNCH_FAILED, "%s: %u threads; it must be a multiple of %d", what, threads, WARP);
    NamedBarrier &bar = b->named[id];
    if (bar.arrived && bar.expected != threads)
        fault(LAUNCH_FAILED, "%s %u: %u threads are awaited here and %u by those who came before", what, id, threads, bar.expected);
    bar.expected = threads;
    if (++bar.arrived > bar.expected)
        fault(LAUNCH_FAILED, "%s %u: more than %u threads have come", what, id, threads);
    note_progress();
    release_to(self()->warp, bar.order);
    if (stay && bar.arrived == bar.expected)
        acquire_from(self()->warp, bar.order);
    if (bar.arrived == bar.expected) {
        release_barrier(bar);
    } else if (stay) {
        bar.waiting.push_back(self());
        block_self(what, id, threads);
    }
}

// __syncthreads waits for the threads that have not ended.
static unsigned everybody(const Block *b) { return (b->alive + WARP - 1) / WARP * WARP; }

static void come_whole(const char *what)
{
    Block *const b = self()->block;
    NamedBarrier &bar = b->named[0];
    bar.expected = b->alive;
    note_progress();
    release_to(self()->warp, bar.order);
    if (++bar.arrived >= bar.expected) {
        acquire_from(self()->warp, bar.order);
        release_barrier(bar);
    } else {
        bar.waiting.push_back(self());
        block_self(what, 0, everybody(b));
    }
}

// Threads that have ended count as come.
static void end_cluster_phase_if_done(Cluster *c)
{
    if (!c->arrived || c->arrived < c->alive)
        return;
    c->arrived = 0;
    c->phase++;
    c->before = c->order;
    wake_all(c->waiting);
}

void thread_left_barriers(Fiber *f)
{
    NamedBarrier &whole = f->block->named[0];
    if (!whole.waiting.empty() && whole.arrived >= f->block->alive)
        release_barrier(whole);
    Cluster *const c = f->block->cluster;
    if (f->at_cluster)
        c->arrived -= f->cluster_phase == c->phase;
    end_cluster_phase_if_done(c);
}

}

// ---- what kernels call

namespace ptx {
using namespace emu;

void mbarrier_init(uint32_t address, uint32_t count)
{
    const uint32_t offset = offset_of(address);
    Block *const b = block_at(own(address));
    check_alignment(offset, "mbarrier.init");
    if (count < 1 || count > COUNT_MAX)
        fault(LAUNCH_FAILED, "mbarrier.init: a count of %u", count);
    const uint64_t mark = mark_of(offset);
    memcpy(shared_in(b, offset, 8, "mbarrier.init"), &mark, 8);
    MBarrier &bar = b->mbarriers[offset];
    if (!bar.waiting.empty())
        fault(LAUNCH_FAILED, "mbarrier.init: threads wait for %#x", address);
    b->untold += bar.is_told || !bar.expected;
    bar = MBarrier();
    bar.expected = bar.pending = count;
    bar.maker = self()->warp->agent;
    bar.made = self()->warp->order.seen.at[bar.maker];
}

void mbarrier_init_fence() { tell_of_mbarriers(self()->warp); }

void mbarrier_inval(uint32_t address)
{
    Block *const b = block_at(own(address));
    b->untold -= !known_mbarrier(b, offset_of(address), "mbarrier.inval").is_told;
    b->mbarriers.erase(offset_of(address));
}

// Orders what the running thread has done before what those do that wait for the barrier.
static void release_to_mbarrier(Block *block, MBarrier &bar, bool for_cluster)
{
    Warp *const warp = self()->warp;
    if (for_cluster)
        release_to_cluster(warp, bar.order);
    else if (block != warp->block)
        release_to_remote(warp, block, bar.order);
    else
        release_to(warp, bar.order);
}

uint64_t mbarrier_arrive(uint32_t address, uint32_t count, bool for_cluster)
{
    Block *const b = block_at(address);
    MBarrier &bar = known_mbarrier(b, offset_of(address), "mbarrier.arrive");
    const uint64_t state = bar.phase;
    release_to_mbarrier(b, bar, for_cluster);
    arrive(bar, offset_of(address), count, "mbarrier.arrive");
    return state;
}

void mbarrier_expect_tx(uint32_t address, uint32_t bytes)
{
    MBarrier &bar = known_mbarrier(block_at(address), offset_of(address), "mbarrier.expect_tx");
    expect(bar, bytes, "mbarrier.expect_tx");
    end_phase_if_done(bar);
}

void mbarrier_complete_tx(uint32_t address, uint32_t bytes) 
{
    mbarrier_complete(block_at(address), offset_of(address), bytes, 0, issue_async(self()->block, offset_of(address)));
}

uint64_t mbarrier_arrive_expect_tx(uint32_t address, uint32_t bytes, bool for_cluster)
{
    Block *const b = block_at(address);
    MBarrier &bar = known_mbarrier(b, offset_of(address), "mbarrier.arrive.expect_tx");
    const uint64_t state = bar.phase;
    release_to_mbarrier(b, bar, for_cluster);
    expect(bar, bytes, "mbarrier.arrive.expect_tx");
    arrive(bar, offset_of(address), 1, "mbarrier.arrive.expect_tx");
    return state;
}

// May say no although it could have waited: so does the device, after a while.
bool mbarrier_try_parity(uint32_t address, uint32_t parity)
{
    Block *const b = block_at(own(address));
    const uint32_t offset = offset_of(address);
    MBarrier &bar = known_mbarrier(b, offset, "mbarrier.try_wait");
    self()->spins = 0;
    if ((bar.phase & 1) != (parity & 1)) {
        acquire_from(self()->warp, bar.before);
        return true;
    }
    if (worker->random.below(4) == 0) {
        yield_self();
    } else {
        bar.waiting.push_back(self());
        poll_self("mbarrier, parity", offset, parity);
        bar.waiting.erase(std::remove(bar.waiting.begin(), bar.waiting.end(), self()), bar.waiting.end());
    }
    const MBarrier &then = mbarrier_in(b, offset, "mbarrier.try_wait");
    if ((then.phase & 1) == (parity & 1))
        return false;
    acquire_from(self()->warp, then.before);
    return true;
}

bool mbarrier_try_state(uint32_t address, uint64_t state) { return mbarrier_try_parity(address, (uint32_t)state & 1); }

void bar_sync(uint32_t id, uint32_t threads) { come(id, threads, true, "bar.sync"); }
void bar_sync(uint32_t id)
{
    if (id == 0)
        come_whole("bar.sync");
    else
        come(id, everybody(self()->block), true, "bar.sync");
}
void bar_arrive(uint32_t id, uint32_t threads) { come(id, threads, false, "bar.arrive"); }

void cluster_arrive(bool releases, bool aligned)
{
    Fiber *const f = self();
    Cluster *const c = f->block->cluster;
    if (aligned)
        warp_sync(f->warp->alive);
    if (f->at_cluster)
        fault(LAUNCH_FAILED, "barrier.cluster.arrive: the thread has arrived and not waited yet");
    f->at_cluster = true;
    if (releases)
        release_to_cluster(f->warp, c->order);
    c->arrived++;
    note_progress();
    end_cluster_phase_if_done(c);
}

// Its arrival stands before it, so the phase it waits for has ended or is the present one.
void cluster_wait(bool aligned)
{
    Fiber *const f = self();
    Cluster *const c = f->block->cluster;
    if (aligned)
        warp_sync(f->warp->alive);
    if (!f->at_cluster)
        fault(LAUNCH_FAILED, "barrier.cluster.wait: the thread has not arrived");
    if (f->cluster_phase == c->phase) {
        c->waiting.push_back(f);
        block_self("the cluster's barrier", 0, 0);
    }
    acquire_from(f->warp, c->before);
    f->at_cluster = false;
    f->cluster_phase++;
}

}
