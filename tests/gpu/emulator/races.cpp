// SPDX-License-Identifier: MIT
// races.cpp - accesses to a block's shared memory that no barrier orders, and proxy fences that are missing.
//
// Kernels are compiled with -fsanitize=thread, whose calls come here in place of libtsan's. Time is counted per warp: a
// vector clock says up to which moment of each other warp a warp is ordered after it. Barriers carry clocks from those
// that arrive to those that wait. Lanes of a warp share its clock: they are in order when they met (__syncwarp, a barrier)
// since, so some races inside a warp are missed; what is reported is one. Asynchronous copies have clocks of their own, one
// for each mbarrier (modulo their number).
//
// A second clock says up to which moment the writes of each warp are fenced: visible to the asynchronous proxy (wgmma,
// TMA). fence.proxy.async makes all fenced that the warp is ordered after. Reads by loads are fenced, too, before a copy
// overwrites what they read: an arrival at an mbarrier may overtake them.
//
// The warps of a cluster are counted together. What another block's warp has stored is visible only by operations that
// order the whole cluster (its barrier, .release.cluster), which a third clock follows; a plain arrival at another
// block's mbarrier orders nothing but what comes after it (a buffer released). And a block must not end before all
// that reaches its shared memory from outside, or asynchronously, is ordered before one of its warps.
#include "emulator.h"
#include "ptx.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sys/mman.h>

