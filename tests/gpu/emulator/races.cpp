// races.cpp - accesses to a block's shared memory that no barrier orders, and proxy fences that are missing.
//
// Kernels are compiled with -fsanitize=thread, whose calls come here in place of libtsan's. Time is counted per warp: a
// vector clock says up to which moment of each other warp a warp is ordered behind it. Barriers carry clocks from those
// that arrive to those that wait. Lanes of a warp are not told apart, so some races inside a warp are missed; what is
// reported is one. Asynchronous copies have clocks of their own, one for each mbarrier (modulo their number).
//
// A second clock says up to which moment the writes of each warp are fenced: visible to the asynchronous proxy (wgmma,
// TMA). fence.proxy.async makes all fenced that the warp is ordered behind. Blocks of clusters are not watched.
#include "emulator.h"
#include "ptx.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace emu {

// Of 4 bytes: the last write, how many asynchronous reads are under way, and when each warp has last read.
struct Cell { uint32_t written; uint8_t writer, mask, by_proxy, unused; uint32_t reading; uint32_t read[WARPS_MAX]; };

enum { CELLS_BYTES = (SHARED_BYTES_MAX / 4 + 16) * (int)sizeof(Cell) };

void watch_block(Worker *w, Block *block)
{
    if (w->launch->cluster > 1 || block->warps.size() > WARPS_MAX || !setting("KILN_EMULATOR_RACES", 1))
        return;
    if (w->free_cells.empty()) {
        void *const memory = mmap(nullptr, CELLS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        w->free_cells.push_back(memory == MAP_FAILED ? nullptr : (Cell *)memory);
    }
    block->cells = w->free_cells.back();
    w->free_cells.pop_back();
    for (const auto &warp : block->warps)                  // moment 0 is before everything
        warp->order.seen.at[warp->number] = 1;
}

void leave_block(Worker *w, Block *block)
{
    if (!block->cells)
        return;
    madvise(block->cells, CELLS_BYTES, MADV_DONTNEED);
    w->free_cells.push_back(block->cells);
    block->cells = nullptr;
}

static void join(Clock &to, const Clock &from)
{
    for (int i = 0; i < CLOCKS; i++)
        to.at[i] = std::max(to.at[i], from.at[i]);
}

void release_to(Warp *warp, Order &to)
{
    if (!warp->block->cells)
        return;
    join(to.seen, warp->order.seen);
    join(to.fenced, warp->order.fenced);
    warp->order.seen.at[warp->number]++;
}

void acquire_from(Warp *warp, const Order &from)
{
    if (!warp->block->cells)
        return;
    join(warp->order.seen, from.seen);
    join(warp->order.fenced, from.fenced);
}

// What the running warp knows goes to the barrier with the copy.
Issued issue_async(Block *block, uint32_t barrier)
{
    Issued issued = { self()->warp->order, (int)(WARPS_MAX + barrier / 8 % (CLOCKS - WARPS_MAX)), 0 };
    issued.moment = ++block->copies_issued;
    return issued;
}

void complete_async(const Issued &issued, Order &to)
{
    join(to.seen, issued.order.seen);
    join(to.fenced, issued.order.fenced);
    to.seen.at[issued.agent] = std::max(to.seen.at[issued.agent], issued.moment);
}

static const char *name_of(int who, char *text, size_t n)
{
    if (who < WARPS_MAX)
        snprintf(text, n, "warp %d", who);
    else
        snprintf(text, n, "an asynchronous copy");
    return text;
}

[[noreturn]] static void report_race(uint32_t offset, const char *now, const char *before, int who, const char *why)
{
    char text[64];
    fault(LAUNCH_FAILED, "race: shared address %#x: %s, not ordered behind %s by %s%s", offset, now, before, name_of(who, text, sizeof text), why);
}

struct Range { uint32_t first, last; };                    // of cells

static Range cells_of(const Block *block, uint32_t offset, uint32_t bytes)
{
    const uint32_t at = offset - RESERVED_SHARED;
    if (offset < RESERVED_SHARED || at + bytes > block->shared_bytes)
        return { 1, 0 };
    return { at / 4, (at + bytes - 1) / 4 };
}

static uint8_t mask_of(uint32_t offset, uint32_t bytes) { return bytes >= 4 ? 15 : (uint8_t)(((1u << bytes) - 1) << offset % 4); }

void note_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    settle_doubt();
    const Range r = cells_of(block, offset, bytes);
    const uint8_t mask = mask_of(offset, bytes);
    for (uint32_t i = r.first; i <= r.last; i++) {
        Cell &cell = block->cells[i];
        if (cell.written > warp->order.seen.at[cell.writer] && cell.mask & mask)
            report_race(offset, "read", "the write", cell.writer, "");
        cell.read[warp->number] = warp->order.seen.at[warp->number];
    }
}

