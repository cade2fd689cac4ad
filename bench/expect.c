// SPDX-License-Identifier: MIT
// expect.c - what of a row's results is compared with its reference, and the work of a launch.
//
// All of a reference takes hours at these sizes. Some dozen of its instances, a row or an element each, drawn anew for
// each row, catch a kernel that is wrong. An instance of the gradients' reference is a head, which takes minutes: rows of
// them are those of the references of kernels that make dQ, and dK and dV.
#include "bench.h"

// ---- products

static double gemm_operations(const BenchCase *c)
{
    return 2.0 * (double)bench_integer(c, "M", 0) * (double)bench_integer(c, "N", 0) * (double)bench_integer(c, "K", 0);
}

// ---- attention

static double attention_operations(const BenchCase *c)
{
    const double all = 4.0 * (double)bench_integer(c, "B", 1) * (double)bench_integer(c, "H", 1) *
                       (double)bench_integer(c, "S", 1) * (double)bench_integer(c, "SKV", 1) *
                       (double)bench_integer(c, "D", 128);
    return bench_integer(c, "CAUSAL", 0) ? all / 2 : all;
}

static double decode_operations(const BenchCase *c)
{
    return 4.0 * (double)bench_integer(c, "B", 1) * (double)bench_integer(c, "H", 1) *
           (double)bench_integer(c, "S", 1) * (double)bench_integer(c, "D", 128);
}

static double backward_operations(const BenchCase *c) { return 2.5 * attention_operations(c); }

// ---- the table

static const ByParts backward_by_rows = { .between = { "Base", "Delta" },
                                          .like = "LSE",
                                          .parts = { { "attention_backward_rows", NULL, true },
                                                     { "attention_backward_dq", NULL, false },
                                                     { "attention_backward_main", "dQ", false } } };

// clang-format off
static const Expectation expectations[] = {
    { "gemm_nt",            NULL,                     200, gemm_operations,           NULL },
    { "attention_forward",  NULL,                     16,  attention_operations,      NULL },
    { "flash_decode",       NULL,                     16,  decode_operations,         NULL },
    { "attention_backward", NULL,                     16,  backward_operations,       &backward_by_rows },
    { "mla_decode_planned", NULL,                     16,  latent_operations,         NULL },
    { "mla_decode_dense",   "mla_decode_planned",     16,  latent_operations,         NULL },
    { "mla_decode_fp8",     "mla_decode_fp8_planned", 4,   latent_operations,         NULL }, // of 128 heads each
    { "mla_prefill_sparse", NULL,                     16,  latent_prefill_operations, NULL },
    { "gemv",               NULL,                     64,  NULL,                      NULL },
    { "gemv_split",         NULL,                     64,  NULL,                      NULL },
    { "gemv_transposed",    NULL,                     64,  NULL,                      NULL },
    { "add",                NULL,                     200, NULL,                      NULL },
    { "rms_norm",           NULL,                     64,  NULL,                      NULL },
    { "rms_norm_long",      NULL,                     64,  NULL,                      NULL },
    { "layer_norm",         NULL,                     64,  NULL,                      NULL },
    { "softmax",            NULL,                     64,  NULL,                      NULL },
    { "cast_per_group",     NULL,                     200, NULL,                      NULL },
    { "cast_per_token",     NULL,                     64,  NULL,                      NULL },
    { "hadamard",           NULL,                     64,  NULL,                      NULL },
};
// clang-format on

const Expectation *find_expectation(const char *kernel)
{
    for (int i = 0; i < COUNT(expectations); i++)
        if (strcmp(expectations[i].kernel, kernel) == 0) return &expectations[i];
    return NULL;
}

// Every tensor once, twice if in and out; of latent decoding what the requests use of the cache.
double bench_bytes(const BenchCase *c)
{
    double sum = 0;
    if (bench_tensor(c, "CACHE")) return latent_bytes(c);
    for (int i = 0; i < c->build.kernel->plan->n_params; i++)
        if (c->tensors[i].name)
            sum += (double)kiln_tensor_bytes(&c->tensors[i].tensor) *
                   (c->build.kernel->plan->params[i].access == ACCESS_INOUT ? 2 : 1);
    return sum;
}
