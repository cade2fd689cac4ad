// SPDX-License-Identifier: MIT
// rows.c - what `kiln bench` measures: kernels at sizes where their limit shows, with baseline and target.
//
// The targets: on a GPU products at cuBLAS' speed (0.95 of it below 4096^3), attention at FlashAttention-3's speed given
// as its ratio to cuDNN (1.05 where it is ahead; more in the backward), 90% of a device copy for what memory bounds, and in
// latent attention what FlashMLA reaches on an H200, or 92% of a copy.
#include "bench.h"

// ---- the CPU; what memory bounds is larger than the caches

#define CPU_ATTENTION(NAME, T, CAUSAL, OTHER)                                                                          \
    {                                                                                                                  \
        "attention " NAME, "attention/forward.tile", "attention_forward",                                              \
            "T=" T ", D=128, DV=128, CAUSAL=" CAUSAL ", LSE=none, B=1, S=2048, SKV=2048, H=8, HKV=2, scale=0.088",     \
            0.7, OF_BASELINE, BASELINE_ROW, OTHER, 0                                                                   \
    }
#define CPU_GEMM(NAME, VALUES, SIZE, TARGET)                                                                           \
    {                                                                                                                  \
        "gemm " NAME, "gemm/gemm.tile", "gemm_nt", VALUES ", M=" SIZE ", N=" SIZE ", K=" SIZE, TARGET, OF_BASELINE,    \
            BASELINE_SGEMM, NULL, 0                                                                                    \
    }

// Sparse latent decoding from caches of the 656-byte format, which has its scales in the tokens.
#define LATENT_656 "SCALES=none, SCALES2=none, apart=0, apart2=0, "

static const Row cpu_rows[] = {
    CPU_GEMM("f32", "T=f32", "2048", 0.9),
    CPU_GEMM("bf16", "T=bf16, TC=f32", "2048", 1.5),
    CPU_GEMM("i8", "T=i8, TC=i32, ACC=i32", "2048", 3.0),
    CPU_GEMM("f16", "T=f16, TC=f32", "2048", 0),
    CPU_GEMM("f32 512", "T=f32", "512", 0),
    CPU_ATTENTION("f32", "f32", "false", "gemm f32"),
    CPU_ATTENTION("bf16", "bf16", "false", "gemm bf16"),
    CPU_ATTENTION("bf16 causal", "bf16", "true", "gemm bf16"),
    { "backward bf16", "attention/backward.tile", "attention_backward",
      "T=bf16, D=128, DV=128, CAUSAL=false, B=1, S=1024, SKV=1024, "
      "H=8, HKV=2, scale=0.088",
      0, OF_BASELINE, BASELINE_ROW, "gemm bf16", 0 },
    { "mla decode ragged bf16", "mla/decode.tile", "mla_decode_dense",
      "T=bf16, CAUSAL=true, PS=64, B=8, SQ=2, HQ=64, HKV=1, MAXP=96, "
      "PAGES=512, P=8, scale=0.0417",
      0, OF_BASELINE, BASELINE_ROW, "gemm bf16", 2048 },
    { "mla sparse fp8", "mla/decode_fp8.tile", "mla_decode_fp8",
      LATENT_656 "LIMIT=none, SINK=none, CACHE2=none, INDEX2=none, LIMIT2=none, PS=64, "
                 "B=4, SQ=2, HQ=128, PAGES=256, TOPK=512, P=4, scale=0.0417",
      0, OF_BASELINE, BASELINE_ROW, "gemm bf16", 0 },
    { "mla prefill", "mla/prefill.tile", "mla_prefill_sparse",
      "D=576, SINK=none, LIMIT=none, END=none, S=16, HQ=128, TOPK=512, SKV=2048, "
      "scale=0.0417",
      0, OF_BASELINE, BASELINE_ROW, "gemm bf16", 0 },
    { "memory mla decode bf16", "mla/decode.tile", "mla_decode_planned",
      "T=bf16, PS=64, B=8, SQ=1, HQ=16, HKV=1, MAXP=1024, "
      "PAGES=8192, parts=8, scale=0.04",
      0.8, OF_BASELINE, BASELINE_READ, NULL, 0 },
    { "memory decode bf16", "attention/decode.tile", "flash_decode",
      "T=bf16, D=128, DV=128, G=4, BN=128, Mask=none, LENGTH=none, SINK=none, LSE=none, B=16, "
      "S=16384, H=16, HKV=4, splits=8, scale=0.088",
      0.8, OF_BASELINE, BASELINE_READ, NULL, 0 },
    { "memory gemv bf16", "gemm/gemv.tile", "gemv", "T=bf16, N=32768, K=8192", 0.8, OF_BASELINE, BASELINE_READ, NULL,
      0 },
    { "memory gemv transposed bf16", "gemm/gemv.tile", "gemv_transposed", "T=bf16, N=8192, K=32768", 0.8, OF_BASELINE,
      BASELINE_READ, NULL, 0 },
    { "memory rms_norm bf16", "norm/rms_norm.tile", "rms_norm", "T=bf16, WIDTH=4096, M=65536, N=4096, eps=1e-6", 0.8,
      OF_BASELINE, BASELINE_COPY, NULL, 0 },
    { "memory softmax f32", "norm/softmax.tile", "softmax", "T=f32, TY=f32, BN=4096, M=32768, N=4096", 0.8, OF_BASELINE,
      BASELINE_COPY, NULL, 0 },
    { "memory add f32", "elementwise/add.tile", "add", "T=f32, M=16384, N=8192, MB=16384, NB=8192", 0.8, OF_BASELINE,
      BASELINE_COPY, NULL, 0 },
    { "memory cast per group", "cast/fp8.tile", "cast_per_group", "T=bf16, M=65536, N=4096", 0.8, OF_BASELINE,
      BASELINE_COPY, NULL, 0 },
};

