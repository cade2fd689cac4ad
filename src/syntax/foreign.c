// SPDX-License-Identifier: MIT
// foreign.c - the table of other languages' words.
#include "syntax/foreign.h"

#include <string.h>

static const char BARRIERS[] = "the compiler places all barriers";
static const char AHEAD[] = "the compiler makes copies run ahead and waits for them";
static const char TO_ONE[] = "iterations that update what has no index of theirs reduce";
static const char WIDE[] = "there are no vectors of a few elements; slices are moved as wide as they can be";
static const char LANES[] = "threads and lanes have no numbers; a reduction needs no exchange between them";

#define SUM "forall (i : 64) s += t[i];"
#define LARGEST "forall (i : 64) top max= t[i];"
#define LEAST "forall (i : 64) s min= t[i];"
#define PRODUCT "c += a @ b;"
#define COPY "t = X[n +: 64];"
#define PLACES "grid (m : ceildiv(n, 128));"
#define STEPS "pipeline (k : 4; stages = 3) { }"
#define KERNEL "kernel name(in f32 X[N], out f32 Y[N]) { ... }"
#define FN "fn f32 name(f32 x) { ... }"

#define TYPE FOREIGN_TYPE
#define VALUE FOREIGN_VALUE
#define STATEMENT FOREIGN_STATEMENT
#define GRID FOREIGN_GRID
#define DECLARATION FOREIGN_DECLARATION
#define WORD FOREIGN_WORD
#define NOTHING FOREIGN_NOTHING

