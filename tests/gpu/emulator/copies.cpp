// SPDX-License-Identifier: MIT
// copies.cpp - asynchronous copies: cp.async, bulk copies and boxes of tensors.
//
// A load writes shared memory and tells its mbarrier when the worker chooses, at the latest when nothing else can go on.
// A store reads shared memory when the worker chooses, at the latest when its thread waits for that
// (cp.async.bulk.wait_group.read); it writes memory later still, at the latest when its thread waits without .read, or
// at the end of the block. A cp.async lands when its thread waits for it, or its barrier is told.
#include "emulator.h"
#include "numbers.h"
#include "ptx.h"

#include <algorithm>
#include <cstring>

namespace emu {

using namespace ptx;

// ---- cp.async

static void land(Block *block, const CopyGroup &group, const Issued &issued)
{
    for (const auto &c : group) {
        if (c->landed)
            continue;
        unsigned char *const to = shared_in(block, c->dst, c->bytes, "cp.async");
        note_async_write(block, c->told ? *c->told : issued, c->dst, c->bytes, false);
        memset(to, 0, c->bytes);
        memcpy(to, c->src, c->from);
        c->landed = true;
    }
}

static void land_all_but(Fiber *f, size_t n)
{
    while (f->copy_groups.size() > n) {
        // What the thread has waited for is as if it had written it itself.
        land(f->block, f->copy_groups.front(), { f->warp->order, f->warp->agent, f->warp->order.seen.at[f->warp->agent] });
        f->copy_groups.erase(f->copy_groups.begin());
    }
}

// ---- stores

static void read_now(BulkStore &s)
{
    if (!s.was_read)
        s.read(s);
    s.was_read = true;
}

static void write_now(BulkStore &s)
{
    read_now(s);
    if (!s.written)
        s.write(s);
    s.written = true;
}

static void forget_written(Worker *w)
{
    const auto written = [](const std::shared_ptr<BulkStore> &s) { return s->written; };
    w->stores.erase(std::remove_if(w->stores.begin(), w->stores.end(), written), w->stores.end());
}

void advance_a_store(Worker *w)
{
    BulkStore &s = *w->stores[w->random.below((unsigned)w->stores.size())];
    if (!s.was_read) {
        read_now(s);
        return;
    }
    write_now(s);
    forget_written(w);
}

void finish_stores(Worker *w, const Block *block)
{
    for (const auto &s : w->stores)
        if (s->block == block)
            write_now(*s);
    forget_written(w);
}

static void start_store(uint32_t from, uint32_t length, std::function<void(BulkStore &)> read, std::function<void(BulkStore &)> write)
{
    Fiber *const f = self();
    auto s = std::make_shared<BulkStore>();
    s->from = from, s->length = length;
    begin_async_read(f->block, f->warp, from, length);
    s->block = f->block;
    s->group = f->store_group;
    s->read = std::move(read);
    s->write = std::move(write);
    f->stores.push_back(s);
    worker->stores.push_back(s);
}

void copies_at_exit(Fiber *f)
{
    for (const auto &s : f->stores)
        if (s->group == f->store_group)
            fault(LAUNCH_FAILED, "the thread ends, but a bulk store of its was never committed to a group");
        else if (!s->was_read)
            fault(LAUNCH_FAILED, "the thread ends, but has not waited until its bulk stores have read shared memory");
}

// ---- reductions in memory; other workers may be at the same element

template <class T, class Combine> static void combine(void *to, const void *from, size_t bytes, Combine with)
{
    T *const p = (T *)to;
    for (size_t i = 0; i < bytes / sizeof(T); i++) {
        T x, old, now;
        memcpy(&x, (const char *)from + i * sizeof(T), sizeof(T));
        __atomic_load(&p[i], &old, __ATOMIC_RELAXED);
        do
            now = with(old, x);
        while (!__atomic_compare_exchange(&p[i], &old, &now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

template <class T> static void combine_integers(void *to, const void *from, size_t bytes, ReduceMode mode)
{
    typedef typename std::make_signed<T>::type S;
    combine<T>(to, from, bytes, [mode](T a, T b) -> T {
        switch (mode) {
        case REDUCE_ADD: return (T)(a + b);
        case REDUCE_MIN_U: return std::min(a, b);
        case REDUCE_MAX_U: return std::max(a, b);
        case REDUCE_MIN_S: return (T)std::min((S)a, (S)b);
        case REDUCE_MAX_S: return (T)std::max((S)a, (S)b);
        case REDUCE_AND: return a & b;
        case REDUCE_OR: return a | b;
        case REDUCE_XOR: return a ^ b;
        }
        return a;
    });
}

static float float_reduced(ReduceMode mode, float a, float b)
{
    return mode == REDUCE_ADD ? a + b : mode == REDUCE_MIN_S || mode == REDUCE_MIN_U ? fminf(a, b) : fmaxf(a, b);
}

// type: as tensor maps number them.
static void reduce_in_memory(int type, ReduceMode mode, void *to, const void *from, size_t bytes)
{
    switch (type) {
    case 2: case 3: combine_integers<uint32_t>(to, from, bytes, mode); return;
    case 4: case 5: combine_integers<uint64_t>(to, from, bytes, mode); return;
    case 6: combine<uint16_t>(to, from, bytes, [mode](uint16_t a, uint16_t b) { return to_f16(float_reduced(mode, from_f16(a), from_f16(b))); }); return;
    case 7: case 10: combine<float>(to, from, bytes, [mode](float a, float b) { return float_reduced(mode, a, b); }); return;
    case 8: combine<double>(to, from, bytes, [](double a, double b) { return a + b; }); return;
    case 9: combine<uint16_t>(to, from, bytes, [mode](uint16_t a, uint16_t b) { return to_bf16(float_reduced(mode, from_bf16(a), from_bf16(b))); }); return;
    default: fault(LAUNCH_FAILED, "the copy engine does not reduce elements of this type");
    }
}

static ReduceMode signed_mode(int type, ReduceMode mode)
{
    const bool is_signed = type == 3 || type == 5;
    return mode == REDUCE_MIN_U && is_signed ? REDUCE_MIN_S : mode == REDUCE_MAX_U && is_signed ? REDUCE_MAX_S : mode;
}

// ---- boxes

struct Box { TensorMap map; int32_t at[5], offsets[3]; };

// What the device calls an illegal instruction: boxes that begin within a piece of 16 bytes, stores at negative coordinates.
static Box box_of(const void *map, int rank, const int32_t *at, const int32_t *offsets, bool store, const char *what)
{
    Box box = { *tensor_map_at(map, rank, what), {}, {} };
    if ((box.map.im2col != 0) != (offsets != nullptr))
        fault(LAUNCH_FAILED, "%s: an im2col copy takes an im2col map, and no other does", what);
    const int bits = rank == 3 ? 16 : rank == 4 ? 8 : 5;
    for (int i = 0; offsets && i < rank - 2; i++) {
        box.offsets[i] = offsets[i];
        const int64_t first = box.map.first[i], last = (int64_t)box.map.dims[1 + i] - 1 + box.map.last[i];
        if (offsets[i] < 0 || offsets[i] >> bits)
            fault(LAUNCH_FAILED, "%s: an offset of %d in %d bits", what, offsets[i], bits);
        if (at[1 + i] < first || at[1 + i] > last || (at[1 + i] - first) % box.map.steps[1 + i] != 0)
            fault(LAUNCH_FAILED, "%s: coordinate %d is %d, none that the map counts from %lld to %lld", what, 1 + i, at[1 + i], (long long)first, (long long)last);
    }
    if ((int64_t)at[0] * box.map.element_bytes % 16 != 0)
        fault(LAUNCH_FAILED, "%s: the innermost coordinate, %d elements of %d bytes, is not a multiple of 16 bytes", what, at[0], box.map.element_bytes);
    for (int i = 0; store && i < rank; i++)
        if (at[i] < 0)
            fault(LAUNCH_FAILED, "%s: coordinate %d is %d; stores take none below 0", what, i, at[i]);
    std::copy(at, at + rank, box.at);
    return box;
}

static void check_box_address(uint32_t address, const char *what)
{
    if (address % 128 != 0)
        fault(ILLEGAL_ADDRESS, "%s: shared address %#x is not aligned to 128 bytes", what, address);
}

// Shared memory holds the box in 16-byte pieces, moved about by the swizzle.
static void spread(Block *block, uint32_t offset, const std::vector<unsigned char> &bytes, int swizzle)
{
    shared_in(block, offset, (uint32_t)bytes.size(), "a tensor copy");
    for (uint32_t i = 0; i < bytes.size(); i += 16)
        memcpy(shared_in(block, swizzled(offset + i, swizzle), 16, "a tensor copy"), &bytes[i], 16);
}

static void gather(Block *block, uint32_t offset, std::vector<unsigned char> *bytes, int swizzle)
{
    shared_in(block, offset, (uint32_t)bytes->size(), "a tensor store");
    for (uint32_t i = 0; i < bytes->size(); i += 16)
        memcpy(&(*bytes)[i], shared_in(block, swizzled(offset + i, swizzle), 16, "a tensor store"), 16);
}

}

namespace ptx {
using namespace emu;

void cp_async(uint32_t dst, const void *src, uint32_t bytes, uint32_t from)
{
    if (bytes != 4 && bytes != 8 && bytes != 16)
        fault(LAUNCH_FAILED, "cp.async: %u bytes", bytes);
    from = std::min(from, bytes);
    if (dst % bytes != 0 || (from && (uintptr_t)src % bytes != 0))
        fault(ILLEGAL_ADDRESS, "cp.async: %u bytes from %p to %#x are not aligned", bytes, src, dst);
    shared_at(own(dst), bytes, "cp.async");
    if (from)
        check_global(src, from, "cp.async");
    self()->copies.push_back(std::make_shared<SmallCopy>(SmallCopy{ offset_of(dst), src, bytes, from, false, nullptr }));
}

void cp_async_commit()
{
    Fiber *const f = self();
    f->copy_groups.push_back(std::move(f->copies));
    f->copies.clear();
}

void cp_async_wait(uint32_t n) { land_all_but(self(), n); }

void cp_async_wait_all()
{
    cp_async_commit();
    land_all_but(self(), 0);
}

void cp_async_arrive(uint32_t address, bool counted)
{
    Fiber *const f = self();
    const uint32_t offset = offset_of(address);
    CopyGroup all = f->copies;
    for (const CopyGroup &group : f->copy_groups)
        all.insert(all.end(), group.begin(), group.end());
    MBarrier &bar = mbarrier_for_copy(f->block, offset, "cp.async.mbarrier.arrive");
    if (counted)
        bar.pending++;
    Block *const b = f->block;
    // A copy belongs to the first barrier that is told of it; the later ones are told of the earlier, too.
    Issued issued = issue_async(b, offset);
    f->copied.at[issued.agent] = issued.moment;
    for (int i = 0; i < CLOCKS; i++)
        issued.order.seen.at[i] = std::max(issued.order.seen.at[i], f->copied.at[i]);
    for (const auto &c : all)
        if (!c->told)
            c->told = std::make_shared<Issued>(issued);
    start_async(b, [=] {
        land(b, all, issued);
        mbarrier_complete(b, offset, 0, 1, issued);
    });
}

void bulk_commit() { self()->store_group++; }

// All groups but the last n have read shared memory, or are written as well.
void bulk_wait(uint32_t n, bool only_read)
{
    Fiber *const f = self();
    const int kept = f->store_group - (int)n;
    for (const auto &s : f->stores)
        if (s->group < kept) {
            if (only_read)
                read_now(*s);
            else
                write_now(*s);
            if (s->length)
                end_async_read(f->block, f->warp, s->from, s->length, true);
            s->length = 0;
        }
    const auto done = [=](const std::shared_ptr<BulkStore> &s) { return s->group < kept && s->written; };
    f->stores.erase(std::remove_if(f->stores.begin(), f->stores.end(), done), f->stores.end());
    forget_written(worker);
}

// The blocks that a load goes to: those of a mask, at the same place in each, or the one that its address names.
static std::vector<Block *> destinations(uint32_t dst, uint32_t barrier, uint32_t blocks, const char *what)
{
    const Cluster *const c = self()->block->cluster;
    std::vector<Block *> to;
    if (block_at(dst) != block_at(barrier))
        fault(LAUNCH_FAILED, "%s: the mbarrier %#x is not in the block of %#x", what, barrier, dst);
    if (blocks == ADDRESSED)
        return { block_at(dst) };
    if (blocks == 0 || blocks >> c->blocks.size())
        fault(LAUNCH_FAILED, "%s: a mask of %#x for a cluster of %zu blocks", what, blocks, c->blocks.size());
    for (const auto &b : c->blocks)
        if (blocks >> b->rank & 1)
            to.push_back(b.get());
    return to;
}

void tensor_load(int rank, uint32_t dst, const void *map, const int32_t *at, const int32_t *offsets, uint32_t barrier, uint32_t blocks)
{
    const char *const what = "cp.async.bulk.tensor (load)";
    check_box_address(offset_of(dst), what);
    auto box = std::make_shared<Box>(box_of(map, rank, at, offsets, false, what));
    const uint32_t to = offset_of(dst), bar = offset_of(barrier);
    for (Block *const b : destinations(dst, barrier, blocks, what)) {
        mbarrier_for_copy(b, bar, what);
        shared_in(b, to, box_bytes(&box->map), what);
        const Issued issued = issue_async(b, bar);
        start_async(b, [=] {
            std::vector<unsigned char> bytes(box_bytes(&box->map));
            if (box->map.im2col)
                read_im2col(&box->map, box->at, box->offsets, bytes.data());
            else
                read_box(&box->map, box->at, bytes.data());
            note_async_write(b, issued, to, (uint32_t)bytes.size(), true);
            spread(b, to, bytes, box->map.swizzle);
            mbarrier_complete(b, bar, (int64_t)bytes.size(), 0, issued);
        });
    }
}

void tensor_store(int rank, const void *map, const int32_t *at, uint32_t src, ReduceMode mode, bool reduces)
{
    const char *const what = reduces ? "cp.reduce.async.bulk.tensor" : "cp.async.bulk.tensor (store)";
    check_box_address(offset_of(src), what);
    auto box = std::make_shared<Box>(box_of(map, rank, at, nullptr, true, what));
    Block *const b = self()->block;
    const uint32_t from = offset_of(src);
    if (block_at(src) != b)
        fault(LAUNCH_FAILED, "%s: %#x is another block's", what, src);
    shared_in(b, from, box_bytes(&box->map), what);
    const int type = box->map.type;
    const ReduceMode how = signed_mode(type, mode);
    start_store(from, box_bytes(&box->map), [=](BulkStore &s) {
        s.bytes.resize(box_bytes(&box->map));
        gather(b, from, &s.bytes, box->map.swizzle);
    }, [=](BulkStore &s) {
        write_box(&box->map, box->at, s.bytes.data(), [=](void *to, const void *x, size_t n) {
            if (reduces)
                reduce_in_memory(type, how, to, x, n);
            else
                memcpy(to, x, n);
        });
    });
}

static void check_bulk(uint64_t a, uint64_t b, uint32_t bytes, const char *what)
{
    if (a % 16 != 0 || b % 16 != 0 || bytes % 16 != 0)
        fault(ILLEGAL_ADDRESS, "%s: %u bytes between %#llx and %#llx are not aligned to 16", what, bytes, (unsigned long long)a, (unsigned long long)b);
}

void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t barrier, uint32_t blocks)
{
    const char *const what = "cp.async.bulk (load)";
    check_bulk(dst, (uint64_t)src, bytes, what);
    if (bytes)
        check_global(src, bytes, what);
    for (Block *const b : destinations(dst, barrier, blocks, what)) {
        mbarrier_for_copy(b, offset_of(barrier), what);
        unsigned char *const to = shared_in(b, offset_of(dst), bytes, what);
        const Issued issued = issue_async(b, offset_of(barrier));
        start_async(b, [=] {
            note_async_write(b, issued, offset_of(dst), bytes, true);
            memcpy(to, src, bytes);
            mbarrier_complete(b, offset_of(barrier), bytes, 0, issued);
        });
    }
}

// From this block's shared memory to another's of the cluster.
void bulk_send(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t barrier)
{
    const char *const what = "cp.async.bulk (to the cluster)";
    check_bulk(dst, src, bytes, what);
    Block *const b = destinations(dst, barrier, ADDRESSED, what)[0], *const here = self()->block;
    Warp *const warp = self()->warp;
    unsigned char *const to = shared_in(b, offset_of(dst), bytes, what), *const from = shared_at(src, bytes, what);
    mbarrier_for_copy(b, offset_of(barrier), what);
    begin_async_read(here, warp, offset_of(src), bytes);
    const Issued issued = issue_async(b, offset_of(barrier));
    start_async(b, [=] {
        end_async_read(here, warp, offset_of(src), bytes, false);
        note_async_write(b, issued, offset_of(dst), bytes, true);
        memcpy(to, from, bytes);
        mbarrier_complete(b, offset_of(barrier), bytes, 0, issued);
    });
}

void bulk_store(void *dst, uint32_t src, uint32_t bytes, int type, ReduceMode mode)
{
    const char *const what = "cp.async.bulk (store)";
    check_bulk((uint64_t)dst, src, bytes, what);
    if (bytes)
        check_global(dst, bytes, what);
    const unsigned char *const from = shared_at(own(src), bytes, what);
    start_store(offset_of(src), bytes, [=](BulkStore &s) { s.bytes.assign(from, from + bytes); }, [=](BulkStore &s) {
        if (type >= 0)
            reduce_in_memory(type, signed_mode(type, mode), dst, s.bytes.data(), bytes);
        else
            memcpy(dst, s.bytes.data(), bytes);
    });
}

void store_async(uint32_t dst, const uint32_t *words, uint32_t n, uint32_t barrier)
{
    Block *const b = destinations(dst, barrier, ADDRESSED, "st.async")[0];
    unsigned char *const to = shared_in(b, offset_of(dst), 4 * n, "st.async");
    if (dst % (4 * n) != 0)
        fault(ILLEGAL_ADDRESS, "st.async: %#x is not aligned to %u bytes", dst, 4 * n);
    mbarrier_for_copy(b, offset_of(barrier), "st.async");
    const std::vector<uint32_t> value(words, words + n);
    const Issued issued = issue_async(b, offset_of(barrier));
    start_async(b, [=] {
        note_async_write(b, issued, offset_of(dst), 4 * n, false);
        memcpy(to, value.data(), 4 * n);
        mbarrier_complete(b, offset_of(barrier), 4 * n, 0, issued);
    });
}

void reduce_memory(void *p, int type, ReduceMode mode, const void *x, uint32_t bytes)
{
    reduce_in_memory(type, mode, p, x, bytes);
    note_progress();
}

}