// ---- CUDA

#define GEMM(NAME, VALUES, M, N, K, TARGET)                                                                            \
    {                                                                                                                  \
        "gemm " NAME, "gemm/gemm.tile", "gemm_nt", VALUES ", M=" M ", N=" N ", K=" K, TARGET, OF_BASELINE,             \
            BASELINE_PROCESS, NULL, 0                                                                                  \
    }
// Tiles: the largest that leave about a hundred of them (docs/hopper.md, 6).
#define GEMMS(NAME, TYPES, BK)                                                                                         \
    GEMM(NAME " 1024", TYPES ", BM=128, BN=64, BK=" BK ", STAGES=8", "1024", "1024", "1024", 0.95),                    \
        GEMM(NAME " 4096", TYPES ", BM=128, BN=256, BK=" BK ", STAGES=4", "4096", "4096", "4096", 1.0),                \
        GEMM(NAME " 8192x8192x1024", TYPES ", BM=128, BN=256, BK=" BK ", STAGES=4", "8192", "8192", "1024", 1.0),      \
        GEMM(NAME " 8192", TYPES ", BM=128, BN=256, BK=" BK ", STAGES=4", "8192", "8192", "8192", 1.0),                \
        GEMM(NAME " 16384x16384x4096", TYPES ", BM=128, BN=256, BK=" BK ", STAGES=4", "16384", "16384", "4096", 1.0)
#define ATTENTION(NAME, D, CAUSAL, B, H, HKV, S, TARGET)                                                               \
    {                                                                                                                  \
        "attention " NAME, "attention/forward.tile", "attention_forward",                                              \
            "T=bf16, D=" D ", CAUSAL=" CAUSAL ", LSE=none, B=" B ", S=" S ", SKV=" S ", H=" H ", HKV=" HKV             \
            ", scale=" D "e-3",                                                                                        \
            TARGET, OF_BASELINE, BASELINE_PROCESS, NULL, 0                                                             \
    }
#define BACKWARD(NAME, D, CAUSAL, B, H, HKV, S, TARGET)                                                                \
    {                                                                                                                  \
        "backward " NAME, "attention/backward.tile", "attention_backward",                                             \
            "T=bf16, D=" D ", DV=" D ", CAUSAL=" CAUSAL ", B=" B ", S=" S ", SKV=" S ", H=" H ", HKV=" HKV             \
            ", scale=" D "e-3",                                                                                        \
            TARGET, OF_BASELINE, BASELINE_PROCESS, NULL, 0                                                             \
    }
