// SPDX-License-Identifier: MIT
// threads.cuh - what threads of a warp or an instance do together.
template <class T> DEVICE T shuffle_xor(T x, int32_t lanes) { return __shfl_xor_sync(0xffffffffu, x, lanes); }
template <class T> DEVICE T shuffle_from(T x, int32_t lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE bool shuffle_xor(bool x, int32_t lanes) { return __shfl_xor_sync(0xffffffffu, (int)x, lanes) != 0; }
DEVICE bool any_lane(bool x) { return __any_sync(0xffffffffu, x) != 0; }
// Inclusive sums over the lanes.
template <class T> DEVICE T warp_scan(T x, int32_t lane)
{
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x = wrapping_sum(x, before);
    }
    return x;
}
DEVICE void bar_sync(int32_t id, int32_t threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void bar_arrive(int32_t id, int32_t threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void fence_device(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Identities of min and max. NaN is the identity for floating point: min and max return the other side.
template <class T> DEVICE T largest(void);
template <class T> DEVICE T smallest(void);
template <> __device__ __forceinline__ float largest<float>(void) { return __int_as_float(0x7fc00000); }
template <> __device__ __forceinline__ float smallest<float>(void) { return __int_as_float(0x7fc00000); }
template <> __device__ __forceinline__ double largest<double>(void) { return __longlong_as_double(0x7ff8000000000000ll); }
template <> __device__ __forceinline__ double smallest<double>(void) { return __longlong_as_double(0x7ff8000000000000ll); }
template <> __device__ __forceinline__ int32_t largest<int32_t>(void) { return 0x7fffffff; }
template <> __device__ __forceinline__ int32_t smallest<int32_t>(void) { return (int32_t)0x80000000; }
template <> __device__ __forceinline__ uint32_t largest<uint32_t>(void) { return 0xffffffffu; }
template <> __device__ __forceinline__ uint32_t smallest<uint32_t>(void) { return 0; }
template <> __device__ __forceinline__ int64_t largest<int64_t>(void) { return 0x7fffffffffffffffll; }
template <> __device__ __forceinline__ int64_t smallest<int64_t>(void) { return (int64_t)0x8000000000000000ull; }
template <> __device__ __forceinline__ uint64_t largest<uint64_t>(void) { return 0xffffffffffffffffull; }
template <> __device__ __forceinline__ uint64_t smallest<uint64_t>(void) { return 0; }