// clang-format off
const ForeignWord foreign_words[] = {
    // ---- types
    { "float", TYPE, "f32", NULL }, { "double", TYPE, "f64", NULL }, { "half", TYPE, "f16", NULL },
    { "__half", TYPE, "f16", NULL }, { "half_t", TYPE, "f16", NULL }, { "float16", TYPE, "f16", NULL },
    { "float16_t", TYPE, "f16", NULL }, { "fp16", TYPE, "f16", NULL }, { "_Float16", TYPE, "f16", NULL },
    { "bfloat16", TYPE, "bf16", NULL }, { "bfloat16_t", TYPE, "bf16", NULL }, { "__nv_bfloat16", TYPE, "bf16", NULL },
    { "nv_bfloat16", TYPE, "bf16", NULL }, { "__bf16", TYPE, "bf16", NULL }, { "float32", TYPE, "f32", NULL },
    { "float32_t", TYPE, "f32", NULL }, { "fp32", TYPE, "f32", NULL }, { "float64", TYPE, "f64", NULL },
    { "float64_t", TYPE, "f64", NULL }, { "fp64", TYPE, "f64", NULL }, { "tfloat32", TYPE, "tf32", NULL },
    { "tfloat32_t", TYPE, "tf32", NULL }, { "e4m3fn", TYPE, "e4m3", NULL }, { "float8_e4m3fn", TYPE, "e4m3", NULL },
    { "float8_e4m3", TYPE, "e4m3", NULL }, { "float_e4m3_t", TYPE, "e4m3", NULL },
    { "__nv_fp8_e4m3", TYPE, "e4m3", NULL }, { "float8e4nv", TYPE, "e4m3", NULL }, { "float8_e5m2", TYPE, "e5m2", NULL },
    { "float_e5m2_t", TYPE, "e5m2", NULL }, { "__nv_fp8_e5m2", TYPE, "e5m2", NULL }, { "float8e5", TYPE, "e5m2", NULL },
    { "float8_e8m0fnu", TYPE, "e8m0", NULL }, { "__nv_fp8_e8m0", TYPE, "e8m0", NULL },
    { "float4_e2m1fn", TYPE, "e2m1", NULL }, { "__nv_fp4_e2m1", TYPE, "e2m1", NULL }, { "long", TYPE, "i64", NULL },
    { "short", TYPE, "i16", NULL }, { "char", TYPE, "i8", NULL }, { "unsigned", TYPE, "u32", NULL },
    { "uint", TYPE, "u32", NULL }, { "uchar", TYPE, "u8", NULL }, { "ushort", TYPE, "u16", NULL },
    { "ulong", TYPE, "u64", NULL }, { "int8_t", TYPE, "i8", NULL }, { "int16_t", TYPE, "i16", NULL },
    { "int32_t", TYPE, "i32", NULL }, { "int64_t", TYPE, "i64", NULL }, { "uint8_t", TYPE, "u8", NULL },
    { "uint16_t", TYPE, "u16", NULL }, { "uint32_t", TYPE, "u32", NULL }, { "uint64_t", TYPE, "u64", NULL },
    { "int8", TYPE, "i8", NULL }, { "int16", TYPE, "i16", NULL }, { "int32", TYPE, "i32", NULL },
    { "int64", TYPE, "i64", NULL }, { "uint8", TYPE, "u8", NULL }, { "uint16", TYPE, "u16", NULL },
    { "uint32", TYPE, "u32", NULL }, { "uint64", TYPE, "u64", NULL }, { "size_t", TYPE, "int", NULL },
    { "ssize_t", TYPE, "int", NULL }, { "ptrdiff_t", TYPE, "int", NULL }, { "intptr_t", TYPE, "int", NULL },
    { "_Bool", TYPE, "bool", NULL }, { "float2", TYPE, NULL, WIDE }, { "float3", TYPE, NULL, WIDE },
    { "float4", TYPE, NULL, WIDE }, { "half2", TYPE, NULL, WIDE }, { "__half2", TYPE, NULL, WIDE },
    { "__nv_bfloat162", TYPE, NULL, WIDE }, { "int2", TYPE, NULL, WIDE }, { "int4", TYPE, NULL, WIDE },
    { "uint2", TYPE, NULL, WIDE }, { "uint4", TYPE, NULL, WIDE }, { "double2", TYPE, NULL, WIDE },
    { "dim3", GRID, PLACES, NULL }, { "auto", TYPE, NULL, "a declaration names the type" },
    { "let", TYPE, NULL, "a declaration names the type" }, { "var", TYPE, NULL, "a declaration names the type" },

    // ---- C's mathematics
    { "expf", VALUE, "exp(x)", NULL }, { "exp2f", VALUE, "exp2(x)", NULL }, { "exp10f", VALUE, "pow(10, x)", NULL },
    { "exp10", VALUE, "pow(10, x)", NULL }, { "expm1f", VALUE, "exp(x) - 1", NULL },
    { "expm1", VALUE, "exp(x) - 1", NULL }, { "logf", VALUE, "log(x)", NULL }, { "log2f", VALUE, "log2(x)", NULL },
    { "log10f", VALUE, "log(x) / log(10)", NULL }, { "log10", VALUE, "log(x) / log(10)", NULL },
    { "log1pf", VALUE, "log(1 + x)", NULL }, { "log1p", VALUE, "log(1 + x)", NULL }, { "ln", VALUE, "log(x)", NULL },
    { "sqrtf", VALUE, "sqrt(x)", NULL }, { "rsqrtf", VALUE, "rsqrt(x)", NULL },
    { "inversesqrt", VALUE, "rsqrt(x)", NULL }, { "powf", VALUE, "pow(x, y)", NULL }, { "sinf", VALUE, "sin(x)", NULL },
    { "cosf", VALUE, "cos(x)", NULL }, { "tanf", VALUE, "sin(x) / cos(x)", NULL },
    { "tan", VALUE, "sin(x) / cos(x)", NULL }, { "tanhf", VALUE, "tanh(x)", NULL },
    { "sinh", VALUE, "(exp(x) - exp(-x)) / 2", NULL }, { "cosh", VALUE, "(exp(x) + exp(-x)) / 2", NULL },
    { "erff", VALUE, "erf(x)", NULL }, { "erfc", VALUE, "1 - erf(x)", NULL }, { "erfcf", VALUE, "1 - erf(x)", NULL },
    { "fabs", VALUE, "abs(x)", NULL }, { "fabsf", VALUE, "abs(x)", NULL }, { "labs", VALUE, "abs(n)", NULL },
    { "fmin", VALUE, "min(x, y)", NULL }, { "fminf", VALUE, "min(x, y)", NULL }, { "fmax", VALUE, "max(x, y)", NULL },
    { "fmaxf", VALUE, "max(x, y)", NULL }, { "fmaf", VALUE, "fma(x, y, z)", NULL }, { "floorf", VALUE, "floor(x)", NULL },
    { "ceilf", VALUE, "ceil(x)", NULL }, { "roundf", VALUE, "round(x)", NULL }, { "rintf", VALUE, "rint(x)", NULL },
    { "nearbyint", VALUE, "rint(x)", NULL }, { "nearbyintf", VALUE, "rint(x)", NULL },
    { "truncf", VALUE, "trunc(x)", NULL }, { "lroundf", VALUE, "round(x)", NULL }, { "lrintf", VALUE, "rint(x)", NULL },
    { "fmod", VALUE, "x - y * trunc(x / y)", NULL }, { "fmodf", VALUE, "x - y * trunc(x / y)", NULL },
    { "mod", VALUE, "n % 8", NULL }, { "remainder", VALUE, "x - y * rint(x / y)", NULL },
    { "copysign", VALUE, "y < 0 ? -abs(x) : abs(x)", NULL }, { "copysignf", VALUE, "y < 0 ? -abs(x) : abs(x)", NULL },
    { "isnan", VALUE, "x != x", NULL }, { "isinf", VALUE, "abs(x) == INFINITY", NULL },
    { "isfinite", VALUE, "abs(x) < INFINITY", NULL }, { "signbit", VALUE, "x < 0", NULL },
    { "hypot", VALUE, "sqrt(x*x + y*y)", NULL }, { "hypotf", VALUE, "sqrt(x*x + y*y)", NULL },
    { "FLT_MAX", VALUE, "3.402823466e38", NULL }, { "FLT_EPSILON", VALUE, "1.192092896e-7", NULL },
    { "INT_MAX", VALUE, "2147483647", NULL }, { "INT32_MAX", VALUE, "2147483647", NULL },
    { "UINT_MAX", VALUE, "4294967295", NULL }, { "M_PI", VALUE, "PI", NULL }, { "M_LOG2E", VALUE, "LOG2E", NULL },
    { "M_LN2", VALUE, "LN2", NULL }, { "HUGE_VALF", VALUE, "INFINITY", NULL },
    { "CUDART_INF_F", VALUE, "INFINITY", NULL }, { "CUDART_NAN_F", VALUE, "NAN", NULL },
    { "inf", VALUE, "INFINITY", NULL }, { "nan", VALUE, "NAN", NULL }, { "pi", VALUE, "PI", NULL },
    { "True", VALUE, "true", NULL }, { "False", VALUE, "false", NULL }, { "and", VALUE, "x > 0 && y > 0", NULL },
    { "or", VALUE, "x > 0 || y > 0", NULL }, { "not", VALUE, "!(x > 0)", NULL },
    { "None", NOTHING, NULL, "an optional tensor that is absent is 'none'" },
    { "NULL", NOTHING, NULL, "an optional tensor that is absent is 'none'; there are no pointers" },
    { "nullptr", NOTHING, NULL, "an optional tensor that is absent is 'none'; there are no pointers" },
    { "sizeof", NOTHING, NULL, "sizes are counted in elements" },

    // ---- C's statements, and what runs on a host
    { "switch", WORD, NULL, "use if and else" }, { "do", WORD, NULL, "use while" },
    { "goto", WORD, NULL, "use loops, break and continue" }, { "printf", STATEMENT, "print(\"x is {}\", x);", NULL },
    { "puts", STATEMENT, "print(\"here\");", NULL }, { "memcpy", STATEMENT, COPY, NULL },
    { "memset", STATEMENT, "t = 0;", NULL },
    { "malloc", STATEMENT, "shared f32 v[64];", "the extents of tiles are known when built" },
    { "abort", STATEMENT, "assert(x > 0, \"why\");", NULL }, { "__trap", STATEMENT, "assert(x > 0, \"why\");", NULL },
    { "static_assert", STATEMENT, "require(n > 0, \"why\");", "what is known when built is checked then" },
    { "swap", STATEMENT, "{ const f32 old = s; s = top; top = old; }", NULL },
    { "asm", WORD, NULL, "a function of the target is declared by extern" },
    { "struct", WORD, NULL, "there are no structures" }, { "union", WORD, NULL, "there are no structures" },
    { "enum", WORD, NULL, "const int NAME = 1; names a number" },
    { "typedef", WORD, NULL, "a build parameter <type T = f32> names a type" },
    { "using", WORD, NULL, "a build parameter <type T = f32> names a type" },
    { "register", TYPE, NULL, "a tile in registers is a fragment" },
    { "volatile", TYPE, NULL, "an atomic is seen by other instances" },

    // ---- CUDA: what an instance and its parts are
    { "threadIdx", STATEMENT, "forall (i : 64) t[i] = x;", "threads have no numbers; iterations are spread over them" },
    { "blockIdx", GRID, PLACES, "m is then the place of an instance" },
    { "blockDim", GRID, "grid (m : n) warps(4);", "threads have no numbers" },
    { "gridDim", GRID, PLACES, "the extent is the number of instances" }, { "warpSize", NOTHING, NULL, LANES },
    { "laneid", NOTHING, NULL, LANES }, { "this_thread_block", NOTHING, NULL, BARRIERS },
    { "__launch_bounds__", GRID, "grid (m : n) warps(4);", NULL }, { "__shared__", WORD, "shared f32 v[64];", NULL },
    { "__constant__", DECLARATION, "const int NAME = 64;", NULL }, { "__global__", DECLARATION, KERNEL, NULL },
    { "__device__", DECLARATION, FN, NULL }, { "__host__", DECLARATION, FN, NULL },
    { "__forceinline__", DECLARATION, FN, "every function is inlined" },
    { "inline", DECLARATION, FN, "every function is inlined" }, { "static", DECLARATION, FN, NULL },
    { "void", DECLARATION, KERNEL, NULL }, { "def", DECLARATION, KERNEL, NULL },
    { "template", DECLARATION, "kernel name<type T = f32, int N = 64>(in T X[N]) { ... }", NULL },
    { "include", DECLARATION, "import \"file.tile\"", NULL }, { "from", DECLARATION, "import \"file.tile\"", NULL },
    { "__restrict__", NOTHING, NULL, "tensors that are written overlap no others; nothing need be said" },
    { "restrict", NOTHING, NULL, "tensors that are written overlap no others; nothing need be said" },

    // ---- CUDA: barriers and copies
    { "__syncthreads", WORD, NULL, BARRIERS }, { "__syncwarp", WORD, NULL, BARRIERS },
    { "barrier", WORD, NULL, BARRIERS }, { "syncthreads", NOTHING, NULL, BARRIERS },
    { "sync_threads", NOTHING, NULL, BARRIERS }, { "debug_barrier", NOTHING, NULL, BARRIERS },
    { "__threadfence", NOTHING, NULL, BARRIERS }, { "__threadfence_block", NOTHING, NULL, BARRIERS },
    { "cluster_sync", NOTHING, NULL, BARRIERS }, { "mbarrier_wait", NOTHING, NULL, BARRIERS },
    { "cp_async", STATEMENT, COPY, AHEAD }, { "memcpy_async", STATEMENT, COPY, AHEAD },
    { "cp_async_wait_group", STATEMENT, STEPS, AHEAD }, { "cp_async_commit_group", STATEMENT, STEPS, AHEAD },
    { "__pipeline_commit", STATEMENT, STEPS, AHEAD }, { "__pipeline_wait_prior", STATEMENT, STEPS, AHEAD },
    { "__ldg", VALUE, "X[i]", NULL }, { "__ldcg", VALUE, "X[i]", NULL }, { "__stcg", STATEMENT, "Y[i] = x;", NULL },

    // ---- CUDA: lanes
    { "__shfl_sync", STATEMENT, SUM, LANES }, { "__shfl_xor_sync", STATEMENT, SUM, LANES },
    { "__shfl_down_sync", STATEMENT, SUM, LANES }, { "__shfl_up_sync", STATEMENT, SUM, LANES },
    { "__reduce_add_sync", STATEMENT, SUM, LANES }, { "__reduce_max_sync", STATEMENT, LARGEST, LANES },
    { "__ballot_sync", STATEMENT, "forall (i : 64) any |= t[i] > 0;", LANES },
    { "__any_sync", STATEMENT, "forall (i : 64) any |= t[i] > 0;", LANES },
    { "__all_sync", STATEMENT, "forall (i : 64) any &= t[i] > 0;", LANES },

    // ---- CUDA: atomics
    { "atomicAdd", STATEMENT, "atomic Y[i] += x;", NULL }, { "atomicSub", STATEMENT, "atomic Y[i] += -x;", NULL },
    { "atomicMax", STATEMENT, "atomic L[i] max= n;", NULL }, { "atomicMin", STATEMENT, "atomic L[i] min= n;", NULL },
    { "atomicAnd", STATEMENT, "atomic L[i] &= 1;", NULL }, { "atomicOr", STATEMENT, "atomic L[i] |= 1;", NULL },
    { "atomicInc", STATEMENT, "atomic L[i] += 1;", NULL }, { "atomicExch", VALUE, "atomic_exchange(L[i], 1)", NULL },
    { "atomicCAS", VALUE, "atomic_cas(L[i], 0, 1)", NULL }, { "atomic_xchg", VALUE, "atomic_exchange(L[i], 1)", NULL },
    { "atomic_sub", STATEMENT, "atomic Y[i] += -x;", NULL },

    // ---- CUDA: numbers
    { "__expf", VALUE, "exp(x)", NULL }, { "__exp2f", VALUE, "exp2(x)", NULL }, { "__logf", VALUE, "log(x)", NULL },
    { "__log2f", VALUE, "log2(x)", NULL }, { "__sinf", VALUE, "sin(x)", NULL }, { "__cosf", VALUE, "cos(x)", NULL },
    { "__powf", VALUE, "pow(x, y)", NULL }, { "__fdividef", VALUE, "x / y", NULL }, { "__frcp_rn", VALUE, "1 / x", NULL },
    { "__fsqrt_rn", VALUE, "sqrt(x)", NULL }, { "__frsqrt_rn", VALUE, "rsqrt(x)", NULL },
    { "__fmaf_rn", VALUE, "fma(x, y, z)", NULL }, { "__fadd_rn", VALUE, "x + y", NULL },
    { "__fmul_rn", VALUE, "x * y", NULL }, { "__saturatef", VALUE, "clamp(x, 0, 1)", NULL },
    { "__hadd", VALUE, "x + y", NULL }, { "__hmul", VALUE, "x * y", NULL }, { "__hmax", VALUE, "max(x, y)", NULL },
    { "__hfma2", VALUE, "fma(x, y, z)", WIDE }, { "__popc", VALUE, "popcount(n)", NULL },
    { "__popcll", VALUE, "popcount(n)", NULL }, { "__clz", VALUE, "clz(n)", NULL }, { "__ffs", VALUE, "ffs(n)", NULL },
    { "__builtin_popcount", VALUE, "popcount(n)", NULL }, { "__builtin_clz", VALUE, "clz(n)", NULL },
    { "__builtin_ctz", VALUE, "ffs(n) - 1", NULL }, { "__dp4a", VALUE, "dot4(i, j, n)", NULL },
    { "__mul24", VALUE, "i * j", NULL }, { "__mulhi", VALUE, "convert<i64>(i) * j >> 32", NULL },
    { "static_cast", VALUE, "convert<f32>(n)", NULL }, { "reinterpret_cast", VALUE, "bitcast<u32>(x)", NULL },
    { "bit_cast", VALUE, "bitcast<u32>(x)", NULL }, { "astype", VALUE, "convert<f32>(n)", NULL },
    { "to", VALUE, "convert<f32>(n)", NULL }, { "cast", VALUE, "convert<f32>(n)", NULL },
    { "__float2half", VALUE, "convert<f16>(x)", NULL }, { "__half2float", VALUE, "convert<f32>(x)", NULL },
    { "__float2bfloat16", VALUE, "convert<bf16>(x)", NULL }, { "__bfloat162float", VALUE, "convert<f32>(x)", NULL },
    { "__float2int_rn", VALUE, "convert<i32>(rint(x))", NULL }, { "__float2int_rz", VALUE, "convert<i32>(x)", NULL },
    { "__int2float_rn", VALUE, "convert<f32>(i)", NULL }, { "__float_as_int", VALUE, "bitcast<i32>(x)", NULL },
    { "__float_as_uint", VALUE, "bitcast<u32>(x)", NULL }, { "__int_as_float", VALUE, "bitcast<f32>(i)", NULL },
    { "__uint_as_float", VALUE, "bitcast<f32>(i)", NULL },

    // ---- PyTorch, Triton, TileLang: elements
    { "sigmoid", VALUE, "1 / (1 + exp(-x))", NULL }, { "relu", VALUE, "max(x, 0)", NULL },
    { "relu6", VALUE, "clamp(x, 0, 6)", NULL }, { "leaky_relu", VALUE, "x > 0 ? x : 0.01 * x", NULL },
    { "silu", VALUE, "x / (1 + exp(-x))", NULL }, { "swish", VALUE, "x / (1 + exp(-x))", NULL },
    { "gelu", VALUE, "0.5 * x * (1 + erf(x * 0.70710678))", NULL }, { "elu", VALUE, "x > 0 ? x : exp(x) - 1", NULL },
    { "softplus", VALUE, "log(1 + exp(x))", NULL }, { "logsigmoid", VALUE, "-log(1 + exp(-x))", NULL },
    { "hardtanh", VALUE, "clamp(x, -1, 1)", NULL }, { "sign", VALUE, "x > 0 ? 1 : x < 0 ? -1 : 0", NULL },
    { "reciprocal", VALUE, "1 / x", NULL }, { "rcp", VALUE, "1 / x", NULL }, { "square", VALUE, "x * x", NULL },
    { "lerp", VALUE, "x + (y - x) * z", NULL }, { "clip", VALUE, "clamp(x, y, z)", NULL },
    { "saturate", VALUE, "clamp(x, 0, 1)", NULL }, { "maximum", VALUE, "max(x, y)", NULL },
    { "minimum", VALUE, "min(x, y)", NULL }, { "absolute", VALUE, "abs(x)", NULL },
    { "where", VALUE, "x > 0 ? x : y", NULL }, { "if_then_else", VALUE, "x > 0 ? x : y", NULL },
    { "select", VALUE, "x > 0 ? x : y", NULL }, { "cdiv", VALUE, "ceildiv(n, 128)", NULL },
    { "ceil_div", VALUE, "ceildiv(n, 128)", NULL }, { "divup", VALUE, "ceildiv(n, 128)", NULL },
    { "next_multiple_of", VALUE, "ceildiv(n, 128) * 128", NULL }, { "fdiv", VALUE, "x / y", NULL },
    { "logical_and", VALUE, "x > 0 && y > 0", NULL }, { "logical_or", VALUE, "x > 0 || y > 0", NULL },
    { "rand", VALUE, "random(n, i)", NULL }, { "dropout", VALUE, "random(n, i) < y ? 0 : x", NULL },
    { "multiple_of", STATEMENT, "assume(n % 8 == 0);", NULL },
    { "device_print", STATEMENT, "print(\"x is {}\", x);", NULL },
    { "device_assert", STATEMENT, "assert(x > 0, \"why\");", NULL },

    // ---- PyTorch, Triton, TileLang: tiles
    { "sum", STATEMENT, SUM, TO_ONE }, { "reduce_sum", STATEMENT, SUM, TO_ONE },
    { "mean", STATEMENT, "forall (i : 64) s += t[i] / 64;", TO_ONE },
    { "prod", STATEMENT, "forall (i : 64) s *= t[i];", TO_ONE }, { "amax", STATEMENT, LARGEST, TO_ONE },
    { "reduce_max", STATEMENT, LARGEST, TO_ONE }, { "amin", STATEMENT, LEAST, TO_ONE },
    { "reduce_min", STATEMENT, LEAST, TO_ONE }, { "norm", STATEMENT, "forall (i : 64) s += t[i] * t[i];", TO_ONE },
    { "argmax", STATEMENT, LARGEST " forall (i : 64) if (t[i] == top) at min= i;", NULL },
    { "argmin", STATEMENT, LEAST " forall (i : 64) if (t[i] == s) at min= i;", NULL },
    { "softmax", NOTHING, NULL, "kernels/norm/softmax.tile has one for rows, kernels/attention/softmax.tile one that goes on step by step" },
    { "layer_norm", NOTHING, NULL, "kernels/norm/layer_norm.tile has one" },
    { "rms_norm", NOTHING, NULL, "kernels/norm/rms_norm.tile has one" },
    { "topk", NOTHING, NULL, "kernels/topk/topk.tile has one for few, kernels/topk/select.tile one for many" },
    { "sort", NOTHING, NULL, "kernels/topk/select.tile selects without sorting" }, { "dot", STATEMENT, PRODUCT, NULL },
    { "matmul", STATEMENT, PRODUCT, NULL }, { "mm", STATEMENT, PRODUCT, NULL }, { "gemm", STATEMENT, PRODUCT, NULL },
    { "wgmma", STATEMENT, PRODUCT, NULL }, { "mma_sync", STATEMENT, PRODUCT, NULL },
    { "trans", STATEMENT, "c += transpose(a) @ b;", NULL },
    { "permute", STATEMENT, "forall (i : 16, j : 16) c[j][i] = a[i][j];", NULL },
    { "load", STATEMENT, "fragment f32 v[64] = X[n +: 64];", "what lies outside a tensor reads 0" },
    { "store", STATEMENT, "Y[n +: 64] = t;", "what lies outside a tensor is not written" },
    { "copy", STATEMENT, COPY, NULL }, { "gather", STATEMENT, "forall (i : 64) t[i] = X[L[i]];", NULL },
    { "scatter", STATEMENT, "forall (i : 64) Y[L[i]] = t[i];", NULL }, { "fill", STATEMENT, "t = 0;", NULL },
    { "clear", STATEMENT, "t = 0;", NULL }, { "zeros", STATEMENT, "fragment f32 v[64] = 0;", NULL },
    { "full", STATEMENT, "fragment f32 v[64] = -INFINITY;", NULL },
    { "alloc", WORD, NULL, "declare a tile: shared f32 a[64][64];" },
    { "alloc_shared", STATEMENT, "shared f32 v[64];", NULL },
    { "alloc_fragment", STATEMENT, "fragment f32 v[64];", NULL },
    { "alloc_local", STATEMENT, "forall (i : 64) { local f32 v[4]; v[0] = t[i]; }", NULL },
    { "reshape", STATEMENT, "view v[8][8] = t;", NULL },
    { "arange", STATEMENT, COPY, "slices stand for ranges of offsets" },
    { "expand_dims", STATEMENT, "forall (i : 16, j : 16) c[i][j] *= t[i];", NULL },
    { "broadcast_to", STATEMENT, "forall (i : 16, j : 16) c[i][j] = t[i];", NULL },

    // ---- Triton, TileLang: loops and grids
    { "program_id", GRID, PLACES, "m is then the place of an instance" },
    { "num_programs", GRID, PLACES, "the extent is the number of instances" }, { "Kernel", GRID, PLACES, NULL },
    { "get_thread_binding", STATEMENT, "forall (i : 64) t[i] = x;", LANES }, { "parallel", WORD, NULL, "use forall" },
    { "Parallel", STATEMENT, "forall (i : 64) t[i] = x;", NULL }, { "Pipelined", STATEMENT, STEPS, NULL },
    { "Persistent", GRID, "grid (m : n) persistent;", NULL },
    { "serial", STATEMENT, "for (int k = 0; k < 4; k++) { }", NULL },
    { "range", STATEMENT, "for (int k = 0; k < 4; k++) { }", NULL },
    { "unrolled", STATEMENT, "unroll for (int k = 0; k < 4; k++) { }", NULL },
    { "static_range", STATEMENT, "unroll for (int k = 0; k < 4; k++) { }", NULL },
    { "constexpr", TYPE, NULL, "const int K = 64; is known when built, as build parameters in <...> are" },
    { "num_warps", GRID, "grid (m : n) warps(4);", NULL }, { "num_stages", STATEMENT, STEPS, NULL },
    { "elif", WORD, NULL, "use else if" }, { "with", TYPE, NULL, "a block is { } after forall, pipeline or for" },
    { "lambda", DECLARATION, FN, NULL }, { "class", DECLARATION, KERNEL, NULL },
};
// clang-format on
const int n_foreign_words = (int)(sizeof foreign_words / sizeof *foreign_words);