// Latent attention: decoding without its plan, which serves every layer of a step. P: partitions, as the operators choose
// them with 132 multiprocessors. MEAN 0: all requests as long as their pages allow.
#define MLA(NAME, CAUSAL, B, SQ, HQ, MAXP, PAGES, P, MEAN, TARGET, GOAL)                                               \
    {                                                                                                                  \
        "mla decode " NAME, "mla/decode.tile", "mla_decode_dense",                                                     \
            "T=bf16, CAUSAL=" CAUSAL ", PS=64, B=" B ", SQ=" SQ ", HQ=" HQ ", HKV=1, MAXP=" MAXP ", PAGES=" PAGES      \
            ", P=" P ", scale=0.0417",                                                                                 \
            TARGET, GOAL, BASELINE_NONE, NULL, MEAN                                                                    \
    }
#define MLA_128(NAME, MAXP, PAGES, MEAN, ONE, TWO, CAUSAL)                                                             \
    MLA("b128 s" NAME, "false", "128", "1", "128", MAXP, PAGES, "66", MEAN, ONE, OPERATIONS),                          \
        MLA("b128 s" NAME " q2", "false", "128", "2", "128", MAXP, PAGES, "33", MEAN, TWO, OPERATIONS),                \
        MLA("b128 s" NAME " q2 causal", "true", "128", "2", "128", MAXP, PAGES, "33", MEAN, CAUSAL, OPERATIONS)
#define MLA_SPARSE(NAME, CUT, B, SQ, PAGES, TOPK, P, TARGET, GOAL)                                                     \
    {                                                                                                                  \
        "mla sparse " NAME, "mla/decode_fp8.tile", "mla_decode_fp8",                                                   \
            LATENT_656 CUT ", LIMIT=none, SINK=none, CACHE2=none, INDEX2=none, "                                       \
                           "LIMIT2=none, PS=64, B=" B ", SQ=" SQ ", HQ=128, PAGES=" PAGES ", TOPK=" TOPK ", P=" P      \
                           ", scale=0.0417",                                                                           \
            TARGET, GOAL, BASELINE_NONE, NULL, 0                                                                       \
    }
// Sparse decoding as FlashMLA's own performance cases have it: a sink, two queries, lists of slots drawn from the 32768 of
// each request, pages with a token's bytes after them. The targets are FlashMLA's times on an H200.
#define MLA_PAGES(NAME, CUT, B, HQ, PAGES, TOPK, P, TARGET)                                                            \
    {                                                                                                                  \
        "mla sparse pages " NAME, "mla/decode_fp8.tile", "mla_decode_fp8",                                             \
            LATENT_656 CUT ", ROUND_SCALE=true, CACHE=strided, LIMIT=none, CACHE2=none, INDEX2=none, LIMIT2=none, "    \
                           "PS=64, B=" B ", SQ=2, HQ=" HQ ", PAGES=" PAGES ", TOPK=" TOPK ", P=" P ", scale=0.0417",   \
            TARGET, SECONDS, BASELINE_NONE, NULL, 0                                                                    \
    }
#define MLA_PREFILL(NAME, SKV, TARGET)                                                                                 \
    {                                                                                                                  \
        "mla prefill " NAME, "mla/prefill.tile", "mla_prefill_sparse",                                                 \
            "D=576, SINK=none, LIMIT=none, END=none, S=4096, HQ=128, "                                                 \
            "TOPK=2048, SKV=" SKV ", scale=0.0417",                                                                    \
            TARGET, OPERATIONS, BASELINE_NONE, NULL, 0                                                                 \
    }
#define MEMORY(NAME, FILE, KERNEL, VALUES)                                                                             \
    {                                                                                                                  \
        "memory " NAME, FILE, KERNEL, VALUES, 0.9, OF_CEILING, BASELINE_PROCESS, NULL, 0                               \
    }

