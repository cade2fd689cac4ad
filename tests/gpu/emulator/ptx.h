// SPDX-License-Identifier: MIT
// ptx.h - what compiled kernels call: one function for each PTX instruction (or family) that instructions.cpp knows.
//
// Registers come as the type of their constraint; shared addresses as 32-bit numbers, bits 24 up the block's rank.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptx
{

#pragma GCC visibility push(default)

enum MatrixType { TYPE_F16, TYPE_BF16, TYPE_TF32, TYPE_E4M3, TYPE_E5M2, TYPE_S8, TYPE_U8, TYPE_F32, TYPE_S32 };
inline int type_bytes(MatrixType type) { return type == TYPE_TF32 || type >= TYPE_F32 ? 4 : type <= TYPE_BF16 ? 2 : 1; }
enum ShuffleMode { SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR };
enum ReduceMode {
    REDUCE_ADD,
    REDUCE_MIN_S,
    REDUCE_MAX_S,
    REDUCE_MIN_U,
    REDUCE_MAX_U,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR
};
enum Special {
    THREAD_X,
    THREAD_Y,
    THREAD_Z,
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    THREADS_X,
    THREADS_Y,
    THREADS_Z,
    BLOCKS_X,
    BLOCKS_Y,
    BLOCKS_Z,
    CLUSTER_RANK,
    CLUSTER_SIZE,
    CLUSTER,
    CLUSTERS,
    LANE,
    WARP_NUMBER,
    SM
};

// ---- where a thread is
uint32_t special(Special which);
uint64_t clock_now();                // nanoseconds of the host, for both clocks of the device
unsigned char *shared_memory_here(); // the dynamic shared memory of the running block
uint32_t shared_from_generic(const void *p);
uint32_t own(uint32_t address);                        // the address, which must be of this block's shared memory
uint32_t map_to_rank(uint32_t address, uint32_t rank); // the same place in another block of the cluster
void *generic_from_shared(uint32_t address, uint32_t bytes, bool writes, const char *what);

// ---- barriers
void mbarrier_init(uint32_t address, uint32_t count);
void mbarrier_inval(uint32_t address);
uint64_t mbarrier_arrive(uint32_t address, uint32_t count = 1, bool for_cluster = false);
uint64_t mbarrier_arrive_expect_tx(uint32_t address, uint32_t bytes, bool for_cluster = false);
void mbarrier_expect_tx(uint32_t address, uint32_t bytes);
void mbarrier_complete_tx(uint32_t address, uint32_t bytes);
bool mbarrier_try_parity(uint32_t address, uint32_t parity);
bool mbarrier_try_state(uint32_t address, uint64_t state);
void bar_sync(uint32_t id, uint32_t threads);
void bar_sync(uint32_t id);
void bar_arrive(uint32_t id, uint32_t threads);
void cluster_arrive(bool releases, bool aligned);
void cluster_wait(bool aligned);
void mbarrier_init_fence();

// ---- lanes
void warp_sync(uint32_t mask);
uint64_t shuffle(uint64_t x, unsigned mask, ShuffleMode mode, unsigned by, unsigned width);
uint32_t ballot(uint32_t mask, bool predicate);
uint32_t match_any(uint32_t mask, uint64_t x);
bool elect(uint32_t mask);
uint32_t reduce(uint32_t mask, ReduceMode mode, uint32_t x);
void load_matrices(uint32_t *words, int n, bool across, uint32_t address);
void store_matrices(const uint32_t *words, int n, bool across, uint32_t address);
struct SparsePlaces {
    uint32_t word, selector;
}; // of the elements that a 2:4 sparse A keeps (sparse.cpp)
void multiply_matrices(int k, MatrixType type_a, MatrixType type_b, uint32_t *d, const uint32_t *a, const uint32_t *b,
                       const uint32_t *c, const SparsePlaces *sparse = nullptr);

// ---- products of warp groups
struct MatrixShape {
    int n, k;
    bool integer;
    MatrixType a, b;
};
struct MatrixOperand {
    bool from_registers;
    uint64_t descriptor;
    uint32_t words[4];
};
void wgmma(const MatrixShape &shape, uint32_t *const *registers, int n_registers, const MatrixOperand &a, uint64_t b,
           bool add, int scale_a, int scale_b, int across_a, int across_b, const SparsePlaces *sparse = nullptr);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(uint32_t n);
void set_max_registers(uint32_t n, bool more);
void wait_for_launches();

// ---- copies; loads go to the blocks of a mask, or to that of the address
enum { ADDRESSED = 1 << 16 };
void cp_async(uint32_t dst, const void *src, uint32_t bytes, uint32_t from);
void cp_async_commit();
void cp_async_wait(uint32_t n);
void cp_async_wait_all();
void cp_async_arrive(uint32_t barrier, bool counted);
void bulk_commit();
void bulk_wait(uint32_t n, bool only_read);
// offsets: of an im2col load, else null
void tensor_load(int rank, uint32_t dst, const void *map, const int32_t *at, const int32_t *offsets, uint32_t barrier,
                 uint32_t blocks);
void tensor_store(int rank, const void *map, const int32_t *at, uint32_t src, ReduceMode mode, bool reduces);
void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t barrier, uint32_t blocks);
void bulk_send(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t barrier);
void bulk_store(void *dst, uint32_t src, uint32_t bytes, int type, ReduceMode mode); // type: -1 copies
void store_async(uint32_t dst, const uint32_t *words, uint32_t n, uint32_t barrier);
void check_tensor_map(const void *map);
void proxy_fence();

// ---- memory
void reduce_memory(void *p, int type, ReduceMode mode, const void *x, uint32_t bytes);
void looked_at_memory(); // a load that others' stores are awaited by, maybe
void changed_memory();
[[noreturn]] void trap(const char *what);

// ---- conversions and arithmetic, bit for bit where the ISA says so
float from_f16(uint16_t h);
uint16_t to_f16(float x);
uint16_t to_bf16(float x);
uint8_t to_e4m3(float x);
uint8_t to_e5m2(float x);
float from_e4m3(uint8_t b);
float from_e5m2(uint8_t b);

#pragma GCC visibility pop

} // namespace ptx
