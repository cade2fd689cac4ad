// SPDX-License-Identifier: MIT
// device.h - what CUDA gives a kernel without any include, for kernels compiled for the host.
//
// The kernel's text defines int64_t and the like itself (as long long); so those of the host are renamed at the end.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ptx.h"

#define __device__
#define __host__
#define __global__ __attribute__((visibility("hidden")))
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))

// ---- the table of a module's kernels

namespace emu_device
{
struct KernelInfo {
    const char *name;
    void (*call)(void **params);
    const size_t *bytes;
    int count, max_threads;
};
template <auto F> struct Kernel;
template <class... A, void (*F)(A...)> struct Kernel<F> {
    static constexpr size_t bytes[] = { sizeof(A)..., 0 };
    static constexpr int count = sizeof...(A);
    template <size_t... I> static void call_with(void **params, std::index_sequence<I...>)
    {
        F(*(std::remove_const_t<A> *)params[I]...);
    }
    static void call(void **params) { call_with(params, std::index_sequence_for<A...>()); }
};
} // namespace emu_device

// ---- vectors, indices

struct uint2 {
    unsigned x, y;
} __align__(8);
struct uint3 {
    unsigned x, y, z;
};
struct uint4 {
    unsigned x, y, z, w;
} __align__(16);
struct int2 {
    int x, y;
} __align__(8);
struct int4 {
    int x, y, z, w;
} __align__(16);
struct float2 {
    float x, y;
} __align__(8);
struct float4 {
    float x, y, z, w;
} __align__(16);
struct double2 {
    double x, y;
} __align__(16);
struct ulonglong2 {
    unsigned long long x, y;
} __align__(16);
struct longlong2 {
    long long x, y;
} __align__(16);
static inline uint2 make_uint2(unsigned x, unsigned y) { return { x, y }; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return { x, y, z, w }; }
static inline float2 make_float2(float x, float y) { return { x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return { x, y, z, w }; }

namespace emu_device
{
template <ptx::Special X> struct Three {
    struct One {
        ptx::Special which;
        operator unsigned() const { return ptx::special(which); }
    };
    One x{ X }, y{ (ptx::Special)(X + 1) }, z{ (ptx::Special)(X + 2) };
};
} // namespace emu_device
static constexpr emu_device::Three<ptx::THREAD_X> threadIdx{};
static constexpr emu_device::Three<ptx::BLOCK_X> blockIdx{};
static constexpr emu_device::Three<ptx::THREADS_X> blockDim{};
static constexpr emu_device::Three<ptx::BLOCKS_X> gridDim{};
enum { warpSize = 32 };

// ---- bits and arithmetic

namespace ptx
{
typedef uint8_t u8, b8;
typedef uint16_t u16, b16;
typedef uint32_t u32, b32;
typedef uint64_t u64, b64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;
template <class To, class From> inline To bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To to;
    memcpy(&to, &x, sizeof to);
    return to;
}
inline float float_of(uint32_t u) { return bits<float>(u); }
} // namespace ptx

static inline unsigned __float_as_uint(float x) { return ptx::bits<unsigned>(x); }
static inline int __float_as_int(float x) { return ptx::bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return ptx::bits<float>(x); }
static inline float __int_as_float(int x) { return ptx::bits<float>(x); }
static inline double __longlong_as_double(long long x) { return ptx::bits<double>(x); }
static inline long long __double_as_longlong(double x) { return ptx::bits<long long>(x); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
#define __expf expf // the host has others of these names
#define __logf logf
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
template <class A, class B> static inline auto min(A a, B b)
{
    typedef std::common_type_t<A, B> T;
    return (T)a < (T)b ? (T)a : (T)b;
}
template <class A, class B> static inline auto max(A a, B b)
{
    typedef std::common_type_t<A, B> T;
    return (T)a > (T)b ? (T)a : (T)b;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}
namespace ptx
{
inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t s = selector >> 4 * i & 15;
        uint32_t byte = (uint32_t)(both >> 8 * (s & 7)) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}
inline uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
inline uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) { return __dp4a(a, b, c); }
} // namespace ptx
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return ptx::permute(a, b, s); }

// ---- barriers, lanes, memory

