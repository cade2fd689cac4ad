// SPDX-License-Identifier: MIT
// emulator.h - what the parts of the emulated CUDA device share. See README.md for what it is and how it is used.
//
// Each CUDA thread is a fiber with a stack of its own. A worker (a thread of the host) runs whole clusters: it resumes
// one fiber after another, in an order that the seed decides, and in between lets asynchronous operations take effect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emu
{

enum {
    PAGE = 4096,
    STACK_BYTES = 256 * 1024
};                                     // of a thread: at a multiple of its size, with an inaccessible page at its foot
enum { WARPS_MAX = 64, CLOCKS = 128 }; // of a cluster that is watched for races: warps, and copies as well
enum { WARP = 32, RESERVED_SHARED = 1024, SHARED_BYTES_MAX = 227 * 1024, NAMED_BARRIERS = 16 };

// Errors, as the driver numbers them.
enum Error {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILED = 719,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901
};

struct Dim3 {
    unsigned x, y, z;
};

struct Random {
    uint64_t state;
    uint64_t next();
    unsigned below(unsigned n) { return (unsigned)(((next() >> 32) * n) >> 32); }
};

// ---- what is run

typedef void (*Entry)(void **params);

// One kernel of a loaded module; the compiled text describes itself by a table of these.
struct KernelInfo {
    const char *name;
    Entry call;
    const size_t *param_bytes;
    int n_params;
    int max_threads; // of __launch_bounds__; 0: 1024
};

struct Launch {
    const KernelInfo *kernel;
    std::string name; // for reports
    Dim3 grid, block;
    unsigned cluster, shared_bytes;
    bool early; // it may be started before the launches before it have ended, and so must wait for them
    std::vector<std::shared_ptr<char>> params; // copies, aligned to 64 bytes
    unsigned index;                            // of the launches of this process
};

// Runs a launch to its end; the error it ended with.
int run_launch(const Launch &launch);

// ---- the running state

struct Fiber;
struct Warp;
struct Block;
struct Cluster;
struct Worker;

// What a blocked thread waits for, for the report of a deadlock.
struct Wait {
    const char *what = "";
    uint32_t address = 0;
    uint32_t value = 0;
};

// Up to which moment of each warp and each copy something is ordered after it; up to which that is fenced; and up to
// which that is ordered for the whole cluster: races.cpp.
struct Clock {
    uint32_t at[CLOCKS];
};
struct Order {
    Clock seen{}, fenced{}, across{};
};
struct Issued {
    Order order;
    int agent;
    uint32_t moment;
};

// cp.async: one copy, and one thread's copies since a commit.
struct SmallCopy {
    uint32_t dst;
    const void *src;
    uint32_t bytes, from;
    bool landed;
    std::shared_ptr<Issued> told;
};
typedef std::vector<std::shared_ptr<SmallCopy>> CopyGroup;

// A store of the copy engine: it reads shared memory late, and writes memory later still.
struct BulkStore {
    Block *block;
    int group; // of its thread
    bool was_read = false, written = false;
    std::vector<unsigned char> bytes; // what was read
    uint32_t from = 0, length = 0;    // in shared memory
    std::function<void(BulkStore &)> read, write;
};

enum FiberState { RUNNABLE, BLOCKED, POLLING, FINISHED };

struct Fiber {
    void *stack_base = nullptr, *stack_pointer = nullptr;
    Warp *warp = nullptr;
    Block *block = nullptr;
    int lane = 0;
    unsigned number = 0; // in its block
    Dim3 thread{};
    FiberState state = RUNNABLE;
    Wait wait;
    int spins = 0; // looks at memory since it last did anything else

    CopyGroup copies;                               // cp.async not yet committed, then ...
    std::vector<CopyGroup> copy_groups;             // ... the groups, oldest first
    Clock copied{};                                 // of the mbarriers that are told of them
    std::vector<std::shared_ptr<BulkStore>> stores; // of bulk groups, oldest first
    int store_group = 0;                            // the one being filled
    unsigned cluster_phase = 0;                     // phases of the cluster barrier that it has waited for
    bool at_cluster = false;                        // it has arrived there, and not waited yet
    bool waited = false;                            // for the launches before
    bool fenced = false;                            // by wgmma.fence, since registers could be touched
};

// Lanes that synchronise: shuffles, votes, matrix loads. One of these for each set of lanes.
struct LaneSync {
    const char *what = nullptr;
    void (*lane_sync)(LaneSync &) = nullptr;
    uint32_t mask = 0, arrived = 0;
    uint64_t given[WARP][10];
    uint64_t *taken[WARP];
};

struct MatrixQueue; // wgmma.cpp: the products in flight of one warp

struct Warp {
    Block *block = nullptr;
    int number = 0, agent = 0;        // in its block, in its cluster
    uint32_t runnable = 0, alive = 0; // lanes
    unsigned priority = 0;
    std::vector<Fiber *> fibers;
    std::vector<std::unique_ptr<LaneSync>> lane_syncs;
    std::shared_ptr<MatrixQueue> matrix;
    Order order;
    int registers = 0; // by setmaxnreg
};

struct NamedBarrier {
    unsigned expected = 0, arrived = 0;
    std::vector<Fiber *> waiting;
    Order order;
};

struct MBarrier {
    uint32_t expected = 0, pending = 0;
    int64_t bytes = 0; // announced and not yet arrived
    uint32_t phase = 0;
    std::vector<Fiber *> waiting;
    Order order, before; // of this phase's arrivals, and of all phases that have ended
    int maker = 0;       // the warp that initialised it, when, and ...
    uint32_t made = 0;
    bool is_told = false; // ... whether a fence followed, so that copies know of it
};

struct Block {
    Cluster *cluster = nullptr;
    Worker *worker = nullptr;
    unsigned rank = 0; // in its cluster
    Dim3 index{};
    unsigned threads = 0, alive = 0;
    unsigned char *shared = nullptr; // host address of shared address RESERVED_SHARED
    uint32_t shared_bytes = 0;
    std::vector<std::unique_ptr<Warp>> warps;
    NamedBarrier named[NAMED_BARRIERS];
    std::map<uint32_t, MBarrier> mbarriers;
    int pending = 0;                // asynchronous operations that will touch its shared memory
    int untold = 0;                 // mbarriers without a fence
    unsigned char *cells = nullptr; // of its shared memory, if it is watched for races
    Clock reached{};                // the last time that copies and other blocks' warps touched its shared memory
    bool has_ended = false;
};

struct Cluster {
    Worker *worker = nullptr;
    unsigned number = 0;
    std::vector<std::unique_ptr<Block>> blocks;
    unsigned alive = 0, arrived = 0; // threads; at the cluster's barrier
    unsigned phase = 0;
    std::vector<Fiber *> waiting;
    Order order, before; // as those of an mbarrier
    int warps = 0;
    uint32_t copies_issued = 0;
};

// An operation under way: it takes effect when the worker chooses.
struct Async {
    Block *block;
    std::function<void()> take_effect;
};

// A store over another warp's, not ordered after it: races.cpp.
struct Doubt {
    Block *block;
    uint32_t offset;
    int writer;
    unsigned char before[4];
};

struct Worker {
    const Launch *launch = nullptr;
    Random random{};
    unsigned haste = 0;       // of 256: how often an asynchronous operation takes effect between two threads
    bool by_priority = false; // one warp as far as it goes, instead of any
    void *stack_pointer = nullptr;
    Fiber *running = nullptr;
    std::vector<std::unique_ptr<Cluster>> clusters;
    std::vector<Async> pending;
    std::vector<std::shared_ptr<BulkStore>> stores; // of all its threads, unwritten
    std::vector<void *> free_stacks, free_shared;
    std::vector<unsigned char *> free_cells;
    Doubt doubt{};
    bool together = false; // what is read and written now is so by all lanes of the running thread's warp
};

// The thread that runs on this worker.
extern __thread Worker *worker; // not thread_local, whose every use asks whether it is initialised
inline Fiber *self() { return worker->running; }

// ---- fibers.cpp

void block_self(const char *what, uint32_t address, uint32_t value); // until wake()
void wake(Fiber *fiber);
void wake_all(std::vector<Fiber *> &fibers);
void yield_self();                                                  // stays runnable
void poll_self(const char *what, uint32_t address, uint32_t value); // runs again when nothing else can
void spin_self(const char *what);                                   // looked at memory: polls when it does nothing else
void note_progress();
void start_async(Block *block, std::function<void()> take_effect);

// Reports a fault of the running thread and ends the launch; does not return.
[[noreturn]] void fault(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- memory.cpp: the device's memory, and addresses of shared memory

uint64_t allocate(size_t bytes); // 0: none left
bool release(uint64_t address);
bool is_allocated(uint64_t address, size_t bytes);
std::string check_guards(); // "" or what was overwritten
unsigned char *new_shared(Worker *w, uint32_t bytes);
void free_shared(Worker *w, unsigned char *shared, uint32_t bytes);
void poison(void *memory, size_t bytes);

// The host's address of `bytes` at a shared address of the running thread's cluster; faults outside.
unsigned char *shared_at(uint32_t address, uint32_t bytes, const char *what);
unsigned char *shared_in(Block *block, uint32_t offset, uint32_t bytes, const char *what);
Block *block_at(uint32_t address);
inline uint32_t offset_of(uint32_t address) { return address & 0xffffff; }
void check_global(const void *address, size_t bytes, const char *what);

// ---- barriers.cpp

MBarrier &mbarrier_in(Block *block, uint32_t offset, const char *what);
MBarrier &mbarrier_for_copy(Block *block, uint32_t offset, const char *what); // which the running thread begins
void mbarrier_complete(Block *block, uint32_t offset, int64_t bytes, uint32_t arrivals, const Issued &issued);
void tell_of_mbarriers(Warp *warp); // that it initialised
void thread_left_barriers(Fiber *fiber);

// ---- races.cpp

void watch_block(Worker *w, Block *block);
void leave_block(Worker *w, Block *block);
void check_end(Block *block);           // its last thread has ended
void release_to(Warp *warp, Order &to); // to warps of its block
void release_to_cluster(Warp *warp, Order &to);
void release_to_remote(Warp *warp, Block *block, Order &to); // another's, by an operation that orders one block
void acquire_from(Warp *warp, const Order &from);
bool is_ordered(const Warp *warp, int agent, uint32_t moment);
Issued issue_async(Block *block, uint32_t barrier);
void complete_async(const Issued &issued, Order &to);
void note_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes);
void note_write(Block *block, Warp *warp, uint32_t offset, uint32_t bytes);
void note_async_write(Block *block, const Issued &issued, uint32_t offset, uint32_t bytes, bool by_proxy);
void begin_async_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes);
void end_async_read(Block *block, Warp *warp, uint32_t offset, uint32_t bytes, bool by_lane);
void fence_proxy(Warp *warp);
void settle_doubt();
void lanes_met(Warp *warp); // what its lanes did before is ordered before what they do now