namespace emu {

// Of 4 bytes: the last write, how many asynchronous reads are under way, and when each warp has last read.
// Of the warp that has read last, which lanes since they met. lane: of the write; WARP: all.
struct Cell { uint32_t written; uint8_t writer, mask, by_proxy, lane; uint16_t reading; uint8_t reader, unused; uint32_t lanes; uint32_t read[WARPS_MAX]; };

// Set in a moment of `read`: by loads, which the asynchronous proxy does not wait for without a fence.
static const uint32_t BY_LOAD = 1u << 31;

static uint32_t moment_of(uint32_t read) { return read & ~BY_LOAD; }

enum { CELLS_BYTES = (SHARED_BYTES_MAX / 4 + 16) * (int)sizeof(Cell) };

// Cells are as long as there are warps.
static size_t cell_bytes(const Block *block) { return offsetof(Cell, read) + 4 * (size_t)block->cluster->warps; }

void watch_block(Worker *w, Block *block)
{
    if (block->cluster->warps > WARPS_MAX || !setting("KILN_EMULATOR_RACES", 1))
        return;
    if (w->free_cells.empty()) {
        void *const memory = mmap(nullptr, CELLS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        w->free_cells.push_back(memory == MAP_FAILED ? nullptr : (unsigned char *)memory);
    }
    block->cells = w->free_cells.back();
    w->free_cells.pop_back();
    for (const auto &warp : block->warps)                  // moment 0 is before everything
        warp->order.seen.at[warp->agent] = 1;
}

void leave_block(Worker *w, Block *block)
{
    enum { KEPT = 16 };                                    // what is not returned to the system, which takes longer than to clear it
    if (!block->cells)
        return;
    if (w->free_cells.size() < KEPT)
        memset(block->cells, 0, (block->shared_bytes + 3) / 4 * cell_bytes(block));
    else
        madvise(block->cells, CELLS_BYTES, MADV_DONTNEED);
    w->free_cells.push_back(block->cells);
    block->cells = nullptr;
}

static void join(Clock &to, const Clock &from)
{
    for (int i = 0; i < CLOCKS; i++)
        to.at[i] = std::max(to.at[i], from.at[i]);
}

static bool has_neighbours(const Warp *warp) { return warp->block->cluster->blocks.size() > 1; }

void release_to(Warp *warp, Order &to)
{
    if (!warp->block->cells)
        return;
    join(to.seen, warp->order.seen);
    join(to.fenced, warp->order.fenced);
    if (has_neighbours(warp))
        join(to.across, warp->order.across);
    warp->order.seen.at[warp->agent]++;
}

// What it has seen of its own block goes to the others as well.
void release_to_cluster(Warp *warp, Order &to)
{
    const int n = (int)warp->block->warps.size(), first = (int)warp->block->rank * n;
    if (!warp->block->cells)
        return;
    for (int i = first; i < first + n; i++)
        warp->order.across.at[i] = warp->order.seen.at[i];
    release_to(warp, to);
}

static void reach(Block *block, int agent, uint32_t moment)
{
    block->reached.at[agent] = std::max(block->reached.at[agent], moment);
}

void release_to_remote(Warp *warp, Block *block, Order &to)
{
    if (!warp->block->cells)
        return;
    reach(block, warp->agent, warp->order.seen.at[warp->agent]);
    join(to.seen, warp->order.seen);
    join(to.fenced, warp->order.fenced);
    warp->order.seen.at[warp->agent]++;
}

void acquire_from(Warp *warp, const Order &from)
{
    if (!warp->block->cells)
        return;
    join(warp->order.seen, from.seen);
    join(warp->order.fenced, from.fenced);
    if (has_neighbours(warp))
        join(warp->order.across, from.across);
}

bool is_ordered(const Warp *warp, int agent, uint32_t moment) { return !warp->block->cells || moment <= warp->order.seen.at[agent]; }

// What the running warp knows goes to the barrier with the copy.
Issued issue_async(Block *block, uint32_t barrier)
{
    Issued issued = { self()->warp->order, (int)(WARPS_MAX + (barrier / 8 + 31 * block->rank) % (CLOCKS - WARPS_MAX)), 0 };
    issued.moment = ++block->cluster->copies_issued;
    if (block->cells)
        reach(block, issued.agent, issued.moment);
    return issued;
}

void complete_async(const Issued &issued, Order &to)
{
    join(to.seen, issued.order.seen);
    join(to.fenced, issued.order.fenced);
    to.seen.at[issued.agent] = std::max(to.seen.at[issued.agent], issued.moment);
}

static const char *name_of(const Block *block, int who, char *text, size_t n)
{
    const int warps = (int)block->warps.size(), rank = who / warps;
    if (who >= WARPS_MAX)
        snprintf(text, n, "an asynchronous copy");
    else if (rank == (int)block->rank)
        snprintf(text, n, "warp %d", who % warps);
    else
        snprintf(text, n, "warp %d of block %u", who % warps, block->cluster->blocks[(size_t)rank]->index.x);
    return text;
}

[[noreturn]] static void report_race(const Block *block, uint32_t offset, const char *now, const char *before, int who, const char *why)
{
    char text[64];
    fault(LAUNCH_FAILED, "race: shared address %#x%s: %s, not ordered after %s by %s%s", offset,
          self() && self()->block != block ? " of another block" : "", now, before, name_of(block, who, text, sizeof text), why);
}

void check_end(Block *block)
{
    if (block->pending)
        fault(LAUNCH_FAILED, "block %u has ended, but %d asynchronous copies still work on its shared memory", block->index.x, block->pending);
    block->has_ended = true;
    if (!block->cells)
        return;
    for (int i = 0; i < CLOCKS; i++) {
        uint32_t seen = 0;
        char text[64];
        for (const auto &warp : block->warps)
            seen = std::max(seen, warp->order.seen.at[i]);
        if (block->reached.at[i] > seen)
            fault(LAUNCH_FAILED, "race: block %u ends, not ordered after an access to its shared memory by %s", block->index.x,
                  name_of(block, i, text, sizeof text));
    }
}

// Up to which moment of a writer an order makes its stores visible in `block`.
static uint32_t visible(const Order &order, const Block *block, int writer)
{
    const bool is_remote = writer < block->cluster->warps && writer / (int)block->warps.size() != (int)block->rank;
    return is_remote ? order.across.at[writer] : order.seen.at[writer];
}

// Those of an access.
struct Cells {
    unsigned char *at;
    size_t   each;
    uint32_t first, n;
    Cell &operator[](uint32_t i) const { return *(Cell *)(at + i * each); }
};

static Cells cells_of(const Block *block, uint32_t offset, uint32_t bytes)
{
    const uint32_t at = offset - RESERVED_SHARED, first = at / 4;
    if (offset < RESERVED_SHARED || at + bytes > block->shared_bytes)
        return { nullptr, 0, 0, 0 };
    const size_t each = cell_bytes(block);
    return { block->cells + first * each, each, first, (at + bytes - 1) / 4 - first + 1 };
}

static uint8_t mask_of(uint32_t offset, uint32_t bytes) { return bytes >= 4 ? 15 : (uint8_t)(((1u << bytes) - 1) << offset % 4); }

void lanes_met(Warp *warp) { warp->order.seen.at[warp->agent]++; }

static int lane_now() { return worker->together ? (int)WARP : self()->lane; }
static uint32_t lanes_now() { return worker->together ? ~0u : 1u << self()->lane; }

// Written by another lane of this warp, and they have not met since.
static bool is_lanes_write(const Cell &cell, const Warp *warp)
{
    return cell.writer == warp->agent && cell.written == warp->order.seen.at[warp->agent] && (cell.lane != lane_now() || cell.lane == WARP);
}

static void note_lanes_read(Cell &cell, const Warp *warp, uint32_t by_load)
{
    const uint32_t now = warp->order.seen.at[warp->agent];
    if (cell.reader != warp->agent || moment_of(cell.read[warp->agent]) != now)
        cell.lanes = 0;
    cell.reader = (uint8_t)warp->agent;
    cell.lanes |= lanes_now();
    cell.read[warp->agent] = now | by_load;
}

static void note_remote(Block *block, const Warp *warp)
{
    if (warp->block != block)
        reach(block, warp->agent, warp->order.seen.at[warp->agent]);
}

void note_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    settle_doubt();
    const Cells cells = cells_of(block, offset, bytes);
    const uint8_t mask = mask_of(offset, bytes);
    for (uint32_t i = 0; i < cells.n; i++) {
        Cell &cell = cells[i];
        if (cell.written > visible(warp->order, warp->block, cell.writer) && cell.mask & mask)
            report_race(block, offset, "read", "the write", cell.writer, cell.written > warp->order.seen.at[cell.writer] ? "" : " for the cluster");
        if (is_lanes_write(cell, warp) && cell.written && cell.mask & mask)
            report_race(block, offset, "read", "the write", cell.writer, ", in another lane");
        note_lanes_read(cell, warp, BY_LOAD);
    }
    note_remote(block, warp);
}

// GPUs have one NaN of f32, where the processor that emulates them keeps signs.
static bool is_nan(const unsigned char *word)
{
    uint32_t bits;
    memcpy(&bits, word, sizeof bits);
    return (bits & 0x7fffffff) > 0x7f800000;
}

// Warps that hold the same value may all store it: whether the word changes is known only when the store is done.
void settle_doubt()
{
    Doubt &d = worker->doubt;
    if (!d.block)
        return;
    const Block *const block = d.block;
    const unsigned char *const now = block->shared + (d.offset - RESERVED_SHARED);
    d.block = nullptr;
    if (memcmp(now, d.before, 4) != 0 && !(is_nan(now) && is_nan(d.before)))
        report_race(block, d.offset, "write", "the write", d.writer, ", of another value");
}

static void doubt(Block *block, uint32_t cell, int writer)
{
    Doubt &d = worker->doubt;
    d = { block, RESERVED_SHARED + cell * 4, writer, {} };
    memcpy(d.before, block->shared + cell * 4, 4);
}

static void check_write(const Block *block, const Cell &cell, const Clock &seen, uint32_t offset, uint8_t mask, const char *what)
{
    if (mask != 15)
        return;
    if (cell.reading)
        fault(LAUNCH_FAILED, "race: shared address %#x: %s, while a wgmma or a bulk store may still read it", offset, what);
    for (int w = 0; w < block->cluster->warps; w++)
        if (moment_of(cell.read[w]) > seen.at[w])
            report_race(block, offset, what, "the read", w, "");
}

void note_write(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    settle_doubt();
    const Cells cells = cells_of(block, offset, bytes);
    const uint8_t mask = mask_of(offset, bytes);
    for (uint32_t i = 0; i < cells.n; i++) {
        Cell &cell = cells[i];
        if (cell.written > warp->order.seen.at[cell.writer] && cell.mask & mask) {
            if (cell.writer >= WARPS_MAX)
                report_race(block, offset, "write", "the write", cell.writer, "");
            doubt(block, cells.first + i, cell.writer);
        } else if (cell.written && is_lanes_write(cell, warp) && cell.mask & mask) {
            doubt(block, cells.first + i, cell.writer);
        }
        check_write(block, cell, warp->order.seen, offset, mask, "write");
        if (mask == 15 && cell.reader == warp->agent && moment_of(cell.read[warp->agent]) == warp->order.seen.at[warp->agent] && cell.lanes & ~lanes_now())
            report_race(block, offset, "write", "the read", warp->agent, ", in another lane");
        cell.written = warp->order.seen.at[warp->agent];
        cell.writer = (uint8_t)warp->agent;
        cell.lane = (uint8_t)lane_now();
        cell.mask = mask;
        cell.by_proxy = 0;
    }
    note_remote(block, warp);
}

// By a copy: `by_proxy` unless it is cp.async.
void note_async_write(Block *block, const Issued &issued, uint32_t offset, uint32_t bytes, bool by_proxy)
{
    if (!block->cells)
        return;
    const Cells cells = cells_of(block, offset, bytes);
    for (uint32_t i = 0; i < cells.n; i++) {
        Cell &cell = cells[i];
        if (cell.written > issued.order.seen.at[cell.writer])
            report_race(block, offset, "an asynchronous copy writes", "the write", cell.writer, "");
        if (by_proxy && cell.written && !cell.by_proxy && cell.written > issued.order.fenced.at[cell.writer])
            report_race(block, offset, "an asynchronous copy writes", "the write", cell.writer, ": there is no fence.proxy.async between");
        check_write(block, cell, issued.order.seen, offset, 15, "an asynchronous copy writes");
        for (int w = 0; by_proxy && w < block->cluster->warps; w++)
            if (cell.read[w] & BY_LOAD && moment_of(cell.read[w]) > issued.order.fenced.at[w])
                report_race(block, offset, "an asynchronous copy writes", "the read", w, ": there is no fence.proxy.async between");
        cell.written = issued.moment;
        cell.writer = (uint8_t)issued.agent;
        cell.lane = (uint8_t)(issued.agent < WARPS_MAX ? self()->lane : 0);
        cell.mask = 15;
        cell.by_proxy = by_proxy;
    }
}

// wgmma or a bulk store begins to read: what it reads must be there, and fenced.
void begin_async_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    const Cells cells = cells_of(block, offset, bytes);
    for (uint32_t i = 0; i < cells.n; i++) {
        Cell &cell = cells[i];
        if (cell.written > visible(warp->order, block, cell.writer))
            report_race(block, offset, "read asynchronously", "the write", cell.writer, "");
        if (!cell.by_proxy && cell.written > warp->order.fenced.at[cell.writer])
            report_race(block, offset, "read asynchronously", "the write", cell.writer, ": there is no fence.proxy.async between");
        cell.reading++;
    }
}