static inline void __syncthreads(void) { ptx::bar_sync(0); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { ptx::warp_sync(mask); }
static inline void __threadfence(void) {}
static inline void __threadfence_block(void) {}
static inline void __threadfence_system(void) {}
static inline void __nanosleep(unsigned) { ptx::looked_at_memory(); }
static inline void __trap(void) { ptx::trap("__trap"); }
static inline size_t __cvta_generic_to_shared(const void *p) { return ptx::shared_from_generic(p); }
template <class T> static inline T __ldg(const T *p) { return *p; }

template <class T> static inline float float_toward_zero(T x)
{
    const float f = (float)x; // at most one step too far from zero
    const bool far = std::is_floating_point<T>::value ? fabs((double)f) > fabs((double)x)
                     : f > 0                          ? (long double)f > (long double)x
                                                      : (long double)f < (long double)x;
    return far ? nextafterf(f, 0) : f;
}
static inline float __double2float_rz(double x) { return float_toward_zero(x); }
static inline float __int2float_rz(int x) { return float_toward_zero(x); }
static inline float __uint2float_rz(unsigned x) { return float_toward_zero(x); }
static inline float __ll2float_rz(long long x) { return float_toward_zero(x); }
static inline float __ull2float_rz(unsigned long long x) { return float_toward_zero(x); }

// The other number wins against any NaN; the C library makes NaN of signalling ones.
#define NUMBER_WINS(name, T)                                                                                           \
    static inline T number_##name(T a, T b) { return a != a ? b : b != b ? a : name(a, b); }
NUMBER_WINS(fminf, float)
NUMBER_WINS(fmaxf, float)
NUMBER_WINS(fmin, double)
NUMBER_WINS(fmax, double)
#define fminf number_fminf
#define fmaxf number_fmaxf
#define fmin number_fmin
#define fmax number_fmax

template <class T> static inline T shuffle_any(unsigned mask, T x, ptx::ShuffleMode mode, unsigned by, int width)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || std::is_integral<T>::value,
                  "shuffles move 4 or 8 bytes; narrower integers become int");
    uint64_t word = 0;
    memcpy(&word, &x, sizeof x);
    word = ptx::shuffle(word, mask, mode, by, (unsigned)width);
    memcpy(&x, &word, sizeof x);
    return x;
}
template <class T> static inline T __shfl_sync(unsigned mask, T x, int lane, int width = 32)
{
    return shuffle_any(mask, x, ptx::SHUFFLE_INDEX, (unsigned)lane, width);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    return shuffle_any(mask, x, ptx::SHUFFLE_UP, by, width);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    return shuffle_any(mask, x, ptx::SHUFFLE_DOWN, by, width);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int by, int width = 32)
{
    return shuffle_any(mask, x, ptx::SHUFFLE_XOR, (unsigned)by, width);
}
static inline unsigned __ballot_sync(unsigned mask, int p) { return ptx::ballot(mask, p != 0); }
static inline int __any_sync(unsigned mask, int p) { return ptx::ballot(mask, p != 0) != 0; }
static inline int __all_sync(unsigned mask, int p) { return ptx::ballot(mask, p == 0) == 0; }
static inline unsigned __activemask(void) { return 0xffffffffu; }
template <class T> static inline unsigned __match_any_sync(unsigned mask, T x)
{
    uint64_t word = 0;
    memcpy(&word, &x, sizeof x);
    return ptx::match_any(mask, word);
}
static inline unsigned __reduce_add_sync(unsigned mask, unsigned x) { return ptx::reduce(mask, ptx::REDUCE_ADD, x); }
static inline int __reduce_add_sync(unsigned mask, int x)
{
    return (int)ptx::reduce(mask, ptx::REDUCE_ADD, (unsigned)x);
}
static inline int __reduce_min_sync(unsigned mask, int x)
{
    return (int)ptx::reduce(mask, ptx::REDUCE_MIN_S, (unsigned)x);
}
static inline int __reduce_max_sync(unsigned mask, int x)
{
    return (int)ptx::reduce(mask, ptx::REDUCE_MAX_S, (unsigned)x);
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned x) { return ptx::reduce(mask, ptx::REDUCE_MIN_U, x); }
static inline unsigned __reduce_max_sync(unsigned mask, unsigned x) { return ptx::reduce(mask, ptx::REDUCE_MAX_U, x); }
static inline unsigned __reduce_or_sync(unsigned mask, unsigned x) { return ptx::reduce(mask, ptx::REDUCE_OR, x); }
static inline unsigned __reduce_and_sync(unsigned mask, unsigned x) { return ptx::reduce(mask, ptx::REDUCE_AND, x); }