static const Row cuda_rows[] = {
    GEMMS("bf16", "T=bf16", "64"),
    GEMMS("f16", "T=f16", "64"),
    GEMMS("e4m3", "T=e4m3, TC=bf16", "128"),
    GEMMS("i8", "T=i8, TC=i32, ACC=i32", "128"),
    ATTENTION("B8 H32 S4096", "128", "false", "8", "32", "32", "4096", 1.05),
    ATTENTION("B8 H32 S4096 causal", "128", "true", "8", "32", "32", "4096", 1.05),
    ATTENTION("B2 H32 S8192", "128", "false", "2", "32", "32", "8192", 1.05),
    ATTENTION("B2 H32 S8192 causal", "128", "true", "2", "32", "32", "8192", 1.05),
    ATTENTION("B1 H16 S16384", "128", "false", "1", "16", "16", "16384", 1.0),
    ATTENTION("B1 H16 S16384 causal", "128", "true", "1", "16", "16", "16384", 1.05),
    ATTENTION("B2 H64/8 S8192", "128", "false", "2", "64", "8", "8192", 1.05),
    ATTENTION("B2 H64/8 S8192 causal", "128", "true", "2", "64", "8", "8192", 1.05),
    ATTENTION("B1 H32 S1024", "128", "false", "1", "32", "32", "1024", 1.0),
    ATTENTION("B8 H32 S4096 D64", "64", "false", "8", "32", "32", "4096", 1.0),
    ATTENTION("B8 H32 S4096 D64 causal", "64", "true", "8", "32", "32", "4096", 1.0),
    BACKWARD("B8 H32 S4096", "128", "false", "8", "32", "32", "4096", 1.13),
    BACKWARD("B8 H32 S4096 causal", "128", "true", "8", "32", "32", "4096", 1.06),
    BACKWARD("B2 H32 S8192", "128", "false", "2", "32", "32", "8192", 1.12),
    BACKWARD("B2 H32 S8192 causal", "128", "true", "2", "32", "32", "8192", 1.07),
    BACKWARD("B1 H16 S16384", "128", "false", "1", "16", "16", "16384", 1.12),
    BACKWARD("B1 H16 S16384 causal", "128", "true", "1", "16", "16", "16384", 1.0),
    BACKWARD("B2 H64/8 S8192", "128", "false", "2", "64", "8", "8192", 1.12),
    BACKWARD("B2 H64/8 S8192 causal", "128", "true", "2", "64", "8", "8192", 1.07),
    BACKWARD("B1 H32 S1024", "128", "false", "1", "32", "32", "1024", 1.0),
    BACKWARD("B8 H32 S4096 D64", "64", "false", "8", "32", "32", "4096", 1.0),
    BACKWARD("B8 H32 S4096 D64 causal", "64", "true", "8", "32", "32", "4096", 1.0),
    MEMORY("add f32", "elementwise/add.tile", "add", "T=f32, M=16384, N=8192, MB=16384, NB=8192"),
    MEMORY("add bf16", "elementwise/add.tile", "add", "T=bf16, M=16384, N=16384, MB=16384, NB=16384"),
    MEMORY("rms_norm 4096", "norm/rms_norm.tile", "rms_norm", "T=bf16, WIDTH=4096, BM=2, M=65536, N=4096, eps=1e-6"),
    MEMORY("rms_norm 8192", "norm/rms_norm.tile", "rms_norm", "T=bf16, WIDTH=8192, M=32768, N=8192, eps=1e-6"),
    MEMORY("rms_norm_long 16384", "norm/rms_norm.tile", "rms_norm_long",
           "T=bf16, BN=16384, M=16384, N=16384, eps=1e-6"),
    MEMORY("layer_norm 4096", "norm/layer_norm.tile", "layer_norm",
           "T=bf16, WIDTH=4096, BM=2, M=65536, N=4096, eps=1e-5"),
    MEMORY("softmax 4096", "norm/softmax.tile", "softmax", "T=bf16, TY=bf16, M=65536, N=4096"),
    MEMORY("softmax 32768", "norm/softmax.tile", "softmax", "T=bf16, TY=bf16, BN=32768, M=8192, N=32768"),
    MEMORY("cast per group", "cast/fp8.tile", "cast_per_group", "T=bf16, BM=32, M=65536, N=4096"),
    MEMORY("cast per token", "cast/fp8.tile", "cast_per_token", "T=bf16, BN=4096, M=65536, N=4096"),
    MEMORY("gemv bf16", "gemm/gemv.tile", "gemv", "T=bf16, N=32768, K=8192"),
    MEMORY("gemv split bf16", "gemm/gemv.tile", "gemv_split", "T=bf16, N=4096, K=65536, splits=4"),
    MEMORY("gemv transposed bf16", "gemm/gemv.tile", "gemv_transposed", "T=bf16, BK=64, N=65536, K=4096"),
    MEMORY("hadamard 4096", "transform/hadamard.tile", "hadamard", "T=bf16, N=4096, M=65536"),
    MEMORY("decode G4", "attention/decode.tile", "flash_decode",
           "T=bf16, D=128, DV=128, G=4, BN=64, Mask=none, LENGTH=none, SINK=none, LSE=none, B=64, S=8192, "
           "H=32, HKV=8, splits=4, scale=0.088"),
    MEMORY("decode G8 B8", "attention/decode.tile", "flash_decode",
           "T=bf16, D=128, DV=128, G=8, BN=64, Mask=none, LENGTH=none, SINK=none, LSE=none, B=8, S=32768, "
           "H=64, HKV=8, splits=16, scale=0.088"),
    MLA_128("4096", "192", "10240", 4096, 532e12, 581e12, 596e12),
    MLA_128("8192", "384", "20480", 8192, 619e12, 637e12, 655e12),
    MLA_128("16384", "768", "40960", 16384, 655e12, 705e12, 689e12),
    MLA_128("32768", "1536", "81920", 32768, 687e12, 683e12, 668e12),
    MLA("b128 s4096 h64", "false", "128", "1", "64", "192", "10240", "132", 4096, 0.92, OF_CEILING),
    MLA("b128 s4096 h64 even", "false", "128", "1", "64", "64", "8192", "132", 0, 0.92, OF_CEILING),
    MLA("b64 s8192 h16", "false", "64", "1", "16", "128", "8192", "132", 0, 0.92, OF_CEILING),
    MLA("b1 s32768", "false, PT=f16", "1", "1", "128", "512", "512", "66", 0, 53.0e-6, SECONDS),
    MLA("b4 s16384", "false, PT=f16", "4", "1", "128", "256", "1024", "66", 0, 58.6e-6, SECONDS),
    MLA_SPARSE("b128 top 2048", "PAIR=2", "128", "1", "8192", "2048", "66", 383e12, OPERATIONS),
    MLA_SPARSE("b128 q2 top 2048", "PAIR=2", "128", "2", "8192", "2048", "33", 396e12, OPERATIONS),
    MLA_SPARSE("b64 q2 top 16384", "PAIR=2", "64", "2", "32768", "16384", "33", 431e12, OPERATIONS),
    MLA_SPARSE("b2 top 2048", "PAIR=1, HALVES=2, PT=f16", "2", "1", "1024", "2048", "66", 20.1e-6, SECONDS),
    MLA_PAGES("b2 top 2048", "PAIR=2, PT=f16", "2", "128", "1024", "2048", "33", 24.7e-6),
    MLA_PAGES("b64 top 2048", "PAIR=2", "64", "128", "32768", "2048", "33", 186e-6),
    MLA_PAGES("b74 top 2048", "PAIR=2", "74", "128", "37888", "2048", "33", 225e-6),
    MLA_PAGES("b128 top 2048", "PAIR=2", "128", "128", "65536", "2048", "33", 364e-6),
    MLA_PAGES("b2 top 2048 h64", "PAIR=1, HALVES=2, PT=f16", "2", "64", "1024", "2048", "66", 22.7e-6),
    MLA_PAGES("b64 top 2048 h64", "PAIR=1", "64", "64", "32768", "2048", "66", 120e-6),
    MLA_PAGES("b148 top 16384 h64", "PAIR=1", "148", "64", "75776", "16384", "66", 1863e-6),
    MLA_PAGES("b148 top 16384 h128", "PAIR=2", "148", "128", "75776", "16384", "33", 3029e-6),
    MLA_PREFILL("s8192", "8192", 666e12),
    MLA_PREFILL("s32768", "32768", 587e12),
    MLA_PREFILL("s131072", "131072", 554e12),
};

const Row *bench_rows(bool is_cpu, int *n)
{
    static Row rows[COUNT(cuda_rows) + OPERATOR_ROWS_MAX];
    int operators;
    const Row *const more = operator_rows(is_cpu, &operators);
    const int kernels = is_cpu ? COUNT(cpu_rows) : COUNT(cuda_rows);
    memcpy(rows, is_cpu ? cpu_rows : cuda_rows, sizeof *rows * (size_t)kernels);
    memcpy(rows + kernels, more, sizeof *rows * (size_t)operators);
    *n = kernels + operators;
    return rows;
}
