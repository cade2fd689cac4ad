// SPDX-License-Identifier: MIT
// memory.cpp - the device's memory, which is the host's with a guard after each allocation, and shared memory.
//
// An allocation ends at an inaccessible page; what is left before it (up to 255 bytes) is filled with a pattern that is
// looked at after each launch. Fresh memory is poison: NaN in every floating-point format.
#include "emulator.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <sys/mman.h>

namespace emu {

enum { ALIGNMENT = 256, PATTERN = 0xa5, SLACK = 64 };

struct Allocation { char *mapping; size_t mapped, bytes; };
static std::map<uint64_t, Allocation> allocations;
static std::mutex lock;
static size_t in_use;

static size_t limit() { return (size_t)setting("KILN_EMULATOR_MEMORY_MB", 16384) << 20; }

void poison(void *memory, size_t bytes)
{
    unsigned char *const at = (unsigned char *)memory;
    for (size_t i = 0; i + 2 <= bytes; i += 2)
        at[i] = 0xff, at[i + 1] = 0x7f;
    if (bytes & 1)
        at[bytes - 1] = 0xff;
}

uint64_t allocate(size_t bytes)
{
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, pages = (rounded + PAGE - 1) / PAGE * PAGE;
    std::lock_guard<std::mutex> hold(lock);
    if (bytes > limit() || in_use + pages > limit())
        return 0;
    char *const mapping = (char *)mmap(nullptr, pages + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return 0;
    char *const end = mapping + PAGE + pages, *const memory = end - rounded;
    mprotect(mapping, PAGE, PROT_NONE);
    mprotect(end, PAGE, PROT_NONE);
    if (bytes <= (size_t)256 << 20)                        // more is left as it comes: touching it takes long
        poison(memory, bytes);
    memset(memory + bytes, PATTERN, rounded - bytes);
    memset(mapping + PAGE, PATTERN, (size_t)(memory - mapping) - PAGE);
    allocations[(uint64_t)memory] = { mapping, pages + 2 * PAGE, bytes };
    in_use += pages;
    return (uint64_t)memory;
}

bool release(uint64_t address)
{
    std::lock_guard<std::mutex> hold(lock);
    const auto found = allocations.find(address);
    if (found == allocations.end())
        return false;
    in_use -= found->second.mapped - 2 * PAGE;
    munmap(found->second.mapping, found->second.mapped);
    allocations.erase(found);
    return true;
}

bool is_allocated(uint64_t address, size_t bytes)
{
    std::lock_guard<std::mutex> hold(lock);
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin())
        return false;
    --after;
    return address - after->first + bytes <= after->second.bytes;
}

std::string check_guards()
{
    std::lock_guard<std::mutex> hold(lock);
    for (const auto &one : allocations) {
        const Allocation &a = one.second;
        const unsigned char *const begin = (unsigned char *)a.mapping + PAGE, *const memory = (unsigned char *)one.first,
                            *const end = (unsigned char *)a.mapping + a.mapped - PAGE;
        for (const unsigned char *p = begin; p < end; p = p + 1 == memory ? memory + a.bytes : p + 1)
            if (p < memory || p >= memory + a.bytes) {
                if (*p == PATTERN)
                    continue;
                char text[200];
                snprintf(text, sizeof text, "an allocation of %zu bytes was written %s: %zu bytes off", a.bytes,
                         p < memory ? "before its beginning" : "past its end", (size_t)(p < memory ? memory - p : p - (memory + a.bytes)));
                return text;
            }
    }
    return "";
}

void check_global(const void *address, size_t bytes, const char *what)
{
    if (!is_allocated((uint64_t)address, bytes))
        fault(ILLEGAL_ADDRESS, "%s: %zu bytes at %p are not memory of the device", what, bytes, address);
}

// ---- shared memory: an inaccessible page, the block's bytes, 64 bytes of pattern, the rest of the mapping

enum { SHARED_MAPPING = (SHARED_BYTES_MAX + SLACK + PAGE - 1) / PAGE * PAGE };

unsigned char *new_shared(Worker *w, uint32_t bytes)
{
    unsigned char *memory;
    if (w->free_shared.empty()) {
        memory = (unsigned char *)mmap(nullptr, SHARED_MAPPING + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
        mprotect(memory - PAGE, PAGE, PROT_NONE);
        mprotect(memory + SHARED_MAPPING, PAGE, PROT_NONE);
    } else {
        memory = (unsigned char *)w->free_shared.back();
        w->free_shared.pop_back();
    }
    poison(memory, bytes);
    memset(memory + bytes, PATTERN, SLACK);
    return memory;
}

void free_shared(Worker *w, unsigned char *shared, uint32_t bytes)
{
    poison(shared, bytes);                                 // what still reads it shall see that
    w->free_shared.push_back(shared);
}

Block *block_at(uint32_t address)
{
    Cluster *const c = self()->block->cluster;
    const uint32_t rank = address >> 24;
    if (rank >= c->blocks.size())
        fault(ILLEGAL_ADDRESS, "shared address %#x lies in block %u of a cluster of %zu", address, rank, c->blocks.size());
    return c->blocks[rank].get();
}

unsigned char *shared_in(Block *block, uint32_t offset, uint32_t bytes, const char *what)
{
    if (block->has_ended)
        fault(ILLEGAL_ADDRESS, "%s: block %u has ended, its shared memory is gone", what, block->index.x);
    if (offset < RESERVED_SHARED || offset - RESERVED_SHARED + bytes > block->shared_bytes)
        fault(ILLEGAL_ADDRESS, "%s: %u bytes at shared address %#x, the block has %#x to %#x", what, bytes, offset,
              RESERVED_SHARED, RESERVED_SHARED + block->shared_bytes);
    return block->shared + (offset - RESERVED_SHARED);
}

unsigned char *shared_at(uint32_t address, uint32_t bytes, const char *what)
{
    return shared_in(block_at(address), offset_of(address), bytes, what);
}

}
