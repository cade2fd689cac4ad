// SPDX-License-Identifier: MIT
// base.c - what every other fragment of the CPU prelude stands on.
//
// The prelude is C text that the CPU lowering puts in front of an emitted kernel: it takes the
// place that intrinsics have on a GPU. It includes no intrinsics header, because parsing
// <immintrin.h> costs more than compiling most kernels; vectors are the compilers' own
// vector extension, and the few instructions without an operator are one-line assembly.
//
// Instruction sets are chosen by the compiler's own -march unless the text in front defines
// KILN_ISA_GIVEN and the KILN_ macros below itself.
//   KILN_AMX      tile products for bf16 and int8 (the process must have asked for tile data)
//   KILN_AVX512   F, BW, DQ and VL        KILN_BF16, KILN_VNNI   its dot products
//   KILN_AVX2     with FMA and F16C       none of them           portable C, 16-byte vectors
//   KILN_NEON     of ARMv8                KILN_SVE256            SVE, with registers of 256 bits
//   KILN_ARM_DOT, KILN_ARM_BF16           with either: dot products of bytes, of bf16
#include <stddef.h>
#include <stdint.h>

// Up to a quarter of gcc's time on kernels with products: it copies functions for constant arguments, and looks across blocks for
// what was computed before. Loops over vectors are as fast without.
// gcc 12 gives two arrays that live at once the same place on the stack, where a loop's pointer is all that is left of one of
// them: arrays of scopes that have ended keep their places.
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize ("no-ipa-cp-clone", "no-tree-pre", "no-gcse", "stack-reuse=none")
#endif

#ifndef KILN_ISA_GIVEN
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KILN_AVX512 1
#ifdef __AVX512BF16__
#define KILN_BF16 1
#endif
#ifdef __AVX512VNNI__
#define KILN_VNNI 1
#endif
#if (defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)) || \
    (defined(__AMXTILE__) && defined(__AMXBF16__) && defined(__AMXINT8__))      // clang before 15
#define KILN_AMX 1
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define KILN_AVX2 1
#endif
#endif

#if KILN_AVX512
#define KILN_VECTOR_BYTES 64
#elif KILN_AVX2 || KILN_SVE256
#define KILN_VECTOR_BYTES 32
#else
#define KILN_VECTOR_BYTES 16
#endif
enum { KILN_LANES = KILN_VECTOR_BYTES / 4 };      // of 32 bits

// A prelude function that a kernel does not call must cost nothing and warn of nothing.
#define KILN_INLINE static inline __attribute__((always_inline, unused))
#define KILN_OUTLINE static __attribute__((noinline, unused))

#ifdef __clang__
#define KILN_UNROLL _Pragma("clang loop unroll(full)")
#define KILN_NO_UNROLL _Pragma("clang loop unroll(disable)")
#define KILN_VECTORIZE _Pragma("clang loop vectorize(enable)")
#define KILN_VECTORIZE_SHORT KILN_VECTORIZE
#else
#define KILN_UNROLL _Pragma("GCC unroll 64")
#define KILN_NO_UNROLL _Pragma("GCC unroll 1")
#define KILN_VECTORIZE _Pragma("GCC ivdep")
// gcc peels a loop of 16 steps or less away and vectorises the loop around it; where loads are conditional it then takes
// the wrong ones (12 and 13).
#define KILN_VECTORIZE_SHORT _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif

#if KILN_USE_EXTREMES
// OpenMP's own min and max may start from the largest finite number (clang's do), which is not neutral to infinities.
#pragma omp declare reduction(kiln_max : float, double : omp_out = omp_in > omp_out ? omp_in : omp_out) \
    initializer(omp_priv = -__builtin_inff())
#pragma omp declare reduction(kiln_min : float, double : omp_out = omp_in < omp_out ? omp_in : omp_out) \
    initializer(omp_priv = __builtin_inff())
#endif

// Vectors as wide as the machine's. The second kind may stand at any address and alias anything.
typedef float    kiln_vf32 __attribute__((vector_size(KILN_VECTOR_BYTES)));
typedef double   kiln_vf64 __attribute__((vector_size(KILN_VECTOR_BYTES)));
typedef int32_t  kiln_vi32 __attribute__((vector_size(KILN_VECTOR_BYTES)));
typedef uint32_t kiln_vu32 __attribute__((vector_size(KILN_VECTOR_BYTES)));
typedef kiln_vf32 kiln_vf32_any __attribute__((aligned(1), may_alias));
typedef kiln_vf64 kiln_vf64_any __attribute__((aligned(1), may_alias));
typedef kiln_vi32 kiln_vi32_any __attribute__((aligned(1), may_alias));
typedef kiln_vu32 kiln_vu32_any __attribute__((aligned(1), may_alias));
typedef uint32_t  kiln_u32_any __attribute__((aligned(1), may_alias));
typedef int32_t   kiln_i32_any __attribute__((aligned(1), may_alias));

// Lanes of x, then of y, by number.
#ifdef __clang__
#define KILN_SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define KILN_SHUFFLE(x, y, ...) __builtin_shuffle(x, y, (kiln_vu32){ __VA_ARGS__ })
#endif

KILN_INLINE uint32_t kiln_bits_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
KILN_INLINE float kiln_f32_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }

KILN_INLINE int64_t kiln_round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
KILN_INLINE int64_t kiln_least(int64_t a, int64_t b) { return a < b ? a : b; }

// Asks for what a later step reads, into the second-level cache: the step would not fit the first, whose few
// outstanding misses would bound it (rows of 256 bytes, 1 KB apart: 8 GB/s so, 17 into the second, on one core).
#define KILN_FETCH(from) __builtin_prefetch(from, 0, 2)

// The number when one side is NaN. Written so that it becomes one max and one blend.
KILN_INLINE float kiln_max_f32(float a, float b) { float m = a > b ? a : b; return b != b ? a : m; }
KILN_INLINE float kiln_min_f32(float a, float b) { float m = a < b ? a : b; return b != b ? a : m; }
KILN_INLINE double kiln_max_f64(double a, double b) { double m = a > b ? a : b; return b != b ? a : m; }
KILN_INLINE double kiln_min_f64(double a, double b) { double m = a < b ? a : b; return b != b ? a : m; }
