// SPDX-License-Identifier: MIT
// thread.cpp - what a kernel asks of the thread that it runs in, and the conversions that it shares with the emulator.
#include "emulator.h"
#include "numbers.h"
#include "ptx.h"

#include <chrono>

namespace ptx {
using namespace emu;

uint32_t special(Special which)
{
    const Fiber *const f = self();
    const Block *const b = f->block;
    const Launch &l = *worker->launch;
    switch (which) {
    case THREAD_X: return f->thread.x;
    case THREAD_Y: return f->thread.y;
    case THREAD_Z: return f->thread.z;
    case BLOCK_X: return b->index.x;
    case BLOCK_Y: return b->index.y;
    case BLOCK_Z: return b->index.z;
    case THREADS_X: return l.block.x;
    case THREADS_Y: return l.block.y;
    case THREADS_Z: return l.block.z;
    case BLOCKS_X: return l.grid.x;
    case BLOCKS_Y: return l.grid.y;
    case BLOCKS_Z: return l.grid.z;
    case CLUSTER_RANK: return b->rank;
    case CLUSTER_SIZE: return l.cluster;
    case CLUSTER: return b->index.x / l.cluster;
    case CLUSTERS: return l.grid.x / l.cluster;
    case LANE: return (uint32_t)f->lane;
    case WARP_NUMBER: return (uint32_t)f->warp->number;
    case SM: return b->cluster->number;
    }
    return 0;
}

uint64_t clock_now()
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return (uint64_t)std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

unsigned char *shared_memory_here() { return self()->block->shared; }

uint32_t shared_from_generic(const void *p)
{
    for (const auto &b : self()->block->cluster->blocks) {
        const ptrdiff_t offset = (const unsigned char *)p - b->shared;
        if (offset >= 0 && offset <= (ptrdiff_t)b->shared_bytes)
            return b->rank << 24 | (uint32_t)(offset + RESERVED_SHARED);
    }
    fault(ILLEGAL_ADDRESS, "%p is taken for shared memory and is not", p);
}

uint32_t own(uint32_t address)
{
    const Block *const b = self()->block;
    if (address >> 24 != b->rank)
        fault(ILLEGAL_ADDRESS, "shared address %#x is another block's (this one has rank %u); only what says shared::cluster reaches it", address, b->rank);
    return address;
}

uint32_t map_to_rank(uint32_t address, uint32_t rank)
{
    const size_t size = self()->block->cluster->blocks.size();
    if (rank >= size)
        fault(ILLEGAL_ADDRESS, "mapa: there is no rank %u in a cluster of %zu blocks", rank, size);
    block_at(address);
    return offset_of(address) | rank << 24;
}

void *generic_from_shared(uint32_t address, uint32_t bytes, bool writes, const char *what)
{
    if (bytes && address % (bytes > 16 ? 16 : bytes) != 0)
        fault(ILLEGAL_ADDRESS, "%s: %u bytes at shared address %#x are not aligned", what, bytes, address);
    void *const memory = shared_at(address, bytes, what);
    Block *const b = block_at(address);
    if (writes)
        note_write(b, self()->warp, offset_of(address), bytes);
    else
        note_read(b, self()->warp, offset_of(address), bytes);
    return memory;
}

// A warp group's registers come from a pool of 64 K words for the block; a multiple of 8 from 24 to 256 each.
void set_max_registers(uint32_t n, bool more)
{
    Warp *const w = self()->warp;
    if (n < 24 || n > 256 || n % 8 != 0)
        fault(LAUNCH_FAILED, "setmaxnreg: %u registers; it must be a multiple of 8 from 24 to 256", n);
    if (w->registers && more && (int)n < w->registers)
        fault(LAUNCH_FAILED, "setmaxnreg.inc to %u from %d", n, w->registers);
    w->registers = (int)n;
    uint32_t total = 0;
    for (const auto &other : self()->block->warps)
        total += (uint32_t)other->registers * WARP;
    if (total > 65536)
        fault(LAUNCH_FAILED, "setmaxnreg: %u registers in all, there are 65536: the device would wait for ever", total);
}

void wait_for_launches() { self()->waited = true; }        // they have ended

void check_tensor_map(const void *map)
{
    if (*(const uint64_t *)map)                            // an unusable one is all zeros, and prefetched like others
        tensor_map_at(map, ((const TensorMap *)map)->rank, "prefetch.tensormap");
}

void proxy_fence() { fence_proxy(self()->warp); }
void looked_at_memory() { spin_self("memory that another thread is to change"); }
void changed_memory()
{
    self()->spins = 0;
    note_progress();
}
void trap(const char *what) { fault(LAUNCH_FAILED, "%s", what); }

float from_f16(uint16_t h) { return emu::from_f16(h); }
uint16_t to_f16(float x) { return emu::to_f16(x); }
uint16_t to_bf16(float x) { return emu::to_bf16(x); }
uint8_t to_e4m3(float x) { return emu::to_e4m3(x); }
uint8_t to_e5m2(float x) { return emu::to_e5m2(x); }
float from_e4m3(uint8_t b) { return emu::from_e4m3(b); }
float from_e5m2(uint8_t b) { return emu::from_e5m2(b); }

}