// The warp has waited for it; or, by_lane, the running thread alone.
void end_async_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes, bool by_lane)
{
    if (!block->cells)
        return;
    const Cells cells = cells_of(block, offset, bytes);
    for (uint32_t i = 0; i < cells.n; i++) {
        Cell &cell = cells[i];
        cell.reading--;
        if (by_lane) {
            note_lanes_read(cell, warp, 0);
            continue;
        }
        if (moment_of(cell.read[warp->agent]) != warp->order.seen.at[warp->agent])
            cell.lanes = 0;
        cell.read[warp->agent] = warp->order.seen.at[warp->agent];
    }
}

void fence_proxy(Warp *warp)
{
    if (warp->block->cells)
        join(warp->order.fenced, warp->order.seen);
    tell_of_mbarriers(warp);
}

// An access of the kernel's, anywhere; most are to the running thread's own stack, where its registers are.
static inline void access(const void *p, uint32_t bytes, bool writes)
{
    if (((uintptr_t)p ^ (uintptr_t)__builtin_frame_address(0)) < STACK_BYTES)
        return;
    const Fiber *const f = worker->running;
    Block *const b = f->block;
    const size_t offset = (size_t)((const unsigned char *)p - b->shared);
    if (offset >= b->shared_bytes || !b->cells)
        return;
    if (writes)
        note_write(b, f->warp, (uint32_t)offset + RESERVED_SHARED, bytes);
    else
        note_read(b, f->warp, (uint32_t)offset + RESERVED_SHARED, bytes);
}

}