// ---- warp.cpp

// Waits for all lanes of `mask`; the last one to come runs `lane_sync`, which reads given[] and writes taken[].
void lane_sync(const char *what, uint32_t mask, const uint64_t *given, int n, uint64_t *taken,
               void (*lane_sync)(LaneSync &));
void thread_left_meetings(Fiber *fiber);

// ---- copies.cpp

void copies_at_exit(Fiber *fiber);
void advance_a_store(Worker *w); // one step of any
void finish_stores(Worker *w, const Block *block);

// ---- wgmma.cpp

void products_at_exit(Fiber *fiber);

// ---- sparse.cpp: the column of every kept element of a warp's 16 rows, from its lanes' words. bytes: of an element
void dense_columns(const uint32_t *words, int bytes, int k, uint32_t selector, int columns[16][32]);

// ---- tensor_map.cpp

struct TensorMap { // 128 bytes, as the driver's
    uint64_t magic, base;
    uint64_t dims[5];          // of 1 to 2^32
    uint64_t strides[4];       // in bytes, of dimensions 1 ...
    uint16_t box[5];           // im2col: columns and rows
    int16_t first[3], last[3]; // im2col: corners of dimensions 1 ..., the last relative to the tensor's last
    uint8_t steps[5];
    uint8_t type, rank, swizzle, nan_fill, element_bytes, im2col;
    uint32_t check;
};
static_assert(sizeof(TensorMap) <= 128, "it travels in a CUtensorMap");
const TensorMap *tensor_map_at(const void *map, int rank, const char *what);

uint32_t box_bytes(const TensorMap *map);
// Between the box at `at` and its bytes as they lie in shared memory, not yet swizzled. What lies outside the tensor is
// filled when reading, and left alone when writing: there `put` (to, from, bytes) does it, copying or reducing.
void read_box(const TensorMap *map, const int32_t *at, unsigned char *box);
// Rows in the order in which an im2col map counts them, from those at `at` on, all moved by the offsets.
void read_im2col(const TensorMap *map, const int32_t *at, const int32_t *offsets, unsigned char *rows);
void write_box(const TensorMap *map, const int32_t *at, const unsigned char *box,
               const std::function<void(void *, const void *, size_t)> &put);
// 16-byte pieces are XORed with bits of the address from 128 up; swizzle: 0 none, 1 to 3: 32, 64, 128 bytes.
inline uint32_t swizzled(uint32_t address, int swizzle)
{
    return address ^ ((address >> 7 & ((1u << swizzle) - 1)) << 4);
}

// ---- settings.cpp: environment variables

unsigned setting(const char *name, unsigned otherwise);

} // namespace emu