// Warps that hold the same value may all store it: whether the word changes is known only when the store is done.
void settle_doubt()
{
    Doubt &d = worker->doubt;
    if (!d.block)
        return;
    const unsigned char *const now = d.block->shared + (d.offset - RESERVED_SHARED);
    d.block = nullptr;
    if (memcmp(now, d.before, 4) != 0)
        report_race(d.offset, "write", "the write", d.writer, ", of another value");
}

static void doubt(Block *block, uint32_t cell, int writer)
{
    Doubt &d = worker->doubt;
    d = { block, RESERVED_SHARED + cell * 4, writer, {} };
    memcpy(d.before, block->shared + cell * 4, 4);
}

static void check_write(const Cell &cell, const Clock &seen, uint32_t offset, uint8_t mask, const char *what)
{
    if (mask != 15)
        return;
    if (cell.reading)
        fault(LAUNCH_FAILED, "race: shared address %#x: %s, while a wgmma or a bulk store may still read it", offset, what);
    for (int w = 0; w < WARPS_MAX; w++)
        if (cell.read[w] > seen.at[w])
            report_race(offset, what, "the read", w, "");
}

void note_write(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    settle_doubt();
    const Range r = cells_of(block, offset, bytes);
    const uint8_t mask = mask_of(offset, bytes);
    for (uint32_t i = r.first; i <= r.last; i++) {
        Cell &cell = block->cells[i];
        if (cell.written > warp->order.seen.at[cell.writer] && cell.mask & mask) {
            if (cell.writer >= WARPS_MAX)
                report_race(offset, "write", "the write", cell.writer, "");
            doubt(block, i, cell.writer);
        }
        check_write(cell, warp->order.seen, offset, mask, "write");
        cell.written = warp->order.seen.at[warp->number];
        cell.writer = (uint8_t)warp->number;
        cell.mask = mask;
        cell.by_proxy = 0;
    }
}

// By a copy: `by_proxy` unless it is cp.async.
void note_async_write(Block *block, const Issued &issued, uint32_t offset, uint32_t bytes, bool by_proxy)
{
    if (!block->cells)
        return;
    const Range r = cells_of(block, offset, bytes);
    for (uint32_t i = r.first; i <= r.last; i++) {
        Cell &cell = block->cells[i];
        if (cell.written > issued.order.seen.at[cell.writer])
            report_race(offset, "an asynchronous copy writes", "the write", cell.writer, "");
        check_write(cell, issued.order.seen, offset, 15, "an asynchronous copy writes");
        cell.written = issued.moment;
        cell.writer = (uint8_t)issued.agent;
        cell.mask = 15;
        cell.by_proxy = by_proxy;
    }
}

// wgmma or a bulk store begins to read: what it reads must be there, and fenced.
void begin_async_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    const Range r = cells_of(block, offset, bytes);
    for (uint32_t i = r.first; i <= r.last; i++) {
        Cell &cell = block->cells[i];
        if (cell.written > warp->order.seen.at[cell.writer])
            report_race(offset, "read asynchronously", "the write", cell.writer, "");
        if (!cell.by_proxy && cell.written > warp->order.fenced.at[cell.writer])
            report_race(offset, "read asynchronously", "the write", cell.writer, ": there is no fence.proxy.async between");
        cell.reading++;
    }
}

// The warp has waited for it.
void end_async_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes)
{
    if (!block->cells)
        return;
    const Range r = cells_of(block, offset, bytes);
    for (uint32_t i = r.first; i <= r.last; i++) {
        Cell &cell = block->cells[i];
        cell.reading--;
        cell.read[warp->number] = warp->order.seen.at[warp->number];
    }
}

void fence_proxy(Warp *warp)
{
    if (warp->block->cells)
        join(warp->order.fenced, warp->order.seen);
}

// An access of the kernel's, anywhere.
static inline void access(const void *p, uint32_t bytes, bool writes)
{
    const Fiber *const f = worker->running;
    if ((size_t)((const char *)p - (const char *)f->stack_base) < STACK_BYTES)
        return;
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