// ---- what -fsanitize=thread calls

#define HOOK extern "C" __attribute__((visibility("default"))) void
#define HOOKS(bytes) \
    HOOK __tsan_read##bytes(void *p) { emu::access(p, bytes, false); } \
    HOOK __tsan_write##bytes(void *p) { emu::access(p, bytes, true); } \
    HOOK __tsan_unaligned_read##bytes(void *p) { emu::access(p, bytes, false); } \
    HOOK __tsan_unaligned_write##bytes(void *p) { emu::access(p, bytes, true); } \
    HOOK __tsan_volatile_read##bytes(void *p) { emu::access(p, bytes, false); } \
    HOOK __tsan_volatile_write##bytes(void *p) { emu::access(p, bytes, true); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
HOOK __tsan_read_range(void *p, size_t n) { emu::access(p, (uint32_t)n, false); }
HOOK __tsan_write_range(void *p, size_t n) { emu::access(p, (uint32_t)n, true); }
extern "C" __attribute__((visibility("default"))) void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    emu::access(from, (uint32_t)n, false);
    emu::access(to, (uint32_t)n, true);
    return memcpy(to, from, n);
}
extern "C" __attribute__((visibility("default"))) void *__tsan_memset(void *to, int x, size_t n)
{
    emu::access(to, (uint32_t)n, true);
    return memset(to, x, n);
}
HOOK __tsan_vptr_update(void **, void *) { }
HOOK __tsan_init(void) { }