// A change is progress; what changes nothing may be a loop that waits.
namespace ptx
{
template <class T> inline T exchange_with(T *p, T now, T old)
{
    if (memcmp(&now, &old, sizeof old) != 0) changed_memory();
    else looked_at_memory();
    return old;
}
template <class T, class F> __attribute__((no_sanitize("thread"))) inline T atomic_update(T *p, F update)
{
    T old, now;
    __atomic_load(p, &old, __ATOMIC_SEQ_CST);
    do now = update(old);
    while (!__atomic_compare_exchange(p, &old, &now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return exchange_with(p, now, old);
}
template <class T> inline T atomic_add(T *p, T x)
{
    return atomic_update(p, [x](T old) { return (T)(old + x); });
}
template <class T> inline T atomic_exchange(T *p, T x)
{
    return atomic_update(p, [x](T) { return x; });
}
template <class T> inline T atomic_cas(T *p, T expected, T x)
{
    return atomic_update(p, [=](T old) { return old == expected ? x : old; });
}
} // namespace ptx
// For the types that CUDA has them for: what else is called does not compile there either.
template <class T> constexpr bool is_word = std::is_integral<T>::value && sizeof(T) >= 4;
template <class T, class U> static inline T atomicAdd(T *p, U x)
{
    static_assert(std::is_unsigned<T>::value || std::is_same<T, int>::value || std::is_floating_point<T>::value);
    return ptx::atomic_add(p, (T)x);
}
template <class T, class U> static inline T atomicSub(T *p, U x) { return ptx::atomic_add(p, (T)(0 - (T)x)); }
template <class T, class U> static inline T atomicExch(T *p, U x)
{
    static_assert(is_word<T> || std::is_same<T, float>::value);
    return ptx::atomic_exchange(p, (T)x);
}
template <class T, class U, class V> static inline T atomicCAS(T *p, U expected, V x)
{
    static_assert(std::is_unsigned<T>::value || std::is_same<T, int>::value);
    return ptx::atomic_cas(p, (T)expected, (T)x);
}
template <class T, class U> static inline T atomicMin(T *p, U x)
{
    static_assert(is_word<T>);
    return ptx::atomic_update(p, [=](T old) { return old < (T)x ? old : (T)x; });
}
template <class T, class U> static inline T atomicMax(T *p, U x)
{
    static_assert(is_word<T>);
    return ptx::atomic_update(p, [=](T old) { return old > (T)x ? old : (T)x; });
}
template <class T, class U> static inline T atomicAnd(T *p, U x)
{
    return ptx::atomic_update(p, [=](T old) { return (T)(old & (T)x); });
}
template <class T, class U> static inline T atomicOr(T *p, U x)
{
    return ptx::atomic_update(p, [=](T old) { return (T)(old | (T)x); });
}
template <class T, class U> static inline T atomicXor(T *p, U x)
{
    return ptx::atomic_update(p, [=](T old) { return (T)(old ^ (T)x); });
}

// ---- what the rules of instructions.cpp are written in

namespace ptx
{

// Operands of asm statements, by constraint.
template <class T> inline uint32_t in_r(T x)
{
    static_assert(sizeof(T) <= 4, "an 'r' operand has 32 bits");
    if constexpr (std::is_floating_point_v<T>) return bits<uint32_t>(x);
    else return (uint32_t)x;
}
template <class T> inline uint64_t in_l(T x)
{
    if constexpr (std::is_pointer_v<T>) return (uint64_t)x;
    else {
        static_assert(sizeof(T) == 8, "an 'l' operand has 64 bits");
        return (uint64_t)x;
    }
}
template <class T> inline uint16_t in_h(T x)
{
    static_assert(sizeof(T) == 2, "an 'h' operand has 16 bits");
    return bits<uint16_t>(x);
}
inline float in_f(float x) { return x; }
inline double in_d(double x) { return x; }
template <class T> constexpr T in_n(T x) { return x; }
template <class To, class T> inline To &out_as(T &x)
{
    static_assert(sizeof(T) == sizeof(To), "an output has the size of its constraint");
    return *(To *)&x;
}
template <class T> inline uint32_t &out_r(T &x) { return out_as<uint32_t>(x); }
template <class T> inline uint64_t &out_l(T &x) { return out_as<uint64_t>(x); }
template <class T> inline uint16_t &out_h(T &x) { return out_as<uint16_t>(x); }
inline float &out_f(float &x) { return x; }
inline double &out_d(double &x) { return x; }

struct Sink {
    template <class T> Sink &operator=(const T &) { return *this; }
};
static Sink sink;
template <class A, class B> struct Pair {
    A &first;
    B &second;
};
template <class A, class B> inline Pair<A, B> pair(A &a, B &b) { return { a, b }; }
template <class A, class B, class T> inline void pair_second(Pair<A, B> p, T x) { p.second = x; }
inline void nothing() {}
inline void no_result(Sink &, uint64_t) {} // what another block's mbarrier was before is not known

template <class To, class From> inline To to(From x)
{
    if constexpr (sizeof(To) == sizeof(From)) return bits<To>(x);
    else if constexpr (std::is_floating_point_v<To> && std::is_floating_point_v<From>) return (To)x;
    else if constexpr (std::is_floating_point_v<To>)
        return bits<To>((std::conditional_t<sizeof(To) == 4, uint32_t, uint64_t>)x);
    else return (To)x;
}
template <class T> inline void assign(Sink &, T) {}
template <class To, class T> inline void assign(To &to_, T x)
{
    if constexpr (sizeof(To) == sizeof(T)) to_ = bits<To>(x);
    else if constexpr (std::is_floating_point_v<To> && !std::is_floating_point_v<T>)
        to_ = bits<To>((std::conditional_t<sizeof(To) == 4, uint32_t, uint64_t>)x);
    else to_ = (To)x;
}
template <class... T> inline std::array<uint32_t *, sizeof...(T)> refs(T &...x) { return { (uint32_t *)&x... }; }
template <class... T> inline std::array<uint32_t, sizeof...(T)> words(T... x) { return { to<uint32_t>(x)... }; }
template <class... T> inline std::array<double *, sizeof...(T)> doubles(T &...x) { return { &x... }; }
inline MatrixOperand operand(uint64_t descriptor) { return { false, descriptor, {} }; }
inline MatrixOperand operand(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return { true, 0, { a, b, c, d } }; }
template <size_t N>
inline void wgmma_issue(const MatrixShape &shape, const std::array<uint32_t *, N> &d, const MatrixOperand &a,
                        uint64_t b, bool add, const int (&flags)[2])
{
    wgmma(shape, d.data(), (int)N, a, b, add, flags[0], flags[1], 0, 0);
}
template <size_t N>
inline void wgmma_issue(const MatrixShape &shape, const std::array<uint32_t *, N> &d, const MatrixOperand &a,
                        uint64_t b, bool add, const int (&flags)[3])
{
    wgmma(shape, d.data(), (int)N, a, b, add, flags[0], flags[1], 0, flags[2]);
}
template <size_t N>
inline void wgmma_issue(const MatrixShape &shape, const std::array<uint32_t *, N> &d, const MatrixOperand &a,
                        uint64_t b, bool add, const int (&flags)[4])
{
    wgmma(shape, d.data(), (int)N, a, b, add, flags[0], flags[1], flags[2], flags[3]);
}
template <size_t N, size_t F>
inline void wgmma_sparse(const MatrixShape &shape, const std::array<uint32_t *, N> &d, const MatrixOperand &a,
                         uint64_t b, uint32_t word, uint32_t selector, bool add, const int (&flags)[F])
{
    const SparsePlaces places = { word, selector };
    wgmma(shape, d.data(), (int)N, a, b, add, flags[0], flags[1], F == 4 ? flags[2] : 0, F > 2 ? flags[F - 1] : 0,
          &places);
}
template <size_t N> inline void ldmatrix(bool across, uint32_t address, const std::array<uint32_t *, N> &d)
{
    uint32_t w[4];
    load_matrices(w, (int)N, across, address);
    for (size_t i = 0; i < N; i++) *d[i] = w[i];
}
template <size_t N> inline void stmatrix(bool across, uint32_t address, const std::array<uint32_t, N> &w)
{
    store_matrices(w.data(), (int)N, across, address);
}
template <size_t A, size_t B>
inline void mma(int k, MatrixType ta, MatrixType tb, const std::array<uint32_t *, 4> &d,
                const std::array<uint32_t, A> &a, const std::array<uint32_t, B> &b, const std::array<uint32_t, 4> &c)
{
    uint32_t out[4];
    multiply_matrices(k, ta, tb, out, a.data(), b.data(), c.data());
    for (int i = 0; i < 4; i++) *d[i] = out[i];
}

inline void mma_sparse(int k, MatrixType ta, MatrixType tb, const std::array<uint32_t *, 4> &d,
                       const std::array<uint32_t, 4> &a, const std::array<uint32_t, 4> &b,
                       const std::array<uint32_t, 4> &c, uint32_t word, uint32_t selector)
{
    const SparsePlaces places = { word, selector };
    uint32_t out[4];
    multiply_matrices(k, ta, tb, out, a.data(), b.data(), c.data(), &places);
    for (int i = 0; i < 4; i++) *d[i] = out[i];
}

struct Place {
    const void *map;
    int32_t at[5];
    int n;
};
template <class... C> inline Place place(uint64_t map, C... c)
{
    return { (const void *)map, { (int32_t)c... }, (int)sizeof...(C) };
}
inline void tma_load(int rank, uint32_t dst, const Place &p, uint32_t barrier, uint32_t blocks)
{
    tensor_load(rank, dst, p.map, p.at, nullptr, barrier, blocks);
}
template <class... O>
inline void tma_load_im2col(int rank, uint32_t dst, const Place &p, uint32_t barrier, O... offsets)
{
    static_assert(sizeof...(O) >= 1 && sizeof...(O) <= 3, "an offset for each dimension that is walked");
    const int32_t by[3] = { (int32_t)(uint16_t)offsets... };
    tensor_load(rank, dst, p.map, p.at, by, barrier, ADDRESSED);
}
inline void tma_store(int rank, const Place &p, uint32_t src, ReduceMode mode, bool reduces)
{
    tensor_store(rank, p.map, p.at, src, mode, reduces);
}
inline void tma_prefetch_box(int, const Place &p) { check_tensor_map(p.map); }
template <size_t N> inline void st_async(uint32_t dst, const std::array<uint32_t, N> &w, uint32_t barrier)
{
    store_async(dst, w.data(), N, barrier);
}

enum Element {
    ELEMENT_U32 = 2,
    ELEMENT_S32 = 3,
    ELEMENT_U64 = 4,
    ELEMENT_S64 = 5,
    ELEMENT_F16 = 6,
    ELEMENT_F16X2 = 6,
    ELEMENT_F32 = 7,
    ELEMENT_F64 = 8,
    ELEMENT_BF16 = 9,
    ELEMENT_BF16X2 = 9,
    ELEMENT_MIN32 = 2,
    ELEMENT_MAX32 = 2
};
template <class... T> inline void red(int type, ReduceMode mode, void *p, T... x)
{
    char *at = (char *)p;
    ((reduce_memory(at, type, mode, &x, sizeof x), at += sizeof x), ...);
}
template <class T, class... D> inline void load(bool looking, uint64_t p, D &...d)
{
    const volatile T *at = (const volatile T *)p;
    (assign(d, (T)*at++), ...);
    if (looking) looked_at_memory();
}
template <class T, class... X> inline void store(uint64_t p, X... x)
{
    volatile T *at = (volatile T *)p;
    ((*at++ = to<T>(x)), ...);
    changed_memory();
}
template <class T, class... D> __attribute__((no_sanitize("thread"))) inline void load_shared(uint32_t a, D &...d)
{
    const T *at = (const T *)generic_from_shared(a, sizeof(T) * sizeof...(D), false, "ld.shared");
    (assign(d, *at++), ...);
}
template <class T, class... X> __attribute__((no_sanitize("thread"))) inline void store_shared(uint32_t a, X... x)
{
    T *at = (T *)generic_from_shared(a, sizeof(T) * sizeof...(X), true, "st.shared");
    ((*at++ = to<T>(x)), ...);
}

inline float from_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }
inline uint32_t rounded_tf32(float x)
{
    const uint32_t u = bits<uint32_t>(x);
    return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & ~0x1fffu;
}
inline float coarse(float x) // within 2^-11, as the approximate functions may be
{
    return x == x ? float_of(bits<uint32_t>(x) & 0xfffff000u) : x;
}
inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
template <class F> inline F rzi(F x) { return trunc(x); }
template <class F> inline F rni(F x) { return nearbyint(x); }
template <class F> inline F rmi(F x) { return floor(x); }
template <class F> inline F rpi(F x) { return ceil(x); }
// Saturates. NaN gives 0 for 32 bits from f32, else the smallest number of that size.
template <class I, class F> inline I to_integer(F x)
{
    const double lowest = std::is_signed_v<I> ? -ldexp(1.0, 8 * sizeof(I) - 1) : 0.0,
                 past = ldexp(1.0, 8 * sizeof(I) - std::is_signed_v<I>);
    if (x != x) return sizeof(I) == 4 && sizeof(F) == 4 ? (I)0 : (I)((uint64_t)1 << (8 * sizeof(I) - 1));
    if ((double)x < lowest) return (I)lowest;
    if ((double)x >= past) return (I) ~((uint64_t)std::is_signed_v<I> << (8 * sizeof(I) - 1));
    return (I)x;
}
enum Half { HALF_F16, HALF_BF16 };
inline float half_float(Half h, uint32_t w) { return h == HALF_F16 ? from_f16((uint16_t)w) : from_bf16((uint16_t)w); }
inline uint32_t float_half(Half h, float x) { return h == HALF_F16 ? to_f16(x) : to_bf16(x); }
inline uint32_t mul_pair(Half h, uint32_t a, uint32_t b)
{
    return float_half(h, half_float(h, a) * half_float(h, b)) |
           float_half(h, half_float(h, a >> 16) * half_float(h, b >> 16)) << 16;
}
inline uint32_t sub_pair(Half h, uint32_t a, uint32_t b)
{
    return float_half(h, half_float(h, a) - half_float(h, b)) |
           float_half(h, half_float(h, a >> 16) - half_float(h, b >> 16)) << 16;
}
inline uint32_t add_pair(Half h, uint32_t a, uint32_t b)
{
    return float_half(h, half_float(h, a) + half_float(h, b)) |
           float_half(h, half_float(h, a >> 16) + half_float(h, b >> 16)) << 16;
}
inline uint32_t fma_pair(Half h, uint32_t a, uint32_t b, uint32_t c)
{
    return float_half(h, fmaf(half_float(h, a), half_float(h, b), half_float(h, c))) |
           float_half(h, fmaf(half_float(h, a >> 16), half_float(h, b >> 16), half_float(h, c >> 16))) << 16;
}
template <class T> inline T shift_right(uint64_t x, uint32_t by)
{
    return by < 8 * sizeof(T) ? (T)((T)x >> by) : (T)((std::is_signed_v<T> && (T)x < 0) ? -1 : 0);
}
template <class T> inline bool compare_eq(T a, T b) { return a == b; }
template <class T> inline bool compare_ne(T a, T b) { return a != b; }
template <class T> inline bool compare_lt(T a, T b) { return a < b; }
template <class T> inline bool compare_le(T a, T b) { return a <= b; }
template <class T> inline bool compare_gt(T a, T b) { return a > b; }
template <class T> inline bool compare_ge(T a, T b) { return a >= b; }
template <class To, class... X> inline To packed(X... x)
{
    std::decay_t<To> r = 0;
    int shift = 0;
    const int each = (int)(8 * sizeof(To) / sizeof...(X));
    ((r |= (std::decay_t<To>)(to<std::conditional_t<sizeof(To) / sizeof...(X) == 4, uint32_t, uint16_t>>(x)) << shift,
      shift += each),
     ...);
    return r;
}
template <class From, class... D> inline void unpack(From x, D &...d)
{
    ((assign(d, (D)x), x = (From)(sizeof(D) < sizeof x ? x >> 8 * sizeof(D) : 0)), ...);
}

} // namespace ptx

// The kernel's text brings its own.
#define int8_t emu_int8_t
#define uint8_t emu_uint8_t
#define int16_t emu_int16_t
#define uint16_t emu_uint16_t
#define int32_t emu_int32_t
#define uint32_t emu_uint32_t
#define int64_t emu_int64_t
#define uint64_t emu_uint64_t