// What members are looked for under their own names of: torch.relu is relu.
static const char *const libraries[] = {
    "torch",     "F",      "nn", "functional", "np",  "numpy", "jnp", "math",    "tl",
    "libdevice", "triton", "T",  "tilelang",   "std", "cuda",  "cg",  "cutlass",
};

const ForeignWord *find_foreign(const char *word)
{
    for (int i = 0; i < n_foreign_words; i++)
        if (foreign_words[i].word[0] == word[0] && strcmp(foreign_words[i].word, word) == 0) return &foreign_words[i];
    return NULL;
}

const ForeignWord *find_foreign_of(const char *word, ForeignKind kind)
{
    const ForeignWord *const found = find_foreign(word);
    return found && found->kind == kind ? found : NULL;
}

bool foreign_is_library(const char *name)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strcmp(libraries[i], name) == 0) return true;
    return false;
}

const ForeignWord *find_foreign_member(const char *owner, const char *member)
{
    const ForeignWord *const whole = find_foreign(owner);
    return whole ? whole : foreign_is_library(owner) ? find_foreign(member) : NULL;
}

const char *foreign_advice(Arena *arena, const ForeignWord *foreign)
{
    if (!foreign->ours) return foreign->advice;
    if (foreign->kind == FOREIGN_TYPE)
        return arena_printf(arena, "the type is called %s here, a conversion to it convert<%s>(...)", foreign->ours,
                            foreign->ours);
    return arena_printf(arena, "%s%s%s", foreign->advice ? foreign->advice : "write ", foreign->advice ? ": " : "",
                        foreign->ours);
}
