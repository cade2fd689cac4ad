// SPDX-License-Identifier: MIT
// threads.cuh - what threads of a warp or a CTA do together.
template <class T> DEVICE T shuffle_xor(T x, int32_t lanes) { return __shfl_xor_sync(0xffffffffu, x, lanes); }
template <class T> DEVICE T shuffle_from(T x, int32_t lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE bool shuffle_xor(bool x, int32_t lanes) { return __shfl_xor_sync(0xffffffffu, (int)x, lanes) != 0; }
DEVICE bool any_lane(bool x) { return __any_sync(0xffffffffu, x) != 0; }
// Of 32-bit integers in all lanes.
template <class T> DEVICE T lanes_add(T x) { return __reduce_add_sync(0xffffffffu, x); }
template <class T> DEVICE T lanes_min(T x) { return __reduce_min_sync(0xffffffffu, x); }
template <class T> DEVICE T lanes_max(T x) { return __reduce_max_sync(0xffffffffu, x); }
template <class T> DEVICE T lanes_and(T x) { return (T)__reduce_and_sync(0xffffffffu, (uint32_t)x); }
template <class T> DEVICE T lanes_or(T x) { return (T)__reduce_or_sync(0xffffffffu, (uint32_t)x); }
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
// Of sums in EXTENT lanes that are STEP apart: what those before this lane have; `sum` becomes what all have.
template <int STEP, int EXTENT, class T> DEVICE T scan_lanes(T &sum, int32_t lane)
{
    const int32_t at = lane / STEP % EXTENT;
#pragma unroll
    for (int d = 1; d < EXTENT; d *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, sum, d * STEP);
        if (at >= d) sum = wrapping_sum(sum, before);
    }
    const T before = __shfl_up_sync(0xffffffffu, sum, STEP);
    sum = __shfl_sync(0xffffffffu, sum, lane + (EXTENT - 1 - at) * STEP);
    return at > 0 ? before : T(0);
}
// The same of sums of COUNT warps, which stand in shared memory; 32-bit integers are added up by two instructions.
template <int COUNT, class T> DEVICE T scan_warps(T &sum, const T *sums, int32_t warp, int32_t lane)
{
    T all = lane < COUNT ? sums[lane] : T(0);
    const T before = scan_lanes<1, 32>(all, lane);
    sum = all;
    return __shfl_sync(0xffffffffu, before, warp);
}
template <int COUNT, class T> DEVICE T scan_integers(T &sum, const T *sums, int32_t warp, int32_t lane)
{
    const T one = lane < COUNT ? sums[lane] : T(0);
    sum = lanes_add(one);
    return lanes_add(lane < warp ? one : T(0));
}
template <int COUNT> DEVICE int32_t scan_warps(int32_t &sum, const int32_t *sums, int32_t warp, int32_t lane)
{
    return scan_integers<COUNT>(sum, sums, warp, lane);
}
template <int COUNT> DEVICE uint32_t scan_warps(uint32_t &sum, const uint32_t *sums, int32_t warp, int32_t lane)
{
    return scan_integers<COUNT>(sum, sums, warp, lane);
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
